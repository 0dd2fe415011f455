"""Programs made at random that read what changes between their calls: attributes, contents, classes and what they
inherit, functions, modules, torch's state, tensors. `calls` makes the calls and says what came of each."""

import contextvars
import os
import random
import re
import sys
import warnings

import numpy as np
import torch

from tests.symbolic.asked import HERE, lines
from tests.symbolic.asked_at_random import indented, loaded

WORLD = (HERE / "changed_world.txt").read_text()
READS, CHANGES = (lines(name) for name in ("changed_reads.txt", "changed_by.txt"))
VALUES = [
    "1", "2", "3", "True", "None", "'s'", "1.0", "0", "[1]", "(1, 2)", "-1", "torch.ones(2)", "w.l", "Int(2)", "{'k': 1}", "7", "False",
]  # fmt: skip
#: What expressions and changes have in common if the one has to do with the other.
NAMES = re.compile(r"\bw\.\w+|\b[A-Z]\w+|\bG\b|\bfn\b|\btorch\b|\bos\b|\by\b")
#: Calls after the first two, each with changes before it.
CALLS = 9


def program(maker):
    """The text of a module."""
    body = ["out = []"]
    for _ in range(maker.choice([1, 2, 3, 4])):
        read, kind = maker.choice(READS), maker.random()
        if kind < 0.75:
            body += ["try: out.append(%s)" % read]
        elif kind < 0.9:
            body += [f"try:\n    if {read}: out.append('yes')\n    else: out.append('no')"]
        else:
            body += [f"try: out.append(({read}) == ({maker.choice(READS)}))"]
        body += ["except Exception as e: out.append((type(e).__name__, str(e)))"]
        if maker.random() < 0.08:
            body.append("jit.graph_break()")
    return WORLD + "import jit\ndef program(y, w):\n" + indented([*body, "return out, y + 1"])


def changes(maker, text):
    """What is done before each call: mostly changes of what the program names."""
    names = set(NAMES.findall(text[text.index("def program") :]))
    near = [each for each in CHANGES if names & set(NAMES.findall(each))] or CHANGES
    some = lambda: re.sub(r"\bV\b", maker.choice(VALUES), maker.choice(near if maker.random() < 0.8 else CHANGES))  # noqa: E731
    return [[some() for _ in range(maker.choice([0, 1, 1, 1, 2]))] for _ in range(CALLS)]


def calls(text, each_before, wrap):
    """What came of each call of the program, in a world of its own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return contextvars.copy_context().run(_calls, text, each_before, wrap)
    finally:
        torch.set_default_dtype(torch.float32)
        os.environ.pop("FJ_STALE", None)
        sys.modules.pop("mod_x", None)
        if hasattr(torch.nn.Linear, "extra_thing"):
            del torch.nn.Linear.extra_thing


def _calls(text, each_before, wrap):
    scope = loaded(text)
    function, w = wrap(scope["program"]), scope["make"]()
    given = {"y": torch.ones(2), "GRAD": True}
    scope |= {"w": w, "y": given["y"], "Y": lambda y: given.update(y=y), "GRAD": lambda on: given.update(GRAD=on)}
    seen = []
    for before in [[], [], *each_before]:
        for change in before:
            try:
                exec(change, scope)
            except Exception:  # noqa: S110 - what cannot be done changes nothing
                pass
        try:
            with torch.set_grad_enabled(given["GRAD"]):
                answer = ("returned", _shown(function(given["y"], w)))
        except Exception as error:
            answer = (type(error).__name__, str(error))
        seen.append(re.sub(r"0x[0-9a-f]{6,}", "0x", repr(answer)))
    return seen


def _shown(value, depth=0):
    inner = lambda each: _shown(each, depth + 1)  # noqa: E731
    if depth > 6:
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, value.tolist()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return type(value).__name__, [inner(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(inner, value), key=repr)
    if isinstance(value, dict):
        return type(value).__name__, [(inner(key), inner(each)) for key, each in value.items()]
    if type(value) in (int, float, str, bool, complex, bytes, type(None)):
        return repr(value)
    if type(value).__module__ == "program" and hasattr(value, "__dict__") and not callable(value):
        return type(value).__name__, inner(vars(value))
    return getattr(value, "__name__", ""), type(value).__name__


def made(name):
    """A program and what changes before its calls, from the name of a seed."""
    maker = random.Random(name)
    text = program(maker)
    return text, changes(maker, text)
