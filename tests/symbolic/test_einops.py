"""einops: patterns are parsed once, by cached functions of the library, and what they remember is no break."""

import einops
import pytest
import torch
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

import jit
from tests.differential import check

X = torch.arange(48.0).reshape(2, 4, 6)


def rearranged(x):
    return einops.rearrange(x, "a (b c) d -> c (a d) b", b=2), einops.rearrange(x, "... d -> d ...")


def reduced(x):
    means = einops.reduce(x, "a b (c d) -> a c", "mean", d=3)
    return means, [einops.reduce(x, "a b c -> b", kind) for kind in ("max", "min", "sum", "prod")]


def reduced_by_a_function(x):
    return einops.reduce(x, "a (b k) c -> a b c", lambda t, axes: t.amin(dim=axes), k=2)


def repeated(x):
    return einops.repeat(x, "a b c -> a (b n) c m", n=2, m=3) + 1


def summed(x):
    return einops.einsum(x, x, "batch one d, batch two d -> batch one two")


def packed(x):
    together, shapes = einops.pack([x, x[:, 0], x.transpose(1, 2)], "b *")
    first, second, third = einops.unpack(together * 2, shapes, "b *")
    return first, second, third, shapes


def listed(x):
    return einops.rearrange([x, x + 1], "n a b c -> a (n b) c")


def parsed(x):
    return x * einops.parse_shape(x, "a _ c")["c"], einops.parse_shape(x, "a b c")


def refused(x):
    try:
        return einops.rearrange(x, "a b -> b a")
    except einops.EinopsError as error:
        return str(error), x + 1


def refused_by_the_shape(x):
    try:
        return einops.rearrange(x, "a (b c) d -> a b c d", b=3)
    except einops.EinopsError as error:
        return str(error), x + 1


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Sequential(nn.Linear(6, 12), Rearrange("b t (three h d) -> three b h t d", three=3, h=2))
        self.mix = EinMix("b t d -> b t e", weight_shape="d e", bias_shape="e", d=4, e=3)
        self.pool = Reduce("b t e -> b e", "max")

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = einops.einsum(q, k, "b h i d, b h j d -> b h i j").softmax(-1)
        return self.pool(self.mix(einops.rearrange(weights @ v, "b h t d -> b t (h d)")))


PROGRAMS = [rearranged, reduced, reduced_by_a_function, repeated, summed, packed, listed, parsed, refused, refused_by_the_shape]


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager_code(program):
    check(program, X)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program):
    program(X)  # einops looks for its backend
    jit.compile(program, fullgraph=True)(X)


@pytest.mark.parametrize("program", [rearranged, reduced, repeated, summed, packed, parsed])
def test_sizes_that_vary_compile_nothing_anew(program):
    program(X)
    compiled = jit.compile(program, fullgraph=True)
    for n in (2, 3):
        compiled(X[:, :, :1].repeat(n, 1, 6))
    with jit.set_stance("fail_on_recompile"):
        for n in (4, 7):
            x = torch.randn(n, 4, 6)
            torch.testing.assert_close(compiled(x), program(x))


def test_a_model_and_its_gradients():
    model = Attention()
    model(X)
    check(model, X)
    jit.compile(model, fullgraph=True)(X).sum().backward()
    assert model.mix.weight.grad is not None


def test_what_is_remembered_and_written_to_is_read_anew():
    recipe = einops.einops._prepare_transformation_recipe("a b c -> c b a", "rearrange", (), 3)

    def program(x):
        return x.sum() + len(einops.einops._prepare_transformation_recipe("a b c -> c b a", "rearrange", (), 3).axes_permutation)

    compiled = jit.compile(program, fullgraph=True)
    assert compiled(X) == program(X)
    recipe.axes_permutation.append(0)
    try:
        assert compiled(X) == program(X)
    finally:
        recipe.axes_permutation.pop()
