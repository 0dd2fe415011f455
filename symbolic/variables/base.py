"""`Variable`: what is known while tracing about one runtime value.

The protocol, for every kind of variable (`tx` is the `Translator`):

* a method answers with a Variable, raises `Observed` (through `tx.raise_`) where the program would raise, and raises
  `GraphBreak` where the answer can't be known before the program runs;
* a fact about an existing object is read through `tx.know(source, kind, payload)`, which guards it;
* a mutation changes the variable and tells the ledger (`tx.ledger.touch(self)` or `.store(self, name, value)`);
* identity of variables is identity of objects: one object, one variable.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias, NoneType, UnionType
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.passing import namespace_of
from symbolic.sources import Source

if TYPE_CHECKING:
    from symbolic.frames import Frame
    from symbolic.translator import Translator


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Missing()


def lookup(cls: type, name: str) -> Any:
    """The raw attribute that `type` lookup finds along the MRO, MISSING if none."""
    for base in cls.__mro__:
        found = namespace_of(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def raw_attributes(classes: Iterable[type]) -> Iterator[tuple[str, Any]]:
    """What each of the classes has itself, by name."""
    return itertools.chain.from_iterable(namespace_of(cls).items() for cls in classes)


#: operator function -> (dunder, reflected dunder)
BINARY = {
    operator.add: ("__add__", "__radd__"),
    operator.sub: ("__sub__", "__rsub__"),
    operator.mul: ("__mul__", "__rmul__"),
    operator.truediv: ("__truediv__", "__rtruediv__"),
    operator.floordiv: ("__floordiv__", "__rfloordiv__"),
    operator.mod: ("__mod__", "__rmod__"),
    operator.pow: ("__pow__", "__rpow__"),
    operator.matmul: ("__matmul__", "__rmatmul__"),
    operator.lshift: ("__lshift__", "__rlshift__"),
    operator.rshift: ("__rshift__", "__rrshift__"),
    operator.and_: ("__and__", "__rand__"),
    operator.or_: ("__or__", "__ror__"),
    operator.xor: ("__xor__", "__rxor__"),
    divmod: ("__divmod__", "__rdivmod__"),
    operator.lt: ("__lt__", "__gt__"),
    operator.le: ("__le__", "__ge__"),
    operator.gt: ("__gt__", "__lt__"),
    operator.ge: ("__ge__", "__le__"),
    operator.eq: ("__eq__", "__eq__"),
    operator.ne: ("__ne__", "__ne__"),
}
#: Python's own numbers, whose values are compared, of whatever derived class they are.
NUMBERS = (int, float, complex)
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
#: in-place operator function -> (plain operator function, in-place dunder)
INPLACE = {
    operator.iadd: (operator.add, "__iadd__"),
    operator.isub: (operator.sub, "__isub__"),
    operator.imul: (operator.mul, "__imul__"),
    operator.itruediv: (operator.truediv, "__itruediv__"),
    operator.ifloordiv: (operator.floordiv, "__ifloordiv__"),
    operator.imod: (operator.mod, "__imod__"),
    operator.ipow: (operator.pow, "__ipow__"),
    operator.imatmul: (operator.matmul, "__imatmul__"),
    operator.ilshift: (operator.lshift, "__ilshift__"),
    operator.irshift: (operator.rshift, "__irshift__"),
    operator.iand: (operator.and_, "__iand__"),
    operator.ior: (operator.or_, "__ior__"),
    operator.ixor: (operator.xor, "__ixor__"),
}
UNARY = {
    operator.neg: "__neg__",
    operator.pos: "__pos__",
    operator.invert: "__invert__",
    abs: "__abs__",
}


class Variable:
    """A runtime value as tracing knows it. `source` is the path to an object that exists before the frame runs."""

    source: Source | None = None
    #: Of a dict key that the frame made: says of the keys of a dict that existed before that none is equal to it.
    absent_if: Callable[[Any], bool] | None = None
    #: Whether the program has it, so that the frame may be split while it is on the stack.
    is_shown: bool = True

    def realize(self, tx: Translator) -> Variable:
        """The variable itself; for an argument that nobody has looked at yet, the one that it becomes."""
        return self

    # --- what it is -------------------------------------------------------------------------------------------------
    def python_type(self) -> type:
        """The exact type of the value."""
        raise GraphBreak("type not known", type(self).__name__)

    def is_constant(self) -> bool:
        """Whether the whole value is known and immutable, so that `constant()` answers."""
        return False

    def varies(self) -> bool:
        """Whether it is a number that is known for the inputs at hand alone, or not before the graph runs."""
        return False

    def constant(self) -> Any:
        """The value as a Python object (constants, and tuples, slices, ... of them)."""
        raise GraphBreak("value not known before the program runs", self.describe())

    def real(self) -> Any:
        """The existing Python object behind the variable, MISSING for what is born in the frame or is in the graph."""
        return MISSING

    def key(self) -> Any:
        """A hashable stand-in that is equal for equal dict keys. Default: the object's identity."""
        return Identity(self)

    def hashed_as(self) -> Variable | None:
        """What a reference leads to, that is compared and hashed in its place."""
        return None

    def describe(self) -> str:
        """For messages: what a person would call this value."""
        where = f" {self.source.text}" if self.source is not None else ""
        try:
            return f"{self.python_type().__qualname__} object{where}"
        except GraphBreak:
            return f"{type(self).__name__}{where}"

    # --- what it can do ---------------------------------------------------------------------------------------------
    def getattr(self, tx: Translator, name: str) -> Variable:
        """`value.name`; raises AttributeError through `tx.raise_`."""
        raise GraphBreak("attribute access not supported", f"{self.describe()}.{name}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        raise GraphBreak("attribute store not supported", f"{self.describe()}.{name} = ...")

    def delattr(self, tx: Translator, name: str) -> None:
        raise GraphBreak("attribute deletion not supported", f"del {self.describe()}.{name}")

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """`value(*args, **kwargs)`, run to its end."""
        raise GraphBreak("call not supported", self.describe())

    def enter(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Frame | None:
        """The frame to push if calling means running one Python frame, None if `call` does the work."""
        return None

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """`value.name(*args, **kwargs)`; kinds with native methods answer these without making a bound method."""
        return tx.call(self.getattr(tx, name), args, kwargs)

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        raise GraphBreak("subscript not supported", self.describe())

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        raise GraphBreak("subscript store not supported", self.describe())

    def delitem(self, tx: Translator, index: Variable) -> None:
        raise GraphBreak("subscript deletion not supported", self.describe())

    def contains(self, tx: Translator, item: Variable) -> bool:
        """`item in value`"""
        raise GraphBreak("membership test not supported", self.describe())

    def length(self, tx: Translator) -> int:
        """`len(value)`"""
        raise GraphBreak("len() not supported", self.describe())

    def truth(self, tx: Translator) -> bool:
        """`bool(value)`: true of what has no say in it."""
        if any(lookup(self.python_type(), name) is not MISSING for name in ("__bool__", "__len__")):
            raise GraphBreak("truth not supported", self.describe())
        return True

    def iterator(self, tx: Translator) -> Variable:
        """`iter(value)`: a variable whose `next` answers."""
        raise GraphBreak("iteration not supported", self.describe())

    def next(self, tx: Translator) -> Variable | None:
        """`next(value)` of an iterator; None when it is exhausted."""
        raise GraphBreak("next() not supported", self.describe())

    def iternext(self, tx: Translator) -> Variable | None:
        """The same for what passes StopIteration on: one that was raised, or has a value, is raised."""
        return self.next(tx)

    def unpack(self, tx: Translator) -> list[Variable]:
        """All elements, as `[*value]` gives them."""
        iterator = self.iterator(tx)
        items = []
        while (item := tx.next(iterator)) is not None:
            items.append(item)
            if len(items) > tx.options.unroll_limit:
                raise GraphBreak("loop too long to unroll", self.describe())
        return items

    def as_dict(self, tx: Translator) -> Any:
        """The dict that it is or has in it, a `DictVariable`: of an object's attributes, as they are now. Else None."""
        return None

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """`op(self, other)`, None for NotImplemented. `op` is a key of BINARY."""
        return None

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """`op(other, self)` by the reflected method, None for NotImplemented."""
        return None

    def reflected(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """What the method of that name answers, `__radd__` for `operator.add`; None: NotImplemented."""
        return self.rbinary(tx, op, other)

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """`op(self, other)` for an in-place op (a key of INPLACE); None: fall back to the plain operator."""
        return None

    def as_sequence(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """`op(self, other)` of a sequence when neither operand's method answers, None for NotImplemented."""
        return None

    def unary(self, tx: Translator, op: Any) -> Variable:
        """`op(self)`, op a key of UNARY."""
        raise GraphBreak("unary operator not supported", f"{op.__name__} of {self.describe()}")

    def is_same(self, tx: Translator, other: Variable) -> bool:
        """`self is other`, guarded: what came in as two objects may come in as one."""
        if self is not other and self.python_type() is other.python_type():
            if self.real() is not MISSING and self.real() is other.real():
                raise GraphBreak("one object as two values", self.describe())
            tx.apart(self, other)
        return self is other

    @property
    def whole(self) -> Variable:
        """The object of a derived class whose native part this is, if it is one's: else itself."""
        return self

    def reachable(self) -> list[Variable]:
        """The variables this one directly holds (for liveness and reconstruction)."""
        return []

    def holds(self) -> list[Variable]:
        """Those that the value may keep alive at the moment."""
        return self.reachable()

    def keeps(self) -> list[Variable]:
        """Those that it keeps alive for certain."""
        return []

    def __str__(self) -> str:
        """As an expression of Python, for the lines that effects print."""
        return self.source.text if self.source is not None else f"{self.python_type().__name__}(...)"

    def takes(self, before: Any = None) -> str:
        """As a line of Python: how an existing container becomes this, having been that `before` (None: as it was)."""
        return f"{self}[...] = ..."


#: What `list[int]` is, `Callable[[int], int]` of `collections.abc`, and `int | None`.
ALIASES: tuple[type, ...] = (GenericAlias, type(Callable[[int], int]), UnionType)


def joins(other: Variable) -> bool:
    """Whether a class and it make a union by code that is none of the program's."""
    kind = other.python_type()
    return issubclass(kind, type) or kind in (NoneType, *ALIASES)


def spelled(qualname: str) -> str:
    """The name of a function or class as an expression of Python; those of functions are not reached from outside."""
    name = qualname.rpartition("<locals>.")[2]
    return "lambda: ..." if name == "<lambda>" else name


class ExistingVariable(Variable):
    """An object that existed before the frame, as it is."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def real(self) -> Any:
        return self.value


class FixedVariable(ExistingVariable):
    """A fixed part of the program (a class, module or function): residual code holds it."""

    def __str__(self) -> str:
        name = getattr(self.value, "__qualname__", None) or getattr(self.value, "__name__", None)
        return spelled(str(name or self.describe()))

    def key(self) -> Any:
        return self.value

    def is_same(self, tx: Translator, other: Variable) -> bool:
        return other.real() is self.value


class OpaqueVariable(ExistingVariable):
    """An existing object that tracing does not look into; every operation on it breaks for the same `cause`."""

    def __init__(self, value: Any, source: Source, cause: GraphBreak) -> None:
        super().__init__(value, source)
        self.cause = cause

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise GraphBreak(self.cause.reason, self.cause.detail, self.cause.hint)

    getattr = setattr = delattr = call = method = getitem = setitem = delitem = contains = length = truth = _refuse
    iterator = next = binary = rbinary = inplace = unary = key = _refuse


class Identity:
    """Dict key of an object that is hashed by identity."""

    __slots__ = ("variable",)

    def __init__(self, variable: Variable) -> None:
        self.variable = variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __eq__(self, other: object) -> bool:
        return type(other) is Identity and other.variable is self.variable


class NullVariable(Variable):
    """The NULL that call sequences keep on the stack."""

    def describe(self) -> str:
        return "NULL"


NULL = NullVariable()
