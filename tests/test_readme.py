"""What the README shows: its Python runs and does what it says, its commands, names and settings are there."""

from __future__ import annotations

import dataclasses
import re
import shlex

import pytest
import torch
from torch import nn

import jit
from codegen.passes import unregister
from jit.__main__ import _parser
from jit.config import config
from tools.environment import ROOT

TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
LINES = [line.split(" #")[0].split("   ")[0].strip() for line in re.findall(r"^    (\S.*)$", TEXT, re.MULTILINE)]


def example(containing):
    (found,) = [block for block in BLOCKS if containing in block]
    return found


def test_each_example_is_tried_here():
    tried = ["@jit.compile", "jit.debug", "aot_function", "@register"]
    assert sorted(map(example, tried)) == sorted(BLOCKS)


def test_decorating():
    scope = {"model": (plain := nn.Linear(3, 2))}
    exec(example("@jit.compile"), scope)
    x, y = torch.randn(3, 4), torch.randn(4, 5)
    torch.testing.assert_close(scope["step"](x, y), (x @ y).relu())
    torch.testing.assert_close(scope["model"](x.t()), plain(x.t()))
    assert scope["step"].debug_state().entries and scope["model"].debug_state().entries


def test_looking_inside(tmp_path):
    def step(x, y):
        return (x @ y).relu()

    scope = {"jit": jit, "step": step, "x": torch.eye(2), "y": torch.ones(2, 2)}
    exec(example("jit.debug").replace("/tmp/look", str(tmp_path)), scope)
    assert list(tmp_path.rglob("generated.py")) and (tmp_path / "index.html").exists()


def test_differentiation_alone(capsys):
    scope = {"model": (plain := nn.Linear(3, 2))}
    exec(example("aot_function"), scope)
    x, w = torch.randn(2, 2, requires_grad=True), torch.randn(2, 2, requires_grad=True)
    got = torch.autograd.grad(scope["f"](x, w).sum(), (x, w))
    torch.testing.assert_close(got, torch.autograd.grad((x @ w).tanh().sum(), (x, w)))
    assert "tanh" in capsys.readouterr().out
    torch.testing.assert_close(scope["model"](torch.ones(1, 3)), plain(torch.ones(1, 3)))


def test_passes():
    exec(example("@register"), {"torch": torch})
    try:
        x = torch.linspace(0, 1, 5)
        torch.testing.assert_close(jit.compile(lambda x: x.sin() + 1)(x), x.cos() + 1)
    finally:
        unregister("cosines")


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("python -m jit ")])
def test_commands_are_understood(line):
    assert callable(_parser().parse_args(shlex.split(line)[3:]).run)


def test_names_and_settings_are_there():
    names = {name for name in re.findall(r"\bjit\.([a-z]\w+)", TEXT)}
    assert {"compile", "explain", "warmup"} <= names and all(hasattr(jit, name) for name in names), names
    settings = {field.name for field in dataclasses.fields(config)} | {"auto", "test_backend"}
    assert {name.lower() for name in re.findall(r"\bJIT_([A-Z_]+)", TEXT)} <= settings
    assert set(re.findall(r"`jit\.config\.([a-z_]+)", TEXT)) <= settings


def test_tools_and_folders_are_there():
    shown = [line.split()[0] for line in LINES if line.startswith("tools/")]
    named = re.findall(r"`((?:tools|tests|jit|codegen|symbolic|sideeffects)/[a-z_/.]*)", TEXT)
    assert len(shown) > 5 and all((ROOT / path).exists() for path in [*shown, *named])
    known = re.search(r"usage: tools/bench (\S+) ", (ROOT / "tools" / "bench").read_text())[1].split("|")
    assert set(re.findall(r"tools/bench ([a-z]+)", TEXT)) <= set(known)
