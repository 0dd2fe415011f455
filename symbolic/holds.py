"""Steps of a frame that some operations of the graph must not come after: the graph runs before what the frame does to
the world outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symbolic.errors import GraphBreak, Restart

if TYPE_CHECKING:
    from symbolic.translator import Translator


@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """At `step` so much had been done: see `_done`."""

    step: int
    cause: GraphBreak
    done: tuple[int, ...]
    unless: Callable[[], bool]


class Holds:
    def __init__(self, tx: Translator) -> None:
        self._tx = tx
        self._held: list[_Hold] = []

    def write_no_more(self, cause: GraphBreak, unless: Callable[[], bool]) -> None:
        """Operations that draw random numbers from here on, or write into what exists, and calls that come before the
        graph, make the frame break at this step instead, for `cause`; not if `unless()`, which is asked then, says that
        nothing is the matter."""
        step = self._tx.break_step(cause)
        self._held.append(_Hold(step, self._tx.located(cause), self._done(), unless))

    def _done(self) -> tuple[int, ...]:
        """How often the operations drew and wrote so far, and how many calls come before the graph."""
        return self._tx.graph.draws, self._tx.graph.writes, self._tx.ledger.early_calls

    def check(self) -> None:
        """After an operation, and at the end. Raises `Restart`."""
        if not self._held:
            return
        done = self._done()
        for hold in list(self._held):
            if done != hold.done:
                if not hold.unless():
                    raise Restart(hold.step, hold.cause)
                self._held.remove(hold)
