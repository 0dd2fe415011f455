"""jit.debug: the text of what was compiled runs in its place, under a debugger, too."""

from __future__ import annotations

import io
import pdb
import sys
import traceback

import pytest
import torch

import jit
from tests.differential import check

LOG = []


def program(x):
    LOG.append(x.shape)
    y = x.sin()
    sys.getswitchinterval()
    return y + 1


def texts(folder):
    return {path.parent.name: path for path in sorted(folder.glob("*/generated.py"))}


def test_pdb_stops_at_a_breakpoint_in_the_text(tmp_path):
    x, run = torch.ones(3), jit.debug(program, dump=str(tmp_path), break_everywhere=False)
    expected = run(x)
    first, second = texts(tmp_path).values()
    lines = first.read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "tensor_0, = graph_result" in text)
    said = io.StringIO()
    commands = "continue\np 'graph gave', graph_result[0].shape\nnext\np 'first is', tensor_0[0].item()\np graph\ncontinue\n"
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=said, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    assert debugger.set_break(str(first), line) is None
    assert torch.equal(debugger.runcall(run, x), expected)
    text = said.getvalue()
    assert f"> {first}({line})program()" in text and lines[line - 1].strip() in text
    assert "('graph gave', torch.Size([3]))" in text and "('first is', 0.84" in text and "forward" in text


def test_pdb_stops_in_a_continuation_that_is_compiled_meanwhile(tmp_path):
    said = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("step\n" * 40 + "continue\n"), stdout=said, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    result = debugger.runcall(jit.debug(program, dump=str(tmp_path), break_everywhere=False), torch.ones(3))
    assert torch.equal(result, torch.ones(3).sin() + 1)
    assert all(f"> {path}(" in said.getvalue() for path in texts(tmp_path).values())
    assert "symbolic" not in said.getvalue()  # not through the compiler


def test_tracebacks_show_the_text(tmp_path):
    def failing(x):
        x = x + 1
        int("no number")
        return x

    with pytest.raises(ValueError) as raised:
        jit.debug(failing, dump=str(tmp_path))(torch.ones(2))
    (path,) = texts(tmp_path).values()
    entry = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert entry.filename == str(path) and "int" in entry.line


def test_without_a_folder_the_text_lies_in_a_temporary_one():
    run = jit.debug(program)
    run(torch.ones(3))
    assert (record := run.compiler.records[0]).folder and "def program(" in open(f"{record.folder}/generated.py").read()


def test_modules_methods_and_compiled_functions():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x.relu() + 1

    for fn in (Model(), Model().forward, jit.compile(program)):
        assert torch.equal(jit.debug(fn)(torch.ones(3)), fn(torch.ones(3)))
    with pytest.raises(TypeError, match="jit.debug needs a function"):
        jit.debug(3)


def test_debugged_is_eager():
    check(program, torch.ones(3), compiler=lambda fn, **_: jit.debug(fn))
