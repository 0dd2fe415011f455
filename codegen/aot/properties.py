"""What a compiled program depends on, as keys that are equal where one graph is good for both calls."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import torch

from codegen.aot.inputs import is_fragile

#: Constants that are told by what they are; all others are told by identity.
_BY_VALUE = frozenset({
    *(type(None), bool, int, str, bytes),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
})
#: Told by their text, which tells 0.0 from -0.0 and says that nan is nan.
_BY_TEXT = frozenset({float, complex})


def of_thread() -> tuple[Any, ...]:
    """Torch's state of this thread."""
    return (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(),
        torch.get_default_device() if torch._C._len_torch_function_stack() else None, torch.is_autocast_cache_enabled(),
        *((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")),
    )  # fmt: skip


def of_value(value: Any, varies: bool = False) -> Any:
    """What a program may ask of an argument. `varies`: all but the sizes and strides of a tensor."""
    if isinstance(value, torch.Tensor):
        facts = (
            type(value), value.dtype, value.device, value.requires_grad, value.is_leaf,
            torch._C._dispatch_keys(value).raw_repr(), value.dim() if varies else value.shape,
        )  # fmt: skip
        return facts if varies or value.layout is not torch.strided else (*facts, value.stride())
    kind = type(value)
    if kind in _BY_VALUE or isinstance(value, enum.Enum):
        return kind, value
    return (kind, repr(value)) if kind in _BY_TEXT else (kind, id(value))


def same(values: Sequence[Any]) -> tuple[int, ...] | None:
    """Which tensors are the same, by the position of the first; None if all differ."""
    first: dict[int, int] = {}
    found = [first.setdefault(id(v), at) for at, v in enumerate(values) if isinstance(v, torch.Tensor)]
    return None if len(first) == len(found) else tuple(found)


def sharers(values: Sequence[Any]) -> list[list[int]]:
    """The groups of tensors (by position) that share memory, each group of two at least."""
    found: dict[int, list[int]] = {}
    for at, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            found.setdefault(value.untyped_storage()._cdata, []).append(at)
    return [group for group in found.values() if len(group) > 1]


def of_memory(values: Sequence[Any]) -> tuple[Any, ...]:
    """What a program that writes depends on, too: which inputs are views, and how tensors lie in memory that they
    share."""
    tracked = [(at, v) for at, v in enumerate(values) if isinstance(v, torch.Tensor) and not v.is_inference()]
    found: list[Any] = [(at, is_fragile(value)) for at, value in tracked if value._is_view()]
    for group in sharers(values):
        number: dict[int, int] = {}  # by id of a tensor
        for at in group:
            value = values[at]
            base = None if value.is_inference() else value._base
            names = [number.setdefault(id(tensor), len(number)) for tensor in (value, base)]
            above = of_value(base) if base is not None else value.untyped_storage().nbytes()
            found.append((at, *names, value.storage_offset(), above))
    return tuple(found)
