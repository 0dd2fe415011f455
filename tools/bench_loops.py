"""`tools/bench loops`: how long single C kernels take on one thread, beside eager torch and torch.compile.

The kernels are written down here in the loop IR, as a scheduler would make them, and called as the plan does: with
fresh memory for what they give, which the peers allocate, too.
"""
import argparse
import ctypes
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from codegen.artifacts.store import Store
from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.c import print_c
from codegen.kernels.check import check
from codegen.kernels.index import Index, Symbol, index
from codegen.kernels.ir import Buffer, Expr, Kernel, Loop, Reduce, Statement, load, op, result, running
from codegen.kernels.ir import Store as Put
from codegen.kernels.toolchain import compile_c
from tools.report import duration, machine, ratio, show, take_turns

F32, BF16, I64 = torch.float32, torch.bfloat16, torch.int64
T = torch.Tensor


@dataclass(frozen=True)
class Case:
    """What eager does, its inputs, and the kernel that does it: its buffers are the inputs, then the results."""

    name: str
    eager: Callable[..., Any]
    inputs: Callable[[], list[T]]
    kernel: Kernel


def axis(name: str, size: int) -> tuple[Symbol, Index]:
    symbol = Symbol(name, index(size))
    return symbol, index(symbol)


def of(name: str, *operands: Expr) -> Expr:
    return op(name, operands[0].dtype, *operands)


def to(dtype: torch.dtype, value: Expr) -> Expr:
    return op("to", dtype, value)


def lit(value: float, dtype: torch.dtype = F32) -> Expr:
    return ir.literal(value, dtype)


Loops = list[tuple[list[Symbol], list[Statement]]]


def kernel(name: str, axes: list[Symbol], loops: Loops, *buffers: Buffer) -> Kernel:
    return check(Kernel(name, tuple(axes), tuple(Loop(tuple(a), tuple(body)) for a, body in loops), buffers))


def given(name: str, size: int, dtype: torch.dtype = F32) -> Buffer:
    return Buffer(name, dtype, index(size), "in")


def made(name: str, size: int, dtype: torch.dtype = F32) -> Buffer:
    return Buffer(name, dtype, index(size), "out")


def chain(size: int) -> Case:
    P, i = axis("i", size)
    x = load("x", i, F32)
    value = of("sub", of("mul", of("add", of("mul", of("add", x, lit(1)), x), lit(2)), lit(0.5)), x)

    def eager(x: T) -> T:
        return (((x + 1) * x) + 2) * 0.5 - x

    loops: Loops = [([], [Put("out", i, value)])]
    return Case(f"five operations, {size:,}", eager, lambda: [torch.randn(size)],
                kernel("chain", [P], loops, given("x", size), made("out", size)))  # fmt: skip


def gelu(size: int, dtype: torch.dtype) -> Case:
    P, i = axis("i", size)
    x = load("x", i, dtype)
    wide = x if dtype is F32 else to(F32, x)
    value = of("mul", of("mul", wide, lit(0.5)), of("add", of("erf", of("mul", wide, lit(0.7071067811865476))), lit(1)))
    loops: Loops = [([], [Put("out", i, value if dtype is F32 else to(dtype, value))])]
    title = str(dtype).removeprefix("torch.")
    return Case(f"gelu, {size:,} {title}", F.gelu, lambda: [torch.randn(size).to(dtype)],
                kernel(f"gelu_{title}", [P], loops, given("x", size, dtype), made("out", size, dtype)))  # fmt: skip


def unary(name: str, size: int) -> Case:
    P, i = axis("i", size)
    loops: Loops = [([], [Put("out", i, of(name, load("x", i, F32)))])]
    return Case(f"{name}, {size:,}", getattr(torch, name), lambda: [torch.rand(size)],
                kernel(name, [P], loops, given("x", size), made("out", size)))  # fmt: skip


def softmax(rows: int, columns: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    x = load("x", i * columns + j, F32)
    power = of("exp", of("sub", x, result("top", F32)))
    loops: Loops = [
        ([Q], [Reduce("top", "max", x)]),
        ([Q], [Reduce("total", "sum", power)]),
        ([Q], [Put("out", i * columns + j, of("div", power, result("total", F32)))]),
    ]
    return Case(f"softmax, {rows} x {columns}", lambda x: torch.softmax(x, 1), lambda: [torch.randn(rows, columns)],
                kernel("softmax", [P], loops, given("x", rows * columns), made("out", rows * columns)))  # fmt: skip


def layernorm(rows: int, columns: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    x = load("x", i * columns + j, F32)
    mean = of("mul", result("total", F32), lit(1 / columns))
    centred = of("sub", x, mean)
    scale = of("rsqrt", of("add", of("mul", result("square", F32), lit(1 / columns)), lit(1e-5)))
    value = of("add", of("mul", of("mul", centred, scale), load("w", j, F32)), load("b", j, F32))
    loops: Loops = [
        ([Q], [Reduce("total", "sum", x)]),
        ([Q], [Reduce("square", "sum", of("mul", centred, centred))]),
        ([Q], [Put("out", i * columns + j, value)]),
    ]
    return Case(
        f"layer norm, {rows} x {columns}", lambda x, w, b: F.layer_norm(x, (columns,), w, b),
        lambda: [torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)],
        kernel("layernorm", [P], loops, given("x", rows * columns), given("w", columns), given("b", columns),
               made("out", rows * columns)),
    )  # fmt: skip


def column_sum(rows: int, columns: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    x = load("x", i * columns + j, F32)
    loops: Loops = [([P], [Reduce("r", "sum", x)]), ([], [Put("out", j, result("r", F32))])]
    return Case(f"sum of columns, {rows} x {columns}", lambda x: x.sum(0), lambda: [torch.randn(rows, columns)],
                kernel("columns", [Q], loops, given("x", rows * columns), made("out", columns)))  # fmt: skip


def norm_gradient(rows: int, columns: int) -> Case:
    """Of a layer norm's scale and bias."""
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    grad, x = load("grad", i * columns + j, F32), load("x", i * columns + j, F32)
    shifted = of("mul", of("sub", x, load("mean", i, F32)), load("scale", i, F32))
    loops: Loops = [
        ([P], [Reduce("r", "sum", of("mul", grad, shifted)), Reduce("s", "sum", grad)]),
        ([], [Put("out", j, result("r", F32)), Put("out2", j, result("s", F32))]),
    ]

    def eager(grad: T, x: T, mean: T, scale: T) -> tuple[T, T]:
        return (grad * ((x - mean) * scale)).sum(0), grad.sum(0)

    size = rows * columns
    return Case(
        f"gradient of a norm's weights, {rows} x {columns}", eager,
        lambda: [torch.randn(rows, columns), torch.randn(rows, columns), torch.randn(rows, 1), torch.rand(rows, 1)],
        kernel("norm_gradient", [Q], loops, given("grad", size), given("x", size), given("mean", rows),
               given("scale", rows), made("out", columns), made("out2", columns)),
    )  # fmt: skip


def transposed(rows: int, columns: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    value = of("add", load("x", j * rows + i, F32), load("y", i * columns + j, F32))
    loops: Loops = [([], [Put("out", i * columns + j, value)])]
    size = rows * columns
    return Case(
        f"x.T + y, {rows} x {columns}", lambda x, y: x.t() + y,
        lambda: [torch.randn(columns, rows), torch.randn(rows, columns)],
        kernel("transposed", [P, Q], loops, given("x", size), given("y", size), made("out", size)),
    )  # fmt: skip


def embedding(rows: int, columns: int, words: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    at = op("check_index", I64, load("at", i, I64), ir.literal(words, I64))
    value = load("w", index(ix.Value(at, index(words))) * columns + j, F32)
    loops: Loops = [([], [Put("out", i * columns + j, value)])]
    return Case(
        f"embedding, {rows} x {columns}", F.embedding,
        lambda: [torch.randint(0, words, (rows,)), torch.randn(words, columns)],
        kernel("embedding", [P, Q], loops, given("at", rows, I64), given("w", words * columns),
               made("out", rows * columns)),
    )  # fmt: skip


def whole_sum(size: int) -> Case:
    P, i = axis("i", size)
    loops: Loops = [([P], [Reduce("r", "sum", load("x", i, F32))]), ([], [Put("out", index(0), result("r", F32))])]
    return Case(f"sum, {size:,}", torch.sum, lambda: [torch.randn(size)],
                kernel("whole", [], loops, given("x", size), made("out", 1)))  # fmt: skip


def argmax(rows: int, columns: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    x = load("x", i * columns + j, F32)
    loops: Loops = [([Q], [Reduce("r", "argmax", x)]), ([], [Put("out", i, result("r", I64))])]
    return Case(f"argmax, {rows} x {columns}", lambda x: x.argmax(1), lambda: [torch.randn(rows, columns)],
                kernel("argmax", [P], loops, given("x", rows * columns), made("out", rows, I64)))  # fmt: skip


def cumsum(rows: int, columns: int, dim: int) -> Case:
    (P, i), (Q, j) = axis("i", rows), axis("j", columns)
    at, axes, over = i * columns + j, [P, Q], Q if dim else P
    axes.remove(over)
    loops: Loops = [([over], [Reduce("r", "sum", load("x", at, F32)), Put("out", at, running("r", F32))])]
    title = f"cumsum({dim}), {rows} x {columns}"
    return Case(title, lambda x: x.cumsum(dim), lambda: [torch.randn(rows, columns)],
                kernel("cumsum", axes, loops, given("x", rows * columns), made("out", rows * columns)))  # fmt: skip


CASES = [
    lambda: chain(1 << 14), lambda: chain(1 << 22), lambda: gelu(1 << 20, F32), lambda: gelu(1 << 20, BF16),
    lambda: unary("exp", 1 << 16), lambda: unary("tanh", 1 << 16), lambda: unary("sigmoid", 1 << 16),
    lambda: unary("log", 1 << 16), lambda: unary("sin", 1 << 16),
    lambda: softmax(4096, 1024), lambda: softmax(8192, 64),
    lambda: layernorm(4096, 768), lambda: column_sum(4096, 768), lambda: norm_gradient(4096, 768),
    lambda: transposed(2048, 1024), lambda: embedding(4096, 768, 50000), lambda: whole_sum(10**7),
    lambda: argmax(512, 32000), lambda: cumsum(1024, 4096, 1), lambda: cumsum(1024, 4096, 0),
]  # fmt: skip


def ours(case: Case) -> Callable[..., Any]:
    """Calls the kernel on one thread, with results that are new each time."""
    library = ctypes.CDLL(str(compile_c(print_c([case.kernel]), store=Store(None, 0), openmp=False)))
    function = library[case.kernel.name]
    work = 1
    for symbol in case.kernel.axes:
        assert symbol.size is not None and symbol.size.constant is not None
        work *= symbol.size.constant
    results = [(buffer.size.constant or 0, buffer.dtype) for buffer in case.kernel.buffers if buffer.role == "out"]
    pointers = (ctypes.c_void_p * len(case.kernel.buffers))()
    nothing = (ctypes.c_int64 * 1)()
    begin, end = ctypes.c_int64(0), ctypes.c_int64(work)

    def call(*inputs: T) -> list[T]:
        new = [torch.empty(size, dtype=dtype) for size, dtype in results]
        for n, tensor in enumerate((*inputs, *new)):
            pointers[n] = tensor.data_ptr()
        assert function(pointers, nothing, nothing, begin, end) == 0
        return new

    return call


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tools/bench loops", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    for make in CASES:
        case = make()
        if options.only not in case.name:
            continue
        torch.compiler.reset()  # else torch gives up on compiling what looks like one function
        inputs = case.inputs()
        sides = {"ours": ours(case), "eager": case.eager, "inductor": torch.compile(case.eager, dynamic=False)}
        expected = case.eager(*inputs)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for found, right in zip(sides["ours"](*inputs), wanted, strict=True):
            torch.testing.assert_close(found, right.reshape(-1), rtol=1e-3, atol=1e-2)
        sides["inductor"](*inputs)
        timers: dict[str, timeit.Timer | None] = {
            name: timeit.Timer("f(*inputs)", globals={"f": side, "inputs": inputs}) for name, side in sides.items()
        }
        taken = take_turns(timers, options.rounds)
        rows.append([case.name, *(duration(taken[name]) for name in sides), ratio(taken["ours"], taken["eager"]),
                     ratio(taken["ours"], taken["inductor"])])  # fmt: skip
    title = f"C kernels on one thread: {machine()}"
    show(title, ["", *("ours", "eager", "inductor"), "eager / ours", "inductor / ours"], rows, options.markdown)


if __name__ == "__main__":
    main()
