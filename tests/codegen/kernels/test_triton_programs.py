"""The programs that `tools/bench kernels` times, forward and training, in float32 and bfloat16: each of their kernels does
in Triton what the evaluator does, on the values that it meets there, and is compiled for the devices at its real size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import jit
from codegen.aot.backend import compile_graph
from codegen.direct import direct
from codegen.kernels import evaluate
from codegen.kernels.ir import Kernel
from codegen.kernels.lowering.lower import lower
from codegen.kernels.schedule import schedule
from codegen.passes import Passes
from jit.backends import FUSED
from tests.codegen.kernels.schedules import evaluated
from tests.codegen.kernels.test_triton_compile import compiles
from tests.codegen.kernels.triton_runs import compare
from tools.bench_kernels import MODES, call_of
from tools.bench_programs import CASES, LABELS, Case

F, BF = torch.float32, torch.bfloat16
#: Of what kernels give: sums are added up in another order, halves rounded at other times.
CLOSE = {F: (1e-4, 1e-4), BF: (5e-2, 5e-2)}
#: Of the length of what programs give, and of 1: some of it is noise, as a bias's gradient before a norm.
FAR = {F: 1e-3, BF: 0.25}


def small(size: int) -> int:
    """Sizes that differ stay different, and even; those up to 32 stay as they are."""
    return size if size <= 32 else 32 + 2 * round(4 * math.log2(size / 64))


def of_dtype(case: Case, dtype: torch.dtype) -> Case:
    def inputs() -> list[torch.Tensor]:
        return [x.to(dtype) if x.is_floating_point() else x for x in case.inputs()]

    return replace(case, inputs=inputs, run=(lambda: case.run().to(dtype)) if case.is_made else case.run)


def shrunk(case: Case) -> Case:
    """With few elements, fewer images. Modules are made for the size of rows: these have fewer rows."""

    def inputs() -> list[torch.Tensor]:
        found = []
        for x in case.inputs():
            shape = [small(size) if not (case.is_made and dim) else size for dim, size in enumerate(x.shape)]
            shape[:1] = [min(shape[0], 4)] if x.dim() == 4 else shape[:1]
            x = x.as_strided(shape, torch.empty(shape, device="meta").stride()).clone()
            found.append(x if x.is_floating_point() else x % small(LABELS))
        return found

    return replace(case, inputs=inputs)


def through(compiler: Callable[[torch.fx.GraphModule], Callable[..., Any]]) -> Callable[..., Any]:
    """A backend with the graphs that kernels are made of, each of which `compiler` makes a function of."""

    def of_list(module, examples):
        run = compiler(module)
        return lambda args: run(*args)

    def graph(module, examples):
        return compiler(module)

    settings = replace(FUSED, forward=graph, backward=of_list, inference=graph, passes=Passes(frozenset()))
    return lambda module, examples: compile_graph(module, examples, settings)


def checked(kernel: Kernel, buffers, sizes, scalars) -> None:
    """Runs it in the evaluator; in Triton it does the same."""
    dtype = F if all(buffer.dtype is not BF for buffer in kernel.buffers) else BF
    compare(kernel, buffers, sizes, scalars, close=CLOSE[dtype])
    evaluate.run(kernel, buffers, sizes, scalars)


def cases(quick: Callable[[Case, str, torch.dtype], bool]) -> list[Any]:
    """Every program forward and training, in both dtypes; in CI those that are `quick`."""
    return [
        pytest.param(case, mode, dtype, marks=() if quick(case, mode, dtype) else pytest.mark.long,
                     id=f"{case.name}-{mode}-{str(dtype).removeprefix('torch.')}")
        for case in CASES for mode in MODES for dtype in CLOSE
        if (case.trains or mode == "forward")
    ]  # fmt: skip


TRAINING_IF_ANY = cases(lambda case, mode, dtype: case.trains == (mode == "training"))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case, mode, dtype", TRAINING_IF_ANY)
def test_program(case: Case, mode: str, dtype: torch.dtype) -> None:
    """A training's forward graph has the kernels of its forward one, and what it saves."""

    def compiler(module: torch.fx.GraphModule) -> Callable[..., Any]:
        made = schedule(lower(module))
        return lambda *args: tuple(evaluated(made, args, checked))

    case = shrunk(of_dtype(case, dtype))
    with torch.set_grad_enabled(mode == "training"):
        torch.manual_seed(1)
        expected = call_of(case, mode, lambda program: program)()
        torch.manual_seed(1)
        found = call_of(case, mode, lambda program: jit.compile(program, backend=through(compiler)))()
    for ours, theirs in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        if theirs is None:  # an optimizer's step
            assert ours is None
            continue
        error, size = (ours.double() - theirs.double()).norm(), theirs.double().norm() + theirs.numel() ** 0.5
        assert error <= FAR[dtype] * size


@cache
def is_compiled(kernel: Kernel, capability: int) -> None:
    compiles(kernel, capability)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("capability", [90, *(pytest.param(other, marks=pytest.mark.long) for other in (80, 100))])
@pytest.mark.parametrize("case, mode, dtype", TRAINING_IF_ANY)
def test_compiled(case: Case, mode: str, dtype: torch.dtype, capability: int) -> None:
    kernels: list[Kernel] = []

    def compiler(module: torch.fx.GraphModule) -> Callable[..., Any]:
        kernels.extend(schedule(lower(module)).kernels)
        return direct(module)

    with torch.set_grad_enabled(mode == "training"):
        call_of(of_dtype(case, dtype), mode, lambda program: jit.compile(program, backend=through(compiler)))()
    for kernel in kernels:
        is_compiled(replace(kernel, name="kernel", sources=()), capability)
