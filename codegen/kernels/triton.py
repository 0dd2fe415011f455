"""Kernels as Triton: a Python source with one `@triton.jit` function for each kernel, for CUDA.

    NAME(buffers..., error, sizes..., scalars...)

`error`, in kernels that check indices: an int32 that becomes 1 if one was out of range. Sizes are int32 (int64 if
`Config.wide`), scalars float32, float64 or int64. There is one program for each tile of the kernel's axes
(`triton_shape.programs`); it does its tile of each loop after the other. A loop that is one tile is no loop in the
text, so what several of them read or compute is there once. The source means what it should if it is compiled with
`triton_launch.OPTIONS`: no fused multiply-add, no flushed denormals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from codegen.kernels import index as ix
from codegen.kernels.about import about
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Kernel, Load, Loop, Reduce, Running, Store, reads, values_in, walk
from codegen.kernels.triton_online import Online, online
from codegen.kernels.triton_ops import TReduction, reduction, ttype
from codegen.kernels.triton_preamble import preamble
from codegen.kernels.triton_scope import Dimension, Known, Writer, joined
from codegen.kernels.triton_shape import (
    INT32_MAX,
    Config,
    block,
    candidates,
    prepared,
    programs,
    reports_errors,
    size_of,
    tiling,
)


def print_triton(kernel: Kernel, config: Config | None = None, copies: int = 1) -> str:
    """The source of the kernel in tiles of that size. Raises NotImplementedError for a kernel that Triton has no types
    for.

    `copies`: of a kernel of known sizes, so many that share its sizes and numbers, each on buffers of its own; these
    are given copy by copy, and the programs of one copy come after those of the other."""
    text = _Function(kernel, config or candidates(kernel)[0], copies).text()
    return preamble(text) + text


@dataclass(frozen=True)
class _Reduction:
    """A Reduce in a loop of axes. `total`: what it adds up in, over the tiles of a loop that has several; `at`, of
    argmax and argmin: the place of the extreme value. `runs`: what it is up to each round is needed, too."""

    reduce: Reduce
    spec: TReduction
    total: str
    at: str
    runs: bool


#: A store with its value and its place.
Ready = tuple[Store, Known, Known]


class _Function:
    def __init__(self, kernel: Kernel, config: Config, copies: int) -> None:
        if kernel.stretch > 1:
            raise NotImplementedError("a Triton kernel whose rows are done in order")
        self.given, self.config, self.copies = kernel, config, copies
        self.kernel = prepared(kernel)
        self.tiles = tiling(self.kernel)
        order = [name for name, there in (("y", self.tiles.y), ("x", self.tiles.x), ("r", self.tiles.loops)) if there]
        self.w = Writer(self.kernel, tuple(order), "error")
        self.outer = frozenset(order) - {"r"} if order else None
        self.int = "tl.int64" if config.wide else "tl.int32"
        #: The loop whose one tile is laid out already.
        self.laid_out: tuple[Symbol, ...] = ()

    def text(self) -> str:
        w, kernel = self.w, self.kernel
        given = self._buffers()
        given += [w.error] if reports_errors(kernel) else []
        for symbol in kernel.sizes:
            w.scopes[0].bound[symbol] = Known(w.names.new(symbol.name), None)
            given.append(w.scopes[0].bound[symbol].text)
        for scalar in kernel.scalars:
            given.append(w.scalars[scalar.name])
            self._scalar(scalar.name, scalar.dtype)
        self._programs()
        loops = list(kernel.loops)
        while loops:
            loop = loops.pop(0)
            pair = online(loop, loops[0]) if loops and not self._is_one_tile(loop) else None
            if pair is None:
                self._loop(loop)
            else:
                self._online(loops.pop(0), pair)
        comment, name = [*about(self.given), str(self.config)], kernel.named(self.copies)
        head = [f"# {line}".rstrip() for line in comment] + ["@triton.jit", f"def {name}({', '.join(given)}):"]
        return "\n".join([*head, *(f"    {line}" for line in w.scopes[0].lines or ["pass"])]) + "\n"

    def _scalar(self, name: str, dtype: torch.dtype) -> None:
        text, held = self.w.scalars[name], ttype(dtype)
        if dtype is torch.bool:
            self.w.line(f"{text} = {text} != 0")
        elif not dtype.is_floating_point and held.bits < 64:
            self.w.line(f"{text} = {text}.to({held.held})")
        elif held.round != "{}":
            self.w.line(f"{text} = {held.round.format(text)}")

    def _buffers(self) -> list[str]:
        """The names of what is given; of several copies, which of it this program takes."""
        w = self.w
        own = [w.buffers[buffer.name] for buffer in self.kernel.buffers]
        self.program = f"tl.program_id(0){'.to(tl.int64)' if self.config.wide else ''}"
        if self.copies == 1:
            return own
        each = programs(self.given, self.config).constant
        assert each is not None
        copies = [[w.names.new(f"{name}_{number}") for name in own] for number in range(self.copies)]
        copy = w.names.new("copy")
        w.line(f"{copy} = {self.program} // {each}")
        self.program = f"{self.program} % {each}"
        for name, *others in zip(own, *copies, strict=True):
            chosen = others[0]
            for number, other in enumerate(others[1:], 1):
                w.line(f"{name} = tl.where({copy} == {number}, {other}, {chosen})")
                chosen = name
        return [name for names in copies for name in names]

    # --- the kernel's axes --------------------------------------------------------------------------------------------
    def _programs(self) -> None:
        """The place of this program, and its tiles of the kernel's axes."""
        w, tiles = self.w, self.tiles
        if not self.kernel.axes:
            return
        program = w.names.new("program")
        w.line(f"{program} = {self.program}")
        parts = [(name, axes) for name, axes in (("x", tiles.x), ("y", tiles.y)) if axes]
        for name, axes in parts:
            size = size_of(axes)
            each = block(getattr(self.config, name), size)
            text, several = program, (size + each - 1) // each
            if (name, axes) != parts[-1] or tiles.rest:
                count = w.index(several).text
                text = f"({program} % {_bracketed(count)})"
                rest = w.names.new("program")
                w.line(f"{rest} = {program} // {_bracketed(count)}")
                program = rest
            self._dimension(name, axes, each, f"{text} * ", several.constant == 1)
        if tiles.rest:
            self._places(tiles.rest, Known(program, None))

    def _dimension(self, name: str, axes: tuple[Symbol, ...], each: int, start: str, is_one: bool) -> None:
        """Lays the axes out along a dimension of tiles of `each` positions. `start`: what comes before the size."""
        w, size = self.w, size_of(axes)
        block_name = w.names.new(f"{name.upper()}BLOCK")
        w.line(f"{block_name}: tl.constexpr = {each}", 0)
        place = w.names.new(name if len(axes) > 1 or name == "r" else axes[0].name)
        at = f"tl.arange(0, {block_name}){self._slice(name)}"
        w.line(f"{place} = {at}" if is_one else f"{place} = {start}{block_name} + {at}")
        if self.config.wide and is_one:
            w.line(f"{place} = {place}.to(tl.int64)")
        mask = ""
        if size.constant is None or size.constant % each:
            mask = w.names.new(f"{name}mask")
            w.line(f"{mask} = {place} < {_bracketed(w.index(size).text)}")
        w.dimensions[name] = Dimension(name, block_name, mask)
        self._places(axes, Known(place, frozenset(name), len(w.scopes) - 1))

    def _slice(self, name: str) -> str:
        order = self.w.order
        return "" if len(order) == 1 else f"[{', '.join(':' if d == name else 'None' for d in order)}]"

    def _places(self, axes: tuple[Symbol, ...], position: Known) -> None:
        """Each axis at a row-major position over all of them."""
        w = self.w
        for number, axis in enumerate(axes):
            below = size_of(axes[number + 1 :])
            text = position.text
            if below != 1:
                text = f"{text} // {_bracketed(w.index(below).text)}"
            if number:
                assert axis.size is not None
                text = f"{text} % {_bracketed(w.index(axis.size).text)}"
            if text != position.text:
                name = w.names.new(axis.name)
                w.line(f"{name} = {text}")
                text = name
            w.scopes[-1].bound[axis] = Known(text, position.shape, position.level)

    # --- loops --------------------------------------------------------------------------------------------------------
    def _loop(self, loop: Loop) -> None:
        w = self.w
        stores: list[Ready] = []
        if not loop.axes:
            w.enter_loop((), "")
            for statement in loop.body:
                if isinstance(statement, Store):
                    stores.append(self._ready(statement))
                else:
                    self._once(statement)
            self._store(stores, self.outer)
            return
        size = size_of(loop.axes)
        each = block(self.config.r, size)
        w.enter_loop(loop.axes, "" if size.constant else f"({w.index(size).text} > 0)")
        one = self._is_one_tile(loop)
        if not one or self.laid_out != loop.axes:
            w.forget("r")
        if one and self.laid_out != loop.axes:
            self._dimension("r", loop.axes, each, "", True)
            self.laid_out = loop.axes
        elif not one:
            self._open(loop, each)
        running = _running(loop)
        known = {s.name: self._reduction(s, s.name in running) for s in loop.body if isinstance(s, Reduce)}
        shapes: dict[str, frozenset[str]] = {}
        for statement in loop.body:
            if isinstance(statement, Store):
                stores.append(self._ready(statement))
            elif one:
                self._reduce_tile(known[statement.name], loop)
            else:
                shapes[statement.name] = self._add_tile(known[statement.name], loop)
        self._store(stores, joined([self.outer, frozenset("r")]))
        if not one:
            w.close()
            self.laid_out = ()
            for name, shape in shapes.items():
                self._finish(known[name], shape, loop)

    def _is_one_tile(self, loop: Loop) -> bool:
        size = size_of(loop.axes).constant
        return size is not None and size <= self.config.r

    def _online(self, loop: Loop, pair: Online) -> None:
        """A maximum and the sum of exponentials below it, of a loop of several tiles."""
        w, size, axis = self.w, size_of(loop.axes), len(self.w.order) - 1
        w.enter_loop(loop.axes, "" if size.constant else f"({w.index(size).text} > 0)")
        w.forget("r")
        self._open(loop, block(self.config.r, size))
        top, total = (self._reduction(reduce, False) for reduce in (pair.top, pair.total))
        values = self._masked(top)
        assert values.shape is not None
        for made in (top, total):
            w.line(f"{made.total} = tl.full({w.extents(values.shape)}, {made.spec.start}, {made.spec.held})", 0)
        w.line(f"{top.total}, {total.total} = add_power({top.total}, {total.total}, {values.text})")
        w.close()
        self.laid_out = ()
        names = [w.names.new(made.reduce.name) for made in (top, total)]
        reduced = f"tl.reduce(({top.total}, {total.total}), {axis}, join_powers, keep_dims=True)"
        w.line(f"{', '.join(names)} = {reduced}")
        if not pair.is_finite:  # infinity less infinity
            runs = "" if size.constant else f" & {w.loop_runs}"
            w.line(f'{names[1]} = tl.where((tl.abs({names[0]}) == float("inf")){runs}, float("nan"), {names[1]})')
        for made, name in zip((top, total), names, strict=True):
            w.results[made.reduce.name] = Known(name, values.shape - {"r"})

    def _open(self, loop: Loop, each: int) -> None:
        w, size = self.w, size_of(loop.axes)
        start = w.names.new("start")
        block_name = w.names.new("RBLOCK")
        w.line(f"{block_name}: tl.constexpr = {each}")
        exprs = {expr for statement in loop.body for expr in walk(*reads(statement))}
        if any(isinstance(expr, Load) and expr.buffer in w.fresh for expr in exprs):
            w.meet()
        w.open(f"for {start} in range(0, {_bracketed(w.index(size).text)}, {block_name}):")
        place = w.names.new("r" if len(loop.axes) > 1 else loop.axes[0].name)
        at = f"tl.arange(0, {block_name}){self._slice('r')}"
        w.line(f"{place} = {start} + {at}{'.to(tl.int64)' if self.config.wide else ''}")
        mask = ""
        if size.constant is None or size.constant % each:
            mask = w.names.new("rmask")
            w.line(f"{mask} = {place} < {_bracketed(w.index(size).text)}")
        w.dimensions["r"] = Dimension("r", block_name, mask)
        self._places(loop.axes, Known(place, frozenset("r"), len(w.scopes) - 1))

    def _once(self, reduce: Reduce) -> None:
        """In a loop without axes: one round."""
        found = self.w.value(reduce.value)
        if reduce.kind in ("argmax", "argmin"):
            found = Known("tl.full([], 0, tl.int64)", None)
        self.w.results[reduce.name] = self.w.running[reduce.name] = found

    def _ready(self, store: Store) -> Ready:
        """Computes all that is needed to store: that is done when all statements of the round are computed."""
        for value in values_in(store.index):
            self.w.value(value)
        return store, self.w.value(store.value), self.w.index(store.index)

    def _store(self, stores: Sequence[Ready], shape: frozenset[str] | None) -> None:
        for ready in stores:
            self.w.store(*ready, shape)

    # --- what loops reduce --------------------------------------------------------------------------------------------
    def _reduction(self, reduce: Reduce, runs: bool) -> _Reduction:
        total = self.w.names.new(f"{reduce.name}_total")
        at = self.w.names.new(f"{reduce.name}_at") if reduce.kind in ("argmax", "argmin") else ""
        return _Reduction(reduce, reduction(reduce.kind, reduce.value.dtype), total, at, runs)

    def _masked(self, made: _Reduction) -> Known:
        """The values of this tile, with all its rounds; those of none are what changes nothing."""
        w, dtype = self.w, made.reduce.value.dtype
        found = w.value(made.reduce.value)
        text = f"{found.text}.to(tl.int32)" if dtype is torch.bool else found.text
        mask = w.dimensions["r"].mask
        shape = joined([found.shape, frozenset("r")])
        if mask:
            text = f"tl.where({mask}, {text}, {made.spec.start})"
        else:
            text = w.spread(Known(text, found.shape), shape)
        return Known(text, shape)

    def _place(self, loop: Loop) -> str:
        """The row-major position of each round."""
        w = self.w
        position = ix.linear_position(
            tuple(map(ix.index, loop.axes)), tuple(axis.size for axis in loop.axes if axis.size is not None)
        )
        return w.index(position).text

    def _reduce_tile(self, made: _Reduction, loop: Loop) -> None:
        """Of a loop that is one tile."""
        w, axis = self.w, len(self.w.order) - 1
        values = self._masked(made)
        if made.at:
            assert values.shape is not None
            places = f"tl.broadcast_to({_bracketed(self._place(loop))}, {w.extents(values.shape)})"
            self._argument(made, values.text, places, values.shape, loop)
            return
        if made.runs:
            w.line(f"{made.total} = {values.text}")
            values = Known(made.total, values.shape)
            running = w.names.new(f"{made.reduce.name}_running")
            scan = f"tl.associative_scan({made.total}, {axis}, {made.spec.combine})"
            w.line(f"{running} = {self._as_value(made, scan)}")
            w.running[made.reduce.name] = Known(running, values.shape, len(w.scopes) - 1)
        assert values.shape is not None
        self._result(made, values.text, values.shape)

    def _add_tile(self, made: _Reduction, loop: Loop) -> frozenset[str]:
        """Of a loop of several tiles: adds this one to the total, whose shape this is."""
        w, axis = self.w, len(self.w.order) - 1
        values = self._masked(made)
        shape, total, combine = values.shape, made.total, made.spec.combine
        assert shape is not None
        if made.at:
            w.line(f"{total} = tl.full({w.extents(shape)}, {made.spec.start}, {made.spec.held})", 0)
            w.line(f"{made.at} = tl.full({w.extents(shape)}, {self._no_place()}, {self.int})", 0)
            places = _bracketed(self._place(loop))
            if w.dimensions["r"].mask:
                places = f"tl.where({w.dimensions['r'].mask}, {places}, {self._no_place()})"
            places = f"tl.broadcast_to({places}, {w.extents(shape)}).to({self.int})"
            w.line(f"{total}, {made.at} = {combine}({total}, {made.at}, {values.text}, {places})")
            return shape
        if made.runs:
            shape = shape - {"r"}
            tile = w.names.new(f"{made.reduce.name}_tile")
            running = w.names.new(f"{made.reduce.name}_running")
            w.line(f"{total} = tl.full({w.extents(shape)}, {made.spec.start}, {made.spec.held})", 0)
            w.line(f"{tile} = {values.text}")
            scan = f"{combine}({total}, tl.associative_scan({tile}, {axis}, {combine}))"
            w.line(f"{running} = {self._as_value(made, scan)}")
            w.line(f"{total} = {combine}({total}, tl.reduce({tile}, {axis}, {combine}, keep_dims=True))")
            w.running[made.reduce.name] = Known(running, values.shape, len(w.scopes) - 1)
            return shape
        w.line(f"{total} = tl.full({w.extents(shape)}, {made.spec.start}, {made.spec.held})", 0)
        w.line(f"{total} = {combine}({total}, {values.text})")
        return shape

    def _finish(self, made: _Reduction, shape: frozenset[str], loop: Loop) -> None:
        """The result of a loop of several tiles."""
        w = self.w
        if made.at:
            self._argument(made, made.total, made.at, shape, loop)
        elif "r" in shape:
            self._result(made, made.total, shape)
        else:  # a scan: its total is over all rounds
            name = w.names.new(made.reduce.name)
            w.line(f"{name} = {self._as_value(made, made.total)}")
            w.results[made.reduce.name] = Known(name, shape)

    def _result(self, made: _Reduction, values: str, shape: frozenset[str]) -> None:
        w, axis = self.w, len(self.w.order) - 1
        name = w.names.new(made.reduce.name)
        text = f"tl.reduce({values}, {axis}, {made.spec.combine}, keep_dims=True)"
        w.line(f"{name} = {self._as_value(made, text)}")
        w.results[made.reduce.name] = Known(name, shape - {"r"})

    def _argument(self, made: _Reduction, values: str, places: str, shape: frozenset[str], loop: Loop) -> None:
        w, axis = self.w, len(self.w.order) - 1
        name, best = w.names.new(made.reduce.name), w.names.new(f"{made.reduce.name}_best")
        mask = w.dimensions["r"].mask
        if mask and self.laid_out == loop.axes:
            places = f"tl.where({mask}, {places}, {self._no_place()})"
        w.line(f"{best}, {name} = tl.reduce(({values}, {places}), {axis}, {made.spec.combine}, keep_dims=True)")
        found = f"{name}.to(tl.int64)"
        if not size_of(loop.axes).constant:  # of no rounds at all: 0
            found = f"tl.where({name} == {self._no_place()}, 0, {found})"
        w.line(f"{name} = {found}")
        w.results[made.reduce.name] = Known(name, shape - {"r"})

    def _no_place(self) -> int:
        return 2**63 - 1 if self.config.wide else INT32_MAX

    def _as_value(self, made: _Reduction, text: str) -> str:
        """What was added up, as the value that it is."""
        dtype = made.reduce.value.dtype
        if dtype is torch.bool:
            return f"{text} != 0"
        return ttype(dtype).round.format(text) if made.reduce.kind in ("sum", "prod", "logsumexp") else text


def _running(loop: Loop) -> set[str]:
    """The names of what this loop reads while it is reduced."""
    exprs = walk(*(value for statement in loop.body for value in reads(statement)))
    return {expr.name for expr in exprs if isinstance(expr, Running)}


def _bracketed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
