"""What is kept on disk of a graph that was compiled for the processor: its plan, and the source of its kernels."""

from __future__ import annotations

import functools
import hashlib
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from codegen.artifacts.store import Store, key
from codegen.kernels.likeness import Likeness
from codegen.plan import text
from codegen.plan.steps import Plan
from symbolic import late

#: All that a plan is made by.
_FOLDERS = [Path(__file__).parent, Path(text.__file__).parent]
_FILES = [Path(late.__file__)]


def place(like: Likeness, takes_list: bool, rounds_halves: bool = True) -> str | None:
    """The key of what a graph becomes; None for one that another process can't tell to be the same: it holds functions
    or very large tensors of its own."""
    kinds: dict[tuple[Any, ...], int] = {}  # a large model has few, each many times
    wired = [
        (kinds.setdefault((op, what, given, value), len(kinds)), operands) for op, what, given, operands, value in like
    ]
    lines = [(op, _name(what), given, value) for op, what, given, value in kinds]
    if any(name is None for _, name, _, _ in lines):
        return None
    settings = f"{takes_list} {rounds_halves} {torch.get_default_dtype()}"
    return key(graph=repr((lines, wired)), settings=settings, made_by=_made_by())


def keep(store: Store, at: str, graph: fx.GraphModule, plan: Plan, source: str) -> None:
    """Unless the plan holds what means nothing to another process."""
    try:
        store.put(at, f"{text.write(plan, _constants(graph))}\n{source}".encode())
    except text.Unwritable:
        return


def find(store: Store, at: str) -> tuple[str, str] | None:
    """(the plan for `read`, the source of its kernels), as they were kept."""
    value = store.get(at)
    if value is None:
        return None
    plan, _, source = value.decode(errors="replace").partition("\n")
    return plan, source


def read(plan: str, graph: fx.GraphModule, function: text.Functions) -> Plan:
    """Raises `text.Unreadable`."""
    return text.read(plan, function, _constants(graph))


def _constants(graph: fx.GraphModule) -> list[Any]:
    return [attrgetter(str(node.target))(graph) for node in graph.graph.find_nodes(op="get_attr")]


def _name(what: Any) -> str | None:
    """An operation, or what an attribute holds, by name; None if it has none that lasts."""
    match what:
        case OpOverload():
            return _described(what)
        case None | str() | bytes():
            return repr(what)
    module, name = getattr(what, "__module__", ""), getattr(what, "__name__", "")
    return name if module == "_operator" else None


@functools.cache
def _described(op: OpOverload[..., Any]) -> str:
    return f"{op} {op._schema} {sorted(map(str, op.tags))}"


@functools.cache
def _made_by() -> str:
    """What differs where a plan or its kernels may differ."""
    total = hashlib.sha256()
    for file in (*_FILES, *sorted(file for folder in _FOLDERS for file in folder.rglob("*.py"))):
        total.update(file.read_bytes())
    return f"{total.hexdigest()} {torch.__version__} {sys.version}"
