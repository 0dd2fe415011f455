"""Kernels as C: one translation unit, a function for each kernel.

    int NAME(void *const *buffers, const int64_t *sizes, const union number *scalars, int64_t begin, int64_t end)

does the row-major positions begin..end of the kernel's axes, or the stretches begin..end of them, if it is done in
stretches. It answers 0, or the sum of 1 if a check failed (an index out of range) and 2 if an integer
was divided by 0. C11 with OpenMP's simd pragmas; it means what it should under -fwrapv -fno-math-errno
-fno-trapping-math -ffp-contract=off, and not under -ffast-math.

A kernel has one of three shapes (`c_shape.py`). In *rows*, its positions are gone through one by one, and the innermost
axis of each loop becomes vectors. In *lanes*, the innermost axis of the kernel does; what loops reduce then is an array
with an element for each lane, over tiles of that axis. In *blocks*, what lies in memory across the lanes is first
brought into their order, some rows and some lanes at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from codegen.kernels import index as ix
from codegen.kernels.about import about
from codegen.kernels.axes import simplify
from codegen.kernels.c_expand import expand, in_order
from codegen.kernels.c_loops import Loops
from codegen.kernels.c_ops import NOUGHT, ctype
from codegen.kernels.c_preamble import preamble
from codegen.kernels.c_scope import Writer
from codegen.kernels.c_shape import in_lanes, transposed_loads
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Kernel, Load

#: Lanes of a block; its rows, at most; and its bytes. (`x.T + y` of 2048 x 1024 floats takes 0.8 of the time in blocks
#: of 64 rows that it takes in blocks of 16: more of a page is read while it is at hand.)
LANES, ROWS, BLOCK = 64, 64, 1 << 14


def print_c(kernels: Sequence[Kernel]) -> str:
    """The unit. Raises NotImplementedError for a kernel that C has no types for."""
    text = "\n".join(_Function(kernel).text() for kernel in kernels)
    return f"{preamble(text)}\n{text}"


class _Function:
    def __init__(self, kernel: Kernel) -> None:
        self.given = kernel
        self.kernel = in_order(expand(simplify(kernel)))
        self.w = Writer(self.kernel)
        self.sizes: dict[ix.Index, str] = {}
        self.lane: Symbol | None = self.kernel.axes[-1] if in_lanes(self.kernel) else None
        self.loops = Loops(self.kernel, self.w, self.lane, self._size)

    def text(self) -> str:
        w, kernel = self.w, self.kernel
        w.line("int bad = 0;")
        w.line("if (begin >= end) return 0;")
        if kernel.stretch > 1:
            w.line(f"begin *= {kernel.stretch}; end *= {kernel.stretch};")
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
        staged = [] if self.lane is None else transposed_loads(self.kernel)
        if self.lane is None:
            self._rows()
        elif staged:
            self._blocks(self.lane, staged)
        else:
            self._lanes(self.lane)
        w.line("return bad;")
        comment = "\n".join(f"// {line}".rstrip() for line in about(self.given))
        head = (
            f"int {kernel.name}(void *const *buffers, const int64_t *sizes, const union number *scalars, "
            "int64_t begin, int64_t end)"
        )
        lines = w.scopes[0].lines
        if any(NOUGHT in line for line in lines):
            lines.insert(0, f'int {NOUGHT} = 0; __asm__("" : "+r"({NOUGHT}));')
        body = "\n".join(line if line.startswith("#") else f"    {line}" for line in lines)
        return f"{comment}\n{head}\n{{\n{body}\n}}\n"

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

    def _advance(self, axes: tuple[Symbol, ...], names: list[str], by: str = "1") -> None:
        """On to the next position, or, within the last axis, to the one after `by`."""
        text = ""
        for axis, name in zip(axes, names, strict=True):
            step = f"{name} += {by}" if axis is axes[-1] and by != "1" else f"++{name}"
            text = f"if (({step}) == {self._size(axis)}) {{ {name} = 0; {text} }}" if text else f"{step};"
        self.w.line(text)

    def _rows(self) -> None:
        w, axes = self.w, self.kernel.axes
        if len(axes) == 1:
            scope = w.open("")
            name = w.bind(axes[0])
            scope.head = f"for (int64_t {name} = begin; {name} < end; ++{name})"
        elif axes:
            names = self._variables(axes)
            self._coordinates(axes, names, "begin")
            w.open("for (int64_t left = end - begin; left > 0; --left)")
            for axis in axes:
                w.bind(axis)
        self.loops.all()
        if len(axes) > 1:
            self._advance(axes, names)
        if axes:
            w.close()

    def _variables(self, axes: tuple[Symbol, ...]) -> list[str]:
        """Their names, which mean something only once a scope has them."""
        names = [self.w.bind(axis) for axis in axes]
        for axis in axes:
            del self.w.scopes[-1].bound[axis]
        return names

    def _lanes(self, lane: Symbol) -> None:
        w, outer = self.w, self.kernel.axes[:-1]
        first, last = "begin", "end"
        if outer:
            size, names = self._size(lane), self._variables(outer)
            first, last = w.names.new(f"{lane.name}_first"), w.names.new(f"{lane.name}_last")
            self._coordinates(outer, names, f"begin / {size}")
            w.line(f"int64_t {first} = begin % {size};")
            w.open("for (int64_t left = end - begin; left > 0;)")
            for axis in outer:
                w.bind(axis)
            w.line(f"const int64_t {last} = left < {size} - {first} ? {first} + left : {size};")
            w.line(f"left -= {last} - {first};")
        if self.loops.is_tiled:
            tiles, tile = w.names.new("tiles"), self.loops.tile
            w.line(f"const int64_t {tiles} = ({last} - {first} + {tile - 1}) / {tile};")
            w.line(f"const int64_t step = ({last} - {first} + {tiles} - 1) / {tiles};")
            w.open(f"for (int64_t tile = {first}; tile < {last}; tile += step)")
            w.line(f"const int64_t lanes = {last} - tile < step ? {last} - tile : step;")
        self.loops.bounds = first, last
        self.loops.all()
        if self.loops.is_tiled:
            w.close()
        if outer:
            w.line(f"{first} = 0;")
            self._advance(outer, names)
            w.close()

    def _blocks(self, lane: Symbol, staged: list[Load]) -> None:
        """Rows of the last axis but one go together, if they are whole."""
        w, outer, size = self.w, self.kernel.axes[:-1], self._size(lane)
        fitting = BLOCK // (LANES * sum(ctype(load.dtype).bits // 8 for load in staged)) // 8 * 8
        most = max(8, min(ROWS, fitting))
        row = outer[-1]
        names = self._variables(outer)
        names[-1] = w.names.new(f"{row.name}_first")
        first, last, rows, r = (w.names.new(name) for name in (f"{lane.name}_first", f"{lane.name}_last", "rows", "r"))
        self._coordinates(outer, names, f"begin / {size}")
        w.line(f"int64_t {first} = begin % {size};")
        w.open("for (int64_t left = end - begin; left > 0;)")
        for axis in outer[:-1]:
            w.bind(axis)
        below = f"lower(lower({most}, {self._size(row)} - {names[-1]}), left / {size})"
        w.line(f"const int64_t {rows} = {first} == 0 && left >= {size} ? {below} : 1;")
        w.line(f"const int64_t {last} = left < {size} - {first} ? {first} + left : {size};")
        w.line(f"left -= {rows} * ({last} - {first});")
        w.open(f"for (int64_t tile = {first}; tile < {last}; tile += {LANES})")
        w.line(f"const int64_t lanes = {last} - tile < {LANES} ? {last} - tile : {LANES};")
        arrays = [w.names.new("staged") for _ in staged]
        for load, array in zip(staged, arrays, strict=True):
            ct, stride = ctype(load.dtype), ix.stride_of(load.index, lane)
            assert stride is not None
            w.line(f"{ct.stored} {array}[{most}][{LANES}];")
            for whole in (True, False) if ct.bits > 8 else (False,):
                step = 8 if whole else 1
                w.open(f"if (({rows} | lanes) % 8 == 0)" if whole else "else" if ct.bits > 8 else "")
                w.open(f"for (int64_t t = 0; t < lanes; t += {step})")
                w.line(f"const int64_t {w.bind(lane)} = tile + t;")
                w.open(f"for (int64_t {r} = 0; {r} < {rows}; {r} += {step})")
                w.line(f"const int64_t {w.bind(row)} = {names[-1]} + {r};")
                source = f"{w.buffers[load.buffer]}[{w.index(load.index)}]"
                square = f"transpose_u{ct.bits}(&{array}[{r}][t], {LANES}, &{source}, {w.index(stride)});"
                w.line(square if whole else f"{array}[{r}][t] = {source};")
                for _ in range(3):
                    w.close()
        w.open(f"for (int64_t {r} = 0; {r} < {rows}; ++{r})")
        w.line(f"const int64_t {w.bind(row)} = {names[-1]} + {r};")
        self.loops.staged = {load: f"{array}[{r}][t]" for load, array in zip(staged, arrays, strict=True)}
        self.loops.is_tiled, self.loops.tile = True, LANES
        self.loops.all()
        w.close()
        w.close()
        w.line(f"{first} = 0;")
        self._advance(outer, names, rows)
        w.close()
