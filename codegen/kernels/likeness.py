"""Which graphs are the same but for their names: those share their kernels and their plan."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from torch import fx

#: Of each node: its kind, operation or attribute's contents, the text of its arguments, which nodes are among these (by
#: their places in the graph), properties of its value.
Likeness = tuple[tuple[str, Any, str, tuple[int, ...], Any], ...]

#: Bytes of an attribute that are looked at.
SMALL = 1 << 14


class _Operand:
    """Stands for a node among arguments."""

    def __repr__(self) -> str:
        return "%"


_OPERAND = _Operand()


def likeness(graph: fx.GraphModule) -> Likeness:
    """Equal for graphs of the same operations on tensors of the same properties, as long as their attributes live.

    Operations and large attributes are told by identity, other arguments by their text: it tells 0.0 from -0.0 and
    False."""
    numbers: dict[fx.Node, int] = {}
    operands: list[int] = []

    def operand(node: fx.Node) -> Any:
        operands.append(numbers[node])
        return _OPERAND

    lines = []
    for node in graph.graph.nodes:
        operands.clear()
        given = fx.map_arg((node.args, node.kwargs), operand)
        numbers[node] = len(numbers)
        what: Any = None if node.op == "placeholder" else node.target
        if node.op == "get_attr":
            what = _contents(attrgetter(str(node.target))(graph))
        lines.append((node.op, what, repr(given), tuple(operands), _properties(node.meta.get("val"))))
    return tuple(lines)


def _contents(value: Any) -> Any:
    """A constant that passes have computed is another tensor in each graph."""
    if type(value) is not torch.Tensor or value.device.type != "cpu" or value.nbytes > SMALL:
        return id(value)
    return bytes(value.reshape(-1).view(torch.uint8).tolist())


def _properties(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.layout, value.dtype, value.device, str(value.shape)
        geometry = (*value.shape, *value.stride(), value.storage_offset())
        return value.dtype, value.device, value.dim(), tuple(map(_number, geometry))
    if isinstance(value, tuple | list):
        return tuple(map(_properties, value))
    return type(value), str(value)


def _number(value: int | torch.SymInt) -> int | str:
    return value if isinstance(value, int) else str(value)
