"""Steps of training made at random: forward, backward, optimizer, hooks, copies, gradients, in any order, between calls of
which the model changes. `calls` makes the calls and says what became of everything."""

import math
import random
import textwrap
import warnings

import torch

from tests.symbolic.asked import HERE, lines
from tests.symbolic.asked_at_random import indented, loaded

WORLD = (HERE / "training_world.txt").read_text()
STEPS = [each.replace("\\n", "\n") for each in lines("training_steps.txt")]
#: What programs begin with, which gets further steps in between.
USUAL = [
    ["r = w.net(x)", "loss = r.pow(2).mean()", "loss.backward()", "w.opt.step()", "w.opt.zero_grad()"],
    ["r = w.net(x)", "loss = F.mse_loss(r, torch.zeros_like(r))"],
    [],
]


def program(maker):
    """The text of a module."""
    steps = list(maker.choices(USUAL, (0.45, 0.3, 0.25))[0])
    for _ in range(maker.choice([1, 2, 3, 4])):
        steps.insert(maker.randrange(len(steps) + 1), maker.choice(STEPS))
    body = ["out = []", "loss = x.sum() * 0", "r = x", "g = None"]
    for step in steps:
        if maker.random() < 0.5:
            step = f"try:\n{textwrap.indent(step, '    ')}\nexcept Exception as e: out.append(type(e).__name__)"
        body.append(step)
    return WORLD + "def program(x, w):\n" + indented([*body, "return out, r, loss, g"])


def made(name):
    """A program and what is done before each call, from the name of a seed."""
    maker = random.Random(name)
    text = program(maker)
    changes = [[maker.choice(STEPS) for _ in range(maker.choice([0, 1, 1, 2]))] for _ in range(4)]
    return text, [[], [], *changes]


def calls(text, each_before, wrap):
    """What can be seen after each call, and the numbers in it; no more where the compiled program says that what it
    did can't be put back."""
    scope = loaded(text)
    function, w = wrap(scope["program"]), scope["make"]()
    given = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for before in each_before:
            done = {**scope, "w": w, "x": given.clone(), "out": [], "r": given.clone(), "loss": given.sum()}
            for step in before:
                try:
                    exec(step, done)
                except Exception:  # noqa: S110 - what cannot be done changes nothing
                    pass
            torch.manual_seed(3)
            try:
                result = "returned", function(given.clone(), w)
            except Exception as error:
                if any("put back" in note for note in getattr(error, "__notes__", ())):
                    return
                result = "raised", type(error).__name__
            numbers = []
            yield _shown([result, scope["LOG"], *_state(w)], numbers), numbers


def _state(w):
    parameters = {name: (p.grad, p.requires_grad) for name, p in w.net.named_parameters()}
    modules = [(name, module.training, len(module._forward_hooks)) for name, module in w.net.named_modules()]
    groups = [group["lr"] for group in w.opt.param_groups]
    states = [list(state.items()) for state in w.opt.state.values()]
    return w.step, w.losses, dict(w.net.state_dict()), parameters, w.ema, groups, states, modules, len(w.handles)


def _shown(value, numbers, depth=0):
    inner = lambda each: _shown(each, numbers, depth + 1)  # noqa: E731
    if isinstance(value, torch.Tensor):
        numbers += value.detach().double().flatten().tolist()
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, value.is_leaf
    if isinstance(value, float):
        numbers.append(value)
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [inner(each) for each in value]
    if isinstance(value, dict):
        return [(inner(key), inner(each)) for key, each in value.items()]
    return repr(value) if isinstance(value, (int, str, type(None))) else type(value).__name__


def are_alike(eager, ours):
    """Whether one call did what the other did, up to the last digits."""
    (shown, numbers), (other, others) = eager, ours
    pairs = zip(numbers, others, strict=True) if len(numbers) == len(others) else [(0.0, 1.0)]
    return shown == other and all(math.isclose(*pair, rel_tol=1e-6, abs_tol=1e-6) or pair[0] != pair[0] for pair in pairs)
