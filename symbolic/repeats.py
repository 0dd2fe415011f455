"""Calls of modules that are equal to one before: read once, and repeated.

Of a call of a module the log has every fact that was told of what lies at the module's path and every value that was
taken in from there, in order. The guards of a capture are all that its outcome depends on; so the same code, called in
the same state on arguments that look the same, comes to the same operations and the same result if each of these facts
holds of what lies at another module's path. That is looked up fact by fact, on the objects themselves: values are taken
in as reading would (`Translator.wrap`), which tells the same facts in the same order, so that up to a difference
nothing is told that reading would not have told. Only when all of them hold are the operations repeated.

That paths may be exchanged in this way is not taken for granted. Of two calls, one after the other, both are read in
full; only if what was told and recorded by the second is that of the first, but for the path, is a third repeated.

A call is read anew if anything is out of the ordinary: anything below the module was looked at before; the frame has
since written to what was there before it, or to a tensor; a tensor's history was asked for; a fact is of a kind that
has no row in `HOLDS`; or anything but tensors, constants and tuples of them is returned. Of a call that is handed what
the frame made, and may have changed, `operations` tells.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from sideeffects.effects import DELETED
from symbolic.answers import Answers, Question
from symbolic.dropped import check_replaced
from symbolic.errors import GraphBreak, Observed, Restart, Unlike
from symbolic.fakes import Recipe, memories
from symbolic.guards import Guard
from symbolic.matching import HOLDS, Differs, Event, Facts, Found, Match, Place, Reading
from symbolic.operations import Done, Operation, Operations, changes_tensor, flat, following, is_made, look, writes
from symbolic.sources import Source
from symbolic.torch_state import TorchState
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable, is_a
from symbolic.variables.containers import TupleVariable
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.objects import ObjectVariable, instance_dict
from symbolic.variables.tensors import MOVES, TensorVariable
from symbolic.wrap import another_dict

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Parts of a capture that a call which is repeated leaves as they are, by what there is of them. The first two say how
#: deep in other calls it is.
_OF_CAPTURE = operator.attrgetter(
    "anchors", "frames", "buffers", "copied", "drawn_from", "hashed", "hooks", "late_texts", "models",
    "moved_generators", "numbers_hashed", "own_keys", "private_memos", "shown_errors", "shown_under",
    "stored_on_classes",
    "told_in_modes", "weak_references",
)  # fmt: skip
_OPERATIONS = frozenset({"call_function", "call_method"})
#: A call that is being read.
Call = Reading | Question | Operation
_META = {"stack_trace", "example_value"}
#: After so many calls in a row that were not like the one before, others of their kind are only read.
TRIES = 3
#: How much is looked at to know what calls can get at. Where objects that are written hold more, calls are only read:
#: looking through a long list after each write costs more than it saves.
MOST_LOOKED_AT = 50_000


@dataclass(slots=True, eq=False)
class Record:
    """A call of a module that was read: what it told below its path, what it recorded, how far it came."""

    call: Reading
    events: Sequence[Event]
    script: list[fx.Node | Operation]
    done: Done
    result: Variable
    steps: int
    started: int
    calls: int
    draws: int
    is_writing: bool  # into tensors that it did not make
    #: The stand-ins of its result, and how others are made; None: by its operations.
    made: list[tuple[torch.Tensor, Recipe]] | None = None
    facts: Facts | None = None  # its events, once it may be repeated
    checked: int = 0  # so many writes have not changed what it looked at

    @property
    def nodes(self) -> list[fx.Node]:
        """Without those of operations on what the frame made."""
        return [each for each in self.script if isinstance(each, fx.Node)]


class Repeats:
    """The calls of modules in one capture."""

    def __init__(self, tx: Translator, enabled: bool) -> None:
        self.tx = tx
        self.enabled = enabled
        self.log: list[Event] = []
        self.repeated = 0  # calls
        self._last: dict[Any, Record] = {}
        self._proven: dict[Any, Record] = {}  # the same as one before
        self._unlike: Counter[Any] = Counter()  # calls in a row that were not
        self.answers = Answers(tx, lambda: self._state()[2:])
        self.operations = Operations(tx)
        self.exposed: set[Variable] = set()  # what calls can get at that are not handed it
        self.looked_at = 0  # to find these
        self._memory: set[int] = set()  # of so many inputs, and what calls can get at
        self._lying = 0
        self.effects = 0
        self._seen = self._writes = 0  # writes in the ledger; those that calls can see; effects

    # --- what is told -----------------------------------------------------------------------------------------------
    def tell(self, event: Event) -> None:
        self.log.append(event)

    def found(self, begin: int, value: Any, source: Source, variable: Variable, is_new: bool) -> None:
        """What was told since `begin` was told by taking in this value."""
        log = self.log
        told = log[begin:]
        del log[begin:]
        log.append(Found(source, value, variable, is_new, told, self.tx.started))

    def close(self) -> None:
        """Lets go of everything: the capture is over."""
        self.enabled = False
        self.log.clear()
        self.operations.close()
        self.answers.close()
        self._last.clear()
        self._proven.clear()
        self._unlike.clear()

    # --- calls ------------------------------------------------------------------------------------------------------
    def begin(self, module: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Call | None:
        """A call that may be recorded or repeated; None for others."""
        if not self.enabled or self.tx.ledger.is_reading or self.tx.overrides.modes:  # which see every operation
            return None
        if type(module) is not ObjectVariable:
            if self.operations.is_on:
                if (operation := self.operations.call(module, args, kwargs)) is not None:
                    return operation
                if any(map(is_made, flat((*args, *kwargs.values())))):  # what it looks at has to be seen
                    return None
            return self.answers.begin(module, args, kwargs)
        if not is_a(module.value, torch.nn.Module):
            return None
        source = module.source
        if source is None or source.is_made or source.kind == "const" or not source.is_end or module.payload:
            return None
        given = (*args, *kwargs.values())
        tx, graph = self.tx, self.tx.graph
        looks = {each: look(each.fake) for each in flat(given) if isinstance(each, TensorVariable)}
        key = _key(module, len(args), kwargs, looks)
        if self._unlike[key] > TRIES:
            return None
        made = tuple(each for each in flat(given) if is_made(each))
        call = Reading(
            module, source, given, tuple(kwargs), looks, self._state(), tx.step, tx.started, len(self.log),
            len(tx.known), graph.calls, self.effects, graph.graph._root.prev, tx.stack_trace(), len(tx.generators),
            graph.draws, graph.fake_mode.writes, key, len(tx.frames), made,
        )  # fmt: skip
        if made and tx.options.repeat_operations:
            self.operations.begin(call)
        return call

    def item(self, owner: Variable, name: str, args: list[Variable]) -> Any:
        """Reads (`getitem`) or stores (`setitem`) an item of the owner."""
        operation = self.operations.item(owner, name, args)
        result = getattr(owner, name)(self.tx, *args)
        if operation is not None:
            self.operations.finish(operation, result)
        return result

    def end(self, call: Call, result: Variable) -> None:
        """A call that was read is over."""
        if not self.enabled:
            return
        if isinstance(call, Question):
            return self.answers.end(call, result)
        if isinstance(call, Operation):
            return self.operations.finish(call, result)
        done = self.operations.end(call)
        self._unlike[call.key] += 1
        if done is None:
            return
        tx, graph = self.tx, self.tx.graph
        if self._state() != call.state or self.effects != call.effects or not call.is_clean:
            return
        if any(generator.has_something_left() for generator in tx.generators[call.generators :]):
            return
        told = self.log[call.told :]
        script = list(_script(call.after, done.operations))
        nodes = [each for each in script if isinstance(each, fx.Node)]
        if sum(map(_new, told)) != len(tx.known) - call.known or not all(map(_is_ordinary, nodes)):
            return
        try:
            place = Place(call.source, call.module.value)
            events = list(_once(_concerning(_apart(told, call.told, done.operations, place), place)))
            for event in events:
                _check(event, place)
            record = Record(
                call, events, script, done, result, tx.step - call.step, tx.started - call.step,
                graph.calls - call.calls, graph.draws - call.draws, self._is_writing(call, set(nodes)),
            )  # fmt: skip
            _check_result(result, {node: None for node in nodes})
        except Differs:
            return
        before = self._last.get(call.key)
        if before is not None and self._is_same(before, record):
            self._proven[call.key] = record
            record.made = self._made(record)
            record.checked = done.begun
            record.facts = Facts.of(events, call.source)
            del self._unlike[call.key]
        self._last[call.key] = record

    def repeat(self, call: Call) -> Variable | None:
        """What the call gives, by repeating one that was read; None if it has to be read. Raises `Unlike`."""
        if isinstance(call, Question):
            return self.answers.known(call)
        if isinstance(call, Operation):
            return None
        record, tx = self._proven.get(call.key), self.tx
        if record is None or record.call.state != call.state or self._is_written(record):
            return None
        if any(call.step < step <= call.step + record.steps for step in tx.break_at):
            return None
        try:
            match = self._match(call, record)
            self._look_up(record, call, match)
        except Differs:
            call.is_clean = False
            return None
        finally:
            tx.reads_at, tx.started = None, call.started
        result = self._record(record, call, match)
        tx.step = call.step + record.steps
        tx.started = call.step + record.started
        tx.graph.calls = call.calls + record.calls
        self.repeated += 1
        self.operations.repeated(call)
        return result

    def _is_same(self, old: Record, new: Record) -> bool:
        """Whether the second call came to all that the first did, but for the path."""
        counts = [(each.steps, each.started, each.calls) for each in (old, new)]
        if old.call.state != new.call.state or counts[0] != counts[1]:
            return False
        try:
            match = self._match(new.call, old, new)
            match.each(match.event, old.events, new.events)
            match.each(match.step, old.script, new.script)
            match.same_result(old.result, new.result)
        except Differs:
            return False
        return True

    def _match(self, call: Reading, *records: Record) -> Match:
        """What of the first of the records, of one or two calls, is what of this call. Raises `Differs`."""
        shared = [each for record in records for _, each, _ in record.done.came_by]
        memory = self._known_memory() if any(record.is_writing for record in records) else None
        return Match(records[0].call, call, self.exposed, shared, memory)

    def _known_memory(self) -> set[int]:
        """Where tensors lie that calls may know."""
        inputs = self.tx.graph.inputs
        self._memory |= memories([each.fake for each in inputs[self._lying :] if isinstance(each, TensorVariable)])
        self._lying = len(inputs)
        return self._memory

    def _is_written(self, record: Record) -> bool:
        """Whether what the call looked at, of what the frame made before it, is another now."""
        places = self.tx.ledger.places
        if record.done.is_seen(places[record.checked :]):
            return True
        record.checked = len(places)
        return False

    def _look_up(self, record: Record, call: Reading, match: Match) -> None:
        """Takes in what the record took in. Raises `Differs` at the first fact that is another."""
        tx, log, facts = self.tx, self.log, record.facts
        assert facts is not None
        began = call.step - record.call.step
        sources, values = match.follow(facts, call.module.value)
        for event, at, place, is_plain_dict in facts.rows:
            source, value = sources[at], values[at]
            if isinstance(event, Guard):
                if not HOLDS[event.kind](value, event.payload):
                    raise Differs
                guard = Guard(source, event.kind, event.payload, *place)
                log.append(guard)
                tx.guards.add(guard)
                continue
            tx.reads_at = place
            tx.started = event.started + began
            if is_plain_dict and (new := another_dict(tx, value, source, event.variable)) is not None:
                log.append(Found(source, value, new, True, [log.pop()], tx.started))
                match.variable(event.variable, new)
            else:
                tx.wrap(value, source)
                match.event(event, log[-1])

    def _record(self, record: Record, call: Reading, match: Match) -> Variable:
        """Records the operations once more; answers with their result."""
        graph, outer = self.tx.graph, len(record.call.trace)
        known = None
        if record.made is not None:
            graph.fake_mode.draws += record.draws
            known = match.stand_ins()
            known |= {id(old): graph.fake_mode.made(recipe) for old, recipe in record.made}
        self.operations.repeat(record.done)
        try:
            for each in record.script:
                if isinstance(each, Operation):
                    self._do_again(each, record, call, match, known)
                else:
                    trace = call.trace + each.meta["stack_trace"][outer:]
                    match.nodes[each] = graph.repeat(each, match.node, trace, known)
            result = match.result(record.result, self.tx)
        except Differs as cause:
            raise Unlike from cause
        if record.done.operations and (
            self._state() != call.state or self.effects != call.effects or self._is_written(record)
        ):  # by these, which is more than the record's have
            raise Unlike
        return result

    def _do_again(
        self, done: Operation, record: Record, call: Reading, match: Match, known: dict[int, torch.Tensor] | None
    ) -> None:
        """Reads an operation on what the frame made once more. Raises `Unlike` if it comes to something else."""
        tx, ledger, mode = self.tx, self.tx.ledger, self.tx.graph.fake_mode
        after, written, before = tx.graph.graph._root.prev, len(ledger.written), mode.writes
        tx.step = call.step + done.step - record.call.step
        args = [match.result(arg, tx) for arg in done.args]
        kwargs = {name: match.result(arg, tx) for name, arg in done.kwargs.items()}
        again = self.operations.start(done.owner, done.function, args, kwargs)
        again.trace = above = call.trace + done.trace[len(record.call.trace) :]
        try:
            self.operations.finish(again, again.run(tx))
            match.answered(done.result, again.result)
        except (Differs, GraphBreak, Observed, Restart) as cause:
            raise Unlike from cause
        if (again.steps, again.calls) != (done.steps, done.calls) or writes(tx, after, before):
            raise Unlike
        check_replaced(tx, ledger.written[written:])
        for one, other in zip(flat([done.result]), flat([again.result]), strict=True):
            if known is not None and isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
                known[id(one.fake)] = other.fake
        for node in following(after):
            if "stack_trace" in node.meta:
                node.meta["stack_trace"] = above + node.meta["stack_trace"][len(call.trace) :]

    def _is_writing(self, call: Reading, nodes: set[fx.Node]) -> bool:
        """Whether it may change tensors that it did not make."""
        given = memories(_given(call, nodes))
        written = self.tx.graph.fake_mode.written[call.writes :]
        return any(map(changes_tensor, nodes)) or not all(map(given.isdisjoint, written))

    def _made(self, record: Record) -> list[tuple[torch.Tensor, Recipe]] | None:
        """How the stand-ins of the result are made. None where operations have to run for that: in what they give is
        more than looks, or they change what they are given."""
        mode, nodes = self.tx.graph.fake_mode, set(record.nodes)
        if record.is_writing:
            return None
        handed = [arg for each in record.done.operations for arg in (*each.args, *each.kwargs.values())]
        tensors = dict.fromkeys(each for each in flat([record.result, *handed]) if isinstance(each, TensorVariable))
        made = [each.fake for each in tensors if each.node in nodes]
        if any(memories(made) & written for written in mode.written[record.call.writes :]):
            return None
        recipes = mode.recipe(made, _given(record.call, nodes))
        if recipes is None or any(look(mode.made(r)) != look(old) for old, r in zip(made, recipes, strict=True)):
            return None
        return list(zip(made, recipes, strict=True))

    # --- state ------------------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Looks at what was written since it last did."""
        written = self.tx.ledger.written
        new = written[self._seen :]
        self.effects += new.count(None)
        for target in dict.fromkeys(new):  # what it holds is looked at as it is now, once
            if target is None:
                continue
            if target.source is not None or isinstance(target, TensorVariable) or target in self.exposed:
                self._writes += 1
                self._expose(target)
        self._seen = len(written)

    def _expose(self, target: Variable) -> None:
        """What can be reached from there, every call can get at."""
        waiting: list[Any] = [target]
        self.exposed.discard(target)  # it may hold more now
        while waiting:
            variable = waiting.pop()
            if variable is DELETED or variable in self.exposed:
                continue
            self.exposed.add(variable)
            if isinstance(variable, TensorVariable):
                self._memory |= memories([variable.fake])
            held = [*variable.reachable(), *self.tx.ledger.stores(variable).values()]
            self.looked_at += len(held)
            waiting += held
        if self.looked_at > MOST_LOOKED_AT:
            self.enabled = False

    def _state(self) -> tuple[Any, ...]:
        """All that calls go by besides guards and arguments."""
        self._settle()
        tx = self.tx
        parts = (self._writes, tx.handled, tx.moving, len(tx.ledger.classes))
        return (*map(len, _OF_CAPTURE(tx)), *parts, *tx.graph.state, vars(TorchState()))


def _key(module: ObjectVariable, positional: int, names: Iterable[str], looks: dict[TensorVariable, Any]) -> Any:
    """What calls that may be the same have in common: cheap to find, and no more than a guess."""
    parts = instance_dict(module.value) or {}
    tables = (parts.get(name) for name in ("_parameters", "_modules"))
    tensors, modules = (list(table.values()) if isinstance(table, dict) else [] for table in tables)
    own = tuple(each.shape for each in tensors if type(each) in (torch.Tensor, torch.nn.Parameter))
    within = tuple(map(type, modules))
    return module.cls, positional, tuple(names), own, within, *looks.values()


def _concerning(events: Iterable[Event], place: Place) -> Iterator[Guard | Found]:
    for event in events:
        if _concerns(event, place):
            assert event is not None
            yield event


def _once(events: Iterable[Guard | Found]) -> Iterator[Guard | Found]:
    """Without what was told before, and known objects that were found again where they were."""
    told: set[Any] = set()
    for event in events:
        if isinstance(event, Guard):
            payload = event.payload
            key: Any = event.source, event.kind, payload if type(payload) in (str, int) else id(payload)
        else:
            key = event.source, event.variable
        if key not in told or isinstance(event, Found) and (event.is_new or event.told):
            yield event
        told.add(key)


def _concerns(event: Event, place: Place) -> bool:
    """Whether the event is about what lies below the module: the rest of the world is the same for all calls. Raises
    `Differs` where it ties the two together."""
    if event is None:
        raise Differs
    if isinstance(event, Found):
        is_below = place.has(event.source)
        if not is_below:
            _check_apart(event, place)
        return is_below
    if event.source is None:
        raise Differs
    return place.has(event.source)


def _check_apart(event: Event, place: Place) -> None:
    """Raises `Differs` if what was taken in from elsewhere was known as something below the module."""
    if isinstance(event, Found):
        of = event.variable.source
        if of is not None and place.has(of):
            raise Differs
        for told in event.told:
            _check_apart(told, place)


def _check(event: Event, place: Place) -> None:
    """Raises `Differs` for what can't be looked up."""
    if isinstance(event, Found):
        if place.value(event.source) is not event.value or not _is_plain(event.variable):
            raise Differs
    elif isinstance(event, Guard) and (
        event.kind not in HOLDS or not HOLDS[event.kind](place.value(event.source), event.payload)  # type: ignore
    ):
        raise Differs


def _is_plain(variable: Variable) -> bool:
    """Whether it adds nothing to the capture but itself, and the input of a tensor."""
    kinds = (TensorVariable, NumberVariable)
    return not isinstance(variable, kinds) or type(variable) is TensorVariable


def _new(event: Event) -> int:
    """How many objects became known by it."""
    return event.is_new + sum(map(_new, event.told)) if isinstance(event, Found) else 0


def _apart(told: list[Event], begun: int, operations: list[Operation], place: Place) -> Iterator[Event]:
    """Without what operations told. Raises `Differs` if one told of what lies below the module."""
    at = begun
    for each in operations:
        yield from told[at - begun : each.told - begun]
        at = each.told_after
        if any(event is not None and _concerns(event, place) for event in told[each.told - begun : at - begun]):
            raise Differs
    yield from told[at - begun :]


# --- nodes ------------------------------------------------------------------------------------------------------------
def _script(node: fx.Node, operations: list[Operation]) -> Iterator[fx.Node | Operation]:
    """What follows the node, in order, operations in the place of what they recorded."""
    waiting = iter(operations)
    following = next(waiting, None)
    while True:
        if following is not None and following.after is node:
            yield following
            assert following.last is not None
            node, following = following.last, next(waiting, None)
            continue
        node = node.next
        if node.op == "root":
            return
        if node.op != "placeholder":
            yield node


def _given(call: Reading, nodes: set[fx.Node]) -> list[torch.Tensor]:
    """The stand-ins that these operations of a call are given."""
    given = [node.meta["example_value"] for each in nodes for node in each.all_input_nodes if node not in nodes]
    return [*given, *(each.fake for each in call.looks)]


def _is_ordinary(node: fx.Node) -> bool:
    return node.op in _OPERATIONS and node.target not in MOVES and node.meta.keys() == _META


def _check_result(result: Variable, made: dict[fx.Node, None]) -> None:
    """Raises `Differs` for what can't be given once more."""
    if type(result) is TupleVariable and result.source is None:
        for item in result.items:
            _check_result(item, made)
    elif type(result) is not TensorVariable and not (type(result) is ConstantVariable and result.source is None):
        raise Differs
