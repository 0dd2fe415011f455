"""Where a graph does the same again and again, as models of equal layers do: found, and left out.

A run is a stretch of nodes that is some shorter stretch, repeated: the same operations with the same constants on
values of the same looks, wired in the same way to each other, to the repeat before, to what all repeats share, and to
inputs of their own. Where it begins within a layer does not matter.

Of a long run only some repeats are needed to tell what becomes of the others: the first `FRONT` ones and the last
`BACK`, or one more. `short` is the graph without those in between, the first of the last reading what the last of the
first gives: the graph of a model with fewer layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from codegen.kernels.likeness import Likeness
from symbolic.quick_graph import Graph

#: How many repeats stay at each end.
FRONT, BACK = 4, 2
#: Fewer are not worth it to leave out, nor is a smaller part of the graph.
FEWEST, PART = 2, 0.2
#: By so many nodes one after the other places are found that are alike, and so many periods are tried.
ALIKE, TRIED = 24, 6


@dataclass(frozen=True, eq=False)
class Run:
    """Nodes `start` to `start + period * count` of a graph. `own`: the inputs of each repeat, in the same order."""

    start: int
    period: int
    count: int
    own: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def end(self) -> int:
        return self.start + self.period * self.count

    @cached_property
    def left_out(self) -> range:
        """The repeats that `short` does not have: an even number of them."""
        return range(FRONT, FRONT + (self.count - FRONT - BACK) // 2 * 2)

    @cached_property
    def place_of_own(self) -> dict[int, tuple[int, int]]:
        """Input -> the repeat, which of its own inputs."""
        return {node: (repeat, at) for repeat, own in enumerate(self.own) for at, node in enumerate(own)}

    def place(self, node: int) -> tuple[int, int] | None:
        """The repeat that a node belongs to and where in it: its own inputs come after its nodes. None for others."""
        if self.start <= node < self.end:
            return divmod(node - self.start, self.period)
        found = self.place_of_own.get(node)
        return None if found is None else (found[0], self.period + found[1])

    def leaves_out(self, node: int) -> bool:
        place = self.place(node)
        return place is not None and place[0] in self.left_out

    def node(self, repeat: int, at: int) -> int:
        """The node at that place."""
        return self.start + repeat * self.period + at if at < self.period else self.own[repeat][at - self.period]


def find(like: Likeness) -> tuple[Run, ...]:
    """The runs of which something can be left out, as they lie in the graph."""
    first = next((at for at, line in enumerate(like) if line[0] != "placeholder"), len(like))
    numbers: dict[object, int] = {}
    looks = [numbers.setdefault((op, what, given, value), len(numbers)) for op, what, given, _, value in like]
    found: list[Run] = []
    operands = [line[3] for line in like]
    for start, end, period in _stretches(looks, operands, first):
        start += _apart(operands, start, end, period, first)
        run = _with_own(like, Run(start, period, (end - start) // period), first)
        if run is not None and _is_closed(like, run):
            found.append(run)
    gone = sum(len(run.left_out) * run.period for run in found)
    return tuple(sorted(found, key=lambda run: run.start)) if gone >= PART * len(like) else ()


def _stretches(looks: Sequence[int], operands: Sequence[tuple[int, ...]], first: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, period) of stretches that repeat often enough, longest first, apart from each other."""

    def is_same(at: int, period: int) -> bool:
        return looks[at] == looks[at + period] and all(
            other == one + period or other == one or max(one, other) < first and looks[one] == looks[other]
            for one, other in zip(operands[at], operands[at + period], strict=True)
        )

    # What is so far from its operands, and knows inputs by their looks only, is the same without a second look.
    kinds: dict[object, int] = {}
    known = [
        kinds.setdefault((looks[at], *(~looks[one] if one < first else at - one for one in given)), len(kinds))
        for at, given in enumerate(operands)
    ]
    found: list[tuple[int, int, int]] = []
    for period in _periods(looks, first):
        start = first
        for at, (one, other) in enumerate(zip(known[first:], known[first + period :], strict=False), first):
            if one != other and not is_same(at, period):
                found.append((start, at + period, period))
                start = at + 1
        found.append((start, len(looks), period))
    least = FRONT + BACK + FEWEST
    taken: list[tuple[int, int]] = []
    for start, end, period in sorted(found, key=lambda each: (each[0] - each[1], each[2])):
        is_free = all(end <= begun or start >= over for begun, over in taken)
        if end - start >= least * period and is_free:
            taken.append((start, end))
            yield start, end, period


def _periods(looks: Sequence[int], first: int) -> list[int]:
    """After how many nodes it looks alike again, likeliest first."""
    seen: dict[tuple[int, ...], int] = {}
    distances: Counter[int] = Counter()
    for at in range(first, len(looks) - ALIKE):
        key = tuple(looks[at : at + ALIKE])
        if key in seen:
            distances[at - seen[key]] += 1
        seen[key] = at
    return [period for period, _ in distances.most_common(TRIED)]


def _apart(operands: Sequence[tuple[int, ...]], start: int, end: int, period: int, first: int) -> int:
    """How many nodes later repeats may begin so that none of them uses an input of the one before; 0 if there is no
    such place."""
    uses: dict[int, tuple[int, int]] = {}
    for at in range(start, end):
        for node in operands[at]:
            if node < first:
                uses[node] = uses.get(node, (at, at))[0], at
    within = {
        (place - start) % period for begin, over in uses.values() if over - begin < period
        for place in range(begin + 1, over + 1)
    }  # fmt: skip
    return next((shift for shift in range(period) if shift not in within), 0)


def _with_own(like: Likeness, run: Run, first: int) -> Run | None:
    """With the inputs that are not those of all repeats. None where repeats do not share the same ones."""
    own: list[dict[int, None]] = [{} for _ in range(run.count)]
    twins: list[dict[int, int]] = [{} for _ in range(run.count)]  # of the first repeat's -> this one's
    shared: set[int] = set()
    for at in range(run.start, run.start + run.period):
        for slot, one in enumerate(like[at][3]):
            others = [like[at + repeat * run.period][3][slot] for repeat in range(run.count)]
            if others[1] == one:
                if one >= run.start or others.count(one) != run.count:
                    return None
                shared.add(one)
            elif max(others) < first:
                for repeat, other in enumerate(others):
                    if twins[repeat].setdefault(one, other) != other:
                        return None
                    own[repeat][other] = None
            elif any(other != one + repeat * run.period for repeat, other in enumerate(others)):
                return None
            elif at - one > (FRONT - 1) * run.period:  # further back than the repeats at the front
                return None
    everything = [node for each in own for node in each]
    if len({*everything, *shared}) != len(everything) + len(shared) or len({*map(len, own)}) > 1:
        return None
    return Run(run.start, run.period, run.count, tuple(map(tuple, own)))


def _is_closed(like: Likeness, run: Run) -> bool:
    """Whether what is left out is read by nobody but its own run and the graph's caller, who gets as much of each."""
    given: dict[int, Counter[int]] = {repeat: Counter() for repeat in range(run.count)}
    for at, (op, _, _, operands, _) in enumerate(like):
        if op == "output":
            for repeat, place in filter(None, map(run.place, operands)):
                given[repeat][place] += 1
        elif not run.start <= at < run.end and any(map(run.leaves_out, operands)):
            return False
    return all(given[repeat] == given[FRONT - 1] for repeat in run.left_out)


def short(graph: fx.GraphModule, runs: Sequence[Run]) -> fx.GraphModule:
    """The graph without what is left out of these runs; all else has its name, and all inputs are there."""
    places = {node: at for at, node in enumerate(graph.graph.nodes)}
    nodes = list(places)
    made = Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node, at in places.items():
        run = next((run for run in runs if run.start <= at < run.end), None)
        if run is not None and run.leaves_out(at):
            continue
        gone = 0 if run is None or at < run.node(FRONT, 0) else len(run.left_out) * run.period

        def copy(operand: fx.Node, run: Run | None = run, gone: int = gone) -> fx.Node:
            before = run is not None and run.start <= places[operand] < run.node(run.left_out.stop, 0)
            return copies[nodes[places[operand] - gone] if before else operand]

        if node.op == "output":
            kept = (each for each in node.args[0] if not is_left_out(places.get(each), runs))
            made.output(tuple(copies.get(each, each) for each in kept))
        else:
            copies[node] = made.node_copy(node, copy)
    return _LazyGraphModule(graph, made)


def is_left_out(node: int | None, runs: Sequence[Run]) -> bool:
    return node is not None and any(run.leaves_out(node) for run in runs)
