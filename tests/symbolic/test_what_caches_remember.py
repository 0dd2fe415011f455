"""Functions behind `lru_cache` and `cache` that make more than constants, or read more than their arguments: what they
remember is an input of the graph, and guarded as it is."""

import functools
import sys

import pytest
import torch

import jit
from tests.differential import COUNTING, Counting, check

X = torch.arange(4.0)


def _of(**settings):
    """A program, twice, each with a cache of its own: eager and compiled."""

    def make():
        scale = [3]

        @functools.lru_cache(**settings)
        def mask(n, *, up=True, dtype=torch.float32):
            made = torch.ones(n, n, dtype=dtype).mul(scale[0])
            return made.triu() if up else made.tril()

        return mask, scale

    return make(), make()


class Twice:
    """The same calls of a program, with one cache eagerly and with another one compiled."""

    def __init__(self, program, ours, theirs, **settings):
        self.program, self.caches = program, (ours, theirs)
        self.backend = Counting()
        self.compiled = jit.compile(program, backend=self.backend, **settings)

    def call(self, *args):
        results = [run(cache, *args) for run, cache in zip((self.program, self.compiled), self.caches, strict=True)]
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
        assert self.caches[0].cache_info() == self.caches[1].cache_info()
        return results[1]


@pytest.mark.parametrize("settings", [{"maxsize": None}, {"maxsize": 3}, {"maxsize": 3, "typed": True}, {"maxsize": 0}],
                         ids=["unbounded", "bounded", "typed", "none"])
def test_a_mask(settings):
    (ours, _), (theirs, _) = _of(**settings)
    twice = Twice(lambda mask, x: x @ mask(4) + mask(4, up=False), ours, theirs)
    for _ in range(4):
        twice.call(X)
    before = twice.backend.count
    twice.call(X + 1)
    twice.backend.expect(before)
    if settings["maxsize"] != 0 and COUNTING:
        whole = jit.explain(twice.program)(theirs, X)
        ours(4), ours(4, up=False)
        assert (len(whole.graphs), whole.break_reasons) == (1, [])
    twice.call(X)


def test_it_is_the_object_that_is_remembered():
    (ours, _), (theirs, _) = _of(maxsize=None)

    def program(mask, x):
        found = mask(2)
        found.add_(x[0])
        return found, found is mask(2)

    twice = Twice(program, ours, theirs)
    for _ in range(3):
        found, is_one = twice.call(X + 1)
        assert is_one and found is theirs(2) and ours(2) is not None


def test_a_cleared_cache_is_filled_again():
    (ours, scale), (theirs, other) = _of(maxsize=None)
    twice = Twice(lambda mask, x: x @ mask(4), ours, theirs)
    for factor in (1, 1, 2, 2, 1):
        if factor != scale[0]:
            ours.cache_clear(), theirs.cache_clear()
        scale[0] = other[0] = factor
        assert twice.call(X)[0].item() == 0 and theirs(4)[0, 0] == ours(4)[0, 0] == factor


def test_what_a_bounded_cache_forgets_while_the_frame_runs():
    (ours, _), (theirs, _) = _of(maxsize=1)

    def program(mask, x):
        return x[:3] @ mask(3) * 2, x @ mask(4), x[:3] @ mask(3)

    twice = Twice(program, ours, theirs)
    for _ in range(4):
        twice.call(X)


def test_which_was_used_last():
    (ours, _), (theirs, _) = _of(maxsize=2)
    twice = Twice(lambda mask, x: x[:3] @ mask(3), ours, theirs)
    for _ in range(3):
        twice.call(X)
        for mask in (ours, theirs):
            mask(1), mask(3), mask(2), mask(3)  # 1 goes, for 3 was used


def test_one_and_true():
    def make():
        return functools.lru_cache(maxsize=None, typed=True)(lambda n: [n, 2])

    twice = Twice(lambda held, x: (x * held(1)[1], held(True)[0] is True, held(1.0)), make(), make())
    for _ in range(3):
        assert twice.call(X)[1]


class _Layer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.made = 0

    @functools.lru_cache(maxsize=None)  # noqa: B019
    def positions(self, n, device):
        self.made += 1
        return torch.arange(n, device=device) + self.size

    def forward(self, x):
        return x + self.positions(x.shape[-1], x.device)


@pytest.mark.skipif(not COUNTING, reason="a break is forced after every call")
def test_a_method():
    one, other = _Layer(1), _Layer(2)
    backend = Counting()
    compiled = jit.compile(_Layer.forward, backend=backend)
    for _ in range(3):
        for layer in (one, other):
            assert torch.equal(compiled(layer, X), X + torch.arange(4) + layer.size)
    assert one.made == other.made == 1
    assert _Layer.positions.cache_info().hits == 4
    whole = jit.explain(_Layer.forward)(one, X)
    assert (len(whole.graphs), whole.break_reasons) == (1, [])
    assert any(".remembered(" in str(guard) and ", 4, device(" in str(guard) for guard in whole.guards)
    _Layer.positions.cache_clear()


def test_gradients_reach_what_is_remembered():
    def make():
        return functools.lru_cache(maxsize=8)(lambda n: torch.ones(n, requires_grad=True))

    ours, theirs = make(), make()
    twice = Twice(lambda weight, x: (x * weight(4)).sum(), ours, theirs)
    for _ in range(3):
        twice.program(ours, X).backward()
        twice.compiled(theirs, X).backward()
        assert torch.equal(ours(4).grad, theirs(4).grad)


@pytest.mark.parametrize("key", [[4], {}, slice(1, 2) if sys.version_info < (3, 12) else set()], ids=str)
def test_an_argument_that_is_no_key(key):
    cached = functools.lru_cache(maxsize=8)(lambda n: torch.ones(2))

    def program(x):
        try:
            return cached(slice(1, 2) if isinstance(key, slice) else key) * x
        except TypeError as error:
            return x + 1, str(error)

    check(program, X)


def test_a_wrapper_that_does_not_say_what_it_is():
    def make():
        return functools._lru_cache_wrapper(torch.ones, None, False, functools._CacheInfo)

    twice = Twice(lambda held, x: held(4) * x, make(), make())
    for _ in range(3):
        twice.call(X)


@pytest.mark.skipif(not COUNTING, reason="a break is forced after every call")
def test_the_first_call_says_what_to_do():
    (ours, _), _ = _of(maxsize=None)
    program = jit.compile(lambda x: x @ ours(4), fullgraph=True)
    with pytest.raises(jit.Unsupported, match="once it remembers something for these arguments"):
        program(X)
    ours(4)
    assert torch.equal(program(X), X @ ours(4))
