"""The small programs that `tools/bench kernels` times: each theme of kernels in the sizes of a small model."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

T = torch.Tensor


@dataclass(frozen=True)
class Case:
    """`run` is a function in Python (there is nothing to compile in one of C), or makes a module (`is_made`); `inputs`
    makes what it is called with. Where `trains`, what floats get a gradient. `is_random`: its results differ from
    compiler to compiler. `apart`: how far results may be from eager's."""

    name: str
    run: Callable[..., Any]
    inputs: Callable[[], Sequence[Any]]
    trains: bool = True
    is_made: bool = False
    is_random: bool = False
    apart: float = 1e-3


def randn(*shapes: tuple[int, ...]) -> Callable[[], list[T]]:
    return lambda: [torch.randn(shape) for shape in shapes]


# --- pointwise --------------------------------------------------------------------------------------------------------
def chain(x: T) -> T:
    return (((x + 1) * x) + 2) * 0.5 - x


def many(x: T, y: T, z: T) -> T:
    return torch.where(x > y, torch.sigmoid(x) * z, torch.tanh(y) - z).clamp(-1, 1) * torch.exp(-x.abs())


def gelu(x: T) -> T:
    return F.gelu(x)


def gelu_tanh(x: T) -> T:
    return F.gelu(x, approximate="tanh")


def dropout(x: T) -> T:
    return F.dropout(x, 0.1)


def bias_activation(x: T, w: T, b: T) -> T:
    return F.gelu(x @ w + b)


def swiglu(x: T, gate: T, up: T) -> T:
    return F.silu(x @ gate) * (x @ up)


def split_swiglu(x: T) -> T:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


# --- normalisation ----------------------------------------------------------------------------------------------------
def layer_norm(x: T, w: T, b: T) -> T:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def residual_norm(x: T, y: T, w: T, b: T) -> T:
    return F.layer_norm(x + y, (x.shape[-1],), w, b)


def rms_norm(x: T, w: T) -> T:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def group_norm(x: T, w: T, b: T) -> T:
    return F.group_norm(x, 8, w, b)


def conv_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())


# --- reductions -------------------------------------------------------------------------------------------------------
def softmax(x: T) -> T:
    return x.softmax(-1)


def log_softmax_nll(x: T, labels: T) -> T:
    return F.nll_loss(F.log_softmax(x, -1), labels)


def variance(x: T) -> T:
    return x.var(-1)


def standardised(x: T) -> T:
    return (x - x.mean(0)) / x.std(0)


# --- places -----------------------------------------------------------------------------------------------------------
def transposed_add(x: T, y: T) -> T:
    return x.t() + y


def cat_pointwise(x: T, y: T) -> T:
    return torch.cat([x * 2, torch.relu(y)], -1) + 1


def padded(x: T) -> T:
    return F.pad(torch.relu(x), (1, 1, 1, 1)) * 2


def one_hot(labels: T) -> T:
    return F.one_hot(labels, 1000).float()


def embedding(at: T, w: T, positions: T) -> T:
    return F.embedding(at, w) + positions


def words() -> list[T]:
    return [torch.randint(LABELS, (16, 256)), torch.randn(LABELS, 768), torch.randn(256, 768)]


def index_select(x: T, at: T) -> T:
    return x.index_select(0, at) * 2


def rows_read(x: T, at: T) -> T:
    return torch.relu(x[at]) * 2


def histogram(x: T, at: T) -> T:
    return x.new_zeros(1000).index_put((at,), x * x, accumulate=True)


def picked() -> list[T]:
    return [torch.randn(4096, 256), torch.randint(1000, (4096, 256))]


def scattered_columns(x: T, at: T) -> T:
    return x.new_zeros(1000, x.shape[1]).scatter_add(0, at, x * 2)


def remembered() -> list[T]:
    return [torch.zeros(4, 8, 1024, 64), torch.randn(4, 8, 1, 64), torch.tensor([7])]


def cache(known: T, new: T, at: T) -> T:
    """What attention remembers, with one position more."""
    known[:, :, at] = new * 2
    return new + 1


def rotary(q: T, cos: T, sin: T) -> T:
    first, second = q.chunk(2, -1)
    return q * cos + torch.cat([-second, first], -1) * sin


# --- blocks of models -------------------------------------------------------------------------------------------------
def attention(q: T, k: T, v: T) -> T:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def sdpa(q: T, k: T, v: T) -> T:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    """A feed-forward block before which is a norm, with its residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: T) -> T:
        return x + self.mlp(self.norm(x))


class Step(nn.Module):
    """AdamW on twenty parameters, called with nothing."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(256, 256), (256,)] * 10
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(size)) for size in sizes)
        for weight in self.weights:
            weight.grad = torch.randn_like(weight)
        self.optimizer = torch.optim.AdamW(self.weights, lr=1e-6)

    def forward(self) -> None:
        self.optimizer.step()


ROWS, IMAGES, HEADS = (4096, 768), (16, 32, 32, 32), (4, 8, 256, 64)
LABELS = 10000

CASES = (
    Case("five operations, 4 K", chain, randn((1 << 12,))),
    Case("five operations, 4 M", chain, randn((1 << 22,))),
    Case("ten operations of three, 1 M", many, randn((1 << 20,), (1 << 20,), (1 << 20,))),
    Case("gelu, 1 M", gelu, randn((1 << 20,))),
    Case("gelu by tanh, 1 M", gelu_tanh, randn((1 << 20,))),
    Case("dropout, 1 M", dropout, randn((1 << 20,)), is_random=True),
    Case("matmul, bias, gelu", bias_activation, randn((1024, 512), (512, 1024), (1024,))),
    Case("swiglu with its matmuls", swiglu, randn((1024, 256), (256, 1024), (256, 1024))),
    Case("swiglu of halves", split_swiglu, randn((2048, 2048))),
    Case("layer norm", layer_norm, randn(ROWS, (768,), (768,))),
    Case("residual, layer norm", residual_norm, randn(ROWS, ROWS, (768,), (768,))),
    Case("rms norm", rms_norm, randn(ROWS, (768,))),
    Case("group norm", group_norm, randn(IMAGES, (32,), (32,))),
    Case("batch norm, relu", lambda: nn.Sequential(nn.BatchNorm2d(32), nn.ReLU()), randn(IMAGES), is_made=True),
    # The gradient of a bias before a batch norm is a sum of many numbers that should be nothing.
    Case("conv, batch norm, relu", conv_norm, randn(IMAGES), is_made=True, apart=1e-2),
    Case("softmax, 4096 x 1024", softmax, randn((4096, 1024))),
    Case("softmax, 8192 x 64", softmax, randn((8192, 64))),
    Case("log softmax, nll", log_softmax_nll, lambda: [torch.randn(512, LABELS), torch.randint(LABELS, (512,))]),
    Case("cross entropy", F.cross_entropy, lambda: [torch.randn(512, LABELS), torch.randint(LABELS, (512,))]),
    Case("smooth l1", F.smooth_l1_loss, randn((1 << 20,), (1 << 20,))),
    Case("sum of rows", lambda x: x.sum(1), randn(ROWS)),
    Case("sum of columns", lambda x: x.sum(0), randn(ROWS)),
    Case("sum of all, 10 M", lambda x: x.sum(), randn((10_000_000,))),
    Case("largest of rows", lambda x: x.amax(1), randn(ROWS)),
    Case("variance of rows", variance, randn(ROWS)),
    Case("columns standardised", standardised, randn(ROWS)),
    Case("cumsum of rows", lambda x: x.cumsum(1), randn((1024, 4096))),
    Case("argmax of rows", lambda x: x.argmax(1), randn((512, LABELS)), trains=False),
    Case("x.T + y", transposed_add, randn((1024, 2048), (2048, 1024))),
    Case("cat of pointwise", cat_pointwise, randn((2048, 512), (2048, 512))),
    Case("pad of relu", padded, randn(IMAGES)),
    Case("embedding, positions", embedding, words),
    Case("index_select", index_select, lambda: [torch.randn(LABELS, 256), torch.randint(LABELS, (4096,))]),
    Case("rows read", rows_read, lambda: [torch.randn(LABELS, 256), torch.randint(LABELS, (4096,))]),
    Case("histogram, 1 M", histogram, lambda: [torch.randn(1 << 20), torch.randint(1000, (1 << 20,))]),
    Case("scatter_add of columns", scattered_columns, picked),
    Case("key cache", cache, remembered, trains=False),
    Case("one_hot", one_hot, lambda: [torch.randint(1000, (2048,))], trains=False),
    Case("rotary embedding", rotary, randn(HEADS, (256, 64), (256, 64))),
    Case("attention, written out", attention, randn(HEADS, HEADS, HEADS)),
    Case("attention, sdpa", sdpa, randn(HEADS, HEADS, HEADS)),
    Case("feed-forward block", lambda: Block(256), randn((1024, 256)), is_made=True),
    Case("AdamW, 20 parameters", Step, list, trains=False, is_made=True),
)
