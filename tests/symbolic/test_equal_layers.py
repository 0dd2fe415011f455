"""Layers that are the same code: whatever one of them differs in, from the beginning or later, is seen."""
import copy
import random
import types

import pytest
import torch
from torch import nn

import jit
from jit.compiler import stats

WIDTH = 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(0.5)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.act, self.skips, self.scale = torch.relu, True, 1.0

    def forward(self, x):
        x = x.to(self.up.weight.dtype)
        made = self.drop(self.down(self.act(self.up(self.norm(x)))))
        return (made + x if self.skips else made) * self.scale


class Louder(Layer):
    def forward(self, x):
        return super().forward(x) * 2


class Counting(Layer):
    seen = 0

    def forward(self, x):
        self.seen += 1
        return super().forward(x) * self.seen


class Logging(Layer):
    """All of them write into one list, and go by its length."""

    log: list

    def forward(self, x):
        self.log.append(self.scale)
        return super().forward(x) + len(self.log)


class Drawing(Layer):
    def forward(self, x):
        return super().forward(x) * random.random() + torch.rand(WIDTH)


class Looking(Layer):
    """Goes by what another layer is, whichever it is itself."""

    others: list

    def forward(self, x):
        return super().forward(x) * self.others[0].scale + self.others[0].up.bias[0]


class Model(nn.Module):
    def __init__(self, kind=Layer):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(kind() for _ in range(4))
        log, others = [], list(self.layers)
        for layer in self.layers:
            layer.log, layer.others = log, others

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def narrow(layer):
    layer.up, layer.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)


def replaced(name, function):
    return lambda model: setattr(model.layers[2], name, types.MethodType(function, model.layers[2]))


#: What happens to one of the layers, which compiled code has to see.
CHANGES = {
    "a flag": lambda model: setattr(model.layers[2], "skips", False),
    "a number": lambda model: setattr(model.layers[2], "scale", 2.0),
    "a number of the first": lambda model: setattr(model.layers[0], "scale", 3.0),
    "a number of the last": lambda model: setattr(model.layers[3], "scale", 0.5),
    "a function": lambda model: setattr(model.layers[2], "act", torch.tanh),
    "a method of its own": replaced("forward", lambda self, x: self.up(x)[..., :WIDTH]),
    "a class": lambda model: setattr(model.layers[2], "__class__", Louder),
    "dtype": lambda model: model.layers[2].double(),
    "shape": lambda model: narrow(model.layers[2]),
    "strides": lambda model: setattr(
        model.layers[2].up, "weight", nn.Parameter(model.layers[2].up.weight.detach().t().contiguous().t())
    ),
    "no gradient": lambda model: model.layers[2].up.weight.requires_grad_(False),
    "no bias": lambda model: setattr(model.layers[2].up, "bias", None),
    "another module": lambda model: model.layers.__setitem__(2, nn.Linear(WIDTH, WIDTH)),
    "one layer less": lambda model: model.layers.__delitem__(2),
    "a layer twice": lambda model: model.layers.__setitem__(2, model.layers[1]),
    "a module of two layers": lambda model: setattr(model.layers[2], "up", model.layers[1].up),
    "a weight of two layers": lambda model: setattr(model.layers[2].up, "weight", model.layers[1].up.weight),
    "a hook": lambda model: model.layers[2].register_forward_hook(lambda module, args, result: result * 2),
    "a hook before": lambda model: model.layers[2].register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "a hook inside": lambda model: model.layers[2].up.register_forward_hook(lambda module, args, result: result + 1),
    "a hook of the gradient": lambda model: model.layers[2].up.weight.register_hook(lambda grad: grad * 2),
    "a mode": lambda model: model.layers[2].drop.train(),
    "all modes": lambda model: model.train(),
    "an epsilon": lambda model: setattr(model.layers[2].norm, "eps", 0.1),
}  # fmt: skip
#: Those after which compiled code is as good as before: it is the same for two objects and for one that comes twice.
UNSEEN = {"a layer twice", "a module of two layers", "a weight of two layers", "a hook of the gradient"}
KINDS = (Layer, Counting, Logging, Drawing, Looking)
BACKENDS = ("eager", "aot_eager")


def called(model, call, x):
    """What the call gives and leaves behind."""
    torch.manual_seed(1)
    random.seed(1)
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    result = call(leaf)
    result.sum().backward()
    grads = [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]
    left = [(layer.__dict__.get("seen"), list(layer.__dict__.get("log", ()))) for layer in model.layers]
    return result.detach(), leaf.grad, grads, left, torch.rand(()), random.random()


def assert_same(found, expected):
    *found, left, number, drawn = found
    *expected, left_before, number_before, drawn_before = expected
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert (left, float(number), drawn) == (left_before, float(number_before), drawn_before)


def pair(kind):
    """A model to be compiled, and the same to compare it with."""
    model = Model(kind).eval()
    return model, copy.deepcopy(model)


def changed(change, *models):
    for model in models:
        torch.manual_seed(2)
        CHANGES[change](model)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", CHANGES)
def test_from_the_beginning(change, backend):
    model, plain = pair(Layer)
    changed(change, model, plain)
    compiled, x = jit.compile(model, backend=backend), torch.randn(3, WIDTH)
    for _ in range(2):
        assert_same(called(model, compiled, x), called(plain, plain, x))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", CHANGES)
def test_later(change, backend):
    model, plain = pair(Layer)
    compiled, x = jit.compile(model, backend=backend), torch.randn(3, WIDTH)
    assert_same(called(model, compiled, x), called(plain, plain, x))
    before = stats.captures
    assert_same(called(model, compiled, x), called(plain, plain, x))
    assert stats.captures == before
    changed(change, model, plain)
    for _ in range(2):
        assert_same(called(model, compiled, x), called(plain, plain, x))
    assert change in UNSEEN or stats.captures > before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", ["a number", "a number of the first", "a flag", "all modes", "a layer twice"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_layers_that_do_more(kind, change):
    """They count, write into what is shared, draw random numbers, look at each other; then one of them changes."""
    model, plain = pair(kind)
    compiled, x = jit.compile(model, backend="aot_eager"), torch.randn(3, WIDTH)
    for _ in range(3):
        assert_same(called(model, compiled, x), called(plain, plain, x))
    changed(change, model, plain)
    for _ in range(3):
        assert_same(called(model, compiled, x), called(plain, plain, x))
