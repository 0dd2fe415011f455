"""On a GPU: kernels in all their tiles do what the evaluator does; so do products of matrices, and several copies at once.

Run by `python3 -m tools.run_cuda`."""

from __future__ import annotations

import pytest
import torch

from codegen.artifacts.store import Store
from codegen.kernels import evaluate
from codegen.kernels.ir import Kernel
from codegen.kernels.measure import launch
from codegen.kernels.triton_shape import reports_errors
from codegen.kernels.triton_tune import Printed, forms, made, repeated
from codegen.plan.build import build
from tests.codegen.kernels import test_triton_dot
from tests.codegen.kernels.c_runs import CLOSE
from tests.codegen.kernels.test_c import op_cases, op_kernel, operands
from tests.codegen.kernels.test_c_shapes import KERNELS, filled

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
#: Of functions that the evaluator computes on a CPU, and of sums in another order.
LOOSE = {torch.float32: (1e-4, 1e-4), torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2)}


def run(kernel: Kernel, printed: Printed, given: list[torch.Tensor], sizes=(), scalars=()) -> list[torch.Tensor]:
    """The buffers afterwards."""
    capability = torch.cuda.get_device_capability()
    compiled = made(kernel, printed, 10 * capability[0] + capability[1], store=Store(None, 0))
    there = [tensor.cuda() for tensor in given]
    known = dict(zip(kernel.sizes, sizes, strict=True))
    build(launch(kernel, printed, compiled, known, scalars, torch.device("cuda:0")))(*there)
    torch.cuda.synchronize()
    return [tensor.cpu() for tensor in there]


def check(kernel: Kernel, given: dict[str, torch.Tensor], sizes=(), scalars=(), most: int | None = None) -> None:
    expected = {name: tensor.clone() for name, tensor in given.items()}
    evaluate.run(kernel, expected, sizes, scalars)
    for printed in forms(kernel, dict(zip(kernel.sizes, sizes)), most):
        found = run(kernel, printed, [given[buffer.name] for buffer in kernel.buffers], sizes, scalars)
        for buffer, tensor in zip(kernel.buffers, found):
            rtol, atol = LOOSE.get(tensor.dtype) or CLOSE.get(tensor.dtype, (0, 0))
            torch.testing.assert_close(tensor, expected[buffer.name], rtol=rtol, atol=atol, equal_nan=True,
                                       msg=lambda text: f"{text}\n{buffer.name}, {printed.config}\n{kernel}")  # fmt: skip


@pytest.mark.parametrize("what", [what for what, (kernel, _) in KERNELS.items() if not reports_errors(kernel)])
def test_kernel(what: str) -> None:
    kernel, sizes = KERNELS[what]
    for given in sizes:
        scalars = [3 if scalar.dtype is torch.int64 else 0.25 for scalar in kernel.scalars]
        check(kernel, filled(kernel, given), given, scalars, most=4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_operations(dtype: torch.dtype) -> None:
    for name, of in op_cases():
        if of is dtype:
            kernel, given = op_kernel(name, dtype), operands(name, dtype, 600)
            out = torch.zeros(600, dtype=kernel.buffers[-1].dtype)
            check(kernel, {**{f"x{n}": x for n, x in enumerate(given)}, "out": out}, (600,), most=1)


@pytest.mark.parametrize("what", test_triton_dot.KERNELS)
def test_product(what: str) -> None:
    kernel, sizes = test_triton_dot.KERNELS[what]
    check(kernel, filled(kernel, sizes), sizes)


def test_copies() -> None:
    kernel, _ = KERNELS["layernorm of known sizes"]
    each = [filled(kernel, (), seed) for seed in range(3)]
    printed = repeated(kernel, forms(kernel, {}, 1)[0], 3)
    found = run(kernel, printed, [given[buffer.name] for given in each for buffer in kernel.buffers])
    for copy, given in enumerate(each):
        evaluate.run(kernel, given)
        for at, buffer in enumerate(kernel.buffers):
            tensor = found[copy * len(kernel.buffers) + at]
            torch.testing.assert_close(tensor, given[buffer.name], rtol=1e-4, atol=1e-4)
