"""On a GPU: the benchmark's programs, compiled, give what eager gives; and they are kernels of ours, not ATen's.

Run by `python3 -m tools.run_cuda`."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

import jit
from tools.bench_cuda import DTYPES, compare, on_device
from tools.bench_kernels import MODES, call_of
from tools.bench_programs import CASES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_program(case, mode: str, dtype: str) -> None:
    if mode == "training" and not case.trains:
        pytest.skip("has no gradient")
    case = on_device(case, DTYPES[dtype], "cuda")
    with torch.set_grad_enabled(mode == "training"):
        torch.manual_seed(1)
        expected = [x.clone() if isinstance(x, torch.Tensor) else x for x in tree_leaves(call_of(case, mode, lambda program: program)())]
        torch.manual_seed(1)
        call = call_of(case, mode, lambda program: jit.compile(program, backend="default"))
        torch.manual_seed(1)
        found = tree_leaves(call())
        if not case.is_random:
            compare(found, expected, 1e-3 if dtype == "float32" else 0.1)
        again = tree_leaves(call())
    assert len(again) == len(found)


def test_kernels_are_launched() -> None:
    def program(x, w):
        return torch.softmax(x * w + 1, -1)

    x, w = torch.randn(64, 300, device="cuda"), torch.randn(300, device="cuda")
    compiled = jit.compile(program, backend="default", fullgraph=True)
    compiled(x, w)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        found = compiled(x, w)
        torch.cuda.synchronize()
    torch.testing.assert_close(found, program(x, w))
    assert any("_fused_" in event.key for event in profile.key_averages()), profile.key_averages()
