"""Ints that differ from call to call are inputs of the graph where it does not depend on them, and facts where it does."""
import datetime
import enum
import fractions
import math
import operator

import pytest
import torch
import torch.nn.functional as F

import jit
from symbolic import shapes
from tests.differential import COUNTING, Counting, check

VALUES = (3, 5, 2, 4, 6, 3)
EACH, ONCE = 5, 2  # graphs: one for each value; the first, and one for all others
INTS = {
    **dict.fromkeys((
        "x + n", "n + 1, -n, n", "n * 2 - x.sum()", "n ** 2", "n // 3 + n % 3", "n / 4", "f'{n}', str(n + 1)", "math.sqrt(n)", "float(n)",
        "int(n)", "round(n)", "n is None", "isinstance(n, int)", "torch.full((3,), n)", "x.add(x, alpha=n)", "x ** n", "[n, {1: n}]",
        "x[:n]", "x[..., n:]", "torch.ones(n)", "torch.arange(n)", "x.expand(n, 10)", "x.roll(n)", "x.topk(n)", "x.narrow(0, 1, n)", "x.repeat(n)",
        "not n", "10 // n", "10 % (n - 1)", "n == 3", "min(n, 3)", "divmod(n, 2)", "x.new_zeros(n + 1)", "x[: n // 2]", "sum([n, 0.5])",
        "math.floor(n), math.exp(n / 8), math.atan2(n, 3)", "x * (1 - 0.9**n), n**0.5", "min(1.0, n / 4), max(n / 4, 0.5, n * 0.1)",
        "n in {3, 7}, n in [3, 7], n in (3, 7)", "n in {3: 1, 'a': 2}, {3: 1, 9: 2}.get(n), n in frozenset([3])", "math.floor(n / 2 + 0.25)",
        "x[n]", "x.view(2, 5)[:, : int(n * 0.8)]", "n & 1", "torch.zeros(n, 2)[n - 1]", "torch.tensor([n, 1])", "torch.tensor([[n] * 9] * 2, dtype=torch.float32), torch.tensor(n)",
        "torch.tensor([(n, 1), (2, n * n)])", "n << 2", "2 ** n, n ** n",
        "x * (2 ** n - 1), (n << 1) // 2, n | 8, n ^ 1 << n", "math.isnan(n * 0.5)",
        "torch.linspace(0, 1, n)", "torch.linspace(-n, 7.5, steps=n, dtype=torch.float64)", "F.one_hot(x.long(), num_classes=n + 8)",
    ), ONCE),
    **dict.fromkeys((
        "n * 2 + 1 > 5", "x.view(2, 5)[:, :n]", "TABLE[n] * n, TABLE[-n]", "x + 1 if n / 10 < 0.35 else x", "min(1, n / 4)", "n > 2.5",
        "n ** 0.5 * 2 >= math.pi",
    ), 3),
    **dict.fromkeys((
        "list(range(n))", "[0, 1, 2, 3, 4, 5, 6, 7][n]", "{n: 1}", "n.bit_length()", "hash(n)",
        "'abcdefgh'[n]",
    ), EACH),
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("what", INTS)
def test_ints_that_vary(what, backend):
    scope = {"torch": torch, "F": F, "math": math, "TABLE": [i * 0.5 for i in range(9)]}
    exec(f"def program(x, n): return x + 1, {what}", scope)
    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(scope["program"], backend=counter)
    x = torch.arange(10.0)
    for value in VALUES:
        assert str(compiled(x, value)) == str(scope["program"](x, value))
    if COUNTING:
        asks = what == "x ** n" and torch.__version__ < "2.13"  # torch up to 2.12 asks powers for the number
        assert len(counter.graphs) == (EACH if asks else INTS[what])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("what", [
    "x[: int(h * 0.3)]", "x[: int(h * (0.7 / 1.3))]", "x[: int(h / 3 * 2)]", "x[: round(h * 0.5)]", "x[: math.ceil(h * 0.3)]",
    "x.new_zeros(math.isqrt(h), int(w ** 0.5))", "x[: max(1, int(h * 0.3))].sum(0)", "int(math.log2(h * w)), x.shape[0] * 0.3 > 2",
    "y[: int(y.shape[0] * 0.7)]", "y.new_ones(int(y.numel() / 7), round(w * 0.4))", "x[int(n * h / 40):], int(h * share)",
])  # fmt: skip
def test_whole_parts_of_sizes(what, backend):
    """Each size made a graph of its own."""
    scope = {"math": math}
    exec(f"def program(x, n, share):\n h, w = x.shape\n y = x[1:].reshape(-1)\n return x + 1, {what}", scope)
    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(scope["program"], backend=counter)
    for height, width, n, share in ((10, 7, 5, 0.3), (13, 9, 6, 0.35), (22, 8, 9, 0.5), (17, 11, 7, 0.9), (35, 20, 3, 0.7), (29, 6, 4, 0.4)):
        x = torch.arange(float(height * width)).reshape(height, width)
        assert str(compiled(x, n, share)) == str(scope["program"](x, n, share))
    if COUNTING:
        assert len(counter.graphs) <= 3


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.int64, torch.complex64])
def test_lines_of_as_many_steps_as_there_are_rows(dtype):
    def program(x, end):
        line = torch.linspace(-1, end, x.shape[0], dtype=dtype)
        lines = torch.meshgrid(line, torch.linspace(0.5, 0, x.shape[1], requires_grad=True), indexing="ij")
        return x * (lines[0] + lines[1]), line

    shapes = ((3, 4), (5, 2), (1, 4), (0, 3), (8, 9), (2, 1), (17, 33))
    check(program, torch.ones(4, 3), 2.0, changed=[(torch.ones(shape), 3.0) for shape in shapes], backend="default")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("window", ["hann", "hamming", "bartlett", "blackman", "kaiser"])
def test_windows_as_long_as_there_are_rows(window, periodic):
    make = getattr(torch, f"{window}_window")

    def program(x, n):
        whole = make(x.shape[0], periodic, dtype=torch.float64)
        return x * whole[:, None], make(window_length=n, periodic=periodic), make(n + 1).sum()

    sizes = ((3, 4), (5, 2), (1, 1), (2, 1), (8, 9), (17, 33), (4, 0))
    check(program, torch.ones(4, 3), 6, changed=[(torch.ones(size, 3), n) for size, n in sizes], backend="default", tolerance=(1e-5, 1e-6))
    if COUNTING and window != "kaiser":
        counter = Counting(jit.backends.BACKENDS["default"])
        compiled = jit.compile(program, backend=counter)
        for size in (4, 5, 8, 17, 30):
            compiled(torch.ones(size, 3), size + 2)
        assert len(counter.graphs) == 2


def test_powers_on_a_line():
    def program(x, n):
        return x * torch.logspace(0, 1, x.shape[0])[:, None], torch.logspace(2, -1.5, n, base=2, dtype=torch.float64)

    changed = [(torch.ones(size, 3), n) for size, n in ((5, 2), (1, 1), (8, 9), (2, 33))]
    check(program, torch.ones(4, 3), 6, changed=changed, backend="default", tolerance=(1e-5, 1e-6))


def test_classes_that_vary():
    def program(x, classes):
        return F.one_hot(input=x, num_classes=classes), F.one_hot(x % 2, classes).sum(0)

    x = torch.tensor([3, 0, 4, 4])
    check(program, x, 5, changed=[(x, 8), (x, 6), (x[:2], 4)], backend="default")
    compiled = jit.compile(program, backend="default")
    assert [compiled(x, classes)[0].shape for classes in (5, 6, 8)] == [(4, 5), (4, 6), (4, 8)]
    with pytest.raises(RuntimeError):
        compiled(x, 4)


class Month(enum.IntEnum):
    MARCH = 3


class Own(int):
    def __eq__(self, other):
        return "own"

    __hash__ = int.__hash__

    def __radd__(self, other):
        return "added"


OWN = Own(3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("values", [(3, 5, 2, 3), (3.0, 5.0, 2.0, 3.0)], ids=["ints", "floats"])
@pytest.mark.parametrize("what", ["n == V", "V == n", "n != V", "n in (V,), n in {V}, {V: 1}.get(n)", "n + V, V - n", "n < V"])
@pytest.mark.parametrize("other", ["Month.MARCH", "OWN"])
def test_numbers_of_derived_classes(other, what, values):
    scope = {"Month": Month, "OWN": OWN}
    exec(f"def program(x, n): return x + 1, {what.replace('V', other)}", scope)
    compiled = jit.compile(scope["program"], backend="eager")
    for value in values:
        assert str(compiled(1, value)) == str(scope["program"](1, value))


@pytest.mark.parametrize("backend", ["eager", "default"])
def test_floats_that_are_compared(backend):
    """Each value made an entry of its own."""
    def program(x, share, log):
        if share * 2 < 1.0:
            x = x * share
        log.append((share > 0.3, bool(share), share != share, 0.5 <= share / 2, [x for x in (1, 2) if x > share]))
        return x + 1 if share * 0.1 + 1 > 1.05 else x

    nan, inf = math.nan, math.inf
    values = (0.1, 0.2, 0.6, 0.25, nan, 0.7, 0.0, -0.0, 1.5, 1.75, inf, -inf, 2.5, 0.55, nan, 0.22, -3.0)
    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    x = torch.arange(4.0)
    for value in values:
        ours, theirs = [], []
        assert str(compiled(x, value, ours)) == str(program(x, value, theirs))
        assert str(ours) == str(theirs)
    if COUNTING:
        assert len(counter.graphs) <= 9
        said = jit.export_guards(compiled)
        assert "and (share * 2) < 1.0  # " in said and "and not share > 0.3  # " in said


@pytest.mark.parametrize("backend", ["eager", "default"])
def test_floats_are_compared_with_one_another(backend):
    """Each pair of values made an entry of its own."""
    def program(x, a, b, best):
        if a * 0.5 < b and not b > a + best["loss"]:
            best["loss"] = b
            return x + a
        return x - b

    counter, x = Counting(jit.backends.BACKENDS[backend]), torch.ones(2)
    compiled = jit.compile(program, backend=counter)
    ours, theirs = {"loss": math.inf}, {"loss": math.inf}
    given = [(1.0, 2.0), (1.5, 2.5), (9.0, 2.0), (9.0, 5.0), (1.0, 0.25), (2.0, 8.0), (math.nan, 1.0), (3.0, math.inf)]
    for a, b in given * 2:
        assert torch.equal(compiled(x, a, b, ours), program(x, a, b, theirs)) and ours == theirs
    if COUNTING:
        assert len(counter.graphs) <= 5
        assert "(a * 0.5) < b" in jit.export_guards(compiled)


def test_what_is_read_at_a_place_that_varies_is_read_in_each_call():
    """Each place made an entry of its own."""
    def program(x, table, weights, n):
        y = x * table[n] + weights[n - 1]
        table.append(table[n] * 2)
        return y, table[-1], weights[n]

    counter, x = Counting(jit.backends.BACKENDS["eager"]), torch.ones(2)
    compiled = jit.compile(program, backend=counter)
    made = [([0.5 * i for i in range(6)], [torch.full((2,), float(i)) for i in range(6)]) for _ in range(2)]
    for n in (3, 4, 2, 5, 3, 2):
        ours, theirs = (call(x, *lists, n) for call, lists in zip((compiled, program), made, strict=True))
        assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1] and ours[2] is made[0][1][n]
        assert made[0][0] == made[1][0]
        for lists in made:
            del lists[0][6:]
    for call, lists in zip((compiled, program), made, strict=True):
        with pytest.raises(IndexError, match="list index out of range"):
            call(x, *lists, 17)
    counter.expect(3)


def test_what_is_read_at_a_place_that_varies_may_have_been_changed():
    def program(x, table, names, n):
        table[2], before = table[n] + 1, table[n]
        names[n] = names.get(n, 0) + table[n]
        return x * table[n], before, names[n], n in names, table[0], table[2:]

    compiled, x = jit.compile(program), torch.ones(2)
    made = [([0.5 * i for i in range(6)], {3: 1.5}) for _ in range(2)]
    for n in (3, 4, 2, 5, 1, 3, 2):
        ours, theirs = (call(x, *given, n) for call, given in zip((compiled, program), made, strict=True))
        assert torch.equal(ours[0], theirs[0]) and ours[1:] == theirs[1:] and made[0] == made[1]


def test_a_size_that_is_computed_of_a_float_is_one_more_size():
    """Each share made an entry of its own."""
    def program(x, share, keep):
        rows, columns = (int(size * math.sqrt(1 - share)) for size in x.shape)
        y = x.clone()
        y[:rows, :columns] = 0
        return y, x[: round(keep * 9)].sum(0), torch.zeros(math.ceil(share * 8))

    counter, x = Counting(jit.backends.BACKENDS["default"]), torch.randn(12, 16)
    compiled = jit.compile(program, backend=counter)
    for share, keep in zip((0.5, 0.2, 0.75, 0.3, 0.6), (0.25, 0.5, 0.75, 0.3, 0.9), strict=True):
        for ours, theirs in zip(compiled(x, share, keep), program(x, share, keep), strict=True):
            assert ours.shape == theirs.shape and torch.allclose(ours, theirs)
    counter.expect(ONCE)


def test_what_no_guard_should_compute_is_computed_by_the_program():
    """What is asked of a number may be asked of small ones alone."""
    def program(x, n):
        return x * (1 << n) * 3**n % 7 if n < 30 else x

    compiled = jit.compile(program)
    for n in (3, 4, 20, 1 << 50, 5, 1 << 19):
        assert torch.equal(compiled(torch.ones(2), n), program(torch.ones(2), n))


@pytest.mark.parametrize("value", [0, -7, 1 << 40, (1 << 63) - 1, -(1 << 63), True, 3.5, None], ids=str)
def test_other_values_after_ints_that_vary(value):
    def program(x, n):
        return (x, 0) if n is None else (x * n, n + 1)

    compiled = jit.compile(program)
    for n in (3, 5, 8, value, 5):
        (x, number), (y, expected) = compiled(torch.arange(4), n), program(torch.arange(4), n)
        assert torch.equal(x, y) and number == expected and type(number) is type(expected)


def test_an_error_that_only_some_values_make_is_raised_where_eager_code_raises_it():
    def program(x, n, seen):
        seen.append(n)
        return x + 10 // n

    compiled = jit.compile(program)
    for n in (1, 2, 3, 0, 4, 0):
        ours, theirs = [], []
        for call, seen in ((compiled, ours), (program, theirs)):
            try:
                seen.append(call(torch.arange(3), n, seen).tolist())
            except ZeroDivisionError as error:
                seen.append(str(error))
        assert ours == theirs


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        self.total += x
        return self.total + self.calls


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_a_counter_compiles_twice(backend):
    counter = Counting(jit.backends.BACKENDS[backend])
    ours, theirs = Counts(), Counts()
    compiled = jit.compile(ours, backend=counter)
    for _ in range(12):
        x = torch.randn(3)
        assert torch.equal(compiled(x), theirs(x))
        assert ours.calls == theirs.calls and type(ours.calls) is int
    if COUNTING:
        assert len(counter.graphs) == ONCE


def test_an_int_beside_a_size_that_varies():
    def program(x, n):
        return (x * n).view(x.shape[0], -1), torch.ones(x.shape[0] * n), x.shape[0] + n

    compiled = jit.compile(program, dynamic=True)
    for n, rows in ((3, 4), (5, 4), (5, 6), (2, 6), (2, 3)):
        x = torch.randn(rows, 2)
        for ours, theirs in zip(compiled(x, n), program(x, n), strict=True):
            assert torch.equal(torch.as_tensor(ours), torch.as_tensor(theirs))


@pytest.mark.parametrize("what", ["max(1.0, n), min(n, 0.5, 2.0)", "sum([n, 0.5])", "pow(n, 2), abs(-n), divmod(n, 0.3)", "round(n, 1) + math.sqrt(n)"])
def test_numbers_read_from_tensors_are_computed_with(what):
    scope = {"math": math}
    exec(f"def program(x):\n    n = float(x.norm())\n    return x * n, {what}", scope)
    check(scope["program"], torch.tensor([0.1, 0.2, 0.7]), changed=(torch.tensor([3.0, 4.0, 1.0]),), graphs=1)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.s, None


class Typed(Scaled):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s if isinstance(s, (int, float)) else x - s


class Matched(Scaled):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        match s:
            case int() | float():
                return x * s
        return x - s


class Chosen(Scaled):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s if s > 2 else x.double()

    @staticmethod
    def backward(ctx, g):
        return (g * math.exp(ctx.s) if ctx.s != 3 else g).float(), None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("function", [Scaled, Typed, Matched, Chosen])
def test_numbers_that_vary_are_given_to_an_autograd_function(function, kind, backend):
    def program(x, s):
        return function.apply(x * 2, s)

    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    for value in map(kind, VALUES):
        ours, theirs = (torch.ones(2, requires_grad=True) for _ in range(2))
        got, expected = compiled(ours, value), program(theirs, value)
        got.sum().backward(), expected.sum().backward()
        assert got.dtype == expected.dtype and torch.equal(got, expected) and torch.equal(ours.grad, theirs.grad)
    if function is Scaled:
        counter.expect(ONCE)


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 5


class Odd(int):
    def __eq__(self, other):
        return other % 2 == 1

    __hash__ = int.__hash__


@pytest.mark.parametrize(("number", "graphs"), [(Level.LOW, 2), (True, 2), (Odd(8), None)])
def test_numbers_that_vary_are_compared_with_those_of_derived_classes(number, graphs):
    def program(x, n):
        return (x + 1 if n == number else x - 1), n != number, number == n

    x, counter = torch.ones(2), Counting(jit.backends.BACKENDS["eager"])
    compiled = jit.compile(program, backend=counter)
    for n in (6, 7, 9, 8, 12, 13):
        assert all(map(torch.equal, map(torch.as_tensor, compiled(x, n)), map(torch.as_tensor, program(x, n))))
    if graphs:
        counter.expect(graphs)


@pytest.mark.parametrize("count", [3, 300])
def test_of_very_many_numbers_of_one_list_none_is_an_input(count):
    """Data has no symbol for each: that took seconds for hundreds."""
    inputs = []

    def backend(module, examples):
        inputs.append(len(examples))
        return module

    def program(x, n, numbers):
        return x * n + numbers[0] + numbers[-1][0]

    compiled = jit.compile(program, backend=backend)
    for n in range(4, 9):
        numbers = [*range(n, n + count), (n + 1,)]
        assert torch.equal(compiled(torch.ones(2), n, numbers), program(torch.ones(2), n, numbers))
    assert inputs == ([1, 4] if count == 3 else [1, 2, 2, 2, 2])


def test_numbers_that_are_asked_for_one_by_one_are_no_system_of_equations(monkeypatch):
    """As such they took seconds for a hundred."""
    monkeypatch.setattr(shapes, "solved", lambda *given: pytest.fail("a system of equations"))
    compiled = jit.compile(lambda numbers: torch.tensor(numbers), backend="eager")
    for first in (2, 3, 4):
        assert compiled([first, 7 * first, 5 * first]).tolist() == [first, 7 * first, 5 * first]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", [
    "while i < n:\n        i += 1", "while n:\n        n, i = n - 1, i + 2", "while True:\n        i += 1\n        if i == n:\n            break",
    "for k in range(900):\n        i += bool(k % n)",
])  # fmt: skip
def test_loops_over_a_number_that_varies_ask_of_it_only_so_often(body):
    """Each turn had a guard, of several milliseconds."""
    scope = {}
    exec(f"def program(x, n):\n    i = 0\n    {body}\n    return x + i", scope)
    program, compiled = scope["program"], jit.compile(scope["program"], backend="eager")
    for n in (500, 600, 610):
        assert torch.equal(compiled(torch.ones(2), n), program(torch.ones(2), n))
    if not jit.config.break_everywhere:
        assert all(len(entry.guards) < 2 * shapes.MOST_ASKED for entry in compiled.debug_state().entries)


def test_a_loop_over_a_number_that_is_said_to_vary_has_all_its_guards():
    def program(x):
        i = 0
        while i < len(x) and i < shapes.MOST_ASKED + 20:
            i += 1
        return x + i

    compiled = jit.compile(program, backend="eager", options={"loop_limit": 0})
    for size in (200, 300):
        x = torch.ones(size)
        jit.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), program(x))
    if COUNTING:
        assert len(compiled.debug_state().entries) == 1


def test_the_start_of_enumerate():
    def program(x, start):
        walk = enumerate(x, start)
        first = next(walk)
        return first, [row * at for at, row in walk], walk

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for start in (1, 2, 5, 9, 7):
        x = torch.ones(3, 2)
        (at, row), rows, walk = compiled(x, start)
        assert at == start and next(walk, "end") == "end"
        assert torch.equal(torch.stack(rows), torch.stack([x[1] * (start + 1), x[2] * (start + 2)]))
    counter.expect(2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("other", [None, "a", b"a", {}, (), [1], {1}, datetime.timedelta(2)], ids=repr)
def test_errors_name_the_operator_as_it_was_written(other):
    def program(x, n, other):
        said = []
        for change in (lambda a, b: operator.iadd(a, b), added, taken, multiplied):
            for pair in ((n, other), (other, n)):
                try:
                    said.append(repr(change(*pair)))
                except TypeError as error:
                    said.append(str(error))
        return x + 1, said

    def added(a, b):
        a += b
        return a

    def taken(a, b):
        a -= b
        return a

    def multiplied(a, b):
        a *= b
        return a

    args = [(torch.ones(2), n, other) for n in (3, 5, 7, 1.5, 2.5, 3.5)]
    check(program, *args[0], changed=args[1:])


class Dial:
    def __init__(self, at):
        self.at = at

    def turn(self, by):
        self.at += by

    def lower(self, by):
        self.at <<= by


class Silent:
    pass


class Adding:
    def __radd__(self, other):
        return other + 1


@pytest.mark.parametrize("kind", [Silent, Adding])
@pytest.mark.parametrize("way", ["turn", "lower"])
def test_the_error_of_an_operator_in_place_names_that(way, kind):
    def program(x, dial):
        try:
            getattr(dial, way)(kind())
        except TypeError as error:
            return str(error), x + 1
        return dial.at, x + 1

    compiled = jit.compile(program, backend="eager")
    for at in (0, 1, 2, 7):
        assert str(compiled(torch.ones(2), Dial(at))) == str(program(torch.ones(2), Dial(at)))


def test_what_loops_compute_of_numbers_that_vary_does_not_grow_without_end():
    """A number that comes of too many steps is a plain one from there on."""
    def program(x, numerator, denominator):
        return fractions.Fraction(numerator, denominator).limit_denominator(7).denominator, x + 1

    calls = [(torch.ones(3), *pair) for pair in ((7001, 4333), (28657, 17711), (70140, 43349))]
    check(program, *calls[0], changed=calls[1:])
