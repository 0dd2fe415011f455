"""Which intermediates share a block: those that do not live at the same time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from codegen.kernels.index import Index, is_nonnegative


@dataclass(frozen=True)
class Intermediate:
    """Lives from the step that writes it to the last one that reads it, both counted in.

    `over`: intermediates that the step `first` reads, with elements of the same width, whose place this one may take if
    they die there: the kernel reads an element of them, if at all, in the round that writes that of this one."""

    name: Hashable
    size: Index  # in bytes
    first: int
    last: int
    over: tuple[Hashable, ...] = ()


@dataclass(frozen=True)
class Layout:
    """`block_of` each intermediate, by name; the size in bytes of each block."""

    block_of: dict[Hashable, int]
    sizes: tuple[Index, ...]


@dataclass
class _Block:
    size: Index
    holds: Intermediate


def lay_out(intermediates: Iterable[Intermediate]) -> Layout:
    """Greedy, in the order of their first steps. The larger of two of a step comes first.

    A place to take over comes before other free blocks (it is in the cache), a block that is large enough before one
    that has to grow; among those the smallest, among these the largest. Sizes that cannot be compared do not fit."""
    blocks: list[_Block] = []
    block_of: dict[Hashable, int] = {}
    for each in _by_first_step(intermediates):
        at = _place(each, blocks)
        if at is None:
            at = len(blocks)
            blocks.append(_Block(each.size, each))
        block = blocks[at]
        block.holds = each
        if not _holds(block.size, each.size):
            block.size = each.size
        block_of[each.name] = at
    return Layout(block_of, tuple(block.size for block in blocks))


def _by_first_step(intermediates: Iterable[Intermediate]) -> list[Intermediate]:
    """Sizes of symbols count as if each symbol were a thousand: it is only an order."""

    def rough(size: Index) -> int:
        return sum(c * 1000 ** len(monomial) for monomial, c in size.terms)

    return sorted(intermediates, key=lambda each: (each.first, -rough(each.size)))


def _place(wanted: Intermediate, blocks: list[_Block]) -> int | None:
    taken_over = [
        at for at, block in enumerate(blocks) if block.holds.last == wanted.first and block.holds.name in wanted.over
    ]
    free = [at for at, block in enumerate(blocks) if block.holds.last < wanted.first]
    for candidates in (taken_over, free):
        found = _best(wanted.size, candidates, blocks)
        if found is not None:
            return found
    return None


def _best(size: Index, candidates: list[int], blocks: list[_Block]) -> int | None:
    best: int | None = None
    for at in candidates:
        found = blocks[at].size
        if _holds(found, size):
            if best is None or not _holds(blocks[best].size, size) or _holds(blocks[best].size, found):
                best = at
        elif _holds(size, found):  # comparable: would have to grow
            if best is None or (not _holds(blocks[best].size, size) and _holds(found, blocks[best].size)):
                best = at
    return best


@lru_cache(1 << 14)
def _holds(larger: Index, smaller: Index) -> bool:
    """Whether that is so can be proved."""
    return is_nonnegative(larger - smaller)
