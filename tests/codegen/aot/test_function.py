"""Programs through the AOT stage beside eager: results, views, versions, gradients and their gradients."""
import threading
import time

import pytest
import torch

from codegen.aot.boxed import boxed
from codegen.aot.function import Settings, compile_program
from codegen.aot.recorder import Untraceable


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def bases():
    base = torch.randn(6)
    return (), (base[:3], base[2:5])


def base_and_view():
    start = leaf(6)
    base = start * 1
    return (start,), (base, base[2:5])


def inputs(*makers):
    def make():
        leaves, values = [], []
        for kind, shape in makers:
            value = torch.randn(shape)
            if kind != "plain":
                value.requires_grad_()
                leaves.append(value)
            values.append(value * 2 if kind == "middle" else value)
        return tuple(leaves), tuple(values)

    return make


def view_without_grad():
    base = leaf(6)
    with torch.no_grad():
        return base, base[:3]


def requires_grad_set(x):
    x.requires_grad = True
    return (x * 2,)


#: They make a view, which says that already, require a gradient.
REQUIRING = [requires_grad_set, lambda x: (x.requires_grad_() * 2,), lambda x: (torch.Tensor.requires_grad_(x) * 2,)]


@pytest.mark.parametrize("program", REQUIRING)
def test_a_view_made_without_grad_that_comes_to_require_a_gradient(program):
    compiled = compile_program(program, view_without_grad()[1:], Settings())
    for call in (compiled, program):
        base, view = view_without_grad()
        (result,) = call(view)
        result.sum().backward()
        assert base.grad is None and torch.equal(view.grad, torch.full_like(view, 2))


def test_a_view_made_without_grad_gets_no_gradient_and_a_leaf_does():
    base, view = view_without_grad()
    compiled = compile_program(lambda x, y: (x * x * y,), (view, leaf(3)), Settings())
    for x in (view, leaf(3)):
        y = leaf(3)
        (got,) = compiled(x, y)
        expected = x * x * y
        assert torch.equal(got, expected)
        for one, other in zip(*(torch.autograd.grad(r.sum(), (x, y), allow_unused=True) for r in (got, expected))):
            assert one is other or torch.equal(one, other)


def writes_into_a_view(x, w):
    y = x + w * 3
    y[0].mul_(2)
    x.add_(1)
    return y, y.t(), x


def writes_one_of_two(x, y):
    x.mul_(2)
    return x + y, x[1:]


def views_of_a_result(x):
    y = x * 2
    return y, y.unbind(0)[0], y.detach(), y[1:], *y.split(1)


def changes_before_it_is_viewed(x):
    y = x * 2
    y.unsqueeze_(0)
    return (y.transpose(0, 1),)


PROGRAMS = [
    (writes_into_a_view, inputs(("plain", (3, 3)), ("leaf", (3, 3)))),
    (lambda x, w: ((x @ w).tanh() * w,), inputs(("plain", (3, 3)), ("leaf", (3, 3)))),
    (lambda x, y: (x.mul_(2), x + y), inputs(("middle", (4,)), ("leaf", (4,)))),
    (lambda x, y: (x.mul_(y), x.sin() + y), inputs(("middle", (4,)), ("leaf", (4,)))),
    (writes_one_of_two, bases),
    (lambda x, y: (y.mul_(2) + 1, x * 2), base_and_view),
    (lambda x: (x.t_(), x.mul_(2)), inputs(("middle", (2, 3)))),
    (lambda x: (x.unbind(0)[0], x.detach(), x[1:], x), inputs(("leaf", (2, 3)))),
    (views_of_a_result, inputs(("leaf", (2, 3)))),
    (lambda x: (torch.rand_like(x) * x * x, x * torch.randn(2, 3)), inputs(("leaf", (2, 3)))),
    (lambda x: (torch.nn.functional.dropout(x * x),), inputs(("leaf", (5, 3)))),
    (lambda x: (x * 2,), inputs(("plain", (3,)))),
    (lambda x: (torch.matmul(x, x[0]).transpose(1, 2),), inputs(("leaf", (2, 3, 3)))),
    (changes_before_it_is_viewed, inputs(("leaf", (2, 3)))),
]


def observe(call, make, order):
    torch.manual_seed(0)
    leaves, values = make()
    results = list(call(*values))
    gradients = []
    total = sum((r * r).sum() for r in results if r.requires_grad)
    for left in reversed(range(order)):
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            break
        found = torch.autograd.grad(total, leaves, create_graph=left > 0, allow_unused=True)
        gradients += found
        total = sum((g * g).sum() for g in found if g is not None)
    return results, list(values), gradients


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("program, make", PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_same_as_eager(program, make, order):
    eager = observe(program, make, order)
    compiled = compile_program(program, make()[1], Settings())
    for _ in range(2):
        actual = observe(compiled, make, order)
        for theirs, ours in zip(eager[0] + eager[1], actual[0] + actual[1], strict=True):
            assert torch.equal(theirs, ours)
            for read in (torch.Tensor.stride, torch.Tensor._is_view, lambda t: t.is_leaf, lambda t: t._version, lambda t: t.requires_grad):
                assert read(theirs) == read(ours)
        torch.testing.assert_close(actual[2], eager[2])


@pytest.mark.parametrize("fn, operation", [
    (torch.nn.functional.silu, torch.ops.aten.silu_backward.default),
    (torch.nn.functional.mish, torch.ops.aten.mish_backward.default),
], ids=["silu", "mish"])
def test_operations_with_a_kernel_of_their_own_stay_whole(fn, operation):
    """They can be taken apart, but eager does not on such a device: neither as fast nor bit by bit the same."""
    x, y = (torch.linspace(-5, 5, 97, requires_grad=True) for _ in range(2))
    fn(x).sum().backward()
    compiled = compile_program(lambda x: [fn(x).sum()], (y,), Settings())
    compiled(y)[0].backward()
    assert torch.equal(x.grad, y.grad)
    assert [node.target for node in compiled.stages.backward.graph.find_nodes(op="call_function", target=operation)]


@pytest.mark.parametrize("shape", [(), (7,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_random_numbers_between_two(dtype, shape):
    low, high = (0, 2) if dtype is torch.bool else (3, 90)

    def program(x):
        drawn = torch.empty(shape, dtype=dtype).random_(low, high)
        x.data.random_(0, 3)
        return [drawn, x.exp() * drawn, x]

    compiled = compile_program(program, (torch.ones(shape, requires_grad=True),), Settings())

    def run(call):
        torch.manual_seed(5)
        x = torch.ones(shape, requires_grad=True)
        drawn, result, same = call(x)
        (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return [drawn, result, same, first, second, torch.rand(2)], x._version

    (ours, version), (theirs, expected) = run(compiled), run(program)
    assert version == expected and all(map(torch.equal, ours, theirs))


def in_inference_mode(x):
    with torch.inference_mode():
        return [x * 2]


def of_another_default_dtype(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return [torch.zeros(2), x + 1]
    finally:
        torch.set_default_dtype(before)


def list_and_one_of_its_numbers(x):
    a, b = x + 1, x + 2
    torch._foreach_mul_([a, b], a[0])
    return [a, b]


def detached_and_turned(x):
    """Is no view, and no steps from x lead there but by views."""
    return [x.detach().unsqueeze_(0)]


def view_of_what_was_turned(x):
    return [x.detach().unsqueeze_(0)[0]]


def middle_that_was_turned(x):
    middle = x.expand(3, 2).clone()
    return [middle, middle.data.t_()]


@pytest.mark.parametrize("program", [
    detached_and_turned, view_of_what_was_turned, middle_that_was_turned, in_inference_mode, of_another_default_dtype, list_and_one_of_its_numbers,
])
def test_what_no_graph_can_say(program):
    with pytest.raises(Untraceable):
        compile_program(program, (torch.ones(2),), Settings())
    assert torch.get_default_dtype() is torch.float32 and not torch.is_inference_mode_enabled()


#: What operations on lists do to x and y, of 6 elements each.
LISTS = {
    "turns apart": lambda x, y: (torch._foreach_add_([x, y], [x, x * 2]), torch._foreach_addcmul_([x, y], [x, y], [x * 3, y])),
    "crossing": lambda x, y: torch._foreach_add_([x, y], [y, x]),
    "one twice": lambda x, y: torch._foreach_mul_([x, y, x], [2, 3, 5]),
    "overlapping": lambda x, y: torch._foreach_mul_([x[:4], x[2:], y], 3),
    "overlapping, by numbers": lambda x, y: torch._foreach_add_([x[:4], x[2:]], [y[:4], y[1:5]], alpha=3),
    "a view and its base": lambda x, y: torch._foreach_sub_([x.view(2, 3)[1], x, y], torch.tensor(3.0)),
    "read in a later turn": lambda x, y: torch._foreach_addcdiv_([x[:4], y[:4]], [y[:4] * 2, x[2:]], [x[:4] + 1, y[:4]], 2),
}


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "with gradients"])
@pytest.mark.parametrize("name", LISTS)
def test_operations_on_lists_go_tensor_by_tensor(name, requires_grad):
    def program(x, y):
        LISTS[name](x, y)
        return [x * x, y * 2]

    def run(call):
        source = torch.arange(1.0, 13).requires_grad_(requires_grad)
        x, y = source[:6] * 1, source[6:] * 1
        results = call(x, y)
        gradients = torch.autograd.grad(sum(map(torch.sum, results)), [source]) if requires_grad else []
        return [(t.tolist(), t._version) for t in (x, y, *results, *gradients)]

    def caught(call):
        try:
            return run(call)
        except (RuntimeError, Untraceable):  # autograd does not let it happen
            return "raises"

    def compiled(*inputs):
        given = [torch.ones(6, requires_grad=requires_grad) * 1 for _ in inputs]
        return compile_program(program, given, Settings())(*inputs)

    assert caught(compiled) == caught(program)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["first", "last"])
def test_a_result_is_on_nobody_elses_way(order):
    """A view's base is a tensor of its own, also where it looks like a result."""
    def program(x):
        return [x.detach(), x.detach().view(-1)][order]

    compiled = compile_program(program, (torch.ones(2, 2),), Settings())
    for run in (program, compiled):
        detached, view = run(torch.ones(2, 2))[order]
        assert view._base is not detached and view._base is not None


def both(x, w):
    return (x * w).sin(), (x + w).cos()


@pytest.mark.parametrize("history", [False, True], ids=["partial", "with a history"])
def test_variants_of_a_backward_are_made_once_for_all_threads(history):
    made = []

    def counting(graph, examples):
        made.append(graph)
        time.sleep(0.05)  # long enough for the others to ask
        return boxed(graph)
    w = leaf(4)
    x = torch.randn(3, 4)
    compiled = compile_program(both, (x, w), Settings(backward=counting))
    assert len(made) == 1
    results = [compiled(x, w)[0] for _ in range(4)]
    found = [None] * len(results)
    barrier = threading.Barrier(len(results))

    def work(at):
        barrier.wait()
        found[at] = torch.autograd.grad(results[at].sum(), w, create_graph=history)[0]
    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (wanted,) = torch.autograd.grad(both(x, w)[0].sum(), w)
    assert len(made) == 2 and all(torch.equal(each, wanted) for each in found)
