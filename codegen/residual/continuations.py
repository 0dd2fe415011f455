"""What happens after a graph break: one continuation per frame, each calling the next inner one.

The innermost frame goes on after the broken instruction (or raises its exception there); every outer frame goes on by
calling its callee's continuation where its own call stood. So a break five calls deep is one call of one function, and
that function is captured again as a whole. It is called when the code before it has returned: that hands over to it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from codegen.residual.resume import Entry, Slot, Unresumable, implicit_local, needed_closure, resume_code
from sideeffects.ledger import Ledger
from symbolic.capture import Break, Capture
from symbolic.code import live_locals
from symbolic.errors import MEMORY, SkipFrame
from symbolic.frames import Frame
from symbolic.opcodes.exceptions import HandledVariable
from symbolic.reach import now_held
from symbolic.variables.base import MISSING, NULL, Variable, lookup
from symbolic.variables.classes import ClassVariable
from symbolic.variables.exceptions import AnyException
from symbolic.variables.functions import CellVariable
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.weak import ends_unseen, existing_object

#: makes the door of a continuation: (code, globals, name) -> door; what `door(closure, *args)` answers is for compiled
#: code to return, or to be called
MakeDoor = Callable[[CodeType, dict[str, Any], str], Any]


@dataclass
class Continuations:
    """The doors of all continuations of one compiler; equal break sites share one, and so does equal code: else each
    round of a loop that breaks in a call would have a code of its own, without end. `as_written` makes one for a
    function that runs as it is."""

    make_door: MakeDoor
    as_written: MakeDoor
    doors: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    by_code: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def door(self, frame: Frame, key: tuple[Any, ...], make: Callable[[], CodeType]) -> Any:
        key = (frame.code.raw, id(frame.namespace.real()), *key)
        found = self.doors.get(key)
        if found is None:
            found = self.doors[key] = self._of_code(make(), frame)
        return found

    def _of_code(self, code: CodeType, frame: Frame) -> Any:
        namespace = frame.namespace.real()
        # Code is equal whatever its file is and, on 3.11, whatever its lines are.
        key = (code, code.co_filename, code.co_qualname, code.co_linetable, code.co_exceptiontable, id(namespace))
        try:
            found = self.by_code.get(key)
        except TypeError:  # a constant that can't be hashed
            return self.make_door(code, namespace, frame.name)
        if found is None:
            found = self.by_code[key] = self.make_door(code, namespace, frame.name)
        return found


@dataclass(frozen=True)
class State:
    """What a continuation is called with: its closure (None: no cells) and its positional arguments."""

    door: Any
    closure: list[Variable] | None
    arguments: list[Variable]


def stack_slots(stack: Sequence[Variable]) -> tuple[list[Slot], list[Variable]]:
    """How a symbolic stack is put back: its slots, and the values for those that take one."""
    slots: list[Slot] = []
    values: list[Variable] = []
    skip = False
    for position, item in enumerate(stack):
        if skip:
            skip = False
        elif item is NULL:
            slots.append(Slot.NULL)
        elif isinstance(item, HandledVariable):
            following = stack[position + 1] if position + 1 < len(stack) else None
            assert item.current is not None
            skip = following is item.current
            slots.append(Slot.EXC if skip else Slot.HANDLING)
            values.append(item.current)
        else:
            slots.append(Slot.VALUE)
            values.append(item)
    return slots, values


#: Kinds of sources of what nobody else may hold.
_PASSED = ("arg", "index")


@dataclass(frozen=True)
class Watch:
    """Whether it may be seen that a frame's variable holds a value, though it is not read again: objects that existed
    before may do something when they end, or have weak references, or be in a container that ends with them; of those
    born here the ones in `watched` are looked for. `ledger` knows what they hold as attributes. `unseen`: what was
    looked through in vain."""

    watched: Container[Variable] = ()
    ledger: Ledger | None = None
    unseen: set[Variable] = field(default_factory=set)

    def sees(self, variable: Variable) -> bool:
        return _existing(variable) or self.sees_end(variable)

    def sees_end(self, variable: Variable) -> bool:
        """The same of a frame that is left, whose other variables have their values from what is not."""
        if isinstance(variable, ClassVariable):
            return True  # they are known to their bases, weakly
        if isinstance(variable, GeneratorVariable) and variable.runs_on():
            return True
        waiting, seen = [variable], {variable}
        while waiting:
            part = waiting.pop()
            if part in self.watched or lookup(type(getattr(part, "value", None)), "__del__") is not MISSING:
                return True
            if _is_passed(part) and _existing(part):
                return True
            inside = part.reachable() if self.ledger is None else now_held(part, self.ledger)
            waiting += [each for each in inside if each not in seen and each not in self.unseen]
            seen.update(inside)
        self.unseen.update(seen)
        return False


def watch(capture: Capture) -> Watch:
    """What a capture knows of weak references: those that are there, and those that the instruction it stops at may
    make."""
    ledger, stop = capture.ledger, capture.exit
    watched = set(capture.tx.weak_references)
    if not isinstance(stop, Break):
        return Watch(watched, ledger)
    if stop.cause.reason == MEMORY:
        watched.update(each for frame in stop.frames for each in frame.locals.values())
    waiting = [] if stop.inst is None else [each for each in stop.frames[-1].stack if each is not NULL]
    seen = set(waiting)
    while waiting:
        each = waiting.pop()
        if isinstance(each, ObjectVariable):
            watched.add(each)
        inside = [part for part in now_held(each, ledger) if part not in seen]
        seen.update(inside)
        waiting += inside
    return Watch(watched, ledger)


def kept_by(frame: Frame, watch: Watch) -> dict[str, Variable]:
    """Values of variables that are to stay alive with a frame that a traceback holds. (Exceptions that it handles hold
    the traceback, until it lets go of them, which one that stands in for it would not.)"""
    held: dict[str, Any] = {name: value for name, value in frame.locals.items() if "." not in name[1:]}
    if watch.ledger is not None:
        held |= {name: watch.ledger.pending(cell, "cell_contents") for name, cell in frame.cells.items()}
    return {
        name: value for name, value in held.items()
        if isinstance(value, Variable) and value is not NULL and not isinstance(value, AnyException)
        and (_is_passed(value) or watch.sees_end(value))
    }  # fmt: skip


def _is_passed(variable: Variable) -> bool:
    return variable.source is not None and variable.source.kind in _PASSED


def _existing(variable: Variable) -> bool:
    """Whether it existed before, and its end may be seen."""
    value = existing_object(variable)
    return value is not MISSING and not ends_unseen(value)


def _locals(frame: Frame, offset: int, watch: Watch) -> tuple[list[str], list[Variable]]:
    """Bound locals that may be read from `offset` on, or by the handler of the instruction being executed, and those
    that are to be kept all the same; not what a call that raised has left in a continuation's own variables."""
    wanted = live_locals(frame.code, offset)
    handler = frame.code.handler(frame.code.insts[frame.current].offset)
    if handler is not None:
        wanted |= live_locals(frame.code, handler.target)
    first = implicit_local(frame.code.raw)
    held = frame.locals
    names = [
        name for name in held
        if name in wanted or name == first or ("." not in name[1:] and watch.sees(held[name]))
    ]  # fmt: skip
    return names, [held[name] for name in names]


def _closure(frame: Frame) -> list[Variable] | None:
    """Cells of the closure; a slot that an inlined comprehension uses for a plain value has none, any will do."""
    names = needed_closure(frame.code.raw)
    return [frame.cells.get(name) or CellVariable() for name in names] if names else None


def continuation(
    pool: Continuations,
    frames: Sequence[Frame],
    entry: Entry,
    offset: int,
    stack: Sequence[Variable],
    watch: Watch,
) -> State:
    """The continuation of `frames` (root first): the innermost enters at `offset` with `stack`.

    For `Entry.RAISE` the exception is the last item of `stack`. Raises SkipFrame where no continuation can be made."""
    inner = _innermost(pool, frames[-1], entry, offset, stack, watch)
    for position in range(len(frames) - 2, -1, -1):
        inner = _caller(pool, frames[position], inner, frames[position + 1].on_return, watch)
    return inner


def _innermost(
    pool: Continuations,
    frame: Frame,
    entry: Entry,
    offset: int,
    stack: Sequence[Variable],
    watch: Watch,
) -> State:
    raised = [stack[-1]] if entry is Entry.RAISE else []
    slots, values = stack_slots(stack[:-1] if raised else stack)
    names, bound = _locals(frame, offset, watch)
    key = (entry, offset, tuple(names), tuple(slots))
    door = pool.door(
        frame,
        key,
        lambda: _resume(frame, entry=entry, locals=names, stack=slots, offset=offset),
    )
    return State(door, _closure(frame), [*bound, *values, *raised])


def _caller(
    pool: Continuations, frame: Frame, inner: State, result: Variable | None, watch: Watch
) -> State:
    inst = frame.code.insts[frame.current]
    slots, values = stack_slots(frame.stack)
    names, bound = _locals(frame, inst.next_offset, watch)
    count = 1 + len(inner.arguments)
    replace = result is not None
    key = (Entry.CALL, inst.offset, tuple(names), tuple(slots), id(inner.door), count, replace)
    door = pool.door(
        frame,
        key,
        lambda: _resume(
            frame,
            entry=Entry.CALL,
            locals=names,
            stack=slots,
            offset=inst.offset,
            resume_at=inst.next_offset,
            nested=inner.door,
            nested_args=count,
            replace_result=replace,
        ),
    )
    replacement = [result] if result is not None else []
    return State(door, _closure(frame), [*bound, *values, *replacement, Closure(inner.closure), *inner.arguments])


def suspended(frame: Frame) -> tuple[CodeType, list[Variable] | None, list[Variable]]:
    """A generator's frame that has yielded, as the code of a generator function, its closure and its arguments.

    Raises `Unresumable` where there is no such code."""
    offset = frame.code.insts[frame.current].next_offset
    slots, values = stack_slots(frame.stack)
    names, bound = _locals(frame, offset, Watch())
    code = resume_code(frame.code.raw, entry=Entry.YIELD, locals=names, stack=slots, offset=offset)
    return code, _closure(frame), [*bound, *values]


def _resume(frame: Frame, **how: Any) -> CodeType:
    try:
        return resume_code(frame.code.raw, **how)
    except Unresumable as error:
        raise SkipFrame(f"no continuation: {error}") from error


class Closure(Variable):
    """The closure tuple of an inner continuation, None without cells."""

    def __init__(self, cells: list[Variable] | None) -> None:
        self.cells = cells

    def reachable(self) -> list[Variable]:
        return self.cells or []
