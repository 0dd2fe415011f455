"""Log messages that show an exception: the text is as eager code's, the program one graph."""
import io
import logging
import re
import traceback

import pytest
import torch

import jit
from tests.differential import COUNTING, Counting, check, tensors

LOG = logging.getLogger(__name__)
LOG.propagate = False
TEXT = io.StringIO()
_handler = logging.StreamHandler(TEXT)
_handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s %(lineno)d %(message)s"))
LOG.addHandler(_handler)


class Own(Exception):
    def __str__(self):
        return "its own text"


def missing(x):
    return {}["key"] + x


def of_the_one_that_is_handled(x, log):
    try:
        raise ValueError("a")
    except ValueError:
        LOG.exception("hm %s", 1)
        LOG.warning("and", exc_info=True)
    return x + 1


def of_one_that_is_given(x, log):
    try:
        missing(x)
    except KeyError as error:
        LOG.error("hm", exc_info=error)
        LOG.info("not shown", exc_info=error)
        LOG.error("so", exc_info=(type(error), error, error.__traceback__))
        found = error
    LOG.critical("after", exc_info=found)
    return x + 1


def of_none(x, log):
    LOG.warning("x", exc_info=True)
    LOG.warning("y", exc_info=(None, None, None))
    LOG.warning("z", exc_info=False)
    return x + 1


def of_several(x, log):
    try:
        try:
            missing(x)
        except KeyError as error:
            LOG.exception("first")
            raise ValueError("second") from error
    except ValueError as error:
        LOG.exception("both")
        log.append(str(error.__cause__))
    try:
        missing(x)
    except KeyError:
        try:
            raise RuntimeError("in the midst")
        except RuntimeError:
            LOG.exception("context")
    return x + 1


def changed_later(x, log):
    try:
        missing(x)
    except KeyError as error:
        LOG.exception("first")
        error.add_note("later")
        log.append(error)
    return x + 1


def with_text_of_its_own(x, log):
    try:
        raise Own(1)
    except Own:
        LOG.exception("own")
    return x * 2


def of_what_changes(x, log):
    items = [1]
    try:
        raise ValueError(items)
    except ValueError:
        LOG.exception("list")
        items.append(2)
    return x + 1


def with_the_stack(x, log):
    LOG.warning("x", stack_info=True)
    return x + 1


def text_of(call):
    """Without what points at columns."""
    TEXT.seek(0)
    TEXT.truncate()
    logs = [[], []]
    results = [call(torch.ones(3), log) for log in logs]
    return re.sub(r"\n[\s^~]*\n", "\n", TEXT.getvalue()), results, [list(map(repr, log)) for log in logs]


@pytest.mark.parametrize("program, graphs", [
    (of_the_one_that_is_handled, 1), (of_one_that_is_given, 1), (of_none, 1), (of_several, 1), (changed_later, None),
    (with_text_of_its_own, None), (of_what_changes, None), (with_the_stack, None),
], ids=lambda given: getattr(given, "__name__", str(given)))  # fmt: skip
def test_the_text_is_as_eager_code_s(program, graphs):
    counter = Counting()
    expected, results, logs = text_of(program)
    found, ours, our_logs = text_of(jit.compile(program, backend=counter))
    if program is with_the_stack:  # those of the compiler are among the callers
        expected, found = (text.partition("\n")[0] for text in (expected, found))
    assert found == expected and our_logs == logs
    torch.testing.assert_close(ours, results)
    if graphs is not None and COUNTING:
        counter.expect(graphs)


class Kept(logging.Handler):
    def emit(self, record):
        pass


COLUMNS = logging.getLogger("tests.columns")
COLUMNS.handlers, COLUMNS.propagate = [Kept()], False
COLUMNS.setLevel(logging.INFO)


def told_of_columns(x):
    def asked(n):
        COLUMNS.debug(3)
        return ([n, x.shape[0]] * 2)[:4].index(len("a"))

    try:
        return asked(0)
    except ValueError as error:
        return traceback.format_list(traceback.extract_tb(error.__traceback__))[-1]


def test_the_text_of_a_traceback_has_the_columns_of_what_raised_after_a_message():
    x, = tensors(3)
    assert "^^^" in told_of_columns(x)
    check(told_of_columns, x)
