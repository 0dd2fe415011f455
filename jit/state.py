"""What a compiled function has come to: its frames, the graph of each entry, the plans that run in the graph's place.

`compiled.debug_state()` gives it as data; printed, it is a page to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING, Any

from torch import fx

from codegen.aot.stages import Stages, stages_of
from codegen.plan.steps import Plan
from symbolic.capture import BreakReason

if TYPE_CHECKING:
    from jit.compiler import Record


@dataclass(frozen=True)
class GraphState:
    """A graph of ATen operations and the plan that runs in its place. Without a plan, and for what no plan runs
    (tensors that somebody traces or batches), the graph itself runs, operation by operation: it is the fallback."""

    name: str
    fallback: fx.GraphModule
    plan: Plan | None

    def __str__(self) -> str:
        code = self.fallback.code.strip()
        if self.plan is None:
            return f"{self.name}, run by ATen:\n{indent(code, '    ')}"
        return f"{self.name}, as a plan:\n{indent(str(self.plan), '    ')}\n  its fallback:\n{indent(code, '    ')}"


@dataclass(frozen=True)
class EntryState:
    """Compiled code for calls of one kind. `graph`: as captured, None where there is nothing to compute."""

    hits: int
    guards: tuple[Any, ...]
    graph: fx.GraphModule | None
    graphs: tuple[GraphState, ...]
    breaks: tuple[BreakReason, ...] = ()

    def __str__(self) -> str:
        guards = "\n".join(f"  {guard}" for guard in self.guards) or "  none"
        graph = "  none" if self.graph is None else indent(self.graph.code.strip(), "  ")
        return "\n".join([f"{self.hits} hits; guards:", guards, "graph:", graph, *map(str, self.graphs)])


@dataclass(frozen=True)
class FrameState:
    """A function, or what is left of one after a graph break. `entries`: the one that fitted last comes first. `saved`:
    seconds that compiled code took less than the same calls as written, None where these were not timed."""

    name: str
    place: str
    misses: int
    is_frozen: bool
    entries: tuple[EntryState, ...]
    saved: float | None = None

    def __str__(self) -> str:
        frozen = ", compiled no more" if self.is_frozen else ""
        head = f"{self.name} ({self.place}): {self.misses} misses{frozen}"
        texts = [f"entry {number}: {entry}" for number, entry in enumerate(self.entries)]
        return "\n".join([head, *(indent(text, "  ") for text in texts)])


@dataclass(frozen=True)
class DebugState:
    """The frame that is called, and those that came of it."""

    frames: tuple[FrameState, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.frames))

    @property
    def entries(self) -> tuple[EntryState, ...]:
        return tuple(entry for frame in self.frames for entry in frame.entries)

    @property
    def plans(self) -> tuple[Plan, ...]:
        graphs = (graph for entry in self.entries for graph in entry.graphs)
        return tuple(graph.plan for graph in graphs if graph.plan is not None)


def debug_state(caches: Iterable[Any]) -> DebugState:
    """Of the caches of one compiler, as they are now."""
    return DebugState(tuple(_frame(cache) for cache in caches if cache.misses or cache.entries))


def compiled(cache: Any) -> list[Any]:
    """Its entries but those that let the original run."""
    return [entry for entry in cache.entries if entry.function is not None]


def _frame(cache: Any) -> FrameState:
    code = cache.code
    place = f"{code.co_filename}:{code.co_firstlineno}"
    entries = tuple(map(_entry, compiled(cache)))
    return FrameState(code.co_qualname, place, cache.misses, cache.frozen, entries, _saved(*cache.times))


def _saved(written_calls: int, written: float, compiled_calls: int, compiled: float) -> float | None:
    return written / written_calls * compiled_calls - compiled if written_calls and compiled_calls else None


def _entry(entry: Any) -> EntryState:
    record: Record = entry.meta
    graphs = tuple(each for name, stages in stages_of(record.module).items() for each in _graphs(stages, name))
    return EntryState(entry.hits, tuple(record.guards), record.module, graphs, tuple(record.breaks))


def _graphs(stages: Stages, part: str) -> Iterator[GraphState]:
    of = f" of {part}" if part else ""
    named = {"inference" if stages.backward is None else "forward": stages.forward, "backward": stages.backward}
    for name, graph in named.items():
        if graph is not None:
            yield GraphState(name + of, graph, graph.meta.get("plan"))
            for number, piece in enumerate(graph.meta.get("pieces", ())):
                yield GraphState(f"piece {number} of it", piece, piece.meta.get("plan"))
