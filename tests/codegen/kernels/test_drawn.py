"""Random programs beside eager: a sample, and (long) many. See `drawn`."""

from __future__ import annotations

import pytest

from tests.codegen.kernels.drawn import examine, examined


@pytest.mark.parametrize("seed", range(60))
def test_program(seed):
    text, wrong, _ = examine(seed)
    assert not wrong, f"{text}\n{wrong}"


def test_programs_are_as_they_are_meant_to_be():
    """Kernels run nearly all of them, and many change something."""
    found = list(examined(range(1000, 1030), 1))
    assert sum(ran for *_, ran in found) > 25
    assert all("return" in text for _, text, *_ in found)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_ten_thousand_programs():
    wrong = [f"{text}\n{why}" for _, text, why, _ in examined(range(10_000), 2) if why]
    assert not wrong, "\n".join(wrong[:5])
