"""Views of arrays, what an index selects of them, and what is written there."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.variables.arrays import (
    ATTRIBUTES,
    INT64,
    IS_KNOWN,
    METHODS,
    ArrayVariable,
    NumpyVariable,
    ScalarVariable,
    about_to_write,
    cast,
    constant,
    example_of,
    made,
    memory_of,
    must_hold,
    operand,
    record,
    rehearse,
    value_of,
    viewed,
    write,
)
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.drawn import numpy
from symbolic.variables.numpy_functions import converted, handled, sorted_along
from symbolic.variables.numpy_ufuncs import as_operand, in_loop, refuse
from symbolic.variables.tables import HANDLERS, Args, Kwargs
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_NONE = ConstantVariable(None)
VIEWS: dict[Any, Callable[..., Variable]] = {}


def _constants(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> list[Any]:
    values = [value_of(tx, arg) for arg in args]
    if kwargs or any(value is MISSING or isinstance(value, numpy.ndarray) for value in values):
        return refuse(function, "with such arguments")
    return values


def _view(torch_view: Callable[..., TensorVariable]) -> Callable[..., Variable]:
    """`torch_view(tx, tensor, example, arguments)` for a function of numpy that gives a view where it can."""

    def body(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
        array = operand(tx, args[0])
        if not isinstance(array, ArrayVariable):
            return refuse(function, f"of {args[0].describe()}")
        values = _constants(tx, function, args[1:], kwargs)
        example = rehearse(tx, function, [array.example(), *values])
        return viewed(tx, array, function, values, lambda tensor: torch_view(tx, tensor, example, values))

    return body


def _reshaped(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    if any(isinstance(arg, str) for arg in args):
        return refuse(numpy.reshape, "in another order")
    return record(tx, torch.Tensor.reshape, tensor, example.shape)


def _permuted(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    """The dimensions in another order: which one is seen on an array whose sizes differ."""
    axes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    dims = tensor.fake.dim()
    order = list(range(dims))[::-1] if not args or axes is None else [axis % dims for axis in axes]
    return record(tx, torch.permute, tensor, tuple(order))


def _in_order(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    """The same, if it lies so: copies are laid out as the example is."""
    return record(tx, torch.Tensor.reshape, tensor, example.shape)


def _swapped(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    return record(tx, torch.transpose, tensor, *args)


def _moved(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    return record(tx, torch.movedim, tensor, *args)


def _flipped(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    axis = args[0] if args else None
    dims = range(tensor.fake.dim()) if axis is None else axis if isinstance(axis, tuple) else [axis]
    return record(tx, torch.flip, tensor, tuple(dims))


def _turned(dim: int) -> Callable[..., TensorVariable]:
    def view(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
        return record(tx, torch.flip, tensor, (dim,))

    return view


def _rotated(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    return record(tx, torch.rot90, tensor, *args)


def _diagonal(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    return record(tx, torch.diagonal, tensor, *args)


def _diag(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A view of a matrix, and a matrix of a row."""
    array = operand(tx, args[0])
    values = _constants(tx, function, args[1:], kwargs)
    if not isinstance(array, ArrayVariable) or len(array.look.shape) != 1:
        return _view(_diagonal)(tx, function, args, kwargs)
    example = rehearse(tx, function, [array.example(), *values])
    return made(tx, record(tx, torch.diag, array.tensor, *values), example, [array])


def _spread(tx: Translator, tensor: TensorVariable, example: Any, args: list[Any]) -> TensorVariable:
    return record(tx, torch.Tensor.expand, tensor, example.shape)


def _split_along(dim: int, tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    array = operand(tx, args[0]) if args else None
    if kwargs or len(args) != 2 or not isinstance(array, ArrayVariable) or len(array.look.shape) < 2:
        return refuse(function, "with such arguments")
    return _split(tx, numpy.split, args, {"axis": ConstantVariable(dim)})


def _split(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """Each part is a view of its own."""
    array = operand(tx, args[0])
    axis = value_of(tx, kwargs.get("axis", args[2] if len(args) > 2 else ConstantVariable(0)))
    if not isinstance(array, ArrayVariable) or len(args) < 2 or type(axis) is not int or kwargs.keys() - {"axis"}:
        return refuse(function, "with such arguments")
    values = [*_constants(tx, function, [args[1]], {}), axis]
    start, found = 0, list[Variable]()
    for at, part in enumerate(rehearse(tx, function, [array.example(), *values])):
        size = part.shape[axis]
        narrow = functools.partial(_narrowed, tx, axis, start, size)
        found.append(viewed(tx, array, functools.partial(_nth, function, at), values, narrow))
        start += size
    return tx.new_list(found)


def _narrowed(tx: Translator, axis: int, start: int, size: int, tensor: TensorVariable) -> TensorVariable:
    return record(tx, torch.narrow, tensor, axis, start, size)


def _nth(function: Any, at: int, array: Any, *args: Any) -> Any:
    return function(array, *args)[at]


# --- indices ----------------------------------------------------------------------------------------------------------
def _index(tx: Translator, index: Variable) -> list[Any]:
    """Its parts: ints, slices, None, Ellipsis as they are, arrays as variables."""
    parts = tx.unpack(index) if index.python_type() is tuple else [index]
    found: list[Any] = []
    for part in map(functools.partial(operand, tx), parts):
        value = value_of(tx, part)
        if isinstance(part, ScalarVariable) and value is not MISSING and part.look.dtype.kind in "iu":
            found.append(int(value))
        elif isinstance(part, ArrayVariable) and part.look.dtype.kind in "biu" and part.look.shape:
            found.append(part)
        elif isinstance(value, list):
            found.append(constant(tx, rehearse(tx, numpy.asarray, [value])))
        elif value is None or value is ... or type(value) in (int, slice):
            found.append(value)
        else:
            raise GraphBreak("index of an array", part.describe())
    return _with_arrays(tx, found)


def _with_arrays(tx: Translator, parts: list[Any]) -> list[Any]:
    """A number beside an array is, to numpy, an array of it, and moves dimensions as one does; to torch it is none."""
    arrays = [part for part in parts if isinstance(part, ArrayVariable)]
    if not arrays or not any(type(part) is int for part in parts):
        return parts
    if any(part.look.dtype.kind == "b" for part in arrays):
        raise GraphBreak("index of an array", "a mask beside a number")
    ones = numpy.ones([1] * max(len(part.look.shape) for part in arrays), numpy.int64)
    return [constant(tx, ones * part) if type(part) is int else part for part in parts]


def _getitem(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    array, index = args
    if not isinstance(array, ArrayVariable):
        raise GraphBreak("index of an array", array.describe())
    parts = _index(tx, index)
    if not any(isinstance(part, ArrayVariable) for part in parts):
        at = tuple(parts) if index.python_type() is tuple else parts[0]
        return viewed(tx, array, operator.getitem, [at], lambda tensor: _part(tx, tensor, parts))
    if any(isinstance(part, ArrayVariable) and part.look.dtype.kind == "b" for part in parts):
        raise GraphBreak("index of an array", "a mask, of which the sizes depend on values")
    examples = [part.example() if isinstance(part, ArrayVariable) else part for part in parts]
    example = rehearse(tx, operator.getitem, [array.example(), tuple(examples)])
    positions = [cast(tx, p.tensor, numpy.dtype("int64")) if isinstance(p, ArrayVariable) else p for p in parts]
    if any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        raise GraphBreak("index of an array", "backwards beside an array")
    return made(tx, record(tx, operator.getitem, array.tensor, tuple(positions)), example, [array])


def _part(tx: Translator, tensor: TensorVariable, parts: list[Any]) -> TensorVariable:
    """Slices that go backwards are turned round."""
    taken = sum(part is not None and part is not ... for part in parts)
    if ... not in parts:
        parts = [*parts, ...]
    at = parts.index(...)
    whole = [slice(None)] * (tensor.fake.dim() - taken)
    parts = [*parts[:at], *whole, *parts[at + 1 :]]
    found, dim, dims, turned = list[Any](), 0, 0, list[int]()
    for part in parts:
        if isinstance(part, slice) and (part.step or 1) < 0:
            places = range(*part.indices(tensor.fake.shape[dim]))
            part = slice(places[-1], places[0] + 1, -places.step) if places else slice(0, 0)
            turned.append(dims)
        found.append(part)
        dim += part is not None
        dims += type(part) is not int
    part = record(tx, operator.getitem, tensor, tuple(found)) if found else record(tx, operator.getitem, tensor, ...)
    return record(tx, torch.flip, part, tuple(turned)) if turned else part


def _setitem(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    array, index, value = args
    if not isinstance(array, ArrayVariable):
        raise GraphBreak("index of an array", array.describe())
    parts = _index(tx, index)
    value = as_operand(tx, value)
    examples = tuple(part.example() if isinstance(part, ArrayVariable) else part for part in parts)
    rehearse(tx, operator.setitem, [array.look.example(), examples, example_of(tx, value)])
    dtype = array.look.dtype
    if isinstance(value, NumpyVariable):
        tensor = converted(tx, value, dtype)
    else:
        tensor = in_loop(tx, value, dtype)  # type: ignore[assignment]
    if any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts):
        raise GraphBreak("index of an array", "a write backwards")
    about_to_write(tx, array)
    if not any(isinstance(part, ArrayVariable) for part in parts):
        place = _part(tx, array.tensor, parts)
        more = tensor.fake.dim() - place.fake.dim()
        if more > 0:
            tensor = record(tx, torch.Tensor.reshape, tensor, tuple(tensor.fake.shape[more:]))
        write(tx, array, place, tensor)
        return _NONE
    _write_at(tx, array, parts, tensor)
    return _NONE


def _write_at(tx: Translator, array: ArrayVariable, parts: list[Any], value: TensorVariable) -> None:
    """Where two of the places are the same, and the numbers differ, the last is what stays: torch's order, where it
    has one, is another."""
    is_mask = any(isinstance(part, ArrayVariable) and part.look.dtype.kind == "b" for part in parts)
    if is_mask and (value.fake.dim() or len(parts) != 1):
        raise GraphBreak("index of an array", "several numbers written to several places")
    if value.fake.dim():
        _check_apart(tx, array, parts)
    if memory_of(array.tensor) == memory_of(value):
        value = record(tx, torch.clone, value)
    positions = [
        part if not isinstance(part, ArrayVariable) else part.tensor if is_mask else cast(tx, part.tensor, INT64)
        for part in parts
    ]
    at = tx.new_tuple([each if isinstance(each, Variable) else tx.from_constant(each) for each in positions])
    tx.graph.call(operator.setitem, [array.tensor, positions[0] if len(positions) == 1 else at, value])


#: Elements of an array, at most, in which numpy is asked whether places lie apart.
_MOST_ASKED = 1 << 20


def _check_apart(tx: Translator, array: ArrayVariable, parts: list[Any]) -> None:
    """Checks that no place is there twice."""
    values = [part.known if isinstance(part, ArrayVariable) else part for part in parts]
    if not any(value is MISSING for value in values) and array.look.example().size <= _MOST_ASKED:
        count = numpy.zeros(array.look.shape, numpy.int64)
        numpy.add.at(count, tuple(values), 1)
        is_apart = count.size == 0 or int(count.max()) <= 1
    else:
        is_apart = len(parts) == 1 and len(parts[0].look.shape) == 1
    if not is_apart:
        raise GraphBreak("index of an array", "several numbers written to several places")
    if any(value is MISSING for value in values):
        places = cast(tx, parts[0].tensor, INT64)
        places = sorted_along(tx, record(tx, torch.remainder, places, array.look.shape[0]), 0)
        count = parts[0].look.shape[0] - 1
        if count > 0:
            must_hold(tx, record(tx, operator.ne, *(record(tx, torch.narrow, places, 0, at, count) for at in (0, 1))))


def _fill(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A write to all that takes no sequence."""
    rehearse(tx, function, [example_of(tx, each) for each in args])
    return _setitem(tx, function, [args[0], ConstantVariable(...), *args[1:]], kwargs)


def _transposed(array: Any) -> Any:
    return array.T


if IS_KNOWN:
    VIEWS.update({
        numpy.reshape: _view(_reshaped), numpy.ravel: _view(_reshaped), numpy.squeeze: _view(_reshaped),
        numpy.expand_dims: _view(_reshaped), numpy.atleast_1d: _view(_reshaped), numpy.atleast_2d: _view(_reshaped),
        numpy.transpose: _view(_permuted), numpy.swapaxes: _view(_swapped), numpy.moveaxis: _view(_moved),
        numpy.flip: _view(_flipped), numpy.ascontiguousarray: _view(_in_order), numpy.asfortranarray: _view(_in_order),
    })  # fmt: skip
    VIEWS.update({
        numpy.flipud: _view(_turned(0)), numpy.fliplr: _view(_turned(1)), numpy.rot90: _view(_rotated),
        numpy.diagonal: _view(_diagonal), numpy.diag: _diag, numpy.broadcast_to: _view(_spread),
        numpy.split: _split, numpy.array_split: _split, numpy.vsplit: functools.partial(_split_along, 0),
        numpy.hsplit: functools.partial(_split_along, 1),
    })  # fmt: skip
    for _function, _body in VIEWS.items():
        HANDLERS[_function] = functools.partial(handled, _body, _function)
    methods = "reshape ravel squeeze transpose swapaxes diagonal".split()
    METHODS.update({name: VIEWS[getattr(numpy, name)] for name in methods})
    METHODS.update({"__getitem__": _getitem, "__setitem__": _setitem, "fill": _fill})
    ATTRIBUTES["T"] = lambda tx, array: _view(_permuted)(tx, _transposed, [array], {})
    ATTRIBUTES["real"] = ATTRIBUTES["imag"] = lambda tx, array: refuse(numpy.real)
