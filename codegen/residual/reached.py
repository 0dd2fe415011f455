"""How far a graph came that raised, read off the traceback of its error: calls that succeed pay nothing.

A graph that runs node by node has a frame there, whose line is a node's, or one for the node, if it is interpreted; a
plan has an entry, whose line is a step's number (`codegen/csrc/plan.cpp`). What follows in the traceback is of the
operation itself.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from codegen.aot.backend import CapturedProgram
from codegen.aot.facts import memory_of
from codegen.aot.numbers import SAFE
from codegen.plan import steps as s
from codegen.plan.about import About, entries
from symbolic import tracebacks
from symbolic.shapes import CHECKS


@dataclass(frozen=True, eq=False)
class Reached:
    """`nodes`: what raised, of these the first if anybody can tell. `rest`: what its own functions left."""

    graph: fx.GraphModule
    nodes: tuple[fx.Node, ...]
    rest: TracebackType | None
    about: About | None = None
    step: int = 0

    @property
    def is_refused(self) -> bool:
        """Whether an operation refused its numbers, so that it is no fault of ours."""
        if self.about is None:
            return True
        return isinstance(self.about.plan.steps[self.step], s.Call | s.Launch | s.LaunchGroup)

    def lasts(self, may_draw: bool, kept: tuple[int, ...]) -> bool:
        """Whether there may be something that can't be taken back, as inputs that are `kept` can be."""
        if self.about is not None:
            return self.about.lasts(self.step, may_draw, kept)
        done = list(self.graph.graph.nodes)
        given = [node for node in done if node.op in ("placeholder", "get_attr") and node.meta.get("input") not in kept]
        memories = {memory_of(node) for node in given if isinstance(node.meta.get("val"), torch.Tensor)}
        return any(_lasts(node, may_draw, memories) for node in done[: done.index(self.nodes[0]) + 1])

    def show(self, error: BaseException) -> None:
        """Its traceback is what eager code's would be, as far as the program's lines go."""
        trace = next((found for node in self.nodes if (found := entries(node))), ())
        if trace:
            error.__traceback__ = self.rest
            tracebacks.passed(error, tuple(tracebacks.entry_at(*entry) for entry in reversed(trace)))


def how_far(error: BaseException) -> Reached | None:
    trace = error.__traceback__
    while trace is not None:
        file, known = trace.tb_frame.f_code.co_filename, trace.tb_frame.f_globals
        if file == "<plan>" and isinstance(about := known["about"], About):
            found = tuple(about.raising(trace.tb_lineno))
            return Reached(about.graph, found, trace.tb_next, about, trace.tb_lineno) if found else None
        if file.startswith("<eval_with_key>"):
            graph = trace.tb_frame.f_locals.get("self")
            if not isinstance(graph, fx.GraphModule) or (node := _node_at(graph, trace.tb_lineno)) is None:
                return None
            return Reached(graph, (node,), trace.tb_next)
        if trace.tb_frame.f_code is CapturedProgram.run_node.__code__:
            here = trace.tb_frame.f_locals
            return Reached(here["self"].module, (here["n"],), _behind(here["self"], trace))
        trace = trace.tb_next
    return None


def _behind(interpreter: CapturedProgram, trace: TracebackType) -> TracebackType | None:
    """What follows on the interpreter's own frames."""
    while trace.tb_frame.f_locals.get("self") is interpreter:
        if trace.tb_next is None:
            return None
        trace = trace.tb_next
    return trace


def _node_at(graph: fx.GraphModule, line: int) -> fx.Node | None:
    """The node that a line of the Python of a graph computes."""
    code = graph.graph.python_code("self")
    at = (code._lineno_map or {}).get(line - code._prologue_start)
    return None if at is None else list(graph.graph.nodes)[at]


#: They only compute, or raise.
_QUIET = frozenset({operator.getitem, *SAFE, *CHECKS})


def _lasts(node: fx.Node, may_draw: bool, given: set[int]) -> bool:
    """Whether a node of a graph of ATen's operations may leave something behind: in the memories that are `given`."""
    if node.op in ("placeholder", "get_attr", "output") or node.target in _QUIET:
        return False
    if "piece" in node.meta:
        return any(_lasts(each, may_draw, given) for each in node.meta["piece"].graph.nodes)
    if not isinstance(node.target, OpOverload):
        return True
    draws = torch.Tag.nondeterministic_seeded in node.target.tags
    return draws and not may_draw or not given.isdisjoint(_written(node))


def _written(node: fx.Node) -> Iterator[int]:
    """The memories that an operation writes."""
    assert isinstance(node.target, OpOverload)
    for at, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)
            yield from (memory_of(each) for each in tree_leaves(value) if isinstance(each, fx.Node))
