"""`if` and `while` on tensors: both sides of a branch are read, and the graph has each as a graph of its own, of which
it runs the one that the tensor asks for.

That is right where the sides only compute, and agree in all but the tensors that they leave behind, and where these
look the same whichever side they come from. All else breaks the graph at the branch. A side ends where all ways from
the branch lead to, or where the frame returns. One that leads back to the branch is the body of a loop, which ends with
the loop's condition.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import get_gradient_edge

from symbolic.branches import DECIDE, Choice, branch, chosen, joined, loop
from symbolic.code import Code, Inst, successors
from symbolic.errors import GraphBreak, Observed, Restart, SkipFrame
from symbolic.frames import Frame
from symbolic.inner import InnerGraph
from symbolic.torch_state import TorchState
from symbolic.variables.base import NULL, Variable
from symbolic.variables.checkpoints import reachable
from symbolic.variables.constants import ConstantVariable, is_a
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.either import EitherTensor, memory
from symbolic.variables.generators import GeneratorVariable
from symbolic.variables.native import IteratorVariable
from symbolic.variables.numbers import NumberVariable, inverse_of, is_read, truth_of
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tensors import NumberOutput, TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: The opcode, none of Python's, that stands where a side ends.
END = "<end of a side>"
#: Stands for the instruction at which the frame is left.
_LEFT = -1
#: How many branches may lie in one another.
_DEEPEST = 6
_MOVING = (IteratorVariable, GeneratorVariable)
#: What a side leaves in a place: a local by its name, or what lies on the stack by its number.
Places = dict[str | int, Variable | None]


class Unlike(Exception):
    """The sides do more than compute, or are no two ways to the same."""


def may_join(tx: Translator, frame: Frame, value: Variable) -> bool:
    """Whether a branch on the truth of a value is one that is read along both sides."""
    return _decides(value) and may_decide(tx, frame) and all(inner.operation is not chosen for inner in tx.graph.inner)


def _decides(value: Variable | None) -> bool:
    if isinstance(value, TensorVariable):
        return value.fake.numel() == 1
    return isinstance(value, NumberVariable) and is_read(value)


def may_decide(tx: Translator, frame: Frame) -> bool:
    """Whether there may be graphs here of which the graph around them decides what is done."""
    return (
        not (tx.options.break_everywhere or frame.is_generator or tx.waiting or tx.given_generators or tx.hooks)
        and all(inner.operation in DECIDE for inner in tx.graph.inner)
        and len(tx.graph.inner) < _DEEPEST
        and tx.graph.shapes is None
    )


def join(tx: Translator, frame: Frame, value: Variable, target: int, when: bool) -> None:
    """The frame goes on where both sides of the branch lead to: the instruction at `target` `when` the value is true,
    and the next one. Raises GraphBreak where they do not come to the same."""
    frames = list(tx.frames)
    try:
        _look_at_tensors(tx, frame)
        true, false = (target, frame.index) if when else (frame.index, target)
        end = _end(frame.code, frame.current)
        back = [_leads_back(frame.code, start, frame.current, end) for start in (true, false)]
        if not any(back):
            _branch(tx, frame, value, (true, false), end)
        elif all(back):
            raise Unlike
        else:
            _loop(tx, frame, value, (true, false), back[0])
    except (GraphBreak, Observed, SkipFrame, Unlike):
        pass
    except Restart as restart:
        if restart.step < tx.anchor():
            raise
    else:
        return
    tx.frames[:] = frames
    tx.truth(value)  # says what is asked; nothing goes on from here, where sides were read
    raise GraphBreak("branch on a tensor", value.describe())


def _look_at_tensors(tx: Translator, frame: Frame) -> None:
    """Tensors that came in and nobody has looked at yet: one of the sides may, and how they end is known then."""
    for name, each in frame.locals.items():
        if is_a(getattr(each, "value", None), torch.Tensor) and not isinstance(each, TensorVariable):
            frame.locals[name] = each.realize(tx)


# --- where sides end --------------------------------------------------------------------------------------------------
def _way(code: Code, start: int, goal: int, without: int = _LEFT - 1) -> list[int]:
    """Instructions by which one comes from one to another, and not through a third; [] if there is no such way."""
    came_from, waiting = {start: start}, [start]
    while waiting and goal not in came_from:
        index = waiting.pop()
        for each in list(successors(code.whole, index)) or [_LEFT]:
            if each not in came_from and each != without:
                came_from[each] = index
                if each != _LEFT:
                    waiting.append(each)
    way = [goal] if goal in came_from else []
    while way and way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _end(code: Code, index: int) -> int:
    """The first instruction that all ways from this one lead to, `_LEFT` if they only end with the frame."""
    for each in _way(code, index, _LEFT)[1:]:
        if not _way(code, index, _LEFT, each):
            return each
    return _LEFT


def _leads_back(code: Code, start: int, branch: int, end: int) -> bool:
    """Whether one may come from the one side of a branch to the branch again, and not by where both sides end."""
    return start != end and bool(_way(code, start, branch, end))


# --- reading one ------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Side:
    """What one side comes to. `end`: where, -1 if the frame returns: what, is in the place 0."""

    inner: InnerGraph
    end: int
    places: Places
    memories: set[int]  # of the tensors before it

    def has(self, tensor: TensorVariable) -> bool:
        """Whether the tensor came of it."""
        return tensor.node.graph is self.inner.graph


def _read(tx: Translator, frame: Frame, start: int, end: int, inner: InnerGraph) -> Side:
    """Reads a side into a graph of its own. Raises what stands in the way."""
    code = frame.code
    insts = [*code.insts]
    if end >= 0:
        insts[end] = Inst(END, 0, None, insts[end].offset, insts[end].line)
    own: Any = copy.copy(frame)
    own.code = dataclasses.replace(code, insts=insts, part_of=code.whole)
    own.locals, own.cells, own.stack, own.loops = dict(frame.locals), dict(frame.cells), list(frame.stack), {}
    own.index, own.on_return, own.reading = start, None, None
    before = World(tx)
    tx.frames.pop()
    try:
        with tx.graph.into(inner):
            result = tx.run(own)
    finally:
        tx.frames.append(frame)
    before.check(tx)
    if own.current == end:
        return Side(inner, end, {**own.locals, **dict(enumerate(own.stack))}, before.memories)
    if insts[own.current].op == END:  # of a side around this one
        raise Unlike
    return Side(inner, -1, {0: result}, before.memories)


class World:
    """What a side must leave as it is: all but tensors of its own, and what it keeps them in."""

    def __init__(self, tx: Translator) -> None:
        self.known = reachable(tx, [])
        self.memories = {memory(variable.fake) for variable in tx.graph.by_fake.values()}
        self.marks = self._marks(tx)
        self.state = vars(TorchState())
        self.written = len(tx.ledger.written)
        self.changes = tx.graph.fake_mode.writes
        self.moving = {each: _state(each) for each in self.known if isinstance(each, _MOVING)}

    @staticmethod
    def _marks(tx: Translator) -> tuple[Any, ...]:
        lists: list[Any] = [tx.hooks, tx.waiting, tx.late_texts, tx.overrides.modes]
        return tx.handled, tx.first_check, tx.graph.moves, *map(len, lists)

    def check(self, tx: Translator) -> None:
        self.memories.update(memory(variable.fake) for variable in tx.graph.tensors())  # those that it read first, too
        if self._marks(tx) != self.marks or vars(TorchState()) != self.state:
            raise Unlike
        for target in tx.ledger.written[self.written :]:
            if target is None or target.source is not None or target in self.known:
                raise Unlike
        for written in tx.graph.fake_mode.written[self.changes :]:
            if not written or not written.isdisjoint(self.memories):
                raise Unlike
        if any(_state(each) != before for each, before in self.moving.items()):
            raise Unlike


def _state(moving: Any) -> Any:
    """Of an iterator or generator: something else when it has moved."""
    if isinstance(moving, GeneratorVariable):
        return moving.state, moving.frame.index
    held = [getattr(moving, name) for name in moving.STATE]
    return [list(each) if isinstance(each, list) else each for each in held]


# --- what both come to ------------------------------------------------------------------------------------------------
def _branch(tx: Translator, frame: Frame, value: Variable, starts: tuple[int, int], end: int) -> None:
    sides = [_read(tx, frame, start, end, new_graph(tx, branch)) for start in starts]
    if sides[0].end != sides[1].end:
        raise Unlike
    places = _kept(frame.code, sides)
    pairs = Pairs(sides)
    merged = {place: pairs.merge(tx, *(side.places.get(place) for side in sides)) for place in places}
    pairs.record(tx, truth(tx, value, True))
    _go_on(tx, frame, sides[0].end, {place: pairs.settled(tx, found) for place, found in merged.items()})


def new_graph(tx: Translator, operation: Any) -> InnerGraph:
    """One for a side."""
    tx.repeats.tell(None)
    tx.graph.branches += 1
    return InnerGraph(operation, tx.anchor(), len(tx.frames), {})


def _kept(code: Code, sides: list[Side]) -> list[str | int]:
    """The places that matter from there on."""
    first, second = (side.places for side in sides)
    if sides[0].end < 0:
        return [0]
    stacks = [{place for place in places if isinstance(place, int)} for places in (first, second)]
    if stacks[0] != stacks[1]:
        raise Unlike
    return [*stacks[0], *(name for name in code.live[sides[0].end] if name in first or name in second)]


def _go_on(tx: Translator, frame: Frame, end: int, places: Places) -> None:
    if end < 0:
        result = places[0]
        assert result is not None
        tx.return_value(result)
        return
    frame.index = end
    stack = sorted(place for place in places if isinstance(place, int))
    frame.stack[:] = [places[place] for place in stack]  # type: ignore[misc]
    held = [frame.locals.pop(name, None) for name in list(frame.locals)]
    if not all(each is None or each is NULL or _ends_unseen(each) or each in places.values() for each in held):
        raise Unlike
    frame.locals.update({name: each for name, each in places.items() if isinstance(name, str) and each is not None})


def _ends_unseen(variable: Variable) -> bool:
    waiting, seen = [variable], {variable}
    while waiting:
        each = waiting.pop()
        if isinstance(each, (TupleVariable, ListVariable)):
            new = [item for item in each.items if item not in seen]
            seen.update(new)
            waiting += new
        elif not isinstance(each, (TensorVariable, ConstantVariable, NumberVariable, SymbolVariable)):
            return False
    return True


class Pairs:
    """The tensors that stand in the same places of two sides, and what they become: results of the branch."""

    operation: Callable[..., Any] = branch

    def __init__(self, sides: list[Side]) -> None:
        self.sides = sides
        self.choice = Choice()
        self.found: dict[tuple[TensorVariable, TensorVariable], TensorVariable | None] = {}

    def merge(self, tx: Translator, one: Variable | None, other: Variable | None) -> Any:
        """The variable that both are, a pair of tensors, or a list of what is in two tuples."""
        if one is other:
            return one
        if one is None or other is None or one.python_type() is not other.python_type():
            raise Unlike
        if isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
            self.check(one, other)
            self.found[one, other] = None
            return one, other
        if isinstance(one, ConstantVariable) and isinstance(other, ConstantVariable):
            if one.value is other.value or repr(one.value) == repr(other.value) and one.value == other.value:
                return one
        elif isinstance(one, TupleVariable) and isinstance(other, TupleVariable) and one.python_type() is tuple:
            if len(one.items) == len(other.items):
                return [self.merge(tx, *items) for items in zip(one.items, other.items, strict=True)]
        raise Unlike

    def check(self, one: TensorVariable, other: TensorVariable) -> None:
        if not alike(one, other):
            raise Unlike

    def settled(self, tx: Translator, merged: Any) -> Variable | None:
        if isinstance(merged, list):
            return tx.new_tuple([found for each in merged if (found := self.settled(tx, each)) is not None])
        return self.found[merged] if isinstance(merged, tuple) else merged

    def record(self, tx: Translator, condition: Variable) -> None:
        """Ends the graphs of the sides, and puts the branch into the graph around them."""
        results = []
        for at, side in enumerate(self.sides):
            given = [pair[at] for pair in self.found]
            check_apart(given, side)
            with tx.graph.into(side.inner):
                tx.graph.end_inner(side.inner, tx.new_tuple([*given]))
        for pair in self.found:
            self.found[pair] = made = self.made(tx, pair)
            tx.graph.chosen.add(memory(made.fake))
            results.append(made)
        graphs = [tx.graph.add_inner(side.inner) for side in self.sides]
        tx.graph.add_region(type(self).operation, [condition, *graphs], results)

    def made(self, tx: Translator, pair: tuple[TensorVariable, TensorVariable]) -> TensorVariable:
        """What stands for a result of both."""
        own = [each for each, side in zip(pair, self.sides, strict=True) if side.has(each)]
        is_plain = len(own) == len(pair) and not any(each.is_unsure for each in own)
        fake = self._with_history(tx, pair)
        if not is_plain:
            return _either(tx, (*own, *pair)[0], pair, fake)
        if fake is not None:
            tx.graph.go_on(pair[0], TensorVariable(pair[0].node, fake, pair[0].cls))
        return pair[0]

    def _with_history(self, tx: Translator, pair: tuple[TensorVariable, TensorVariable]) -> torch.Tensor | None:
        """A stand-in that has the history of both, where they have one."""
        one, other = (each.fake for each in pair)
        if not one.requires_grad:
            return None
        with tx.graph.fake_mode, torch.enable_grad():
            fake = joined(self.choice, one, other)
        if _looks(TensorVariable(pair[0].node, fake, pair[0].cls)) == _looks(pair[0]):
            return fake
        tx.graph.undivided.update(each.grad_fn for each in (one, other))
        return None


def check_apart(given: list[TensorVariable], side: Side) -> None:
    """No two tensors that a side leaves behind are one, or lie in the same memory, or in that of another."""
    own = [memory(each.fake) for each in given if side.has(each)]
    if len(set(own)) < len(own) or len(set(given)) < len(given) or not side.memories.isdisjoint(own):
        raise Unlike


def _either(
    tx: Translator, like: TensorVariable, those: Iterable[TensorVariable], fake: torch.Tensor | None = None
) -> EitherTensor:
    """A tensor that looks like one, and may be one of those."""
    made = EitherTensor(like.node, such(tx, like) if fake is None else fake, like.cls)
    if fake is None and made.fake.requires_grad:
        with torch.enable_grad():  # a leaf's node is found through a view of it
            tx.graph.undivided.add(get_gradient_edge(made.fake).node)
    tx.graph.by_fake[id(made.fake)] = made
    tx.graph.unsure.update(memory(each.fake) for each in (*those, made))
    return made


def such(tx: Translator, variable: TensorVariable) -> torch.Tensor:
    """A new stand-in for a tensor that looks like this one."""
    with tx.graph.fake_mode, torch.set_grad_enabled(variable.fake.requires_grad):
        fake = variable.fake.clone()
        if fake.requires_grad and variable.fake.is_leaf:
            fake = fake.detach().requires_grad_()
    if _looks(TensorVariable(variable.node, fake, variable.cls)) != _looks(variable):
        raise Unlike
    return fake


def alike(one: TensorVariable, other: TensorVariable) -> bool:
    """Whether two tensors look the same."""
    return not isinstance(one, NumberOutput) and not isinstance(other, NumberOutput) and _looks(one) == _looks(other)


def _looks(variable: TensorVariable) -> tuple[Any, ...]:
    """What a program sees of a tensor, but for its values."""
    fake = variable.fake
    return (
        variable.cls, fake.shape, fake.stride(), fake.dtype, fake.device, fake.layout, fake.requires_grad, fake.is_leaf,
        fake.is_conj(), fake.is_neg(), fake._is_view(), fake.is_inference(), fake.storage_offset(),
    )  # fmt: skip


# --- loops ------------------------------------------------------------------------------------------------------------
def _loop(tx: Translator, frame: Frame, value: Variable, starts: tuple[int, int], goes_on: bool) -> None:
    """The way from one of the `starts` to the branch is the body, which is done while the truth of the value is
    `goes_on`; then the frame goes on at the other."""
    start, end = starts if goes_on else starts[::-1]
    at, live, before = frame.current, frame.code.live[start] | frame.code.live[end], dict(frame.locals)
    carried = _changed(frame, _read(tx, frame, start, at, new_graph(tx, loop)), live)
    inner = new_graph(tx, loop)
    for name, (given, _) in carried.items():
        frame.locals[name] = tx.graph.add_inner_input(inner, given.node.name, such(tx, given))
    side = _read(tx, frame, start, at, inner)
    after = _changed(frame, side, live)
    frame.locals.clear()
    frame.locals.update(before)
    condition = side.places[len(frame.stack)]
    if after.keys() != carried.keys() or condition is None or not _decides(condition):
        raise Unlike
    left = [after[name][1] for name in carried]
    check_apart(left, side)
    if not all(map(side.has, left)):
        raise Unlike
    with tx.graph.into(inner):
        tx.graph.end_inner(inner, tx.new_tuple([truth(tx, condition, goes_on), *left]))
    given_first = [given for given, _ in carried.values()]
    made = [_either(tx, given, [given]) for given in given_first]
    described = [truth(tx, value, goes_on), tx.graph.add_inner(inner), tx.new_tuple([*given_first])]
    tx.graph.add_region(loop, described, [*made])
    frame.locals.update(zip(carried, made, strict=True))
    frame.index = end


def truth(tx: Translator, condition: Variable, when: bool) -> Variable:
    """What is true where the condition is, or where it is not."""
    if isinstance(condition, TensorVariable):
        return condition if when else tx.graph.call(torch.logical_not, [condition])
    found = truth_of(tx, condition) if when else inverse_of(tx, condition)
    if not isinstance(found, NumberVariable):
        raise Unlike
    return found


def _changed(
    frame: Frame, side: Side, live: frozenset[str]
) -> dict[str, tuple[TensorVariable, TensorVariable]]:
    """The locals that a turn of a loop changes, which are tensors before and after it. Nothing else may differ."""
    stack = [side.places.get(at) for at in range(len(frame.stack))]
    if side.end < 0 or any(one is not other for one, other in zip(stack, frame.stack, strict=True)):
        raise Unlike
    found = {}
    for name in sorted(live):
        before, after = frame.locals.get(name), side.places.get(name)
        if before is after:
            continue
        if not isinstance(before, TensorVariable) or not isinstance(after, TensorVariable) or not alike(before, after):
            raise Unlike
        found[name] = before, after
    return found
