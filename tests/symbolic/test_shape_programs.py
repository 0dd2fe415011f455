"""Random programs over sizes: `python -m tests.symbolic.shape_programs` runs more."""
import pytest

from tests.symbolic.shape_programs import Author, findings


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("seed", range(8))
def test_program(seed, dynamic):
    assert findings(seed, "eager", dynamic) == []


@pytest.mark.parametrize("seed", range(100, 103))
def test_through_kernels(seed):
    assert findings(seed, "default", None) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_more_programs(part):
    found = [each for seed in range(10_000 + 100 * part, 10_100 + 100 * part) for dynamic in (None, True)
             for each in findings(seed, "default" if seed % 4 == 0 else "eager", dynamic)]
    assert found == []


def test_a_seed_is_a_program():
    assert Author(3).program() == Author(3).program() != Author(4).program()
