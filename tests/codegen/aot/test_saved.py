"""What gradients need of what was saved for them: where it is not there any more these raise, and no others."""

from contextlib import nullcontext
from itertools import product as product_of

import pytest
import torch

import jit
from codegen.aot.function import Settings, compile_program
from codegen.aot.partition import default_partition, min_cut_partition
from tests.differential import check


# --- values that the program itself overwrites or lets go of ----------------------------------------------------------
def overwritten(x, y):
    lost = x.exp()
    tripled = lost * 3
    lost.mul_(2)
    return [x * y, tripled + y, x * x * y]


def overwritten_alone(x, y):
    lost = x.exp()
    lost.mul_(2)
    return [lost * y]


def overwritten_between(x, y):
    """The value that is lost comes of another result."""
    middle = x * y
    lost = middle.sigmoid()
    used = lost * y
    lost.add_(1)
    return [middle, used, middle * y]


def let_go(x, y):
    """The second time is the caller's."""
    square = x * x
    slope, = torch.autograd.grad(square.sum(), x)
    return [square, slope * y, x * y]


def written_for_a_while(x, y):
    used = x * x * y
    with torch.no_grad():
        y.requires_grad_(False).mul_(2).requires_grad_()
    return [used, y * y]


PROGRAMS = [overwritten, overwritten_alone, overwritten_between, let_go, written_for_a_while]


def leaves():
    return [(torch.linspace(1, 2, 3, dtype=torch.float64) + at).requires_grad_() for at in range(2)]


def attempt(outputs, inputs, **options):
    """The gradients, or how the error begins: it goes on with what eager code calls the operation."""
    try:
        found = torch.autograd.grad(outputs, inputs, list(map(torch.ones_like, outputs)), allow_unused=True, **options)
    except RuntimeError as error:
        return str(error)[:60]
    return [gradient if gradient is None else gradient.tolist() for gradient in found]


WRITTEN = "one of the variables needed for gradient computation has been modified by an inplace operation"[:60]


def subsets(items):
    return [list(chosen) for flags in product_of([False, True], repeat=len(items)) if any(flags)
            for chosen in [[item for item, flag in zip(items, flags, strict=True) if flag]]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("partition", [default_partition, min_cut_partition])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_of_some_for_some(program, partition, create):
    def gradients(call):
        inputs = leaves()
        outputs = [result for result in call(*inputs) if result.requires_grad]
        return [
            attempt(some, others, retain_graph=True, create_graph=create)
            for some, others in product_of(subsets(outputs), subsets(inputs))
        ]

    compiled = compile_program(program, leaves(), Settings(partition=partition))
    eager = gradients(program)
    assert any(isinstance(found, str) for found in eager)
    assert gradients(compiled) == eager


def writes_what_a_layer_saved(x, net):
    x.mul_(net(x).flip(0))
    return x.abs()


def test_the_error_is_eagers_but_for_the_node_and_the_versions():
    """The second call of each finds an input that is at another version than at the first."""
    inputs = lambda: (torch.randn(3, 8)[:, :4], torch.nn.Linear(4, 4))
    check(writes_what_a_layer_saved, make=inputs, nodes=False, backend="aot_eager", tolerance=(1e-5, 1e-5))


# --- one backward after the other -------------------------------------------------------------------------------------
def sum_of_products(x, y):
    return [x * x + y * y]


def product(x, y):
    return [(x * y).sin()]


def product_and_sum(x, y):
    return [x * x, x + y]


def made_of_one_value(x, y):
    value = x.exp()
    return [value * 2, value * y]


def twice_the_same(x, y):
    return [x.exp() * 2, (x.exp() * y).sin()]


def results_of_one_another(x, y):
    middle = x * y
    return [middle, middle.exp() + y, middle * x]


def times_a_number(x, y):
    return [x * 2, y + 2]


def bias(x, y):
    """What is added to a product needs nothing of what is saved."""
    matrix = x.diag()
    return [torch.addmm(y, matrix, matrix) * 3, torch.addmm(y, matrix, matrix)]


def selected(x, y):
    return [torch.where(x > 1.4, x * y, y), x.clamp(min=1.3)]


AFTER_ONE_ANOTHER = [
    sum_of_products, product_and_sum, product, made_of_one_value, twice_the_same, results_of_one_another, times_a_number,
    bias, selected,
]


def alike(found, expected, program, what):
    assert [len(each) for each in found] == [len(each) for each in expected]
    for at, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours == theirs, f"{program.__name__}, {what[at]}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("partition", [default_partition, min_cut_partition])
@pytest.mark.parametrize("program", AFTER_ONE_ANOTHER)
def test_one_backward_after_the_other(program, partition):
    """Each pair of them, and the first one's second time after both."""
    compiled = compile_program(program, leaves(), Settings(partition=partition))
    count = sum(result.requires_grad for result in program(*leaves()))
    some = list(product_of(subsets(range(count)), subsets(range(2))))

    def gradients(call, first, second, create, again):
        inputs = leaves()
        outputs = [result for result in call(*inputs) if result.requires_grad]
        return [
            attempt([outputs[at] for at in which], [inputs[at] for at in wanted], retain_graph=False, create_graph=made)
            for (which, wanted), made in ((first, create), (second, again), (first, False))
        ]

    what = list(product_of(some, some, (False, True), (False, True)))
    alike([gradients(compiled, *each) for each in what], [gradients(program, *each) for each in what], program, what)


class Held(torch.autograd.Function):
    """It keeps a tensor in its own way, which nobody lets go of."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach() * 1
        return x * x

    @staticmethod
    def backward(ctx, tangent):
        return 2 * ctx.x + tangent


def test_what_a_function_keeps_itself_is_there_every_time():
    def program(x, y):
        return [Held.apply(x) * y, Held.apply(y)]

    def gradients(call):
        inputs = leaves()
        first, second = call(*inputs)
        return [attempt([output], inputs) for output in (first, second, second, first)]

    assert gradients(compile_program(program, leaves(), Settings())) == gradients(program)


@pytest.mark.parametrize("create", [False, True])
def test_what_a_function_keeps_itself_is_there_when_all_gradients_were_computed(create):
    def program(x, y):
        return [Held.apply(x) + Held.apply(y)]

    def gradients(call):
        inputs = leaves()
        output, = call(*inputs)
        return [attempt([output], wanted, create_graph=create) for wanted in (inputs, inputs[:1], inputs)]

    assert gradients(compile_program(program, leaves(), Settings())) == gradients(program)


# --- what comes to be written -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("program", AFTER_ONE_ANOTHER)
def test_gradients_after_an_input_was_written(program, create):
    """They raise where a node that they pass through has saved it, and nowhere else. Those with a history are computed
    from the inputs once more: there these must be as they were, too."""
    compiled = compile_program(program, leaves(), Settings())
    count = sum(result.requires_grad for result in program(*leaves()))
    what = list(product_of(range(2), subsets(range(count)), subsets(range(2))))

    def gradients(call, written, which, wanted):
        inputs = leaves()
        outputs = [result for result in call(*inputs) if result.requires_grad]
        with torch.no_grad():
            inputs[written].add_(1)
        return attempt([outputs[at] for at in which], [inputs[at] for at in wanted], create_graph=create)

    found, expected = ([gradients(call, *each) for each in what] for call in (compiled, program))
    if create:
        found = [theirs if ours == WRITTEN else ours for ours, theirs in zip(found, expected, strict=True)]
    alike(found, expected, program, what)


# --- tensors that have become another kind by the time of the backward -------------------------------------------------
def product_and_sine(x, w):
    return (x * w).sin() * w


def _hooks(pack=lambda t: t, unpack=lambda t: t):
    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


#: What saves, and what is then done to the leaf.
KINDS = {
    "kept elsewhere": (torch.autograd.graph.save_on_cpu, None),
    "another dtype": (lambda: _hooks(lambda t: t.double()), None),
    "other strides": (lambda: _hooks(unpack=lambda t: t.t().contiguous().t()), None),
    "data of another dtype": (nullcontext, lambda x: x.double()),
    "data of other strides": (nullcontext, lambda x: x.t().contiguous().t()),
    "other data": (nullcontext, lambda x: x * 2),
}


@pytest.mark.parametrize("backend", ["default", "aot_eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_as_another_kind_of_tensor(kind, backend):
    saving, change = KINDS[kind]

    def gradients(function):
        x, w = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.linspace(1, 2, 12).view(3, 4).t()
        x, w = x.requires_grad_(), w.detach().requires_grad_()
        with saving():
            y = function(x, w)
        if change is not None:
            x.data = change(x.data)
        y.sum().backward()
        return [x.grad, w.grad]

    for expected, got in zip(gradients(product_and_sine), gradients(jit.compile(product_and_sine, backend=backend)), strict=True):
        assert got.dtype == expected.dtype and torch.allclose(got, expected, atol=1e-6)


def test_what_comes_back_of_other_sizes():
    x, w = (torch.ones(4, 3, requires_grad=True) for _ in range(2))
    y = jit.compile(product_and_sine)(x, w)
    x.data = torch.ones(1)
    with pytest.raises(RuntimeError, match=r"of sizes \[4, 3\] when it was saved, and is of sizes \[1\] now"):
        y.sum().backward()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["default", "aot_eager"])
@pytest.mark.parametrize("changed, create", [
    (lambda t: t * 2, False), (lambda t: t.double(), False), (lambda t: t.contiguous(), False), (lambda t: t.contiguous(), True),
])
@pytest.mark.parametrize("form", [
    lambda: torch.linspace(1, 2, 3).requires_grad_().expand(4, 3), lambda: torch.tensor(2.0, requires_grad=True).expand(4, 3),
    lambda: torch.ones(4, 6, requires_grad=True)[:, ::2], lambda: torch.ones(6, requires_grad=True).unfold(0, 3, 1),
    lambda: torch.full((4, 3), float("nan"), requires_grad=True), lambda: torch.ones(0, 3, requires_grad=True).expand(4, 0, 3),
])  # fmt: skip
def test_what_was_expanded_comes_back_dense(form, changed, create, backend):
    def gradients(function):
        x, w = form(), torch.linspace(1, 2, 3).requires_grad_()
        with _hooks(unpack=changed):
            y = function(x, w)
        return torch.autograd.grad(y.sum(), [x, w], create_graph=create)

    for expected, got in zip(gradients(product_and_sine), gradients(jit.compile(product_and_sine, backend=backend)), strict=True):
        assert got.dtype == expected.dtype and torch.allclose(got, expected, atol=1e-6, equal_nan=True)


def test_what_was_expanded_comes_back_as_what_can_not_be():
    x, w = torch.ones(3, requires_grad=True).expand(4, 3), torch.ones(4, 3, requires_grad=True)
    with _hooks(unpack=lambda t: t + torch.arange(4.0)[:, None]):
        y = jit.compile(product_and_sine)(x, w)
    with pytest.raises(RuntimeError, match="was expanded when it was saved"):
        y.sum().backward()
