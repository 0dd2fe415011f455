"""Conditions on the sizes of inputs as plain data: how they read in Python, and as code for the native guard tree.

    term = int | Extent | Op(name, operands)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symbolic.sources import Source


@dataclass(frozen=True, slots=True)
class Extent:
    """A number of an input's geometry, or an input that is one: `kind` is a key of EXTENTS; `dim` is of a size or a
    stride."""

    source: Source
    kind: str
    dim: int = 0


@dataclass(frozen=True, slots=True)
class Op:
    """`name`, a key of BINDS, of one operand ("not"), two, or any number of them where the order does not matter."""

    name: str
    operands: tuple[Term, ...]


Term = int | Extent | Op
Instruction = tuple[str, int, int]

EXTENTS = {
    "size": "{0}.size()[{1}]",
    "stride": "{0}.stride()[{1}]",
    "offset": "{0}.storage_offset()",
    "value": "{0}",
}
#: operation -> how tightly it binds in Python
BINDS = {
    "or": 1, "and": 2, "not": 3,
    "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "//": 6, "%": 6, "min": 9, "max": 9,
}  # fmt: skip


def _path(source: Source) -> str:
    return source.said


def text(term: Term, path: Callable[[Source], str] = _path) -> str:
    """The term as the Python expression that a person would write. `path`: how inputs are written."""
    return _text(term, path, 0)


def _text(term: Term, path: Callable[[Source], str], around: int) -> str:
    if isinstance(term, int):
        return str(term)
    if isinstance(term, Extent):
        return EXTENTS[term.kind].format(path(term.source), term.dim)
    own = BINDS[term.name]
    if own == BINDS["min"]:
        return f"{term.name}({', '.join(text(operand, path) for operand in term.operands)})"
    # What stands on the right of an equal operator is put in parentheses: `a - (b - c)`.
    parts = [_text(operand, path, own + (position > 0)) for position, operand in enumerate(term.operands)]
    said = f"not {parts[0]}" if term.name == "not" else f" {term.name} ".join(parts)
    return f"({said})" if own < around else said


def code(term: Term, node: Callable[[Source], int]) -> list[Instruction]:
    """The term in postfix order, for a "shape" check of the native tree."""
    if isinstance(term, int):
        return [("const", term, 0)]
    if isinstance(term, Extent):
        return [(term.kind, node(term.source), term.dim)]
    instructions: list[Instruction] = []
    for position, operand in enumerate(term.operands):
        instructions += code(operand, node)
        if position or term.name == "not":
            instructions.append((term.name, 0, 0))
    return instructions


#: operation of numbers -> what does it
NUMBERS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "min": min, "max": max,
}  # fmt: skip


def number(term: Term, known: Callable[[Extent], int]) -> int:
    """What a term of numbers comes to."""
    if isinstance(term, Extent):
        return known(term)
    if isinstance(term, int):
        return term
    return functools.reduce(NUMBERS[term.name], [number(operand, known) for operand in term.operands])


def placed(term: Term, place: Callable[[Source], Source]) -> Term:
    """The term with what `place` gives for each input."""
    if isinstance(term, Extent):
        return Extent(place(term.source), term.kind, term.dim)
    return Op(term.name, tuple(placed(operand, place) for operand in term.operands)) if isinstance(term, Op) else term


def extents(term: Term) -> list[Extent]:
    """What the term reads, in the order of its code."""
    if isinstance(term, Op):
        return [extent for operand in term.operands for extent in extents(operand)]
    return [term] if isinstance(term, Extent) else []


def seen(term: Term, numbers: Sequence[int]) -> str:
    """What a condition that failed found, in words."""
    found = dict(zip(map(text, extents(term)), numbers, strict=True))
    return ", ".join(f"{name} == {number}" for name, number in found.items())
