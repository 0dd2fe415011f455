"""Layers that are handed what the frame made, and do all kinds of things with it: repeated or not, nobody sees it."""
import collections
import copy
import types

import pytest
import torch
from torch import nn

import jit
from tests.with_and_without import compared

WIDTH, DEPTH = 4, 7


class Entry:
    def __init__(self):
        self.keys = None


class Cache:
    def __init__(self):
        self.entries, self.seen, self.by_number, self.total, self.last = [], {}, {}, 0, None
        self.names = set()
        self.buffer = torch.zeros(DEPTH, WIDTH)

    def update(self, x, at, sign=1):
        while len(self.entries) <= at:
            self.entries.append(Entry())
        entry = self.entries[at]
        entry.keys = x * sign if entry.keys is None else torch.cat([entry.keys, x])
        self.total += 1
        return entry.keys

    def both(self, x, at):
        return self.update(x, at), (x, at * 0)

    def count(self):
        return len(self.entries)

    def at_four(self, x, at):
        if at == 4:
            raise LookupError(at)
        return self.update(x, at)

    def later(self, x, at):
        return x.repeat(1, 2)[:, :WIDTH] if at == 5 else self.update(x, at)

    def wider(self, x, at):
        return x[:, :2] if at == 5 else x[:, :3]

    def slower(self, x, at):
        for _ in range(at):
            self.total += 1
        return self.update(x, at)

    def noisy(self, x, at):
        return self.update(x + torch.rand(WIDTH), at)

    def written(self, x, at):
        self.buffer[at].copy_(x.sum(0))
        return x + self.buffer[at]

    def turned(self, x, at):
        self.buffer.t_()
        return x * 2

    def become(self, x, at):
        if at == 4:
            self.__class__ = Other
        return x

    def into(self, x, at):
        x.add_(at)
        return x

    def same(self, x, at):
        return x

    def printed(self, x, at):
        print(at)
        return x

    def number(self, at):
        return at

    def of(self, holder):
        self.total += holder["n"]
        return holder["x"] * 2

    @property
    def size(self):
        return len(self.entries)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, at):
        return self.entries[at].keys

    def __setitem__(self, at, value):
        self.update(value, at)


class Other(Cache):
    pass


def helper(cache, x, at):
    return cache.update(x, at)


def looking(cache, x):
    return x + len(cache.entries)


def put_aside(cache, x):
    cache.last = x


def caught(self, x, cache):
    try:
        return x + cache.at_four(x, self.n)
    except LookupError:
        return x - cache.total


def twice(self, x, cache):
    cache.update(x, self.n)
    return cache.update(x * 2, self.n).sum(0) + x


def counted(self, x, cache):
    cache.by_number[self.n] = cache.by_number.get(self.n, 0) + 1
    return x + cache.by_number[self.n]


def summed(self, x, cache):
    total = x
    for each in cache.entries:
        total = total + each.keys
    cache.update(x, self.n)
    return total


def swapped(self, x, cache):
    cache.update(x, self.n)
    cache.entries[self.n].keys = x * 3
    return x + 1


def temporary(self, x, cache):
    outputs = [x]
    outputs.append(cache.update(x, self.n))
    holder = types.SimpleNamespace(kept=outputs[-1])
    holder.kept = holder.kept + len(outputs)
    return holder.kept


def stored_in_new(self, x, cache):
    return x + cache.of({"x": x, "n": self.n})


def moved(self, x, cache):
    old, cache.entries = cache.entries, [*cache.entries, Entry()]
    return x + len(old)


def one_more(self, x, cache):
    cache.update(x, self.n)
    cache.total = cache.total + 1
    return x + 1


def deleted(self, x, cache):
    cache.by_number[self.n] = x
    del cache.by_number[self.n]
    return x + 1


def kept_in_set(self, x, cache):
    cache.names.add(self.n)
    return x * 2


FORWARDS = {
    "updates": (lambda self, x, cache: x + cache.update(x, self.n), True),
    "updates by name": (lambda self, x, cache: x + cache.update(x, at=self.n, sign=-1), True),
    "a tuple comes back": (lambda self, x, cache: x + cache.both(x, self.n)[1][0] + cache.both(x, self.n)[0].sum(0), True),
    "twice": (twice, True),
    "an item stored and read": (counted, True),
    "its own items": (lambda self, x, cache: (cache.__setitem__(self.n, x), x + cache[self.n])[1], True),
    "items by brackets": (lambda self, x, cache: (exec_store(cache, self.n, x), x + cache[self.n])[1], True),
    "handed on to a function": (lambda self, x, cache: x + helper(cache, x, self.n), True),
    "a temporary list": (temporary, True),
    "a set": (kept_in_set, True),
    "the same tensor comes back": (lambda self, x, cache: x + cache.same(x, self.n), True),
    "a buffer of its own": (lambda self, x, cache: x + cache.written(x, self.n), None),
    "in place": (lambda self, x, cache: x + cache.into(x * 2, self.n), None),
    "an optional one": (lambda self, x, cache: x if cache is None else x + cache.update(x, self.n), True),
    "random numbers": (lambda self, x, cache: x + cache.noisy(x, self.n), False),
    "prints": (lambda self, x, cache: x + cache.printed(x, self.n), False),
    "counts what it does": (lambda self, x, cache: x + cache.update(x, self.n) + cache.count(), False),
    "asks for a length": (lambda self, x, cache: x + cache.update(x, self.n) + len(cache.entries), False),
    "asks for its own length": (lambda self, x, cache: x + cache.update(x, self.n) + len(cache), False),
    "asks a property": (lambda self, x, cache: x + cache.update(x, self.n) + cache.size, False),
    "asks a function": (lambda self, x, cache: looking(cache, x + cache.update(x, self.n)), False),
    "asks for a total": (lambda self, x, cache: x + cache.update(x, self.n) + cache.total, False),
    "asks whether": (lambda self, x, cache: x + cache.update(x, self.n) if cache.total < 4 else x - cache.update(x, self.n), False),
    "a number looked at": (lambda self, x, cache: x + cache.update(x, self.n) * (2 if self.n == 4 else 1), False),
    "a number in a sum": (lambda self, x, cache: x + cache.update(x, self.n) + self.n, False),
    "a number in a text": (lambda self, x, cache: x + cache.update(x, self.n) + len(f"{self.n * 99}"), False),
    "a number comes back": (lambda self, x, cache: x + cache.update(x, self.n) + cache.number(self.n), False),
    "the number before": (lambda self, x, cache: x + cache.update(x, self.n - 1), False),
    "stores itself": (lambda self, x, cache: (cache.update(x, self.n), put_aside(cache, x), x + cache.total)[2], False),
    "another class": (lambda self, x, cache: x + (cache.become(x, self.n) if type(cache) is Cache else 2), False),
    "a buffer that is looked at": (lambda self, x, cache: x + cache.written(x, self.n) + cache.buffer.sum(), None),
    "a buffer turned": (lambda self, x, cache: x + cache.turned(x, self.n) + cache.buffer.shape[0], False),
    "a buffer turned here": (lambda self, x, cache: x + cache.buffer.t_().shape[0], None),
    "a buffer that gets gradients": (lambda self, x, cache: x + cache.written(x, self.n) + cache.buffer.requires_grad, None),
    "reads all": (summed, False), "changes an entry": (swapped, False), "takes another list": (moved, False),
    "counts itself": (one_more, False), "deletes": (deleted, False), "in a new dict": (stored_in_new, False),
    "catches": (caught, False),
    "membership": (lambda self, x, cache: (counted(self, x, cache), x + (3 in cache.by_number))[1], False),
    "unpacked": (lambda self, x, cache: (counted(self, x, cache), x + sum([*cache.by_number]))[1], False),
    "unpacked as names": (lambda self, x, cache: (counted(self, x, cache), x + len({**cache.by_number}))[1], False),
    "compared": (lambda self, x, cache: (counted(self, x, cache), x + (cache.by_number == {0: 1, 1: 1, 2: 1, 3: 1}))[1], False),
    "true": (lambda self, x, cache: (x + bool(cache.by_number), counted(self, x, cache))[0], None),
    "the last": (lambda self, x, cache: (cache.update(x, self.n), x + cache.entries[-1].keys)[1], False),
    "the largest": (lambda self, x, cache: (counted(self, x, cache), x + max(cache.by_number))[1], False),
    "attributes of all": (lambda self, x, cache: (cache.update(x, self.n), x + len(vars(cache)["entries"]))[1], False),
    "another shape later": (lambda self, x, cache: x + cache.wider(x, self.n).sum(), None),
    "another way later": (lambda self, x, cache: x + cache.later(x, self.n), None),
    "longer each time": (lambda self, x, cache: x + cache.slower(x, self.n), None),
    "raises later": (lambda self, x, cache: x + cache.at_four(x, self.n), None),
}  # fmt: skip


def exec_store(cache, at, x):
    cache[at] = x


class Layer(nn.Module):
    def __init__(self, n, forward):
        super().__init__()
        self.n, self.up, self.body = n, nn.Linear(WIDTH, WIDTH), forward

    def forward(self, x, cache):
        return self.body(self, self.up(x), cache)


class Model(nn.Module):
    def __init__(self, forward, make=Cache):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Layer(n, forward) for n in range(DEPTH))
        self.make = make

    def forward(self, x):
        cache = self.make()
        for layer in self.layers:
            x = layer(x, cache)
        return x, cache


def shown(value):
    """What came of a call, as text of all that it holds."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    return shown(vars(value)) if hasattr(value, "__dict__") else value


def outcome(call, x):
    torch.manual_seed(1)
    try:
        return shown(call(x))
    except LookupError as error:
        return repr(error)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", FORWARDS)
def test_what_layers_do(name, train, monkeypatch, capsys):
    forward, is_repeated = FORWARDS[name]
    model = Model(forward).requires_grad_(train)
    plain = copy.deepcopy(model)
    with compared(monkeypatch) as counts:
        found = outcome(jit.compile(model, backend="eager"), torch.ones(2, WIDTH))
    said = capsys.readouterr().out
    assert found == outcome(plain, torch.ones(2, WIDTH))
    assert is_repeated is not False or said.endswith(capsys.readouterr().out)
    if is_repeated is not None and not jit.config.break_everywhere:
        assert bool(counts[-1][Layer]) is is_repeated


def test_models_of_their_own(monkeypatch):
    """The number is looked at by what a whole model does with a cache of its own: models are no repeats."""

    class Small(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.layer = Layer(n, lambda self, x, cache: x + cache.slower(x, self.n))

        def forward(self, x):
            cache = Cache()
            return self.layer(x, cache) + cache.total

    model = nn.Sequential(*map(Small, range(DEPTH))).requires_grad_(False)
    with compared(monkeypatch):
        found = jit.compile(model, backend="eager")(torch.ones(2, WIDTH))
    torch.testing.assert_close(found, model(torch.ones(2, WIDTH)), rtol=0, atol=0)


class Ordered(collections.OrderedDict):
    def update_at(self, x, at):
        self[at] = x
        return x * len(self)


@pytest.mark.parametrize(
    "make, forward",
    [
        (list, lambda self, x, cache: (cache.append(x), x + len(cache))[1]),
        (list, lambda self, x, cache: (cache.append(x), x + 1)[1]),
        (dict, lambda self, x, cache: (cache.setdefault(self.n, x), x + 1)[1]),
        (dict, lambda self, x, cache: (cache.update({self.n: x}), x + cache[self.n])[1]),
        (Ordered, lambda self, x, cache: x + cache.update_at(x, self.n)),
        (collections.deque, lambda self, x, cache: (cache.append(x), x + len(cache))[1]),
        (lambda: iter(range(99)), lambda self, x, cache: x + next(cache)),
        (lambda: (n for n in range(99)), lambda self, x, cache: x + next(cache)),
        (lambda: [[], {}], lambda self, x, cache: (cache[0].append(x), x + len(cache[0]))[1]),
        (lambda: ([], {}), lambda self, x, cache: (cache[0].append(x), x + len(cache[0]))[1]),
        (lambda: ([], {}), lambda self, x, cache: (cache[0].append(x), x + 1)[1]),
    ],
    ids=["list, length", "list", "dict", "dict, update", "derived", "deque", "iterator", "generator", "list of two", "tuple, length", "tuple"],
)
def test_other_things_than_caches(make, forward, monkeypatch):
    model = Model(forward, make).requires_grad_(False)
    plain = copy.deepcopy(model)
    with compared(monkeypatch):
        x, cache = jit.compile(model, backend="eager")(torch.ones(2, WIDTH))
    y, other = plain(torch.ones(2, WIDTH))
    assert x.tolist() == y.tolist()
    if isinstance(other, (list, dict, tuple)):
        assert shown(cache) == shown(other)
