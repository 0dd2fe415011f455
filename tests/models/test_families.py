"""Models of all families: what compiled code computes is what eager code does, bit for bit, in one graph but for those
of which it is said why not."""
import importlib.util

import pytest

from jit import backends
from tests.differential import COUNTING
from tests.models.families import BREAKS, FAMILIES
from tests.models.judge import WAYS, judge

TRAINED = ("forward", "training")
GENERATING = [name for name, model in FAMILIES.items() if model.generates]


def named(name):
    package = FAMILIES[name].package
    missing = importlib.util.find_spec(package) is None
    return pytest.param(name, marks=[pytest.mark.long, pytest.mark.skipif(
        missing, reason=f"{package} is not installed: the extra `families` brings it")])


def broken(name, way):
    return name in BREAKS or f"{name} {way}" in BREAKS


@pytest.mark.parametrize("name", map(named, FAMILIES))
@pytest.mark.parametrize("way", TRAINED)
def test_as_captured(name, way):
    found = judge(FAMILIES[name], WAYS[way])
    assert not found.wrong
    if COUNTING:
        assert found.is_whole != broken(name, way), found.breaks


@pytest.mark.parametrize("name", map(named, FAMILIES))
@pytest.mark.parametrize("way", TRAINED)
def test_through_kernels(name, way):
    assert not judge(FAMILIES[name], WAYS[way], backends.kernels, seeds=(0, 1)).wrong


@pytest.mark.parametrize("name", map(named, GENERATING))
def test_generation(name):
    assert not judge(FAMILIES[name], WAYS["generation"]).wrong


def test_all_that_is_said_of_breaks_is_said_of_a_model():
    known = {*FAMILIES, *(f"{name} {way}" for name in FAMILIES for way in TRAINED)}
    assert set(BREAKS) <= known
