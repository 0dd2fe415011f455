"""`JIT_AUTO`: which functions of a program are compiled, and what the others pay for it."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import textwrap
import threading

import pytest
import torch

from jit import cache
from jit.autowrap import AutoCompiler
from jit.config import config
from tools.environment import ROOT


def script(code, folder, auto="1"):
    """Runs it in a process that starts as an installation's would (this environment may have one of its own, which the
    variable would start)."""
    start = (f"import os, sys; os.environ['JIT_AUTO'] = {auto!r}; sys.path.insert(0, {str(ROOT)!r})\n"
             "import framejit_start; framejit_start.install()\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JIT_")}
    settings = {**kept, "JIT_ON_ERROR": "raise", "JIT_CACHE_DIR": cache.folder() or ""}
    path = folder / "script.py"
    with open(path, "w") as file:
        file.write(start + textwrap.dedent(code))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=settings, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_a_program_without_torch_pays_nothing(tmp_path):
    done = script(
        """
        import sys, json
        print("jit" in sys.modules, "torch" in sys.modules)
        """, tmp_path)
    assert done.stdout == "False False\n"


def test_the_compiler_comes_with_torch_and_rests_where_no_tensor_is(tmp_path):
    done = script(
        """
        import torch
        from jit import autowrap, stats
        def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
        def step(x): return (x * 2).relu().sum()
        region = autowrap._compiler.region
        print(region.active, region.resting)
        x = torch.ones(8)
        fib(22)
        print(region.active, region.resting)
        step(x)                              # its first operation wakes the compiler: too late for this call
        print(region.resting, stats()["graphs"])
        for _ in range(3): step(x)
        print(region.resting, stats()["graphs"])
        """, tmp_path)
    assert done.stdout.splitlines() == ["True False", "True True", "False 0", "False 1"]


def test_a_report_at_the_end(tmp_path):
    done = script(
        """
        import torch
        def step(x): return (x * 2).relu().sum()
        for _ in range(7): step(torch.ones(8))
        print("end")
        """, tmp_path, auto="report")
    assert done.stdout == "end\n"
    (row,) = [line.split() for line in done.stderr.splitlines() if line.startswith("step ")]
    assert (row[2:5], row[-1]) == (["5", "1", "3"], "s"), "two calls ran as written, to be timed"
    assert "time saved" in done.stderr


@pytest.mark.parametrize("include, exclude, is_compiled", [
    ("", "", False), ("textwrap", "", True), ("text*,other", "", True), ("textwrap", "t*", False), ("", "textwrap", False)])
def test_modules_are_chosen_by_pattern(include, exclude, is_compiled):
    compiler = AutoCompiler(config.with_options({"auto_include": include, "auto_exclude": exclude}))
    assert (compiler.classify(textwrap.dedent.__code__) is not None) is is_compiled


def test_own_functions_can_be_left_alone():
    module = test_own_functions_can_be_left_alone.__module__
    code = script.__code__
    assert AutoCompiler().classify(code) is not None
    assert AutoCompiler(config.with_options({"auto_exclude": "*.test_autowrap"})).classify(code) is None, module


def doubled(x):
    return x * 2


def test_only_what_the_main_thread_calls_is_compiled():
    """The frame hook is of all threads: each that kept it would make the calls of all others slower."""
    compiler, x = AutoCompiler(), torch.ones(2)
    compiler.region.enter()
    try:
        other = threading.Thread(target=doubled, args=(x,))
        other.start()
        other.join()
        assert not compiler.records
        doubled(x)
        assert [record.name for record in compiler.records] == ["doubled"]
    finally:
        compiler.region.exit()


@pytest.mark.parametrize("is_shown", [True, False])
def test_cells_of_notebooks_are_compiled_and_text_that_nobody_wrote_is_not(is_shown, monkeypatch):
    name, text = "<ipython-input-1-0123456789ab>", "def step(x):\n    return x * 2\n"
    scope = {}
    exec(compile(text, name, "exec"), scope)
    if is_shown:
        monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
    assert (AutoCompiler().classify(scope["step"].__code__) is not None) is is_shown


@pytest.mark.parametrize("folder, is_own", [
    ("own", True), ("lib/python3/site-packages", False), ("usr/lib/dist-packages/deep", False), ("my-site-packages", True)])
def test_libraries_run_as_they_are_wherever_they_are_installed(folder, is_own, tmp_path):
    (tmp_path / folder).mkdir(parents=True)
    path = tmp_path / folder / "some.py"
    path.write_text(text := "def step(x): return x * 2")
    scope = {}
    exec(compile(text, path, "exec"), scope)
    assert (AutoCompiler().classify(scope["step"].__code__) is not None) is is_own


@pytest.mark.long
def test_a_notebook(tmp_path):
    pytest.importorskip("IPython")
    (tmp_path / "own.py").write_text("def more(x):\n    return x + 1\n")
    done = script(
        """
        import os, pathlib, time, torch
        from IPython.core.interactiveshell import InteractiveShell
        from jit import stats
        shell = InteractiveShell.instance()
        def cell(text):
            done = shell.run_cell(text, store_history=True)
            done.raise_error()
            return done.result
        cell("import torch")
        for factor in (2, 3):  # the second time it is another function of that name
            cell(f"def step(x):\\n    return (x * {factor}).relu().sum()")
            cell("for _ in range(3): found = step(torch.ones(8))")
            print("step", cell("found.item()"), stats()["graphs"])
        cell("%load_ext autoreload\\n%autoreload 2\\nimport own\\ndef twice(x): return own.more(x) * 2")
        for number in (1, 10):
            own = pathlib.Path(__file__).with_name("own.py")
            own.write_text(f"def more(x):\\n    return x + {number}\\n")
            os.utime(own, (time.time() + 100 * number,) * 2)
            print("twice", cell("[twice(torch.ones(1)).item() for _ in range(3)]"))
        """, tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("step", "twice"))]
    assert lines == ["step 16.0 1", "step 24.0 2", "twice [4.0, 4.0, 4.0]", "twice [22.0, 22.0, 22.0]"]
