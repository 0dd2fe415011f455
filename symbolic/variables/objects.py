"""Instances of classes, existing or born in the frame, with Python's attribute protocol."""

from __future__ import annotations

import functools
import operator
from collections import defaultdict, deque
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from sideeffects.effects import DELETED
from symbolic import polyfills
from symbolic.errors import GraphBreak, Observed
from symbolic.frames import Frame
from symbolic.passing import home_of, namespace_of
from symbolic.signatures import takes
from symbolic.sources import Source
from symbolic.variables.base import ALIASES, BINARY, INPLACE, MISSING, UNARY, Variable, joins, lookup, raw_attributes
from symbolic.variables.constants import ConstantVariable, answers_for, is_library_value
from symbolic.variables.functions import BoundMethod, PythonFunction
from symbolic.variables.methods import NativeMethod
from symbolic.variables.positions import answering, as_index, has, is_python_class, stand_in, type_name
from symbolic.variables.slots import is_generic
from symbolic.versions import CLASSMETHOD_ASKS

if TYPE_CHECKING:
    from symbolic.translator import Translator

NATIVE_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType, BuiltinFunctionType)


#: What finds the name of a class.
_NAME = type.__dict__["__name__"]


def is_data_descriptor(raw: Any) -> bool:
    kind = type(raw)
    return lookup(kind, "__set__") is not MISSING or lookup(kind, "__delete__") is not MISSING


def is_asked_first(raw: Any) -> bool:
    """Whether a data descriptor is written in Python: what it guards, it may keep in the instance's `__dict__` under
    its own name."""
    return isinstance(raw, property) or is_python_class(type(raw))


def instance_dict(value: Any) -> dict[str, Any] | None:
    """The instance's `__dict__`, read without running user code; None if it has none."""
    if not isinstance(lookup(type(value), "__dict__"), _DICT_OF):
        raise GraphBreak("attribute access not supported", f"{type_name(type(value))}.__dict__, which is its own")
    try:
        found = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


_DICT_OF = (GetSetDescriptorType, MemberDescriptorType, type(MISSING))


def is_plain_attribute(value: Variable) -> bool:
    """Whether instances see the value of a class attribute as it is; functions are bound."""
    kind = value.python_type()
    return isinstance(value, PythonFunction) or all(lookup(kind, name) is MISSING for name in _OF_DESCRIPTORS)


_OF_DESCRIPTORS = ("__get__", "__set__", "__delete__")


_HASHES_OF_VALUES = {kind.__hash__ for kind in (str, int, tuple, frozenset)}


class EmptySlot:
    """empty slot: the predicate of a guard"""

    def __init__(self, slot: MemberDescriptorType) -> None:
        self.slot = slot
        self.__doc__ = f"empty slot {slot.__name__!r}"

    def __call__(self, value: Any) -> bool:
        try:
            self.slot.__get__(value)
        except AttributeError:
            return True
        return False


class ObjectVariable(Variable):
    """An instance of a Python class.

    Existing: `value` and `source`. Born in the frame: `value` is MISSING, attributes live in the ledger, and
    `new_args` are the arguments its `__new__` needs. `payload` is the native part of a subclass of a builtin container
    (a DictVariable for a dict subclass, ...).
    """

    def __init__(
        self,
        cls: type,
        value: Any = MISSING,
        source: Source | None = None,
        payload: Variable | None = None,
        new_args: tuple[Variable, ...] = (),
    ) -> None:
        self.cls = cls
        self.value = value
        self.source = source
        self.payload = payload
        if payload is not None:
            payload.owner = self  # type: ignore[attr-defined]
        self.new_args = new_args
        self.was: type | None = None  # the class that the frame took from it

    def python_type(self) -> type:
        return self.cls

    def real(self) -> Any:
        return self.value

    def key(self) -> Any:
        if self.cls.__hash__ is object.__hash__ and self.cls.__eq__ is object.__eq__:
            return super().key() if self.value is MISSING else self.value
        if self.payload is not None and self.cls.__hash__ in _HASHES_OF_VALUES:
            return self.payload.key()
        raise GraphBreak("hash of an object with its own __hash__", self.describe())

    # --- attributes -------------------------------------------------------------------------------------------------
    def getattr(self, tx: Translator, name: str) -> Variable:
        hook = tx.lookup(self.cls, "__getattribute__")
        is_native = isinstance(hook, NATIVE_DESCRIPTORS)
        if is_native and not is_generic(hook, name):
            raise GraphBreak("attribute access not supported", f"{self.describe()}.{name}, which its class answers")
        try:
            if is_native:
                found = self.find(tx, name)
            else:
                found = tx.call(tx.class_attribute(self.cls, "__getattribute__"), [self, ConstantVariable(name)], {})
        except Observed as raised:
            is_missing = issubclass(raised.variable.python_type(), AttributeError)
            if not is_missing or tx.lookup(self.cls, "__getattr__") is MISSING:
                raise
            found = None
        return self._missing(tx, name) if found is None else found

    def plain_getattr(self, tx: Translator, name: str) -> Variable:
        """`object.__getattribute__`"""
        found = self.find(tx, name)
        return self._refuse(tx, name) if found is None else found

    def find(self, tx: Translator, name: str) -> Variable | None:
        """What `object.__getattribute__` answers; None if there is no such attribute."""
        stored = tx.stored_on_class(self.cls, name)
        raw = tx.lookup(self.cls, name) if stored is None else MISSING
        if _comes_first(tx, raw):
            return self._describe(tx, name, raw)
        pending = tx.ledger.pending(self, name)
        if pending is not None and pending is not DELETED:
            return pending
        if pending is None and self.value is not MISSING:
            found = self._existing(tx, name, raw)
            if found is not None:
                return found
        if stored is not None:
            return BoundMethod(stored, self) if isinstance(stored, PythonFunction) else stored
        if raw is not MISSING and not isinstance(raw, MemberDescriptorType):
            return self._describe(tx, name, raw)
        return tx.instance_namespace(self) if name == "__dict__" and self.cls.__dictoffset__ else None

    def _existing(self, tx: Translator, name: str, raw: Any) -> Variable | None:
        """The attribute as the existing object holds it in its `__dict__` or slot."""
        assert self.source is not None
        if isinstance(raw, MemberDescriptorType):
            is_empty = EmptySlot(raw)
            if is_empty(self.value):
                tx.know(self.source, "predicate", is_empty)
                return None
            return tx.wrap(raw.__get__(self.value, self.cls), self.source.attr(name))
        stored = instance_dict(self.value)
        if stored is None:
            return self._hidden(tx, name, raw) if self.cls.__dictoffset__ else None
        if name in stored:
            return tx.wrap(stored[name], self.source.step("dict").step("item", name))
        tx.know(self.source.step("dict"), "absent", name)
        return None

    def _hidden(self, tx: Translator, name: str, raw: Any) -> Variable | None:
        """The attribute as it is in a `__dict__` that nobody can look at (a `TypeVar`'s `__module__`)."""
        assert self.source is not None
        is_usual = lookup(self.cls, "__getattribute__") is object.__getattribute__
        if not is_usual or lookup(type(raw), "__get__") is not MISSING:
            return None
        try:
            found = object.__getattribute__(self.value, name)
        except AttributeError:
            raise GraphBreak("attribute access not supported", f"{self.describe()}.{name}") from None
        return tx.wrap(found, self.source.attr(name))

    def _describe(self, tx: Translator, name: str, raw: Any) -> Variable:
        """A class attribute as seen through the instance: descriptors bind."""
        kind = type(raw)
        bind = DESCRIPTORS.get(kind)
        if bind is not None:
            return bind(self, tx, name, raw)
        if isinstance(raw, NATIVE_DESCRIPTORS):
            return self._native(tx, name, raw)
        getter = tx.lookup(kind, "__get__")
        if isinstance(getter, FunctionType):
            descriptor = tx.class_attribute(self.cls, name)
            return tx.call(tx.class_attribute(kind, "__get__"), [descriptor, self, tx.class_of(self)], {})
        if getter is property.__get__ and tx.lookup(kind, "fget") is property.fget:
            return _read_property(self, tx, name, raw)
        if getter is not MISSING and not isinstance(raw, type):
            bound = tx.bind_descriptor(self, name, raw)
            if bound is not None:
                return bound
            raise GraphBreak("descriptor not supported", f"{self.cls.__qualname__}.{name} ({kind.__qualname__})")
        return tx.class_attribute(self.cls, name)

    def _native(self, tx: Translator, name: str, raw: Any) -> Variable:
        if isinstance(raw, (ClassMethodDescriptorType, BuiltinFunctionType)):  # which bind no instance
            return tx.getattr(tx.class_of(self), name)
        if self.payload is not None and getattr(raw, "__objclass__", object) in self.payload.python_type().__mro__[:-1]:
            return NativeMethod(self.payload, name)
        return ObjectMethod(self, name, raw)

    def _getset(self, tx: Translator, name: str, raw: Any) -> Variable:
        if name == "__dict__":
            return tx.instance_namespace(self)
        if name == "__class__":
            return tx.class_of(self)
        if self.payload is not None and raw is deque.__dict__["maxlen"]:
            return self.payload.getattr(tx, name)
        if self.value is MISSING or self.source is None:
            raise GraphBreak("native attribute of an object born in the frame", f"{self.cls.__qualname__}.{name}")
        if name in _EVALUATED and not tx.ledger.empty:  # by the program's code, which sees what the frame changed
            raise GraphBreak("attribute access not supported", f"{self.describe()}.{name}")
        return tx.wrap(tx.attempt(raw.__get__, self.value, self.cls), self.source.attr(name))

    def _missing(self, tx: Translator, name: str) -> Variable:
        """What `__getattr__` answers."""
        hook = tx.lookup(self.cls, "__getattr__")
        if hook is MISSING and issubclass(self.cls, ModuleType):  # it asks its own, and has a message of its own
            raise GraphBreak("attribute access not supported", f"{self.describe()}.{name}")
        if hook is _OF_MODULES:
            tx.know(tx.attribute_source(torch.nn.Module, "__getattr__"), "is", hook)
            found = self._module_attribute(tx, name)
            if found is not None:
                return found
        elif hook is not MISSING:
            return tx.call(tx.class_attribute(self.cls, "__getattr__"), [self, ConstantVariable(name)], {})
        return self._refuse(tx, name)

    def _refuse(self, tx: Translator, name: str) -> Variable:
        if isinstance(tx.lookup(self.cls, name), MemberDescriptorType):
            tx.attempt(getattr, _namesake(self.cls, name), name)
        meta = type(self.cls)
        is_usual = lookup(meta, "__name__") is _NAME and lookup(meta, "__getattribute__") is type.__getattribute__
        if is_usual and is_python_class(self.cls):  # somebody may call it something else
            tx.know(tx.source_of(tx.class_of(self)).attr("__name__"), "eq", self.cls.__name__)
        return tx.raise_(AttributeError, f"{type_name(self.cls)!r} object has no attribute {name!r}")

    def _module_attribute(self, tx: Translator, name: str) -> Variable | None:
        """What `nn.Module.__getattr__` finds: a parameter, buffer or submodule."""
        for part in ("_parameters", "_buffers", "_modules"):
            table = self.plain_getattr(tx, part)
            if tx.contains(table, ConstantVariable(name)):
                return table.getitem(tx, ConstantVariable(name))
        return None

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        hook = tx.lookup(self.cls, "__setattr__")
        if is_generic(hook) and not is_foreign(hook, self.cls, "__setattr__"):
            self.plain_setattr(tx, name, value)
        elif hook is torch.nn.Module.__setattr__ and self._module_setattr(tx, name, value):
            pass
        else:
            tx.call(tx.class_attribute(self.cls, "__setattr__"), [self, ConstantVariable(name), value], {})

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        """`object.__setattr__`"""
        raw = tx.descriptor(self.cls, name)
        if isinstance(raw, property):
            if raw.fset is None:
                tx.attempt(raw.__set__, _namesake(self.cls), None)
            tx.call(tx.class_attribute(self.cls, name).getattr(tx, "fset"), [self, value], {})
        elif raw is not MISSING and isinstance(lookup(type(raw), "__set__"), FunctionType):
            tx.call(tx.class_attribute(type(raw), "__set__"), [tx.class_attribute(self.cls, name), self, value], {})
        elif name == "__dict__" and value is tx.instance_namespace(self):
            pass  # the end of an assignment in place
        elif self.payload is not None and raw is defaultdict.__dict__["default_factory"]:
            self.payload.setattr(tx, name, value)
        elif raw is object.__dict__["__class__"] and self._may_become(tx, value.real()):
            tx.ledger.border()
            self.was, self.cls = self.cls, value.real()
            tx.ledger.changed(self, "__class__")
            if self.value is not MISSING:
                setter = tx.wrap(object.__setattr__, tx.sources.const(object.__setattr__, "object.__setattr__"))
                tx.ledger.call(setter, self, ConstantVariable("__class__"), value)
        elif isinstance(raw, GetSetDescriptorType):
            raise GraphBreak("store to a native attribute", f"{self.cls.__qualname__}.{name}")
        elif not self._takes(raw):
            if raw is MISSING and self.payload is None:  # there is no place for it
                tx.attempt(setattr, _namesake(self.cls, "__weakref__"), name, None)
            raise GraphBreak("attribute that the object can't take", f"{self.cls.__qualname__}.{name}")
        else:
            tx.ledger.store(self, name, value)

    def _may_become(self, tx: Translator, new: Any) -> bool:
        """Whether it may be an object of that class from here on: one that has its attributes in a `__dict__`, too, and
        no places of its own for those that are there."""
        if self.was is not None or self.payload is not None or type(self) is not ObjectVariable or self.new_args:
            return False
        if not isinstance(new, type):
            return False
        for cls in (self.cls, new):
            slots = any(isinstance(raw, MemberDescriptorType) for _, raw in raw_attributes(cls.__mro__))
            ends = lookup(cls, "__del__") is not MISSING
            if slots or ends or not is_python_class(cls) or lookup(cls, "__new__") is not object.__new__:
                return False
        tx.attempt(object.__setattr__, object.__new__(self.cls), "__class__", new)
        return not any(is_data_descriptor(lookup(new, name)) for name in tx.ledger.stores(self))

    def _takes(self, raw: Any) -> bool:
        """Whether there is a place for the attribute: a slot written in Python, or the instance's `__dict__`."""
        if isinstance(raw, MemberDescriptorType):
            return "__slots__" in namespace_of(raw.__objclass__)
        return self.cls.__dictoffset__ != 0 and (raw is MISSING or not is_data_descriptor(raw))

    def _module_setattr(self, tx: Translator, name: str, value: Variable) -> bool:
        """The common cases of `nn.Module.__setattr__`; False leaves the work to the traced original."""
        kind = value.python_type()
        if issubclass(kind, (torch.nn.Parameter, torch.nn.Module)):
            return False
        where = ConstantVariable(name)
        if issubclass(kind, torch.Tensor):
            for part in ("_parameters", "_modules"):
                if tx.contains(self.plain_getattr(tx, part), where):
                    return False
            buffers = self.plain_getattr(tx, "_buffers")
            if tx.contains(buffers, where):
                buffers.setitem(tx, where, value)
                return True
        else:
            for part in ("_parameters", "_modules", "_buffers"):
                if tx.contains(self.plain_getattr(tx, part), where):
                    return False
        self.plain_setattr(tx, name, value)
        return True

    def delattr(self, tx: Translator, name: str) -> None:
        hook = tx.lookup(self.cls, "__delattr__")
        if is_generic(hook) and not is_foreign(hook, self.cls, "__delattr__"):
            self.plain_delattr(tx, name)
        else:
            tx.call(tx.class_attribute(self.cls, "__delattr__"), [self, ConstantVariable(name)], {})

    def plain_delattr(self, tx: Translator, name: str) -> None:
        raw = tx.descriptor(self.cls, name)
        if isinstance(raw, property):
            if raw.fdel is None:
                tx.attempt(raw.__delete__, _namesake(self.cls))
            tx.call(tx.class_attribute(self.cls, name).getattr(tx, "fdel"), [self], {})
            return
        if raw is not MISSING and isinstance(lookup(type(raw), "__delete__"), FunctionType):
            tx.call(tx.class_attribute(type(raw), "__delete__"), [tx.class_attribute(self.cls, name), self], {})
            return
        is_slot = isinstance(raw, MemberDescriptorType) and "__slots__" in namespace_of(raw.__objclass__)
        if raw is not MISSING and is_data_descriptor(raw) and not is_slot:
            raise GraphBreak("deletion of a native attribute", f"{self.cls.__qualname__}.{name}")
        pending = tx.ledger.pending(self, name)
        held: Any = pending is not DELETED
        if pending is None:
            held = self.value is not MISSING and self._existing(tx, name, raw)
        if not held:
            slot = name if isinstance(raw, MemberDescriptorType) else "__weakref__"
            if raw is not MISSING and slot != name and not self.cls.__dictoffset__:
                raise GraphBreak("attribute that the object can't take", f"{self.cls.__qualname__}.{name}")
            slots = () if slot != name and self.cls.__dictoffset__ else (slot,)
            tx.attempt(delattr, _namesake(self.cls, *slots), name)
        tx.ledger.store(self, name, DELETED)

    # --- special methods --------------------------------------------------------------------------------------------
    def special(self, tx: Translator, name: str) -> Variable | None:
        """The bound special method as the class defines it in Python, None if it has none or a native one."""
        raw = tx.lookup(self.cls, name)
        if raw is None:  # so the class refuses
            raise GraphBreak("operation not supported by the object", f"{name} of {self.describe()}")
        if is_foreign(raw, self.cls, name):
            return BoundMethod(tx.class_attribute(self.cls, name), self)
        if raw is MISSING or isinstance(raw, NATIVE_DESCRIPTORS):
            return None
        return self._describe(tx, name, raw)

    def _ask(
        self, tx: Translator, name: str, args: list[Variable], native: Callable[[Variable], Any], convert: Any
    ) -> Any:
        """A special method's answer: from Python, else from the native part, else a break (eager code raises)."""
        function = self.special(tx, name)
        if function is not None:
            return convert(tx.call(function, args, {}))
        if self.payload is not None and self.is_of_payload(tx.lookup(self.cls, name)):
            return native(self.payload)
        self._misuse(tx, name, *args)

    def _misuse(self, tx: Translator, name: str, *args: Variable) -> NoReturn:
        """What Python says where the class has no such method; a break where it has a native one."""
        if tx.lookup(self.cls, name) is MISSING and is_python_class(self.cls):
            tx.attempt(_WITHOUT[name], _namesake(self.cls), *map(stand_in, args))
        raise GraphBreak("operation not supported by the object", f"{name} of {self.describe()}")

    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        function = self.special(tx, "__call__")
        return function.enter(tx, args, kwargs) if function is not None else None

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        function = self.special(tx, "__call__")
        if function is None:
            raw = tx.lookup(self.cls, "__call__")
            if isinstance(raw, BuiltinFunctionType):  # which binds nothing
                return tx.call(tx.class_attribute(self.cls, "__call__"), args, kwargs)
            if raw is MISSING and not args and not kwargs:
                self._misuse(tx, "__call__")
            raise GraphBreak("call of an object that is not callable or native", self.describe())
        return tx.call(function, args, kwargs)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        return self._ask(tx, "__getitem__", [index], lambda p: p.getitem(tx, index), lambda r: r)

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        self._ask(tx, "__setitem__", [index, value], lambda p: p.setitem(tx, index, value), lambda r: None)

    def delitem(self, tx: Translator, index: Variable) -> None:
        self._ask(tx, "__delitem__", [index], lambda p: p.delitem(tx, index), lambda r: None)

    def contains(self, tx: Translator, item: Variable) -> bool:
        if tx.lookup(self.cls, "__contains__") is MISSING:
            if tx.lookup(self.cls, "__iter__") is MISSING and tx.lookup(self.cls, "__getitem__") is MISSING:
                self._misuse(tx, "__contains__")
            steps = self.iterator(tx)
            while (other := tx.next(steps)) is not None:
                if tx.equal(other, item):
                    return True
            return False
        return self._ask(tx, "__contains__", [item], lambda p: p.contains(tx, item), tx.truth)

    def length(self, tx: Translator) -> int:
        judged = lambda r: tx.attempt(len, answering("__len__", as_index(tx, r)))  # noqa: E731
        return self._ask(tx, "__len__", [], lambda p: p.length(tx), judged)

    def truth(self, tx: Translator) -> bool:
        if tx.lookup(self.cls, "__bool__") is not MISSING:
            judged = lambda r: tx.attempt(bool, answering("__bool__", stand_in(r)))  # noqa: E731
            return self._ask(tx, "__bool__", [], lambda p: p.truth(tx), judged)
        if tx.lookup(self.cls, "__len__") is not MISSING:
            return self.length(tx) != 0
        return True

    def iterator(self, tx: Translator) -> Variable:
        if tx.lookup(self.cls, "__iter__") is MISSING:
            if tx.lookup(self.cls, "__getitem__") is MISSING:
                self._misuse(tx, "__iter__")
            if self.special(tx, "__getitem__") is None:  # a native one may be a mapping's, which is no iterable
                raise GraphBreak("operation not supported by the object", f"iteration over {self.describe()}")
            return tx.getitem_iterator(self)
        found = self._ask(tx, "__iter__", [], lambda p: p.iterator(tx), lambda r: r)
        if not has(found.python_type(), "__next__"):
            tx.raise_(TypeError, f"iter() returned non-iterator of type {type_name(found.python_type())!r}")
        return found

    def next(self, tx: Translator) -> Variable | None:
        return self._ask(tx, "__next__", [], lambda p: p.iternext(tx), lambda r: r)

    def as_dict(self, tx: Translator) -> Any:
        return self.payload.as_dict(tx) if self.payload is not None else None

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op is operator.or_ and self.cls in ALIASES and joins(other):
            return tx.of_classes(op, self, other)
        self._check_asked(other)
        said = lambda: tx.attempt(op, stand_in(self), stand_in(other))  # noqa: E731
        return self._of_parts(tx, BINARY[op][0], other, lambda part, theirs: part.binary(tx, op, theirs), said)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op is operator.or_ and self.cls in ALIASES and joins(other):
            return tx.of_classes(op, other, self)
        self._check_asked(other)
        said = lambda: tx.attempt(op, stand_in(other), stand_in(self))  # noqa: E731
        return self._of_parts(tx, BINARY[op][1], other, lambda part, theirs: part.rbinary(tx, op, theirs), said)

    def _of_parts(
        self, tx: Translator, name: str, other: Variable,
        run: Callable[[Variable, Variable], Variable | None], said: Callable[[], Any],
    ) -> Variable | None:  # fmt: skip
        """What `run` answers of the native parts; `said` raises its errors again, which name the classes."""
        theirs = _native_part(other)

        def native(part: Variable) -> Variable | None:
            known = part.is_constant() and theirs.is_constant()
            answers = not known or answers_for(name, part.python_type(), theirs.constant())
            try:
                return run(part, theirs if known else other) if answers else None
            except Observed:
                if known:
                    said()
                raise

        return self._operator(tx, name, other, native)

    def _check_asked(self, other: Variable) -> None:
        """Values of the library ask other operands: a `timedelta` a float for its ratio, whoever has written that."""
        if self.payload is not None and other.is_constant() and is_library_value(other.constant()):
            raise GraphBreak("native operator of an object", self.describe())

    def as_sequence(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self.payload.as_sequence(tx, op, other) if self.payload is not None else None

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self.payload is not None and isinstance(tx.lookup(self.cls, INPLACE[op][1]), NATIVE_DESCRIPTORS):
            is_asked = (
                op is operator.iadd
                and issubclass(self.cls, (list, deque))
                and isinstance(other, ObjectVariable)
                and other.special(tx, "__iter__") is not None
            )
            theirs = _native_part(other)
            given = other if is_asked or op is operator.imul or isinstance(theirs, ConstantVariable) else theirs
            return self if self.payload.inplace(tx, op, given) is not None else None
        return self._operator(tx, INPLACE[op][1], other, lambda p: None)

    def _operator(
        self, tx: Translator, name: str, other: Variable, native: Callable[[Variable], Any]
    ) -> Variable | None:
        raw = tx.lookup(self.cls, name)
        if raw is MISSING:
            return None
        if raw is object.__ne__:
            return self.differs(tx, other)
        function = self.special(tx, name)
        if function is None:
            if self.cls in polyfills.EQUALITIES and raw in (self.cls.__eq__, self.cls.__ne__):
                return self._compared(tx, name, other)
            return self._native_operator(raw, native)
        result = tx.call(function, [other], {})
        if isinstance(result, ConstantVariable) and result.value is NotImplemented:
            return None
        return result

    def differs(self, tx: Translator, other: Variable) -> Variable | None:
        """`object.__ne__`; None: NotImplemented"""
        result = self._operator(tx, "__eq__", other, lambda p: p.binary(tx, operator.eq, _native_part(other)))
        return ConstantVariable(not tx.truth(result)) if result is not None else None

    def _compared(self, tx: Translator, name: str, other: Variable) -> Variable | None:
        kind = other.python_type()
        if kind is not self.cls:
            if issubclass(kind, self.cls):
                raise GraphBreak("native operator of an object", self.describe())
            return None
        same = tx.truth(tx.inline(polyfills.EQUALITIES[self.cls], [self, other], {}))
        return ConstantVariable(same is (name == "__eq__"))

    def _native_operator(self, raw: Any, native: Callable[[Variable], Any]) -> Variable | None:
        """The answer of an operator that is not written in Python: `object` compares identities, which is the caller's
        fallback; a builtin base's is known by the payload, any other only by the running program."""
        if getattr(raw, "__objclass__", None) is object:
            return None
        if self.payload is None or raw is None or not self.is_of_payload(raw):
            raise GraphBreak("native operator of an object", self.describe())
        return native(self.payload)

    def is_of_payload(self, raw: Any) -> bool:
        """Whether a method is what the native part has, too: numpy's floats have operators of their own."""
        assert self.payload is not None
        return raw is not MISSING and getattr(raw, "__objclass__", object) in self.payload.python_type().__mro__

    def unary(self, tx: Translator, op: Any) -> Variable:
        return self._ask(tx, UNARY[op], [], lambda p: p.unary(tx, op), lambda r: r)

    def reachable(self) -> list[Variable]:
        payload = [self.payload] if self.payload is not None else []
        return [*payload, *self.new_args]

    def keeps(self) -> list[Variable]:
        return [self.payload] if self.payload is not None else []


#: Attributes of type parameters and aliases that are evaluated when they are asked for.
_EVALUATED = frozenset({"__bound__", "__constraints__", "__default__", "__value__"})


#: What finds parameters, buffers and submodules.
_OF_MODULES = torch.nn.Module.__getattr__


def _comes_first(tx: Translator, raw: Any) -> bool:
    """Whether it is asked before the instance is: a data descriptor that can be read. (Slots are the instance's.)"""
    if raw is MISSING or isinstance(raw, MemberDescriptorType):
        return False
    reads, *writes = (tx.lookup(type(raw), name) is not MISSING for name in _OF_DESCRIPTORS)
    return reads and any(writes)


def is_foreign(raw: Any, cls: type, name: str) -> bool:
    """Whether a native method was put in the place of another, as by `__setattr__ = dict.__setitem__`."""
    if not isinstance(raw, (MethodDescriptorType, WrapperDescriptorType)):
        return False
    return raw.__name__ != name or not issubclass(cls, raw.__objclass__)


_SIGNS: dict[str, Any] = {name: sign for sign, name in UNARY.items()}
#: What to do with an object so that Python says that it hasn't the special method.
_WITHOUT: dict[str, Callable[..., Any]] = {
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
    "__delitem__": operator.delitem,
    "__contains__": lambda it: None in it,
    "__call__": lambda it: it(),
    "__len__": len,
    "__iter__": iter,
    "__next__": next,
    **_SIGNS,
}


def _native_part(variable: Variable) -> Variable:
    if isinstance(variable, ObjectVariable) and variable.payload is not None:
        return variable.payload
    return variable


def _bind_function(obj: ObjectVariable, tx: Translator, name: str, raw: Any) -> Variable:
    return BoundMethod(tx.class_attribute(obj.cls, name), obj)


def _bind_static(obj: ObjectVariable, tx: Translator, name: str, raw: Any) -> Variable:
    return tx.wrap(raw.__func__, tx.attribute_source(obj.cls, name).attr("__func__"))


def _bind_class(obj: ObjectVariable, tx: Translator, name: str, raw: Any) -> Variable:
    return of_class(tx, tx.wrap(raw.__func__, tx.attribute_source(obj.cls, name).attr("__func__")), tx.class_of(obj))


def of_class(tx: Translator, function: Variable, cls: Variable) -> Variable:
    """What `classmethod(function)` is for a class."""
    if isinstance(function, PythonFunction):
        return BoundMethod(function, cls)
    kind = function.python_type()
    getter = tx.lookup(kind, "__get__") if CLASSMETHOD_ASKS else MISSING
    if getter is MISSING or DESCRIPTORS.get(kind) is _bind_function:
        if tx.lookup(kind, "__call__") is MISSING:
            raise GraphBreak("descriptor not supported", f"classmethod of {function.describe()}")
        return BoundMethod(function, cls)
    if isinstance(getter, FunctionType):
        return tx.call(tx.class_attribute(kind, "__get__"), [function, cls, cls], {})
    if kind is property:
        return tx.call(function.getattr(tx, "fget"), [cls], {})
    if kind is classmethod:
        return of_class(tx, function.getattr(tx, "__func__"), cls)
    if kind is MethodType:
        return function
    raise GraphBreak("descriptor not supported", f"classmethod of {function.describe()}")


def _namesake(cls: type, *slots: str) -> Any:
    """An instance of a class of the same name, with such slots, for Python's own code to complain about."""
    names = {"__qualname__": cls.__qualname__, "__module__": home_of(cls)}
    return type(cls.__name__, (), {**names, "__slots__": slots} if slots else names)()


def _read_property(obj: ObjectVariable, tx: Translator, name: str, raw: Any) -> Variable:
    if raw.fget is None:
        tx.attempt(raw.__get__, _namesake(obj.cls))
    return tx.call(tx.wrap(raw.fget, tx.attribute_source(obj.cls, name).attr("fget")), [obj], {})


def _read_cached_property(obj: ObjectVariable, tx: Translator, name: str, raw: Any) -> Variable:
    value = tx.call(tx.wrap(raw.func, tx.attribute_source(obj.cls, name).attr("func")), [obj], {})
    tx.ledger.store(obj, name, value)
    return value


#: type of a class attribute -> how it is read through an instance
DESCRIPTORS: dict[type, Callable[[ObjectVariable, Any, str, Any], Variable]] = {
    FunctionType: _bind_function,
    functools._lru_cache_wrapper: _bind_function,
    staticmethod: _bind_static,
    classmethod: _bind_class,
    property: _read_property,
    functools.cached_property: _read_cached_property,
    GetSetDescriptorType: lambda obj, tx, name, raw: obj._getset(tx, name, raw),
}


#: What classes have a native method of their own for, which `object`'s must not pass by.
_NOT_FOR_CLASSES = (object.__setattr__, object.__delattr__)


class ObjectMethod(NativeMethod):
    """A native method that objects inherit (`object.__init__`, `object.__setattr__`, ...), bound."""

    def __init__(self, owner: Variable, name: str, raw: Any) -> None:
        super().__init__(owner, name)
        self.raw = raw

    def python_type(self) -> type:
        return MethodWrapperType

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        native = NATIVE_METHODS.get(self.raw)
        handler = native or OBJECT_METHODS.get(self.name)
        if handler is None or not (native or self._is_plain()) or not takes(handler, tx, self.owner, *args, **kwargs):
            raise GraphBreak("native method of an object", self.describe())
        if self.raw in _NOT_FOR_CLASSES and issubclass(self.owner.python_type(), type):
            tx.raise_(TypeError, f"can't apply this {self.name} to {type_name(self.owner.python_type())} object")
        return handler(tx, self.owner, *args, **kwargs)

    def _is_plain(self) -> bool:
        """Whether the method is `object`'s (or a container's that the owner carries)."""
        if getattr(self.raw, "__objclass__", object) in (object, type):
            return True
        owner: Any = self.owner
        return getattr(owner, "payload", None) is not None and owner.is_of_payload(self.raw)


def _init(tx: Translator, owner: Any, *args: Variable, **kwargs: Variable) -> Variable:
    if getattr(owner, "payload", None) is not None:
        return owner.payload.method(tx, "__init__", list(args), kwargs)
    elif args or kwargs:
        raise GraphBreak("arguments do not fit the function", "object.__init__")
    return ConstantVariable(None)


def _init_object(tx: Translator, owner: Any, *args: Variable, **kwargs: Variable) -> Variable:
    """`object.__init__` itself, which leaves a list or a dict as it is."""
    part = getattr(owner, "payload", None)
    fills = part is not None and lookup(part.python_type(), "__init__") is not object.__init__
    return _init(tx, None if fills else owner, *args, **kwargs)


def _named(tx: Translator, name: Variable) -> Any:
    kind = name.python_type()
    if not issubclass(kind, str):
        tx.raise_(TypeError, f"attribute name must be string, not {type_name(kind)!r}")
    return name.constant()


def _get(tx: Translator, owner: Any, name: Variable) -> Variable:
    if not isinstance(owner, ObjectVariable):  # a class, as what it is an instance of has it
        raise GraphBreak("native method of an object", f"object.__getattribute__ of {owner.describe()}")
    return owner.plain_getattr(tx, _named(tx, name))


def _set(tx: Translator, owner: Any, name: Variable, value: Variable) -> Variable:
    owner.plain_setattr(tx, _named(tx, name), value)
    return ConstantVariable(None)


def _delete(tx: Translator, owner: Any, name: Variable) -> Variable:
    owner.plain_delattr(tx, _named(tx, name))
    return ConstantVariable(None)


def _differs(tx: Translator, owner: Any, other: Variable) -> Variable:
    """The contrary of what `__eq__` says, whoever has that."""
    if lookup(owner.python_type(), "__eq__") is object.__eq__:
        return ConstantVariable(False if owner is other else NotImplemented)
    if not isinstance(owner, ObjectVariable):
        raise GraphBreak("native method of an object", f"object.__ne__ of {owner.describe()}")
    answer = owner.differs(tx, other)
    return ConstantVariable(NotImplemented) if answer is None else answer


#: `object`'s own methods by name; the receiver is the first argument after tx
OBJECT_METHODS: dict[str, Callable[..., Variable]] = {
    "__init__": _init,
    "__init_subclass__": lambda tx, owner, *args: ConstantVariable(None),
    "__setattr__": _set,
    "__delattr__": _delete,
    "__getattribute__": _get,
    "__eq__": lambda tx, owner, other: ConstantVariable(True if owner is other else NotImplemented),
    "__ne__": _differs,
}


#: native method of a class -> handler(tx, owner, *args, **kwargs)
NATIVE_METHODS: dict[Any, Callable[..., Variable]] = {object.__init__: _init_object}
