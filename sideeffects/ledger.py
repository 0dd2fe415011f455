"""The diary of one capture: pending stores, touched containers, objects born, calls to replay.

Targets and values are opaque to the ledger (trackers of the floor above), compared by identity. Reads of pending state
are answered from here, so that the frame sees its own writes before they happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sideeffects.effects import DELETED, Advance, Call, DelAttr, Effect, Place, SetAttr, SetContents


class Ledger:
    """What the frame did so far. Records are kept in the order of the first write to each place."""

    def __init__(self) -> None:
        self._attrs: dict[Any, dict[str, Any]] = {}
        self._renewed: set[tuple[Any, str]] = set()
        self._order: dict[tuple[str, Any], Any] = {}
        self._calls = 0
        self._moves: list[Advance] = []  # of existing iterators, oldest first
        self.written: list[Any] = []  # every target, as often as it was written; None for a call

    # attributes, cells (name "cell_contents") and globals (the namespace is the target)
    def store(self, target: Any, name: str, value: Any) -> None:
        """Pending `target.name = value`; `DELETED` as value is a deletion. A name keeps its place among the others
        until it is deleted."""
        self.written.append(target)
        stores = self._attrs.setdefault(target, {})
        if stores.get(name) is DELETED and value is not DELETED:
            del stores[name]
            self._renewed.add((target, name))
        stores[name] = value
        self._order.setdefault(("attrs", target), target)

    def pending(self, target: Any, name: str) -> Any | None:
        """The pending value, `DELETED`, or None if the frame has not written there."""
        stores = self._attrs.get(target)
        return stores.get(name) if stores is not None else None

    def renewed(self, target: Any, name: str) -> bool:
        """Whether the name was deleted before its pending store, which so comes after all others."""
        return (target, name) in self._renewed

    def stores(self, target: Any) -> dict[str, Any]:
        """All pending stores of a target, oldest first."""
        return self._attrs.get(target, {})

    # containers: the tracker holds the new contents itself
    def touch(self, target: Any) -> None:
        """The contents of an existing container changed."""
        self.written.append(target)
        self._order.setdefault(("contents", target), target)

    def touched(self, target: Any) -> bool:
        return ("contents", target) in self._order or target in self._attrs

    def advance(self, target: Any, reached: frozenset[Any]) -> None:
        """An existing iterator takes a step, which may move or look at what it `reached`. Steps are told one by one
        only as far as their order matters."""
        self.written.append(target)
        for move in reversed(self._moves):
            if move.target is target:
                move.steps += 1
                move.reached |= reached
                return
            if not reached.isdisjoint(move.reached):
                break
        self._moves.append(Advance(target, 1, reached))
        self._order[("move", len(self._moves))] = self._moves[-1]

    # effects on the world outside
    def call(self, function: Any, *args: Any, **kwargs: Any) -> None:
        """A call that the residual code makes after the graph, in order with the other calls."""
        self.call_at(None, function, args, kwargs)

    def call_at(self, place: Place | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The same, seen by the function as a call from `place`."""
        self._call(Call(function, args, kwargs, place))

    def bear(self, result: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        """A call that answers with what `result` stands for; None if nobody reads it."""
        self._call(Call(function, args, kwargs, result=result))

    def early(self, result: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        """The same before the graph, in order with the other early calls: for what neither the graph nor a later effect
        has to do with."""
        self._call(Call(function, args, kwargs, result=result, early=True))

    def _call(self, call: Call) -> None:
        self.written.append(None)
        self._calls += 1
        self._order[("call", self._calls)] = call

    def effects(self) -> Iterator[Effect]:
        """Everything to replay, in order. Births are implied by what the effects mention."""
        for (kind, _), record in self._order.items():
            if kind == "attrs":
                for name, value in self._attrs[record].items():
                    if value is DELETED or (record, name) in self._renewed:
                        yield DelAttr(record, name)
                    if value is not DELETED:
                        yield SetAttr(record, name, value)
            elif kind == "contents":
                yield SetContents(record)
            else:
                yield record

    @property
    def empty(self) -> bool:
        return not self._order
