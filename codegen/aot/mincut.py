"""Minimum cuts of flow networks: Dinic's algorithm ("Algorithm for solution of a problem of maximum flow", 1970)."""

from __future__ import annotations

UNLIMITED = 1 << 62


class Network:
    """A directed network with whole-number capacities. Vertices are numbered as they are made; 0 is where flow starts,
    1 is where it ends."""

    SOURCE = 0
    SINK = 1

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]  # of each vertex; edge e and its reverse e ^ 1 stand side by side
        self.heads: list[int] = []
        self.left: list[int] = []  # capacity that no flow uses yet

    def vertex(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, tail: int, head: int, capacity: int) -> None:
        self.edges[tail].append(len(self.heads))
        self.edges[head].append(len(self.heads) + 1)
        self.heads += head, tail
        self.left += capacity, 0

    def cut(self) -> tuple[int, list[bool]]:
        """The value of the smallest cut, and for each vertex whether it is on the sink's side of it.

        Of all smallest cuts it is the one nearest to the sink. A value of `UNLIMITED` or more: there is no finite cut.
        """
        value = 0
        while (distances := self._distances())[self.SOURCE] >= 0:
            value += self._saturate(distances)
            if value >= UNLIMITED:
                break
        return value, [distance >= 0 for distance in distances]

    def _distances(self) -> list[int]:
        """Steps from each vertex to the sink over edges with capacity left; -1 where no way leads there."""
        found = [-1] * len(self.edges)
        found[self.SINK] = 0
        queue = [self.SINK]
        for vertex in queue:
            for edge in self.edges[vertex]:
                tail = self.heads[edge]
                if found[tail] < 0 and self.left[edge ^ 1]:
                    found[tail] = found[vertex] + 1
                    queue.append(tail)
        return found

    def _saturate(self, distances: list[int]) -> int:
        """Pushes flow along shortest ways until none is left; gives how much was pushed."""
        edges, heads, left = self.edges, self.heads, self.left
        untried = [len(those) for those in edges]  # edges from here on lead nowhere any more
        pushed = 0
        way: list[int] = []
        vertex = self.SOURCE
        while True:
            if vertex == self.SINK:
                amount = min(left[edge] for edge in way)
                pushed += amount
                for edge in way:
                    left[edge] -= amount
                    left[edge ^ 1] += amount
                full = next(place for place, edge in enumerate(way) if not left[edge])
                vertex = heads[way[full] ^ 1]
                del way[full:]
            while untried[vertex]:
                edge = edges[vertex][untried[vertex] - 1]
                if left[edge] and distances[heads[edge]] == distances[vertex] - 1:
                    way.append(edge)
                    vertex = heads[edge]
                    break
                untried[vertex] -= 1
            else:
                if not way:
                    return pushed
                vertex = heads[way.pop() ^ 1]
                untried[vertex] -= 1
