"""Normalisations that become part of a convolution, and those that do not."""
import pytest
import torch
import torch.nn.functional as F

from codegen.passes import table
from tests.codegen.passes.checking import Checked
from tests.codegen.passes.test_functional import graphs_of, only, targets

BATCH_NORMS = {"native_batch_norm", "_native_batch_norm_legit_no_training"}


def inputs(channels=4, size=9, dtype=torch.float32, dims=2, groups=1):
    torch.manual_seed(0)
    x = torch.randn(2, 3 * groups, *[size] * dims, dtype=dtype)
    weight = torch.randn(channels, 3, *[1] * dims, dtype=dtype)
    return [x, weight, *(torch.rand(channels, dtype=dtype) + 0.5 for _ in range(5))]


def normalised(x, weight, bias, mean, variance, scale, shift):
    return [F.batch_norm(F.conv2d(x, weight, bias), mean, variance, scale, shift)]


def plain(x, weight, bias, mean, variance, scale, shift):
    return [F.batch_norm(F.conv2d(x, weight), mean, variance)]


def in_one_dimension(x, weight, bias, mean, variance, scale, shift):
    return [F.batch_norm(F.conv1d(x, weight, bias, padding=1), mean, variance, scale, shift, eps=1e-3)]


def into_another(x, weight, bias, mean, variance, scale, shift):
    return [F.conv2d(*normalised(x, weight, bias, mean, variance, scale, shift), weight.transpose(0, 1))]


def grouped(x, weight, bias, mean, variance, scale, shift):
    return [F.batch_norm(F.conv2d(x, weight, bias, stride=2, groups=2), mean, variance, scale, shift)]


FIRES = {
    "all": (normalised, inputs()),
    "double": (normalised, inputs(dtype=torch.float64)),
    "without weights": (plain, inputs()),
    "one dimension": (in_one_dimension, inputs(dims=1, size=20)),
    "into another": (into_another, inputs()),
    "grouped": (grouped, inputs(groups=2, size=15)),
}


def found_in(program, given, passes=None):
    with torch.no_grad():
        call, (graph,) = graphs_of(program, given, passes or only("normalised"))
        return call(*given), bool(BATCH_NORMS & set(targets(graph)))


@pytest.mark.parametrize("name", FIRES)
def test_fires(name):
    program, given = FIRES[name]
    (found,), is_left = found_in(program, given)
    (expected,) = program(*given)
    assert not is_left and found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)
    assert found_in(program, given, only())[1]


def test_weights_may_be_written_between_calls():
    given = inputs()
    call, _ = graphs_of(normalised, given, Checked())
    for _ in range(2):
        torch.testing.assert_close(call(*given), normalised(*given))
        given[1].mul_(2)
        given[4].add_(1)


STAYS = {
    "a pointwise operation follows": (lambda *given: [normalised(*given)[0].relu()], inputs()),
    "many weights": (normalised, inputs(size=2)),
    "of the batch": (lambda x, w, b, m, v, s, t: [F.batch_norm(F.conv2d(x, w, b), m.clone(), v.clone(), s, t, True)], inputs()),
    "read before": (lambda x, w, b, m, v, s, t: (lambda y: [y, F.batch_norm(y, m, v, s, t)])(F.conv2d(x, w, b)), inputs()),
    "no convolution": (lambda x, w, b, m, v, s, t: [F.batch_norm(x, m[:3], v[:3])], inputs()),
    "transposed": (lambda x, w, b, m, v, s, t: [F.batch_norm(F.conv_transpose2d(x, w[:3]), m[:3], v[:3])], inputs()),
    "halves": (normalised, inputs(dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    program, given = STAYS[name]
    found, _ = found_in(program, given)
    assert all(map(torch.equal, found, program(*given)))
    with torch.no_grad():
        graphs = [graphs_of(program, given, passes)[1][0] for passes in (only(), only("normalised"))]
    assert targets(graphs[0]) == targets(graphs[1])


def test_not_in_training():
    """Gradients of the weights are asked for."""
    given = [each.requires_grad_(at in (0, 1)) for at, each in enumerate(inputs())]
    call, (forward, _) = graphs_of(normalised, given, Checked())
    assert BATCH_NORMS & set(targets(forward))
    assert "normalised" in [each.name for each in table() if each.when == ("inference",)]
