"""Classes, `super()`, Python modules and the namespace behind `__dict__`."""

from __future__ import annotations

import enum
import gc
import operator
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, cast

import torch

from sideeffects.effects import DELETED
from symbolic.errors import GraphBreak
from symbolic.frames import Frame
from symbolic.passing import namespace_of
from symbolic.sources import Source
from symbolic.variables.base import BINARY, INPLACE, MISSING, UNARY, FixedVariable, Variable, joins, lookup
from symbolic.variables.buffers import BufferVariable, array_of
from symbolic.variables.constants import ConstantVariable, is_a, is_constant_value
from symbolic.variables.containers import DequeVariable, TupleVariable
from symbolic.variables.exceptions import ExceptionVariable
from symbolic.variables.functions import BoundMethod
from symbolic.variables.mappings import DictViewVariable
from symbolic.variables.methods import NativeMethod, native_method
from symbolic.variables.objects import (
    NATIVE_DESCRIPTORS,
    NATIVE_METHODS,
    OBJECT_METHODS,
    ObjectMethod,
    ObjectVariable,
    instance_dict,
    is_asked_first,
    is_data_descriptor,
    is_plain_attribute,
    of_class,
)
from symbolic.variables.positions import HEAP_TYPE, IMMUTABLE, answering, as_index, has, stand_in, type_name

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Modules whose `__init_subclass__`, `__set_name__` and the like look at the class and change it, and do nothing else.
_LIBRARY = frozenset({"typing", "functools", "enum", "abc", "collections"})


def of_the_program(raw: Any) -> bool:
    """Whether a hook is written in Python, and not by the library; objects that are called may do anything."""
    function = getattr(raw, "__func__", raw)
    if isinstance(function, FunctionType):
        return str(function.__module__).partition(".")[0] not in _LIBRARY
    return callable(function) and not isinstance(function, (type, *NATIVE_DESCRIPTORS))


#: What finds a class's own attributes.
_NAMES = type.__dict__["__dict__"]
#: What finds a class's own annotations, or makes them.
ANNOTATIONS = type.__dict__["__annotations__"]


class ClassVariable(FixedVariable):
    """An existing class."""

    value: type

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.value

    def describe(self) -> str:
        return f"class {self.value.__qualname__}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        pending = tx.stored_on_class(self.value, name)
        return pending if pending is not None else self.found(tx, name)

    def found(self, tx: Translator, name: str) -> Variable:
        """The attribute as the class has it, or `value`, which stands for the class."""
        meta = tx.lookup(type(self.value), name)
        raw = tx.lookup(self.value, name)
        if isinstance(meta, property) and type(self.value) is not type:
            return tx.call(tx.class_attribute(type(self.value), name).getattr(tx, "fget"), [self], {})
        if meta is _NAMES:
            return tx.wrap(namespace_of(self.value), tx.source_of(self).attr(name))
        if name in ("__dict__", "__flags__"):  # what flags there are depends on what was looked up so far
            raise GraphBreak("attribute of a class", name)
        if meta is ANNOTATIONS and name not in namespace_of(self.value) and self.value.__flags__ & HEAP_TYPE:
            raise GraphBreak("attribute of a class", "annotations that it has not yet")  # what asks for them makes them
        if isinstance(raw, GetSetDescriptorType) or isinstance(meta, (GetSetDescriptorType, MemberDescriptorType)):
            return self._value(tx, name)
        if raw is MISSING:
            return self._from_metaclass(tx, name, meta)
        if isinstance(raw, staticmethod):
            return tx.wrap(raw.__func__, tx.attribute_source(self.value, name).attr("__func__"))
        if isinstance(raw, classmethod):
            return of_class(tx, tx.wrap(raw.__func__, tx.attribute_source(self.value, name).attr("__func__")), self)
        if isinstance(raw, (FunctionType, property)) or isinstance(raw, NATIVE_DESCRIPTORS):
            value: Any = raw
            if isinstance(raw, NATIVE_DESCRIPTORS) and not isinstance(raw, BuiltinFunctionType):
                value = raw.__get__(None, self.value)
            if isinstance(value, (BuiltinFunctionType, MethodType)) and not isinstance(raw, BuiltinFunctionType):
                return tx.wrap(value, tx.sources.const(value, f"{self.value.__qualname__}.{name}"))
            return tx.class_attribute(self.value, name)
        getter = lookup(type(raw), "__get__")
        if isinstance(getter, FunctionType):
            descriptor = tx.class_attribute(self.value, name)
            return tx.call(tx.class_attribute(type(raw), "__get__"), [descriptor, ConstantVariable(None), self], {})
        return tx.class_attribute(self.value, name)

    def _value(self, tx: Translator, name: str) -> Variable:
        if name in tx.stored_on_classes:
            raise GraphBreak("class attribute that the frame stored", f"{self.value.__qualname__}.{name}")
        value = tx.attempt(getattr, self.value, name)
        return tx.wrap(value, tx.source_of(self).attr(name))

    def _from_metaclass(self, tx: Translator, name: str, meta: Any) -> Variable:
        written = tx.stored_on_class(type(self.value), name)
        if written is not None:
            return written
        if meta is MISSING:
            hook = tx.lookup(type(self.value), "__getattr__")
            if isinstance(hook, FunctionType):
                return tx.call(tx.class_attribute(type(self.value), "__getattr__"), [self, ConstantVariable(name)], {})
            if name not in tx.stored_on_classes:
                tx.know(tx.source_of(self), "no_typeattr", name)
            return tx.raise_(AttributeError, f"type object {self.value.__name__!r} has no attribute {name!r}")
        if isinstance(meta, FunctionType):
            return BoundMethod(tx.class_attribute(type(self.value), name), self)
        if isinstance(meta, NATIVE_DESCRIPTORS):
            return ObjectMethod(self, name, meta)
        return self._value(tx, name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        self._by_metaclass(tx, "__setattr__", self.plain_setattr, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        self._by_metaclass(tx, "__delattr__", self.plain_delattr, name)

    def _by_metaclass(self, tx: Translator, hook: str, plain: Any, name: str, *value: Variable) -> None:
        meta = type(self.value)
        raw = tx.lookup(meta, hook)
        if isinstance(raw, FunctionType):
            tx.call(tx.class_attribute(meta, hook), [self, ConstantVariable(name), *value], {})
        elif raw is not getattr(type, hook):
            raise GraphBreak("store to a class attribute", f"{self.value.__qualname__}.{name}")
        else:
            plain(tx, name, *value)

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        """`type.__setattr__(cls, name, value)`"""
        if self.value.__flags__ & IMMUTABLE:
            tx.attempt(setattr, self.value, name, None)
        if not is_plain_attribute(value):
            raise GraphBreak("descriptor stored to an existing class", f"{self.value.__qualname__}.{name}")
        self._store(tx, name, value)

    def plain_delattr(self, tx: Translator, name: str) -> None:
        """`type.__delattr__(cls, name)`"""
        if self.value.__flags__ & IMMUTABLE:
            tx.attempt(delattr, self.value, name)
        pending = tx.ledger.pending(self, name)
        held = pending is not DELETED if pending is not None else tx.has_own(self.value, name)
        if not held:
            tx.attempt(delattr, type(self.value.__name__, (), {}), name)
        self._store(tx, name, DELETED)

    def _store(self, tx: Translator, name: str, value: Any) -> None:
        described = tx.lookup(type(self.value), name)
        if name.startswith("__") or (described is not MISSING and is_data_descriptor(described)):
            raise GraphBreak("store to a class attribute", f"{self.value.__qualname__}.{name}")
        if self.shown(tx) is not None:
            raise GraphBreak("store to a class whose attributes are shown", f"{self.value.__qualname__}.{name}")
        tx.stored_on_classes.add(name)
        self.put(tx, name, value, lookup(self.value, name))

    def put(self, tx: Translator, name: str, value: Any, before: Any) -> None:
        """A data descriptor that was there took what was stored to instances till now."""
        tx.ledger.store(self, name, value)
        if is_data_descriptor(before):
            tx.ledger.border()

    def shown(self, tx: Translator) -> Variable | None:
        """The dict that its `__dict__` shows, if the frame has looked at that."""
        return tx.known.get(id(gc.get_referents(namespace_of(self.value))[0]))

    # --- instances --------------------------------------------------------------------------------------------------
    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        is_function = isinstance(tx.lookup(self.value, "__init__"), FunctionType)
        if not is_function or not self._plain_call(tx) or issubclass(self.value, (tuple, type)):
            return None  # and nothing has been made: an argument is iterated once
        made = self._new(tx, args, kwargs)
        if not isinstance(made, ObjectVariable):
            return None
        frame = tx.class_attribute(self.value, "__init__").enter(tx, [made, *args], kwargs)
        if frame is not None:
            frame.on_return = made
        return frame

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        construct = NATIVE_CONSTRUCTORS.get(self.value)
        if construct is not None:
            return construct(tx, args, kwargs)
        meta_call = tx.lookup(type(self.value), "__call__")
        if isinstance(meta_call, FunctionType):
            return self._metaclass_call(tx, args, kwargs)
        if isinstance(meta_call, (type, staticmethod)):  # TypedDict has dict there
            return tx.call(tx.getattr(tx.class_variable(type(self.value)), "__call__"), args, kwargs)
        if not isinstance(meta_call, NATIVE_DESCRIPTORS):
            raise GraphBreak("descriptor not supported", f"{type(self.value).__qualname__}.__call__")
        return self.construct(tx, args, kwargs)

    def construct(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """`type.__call__`"""
        made = self._new(tx, args, kwargs)
        if not isinstance(made, (ObjectVariable, ClassVariable)) or self.value not in made.python_type().__mro__:
            return made
        kind = made.python_type()  # `__new__` may have made one of a derived class
        init = tx.lookup(kind, "__init__")
        if isinstance(init, FunctionType):
            check_init(tx, tx.call(tx.class_attribute(kind, "__init__"), [made, *args], kwargs))
        elif isinstance(made, ClassVariable):
            pass  # `type.__init__` does nothing
        elif is_tensor_class(self.value):
            pass  # `__new__` has done all
        elif made.payload is not None:
            _fill(tx, made, args, kwargs)
        elif isinstance(made, ExceptionVariable):
            made.native_init(tx, args, kwargs)
        elif init is SimpleNamespace.__init__:
            _fill_namespace(tx, made, *args, **kwargs)
        elif init is not object.__init__:
            raise GraphBreak("construction by a native __init__", self.describe())
        elif (args or kwargs) and lookup(self.value, "__new__") is object.__new__:
            return tx.raise_(TypeError, f"{self.value.__name__}() takes no arguments")
        return made

    def _metaclass_call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if isinstance(self.value, _EnumMeta) and not self.value.__members__:  # makes a class, another one each time
            return MAKERS[enum.EnumMeta](tx, self, args, kwargs)
        if all(arg.is_constant() for arg in (*args, *kwargs.values())) and isinstance(self.value, _EnumMeta):
            named = {name: arg.constant() for name, arg in kwargs.items()}
            return self._member(tx, tx.attempt(self.value, *(arg.constant() for arg in args), **named))
        return tx.call(tx.class_attribute(type(self.value), "__call__"), [self, *args], kwargs)

    def _member(self, tx: Translator, value: Any) -> Variable:
        """A member of the enum that this is: the constant, or the object that the class has under that name."""
        name: str = getattr(value, "_name_", None) or ""
        members: dict[str, Any] = self.value._member_map_  # type: ignore[attr-defined]
        is_object = not is_constant_value(value) and members.get(name) is value
        return tx.getattr(self, name) if is_object else tx.from_constant(value)

    def _plain_call(self, tx: Translator) -> bool:
        return (
            self.value not in NATIVE_CONSTRUCTORS
            and isinstance(tx.lookup(type(self.value), "__call__"), NATIVE_DESCRIPTORS)
            and not isinstance(tx.lookup(self.value, "__new__"), (FunctionType, staticmethod, classmethod))
        )

    def _new(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """`cls.__new__(cls, *args, **kwargs)`"""
        raw = tx.lookup(self.value, "__new__")
        if isinstance(raw, (staticmethod, FunctionType)):
            source, function = tx.attribute_source(self.value, "__new__"), cast(Any, raw)
            if isinstance(raw, staticmethod):  # a class statement makes it so, a store does not
                source, function = source.attr("__func__"), raw.__func__
            fields = getattr(self.value, "_fields", None) if issubclass(self.value, tuple) else None
            if fields is not None and str(function.__module__).startswith("namedtuple_"):
                bound = tx.function(function).bind(tx, [self, *args], kwargs)
                return TupleVariable([bound[name] for name in fields], None, self.value)
            if function.__module__ == "typing" and issubclass(self.value, tuple):
                raise GraphBreak("construction of a typing class", self.describe())
            return tx.call(tx.wrap(function, source), [self, *args], kwargs)
        if isinstance(raw, classmethod):
            raise GraphBreak("__new__ that is a class method", self.describe())
        if not isinstance(raw, BuiltinFunctionType):
            raise GraphBreak("descriptor not supported", f"{self.value.__qualname__}.__new__")
        return tx.new_instance(self.value, args, kwargs)

    def new_bare(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """`object.__new__(cls)` or a native base's `__new__`."""
        return tx.new_instance(self.value, args, kwargs)

    def of_metaclass(self, tx: Translator, name: str) -> Variable | None:
        """The special method that the program's metaclass has for its classes, if any."""
        raw = tx.lookup(type(self.value), name)
        is_own = isinstance(raw, FunctionType) and of_the_program(raw)
        return BoundMethod(tx.class_attribute(type(self.value), name), self) if is_own else None

    def _operator(self, tx: Translator, name: str, other: Variable) -> Variable | None:
        own = self.of_metaclass(tx, name)
        found = None if own is None else tx.call(own, [other], {})
        return None if isinstance(found, ConstantVariable) and found.value is NotImplemented else found

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._operator(tx, BINARY[op][1], other)

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._operator(tx, INPLACE[op][1], other)

    def unary(self, tx: Translator, op: Any) -> Variable:
        own = self.of_metaclass(tx, UNARY[op])
        return super().unary(tx, op) if own is None else tx.call(own, [], {})

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if self.of_metaclass(tx, BINARY[op][0]) is not None:
            return self._operator(tx, BINARY[op][0], other)
        if isinstance(other, ClassVariable) and other.of_metaclass(tx, BINARY[op][1]) is not None:
            return None
        if op is operator.or_ and joins(other):
            return tx.of_classes(op, self, other)
        if isinstance(other, (ClassVariable, ConstantVariable)):
            return tx.from_constant(tx.attempt(op, self.value, other.value))
        return None

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        if isinstance(self.value, _EnumMeta):
            return self._member(tx, tx.attempt(lambda: self.value[index.constant()]))  # type: ignore[index]
        of_meta = tx.lookup(type(self.value), "__getitem__")
        name = "__class_getitem__" if of_meta is MISSING else "__getitem__"
        if of_the_program(tx.lookup(self.value, name) if of_meta is MISSING else of_meta):
            return tx.call(tx.getattr(self, name), [index], {})
        return tx.of_classes(operator.getitem, self, index)

    def iterator(self, tx: Translator) -> Variable:
        if isinstance(self.value, _EnumMeta):
            return tx.new_tuple([self._member(tx, item) for item in self.value]).iterator(tx)
        own = self.of_metaclass(tx, "__iter__")
        found = super().iterator(tx) if own is None else tx.call(own, [], {})
        if not has(found.python_type(), "__next__"):
            tx.raise_(TypeError, f"iter() returned non-iterator of type {type_name(found.python_type())!r}")
        return found

    def length(self, tx: Translator) -> int:
        own = self.of_metaclass(tx, "__len__")
        asked = self.value if own is None else answering("__len__", as_index(tx, tx.call(own, [], {})))
        return tx.attempt(len, asked)

    def contains(self, tx: Translator, item: Variable) -> bool:
        own = self.of_metaclass(tx, "__contains__")
        if own is not None:
            return tx.truth(tx.call(own, [item], {}))
        return tx.attempt(lambda: item.constant() in self.value)  # type: ignore[operator]

    def truth(self, tx: Translator) -> bool:
        own = self.of_metaclass(tx, "__bool__")
        if own is not None:
            return tx.attempt(bool, answering("__bool__", stand_in(tx.call(own, [], {}))))
        return self.of_metaclass(tx, "__len__") is None or self.length(tx) != 0


def check_init(tx: Translator, result: Variable) -> None:
    if result.python_type() is not NoneType:
        tx.raise_(TypeError, f"__init__() should return None, not '{type_name(result.python_type())}'")


def _fill(tx: Translator, made: ObjectVariable, args: list[Variable], kwargs: dict[str, Variable]) -> None:
    """The native `__init__` of a container subclass."""
    assert made.payload is not None
    made_in_python = isinstance(tx.lookup(made.cls, "__new__"), (FunctionType, staticmethod))
    if made_in_python and tx.lookup(made.cls, "__init__") is object.__init__:
        return  # which lets arguments pass
    if kwargs and not issubclass(made.cls, (dict, deque, bytearray)):
        raise GraphBreak("arguments do not fit the function", made.describe())
    if issubclass(made.cls, dict) and not issubclass(made.cls, defaultdict):
        made.payload.method(tx, "update", args, kwargs)
    elif issubclass(made.cls, (defaultdict, deque, bytearray)):
        made.payload.method(tx, "__init__", args, kwargs)
    elif issubclass(made.cls, list):
        for items in args[:1]:
            made.payload.method(tx, "extend", [items], {})
    elif issubclass(made.cls, set):
        made.payload.method(tx, "update", args, {})


def _fill_namespace(tx: Translator, made: Any, /, *args: Variable, **kwargs: Variable) -> Variable:
    """`SimpleNamespace.__init__`, which asks no `__setattr__`"""
    if args:  # from 3.13 on
        raise GraphBreak("arguments do not fit the function", made.describe())
    for name, value in kwargs.items():
        tx.instance_namespace(made).setitem(tx, ConstantVariable(name), value)
    return ConstantVariable(None)


NATIVE_METHODS[SimpleNamespace.__init__] = _fill_namespace
for _name in ("__getattribute__", "__setattr__", "__delattr__"):
    NATIVE_METHODS[getattr(SimpleNamespace, _name)] = OBJECT_METHODS[_name]


class _SameSubclasses:
    """no other classes derived from it"""

    def __init__(self, found: list[type]) -> None:
        self.found = [weakref.ref(each) for each in found]

    def __call__(self, cls: type) -> bool:
        return type.__subclasses__(cls) == [each() for each in self.found]


def _subclasses(tx: Translator, cls: Variable) -> Variable:
    """Of a class that exists, unless the frame makes some."""
    if not isinstance(cls, ClassVariable) or cls.real() is MISSING or tx.ledger.classes:
        raise GraphBreak("native method of an object", f"{cls.describe()}.__subclasses__")
    found: list[type] = type.__subclasses__(cls.value)
    tx.know(tx.sources.const(cls.value, cls.value.__qualname__), "predicate", _SameSubclasses(found))
    return tx.new_list([tx.class_variable(each) for each in found])


NATIVE_METHODS[type.__subclasses__] = _subclasses
NATIVE_METHODS[type.__getattribute__] = lambda tx, owner, name: owner.getattr(tx, name.constant())
#: Methods that metaclasses call through `super()`.
_OF_TYPE = (type.__call__, type.__init__, type.__setattr__, type.__delattr__, type.__dict__["__prepare__"],
            type.__instancecheck__, type.__subclasscheck__)  # fmt: skip
OBJECT_METHODS["__call__"] = lambda tx, owner, *args, **kwargs: owner.construct(tx, list(args), kwargs)
OBJECT_METHODS["mro"] = lambda tx, owner: tx.new_list([tx.class_variable(cls) for cls in owner.value.__mro__])
_EnumMeta = type(enum.Enum)


def inherits(mro: tuple[type, ...], cls: type) -> bool:
    """Whether a class is among these; a metaclass may have an `==` of its own."""
    return any(base is cls for base in mro)


def _instancecheck(tx: Translator, owner: Any, value: Variable) -> Variable:
    """`type.__instancecheck__`"""
    return ConstantVariable(tx.is_native_instance(value, owner.value))


def _subclasscheck(tx: Translator, owner: Any, child: Variable) -> Variable:
    """`type.__subclasscheck__`"""
    kind, cls = child.constant() if child.is_constant() else child.real(), owner.value
    return ConstantVariable(
        inherits(tx.mro(kind), cls) if is_a(kind, type) else tx.attempt(_SUBCLASSCHECK, cls, kind)
    )


_SUBCLASSCHECK = type.__subclasscheck__
OBJECT_METHODS.update({"__instancecheck__": _instancecheck, "__subclasscheck__": _subclasscheck})

#: classes whose construction is a graph operation or a native table entry; filled by the modules that know them
NATIVE_CONSTRUCTORS: dict[type, Any] = {}
#: metaclasses of the library -> what a call of a class makes that is to have others derived; filled likewise
MAKERS: dict[type, Any] = {}


class SuperVariable(Variable):
    """`super(start, owner)`"""

    def __init__(self, start: type, owner: Variable, source: Source | None = None) -> None:
        self.start = start
        self.owner = owner
        self.source = source

    def python_type(self) -> type:
        return super

    def _is_of_class(self) -> bool:
        """Whether it is `super(start, cls)`, and not of an instance."""
        return isinstance(self.owner, ClassVariable) and self.start in self.owner.value.__mro__

    def _raw(self, tx: Translator, name: str) -> tuple[type, Any]:
        owner: Any = self.owner
        mro = tx.mro(owner.value if self._is_of_class() else owner.python_type())
        for base in mro[mro.index(self.start) + 1 :]:
            if tx.has_own(base, name):
                return base, namespace_of(base)[name]
        return object, MISSING

    def getattr(self, tx: Translator, name: str) -> Variable:
        base, raw = self._raw(tx, name)
        owner = self.owner
        if name == "__class__":
            return tx.class_variable(super)
        if raw is MISSING and name in ("__self__", "__self_class__"):
            return owner if name == "__self__" or self._is_of_class() else tx.class_of(owner)
        if raw is MISSING and name in super.__dict__:
            if name != "__thisclass__":
                raise GraphBreak("super() attribute", name)
            return tx.class_variable(self.start)
        if raw is MISSING:
            return tx.raise_(AttributeError, f"'super' object has no attribute {name!r}")
        if (name == "__new__" and not isinstance(raw, FunctionType)) or isinstance(raw, staticmethod):
            if isinstance(raw, staticmethod):
                return tx.wrap(raw.__func__, tx.attribute_source(base, name).attr("__func__"))
            return NativeNew(base)
        if isinstance(raw, classmethod):
            bound = owner if isinstance(owner, ClassVariable) else tx.class_of(owner)
            return of_class(tx, tx.wrap(raw.__func__, tx.attribute_source(base, name).attr("__func__")), bound)
        if isinstance(raw, FunctionType):
            function = tx.class_attribute(base, name)
            return function if self._is_of_class() else BoundMethod(function, owner)
        if isinstance(raw, property):
            found = tx.class_attribute(base, name)
            return found if self._is_of_class() else tx.call(found.getattr(tx, "fget"), [owner], {})
        if isinstance(owner, ObjectVariable):
            if isinstance(raw, NATIVE_DESCRIPTORS):
                if isinstance(raw, ClassMethodDescriptorType):  # whose class is the owner's
                    raise GraphBreak("super() attribute", f"{base.__qualname__}.{name}")
                if issubclass(base, torch.Tensor) or base is torch._C.TensorBase:
                    return owner._describe(tx, name, raw)
                if owner.payload is not None and getattr(raw, "__objclass__", object) is not object:
                    if lookup(owner.payload.python_type(), name) is not raw:  # Counter's is not that of dict
                        raise GraphBreak("super() attribute", f"{base.__qualname__}.{name}")
                    return NativeMethod(owner.payload, name)
                return ObjectMethod(owner, name, raw)
            return owner._describe(tx, name, raw)
        if self._is_of_class() and isinstance(raw, (MethodDescriptorType, WrapperDescriptorType)):
            return tx.class_attribute(base, name)
        if isinstance(raw, NATIVE_DESCRIPTORS) and (name == "__init_subclass__" or raw in _OF_TYPE):
            return ObjectMethod(owner, name, raw)
        raise GraphBreak("super() attribute", f"{base.__qualname__}.{name}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        raise GraphBreak("store through super()", name)

    def reachable(self) -> list[Variable]:
        return [self.owner]


class NativeNew(Variable):
    """`object.__new__` or another native `__new__`."""

    def __init__(self, base: type) -> None:
        self.base = base

    def python_type(self) -> type:
        return BuiltinFunctionType

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if not args:
            tx.attempt(self.base.__new__)
        cls = args[0]
        if not isinstance(cls, ClassVariable):
            raise GraphBreak("__new__ of a class not known", cls.describe())
        own = [lookup(cls.value, name) is not getattr(object, name) for name in ("__new__", "__init__")]
        if self.base is object and (args[1:] or kwargs) and own != [False, True]:  # others object.__new__ refuses
            raise GraphBreak("arguments do not fit the function", f"object.__new__ of {cls.describe()}")
        return cls.new_bare(tx, args[1:], kwargs)


class PythonModuleVariable(FixedVariable):
    """An existing Python module; attributes are read like globals."""

    value: ModuleType

    def describe(self) -> str:
        return f"module {self._name()}"

    def _name(self) -> Any:
        return self.value.__dict__.get("__name__", "?")

    def getattr(self, tx: Translator, name: str) -> Variable:
        space = tx.namespace(self.value.__dict__)
        if name == "__dict__":
            return space
        found = space.find(tx, name)
        if found is not None:
            return found
        if name in self.value.__dict__:
            return self._deleted(tx, space, name)
        if name == "__annotations__" and lookup(type(self.value), name) is lookup(ModuleType, name):
            space.store(tx, name, made := tx.new_dict([]))  # what asks for them makes them
            return made
        hook = self.value.__dict__.get("__getattr__")
        if isinstance(hook, FunctionType) and str(hook.__module__).partition(".")[0] not in ("torch", "numpy"):
            return tx.call(space.getitem(tx, ConstantVariable("__getattr__")), [ConstantVariable(name)], {})
        value = tx.attempt(getattr, self.value, name)  # lazily importing modules of libraries answer here
        if name in self.value.__dict__:
            found = space.find(tx, name)
            assert found is not None
            return found
        if is_constant_value(value) and self.source is not None:  # flags of torch's, which its modules look up
            return tx.wrap(value, self.source.attr(name))
        return tx.wrap(value, tx.sources.const(value, f"{self._name()}.{name}"))

    def _deleted(self, tx: Translator, space: Any, name: str) -> Variable:
        """An attribute that the frame deleted."""
        hook = space.find(tx, "__getattr__")
        if hook is not None:
            return tx.call(hook, [ConstantVariable(name)], {})
        if type(self.value) is not ModuleType or hasattr(ModuleType, name):
            raise GraphBreak("attribute deletion not supported", f"{self.describe()}.{name}")
        return tx.raise_(AttributeError, f"module {self._name()!r} has no attribute {name!r}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        raw = lookup(type(self.value), name)
        if raw is not MISSING and is_data_descriptor(raw):
            raise GraphBreak("store to a native attribute", f"{self.describe()}.{name}")
        tx.ledger.store(tx.namespace(self.value.__dict__), name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        space = tx.namespace(self.value.__dict__)
        if space.find(tx, name) is None:
            tx.attempt(delattr, ModuleType(self._name()), name)
        tx.ledger.store(space, name, DELETED)


class InstanceNamespace(Variable):
    """`obj.__dict__` of an object: a view over its attributes, the pending ones included."""

    cls = dict

    def __init__(self, owner: ObjectVariable, tx: Translator) -> None:
        self.owner = owner
        self.tx = tx
        self.source = owner.source.step("dict") if owner.source is not None else None

    def python_type(self) -> type:
        return dict

    def find(self, tx: Translator, name: str) -> Variable | None:
        pending = tx.ledger.pending(self.owner, name)
        if pending is not None:
            return None if pending is DELETED or self._is_slot(name) else pending
        if self.owner.value is MISSING:
            return None
        return self.owner._existing(tx, name, MISSING)

    @property
    def state(self) -> tuple[str, ...]:
        return tuple(self._names(self.tx))

    def _names(self, tx: Translator) -> list[str]:
        """Those of all attributes, in dict order."""
        names: list[str] = []
        if self.owner.value is not MISSING:
            stored = instance_dict(self.owner.value) or {}
            assert self.owner.source is not None
            tx.know(self.owner.source.step("dict"), "keys", tuple(stored))
            gone = {name for name in stored if tx.ledger.pending(self.owner, name) is DELETED}
            names = [name for name in stored if name not in gone and not tx.ledger.renewed(self.owner, name)]
        stores = tx.ledger.stores(self.owner)
        new = [name for name, value in stores.items() if value is not DELETED and name not in names]
        return names + [name for name in new if not self._is_slot(name)]

    def _is_slot(self, name: str) -> bool:
        return isinstance(self.tx.descriptor(self.owner.cls, name), MemberDescriptorType)

    def pairs(self, tx: Translator) -> list[tuple[Variable, Variable]]:
        """All attributes."""
        found = [(ConstantVariable(name), self.find(tx, name)) for name in self._names(tx)]
        return [(name, value) for name, value in found if value is not None]

    def names(self, tx: Translator) -> dict[Any, Variable]:
        return {name: ConstantVariable(name) for name in self._names(tx)}

    def lookup(self, tx: Translator, key: Variable) -> Variable | None:
        return self.find(tx, key.constant())

    def _lookup(self, tx: Translator, hashed: Any, key: Variable) -> Variable | None:
        return self.find(tx, hashed)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        found = self.find(tx, index.constant())
        return found if found is not None else tx.raise_(KeyError, index.constant())

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        self._store(tx, index.constant(), value)

    def delitem(self, tx: Translator, index: Variable) -> None:
        if self.find(tx, index.constant()) is None:
            tx.raise_(KeyError, index.constant())
        self._store(tx, index.constant(), DELETED)

    def _store(self, tx: Translator, name: str, value: Any) -> None:
        # The ledger knows attributes only. What reads one asks a descriptor first, but a slot and native ones.
        raw = tx.descriptor(self.owner.cls, name)
        is_beside = is_data_descriptor(raw)
        if not isinstance(name, str) or (is_beside and not is_asked_first(raw)):
            raise GraphBreak("store into an instance __dict__ beside a descriptor", f"{self.owner.describe()}.{name}")
        tx.ledger.store(self.owner, name, value, is_beside)

    def contains(self, tx: Translator, item: Variable) -> bool:
        return self.find(tx, item.constant()) is not None

    def length(self, tx: Translator) -> int:
        return len(self._names(tx))

    def truth(self, tx: Translator) -> bool:
        return self.length(tx) != 0

    def iterator(self, tx: Translator) -> Variable:
        return DictViewVariable(self, "keys").iterator(tx)

    def as_dict(self, tx: Translator) -> Variable:
        return tx.new_dict(self.pairs(tx))

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self.as_dict(tx).binary(tx, op, other)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self.as_dict(tx).rbinary(tx, op, other)

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op is not operator.ior:
            return None
        self.method(tx, "update", [other], {})
        return self

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name == "get" and not kwargs:
            found = self.find(tx, args[0].constant())
            return found if found is not None else args[1] if len(args) > 1 else ConstantVariable(None)
        if name == "pop" and args:
            found = self.find(tx, args[0].constant())
            if found is None:
                return args[1] if len(args) > 1 else tx.raise_(KeyError, args[0].constant())
            self._store(tx, args[0].constant(), DELETED)
            return found
        if name == "update":
            for key, value in tx.new_dict([]).incoming(tx, args, kwargs):
                self.setitem(tx, key, value)
            return ConstantVariable(None)
        if name == "setdefault" and args and not kwargs:
            found = self.find(tx, args[0].constant())
            if found is None:
                found = args[1] if len(args) > 1 else ConstantVariable(None)
                self.setitem(tx, args[0], found)
            return found
        if name == "clear" and not (args or kwargs):
            for key, _ in self.pairs(tx):
                self._store(tx, key.constant(), DELETED)
            return ConstantVariable(None)
        if name == "popitem" and not (args or kwargs) and (pairs := self.pairs(tx)):
            self._store(tx, pairs[-1][0].constant(), DELETED)
            return tx.new_tuple(list(pairs[-1]))
        if name in ("items", "keys", "values") and not (args or kwargs):
            return DictViewVariable(self, name)
        if name == "copy":
            return self.as_dict(tx)
        raise GraphBreak("method of an instance __dict__", name)

    def getattr(self, tx: Translator, name: str) -> Variable:
        return native_method(tx, self, name)

    def reachable(self) -> list[Variable]:
        return [self.owner]


def payload_for(tx: Translator, cls: type, args: list[Variable]) -> Variable | None:
    """The empty native part of a new instance of a builtin container's subclass; None if there is none."""
    if issubclass(cls, OrderedDict):
        return tx.new_dict([], OrderedDict)
    if issubclass(cls, defaultdict):
        return tx.new_dict([], defaultdict)
    if issubclass(cls, dict):
        return tx.new_dict([])
    if issubclass(cls, list):
        return tx.new_list([])
    if issubclass(cls, deque):
        return DequeVariable([])
    if issubclass(cls, bytearray):
        return BufferVariable(bytearray())
    if issubclass(cls, array):
        return array_of(tx, *args)
    if issubclass(cls, tuple):
        return tx.new_tuple(tx.unpack(args[0]) if args else [])
    if issubclass(cls, set):
        return tx.new_set([])
    if issubclass(cls, frozenset):
        if len(args) > 1:
            raise GraphBreak("construction by a native __new__", cls.__qualname__)
        made = tx.new_set([], frozenset)
        for items in args:
            made.update(tx, items)  # type: ignore[attr-defined]
        return made
    if issubclass(cls, (int, str, float, bytes)):
        base = next(b for b in (int, str, float, bytes) if issubclass(cls, b))
        return tx.from_constant(tx.call(tx.class_variable(base), args, {}).constant())
    return None


def is_tensor_class(cls: type) -> bool:
    return issubclass(cls, torch.Tensor)
