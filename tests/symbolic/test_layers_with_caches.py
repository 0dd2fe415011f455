"""Layers that keep what they computed in a cache, each at its number: whatever one of them differs in is seen."""

import copy

import pytest
import torch
from torch import nn

import jit
from tests.with_and_without import compared

WIDTH, DEPTH = 8, 5


class Entry:
    def __init__(self):
        self.keys, self.is_filled = None, False

    def update(self, keys):
        self.keys = torch.cat([self.keys, keys], 0) if self.is_filled else keys
        self.is_filled = True
        return self.keys


class Louder(Entry):
    def update(self, keys):
        return super().update(keys * 2)


class Cache:
    def __init__(self):
        self.entries, self.updated = [Entry() for _ in range(DEPTH)], {}

    def update(self, keys, at):
        self.updated[at] = True
        return self.entries[at].update(keys)

    def count(self, at):
        return 0 if self.entries[at].keys is None else len(self.entries[at].keys)


class Counting(Cache):
    """Goes by what the others have."""

    def update(self, keys, at):
        return super().update(keys, at) + len(self.updated)


class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.norm, self.up, self.down = number, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, cache):
        seen = cache.count(self.number)
        keys = cache.update(self.up(self.norm(x)), self.number)
        return x + self.down(torch.relu(keys.sum(0) + seen))


class Neighbour(Layer):
    def forward(self, x, cache):
        return super().forward(x, cache) + cache.entries[self.number - 1].update(x).sum(0)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(map(Layer, range(DEPTH)))
        self.prepare = lambda cache: None
        self.cache = Cache

    def forward(self, x, cache=None):
        if cache is None:
            cache = self.cache()
            self.prepare(cache)
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache


def filled(at):
    def prepare(cache):
        cache.entries[at].update(torch.ones(2, WIDTH))

    return lambda model: setattr(model, "prepare", prepare)


def put(at, make):
    return lambda model: setattr(model, "prepare", lambda cache: cache.entries.__setitem__(at, make(cache)))


CHANGES = {
    "nothing": lambda model: None,
    "a number twice": lambda model: setattr(model.layers[4], "number", 3),
    "a number from behind": lambda model: setattr(model.layers[4], "number", -1),
    "a number that is a bool": lambda model: setattr(model.layers[1], "number", True),
    "two that change places": lambda model: [setattr(model.layers[at], "number", 5 - at) for at in (2, 3)],
    "one that is filled": filled(4), "the second one filled": filled(1), "the first one filled": filled(0),
    "a derived entry": put(4, lambda cache: Louder()), "an entry twice": put(4, lambda cache: cache.entries[3]),
    "a derived cache": lambda model: setattr(model, "cache", Counting),
    "a layer that reads its neighbour's": lambda model: setattr(model.layers[4], "__class__", Neighbour),
    "layers that read their neighbours'": lambda model: [setattr(layer, "__class__", Neighbour) for layer in model.layers[1:]],
    "a layer twice": lambda model: model.layers.__setitem__(4, model.layers[3]),
}  # fmt: skip


def called(call, x):
    """What comes of two calls, the second of which is given the cache that the first one made."""
    found, given = [], []
    for _ in range(2):
        x, cache = call(x, *given)
        given = [cache]
        found += [x, [each.keys for each in cache.entries], [(type(each), each.is_filled) for each in cache.entries], cache.updated]
        found += [[cache.entries.index(each) for each in cache.entries]]
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_one_that_differs(change, monkeypatch):
    model = Decoder().requires_grad_(False)
    CHANGES[change](model)
    plain = copy.deepcopy(model)
    with compared(monkeypatch):
        found = called(jit.compile(model, backend="eager"), torch.ones(3, WIDTH))
    for one, other in zip(found, called(plain, torch.ones(3, WIDTH)), strict=True):
        if isinstance(one, torch.Tensor) or isinstance(one[0], torch.Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
        else:
            assert one == other
