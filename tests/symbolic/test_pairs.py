"""Operators, methods and functions of Python on two values of built-in and derived types, drawn at random: compiled they
give what they give eagerly. Errors are compared by class: their words may be others where a built-in type is misused."""

import random

import pytest

import jit
from tests.symbolic.asked import lines, program
from tests.symbolic.pairs import MADE, OTHERS, outcome

BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
COMPARED = "lt le gt ge eq ne".split()
LINES = [
    *lines("pairs.txt"), *(f"a.__{name}__(b)" for name in (*BINARY, *COMPARED, "divmod", "rdivmod")),
    *(f"a.__r{name}__(b)" for name in BINARY), *(f"a.__i{name}__(b), a" for name in BINARY),
    *(f"a {sign} b" for sign in "+ - * / // % ** @ << >> & | ^ < <= > >= == != is in".split()),
    *(f"!a {sign}= b" for sign in "+ - * / // % ** @ << >> & | ^".split()),
]  # fmt: skip


def function(line, made, is_caught):
    """Of `a` and `b`: given, or made in the frame by the names in `made`; an error is caught in the frame, or leaves it."""
    head = f"    a, b = MADE[{made[0]!r}](), OTHERS[{made[1]!r}]()\n" if made else ""
    body = f"{line[1:]};;r = a" if line.startswith("!") else f"r = {line}"
    if is_caught:
        steps = ";;".join(f"    {step}" for step in body.split(";;"))
        body = f"try:;;{steps};;except Exception as error:;;    r = type(error)"
    written = program(f"!{body}", "a, b", head)
    written.__globals__.update(MADE=MADE, OTHERS=OTHERS)
    return written


@pytest.mark.sampled(50)
@pytest.mark.parametrize("seed", range(50))
def test_pairs(seed):
    drawn = random.Random(seed)
    for _ in range(500):
        line, a, b = drawn.choice(LINES), drawn.choice([*MADE]), drawn.choice([*OTHERS])
        made, is_caught = (a, b) if drawn.random() < 0.5 else None, drawn.random() < 0.5
        expected = outcome(function(line, made, is_caught), MADE[a](), OTHERS[b]())
        compiled = jit.compile(function(line, made, is_caught), backend="eager")
        found = [outcome(compiled, MADE[a](), OTHERS[b]()) for _ in range(2)]
        assert found == [expected] * 2, (line, a, b, made, is_caught)
