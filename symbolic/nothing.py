"""Calls that bring nothing: those where each tensor of sizes that vary has no elements."""

from __future__ import annotations

from collections.abc import Sequence

from symbolic.guards import Guard
from symbolic.terms import Extent, Op


def of_nothing(guards: Sequence[Guard]) -> list[Guard]:
    """The guards of such calls, for all patterns of zeros, that are else like those which `guards` are of; none if no
    sizes vary there."""
    found = [(guard, _varying(guard)) for guard in guards]
    empty = [Guard(of.source, "shape", _is_nothing(sizes), of.filename, of.line) for of, sizes in found if sizes]
    return [*(guard for guard in guards if guard.kind != "shape"), *empty] if empty else []


def _varying(guard: Guard) -> tuple[Extent, ...]:
    if guard.kind != "tensor" or guard.source is None:
        return ()
    return tuple(Extent(guard.source, "size", dim) for dim, size in enumerate(guard.payload["sizes"]) if size is None)


def _is_nothing(sizes: tuple[Extent, ...]) -> Op:
    return Op("==", (sizes[0] if len(sizes) == 1 else Op("min", sizes), 0))
