"""The loop IR. What it means is what `evaluate.py` does with it; `check.py` says what is well formed.

    Kernel ::= for axes (in parallel, row-major): Loop*                       loops run one after the other
    Loop   ::= for axes (in order, row-major): Statement*                     no axes: the statements run once
    Statement ::= Store(buffer, index, value)
               | Store(buffer, index, value, into=kind) the element and the value combined by `ops.PUTS[kind]`, round
                                                    after round: several of one element of the kernel's axes may name it
               | Store(buffer, index, value, since) the sum of the values of all rounds of this index, which begin where
                                                    `since` is 0 and follow each other in one stretch of the kernel
               | Reduce(name, kind, value)      name := value combined over all rounds of this loop

    Expr ::= Literal(value)                     a constant
           | Scalar(name)                       a number that each call gives
           | Position(index)                    an index expression as int64
           | Load(buffer, index, mask)          an element; 0 where the mask is false, and nothing is read
           | Op(name, args)                     a row of `ops.OPS`, its args converted already: `to` converts
           | Result(name)                       what an earlier loop has reduced
           | Running(name)                      what this loop has reduced up to this round: a scan

Before kernels are made there are two more (`definitions.py`): Read(tensor, indices, mask), an element of a definition,
and Placed(value, indices), what a definition says of the element there, which elements of others may be part of.

Each Expr has a dtype. A value of float16 or bfloat16 is rounded to it by every Op, as eager does. `index` counts
elements from the first one of the buffer (`codegen.kernels.index`). Integers that the kernel computes can be part of an
index (`index.Value(expr)`). The axes of the kernel are those of all its loops and their results; an index of a
Store names each element once over all rounds.

The statements of a round are computed in their order, and what they store is stored when all of them are: a load gives
what was there before the round.

Expressions are shared: equal ones are one object (`==` is `is`), so a memo by object finds what is computed twice.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol


class Expr:
    """One of the kinds below. `dtype`: of its value; `args`: the expressions that it reads.

    Python's operators make Ops of the IR; a plain number among the operands is a Literal of the other one's dtype."""

    __slots__ = ("__weakref__", "_key", "args", "dtype")
    args: tuple[Expr, ...]
    dtype: torch.dtype
    _key: str

    def _parts(self) -> tuple[Expr, ...]:
        """What `args` are."""
        return ()

    @property
    def key(self) -> str:
        """What no other expression has, in every process the same."""
        for expr in () if hasattr(self, "_key") else walk(self):
            if not hasattr(expr, "_key"):
                fields = [_key(getattr(expr, slot)) for slot in type(expr).__slots__]
                text = f"{type(expr).__name__} {expr.dtype} {fields}"
                expr._key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return self._key

    def __add__(self, other: Operand) -> Expr:
        return op("add", self.dtype, self, like(self, other))

    def __radd__(self, other: Operand) -> Expr:
        return op("add", self.dtype, like(self, other), self)

    def __sub__(self, other: Operand) -> Expr:
        return op("sub", self.dtype, self, like(self, other))

    def __rsub__(self, other: Operand) -> Expr:
        return op("sub", self.dtype, like(self, other), self)

    def __mul__(self, other: Operand) -> Expr:
        return op("mul", self.dtype, self, like(self, other))

    def __rmul__(self, other: Operand) -> Expr:
        return op("mul", self.dtype, like(self, other), self)

    def __truediv__(self, other: Operand) -> Expr:
        return op("div", self.dtype, self, like(self, other))

    def __rtruediv__(self, other: Operand) -> Expr:
        return op("div", self.dtype, like(self, other), self)

    def __neg__(self) -> Expr:
        return op("neg", self.dtype, self)

    def __lt__(self, other: Operand) -> Expr:
        return op("lt", torch.bool, self, like(self, other))

    def __le__(self, other: Operand) -> Expr:
        return op("le", torch.bool, self, like(self, other))

    def __gt__(self, other: Operand) -> Expr:
        return op("gt", torch.bool, self, like(self, other))

    def __ge__(self, other: Operand) -> Expr:
        return op("ge", torch.bool, self, like(self, other))

    def __and__(self, other: Expr) -> Expr:
        return op("and", self.dtype, self, other)

    def __or__(self, other: Expr) -> Expr:
        return op("or", self.dtype, self, other)

    def __invert__(self) -> Expr:
        return op("not", self.dtype, self)


Operand = Expr | bool | int | float


def _key(field: Any) -> str:
    """A field of an expression whose parts have their keys."""
    match field:
        case Expr():
            return field.key
        case Index():
            return ix.key(field)
        case tuple():
            return str(list(map(_key, field)))
    return repr(field)


#: The one object for each key.
_SHARED: WeakValueDictionary[Any, Any] = WeakValueDictionary()


class Literal(Expr):
    __slots__ = ("value",)
    value: bool | int | float | complex

    def __str__(self) -> str:
        return str(self.value)


class Scalar(Expr):
    __slots__ = ("name",)
    name: str

    def __str__(self) -> str:
        return self.name


class Position(Expr):
    __slots__ = ("index",)
    index: Index

    def _parts(self) -> tuple[Expr, ...]:
        return values_in(self.index)

    def __str__(self) -> str:
        return f"<{self.index}>"


class Load(Expr):
    __slots__ = ("buffer", "index", "mask")
    buffer: str
    index: Index
    mask: Expr | None

    def _parts(self) -> tuple[Expr, ...]:
        return values_in(self.index) if self.mask is None else (*values_in(self.index), self.mask)

    def __str__(self) -> str:
        return f"{self.buffer}[{self.index}]" if self.mask is None else f"{self.buffer}[{self.index} if {self.mask}]"


class Read(Expr):
    __slots__ = ("tensor", "indices", "mask")
    tensor: str
    indices: tuple[Index, ...]
    mask: Expr | None

    def _parts(self) -> tuple[Expr, ...]:
        inside = tuple(value for at in self.indices for value in values_in(at))
        return inside if self.mask is None else (*inside, self.mask)

    def __str__(self) -> str:
        at = ", ".join(map(str, self.indices))
        return f"{self.tensor}[{at}]" if self.mask is None else f"{self.tensor}[{at} if {self.mask}]"


class Placed(Expr):
    __slots__ = ("indices", "value")
    value: Expr
    indices: tuple[Index, ...]

    def _parts(self) -> tuple[Expr, ...]:
        return (self.value, *(value for at in self.indices for value in values_in(at)))

    def __str__(self) -> str:
        return f"{self.value} at [{', '.join(map(str, self.indices))}]"


class Op(Expr):
    __slots__ = ("name", "operands")
    name: str
    operands: tuple[Expr, ...]

    def _parts(self) -> tuple[Expr, ...]:
        return self.operands

    def __str__(self) -> str:
        name = f"to_{str(self.dtype).removeprefix('torch.')}" if self.name == "to" else self.name
        return f"{name}({', '.join(map(str, self.operands))})"


class Result(Expr):
    __slots__ = ("name",)
    name: str

    def __str__(self) -> str:
        return self.name


class Running(Expr):
    __slots__ = ("name",)
    name: str

    def __str__(self) -> str:
        return f"running {self.name}"


def _shared(kind: type[Any], dtype: torch.dtype, *fields: Any) -> Any:
    # 1, 1.0 and True are equal, 0.0 and -0.0 too, nan is not: the type and the text tell them apart
    key = (kind, dtype, *fields) if kind is not Literal else (kind, dtype, repr(fields[0]))
    found = _SHARED.get(key)
    if found is None:
        found = object.__new__(kind)
        found.dtype = dtype
        for slot, value in zip(kind.__slots__, fields, strict=True):
            setattr(found, slot, value)
        found.args = found._parts()
        _SHARED[key] = found
    return found


def literal(value: bool | int | float | complex, dtype: torch.dtype) -> Literal:
    """The value as that dtype has it."""
    return _shared(Literal, dtype, _as(value, dtype))


def _as(value: Any, dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    if dtype.is_floating_point:
        if dtype is torch.float64:
            return float(value)
        return torch.tensor(value, dtype=dtype, device="cpu").item()  # the user's default device may be another
    return int(value)


def like(expr: Expr, value: Operand) -> Expr:
    """The value as an expression of the same dtype."""
    return value if isinstance(value, Expr) else literal(value, expr.dtype)


def scalar(name: str, dtype: torch.dtype) -> Scalar:
    return _shared(Scalar, dtype, name)


def position(at: ix.Integer) -> Position:
    return _shared(Position, torch.int64, ix.index(at))


def load(buffer: str, at: ix.Integer, dtype: torch.dtype, mask: Expr | None = None) -> Load:
    return _shared(Load, dtype, buffer, ix.index(at), mask)


def read(
    tensor: str, indices: tuple[Index, ...], dtype: torch.dtype, mask: Expr | None = None
) -> Read:
    return _shared(Read, dtype, tensor, indices, mask)


def placed(value: Expr, indices: tuple[Index, ...]) -> Placed:
    return _shared(Placed, value.dtype, indices, value)


def op(name: str, dtype: torch.dtype, *operands: Expr) -> Op:
    return _shared(Op, dtype, name, operands)


def result(name: str, dtype: torch.dtype) -> Result:
    return _shared(Result, dtype, name)


def running(name: str, dtype: torch.dtype) -> Running:
    return _shared(Running, dtype, name)


#: Operations and leaves in a line of a kernel's text.
LONGEST_LINE = 24


# --- statements -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Store:
    buffer: str
    index: Index
    value: Expr
    since: Index | None = None
    into: str | None = None

    def __str__(self) -> str:
        if self.into is not None:
            return f"{self.buffer}[{self.index}] := {self.into} of it and {self.value}"
        if self.since is not None:
            return f"{self.buffer}[{self.index}] = sum since {self.since} = 0 of {self.value}"
        return f"{self.buffer}[{self.index}] = {self.value}"


@dataclass(frozen=True)
class Reduce:
    """`name` := `value` over all rounds of the loop, by `ops.REDUCTIONS[kind]`. The result has the value's dtype;
    int64 for `argmax` and `argmin`: the row-major position over the loop's axes of the first extreme value or NaN."""

    name: str
    kind: str
    value: Expr

    @property
    def dtype(self) -> torch.dtype:
        return torch.int64 if self.kind in ("argmax", "argmin") else self.value.dtype

    def __str__(self) -> str:
        return f"{self.name} = {self.kind} of {self.value}"


Statement = Store | Reduce


@dataclass(frozen=True)
class Loop:
    axes: tuple[Symbol, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        return _nest(self.axes, _written(self.body))


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel is given: `size` elements. `role`: "in" is only read, "out" only written, "inout" both: an
    element is read before it is written, by the same round or an earlier one of the same element of `axes`; or it is
    one that a store combines with what is there."""

    name: str
    dtype: torch.dtype
    size: Index
    role: str

    def __str__(self) -> str:
        return f"{self.name}: {self.role} {str(self.dtype).removeprefix('torch.')}[{self.size}]"


@dataclass(frozen=True)
class Kernel:
    """`sizes`: the symbols of sizes in it, `scalars`: the numbers; both come with each call, in that order.
    `sources`: the user's lines that it computes. `stretch`: so many positions, row-major, are done in order by one
    thread, if that is not 1."""

    name: str
    axes: tuple[Symbol, ...]
    loops: tuple[Loop, ...]
    buffers: tuple[Buffer, ...]
    sizes: tuple[Symbol, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    sources: tuple[str, ...] = ()
    stretch: int = 1

    def named(self, copies: int) -> str:
        """The name of what does it so many times at once, each on buffers of its own."""
        return self.name if copies == 1 else f"{self.name}_x{copies}"

    def __str__(self) -> str:
        given = ", ".join(map(str, (*self.buffers, *self.sizes, *self.scalars)))
        kind = "parallel " if self.stretch == 1 else f"parallel by {self.stretch} "
        return f"{self.name}({given})\n{_nest(self.axes, map(str, self.loops), kind)}"


def _nest(axes: tuple[Symbol, ...], body: Iterator[str], kind: str = "") -> str:
    lines = [line for text in body for line in text.splitlines()]
    if not axes:
        return "\n".join(lines)
    ranges = ", ".join(f"{axis} < {axis.size}" for axis in axes)
    return "\n".join([f"{kind}for {ranges}:", *(f"    {line}" for line in lines)])


def _written(statements: tuple[Statement, ...]) -> Iterator[str]:
    """A line for each. An operation whose result is read more than once, or that many others lead to, has a name and a
    line of its own."""
    roots = [expr for statement in statements for expr in reads(statement)]
    uses = Counter(roots)
    for expr in walk(*roots):
        uses.update(expr.args)
    short: dict[Expr, Expr] = {}  # with the names of its parts
    sizes: dict[Expr, int] = {}
    for statement in statements:
        for expr in walk(*reads(statement)):
            if expr in short:
                continue
            short[expr], sizes[expr] = expr, 1
            if isinstance(expr, Op):
                short[expr] = op(expr.name, expr.dtype, *(short[operand] for operand in expr.operands))
                sizes[expr] += sum(sizes[operand] for operand in expr.operands)
            if isinstance(expr, Op) and (uses[expr] > 1 or sizes[expr] > LONGEST_LINE):
                name = result(f"t{sum(size == 0 for size in sizes.values())}", expr.dtype)
                yield f"{name} = {short[expr]}"
                short[expr], sizes[expr] = name, 0
        yield str(replace(statement, value=short[statement.value]))


# --- walks ------------------------------------------------------------------------------------------------------------
def values_in(at: Index) -> tuple[Expr, ...]:
    """The expressions that are part of an index."""
    if not ix.has_values(at):
        return ()
    return tuple(atom.payload for atom in ix.atoms(at) if isinstance(atom, ix.Value))  # type: ignore[misc]


def reads(statement: Statement) -> tuple[Expr, ...]:
    """The expressions that a statement computes."""
    if isinstance(statement, Store):
        return (*values_in(statement.index), statement.value)
    return (statement.value,)


def walk(*roots: Expr) -> Iterator[Expr]:
    """Every expression below, each once, operands first."""
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            yield expr
        elif expr not in seen:
            seen.add(expr)
            if not expr.args:
                yield expr
                continue
            stack.append((expr, True))
            stack += [(arg, False) for arg in reversed(expr.args) if arg not in seen]


def demand(
    root: Expr, is_known: Callable[[Expr], bool], needs: Callable[[Expr], Iterable[Expr]],
    compute: Callable[[Expr], None],
) -> None:
    """Computes what is not known yet of all that `root` needs, operands first. Without recursion: chains are long."""
    stack = [root]
    while stack:
        expr = stack[-1]
        missing = [] if is_known(expr) else [other for other in needs(expr) if not is_known(other)]
        if missing:
            stack.extend(reversed(missing))
            continue
        if not is_known(expr):
            compute(expr)
        stack.pop()


def indices_in(expr: Expr) -> Index | None:
    """The index expression of a leaf that has one."""
    return expr.index if isinstance(expr, Load | Position) else None


Rule = Callable[[Expr], Expr | None]


def rewrite(root: Expr, rule: Rule, axes: Mapping[Symbol, Index] | None = None) -> Expr:
    """`root` with other symbols in all its indices (`axes`), and each leaf as `rule` has it (None: as it is).

    `rule` sees a leaf (no Op) after its symbols were replaced."""
    known: Mapping[Symbol, Index] = axes or {}
    pairs = tuple(known.items())
    made: dict[Expr, Expr] = {}

    def index_again(at: Index) -> Index:
        return ix.substitute(at, known, lambda value: ix.index(_value_again(value)))

    def _value_again(value: ix.Value) -> ix.Value:
        upper = None if value.upper is None else ix.substitute(value.upper, known)
        return ix.Value(made[value.payload], upper)  # type: ignore[index]

    for expr in walk(root):
        again: Expr
        match expr:
            case Op():
                again = op(expr.name, expr.dtype, *(made[arg] for arg in expr.operands))
            case Load():
                mask = None if expr.mask is None else made[expr.mask]
                again = load(expr.buffer, index_again(expr.index), expr.dtype, mask)
            case Read():
                mask = None if expr.mask is None else made[expr.mask]
                if len(expr.args) == (mask is not None):  # no values
                    indices = ix.substitute_all(expr.indices, pairs) if pairs else expr.indices
                else:
                    indices = tuple(map(index_again, expr.indices))
                again = read(expr.tensor, indices, expr.dtype, mask)
            case Position():
                again = position(index_again(expr.index))
            case Placed():
                again = placed(made[expr.value], tuple(map(index_again, expr.indices)))
            case _:
                again = expr
        if not isinstance(expr, Op | Placed):
            found = rule(again)
            again = again if found is None else found
        made[expr] = again
    return made[root]
