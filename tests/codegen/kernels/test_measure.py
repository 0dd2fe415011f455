"""Products are kernels where these were quicker, with what is fused to them; what was measured is kept."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from codegen.artifacts.store import Store
from codegen.kernels import measure
from codegen.kernels.measure import Trials, alone
from codegen.kernels.products import is_candidate, may_round, scheduled
from codegen.kernels.triton_tune import Device, forms, made
from tests.codegen.kernels.schedules import traced

H100 = Device("H100", 90)


def followed(x, w):
    return torch.relu(x @ w)


def plain(x, w):
    return x @ w


class Times:
    """What ATen, a pass over the result and a kernel in any tiles take."""

    def __init__(self, monkeypatch, library: float, passing: float, kernel: float | None) -> None:
        self.times = {"library": library, "pass": passing}
        self.kernel, self.asked = kernel, []
        monkeypatch.setattr(Trials, "of", lambda trials, kernel, sizes: self.launch)

    def launch(self, printed, compiled) -> float:
        self.asked.append("kernel")
        if self.kernel is None:
            raise RuntimeError("out of shared memory")
        return self.kernel

    def __call__(self, call) -> float:
        found = call()
        name = "library" if "library" not in self.asked else "pass"
        assert isinstance(found, torch.Tensor)
        self.asked.append(name)
        return self.times[name]


def product_in(program) -> torch.fx.Node:
    graph = traced(program, torch.randn(64, 32), torch.randn(32, 48))
    return next(node for node in graph.graph.nodes if is_candidate(node))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program, library, passing, kernel, wins", [
    (plain, 2.0, 9.0, 1.0, True), (plain, 1.0, 9.0, 2.0, False), (followed, 1.0, 1.5, 2.0, True), (followed, 1.0, 0.5, 2.0, False),
    (plain, 2.0, 9.0, None, False),
])  # fmt: skip
def test_the_quicker_one(program, library, passing, kernel, wins, monkeypatch, tmp_path) -> None:
    times = Times(monkeypatch, library, passing, kernel)
    trials = Trials(torch.device("cpu"), H100, Store(tmp_path / "store", 1 << 30), times)
    node = product_in(program)
    assert trials.wins(node) == wins
    asked = list(times.asked)
    assert asked.count("library") == 1 and asked.count("pass") == (program is followed) and "kernel" in asked
    assert trials.wins(product_in(program)) == wins and times.asked == asked  # of an equal one it is known


def test_the_program_notices_nothing(monkeypatch, tmp_path) -> None:
    """Neither its random numbers, nor that it is being traced, nor autocast; what is multiplied are numbers."""
    seen = []

    def clock(call) -> float:
        seen.append(call())
        return 1.0

    node, state = product_in(followed), torch.get_rng_state()
    monkeypatch.setattr(Trials, "of", lambda trials, kernel, sizes: lambda printed, compiled: 2.0)
    with FakeTensorMode(), torch.autocast("cpu"):
        Trials(torch.device("cpu"), H100, Store(tmp_path / "store", 1 << 30), clock).wins(node)
    assert torch.equal(torch.get_rng_state(), state)
    assert [(type(found), found.dtype, bool(found.any())) for found in seen] == [(torch.Tensor, torch.float32, True)] * 2


def test_alone() -> None:
    made = alone(product_in(followed))
    assert len(made.kernels) == 1 and [axis.size for axis in made.kernels[0].axes] == [64, 48]


def test_sums_of_products_that_are_written_out_are_not_rounded() -> None:
    args = torch.randn(20, 30), torch.randn(30, 40)
    written = scheduled(traced(lambda a, b: (a.unsqueeze(2) * b).sum(1), *args), lambda node: False)
    assert may_round(scheduled(traced(plain, *args), lambda node: False)) and not may_round(written)


def test_launches_are_timed(monkeypatch, tmp_path) -> None:
    """With the arguments that the kernel takes."""
    (kernel,) = scheduled(traced(followed, torch.randn(64, 32), torch.randn(32, 48)), lambda node: True).kernels
    plans = []

    def build(plan):
        plans.append(plan)
        return lambda *tensors: plans.append(tensors)

    monkeypatch.setattr(measure, "build", build)
    trials = Trials(torch.device("cpu"), H100, Store(tmp_path / "store", 1 << 30), lambda call: call() or 3.0)
    form = forms(kernel)[0]
    compiled = made(kernel, form, 90, store=trials.store)
    assert trials.of(kernel, {})(form, compiled) == 3.0
    plan, tensors = plans
    (launch,) = plan.steps
    assert len(launch.arguments) == len(compiled.arguments) and launch.function.threads == 32 * form.config.warps
    assert [tensor.numel() for tensor in tensors] == [buffer.size.constant for buffer in kernel.buffers]
