"""Sizes that differ from call to call are noticed: the second compilation serves all that come after."""
import logging
import random
import re

import pytest
import torch
from torch import nn

import jit
from tests.differential import COUNTING, Counting, check
from tests.symbolic.test_dynamic_sizes import CASES, X

THROUGH_KERNELS = [name for number, name in enumerate(CASES) if number % 4 == 0]  # the others are much like these


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name, backend", [*((name, "eager") for name in CASES), *((name, "default") for name in THROUGH_KERNELS)])
def test_program(name, backend):
    fn, calls, graphs = CASES[name]
    check(fn, *calls[0], changed=list(calls[1:]), graphs=None, backend=backend, tolerance=(1e-4, 1e-5))


#: What takes more than one compilation beside those for all sizes: a size that stays the same is compiled as it is
#: until it changes, too.
LATER = {"causal": 1, "unpacked": 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_compilations(name):
    fn, calls, graphs = CASES[name]
    once = Counting()
    compiled = jit.compile(fn, backend=once)
    for call in [*calls, *calls]:
        try:
            compiled(*call)
        except Exception:
            pass  # compared above
    if COUNTING:
        assert graphs <= len(once.graphs) + 1 and len(once.graphs) <= graphs + 1 + LATER.get(name, 0)


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens, mask=None):
        x = self.embedding(tokens)
        x = self.layer(x, src_key_padding_mask=mask)
        return self.head(x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_training_over_many_sizes(backend, masked):
    rng, counter = random.Random(0), Counting(jit.backends.BACKENDS[backend])
    ours, theirs = Mixing(), Mixing()
    compiled = jit.compile(ours, backend=counter)
    for batch in (4, 7, 2, 9, 3, 3, 8):
        shape = batch, rng.randint(2, 30)
        tokens = torch.randint(50, shape)
        mask = torch.zeros(shape, dtype=torch.bool).index_fill_(1, torch.tensor([shape[1] - 1]), True) if masked else None
        losses = [model(tokens, mask).pow(2).mean() for model in (compiled, theirs)]
        torch.testing.assert_close(*losses)
        grads = [torch.autograd.grad(loss, list(model.parameters())) for loss, model in zip(losses, (ours, theirs), strict=True)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
    if COUNTING:
        assert len(counter.graphs) == 2


def test_all_that_differs_is_noticed_at_once():
    def program(x, y, pair, n):
        return x.sum() + y.sum() * n + pair[0].sum() - pair[1].mean()

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for n in (3, 4, 7, 9):
        args = X(n, 5), X(2, n + 1), [X(n), X(3)], n
        torch.testing.assert_close(compiled(*args), program(*args))
    counter.expect(2)
    text = "\n".join(str(guard) for guard in jit.explain(program)(X(3, 5), X(2, 4), [X(3), X(3)], 3).guards)
    assert "(3, 5)" in text or "[3, 5]" in text


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_kernels_where_a_size_is_noticed_late(backend):
    """What came before the first tensor that varies has sizes of its own."""

    def program(w, x, n):
        return (w * 2).relu().unsqueeze(0) + x[:n] * n

    compiled = jit.compile(program, backend=backend)
    for n in (3, 4, 7, 5):
        args = X(4), X(9 if n == 3 else n + 2, 4), n
        torch.testing.assert_close(compiled(*args), program(*args))
    states = [entry for frame in compiled.debug_state().frames for entry in frame.entries]
    if COUNTING:
        assert len(states) == 2 and all(state.graphs for state in states)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_beside_a_size(dynamic):
    """Silently wrong before: the least of a number that varies and a size took the number as it came."""

    def program(x, n):
        return min(n, x.shape[0]), max(n, x.shape[0]), x[min(n, x.shape[0]) // 2 :]

    compiled = jit.compile(program, dynamic=dynamic)
    for size, n in ((2, 3), (2, 8), (9, 1), (5, 3), (5, 0), (7, -2), (4, -1), (9, 8), (3, 1)):
        assert str(compiled(X(size), n)) == str(program(X(size), n))


def test_dynamic_false_compiles_each():
    counter = Counting()
    compiled = jit.compile(lambda x: x + 1, dynamic=False, backend=counter)
    for n in (3, 4, 5):
        compiled(X(n, 2))
    counter.expect(3)


def test_what_varying_sizes_would_break_is_compiled_for_each():
    """A program that looks into a mask has one graph for each size, and not two for all."""

    def program(x, mask):
        return x * 2 if mask.all() else x - 1

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for n in (3, 4, 5):
        for value in (True, False):
            args = X(n), torch.full((n,), value)
            assert torch.equal(compiled(*args), program(*args))


def test_sizes_of_one_and_none_among_others():
    def program(x):
        return x * 2 + x.shape[0], x.sum(0)

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for n in (5, 1, 7, 0, 9, 1, 3, 0):
        for ours, theirs in zip(compiled(X(n, 3)), program(X(n, 3)), strict=True):
            assert torch.equal(ours, theirs)
    if COUNTING:
        assert len(counter.graphs) <= 4


def test_an_error_of_the_program_is_not_logged(caplog):
    compiled = jit.compile(lambda x, y: x @ y, dynamic=True)
    with caplog.at_level(logging.DEBUG), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        compiled(X(2, 3), X(4, 4))
    assert "failed while attempting" not in caplog.text


def test_the_log_says_what_is_compiled_for_one_size(monkeypatch, caplog):
    def program(x, y):
        if y.shape[0] > 3:
            jit.graph_break()
        return x + 1

    monkeypatch.setattr(jit.config, "logs", "dynamic")
    compiled = jit.compile(program)
    for n in (2, 3, 5):
        assert torch.equal(compiled(X(n), X(n)), X(n) + 1)
    assert "compiled for these numbers and sizes alone: " in caplog.text and "graph_break" in caplog.text


SHARING = {
    "a view of the other": lambda n: (lambda base: (base, base[1:1 + n]))(torch.arange(6.)),
    "views of one base": lambda n: (lambda base: (base[1:5], base[:n]))(torch.arange(6.)),
    "data of the other": lambda n: (lambda base: (base, base.data[:n]))(torch.arange(6.)),
    "one storage": lambda n: (lambda base: (base, torch.empty(0).set_(base.untyped_storage(), 1, (n,), (1,))))(torch.arange(6.)),
    "with a history": lambda n: (lambda base: (base, base[1:1 + n]))(torch.arange(6., requires_grad=True) * 1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("make", SHARING.values(), ids=SHARING)
def test_memory_that_a_tensor_whose_size_varies_shares_with_one_seen_before(make, dynamic):
    def program(x, v):
        x.add_(1)
        return v * 2

    check(program, make=lambda: make(3), changed=[lambda: make(2), lambda: make(4)], dynamic=dynamic, backend="default", nodes=False)


def test_memory_that_a_tensor_shares_with_one_that_was_resized():
    def program(x, v):
        x.add_(1)
        v.resize_(2)
        return v * 2

    check(program, make=lambda: SHARING["a view of the other"](3), changed=lambda: SHARING["a view of the other"](2), backend="default")


# --- numbers within containers ----------------------------------------------------------------------------------------
def _sized(x, size):
    return x.new_zeros(size) + 1, size, size[0] + 1, x[: size[0]], size is size


def _nested(x, size):
    (rows, _), columns = size
    return x[:rows, :columns] * rows


def _sliced(x, part):
    return x[part], part.stop, part, x[:, part.start : part.stop]


def _rectangle(x, parts):
    return x[parts].sum(), parts[0].start


def _momenta(x, betas):
    return x * betas[0] + betas[1], betas, 1 - betas[0]


@pytest.mark.parametrize("program, make", [
    (_sized, lambda n: (n, 4)),
    (_nested, lambda n: ((n, 7), n + 2)),
    (_sliced, lambda n: slice(1, n)),
    (_sliced, lambda n: slice(n - 2, n + 3, 2)),
    (_rectangle, lambda n: (slice(0, n), slice(n, 9))),
    (_momenta, lambda n: (n / 7, 0.999)),
])
def test_numbers_in_tuples_and_slices(program, make):
    worlds = [(torch.arange(90.0).view(9, 10), make(n)) for n in (3, 5, 4)]
    check(program, *worlds[0], changed=worlds[1:])
    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for x, given in worlds:
        assert torch.equal(compiled(x, given)[0], program(x, given)[0])
    counter.expect(2)


ROWS = {
    "one": lambda x, n: x[n] * 2,
    "of the last": lambda x, n: x[..., n] + n,
    "and a part": lambda x, n: x[n, :n] * 2,
    "part and one": lambda x, n: x[1:, n],
    "two": lambda x, n: x[n, n + 1] * 2,
    "and a new one": lambda x, n: x[None, (n + 1) // 2, None, 1:],
    "and two new ones": lambda x, n: x[:, None, n, None],
    "by tensor": lambda x, n: x[torch.tensor([0, 2]), n],
    "by a size": lambda x, n: x[x.shape[0] - n] + x[x.shape[0] // 2],
    "negative": lambda x, n: x[-n] * 2,
    "stored": lambda x, n: torch.zeros_like(x).index_copy(0, torch.tensor([1]), x[n : n + 1]).add_(x[:, n]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("name", ROWS)
def test_one_of_a_dimension_by_an_int_that_varies(name, backend):
    """Each position had a graph of its own."""
    program, counter = ROWS[name], Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    for n in (3, 4, 6, 1, 5):
        x = torch.arange(81.0).view(9, 9)
        ours, theirs = compiled(x, n), program(x, n)
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()
    counter.expect(2)
    with pytest.raises(IndexError) as theirs:
        program(X(2, 3), 7)
    with pytest.raises(IndexError, match=re.escape(str(theirs.value))):
        compiled(X(2, 3), 7)


@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("program", [
    lambda x, n: x[:n] * 2,
    lambda x, n: x.new_zeros(n, 9) + x[0],
    lambda x, n: x[:1].expand(n, 9) * n,
    lambda x, n: x.repeat(n, 1) / (30 // n),
    lambda x, n: torch.cat([x, x.new_ones(n, 9)]).sum(0),
    lambda x, n: torch.tril(x, n) + torch.arange(9) % n,
])
def test_an_int_of_one_among_others(program, backend):
    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    for n in (9, 5, 1, 4):
        x = torch.arange(99.0).view(11, 9)
        torch.testing.assert_close(compiled(x, n), program(x, n))
    counter.expect(2)


def test_an_int_that_varied_varies_beside_one_that_is_0():
    """What served all of its numbers is remembered, and not only the first number."""
    counter = Counting()
    compiled = jit.compile(lambda x, a, b: x[:a] * b, backend=counter)
    for a, b in ((4, 3), (5, 6), (0, 3), (0, 7), (0, 9)):
        x = torch.arange(9.0)
        assert torch.equal(compiled(x, a, b), x[:a] * b)
    counter.expect(3)
