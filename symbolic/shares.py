"""Whole parts of shares of sizes, as `int(height * 0.5)` and `height / 2` rounded up, said of integers alone:
conditions are of those, and kernels compute with them."""

from __future__ import annotations

import functools
from typing import Any

import sympy
from torch.utils._sympy.functions import CeilToInt, FloorDiv, FloorToInt, IntTrueDiv, ToFloat, TruncToInt

#: Products of such a number and a size (below 2**42: more is in no memory) are exact as floats, so that nothing is
#: rounded to an integer that it is not.
_FEW = 1 << 11
_WHOLE = (TruncToInt, FloorToInt, CeilToInt)


@functools.lru_cache(1 << 12)
def in_integers(expr: Any) -> Any:
    """The expression with such parts said of integers, where these come to the same as Python's floats."""
    if not expr.has(*_WHOLE):
        return expr
    return expr.replace(lambda part: part.func in _WHOLE, _whole)


def is_of_integers(expr: Any) -> bool:
    return not expr.has(ToFloat, IntTrueDiv, sympy.Float)


def _whole(part: Any) -> Any:
    share = _share(part.args[0])
    if share is None or (part.func is TruncToInt and not share[0].is_nonnegative):
        return part
    size, above, below = share
    return FloorDiv(size * above + (below - 1 if part.func is CeilToInt else 0), below)


def _share(expr: Any) -> tuple[Any, int, int] | None:
    """Of what integer, and how much of it."""
    if expr.func is ToFloat:
        return expr.args[0], 1, 1
    if expr.func is IntTrueDiv:
        size, by = expr.args
        return (size, 1, int(by)) if by.is_Integer and by > 0 else None
    if not expr.is_Mul or len(expr.args) != 2:
        return None
    factor, size = expr.args
    if not (factor.is_Float and factor > 0 and size.func is ToFloat):
        return None
    above, below = float(factor).as_integer_ratio()
    return (size.args[0], above, below) if above < _FEW else None
