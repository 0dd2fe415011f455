"""Values of built-in types in general: their method tables, bound methods, and what all of them need.

A native type answers for itself: what is wrong with a call or an operation is found by Python's own code on an empty
value of the type, so that the exception is Python's, too.
"""

from __future__ import annotations

import collections
import copy
import enum
import inspect
import operator
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import torch

from sideeffects.effects import DELETED
from symbolic.errors import GraphBreak, Observed, Restart
from symbolic.signatures import takes
from symbolic.variables.base import BINARY, COMPARISONS, INPLACE, MISSING, UNARY, Identity, Variable, lookup
from symbolic.variables.constants import is_a, is_constant_value
from symbolic.variables.identity import IdVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.objects import instance_dict
from symbolic.variables.positions import (
    answering,
    answers,
    as_index,
    has,
    has_own,
    is_python_class,
    stand_in,
    type_name,
)

if TYPE_CHECKING:
    from symbolic.translator import Translator

ORDERINGS = frozenset(COMPARISONS.values())
#: a < b is b > a
SWAPPED = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}
#: Hash functions that tell nothing but identity.
IDENTITY_HASHES: tuple[Any, ...] = (object.__hash__, torch.Tensor.__hash__)  # those of pybind11 have no hash themselves

#: What is hashed by the identity of what it is bound to, and by what is bound.
_METHODS = (MethodType, BuiltinMethodType, MethodWrapperType)

#: No object has an address below.
_SMALLEST_ID = 1 << 16


# --- helpers shared by all containers --------------------------------------------------------------------------------
def is_iterable(variable: Variable) -> bool:
    kind = variable.python_type()
    return has(kind, "__iter__") or has(kind, "__getitem__")


def each(tx: Translator, iterable: Variable) -> Iterator[Variable]:
    """The elements one by one, so that what happens in between is seen by the next."""
    yield from _rest(tx, tx.iter(iterable), iterable)


def begun(tx: Translator, iterable: Variable) -> Variable | None:
    """An iterator over it; None where C has words of its own for what is no iterable (or whose `__iter__` says so)."""
    try:
        return tx.iter(iterable) if is_iterable(iterable) else None
    except Observed as raised:
        if not issubclass(raised.variable.python_type(), TypeError):
            raise
        return None


def taken(tx: Translator, iterable: Variable) -> list[Variable]:
    """`tuple(iterable)`, element by element"""
    is_seen = hasattr(iterable, "special") or hasattr(iterable, "of_metaclass") or _sized(tx, iterable) is not None
    return list(each_of_some(tx, iterable)) if is_seen else tx.unpack(iterable)


def _sized(tx: Translator, iterable: Variable) -> Variable | None:
    """What is seen to be asked for its length: a tensor, by a mode of torch's functions, or the program's sequence that
    an iterator of Python's goes over."""
    if issubclass(iterable.python_type(), torch.Tensor):
        return iterable if tx.overrides.has_modes else None
    sequence: Variable | None = getattr(iterable, "sized", None)
    return sequence if sequence is not None and has(sequence.python_type(), "__len__") else None


def _rest(tx: Translator, iterator: Variable, iterable: Variable) -> Iterator[Variable]:
    for _ in range(tx.options.unroll_limit):
        if (item := tx.next(iterator)) is None:
            return
        yield item
    raise GraphBreak("loop too long to unroll", iterable.describe())


def each_of_some(tx: Translator, iterable: Variable) -> Iterator[Variable]:
    """The same where the interpreter, with the iterator in hand, asks the iterable how many elements there may be."""
    iterator = tx.iter(iterable)
    _ask_length(tx, iterable)
    yield from _rest(tx, iterator, iterable)


def _ask_length(tx: Translator, iterable: Variable) -> None:
    """As `operator.length_hint` does: where `__len__` raises TypeError, `__length_hint__` is asked."""
    ask = getattr(iterable, "special", None) or getattr(iterable, "of_metaclass", None)
    sized = _sized(tx, iterable)
    for name in [name for name in ("__len__", "__length_hint__") if has(iterable.python_type(), name)]:
        own = ask(tx, name) if ask is not None else None
        try:
            if own is None:
                if sized is not None:
                    tx.len(sized)
                return
            answer = tx.call(own, [], {})
            if name == "__len__":
                tx.attempt(len, answering(name, as_index(tx, answer)))
                return
        except Observed as raised:
            if not issubclass(raised.variable.python_type(), TypeError):
                raise
        else:
            if answer.is_constant():
                tx.attempt(operator.length_hint, answering(name, answer.constant()))


def raise_with(tx: Translator, kind: type[Exception], value: Variable) -> NoReturn:
    """The program raises `kind(value)`, whatever the value is."""
    if value.is_constant():
        tx.raise_(kind, value.constant())
    raise Observed(tx.with_context(tx.call(tx.wrap(kind, tx.sources.const(kind, kind.__name__)), [value], {})))


def has_own_hash(variable: Variable) -> bool:
    """Whether the user's code decides which keys are equal: `__hash__` and `__eq__` are called as a dict calls them."""
    return has_own(variable, ("__hash__",))


def _compares_by_itself(kind: type) -> bool:
    """Whether a class has an `__eq__` of the user's beside a `__hash__` of values that is Python's own."""
    is_native = not isinstance(kind.__hash__, FunctionType) and kind.__hash__ not in IDENTITY_HASHES
    return is_native and isinstance(lookup(kind, "__eq__"), FunctionType)


def decides(kind: type) -> bool:
    """Whether code of the user's is run where an existing container looks for a key that is of this class."""
    if kind.__hash__ in (torch.Tensor.__hash__, enum.Enum.__hash__):
        return False
    return any(isinstance(lookup(kind, name), FunctionType) for name in ("__hash__", "__eq__"))


def may_ask(keys: Collection[Any]) -> bool:
    """Whether looking among these keys of an existing container may run code of the user's."""
    kinds = set(map(type, keys))
    if any(map(decides, kinds)):
        return True
    return not kinds.isdisjoint((tuple, frozenset)) and any(may_ask(k) for k in keys if type(k) in (tuple, frozenset))


class _Hashed:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __hash__(self) -> int:
        answer: int = self.answer
        return answer


def checked_hash(answer: Any) -> int:
    """The hash of an object whose `__hash__` answers that: not that of the number."""
    return hash(_Hashed(answer))


class OwnKey:
    """Key of an object with a `__hash__` of its own, which has been called: equal keys are those that `__eq__` says
    are. An operation has a key of its own and asks once for each that it is compared with.

    A container files it under the hash that it had when it came in. `read` is what that was made of: places and what
    was pending there; `born_at` the step. `answers`: what it is compared with, what comes of that and what was read."""

    def __init__(self, tx: Translator, variable: Variable, hashed: int, read: dict[tuple[Any, str], Any]) -> None:
        self.tx = tx
        self.variable = variable
        self.hashed = hashed
        self.read = read
        self.born_at = tx.anchor()
        self.answers: dict[int, tuple[Any, bool, dict[tuple[Any, str], Any]]] = {}

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        known = self.answers.get(id(other))
        if known is None:
            answer, read = self._equals(other)
            known = self.answers[id(other)] = (other, answer, read)
            if isinstance(other, OwnKey):
                other.answers[id(self)] = (self, answer, read)
        return known[1]

    def read_among(self, keys: Container[int]) -> list[dict[tuple[Any, str], Any]]:
        """What it and those of these (by id) that it was compared with went by."""
        return [self.read, *(read for other, _, read in self.answers.values() if id(other) in keys)]

    def _equals(self, other: object) -> tuple[bool, dict[tuple[Any, str], Any]]:
        tx = self.tx
        if type(other) in (OwnKey, Identity):
            theirs = other.variable  # type: ignore[attr-defined]
        elif is_constant_value(other):
            theirs = tx.from_constant(other)
        else:
            raise GraphBreak("key with its own hash", self.variable.describe())
        seen = len(tx.ledger.written)
        with tx.ledger.reading() as read:
            answer = tx.equal(self.variable, theirs)
        if len(tx.ledger.written) > seen:  # what makes the container again asks again
            raise GraphBreak("key whose hash does something", self.variable.describe())
        return answer, read

    def stays(self) -> NoReturn:
        """What holds it has to have it before it gets another hash."""
        raise Restart(self.born_at, GraphBreak("a key gets another hash", self.variable.describe()))


def own_keys(keys: Iterable[Any]) -> Iterator[OwnKey]:
    """Those among the keys and within them."""
    for key in keys:
        if is_a(key, OwnKey):
            yield key
        elif is_a(key, (tuple, frozenset)):
            yield from own_keys(key)


def is_hashed_by_identity(variable: Variable) -> bool:
    return variable.python_type().__hash__ in IDENTITY_HASHES and not variable.is_constant()


def hash_key(tx: Translator, variable: Variable) -> Any:
    """`variable.key()` of a value that the program hashes: TypeError if it can't be hashed, GraphBreak if the user's
    code decides."""
    kind = variable.python_type()
    if kind.__hash__ is None:
        tx.raise_(TypeError, f"unhashable type: '{type_name(kind)}'")
    if isinstance(variable, NativeVariable) and issubclass(kind, tuple):
        if decides(kind):
            raise GraphBreak("key with its own hash", variable.describe())
        return tuple([hash_key(tx, item) for item in variable.unpack(tx)])
    if (behind := variable.hashed_as()) is not None:
        if has_own_hash(behind):
            raise GraphBreak("key with its own hash", variable.describe())
        return (type(variable), hash_key(tx, behind))
    if has_own_hash(variable):
        seen = len(tx.ledger.written)
        with tx.ledger.reading() as read:
            answer = tx.call(variable.special(tx, "__hash__"), [], {}).constant()  # type: ignore[attr-defined]
        if len(tx.ledger.written) > seen:  # what makes the container again asks again
            raise GraphBreak("key whose hash does something", variable.describe())
        found = OwnKey(tx, variable, tx.attempt(checked_hash, answer), read)
        first = tx.own_keys.setdefault(variable, found)
        if first.hashed != found.hashed:  # what held it then, and what is made of that, has it where it was
            first.stays()
        return found
    if _compares_by_itself(kind):
        raise GraphBreak("key with its own hash", variable.describe())
    key = variable.key()
    if kind is int:
        _check_number(tx, variable)
    if is_hashed_by_identity(variable):
        tx.hashed.append(variable)
    elif issubclass(kind, _METHODS) and isinstance(owner := getattr(variable, "owner", None), Variable):
        tx.hashed.append(owner)
    if type(key) is Identity and kind.__hash__ not in IDENTITY_HASHES:
        real = variable.real()
        if type(real) is BuiltinMethodType and (real.__self__ is None or inspect.ismodule(real.__self__)):
            return key
        # A number that is not known yet may become known here; anything else with its own hash is user code.
        return variable.constant()
    return key


def stored_key(tx: Translator, variable: Variable) -> Any:
    """The same of what an existing container holds: that knows the hash, and would not ask."""
    if _asks(tx, variable):
        raise GraphBreak("key with its own hash", variable.describe())
    return hash_key(tx, variable)


def _asks(tx: Translator, variable: Variable) -> bool:
    is_tuple = isinstance(variable, NativeVariable) and issubclass(variable.python_type(), tuple)
    return any(_asks(tx, item) for item in variable.unpack(tx)) if is_tuple else has_own_hash(variable)


def _check_number(tx: Translator, variable: Variable) -> None:
    """A number that only the running program knows, `id(value)`, may be equal to any other that is no small one."""
    if isinstance(variable, IdVariable) or (variable.is_constant() and variable.constant() > _SMALLEST_ID):
        tx.numbers_hashed.add(getattr(variable, "family", type(variable)))
    if len(tx.numbers_hashed) > 1:
        raise GraphBreak("identity number needed", variable.describe())


# --- native types -----------------------------------------------------------------------------------------------------
class Method:
    """A native method: `run(variable, tx, *args, **kwargs)`, whose signature says which calls are right."""

    def __init__(self, run: Callable[..., Variable | None]) -> None:
        self.run = run


class NativeVariable(Variable):
    """A value whose methods are those of a built-in type. Its class may be a subclass: then this is the part of the
    built-in type.

    A function named `do_x` is the method `x` of the type, if the type has one. Its parameters (after `tx`) are the
    method's; None as result is the program's None.
    """

    METHODS: ClassVar[dict[str, Method]] = {}
    #: Attributes for what it holds, that change in place.
    HOLDS: ClassVar[tuple[str, ...]] = ()
    cls: type
    value: Any = MISSING

    def __init_subclass__(cls) -> None:
        cls.METHODS = {**cls.METHODS, **{n[3:]: Method(f) for n, f in vars(cls).items() if n.startswith("do_")}}

    def python_type(self) -> type:
        return self.cls

    def real(self) -> Any:
        return self.value

    def keeps(self) -> list[Variable]:
        return self.reachable()

    def frozen(self) -> Self:
        """Another variable of the same value, that stays as this one is now."""
        found = copy.copy(self)
        for name in vars(found).keys() & self.HOLDS:
            setattr(found, name, copy.copy(getattr(self, name)))
        return found

    def native(self) -> type:
        """The built-in type that answers."""
        return self.cls

    def blank(self) -> Any:
        """An empty value of the type, on which Python's own code finds what is wrong with an operation."""
        native = self.native()
        return native() if self.cls is native else type(type_name(self.cls), (native,), {})()

    @property
    def whole(self) -> Any:
        owner: Variable | None = getattr(self, "owner", None)
        return self if owner is None else owner

    def asks_first(self, op: Any, other: Variable) -> bool:
        """Whether the other operand answers before `op`, in place, of a sequence; not before `+=` of a derived one."""
        is_derived = self.whole is not self
        return answers(other, BINARY[INPLACE[op][0]][1]) and not (op is operator.iadd and is_derived)

    def misuse(self, tx: Translator, function: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """The operation is wrong whatever the contents: raises what Python raises for it."""
        tx.attempt(function, *args, **kwargs)
        raise GraphBreak("operation of a container not supported", f"{function} of {self.describe()}")

    def find(self, name: str) -> Method | None:
        found = self.METHODS.get(name)
        return found if found is not None and has(self.python_type(), name) else None

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        found = self.find(name)
        if found is None or self._replaced(tx, name):
            return tx.call(self.getattr(tx, name), args, kwargs)
        if not takes(found.run, self, tx, *args, **kwargs):
            self.misuse(tx, getattr(self.blank(), name), *[None] * len(args), **dict.fromkeys(kwargs))
        result = found.run(self, tx, *args, **kwargs)
        if result is self:  # operators in place
            return self.whole
        return result if result is not None else tx.from_constant(None)

    def _replaced(self, tx: Translator, name: str) -> bool:
        """Whether the program has put a method of its own into a class of the library's (a named tuple, `Counter`)."""
        kind = self.python_type()
        raw = tx.lookup(kind, name) if is_python_class(kind) else None
        if not isinstance(raw, FunctionType):
            return False
        tx.know(tx.attribute_source(kind, name), "is", raw)
        return raw.__code__.co_filename != collections.__file__

    def getattr(self, tx: Translator, name: str) -> Variable:
        kind = self.python_type()
        if name == "__class__":
            return tx.wrap(kind, tx.sources.const(kind, kind.__qualname__))
        if self.find(name) is not None and not self._replaced(tx, name):
            return NativeMethod(self, name)
        pending = tx.ledger.pending(self, name)
        if isinstance(pending, Variable):
            return pending
        if pending is None and (held := self._held(tx, name)) is not None:
            return held
        found = tx.lookup(kind, name)
        if found is not MISSING:
            return self.bind(tx, name, found)
        tx.raise_(AttributeError, f"'{type_name(kind)}' object has no attribute '{name}'")

    def _held(self, tx: Translator, name: str) -> Variable | None:
        """The attribute as the `__dict__` of an existing one (OrderedDict, Counter) holds it."""
        stored = instance_dict(self.value) if self.value is not MISSING and self.source is not None else None
        if stored is None:
            return None
        assert self.source is not None
        namespace = self.source.step("dict")
        if name in stored:
            return tx.wrap(stored[name], namespace.step("item", name))
        tx.know(namespace, "absent", name)
        return None

    def attributes(self, tx: Translator) -> list[tuple[Variable, Variable]]:
        """What it has in its `__dict__`, by name."""
        if self.value is not MISSING and self.source is not None and (stored := instance_dict(self.value)) is not None:
            if stored:
                raise GraphBreak("attribute of a container not supported", f"{self.describe()}.__dict__")
            tx.know(self.source.step("dict"), "len", 0)
        stores = tx.ledger.stores(self) if self.python_type().__dictoffset__ else {}
        return [(tx.from_constant(name), value) for name, value in stores.items() if value is not DELETED]

    def bind(self, tx: Translator, name: str, found: Any) -> Variable:
        """What a class attribute that is no native method is, seen from an instance."""
        if inspect.isfunction(found):
            function = tx.class_attribute(self.python_type(), name)
            return tx.call(tx.getattr(function, "__get__"), [self, tx.class_of(self)], {})
        if isinstance(found, property) and inspect.isfunction(found.fget):
            return tx.inline(found.fget, [self], {})
        if is_constant_value(found):
            return tx.class_attribute(self.python_type(), name)
        raise GraphBreak("attribute of a container not supported", f"{self.describe()}.{name}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if not self.python_type().__dictoffset__:
            self.misuse(tx, setattr, self.blank(), name, None)
        if self.find(name) is not None:
            raise GraphBreak("attribute of a container not supported", f"{self.describe()}.{name} = ...")
        tx.ledger.store(self, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if not self.python_type().__dictoffset__:
            self.misuse(tx, delattr, self.blank(), name)
        super().delattr(tx, name)

    # what a type does not have raises Python's own TypeError
    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        tx.raise_(TypeError, f"'{type_name(self.python_type())}' object is not callable")

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        self.misuse(tx, operator.getitem, self.blank(), stand_in(index))

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        self._check_index(index)
        self.misuse(tx, operator.setitem, self.blank(), stand_in(index), None)

    def delitem(self, tx: Translator, index: Variable) -> None:
        self._check_index(index)
        self.misuse(tx, operator.delitem, self.blank(), stand_in(index))

    def _check_index(self, index: Variable) -> None:
        """What may be a number is asked for it before it shows that nothing has a place here."""
        if not index.is_constant() and has(index.python_type(), "__index__"):
            raise GraphBreak("operation of a container not supported", f"places of {self.describe()}")

    def unary(self, tx: Translator, op: Any) -> Variable:
        self.misuse(tx, op, self.blank())

    # the protocol as methods
    def do___len__(self, tx: Translator, /) -> Variable:
        return tx.from_constant(self.length(tx))

    def do___getitem__(self, tx: Translator, index: Variable, /) -> Variable:
        return self.getitem(tx, index)

    def do___setitem__(self, tx: Translator, index: Variable, value: Variable, /) -> None:
        self.setitem(tx, index, value)

    def do___delitem__(self, tx: Translator, index: Variable, /) -> None:
        self.delitem(tx, index)

    def do___contains__(self, tx: Translator, item: Variable, /) -> Variable:
        return tx.from_constant(self.contains(tx, item))

    def do___iter__(self, tx: Translator, /) -> Variable:
        return self.iterator(tx)

    def do___next__(self, tx: Translator, /) -> Variable:
        item = self.iternext(tx)
        return item if item is not None else tx.raise_(StopIteration)

    def do___reversed__(self, tx: Translator, /) -> Variable:
        return self.reversed(tx)

    def reversed(self, tx: Translator) -> Variable:
        """`reversed(value)`"""
        self.misuse(tx, reversed, self.blank())


def _operator_methods() -> Iterator[tuple[str, Method]]:
    def check_times(tx: Translator, op: Any, other: Variable) -> None:
        if op is operator.mul and not has(other.python_type(), "__index__"):
            tx.attempt(operator.index, stand_in(other))

    def binary(op: Any) -> Callable[..., Variable]:
        def run(self: Variable, tx: Translator, other: Variable, /) -> Variable:
            check_times(tx, op, other)
            return self.binary(tx, op, other) or self.as_sequence(tx, op, other) or tx.from_constant(NotImplemented)

        return run

    def reflected(op: Any) -> Callable[..., Variable]:
        def run(self: Variable, tx: Translator, other: Variable, /) -> Variable:
            check_times(tx, op, other)
            return self.reflected(tx, op, other) or tx.from_constant(NotImplemented)

        return run

    def inplace(op: Any) -> Callable[..., Variable]:
        def run(self: Variable, tx: Translator, other: Variable, /) -> Variable:
            check_times(tx, INPLACE[op][0], other)
            return self.inplace(tx, op, other) or tx.from_constant(NotImplemented)

        return run

    def unary(op: Any) -> Callable[..., Variable]:
        return lambda self, tx, /: self.unary(tx, op)

    for op, (name, mirror) in BINARY.items():
        if op not in ORDERINGS:
            yield mirror, Method(reflected(op))
        yield name, Method(binary(op))
    for op, (_, name) in INPLACE.items():
        yield name, Method(inplace(op))
    for sign, name in UNARY.items():
        yield name, Method(unary(sign))


NativeVariable.METHODS = {
    **{name[3:]: Method(function) for name, function in vars(NativeVariable).items() if name.startswith("do_")},
    **dict(_operator_methods()),
}




# --- iterators -------------------------------------------------------------------------------------------------------
class IteratorVariable(NativeVariable):
    """An iterator. Reconstruction reads its class and the attributes that the class names in `STATE`, in the order of
    the constructor's parameters: plain data and variables. `KIND` is the exact type."""

    STATE: ClassVar[tuple[str, ...]] = ()
    KIND: ClassVar[type]

    def blank(self) -> Any:
        # Iterators have no empty value; without attributes they are all alike.
        return type(type_name(self.python_type()), (), {})()

    def python_type(self) -> type:
        return self.KIND

    def iterator(self, tx: Translator) -> Variable:
        return self

    def length(self, tx: Translator) -> int:
        self.misuse(tx, len, self.blank())

    def contains(self, tx: Translator, item: Variable) -> bool:
        return any(tx.equal(mine, item) for mine in each(tx, self))

    def reachable(self) -> list[Variable]:
        return _variables_in([getattr(self, name) for name in self.STATE])


def _variables_in(values: Iterable[Any]) -> list[Variable]:
    """The variables among the parts of an iterator's state, in lists and tuples too."""
    found: list[Variable] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _variables_in(value)
        elif isinstance(value, Variable):
            found.append(value)
    return found
