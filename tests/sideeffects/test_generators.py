"""Generators that the frame makes: they go on where they stood, whoever has them."""
import contextlib
import gc
import inspect
import itertools

import pytest
import torch

import jit
from tests.differential import check

pytestmark = pytest.mark.break_everywhere


class Box:
    pass


def counting(x, log):
    """Yields, takes what is sent, and says what happens to it."""
    n = 0
    try:
        while n < 4:
            log.append(n)
            try:
                sent = yield x + n
                if sent is not None:
                    n += sent
            except ValueError as error:
                log.append(str(error))
                yield "caught"
            n += 1
        return "done"
    finally:
        log.append("finally")


def delegating(x, log):
    log.append("before")
    result = yield from counting(x, log)
    log.append(result)
    yield from [x * 2, x * 3]


def while_handling(x, log):
    try:
        {}["missing"]
    except KeyError as error:
        yield str(error)
        yield x
        log.append(repr(error))
        raise
    finally:
        log.append("out")


def with_cells(x, log):
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    log.append(bump)
    while n < 5:
        yield x * bump()


def in_with(x, log):
    with Noting(log) as name:
        for i in range(3):
            yield x + i
    log.append(name)


class Noting:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return "name"

    def __exit__(self, kind, *rest):
        self.log.append(("exit", kind and kind.__name__))


def over_iterators(x, log):
    for (i, a), b in zip(enumerate([1, 2, 3, 4]), itertools.islice(itertools.count(5), 6)):
        for c in {"k": a, "l": b}.items():
            yield x * a, b, c, i


def with_defaults(x, log, *rest, k=3, **named):
    local = [k]
    for item in rest:
        local.append(item)
        yield x, list(local), named


MAKERS = [counting, delegating, while_handling, with_cells, in_with, over_iterators, with_defaults]


def started(x, log, make, times):
    q = make(x, log, *((1, 2, 3) if make is with_defaults else ()))
    y = [next(q) for _ in range(times)]
    return q, y, x + 1


def sent_to(x, log, make, times):
    q = make(x, log, *((1, 2, 3) if make is with_defaults else ()))
    next(q)
    for _ in range(times):
        q.send(1)
    return q, x + 1


def stored(x, log, make, times):
    box = Box()
    box.q = make(x, log, *((1, 2, 3) if make is with_defaults else ()))
    for _ in range(times):
        next(box.q)
    box.both = (box.q, box.q)
    log.append(box)
    return box.q, x + 1


def drain(q, log):
    return list(q)


def send(q, log):
    return [q.send(1), *q]


def throw(q, log):
    return [q.throw(ValueError("thrown")), *q]


def throw_other(q, log):
    return q.throw(RuntimeError("other"))


def close(q, log):
    q.close()
    return list(q)


def drop(q, log):
    return None


def inspect_it(q, log):
    state = inspect.getgeneratorstate(q)
    inner = q.gi_yieldfrom is None, q.gi_running, q.__name__, q.__qualname__, q.gi_frame is None
    try:
        next(q)
    except (StopIteration, KeyError):
        pass
    return state, inner


def _said(value):
    """What is seen of a value, as plain data."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_said(item) for item in value]
    return type(value).__name__ if hasattr(value, "__dict__") or hasattr(value, "gi_code") else repr(value)


def _driven(function, make, times, drive):
    """Everything that is seen of a program whose generator goes on outside."""
    x, log = torch.ones(2), []
    try:
        q, *rest = function(x, log, make, times)
        rest = _said(rest)
        result = drive(q, log)
        del q
        gc.collect(1)  # what was captured may be held until then
        log[:] = [item for item in log if not isinstance(item, Box)]  # the last reference
        return rest, _said(result), _said(log)
    except Exception as error:
        return type(error), str(error), _said(log)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("drive", [drain, send, throw, throw_other, close, drop, inspect_it], ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("program", [started, sent_to, stored], ids=lambda f: f.__name__)
def test_goes_on_outside(program, make, drive):
    if (program, make) == (stored, while_handling) and drive in (drop, inspect_it):
        pytest.skip("the exception being handled has a traceback, whose frames hold what they held")
    for times in (0, 1, 2):
        counter = Graphs()
        raises = (program, make, times) == (sent_to, while_handling, 2)
        compiled = jit.compile(program, backend=counter, fullgraph=not BREAKS and not raises)
        for _ in range(2):
            assert _driven(compiled, make, times, drive) == _driven(program, make, times, drive)


class Graphs:
    def __call__(self, gm, inputs):
        return gm.forward


BREAKS = jit.config.break_everywhere


# --- generators that nobody has any more ------------------------------------------------------------------------------
def left_in_a_loop(x, log):
    for y in counting(x, log):
        if len(log) > 1:
            break
    log.append("after")
    return y


def dropped_at_the_end(x, log):
    q = in_with(x, log)
    return next(q)


def dropped_before(x, log):
    q = counting(x, log)
    y = next(q)
    q = None
    log.append("after")
    return y


def dropped_by_a_callee(x, log):
    y = dropped_at_the_end(x, log)
    log.append("after")
    return y


def dropped_where_nothing_is_left_to_do(x, log):
    q = with_cells(x, log)
    y = next(q)
    log.clear()
    return y, next(w for w in (x + i for i in range(3)))


def dropped_where_only_errors_matter(x, log):
    q = quiet(x, log)
    return next(q), q.throw(ValueError("a"))


def quiet(x, log):
    while True:
        try:
            yield x + 1
        except ValueError as error:
            log.append(str(error))
        else:
            x = x * 2


def any_of_many(x, log):
    return any(isinstance(y, torch.Tensor) for y in over_iterators(x, log)), x + 1


@pytest.mark.skipif(BREAKS, reason="what stands in the frame at a break lives until the frame ends")
@pytest.mark.parametrize(
    "program",
    [left_in_a_loop, dropped_at_the_end, dropped_before, dropped_by_a_callee],
    ids=lambda f: f.__name__,
)
def test_dropped_with_something_to_do(program):
    check(program, make=lambda: (torch.ones(2), []))


QUIET = [dropped_where_nothing_is_left_to_do, any_of_many, dropped_where_only_errors_matter]


@pytest.mark.parametrize("program", QUIET, ids=lambda f: f.__name__)
def test_dropped(program):
    check(program, make=lambda: (torch.ones(2), []), graphs=1)


# --- alive at a graph break -------------------------------------------------------------------------------------------
def break_in_a_loop(x, log):
    total = x
    for y in counting(x, log):
        jit.graph_break()
        total = total + y
    return total


def break_between(x, log):
    q = with_cells(x, log)
    a = next(q)
    jit.graph_break()
    b = next(q)
    return a, b, q.gi_yieldfrom is None


def break_inside(x, log):
    def inner():
        log.append("in")
        yield x + 1
        jit.graph_break()
        log.append("on")
        yield x + 2

    return sum(inner())


@contextlib.contextmanager
def quietly(log):
    log.append(torch.is_grad_enabled())
    with torch.no_grad(), Noting(log):
        try:
            yield log
        except ValueError as error:
            log.append(str(error))
        finally:
            log.append(torch.is_grad_enabled())


def break_in_a_context(x, log):
    with quietly(log) as same:
        y = x * 2
        jit.graph_break()
        z = y * 3
        same.append(z)
    return y, z, x * 2, torch.is_grad_enabled()


def error_after_a_break_in_a_context(x, log):
    with quietly(log), quietly(log):
        y = x * 2
        jit.graph_break()
        log.append(y * 2)
        raise ValueError("in")
    return x * y


@pytest.mark.parametrize(
    "program",
    [break_in_a_loop, break_between, break_inside, break_in_a_context, error_after_a_break_in_a_context],
    ids=lambda f: f.__name__,
)
def test_alive_at_a_break(program):
    check(program, make=lambda: (torch.ones(2), []))
