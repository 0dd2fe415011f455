"""Functions behind `lru_cache` and `cache`: the cache is filled as in eager code, the function runs as often."""

import functools
import math
from types import SimpleNamespace

import pytest
import torch

import jit
from tests.differential import check, same_as_eager

X = torch.ones(3)


def _area():
    @functools.lru_cache(maxsize=8)
    def area(r, places=2):
        return round(math.pi * r * r, places)

    return area, lambda x: x * area(2) + area(2, places=1) + area(3)


def _double():
    @functools.cache
    def double(n):
        return n * 2

    return double, lambda x: x + double(2) + double(2) + double(3)


def _fib():
    @functools.cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib, lambda x: x * fib(12) + fib(3)


def _inverse():
    @functools.cache
    def inverse(n):
        return 1 / n

    def program(x):
        try:
            return x * inverse(0)
        except ZeroDivisionError:
            return x * inverse(2)

    return inverse, program


@pytest.mark.parametrize("make", [_area, _double, _fib])
def test_hits_and_misses(make):
    cached, program = make()
    same, compiled = make()
    compiled = jit.compile(compiled)
    for _ in range(3):
        assert torch.equal(program(X), compiled(X))
        assert cached.cache_info() == same.cache_info()


def test_a_cached_function_that_raises():
    cached, program = _inverse()
    check(program, X)
    assert cached.cache_info().currsize == 1
    cached.cache_clear()
    jit.compile(program)(X)
    assert cached.cache_info() == (0, 2, None, 1)  # the one that raised was none of those it remembers


class _Named:
    def __init__(self):
        self.calls = []
        self.get = functools.lru_cache(maxsize=None)(self._get)

    def _get(self, name):
        self.calls.append(name)
        return len(name)


def test_a_cached_method_is_not_called_while_tracing():
    same, named = _Named(), _Named()

    def program(x, names):
        return x * names.get("relu") + names.get("relu") + names.get("tanh")

    compiled = jit.compile(program)
    for _ in range(3):
        assert torch.equal(program(X, same), compiled(X, named))
        assert (same.calls, same.get.cache_info()) == (named.calls, named.get.cache_info())


def test_a_cached_function_of_c():
    same, root = functools.cache(math.sqrt), functools.cache(math.sqrt)
    compiled = jit.compile(lambda x: x * root(4) + root(4), fullgraph=True)
    for _ in range(3):
        assert torch.equal(X * same(4) + same(4), compiled(X))
        assert same.cache_info() == root.cache_info()


@same_as_eager
def test_one_made_inside_counts_its_calls():
    calls = []

    @functools.lru_cache(maxsize=None)
    def down(n):
        calls.append(n)
        return n if n < 1 else down(n - 1) + 1

    return torch.ones(2) * down(3), calls, down.cache_info(), down(2), down.cache_info()


def test_a_cached_answer_outlives_what_it_was_made_of():
    config = SimpleNamespace(scale=2)

    @functools.cache
    def scale():
        return config.scale

    def program(x):
        y = x * scale()
        config.scale = config.scale + 1
        return y * scale(), config.scale

    check(program, X)


def test_what_the_frame_wrote_before_is_seen():
    config = SimpleNamespace(scale=2)

    @functools.cache
    def scale(n):
        return config.scale * n

    def program(x):
        config.scale = 5
        return x * scale(1)

    check(program, X)
