"""jit.profile: where the time of a call goes; and the ranges that compiled calls have in torch's profiler."""

from __future__ import annotations

import io
import json

import pytest
import torch

import jit
from codegen._C import watch
from codegen.kernels.toolchain import find

pytestmark = pytest.mark.skipif(find() is None, reason="needs a C compiler")
N = 1000


def compiled(fn, **settings):
    return jit.compile(fn, backend="default", options={"break_everywhere": False}, **settings)


def profiled(fn, *args, **settings):
    out = io.StringIO()
    found = jit.profile(compiled(fn), calls=2, file=out, **settings)(*args)
    assert out.getvalue() == str(found)
    return found


def lines(row):
    assert all(place.file == __file__ for place in row.places)
    return [open(place.file).read().splitlines()[place.line - 1].strip() for place in row.places]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = (layer(x) * 2).relu()
        return x


def test_a_row_for_each_kernel_with_its_bytes_and_lines():
    def program(x, y):
        z = (x * 2 + y).relu()
        return z.softmax(-1)

    found = profiled(program, torch.ones(4, N), torch.ones(N))
    (kernel,) = (row for row in found.rows if row.kind == "kernel")
    assert kernel.name == "add_relu_softmax_fused_0" and kernel.phase == "forward" and kernel.times == 1
    assert kernel.bytes == 4 * (4 * N + N + 4 * N) and lines(kernel) == ["return z.softmax(-1)"]
    assert kernel.bandwidth == kernel.bytes / kernel.seconds and 0 < found.share(kernel) < 1
    assert torch.equal(found.result, program(torch.ones(4, N), torch.ones(N)))
    assert found.seconds >= sum(row.seconds for row in found.rows) * 0.5 and found.copies > 1e8
    assert watch(None) is None


def test_forward_and_backward_and_gradients_go_nowhere():
    model = Block()
    found = profiled(model, torch.randn(5, 8))
    assert all(each.grad is None for each in model.parameters())
    kernels = {(row.phase, row.times): row for row in found.rows if row.kind == "kernel" and "relu" in row.name}
    assert lines(kernels["forward", 3]) == ["x = (layer(x) * 2).relu()"]
    products = [row for row in found.rows if row.kind == "ATen" and row.phase == "backward"]
    assert products and all(lines(row) == ["x = (layer(x) * 2).relu()"] for row in products)
    assert {row.phase for row in profiled(model, torch.randn(5, 8), backward=False).rows} == {"forward", ""}


def test_a_function_that_differentiates_itself():
    x = torch.ones(N, requires_grad=True)

    def step(x):
        loss = (x * x).exp().sum()
        loss.backward()
        return loss

    found = profiled(step, x)
    assert x.grad is not None and any(row.kind == "kernel" for row in found.rows)


def test_bytes_of_sizes_that_vary():
    f = compiled(lambda x: x.exp() + 1, dynamic=True)
    for n in (N, 3 * N):
        found = jit.profile(f, calls=1, file=io.StringIO())(torch.ones(n))
        assert [row.bytes for row in found.rows if row.kind == "kernel"] == [8 * n]
    table = torch.randn(N, 64)
    found = profiled(lambda at: table[at] * 2, torch.tensor([1, 2]))
    (kernel,) = (row for row in found.rows if row.kind == "kernel")
    assert kernel.bytes == 16 + 4 * 128 + 4 * 128, "two rows of the table, not all of it"


def test_what_no_plan_runs_is_the_rest():
    f = jit.compile(lambda x: x.exp() + 1, backend="aot_eager")
    found = jit.profile(f, calls=1, file=io.StringIO())(torch.ones(3))
    assert [row.kind for row in found.rows] == ["rest"] and found.rows[0].seconds == found.seconds
    with pytest.raises(ValueError, match="at least one call, not 0"):
        jit.profile(f, calls=0)


def test_the_table_reads_well(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = str(profiled(Block(), torch.randn(5, 8)))
    head, columns, *rows = text.splitlines()
    assert head.startswith("framejit: Block, ") and "GB/s on cpu" in head
    assert columns.split() == "kernel or operation of times time share moved GB/s of a copy line".split()
    assert any(row.startswith("mul_relu_fused_0 ") and "test_profile.py:" in row for row in rows), text


# --- traces -----------------------------------------------------------------------------------------------------------
def test_ranges_of_a_compiled_call_lie_in_each_other(tmp_path):
    model = compiled(Block())
    x = torch.randn(5, 8)
    model(x).sum().backward()
    with torch.profiler.profile() as recorded:
        model(x).sum().backward()
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    events = [each for each in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if each.get("ph") == "X"]

    def named(*parts):
        return [each for each in events if all(part in each["name"] for part in parts)]

    def holds(outer, inner):
        return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3

    first = Block.forward.__code__.co_firstlineno
    (call,) = named("Block.forward (", f"test_profile.py:{first})")
    forward, backward = sorted(named("graph (", f"test_profile.py:{first + 2} to {first + 2})"), key=lambda each: each["ts"])
    assert backward["name"].startswith("backward graph") and holds(call, forward) and not holds(call, backward)
    kernels = named("mul_relu_fused_0 (", f"test_profile.py:{first + 2})")
    assert len(kernels) == 3 and all(holds(forward, each) for each in kernels)
    assert named("aten::addmm") and all(holds(forward, each) for each in named("aten::addmm"))
    later = [each for each in events if "_fused_" in each["name"] and holds(backward, each)]
    assert later and all(f"test_profile.py:{first + 2})" in each["name"] for each in later)


def test_a_graph_break_ends_a_range():
    def broken(x):
        y = x.sin()
        jit.graph_break()
        return y.cos()

    f, x = compiled(broken), torch.ones(3)
    f(x)
    with torch.profiler.profile() as recorded:
        f(x)
    calls = [event.name for event in recorded.events() if "broken" in event.name]
    assert len(calls) == 2 and f"{__file__}:{broken.__code__.co_firstlineno})" in calls[0], calls
