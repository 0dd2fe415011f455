"""Torch's own table of operations through the AOT stage: a sample of it, and (long) all of it. See `opinfo`."""
import pytest

from tests.codegen.apart import chosen, verdicts

PASSED = ("same", "alike")
#: Each for what it is alone with: its results, arguments, derivatives or errors.
SAMPLE = """
    add mul div.no_rounding_mode pow sum mean var cumsum sort topk max.reduction_with_dim where cat stack split unbind chunk t transpose
    permute expand index_select gather scatter_add masked_fill diagonal as_strided as_strided_scatter
    polygamma.polygamma_n_1 conj_physical clamp matmul bmm linalg.qr linalg.svd fft.irfft2 fft.ifft view_as_complex norm.nuc stft
    nn.functional.conv2d nn.functional.batch_norm nn.functional.layer_norm nn.functional.dropout nn.functional.rrelu
    nn.functional.cross_entropy nn.functional.embedding normal.in_place rand_like empty_like item
""".split()
#: What can't be compiled, and why.
REFUSED = {
    "masked_select": "depends on values",
    "nonzero": "depends on values",
    "index_put": "depends on values",
    "tensor_split": "values",
    "resize_": "came to lie elsewhere",
    "to_sparse": "sparse_coo",
    "linalg.eig": "up to a phase",
}
#: What may be refused at all.
REASONS = [*REFUSED.values(), "sparse_csr", "the program made grows", "as_strided_() of an input", "a backward that raises"]


@pytest.fixture(scope="module")
def sampled(request):
    return verdicts("aot.opinfo", "--samples", "2", *chosen(request, [*SAMPLE, *REFUSED]))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SAMPLE)
def test_same_as_eager(name, sampled):
    assert sampled[name] and [v for v in sampled[name] if v["outcome"] not in PASSED] == []


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, sampled):
    assert any(v["outcome"] == "refused" for v in sampled[name])
    assert all(v["outcome"] in PASSED or REFUSED[name] in v["why"] for v in sampled[name])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [(), ("--budget", "0")], ids=["saves all", "saves the least"])
def test_nothing_is_wrong(options):
    found = [v for vs in verdicts("aot.opinfo", "--samples", "4", "--processes", "2", *options).values() for v in vs]
    assert len(found) > 6000
    assert [v for v in found if v["outcome"] not in (*PASSED, "refused")] == []
    assert [v for v in found if v["outcome"] == "refused" and not any(why in v["why"] for why in REASONS)] == []
