"""Where a printed Triton kernel computes values: before a loop over tiles if they are the same in all of them."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr, Kernel, Literal, Load, Op, Position, Result, Running, Scalar, Store, demand, load
from codegen.kernels.ops import CHECKS, PUTS
from codegen.kernels.triton_ops import PLAIN, literal, operation, ttype, typed
from codegen.kernels.triton_preamble import reserved

#: The dimensions along which a value differs; None: it is one number, no tensor.
Shape = frozenset[str] | None
#: What Triton calls them where several programs may do them at once.
ATOMICALLY = {"sum": "add", "max": "max", "min": "min"}


def joined(shapes: Iterable[Shape]) -> Shape:
    found: Shape = None
    for shape in shapes:
        if shape is not None:
            found = shape | (found or frozenset())
    return found


class Names:
    """Names that Python allows and no function of the kernel has, each once."""

    def __init__(self) -> None:
        self.taken = {*keyword.kwlist, *dir(builtins), *reserved(), "tl", "triton", "libdevice"}

    def new(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted)
        name = name if name[:1].isalpha() else f"x{name}"
        base, n = name, 1
        while name in self.taken:
            name, n = f"{base}_{n}", n + 1
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Known:
    """A value: its text, shape and the level of the scope in which it is known. `only_in`: it was not computed if the
    loop over these axes has no rounds."""

    text: str
    shape: Shape
    level: int = 0
    only_in: tuple[Symbol, ...] | None = None


@dataclass
class Scope:
    """The function or a loop in it: its head, what it says so far and what is known in it."""

    head: str
    lines: list[str] = field(default_factory=list)
    known: dict[Expr, Known] = field(default_factory=dict)
    bound: dict[Symbol, Known] = field(default_factory=dict)


@dataclass(frozen=True)
class Dimension:
    """`block`: its size in a tile, a name; `mask`: of the positions that there are ("" if all are there)."""

    name: str
    block: str
    mask: str


class Writer:
    """The text of one kernel's function while it is written."""

    def __init__(self, kernel: Kernel, order: tuple[str, ...], error: str) -> None:
        self.names = Names()
        self.order = order
        self.dimensions: dict[str, Dimension] = {}
        self.scopes = [Scope("")]
        self.buffers = {buffer.name: self.names.new(buffer.name) for buffer in kernel.buffers}
        self.error = self.names.new(error)
        self.written = {buffer.name for buffer in kernel.buffers if buffer.role == "inout"}
        self.results: dict[str, Known] = {}
        self.running: dict[str, Known] = {}
        self.scalars = {scalar.name: self.names.new(scalar.name) for scalar in kernel.scalars}
        #: The axes of the loop that is being written and a test whether it has rounds, where it may have none.
        self.loop: tuple[Symbol, ...] | None = None
        self.loop_runs = ""
        #: Of buffers that are read and written: stored into and loaded from since all threads last met.
        self.fresh: set[str] = set()
        self.loaded: dict[str, set[Index]] = {}
        #: Whether what a mask leaves out is loaded as 0.
        self.fills = False
        #: The buffers that are read and written, of those that an expression reads.
        self._loads: dict[Expr, frozenset[str]] = {}

    # --- lines --------------------------------------------------------------------------------------------------------
    def line(self, text: str, level: int = -1) -> None:
        self.scopes[level].lines.append(text)

    def open(self, head: str) -> None:
        self.scopes.append(Scope(head))

    def close(self) -> None:
        scope = self.scopes.pop()
        self.line(scope.head)
        self.scopes[-1].lines.extend(f"    {line}" for line in scope.lines)

    def enter_loop(self, axes: tuple[Symbol, ...], runs: str) -> None:
        """What was computed only if another loop has rounds is not known any more."""
        self.loop, self.loop_runs = (axes, runs) if runs else (None, "")
        for scope in self.scopes:
            scope.known = {e: k for e, k in scope.known.items() if k.only_in is None or k.only_in == self.loop}

    def forget(self, dimension: str) -> None:
        """What was computed along it is not known any more: it means something else from here on."""
        for scope in self.scopes:
            scope.known = {e: k for e, k in scope.known.items() if dimension not in (k.shape or ())}

    # --- shapes -------------------------------------------------------------------------------------------------------
    def extents(self, shape: frozenset[str]) -> str:
        return f"[{', '.join(self.dimensions[d].block if d in shape else '1' for d in self.order)}]"

    def spread(self, known: Known, shape: Shape) -> str:
        """The value with all these dimensions."""
        whole = joined([known.shape, shape])
        if whole is None or (known.shape == whole and known.shape is not None):
            return known.text
        return f"tl.broadcast_to({known.text}, {self.extents(whole)})"

    def masks(self, shape: Shape) -> list[str]:
        """The tests of the dimensions that the shape has."""
        return [self.dimensions[d].mask for d in self.order if d in (shape or ()) and self.dimensions[d].mask]

    # --- values -------------------------------------------------------------------------------------------------------
    def value(self, root: Expr) -> Known:
        """A value. What has to be said before is said in the right scopes."""
        demand(root, lambda expr: self._known(expr) is not None, lambda expr: expr.args, self._compute)
        found = self._known(root)
        assert found is not None
        return found

    def _known(self, expr: Expr) -> Known | None:
        if isinstance(expr, Literal):
            return Known(typed(expr.value, expr.dtype), None)
        for scope in reversed(self.scopes):
            found = scope.known.get(expr)
            if found is not None:
                return found
        return None

    def known(self, expr: Expr) -> Known:
        found = self._known(expr)
        assert found is not None
        return found

    def _compute(self, expr: Expr) -> None:
        operands = [self.known(arg) for arg in expr.args]
        own = {expr.buffer} & self.written if isinstance(expr, Load) else set()
        self._loads[expr] = frozenset(own).union(*(self._loads.get(arg, ()) for arg in expr.args))
        shape = joined(operand.shape for operand in operands)
        level = max((operand.level for operand in operands), default=0)
        only_in = next((operand.only_in for operand in operands if operand.only_in is not None), None)
        wanted = expr.name if isinstance(expr, Op) else "at"
        match expr:
            case Scalar():
                self.scopes[0].known[expr] = Known(self.scalars[expr.name], None)
                return
            case Result():
                found = self.results[expr.name]
                self.scopes[found.level].known[expr] = found
                return
            case Running():
                self.scopes[-1].known[expr] = self.running[expr.name]
                return
            case Position():
                place = self.index(expr.index)
                shape, level = place.shape, max(level, place.level)
                constant = expr.index.constant
                text = f"({place.text}).to(tl.int64)" if constant is None else typed(constant, expr.dtype)
            case Load():
                text, shape, level = self._load(expr, operands, level)
                only_in, wanted = self.loop, self.buffers[expr.buffer] + "_value"
            case Op() if expr.name in CHECKS:
                text = self._checked(expr, operands, shape, level)
                only_in, wanted = self.loop, "at"
            case Op():
                text = operation(expr, self._operands(expr))
            case _:
                raise TypeError(expr)
        name = self.names.new(wanted)
        self.line(f"{name} = {text}", level)
        self.scopes[level].known[expr] = Known(name, shape, level, only_in)

    def _operands(self, expr: Op) -> list[str]:
        literals = [operand for operand in expr.operands if isinstance(operand, Literal)]
        plain = expr.name in PLAIN and len(literals) == 1 and not _is_negative_zero(literals[0])
        return [
            literal(each.value, each.dtype) if plain and isinstance(each, Literal) else self.known(each).text
            for each in expr.operands
        ]

    # --- memory -------------------------------------------------------------------------------------------------------
    def _load(self, expr: Load, operands: list[Known], level: int) -> tuple[str, Shape, int]:
        place = self.index(expr.index)
        level = max(level, place.level)
        if expr.buffer in self.written:
            level = len(self.scopes) - 1
            self.loaded.setdefault(expr.buffer, set()).add(expr.index)
            if expr.buffer in self.fresh:
                self.meet()
        mask = None if expr.mask is None else self.known(expr.mask)
        shape = joined([place.shape, None if mask is None else mask.shape])
        tests = self.masks(shape) + ([self.loop_runs] if self.loop_runs and "r" not in (shape or ()) else [])
        if mask is not None:
            tests.append(mask.text)
        pointer = f"{self.buffers[expr.buffer]} + {self.spread_index(place, shape)}"
        masked = f", {conjunction(tests)}" if tests else ""
        other = ", other=0" if mask is not None or (tests and self.fills) else ""
        return ttype(expr.dtype).load.format(f"tl.load({pointer}{masked}{other})"), shape, level

    def plain_load(self, expr: Load, shape: frozenset[str]) -> str:
        """The name of elements as they are stored, in all these dimensions."""
        place, tests = self.index(expr.index), self.masks(shape)
        masked = f", {conjunction(tests)}, other=0" if tests else ""
        name = self.names.new(f"{self.buffers[expr.buffer]}_tile")
        self.line(f"{name} = tl.load({self.buffers[expr.buffer]} + {self.spread_index(place, shape)}{masked})")
        return name

    def spread_index(self, place: Known, shape: Shape) -> str:
        if shape is None or (place.shape is not None and place.shape == shape):
            return bracketed(place.text)
        return f"(tl.full({self.extents(shape)}, 0, tl.int32) + {bracketed(place.text)})"

    def store(self, store: Store, known: Known, place: Known, loop: Shape) -> None:
        """`known`, `place`: what is stored and where. `loop`: the dimensions of the loop: each element is stored
        once."""
        buffer, at, value = store.buffer, store.index, store.value
        shape = joined([known.shape, place.shape, loop])
        if any(other != at for other in self.loaded.get(buffer, ())):
            self.meet()
        tests = self.masks(shape)
        masked = f", {conjunction(tests)}" if tests else ""
        stored = ttype(value.dtype).store.format(known.text)
        pointer = f"{self.buffers[buffer]} + {self.spread_index(place, shape)}"
        if store.into is not None and PUTS[store.into]:
            kind = ATOMICALLY[store.into]
            self.line(f'tl.atomic_{kind}({pointer}, {self.spread(known, shape)}{masked}, sem="relaxed")')
            return
        self.line(f"tl.store({pointer}, {stored}{masked})")
        self.fresh.add(buffer)
        self._forget(buffer)
        if not isinstance(value, Literal) and known.shape == shape:
            level = len(self.scopes) - 1
            again = load(buffer, at, value.dtype)
            self._loads[again] = frozenset([buffer])
            self.scopes[-1].known[again] = Known(known.text, known.shape, level, self.loop)

    def meet(self) -> None:
        """From here on each thread of the program sees what the others stored."""
        self.line("tl.debug_barrier()")
        self.fresh.clear()
        self.loaded.clear()

    def _forget(self, buffer: str) -> None:
        """What was read from a buffer that was just written."""
        for scope in self.scopes:
            for expr in [expr for expr in scope.known if buffer in self._loads.get(expr, ())]:
                del scope.known[expr]

    def _checked(self, expr: Op, operands: list[Known], shape: Shape, level: int) -> str:
        if expr.name == "check":
            self._report(f"~{operands[0].text}", shape, level)
            return operands[0].text
        i, size = (operand.text for operand in operands)
        if expr.name == "wrap_index":
            wrapped = self.names.new("wrapped")
            self.line(f"{wrapped} = tl.where({i} < 0, {i} + {size}, {i})", level)
            i = wrapped
        inside = self.names.new("inside")
        self.line(f"{inside} = ({i} >= 0) & ({i} < {size})", level)
        self._report(f"~{inside}", shape, level)
        return f"tl.where({inside}, {i}, 0)"

    def _report(self, where: str, shape: Shape, level: int) -> None:
        tests = self.masks(shape) + ([self.loop_runs] if self.loop_runs and "r" not in (shape or ()) else [])
        pointer = self.spread_index(Known("0", None), shape)
        self.line(f"tl.store({self.error} + {pointer}, 1, {conjunction([*tests, where])})", level)

    # --- indices ------------------------------------------------------------------------------------------------------
    def symbol(self, symbol: Symbol) -> Known:
        for scope in reversed(self.scopes):
            if symbol in scope.bound:
                return scope.bound[symbol]
        raise KeyError(symbol)

    def index(self, at: Index) -> Known:
        """An index expression; the values in it are known."""
        if not at.terms:
            return Known("0", None)
        text, parts = "", []
        for monomial, c in at.terms:
            atoms = [self._atom(atom) for atom in sorted(monomial, key=lambda atom: not isinstance(atom, ix.Value))]
            parts += atoms
            factors = [atom.text for atom in atoms]
            if abs(c) != 1 or not factors:
                factors.append(str(abs(c)))
            sign = (" - " if text else "-") if c < 0 else (" + " if text else "")
            text += sign + " * ".join(factors)
        return Known(text, joined(part.shape for part in parts), max((part.level for part in parts), default=0))

    def _atom(self, atom: ix.Atom) -> Known:
        match atom:
            case Symbol():
                return self.symbol(atom)
            case ix.Value():
                value = atom.payload
                assert isinstance(value, Expr)
                found = self.known(value)
                text = literal(value.value, value.dtype) if isinstance(value, Literal) else found.text
                return Known(bracketed(text), found.shape, found.level)
            case ix.Extremum():
                a, b = self.index(atom.a), self.index(atom.b)
                text = f"tl.{atom.kind}imum({a.text}, {b.text})"
            case _:
                a, b = self.index(atom.dividend), self.index(atom.divisor)
                quotient = isinstance(atom, ix.Quotient)
                if ix.is_nonnegative(atom.dividend):  # Triton's division is towards 0
                    text = f"({bracketed(a.text)} {'//' if quotient else '%'} {bracketed(b.text)})"
                else:
                    text = f"{'quotient_of' if quotient else 'modulo_of'}({a.text}, {b.text})"
        return Known(text, joined([a.shape, b.shape]), max(a.level, b.level))


def conjunction(tests: list[str]) -> str:
    return " & ".join(tests)


def bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _is_negative_zero(expr: Literal) -> bool:
    return expr.dtype.is_floating_point and repr(expr.value) == "-0.0"
