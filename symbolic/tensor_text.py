"""The text of a tensor that stands for another one: it tells of the autograd graph what that one would tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._tensor_str import PRINT_OPTS

#: Nodes of torch's own operations, whose names are the same for every backend.
_OF_TORCH = re.compile(r"[A-Za-z]\w*Backward\d+")
_OTHERS = ("dtype=", "size=", "device=", "layout=")


def history_of(tensor: torch.Tensor) -> str | None:
    """What the text of a tensor says of its gradient: nothing, that it requires one, or its node; None if that can't be
    said of another tensor."""
    if tensor.grad_fn is None:
        return "requires_grad=True" if tensor.requires_grad else ""
    name = type(tensor.grad_fn).__name__
    return f"grad_fn=<{name}>" if _OF_TORCH.fullmatch(name) else None


@dataclass(frozen=True)
class TextUnder:
    """`function(*args)` while `dtype` is the default, which texts of tensors leave out."""

    function: Callable[..., str]
    dtype: torch.dtype

    def __call__(self, *args: Any) -> str:
        now = torch.get_default_dtype()
        if now is self.dtype:
            return self.function(*args)
        torch.set_default_dtype(self.dtype)
        try:
            return self.function(*args)
        finally:
            torch.set_default_dtype(now)


@dataclass(frozen=True)
class TensorText:
    """`repr` of a detached tensor as of one of class `cls` with such a `history`."""

    cls: Any
    history: str

    def __call__(self, tensor: torch.Tensor) -> str:
        requires_grad = self.history == "requires_grad=True"
        if issubclass(self.cls, torch.nn.Parameter):
            return repr(torch.nn.Parameter(tensor, requires_grad))
        if self.cls not in (torch.Tensor, torch.nn.Buffer):
            tensor = tensor.as_subclass(self.cls)  # a leaf still
        with torch._C.DisableTorchFunctionSubclass():  # its class has been asked
            text = torch.Tensor.__repr__(tensor.requires_grad_(requires_grad))
        return with_suffix(text, self.history) if self.history.startswith("grad_fn") else text


def with_suffix(text: str, suffix: str) -> str:
    """The text of a tensor with one more word before its closing bracket, on a line of its own where torch would put
    it."""
    text = text.removesuffix(")")
    last = text[text.rfind("\n") + 1 :]
    # torch counts two characters more than there are, but for a line that it began for another word
    length = len(last) + (0 if last.strip().startswith(_OTHERS) else 2)
    apart = ", " if length + len(suffix) + 2 <= PRINT_OPTS.linewidth else ",\n" + " " * (text.index("(") + 1)
    return f"{text}{apart}{suffix})"
