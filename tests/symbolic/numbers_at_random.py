"""Programs made at random of numbers: read from tensors, drawn, of sizes or given, and of what is done with them, called
with other tensors and numbers each time. `seen` makes a call and says all that can be seen of it."""

import math
import random
import re
from typing import NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from tests.symbolic.asked import lines
from tests.symbolic.asked_at_random import indented

HEAD = """
import math, random, torch
import torch.nn.functional as F
"""
ROWS = (4, 5, 3, 6, 1, 4)


class Subject(NamedTuple):
    made: list[str]
    used: list[str]


SUBJECTS = {
    name: Subject(lines(f"numbers_{name}.txt"), lines(f"{used}.txt"))
    for name, used in (("read", "numbers_used"), ("given", "numbers_used"), ("floats", "numbers_floats_used"))
}


def program(maker, subject):
    """The text of a module."""
    body, names = ["out = []"], []
    for _ in range(maker.randint(1, 3)):
        made = [line for line in subject.made if names or "{m" not in line]
        new = f"v{len(names)}"
        body.append(_filled(maker, maker.choice(made), {"n": [new], "m": names, "m2": names, "k": "012"}))
        names.append(new)
    for _ in range(maker.randint(1, 5)):
        line = maker.choice(subject.used)
        used = _filled(maker, line.removeprefix("= "), {"n": [maker.choice(names)], "m": [maker.choice(names)]})
        body.append(f"out.append({used})" if line.startswith("= ") else used)
    return "\n".join([HEAD, "def program(x, t, n, k):", indented([*body, "return out"])])


def _filled(maker, line, values):
    return re.sub(r"\{(n|m|m2|k)\}", lambda found: maker.choice(values[found[1]]), line)


def calls(maker):
    """What is given at each call, the first of them twice: the last is as the first."""
    needs = maker.random() < 0.3
    made = []
    for at, rows in enumerate(ROWS):
        generator = torch.Generator().manual_seed(maker.randrange(1 << 30))
        x = torch.randn(rows, 3, generator=generator)
        t = torch.randint(0, 4 if at % 2 else 3, (3,), generator=generator)
        made.append((x, needs, t, maker.randint(0, 5) if at else 3, maker.randint(0, 3) if at > 1 else 2))
    return [*made, made[0]]


def seen(function, call):
    """What comes of a call, or what it raises; the gradient; and what is drawn next."""
    torch.manual_seed(0)
    random.seed(0)
    x, needs, *rest = call
    x, rest = x.clone().requires_grad_(needs), [each.clone() if isinstance(each, torch.Tensor) else each for each in rest]
    try:
        result = function(x, *rest)
        found, gradient = _said(result), None
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if leaves:
            sum((leaf * leaf).sum() for leaf in leaves).backward()
            gradient = _said(x.grad)
    except Exception as error:
        found, gradient = [type(error).__name__, str(error).split("\n")[0]], None
    return found, gradient, random.random(), torch.rand(1).item()


def alike(one, other, exact):
    """Gradients may be added in another order, and kernels may round floats otherwise."""
    found, gradient, *drawn = one
    expected, wanted, *rest = other
    return drawn == rest and (found == expected if exact else _near(found, expected)) and _near(gradient, wanted)


def _near(one, other):
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5)
    return one == other


def _said(value):
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.numel() > 1 else None
        return str(value.dtype), tuple(value.shape), strides, value.requires_grad, _said(value.detach().flatten().tolist())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_said(each) for each in value]
    if isinstance(value, dict):
        return [(_said(name), _said(each)) for name, each in value.items()]
    return value if isinstance(value, float) and value == value else (type(value).__name__, repr(value))
