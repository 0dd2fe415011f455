"""What the program tells the world outside when that raises, or tells where it comes from."""
import io
import logging
import logging.handlers
import queue
import random
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


class Raises(logging.Handler):
    def emit(self, record):
        raise ValueError("in the handler")


class Refuses(io.StringIO):
    """A file that takes no text, though its class writes."""

    def __init__(self):
        super().__init__()
        self.write = self.flush = lambda *text: 1 / 0


def logger_with(name, handler):
    logger = logging.getLogger(f"{LOG.name}.{name}")
    logger.propagate = False
    logger.handlers[:] = [handler]
    return logger


def adds(x, tell):
    tell()
    x.add_(1)
    return x


def draws(x, tell):
    tell()
    return x + torch.rand(3)


def seeds(x, tell):
    tell()
    torch.manual_seed(3)
    return x + 1


def draws_of_python(x, tell):
    tell()
    return x + random.random()


def optimizes(x, tell):
    optimizer = torch.optim.SGD([x], lr=0.1)
    loss = (x * x).sum()
    loss.backward()
    tell()
    optimizer.step()
    return loss


def gets_a_new_size(x, tell):
    tell()
    x.data = torch.zeros(2)
    return x * 2


LOUD, FULL = logger_with("loud", Raises()), Refuses()


def logs_aloud():
    LOUD.warning("a message")


def prints_in_vain():
    print("text", file=FULL)


def prints_to_what_is_closed():
    file = io.StringIO()
    file.close()
    print("text", file=file)


LATER = [adds, draws, seeds, draws_of_python, optimizes, gets_a_new_size]


@pytest.mark.parametrize("tell", [logs_aloud, prints_in_vain, prints_to_what_is_closed], ids=lambda p: p.__name__)
@pytest.mark.parametrize("program", LATER, ids=lambda p: p.__name__)
def test_what_comes_after_is_left_undone(program, tell):
    check(program, make=lambda: (torch.ones(3, requires_grad=program is optimizes), tell))


def logs(x, logger):
    logger.warning("a message: %s", x.sum())
    x.add_(1)
    return x


class Tee:
    def __init__(self, seen):
        self.seen = seen

    def write(self, text):
        self.seen.append((text, SHARED.tolist()))

    def flush(self):
        pass


QUIET = {
    "stream": logging.StreamHandler(io.StringIO()),
    "nobody": logging.NullHandler(),
    "kept": logging.handlers.MemoryHandler(9, target=logging.StreamHandler(io.StringIO())),
    "queue": logging.handlers.QueueHandler(queue.SimpleQueue()),
    "disabled": Raises(),
}
SHARED = torch.ones(3)


@pytest.mark.parametrize("name", QUIET)
def test_handlers_that_see_nothing_take_one_graph(name):
    def program(x):
        return logs(x, logger)

    logger = logger_with(name, QUIET[name])
    logger.setLevel(logging.ERROR if name == "disabled" else logging.INFO)
    check(program, torch.ones(3), graphs=1)


def test_a_training_step_that_tells_takes_one_graph():
    def program(x):
        optimizer = torch.optim.SGD([x], lr=0.1)
        loss = (x * x).sum()
        loss.backward()
        print(loss.detach())
        LOG.info("loss %s", loss.detach())
        optimizer.step()
        return loss

    check(program, make=lambda: (torch.ones(3, requires_grad=True),), graphs=1)


@pytest.mark.parametrize("wrap", [lambda h: h, lambda h: logging.handlers.MemoryHandler(1, target=h)], ids=["plain", "kept"])
def test_a_stream_that_looks_at_tensors(wrap):
    told = []
    for run in (logs, jit.compile(logs, backend="eager")):
        with torch.no_grad():
            SHARED.fill_(1)
        told.append([])
        run(SHARED, logger_with("seen", wrap(logging.StreamHandler(Tee(told[-1])))))
        assert SHARED.tolist() == [2] * 3
    assert told[0] == told[1] and told[0]


def before_another_default(x, logger):
    logger.warning("%s", x)
    torch.set_default_dtype(torch.float64)
    return x + 1


def between_two_defaults(x, logger):
    torch.set_default_dtype(torch.float64)
    logger.warning("%s", [x])
    torch.set_default_dtype(torch.float32)
    return x + 1


@pytest.mark.parametrize("program", [before_another_default, between_two_defaults], ids=lambda p: p.__name__)
def test_tensors_are_shown_under_the_default_dtype_of_their_time(program):
    told = []
    for run in (program, jit.compile(program, backend="eager")):
        text = io.StringIO()
        run(torch.ones(2), logger_with("dtypes", logging.StreamHandler(text)))
        torch.set_default_dtype(torch.float32)
        told.append(text.getvalue())
    assert told[0] == told[1] != ""


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


@pytest.mark.sampled(3)
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
