"""Products in tiles of tensor cores do what the evaluator does, with what is computed before and after them."""

from __future__ import annotations

import pytest
import torch

from codegen.artifacts.store import Store as Disk
from codegen.kernels import index as ix
from codegen.kernels import triton_launch
from codegen.kernels.check import check
from codegen.kernels.index import Symbol, index
from codegen.kernels.ir import Expr, Kernel, Loop, Reduce, Store, load, op, result
from codegen.kernels.triton_dot import DotConfig, Product, dot_candidates, dot_programs, print_dot, product_of
from tests.codegen.kernels.test_c_shapes import add, axis, buffers, filled, lit, mul, to
from tests.codegen.kernels.test_triton_compile import resources
from tests.codegen.kernels.triton_runs import compare

F, H, BF = torch.float32, torch.float16, torch.bfloat16
CLOSE = {F: (1e-4, 1e-4), H: (1e-2, 1e-2), BF: (5e-2, 5e-2)}
M, N, K = Symbol("M"), Symbol("N"), Symbol("K")


def wide(value: Expr) -> Expr:
    return value if value.dtype is F else to(value, F)


def product(
    m: ix.Integer, n: ix.Integer, k: ix.Integer, dtype: torch.dtype = F, batch: int = 0, transposed: bool = False,
    before=lambda a: a, after=lambda r: r, bias: bool = False, both: bool = False,
) -> Kernel:
    """a[m, k] @ b[k, n], of `before` of a and with `after` of the sum; `both`: of a with b and with another one."""
    (B, at), (P, p), (Q, q), (R, r) = axis("batch", batch or 1), axis("p", m), axis("q", n), axis("r", k)
    at = at if batch else index(0)
    a = wide(before(load("a", (at * m + p) * k + r, dtype)))
    place = at * k * n + (q * k + r if transposed else r * n + q)
    sums = [Reduce("x", "sum", mul(a, wide(load("b", place, dtype))))]
    value = after(result("x", F))
    given = {"a": (dtype, index(m) * k * (batch or 1), "in"), "b": (dtype, index(k) * n * (batch or 1), "in")}
    if both:
        sums.append(Reduce("y", "sum", mul(wide(load("b2", place, dtype)), a)))
        value = mul(value, op("sigmoid", F, result("y", F)))
        given["b2"] = given["b"]
    if bias:
        value = add(value, wide(load("bias", q, dtype)))
        given["bias"] = (dtype, n, "in")
    stores = (Store("out", (at * m + p) * n + q, value if dtype is F else to(value, dtype)),)
    given["out"] = (dtype, index(m) * n * (batch or 1), "out")
    sizes = tuple(size.terms[0][0][0] for size in (m, n, k) if isinstance(size, ix.Index))
    axes = (B, P, Q) if batch else (P, Q)
    return check(Kernel("product", axes, (Loop((R,), tuple(sums)), Loop((), stores)), buffers(**given), sizes))  # type: ignore[arg-type]


def gelu(value: Expr) -> Expr:
    return mul(value, add(op("erf", F, mul(value, lit(0.70710678))), lit(1.0)))


def relu(value: Expr) -> Expr:
    return op("maximum", value.dtype, value, lit(0.0, value.dtype))


m, n, k = map(index, (M, N, K))
KERNELS = {
    "mm": (product(64, 48, 32), ()),
    "ragged": (product(70, 33, 45), ()),
    "of two rows": (product(2, 50, 20), ()),
    "of halves": (product(70, 33, 45, H), ()),
    "of bfloat16": (product(40, 64, 64, BF), ()),
    "transposed": (product(70, 33, 45, BF, transposed=True), ()),
    "addmm, gelu": (product(70, 33, 45, after=gelu, bias=True), ()),
    "addmm of bfloat16, gelu": (product(70, 33, 45, BF, after=gelu, bias=True), ()),
    "relu before": (product(70, 33, 45, BF, before=relu), ()),
    "exp before": (product(70, 33, 45, before=lambda a: op("exp", F, a)), ()),
    "bmm": (product(20, 33, 45, batch=3), ()),
    "bmm of bfloat16, transposed": (product(20, 33, 48, BF, batch=3, transposed=True), ()),
    "two of one": (product(40, 33, 45, both=True), ()),
    "any sizes": (product(m, n, k, BF, bias=True), (37, 50, 21)),
    "no rounds": (product(m, n, k), (5, 6, 0)),
}


def printed(kernel: Kernel, config: DotConfig):
    made = product_of(kernel)
    assert made is not None
    return print_dot(made, config), dot_programs(made, config)


def configs_of(kernel: Kernel, sizes) -> list[DotConfig]:
    made = product_of(kernel)
    assert made is not None
    return [dot_candidates(made, dict(zip(kernel.sizes, sizes)))[0], DotConfig(32, 16, 16, group=2), DotConfig(16, 32, 32, wide=True)]


@pytest.mark.parametrize("what", KERNELS)
def test_product(what: str) -> None:
    kernel, sizes = KERNELS[what]
    dtype = kernel.buffers[0].dtype
    compare(kernel, filled(kernel, sizes), sizes, close=CLOSE[dtype], configs=configs_of(kernel, sizes), printer=printed)


def compiled(kernel: Kernel, capability: int, tf32: bool = False, number: int = 0):
    made = product_of(kernel)
    assert made is not None
    config = dot_candidates(made)[number]
    options = {**triton_launch.OPTIONS, "num_warps": config.warps, "num_stages": config.stages}
    source = print_dot(made, config, tf32)
    types = triton_launch.arguments(kernel, config.wide)
    return triton_launch.compiled(kernel.name, source, types, range(len(kernel.buffers)), capability, options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("capability, instruction", [(80, "mma.sync"), (90, "wgmma.mma_async"), (100, "tcgen05.mma")])
def test_halves_go_to_tensor_cores(capability: int, instruction: str) -> None:
    text = compiled(product(4096, 4096, 1024, BF, after=gelu, bias=True), capability).asm["ptx"]
    assert instruction in text and "bf16" in text and ".f32.bf16" in text.replace("f32.bf16", ".f32.bf16")


def test_floats_are_rounded_to_tf32_only_where_that_is_allowed() -> None:
    kernel = product(1024, 1024, 512)
    assert "tf32" in compiled(kernel, 90, tf32=True).asm["ptx"]
    text = compiled(kernel, 90).asm["ptx"]
    assert "tf32" not in text and "fma.rn.f32" in text


def test_what_is_a_product() -> None:
    found = product_of(product(20, 33, 45, batch=3, both=True))
    assert isinstance(found, Product) and len(found.factors) == 2
    assert [axis.name for axis in (*found.batch, *found.m, *found.n, *found.k)] == ["batch", "p", "q", "r"]


def test_what_is_none() -> None:
    (P, p), (Q, q), (R, r) = axis("p", 20), axis("q", 30), axis("r", 40)

    def kernel(value: Expr, role: str = "in") -> Kernel:
        loops = (Loop((R,), (Reduce("x", "sum", value),)), Loop((), (Store("out", p * 30 + q, result("x", value.dtype)),)))
        return Kernel("k", (P, Q), loops, buffers(a=(value.dtype, 24000, role), out=(value.dtype, 600, "out")))

    a, b = load("a", p * 40 + r, F), load("a", r * 30 + q, F)
    assert product_of(kernel(mul(a, b))) is not None
    assert product_of(kernel(mul(a, a))) is None  # no columns
    assert product_of(product(1, 50, 20)) is None  # a row is none of the tensor cores'
    assert product_of(kernel(add(a, b))) is None
    assert product_of(kernel(mul(load("a", (p * 30 + q) * 40 + r, F), b))) is None  # a factor of rows and columns
    assert product_of(kernel(mul(a, load("a", q, F)))) is None  # one of no rounds
    wide = [load("a", at, torch.float64) for at in (p * 40 + r, r * 30 + q)]
    assert product_of(kernel(op("mul", torch.float64, *wide))) is None


@pytest.mark.long
@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_all_tiles_compile(dtype: torch.dtype, capability: int) -> None:
    for kernel in (product(4096, 4096, 1024, dtype, bias=True, after=gelu), product(512, 512, 500, dtype, batch=16), product(8, 1000, 1000, dtype)):
        made = product_of(kernel)
        assert made is not None
        for config in dot_candidates(made):
            types = triton_launch.arguments(kernel, config.wide)
            source = print_dot(made, config, tf32=True)
            found = triton_launch.compile_source(
                kernel.name, source, types, config, capability, store=Disk(None, 0), aligned=range(len(kernel.buffers))
            )
            assert found.shared <= 227 << 10, config
            assert resources(found)["REG"] <= 255
