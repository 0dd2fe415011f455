"""What `traceback` reads of frames beside their places, and the lines that `linecache` keeps.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import dis
import io
import json
import linecache
import sys
import traceback
import weakref

import pytest

import jit
from tests.differential import COUNTING, check, same_as_eager, tensors

X, = tensors(3, 4)


def divides():
    number = 12
    try:
        number / 0
    except ZeroDivisionError:
        return sys.exc_info()


@same_as_eager
def test_the_variables_of_the_frames_of_a_traceback(x):
    found = traceback.TracebackException(*divides(), capture_locals=True)
    out = io.StringIO()
    found.print(file=out)
    return x + 1, out.getvalue()


@same_as_eager
def test_the_variables_of_the_frames_of_a_traceback_by_other_ways(x):
    scale = 3
    try:
        scale / 0
    except ZeroDivisionError as error:
        found = traceback.TracebackException.from_exception(error, **{"capture_locals": True})
        plain = traceback.TracebackException.from_exception(error, capture_locals=False)
        again = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), capture_locals=True)
    return x * scale, found.stack[0].locals["scale"], plain.stack[0].locals, again[0].locals["scale"]


def shows(k):
    a = 1
    return traceback.StackSummary.extract(traceback.walk_stack(None), capture_locals=True, limit=1)


@same_as_eager
def test_the_variables_of_the_frames_that_run(x):
    return x + 1, shows(3).format()


def places(k):
    return traceback.StackSummary.extract(traceback.walk_stack(None), limit=1)


@same_as_eager
def test_the_places_of_the_frames_that_run(x):
    return x + 1, places(3).format()


@jit.disable
def came():
    try:
        json.loads("[1, ")
    except ValueError as error:
        return error


@same_as_eager
def test_the_variables_of_the_frames_of_a_traceback_that_comes_in(x):
    error, scale = came(), 3
    found = traceback.TracebackException.from_exception(error, capture_locals=True)
    try:
        raise KeyError(scale) from error
    except KeyError as raised:
        later = traceback.TracebackException.from_exception(raised, capture_locals=True)
    shown = [sorted(line.locals or ()) for line in (*found.stack, *later.__cause__.stack)]
    return x * scale, found.stack.format(), shown, later.stack[0].locals["scale"]


@same_as_eager
def test_plain_text_of_a_traceback_is_still_captured(x):
    return x + 1, "".join(traceback.TracebackException(*divides()).format())


@jit.disable
def files_known():
    return [name for name in linecache.cache if name.endswith(".py")]


def test_lines_that_the_program_forgot_are_not_read_while_compiling():
    def program(x):
        linecache.clearcache()
        jit.graph_break()
        y = (x + 1).sum().item()
        first = files_known()
        x = x * y
        jit.graph_break()
        second = files_known()
        return first, second, x + y

    before = dict(linecache.cache)
    try:
        check(program, X)
    finally:
        linecache.cache.update(before)


def test_lines_that_the_program_had_stay_as_they_were():
    kept = linecache.cache.pop(linecache.__file__, None)
    linecache.cache[__file__] = stale = (3, 1.0, ["old\n"], __file__)
    compiled = jit.compile(lambda x: x + 1, backend="eager")
    compiled(X)
    try:
        assert linecache.cache[__file__] is stale and linecache.__file__ not in linecache.cache
    finally:
        linecache.checkcache(__file__)
        if kept is not None:
            linecache.cache[linecache.__file__] = kept


@same_as_eager
def test_the_variables_of_a_traceback_that_was_handed_on_before(x):
    try:
        divides()
        raise KeyError(3)
    except KeyError:
        found = sys.exc_info()
    plain = traceback.TracebackException(*found)
    full = traceback.TracebackException(*found, capture_locals=True)
    return x + 1, plain == full, plain.stack[0].locals, "found" in full.stack[0].locals


def fails():
    try:
        1 / 0
    except Exception as error:
        return error.__traceback__


@same_as_eager
def test_the_instructions_of_the_frame_of_a_traceback(x):
    found = fails()
    out = io.StringIO()
    dis.distb(found, file=out)
    return x + 1, out.getvalue(), dis.Bytecode.from_traceback(found).dis()



def instructions(function, **how):
    out = io.StringIO()
    dis.dis(function, file=out, **how)
    return out.getvalue()


@pytest.mark.skipif(not COUNTING, reason="what the compiler runs between breaks leaves nothing in the code")
def test_instructions_that_have_run_often():
    def program(x):
        made = eval("lambda a, b: a + b")
        for _ in range(100):
            made(1, 2)
        return x + 1, instructions(made, adaptive=True), instructions(made), instructions(made, adaptive=False)

    check(program, X)


@pytest.mark.skipif(not COUNTING, reason="code of a function that is handed on at a break stays")
def test_code_made_of_text_ends_with_its_function():
    def made():
        return eval("lambda: 42")

    def program(x):
        function = made()
        code = weakref.ref(function.__code__)
        jit.graph_break()
        alive = code() is not None
        del function
        return x + 1, alive, code() is None

    compiled = jit.compile(program, backend="eager")
    assert program(X)[1:] == (True, True)
    assert [compiled(X)[1:] for _ in range(3)] == [(True, True)] * 3


class Held:
    pass


REFERENCES = []


def leaves_one():
    held = Held()
    REFERENCES.append(weakref.ref(held))
    raise ValueError


def raises(x):
    held = Held()
    REFERENCES.append(weakref.ref(held))
    raise ValueError


def raises_inside(x):
    leaves_one()


def keeps_the_error(x):
    try:
        leaves_one()
    except ValueError as error:
        REFERENCES.append(error)


def keeps_an_error_of_the_interpreter(x):
    held = [Held()]
    REFERENCES.append(weakref.ref(held[0]))
    try:
        None()
    except TypeError as error:
        REFERENCES.append(error)
    return x + 1


def breaks_behind(x):
    held = Held()
    REFERENCES.append(weakref.ref(held))
    try:
        raise ValueError
    finally:
        jit.graph_break()


def breaks_before(x):
    held = Held()
    REFERENCES.append(weakref.ref(held))
    jit.graph_break()
    raise ValueError


def breaks_around(x):
    held = Held()
    REFERENCES.append(weakref.ref(held))
    try:
        None()
    finally:
        jit.graph_break()
        REFERENCES.append(3)


def holds_in_a_cell(x):
    held = Held()
    REFERENCES.append(weakref.ref(held))
    REFERENCES.append(lambda: held is x)
    REFERENCES.pop()
    raise ValueError


def holds_a_tensor(x):
    held = x + 1
    REFERENCES.append(weakref.ref(held))
    try:
        None()
    finally:
        jit.graph_break()


def holds_in_what_it_lets_go_of(x):
    held = Held()
    REFERENCES.append(weakref.ref(held))
    held = None
    raise ValueError


@pytest.mark.parametrize("program", [
    raises, raises_inside, keeps_the_error, keeps_an_error_of_the_interpreter, breaks_behind, breaks_before,
    breaks_around, holds_in_what_it_lets_go_of,
    # At a break before it is left, a frame lets go of tensors and cells that are not used any more.
    *([holds_a_tensor, holds_in_a_cell] if COUNTING else []),
])  # fmt: skip
def test_a_traceback_holds_what_the_frames_held(program):
    """As long as it is there, and no longer."""

    def alive():
        return [each() is not None for each in REFERENCES if isinstance(each, weakref.ref)]

    def told(function):
        REFERENCES.clear()
        try:
            function(X)
        except (ValueError, TypeError) as error:
            found = alive()
            del error
        else:
            found = alive()
        REFERENCES[:] = [each for each in REFERENCES if isinstance(each, weakref.ref)]  # no errors
        return found, alive()

    compiled = jit.compile(program, backend="eager")
    assert [told(compiled), told(compiled)] == [told(program)] * 2


class Limited(ValueError):
    def __init__(self, limit):
        super().__init__(limit)
        self.limit = limit


def test_a_traceback_that_is_made_before_a_class_of_the_frame():
    """The class is made of what its body left, though a variable of the frame holds it, which the traceback shows."""

    def program(x):
        try:
            try:
                x.missing  # noqa: B018
            except AttributeError:
                raise Limited(3)  # noqa: B904
        except ValueError as error:
            print(error.__context__)

        class Asked:
            def __init__(self, number):
                self.number = number

            def __getattr__(self, name):
                jit.graph_break()
                return name, self.number

        asked = Asked(3)
        return asked.what, x + 1

    check(program, X)
