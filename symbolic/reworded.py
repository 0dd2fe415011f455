"""Functions that torch runs on stand-ins otherwise than on a device, in words that fit both: it asks values where they
run, or sizes that vary for plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _one_hot(input: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:  # noqa: A002
    """`scatter` raises where a class is none; torch's own, of stand-ins, compares with all of them."""
    if input.dtype != torch.int64 or num_classes <= 0:
        return torch._C._nn.one_hot(input, num_classes)
    return input.new_zeros((*input.shape, num_classes)).scatter(-1, input.unsqueeze(-1), 1)


def _linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None, **more: Any) -> torch.Tensor:
    """The first half counts from the start, the other one from the end."""
    of: dict[str, Any] = {"dtype": torch.get_default_dtype() if dtype is None else dtype, "device": device}
    is_plain = of["dtype"].is_floating_point and not isinstance(start, _NO_REAL) and not isinstance(end, _NO_REAL)
    if not isinstance(steps, torch.SymInt) or more.keys() - {"requires_grad"} or not is_plain or steps < 2:
        return torch.linspace(start, end, steps, dtype=dtype, device=device, **more)
    at: torch.Tensor = torch.arange(steps, **of)  # type: ignore[call-overload]
    count: Any = steps
    first, last = torch.full((), start, **of), torch.full((), end, **of)
    step = (last - first) / (steps - 1)
    made = torch.where(at < steps // 2, first + step * at, last - step * (count - 1 - at))
    return made.requires_grad_(more.get("requires_grad", False))


_NO_REAL = (complex, torch.Tensor)
IN_OTHER_WORDS: dict[Any, Callable[..., Any]] = {torch._C._nn.one_hot: _one_hot, torch.linspace: _linspace}
