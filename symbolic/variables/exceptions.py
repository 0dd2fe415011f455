"""Exceptions, existing or born in the frame, groups of them, and their tracebacks."""

from __future__ import annotations

import builtins
import traceback
from types import FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import TYPE_CHECKING, Any

from symbolic import polyfills
from symbolic.code import decode
from symbolic.errors import READS_FRAME, GraphBreak, Restart, SkipFrame
from symbolic.frames import Frame
from symbolic.passing import home_of
from symbolic.tracebacks import line_at
from symbolic.variables.base import Variable, raw_attributes
from symbolic.variables.constants import ConstantVariable, is_none
from symbolic.variables.containers import TupleVariable
from symbolic.variables.objects import NATIVE_METHODS, OBJECT_METHODS, ObjectVariable
from symbolic.variables.positions import stand_in

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
#: By which `traceback` goes through frames that it hands on to nobody.
_WALKS = traceback._walk_tb_with_full_positions.__code__  # type: ignore[attr-defined]
#: Attributes of every exception -> the types that they may have, besides None.
_OWN: dict[str, type] = {
    "__cause__": BaseException,
    "__context__": BaseException,
    "__traceback__": TracebackType,
    "__suppress_context__": bool,
}
_NOTHING = object()
_NATIVE = (MemberDescriptorType, GetSetDescriptorType)
_OF_CODECS = (UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)
#: Native exceptions whose `args` are not what they are made of.
PARTICULAR = (OSError, SyntaxError, ImportError, UnicodeError, BaseExceptionGroup)


#: Attributes that native constructors take by name, None by default.
_KEYWORDS: dict[type, tuple[str, ...]] = {NameError: ("name",), AttributeError: ("name", "obj")}


def is_exception_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


class AnyException(ObjectVariable):
    """What exceptions have in common: attributes of their own, by the names in `_OWN`, and `args`."""

    def own(self, tx: Translator, name: str) -> Variable:
        raise NotImplementedError

    def set_own(self, tx: Translator, name: str, value: Variable) -> None:
        raise NotImplementedError

    def find(self, tx: Translator, name: str) -> Variable | None:
        return self.own(tx, name).realize(tx) if name in _OWN else super().find(tx, name)

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name not in _OWN:
            super().plain_setattr(tx, name, value)
            return
        if not issubclass(value.python_type(), (_OWN[name], *([] if _OWN[name] is bool else [type(None)]))):
            tx.attempt(setattr, Exception(), name, _NOTHING)
        self.set_own(tx, name, value)
        if name == "__cause__":
            self.set_own(tx, "__suppress_context__", ConstantVariable(True))

    def plain_delattr(self, tx: Translator, name: str) -> None:
        if name in (*_OWN, "args"):
            tx.attempt(delattr, Exception(), name)
        super().plain_delattr(tx, name)

    def passed(self, tx: Translator, frames: list[Frame]) -> None:
        """Symbolic frames let the exception pass: an entry of its traceback for each, the innermost first."""
        if frames:
            trace = self.own(tx, "__traceback__")
            for frame in frames:
                seen = tx.frames_seen.setdefault(frame, FrameVariable(frame))
                if is_none(trace) and issubclass(self.cls, NameError):
                    seen.variables = dict(frame.locals)  # other names are proposed from among these
                trace = TracebackVariable(seen, frame.code.insts[frame.current].offset, trace)
            self.set_own(tx, "__traceback__", trace)

    def take_context(self, tx: Translator, handled: AnyException) -> None:
        """What `raise` does while `handled` is: it becomes the context, and a chain of contexts has an end."""
        link: Variable = handled
        seen: set[Variable] = set()
        while isinstance(link, AnyException) and link not in seen:  # the program may have made a circle
            seen.add(link)
            context = link.own(tx, "__context__")
            if self.source is not None:
                context = context.realize(tx)
            if context is self:
                link.set_own(tx, "__context__", NONE)
                break
            link = context
        self.set_own(tx, "__context__", handled)


class ExistingException(AnyException):
    """One that existed before the frame."""

    def own(self, tx: Translator, name: str) -> Variable:
        pending = tx.ledger.pending(self, name)
        if isinstance(pending, Variable):
            return pending
        assert self.source is not None
        return tx.wrap(getattr(BaseException, name).__get__(self.value), self.source.attr(name))

    def set_own(self, tx: Translator, name: str, value: Variable) -> None:
        tx.ledger.store(self, name, value)


class ExceptionVariable(AnyException):
    """An exception born in the frame: `args`, and what it has of its own; other attributes are in the ledger.

    `new_args` are the arguments it is made of, `natives` the attributes that its native constructor set (None: it was
    raised by the interpreter, which sets some, too), `keywords` those of them that were given by name. `model`: a real
    one of constants, which knows its text, of those in PARTICULAR."""

    def __init__(
        self, cls: type, args: list[Variable], new_args: tuple[Variable, ...] | None = None,
        natives: dict[str, Variable] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(cls, new_args=tuple(args) if new_args is None else new_args)
        self.args = args
        self._tuple: Variable | None = None  # that they are in, once the program has seen it
        self.natives = natives
        self.keywords: dict[str, Variable] = {}
        self.model: BaseException | None = None
        self._own: dict[str, Variable] = {**dict.fromkeys(_OWN, NONE), "__suppress_context__": ConstantVariable(False)}

    def own(self, tx: Translator, name: str) -> Variable:
        return self._own[name]

    def set_own(self, tx: Translator, name: str, value: Variable) -> None:
        self._own[name] = value

    @property
    def trace(self) -> Variable:
        return self._own["__traceback__"]

    @property
    def surroundings(self) -> tuple[Variable, Variable, Variable]:
        """Cause, context, and whether the context is suppressed."""
        return self._own["__cause__"], self._own["__context__"], self._own["__suppress_context__"]

    def is_as_model(self, tx: Translator) -> bool:
        """Whether the model has all attributes that were stored."""
        stores = tx.ledger.stores(self).items()
        return self.model is not None and all(
            isinstance(value, ConstantVariable) and getattr(self.model, name, _NOTHING) == value.value
            for name, value in stores
        )

    def native_init(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> None:
        """The native `__init__`."""
        names = [name for kind, names in _KEYWORDS.items() if issubclass(self.cls, kind) for name in names]
        if kwargs and not names and not issubclass(self.cls, PARTICULAR):
            tx.raise_(TypeError, f"{self.cls.__name__}() takes no keyword arguments")
        if not kwargs.keys() <= set(names):
            raise GraphBreak("keyword arguments of an exception", self.describe())
        if issubclass(self.cls, PARTICULAR) and not issubclass(self.cls, BaseExceptionGroup):
            return  # its `__new__` has seen to it
        self.args, self.keywords = args, kwargs
        self.natives = {**(self.natives or {}), **kwargs}
        if issubclass(self.cls, StopIteration):
            self.natives["value"] = args[0] if args else NONE
        if issubclass(self.cls, SystemExit):
            self.natives["code"] = tx.new_tuple(args) if len(args) > 1 else args[0] if args else NONE

    def tell(self, **natives: Variable) -> None:
        """The interpreter stores these."""
        self.natives = {**(self.natives or {}), **natives}
        self.keywords = {**self.keywords, **natives}

    @property
    def tells_nothing(self) -> bool:
        return self.natives is None or all(is_none(self.natives.get(name, NONE)) for name in ("name", "obj"))

    def find(self, tx: Translator, name: str) -> Variable | None:
        if name == "args":
            if not isinstance(self._tuple, TupleVariable) or self._tuple.items != self.args:
                self._tuple = tx.new_tuple(list(self.args))
            return self._tuple
        if name == "__dict__":
            return tx.instance_namespace(self)
        return self._kept(tx, name) if self._is_native(tx, name) else super().find(tx, name)

    def _is_native(self, tx: Translator, name: str) -> bool:
        """Whether a native exception class keeps the attribute."""
        raw = tx.lookup(self.cls, name)
        if name in _OWN or not isinstance(raw, _NATIVE):
            return False
        return issubclass(raw.__objclass__, BaseException) and home_of(raw.__objclass__) == "builtins"

    def _kept(self, tx: Translator, name: str) -> Variable:
        """What the interpreter stored when it raised (a missing name, say) it has to store itself."""
        pending = tx.ledger.pending(self, name)
        if isinstance(pending, Variable):
            return pending
        if pending is None and self.natives is not None and name in self.natives:
            return self.natives[name]
        cause = GraphBreak("native attribute of an exception", f"{self.cls.__qualname__}.{name}")
        if tx.raised_at(self):
            raise Restart(tx.raised_at(self), cause)
        raise cause

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name == "args":
            self.args = tx.unpack(value)
            self._tuple = value if value.python_type() is tuple else None
        elif self._is_native(tx, name):
            tx.attempt(setattr, _blank(self.cls), name, value.constant() if value.is_constant() else None)
            tx.ledger.store(self, name, value)
        else:
            super().plain_setattr(tx, name, value)

    def reachable(self) -> list[Variable]:
        return [*self.args, *self.new_args, *self._own.values(), *self.keywords.values()]

    def keeps(self) -> list[Variable]:
        return [*self.args, *self._own.values()]


class TracebackVariable(Variable):
    """One entry of a traceback, of a traced frame that stood at `offset`, and the rest of it, further in."""

    def __init__(self, frame: FrameVariable, offset: int, rest: Variable) -> None:
        self.frame = frame
        self.offset = offset
        self.rest = rest

    def python_type(self) -> type:
        return TracebackType

    @property
    def line(self) -> int | None:
        return line_at(self.frame.code, self.offset)

    def getattr(self, tx: Translator, name: str) -> Variable:
        known = {"tb_next": self.rest, "tb_frame": self.frame, "tb_lasti": self.offset, "tb_lineno": self.line}
        if name not in known:
            raise GraphBreak("frame of a traceback", name)
        self.frame.is_taken |= name == "tb_frame" and tx.frames[-1].code.raw is not _WALKS
        found = known[name]
        return found if isinstance(found, Variable) else ConstantVariable(found)

    def reachable(self) -> list[Variable]:
        return [self.frame, self.rest]


class FrameVariable(Variable):
    """A traced frame as a traceback has it. `variables`: those of its variables that are to be found in it.
    `is_taken`: the program has taken it from there, and may ask for all of them, or for what the frame does now."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.code = frame.code.raw
        self.variables: dict[str, Variable] = {}
        self.is_taken = False

    def python_type(self) -> type:
        return FrameType

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "f_code":
            return tx.wrap(self.code, tx.sources.const(self.code, self.code.co_qualname))
        if name == "f_globals":
            return self.frame.namespace
        if name == "f_lineno":
            return ConstantVariable(line_at(self.code, self.frame.offset))
        raise SkipFrame(f"{READS_FRAME} ({name} of a traceback's frame)")

    def reachable(self) -> list[Variable]:
        return list(self.variables.values())


# --- births -----------------------------------------------------------------------------------------------------------
def new_exception(tx: Translator, cls: type, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`cls.__new__(cls, *args, **kwargs)` where `__new__` is native."""
    if issubclass(cls, BaseExceptionGroup):
        return _new_group(tx, cls, args)
    if not issubclass(cls, PARTICULAR):
        names = [name for name, raw in raw_attributes(cls.__mro__) if type(raw) in _NATIVE]
        made = ExceptionVariable(cls, args, natives=dict.fromkeys(names, NONE))
        if not isinstance(tx.lookup(cls, "__init__"), FunctionType):
            made.native_init(tx, args, kwargs)
        return made
    if kwargs or home_of(cls) != "builtins" or not all(arg.is_constant() for arg in args):
        raise GraphBreak("construction by a native __new__", cls.__qualname__)
    model = tx.attempt(cls, *(arg.constant() for arg in args))
    names = [name for name, raw in raw_attributes(type(model).__mro__[:-3]) if type(raw) in _NATIVE]
    natives = {name: tx.from_constant(getattr(model, name)) for name in names if hasattr(model, name)}
    made = ExceptionVariable(type(model), [tx.from_constant(arg) for arg in model.args], tuple(args), natives)
    made.model = model
    return made


def raised(tx: Translator, cls: type, args: list[Variable]) -> Variable:
    """The interpreter's own exception: of some it stores more than it gives them as arguments."""
    if issubclass(cls, (NameError, AttributeError, *PARTICULAR)) and cls is not UnboundLocalError:
        return ExceptionVariable(cls, args)
    return new_exception(tx, cls, args, {})


def as_raised(tx: Translator, error: Exception) -> Variable:
    """An exception that Python's own code raised while tracing. (Of what it imports it stores more than arguments.)"""
    args = [tx.from_constant(arg) for arg in error.args]
    if type(error) in (SyntaxError, IndentationError, TabError, *_OF_CODECS):
        return _with_natives(tx, new_exception(tx, type(error), args, {}), error)
    made = raised(tx, type(error), args)
    for name, value in vars(error).items():
        tx.ledger.store(made, name, tx.from_constant(value))
    return made


#: Packages whose frames are none of the program's: it runs in their place, or on stand-ins.
_NOT_RUN = frozenset(("codegen", "jit", "sideeffects", "symbolic", "torch"))


def passed_library(tx: Translator, error: AnyException, trace: TracebackType) -> None:
    """An exception of Python's own code passed frames of its library, which a call that is not traced went through."""
    entries: list[TracebackType] = []
    rest: TracebackType | None = trace
    while rest is not None:
        entries.append(rest)
        rest = rest.tb_next
    spaces = [each.tb_frame.f_globals for each in entries]
    if not _NOT_RUN.isdisjoint(str(space.get("__name__")).split(".")[0] for space in spaces):
        return
    frames = []
    for each, space in zip(entries, spaces, strict=True):
        code = decode(each.tb_frame.f_code)
        frame = Frame(code, code.raw.co_name, tx.namespace(space))
        frame.current = code.index(each.tb_lasti + 2) - 1  # which may be in the caches behind the instruction
        frames.append(frame)
    error.passed(tx, frames[::-1])


def _with_natives(tx: Translator, made: Variable, error: Exception) -> Variable:
    """The exception with what the interpreter stored in it after it made it: where a syntax error is, say."""
    assert isinstance(made, ExceptionVariable)
    for name in made.natives or ():
        value = getattr(error, name)
        if getattr(made.model, name) != value:
            setattr(made.model, name, value)
            tx.ledger.store(made, name, tx.from_constant(value))
    return made


def _new_group(tx: Translator, cls: type, args: list[Variable]) -> Variable:
    """A model of what is given tells what is wrong with it, and whether it becomes an ExceptionGroup."""
    held = tx.unpack(args[1]) if len(args) == 2 and args[1].python_type() in (list, tuple) else None
    given = [stand_in(arg) for arg in args]
    if held is not None:
        given[1] = [_model(each) for each in held]
    model = tx.attempt(BaseExceptionGroup.__new__, cls, *given)
    if held is None:
        raise GraphBreak("construction by a native __new__", cls.__qualname__)
    natives = {"message": args[0], "exceptions": tx.new_tuple(held or [])}
    return ExceptionVariable(type(model), list(args), tuple(args), natives)


def _blank(cls: type) -> BaseException:
    """One of the nearest native class, for Python's own code to judge what is stored to it."""
    base: Any = next(base for base in cls.__mro__ if home_of(base) == "builtins")
    made_of: Any = ("", [Exception()]) if issubclass(base, BaseExceptionGroup) else ()
    made: BaseException = base.__new__(base, *made_of)
    return made


def _model(variable: Variable) -> Any:
    kind = variable.python_type()
    return Exception() if issubclass(kind, Exception) else BaseException() if issubclass(kind, BaseException) else None


# --- native methods ---------------------------------------------------------------------------------------------------
def _with_traceback(tx: Translator, owner: Any, trace: Variable) -> Variable:
    owner.plain_setattr(tx, "__traceback__", trace)
    return owner


def _init(tx: Translator, owner: Any, *args: Variable, **kwargs: Variable) -> Variable:
    if not isinstance(owner, ExceptionVariable):
        raise GraphBreak("native method of an object", f"{owner.describe()}.__init__")
    owner.native_init(tx, list(args), kwargs)
    return NONE


def _inlined(function: Any) -> Any:
    return lambda tx, owner, *args: tx.inline(function, [owner, *args], {})


#: Methods that do the same as `object`'s.
_OBJECT_S = ("__setattr__", "__delattr__", "__getattribute__")
NATIVE_METHODS.update(
    {
        BaseException.with_traceback: _with_traceback,
        BaseException.add_note: _inlined(polyfills.add_note),
        **{getattr(BaseException, name): OBJECT_METHODS[name] for name in _OBJECT_S},
        **{cls.__init__: _init for cls in vars(builtins).values() if is_exception_class(cls)},
        BaseExceptionGroup.derive: _inlined(polyfills.derive),
        BaseExceptionGroup.split: _inlined(polyfills.split),
        BaseExceptionGroup.subgroup: _inlined(polyfills.subgroup),
    }
)
