"""Generators that a frame drops while they stand inside of a `try` or `with`: they are closed where eager code does it.
So are arguments that tell of their end.

Eager code counts references. Here the generator is looked for among all that the frames and the ledger hold, after each
instruction that drops a value which holds one. After that of an existing one the frame goes on in a continuation, which
does not get it.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import traceback
import weakref
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Iterator
from types import AsyncGeneratorType, CellType, CoroutineType, FunctionType, GeneratorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

from symbolic.code import Inst, decode
from symbolic.errors import SEES_END, GraphBreak, Observed, SkipFrame
from symbolic.frames import Frame
from symbolic.reach import children, exists, now_kept, reachable
from symbolic.variables.base import MISSING, NULL, Variable, lookup
from symbolic.variables.constants import ConstantVariable, SliceVariable, is_a
from symbolic.variables.containers import MutableSequence, TupleVariable
from symbolic.variables.exceptions import FrameVariable
from symbolic.variables.functions import ClosureFunction, PartialVariable
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.weak import existing_object

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: The reason of a frame that runs as it is.
LEFT = "a generator is dropped with something left to do"

#: The reason of a break before a call.
ENDS_INSIDE = "a generator ends inside of a call"

#: What is told of the end of an argument.
_TOLD = (weakref.finalize, weakref.ref, weakref.proxy)
#: What lets go of its contents from the last to the first.
_BACKWARDS: tuple[type, ...] = (
    *(list, tuple, type(iter([])), type(iter(())), zip, map, BaseException),
    *(itertools.chain, itertools.zip_longest, itertools.product),
)
#: What has an order of its own.
_LETS_GO: dict[type[Variable], Callable[[Any], list[Variable | None]]] = {
    PartialVariable: lambda it: [it.function, *it.args[::-1], *it.kwargs.values()],
    ClosureFunction: lambda it: [it.defaults, it.kwdefaults, *it.closure[::-1]],
    SliceVariable: lambda it: [it.parts[2], *it.parts[:2]],
}
_CONTAINERS = frozenset({list, tuple, dict, set})
#: Those within each other that are looked into.
_MOST_INSIDE = 100
#: Of a call: more values than a call has on the stack beside its arguments.
_BESIDE = 3


#: instruction -> what it drops
DROPS: dict[str, Callable[[Frame, Inst], list[Variable | None]]] = {
    **dict.fromkeys(("POP_TOP", "YIELD_VALUE"), lambda frame, inst: [frame.stack[-1]]),
    **dict.fromkeys(("STORE_FAST", "DELETE_FAST"), lambda frame, inst: [frame.locals.get(inst.argval)]),
    **dict.fromkeys(("RETURN_VALUE", "RETURN_CONST"), lambda frame, inst: [*frame.in_order()]),
}


#: Instructions that drop what they are given when they have used it, if nobody has taken it.
TAKES = frozenset(
    "CALL CALL_KW CALL_FUNCTION_EX LIST_EXTEND SET_UPDATE UNPACK_SEQUENCE UNPACK_EX CONTAINS_OP SEND END_SEND".split()
)


def given(tx: Translator, frame: Frame, inst: Inst) -> tuple[list[Variable], int]:
    """What such an instruction finds on the stack, and how many generators were begun before it."""
    many = (inst.arg or 0) if inst.op.startswith("CALL") else 0
    return frame.stack[-many - _BESIDE :], len(tx.generators)


def used(tx: Translator, values: list[Variable], begun: int) -> list[Variable]:
    """The generators that have something left to do of those that it has begun (after the first `begun`), or that these
    values hold, but for what frames hold."""
    waiting = suspended(tx)
    if not waiting:
        return []
    values = [each for each in values if each is not NULL]
    within = _within(tx, values, set(waiting), _kept(tx))
    return _in_order(tx, values, [each for each in waiting if each in within or tx.waiting[each] >= begun])


def suspended(tx: Translator) -> list[GeneratorVariable]:
    """The generators that have something left to do, in the order in which they were begun. (One that has nothing left
    waits no more until it is resumed.)"""
    has_left = {each: each.state == "suspended" and each.has_something_left() for each in tx.waiting}
    gone = [each for each, left in has_left.items() if not left and each.state in ("suspended", "closed")]
    for each in gone:
        del tx.waiting[each]
    return sorted((each for each, left in has_left.items() if left), key=tx.waiting.__getitem__)


def unfinished(tx: Translator, frame: Frame, values: Iterable[Variable | None]) -> list[Variable]:
    """The generators with something left to do that the frame may be about to drop with the values, and what of these
    existed before and tells of its end."""
    dropped = [each for each in values if each is not None and each is not NULL]
    holding = [each for each in dropped if _may_hold(tx, each)]
    ends = {*_unpacked(dropped), *_within(tx, holding)} if tx.given_generators and not tx.anchors else ()
    given = [each for each in ends if _existing(each) is not None]
    waiting = suspended(tx) if holding else ()
    if not waiting:
        return given
    within = _within(tx, holding, set(waiting), _kept(tx, frame, dropped))
    return [*given, *_in_order(tx, holding, [each for each in waiting if each in within])]


def _unpacked(values: Iterable[Variable]) -> Iterator[Variable]:
    """The values, and what tuples hold that are known by that alone."""
    for each in values:
        yield each
        if isinstance(each, TupleVariable) and each.source is not None:
            yield from _unpacked(each.reachable())


def _in_order(tx: Translator, values: list[Variable], generators: list[Variable]) -> list[Variable]:
    """`generators` in the order in which the interpreter lets go of them with the values: who has lost its last holder
    lets go of what it holds."""
    if len(generators) < 2:
        return generators
    inside: dict[Variable, list[Variable]] = {}
    holders, work = Counter(values), [*values]
    while work:
        each = work.pop()
        if each not in inside:
            inside[each] = _lets_go(tx, each) if _may_hold(tx, each) else []
            holders.update(inside[each])
            work += inside[each]
    ended: dict[Variable, int] = {}
    work = values[::-1]
    while work:
        each = work.pop()
        holders[each] -= 1
        if not holders[each]:
            ended[each] = len(ended)
            work += inside[each][::-1]
    return sorted(generators, key=lambda each: ended.get(each, len(ended)))


def _lets_go(tx: Translator, variable: Variable) -> list[Variable]:
    """What a value holds, as it lets go of it at its end: its attributes, then its contents."""
    attributes = [each for each in tx.ledger.stores(variable).values() if isinstance(each, Variable)]
    if isinstance(variable, GeneratorVariable):
        contents = variable.frame.in_order() if variable.state != "closed" else []
    elif (order := _LETS_GO.get(type(variable))) is not None:
        contents = [each for each in order(variable) if each is not None]
    else:
        contents = variable.holds()
        if issubclass(variable.python_type(), _BACKWARDS):
            contents = contents[::-1]
    return [*attributes, *contents]


def _kept(tx: Translator, frame: Frame | None = None, dropped: Iterable[Variable] = ()) -> set[Variable]:
    """What frames hold besides what this one drops: that stays, with all that it holds."""
    kept = {each for other in tx.frames if other is not frame for each in other.held()}
    mine = frame.held() if frame is not None else []
    for each in dropped:
        if each in mine:  # or it is gone already
            mine.remove(each)
    return kept.union(mine)


#: Most of what frames drop. They have a class, which may be born in the frame.
_HOLD_NOTHING = (ConstantVariable, TensorVariable)


def is_given(value: Any) -> bool:
    """Whether the end of an existing value may be seen: of a generator, of an exception that has one in its traceback,
    of what does something when it ends."""
    if is_a(value, BaseException):
        held = (gc.get_referents(frame) for frame, _ in traceback.walk_tb(value.__traceback__))
        return any(is_given(each) for each in itertools.chain(*held) if type(each) in _RUN_ON)
    if type(value) is CoroutineType:
        return value.cr_frame is not None
    if type(value) in _STEPS_OF_ASYNC:
        return any(is_given(each) for each in gc.get_referents(value) if type(each) is AsyncGeneratorType)
    kind, delegate = _SUSPENDED.get(type(value), ("", ""))
    if not kind or getattr(value, f"{kind}_frame") is None:
        return tells_of_end(value)
    is_delegating = getattr(value, delegate) is not None  # to what is closed, too
    return is_delegating or any(inst.op == "PUSH_EXC_INFO" for inst in decode(getattr(value, f"{kind}_code")).insts)


async def _nothing() -> AsyncGenerator[None, None]:
    yield


def _steps_of_async() -> Iterator[type]:
    generator = _nothing()
    for step in (generator.asend(None), generator.athrow(GeneratorExit)):
        yield type(step)
        step.close()  # or it says that nobody has awaited it


#: generators -> how their attributes begin, and what they go through
_SUSPENDED = {GeneratorType: ("gi", "gi_yieldfrom"), AsyncGeneratorType: ("ag", "ag_await")}
#: What holds an asynchronous generator and steps it.
_STEPS_OF_ASYNC = frozenset(_steps_of_async())
#: What may have something left to do.
_RUN_ON = (CoroutineType, GeneratorType, AsyncGeneratorType, *_STEPS_OF_ASYNC)


def tells_of_end(value: Any) -> bool:
    """Whether its class has a `__del__` of the program's, or that of what a container holds, or this holds a generator
    with something left to do."""
    if _has_end(type(value)):
        return True
    work, seen = [value], {id(value)}
    while work and len(seen) < _MOST_INSIDE:
        each = work.pop()
        inside = each.values() if type(each) is dict else each if type(each) in _CONTAINERS else ()
        kinds = {*map(type, inside)}  # there may be very many
        if any(map(_has_end, kinds)) or (not kinds.isdisjoint(_RUN_ON) and any(map(_runs_on, inside))):
            return True
        if not kinds.isdisjoint(_CONTAINERS):
            work += [item for item in inside if type(item) in _CONTAINERS and id(item) not in seen]
            seen.update(map(id, work))
    return False


def _has_end(kind: type) -> bool:
    return isinstance(lookup(kind, "__del__"), FunctionType)


def _runs_on(value: Any) -> bool:
    return type(value) in _RUN_ON and is_given(value)


def _existing(variable: Variable) -> Any:
    """The existing generator or exception that it is, or the argument that tells of its end; None if it is none."""
    value = _object(variable)
    is_argument = variable.source is not None and variable.source.kind == "arg"  # other things are held by these
    return value if is_given(value) and (is_argument or not tells_of_end(value)) else None


def _object(variable: Variable) -> Any:
    """The existing object that it stands for, None if there is none."""
    found = existing_object(variable)
    return None if found is MISSING else found


def overdue(tx: Translator, left: list[Variable] | None) -> list[Variable]:
    """Those that were dropped while the instruction ran that is over now, and what else is left of it."""
    own: list[Variable] = [each for each in tx.overdue if _is_own(tx, each)]
    return [*own, *(each for each in left or () if each not in own)]


def _is_own(tx: Translator, generator: GeneratorVariable) -> bool:
    """Whether it was made in the nested run that is going on: no instruction that waits for that has it."""
    return not tx.anchors or generator.made_at > tx.anchors[-1]


def _seen(tx: Translator) -> Any:
    """What differs when something may have been done meanwhile."""
    return len(tx.ledger.written), tx.graph.calls


def close(tx: Translator, generators: list[Variable], is_handed: bool) -> None:
    """Closes those that nobody has any more. `is_handed`: whether `tx.result` is handed out at this moment.

    What an instruction that waits for a nested run may hold is looked at when it is over. It may have been dropped
    before: then GraphBreak is raised, if something was done since."""
    now = _seen(tx)
    dropped_at = {each: tx.overdue.pop(each, now) for each in generators if isinstance(each, GeneratorVariable)}
    if all(isinstance(each, GeneratorVariable) for each in generators):
        held = _within(tx, (each for frame in reversed(tx.frames) for each in frame.held()), set(generators))
        generators = [each for each in generators if each not in held]
    if not generators:
        return
    roots = [each for frame in tx.frames for each in frame.held()]
    roots += [tx.result] if is_handed and not tx.anchors else []
    alive = {*_unpacked(reachable([*roots, *([tx.handled] if tx.handled is not None else [])], tx.ledger))}
    handed = _within(tx, [tx.result], set(generators)) if is_handed and tx.anchors else ()
    for each in generators:
        if not isinstance(each, GeneratorVariable) and not any(_object(other) is _existing(each) for other in alive):
            tx.split_next = GraphBreak("a value ends", each.describe())
    shown = [each.frame for each in alive if isinstance(each, FrameVariable)]
    alive |= _within(tx, [each for frame in shown for each in frame.held()])  # by tracebacks
    for each in generators:
        if not isinstance(each, GeneratorVariable):
            continue
        if each in alive or each in _within(tx, each.reachable()):  # what holds itself ends when the collector runs
            continue
        if each in handed or not _is_own(tx, each):
            tx.overdue[each] = now
            continue
        if dropped_at[each] != now:
            raise GraphBreak(ENDS_INSIDE, each.describe())
        try:
            each.method(tx, "close", [], {})
        except Observed as raised:
            raise SkipFrame(f"{LEFT}, and raises") from raised


def check_replaced(tx: Translator, targets: Iterable[Any]) -> None:
    """Raises GraphBreak where a write to what existed takes the place of a value whose end may be seen."""
    for target in dict.fromkeys(targets):
        if target is None or not exists(target):
            continue
        told = [value for name in tx.ledger.stores(target) or [None] for value in _told(tx, target, name)]
        kept = {id(_object(each)) for each in now_kept(target, tx.ledger)} if told else set()
        if any(id(each) not in kept for each in told):
            raise GraphBreak("a value ends", f"in {target.describe()}")


def _told(tx: Translator, target: Variable, name: str | None) -> list[Any]:
    """What of an attribute, or of the contents of a container (None), tells of its end, as it was before the frame."""
    found = tx.telling.get((target, name))
    if found is None:
        values = _contents(target) if name is None else [_attribute(target.real(), name)]
        found = tx.telling[target, name] = _telling(values)
    return found


def _attribute(real: Any, name: str) -> Any:
    """The value of an attribute, a cell or a global as it stands there."""
    if is_a(real, CellType):
        return next(iter(gc.get_referents(real)), None)
    if type(real) is dict:  # a namespace
        return dict.get(real, name)
    found = inspect.getattr_static(real, name, None)
    if not is_a(found, MemberDescriptorType):
        return found
    try:
        return found.__get__(real)
    except AttributeError:
        return None


def _contents(container: Variable) -> list[Any]:
    """What an existing container holds, whatever its class says."""
    if isinstance(container, MutableSequence):
        walk: Any = container.NATIVE.__iter__  # type: ignore[attr-defined]
        return [] if container.was is None else [*walk(container.was)]
    real = container.real()
    if is_a(real, dict):
        return [*dict.keys(real), *dict.values(real)]
    return [*set.__iter__(real)] if is_a(real, set) else []


def _telling(values: list[Any]) -> list[Any]:
    """Those whose end may be seen."""
    types = {*map(type, values)}
    telling = {each for each in types if issubclass(each, _MAY_TELL) or lookup(each, "__del__") is not MISSING}
    return [value for value in values if type(value) in telling and is_given(value)] if telling else []


#: Besides what has a `__del__`.
_MAY_TELL = (BaseException, *_RUN_ON, dict, list, tuple, set)


def check_unwound(tx: Translator, frame: Frame) -> None:
    """Raises SkipFrame for a frame that an exception leaves, whose traceback would keep an existing generator alive."""
    if tx.given_generators and any(_existing(each) is not None for each in frame.held()):
        raise SkipFrame(f"{LEFT} by a traceback")


def check_left(tx: Translator, frame: Frame, error: Variable) -> None:
    """Raises GraphBreak for a frame of a nested run that an exception has left, whose traceback would keep a generator
    alive. (Nobody gets that of a generator which is closed.)"""
    if error.python_type() is not GeneratorExit and used(tx, frame.held(), len(tx.generators)):
        raise GraphBreak(ENDS_INSIDE, frame.name)


def _within(
    tx: Translator, values: Iterable[Variable], wanted: set[Variable] | None = None, kept: Container[Variable] = ()
) -> set[Variable]:
    """What the values hold, the nearest first; no further than to where all that is `wanted` is found. Not what is
    `kept`, nor what that holds, nor constants by themselves."""
    seen: set[Variable] = set()
    work = deque(values)
    plain = () if tx.ledger.classes else (ConstantVariable,)  # there may be very many
    left = None if wanted is None else set(wanted)
    while work and left != set():
        variable = work.popleft()
        if variable not in seen and variable not in kept:
            seen.add(variable)
            if left is not None:
                left.discard(variable)
            if _may_hold(tx, variable):
                work.extend(each for each in children(variable, tx.ledger) if type(each) not in plain)
    return seen


def _may_hold(tx: Translator, variable: Variable) -> bool:
    """Whether it may hold what the frame made, besides itself."""
    if variable.source is not None or (type(variable) in _HOLD_NOTHING and not tx.ledger.classes):
        return tx.ledger.touched(variable)
    return True


def check_ends(frames: list[Frame], inst: Inst | None) -> None:
    """At a graph break before `inst`. Raises SkipFrame where an argument that a call not yet made will be told the end
    of waits on the stack: there it would live until the function that goes on has returned."""
    for frame in frames:
        own = (inst.arg or 0) + _BESIDE if inst is not None and frame is frames[-1] else 0
        for waiting in frame.stack[: max(len(frame.stack) - own, 0)]:
            if waiting is not NULL and any(waiting.real() is each for each in _TOLD):
                raise SkipFrame(f"{SEES_END} ({waiting.describe()} waits for an argument)")
