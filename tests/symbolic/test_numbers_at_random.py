"""Programs made at random of what is done with numbers that depend on values, that vary or that are drawn."""

import random

import pytest

import jit
from tests.symbolic.asked_at_random import loaded
from tests.symbolic.numbers_at_random import SUBJECTS, alike, calls, program, seen


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("subject", "backend"),
    [("read", "eager"), ("read", "aot_eager"), ("read", "default"), ("given", "eager"), ("given", "default"), ("floats", "aot_eager")],
)
@pytest.mark.parametrize("seed", range(60))
def test_numbers(seed, subject, backend):
    """Five programs, each called seven times."""
    for number in range(5):
        maker = random.Random(f"{seed}.{number}.{subject}")
        text, dynamic = program(maker, SUBJECTS[subject]), maker.choice([None, None, None, True])
        eager, ours = loaded(text), loaded(text)
        compiled = jit.compile(ours["program"], backend=backend, dynamic=dynamic)
        for at, call in enumerate(calls(maker)):
            got, expected = seen(compiled, call), seen(eager["program"], call)
            assert alike(got, expected, backend != "default"), (at, text[text.index("def program") :], got, expected)
