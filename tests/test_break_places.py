"""Where a frame goes on after a break: at jump targets and super-instructions, in comprehensions over cells.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import array
import decimal

import pytest
import torch

import jit
from tests.differential import check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def add(*parts):
    return sum(parts[1:], parts[0])


@pytest.fixture
def split_after_calls():
    """As JIT_BREAK_EVERYWHERE=1."""
    before, jit.config.break_everywhere = jit.config.break_everywhere, True
    yield
    jit.config.break_everywhere = before


PROGRAMS = {
    "call of a call": lambda x: add(x, abs(add(x, x))) * 2,
    "call of calls": lambda x: add(abs(x), add(abs(x), abs(add(x, 1)))) * 2,
    "call that ends a condition": lambda x: add(x, abs(x) if len(x) == 3 else x) * 2,
    "keywords": lambda x: torch.sum(torch.abs(input=x), dim=abs(-1)) * 2,
    "starred": lambda x: add(*map(abs, (x, x)), *[abs(x)]) * 2,
    "in a comprehension": lambda x: [add(y, abs(y)) for y in (x, x + 1)],
    "comprehension and cell": lambda x: [(lambda: add(x, y))() for y in (1, abs(x))],
    "f-string": lambda x: (f"{len(x)} {len(str(len(x)))!r:>4}", x + 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_split_after_every_call(split_after_calls, name):
    check(PROGRAMS[name], X, fullgraph=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole(name):
    check(PROGRAMS[name], X, graphs=1)


CONDITIONS = {
    "argument": lambda x: add(x, 1 if x.sum() > 0 else 2) * 2,
    "last of three": lambda x: add(x, abs(x), x if x.sum() > 0 else x + 1) * 2,
    "keyword": lambda x: torch.sum(x, dim=0 if x.sum() > 0 else 1) * 2,
    "method": lambda x: x.add(1 if x.sum() > 0 else 2) * 2,
    "or": lambda x: add(x, x.sum() > 0 or 3) * 2,
    "and": lambda x: add(x, x.sum() > 0 and 3) * 2,
    "not": lambda x: add(x, not x.sum()) * 2,
    "not not": lambda x: (not not (x.sum() > 0), x + 1),
    "chain": lambda x: add(x, 1 if -100 < x.sum() < 0 else 2) * 2,
    "while": lambda x: [x := x - 1 for _ in range(3) if x.sum() > 0],
    "in a comprehension": lambda x: [y if y.sum() > 0 else -y for y in (x, -x)],
    "filter of a comprehension": lambda x: [y + 1 for y in (x, -x) if y.sum() > 0],
    "set and dict": lambda x: ({i for i in range(3) if x.sum() > i}, {i: x + i for i in range(3) if x.sum() > i}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_on_a_tensor(name):
    check(CONDITIONS[name], X, changed=[(-X,), (X * 10,)])


@jit.disable
def hidden(*items):
    return map(abs, items)


class Program:
    """Programs with one instruction whose operand is hidden from the compiler."""

    def pair(x):
        a, b = hidden(x, 2)
        return a, b, x + b

    def one(x):
        (a,) = hidden(x)
        return a

    def none(x):
        [] = hidden()
        return x + 1

    def starred(x):
        a, *b, c = hidden(1, 2, x, 4)
        return a, b, c, x + a

    def starred_first(x):
        *a, b = hidden(x)
        return a, b

    def starred_last(x):
        a, *b = hidden(x, 1)
        return a, b

    def nested(x):
        (a, b), *c = map(hidden, (x, 1), (2, 3))
        return a, b, [list(d) for d in c]

    def in_a_loop(x):
        for a, b in map(hidden, (x, 1), (2, 3)):
            x = x + a * b
        return x

    def too_many(x):
        try:
            a, b = hidden(x, 2, 3)
        except ValueError as error:
            return str(error), x + 1

    def too_few(x):
        try:
            a, b, *c = hidden(x)
        except ValueError as error:
            return str(error), x + 1

    def not_iterable(x):
        try:
            a, b = D
        except TypeError as error:
            return str(error), x + 1

    def signs(x):
        return +D, -D, not D, not not D, x + 1

    def sign_of_nothing(x):
        return +(D, hidden(1))[0], x + 1

    def tuple_of_starred(x):
        return (*hidden(1, x), *hidden(2)), [*hidden(x)], {*hidden(1)}, x + 1

    def comparisons(x):
        return D < 1, D == 1, 0 < D < 2, x + 1

    def jumps(x):
        return x + 1 if D else x, x if D < 1 else x + 2, x if not D else x + 3, D or x, D and x

    def subscripts(x):
        row = array.array("i", [1, 2, 3])
        row[1:2] = array.array("i", [7])
        return row[0], row[1:], row[::2], x + row[1]

    def attributes(x):
        return D.real, D.adjusted(), x + 1

    def keywords(x):
        return D.quantize(decimal.Decimal("0.1"), rounding=decimal.ROUND_UP), x + 1

    def text(x):
        return f"{D} {D!r:>20} {D:.1f}", x + 1

    def membership(x):
        return 1 in array.array("i", [1]), 2 not in array.array("i", [1]), x + 1

    def augmented(x):
        d = D
        d += 1
        d **= 2
        return d, x + 1


D = decimal.Decimal("1.5")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in vars(Program) if not name.startswith("_")])
def test_hidden_operand(name):
    program = vars(Program)[name]
    check(program, X)
    assert not [record.skipped for record in jit.explain(program)(X).records if record.skipped]


@same_as_eager
def test_comprehension_over_a_cell(x):
    before = lambda: x
    ys = [x for x in (1, 2)]
    return before(), ys, x + 1


@same_as_eager
def test_comprehension_with_a_cell_of_its_own(x):
    before = lambda: x
    ys = [lambda: x for x in (1, 2)]
    return before(), [y() for y in ys], x + 1


@same_as_eager
def test_comprehension_whose_variable_is_free_too(x):
    def inner():
        return [x for x in (1, 2)], y

    y = x + 1
    return inner(), (lambda: x)()


@same_as_eager
def test_break_in_a_comprehension_over_a_cell(x):
    before = lambda: x
    ys = [(x, jit.graph_break())[0] for x in (x + 1, x + 2)]
    return before(), ys, x + 1


@same_as_eager
def test_break_in_a_comprehension_with_a_cell_of_its_own(x):
    before = lambda: x
    ys = [((lambda: x), jit.graph_break())[0] for x in (x + 1, x + 2)]
    return before(), [y() for y in ys], x + 1


@same_as_eager
def test_break_in_a_comprehension_over_a_name_not_bound_yet(x):
    ys = [(y, jit.graph_break())[0] for y in (x + 1, x + 2)]
    y = ys[0] * 2
    return (lambda: y)()


@same_as_eager
def test_nested_comprehensions_with_breaks(x):
    return [[(y + z, jit.graph_break())[0] for y in (x, 1)] for z in (x, 2)], x * 2


@same_as_eager
def test_exception_in_a_comprehension_over_a_cell(x):
    before = lambda: x
    try:
        [1 // x for x in (1, 0)]
    except ZeroDivisionError as error:
        caught = str(error)
    return before(), caught, x + 1


@same_as_eager
def test_exception_of_a_break_in_a_comprehension_over_a_cell(x):
    before = lambda: x
    try:
        [(jit.graph_break(), [][x]) for x in (1, 0)]
    except IndexError as error:
        caught = str(error)
    return before(), caught, x + 1


@same_as_eager
def test_many_cells(x):
    a, b, c, d = x, x + 1, x + 2, x + 3

    def inner(k):
        nonlocal c
        c = c + k
        jit.graph_break()
        return a, b, c, (lambda: (d, k))()

    return inner(1), inner(2), c


@same_as_eager
def test_break_between_cells(x):
    def make(a, b):
        def get():
            return a, b

        jit.graph_break()
        a = a + 1
        return get

    return make(x, x * 2)(), make(b=x, a=3)()


def test_super_that_is_replaced_later():
    scope = {"torch": torch}
    execute("class A(torch.nn.Module):\n    def forward(self, x):\n        return super().type, x + 1\n", scope)
    module = scope["A"]()

    class Other:
        def __init__(self, *args):
            self.type = len(args)

    compiled = jit.compile(module, backend="eager")
    before, _ = compiled(X)
    assert before == module.forward(X)[0]
    scope["super"] = Other
    assert compiled(X)[0] == module.forward(X)[0] != before
    del scope["super"]
    assert compiled(X)[0] == before


class Loud:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        if self.value == 2:
            jit.graph_break()
        return self.value == other.value


def sorted_by_a_key_that_breaks(x):
    items = [3, 1, 2]

    def key(value):
        if value == 1:
            jit.graph_break()
        return value

    y = x * 2
    items.sort(key=key)
    return y + items[0]


def searched_by_what_breaks(x):
    y = x * 2
    return y + [Loud(1), Loud(2)].index(Loud(2))


@pytest.mark.parametrize("program", [sorted_by_a_key_that_breaks, searched_by_what_breaks])
def test_a_break_in_a_later_call_of_one_instruction(program):
    """It takes place before the instruction, not in the middle of the calls that went well."""
    check(program, X)
    report = jit.explain(program)(X)
    assert report.graph_break_count and not any(record.skipped for record in report.records)


def breaks_inside_inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        jit.graph_break()
        return y.sin() + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_break_inside_inference_mode_leaves_torchs_state(backend):
    keys = torch._C._dispatch_tls_local_include_set().raw_repr()
    check(breaks_inside_inference_mode, X, backend=backend)
    assert torch._C._dispatch_tls_local_include_set().raw_repr() == keys
