"""Functions and methods of numpy that give something new, as torch has them.

A body gets the example that numpy gave (whose dtype the result has) and its arguments: arrays and numbers as variables,
all else as plain values. It answers with a tensor of the same shape."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.signatures import takes
from symbolic.variables.arrays import (
    CPU,
    DOUBLE,
    DTYPES,
    IS_KNOWN,
    METHODS,
    ArrayVariable,
    NumpyVariable,
    ScalarVariable,
    cast,
    check_dtype,
    computed,
    constant,
    example_of,
    flagged,
    full,
    made,
    must_hold,
    operand,
    record,
    rehearse,
    value_of,
    write,
)
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.drawn import numpy
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.numpy_ufuncs import Body, Row, ands, flat, in_loop, refuse, target_of
from symbolic.variables.tables import HANDLERS, Args, Kwargs
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

FUNCTIONS: dict[Any, Row] = {}


def call(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A function that gives something new."""
    row = FUNCTIONS.get(function)
    if row is None:
        return refuse(function)
    return call_by(tx, row, function, args, kwargs)


def call_by(tx: Translator, row: Row, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    target = target_of(kwargs.get("out"))
    kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    given = [_plain(tx, arg) for arg in args]
    named = {name: _plain(tx, arg) for name, arg in kwargs.items()}
    values = [value_of(tx, arg) for arg in args]
    by_name = {name: value_of(tx, arg) for name, arg in kwargs.items()}
    is_known = all(value is not MISSING for value in (*values, *by_name.values()))
    if is_known and target is None and row.body not in (_empty, _empty_like):
        value = computed(tx, function, values, by_name)
        if value is not MISSING:
            return constant(tx, value)
    if not takes(row.body, tx, None, *given, **named) or not _are_plain(row.body, given, named):
        return refuse(function, "with such arguments")
    examples = [example_of(tx, operand(tx, arg)) for arg in args]
    named_examples = {name: example_of(tx, operand(tx, arg)) for name, arg in kwargs.items()}
    out = {} if target is None else {"out": target.look.example()}
    if function in REGULAR:
        examples[0] = _regular(args[0], examples[0])
    if function is numpy.average and "weights" in named_examples:  # which may not come to zero
        named_examples["weights"] = numpy.ones_like(named_examples["weights"])
    example = rehearse(tx, function, examples, {**named_examples, **out})
    check_dtype(example)
    if any(numpy.may_share_memory(example, each) for each in examples if isinstance(each, numpy.ndarray)):
        return refuse(function, "that gives a view")
    arrays = [each for each in flat((*given, *named.values())) if isinstance(each, NumpyVariable)]
    tensor = row.body(tx, example, *given, **named)
    if target is not None:
        tensor = cast(tx, tensor, target.look.dtype)
        if row.flags:
            flagged(tx, tensor, arrays if row.spread else ())
        write(tx, target, target.tensor, tensor)
        return target
    result = made(tx, tensor, example, arrays)
    if row.flags:
        assert isinstance(result, NumpyVariable)
        flagged(tx, result.tensor, arrays if row.spread else ())
    return result


#: Functions that refuse a matrix of zeros.
REGULAR: set[Any] = set()


def _regular(variable: Variable, example: Any) -> Any:
    """A matrix that has an inverse, and lies like the example."""
    if not isinstance(variable, ArrayVariable) or example.ndim != 2 or example.shape[0] != example.shape[1]:
        return refuse(numpy.linalg.inv, "of no matrix")
    return example + numpy.eye(example.shape[0], dtype=example.dtype)


#: Parameters that are plain values.
_PLAIN = frozenset(
    """axis dtype keepdims ddof kind decimals repeats reps shift k n order copy subscripts N M offset mode pad_width
    axes rtol atol equal_nan nan posinf neginf norm shape""".split()
)


def _are_plain(body: Body, given: list[Any], named: dict[str, Any]) -> bool:
    bound = inspect.signature(body).bind(None, None, *given, **named).arguments
    return not any(True for _ in flat(value for name, value in bound.items() if name in _PLAIN))


def _plain(tx: Translator, variable: Variable) -> Any:
    """Arrays and numbers stay variables, all else is what it is."""
    variable = operand(tx, variable)
    if isinstance(variable, TensorVariable):
        raise GraphBreak("array beside a tensor", variable.describe())
    if isinstance(variable, ScalarVariable) and variable.known is not MISSING and variable.look.dtype.kind in "biu":
        return variable.known.item()
    if isinstance(variable, (NumpyVariable, NumberVariable)):
        return variable
    if variable.python_type() in (list, tuple):
        return [_plain(tx, item) for item in tx.unpack(variable)]
    value = value_of(tx, variable)
    if value is MISSING:
        raise GraphBreak("array beside what is no array", variable.describe())
    return value


def tensor_for(tx: Translator, value: Any, dtype: Any = None) -> TensorVariable:
    """What a body was given for an array, as a tensor."""
    if isinstance(value, NumpyVariable):
        return value.tensor if dtype is None else cast(tx, value.tensor, dtype)
    if isinstance(value, NumberVariable):
        found = in_loop(tx, value, dtype)
    elif isinstance(value, list):
        if not any(True for _ in flat(value)):  # numbers alone
            known = constant(tx, rehearse(tx, numpy.asarray, [value], {"dtype": dtype}))
            assert isinstance(known, NumpyVariable)
            return known.tensor
        return _stacked(tx, value, dtype or example_dtype(tx, value))
    else:
        array = numpy.asarray(value)
        found = full(tx, (), array.astype(dtype or array.dtype)[()], dtype or array.dtype)
    assert isinstance(found, TensorVariable)
    return found


def example_dtype(tx: Translator, value: Any) -> Any:
    return rehearse(tx, numpy.array, [_example(tx, value)]).dtype


def _example(tx: Translator, value: Any) -> Any:
    if isinstance(value, list):
        return [_example(tx, item) for item in value]
    return example_of(tx, value) if isinstance(value, Variable) else value


def _stacked(tx: Translator, items: list[Any], dtype: Any) -> TensorVariable:
    """Lists in lists as numpy takes them."""
    return record(tx, torch.stack, [tensor_for(tx, item, dtype) for item in items])


def axes_of(axis: Any, tensor: TensorVariable) -> tuple[int, ...]:
    dims = tensor.fake.dim()
    chosen = range(dims) if axis is None else axis if isinstance(axis, list) else [axis]
    return tuple(operator.index(each) % dims if dims else 0 for each in chosen)


def _reduced(function: Any) -> Body:
    """Over some or all dimensions at once, of the dtype of the result."""

    def body(
        tx: Translator, example: Any, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
    ) -> TensorVariable:
        tensor = tensor_for(tx, a, example.dtype)
        if 0 in tensor.fake.shape:
            return refuse(function, "of nothing")
        if not tensor.fake.dim():
            return record(tx, torch.clone, tensor)
        return record(tx, function, tensor, axes_of(axis, tensor), keepdims)

    return body


def _product(
    tx: Translator, example: Any, a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False
) -> TensorVariable:
    tensor = tensor_for(tx, a, example.dtype)
    if 0 in tensor.fake.shape or not tensor.fake.dim():
        return refuse(numpy.prod, "of nothing")
    if axis is None and not keepdims:
        return record(tx, torch.prod, tensor)
    for dim in sorted(axes_of(axis, tensor), reverse=True):
        tensor = record(tx, torch.prod, tensor, dim, keepdims)
    return tensor


def _spread_of(function: Any) -> Body:
    """Variance and standard deviation."""

    def body(
        tx: Translator, example: Any, a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False
    ) -> TensorVariable:
        tensor = tensor_for(tx, a, example.dtype)
        if 0 in tensor.fake.shape or not tensor.fake.dim() or isinstance(ddof, Variable):
            return refuse(function, "of nothing")
        count = functools.reduce(operator.mul, (tensor.fake.shape[dim] for dim in axes_of(axis, tensor)), 1)
        if count <= ddof:
            return refuse(function, "with so few elements")
        return record(tx, function, tensor, axes_of(axis, tensor), correction=ddof, keepdim=keepdims)

    return body


def _truths(function: Any) -> Body:
    def body(tx: Translator, example: Any, a: Any, axis: Any = None, keepdims: bool = False) -> TensorVariable:
        tensor = record(tx, operator.ne, tensor_for(tx, a), 0)
        if not tensor.fake.dim():
            return record(tx, torch.clone, tensor)
        return record(tx, function, tensor, axes_of(axis, tensor), keepdims)

    return body


def _place_of(function: Any) -> Body:
    def body(tx: Translator, example: Any, a: Any, axis: Any = None, keepdims: bool = False) -> TensorVariable:
        tensor = tensor_for(tx, a)
        if tensor.fake.dtype is torch.bool:
            tensor = record(tx, torch.Tensor.to, tensor, torch.uint8)
        if tensor.fake.is_complex():
            return refuse(function, "of complex numbers")
        return record(tx, function, tensor, axis, keepdims)

    return body


def _running(function: Any) -> Body:
    def body(tx: Translator, example: Any, a: Any, axis: Any = None, dtype: Any = None) -> TensorVariable:
        tensor = tensor_for(tx, a, example.dtype)
        if axis is None:
            tensor, axis = record(tx, torch.Tensor.reshape, tensor, (-1,)), 0
        return record(tx, function, tensor, axis)

    return body


def _count(tx: Translator, example: Any, a: Any, axis: Any = None) -> TensorVariable:
    tensor = record(tx, operator.ne, tensor_for(tx, a), 0)
    return record(tx, torch.sum, tensor, axes_of(axis, tensor))


# --- arrays side by side ----------------------------------------------------------------------------------------------
def _each(arrays: Any) -> list[Any]:
    if not isinstance(arrays, list):
        raise GraphBreak("numpy function not captured", "arrays in one array")
    return arrays


def _concatenate(tx: Translator, example: Any, arrays: Any, axis: Any = 0) -> TensorVariable:
    tensors = [tensor_for(tx, each, example.dtype) for each in _each(arrays)]
    if axis is None:
        tensors, axis = [record(tx, torch.Tensor.reshape, each, (-1,)) for each in tensors], 0
    return record(tx, torch.cat, tensors, axis)


def _stack(tx: Translator, example: Any, arrays: Any, axis: Any = 0) -> TensorVariable:
    return record(tx, torch.stack, [tensor_for(tx, each, example.dtype) for each in _each(arrays)], axis)


def _piled(function: Any) -> Body:
    def body(tx: Translator, example: Any, tup: Any) -> TensorVariable:
        return record(tx, function, [tensor_for(tx, each, example.dtype) for each in _each(tup)])

    return body


def _where(tx: Translator, example: Any, condition: Any, x: Any, y: Any) -> TensorVariable:
    asked = record(tx, operator.ne, tensor_for(tx, condition), 0)
    return record(tx, torch.where, asked, tensor_for(tx, x, example.dtype), tensor_for(tx, y, example.dtype))


def _clip(tx: Translator, example: Any, a: Any, a_min: Any = None, a_max: Any = None, **named: Any) -> TensorVariable:
    low, high = (named.pop(name, value) for name, value in (("min", a_min), ("max", a_max)))
    tensor = tensor_for(tx, a, example.dtype)
    if named or tensor.fake.is_complex():
        return refuse(numpy.clip)
    for function, bound in ((torch.maximum, low), (torch.minimum, high)):
        if bound is not None and not _is_beyond(bound, example.dtype):
            tensor = record(tx, function, tensor, tensor_for(tx, bound, example.dtype))
    return tensor


def _is_beyond(bound: Any, dtype: Any) -> bool:
    """Whether a number is no bound for integers of this type, as all of them are within it. (Of one that leaves none of
    them numpy says that it is out of bounds.)"""
    if type(bound) is not int or dtype.kind not in "iu":
        return False
    limits = numpy.iinfo(dtype)
    return not limits.min <= bound <= limits.max


def _round(tx: Translator, example: Any, a: Any, decimals: Any = 0) -> TensorVariable:
    tensor = tensor_for(tx, a)
    if not tensor.fake.is_floating_point():
        is_whole = decimals >= 0 and not tensor.fake.is_complex()
        return record(tx, torch.clone, tensor) if is_whole else refuse(numpy.round, "of such numbers")
    if decimals == 0:
        return record(tx, torch.round, tensor)
    scale = full(tx, (), 10.0 ** abs(decimals), example.dtype)
    inward, outward = (operator.mul, torch.true_divide) if decimals > 0 else (torch.true_divide, operator.mul)
    return record(tx, outward, record(tx, torch.round, record(tx, inward, tensor, scale)), scale)


def _repeat(tx: Translator, example: Any, a: Any, repeats: Any, axis: Any = None) -> TensorVariable:
    if type(repeats) is not int:
        return refuse(numpy.repeat, "by such numbers")
    return record(tx, torch.repeat_interleave, tensor_for(tx, a), repeats, dim=axis)


def _tile(tx: Translator, example: Any, a: Any, reps: Any) -> TensorVariable:
    return record(tx, torch.tile, tensor_for(tx, a), tuple(reps) if isinstance(reps, list) else (reps,))


def _roll(tx: Translator, example: Any, a: Any, shift: Any, axis: Any = None) -> TensorVariable:
    return record(tx, torch.roll, tensor_for(tx, a), shift, axis)


def _part_of_matrix(function: Any) -> Body:
    def body(tx: Translator, example: Any, m: Any, k: Any = 0) -> TensorVariable:
        return record(tx, function, tensor_for(tx, m), k)

    return body


def _sort(tx: Translator, example: Any, a: Any, axis: Any = -1, kind: Any = None) -> TensorVariable:
    """Equal numbers may look different if they are zeros."""
    tensor = tensor_for(tx, a)
    if axis is None or tensor.fake.is_complex() or not tensor.fake.dim():
        return refuse(numpy.sort, "of such a kind")
    if tensor.fake.is_floating_point() and kind != "stable":
        positive_zeros(tx, tensor)
    return sorted_along(tx, tensor, axis)


def positive_zeros(tx: Translator, tensor: TensorVariable) -> None:
    """Checks that no zero is negative, and so all are the same."""
    turned = ands(tx, record(tx, operator.eq, tensor, 0), record(tx, torch.signbit, tensor))
    must_hold(tx, record(tx, torch.logical_not, turned))


def sorted_along(tx: Translator, tensor: TensorVariable, axis: int) -> TensorVariable:
    return _sorted(tx, tensor, axis)[0]


def _argsort(tx: Translator, example: Any, a: Any, axis: Any = -1, kind: Any = None) -> TensorVariable:
    """Which of equal numbers comes first is numpy's own affair, but for `kind="stable"`."""
    tensor = tensor_for(tx, a)
    if axis is None or tensor.fake.is_complex() or not tensor.fake.dim():
        return refuse(numpy.argsort, "of such a kind")
    values, places = _sorted(tx, tensor, axis)
    if kind != "stable" and tensor.fake.shape[axis] > 1:
        count = tensor.fake.shape[axis] - 1
        one, next_ = (record(tx, torch.narrow, values, axis, at, count) for at in (0, 1))
        must_hold(tx, record(tx, operator.ne, one, next_))
        must_hold(tx, record(tx, operator.eq, tensor, tensor))
    return places


def _sorted(tx: Translator, tensor: TensorVariable, axis: int) -> list[TensorVariable]:
    both = tx.graph.call(torch.sort, [tensor], {"dim": ConstantVariable(axis), "stable": ConstantVariable(True)})
    return tx.unpack(both)  # type: ignore[return-value]


def _take(tx: Translator, example: Any, a: Any, indices: Any, axis: Any = None) -> TensorVariable:
    tensor, at = tensor_for(tx, a), tensor_for(tx, indices)
    if at.fake.dtype.is_floating_point or at.fake.dtype is torch.bool:
        return refuse(numpy.take, "at such places")
    at = cast(tx, at, numpy.dtype("int64"))
    if axis is None:
        tensor, axis = record(tx, torch.Tensor.reshape, tensor, (-1,)), 0
    before = (slice(None),) * (axis % tensor.fake.dim())
    return record(tx, operator.getitem, tensor, (*before, at))


def _trace(tx: Translator, example: Any, a: Any, offset: Any = 0) -> TensorVariable:
    tensor = tensor_for(tx, a, example.dtype)
    return record(tx, torch.sum, record(tx, torch.diagonal, tensor, offset), -1)


def _range(tx: Translator, example: Any, a: Any, axis: Any = None, keepdims: bool = False) -> TensorVariable:
    tensor = tensor_for(tx, a, example.dtype)
    if 0 in tensor.fake.shape or not tensor.fake.dim():
        return refuse(numpy.ptp, "of nothing")
    most, least = (record(tx, f, tensor, axes_of(axis, tensor), keepdims) for f in (torch.amax, torch.amin))
    return record(tx, operator.sub, most, least)


def is_close(
    tx: Translator, example: Any, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> TensorVariable:
    """As numpy says it: no more than that away from `b`, or the same."""
    kinds = [each.look.dtype if isinstance(each, NumpyVariable) else DOUBLE for each in (a, b)]
    single = numpy.dtype("float32")
    if any(kind.kind not in "biuf" or kind.itemsize == 2 for kind in kinds) or kinds.count(single) == 1 or equal_nan:
        return refuse(numpy.isclose, "of such numbers")
    dtype = single if kinds == [single, single] else DOUBLE
    one, other = tensor_for(tx, a, dtype), tensor_for(tx, b, dtype)
    margin = record(tx, operator.add, record(tx, operator.mul, record(tx, abs, other), rtol), atol)
    near = record(tx, operator.le, record(tx, abs, record(tx, operator.sub, one, other)), margin)
    finite = ands(tx, near, record(tx, torch.isfinite, other))
    return record(tx, operator.or_, finite, record(tx, operator.eq, one, other))


# --- linear algebra ---------------------------------------------------------------------------------------------------
def _scaled(tx: Translator, one: TensorVariable, other: TensorVariable) -> TensorVariable:
    """A product with a number, which BLAS adds to zeros where numpy has it do that: several elements of a vector or
    matrix. None of them is a negative zero, then."""
    found = record(tx, operator.mul, one, other)
    is_of_blas = found.fake.dtype in _OF_BLAS and found.fake.dim() in (1, 2) and found.fake.numel() > 1
    return record(tx, operator.add, found, 0) if is_of_blas else found


def _dot(tx: Translator, example: Any, a: Any, b: Any) -> TensorVariable:
    one, other = tensor_for(tx, a, example.dtype), tensor_for(tx, b, example.dtype)
    if example.dtype.kind == "b":
        return refuse(numpy.dot, "of truths")
    if not one.fake.dim() or not other.fake.dim():
        return _scaled(tx, one, other)
    if max(one.fake.dim(), other.fake.dim()) <= 2:
        return record(tx, torch.matmul, one, other)
    if other.fake.dim() == 1:
        return record(tx, torch.matmul, one, other)
    return record(tx, torch.tensordot, one, other, dims=([one.fake.dim() - 1], [other.fake.dim() - 2]))


def _tensordot(tx: Translator, example: Any, a: Any, b: Any, axes: Any = 2) -> TensorVariable:
    one, other = tensor_for(tx, a, example.dtype), tensor_for(tx, b, example.dtype)
    pairs = axes if isinstance(axes, int) else tuple(each if isinstance(each, list) else [each] for each in axes)
    return record(tx, torch.tensordot, one, other, dims=pairs)


def _outer(tx: Translator, example: Any, a: Any, b: Any) -> TensorVariable:
    one, other = (record(tx, torch.Tensor.reshape, tensor_for(tx, each, example.dtype), (-1,)) for each in (a, b))
    return record(tx, torch.outer, one, other)


def _einsum(tx: Translator, example: Any, subscripts: Any, *operands: Any) -> TensorVariable:
    if type(subscripts) is not str or example.dtype.kind == "b":
        return refuse(numpy.einsum, "with such subscripts")
    return record(tx, torch.einsum, subscripts, *(tensor_for(tx, each, example.dtype) for each in operands))


def _of_matrix(function: Any) -> Body:
    """Where there is none torch raises, and the frame runs as it was written."""

    def body(tx: Translator, example: Any, a: Any, *more: Any) -> TensorVariable:
        return record(tx, function, *(tensor_for(tx, each, example.dtype) for each in (a, *more)))

    return body


def _frequencies(function: Any) -> Body:
    def body(
        tx: Translator, example: Any, a: Any, n: Any = None, axis: Any = -1, norm: Any = None
    ) -> TensorVariable:
        tensor = tensor_for(tx, a)
        if not tensor.fake.is_floating_point() and not tensor.fake.is_complex():
            tensor = cast(tx, tensor, numpy.dtype("float64"))
        return record(tx, function, tensor, n, axis, norm)

    return body


def _no_nan(
    tx: Translator, example: Any, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> TensorVariable:
    if not copy or not isinstance(x, NumpyVariable) or x.look.dtype.kind == "c":
        return refuse(numpy.nan_to_num, "in place")
    return record(tx, torch.nan_to_num, x.tensor, nan, posinf, neginf)


# --- arrays of nothing but numbers ------------------------------------------------------------------------------------
def _filled(value: Any) -> Body:
    def body(tx: Translator, example: Any, shape: Any, *args: Any, **named: Any) -> TensorVariable:
        return full(tx, example.shape, example.dtype.type(value), example.dtype)

    return body


def _like(body: Body) -> Body:
    """The same in the shape of an array, or in another one that is named."""

    def like(tx: Translator, example: Any, a: Any, *args: Any, shape: Any = None, **named: Any) -> TensorVariable:
        return body(tx, example, shape, *args, **named)

    return like


_empty = _filled(0)
_empty_like = _like(_empty)


def _full(
    tx: Translator, example: Any, shape: Any, fill_value: Any, *args: Any, **named: Any
) -> TensorVariable:
    value = tensor_for(tx, fill_value, example.dtype)
    return record(tx, torch.clone, record(tx, torch.Tensor.expand, value, example.shape))


def _arange(tx: Translator, example: Any, *args: Any, dtype: Any = None, device: Any = None) -> TensorVariable:
    if any(isinstance(each, Variable) for each in args):
        return refuse(numpy.arange, "of numbers of the graph")
    if not args or not example.size:
        return refuse(numpy.arange, "of nothing")
    start = args[0] if len(args) > 1 else 0
    step = args[2] if len(args) > 2 else 1
    kind = example.dtype.type
    first, second = kind(start), kind(start + step)
    counted = record(tx, torch.arange, example.size, dtype=DTYPES[example.dtype], device=CPU)
    scaled = record(tx, operator.mul, counted, (second - first).item())
    return record(tx, operator.add, scaled, first.item())


def _array(
    tx: Translator, example: Any, object: Any, dtype: Any = None, copy: Any = True, order: Any = "K"
) -> TensorVariable:
    if isinstance(object, NumpyVariable):
        return record(tx, torch.clone, converted(tx, object, example.dtype))
    return tensor_for(tx, object, example.dtype)


def _copy(tx: Translator, example: Any, a: Any, order: Any = "K") -> TensorVariable:
    return record(tx, torch.clone, tensor_for(tx, a))


def astype(tx: Translator, example: Any, a: Any, dtype: Any, order: Any = "K", copy: Any = True) -> TensorVariable:
    return converted(tx, a, example.dtype)


#: The floats just outside of an int64, but for the smallest one.
_OF_BLAS = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_OF_INT64 = (-(2.0**63), 2.0**63)


def converted(tx: Translator, array: NumpyVariable, dtype: Any) -> TensorVariable:
    """What is not a number of the new kind has no value that anybody promises, and a warning for some."""
    tensor, before = array.tensor, array.look.dtype
    if before.kind == "c" and dtype.kind not in "cb":
        return refuse(numpy.ndarray.astype, "of complex numbers")
    if before.kind == "f" and dtype.kind in "iu":
        wide = cast(tx, tensor, numpy.dtype("float64"))
        limits = numpy.iinfo(dtype)
        above, below = (float(limits.min) - 1, float(limits.max) + 1) if dtype.itemsize < 8 else _OF_INT64
        must_hold(tx, ands(tx, record(tx, operator.gt, wide, above), record(tx, operator.lt, wide, below)))
    found = cast(tx, tensor, dtype)
    if before.kind in "fc" and dtype.kind in "fc" and dtype.itemsize < before.itemsize:
        flagged(tx, found, [array])
    return found


def _flatten(tx: Translator, example: Any, a: Any) -> TensorVariable:
    return record(tx, torch.clone, record(tx, torch.Tensor.reshape, tensor_for(tx, a), (-1,)))


def _inner(tx: Translator, example: Any, a: Any, b: Any) -> TensorVariable:
    if example.dtype.kind == "b":
        return refuse(numpy.inner, "of truths")
    one, other = tensor_for(tx, a, example.dtype), tensor_for(tx, b, example.dtype)
    return record(tx, torch.inner, one, other) if one.fake.dim() and other.fake.dim() else _scaled(tx, one, other)


def _linspace(
    tx: Translator, example: Any, start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None
) -> TensorVariable:
    """By numpy's own steps."""
    if any(isinstance(each, (Variable, list)) for each in (start, stop, num, endpoint)) or example.dtype.kind != "f":
        return refuse(numpy.linspace, "of such numbers")
    parts = num - 1 if endpoint else num
    start, stop = float(start), float(stop)
    step = (stop - start) / parts if parts > 0 else 0.0
    if parts <= 0 or step == 0:
        return refuse(numpy.linspace, "of so few numbers")
    counted = record(tx, torch.arange, num, dtype=torch.float64, device=CPU)
    found = record(tx, operator.add, record(tx, operator.mul, counted, step), start)
    if endpoint:
        last = full(tx, (), stop, numpy.dtype("float64"))
        found = record(tx, torch.where, record(tx, operator.eq, counted, float(num - 1)), last, found)
    return found


# --- the table --------------------------------------------------------------------------------------------------------
def _fill() -> None:
    reductions = {
        "sum": Row(_reduced(torch.sum), True, (0,)), "mean": Row(_reduced(torch.mean), True, (0,)),
        "max": Row(_reduced(torch.amax)), "min": Row(_reduced(torch.amin)), "prod": Row(_product, True),
        "std": Row(_spread_of(torch.std), True, (0,)), "var": Row(_spread_of(torch.var), True, (0,)),
        "any": Row(_truths(torch.any)), "all": Row(_truths(torch.all)), "argmax": Row(_place_of(torch.argmax)),
        "argmin": Row(_place_of(torch.argmin)), "cumsum": Row(_running(torch.cumsum), True),
        "cumprod": Row(_running(torch.cumprod), True), "clip": Row(_clip), "round": Row(_round, True),
        "dot": Row(_dot, True), "repeat": Row(_repeat), "copy": Row(_copy),
    }  # fmt: skip
    FUNCTIONS.update({getattr(numpy, name): row for name, row in reductions.items()})
    functions: dict[Any, Row] = {
        numpy.amax: reductions["max"], numpy.amin: reductions["min"], numpy.around: reductions["round"],
        numpy.count_nonzero: Row(_count), numpy.concatenate: Row(_concatenate), numpy.stack: Row(_stack),
        numpy.vstack: Row(_piled(torch.vstack)), numpy.hstack: Row(_piled(torch.hstack)),
        numpy.column_stack: Row(_piled(torch.column_stack)), numpy.where: Row(_where), numpy.tile: Row(_tile),
        numpy.roll: Row(_roll), numpy.tril: Row(_part_of_matrix(torch.tril)),
        numpy.triu: Row(_part_of_matrix(torch.triu)), numpy.sort: Row(_sort), numpy.argsort: Row(_argsort),
        numpy.outer: Row(_outer, True), numpy.einsum: Row(_einsum, True),
        numpy.inner: Row(_inner, True), numpy.zeros: Row(_filled(0)), numpy.zeros_like: Row(_like(_filled(0))),
        numpy.ones: Row(_filled(1)), numpy.ones_like: Row(_like(_filled(1))), numpy.empty: Row(_empty),
        numpy.empty_like: Row(_empty_like), numpy.full: Row(_full), numpy.full_like: Row(_like(_full)),
        numpy.arange: Row(_arange), numpy.array: Row(_array),
        numpy.linspace: Row(_linspace),
    }  # fmt: skip
    functions |= {
        numpy.take: Row(_take), numpy.trace: Row(_trace, True), numpy.ptp: Row(_range, True),
        numpy.isclose: Row(is_close), numpy.tensordot: Row(_tensordot, True),
    }  # fmt: skip
    functions |= {
        getattr(numpy.linalg, name): Row(_of_matrix(getattr(torch.linalg, name)), True)
        for name in "inv solve det cholesky".split()
    }
    functions |= {
        getattr(numpy.fft, name): Row(_frequencies(getattr(torch.fft, name)), True)
        for name in "fft ifft rfft irfft".split()
    }
    functions[numpy.nan_to_num] = Row(_no_nan)
    REGULAR.update(getattr(numpy.linalg, name) for name in "inv solve cholesky".split())
    FUNCTIONS.update(functions)
    methods = reductions | {"argsort": Row(_argsort), "flatten": Row(_flatten), "take": Row(_take)}
    methods["trace"] = functions[numpy.trace]
    METHODS.update({name: functools.partial(_by, row) for name, row in methods.items()})
    registered(FUNCTIONS)


def registered(functions: Iterable[Any]) -> None:
    """Puts functions that give something new into the table of handlers."""
    HANDLERS.update({function: functools.partial(handled, call, function) for function in functions})


def _by(row: Row, tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    return call_by(tx, row, function, args, kwargs)


def handled(body: Callable[..., Variable], function: Any, tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
    """A row of the table of handlers."""
    return body(tx, function, args, kwargs)


if IS_KNOWN:
    _fill()
