"""Graphs that are built node by node in little time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from torch import fx
from torch._ops import OpOverload
from torch.fx import graph as fx_graph

#: A node that is assigned to looks itself up in its graph first.
_set_args: Any = fx.Node.args.fset  # type: ignore[attr-defined]
_set_kwargs: Any = fx.Node.kwargs.fset  # type: ignore[attr-defined]


#: What nodes of ATen's operations, of methods and of functions are named after.
_names: dict[OpOverload[..., Any] | str | tuple[str], str] = {}


#: A name and its number.
_NAME = re.compile(r"([a-zA-Z_]\w*?)(?:_(\d+))?", re.ASCII)


@lru_cache(1 << 14)
def _parts(name: str) -> tuple[str, int | None] | None:
    """None for what no node may be called."""
    match = _NAME.fullmatch(name)
    if match is None or name in fx_graph._illegal_names:
        return None
    return match[1], None if match[2] is None else int(match[2])


class _Names(fx_graph._Namespace):
    """torch's names, each looked through once and not for each of several graphs."""

    def create_name(self, candidate: str, obj: object | None) -> str:
        parts = _parts(candidate) if obj is None else None
        if parts is None:
            return super().create_name(candidate, obj)
        base, number = parts
        used, counts = self._used_names, self._base_count
        if number is None or candidate in used:
            number = counts.get(base, 0)
        while candidate in used:
            number += 1
            candidate = f"{base}_{number}"
        used.add(candidate)
        counts[base] = number
        return candidate


class Graph(fx.Graph):
    """torch looks through all arguments of a new node for symbolic numbers, to warn of them: that takes longer than
    all the rest, and no graph of ours has any. Arguments that a node gets later are not looked through, nor what is put
    into its `meta`. Names are found in less time, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._graph_namespace = _Names()

    def create_node(
        self, op: str, target: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None,
        name: str | None = None, type_expr: Any = None,
    ) -> fx.Node:
        if name is None and op in ("call_function", "call_method"):
            known = target if isinstance(target, (OpOverload, str)) else (target.__name__,)
            name = _names.get(known) or _names.setdefault(known, self._target_to_str(target))
        node = super().create_node(op, target, None, None, name, type_expr)
        if args:
            _set_args(node, args)
        if kwargs:
            _set_kwargs(node, kwargs)
        return node

    def node_copy(self, node: fx.Node, arg_transform: Callable[[fx.Node], Any] = lambda node: node) -> fx.Node:
        args, kwargs = fx.map_arg((node.args, node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta.update(node.meta)
        return copied
