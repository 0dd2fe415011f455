"""Numbers that are known only when a graph runs: read from tensors, given anew at every call, computed from such."""
import math
import struct

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import jit
from codegen import aot
from codegen.aot import stages
from codegen.aot.backend import compile_graph
from codegen.aot.compilers import of_lists
from codegen.aot.function import Settings, compile_program
from codegen.aot.numbers import Varying
from codegen.aot.partition import default_partition, min_cut_partition
from codegen.aot.recorder import Untraceable
from tests.differential import Counting, check, differentiated_ahead

RULES = pytest.mark.parametrize("rule", [default_partition, min_cut_partition])


def exactly(value):
    """What two equal results have in common: types, and the bits of every number."""
    if isinstance(value, torch.Tensor):
        bits = [exactly(number) for number in value.detach().double().flatten().tolist()]
        return value.dtype, value.shape, value.stride(), value.requires_grad, value._version, bits
    if isinstance(value, (tuple, list)):
        return type(value), [exactly(item) for item in value]
    return type(value), struct.pack("d", value) if isinstance(value, float) else value


def leaf(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def observe(call, make, order=2):
    """Results, inputs afterwards and gradients, to the bit; and gradients of these, which are summed in other orders."""
    torch.manual_seed(0)
    leaves, values = make()
    results = list(call(*values))
    gradients = []
    total = sum((r.sin() * r).sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad)
    for left in reversed(range(order)):
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            break
        found = torch.autograd.grad(total, leaves, create_graph=left > 0, retain_graph=True, allow_unused=True)
        gradients.append(found)
        total = sum((g * g).sum() for g in found if g is not None)
    return (exactly(results), exactly(list(values)), exactly(gradients[:1])), gradients[1:]


def assert_alike(got, expected):
    assert got[0] == expected[0]
    torch.testing.assert_close(got[1], expected[1], equal_nan=True)


def tensors(*makers):
    def make():
        values = tuple(maker() for maker in makers)
        return [v for v in values if v.requires_grad and v.is_leaf], values

    return make


X = lambda: leaf(0.3, -1.7, 2.9)  # noqa: E731
PLAIN = lambda: torch.tensor([0.3, -1.7, 2.9])  # noqa: E731


# --- as eager ---------------------------------------------------------------------------------------------------------
def arithmetic(x):
    v, w = x[0].item(), x[1].item()
    return (
        v + 0.1 + 0.2, 0.2 + (0.1 + v), v * 3 / 3 * 7, v - v, v * 0.1 * 10, 1e16 + v - 1e16, (v + w) - v, v / 3 + w / 3,
        -v, abs(w), +v, v % 0.7, 0.7 - w, 2 * v + 1, v + w * v, 1 / (2 + v * v), v > 0, w >= v, v == v, v != w,
    )  # fmt: skip


def of_integers(x):
    n = x.argmax().item()
    return n, n + 1, 7 - n, n * n, n // 2, n % 2, n / 3, (n + 1) ** 2, -n, n * 0.1, n < 2, x * n, x + n / 4


def of_booleans(x):
    some = (x > 0).any().item()
    return some, torch.sym_not(some), x * some


def as_scalars(x):
    v, y = x.detach().max().item(), x.detach()
    mask = y > 0
    return (
        x * v, v - x, v / x, x / v, x % v, v // y, x.clamp(max=v), torch.where(mask, x, v), x.masked_fill(mask, v),
        F.leaky_relu(x, v), F.threshold(x, v, -v), torch.addcmul(y, x, x, value=v), y**v, v**y, y.lerp(y + 1, v),
        torch.full((2,), v), torch.full_like(y, v), torch.scalar_tensor(v), y > v, torch.add(y, y, alpha=v),
        *torch._foreach_mul([y, y + 1], v), *torch._foreach_addcdiv([y], [y], [y + 1], [v]),
    )  # fmt: skip


def written_with(x):
    v = x.max().item()
    y = x.clone()
    y[0] = v
    y[1:].fill_(v).mul_(v)
    torch._foreach_add_([x, y], v)
    return y, x.addcdiv_(y, y + 2, value=v)


def read_between_writes(x):
    before = x[0].item()
    x.add_(1)
    after = x[0].item()
    x[1:].mul_(after)
    return before, after, x.sum().item(), x


def read_by_the_backward(x, w):
    v = (x * w).detach().sum().item()
    return ((x * w * v).sin() * (1 - v) / v,)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = x.abs().max().item() * 2 + 1
        return x * ctx.scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale


def checkpointed(x):
    return (checkpoint(lambda x: (x * x.detach().sum().item()).exp(), x, use_reentrant=False),)


def without_grad(x):
    with torch.no_grad():
        scale = x.norm().item()
    return x / scale, scale


def drawn(x):
    v = torch.rand(()).item()
    return F.dropout(x * v) * v, v


PROGRAMS = {
    "returned": (lambda x: (x[0].item(), x[1].item(), x.double().sum().item(), x.half()[2].item()), tensors(X)),
    "arithmetic": (arithmetic, tensors(X)),
    "arithmetic of no numbers": (arithmetic, tensors(lambda: torch.tensor([math.nan, math.inf]))),
    "arithmetic of the largest": (arithmetic, tensors(lambda: leaf(1.7e308, 5e-324, dtype=torch.float64))),
    "arithmetic of zeros": (arithmetic, tensors(lambda: leaf(-0.0, 0.0))),
    "of integers": (of_integers, tensors(X)),
    "of booleans": (of_booleans, tensors(X)),
    "as scalars": (as_scalars, tensors(X)),
    "of double": (as_scalars, tensors(lambda: leaf(0.3, -1.7, 2.9, dtype=torch.float64))),
    "written with": (written_with, tensors(PLAIN)),
    "read between writes": (read_between_writes, tensors(PLAIN)),
    "read by the backward": (read_by_the_backward, tensors(X, X)),
    "kept by a function": (lambda x: (Scaled.apply(x * x),), tensors(X)),
    "checkpointed": (checkpointed, tensors(X)),
    "without grad": (without_grad, tensors(X)),
    "drawn": (drawn, tensors(X)),
    "of a literal": (lambda x: (x * torch.tensor(0.1).item(), torch.tensor(3).item()), tensors(X)),
    "not read": (lambda x: (x.sum().item(), x * 2)[1:], tensors(X)),
    "in a list": (lambda x: tuple(v * 2 for v in x.tolist()), tensors(X)),
}


@RULES
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_eager(name, rule):
    program, make = PROGRAMS[name]
    eager = observe(program, make)
    compiled = compile_program(program, make()[1], Settings(partition=rule))
    for _ in range(2):
        assert_alike(observe(compiled, make), eager)


def test_a_number_is_what_the_tensor_holds_at_each_call():
    compiled = compile_program(arithmetic, (X(),), Settings())
    for values in ((1.0, 2.0), (-3.5, 1e-30), (0.1, 0.2)):
        assert exactly(compiled(leaf(*values, 0.0))) == exactly(arithmetic(leaf(*values, 0.0)))


def test_a_number_is_handed_to_the_backward():
    compiled = compile_program(read_by_the_backward, (X(), X()), Settings())
    partition = compiled.stages.forward.meta["partition"]
    assert len(partition.ints) == 2 and partition.bytes <= 24  # v and 1 - v
    text = "".join(stages.texts(compiled.stages).values())
    assert partition.ints[0] in text and "_local_scalar_dense.default(" in compiled.stages.forward.code
    assert "_local_scalar_dense.default(" not in compiled.stages.backward.code


@pytest.mark.parametrize("make", [X, PLAIN], ids=["with gradients", "without"])
@pytest.mark.parametrize("program, error", [
    (lambda x: (1 / (x.max().item() - x.max().item()), x * 2)[1:], ZeroDivisionError),
    (lambda x: (x.max().item() % (x.min().item() - x.min().item()), x * 2)[1:], ZeroDivisionError),
])
def test_arithmetic_that_nobody_reads_raises(program, error, make):
    compiled = compile_program(program, (make(),), Settings())
    for call in (program, compiled):
        with pytest.raises(error):
            call(make())


# --- refused ----------------------------------------------------------------------------------------------------------
def decides(x):
    x.add_(1)
    v = x.sum().item()
    return (x if v > 3 else -x,)


REFUSED = {
    "truth of a comparison": decides,
    "truth": lambda x: (x if x.sum().item() else -x,),
    "size": lambda x: (torch.zeros(x.argmax().item()),),
    "size of a view": lambda x: (x.view(x.argmax().item()),),
    "range": lambda x: (x * sum(range(x.argmax().item())),),
    "bound of a slice": lambda x: (x[: x.argmax().item()],),
    "index": lambda x: (x[x.argmax().item()],),
    "end": lambda x: (torch.arange(0.0, x.sum().item()),),
    "int": lambda x: (int(x.sum()),),
    "float": lambda x: (float(x.sum()) * 2,),
    "rounded": lambda x: (round(x.sum().item()), math.floor(x.sum().item())),
    "function": lambda x: (x * math.sqrt(x.sum().item()),),
    "power": lambda x: (x.sum().item() ** 0.5,),
    "floor division": lambda x: (x.sum().item() // 0.1,),
    "text": lambda x: (str(x.sum().item()),),
    "key": lambda x: ({x.sum().item(): 1}.get(0, x),),
    "maximum": lambda x: (max(x.sum().item(), 1.0),),
    "probability": lambda x: (F.dropout(x, x.sum().item()),),
    "an int compared as a float": lambda x: (x.argmax().item() > 0.5,),
    "complex": lambda x: (x * x.to(torch.complex64)[0].item(),),
    "equal": lambda x: (torch.equal(x, x + 1),),
    "exponent that the derivative asks for": lambda x: (x**x.detach().max().item(),),
    "an error of the trace": lambda x: (x * x.argmax().item().to_bytes(2, "big")[0],),
    "sizes and numbers": lambda x: (x.sum().item() + torch.arange(3)[x.argmax()].item().bit_length(),),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_a_number_is_refused(name):
    x = X() if "derivative" in name else PLAIN()
    before, version = x.detach().clone(), x._version
    with pytest.raises(Untraceable):
        compile_program(REFUSED[name], (x,), Settings())
    assert torch.equal(x, before) and x._version == version


def test_a_refusal_names_the_line(caplog):
    def program(x):
        count = x.sum().item() + 1
        return torch.arange(0.0, count)

    graph = torch.fx.symbolic_trace(program)
    for node in graph.graph.nodes:
        line = program.__code__.co_firstlineno + (2 if node.name == "arange" else 1)
        node.meta["stack_trace"] = f'  File "{__file__}", line {line}, in {node.name}'
    with caplog.at_level("INFO", "codegen.aot.backend"):
        run = compile_graph(graph, [PLAIN().abs()])
    assert not hasattr(run, "stages") and torch.equal(run(PLAIN().abs()), program(PLAIN().abs()))
    assert "depends on values" in caplog.text
    for which, name in ((1, "add"), (2, "arange")):  # where the number comes from, and what asks for it
        assert f"line {program.__code__.co_firstlineno + which}, in {name}" in caplog.text


# --- numbers that come in ---------------------------------------------------------------------------------------------
def scaled(x, a):
    y = (x * a).sin() * (1 - a)
    return y, a * 2 + 0.1 + 0.2, a, x.detach() * a


@RULES
def test_a_float_that_varies(rule):
    compiled = compile_program(scaled, (X(), Varying(float)), Settings(partition=rule))
    for value in (0.5, -3.25, 1e-30, math.inf, math.nan):
        def make(value=value):
            x = X()
            return [x], (x, value)

        assert_alike(observe(compiled, make), observe(scaled, make))


@pytest.mark.parametrize("kind, values", [(int, (3, -7, 1 << 60)), (bool, (True, False)), (float, (0.1, 2.0))])
def test_numbers_that_vary_keep_their_type(kind, values):
    def program(x, a):
        return x * a, a, x > a, torch.full((2,), a)

    compiled = compile_program(program, (PLAIN(), Varying(kind)), Settings())
    for value in values:
        assert exactly(compiled(PLAIN(), value)) == exactly(program(PLAIN(), value))


def test_higher_derivatives_are_compiled_once_for_all_floats():
    made = []

    def compiler(graph, example_inputs):
        made.append(graph)
        return graph.forward

    compiled = compile_program(scaled, (X(), Varying(float)), Settings(compiler, of_lists(compiler), compiler))
    counts = []
    for value in (0.5, 0.25, 2.0):
        x = X()
        (first,) = torch.autograd.grad(compiled(x, value)[0].sum(), x, create_graph=True)
        first.square().sum().backward()
        counts.append(len(made))
    assert counts[0] == counts[1] == counts[2]


def test_a_number_that_varies_decides_nothing():
    for program in (lambda x, a: (x if a > 0 else -x,), lambda x, a: (x.sum(a),), lambda x, a: (torch.zeros(a),)):
        with pytest.raises(Untraceable):
            compile_program(program, (PLAIN(), Varying(int)), Settings())


# --- captured programs ------------------------------------------------------------------------------------------------
def inside(x):
    values = [v.item() for v in x.detach()]
    return x * sum([*values, 1e16, 0.1, -1e16], 0.5) * (1 - 0.9 ** (values[0] * 0.1 * 3))


CAPTURED = {
    "in a checkpoint": lambda x: checkpoint(inside, x.double(), use_reentrant=False),
    "power": lambda x: (x * x.sum().item() ** 2, x.abs().max().item() ** 0.5),
    "power of a constant": lambda x: x * (1 - 0.9 ** x[0].item()),
    "sum": lambda x: (sum([v.item() for v in x] + [0.1, 1e16, -1e16]), x * sum([v.item() for v in x], 0.5)),
    "float of a tensor": lambda x: x * float(x.sum()) + float(x[0]) * 0.1 * 3,
    "into a list": lambda x: [row.item() * 2 for row in x],
    "with sizes": lambda x: x * (x.sum().item() * x.shape[0] + len(x)),
    "mutation": lambda x: (x.add_(x[0].item()), x.mul_(x[1].item() - 0.1 - 0.2)),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CAPTURED)
def test_captured_programs_are_compiled(name, dynamic):
    check(CAPTURED[name], PLAIN(), graphs=1, changed=[(-PLAIN(),), (PLAIN() * 1e-3,)], backend=Counting(differentiated_ahead), dynamic=dynamic)


OF_SIZES = {
    "product": lambda x: x.double() * (0.1 * x.shape[0] * 3.0),
    "sum": lambda x: x.double() * ((x.shape[0] / 3 + 0.1) + 0.2),
    "quotient": lambda x: torch.sub(x, x, alpha=1 / x.shape[0]) + 0.7 / x.shape[0] / 3,
    "returned": lambda x: (x + 1, 0.1 * x.shape[0] * 3.0, x.shape[0] * 0.1 / 0.3 + 0.2 + 0.3),
    "read": lambda x: x * (x[0].item() * x.shape[0] * 0.1 + x.shape[0] / 3),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_floats_of_sizes_are_computed_in_order(name):
    program, backend = OF_SIZES[name], Counting(differentiated_ahead)
    compiled = jit.compile(program, backend=backend, dynamic=True)
    for size in (7, 9, 11, 13):
        x = torch.linspace(-1, 2, size)
        assert exactly(compiled(x)) == exactly(program(x))
    backend.expect(1)


def test_floats_of_sizes_in_the_library():
    quotient = aot.aot_function(lambda x: x / (1.0 / len(x)) + x.shape[0] / 3, aot.nop, dynamic=True)
    for size in (7, 9):
        x = torch.linspace(-1, 2, size)
        assert torch.equal(quotient(x), x / (1.0 / size) + size / 3)
    product = aot.aot_function(lambda x: x * (0.1 * x.shape[0] * 3.0), aot.nop, dynamic=True)
    for size in (7, 9):  # torch's algebra makes one product of these two: compiled for each size
        x = torch.linspace(-1, 2, size)
        assert torch.equal(product(x), x * (0.1 * size * 3.0))


def test_the_library_takes_numbers():
    def program(x):
        return {"value": x.sum().item() / 3, "scaled": x * x.detach().norm().item()}

    got, expected = aot.aot_function(program, aot.nop)(X()), program(X())
    assert got["value"] == expected["value"] and torch.equal(got["scaled"], expected["scaled"])


@pytest.mark.parametrize("training", [False, True])
def test_a_float_argument_that_varies_is_compiled_once(training):
    backend = Counting(differentiated_ahead)
    compiled = jit.compile(lambda x, a: (x * a + 0.1 * a, a * 0.1 + 0.2), backend=backend)
    for value in (0.1, 0.2, 0.3, 0.4, 0.5):
        ours, theirs = (PLAIN().requires_grad_(training) for _ in range(2))
        got, expected = compiled(ours, value), (theirs * value + 0.1 * value, value * 0.1 + 0.2)
        assert exactly(got) == exactly(expected)
        if training:
            got[0].sum().backward(), expected[0].sum().backward()
            assert torch.equal(ours.grad, theirs.grad)
    backend.expect(2)


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_the_backward_multiplies_by_what_is_computed_of_an_int_that_varies(backend):
    compiled = jit.compile(lambda x, n: (x.sum() * (n + 1), n + 1), backend=backend)
    for n in (1, 2, 3):
        x = X()
        result, number = compiled(x, n)
        result.backward()
        assert number == n + 1 and torch.equal(x.grad, torch.full_like(x, n + 1.0))


def times_a_number(w):
    return torch.autograd.grad((w.to(torch.complex64) * (1 + 2j)).real.sum(), w)


def over_a_number(w):
    (w.to(torch.complex64) / 2j).imag.sum().backward()
    return w.grad


def times_a_number_ahead_of_more(w):
    (w * (w.to(torch.complex64) * 1j).imag).sum().backward()
    return torch.stack([w, w.grad]).mean(0)


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
@pytest.mark.parametrize("program", [times_a_number, over_a_number, times_a_number_ahead_of_more])
def test_views_of_complex_numbers(program, backend):
    """The derivative of a product conjugates the factor, which has no memory where it is a number."""
    check(program, torch.ones(2, 3, requires_grad=True), backend=backend, tolerance=(1e-6, 1e-6), nodes=False)
