"""`JIT_AUTO=1` on whole scripts that know nothing of it: they print and end as they do without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest

import pytest

from jit import cache
from jit.autowrap import AutoCompiler
from jit.config import config
from tests.scripts import accounts
from tools import bench_auto
from tools.environment import ROOT

START_UP = f"import sys; sys.path.append({str(ROOT)!r}); import framejit_start; framejit_start.install()\n"


@pytest.fixture
def installed(tmp_path):
    """The variables with which Python starts as under `JIT_AUTO=1` in an installation (this environment may have a
    start-up line of its own, which the variable would start)."""
    (tmp_path / "sitecustomize.py").write_text(START_UP)
    return {"PYTHONPATH": str(tmp_path), "JIT_ON_ERROR": "raise", "JIT_CACHE_DIR": cache.folder() or ""}


@pytest.mark.long
@pytest.mark.parametrize("script", bench_auto.KINDS)
def test_scripts_print_and_end_as_without(script, installed):
    if script == "generate":
        pytest.importorskip("transformers")
    short = {"ROUNDS": "2"}
    plain = bench_auto.run(script, short, timeout=300)
    auto = bench_auto.run(script, {**short, **installed}, timeout=600)
    assert plain.status == 0 and len(auto.rounds) == 2, auto.said
    assert (auto.status, auto.printed, auto.said) == (plain.status, plain.printed, plain.said)


def test_unittests_end_as_without():
    def run():
        tests = unittest.defaultTestLoader.loadTestsFromTestCase(accounts.AccountTest)
        with open(os.devnull, "w") as nowhere:
            result = unittest.TextTestRunner(nowhere).run(tests)
        return result.testsRun, result.errors, result.failures, len(result.expectedFailures)

    compiler = AutoCompiler(config.with_options({"auto_include": "*"}))
    assert compiler.region(run) == run() == (5, [], [], 1)
    assert sys.gettrace() is None or compiler.debug_state().entries


#: Counts what was compiled, for somebody who looks at it from outside.
TRAINS = """
import sys
import torch
import torch.distributed as dist

def loss(w, x):
    y = (x * w).sin()
    if x.sum() > 1e6:
        y = y + 1
    return y.sum()

def main(rank):
    w = torch.ones(4, requires_grad=True)
    for step in range(3):
        loss(w, torch.arange(4.0) + rank + step).backward()
    return w.grad

if __name__ == "__main__":
    if "--alone" in sys.argv:
        print(main(0).tolist())
    else:
        dist.init_process_group("gloo")
        grad = main(dist.get_rank())
        dist.all_reduce(grad)
        if dist.get_rank() == 0:
            print(grad.tolist())
        dist.destroy_process_group()
    if "jit" in sys.modules:
        print("graphs", sys.modules["jit"].stats()["graphs"] > 0, file=sys.stderr)
"""


def _run(command, folder, variables):
    environment = {**os.environ, "JIT_AUTO": "", "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.long
def test_the_children_of_torchrun(installed, tmp_path):
    (tmp_path / "train.py").write_text(TRAINS)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    plain = _run(command, tmp_path, {})
    auto = _run(command, tmp_path, {"JIT_AUTO": "1", **installed})
    assert auto.stdout == plain.stdout and auto.stderr.count("graphs True") == 2, auto.stderr


@pytest.mark.long
def test_coverage_sees_the_same_lines(installed, tmp_path):
    """Under a tracer, which is told of each line."""
    where = os.path.dirname(os.path.dirname(pytest.importorskip("coverage").__file__))
    (tmp_path / "train.py").write_text(TRAINS)

    def lines(variables):
        path = os.pathsep.join([variables.get("PYTHONPATH", ""), where])
        variables = {**variables, "PYTHONPATH": path}
        done = _run(["-m", "coverage", "run", "train.py", "--alone"], tmp_path, variables)
        _run(["-m", "coverage", "json", "-q", "-o", "lines.json"], tmp_path, {"PYTHONPATH": where})
        return done.stdout, json.loads((tmp_path / "lines.json").read_text())["files"]["train.py"]["executed_lines"]

    plain, auto = lines({}), lines({"JIT_AUTO": "1", **installed})
    assert set(auto[1]) - set(plain[1]) <= {TRAINS.splitlines().index(TRAINS.splitlines()[-1]) + 1}
    assert set(plain[1]) <= set(auto[1]) and auto[0] == plain[0]


@pytest.mark.long
def test_the_cells_of_a_kernel(installed, tmp_path, monkeypatch):
    client = pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    where = os.path.dirname(os.path.dirname(client.__file__))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([installed["PYTHONPATH"], where]))
    monkeypatch.setenv("JIT_AUTO", "1")
    monkeypatch.setenv("JIT_ON_ERROR", "raise")
    cells = [
        "import torch\ndef f(x):\n    return x.sin() + 1",
        "for _ in range(3): y = f(torch.zeros(2))\nprint(y.tolist())",
        "def f(x):\n    return x.cos() + 1",
        "print(f(torch.zeros(2)).tolist(), f(torch.zeros(2)).tolist())",
        "import jit; print(jit.stats()['graphs'])",
    ]
    manager, kernel = client.manager.start_new_kernel(startup_timeout=120)
    printed = []
    try:
        for cell in cells:
            reply = kernel.execute_interactive(
                cell, timeout=200, output_hook=lambda message: printed.append(message["content"].get("text", ""))
            )
            assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)
    assert [line for line in "".join(printed).splitlines() if line] == ["[1.0, 1.0]", "[2.0, 2.0] [2.0, 2.0]", "2"]
