"""Memory without gaps, in whatever order of dimensions, of sizes that are known and such that are not."""
import itertools

import pytest
import torch
import torch.nn.functional as F

import jit
from codegen.kernels import index as ix
from codegen.kernels.definitions import dense_order
from tests.differential import check
from tests.symbolic.test_dynamic_sizes import X

N, M = (ix.index(ix.axis("s", number, None)) for number in range(2))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4), (2, 1, 1), (5,), (), (1, 1), (2, 2, 2)])
def test_known_sizes(shape):
    for order in itertools.permutations(range(len(shape))):
        memory = torch.empty([shape[dim] for dim in order])
        tensor = memory.permute([order.index(dim) for dim in range(len(shape))])
        found = dense_order([ix.index(size) for size in tensor.shape], [ix.index(step) for step in tensor.stride()])
        assert found is not None and tensor.permute(found).is_contiguous()
        if tensor.is_contiguous():
            assert found == list(range(len(shape)))


@pytest.mark.parametrize("tensor", [torch.empty(4, 6)[:, ::2], torch.empty(4, 6)[::2], torch.empty(1, 5).expand(3, 5), torch.empty(3).unfold(0, 2, 1)])
def test_gaps_and_overlaps(tensor):
    assert dense_order([ix.index(size) for size in tensor.shape], [ix.index(step) for step in tensor.stride()]) is None


def test_nothing():
    assert dense_order([ix.index(3), ix.index(0)], [ix.index(7), ix.index(1)]) == [0, 1]


def test_sizes_that_vary():
    one = ix.index(1)
    assert dense_order([N, M], [M, one]) == [0, 1]
    assert dense_order([N, M], [one, N]) == [1, 0]
    assert dense_order([N, ix.index(4), M], [M * 4, one, ix.index(4)]) == [0, 2, 1]
    assert dense_order([N, M], [M * 2, one]) is None
    assert dense_order([N, M], [N, one]) is None


def attention(x):
    b, t, c = x.shape
    q = x.view(b, t, 2, c // 2).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(b, t, c) * 2


def shifted(x):
    made = x.new_zeros(x.shape)
    made[..., 1:] = x[..., :-1].clone()
    made[..., 0] = 7
    return made.masked_fill(made == -100, 0) + 1


@pytest.mark.parametrize("program", [attention, shifted])
def test_graphs_of_such_tensors_are_kernels(program):
    shapes = [(2, 3, 8), (3, 5, 8), (4, 4, 8)]
    check(program, X(*shapes[0]), changed=[(X(*shape),) for shape in shapes[1:]], dynamic=True, backend="default", tolerance=(1e-4, 1e-5))
    compiled = jit.compile(program, dynamic=True)
    compiled(X(*shapes[0]))
    assert compiled.debug_state().plans


def test_training_through_attention_of_sizes_that_vary():
    def program(x):
        return attention(x).sum()

    shapes = [(2, 3, 8), (3, 5, 8)]
    make = [lambda shape=shape: (X(*shape, requires_grad=True),) for shape in shapes]
    check(program, make=make[0], changed=make[1:], dynamic=True, backend="default", tolerance=(1e-4, 1e-5))
