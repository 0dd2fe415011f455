"""Methods of tensors: what somebody puts in the place of one of `torch.Tensor` counts, now and after a compilation."""

from __future__ import annotations

import operator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.variables.base import BINARY, COMPARISONS, INPLACE, MISSING, UNARY, Variable, lookup
from symbolic.variables.functions import BoundMethod

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: operation -> the special method of its first operand that it asks, and where that is no tensor, of its second
_ASKED: dict[Any, tuple[str, ...]] = {
    **BINARY,
    **{op: (name,) for op, (_, name) in INPLACE.items()},
    **{op: (name,) for op, name in UNARY.items()},
    **{op: (f"__{op.__name__}__",) for op in (*COMPARISONS.values(), operator.getitem, operator.setitem)},
}


def know_operation(tx: Translator, target: Any, args: list[Variable]) -> None:
    """Guards the method that an operation of the graph runs, `target` being its name or a function."""
    if isinstance(target, str):
        know_method(tx, target)
    elif target in _ASKED and args:
        know_method(tx, _ASKED[target][0 if issubclass(args[0].python_type(), torch.Tensor) else -1])


def know_method(tx: Translator, name: str) -> Any:
    """Guards that tensors have the method or attribute that they have now, and answers with that."""
    raw = lookup(torch.Tensor, name)
    if name not in tx.methods_of_tensors:
        tx.methods_of_tensors.add(name)
        if raw is not MISSING and name not in tx.stored_on_classes:
            tx.know(tx.attribute_source(torch.Tensor, name), "is", raw)
    return raw


def replacement(tx: Translator, tensor: Variable, name: str) -> Variable | None:
    """What stands in the place of torch's own method or property; None where that stands there."""
    raw = know_method(tx, name)
    function = raw.fget if isinstance(raw, property) else raw
    if not isinstance(function, FunctionType) or str(function.__module__).partition(".")[0] == torch.__name__:
        return None
    found = tx.class_attribute(torch.Tensor, name)
    if function is raw:
        return BoundMethod(found, tensor)
    return tx.call(found.getattr(tx, "fget"), [tensor], {})
