"""Programs made at random of complex numbers: lazily conjugated and negated views, writes through them, gradients."""

import configparser
import linecache
import pathlib
import random

import pytest
import torch

from tests.differential import check

LINES = configparser.ConfigParser(allow_no_value=True, delimiters=["\0"], comment_prefixes=["#"], interpolation=None)
LINES.optionxform = str
LINES.read(pathlib.Path(__file__).with_name("complex_programs.txt"))
VALUES, STATEMENTS, READS, ENDS = ([*LINES[name]] for name in ("values", "statements", "reads", "ends"))
BEGINNINGS = ["w * (1 + 1j)", "torch.complex(w, x)", "w.to(torch.complex64)", "w + x * 1j", "w + c * 1j"]
TOLERANCES = {"aot_eager": (1e-5, 1e-6), "default": (1e-4, 1e-4)}


def program(name):
    """The function of that name: the text of its lines is drawn, and kept for tracebacks."""
    rng = random.Random(name)
    lines = [f"z = {rng.choice(BEGINNINGS)}"]
    for _ in range(rng.randint(1, 4)):
        lines.append(rng.choice(STATEMENTS) if rng.random() < 0.3 else f"z = {rng.choice(VALUES)}")
    lines.append(f"r = {rng.choice(READS)}")
    if rng.random() < 0.4:
        lines.append(f"r = r * 2 + {rng.choice(READS)}")
    lines += rng.choice(ENDS).split("@")
    text = "def program(w, x, c, d):\n" + "".join(f"    {line}\n" for line in lines)
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"torch": torch}
    exec(compile(text, name, "exec"), scope)
    return scope["program"], text


def arguments(seed):
    generator = torch.Generator().manual_seed(seed)
    w, x = (torch.randn(3, 4, generator=generator) for _ in range(2))
    c = torch.randn(3, 4, generator=generator, dtype=torch.complex64)
    return w.requires_grad_(), x, c, torch.randn((), generator=generator)


def ends_well(function, seed):
    try:
        function(*arguments(seed))
    except Exception:
        return False
    return True


@pytest.mark.sampled(12)
@pytest.mark.parametrize("backend", [*TOLERANCES])
@pytest.mark.parametrize("seed", range(120))
def test_complex_numbers(seed, backend):
    """Three programs each, of those that eager code can run."""
    for number in range(3):
        function, text = program(f"<complex {seed}.{number}>")
        if ends_well(function, seed):
            try:
                check(function, *arguments(seed), backend=backend, tolerance=TOLERANCES[backend], nodes=False)
            except AssertionError as error:
                raise AssertionError(f"{text}\n{error}") from error
