"""Programs made at random that read what changes between their calls: none goes by what was there before."""

import pytest

import jit
from tests.symbolic.changed_at_random import calls, made


@pytest.mark.sampled(50)
@pytest.mark.parametrize("seed", range(150))
def test_nothing_is_stale(seed):
    """Ten programs, called eleven times each."""
    for number in range(10):
        text, each_before = made(f"{seed}.{number}")
        expected = calls(text, each_before, lambda function: function)
        compiled = calls(text, each_before, lambda function: jit.compile(function, backend="eager"))
        told = text[text.index("def program") :]
        for at, (eager, ours) in enumerate(zip(expected, compiled, strict=True)):
            assert eager == ours, (told, each_before[: max(at - 1, 0)])
