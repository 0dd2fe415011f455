"""Torch's own table of operations through compiled kernels: a sample of it, and (long) all of it."""

import pytest

from tests.codegen.apart import chosen, verdicts

PASSED = ("same", "strides", "refused")
#: Each for what it is alone with.
SAMPLE = """
    add div.floor_rounding pow sum var cumsum logcumsumexp softmax max.reduction_with_dim where cat unbind roll index_select gather
    masked_fill diagonal clamp addmm addcmul nn.functional.gelu nn.functional.layer_norm nn.functional.batch_norm
    nn.functional.cross_entropy nn.functional.embedding nn.functional.conv2d nn.functional.pad.constant
""".split()


@pytest.fixture(scope="module")
def sampled(request):
    return verdicts("kernels.opinfo_compiled", "--samples", "1", *chosen(request, SAMPLE))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SAMPLE)
def test_same_as_eager(name, sampled):
    assert sampled[name] and [v for v in sampled[name] if v["outcome"] != "same"] == []


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_nothing_is_wrong():
    found = [v for vs in verdicts("kernels.opinfo_compiled", "--samples", "4", "--processes", "2").values() for v in vs]
    assert len(found) > 6000
    assert [v for v in found if v["outcome"] not in PASSED] == []
