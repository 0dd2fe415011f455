"""torch.cond where autograd follows: one node, as torch's own, with zeros for what the function that ran does not read."""
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import COUNTING, INNER, check, tensors

A, B = tensors(3, 4, count=2, requires_grad=True)
N = (-A).detach().requires_grad_()
BACKENDS = ("eager", "default")
LAYERS = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)


def operands(x, y):
    return torch.cond(x.sum() > 0, lambda a, b: (a * 2).sin(), lambda a, b: b.cos() * a, (x, y))


def one_is_not_read(x, y):
    return torch.cond(x.sum() > 0, lambda a, b: (a * 2).sin(), lambda a, b: a.cos(), (x, y))


def one_is_read_for_nothing(x, y):
    return torch.cond(x.sum() > 0, lambda a, b: (a * 2, b + 1)[0], lambda a, b: (a * 3, b + 2)[0], (x, y))


def closes_over(x, y):
    z = y * 2
    return torch.cond(x.sum() > 0, lambda: (x * 2).sin(), lambda: z.cos()), z


def many_results(x, y):
    return torch.cond(
        x.sum() > 0, lambda a, b: {"k": a + b, "l": [a * 2]}, lambda a, b: {"k": a - b, "l": [b * 3]}, (x, y)
    )


def results_of_data(x, y):
    data = y.detach()
    return torch.cond(
        x.sum() > 0, lambda a: (a * 2, data * 3), lambda a: (a.detach() * 3, data + 1), (x,)
    )


def no_history_at_all(x, y):
    return torch.cond(x.sum() > 0, lambda a: a.detach() * 2, lambda a: a.detach() * 3, (x,))


def twice(x, y):
    return torch.cond(x.sum() > 0, lambda a, b: a * b, lambda a, b: a - b, (x, x))


def nested(x, y):
    def inner(a, b):
        return torch.cond(a.max() > 0, lambda c: c * 2, lambda c: c.exp() * b, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a, b: b.cos() * a, (x, y))


def one_after_another(x, y):
    for _ in range(2):
        x = torch.cond(x.sum() > 0, lambda a, b: a.sin() - b, lambda a, b: a * 1.5 + b, (x, y))
    return x * y


def writes_its_own(x, y):
    def one(a):
        b = a * 2
        b.add_(1)
        return b * a

    return torch.cond(x.sum() > 0, one, lambda a: a * 3, (x,))


def with_branches_around(x, y):
    if x.sum() > 0:
        x = torch.cond(x.max() > 1, lambda a: a * 2, lambda a: a + y, (x,))
    else:
        x = x - 1
    return x * 2


def not_on(x, y):
    with torch.no_grad():
        z = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * 3, (x,))
    return z * y, z.requires_grad


ONE_GRAPH = [
    operands, one_is_not_read, closes_over, many_results, results_of_data,
    no_history_at_all, twice, nested, one_after_another, writes_its_own, with_branches_around, not_on,
]


def again(result, *args):
    """A second derivative there is none; and no two gradients, nor a gradient and what it came of, are one."""
    results = [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    with_gradient = [each for each in results if each.requires_grad]
    given = [torch.ones_like(each) for each in with_gradient]
    found = torch.autograd.grad(with_gradient, args, given, create_graph=True, allow_unused=True)
    at = [None if each is None else each.untyped_storage().data_ptr() for each in (*found, *given)]
    shared = [[one is other or one == other for other in at] for one in at]
    return found, [each is not None and each.requires_grad for each in found], shared


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    graphs = 1 if backend == "eager" else None
    check(program, A, B, changed=[(N, B)], graphs=graphs, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_derivatives_after(program, backend):
    check(program, A, B, changed=[(N, B)], then=again, backend=backend, tolerance=(1e-5, 1e-5))


def layers(x):
    return torch.cond(x.sum() > 0, lambda a: LAYERS[0](a).relu(), lambda a: LAYERS[1](a), (x,))


def layers_of_data(x):
    return torch.cond(x.sum() > 0, LAYERS[0], LAYERS[1], (x.detach(),)).square()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [layers, layers_of_data])
def test_layers(program, backend):
    """Not by way of `check`: torch leaves marks on modules' weights where it calls its compiler for eager code's cond."""
    parameters = [parameter for layer in LAYERS for parameter in layer.parameters()]
    compiled = jit.compile(program, backend=backend, fullgraph=COUNTING)
    for x in (A, N, B):
        seen = [torch.autograd.grad(call(x).sum(), parameters, allow_unused=True) for call in (program, compiled)]
        for expected, found in zip(*seen, strict=True):
            torch.testing.assert_close(found, expected)


# --- what must break, or be right all the same ------------------------------------------------------------------------
def views(x, y):
    return torch.cond(x.sum() > 0, lambda a: (a * 2).t(), lambda a: (a * 3).t(), (x,))


def gives_a_mask(x, y):
    return torch.cond(x.sum() > 0, lambda a: (a * 2, a > 0), lambda a: (a * 3, a < 0), (x,))


def gradient_of_one_with_a_mask(x, y):
    z, _ = torch.cond(x.sum() > 0, lambda a: (a * 2, a > 0), lambda a: (a * 3, a < 0), (x,))
    return z


def draws(x, y):
    return torch.cond(x.sum() > 0, lambda a: F.dropout(a), lambda a: a * 3, (x,))


def without_gradient_inside(x, y):
    def one(a):
        with torch.no_grad():
            b = a * 2
        return a * b

    return torch.cond(x.sum() > 0, one, lambda a: a * 3, (x,))


def node(x, y):
    z = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * 3, (x,))
    return z.grad_fn.name(), z.output_nr, z + 1


def nodes_after(x, y):
    z = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * 3, (x,))
    return (z + 1).grad_fn.next_functions[0][0].name()


def autocast(x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return torch.cond(x.sum() > 0, lambda a, b: a @ b.t(), lambda a, b: b @ a.t(), (x, y))


def hooked(x, y):
    found = []
    z = y * 2
    z.register_hook(lambda gradient: found.append(gradient.sum().item()))
    w = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * z, (x,))
    w.sum().backward()
    return found, w


def hooked_after(x, y):
    found = []
    z = y * 2
    w = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * z, (x,))
    z.register_hook(lambda gradient: found.append(gradient.sum().item()))
    w.register_hook(lambda gradient: found.append(gradient.sum().item()))
    w.sum().backward()
    return found, w


def differentiates(x, y):
    w = x.detach().clone().requires_grad_()
    torch.cond(x.sum() > 0, lambda a: (a * w).sum(), lambda a: (a - w).sum(), (x.detach(),)).backward()
    return w.grad


def writes_an_operand_after(x, y):
    z = y * 1
    w = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a * z, (x,))
    z.add_(1)
    return w


def in_double(x, y):
    return torch.cond(x.sum() > 0, lambda a: a.double() * 2, lambda a: a.double(), (x,))


def strides(x, y):
    return torch.cond(x.sum() > 0, lambda a: a.t() * 2, lambda a: a.t() * 3, (x,))


def other_strides(x, y):
    return torch.cond(x.sum() > 0, lambda a: (a @ a.t()), lambda a: (a @ a.t()).t() * 3, (x,))


OTHERS = [
    views, gives_a_mask, draws, without_gradient_inside, node, nodes_after, autocast, hooked, hooked_after,
    differentiates, in_double, strides, one_is_read_for_nothing,
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_the_same(program, backend):
    check(program, A, B, changed=[(N, B)], backend=backend, tolerance=(1e-2, 1e-2) if program is autocast else (1e-5, 1e-5))


def test_sides_of_other_strides():
    """In a process of its own: where torch.cond refuses them, torch's own compiler leaves its frame hook in place."""
    test = "check(other_strides, A, B, changed=[(N, B)], backend='aot_eager', tolerance=(1e-5, 1e-5))"
    subprocess.run([sys.executable, "-c", f"from {__name__} import *; {test}"], check=True)


def error_of_a_second_backward(result, x, y):
    result.sum().backward()
    try:
        result.sum().backward()
    except RuntimeError as error:
        return str(error)


def error_of_what_is_written(result, x, y):
    with torch.no_grad():
        y.add_(1)
    try:
        result.sum().backward()
    except RuntimeError as error:
        return type(error).__name__


@pytest.mark.parametrize("then", [error_of_a_second_backward, error_of_what_is_written])
def test_errors_of_derivatives(then):
    check(operands, A, B, changed=[(N, B)], then=then)


@pytest.mark.skipif(bool(INNER) and not COUNTING, reason="the error names a tensor's node, a compiled graph's after a break")
def test_what_is_written_after():
    check(writes_an_operand_after, A, B, changed=[(N, B)])
