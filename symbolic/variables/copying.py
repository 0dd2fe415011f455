"""`copy.copy` and `copy.deepcopy`, by the library's own protocol: what a type's copier does, `__copy__`, `__deepcopy__`
and what `__reduce_ex__(4)` answers, with the memo as the dict that the user's methods see.

A tensor that requires a gradient is a leaf, and so is its copy: it is made before the graph, and comes into it as an
input (`Source` "made"). Other tensors are copied in the graph.
"""

from __future__ import annotations

import copy
import copyreg
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak, Observed
from symbolic.passing import namespace_of
from symbolic.signatures import takes
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.buffers import BufferVariable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import TupleVariable
from symbolic.variables.functions import BoundMethod, PartialVariable, has_empty_attributes
from symbolic.variables.identity import IdVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.native import NativeVariable, each
from symbolic.variables.objects import NATIVE_METHODS, ObjectVariable
from symbolic.variables.positions import NO_INSTANCES, is_python_class, type_name
from symbolic.variables.tables import handles, library
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_NATIVE_COPIES = (list, dict, set, OrderedDict, defaultdict, deque)
_ITSELF = (FunctionType, BuiltinFunctionType, CodeType, property)
NONE = ConstantVariable(None)
_copyreg: Any = copyreg  # whose stubs lack the half that pickling needs
_library: Any = copy
_is_dense = torch.ops.aten.is_non_overlapping_and_dense


def _copies_to_itself(x: Variable) -> bool:
    """What both ways of copying hand back as it is; tuples and frozensets only `copy.copy` does."""
    kind = x.python_type()
    atom = x.is_constant() and kind not in (tuple, frozenset)
    return atom or issubclass(kind, type) or kind in _ITSELF or isinstance(x, IdVariable)


# --- copy.copy --------------------------------------------------------------------------------------------------------
@handles(copy.copy)
def _copy(tx: Translator, x: Variable) -> Variable:
    kind = x.python_type()
    if _copies_to_itself(x) or kind in (tuple, frozenset):
        return x
    if isinstance(x, BufferVariable):
        return BufferVariable(x.known(tx))
    if kind in _NATIVE_COPIES and not (isinstance(x, NativeVariable) and x.attributes(tx)):
        return x.method(tx, "copy", [], {})
    if isinstance(x, TensorVariable):
        tx.overrides.refuse("copy of a tensor")
        return _shallow_tensor(tx, x)
    own = tx.lookup(kind, "__copy__")
    if isinstance(own, FunctionType):
        return tx.call(tx.getattr(x, "__copy__"), [], {})
    if own is not MISSING:
        raise GraphBreak("copy of an object", x.describe())
    parts = _reduced(tx, x, deep=False)
    return x if parts is None else _rebuilt(tx, x, parts, None)


# --- copy.deepcopy ----------------------------------------------------------------------------------------------------
@handles(copy.deepcopy)
def _deepcopy(tx: Translator, x: Variable, memo: Variable | None = None) -> Variable:
    if memo is None or memo.python_type() is type(None):
        memo = tx.new_dict([])
        tx.private_memos.add(memo)
    if not isinstance(memo, DictVariable) or memo.cls is not dict:
        raise GraphBreak("memo that is no plain dict", memo.describe())
    return deep(tx, x, memo)


def deep(tx: Translator, x: Variable, memo: DictVariable) -> Variable:
    """`copy.deepcopy(x, memo)`"""
    if _copies_to_itself(x):
        return x
    known = _remembered(tx, x, memo)
    if known is not None:
        return known
    made = _deep(tx, x, memo)
    if made is not x:
        _remember(tx, x, made, memo)
        number = IdVariable(memo)
        kept = memo.lookup(tx, number)
        if kept is None:
            memo.store(tx, number, tx.new_list([x]))
        else:
            kept.method(tx, "append", [x], {})
    return made


def _remembered(tx: Translator, x: Variable, memo: DictVariable) -> Variable | None:
    if x.source is not None:
        tx.hashed.append(x)  # what came in as two objects is copied twice
    return memo.lookup(tx, IdVariable(x))


def _remember(tx: Translator, x: Variable, made: Variable, memo: DictVariable) -> None:
    memo.store(tx, IdVariable(x), made)


def _deep(tx: Translator, x: Variable, memo: DictVariable) -> Variable:
    copier = _DEEP.get(x.python_type())
    if copier is not None:
        return copier(tx, x, memo)
    if isinstance(x, TensorVariable):
        tx.overrides.refuse("copy of a tensor")
        return _deep_tensor(tx, x, memo)
    if isinstance(x, PartialVariable):
        if not (x.is_bare if x.value is MISSING else has_empty_attributes(x.value)):
            raise GraphBreak("copy of an object", f"{x.describe()} with attributes")
        if x.source is not None:
            tx.know(x.source, "predicate", has_empty_attributes)
        args = [deep(tx, arg, memo) for arg in x.args]
        named = {name: deep(tx, arg, memo) for name, arg in x.kwargs.items()}
        return PartialVariable(deep(tx, x.function, memo), args, named)
    own = _optional(tx, x, "__deepcopy__")
    if own is not None:
        return tx.call(own, [memo], {})
    parts = _reduced(tx, x, deep=True)
    return x if parts is None else _rebuilt(tx, x, parts, memo)


def _deep_list(tx: Translator, x: Variable, memo: DictVariable) -> Variable:
    made = tx.new_list([])
    _remember(tx, x, made, memo)
    for item in each(tx, x):
        made.method(tx, "append", [deep(tx, item, memo)], {})
    return made


def _deep_tuple(tx: Translator, x: Variable, memo: DictVariable) -> Variable:
    items = tx.unpack(x)
    copies = [deep(tx, item, memo) for item in items]
    known = _remembered(tx, x, memo)  # a tuple that holds itself by way of a list
    if known is not None:
        return known
    same = all(old is new for old, new in zip(items, copies, strict=True))
    return x if same else tx.new_tuple(copies)


def _deep_dict(tx: Translator, x: Variable, memo: DictVariable) -> Variable:
    made = tx.new_dict([])
    _remember(tx, x, made, memo)
    for pair in each(tx, x.method(tx, "items", [], {})):
        key, value = tx.unpack(pair)
        copied = deep(tx, key, memo), deep(tx, value, memo)
        made.setitem(tx, *copied)
    return made


def _deep_method(tx: Translator, x: Variable, memo: DictVariable) -> Variable:
    if not isinstance(x, BoundMethod):
        raise GraphBreak("copy of an object", x.describe())
    return BoundMethod(x.function, deep(tx, x.owner, memo))


_DEEP: dict[type, Callable[[Any, Variable, DictVariable], Variable]] = {
    list: _deep_list,
    tuple: _deep_tuple,
    dict: _deep_dict,
    MethodType: _deep_method,
}


# --- tensors ----------------------------------------------------------------------------------------------------------
def _alone(value: torch.Tensor) -> bool:
    """no gradient, no attributes, all of its memory"""
    return value.grad is None and not value.__dict__ and fills_its_memory(value)


def fills_its_memory(value: torch.Tensor) -> bool:
    """Whether a copy of the tensor is a copy of all its memory."""
    exact = value.untyped_storage().nbytes() == value.numel() * value.itemsize and not value.storage_offset()
    return exact and _is_dense(value) and not value.is_conj() and not value.is_neg()


def _shallow_tensor(tx: Translator, x: TensorVariable) -> Variable:
    """A leaf over the same memory, made before the graph. Of hooks copies warn, and attributes they share."""
    if x.source is None or tx.ledger.stores(x) or not _is_bare(x.value):
        raise GraphBreak("copy of a tensor that is not alone", x.describe())
    tx.know(x.source, "predicate", _is_bare)
    return tx.graph.add_made(x, copy.copy)


def _is_bare(value: torch.Tensor) -> bool:
    """no attributes, no hooks"""
    return not value.__dict__ and not value._backward_hooks and value.is_leaf


def _deep_tensor(tx: Translator, x: TensorVariable, memo: DictVariable) -> Variable:
    """`torch.Tensor.__deepcopy__` or that of parameters, which leaves gradients and attributes behind."""
    fake = x.fake
    is_parameter = x.cls is torch.nn.Parameter
    if not is_parameter:
        if not fake.is_leaf:
            with torch.enable_grad():
                refused = torch.ones(1, requires_grad=True).view(1)
            tx.attempt(copy.deepcopy, refused)
        if memo not in tx.private_memos:
            raise GraphBreak("copy of a tensor with a memo of the caller's", x.describe())
        if tx.ledger.stores(x) or (x.value is MISSING and not fills_its_memory(fake)):
            raise GraphBreak("copy of a tensor that is not alone", x.describe())
        if x.source is not None:
            if not _alone(x.value):
                raise GraphBreak("copy of a tensor that is not alone", x.describe())
            tx.know(x.source, "predicate", _alone)
        _apart_in_memory(tx, x, memo)
    is_leaf = fake.requires_grad or is_parameter
    if is_leaf and x.source is not None and tx.graph.is_untouched(x):
        return tx.graph.add_made(x, copy.deepcopy)
    if is_parameter:
        data = tx.graph.call_method("clone", [tx.graph.call(torch.Tensor.detach, [x])])
        return NATIVE_CONSTRUCTORS[torch.nn.Parameter](tx, [data, ConstantVariable(fake.requires_grad)], {})
    plain = tx.graph.call(torch.Tensor.detach, [x])
    made = tx.graph.call(torch.empty_like, [plain])
    tx.graph.call(torch.Tensor.copy_, [made, plain])  # counted: torch puts a copied storage into a new tensor
    return made.method(tx, "requires_grad_", [], {}) if is_leaf else made


def _apart_in_memory(tx: Translator, x: TensorVariable, memo: DictVariable) -> None:
    """Tensors that share memory have copies that share it, too."""
    before = tx.copied.setdefault(memo, [])
    memory = x.fake.untyped_storage()._cdata
    if any(other.fake.untyped_storage()._cdata == memory for other in before):
        raise GraphBreak("copy of tensors that share memory", x.describe())
    before.append(x)


# --- what __reduce_ex__ says ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Parts:
    """`made = function(*args)`, which takes `state`, `items` to append and `pairs` to store."""

    function: Variable
    args: list[Variable]
    state: Variable | None = None
    items: Variable | None = None
    pairs: Variable | None = None


def _optional(tx: Translator, x: Variable, name: str) -> Variable | None:
    """`getattr(x, name, None)`"""
    if not isinstance(x, ObjectVariable):
        found = tx.lookup(x.python_type(), name)
        return tx.getattr(x, name) if found is not MISSING else None
    try:
        return tx.getattr(x, name)
    except Observed as raised:
        if issubclass(raised.variable.python_type(), AttributeError):
            return None
        raise


def _reduced(tx: Translator, x: Variable, deep: bool) -> Parts | None:
    """What `x.__reduce_ex__(4)` answers; None for a name, which means `x` itself."""
    cls = x.python_type()
    registry = tx.wrap(copyreg.dispatch_table, tx.sources.const(copyreg.dispatch_table, "copyreg.dispatch_table"))
    if tx.contains(registry, tx.class_of(x)):
        return _answer(tx, tx.call(registry.getitem(tx, tx.class_of(x)), [x], {}))
    if isinstance(tx.lookup(cls, "__getattribute__"), FunctionType):  # what it says is asked as the library asks
        for name, protocol in (("__reduce_ex__", (4,)), ("__reduce__", ())):
            if (found := _optional(tx, x, name)) is not None:
                return _answer(tx, tx.call(found, [ConstantVariable(number) for number in protocol], {}))
        tx.raise_(copy.Error, f"un({'deep' if deep else 'shallow'})copyable object of type {cls}")
    own = tx.lookup(cls, "__reduce_ex__")
    if isinstance(own, FunctionType):
        return _answer(tx, tx.call(tx.getattr(x, "__reduce_ex__"), [ConstantVariable(4)], {}))
    reducer = tx.lookup(cls, "__reduce__")
    if isinstance(reducer, FunctionType):
        return _answer(tx, tx.call(tx.class_attribute(cls, "__reduce__"), [x], {}))
    native = _REDUCERS.get(reducer)
    if native is None or own is not object.__reduce_ex__:
        raise GraphBreak("copy of an object", x.describe())
    return native(tx, x)


def _answer(tx: Translator, answer: Variable) -> Parts | None:
    if answer.python_type() is str:
        return None
    parts = tx.unpack(answer)
    if not takes(Parts, *parts):
        tx.attempt(_library._reconstruct, None, None, *[None] * len(parts))
    function, args, *rest = parts
    given = [None if part.python_type() is type(None) else part for part in rest]
    return Parts(function, tx.unpack(args), *given)


def _newobj(tx: Translator, x: Variable) -> Parts:
    """`object.__reduce_ex__`"""
    cls = x.python_type()
    if cls.__flags__ & NO_INSTANCES:
        tx.raise_(TypeError, f"cannot pickle {cls.__name__!r} object")
    if not isinstance(x, (ObjectVariable, TupleVariable)) or not _is_made_bare(x):
        raise GraphBreak("copy of an object", x.describe())
    if isinstance(tx.lookup(cls, "__getnewargs_ex__"), FunctionType):
        args = tx.unpack(_arguments(tx, x, "__getnewargs_ex__"))
        if len(args) != 2:
            tx.raise_(ValueError, f"__getnewargs_ex__ should return a tuple of length 2, not {len(args)}")
        for which, kind, part in zip(("first", "second"), (tuple, dict), args, strict=True):
            if not issubclass(part.python_type(), kind):
                what = f"{which} item of the tuple returned by __getnewargs_ex__ must be a {kind.__name__}"
                tx.raise_(TypeError, f"{what}, not {type_name(part.python_type())!r}")
        function = library(tx, _copyreg.__newobj_ex__)
    else:
        args, function = _new_arguments(tx, x), library(tx, _copyreg.__newobj__)
    state = _state(tx, x)
    items = tx.iter(x) if issubclass(cls, list) else None
    pairs = tx.iter(tx.call(tx.getattr(x, "items"), [], {})) if issubclass(cls, dict) else None
    return Parts(function, [tx.class_variable(cls), *args], state, items, pairs)


def _reduce_ex(tx: Translator, x: Variable, protocol: Variable) -> Variable:
    """`object.__reduce_ex__` as an object answers that was asked for it."""
    if not protocol.is_constant() or protocol.python_type() is not int or protocol.constant() < 2:
        raise GraphBreak("copy of an object", x.describe())
    own = _optional(tx, x, "__reduce__")
    if own is not None and tx.lookup(x.python_type(), "__reduce__") is not object.__reduce__:
        return tx.call(own, [], {})
    parts = _newobj(tx, x)
    rest = (part or NONE for part in (parts.state, parts.items, parts.pairs))
    return tx.new_tuple([parts.function, tx.new_tuple(parts.args), *rest])


NATIVE_METHODS[object.__reduce_ex__] = _reduce_ex
NATIVE_METHODS[object.__getstate__] = lambda tx, x: _own_state(tx, x) or NONE


def _is_made_bare(x: Variable) -> bool:
    """Whether the state of the object is what its variable shows."""
    native = getattr(x, "payload", None) is not None or isinstance(x, TupleVariable)
    return native or all(
        base is object
        or is_python_class(base)
        and isinstance(namespace_of(base).get("__new__", staticmethod(len)), (staticmethod, FunctionType))
        for base in x.python_type().__mro__
    )


def _special(tx: Translator, x: Variable, name: str) -> Variable:
    """What a method of the class answers; the object is not asked for it."""
    return tx.call(BoundMethod(tx.class_attribute(x.python_type(), name), x), [], {})


def _arguments(tx: Translator, x: Variable, name: str) -> Variable:
    answer = _special(tx, x, name)
    if not issubclass(answer.python_type(), tuple):
        tx.raise_(TypeError, f"{name} should return a tuple, not {type_name(answer.python_type())!r}")
    return answer


def _new_arguments(tx: Translator, x: Variable) -> list[Variable]:
    own = tx.lookup(x.python_type(), "__getnewargs__")
    if isinstance(own, FunctionType):
        return tx.unpack(_arguments(tx, x, "__getnewargs__"))
    if own is MISSING:
        return []
    payload = getattr(x, "payload", x)
    return [tx.new_tuple(list(payload.items)) if isinstance(payload, TupleVariable) else payload]


def _state(tx: Translator, x: Variable) -> Variable | None:
    """`x.__getstate__()`, None for none."""
    cls = x.python_type()
    if any(isinstance(tx.lookup(cls, name), FunctionType) for name in ("__getstate__", "__getattribute__")):
        answer = tx.call(tx.getattr(x, "__getstate__"), [], {})
        return None if answer.python_type() is type(None) else answer
    return _own_state(tx, x)


def _slot_names(tx: Translator, x: Variable) -> list[str]:
    """A class remembers them when the program asks, not while tracing."""
    cls = x.python_type()
    is_new = "__slotnames__" not in namespace_of(cls)
    found: list[str] = _copyreg._slotnames(cls)
    if is_new and "__slotnames__" in namespace_of(cls):
        type.__delattr__(cls, "__slotnames__")
        tx.ledger.call(library(tx, _copyreg._slotnames), tx.class_of(x))
    return found


def _own_state(tx: Translator, x: Variable) -> Variable | None:
    """`object.__getstate__(x)`, None for none."""
    cls = x.python_type()
    if not isinstance(x, ObjectVariable):
        attributes = x.attributes(tx) if isinstance(x, NativeVariable) else []
        return tx.new_dict(attributes) if attributes else None
    namespace = tx.instance_namespace(x) if cls.__dictoffset__ else None
    state: Variable | None = namespace if namespace is not None and namespace.length(tx) else None
    slots = {name: _optional(tx, x, name) for name in _slot_names(tx, x)}
    held: list[tuple[Variable, Variable]] = [
        (ConstantVariable(name), value) for name, value in slots.items() if value is not None
    ]
    return tx.new_tuple([state or NONE, tx.new_dict(held)]) if held else state


def _of_elements(tx: Translator, x: Variable) -> Parts:
    """Sets: made of the list of their elements."""
    return Parts(tx.class_variable(x.python_type()), [tx.new_list(tx.unpack(x))], _state(tx, x))


def _of_pairs(tx: Translator, x: Variable) -> Parts:
    """Ordered dicts, and those with a factory, which is handed over."""
    cls = x.python_type()
    args: list[Variable] = []
    if issubclass(cls, defaultdict):
        factory = tx.getattr(x, "default_factory")
        args = [] if factory.python_type() is type(None) else [factory]
    pairs = tx.iter(tx.call(tx.getattr(x, "items"), [], {}))
    return Parts(tx.class_variable(cls), args, None if args else _state(tx, x), None, pairs)


def _of_items(tx: Translator, x: Variable) -> Parts:
    """Deques."""
    limit = tx.getattr(x, "maxlen")
    args: list[Variable] = [] if limit.python_type() is type(None) else [tx.new_tuple([]), limit]
    return Parts(tx.class_variable(x.python_type()), args, _state(tx, x), tx.iter(x))


#: native `__reduce__` -> what it answers
_REDUCERS: dict[Any, Callable[[Any, Variable], Parts]] = {
    object.__reduce__: _newobj,
    **dict.fromkeys((set.__reduce__, frozenset.__reduce__), _of_elements),
    **dict.fromkeys((OrderedDict.__reduce__, defaultdict.__reduce__), _of_pairs),
    deque.__reduce__: _of_items,
}


def _rebuilt(tx: Translator, x: Variable, parts: Parts, memo: DictVariable | None) -> Variable:
    """`copy._reconstruct`"""
    copied: Callable[[Variable], Variable] = (
        functools.partial(deep, tx, memo=memo) if memo is not None else lambda value: value
    )
    made = tx.call(parts.function, [copied(arg) for arg in parts.args], {})
    if memo is not None:
        _remember(tx, x, made, memo)
    if parts.state is not None:
        _restore(tx, made, copied(parts.state))
    if parts.items is not None:
        for item in each(tx, parts.items):
            made.method(tx, "append", [copied(item)], {})
    if parts.pairs is not None:
        for pair in each(tx, parts.pairs):
            key, value = tx.unpack(pair)
            entry = copied(key), copied(value)
            made.setitem(tx, *entry)
    return made


def _restore(tx: Translator, made: Variable, state: Variable) -> None:
    own = _optional(tx, made, "__setstate__")
    if own is not None:
        tx.call(own, [state], {})
        return
    slots: Variable = NONE
    if isinstance(made, NativeVariable):
        state, slots = NONE, state
    elif isinstance(state, TupleVariable) and len(state.items) == 2:
        state, slots = state.items
    if state.python_type() is not type(None):
        tx.call(tx.getattr(tx.getattr(made, "__dict__"), "update"), [state], {})
    if slots.python_type() is not type(None):
        for pair in each(tx, slots.method(tx, "items", [], {})):
            name, value = tx.unpack(pair)
            made.setattr(tx, name.constant(), value)
