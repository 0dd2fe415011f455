"""Sums, norms and products of numpy's that are made of others, and choices among arrays."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from symbolic.variables.arrays import DOUBLE, IS_KNOWN, ArrayVariable, NumpyVariable, cast, full, record
from symbolic.variables.base import Variable
from symbolic.variables.drawn import numpy
from symbolic.variables.numpy_functions import FUNCTIONS, axes_of, registered, tensor_for
from symbolic.variables.numpy_ufuncs import Body, Row, refuse
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


# --- without what is no number ----------------------------------------------------------------------------------------
def _replaced(tx: Translator, function: Any, a: Any, value: float, dtype: Any) -> tuple[TensorVariable, TensorVariable]:
    """The array with a value in the place of what is no number, and where there are numbers."""
    if not isinstance(a, ArrayVariable) or a.look.dtype.kind != "f" or not a.look.shape or 0 in a.look.shape:
        return refuse(function, "of such an array")
    missing = record(tx, torch.isnan, a.tensor)
    held = record(tx, torch.where, missing, full(tx, (), value, a.look.dtype), a.tensor)
    return cast(tx, held, dtype), record(tx, torch.logical_not, missing)


def _without(function: Any, reduce: Any, value: float) -> Body:
    def body(tx: Translator, example: Any, a: Any, axis: Any = None, keepdims: bool = False) -> TensorVariable:
        tensor, _ = _replaced(tx, function, a, value, example.dtype)
        return record(tx, reduce, tensor, axes_of(axis, tensor), keepdims)

    return body


def _mean_without(tx: Translator, example: Any, a: Any, axis: Any = None, keepdims: bool = False) -> TensorVariable:
    tensor, there = _replaced(tx, numpy.nanmean, a, 0.0, example.dtype)
    axes = axes_of(axis, tensor)
    count = cast(tx, record(tx, torch.sum, there, axes, keepdims), example.dtype)
    return record(tx, torch.true_divide, record(tx, torch.sum, tensor, axes, keepdims), count)


# --- means and what is made of them -----------------------------------------------------------------------------------
def _average(tx: Translator, example: Any, a: Any, axis: Any = None, weights: Any = None) -> TensorVariable:
    tensor = tensor_for(tx, a, example.dtype)
    axes = axes_of(axis, tensor)
    if not tensor.fake.dim() or 0 in tensor.fake.shape or example.dtype.kind != "f":
        return refuse(numpy.average, "of such an array")
    if weights is None:
        return record(tx, torch.mean, tensor, axes)
    weight = tensor_for(tx, weights, example.dtype)
    if weight.fake.shape != tensor.fake.shape:
        if weight.fake.dim() != 1 or len(axes) != 1:
            return refuse(numpy.average, "with such weights")
        weight = record(tx, torch.Tensor.reshape, weight, _along(tensor, axes[0]))
    weighed = record(tx, torch.sum, record(tx, operator.mul, tensor, weight), axes)
    return record(tx, torch.true_divide, weighed, record(tx, torch.sum, weight, axes))


def _along(tensor: TensorVariable, axis: int) -> tuple[int, ...]:
    return tuple(-1 if dim == axis else 1 for dim in range(tensor.fake.dim()))


def _covariance(tx: Translator, example: Any, m: Any) -> TensorVariable:
    """Of rows."""
    if not isinstance(m, ArrayVariable) or m.look.dtype.kind not in "iuf" or 0 in m.look.shape:
        return refuse(numpy.cov, "of such an array")
    if m.look.shape[-1] < 2 or example.dtype != DOUBLE:
        return refuse(numpy.cov, "of so few")
    rows = cast(tx, m.tensor, DOUBLE)
    apart = record(tx, operator.sub, rows, record(tx, torch.mean, rows, -1, True))
    found = record(tx, torch.matmul, apart, record(tx, torch.t, apart))
    return record(tx, operator.mul, found, 1 / (m.look.shape[-1] - 1))


def _correlation(tx: Translator, example: Any, x: Any) -> TensorVariable:
    if len(example.shape) != 2:
        return refuse(numpy.corrcoef, "of one row")
    found = _covariance(tx, example, x)
    spread = record(tx, torch.sqrt, record(tx, torch.diagonal, found))
    for shape in ((-1, 1), (1, -1)):
        found = record(tx, torch.true_divide, found, record(tx, torch.Tensor.reshape, spread, shape))
    return record(tx, torch.clamp, found, -1, 1)


def _own(array: Any, other: Any) -> Any:
    """The dtype of an array, another one for what is none."""
    return array.look.dtype if isinstance(array, ArrayVariable) else other


def _trapezoid(tx: Translator, example: Any, y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> TensorVariable:
    if example.dtype.kind != "f" or type(axis) is not int or isinstance(dx, (Variable, list)):
        return refuse(numpy.trapezoid, "of such numbers")
    heights = _own(y, example.dtype)  # whose sums may overflow, as steps do, and products of integers
    steps = numpy.result_type(dx) if x is None else _own(x, example.dtype)
    if "f" not in (heights.kind, steps.kind):
        return refuse(numpy.trapezoid, "of integers")
    tensor = tensor_for(tx, y, heights)
    dim, count = axis % tensor.fake.dim(), tensor.fake.shape[axis] - 1
    if count < 1:
        return refuse(numpy.trapezoid, "of so few")
    before, after = (record(tx, torch.narrow, tensor, dim, at, count) for at in (0, 1))
    both, apart = cast(tx, record(tx, operator.add, after, before), example.dtype), dx
    if x is not None:
        places = tensor_for(tx, x, steps)
        if places.fake.dim() != 1:
            return refuse(numpy.trapezoid, "between such places")
        wide = cast(tx, record(tx, torch.diff, places), example.dtype)
        apart = record(tx, torch.Tensor.reshape, wide, _along(tensor, dim))
    found = record(tx, torch.true_divide, record(tx, operator.mul, both, apart), 2.0)
    return record(tx, torch.sum, found, dim)


# --- products ---------------------------------------------------------------------------------------------------------
def _kron(tx: Translator, example: Any, a: Any, b: Any) -> TensorVariable:
    if example.dtype.kind == "b":
        return refuse(numpy.kron, "of truths")
    return record(tx, torch.kron, tensor_for(tx, a, example.dtype), tensor_for(tx, b, example.dtype))


def _vdot(tx: Translator, example: Any, a: Any, b: Any) -> TensorVariable:
    if example.dtype.kind not in "iuf":
        return refuse(numpy.vdot, "of such numbers")
    return record(tx, torch.dot, *(
        record(tx, torch.Tensor.reshape, tensor_for(tx, each, example.dtype), (-1,)) for each in (a, b)
    ))  # fmt: skip


def _cross(tx: Translator, example: Any, a: Any, b: Any) -> TensorVariable:
    one, other = tensor_for(tx, a, example.dtype), tensor_for(tx, b, example.dtype)
    if one.fake.shape != other.fake.shape or one.fake.shape[-1] != 3:
        return refuse(numpy.cross, "of such vectors")
    return record(tx, torch.linalg.cross, one, other)


def _convolve(tx: Translator, example: Any, a: Any, v: Any, mode: Any = "full") -> TensorVariable:
    one, other = tensor_for(tx, a, example.dtype), tensor_for(tx, v, example.dtype)
    if mode not in ("full", "valid") or example.dtype.kind != "f" or example.dtype.itemsize < 4:
        return refuse(numpy.convolve, "of such numbers")
    if one.fake.shape[0] < other.fake.shape[0]:
        one, other = other, one
    wide = other.fake.shape[0] - 1 if mode == "full" else 0
    row, kernel = (record(tx, torch.Tensor.reshape, each, (1, 1, -1))
                   for each in (one, record(tx, torch.flip, other, (0,))))  # fmt: skip
    found = record(tx, torch.nn.functional.conv1d, row, kernel, padding=wide)
    return record(tx, torch.Tensor.reshape, found, (-1,))


def _norm(
    tx: Translator, example: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> TensorVariable:
    """Of vectors, and of a matrix by its elements."""
    if isinstance(axis, list) or not isinstance(x, ArrayVariable) or not x.look.shape or 0 in x.look.shape:
        return refuse(numpy.linalg.norm, "of such a kind")
    tensor = tensor_for(tx, x, example.dtype) if x.look.dtype.kind != "c" else tensor_for(tx, x)
    is_vector = axis is not None or tensor.fake.dim() == 1
    by_element = ord is None or (ord == "fro" and axis is None and tensor.fake.dim() == 2)
    if not by_element and (not is_vector or ord not in (1, 2, numpy.inf, -numpy.inf) or x.look.dtype.kind == "c"):
        return refuse(numpy.linalg.norm, "of such a kind")
    return record(tx, torch.linalg.vector_norm, tensor, 2 if by_element else float(ord), axis, keepdims)


# --- choices and edges ------------------------------------------------------------------------------------------------
def _select(tx: Translator, example: Any, condlist: Any, choicelist: Any, default: Any = 0) -> TensorVariable:
    is_plain = isinstance(condlist, list) and isinstance(choicelist, list)
    if not is_plain or not all(isinstance(each, ArrayVariable) and each.look.dtype.kind == "b" for each in condlist):
        return refuse(numpy.select, "with such arguments")
    found = tensor_for(tx, default, example.dtype)
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        found = record(tx, torch.where, condition.tensor, tensor_for(tx, choice, example.dtype), found)
    return found


_MODES = {"edge": "edge", "reflect": "reflect", "wrap": "wrap", "symmetric": "symmetric"}


def _pad(
    tx: Translator, example: Any, array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0
) -> TensorVariable:
    """All but numbers of one's own are taken from places that numpy itself says."""
    tensor = tensor_for(tx, array)
    if isinstance(constant_values, (Variable, list)) or isinstance(pad_width, dict):
        return refuse(numpy.pad, "with such arguments")
    wide = numpy.broadcast_to(numpy.asarray(pad_width), (tensor.fake.dim(), 2))
    if mode == "constant":
        value = numpy.asarray(constant_values).astype(example.dtype).item()
        widths = [int(each) for pair in wide[::-1] for each in pair]
        return record(tx, torch.nn.functional.pad, tensor, widths, value=value)
    if mode not in _MODES or constant_values != 0 or 0 in tensor.fake.shape:
        return refuse(numpy.pad, "of such a kind")
    for dim, pair in enumerate(wide):
        if pair.any():
            places = numpy.pad(numpy.arange(tensor.fake.shape[dim]), tuple(pair), mode=mode)
            tensor = record(tx, torch.index_select, tensor, dim, record(tx, torch.tensor, places.tolist()))
    return tensor


def _diff(
    tx: Translator, example: Any, a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None
) -> TensorVariable:
    tensor = tensor_for(tx, a)
    if type(axis) is not int or not isinstance(a, NumpyVariable):
        return refuse(numpy.diff, "with such arguments")
    more = [_beside(tx, tensor, each, axis) for each in (prepend, append)]
    if any(more) and tensor.fake.dtype is torch.bool:
        return refuse(numpy.diff, "of truths")
    parts = [*more[0], tensor, *more[1]]
    if len(parts) > 1:
        tensor = record(tx, torch.cat, [cast(tx, each, example.dtype) for each in parts], axis)
    return record(tx, torch.diff, tensor, n, axis)


def _beside(tx: Translator, tensor: TensorVariable, value: Any, axis: int) -> list[TensorVariable]:
    if value is None:
        return []
    found = tensor_for(tx, value)
    if not found.fake.dim():
        shape = list(tensor.fake.shape)
        shape[axis] = 1
        found = record(tx, torch.Tensor.expand, found, tuple(shape))
    return [found]


def _places(tx: Translator, example: Any, N: Any, M: Any = None, k: Any = 0, dtype: Any = None) -> TensorVariable:
    """Ones on a diagonal."""
    rows, columns = example.shape
    counted = [record(tx, torch.arange, size) for size in (rows, columns)]
    down = record(tx, operator.add, record(tx, torch.Tensor.reshape, counted[0], (-1, 1)), k)
    return record(tx, operator.eq, down, counted[1])


if IS_KNOWN:
    FUNCTIONS.update({
        numpy.nansum: Row(_without(numpy.nansum, torch.sum, 0.0), True), numpy.nanmean: Row(_mean_without, True),
        numpy.nanmax: Row(_without(numpy.nanmax, torch.amax, float("-inf")), True),
        numpy.nanmin: Row(_without(numpy.nanmin, torch.amin, float("inf")), True),
        numpy.average: Row(_average, True), numpy.cov: Row(_covariance, True),
        numpy.corrcoef: Row(_correlation, True), numpy.trapezoid: Row(_trapezoid, True),
        numpy.kron: Row(_kron, True), numpy.vdot: Row(_vdot, True), numpy.cross: Row(_cross, True),
        numpy.convolve: Row(_convolve, True), numpy.linalg.norm: Row(_norm, True), numpy.select: Row(_select),
        numpy.pad: Row(_pad), numpy.diff: Row(_diff, True), numpy.eye: Row(_places), numpy.identity: Row(_places),
    })  # fmt: skip
    registered(FUNCTIONS)
