"""In which order hooks of leaves run.

Autograd's engine takes what is ready by its age, the youngest first, and accumulates gradients of leaves before all
else. In eager code these come one by one. The node of a compiled program gives all of them at once: they are of one
age, and come in the order in which a heap gives back equal things. So the node's edges stand in the order that comes
out of the heap as eager code's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch.autograd.graph import GradientEdge
from torch.utils.hooks import RemovableHandle

#: Handles that no user sees have numbers from here on.
_OWN_IDS = 1 << 60


@contextmanager
def arrivals(edges: dict[int, GradientEdge]) -> Iterator[list[int]]:
    """The keys of edges to leaves, in the order in which gradients reach these inside."""
    found: list[int] = []
    variables = ((at, getattr(edge.node, "variable", None)) for at, edge in edges.items())
    leaves = {at: leaf for at, leaf in variables if leaf is not None and leaf.requires_grad}
    handles = []
    next_id = RemovableHandle.next_id
    try:  # the user's handles count on as if these had never been
        RemovableHandle.next_id = _OWN_IDS
        handles += [leaf.register_hook(lambda _, at=at: found.append(at)) for at, leaf in leaves.items()]
    finally:
        RemovableHandle.next_id = next_id
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
    found += [at for at in leaves if at not in found]


def arranged(arrived: Sequence[int], others: int) -> list[int]:
    """The order to push these in, before so many `others` that count less, for them to come out of a heap as they
    arrived."""
    pushed = [0] * len(arrived)
    for at, place in zip(arrived, _taken(len(arrived), others), strict=True):
        pushed[place] = at
    return pushed


def _taken(count: int, others: int) -> Iterator[int]:
    """The order in which `std::priority_queue` (of GNU's library) gives back `count` equal things, pushed before
    `others`, as numbers: what was last moves down from the top, always to the right where both sides are equal."""
    heap = [*range(count), *[count] * others]  # of two numbers only `count` itself counts less
    for _ in range(count):
        yield heap[0]
        last = heap.pop()
        hole, child = 0, 2
        while child <= len(heap):
            if child == len(heap) or (heap[child] == count and heap[child - 1] != count):
                child -= 1
            heap[hole] = heap[child]
            hole, child = child, 2 * child + 2
        while hole and heap[(hole - 1) // 2] == count and last != count:
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        if heap:
            heap[hole] = last
