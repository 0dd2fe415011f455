"""The parts of the standard library that models use."""
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import logging
import operator
import os
import random
import re
import string
import sys
import time
import typing
import unittest.mock
import warnings
import weakref

import numpy as np
import pytest
import torch

from tests.differential import check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)
SCOPE = {name: value for name, value in globals().items() if not name.startswith("_")}

MATH = ["sqrt(2)", "sqrt(x.shape[1])", "log(10)", "log2(8)", "log10(100)", "log(8, 2)", "exp(1)", "sin(1)", "cos(1)", "tan(1)", "tanh(1)",
        "pi", "e", "inf", "ceil(1.2)", "floor(1.8)", "trunc(-1.5)", "prod([1, 2, 3])", "prod(x.shape)", "gcd(12, 8)", "lcm(4, 6)",
        "isnan(float('nan'))", "isinf(1e400)", "isfinite(1.0)", "factorial(5)", "comb(5, 2)", "pow(2, 3)", "fabs(-2)", "hypot(3, 4)",
        "isclose(0.1 + 0.2, 0.3)", "copysign(1, -0.0)", "fsum([0.1] * 3)", "isqrt(10)", "degrees(1)", "radians(180)", "atan2(1, 2)", "erf(0.5)"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", MATH)
def test_math(call):
    check(_program(f"x * 2, math.{call}"), X, graphs=1, changed=[tensors(5, 9)])


@pytest.mark.parametrize("call", ["sqrt(-1)", "log(0)", "factorial(-1)", "sqrt('a')", "gcd(1.5)"])
def test_math_that_fails(call):
    check(_program(f"x * 2, math.{call}"), X)


def _program(expression):
    scope = dict(SCOPE)
    execute(f"def program(x):\n    return {expression}\n", scope)
    return scope["program"]


ITERTOOLS = ["chain([1], [2, 3])", "chain.from_iterable([[1], [2]])", "product([1, 2], 'ab')", "product([0, 1], repeat=2)",
             "permutations([1, 2, 3], 2)", "combinations([1, 2, 3], 2)", "accumulate([1, 2, 3])", "accumulate([1, 2, 3], operator.mul)",
             "islice(range(10), 2, 8, 3)", "islice(itertools.count(5), 3)", "repeat(1, 3)", "zip_longest([1, 2], [3], fillvalue=0)",
             "starmap(pow, [(2, 3), (3, 2)])", "takewhile(lambda n: n < 3, [1, 2, 3, 1])", "dropwhile(lambda n: n < 2, [1, 2, 1])",
             "pairwise([1, 2, 3])", "compress('abc', [1, 0, 1])", "filterfalse(lambda n: n % 2, range(4))", "islice(itertools.cycle('ab'), 5)",
             "combinations_with_replacement('ab', 2)", "accumulate([x, x, x])", "chain([x], (x + 1,))", "product([x], [1, 2])"]


@pytest.mark.parametrize("call", ITERTOOLS)
def test_itertools(call):
    check(_program(f"x * 2, list(itertools.{call})"), X, graphs=1)


@same_as_eager(graphs=1)
def test_groupby_and_tee(x):
    groups = [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 1], key=lambda n: n % 2)]
    a, b = itertools.tee([1, 2])
    return groups, list(a), list(b), x + 1


OPERATOR = ["add(x, 1)", "mul(2, 3)", "itemgetter(1)([1, 2])", "itemgetter(0, 1)('ab')", "attrgetter('shape')(x)", "getitem([5], 0)",
            "methodcaller('sum', 0)(x)", "neg(x)", "truediv(1, 2)", "lt(1, 2)", "is_(x, x)", "contains([1], 1)", "concat([1], [2])",
            "index(True)", "not_(0)", "countOf([1, 1], 1)", "attrgetter('dtype.is_floating_point')(x)", "iadd([1], [2])", "matmul(x, x.t())"]


@pytest.mark.parametrize("call", OPERATOR)
def test_operator(call):
    check(_program(f"x * 2, operator.{call}"), X, graphs=1)


@same_as_eager(graphs=1)
def test_operator_changes_containers(x):
    xs, d = [1, 2, 3], {"a": 1}
    operator.setitem(xs, 0, x + 1)
    operator.delitem(d, "a")
    return xs, d


@same_as_eager(graphs=1)
def test_reduce(x):
    return functools.reduce(lambda a, b: a * b, [x, x, x]), functools.reduce(operator.add, [1, 2], 10), functools.reduce(max, [3, 1])


@functools.lru_cache
def table(n):
    return [n] * n


@functools.singledispatch
def kind(v):
    return "other"


@kind.register
def _(v: int):
    return "int"


@same_as_eager
def test_lru_cache_and_singledispatch(x):
    return x + len(table(3)), table(3) is table(3), kind(3), kind("a")


@same_as_eager
def test_singledispatch_that_remembers_elsewhere(x):
    remembered = {}
    with unittest.mock.patch.object(weakref, "WeakKeyDictionary", lambda: remembered):
        f = functools.singledispatch(lambda v: "other")
    before = len(remembered)
    return f(3), f("a"), before, list(remembered), x + 1


@same_as_eager
def test_operators_of_numpys_floats(x):
    n = np.float64(2)
    computed = n + 1, 1.0 + n, -n, n < 3, n * n, abs(n), round(n, 1), n.__eq__(2), n.__ne__(2)
    return [(type(each), each) for each in computed], float(n), x * n


@same_as_eager(make=lambda: (torch.ones(2), np.float64(0.1)), changed=[lambda: (torch.ones(2), np.float64(0.7))])
def test_tensors_of_numpys_floats(x, n):
    made = torch.tensor(n), torch.tensor([1, n]), torch.as_tensor([[n], [True]]), torch.asarray(n), torch.tensor([n, 1j])
    plain = torch.tensor(n, dtype=torch.float32), torch.full((2,), n), torch.tensor([[float(n)]]), x.new_tensor(n)
    return x * n, made, plain, torch.tensor(np.float64(2.0), dtype=None), torch.tensor([x.sum(), n])


@same_as_eager(graphs=1)
def test_wraps_and_partial(x):
    def deco(f):
        @functools.wraps(f)
        def inner(*a):
            return f(*a) * 2
        return inner

    @deco
    def named(t):
        "Docs."
        return t + 1
    return named(x), named.__name__, named.__doc__, functools.partial(named, x)()


@same_as_eager(graphs=1)
def test_collections(x):
    d = collections.OrderedDict([("b", x), ("a", 1)])
    d["c"] = 2
    dd = collections.defaultdict(int, z=1)
    dd["n"] += 5
    q = collections.deque([1, 2, 3], maxlen=3)
    q.append(4)
    q.appendleft(0)
    q.rotate(1)
    c = collections.Counter("aab")
    return x + 1, d, list(d), dd, q, q.popleft(), c["a"], c.most_common(1), dict(c)


@same_as_eager(graphs=1)
def test_chainmap_and_userdict(x):
    cm = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return x + cm["b"], cm["a"], len(cm)


def test_deque_argument():
    def program(q, x):
        q.append(x + 1)
        q.popleft()
        q.extend([1, 2])
        q[0] = 9
        return len(q), q[-1]
    check(program, collections.deque([1, 2], maxlen=5), X, graphs=1)


@same_as_eager(graphs=1)
def test_copy(x):
    inner = [1]
    xs = [inner, x]
    a = copy.copy(xs)
    b = xs[:]
    return a, b, a[0] is inner, x + 1


@same_as_eager
def test_deepcopy(x):
    d = {"a": [x, x], "b": None}
    d["b"] = d["a"]
    e = copy.deepcopy(d)
    return e, d, x + 1


@same_as_eager(graphs=1)
def test_typing_helpers(x):
    n = typing.cast(int, x.shape[0])
    v: typing.Optional[typing.List[int]] = None
    if typing.TYPE_CHECKING:
        n = 100
    return x + n, v, typing.get_origin(list[int]) is list, isinstance([], typing.Sequence), isinstance({}, collections.abc.Mapping)


@same_as_eager(graphs=1)
def test_abc_checks(x):
    from collections.abc import Callable, Iterable, Sequence
    return isinstance([], Sequence), isinstance(x, Iterable), isinstance(len, Callable), isinstance("a", Sequence), x + 1


@same_as_eager
def test_random(x):
    return x + random.random(), random.randint(1, 5), random.choice([1, 2, 3]), random.sample(range(9), 2), random.uniform(0, 1)


@same_as_eager
def test_random_decides_a_branch(x):
    return x + 1 if random.random() < 0.5 else x - 1


@same_as_eager(tolerance=(1e-6, 1e-6))
def test_numpy(x):
    a = np.arange(12.0).reshape(3, 4)
    return x + torch.from_numpy(a * 2), x.numpy().sum(), np.sqrt(2.0), np.int64(3), np.random.rand(2)


@same_as_eager
def test_numpy_in_place_on_a_tensor(x):
    a = x.numpy()
    a[0] = 7
    return x + 1


@same_as_eager
def test_regular_expressions_and_strings(x):
    m = re.match(r"layer\.(\d+)", "layer.12.weight")
    return x + int(m.group(1)), string.ascii_lowercase[:3], re.sub("a", "b", "aa")


@same_as_eager
def test_warnings(x):
    warnings.warn(f"shape {tuple(x.shape)}")
    y = x + 1
    warnings.warn("old", DeprecationWarning)
    return y


@same_as_eager
def test_logging(x):
    logger = logging.getLogger("tests.quiet")
    logger.debug("hidden %s", x.shape)
    if logger.isEnabledFor(logging.DEBUG):
        x = x + 100
    return x + 1


@same_as_eager
def test_os_and_time(x):
    os.environ["JIT_TEST_VARIABLE"] = "1"
    k = int(os.environ.pop("JIT_TEST_VARIABLE"))
    assert time.time() > 0 and time.perf_counter() >= 0
    return x + k, os.path.join("a", "b"), os.environ.get("NO_SUCH", "d")


@same_as_eager
def test_weakref(x):
    y = x + 1
    ref = weakref.ref(y)
    return y, ref() is y


@same_as_eager(graphs=1)
def test_names_of_the_library_are_read(x):
    return x * 3, dataclasses.MISSING is dataclasses.MISSING, enum.Enum.__name__


@same_as_eager(graphs=1)
def test_contextlib_parts(x):
    log = []

    @contextlib.contextmanager
    def step(name):
        log.append(name)
        yield name
        log.append("/" + name)
    with step("a") as a, step("b"), contextlib.suppress(ValueError), contextlib.nullcontext():
        x = x + len(a)
    return x, log


@same_as_eager
def test_contextlib_closing_and_redirect(x):
    import io
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("inside")
    with contextlib.closing(io.StringIO()) as f:
        f.write("a")
    return x + 1, out.getvalue(), f.closed


class Bare:
    pass


@same_as_eager
def test_sizes_in_memory(x):
    grown, kept = [], {}
    for turn in range(9):
        grown.append(turn)
        kept[turn] = turn
    for turn in range(7):
        del kept[turn]

    def size(value):
        return sys.getsizeof(value)
    made = [Bare() for _ in range(40)][-1]
    made.x = 1
    return x + 1, size(grown), size(kept), size([1, 2]), sys.getsizeof(vars(made)), size(bytearray(b"abc"))
