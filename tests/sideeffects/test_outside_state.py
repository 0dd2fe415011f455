"""State that belongs to a thread, a context or the process: the graph breaks, and everything happens as written."""
import contextvars
import os
import threading
import types

import pytest
import torch

import jit
from tests.differential import check

NAME = "FRAMEJIT_TEST_OUTSIDE"


class Counting(threading.local):
    def __init__(self):
        self.count = 0

    def up(self):
        self.count += 1
        return self.count


#: In a module of their own: nobody copies them for a test.
state = types.ModuleType("state")
state.current = contextvars.ContextVar("current", default=1)
state.local = threading.local()
state.local.count = 1
state.counts = Counting()


def context_variable(x, log):
    token = state.current.set(3)
    log.append(state.current.get())
    y = x * state.current.get()
    state.current.reset(token)
    log += [state.current.get(), token.old_value is token.MISSING, token.var is state.current]
    return y + state.current.get()


def context_variable_in_a_callee(x, log):
    def inner(x):
        log.append(state.current.get())
        return x * state.current.get()

    token = state.current.set(5)
    try:
        return inner(x)
    finally:
        state.current.reset(token)


def a_context_of_its_own(x, log):
    def inner():
        state.current.set(9)
        log.append(state.current.get())
        return x * state.current.get()

    y = contextvars.copy_context().run(inner)
    return y + state.current.get()


def reset_twice(x, log):
    token = state.current.set(3)
    state.current.reset(token)
    try:
        state.current.reset(token)
    except RuntimeError as error:
        log.append(type(error).__name__)
    return x + 1


def thread_local(x, log):
    state.local.count += 1
    state.local.other = x * state.local.count
    log.append(hasattr(state.local, "other"))
    y = state.local.other + 1
    del state.local.other
    state.local.count -= 1
    log += [state.local.count, hasattr(state.local, "other")]
    return y


def thread_local_of_a_class(x, log):
    first, second = state.counts.up(), state.counts.up()
    log.append(second - first)
    state.counts.count = 0
    return x * (second - first)


def another_threads_value(x, log):
    def run():
        log.append(getattr(state.local, "count", "nothing"))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return x + state.local.count


def environment(x, log):
    os.environ[NAME] = "3"
    log += [os.environ[NAME], os.getenv(NAME), NAME in os.environ]
    y = x * int(os.environ[NAME])
    del os.environ[NAME]
    log += [os.environ.get(NAME), NAME in os.environ]
    return y


def environment_popped(x, log):
    os.environ.setdefault(NAME, "4")
    log += [os.environ.pop(NAME), os.environ.pop(NAME, "gone")]
    os.environ.update({NAME: "5"})
    y = x * float(os.environ[NAME])
    os.unsetenv(NAME)
    log.append(os.environ.pop(NAME))
    return y


def missing_from_the_environment(x, log):
    try:
        os.environ[NAME]
    except KeyError as error:
        log.append(error.args)
    return x + 1


@pytest.mark.break_everywhere
@pytest.mark.parametrize(
    "program",
    [context_variable, context_variable_in_a_callee, a_context_of_its_own, reset_twice, thread_local,
     thread_local_of_a_class, another_threads_value, environment, environment_popped, missing_from_the_environment],
    ids=lambda program: program.__name__)
def test_as_written(program):
    before = os.environ.get(NAME), state.current.get(), vars(state.local).copy()
    check(program, make=lambda: (torch.arange(3.0), []))
    assert (os.environ.get(NAME), state.current.get(), vars(state.local)) == before


def test_each_call_reads_them_anew():


    @jit.compile(backend="eager")
    def compiled(x):
        return x * state.current.get() + state.local.count + float(os.environ.get(NAME, "0"))

    x = torch.ones(2)
    try:
        for number in (1, 2, 3):
            token = state.current.set(number)
            state.local.count = number * 10
            os.environ[NAME] = str(number * 100)
            assert compiled(x).tolist() == [number * 111.0] * 2
            state.current.reset(token)
    finally:
        state.local.count = 1
        os.environ.pop(NAME, None)


def test_another_thread_has_its_own():


    @jit.compile(backend="eager")
    def compiled(x):
        state.current.set(state.current.get() + 1)
        state.local.count = getattr(state.local, "count", 100) + 1
        return x + state.current.get() + state.local.count

    def run():
        found.append(compiled(torch.zeros(1)).item())

    found = []
    context = contextvars.copy_context()
    context.run(run)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    state.local.count = 1
    assert found == [4.0, 103.0]
    assert state.current.get() == 1
