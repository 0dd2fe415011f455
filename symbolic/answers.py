"""Calls that give what they gave before.

A function that is called with the same constants and objects in the same state of the capture comes to the same: the
facts that its first call went by are guards already. So it is read once, if it did nothing but answer, and if what it
answers was there before, too, or is a constant. Objects that were there before the frame are the same as long as the
state is. Those that the frame made are as long as nothing was written to them, or to what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sideeffects.effects import DELETED
from symbolic.operations import exists
from symbolic.variables.base import Variable
from symbolic.variables.constants import CONSTANT_TYPES, ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.functions import BoundMethod, FunctionVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.sets import SetVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


#: What the frame made is looked through again after each write to it, so far as it holds no more than this.
MOST_HELD = 200
#: What changes in no way but by writes that the ledger tells of.
_WRITTEN = frozenset({ConstantVariable, ObjectVariable, ListVariable, TupleVariable, DictVariable, SetVariable})


@dataclass(slots=True, eq=False)
class Held:
    """What an object of the frame's is, with all that it holds: how often that was written, of so many writes in all.
    None: it may hold what changes untold, or holds very much."""

    parts: set[Variable] | None
    changes: int
    seen: int


@dataclass(slots=True, eq=False)
class Question:
    """A call that begins: `key` is all that is handed on, `state` all that there is besides."""

    given: tuple[Variable, ...]
    parts: list[Any]
    key: tuple[Any, ...]
    state: tuple[Any, ...]
    step: int
    told: int
    effects: int
    after: Any
    generators: int


@dataclass(slots=True, eq=False)
class Answer:
    state: tuple[Any, ...]
    result: Variable
    steps: int


class Answers:
    """What calls answered in one capture. `state()` is that of the capture; `effects()` says how many it had."""

    def __init__(self, tx: Translator, state: Callable[[], tuple[Any, ...]]) -> None:
        self.tx = tx
        self._state = state
        self._known: dict[Any, Answer] = {}
        self._held: dict[Variable, Held] = {}

    def begin(self, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Question | None:
        """A call whose answer may be known, or is to be; None for others."""
        if isinstance(function, BoundMethod):
            method: BoundMethod = function
            function, args = method.function, [method.owner, *args]
        if type(function) is not FunctionVariable:
            return None
        given = (*args, *kwargs.values())
        if not all(map(_may_be_known, given)):
            return None
        parts = self._parts(given)
        if None in parts:
            return None
        tx, key = self.tx, (function, len(args), *kwargs, *parts)
        told, after = len(tx.repeats.log), tx.graph.graph._root.prev
        state, effects = self._state(), tx.repeats.effects
        return Question(given, parts, key, state, tx.step, told, effects, after, len(tx.generators))

    def known(self, asked: Question) -> Variable | None:
        """The answer, if it is known."""
        answer, tx = self._known.get(asked.key), self.tx
        if answer is None or answer.state != asked.state:
            return None
        if any(asked.step < step <= asked.step + answer.steps for step in tx.break_at):
            return None
        tx.step += answer.steps  # what breaks later on in this instruction does so before it
        return answer.result

    def end(self, asked: Question, result: Variable) -> None:
        """A call that was read is over."""
        tx = self.tx
        if not self._is_one_object(result, asked) or None in tx.repeats.log[asked.told :]:
            return
        if self._state() != asked.state or self._parts(asked.given) != asked.parts:
            return
        if tx.repeats.effects != asked.effects or tx.graph.graph._root.prev is not asked.after:
            return
        if any(generator.has_something_left() for generator in tx.generators[asked.generators :]):
            return
        self._known[asked.key] = Answer(asked.state, result, tx.step - asked.step)

    def close(self) -> None:
        vars(self).clear()

    def _is_one_object(self, result: Variable, asked: Question) -> bool:
        """Whether each call of eager code, too, would answer with the very same object."""
        if result.source is not None:
            return not result.source.is_made
        if type(result) is ConstantVariable:
            return any(result.value is one for one in (None, True, False, NotImplemented))
        held = [self._held[each] for each in asked.given if each in self._held]
        return any(each.parts is not None and result in each.parts for each in held)

    # --- what is handed on ------------------------------------------------------------------------------------------
    def _parts(self, given: Iterable[Variable]) -> list[Any]:
        """For each what is equal for two that are the same to a call; None for what is not known to be."""
        return [self._part(each) for each in given]

    def _part(self, variable: Variable) -> Any:
        if type(variable) is ConstantVariable:
            value, kind = variable.value, type(variable.value)
            # Numbers may be equal and differ; long texts take long to show.
            return (kind, value if kind in (str, bytes) else repr(value)) if kind in CONSTANT_TYPES else None
        if exists(variable):
            return variable
        held = self._look(variable)
        return None if held.parts is None else (variable, held.changes)

    def _look(self, variable: Variable) -> Held:
        """What the frame made, as it is now."""
        written = self.tx.ledger.written
        held = self._held.get(variable)
        if held is None:
            held = self._held[variable] = Held(self._all(variable), 0, len(written))
        elif held.parts is not None and not held.parts.isdisjoint(written[held.seen :]):
            held.parts, held.changes = self._all(variable), held.changes + 1
        held.seen = len(written)
        return held

    def _all(self, variable: Variable) -> set[Variable] | None:
        """All that it holds, up to what was there before the frame; None if any of that may change untold, as born
        classes do, or if it is very much."""
        found: set[Variable] = set()
        waiting: list[Any] = [variable]
        while waiting:
            each = waiting.pop()
            if each is DELETED or each in found or exists(each):
                continue
            if type(each) not in _WRITTEN or each.source is not None or self.tx.ledger.classes:
                return None
            found.add(each)
            waiting += [*each.reachable(), *self.tx.ledger.stores(each).values()]
            if len(found) + len(waiting) > MOST_HELD:
                return None
        return found


def _may_be_known(variable: Variable) -> bool:
    """A guess at whether it has a part."""
    return type(variable) in _WRITTEN or exists(variable)
