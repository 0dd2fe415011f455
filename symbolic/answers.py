"""Calls that give what they gave before.

A function that is called with the same constants and objects, all of which were there before the frame, in the same
state of the capture, comes to the same: the facts that its first call went by are guards already. So it is read once,
if it did nothing but answer, and if what it answers was there before the frame, too, or is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symbolic.variables.base import Variable
from symbolic.variables.constants import CONSTANT_TYPES, ConstantVariable
from symbolic.variables.functions import BoundMethod, FunctionVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


@dataclass(slots=True, eq=False)
class Question:
    """A call that begins: `key` is all that is handed on, `state` all that there is besides."""

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

    def begin(self, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Question | None:
        """A call whose answer may be known, or is to be; None for others."""
        if isinstance(function, BoundMethod):
            method: BoundMethod = function
            function, args = method.function, [method.owner, *args]
        if type(function) is not FunctionVariable:
            return None
        key: list[Any] = [function, len(args), *kwargs]
        for each in (*args, *kwargs.values()):
            part = _part(each)
            if part is None:
                return None
            key.append(part)
        tx = self.tx
        after = tx.graph.graph._root.prev
        return Question(
            tuple(key), self._state(), tx.step, len(tx.repeats.log), tx.repeats.effects, after, len(tx.generators)
        )

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
        if not _is_one_object(result) or None in tx.repeats.log[asked.told :] or self._state() != asked.state:
            return
        if tx.repeats.effects != asked.effects or tx.graph.graph._root.prev is not asked.after:
            return
        if any(generator.has_something_left() for generator in tx.generators[asked.generators :]):
            return
        self._known[asked.key] = Answer(asked.state, result, tx.step - asked.step)

    def close(self) -> None:
        self._known.clear()


def _part(variable: Variable) -> Any:
    """What is equal for two that are the same to a call; None for what the frame made."""
    if type(variable) is ConstantVariable:
        value = variable.value
        return (type(value), repr(value)) if type(value) in CONSTANT_TYPES else None
    source = variable.source
    return variable if source is not None and not source.is_made else None


def _is_one_object(result: Variable) -> bool:
    """Whether each call of eager code, too, would answer with the very same object."""
    if result.source is not None:
        return not result.source.is_made
    return type(result) is ConstantVariable and any(result.value is one for one in (None, True, False, NotImplemented))
