"""Functions that do little with arrays alone run as they are written; whatever else is compiled."""
import numpy as np
import pytest
import torch

import jit
from tests.differential import COUNTING, check

counts = pytest.mark.skipif(not COUNTING, reason="counts graphs")


def little(x):
    return x * 2 + 1


def more(x):
    return ((x * 2 + 1) * x - 3) / (x * x + 1)


def in_a_loop(x):
    total = x * 0
    for _ in range(2):
        total = total + x
    return total


def with_a_tensor(x):
    return torch.from_numpy(x) * 2


def graphs_of(function, *args, **options):
    before = jit.stats()["graphs"]
    compiled = jit.compile(function, **options)
    for _ in range(2):
        compiled(*args)
    return jit.stats()["graphs"] - before


@counts
def test_what_brings_little_runs_as_written():
    assert graphs_of(little, np.ones(4)) == 0
    assert graphs_of(little, np.ones(4), fullgraph=True) == 1
    assert graphs_of(little, np.ones(4), backend="aot_eager") == 1
    assert graphs_of(little, torch.ones(4)) == 1
    assert graphs_of(little, np.ones(1 << 19)) == 1
    assert graphs_of(more, np.ones(4)) == 1
    assert graphs_of(in_a_loop, np.ones(4)) == 1


@counts
def test_tensors_and_large_arrays_after_it_are_compiled():
    compiled = jit.compile(little)
    before = jit.stats()["graphs"]
    compiled(np.ones(4))
    compiled(np.ones((2, 3), np.float32))
    assert jit.stats()["graphs"] == before
    compiled(torch.ones(4))
    compiled(np.ones(1 << 19))
    compiled(np.ones(4))
    assert jit.stats()["graphs"] == before + 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [little, more, in_a_loop, with_a_tensor])
def test_results(program):
    changed = [(np.ones((2, 3)),), (np.full(4, 1e308),), (np.arange(4),), (np.ones(1 << 19),)]
    check(program, np.arange(4.0), changed=changed, backend="default")
