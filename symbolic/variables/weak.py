"""Weak references, `weakref.ref`: what one leads to, as long as it is known that the object is alive."""

from __future__ import annotations

import functools
import operator
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import MEMORY, SEES_END, GraphBreak, SkipFrame
from symbolic.reach import now_kept
from symbolic.sources import Source
from symbolic.variables.base import MISSING, FixedVariable, Variable, lookup
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import MutableSequence
from symbolic.variables.functions import BoundMethod, PythonFunction
from symbolic.variables.mappings import SetVariable
from symbolic.variables.positions import type_name
from symbolic.variables.tables import REFUSED, handles

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
    """`weakref.ref(target)`, or with a callback `kind(target, *args)`. Of an existing one (`value`, `source`) `look_up`
    finds the target when it is asked for."""

    def __init__(
        self, target: Variable | None, value: Any = MISSING, source: Source | None = None, kind: type = weakref.ref,
        args: tuple[Variable, ...] = (), look_up: Callable[[WeakReference], Variable] | None = None,
    ) -> None:  # fmt: skip
        self.target = target
        self.value = value
        self.source = source
        self.kind = kind
        self.args = args  # behind the target
        self.look_up = look_up

    def python_type(self) -> type:
        return self.kind

    def hashed_as(self) -> Variable | None:
        """References are equal if what they lead to is, as long as it is alive."""
        target = self.found()
        return None if target.is_constant() and target.constant() is None else target

    def found(self) -> Variable:
        """The target, alive or not."""
        if self.target is None:
            assert self.look_up is not None
            self.target = self.look_up(self)
        return self.target

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "key" and self.kind is weakref.KeyedRef:
            return self.args[1] if self.args else tx.wrap(self.value.key, tx.source_of(self).attr(name))
        return super().getattr(tx, name)

    def real(self) -> Any:
        return self.value

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if args or kwargs:
            raise GraphBreak("arguments do not fit the function", self.describe())
        target = self.found()
        lasts = isinstance(target, FixedVariable) and isinstance(target.value, type)  # until somebody collects it
        if not isinstance(target, ConstantVariable) and not lasts and not _is_held(tx, target):
            if target.source is None or has_let_go(tx):  # a break would hold it
                raise SkipFrame(f"weak reference to what may be gone: {target.describe()}")
            raise GraphBreak("weak reference to what may be gone", target.describe())
        return target

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
        return [self.target, *self.args] if self.target is not None else []

    def holds(self) -> list[Variable]:
        return list(self.args)

    keeps = holds


def _is_held(tx: Translator, target: Variable) -> bool:
    """Whether the frames hold the object, themselves or by what they made, or the caller does and nothing was written
    so far."""
    real = target.real()
    for held in held_by_frames(tx):
        if held is target or (real is not MISSING and getattr(held, "value", MISSING) is real):
            return True
    return target.source is not None and tx.ledger.empty and not has_let_go(tx)


def held_by_frames(tx: Translator) -> Iterator[Variable]:
    """What the frames hold, then what that holds, as far as it is known: of existing objects, what was stored into
    them."""
    held = dict.fromkeys(each for frame in tx.frames for each in frame.held())
    waiting = deque(held)
    while waiting:
        found = waiting.popleft()
        yield found
        inside = dict.fromkeys(each for each in now_kept(found, tx.ledger) if each not in held)
        waiting += inside
        held |= inside


def has_let_go(tx: Translator) -> bool:
    """Whether the frame dropped an argument, which may have been the last to hold something."""
    return any(not ends_unseen(getattr(each, "value", None)) for each in let_go(tx))


def let_go(tx: Translator) -> list[Variable]:
    """The arguments that the frame has dropped, but for numbers and their like."""
    frame = tx.frames[0]
    cells = [tx.ledger.pending(cell, "cell_contents") for cell in frame.cells.values()]
    held = {each.source for each in (*frame.locals.values(), *frame.stack, *cells) if isinstance(each, Variable)}
    given = (each for each in tx.given if type(getattr(each, "value", None)) not in _PLAIN)
    return [each for each in given if each.source not in held]


def sees_ends(tx: Translator) -> bool:
    """Whether weak references may tell what the frame let go of, which a break would hold."""
    if has_let_go(tx):
        return True
    if not tx.weak_references:
        return False
    held = set(held_by_frames(tx))
    return any(target not in held for target in tx.weak_references)


def _is_dead(reference: Any) -> bool:
    """nothing behind"""
    return reference() is None


def existing(tx: Translator, value: Any, source: Source) -> Variable:
    tx.know(source, "type", type(value))
    return WeakReference(None, value, source, type(value), look_up=functools.partial(_look_up, tx))


def _look_up(tx: Translator, reference: WeakReference) -> Variable:
    assert reference.source is not None
    found = reference.value()
    if found is None:
        tx.know(reference.source, "predicate", _is_dead)
        return ConstantVariable(None)
    return tx.wrap(found, reference.source.step("referent"))


def proxy(tx: Translator, value: Any, source: Source) -> Variable:
    """A weak proxy: whether what it stands for is alive, only the running program knows."""
    raise GraphBreak(MEMORY, f"weak proxy {source.text}")


@handles(weakref.ref)
def _reference(tx: Translator, target: Variable, callback: Variable | None = None, /) -> Variable:
    """One object has one reference without a callback."""
    target = target.realize(tx)
    kind = target.python_type()
    if not kind.__weakrefoffset__:
        tx.raise_(TypeError, f"cannot create weak reference to '{type_name(kind)}' object")
    plain = tx.weak_references.setdefault(target, WeakReference(target))
    if callback is None or callback.python_type() is NoneType:
        return plain
    return _with_callback(tx, weakref.ref, target, callback)


@handles(weakref.KeyedRef)
def _keyed_reference(tx: Translator, ob: Variable, callback: Variable, key: Variable) -> Variable:
    _reference(tx, ob)
    return _with_callback(tx, weakref.KeyedRef, ob, callback, key)


#: Modules whose callbacks take what ended out of a container, which sees to it that nobody asks before.
_OWN_CALLBACKS = (weakref.__name__, weakref.WeakSet.__module__)


def _with_callback(tx: Translator, kind: type, target: Variable, callback: Variable, *args: Variable) -> Variable:
    made_by = callback.namespace(tx).module() if isinstance(callback, PythonFunction) else None  # type: ignore[attr-defined]
    if made_by not in _OWN_CALLBACKS:
        raise GraphBreak(SEES_END, f"weak reference with a callback to {target.describe()}")
    return WeakReference(target, kind=kind, args=(callback, *args))


_NO_CODE = existing.__code__


class WeakMethodVariable(WeakReference):
    """`weakref.WeakMethod(method)` born in the frame."""

    def __init__(self, method: BoundMethod) -> None:
        super().__init__(method.owner, kind=weakref.WeakMethod)
        self.method_of = method

    def hashed_as(self) -> Variable | None:
        raise GraphBreak("weak references compared", self.describe())

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        owner = super().call(tx, args, kwargs)
        function = self.method_of.function
        raw = lookup(owner.python_type(), getattr(function, "code", _NO_CODE).co_name)
        if tx.known.get(id(raw)) is not function and not _is_held(tx, function):
            raise SkipFrame(f"weak reference to what may be gone: {self.method_of.describe()}")
        return BoundMethod(self.method_of.function, owner)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        raise GraphBreak("weak references compared", self.describe())

    rbinary = binary

    def reachable(self) -> list[Variable]:
        return [self.method_of]


@handles(weakref.WeakMethod)
def _weak_method(tx: Translator, meth: Variable, callback: Variable | None = None) -> Variable:
    if not isinstance(meth, BoundMethod) or (callback is not None and callback.python_type() is not NoneType):
        raise GraphBreak(SEES_END, f"weak reference with a callback to {meth.describe()}")
    _reference(tx, meth.owner)
    return WeakMethodVariable(meth)


def _length(references: Callable[[Translator, Variable], list[Variable]]) -> Callable[..., Variable]:
    def handler(tx: Translator, container: Variable, /) -> Variable:
        """Each reference says that it leads to something: what ended would be out of the container."""
        if tx.truth(tx.getattr(container, "_pending_removals")):
            raise GraphBreak(MEMORY, container.describe())
        found = references(tx, tx.getattr(container, "data"))
        for reference in found:
            tx.call(reference, [], {})
        return ConstantVariable(len(found))

    return handler


def _elements(tx: Translator, data: Variable) -> list[Variable]:
    """In no order."""
    return list(data.items.values()) if isinstance(data, SetVariable) else data.unpack(tx)


for _cls, _references in (
    (weakref.WeakValueDictionary, lambda tx, data: data.method(tx, "values", [], {}).unpack(tx)),
    (weakref.WeakKeyDictionary, lambda tx, data: data.unpack(tx)),
    (weakref.WeakSet, _elements),
):
    handles(vars(_cls)["__len__"])(_length(_references))

#: Methods that look at references without asking what they lead to, among which eager code has none that ended.
_COUNT_THE_DEAD = {
    weakref.WeakValueDictionary: ("valuerefs", "itervaluerefs"),
    weakref.WeakKeyDictionary: ("keyrefs",),
    weakref.WeakSet: ("issubset", "__lt__", "__gt__", "__eq__"),
}
REFUSED.update({vars(cls)[name]: MEMORY for cls, names in _COUNT_THE_DEAD.items() for name in names})
