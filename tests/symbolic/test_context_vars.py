"""Variables of the context: read, set and reset in one graph; what is set is there after the call, in this context."""
import asyncio
from contextvars import ContextVar, copy_context

import torch

import jit
from tests.differential import COUNTING, check, same_as_eager, tensors

SCALE = ContextVar("scale", default=2.0)
BARE = ContextVar("bare")
HELD = ContextVar("held")


def compiled(function):
    return jit.compile(function, backend="eager", fullgraph=COUNTING)


def in_a_context(function, *args):
    return copy_context().run(function, *args)


def test_what_is_set_outside_is_read_in_each_call():
    f = compiled(lambda x: x * SCALE.get())
    x = torch.ones(2)

    def calls():
        assert f(x).tolist() == [2, 2]
        for scale in (3.0, 4.0, 2.0):
            token = SCALE.set(scale)
            assert f(x).tolist() == [scale, scale]
            SCALE.reset(token)
        assert f(x).tolist() == [2, 2]

    in_a_context(calls)


def test_what_is_set_inside_is_there_after():
    def program(x):
        before = SCALE.get()
        token = SCALE.set(before + 1)
        y = x * SCALE.get()
        return y, token.var is SCALE, SCALE.name

    f = compiled(program)

    def calls(f):
        return [f(torch.ones(2))[0].tolist() for _ in range(3)], SCALE.get()

    assert in_a_context(calls, f) == in_a_context(calls, program) == ([[3, 3], [4, 4], [5, 5]], 5.0)
    assert SCALE.get() == 2.0


def test_a_token_that_leaves_resets_what_it_was():
    f = compiled(lambda x: (x + 1, SCALE.set(7.0)))

    def calls():
        _, token = f(torch.ones(2))
        assert SCALE.get() == 7.0 and token.old_value is token.MISSING
        SCALE.reset(token)
        assert SCALE.get() == 2.0

    in_a_context(calls)


@same_as_eager(graphs=1)
def test_set_and_reset_within(x):
    first = SCALE.set(5.0)
    second = SCALE.set(x)
    inner = SCALE.get() * 2
    SCALE.reset(second)
    outer = x * SCALE.get()
    SCALE.reset(first)
    return inner, outer, SCALE.get(), BARE.get(None), BARE.get(3)


@same_as_eager(graphs=1)
def test_none_where_nothing_is_set(x):
    try:
        BARE.get()
    except LookupError as error:
        said = type(error).__name__, len(error.args)
    token = BARE.set(None)
    now = BARE.get(4)
    BARE.reset(token)
    return x + 1, said, now, BARE.get(4)


@same_as_eager
def test_around_a_break(x):
    token = SCALE.set(3.0)
    y = x * SCALE.get()
    print(y.sum().item() > 100)
    z = x * SCALE.get()
    SCALE.reset(token)
    return y, z, SCALE.get()


def test_objects_that_are_set():
    def program(x):
        held = HELD.get()
        held.append(x.shape[0])
        return x + len(held)

    def calls(f):
        HELD.set([])
        return [f(torch.ones(2)).tolist() for _ in range(3)], HELD.get()

    assert in_a_context(calls, compiled(program)) == in_a_context(calls, program)


def test_tasks_have_contexts_of_their_own():
    def step(x):
        SCALE.set(SCALE.get() + 1)
        return x * SCALE.get()

    def run(step):
        async def task(times):
            found = []
            for _ in range(times):
                found.append(step(torch.ones(2)).tolist())
                await asyncio.sleep(0)
            return found

        async def all_of_them():
            return await asyncio.gather(task(2), task(3))

        return asyncio.run(all_of_them())

    assert run(compiled(step)) == run(step)


def test_errors_are_those_of_eager_code():
    def program(x):
        token = SCALE.set(1.0)
        SCALE.reset(token)
        try:
            SCALE.reset(token)
        except RuntimeError as error:
            return x + 1, str(error)[:20]

    check(program, *tensors(3), graphs=None)
