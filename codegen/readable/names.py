"""What things are called in the text: variables by their names, constants by a literal or by a name that is bound."""

from __future__ import annotations

import ast
import keyword
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

_LITERALS = (str, bytes, bool, types.NoneType, types.EllipsisType)
#: A tuple of more, or a longer text, would hide the code around it.
_LONG = 400


class Names:
    """`taken` are names that mean something else in the text: globals of the program."""

    def __init__(self, taken: Iterable[str], titles: Mapping[int, str], labels: Mapping[str, str]) -> None:
        self.taken = set(taken)
        self.titles = titles  # id of a constant -> what it is to be called
        self.labels = labels  # parameter -> the expression of the program that it stands for
        self.variables: dict[str, str] = {}
        self.bound: dict[str, Any] = {}  # name -> constant
        self._known: dict[int, str] = {}

    def new(self, wish: str) -> str:
        """A name that nothing else has."""
        plain = re.sub(r"\W+", "_", wish).strip("_") or "value"
        if plain[0].isdigit() or keyword.iskeyword(plain):
            plain = f"_{plain}"
        name, number = plain, 1
        while name in self.taken:
            number += 1
            name = f"{plain}_{number}"
        self.taken.add(name)
        return name

    def own(self, names: Iterable[str]) -> None:
        """The variables of the code, all of them before anything else gets a name: those of the program keep theirs."""
        waiting = []
        for name in dict.fromkeys(names):
            if name.isidentifier() and not name.startswith("__values") and name not in self.taken:
                self.taken.add(name)
                self.variables[name] = name
            else:
                waiting.append(name)
        for name in waiting:
            self.variables[name] = self.new(_short(self.labels.get(name, name)))

    def constant(self, value: Any) -> ast.expr:
        """An expression whose value is the constant."""
        literal = _literal(value)
        if literal is not None:
            return literal
        if isinstance(value, types.MethodDescriptorType):  # of a built-in class, which keeps it
            return ast.Attribute(ast.Name(self.bind(value.__objclass__)), value.__name__)
        return ast.Name(self.bind(value))

    def bind(self, value: Any, wish: str = "") -> str:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self.new(wish or self.titles.get(id(value)) or _title(value))
            self.bound[known] = value
        return known


def _short(expression: str) -> str:
    """The end of a long path: `self.transformer.h[0].mlp.weight` is `mlp_weight`'s."""
    path = re.sub(r"^[\w.]+\.__dict__\['(\w+)'\]", r"\1", expression)  # a global
    words = [word for word in re.split(r"\W+", path) if word]
    while len("_".join(words)) > 32 and len(words) > 1:
        del words[0]
    return "_".join(words)


def _literal(value: Any) -> ast.expr | None:
    kind = type(value)
    if kind is tuple:
        items = [_literal(item) for item in value]
        found = [item for item in items if item is not None]
        return ast.Tuple(list(found)) if len(found) == len(value) and len(repr(value)) <= _LONG else None
    if kind in (int, float):
        if not math.isfinite(value) or (kind is int and abs(value).bit_length() > 1000):
            return None
        negative = math.copysign(1, value) < 0
        return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if negative else ast.Constant(value)
    return ast.Constant(value) if kind in _LITERALS else None


def _title(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__.rpartition(".")[2]
    name = getattr(value, "__name__", None) if isinstance(value, (type, *_FUNCTIONS)) else None
    if isinstance(name, str) and name != "<lambda>":
        return name
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(value).__name__).lower()
    return f"constant_{words}" if type(value).__module__ == "builtins" else words


_FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
)


def describe(value: Any) -> str:
    """A bound constant in words, on one line."""
    if isinstance(value, torch.Tensor):
        return f"a tensor, {str(value.dtype)[6:]} {list(value.shape)}"
    if isinstance(value, fx.GraphModule):
        return "a graph"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, type):
        return f"class {_place(value)}"
    if isinstance(value, types.CodeType):
        return f"code of {value.co_qualname}"
    owner = getattr(value, "__self__", None) if isinstance(value, _FUNCTIONS) else None
    if owner is not None and not isinstance(owner, types.ModuleType):
        return f"{value.__name__} of {describe(owner)}"
    if isinstance(value, _FUNCTIONS):
        return f"function {_place(value)}"
    name = getattr(type(value), "name", None)
    if isinstance(name, types.GetSetDescriptorType):  # a door
        return f"{_place(type(value))} {value.name}"
    if type(value) in _PLAIN:
        return f"{_place(type(value))} {value!r}"[:80]
    return f"an object of {_place(type(value))}"


_PLAIN = (range, float, int, str)


def _place(value: Any) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", type(value).__name__)
    return f"{module}.{name}" if module not in (None, "builtins") else name
