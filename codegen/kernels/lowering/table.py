"""The table of lowerings: an ATen operation -> a function (Lowering, *args, **kwargs) -> Ref, or a tuple of them.

Rows stand in the other files of this folder, by theme. Tensor arguments come as Refs, sizes as `Index`, numbers that
vary from call to call as Exprs. A row raises Unsupported for what it leaves to ATen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

Row = Callable[..., Any]

LOWERINGS: dict[OpOverload[..., Any], Row] = {}


def lowers(*overloads: OpOverload[..., Any]) -> Callable[[Row], Row]:
    """Makes a function the row of these."""

    def add(row: Row) -> Row:
        for overload in overloads:
            assert overload not in LOWERINGS, overload
            LOWERINGS[overload] = row
        return row

    return add
