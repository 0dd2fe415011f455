"""Tensors made of numbers. Of ints that vary torch reads each for itself, which makes a fact of it; numpy's numbers say
what the tensor is of, and the plain ones that graphs have in their places do not."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic import shapes
from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.numbers import NumberVariable, given
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.symbols import SymbolInput, SymbolVariable
from symbolic.variables.tables import name_of
from symbolic.variables.tensors import AS_POSITIONS
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

try:
    import numpy
except ImportError:  # torch does without it, too
    _NUMPYS: tuple[type, ...] = ()
    _ONES: tuple[Any, ...] = ()
else:
    _NUMPYS = (numpy.generic,)
    _ONES = (1, 1.0, 1j, numpy.float64(1), numpy.complex128(1))

#: Numbers of one tensor, at most, unless all are one: each is an operation.
MOST = 16


def _of_data(function: Any) -> None:
    before = HANDLERS.get(function)

    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        if args and any(map(_answers_itself, _leaves(args[0]))):
            raise GraphBreak("native operator of an object", f"{name_of(function)} of what has its own methods")
        if args and _leaves_open(kwargs.get("dtype")):
            kwargs |= _said_by_numpy(function, args[0])
        made = _filled(tx, args[0], kwargs) if len(args) == 1 and kwargs.keys() <= {"dtype", "device"} else None
        if made is not None:
            return made
        return before(tx, *args, **kwargs) if before is not None else tx.graph.call(function, list(args), kwargs)

    HANDLERS[function] = handler


def _answers_itself(data: Variable) -> bool:
    """A list or tuple of a class that says itself what it holds."""
    methods = ("__len__", "__getitem__", "__iter__")
    is_one = isinstance(data, ObjectVariable) and isinstance(data.payload, ListVariable | TupleVariable)
    return is_one and any(isinstance(getattr(data.python_type(), name), FunctionType) for name in methods)


def _leaves_open(dtype: Variable | None) -> bool:
    return dtype is None or (dtype.is_constant() and dtype.constant() is None)


def _said_by_numpy(function: Any, data: Variable) -> dict[str, Variable]:
    """The dtype that torch would find among numbers with some of numpy's."""
    leaves = list(_leaves(data))
    if not any(isinstance(leaf, ObjectVariable) and issubclass(leaf.cls, _NUMPYS) for leaf in leaves):
        return {}
    ones = [[one for one in _ONES if issubclass(leaf.python_type(), type(one))] for leaf in leaves]
    if not all(ones):
        raise GraphBreak("numpy array", f"among what {name_of(function)} is given")
    return {"dtype": ConstantVariable(function(sum(ones, [])).dtype)}


def _filled(tx: Translator, data: Variable, kwargs: dict[str, Variable]) -> Variable | None:
    """The same tensor, filled with its numbers; None where there are others than a few ints, or they need not fit."""
    shape = _shape(data)
    leaves = list(_leaves(data)) if shape is not None else []
    wanted = kwargs["dtype"].constant() if "dtype" in kwargs else None
    different = list(dict.fromkeys(leaves))
    late = _of_late(different, wanted)
    dtype = late or wanted or torch.int64
    exact: type[Variable] | None = SymbolVariable if dtype is torch.int64 else None
    if late is not None:
        exact = NumberVariable
    elif dtype.is_floating_point:
        exact = SymbolInput
    if exact is None or not any(isinstance(leaf, exact) for leaf in different):
        return None
    if len(leaves) > MOST and len(different) > 1:
        return None
    if late is None and not all(_is_int(leaf, exact) for leaf in different):
        return None
    said = kwargs | {"dtype": ConstantVariable(dtype)}

    def full(sizes: Any, leaf: Variable) -> Variable:
        return tx.graph.call(torch.full, [tx.from_constant(sizes), leaf], said)

    if len(different) == 1:
        return full(shape, different[0])
    made = tx.graph.call(torch.stack, [tx.new_list([full((), leaf) for leaf in leaves])])
    return made if shape == (len(leaves),) else tx.graph.call_method("reshape", [made, tx.from_constant(shape)])


def _of_late(leaves: list[Variable], dtype: torch.dtype | None) -> torch.dtype | None:
    """The dtype of a tensor of ints, or of bools, some of which only the graph knows; None where they are others, or
    are rounded on their way."""
    if given(leaves) is not None or not all(isinstance(leaf, (NumberVariable, ConstantVariable)) for leaf in leaves):
        return None
    kinds = {leaf.python_type() for leaf in leaves}
    fitting = _DTYPES.get(kinds.pop(), ()) if len(kinds) == 1 else ()
    return next((each for each in fitting if dtype in (None, each)), None)


#: The type of numbers -> dtypes of tensors that they are put in as they are, the first of them unless told otherwise.
_DTYPES: dict[type, tuple[torch.dtype, ...]] = {int: (torch.int64, torch.float64), bool: (torch.bool,)}


def _is_int(leaf: Variable, exact: type[Variable]) -> bool:
    if isinstance(leaf, ConstantVariable):
        return type(leaf.value) is int and abs(leaf.value) <= shapes.MOST
    return isinstance(leaf, exact) and leaf.python_type() is int


def _shape(data: Variable) -> tuple[int, ...] | None:
    """Of nested lists; None where they are no even ones."""
    if type(data) not in (ListVariable, TupleVariable):
        return ()
    inside = {_shape(item) for item in data.items}  # type: ignore[attr-defined]
    first = inside.pop() if len(inside) == 1 else None
    return None if first is None else (len(data.items), *first)  # type: ignore[attr-defined]


def _leaves(data: Variable) -> Iterator[Variable]:
    if type(data) not in (ListVariable, TupleVariable):
        yield data
        return
    for item in data.items:  # type: ignore[attr-defined]
        yield from _leaves(item)


def _as_position(tx: Translator, index: Variable, device: torch.device) -> Variable:
    """A list of numbers in an index is a tensor of them, where the one that is indexed is, as torch makes it of those
    that are known (a list of lists may be taken as a tuple)."""
    leaves = list(_leaves(index))
    is_late = _shape(index) == (len(leaves),) and _of_late(leaves, None) is not None
    made = _filled(tx, index, {"device": ConstantVariable(device)}) if is_late else None
    return index if made is None else made


for each in (torch.tensor, torch.as_tensor, torch.asarray):
    _of_data(each)
AS_POSITIONS[ListVariable] = _as_position
