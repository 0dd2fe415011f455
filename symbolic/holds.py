"""Steps of a frame that some operations of the graph must not come after: the graph runs before what the frame does to
the world outside."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak, Restart

if TYPE_CHECKING:
    from symbolic.translator import Translator


@dataclass(frozen=True, slots=True, eq=False)
class _Hold:
    """At `step` so much had been done: see `_done`. `met`: ids of what the frame must not have anything of."""

    step: int
    cause: GraphBreak
    done: tuple[int, ...]
    unless: Callable[[], bool]
    met: frozenset[int] = frozenset()


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

    def meet_no_more(self, cause: GraphBreak, objects: Collection[Any], unless: Callable[[], bool]) -> None:
        """The same of a frame that has any of these objects, before this step or after it."""
        step, met = self._tx.break_step(cause), frozenset(map(id, objects))
        if any(hold.met == met and hold.unless is unless for hold in self._held):
            return  # to break earlier is as good
        self._tx.keepalive.extend(objects)
        self._held.append(_Hold(step, self._tx.located(cause), (), unless, met))

    def _done(self) -> tuple[int, ...]:
        """How often the operations drew and wrote so far, and how many calls come before the graph."""
        return self._tx.graph.draws, self._tx.graph.writes, self._tx.ledger.early_calls

    def check(self) -> None:
        """After an operation, and at the end. Raises `Restart`."""
        if not self._held:
            return
        done = self._done()
        for hold in list(self._held):
            if (hold.done and done != hold.done) or any(map(self._tx.known.__contains__, hold.met)):
                if not hold.unless():
                    raise Restart(hold.step, hold.cause)
                self._held.remove(hold)
