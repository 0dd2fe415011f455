"""Which operations of a graph, as captured or of ATen's, may raise for some values: what stand-ins can't tell.

An operation that is missing here is taken for one that never raises. Then nothing is kept for its sake (see
`codegen/residual/kept.py`), and its error may leave the function.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from codegen.aot.numbers import SAFE
from symbolic.shapes import CHECKS

#: They look up what other tensors say, or ask for numbers within bounds. Accelerators tell too late for a handler.
_LOOK_UP = """embedding embedding_bag embedding_bag_forward_only gather index_select take take_along_dim index_copy
    index_add index_fill index_reduce index_put index scatter scatter_add scatter_reduce put masked_scatter nll_loss
    nll_loss_forward nll_loss2d nll_loss_nd cross_entropy cross_entropy_loss one_hot bincount multi_margin_loss
    multilabel_margin_loss ctc_loss max_unpool1d max_unpool2d max_unpool3d repeat_interleave unravel_index
    multinomial poisson binomial histc segment_reduce assert_async functional_assert_async"""
#: They give up on some matrices, wherever these are.
_SOLVE = """cholesky cholesky_ex cholesky_inverse inv inv_ex inverse solve solve_ex svd svdvals eig eigh eigvals
    eigvalsh lstsq lu lu_factor lu_factor_ex check_errors ldl_factor ldl_factor_ex pinv pinverse matrix_rank matrix_norm
    cond matrix_power tensorinv tensorsolve lobpcg pca_lowrank svd_lowrank nuclear_norm"""
_DIVIDE = """floor_divide floordiv ifloordiv rfloordiv remainder mod imod rmod fmod div divide true_divide"""
_DRAW = "bernoulli normal"
_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool})


def raising(nodes: list[fx.Node], changes: Callable[[fx.Node], bool]) -> Iterator[int]:
    """Where the nodes are that may raise. What looks up the same again in something of the same size does not, unless
    the graph `changes` what it looks up."""
    done: set[Any] = set()
    for at, node in enumerate(nodes):
        if not may_raise(node):
            continue
        again = _looked_up(node, changes)
        if again is None or again not in done:
            done.add(again)
            yield at


def may_raise(node: fx.Node) -> bool:
    if node.op not in ("call_function", "call_method"):
        return False
    rule = _RULES.get(name_of(node.target))
    if rule is not None and rule(node):
        return True
    if node.op == "call_function" and (node.target in CHECKS or _is_number(node) and not _is_safe(node)):
        return True
    return any(may_raise(each) for graph in inside(node) for each in graph.nodes)


def computes_float(node: fx.Node) -> bool:
    """Whether it is arithmetic that gives a float and may raise: what optimizers compute of their step counts is, whose
    errors are not worth copies of weights."""
    return node.op == "call_function" and type(_value(node)) is float and not _is_safe(node)


def inside(node: fx.Node) -> Iterator[fx.Graph]:
    """The graphs that an operation is called with."""
    for each in node.all_input_nodes:
        if each.op == "get_attr" and isinstance(module := _value(each), fx.GraphModule):
            yield module.graph


def tensors_of(value: Any) -> list[torch.Tensor]:
    """What the nodes in some arguments stand for, as far as these are tensors."""
    found: list[torch.Tensor] = []
    map_arg(value, lambda node: found.extend(_tensors(_value(node))))
    return found


def name_of(target: Any) -> str:
    """`scatter` for the method `scatter_`, `torch.scatter` and the operator `scatter.value`."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.split(".")[0].strip("_").removeprefix("linalg_")


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _is_on_cpu(node: fx.Node) -> bool:
    return any(tensor.device.type == "cpu" for tensor in tensors_of((node.args, node.kwargs)))


def _indexes(node: fx.Node) -> bool:
    """Of an item, read or stored."""
    if not _is_on_cpu(node) or len(node.args) < 2:
        return False
    stored = tensors_of(node.args[2:])
    found: list[bool] = []

    def ask(index: fx.Node) -> None:
        value = _value(index)
        is_mask = isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)
        counts = is_mask and any(tensor.dim() for tensor in stored)  # as many as the mask has
        found.append(counts or not is_mask and isinstance(value, (torch.Tensor, int)))

    map_arg(node.args[1], ask)
    return any(found)


def _divides(node: fx.Node) -> bool:
    """Of integers, by what may be zero."""
    divisor = node.args[1] if len(node.args) > 1 else node.kwargs.get("other")
    made = _tensors(_value(node))
    is_known = isinstance(divisor, (int, float)) and divisor != 0 and not name_of(node.target).startswith("r")
    return not is_known and _is_on_cpu(node) and any(tensor.dtype in _INTEGERS for tensor in made)


def _draws_by(node: fx.Node) -> bool:
    """Of random numbers in place: by what a tensor says."""
    is_in_place = str(getattr(node.target, "__name__", node.target)).split(".")[0].endswith("_")
    return _is_on_cpu(node) and (not is_in_place or bool(tensors_of(node.args[1:])))


_RULES: dict[str, Callable[[fx.Node], bool]] = {
    **dict.fromkeys(_LOOK_UP.split(), _is_on_cpu),
    **dict.fromkeys(_SOLVE.split(), lambda node: True),
    **dict.fromkeys(_DIVIDE.split(), _divides),
    **dict.fromkeys(_DRAW.split(), _draws_by),
    **dict.fromkeys(("getitem", "setitem"), _indexes),
    "norm": lambda node: "nuc" in map(str, (*node.args, *node.kwargs.values())),
}


def _is_number(node: fx.Node) -> bool:
    return type(_value(node)) is int  # floats: see `computes_float`


def _is_safe(node: fx.Node) -> bool:
    """Whether arithmetic of plain numbers raises for none."""
    by_constant = len(node.args) == 2 and isinstance(node.args[1], (int, float)) and node.args[1] != 0
    return node.target in SAFE or node.target in _BY_CONSTANTS and by_constant


_BY_CONSTANTS = frozenset({operator.floordiv, operator.truediv, operator.mod, math.fmod})


def _looked_up(node: fx.Node, changes: Callable[[fx.Node], bool]) -> Any:
    """Equal for operations of which the second raises only if the first one has; None where nobody can say."""
    if _RULES.get(name_of(node.target)) not in (_is_on_cpu, _indexes):
        return None
    parts: list[Any] = []

    def part(each: Any) -> Any:
        if not isinstance(each, fx.Node):
            parts.append(repr(each))
            return each
        value = _value(each)
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            parts.append(tuple(map(str, value.shape)))
        else:
            parts.append(each)
        return each

    args = node.args[:2] if _RULES[name_of(node.target)] is _indexes else node.args
    given = tree_leaves((args, dict(node.kwargs)), is_leaf=lambda each: isinstance(each, slice))
    for each in given:
        if isinstance(each, slice):
            part_of_slice = (each.start, each.stop, each.step)
            parts.append("slice")
            for bound in part_of_slice:
                part(bound)
        else:
            part(each)
    read = [each for each in parts if isinstance(each, fx.Node)]
    return None if any(map(changes, read)) else (name_of(node.target), *parts)
