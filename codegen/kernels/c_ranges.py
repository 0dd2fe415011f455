"""Where a loop falls into ranges: what asks for the place of an element is answered once for each of them.

    cat:  where(p < 512, a[p], b[p - 512])      0..512: a[p]      512..: b[p - 512]
    pad:  where(1 <= p & p < 33, a[p - 1], 0)   0..1: 0           1..33: a[p - 1]       33..: 0

So is, before the loop, what asks for the row. Else both sides are computed for each element, and loads have masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from codegen.kernels import index as ix
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr, Literal, Load, Op, Position, Statement, Store, literal, load, op, reads, walk

#: Ranges of a loop, at most: its body is written once for each.
MOST = 4
#: Of `axis * slope + rest` compared with 0: whether it holds below the first place where its answer changes, and how
#: far that place is from `-rest / slope`; by the comparison and the slope.
_CHANGES = {
    ("lt", 1): (True, 0), ("ge", 1): (False, 0), ("le", 1): (True, 1), ("gt", 1): (False, 1),
    ("lt", -1): (False, 1), ("ge", -1): (True, 1), ("le", -1): (False, 0), ("gt", -1): (True, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Range:
    """Rounds from where the range before ends (from the loop's first one) to `stop` (None: to its last one). `row`: a
    condition that is the same in all of them, if they ask for one; `body`: what they do if it is true, else `other`."""

    stop: Index | None
    body: tuple[Statement, ...]
    row: Expr | None = None
    other: tuple[Statement, ...] = ()


def ranges(body: Sequence[Statement], axis: Symbol) -> list[Range]:
    """The ranges of a loop over `axis`; one, with the body as it is, where there is nothing to answer."""
    changes: dict[Expr, tuple[Index, bool]] = {}
    for expr in walk(*(value for statement in body for value in reads(statement))):
        change = _change(expr, axis) if isinstance(expr, Op) else None
        if change is not None:
            changes[expr] = change
    places = list(dict.fromkeys(place for place, _ in changes.values()))
    if not 0 < len(places) < MOST or not all(isinstance(statement, Store) for statement in body):
        return [Range(None, tuple(body))]
    if len(places) > 1:
        if any(place.constant is None for place in places):  # their order is not known
            return [Range(None, tuple(body))]
        places.sort(key=lambda place: place.constant or 0)
    found = []
    for number, stop in enumerate((*places, None)):
        answers = {expr: (number <= places.index(place)) == below for expr, (place, below) in changes.items()}
        found.append(_range(stop, _answered(body, answers), axis))
    return found


def _range(stop: Index | None, body: tuple[Statement, ...], axis: Symbol) -> Range:
    asked: set[Expr] = set()
    for expr in walk(*(value for statement in body for value in reads(statement))):
        if isinstance(expr, Op) and expr.name == "where":
            asked.add(expr.operands[0])
        elif isinstance(expr, Load) and expr.mask is not None:
            asked.add(expr.mask)
    rows = [expr for expr in asked if _is_of_row(expr, axis)]
    if len(rows) != 1:
        return Range(stop, body)
    return Range(stop, _answered(body, {rows[0]: True}), rows[0], _answered(body, {rows[0]: False}))


def _is_of_row(root: Expr, axis: Symbol) -> bool:
    """Whether it is made of places alone, and is the same all along that axis."""
    leaves = [expr for expr in walk(root) if not isinstance(expr, Op)]
    return all((at := _place(leaf)) is not None and axis not in ix.symbols(at) for leaf in leaves)


def _change(expr: Op, axis: Symbol) -> tuple[Index, bool] | None:
    """Of a comparison of places: where its answer changes, and whether it is true before."""
    if len(expr.operands) != 2 or (expr.name, 1) not in _CHANGES:
        return None
    left, right = map(_place, expr.operands)
    if left is None or right is None:
        return None
    slope = ix.stride_of(left - right, axis)
    if slope is None or slope.constant not in (1, -1):
        return None
    sign = slope.constant
    holds, further = _CHANGES[expr.name, sign]
    rest = left - right - slope * ix.index(axis)
    return -rest * sign + further, holds


def _place(expr: Expr) -> Index | None:
    """An integer that is known without reading anything."""
    if isinstance(expr, Position) and not expr.args:
        return expr.index
    if isinstance(expr, Literal) and expr.dtype is torch.int64:
        return ix.index(int(expr.value.real))
    return None


def _answered(body: Iterable[Statement], answers: Mapping[Expr, bool]) -> tuple[Statement, ...]:
    """The statements where the answers are those. (An index's own values may ask again.)"""
    return tuple(replace(statement, value=_with_answers(statement.value, answers)) for statement in body)


def _with_answers(root: Expr, answers: Mapping[Expr, bool]) -> Expr:
    made: dict[Expr, Expr] = {}
    for expr in walk(root):
        if expr in answers:
            made[expr] = literal(answers[expr], torch.bool)
        elif isinstance(expr, Op):
            made[expr] = _folded(expr, [made[operand] for operand in expr.operands])
        elif isinstance(expr, Load) and expr.mask is not None:
            mask = made[expr.mask]
            made[expr] = load(expr.buffer, expr.index, expr.dtype, None if _is(mask, True) else mask)
            if _is(mask, False):
                made[expr] = literal(0, expr.dtype)
        else:
            made[expr] = expr
    return made[root]


def _folded(expr: Op, operands: Sequence[Expr]) -> Expr:
    """The operation on these operands, of which some may be answers."""
    if expr.name == "where" and isinstance(operands[0], Literal):
        return operands[1] if operands[0].value else operands[2]
    if expr.name == "not" and expr.dtype is torch.bool and isinstance(operands[0], Literal):
        return literal(not operands[0].value, torch.bool)
    if expr.name in ("and", "or") and expr.dtype is torch.bool:
        decides = expr.name == "or"
        if any(_is(operand, decides) for operand in operands):
            return literal(decides, torch.bool)
        left = [operand for operand in operands if not isinstance(operand, Literal)]
        if len(left) < 2:
            return left[0] if left else literal(not decides, torch.bool)
    return op(expr.name, expr.dtype, *operands)


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.dtype is torch.bool and expr.value is value
