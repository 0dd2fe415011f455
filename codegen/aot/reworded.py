"""Functions that ask values on a device, and do not of stand-ins, in words that look at them where they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _one_hot(x: torch.Tensor, classes: Any = -1) -> torch.Tensor:
    """`scatter` raises where a class is none; torch's own, of stand-ins, compares with all of them."""
    if x.dtype != torch.int64 or classes <= 0:
        return torch._C._nn.one_hot(x, classes)
    return x.new_zeros((*x.shape, classes)).scatter(-1, x.unsqueeze(-1), 1)


IN_OTHER_WORDS: dict[Any, Callable[..., Any]] = {torch._C._nn.one_hot: _one_hot}
