"""`round_halves` off: halves are rounded where they are stored or compared, and by default wherever eager code rounds."""

from __future__ import annotations

import pytest
import torch

import jit
from codegen.kernels.schedule import Launch
from codegen.kernels.unrounded import unrounded
from tests.codegen.kernels.schedules import evaluated, scheduled

#: One graph, wherever else tests break it: what one gives another is stored.
FREE = {"round_halves": False, "break_everywhere": False}
HALVES = [torch.float16, torch.bfloat16]


def chain(x, y):
    z = x * y + 0.1
    z = (z * 1.7 - y).sigmoid() * x
    return (z + y) * z - x, z.softmax(-1)


def stepping(x, y):
    z = x * 3 + y
    return z == z.amax(-1, keepdim=True), z.floor() + (z > 1), (z * 2).long(), z.round() % 2


def inputs(dtype):
    torch.manual_seed(0)
    return torch.randn(8, 40).to(dtype), torch.randn(8, 40).to(dtype)


def distance(found, exact):
    return sum(float((a.double() - b).abs().sum()) for a, b in zip(found, exact, strict=True))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_it_is_nearer_to_what_is_exact_and_by_default_as_eager(dtype):
    x, y = inputs(dtype)
    exact = chain(x.double(), y.double())
    eager, default = chain(x, y), jit.compile(chain)(x, y)
    free = jit.compile(chain, options=FREE)(x, y)
    assert [r.dtype for r in free] == [r.dtype for r in eager]
    for a, b in zip(default, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=torch.finfo(dtype).eps, atol=0)
    assert distance(free, exact) < 0.7 * distance(eager, exact)
    assert distance(default, exact) > 0.9 * distance(eager, exact)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_what_steps_sees_rounded_values(dtype):
    """After one operation these are eager's; after several they may be one rounding away."""

    def one(x, y):
        z = x * 3
        return z == z.amax(-1, keepdim=True), z.floor() + (z > 1), z.long(), z.round() % 2, z.isinf()

    x, y = inputs(dtype)
    x[0, 0] = torch.finfo(dtype).max / 2
    free = jit.compile(one, options=FREE)(x, y)
    for a, b in zip(free, one(x, y), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    assert jit.compile(stepping, options=FREE)(x, y)[0].any(-1).all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("program", [chain, stepping])
def test_kernels_mean_what_they_say(program, dtype):
    args = inputs(dtype)
    found = unrounded(scheduled(program, *args))
    for a, b, c in zip(evaluated(found, args), jit.compile(program, options=FREE)(*args), program(*args), strict=True):
        assert a.dtype == b.dtype == c.dtype
        torch.testing.assert_close(a, b, rtol=torch.finfo(dtype).eps, atol=1e-6)
    assert all(step.kernel in found.kernels for step in found.steps if isinstance(step, Launch))


def test_nothing_is_rounded_between():
    args = inputs(torch.bfloat16)
    found = scheduled(lambda x, y: ((x * y).tanh() + x) / y, *args)
    assert str(found.kernels[0]).count("to_bfloat16") == 4
    assert str(unrounded(found).kernels[0]).count("to_bfloat16") == 1


def test_gradients_and_other_dtypes():
    x, y = (v.requires_grad_() for v in inputs(torch.bfloat16))
    found = []
    for function in (chain, jit.compile(chain, options=FREE)):
        out = function(x, y)
        found.append(torch.autograd.grad(out[0].sum() + (out[1] ** 2).sum(), [x, y]))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=0.1, atol=0.1)
    x, y = inputs(torch.float32)
    same, free = jit.compile(chain)(x, y), jit.compile(chain, options=FREE)(x, y)
    assert all(map(torch.equal, same, free))


def test_the_disk_keeps_the_two_apart(monkeypatch, tmp_path):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path))
    x, y = inputs(torch.bfloat16)
    free = jit.compile(chain, options=FREE)(x, y)
    default = jit.compile(chain)(x, y)
    again = jit.compile(chain, options=FREE)(x, y)
    assert all(map(torch.equal, free, again))
    assert not all(map(torch.equal, free, default))
