"""Scripts that show a fault: written when a backend fails, blamed on a stage, made small."""

from __future__ import annotations

import os
import re
import textwrap

import pytest
import torch
import torch.nn.functional as F

import jit
from jit import backends, minify, repro


@pytest.fixture(autouse=True)
def backends_stay():
    """The scripts change the table, here too when they are read."""
    before = dict(backends.BACKENDS)
    yield
    backends.BACKENDS.update(before)


#: Faults that backends may have, by name: what they do instead of `real(graph, inputs)`.
FAULTS = {
    "refuses": "raise ArithmeticError('no running sums')",
    "dies": "os.abort()",
    "waits": "time.sleep(1000)",
    "is_wrong": "return real(other(graph), inputs)",
    "loses_gradients": """
run = real(graph, inputs)
return lambda *values: [each.detach().requires_grad_() for each in run(*values)]""",
    "writes": """
run = real(graph, inputs)
return lambda *values: (values[-1].detach().add_(1), run(*values))[1]""",
}
PLANTED = """
import os, time
from jit import backends

def other(graph):
    for node in graph.graph.nodes:
        if "cumsum" in str(node.target):
            node.target = torch.cumprod
    graph.recompile()
    return graph

def faulty(graph, inputs, real=backends.BACKENDS[{backend!r}]):
    if not any("cumsum" in str(node.target) for node in graph.graph.nodes):
        return real(graph, inputs)
{fault}

backends.BACKENDS[{backend!r}] = faulty
"""


def script(body, tmp_path, backend="", fault="", inputs="[torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)]"):
    """A script whose backend has a fault with running sums, if one is asked for."""
    planted = PLANTED.format(backend=backend, fault=textwrap.indent(FAULTS[fault], "    ")) if fault else ""
    text = f"import torch\n{planted}\nclass Program(torch.nn.Module):\n    def forward(self, x, w):\n"
    text += textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    text += f"\n\ndef inputs():\n    torch.manual_seed(0)\n    return {inputs}\n"
    path = tmp_path / "fault.py"
    path.write_text(text)
    return repro.load(str(path))


LONG = """
y = x + 1
z = (y @ w).relu()
a = z.sin() * 3
b = torch.cumsum(a, 0)
c = b.softmax(-1)
return c.exp(), z.sum()
"""


def test_nothing_is_at_fault(tmp_path):
    found = minify.blame(script(LONG, tmp_path))
    assert {backend: outcome.kind for backend, outcome in found.items()} == {"eager": "same", "aot_eager": "same", "default": "same"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend, stages", [("eager", 1), ("aot_eager", 2), ("default", 3)])
def test_the_first_stage_that_fails_is_to_blame(backend, stages, tmp_path):
    found = minify.blame(script(LONG, tmp_path, backend, "refuses"))
    assert len(found) == stages and found[backend] == minify.Outcome("raises ArithmeticError", "no running sums")


@pytest.mark.parametrize("fault, kind", [
    pytest.param("refuses", "raises ArithmeticError", marks=pytest.mark.long), ("dies", "dies"),
    pytest.param("is_wrong", "differs", marks=pytest.mark.long)])
def test_a_graph_shrinks_to_the_operation_at_fault(fault, kind, tmp_path):
    given = script(LONG, tmp_path, "aot_eager", fault)
    found = minify.blame(given)
    assert found["eager"] == minify.SAME and found["aot_eager"].kind == kind, found
    small = minify.shrunk(given, "aot_eager", kind)
    code = small.text[small.text.index("class Program"):]
    assert "cumsum" in code and not re.search(r"relu|softmax|sin\(|@|matmul", code), code
    assert minify.trial(small, "aot_eager").kind == kind


def test_gradients_and_written_arguments_count(tmp_path):
    assert minify.trial(script("return torch.cumsum(x * w, 0)", tmp_path, "aot_eager", "loses_gradients"), "aot_eager").kind == "differs"
    assert minify.trial(script("return torch.cumsum(w, 0)", tmp_path, "aot_eager", "writes"), "aot_eager").kind == "differs"


def test_a_fault_of_capture_shrinks_the_text(tmp_path):
    given = script(LONG, tmp_path, "eager", "refuses")
    small = minify.shrunk(given, "eager", "raises ArithmeticError")
    assert "cumsum" in small.text and "softmax" not in small.text and "def inputs" in small.text
    assert len(small.text.splitlines()) < len(given.text.splitlines())


def test_a_program_that_raises_by_itself_is_no_fault(tmp_path):
    assert minify.trial(script("return x @ torch.ones(9, 9)", tmp_path), "eager") == minify.SAME


def test_what_never_ends_is_told(monkeypatch, tmp_path):
    minify.trial(script("return x", tmp_path), "eager")  # the first one imports torch
    monkeypatch.setattr(minify, "PATIENCE", 5)
    assert minify.trial(script("return torch.cumsum(x, 0)", tmp_path, "eager", "waits"), "eager").kind == "hangs"


@pytest.mark.long
def test_the_command_writes_the_small_script(tmp_path, capsys):
    given = script(LONG, tmp_path, "aot_eager", "refuses")
    assert minify.main(given.path) == 1
    told = capsys.readouterr().out
    assert "At fault: differentiation ahead of time." in told and "raises ArithmeticError: no running sums" in told
    assert minify.trial(repro.load(given.path.replace(".py", "_small.py")), "aot_eager").kind == "raises ArithmeticError"


def test_the_command_finds_nothing(tmp_path, capsys):
    assert minify.main(script(LONG, tmp_path).path) == 0 and "every backend" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["x = 1\n", "def (", "class Program: pass\n"])
def test_files_that_are_no_scripts(text, tmp_path, capsys):
    path = tmp_path / "other.py"
    path.write_text(text)
    assert minify.main(str(path)) == 2 and "Program" in capsys.readouterr().err
    assert minify.main(str(tmp_path / "none.py")) == 2


# Scripts that failures leave


def test_a_failing_backend_leaves_a_script_that_fails_again(monkeypatch, tmp_path):
    read = script("return x", tmp_path, "aot_eager", "refuses")  # which plants the fault here
    monkeypatch.setattr(jit.config, "dump", str(tmp_path))
    scale = torch.arange(3.0)

    def program(x, n):
        return torch.cumsum(x.double() * scale.double(), 0).t() * n

    f = jit.compile(program, backend="aot_eager")
    with pytest.raises((jit.BackendCompilerFailed, jit.InternalError)) as caught:
        f(torch.randn(3, 3).t(), 2)
    error = caught.value if isinstance(caught.value, jit.BackendCompilerFailed) else caught.value.__cause__
    assert os.path.dirname(error.repro) == str(tmp_path) and f"python -m jit minify {error.repro}" in str(error)
    kept = repro.load(error.repro)
    assert "ArithmeticError: no running sums" in kept.text and "(3, 3), (1, 3), torch.float32" in kept.text
    assert minify.trial(kept, "aot_eager") == minify.SAME, "the fault was this process's own"
    again = repro.read(kept.text.replace("class Program", f"{read.prelude}\nclass Program"), "again.py")
    assert minify.trial(again, "aot_eager").kind == "raises ArithmeticError" and "no running sums" in again.why


def test_own_functions_leave_none():
    def own(graph, inputs):
        raise ValueError("mine")

    with pytest.raises((jit.BackendCompilerFailed, jit.InternalError)) as caught:
        jit.compile(lambda x: x + 1, backend=own)(torch.ones(2))
    error = caught.value if isinstance(caught.value, jit.BackendCompilerFailed) else caught.value.__cause__
    assert error.repro == "" and "minify" not in str(error)


def test_graphs_inside_of_graphs_leave_no_script():
    graph = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    with pytest.raises(repro.NoScript, match="calls modules"):
        repro.text(graph, [torch.ones(2, 2)], "why")


@pytest.mark.parametrize("value", [
    torch.ones(2, 3), torch.ones(2, 3).t(), torch.ones(0, 2), torch.ones(3, dtype=torch.int64), torch.ones(2, dtype=torch.bool),
    torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.bfloat16, requires_grad=True), 3, 2.5, None, "word", float("inf")])
def test_recipes_make_what_looks_the_same(value):
    made = eval(repro.recipe(value), repro.names())
    if isinstance(value, torch.Tensor):
        look = [(each.shape, each.stride(), each.dtype, each.requires_grad) for each in (value, made)]
        assert look[0] == look[1]
    else:
        assert made == value


def test_what_has_no_recipe():
    with pytest.raises(repro.NoScript, match="dict"):
        repro.recipe({})


def test_a_script_has_what_operations_that_warn_are_called_by(tmp_path):
    written = []

    def keeps(graph, inputs):
        written.append(repro.write(graph, inputs, "why", str(tmp_path)))
        return graph

    def program(x):
        return F.mse_loss(x, torch.ones(3, 1)) + x[:1, 0].std()

    with pytest.warns(UserWarning, match="target size"):
        jit.compile(program, backend=keeps)(torch.ones(3, 4))
    loaded = repro.load(written[0])
    assert "torch.Tensor.std" in loaded.prelude and loaded.program()(*loaded.inputs())[0].isnan()
    assert minify.blame(loaded)["aot_eager"] == minify.SAME
