"""What numpy orders, looks up in an order and counts, and whether arrays are the same.

Where the order of numbers is numpy's own affair (a zero beside a negative one, what is no number, edges that do not
grow) the graph checks that there are none, and the frame runs again as it was written where there are."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import torch

from symbolic.variables.arrays import (
    CPU,
    DOUBLE,
    DTYPES,
    INT64,
    IS_KNOWN,
    ArrayVariable,
    NumpyVariable,
    cast,
    check_dtype,
    constant,
    example_of,
    full,
    made,
    must_hold,
    operand,
    record,
    rehearse,
    value_of,
)
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.drawn import numpy
from symbolic.variables.numpy_functions import (
    FUNCTIONS,
    handled,
    is_close,
    positive_zeros,
    registered,
    sorted_along,
    tensor_for,
)
from symbolic.variables.numpy_ufuncs import Row, ands, refuse
from symbolic.variables.numpy_views import VIEWS
from symbolic.variables.tables import HANDLERS, Args, Kwargs
from symbolic.variables.tensors import METHODS as TENSOR_METHODS
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


# --- by rank ----------------------------------------------------------------------------------------------------------
def _in_order(tx: Translator, function: Any, a: Any, axis: Any, dtype: Any) -> tuple[TensorVariable, int]:
    """The elements in order along one axis, and that axis; all axes together are one."""
    if not isinstance(a, ArrayVariable) or not a.look.shape or 0 in a.look.shape or a.look.dtype.kind not in "iuf":
        return refuse(function, "of such an array")
    tensor = cast(tx, a.tensor, dtype) if a.look.dtype.kind == "f" else a.tensor
    if a.look.dtype.kind == "f" and a.look.dtype.itemsize < 4:
        return refuse(function, "of halves")
    if axis is None:
        tensor, axis = record(tx, torch.Tensor.reshape, tensor, (-1,)), 0
    elif type(axis) is not int:
        return refuse(function, "along such axes")
    if tensor.fake.is_floating_point():
        positive_zeros(tx, tensor)
        must_hold(tx, record(tx, operator.eq, tensor, tensor))
    return cast(tx, sorted_along(tx, tensor, axis), dtype), axis % tensor.fake.dim()


def _median(tx: Translator, example: Any, a: Any, axis: Any = None) -> TensorVariable:
    ordered, dim = _in_order(tx, numpy.median, a, axis, example.dtype)
    count = ordered.fake.shape[dim]
    middle = record(tx, torch.narrow, ordered, dim, (count - 1) // 2, 2 - count % 2)
    found = record(tx, torch.mean, middle, dim)
    return record(tx, torch.Tensor.reshape, found, example.shape)


def _quantile(of: float) -> Any:
    """The places between which a quantile lies are known; `of` is what the whole counts for."""

    def body(tx: Translator, example: Any, a: Any, q: Any, axis: Any = None) -> TensorVariable:
        function = numpy.percentile if of != 1 else numpy.quantile
        if not all(type(each) in (int, float) for each in (q if isinstance(q, list) else [q])):
            return refuse(function, "of such a part")
        ordered, dim = _in_order(tx, function, a, axis, example.dtype)
        found = [_at(tx, ordered, dim, each / of) for each in (q if isinstance(q, list) else [q])]
        both = record(tx, torch.stack, found) if isinstance(q, list) else found[0]
        return record(tx, torch.Tensor.reshape, both, example.shape)

    return body


def _at(tx: Translator, ordered: TensorVariable, dim: int, part: float) -> TensorVariable:
    place = (ordered.fake.shape[dim] - 1) * part
    low = min(int(place), ordered.fake.shape[dim] - 1)
    high = min(low + 1, ordered.fake.shape[dim] - 1)
    rest = place - low
    below, above = (record(tx, torch.select, ordered, dim, at) for at in (low, high))
    apart = record(tx, operator.sub, above, below)
    if rest >= 0.5:
        return record(tx, operator.sub, above, record(tx, operator.mul, apart, 1 - rest))
    return record(tx, operator.add, below, record(tx, operator.mul, apart, rest))


# --- looked up --------------------------------------------------------------------------------------------------------
def _grows(tx: Translator, row: TensorVariable) -> None:
    """Numbers, none of which is less than the one before it."""
    must_hold(tx, record(tx, operator.eq, row, row))
    count = row.fake.shape[0] - 1
    if count > 0:
        must_hold(tx, record(tx, operator.ge, *(record(tx, torch.narrow, row, 0, at, count) for at in (1, 0))))


def _looked_up(tx: Translator, function: Any, row: Any, values: Any, right: bool) -> TensorVariable:
    dtype = rehearse(tx, numpy.result_type, [_example(tx, row), _example(tx, values)])
    if dtype.kind not in "iuf" or (dtype.kind == "f" and dtype.itemsize < 4):
        return refuse(function, "of such numbers")
    edges, wanted = tensor_for(tx, row, dtype), tensor_for(tx, values, dtype)
    if edges.fake.dim() != 1 or not edges.fake.shape[0]:
        return refuse(function, "in nothing")
    _grows(tx, edges)
    if dtype.kind == "f":
        must_hold(tx, record(tx, operator.eq, wanted, wanted))
    return record(tx, torch.searchsorted, edges, wanted, right=right)


def _example(tx: Translator, value: Any) -> Any:
    return example_of(tx, value) if isinstance(value, Variable) else numpy.asarray(value)


def _search(tx: Translator, example: Any, a: Any, v: Any, side: Any = "left") -> TensorVariable:
    if side not in ("left", "right") or isinstance(v, list):
        return refuse(numpy.searchsorted, "with such arguments")
    return _looked_up(tx, numpy.searchsorted, a, v, side == "right")


def _digitize(tx: Translator, example: Any, x: Any, bins: Any, right: Any = False) -> TensorVariable:
    if isinstance(x, list) or not isinstance(right, bool):
        return refuse(numpy.digitize, "with such arguments")
    return _looked_up(tx, numpy.digitize, bins, x, not right)


def _interp(
    tx: Translator, example: Any, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None
) -> TensorVariable:
    """Of finite numbers alone: numpy goes ways of its own round others."""
    if example.dtype != DOUBLE or any(isinstance(each, (Variable, list)) for each in (left, right)):
        return refuse(numpy.interp, "of such numbers")
    wanted, places, values = (tensor_for(tx, each, DOUBLE) for each in (x, xp, fp))
    for each in (wanted, places, values):
        must_hold(tx, record(tx, torch.isfinite, each))
    if places.fake.dim() != 1 or places.fake.shape != values.fake.shape or places.fake.shape[0] < 2:
        return refuse(numpy.interp, "between so few")
    _grows(tx, places)
    last = places.fake.shape[0] - 1
    after = record(tx, torch.searchsorted, places, wanted, right=True)
    at = record(tx, torch.clamp, record(tx, operator.sub, after, 1), 0, last - 1)
    next_ = record(tx, operator.add, at, 1)
    (place, value), (place_after, value_after) = (
        [record(tx, torch.take, each, where) for each in (places, values)] for where in (at, next_)
    )
    rise, run = record(tx, operator.sub, value_after, value), record(tx, operator.sub, place_after, place)
    step = record(tx, operator.mul, record(tx, torch.true_divide, rise, run), record(tx, operator.sub, wanted, place))
    found = record(tx, operator.add, step, value)
    first_place, last_place = (record(tx, torch.select, places, 0, where) for where in (0, last))
    first, final = (record(tx, torch.select, values, 0, where) for where in (0, last))
    outer = [each if given is None else full(tx, (), float(given), DOUBLE)
             for given, each in ((left, first), (right, final))]  # fmt: skip
    found = record(tx, torch.where, record(tx, operator.eq, place, wanted), value, found)
    found = record(tx, torch.where, record(tx, operator.eq, last_place, wanted), final, found)
    found = record(tx, torch.where, record(tx, operator.lt, wanted, first_place), outer[0], found)
    return record(tx, torch.where, record(tx, operator.gt, wanted, last_place), outer[1], found)


def _is_in(
    tx: Translator, example: Any, element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False
) -> TensorVariable:
    dtype = rehearse(tx, numpy.result_type, [_example(tx, element), _example(tx, test_elements)])
    if not isinstance(element, ArrayVariable) or dtype.kind not in "iuf" or not isinstance(invert, bool):
        return refuse(numpy.isin, "of such numbers")
    one, other = tensor_for(tx, element, dtype), tensor_for(tx, test_elements, dtype)
    row = record(tx, torch.Tensor.reshape, other, (-1,))
    same = record(tx, operator.eq, record(tx, torch.unsqueeze, one, -1), row)
    found = record(tx, torch.any, same, -1)
    return record(tx, torch.logical_not, found) if invert else found


# --- several results --------------------------------------------------------------------------------------------------
def _bound(tx: Translator, function: Any, args: Args, kwargs: Kwargs, names: str) -> dict[str, Variable]:
    found = dict(zip(names.split(), args, strict=False)) | kwargs
    if len(args) > len(names.split()) or found.keys() - set(names.split()) or len(found) < len(args) + len(kwargs):
        return refuse(function, "with such arguments")
    return found


def _histogram(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """Edges are given, or equally far apart from the least element to the greatest."""
    given = _bound(tx, function, args, kwargs, "a bins range")
    array, bins = operand(tx, given["a"]), operand(tx, given.get("bins", ConstantVariable(10)))
    span = value_of(tx, given.get("range", ConstantVariable(None)))
    if not isinstance(array, ArrayVariable) or not array.look.example().size or span is MISSING:
        return refuse(function, "with such arguments")
    if array.look.dtype.kind not in "iuf" or array.look.dtype.itemsize < 4:
        return refuse(function, "of such numbers")
    counts, edges = rehearse(tx, function, [array.look.example(), example_of(tx, bins), span])
    row = record(tx, torch.Tensor.reshape, array.tensor, (-1,))
    if row.fake.is_floating_point():
        must_hold(tx, record(tx, torch.isfinite, row))
    if isinstance(bins, ArrayVariable) and span is None:
        drawn: Variable = bins
    elif (value := value_of(tx, bins)) is MISSING or isinstance(value, str):  # the name of a way to choose them
        return refuse(function, "with such arguments")
    elif isinstance(value, (int, numpy.integer)) and span is None:
        drawn = made(tx, _spread(tx, row, int(value), edges.dtype), edges, [array])
    else:
        drawn = constant(tx, edges)
    assert isinstance(drawn, NumpyVariable)
    dtype = rehearse(tx, numpy.result_type, [array.look.example(), edges])
    found = _counted(tx, cast(tx, row, dtype), cast(tx, drawn.tensor, dtype))
    return tx.new_tuple([made(tx, found, counts, [array]), drawn])


def _counted(tx: Translator, row: TensorVariable, edges: TensorVariable) -> TensorVariable:
    """How many lie between each edge and the next; the last belongs to what is before it."""
    _grows(tx, edges)
    count = edges.fake.shape[0] - 1
    first, last = (record(tx, torch.select, edges, 0, at) for at in (0, count))
    kept = ands(tx, record(tx, operator.ge, row, first), record(tx, operator.le, row, last))
    at = record(tx, operator.sub, record(tx, torch.searchsorted, edges, row, right=True), 1)
    at = record(tx, torch.where, kept, record(tx, torch.clamp, at, 0, count - 1), count)
    found = record(tx, torch.index_add, full(tx, (count + 1,), 0, INT64), 0, at, record(tx, torch.ones_like, at))
    return record(tx, torch.clone, record(tx, torch.narrow, found, 0, 0, count))


def _spread(tx: Translator, flat: TensorVariable, bins: int, dtype: Any) -> TensorVariable:
    """Edges from the least to the greatest, by numpy's own steps."""
    least, most = (cast(tx, record(tx, f, flat), dtype) for f in (torch.amin, torch.amax))
    must_hold(tx, record(tx, operator.lt, least, most))
    apart = record(tx, operator.sub, most, least)
    must_hold(tx, record(tx, torch.isfinite, apart))
    counted = record(tx, torch.arange, bins + 1, dtype=DTYPES[dtype], device=CPU)
    step = record(tx, torch.true_divide, apart, bins)
    edges = record(tx, operator.add, record(tx, operator.mul, counted, step), least)
    edges = record(tx, torch.where, record(tx, operator.eq, counted, bins), most, edges)
    must_hold(tx, record(tx, operator.lt, *(record(tx, torch.narrow, edges, 0, at, bins) for at in (0, 1))))
    return edges


def _mesh(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    indexing = value_of(tx, kwargs.get("indexing", ConstantVariable("xy")))
    arrays = [operand(tx, arg) for arg in args]
    is_plain = kwargs.keys() <= {"indexing"} and indexing in ("xy", "ij") and arrays
    if not is_plain or not all(isinstance(each, ArrayVariable) and len(each.look.shape) == 1 for each in arrays):
        return refuse(function, "with such arguments")
    examples = rehearse(tx, function, [example_of(tx, each) for each in arrays], {"indexing": indexing})
    found: list[Variable] = []
    for at, (array, example) in enumerate(zip(arrays, examples, strict=True)):
        assert isinstance(array, NumpyVariable)
        check_dtype(example)
        place = 1 - at if indexing == "xy" and at < 2 and len(arrays) > 1 else at
        shape = [1] * len(arrays)
        shape[place] = -1
        row = record(tx, torch.Tensor.reshape, array.tensor, tuple(shape))
        spread = record(tx, torch.clone, record(tx, torch.Tensor.expand, row, example.shape),
                        memory_format=torch.contiguous_format)  # fmt: skip
        found.append(made(tx, spread, example, [array]))
    return tx.new_tuple(found)


# --- the same ---------------------------------------------------------------------------------------------------------
def _truth_of(tx: Translator, tensor: TensorVariable) -> Variable:
    """One of Python's, of all elements."""
    answer: Variable = TENSOR_METHODS["item"](tx, record(tx, torch.all, tensor))
    return answer


def _all_close(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    given = _bound(tx, function, args, kwargs, "a b rtol atol")
    one, other = (operand(tx, given[name]) for name in ("a", "b"))
    plain: dict[str, Any] = {name: value_of(tx, given[name]) for name in ("rtol", "atol") if name in given}
    if any(type(value) not in (int, float) for value in plain.values()):
        return refuse(function, "with such arguments")
    if not isinstance(one, NumpyVariable) or not isinstance(other, NumpyVariable):
        return refuse(function, "of no arrays")
    example = rehearse(tx, numpy.isclose, [example_of(tx, one), example_of(tx, other)], plain)
    return _truth_of(tx, is_close(tx, example, one, other, **plain))


def _all_equal(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    arrays = [operand(tx, arg) for arg in args]
    if kwargs or len(arrays) != 2 or not all(isinstance(each, ArrayVariable) for each in arrays):
        return refuse(function, "with such arguments")
    one, other = arrays
    assert isinstance(one, ArrayVariable) and isinstance(other, ArrayVariable)
    if one.look.shape != other.look.shape:
        return ConstantVariable(False)
    if {one.look.dtype.kind, other.look.dtype.kind} == {"i", "u"}:  # which numpy compares as they are
        return refuse(function, "of signed and other numbers")
    dtype = rehearse(tx, numpy.result_type, [one.look.dtype, other.look.dtype])
    return _truth_of(tx, record(tx, operator.eq, *(cast(tx, each.tensor, dtype) for each in (one, other))))


if IS_KNOWN:
    FUNCTIONS.update({
        numpy.median: Row(_median, True), numpy.percentile: Row(_quantile(100), True),
        numpy.quantile: Row(_quantile(1), True), numpy.searchsorted: Row(_search), numpy.digitize: Row(_digitize),
        numpy.interp: Row(_interp, True), numpy.isin: Row(_is_in),
    })  # fmt: skip
    registered(FUNCTIONS)
    VIEWS.update({
        numpy.histogram: _histogram, numpy.meshgrid: _mesh, numpy.allclose: _all_close, numpy.array_equal: _all_equal,
    })  # fmt: skip
    for _function in (numpy.histogram, numpy.meshgrid, numpy.allclose, numpy.array_equal):
        HANDLERS[_function] = functools.partial(handled, VIEWS[_function], _function)
