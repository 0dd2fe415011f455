"""The command for machines with a GPU: it says so where there is none, and its tables are right."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import pytest
import torch

from tools import bench_cuda, run_cuda
from tools.bench_cuda import Row, table
from tools.environment import ROOT


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a device")
@pytest.mark.parametrize("module", ["run_cuda", "bench_cuda"])
def test_without_a_device_it_says_so(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", f"tools.{module}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip() == f"tools.{module} needs a CUDA device, and torch {torch.__version__} sees none."


def test_all_parts_in_their_order(monkeypatch, tmp_path) -> None:
    """What fails is told, and the report keeps the end of what the tests said."""
    commands = []

    def run(title, command, seconds):
        commands.append((title, command))
        assert 0 < seconds <= 520
        return title != "tests", f"{title} said this"

    monkeypatch.setattr(run_cuda, "refusal", lambda: "")
    monkeypatch.setattr(run_cuda, "run", run)
    report = tmp_path / "out" / "cuda.md"
    assert run_cuda.main(["--output", str(report), "--only", "gelu"]) == 1
    assert [title for title, _ in commands] == ["tests", "benchmark"]
    assert commands[1][1][-2:] == ["--only", "gelu"] and str(report) in commands[1][1]
    assert "tests said this" in report.read_text()


def test_a_part_that_takes_too_long_is_stopped(capfd) -> None:
    started = time.monotonic()
    ended, said = run_cuda.run("slow", [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"], 5)
    assert not ended and time.monotonic() - started < 40
    assert said.splitlines()[0] == "begun" and "stopped after" in said


def test_cases_are_measured_until_the_time_is_up() -> None:
    options = argparse.Namespace(seconds=1e9, modes=["forward", "training"], dtypes=["float32", "bfloat16"], only="group norm",
                                 sides=["eager", "ours"], device="cpu")  # fmt: skip
    found = list(bench_cuda.rows(options, lambda call: call() is not None and 2.0))
    assert [(row.mode, row.dtype) for row in found] == [(mode, dtype) for mode in options.modes for dtype in options.dtypes]
    assert all(row.times == {"eager": 2.0, "ours": 2.0} for row in found)
    assert found[0].bytes == 4 * (2 * 16 * 32 * 32 * 32 + 64) and found[1].bytes == found[0].bytes // 2
    options.seconds = -1
    assert not list(bench_cuda.rows(options, lambda call: 1.0))


def test_what_is_wrong_has_no_time(monkeypatch) -> None:
    monkeypatch.setitem(bench_cuda.SIDES, "ours", lambda program: lambda *args: program(*args) + 1)
    options = argparse.Namespace(seconds=9, modes=["forward"], dtypes=["float32"], only="five operations, 4 K",
                                 sides=["eager", "ours"], device="cpu")  # fmt: skip
    (row,) = bench_cuda.rows(options, lambda call: 1.0)
    assert row.times == {"eager": 1.0}


def test_table() -> None:
    found = [Row("a", "forward", "float32", {"eager": 4.0, "ours": 1.0}, 90), Row("b", "forward", "float32", {"eager": 1.0, "ours": 1.0}, 50),
             Row("c", "forward", "float32", {"eager": 1.0}, 50)]  # fmt: skip
    lines = table(found, ["eager", "ours"], 100.0).splitlines()
    assert lines[0] == "## forward, float32"
    assert lines[4] == "| a | 4 s | 1 s | 4.00 | 90% |" and lines[6] == "| c | 1 s | failed |  |  |"
    assert lines[7] == "| geometric mean |  |  | 2.00 |  |"
