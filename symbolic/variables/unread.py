"""Values that tell when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from symbolic.sources import Source
from symbolic.variables.constants import ConstantVariable

if TYPE_CHECKING:
    from symbolic.operations import Operations

#: What a container is known by, whatever it holds.
_SHOWN = frozenset({"source", "cls", "value", "owner"})
_HIDDEN = "_hidden"


class Veiled:
    """Mixed into containers: what one holds may be hidden until somebody looks at it. (An attribute that is there is
    found without this, so that nothing takes longer while nothing is hidden.)"""

    def __getattr__(self, name: str) -> Any:
        hidden = vars(self).get(_HIDDEN)
        if hidden is None or name not in hidden[0]:
            raise AttributeError(f"{type(self).__name__} without {name}")
        lift(self, tell=True)
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        """For `copy.copy`."""
        lift(self, tell=True)
        return vars(self)


def veil(container: Veiled, told: Callable[[Any], None]) -> None:
    """Hides what it holds until somebody looks at it: then `told(container)` is called."""
    parts = vars(container)
    if _HIDDEN in parts:
        return
    hidden = {name: value for name, value in parts.items() if name not in _SHOWN}
    if any(hasattr(type(container), name) for name in hidden):  # or it would be found there
        told(container)
        return
    for name in hidden:
        del parts[name]
    parts[_HIDDEN] = hidden, told


def lift(container: Veiled, tell: bool = False) -> None:
    """Shows what it holds. What has been stored meanwhile stays."""
    parts = vars(container)
    found = parts.pop(_HIDDEN, None)
    if found is not None:
        hidden, told = found
        for name, value in hidden.items():
            parts.setdefault(name, value)
        if tell:
            told(container)


class LayerNumber(ConstantVariable):
    """An int in which calls of equal modules may differ, as long as only operations on what the frame made look at
    it: the number of a layer, at which it keeps something in a cache."""

    def __init__(self, value: int, source: Source, operations: Operations) -> None:
        self._value = value
        self.source = source
        self._operations = operations
        self.is_looked_at = False

    def python_type(self) -> type:
        return int

    @property
    def value(self) -> Any:
        self.is_looked_at = self.is_looked_at or not self._operations.is_inside
        return self._value
