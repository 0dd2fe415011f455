"""Makes a program smaller while something stays wrong with it: statements go, or are replaced by what is in them;
expressions are replaced by parts of them, or by constants."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator

#: What expressions are tried to be, from the simplest on.
_CONSTANTS = (None, 0, 1, "")
_BLOCKS = ("body", "orelse", "finalbody", "handlers")


def shrink(text: str, is_wrong: Callable[[str], bool], seconds: float) -> str:
    """The smallest program found in time. `is_wrong` is asked of each, and holds for `text`."""
    end, tree = time.monotonic() + seconds, ast.parse(text)
    progress = True
    while progress:
        progress = False
        at = 0
        # One place after the other: what is left of a place that got smaller is tried again.
        while (smaller := _nth(tree, at)) is not None:
            if time.monotonic() > end:
                return ast.unparse(tree)
            if is_wrong(_text(smaller)):
                tree, progress = smaller, True
            else:
                at += 1
    return ast.unparse(tree)


def _text(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _nth(tree: ast.Module, at: int) -> ast.Module | None:
    """The program after the change number `at`; None if there are not so many."""
    fresh = copy.deepcopy(tree)
    for number, change in enumerate(_changes(fresh)):
        if number == at:
            change()
            return fresh
    return None


def _changes(tree: ast.Module) -> Iterator[Callable[[], None]]:
    """Ways to make the program smaller, the large ones first."""
    blocks = [(node, name) for node in ast.walk(tree) for name in _BLOCKS if _is_block(node, name)]
    for size in (8, 4, 2, 1):
        for node, name in blocks:
            count = len(getattr(node, name))
            if size == 1 or count > size:
                for start in range(count - size, -1, -size):
                    yield lambda node=node, name=name, start=start, size=size: _cut(node, name, start, size)  # type: ignore[misc]
    for node, name in blocks:
        for index, statement in enumerate(getattr(node, name)):
            for inner in _BLOCKS[:3]:
                if _is_block(statement, inner) and not isinstance(statement, ast.ClassDef):
                    yield lambda node=node, name=name, index=index, inner=inner: _hoist(node, name, index, inner)  # type: ignore[misc]
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            for index, each in enumerate(values):
                if isinstance(each, ast.expr) and isinstance(getattr(each, "ctx", ast.Load()), ast.Load):
                    for other in _simpler(each):
                        yield lambda node=node, name=name, index=index, other=other: _put(node, name, index, other)  # type: ignore[misc]


def _is_block(node: ast.AST, name: str) -> bool:
    return isinstance(getattr(node, name, None), list) and bool(getattr(node, name))


def _cut(node: ast.AST, name: str, start: int, size: int) -> None:
    left = getattr(node, name)
    del left[start : start + size]
    if not left and name == "body" and not isinstance(node, ast.Module):
        left.append(ast.Pass())


def _hoist(node: ast.AST, name: str, index: int, inner: str) -> None:
    block = getattr(node, name)
    block[index : index + 1] = getattr(block[index], inner)


def _simpler(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant):
        return
    yield from (ast.Constant(value) for value in _CONSTANTS)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child


def _put(node: ast.AST, name: str, index: int, other: ast.expr) -> None:
    if isinstance(getattr(node, name), list):
        getattr(node, name)[index] = other
    else:
        setattr(node, name, other)
