"""Steps of training made at random do compiled what they do eagerly."""

import pytest

import jit
from tests.symbolic.training_at_random import are_alike, calls, made


@pytest.mark.sampled(90)
@pytest.mark.parametrize("seed", range(90))
def test_training(seed):
    """Five programs, called six times each."""
    for number in range(5):
        text, each_before = made(f"{seed}.{number}")
        try:
            compile(text, "program", "exec")
        except SyntaxError:
            continue
        expected = calls(text, each_before, lambda function: function)
        compiled = calls(text, each_before, lambda function: jit.compile(function, backend="eager"))
        for at, (eager, ours) in enumerate(zip(expected, compiled, strict=False)):  # ours may end before
            assert are_alike(eager, ours), (text[text.index("def program") :], each_before[: at + 1])
