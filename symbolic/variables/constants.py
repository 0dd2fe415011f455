"""Constants: immutable values that are wholly known. Operations on them are Python's own, run now."""

from __future__ import annotations

import enum
import math
import operator
import re
from array import array
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone
from struct import Struct
from types import BuiltinMethodType, EllipsisType, FunctionType, NoneType, NotImplementedType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak, Observed
from symbolic.passing import home_of
from symbolic.sources import Source
from symbolic.variables.base import BINARY, COMPARISONS, MISSING, NUMBERS, Variable, lookup
from symbolic.variables.methods import NativeMethod
from symbolic.variables.positions import answers, as_index, has, native_part, stand_in

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Types whose values are compared with `==` by a guard and may stand as literals in graph and bytecode.
LITERALS = (int, float, str, bool, bytes, complex, NoneType, EllipsisType, NotImplementedType)
TORCH_CONSTANTS = (
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.qscheme,
    torch.finfo,
    torch.iinfo,
    torch._C._SDPBackend,
)
try:
    import numpy
except ImportError:  # torch does without it, too
    DTYPES: tuple[type, ...] = ()
else:
    DTYPES = tuple(type(numpy.dtype(kind)) for kind in "?bBhHiIlLefdFD")
#: Bits of the largest integer that can be written down (Python refuses more than 4300 digits).
_LONGEST = 14_000
#: Types whose values have no attributes that can be set.
_FIXED = frozenset((*LITERALS, range, slice))
CONSTANT_TYPES = frozenset((*LITERALS, *TORCH_CONSTANTS, *DTYPES, range, slice, re.Pattern))
#: Immutable types of the standard library whose values are constants where tracing makes them, or finds them in a fixed
#: part of the program: they are not compared by a guard.
LIBRARY_TYPES = frozenset((re.Match, date, datetime, time, timedelta, timezone, Struct))
#: What makes another such object, for those that tracing has made: in eager code each call makes its own.
ANOTHER: dict[type, Callable[[Any], Any]] = {
    date: date.replace,
    datetime: datetime.replace,
    time: time.replace,
    timedelta: timedelta.__pos__,
    Struct: lambda made: Struct(made.format),
}


#: (type of a constant, name of a method) -> check(tx, constant, name, arguments), done before the method runs: it
#: breaks where the method asks for more than the value, or guards what it asks for.
ASKED: dict[tuple[type, str], Callable[[Any, Any, str, list[Any]], None]] = {}
#: (type of a constant, name of a method) -> method(tx, constant, args, kwargs) that goes before all else; None where it
#: has nothing to say.
OWN_METHODS: dict[tuple[type, str], Callable[..., Variable | None]] = {}
#: type of a constant -> (constant, "__enter__" or "__exit__") -> the method, of what is a context manager
CONTEXTS: dict[type, Callable[[Any, Any, str], Variable]] = {}


#: Keys that a number is compared with, at most.
FEW = 8


def is_none(variable: Variable) -> bool:
    return isinstance(variable, ConstantVariable) and variable.value is None


def is_none_of(tx: Translator, number: Variable, keys: Collection[Variable]) -> bool:
    """Whether a number that varies is none of these keys of a container, if they are few constants: it is not fixed by
    that."""
    if not number.varies() or number.python_type() not in (int, float):
        return False
    if len(keys) > FEW or not all(key.is_constant() for key in keys):
        return False
    known = [key.constant() for key in keys]
    if any(value != value for value in known):  # a NaN is found if it is the same object
        return False
    return not any(tx.equal(key, number) for key in keys)


class ConstantVariable(Variable):
    """A literal, a torch dtype/device/..., a range, an enum member or a frozenset of such."""

    #: (what, kind, arg): the step from a container, whose elements are guarded by value, to this one of them
    found_at: tuple[Source, str, Any] | None = None

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.value

    def real(self) -> Any:
        return self.value if self.source is not None or not isinstance(self.value, LITERALS) else MISSING

    def key(self) -> Any:
        return self.value

    def describe(self) -> str:
        text = str(self)
        return text if len(text) < 60 else text[:57] + "..."

    def __str__(self) -> str:
        if isinstance(self.value, enum.Enum):  # whose text may be the user's
            return f"{type(self.value).__qualname__}.{self.value._name_}"
        return repr(self.value)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in ("__enter__", "__exit__") and type(self.value) in CONTEXTS:
            return NativeMethod(self, name)
        self._check_pure(name)
        if isinstance(self.value, enum.Enum) and name not in _OF_MEMBERS:
            own = (self.source or tx.sources.const(self.value, self.describe())).step("dict")
            if name in vars(self.value):
                return tx.wrap(vars(self.value)[name], own.step("item", name))
            tx.know(own, "absent", name)
        value = tx.attempt(getattr, self.value, name)
        if is_constant_value(value):
            return ConstantVariable(value)
        if is_library_value(value):
            return ConstantVariable(value, tx.sources.const(value, f"{self.describe()}.{name}"))
        is_own = getattr(value, "__self__", MISSING) is self.value  # what list[int] has are methods of lists
        if not is_own or (isinstance(self.value, (enum.Enum, slice)) and type(value) is not BuiltinMethodType):
            is_made = isinstance(value, BuiltinMethodType) and value.__self__ is type(self.value)  # anew each time
            owner = None if is_made else self.source
            source = owner.attr(name) if owner else tx.sources.const(value, f"{self.value!r}.{name}")
            return tx.wrap(value, source)
        return NativeMethod(self, name)

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        self._refuse(tx, name, setattr, self.value, name, None)
        super().setattr(tx, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        self._refuse(tx, name, delattr, self.value, name)
        super().delattr(tx, name)

    def _refuse(self, tx: Translator, name: str, change: Any, *args: Any) -> None:
        """What can't be changed says so."""
        if type(self.value) in _FIXED and name != "__class__":
            tx.attempt(change, *args)

    def _check_pure(self, name: str) -> None:
        """A constant's methods run while tracing; those of a device that switch the default device must not."""
        if name in ("__enter__", "__exit__"):
            raise GraphBreak("native context manager", self.describe())

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name in ("__enter__", "__exit__") and type(self.value) in CONTEXTS:
            return CONTEXTS[type(self.value)](tx, self, name)
        self._check_pure(name)
        own = OWN_METHODS.get((type(self.value), name))
        if own is not None and (answer := own(tx, self, args, kwargs)) is not None:
            return answer
        if isinstance(self.value, str) and name == "join" and len(args) == 1 and not kwargs:
            return TEMPLATES["join"](tx, self.value, args[0])
        if isinstance(self.value, enum.Enum) and not isinstance(getattr(self.value, name, None), BuiltinMethodType):
            return super().method(tx, name, args, kwargs)
        given = args
        if name in _ON_VALUES and not (isinstance(self.value, (str, bytes)) and name in _FORMATS):
            args = [native_part(arg) for arg in given]
        values = [TEMPLATES["known"](tx, arg) for arg in args]
        named = {key: TEMPLATES["known"](tx, arg) for key, arg in kwargs.items()}
        if any(value is MISSING for value in (*values, *named.values())):
            if isinstance(self.value, str) and name == "format":
                return TEMPLATES["format"](tx, self.value, args, kwargs)
            if name in _INDEXED and len(args) == 1 and has(type(self.value), name) and not kwargs:
                answer = _INDEXED[name](self, tx, args[0])
                return answer or tx.from_constant(tx.attempt(getattr(self.value, name), stand_in(args[0])))
            raise GraphBreak("method of a constant with arguments not known", f"{self.describe()}.{name}")
        if (check := ASKED.get((type(self.value), name))) is not None:
            check(tx, self.value, name, values)
        try:
            if self.whole is not self and name in _GIVES_ITSELF:
                return self._parts(tx, name, values, named)
            return tx.from_constant(tx.attempt(tx.attempt(getattr, self.value, name), *values, **named))
        except Observed as raised:  # which names the classes of what it is about
            if self.whole is not self or args != given:
                shown = {key: stand_in(each) for key, each in kwargs.items()}
                try:
                    tx.attempt(getattr(type(self.value), name), stand_in(self.whole), *map(stand_in, given), **shown)
                except Observed as said:
                    if said.variable.python_type() is raised.variable.python_type():
                        raise
            raise

    def _parts(self, tx: Translator, name: str, values: list[Any], named: dict[str, Any]) -> Variable:
        """A text of a derived class that has no such separator is itself among its parts."""
        text = stand_in(self.whole)
        made = tx.attempt(getattr(type(self.value), name), text, *values, **named)
        parts = [self.whole if part is text else ConstantVariable(part) for part in made]
        return tx.new_list(parts) if type(made) is list else tx.new_tuple(parts)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        at = as_index(tx, index) if has(type(self.value), "__getitem__") else None
        return tx.from_constant(tx.attempt(lambda: self.value[at]))

    def contains(self, tx: Translator, item: Variable) -> bool:
        if type(self.value) is frozenset and is_none_of(tx, item, [ConstantVariable(each) for each in self.value]):
            return False
        return tx.attempt(lambda: item.constant() in self.value)

    def length(self, tx: Translator) -> int:
        return tx.attempt(len, self.value)

    def truth(self, tx: Translator) -> bool:
        return bool(self.value)

    def iterator(self, tx: Translator) -> Variable:
        if isinstance(self.value, (range, str, bytes)):
            return tx.constant_iterator(self.value)
        items = tx.attempt(lambda: list(self.value))
        return tx.new_tuple([tx.from_constant(item) for item in items]).iterator(tx)

    def unary(self, tx: Translator, op: Any) -> Variable:
        return tx.from_constant(tx.attempt(op, self.value))

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if not other.is_constant():
            if op in (operator.mod, operator.imod) and isinstance(self.value, str):
                return self._filled(tx, other)
            if op in (operator.mod, operator.imod) and isinstance(self.value, bytes):
                raise GraphBreak("bytes not known", f"{self.describe()} % {other.describe()}")
            kind, part = other.python_type(), native_part(other)
            is_number = isinstance(self.value, NUMBERS) and not issubclass(kind, type(self.value))
            if is_number and _is_number(part) and op in BINARY:
                if answers_for(BINARY[op][0], self.python_type(), part.constant()):
                    return self.binary(tx, op, part)  # it does not ask that class
            late = issubclass(kind, type(self.value))
            theirs = late or op not in BINARY or answers(other, BINARY[op][1])
            return None if theirs else self.as_sequence(tx, op, other)
        if op in (operator.mod, operator.imod) and isinstance(self.value, str) and not TEMPLATES["native"](other):
            return self._filled(tx, other)
        right = other.constant()
        if type(self.value) is type(right) and type(right) in _ALIKE and (op in _QUIET or op in _SUMS[type(right)]):
            return ConstantVariable(op(self.value, right))
        if op in _SIZED and isinstance(self.value, int) and isinstance(right, int) and abs(right) > 4096:
            raise GraphBreak("very large integer", f"{op.__name__} by {right}")
        answer = tx.attempt(op, self.value, right)
        is_bare = op in (operator.mod, operator.imod) and isinstance(self.value, str) and "%" not in self.value
        return self.whole if is_bare else tx.from_constant(answer)

    def _filled(self, tx: Translator, other: Variable) -> Variable:
        """A template with values that are not wholly known; one without places is given back."""
        answer: Variable = TEMPLATES["%"](tx, self.value, other)
        return answer if "%" in self.value else self.whole

    @property
    def whole(self) -> Variable:
        owner: Variable | None = getattr(self, "owner", None)
        return self if owner is None else owner

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if isinstance(other, ConstantVariable):
            return other.binary(tx, op, self)
        part, own = native_part(other), self.python_type()
        if isinstance(self.value, NUMBERS) and _is_number(part):  # of a derived class
            return part.binary(tx, op, self) if answers_for(BINARY[op][1], own, part.constant()) else None
        return self.repeated(tx, other) if op is operator.mul else None

    def as_sequence(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op not in (operator.add, operator.mul) or not isinstance(self.value, (str, bytes)):
            return None
        found = self.repeated(tx, other) if op is operator.mul else None
        right = TEMPLATES["known"](tx, native_part(other))
        if right is MISSING and issubclass(other.python_type(), type(self.value)):
            raise GraphBreak("text of a value not known", other.describe())
        fits = op is operator.add and isinstance(right, _JOINED[type(self.value)])
        left = self.value if self.whole is self else stand_in(self.whole)
        return found or tx.from_constant(tx.attempt(op, left, right if fits else stand_in(other)))

    def repeated(self, tx: Translator, times: Variable) -> Variable | None:
        """Of text or bytes, so many times; None of other constants and for what is no number of times."""
        if not isinstance(self.value, (str, bytes)) or not has(times.python_type(), "__index__"):
            return None
        return self.binary(tx, operator.mul, ConstantVariable(as_index(tx, times)))

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self.binary(tx, op, other)  # the same value, but errors name the operator as it was written

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if not isinstance(other, ConstantVariable):
            return other.is_same(tx, self)
        a, b = self.value, other.value
        if type(a) is torch.device and self is not other and None in (self.source, other.source):
            return False  # each time that a tensor is asked for it makes another
        if isinstance(a, (int, float, str, bytes, complex)) and not isinstance(a, bool):
            if type(a) is type(b) and same_constant(a, b):
                self._guard_sameness(tx, other)
        return a is b

    def place(self) -> Source | None:
        if self.source is not None or self.found_at is None:
            return self.source
        container, kind, arg = self.found_at
        return container.step(kind, arg) if container.root.kind != "const" else None

    def _guard_sameness(self, tx: Translator, other: ConstantVariable) -> None:
        """Whether equal constants are one object is a fact about those that exist. Others the program computes when it
        runs."""
        a, b = self.value, other.value
        places = [each.place() for each in (self, other)]
        sources = [place for place in places if place is not None and place.kind != "const"]
        if a is not b and len(sources) < 2:
            raise GraphBreak("identity of equal constants", f"{a!r} is {b!r}")
        tx.repeats.tell(None)
        if type(a) is int and -5 <= a <= 256:
            return  # there is one of each
        if a is not b:
            tx.know_apart(sources)
        elif len(sources) == 1:
            tx.know(sources[0], "is", a)
        elif len(sources) == 2 and sources[0] is not sources[1]:
            tx.know(sources[0], "same", sources[1])


#: Methods of sequences whose argument is an index.
_INDEXED: dict[str, Callable[[ConstantVariable, Any, Variable], Variable | None]] = {
    "__getitem__": ConstantVariable.getitem,
    "__mul__": ConstantVariable.repeated,
    "__rmul__": ConstantVariable.repeated,
}
#: Methods to which an instance of a derived class is no more than its value; of text, some ask for its own text.
_ON_VALUES = frozenset(name for names in BINARY.values() for name in names)
_FORMATS = frozenset(BINARY[operator.mod])
#: What can be added to text and to bytes.
_JOINED: dict[type, Any] = {str: str, bytes: (bytes, bytearray, array)}
#: What neither raises nor warns between two values of one of these types.
_QUIET = frozenset(COMPARISONS.values())
_ALIKE = frozenset({int, float, str})
_SUMS = {str: frozenset(), **dict.fromkeys((int, float), {operator.add, operator.sub, operator.iadd, operator.isub})}
_SIZED = frozenset({operator.pow, operator.lshift, operator.ipow, operator.ilshift})
#: What templates with values that are not wholly known become, and the value of what is known though it is no constant;
#: `text` has the rows.
TEMPLATES: dict[str, Callable[..., Any]] = {}




def is_a(value: Any, kinds: Any) -> bool:
    """`isinstance` by the real type alone: a user's `__class__` or `__getattribute__` is not asked."""
    return issubclass(type(value), kinds)


def _is_number(variable: Variable) -> bool:
    return variable.is_constant() and isinstance(variable.constant(), NUMBERS)


def answers_for(name: str, kind: Any, other: Any) -> bool:
    """Whether the method of a class of constants answers for the other constant, which is not asked then."""
    if kind not in LITERALS:
        return True
    own = lookup(kind, name)
    try:
        return own is not MISSING and own(kind(), other) is not NotImplemented
    except (ArithmeticError, ValueError, TypeError):  # which is an answer, too
        return True


def is_constant_value(value: Any) -> bool:
    """Whether `value` is an atom that a ConstantVariable may hold."""
    kind = type(value)
    if kind is int:
        return value.bit_length() <= _LONGEST
    if kind in (range, slice):
        parts = (value.start, value.stop, value.step)
        return all(part is None or type(part) is int for part in parts)
    if kind is frozenset:
        return all(is_constant_value(item) for item in value)
    return kind in CONSTANT_TYPES or is_member(value)


#: What members of enums have, and nobody sets.
_OF_MEMBERS = frozenset({"name", "value", "_name_", "_value_", "__objclass__", "_sort_order_", "__class__"})


def is_member(value: Any) -> bool:
    """Whether it is a member of an enum, which has its name: not while its class is being made. One whose class has
    code of its own for what Python asks of it is an object like any other."""
    if not is_a(value, enum.Enum) or "_name_" not in object.__getattribute__(value, "__dict__"):
        return False
    classes = [cls for cls in type(value).__mro__ if home_of(cls) not in ("enum", "builtins")]
    return not any(_is_asked(name, raw) for cls in classes for name, raw in vars(cls).items())


_GIVES_ITSELF = frozenset({"partition", "rpartition", "split", "rsplit"})
#: Special methods of enums that are asked when there are no members yet.
_OF_THE_CLASS = frozenset({"__new__", "__init__", "__init_subclass__", "__new_member__", "__set_name__"})


def _is_asked(name: str, raw: Any) -> bool:
    """Whether it is code of the program's that is run without being called: a special method or a property."""
    if isinstance(raw, property):
        raw = raw.fget
    elif not (name.startswith("__") and name.endswith("__")) or name in _OF_THE_CLASS:
        return False
    return isinstance(raw, FunctionType) and raw.__code__.co_filename != enum.__file__


def is_library_value(value: Any) -> bool:
    """Whether it is one of LIBRARY_TYPES, which runs none of the user's code: a zone may be the user's."""
    kind = type(value)
    return kind in LIBRARY_TYPES and type(getattr(value, "tzinfo", None)) in (NoneType, timezone)


def same_constant(a: Any, b: Any) -> bool:
    """Equality as a guard sees it: same type, same bits (NaN equals NaN, 0.0 differs from -0.0)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    return bool(a == b)


def _parts(tx: Translator, value: Variable) -> list[Variable]:
    """Of a slice."""
    if isinstance(value, SliceVariable):
        return value.parts
    known = value.constant()
    return [tx.from_constant(part) for part in (known.start, known.stop, known.step)]


class SliceVariable(Variable):
    """A slice whose parts are not all constants (tensors, symbolic sizes, objects): start, stop, step. `source` is set
    where the slice `value` existed."""

    def __init__(self, parts: list[Variable], source: Source | None = None, value: Any = MISSING) -> None:
        self.parts = parts if len(parts) == 3 else [*parts, ConstantVariable(None)]
        self.source = source
        self.value = value

    def real(self) -> Any:
        return self.value

    def python_type(self) -> type:
        return slice

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().getattr(tx, name)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """Slices are compared as the tuples of their parts."""
        if op not in COMPARISONS.values() or other.python_type() is not slice:
            return None
        if self is other:
            return ConstantVariable(op in (operator.eq, operator.le, operator.ge))
        return tx.binary(op, tx.new_tuple(self.parts), tx.new_tuple(_parts(tx, other)))

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return tx.binary(op, tx.new_tuple(_parts(tx, other)), tx.new_tuple(self.parts)) if other.is_constant() else None

    def reachable(self) -> list[Variable]:
        return list(self.parts)
