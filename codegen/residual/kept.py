"""What is kept of the world before a graph that may raise when it has done something that lasts: the states of the
generators that it draws from, and copies of inputs that it writes before its last operation that may raise.

So the frame can run again as it was written in the world that it found. Which graphs these are is known when they are
compiled; calls of all others keep nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import GradientEdge, get_gradient_edge

from codegen import _C
from codegen.aot.facts import Input
from codegen.residual.raising import inside, name_of, raising, tensors_of
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


def needed(graph: GraphBuilder, module: fx.GraphModule, stages: Any) -> Needed:
    """What is to be kept for a graph, `stages` of which are known if it was differentiated ahead of time."""
    nodes = list(module.graph.nodes)
    writers = {at: found for at, node in enumerate(nodes) if (found := _written(node, graph.writers))}
    if not writers and not graph.draws:
        return Needed()
    all_written = frozenset().union(*writers.values())
    last = max(raising(nodes, lambda node: not all_written.isdisjoint(_memories([node]))), default=-1)
    if last < 0:
        return Needed()
    generators = _generators(nodes) if graph.draws else ()
    return Needed(tuple(_inputs(graph, nodes, writers, last, stages)), generators)


def _generators(nodes: list[fx.Node]) -> tuple[torch.Generator, ...]:
    """The default ones of the devices that a graph knows; none where one of these has none."""
    devices = {tensor.device for tensor in tensors_of(nodes)} - {_CPU}
    if any(device.type != "cuda" for device in devices):
        return ()
    return torch.default_generator, *(torch.cuda.default_generators[device.index] for device in devices)


def _inputs(
    graph: GraphBuilder, nodes: list[fx.Node], writers: dict[int, frozenset[int]], last: int, stages: Any
) -> Iterator[int]:
    if graph.moves or any(node.op != "placeholder" and name_of(node.target) in _BESIDE for node in nodes):
        return
    written = frozenset().union(*(found for at, found in writers.items() if at <= last))
    inputs = None
    if stages is not None:  # others are written when the graph is done
        updates = [update for update in stages.traced.updates if update.inside]
        inputs = {update.target.index for update in updates if isinstance(update.target, Input)}
    for at, variable in enumerate(graph.inputs):
        if isinstance(variable, TensorVariable) and variable.cls in _PLAIN and (inputs is None or at in inputs):
            if variable.fake.untyped_storage()._cdata in written:
                yield at


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
@dataclass(frozen=True, eq=False)
class _Before:
    """A tensor as it was. `edge`: where its gradient went; None for a leaf."""

    tensor: torch.Tensor
    copy: torch.Tensor
    version: int | None
    edge: GradientEdge | None

    def has_other_history(self) -> bool:
        return self.tensor.grad_fn is not (None if self.edge is None else self.edge.node)

    def can_be_put_back(self) -> bool:
        """Its history can't where others have it, too, or its hooks may be there."""
        tensor = self.tensor
        is_shared = tensor._is_view() or tensor._backward_hooks
        return tensor.shape == self.copy.shape and not (is_shared and self.has_other_history())

    def put_back(self) -> None:
        tensor = self.tensor
        with torch.inference_mode(tensor.is_inference()):
            tensor.data.copy_(self.copy)
        if self.has_other_history():
            if self.edge is None:
                tensor.detach_()
            else:
                _C.graft((tensor,), (self.edge,), (), ())
        if self.version is not None:
            torch._C._autograd._unsafe_set_version_counter((tensor,), (self.version,))


class Before:
    """Tensors as they are now."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = [
            _Before(
                tensor, tensor.data.clone(), None if tensor.is_inference() else tensor._version,
                get_gradient_edge(tensor) if tensor.grad_fn is not None else None,
            )
            for tensor in tensors
        ]  # fmt: skip

    def put_back(self) -> bool:
        """Whether that could be done."""
        if not all(each.can_be_put_back() for each in self.tensors):
            return False
        for each in self.tensors:
            each.put_back()
        return True
