"""Rows for the functions and classes of `builtins`. Importing this module fills all tables."""

from __future__ import annotations

import enum
import operator
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, ModuleType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any

from symbolic import polyfills, versions
from symbolic.errors import READS_FRAME, GraphBreak, Observed, SkipFrame
from symbolic.frames import Frame
from symbolic.passing import home_of, namespace_of
from symbolic.reach import reachable
from symbolic.signatures import takes
from symbolic.variables import caches, copying, digests, iteration, source_lines, stdlib, text
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.base import lookup as type_lookup
from symbolic.variables.born import BornClass
from symbolic.variables.buffers import BufferVariable, array_of, bytes_of
from symbolic.variables.classes import NATIVE_CONSTRUCTORS, ClassVariable
from symbolic.variables.constants import ConstantVariable, SliceVariable, is_a, is_constant_value
from symbolic.variables.containers import DequeVariable
from symbolic.variables.functions import CellVariable
from symbolic.variables.identity import HashVariable, IdVariable
from symbolic.variables.native import NativeVariable, checked_hash, each, taken
from symbolic.variables.numbers import NumberVariable, holds_number, truth_of
from symbolic.variables.objects import NATIVE_DESCRIPTORS, NATIVE_METHODS, OBJECT_METHODS, ObjectMethod, ObjectVariable
from symbolic.variables.positions import answering, as_index, is_python_class, stand_in, type_name
from symbolic.variables.tables import (
    CHOOSING,
    CLASS_METHODS,
    FOLDING_CLASS_METHODS,
    GROWING,
    HANDLERS,
    KINDS,
    POLYFILLS,
    REFUSED,
    SKIPPED_MODULES,
    Args,
    BuiltinVariable,
    Kwargs,
    class_method,
    fold,
    from_python,
    handles,
    is_tensor,
    known,
    lookup,
    misused,
    name_of,
    of_class,
    pure,
    reason_of,
    special,
)
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

__all__ = [
    "SKIPPED_MODULES", "BuiltinVariable", "caches", "copying", "digests", "iteration", "lookup", "source_lines",
    "stdlib", "text",
]  # fmt: skip

pure((abs, all, any, divmod, hash, max, min, pow, round, sum))
pure((ascii, bin, bytes, chr, complex, float, hex, int, oct, ord))
pure((str.maketrans, bytes.maketrans))
GROWING[pow] = True
CHOOSING.update({fn: True for fn in (max, min, sum)})

# --- inspection -------------------------------------------------------------------------------------------------------


@handles(len)
def _len(tx: Translator, value: Variable, /) -> Variable:
    if isinstance(value, ObjectVariable) and tx.lookup(value.cls, "__len__") is MISSING:
        tx.raise_(TypeError, f"object of type {type_name(value.cls)!r} has no len()")
    return ConstantVariable(tx.len(value))


@handles(isinstance)
def _isinstance(tx: Translator, value: Variable, classes: Variable, /) -> Variable:
    return ConstantVariable(tx.isinstance(value, classes))


@handles(issubclass)
def _issubclass(tx: Translator, cls: Variable, classes: Variable, /) -> Variable:
    return ConstantVariable(any(tx.issubclass(cls, parent) for parent in tx.classes(classes)))


def _may_call(tx: Translator, value: Variable) -> bool:
    return tx.lookup(value.python_type(), "__call__") is not MISSING


@handles(callable)
def _callable(tx: Translator, value: Variable, /) -> Variable:
    return ConstantVariable(_may_call(tx, value))


def _attribute_name(tx: Translator, fn: Any, name: Variable, *more: None) -> str:
    if name.python_type() is not str:
        if isinstance(name, ObjectVariable) and name.special(tx, "__hash__") is not None:
            raise GraphBreak("operation not supported by the object", f"__hash__ of {name.describe()}")
        tx.attempt(fn, None, stand_in(name), *more)
    return name.constant()


@handles(hasattr)
def _hasattr(tx: Translator, value: Variable, name: Variable, /) -> Variable:
    return ConstantVariable(tx.hasattr(value, _attribute_name(tx, hasattr, name)))


@handles(getattr)
def _getattr(tx: Translator, value: Variable, name: Variable, default: Variable | None = None, /) -> Variable:
    text = _attribute_name(tx, getattr, name)
    if default is None:
        return tx.getattr(value, text)
    try:
        return tx.getattr(value, text)
    except Observed as raised:
        if issubclass(raised.variable.python_type(), AttributeError):
            return default
        raise


@handles(setattr)
def _setattr(tx: Translator, value: Variable, name: Variable, new: Variable, /) -> Variable:
    if isinstance(value, ConstantVariable) and not isinstance(value.value, enum.Enum):
        tx.attempt(setattr, value.value, _attribute_name(tx, setattr, name, None), None)
    value.setattr(tx, _attribute_name(tx, setattr, name, None), new)
    return ConstantVariable(None)


@handles(delattr)
def _delattr(tx: Translator, value: Variable, name: Variable, /) -> Variable:
    value.delattr(tx, _attribute_name(tx, delattr, name))
    return ConstantVariable(None)


@handles(globals)
def _globals(tx: Translator) -> Variable:
    return tx.frames[-1].namespace.itself()  # type: ignore[attr-defined]


@handles(locals)
def _locals(tx: Translator) -> Variable:
    """What is bound. Before 3.13 all calls in a frame share one dict, which each brings up to date: after a graph break
    only the frame itself could do that (see `check_shared_names`)."""
    frame = tx.frames[-1]
    if frame.space is not None or versions.PY313:
        return local_names(tx, frame)
    if frame.is_generator and frame.asks_again():  # it may go on elsewhere
        raise GraphBreak(READS_FRAME, "locals() more than once")
    now, shared = local_names(tx, frame), frame.shared_names
    if shared is None:
        frame.shared_names = now
        return now
    code = frame.code.raw
    bound = [name.constant() for name in now.unpack(tx)]
    for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
        key = ConstantVariable(name)
        if name in bound:
            shared.setitem(tx, key, now.getitem(tx, key))
        else:
            shared.method(tx, "pop", [key, ConstantVariable(None)], {})
    return shared


def check_shared_names(frames: list[Frame]) -> None:
    """At a graph break. Raises SkipFrame where a frame goes on that may ask for its locals once more."""
    if any(frame.shared_names is not None and frame.asks_again() for frame in frames):
        raise SkipFrame(f"{READS_FRAME} (locals() more than once)")


def local_names(tx: Translator, frame: Frame) -> Variable:
    """The namespace of a class body or a module; of a function a copy of what is bound, in the order of its slots."""
    if frame.space is not None and not frame.locals:
        return frame.space
    if frame.space is not None:  # 3.12 leaves out some, 3.13.0 has nothing else
        raise GraphBreak("locals() in an inlined comprehension", frame.name)
    code = frame.code.raw
    try:
        found = {name: frame.locals[name].realize(tx) for name in code.co_varnames if name in frame.locals}
        for name in (*code.co_cellvars, *code.co_freevars):
            cell = frame.cells.get(name)
            contents = cell.contents(tx) if isinstance(cell, CellVariable) else None
            if contents is not None:
                found[name] = contents
    except GraphBreak as cause:  # residual code has other locals
        raise GraphBreak(READS_FRAME, f"{cause.reason}: {cause.detail}") from cause
    order = {name: found[name] for name in code.co_varnames if name in found} | found
    return tx.new_dict([(ConstantVariable(name), value) for name, value in order.items()])


@handles(dir)
def _dir(tx: Translator, *value: Variable) -> Variable:
    if len(value) > 1:
        misused(tx, dir, list(value), {})
    if value and isinstance(value[0], BornClass) and type_lookup(type(value[0].value), "__dir__") is type.__dir__:
        return tx.new_list([ConstantVariable(name) for name in dir(value[0].value)])
    if value:
        raise GraphBreak("names of an object", value[0].describe())
    return tx.new_list(sorted(_locals(tx).unpack(tx), key=lambda name: name.constant()))


@handles(vars)
def _vars(tx: Translator, *value: Variable) -> Variable:
    if not value:
        return _locals(tx)
    if len(value) > 1:
        misused(tx, vars, list(value), {})
    found = tx.optional(value[0], "__dict__")
    return found if found is not None else tx.raise_(TypeError, "vars() argument must have __dict__ attribute")


@handles(id)
def _id(tx: Translator, value: Variable, /) -> Variable:
    _check_stays(tx, value)
    tx.hashed.append(value)
    return IdVariable(value)


def _check_stays(tx: Translator, value: Variable) -> None:
    if isinstance(value, ConstantVariable):
        raise GraphBreak("identity number needed", value.describe())
    held = [each for frame in tx.frames for each in frame.held()]
    if value.source is None and value not in reachable(held, tx.ledger):
        # It may be gone, and the next one be in its place.
        raise GraphBreak("identity number needed", value.describe())


def _hashed_by_value(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_hashed_by_value, value))
    return type(value) in (bool, int, float, complex, str, bytes) and value == value  # NaNs are hashed by identity


@handles(hash)
def _hash(tx: Translator, value: Variable, /) -> Variable:
    kind = value.python_type()
    if tx.lookup(kind, "__hash__") is None:
        tx.raise_(TypeError, f"unhashable type: '{type_name(kind)}'")
    answer = special(tx, value, "__hash__")
    if answer is not None:
        return from_python(tx, tx.attempt(checked_hash, answer.constant()))
    if known(tx, value) is not MISSING and _hashed_by_value(known(tx, value)):
        return from_python(tx, tx.attempt(hash, value.constant()))
    if not isinstance(value, ObjectVariable) or tx.lookup(value.cls, "__hash__") is not object.__hash__:
        raise GraphBreak("identity number needed", f"hash of {value.describe()}")
    _check_stays(tx, value)
    tx.hashed.append(value)
    return HashVariable(value)


# --- sequences and sums -----------------------------------------------------------------------------------------------


@handles(range)
def _range(tx: Translator, *bounds: Variable) -> Variable:
    if not 1 <= len(bounds) <= 3:
        tx.attempt(range, *map(stand_in, bounds))
    values = [tx.attempt(operator.index, as_index(tx, bound)) for bound in bounds]  # each before the next is asked
    return ConstantVariable(tx.attempt(range, *values))


@handles(slice)
def _slice(tx: Translator, start: Variable, stop: Variable | None = None, *step: Variable) -> Variable:
    if len(step) > 1:
        misused(tx, slice, [start, start, *step], {})
    parts = [ConstantVariable(None), start] if stop is None else [start, stop, *step]
    if all(part.is_constant() for part in parts):
        made = slice(*(part.constant() for part in parts))
        if is_constant_value(made):
            return ConstantVariable(made)
    return SliceVariable(parts)


@handles(sorted)
def _sorted(
    tx: Translator, iterable: Variable, /, *, key: Variable | None = None, reverse: Variable | None = None
) -> Variable:
    named = {"key": key, "reverse": reverse}
    result = tx.new_list(taken(tx, iterable))
    result.method(tx, "sort", [], {name: value for name, value in named.items() if value is not None})
    return result


@handles(sum)
def _sum(tx: Translator, iterable: Variable, /, start: Variable | None = None) -> Variable:
    """Numbers before the first other value are added by the real `sum`, whose float sums are compensated since 3.12."""
    total = start if start is not None else ConstantVariable(0)
    if text := next((kind for kind in (str, bytes, bytearray) if issubclass(total.python_type(), kind)), None):
        tx.iter(iterable)
        tx.attempt(sum, [], text())
    numbers = _is_number(total)
    iterator, prefix = tx.iter(iterable), list[Variable]()
    while (item := tx.next(iterator)) is not None:
        if numbers and _is_number(item):
            prefix.append(item)
            continue
        if prefix:
            total, prefix = _add_numbers(tx, prefix, total), []
        numbers = False
        total = tx.binary(operator.add, total, item)
    return total if not prefix else _add_numbers(tx, prefix, total)


def _add_numbers(tx: Translator, numbers: list[Variable], start: Variable) -> Variable:
    has_complex = complex in {number.python_type() for number in (*numbers, start)}
    if holds_number((*numbers, start)) and not has_complex:
        kind = float if float in {number.python_type() for number in (*numbers, start)} else int
        if (total := tx.graph.compute(sum, [tx.new_list(numbers), start], kind)) is not None:
            return total
    return ConstantVariable(tx.attempt(sum, [number.constant() for number in numbers], start.constant()))


def _is_number(variable: Variable) -> bool:
    if isinstance(variable, NumberVariable):
        return True
    return variable.is_constant() and type(variable.constant()) in (int, float, bool, complex)


POLYFILLS.update({any: polyfills.any, all: polyfills.all, max: polyfills.max, min: polyfills.min})


# --- containers -------------------------------------------------------------------------------------------------------


def _container(fn: Any, make: Callable[[Translator], Any]) -> None:
    """Construction of a mutable container: a new one, filled by its own `__init__`."""

    @handles(fn)
    def handler(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
        if len(args) > 1 and fn in (dict, OrderedDict):
            misused(tx, fn, list(args), kwargs)
        if fn is defaultdict and args and not _may_call(tx, args[0]) and args[0].python_type() is not type(None):
            tx.raise_(TypeError, "first argument must be callable or None")
        made = make(tx)
        if args or kwargs:
            made.method(tx, "__init__", list(args), kwargs)
        return made


_container(list, lambda tx: tx.new_list([]))
_container(dict, lambda tx: tx.new_dict([]))
_container(set, lambda tx: tx.new_set([]))
_container(deque, lambda tx: DequeVariable([]))
_container(bytearray, lambda tx: BufferVariable(bytearray()))
handles(array)(array_of)
_container(OrderedDict, lambda tx: tx.new_dict([], OrderedDict))
_container(defaultdict, lambda tx: tx.new_dict([], defaultdict))
_container(Counter, lambda tx: tx.new_dict([], Counter))


@handles(tuple)
def _tuple(tx: Translator, iterable: Variable | None = None, /) -> Variable:
    if iterable is None:
        return tx.new_tuple([])
    if iterable.python_type() is tuple:
        return iterable
    return tx.new_tuple(taken(tx, iterable))


@handles(frozenset)
def _frozenset(tx: Translator, iterable: Variable | None = None, /) -> Variable:
    if iterable is not None and iterable.python_type() is frozenset:
        return iterable
    made = tx.new_set([], frozenset)
    if iterable is not None:
        made.update(tx, iterable)  # type: ignore[attr-defined]
    return made


# --- numbers ----------------------------------------------------------------------------------------------------------


def _operator_handler(op: Any) -> Callable[..., Variable]:
    return lambda tx, a, b, /: tx.binary(op, a, b)


handles(divmod)(_operator_handler(divmod))


@handles(bytes)
def _bytes(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
    made = special(tx, args[0], "__bytes__") if len(args) == 1 and not kwargs else None
    if made is None:
        return bytes_of(tx, *args, **kwargs)
    if not issubclass(made.python_type(), bytes):
        tx.raise_(TypeError, f"__bytes__ returned non-bytes (type {type_name(made.python_type())})")
    return made


@handles(abs)
def _abs(tx: Translator, value: Variable, /) -> Variable:
    return tx.unary(abs, value)


@handles(pow)
def _pow(tx: Translator, base: Variable, exp: Variable, mod: Variable | None = None) -> Variable:
    if mod is None or mod.python_type() is type(None):
        return tx.binary(operator.pow, base, exp)
    function = base.special(tx, "__pow__") if isinstance(base, ObjectVariable) else None
    if function is None:
        raise GraphBreak("pow() with a modulus of values not known", base.describe())
    answer = tx.call(function, [exp, mod], {})
    if answer.is_constant() and answer.constant() is NotImplemented:
        kinds = ", ".join(repr(type_name(operand.python_type())) for operand in (base, exp, mod))
        tx.raise_(TypeError, f"unsupported operand type(s) for ** or pow(): {kinds}")
    return answer


@handles(round)
def _round(tx: Translator, number: Variable, ndigits: Variable | None = None) -> Variable:
    if is_tensor(number):
        raise GraphBreak("tensor value needed", "round")
    if tx.lookup(number.python_type(), "__round__") is MISSING:
        tx.raise_(TypeError, f"type {type_name(number.python_type())} doesn't define __round__ method")
    return of_class(tx, number, "__round__", [ndigits] if ndigits is not None else [])


@handles(bool)
def _bool(tx: Translator, value: Variable | None = None, /) -> Variable:
    if value is None:
        return ConstantVariable(False)
    return truth_of(tx, value)


_CONVERSIONS: dict[type, tuple[str, ...]] = {
    int: ("__int__", "__index__", "__trunc__"),
    float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"),
}
#: Types of values whose bytes are read as text.
_BUFFERS = (bytearray, array, memoryview)


def _convert(kind: type) -> Callable[..., Variable]:
    def handler(tx: Translator, value: Variable, /, *more: Variable, **named: Variable) -> Variable:
        if more or named:
            raise GraphBreak("number needed", f"{kind.__name__} of {value.describe()} and more")
        if isinstance(value, TensorVariable):
            if kind is complex:
                raise GraphBreak("tensor value needed", kind.__name__)
            return tx.call(BuiltinVariable(kind), [value.method(tx, "item", [], {})], {})
        if isinstance(value, ObjectVariable):
            names = [name for name in _CONVERSIONS[kind] if tx.lookup(value.cls, name) is not MISSING]
            if names and (answer := special(tx, value, names[0])) is not None:
                return from_python(tx, tx.attempt(kind, answering(names[0], answer.constant(), value.cls.__name__)))
            if value.payload is not None and value.payload.is_constant():
                return from_python(tx, tx.attempt(kind, stand_in(value)))
            if not names and is_python_class(value.cls) and not issubclass(value.cls, _BUFFERS):
                tx.attempt(kind, stand_in(value))
        elif value.python_type() is kind:
            return value
        elif isinstance(value, NativeVariable) and not issubclass(value.python_type(), _BUFFERS):
            tx.attempt(kind, stand_in(value))
        raise GraphBreak("number needed", f"{kind.__name__} of {value.describe()}")

    return handler


for _kind in _CONVERSIONS:
    handles(_kind)(_convert(_kind))


# --- native methods as callables --------------------------------------------------------------------------------------

FOLDING_CLASS_METHODS.update({(int, "from_bytes"), (float, "fromhex"), (bytes, "fromhex")})


@class_method(dict, "fromkeys")
def _from_keys(tx: Translator, fn: Any, iterable: Variable, value: Variable | None = None, /) -> Variable:
    """One of any derived class, too, which stores in the way of its own."""
    made = tx.call(tx.class_variable(fn.__self__), [], {})
    for key in each(tx, iterable):
        made.setitem(tx, key, value if value is not None else ConstantVariable(None))
    return made


@class_method(OrderedDict, "fromkeys")
def _ordered_from_keys(tx: Translator, fn: Any, iterable: Variable, value: Variable | None = None) -> Variable:
    return _from_keys(tx, fn, iterable, value)


def _unbound(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """`list.append(xs, x)`, `object.__setattr__(obj, "name", value)`: the method of that class and no other."""
    if not args:
        tx.attempt(fn)
    receiver, rest, name = args[0], args[1:], fn.__name__
    if not issubclass(receiver.python_type(), fn.__objclass__):
        tx.attempt(fn, *map(stand_in, args))
    if isinstance(receiver, ClassVariable) and fn in (object.__setattr__, object.__delattr__):  # not for classes
        tx.attempt(fn, receiver.value, *map(stand_in, rest), **{name: stand_in(arg) for name, arg in kwargs.items()})
    if is_a(receiver.real(), type) and (fn in NATIVE_METHODS or name in OBJECT_METHODS):
        return ObjectMethod(receiver, name, fn).call(tx, rest, kwargs)
    if receiver.is_constant() and (folded := fold(tx, fn, args, kwargs)) is not None:
        return folded
    if isinstance(receiver, ObjectVariable):
        if receiver.payload is None or fn.__objclass__ is object:
            return ObjectMethod(receiver, name, fn).call(tx, rest, kwargs)
        receiver = receiver.payload
    if type_lookup(receiver.python_type(), name) is not fn:  # OrderedDict's is not that of dict
        raise GraphBreak("native method of an object", f"{name_of(fn)} of {receiver.describe()}")
    return receiver.method(tx, name, rest, kwargs)


def _bound(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A native method bound to an existing object, or a native class method."""
    owner = fn.__self__
    if isinstance(owner, type):
        definer = next((base for base in owner.__mro__ if fn.__name__ in namespace_of(base)), None)
        of_its_class = type_lookup(type(owner), fn.__name__) if definer is None else MISSING
        if isinstance(of_its_class, NATIVE_DESCRIPTORS):
            return _unbound(tx, of_its_class, [tx.class_variable(owner), *args], kwargs)
        definer = definer or owner
        handler = CLASS_METHODS.get((definer if issubclass(definer, (dict, type)) else owner, fn.__name__))
        if handler is not None:
            fits = takes(handler, tx, fn, *args, **kwargs)
            return handler(tx, fn, *args, **kwargs) if fits else misused(tx, fn, args, kwargs)
        folded = fold(tx, fn, args, kwargs) if (owner, fn.__name__) in FOLDING_CLASS_METHODS else None
        if folded is None:
            raise GraphBreak(reason_of(fn), name_of(fn))
        return folded
    if isinstance(owner, ModuleType) or owner is None:
        raise GraphBreak(reason_of(fn), name_of(fn))
    if fn.__name__ == "__get__" and isinstance(owner, NATIVE_DESCRIPTORS):
        return _bind_native(tx, fn, args)
    receiver = tx.wrap(owner, tx.sources.const(owner, type(owner).__qualname__))
    if isinstance(receiver, BuiltinVariable):  # which would ask for the method that is called here
        raise GraphBreak(reason_of(fn), f"{name_of(owner)}.{fn.__name__}")
    if home_of(type(owner)).split(".")[0] in SKIPPED_MODULES and not receiver.is_constant():
        raise GraphBreak(SKIPPED_MODULES[home_of(type(owner)).split(".")[0]], name_of(fn))
    part = receiver.payload if isinstance(receiver, ObjectVariable) else None
    if isinstance(part, NativeVariable) and part.find(fn.__name__) is not None:
        receiver = part  # whatever the user's class calls by that name
    return receiver.method(tx, fn.__name__, args, kwargs)


def _bind_native(tx: Translator, fn: Any, args: Args) -> Variable:
    """`object.__setattr__.__get__(value)`, with the class of the value behind it or not"""
    owner = fn.__self__
    known_class = len(args) < 3 and args and isinstance(args[0], ObjectVariable) and args[0].payload is None
    if not known_class or not isinstance(owner, (MethodDescriptorType, WrapperDescriptorType)):
        raise GraphBreak(reason_of(fn), f"{name_of(owner)}.__get__")
    if not issubclass(args[0].python_type(), owner.__objclass__):
        tx.attempt(fn, stand_in(args[0]))
    return ObjectMethod(args[0], owner.__name__, owner)


KINDS.update(
    {
        MethodDescriptorType: _unbound,
        WrapperDescriptorType: _unbound,
        BuiltinFunctionType: _bound,
        MethodWrapperType: _bound,
    }
)

# --- what can't be captured -------------------------------------------------------------------------------------------

REFUSED.update({fn: "world outside" for fn in (open, input, breakpoint)})
REFUSED.update({fn: "bytes buffer" for fn in (memoryview,)})
REFUSED[super] = "super() of values not known"


NATIVE_CONSTRUCTORS.update({cls: handler for cls, handler in HANDLERS.items() if isinstance(cls, type)})
