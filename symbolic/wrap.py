"""From an existing Python object to its variable: one table by exact type, then a short list of families."""

from __future__ import annotations

import enum
import functools
import gc
import threading
import typing
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import CO_NESTED
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    GenericAlias,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.hooks import RemovableHandle

from symbolic.errors import GraphBreak, SkipFrame, bare
from symbolic.passing import home_of, namespace_of
from symbolic.sources import Source
from symbolic.variables import (  # noqa: F401  (most fill the tables)
    agreement,
    aliases,
    arrays,
    autograd_functions,
    builtins,
    checkpoints,
    class_making,
    context_vars,
    control_flow,
    dispatched,
    filled,
    gradients,
    hook_dicts,
    hooks,
    inspected,
    library_values,
    nodes,
    numpy_conversions,
    optimizers,
    randoms,
    run_text,
    stdlib,
    subclasses,
    tables,
    tensor_attributes,
    torch_functions,
    transforms,
    weak,
)
from symbolic.variables.base import MISSING, OpaqueVariable, Variable, lookup
from symbolic.variables.born import holds_model
from symbolic.variables.buffers import BufferVariable, empty_like
from symbolic.variables.classes import ClassVariable, NativeNew, PythonModuleVariable, SuperVariable
from symbolic.variables.constants import (
    CONSTANT_TYPES,
    LIBRARY_TYPES,
    ConstantVariable,
    SliceVariable,
    is_a,
    is_constant_value,
    is_library_value,
    is_member,
    same_constant,
)
from symbolic.variables.containers import DequeVariable, ListVariable, TupleVariable, is_named
from symbolic.variables.exceptions import ExistingException
from symbolic.variables.functions import BoundMethod, CellVariable, FunctionVariable, PartialVariable
from symbolic.variables.live import ROWS, wrap_iterator
from symbolic.variables.live_generators import wrap_generator
from symbolic.variables.mappings import DictVariable, SetVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.native import is_hashed_by_identity, stored_key
from symbolic.variables.objects import ObjectVariable, instance_dict
from symbolic.variables.proxies import ProxyVariable
from symbolic.variables.sets import HasElements, membership
from symbolic.variables.shown import ShownObjects, is_context
from symbolic.variables.tables import BuiltinVariable
from symbolic.variables.torch_functions import TorchFunction
from symbolic.varying import leaves, some_vary, varies

if TYPE_CHECKING:
    from symbolic.translator import Translator

TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def wrap(tx: Translator, value: Any, source: Source) -> Variable:
    """The variable for `value` found at `source`; the facts that choose its kind are guarded."""
    begin, known = len(tx.repeats.log), len(tx.known)
    variable = _wrapped(tx, value, source)
    tx.repeats.found(begin, value, source, variable, len(tx.known) > known)
    return variable


def _wrapped(tx: Translator, value: Any, source: Source) -> Variable:
    kind = type(value)
    if kind not in _NO_CONSTANTS:
        if (kind in CONSTANT_TYPES and (kind is not int or is_constant_value(value))) or is_member(value):
            return _constant(tx, value, source)
        if is_library_value(value) and _is_part_of_program(source):
            _fixed(tx, value, source)
            return ConstantVariable(value, source)
    known = tx.known.get(id(value))
    if known is not None:
        if known.source is not source and known.source is not None:
            _alias(tx, value, known, source)
        return known
    if source.kind == "const" and holds_model(tx, value):
        raise GraphBreak("object made while tracing that holds a class of the frame", source.text)
    try:
        variable = _make(tx, value, source)
    except GraphBreak as cause:
        # Carrying it around is no harm; what is done with it breaks.
        tx.know(source, "type", type(value))
        variable = OpaqueVariable(value, source, bare(cause))
    tx.known[id(value)] = variable
    tx.keepalive.append(value)
    return variable


def _alias(tx: Translator, value: Any, known: Variable, source: Source) -> None:
    """A second path to a known object: by identity if it is one of the program's fixed parts, else as an alias."""
    kinds = (FunctionType, type, ModuleType, BuiltinFunctionType)
    is_fixed = is_a(value, kinds) and not isinstance(known, NativeMethod)
    pin = known.pin if isinstance(known, FunctionVariable) else None
    if pin is not None and source.kind == "const":
        pin()
    elif (is_fixed and pin is None) or type(value) in tx.options.unwrap:
        _fixed(tx, value, source)
    elif source.kind != "const":
        assert known.source is not None
        if known.source.kind == "const" or known.source.is_made:  # a part of what is made is a fixed part
            tx.know(source, "is", value)
        else:
            tx.know(source, "same", known.source)


def _is_part_of_program(source: Source) -> bool:
    """Whether the path leads to a global, an attribute of a class or something fixed already."""
    of_globals = source.kind == "item" and source.base is not None and source.base.kind == "const"
    return of_globals or source.kind in ("const", "typeattr")


def _fixed(tx: Translator, value: Any, source: Source) -> None:
    if source.kind != "const":
        tx.know(source, "is", value)


def _make(tx: Translator, value: Any, source: Source) -> Variable:
    make = WRAP.get(type(value))
    if make is not None:
        return make(tx, value, source)
    if is_a(value, torch.Tensor):
        return _tensor(tx, value, source)
    if torch_functions.is_torch_function(value):
        _fixed(tx, value, source)
        return TorchFunction(value, source)
    if is_a(value, type):
        return _class(tx, value, source)
    if tables.lookup(value):
        _fixed(tx, value, source)
        return BuiltinVariable(value, source)
    unwrap = tx.options.unwrap.get(type(value))
    if unwrap is not None:
        _fixed(tx, value, source)
        return unwrap(tx, value, source)
    if is_a(value, _DESCRIPTOR_TYPES):
        return _builtin(tx, value, source)
    if is_a(value, _FIXED_TYPES):
        _fixed(tx, value, source)
        return ObjectVariable(type(value), value, source)
    return _object(tx, value, source)


_DESCRIPTOR_TYPES = (MethodDescriptorType, WrapperDescriptorType, type(dict.fromkeys))
_FIXED_TYPES = (
    property,
    staticmethod,
    classmethod,
    functools.cached_property,
    CodeType,
    typing.TypeVar,
    type(int | str),
)


def _constant(tx: Translator, value: Any, source: Source) -> Variable:
    if type(value) in (int, float) and not source.is_made and varies(tx, value, source):
        return tx.graph.add_number(value, source)
    has_others = type(value) is slice and not is_constant_value(value)
    if has_others or type(value) is slice and not source.is_made and some_vary(tx, value, source):
        tx.know(source, "type", slice)
        return SliceVariable([tx.wrap(part, at) for at, part in leaves(source, value)], source, value)
    if source.kind != "const":
        by_identity = value is None or value is True or value is False or is_a(value, enum.Enum)
        tx.know(source, "is" if by_identity else "eq", value)
        if type(value) is int and tx.repeats.operations.is_on:
            return tx.repeats.operations.number(value, source)
    return ConstantVariable(value, source)


def _tensor(tx: Translator, value: torch.Tensor, source: Source) -> Variable:
    if type(value) not in TENSOR_TYPES:
        known = dispatched if dispatched.answers(type(value)) else subclasses
        return known.existing(tx, value, source)
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise GraphBreak("tensor inside a function transform", source.text)
    if is_traceable_wrapper_subclass(value) or value.layout is not torch.strided or _exotic(value):
        raise GraphBreak("tensor layout not supported", str(value.layout))
    if source.kind == "const" or source.root.kind == "born":
        raise GraphBreak("tensor constant", source.text)
    base = None if value.is_inference() else value._base
    if base is not None and not (base.layout is torch.strided and _lie_together(value, base)):
        raise GraphBreak("view that lies elsewhere than its base", source.text)  # a stand-in would lie with its own
    return tx.graph.add_input(value, source)


def _lie_together(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata


def _exotic(value: torch.Tensor) -> bool:
    return value.is_nested or value.is_quantized


def _list(tx: Translator, value: list[Any], source: Source) -> Variable:
    tx.know(source, "type", type(value))
    variable = ListVariable([], source)
    variable.was = value
    variable.unread = functools.partial(_elements, tx, value, source, "index")
    return variable


#: Numbers of one list that may vary: where more do it is data, and not worth a symbol for each.
MOST_VARYING = 128


def _elements(tx: Translator, value: Any, source: Source, step: str) -> list[Variable]:
    if is_a(value, deque):
        value = elements_of(value)
    tx.know(source, "len", len(value))
    if len(value) > MOST_VARYING:
        different = sum(some_vary(tx, item, source.step(step, i)) for i, item in enumerate(value))
        if different > MOST_VARYING:
            tx.data.add(source)
    return [tx.wrap(item, source.step(step, i)) for i, item in enumerate(value)]


def _tuple(tx: Translator, value: tuple[Any, ...], source: Source) -> Variable:
    is_constant = type(value) is tuple and all(is_constant_value(item) for item in value)
    if is_constant and (source.is_made or not some_vary(tx, value, source)):
        if source.kind != "const":
            tx.know(source, "eq", value)
        items = [_found(ConstantVariable(item), source, "index", i) for i, item in enumerate(value)]
        return TupleVariable(items, source)
    tx.know(source, "type", type(value))
    tx.know(source, "len", len(value))
    items = [tx.wrap(item, source.step("index", i)) for i, item in enumerate(value)]
    return TupleVariable(items, source, type(value))


def _deque(tx: Translator, value: deque[Any], source: Source) -> Variable:
    tx.know(source, "type", deque)
    return _deque_part(tx, value, source)


def _deque_part(tx: Translator, value: deque[Any], source: Source) -> DequeVariable:
    tx.know(source.attr("maxlen"), "eq", value.maxlen)
    variable = DequeVariable([], value.maxlen, source)
    variable.was = value
    if type(value).__getitem__ is deque.__getitem__ and type(value).__len__ is deque.__len__:
        variable.unread = functools.partial(_elements, tx, value, source, "getitem")
    else:  # nobody is to be asked
        items = elements_of(value)
        variable.unread = functools.partial(_elements, tx, items, source.step("call", elements_of), "index")
    return variable


def elements_of(value: Any) -> tuple[Any, ...]:
    """Those of a deque or set, in the order of iteration, whatever the user's class makes of that."""
    kind: Any = next(kind for kind in (set, frozenset, deque) if is_a(value, kind))
    return tuple(kind.__iter__(value))


def order_of_copy(value: Any) -> tuple[int, ...]:
    """Where the elements of a copy of a set are in itself, in the order of iteration."""
    places = {id(element): at for at, element in enumerate(elements_of(value))}
    return tuple([places[id(element)] for element in set(value)])


def _buffer(tx: Translator, value: Any, source: Source) -> Variable:
    tx.know(source, "type", type(value))
    return _buffer_part(tx, value, source)


def _buffer_part(tx: Translator, value: Any, source: Source) -> BufferVariable:
    if is_a(value, array):
        tx.know(source.attr("typecode"), "eq", value.typecode)
    return BufferVariable(empty_like(value), source, value)


def _dict(tx: Translator, value: dict[Any, Any], source: Source) -> Variable:
    owner = tx.owners.get(id(value))
    if owner is not None:  # the `__dict__` of an object that the frame knows: one place under two names
        space = tx.instance_namespace(owner)
        assert space.source is not None
        tx.know(source, "same", space.source)
        return space
    tx.know(source, "type", type(value))
    of_hooks = source.kind == "referent" or (source.kind in ("item", "attr") and source.arg in hook_dicts.NAMES)
    kind = hook_dicts.HooksVariable if of_hooks else DictVariable
    made = kind({}, source, type(value), _factory(tx, value, source), value=value)
    made.shown = tx.spaces.get(id(value))
    return made


def another_dict(tx: Translator, value: Any, source: Source, like: Any) -> Variable | None:
    """The variable for a plain dict, or OrderedDict, that is taken in as another was; None if more is known of it."""
    at = id(value)
    if type(value) is not like.cls or at in tx.known or at in tx.owners or at in tx.spaces:
        return None
    tx.know(source, "type", like.cls)
    made = tx.known[at] = type(like)({}, source, like.cls, value=value)
    tx.keepalive.append(value)
    return made


def _proxy(tx: Translator, view: MappingProxyType[Any, Any], source: Source) -> Variable:
    """What the frame stored to a class is not in the dict that its proxy shows."""
    tx.know(source, "type", MappingProxyType)
    for cls in tx.known.values() if tx.stored_on_classes else ():
        if not isinstance(cls, ClassVariable) or id(cls.value) in tx.ledger.classes or not tx.ledger.touched(cls):
            continue
        if shown_by(namespace_of(cls.value)) is shown_by(view):
            raise GraphBreak("store to a class whose attributes are shown", cls.describe())
    if shows_dict(view):
        tx.know(source, "predicate", shows_dict)
        shown = tx.wrap(shown_by(view), source.step("call", shown_by))
        if isinstance(shown, DictVariable):
            return ProxyVariable(shown, source, view)
    raise GraphBreak("view of a mapping that is no plain dict", source.text)


def shown_by(view: MappingProxyType[Any, Any]) -> Any:
    return gc.get_referents(view)[0]


def shows_dict(view: MappingProxyType[Any, Any]) -> bool:
    """shows a dict of Python's own"""
    return type(shown_by(view)) in (dict, OrderedDict, defaultdict, Counter)


def _factory(tx: Translator, value: Any, source: Source) -> Variable | None:
    if not is_a(value, defaultdict) or value.default_factory is None:
        return None
    return tx.wrap(value.default_factory, source.attr("default_factory"))


def _set(tx: Translator, value: Any, source: Source) -> Variable:
    tx.know(source, "type", type(value))
    return _set_part(tx, value, source)


def _set_part(tx: Translator, value: Any, source: Source) -> SetVariable:
    """Of constants and classes it is known which they are; objects are read by their places."""
    kind = set if is_a(value, set) else frozenset
    elements = elements_of(value)
    if not all(is_constant_value(item) or is_a(item, type) for item in elements):
        return SetVariable({}, source, kind, unread=_Places(tx, source, kind, value, elements), existing=value)
    tx.know(source, "predicate", HasElements(elements))
    items = [_found(tx.from_constant(item), source, "call", _Among(type(item), item)) for item in elements]
    return SetVariable({item.key(): item for item in items}, source, kind, existing=value)


def _found(variable: Any, *place: Any) -> Any:
    if isinstance(variable, ConstantVariable):
        variable.found_at = place
    return variable


@dataclass(frozen=True)
class _Among:
    """The element of a set that is this constant."""

    kind: type
    value: Any
    __name__ = "element"

    def __call__(self, container: Any) -> Any:
        return next(element for element in elements_of(container) if same_constant(element, self.value))

    def written(self, container: str) -> str:
        return f"element({container}, {self.value!r})"


@dataclass(frozen=True)
class _Places:
    """The elements of an existing set of objects: the i-th is whatever comes i-th."""

    tx: Translator
    source: Source
    kind: type
    value: Any
    elements: tuple[Any, ...]

    @functools.cached_property
    def asks(self) -> bool:
        """Whether the program says what some elements are equal to."""
        return any(is_a(lookup(kind, "__hash__"), FunctionType) for kind in set(map(type, self.elements)))

    @property
    def place(self) -> Source:
        return self.source.step("call", elements_of)

    @property
    def is_exact(self) -> bool:
        return type(self.value) is self.kind

    def copied(self) -> tuple[int, ...]:
        order = order_of_copy(self.value)
        self.tx.know(self.source.step("call", order_of_copy), "eq", order)
        return order

    def __len__(self) -> int:
        self.tx.know(self.place, "len", len(self.elements))
        return len(self.elements)

    def has(self, item: Variable) -> bool | None:
        """Guarded for that item alone, wherever it comes in the order."""
        tx, source, real = self.tx, item.source, item.real()
        if self.asks or not is_hashed_by_identity(item):
            return None
        if source is None and real is MISSING:
            return False  # it is new
        if source is None or source.is_made or self.source.is_made:
            return None
        answer = any(each is real or tx.known.get(id(each)) is item for each in self.elements)
        tx.know(tx.sources.several((source, self.source)), "predicate", membership(self.kind, self.is_exact, answer))
        tx.repeats.tell(None)  # it is of two places
        return answer

    def read(self) -> dict[Any, Variable]:
        items = _elements(self.tx, self.elements, self.place, "index")
        return {stored_key(self.tx, item): item for item in items}


def _is_made_in_calls(function: FunctionType) -> bool:
    """Lambdas and functions in functions, which their callers make for each call."""
    return bool(function.__code__.co_flags & CO_NESTED) or function.__code__.co_name == "<lambda>"


def _function(tx: Translator, value: FunctionType, source: Source) -> Variable:
    if torch_functions.is_torch_function(value):
        _fixed(tx, value, source)
        return TorchFunction(value, source)
    if tables.lookup(value):
        _fixed(tx, value, source)
        return BuiltinVariable(value, source)
    if source.kind == "const":
        return FunctionVariable(value, source)
    if not (value.__closure__ or source.kind == "value" or _is_made_in_calls(value)):
        tx.know(source, "function", (value, value.__code__, value.__defaults__, value.__kwdefaults__))
        return FunctionVariable(value, source)
    parts = (value.__defaults__, source.attr("__defaults__")), (value.__kwdefaults__, source.attr("__kwdefaults__"))
    tx.know(source, "function", (None, value.__code__, *(None if part is None else ... for part, _ in parts)))
    for part, place in parts:  # which are made anew, too: what a call takes of them is guarded where it takes it
        if part is not None:
            tx.know(place, "type", type(part))
            tx.know(place, *(("keys", tuple(part)) if is_a(part, dict) else ("len", len(part))))
    tx.know(source.attr("__globals__"), "is", value.__globals__)
    return FunctionVariable(value, source, functools.partial(tx.know, source, "is", value))


def _method(tx: Translator, value: MethodType, source: Source) -> Variable:
    tx.know(source, "type", MethodType)
    function = tx.wrap(value.__func__, source.attr("__func__"))
    return BoundMethod(function, tx.wrap(value.__self__, source.attr("__self__")), source, value)


def _class(tx: Translator, value: type, source: Source) -> Variable:
    if is_a(lookup(type(value), "__getattribute__"), FunctionType):  # we had run that ourselves
        raise GraphBreak("attribute access not supported", f"class with {type(value).__qualname__}.__getattribute__")
    if value.__mro__ is None:  # what it inherits is what is being computed
        raise SkipFrame("a class that is not made yet")
    if not all(_TEXT.issuperset(map(type, namespace_of(base))) for base in value.__mro__):
        raise GraphBreak("attributes with names that are no strings", source.text)
    _fixed(tx, value, source)
    if tables.lookup(value):
        return BuiltinVariable(value, source)
    return ClassVariable(value, source)


def _is_looked_up(value: Any, owner: Any) -> bool:
    """Whether it is what `owner` has by that name, another object each time that it is looked up. (`super().append` may
    be something else; so may be what is in a `__dict__`.)"""
    kind = type(owner)
    if kind is GeneratorType or (kind.__dictoffset__ and kind not in TENSOR_TYPES):
        return False
    method = lookup(kind, value.__name__)
    return type(method) in (MethodDescriptorType, WrapperDescriptorType) and method.__get__(owner, kind) == value


def _builtin(tx: Translator, value: Any, source: Source) -> Variable:
    owner = getattr(value, "__self__", None)
    is_fixed = _is_part_of_program(source) and type(owner) is not list  # whose `append` hears, as of warnings
    if not is_fixed and not is_a(owner, (NoneType, ModuleType, type)):
        if _is_looked_up(value, owner):
            tx.know(source, "type", type(value))
            tx.know(source.attr("__name__"), "eq", value.__name__)
            return NativeMethod(tx.wrap(owner, source.attr("__self__")), value.__name__, source, value)
        if not tables.has_row(value):  # a guard of it would keep its owner, and would not hold again
            raise GraphBreak("bound method of an object", source.text)
    _fixed(tx, value, source)
    if getattr(value, "__name__", "") == "__new__" and isinstance(owner, type):
        return NativeNew(owner)
    if torch_functions.is_torch_function(value):
        return TorchFunction(value, source)
    return BuiltinVariable(value, source)


def _schema(tx: Translator, value: Any, source: Source) -> Variable:
    _fixed(tx, value, source)
    return torch_functions.SchemaVariable(value, source)


def _module(tx: Translator, value: ModuleType, source: Source) -> Variable:
    _fixed(tx, value, source)
    return PythonModuleVariable(value, source)


def _partial(tx: Translator, value: Any, source: Source) -> Variable:
    tx.know(source, "type", functools.partial)
    function = tx.wrap(value.func, source.attr("func"))
    args = [tx.wrap(arg, source.attr("args").step("index", i)) for i, arg in enumerate(value.args)]
    tx.know(source.attr("args"), "len", len(value.args))
    tx.know(source.attr("keywords"), "keys", tuple(value.keywords))
    keywords = {k: tx.wrap(v, source.attr("keywords").step("item", k)) for k, v in value.keywords.items()}
    return PartialVariable(function, args, keywords, source, value)


def _is_partial(cls: type) -> bool:
    """Whether it is the native class or derived from it, also from that of another copy of its module."""
    named = [base for base in cls.__mro__ if base.__name__ == "partial" and home_of(base) == "functools"]
    return any(is_a(namespace_of(base).get("__new__"), BuiltinFunctionType) for base in named)


_TEXT = frozenset({str})


def _object(tx: Translator, value: Any, source: Source) -> Variable:
    """An instance of a class without a rule of its own; the native part of a container subclass is its payload."""
    cls = type(value)
    if is_context(value):
        return ShownObjects(tx, value, source)
    if is_a(value, threading.local):
        raise GraphBreak("state of a thread", source.text)
    if _is_partial(cls):  # its `__dict__` would be made by asking for it, and partials of it see that
        raise GraphBreak("subclass of a builtin container", cls.__qualname__)
    if source.kind != "const":
        tx.know(source, "type", cls)
    namespace = instance_dict(value)
    if namespace is not None and id(namespace) in tx.known:
        raise GraphBreak("object whose __dict__ is another value of the frame", source.text)
    if namespace and not _TEXT.issuperset(map(type, namespace)):
        raise GraphBreak("attributes with names that are no strings", source.text)
    payload: Variable | None = None
    if is_a(value, dict):
        payload = DictVariable({}, source, _native_base(cls), _factory(tx, value, source), value=value)
    elif is_a(value, list):
        tx.know(source, "len", list.__len__(value))
        elements = [tx.wrap(v, source.step("index", i)) for i, v in enumerate(list.__iter__(value))]
        payload = ListVariable(elements, source)
        payload.was = value
    elif is_a(value, tuple):
        return _tuple(tx, value, source) if is_named(cls) else _tuple_object(tx, value, source)
    elif is_a(value, (str, int, float, bytes)):
        payload = _plain(tx, cls, plain_value(value), source.step("call", plain_value))
    elif is_a(value, deque):
        payload = _deque_part(tx, value, source)
    elif is_a(value, (bytearray, array)):
        payload = _buffer_part(tx, value, source)
    elif is_a(value, (set, frozenset)):
        payload = _set_part(tx, value, source)
    make = ExistingException if is_a(value, BaseException) else ObjectVariable
    variable = make(cls, value, source, payload)
    if namespace is not None:
        tx.owners[id(namespace)] = variable
    return variable


def _tuple_object(tx: Translator, value: tuple[Any, ...], source: Source) -> Variable:
    tx.know(source, "len", tuple.__len__(value))
    items = [tx.wrap(item, source.step("index", i)) for i, item in enumerate(tuple.__iter__(value))]
    return ObjectVariable(type(value), value, source, TupleVariable(items))


def _plain(tx: Translator, cls: type, value: Any, source: Source) -> Variable:
    """What a number or text of a class of its own is worth. Numpy's floats do with it what Python's do."""
    if home_of(cls) == "numpy" and type(value) is float and not source.is_made and varies(tx, value, source):
        return tx.graph.add_number(value, source)
    tx.know(source, "eq", value)
    return ConstantVariable(value)


def plain_value(value: Any) -> Any:
    """The value of an instance of a derived class, of Python's own type, asked of no method of the derived class."""
    base = next(base for base in (str, int, float, bytes) if is_a(value, base))
    return base.__getnewargs__(value)[0]


def _native_base(cls: type) -> type:
    return next(base for base in cls.__mro__ if base in (OrderedDict, defaultdict, dict))


def _iterator(tx: Translator, value: Any, source: Source) -> Variable:
    """One that a loop of a continuation goes on with has each of its steps as a break: where it stands is no fact."""
    is_loop = source.kind == "arg" and "." in source.name  # such names have only parameters of continuations
    if is_loop:
        return _object(tx, value, source)
    return wrap_generator(tx, value, source) if type(value) is GeneratorType else wrap_iterator(tx, value, source)


def _super(tx: Translator, value: Any, source: Source) -> Variable:
    """A `super()` object that a continuation was handed."""
    tx.know(source, "type", super)
    tx.know(source.attr("__thisclass__"), "is", value.__thisclass__)
    if value.__self__ is None:
        raise GraphBreak("super() with one argument")
    if value.__self_class__ is not value.__self__ and value.__self_class__ is not type(value.__self__):
        raise GraphBreak("super() of an object of another class", source.text)
    return SuperVariable(value.__thisclass__, tx.wrap(value.__self__, source.attr("__self__")), source)


def _cell(tx: Translator, value: CellType, source: Source) -> Variable:
    return CellVariable(value, source)


def _large_integer(tx: Translator, value: int, source: Source) -> Variable:
    raise GraphBreak("very large integer", source.text)


def _handle(tx: Translator, value: RemovableHandle, source: Source) -> Variable:
    tx.know(source, "type", RemovableHandle)
    return hooks.KnownHandle(RemovableHandle, value, source)


#: exact type -> wrapper
WRAP: dict[type, Callable[[Any, Any, Source], Variable]] = {
    **dict.fromkeys(torch_functions.SCHEMAS, _schema),
    list: _list,
    tuple: _tuple,
    torch.Size: _tuple,
    deque: _deque,
    bytearray: _buffer,
    array: _buffer,
    dict: _dict,
    OrderedDict: _dict,
    defaultdict: _dict,
    Counter: _dict,
    MappingProxyType: _proxy,
    set: _set,
    frozenset: _set,
    FunctionType: _function,
    MethodType: _method,
    BuiltinFunctionType: _builtin,
    MethodWrapperType: _builtin,
    ModuleType: _module,
    functools.partial: _partial,
    CellType: _cell,
    super: _super,
    torch.Tensor: _tensor,
    torch.nn.Parameter: _tensor,
    type: _class,
    RemovableHandle: _handle,
    **dict.fromkeys((*ROWS, GeneratorType), _iterator),
    **dict.fromkeys((weakref.ref, weakref.KeyedRef), weak.existing),
    **dict.fromkeys(weakref.ProxyTypes, weak.proxy),
    GenericAlias: aliases.existing,
    ContextVar: context_vars.existing,
    int: _large_integer,
    **arrays.WRAP,
}
_NO_CONSTANTS = frozenset(WRAP) - CONSTANT_TYPES - LIBRARY_TYPES
