"""Zeros and ones that are drawn as bools where kernels turn them into floats: the same numbers, in less memory."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import jit
from codegen.aot.draws import AS_BOOLS
from codegen.aot.partition import min_cut_partition
from tests.codegen.passes.test_functional import graphs_of, targets


def drawn(*shape, **options):
    return torch.empty(*shape, **options).bernoulli_(0.3)


def in_a_part(x):
    y = x * 2
    y[1:, ::2].bernoulli_(0.3)
    y[0].bernoulli_(0.6)
    return y * x, y


def twice(x):
    """What is drawn is written again, and drawn over."""
    y = torch.empty_like(x).bernoulli_(0.3)
    z = y.clone()
    y.mul_(x).bernoulli_(0.5)
    return y * x, z, torch.rand(3)


def by_a_generator(x):
    source = torch.Generator().manual_seed(5)
    return torch.empty_like(x).bernoulli_(0.3, generator=source) * x, torch.rand(3, generator=source)


def checkpointed(x):
    return checkpoint(lambda y: F.dropout((y * 2).sin(), 0.3).exp(), x, use_reentrant=False)


PROGRAMS = {
    "dropout": lambda x: F.dropout(x, 0.3).exp(),
    "in place": lambda x: F.dropout(x * 2, 0.3, inplace=True).exp(),
    "of another order": lambda x: F.dropout(x.transpose(0, 1), 0.3).exp(),
    "with gaps": lambda x: F.dropout(x[:, ::2], 0.3).exp(),
    "expanded": lambda x: F.dropout(x[:1].expand(4, *x.shape[1:]), 0.3).exp(),
    "whole channels": lambda x: F.dropout1d(x, 0.3).exp(),
    "alpha": lambda x: F.alpha_dropout(x, 0.3, training=True).exp(),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3),
    "half": lambda x: F.dropout(x.half(), 0.3) * 3,
    "single": lambda x: F.dropout(x.float(), 0.3).exp(),
    "results": lambda x: (torch.empty_like(x).bernoulli_(0.3), x * drawn(6, 5), drawn(3, dtype=torch.int64), drawn(3, dtype=torch.bool), x.exp()),
    "nothing": lambda x: F.dropout(x[:0], 0.3).exp(),
    "in a part": in_a_part, "twice": twice, "by a generator": by_a_generator, "checkpointed": checkpointed,
}


def outcome(program, x, gradients):
    torch.manual_seed(3)
    x = x.double().requires_grad_(gradients)
    found = program(x)
    found = list(found) if isinstance(found, tuple) else [found]
    if gradients:
        first = torch.autograd.grad(sum((y.double() ** 2).sum() for y in found if y.requires_grad), x, create_graph=True)
        found += [*first, *torch.autograd.grad(first[0].sum(), x)] if first[0].requires_grad else first
    return found, torch.get_rng_state().tolist()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("gradients", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_those_of_eager_code(name, gradients, dynamic):
    compiled = jit.compile(PROGRAMS[name], backend="default", dynamic=dynamic)
    for x in (torch.randn(4, 6, 5), torch.randn(4, 6, 5)):
        (expected, state), (found, our_state) = (outcome(each, x, gradients) for each in (PROGRAMS[name], compiled))
        assert state == our_state
        strides, ours = ([each.stride() for each in every] for every in (expected, found))
        assert strides[:-1] == ours[:-1]  # the last may be a gradient of a gradient
        for a, b in zip(expected, found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_all_or_nothing(probability):
    x = torch.randn(4, 5)
    program = lambda x: F.dropout(x, probability) * torch.empty_like(x).bernoulli_(probability)
    (expected, state), (found, our_state) = (outcome(each, x, True) for each in (program, jit.compile(program, backend="default")))
    assert state == our_state and all(map(torch.equal, expected, found))


def test_a_probability_that_is_none():
    def program(x, p):
        return torch.empty_like(x).bernoulli_(p) * x

    with pytest.raises(RuntimeError) as caught:
        program(torch.ones(3), 1.5)
    with pytest.raises(RuntimeError) as ours:
        jit.compile(program, backend="default")(torch.ones(3), 1.5)
    assert str(ours.value) == str(caught.value)


def test_a_quarter_of_the_memory_is_kept():
    """The mask, as bools; the rest is computed from it again."""
    class Layer(nn.Module):
        def forward(self, x, w):
            return [F.dropout(x @ w, 0.3).sum()]

    x, w = torch.randn(512, 64, requires_grad=True), torch.randn(64, 512)
    for settings, size in (({}, 4), ({"decompositions": AS_BOOLS}, 1)):
        _, (forward, backward) = graphs_of(Layer(), (x, w), lambda stage, graph: False, partition=min_cut_partition, **settings)
        kept = [saved for saved in forward.meta["partition"].tensors if saved.origin != "an input"]
        assert [saved.bytes for saved in kept] == [512 * 512 * size]
        assert "bernoulli.p" not in targets(backward)
