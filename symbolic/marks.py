"""What users say of sizes: `jit.mark_dynamic` and its like, and `jit.compile(dynamic={"x": {0: "batch"}})`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

_ATTRIBUTE = "_jit_sizes"


@dataclass(frozen=True)
class Mark:
    """`varies`: the size is a symbol from the first call on, where it is in the range. `must`: it is an error if the
    program turns out to depend on it. Sizes of one `name` are one symbol where they are equal."""

    varies: bool
    must: bool = False
    min: int | None = None
    max: int | None = None
    name: str = ""

    def holds(self, size: int) -> bool:
        """Whether the size is in the range."""
        return (self.min is None or size >= self.min) and (self.max is None or size <= self.max)


#: Said of a parameter: True (all of it varies), or the marks of its dimensions.
Said = bool | Mapping[int, Mark]


def mark_dynamic(
    tensor: torch.Tensor, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None  # noqa: A002
) -> None:
    """Functions that are compiled for `tensor` are compiled for all sizes of its dimension `dim` (or several) that are
    in the range `min` to `max`; 0, 1 where the program depends on it, and what is outside the range are compiled as
    they come.

    A call raises `MarkedSize` where the program depends on that size. Raises IndexError for a dimension that the tensor
    does not have, ValueError for an empty range."""
    if min is not None and max is not None and min > max:
        raise ValueError(f"no size is at least {min} and at most {max}")
    _put(tensor, dim, Mark(True, True, min, max))


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int | Iterable[int]) -> None:
    """The same, but where the program depends on the size it is compiled for it alone."""
    _put(tensor, dim, Mark(True))


def mark_static(tensor: torch.Tensor, dim: int | Iterable[int] | None = None) -> None:
    """Sizes of these dimensions (None: of all) are compiled as they come, each by itself, however often they differ."""
    _put(tensor, range(tensor.dim()) if dim is None else dim, Mark(False))


def _put(tensor: torch.Tensor, dim: int | Iterable[int], mark: Mark) -> None:
    found = dict(marks(tensor))
    for each in [dim] if isinstance(dim, int) else dim:
        if not -tensor.dim() <= each < tensor.dim():
            raise IndexError(f"dimension {each} of a tensor that has {tensor.dim()}")
        found[each % tensor.dim()] = mark
    put_marks(tensor, found)


def put_marks(tensor: torch.Tensor, marks: Mapping[int, Mark]) -> None:
    """Says this of the tensor, and forgets what was said before."""
    if marks:
        tensor.__dict__[_ATTRIBUTE] = marks
    else:
        tensor.__dict__.pop(_ATTRIBUTE, None)


def marks(tensor: torch.Tensor) -> Mapping[int, Mark]:
    """By dimension."""
    known: Mapping[int, Mark] = tensor.__dict__.get(_ATTRIBUTE, {})
    return known


def said(hints: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Said]:
    """What the user says of parameters, checked. Raises ValueError for a parameter that `function` does not have,
    TypeError for what says nothing."""
    parameters: Mapping[str, inspect.Parameter] = {}
    with suppress(TypeError, ValueError):  # a native function may have no signature
        parameters = inspect.signature(function).parameters
    takes_any = not parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in hints:
        if name not in parameters and not takes_any:
            raise ValueError(f"dynamic: no parameter {name!r}; there are {', '.join(parameters)}")
    return {name: _said(name, hint) for name, hint in hints.items()}


def _said(name: str, hint: Any) -> Said:
    if isinstance(hint, bool):
        return hint
    if isinstance(hint, (list, tuple, set)):
        hint = dict.fromkeys(hint)
    if not isinstance(hint, Mapping) or not all(isinstance(dim, int) for dim in hint):
        raise TypeError(f"dynamic: {name!r} is {hint!r}; say True, dimensions, or a dict from these to names or ranges")
    return {dim: _mark(name, each) for dim, each in hint.items()}


def _mark(name: str, hint: Any) -> Mark:
    if hint is None or isinstance(hint, bool):
        return Mark(hint is not False)
    if isinstance(hint, str):
        return Mark(True, name=hint)
    if isinstance(hint, tuple) and len(hint) == 2:
        return Mark(True, min=hint[0], max=hint[1])
    raise TypeError(f"dynamic: {name!r} has {hint!r}; say a name, a range (min, max), True or False")
