"""Loops in C: rows, columns, tiles, masks, gathers, scans, sizes of 0, and kernels drawn at random."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.axes import simplify
from codegen.kernels.check import check
from codegen.kernels.evaluate import run
from codegen.kernels.index import Index, Symbol, index
from codegen.kernels.ir import Buffer, Expr, Kernel, Loop, Reduce, Store, load, op, result, running
from codegen.kernels.ops import SCANS
from tests.codegen.kernels.c_runs import compare, compile_unit
from tests.codegen.kernels.test_ir import _softmax

F, B, L, BF, D = torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.float64
N, M = Symbol("N"), Symbol("M")
I, J = Symbol("i", index(N)), Symbol("j", index(M))
i, j, n, m = map(index, (I, J, N, M))


def axis(name: str, size: ix.Integer) -> tuple[Symbol, Index]:
    symbol = Symbol(name, index(size))
    return symbol, index(symbol)


def buffers(**given: tuple[torch.dtype, ix.Integer, str]) -> tuple[Buffer, ...]:
    return tuple(Buffer(name, dtype, index(size), role) for name, (dtype, size, role) in given.items())


def to(value: Expr, dtype: torch.dtype) -> Expr:
    return op("to", dtype, value)


def lit(value: float, dtype: torch.dtype = F) -> Expr:
    return ir.literal(value, dtype)


def add(a: Expr, b: Expr) -> Expr:
    return op("add", a.dtype, a, b)


def mul(a: Expr, b: Expr) -> Expr:
    return op("mul", a.dtype, a, b)


def layernorm(rows: ix.Integer, columns: ix.Integer, dtype: torch.dtype = F) -> Kernel:
    (P, p), (Q, q) = axis("p", rows), axis("q", columns)
    x = load("x", p * columns + q, dtype)
    wide = x if dtype is F else to(x, F)
    count = to(ir.position(index(columns)), F)
    mean = op("div", F, result("total", F), count)
    centred = op("sub", F, wide, mean)
    scale = op("rsqrt", F, add(op("div", F, result("square", F), count), lit(1e-5)))
    out = add(mul(mul(centred, scale), load("w", q, F)), load("b", q, F))
    loops = (
        Loop((Q,), (Reduce("total", "sum", wide),)),
        Loop((Q,), (Reduce("square", "sum", mul(centred, centred)),)),
        Loop((Q,), (Store("out", p * columns + q, out if dtype is F else to(out, dtype)),)),
        Loop((), (Store("mean", p, mean), Store("scale", p, scale))),
    )
    sizes = tuple(size for size in (rows, columns) if isinstance(size, Index))
    size = index(rows) * columns
    given = buffers(x=(dtype, size, "in"), w=(F, columns, "in"), b=(F, columns, "in"), out=(dtype, size, "out"),
                    mean=(F, rows, "out"), scale=(F, rows, "out"))  # fmt: skip
    return Kernel("layernorm", (P,), loops, given, tuple(s.terms[0][0][0] for s in sizes))  # type: ignore[misc]


def column_kernel(rows: ix.Integer, columns: ix.Integer) -> Kernel:
    """The gradient of a scale and of a bias."""
    (P, p), (Q, q) = axis("p", rows), axis("q", columns)
    grad, x = load("grad", p * columns + q, F), load("x", p * columns + q, F)
    shifted = op("sub", F, x, load("mean", p, F))
    loops = (
        Loop((P,), (Reduce("bias", "sum", grad), Reduce("scale", "sum", mul(grad, mul(shifted, load("w", q, F)))))),
        Loop((), (Store("out", q, result("bias", F)), Store("out2", q, op("sqrt", F, op("abs", F, result("scale", F)))))),
    )
    size = index(rows) * columns
    given = buffers(grad=(F, size, "in"), x=(F, size, "in"), mean=(F, rows, "in"), w=(F, columns, "in"),
                    out=(F, columns, "out"), out2=(F, columns, "out"))  # fmt: skip
    sizes = tuple(s.terms[0][0][0] for s in (rows, columns) if isinstance(s, Index))
    return Kernel("columns", (Q,), loops, given, sizes)  # type: ignore[arg-type]


def pointwise(out_axes: tuple[Symbol, ...], value: Expr, at: Index, given: tuple[Buffer, ...], *sizes: Symbol) -> Kernel:
    return Kernel("pointwise", out_axes, (Loop((), (Store("out", at, value),)),), given, sizes)


def batch_norm_gradient(rows: ix.Integer) -> Kernel:
    """Sums over columns of what their own variances scale; of a mean that was reduced before."""
    (P, p), (Q, q) = axis("p", rows), axis("q", 70)
    x = load("x", p * 70 + q, F)
    mean = op("div", F, result("total", F), to(ir.position(index(rows)), F))
    scale = op("rsqrt", F, add(load("variance", q, F), lit(1e-5)))
    loops = (
        Loop((P,), (Reduce("total", "sum", x),)),
        Loop((P,), (Reduce("r", "sum", mul(op("sub", F, x, mean), scale)), Reduce("s", "max", mul(x, op("exp", F, mean))))),
        Loop((), (Store("out", q, add(result("r", F), result("s", F))),)),
    )
    given = buffers(x=(F, index(rows) * 70, "in"), variance=(F, 70, "in"), out=(F, 70, "out"))
    return Kernel("batch_norm", (Q,), loops, given, (N,) if isinstance(rows, Index) else ())


def many_columns() -> Kernel:
    """More sums than fit into the first cache, for more lanes than a tile has then."""
    (P, p), (Q, q) = axis("p", 20), axis("q", 500)
    x = load("x", p * 500 + q, F)
    sums = tuple(Reduce(f"r{k}", "sum", mul(x, lit(k))) for k in range(30))
    stores = tuple(Store("out", q * 30 + k, result(f"r{k}", F)) for k in range(30))
    return Kernel("many", (Q,), (Loop((P,), sums), Loop((), stores)),
                  buffers(x=(F, 10000, "in"), out=(F, 15000, "out")))  # fmt: skip


def cat_kernel() -> Kernel:
    """Two vectors after each other: neither may be read outside."""
    (P, p) = axis("p", n + m)
    first = op("lt", B, ir.position(p), ir.position(n))
    a, b = load("a", p, F, first), load("b", p - n, F, op("not", B, first))
    return pointwise(
        (P,), op("where", F, first, a, b), p, buffers(a=(F, n, "in"), b=(F, m, "in"), out=(F, n + m, "out")), N, M
    )


def conditional() -> Kernel:
    """The elements, none of which may be negative."""
    A, a = axis("a", N)
    x = load("x", a, F)
    value = op("where", F, op("check", torch.bool, op("ge", torch.bool, x, lit(0.0, F))), x, lit(0.0, F))
    return pointwise((A,), value, a, buffers(x=(F, n, "in"), out=(F, n, "out")), N)


def embedding(name: str) -> Kernel:
    (Q, q) = axis("q", 24)
    at = op(name, L, load("at", i, L), ir.position(m))
    value = load("w", index(ix.Value(at, m)) * 24 + q, F)
    given = buffers(w=(F, m * 24, "in"), at=(L, n, "in"), out=(F, n * 24, "out"))
    return pointwise((I, Q), value, i * 24 + q, given, N, M)


def batch_norm_sums() -> Kernel:
    (A, a), (C, c), (H, h) = axis("a", 6), axis("c", 5), axis("h", 49)
    loop = Loop((A, H), (Reduce("r", "sum", load("x", a * 245 + c * 49 + h, F)),))
    return Kernel("batch", (C,), (loop, Loop((), (Store("out", c, result("r", F)),))),
                  buffers(x=(F, 6 * 245, "in"), out=(F, 5, "out")))  # fmt: skip


def max_pool() -> Kernel:
    (P, p), (Q, q), (U, u), (V, v) = axis("p", 10), axis("q", 30), axis("u", 2), axis("v", 2)
    loop = Loop((U, V), (Reduce("r", "max", load("x", (p * 2 + u) * 60 + q * 2 + v, F)),
                         Reduce("w", "argmax", load("x", (p * 2 + u) * 60 + q * 2 + v, F))))  # fmt: skip
    stores = Store("out", p * 30 + q, result("r", F)), Store("at", p * 30 + q, result("w", L))
    return Kernel("pool", (P, Q), (loop, Loop((), stores)),
                  buffers(x=(F, 1200, "in"), out=(F, 300, "out"), at=(L, 300, "out")))  # fmt: skip


def cross_entropy() -> Kernel:
    x = load("x", i * m + j, F)
    picked = load("x", i * m + index(ix.Value(op("check_index", L, load("at", i, L), ir.position(m)), m)), F)
    value = op("sub", F, result("r", F), picked)
    return Kernel("cross_entropy", (I,), (Loop((J,), (Reduce("r", "logsumexp", x),)), Loop((), (Store("out", i, value),))),
                  buffers(x=(F, n * m, "in"), at=(L, n, "in"), out=(F, n, "out")), (N, M))  # fmt: skip


def optimizer() -> Kernel:
    """In place, with numbers that each call gives."""
    rate = ir.scalar("rate", F)
    grad, moment = load("grad", j, F), load("moment", j, F)
    new = add(mul(moment, lit(0.9)), grad)
    stores = Store("moment", j, new), Store("w", j, op("sub", F, load("w", j, F), mul(rate, new)))
    again = Store("moment", j, mul(load("moment", j, F), lit(2.0)))
    return Kernel("sgd", (J,), (Loop((), (*stores, again)),),
                  buffers(grad=(F, m, "in"), moment=(F, m, "inout"), w=(F, m, "inout")), (M,), (rate,))  # fmt: skip


def in_place_row() -> Kernel:
    """A row that is read before, and after, it is written."""
    x = load("x", i * m + j, F)
    loops = (
        Loop((J,), (Reduce("r", "max", x),)),
        Loop((J,), (Store("x", i * m + j, op("exp", F, op("sub", F, x, result("r", F)))),)),
        Loop((J,), (Reduce("s", "sum", x),)),
        Loop((J,), (Store("x", i * m + j, op("div", F, x, result("s", F))),)),
    )
    return Kernel("in_place", (I,), loops, buffers(x=(F, n * m, "inout")), (N, M))


def transposed(rows: ix.Integer, columns: ix.Integer, dtype: torch.dtype = F) -> Kernel:
    (P, p), (Q, q), (A, a) = axis("p", rows), axis("q", columns), axis("a", 3)
    size, plane = index(rows) * columns * 3, index(rows) * columns
    value = add(load("x", a * plane + q * rows + p, dtype), load("y", a * plane + p * columns + q, dtype))
    given = buffers(x=(dtype, size, "in"), y=(dtype, size, "in"), out=(dtype, size, "out"))
    sizes = tuple(s.terms[0][0][0] for s in (rows, columns) if isinstance(s, Index))
    return pointwise((A, P, Q), value, a * plane + p * columns + q, given, *sizes)  # type: ignore[arg-type]


def many_transposed(count: int, dtype: torch.dtype = F) -> Kernel:
    """More than the cache has room for in blocks of the usual size."""
    (P, p), (Q, q) = axis("p", 48), axis("q", 40)
    value = load("y", p * 40 + q, dtype)
    for number in range(count):
        value = add(value, load(f"x{number}", q * 48 + p, dtype))
    given = {f"x{number}": (dtype, 48 * 40, "in") for number in range(count)}
    return pointwise((P, Q), value, p * 40 + q, buffers(**given, y=(dtype, 48 * 40, "in"), out=(dtype, 48 * 40, "out")))


def heads() -> Kernel:
    """(8, 5 * 16) as (5, 8, 16): an axis is divided."""
    (H, h), (P, p), (Q, q) = axis("h", 5), axis("p", 8), axis("q", 16)
    (T, t) = axis("t", 640)
    value = load("x", (t % 128) // 16 * 80 + t // 128 * 16 + t % 16, F)
    return pointwise((T,), value, t, buffers(x=(F, 640, "in"), out=(F, 640, "out")))


def empty_loop_reads() -> Kernel:
    """Reads a row of a buffer without elements: a loop of no rounds reads nothing."""
    value = add(load("x", i * m, F), load("y", j, F))
    return Kernel("none", (I,), (Loop((J,), (Reduce("r", "sum", value),)), Loop((), (Store("out", i, result("r", F)),))),
                  buffers(x=(F, n * m, "in"), y=(F, m, "in"), out=(F, n, "out")), (N, M))  # fmt: skip


def bools() -> Kernel:
    x = load("x", j, F)
    small = op("and", B, op("lt", B, x, lit(0.5)), op("not", B, load("mask", j, B)))
    stores = Store("flag", j, small), Store("out", j, op("where", F, small, x, lit(-0.0)))
    return Kernel("bools", (J,), (Loop((), stores),),
                  buffers(x=(F, m, "in"), mask=(B, m, "in"), flag=(B, m, "out"), out=(F, m, "out")), (M,))  # fmt: skip


def ramp() -> Kernel:
    value = add(to(ir.position(j * 3 - 5), D), to(ir.scalar("start", L), D))
    return Kernel("ramp", (J,), (Loop((), (Store("out", j, value),)),), buffers(out=(D, m, "out")), (M,), (ir.scalar("start", L),))


def whole_sum() -> Kernel:
    loops = Loop((J,), (Reduce("r", "sum", load("x", j, F)),)), Loop((), (Store("out", index(0), result("r", F)),))
    return Kernel("whole", (), loops, buffers(x=(F, m, "in"), out=(F, 1, "out")), (M,))


def scan_of_two() -> Kernel:
    x = load("x", i * m + j, F)
    loop = Loop((J,), (Reduce("s", "sum", x), Reduce("t", "max", running("s", F)),
                       Store("out", i * m + j, add(running("s", F), running("t", F)))))  # fmt: skip
    return Kernel("scan", (I,), (loop,), buffers(x=(F, n * m, "in"), out=(F, n * m, "out")), (N, M))


#: What, its sizes, the numbers it is given.
KERNELS = {
    "softmax": (_softmax(), [(5, 7), (3, 9000), (64, 64), (4, 0), (0, 3), (1, 1)]),
    "layernorm": (layernorm(n, m), [(5, 7), (3, 9000), (64, 768)]),
    "layernorm of known sizes": (layernorm(8, 768), [()]),
    **{f"layernorm of {size}": (layernorm(3, size), [()]) for size in (15, 16, 48, 80, 100, 300, 4096, 4200)},
    "layernorm of bfloat16": (layernorm(8, 768, BF), [()]),
    "columns": (column_kernel(n, m), [(5, 7), (1000, 33), (30, 1100), (0, 5)]),
    "columns of known sizes": (column_kernel(100, 768), [()]),
    "columns of many rows": (column_kernel(3000, 20), [()]),
    "cat": (cat_kernel(), [(5, 7), (100, 1000), (0, 9), (9, 0)]),
    "embedding, checked": (embedding("check_index"), [(5, 7), (100, 3)]),
    "embedding, wrapped": (embedding("wrap_index"), [(5, 7), (100, 3)]),
    "batch norm": (batch_norm_sums(), [()]),
    "many columns": (many_columns(), [()]),
    "batch norm's gradient": (batch_norm_gradient(n), [(50,), (0,), (1,)]),
    "batch norm's gradient, known sizes": (batch_norm_gradient(30), [()]),
    "max pool": (max_pool(), [()]),
    "cross entropy": (cross_entropy(), [(5, 7), (40, 3000)]),
    "optimizer": (optimizer(), [(5,), (1001,)]),
    "in place": (in_place_row(), [(5, 7), (40, 1000)]),
    "transposed": (transposed(n, m), [(5, 7), (40, 100), (17, 16), (1, 64), (64, 1)]),
    "transposed, known sizes": (transposed(48, 40), [()]),
    "transposed bfloat16": (transposed(48, 40, BF), [()]),
    "transposed float64": (transposed(48, 40, D), [()]),
    "transposed int8": (transposed(48, 40, torch.int8), [()]),
    "five transposed float64": (many_transposed(5, D), [()]),
    "nine transposed": (many_transposed(9), [()]),
    "heads": (heads(), [()]),
    "empty loop": (empty_loop_reads(), [(5, 0), (5, 3)]),
    "bools": (bools(), [(5,), (1000,)]),
    "ramp": (ramp(), [(5,), (1000,)]),
    "whole sum": (whole_sum(), [(0,), (1,), (100000,)]),
    "scan of two": (scan_of_two(), [(5, 7), (40, 100), (3, 0)]),
}


def filled(kernel: Kernel, sizes: tuple[int, ...], seed: int = 0) -> dict[str, torch.Tensor]:
    """Numbers for its buffers; integers are rows of an embedding."""
    g = torch.Generator().manual_seed(seed)
    known = dict(zip(kernel.sizes, sizes, strict=True))
    found = {}
    for buffer in kernel.buffers:
        count = ix.evaluate(buffer.size, known.__getitem__)
        if buffer.dtype is B:
            found[buffer.name] = torch.rand(count, generator=g) < 0.5
        elif buffer.dtype.is_floating_point:
            found[buffer.name] = torch.randn(count, generator=g).to(buffer.dtype)
            found[buffer.name] = found[buffer.name].abs() if buffer.name == "variance" else found[buffer.name]
        else:
            found[buffer.name] = torch.randint(0, 3, (count,), generator=g).to(buffer.dtype)
    return found


CLOSE = {"many columns": (1e-4, 1e-4), "batch norm's gradient": (1e-4, 1e-4), "batch norm's gradient, known sizes": (1e-4, 1e-4), "columns of known sizes": (1e-4, 1e-4), "columns of many rows": (1e-4, 1e-4), "columns": (1e-4, 1e-4), "in place": (1e-5, 1e-6), "whole sum": (1e-5, 1e-4),
         "layernorm": (1e-5, 1e-5), "scan of two": (1e-5, 1e-5)}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("what", KERNELS)
def test_kernel(what: str) -> None:
    kernel, sizes = KERNELS[what]
    for given in sizes:
        scalars = [3 if scalar.dtype is L else 0.25 for scalar in kernel.scalars]
        compare(kernel, filled(kernel, given), given, scalars, close=CLOSE.get(what))


def extremes(columns: ix.Integer, dtype: torch.dtype) -> Kernel:
    """The largest, the smallest, where they are, and a sum, of each of 40 rows."""
    (P, p), (Q, q) = axis("p", 40), axis("q", columns)
    kinds, x = ("max", "argmax", "min", "argmin", "sum"), load("x", p * columns + q, dtype)
    reduced = tuple(Reduce(kind, kind, x) for kind in kinds)
    loops = (Loop((Q,), reduced), Loop((), tuple(Store(f"o{r.kind}", p, result(r.kind, r.dtype)) for r in reduced)))
    given = buffers(x=(dtype, index(columns) * 40, "in"), **{f"o{r.kind}": (r.dtype, 40, "out") for r in reduced})
    return Kernel("extremes", (P,), loops, given, (M,) if columns is m else ())


@pytest.mark.parametrize("dtype", [F, D], ids=str)
@pytest.mark.parametrize("columns, is_known", [(16, True), (48, True), (80, True), (300, True), (7, False), (150, False)])
def test_a_nan_anywhere_in_a_row(columns: int, is_known: bool, dtype: torch.dtype) -> None:
    kernel = extremes(columns if is_known else m, dtype)
    given = filled(kernel, () if is_known else (columns,))
    rows = given["x"].view(40, columns)
    for row in range(1, 40):
        rows[row, row * columns // 40] = float("nan")
    rows[20:22] = -float("inf")
    compare(kernel, given, () if is_known else (columns,), close=(1e-5, 1e-5))


#: What is true for places from 2 on, and what for those below.
BEYOND = {
    "at least zero": lambda p: op("ge", B, ir.position(p - 2), ir.position(index(0))),
    "above minus one": lambda p: op("gt", B, ir.position(p - 2), lit(-1, L)),
    "zero at most": lambda p: op("le", B, lit(0, L), ir.position(p - 2)),
    "in 32 bits": lambda p: op("ge", B, to(ir.position(p - 2), torch.int32), lit(0, torch.int32)),
}
BELOW = {
    "less than zero": lambda p: op("lt", B, ir.position(p - 2), ir.position(index(0))),
    "minus one at least": lambda p: op("ge", B, lit(-1, L), ir.position(p - 2)),
    "in 8 bits": lambda p: op("lt", B, to(ir.position(p - 2), torch.int8), lit(0, torch.int8)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [5, 7, 12, 30])
@pytest.mark.parametrize("where", [*BEYOND, *BELOW])
def test_nothing_is_read_behind_a_mask_of_signs(where: str, length: int) -> None:
    """gcc 12 has one instruction for a choice by signs, which reads both sides."""
    (A, a), (P, p) = axis("a", N), axis("p", length)
    is_beyond = where in BEYOND
    mask = (BEYOND if is_beyond else BELOW)[where](p)
    at, size = (p - 2, length - 2) if is_beyond else (p, 2)
    kernels = []
    for dtype in (torch.uint8, BF, torch.int32, F, L, D):
        value = op("where", dtype, mask, load("x", at, dtype, mask), lit(0, dtype))
        given = buffers(x=(dtype, size, "in"), out=(dtype, n * length, "out"))
        kernels.append(replace(pointwise((A, P), value, a * length + p, given, N), name=str(dtype).replace(".", "_")))
    library = compile_unit(kernels)
    for kernel in kernels:
        compare(kernel, filled(kernel, (9,)), (9,), library=library, exact=True)


@pytest.mark.parametrize("name, values, bad", [
    ("check_index", [0, 2, 3], True), ("check_index", [0, -1, 2], True), ("check_index", [0, 1, 2], False),
    ("wrap_index", [0, -3, 2], False), ("wrap_index", [-4, 0, 2], True), ("wrap_index", [1, 3, 2], True),
])  # fmt: skip
def test_an_index_out_of_range(name: str, values: list[int], bad: bool) -> None:
    kernel = embedding(name)
    compare(kernel, {**filled(kernel, (3, 3)), "at": torch.tensor(values)}, (3, 3))


@pytest.mark.parametrize("bad", [False, True])
def test_a_condition_on_elements(bad: bool) -> None:
    kernel = conditional()
    compare(kernel, {**filled(kernel, (40,)), "x": torch.arange(40.0) - float(bad)}, (40,))


@pytest.mark.parametrize("what", KERNELS)
def test_simpler_axes_mean_the_same(what: str) -> None:
    kernel, sizes = KERNELS[what]
    simple = check(simplify(kernel))
    scalars = [3 if scalar.dtype is L else 0.25 for scalar in kernel.scalars]
    for given in sizes:
        before = filled(kernel, given)
        after = {name: tensor.clone() for name, tensor in before.items()}
        run(kernel, before, given, scalars)
        run(simple, after, given, scalars)
        for name in before:
            torch.testing.assert_close(after[name], before[name], equal_nan=True)


def test_an_axis_is_not_divided_by_its_own_size() -> None:
    """Where it can't be proved that nothing comes of that."""
    size = 1 + ix.floor_divide(n, index(2))
    P, p = axis("p", size)
    value = add(load("x", p, F), load("bias", ix.floor_divide(p, size), F))
    kernel = pointwise((P,), value, p, buffers(x=(F, size, "in"), bias=(F, 1, "in"), out=(F, size, "out")), N)
    assert len(simplify(kernel).axes) == 1
    for count in (1, 2, 31):
        compare(kernel, filled(kernel, (count,)), (count,), exact=True)


def test_what_is_shared_many_times_is_computed_once() -> None:
    """Written out, it would have 2^200 operations."""
    value = load("x", j, F)
    for _ in range(200):
        value = op("sub", F, mul(value, value), lit(1.0))
        value = op("minimum", F, op("maximum", F, value, lit(-1.0)), lit(1.0))
    kernel = pointwise((J,), value, j, buffers(x=(F, m, "in"), out=(F, m, "out")), M)
    compare(kernel, filled(kernel, (40,)), (40,), exact=True)


def test_helpers_that_many_kernels_name_are_part_of_their_loops() -> None:
    def kernel(number: int) -> Kernel:
        value = op("erf", F, mul(load("x", i, F), lit(number)))
        return replace(pointwise((I,), value, i, buffers(x=(F, n, "in"), out=(F, n, "out")), N), name=f"erf_{number}")

    unit = Path(compile_unit([kernel(1), kernel(2), kernel(3)])._name).read_bytes()
    assert b"erf_3" in unit and b"erf_f32" not in unit


def test_a_deep_expression() -> None:
    value = load("x", j, F)
    for n in range(3000):
        value = add(value, lit(n % 7 - 3.0))
    kernel = pointwise((J,), value, j, buffers(x=(F, m, "in"), out=(F, m, "out")), M)
    compare(kernel, filled(kernel, (40,)), (40,), exact=True)


def test_neighbours_of_one_stride_become_one() -> None:
    (A, a), (P, p), (Q, q) = axis("a", 3), axis("p", n), axis("q", m)
    at = (a * n + p) * m + q
    value = add(load("x", at, F), load("bias", a, F))
    kernel = pointwise((A, P, Q), value, at, buffers(x=(F, n * m * 3, "in"), bias=(F, 3, "in"), out=(F, n * m * 3, "out")), N, M)
    assert [str(axis) for axis in simplify(kernel).axes] == ["a", "pq"]
    assert len(simplify(heads()).axes) == 3


# --- at random --------------------------------------------------------------------------------------------------------
def random_kernel(seed: int, large: bool = False) -> tuple[Kernel, tuple[int, ...]]:
    """A kernel of a few axes and loops over buffers in any order of axes, some gathered, some behind a mask. A large one has
    more lanes than a tile, and more rounds than are summed up as floats."""
    rng = random.Random(seed)
    S, T = Symbol("S"), Symbol("T")
    sizes = {S: rng.randrange(1, 40), T: rng.randrange(1, 20)}
    extents: list[ix.Integer] = [*map(index, sizes), 1, 2, 3, 8, 17, 64]
    counts, outer_extents = (0, 1, 2, 3), extents
    if large:
        sizes = {S: rng.randrange(1000, 1200), T: rng.randrange(4000, 4500)}
        extents, outer_extents, counts = [index(S), index(T), 3, 300], [index(S), 1100, 5], (1, 1, 2)
    outer = [Symbol(f"a{k}", index(rng.choice(outer_extents))) for k in range(rng.choice(counts))]
    outer = [outer[0], Symbol("a1", index(5))] if large and len(outer) > 1 else outer
    made: list[Buffer] = []

    def strided(axes: list[Symbol], shuffle: bool) -> tuple[Index, Index]:
        axes = list(axes)
        if shuffle:
            rng.shuffle(axes)
        at, size = index(0), index(1)
        for symbol in reversed(axes):
            assert symbol.size is not None
            at, size = at + index(symbol) * size, size * symbol.size
        return at, size

    def source(axes: list[Symbol], dtype: torch.dtype) -> Expr:
        used = [symbol for symbol in axes if rng.random() < 0.8]
        at, size = strided(used, rng.random() < 0.4)
        kind = rng.random()
        name = f"b{len(made)}"
        mask = None
        if kind < 0.15 and axes:
            shift = rng.randrange(1, 4)
            mask = op("ge", B, ir.position(at), lit(shift, L))
            at = at - shift
            if rng.random() < 0.5:
                mask = op("ge", B, ir.position(at), lit(0, L))
        elif kind < 0.3:
            made.append(Buffer(name, L, size, "in"))
            chosen = op("check_index", L, load(name, at, L), lit(3, L))
            name, at, size = f"b{len(made)}", index(ix.Value(chosen, index(3))), index(3)
        made.append(Buffer(name, dtype, size, "in"))
        return load(name, at, dtype, mask)

    def value(axes: list[Symbol], dtype: torch.dtype, depth: int, leaves: list[Expr]) -> Expr:
        if depth == 0:
            pick = rng.random()
            if pick < 0.2 and leaves:
                return rng.choice(leaves)
            if pick < 0.3:
                return lit(rng.choice([0.5, -2.0, 3.0]), dtype)
            found = source(axes, rng.choice([F, F, BF, torch.int32, dtype]))
            return found if found.dtype == dtype else to(found, dtype)
        a = value(axes, dtype, depth - 1, leaves)
        match rng.randrange(8):
            case 0:
                return op(rng.choice(["tanh", "sigmoid", "erf", "atan"]), dtype, a)
            case 1:
                return op(rng.choice(["abs", "neg"]), dtype, a)
            case 2:
                b = value(axes, dtype, depth - 1, leaves)
                return op("where", dtype, op("lt", B, a, b), lit(1.0, dtype), mul(b, lit(0.5, dtype)))
            case _:
                b = value(axes, dtype, depth - 1, leaves)
                return op(rng.choice(["add", "sub", "mul", "maximum", "minimum"]), dtype, a, b)

    loops: list[Loop] = []
    results: list[Expr] = []
    for number in range(rng.randrange(1, 4)):
        inner = [Symbol(f"l{number}{k}", index(rng.choice(extents))) for k in range(rng.choice([0, 1, 1, 1 if large else 2]))]
        if loops and rng.random() < 0.3:
            inner = list(loops[-1].axes)
        body: list[ir.Statement] = []
        leaves = list(results)
        for statement in range(rng.randrange(1, 3)):
            dtype = rng.choice([F, F, F, D])
            these = [leaf for leaf in leaves if leaf.dtype == dtype]
            found = value([*outer, *inner], dtype, rng.randrange(0, 4), these)
            if inner and rng.random() < 0.6:
                kind = rng.choice(["sum", "sum", "max", "min", "argmax", "logsumexp"])
                found = op("tanh", dtype, found) if kind != "argmax" else op("round", dtype, mul(found, lit(4.0, dtype)))
                reduce = Reduce(f"r{number}{statement}", kind, found)
                body.append(reduce)
                if kind != "argmax":
                    results.append(result(reduce.name, dtype))
                if kind in SCANS and rng.random() < 0.2:
                    leaves.append(running(reduce.name, dtype))
            else:
                at, size = strided([*outer, *inner], rng.random() < 0.3)
                stored = rng.choice([dtype, dtype, BF, B])
                made.append(Buffer(f"b{len(made)}", stored, size, "out"))
                body.append(Store(made[-1].name, at, found if stored == dtype else to(found, stored)))
        loops.append(Loop(tuple(inner), tuple(body)))
    last = [r for r in results if r.dtype is F]
    if last:
        at, size = strided(outer, False)
        made.append(Buffer("last", F, size, "out"))
        loops.append(Loop((), (Store("last", at, last[0] if len(last) < 2 else add(last[0], last[-1])),)))
    return Kernel(f"random{seed}", tuple(outer), tuple(loops), tuple(made), tuple(sizes)), tuple(sizes.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_a_random_kernel(seed: int) -> None:
    kernel, sizes = random_kernel(seed)
    compare(kernel, filled(kernel, sizes, seed), sizes, close=(1e-4, 1e-4))


@pytest.mark.parametrize("seed", range(12))
def test_a_large_random_kernel(seed: int) -> None:
    kernel, sizes = random_kernel(seed, large=True)
    compare(kernel, filled(kernel, sizes, seed), sizes, close=(1e-3, 1e-3))
