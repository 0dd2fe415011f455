"""Layers made at random, which write what they made, view it, and write the views: traced with copies and without."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import jit
from tests.codegen.aot.test_copies import Judge, inputs, loop
from tests.differential import COUNTING

pytestmark = pytest.mark.skipif(not COUNTING, reason="where breaks are forced no graph has more than one layer")
FIRST = """y = x @ w + b
z = y * 1.0
v, i = y.topk(2)
o = i.reshape(-1).argsort()
e = torch.zeros_like(o)
a = c = y[:, :3]""".split("\n")
LINES = """y = x @ w
y = x * 2.0 + b
y += b
y *= 0.5
y[0] = 1.0
y[1:3] = x[2:4]
z = y.t()
z = y[1:4]
z += 1.0
z.mul_(2.0)
y.t_()
z = y.view(36)[:6]
v, i = y.topk(2)
v /= v.sum(-1, keepdim=True)
y = y + v.sum()
o = i.reshape(-1).argsort()
e = torch.empty_like(o).zero_()
e[o] = torch.arange(12)
y = y + e.sum() * 0.01
y = y.sort().values
a, c = y.split(3, 1)
a.add_(1)
y = torch.cat([c, a], 1)
y = y.clone()
z = y.detach()
z.sub_(0.1)
y.clamp_(-5, 5)
y = torch.tanh(y)
y = y + z.sum()
y.copy_(x)
torch.add(y, b, out=y)
y.fill_(0.3)
z = y.unsqueeze(0).expand(2, 6, 6)
y = z[0] if z.dim() == 3 else y
y = y @ w.t()
y = F.softmax(y, -1)
y.masked_fill_(y > 1, 0.5)
y = torch.where(y > 0, y, x)
y.index_add_(0, torch.tensor([0, 1]), x[:2])""".split("\n")
RESULTS = ["torch.tanh(y).reshape(6, 6)", "y.reshape(6, 6) * 0.1", "torch.tanh(y + z.sum()).reshape(6, 6).clone()"]


def layers(seed: int) -> Callable[..., Any]:
    drawn = random.Random(seed)
    body = [*FIRST, *(drawn.choice(LINES) for _ in range(drawn.randint(2, 14))), f"return {drawn.choice(RESULTS)}"]
    text = "def body(x, w, b, number, weights):\n" + "".join(f"    {line}\n" for line in body)
    name, space = f"<layers {seed}>", {"torch": torch, "F": F}
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), space)
    return loop(space["body"], drawn.choice([lambda x, seen: x, lambda x, seen: tuple(seen)]))


def check(seeds: range) -> None:
    copied = 0
    for seed in seeds:
        program, judge = layers(seed), Judge()
        with torch.no_grad():
            try:
                program(*inputs())
            except (RuntimeError, ValueError, IndexError):  # not every program is one
                continue
            jit.compile(program, backend=judge)(*inputs())
        copied += judge.copied > 0
    assert copied > len(seeds) // 4


def test_copies() -> None:
    check(range(12))


@pytest.mark.long
def test_more_copies() -> None:
    check(range(1000, 1400))
