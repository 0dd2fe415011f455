"""What was compiled for many sizes serves a size of one, where nothing depends on what broadcasts; else it does not."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jit
from tests.differential import COUNTING, Counting
from tests.symbolic.test_dynamic_sizes import X

W, B, IMAGE = X(4, 6), X(4), X(3, 4, 5)
CONV, NORM = nn.Conv1d(4, 6, 3), nn.LayerNorm(4)

#: Programs of x, of sizes (n, 4) or (n, m, 4), that do the same for one.
SERVED = {
    "pointwise": lambda x: (x * 2 + x).relu() - B,
    "broadcast": lambda x: x * B + x.mean(-1, keepdim=True),
    "product": lambda x: x @ W,
    "linear": lambda x: F.linear(x, W.t(), X(6)),
    "sums": lambda x: (x.sum(0), x.sum(), x.mean(0), x.amax(-1), x.softmax(-1), x.cumsum(0)),
    "norm": lambda x: NORM(x),
    "size": lambda x: x * x.shape[0] + x.numel(),
    "view": lambda x: x.view(-1, 2, 2).transpose(1, 2),
    "flatten": lambda x: (x.flatten(), x.reshape(-1, 2), x.reshape(x.shape[0], -1), x.contiguous()),
    "new": lambda x: (x.new_zeros(x.shape), torch.arange(x.shape[0]), torch.full(x.shape, 2.0)),
    "cat": lambda x: (torch.cat([x, x]), torch.stack([x, x * 2]), torch.cat([x, B.expand(x.shape)], -1)),
    "unsqueeze": lambda x: (x.unsqueeze(0) * x.unsqueeze(1)).sum(0),
    "where": lambda x: torch.where(x > 0, x, B).masked_fill(x < -1, 0.0),
    "slices": lambda x: (x[..., :2] + x[..., 2:], x[0], x[-1], x.flip(0)),
    "split": lambda x: torch.cat(x.split(2, -1)[::-1], -1),
    "embedding": lambda x: F.embedding(x.long().clamp(0, 3), W),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.unsqueeze(0)] * 3),
}
#: Those that do something else, by what they ask.
ASKING = {
    "squeeze": lambda x: x.squeeze(),
    "squeeze of one": lambda x: x.squeeze(0) * 2,
    "if": lambda x: x * 2 if x.shape[0] == 1 else x + 1,
    "larger": lambda x: x * 2 if x.shape[0] > 1 else x + 1,
    "two at once": lambda x: x + x[:1] if x.shape[0] != 1 else x,
    "contiguous": lambda x: (x[::2].contiguous(), x.transpose(0, 1).contiguous()),
    "reshaped": lambda x: x.transpose(0, 1).reshape(-1),
    "is contiguous": lambda x: x.transpose(0, 1).is_contiguous(),
    "strides": lambda x: (x.transpose(0, 1).clone().stride(), x.clone().stride()),
    "expanded": lambda x: x.expand(3, *x.shape[1:]) if x.shape[0] in (1, 3) else x,
    "against a number": lambda x: x.flatten(1) + X(5, 1) if x.shape[0] in (1, 5) else x,
    "product with itself": lambda x: x @ x.transpose(-1, -2),
    "batched product": lambda x: x @ W.expand(*x.shape[:-2], 4, 6),
    "unbiased": lambda x: x.std(0) if x.shape[0] > 1 else x.std(0, correction=0),
}


def lies(results, x):
    """Which results lie in the memory of x, and of one another."""
    tensors = [x, *(each for each in (results if isinstance(results, tuple) else (results,)) if isinstance(each, torch.Tensor))]
    places = [each.untyped_storage().data_ptr() for each in tensors]
    return [places.index(place) for place in places]


def compare(compiled, program, x):
    ours, theirs = compiled(x), program(x)
    assert lies(ours, x) == lies(theirs, x)
    for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("name", SERVED)
def test_one_among_others(name, backend):
    program, counter = SERVED[name], Counting(jit.backends.BACKENDS[backend])
    for shapes in ([(5, 4), (7, 4), (1, 4), (3, 4)], [(5, 3, 4), (7, 6, 4), (1, 5, 4), (4, 1, 4), (1, 1, 4)]):
        if name == "attention" and len(shapes[0]) == 2:
            continue
        compiled = jit.compile(program, backend=counter)
        for shape in shapes:
            compare(compiled, program, X(*shape))
    if COUNTING:
        assert len(counter.graphs) == (2 if name == "attention" else 4)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("name", ASKING)
def test_what_asks_is_compiled_for_one(name, backend):
    program = ASKING[name]
    for dynamic in (None, True):
        for shapes in ([(5, 4), (7, 4), (1, 4), (4, 4)], [(3, 4), (5, 4), (1, 4), (3, 4)], [(5, 3, 4), (7, 6, 4), (1, 5, 4), (4, 1, 4), (1, 1, 4), (3, 3, 4)]):
            compiled = jit.compile(program, backend=backend, dynamic=dynamic)
            for shape in shapes:
                compare(compiled, program, X(*shape))


@pytest.mark.parametrize("cut", [lambda x: x[::3].reshape(-1), lambda x: x[::3].view(-1), lambda x: x[:, : x.shape[0] // 2].t()])
def test_strides_of_one_that_is_left(cut):
    """Silently wrong: those of more were taken for them."""

    def program(x):
        return cut(x).stride(), x * cut(x).stride(0)

    for dynamic in (None, True):
        compiled = jit.compile(program, dynamic=dynamic)
        for shape in ((9, 1), (2, 1), (7, 1), (3, 1), (5, 4), (2, 4), (1, 3)):
            try:
                expected = program(X(*shape))
            except RuntimeError:
                continue
            ours = compiled(X(*shape))
            assert ours[0] == expected[0] and torch.equal(ours[1], expected[1])


WRONG = [lambda x: x.unsqueeze(5), lambda x: x.expand(-2, *x.shape), lambda x: x.view(-1, 3), lambda x: x.view(-1, -1),
         lambda x: x.t().view(-1), lambda x: x.expand(x.shape[0] + 1, 4), lambda x: x.expand(4)]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_raises_raises(number):
    program = WRONG[number]
    compiled = jit.compile(program, dynamic=True)
    for n in (5, 7, 1):
        outcomes = []
        for each in (compiled, program):
            try:
                outcomes.append(each(X(n, 4)).shape)
            except Exception as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]


def test_sizes_of_two_tensors_are_one_or_are_asked():
    """Silently wrong if a size of one were taken for one that does not broadcast."""

    def program(x, y):
        return x + y, x * 2

    compiled = jit.compile(program, dynamic=True)
    for n, m in ((5, 5), (7, 7), (1, 1), (1, 7), (7, 1), (3, 3), (1, 3)):
        for one, other in zip(compiled(X(n, 4), X(m, 4)), program(X(n, 4), X(m, 4)), strict=True):
            torch.testing.assert_close(one, other)


class Block(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.norm, self.out = heads, nn.LayerNorm(width), nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, -1)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp(x)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), [(5, 4), (7, 4), (1, 4), (0, 4), (9, 4)]),
    "block": (Block, [(5, 6, 16), (7, 9, 16), (1, 9, 16), (3, 1, 16), (0, 9, 16), (1, 1, 16), (3, 0, 16), (0, 0, 16), (2, 2, 16)]),
    "layer of torch": (lambda: nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), [(5, 6, 16), (7, 9, 16), (1, 9, 16)]),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5)), [(5, 3, 6, 6), (7, 3, 6, 6), (1, 3, 6, 6)]),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", ["aot_eager", "default"])
@pytest.mark.parametrize("name", MODELS)
def test_training_with_batches_of_one_and_of_none(name, backend):
    torch.manual_seed(0)
    make, shapes = MODELS[name]
    model, counter = make(), Counting(jit.backends.BACKENDS[backend])
    model(X(*shapes[0]))
    compiled = jit.compile(model, backend=counter)
    for shape in shapes:
        found = []
        for each in (compiled, model):
            x = X(*shape).requires_grad_()
            y = each(x)
            found.append((y, *torch.autograd.grad(y.pow(2).sum(), [x, *model.parameters()])))
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    if COUNTING:
        asks = name == "layer of torch" or (name == "convolution" and torch.__version__ < "2.12")  # as 2.11 chooses by it
        assert len(counter.graphs) == (3 if asks else 2), "its operators ask of one"
