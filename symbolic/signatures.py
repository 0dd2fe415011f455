"""Whether calls fit functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any


def fits(function: Callable[..., Any], count: int, names: Iterable[str]) -> bool:
    """Whether a call with `count` positional arguments and these keywords binds."""
    try:
        inspect.signature(function).bind(*(None,) * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def refuses(function: Callable[..., Any], count: int, names: Iterable[str]) -> bool:
    """The contrary, of a native function; those that don't tell their signature are taken for ours."""
    try:
        return not fits(function, count, names)
    except ValueError:
        return True


@lru_cache(1 << 12)
def _takes(function: Callable[..., Any], count: int, names: tuple[str, ...]) -> bool:
    return fits(function, count, names)


def takes(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> bool:
    """Whether a function of ours, whose parameters stay what they are, can be called with these."""
    return _takes(function, len(args), tuple(kwargs))
