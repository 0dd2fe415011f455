"""Products of matrices as kernels: with their neighbours in one, right in tiles of tensor cores, left alone where they lose."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from codegen.kernels import evaluate
from codegen.kernels.groups import Call
from codegen.kernels.products import is_candidate, is_quick, passes_after, scheduled
from codegen.kernels.triton_dot import product_of
from codegen.kernels.triton_tune import forms
from tests.codegen.kernels.schedules import evaluated, traced
from tests.codegen.kernels.triton_runs import compare

BF = torch.bfloat16
CLOSE = {torch.float32: (1e-4, 1e-4), BF: (5e-2, 5e-2)}


def linear(x, w, b):
    return F.gelu(torch.addmm(b, x, w.t()))


def scaled(x, w, b):
    return torch.addmm(b, x, w.t(), beta=0.5, alpha=2.0)


def no_bias(x, w, b):
    return torch.addmm(b * torch.nan, x, w.t(), beta=0)


def before(x, w, b):
    return F.silu(x) @ w.t() + b


def residual(x, w, b):
    return x + F.relu((x @ w.t()[:, : x.shape[1]]))


def gated(x, w, b):
    return F.silu(x @ w.t()) * (x @ (w.t() * 2)) + b


def heads(x, w, b):
    q, k = x.view(4, 5, -1), w[:20].view(4, 5, -1)
    return torch.bmm(q, k.transpose(1, 2)) * 0.125


def two_layers(x, w, b):
    return torch.relu(x @ w.t() + b) @ w


def through_softmax(x, w, b):
    return (x @ w.t() + b).softmax(-1)


#: program: kernels, how many of them are products in tiles
PROGRAMS = {linear: (1, 1), scaled: (1, 1), no_bias: (1, 1), before: (1, 1), residual: (1, 1), heads: (1, 1), two_layers: (2, 2),
            through_softmax: (2, 1), gated: (1, 1)}  # fmt: skip


def always(node) -> bool:
    return True


def given(dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(20, 34, dtype=dtype), torch.randn(50, 34, dtype=dtype), torch.randn(50, dtype=dtype)]


def printed(kernel, form):
    return form.source, form.programs


def checked(kernel, buffers, sizes, scalars) -> None:
    dtype = BF if any(buffer.dtype is BF for buffer in kernel.buffers) else torch.float32
    compare(kernel, buffers, sizes, scalars, close=CLOSE[dtype], configs=forms(kernel, {}, 2), printer=printed)
    evaluate.run(kernel, buffers, sizes, scalars)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program, dtype: torch.dtype) -> None:
    args = given(dtype)
    made = scheduled(traced(program, *args), always)
    products = [kernel for kernel in made.kernels if product_of(kernel) is not None]
    assert (len(made.kernels), len(products)) == PROGRAMS[program], made
    assert not any(isinstance(step, Call) for step in made.steps), made
    (found,) = evaluated(made, args, checked)
    expected = program(*args)
    torch.testing.assert_close(found, expected, rtol=CLOSE[dtype][0], atol=20 * CLOSE[dtype][1] if dtype is BF else 1e-4)


def test_those_that_lose_are_atens() -> None:
    args = given(torch.float32)
    graph = traced(two_layers, *args)
    first = next(node for node in graph.graph.nodes if is_candidate(node))
    made = scheduled(graph, lambda node: node is first)
    assert sum(isinstance(step, Call) for step in made.steps) == 1 and len(made.kernels) == 1
    torch.testing.assert_close(evaluated(made, args)[0], two_layers(*args), rtol=1e-4, atol=1e-4)


def test_sizes_that_vary_and_others_are_no_candidates() -> None:
    def candidates(program, *args, **options):
        return [node for node in traced(program, *args, **options).graph.nodes if is_candidate(node)]

    args = given(torch.float32)
    assert len(candidates(two_layers, *args)) == 2
    assert not candidates(two_layers, *args, dynamic=True)
    assert not candidates(lambda a, b: a @ b, torch.ones(3, 0), torch.ones(0, 4))


def test_doubles_are_atens() -> None:
    args = given(torch.float64)
    made = scheduled(traced(linear, *args), always)
    assert any(isinstance(step, Call) for step in made.steps)


def test_what_follows_at_once_is_spared_a_pass() -> None:
    args = given(torch.float32)
    nodes = [node for node in traced(two_layers, *args).graph.nodes if is_candidate(node)]
    assert [passes_after(node) for node in nodes] == [True, False]


def test_a_sum_of_products_that_is_no_tile_is_slow() -> None:
    """Written out it is one: of three factors it is none."""
    a, b, c = torch.randn(8, 9), torch.randn(9, 7), torch.randn(8, 7)

    def written(a, b, c):
        return (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)

    def of_three(a, b, c):
        return ((a.unsqueeze(2) + c.unsqueeze(1)) * b.unsqueeze(0)).sum(1)

    quick, other = (scheduled(traced(program, a, b, c), always).kernels for program in (written, of_three))
    assert product_of(quick[0]) is not None and is_quick(quick[0])
    assert product_of(other[0]) is None
