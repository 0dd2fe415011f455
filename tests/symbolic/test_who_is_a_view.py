"""What capture takes the results of operations for: the inputs themselves, views of them, copies; with which strides.
As eager code has it, with plain and with symbolic sizes."""
import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import COUNTING, Counting

#: Of x (4 dimensions), m (2), v (1), all with the same sizes, and n, the last of these sizes.
OPERATIONS = """
x.contiguous() | x.float() | x.to(x.dtype) | x.to("cpu") | x.cpu() | x.type_as(m) | x.to(m) | x.detach() | x.clone()
x.double() | x.bool() | x.to(torch.float32, copy=True) | x.requires_grad_(x.requires_grad) | x.data | torch.as_tensor(x)
x.positive() | x.resolve_conj() | x.resolve_neg() | x.conj() | x.real | torch.real(x) | x.view_as(x) | x.reshape(x.shape)
x.view(x.shape) | x.reshape_as(x) | x.expand_as(x) | x.expand(x.shape) | x.broadcast_to(x.shape) | x.unfold(3, 2, 2)
x.squeeze() | x.unsqueeze(0) | x.unsqueeze(-1)[..., 0] | x.flatten() | x.flatten(1, 2) | x.ravel() | m.ravel() | v.ravel()
x.flatten(2, 2) | m.flatten() | v.flatten() | x.unflatten(3, (-1, 2)) | x.permute(3, 0, 2, 1) | x.transpose(1, 2) | m.t()
v.t() | m.T | m.mT | m.H | x.mT | x.movedim(0, -1) | x.swapaxes(0, 1) | x.moveaxis(0, 0) | x.diagonal() | m.diag() | v.diag()
x[0] | x[:] | x[...] | x[None] | x[1:, ::2] | x[:, 0] | x[..., -1] | x[[0, 1]] | x[m[0, :3].long() * 0] | x[:, :, n // 2 :]
x.select(0, 1) | x.narrow(3, 1, 2) | x.unbind(0)[1] | x.chunk(2)[1] | x.split(2)[0] | x.tensor_split(2)[0] | x.hsplit(2)[0]
x.split_with_sizes([1, 3])[1] | torch.unsafe_chunk(x, 2)[0] | torch.unsafe_split(x, 2)[0] | x.vsplit(2)[0] | x.dsplit(2)[0]
torch.atleast_1d(x) | torch.atleast_3d(m) | torch.atleast_2d(v) | torch.broadcast_tensors(x, m)[0] | torch.broadcast_tensors(x, m)[1]
torch.meshgrid(v, v, indexing="ij")[0] | torch.cartesian_prod(v) | torch.cartesian_prod(v, v) | torch.cat([x]) | torch.cat([x, x], 1)
torch.stack([x, x]) | torch.hstack([x]) | torch.vstack([v, v]) | torch.column_stack([v, v]) | torch.block_diag(m) | x.tile(1)
x.tile(2) | x.repeat(1, 1, 1, 1) | x.repeat_interleave(2, 0) | x.roll(1, 0) | x.flip(0) | x.rot90(1, (2, 3)) | m.rot90(0) | m.fliplr()
x.as_strided((2, 2), (1, 1)) | x.new_zeros(x.shape) | torch.zeros_like(x) | torch.empty_like(x.transpose(0, 1)) | x.new_tensor(1.0)
x + 0 | x * 1 | x + v | m + x | x.transpose(0, 3) + 1 | x.transpose(0, 3) + x.transpose(0, 3) | x.neg() | x.abs() | x.clamp(0)
x.add_(0) | x.mul_(1) | x.relu_() | x.zero_() | F.relu(x, inplace=True) | F.dropout(x, 0.5, True, True) | m.t_()
torch.add(x, x, out=x) | torch.mul(x, 2, out=torch.empty(x.shape)) | torch.matmul(m, m.mT, out=m.new_empty(0)) | x.squeeze_() | x.unsqueeze_(0)
x.where(x > 0, 0.0) | x.masked_fill(x > 0, 1.0) | x.lerp(x, 0.5) | torch.addcmul(x, x, x) | x.addcdiv(x, x) | torch.maximum(x, v)
x.sum() | x.sum(0) | x.sum((1, 2), keepdim=True) | x.mean(-1) | x.var(1) | x.std() | x.norm() | x.prod(0) | x.amax(0) | x.max(1)[0]
x.min(0)[1] | x.argmax(-1) | x.logsumexp(1) | x.cumsum(0) | x.cumprod(-1) | x.median(1)[0] | x.sort()[0] | x.topk(2)[0] | x.diff()
x.softmax(-1) | x.transpose(0, 1).softmax(0) | x.log_softmax(1) | F.softmin(x, 1) | F.normalize(x) | F.glu(x) | torch.trapezoid(x)
x.gather(0, x[:1].long() * 0) | x.index_select(1, m[0, :2].long() * 0) | x.scatter(0, x.long() * 0, 1.0) | x.index_add(0, m[0, :1].long() * 0, x[:1])
x.take_along_dim(x.argsort(1), 1) | x.tril() | x.triu(1) | torch.eye(n) | torch.arange(n) | torch.linspace(0, 1, n) | torch.ones(n, 2)
m @ m.mT | m @ v | v @ v | v @ m.mT | x @ v | x @ x.mT | x.matmul(m.mT) | x @ x[0] .mT | m @ x.mT | torch.mm(m, m.mT) | m.mv(v) | v.dot(v)
torch.bmm(x[0], x[0].mT) | x[0] @ m.mT | torch.addmm(m @ m.mT, m, m.mT) | torch.addmv(v, m.mT @ m, v) | torch.baddbmm(x[0], x[0] @ x[0].mT, x[0])
F.linear(x, m) | F.linear(m, m) | F.linear(v, m) | F.linear(m, m, v.new_ones(m.shape[0])) | F.linear(x, v) | F.bilinear(m, m, x[0].new_ones(3, n, n))
torch.outer(v, v) | torch.tensordot(x, x, ([3], [3])) | torch.tensordot(m, m, 2) | torch.kron(m, m) | torch.chain_matmul(m, m.mT) | torch.inner(m, m)
torch.einsum("abcd,abed->abce", x, x) | torch.einsum("ij,kj->ik", m, m) | torch.einsum("ij->ji", m) | torch.einsum("ii->i", m @ m.mT)
torch.linalg.multi_dot([m, m.mT, m]) | torch.linalg.matrix_power(m @ m.mT, 0) | torch.linalg.matrix_power(m @ m.mT, 1) | torch.linalg.matrix_power(m @ m.mT, 3)
torch.linalg.vecdot(x, x) | torch.linalg.norm(m) | torch.linalg.vector_norm(x, dim=1) | torch.linalg.matrix_norm(x) | torch.cdist(x, x)
F.scaled_dot_product_attention(x, x, x) | F.scaled_dot_product_attention(x, x, x, is_causal=True) | F.scaled_dot_product_attention(x[0], x[0], x[0], x[0] @ x[0].mT)
F.multi_head_attention_forward(x[0], x[0], x[0], n, 1, m.new_ones(3 * n, n), None, None, None, False, 0.0, m.new_ones(n, n), None)[0]
F.dropout(x, 0.5, False) | F.dropout(x, 0.0) | F.dropout(x, 1.0) | F.dropout(x, 0.5) | F.dropout1d(m, 0.5, False) | F.dropout2d(x, 0.5, False)
F.alpha_dropout(x, 0.5, False) | F.feature_alpha_dropout(x, 0.5, False) | F.dropout2d(x, 0.5) | F.alpha_dropout(x, 0.5) | torch.dropout(x, 0.5, False)
F.dropout(x.transpose(0, 1), 0.5) | torch.rand_like(x) | torch.randn(n) | torch.bernoulli(x.sigmoid()) | F.gumbel_softmax(x) | F.rrelu(x)
F.relu(x) | F.gelu(x) | F.silu(x) | F.elu(x) | F.leaky_relu(x) | F.hardtanh(x) | F.hardshrink(x) | F.softshrink(x) | F.prelu(x, v[:1]) | F.mish(x)
F.layer_norm(x, (n,)) | F.group_norm(x, 2) | F.instance_norm(x) | F.batch_norm(x, None, None, training=True) | F.rms_norm(x, (n,)) | F.local_response_norm(x, 2)
F.conv2d(x, x[:1, :, :2, :2]) | F.conv1d(x[0], x[0, :, :, :2]) | F.conv_transpose2d(x, x[:, :2, :2, :2]) | F.unfold(x, 2) | F.fold(F.unfold(x, 2), x.shape[2:], 2)
F.max_pool2d(x, 2) | F.avg_pool2d(x, 2) | F.adaptive_avg_pool2d(x, 1) | F.adaptive_avg_pool2d(x, 2) | F.adaptive_max_pool2d(x, 2) | F.lp_pool2d(x, 2.0, 2)
F.interpolate(x, scale_factor=2) | F.interpolate(x, size=(n, n)) | F.interpolate(x, scale_factor=2, mode="bilinear") | F.interpolate(x[0], scale_factor=3.0)
F.interpolate(x, size=x.shape[2:], mode="bicubic") | F.interpolate(x, size=x.shape[2:], mode="nearest-exact") | F.interpolate(x, size=n, mode="area")
F.pixel_shuffle(x, 2) | F.pixel_unshuffle(x, 2) | F.channel_shuffle(x, 2) | F.grid_sample(x, x[..., :2]) | F.affine_grid(m.new_ones(4, 2, 3), x.shape)
F.pad(x, (1, 1)) | F.pad(x, (0, 0)) | F.pad(x, (-1, 0)) | F.pad(x[0], (1, 1), "reflect") | F.pad(x, (0, n)) | F.pad(x[0], (1, 1), "circular")
F.embedding(m[0].long() * 0, m) | F.one_hot(m[0].long() * 0, 3) | F.cosine_similarity(x, x) | F.pairwise_distance(m, m) | F.mse_loss(x, x) | F.l1_loss(x, x, reduction="none")
F.cross_entropy(m, m[:, 0].long() * 0) | F.nll_loss(m, m[:, 0].long() * 0) | F.multi_margin_loss(m, m[:, 0].long() * 0) | F.kl_div(m, m) | F.huber_loss(m, m)
torch.complex(x, x) | torch.complex(x, x).real | torch.complex(x, x).conj() | torch.view_as_real(torch.complex(x, x)) | torch.view_as_complex(x.unflatten(3, (-1, 2)))
torch.fft.fft(x) | torch.fft.rfft(x) | torch.fft.irfft(torch.fft.rfft(x)) | torch.fft.fftshift(x) | torch.stft(x.flatten(), 8, return_complex=True, window=v[:8].detach() * 0 + 1)
torch.nn.utils.rnn.pad_sequence([m, m])
torch.nn.Identity()(x) | torch.nn.Dropout()(x) | torch.nn.Dropout().eval()(x) | torch.nn.Flatten()(x) | torch.nn.Flatten()(m) | torch.nn.Unflatten(3, (-1, 2))(x)
""".strip()
NAMES = [name.strip() for line in OPERATIONS.splitlines() for name in line.split(" | ")]


SIZES = (6, 8), (10, 12)
#: They write where no gradients are.
WRITES = frozenset(
    """x.add_(0) | x.mul_(1) | x.relu_() | x.zero_() | F.relu(x, inplace=True) | F.dropout(x, 0.5, True, True) | x.squeeze_()
    x.unsqueeze_(0) | torch.mul(x, 2, out=torch.empty(x.shape)) | torch.matmul(m, m.mT, out=m.new_empty(0))
    m.t_() | torch.add(x, x, out=x)""".replace("\n", " | ").replace("|     ", "| ").split(" | ")
)


def inputs(requires_grad, *sizes):
    rows, columns = sizes
    shapes = ((4, 4, rows, columns), (rows, columns), (columns,))
    made = [torch.randn(shape, generator=torch.Generator().manual_seed(0)) for shape in shapes]
    return [value.requires_grad_(requires_grad) for value in made]


def program(expression):
    """Its result, and what it finds out about that by itself."""
    text = f"""def program(x, m, v):
    n = v.shape[0]
    y = {expression}
    return y, y is x, y is m, y is v, y.shape, y.stride(), y.storage_offset(), y.is_leaf, y.is_contiguous(), y.dtype"""
    scope = {"torch": torch, "F": F}
    exec(text, scope)
    return scope["program"]


def taken_for(inputs, result):
    """What capture may rely on without a word of the program."""
    memory = result.untyped_storage()._cdata
    return {
        "requires a gradient": result.requires_grad,
        "a view": result._is_view(),
        "its base": [name for name, value in inputs.items() if result._is_view() and value is result._base],
        "shares memory": [name for name, value in inputs.items() if value.untyped_storage()._cdata == memory],
    }


def called(function, requires_grad, sizes):
    """The arguments, and what comes of them."""
    args = inputs(requires_grad, *sizes)
    torch.manual_seed(0)
    return args, function(*args)


@pytest.mark.sampled(18)
@pytest.mark.skipif(not COUNTING, reason="the graph is looked at")
@pytest.mark.parametrize("dynamic", [False, True], ids=["plain sizes", "symbolic sizes"])
@pytest.mark.parametrize("name", NAMES)
def test_operation(name, dynamic):
    once = Counting()
    compiled = jit.compile(program(name), backend=once, dynamic=dynamic, fullgraph=True)
    for sizes in SIZES:
        args, (result, *said) = called(program(name), name not in WRITES, sizes)
        assert called(compiled, name not in WRITES, sizes)[1][1:] == tuple(said)
        if not once.graphs:
            assert any(result is arg for arg in args)
        elif not dynamic or sizes is SIZES[0]:
            nodes = list(once.graphs[-1].graph.nodes)
            values = [node.meta["example_value"] for node in nodes[-1].args[0]]
            taken = {node.name: node.meta["example_value"] for node in nodes if node.op == "placeholder"}
            real = {f"l_{at}_": arg for arg, at in zip(args, "xmv", strict=True) if f"l_{at}_" in taken}
            for fake in (value for value in values if isinstance(value, torch.Tensor)):
                assert taken_for(taken, fake) == taken_for(real, result)
