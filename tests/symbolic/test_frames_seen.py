"""What a program can see of its own frames: tracebacks of handled exceptions, warnings, log records, `sys._getframe`.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import inspect
import io
import logging
import sys
import traceback
import warnings

import jit
from tests.differential import same_as_eager, tensors

X, = tensors(3, 4)


def fails(x):
    y = x + 1
    raise ValueError("from a callee")


def entries(trace):
    """(function, line) of the entries of this file."""
    return [(f.name, f.lineno) for f in traceback.extract_tb(trace) if f.filename == __file__]


class Keeps:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.seen = entries(trace)
        return True


@same_as_eager
def test_traceback_of_a_handled_exception(x):
    try:
        fails(x)
    except ValueError as e:
        return x * 2, entries(e.__traceback__)


@same_as_eager
def test_traceback_that_a_context_manager_is_given(x):
    with Keeps() as keeps:
        fails(x)
    return keeps.seen, x + 1


@same_as_eager
def test_traceback_as_text(x):
    try:
        fails(x)
    except ValueError:
        return x + 1, traceback.format_exc()


@same_as_eager
def test_traceback_of_an_exception_raised_again(x):
    try:
        try:
            fails(x)
        except ValueError:
            x = x * 2
            raise
    except ValueError as e:
        return x + 1, entries(e.__traceback__)


@same_as_eager
def test_traceback_after_a_break_in_the_handler(x):
    try:
        fails(x)
    except ValueError:
        y = x * 2
        jit.graph_break()
        try:
            raise
        except ValueError as e:
            return y, entries(e.__traceback__), entries(sys.exc_info()[2])


@same_as_eager
def test_traceback_taken_away(x):
    try:
        fails(x)
    except ValueError as e:
        return x + 1, e.with_traceback(None).__traceback__ is None


def test_returned_exception_has_its_traceback():
    def program(x):
        try:
            fails(x)
        except ValueError as e:
            return e, x + 1
    seen = [entries(f(X)[0].__traceback__) for f in (program, jit.compile(program, backend="eager"))]
    assert seen[0] == seen[1] and len(seen[0]) == 2


@same_as_eager
def test_native_attributes_of_exceptions(x):
    out = []
    try:
        x.nope
    except AttributeError as e:
        out.append(e.name)
    try:
        undefined_name
    except NameError as e:
        out.append(e.name)
    try:
        raise OSError(2, "gone", "file")
    except OSError as e:
        out += [type(e), e.errno, e.filename, e.args, str(e)]
    try:
        raise SystemExit(3)
    except SystemExit as e:
        out.append(e.code)
    return x + 1, out


@same_as_eager
def test_chain_of_exceptions(x):
    try:
        try:
            fails(x)
        except ValueError as e:
            raise KeyError(1) from e
    except KeyError as e:
        chain = [e, e.__cause__, e.__context__]
        return [type(one).__name__ for one in chain], [entries(one.__traceback__) for one in chain], x + 1


def warns(x):
    z = x * 2
    warnings.warn("careful")
    return z + 1


def test_warning_names_the_line_of_the_callee():
    def program(x):
        return warns(x + 1) - 1
    seen = []
    for f in (program, jit.compile(program, backend="eager")):
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                f(X)
            seen.append([(w.filename, w.lineno) for w in caught])
    assert seen[0] == seen[1] == seen[2] == seen[3] and seen[0][0][0] == __file__


def logs(x):
    z = x * 2
    LOGGER.warning("%s dims", 2, extra={"more": 1})
    return z + 1


LOGGER = logging.getLogger("tests.frames")


def test_log_record_names_the_line_of_the_callee():
    class Collect(logging.Handler):
        def emit(self, record):
            seen.append((record.funcName, record.lineno, record.filename, record.getMessage(), record.more))

    def program(x):
        return logs(x + 1) - 1
    seen = []
    handler = Collect()
    LOGGER.addHandler(handler)
    try:
        program(X)
        f = jit.compile(program, backend="eager")
        f(X), f(X)
    finally:
        LOGGER.removeHandler(handler)
    assert seen[0] == seen[1] == seen[2] and seen[0][0] == "logs"


def looks(x):
    y = x + 2
    return [sys._getframe(k).f_code.co_name for k in range(2)], sorted(sys._getframe().f_locals), y * 2


@same_as_eager
def test_frame_of_the_program(x):
    y = x + 1
    frame = inspect.currentframe()
    return frame.f_code.co_name, sorted(frame.f_locals), sys._getframe(0).f_lineno, y


@same_as_eager
def test_frame_of_a_callee(x):
    return looks(x * 2)


@same_as_eager
def test_frame_in_a_lambda_and_a_generator(x):
    def numbers():
        yield x + 1, sys._getframe().f_code.co_name
        yield eval("1 + 1")
    return list(map(lambda v: (v + 1, sys._getframe().f_code.co_name), [x, x * 2])), list(numbers())


@same_as_eager
def test_stack_as_text(x):
    def inner(x):
        text = io.StringIO()
        traceback.print_stack(file=text, limit=1)
        return x + 1, text.getvalue()
    return inner(x * 2)


@same_as_eager
def test_text_that_runs_in_the_frame_of_a_callee(x):
    def callee(x):
        n = 5
        return eval("n * 2"), x + 1, sorted(locals()), vars()["n"]
    return callee(x), exec("q = 1")


def calls(function):
    return function()


def who_asks():
    return sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name


def who_asks_by_another_name(look=sys._getframe):
    return look(1).f_code.co_name, [entry.name for entry in traceback.extract_stack()[-2:]]


@same_as_eager
def test_frames_around_that_of_a_callee(x):
    return calls(who_asks), calls(who_asks_by_another_name), calls(lambda: calls(who_asks)), x + 1


def divides(x):
    y = x + 1

    def inner(n):
        half = n / 2
        return half / 0
    return inner(3), y


def frames_of_failure(x):
    try:
        divides(x)
    except ZeroDivisionError as e:
        frames, trace = [], e.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
    return frames


@same_as_eager
def test_variables_of_the_frames_in_a_traceback(x):
    this, outer, inner = frames_of_failure(x)
    return sorted(this.f_locals), sorted(outer.f_locals), inner.f_locals, outer.f_locals["y"], x + 1


@same_as_eager
def test_frame_of_its_own_in_a_traceback(x):
    seen = []
    try:
        1 / 0
    except ZeroDivisionError as e:
        frame = e.__traceback__.tb_frame
    try:
        frame.clear()
    except RuntimeError as e:
        seen.append(str(e))
    return seen, x + 1, sorted(frame.f_locals), frame.f_back is not None
