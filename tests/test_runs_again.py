"""A graph that raises when it has written to its inputs or drawn random numbers: the program runs again in the world as
it was before.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import random

import pytest
import torch
import torch.nn.functional as F

import jit
from codegen.aot import function
from codegen.residual import assemble
from tests.differential import COUNTING, check, tensors

X, = tensors(3, 4)
BACKENDS = ["eager", "aot_eager", "default"]
BAD = torch.tensor([0, 7])
GOOD = torch.tensor([0, 1])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.calls = 0
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.total += 1
        return self.norm(self.linear(x))


def world(way=0):
    torch.manual_seed(way)
    return torch.arange(12.).reshape(3, 4) + way, Net(), [], BAD


def same(program, backend, **options):
    check(program, backend=backend, tolerance=(1e-4, 1e-4) if backend == "default" else None, **options)


#: What can't be done: one for each kind of operation that raises for some values.
RAISING = {
    "index": lambda x, i: x[i],
    "item": lambda x, i: x.index_put((i,), x[0]),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(1, i[None]),
    "take": lambda x, i: x.take(i * 9),
    "scatter": lambda x, i: torch.zeros(3, 4).scatter_(1, i[None], 1.0),
    "index_add": lambda x, i: torch.zeros(3, 4).index_add_(0, i, x[:2]),
    "embedding": lambda x, i: F.embedding(i, x),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:2], i),
    "one_hot": lambda x, i: F.one_hot(i, 3),
    "bincount": lambda x, i: torch.bincount(-i),
    "division": lambda x, i: i // (i * 0),
    "remainder": lambda x, i: i % (i * 0),
    "rounded": lambda x, i: torch.div(i, i * 0, rounding_mode="trunc"),
    "cholesky": lambda x, i: torch.linalg.cholesky(-torch.eye(3) * x[0, 0].abs()),
    "inverse": lambda x, i: torch.linalg.inv(x[:3, :3] * 0),
    "solve": lambda x, i: torch.linalg.solve(x[:3, :3] * 0, x),
    "eigh": lambda x, i: torch.linalg.eigh(x[:3, :3] * float("nan")),
    "multinomial": lambda x, i: torch.multinomial(x * 0 - 1, 2),
    "bernoulli": lambda x, i: torch.bernoulli(x * 0 + 5),
    "stored": lambda x, i: torch.zeros(3).index_put_((i,), x[0, :2]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("divide", [lambda a, b: a // b, lambda a, b: a % b, divmod, pow], ids="floor rest both power".split())
def test_arithmetic_of_ints_of_tensors(divide, backend):
    def program(x, i, seen):
        y = x * 2
        try:
            number = divide(int(i[1]), int(i[0]))
        except ZeroDivisionError as error:
            seen.append(str(error))
            number = 1
        return y, number

    check(program, X, torch.tensor([0, 7]), [], changed=(X, torch.tensor([2, 7]), []), backend=backend, nodes=False)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", RAISING)
def test_what_was_written_and_drawn_before(what, backend):
    raising = RAISING[what]

    def program(x, net, seen, i):
        seen.append(torch.rand(2))
        x.mul_(2)
        seen.append(net(x).sum())
        try:
            seen.append(raising(x, i))
        except (IndexError, RuntimeError) as error:
            seen.append(type(error))
            x.add_(1)
        return F.dropout(x, 0.5), x

    same(program, backend, make=world, changed=lambda: world(1), traceback="full")


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", RAISING)
def test_the_error_leaves_the_program(what, backend):
    raising = RAISING[what]

    @torch.no_grad()
    def program(x, net, seen, i):
        net.calls += 1
        x.sub_(1)
        seen.append(F.dropout(x, 0.5))
        y = raising(x, i)
        seen.append("not reached")
        return y

    same(program, backend, make=world, changed=lambda: world(1), traceback="full")


def _scaled(x, net, seen, i):
    x.mul_(net.linear.weight[0])
    seen.append(x)
    return x[i]


def _non_leaf(x, net, seen, i):
    y = net.held
    y.mul_(2)
    seen.append(y.sum())
    return y[i]


def _optimizer(x, net, seen, i):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for k in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), i.new_tensor([0, 1, 2 + 7 * k]))
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())


def _accumulated(x, net, seen, i):
    for k in range(2):
        loss = F.cross_entropy(net(x), i.new_tensor([0, 1, 2 + 7 * k]))
        loss.backward()
        seen.append((loss.detach(), net.linear.weight.grad.sum()))


def _into_a_view(x, net, seen, i):
    x[0].add_(1)
    x.view(-1)[3:5].zero_()
    seen.append(1)
    return x[1][i]


def _rows(x, net, seen, i):
    x.index_copy_(0, i[:1], x[1:2] * 3)
    seen.append(1)
    x.index_copy_(0, i, x[1:] * 3)
    return x + 1


def _out(x, net, seen, i):
    torch.add(x, 1, out=x)
    seen.append(1)
    return x.gather(1, i[None])


def _in_inference_mode(x, net, seen, i):
    with torch.inference_mode():
        x.add_(1)
        seen.append(1)
        return x[i]


def _seeded(x, net, seen, i):
    torch.manual_seed(5)
    seen.append(torch.rand(2))
    x.uniform_()
    return x[i]


def _generator(x, net, seen, i):
    seen.append(torch.rand(2, generator=net.generator))
    x.add_(1)
    return x[i]


def _lookups(x, net, seen, i):
    """The second one can't raise; what is written between them is still put back."""
    x[i[:1]] = 1
    seen.append(1)
    x[i[:1]] = 2
    return x[i]


def _changed_index(x, net, seen, i):
    """The same index says something else by then."""
    i.sub_(6).clamp_(min=0)
    seen.append(x[i])
    i.add_(6)
    return x[i]


def _history_that_comes_later(x, net, seen, i):
    torch.add(x, 1, out=net.rows)
    seen.append(1)
    y = net.rows[i]
    x.add_(net.linear.weight[0])
    net.linear.weight.data.add_(1)
    return y, x


WRITING = [
    _scaled, _non_leaf, _optimizer, _accumulated, _into_a_view, _rows, _out, _in_inference_mode, _seeded, _generator,
    _lookups, _changed_index, _history_that_comes_later,
]


def _world(way=0):
    x, net, seen, i = world(way)
    net.held = net.linear.weight * 2
    net.rows = torch.ones(3, 4)
    net.generator = torch.Generator().manual_seed(way)
    return x, net, seen, i.clone()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", WRITING)
def test_ways_to_write(function, backend, handled):
    def program(x, net, seen, i):
        try:
            return function(x, net, seen, i)
        except IndexError as error:
            if not handled:
                raise
            seen.append(str(error))
            return x * 2, x.requires_grad

    same(program, backend, make=_world, changed=lambda: _world(1), nodes=False)


def doubled(x, i):
    x.mul_(2)
    try:
        return x[i]
    except IndexError:
        return x * 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_has_its_history_and_its_version_again(backend):
    seen = []
    for f in (doubled, jit.compile(doubled, backend=backend)):
        for i in (BAD, GOOD, BAD):
            w = torch.ones(3, requires_grad=True)
            x = w * 3
            y = x * x if i is GOOD else x * 1
            f(x, i).sum().backward()
            node = x.grad_fn
            names = (node.name(), node.next_functions[0][0].name()) if backend == "eager" else ()
            seen.append((x._version, names, w.grad.tolist(), y.sum().item()))
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def test_what_can_not_be_put_back_is_said():
    """A view of what has a history: the error leaves the function, with a note."""
    f = jit.compile(doubled, backend="eager")
    x = (torch.ones(3, 3, requires_grad=True) * 2)[0]
    if COUNTING:
        with pytest.raises(IndexError) as caught:
            f(x, BAD)
        assert ["can't be put back" in note for note in caught.value.__notes__] == [True]


@pytest.mark.skipif(not COUNTING, reason="graphs are others")
@pytest.mark.parametrize(("program", "kept"), [
    (lambda x, i: x.mul_(2)[i], True),
    (lambda x, i: (x[i], x.mul_(2)), False),
    (lambda x, i: x.mul_(2) + 1, False),
    (lambda x, i: x.mul_(2)[1:], False),
    (lambda x, i: x.mul_(2) / i.sum(), False),
    (lambda x, i: x.mul_(2).long() // 3, False),
    (lambda x, i: (x[i], x.clone().mul_(2)[i]), False),
])
def test_only_graphs_that_write_and_then_may_raise_keep_their_inputs(program, kept, monkeypatch):
    copies = []
    monkeypatch.setattr(assemble, "Before", lambda *given: copies.append(given))
    jit.compile(program, backend="eager")(X.clone(), GOOD)
    assert len(copies) == kept


def test_a_graph_that_is_interpreted(monkeypatch):
    """Where inputs lie otherwise than they did, the captured program runs node by node; how far it came is known."""

    def program(x, y, z, seed):
        random.seed(seed)
        before = z.sin().sum()
        n = random.randint(0, 3)
        x.mul_(z.split([n, len(z) - n])[0].shape[0] + 1)
        return y + before, random.random(), torch.rand(1)

    def given(drawn):
        whole = torch.arange(24.0).view(3, 8)
        return whole[:, 1:3], whole[:, :4], torch.ones(5, 4), next(s for s in range(99) if random.Random(s).randint(0, 3) == drawn)

    compiled = jit.compile(program, backend="aot_eager")
    compiled(*given(2))
    monkeypatch.setattr(function, "counters", lambda *_: None)
    found = []
    for run in (program, compiled):
        torch.manual_seed(0)
        args = given(0)
        found.append((*run(*args), *args))
    assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(*found, strict=True))
