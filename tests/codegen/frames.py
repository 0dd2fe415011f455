"""Continuations against plain Python: the driver.

A program calls `mark(x)` where a graph break could be (it returns x, or raises it). It runs once as it stands; then,
for every call of `mark`, once up to there: the frames from `mark` up to the driver are read out of the interpreter
(locals, cells, value stacks) and handed to continuations, which finish the program. Result, log, exception, traceback,
context and `sys.exc_info()` must be the same.
"""

import ctypes
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from codegen.residual.resume import Entry, Kind, Slot, implicit_local, original, resume_code
from symbolic.code import decode, live_locals

# --- reading frames ---

NULL = object()
STACKTOP, LOCALSPLUS = 64, 72  # in struct _PyInterpreterFrame, the same on 3.11 to 3.13


def slots_and_stack(frame: FrameType) -> tuple[list[Any], list[Any]]:
    """The variables' slots, and the value stack of a frame that is calling a Python function (operands gone)."""
    inner = ctypes.c_void_p.from_address(id(frame) + 24).value or 0
    top = ctypes.c_int.from_address(inner + STACKTOP).value
    count = len(original(frame.f_code).slots.names)
    assert top >= count, f"{frame.f_code.co_name} is not calling a Python function"
    addresses = (ctypes.c_void_p * top).from_address(inner + LOCALSPLUS)
    values = [ctypes.cast(address, ctypes.py_object).value if address else NULL for address in addresses]
    return values[:count], values[count:]


@dataclass
class Frame:
    """A frame as a capture would see it; `values` are the arguments that go with `locals` and `stack`."""

    code: CodeType
    globals: dict[str, Any]
    offset: int
    next_offset: int
    locals: tuple[str, ...]
    stack: tuple[Slot, ...]
    values: list[Any]
    closure: tuple[CellType, ...]

    def function(self, entry: Entry, **options: Any) -> FunctionType:
        offset = self.next_offset if entry is Entry.AFTER else self.offset
        stack = (*self.stack, Slot.VALUE) if entry is Entry.AFTER else self.stack
        code = resume_code(self.code, entry=entry, locals=self.locals, stack=stack, offset=offset, **options)
        assert len(code.co_freevars) == len(self.closure)
        return FunctionType(code, self.globals, closure=self.closure or None)


def read(frame: FrameType, handled: BaseException | None, prune: bool) -> tuple[Frame, BaseException | None]:
    """`handled` is the exception being handled in the frame; the second result: in its caller. `prune` leaves out the
    locals that are dead."""
    code = frame.f_code
    source, slots = original(code), original(code).slots
    variables, stack = slots_and_stack(frame)
    call = next(inst for inst in reversed(decode(code).insts) if inst.offset <= frame.f_lasti)
    state = source.states[source.index(call.offset)]

    live = live_locals(decode(code), call.next_offset) | {implicit_local(code)}
    if row := decode(code).handler(call.offset):
        live |= live_locals(decode(code), row.target)
    found = {}
    for slot, value in zip(slots.own, variables):
        is_cell = slot in slots.cells and (slot not in source.shared or slot in state.cells)
        if not is_cell and value is not NULL and (not prune or slots.names[slot] in live):
            found[slots.names[slot]] = value
    closure = [variables[int(slot)] for slot in (*slots.cells, *slots.kept_free)]

    kinds: list[Slot] = []
    values: list[Any] = []
    position = len(stack) - 1
    while position >= 0:
        value = stack[position]
        if state.stack[position] is Kind.OUTER:
            if values and values[-1] is handled and kinds[-1] is Slot.VALUE:
                values.pop()
                kinds[-1] = Slot.EXC
            else:
                kinds.append(Slot.HANDLING)
            values.append(handled)
            handled = value
        else:
            kinds.append(Slot.NULL if value is NULL else Slot.VALUE)
            if value is not NULL:
                values.append(value)
        position -= 1
    result = Frame(
        code,
        frame.f_globals,
        call.offset,
        call.next_offset,
        tuple(found),
        tuple(reversed(kinds)),
        [*found.values(), *reversed(values)],
        tuple(cell if isinstance(cell, CellType) else CellType() for cell in closure),
    )
    return result, handled


# --- the driver ---


class Abort(BaseException):
    """Ends the original frames once their continuations have run."""


LOG: list[str] = []
PLAN: list[Any] = [None]


def log(*values: Any) -> None:
    LOG.append(" ".join(map(repr, values)))


def mark(x: Any) -> Any:
    """The place of a graph break: returns `x`, or raises it."""
    if PLAN[0] is not None:
        PLAN[0].at_mark(x)
    if isinstance(x, BaseException):
        raise x
    return x


@dataclass
class Break:
    """Breaks at the call of `mark` with number `wanted`; `everywhere`: its continuation at the next, and so on."""

    wanted: int
    prune: bool = False
    everywhere: bool = False
    outcome: Any = None

    def at_mark(self, x: Any) -> None:
        if self.outcome is None and self.wanted > 0:
            self.wanted -= 1
            return
        if self.outcome is None:
            self.outcome = "no continuation"
            try:
                function, values = self.continuation(sys._getframe(2), x)
                PLAN[0] = after = Break(0, self.prune, True) if self.everywhere else None
                outcome = in_thread(lambda: function(*values))
                self.outcome = outcome if after is None or after.outcome is None else after.outcome
            except Exception:
                self.outcome = traceback.format_exc()
            PLAN[0] = self
        raise Abort

    def continuation(self, frame: FrameType | None, x: Any) -> tuple[FunctionType, list[Any]]:
        handled = sys.exc_info()[1]
        assert frame is not None
        inner, handled = read(frame, handled, self.prune)
        if isinstance(x, BaseException):
            try:
                mark_again(x)
            except BaseException as exc:
                drop_first_entry(exc)
            function, values = inner.function(Entry.RAISE), [*inner.values, x]
        else:
            function, values = inner.function(Entry.AFTER), [*inner.values, x]
        while (frame := frame.f_back) is not None and frame.f_code.co_name != "<lambda>":
            outer, handled = read(frame, handled, self.prune)
            function = outer.function(Entry.CALL, nested=hands_over(function), nested_args=len(values))
            values = [*outer.values, *values]
        return function, values


def hands_over(function: Callable[..., Any]) -> Callable[..., Any]:
    """What gives a call that is still to be made: of a Python function, if it is one, with the values as its defaults."""
    if not isinstance(function, FunctionType):
        return partial(partial, function)
    made = function.__code__, function.__globals__, function.__name__
    return lambda *values: FunctionType(*made, values, function.__closure__)


def mark_again(x: BaseException) -> None:
    raise x


mark_again.__code__ = mark_again.__code__.replace(co_name="mark")


def drop_first_entry(exc: BaseException) -> None:
    """The traceback without the frame that caught the exception."""
    assert exc.__traceback__ is not None
    exc.__traceback__ = exc.__traceback__.tb_next


def in_thread(run: Callable[[], Any]) -> Any:
    """Outcome of `run` in a thread of its own, in which no exception is being handled."""
    outcome: list[Any] = []

    def target() -> None:
        try:
            outcome.append(("returns", repr(run())))  # the abandoned frames may change it on their way out
        except BaseException as exc:
            outcome.append(("raises", described(exc)))
        assert sys.exc_info() == (None, None, None)
        outcome.append(list(LOG))

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    assert len(outcome) == 2, outcome
    return outcome


def described(exc: BaseException | None) -> Any:
    """An exception, its traceback from the program on, its context and cause."""
    if exc is None:
        return None
    entries = traceback.extract_tb(exc.__traceback__)
    places = [(entry.name, "" if entry.name == "mark" else (entry.lineno, entry.colno)) for entry in entries]
    while places and places[0][0] in ("target", "<lambda>", "at_mark", "continuation"):
        del places[0]
    rest = exc.__suppress_context__, described(exc.__context__), described(exc.__cause__)
    return type(exc), str(exc), places, *rest


def breaks(program: Callable[[], Any], limit: int = 1000) -> int:
    """Runs `program` as it is, with a break at each of its marks, and with breaks at all of them; the number of marks.
    `limit`: so many of them, spread evenly."""

    def run(plan: Any) -> Any:
        LOG.clear()
        PLAN[0] = plan
        try:
            return in_thread(lambda: program())
        finally:
            PLAN[0] = None

    counter = Break(1 << 30)
    want = run(counter)
    count = (1 << 30) - counter.wanted
    plans = [Break(number, prune) for number in range(0, count, count // limit + 1) for prune in (False, True)]
    plans += [Break(max(0, count - 40), prune, True) for prune in (False, True) if count]
    for plan in plans:
        before = str(plan)
        run(plan)
        assert type(plan.outcome) is list, plan.outcome
        assert plan.outcome == want, before
    return count


class Guard:
    """A context manager that logs what it sees."""

    def __init__(self, name: str, swallow: bool = False) -> None:
        self.name, self.swallow = name, swallow

    def __enter__(self) -> str:
        log("enter", self.name)
        return self.name

    def __exit__(self, kind: Any, exc: Any, tb: Any) -> bool:
        log("exit", self.name, exc, sys.exc_info()[1])
        return self.swallow
