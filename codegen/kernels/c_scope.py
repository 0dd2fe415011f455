"""Where values are computed: each in the outermost block of the C function in which all that it is made of is known."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field

from codegen.kernels import index as ix
from codegen.kernels.c_ops import DIVISIONS, NOUGHT, ctype, literal, operation
from codegen.kernels.c_preamble import reserved
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr, Kernel, Literal, Load, Op, Position, Result, Running, Scalar, demand, walk
from codegen.kernels.ops import CHECKS, kind_of

_C_WORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bad
    begin end buffers sizes scalars main t tile lanes left step nought""".split()
) | frozenset(keyword.kwlist)


class Names:
    """Names that C allows, each once."""

    def __init__(self) -> None:
        self.taken = set(_C_WORDS | reserved())

    def new(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted)
        name = name if name[:1].isalpha() else f"x{name}"
        base, n = name, 1
        while name in self.taken:
            name, n = f"{base}_{n}", n + 1
        self.taken.add(name)
        return name


#: Elements that the lanes of a vector are apart, from which on the compiler is not told how many they are: of a power
#: of two that it knows gcc 12 reads all that lies between them, and takes out what it wants by shuffles. (1024: the
#: kernel took 140 times as long.)
APART = 16


@dataclass
class Scope:
    """A block: its head ("" for none), what it says so far, and what is known in it. `guard`: runs only if the loop in
    it has any rounds, so that what may not be read without is not read before it."""

    head: str
    guard: bool = False
    simd: bool = False
    clauses: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    known: dict[Expr, str] = field(default_factory=dict)
    bound: dict[Symbol, str] = field(default_factory=dict)


class Writer:
    """The text of one kernel's function while it is written: a stack of scopes."""

    def __init__(self, kernel: Kernel) -> None:
        self.names = Names()
        self.scopes = [Scope("")]
        self.written = {buffer.name for buffer in kernel.buffers if buffer.role != "in"}
        self.buffers = {buffer.name: self.names.new(buffer.name) for buffer in kernel.buffers}
        #: by name: the text and the level it is known at; none: it is one of an array, with an element for each lane
        self.results: dict[str, tuple[str, int | None]] = {}
        self.running: dict[str, str] = {}
        #: values that an array holds for each lane: its element
        self.arrays: dict[Expr, str] = {}
        self.scalars = {scalar.name: self.names.new(scalar.name) for scalar in kernel.scalars}
        self._symbols: dict[Symbol, str] = {}
        self._strides: dict[int, str] = {}
        self._loads: dict[Expr, frozenset[str]] = {}

    # --- blocks -------------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.scopes[-1].lines.append(text)

    def open(self, head: str, guard: bool = False, simd: bool = False) -> Scope:
        self.scopes.append(Scope(head, guard, simd))
        return self.scopes[-1]

    def close(self) -> None:
        scope = self.scopes.pop()
        lines = self.scopes[-1].lines
        if scope.simd:
            lines.append(" ".join(["#pragma omp simd", *scope.clauses]))
        lines.append(f"{scope.head} {{".lstrip())
        lines.extend(f"    {line}" if not line.startswith("#") else line for line in scope.lines)
        lines.append("}")

    def bind(self, symbol: Symbol) -> str:
        """The symbol's name in C, known from here on in this scope."""
        if symbol not in self._symbols:
            self._symbols[symbol] = self.names.new(symbol.name)
        self.scopes[-1].bound[symbol] = self._symbols[symbol]
        return self._symbols[symbol]

    # --- values -------------------------------------------------------------------------------------------------------
    def value(self, root: Expr) -> str:
        """The text of a value: a name or a constant. What has to be said before is said in the right scopes."""
        demand(
            root, lambda expr: self._known(expr) is not None,
            lambda expr: () if expr in self.arrays else expr.args, self._compute,
        )  # fmt: skip
        found = self._known(root)
        assert found is not None
        return found[0]

    def _known(self, expr: Expr) -> tuple[str, int] | None:
        if isinstance(expr, Literal):
            return literal(expr.value, expr.dtype), 0
        for level in range(len(self.scopes) - 1, -1, -1):
            found = self.scopes[level].known.get(expr)
            if found is not None:
                return found, level
        return None

    def _compute(self, expr: Expr) -> None:
        if expr in self.arrays:
            self._name(expr, self.arrays[expr], len(self.scopes) - 1)
            return
        operands = [self._known(arg) for arg in expr.args]
        texts = [text for text, _ in operands if text]  # type: ignore[misc]
        level = max((level for _, level in operands), default=0)  # type: ignore[misc]
        if self._is_conditional(expr):
            level = max(level, self._barrier())
        match expr:
            case Scalar():
                text, level = self.scalars[expr.name], 0
                self.scopes[0].known[expr] = text
                return
            case Position():
                text, level = self.index(expr.index), max(level, self.level_of(expr.index))
            case Load():
                level = max(level, self.level_of(expr.index))
                if expr.buffer in self.written:
                    level = len(self.scopes) - 1
                at = f"{self.buffers[expr.buffer]}[{self.index(expr.index)}]"
                ct = ctype(expr.dtype)
                text = ct.load.format(at)
                if expr.mask is not None:
                    text = f"{texts[-1]} ? {text} : 0"
            case Op() if expr.name in CHECKS:
                text = self._checked(expr, texts, level)
            case Op():
                text = operation(expr, texts)
                if expr.name in DIVISIONS and kind_of(expr.dtype) == "i":
                    self._note(f"({texts[1]} == 0) << 1", expr.operands[1], level)
            case Result():
                text, known_at = self.results[expr.name]
                level = len(self.scopes) - 1 if known_at is None else known_at
                if known_at is not None:
                    self.scopes[level].known[expr] = text
                    return
            case Running():
                text, level = self.running[expr.name], len(self.scopes) - 1
            case _:
                raise TypeError(expr)
        self._name(expr, text, level)

    def _name(self, expr: Expr, text: str, level: int) -> None:
        name = self.names.new("v")
        self.scopes[level].lines.append(f"const {ctype(expr.dtype).held} {name} = {text};")
        self.scopes[level].known[expr] = name

    def _is_conditional(self, expr: Expr) -> bool:
        """Whether it may not be computed where its loop has no rounds."""
        if not isinstance(expr, Op):
            return isinstance(expr, Load)
        return expr.name in CHECKS or (expr.name in DIVISIONS and kind_of(expr.dtype) == "i")

    def _barrier(self) -> int:
        return max((level for level, scope in enumerate(self.scopes) if scope.guard), default=0)

    def _checked(self, expr: Op, texts: list[str], level: int) -> str:
        if expr.name == "check":
            self._flag(f"!{texts[0]}", level)
            return texts[0]
        i, size = texts
        lines = self.scopes[level].lines
        if expr.name == "wrap_index":
            wrapped = self.names.new("i")
            lines.append(f"const int64_t {wrapped} = {i} < 0 ? {i} + {size} : {i};")
            i = wrapped
        inside = self.names.new("inside")
        lines.append(f"const _Bool {inside} = ({i} >= 0) & ({i} < {size});")
        self._flag(f"!{inside}", level)
        return f"({inside} ? {i} : 0) ^ {NOUGHT}"

    def _note(self, text: str, divisor: Expr, level: int) -> None:
        if not isinstance(divisor, Literal) or divisor.value == 0:
            self._flag(text, level)

    def _flag(self, text: str, level: int) -> None:
        self.scopes[level].lines.append(f"bad |= {text};")

    def forget(self, buffer: str) -> None:
        """What was read from a buffer that was just written."""
        for scope in self.scopes:
            for expr in [expr for expr in scope.known if buffer in self._read_by(expr)]:
                del scope.known[expr]

    def _read_by(self, expr: Expr) -> frozenset[str]:
        """The buffers that are written and that it reads."""
        if not self.written:
            return frozenset()
        for below in walk(expr) if expr not in self._loads else ():
            if below not in self._loads:
                own = {below.buffer} & self.written if isinstance(below, Load) else set()
                self._loads[below] = frozenset(own).union(*(self._loads[arg] for arg in below.args))
        return self._loads[expr]

    # --- indices ------------------------------------------------------------------------------------------------------
    def level_of(self, at: Index) -> int:
        """The outermost scope in which all its symbols are known. (The values in it are operands.)"""
        return max((self._symbol_level(symbol) for symbol in ix.symbols(at)), default=0)

    def _symbol_level(self, symbol: Symbol) -> int:
        for level, scope in enumerate(self.scopes):
            if symbol in scope.bound:
                return level
        raise KeyError(symbol)

    def index(self, at: Index) -> str:
        """A C expression; names and constants are not bracketed, sums are fit for a subscript."""
        if not at.terms:
            return "0"
        text = ""
        for monomial, c in at.terms:
            factors = [self._atom(atom) for atom in monomial]
            size = abs(c)
            if size >= APART and any(map(self._is_lane, monomial)):
                factors.append(self._apart(size))
            elif size != 1 or not factors:
                factors.append(f"{size}" if size < 2**31 else f"{size}LL")
            sign = (" - " if text else "-") if c < 0 else (" + " if text else "")
            text += sign + " * ".join(factors)
        return text

    def _is_lane(self, atom: ix.Atom) -> bool:
        """Whether it differs between the lanes of a vector."""
        vectors = next((level for level, scope in enumerate(self.scopes) if scope.simd), len(self.scopes))
        return isinstance(atom, Symbol) and self._symbol_level(atom) >= vectors

    def _apart(self, size: int) -> str:
        """A number that the compiler does not know."""
        if size not in self._strides:
            self._strides[size] = self.names.new(f"apart_{size}")
            self.scopes[0].lines.append(f"const int64_t {self._strides[size]} = unknown({size});")
        return self._strides[size]

    def _atom(self, atom: ix.Atom) -> str:
        match atom:
            case Symbol():
                return self._symbols[atom]
            case ix.Value():
                found = self._known(atom.payload)  # type: ignore[arg-type]
                assert found is not None
                return found[0]
            case ix.Extremum():
                kind = "lower" if atom.kind == "min" else "upper"
                return f"{kind}({self.index(atom.a)}, {self.index(atom.b)})"
        signed = not ix.is_nonnegative(atom.dividend)
        a, b = self.index(atom.dividend), self.index(atom.divisor)
        quotient = isinstance(atom, ix.Quotient)
        if signed:
            return f"{'quotient' if quotient else 'modulo'}({a}, {b})"
        return f"(int64_t)((uint64_t)({a}) {'/' if quotient else '%'} (uint64_t)({b}))"
