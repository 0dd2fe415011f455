"""Functional forms, made here, of operations that write and have none: graphs of the AOT stage write into nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from symbolic.schemas import bind

#: Where they are defined; it must live as long as they do.
_LIBRARY = torch.library.Library("framejit", "FRAGMENT")
_ALIAS = re.compile(r"(?<=Tensor)\([^)]*\)")  # what a schema says of memory: `Tensor(a!)`


@cache
def functional(func: OpOverload, changed: tuple[str, ...]) -> OpOverload:
    """An operation with the arguments of `func` that writes into copies of those named `changed`.

    It gives the results of `func` that are no arguments first, then the copies.
    """
    schema = func._schema
    fresh = [at for at, result in enumerate(schema.returns) if result.alias_info is None]
    takes, _, gives = _ALIAS.sub("", str(schema).partition("(")[2]).rpartition(") -> ")
    types = [gives.strip("()").split(", ")[at].split(" ")[0] for at in fresh]
    types += [
        "Tensor[]" if "List" in str(each.real_type) else "Tensor" for each in schema.arguments if each.name in changed
    ]
    name = "_".join(filter(None, (func.namespace, schema.name.partition("::")[2], schema.overload_name, *changed)))
    run = _on_copies(func, changed, fresh)
    _LIBRARY.define(f"{name}({takes}) -> ({', '.join(types)})", tags=tuple(_KEPT.intersection(func.tags)))
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"framejit::{name}", run, lib=_LIBRARY)
    made: OpOverload = getattr(torch.ops.framejit, name).default
    return made


_KEPT = frozenset({torch.Tag.nondeterministic_seeded})


def _on_copies(func: OpOverload, changed: Sequence[str], fresh: Sequence[int]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        given = bind(func, args, kwargs)
        copies = {name: _copy(given[name]) for name in changed}
        declared = [each for each in func._schema.arguments if each.name in given]
        given.update(copies)
        positions = [given[each.name] for each in declared if not each.kwarg_only]
        result = func(*positions, **{each.name: given[each.name] for each in declared if each.kwarg_only})
        results = [(result if len(func._schema.returns) > 1 else (result,))[at] for at in fresh]
        results += copies.values()
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _copy(value: Any) -> Any:
    """With the strides of what it is made of: random numbers are drawn in an order that goes by them, gaps and all."""
    if isinstance(value, (list, tuple)):
        return [_copy(each) for each in value]
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)
