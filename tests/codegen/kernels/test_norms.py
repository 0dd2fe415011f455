"""Norms over channels and groups of them: one way through memory, whichever way it lies, and eager's values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import jit
from codegen.kernels.axes import simplify
from codegen.kernels.c_expand import expand
from codegen.kernels.c_shape import in_lanes
from codegen.kernels.ir import Reduce
from codegen.kernels.schedule import Launch
from tests.codegen.kernels.schedules import evaluated, scheduled
from tests.differential import CLOSE

LAYOUTS = [torch.contiguous_format, torch.channels_last]


def groups(x, w, b):
    return F.group_norm(x, 2, w, b)


def groups_written_out(x, w, b):
    y = x.reshape(x.shape[0], 2, -1)
    mean = y.mean(-1, keepdim=True)
    scale = ((y - mean) ** 2).mean(-1, keepdim=True).rsqrt()
    return ((y - mean) * scale).reshape(x.shape) * w[:, None, None] + b[:, None, None]


def groups_of_a_sum(x, w, b):
    return F.silu(F.group_norm(x + x.neg().exp(), 4, w, b))


def batch(x, w, b):
    return F.batch_norm(x, None, None, w, b, True)


def batch_of_known_statistics(x, w, b):
    return F.batch_norm(x, b.detach(), w.detach() ** 2, w, b, False)


PROGRAMS = [groups, groups_written_out, groups_of_a_sum, batch, batch_of_known_statistics]


def made(shape, layout):
    torch.manual_seed(0)
    return torch.randn(shape).to(memory_format=layout), torch.randn(shape[1]), torch.randn(shape[1])


#: Torch 2.13 dies of a segmentation fault in the backward of channels_last groups where only weights want gradients.
CASES = [(layout, wanted) for layout in LAYOUTS for wanted in [(0, 1, 2), (0,), (1, 2)]][:-1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout, wanted", CASES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(program, layout, wanted):
    found = []
    for function in (program, jit.compile(program, backend="default")):
        args = [x.requires_grad_(at in wanted) for at, x in enumerate(made((3, 8, 5, 4), layout))]
        out = function(*args)
        found.append([out, *torch.autograd.grad((out * out.detach().cos()).sum(), [args[at] for at in wanted])])
    for eager, ours in zip(*found, strict=True):
        assert eager.stride() == ours.stride()
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=10 * CLOSE[1])


@pytest.mark.parametrize("program, kernels", [(groups, 1), (groups_written_out, 1), (groups_of_a_sum, 2)])
def test_rows_that_end_within_an_axis(program, kernels):
    """A group of channels is a row: its statistics and what is made of them are one kernel."""
    args = made((3, 8, 5, 4), torch.contiguous_format)
    found = scheduled(program, *args)
    torch.testing.assert_close(evaluated(found, args)[0], program(*args))
    assert sum(isinstance(step, Launch) for step in found.steps) == kernels, str(found)


@pytest.mark.parametrize("program", [groups, batch, lambda x, w, b: x.sum((0, 2, 3))])
def test_what_lies_next_to_each_other_becomes_vectors(program):
    args = made((4, 32, 64, 32), torch.channels_last)
    found = scheduled(program, *args)
    reducing = [k for k in found.kernels if any(isinstance(s, Reduce) for loop in k.loops for s in loop.body)]
    large = [k for k in reducing if any(buffer.size.constant == 4 * 32 * 64 * 32 for buffer in k.buffers)]
    assert large, str(found)
    assert all(in_lanes(expand(simplify(kernel))) for kernel in large), str(found)


def test_what_is_written_with_leaps_has_a_kernel_of_its_own():
    args = made((4, 32, 64, 32), torch.channels_last)
    last = scheduled(groups, *args).kernels[-1]
    assert [axis.size.constant for axis in last.axes] == [4, 64, 32, 32]
