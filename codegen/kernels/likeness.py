"""Which graphs are the same but for their names: those share their kernels and their plan."""

from __future__ import annotations

import hashlib
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from codegen.kernels import index as ix
from symbolic.late import NUMBERS

#: Of each node: its kind, operation or attribute's contents, the text of its arguments, which nodes are among these (by
#: their places in the graph), properties of its value.
Likeness = tuple[tuple[str, Any, str, tuple[int, ...], Any], ...]

#: Bytes of an attribute that are looked at: a digest of more would take longer than compiling the graph again.
LOOKED_AT = 1 << 24


class _Operand:
    """Stands for a node among arguments."""

    def __repr__(self) -> str:
        return "%"


_OPERAND = _Operand()


def likeness(graph: fx.GraphModule) -> Likeness:
    """Equal for graphs of the same operations on tensors of the same properties, as long as their attributes live.

    Operations and very large attributes are told by identity, other attributes by a digest of their contents, and other
    arguments by their text: it tells 0.0 from -0.0 and False. Sizes that vary go by the order they come up in. Raises
    NotImplementedError for sizes that kernels know no word for."""
    numbers: dict[fx.Node, int] = {}
    operands: list[int] = []
    sizes = _Sizes()

    def operand(given: Any) -> Any:
        if isinstance(given, fx.Node):
            operands.append(numbers[given])
            return _OPERAND
        return sizes.number(given) if ix.is_size(given) else given

    lines = []
    for node in graph.graph.nodes:
        operands.clear()
        given = map_aggregate((node.args, node.kwargs), operand)
        numbers[node] = len(numbers)
        what: Any = None if node.op == "placeholder" else node.target
        if node.op == "get_attr":
            what = contents(attrgetter(str(node.target))(graph))
        lines.append((node.op, what, repr(given), tuple(operands), _properties(node.meta.get("val"), sizes)))
    return tuple(lines)


class _Sizes:
    """Those of one graph that vary, as text that kernels go by, without the names that this capture has for them."""

    def __init__(self) -> None:
        self.names: dict[ix.Symbol, ix.Index] = {}
        self.known: dict[Any, str] = {}

    def number(self, value: int | torch.SymInt) -> int | str:
        if isinstance(value, int):
            return value
        expr = value.node.expr
        if expr not in self.known:
            size = ix.of_size(value)
            for symbol in sorted(ix.symbols(size), key=ix.order):
                self.names.setdefault(symbol, ix.index(ix.Symbol(f"z{len(self.names)}")))
            self.known[expr] = ix.key(ix.substitute(size, self.names))
        return self.known[expr]


def contents(value: Any) -> Any:
    """A constant that passes have computed is another tensor in each graph."""
    if type(value) is not torch.Tensor or value.device.type != "cpu" or value.nbytes > LOOKED_AT:
        return id(value)
    shown = value.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)
    return hashlib.sha256(shown.numpy().tobytes()).digest()


def _properties(value: Any, sizes: _Sizes) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.layout, value.dtype, value.device, str(value.shape)
        geometry = (*value.shape, *value.stride(), value.storage_offset())
        return value.dtype, value.device, value.dim(), tuple(map(sizes.number, geometry))
    if isinstance(value, tuple | list):
        return tuple(_properties(item, sizes) for item in value)
    if ix.is_size(value):
        return type(value), sizes.number(value)
    if isinstance(value, NUMBERS):
        return type(value), "computed"  # by the graph itself, or given to it
    return type(value), str(value)
