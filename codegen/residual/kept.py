"""What is kept of the world before a graph that may raise when it has done something that lasts: the states of the
generators that it draws from, and copies of inputs that it writes before its last operation that may raise.

So the frame can run again as it was written in the world that it found. Which graphs these are is known when they are
compiled; calls of all others keep nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import GradientEdge, get_gradient_edge

from codegen import _C
from codegen.aot.facts import Input
from codegen.aot.stages import Stages
from codegen.raising import computes_float, inside, name_of, raising, tensors_of
from symbolic.graph import GraphBuilder
from symbolic.variables.tensors import TensorVariable

#: What is written through these may lie beside what a tensor shows of its memory.
_BESIDE = frozenset({"as_strided", "set", "resize", "resize_as", "untyped_storage"})
_CPU = torch.device("cpu")
_RUNNING = ("running_mean", "running_var")
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True)
class Needed:
    """`inputs`: the places of those inputs of a graph that copies are kept of; `generators`: whose states are kept, all
    that it draws from."""

    inputs: tuple[int, ...] = ()
    generators: tuple[torch.Generator, ...] = ()


def needed(graph: GraphBuilder, module: fx.GraphModule, stages: Stages | None) -> Needed:
    """What is to be kept for a graph, `stages` of which are known if it was differentiated ahead of time."""
    nodes = list(module.graph.nodes)
    writers = {at: found for at, node in enumerate(nodes) if (found := _written(node, graph.writers))}
    if not writers and not graph.draws:
        return Needed()
    all_written = frozenset().union(*writers.values())
    last = max(raising(nodes, lambda node: not all_written.isdisjoint(_memories([node]))), default=-1)
    generators = _generators(nodes) if graph.draws and (last >= 0 or any(map(computes_float, nodes))) else ()
    return Needed(tuple(_inputs(graph, nodes, writers, last, stages)) if last >= 0 else (), generators)


def _generators(nodes: list[fx.Node]) -> tuple[torch.Generator, ...]:
    """The default ones of the devices that a graph knows; none where one of these has none."""
    devices = {tensor.device for tensor in tensors_of(nodes)} - {_CPU}
    known = torch.cuda.default_generators
    if any(device.type != "cuda" or device.index is None or device.index >= len(known) for device in devices):
        return ()
    return torch.default_generator, *(known[device.index] for device in devices)


def _inputs(
    graph: GraphBuilder, nodes: list[fx.Node], writers: dict[int, frozenset[int]], last: int, stages: Stages | None
) -> Iterator[int]:
    if graph.moves or any(node.op != "placeholder" and name_of(node.target) in _BESIDE for node in nodes):
        return
    written = frozenset().union(*(found for at, found in writers.items() if at <= last))
    early = None if stages is None else _early(stages)
    for at, variable in enumerate(graph.inputs):
        if isinstance(variable, TensorVariable) and variable.cls in _PLAIN:
            if early is not None and early.is_known or variable.fake.untyped_storage()._cdata in written:
                if early is None or at in early.inputs:
                    yield at


@dataclass(frozen=True)
class _Early:
    """Inputs that are written before a differentiated graph is done; `is_known`: and before it may raise."""

    inputs: Collection[int]
    is_known: bool


def _early(stages: Stages) -> _Early:
    about = stages.forward.meta.get("about")
    if about is not None:
        return _Early(about.written_when_raising(), True)
    updates = (update for update in stages.traced.updates if update.inside)
    return _Early({update.target.index for update in updates if isinstance(update.target, Input)}, False)


def _written(node: fx.Node, writers: Mapping[fx.Node, frozenset[int]]) -> frozenset[int]:
    """The memories that an operation may write."""
    name = name_of(node.target)
    if name in ("batch_norm", "instance_norm"):
        return _memories([node.args[1:3], *(node.kwargs.get(each) for each in _RUNNING)])
    if any(not writers.keys().isdisjoint(each.nodes) for each in inside(node)):
        return _memories([node.args, node.kwargs])
    return writers.get(node, frozenset())


def _memories(values: list[Any]) -> frozenset[int]:
    return frozenset(tensor.untyped_storage()._cdata for tensor in tensors_of(values))


# --- when it runs -----------------------------------------------------------------------------------------------------
class Before:
    """Tensors as they are now: each with a copy, its version (None for inference tensors) and where its gradient goes
    (None for leaves)."""

    __slots__ = ("tensors",)

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = [
            (
                tensor, tensor.detach().clone(), None if tensor.is_inference() else tensor._version,
                get_gradient_edge(tensor) if tensor.grad_fn is not None else None,
            )
            for tensor in tensors
        ]  # fmt: skip

    def put_back(self) -> bool:
        """Whether that could be done. A history can't be where others have it, too, or hooks may be there."""
        for tensor, copy, _, edge in self.tensors:
            is_shared = tensor._is_view() or tensor._backward_hooks
            if tensor.shape != copy.shape or is_shared and _has_other_history(tensor, edge):
                return False
        for tensor, copy, version, edge in self.tensors:
            with torch.inference_mode(tensor.is_inference()):
                tensor.data.copy_(copy)
            if _has_other_history(tensor, edge):
                if edge is None:
                    tensor.detach_()
                else:
                    _C.graft((tensor,), (edge,), (), ())
            if version is not None:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
        return True


def _has_other_history(tensor: torch.Tensor, edge: GradientEdge | None) -> bool:
    return tensor.grad_fn is not (None if edge is None else edge.node)
