"""`python -m jit`, as a user meets it: in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import jit
from codegen.artifacts.store import key
from jit import __main__ as command_line
from jit import cache, doctor, report
from tools.environment import ROOT

SCRIPT = """
import sys
import torch
from helper import double

def step(x):
    y = double(x)
    sys.getswitchinterval()
    return y.relu().sum()

print(__name__, sys.argv[1:], sys.path[0] == {folder!r}, sys.modules["__main__"].step is step)
for size in range(4):
    print(step(torch.ones(3)).item())
if "raise" in sys.argv:
    raise ValueError("as asked")
if "leave" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "helper.py").write_text("def double(x):\n    return x * 2\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(folder=str(tmp_path)))
    return path


def python(*arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JIT_", "NO_COLOR"))}
    settings = {**kept, "PYTHONPATH": str(ROOT), "JIT_ON_ERROR": "raise", "JIT_CACHE_DIR": cache.folder() or "", **environment}
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=settings, timeout=300)


def same_as_plain(script, *arguments):
    """Output, errors and exit status of the script compiled are those of Python's own."""
    plain, compiled = python(script, *arguments), python("-m", "jit", "run", script, *arguments)
    assert (compiled.stdout, compiled.stderr, compiled.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    return plain


def test_run_is_what_python_does(script):
    done = same_as_plain(script, "raise", "--option")
    assert done.returncode == 1 and "ValueError: as asked" in done.stderr and "['raise', '--option'] True True" in done.stdout


def test_run_ends_as_the_script_does(script):
    assert same_as_plain(script, "leave").returncode == 7


def test_run_of_text_that_is_no_program(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text("x = (1,\n")
    assert "SyntaxError" in same_as_plain(path).stderr


@pytest.mark.parametrize("arguments", [["run", "there/is/none.py"], ["run", "-m", "there_is_none"]])
def test_what_is_not_there(arguments, capsys):
    assert command_line.main(arguments) == 2
    assert "framejit:" in capsys.readouterr().err


def test_run_of_a_module_and_explain(script):
    done = subprocess.run(
        [sys.executable, "-m", "jit", "explain", "-m", "script", "word"], capture_output=True, text=True, timeout=300,
        cwd=script.parent, env={**os.environ, "PYTHONPATH": str(ROOT), "JIT_BREAK_EVERYWHERE": ""},
    )
    assert done.returncode == 0 and "__main__ ['word'] True True\n6.0\n6.0\n6.0\n6.0\n" == done.stdout
    lines = done.stderr.splitlines()
    assert lines[0].strip() == "framejit: what was compiled"
    first = next(line for line in lines if line.startswith("step "))
    assert first.split() == ["step", "script.py:6", "4", "1", "1", "1"], "calls, compilations, operations, breaks"
    assert any("4 calls" in line and "script.py:8 in step: builtin not supported" in line for line in lines)


def test_dump_writes_its_folder(script, tmp_path):
    done = python("-m", "jit", "dump", tmp_path / "out", script)
    assert done.returncode == 0 and list((tmp_path / "out").glob("*-step/graph.py")), done.stderr


@pytest.mark.long
def test_bench_times_both(script):
    done = python("-m", "jit", "bench", "--rounds", "1", script)
    assert done.returncode == 0 and "times as fast, start-up included" in done.stdout, done.stderr
    assert "different" not in done.stdout


def test_the_cache_is_listed_and_cleared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path / "cache"))
    names = [key(name=str(number)) for number in range(3)]
    for name in names:
        cache.store().put(name, b"1234")
    assert command_line.main(["cache", "list"]) == 0
    *listed, total = capsys.readouterr().out.splitlines()
    assert {line.split()[-1] for line in listed} == set(names) and str(tmp_path / "cache") in total and "3 entries" in total
    assert command_line.main(["cache", "clear"]) == 0 and "3 entries removed" in capsys.readouterr().out
    assert cache.entries() == []


# The doctor


def found(name):
    return next(one for one in doctor.findings() if one.what == name)


def test_the_doctor_finds_this_machine_well(capsys):
    assert command_line.main(["doctor"]) == 0
    states = {one.what: one.state for one in doctor.findings()}
    assert {states[name] for name in ("Python", "torch", "capture", "cache on disk")} == {"works"}
    told = capsys.readouterr().out
    assert all(name in told for name in states)


def test_the_doctor_misses_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    one = found("C compiler")
    assert one.state == "missing" and "install gcc or clang" in one.mend


def test_the_doctor_finds_a_folder_that_others_may_write_to(monkeypatch, tmp_path, recwarn):
    tmp_path.chmod(0o777)
    monkeypatch.setattr(jit.config, "cache_dir", str(tmp_path))
    one = found("cache on disk")
    assert one.state == "missing" and str(tmp_path) in one.detail and "JIT_CACHE_DIR" in one.mend


def test_the_doctor_finds_a_torch_that_is_too_old(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    one = found("torch")
    assert one.state == "missing" and "2.11 to 2.13" in one.detail


# The report


def program(x):
    y = x.sin()
    sys.getswitchinterval()
    return y + 1


def test_mends_come_in_the_order_of_their_cost():
    def other(x):
        sys.getrecursionlimit()
        return x + 1

    f = jit.compile(program, backend="eager")
    for _ in range(3):
        f(torch.ones(2))
    (first,) = report.mends(f.debug_state())
    assert first.calls == 3 and "test_command_line.py" in first.reason
    assert [row.calls for row in report.rows(f.debug_state())] == [3, 3], "the function and what is left of it"


class Writer:
    def __init__(self, is_terminal):
        self.text, self.is_terminal = "", is_terminal

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize("is_terminal, environment, is_coloured", [
    (True, {"TERM": "xterm"}, True), (True, {"TERM": "xterm", "NO_COLOR": "1"}, False), (False, {}, False)])
def test_reports_have_colour_on_terminals_that_want_it(is_terminal, environment, is_coloured, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    f = jit.compile(program, backend="eager")
    f(torch.ones(2))
    out = Writer(is_terminal)
    report.show(f.debug_state(), out)
    assert ("\x1b[33m" in out.text) is is_coloured and "program" in out.text
    assert is_terminal or "\x1b" not in out.text


def test_a_report_of_nothing():
    out = Writer(False)
    report.show(jit.compile(program, backend="eager").debug_state(), out)
    assert "nothing was compiled" in out.text
