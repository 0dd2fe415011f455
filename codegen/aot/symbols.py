"""Nodes for torch's own symbolic numbers, which are expressions over the sizes of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from symbolic.late import Unknown

_REORDERED = (sympy.Add, sympy.Mul, sympy.Pow)


class _Reference(PythonReferenceAnalysis):
    """What expressions are recorded as, with a row that torch has for no proxies."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b


class Symbols:
    """The nodes of one graph by what they give. `mark(node, value)` notes what a new node gives."""

    def __init__(self, graph: fx.Graph, mark: Callable[[fx.Node, Any], fx.Node]) -> None:
        self._graph = graph
        self._mark = mark
        self._nodes: dict[sympy.Expr, fx.Node] = {}
        self._sizes: dict[sympy.Expr, tuple[fx.Node, int]] = {}  # where each symbol is a size: a node, a dimension

    def add(self, value: Any, node: fx.Node) -> None:
        """`node` gives that number."""
        self._nodes.setdefault(value.node.expr, node)

    def add_sizes(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """`node` gives that tensor: an input, or a result with sizes that depend on values."""
        for dim, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                self._sizes.setdefault(size.node.expr, (node, dim))

    def sizes(self) -> list[fx.Node]:
        """The nodes of all symbols."""
        known = (*self._sizes, *(expr for expr in self._nodes if expr.is_Symbol))
        return [self._symbol(symbol) for symbol in dict.fromkeys(known)]

    def node(self, value: Any) -> Any:
        """The node of a symbolic number, or the plain number that it has come to be.

        Raises Unknown for one that does not come of sizes, or not as the program computed it."""
        expr = value.node.expr
        if expr.is_number:
            return value.node.maybe_as_int() if isinstance(value, torch.SymInt) else type(value.node.hint)(expr)
        found = self._nodes.get(expr)
        if found is None:
            if isinstance(value, torch.SymFloat) and not _is_rounded_in_order(expr):
                raise Unknown(f"a float of sizes: {expr}")
            found = self._nodes[expr] = self._symbol(expr) if expr.is_Symbol else self._computed(expr)
        return found

    def _symbol(self, symbol: sympy.Symbol) -> fx.Node:
        return self._nodes.get(symbol) or self._nodes.setdefault(symbol, self._size(symbol))

    def _size(self, symbol: sympy.Symbol) -> fx.Node:
        if symbol not in self._sizes:
            raise Unknown(f"a size {symbol} that depends on values")
        source, dim = self._sizes[symbol]
        node = self._graph.call_function(torch.ops.aten.sym_size.int, (source, dim))
        return self._mark(node, source.meta["val"].shape[dim])

    def _computed(self, expr: sympy.Expr) -> fx.Node:
        tracer = fx.proxy.GraphAppendingTracer(self._graph)
        known = {s: fx.Proxy(self._symbol(s), tracer) for s in expr.free_symbols}
        before = len(self._graph.nodes)
        found: fx.Node = sympy_interp(_Reference, known, expr).node
        for node in list(self._graph.nodes)[before:]:
            assert callable(node.target)
            self._mark(node, node.target(*fx.map_arg(node.args, _value), **fx.map_arg(node.kwargs, _value)))
        return found


def _is_rounded_in_order(expr: sympy.Expr) -> bool:
    """Whether floats are computed as the program did: not sums and products, which torch has reordered."""
    return not any(isinstance(part, _REORDERED) and not part.is_integer for part in sympy.preorder_traversal(expr))


def _value(node: fx.Node) -> Any:
    return node.meta["val"]
