"""Makes a program smaller while something stays wrong with it: statements go, or are replaced by what is in them;
expressions are replaced by parts of them, or by constants."""

from __future__ import annotations

import ast
import copy
import functools
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
    """Ways to make the program smaller, the large ones first; of what it uses, whole statements go."""
    own = [node for root in tree.body if getattr(root, "name", "") == "program" for node in ast.walk(root)]
    yield from _cuts(own)
    yield from _hoists(own)
    yield from _replacements(own)
    yield from _cuts(list(ast.walk(tree)))


def _cuts(nodes: list[ast.AST]) -> Iterator[Callable[[], None]]:
    for size in (8, 4, 2, 1):
        for node, name in _blocks(nodes):
            count = len(getattr(node, name))
            if size == 1 or count > size:
                for start in range(count - size, -1, -size):
                    yield functools.partial(_cut, node, name, start, size)


def _hoists(nodes: list[ast.AST]) -> Iterator[Callable[[], None]]:
    for node, name in _blocks(nodes):
        for index, statement in enumerate(getattr(node, name)):
            for inner in _BLOCKS[:3]:
                if _is_block(statement, inner) and not isinstance(statement, ast.ClassDef):
                    yield functools.partial(_hoist, node, name, index, inner)


def _replacements(nodes: list[ast.AST]) -> Iterator[Callable[[], None]]:
    for node in nodes:
        for name, value in ast.iter_fields(node):
            if name == "format_spec" or isinstance(node, ast.JoinedStr):  # what they are made of is no expression
                continue
            for index, each in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(each, ast.expr) and isinstance(getattr(each, "ctx", ast.Load()), ast.Load):
                    for other in _simpler(each):
                        yield functools.partial(_put, node, name, index, other)


def _blocks(nodes: list[ast.AST]) -> list[tuple[ast.AST, str]]:
    return [(node, name) for node in nodes for name in _BLOCKS if _is_block(node, name)]


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
        child = child.value if isinstance(child, ast.FormattedValue) else child
        if isinstance(child, ast.expr):
            yield child


def _put(node: ast.AST, name: str, index: int, other: ast.expr) -> None:
    if isinstance(getattr(node, name), list):
        getattr(node, name)[index] = other
    else:
        setattr(node, name, other)
