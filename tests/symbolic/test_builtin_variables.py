"""Builtins and the standard library: polyfills against the real functions, then programs against eager."""
import bisect
import collections
import collections.abc
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import inspect  # noqa: F401  the programs written as text use what is imported here
import itertools
import math
import numbers  # noqa: F401
import operator
import os  # noqa: F401
import platform  # noqa: F401
import random  # noqa: F401
import re  # noqa: F401
import sys  # noqa: F401
import time  # noqa: F401
import types  # noqa: F401
import typing  # noqa: F401

import pytest
import torch

from symbolic import polyfills
from symbolic.capture import Return
from symbolic.errors import Restart
from symbolic.options import Options
from symbolic.translator import capture
from symbolic.variables import builtins as rows
from symbolic.variables.text import repr_of
from tests.differential import check, same_as_eager, tensors


class Strange:
    """Compares by its own rules, which are not those of an order."""

    def __init__(self, value):
        self.value = value

    def __gt__(self, other):
        return self.value % 3 > other.value % 3

    def __lt__(self, other):
        return self.value % 3 < other.value % 3

    def __repr__(self):
        return f"Strange({self.value})"


def outcome(function, *args, **kwargs):
    """What a call gives: its value, or the type and text of its exception; and what it left of iterators."""
    rest = [arg for arg in args if hasattr(arg, "__next__")]
    try:
        result = ("returned", repr(function(*args, **kwargs)))
    except Exception as error:
        result = (type(error), str(error))
    return result, [repr(list(iterator)) for iterator in rest]


def agree(polyfill, real, cases):
    for case in cases:
        args, kwargs = case() if callable(case) else (case, {})
        expected = outcome(real, *args, **kwargs)
        args, kwargs = case() if callable(case) else (case, {})
        assert outcome(polyfill, *args, **kwargs) == expected, (args, kwargs)


STRANGE = [Strange(value) for value in (4, 1, 5, 2, 0, 3)]
ITERABLES = [(), (0,), (1, 2), (0, "", None), ("", 0, 5, 0), "abc", "", [3, 1, 2], (1.5, 2, True), ((1, 2), (1, 1)), STRANGE,
             (1, "a"), 5, None, {"b": 1, "a": 2}, (float("nan"), 1.0), (1.0, float("nan"))]


@pytest.mark.parametrize("name", ["any", "all", "max", "min"])
def test_polyfill_of_one_iterable(name):
    real = getattr(__import__("builtins"), name)
    agree(getattr(polyfills, name), real, [(iterable,) for iterable in ITERABLES])
    if isinstance(real, type(len)):
        agree(getattr(polyfills, name), real, [lambda: ((iter([0, 1, 0, 2]),), {}), lambda: ((iter([1, 0, 3]),), {})])


@pytest.mark.parametrize("name", ["max", "min"])
def test_polyfill_with_key_and_default(name):
    def first(value):
        return value[0]

    cases = []
    for iterable in ITERABLES:
        for named in ({"default": 7}, {"key": None}, {"key": str}, {"key": str, "default": None}, {"key": first}):
            cases.append(lambda iterable=iterable, named=named: ((iterable,), named))
    for args in itertools.product((1, 2.0, True, "a", STRANGE[0]), repeat=2):
        cases += [args, lambda args=args: (args, {"key": repr}), lambda args=args: (args, {"default": 3})]
    cases.append((1, 5, 2, 5.0))
    agree(getattr(polyfills, name), getattr(__import__("builtins"), name), cases)


def test_polyfill_reduce():
    cases = [(function, iterable) for function in (operator.add, max, lambda a, b: [a, b]) for iterable in ITERABLES]
    cases += [(function, iterable, initial) for function, iterable in cases for initial in (0, "x", None)]
    agree(polyfills.reduce, functools.reduce, cases)


def test_polyfill_counting_and_finding():
    nan = float("nan")
    cases = [(iterable, value) for iterable in [*ITERABLES, [nan, nan]] for value in (0, 1, "a", None, nan, "", True)]
    agree(polyfills.count_of, operator.countOf, [case for case in cases if case[0] not in (5, None)])
    agree(polyfills.index_of, operator.indexOf, [case for case in cases if case[0] not in (5, None)])


def test_polyfill_prod():
    agree(polyfills.prod, math.prod, [(case,) for case in ((), (1, 2, 3), (1.5, 2), [2, 3, 4], (1, "ab"))])
    agree(polyfills.prod, math.prod, [lambda: (([1, 2],), {"start": 4}), lambda: (((),), {"start": "x"})])


class Sequence:
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Shrunk(Sequence):
    def __len__(self):
        return len(self.items) + 1


def test_polyfill_reversed():
    for make in (Sequence, Shrunk):
        for items in ((), (1,), (1, 2, 3)):
            try:
                expected = list(reversed(make(*items)))
            except IndexError:
                expected = None
            assert list(polyfills.reversed(make(*items))) == expected


def test_polyfill_cmp_to_key():
    def compare(a, b):
        return (a % 3) - (b % 3)

    for order in itertools.permutations(range(5)):
        assert sorted(order, key=functools.partial(polyfills.ComparisonKey, compare)) == sorted(order, key=functools.cmp_to_key(compare))
    real, ours = functools.cmp_to_key(compare)(4), functools.partial(polyfills.ComparisonKey, compare)(4)
    for op in (operator.lt, operator.le, operator.eq, operator.ge, operator.gt):
        assert op(real, functools.cmp_to_key(compare)(1)) == op(ours, functools.partial(polyfills.ComparisonKey, compare)(1))
    with pytest.raises(TypeError):
        hash(ours)



def test_library_twins_agree_with_the_native_functions():
    heap, twin = [], []
    for number in (5, 1, 4, 1, 3, 9, 0):
        heapq.heappush(heap, number)
        rows.POLYFILLS.get(heapq.heappush)(twin, number)
        assert heap == twin
    assert [heapq.heappop(heap) for _ in range(7)] == [rows.POLYFILLS.get(heapq.heappop)(twin) for _ in range(7)]
    for number in (0, 1, 2, 7, 9):
        assert bisect.bisect_left([1, 2, 2, 7], number) == rows.POLYFILLS.get(bisect.bisect_left)([1, 2, 2, 7], number)

# --- programs of constants: what tracing computes is what Python computes ------------------------------------------------


@functools.lru_cache
def cached(n):
    return n * 2


@functools.singledispatch
def kind_of(value):
    return "any"


@kind_of.register
def _(value: int):
    return "int"


@kind_of.register
def _(value: str):
    return "str"


@dataclasses.dataclass
class Point:
    x: int
    y: object


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Countdown:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index >= 3:
            raise IndexError(index)
        return 30 - index * 10

    def __iter__(self):
        return iter([30, 20, 10])


class Quantity:
    def __int__(self):
        return 7

    def __index__(self):
        return 6

    def __float__(self):
        return 2.5

    def __round__(self, ndigits=None):
        return ("rounded", ndigits)

    def __abs__(self):
        return "absolute"

    def __str__(self):
        return "quantity"

    def __format__(self, spec):
        return "formatted " + spec

    def __hash__(self):
        return 77

    def __floor__(self):
        return "floor"


class Plain:
    def __init__(self):
        self.a = 1
        self.b = [2]


Pair = collections.namedtuple("Pair", "first second")
first_and_third = operator.itemgetter(0, 2)
parts_of = operator.attrgetter("real", "imag")
split = operator.methodcaller("split", sep=",")


def plain(a, b=2):
    return a


def heap_sorted():
    heap = []
    for number in (3, 1, 2):
        heapq.heappush(heap, number)
    heapq.heapify(heap)
    return [heapq.heappop(heap) for _ in range(3)]


def wrapped():
    def decorate(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args)
        return inner

    @decorate
    def local(x):
        "the doc"
        return x
    known = decorate(plain)
    return known.__name__, known.__doc__, known(4), known.__wrapped__ is plain, local.__name__, local.__doc__, local(5)


def attributes():
    one = Plain()
    setattr(one, "c", 5)
    setattr(one, "a", 2)
    delattr(one, "b")
    return one.a, one.c, hasattr(one, "b"), hasattr(one, "d"), getattr(one, "b", "default"), sorted(vars(one))


def same_objects():
    a, b = [1], [2]
    return max([a, b]) is b, min((a, b)) is a, sum([], a) is a, max((1, a), (0, b))[1] is a, sum([a]  , []) is a


def identities():
    one, two = Plain(), Plain()
    seen = {id(one): 1}
    return id(one) == id(two), id(one) != id(two), id(one) in seen, id(two) in seen, seen[id(one)], id(one) == id(one)


@contextlib.contextmanager
def five():
    yield 5


def managed():
    with five() as number, contextlib.suppress(KeyError):
        raise KeyError(number)
    return number


FOLDED = """
same_objects()
round(Plain())
vars(3)
operator.length_hint([1])
len([1,2,3]) + max(4, 9)
max([3,1,2]), min((3,1)), max([1,2], key=lambda x: -x), max([], default=3), min("abc")
max(1, 2.5, key=lambda x: x), min([[2],[1]]), max([])
max()
max(1,2,default=3)
sum([1,2,3]), sum([0.1]*10), sum([[1],[2]], []), sum((1,2), 5)
sum(["a"], "")
any([0,1]), all([1,0]), any(x > 2 for x in [1,2,3]), all(())
sorted([3,1,2]), sorted([3,1,2], reverse=True), sorted(["b","A"], key=str.lower), sorted({3,1})
list(map(lambda a, b: a + b, [1,2], [3,4])), list(zip([1,2],"ab")), list(enumerate("ab", 3))
list(range(3)), range(5)[1:], list(range(0, 10, 3)), len(range(7)), range(1.5)
range()
isinstance(3, int), isinstance(3, (str, float)), isinstance([], list), issubclass(bool, int), isinstance(3, int | str), issubclass(list, (tuple, list))
issubclass(3, int)
type(3), type([]), type("x").__name__, type(type(3)), type(len)
callable(len), callable(3), callable(lambda: 0), callable(int)
hasattr(3, "real"), hasattr([], "foo"), getattr([], "foo", 5), getattr(3, "real"), getattr([], "append", None) is None
getattr([], "foo")
getattr([], 3)
list((1,2)), tuple([1]), dict(a=1), dict([(1,2)], b=3), set([1,1,2]), frozenset([1,2]), list(), tuple(), dict(), set(), frozenset()
list(1,2)
list(5)
dict({"x": 1}), dict({"x": 1}, y=2), tuple("abc"), list({1: 2}), list({"a": 1}.items())
abs(-3), abs(-2.5), round(2.567, 2), round(3.5), pow(2, 3), pow(2, 3, 5), divmod(7, 2), divmod(7.5, 2)
int("12"), int(3.7), int(), int("ff", 16), int(True), float("1.5"), float(3), float(), complex(1, 2), bool([]), bool(3), bool(), complex("1+2j")
int("zz")
int([])
str(3), str([1, "a", (2,)]), repr({"a": [1, None]}), str(), str(b"ab", "ascii"), repr("x"), ascii("é"), format(3.14159, ".2f"), format("a", ">4"), format([1]), str({1,2}), str(frozenset()), repr(set())
format([1], "x")
f"{3:04d} {'x'!r} {[1,2]} {1.5:.1f} {int} {None}"
chr(65), ord("a"), hex(255), oct(8), bin(5), hash(5), hash((1,2)), bytes([1,2]), bytes(3)
ord("ab")
[*reversed([1,2,3])], [*reversed((1,2))], [*reversed(range(3))], [*reversed("abc")], [*reversed({"a":1,"b":2})]
reversed(5)
next(iter([1])), next(iter([]), 7), [*iter((1,2))]
next(iter([]))
next([])
[*filter(None, [0,1,2])], [*filter(lambda x: x > 1, [0,1,2])]
slice(1, 2), slice(3), [1,2,3][slice(1)]
operator.add(1, 2), operator.mul("a", 3), operator.neg(3), operator.not_(0), operator.truth([]), operator.is_(None, None), operator.contains([1,2], 2), operator.getitem([1,2], 1), operator.iadd([1], [2]), operator.index(5), operator.concat([1],[2]), operator.countOf([1,1,2], 1), operator.indexOf([1,2], 2), operator.lt(1,2), operator.abs(-4), operator.inv(3), operator.length_hint([1,2])
operator.itemgetter(1)([4,5]), operator.itemgetter(0, -1)("abc"), operator.attrgetter("real")(3), operator.methodcaller("upper")("a"), operator.methodcaller("split", sep=",")("a,b"), first_and_third([1,2,3]), parts_of(3), split("a,b"), [*map(operator.itemgetter(0), [(1,2),(3,4)])]
operator.itemgetter()
operator.attrgetter(3)
operator.index(1.5)
functools.reduce(lambda a, b: a + b, [1,2,3]), functools.reduce(operator.mul, [2,3], 10), functools.partial(max, 3)(2), functools.partial(int, base=2)("101")
functools.reduce(max, [])
functools.partial(3)
sorted([3,1,2], key=functools.cmp_to_key(lambda a, b: b - a))
math.sqrt(4), math.pi, math.floor(2.5), math.ceil(2.1), math.prod([1,2,3]), math.prod(x for x in (2,3)), math.fsum([0.1]*10), math.gcd(4, 6), math.inf, math.isnan(math.nan), math.log(8, 2), math.hypot(3, 4), math.frexp(3.0), math.dist([0,0],[3,4]), math.factorial(5), math.comb(5,2), math.copysign(1, -0.0)
math.sqrt(-1)
math.sqrt("a")
collections.deque([1,2,3], maxlen=2), collections.deque(), collections.OrderedDict([("a", 1)]), collections.defaultdict(list), collections.Counter("aab"), collections.Counter([1,2,1]).most_common(1)
copy.copy([1,[2]]), copy.deepcopy([1,[2],(3,[4])]), copy.copy({"a": 1}), copy.deepcopy({"a": [1]}), copy.copy(3), copy.copy((1,2)), copy.deepcopy("x")
dict.fromkeys("ab"), dict.fromkeys([1,2], 0), str.upper("a"), str.join("-", ["a","b"]), list.append([], 1), int.from_bytes(b"a", "big"), collections.OrderedDict.fromkeys("ab"), str.maketrans("a", "b"), int.__add__(1, 2), object.__eq__(1, 2)
list.append(3, 1)
list.append()
len(3)
len()
plain(1), cached(3), kind_of(3), kind_of("a"), kind_of([1])
heapq.nsmallest(2, [3,1,2]), bisect.bisect([1,2,3], 2)
heap_sorted()
wrapped()
repr(Point(1, [2])), Point(1, 2) == Point(1, 2), str(Point(1, 2)), dataclasses.replace(Point(1, 2), x=5).x, [f.name for f in dataclasses.fields(Point)], dataclasses.asdict(Point(1, [2])), dataclasses.is_dataclass(Point)
str(Color.RED), repr(Color.RED), Color.RED.value, Color(1).name, f"{Color.RED}", Color["RED"] is Color.RED, list(Color), len(Color), isinstance(Color.RED, Color), int(Size.SMALL), max(Size.SMALL, Size.LARGE), Size.SMALL + 1, math.sqrt(Size.SMALL)
str(ValueError("a")), repr(ValueError("a", 2)), str(KeyError("a")), str(ValueError()), str(ValueError(1,2))
len(Countdown()), bool(Countdown()), [*Countdown()], list(reversed(Countdown())), int(Quantity()), float(Quantity()), round(Quantity()), abs(Quantity()), str(Quantity()), f"{Quantity():x}", operator.index(Quantity()), range(Quantity()), complex(Quantity()), hash(Quantity()), math.floor(Quantity())
vars(Plain())["a"], hasattr(Plain(), "a"), getattr(Plain(), "zz", 1), SETparts_of(), DELparts_of(), copy.copy(Plain()).a, copy.deepcopy(Plain()).b, id(1) if 0 else 2
identities()
os.path.join("a", "b"), os.getenv("NO_SUCH_VARIABLE", "x"), sys.intern("a"), os.cpu_count() > 0, platform.system(), re.escape("a.b"), re.sub("a", "b", "aa"), re.findall("a", "aba")
next(zip([1], [2])), dict(zip("ab", [1,2])), {**dict(a=1)}, [*map(str, range(3))], [*map(None.__class__, [])]
types.MethodType(plain, 5)(), types.MethodType(len, [1])()
types.MethodType(plain, None)
iter(5)
object() is None
hash([])
min(Plain(), Plain())
len.__name__, list.__name__, math.sqrt.__module__, int.__doc__ is None, len.__self__ is None, list.append.__name__
sum(x for x in [1.5, 2]), sum([True, 2.0]), sum([1, 2.5, 1j]), sum(map(len, ["a", "bb"]))
list(map(int, "12")), [*zip()], list(zip([1,2],[3])), all(map(callable, [len, int]))
[*zip([1,2],[3], strict=True)]
{*()}, set("a") | {"a"}, sorted(set("hello")), frozenset("a") == {"a"}
isinstance(3, collections.abc.Hashable), isinstance([], collections.abc.Sequence), isinstance({}, typing.Mapping), isinstance(3, numbers.Number)
contextlib.nullcontext(3).enter_result, managed()
list(itertools.chain([1],[2])), list(itertools.chain.from_iterable([[1],[2]])), list(itertools.islice([1,2,3,4], 1, None, 2)), list(itertools.islice(itertools.count(3, 2), 3)), list(itertools.repeat(1, 2)), list(itertools.accumulate([1,2,3])), list(itertools.accumulate([1,2], max, initial=0)), list(itertools.takewhile(bool, [1,0,1])), list(itertools.dropwhile(bool, [1,0,1])), list(itertools.starmap(max, [(1,2)])), list(itertools.pairwise([1,2,3])), list(itertools.zip_longest([1],[2,3], fillvalue=0)), list(itertools.compress("abc", [1,0,1])), [(k, list(g)) for k, g in itertools.groupby("aab")], list(itertools.product([1,2], repeat=2)), list(itertools.permutations([1,2])), list(itertools.combinations([1,2,3], 2)), list(itertools.combinations_with_replacement([1,2], r=2)), list(itertools.filterfalse(None, [0,1]))
[list(t) for t in itertools.tee([1,2,3], 2)], list(itertools.islice(itertools.cycle([1,2]), 5))
itertools.islice([1], -1)
itertools.islice([1])
list(itertools.chain(5))
itertools.count("a")
itertools.repeat()
itertools.combinations([1], -1)
list(zip([1,2],[3], strict=True))
zip(1)
map(len)
enumerate([], 1.5)
slice()
operator.itemgetter(0)([])
collections.deque(5)
collections.deque([], -1)
collections.defaultdict(3)
dict([1])
dict(1, 2)
set(5)
frozenset([[]])
sorted([1, "a"])
sorted(5)
sorted([1], 2)
sum([1, "a"])
sum(5)
int(Plain())
float(Plain())
round("a")
abs("a")
divmod(1, 0)
pow("a", 2)
chr(-1)
str(b"a", "zz")
isinstance(3, 5)
issubclass(int, 5)
hasattr(3, 5)
setattr(3, "a", 1)
delattr([], "x")
next(5)
iter(5, 3)
callable()
id()
hash({})
len(Plain())
tuple(5)
type(1, 2)
math.factorial(-1)
math.log(0)
bool(1, 2)
any(5)
all([Plain()])
min(1, "a")
max([1], key=5)
max([], default=None)
functools.partial(plain, 1)(b=3), functools.partial(plain, a=3)(), functools.partial(plain, 1).func is plain
typing.cast(int, "a"), inspect.isfunction(len), inspect.isclass(int), inspect.isfunction(plain), typing.get_origin(list[int]), typing.get_args(list[int])
int is int, type(3) is int, type(3) == int, int == float, int != float, {int: 1}[type(3)], type([]) in (list, tuple)
Pair(1, 2), repr(Pair(1, 2)), Pair(1,2)._replace(first=5), Pair(1,2)._asdict(), str(Pair(1, [2]))
"%s %d" % ("a", 3), ",".join(map(str, [1,2])), "{}{x}".format(1, x=2)
list(itertools.batched("abcde", 2)) if hasattr(itertools, "batched") else 0
isinstance(super, type)
"""

BREAKS = """
dir(3) | names of an object
id([]) == 5 | identity number needed
compile("1", "", "exec", 1024) | text that runs as code
str(Plain())[0] | text of a value not known
memoryview(bytearray(3)) | bytes buffer
time.time() | clock or calendar
random.choice([1, len]) | random choice among objects
sys.getrecursionlimit() | state of the interpreter
cached(Plain()) | cached function of values not known
open("x") | world outside
"""


def program(expression):
    space = dict(globals())
    source = f"def program():\n    try:\n        return ({expression})\n    except Exception as e:\n        return type(e).__name__, str(e)\n"
    exec(compile(source, __file__, "exec"), space)
    return space["program"]


def traced(function):
    """What tracing alone knows of the result, as text; the reason where it breaks."""
    breaks = {}
    while True:
        try:
            captured = capture(function, (), Options(), breaks)
        except Restart as restart:
            assert restart.step not in breaks, restart.cause
            breaks[restart.step] = restart.cause
        else:
            break
    if isinstance(captured.exit, Return):
        return "returns", repr_of(captured.tx, captured.exit.value)
    return "breaks", captured.exit.cause.reason


@pytest.mark.parametrize("expression", FOLDED.strip().splitlines())
def test_folds_like_python(expression):
    function = program(expression)
    assert traced(function) == ("returns", repr(function()))


@pytest.mark.parametrize("line", BREAKS.strip().splitlines())
def test_breaks_with_its_reason(line):
    expression, reason = line.split(" | ")
    assert traced(program(expression)) == ("breaks", reason)


# --- programs of tensors against eager -----------------------------------------------------------------------------------


@same_as_eager(graphs=1)
def test_sum_of_tensors(x, y):
    return sum([x, y]), sum((x, y), y), sum(t * i for i, t in enumerate((x, y))), sum([0.1] * 10) * x


@same_as_eager(graphs=1)
def test_sum_of_floats_and_tensors(x):
    return sum([0.1, 0.2, 0.3, x, 0.1]), sum([1, 2, x], 0.5)


@same_as_eager(graphs=1)
def test_len_range_and_enumerate(x):
    for i, row in enumerate(x, 1):
        x = x + i * row
    for i in range(len(x), 0, -2):
        x = x * i
    return x, len(x)


@same_as_eager(graphs=1)
def test_zip_map_filter_reversed(x, y):
    pairs = [a * b for a, b in zip(x, y)]
    mapped = list(map(lambda a, b: a - b, x, y))
    kept = [t for t in filter(lambda t: t.dim() == 1, [x, x[0], y[1]])]
    return pairs, mapped, kept, [t + 1 for t in reversed(pairs)]


@same_as_eager(graphs=1)
def test_sorted_by_key_keeps_tensors(x, y):
    ordered = sorted([(2, x), (1, y), (0, x + y)], key=lambda pair: pair[0])
    return [t for _, t in ordered], max([x, y[0]], key=lambda t: t.dim()), min([x, y[0]], key=lambda t: t.dim())


@same_as_eager(graphs=1)
def test_max_and_min_of_sizes(x):
    return x * max(x.shape) + min(x.size(0), 3), max(x.shape[0], 1, 2), max([], default=x)


@same_as_eager(graphs=1)
def test_any_and_all(x):
    if any(s > 3 for s in x.shape) and all(isinstance(s, int) for s in x.shape):
        return x + 1
    return x - 1


@same_as_eager(graphs=1)
def test_type_questions(x):
    found = [isinstance(x, torch.Tensor), type(x) is torch.Tensor, callable(x), hasattr(x, "shape"), hasattr(x, "nope"),
             getattr(x, "nope", 3), issubclass(type(x), torch.Tensor), isinstance(x, (int, str)), callable(torch.add)]
    return x * 2, found


@same_as_eager(graphs=1)
def test_getattr_of_a_tensor_method(x):
    return getattr(x, "sum")(), getattr(torch, "cos")(x), getattr(x, "shape")


@same_as_eager(graphs=1)
def test_operator_functions(x, y):
    parts = [operator.add(x, y), operator.matmul(x, y.T), operator.neg(x), operator.getitem(x, 0), operator.lt(x, y),
             operator.itemgetter(1)([x, y]), operator.attrgetter("T")(x), operator.methodcaller("sum", 0)(x), abs(x),
             operator.pow(x, 2), divmod(7, 2), pow(x, 2), operator.truth([x]), operator.is_(x, x), operator.not_([x])]
    return parts


@same_as_eager(graphs=1)
def test_operator_in_place(x):
    y = x.clone()
    y = operator.iadd(y, 1)
    operator.setitem(y, 0, 5.0)
    values = [1]
    values = operator.iadd(values, [2])
    return y, values


@same_as_eager(graphs=1)
def test_partial_and_reduce(x, y):
    scaled = functools.partial(torch.add, alpha=3)
    first = functools.partial(operator.mul, x)
    return scaled(x, y), first(y), functools.reduce(lambda a, b: a * b, [x, y, x]), functools.reduce(operator.add, (x,), y)


@same_as_eager(graphs=1)
def test_math_of_sizes(x):
    return x / math.sqrt(x.size(-1)), x * math.prod(x.shape), math.ceil(x.shape[0] / 2)


@same_as_eager(graphs=1)
def test_containers_made_from_anything(x):
    d = dict(a=x, b=x + 1)
    e = dict([("k", x)], **d)
    o = collections.OrderedDict(zip("ab", x.unbind(1)))
    q = collections.deque([x, x + 1, x + 2], maxlen=2)
    g = collections.defaultdict(list)
    g["new"].append(x)
    c = collections.Counter("abca")
    return list(d), tuple(e.values()), o, q, g, c, set([1, 2]), frozenset("a"), list(d.items()), dict.fromkeys("ab", x)


@same_as_eager(graphs=1)
def test_itertools(x):
    pairs = list(itertools.product([x, x + 1], [1, 2]))
    runs = list(itertools.accumulate([x, x, x]))
    chained = [t * i for i, t in zip(itertools.count(), itertools.chain([x], (x, x)))]
    grouped = [(key, [t for _, t in group]) for key, group in itertools.groupby([(0, x), (0, x), (1, x)], lambda p: p[0])]
    return pairs, runs, chained, grouped, list(itertools.islice(itertools.repeat(x), 2)), list(itertools.pairwise([x, 1, x]))


@same_as_eager(graphs=1)
def test_text_of_what_is_known(x):
    return x + 1, f"{tuple(x.shape)} {x.dtype!s} {list(x.shape)!r} {x.dim():>4}", str(x.dtype), repr([1, ("a", None)])


@same_as_eager(graphs=1)
def test_copies(x):
    nested = [x, [x + 1], {"k": x}]
    shallow = copy.copy(nested)
    shallow.append(1)
    deep = copy.deepcopy({"a": [1, (2, [3])]})
    deep["a"].append(4)
    return nested, shallow, deep, copy.copy(Plain()).a


@same_as_eager(graphs=1)
def test_existing_getters_and_cached_functions(x):
    return first_and_third([x, 0, x + 1]), x * cached(4), kind_of(3), kind_of("a"), kind_of(x)


@same_as_eager(graphs=1)
def test_polyfills_call_back_into_the_program(x):
    seen = []

    def key(t):
        seen.append(t.dim())
        return t.dim()
    return max([x + 1, x[0]], key=key), heapq.nsmallest(1, [3, 1]), bisect.bisect([1, 2, 3], 2), seen


def test_existing_containers():
    def function(x, rows, table):
        rows.append(sum(rows))
        table["len"] = len(rows)
        table["names"] = sorted(table, key=str)
        return [x * r for r in map(float, rows)], list(zip(rows, table)), max(rows), dict(table, extra=x)

    check(function, *tensors(3, 4), [1, 2, 3], {"b": 1, "a": 2}, graphs=1)


def test_existing_iterators_and_partials():
    scale = functools.partial(torch.mul, other=2)

    def function(x):
        return scale(x), scale.func is torch.mul, scale.keywords["other"]

    check(function, *tensors(3, 4), graphs=1)


def test_callbacks_with_a_break_inside():
    def loud(t):
        print("dim", t.dim())
        return t.dim()

    def function(x):
        y = x + 1
        best = max([y, y[0]], key=loud)
        total = functools.reduce(lambda a, b: (print("adding"), a + b)[1], [x, y, best])
        return best, total, any(loud(t) > 1 for t in (x, y))

    check(function, *tensors(3, 4))


@pytest.mark.parametrize("convert", [bool, int, float])
def test_value_of_a_tensor_breaks(convert):
    def function(x):
        y = x.sum() + 1
        return convert(y), y * 2

    check(function, *tensors(3, 4))


@pytest.mark.parametrize("expression", [
    "len(5)", "max([])", "int('x')", "getattr([], 'nope')", "list(5)", "next(iter([]))", "sorted([1, 'a'])", "range(1.5)",
    "sum(['a'], '')", "operator.index(1.5)", "math.sqrt(-1)", "[].pop()", "functools.reduce(max, [])", "chr(-1)",
    "list(zip([1, 2], [3], strict=True))", "dict([1])", "setattr(3, 'a', 1)", "round('a')", "operator.itemgetter(3)([1])"])
def test_errors(expression):
    space = dict(globals())
    exec(compile(f"def function(x):\n    y = x + 1\n    z = {expression}\n    return y, z\n", __file__, "exec"), space)
    check(space["function"], *tensors(3, 4))


@pytest.mark.parametrize("expression", [
    "print(x.dim())", "str(Plain())[:6]", "time.time() > 0", "random.random() < 2", "memoryview(bytearray(3))[0]", "id(x) == 5", "dir(Plain())",
    "sorted(globals())[:1]", "eval('1 + 1')", "str(x)", "f'{x}'", "x.tolist()", "collections.namedtuple('P', 'a')(1)",
    "math.sqrt(x.sum())", "sum(x.tolist()[0])", "open(os.devnull).close()", "re.match('a', 'ab').group()"])
def test_what_is_left_to_the_running_program(expression):
    space = dict(globals())
    exec(compile(f"def function(x):\n    y = x.abs() + 1\n    z = {expression}\n    return y * 2, z\n", __file__, "exec"), space)
    check(space["function"], *tensors(3, 4))


@same_as_eager(graphs=1)
def test_aliases_by_the_name_of_their_class(x):
    made = types.GenericAlias(list, (int,)), types.GenericAlias(dict, (str, int))
    return x + 1, made[0] == list[int], made[1].__args__, repr(made[1]), made[0]([1]), typing.get_origin(made[0]) is list


@same_as_eager
def test_the_text_of_an_alias_that_is_unpacked(x):
    starred = next(iter(tuple[int, str]))
    return x + 1, repr(starred), repr(tuple[int, str]), starred.__unpacked__
