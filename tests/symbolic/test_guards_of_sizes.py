"""What guards on sizes cost, and that they suffice: where those of an entry hold, its code gives what eager code does.

An entry that was compiled for some call is asked about calls that it was never made for, and run for each that it takes:
no other entry, tried before it, hides what it would do."""
import sys

import pytest
import torch

import jit
from symbolic import terms
from tests.differential import COUNTING
from tests.symbolic.shape_programs import unsound


# --- cost -------------------------------------------------------------------------------------------------------------
def _many_sizes(*tensors):
    known = 0
    for x, y in zip(tensors, (*tensors[1:], tensors[0])):
        rows, columns = x.shape
        known += (rows * 3 < y.shape[1]) + 2 * (y.shape[0] + columns < 40) + 4 * (rows < columns)
        known -= (columns % 7 == 6) + 2 * (rows != 31) + 4 * (columns * 2 - rows > 5)
    return tensors[0] + known


def test_sixty_questions_about_twenty_sizes():
    """Each is asked once, with what the sizes themselves are known by, and none of it in Python."""
    matrices = tuple(torch.ones(3 + n, 14 + 2 * n) for n in range(10))
    compiled = jit.compile(_many_sizes, dynamic=True, backend="eager")
    for shift in (0, 1, 0):
        others = tuple(torch.ones(x.shape[0] + shift, x.shape[1]) for x in matrices)
        assert torch.equal(compiled(*others), _many_sizes(*others))
    if not COUNTING:
        return
    entry = compiled.cache.entries[0]
    conditions = [guard.payload for guard in entry.meta.guards if guard.kind == "shape"]
    assert 60 <= len(conditions) <= 60 + 3 * 20
    assert sum(len(terms.code(term, lambda source: 0)) for term in conditions) < 500
    called = []
    sys.setprofile(lambda frame, event, argument: called.append((event, argument)))
    try:
        holds = entry.guards.check(_many_sizes, (matrices,))
    finally:
        sys.setprofile(None)
    assert holds is not None and "call" not in [event for event, _ in called]


# --- they suffice -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("part", range(2))
def test_where_they_hold_results_are_eager_code_s(part, dynamic):
    found = [unsound(seed, "eager", dynamic) for seed in range(30_000 + 3 * part, 30_003 + 3 * part)]
    assert [each for wrong, _ in found for each in wrong] == []
    assert sum(held for _, held in found) > 10
