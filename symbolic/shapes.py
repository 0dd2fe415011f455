"""Symbolic sizes of a capture: the shape environment, and the conditions that it came to as guards.

Each size of an input that may vary is a symbol. Whatever capture asks of it, the environment answers for the inputs at
hand and keeps as a condition. In the end all conditions are said of the inputs themselves, as `terms`.

A size that depends on values, as that of what `nonzero` gives, is a symbol of another kind: there is no number at hand.
What is true of all numbers from `SMALLEST` on is known of it, which the graph checks (`must_be_usual`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._guards import Source as TorchSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
    free_unbacked_symbols,
)
from torch.utils._sympy import functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from symbolic import corrections, lines, terms
from symbolic.errors import GraphBreak, SkipFrame
from symbolic.late import number_of, sized
from symbolic.marks import Mark
from symbolic.shares import in_integers
from symbolic.solved import Ranges, reasons, solved
from symbolic.sources import Source
from symbolic.terms import Extent, Op, Term

corrections.correct()

#: Sizes below this mean something of their own (nothing, or what is broadcast): they are compiled as they come.
SMALLEST = 2
#: What was compiled for others serves sizes from here on, where nothing depended on what broadcasts.
LEAST = 1
#: Ints that come in are symbols up to this: beyond, they are hardly sizes, and what is computed of them may be too
#: large.
MOST = 1 << 20
#: Conditions are evaluated on 64-bit integers: numbers must leave room for what is done with them.
_LARGEST = 1 << 61
#: How much new of what varies one line may ask: a loop that goes on for longer asks of plain numbers.
MOST_ASKED = 128
#: Operations in the expression of a number, at most: what loops compute of what they computed before may grow with each
#: turn as a power of it does.
MOST_SAID = 100
#: Powers are spelled out up to this exponent.
_HIGHEST_POWER = 8

#: file and line of the user's
Place = tuple[str, int]


@dataclass(frozen=True)
class _Numbered(TorchSource):
    """What the environment knows a number that came in by."""

    label: str

    @property
    def _name_template(self) -> str:
        return self.label


@dataclass(frozen=True)
class Condition:
    """A term that must hold, and the line that needed it."""

    term: Term
    place: Place


@dataclass(frozen=True)
class Specialization:
    """A number of an input that might have varied, and that the program turned out to depend on: `symbol`, in words, is
    `value`. `place`: the line that asked first, `reason`: what it asked. `is_marked`: the user said that it varies."""

    symbol: str
    value: int
    place: Place
    reason: str
    is_marked: bool = False

    def __str__(self) -> str:
        file, line = self.place
        text = lines.line(file, line)
        return f"{self.symbol} is {self.value}: {self.reason}, needed at {file}:{line}" + (f": {text}" if text else "")


@dataclass(frozen=True)
class _Input:
    """`facts`: of its tensor guard; `extents`: what in its geometry is no plain number, (own symbol, expression)."""

    facts: dict[str, Any]
    extents: tuple[tuple[sympy.Symbol, sympy.Expr], ...]
    place: Place


class UnusualSize(Exception):
    """A size that depends on values is one that the graph was not made for."""


class PlainSizesAsked(RuntimeError):
    """An operator in C++ asks for sizes that vary as for plain ones."""


def must_be_usual(size: int) -> int:
    """A step of graphs. Raises UnusualSize."""
    if _is_symbol(size):
        _tell(size >= SMALLEST)
    elif size < SMALLEST:
        raise UnusualSize(f"a size that depends on values is {size}")
    return size


def as_size(number: int) -> int:
    """A number that is a size from here on."""
    return must_be_usual(number) if number_of(number) is None else sized(as_size, number, SMALLEST)


def as_place(number: int) -> int:
    """A number that says where, counted from the beginning."""
    if number_of(number) is not None:
        return sized(as_place, number, 0)
    if number < 0:
        raise UnusualSize(f"a place that depends on values is {number}")
    return number


def must_be_equal(size: int, other: int) -> int:
    """The same for two that the capture takes for one; where they are symbols, they are one from here on."""
    if _is_symbol(size) or _is_symbol(other):
        _tell(size == other)
    elif size != other:
        raise UnusualSize(f"sizes that depend on values are {size} and {other}")
    return size


def must_be_at_most(number: int, most: int) -> int:
    if _is_symbol(number) or _is_symbol(most):
        _tell(number <= most)
    elif number > most:
        raise UnusualSize(f"a number that depends on values is {number}, and at most {most} was expected")
    return number


def must_be_so(answer: bool, wanted: bool) -> int:
    """What the program raises for if it is not so."""
    if bool(answer) is not wanted:
        raise UnusualSize(f"a check of the program's fails: {answer}")
    return SMALLEST


def _is_symbol(number: Any) -> bool:
    return isinstance(number, torch.SymInt)


def _tell(so: Any) -> None:
    """To symbols: it is checked."""
    if isinstance(so, torch.SymBool) and isinstance(env := so.node.shape_env, Environment):
        env.told(so)


#: Steps of graphs that let the frame run again.
CHECKS = frozenset({must_be_usual, must_be_equal, must_be_at_most, must_be_so, as_size, as_place})


class Environment(ShapeEnv):
    """Torch's. `by_values`: operations may have results whose sizes depend on values.

    A size of an input may be one, and what is asked of it is guarded. But where operations do the same for one as for
    others, and say so by asking with an answer at hand, they get the one that is true of sizes from SMALLEST on."""

    def __init__(self, by_values: bool) -> None:
        super().__init__(
            allow_scalar_outputs=False,
            allow_dynamic_output_shape_ops=by_values,
            assume_static_by_default=False,
            duck_shape=False,
        )
        self._replacements_version_counter = 1  # of none torch does not even ask for the replacement of an expression
        self._assumed: set[Any] = set()
        self._is_usual = self._looks = False
        self._usual: dict[Any, bool | None] = {}
        self._at_hand: dict[sympy.Symbol, Any] = {}
        self.answers = 0  # how many there were
        self.looks: dict[Any, Any] = {}  # what operations on fakes gave, for `FakeMode`

    @contextmanager
    def usually(self, looks: bool) -> Iterator[None]:
        """What is run inside does the same for one as for other sizes. `looks`: it only decides how results look; else
        the answer at hand must be the usual one, for that is right for all sizes."""
        before = self._is_usual, self._looks
        self._is_usual, self._looks = True, looks
        try:
            yield
        finally:
            self._is_usual, self._looks = before

    def create_symbol(self, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        made = super().create_symbol(val, source, *args, **kwargs)
        is_size = getattr(getattr(source, "prop", None), "name", "") == "SIZE"
        if made.is_Symbol:
            self._at_hand[made] = sympy.sympify(val)
        if made.is_Symbol and (is_size or isinstance(source, _Numbered)):
            self.var_to_range[made] = ValueRanges(LEAST, int_oo)
        return made

    def replace(self, expr: Any) -> Any:  # type: ignore[override]
        return in_integers(super().replace(expr))

    def evaluate_expr(
        self, orig_expr: Any, hint: Any = None, fx_node: Any = None, size_oblivious: bool = False,
        fallback_value: bool | None = None, **settings: Any,
    ) -> Any:  # fmt: skip
        self.answers += bool(orig_expr.free_symbols)
        if self._is_usual and fallback_value is not None:
            answer = self._usually(orig_expr)
            if answer == fallback_value or (self._looks and answer is not None):
                return sympy.true if answer else sympy.false
        settings["fallback_value"] = fallback_value
        return super().evaluate_expr(orig_expr, hint, fx_node, size_oblivious, **settings)

    def _usually(self, expr: Any) -> bool | None:
        """What is true of it for all sizes from SMALLEST on, if that is known."""
        ranges = {s: self.var_to_range[s] for s in expr.free_symbols if s in self.var_to_range}
        key = expr, frozenset(ranges.items())
        if key not in self._usual:
            self._usual[key] = self._found_usual(expr, ranges)
        return self._usual[key]

    def _found_usual(self, expr: Any, ranges: dict[Any, Any]) -> bool | None:
        may_be_one = {s: r for s, r in ranges.items() if r.lower == LEAST and r.upper >= SMALLEST}
        usual = {s: ValueRanges(SMALLEST, r.upper) for s, r in may_be_one.items()}
        found = bound_sympy(expr, ranges | usual)
        return found.lower == sympy.true if found.is_singleton() else None

    def create_unbacked_symint(self, *args: Any, **kwargs: Any) -> torch.SymInt:
        made = super().create_unbacked_symint(*args, **kwargs)
        self.constrain_symbol_range(made.node.expr, SMALLEST, sys.maxsize - 1)
        return made

    def number(self, least: int) -> torch.SymInt:
        """A new symbol for a number that is not less than that."""
        made = super().create_unbacked_symint()
        self.constrain_symbol_range(made.node.expr, least, sys.maxsize - 1)
        self.pending_fresh_unbacked_symbols.remove(made.node.expr)
        return made

    def told(self, so: Any) -> None:
        """It is true from here on, and checked."""
        if isinstance(so, torch.SymBool):
            before = set(self._taken())
            torch._check(so)
            self._assumed.update((so.node.expr, *(expr for expr in self._taken() if expr not in before)))

    def is_usual(self, size: torch.SymInt) -> bool:
        """Whether a size is known to be SMALLEST or more, unless it comes in: then the environment asks."""
        expr = size.node.expr
        if not free_unbacked_symbols(expr):
            return True
        return bool(bound_sympy(expr, self.var_to_range).lower >= SMALLEST) or self._says(expr >= SMALLEST)

    def is_never(self, so: Any) -> bool:
        """Whether it contradicts what is known, or the sizes at hand."""
        if not isinstance(so, torch.SymBool):
            return so is False
        expr = so.node.expr
        at_hand = bound_sympy(expr.xreplace(self._at_hand), self.var_to_range)
        return self._maybe_evaluate_static(expr) is sympy.false or at_hand.upper == sympy.false

    def _says(self, expr: Any) -> bool:
        return self._maybe_evaluate_static(expr) is sympy.true

    def born(self) -> list[sympy.Symbol]:
        """The sizes that depend on values and are new since this was asked last."""
        found, self.pending_fresh_unbacked_symbols = self.pending_fresh_unbacked_symbols, []
        return found

    def settle(self, size: Any, number: int) -> bool:
        """From here on a size is that number; False if it is one that no graph was made for."""
        if isinstance(size, torch.SymInt):
            if number < SMALLEST:
                return False
            torch._check(size == number)
            self.assumed()
        return True

    def assumed(self) -> list[Any]:
        """What was taken to be true of such sizes since this was asked last, though it is not always so."""
        new = [expr for expr in self._taken() if expr not in self._assumed]
        self._assumed.update(new)
        return new

    def _taken(self) -> list[Any]:
        return [each.expr for found in self.deferred_runtime_asserts.values() for each in found]


def usually(env: ShapeEnv | None, looks: bool = False) -> AbstractContextManager[None]:
    """`Environment.usually`, of any environment."""
    return env.usually(looks) if isinstance(env, Environment) else nullcontext()


def environment(values: Iterable[Any]) -> ShapeEnv | None:
    """The one that fakes and symbols have their sizes from."""
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode.shape_env
        if isinstance(value, torch.SymInt) and hasattr(value.node, "shape_env"):
            return value.node.shape_env
    return None


def ask_contiguous(env: ShapeEnv, tensor: torch.Tensor) -> None:
    """Guards whether a tensor is contiguous, as one condition."""
    whole, step = sympy.true, sympy.S.One
    for size, stride in reversed(list(zip(tensor.shape, tensor.stride(), strict=True))):
        length = expression(size)
        whole &= sympy.Eq(length, 1) | sympy.Eq(expression(stride), step)
        step *= length
    if whole not in (sympy.true, sympy.false):
        env.evaluate_expr(whole)


def expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def expressions(sizes: Iterable[Any]) -> tuple[Any, ...]:
    """The same of several, of which plain numbers stay as they are."""
    return tuple(size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes)


class Shapes:
    """The symbols of one capture. `place` says which line is being executed."""

    def __init__(self, place: Callable[[], Place], by_values: bool = False) -> None:
        self.env = Environment(by_values)
        self.place = place
        self._inputs: list[_Input] = []
        self._where: dict[sympy.Symbol, Extent] = {}
        self._numbers: dict[sympy.Symbol, int] = {}  # what each is for the inputs at hand
        self._places: list[Place] = []  # of env.guards
        self._asked: Counter[Place] = Counter()  # of these, by line
        self._settled: dict[sympy.Symbol, int] = {}  # symbols that are plain numbers: how many guards there were then
        self._marked: dict[sympy.Symbol, Mark] = {}
        self._named: dict[str, torch.SymInt] = {}  # the first of each name

    # --- inputs -----------------------------------------------------------------------------------------------------
    def fake(self, mode: FakeTensorMode, value: torch.Tensor, varying: Container[int]) -> torch.Tensor:
        """A fake of `value` with a symbol for each size of the dimensions `varying` that may vary.

        Raises what `FakeTensorMode.from_tensor` does."""
        base: Any = value._base if value._is_view() else None
        around = _context([DimDynamic.STATIC] * base.dim()) if base is not None else None
        may_vary = [dim in varying and size >= SMALLEST for dim, size in enumerate(value.shape)]
        sizes = [DimDynamic.DYNAMIC if varies else DimDynamic.STATIC for varies in may_vary]
        return mode.from_tensor(value, symbolic_context=_context(sizes, around))

    def add_input(
        self, value: torch.Tensor, fake: torch.Tensor, source: Source, facts: dict[str, Any], marked: Mapping[int, Mark]
    ) -> None:
        """Notes where the symbols of a fake stand. `facts`, those of its tensor guard, get None for what varies.
        `marked`: what is said of its dimensions."""
        own: list[tuple[sympy.Symbol, sympy.Expr]] = []
        for extent, number, symbol in zip(_extents(source, value), _geometry(value), _geometry(fake), strict=True):
            if isinstance(symbol, torch.SymInt):
                expr = symbol.node._expr  # as it was made, whatever was found out about it since
                is_new = expr.is_Symbol and expr not in self._where
                name = expr if is_new else sympy.Dummy(f"{extent.kind}{extent.dim}", integer=True)
                self._where[name], self._numbers[name] = extent, number
                own.append((name, expr))
                if is_new and extent.kind == "size" and extent.dim in marked:
                    self._mark(symbol, marked[extent.dim])
        if own:
            self._inputs.append(_Input(facts, tuple(own), self.place()))

    def _mark(self, size: torch.SymInt, mark: Mark) -> None:
        self._marked[size.node._expr] = mark
        if mark.min is not None or mark.max is not None:
            low, high = max(mark.min or LEAST, LEAST), _LARGEST if mark.max is None else mark.max
            self.env.constrain_symbol_range(size.node._expr, low, high)
        if mark.name:
            other = self._named.setdefault(mark.name, size)
            if other is not size and other.node.hint == size.node.hint:
                with self.asking():
                    bool(other == size)

    def number(self, value: int, source: Source) -> Any:
        """A symbol for an int that came in, from LEAST on."""
        own: Any = self.env.create_symbol(value, _Numbered(f"number{len(self._inputs)}"), DimDynamic.DYNAMIC)
        made = self.env.create_symintnode(own, hint=value)
        self.env.constrain_symbol_range(own, LEAST, MOST)
        self._where[own], self._numbers[own] = Extent(source, "value"), value
        self._inputs.append(_Input({}, ((own, own),), self.place()))
        return made

    # --- while capturing --------------------------------------------------------------------------------------------
    @contextmanager
    def asking(self) -> Iterator[None]:
        """What is run inside may ask about symbols: the line being executed is the one that needed the answers."""
        yield
        self._place_guards()

    def _place_guards(self) -> None:
        new = len(self.env.guards) - len(self._places)
        if new:
            self._places += [self.place()] * new
            self._asked[self.place()] += new
        for symbol in self._where if new else ():
            if symbol not in self._settled and symbol in self.env.replacements and self.env.replace(symbol).is_Integer:
                self._settled[symbol] = len(self._places)

    def asked(self, *values: Any) -> None:
        """The line being executed asked of these. One that asks on and on, as the condition of a loop does, says by its
        turns what number each is; so that it does not cost a guard for each of them, they are fixed at some time."""
        if self._asked[self.place()] <= MOST_ASKED:
            return
        for value in values:
            if isinstance(value, torch.SymInt) and not self._must_vary(value.node.expr):
                self.fix(value)

    def _must_vary(self, expr: sympy.Expr) -> bool:
        """Whether there is no number to fix it to, or the user said that there is more than one."""
        is_marked = any(symbol in self._marked and self._marked[symbol].must for symbol in expr.free_symbols)
        return is_marked or bool(free_unbacked_symbols(expr))

    def fix(self, value: torch.SymInt | torch.SymFloat) -> Any:
        """From here on `value` is what it is for the inputs at hand (of a float, all the sizes that it comes of). Gives
        that number, of one that depends on values and of which there was no choice."""
        expr = value.node.expr
        with self.asking(), settling(value):
            parts = [expr] if isinstance(value, torch.SymInt) else expr.free_symbols
            known = {part: self.env.evaluate_expr(part) for part in parts}
        return value.node.pytype(expr.xreplace(known)) if value.node.hint is None else value.node.hint

    # --- the end ----------------------------------------------------------------------------------------------------
    def conditions(self) -> list[Condition]:
        """All that must hold of the inputs beside their tensor guards, which are completed.

        Raises SkipFrame for a condition on what no input has."""
        self._place_guards()
        fixed = {s: found for s in self._where if (found := self.env.replace(s)).is_Integer}
        for known in self._inputs:
            self._complete(known, fixed)
        asked = [(guard.expr.xreplace(fixed), at) for guard, at in zip(self.env.guards, self._places, strict=True)]
        used = frozenset().union(*(expr.free_symbols for expr, _ in asked))
        conditions: dict[Term, Condition] = {}
        # What the program asked comes before the ranges that follow from it: it explains more.
        for expr, place in (*self._of_inputs(fixed, used), *asked, *self._ranges(fixed)):
            for term in self._terms(expr):
                conditions.setdefault(term, Condition(term, place))
        return list(conditions.values())

    def specializations(self) -> list[Specialization]:
        """The symbols that came to be plain numbers, and those that the user marked and that have no choice left."""
        self._place_guards()
        asked = [guard.expr for guard in self.env.guards]
        marked = [symbol for symbol, mark in self._marked.items() if mark.must and symbol not in self._settled]
        together = solved(asked, self._ranges_said()) if marked else {}
        numbers = {symbol: int(self.env.replace(symbol)) for symbol in self._settled}
        found = [self._specialization(each, numbers[each], asked[:end]) for each, end in self._settled.items()]
        return found + [self._specialization(each, together[each], asked) for each in marked if each in together]

    def _specialization(self, symbol: sympy.Symbol, number: int, asked: list[Any]) -> Specialization:
        """`asked`: what there was to ask until the symbol had no choice left."""
        ranges, is_settled = self._ranges_said(), symbol in self._settled and bool(asked)
        says_it = is_settled and isinstance(asked[-1], sympy.Eq) and symbol in asked[-1].free_symbols
        alone = [n for n, expr in enumerate(asked) if _says_number(expr, symbol)]
        why = [len(asked) - 1] if says_it else alone[:1]
        if not why:
            why = reasons(symbol, asked, ranges) if symbol in solved(asked, ranges) else [len(asked) - 1]
        place = self._places[why[-1]] if asked else self.place()
        exprs = [asked[n] for n in why] if asked else [sympy.Eq(symbol, number, evaluate=False)]
        reason = " and ".join(terms.text(term) for expr in exprs for term in self._terms(expr))
        mark = self._marked.get(symbol, Mark(True))
        return Specialization(terms.text(self._where[symbol]), number, place, reason, mark.must)

    def _ranges_said(self) -> Ranges:
        """What the user says of the sizes that must vary."""
        must = {symbol: mark for symbol, mark in self._marked.items() if mark.must}
        return {symbol: (max(mark.min or LEAST, LEAST), mark.max) for symbol, mark in must.items()}

    def _complete(self, known: _Input, fixed: dict[sympy.Symbol, sympy.Expr]) -> None:
        for key, kind in (("sizes", "size"), ("strides", "stride")) if known.facts else ():
            found = [(self._where[own], expr) for own, expr in known.extents]
            varies = {extent.dim for extent, expr in found if extent.kind == kind and not _is_number(expr, fixed)}
            known.facts[key] = tuple(None if dim in varies else n for dim, n in enumerate(known.facts[key]))

    def _of_inputs(
        self, fixed: dict[sympy.Symbol, sympy.Expr], used: frozenset[sympy.Symbol]
    ) -> Iterator[tuple[Any, Place]]:
        """What every symbol is taken to be, and what ties the other numbers of the inputs to them."""
        for known in self._inputs:
            for own, expr in known.extents:
                kind = self._where[own].kind
                if _is_number(expr, fixed) and kind != "offset":
                    if kind == "value":
                        yield sympy.Eq(own, expr.xreplace(fixed), evaluate=False), known.place
                    continue  # the tensor guard compares what is its own
                if own is not expr:
                    yield sympy.Eq(own, expr.xreplace(fixed), evaluate=False), known.place
                elif kind != "offset" or own in used:
                    yield sympy.Ge(own, SMALLEST if kind == "stride" else LEAST, evaluate=False), known.place
                    if kind == "value":
                        yield sympy.Le(own, MOST, evaluate=False), known.place

    def _ranges(self, fixed: dict[sympy.Symbol, sympy.Expr]) -> Iterator[tuple[Any, Place]]:
        """The ranges that symbols were found to be in."""
        for known in self._inputs:
            for own, expr in known.extents:
                if own is expr and own not in fixed:
                    bounds = self.env.var_to_range[own]
                    if bounds.lower > LEAST:
                        yield sympy.Ge(own, bounds.lower, evaluate=False), known.place
                    if isinstance(bounds.upper, sympy.Integer) and bounds.upper < _LARGEST:
                        yield sympy.Le(own, bounds.upper, evaluate=False), known.place

    def read(self, size: torch.SymInt) -> tuple[Term, dict[Extent, int]] | None:
        """What a size comes of, and what that is for the inputs at hand; None where terms have no word for it."""
        try:
            term = self._term(size.node.expr)
        except (_Unsaid, SkipFrame):
            return None
        numbers = {extent: self._numbers[symbol] for symbol, extent in self._where.items()}
        return term, {extent: numbers[extent] for extent in terms.extents(term)}

    def _terms(self, expr: Any) -> list[Term]:
        """A condition as terms; if it can't be said in such, that all it is about is as for the inputs at hand."""
        if expr is sympy.true:
            return []
        try:
            return [self._term(expr)]
        except _Unsaid:
            symbols = sorted(expr.free_symbols, key=str)
            return [Op("==", (self._term(symbol), self._numbers[symbol])) for symbol in symbols]

    def _term(self, expr: Any) -> Term:
        if expr.is_Symbol:
            if expr not in self._where:
                raise SkipFrame(f"size that no input has: {expr}")
            return self._where[expr]
        if expr.is_Integer and abs(expr) < _LARGEST:
            return int(expr)
        make = _TERMS.get(expr.func)
        if make is None:
            raise _Unsaid
        return make(self._term, *expr.args)


@contextmanager
def settling(value: Any) -> Iterator[None]:
    """What is asked inside may depend on values: then the graph breaks."""
    try:
        yield
    except GuardOnDataDependentSymNode as error:
        raise GraphBreak("tensor value needed", f"size {value}") from error


def number_at_hand(value: Any) -> Any:
    """What a symbol is for the inputs at hand; one that depends on values is an example of its type."""
    hint = value.node.hint
    return hint if hint is not None else value.node.pytype(SMALLEST)


def depends_on_values(value: Any) -> bool:
    return isinstance(value, torch.SymInt) and bool(free_unbacked_symbols(value))


class _Unsaid(Exception):
    """An expression that terms have no word for."""


def _context(sizes: list[DimDynamic], base: Any = None) -> StatelessSymbolicContext[Any, Any]:
    return StatelessSymbolicContext(sizes, view_base_context=base)


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.shape, *tensor.stride(), tensor.storage_offset())


def _extents(source: Source, tensor: torch.Tensor) -> list[Extent]:
    """What the numbers of `_geometry` are."""
    both = [Extent(source, kind, dim) for kind in ("size", "stride") for dim in range(tensor.dim())]
    return [*both, Extent(source, "offset")]


def _says_number(condition: Any, symbol: sympy.Symbol) -> bool:
    """Whether it is an equation of the symbol and a number."""
    is_equation = isinstance(condition, sympy.Eq)
    return is_equation and symbol in condition.args and any(each.is_Integer for each in condition.args)


def _is_number(expr: sympy.Expr, fixed: dict[sympy.Symbol, sympy.Expr]) -> bool:
    return expr.xreplace(fixed).is_Integer


# --- expressions as terms ---------------------------------------------------------------------------------------------
_Say = Callable[[Any], Term]
_Row = Callable[..., Term]


def _op(name: str) -> _Row:
    return lambda say, *args: Op(name, tuple(map(say, args)))


def _sum(say: _Say, *args: Any) -> Term:
    """a + b - c: what is negative is subtracted."""
    taken = [arg for arg in args if arg.as_coeff_Mul()[0].is_negative]
    given = [say(arg) for arg in args if arg not in taken] or [0]
    total = Op("+", tuple(given)) if len(given) > 1 else given[0]
    return Op("-", (total, *(say(-arg) for arg in taken))) if taken else total


def _power(say: _Say, base: Any, exponent: Any) -> Term:
    if not (exponent.is_Integer and 1 <= exponent <= _HIGHEST_POWER):
        raise _Unsaid
    return Op("*", (say(base),) * int(exponent))


def _modular_index(say: _Say, base: Any, divisor: Any, modulus: Any) -> Term:
    return Op("%", (Op("//", (say(base), say(divisor))), say(modulus)))


_TERMS: dict[Any, _Row] = {
    sympy.Add: _sum,
    sympy.Mul: _op("*"),
    sympy.Pow: _power,
    functions.PowByNatural: _power,
    functions.FloorDiv: _op("//"),
    functions.CleanDiv: _op("//"),
    functions.Mod: _op("%"),
    functions.PythonMod: _op("%"),
    functions.ModularIndexing: _modular_index,
    functions.Max: _op("max"),
    functions.Min: _op("min"),
    sympy.Max: _op("max"),
    sympy.Min: _op("min"),
    sympy.Eq: _op("=="),
    sympy.Ne: _op("!="),
    sympy.Lt: _op("<"),
    sympy.Le: _op("<="),
    sympy.Gt: _op(">"),
    sympy.Ge: _op(">="),
    sympy.And: _op("and"),
    sympy.Or: _op("or"),
    sympy.Not: _op("not"),
}
