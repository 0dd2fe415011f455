"""`torch.equal` and `torch.allclose`: they read tensors and say yes or no. So does a mask that is reduced and read,
which is what ATen does for the second, and comes to the same for the first: the answer is a number of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tensors import METHODS, TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: The dtypes that compare as they are.
_COMPARED = frozenset({
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
})  # fmt: skip
_CLASSES = (torch.Tensor, torch.nn.Parameter)


def _are_compared(args: tuple[Variable, ...]) -> bool:
    """Whether they begin with two plain tensors of one kind."""
    one, other = args[:2] if len(args) > 1 else (None, None)
    if not isinstance(one, TensorVariable) or not isinstance(other, TensorVariable):
        return False
    kinds = {(each.fake.dtype, each.fake.device, each.fake.layout) for each in (one, other)}
    is_plain = one.cls in _CLASSES and other.cls in _CLASSES and one.fake.layout is torch.strided
    return len(kinds) == 1 and is_plain and one.fake.dtype in _COMPARED


def _equal(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
    sizes = [each.fake.shape for each in args if isinstance(each, TensorVariable)]
    is_static = all(type(size) is int for each in sizes for size in each)
    if len(args) != 2 or kwargs or not _are_compared(args) or not is_static:
        return tx.graph.call(torch.equal, [*args], kwargs)
    if sizes[0] != sizes[1]:
        return ConstantVariable(False)
    return _all(tx, torch.eq, args, kwargs)


def _allclose(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
    if not _are_compared(args):
        return tx.graph.call(torch.allclose, [*args], kwargs)
    return _all(tx, torch.isclose, args, kwargs)


def _all(
    tx: Translator, compare: Callable[..., torch.Tensor], args: tuple[Variable, ...], kwargs: dict[str, Variable]
) -> Variable:
    found = tx.graph.call(torch.all, [tx.graph.call(compare, [*args], kwargs)])
    return found.method(tx, "item", [], {})


for _function, _body in ((torch.equal, _equal), (torch.allclose, _allclose)):
    HANDLERS[_function] = METHODS[_function.__name__] = _body
