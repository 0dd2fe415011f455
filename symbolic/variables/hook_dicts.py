"""Dicts of hooks, by the numbers of their handles.

Handles are numbered through the life of a process, so nothing is good for the next call that depends on a number: of
such a dict it is guarded how many hooks it has and what they are, and of a number only which others it is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as modules

from symbolic.sources import Source
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.native import hash_key

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: What the dicts of hooks are called, in a module, for all modules, and of a tensor.
NAMES = frozenset(
    name
    for namespace in (vars(torch.nn.Module()), vars(modules))
    for name, value in namespace.items()
    if "_hooks" in name and isinstance(value, OrderedDict)
) | {"_post_accumulate_grad_hooks"}


class HookNumber(ConstantVariable):
    """The number of a handle that was there before the frame. Where its value is needed, it is guarded."""

    source: Source
    #: Numbers of handles are compared with one another: those of the frame's own are greater than all from before.
    family = "handle"

    def __init__(self, value: int, source: Source, tx: Translator) -> None:
        self._value = value
        self.source = source
        self.tx = tx

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return f"number {self.source.text} of a handle"

    @property
    def value(self) -> Any:
        self.tx.know(self.source, "eq", self._value)
        return self._value

    def unguarded(self) -> int:
        return self._value


def number_of(tx: Translator, value: int, source: Source) -> HookNumber:
    """The variable of this int, which is one object wherever it stands for the same handle."""
    found = tx.known.get(id(value))
    if found is None:
        tx.know(source, "type", int)
        found = tx.known[id(value)] = HookNumber(value, source, tx)
        tx.keepalive.append(value)
    assert isinstance(found, HookNumber) and found.source is not None
    if found.source is not source:
        tx.know(source, "same", found.source)
    return found


class HooksVariable(DictVariable):
    """An existing dict of hooks."""

    _is_pinned = False  # the very numbers are guarded

    def hashed(self, tx: Translator, key: Variable) -> Any:
        if not isinstance(key, HookNumber):
            if key.is_constant():
                self._pin(tx)
            return hash_key(tx, key)
        number = key.unguarded()
        if not self._is_pinned:
            self._load_names(tx)
            assert self._names is not None
            own = self._names.get(number)
            if own is not None and own[0] is not key:  # equal by chance, or after a copy
                self._pin(tx)
            elif own is None and self._names:
                self._pin(tx)
        return number if not self._is_pinned else key.value

    def _pin(self, tx: Translator) -> None:
        if not self._is_pinned:
            tx.know(self.source, "keys", tuple(self._contents))
            self._is_pinned = True

    def _load_names(self, tx: Translator) -> None:
        assert self.source is not None
        reals = tuple(self._contents)
        if not all(type(real) is int for real in reals):
            self._pin(tx)
            super()._load_names(tx)
        elif self._names is None:
            tx.know(self.source, "len", len(reals))
            keys = [number_of(tx, real, self.source.step("key", at)) for at, real in enumerate(reals)]
            self._names = {real: (key, real) for real, key in zip(reals, keys, strict=True)}

    def _load(self, tx: Translator, hashed: Any, key: Variable) -> Variable | None:
        if self._names is None or not isinstance(self._names.get(hashed, (None,))[0], HookNumber):
            return super()._load(tx, hashed, key)
        assert self.source is not None
        own, real = self._names[hashed]
        value = tx.wrap(self._contents[real], self.source.step("value", list(self._names).index(hashed)))
        self.entries[hashed] = (own, value)
        return value

    def discard(self, tx: Translator, key: Variable) -> None:
        """Takes a hook away, if it is there, without a look at it."""
        hashed = self.hashed(tx, key)
        own = None if self.complete or self._names is None or hashed in self.entries else self._names.get(hashed)
        if own is None:
            self.remove(tx, key)
        elif hashed not in self.deleted:
            tx.ledger.keep(self)
            self.deleted[hashed] = own[0]
            self.state += 1
            tx.ledger.touch(self)
