"""CUDA graphs on a device: training and inference beside eager, results that are held, errors of kernels."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import jit
from codegen.plan.replay import Replayed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
MODES = ["default", "reduce-overhead"]


@pytest.fixture
def replays(monkeypatch):
    """How often something was replayed, as a list that grows."""
    found = []
    run = Replayed._replayed

    def counting(self, stream, given):
        results = run(self, stream, given)
        if results is not None:
            found.append(self)
        return results
    monkeypatch.setattr(Replayed, "_replayed", counting)
    return found


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 16)).cuda()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keep", [False, True])
def test_training(mode, keep, replays):
    models = [net(), net()]
    calls = [models[0], jit.compile(models[1], mode=mode)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    kept = []
    for step in range(8):
        x = torch.randn(32, 64, device="cuda")
        results = []
        for call, optimizer in zip(calls, optimizers):
            result = call(x)
            result.pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            results.append(result)
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
        if keep:
            kept.append((results[1], results[1].clone()))
    for result, then in kept:
        assert torch.equal(result, then)
    for one, other in zip(*(model.parameters() for model in models)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert bool(replays) is (mode == "reduce-overhead")


def test_several_sizes(replays):
    f = jit.compile(lambda x: torch.softmax(x * 2, 1).sum(0), mode="reduce-overhead")
    for _ in range(4):
        for n in (3, 50, 700):
            x = torch.randn(n, 40, device="cuda")
            torch.testing.assert_close(f(x), torch.softmax(x * 2, 1).sum(0))
    assert len(replays) == 9


def test_other_streams(replays):
    f = jit.compile(lambda x: (x * 2 + 1).sin(), mode="reduce-overhead")
    x = torch.randn(1 << 20, device="cuda")
    wanted = (x * 2 + 1).sin()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(4):
        torch.testing.assert_close(f(x), wanted)
        with torch.cuda.stream(stream):
            result = f(x)
        stream.synchronize()
        torch.testing.assert_close(result, wanted)
    assert replays


def test_within_a_graph_of_the_user_s():
    f = jit.compile(lambda x: (x * 2 + 1).sin(), mode="reduce-overhead")
    x = torch.randn(100, device="cuda")
    f(x), f(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = f(x)
    x.fill_(3)
    graph.replay()
    torch.testing.assert_close(result, (x * 2 + 1).sin())


def test_an_index_out_of_range_is_an_error_of_the_device():
    """The device is lost to the process, as in eager code."""
    script = (
        "import torch, jit\n"
        "f = jit.compile(lambda x, at: x[at] * 2)\n"
        "x = torch.ones(4, device='cuda')\n"
        "print(f(x, torch.tensor([0, 3], device='cuda')).tolist(), flush=True)\n"
        "print(f(x, torch.tensor([0, 40], device='cuda')).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[2.0, 2.0]\n" and "CUDA error" in done.stderr and done.returncode
