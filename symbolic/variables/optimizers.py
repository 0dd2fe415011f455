"""Training steps inside a frame: `torch.optim` and gradient clipping are traced as eager code runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch._compile import _disable_dynamo
from torch.autograd.graph import increment_version
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, _use_grad_for_differentiable

from symbolic import polyfills
from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tables import CODES, POLYFILLS, WRAPPERS, Args, Kwargs, handles, library
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

FALSE = ConstantVariable(False)
#: Modules that go other ways for compilers, with other numbers or without hooks of modules that raise: their code is
#: told that nobody compiles.
_EAGER_WAYS = (
    "torch.optim", "torch.utils._foreach_utils", "torch.nn.utils.clip_grad", "torch._functorch",
    "torch.nn.modules.module",
)  # fmt: skip


def _is_compiling(tx: Translator) -> Variable:
    asks = tx.frames[-1].namespace.module()  # type: ignore[attr-defined]
    return ConstantVariable(not (isinstance(asks, str) and asks.startswith(_EAGER_WAYS)))


def _group(tx: Translator, lists: Variable, with_indices: Variable = FALSE) -> Variable:
    """Lists of tensors, split by device and dtype of the first list's: {(device, dtype): (lists, places)}."""
    columns = [tx.unpack(column) for column in tx.unpack(lists)]
    if not columns or not all(isinstance(first, TensorVariable) for first in columns[0]):
        raise GraphBreak("group of what is no tensor", lists.describe())
    fakes: list[torch.Tensor | None] = [first.fake for first in columns[0] if isinstance(first, TensorVariable)]
    found = []
    groups = tx.attempt(torch._C._group_tensors_by_device_and_dtype, [fakes], True)  # of none it raises
    for key, (_, places) in groups.items():
        parts = [tx.new_list([column[place] for place in places] if column else []) for column in columns]
        kept: list[Variable] = [ConstantVariable(place) for place in places] if with_indices.constant() else []
        found.append((tx.from_constant(key), tx.new_tuple([tx.new_list(parts), tx.new_list(kept)])))
    return tx.new_dict(found)


def _tracked_step(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """`optimizer.step` as a scheduler leaves it: a function that knows its optimizer, weakly, and notes the call."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__, strict=True))
    optimizer = cells["opt_ref"].cell_contents()
    known = tx.known.get(id(optimizer))
    if known is None or known.source is None:
        raise GraphBreak("optimizer that the frame does not know", type(optimizer).__qualname__)
    tx.know(known.source, "is_weak", optimizer)
    known.setattr(tx, "_opt_called", ConstantVariable(True))
    return tx.call(library(tx, cells["func"].cell_contents), [known, *args], kwargs)


def _check_capture(tx: Translator, optimizer: Variable) -> Variable:
    """What an optimizer asks before a step: no CUDA graph is being captured, so that there is nothing to warn of."""
    note = "_warned_capturable_if_run_uncaptured"
    has_warned = tx.hasattr(optimizer, note) and tx.truth(optimizer.getattr(tx, note))
    if torch.cuda.is_available() and (torch.cuda.is_current_stream_capturing() or not has_warned):
        raise GraphBreak("CUDA graph under capture", optimizer.describe())
    return ConstantVariable(None)


def _written(name: str) -> list[int]:
    """The places of the arguments that an operation of ATen writes into."""
    packet = getattr(torch.ops.aten, name)
    aliases = [argument.alias_info for argument in getattr(packet, packet.overloads()[0])._schema.arguments]
    return [place for place, alias in enumerate(aliases) if alias is not None and alias.is_write]


def _counting(function: Callable[..., Any], written: list[int]) -> Callable[..., Variable]:
    """An operation that writes into lists of tensors. With fakes it counts no writes of tensors in lists."""

    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        result = tx.graph.call(function, list(args), kwargs)
        tensors = [item for place in written for item in tx.unpack(args[place])]
        increment_version([item.fake for item in tensors if isinstance(item, TensorVariable)])
        return result

    return handler


def _inner_code(code: CodeType, name: str) -> Iterator[CodeType]:
    """The code of functions of that name that are defined inside."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from [constant] if constant.co_name == name else _inner_code(constant, name)


for _name in dir(torch):
    if _name.startswith(("_foreach_", "_fused_")) and _name.endswith("_"):
        HANDLERS[getattr(torch, _name)] = _counting(getattr(torch, _name), _written(_name))
for _name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
    if hasattr(Optimizer, _name):
        handles(getattr(Optimizer, _name))(_check_capture)
for _code in _inner_code(LRScheduler.__init__.__code__, "wrapper"):
    CODES[_code] = _tracked_step
HANDLERS[torch.compiler.is_compiling] = _is_compiling
HANDLERS[torch._C._group_tensors_by_device_and_dtype] = _group
HANDLERS[torch.jit.annotate] = lambda tx, the_type, the_value: the_value
WRAPPERS[_use_grad_for_differentiable(lambda: None).__code__] = ("func", polyfills.step_of_optimizer)
WRAPPERS[_disable_dynamo(lambda: None).__code__] = ("fn", None)
POLYFILLS[torch.autograd.profiler.record_function] = polyfills.record_function
POLYFILLS[polyfills.PositiveDefinite.check] = polyfills.positive_definite
