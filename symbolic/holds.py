"""Steps of a frame that some operations of the graph must not come after: the graph runs before what the frame does to
the world outside, and after what it does to the state of generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symbolic.errors import GraphBreak, Restart

if TYPE_CHECKING:
    from symbolic.translator import Translator


@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """At `step` the operations had drawn and written so many times (None: writes do not matter)."""

    step: int
    cause: GraphBreak
    draws: int
    writes: int | None
    unless: Callable[[], bool]


class Holds:
    def __init__(self, tx: Translator) -> None:
        self._tx = tx
        self._held: list[_Hold] = []

    def draw_no_more(self, cause: GraphBreak) -> None:
        """Operations that draw random numbers from here on make the frame break at this step instead, for `cause`."""
        self._hold(cause, None, lambda: False)

    def write_no_more(self, cause: GraphBreak, unless: Callable[[], bool]) -> None:
        """So do those, and those that write into what exists; not if `unless()`, which is asked then, says that nothing
        is the matter."""
        self._hold(cause, self._tx.graph.writes, unless)

    def _hold(self, cause: GraphBreak, writes: int | None, unless: Callable[[], bool]) -> None:
        step = self._tx.break_step(cause)
        self._held.append(_Hold(step, self._tx.located(cause), self._tx.graph.draws, writes, unless))

    def check(self) -> None:
        """After an operation. Raises `Restart`."""
        if not self._held:
            return
        writes = self._tx.graph.writes if any(hold.writes is not None for hold in self._held) else 0
        for hold in list(self._held):
            if self._tx.graph.draws != hold.draws or hold.writes not in (None, writes):
                if not hold.unless():
                    raise Restart(hold.step, hold.cause)
                self._held.remove(hold)
