"""Printed Triton kernels are compiled for devices that this machine need not have: to cubins, without spilled registers."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile

import pytest
import torch
import triton

from codegen.artifacts.store import Store
from codegen.kernels.groups import Call
from codegen.kernels.index import Symbol, index
from codegen.kernels.ir import Buffer, Kernel, Loop, load, op
from codegen.kernels.ir import Store as Into
from codegen.kernels.ops import OPS
from codegen.kernels.triton_launch import Compiled, compile_triton, pack
from codegen.kernels.triton_shape import candidates
from tests.codegen.kernels.schedules import scheduled
from tests.codegen.kernels.test_c import (
    BITS,
    CONVERSIONS,
    DTYPES,
    op_cases,
    reduce_kernel,
    reduced_cases,
    scan_cases,
    scan_kernel,
)
from tests.codegen.kernels.test_c_shapes import KERNELS
from tests.codegen.kernels.test_schedule import PROGRAMS

B = torch.bool
CAPABILITIES = [80, 90, 100]
NO_STORE = Store(None, 0)


def resources(compiled: Compiled) -> dict[str, int]:
    """What a program of it takes: `REG` registers a thread, `LOCAL` and `STACK` bytes of memory, where registers are spilled."""
    tool = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.cubin)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}


def compiles(kernel: Kernel, capability: int, best_only: bool = True, spills: bool = False) -> None:
    for config in candidates(kernel)[: 1 if best_only else None]:
        found = compile_triton(kernel, config, capability, store=NO_STORE)
        used = resources(found)
        assert found.name == kernel.name and used["REG"] > 0
        assert spills or used["LOCAL"] == used["STACK"] == 0, f"{used}\n{config}\n{kernel}"


def all_operations(dtype: torch.dtype) -> Kernel:
    """Every operation of the dtype, in one kernel."""
    axis = Symbol("i", index(4096))
    at = index(axis)
    values = [load(name, at, dtype) for name in "xyz"]
    stores, buffers = [], [Buffer(name, dtype, index(4096), "in") for name in "xyz"]
    for name, of in op_cases():
        if of is not dtype:
            continue
        gives = B if OPS[name].gives == "bool" else dtype
        condition = [op("eq", B, *values[:2])] if name == "where" else []
        buffers.append(Buffer(f"out_{name}", gives, index(4096), "out"))
        stores.append(Into(f"out_{name}", at, op(name, gives, *condition, *values[: OPS[name].arity - len(condition)])))
    return Kernel("operations", (axis,), (Loop((), tuple(stores)),), tuple(buffers))


def all_conversions(dtype: torch.dtype) -> Kernel:
    """From the dtype to every other one."""
    axis = Symbol("i", index(4096))
    at = index(axis)
    stores, buffers = [], [Buffer("x", dtype, index(4096), "in")]
    for name, table in (("to", CONVERSIONS), ("bits", BITS)):
        for number, (a, b) in enumerate(table):
            if a is dtype:
                buffers.append(Buffer(f"{name}{number}", b, index(4096), "out"))
                stores.append(Into(f"{name}{number}", at, op(name, b, load("x", at, a))))
    return Kernel("conversions", (axis,), (Loop((), tuple(stores)),), tuple(buffers))


@pytest.mark.parametrize("what", ["layernorm of bfloat16", "embedding, wrapped", "transposed"])
def test_a_sample(what: str) -> None:
    compiles(KERNELS[what][0], 90)


def test_what_was_compiled_is_kept(tmp_path) -> None:
    store = Store(tmp_path / "store", 1 << 30)
    kernel = KERNELS["optimizer"][0]
    first = compile_triton(kernel, candidates(kernel)[0], 90, store=store, aligned=(0, 1, 2))
    assert compile_triton(kernel, candidates(kernel)[0], 90, store=store, aligned=(0, 1, 2)) == first
    assert store.info().hits == 1 and first.cubin.startswith(b"\x7fELF")


def test_aligned_pointers_are_read_as_vectors() -> None:
    kernel = KERNELS["layernorm of known sizes"][0]
    texts = [ptx(kernel, aligned) for aligned in ((), range(len(kernel.buffers)))]
    assert [".v4.b32" in text for text in texts] == [False, True]


def ptx(kernel: Kernel, aligned) -> str:
    """The text that the cubin was made of."""
    from codegen.kernels import triton_launch
    from codegen.kernels.triton import print_triton

    config = candidates(kernel)[0]
    options = {**triton_launch.OPTIONS, "num_warps": config.warps, "num_stages": config.stages}
    return triton_launch.compiled(
        kernel.name, print_triton(kernel, config), triton_launch.arguments(kernel, config.wide), aligned, 90, options
    ).asm["ptx"]


def test_operations_are_rounded_for_themselves() -> None:
    """No fused multiply-add, no approximate division or square root, no flushed denormals."""
    kernel = KERNELS["layernorm of known sizes"][0]
    text = ptx(kernel, ())
    assert "fma." not in text
    assert "div.full" not in text and "div.approx" not in text and ".ftz" not in text


@pytest.mark.parametrize("kind", ["max", "min"])
def test_extremes_of_what_has_a_nan_are_nan(kind: str) -> None:
    """The interpreter's always are."""
    assert f"{kind}.NaN.f32" in ptx(reduce_kernel(kind, torch.float32, "rows"), ())


def test_arguments_lie_at_multiples_of_their_sizes() -> None:
    made = Compiled("f", b"", ("*fp32", "i32", "fp64", "fp32", "i64", "*i8", "*i8"), 4, 0)
    text = pack(made, [1 << 40, -5, 0.5, 0.25, 7])
    assert len(text) == 56 and text[:16] == (1 << 40).to_bytes(8, "little") + (2**32 - 5).to_bytes(4, "little") + bytes(4)


@pytest.mark.long
@pytest.mark.parametrize("capability", CAPABILITIES)
class TestAll:
    @pytest.mark.parametrize("what", KERNELS)
    def test_kernel(self, what: str, capability: int) -> None:
        compiles(KERNELS[what][0], capability, best_only=False)

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_operations(self, dtype: torch.dtype, capability: int) -> None:
        compiles(all_operations(dtype), capability, spills=True)

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_conversions(self, dtype: torch.dtype, capability: int) -> None:
        compiles(all_conversions(dtype), capability)

    @pytest.mark.parametrize("layout", ["rows", "columns"])
    @pytest.mark.parametrize("kind, dtype", reduced_cases(), ids=str)
    def test_reduction(self, kind: str, dtype: torch.dtype, layout: str, capability: int) -> None:
        compiles(reduce_kernel(kind, dtype, layout), capability)

    @pytest.mark.parametrize("kind, dtype", scan_cases(), ids=str)
    def test_scan(self, kind: str, dtype: torch.dtype, capability: int) -> None:
        compiles(scan_kernel(kind, dtype, "rows"), capability, spills=kind == "logsumexp" and dtype is torch.float64)

    @pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
    @pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
    def test_a_scheduled_program(self, program, dynamic: bool, capability: int) -> None:
        args = [torch.randn(64, 48), *([torch.randn(48, 48)] if program.__name__ == "residual" else [])]
        for step in scheduled(program, *args, dynamic=dynamic).steps:
            if not isinstance(step, Call):
                compiles(step.kernel, capability)
