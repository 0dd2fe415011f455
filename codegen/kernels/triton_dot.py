"""Matrix products as Triton: kernels of the loop IR that add up products of two factors, in tiles of tensor cores.

    for batch, m, n:                     rows m lie in one factor only, columns n in the other, batch in both
        for k: r = sum of a(batch, m, k) * b(batch, k, n)      several sums of equal k may share a factor
        store any values of r and of elements at (batch, m, n)

Factors may be computed (a prologue), so may what is stored (an epilogue): the kernel is what fusion made of a product
and its neighbours, and its meaning is the evaluator's. Factors are float16, bfloat16 or float32 values; sums are
float32. Of float32, the factors are rounded to tf32 only where that is allowed.

Addresses are pointers, as in the other kernels: strides are constants or sizes, so loads are as wide as block pointers
would make them. Tensor descriptors would let one thread fetch a tile, but want scratch memory for each launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from codegen.kernels import index as ix
from codegen.kernels.about import about
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr, Kernel, Load, Op, Reduce, Store, indices_in, reads, values_in, walk
from codegen.kernels.ops import CHECKS
from codegen.kernels.triton_ops import ttype
from codegen.kernels.triton_preamble import preamble
from codegen.kernels.triton_scope import Dimension, Known, Writer, bracketed
from codegen.kernels.triton_shape import is_small, power_of_two, prepared, size_of

#: What tensor cores multiply.
FACTORS = (torch.float16, torch.bfloat16, torch.float32)
#: The least of each dimension that they take at once.
LEAST = 16


@dataclass(frozen=True)
class DotConfig:
    """Tiles of rows, columns and rounds; `group`: so many tiles of rows are done column by column, that programs which
    run together read the same."""

    m: int
    n: int
    k: int
    warps: int = 4
    stages: int = 3
    group: int = 8
    wide: bool = False


@dataclass(frozen=True)
class Product:
    """A kernel that is one. `factors`: of each sum; the first has the rows, the second the columns."""

    kernel: Kernel
    batch: tuple[Symbol, ...]
    m: tuple[Symbol, ...]
    n: tuple[Symbol, ...]
    k: tuple[Symbol, ...]
    sums: tuple[Reduce, ...]
    factors: tuple[tuple[Expr, Expr], ...]


# --- which kernels ----------------------------------------------------------------------------------------------------
def product_of(kernel: Kernel) -> Product | None:
    """None for a kernel that is none, or reads what it writes elsewhere than at its own element."""
    kernel = prepared(kernel)
    if len(kernel.loops) != 2 or not kernel.loops[0].axes or kernel.loops[1].axes:
        return None
    first, last = kernel.loops
    sums = tuple(statement for statement in first.body if isinstance(statement, Reduce))
    if len(sums) != len(first.body) or any(isinstance(s, Reduce) for s in last.body) or _reads_written(kernel):
        return None
    found = [_factors(reduce) for reduce in sums]
    if not all(found):
        return None
    sides = [[axes_of(factor) & set(kernel.axes) for factor in pair] for pair in found if pair]
    batch = set.intersection(*(a & b for a, b in sides))
    rows = {axis for axis in sides[0][0] - batch}
    columns = {axis for axis in sides[0][1] - batch}
    if not rows or not columns or rows | columns | batch != set(kernel.axes):
        return None
    pairs = []
    for pair, (a, b) in zip(found, sides, strict=True):
        assert pair is not None
        if a <= rows | batch and b <= columns | batch:
            pairs.append(pair)
        elif b <= rows | batch and a <= columns | batch:
            pairs.append(pair[::-1])
        else:
            return None
    if not all(axes_of(factor) >= set(first.axes) for pair in pairs for factor in pair):
        return None

    def kept(axes: set[Symbol]) -> tuple[Symbol, ...]:
        return tuple(axis for axis in kernel.axes if axis in axes)

    return Product(kernel, kept(batch), kept(rows), kept(columns), first.axes, sums, tuple(pairs))


def _factors(reduce: Reduce) -> tuple[Expr, Expr] | None:
    value = reduce.value
    if reduce.kind != "sum" or value.dtype is not torch.float32 or not isinstance(value, Op) or value.name != "mul":
        return None
    a, b = map(_narrow, value.operands)
    return (a, b) if a.dtype == b.dtype and a.dtype in FACTORS else None


def _narrow(factor: Expr) -> Expr:
    """The half that was made a float32."""
    is_wider = isinstance(factor, Op) and factor.name == "to" and factor.operands[0].dtype in FACTORS
    return factor.operands[0] if is_wider else factor  # type: ignore[attr-defined]


def axes_of(root: Expr) -> set[Symbol]:
    found: set[Symbol] = set()
    for expr in walk(root):
        at = indices_in(expr)
        found |= {symbol for symbol in ix.symbols(at) if symbol.size is not None} if at is not None else set()
    return found


def _reads_written(kernel: Kernel) -> bool:
    """Whether a sum reads what is stored, or anything could be out of range."""
    written = {buffer.name for buffer in kernel.buffers if buffer.role != "in"}
    exprs = list(walk(*(value for s in kernel.loops[0].body for value in reads(s))))
    checks = (expr for loop in kernel.loops for s in loop.body for expr in walk(*reads(s)))
    return any(isinstance(e, Load) and e.buffer in written for e in exprs) or any(
        isinstance(e, Op) and e.name in CHECKS for e in checks
    )


# --- how large --------------------------------------------------------------------------------------------------------
_TABLE = (
    DotConfig(128, 128, 64, warps=8), DotConfig(128, 64, 64), DotConfig(64, 64, 64, stages=4),
    DotConfig(128, 256, 64, warps=8), DotConfig(64, 128, 32, stages=4), DotConfig(64, 32, 64, stages=4),
    DotConfig(32, 64, 64, stages=4), DotConfig(16, 64, 128, stages=4),
)  # fmt: skip
#: Programs that keep a device busy.
BUSY = 128


def dot_candidates(product: Product, sizes: Mapping[Symbol, int] | None = None) -> tuple[DotConfig, ...]:
    """Tiles worth trying, the one that is likely best first: the largest of which there are enough."""
    known = sizes or {}
    rows, columns, rounds, batch = (
        ix.evaluate(size_of(axes), lambda atom: known.get(atom, 1024))
        for axes in (product.m, product.n, product.k, product.batch)
    )
    is_float = product.factors[0][0].dtype is torch.float32
    found: dict[DotConfig, int] = {}
    for config in _TABLE:
        k = config.k // 2 if is_float else config.k
        fitting = replace(
            config, m=_fitting(config.m, rows), n=_fitting(config.n, columns), k=_fitting(k, rounds),
            wide=not is_small(product.kernel, known) if sizes is not None or not product.kernel.sizes else False,
        )  # fmt: skip
        if len(product.sums) > 1:
            fitting = replace(fitting, n=max(LEAST, fitting.n // 2))
        found.setdefault(fitting, batch * -(-rows // fitting.m) * -(-columns // fitting.n))
    order = sorted(found, key=lambda c: (found[c] < BUSY, -c.m * c.n if found[c] >= BUSY else c.m * c.n))
    return tuple(order)


def _fitting(largest: int, size: int) -> int:
    return max(LEAST, min(largest, power_of_two(size)))


def dot_programs(product: Product, config: DotConfig) -> Index:
    total = size_of(product.batch)
    for axes, each in ((product.m, config.m), (product.n, config.n)):
        total = total * ((size_of(axes) + each - 1) // each)
    return total


# --- text -------------------------------------------------------------------------------------------------------------
def print_dot(product: Product, config: DotConfig, tf32: bool = False) -> str:
    """The source of the product's kernel in tiles of that size. `tf32`: factors of float32 may be rounded to it."""
    text = _Function(product, config, tf32).text()
    return preamble(text) + text


class _Function:
    """Three writers, one for the tile of each factor and one for that of what is stored: what each says before the
    loop over rounds, in it and after it is put together."""

    def __init__(self, product: Product, config: DotConfig, tf32: bool) -> None:
        self.product, self.config, self.tf32 = product, config, tf32
        kernel = product.kernel
        self.a = Writer(kernel, ("m", "k"), "error")
        self.b = self._beside(("k", "n"))
        self.c = self._beside(("m", "n"))
        self.writers = (self.a, self.b, self.c)
        self.lines: list[str] = []

    def _beside(self, order: tuple[str, str]) -> Writer:
        writer = Writer(self.product.kernel, order, "error")
        writer.names, writer.buffers, writer.scalars = self.a.names, self.a.buffers, self.a.scalars
        return writer

    def text(self) -> str:
        product, config = self.product, self.config
        kernel, names = product.kernel, self.a.names
        given = [self.a.buffers[buffer.name] for buffer in kernel.buffers]
        for symbol in kernel.sizes:
            given.append(names.new(symbol.name))
            self._bind(symbol, Known(given[-1], None))
        for scalar in kernel.scalars:
            given.append(self.a.scalars[scalar.name])
            held = ttype(scalar.dtype)
            if held.round != "{}":
                self.lines.append(f"{given[-1]} = {held.round.format(given[-1])}")
        self._programs()
        totals = [names.new(f"{reduce.name}_total") for reduce in product.sums]
        for total in totals:
            self.lines.append(f"{total} = tl.full([{config.m}, {config.n}], 0.0, tl.float32)")
        inside = self._rounds(totals)
        for writer in (self.a, self.b):
            self.lines += writer.scopes[0].lines
        self.lines += inside
        self._store(totals)
        self.lines += self.c.scopes[0].lines
        comment = [*about(kernel), str(config)]
        head = [f"# {line}".rstrip() for line in comment] + ["@triton.jit", f"def {kernel.name}({', '.join(given)}):"]
        return "\n".join([*head, *(f"    {line}" for line in self.lines)]) + "\n"

    def _bind(self, symbol: Symbol, known: Known, writers: Sequence[Writer] | None = None) -> None:
        for writer in writers or self.writers:
            writer.scopes[-1].bound[symbol] = known

    def _count(self, size: Index) -> str:
        return bracketed(self.a.index(size).text)

    def _programs(self) -> None:
        """The tile of this program: of a group of tiles of rows, one column after the other."""
        product, config, names = self.product, self.config, self.a.names
        rows, columns = (
            (size_of(axes) + each - 1) // each for axes, each in ((product.m, config.m), (product.n, config.n))
        )
        program, first, height = names.new("program"), names.new("first"), names.new("height")
        say = self.lines.append
        say(f"{program} = tl.program_id(0){'.to(tl.int64)' if config.wide else ''}")
        if product.batch:
            whole = names.new("batch")
            say(f"{whole} = {program} // {self._count(rows * columns)}")
            say(f"{program} = {program} % {self._count(rows * columns)}")
            self._places(product.batch, whole, None, self.writers)
        group = f"{program} // {self._count(columns * config.group)}"
        say(f"{first} = {group} * {config.group}")
        say(f"{height} = tl.minimum({self._count(rows)} - {first}, {config.group})")
        within = f"({program} % {self._count(columns * config.group)})"
        places = {
            "m": (f"({first} + {within} % {height})", config.m, product.m),
            "n": (f"({within} // {height})", config.n, product.n),
        }
        for name, (tile, each, axes) in places.items():
            plain, mask = names.new(name), ""
            say(f"{plain} = {tile} * {each} + tl.arange(0, {each})")
            for writer in self.writers:
                if name not in writer.order:
                    continue
                slot = "[:, None]" if writer.order[0] == name else "[None, :]"
                at = names.new(f"{name}_at")
                say(f"{at} = {plain}{slot}")
                size = size_of(axes)
                if size.constant is None or size.constant % each:
                    mask = names.new(f"{name}mask")
                    say(f"{mask} = {at} < {self._count(size)}")
                writer.dimensions[name] = Dimension(name, str(each), mask)
                self._places(axes, at, name, [writer])

    def _places(self, axes: tuple[Symbol, ...], at: str, name: str | None, writers: Sequence[Writer]) -> None:
        """Each axis at a row-major position over all of them."""
        shape = None if name is None else frozenset([name])
        for number, axis in enumerate(axes):
            below, text = size_of(axes[number + 1 :]), at
            if below != 1:
                text = f"{text} // {self._count(below)}"
            if number:
                assert axis.size is not None
                text = f"{text} % {self._count(axis.size)}"
            level = len(writers[0].scopes) - 1
            self._bind(axis, Known(bracketed(text), shape, level), writers)

    def _rounds(self, totals: list[str]) -> list[str]:
        """The loop over tiles of rounds."""
        product, config, names = self.product, self.config, self.a.names
        size, start = size_of(product.k), names.new("start")
        plain = names.new("k")
        inside = [f"{plain} = {start} + tl.arange(0, {config.k}){'.to(tl.int64)' if config.wide else ''}"]
        is_whole = size.constant is not None and size.constant % config.k == 0
        for writer, slot in ((self.a, "[None, :]"), (self.b, "[:, None]")):
            writer.open("")
            writer.fills = not is_whole
            at, mask = names.new("k_at"), ""
            writer.line(f"{at} = {plain}{slot}")
            if not is_whole:
                mask = names.new("kmask")
                writer.line(f"{mask} = {at} < {self._count(size)}")
            writer.dimensions["k"] = Dimension("k", str(config.k), mask)
            self._places(product.k, at, "k", [writer])
        factors = [
            (self._factor(self.a, a, config.m), self._factor(self.b, b, config.n)) for a, b in product.factors
        ]
        for writer in (self.a, self.b):
            inside += writer.scopes.pop().lines
        precision = "tf32" if self.tf32 else "ieee"
        for total, (a, b) in zip(totals, factors, strict=True):
            inside.append(f'{total} = tl.dot({a}, {b}, {total}, input_precision="{precision}")')
        stop = self._count(size)
        return [f"for {start} in range(0, {stop}, {config.k}):", *(f"    {line}" for line in inside)]

    def _factor(self, writer: Writer, expr: Expr, rows: int) -> str:
        """The name of a tile of it, 0 beyond the last round, as the tensor cores take it."""
        stored = ttype(expr.dtype)
        shape = frozenset(writer.order)
        if isinstance(expr, Load) and expr.mask is None:
            for inside in values_in(expr.index):
                writer.value(inside)
            return writer.plain_load(expr, shape)
        found = writer.value(expr)
        text = stored.store.format(bracketed(writer.spread(found, shape)))
        mask = writer.dimensions["k"].mask
        name = writer.names.new("factor")
        writer.line(f"{name} = " + (f"tl.where({mask}, {text}, 0.0).to({stored.stored})" if mask else text))
        return name

    def _store(self, totals: list[str]) -> None:
        w, shape = self.c, frozenset("mn")
        for reduce, total in zip(self.product.sums, totals, strict=True):
            w.results[reduce.name] = Known(total, shape)
        stores = []
        for statement in self.product.kernel.loops[1].body:
            assert isinstance(statement, Store)
            for value in values_in(statement.index):
                w.value(value)
            stores.append((statement, w.value(statement.value), w.index(statement.index)))
        for ready in stores:
            w.store(*ready, shape)
