"""Results made of one another: each is what eager's is to hooks, `retain_grad` and `autograd.grad` between them."""

import gc
import weakref
from itertools import product

import pytest
import torch

from codegen import _C
from codegen.aot.function import Settings, compile_program
from codegen.aot.partition import min_cut_partition
from codegen.aot.stages import texts

BACKWARDS = torch.ones(2, 2)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * torch.ones_like(ctx.saved_tensors[0])


def chain(x, w):
    y = x * w
    z = y.exp()
    return [y, z, (z * y).sum()]


def reversed_chain(x, w):
    y = (x @ w).tanh()
    z = y * y
    return [z.sin(), z, y]


def loss_and_logits(x, w):
    logits = x @ w
    return [torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1])), logits]


def between(x, w):
    h = (x * w).sin()  # nobody sees it
    y = h * 2
    return [y, y * h, h.sum() * x]


def many(x, w):
    results = [x * w]
    for _ in range(6):
        results.append((results[-1] * w).tanh())
    return results


def diamond(x, w):
    y = x * w
    a, b = y.sin(), y.cos()
    return [y, a, b, a * b * x]


def through_a_view(x, w):
    y = (x * w).view(4)
    return [y, y * y]


def through_views_of_one(x, w):
    a, b = (x @ w).unbind()
    return [a, b, a * b, a]


def view_of_an_input(x, w):
    v = (x * 1).t()
    u = x.view(-1)
    return [u, u * w.view(-1), v, v.sum() * u]


def base_and_view(x, w):
    base = x.sin()
    v = base[0]
    return [v, base * w, v.exp()]


def hidden_base(x, w):
    base = x.sin()
    return [base[0], base[1], (base * w).sum()]


def writes(x, w):
    y = x * 1
    y.mul_(w)
    z = y.exp()
    y.add_(z)
    return [y, z, (y * z).sum()]


def residual(x, w):
    """Derivatives of the last would go through all the others' if they did not share them."""
    stream, seen = x, []
    for _ in range(4):
        hidden = (stream @ w).tanh()
        seen.append(hidden * 2)
        stream = stream + hidden.sin() + seen[-1]
    return [*seen, stream.sum()]


def slices(x, w):
    """One operation's outputs on two levels."""
    q, k = (x @ w).split(1)
    k = k.exp()
    return [k, (q.exp() * k).sum(), q.sin() * x]


def custom(x, w):
    y = Doubled.apply(x * w)
    return [y, Doubled.apply(y) * y]


def detached_between(x, w):
    y = x * w
    return [y, y.detach() * y, (y * 3).detach()]


def twice(x, w):
    y = x * w
    return [y, y, y.sum()]


def expanded(x, w):
    y = (x * w).sum(0)
    return [y.expand(3, 2), y, y.expand(3, 2) * 2]


def random(x, w):
    y = torch.nn.functional.dropout(x * w, 0.5)
    return [y, torch.nn.functional.dropout(y * 3, 0.5) * y]


PROGRAMS = [
    chain, reversed_chain, loss_and_logits, between, many, diamond, through_a_view, through_views_of_one,
    view_of_an_input, base_and_view, hidden_base, writes, residual, slices, custom, detached_between, twice, expanded, random,
]


def make():
    torch.manual_seed(3)
    return torch.randn(2, 2, requires_grad=True), torch.randn(2, 2, requires_grad=True)


def ones(results):
    return [torch.ones_like(r) for r in results]


def said(call):
    """What it gives, or that it raises."""
    try:
        return call()
    except RuntimeError as error:
        return str(error).split("\n")[0][:60]


def between_all(results, inputs, **options):
    differentiable = [r for r in results if r.requires_grad]
    return [
        said(lambda r=r, s=s: torch.autograd.grad(r, s, torch.ones_like(r), allow_unused=True, retain_graph=True, **options))
        for r, s in product(differentiable, [*differentiable, *inputs])
    ]


def second(results, inputs):
    found = []
    differentiable = [r for r in results if r.requires_grad]
    for r, s in product(differentiable, [*differentiable, *inputs]):
        first, = torch.autograd.grad(r, s, torch.ones_like(r), allow_unused=True, create_graph=True)
        if first is not None and first.requires_grad:
            for t in [*differentiable, *inputs]:
                found.append(torch.autograd.grad(first.sum(), t, allow_unused=True, retain_graph=True))
    return found


def retained(results, inputs):
    for r in results:
        if r.requires_grad:
            r.retain_grad()
    total = sum(r.sum() for r in results if r.requires_grad)
    total.backward()
    return [r.grad for r in results if r.requires_grad] + [i.grad for i in inputs]


def hooked(results, inputs):
    seen = []

    def hook(grad):
        seen.append(grad.clone())
        return grad * 2

    handles = [r.register_hook(hook) for r in results if r.requires_grad]
    handles[0].remove()
    sum(r.sum() for r in results if r.requires_grad).backward()
    return [i.grad for i in inputs], sorted(g.sum().item() for g in seen)


def one_after_the_other(results, inputs):
    """Up to the first that eager autograd may refuse, for what several share is gone."""
    found = []
    for r in results:
        if r.requires_grad:
            if said(r.sum().backward) is not None:
                break
            found.append([None if i.grad is None else i.grad.clone() for i in inputs])
    return found


@pytest.mark.sampled(12)
@pytest.mark.parametrize("partition", [None, min_cut_partition], ids=["default", "min cut"])
@pytest.mark.parametrize("look", [between_all, second, retained, hooked, one_after_the_other])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_as_eager(program, look, partition):
    settings = Settings() if partition is None else Settings(partition=partition)
    compiled = compile_program(program, make(), settings)
    for _ in range(2):
        found = []
        for run in (program, compiled):
            inputs = make()
            torch.manual_seed(1)
            found.append(look(run(*inputs), inputs))
        theirs, ours = found
        torch.testing.assert_close(ours[: len(theirs)], theirs)


def updated(x, w, buffer):
    buffer.mul_(2).add_(x * w)
    y = buffer * x
    return [y, (y * buffer).sum()]


def updated_view(x, w, buffer):
    buffer[0].copy_(x[0] * w[0])
    return [buffer * w, buffer[1]]


def turned(x, w, buffer):
    y = buffer * 2 + x
    buffer.t_()
    return [y, buffer @ y]


def written_after_use(x, w, buffer):
    y = buffer + x
    v = buffer.view(-1)
    buffer.add_(y.sin())
    return [y, y * w, v, v * y.view(-1)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("look", [between_all, second, retained, one_after_the_other])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("program", [updated, updated_view, turned, written_after_use], ids=lambda p: p.__name__)
def test_updated_inputs(program, tracked, look):
    def start():
        leaf = torch.linspace(1, 2, 4).view(2, 2).requires_grad_(tracked)
        return (*make(), leaf.clone()), leaf

    compiled = compile_program(program, start()[0], Settings())
    found = []
    for run in (program, compiled):
        inputs, leaf = start()
        results = run(*inputs)
        found.append((look([*results, inputs[2]], (*inputs[:2], *([leaf] if tracked else []))), inputs))
    (theirs, _), (ours, _) = found
    torch.testing.assert_close(ours[: len(theirs)], theirs)
    torch.testing.assert_close(found[1][1], found[0][1])


def test_inputs_that_are_views():
    def program(a, b, w):
        a.mul_(w[0])
        y = a * b
        return [y, y.sum() * b]

    def start():
        leaf = torch.linspace(1, 2, 4).view(2, 2).requires_grad_()
        base = leaf.clone()
        return leaf, base, (base[0], base[1], torch.ones(2, 2, requires_grad=True) * 3)

    compiled = compile_program(program, start()[2], Settings())
    found = []
    for run in (program, compiled):
        leaf, base, inputs = start()
        found.append(between_all([*run(*inputs), *inputs, base], [leaf]))
    torch.testing.assert_close(found[1], found[0])


def test_one_node_for_what_is_made_of_the_same():
    def program(x, w):
        return [x * w, x + w, x.sin() + w]

    compiled = compile_program(program, make(), Settings())
    assert len(compiled.stages.traced.levels) == 1
    results = compiled(*make())
    assert len({r.grad_fn for r in results}) == 3 and len({r.grad_fn.next_functions for r in results}) == 3
    assert len({r.grad_fn.next_functions[0][0] for r in results}) == 1


def test_nothing_is_differentiated_twice():
    compiled = compile_program(residual, make(), Settings())
    count = [str(node.target) for node in compiled.stages.backward.graph.nodes].count("aten.tanh_backward.default")
    assert count == 4 and len(compiled.stages.traced.levels) == 5
    assert "link 0 of level 0" in texts(compiled.stages)["aot.txt"]


def test_a_level_saves_its_own():
    compiled = compile_program(loss_and_logits, make(), Settings())
    logits, loss = compiled.stages.traced.levels
    assert [carrier.of.output for carrier in logits.carriers] == [1]
    assert [place.output for place in loss.cuts] == [1] and not loss.inputs
    assert "output 1; tangent strides [2, 1]; gradients for primals_1, primals_2" in texts(compiled.stages)["aot.txt"]
    inputs = make()
    result, shown = compiled(*inputs)
    shown.sum().backward()  # the loss' own backward is still to come
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.backward()


def test_nothing_is_held():
    compiled = compile_program(many, make(), Settings())
    results = compiled(*make())
    results[-1].sum().backward(retain_graph=True)
    held = [weakref.ref(r) for r in results]
    del results
    gc.collect()
    assert not any(ref() is not None for ref in held)


# --- grafts -----------------------------------------------------------------------------------------------------------
def test_a_graft_is_seen_by_what_was_made():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = (y * y).exp() * x
    other = torch.ones(2, requires_grad=True)
    _C.graft((y,), (other,), (z,), ())
    into_other, into_x = torch.autograd.grad(z.sum(), (other, x))
    torch.testing.assert_close(into_other, 2 * y.detach() * (y.detach() ** 2).exp())
    torch.testing.assert_close(into_x, (y.detach() ** 2).exp())


def test_a_graft_onto_a_long_history():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    z = y.exp()
    long = torch.ones(2, requires_grad=True)
    for _ in range(50):
        long = long * 1.0
    _C.graft((y,), (long,), (z,), ())
    first, = torch.autograd.grad(z.sum(), long, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), long), (y.detach().exp(),))


@pytest.mark.parametrize("arguments, error", [
    (((torch.ones(1),), (), (), ()), ValueError), (((1,), (1,), (), ()), TypeError), (((), (), [], ()), TypeError),
    ((((1, 2),), (), (), ()), TypeError), (((),), TypeError),
], ids=["more", "no tensors", "lists", "no edge", "one argument"])
def test_grafts_that_are_none(arguments, error):
    with pytest.raises(error, match="graft"):
        _C.graft(*arguments)
