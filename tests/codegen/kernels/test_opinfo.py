"""Torch's own table of operations through the lowering: a sample of it, and (long) all of it. See `opinfo`."""

from __future__ import annotations

import pytest

from tests.codegen.apart import chosen, verdicts

#: Wholly definitions, with their gradients.
WHOLE = """
    add mul div.no_rounding_mode pow exp sum mean prod var std amax argmax cumsum logsumexp where cat stack split unbind chunk t permute
    expand diagonal masked_fill clamp tril triu flip roll repeat select slice_scatter select_scatter unsqueeze
    softmax log_softmax nn.functional.layer_norm nn.functional.group_norm nn.functional.batch_norm nn.functional.gelu
    nn.functional.silu nn.functional.softplus nn.functional.mse_loss nn.functional.cross_entropy nn.functional.huber_loss
    nn.functional.binary_cross_entropy_with_logits nn.functional.nll_loss nn.functional.pad.constant nn.functional.glu
    native_layer_norm arange full_like eye to zeros_like
""".split()
#: Partly.
MIXED = "matmul bmm index_select gather nn.functional.embedding nn.functional.conv2d nn.functional.dropout sort".split()


@pytest.fixture(scope="module")
def sampled(request):
    return verdicts("kernels.opinfo", "--samples", "2", *chosen(request, [*WHOLE, *MIXED]))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", WHOLE)
def test_whole(name, sampled):
    assert sampled[name] and [v for v in sampled[name] if v["outcome"] != "whole"] == []


@pytest.mark.parametrize("name", MIXED)
def test_mixed(name, sampled):
    assert sampled[name] and [v for v in sampled[name] if v["outcome"] not in ("whole", "partly", "not")] == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_wrong():
    found = [v for vs in verdicts("kernels.opinfo", "--samples", "4", "--processes", "2").values() for v in vs]
    assert len(found) > 7000
    assert [v for v in found if v["outcome"] in ("wrong", "error")] == []
