"""Graphs through the lowering: what the programs of definitions give is what ATen gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from codegen.aot.function import Settings, compile_program
from codegen.aot.numbers import Varying
from codegen.kernels.evaluate_program import run_program
from tests.codegen.kernels.lowered import compare, evaluated, evaluated_list, lowered, symbolic

ROOT = Path(__file__).parents[3]
F, D, B, H = torch.float32, torch.float64, torch.bfloat16, torch.float16
nn = torch.nn.functional


def made(*shape, dtype=F, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=F).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 9, shape, generator=generator).to(dtype)


def specials(dtype):
    """Values at the borders of what functions are made of."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 20.5, -20.5, 1e-6, 90.0, -90.0, 300.0]
    values += [float("inf"), float("-inf"), float("nan")]
    return torch.tensor(values, dtype=dtype)


UNARY = """abs neg exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
    erfinv lgamma sigmoid sqrt rsqrt reciprocal floor ceil trunc round sign sgn square frac deg2rad rad2deg nan_to_num
    isnan isinf signbit isposinf isneginf logical_not relu""".split()
BINARY = """add sub mul div atan2 maximum minimum fmax fmin hypot copysign nextafter remainder fmod floor_divide pow eq ne lt le
    gt ge logical_and logical_or logical_xor heaviside xlogy logaddexp logaddexp2""".split()
WITH_NUMBER = "add sub mul div remainder fmod floor_divide pow eq ne lt le gt ge copysign xlogy clamp_min clamp_max".split()


def same(function, *args, ulps=2.0):
    """Wholly lowered, and the same as ATen."""
    found = lowered(function, args)
    assert not found.called
    compare(found, args, ulps)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [F, D, B, H, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    function = getattr(torch, name)
    x = specials(dtype) if dtype.is_floating_point else made(4, 5, dtype=dtype)
    try:
        function(x)
    except RuntimeError:
        pytest.skip("not for this dtype")
    same(function, x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtypes", [(F, F), (D, D), (B, B), (F, B), (torch.int64, F), (torch.bool, B)], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtypes):
    function = getattr(torch, name)
    if name == "nextafter" and B in dtypes and F not in dtypes:
        pytest.skip("left to ATen")
    values = [specials(dtype) if dtype.is_floating_point else made(18, dtype=dtype) for dtype in dtypes]
    args = values[0][:, None], values[1]
    try:
        function(*args)
    except RuntimeError:
        pytest.skip("not for these dtypes")
    same(function, *args)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", [0.1, 2, -3.5, 1.0])
@pytest.mark.parametrize("dtype", [F, B, H, torch.int64], ids=str)
@pytest.mark.parametrize("name", WITH_NUMBER)
def test_with_a_number(name, dtype, number):
    function = getattr(torch, name)
    x = specials(dtype) if dtype.is_floating_point else made(4, 5, dtype=dtype)
    same(lambda x: function(x, number), x)


@pytest.mark.parametrize("dtypes", [(B, F), (F, B), (F, D), (torch.int64, F), (F, torch.int64)], ids=str)
@pytest.mark.parametrize("name", "add sub mul div maximum atan2 eq lt pow".split())
def test_with_a_tensor_without_dimensions(name, dtypes):
    x = specials(dtypes[0]) if dtypes[0].is_floating_point else made(4, 5, dtype=dtypes[0])
    y = torch.tensor(3, dtype=dtypes[1]) if not dtypes[1].is_floating_point else torch.tensor(0.3, dtype=dtypes[1])
    same(getattr(torch, name), x, y)


ACTIVATIONS = {
    "relu": nn.relu, "relu6": nn.relu6, "hardtanh": nn.hardtanh, "leaky_relu": nn.leaky_relu, "elu": nn.elu, "celu": nn.celu,
    "selu": nn.selu, "silu": nn.silu, "gelu": nn.gelu, "gelu_tanh": lambda x: nn.gelu(x, approximate="tanh"),
    "mish": nn.mish, "softplus": nn.softplus, "hardswish": nn.hardswish, "hardsigmoid": nn.hardsigmoid,
    "logsigmoid": nn.logsigmoid, "hardshrink": nn.hardshrink, "softshrink": nn.softshrink, "tanhshrink": nn.tanhshrink,
    "softsign": nn.softsign, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "logit": torch.logit,
    "threshold": lambda x: nn.threshold(x, 0.5, 3.0), "clamp": lambda x: x.clamp(-0.3, 0.7),
    "pow3": lambda x: x**3, "pow1.5": lambda x: x.abs() ** 1.5, "rsqrt": lambda x: x.abs().rsqrt(),
}  # fmt: skip


#: Where eager's vectors and its single elements differ.
UNSURE = {"gelu": float("inf"), "logit": -0.0}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [F, D, B, H], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_and_gradient(name, dtype):
    borders = specials(dtype)
    if name in UNSURE:
        borders = borders[borders.abs() != abs(UNSURE[name])]
    for x in (made(6, 33, dtype=dtype), borders):
        same(ACTIVATIONS[name], x.requires_grad_(), ulps=2.0 if dtype in (B, H) else 20.0)


# --- more than one dimension ------------------------------------------------------------------------------------------
X = made(3, 4, 5)
COMPOSITES = {
    # views
    "reshape": lambda x: x.reshape(5, 12).relu().view(4, 15), "permute": lambda x: x.permute(2, 0, -2), "t": lambda x: x[0].t(),
    "transpose": lambda x: x.transpose(0, -1), "expand": lambda x: x[:, :1].expand(3, 7, 5), "slice": lambda x: x[1:, ::2, -3:-1],
    "select": lambda x: x[-1, :, 2], "squeeze": lambda x: x[:, :1].squeeze(1) + x[:1, :1].squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(-1).unsqueeze(0), "unbind": lambda x: list(x.unbind(1)), "split": lambda x: list(x.split(2, 1)),
    "split sizes": lambda x: list(x.split([1, 3], -2)), "chunk": lambda x: list(x.chunk(2, 2)), "diagonal": lambda x: x.diagonal(1, 2, 1),
    "movedim": lambda x: x.movedim(0, 2), "unfold": lambda x: x.unfold(2, 3, 2), "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 5),
    "view_as": lambda x: x.view(torch.int32).view(torch.float32) * 2 if not x.requires_grad else x,
    # placement
    "flip": lambda x: x.flip(0, 2), "roll": lambda x: x.roll((1, -2), (0, 2)), "repeat": lambda x: x.repeat(2, 1, 1, 3),
    "tril": lambda x: x.tril(-1), "triu": lambda x: x.triu(1), "pad": lambda x: nn.pad(x, (1, 2, -1, 0), value=3.0),
    "cat": lambda x: torch.cat([x, x[:, :2], x * 2], 1), "stack": lambda x: torch.stack([x, x * 2], 2),
    "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, -1), "slice_scatter": lambda x: x.slice_scatter(x[:, :2] * 2, 1, 0, 4, 2),
    "written in steps": lambda x: torch.zeros_like(x).select(2, 1).copy_(x[:, :, 0]) + x[:, :, 1],
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[:, :, 0] * 0 + 1, 0, 1, 2) if x.dim() > 3 else x.diagonal_scatter(x[:, 0, :4] * 2, 0, 1, 2),
    # new ones
    "to": lambda x: x.to(B).to(D), "full": lambda x: torch.full_like(x, 2) + x.new_zeros(5) + torch.ones(5) + torch.eye(4, 5),
    "arange": lambda x: x + torch.arange(5) * torch.arange(0.1, 2.6, 0.5), "tensor": lambda x: x * torch.tensor([1.0, 2, 3, 4, 5]),
    # reductions
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.sum(-1, dtype=D)), "mean": lambda x: (x.mean(), x.mean((0, 1))),
    "prod": lambda x: (x.prod(), x.prod(1)), "amax": lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min()),
    "max": lambda x: [*x.max(1), *x.min(2, keepdim=True)], "argmax": lambda x: (x.argmax(), x.argmin(1, keepdim=True)),
    "any": lambda x: ((x > 1).any(), (x > -2).all(1), x.any(2)), "var": lambda x: (x.var(), x.std(1), x.var((0, 1), correction=0), x.std(2, correction=2)),
    "var_mean": lambda x: [*torch.var_mean(x, 1), *torch.std_mean(x)], "norm": lambda x: (x.norm(), x.norm(1, 1), x.norm(3, 2), x.norm(float("inf"), 0)),
    "logsumexp": lambda x: x.logsumexp((0, 1)), "cumsum": lambda x: (x.cumsum(1), x.cumprod(-1), x.logcumsumexp(0)),
    "aminmax": lambda x: torch.aminmax(x, dim=1), "nansum": lambda x: x.nansum(1),
    # normalisations
    "softmax": lambda x: (x.softmax(1), x.log_softmax(-1), (-x).softmax(0)), "layer_norm": lambda x: nn.layer_norm(x, (4, 5), x[0] + 1, x[1]),
    "layer_norm plain": lambda x: nn.layer_norm(x, (5,)), "rms_norm": lambda x: nn.rms_norm(x, (5,), x[0, 0] + 1),
    "batch_norm": lambda x: nn.batch_norm(x, torch.zeros(4), torch.ones(4), x[0, :, 0] + 1, x[1, :, 0], training=True),
    "batch_norm eval": lambda x: nn.batch_norm(x, torch.zeros(4), torch.ones(4), x[0, :, 0] + 1, x[1, :, 0]),
    "group_norm": lambda x: nn.group_norm(x, 2, x[0, :, 0] + 1, x[1, :, 0]), "instance_norm": lambda x: nn.instance_norm(x),
    # losses
    "mse": lambda x: (nn.mse_loss(x, -x.detach()), nn.mse_loss(x, x.exp(), reduction="sum")), "l1": lambda x: nn.l1_loss(x, x.detach() * 2),
    "smooth_l1": lambda x: nn.smooth_l1_loss(x, x.detach() * 3, beta=0.7), "huber": lambda x: nn.huber_loss(x, x.detach() * 3, delta=0.7),
    "bce": lambda x: nn.binary_cross_entropy(x.sigmoid(), (x.detach() > 0).to(F), x[0].detach().abs()),
    "bce_with_logits": lambda x: nn.binary_cross_entropy_with_logits(x, (x.detach() > 0).to(F), pos_weight=x[0, 0].detach().abs()),
    "cross_entropy": lambda x: nn.cross_entropy(x.view(12, 5), torch.arange(12) % 5, ignore_index=2),
    "cross_entropy weighted": lambda x: nn.cross_entropy(x, torch.arange(15).view(3, 5) % 4, torch.arange(1.0, 5.0), reduction="none"),
    "cross_entropy smooth": lambda x: nn.cross_entropy(x.view(12, 5), torch.arange(12) % 5, label_smoothing=0.1), "glu": lambda x: nn.glu(x, 1),
    # gathers
    "index": lambda x: (x[torch.tensor([2, -1, 0])], x[:, torch.tensor([[3, -4]]), torch.tensor([[0], [4]])]),
    "index apart": lambda x: x[torch.tensor([1, 0]), :, torch.tensor([-1, 2])],
}  # fmt: skip
#: Gathers have a backward that is ATen's.
FORWARD_ONLY = {
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0, 0])), "gather": lambda x: x.gather(2, torch.tensor([[[4, 0], [1, 1]]])),
    "take": lambda x: x.take(torch.tensor([5, -3])), "embedding": lambda x: nn.embedding(torch.tensor([[1, 0], [2, 2]]), x[0]),
    "one_hot": lambda x: torch.arange(6) == torch.arange(3)[:, None], "where": lambda x: torch.where(x > 0, x, 3),
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [F, D, B], ids=str)
@pytest.mark.parametrize("name", COMPOSITES)
def test_composite_and_gradient(name, dtype):
    function = COMPOSITES[name]
    if dtype is not F and name in ("view_as", "bce", "bce_with_logits", "cross_entropy weighted", "batch_norm", "batch_norm eval"):
        pytest.skip("made for float32")
    if name == "aminmax" and torch.__version__ < "2.12":
        pytest.skip("torch 2.11 has no derivative of aminmax")
    x = X.to(dtype, copy=True)
    forward = lowered(function, [x])
    assert not forward.called
    compare(forward, [x], 4.0 if dtype is B else 16.0)
    x.requires_grad_()
    compare(lowered(function, [x]), [x], 16.0 if dtype is B else 64.0, least=1.0)


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_forward(name):
    forward = lowered(FORWARD_ONLY[name], [X])
    assert not forward.called
    compare(forward, [X])


#: Other sizes that a program can be called with, where not all can be.
SIZES = {"expand": (3, 7, 5), "layer_norm": (6, 4, 5), "layer_norm plain": (6, 7, 5), "rms_norm": (6, 7, 5)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COMPOSITES)
def test_for_all_sizes(name):
    """One program serves several sizes."""
    names = {"reshape", "slice", "squeeze", "unbind", "split", "chunk", "split sizes", "as_strided", "pad", "full", "arange", "tensor",
             "stack", "cross_entropy", "cross_entropy weighted", "cross_entropy smooth", "batch_norm", "batch_norm eval", "glu", "index",
             "index apart", "diagonal_scatter", "norm", "group_norm", "cat"}  # fmt: skip
    if name in names:
        pytest.skip("of fixed sizes")
    if name == "bce" and torch.__version__ < "2.13":
        pytest.skip("torch up to 2.12 takes plain sizes alone for the weights of binary_cross_entropy")
    made_for_all = lowered(COMPOSITES[name], [X], dynamic=True)
    assert made_for_all.program.sizes
    for shape in ((3, 4, 5), SIZES.get(name, (6, 7, 8))):
        compare(made_for_all, [made(*shape)], 16.0)


def test_groups_of_channels_whose_number_varies():
    """Torch has another formula for what becomes of that number."""
    def function(x):
        y = nn.group_norm(x, 2)
        return nn.silu(y) + x, y.sum((0, 2)), torch.cat([x, y], 1)

    made_for_all = lowered(function, [X.detach().requires_grad_()], dynamic=True)
    assert not made_for_all.called
    for shape in ((3, 4, 5), (2, 6, 7)):
        compare(made_for_all, [made(*shape).requires_grad_()], 64.0, least=1.0)


LISTS = {
    "adam": lambda x, g, m: torch._foreach_addcdiv(torch._foreach_mul(x, 0.9), g, torch._foreach_add(torch._foreach_sqrt(torch._foreach_abs(m)), 1e-8), -0.1),
    "lists": lambda x, g, m: [*torch._foreach_add(x, g, alpha=2), *torch._foreach_lerp(x, g, 0.3), *torch._foreach_addcmul(x, g, m, [0.1, 0.2])],
    "more": lambda x, g, m: [*torch._foreach_mul(x, [2.0, 3.0]), *torch._foreach_maximum(x, g), *torch._foreach_pow(x, 2), *torch._foreach_norm(x, 2),
                             *torch._foreach_div(x, 3.0), *torch._foreach_clamp_min(x, 0.1), *torch._foreach_neg(m)],
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_lists(name):
    args = [made(3, 4, seed=1), made(5, seed=2), made(3, 4, seed=3), made(5, seed=4), made(3, 4, seed=5), made(5, seed=6)]
    same(lambda *t: LISTS[name](t[:2], t[2:4], t[4:]), *args, ulps=4.0)


def test_inputs_are_written_at_the_end():
    def step(x, y):
        x.mul_(2)
        y.add_(x)
        return x + y

    found = lowered(step, [made(4), made(4, seed=1)])
    assert [target for target, _ in found.program.writes] == ["primals_1", "primals_2"]
    compare(found, [made(4), made(4, seed=1)])


def test_positions_out_of_range_are_errors():
    for function in (lambda x, i: x[i], lambda x, i: x.index_select(0, i), lambda x, i: nn.embedding(i, x)):
        found = lowered(function, [X[0], torch.tensor([1, 3])])
        compare(found, [X[0], torch.tensor([0, 2])])
        with pytest.raises(IndexError):
            compare(found, [X[0], torch.tensor([0, 4])])


def test_random_numbers_are_left_to_aten():
    found = lowered(lambda x: nn.dropout(x, 0.5) + torch.rand_like(x), [X])
    assert found.called and found.defined
    compare(found, [X], seed=3)


def test_numbers_read_from_tensors():
    found = lowered(lambda x, y: x * y.item() + 1, [X, torch.tensor(0.3)])
    assert not found.called
    compare(found, [X, torch.tensor(0.7)])


def test_random_numbers_drawn_into_new_memory():
    found = lowered(lambda x: nn.dropout(x.transpose(0, 1), 0.5) * 2, [X])
    assert any("bernoulli" in name for name in found.called)
    compare(found, [X], seed=3)


def test_what_is_called_for_its_error():
    x = torch.eye(3) * 2
    found = lowered(lambda x: torch.linalg.cholesky(x) + 1, [x])
    assert "aten._linalg_check_errors.default" in found.called
    compare(found, [x])


@pytest.mark.parametrize("kind, numbers", [(float, (0.5, -3.25)), (int, (2, -3))])
def test_numbers_that_vary(kind, numbers):
    def function(x, n):
        return x * n + n, x.add(1, alpha=n), torch.where(x > 0, x, n)

    graph = lowered(function, [X, Varying(kind)])
    assert not graph.called and graph.program.scalars
    for number in numbers:
        compare(graph, [X, number])


def _mlp(x, w, v):
    hidden = nn.layer_norm(x @ w, (w.shape[1],)).relu()
    return [nn.cross_entropy(hidden @ v, torch.zeros(x.shape[0], dtype=torch.int64)) + hidden.view(-1).mean() * x.shape[0]]


@pytest.mark.parametrize("dynamic", [False, True])
def test_forward_and_backward_are_lowered_each(dynamic):
    settings = Settings(forward=evaluated, backward=evaluated_list, inference=evaluated)
    args = [made(6, 5), made(5, 8, seed=1), made(8, 7, seed=2)]
    compiled = compile_program(_mlp, symbolic(leaves(args)) if dynamic else leaves(args), settings)
    for rows in (6, 9) if dynamic else (6,):
        args[0] = made(rows, 5)
        theirs, ours = leaves(args), leaves(args)
        (expected,), (found,) = _mlp(*theirs), compiled(*ours)
        torch.testing.assert_close(found, expected)
        expected.backward(), found.backward()
        for a, b in zip(theirs, ours):
            torch.testing.assert_close(b.grad, a.grad)


def leaves(tensors):
    return [t.detach().clone().requires_grad_() for t in tensors]


@pytest.mark.parametrize("function", [lambda x: x + 300, lambda x: x.clamp(max=-1), lambda x: x * 2**40], ids=["add", "clamp", "mul"])
def test_numbers_that_do_not_fit_are_left_to_aten(function):
    x = made(5, dtype=torch.int64).to(torch.uint8)
    try:
        function(x)
    except RuntimeError:
        return
    found = lowered(function, [x])
    assert found.called
    compare(found, [x])


MEMORY = {
    "channels_last": lambda x: x.to(memory_format=torch.channels_last) * 2,
    "clone": lambda x: x.permute(0, 2, 3, 1).clone() + 1,
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "empty_like": lambda x: torch.zeros_like(x.transpose(1, 3)) + x.transpose(1, 3),
    "copied": lambda x: torch.empty_strided((2, 3), (1, 2)).copy_(x[0, 0, :2, :3]),
}


@pytest.mark.parametrize("name", MEMORY)
def test_strides_are_those_of_eager(name):
    x = made(2, 3, 4, 5)
    found = lowered(MEMORY[name], [x])
    assert not found.called
    (ours,) = run_program(found.program, {"primals_1": x})
    assert ours.stride() == MEMORY[name](x).stride()
    compare(found, [x])


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 5)], ids=str)
@pytest.mark.parametrize("name", ["flip", "repeat", "sum", "any", "softmax", "cumsum", "to", "layer_norm plain", "mse", "logsumexp", "var"])
def test_no_elements(name, shape):
    x = torch.zeros(shape)
    try:
        COMPOSITES[name](x)
    except (RuntimeError, IndexError):
        pytest.skip("not in eager")
    compare(lowered(COMPOSITES[name], [x]), [x])
