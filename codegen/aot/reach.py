"""What leads where in autograd's graph."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

Key = tuple[Any, int]  # of an edge: its node, and the number there


def bottom_up(starts: Iterable[Any], ends: Container[Key]) -> list[Any]:
    """The nodes from these on down to the ends, each after those that it leads to."""
    found: list[Any] = []
    begun: set[Any] = set()
    for start in starts:
        path = [] if start in begun else [(start, iter(start.next_functions))]
        begun.add(start)
        while path:
            node, edges = path[-1]
            edge = next(edges, None)
            if edge is None:
                found.append(node)
                path.pop()
            elif edge[0] is not None and edge not in ends and edge[0] not in begun:
                begun.add(edge[0])
                path.append((edge[0], iter(edge[0].next_functions)))
    return found


def reach(
    starts: Sequence[Key], goals: Mapping[Key, int], ends: Container[Key]
) -> tuple[dict[Any, int], dict[Any, int]]:
    """Of each node from these on down to the ends, which are goals, too: the goals that it leads to, and the starts
    that lead to it, as bits; `goals` are theirs."""
    below: dict[Any, int] = {}
    for node in bottom_up([node for node, _ in starts], ends):
        below[node] = 0
        for key in node.next_functions:
            below[node] |= goals.get(key, 0) | (0 if key in ends else below.get(key[0], 0))
    above = dict.fromkeys(below, 0)
    for at, (node, _) in enumerate(starts):
        above[node] |= 1 << at
    for node in reversed(below):
        for key in node.next_functions:
            if key[0] in above and key not in ends:
                above[key[0]] |= above[node]
    return below, above
