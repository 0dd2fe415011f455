"""What the program tells the world outside when that raises, or tells where it comes from."""
import io
import logging
import warnings

import pytest
import torch

import jit
from tests.differential import check

LOG = logging.getLogger("tests.effects_that_fail")


# --- what comes after an error has not happened -----------------------------------------------------------------------
def warns(x):
    x.add_(1)
    warnings.warn("a warning")
    x.mul_(2)
    return x + 1


def warns_before_random_numbers(x):
    warnings.warn("a warning")
    return x + torch.rand(2)


def warns_before_new_data(x):
    y = x + 1
    warnings.warn("a warning")
    x.data = y
    return y


@pytest.mark.parametrize("program", [warns, warns_before_random_numbers, warns_before_new_data], ids=lambda p: p.__name__)
def test_a_warning_that_is_an_error(program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(program, torch.ones(2))


def test_a_warning_that_is_an_error_in_some_calls():
    compiled = jit.compile(warns, backend="eager")
    x = torch.ones(2)
    for action, value in (("ignore", 4), ("error", 5), ("ignore", 12), ("error", 13)):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            try:
                assert compiled(x).tolist() == [value + 1] * 2 and action == "ignore"
            except UserWarning:
                assert action == "error"
        assert x.tolist() == [value] * 2


def test_a_warning_that_is_only_shown_takes_one_graph():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(warns, torch.ones(2), graphs=1)


def test_what_the_frame_made_may_be_written_after_a_warning():
    def program(x):
        y = x + 1
        warnings.warn("a warning")
        return y.mul_(2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(program, torch.ones(2), graphs=1)


def prints(x, file):
    x.add_(1)
    print("text", file=file)
    x.mul_(2)
    return x + 1


def closed():
    file = io.StringIO()
    file.close()
    return file


def test_a_file_that_is_closed():
    compiled = jit.compile(prints, backend="eager")
    for make, value in ((io.StringIO, 4), (closed, 2), (io.StringIO, 4)):
        x = torch.ones(2)
        try:
            compiled(x, make())
        except ValueError:
            assert make is closed
        assert x.tolist() == [value] * 2


def test_a_file_that_is_open_takes_one_graph():
    check(prints, make=lambda: (torch.ones(2), io.StringIO()), graphs=1)


# --- where a message comes from ---------------------------------------------------------------------------------------
def in_a_try(x, level):
    try:
        warnings.warn("a warning", stacklevel=level)
        LOG.warning("a message", stacklevel=min(level, 3))
    except ValueError:
        pass
    return x + 1


def before_a_write(x, level):
    warnings.warn("a warning", stacklevel=level)
    LOG.warning("a message", stacklevel=min(level, 3))
    return x.mul_(2)


def middle(x, level, tells):
    x.add_(1)
    return tells(x, level)


def outer(x, level, tells):
    x.add_(1)
    return middle(x, level, tells)


def around(x, level, tells):
    try:
        return middle(x, level, tells)
    except KeyError:
        return x


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("tells", [in_a_try, before_a_write], ids=lambda p: p.__name__)
@pytest.mark.parametrize("program", [outer, around], ids=lambda p: p.__name__)
def test_where_a_message_comes_from(program, tells, level, caplog):
    seen = []
    for run in (program, jit.compile(program, backend="eager")):
        for action in ("always", "error"):
            caplog.clear()
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter(action)
                try:
                    run(torch.ones(2), level, tells)
                except UserWarning:
                    pass
            lines = [(w.filename, w.lineno) for w in warned if w.filename == __file__]
            seen.append((len(warned), lines, [(r.funcName, r.lineno) for r in caplog.records if r.filename in __file__]))
    ours, theirs = seen[2:], seen[:2]
    if level < 4:
        assert ours == theirs
    else:  # a frame of the test's, in another line
        assert [each[0] for each in ours] == [each[0] for each in theirs]
