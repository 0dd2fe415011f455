"""How a kernel is cut into programs: tiles of its axes, tiles of its loops, and how many there are of each.

A tile has one or two dimensions. `x`: positions of the kernel's axes; `r`: rounds of a loop; `y`, in a kernel without
loops: an axis along which it reads what lies together, where `x` is the one along which it writes. Axes that are in
neither have one value in a program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from codegen.kernels import index as ix
from codegen.kernels.axes import indices, simplify, statements_of
from codegen.kernels.c_expand import expand
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Kernel, Loop, Op, Reduce, Running, Store, reads, walk
from codegen.kernels.ops import CHECKS

#: Rounds of a loop that a program does at once, if there are no more of them: so many registers there are. Scans keep
#: several values for each.
LONGEST, LONGEST_SCAN = 8192, 1024
#: A size that is not known is taken to be this.
TYPICAL = 1024
#: Programs that keep a device busy; with fewer, tiles are made smaller.
BUSY = 512
#: Numbers that a thread adds up in.
TOTALS = 64
#: Elements of a program's tile, at least: some for each thread of a warp.
SMALLEST = 128
INT32_MAX = 2**31 - 1
#: What a device combines with an element in memory at once, whoever does so beside it. (Its maxima know no NaN.)
ATOMIC = {
    "sum": (torch.float32, torch.float64, torch.int32, torch.int64), "max": (torch.int32, torch.int64),
    "min": (torch.int32, torch.int64),
}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """`x`, `y`, `r`: the largest tile (powers of 2; a loop of at most `r` rounds is one tile); `warps` of 32 threads
    for each program; `stages`: loads of a loop that are under way at once; `wide`: places are counted in int64."""

    x: int = 1
    y: int = 1
    r: int = 1
    warps: int = 4
    stages: int = 2
    wide: bool = False


@dataclass(frozen=True)
class Tiling:
    """The kernel's axes: of the dimensions x and y, and the others; the axes of its loops that have any."""

    x: tuple[Symbol, ...]
    y: tuple[Symbol, ...]
    rest: tuple[Symbol, ...]
    loops: tuple[tuple[Symbol, ...], ...] = ()


@lru_cache(32)
def prepared(kernel: Kernel) -> Kernel:
    """The kernel as it is printed: it does the same, but that what meets in an element is added in any order."""
    if any(isinstance(statement, Store) and statement.into is not None for statement in statements_of(kernel)):
        kernel = _side_by_side(kernel)
    return expand(simplify(kernel))


def _side_by_side(kernel: Kernel) -> Kernel:
    """With rounds that combine something with elements as axes of the kernel: each does that at once."""
    (loop,) = kernel.loops
    for store in loop.body:
        assert isinstance(store, Store)
        if store.into == "last" and not loop.axes:
            continue
        if store.into not in ATOMIC or store.value.dtype not in ATOMIC[store.into]:
            raise NotImplementedError(f"a Triton kernel that combines by {store.into} in {store.value.dtype}")
    return replace(kernel, axes=(*loop.axes, *kernel.axes), loops=(Loop((), loop.body),))


def tiling(kernel: Kernel) -> Tiling:
    """Of a prepared kernel."""
    axes = kernel.axes
    loops = tuple(loop.axes for loop in kernel.loops if loop.axes)
    across = None if loops else _across(kernel)
    if across is None:
        return Tiling(axes, (), (), loops)
    return Tiling(axes[-1:], (across,), tuple(axis for axis in axes[:-1] if axis is not across))


def size_of(axes: Sequence[Symbol]) -> Index:
    return math.prod((axis.size for axis in axes if axis.size is not None), start=ix.index(1))


def _across(kernel: Kernel) -> Symbol | None:
    """The axis along which something lies together that does not along the last one."""
    for at in indices(statements_of(kernel)):
        if not kernel.axes or ix.has_values(at):
            continue
        last = ix.stride_of(at, kernel.axes[-1])
        if last is None or last.constant in (0, 1):
            continue
        for axis in kernel.axes[:-1]:
            if ix.stride_of(at, axis) == 1:
                return axis
    return None


# --- how large --------------------------------------------------------------------------------------------------------
def power_of_two(n: int) -> int:
    """The smallest one that is not less."""
    return 1 << max(n - 1, 0).bit_length()


def block(largest: int, size: Index) -> int:
    """A tile for so many positions."""
    return largest if size.constant is None else min(largest, power_of_two(size.constant))


def candidates(kernel: Kernel, sizes: Mapping[Symbol, int] | None = None) -> tuple[Config, ...]:
    """Tiles worth trying, the one that is likely best first. `sizes`: what those of the kernel are, or will often be.

    They count in int64 where these sizes need it; a launch with others has to see if it `is_small`, or be wide."""
    wide = (sizes is not None or not kernel.sizes) and not is_small(kernel, sizes or {})
    kernel = prepared(kernel)
    tiles = tiling(kernel)
    found = dict.fromkeys(_limited(config, tiles) for config in _table(kernel, tiles, sizes or {}))
    return tuple(replace(config, wide=wide) for config in found)


def _table(kernel: Kernel, tiles: Tiling, sizes: Mapping[Symbol, int]) -> tuple[Config, ...]:
    if tiles.y:
        return Config(32, 32), Config(64, 64, warps=8), Config(64, 16), Config(16, 64)
    work = _estimate(tiles.x, sizes)
    if not tiles.loops:
        return Config(1024 if work >= 1024 * BUSY else 256), Config(512), Config(2048, warps=8), Config(128)
    if _is_along_x(kernel):
        squares = Config(32, r=32), Config(64, r=64, warps=8), Config(128, r=16), Config(16, r=128, warps=8)
        return tuple(_lighter(config, kernel) for config in squares)
    row = power_of_two(max(_estimate(axes, sizes) for axes in tiles.loops))
    longest = LONGEST_SCAN if _scans(kernel) else LONGEST
    parts = Config(r=2048, warps=8), Config(r=1024), Config(4, r=512, warps=8), Config(r=4096, warps=16)
    in_parts = tuple(_lighter(config, kernel) for config in parts if config.r < row and config.r <= longest)
    if row > longest:
        return in_parts
    at_once = []
    for elements in (1024, 4096, 2048):
        rows = max(1, min(elements // row, power_of_two(work // BUSY)), SMALLEST // row)
        at_once.append(Config(rows, r=row, warps=_warps(rows * row)))
    return (*at_once, *in_parts)


def _lighter(config: Config, kernel: Kernel) -> Config:
    """With so short a tile of loops that the totals of a loop fit into registers."""
    totals = max(sum(isinstance(statement, Reduce) for statement in loop.body) for loop in kernel.loops)
    while config.r > 1 and config.x * config.r * totals > TOTALS * 32 * config.warps:
        config = replace(config, r=config.r // 2)
    return config


def _estimate(axes: Sequence[Symbol], sizes: Mapping[Symbol, int]) -> int:
    return ix.evaluate(size_of(axes), lambda atom: sizes.get(atom, TYPICAL))


def _scans(kernel: Kernel) -> bool:
    return any(isinstance(expr, Running) for s in statements_of(kernel) for expr in walk(*reads(s)))


def _warps(elements: int) -> int:
    """So that each thread has about 8."""
    return min(16, max(1, power_of_two(elements // 256)))


def _limited(config: Config, tiles: Tiling) -> Config:
    x, y = block(config.x, size_of(tiles.x)), block(config.y, size_of(tiles.y))
    return replace(config, x=x, y=y)


def _is_along_x(kernel: Kernel) -> bool:
    """Whether what loops read lies together along the kernel's last axis, not along theirs."""
    together = apart = 0
    for loop in kernel.loops:
        if not loop.axes or not kernel.axes:
            continue
        for at in indices(loop.body):
            across, along = ix.stride_of(at, kernel.axes[-1]), ix.stride_of(at, loop.axes[-1])
            together += across == 1 and along != 1
            apart += along == 1 and across != 1
    return together > apart


def programs(kernel: Kernel, config: Config) -> Index:
    """How many programs do the kernel, over its sizes. 0: nothing is to be done."""
    kernel = prepared(kernel)
    tiles = tiling(kernel)
    total = size_of(tiles.rest)
    for axes, largest in ((tiles.x, config.x), (tiles.y, config.y)):
        if axes:
            size = size_of(axes)
            each = block(largest, size)
            total = total * ((size + each - 1) // each)
    return total


# --- counting in 32 bits ----------------------------------------------------------------------------------------------
def is_small(kernel: Kernel, sizes: Mapping[Symbol, int]) -> bool:
    """Whether every place that the kernel computes for these sizes, and every tile's end, is within int32."""
    kernel = prepared(kernel)
    bounds: list[Index | None] = [size_of(kernel.axes), *(size_of(loop.axes) for loop in kernel.loops)]
    bounds += [buffer.size for buffer in kernel.buffers]
    for at in {at for at in indices(statements_of(kernel))}:
        for part in _parts(at):
            bounds += [ix.maximum_of(part), ix.maximum_of(-part)]
    # a tile may reach beyond the end by as much as a tile
    return all(bound is not None and _value(bound, sizes) < INT32_MAX - (1 << 20) for bound in bounds)


def _parts(at: Index) -> Iterator[Index]:
    """It and what it divides or compares, but for terms with values that have no bound: they are computed in int64."""
    yield Index(tuple((m, c) for m, c in at.terms if not any(is_unbounded(atom) for atom in m)))
    for atom in ix.atoms(at):
        match atom:
            case ix.Quotient() | ix.Remainder():
                yield from _parts(atom.dividend)
            case ix.Extremum():
                yield from _parts(atom.a)
                yield from _parts(atom.b)


def is_unbounded(atom: ix.Atom) -> bool:
    return isinstance(atom, ix.Value) and atom.upper is None


def _value(bound: Index, sizes: Mapping[Symbol, int]) -> int | float:
    if ix.has_values(bound) or any(symbol.size is not None for symbol in ix.symbols(bound)):
        return math.inf
    return ix.evaluate(bound, sizes.__getitem__)


def reports_errors(kernel: Kernel) -> bool:
    """Whether an index can be out of range: the kernel is given an `error` to write 1 into."""
    return any(
        isinstance(expr, Op) and expr.name in CHECKS
        for statement in statements_of(kernel)
        for expr in walk(*reads(statement))
    )
