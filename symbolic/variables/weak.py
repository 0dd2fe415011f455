"""Weak references, `weakref.ref`: what one leads to, as long as it is known that the object is alive."""

from __future__ import annotations

import operator
import weakref
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import MEMORY, SEES_END, GraphBreak, SkipFrame
from symbolic.reach import now_held
from symbolic.sources import Source
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import MutableSequence
from symbolic.variables.positions import type_name
from symbolic.variables.tables import handles

if TYPE_CHECKING:
    from symbolic.translator import Translator


#: Types of existing values whose end nobody sees.
_PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes, ModuleType))


def ends_unseen(value: Any) -> bool:
    """Whether it does not matter when an existing value ends. (Tensors are large: they had better end early.)"""
    return type(value) in _PLAIN or issubclass(type(value), torch.Tensor)


def existing_object(variable: Variable) -> Any:
    """The existing object that a variable stands for, MISSING if it stands for none."""
    if variable.source is None:
        return MISSING
    return variable.was if isinstance(variable, MutableSequence) else getattr(variable, "value", MISSING)


class WeakReference(Variable):
    """`weakref.ref(target)` without a callback. Of an existing one (`value`, `source`) the target is looked up when it
    is asked for."""

    def __init__(self, target: Variable | None, value: Any = MISSING, source: Source | None = None) -> None:
        self.target = target
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return weakref.ref

    def real(self) -> Any:
        return self.value

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if args or kwargs:
            raise GraphBreak("arguments do not fit the function", self.describe())
        if self.target is None:
            self.target = self._look_up(tx)
        if not isinstance(self.target, ConstantVariable) and not _is_held(tx, self.target):
            if self.target.source is None or has_let_go(tx):  # a break would hold it
                raise SkipFrame(f"weak reference to what may be gone: {self.target.describe()}")
            raise GraphBreak("weak reference to what may be gone", self.target.describe())
        return self.target

    def _look_up(self, tx: Translator) -> Variable:
        assert self.source is not None
        found = self.value()
        if found is None:
            tx.know(self.source, "predicate", _is_dead)
            return ConstantVariable(None)
        return tx.wrap(found, self.source.step("referent"))

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self is other and op in (operator.eq, operator.ne):
            return ConstantVariable(op is operator.eq)
        raise GraphBreak("weak references compared", self.describe())

    rbinary = binary

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if isinstance(other, WeakReference) and (self.value is MISSING) is not (other.value is MISSING):
            raise GraphBreak("weak references compared", self.describe())  # perhaps of one object, which has only one
        return super().is_same(tx, other)

    def reachable(self) -> list[Variable]:
        # Strongly, as far as building goes: the object dies with the frame if nobody else has it.
        return [self.target] if self.target is not None else []

    def holds(self) -> list[Variable]:
        return []


def _is_held(tx: Translator, target: Variable) -> bool:
    """Whether a variable of the frames holds the object, or the caller does and nothing was written so far."""
    real = target.real()
    for frame in tx.frames:
        cells = [tx.ledger.pending(cell, "cell_contents") for cell in frame.cells.values()]
        for held in (*frame.locals.values(), *frame.stack, *cells):
            if held is target or (real is not MISSING and getattr(held, "value", MISSING) is real):
                return True
    return target.source is not None and tx.ledger.empty and not has_let_go(tx)


def has_let_go(tx: Translator) -> bool:
    """Whether the frame dropped an argument, which may have been the last to hold something."""
    frame = tx.frames[0]
    cells = [tx.ledger.pending(cell, "cell_contents") for cell in frame.cells.values()]
    held = {each.source for each in (*frame.locals.values(), *frame.stack, *cells) if isinstance(each, Variable)}
    return any(each.source not in held for each in tx.given if not ends_unseen(getattr(each, "value", None)))


def sees_ends(tx: Translator) -> bool:
    """Whether weak references may tell what the frame let go of, which a break would hold."""
    if has_let_go(tx):
        return True
    waiting = [each for frame in tx.frames for each in frame.held()] if tx.weak_references else []
    held = set(waiting)
    while waiting:
        found = waiting.pop()
        inside = now_held(found, tx.ledger)
        waiting += [each for each in inside if each not in held]
        held.update(inside)
    return any(target not in held for target in tx.weak_references)


def _is_dead(reference: Any) -> bool:
    """nothing behind"""
    return reference() is None


def existing(tx: Translator, value: Any, source: Source) -> Variable:
    tx.know(source, "type", weakref.ref)
    return WeakReference(None, value, source)


def proxy(tx: Translator, value: Any, source: Source) -> Variable:
    """A weak proxy: whether what it stands for is alive, only the running program knows."""
    raise GraphBreak(MEMORY, f"weak proxy {source.text}")


@handles(weakref.ref)
def _reference(tx: Translator, target: Variable, callback: Variable | None = None, /) -> Variable:
    """One object has one reference without a callback."""
    if callback is not None and callback.python_type() is not type(None):
        raise GraphBreak(SEES_END, f"weak reference with a callback to {target.describe()}")
    kind = target.python_type()
    if not kind.__weakrefoffset__:
        tx.raise_(TypeError, f"cannot create weak reference to '{type_name(kind)}' object")
    return tx.weak_references.setdefault(target, WeakReference(target))
