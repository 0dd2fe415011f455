"""Plans as text that another process can read: JSON, in which what JSON has no word for is an object of one key.

    null, true, 1, 1.5, "x", NaN     themselves
    [...]                            a tuple of any kind
    {"list": [...]}                  a list of any kind
    {KIND: [...]}                    a step or a part of one, by the name of its class, and its fields
    {"Function": name}, {"tensor": number}   what the process that reads has itself
    {"op": "aten::add.Tensor"}, {"dtype": "float32"}, {"device": "cpu"} and so on
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch._ops import OpOverload

from codegen.plan import steps as s

#: Written with their fields. `Python`, which calls anything, and what runs on devices are not.
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        s.TensorSlot, s.NumberSlot, s.BlockSlot, s.Size, s.Compute, s.Reserve, s.Allocate, s.Constant, s.View,
        s.Floating, s.Launch, s.LaunchGroup, s.Call, s.Expect, s.Free, s.Plan,
    )
}  # fmt: skip
Functions = Callable[[str], s.Function]
FIELDS = {name: tuple(field.name for field in fields(kind)) for name, kind in KINDS.items()}
_THEMSELVES = frozenset({type(None), bool, int, float, str})
NUMBERS: dict[str, type] = {kind.__name__: kind for kind in (int, float, bool)}


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives all these attributes."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


_GETTERS = {kind: _getter(FIELDS[name]) for name, kind in KINDS.items()}


class Unwritable(Exception):
    """Something in a plan that means nothing to another process."""


class Unreadable(ValueError):
    """No text of a plan."""


def write(plan: s.Plan, tensors: Sequence[torch.Tensor] = ()) -> str:
    """`tensors`: those that may be constants of the plan. Raises Unwritable."""
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}

    def said(value: Any) -> Any:
        kind = type(value)
        if kind in _THEMSELVES:
            return value
        if kind in _GETTERS:
            return {kind.__name__: all_said(_GETTERS[kind](value))}
        if isinstance(value, tuple):
            return all_said(value)
        if isinstance(value, list):
            return {"list": all_said(value)}
        if kind is s.Function:
            return {"Function": value.name}
        if id(value) in numbers:
            return {"tensor": numbers[id(value)]}
        word, text = _word(value)
        return {word: text}

    def all_said(values: Iterable[Any]) -> list[Any]:
        return [value if type(value) in _THEMSELVES else said(value) for value in values]

    return json.dumps(said(plan), separators=(",", ":"))


def read(text: str, function: Functions, tensors: Sequence[torch.Tensor] = ()) -> s.Plan:
    """`function` of a name, and `tensors` as they were when it was written. Raises Unreadable."""

    def meant(value: Any) -> Any:
        if type(value) is list:
            return tuple(map(meant, value))
        if type(value) is not dict:
            return value
        ((kind, given),) = value.items()
        if kind in KINDS:
            return KINDS[kind](*map(meant, given))
        match kind:
            case "list":
                return list(map(meant, given))
            case "Function":
                return function(given)
            case "tensor":
                return tensors[given]
        return WORDS[kind](given)

    try:
        plan = meant(json.loads(text))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    if type(plan) is not s.Plan:
        raise Unreadable(type(plan).__name__)
    return plan


def _word(value: Any) -> tuple[str, Any]:
    match value:
        case OpOverload():
            return "op", f"{value._schema.name}.{value._overloadname}"
        case torch.dtype() | torch.layout() | torch.memory_format():
            return type(value).__name__, str(value).removeprefix("torch.")
        case torch.device():
            return "device", str(value)
        case complex():
            return "complex", [value.real, value.imag]
        case type() if NUMBERS.get(value.__name__) is value:
            return "type", value.__name__
    raise Unwritable(f"{type(value).__name__}: {value!r}")


@cache
def _op(name: str) -> OpOverload[..., Any]:
    path, _, overload = name.rpartition(".")
    space, _, packet = path.partition("::")
    found: OpOverload[..., Any] = getattr(getattr(getattr(torch.ops, space), packet), overload)
    return found


def _of_torch(kind: type) -> Callable[[str], Any]:
    def found(name: str) -> Any:
        value = getattr(torch, name)
        if type(value) is not kind:
            raise Unreadable(f"torch.{name} is no {kind.__name__}")
        return value

    return found


#: How the words that `_word` makes are read.
WORDS: dict[str, Callable[[Any], Any]] = {
    "op": _op, "device": torch.device, "complex": lambda parts: complex(*parts), "type": NUMBERS.__getitem__,
    **{kind.__name__: _of_torch(kind) for kind in (torch.dtype, torch.layout, torch.memory_format)},
}  # fmt: skip
