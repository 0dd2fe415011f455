"""Programs made at random whose objects say what they are asked: eager and compiled code ask the same, in one order."""

import gc
import random
import warnings

import pytest

import jit
from tests.symbolic.asked_at_random import FAMILIES, loaded, seen


@pytest.mark.sampled(80)
@pytest.mark.parametrize("seed", range(120))
@pytest.mark.parametrize("family", FAMILIES)
def test_programs(family, seed):
    """Ten programs of a family; each is run twice."""
    maker = random.Random(f"{family}.{seed}")
    for _ in range(10):
        text = FAMILIES[family](maker)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                scope, compiled = loaded(text), loaded(text)
            except SyntaxError:  # `return` of a value, or `break`, where there can be none
                continue
            expected = [seen(scope["program"], scope["make"]) for _ in range(2)]
            gc.collect()
            function = jit.compile(compiled["program"], backend="eager")
            for each in expected:
                assert seen(function, compiled["make"]) == each, text
            gc.collect()
