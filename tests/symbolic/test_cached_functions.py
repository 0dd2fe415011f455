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
