"""Floats of 8 bits, which CUDA has: the bits are torch's, for every number that they are made of."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from codegen.kernels.groups import Call
from codegen.kernels.lowering.lower import lower
from codegen.kernels.schedule import schedule
from codegen.kernels.triton_shape import Config
from tests.codegen.kernels.test_c import conversion_kernel
from tests.codegen.kernels.test_triton_compile import compiles
from tests.codegen.kernels.triton_runs import run_triton

F, H, BF = torch.float32, torch.float16, torch.bfloat16
EIGHTS = [torch.float8_e4m3fn, torch.float8_e5m2]


def converted(x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    given = {"x": x, "out": torch.zeros(len(x), dtype=to)}
    bad, found = run_triton(conversion_kernel(x.dtype, to), Config(1024), given, (len(x),))
    assert not bad
    return found["out"]


def bits(x: torch.Tensor) -> torch.Tensor:
    """A NaN is a NaN, whatever its bits."""
    return x.view(torch.uint8).where(~x.float().isnan(), 255)


def numbers() -> torch.Tensor:
    """Every float16 and bfloat16, and those next to them."""
    all_bits = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
    found = torch.cat([all_bits.view(H).float(), all_bits.view(BF).float()])
    up, down = (found.nextafter(torch.full_like(found, end)) for end in (math.inf, -math.inf))
    return torch.cat([found, up, down])


@pytest.mark.parametrize("eight", EIGHTS, ids=str)
def test_of_every_number(eight: torch.dtype) -> None:
    x = numbers()
    assert torch.equal(bits(converted(x, eight)), bits(x.to(eight)))


@pytest.mark.parametrize("other", [H, BF, torch.float64, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("eight", EIGHTS, ids=str)
def test_from_others_and_back(eight: torch.dtype, other: torch.dtype) -> None:
    x = torch.arange(-40, 40).to(other) if other is not torch.uint8 else torch.arange(80).to(other)
    assert torch.equal(bits(converted(x, eight)), bits(x.to(eight)))
    eighths = torch.arange(1, 0x40, dtype=torch.uint8).view(eight)  # of other types there is no NaN, nor what is too large
    back = converted(eighths, other)
    assert torch.equal(back, eighths.to(other))


@pytest.mark.parametrize("eight", EIGHTS, ids=str)
def test_every_one_of_them(eight: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(eight)
    found, expected = converted(x, F), x.float()
    assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7)) and torch.equal(found.signbit()[:127], expected.signbit()[:127])


def quantised(x, scale):
    return ((x * scale).clamp(-448, 448)).to(torch.float8_e4m3fn)


def restored(x, scale):
    return (x.to(torch.bfloat16) * scale).exp()


def tupled(program, x, scale):
    return (program(x, scale),)


@pytest.mark.parametrize("capability", [80, 90])
def test_a_program_on_cuda(capability: int) -> None:
    with FakeTensorMode():
        scale = torch.empty((), device="cuda:0")
        programs = [(quantised, torch.empty(64, 80, device="cuda:0")), (restored, torch.empty(64, 80, device="cuda:0", dtype=EIGHTS[0]))]
        graphs = [make_fx(partial(tupled, program), tracing_mode="fake")(x, scale) for program, x in programs]
    for graph in graphs:
        made = schedule(lower(graph))
        assert len(made.kernels) == 1 and not any(isinstance(step, Call) for step in made.steps)
        compiles(made.kernels[0], capability)


def test_on_a_cpu_they_are_atens() -> None:
    graph = make_fx(lambda x, s: (quantised(x, s),), tracing_mode="fake")(torch.randn(4, 4), torch.tensor(2.0))
    made = schedule(lower(graph))
    assert [str(step.made[0].node.target) for step in made.steps if isinstance(step, Call)] == ["aten._to_copy.default"]
