"""Programs made at random of operations on tensors whose form is another at each call."""

import pytest

import jit
from tests.symbolic.asked_at_random import loaded
from tests.symbolic.tensors_at_random import SUBJECTS, made, seen


@pytest.mark.sampled(160)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("seed", range(100))
def test_tensors(seed, subject, backend):
    """Ten programs, each called twice with what it is given."""
    for number in range(10):
        text, each_call = made(f"{seed}.{number}", subject)
        eager, again, ours = loaded(text), loaded(text), loaded(text)
        compiled = jit.compile(ours["program"], backend=backend)
        for at, texts in ((at, texts) for at, texts in enumerate(each_call) for _ in range(2)):
            expected = seen(eager["program"], eager, texts)
            is_known = seen(again["program"], again, texts) == expected  # else it reads memory that nobody wrote
            got = seen(compiled, ours, texts)
            if got is None:
                break
            assert got == expected or not is_known, (text[text.index("def program") :], each_call[: at + 1])
