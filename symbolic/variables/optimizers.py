"""Training steps inside a frame: `torch.optim` and gradient clipping are traced as eager code runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._compile import _disable_dynamo
from torch.optim.optimizer import _use_grad_for_differentiable

from symbolic import polyfills
from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tables import POLYFILLS, WRAPPERS
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

FALSE = ConstantVariable(False)
#: Modules that go other ways for compilers, with other numbers: their code is told that nobody compiles.
_EAGER_WAYS = ("torch.optim", "torch.utils._foreach_utils", "torch.nn.utils.clip_grad")


def _is_compiling(tx: Translator) -> Variable:
    asks = tx.frames[-1].namespace.real().get("__name__")
    return ConstantVariable(not (isinstance(asks, str) and asks.startswith(_EAGER_WAYS)))


def _group(tx: Translator, lists: Variable, with_indices: Variable = FALSE) -> Variable:
    """Lists of tensors, split by device and dtype of the first list's: {(device, dtype): (lists, places)}."""
    columns = [tx.unpack(column) for column in tx.unpack(lists)]
    if not all(isinstance(first, TensorVariable) for first in columns[0]):
        raise GraphBreak("group of what is no tensor", lists.describe())
    fakes: list[torch.Tensor | None] = [first.fake for first in columns[0] if isinstance(first, TensorVariable)]
    found = []
    for key, (_, places) in torch._C._group_tensors_by_device_and_dtype([fakes], True).items():
        parts = [tx.new_list([column[place] for place in places] if column else []) for column in columns]
        kept: list[Variable] = [ConstantVariable(place) for place in places] if with_indices.constant() else []
        found.append((tx.from_constant(key), tx.new_tuple([tx.new_list(parts), tx.new_list(kept)])))
    return tx.new_dict(found)


HANDLERS[torch.compiler.is_compiling] = _is_compiling
HANDLERS[torch._C._group_tensors_by_device_and_dtype] = _group
HANDLERS[torch.jit.annotate] = lambda tx, the_type, the_value: the_value
WRAPPERS[_use_grad_for_differentiable(lambda: None).__code__] = ("func", polyfills.step_of_optimizer)
WRAPPERS[_disable_dynamo(lambda: None).__code__] = ("fn", None)
POLYFILLS[torch.autograd.profiler.record_function] = polyfills.record_function
