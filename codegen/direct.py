"""Graphs of ATen operations as Python that calls them with nothing in between.

A graph prints an operation as `torch.ops.aten.mul.Tensor(a, b)`: four attributes to read, and a Python function that
hands its arguments to the native one. For small tensors that is a third of the operation's time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import fx
from torch._ops import OpOverload
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph_module import _forward_from_src


def direct(graph: fx.GraphModule) -> Callable[..., Any]:
    """`graph.forward` as the graph is now, each operation known by a name of its own."""
    code = graph.graph.python_code("self")
    natives = {f"torch.ops.{op}": op._op for op in _operations(graph.graph)}
    names = {text: text.replace(".", "_") for text in natives}
    source = re.sub(r"torch\.ops\.[\w.]+(?=\()", lambda call: names.get(call[0], call[0]), code.src)
    known = {**code.globals, **{names[text]: native for text, native in natives.items()}}
    return MethodType(_forward_from_src(source, known), graph)


def as_captured(graph: fx.GraphModule) -> Callable[..., Any]:
    """`graph.forward`, whose Python may not have been written yet."""
    _LazyGraphModule.force_recompile(graph)
    return graph.forward


def _operations(graph: fx.Graph) -> set[OpOverload[..., Any]]:
    return {node.target for node in graph.nodes if isinstance(node.target, OpOverload)}
