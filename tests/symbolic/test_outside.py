"""What a program tells the world outside is told in eager code's order and words, from one graph."""
import contextlib
import functools
import io
import logging
import sys
import warnings

import pytest
import torch

import jit
from tests.differential import Counting, check, tensors

LOG = logging.getLogger("tests.outside")
BACKENDS = ["eager", "aot_eager"]


class Prints(logging.Handler):
    def emit(self, record):
        print(self.format(record))


LOG.propagate = False
LOG.addHandler(Prints())
LOG.handlers[0].setFormatter(logging.Formatter("%(levelname)s %(pathname)s:%(lineno)d %(funcName)s: %(message)s"))


class Shown:
    def __init__(self, value):
        self.value, self.asked = value, 0

    def __str__(self):
        self.asked += 1
        return f"<{self.value} {self.asked}>"


class Tee:
    """A file of the user's own."""

    def __init__(self):
        self.parts, self.flushed = [], 0

    def write(self, text):
        self.parts.append(text)

    def flush(self):
        self.flushed += 1


def printed(x):
    print("a", 3, None, [1, "b"], {"k": 1.5})
    y = x + 1
    print("b", file=sys.stderr, flush=True)
    print("c", "d", sep="-", end="!\n")
    print()
    print(*[1, 2], sep="", end="")
    return y


def printed_values(x):
    y = x * 2
    print("y", y, y.sum())
    print(f"{y.sum().item():.3f}", [y, {"s": y.sum()}])
    y.add_(1)
    print(y)
    return y


def asked_whether_shown(x):
    if LOG.isEnabledFor(logging.DEBUG):
        LOG.debug("not shown")
        x = x + 1
    if LOG.isEnabledFor(logging.ERROR):
        logging.error("by the root %d", x.shape[0])
    return x * 2


def printed_gradients(x, w):
    y = w * x
    print(y, w)
    with torch.no_grad():
        print(w.sum(), (y.detach(), 1))
    return y


def printed_objects(x, shown):
    print(shown, shown)
    print(f"{shown}", shown.asked)
    return x + shown.asked


def written(x):
    sys.stdout.write("out\n")
    count = sys.stderr.write("err\n")
    sys.stdout.flush()
    late = sys.stdout.write(f"{x.sum().item():.2f}\n")
    return x + count, late


def in_order(x, seen):
    print(len(seen))
    seen.append(x + 1)
    logging.getLogger("tests.outside").warning("seen %d", len(seen))
    seen.append("two")
    print(seen[1], seen)
    del seen[0]
    print(seen)
    return x * 2


def before_an_error(x, seen):
    seen.append(1)
    print("before", x.sum())
    seen.append(x * 2)
    if len(seen) > 1:
        raise ValueError("after")
    print("never")
    return x


def logged(x):
    logging.getLogger("tests.outside").warning("plain %s %5.1f", "text", 2.5)
    logging.getLogger("tests.outside").warning("value %s", x * 2)
    logging.getLogger("tests.outside").warning("item %.3f", x.sum().item())
    logging.getLogger("tests.outside").warning(f"text {x.sum().item():.2f}")
    logging.getLogger("tests.outside").warning("many %s", [1, {"a": (2, 3)}])
    logging.getLogger("tests.outside").debug("hidden %s", x)
    logging.getLogger("tests.outside").log(logging.ERROR, "level", extra={"who": "me"})
    return x + 1


def helper(x):
    warnings.warn("of the helper")
    warnings.warn("of its caller", stacklevel=2)
    warnings.warn("of the caller's caller", FutureWarning, stacklevel=3)
    return x * 2


def warned(x):
    warnings.warn("here")
    warnings.warn(RuntimeWarning("an object"))
    warnings.warn(f"value {x.sum().item():.2f}", UserWarning)
    warnings.warn("caller", DeprecationWarning, 2)
    return helper(x + 1)


def warned_by_what_is_mapped(x):
    def mapped(row, level):
        warnings.warn(f"level {level}", stacklevel=level)
        return row * 2

    warnings.warn("here")
    for level in (1, 4, 5):
        x = torch.func.vmap(functools.partial(mapped, level=level))(x)
    return torch.func.grad(lambda x: mapped(x, 3).sum())(x)


def test_frames_of_torch_that_call_the_function_count():
    check(warned_by_what_is_mapped, *tensors(4))


@pytest.mark.parametrize("program", [printed, printed_values, written, logged, warned], ids=lambda p: p.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_told(program, backend):
    check(program, *tensors(4), changed=[tensors(4, seed=3)], graphs=1, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(backend):
    x, w = tensors(4, count=2)
    check(printed_gradients, x, w.requires_grad_(), graphs=1, backend=backend)


@pytest.mark.parametrize("program", [in_order, before_an_error], ids=lambda p: p.__name__)
def test_between_other_effects(program):
    check(program, *tensors(4), [], graphs=1, recompiles=True)


def test_objects():
    check(printed_objects, *tensors(4), Shown("s"), graphs=1, recompiles=True)


def test_asked_whether_messages_are_shown_and_by_the_root():
    handler, level_before = Prints(), LOG.level
    logging.root.addHandler(handler)
    try:
        check(asked_whether_shown, *tensors(4), graphs=1)
        compiled = jit.compile(asked_whether_shown, backend="eager")
        found = []
        for level in (logging.WARNING, logging.DEBUG, logging.CRITICAL):
            LOG.setLevel(level)
            found.append([call(torch.zeros(2)).sum().item() for call in (asked_whether_shown, compiled)])
        assert found == [[0, 0], [4, 4], [0, 0]]
    finally:
        logging.root.removeHandler(handler)
        LOG.setLevel(level_before)


def test_a_file_of_the_users_own():
    def program(x, tee):
        print("a", x.shape, sep="+", file=tee, flush=True)
        return x + tee.flushed

    check(program, *tensors(4), Tee(), graphs=1, recompiles=True)


def test_a_file_in_memory():
    def program(x, file):
        print("a", x.sum(), file=file)
        file.write("b")
        return x + 1

    file = io.StringIO()
    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for _ in range(2):
        compiled(torch.ones(2), file)
    assert file.getvalue() == "a tensor(2.)\nb" * 2
    counter.expect(1)


def read_after_it_was_written(x, file):
    file.write("a")
    print("b", x.sum(), file=file)
    text = file.getvalue()
    file.write("c")
    print("d", text, file=file)
    return x + 1, text, [file.getvalue()], file


def made_here(x, file):
    own = io.StringIO()
    print("b", x.shape, file=own, sep="-")
    before = own.getvalue()
    own.write("c")
    own.write(f"{len(before)}")
    if "c" in own.getvalue():
        x = x + 1
    file.write(own.getvalue())
    return x, own, before, own.getvalue()


def made_and_left(x, file):
    with io.StringIO() as own, contextlib.redirect_stdout(own):
        print("hello")
        text = own.getvalue()
    return x + 1, text, own.close()


def made_and_written_what_the_graph_gives(x, file):
    own = io.StringIO()
    own.write(str(x.sum()))
    print(x * 2, file=own)
    return x + 1, own.getvalue(), own


def made_and_dropped(x, file):
    with contextlib.redirect_stderr(io.StringIO()):
        print("lost", file=sys.stderr)
    return x + 1


def made_and_moved_in(x, file):
    own = io.StringIO("some\nlines\n", newline="\n")
    own.write("A")
    found = [own.tell(), own.readline(), own.seek(2), own.read(3), own.truncate(9), own.readlines(), own.tell()]
    own.seek(4)
    print("in", "between", file=own)
    try:
        own.seek(-1)
    except ValueError as error:
        found.append(str(error))
    return x + 1, found, own.getvalue(), own


def made_and_read_after_the_graph_wrote(x, file):
    own = io.StringIO()
    own.write(str(x.sum()))
    own.seek(0)
    return x + 1, own.read(), own.tell()


@pytest.mark.parametrize("program", [
    made_and_moved_in, read_after_it_was_written, made_here, made_and_left, made_and_written_what_the_graph_gives, made_and_dropped,
], ids=lambda program: program.__name__)
def test_files_in_memory_are_read(program):
    check(program, make=lambda: (torch.ones(2), io.StringIO()), graphs=1)


def written_when_closed(x, file):
    own = io.StringIO()
    own.close()
    try:
        own.write("a")
    except ValueError as error:
        return x + 1, str(error)


def compared_text(x, file):
    print(x.sum(), file=file)
    return x + len(file.getvalue())


def read_when_closed(x, file):
    file.write("a")
    file.close()
    return x, file.getvalue()


@pytest.mark.parametrize("program", [
    written_when_closed, compared_text, read_when_closed, made_and_read_after_the_graph_wrote,
], ids=lambda program: program.__name__)
def test_files_in_memory_as_they_are(program):
    check(program, make=lambda: (torch.ones(2), io.StringIO()))


def test_nowhere_to_print(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    compiled = jit.compile(lambda x: (print("lost"), x + 1)[1], backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def closed_file(x, file):
    try:
        print("a", file=file)
    except ValueError as error:
        return x + 1, str(error)
    return x, "printed"


def test_an_error_is_caught_where_eager_code_catches_it():
    file = io.StringIO()
    file.close()
    assert jit.compile(closed_file, backend="eager")(torch.ones(2), file)[1] == closed_file(torch.ones(2), file)[1]


def changes_later(x, known):
    seen = [1, (x, {"k": known})]
    y = x + 1
    logging.getLogger("tests.outside").warning("seen %s", seen)
    logging.getLogger("tests.outside").warning("known %s %s", known, len(known))
    seen.append(2)
    known.append(3)
    x.add_(1)
    seen[1][1]["k"] = 4
    return y * 2, seen


def test_a_message_tells_what_was_there(monkeypatch):
    """Handlers are the library's: those of the tests would be asked before the tensor is written."""
    text = io.StringIO()
    logger = logging.getLogger("tests.outside")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(text)])
    check(changes_later, *tensors(4), [1.5], graphs=1, recompiles=True)
    lines = text.getvalue().splitlines()
    assert lines and lines[: len(lines) // 2] == lines[len(lines) // 2 :]


def test_a_message_tells_other_handlers_what_was_there(caplog):
    check(changes_later, *tensors(4), [1.5], recompiles=True)


def tells_itself(x, shown):
    logging.getLogger("tests.outside").warning("%s", shown)
    y = x + 1
    shown.value = 5
    return y


def test_a_message_of_an_object_with_text_of_its_own():
    check(tells_itself, *tensors(4), Shown("s"), recompiles=True)


@pytest.mark.parametrize("wrong", [{"sep": 3}, {"end": 1}])
def test_wrong_arguments(wrong):
    check(lambda x: print("a", **wrong), *tensors(2))


def test_warnings_that_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(warned, *tensors(3))


def test_a_warning_is_given_once_a_place():
    def program(x):
        warnings.warn("once")
        return x + 1

    compiled = jit.compile(program, backend="eager", fullgraph=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        globals().pop("__warningregistry__", None)
        for _ in range(3):
            compiled(torch.ones(2))
    assert [w.filename for w in caught] == [__file__]


def broken(x):
    y = x + 1
    sys.getrecursionlimit()
    warnings.warn("after the break", stacklevel=2)
    return helper(y)


def recursive(x, n):
    sys.getrecursionlimit()
    if n:
        return recursive(x + 1, n - 1)
    warnings.warn("deep", stacklevel=3)
    return x


@pytest.mark.parametrize("program", [lambda x: broken(x), broken, lambda x: recursive(x, 3)])
def test_places_of_warnings_across_breaks(program):
    compiled = jit.compile(program, backend="eager")
    found = []
    for call in (program, compiled, compiled):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(torch.ones(2))
        found.append([(w.filename, w.lineno, str(w.message)) for w in caught])
    assert found[0] == found[1] == found[2]
