"""What people are told of a plan: of its steps in words, for ranges in traces, and of its runs, for profiles."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import fx

from codegen import _C
from codegen.plan import steps as s
from codegen.plan.run import computed
from codegen.raising import raising

_TRACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


@dataclass(frozen=True, order=True)
class Place:
    """A line of the program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Doing:
    """`kind`: "kernel", "ATen" or "Python"; `places`: the program's own lines that it comes from."""

    name: str
    kind: str
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(map(str, self.places))})" if self.places else self.name


@dataclass(frozen=True, eq=False)
class About:
    """A plan, and the graph that it was made of, or one like that. Called, it gives labels for `build`."""

    plan: s.Plan
    graph: fx.GraphModule

    @property
    def is_backward(self) -> bool:
        return self.plan.takes_list

    def __call__(self) -> tuple[str | None, ...]:
        """Operations of ATen have ranges of their own."""
        doings = self.doings()
        lines = sorted({place for doing in doings if doing for place in doing.places})
        name = "backward graph" if self.is_backward else "graph"
        if lines:
            first, last = lines[0], lines[-1]
            name += f" ({first} to {last.line if first.file == last.file else last})"
        return name, *(str(doing) if doing and doing.kind != "ATen" else None for doing in doings)

    def lasts(self, at: int, may_draw: bool, kept: Collection[int]) -> bool:
        """Whether the steps up to this one may have left something behind: written what they were given (unless that is
        `kept`, which are places of inputs), drawn random numbers, called Python."""
        done = self.plan.steps[: at + 1]
        if any(isinstance(step, s.Python) or not may_draw and _draws(step) for step in done):
            return True
        written = itertools.islice(self._written(), at + 1)
        return any(node is None or node.meta.get("input") not in kept for nodes in written for node in nodes)

    def written_when_raising(self) -> set[int]:
        """The places of inputs that may have been written when a step raises for the values that it is given."""
        found: set[fx.Node | None] = set()
        so_far: set[fx.Node | None] = set()
        nodes = list(self.graph.graph.nodes)
        stored = {nodes[origin] for each in self.plan.steps for origin in _origin(each)}
        steps = [_computed(step, nodes, stored) for step in self.plan.steps]
        computed = [node for each in steps for node in each]
        raises = {computed[at] for at in raising(computed, lambda node: False)}
        for each, written in zip(steps, self._written(), strict=True):
            so_far |= written
            if not raises.isdisjoint(each):
                found |= so_far
        return {node.meta["input"] for node in found if node is not None and "input" in node.meta}

    def _written(self) -> Iterator[set[fx.Node | None]]:
        """For each step the inputs that it may write; None stands for a constant."""
        nodes = list(self.graph.graph.nodes)
        given: Iterable[fx.Node] = (node for node in nodes if node.op == "placeholder")
        lies_in: dict[s.Slot, set[fx.Node | None]] = {
            slot: {node} for slot, node in zip(self.plan.parameters, given, strict=True) if slot is not None
        }
        for step in self.plan.steps:
            written: set[fx.Node | None] = set()
            match step:
                case s.View() if step.base in lies_in:
                    lies_in[step.tensor] = lies_in[step.base]
                case s.Constant():
                    lies_in[step.tensor] = {None}
                case s.Call():
                    slots = s.slots_in((step.args, tuple(step.kwargs)))
                    met = set().union(*(lies_in.get(slot, ()) for slot in slots))
                    if step.op._schema.is_mutable:
                        written = met
                    for slot in s.slots_in(step.results) if met else ():  # it may give a view
                        lies_in[slot] = lies_in.get(slot, set()) | met
                case s.Launch() | s.DeviceLaunch() | s.LaunchGroup():
                    written = {nodes[origin] for origin in _origin(step) if nodes[origin].op == "placeholder"}
            yield written

    def raising(self, at: int) -> Sequence[fx.Node]:
        """What a step computes, the likeliest to raise first."""
        nodes, step = list(self.graph.graph.nodes), self.plan.steps[at]
        found = [nodes[origin] for origin in _origin(step)]
        if isinstance(step, s.Launch | s.DeviceLaunch | s.LaunchGroup):
            stored = {nodes[origin] for each in self.plan.steps for origin in _origin(each)}
            for node in found:  # and what it needs, which is computed on the way
                found += [each for each in node.all_input_nodes if each not in stored and each not in found]
        return sorted(found, key=lambda node: not _may_refuse(node))

    def doings(self) -> tuple[Doing | None, ...]:
        """Of each step; None for those that only deal with memory and numbers."""
        nodes = list(self.graph.graph.nodes)
        return tuple(_doing(step, nodes) for step in self.plan.steps)


def _computed(step: s.Step, nodes: Sequence[fx.Node], stored: Collection[fx.Node]) -> list[fx.Node]:
    """The nodes that a step computes: those that it gives, and what these need on the way."""
    found = dict.fromkeys(nodes[origin] for origin in _origin(step))
    todo = [] if isinstance(step, s.Call) else list(found)
    while todo:
        new = [each for each in todo.pop().all_input_nodes if each not in stored and each not in found]
        found.update(dict.fromkeys(new))
        todo += new
    return list(found)


def _draws(step: s.Step) -> bool:
    return isinstance(step, s.Call) and torch.Tag.nondeterministic_seeded in step.op.tags


def _doing(step: s.Step, nodes: Sequence[fx.Node]) -> Doing | None:
    def of(name: str, kind: str, origin: Iterable[int]) -> Doing:
        return Doing(name, kind, tuple(sorted(set(_places(nodes[at] for at in origin)))))

    match step:
        case s.Launch() | s.DeviceLaunch():
            return of(step.function.name, "kernel", step.origin)
        case s.LaunchGroup():
            return of(" + ".join(launch.function.name for launch in step.launches), "kernel", _origin(step))
        case s.Call():
            return of(str(step.op), "ATen", step.origin)
        case s.Python():
            return of(getattr(step.function, "__qualname__", repr(step.function)), "Python", step.origin)
    return None


def _origin(step: s.Step) -> tuple[int, ...]:
    if isinstance(step, s.LaunchGroup):
        return tuple(at for launch in step.launches for at in launch.origin)
    return getattr(step, "origin", ())


#: Of operators that are kernels, those that divide; those that look up have an argument of such a name.
_DIVIDE = {"aten::div", "aten::floor_divide", "aten::remainder", "aten::fmod"}
_LOOK_UP = {"index", "indices", "target"}


def _may_refuse(node: fx.Node) -> bool:
    """Whether it refuses some numbers."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and (
        schema.name in _DIVIDE or not _LOOK_UP.isdisjoint(argument.name for argument in schema.arguments)
    )


def _places(nodes: Iterable[fx.Node]) -> Iterator[Place]:
    """The innermost lines that are not torch's own."""
    for node in nodes:
        found = entries(node)
        own = [each for each in found if not each[0].startswith(_TORCH)] or found
        if own:
            yield Place(*own[-1][:2])


def entries(node: fx.Node) -> list[tuple[str, int, str]]:
    """File, line and function of each of the program's frames that a node comes from, the outermost first."""
    found = _TRACE.findall(node.meta.get("stack_trace") or "")
    return [(file, int(line), name) for file, line, name in found]


# --- runs -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """`seconds`: of each step, none while its launches were recorded as a CUDA graph; `bytes`: of each, None where
    nobody knows."""

    about: About
    seconds: tuple[float, ...]
    bytes: tuple[int | None, ...]


_profiles: list[list[Run]] = []


def is_profiled() -> bool:
    return bool(_profiles)


@contextmanager
def profiled() -> Iterator[list[Run]]:
    """The runs of plans that were made with an `About`, in this process, until it ends."""
    runs: list[Run] = []

    def told(about: object, times: tuple[int, ...], moved: tuple[int, ...], numbers: tuple[int, ...]) -> None:
        if isinstance(about, About):
            steps = zip(about.plan.steps, moved, strict=True)
            sizes = tuple(_bytes(step, count, numbers) for step, count in steps)
            runs.append(Run(about, tuple(time * 1e-9 for time in times), sizes))

    before = _C.watch(told)
    _profiles.append(runs)
    try:
        yield runs
    finally:
        _profiles.remove(runs)
        _C.watch(before)


def _bytes(step: s.Step, moved: int, numbers: tuple[int, ...]) -> int | None:
    """What a step moves in a run whose number slots held these."""

    def value(operand: int | s.NumberSlot) -> int:
        return numbers[operand.number] if isinstance(operand, s.NumberSlot) else operand

    if isinstance(step, s.Call):
        return moved
    launches = step.launches if isinstance(step, s.LaunchGroup) else (step,)
    programs = [each.traffic for each in launches if isinstance(each, s.Launch | s.DeviceLaunch) and each.traffic]
    return sum(computed(program, value) for program in programs) if len(programs) == len(launches) else None
