"""The schedule of a graph that repeats itself, told by that of one with fewer repeats.

The short graph (`repeats.short`) is lowered and scheduled. Its steps fall into those of each repeat: a step belongs to
the last repeat that it has to do with. Where each has the same steps as the one before, but for which repeats they
speak of, those of the last before the gap are good for any number of repeats in it: each finds what it reads, of the
repeat before as of its own, where that one finds it, and whoever reads it finds it there, too. So they are copied, with
the names of the nodes that were left out. The same with pairs: a kernel of one repeat may take over a sum from the one
before, which leaves less to those of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from torch import fx

from codegen.kernels.definitions import Given, Made, Number, Stored, Tensor
from codegen.kernels.groups import Call
from codegen.kernels.likeness import Likeness
from codegen.kernels.lowering.lower import lower
from codegen.kernels.nodes import Alias
from codegen.kernels.repeats import FRONT, Run, find, short
from codegen.kernels.schedule import Launch, Schedule, schedule

Step = Launch | Call
T = TypeVar("T")


def scheduled(graph: fx.GraphModule, like: Likeness, in_stretches: bool = False) -> Schedule:
    """`schedule(lower(graph), in_stretches)`; of tensors that kernels compute, the program may tell no values, and only
    those that lie in memory, or are that of others. Raises what `lower` does."""
    runs = find(like)
    if runs:
        names = _Names(graph)
        found = _of_graph(schedule(lower(short(graph, runs)), in_stretches), names)
        for run in runs:
            found = found and _unrolled(found, run, names)
        if found is not None:
            return replace(found, program=replace(found.program, results=_results(found, runs, names)))
    return schedule(lower(graph), in_stretches)


class _Names:
    """What the names of tensors say of where these belong."""

    def __init__(self, graph: fx.GraphModule) -> None:
        self.nodes = list(graph.graph.nodes)
        self.places = {node.name: at for at, node in enumerate(self.nodes)}
        self.known: dict[tuple[Run, str], tuple[int, int, str] | None] = {}

    def place(self, run: Run, name: str) -> tuple[int, int, str] | None:
        """The repeat that a tensor belongs to, where in it, and what follows its node's name. None for others."""
        key = run, name
        if key not in self.known:
            owner = name.partition(".")[0]
            place = run.place(self.places[owner])
            self.known[key] = None if place is None else (*place, name[len(owner) :])
        return self.known[key]

    def seen(self, run: Run, repeat: int, name: str) -> str | tuple[int, int, str]:
        """How that repeat of the short graph knows a tensor: another one by such a name is to it what this is here."""
        place = self.place(run, name)
        if place is None:
            return name
        number, at, rest = place
        return (number if number < FRONT else number - len(run.left_out)) - repeat, at, rest

    def moved(self, run: Run, by: int, name: str) -> str:
        """The tensor that is the same so many repeats later."""
        place = self.place(run, name)
        return name if place is None else self.nodes[run.node(place[0] + by, place[1])].name + place[2]

    def is_at_front(self, run: Run, name: str) -> bool:
        place = self.place(run, name)
        return place is not None and place[0] < FRONT

    def behind(self, run: Run, name: str) -> str:
        """What stands behind the repeats that were left out finds what it reads of those before there, and in the short
        graph at the front."""
        return self.moved(run, len(run.left_out), name) if self.is_at_front(run, name) else name


def _of_graph(found: Schedule, names: _Names) -> Schedule | None:
    """With the graph's own nodes in the place of their copies in the short one, and without values: those of the short
    graph read other tensors. None where ATen is called for others."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in found.program.tensors.items():
        if isinstance(tensor, Made):
            if tensor.node.name not in names.places:
                return None
            tensors[name] = replace(tensor, node=names.nodes[names.places[tensor.node.name]])
        elif isinstance(tensor, Given):
            tensors[name] = tensor
        elif name in found.stored or name in found.aliases or name in found.written:
            tensors[name] = Stored(name, tensor.shape, tensor.dtype, tensor.strides)
    steps = [
        step if isinstance(step, Launch) else Call([tensors[made.name] for made in step.made], step.first)  # type: ignore[misc]
        for step in found.steps
    ]
    return replace(found, steps=tuple(steps), program=replace(found.program, tensors=tensors))


def _results(found: Schedule, runs: tuple[Run, ...], names: _Names) -> list[Any]:
    """What the whole graph gives: `found` gives what the short one does."""
    results: Any = names.nodes[-1].args[0]
    places = [names.places[each.name] if isinstance(each, fx.Node) else None for each in results]
    lacking = [next((run for run in runs if at is not None and run.leaves_out(at)), None) for at in places]
    rest = iter(found.program.results)
    given = [next(rest) if run is None else None for run in lacking]
    known = {at: value for at, value in zip(places, given, strict=True) if at is not None}
    for number, (at, run) in enumerate(zip(places, lacking, strict=True)):
        place = run.place(at) if run is not None and at is not None else None
        if run is not None and place is not None:
            value = known[run.node(FRONT - 1, place[1])]
            given[number] = _renamed(value, partial(names.moved, run, place[0] - (FRONT - 1)))
        elif at is not None:
            for each in runs:
                if not names.is_at_front(each, names.nodes[at].name):
                    given[number] = _renamed(given[number], partial(names.behind, each))
    return given


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    """One of the results of a program."""
    match value:
        case str():
            return rename(value)
        case Number():
            return Number(rename(value.tensor))
    return value


# --- one run ----------------------------------------------------------------------------------------------------------
def _unrolled(found: Schedule, run: Run, names: _Names) -> Schedule | None:
    """With what the short graph lacks of that run. None where the repeats are not scheduled alike, or inputs of theirs
    are written."""
    if any(names.place(run, name) for pair in found.program.writes for name in pair):
        return None
    labels: list[int] = []
    for step in found.steps:
        label = _label(step, run, names)
        if label is None:
            return None
        labels.append(label)
    # Each begins with the first of its steps. Of those before it some may be left, for which nobody waits.
    seen = range(FRONT - 3, FRONT + 1)
    begins = [labels.index(repeat) for repeat in (*seen, FRONT + 1) if repeat in labels]
    blocks = [range(*ends) for ends in pairwise(begins)]
    if len(blocks) < len(seen) or not all(blocks) or any(0 <= label < FRONT for label in labels[begins[-1] :]):
        return None
    facts = [
        _facts(found, [found.steps[at] for at in block], run, repeat, names)
        for repeat, block in zip(seen, blocks, strict=True)
    ]
    if facts[1] == facts[2] == facts[3]:
        return _Copies(found, run, names, 1).made(blocks[2:3])
    return _Copies(found, run, names, 2).made(blocks[1:3]) if facts[:2] == facts[2:] else None


def _label(step: Step, run: Run, names: _Names) -> int | None:
    """The last repeat of the short graph that a step has to do with; -1 for none. None for one that has to do with
    others far before."""
    seen = (names.seen(run, 0, name) for name in _tensors(step))
    repeats = {each[0] for each in seen if isinstance(each, tuple)} or {-1}
    return max(repeats) if max(repeats) - min(repeats) <= FRONT - 2 else None


def _tensors(step: Step) -> tuple[str, ...]:
    """What it has to do with. Of what it computes and does not store the repeats that were left out may have more."""
    if isinstance(step, Launch):
        return *step.tensors, *step.done
    return tuple(name for made in step.made for name in (made.name, *made.reads))


def _facts(found: Schedule, steps: list[Step], run: Run, repeat: int, names: _Names) -> list[Any]:
    """All that there is to know of a repeat of the short graph, as it knows it itself."""
    seen = partial(names.seen, run, repeat)

    def own(known: Mapping[str, T], fact: Callable[[T], Any]) -> dict[Any, Any]:
        named = ((seen(name), value) for name, value in known.items())
        return {name: fact(value) for name, value in named if isinstance(name, tuple) and name[0] == 0}

    def of_tensor(tensor: Tensor) -> Any:
        looks = type(tensor), tensor.shape, tensor.dtype, tensor.strides
        if not isinstance(tensor, Made):
            return looks
        operands = tuple(seen(operand) if isinstance(operand, str) else operand for operand in tensor.operands)
        return *looks, tensor.item, operands, tensor.has_effects

    def of_step(step: Step) -> Any:
        if isinstance(step, Launch):
            return step.kernel.name, step.sizes, step.scalars, tuple(map(seen, step.tensors))
        return tuple(seen(made.name) for made in step.made)

    return [
        list(map(of_step, steps)), own(found.program.tensors, of_tensor), own(found.stored, of_tensor),
        own(found.written, seen),
        own(found.aliases, lambda alias: (seen(alias.base), alias.shape, alias.strides, alias.offset)),
        own(found.views, lambda others: set(map(seen, others))),
    ]  # fmt: skip


Rename = Callable[[str], str]


@dataclass(frozen=True)
class _Copies:
    """`found` with copies of the last repeats before the gap, so many of them in turn."""

    found: Schedule
    run: Run
    names: _Names
    turn: int

    def made(self, blocks: list[range]) -> Schedule:
        """`blocks`: where their steps are."""
        found, after = self.found, blocks[-1][-1] + 1
        tensors = self._spread(found.program.tensors, self._tensor)
        copies = [
            self._step(found.steps[at], rename)
            for repeat, rename in self._renames() for at in blocks[repeat - FRONT]
        ]  # fmt: skip
        behind = [self._step(step, self._behind) for step in found.steps[after:]]
        return replace(
            found, program=replace(found.program, tensors=tensors), steps=(*found.steps[:after], *copies, *behind),
            stored=self._spread(found.stored, self._stored),
            written=self._spread(found.written, lambda target, rename: rename(target)),
            aliases=self._spread(found.aliases, self._alias),
            views=self._spread(found.views, lambda others, rename: set(map(rename, others))),
        )  # fmt: skip

    def _renames(self) -> list[tuple[int, Rename]]:
        """For each repeat that was left out: which one has the same steps, and new names for these."""
        copied = ((FRONT - self.turn + (repeat - FRONT) % self.turn, repeat) for repeat in self.run.left_out)
        return [(one, partial(self.names.moved, self.run, repeat - one)) for one, repeat in copied]

    def _behind(self, name: str) -> str:
        return self.names.behind(self.run, name)

    def _spread(self, known: Mapping[str, T], copy: Callable[[T, Rename], T]) -> dict[str, T]:
        """With copies of what is known of what these repeats compute, after that. All inputs are there already."""
        computed: dict[int, list[str]] = {repeat: [] for repeat in range(FRONT - self.turn, FRONT)}
        last = None
        for name in known:
            place = self.names.place(self.run, name)
            if place is not None and place[0] in computed and place[1] < self.run.period:
                computed[place[0]].append(name)
                last = name
        found: dict[str, T] = {}
        for name, value in known.items():
            is_at_front = self.names.is_at_front(self.run, name)
            found[name] = value if is_at_front else copy(value, self._behind)
            if name == last:
                for repeat, rename in self._renames():
                    found.update((rename(each), copy(known[each], rename)) for each in computed[repeat])
        return found

    def _step(self, step: Step, rename: Rename) -> Step:
        if isinstance(step, Launch):
            return replace(step, tensors=tuple(map(rename, step.tensors)), done=tuple(map(rename, step.done)))
        return Call([self._made(made, rename) for made in step.made], step.first)

    def _tensor(self, tensor: Tensor, rename: Rename) -> Tensor:
        return self._made(tensor, rename) if isinstance(tensor, Made) else replace(tensor, name=rename(tensor.name))

    def _stored(self, tensor: Stored, rename: Rename) -> Stored:
        return replace(tensor, name=rename(tensor.name))

    def _made(self, made: Made, rename: Rename) -> Made:
        operands = tuple(rename(each) if isinstance(each, str) else each for each in made.operands)
        node = self.names.nodes[self.names.places[rename(made.node.name)]]
        return replace(made, name=rename(made.name), node=node, operands=operands)

    def _alias(self, alias: Alias, rename: Rename) -> Alias:
        return replace(alias, name=rename(alias.name), base=rename(alias.base))
