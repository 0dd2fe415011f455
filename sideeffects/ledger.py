"""The diary of one capture: pending stores, touched containers, objects born, calls to replay.

Targets and values are opaque to the ledger (trackers of the floor above), compared by identity. Reads of pending state
are answered from here, so that the frame sees its own writes before they happen.

The diary falls into segments. Within one, the last state of each place is what counts; a new one begins with each
effect that may raise, or that code may run in which nobody can see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sideeffects.effects import DELETED, Advance, Call, DelAttr, Effect, Place, Risk, SetAttr, SetContents


class _Stores:
    """Attributes by target, in the order of the first store to each name."""

    def __init__(self) -> None:
        self.attrs: dict[Any, dict[str, Any]] = {}
        self.renewed: set[tuple[Any, str]] = set()  # deleted, then stored

    def store(self, target: Any, name: str, value: Any) -> None:
        stores = self.attrs.setdefault(target, {})
        if stores.get(name) is DELETED and value is not DELETED:
            del stores[name]
            self.renewed.add((target, name))
        stores[name] = value


class _Segment(_Stores):
    """What happened between two borders, in the order of the first write to each place."""

    def __init__(self) -> None:
        super().__init__()
        self.order: dict[tuple[str, Any], Any] = {}
        self.moves: list[Advance] = []  # of existing iterators, oldest first

    @property
    def writes(self) -> bool:
        return any(kind != "call" for kind, _ in self.order)


class Ledger:
    """What the frame did so far."""

    def __init__(self) -> None:
        self._stores = _Stores()
        self._segments = [_Segment()]
        self._touched: set[Any] = set()
        self._kept: dict[Any, list[tuple[int, Any]]] = {}  # (segment, the container as it was before it)
        self._calls = 0
        self.early_calls = 0
        self.classes: dict[int, Any] = {}  # born in the frame, by the id of what stands for them while tracing
        self.written: list[Any] = []  # every target, as often as it was written; None for a call
        self.places: list[tuple[Any, str | None]] = []  # that were written: None for a target as a whole
        self.beside: set[tuple[Any, str]] = set()  # attributes that were stored past a descriptor
        self._reads: dict[tuple[Any, str], Any] | None = None
        #: Is told of each place that is read, and what is there: (target, name or None for all, value).
        self.watch: Callable[[Any, str | None, Any], None] | None = None

    # attributes, cells (name "cell_contents") and globals (the namespace is the target)
    def store(self, target: Any, name: str, value: Any, is_beside: bool = False) -> None:
        """Pending `target.name = value`; `DELETED` as value is a deletion. A name keeps its place among the others
        until it is deleted. `is_beside`: the class of the target has a descriptor of that name, which is not asked."""
        if is_beside:
            self.beside.add((target, name))
        self.written.append(target)
        self.places += ((target, name), (target, None))
        self._stores.store(target, name, value)
        self._segments[-1].store(target, name, value)
        self._segments[-1].order.setdefault(("attrs", target), target)

    def changed(self, target: Any, name: str) -> None:
        """A place that the tracker itself has written: for those that watch."""
        self.places.append((target, name))

    def pending(self, target: Any, name: str) -> Any | None:
        """The pending value, `DELETED`, or None if the frame has not written there."""
        stores = self._stores.attrs.get(target)
        found = stores.get(name) if stores is not None else None
        if self._reads is not None:
            self._reads[target, name] = found
        if self.watch is not None:
            self.watch(target, name, found)
        return found

    @contextmanager
    def reading(self) -> Iterator[dict[tuple[Any, str], Any]]:
        """Collects the places that are read meanwhile, with what is pending there."""
        outer, self._reads = self._reads, {}
        try:
            yield self._reads
        finally:
            if outer is not None:
                outer.update(self._reads)
            self._reads = outer

    @property
    def is_reading(self) -> bool:
        return self._reads is not None

    def renewed(self, target: Any, name: str) -> bool:
        """Whether the name was deleted before its pending store, which so comes after all others."""
        return (target, name) in self._stores.renewed

    def stores(self, target: Any) -> dict[str, Any]:
        """All pending stores of a target, oldest first."""
        found = self._stores.attrs.get(target, {})
        if self.watch is not None:
            for value in found.values() or (None,):
                self.watch(target, None, value)
        return found

    def held(self, target: Any) -> list[Any]:
        """What its attributes were at the end of some segment."""
        stores = [segment.attrs.get(target, {}).values() for segment in self._segments]
        return [value for values in stores for value in values if value is not DELETED]

    # containers: the tracker holds the new contents itself
    def keep(self, target: Any) -> None:
        """The contents of a container are about to change: its state before this segment may be asked for later."""
        segment = len(self._segments) - 1
        if segment:
            kept = self._kept.setdefault(target, [])
            if not kept or kept[-1][0] < segment:
                kept.append((segment, target.frozen()))

    def touch(self, target: Any) -> None:
        """The contents of a container changed."""
        self.written.append(target)
        self.places.append((target, None))
        self._touched.add(target)
        self._segments[-1].order.setdefault(("contents", target), target)

    def touched(self, target: Any) -> bool:
        return target in self._touched or target in self._stores.attrs

    def state(self, target: Any, segment: int) -> Any:
        """The target as it was at the end of a segment: frozen, if it has changed since."""
        return next((kept for later, kept in self._kept.get(target, ()) if later > segment), target)

    def states(self, target: Any) -> list[Any]:
        """The target as it is and as it was."""
        return [target, *(kept for _, kept in self._kept.get(target, ()))]

    def advance(self, target: Any, reached: frozenset[Any]) -> None:
        """An existing iterator takes a step, which may move or look at what it `reached`. Steps are told one by one
        only as far as their order matters."""
        self.written.append(target)
        segment = self._segments[-1]
        for move in reversed(segment.moves):
            if move.target is target:
                move.steps += 1
                move.reached |= reached
                return
            if not reached.isdisjoint(move.reached):
                break
        segment.moves.append(Advance(target, 1, reached))
        segment.order[("move", len(segment.moves))] = segment.moves[-1]

    # effects on the world outside
    def call(self, function: Any, *args: Any, **kwargs: Any) -> None:
        """A call that the residual code makes after the graph, in order with the other calls."""
        self._call(Call(function, args, kwargs))

    def call_at(self, place: Place, function: Any, *args: Any) -> None:
        """The same for a function that sees it as a call from there."""
        self._call(Call(function, args, {}, place))

    def risk(
        self, risk: Risk, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place | None = None,
        result: Any = None,
    ) -> None:  # fmt: skip
        """The same for one that may raise, or run code that nobody can see: all that was done so far happens before.
        `place`: the function sees it as a call from there."""
        self.border()
        self._call(Call(function, args, kwargs, place, result, risk=risk))

    def border(self) -> None:
        """All that was done so far happens before what is done from here on."""
        if self._segments[-1].writes:
            self._segments.append(_Segment())

    def bear(self, result: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        """A call that answers with what `result` stands for; None if nobody reads it."""
        self._call(Call(function, args, kwargs, result=result))

    def early(self, result: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        """The same before the graph, in order with the other early calls: for what neither the graph nor a later effect
        has to do with."""
        self.early_calls += 1
        self._call(Call(function, args, kwargs, result=result, early=True))

    def _call(self, call: Call) -> None:
        self.written.append(None)
        self._calls += 1
        self._segments[-1].order[("call", self._calls)] = call

    # what is to be done
    def segments(self) -> Iterator[list[Effect]]:
        """Everything to replay, in order, by segment. Births are implied by what the effects mention."""
        seen: dict[Any, Any] = {}
        for at, segment in enumerate(self._segments):
            effects: list[Effect] = []
            for (kind, _), record in segment.order.items():
                if kind == "attrs":
                    for name, value in segment.attrs[record].items():
                        if value is DELETED or (record, name) in segment.renewed:
                            effects.append(DelAttr(record, name))
                        if value is not DELETED:
                            effects.append(SetAttr(record, name, value))
                elif kind == "contents":
                    state = self.state(record, at)
                    effects.append(SetContents(record, state, seen.get(record)))
                    seen[record] = state
                else:
                    effects.append(record)
            yield effects

    def effects(self) -> Iterator[Effect]:
        """The same in a row."""
        for effects in self.segments():
            yield from effects

    @property
    def empty(self) -> bool:
        return not any(segment.order for segment in self._segments)
