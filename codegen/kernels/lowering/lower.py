"""A functional ATen graph -> definitions."""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Given, Made, Program
from codegen.kernels.index import Symbol
from codegen.kernels.lowering import normalisation, pointwise, reductions, views  # noqa: F401  (their rows)
from codegen.kernels.lowering.context import Lowering, Ref, Unsupported, shape_of
from codegen.kernels.lowering.table import LOWERINGS

log = logging.getLogger(__name__)


def lower(graph: fx.GraphModule) -> Program:
    """Raises Unsupported for a graph that can't be said in definitions and calls of ATen."""
    low = Lowering()
    values: dict[fx.Node, Any] = {}  # a Ref, an Expr for a number, an Index for a size, a tuple of these
    for node in graph.graph.nodes:
        low.name, low.out = node.name, node.meta.get("val")
        low.source = _line(node.meta.get("stack_trace") or "")
        if node.op == "placeholder":
            values[node] = _given(low, node)
        elif node.op == "output":
            _results(low, values, node.args[0])
        elif node.op == "call_function":
            values[node] = _call(low, values, node)
        else:
            raise Unsupported(f"{node.op} {node.target}")
    return low.program


def _line(trace: str) -> str:
    """The innermost of the user's lines: `file:12 in f: code`."""
    found = re.findall(r'File "([^"]*)", line (\d+), in (.*)\n?(.*)', trace)
    if not found:
        return ""
    file, line, function, code = found[-1]
    return f"{file}:{line} in {function}: {code.strip()}".removesuffix(": ")


def _given(low: Lowering, node: fx.Node) -> Any:
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        given = Given(node.name, shape_of(value), value.dtype, tuple(map(ix.of_size, value.stride())))
        low.program.tensors[node.name] = given
        for dim, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                low.program.sizes.setdefault(Symbol(size.node.expr.name), (node.name, dim))
        return low.ref(given)
    if isinstance(value, torch.SymInt | int) and not isinstance(value, bool):
        raise Unsupported("an integer among the inputs")
    dtype = torch.float64 if isinstance(value, torch.SymFloat | float) else torch.bool
    low.program.scalars[node.name] = ir.scalar(node.name, dtype)
    return low.program.scalars[node.name]


def _call(low: Lowering, values: dict[fx.Node, Any], node: fx.Node) -> Any:
    if node.target is operator.getitem:
        source, item = node.args
        assert isinstance(source, fx.Node)
        return values[source][item]
    if isinstance(low.out, torch.SymInt):
        return ix.of_size(low.out)
    if not isinstance(node.target, OpOverload):
        raise Unsupported(f"{node.target}, which is no operation of ATen's")
    row = LOWERINGS.get(node.target)
    if row is not None:
        known = set(low.program.tensors)
        try:
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            return _named(low, node, row(low, *args, **kwargs))
        except Unsupported as reason:
            log.debug("%s is left to ATen: %s", node.format_node(), reason)
            for name in set(low.program.tensors) - known:
                del low.program.tensors[name]
    return _made(low, values, node)


def _named(low: Lowering, node: fx.Node, made: Any) -> Any:
    """Checks what a row has made against what torch says it is, and notes the strides."""
    many = isinstance(made, tuple)
    fakes: Sequence[Any] = node.meta["val"] if many else [node.meta["val"]]
    for ref, fake in zip(made if many else (made,), fakes, strict=True):
        if ref is None:
            continue
        assert ref.shape == shape_of(fake) and ref.dtype == fake.dtype, (node.format_node(), ref, fake)
        found = low.program.tensors[ref.name]
        if isinstance(found, Definition):
            strides = tuple(map(ix.of_size, fake.stride()))
            low.program.tensors[ref.name] = replace(found, strides=strides)
    return made


def _made(low: Lowering, values: dict[fx.Node, Any], node: fx.Node) -> Any:
    """ATen is called."""
    assert isinstance(node.target, OpOverload)
    if node.target._schema.is_mutable:
        raise Unsupported(f"{node.target}, which writes")
    out = node.meta["val"]
    operands = [values[given] for given in node.all_input_nodes]
    if not all(isinstance(operand, Ref | ix.Index) for operand in operands):
        raise Unsupported(f"{node.target} of numbers that vary")
    names = tuple(operand.name if isinstance(operand, Ref) else operand for operand in operands)
    if isinstance(out, torch.Tensor):
        return _made_tensor(low, node, out, None, names)
    if isinstance(out, tuple | list):
        return tuple(
            _made_tensor(low, node, fake, item, names) if isinstance(fake, torch.Tensor) else None
            for item, fake in enumerate(out)
        )
    raise Unsupported(f"{node.target}, which gives {type(out).__name__}")


def _made_tensor(
    low: Lowering, node: fx.Node, fake: torch.Tensor, item: int | None, operands: tuple[str | ix.Index, ...]
) -> Ref:
    name = low.fresh(node.name if item is None else f"{node.name}_{item}")
    assert isinstance(node.target, OpOverload)
    draws = torch.Tag.nondeterministic_seeded in node.target.tags  # whoever draws next gets other numbers then
    made = Made(name, shape_of(fake), fake.dtype, tuple(map(ix.of_size, fake.stride())), node, item, operands, draws)
    low.program.tensors[name] = made
    return low.ref(made)


def _results(low: Lowering, values: dict[fx.Node, Any], results: Any) -> None:
    for node in results:
        value = values[node] if isinstance(node, fx.Node) else node
        low.program.results.append(value.name if isinstance(value, Ref) else value)
