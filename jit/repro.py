"""A captured graph and its inputs as a script of its own, to be run, shrunk and reported.

A script has a class `Program`, a module, and a function `inputs`, which makes its arguments anew at each call. Values
are drawn from a seed: what matters of a tensor is how it looks.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import torch
from torch import fx
from torch.fx.node import _get_qualified_name

from symbolic.warned import quietly

_numbers = itertools.count()
HEAD = '''\
"""{why}

framejit with torch {torch}, Python {python}. `python -m jit minify` of this file makes it small and finds the stage.
"""
import math
from math import inf, nan

import torch
from torch import device


def strided(size, stride, dtype, where="cpu", requires_grad=False):
    """A tensor that lies in memory like this, with numbers of the generator."""
    out = torch.empty_strided(size, stride, dtype=dtype, device=where)
    if dtype == torch.bool:
        out.random_(0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        out.copy_(torch.randn(size))
    else:
        out.random_(0, 3)
    return out.requires_grad_(requires_grad)
'''


class NoScript(Exception):
    """This can't be written as a script of its own, or is none."""


@dataclass(frozen=True)
class Script:
    """What a script holds. `inputs`: new ones at each call; `program`: a new module at each."""

    path: str
    text: str
    program: Callable[[], torch.nn.Module]
    inputs: Callable[[], list[Any]]

    @property
    def why(self) -> str:
        """The first line of its docstring."""
        found = ast.get_docstring(ast.parse(self.text)) or ""
        return found.partition("\n")[0]

    @property
    def prelude(self) -> str:
        """What its author wrote before the class: imports of own operators, say. Scripts made of it begin with that."""
        tree = ast.parse(self.text)
        known = {ast.dump(statement) for statement in ast.parse(HEAD).body[1:]}
        before = itertools.takewhile(lambda statement: not is_program(statement), tree.body)
        own = [each for each in before if ast.dump(each) not in known and not _is_text(each)]
        return "".join(f"{ast.unparse(each)}\n" for each in own)


def write(graph: fx.GraphModule, values: Sequence[Any], why: str, folder: str = "") -> str:
    """Writes the script to `folder` (default: the one for temporary files); answers with its path. Raises NoScript."""
    made = text(graph, values, why)
    path = os.path.join(folder or tempfile.gettempdir(), f"framejit-repro-{os.getpid()}-{next(_numbers)}.py")
    with open(path, "x", encoding="utf-8") as out:
        out.write(made)
    return path


def text(graph: fx.GraphModule, values: Sequence[Any], why: str, prelude: str = "") -> str:
    """The script of a graph and what it is called with. Raises NoScript for graphs that hold others."""
    why = why.replace('"""', "'''").replace("\\", "/")
    head = HEAD.format(why=why, torch=torch.__version__, python=platform.python_version())
    made = [f"self.register_buffer({name!r}, {recipe(value)})" for name, value in _held(graph)]
    start = "\n".join(["torch.manual_seed(1)", "super().__init__()", *made])
    body = re.sub(r"^from __future__.*\n|^import .*\n", "", graph.code, flags=re.MULTILINE).strip()
    arguments = "".join(f"\n    {recipe(value)}," for value in values)
    return (
        f"{head}\n{prelude}{_own(graph)}\n\n"
        f"class Program(torch.nn.Module):\n    def __init__(self):\n{indent(start, ' ' * 8)}\n\n"
        f"{indent(body, ' ' * 4)}\n\n\ndef inputs():\n    torch.manual_seed(0)\n"
        f"    return [{indent(arguments, ' ' * 4)}\n    ]\n\n\n"
        'if __name__ == "__main__":\n    import jit\n\n    print(jit.compile(Program())(*inputs()))\n'
    )


def _own(graph: fx.GraphModule) -> str:
    """What makes the names that its code has for functions of the compiler's own."""
    found: list[str] = []
    for name, value in graph.graph.python_code("self").globals.items():
        home = getattr(value, "__module__", None) or ""
        if not home.startswith(("symbolic.", "codegen.")):
            continue
        if home == quietly.__module__:  # in a script it may warn
            what = value.__wrapped__
            found.append(f"{name} = {f'torch.Tensor.{what}' if isinstance(what, str) else _get_qualified_name(what)}\n")
        else:
            found.append(f"from {home} import {value.__qualname__} as {name}\n")
    return "".join(found)


def recipe(value: Any) -> str:
    """An expression that makes such a value. Raises NoScript."""
    if isinstance(value, torch.Tensor):
        size, stride = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
        more = f", {str(value.device)!r}" if value.device.type != "cpu" or value.requires_grad else ""
        more += ", True" if value.requires_grad else ""
        return f"strided({size}, {stride}, {value.dtype}{more})"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return repr(value.node.hint)
    if isinstance(value, (int, float, str, bool, type(None), torch.dtype)):
        return repr(value)
    raise NoScript(f"an input that is a {type(value).__qualname__}")


def names() -> dict[str, Any]:
    """What the expressions of `recipe` are evaluated with."""
    found: dict[str, Any] = {}
    exec(HEAD.format(why="", torch="", python=""), found)
    return found


def load(path: str) -> Script:
    """Raises NoScript for a file without `Program` and `inputs`, or one that can't be run."""
    try:
        with open(path, encoding="utf-8") as file:
            found = file.read()
        return read(found, path)
    except OSError as error:
        raise NoScript(f"can't open {path!r}: {error.strerror}") from None


def read(text: str, path: str) -> Script:
    """The script of that text. Raises NoScript."""
    spec = importlib.util.spec_from_loader("framejit_repro", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    try:
        exec(compile(text, path, "exec"), module.__dict__)
        return Script(path, text, module.Program, module.inputs)
    except (AttributeError, NameError, SyntaxError) as error:
        raise NoScript(f"{path}: no class `Program` or function `inputs`: {error}") from None


def is_program(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ClassDef) and statement.name == "Program"


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _held(graph: fx.GraphModule) -> Iterator[tuple[str, torch.Tensor]]:
    for name in dict.fromkeys(str(node.target) for node in graph.graph.nodes if node.op == "get_attr"):
        value = getattr(graph, name, None)
        if not isinstance(value, torch.Tensor):
            raise NoScript(f"the graph holds {name}, which is no tensor")
        yield name, value
    if any(node.op == "call_module" for node in graph.graph.nodes):
        raise NoScript("the graph calls modules")
