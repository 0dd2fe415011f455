"""What calls do with what the frame made before them: how a call that is handed a cache can be repeated.

Such a call goes by more than guards and arguments: by the state of what it was handed, which it changes. So what it
does to that is told apart from the rest. A method of such an object, or an item of it that is read or stored, is an
operation: where the call is repeated it is read anew, and only what it answers has to look as it did. What the rest of
the call has looked at itself must not have been written since. Attributes are looked at through the ledger; containers
hide what they hold until somebody looks (`Veiled`). What the call comes by in another way, or writes to itself, makes
it one that is only read.

An int that is taken in meanwhile, and that nobody but operations looked at, may differ from call to call
(`LayerNumber`): that of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from sideeffects.effects import DELETED
from symbolic.sources import Source
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.functions import BoundMethod
from symbolic.variables.mappings import DictVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.sets import SetVariable
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.unread import LayerNumber, Veiled, lift, veil

if TYPE_CHECKING:
    from symbolic.matching import Reading
    from symbolic.translator import Translator

#: What the frame makes and changes in no way but by writes that the ledger tells of.
_MADE = frozenset({ObjectVariable, ListVariable, DictVariable, SetVariable})
#: What an operation may answer with though it is another one each time.
_PASSED_ON = (TensorVariable, TupleVariable)


@dataclass(slots=True, eq=False)
class Operation:
    """`function(*args, **kwargs)`, or `owner.function(tx, *args)` of a protocol: when it began, what came of it."""

    owner: Variable
    function: Variable | str
    args: list[Variable]
    kwargs: dict[str, Variable]
    step: int
    told: int
    written: int
    after: fx.Node
    calls: int
    draws: int
    trace: str
    steps: int = 0
    told_after: int = 0
    written_after: int = 0
    last: fx.Node | None = None
    result: Variable | None = None

    def run(self, tx: Translator) -> Variable | None:
        if isinstance(self.function, str):
            answer: Variable | None = getattr(self.owner, self.function)(tx, *self.args)
            return answer
        return tx.call(self.function, self.args, self.kwargs)

    def is_like(self, other: Operation) -> bool:
        """Whether it is the same operation on the same object."""
        mine, theirs = self.function, other.function
        if self.owner is not other.owner or type(mine) is not type(theirs) or list(self.kwargs) != list(other.kwargs):
            return False
        if isinstance(mine, NativeMethod) and isinstance(theirs, NativeMethod):
            return mine.name == theirs.name
        if isinstance(mine, BoundMethod) and isinstance(theirs, BoundMethod):
            return mine.function is theirs.function
        return mine == theirs


@dataclass(slots=True, eq=False)
class Done:
    """What a call did with what the frame made before it."""

    operations: list[Operation] = field(default_factory=list)
    looked_at: set[tuple[Variable, str | None]] = field(default_factory=set)  # places, outside of operations
    #: From what there to what tensors and tuples, and how these looked.
    came_by: list[tuple[Variable, Variable, Any]] = field(default_factory=list)
    begun: int = 0  # so many places had been written
    led: list[tuple[Variable, Variable]] = field(default_factory=list)  # from what to what it came

    def is_seen(self, written: list[tuple[Variable, str | None]]) -> bool:
        """Whether what it looked at is another since these places were written, and whatever changes tensors."""
        return not self.looked_at.isdisjoint(written) or any(_look(each) != was for _, each, was in self.came_by)


class Operations:
    """Of one capture, as long as a call is read that was handed something the frame made."""

    def __init__(self, tx: Translator) -> None:
        self.tx = tx
        self.open: list[Reading] = []
        self.current: Operation | None = None
        self.done: list[Operation] = []
        self._looked_at: list[tuple[Variable, str | None]] = []  # places, while no operation was under way
        self._came_by: list[tuple[Variable, Variable, Any]] = []  # from what to what tensors, how these looked then
        self._led: list[tuple[Variable, Variable]] = []  # from what to what
        self._handed: dict[Variable, None] = {}  # all that led to, and the arguments
        self._lifted: list[Any] = []  # by the operation under way

    @property
    def is_inside(self) -> bool:
        """Whether an operation is under way."""
        return self.current is not None

    @property
    def is_on(self) -> bool:
        return bool(self.open) and self.current is None

    # --- calls of modules -------------------------------------------------------------------------------------------
    def begin(self, call: Reading) -> None:
        """A call that was handed what the frame made is read, or repeated."""
        if self.current is not None:
            return
        while self.open and self.open[-1].depth >= call.depth:
            self.open.pop()  # an exception went through it
        if not self.open:
            self.close()
        call.is_watched = True
        ledger = self.tx.ledger
        logs = (self.done, self._led, self._looked_at, self._came_by, ledger.written, ledger.places)
        call.marks = tuple(map(len, logs))  # type: ignore[arg-type]
        self.open.append(call)
        ledger.watch = self._look
        for made in call.made:
            self._hand(made)
        for each in self._handed:
            self._hide(each)

    def end(self, call: Reading) -> Done | None:
        """What the call did. None if it can't be done again."""
        if call not in self.open:
            return Done() if not call.made else None
        if self.current is not None:  # an exception went through it, and what was looked at since is not known
            self.close()
            return None
        found = self._done(call) if self.open[-1] is call else None
        del self.open[self.open.index(call) :]
        if not self.open:
            self.close()
        return found

    def _done(self, call: Reading) -> Done | None:
        done, led, looked_at, came_by, written, begun = call.marks
        known = set(call.made)
        for one, other in self._led[led:]:
            if one in known:
                known.add(other)
        operations = self.done[done:]
        if any(each.owner not in known or each.draws for each in operations) or not all(map(_is_plain, known)):
            return None
        log, at = self.tx.ledger.written, written
        for each in operations:
            if not known.isdisjoint(log[at : each.written]):
                return None
            at = each.written_after
        if not known.isdisjoint(log[at:]):
            return None
        places = {place for place in self._looked_at[looked_at:] if place[0] in known}
        places |= {(each, "__class__") for each in known}
        shared = [each for each in self._came_by[came_by:] if each[0] in known]
        found = Done(operations, places, shared, begun, self._led[led:])
        # In what memory tensors lie that are found there is not compared.
        is_turned = bool(operations or shared) and writes(self.tx, call.after, call.writes)
        return None if is_turned or found.is_seen(self.tx.ledger.places[begun:]) else found

    def repeat(self, done: Done) -> None:
        """A call is repeated: for those around it, it does what the one before did."""
        if self.is_on:
            self._looked_at += done.looked_at
            self._came_by += done.came_by
            for one, other in done.led:
                self._led.append((one, other))
                self._hand(other)

    def repeated(self, call: Reading) -> None:
        if call in self.open:
            del self.open[self.open.index(call) :]
            if not self.open:
                self.close()

    def close(self) -> None:
        self.tx.ledger.watch = None
        for each in self._handed:
            if isinstance(each, Veiled):
                lift(each)
        for log in (self.done, self._led, self._looked_at, self._came_by, self._lifted):
            log.clear()
        self._handed.clear()
        self.open.clear()
        self.current = None

    # --- operations -------------------------------------------------------------------------------------------------
    def call(self, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Operation | None:
        """A call that begins, if it is an operation."""
        if type(function) not in (BoundMethod, NativeMethod) or function.owner not in self._handed:  # type: ignore
            return None
        return self.start(function.owner, function, args, kwargs)  # type: ignore[attr-defined]

    def item(self, owner: Variable, name: str, args: list[Variable]) -> Operation | None:
        return self.start(owner, name, args, {}) if self.is_on and owner in self._handed else None

    def start(
        self, owner: Variable, function: Variable | str, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Operation:
        tx, graph = self.tx, self.tx.graph
        self.current = Operation(
            owner, function, args, kwargs, tx.step, len(tx.repeats.log), len(tx.ledger.written),
            graph.graph._root.prev, graph.calls, graph.draws, tx.stack_trace(),
        )  # fmt: skip
        tx.ledger.watch = None
        return self.current

    def finish(self, operation: Operation, result: Variable | None) -> None:
        if operation is not self.current:
            return
        tx, graph = self.tx, self.tx.graph
        operation.result, operation.steps, operation.last = result, tx.step - operation.step, graph.graph._root.prev
        operation.told_after, operation.written_after = len(tx.repeats.log), len(tx.ledger.written)
        operation.calls, operation.draws = graph.calls - operation.calls, graph.draws - operation.draws
        self.current = None
        self.done.append(operation)
        tx.ledger.watch = self._look
        for each in self._lifted:
            self._hide(each)
        self._lifted.clear()
        if result is not None:
            self._led.append((operation.owner, result))
            self._hand(result)

    # --- what is looked at ------------------------------------------------------------------------------------------
    def number(self, value: int, source: Source) -> ConstantVariable:
        return LayerNumber(value, source, self)

    def _look(self, target: Variable, name: str | None, found: Any) -> None:
        """An attribute of the target, or all of them, are looked at, and this is found."""
        self._looked_at.append((target, name))
        if isinstance(found, Variable) and found is not DELETED:
            self._come_by(target, found)

    def _look_in(self, container: Any) -> None:
        if self.current is not None:
            self._lifted.append(container)
            return
        self._looked_at.append((container, None))
        for each in container.reachable():
            self._come_by(container, each)

    def _come_by(self, holder: Variable, found: Variable) -> None:
        self._led.append((holder, found))
        self._came_by += ((holder, each, _look(each)) for each in parts(found) if isinstance(each, _PASSED_ON))
        self._hand(found)

    def _hand(self, found: Variable) -> None:
        """The call that is read comes by it."""
        if type(found) is TupleVariable:
            for item in found.items:
                self._led.append((found, item))
                self._hand(item)
        elif is_made(found):
            if found not in self._handed:
                self._handed[found] = None
                self._hide(found)

    def _hide(self, made: Variable) -> None:
        if isinstance(made, Veiled):
            veil(made, self._look_in)


def writes(tx: Translator, after: fx.Node, before: int) -> bool:
    """Whether what was recorded after this node, and so many writes, may change tensors."""
    return tx.graph.fake_mode.writes != before or any(map(changes_tensor, following(after)))


def following(node: fx.Node) -> Iterator[fx.Node]:
    """What was recorded after it."""
    node = node.next
    while node.op != "root":
        yield node
        node = node.next


def changes_tensor(node: fx.Node) -> bool:
    """Whether it may change a tensor though no operation says so: `requires_grad_` and its like."""
    return node.op == "call_method" and str(node.target).endswith("_")


def flat(variables: Any) -> Iterator[Variable]:
    for each in variables:
        if type(each) is TupleVariable:
            yield from flat(each.items)
        else:
            yield each


def parts(variable: Variable) -> Iterator[Variable]:
    """The variable and, of a tuple, all that is in it."""
    yield variable
    if type(variable) is TupleVariable:
        for each in variable.items:
            yield from parts(each)


def is_made(variable: Variable) -> bool:
    """Whether the frame made it, and it can change. (One with a part of a built-in type is left out.)"""
    if type(variable) not in _MADE or variable.source is not None:
        return False
    return type(variable) is not ObjectVariable or variable.payload is None


def _is_plain(variable: Variable) -> bool:
    """Whether it is one of those that a call may come by."""
    kinds = (ConstantVariable, TensorVariable, TupleVariable)
    return isinstance(variable, kinds) or is_made(variable) or exists(variable)


def exists(variable: Variable) -> bool:
    """Whether it was there before the frame."""
    return variable.source is not None and not variable.source.is_made


def _look(variable: Variable) -> Any:
    return look(variable.fake) if isinstance(variable, TensorVariable) else None


def lies(variable: TensorVariable) -> int:
    """What memory a tensor lies in."""
    return variable.fake.untyped_storage()._cdata


def look(fake: torch.Tensor) -> tuple[Any, ...]:
    """All that reading goes by of a tensor that is handed on."""
    is_view = fake._is_view()
    history = (fake.is_leaf, fake.output_nr, fake.retains_grad) if fake.requires_grad else None
    made = torch._C._autograd._get_creation_meta(fake) if is_view and not fake.is_inference() else None
    claims = is_view and not fake.is_inference() and fake._base.requires_grad  # type: ignore[union-attr]
    return (
        type(fake), fake.dtype, fake.device, fake.layout, tuple(fake.shape), fake.stride(), fake.storage_offset(),
        fake.requires_grad, torch._C._dispatch_keys(fake).raw_repr(), is_view, made, claims, history,
    )  # fmt: skip
