"""Calls of ATen operations by what their schemas say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from torch._ops import OpOverload


def bind(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults included."""
    declared = func._schema.arguments
    given = {argument.name: value for argument, value in zip(declared, args, strict=False)} | dict(kwargs)
    return {
        argument.name: given[argument.name] if argument.name in given else argument.default_value
        for argument in declared
        if argument.name in given or argument.has_default_value()
    }


@cache
def written_by(func: Any) -> tuple[tuple[int, str], ...]:
    """The arguments that it writes into: place and name. None of what is no operation of ATen."""
    if not isinstance(func, OpOverload) or not func._schema.is_mutable:
        return ()
    arguments = enumerate(func._schema.arguments)
    return tuple((at, each.name) for at, each in arguments if each.alias_info is not None and each.alias_info.is_write)
