"""Published reports of programs that other compilers compile again and again, in our own words: the numbers are the
issues', of pytorch/pytorch where no other place is named. (191833 is in test_marks.)"""
import warnings

import pytest
import torch
from torch import nn

import jit
from tests.differential import COUNTING, Counting

SCHEDULES = {
    "107076": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: 0.9**n),
    "130467": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=1, gamma=0.5),
    "133898": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=50),
}


@pytest.mark.parametrize("report", SCHEDULES)
def test_a_schedule_beside_a_compiled_optimizer(report):
    """One compilation makes the optimizer's state, one has it; rates and momenta that a schedule sets are its inputs."""
    def world(compile):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        lr = torch.tensor(0.01) if report == "130467" else 0.01
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        scheduler = SCHEDULES[report](optimizer)
        step = compile(lambda: optimizer.step())
        for _ in range(7):
            for weight in model.parameters():
                weight.grad = torch.ones_like(weight)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Detected call of")
                step()
                scheduler.step()
        return [*model.parameters()], float(optimizer.param_groups[0]["lr"])

    counter = Counting()
    wanted = world(lambda step: step)
    found = world(lambda step: jit.compile(step, backend=counter))
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)
    counter.expect(2)


class Patch:
    """What a program that loads weights one by one has for each: it finds what to add by the weight's name."""

    def __init__(self, key, patches):
        self.key, self.patches = key, patches

    def __call__(self, weight):
        for strength in self.patches.get(self.key, ()):
            weight = weight + strength * weight
        return weight


class Patched(nn.Module):
    def __init__(self, key, patches):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))
        self.weight_function = [Patch(key, patches)]

    def forward(self, x):
        weight = self.weight
        for function in self.weight_function:
            weight = function(weight)
        return x @ weight


PATCHES = {f"blocks.{n}.v.weight": [n / 30] for n in range(20)}


def test_a_key_for_each_weight_in_a_model():
    """ComfyUI 9972: the model is one graph, and stays it."""
    model, counter = nn.Sequential(*(Patched(key, PATCHES) for key in PATCHES)), Counting()
    compiled = jit.compile(model, backend=counter)
    for n in (2, 2, 5, 7):
        torch.testing.assert_close(compiled(torch.ones(n, 3)), model(torch.ones(n, 3)))
    counter.expect(2)


def test_a_key_for_each_weight_alone(caplog):
    """ComfyUI 9972, each patch by itself: past the limit they run as written, and the log says which key it is."""
    compiled = jit.compile(Patch.__call__, options={"recompile_limit": 3}, backend="eager")
    for key in PATCHES:
        patch = Patch(key, PATCHES)
        assert torch.equal(compiled(patch, torch.eye(3)), patch(torch.eye(3)))
    (told,) = [text for text in caplog.messages if "runs eagerly" in text]
    assert "each self.key is compiled for itself: look at it before the call" in told


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.count = 0

    def forward(self, x):
        self.count += 1
        return self.linear(x) * self.count


def _unused(x, y):
    return x * 2


def _kept(x, y):
    z = y  # noqa: F841
    return x * 2


REPORTS = {
    "106067, an input of any size that nobody reads": (_unused, [(torch.ones(3), torch.ones(n)) for n in (0, 2, 1, 7)], 1),
    "131893, one that has another name": (_kept, [(torch.ones(3), torch.ones(n)) for n in (4, 6, 8)], 2),
    "123810, a square": (lambda x: torch.full((x.shape[1], x.shape[1]), -1.0), [(torch.ones(2, n),) for n in (3, 4, 5)], 2),
    "135011, one by one among others": (lambda x: x * 2 + x.sum(), [(torch.ones(n, n),) for n in (2, 3, 1, 4)], 2),
    "149406, a float": (lambda x, y: x * y, [(torch.ones(3), n / 7) for n in range(1, 6)], 2),
    "115711, a counter beside sizes": (Counter(), [(torch.ones(n, 4),) for n in (3, 4, 5, 6)], 2),
    "128319, a counter": (Counter(), [(torch.ones(3, 4),)] * 6, 2),
}


@pytest.mark.parametrize("report", REPORTS)
def test_report(report):
    program, calls, graphs = REPORTS[report]
    counter = Counting()
    expected = [program(*call) for call in calls]
    if isinstance(program, Counter):
        program.count = 0
    compiled = jit.compile(program, backend=counter)
    for call, wanted in zip(calls, expected, strict=True):
        torch.testing.assert_close(compiled(*call), wanted)
    counter.expect(graphs)


def test_a_sum_over_a_range_that_grows(caplog):
    """114293: bounds of a loop that Python runs decide how long it is; each is compiled, and the last ones are not."""
    def program(x, start, end):
        total = x[start].clone()
        for n in range(start + 1, end):
            total += x[n]
        return total

    compiled = jit.compile(program, backend="eager", options={"recompile_limit": 4})
    x = torch.arange(10.0)
    for end in range(2, 10):
        assert torch.equal(compiled(x, 0, end), program(x, 0, end))
    (told,) = [text for text in caplog.messages if "runs eagerly" in text]
    assert "end" in told and (not COUNTING or "for n in range(start + 1, end)" in told)
