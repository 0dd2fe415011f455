"""Recursion through compiled code: as deep as eager goes, and the error that eager gives."""
import sys
import time
import traceback

import pytest
import torch
from test.support import import_helper

import jit
from jit import compiler
from tests import children
from tests.differential import COUNTING, Counting, check, tensors

X, = tensors(3, 4)
functools = import_helper.import_fresh_module("functools", blocked=["_functools"])  # the one in Python


def test_compiled_function_that_calls_itself():
    @jit.compile(backend="eager")
    def down(x, n):
        return x if n == 0 else down(x + n, n - 1)

    def eager(x, n):
        return x if n == 0 else eager(x + n, n - 1)
    assert torch.equal(down(X, 10), eager(X, 10))


def test_recursion_with_a_break_at_the_bottom():
    def down(x, n):
        if n == 0:
            jit.graph_break()
            return x.sin()
        return down(x + n, n - 1) * 2
    check(lambda x: down(x, 8), X)


def test_recursion_with_a_break_on_each_level():
    def down(x, n):
        x = x + n
        jit.graph_break()
        return x if n == 0 else down(x, n - 1) * 2
    check(lambda x: down(x, 5), X)


def test_mutual_recursion_of_compiled_functions():
    @jit.compile(backend="eager")
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    @jit.compile(backend="eager")
    def odd(x, n):
        return x * 2 if n == 0 else even(x - 1, n - 1)
    assert torch.equal(even(X, 6), X + 1 - 1 + 1 - 1 + 1 - 1)


def test_endless_recursion_raises_recursion_error():
    def down(x, n):
        return down(x + 1, n + 1)
    f = jit.compile(down, backend="eager")
    with pytest.raises(RecursionError):
        f(X, 0)
    assert torch.equal(jit.compile(lambda x: x + 1, backend="eager")(X), X + 1)


def test_recursion_error_is_handled_inside():
    def down(n):
        return down(n + 1)

    def program(x):
        try:
            down(0)
        except RecursionError:
            return x + 1
    check(program, X)


def test_compiled_function_as_callback_of_eager_code():
    counter = Counting()
    f = jit.compile(lambda x: x * 2, backend=counter)

    def twice(g, x):
        return g(g(x))
    assert torch.equal(twice(f, X), X * 4)
    counter.expect(1)


def test_compiled_in_compiled():
    inner = jit.compile(lambda x: x.sin(), backend="eager")
    check(lambda x: inner(x) + inner(x * 2), X)


@pytest.mark.parametrize("depth", [2000])
def test_deep_recursion_in_a_child(depth):
    printed = children.run(f"""
        import sys
        import torch
        import jit
        sys.setrecursionlimit(20000)

        def down(x, n):
            if n == 0:
                return x + 1
            return down(x, n - 1)

        def deep(x, n):
            jit.graph_break()
            if n == 0:
                return x + 1
            return deep(x, n - 1)
        x = torch.ones(2)
        print(jit.compile(down, backend="eager")(x, {depth}).tolist())
        print(jit.compile(deep, backend="eager")(x, {depth}).tolist())
    """)
    assert printed.splitlines() == ["[2.0, 2.0]"] * 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before 3.12 nothing but the recursion limit saves the C stack")
def test_recursion_through_c_ends_before_the_stack_does():
    printed = children.run("""
        import sys
        import jit
        sys.setrecursionlimit(100_000)

        def down(n):
            jit.graph_break()
            return n and next(map(down, [n - 1]))
        f = jit.compile(down, backend="eager")
        print(f(100))
        try:
            f(90_000)
        except RecursionError:
            print("too deep")
    """, 100)
    assert printed.splitlines() == ["0", "too deep"]


def endless(x, way):
    """How many levels a recursion without end has, and where it ends, as the program sees it. (Calls of classes and
    objects take more than a level of eager code, on some versions more or less as the interpreter gets used to them.)"""
    seen, log = [], []

    def plain(n):
        seen.append(n)
        return plain(n + 1)

    def breaking(n):
        seen.append(n)
        log.append(time.perf_counter() > 0)
        return breaking(n + 1)

    def first(n):
        seen.append(n)
        return second(n + 1) if n % 3 else breaking_second(n + 1)

    def second(n):
        return first(n + 1)

    def breaking_second(n):
        log.append(time.perf_counter() > 0)
        return first(n + 1)

    def walking(n):
        seen.append(n)
        yield time.perf_counter() > 0
        yield from walking(n + 1)

    class Operand:
        def __add__(self, n):
            seen.append(n)
            log.append(time.perf_counter() > 0)
            return self + (n + 1)

        def __getitem__(self, n):
            seen.append(n)
            log.append(time.perf_counter() > 0)
            return self[n + 1]

    ways = {
        "plain": plain,
        "breaking": breaking,
        "by turns": first,
        "generators": lambda n: list(walking(n)),
        "added": lambda n: Operand() + n,
        "item": lambda n: Operand()[n],
    }
    try:
        ways[way](0)
    except RecursionError as error:
        lines = traceback.format_exc().splitlines()
        return x + len(seen), len(seen), str(error), [line for line in lines if "repeated" in line]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("way", ["plain", "breaking", "by turns", "generators", "added", "item"])
def test_a_recursion_has_as_many_levels_as_eagerly(way):
    check(endless, X, way)


def test_continuations_that_run_as_written_take_one_level_each(monkeypatch):
    monkeypatch.setattr(jit.config, "recompile_limit", 1)
    check(endless, X, "breaking")


def nested(x, kind, asks, levels):
    """What lies deep in one another ends the recursion of what looks into it; it ends nothing while compiling."""
    wrap = {"list": lambda value: [value], "tuple": lambda value: (value,), "view": lambda value: {1: value}.values(),
            "dict": lambda value: {1: value}}[kind]
    one, other = [], []
    for _ in range(levels):
        one, other = wrap(one), wrap(other)
    try:
        return x + 1, len(str(one)) if asks == "text" else one == other
    except RecursionError as error:
        return x - 1, str(error)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("levels", [150, 600, 850, 1700])
@pytest.mark.parametrize("asks", ["text", "equal"])
@pytest.mark.parametrize("kind", ["list", "tuple", "view", "dict"])
def test_data_deep_in_one_another(kind, asks, levels):
    check(nested, X, kind, asks, levels)


def remembered(x, n):
    @functools.lru_cache(maxsize=100)
    def sums(n):
        return n if n < 2 else (sums(n - 1) + sums(n - 2)) % 1000
    return x + sums(n)


def captures_of_remembered(n):
    before = compiler.stats.captures
    check(remembered, X, n)
    return compiler.stats.captures - before


def test_a_function_that_breaks_often_inside_of_others_is_captured_by_itself(monkeypatch):
    """Here the lock is taken and given back on each level, with others around it; what goes on is different each time."""
    monkeypatch.setattr(compiler, "_MAX_BREAKS_INSIDE", 10**9)
    before = captures_of_remembered(30)
    monkeypatch.setattr(compiler, "_MAX_BREAKS_INSIDE", 8)
    after = captures_of_remembered(30)
    assert after < before / 2 or not COUNTING
