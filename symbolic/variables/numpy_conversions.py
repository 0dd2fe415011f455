"""From tensors and numbers to arrays and numbers of numpy, and back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.variables import filled, numpy_ordered, numpy_summed  # noqa: F401  (rows of tables)
from symbolic.variables.arrays import (
    CPU,
    DTYPES,
    IS_KNOWN,
    METHODS,
    ArrayVariable,
    Backwards,
    ExistingArray,
    NumpyVariable,
    ScalarVariable,
    constant,
    operand,
    record,
    rehearse,
    value_of,
)
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.drawn import numpy
from symbolic.variables.lending import in_memory_of, lend
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.numpy_functions import FUNCTIONS, astype, call, call_by, handled
from symbolic.variables.numpy_ufuncs import Row, refuse
from symbolic.variables.numpy_views import VIEWS
from symbolic.variables.tables import HANDLERS, KINDS, LATE, Args, Kwargs
from symbolic.variables.tensors import AS_NUMBERS, AS_POSITIONS, TensorVariable
from symbolic.variables.tensors import METHODS as TENSOR_METHODS
from symbolic.variables.torch_functions import HANDLERS as TORCH_HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

_NONE = ConstantVariable(None)


def _asarray(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    first, rest = operand(tx, args[0]), args[1:]
    dtype = value_of(tx, rest[0] if rest else kwargs.get("dtype", _NONE))
    if len(rest) > 1 or kwargs.keys() - {"dtype"} or dtype is MISSING:
        return refuse(function, "with such arguments")
    if isinstance(first, TensorVariable):
        tx.overrides.refuse("array of a tensor")
        rehearse(tx, function, [torch.zeros(1)])
        first = in_memory_of(tx, first)
    if isinstance(first, ArrayVariable):
        if dtype is None or numpy.dtype(dtype) == first.look.dtype:
            return first
        return METHODS["astype"](tx, numpy.ndarray.astype, [first, ConstantVariable(numpy.dtype(dtype))], {})
    return call_by(tx, FUNCTIONS[numpy.array], numpy.array, [first, *rest], kwargs)


def _new_array(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    if args and isinstance(args[0], TensorVariable):
        tx.overrides.refuse("array of a tensor")
        rehearse(tx, function, [torch.zeros(1)])
        args = [in_memory_of(tx, args[0]), *args[1:]]
    return call_by(tx, FUNCTIONS[numpy.array], function, args, kwargs)


def _astype_method(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    copies = kwargs.get("copy")
    if copies is not None and isinstance(args[0], ArrayVariable) and value_of(tx, copies) is False:
        wanted = value_of(tx, args[1]) if len(args) > 1 else MISSING
        if wanted is not MISSING and numpy.dtype(wanted) == args[0].look.dtype and len(kwargs) == 1:
            return args[0]
    return call_by(tx, _ASTYPE, function, args, kwargs)


_ASTYPE = Row(astype)


def _as_number(tx: Translator, value: Variable) -> Variable:
    """What torch takes a number of numpy's for."""
    assert isinstance(value, NumpyVariable)
    if value.look.dtype.kind == "b":  # which leaves nothing to the tensor
        raise GraphBreak("array beside a tensor", value.describe())
    return value.item(tx)


def _as_position(tx: Translator, index: Variable, device: torch.device) -> Variable:
    """What torch's indexing takes it for: an array for a tensor, an integer for one of Python's."""
    assert isinstance(index, NumpyVariable)
    if index.look.dtype.kind == "i" and isinstance(index, ScalarVariable) and index.known is not MISSING:
        return ConstantVariable(int(index.known))
    if isinstance(index, ArrayVariable) and index.look.dtype.kind in "ib" and index.look.shape:
        return record(tx, torch.clone, index.tensor)
    raise GraphBreak("array beside a tensor", index.describe())


def _numpy_of(tx: Translator, tensor: Variable, force: Variable | None = None) -> Variable:
    if force is not None or not isinstance(tensor, TensorVariable):
        raise GraphBreak("tensor method not captured", "numpy")
    return in_memory_of(tx, tensor)


def _of_numbers(tx: Translator, function: Any, args: Any, kwargs: Kwargs) -> tuple[Any, Kwargs]:
    """Numbers of numpy's in a list say what the tensor is of, and are plain ones in the graph."""
    items = [operand(tx, item) for item in tx.unpack(args[0])]
    if not any(isinstance(item, ScalarVariable) for item in items):
        return args, kwargs
    values = [value_of(tx, item) for item in items]
    if len(args) > 1 or any(value is MISSING or isinstance(value, (list, tuple)) for value in values):
        raise GraphBreak("array beside a tensor", f"among what {function.__name__} is given")
    plain = [value.item() if isinstance(value, numpy.generic) else value for value in values]
    if value_of(tx, kwargs.get("dtype", _NONE)) is None:
        kwargs = kwargs | {"dtype": ConstantVariable(rehearse(tx, function, [values]).dtype)}
    return [tx.from_constant(plain), *args[1:]], kwargs


def _to_tensor(function: Any, shares: bool) -> None:
    before = TORCH_HANDLERS[function]

    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        array = args[0] if args else None
        if array is not None and type(array) in (ListVariable, TupleVariable) and function is not torch.from_numpy:
            args, kwargs = _of_numbers(tx, function, args, kwargs)
        if not isinstance(array, NumpyVariable):
            return before(tx, *args, **kwargs)
        if len(args) > 1 or kwargs.keys() - {"dtype", "device"} or torch.get_default_device().type != "cpu":
            return refuse(function, "of an array, with more")
        dtype = kwargs.get("dtype", _NONE).constant()
        if isinstance(array, ScalarVariable):
            if function is torch.from_numpy:
                raise GraphBreak("operation raises", "from_numpy of a number")
            tensor = record(tx, torch.clone, array.tensor)
        elif shares and isinstance(array, ArrayVariable) and dtype in (None, array.tensor.fake.dtype):
            tensor = lend(tx, array)
        elif array.look.dtype.kind == "c" and dtype is not None:
            return refuse(function, "of complex numbers")
        else:
            tensor = record(tx, torch.clone, array.tensor, memory_format=torch.contiguous_format)
        if dtype is not None and dtype is not tensor.fake.dtype:
            tensor = record(tx, torch.Tensor.to, tensor, dtype)
        return record(tx, torch.Tensor.to, tensor, kwargs["device"]) if "device" in kwargs else tensor

    TORCH_HANDLERS[function] = handler


def _number_of(kind: type) -> None:
    """`float(number)`"""
    before = LATE.get(kind)

    def row(tx: Translator, args: Args, kwargs: Kwargs) -> Variable | None:
        if len(args) == 1 and isinstance(args[0], NumpyVariable) and not kwargs:
            value = args[0]
            if value.known is not MISSING:
                return tx.from_constant(tx.attempt(kind, value.known))
            if value.look.shape:
                raise GraphBreak("array value needed", f"{kind.__name__} of an array")
            return tx.call(tx.class_variable(kind), [value.item(tx)], {})
        return before(tx, args, kwargs) if before is not None else None

    LATE[kind] = row


def _class(kind: type) -> Callable[[Translator, Args, Kwargs], Variable]:
    """`numpy.float32(...)`"""

    def make(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        value = operand(tx, args[0]) if len(args) == 1 and not kwargs else None
        found = value_of(tx, value) if value is not None else MISSING
        if found is not MISSING and type(found) in (bool, int, float, complex) or isinstance(found, numpy.generic):
            result = rehearse(tx, kind, [found])
            return constant(tx, result)
        if isinstance(value, ScalarVariable):
            return call_by(tx, _ASTYPE, _converting, [value, ConstantVariable(numpy.dtype(kind))], {})
        if isinstance(value, NumberVariable) and value.python_type() is float and kind is numpy.float64:
            dtype = numpy.dtype(kind)
            return ScalarVariable(tx, dtype, record(tx, torch.full, (), value, dtype=DTYPES[dtype], device=CPU))
        raise GraphBreak("numpy function not captured", f"numpy.{kind.__name__}")

    return make


def _converting(value: Any, dtype: Any) -> Any:
    return dtype.type(value)


def _dtype(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
    values = [value_of(tx, arg) for arg in args]
    if kwargs or len(values) != 1 or values[0] is MISSING:
        return refuse(numpy.dtype)
    return ConstantVariable(rehearse(tx, numpy.dtype, values))


def _item(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    array = args[0]
    if len(args) > 1 or kwargs or not isinstance(array, NumpyVariable):
        return refuse(function, "with such arguments")
    return array.item(tx)


def _tolist(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    array = args[0]
    if isinstance(array, NumpyVariable) and array.known is not MISSING and len(args) == 1 and not kwargs:
        return tx.from_constant(array.known.tolist())
    if isinstance(array, NumpyVariable) and len(args) == 1 and not kwargs and array.look.dtype.kind in "biuf":
        numbers: Variable = TENSOR_METHODS["tolist"](tx, array.tensor)
        return numbers
    raise GraphBreak("array value needed", "tolist")


def _function(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """One of those that ask the classes of their arguments, as most are."""
    return VIEWS.get(function, call)(tx, function, args, kwargs)


if IS_KNOWN:
    METHODS.update({"astype": _astype_method, "tolist": _tolist, "item": _item})
    if type(numpy.sum) is not FunctionType:
        KINDS[type(numpy.sum)] = _function
    HANDLERS[numpy.array] = functools.partial(handled, _new_array, numpy.array)
    HANDLERS[numpy.asarray] = functools.partial(handled, _asarray, numpy.asarray)
    NATIVE_CONSTRUCTORS.update({_dtype_.type: _class(_dtype_.type) for _dtype_ in DTYPES})
    NATIVE_CONSTRUCTORS[numpy.dtype] = _dtype
    TENSOR_METHODS["numpy"] = _numpy_of
    AS_NUMBERS[ScalarVariable] = _as_number
    AS_POSITIONS.update(dict.fromkeys((ArrayVariable, ExistingArray, Backwards, ScalarVariable), _as_position))
    for _each, _shares in ((torch.from_numpy, True), (torch.as_tensor, True), (torch.tensor, False)):
        _to_tensor(_each, _shares)
    for _kind in (int, float):
        _number_of(_kind)
