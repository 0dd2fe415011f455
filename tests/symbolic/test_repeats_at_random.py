"""Layers made at random, that differ here and there at random: what is repeated is what would be read."""

import random

import pytest
import torch
from torch import nn

import jit
from tests.with_and_without import compared

WIDTH = 4
DEPTH = 7
TALLY = {"count": 0}
TABLE = [1.0, 2.0, 3.0]


class Layer(nn.Module):
    """What `steps` says, one after the other."""

    total = 0

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.up, self.norm, self.batch = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.BatchNorm1d(WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.register_buffer("seen", torch.ones(WIDTH))
        self.scales, self.options, self.sizes = [1.0, 2.0], {"bias": 0.5, "gate": True}, (WIDTH, 1)
        self.level, self.flag, self.name, self.tensors = 1, True, "a", [torch.ones(WIDTH), torch.zeros(WIDTH)]

    def forward(self, x, extra=None):
        for step in self.steps:
            x = STEPS[step](self, x, extra)
        return x


def in_place(layer, x, extra):
    x = x * 1
    x += layer.level
    return x.clamp_(-9, 9)


def written(layer, x, extra):
    layer.seen.mul_(0.5)
    return x + layer.seen


def through_views(layer, x, extra):
    left, right = x.chunk(2, -1)
    return torch.cat([right, left], -1).t().t()


def without_grad(layer, x, extra):
    with torch.no_grad():
        scale = layer.norm(x).sigmoid()
    return x * scale


def tallied(layer, x, extra):
    TALLY["count"] += 1
    return x + TALLY["count"]


def of_class(layer, x, extra):
    Layer.total += 1
    return x


def counted(layer, x, extra):
    layer.level += 1
    return x * 0.5


def tried(layer, x, extra):
    try:
        return x * layer.missing
    except AttributeError:
        return x * 2


def made_by_function(layer, x, extra):
    return (lambda y: y + layer.options["bias"])(x)


STEPS = {
    "up": lambda layer, x, extra: layer.up(x),
    "norm": lambda layer, x, extra: layer.norm(x),
    "batch": lambda layer, x, extra: layer.batch(x),
    "inner": lambda layer, x, extra: x + layer.inner(x),
    "weight": lambda layer, x, extra: x @ layer.up.weight.t() + layer.inner[0].bias,
    "scales": lambda layer, x, extra: x * sum(layer.scales),
    "options": lambda layer, x, extra: x + layer.options["bias"] if layer.options.get("gate") else x,
    "sizes": lambda layer, x, extra: x.reshape(-1, layer.sizes[0]) * layer.sizes[1],
    "flag": lambda layer, x, extra: x.tanh() if layer.flag and layer.training else x.sin(),
    "name": lambda layer, x, extra: x + TABLE["abc".index(layer.name)],
    "tensors": lambda layer, x, extra: x + layer.tensors[0] - layer.tensors[-1],
    "extra": lambda layer, x, extra: x if extra is None else x + extra,
    "known": lambda layer, x, extra: x * 2 if extra is x else x,
    "other": lambda layer, x, extra: x * (2 if getattr(layer, "other", None) is layer else 1),
    "drawn": lambda layer, x, extra: x + torch.rand(WIDTH),
    "grad": lambda layer, x, extra: x * (2 if layer.up.weight.requires_grad else 1),
    "attribute": lambda layer, x, extra: x * getattr(layer.up.weight, "tag", 1),
    "hasattr": lambda layer, x, extra: x * (3 if hasattr(layer, "special") else 1),
    "in place": in_place, "written": written, "views": through_views, "no grad": without_grad, "tallied": tallied,
    "of class": of_class, "counted": counted, "tried": tried, "function": made_by_function,
}  # fmt: skip
EFFECTS = {"tallied", "of class", "counted"}


def replaced(layer, name, value):
    setattr(layer, name, value)


#: (layer, all layers) -> changes it
CHANGES = [
    lambda layer, layers: replaced(layer, "level", 5),
    lambda layer, layers: replaced(layer, "flag", False),
    lambda layer, layers: replaced(layer, "name", "b"),
    lambda layer, layers: layer.scales.append(3.0),
    lambda layer, layers: layer.options.update(gate=False),
    lambda layer, layers: layer.options.pop("gate", None),
    lambda layer, layers: replaced(layer, "tensors", layers[0].tensors),
    lambda layer, layers: replaced(layer, "scales", layers[0].scales),
    lambda layer, layers: layer.tensors.reverse(),
    lambda layer, layers: replaced(layer, "up", layers[0].up),
    lambda layer, layers: replaced(layer.up, "weight", layers[-1].up.weight),
    lambda layer, layers: replaced(layer.up, "bias", layer.inner[0].bias),
    lambda layer, layers: replaced(layer, "inner", nn.Sequential(nn.Linear(WIDTH, WIDTH))),
    lambda layer, layers: layer.eval(),
    lambda layer, layers: layer.batch.eval(),
    lambda layer, layers: layer.up.requires_grad_(False),
    lambda layer, layers: layer.__dict__.update(other=layer),
    lambda layer, layers: [each.__dict__.update(other=layer) for each in layers],
    lambda layer, layers: replaced(layer, "special", 1),
    lambda layer, layers: replaced(layer, "missing", 3),
    lambda layer, layers: replaced(layer.up.weight, "tag", 2),
    lambda layer, layers: layer.register_forward_hook(lambda module, args, result: result * 2),
    lambda layer, layers: layer.inner[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    lambda layer, layers: replaced(layer, "forward", lambda x, extra=None, layer=layer: x * layer.level),
    lambda layer, layers: replaced(layer, "sizes", (WIDTH, 3)),
    lambda layer, layers: replaced(layer.norm, "eps", 0.5),
    lambda layer, layers: replaced(layer, "seen", layers[0].seen),
]


class Model(nn.Module):
    def __init__(self, seed):
        super().__init__()
        choose = random.Random(seed)
        torch.manual_seed(seed)
        plain = [step for step in STEPS if step not in EFFECTS or seed % 3 == 0]
        steps = choose.sample(plain, choose.randint(2, 8))
        self.layers = nn.ModuleList(Layer(steps) for _ in range(DEPTH))
        for _ in range(choose.randint(0, 3)):
            choose.choice(CHANGES)(self.layers[choose.randrange(DEPTH)], list(self.layers))
        self.extra, self.peeks, self.breaks = choose.choice([0, 0, 1, 2, 3]), choose.randrange(4), choose.randrange(5)

    def forward(self, x):
        first, kept = x, []
        for at, layer in enumerate(self.layers):
            if self.peeks == 1 and layer.flag and at > 2:
                x = x + layer.scales[0]
            extra = (None, x, first, kept[-1] if kept else None)[self.extra]
            x = layer(x) if extra is None else layer(x, extra=extra)
            if self.breaks == 1 and at == 4:
                x = x * (1 if x.sum().item() < 1e9 else 2)
            kept.append(x)
        return x, kept[2]


def outcome(model, call, x, grad):
    TALLY["count"], Layer.total = 0, 0
    torch.manual_seed(1)
    with torch.set_grad_enabled(grad):
        results = call(x.clone())
    if grad and results[0].requires_grad:
        sum(result.sum() for result in results).backward()
    left = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    buffers = [b.clone() for b in model.buffers()]
    return results, left, buffers, torch.rand(1), TALLY["count"], Layer.total, [each.level for each in model.layers]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("seed", range(24))
def test_random_layers(seed, monkeypatch):
    """As they are made, and after another change."""
    model, plain, x = Model(seed), Model(seed), torch.randn(3, WIDTH)
    change, at = random.Random(seed).choice(CHANGES), seed % DEPTH
    with compared(monkeypatch):
        compiled = jit.compile(model, backend="eager")
        for grad in (True, False):
            for _ in range(2):
                found, expected = outcome(model, compiled, x, grad), outcome(plain, plain, x, grad)
                torch.testing.assert_close(found, expected, equal_nan=True)
            for each in (model, plain):
                torch.manual_seed(2)
                change(each.layers[at], list(each.layers))
