"""Kernels as C: one translation unit, a function for each kernel.

    int NAME(void *const *buffers, const int64_t *sizes, const union number *scalars, int64_t begin, int64_t end)

does the row-major positions begin..end of the kernel's axes. It answers 0, or the sum of 1 if an index was out of range
(`check_index`, `wrap_index`) and 2 if an integer was divided by 0. C11 with OpenMP's simd pragmas; it means what it
should under -fwrapv -fno-math-errno -fno-trapping-math -ffp-contract=off, and not under -ffast-math.

A kernel has one of two shapes (`c_shape.py`). In *rows*, its positions are gone through one by one, and the innermost
axis of each loop becomes vectors. In *lanes*, the innermost axis of the kernel does; what loops reduce then is an array
with an element for each lane, over tiles of that axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from codegen.kernels import index as ix
from codegen.kernels.axes import simplify, statements_of
from codegen.kernels.c_expand import expand
from codegen.kernels.c_ops import CReduction, ctype, keyed, reduction
from codegen.kernels.c_preamble import preamble
from codegen.kernels.c_scope import Writer
from codegen.kernels.c_shape import in_lanes
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Kernel, Loop, Reduce, Running, Statement, Store, reads, values_in, walk

#: A sum of floats is one of sums of so many, which are added up as doubles.
BLOCK = 4096
#: The same where each lane has a sum of its own.
LANE_BLOCK = 256
#: What OpenMP calls sums and products of floats.
SIGNS = {"sum": "+", "prod": "*"}
#: Lanes in a tile.
TILE = 512


def print_c(kernels: Sequence[Kernel]) -> str:
    """The unit. Raises NotImplementedError for a kernel that C has no types for."""
    text = "\n".join(_Function(kernel).text() for kernel in kernels)
    return f"{preamble(text)}\n{text}"


@dataclass(frozen=True)
class _Accumulator:
    """What a Reduce adds up in: `total`, and where that is another one `part`, which is added to it now and then.
    `at`, of argmax and argmin: the position of the extreme value."""

    reduce: Reduce
    spec: CReduction
    wide: str
    total: str
    part: str
    at: str = ""

    @property
    def is_parted(self) -> bool:
        return self.part != self.total


class _Function:
    def __init__(self, kernel: Kernel) -> None:
        self.given = kernel
        self.kernel = expand(simplify(kernel))
        self.w = Writer(self.kernel)
        self.sizes: dict[ix.Index, str] = {}
        self.lane: Symbol | None = self.kernel.axes[-1] if in_lanes(self.kernel) else None
        self.has_arrays = any(isinstance(statement, Reduce) for statement in statements_of(self.kernel))
        self.suffix = "[t]" if self.lane is not None else ""

    def text(self) -> str:
        w, kernel = self.w, self.kernel
        w.line("int bad = 0;")
        w.line("if (begin >= end) return 0;")
        for n, symbol in enumerate(kernel.sizes):
            w.line(f"const int64_t {w.bind(symbol)} = sizes[{n}];")
        for n, buffer in enumerate(kernel.buffers):
            const = "const " if buffer.role == "in" else ""
            w.line(f"{const}{ctype(buffer.dtype).stored} *{w.buffers[buffer.name]} = buffers[{n}];")
        for n, scalar in enumerate(kernel.scalars):
            ct = ctype(scalar.dtype)
            given = f"scalars[{n}].{'f' if scalar.dtype.is_floating_point else 'i'}"
            given = f"{given} != 0" if scalar.dtype is torch.bool else ct.round.format(f"({ct.held}){given}")
            w.line(f"const {ct.held} {w.scalars[scalar.name]} = {given};")
        if self.lane is None:
            self._rows()
        else:
            self._lanes(self.lane)
        w.line("return bad;")
        about = "\n".join(f"// {line}".rstrip() for line in (*self.given.sources, *str(self.given).splitlines()))
        head = (
            f"int {kernel.name}(void *const *buffers, const int64_t *sizes, const union number *scalars, "
            "int64_t begin, int64_t end)"
        )
        body = "\n".join(line if line.startswith("#") else f"    {line}" for line in w.scopes[0].lines)
        return f"{about}\n{head}\n{{\n{body}\n}}\n"

    def _size(self, axis: Symbol) -> str:
        """The size of an axis, as a name or a constant."""
        assert axis.size is not None
        if axis.size not in self.sizes:
            text = self.w.index(axis.size)
            if not text.isidentifier() and axis.size.constant is None:
                name = self.w.names.new(f"{axis.name}_size")
                self.w.scopes[0].lines.append(f"const int64_t {name} = {text};")
                text = name
            self.sizes[axis.size] = text
        return self.sizes[axis.size]

    # --- the kernel's axes --------------------------------------------------------------------------------------------
    def _coordinates(self, axes: tuple[Symbol, ...], names: list[str], start: str) -> None:
        """Variables for the axes at the row-major position `start`."""
        for n in range(len(axes) - 1, -1, -1):
            size = self._size(axes[n])
            below = " * ".join(self._size(axis) for axis in axes[n + 1 :])
            at = f"{start} / ({below})" if below else start
            self.w.line(f"int64_t {names[n]} = {at}{f' % {size}' if n else ''};")

    def _advance(self, axes: tuple[Symbol, ...], names: list[str]) -> None:
        """On to the next position."""
        text = f"++{names[0]};"
        for axis, name in zip(axes[1:], names[1:], strict=True):
            text = f"if (++{name} == {self._size(axis)}) {{ {name} = 0; {text} }}"
        self.w.line(text)

    def _rows(self) -> None:
        w, axes = self.w, self.kernel.axes
        if len(axes) == 1:
            w.open("")
            name = w.bind(axes[0])
            w.scopes[-1].head = f"for (int64_t {name} = begin; {name} < end; ++{name})"
        elif axes:
            for axis in axes:
                w.bind(axis)
            names = [w.scopes[0].bound.pop(axis) for axis in axes]
            self._coordinates(axes, names, "begin")
            w.open("for (int64_t left = end - begin; left > 0; --left)")
            for axis in axes:
                w.bind(axis)
        for loop in self.kernel.loops:
            self._loop(loop)
        if len(axes) > 1:
            self._advance(axes, names)
        if axes:
            w.close()

    def _lanes(self, lane: Symbol) -> None:
        w, outer = self.w, self.kernel.axes[:-1]
        first, last = "begin", "end"
        if outer:
            size = self._size(lane)
            for axis in outer:
                w.bind(axis)
            names = [w.scopes[0].bound.pop(axis) for axis in outer]
            first, last = w.names.new(f"{lane.name}_first"), w.names.new(f"{lane.name}_last")
            self._coordinates(outer, names, f"begin / {size}")
            w.line(f"int64_t {first} = begin % {size};")
            w.open("for (int64_t left = end - begin; left > 0;)")
            for axis in outer:
                w.bind(axis)
            w.line(f"const int64_t {last} = left < {size} - {first} ? {first} + left : {size};")
            w.line(f"left -= {last} - {first};")
        self.bounds = first, last
        if self.has_arrays:
            w.open(f"for (int64_t tile = {first}; tile < {last}; tile += {TILE})")
            w.line(f"const int64_t lanes = {last} - tile < {TILE} ? {last} - tile : {TILE};")
        for loop in self.kernel.loops:
            self._loop(loop)
        if self.has_arrays:
            w.close()
        if outer:
            w.line(f"{first} = 0;")
            self._advance(outer, names)
            w.close()

    def _open_lanes(self) -> None:
        """The loop over lanes: the innermost one."""
        assert self.lane is not None
        scope = self.w.open("", simd=True)
        name = self.w.bind(self.lane)
        if self.has_arrays:
            scope.head = "for (int64_t t = 0; t < lanes; ++t)"
            self.w.line(f"const int64_t {name} = tile + t;")
        else:
            first, last = self.bounds
            scope.head = f"for (int64_t {name} = {first}; {name} < {last}; ++{name})"

    def _each_lane(self, texts: list[str]) -> None:
        """Statements for each lane, or for the one row."""
        if self.lane is None:
            for text in texts:
                self.w.line(text)
        elif texts:
            self.w.line("#pragma omp simd")
            self.w.line(f"for (int64_t t = 0; t < lanes; ++t) {{ {' '.join(texts)} }}")

    # --- loops --------------------------------------------------------------------------------------------------------
    def _loop(self, loop: Loop) -> None:
        w = self.w
        made = [self._accumulator(s, loop) for s in loop.body if isinstance(s, Reduce)]
        accumulators = {a.reduce.name: a for a in made}
        for a in made:
            self._declare(a)
        depth = len(w.scopes)
        in_order = self.lane is None and _is_in_order(loop)
        position = self._position(loop) if any(a.at for a in made) else ""
        parted = [a for a in made if a.is_parted]
        counted = bool(parted and self.lane is not None)
        rounds = w.names.new("rounds") if counted else ""
        if counted:
            w.line(f"int64_t {rounds} = 0;")
        for axis in loop.axes:
            if axis.size is not None and not axis.size.constant:
                w.open(f"if ({self._size(axis)} > 0)", guard=True)
            if self.lane is not None or axis is not loop.axes[-1]:
                w.open("")
                name = w.bind(axis)
                w.scopes[-1].head = f"for (int64_t {name} = 0; {name} < {self._size(axis)}; ++{name})"
            else:
                self._innermost(axis, parted, made, in_order)
        if self.lane is not None:
            self._open_lanes()
        for statement in loop.body:
            self._statement(statement, accumulators, position)
        if position:
            w.line(f"++{position};") if self.lane is None else None
        if self.lane is not None:
            w.close()
            if position:
                w.line(f"++{position};")
            if counted:
                adds = " ".join(f"{a.total}[t] += {a.part}[t]; {a.part}[t] = 0;" for a in parted)
                w.open(f"if (++{rounds} == {LANE_BLOCK})")
                w.line(f"{rounds} = 0;")
                self._each_lane([adds])
                w.close()
        elif loop.axes and parted and not in_order:
            w.close()
            for a in parted:
                w.line(f"{a.total} += {a.part};")
        while len(w.scopes) > depth:
            w.close()
        self._finish(made)

    def _innermost(self, axis: Symbol, parted: list[_Accumulator], made: list[_Accumulator], in_order: bool) -> None:
        """Opens the loop of a row that becomes vectors; with partial sums, in blocks."""
        w, size = self.w, self._size(axis)
        first, last = "0", size
        if parted:
            if axis.size is None or axis.size.constant is None or axis.size.constant > BLOCK:
                first, last = w.names.new("block"), w.names.new("block_end")
                w.open(f"for (int64_t {first} = 0; {first} < {size}; {first} += {BLOCK})")
                w.line(f"const int64_t {last} = {size} - {first} < {BLOCK} ? {size} : {first} + {BLOCK};")
            else:
                w.open("")
            for a in parted:
                w.line(f"{a.spec.held} {a.part} = {a.spec.start};")
        scope = w.open("", simd=not in_order)
        name = w.bind(axis)
        scope.head = f"for (int64_t {name} = {first}; {name} < {last}; ++{name})"
        if not in_order:
            # integers may be combined in any order, and need no leave
            floats = [a for a in made if a.spec.held in ("float", "double")]
            scope.clauses.extend(f"reduction({SIGNS[a.reduce.kind]}:{a.part})" for a in floats)

    def _position(self, loop: Loop) -> str:
        name = self.w.names.new("position")
        self.w.line(f"int64_t {name} = 0;")
        return name

    # --- what loops reduce --------------------------------------------------------------------------------------------
    def _accumulator(self, reduce: Reduce, loop: Loop) -> _Accumulator:
        kind, dtype = reduce.kind, reduce.value.dtype
        total = self.w.names.new(f"{reduce.name}_total")
        if kind in ("argmax", "argmin"):
            spec = reduction(kind.removeprefix("arg"), dtype)
            return _Accumulator(reduce, spec, spec.held, total, total, self.w.names.new(f"{reduce.name}_at"))
        if kind == "logsumexp":
            spec = CReduction("double", "-__builtin_inf()", "logaddexp_f64({0}, {1})")
            return _Accumulator(reduce, spec, "double", total, total)
        in_vectors = self.lane is None and loop.axes and not _is_in_order(loop)
        as_keys = in_vectors and kind in ("max", "min") and dtype.is_floating_point
        spec = keyed(kind, dtype) if as_keys else reduction(kind, dtype)
        if kind not in ("sum", "prod") or spec.held != "float":
            return _Accumulator(reduce, spec, spec.held, total, total)
        if _runs(loop, reduce.name) or (self.lane is None and not in_vectors):  # as torch has it
            return _Accumulator(reduce, spec, "double", total, total)
        short = self.lane is not None and _rounds(loop) <= LANE_BLOCK
        if kind == "prod" or short or not loop.axes:
            return _Accumulator(reduce, spec, spec.held, total, total)
        return _Accumulator(reduce, spec, "double", total, self.w.names.new(f"{reduce.name}_part"))

    def _declare(self, a: _Accumulator) -> None:
        w = self.w
        if self.lane is None:
            w.line(f"{a.wide} {a.total} = {a.spec.start};")
            if a.at:
                w.line(f"int64_t {a.at} = 0;")
            return
        w.line(f"{a.wide} {a.total}[{TILE}];")
        starts = [f"{a.total}[t] = {a.spec.start};"]
        if a.is_parted:
            w.line(f"{a.spec.held} {a.part}[{TILE}];")
            starts.append(f"{a.part}[t] = 0;")
        if a.at:
            w.line(f"int64_t {a.at}[{TILE}];")
            starts.append(f"{a.at}[t] = 0;")
        self._each_lane(starts)

    def _finish(self, made: list[_Accumulator]) -> None:
        """The results, known from here on."""
        w = self.w
        for a in made:
            ct, name = ctype(a.reduce.dtype), w.names.new(a.reduce.name)
            total = f"{a.at or a.total}{self.suffix}"
            total = f"({total} + {a.part}[t])" if a.is_parted and self.lane is not None else total
            value = ct.round.format(f"({ct.held}){a.spec.value.format(total)}")
            if self.lane is None:
                w.line(f"const {ct.held} {name} = {value};")
                w.results[a.reduce.name] = name, len(w.scopes) - 1
            else:
                w.line(f"{ct.held} {name}[{TILE}];")
                self._each_lane([f"{name}[t] = {value};"])
                w.results[a.reduce.name] = f"{name}[t]", None

    def _statement(self, statement: Statement, accumulators: dict[str, _Accumulator], position: str) -> None:
        w = self.w
        if isinstance(statement, Store):
            for value in values_in(statement.index):
                w.value(value)
            stored = ctype(statement.value.dtype).store.format(w.value(statement.value))
            w.line(f"{w.buffers[statement.buffer]}[{w.index(statement.index)}] = {stored};")
            w.stored(statement.buffer)
            return
        a, new = accumulators[statement.name], w.value(statement.value)
        into = a.part + self.suffix
        if a.at:
            sign = ">" if statement.kind == "argmax" else "<"
            nan = f" | (({new} != {new}) & ({into} == {into}))" if statement.value.dtype.is_floating_point else ""
            taken = w.names.new("taken")
            w.line(f"const _Bool {taken} = ({new} {sign} {into}){nan};")
            w.line(f"{into} = {taken} ? {new} : {into};")
            w.line(f"{a.at}{self.suffix} = {taken} ? {position} : {a.at}{self.suffix};")
            return
        if a.spec.key != "{}":
            key = w.names.new("key")
            w.line(f"const {a.spec.held} {key} = {a.spec.key.format(new)};")
            new = key
        w.line(f"{into} = {a.spec.combine.format(into, new)};")
        ct = ctype(statement.dtype)
        w.running[statement.name] = ct.round.format(f"({ct.held}){into}")


def _is_in_order(loop: Loop) -> bool:
    """Whether the rounds of a row have to run one after the other."""
    ordered = any(isinstance(s, Reduce) and s.kind in ("argmax", "argmin", "logsumexp") for s in loop.body)
    return ordered or any(_runs(loop, s.name) for s in loop.body if isinstance(s, Reduce))


def _runs(loop: Loop, name: str) -> bool:
    return any(
        isinstance(expr, Running) and expr.name == name for statement in loop.body for expr in walk(*reads(statement))
    )


def _rounds(loop: Loop) -> float:
    total = 1.0
    for axis in loop.axes:
        assert axis.size is not None
        constant = axis.size.constant
        total *= float("inf") if constant is None else constant
    return total
