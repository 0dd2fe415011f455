"""Loggers that the program sets up, asks, changes and takes away: who is shown what is as in eager code."""
import contextlib
import copy
import io
import logging
import logging.config
import logging.handlers
import pickle
import queue
import sys
import warnings

import pytest
import torch

import jit
from tests.differential import INNER, check, tensors

LOG = logging.getLogger("tests.loggers")
STREAM = logging.StreamHandler(io.StringIO())
LOG.handlers, LOG.propagate = [STREAM], False


class Tee:
    def __init__(self):
        self.lines = []
        self.other = None

    def write(self, text):
        self.lines.append(text)
        if self.other is not None:
            self.other.write(text)

    def flush(self):
        pass


TEE, TOLD = Tee(), logging.getLogger("tests.loggers.tee")
TOLD.handlers, TOLD.propagate = [logging.StreamHandler(TEE)], False
KEPT, KEEPS = logging.handlers.MemoryHandler(100), logging.getLogger("tests.loggers.memory")
KEEPS.handlers, KEEPS.propagate = [KEPT], False
QUEUE, QUEUES = queue.Queue(), logging.getLogger("tests.loggers.queue")
QUEUES.handlers, QUEUES.propagate = [logging.handlers.QueueHandler(QUEUE)], False
ALONE = logging.getLogger("tests.loggers.alone")
ALONE.propagate = False
HANDLERS = {logger: list(logger.handlers) for logger in (LOG, TOLD, KEEPS, QUEUES, ALONE)}


class Own(logging.Logger):
    pass


def reset():
    """As when the module was read, without the handlers that pytest adds."""
    logging.root.handlers[:] = []
    for logger, handlers in HANDLERS.items():
        logger.handlers[:] = handlers
    logging.root.setLevel(logging.WARNING)
    logging.disable(0)
    logging.root.manager.emittedNoHandlerWarning = False
    KEPT.buffer, TEE.other = [], None
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("tests.new"):
            del logging.root.manager.loggerDict[name]


@contextlib.contextmanager
def shown_in(logger):
    handler = logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    yield handler.stream
    logger.removeHandler(handler)


# --- levels -----------------------------------------------------------------------------------------------------------
def levels_that_change(x):
    new = logging.getLogger("tests.new")
    with shown_in(new) as text:
        new.setLevel(logging.ERROR)
        found = [new.isEnabledFor(logging.WARNING)]
        new.setLevel(logging.DEBUG)
        found.append(new.isEnabledFor(logging.WARNING))
        new.debug("shown")
    new.warning("not there")
    new.setLevel(logging.NOTSET)
    return found, text.getvalue(), x + 1


def what_is_remembered(x):
    new = logging.getLogger("tests.new.b")
    found = [dict(new._cache)]
    new.isEnabledFor(logging.DEBUG)
    found.append(dict(new._cache))
    new.error("and told")
    found.append(dict(new._cache))
    logging.root.setLevel(logging.DEBUG)
    found += [dict(new._cache), new.isEnabledFor(logging.DEBUG)]
    logging.root.setLevel(logging.WARNING)
    return found, x + 1


def loggers_put_out(x):
    new = logging.getLogger("tests.new.b")
    found = [new.isEnabledFor(40)]
    for disabled in (True, False):
        new.disabled = disabled
        found.append(new.isEnabledFor(40))
    new.manager.disable = 45
    found.append(new.isEnabledFor(41))
    new.manager.disable = 0
    logging.disable(50)
    found += [LOG.isEnabledFor(50), LOG.isEnabledFor(51)]
    logging.disable(0)
    return found, LOG.isEnabledFor(50), x + 1


def levels_by_the_dict(x):
    found = [LOG.isEnabledFor(10)]
    LOG.__dict__["level"] = 10
    LOG._cache.clear()
    found.append(LOG.isEnabledFor(10))
    vars(LOG).update(level=0)
    LOG._cache.clear()
    return found, LOG.isEnabledFor(10), x + 1


def another_way_to_ask(x):
    was, found = logging.Logger.getEffectiveLevel, [LOG.isEnabledFor(10)]
    LOG._cache.clear()
    logging.Logger.getEffectiveLevel = lambda logger: 1
    try:
        found.append(LOG.isEnabledFor(10))
    finally:
        logging.Logger.getEffectiveLevel = was
        LOG._cache.clear()
    return found, x + 1


def level_of_a_handler(x):
    text = io.StringIO()
    was, STREAM.stream = STREAM.stream, text
    STREAM.level = 40
    LOG.warning("not shown")
    STREAM.level = 0
    LOG.warning("shown")
    STREAM.formatter = logging.Formatter("<%(message)s>")
    LOG.warning("otherwise")
    STREAM.stream, STREAM.formatter = was, None
    return text.getvalue(), x + 1


# --- which loggers there are ------------------------------------------------------------------------------------------
def names(x):
    known = logging.root.manager.loggerDict
    found = ["tests.new" in known]
    inner = logging.getLogger("tests.new.b")
    found += ["tests.new" in known, "tests.new.b" in known, inner is logging.getLogger("tests.new.b")]
    outer = logging.getLogger("tests.new")
    found += [inner.parent is outer, outer.parent is logging.root, type(known["tests.new"]).__name__]
    return found, logging.getLogger("tests.new.c").getChild("d") is logging.getLogger("tests.new.c.d"), x + 1


def taken_away(x):
    one = logging.getLogger("tests.new.r")
    del logging.root.manager.loggerDict["tests.new.r"]
    other = logging.getLogger("tests.new.r")
    return one is other, copy.copy(other) is other, x + 1


def another_class(x):
    was = logging.getLoggerClass()
    logging.setLoggerClass(Own)
    own = logging.getLogger("tests.new.own")
    logging.setLoggerClass(was)
    return type(own).__name__, type(logging.getLogger("tests.new.usual")).__name__, x + 1


def pickled(x):
    found = []
    for name in ("", "root", "tests.new", "tests.new.p"):
        logger = logging.getLogger(name)
        found += [pickle.loads(pickle.dumps(logger)) is logger, copy.deepcopy(logger) is logger]
    return found, x + 1


def wrong_names(x):
    found = []
    for name in (any, b"foo", 3.5):
        try:
            logging.getLogger(name)
        except TypeError as error:
            found.append(str(error))
    return found, x + 1


def configured(x):
    told = {"version": 1, "disable_existing_loggers": False, "loggers": {"tests.new.q": {"level": "DEBUG"}}}
    logging.config.dictConfig(told)
    new = logging.getLogger("tests.new.q")
    return new.level, new.isEnabledFor(10), x + 1


# --- who is told ------------------------------------------------------------------------------------------------------
def set_up_by_the_frame(x):
    text = io.StringIO()
    logging.basicConfig(stream=text, level=10, format="%(message)s")
    logging.info("first")
    logging.root.debug("second")
    return text.getvalue(), x + 1


def the_last_resort(x):
    text, was = io.StringIO(), logging.lastResort
    with contextlib.redirect_stderr(text):
        ALONE.warning("one")
        found = [text.getvalue()]
        logging.lastResort = None
        try:
            ALONE.warning("two")
        finally:
            logging.lastResort = was
        found += [text.getvalue(), logging.root.manager.emittedNoHandlerWarning]
    return found, x + 1


def no_handlers(x):
    logging.lastResort, was = None, logging.lastResort
    ALONE.error("x")
    logging.lastResort = was
    return logging.root.manager.emittedNoHandlerWarning, x + 1


def errors_shown(x):
    text, was = io.StringIO(), sys.stderr
    sys.stderr = text
    try:
        LOG.error("%d", "a")
    finally:
        sys.stderr = was
    return "TypeError" in text.getvalue(), x + 1


def another_stream(x):
    text = io.StringIO()
    was, STREAM.stream = STREAM.stream, text
    LOG.error("told")
    STREAM.stream = was
    return text.getvalue(), x + 1


def other_handlers(x):
    text = io.StringIO()
    was, LOG.handlers = LOG.handlers, [logging.StreamHandler(text)]
    LOG.error("told")
    LOG.handlers = was
    return text.getvalue(), x + 1


def logger_of_the_frame(x):
    new, text = logging.Logger("own", 10), io.StringIO()
    new.handlers.append(logging.StreamHandler(text))
    new.error("told")
    return text.getvalue(), new.isEnabledFor(10), x + 1


def stream_of_the_program_s(x):
    TEE.lines.clear()
    TOLD.error("told")
    return list(TEE.lines), x + 1


def stream_that_hands_on(x):
    TEE.other = text = io.StringIO()
    TOLD.error("told")
    TEE.other = None
    return text.getvalue(), x + 1


def messages_kept(x):
    KEPT.buffer.clear()
    KEEPS.error("kept")
    return len(KEPT.buffer), x + 1


def messages_in_a_queue(x):
    QUEUES.error("told")
    return QUEUE.qsize(), QUEUE.get().getMessage(), x + 1


def a_logger_s_own_way(x):
    told = []

    class Tells(logging.Logger):
        def _log(self, level, msg, args, exc_info=None, extra=None):
            told.append(msg)

    manager = logging.Manager(None)
    manager.setLoggerClass(Tells)
    manager.getLogger("test").warning("in the list")
    LOG.warning("not there")
    return told == ["in the list"], x + 1


def records_made_otherwise(x):
    told, was = [], logging.getLogRecordFactory()

    def make(*args, **kwargs):
        record = was(*args, **kwargs)
        told.append(record.getMessage())
        return record

    logging.setLogRecordFactory(make)
    try:
        LOG.error("m %s", 3)
    finally:
        logging.setLogRecordFactory(was)
    LOG.error("m %s", 4)
    return told, x + 1


def a_filter(x):
    told = []

    def keep(record):
        told.append(record.msg)
        return False

    LOG.addFilter(keep)
    LOG.error("held back")
    LOG.removeFilter(keep)
    return list(told), x + 1


def handlers_further_up(x):
    new = logging.getLogger("tests.new.h.i")
    found = [new.hasHandlers()]
    with shown_in(logging.root) as text:
        found.append(new.hasHandlers())
        new.propagate = False
        found.append(new.hasHandlers())
        new.propagate = True
        new.error("told")
    return found, text.getvalue(), x + 1


def warnings_captured(x):
    with warnings.catch_warnings(), shown_in(logging.getLogger("py.warnings")) as text:
        logging.captureWarnings(True)
        warnings.filterwarnings("always", category=UserWarning)
        warnings.warn("I'm warning you", stacklevel=1)
        logging.captureWarnings(False)
    return "warning you" in text.getvalue(), x + 1


def through_an_adapter(x):
    adapter = logging.LoggerAdapter(logging.getLogger("tests.new.a"), {"k": 1})
    with shown_in(adapter.logger) as text:
        adapter.setLevel(20)
        found = adapter.isEnabledFor(20)
        adapter.info("told")
        adapter.setLevel(0)
    return found, text.getvalue(), x + 1


PROGRAMS = [
    levels_that_change, what_is_remembered, loggers_put_out, levels_by_the_dict, another_way_to_ask, level_of_a_handler,
    names, taken_away, another_class, pickled, wrong_names, configured, set_up_by_the_frame, the_last_resort,
    no_handlers, errors_shown, another_stream, other_handlers, logger_of_the_frame, stream_of_the_program_s,
    stream_that_hands_on, messages_kept, messages_in_a_queue, a_logger_s_own_way, records_made_otherwise, a_filter,
    handlers_further_up, warnings_captured, through_an_adapter,
]  # fmt: skip


def found_by(call):
    """Twice in one world, and once more in each of two fresh ones."""
    found = []
    for is_fresh in (True, False, True, True):
        if is_fresh:
            reset()
        found.append(call(torch.ones(2))[:-1])
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda given: given.__name__)
def test_who_is_told_is_as_in_eager_code(program):
    with contextlib.redirect_stderr(io.StringIO()):
        expected = found_by(program)
        found = found_by(jit.compile(program, backend=INNER or "eager"))
    reset()
    assert found == expected


def asks(x):
    if LOG.isEnabledFor(logging.DEBUG):
        return x + 1
    LOG.debug("not shown")
    return x * 2


def remembered(result, x):
    kept = dict(LOG._cache)
    LOG._cache.clear()
    return kept


def test_what_a_logger_remembers_it_does_when_it_is_asked():
    LOG._cache.clear()
    check(asks, *tensors(3), then=remembered, graphs=1)


def test_who_asks_for_guards_leaves_nothing_behind():
    compiled = jit.compile(asks, backend=INNER or "eager")
    x, = tensors(3)
    compiled(x)
    LOG._cache.clear()
    LOG.disabled = True
    try:
        torch.testing.assert_close(compiled(x), asks(x))
        assert LOG._cache == {}
    finally:
        LOG.disabled = False


@pytest.mark.parametrize("change", ["level", "method of the class", "method of its own", "manager", "name"])
def test_what_changes_between_calls_is_noticed(change, monkeypatch):
    def by_name(x):
        return asks(x) if logging.getLogger("tests.loggers") is LOG else x - 1

    compiled = jit.compile(by_name, backend=INNER or "eager")
    x, = tensors(3)
    torch.testing.assert_close(compiled(x), by_name(x))
    LOG._cache.clear()
    if change == "level":
        monkeypatch.setattr(LOG, "level", 1)
    elif change == "method of the class":
        monkeypatch.setattr(logging.Logger, "getEffectiveLevel", lambda logger: 1)
    elif change == "method of its own":
        monkeypatch.setattr(LOG, "isEnabledFor", lambda level: True, raising=False)
    elif change == "manager":
        monkeypatch.setattr(logging.Logger, "manager", logging.Manager(logging.root))
    else:
        monkeypatch.delitem(logging.Logger.manager.loggerDict, "tests.loggers")
    torch.testing.assert_close(compiled(x), by_name(x))
    LOG._cache.clear()
