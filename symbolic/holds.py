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
    """At `step` the operations had drawn and written so many times."""

    step: int
    cause: GraphBreak
    draws: int
    writes: int
    unless: Callable[[], bool]


class Holds:
    def __init__(self, tx: Translator) -> None:
        self._tx = tx
        self._held: list[_Hold] = []

    def write_no_more(self, cause: GraphBreak, unless: Callable[[], bool]) -> None:
        """Operations that draw random numbers from here on, or write into what exists, make the frame break at this
        step instead, for `cause`; not if `unless()`, which is asked then, says that nothing is the matter."""
        step, graph = self._tx.break_step(cause), self._tx.graph
        self._held.append(_Hold(step, self._tx.located(cause), graph.draws, graph.writes, unless))

    def check(self) -> None:
        """After an operation. Raises `Restart`."""
        if not self._held:
            return
        done = self._tx.graph.draws, self._tx.graph.writes
        for hold in list(self._held):
            if done != (hold.draws, hold.writes):
                if not hold.unless():
                    raise Restart(hold.step, hold.cause)
                self._held.remove(hold)
