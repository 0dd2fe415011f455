"""`functools.lru_cache` and `cache` of functions of the frame: what is remembered, for how long, and how often."""

import functools
import weakref

import pytest
import torch

import jit
from tests.differential import COUNTING, check, same_as_eager

X = torch.ones(3)


@same_as_eager(graphs=1)
def test_of_numbers(x):
    calls = []

    @functools.lru_cache
    def double(n):
        calls.append(n)
        return n * 2

    return x * double(2) + double(2) + double(3), calls, double.cache_info(), double.cache_parameters()


@same_as_eager(graphs=1)
def test_of_tensors(x):
    @functools.cache
    def scaled(t, n):
        return t * n

    first = scaled(x, 2)
    return first + scaled(x, 2), scaled(x, 2) is first, scaled(x, 3), scaled.cache_info()


@same_as_eager(graphs=1)
def test_that_calls_itself(x):
    @functools.lru_cache(maxsize=None)
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    found = fib(20)
    info = fib.cache_info()
    fib.cache_clear()
    return x * found, info, fib.cache_info(), fib(5), fib.cache_info()


@same_as_eager(graphs=1)
def test_the_one_used_last_stays(x):
    calls = []

    def slow(n):
        calls.append(n)
        return -n

    quick = functools.lru_cache(maxsize=2)(slow)
    found = [quick(n) for n in (1, 2, 1, 3, 2, 1, 1)]
    return x + 1, found, calls, quick.cache_info(), quick.__wrapped__ is slow, quick.__name__


@same_as_eager(graphs=1)
def test_keys(x):
    def kinds(*args, **kwargs):
        return args, kwargs

    found = []
    for typed in (False, True):
        kept = functools.lru_cache(typed=typed)(kinds)
        calls = [((1,), {}), ((1.0,), {}), ((True,), {}), (("1",), {}), (((1,),), {}), ((), {"a": 1}), ((), {"a": 1.0}),
                 ((), {"a": 1, "b": 2}), ((), {"b": 2, "a": 1}), ((1, 2), {}), ((1.0, 2), {}), ((None,), {})]
        found.append([repr(kept(*args, **kwargs)) for args, kwargs in calls + calls])
        found.append(kept.cache_info())
    return x + 1, found


@pytest.mark.parametrize("maxsize", [0, -1, 1, None])
def test_sizes(maxsize):
    def program(x):
        @functools.lru_cache(maxsize)
        def scaled(n):
            return x * n

        return scaled(1), scaled(1), scaled(2), scaled.cache_info(), scaled.cache_parameters()

    check(program, X, graphs=1)


@same_as_eager(graphs=1)
def test_what_raises_is_not_remembered(x):
    @functools.cache
    def inverse(n):
        return 1 / n

    said = []
    for n in (0, 0, 2, [1]):
        try:
            said.append(inverse(n))
        except (ZeroDivisionError, TypeError) as error:
            said.append(str(error))
    return x + 1, said, inverse.cache_info()


@same_as_eager
def test_error_leaves_the_frame(x):
    @functools.cache
    def inverse(n):
        return n / 0

    return x * inverse(1)


@same_as_eager(graphs=1)
def test_methods(x):
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        @functools.lru_cache(maxsize=8)
        def weight(self, n):
            return x * self.scale * n

        @staticmethod
        @functools.cache
        def shared(n):
            return n + 1

        @property
        @functools.cache
        def once(self):
            return [self.scale]

    one, two = Layer(2), Layer(3)
    same = one.weight(2) is one.weight(2), one.once is one.once, one.once is two.once
    return one.weight(2) + two.weight(2), same, Layer.weight.cache_info(), Layer.shared(2), one.shared(2)


@same_as_eager(graphs=1)
def test_names(x):
    @functools.cache
    def named(n: int) -> int:
        """Says what it does."""
        return n

    named.extra = 3
    try:
        named.missing  # noqa: B018
    except AttributeError as error:
        said = str(error)
    own = named.__name__, named.__qualname__, named.__doc__, named.__module__, named.extra
    return x + 1, own, said, callable(named), type(named).__name__, hasattr(named, "cache_info"), named.__wrapped__(2)


@same_as_eager(graphs=1)
def test_wrong_calls(x):
    kept, said = functools.cache(lambda n: n), []
    for call in (lambda: kept.cache_info(1), lambda: kept.cache_clear(a=1), lambda: kept(), lambda: functools.cache(3),
                 lambda: functools.lru_cache("much")):
        try:
            said.append(call())
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


@same_as_eager(graphs=1)
def test_methods_as_values(x):
    kept = functools.cache(lambda n: n + 1)
    info, clear = kept.cache_info, kept.cache_clear
    kept(1)
    kept(1)
    before = info()
    clear()
    return x + before.hits, info(), functools.reduce(lambda a, n: a + kept(n), [1, 1, 2], 0), info()


@same_as_eager(graphs=1)
def test_one_that_nobody_called_leaves_the_frame(x):
    @functools.lru_cache(maxsize=4)
    def double(n):
        return n * 2

    return double, [double], x + 1


def _uses(result, *args):
    kept = result[0]
    return kept(2), kept(2), kept.cache_info(), kept.cache_parameters(), kept.__name__, kept.__wrapped__(3)


def _returned(x):
    @functools.lru_cache(maxsize=4)
    def double(n):
        return n * 2

    return double, x + 1


def _returned_after_calls(x):
    @functools.lru_cache(maxsize=4)
    def double(n):
        return n * 2

    y = x * double(1) + double(1)
    return double, y


@pytest.mark.parametrize("program, breaks", [(_returned, 0), (_returned_after_calls, None)])
def test_one_that_leaves_the_frame_is_used(program, breaks):
    check(program, X, then=_uses, breaks=breaks)


@pytest.mark.skipif(not COUNTING, reason="another break comes first")
def test_filled_one_that_leaves_breaks_where_it_is_made():
    reasons = jit.explain(_returned_after_calls)(X).break_reasons
    assert any("cache that was filled while running" in str(reason) for reason in reasons)


@same_as_eager
def test_a_break_after_calls(x):
    kept = functools.cache(lambda n: x * n)
    before = kept(2)
    jit.graph_break()
    return kept(2) is before, kept.cache_info()


class Registry:
    """As programs keep what they have made by name."""

    def __init__(self):
        self.made = {}
        self.get = functools.lru_cache(maxsize=None)(self._get)

    def _get(self, name):
        self.made[name] = self.made.get(name, 0) + 1
        return torch.full((4,), float(len(name)))


@same_as_eager(graphs=1)
def test_registry(x):
    registry = Registry()
    total = x
    for name in ("relu", "gelu", "relu", "tanh", "silu"):
        total = total + registry.get(name)
    return total, registry.made, registry.get.cache_info().hits


@same_as_eager
def test_what_is_remembered_lives(x):
    class Token:
        pass

    @functools.lru_cache(maxsize=1)
    def token(n):
        return Token()

    refs = [weakref.ref(token(n)) for n in (1, 2)]
    return x + 1, [ref() is None for ref in refs]
