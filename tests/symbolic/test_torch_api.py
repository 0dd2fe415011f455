"""torch functions, methods, dtypes, devices, in-place operations, views, out=, random numbers, autograd."""
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import jit
from tests.differential import COUNTING, INNER, check, differentiated_ahead, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)
G, = tensors(3, 4, requires_grad=True, seed=5)
SCOPE = {"torch": torch, "F": F}


def _program(body):
    scope = dict(SCOPE)
    lines = body.split("; ")
    lines[-1] = lines[-1] if lines[-1].startswith("return") else f"return {lines[-1]}"
    execute("def program(x):\n" + "".join(f"    {line}\n" for line in lines), scope)
    return scope["program"]


FUNCTIONS = """
torch.sin(x), torch.exp(x), torch.sigmoid(x), torch.tanh(x), torch.abs(x)
torch.cat([x, x]), torch.stack([x, x], dim=1), torch.cat((x, x), -1), torch.hstack([x, x])
torch.where(x > 0, x, -x), torch.where(x > 0, 1.0, 0.0), torch.clamp(x, -1, 1), torch.clip(x, max=0.5)
torch.max(x), torch.max(x, 1), torch.min(x, dim=0, keepdim=True), torch.maximum(x, x * 2), x.argmax(-1), x.max(0).values
torch.einsum("ij,kj->ik", x, x), torch.matmul(x, x.t()), torch.bmm(x[None], x.t()[None]), torch.addmm(x @ x.t(), x, x.t())
torch.sum(x, (0, 1)), x.mean(-1, keepdim=True), x.var(1, unbiased=False), x.std(), x.norm(), torch.linalg.norm(x), x.prod(0)
torch.softmax(x, -1), F.softmax(x, dim=1, dtype=torch.float64), F.log_softmax(x, 0), torch.logsumexp(x, 1)
F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.leaky_relu(x, 0.1), F.elu(x), F.softplus(x), F.hardtanh(x)
F.layer_norm(x, (4,)), F.layer_norm(x, x.shape[-1:], torch.ones(4), None, 1e-6), F.group_norm(x[None], 3), F.normalize(x, dim=-1)
F.linear(x, torch.ones(2, 4), torch.zeros(2)), F.embedding(torch.tensor([0, 2]), x), F.one_hot(torch.tensor([0, 2]), 4)
F.cross_entropy(x, torch.tensor([0, 1, 2])), F.mse_loss(x, x * 2), F.nll_loss(x, torch.tensor([0, 1, 2])), F.binary_cross_entropy_with_logits(x, (x > 0).float())
F.cross_entropy(x, torch.tensor([0, -100, 2]), ignore_index=-100, reduction="sum", label_smoothing=0.1)
F.pad(x, (1, 2)), F.pad(x[None], (1, 1), mode="reflect"), F.interpolate(x[None, None], scale_factor=2), F.unfold(x[None, None], 2)
F.conv1d(x[None], torch.ones(2, 3, 2)), F.conv2d(x[None, None], torch.ones(1, 1, 2, 2), padding=1), F.max_pool2d(x[None, None], 2), F.avg_pool1d(x[None], 2)
F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)
F.batch_norm(x, torch.zeros(4), torch.ones(4)), F.dropout(x, 0.5, training=False), F.cosine_similarity(x, x * 2)
torch.tril(x), torch.triu(x, 1), torch.diag(x[0]), torch.outer(x[0], x[1]), torch.cumsum(x, 0), torch.flip(x, [0]), torch.roll(x, 1, 0)
torch.sort(x, descending=True), torch.topk(x, 2), torch.argsort(x), torch.gather(x, 1, torch.zeros(3, 1, dtype=torch.long)), torch.unique_consecutive
torch.split(x, 2), torch.split(x, [1, 3], dim=1), torch.chunk(x, 2, -1), torch.unbind(x), x.unbind(1)[0], torch.tensor_split(x, 2)
x.view(-1), x.view(2, 6), x.reshape(4, 3), x.permute(1, 0), x.transpose(0, 1), x.t(), x.unsqueeze(0).squeeze(0), x.flatten(), x.expand(2, 3, 4)
x.contiguous(), x.t().contiguous(), x.repeat(2, 1), x.repeat_interleave(2, 0), x.narrow(0, 1, 2), x.select(1, 0), x.movedim(0, 1), x.as_strided((2, 2), (1, 2))
x.masked_fill(x > 0, 0.0), x.index_select(0, torch.tensor([0, 2])), torch.index_select(x, 1, torch.tensor([1])), x.take_along_dim(x.argsort(1), 1)
x.scatter(1, torch.zeros(3, 1, dtype=torch.long), 9.0), x.scatter_add(0, torch.zeros(1, 4, dtype=torch.long), x), x.index_add(0, torch.tensor([0]), x[:1])
x.to(torch.float64), x.double(), x.half(), x.bfloat16(), x.long(), x.bool(), x.int(), x.type(torch.float64), x.to("cpu"), x.to(x), x.float() is x, x.to(dtype=torch.float32) is x
x.to(device=torch.device("cpu"), dtype=torch.float16, non_blocking=True), x.cpu() is x, x.type_as(x.double()), x.type(), x.is_floating_point()
torch.zeros(2), torch.ones(2, 3, dtype=torch.int64), torch.full((2,), 3.0), torch.empty(0), torch.eye(3), torch.arange(5), torch.linspace(0, 1, 5), torch.arange(1, 2, 0.25)
torch.zeros_like(x), torch.ones_like(x, dtype=torch.int32), torch.full_like(x, 2), x.new_zeros(2, 2), x.new_ones(x.shape), x.new_full((2,), 5), x.new_tensor([1.0])
torch.tensor(3), torch.tensor([1.0, 2]), torch.tensor([[1, 2], [3, 4]]), torch.tensor(True), torch.tensor([x.shape[0], 1]), torch.as_tensor([1, 2]), torch.tensor(2.5, dtype=torch.float16)
torch.arange(x.size(0), device=x.device), torch.zeros(x.shape[0], 1, device="cpu"), torch.ones(*x.shape), torch.empty_like(x).shape
torch.finfo(x.dtype).min, torch.finfo(torch.float16).eps, torch.iinfo(torch.int32).max, torch.finfo(torch.float32).max * 0
x.size(), x.size(-1), x.dim(), x.ndim, x.numel(), x.stride(), x.is_contiguous(), x.storage_offset(), x.element_size(), x.shape[-1], x.nelement()
torch.is_tensor(x), torch.is_floating_point(x), torch.is_complex(x), torch.is_grad_enabled(), torch.get_default_dtype(), torch.numel(x)
torch.promote_types(torch.int32, torch.float16), torch.result_type(x, 1), torch.can_cast(torch.float, torch.int), x.dtype.is_floating_point, x.dtype.itemsize
torch.device("cpu"), torch.device("cpu", 0).index, torch.device("cuda:1").type, x.device == torch.device("cpu"), str(x.device)
torch.float32 is torch.float, torch.float32 == x.dtype, {torch.float32: 1}[x.dtype], x.dtype in (torch.float32,), torch.Size([1, 2]) + (3,)
torch.broadcast_tensors(x, x[0]), torch.broadcast_shapes((3, 1), (4,)), torch.meshgrid(x[0], x[:, 0], indexing="ij"), torch.broadcast_to(x, (2, 3, 4))
torch.complex(x, x), torch.view_as_real(torch.complex(x, x)), torch.polar(x.abs(), x).real, torch.view_as_complex(x.reshape(3, 2, 2)) * 2j
torch.fft.rfft(x).abs(), torch.nan_to_num(x / 0), torch.isnan(x).any(), torch.isinf(x / 0), torch.isfinite(x)
torch.allclose(x, x), torch.equal(x, x)
x.eq(1), x.gt(0), x.ne(0), x.lt(x + 1).all(), torch.logical_not(x > 0), torch.logical_and(x > 0, x < 1), (x > 0) & (x < 1), (x > 0).sum()
x.detach(), x.data, x.clone(), x.clone(memory_format=torch.contiguous_format), x.detach().requires_grad, x.detach().view(-1)
torch.rsub(x, 1), x.reciprocal(), x.sqrt(), x.rsqrt(), x.pow(2), 2 ** x, x.addcmul(x, x, value=2), x.addcdiv(x, x + 10), x.lerp(x * 2, 0.5), torch.lerp(x, x, 0.1)
x.sum().backward, x.sign(), x.round(), x.floor(), x.frac(), x.fmod(2), x.remainder(2), x.exp2(), x.log1p(), x.expm1(), x.erf()
torch.Tensor.add(x, x), torch.Tensor.sum(x, 0), torch._C._nn.gelu(x), torch.ops.aten.add.Tensor(x, x), torch.ops.aten.relu(x), torch.special.expit(x)
torch.nn.utils.parametrize.is_parametrized(torch.nn.Linear(1, 1)), torch.sym_int(3), torch.numel(x), torch.overrides.is_tensor_like(x)
torch.vmap(lambda r: r * 2)(x)
x.apply_(lambda v: v + 1) if False else x + 1, torch.jit.is_scripting(), torch.jit.is_tracing(), torch._C._get_tracing_state() is None, torch.onnx.is_in_onnx_export()
""".strip().splitlines()

NOT_ONE_GRAPH = ("torch.allclose", "torch.vmap", "torch.nn.utils.parametrize")
WITHOUT_OPS = ("torch.finfo", "x.size()", "torch.is_tensor", "torch.promote", "torch.device", "torch.float32 is")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expression", FUNCTIONS, ids=lambda e: e[:50])
def test_function(expression):
    graphs = None if expression.startswith(NOT_ONE_GRAPH) else 0 if expression.startswith(WITHOUT_OPS) else 1
    check(_program(expression), X, graphs=graphs, changed=[(Y,)])


@pytest.mark.parametrize("expression", [e for e in FUNCTIONS if not e.startswith(NOT_ONE_GRAPH + WITHOUT_OPS)][::2], ids=lambda e: e[:50])
def test_function_with_gradients(expression):
    check(_program(expression), G, graphs=1)


INPLACE = """
x.add_(1); x
x.mul_(2).sub_(1); x.sum()
x.zero_(); x + 1
x.fill_(3); x
x.copy_(x * 2); x
x.clamp_(0, 1); x
x[0].add_(5); x
x[:, 1].mul_(2); x
x.t().add_(1); x
x.view(-1)[2:4].zero_(); x
y = x.view(-1); y.add_(1); x, y
y = x.t(); x.add_(1); y * 2, y
y = x[0]; z = x[0]; y.mul_(3); z, x, y
y = x.clone(); y.add_(1); y, x
y = x + 0; v = y[1:]; v.mul_(0); y, v
x.masked_fill_(x > 0, 0); x
x.index_fill_(0, torch.tensor([0]), 7); x
x.scatter_(1, torch.zeros(3, 1, dtype=torch.long), 9.0); x
x.index_add_(0, torch.tensor([1]), x[:1].clone()); x
x.index_copy_(0, torch.tensor([1]), x[:1].clone()); x
x.index_put_((torch.tensor([0]), torch.tensor([1])), torch.tensor(5.0)); x
x[x > 0] = 0; x
x[torch.tensor([0, 2])] = 1; x
x[..., 0] = x[..., 1]; x
x[0] += 1; x
x += 1; x
x -= x; x
x.unsqueeze_(0); x
x.squeeze_(); x.t_(); x * 2
x.transpose_(0, 1); x.shape
x.resize_(2, 2); x
x.set_(torch.ones(2)); x + 1
x.data = torch.ones(2, 2); x + 1
x.data.add_(1); x
x.detach().add_(1); x
x.requires_grad_(); x * 2
x.requires_grad = True; x * 2
x.requires_grad_(False); x.requires_grad, x * 2
y = x * 2; z = x.requires_grad_(); z is x, x.requires_grad, y, (x * y).sum()
y = torch.empty(3, 4); torch.add(x, 1, out=y); y
y = torch.empty(0); torch.mul(x, 2, out=y); y.shape, y
y = torch.zeros(3, 4); r = torch.sin(x, out=y); r is y, r
torch.add(x, 1, out=x); x
v, i = torch.empty(3), torch.empty(3, dtype=torch.long); r = torch.max(x, 1, out=(v, i)); v, i, r
F.relu(x, inplace=True); x
F.relu_(x); x
F.dropout(x, 0.5, inplace=True); x
torch.nn.init.normal_(x); x
torch.nn.init.uniform_(x, -1, 1); torch.nn.init.zeros_(x[0]); x
torch.relu_(x); torch.sigmoid_(x); x
x.random_(0, 5); x
x.normal_(); x.uniform_(); x
x.bernoulli_(0.5); x
x.swapaxes_(0, 1); x.sum(0)
x.float_power_(2) if False else x.pow_(2); x
""".strip().splitlines()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", INPLACE)
def test_in_place(body):
    whole = not any(word in body for word in ("resize_", "set_", "x.data =", "x.unsqueeze_", "t_()", "transpose_", "swapaxes_", "out=", "init."))
    check(_program(body), X, graphs=1 if whole else None, changed=[(Y,)])


@pytest.mark.parametrize("body", ["y = x * 1; y.add_(1); y", "y = x * 2; y.mul_(y); y", "y = x.clone(); y[0] = 0; y", "y = x * 1; y[:, 0] += 1; y",
                                  "y = x.clone(); y.view(-1)[0] = 3; y * x", "with torch.no_grad(): x.add_(1); x * 2",
                                  "y = x.detach(); y.add_(1) if False else y; x * y", "y = (x * 2).detach().requires_grad_(); y * x",
                                  "y = x * x; x.requires_grad_(False); y, x * 2", "y = x * x; x.requires_grad = False; y, x.requires_grad"])
def test_in_place_with_gradients(body):
    check(_program(body), G, graphs=None if "requires_grad_" in body else 1)


def test_a_view_that_gets_no_gradient_though_it_says_so_may_come_to_get_one():
    def ask(x):
        return x.requires_grad_() * 2

    def gets_one(call, x):
        (gradient,) = torch.autograd.grad(call(x).sum(), x, allow_unused=True)
        return gradient is not None

    leaf = torch.ones(3, 4, requires_grad=True)
    with torch.no_grad():
        views = leaf.view(3, 4), leaf.view(3, 4)
    compiled = jit.compile(ask, backend="eager")
    assert gets_one(compiled, leaf) and gets_one(compiled, views[0]) and gets_one(ask, views[1])


@pytest.mark.parametrize("body", ["x.add_(1); x", "y = x[0]; y.mul_(2); x"])
def test_in_place_on_a_leaf_fails(body):
    check(_program(body), G)


@pytest.mark.skipif(INNER is not None, reason="the error names the node, which is another one there")
def test_in_place_that_spoils_the_backward_fails():
    check(_program("y = x.exp(); z = y * 2; y.add_(1); z.sum() + y.sum()"), G)


RANDOM = ["torch.rand(3)", "torch.randn(2, 2)", "torch.randint(0, 9, (4,))", "torch.randperm(5)", "torch.rand_like(x)", "torch.randn_like(x)",
          "torch.bernoulli(x.sigmoid())", "torch.normal(0.0, 1.0, (3,))", "torch.multinomial(x.abs(), 2)", "F.dropout(x)", "F.dropout(x, 0.2), F.dropout(x, 0.2)",
          "torch.nn.functional.gumbel_softmax(x)", "x + torch.rand(4) * torch.rand(3, 1)", "torch.nn.functional.alpha_dropout(x, 0.3, True)", "torch.poisson(x.abs())"]


@pytest.mark.parametrize("expression", RANDOM)
def test_random(expression):
    check(_program(f"x * 2, {expression}"), X, graphs=1)


@same_as_eager
def test_seed_and_generator(x):
    torch.manual_seed(5)
    a = torch.rand(2)
    g = torch.Generator().manual_seed(3)
    return x + 1, a, torch.rand(2, generator=g), torch.initial_seed()


def test_generator_argument():
    check(lambda g, x: x + torch.rand(4, generator=g), make=lambda: (torch.Generator().manual_seed(1), X))


@pytest.mark.parametrize("options", [{}, {"requires_grad": True}, {"dtype": torch.float64}])
def test_generator_without_gradients(options):
    """It draws before the graph, as if gradients were not switched off: which is no matter to it."""

    def program(g, x):
        with torch.no_grad():
            a, b = torch.randn(2, 4, generator=g, **options), torch.rand(4, generator=torch.Generator().manual_seed(2))
            c = a * x[:2]
        return a, b, c, a.requires_grad, a.is_leaf, (a * x[0]).sum()

    check(program, make=lambda: (torch.Generator().manual_seed(1), X.clone().requires_grad_()), graphs=1)


@same_as_eager
def test_rng_state_is_saved_and_restored(x):
    state = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(state)
    return a, torch.rand(2), x + 1


VIEWS = ["x.view(-1)", "x[1:]", "x.t()", "x[None]", "x.detach()", "x.expand(2, 3, 4)", "(x, x[0])", "[x.view(12), x.view(12)]", "x.unbind()",
         "x.split(2)", "x.T, x.mT", "x.diagonal()", "x.real", "x.contiguous(), x.reshape(12)", "x.narrow(0, 0, 1)", "(x + 1)[0]", "(x + 1).t()",
         "(lambda y: (y, y.view(-1), y[0]))(x + 1)", "x[...]", "x.as_strided((2,), (1,), 3)", "x.unsqueeze(-1), x.squeeze()", "x.view_as(x)",
         "x.to(torch.float32), x.float(), x.cpu()", "x.view(torch.int32)", "x.movedim(0, 1)", "x.chunk(2)[1]", "x.data"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expression", VIEWS)
def test_views_are_views(expression):
    check(_program(expression), X, graphs=1 if expression != "x.to(torch.float32), x.float(), x.cpu()" else None)
    check(_program(expression), G)


def test_aliased_inputs():
    def overlapping():
        base = torch.arange(10.0)
        return base[:6], base[4:]

    def program(a, b):
        a.add_(1)
        return a.sum() + b.sum(), b * 2
    check(program, make=overlapping, graphs=1)
    check(program, make=lambda: (lambda x: (x, x))(torch.ones(3)), graphs=1)
    check(program, make=lambda: (lambda x: (x, x.view(-1)))(torch.ones(2, 3)), graphs=1)


@same_as_eager
def test_backward_inside(x):
    w = torch.ones(4, requires_grad=True)
    loss = (x * w).sum()
    loss.backward()
    return w.grad, w


def test_backward_inside_accumulates_into_an_argument():
    def program(w):
        (w * w).sum().backward()
        return w.grad
    check(program, G)


@same_as_eager
def test_autograd_grad_inside(x):
    w = x.clone().requires_grad_()
    g, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)
    return g, torch.autograd.grad(g.sum(), w)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * ctx.k + x * 0, None


def test_custom_autograd_function():
    check(lambda x: Doubled.apply(x, 3).sum(), G)


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint
    check(lambda x: checkpoint(lambda t: torch.sin(t) * 2, x, use_reentrant=False), G)


HOOKS = {"a lambda on a result": "y = x * 2; y.register_hook(lambda g: g * 3); y.sum()",
         "a lambda on an argument": "x.register_hook(lambda g: g * 3); (x * 2).sum()",
         "removed": "y = x * 2; h = y.register_hook(lambda g: g * 3); h.remove(); y.sum()",
         "returned handle": "y = x * 2; h = x.register_hook(lambda g: g * 3); (y * x).sum(), h",
         "retain_grad": "y = x * 2; y.retain_grad(); y.sum(), y"}


@pytest.mark.parametrize("what", HOOKS)
def test_tensor_hook(what):
    check(_program(HOOKS[what]), G)


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_of_inputs(dtype):
    check(lambda x, y: (x + y, x * 2, x.to(torch.float32).sum(), x == y), (X * 3).to(dtype), (Y * 3).to(dtype), graphs=1)


@pytest.mark.parametrize("first", [torch.float32, torch.int32, torch.bool])
@pytest.mark.parametrize("second", [torch.float16, torch.float64, torch.int64])
def test_type_promotion(first, second):
    check(lambda x, y: (x + y, x * 1.5, x + y[0, 0], torch.add(x, True)), X.to(first), Y.to(second), graphs=1)


LAYOUTS = {"transposed": lambda: torch.randn(4, 3).t(), "strided": lambda: torch.randn(6, 8)[::2, ::2], "expanded": lambda: torch.randn(4).expand(3, 4),
           "offset": lambda: torch.randn(20)[3:15].view(3, 4), "empty": lambda: torch.randn(0, 4), "scalar": lambda: torch.tensor(2.5),
           "one": lambda: torch.randn(1, 1), "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
           "negated": lambda: torch.randn(3, dtype=torch.complex64).conj().imag, "conjugate": lambda: torch.randn(3, dtype=torch.complex64).conj(),
           "parameter": lambda: torch.nn.Parameter(torch.randn(3, 4)), "inference": lambda: _inference(), "meta": lambda: torch.empty(3, device="meta"),
           "sparse": lambda: torch.eye(3).to_sparse(), "non-leaf": lambda: torch.ones(3, requires_grad=True) * 2}


def _inference():
    with torch.inference_mode():
        return torch.ones(3, 4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_of_inputs(layout):
    check(lambda x: (x + x, x * 2), make=lambda: (LAYOUTS[layout](),), graphs=None if layout == "sparse" else 1)


@same_as_eager
def test_sparse_and_to_dense(x):
    s = x.to_sparse()
    return s.to_dense() + 1, s.is_sparse


@same_as_eager
def test_data_dependent_shapes(x):
    return x[x > 0], x.nonzero(), torch.unique(x > 0), torch.masked_select(x, x < 0)


@same_as_eager(graphs=1)
def test_shape_arithmetic(x):
    b, n = x.shape
    y = x.view(b, 2, n // 2).transpose(1, 2).reshape(b * (n // 2), -1)
    return y, torch.zeros(b + 1, n * 2), x.new_ones(len(x)), b * n / 2, (b + n) % 3


@same_as_eager(graphs=1)
def test_index_helpers(x):
    i = torch.arange(x.size(0))
    mask = i[:, None] >= i[None, :]
    return mask, x[i, i % 4], x[mask.any(0)].shape if False else x[:, None, :].expand(-1, 2, -1)


@same_as_eager(graphs=1)
def test_multi_head_attention_by_hand(x):
    q = x.view(1, 3, 2, 2).transpose(1, 2)
    scores = q @ q.transpose(-2, -1) / q.size(-1) ** 0.5
    causal = torch.tril(torch.ones(3, 3, dtype=torch.bool)).view(1, 1, 3, 3)
    return (scores.masked_fill(~causal, torch.finfo(x.dtype).min).softmax(-1) @ q).transpose(1, 2).flatten(-2)


@same_as_eager(make=lambda: (torch.nn.Parameter(torch.ones(3)), torch.ones(3)))
def test_optimizer_step_by_hand(p, g):
    with torch.no_grad():
        p -= 0.1 * g
        p.grad = g.clone()
        p.grad.zero_()
    return p.sum()


def test_optimizer():
    p = torch.nn.Parameter(torch.ones(3))

    def program(x):
        opt = torch.optim.AdamW([p], lr=0.1)
        for _ in range(2):
            opt.zero_grad()
            (p * x).sum().backward()
            opt.step()
    check(program, torch.randn(3))


@same_as_eager(graphs=1)
def test_tensor_truth_of_known_things(x):
    return x + 1 if x is not None and isinstance(x, torch.Tensor) and x.numel() else x


@same_as_eager(graphs=1)
def test_functions_from_tables(x):
    acts = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}
    return [acts[name](x) for name in ("tanh", "relu")], getattr(F, "silu")(x), getattr(torch, "si" + "n")(x)


class Meters(torch.Tensor):
    pass


def test_tensor_subclass():
    check(lambda x: (x + 1, type(x)), make=lambda: (torch.ones(3).as_subclass(Meters),))


@torch.inference_mode()
def doubled(x):
    return x * 2


SCOPE["doubled"] = doubled


@pytest.mark.parametrize("body", ["with torch.inference_mode(): y = x * 2; y, y.is_inference(), torch.is_inference_mode_enabled()",
                                  "doubled(x), x + 1",
                                  "with torch.inference_mode(): y = x * 2; x.requires_grad, (x * 2).is_inference(), y"])
def test_inference_mode(body):
    check(_program(body), X, graphs=1)
    check(_program(body), G, graphs=1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("body", ["doubled(x)", "with torch.inference_mode(): y = x * 2, (x * 2).t(), x.t(), x; y",
                                  "with torch.inference_mode(): y = x.detach().mul_(2), x.view(-1); y",
                                  "with torch.inference_mode(False): y = x * 2; y.sum()"])
def test_what_is_all_in_inference_mode_is_compiled_for_it(body, dynamic):
    check(_program(body), G, backend=differentiated_ahead, dynamic=dynamic)


def test_operations_in_inference_mode_and_outside_of_it_run_as_they_were_captured(caplog):
    """The graphs of the AOT stage are of one mode: what they make in another one would not be made in it."""
    with caplog.at_level("INFO", "codegen.aot.backend"):
        check(_program("with torch.inference_mode(): y = x * 2; y, x + 1"), G, backend="aot_eager")
    assert not COUNTING or "inference mode or the default dtype changes inside" in caplog.text


def test_inference_mode_around_a_break():
    def program(x):
        with torch.inference_mode():
            y = x * float((x * 2).sum())
        return y.is_inference(), x + 1, torch.is_inference_mode_enabled()
    check(program, X)


@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")], ids=["no_grad", "inference", "autocast"])
def test_state_is_put_back_when_an_operation_fails(switch):
    import jit

    def program(x, i):
        with switch():
            return x[i]
    compiled = jit.compile(program, backend="eager")
    compiled(X, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([7]))
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cpu")


def test_operation_that_fails_for_its_values():
    def program(x, i, seen):
        seen.append(1)
        try:
            return x[i]
        except IndexError:
            return x
    check(program, X, torch.tensor([7]), [])


class Unhashable:
    def __init__(self, v):
        self.v = v

    def __hash__(self):
        raise AssertionError("tracing runs none of the user's methods")


def test_hash_of_an_argument_is_not_asked_for():
    check(lambda o, x: x + o.v, Unhashable(2), X, graphs=1)


@pytest.mark.parametrize("body", ["with torch.autograd.graph.save_on_cpu(): y = x * x; y", "torch.func.grad(lambda t: (t * t).sum())(x)",
                                  "torch.func.jvp(torch.sin, (x,), (x,))", "torch.set_default_device('cpu'); y = torch.ones(2); torch.set_default_device(None); y, x + 1",
                                  "torch.autograd.forward_ad.enter_dual_level(); torch.autograd.forward_ad.exit_dual_level(); x + 1",
                                  "torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() + 1"])
def test_switches_that_the_graph_does_not_know(body):
    check(_program(body), X)


def test_history_of_an_input_is_guarded():
    import jit

    def program(x):
        return x.is_leaf, x.storage_offset(), x[1:].storage_offset()
    compiled = jit.compile(program, backend="eager")
    for x in (torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True) * 1, torch.ones(8)[4:], torch.ones(8)[2:6], torch.ones(4)):
        assert compiled(x) == compiled(x) == program(x)


def test_tensors_as_keys_are_kept_apart():
    check(lambda a, b: (len({a: 1, b: 2}), a in [b], a is b), X, Y, changed=[lambda: (X, X), lambda: (X, X.view(-1).view(3, 4))])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_kernels_of_attention_are_chosen_inside(backend):
    def program(x):
        q = x.reshape(1, 1, 2, -1)
        with sdpa_kernel(SDPBackend.MATH):
            first = F.scaled_dot_product_attention(q, q, q, is_causal=True), torch.backends.cuda.flash_sdp_enabled()
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            second = F.scaled_dot_product_attention(q, q, q), torch._C._get_sdp_priority_order()
        try:
            with sdpa_kernel(SDPBackend.MATH):
                raise ValueError(torch.backends.cuda.flash_sdp_enabled())
        except ValueError as error:
            return first, second, error.args, torch.backends.cuda.flash_sdp_enabled(), torch._C._get_sdp_priority_order()

    check(program, *tensors(2, 4), backend=backend, graphs=1, tolerance=None if backend == "eager" else (1e-5, 1e-5))


def test_a_choice_of_attention_kernels_that_stays():
    def program(x):
        torch.backends.cuda.enable_flash_sdp(not torch.backends.cuda.flash_sdp_enabled())
        return x + 1

    f = jit.compile(program, backend="eager", fullgraph=COUNTING)
    before = torch.backends.cuda.flash_sdp_enabled()
    try:
        for _ in range(4):
            now = torch.backends.cuda.flash_sdp_enabled()
            f(torch.ones(2))
            assert torch.backends.cuda.flash_sdp_enabled() is not now
    finally:
        torch.backends.cuda.enable_flash_sdp(before)
