"""Sizes that several conditions leave one number together, though none of them does alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy.solvers.solveset import NonlinearError

#: A comparison of integers -> what it says is not negative.
_AT_LEAST = {
    sympy.Le: lambda a, b: b - a,
    sympy.Lt: lambda a, b: b - a - 1,
    sympy.Ge: lambda a, b: a - b,
    sympy.Gt: lambda a, b: a - b - 1,
}


@dataclass(frozen=True)
class _Equation:
    """`zero` is 0, which the conditions `of` these numbers say."""

    zero: Any
    of: tuple[int, ...]


def solved(conditions: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """The symbols that have one value where all of these hold, by linear equations and by `a <= b` beside `a >= b`."""
    return _solution(list(_equations(conditions)))


def reasons(symbol: sympy.Symbol, conditions: Sequence[Any]) -> list[int]:
    """The numbers of conditions that leave the symbol one value, as they do all together, and none too many."""
    needed = _tied(symbol, list(_equations(conditions)))
    for each in reversed(needed):  # what was asked first explains more
        rest = [other for other in needed if other is not each]
        if symbol in _solution(rest):
            needed = rest
    return sorted({n for each in needed for n in each.of})


def _solution(equations: list[_Equation]) -> dict[sympy.Symbol, int]:
    symbols = sorted(frozenset().union(*(each.zero.free_symbols for each in equations)), key=str)
    if not symbols:
        return {}
    values = next(iter(sympy.linsolve([each.zero for each in equations], symbols)), ())
    return {symbol: int(value) for symbol, value in zip(symbols, values, strict=False) if value.is_Integer}


def _tied(symbol: sympy.Symbol, equations: list[_Equation]) -> list[_Equation]:
    """The equations that say something of it, of what these are about, and so on."""
    about, count = {symbol}, 0
    while count < len(about):
        count = len(about)
        for each in equations:
            if not about.isdisjoint(each.zero.free_symbols):
                about |= each.zero.free_symbols
    return [each for each in equations if not about.isdisjoint(each.zero.free_symbols)]


def _equations(conditions: Sequence[Any]) -> Iterator[_Equation]:
    at_least: dict[Any, int] = {}
    for n, condition in enumerate(conditions):
        if isinstance(condition, sympy.Eq):
            found = _Equation(sympy.expand(condition.lhs - condition.rhs), (n,))
        elif (of := _AT_LEAST.get(condition.func)) is not None:
            said = sympy.expand(of(*condition.args))
            at_least.setdefault(said, n)
            if (other := at_least.get(sympy.expand(-said))) is None:
                continue
            found = _Equation(said, (other, n))
        else:
            continue
        if _is_linear(found.zero):
            yield found


def _is_linear(equation: Any) -> bool:
    try:
        sympy.linear_eq_to_matrix([equation], sorted(equation.free_symbols, key=str))
    except NonlinearError:
        return False
    return bool(equation.free_symbols)
