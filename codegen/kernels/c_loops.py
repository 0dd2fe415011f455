"""The loops of a kernel in C, in rows or in lanes, and what they reduce."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from codegen.kernels.axes import shifted
from codegen.kernels.c_chunks import KINDS, TOGETHER, fold, in_chunks, is_light, lanes, rests, together
from codegen.kernels.c_kept import kept_values, values_of_lanes
from codegen.kernels.c_ops import CReduction, ctype, keyed, reduction
from codegen.kernels.c_ranges import Range, ranges
from codegen.kernels.c_scope import Writer
from codegen.kernels.c_shape import lanes_apart, puts
from codegen.kernels.index import Symbol, symbols
from codegen.kernels.ir import (
    Expr,
    Kernel,
    Load,
    Loop,
    Op,
    Reduce,
    Running,
    Statement,
    Store,
    indices_in,
    reads,
    values_in,
    walk,
)
from codegen.kernels.ops import CHECKS

#: A sum of floats is one of sums of so many, which are added up as doubles.
BLOCK = 1024
#: The same where each lane has a sum of its own.
LANE_BLOCK = 16
#: Lanes in a tile, at most and at least; and in all tiles of a kernel, so that they stay in the first cache.
TILE, SMALL_TILE, LANES_HELD = 1024, 64, 4096
#: The place of an extreme value is looked for in so many at once.
SEARCHED = 256
#: What OpenMP calls sums and products of floats.
SIGNS = {"sum": "+", "prod": "*"}


@dataclass(frozen=True)
class _Accumulator:
    """What a Reduce adds up in: `total`, and where that is another one `part`, which is added to it now and then.
    `at`, of argmax and argmin in order: the position of the extreme value. `nan`, of extreme values of which `spec`
    forgets a NaN: whether there was one."""

    reduce: Reduce
    spec: CReduction
    wide: str
    total: str
    part: str
    at: str = ""
    nan: str = ""

    @property
    def is_parted(self) -> bool:
        return self.part != self.total

    @property
    def is_searched(self) -> bool:
        """Whether the place is looked for once the extreme value is known."""
        return self.reduce.kind in ("argmax", "argmin") and not self.at


class Loops:
    """Writes loops. `lane`: the axis that is the innermost loop of each, if the kernel is in lanes; `bounds`: its
    range, where no tile has one of its own; `size`: an axis's size as text."""

    def __init__(self, kernel: Kernel, w: Writer, lane: Symbol | None, size: Callable[[Symbol], str]) -> None:
        self.kernel, self.w, self.lane, self.size = kernel, w, lane, size
        self.bounds = "begin", "end"
        self.is_tiled = lane is not None and any(isinstance(s, Reduce) for loop in kernel.loops for s in loop.body)
        self.suffix = "" if lane is None else "[t]"
        reduced = sum(isinstance(s, Reduce) for loop in kernel.loops for s in loop.body)
        fitting = max(SMALL_TILE, min(TILE, LANES_HELD // max(reduced, 1) // SMALL_TILE * SMALL_TILE))
        self.tile = (0 if lane is None else lanes_apart(kernel, lane)) or fitting
        self.kept = {} if lane is not None else {value: w.names.new("kept") for value in kept_values(kernel)}
        self.filled: set[Expr] = set()
        self.filling: set[Expr] = set()
        #: Loads whose elements, as they lie in memory, were brought into the order of the lanes.
        self.staged: dict[Load, str] = {}

    def all(self) -> None:
        if self.lane is None and self.kept:
            for value, name in self.kept.items():
                (axis,) = next(loop.axes for loop in self.kernel.loops if value in walk(*_values(loop)))
                self.w.line(f"{ctype(value.dtype).held} {name}[{self.size(axis)}];")
        for loop in self.kernel.loops:
            made = [self._accumulator(s, loop) for s in loop.body if isinstance(s, Reduce)]
            for a in made:
                self._declare(a)
            if self.lane is None:
                self._in_rows(loop, made)
            else:
                self._in_lanes(loop, made)
            self._finish(made, loop)

    # --- rows ---------------------------------------------------------------------------------------------------------
    def _in_rows(self, loop: Loop, made: list[_Accumulator]) -> None:
        w, depth = self.w, len(self.w.scopes)
        position = self._position(made)
        for axis in loop.axes:
            self._guard(axis)
            if axis is not loop.axes[-1]:
                self._open_rounds(axis)
            elif lanes(loop) and not _is_in_order(loop):
                self._in_chunks(axis, loop, made)
            else:
                self._innermost(axis, loop, made, position)
        if not loop.axes:
            self._body(loop.body, made, position, None)
        while len(w.scopes) > depth:
            w.close()
        self.filled |= self.filling

    def _innermost(self, axis: Symbol, loop: Loop, made: list[_Accumulator], position: str) -> None:
        """The loop of a row that becomes vectors; with partial sums, in blocks."""
        w, in_order = self.w, _is_in_order(loop)
        parted = [a for a in made if a.is_parted]
        first, last = self._open_block(axis) if parted else ("0", self.size(axis))
        for a in parted:
            w.line(f"{a.spec.held} {a.part} = {a.spec.start};")
        scope = w.open("", simd=not in_order)
        name = w.bind(axis)
        scope.head = f"for (int64_t {name} = {first}; {name} < {last}; ++{name})"
        if not in_order:
            # integers may be combined in any order, and need no leave
            floats = [a for a in made if a.spec.held in ("float", "double")]
            scope.clauses.extend(f"reduction({SIGNS[a.reduce.kind]}:{a.part})" for a in floats)
        self._body(loop.body, made, position, axis)
        if position:
            w.line(f"++{position};")
        if parted:
            w.close()
            for a in parted:
                w.line(f"{a.total} += {a.part};")

    def _open_block(self, axis: Symbol) -> tuple[str, str]:
        """Opens the loop over the blocks of a row, or a scope for its only one: where that begins and ends."""
        w, size = self.w, self.size(axis)
        if axis.size is not None and axis.size.constant is not None and axis.size.constant <= BLOCK:
            w.open("")
            return "0", size
        first, last = w.names.new("block"), w.names.new("block_end")
        w.open(f"for (int64_t {first} = 0; {first} < {size}; {first} += {BLOCK})")
        w.line(f"const int64_t {last} = {size} - {first} < {BLOCK} ? {size} : {first} + {BLOCK};")
        return first, last

    def _in_chunks(self, axis: Symbol, loop: Loop, made: list[_Accumulator]) -> None:
        """The same loop where each lane of some vectors has a total: some vectors at once, one by one, what is left."""
        w, count, most = self.w, lanes(loop), together(loop)
        first, last = self._open_block(axis)
        nans = {a: w.names.new(f"{a.reduce.name}_nans") for a in made if KINDS[a.reduce.kind] != "sum"}
        parts = {a: [w.names.new(f"{a.reduce.name}_part") for _ in range(most)] for a in made}
        specs = {a: in_chunks(a.spec, a.reduce.kind) for a in made}
        starts: list[str] = []
        for a in made:
            w.line(f"{specs[a].held} {', '.join(f'{part}[{count}]' for part in parts[a])};")
            starts.extend(f"{part}[t] = {specs[a].start};" for part in parts[a])
        for a, array in nans.items():
            w.line(f"{a.wide} {array}[{count}];")
            starts.append(f"{array}[t] = 0;")
        self._for_lanes(starts, count)
        at = w.names.new("at")
        w.line(f"int64_t {at} = {first};")
        for vectors in rests(loop, most):
            head = f"for (; {last} - {at} >= {vectors} * {count}; {at} += {vectors} * {count})" if vectors else ""
            w.open(head)
            w.open(f"for (int64_t t = 0; t < {count if vectors else f'{last} - {at}'}; ++t)", simd=True)
            here = {a: w.names.new("nan") for a in nans}
            for a, name in here.items():
                w.line(f"{a.wide} {name} = 0;")
            for number in range(vectors or 1):
                w.open("")
                name = w.bind(axis)
                w.line(f"const int64_t {name} = {at} + {number} * {count} + t;")
                chunk = [
                    replace(a, spec=specs[a], part=f"{parts[a][number]}[t]", nan=here.get(a, "")) for a in made
                ]  # fmt: skip
                self._body(loop.body, chunk, "", axis)
                w.close()
            for a, name in here.items():
                w.line(f"{nans[a]}[t] |= {name};")
            w.close()
            w.close()
        for a in made:
            folds, part = fold(a.reduce.kind, [f"{part}[t]" for part in parts[a]]), parts[a][0]
            if a not in nans:
                self._for_lanes(folds, count)
                w.line(f"{a.total} += sum_lanes_{ctype(a.reduce.dtype).short}({part});")
                continue
            short = ctype(a.reduce.value.dtype).short  # all bits of a NaN are set, without a branch
            key = a.spec.key.format(f"{short}_of_bits(bits_of_{short}({part}[t]) | -{nans[a]}[t])")
            folds += [f"const {a.wide} key = {key};", f"{a.total} = {a.spec.combine.format(a.total, 'key')};"]
            self._for_lanes(folds, count)

    def _search(self, a: _Accumulator, loop: Loop) -> str:
        """Where the extreme value is first."""
        w, (axis,) = self.w, loop.axes
        at, size = w.names.new(f"{a.reduce.name}_at"), self.size(axis)
        w.line(f"int64_t {at} = 0;")
        block, last, hit = w.names.new("block"), w.names.new("block_end"), w.names.new("hit")
        w.open(f"for (int64_t {block} = 0; {block} < {size}; {block} += {SEARCHED})")
        w.line(f"const int64_t {last} = {size} - {block} < {SEARCHED} ? {size} : {block} + {SEARCHED};")
        w.line(f"int {hit} = 0;")
        for simd in (True, False):
            if not simd:
                w.open(f"if ({hit})")
            scope = w.open("", simd=simd)
            name = w.bind(axis)
            scope.head = f"for (int64_t {name} = {block}; {name} < {last}; ++{name})"
            found = f"{a.spec.key.format(w.value(a.reduce.value))} == {a.total}"
            w.line(f"{hit} |= {found};" if simd else f"if ({found}) {{ {at} = {name}; break; }}")
            w.close()
        w.line("break;")
        w.close()
        w.close()
        return at

    # --- lanes --------------------------------------------------------------------------------------------------------
    def _in_lanes(self, loop: Loop, made: list[_Accumulator]) -> None:
        w, depth = self.w, len(self.w.scopes)
        position, parted = self._position(made), [a for a in made if a.is_parted]
        rounds = w.names.new("rounds") if parted else ""
        if parted:
            w.line(f"int64_t {rounds} = 0;")
        for axis in loop.axes:
            self._guard(axis)
        if loop.axes and self.is_tiled and not self.staged:
            self._once(loop)
        for axis in loop.axes[:-1]:
            self._open_rounds(axis)
        if not loop.axes:
            self._each_round(loop.body, made, position)
        else:
            inner = loop.axes[-1]
            for start, stop, together in self._passes(inner, loop):
                self._open_rounds(inner, start, stop, together)
                bodies = [shifted(statement, inner, n) for n in range(together) for statement in loop.body]
                self._each_round(bodies, made, position)
                if parted:
                    adds = " ".join(f"{a.total}[t] += {a.part}[t]; {a.part}[t] = 0;" for a in parted)
                    w.line(f"{rounds} += {together};")
                    w.open(f"if ({rounds} >= {LANE_BLOCK})")
                    w.line(f"{rounds} = 0;")
                    self._each_lane([adds])
                    w.close()
                w.close()
        while len(w.scopes) > depth:
            w.close()
        w.arrays.clear()

    def _once(self, loop: Loop) -> None:
        """What the rounds of a loop have in common, at some cost, is computed once for each lane."""
        assert self.lane is not None
        w = self.w
        for value in values_of_lanes(loop, self.lane, w.written):
            array = w.names.new("fixed")
            w.line(f"{ctype(value.dtype).held} {array}[{self.tile}];")
            self._open_lanes()
            w.line(f"{array}[t] = {w.value(value)};")
            w.close()
            w.arrays[value] = f"{array}[t]"

    def _passes(self, axis: Symbol, loop: Loop) -> list[tuple[str, str, int]]:
        """Ranges of a loop, and how many rounds of it go together."""
        size = self.size(axis)
        assert axis.size is not None
        constant = axis.size.constant
        if not is_light(loop) or (constant is not None and constant < TOGETHER):
            return [("0", size, 1)]
        rest = f"{size} - {size} % {TOGETHER}"
        if constant is not None:
            rest = str(constant - constant % TOGETHER)
        passes = [("0", rest, TOGETHER), (rest, size, 1)]
        return passes[:1] if rest == size else passes

    def _each_round(self, body: Sequence[Statement], made: list[_Accumulator], position: str) -> None:
        assert self.lane is not None
        checks = [value for value in _checks(body) if self.lane not in _symbols(value)]
        if checks:
            for value in checks:
                self.w.value(value)
            self.w.open("if (!bad)", guard=True)
        if self.is_tiled:
            self._open_lanes()
            self._body(body, made, position, None)
            self.w.close()
        else:
            self._in_ranges(ranges(body, self.lane), self.lane)
        if checks:
            self.w.close()
        if position:
            self.w.line(f"++{position};")

    def _in_ranges(self, parts: Sequence[Range], lane: Symbol) -> None:
        """What may be read in some rounds only is not read before them: each range is behind a guard."""
        w, (first, last) = self.w, self.bounds
        for part in parts:
            stop = last
            if part.stop is not None:
                stop = w.names.new(f"{lane.name}_change")
                w.line(f"const int64_t {stop} = lower({last}, upper({first}, {w.index(part.stop)}));")
            if len(parts) > 1:
                w.open(f"if ({first} < {stop})", guard=True)
            heads = ("",) if part.row is None else (f"if ({w.value(part.row)})", "else")
            for head, body in zip(heads, (part.body, part.other), strict=False):
                if head:
                    w.open(head, guard=True)
                self._open_lanes(first, stop)
                self._body(body, [], "", None)
                w.close()
                if head:
                    w.close()
            if len(parts) > 1:
                w.close()
            first = stop

    def _open_lanes(self, first: str = "", last: str = "") -> None:
        """The loop over the lanes: those of the tile, or from `first` to `last`."""
        assert self.lane is not None
        scope = self.w.open("", simd=True)
        name = self.w.bind(self.lane)
        if self.is_tiled:
            scope.head = "for (int64_t t = 0; t < lanes; ++t)"
            self.w.line(f"const int64_t {name} = tile + t;")
            for load, text in self.staged.items():
                ct, value = ctype(load.dtype), self.w.names.new("v")
                self.w.line(f"const {ct.held} {value} = {ct.load.format(text)};")
                self.w.scopes[-1].known[load] = value
        else:
            scope.head = f"for (int64_t {name} = {first}; {name} < {last}; ++{name})"

    def _each_lane(self, texts: list[str]) -> None:
        """Statements for each lane, or for the one row."""
        if self.lane is None:
            for text in texts:
                self.w.line(text)
        else:
            self._for_lanes(texts, "lanes")

    def _for_lanes(self, texts: list[str], count: str) -> None:
        if texts:
            self.w.line("#pragma omp simd")
            self.w.line(f"for (int64_t t = 0; t < {count}; ++t) {{ {' '.join(texts)} }}")

    # --- both ---------------------------------------------------------------------------------------------------------
    def _guard(self, axis: Symbol) -> None:
        """A block that runs only if the loop over `axis` has rounds, where that is not known."""
        if axis.size is not None and not axis.size.constant:
            self.w.open(f"if ({self.size(axis)} > 0)", guard=True)

    def _open_rounds(self, axis: Symbol, start: str = "0", stop: str = "", step: int = 1) -> None:
        scope = self.w.open("")
        name = self.w.bind(axis)
        more = f"++{name}" if step == 1 else f"{name} += {step}"
        scope.head = f"for (int64_t {name} = {start}; {name} < {stop or self.size(axis)}; {more})"

    def _position(self, made: list[_Accumulator]) -> str:
        if not any(a.at for a in made):
            return ""
        name = self.w.names.new("position")
        self.w.line(f"int64_t {name} = 0;")
        return name

    def _accumulator(self, reduce: Reduce, loop: Loop) -> _Accumulator:
        kind, dtype = reduce.kind, reduce.value.dtype
        total = self.w.names.new(f"{reduce.name}_total")
        in_vectors = self.lane is None and bool(loop.axes) and not _is_in_order(loop)
        plain = kind.removeprefix("arg")
        if kind in ("argmax", "argmin"):
            if not in_vectors:
                spec = reduction(plain, dtype)
                return _Accumulator(reduce, spec, spec.held, total, total, self.w.names.new(f"{reduce.name}_at"))
            spec = reduction(plain, dtype)
            if dtype.is_floating_point:
                spec = keyed(plain, dtype)
                spec = replace(spec, key=spec.key.format("({} + 0)"))  # -0.0 is no less than 0.0
            return _Accumulator(reduce, spec, spec.held, total, total)
        if kind == "logsumexp":
            spec = CReduction("double", "-__builtin_inf()", "logaddexp_f64({0}, {1})")
            return _Accumulator(reduce, spec, "double", total, total)
        as_keys = (in_vectors or self.lane is not None) and kind in ("max", "min") and dtype.is_floating_point
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
        w.line(f"{a.wide} {a.total}[{self.tile}];")
        starts = [f"{a.total}[t] = {a.spec.start};"]
        if a.is_parted:
            w.line(f"{a.spec.held} {a.part}[{self.tile}];")
            starts.append(f"{a.part}[t] = 0;")
        if a.at:
            w.line(f"int64_t {a.at}[{self.tile}];")
            starts.append(f"{a.at}[t] = 0;")
        self._each_lane(starts)

    def _finish(self, made: list[_Accumulator], loop: Loop) -> None:
        """The results, known from here on."""
        w = self.w
        for a in made:
            ct = ctype(a.reduce.dtype)
            total = f"{a.at or a.total}{self.suffix}"
            if a.is_searched:
                total = self._search(a, loop)
            elif a.is_parted and self.lane is not None:
                total = f"({total} + {a.part}[t])"
            else:
                total = a.spec.value.format(total)
            value, name = ct.round.format(f"({ct.held}){total}"), w.names.new(a.reduce.name)
            if self.lane is None:
                w.line(f"const {ct.held} {name} = {value};")
                w.results[a.reduce.name] = name, len(w.scopes) - 1
            else:
                w.line(f"{ct.held} {name}[{self.tile}];")
                self._each_lane([f"{name}[t] = {value};"])
                w.results[a.reduce.name] = f"{name}[t]", None

    # --- statements ---------------------------------------------------------------------------------------------------
    def _body(
        self,
        body: Sequence[Statement],
        made: list[_Accumulator],
        position: str,
        axis: Symbol | None,
    ) -> None:
        known = {a.reduce.name: a for a in made}
        if axis is not None:
            self._kept(body, axis)
        stores = []
        for statement in body:
            if isinstance(statement, Store):
                stores.append((statement.buffer, self._stored(statement)))
            else:
                self._reduce(statement, known[statement.name], position)
        for _, line in stores:
            self.w.line(line)
        for buffer in {buffer for buffer, _ in stores}:
            self.w.forget(buffer)

    def _kept(self, body: Sequence[Statement], axis: Symbol) -> None:
        """Values of the row that an earlier loop has kept are known; those that later loops need are kept."""
        w, name = self.w, self.w.scopes[-1].bound[axis]
        needed = set(walk(*(value for statement in body for value in reads(statement))))
        for value, array in self.kept.items():
            if value not in needed:
                continue
            if value in self.filled:
                text = w.names.new("v")
                w.line(f"const {ctype(value.dtype).held} {text} = {array}[{name}];")
                w.scopes[-1].known[value] = text
            else:
                w.line(f"{array}[{name}] = {w.value(value)};")
                self.filling.add(value)

    def _stored(self, store: Store) -> str:
        """The line that stores, all that it needs being said before."""
        w = self.w
        for value in values_in(store.index):
            w.value(value)
        stored = ctype(store.value.dtype).store.format(w.value(store.value))
        place = f"{w.buffers[store.buffer]}[{w.index(store.index)}]"
        if store.since is not None:
            stored = f"{w.index(store.since)} == 0 ? {stored} : {place} + {stored}"
        checks = _checks([store])
        if checks and (self.lane is None or any(self.lane in _symbols(value) for value in checks)):
            return f"if (!bad) {place} = {stored};"
        return f"{place} = {stored};"

    def _reduce(self, reduce: Reduce, a: _Accumulator, position: str) -> None:
        w, new = self.w, self.w.value(reduce.value)
        into, old = a.part + self.suffix, w.names.new("old")
        # what was there is read for itself: else the compiler writes it only where it changes, which is no vector's way
        w.line(f"const {a.spec.held if a.is_parted else a.wide} {old} = {into};")
        if a.nan:
            w.line(f"{a.nan} |= {new} != {new};")
        elif a.at:
            sign = ">" if reduce.kind == "argmax" else "<"
            nan = f" | (({new} != {new}) & ({old} == {old}))" if reduce.value.dtype.is_floating_point else ""
            taken, before = w.names.new("taken"), w.names.new("before")
            w.line(f"const int64_t {before} = {a.at}{self.suffix};")
            w.line(f"const _Bool {taken} = ({new} {sign} {old}){nan};")
            w.line(f"{into} = {taken} ? {new} : {old};")
            w.line(f"{a.at}{self.suffix} = {taken} ? {position} : {before};")
            return
        if a.spec.key != "{}":
            key = w.names.new("key")
            w.line(f"const {a.spec.held} {key} = {a.spec.key.format(new)};")
            new = key
        w.line(f"{into} = {a.spec.combine.format(old, new)};")
        ct = ctype(reduce.dtype)
        w.running[reduce.name] = ct.round.format(f"({ct.held}){a.spec.value.format(into)}")


def _checks(body: Sequence[Statement]) -> list[Expr]:
    """What may find out that an element is none of the tensor's. From then on nothing is stored into what was there
    before, as in eager code."""
    exprs = walk(*(value for store in puts(body) for value in reads(store)))
    return [expr for expr in exprs if isinstance(expr, Op) and expr.name in CHECKS]


def _symbols(value: Expr) -> set[Symbol]:
    return {symbol for expr in walk(value) if (at := indices_in(expr)) is not None for symbol in symbols(at)}


def _values(loop: Loop) -> list[Expr]:
    return [value for statement in loop.body for value in reads(statement)]


def _is_in_order(loop: Loop) -> bool:
    """Whether the rounds of a row have to run one after the other."""
    if puts(loop.body):
        return True
    kinds = {s.kind for s in loop.body if isinstance(s, Reduce)}
    placed = bool(kinds & {"argmax", "argmin"})
    if "logsumexp" in kinds or any(isinstance(expr, Running) for expr in walk(*_values(loop))):
        return True
    # what is looked for later must be there still
    return placed and (len(loop.axes) != 1 or any(isinstance(s, Store) for s in loop.body))


def _runs(loop: Loop, name: str) -> bool:
    return any(isinstance(expr, Running) and expr.name == name for expr in walk(*_values(loop)))


def _rounds(loop: Loop) -> float:
    sizes = [math.inf if axis.size is None or axis.size.constant is None else axis.size.constant for axis in loop.axes]
    return math.prod(sizes)
