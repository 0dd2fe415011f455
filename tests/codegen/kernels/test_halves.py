"""Half numbers are rounded where eager code rounds them: to the bit, where that computes in vectors."""

import pytest
import torch

import jit

functional = torch.nn.functional
PROGRAMS = [
    *(lambda x, y: x + 0.3, lambda x, y: 0.3 - x, lambda x, y: x - torch.tensor(0.3), lambda x, y: torch.tensor(0.7) + x),
    *(lambda x, y: x * 0.3, lambda x, y: x / 0.3, lambda x, y: 0.3 / x, lambda x, y: x > 0.3, lambda x, y: x.clamp(0.3, 0.7)),
    *(lambda x, y: torch.add(x, y, alpha=0.3), lambda x, y: torch.sub(x, y, alpha=0.3), lambda x, y: torch.rsub(x, y, alpha=0.3)),
    *(lambda x, y: torch.add(x, 0.7, alpha=0.3), lambda x, y: x * 0.3 + y * 0.7 - 0.1, lambda x, y: torch.addcmul(x, x, y, value=0.3)),
    *(lambda x, y: x**2, lambda x, y: x**3, lambda x, y: x**-1, lambda x, y: x**-2, lambda x, y: x.abs() ** 1.7, lambda x, y: 1.7**x),
    *(lambda x, y: torch.xlogy(x, y.abs()), lambda x, y: x.logit(0.1), lambda x, y: x.sigmoid().logit()),
    *(lambda x, y: functional.mse_loss(x, y, reduction="none"), lambda x, y: torch.linspace(-0.3, 2.7, 1024, dtype=x.dtype) + x),
    *(lambda x, y: x.view(256, 4).logsumexp(1), lambda x, y: (x * 9).view(2, 512).logsumexp(0, keepdim=True)),
    lambda x, y: functional.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none"),
    lambda x, y: functional.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=y.abs(), weight=x.abs(), reduction="none"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program, dtype):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1024, generator=generator).to(dtype) for _ in range(2))
    expected, found = program(x, y), jit.compile(program, backend="default")(x, y)
    assert found.dtype == expected.dtype
    other = int(((found != expected) & ~(found.isnan() & expected.isnan())).sum())
    assert other <= 4  # of those that lie in the middle


@pytest.mark.parametrize("program", [torch.relu, lambda x: x.clamp(min=0), lambda x: x.clamp(0, 1), functional.relu6])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_zeros_keep_their_sign(program, dtype):
    x = torch.tensor([-0.0, 0.0, -1.0, 1.0, float("nan")] * 8, dtype=dtype)
    expected, found = program(x), jit.compile(program, backend="default")(x)
    assert torch.equal(found.nan_to_num(5), expected.nan_to_num(5))
    assert torch.equal(found.signbit(), expected.signbit())
