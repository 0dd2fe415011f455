"""Generators and coroutines born in the frame: frames set aside."""

from __future__ import annotations

import inspect
import sys
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, ClassVar

from symbolic import versions
from symbolic.code import Inst
from symbolic.errors import READS_FRAME, GraphBreak, Observed, Restart
from symbolic.frames import Frame
from symbolic.variables.base import MISSING, NULL, Variable, lookup
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.methods import NativeMethod, native_method
from symbolic.variables.positions import type_name

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)


def _throw_into(
    tx: Translator, inner: Variable, error: Variable
) -> tuple[Variable | None, Variable, Variable | None]:
    """What `yield from inner` makes of an exception thrown at it: (what it yields, what it gives when it is over, the
    exception to be raised there); a None: it does not."""
    nothing = ConstantVariable(None)
    try:
        if issubclass(error.python_type(), GeneratorExit):
            if tx.hasattr(inner, "close"):
                inner.method(tx, "close", [], {})
            return None, nothing, error
        if not tx.hasattr(inner, "throw"):
            return None, nothing, error
        return inner.method(tx, "throw", [error], {}), nothing, None
    except Observed as raised:
        if issubclass(raised.variable.python_type(), StopIteration):
            return None, raised.variable.getattr(tx, "value"), None
        return None, nothing, raised.variable


class GeneratorVariable(Variable):
    """A generator born in the frame: its frame, set aside. Where it must exist after the frame, it is a generator of
    other code that goes on from there.

    `born_at` is the step to break at when the generator can't be made in the residual code."""

    KIND: ClassVar[type] = GeneratorType
    #: What the names of its attributes begin with, and what it delegates to is called.
    PREFIX: ClassVar[str] = "gi_"
    DELEGATE: ClassVar[str] = "gi_yieldfrom"
    METHODS: ClassVar[tuple[str, ...]] = ("send", "throw", "close", "__next__", "__iter__")

    def __init__(
        self, function: Variable, args: list[Variable], kwargs: dict[str, Variable], frame: Frame, born_at: int
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.frame = frame
        self.born_at = born_at
        self.made_at = 0
        self.state = "new"  # new, suspended, running, closed
        self.number: int | None = None  # among those that the frame started; below zero: it started outside
        self.stands_for: type | None = None  # the class of an iterator of Python's own, which this does the work of
        self.sequence: Variable | None = None  # that such an iterator goes over
        frame.is_generator = True

    @property
    def sized(self) -> Variable | None:
        return None if self.state == "closed" else self.sequence

    def born(self, tx: Translator) -> None:
        """It has been made by a call; it has the names that its function has now."""
        self.made_at = tx.step
        for name in ("__name__", "__qualname__"):
            given = tx.ledger.pending(self.function, name)
            if isinstance(given, Variable):
                tx.ledger.store(self, name, given)

    def python_type(self) -> type:
        return self.stands_for or self.KIND

    @property
    def word(self) -> str:
        return self.KIND.__name__

    def iterator(self, tx: Translator) -> Variable:
        return self

    def next(self, tx: Translator) -> Variable | None:
        return self.send(tx, ConstantVariable(None))

    def iternext(self, tx: Translator) -> Variable | None:
        item = self.next(tx)
        says_more = item is None and not (self.returned.is_constant() and self.returned.constant() is None)
        return tx.stop_iteration(self.returned) if says_more else item

    def send(self, tx: Translator, value: Variable) -> Variable | None:
        """Runs to the next yield; None when the generator returned (its value is then in `returned`)."""
        return self._resume(tx, value, None)

    def _resume(self, tx: Translator, value: Variable, error: Variable | None) -> Variable | None:
        if self.state == "running":
            return tx.raise_(ValueError, f"{self.word} already executing")
        if self.state == "closed":
            if self.KIND is CoroutineType:
                return tx.raise_(RuntimeError, "cannot reuse already awaited coroutine")
            if error is not None:
                raise Observed(error)
            self.returned: Variable = ConstantVariable(None)
            return None
        if self.state == "new" and error is None:
            if not (isinstance(value, ConstantVariable) and value.value is None):
                return tx.raise_(TypeError, f"can't send non-None value to a just-started {self.word}")
        if self.state == "new" and error is not None:
            self.state = "closed"
            if not versions.PY312:  # there it is the body that looks at what leaves it
                self._check_stop(tx, error)
            raise Observed(error)
        self.count(tx)
        inner = self.delegate() if error is not None else None
        self.state = "running"
        try:
            if inner is not None and error is not None:
                yielded, value, error = _throw_into(tx, inner, error)
                if yielded is not None:
                    self.state = "suspended"
                    return yielded
                if error is None:
                    self._end_delegation()
            self.frame.push(value)
            kind, result = tx.run_generator(self.frame, error)
        except Observed as raised:
            self.state = "closed"
            self._check_stop(tx, raised.variable)
            raise
        if kind == "yield":
            self.state = "suspended"
            return result
        self.state = "closed"
        self.returned = result
        return None

    def _check_stop(self, tx: Translator, error: Variable) -> None:
        """What would end its iteration does not leave it."""
        if issubclass(error.python_type(), StopIteration):
            tx.raise_from(RuntimeError, f"{self.word} raised StopIteration", cause=error)

    def _next_inst(self) -> Inst:
        """Where it goes on after its `yield`; after that of a `yield from` with the jump back to its SEND."""
        insts, at = self.frame.code.insts, self.frame.index
        return insts[at + (insts[at].op == "RESUME")]

    def delegate(self) -> Variable | None:
        """The iterator that a `yield from` stands at."""
        stands_there = self.state == "suspended" and self._next_inst().op == "JUMP_BACKWARD_NO_INTERRUPT"
        return self.frame.stack[-1] if stands_there else None

    def _end_delegation(self) -> None:
        """The `yield from` is over: what it gives is what the frame is sent."""
        self.frame.index = self.frame.code.insts[self._next_inst().target].target
        if not versions.PY312:  # there END_SEND drops the iterator below
            self.frame.pop()

    def missed(self) -> Restart:
        """Raised where the iterator itself is needed, for which this stands."""
        what = f"what {self.function.describe()} stands for"
        return Restart(self.born_at, GraphBreak("value can't be rebuilt", what))

    def runs_on(self) -> bool:
        """Whether it has a `try` or `with` to come, or stands inside of one."""
        code = self.frame.code
        rows = [code.handler(inst.offset) for inst in code.insts]
        handlers = {code.insts[code.index(row.target)].op for row in rows if row is not None}
        return self.state != "closed" and "PUSH_EXC_INFO" in handlers

    def is_missed(self) -> bool:
        """Whether the interpreter warns if nobody has it any more."""
        return False

    def count(self, tx: Translator) -> None:
        """The frame runs it."""
        if self.number is None:
            self.number = len(tx.generators)
            tx.generators.append(self)
        if self.number >= 0:
            tx.waiting[self] = self.number

    def has_something_left(self) -> bool:
        """Whether it stands inside of a `try` or `with`, which run on when nobody has the generator any more, or of a
        `yield from`, which closes what it goes through."""
        inner = self.delegate()
        if inner is not None and lookup(inner.python_type(), "close") is not MISSING:
            return True
        code = self.frame.code
        row = code.handler(code.insts[self.frame.current].offset) if self.state == "suspended" else None
        while row is not None:
            inst = code.insts[code.index(row.target)]
            if inst.op == "CLEANUP_THROW":  # of `yield from`
                row = code.handler(inst.offset)
            else:
                return inst.op != "CALL_INTRINSIC_1"  # what every generator ends with
        return False

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if self.stands_for is not None and name not in ("__next__", "__iter__"):
            self.getattr(tx, name)
            raise self.missed()
        if name in ("send", "__next__"):
            result = self.send(tx, args[0] if args else ConstantVariable(None))
            return result if result is not None else tx.stop_iteration(self.returned)
        if name == "__iter__":
            return self
        if name == "throw":
            result = self._resume(tx, ConstantVariable(None), tx.exception_from(args))
            return result if result is not None else tx.stop_iteration(self.returned)
        if name == "close":
            return self._close(tx)
        return tx.call(self.getattr(tx, name), args, kwargs)

    def _close(self, tx: Translator) -> Variable:
        if self.state in ("new", "closed"):
            self.state = "closed"
            return ConstantVariable(None)
        try:
            result = self._resume(tx, ConstantVariable(None), tx.with_context(tx.new_exception(GeneratorExit)))
        except Observed as raised:
            if issubclass(raised.variable.python_type(), (GeneratorExit, StopIteration)):
                return ConstantVariable(None)
            raise
        if result is not None:
            return tx.raise_(RuntimeError, f"{self.word} ignored GeneratorExit")
        return self.returned if versions.CLOSE_RETURNS else ConstantVariable(None)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if self.stands_for is not None and name != "__class__":
            if not hasattr(self.stands_for, name):
                tx.raise_(AttributeError, f"{type_name(self.stands_for)!r} object has no attribute {name!r}")
            return NativeMethod(self, name)
        if name in self.METHODS:
            return NativeMethod(self, name)
        pending = tx.ledger.pending(self, name)
        if isinstance(pending, Variable):
            return pending
        if name in ("__name__", "__qualname__"):
            if tx.ledger.pending(self.function, name) is not None:
                raise GraphBreak("generator of a function that has another name now", self.function.describe())
            return self.function.getattr(tx, name)
        if name == "__class__":
            return tx.class_of(self)
        if name == self.DELEGATE:
            return self.delegate() or NONE
        if name == f"{self.PREFIX}running":
            return ConstantVariable(self.state == "running")
        if name == f"{self.PREFIX}suspended":
            return ConstantVariable(self.state == "suspended")
        if name == f"{self.PREFIX}frame" and self.state == "closed":
            return NONE
        if name == f"{self.PREFIX}code":
            return self.function.getattr(tx, "__code__")
        if not hasattr(self.KIND, name):
            tx.raise_(AttributeError, f"{self.word!r} object has no attribute {name!r}")
        raise GraphBreak("generator attribute", name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name in ("__name__", "__qualname__"):
            if not issubclass(value.python_type(), str):
                tx.raise_(TypeError, f"{name} must be set to a string object")
            tx.ledger.store(self, name, value)
        else:
            super().setattr(tx, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if name in ("__name__", "__qualname__"):
            tx.raise_(TypeError, f"{name} must be set to a string object")
        super().delattr(tx, name)

    def inspected(self) -> str:
        """The state by the name that `inspect` has for it."""
        names = {"new": "CREATED", "suspended": "SUSPENDED", "running": "RUNNING", "closed": "CLOSED"}
        return f"{'CORO' if self.KIND is CoroutineType else 'GEN'}_{names[self.state]}"

    def reachable(self) -> list[Variable]:
        if self.state != "suspended":
            return [self.function, *self.args, *self.kwargs.values()]
        frame = self.frame
        held = [*frame.locals.values(), *frame.cells.values(), *frame.stack]
        return [item for item in held if item is not NULL]

    def holds(self) -> list[Variable]:
        return self.reachable() if self.state in ("new", "suspended") else []

    keeps = holds


class CoroutineVariable(GeneratorVariable):
    """A coroutine: not iterable, and missed if it is never awaited."""

    KIND = CoroutineType
    PREFIX = "cr_"
    DELEGATE = "cr_await"
    METHODS = ("send", "throw", "close", "__await__")

    def born(self, tx: Translator) -> None:
        super().born(tx)
        tx.know(tx.sources.const(sys, "sys").step("call", origin_depth), "eq", 0)
        if origin_depth(None):
            raise GraphBreak(READS_FRAME, "a coroutine that tells where it was made")
        self.count(tx)

    def iterator(self, tx: Translator) -> Variable:
        return tx.raise_(TypeError, "'coroutine' object is not iterable")

    def is_missed(self) -> bool:
        return self.state == "new"

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return CoroutineWrapper(self) if name == "__await__" else super().method(tx, name, args, kwargs)


def origin_depth(_: Any) -> int:
    return sys.get_coroutine_origin_tracking_depth()


class CoroutineWrapper(Variable):
    """`coroutine.__await__()`"""

    def __init__(self, owner: CoroutineVariable) -> None:
        self.owner = owner

    def python_type(self) -> type:
        return _WRAPPER

    def iterator(self, tx: Translator) -> Variable:
        return self

    def next(self, tx: Translator) -> Variable | None:
        return self.owner.send(tx, NONE)

    def getattr(self, tx: Translator, name: str) -> Variable:
        return native_method(tx, self, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name not in ("send", "throw", "close", "__next__", "__iter__"):
            raise GraphBreak("generator attribute", name)
        return self if name == "__iter__" else GeneratorVariable.method(self.owner, tx, name, args, kwargs)

    def reachable(self) -> list[Variable]:
        return [self.owner]


async def _nothing() -> None:
    pass


def _type_of_wrapper() -> type:
    coroutine = _nothing()
    wrapper = coroutine.__await__()
    coroutine.close()
    return type(wrapper)


_WRAPPER = _type_of_wrapper()


# --- await ------------------------------------------------------------------------------------------------------------
REFUSAL = "object {} can't be used in 'await' expression"


def awaited(tx: Translator, value: Variable, refusal: str = REFUSAL) -> Variable:
    """The iterator that `await value` runs; `refusal` is what TypeError says of what has none."""
    if isinstance(value, GeneratorVariable) and _is_coroutine(value):
        if isinstance(value, CoroutineVariable) and value.delegate() is not None:
            tx.raise_(RuntimeError, "coroutine is being awaited already")
        return value
    cls = value.python_type()
    if tx.lookup(cls, "__await__") is MISSING:
        tx.raise_(TypeError, refusal.format(cls.__name__))
    found = tx.call(special(tx, value, "__await__"), [], {})
    if isinstance(found, GeneratorVariable) and _is_coroutine(found):
        tx.raise_(TypeError, "__await__() returned a coroutine")
    if lookup(found.python_type(), "__next__") is MISSING:
        tx.raise_(TypeError, f"__await__() returned non-iterator of type '{found.python_type().__name__}'")
    return found


def _is_coroutine(generator: GeneratorVariable) -> bool:
    return bool(generator.frame.code.raw.co_flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE))


def special(tx: Translator, value: Variable, name: str) -> Variable:
    """A special method, found on the type."""
    found = value.special(tx, name) if hasattr(value, "special") else None
    return found if found is not None else value.getattr(tx, name)
