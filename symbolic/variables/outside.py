"""What a program tells the world outside: printed text, log messages, warnings, text written to files.

It goes to the ledger, and residual code does it after the graph, in eager code's order. What is told is as it was at
the time: text is put together while tracing, as far as it is known, and tensors are copied in the graph.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from sideeffects.effects import Place, Risk
from symbolic import callers, polyfills
from symbolic.errors import TOLD, GraphBreak, Restart
from symbolic.passing import home_of
from symbolic.told_to import asked_of, handlers_of, reached, shown_by, written_by
from symbolic.torch_state import TorchState
from symbolic.variables import warning_filters
from symbolic.variables.base import MISSING, FixedVariable, Variable
from symbolic.variables.base import lookup as type_lookup
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.exceptions import AnyException, ExceptionVariable
from symbolic.variables.late_text import LATE, snapshot, unmarked
from symbolic.variables.namespaces import Names
from symbolic.variables.objects import NATIVE_DESCRIPTORS, NATIVE_METHODS, ObjectVariable
from symbolic.variables.tables import HANDLERS, Args, Kwargs, handles, library, name_of
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.text import str_of
from symbolic.variables.text_files import BornFile
from symbolic.warned import Said, is_due

if TYPE_CHECKING:
    from symbolic.frames import Frame
    from symbolic.translator import Translator

NONE, NO, ONE = ConstantVariable(None), ConstantVariable(False), ConstantVariable(1)
#: Files whose `write` is Python, but shows text and does nothing else.
_SHOWS = frozenset({"ipykernel.iostream.OutStream"})
#: Classes of torch that are no modes.
_SEEN = (RemovableHandle,)
#: Where the handlers and formatters of log messages are that run no code of the user's.
_LOGGING = ("logging", "logging.handlers")
#: The levels of methods' messages.
_LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error", "critical")}
#: The methods that say whether a message is shown.
_ASKED, _EFFECTIVE = logging.Logger.isEnabledFor, logging.Logger.getEffectiveLevel
#: Where the queues are that handlers put messages into, and the class of None.
_QUEUES = ("builtins", "queue", "_queue", "multiprocessing.queues")
#: The reason of a break before what the graph would do too early.
_CLOSED = "text for a file that may be closed"
WARNS = "operation that warns"
#: How torch names sizes that vary, in a text.
_SYMBOL = re.compile(r"\b[su]\d+\b")
#: Containers in one another that are copied for a message.
_DEPTH = 20


# --- where ------------------------------------------------------------------------------------------------------------
def _activations(tx: Translator) -> list[Frame]:
    """The frames that eager code would have, the innermost first."""
    return [frame for frame in reversed(tx.frames) if frame.filename != polyfills.__file__]


def _told_from(tx: Translator, level: int) -> list[Frame]:
    """The same, for a message that tells of the frame at this level. Who calls a hook is torch, not who runs the
    backward pass, and what is mapped or differentiated is called by frames of torch's that are not traced."""
    inside = max((inner.frames for inner in tx.graph.inner), default=0)
    if inside and level > sum(frame.filename != polyfills.__file__ for frame in tx.frames[inside:]):
        raise GraphBreak("message of a frame of torch's", f"level {level}")
    return _activations(tx)


def _place(frame: Frame) -> Place:
    return Place(frame.filename, frame.code.raw.co_name, frame.line, frame.namespace.real())


def _risk(tx: Translator) -> Risk:
    """Of an effect that may raise. Breaks where the frames would see the error: it is raised by the replay."""
    for frame in tx.frames:
        seen_by = _handler(tx, frame)
        if seen_by is not None:
            raise GraphBreak(f"effect inside of a {seen_by} block", f"{frame.name}, line {frame.line}")
    if any(generator.has_something_left() for generator in tx.waiting):
        raise GraphBreak("effect whose error would end a generator")
    return _at(tx)


def _at(tx: Translator) -> Risk:
    current = [(frame, frame.code.insts[frame.current]) for frame in _activations(tx)]
    trace = tuple((at.code.raw, inst.offset, inst.line, _globals(at)) for at, inst in current)
    return Risk(trace, tx.handled)


def _globals(frame: Frame) -> dict[str, Any]:
    assert isinstance(frame.namespace, Names)
    return frame.namespace.of_traces()


def _handler(tx: Translator, frame: Frame) -> str | None:
    """What sees an error of the instruction being executed: "try", "with", None if it leaves the frame."""
    code = frame.code
    offset = code.insts[frame.current].offset
    while (row := code.handler(offset)) is not None:
        at = code.index(row.target)
        first, second = (inst.op for inst in code.insts[at : at + 2])
        if first == "PUSH_EXC_INFO" and second != "WITH_EXCEPT_START":
            return "try"
        if first == "PUSH_EXC_INFO" and not _is_mode(frame.stack[row.depth - 1]):
            return "with"
        if first == "PUSH_EXC_INFO":
            tx.told_in_modes.append(tx.anchor())
        offset = row.target
    return None


def settle(tx: Translator, entered: TorchState) -> None:
    """At the end of the capture. Raises `Restart` for an effect inside of a mode of torch's that is left later: an
    error is to leave torch as it was when the frame was `entered`."""
    tx.graph.holds.check()
    if tx.told_in_modes and vars(TorchState()) != vars(entered):
        raise Restart(tx.told_in_modes[0], GraphBreak("effect inside of a with block", "the mode is left later"))
    for step, dtype, cause in tx.shown_under:
        if dtype != torch.get_default_dtype():  # which the text of a tensor tells of
            raise Restart(step, cause)
    for step, error, state in tx.shown_errors:
        if _looks(tx, error) != state:
            raise Restart(step, GraphBreak(TOLD, "of an exception that changes later"))


def _is_mode(leave: Variable) -> bool:
    """Whether this `__exit__` does nothing but put back a mode of torch that the frame has entered."""
    owner = getattr(leave, "owner", None)
    if not isinstance(owner, ObjectVariable):
        return False
    is_torch_s = home_of(owner.cls).startswith("torch.") and owner.cls not in _SEEN
    return owner.cls is contextlib.nullcontext or (is_torch_s and owner.value is MISSING)


def _hold(
    tx: Translator, reason: str, told: Variable, *harmless: Callable[[Any], bool], seers: Iterable[Any] = ()
) -> None:
    """What the graph does to tensors comes before the effect, which shows if that raises or looks at them: what the
    program does to them later must not. The code of `seers` runs then, too: the frame does without what that may write.
    One of `harmless`, of what is `told`, says that it won't, and is guarded."""

    def unless() -> bool:
        if told.source is None:  # a file that the frame has made and closed
            return False
        known = next((each for each in harmless if each(told.real())), None)
        if known is not None:
            tx.know(told.source, "predicate", known)
        return known is not None

    tx.graph.holds.write_no_more(GraphBreak(reason, f"{told.describe()}, before a tensor is written"), unless)
    objects = reached(seers)
    if objects != []:
        cause = GraphBreak(reason, f"{told.describe()}, whose handlers have what the frame has")
        if objects is not None:
            tx.graph.holds.meet_no_more(cause, objects, unless)
        elif not unless():
            raise cause


def _tell(tx: Translator, function: Any, to: Variable, *args: Variable, **kwargs: Variable) -> None:
    if isinstance(to, BornFile) and to.is_open:  # which takes any text
        tx.ledger.call(library(tx, function), *args, **kwargs)
        return
    _hold(tx, _CLOSED, to, is_open)
    tx.ledger.risk(_risk(tx), library(tx, function), args, kwargs)


def is_open(file: Any) -> bool:
    """the file is open, and writes in the way of its class"""
    with contextlib.suppress(ValueError):  # of one that is detached
        return not file.closed and getattr(file, "__dict__", {}).keys().isdisjoint(("write", "flush"))
    return False


def _takes_text(file: Any) -> bool:
    """Whether what is written to a file runs no code of the user's; None takes all."""
    native = type_lookup(type(file), "write") in NATIVE_METHODS and is_open(file)
    return file is None or native or _shows(type(file))


# --- print and files --------------------------------------------------------------------------------------------------
@handles(print)
def _print(
    tx: Translator, *values: Variable, sep: Variable = NONE, end: Variable = NONE, file: Variable = NONE,
    flush: Variable = NO,
) -> Variable:  # fmt: skip
    for name, text in (("sep", sep), ("end", end)):
        if text.python_type() not in (str, type(None)):
            tx.raise_(TypeError, f"{name} must be None or a string, not {text.python_type().__name__}")
    if _is_none(file):
        file = tx.getattr(tx.wrap(sys, tx.sources.const(sys, "sys")), "stdout")
        if _is_none(file):
            return NONE
    texts = [v if v.python_type() is str else unmarked(tx, str_of(tx, v)) for v in values]
    wanted = tx.truth(flush)
    if _writes_natively(tx, file):
        named = {"sep": sep, "end": end, "file": file, "flush": ConstantVariable(wanted)}
        given = {name: v for name, v in named.items() if not _is_none(v) and not (name == "flush" and not wanted)}
        if isinstance(file, BornFile):
            file.take(_printed(texts, sep, end))
        _tell(tx, print, file, *texts, **given)
        return NONE
    between = ConstantVariable(" ") if _is_none(sep) else sep
    pieces = [piece for text in texts for piece in (between, text)][1:]
    for piece in [*pieces, ConstantVariable("\n") if _is_none(end) else end]:
        file.method(tx, "write", [piece], {})
    if wanted:
        file.method(tx, "flush", [], {})
    return NONE


def _printed(texts: list[Variable], sep: Variable, end: Variable) -> str | None:
    """The text, if it is known."""
    if not all(each.is_constant() for each in (*texts, sep, end)):
        return None
    between, last = (" " if _is_none(sep) else sep.constant()), ("\n" if _is_none(end) else end.constant())
    return str(between.join(each.constant() for each in texts) + last)


def _is_none(variable: Variable) -> bool:
    return variable.python_type() is type(None)


def _writes_natively(tx: Translator, file: Variable) -> bool:
    kind = file.python_type()
    return (isinstance(file, ObjectVariable) and _shows(kind)) or type_lookup(kind, "write") in NATIVE_METHODS


def _shows(kind: type) -> bool:
    return f"{home_of(kind)}.{kind.__qualname__}" in _SHOWS


class Answer(Variable):
    """What a replayed call answers with."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def python_type(self) -> type:
        return self.kind

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise GraphBreak("value not known before the program runs", f"{self.kind.__qualname__} of a call")

    binary = rbinary = inplace = unary = truth = key = _refuse

    def is_same(self, tx: Translator, other: Variable) -> bool:
        return other is self or (other.python_type() is self.kind and self._refuse())


def _on_file(raw: Any) -> Callable[..., Variable]:
    def handler(tx: Translator, file: Variable, *args: Variable) -> Variable:
        if not isinstance(file, ObjectVariable) or not all(arg.python_type() is str for arg in args):
            raise GraphBreak("native method of an object", f"{file.describe()}.{raw.__name__}")
        if args and not args[0].is_constant():
            if isinstance(file, BornFile):
                file.take(None)
            return _asked(tx, raw, int, file, *args)
        if args and isinstance(file, BornFile):
            file.take(args[0].constant())
        _tell(tx, raw, file, file, *args)
        return ConstantVariable(len(args[0].constant())) if args else NONE

    return handler


def _asked(tx: Translator, raw: Any, kind: type, file: Variable, *args: Variable) -> Variable:
    """`raw(file, *args)`, which answers with one of that kind when the graph has run."""
    answer = Answer(kind)
    if isinstance(file, BornFile) and file.is_open:
        tx.ledger.bear(answer, library(tx, raw), file, *args)
    else:
        _hold(tx, _CLOSED, file, is_open)
        tx.ledger.risk(_risk(tx), library(tx, raw), (file, *args), {}, result=answer)
    return answer


def _text_of(tx: Translator, file: Variable) -> Variable:
    if not isinstance(file, BornFile) or file.text is None or not file.is_open:
        return _asked(tx, io.StringIO.getvalue, str, file)
    return ConstantVariable(file.text)


def _close(tx: Translator, file: Variable, *error: Variable) -> Variable:
    if not isinstance(file, BornFile):
        raise GraphBreak("native method of an object", f"{file.describe()}.close")
    if file.is_open:
        tx.ledger.call(library(tx, io.StringIO.close), file)
        file.is_open = False
    return NONE


def _enter(tx: Translator, file: Variable) -> Variable:
    if not isinstance(file, BornFile) or not file.is_open:
        raise GraphBreak("native method of an object", f"{file.describe()}.__enter__")
    return file


NATIVE_METHODS[io.StringIO.getvalue] = _text_of
NATIVE_METHODS[io.StringIO.close] = _close
NATIVE_METHODS[type_lookup(io.StringIO, "__enter__")] = _enter
NATIVE_METHODS[type_lookup(io.StringIO, "__exit__")] = _close


for _raw in (io.TextIOWrapper.write, io.TextIOWrapper.flush, io.StringIO.write, io.StringIO.flush):
    NATIVE_METHODS[_raw] = _on_file(_raw)


# --- logging ----------------------------------------------------------------------------------------------------------
def logged(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A log message: nobody sees it earlier than eager code would show it."""
    given = dict(kwargs)
    if given.get("stack_info", NO).truth(tx):
        raise GraphBreak("log message with its surroundings", name_of(fn))
    error = _error(tx, given.pop("exc_info", NO))
    level = given.pop("stacklevel", ONE).constant()
    frames = _told_from(tx, level)
    if not 1 <= level <= len(frames):
        raise GraphBreak("log message of a frame further out", name_of(fn))
    logger, *told = args
    _as_found(tx, logger)
    shown = (logger, *(_as_now(tx, arg) for arg in told))
    given = {name: _as_now(tx, arg) for name, arg in given.items()}
    if not all(arg.is_constant() for arg in told):
        cause = GraphBreak(TOLD, "the default dtype is another one when the graph has run")
        tx.shown_under.append((tx.anchor(), torch.get_default_dtype(), cause))
    if error is not None:
        given["exc_info"] = error
    if any(_handler(tx, frame) for frame in tx.frames):
        _know_quiet(tx, logger)
    else:
        seers = () if logger.source is None else handlers_of(logger.real())
        _hold(tx, TOLD, logger, is_quiet, *_silent(fn, told), seers=seers)
    tx.ledger.risk(_at(tx), library(tx, fn), shown, given, _place(frames[level - 1]))
    return NONE


def _as_found(tx: Translator, logger: Variable) -> None:
    """Breaks where the frame has written to what says who is shown a message of this logger, or has anything of what
    the library itself writes to then."""
    if logger.source is None:
        raise GraphBreak(TOLD, f"{logger.describe()}, which the frame has made")
    real = logger.real()
    _unwritten(tx, asked_of(real), logger.describe())
    cause = GraphBreak(TOLD, f"{logger.describe()}, of which the frame reads what messages are kept in")
    tx.graph.holds.meet_no_more(cause, [*written_by(real)], _never)


def _never() -> bool:
    return False


def _unwritten(tx: Translator, parts: Iterable[Any], told: str) -> None:
    """Breaks where the frame has written to any of these, or to where the text of errors goes."""
    for part in parts:
        found = tx.known.get(id(part)) or tx.spaces.get(id(part))
        if found is not None and tx.ledger.touched(found):
            raise GraphBreak(TOLD, f"{told}, after the frame has written to {found.describe()}")
    space = tx.spaces.get(id(vars(sys)))
    if space is not None and "stderr" in tx.ledger.stores(space):
        raise GraphBreak(TOLD, f"{told}, after the frame has written to sys.stderr")


def _error(tx: Translator, asked: Variable) -> Variable | None:
    """What `exc_info=asked` comes to: the class, the exception and its traceback as they are now."""
    if not asked.truth(tx):
        return None
    error = asked if isinstance(asked, AnyException) else tx.handling()
    if asked.python_type() is tuple:
        parts = tx.unpack(asked)
        error = parts[1] if len(parts) == 3 else None
        if error is None or (not isinstance(error, AnyException) and not all(map(_is_none, parts))):
            raise GraphBreak("log message with its surroundings", asked.describe())
    if error is None or _is_none(error):
        return tx.new_tuple([NONE] * 3)
    if not isinstance(error, AnyException):
        raise GraphBreak("log message with its surroundings", error.describe())
    texts = [type_lookup(error.cls, name) for name in ("__str__", "__repr__")]
    fixed = error.args if isinstance(error, ExceptionVariable) else []
    if not all(isinstance(text, NATIVE_DESCRIPTORS) for text in texts) or any(_as_now(tx, a) is not a for a in fixed):
        raise GraphBreak("log message with what may change", error.describe())
    tx.shown_errors.append((tx.anchor(), error, _looks(tx, error)))
    if asked.python_type() is tuple:
        return asked
    return tx.new_tuple([tx.class_variable(error.cls), error, error.plain_getattr(tx, "__traceback__")])


def _looks(tx: Translator, error: Variable) -> list[Any]:
    """What an exception's text is made of, and those of what led to it, beside its own traceback."""
    found: list[Any] = []
    waiting, seen = [error], set[Variable]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, AnyException) and each not in seen:
            found.append((each, dict(tx.ledger.stores(each))))
            if isinstance(each, ExceptionVariable):
                found.append((list(each.args), each.surroundings, None if each is error else each.trace))
                waiting += each.surroundings
        seen.add(each)
    return found


def _know_quiet(tx: Translator, logger: Variable) -> None:
    """Guards that a message runs the library's code alone, which lets no error pass. Else breaks."""
    if logger.source is None or not is_quiet(logger.real()):
        raise GraphBreak("log message whose error would be seen", logger.describe())
    tx.know(logger.source, "predicate", is_quiet)


def is_quiet(logger: Any) -> bool:
    """log messages run the library's code only"""
    at, handlers = logger, []
    while at is not None:
        if not _is_library_s(at):
            return False
        handlers += at.handlers
        at = at.parent if at.propagate else None
    if not handlers and logging.lastResort is not None:
        handlers.append(logging.lastResort)
    return logging.getLogRecordFactory() is logging.LogRecord and all(map(_swallows, handlers))


def _is_library_s(part: Any) -> bool:
    """Whether all code of a logger, handler or formatter is logging's own."""
    own = home_of(type(part)) in _LOGGING and not getattr(part, "filters", ())
    return own and not any(inspect.isfunction(each) or inspect.ismethod(each) for each in vars(part).values())


def _swallows(handler: Any) -> bool:
    """Whether what a handler does with a message is not the user's, and no error of it is seen."""
    if not _is_library_s(handler) or not (handler.formatter is None or _is_library_s(handler.formatter)):
        return False
    target = getattr(handler, "target", None)
    takes = _takes_text(getattr(handler, "stream", None)) and (target is None or _swallows(target))
    return takes and home_of(type(getattr(handler, "queue", None))) in _QUEUES


def _silent(fn: Any, told: Sequence[Variable]) -> list[Callable[[Any], bool]]:
    """What says that nobody is shown the message."""
    level = told[0].constant() if fn is logging.Logger.log and told[0].is_constant() else _LEVELS.get(fn.__name__)
    return [Enabled(level, False)] if type(level) is int else []


def _as_now(tx: Translator, variable: Variable, around: tuple[Variable, ...] = ()) -> Variable:
    """What a handler may show of a value later is what it is now: tensors and containers are copied. Breaks for others
    whose text may change."""
    kind = variable.python_type()
    if isinstance(variable, TensorVariable):
        if not variable.fake.requires_grad:
            return snapshot(tx, variable)
    elif variable.is_constant() or isinstance(variable, (*LATE, FixedVariable, ExceptionVariable)):
        return variable
    elif variable not in around and len(around) < _DEPTH:
        inside = functools.partial(_as_now, tx, around=(*around, variable))
        if kind is list:
            return tx.new_list([inside(item) for item in tx.unpack(variable)])
        if kind is tuple:
            return tx.new_tuple([inside(item) for item in tx.unpack(variable)])
        if kind is dict:
            return tx.new_dict([(key, inside(variable.getitem(tx, key))) for key in tx.unpack(variable)])
    raise GraphBreak("log message with what may change", variable.describe())


class Registered:
    """it is the logger of that name: the predicate of a guard"""

    def __init__(self, name: Any) -> None:
        self.name = name
        self.__doc__ = f"the logger of the name {name!r}"

    def __call__(self, logger: Any) -> bool:
        return named(self.name) is logger


def named(name: Any) -> Any:
    """The logger that there is of that name."""
    if not name or name == logging.root.name:
        return logging.root
    found = logging.Logger.manager.loggerDict.get(name)
    return found if isinstance(found, logging.Logger) else None


@handles(logging.getLogger)
def _get_logger(tx: Translator, name: Variable = NONE) -> Variable:
    """The one logger of that name. One that is not there yet is made while tracing, where the frame knows of nothing
    that this changes."""
    value = name.constant()
    if value and type(value) is not str:
        tx.attempt(logging.getLogger, value)
        raise GraphBreak(TOLD, f"logger of the name {value!r}")
    manager = logging.Logger.manager
    text = f"logging.getLogger({value or 'root'!r})"
    _unwritten(tx, (vars(logging), manager, manager.loggerDict, *logging.Logger.__mro__[:-1]), text)
    if named(value) is None and _is_seen(tx, value):
        raise GraphBreak(TOLD, f"{text}, which is not there yet")
    logger = tx.attempt(logging.getLogger, value)
    found = tx.wrap(logger, tx.sources.const(logger, text))
    if found.source is not None:
        tx.know(found.source, "predicate", Registered(value))
    return found


def _is_seen(tx: Translator, name: str) -> bool:
    """Whether the frame, or code of the program's, may see that a logger of this name is made."""
    manager = logging.Logger.manager
    inner = (each for other, each in manager.loggerDict.items() if other.startswith(f"{name}."))
    kind = manager.loggerClass or logging.getLoggerClass()
    own = kind is logging.Logger and type(manager) is logging.Manager
    return not own or any(id(each) in tx.known for each in (manager.loggerDict, manager.loggerDict.get(name), *inner))


for _name in ("debug", "info", "warning", "error", "critical", "log"):
    HANDLERS[getattr(logging.Logger, _name)] = functools.partial(
        lambda fn, tx, args, kwargs: logged(tx, fn, args, kwargs), getattr(logging.Logger, _name)
    )


def _log_exception(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
    """`logger.exception(...)` is `logger.error(..., exc_info=True)`."""
    if tx.lookup(args[0].python_type(), "error") is not logging.Logger.error:
        raise GraphBreak(TOLD, "exception of a logger with methods of its own")
    return logged(tx, logging.Logger.error, args, {"exc_info": ConstantVariable(True), **kwargs})


HANDLERS[logging.Logger.exception] = _log_exception


class Enabled:
    """messages of the level are shown, or are not: the predicate of a guard"""

    def __init__(self, level: Any, answer: bool) -> None:
        self.level = level
        self.answer = answer
        self.__doc__ = f"messages of level {level} {'shown' if answer else 'not shown'}"

    def __call__(self, logger: Any) -> bool:
        return _answers_as_ever(logger) and is_enabled(logger, self.level) is self.answer


def is_enabled(logger: Any, level: Any) -> bool:
    """`logger.isEnabledFor(level)`, of which the logger remembers nothing."""
    if logger.disabled:
        return False
    remembered = logger._cache.get(level)
    if remembered is not None:
        return bool(remembered)
    return not logger.manager.disable >= level and bool(level >= _EFFECTIVE(logger))


def _answers_as_ever(logger: Any) -> bool:
    """Whether it is asked for its levels in the way of the library's."""
    kind, own = type(logger), logger.__dict__
    if type(kind) is not type or kind.isEnabledFor is not _ASKED or kind.getEffectiveLevel is not _EFFECTIVE:
        return False
    return "isEnabledFor" not in own and "getEffectiveLevel" not in own and type(own.get("_cache")) is dict


@handles(logging.Logger.isEnabledFor)
def _is_enabled_for(tx: Translator, logger: Variable, level: Variable) -> Variable:
    """What it remembers of the answer it does after the graph."""
    if logger.source is None or not level.is_constant() or not _answers_as_ever(logger.real()):
        raise GraphBreak("warning or log message", f"isEnabledFor of {logger.describe()}")
    _as_found(tx, logger)
    answer = tx.attempt(is_enabled, logger.real(), level.constant())
    tx.know(logger.source, "predicate", Enabled(level.constant(), answer))
    tx.ledger.call(library(tx, logging.Logger.isEnabledFor), logger, level)
    return ConstantVariable(answer)


def has_handlers(logger: Any) -> bool:
    """there are handlers"""
    return len(logger.handlers) > 0


def _by_root(name: str) -> None:
    """Functions that are methods of the root logger, once that has a handler."""

    @handles(getattr(logging, name))
    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        root = _get_logger(tx)
        _as_found(tx, root)
        if not has_handlers(logging.root):
            raise GraphBreak("warning or log message", f"logging.{name} where nothing is set up")
        tx.know(root.source, "predicate", has_handlers)
        return HANDLERS.get(getattr(logging.Logger, name))(tx, [root, *args], kwargs)  # type: ignore[misc]


for _name in ("debug", "info", "warning", "error", "exception", "critical", "log"):
    _by_root(_name)


# --- warnings ---------------------------------------------------------------------------------------------------------
def only_shows(module: Any) -> bool:
    """warnings are no errors, and only shown"""
    shows = module._showwarnmsg_impl
    into_list = inspect.isbuiltin(shows)
    own = into_list or (shows.__module__ == "warnings" and _takes_text(sys.stderr))
    actions = [module.defaultaction, *(action for action, *_ in module.filters)]
    return own and module.showwarning is module._showwarning_orig and "error" not in actions


@handles(warnings.warn)
def _warn(
    tx: Translator, message: Variable, category: Variable = NONE, stacklevel: Variable = ONE,
    source: Variable = NONE, **named: Variable,
) -> Variable:  # fmt: skip
    level = stacklevel.constant()
    if named or type(level) is not int:
        raise GraphBreak(TOLD, "warnings.warn with arguments not known")
    _warn_from(tx, TOLD, level, message, category, source)
    return NONE


def _warn_from(
    tx: Translator, reason: str, level: int, message: Variable, category: Variable, source: Variable = NONE
) -> None:
    frames = _told_from(tx, level)
    at = _place(frames[max(level, 1) - 1]) if level <= len(frames) else None
    modes = len(tx.told_in_modes)
    is_near = tx.filters_changed or any(_handler(tx, frame) for frame in tx.frames)
    del tx.told_in_modes[modes:]
    if is_near and at is not None and warning_filters.is_settled(tx, at, message, category, source):
        return
    risk = _warning(tx, reason)
    if at is not None:
        tx.ledger.risk(risk, library(tx, warnings.warn), (message, category, ONE, source), {}, at)
    else:
        above = ConstantVariable(level - len(frames))
        tx.ledger.risk(risk, tx.function(callers.warn_above), (above, message, category, source), {})


def _warning(tx: Translator, reason: str) -> Risk:
    risk, module = _risk(tx), tx.wrap(warnings, tx.sources.const(warnings, "warnings"))
    if tx.ledger.touched(module) and not warning_filters.are_shown_as_ever(tx, module):
        raise GraphBreak(reason, "warnings that the frame itself shows")
    _hold(tx, reason, module, only_shows, seers=shown_by())
    return risk


def warn(tx: Translator, heard: list[Said], again: Callable[[], list[Said]] | None) -> None:
    """The program warns of what an operation has warned of on stand-ins. `again` runs it again and says what is heard
    then, if that changes nothing. Breaks, before the operation, where that itself has to warn."""
    try:
        for each in heard:
            _warn_of(tx, each, again)
    except GraphBreak as cause:
        raise Restart(tx.anchor(), tx.located(cause)) from cause


def _warn_of(tx: Translator, heard: Said, again: Callable[[], list[Said]] | None) -> None:
    text = str(heard.message)
    is_plain = type(heard.message) is heard.category and heard.message.args == (text,)
    if heard.level is None or not is_plain or _SYMBOL.search(text) or (heard.spot and again is None):
        raise GraphBreak(WARNS, text)
    if tx.filters_changed and not heard.spot and warning_filters.is_ignored(tx, _spoken_of(tx, heard), heard):
        return
    if tx.filters_changed or not only_shows(warnings):
        raise GraphBreak(WARNS, f"{text}, where warnings are not only shown")
    due = is_due(heard, again) if again is not None else None
    if due is not None:
        if due:
            at = _spoken_of(tx, heard)
            callers.warn_at(at.namespace, at.file, at.line, text, heard.category)
        return
    message, category = ConstantVariable(text), tx.class_variable(heard.category)
    if heard.level:
        _warn_from(tx, WARNS, heard.level, message, category)
        return
    place = map(ConstantVariable, (heard.module, heard.file, heard.line))
    tx.ledger.risk(_warning(tx, WARNS), tx.function(callers.warn_in), (*place, message, category), {})


def _spoken_of(tx: Translator, heard: Said) -> Place:
    """Where a warning says that it comes from; of a frame that called this one: the outermost here."""
    if not heard.level:
        return Place(heard.file, "", heard.line, vars(sys.modules[heard.module]))
    frames = _told_from(tx, heard.level)
    return _place(frames[min(heard.level, len(frames)) - 1])
