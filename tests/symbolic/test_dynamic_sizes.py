"""`dynamic=True`: one graph for all sizes, as far as the program does not depend on them."""
import math
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jit
from tests.differential import COUNTING, Counting, check, differentiated_ahead


def X(*shape, seed=0, requires_grad=False):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_(requires_grad)


def same(fn, *calls, graphs=1, **options):
    """The same as eager for each of `calls` (tuples of arguments), `graphs` compiled for all of them together."""
    check(fn, *calls[0], changed=list(calls[1:]), dynamic=True, **options)
    once = Counting()
    compiled = jit.compile(fn, dynamic=True, backend=once)
    for call in calls:
        try:
            compiled(*call)
        except Exception:
            pass  # compared above
    once.expect(graphs)


# --- programs -------------------------------------------------------------------------------------------------------------
def pointwise(x, y):
    return (x + y).relu() * 2


def attention(x, w):
    b, t, c = x.shape
    q, k, v = (x @ w).split(c, dim=2)
    q, k, v = (z.view(b, t, 4, c // 4).transpose(1, 2) for z in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).contiguous().view(b, t, c)


def causal(x):
    t = x.size(1)
    mask = torch.tril(torch.ones(t, t))
    scores = (x @ x.transpose(1, 2)) / math.sqrt(4)
    return scores.masked_fill(mask == 0, float("-inf")).softmax(-1)


def branch(x):
    if x.shape[0] > 4:
        return x * 2
    return x - 1


def parity(x):
    return x + 1 if x.shape[0] % 2 == 0 else x.flip(0)


def slices(x):
    n = x.shape[0]
    return x[: n // 2], x[n // 2 :], x[-2:], x[:, 1:-1]


def rows(x):
    total = torch.zeros(())
    for i in range(x.shape[0]):
        total = total + x[i].sum() * i
    return total


def iterated(x):
    return sum(row.sum() for row in x)


def catted(x, y):
    z = torch.cat([x, y])
    return z, torch.stack([z, z]).sum(0), z.shape[0], torch.arange(z.size(0))


def expanded(x):
    return x.unsqueeze(1).expand(x.size(0), 3, x.size(1)) + 1, x[:1].expand_as(x)


def padded(x):
    return F.pad(x, (1, 2)), F.pad(x, (0, 8 - x.size(1)))


def numbers(x):
    return x.shape[0], x.numel() * 2, x.size(0) - x.size(1), len(x), x.size(0) / 2


def lonely_number(x):
    return x.shape[0] + 1


def arithmetic(x):
    n, m = x.shape
    return (n + m, n - 3, 3 - n, n * m, n // 2, 7 // n, n % 3, (n - 9) % 4, (3 - n) // 2, n**2, n / m, -n, +n, abs(n - 9),
            divmod(n, 3), min(n, 5), max(n, m), max(2, n), n * 0.5, 2.5 - n, n << 1, n & 3, 2**n, float(n), n // m)


def of_floats(x):
    scale = x.shape[0] * 0.5
    if scale > 2.0:
        return x * scale
    return x / scale, int(scale)


def as_operand(x):
    n = x.shape[0]
    return x * n + (n - 1) - n / 2, torch.full((n, 2), 1.0), x.new_zeros(n + 1), 1 / x.new_full((2,), n)


def unpacked(x):
    b, *rest = x.shape
    return x.reshape(b * rest[0], *rest[1:])


def equal_shapes(x, y):
    return x + y if x.shape == y.shape else x.sum() + y.sum()


def in_text(x):
    return f"{x.shape[0]} rows, {x.shape}, {x.size(1):03d}", str(x.size(0)), x + 1


def in_dict(x):
    return {x.shape[0]: "rows", "n": x.shape[1]}, x + 1, hash(x.shape[0]), hash((x.shape[0], 3))


def in_list(x):
    xs = [x.shape[0]]
    xs.append(x.shape[1] * 2)
    return xs, [0] * x.shape[0], x + 1, torch.Size([x.size(1), 2])


def chosen(x):
    return [x, x + 1, x + 2][x.shape[0] % 3]


def written(x):
    x[: x.shape[0] // 2] += 1
    x.mul_(x.shape[1])
    return x.sum()


def mismatch(x, y):
    return x @ y


def zero_division(x):
    return x * (6 // (x.shape[0] - 3))


def caught(x):
    try:
        return x * (6 % (x.shape[0] - 3))
    except ZeroDivisionError as error:
        return str(error)


def refusing(x):
    if x.shape[0] > 5:
        raise ValueError(f"too long: {x.shape[0]}")
    return x + x.shape[0]


def high_power(x):
    return x + 1 if x.shape[0] ** 12 > 30_000_000 else x - 1


def strided(x):
    return x.stride(0) * 2, x.is_contiguous(), x.t().contiguous(), x.view(-1) if x.is_contiguous() else x.reshape(-1)


def products(x):
    return math.prod(x.shape), sum(x.shape), x.shape.numel(), x.nbytes, x.reshape(math.prod(x.shape))


def truths(x):
    n = x.shape[0]
    return bool(n), n and x + 1, not n, n == 3, n != x.shape[1], n is None, n == "n", isinstance(n, int), type(n)


def root(x):
    return x / math.sqrt(x.shape[1]), round(x.shape[0]), x.shape[0].bit_length(), hex(x.shape[0])


class Box:
    pass


def attributes(x, box):
    box.n = x.shape[0] * 2
    box.x = x + box.n
    return box.n + 1


def closure(x):
    n = x.shape[0]

    def inner(y):
        nonlocal n
        n += 1
        return y + n

    return inner(x), n, inner


def generated(x):
    return [row * i for i, row in enumerate(x.chunk(2))], sum(n for n in x.shape)


def viewed(x):
    return x.view(x.shape[0] // 2, 2, -1).sum(1), x.unflatten(0, (2, -1)), x.flatten()


def interpolated(x):
    return F.avg_pool1d(x, 2), F.conv1d(x, torch.ones(2, x.shape[1], 3), padding=1)


A, B, C = (X(4, 6), X(5, 8), X(7, 10))
CASES = {
    "pointwise": (pointwise, [(A, A + 1), (B, B + 1), (C, C + 1)], 1),
    "pointwise, broadcast": (pointwise, [(A, X(6)), (B, X(8)), (A, X(1, 6)), (A, X(4, 1))], 3),
    "pointwise, different sizes raise": (pointwise, [(A, B), (B, A), (A, A)], 1),
    "attention": (attention, [(X(2, 3, 8), X(8, 24)), (X(3, 5, 8), X(8, 24)), (X(4, 7, 8), X(8, 24))], 1),
    "causal": (causal, [(X(2, 3, 4),), (X(3, 5, 4),), (X(5, 3, 6),)], 1),
    "branch": (branch, [(A,), (B,), (C,), (X(3, 9),)], 2),
    "parity": (parity, [(A,), (B,), (X(6, 3),), (C,)], 2),
    "slices": (slices, [(A,), (B,), (C,)], 1),
    "loop over a range": (rows, [(X(3, 4),), (X(3, 5),), (X(4, 5),)], 2),
    "iterated": (iterated, [(X(3, 4),), (X(3, 5),), (X(4, 5),)], 2),
    "cat": (catted, [(A, X(3, 6)), (B, X(2, 8)), (C, X(7, 10))], 1),
    "expand": (expanded, [(A,), (B,), (C,)], 1),
    "pad": (padded, [(A,), (X(5, 5),), (X(3, 7),)], 1),
    "numbers": (numbers, [(A,), (B,), (C,)], 1),
    "lonely number": (lonely_number, [(A,), (B,), (C,)], 1),
    "as operand": (as_operand, [(A,), (B,), (C,)], 1),
    "unpacked": (unpacked, [(X(2, 3, 4),), (X(4, 3, 5),), (X(3, 4, 5),)], 1),
    "unpacked, other rank": (unpacked, [(X(2, 3, 4),), (X(2, 3, 4, 5),), (X(3, 4),)], 3),
    "equal shapes": (equal_shapes, [(A, A + 1), (B, B + 1), (A, B), (X(4, 5), X(4, 6))], 3),
    "in text": (in_text, [(A,), (B,), (A + 1,)], 1),
    "in a dict": (in_dict, [(A,), (X(4, 9),), (B,)], 2),
    "in a list": (in_list, [(A,), (X(4, 9),), (B,)], 2),
    "chosen": (chosen, [(A,), (C,), (B,)], 2),
    "written": (written, [(A,), (B,), (C,)], 1),
    "mm": (mismatch, [(X(2, 3), X(3, 4)), (X(5, 6), X(6, 7)), (X(2, 3), X(4, 4)), (X(8, 9), X(9, 2))], 1),
    "mm, mismatch first": (mismatch, [(X(2, 3), X(4, 4)), (X(8, 9), X(9, 2)), (X(5, 3), X(3, 4))], 1),
    "zero division": (zero_division, [(A,), (X(3, 2),), (B,), (X(8, 3),)], 1),
    "zero division first": (zero_division, [(X(3, 2),), (A,), (B,)], 1),
    "zero division, caught": (caught, [(A,), (X(3, 2),), (B,)], 1),
    "raise": (refusing, [(A,), (B,), (C,)], 1),
    "raise first": (refusing, [(C,), (A,), (B,)], 1),
    "condition without native words": (high_power, [(A,), (X(4, 9),), (C,)], 2),
    "strides": (strided, [(A,), (B,), (C,)], 1),
    "strides, transposed": (strided, [(X(6, 4).t(),), (X(8, 5).t(),)], 1),
    "products": (products, [(A,), (B,), (C,)], 1),
    "view": (viewed, [(A,), (X(6, 4),), (X(8, 10),)], 1),
    "pooling": (interpolated, [(X(2, 4, 8),), (X(3, 4, 12),)], 1),
    "zero sizes": (slices, [(X(0, 5),), (X(0, 6),), (X(5, 6),)], 2),
    "sizes of one": (pointwise, [(X(1, 5), X(3, 5)), (X(1, 7), X(4, 7)), (X(2, 7), X(2, 7))], 2),
    "no dimensions": (pointwise, [(X(), X()), (X(3), X())], 2),
    "closure": (closure, [(A,), (B,)], 1),
    "chunks": (generated, [(A,), (X(6, 8),)], 1),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_program(name):
    fn, calls, graphs = CASES[name]
    same(fn, *calls, graphs=graphs)


@pytest.mark.parametrize("fn", [arithmetic, truths, root, of_floats], ids=lambda fn: fn.__name__)
def test_what_may_fix_sizes(fn):
    check(fn, A, changed=[(B,), (C,), (X(4, 6),), (X(3, 3),)], dynamic=True, graphs=None)


def test_numbers_stored_in_an_object():
    def call(*shape):
        return lambda: (X(*shape), Box())
    check(attributes, make=call(4, 6), changed=[call(5, 8), call(6, 3)], dynamic=True, graphs=1)


# --- modules and inputs -----------------------------------------------------------------------------------------------
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
        self.register_buffer("scale", torch.full((5,), 2.0))

    def forward(self, x):
        return self.layers(x) * self.scale[0] + x.shape[0]


def test_module():
    counter = Counting()
    compiled = jit.compile(MLP(), dynamic=True, backend=counter)
    eager = MLP()
    for shape in [(4, 6), (5, 6), (2, 3, 6), (7, 2, 6)]:
        x = X(*shape, requires_grad=True)
        result, expected = compiled(x), eager(x)
        assert torch.equal(result, expected)
        grads = [torch.autograd.grad(y.sum(), x)[0] for y in (result, expected)]
        assert torch.equal(*grads)
    counter.expect(2, "one for each rank")


class Remembers(nn.Module):
    """Tensors that a module holds beside its parameters may vary, too."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.full((2,), float(i))) for i in range(40)])
        self.held = X(4, 2)

    def forward(self, x):
        for weight in self.weights:
            x = x + weight
        return x * self.held.shape[0] + self.held.sum()


def test_tensor_held_by_a_module():
    counter = Counting()
    module = Remembers()
    compiled = jit.compile(module, dynamic=True, backend=counter)
    x = X(3, 2)
    for change in (lambda: None, lambda: None, lambda: setattr(module, "held", X(5, 2)), lambda: module.held.resize_(7, 2).fill_(1),
                   lambda: setattr(module, "held", X(6, 3))):
        change()
        for _ in range(3):
            assert torch.equal(compiled(x), module(x))
    counter.expect(1)
    for size, graphs in ((1, 1), (0, 2)):
        module.held = X(size, 3)
        assert torch.equal(compiled(x), module(x))
        counter.expect(graphs)


def test_sizes_of_parameters_are_plain():
    found = jit.explain(MLP(), dynamic=True)(X(4, 6))
    text = [str(guard) for guard in found.guards if "weight" in str(guard) or "scale" in str(guard)]
    assert text and not any("*" in line.partition("strides")[0] or ".size()" in line for line in text)
    assert all(isinstance(size, int) for node in found.graphs[0].graph.nodes if node.name.startswith("l_self")
               for size in node.meta["example_value"].shape)


LAYOUTS = {
    "transposed": lambda n: X(6, n).t(),
    "every other row": lambda n: X(2 * n, 6)[::2],
    "a column": lambda n: X(n, 6)[:, 2:4],
    "offset": lambda n: X(n + 3, 6)[3:],
    "expanded": lambda n: X(1, 6).expand(n, 6),
    "channels last": lambda n: X(n, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "permuted": lambda n: X(3, n, 4).permute(2, 0, 1),
    "detached view": lambda n: X(n * 6).view(n, 6).detach(),
    "view of a leaf": lambda n: X(n, 6, requires_grad=True)[1:],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(name):
    def program(x):
        return x * 2 + x.shape[0], x.reshape(-1), x.flatten(), x.transpose(0, 1).contiguous(), x.stride()
    make = [lambda n=n: (LAYOUTS[name](n),) for n in (4, 5, 9)]
    check(program, make=make[0], changed=make[1:], dynamic=True, graphs=1)
    compiled = jit.compile(program, dynamic=True, backend=(once := Counting()))
    for one in make:
        compiled(*one())
    once.expect(1)


def test_other_layout_compiles_again():
    def program(x):
        return x.view(-1) if x.is_contiguous() else x.reshape(-1) + 1
    same(program, (X(4, 6),), (X(6, 4).t(),), (X(5, 9),), (X(7, 3).t(),), graphs=2)


ALIASES = {
    "one tensor twice": lambda x: (x, x),
    "a view": lambda x: (x, x[1:]),
    "its base second": lambda x: (x[1:], x),
    "overlapping": lambda x: (x[:-1], x[1:]),
    "apart": lambda x: (x, x.clone()),
}


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    def program(x, y):
        x.add_(1)
        y[:2].mul_(x.shape[0])
        return x.sum() + y.sum()
    make = [lambda n=n: ALIASES[name](X(n, 4)) for n in (4, 5, 9)]
    check(program, make=make[0], changed=make[1:], dynamic=True, graphs=1)


# --- beside it --------------------------------------------------------------------------------------------------------
def test_break_hands_plain_numbers_on():
    def program(x):
        n = x.shape[0]
        y = x * n
        jit.graph_break()
        return y[: n // 2], n
    check(program, A, changed=[(B,), (C,)], dynamic=True, breaks=1)


def test_static_sizes_make_no_symbols():
    counter = Counting()
    compiled = jit.compile(slices, dynamic=False, backend=counter)
    compiled(A), compiled(B)
    counter.expect(2)
    assert not any(isinstance(node.meta.get("example_value"), torch.SymInt) for graph in counter.graphs
                   for node in graph.graph.nodes)
    assert not any(node.target == "size" for graph in counter.graphs for node in graph.graph.nodes)


def test_graph_carries_symbols():
    counter = Counting()
    jit.compile(lambda x: x.view(x.shape[0], -1) + x.shape[0], dynamic=True, backend=counter)(X(3, 4, 5))
    if not COUNTING:
        return
    nodes = list(counter.graphs[0].graph.nodes)
    assert [node.op for node in nodes].count("placeholder") == 1
    size = next(node for node in nodes if node.target == "size")
    assert size.op == "call_method" and isinstance(size.meta["example_value"], torch.SymInt)
    assert isinstance(nodes[0].meta["example_value"].shape[0], torch.SymInt)
    assert counter.inputs[0] == [torch.Tensor]


def test_a_failing_condition_explains_itself(caplog):
    compiled = jit.compile(parity, dynamic=True, backend="eager", options={"logs": "recompiles"})
    compiled(A), compiled(B)
    if COUNTING:
        said = caplog.text
        assert "x.size()[0] % 2 == 0" in said and "x.size()[0] == 5" in said and "test_dynamic_sizes.py" in said


def test_each_symbol_is_at_least_one():
    found = jit.explain(pointwise, dynamic=True)(A, A + 1)
    said = [str(guard).partition("  #")[0] for guard in found.guards]
    for name in ("x.size()[0] >= 1", "x.size()[1] >= 1", "x.stride()[0] == x.size()[1]"):
        assert name in said, said


# --- soundness --------------------------------------------------------------------------------------------------------
STEPS = [
    "x = x * 2 + n", "x = x[: n // 2 + 1]", "x = x[1:]", "x = torch.cat([x, x])", "x = x.t()", "x = x.t().contiguous()",
    "x = x.reshape(-1, 2) if x.numel() % 2 == 0 else x", "x = x + x.shape[0]", "x = x.sum(0, keepdim=True) + x",
    "n = x.shape[0] * 2 - n", "n = n // 2 + x.numel() % 3", "n = max(n, x.shape[1])", "n = min(n, 7)", "m = n * m - 3",
    "x = x - 1 if n > 4 else x + 1", "x = x / 2 if n % 2 else x", "x = x.narrow(0, 0, x.size(0) // 2 + 1)",
    "x = x.unsqueeze(0).expand(2, *x.shape).flatten(0, 1)", "x = F.pad(x, (1, n % 3))", "x = x.view(x.shape)",
    "x = x @ x.t()", "x = x.clone(); x[: x.shape[0] // 2] = 0", "x = x if x.shape[0] == x.shape[1] else x.flip(0)",
    "x = torch.stack([x, x], 1).flatten(0, 1)", "x = x.split(2)[0]", "x = x.expand(x.shape)", "m = m % 5 + len(x)",
    "x = x * torch.arange(x.shape[1])", "x = x.softmax(-1) * m", "x = x.chunk(2, 1)[-1]", "m = (m - n) // 2 or 1",
    "x = x.roll(n % 2, 0)", "n = n if x.shape[0] < 9 else 1", "x = y + x if y.shape == x.shape else x", "x = x[:, :2]",
    "x = x if y.shape[0] > x.shape[1] else x * y.shape[1]", "n = x.shape[0] if n == m else n",
]


def program_of(seed):
    choice = random.Random(seed)
    lines = [choice.choice(STEPS) for _ in range(choice.randint(3, 9))]
    text = "def program(x, y):\n    n, m = x.shape\n    " + "\n    ".join(lines) + "\n    return x, n, m, x.shape\n"
    scope = {"torch": torch, "F": F}
    exec(compile(text, f"<program {seed}>", "exec"), scope)
    return scope["program"], text


def outcome(fn, *args):
    try:
        x, n, m, shape = fn(*args)
        return (x.dtype, x.shape, x.stride(), x.nan_to_num().tolist()), n, m, tuple(shape), type(n), type(m), type(shape)
    except Exception as error:
        return type(error), str(error)


def random_input(choice):
    shape = [choice.choice((0, 1, 2, 3, 4, 5, 6, 8, 11)) for _ in range(2)]
    x = X(*shape, seed=choice.randint(0, 99)).round(decimals=1)
    layout = choice.randint(0, 4)
    return x.t() if layout == 0 else X(shape[0] + 2, *shape[1:])[2:] if layout == 1 else x


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(60))
def test_random_program_over_random_shapes(seed):
    fn, text = program_of(seed)
    choice = random.Random(seed + 1000)
    compiled = jit.compile(fn, dynamic=True, backend="eager")
    for _ in range(8):
        args = random_input(choice), random_input(choice)
        expected, got = outcome(fn, *args), outcome(compiled, *args)
        assert got == expected, f"{text}\n{[a.shape for a in args]}"


def test_a_backward_with_symbolic_sizes():
    def program(x, w):
        y = (x.view(x.shape[0], -1) @ w).relu()
        return y.sum(0) / x.shape[0], y.reshape(-1)

    compiled = jit.compile(program, backend="aot_eager", dynamic=True)
    w = torch.randn(6, 3, requires_grad=True)
    for n in (4, 5, 7, 2):
        x = torch.randn(n, 2, 3)
        ours, theirs = compiled(x, w), program(x, w)
        totals = [(a.exp().sum() + b.sum()) for a, b in (ours, theirs)]
        (g,), (h,) = (torch.autograd.grad(total, w) for total in totals)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs))
        torch.testing.assert_close(g, h)


def test_identity_of_a_size_and_a_constant():
    def program(x):
        five = 5
        return x + 1 if x.shape[0] is x.shape[1] or five is x.shape[0] else x

    for n in (5, 6):
        check(program, torch.ones(n, 5), dynamic=True)


def doubled_in_place_and_turned(x):
    x.mul_(2)
    return x.t_()


#: Capture does these to its own stand-ins.
CHANGED = {
    "t_": lambda x: x.t_() * 2,
    "t_ of two": lambda x, y: (x.t_(), y.t_(), x @ y.t()),
    "unsqueeze_": lambda x: x.unsqueeze_(1).sum(0),
    "transpose_ and back": lambda x: x.transpose_(0, 1).transpose_(0, 1).exp_(),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(0) + 1,
    "resize_": lambda x: x.resize_(2, 2) + 1,
    "detach_": lambda x: x.detach_() * 2,
    "as_strided_": lambda x: x.as_strided_((2, 2), (2, 1)) + 1,
    "values and sizes": doubled_in_place_and_turned,
    "the smaller of two sizes": lambda x: x.diagonal().mul_(3).sum() + min(x.shape),
}


@pytest.mark.parametrize("name", CHANGED)
def test_inputs_that_the_frame_changes(name):
    program = CHANGED[name]
    first, *others = ([X(n, 3) for _ in range(program.__code__.co_argcount)] for n in (4, 5, 7))
    check(program, *first, changed=[tuple(args) for args in others], dynamic=True, backend=differentiated_ahead)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("dim", [0, -1])
def test_dimensions_are_dropped_in_place(dim, backend):
    """Torch's own stand-ins crash where such sizes vary."""
    check(
        lambda x: (x * 1).squeeze_(dim), X(5, 3, 4), changed=[(X(*sizes),) for sizes in [(7, 6, 4), (1, 2, 1), (3, 1, 2)]],
        dynamic=True, backend=backend,
    )  # fmt: skip


SHARES = """
x[: int(h * 0.5)] | x.new_zeros(int(h / 2), w) | x.new_zeros(math.ceil(h / 3)) | x[math.floor(h * 0.75) :] | x[: math.trunc(h * 1.5)]
F.interpolate(x[None, None], scale_factor=0.5) | F.interpolate(x[None, None], scale_factor=0.75, mode="bilinear")
F.interpolate(x[None], scale_factor=0.5, mode="linear", recompute_scale_factor=True) | int((h - 1) / 2), int(h * w * 0.25)
x.flatten()[: math.ceil(h * w * 0.125)] | F.interpolate(x[None, None], size=(int(h * 0.5), int(w * 1.5)), mode="bicubic")
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("what", [each.strip() for each in SHARES.replace("\n", "|").split("|") if each.strip()])
def test_whole_parts_of_shares_of_sizes(what, backend):
    """Each size made an entry of its own."""
    scope = {"torch": torch, "F": F, "math": math}
    exec(f"def program(x):\n    h, w = x.shape\n    return x + 1, {what}", scope)
    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(scope["program"], backend=counter)
    for h, w in ((4, 6), (6, 8), (9, 10), (7, 9), (12, 5), (13, 14)):
        x = torch.arange(float(h * w)).view(h, w) / 7
        for ours, theirs in zip(compiled(x), scope["program"](x), strict=True):
            torch.testing.assert_close(ours, theirs)
    counter.expect(2)


@pytest.mark.parametrize("backend", ["eager", "default"])
def test_floats_of_sizes_are_rounded_as_the_program_computes_them(backend):
    """To torch's symbols both are the size times three."""
    def program(x):
        h = x.shape[0]
        plain, twice = h * 3.0, h * 0.3 * 10
        return x * plain, x * twice, plain, twice, int(h * 0.3 * 10), plain == twice, int((h - 5) * 0.5), math.floor((h - 5) / 2)

    compiled = jit.compile(program, backend=backend)
    for h in (3, 5, 9, 7, 4, 12, 13, 18):
        x = torch.ones(h, dtype=torch.float64)
        assert str(compiled(x)) == str(program(x)) and torch.equal(compiled(x)[1], program(x)[1])
