"""Random programs beside eager (see `drawn`) and beside the evaluator (see `fused`): a sample, and (long) many."""

from __future__ import annotations

import pytest

from tests.codegen.kernels import fused
from tests.codegen.kernels.drawn import examine, examined


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(60))
def test_program(seed):
    text, wrong, _ = examine(seed)
    assert not wrong, f"{text}\n{wrong}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [382, 2332, 3889, 4285, 5240, 6158, 6570, 8575, 9569])
def test_programs_that_were_wrong(seed):
    text, wrong, _ = examine(seed)
    assert not wrong, f"{text}\n{wrong}"


def test_reductions_of_tiles_that_are_turned():
    """Their totals were written behind the end of arrays that were made for shorter tiles."""
    wrong = [f"{text}\n{why}" for seed in (382, 4285, 5751, 11659) for _, text, why in fused.examined([seed]) if why]
    assert not wrong, "\n".join(wrong)


def test_sums_of_stretches_do_not_lie_where_their_kernel_still_reads():
    wrong = [f"{text}\n{why}" for _, text, why in fused.examined([1099]) if why]
    assert not wrong, "\n".join(wrong)


def test_programs_are_as_they_are_meant_to_be():
    """Kernels run nearly all of them, and many change something."""
    found = list(examined(range(1000, 1012), 1))
    assert sum(ran for *_, ran in found) > 9
    assert all("return" in text for _, text, *_ in found)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_programs():
    wrong = [f"{text}\n{why}" for _, text, why, _ in examined(range(10_000), 2) if why]
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("batch", fused.batches(20_000, 150), ids=str)
def test_fused_programs(batch):
    found = fused.examined(batch)
    assert len(found) > 0.8 * len(batch)
    wrong = [f"{text}\n{why}" for _, text, why in found if why]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_fused_programs():
    found = list(fused.all_examined(0, 10_000, 2))
    assert len(found) > 9000
    wrong = [f"{text}\n{why}" for _, text, why in found if why]
    assert not wrong, "\n".join(wrong[:5])
