"""The line that a long compilation shows: on a terminal, after a while, and gone afterwards."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = """
import time, torch, jit
import jit.progress
from codegen import progress

jit.progress.PATIENCE = {patience}

def slow(graph, inputs):
    with progress.stage("thinking"):
        time.sleep({seconds})
    return graph.forward

def program(x):
    return x + 1

print(jit.compile(program, backend=slow)(torch.ones(2)).tolist(), flush=True)
"""


def run(seconds: float, patience: float, terminal: bool) -> str:
    """What a process writes to stderr that compiles for these seconds, at least."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    command = [sys.executable, "-c", CODE.format(seconds=seconds, patience=patience)]
    if not terminal:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                read = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            found += read
    os.close(ours)
    assert process.returncode == 0, found
    return found.decode()


def test_a_long_compilation_says_what_it_is_about() -> None:
    text = run(2.0, 0.2, terminal=True)
    assert "compiling program: thinking" in text
    assert "\x1b[2K" in text.rsplit("thinking", 1)[1]  # the line is erased


@pytest.mark.parametrize(
    "seconds, patience, terminal", [(0.1, 300.0, True), (0.5, 0.1, False)], ids=["short", "no terminal"]
)
def test_silent_otherwise(seconds: float, patience: float, terminal: bool) -> None:
    assert "compiling" not in run(seconds, patience, terminal)
