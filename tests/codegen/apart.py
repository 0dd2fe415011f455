"""Tests of torch's own table of operations, each in a process of its own: the table changes torch's flags when it is
loaded, and needs a package that not everybody has."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("expecttest")
ROOT = Path(__file__).parents[2]


def chosen(request, names):
    """Those of the names that tests of this run, in the file that asks, are about."""
    wanted = {item.callspec.params.get("name") for item in request.session.items if item.path == request.path and hasattr(item, "callspec")}
    return [name for name in names if name in wanted]


def verdicts(module, *arguments):
    """By operation: what `python -m tests.codegen.MODULE ARGUMENTS` says of it."""
    command = [sys.executable, "-m", f"tests.codegen.{module}", *arguments]
    lines = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout.splitlines()
    return dict(map(json.loads, (line for line in lines if line.startswith("["))))
