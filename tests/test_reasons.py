"""Reasons of graph breaks: each belongs to one family, whose programs do what the page says; the error shows the place."""

from __future__ import annotations

import ast
import linecache
import re

import pytest
import torch

import jit
from jit import __main__ as command_line
from jit import reasons
from symbolic.variables.tables import SKIPPED_MODULES
from symbolic.variables.torch_functions import REFUSED
from tools.environment import ROOT

FAMILIES = reasons.families()
PYTHON = [path for floor in ("sideeffects", "symbolic", "codegen", "jit") for path in sorted((ROOT / floor).rglob("*.py"))]


BREAKING = ("GraphBreak", "SkipFrame", "refused", "torch_functions.refused")


def reasons_in_the_sources():
    """The first arguments of what breaks graphs, where they are text or the name of a text."""
    trees = [ast.parse(path.read_text()) for path in PYTHON]
    named = {
        node.targets[0].id: node.value.value for tree in trees for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in BREAKING:
                if isinstance(node.args[0], ast.Constant):
                    yield node.args[0].value
                elif isinstance(node.args[0], ast.Name) and node.args[0].id in named:
                    yield named[node.args[0].id]
    yield from SKIPPED_MODULES.values()
    yield from (reason for reason in REFUSED.values() if not reason.startswith("a test"))


def test_every_reason_belongs_to_a_family():
    missing = sorted({reason for reason in reasons_in_the_sources() if reasons.family_of(reason) is None})
    assert not missing, "add these to a section of jit/breaks.md"


def test_no_reason_belongs_to_two_families_and_none_is_out_of_date():
    listed = [reason for family in FAMILIES.values() for reason in family.reasons]
    assert len(listed) == len(set(listed)) > 200
    text = "\n".join(path.read_text() for path in PYTHON)
    # Some are put together where they are raised.
    assert not [reason for reason in listed if reason not in text and not text.count(reason.partition(" ")[0])]


def test_the_page_is_one_that_people_read():
    assert len(FAMILIES) == 14 and all(re.fullmatch(r"[a-z-]+", name) for name in FAMILIES)
    assert all(family.text and family.title for family in FAMILIES.values())


def program(tmp_path, name, text):
    path = tmp_path / f"{name.replace('-', '_')}.py"
    path.write_text(text)
    space = {"torch": torch, "jit": jit}
    exec(compile(text, str(path), "exec"), space)
    return space["f"]


ARGUMENTS = {"frame": (3,), "containers": ({1: 2},), "outside": (2.5,)}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_program_of_a_family_breaks_for_it(name, tmp_path):
    f = program(tmp_path, name, FAMILIES[name].breaks)
    x = torch.ones(3, 3, requires_grad=name == "autograd")
    arguments = ({1: 2},) if name == "containers" else ()
    with pytest.raises(jit.Unsupported) as caught:
        jit.compile(f, backend="eager", fullgraph=True)(x, *arguments)
    assert caught.value.family == name, caught.value
    assert f"[{name}]" in str(caught.value) and f"python -m jit why {name}" in str(caught.value)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_second_program_of_a_family_is_one_graph(name, tmp_path):
    f = program(tmp_path, f"{name}-mended", FAMILIES[name].mended)
    result = jit.compile(f, backend="eager", fullgraph=True)(torch.ones(3, 3), *ARGUMENTS.get(name, ()))
    same = f(torch.ones(3, 3), *ARGUMENTS.get(name, ()))
    for one, other in zip(result if isinstance(result, list) else [result], same if isinstance(same, list) else [same]):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def message(f, *arguments):
    with pytest.raises(jit.Unsupported) as caught:
        jit.compile(f, backend="eager", fullgraph=True)(*arguments)
    return str(caught.value).splitlines()


def test_the_error_shows_the_stack_and_points_at_the_expression(tmp_path):
    f = program(tmp_path, "caret", '''
def inner(x):
    return 1 if "ä" != x.sum() > 0 else 2

def f(x):
    y = x + 1
    return inner(y)
''')
    path = tmp_path / "caret.py"
    assert message(f, torch.ones(2))[:6] == [
        "can't be captured as one graph: branch on a tensor (tensor %gt) [tensor-value]",
        f'  File "{path}", line 7, in f',
        "    return inner(y)",
        f'  File "{path}", line 3, in inner',
        '    return 1 if "ä" != x.sum() > 0 else 2',
        "                ^^^^^^^^^^^^^^^^^^",
    ]


def test_an_expression_over_several_lines(tmp_path):
    f = program(tmp_path, "lines", '''
def f(x):
    return x + x.tolist(
        )[0]
''')
    lines = message(f, torch.ones(2, dtype=torch.complex64))
    assert lines[2:4] == ["    return x + x.tolist(", "               ^^^^^^^^^"]


def test_a_whole_line_needs_no_carets(tmp_path):
    f = program(tmp_path, "whole", '''
def f(x):
    jit.graph_break()
    return x
''')
    lines = message(f, torch.ones(2))
    assert lines[2] == "    jit.graph_break()" and "^" not in lines[3]


def test_a_frame_that_is_not_for_capture_tells_why(tmp_path):
    f = program(tmp_path, "skipped", FAMILIES["frame"].breaks)
    lines = message(f, torch.ones(2))
    assert lines[0] == "can't be captured as one graph: the frame can't be captured (the frame looks at itself) [frame]"


def test_without_sources_there_is_still_a_place():
    space = {"torch": torch}
    exec(compile("def f(x):\n    return 1 if x.sum() > 0 else 2\n", "<made>", "exec"), space)
    linecache.clearcache()
    assert message(space["f"], torch.ones(2))[1] == '  File "<made>", line 2, in f'


def test_why_prints_a_section(capsys):
    assert command_line.main(["why", "tensor-value"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("The value of a tensor is needed\n") and "torch.where" in told and "- " not in told
    assert command_line.main(["why"]) == 0 and "tensor-value" in capsys.readouterr().out
    assert command_line.main(["why", "nothing"]) == 2 and "'nothing'" in capsys.readouterr().err
