"""Coroutines made and run inside of the program: awaits, async with, async for, what is thrown into them.

PYTEST_DONT_REWRITE: the assertions of these programs are part of what is tested.
"""
import inspect
import types

import pytest

import jit
from tests.differential import COUNTING, check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


class Yields:
    """Awaitable: hands out a value, gives what it is sent."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        sent = yield self.value
        return (sent, self.value)


class Steps:
    def __init__(self, count):
        self.count, self.at = count, 0

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.at == self.count:
            raise StopAsyncIteration
        self.at += 1
        await Yields(("step", self.at))
        return self.at


class Manager:
    def __init__(self, log, suppresses=False):
        self.log, self.suppresses = log, suppresses

    async def __aenter__(self):
        self.log.append(await Yields("enter"))
        return self

    async def __aexit__(self, kind, value, trace):
        self.log.append((await Yields("exit"), kind, str(value), trace is None))
        return self.suppresses


def run(coroutine):
    """(what was handed out, the result)"""
    out = []
    try:
        while True:
            out.append(coroutine.send(len(out) or None))
    except StopIteration as e:
        return out, e.value


@same_as_eager(graphs=1)
def test_await_a_coroutine(x):
    async def inner(y):
        return y + 1

    async def outer(y):
        return await inner(y) * 2
    return run(outer(x))


@same_as_eager(graphs=1)
def test_await_what_yields(x):
    async def inner(n):
        return await Yields(n)

    async def outer(y):
        a = await inner(1)
        b = await Yields("b")
        return y * 2, a, b
    return run(outer(x))


@same_as_eager(graphs=1)
def test_async_with(x):
    log = []

    async def body(y):
        async with Manager(log) as m:
            y = y + 1
            m.log.append("body")
        return y
    return run(body(x)), log


@pytest.mark.parametrize("suppresses", [True, False])
def test_async_with_an_error(suppresses):
    def program(x):
        log = []

        async def body(y):
            async with Manager(log, suppresses):
                raise ValueError("inside")
            return y + 2
        try:
            result = run(body(x))
        except ValueError as e:
            result = str(e), type(e.__context__), x + 1
        return result, log

    check(program, X, graphs=1)


@same_as_eager(graphs=1)
def test_async_for(x):
    async def body(y):
        seen = []
        async for step in Steps(3):
            y = y + step
            if step == 2:
                continue
            seen.append(step)
        else:
            seen.append("else")
        return y, seen
    return run(body(x))


@same_as_eager(graphs=1)
def test_async_comprehensions(x):
    async def body(y):
        a = [y + s async for s in Steps(2)]
        b = {s: s * 2 async for s in Steps(3) if s > 1}
        c = {await Yields(n) for n in range(2)}
        return a, b, c
    return run(body(x))


@same_as_eager(graphs=1)
def test_errors_that_pass_awaits(x):
    async def fails(y):
        await Yields(1)
        raise KeyError("k")

    async def outer(y):
        try:
            await fails(y)
        except KeyError as e:
            return y + 1, str(e)
        finally:
            await Yields("finally")
    return run(outer(x))


@same_as_eager(graphs=1)
def test_throw_and_close(x):
    log = []

    async def body(y):
        try:
            await Yields("a")
        except ValueError as e:
            log.append(str(e))
        try:
            await Yields("b")
        finally:
            log.append("closed")
    c = body(x)
    out = [c.send(None), c.throw(ValueError("thrown"))]
    c.close()
    c.close()
    return x + 1, out, log


@same_as_eager(graphs=1)
def test_stop_iteration_inside(x):
    async def body():
        raise StopIteration(3)
    try:
        body().send(None)
    except RuntimeError as e:
        return x + 1, str(e), repr(e.__cause__)


@same_as_eager(graphs=1)
def test_attributes(x):
    async def inner():
        await Yields(1)

    async def outer():
        await inner()
    c = outer()
    said = [c.__class__, c.__await__().__class__, c.__name__, inspect.getcoroutinestate(c), c.cr_await, c.cr_running, inspect.iscoroutine(c)]
    c.send(None)
    said += [inspect.getcoroutinestate(c), c.cr_await.__name__, c.cr_suspended]
    c.close()
    c.__name__ = "other"
    said += [inspect.getcoroutinestate(c), c.__name__, c.cr_frame]
    return x + 1, said


@same_as_eager(graphs=1)
def test_generators_that_can_be_awaited(x):
    @types.coroutine
    def old(n):
        got = yield n
        return got

    async def body(y):
        return y + 1, await old(1), await old(2)
    return run(body(x))


@same_as_eager(graphs=1)
def test_what_cant_be_awaited(x):
    class Wrong:
        def __init__(self, given):
            self.given = given

        def __await__(self):
            return self.given

    async def empty():
        pass

    async def body(value):
        await value

    async def loop(value):
        async for _ in value:
            pass

    async def enters(value):
        async with value:
            pass
    said = []
    inner = empty()
    for run_it, value in ((body, 3), (body, Wrong(5)), (body, Wrong(inner)), (loop, 4), (enters, 5), (enters, Steps(1))):
        try:
            run_it(value).send(None)
        except TypeError as e:
            said.append((str(e), type(e.__cause__)))
    inner.close()
    for attempt in (lambda c: iter(c), lambda c: c.send(1), lambda c: list(c)):
        c = empty()
        try:
            attempt(c)
        except TypeError as e:
            said.append(str(e))
        c.close()
    return x + 1, said


@same_as_eager
def test_break_inside(x):
    async def inner(y):
        print("inside")
        return y + 1

    async def outer(y):
        z = await inner(y)
        jit.graph_break()
        return z * 2
    return run(outer(x))


@same_as_eager
def test_break_while_suspended(x):
    async def body(y):
        y = y + (await Yields(1))[0]
        return y * 2
    c = body(x)
    out = [c.send(None)]
    print(out)
    try:
        c.send(4)
    except StopIteration as e:
        out.append(e.value)
    return out


@same_as_eager
def test_returned(x):
    async def body(y):
        return y + 1
    c = body(x)
    c.close()
    return x * 2, [c]


@pytest.mark.skipif(not COUNTING, reason="what is dropped right after a forced break is dropped later")
def test_never_awaited():
    import warnings

    def program(x):
        async def body():
            pass
        body()
        return x + 1

    def warned(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            program(x)
        return x + 1, [str(w.message) for w in seen]

    check(warned, X)


async def _given(n):
    return n


class _Stop:
    def __await__(self):
        yield "stop"


async def _stopping():
    await _Stop()
    return 3


def _asked(*calls):
    out = []
    for call in calls:
        try: out.append(call())
        except BaseException as e: out.append(repr(e))
    return out


def awaited_twice(x):
    async def main():
        one = _given(2)
        return await one, await one

    return _asked(lambda: main().send(None)), x + 1


def awaited_by_two(x):
    one = _stopping()

    async def main(): return await one

    first, second = main(), main()
    return _asked(*(lambda m=m: m.send(None) for m in (first, second, first, second))), x + 1


def sent_to_again(x):
    one, closed = _given(1), _given(2)
    closed.close()
    again = _asked(*[lambda: one.send(None)] * 3, one.close, lambda: one.throw(ValueError(1)))
    return again, _asked(lambda: closed.send(None), lambda: next(closed.__await__()), lambda: closed.throw(KeyError(3)), closed.close), x + 1


@pytest.mark.parametrize("program", [awaited_twice, awaited_by_two, sent_to_again])
def test_coroutines_that_are_over(program):
    check(program, *tensors(2))
