"""What eager code refuses to compute is refused by compiled code, in the same words."""

import pytest
import torch

import jit
from tests.differential import check

functional = torch.nn.functional
BOOLS, INTS, FLOATS = torch.ones(3, dtype=torch.bool), torch.arange(3), torch.ones(3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("operation", "given"), [
    *((each, (BOOLS,)) for each in (torch.relu, torch.abs, torch.ceil, torch.round, torch.trunc, functional.silu)),
    *((each, (INTS,)) for each in (functional.gelu, functional.hardsigmoid, functional.hardshrink, torch.frac, functional.mish)),
    *((each, (INTS, INTS)) for each in (torch.hypot, torch.nextafter, torch.logaddexp, torch.logaddexp2)),
    *((each, (BOOLS, BOOLS)) for each in (torch.pow, torch.logaddexp, torch.sub)),
    *((each, (FLOATS, INTS)) for each in (torch.heaviside, torch.bitwise_and, torch.bitwise_left_shift)),
    *((each, (BOOLS,)) for each in (torch.argmax, torch.argmin, torch.std, functional.hardswish)),
    *((each, (INTS,)) for each in (torch.var, functional.logsigmoid)),
    *((each, (INTS, 0)) for each in (torch.softmax, torch.log_softmax, torch.logcumsumexp)),
    *((lambda x: x | 2, (FLOATS,)), (torch.bitwise_not, (FLOATS,)), (lambda x: x - True, (BOOLS,))),
    *((lambda x: torch.lerp(x, x, 2), (INTS,)), (lambda x: torch.addcmul(x, x, x), (BOOLS,))),
])  # fmt: skip
def test_refusals(operation, given, dynamic):
    def program(x, *rest):
        y = (x > 0).float() * 2  # has a kernel
        return y, operation(x, *rest)

    with pytest.raises(RuntimeError) as expected:
        program(*given)
    with pytest.raises(RuntimeError) as found:
        jit.compile(program, backend="default", dynamic=dynamic)(*given)
    assert type(found.value) is type(expected.value) and str(found.value) == str(expected.value)


def test_an_item_that_ones_have_not():
    """What is asked whether eager code refuses it may ask for more than there is in what stands in."""
    check(lambda x: (x[1] + 1, x.select(1, 2) * 2), torch.arange(12).view(3, 4), backend="default")


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.huber_loss, functional.smooth_l1_loss, functional.l1_loss, functional.binary_cross_entropy])
@pytest.mark.parametrize("others", [torch.float64, torch.float16, torch.uint8])
def test_derivatives_of_several_dtypes(loss, others):
    """Which of them eager code takes, differs from torch to torch."""
    x = torch.rand(5, generator=torch.Generator().manual_seed(0))

    def derived(program):
        leaf = x.clone().requires_grad_()
        try:
            program(leaf, (x * 2).to(others).clamp(0, 1)).backward()
        except RuntimeError as error:
            return str(error)
        return leaf.grad

    expected, found = derived(loss), derived(jit.compile(loss, backend="default"))
    assert type(found) is type(expected)
    if isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected)
