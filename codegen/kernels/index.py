"""Index expressions: polynomials with integer coefficients over axes, sizes and floored quotients.

    Index    ::= sum of coefficient * product of atoms
    Atom     ::= Symbol(name, size)            an axis, 0 <= axis < size; a size, >= 0, where `size` is None
               | Quotient(Index, Index)        floor(a / b), b > 0
               | Remainder(Index, Index)       a - b * floor(a / b), b > 0
               | Extremum("min" | "max", Index, Index)
               | Value(payload, upper)         an integer that the kernel computes, 0 <= value < upper if that is known

Sums and products have one normal form, so expressions are equal whichever way they were computed. sympy knows more and
needs a hundred times as long, which would be most of a compilation: sizes come from it (`of_sympy`) and never go back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, Union

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

Monomial = tuple["Atom", ...]  # sorted by `order`; () is the constant
Integer = Union["Index", int]


class Index:
    """A polynomial: terms in the order of their monomials, none of coefficient 0."""

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return self.terms == ((((), other),) if other else ())
        return isinstance(other, Index) and self._hash == other._hash and self.terms == other.terms

    def __add__(self, other: Integer) -> Index:
        other = index(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        return _polynomial([*self.terms, *other.terms])

    __radd__ = __add__

    def __neg__(self) -> Index:
        return _of(tuple((monomial, -c) for monomial, c in self.terms))

    def __sub__(self, other: Integer) -> Index:
        return self + -index(other)

    def __rsub__(self, other: Integer) -> Index:
        return index(other) + -self

    def __mul__(self, other: Integer) -> Index:
        other = index(other)
        factor = other.constant
        if factor is not None:
            return _of(tuple((monomial, c * factor) for monomial, c in self.terms)) if factor else other
        return _polynomial([(_product(m, n), c * d) for m, c in self.terms for n, d in other.terms])

    __rmul__ = __mul__

    def __floordiv__(self, other: Integer) -> Index:
        return floor_divide(self, index(other))

    def __mod__(self, other: Integer) -> Index:
        return remainder(self, index(other))

    @property
    def constant(self) -> int | None:
        """Its value, if that is the same always."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __str__(self) -> str:
        return _written(self)

    __repr__ = __str__


@dataclass(frozen=True)
class Symbol:
    """An axis, 0 <= axis < size; a size of the program, at least 0, where `size` is None."""

    name: str
    size: Index | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    dividend: Index
    divisor: Index

    def __str__(self) -> str:
        return f"{_bracketed(self.dividend)} // {_bracketed(self.divisor)}"


@dataclass(frozen=True)
class Remainder:
    dividend: Index
    divisor: Index

    def __str__(self) -> str:
        return f"{_bracketed(self.dividend)} % {_bracketed(self.divisor)}"


@dataclass(frozen=True)
class Extremum:
    kind: str
    a: Index
    b: Index

    def __str__(self) -> str:
        return f"{self.kind}({self.a}, {self.b})"


class Payload(Protocol):
    """What a kernel computes. `key`: a short text, the same for equal ones only and in every process."""

    @property
    def key(self) -> str: ...


@dataclass(frozen=True)
class Value:
    """An integer that the kernel computes: an expression of the loop IR. 0 <= value < upper, if that is known."""

    payload: Payload
    upper: Index | None = None

    def __str__(self) -> str:
        return f"[{self.payload}]"


Atom = Symbol | Quotient | Remainder | Extremum | Value


@lru_cache(1 << 14)
def axis(prefix: str, number: int, size: Index) -> Symbol:
    """The same object for the same axis, which is quick to find and to compare."""
    return Symbol(f"{prefix}{number}", size)


def index(value: Integer | Atom) -> Index:
    if isinstance(value, Index):
        return value
    if isinstance(value, int):
        return _constant(value)
    return _of((((value,), 1),))


@lru_cache(1 << 15)
def _of(terms: tuple[tuple[Monomial, int], ...]) -> Index:
    """The same object for the same terms, as long as it is remembered: it is quicker to find and to compare."""
    return Index(terms)


@lru_cache(4096)
def _constant(value: int) -> Index:
    return Index((((), value),) if value else ())


@lru_cache(1 << 16)
def order(atom: Atom) -> tuple[str, str]:
    """What atoms are sorted by: names, so that a kernel's text does not depend on what was compiled before it."""
    return type(atom).__name__, _name(atom)


def _name(atom: Atom) -> str:
    """Its text, in which keys stand for payloads: these share parts, and their texts repeat them."""
    match atom:
        case Value():
            return atom.payload.key
        case Quotient() | Remainder() if has_values(atom.dividend) or has_values(atom.divisor):
            return f"{key(atom.dividend)}, {key(atom.divisor)}"
        case Extremum() if has_values(atom.a) or has_values(atom.b):
            return f"{atom.kind}, {key(atom.a)}, {key(atom.b)}"
    return str(atom)


def key(a: Index) -> str:
    """A text that no other index has."""
    return str([(list(map(order, monomial)), c) for monomial, c in a.terms])


def _monomial_order(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    return tuple(map(order, term[0]))


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted(a + b, key=order)) if a and b else a or b


def _polynomial(terms: list[tuple[Monomial, int]]) -> Index:
    total: dict[Monomial, int] = {}
    for monomial, c in terms:
        total[monomial] = total.get(monomial, 0) + c
    _recombine(total)
    return _of(tuple(sorted(((m, c) for m, c in total.items() if c), key=_monomial_order)))


def _recombine(total: dict[Monomial, int]) -> None:
    """d * (x // d) + x % d = x, whatever both are multiplied by."""
    for monomial, c in list(total.items()):
        for atom in monomial:
            if not isinstance(atom, Remainder) or len(atom.divisor.terms) != 1 or not total.get(monomial):
                continue
            ((divisor, factor),) = atom.divisor.terms
            rest = _without(monomial, (atom,))
            assert rest is not None
            other = _product(_product(rest, divisor), (Quotient(atom.dividend, atom.divisor),))
            if total.get(other) == c * factor:
                del total[monomial], total[other]
                for part, d in atom.dividend.terms:
                    whole = _product(rest, part)
                    total[whole] = total.get(whole, 0) + c * d


# --- division ---------------------------------------------------------------------------------------------------------
@lru_cache(1 << 14)
def floor_divide(a: Index, b: Index) -> Index:
    """floor(a / b) for b > 0; anything for b = 0, which is the size of axes that no loop runs over."""
    if b == 1 or not a.terms or not b.terms:
        return a
    if a.constant is not None and b.constant is not None:
        return index(a.constant // b.constant)
    quotient, rest = _divided(a, b)
    if is_within(rest, b):
        return quotient
    rest, b = _coarser(rest, b)
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and len(rest.terms[0][0]) == 1:
        (atom,) = rest.terms[0][0]
        if isinstance(atom, Quotient):  # floor(floor(x / a) / b) = floor(x / (a * b))
            return quotient + floor_divide(atom.dividend, atom.divisor * b)
    if is_within(rest, b):
        return quotient
    return quotient + index(Quotient(rest, b))


@lru_cache(1 << 14)
def remainder(a: Index, b: Index) -> Index:
    """a - b * floor(a / b) for b > 0; anything for b = 0."""
    if b == 1 or not a.terms or not b.terms:
        return index(0)
    if a.constant is not None and b.constant is not None:
        return index(a.constant % b.constant)
    _, rest = _divided(a, b)
    if is_within(rest, b):
        return rest
    # g * h + low, low < g, g divides b: the low part stays as it is
    for g, (high, low) in _splits(rest, b):
        if g != 1:
            return remainder(high, floor_divide(b, g)) * g + low
    return index(Remainder(rest, b))


def _divided(a: Index, b: Index) -> tuple[Index, Index]:
    """a = b * quotient + rest, as far as b divides terms of a."""
    if len(b.terms) != 1:
        found = _multiple_of_sum(a, b) or index(0)
        return found, a - found * b
    ((divisor, factor),) = b.terms
    whole, rest = [], []
    for monomial, c in a.terms:
        left = _without(monomial, divisor)
        if left is None:
            rest.append((monomial, c))
            continue
        times, over = divmod(c, factor)
        if times:
            whole.append((left, times))
        if over:
            rest.append((monomial, over))
    return _polynomial(whole), _polynomial(rest)


def _multiple_of_sum(a: Index, b: Index) -> Index | None:
    """q where some part of a is q * b, b a sum: found by b's leading term."""
    lead, factor = b.terms[-1]
    for monomial, c in a.terms:
        left = _without(monomial, lead)
        if left is not None and c % factor == 0:
            q = _polynomial([(left, c // factor)])
            if len((a - q * b).terms) <= len(a.terms) - len(b.terms):
                further = _multiple_of_sum(a - q * b, b)
                return q if further is None else q + further
    return None


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _coarser(a: Index, b: Index) -> tuple[Index, Index]:
    """A pair of the same quotient: what lies below a common unit of a's other terms and b plays no part in it."""
    for g, (high, _) in _splits(a, b):
        if g != 1:
            return high, floor_divide(b, g)
    return a, b


def _splits(a: Index, b: Index) -> Iterator[tuple[Index, tuple[Index, Index]]]:
    """(g, (high, low)) with a = g * high + low, 0 <= low < g and g a divisor of b; the largest g first."""
    units = {Index(((_sizes_of(m), abs(c)),)) for m, c in a.terms if m}
    constant = b.constant
    if constant is not None:
        units |= {index(math.gcd(u.constant, constant)) for u in units if u.constant is not None}
    for g in sorted(units, key=lambda u: (len(u.terms[0][0]), u.terms[0][1]), reverse=True):
        if len(b.terms) != 1 or _divided(b, g)[1] != 0:
            continue
        high, low = _divided(a, g)
        if is_within(low, g):
            yield g, (high, low)


def _sizes_of(monomial: Monomial) -> Monomial:
    return tuple(atom for atom in monomial if isinstance(atom, Symbol) and atom.size is None)


# --- what can be proved -----------------------------------------------------------------------------------------------
def is_within(a: Index, size: Index) -> bool:
    """Whether 0 <= a < size can be proved."""
    return is_nonnegative(a) and is_nonnegative(size - a - 1)


@lru_cache(1 << 14)
def is_nonnegative(a: Index) -> bool:
    """Whether a >= 0 can be proved, for all values of the axes in loops that run at all, all sizes at least 1."""
    for atom in _bounded(a):
        slope, rest = _linear(a, atom)
        if slope is None:
            continue
        if is_nonnegative(slope):
            return is_nonnegative(rest)
        if is_nonnegative(-slope):
            upper = _upper(atom)
            return upper is not None and is_nonnegative(rest + slope * upper)
        return False
    lowest = a
    # sizes are at least 1: with s = t + 1 and t >= 0, coefficients of one sign tell
    for size in {atom for monomial, _ in lowest.terms for atom in monomial}:
        if not (isinstance(size, Symbol) and size.size is None):
            return all(c >= 0 for _, c in a.terms) and all(_is_positive(m) for m, _ in a.terms)
        lowest = substitute(lowest, {size: index(size) + 1})
    return all(c >= 0 for _, c in lowest.terms)


def _is_positive(monomial: Monomial) -> bool:
    return all(not isinstance(atom, Extremum | Value | Quotient) or _lower_is_zero(atom) for atom in monomial)


def _lower_is_zero(atom: Atom) -> bool:
    if isinstance(atom, Value):
        return atom.upper is not None
    if isinstance(atom, Quotient):
        return is_nonnegative(atom.dividend)
    if isinstance(atom, Extremum):
        each = is_nonnegative(atom.a), is_nonnegative(atom.b)
        return all(each) if atom.kind == "min" else any(each)
    return True


def _bounded(a: Index) -> list[Atom]:
    """The atoms of a that have bounds of their own, axes first inner last."""
    found: dict[Atom, None] = {}
    for monomial, _ in a.terms:
        for atom in monomial:
            if not isinstance(atom, Symbol) or atom.size is not None:
                if _lower_is_zero(atom):
                    found[atom] = None
    return list(found)


def _upper(atom: Atom) -> Index | None:
    """The largest value."""
    match atom:
        case Symbol(size=Index() as size) | Value(upper=Index() as size):
            return size - 1
        case Remainder():
            return atom.divisor - 1
        case Quotient():
            highest = maximum_of(atom.dividend)
            return None if highest in (None, atom.dividend) else floor_divide(highest, atom.divisor)
    return None


def maximum_of(a: Index) -> Index | None:
    """An upper bound of a over its axes, in sizes alone."""
    for atom in _bounded(a):
        slope, rest = _linear(a, atom)
        upper = _upper(atom)
        if slope is None or upper is None:
            return None
        if is_nonnegative(slope):
            return maximum_of(rest + slope * upper)
        return maximum_of(rest) if is_nonnegative(-slope) else None
    return a


def _linear(a: Index, atom: Atom) -> tuple[Index | None, Index]:
    """a = slope * atom + rest, neither with that atom; slope None where it is not so."""
    slope, rest = [], []
    for monomial, c in a.terms:
        if atom not in monomial:
            rest.append((monomial, c))
            continue
        left = _without(monomial, (atom,))
        if left is None or atom in left:
            return None, a
        slope.append((left, c))
    return _polynomial(slope), _polynomial(rest)


@lru_cache(1 << 14)
def stride_of(a: Index, axis: Symbol) -> Index | None:
    """By how much a grows from one value of that axis to the next; None where it is not always as much."""
    slope, rest = _linear(a, axis)
    return None if slope is None or axis in symbols(rest) or axis in symbols(slope) else slope


# --- walks ------------------------------------------------------------------------------------------------------------
def atoms(a: Index) -> Iterator[Atom]:
    """All atoms, also those inside others (not those inside the payload of a Value)."""
    for monomial, _ in a.terms:
        for atom in monomial:
            yield atom
            match atom:
                case Quotient() | Remainder():
                    yield from atoms(atom.dividend)
                    yield from atoms(atom.divisor)
                case Extremum():
                    yield from atoms(atom.a)
                    yield from atoms(atom.b)


@lru_cache(1 << 14)
def symbols(a: Index) -> frozenset[Symbol]:
    """Axes and sizes in it, but for those inside the payload of a Value."""
    return frozenset(atom for atom in atoms(a) if isinstance(atom, Symbol))


@lru_cache(1 << 14)
def has_values(a: Index) -> bool:
    return any(isinstance(atom, Value) for atom in atoms(a))


def substitute(a: Index, known: Mapping[Symbol, Index], inside: Callable[[Value], Index] | None = None) -> Index:
    """a with other symbols, all at once; `inside` answers for the values that a kernel computes."""
    new = tuple((symbol, known[symbol]) for symbol in symbols(a) if symbol in known)
    if inside is not None and has_values(a):
        return _replaced(a, known, inside)
    return _replaced_once(a, new) if new else a


@lru_cache(1 << 14)
def substitute_all(of: tuple[Index, ...], known: tuple[tuple[Symbol, Index], ...]) -> tuple[Index, ...]:
    """The same of several that hold no values."""
    by_symbol = dict(known)
    return tuple(substitute(a, by_symbol) for a in of)


@lru_cache(1 << 14)
def _replaced_once(a: Index, known: tuple[tuple[Symbol, Index], ...]) -> Index:
    return _replaced(a, dict(known), None)


def _replaced(a: Index, known: Mapping[Symbol, Index], inside: Callable[[Value], Index] | None) -> Index:
    total = index(0)
    for monomial, c in a.terms:
        product = index(c)
        for atom in monomial:
            product = product * _substituted(atom, known, inside)
        total = total + product
    return total


def _substituted(atom: Atom, known: Mapping[Symbol, Index], inside: Callable[[Value], Index] | None) -> Index:
    def again(a: Index) -> Index:
        return substitute(a, known, inside)

    match atom:
        case Symbol():
            return known.get(atom) or index(atom)
        case Quotient():
            return floor_divide(again(atom.dividend), again(atom.divisor))
        case Remainder():
            return remainder(again(atom.dividend), again(atom.divisor))
        case Extremum():
            return extremum(atom.kind, again(atom.a), again(atom.b))
        case Value():
            return index(atom) if inside is None else inside(atom)


def extremum(kind: str, a: Index, b: Index) -> Index:
    if is_nonnegative(a - b):
        return b if kind == "min" else a
    if is_nonnegative(b - a):
        return a if kind == "min" else b
    first, second = sorted((a, b), key=lambda each: (each.constant is not None, str(each)))  # equal ones are equal
    return index(Extremum(kind, first, second))


def evaluate(a: Index, number: Callable[[Any], Any]) -> Any:
    """The value: an int, or whatever `number` gives for the Symbols and Values (integers, tensors of them)."""
    total: Any = 0
    for monomial, c in a.terms:
        product: Any = c
        for atom in monomial:
            match atom:
                case Symbol() | Value():
                    product = product * number(atom)
                case Quotient():
                    product = product * (evaluate(atom.dividend, number) // evaluate(atom.divisor, number))
                case Remainder():
                    product = product * (evaluate(atom.dividend, number) % evaluate(atom.divisor, number))
                case Extremum():
                    x, y = evaluate(atom.a, number), evaluate(atom.b, number)
                    product = product * (y + (x - y) * ((x < y) if atom.kind == "min" else (x > y)))
        total = total + product
    return total


def linear_position(indices: tuple[Index, ...], sizes: tuple[Index, ...]) -> Index:
    """The row-major position of an element."""
    position = index(0)
    for i, size in zip(indices, sizes, strict=True):
        position = position * size + i
    return position


def indices_at(position: Index, sizes: tuple[Index, ...]) -> tuple[Index, ...]:
    """The element at a row-major position."""
    found: list[Index] = []
    for size in reversed(sizes[1:]):
        found.append(remainder(position, size))
        position = floor_divide(position, size)
    return (position, *reversed(found)) if sizes else ()


# --- from sympy -------------------------------------------------------------------------------------------------------
def of_sympy(expr: sympy.Expr) -> Index:
    """An expression over sizes, as torch's symbolic shapes give them. Raises NotImplementedError for what is none."""
    if expr.is_Integer:
        return index(int(expr))
    if expr.is_Symbol:
        return index(Symbol(expr.name))
    args = [of_sympy(arg) for arg in expr.args]
    match type(expr).__name__:
        case "Add":
            return sum(args, index(0))
        case "Mul":
            return math.prod(args, start=index(1))
        case "Pow" if args[1].constant is not None and args[1].constant >= 0:
            return math.prod([args[0]] * args[1].constant, start=index(1))
        case "FloorDiv" | "CleanDiv" | "IntTrueDiv":
            return floor_divide(*args)
        case "Mod" | "PythonMod":
            return remainder(*args)
        case "Max" | "Min" as kind:
            first, *others = args
            for other in others:
                first = extremum(kind.lower(), first, other)
            return first
    raise NotImplementedError(f"a size {expr}")


def is_size(value: Any) -> bool:
    """Whether it is an expression of sizes; other integers that vary are as floats are."""
    return isinstance(value, torch.SymInt) and hasattr(value.node, "expr")


def of_size(size: Any) -> Index:
    """An int or a SymInt. A formula that torch has found to be 1, for broadcasting goes by that, is 1."""
    if isinstance(size, int):
        return index(size)
    node = size.node
    if not node.expr.is_Symbol and node.has_hint() and node.hint == 1 and statically_known_true(size == 1):
        return index(1)
    return of_sympy(node.expr)


# --- text -------------------------------------------------------------------------------------------------------------
def _written(a: Index) -> str:
    if not a.terms:
        return "0"
    parts = []
    for monomial, c in a.terms:
        factors = [f"({atom})" if isinstance(atom, Quotient | Remainder) else str(atom) for atom in monomial]
        if c != 1 or not factors:
            factors.append(str(c))
        parts.append("*".join(factors))
    return " + ".join(parts).replace("+ -", "- ")


def _bracketed(a: Index) -> str:
    text = _written(a)
    return text if text.isidentifier() or text.isdigit() else f"({text})"
