"""Generators that are consumed within the program, and what becomes of those that are not."""
import contextlib
import itertools

import pytest
import torch

import jit
from symbolic import dropped
from tests.differential import COUNTING, check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)

CONSUMERS = ["sum(G)", "list(G)", "tuple(G)", "set(n for n in range(3))", "dict((k, x) for k in 'ab')", "max(n for n in [1, 5, 2])",
             "min(n for n in [1, 5, 2])", "any(n > 1 for n in [1, 2])", "all(n > 1 for n in [1, 2])", "sorted(-n for n in range(3))",
             "' '.join(str(n) for n in range(3))", "torch.stack(list(G))", "torch.cat([*G])", "next(G)", "[*G]", "(lambda *a: a)(*G)",
             "len(list(G))", "list(zip(G, range(2)))", "list(enumerate(G))", "list(map(torch.sin, G))", "list(filter(None, (n for n in [0, 1])))",
             "torch.stack([g for g in G])", "list(itertools.chain(G, G))", "dict(zip('ab', G))"]


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_generator_expression(consumer):
    scope = {"torch": torch, "itertools": itertools}
    text = consumer.replace("G", "(x + i for i in range(3))")
    execute(f"def program(x):\n    return {text}, x * 2\n", scope)
    check(scope["program"], X, graphs=1, changed=[(Y,)])


def count(n):
    for i in range(n):
        yield i


def with_return(t):
    yield t + 1
    yield t + 2
    return "done"


def delegating(t):
    result = yield from with_return(t)
    yield result


def tree(n):
    if n:
        yield from tree(n - 1)
        yield n
        yield from tree(n - 1)


@same_as_eager(graphs=1)
def test_generator_function(x):
    for i in count(3):
        x = x + i
    return x, list(count(2))


@same_as_eager(graphs=1)
def test_yield_from(x):
    return list(delegating(x)), list(tree(3))


@same_as_eager(graphs=1)
def test_generator_is_lazy(x):
    log = []

    def noisy(n):
        for i in range(n):
            log.append(i)
            yield i
    for i in noisy(10):
        x = x + i
        if i == 2:
            break
    return x, log


@same_as_eager(graphs=1)
def test_next_with_default(x):
    g = count(2)
    a, b, c = next(g), next(g), next(g, "end")
    return x + a + b, c


@same_as_eager
def test_next_past_the_end(x):
    g = count(1)
    y = x + next(g)
    next(g)
    return y


@same_as_eager(graphs=1)
def test_stop_iteration_is_handled(x):
    g = with_return(x)
    out = []
    while True:
        try:
            out.append(next(g))
        except StopIteration as stop:
            out.append(stop.value)
            return out


@same_as_eager(graphs=1)
def test_send(x):
    def running():
        total = 0
        while total < 10:
            got = yield total
            total += got
    g = running()
    next(g)
    return x + g.send(3), g.send(4)


@same_as_eager(graphs=1)
def test_close_runs_finally(x):
    log = []

    def guarded():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")
    g = guarded()
    y = x + next(g)
    g.close()
    return y, log


@same_as_eager(graphs=1)
def test_throw_into_a_generator(x):
    def handles():
        try:
            yield 1
        except ValueError as e:
            yield str(e)
    g = handles()
    return x + next(g), g.throw(ValueError("in"))


@same_as_eager(graphs=1)
def test_two_generators_side_by_side(x):
    a, b = count(3), count(5)
    return [x + p * q for p, q in zip(a, b)], next(b)


@same_as_eager(graphs=1)
def test_generator_reads_a_cell_that_changes(x):
    k = 1

    def scaled():
        for i in range(3):
            yield x * k + i
    out = []
    for y in scaled():
        out.append(y)
        k += 1
    return out


@same_as_eager(graphs=1)
def test_exception_inside_a_generator(x):
    def fails():
        yield x + 1
        raise KeyError("in generator")
    out = []
    try:
        for y in fails():
            out.append(y)
    except KeyError as e:
        out.append(e.args)
    return out


@same_as_eager
def test_stop_iteration_inside_a_generator_is_a_runtime_error(x):
    def fails():
        yield x + 1
        raise StopIteration
    return list(fails())


@same_as_eager(graphs=1)
def test_generator_in_a_comprehension(x):
    return [a + b for a in (x * i for i in range(2)) for b in count(2)]


@same_as_eager(graphs=1)
def test_iter_with_sentinel(x):
    values = [3, 2, 1, 0, 9]
    return x + sum(iter(lambda: values.pop(0), 0)), values


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Rows:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        for row in self.x:
            yield row * 2

    def __len__(self):
        return len(self.x)


@same_as_eager(graphs=1)
def test_own_iterators(x):
    return [x + n for n in Countdown(3)], list(Rows(x)), len(Rows(x)), 2 in Countdown(5)


@same_as_eager(graphs=1)
def test_own_iterator_keeps_its_place(x):
    c = Countdown(5)
    for n in c:
        if n == 3:
            break
    return x + n, list(c), c


class Sequence:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 10


@same_as_eager(graphs=1)
def test_iteration_by_getitem(x):
    return x + sum(Sequence()), list(Sequence()), 20 in Sequence()


def test_iterator_argument_is_advanced():
    def program(it, x):
        return x + next(it)
    check(program, make=lambda: (iter([1, 2, 3]), X))
    check(program, make=lambda: (count(5), X))
    check(lambda g, x: [x + i for i in g], make=lambda: (count(3), X))


@same_as_eager
def test_generator_that_is_returned(x):
    return torch.sin(x), count(3)


def test_generator_that_is_returned_goes_on_after_the_call():
    def program(x):
        y = x + 1
        return (y * i for i in range(3))

    def consumed(f):
        return lambda x: list(f(x))
    check(program, X)
    check(lambda x: list(program(x)), X, graphs=1)


def test_compiled_generator_function():
    def program(x):
        for i in range(3):
            x = torch.sin(x) + i
            yield x
    check(lambda x: [y * 2 for y in program(x)], X, graphs=1)
    check(program, X)


@same_as_eager(graphs=1)
def test_context_of_what_is_thrown(x):
    def raises(error):
        try:
            yield 1
        finally:
            raise error

    def plain():
        yield
    errors = [ValueError(n) for n in range(3)]
    first, second, log = raises(errors[1]), raises(errors[2]), []
    next(first)
    next(second)
    try:
        raise errors[0]
    except ValueError as caught:
        error = caught
        for generator in (first, second):
            try:
                generator.throw(error)
            except ValueError as new:
                error = new
        try:
            plain().throw(KeyError(1))
        except KeyError as e:
            log.append(e.__context__)
    while error is not None:
        log.append(str(error))
        error = error.__context__
    return x + 1, log


@same_as_eager(graphs=1)
def test_what_an_iterator_says_at_its_end(x):
    class Ends:
        def __init__(self, count):
            self.count = count

        def __iter__(self):
            return self

        def __next__(self):
            if not self.count:
                raise StopIteration("the end")
            self.count -= 1
            return self.count

    def delegates(count):
        said = yield from Ends(count)
        yield said
    return x + 1, list(delegates(0)), list(delegates(2))


def closing_late(log, name, count=5):
    try:
        for step in range(count):
            yield step
    finally:
        log.append(name)


@same_as_eager(graphs=1)
def test_dropped_by_break(x):
    log = []
    for step in closing_late(log, "loop"):
        x = x + step
        if step == 2:
            break
    log.append("after the loop")
    return x, log


@same_as_eager(graphs=1)
def test_dropped_by_the_end_of_a_loop(x):
    log = []
    for number, step in zip([1, 2], closing_late(log, "zipped"), strict=False):
        x = x + number * step
        log.append(step)
    log.append("after the loop")
    numbers = enumerate(closing_late(log, "enumerated"))
    for _, (number, step) in zip(range(2), numbers, strict=False):
        x = x + number * step
    log.append("kept")
    for _ in [numbers]:
        del numbers
    log.append("held by the loop's variable" if next(_)[0] else "")
    return x, log


@pytest.mark.skipif(not COUNTING, reason="existing ones live until what a compilation leaves behind is collected")
@same_as_eager(graphs=1)
def test_dropped_by_name(x):
    log = []
    first, second, third = (closing_late(log, name) for name in "abc")
    x = x + next(first) + next(second) + next(third)
    log.append("made")
    del first
    log.append("deleted")
    second = None
    log.append(f"overwritten {second}")
    third = next(third)
    log.append("gone on")
    return x, log


@same_as_eager(graphs=1)
def test_dropped_by_the_end_of_a_callee(x):
    log = []

    def callee(y):
        steps = closing_late(log, "callee")
        kept = closing_late(log, "kept")
        y = y + next(steps) + next(kept)
        log.append("in the callee")
        return y, [kept]
    x, kept = callee(x)
    log.append("after the callee")
    return x, log


@same_as_eager(graphs=1)
def test_dropped_at_the_end(x):
    log = []
    steps = closing_late(log, "end")
    return x + next(steps), log


@same_as_eager(graphs=1)
def test_dropped_generators_that_compute(x):
    seen = []

    def steps(t):
        try:
            while True:
                yield t
                t = t + 1
        finally:
            seen.append(t * 10)
            with torch.no_grad():
                seen.append(t.requires_grad)
    for y in steps(x):
        x = x * 2
        if len(seen) == 0:
            break
    seen.append(x + y)
    return seen


@same_as_eager
def test_dropped_generators_that_raise(x):
    def steps():
        try:
            yield 1
        finally:
            log.append("raises")
            raise ValueError("unraisable")
    import sys
    log, hook = [], sys.unraisablehook
    sys.unraisablehook = lambda what: log.append(str(what.exc_value))
    try:
        for step in steps():
            x = x + step
            break
        log.append("after")
    finally:
        sys.unraisablehook = hook
    return x, log


@same_as_eager
def test_held_by_a_traceback(x):
    log = []

    def fails(y):
        steps = closing_late(log, "late")
        next(steps)
        raise ValueError("v")
    try:
        fails(x)
    except ValueError as e:
        log.append("handled")
        error = e
    log.append("after")
    del error
    log.append("deleted")
    return x + 1, log


@same_as_eager
def test_breaks_around_generators_that_run_on(x):
    log = []
    for step in closing_late(log, "first"):
        x = x + step
        jit.graph_break()
        if step == 1:
            break
    log.append("after the first loop")
    for step in closing_late(log, "second", 2):
        jit.graph_break()
        x = x * 2
    log.append("after the second loop")
    return x, log


@pytest.mark.skipif(not COUNTING, reason="existing ones live until what a compilation leaves behind is collected")
@same_as_eager
def test_generators_dropped_after_a_break(x):
    log = []
    kept, deleted, renamed = (closing_late(log, name) for name in "kdr")
    x = x + next(kept) + next(deleted) + next(renamed)
    jit.graph_break()
    log.append("broken")
    del deleted
    log.append("deleted")
    renamed = next(renamed)
    log.append(f"renamed {renamed}")
    x = x + next(kept)
    return x, log


@same_as_eager
def test_generators_of_a_callee_that_breaks(x):
    log = []

    def callee(y):
        steps = closing_late(log, "callee")
        y = y + next(steps)
        jit.graph_break()
        log.append("broken")
        return y * 2
    x = callee(x)
    log.append("after the callee")
    return x, log


@same_as_eager
def test_breaks_inside_of_generators_that_run_on(x):
    log = []

    def steps(y):
        try:
            with torch.no_grad():
                yield y + 1
                jit.graph_break()
                yield y + 2
        finally:
            log.append(torch.is_grad_enabled())
    out = []
    for y in steps(x):
        out.append(y)
        log.append("round")
    return out, log


@same_as_eager
def test_what_ends_an_iteration_is_thrown_into_one_that_has_not_begun(x):
    def counting():
        yield 1

    async def waiting(): ...

    told = []
    for made in (counting(), waiting()):
        for _ in range(2):
            try: made.throw(StopIteration(4))
            except BaseException as e: told.append((repr(e), repr(e.__context__), repr(e.__cause__)))
    return x + 1, told


def _through(inner):
    yield from inner


def _three():
    yield from (1, 2, 3)


def dropped_after_a_call(x, given):
    inner = _three()
    return next(_through(inner)), list(inner), x + 1


def dropped_twice_removed(x, given):
    inner = _three()
    a, *_ = itertools.islice(_through(_through(inner)), 2)
    return a, [*inner], x + 1


def dropped_by_name(x, given):
    inner = _three()
    outer = _through(inner)
    first = next(outer)
    del outer
    return first, list(inner), x + 1


def kept(x, given):
    inner = _three()
    outer = _through(inner)
    return next(outer), list(inner), x + 1


def through_what_came_in(x, given):
    return next(_through(given)), list(given), x + 1


def awaited_and_dropped(x, given):
    class Stop:
        def __await__(self): yield 1; yield 2

    async def inner(): await Stop()
    async def outer(one): await one

    one = inner()
    told = [outer(one).send(None)]
    try: told.append(one.send(None))
    except RuntimeError as e: told.append(str(e))
    return told, x + 1


@pytest.mark.parametrize(
    "program", [dropped_after_a_call, dropped_twice_removed, dropped_by_name, kept, through_what_came_in, awaited_and_dropped]
)
def test_who_is_dropped_closes_what_it_goes_through(program):
    check(program, make=lambda: (torch.ones(2), _three()))


@contextlib.contextmanager
def opened():
    try: yield
    finally: pass


def loop_beside_what_is_open(x, many):
    found = {}
    with opened():
        for i in range(many):
            found[i] = i
    return found, x * 2


@pytest.mark.skipif(not COUNTING, reason="the loop is not captured")
def test_a_loop_beside_what_is_open_looks_for_it_at_its_end_alone(monkeypatch):
    """Of each turn nothing is dropped that could hold a generator."""
    looked = []
    within = dropped._within
    monkeypatch.setattr(dropped, "_within", lambda *args: looked.append(args) or within(*args))
    check(loop_beside_what_is_open, X, 300, graphs=1)
    assert 0 < len(looked) < 100
