"""Classes that go with the frame that made them, if nobody else has them: what is compiled must not keep them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

#: As `type` itself has them, whatever the class of the class says.
_FLAGS, _NAME, namespace_of = (type.__dict__[name].__get__ for name in ("__flags__", "__qualname__", "__dict__"))
_CONTENTS = vars(ModuleType)["__dict__"].__get__
_HEAP_TYPE = 1 << 9
_NOTHING: Mapping[str, Any] = {}


def home_of(cls: type) -> str:
    """The name of a class's module, "" for the program's without one. (In globals without a name, `class` takes that of
    `builtins` for one, and `type(...)` none.)"""
    home = getattr(cls, "__module__", None)
    return home if isinstance(home, str) and not (home == "builtins" and is_passing(cls)) else ""


def is_passing(value: Any) -> bool:
    """Whether it is a class that is not found in its module by its name."""
    if not issubclass(type(value), type) or not _FLAGS(value) & _HEAP_TYPE:
        return False
    module = namespace_of(value).get("__module__")
    known = sys.modules.get(module) if type(module) is str else None
    space = _CONTENTS(known) if issubclass(type(known), ModuleType) else _NOTHING
    found: Any = None
    for name in _NAME(value).split("."):
        found = space.get(name)
        space = namespace_of(found) if issubclass(type(found), type) else _NOTHING
    return found is not value


class Stand:
    """Stands for such a class where people read of it."""

    def __init__(self, cls: type) -> None:
        self.__qualname__: str = _NAME(cls)

    def __repr__(self) -> str:
        return self.__qualname__
