"""A functional ATen graph -> definitions."""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from codegen.aot import cost
from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Given, Made, Number, Program, dense_order
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Expr
from codegen.kernels.lowering import (  # noqa: F401  (their rows)
    activations,
    creation,
    gathers,
    lists,
    losses,
    normalisation,
    placement,
    pointwise,
    reductions,
    scatters,
    views,
)
from codegen.kernels.lowering.context import (
    Impossible,
    Lowering,
    Ref,
    Unsupported,
    draws,
    fn,
    shape_of,
    strides_of,
    to,
)
from codegen.kernels.lowering.left import is_left
from codegen.kernels.lowering.numbers import NUMBERS, Numbers, numbers_of
from codegen.kernels.lowering.products import PRODUCTS
from codegen.kernels.lowering.refused import is_refused
from codegen.kernels.lowering.table import LOWERINGS, Row

aten = torch.ops.aten
log = logging.getLogger(__name__)


#: What kernels compute with. Tensors of other dtypes are ATen's.
DTYPES = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
})  # fmt: skip
#: Those that Triton has besides, and C has not.
ON_CUDA = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
#: As what numbers come that vary from call to call.
SCALARS = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64, float: torch.float64, torch.SymBool: torch.bool}


def lower(graph: fx.GraphModule, products: Container[fx.Node] = frozenset()) -> Program:
    """`products`: of matrices, those that kernels do themselves.

    Raises Unsupported for a graph that can't be said in definitions and calls of ATen."""
    try:
        return _lowered(graph, products)
    except (NotImplementedError, Impossible) as reason:
        raise Unsupported(str(reason)) from reason


def _lowered(graph: fx.GraphModule, products: Container[fx.Node]) -> Program:
    low = Lowering()
    values: dict[fx.Node, Any] = {}  # a Ref, an Expr for a number, an Index for a size, a tuple of these
    numbers = numbers_of(graph.graph)
    order: Iterable[Any] = graph.graph.nodes if numbers is None else numbers.order
    for node in order:
        low.enter(node, _line(node.meta.get("stack_trace") or ""))
        if numbers is not None and node in numbers.members:
            if numbers.members.isdisjoint(values):
                values |= _computed(low, values, numbers)
        elif node.op == "placeholder":
            values[node] = _given(low, node)
        elif node.op == "output":
            _results(low, values, node.args[0])
        elif node.op == "call_function":
            row = (PRODUCTS if node in products else LOWERINGS).get(node.target)
            values[node] = _call(low, values, node, row)
        elif node.op == "get_attr":
            values[node] = _made(low, values, node)
        else:
            raise Unsupported(f"{node.op} {node.target}")
    known = low.program.sizes.keys() | low.program.steps.keys()
    for tensor in low.program.tensors.values():
        if any(not ix.symbols(size) <= known for size in (*tensor.shape, *tensor.strides)):
            raise Unsupported("a size that no input tells")
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
        _check_bits(value)
        given = Given(node.name, shape_of(value), value.dtype, strides_of(value))
        low.program.tensors[node.name] = given
        for dim, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                low.program.sizes.setdefault(Symbol(size.node.expr.name), (node.name, dim))
        for dim, step in enumerate(value.stride()):
            if isinstance(step, torch.SymInt) and step.node.expr.is_Symbol:
                low.program.steps.setdefault(Symbol(step.node.expr.name), (node.name, dim))
        return low.ref(given)
    if ix.is_size(value):
        if value.node.expr.is_Symbol:
            low.program.sizes.setdefault(Symbol(value.node.expr.name), (node.name, None))
        return ix.of_size(value)
    dtype = next((dtype for kinds, dtype in SCALARS.items() if isinstance(value, kinds)), None)
    if dtype is None:
        raise Unsupported(f"{type(value).__name__} among the inputs")
    low.program.scalars[node.name] = ir.scalar(node.name, dtype)
    return low.program.scalars[node.name]


def _call(low: Lowering, values: dict[fx.Node, Any], node: fx.Node, row: Row | None) -> Any:
    given: Any = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    args, kwargs = given
    if node.target is operator.getitem:
        source, item = args
        return source[item]
    if ix.is_size(low.out):
        return ix.of_size(low.out)
    if node.target in NUMBERS:
        return _number(NUMBERS[node.target], args)
    if node.target is aten._local_scalar_dense.default:
        return _item(args[0])
    if not isinstance(node.target, OpOverload):
        raise Unsupported(f"{node.target}, which is no operation of ATen's")
    if node.target is aten.copy_.default and node.all_input_nodes[0].op == "placeholder":
        return _write(low, *args)
    if node.target._schema.is_mutable:
        raise Unsupported(f"{node.target}, which writes")
    if row is not None and not is_left(low.program, values, node):
        known = set(low.program.tensors)
        try:
            _check_dtypes(node)
            if is_refused(node):
                raise Unsupported("dtypes that eager code refuses")
            return _named(low, node, row(low, *args, **kwargs), known)
        except Unsupported as reason:
            log.debug("%s is left to ATen: %s", node.format_node(), reason)
            for name in set(low.program.tensors) - known:
                del low.program.tensors[name]
    return _made(low, values, node)


def _check_dtypes(node: fx.Node) -> None:
    """Kernels compute with these dtypes, on one device."""
    fakes, devices = [each.meta["val"] for each in node.all_input_nodes], set()
    for fake in tree_leaves([*fakes, node.meta["val"]]):
        if isinstance(fake, torch.Tensor):
            is_known = fake.dtype in DTYPES or (fake.device.type == "cuda" and fake.dtype in ON_CUDA)
            if not is_known or fake.layout is not torch.strided:
                raise Unsupported(f"{fake.dtype}, {fake.layout}")
            devices.add(fake.device)
    if len(devices) > 1:
        raise Unsupported(f"tensors on {', '.join(map(str, devices))}")


def _computed(low: Lowering, values: dict[fx.Node, Any], numbers: Numbers) -> dict[fx.Node, Any]:
    """All numbers; in the place of those that no tensor is computed of, None."""
    refs = []
    for given in numbers.inputs:
        value = values[given]
        refs.append(value if isinstance(value, Ref) else low.define((), value.dtype, lambda value=value: value))
    graph = fx.Graph()
    operands = [graph.placeholder(ref.name) for ref in refs]
    call, names = graph.call_function(numbers.compute, tuple(operands)), tuple(ref.name for ref in refs)
    found: dict[fx.Node, Any] = dict.fromkeys(numbers.members)
    for item, node in enumerate(numbers.results):
        made = Made(low.fresh(node.name), (), torch.float64, (), call, (item,), names, True)
        low.program.tensors[made.name] = made
        found[node] = low.ref(made).at([])
    return found


def _is_exact(number: Any) -> bool:
    """Whether an int of the program is a float, too: beside one it becomes that."""
    return isinstance(number, int) and abs(number) <= 1 << 53


def _number(name: str, args: Sequence[Any]) -> Expr:
    """Of floats alone: integers have no bounds in Python."""
    operands = [ir.literal(float(a), torch.float64) if isinstance(a, float) or _is_exact(a) else a for a in args]
    if any(not isinstance(a, Expr) or a.dtype != torch.float64 for a in operands):
        raise Unsupported(f"{name} of other numbers than floats")
    return fn(name, *operands)


def _item(source: Ref) -> Expr:
    """The number in a tensor, as Python has it."""
    if source.dtype not in DTYPES:
        raise Unsupported(f"a number of {source.dtype}")
    dtype = torch.float64 if source.dtype.is_floating_point else torch.int64
    return to(source.at([0] * source.dim), source.dtype if source.dtype is torch.bool else dtype)


def _write(low: Lowering, target: Ref, source: Ref, non_blocking: bool = False) -> Ref:
    low.program.writes.append((target.name, source.name))
    if source.shape != target.shape or source.dtype != target.dtype:
        raise Unsupported("an input that is written with another shape or dtype")
    return source


def _named(low: Lowering, node: fx.Node, made: Any, known: set[str]) -> Any:
    """What a row has made, checked against what torch says it is, and with the strides of what is new."""
    many = isinstance(made, tuple | list)
    fakes: Sequence[Any] = node.meta["val"] if many else [node.meta["val"]]
    results = [
        None if ref is None else _as_torch_says(low, node, ref, fake, known)
        for ref, fake in zip(made if many else (made,), fakes, strict=True)
    ]
    return results if many else results[0]


def _as_torch_says(low: Lowering, node: fx.Node, ref: Ref, fake: torch.Tensor, known: set[str]) -> Ref:
    shape = shape_of(fake)
    if ref.shape != shape and any(ix.is_size(size) for size in fake.shape):
        ref = low.define(shape, ref.dtype, lambda *at: ref.at(at))  # a size has two formulas: c, and c // 4 * 4
    assert ref.shape == shape and ref.dtype == fake.dtype, (node.format_node(), ref, fake)
    found = low.program.tensors[ref.name]
    if isinstance(found, Definition) and ref.name not in known:
        low.program.tensors[ref.name] = replace(found, strides=strides_of(fake))
    return ref


def _made(low: Lowering, values: dict[fx.Node, Any], node: fx.Node) -> Any:
    """ATen is called, or an attribute read."""
    out = node.meta["val"]
    _check_memory(low, values, node)
    operands = [values[given] for given in node.all_input_nodes]
    if not all(isinstance(operand, Ref | ix.Index) for operand in operands):
        raise Unsupported(f"{node.target} of numbers that vary")
    names = tuple(operand.name if isinstance(operand, Ref) else operand for operand in operands)
    has_effects = draws(node) or cost.lasting(node)  # whoever draws next gets other numbers then

    def result(fake: Any, item: tuple[int, ...]) -> Any:
        if isinstance(fake, tuple | list):
            return tuple(result(each, (*item, at)) for at, each in enumerate(fake))
        if not isinstance(fake, torch.Tensor):
            return _other(fake)
        _check_bits(fake)
        name = low.fresh(".".join(map(str, (node.name, *item))))
        made = Made(name, shape_of(fake), fake.dtype, strides_of(fake), node, item, names, has_effects)
        low.program.tensors[name] = made
        return low.ref(made)

    if isinstance(out, torch.Tensor | tuple | list):
        return result(out, ())
    if out is None and isinstance(node.target, OpOverload):
        name = low.fresh(node.name)  # of nothing; it is called for the error that it may raise
        low.program.tensors[name] = Made(name, (), torch.bool, (), node, (), names, True)
        return None
    raise Unsupported(f"{node.target}, which gives {type(out).__name__}")


def _other(result: Any) -> ix.Index | None:
    """A result that is no tensor: an integer that the sizes tell, or nothing that anybody reads."""
    if type(result) is int or ix.is_size(result):
        return ix.of_size(result)
    return None


#: Operations that look at the memory that a tensor lies in.
_OF_MEMORY = {aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default}
#: Operations of half dtypes whose fakes have other dtypes than their results.
_MISJUDGED = {aten._embedding_bag.default, aten._batch_norm_with_update_functional.default}


def _check_memory(low: Lowering, values: dict[fx.Node, Any], node: fx.Node) -> None:
    """Raises Impossible for operations whose result is not what ATen would give in the middle of a program."""
    if node.target in _OF_MEMORY:
        base = node.all_input_nodes[0]
        fake = base.meta["val"]
        lies_alone = dense_order(shape_of(fake), strides_of(fake)) is not None and fake.storage_offset() == 0
        if isinstance(low.program.tensors[values[base].name], Definition) and not lies_alone:
            raise Impossible(f"{node.target} of memory that the program has none of")
    if node.target in _MISJUDGED and any(_is_half(given.meta["val"]) for given in node.all_input_nodes):
        raise Impossible(f"{node.target} of half dtypes")


def _check_bits(fake: torch.Tensor) -> None:
    """Raises Impossible for what kernels would read or write as it lies in memory, and ATen otherwise."""
    if fake.is_neg() and not fake.is_complex():
        raise Impossible("a tensor with its negative bit set")


def _is_half(fake: Any) -> bool:
    return isinstance(fake, torch.Tensor) and fake.dtype in (torch.float16, torch.bfloat16)


def _results(low: Lowering, values: dict[fx.Node, Any], results: Any) -> None:
    for node in results:
        value = values[node] if isinstance(node, fx.Node) else node
        if isinstance(value, Ref):
            _check_bits(node.meta["val"])
        low.program.results.append(_result(low, value))


def _result(low: Lowering, value: Any) -> Any:
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, Expr):
        return Number(low.define((), value.dtype, lambda: value, "number").name)
    return value
