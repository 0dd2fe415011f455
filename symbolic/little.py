"""Calls that bring little: those of a function without loops that takes arrays of no great size and no tensor, and does
few things with them. Numpy itself has done these before a graph is called and its results are arrays again."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

import torch

from symbolic.capture import Capture, Return
from symbolic.guards import Guard
from symbolic.sources import Source
from symbolic.variables.arrays import is_array_input

#: Operations, at most, that numpy is as quick with, on arrays of so many elements (of larger ones threads take parts).
FEW = 4
SMALL = 1 << 18
_CHECKS = frozenset({torch.isfinite, torch.all, torch._assert_async})


def is_little(captured: Capture, code: CodeType) -> bool:
    """(How often a loop is run through depends on what comes in.)"""
    graph = captured.graph
    if not isinstance(captured.exit, Return) or not graph.inputs or not all(map(is_array_input, graph.inputs)):
        return False
    if not all(is_small(each.value) for each in graph.inputs):
        return False
    if any("BACKWARD" in inst.opname for inst in dis.get_instructions(code)):
        return False
    calls = [node for node in graph.graph.nodes if node.op.startswith("call") and node.target not in _CHECKS]
    return len(calls) <= FEW


def is_small(array: Any) -> bool:
    """small enough for numpy"""
    count = array.numel() if isinstance(array, torch.Tensor) else array.size
    return bool(count <= SMALL)


def of_arrays(captured: Capture) -> list[Guard]:
    """What must hold for such calls: what numbers are in the arrays, and how they lie, is all the same."""
    guards = [each for each in captured.guards() if each.kind != "predicate" and not _is_computed(each.source)]
    arrays = [each.source.base for each in captured.graph.inputs if each.source is not None]
    return [*guards, *(Guard(source, "predicate", is_small, "", 0) for source in arrays)]


def _is_computed(source: Source | None) -> bool:
    while source is not None:
        if source.kind == "call":
            return True
        source = source.base
    return False
