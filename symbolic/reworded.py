"""Functions that torch runs on stand-ins otherwise than on a device, in words that fit both: it asks values where they
run, or sizes that vary for plain numbers."""

from __future__ import annotations

import math
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


def _logspace(
    start: Any, end: Any, steps: Any, base: Any = 10.0, *, dtype: Any = None, device: Any = None, **more: Any
) -> torch.Tensor:
    is_plain = dtype is None or dtype.is_floating_point
    if not isinstance(steps, torch.SymInt) or more or not is_plain or isinstance(base, _NO_REAL) or base <= 0:
        return torch.logspace(start, end, steps, base, dtype=dtype, device=device, **more)
    return torch.pow(base, _linspace(start, end, steps, dtype=dtype, device=device))


def _window(window: Callable[..., torch.Tensor], of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The window as `of` says it, by its points and how many steps there are between the first and the last."""

    def run(
        window_length: Any, periodic: bool = True, *shape: Any, dtype: Any = None, device: Any = None, **more: Any
    ) -> torch.Tensor:
        kind = torch.get_default_dtype() if dtype is None else dtype
        is_plain = not isinstance(window_length, torch.SymInt) or kind not in _REAL
        if is_plain or shape or more or window_length < 2:
            return window(window_length, periodic, *shape, dtype=dtype, device=device, **more)
        points = torch.arange(window_length, dtype=kind, device=device)
        return of(points, window_length if periodic else window_length - 1)

    return run


def _hamming(at: torch.Tensor, steps: Any, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return (at * (math.pi * 2 / steps)).cos() * -beta + alpha


def _hann(at: torch.Tensor, steps: Any) -> torch.Tensor:
    return _hamming(at, steps, 0.5, 0.5)


def _bartlett(at: torch.Tensor, steps: Any) -> torch.Tensor:
    rising = at * (2.0 / steps)
    return torch.where(at <= steps // 2, rising, 2 - rising)


def _blackman(at: torch.Tensor, steps: Any) -> torch.Tensor:
    angle = at * (math.pi / steps)
    return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42


_NO_REAL = (complex, torch.Tensor)
_REAL = (torch.float32, torch.float64)
_WINDOWS = {
    torch.hann_window: _hann, torch.hamming_window: _hamming,
    torch.bartlett_window: _bartlett, torch.blackman_window: _blackman,
}  # fmt: skip
IN_OTHER_WORDS: dict[Any, Callable[..., Any]] = {
    torch._C._nn.one_hot: _one_hot, torch.linspace: _linspace, torch.logspace: _logspace,
    **{window: _window(window, of) for window, of in _WINDOWS.items()},
}  # fmt: skip
