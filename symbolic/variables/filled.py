"""Tensors made of ints that vary: torch reads each number of a list for itself, which makes a fact of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from symbolic import shapes
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.symbols import SymbolInput, SymbolVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Numbers of one tensor, at most, unless all are one: each is an operation.
MOST = 16


def _of_data(function: Any) -> None:
    before = HANDLERS.get(function)

    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        made = _filled(tx, args[0], kwargs) if len(args) == 1 and kwargs.keys() <= {"dtype", "device"} else None
        if made is not None:
            return made
        return before(tx, *args, **kwargs) if before is not None else tx.graph.call(function, list(args), kwargs)

    HANDLERS[function] = handler


def _filled(tx: Translator, data: Variable, kwargs: dict[str, Variable]) -> Variable | None:
    """The same tensor, filled with its numbers; None where there are others than a few ints, or they need not fit."""
    shape = _shape(data)
    leaves = list(_leaves(data)) if shape is not None else []
    dtype = kwargs["dtype"].constant() if "dtype" in kwargs else None
    dtype = torch.int64 if dtype is None else dtype
    exact = SymbolVariable if dtype is torch.int64 else SymbolInput if dtype.is_floating_point else None
    different = list(dict.fromkeys(leaves))
    if exact is None or not any(isinstance(leaf, exact) for leaf in different):
        return None
    if len(leaves) > MOST and len(different) > 1 or not all(_is_int(leaf, exact) for leaf in different):
        return None
    said = kwargs | {"dtype": ConstantVariable(dtype)}

    def full(sizes: Any, leaf: Variable) -> Variable:
        return tx.graph.call(torch.full, [tx.from_constant(sizes), leaf], said)

    if len(different) == 1:
        return full(shape, different[0])
    made = tx.graph.call(torch.stack, [tx.new_list([full((), leaf) for leaf in leaves])])
    return made if shape == (len(leaves),) else tx.graph.call_method("reshape", [made, tx.from_constant(shape)])


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


for each in (torch.tensor, torch.as_tensor):
    _of_data(each)
