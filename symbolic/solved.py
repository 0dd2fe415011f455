"""Sizes that several conditions leave one number together, though none of them does alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy.solvers.solveset import NonlinearError
from torch.utils._sympy.functions import Mod

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


#: Symbol -> (least, most) that is said of it.
Ranges = Mapping[sympy.Symbol, tuple[int, int | None]]
#: How many numbers are tried.
_MANY = 1 << 10


def solved(conditions: Sequence[Any], ranges: Ranges) -> dict[sympy.Symbol, int]:
    """The symbols that have one value where all of these hold, by linear equations, by `a <= b` beside `a >= b` and by
    remainders of numbers within bounds."""
    return _solution(_said(conditions, ranges))


def reasons(symbol: sympy.Symbol, conditions: Sequence[Any], ranges: Ranges) -> list[int]:
    """The numbers of conditions that leave the symbol one value, as they do all together, and none too many."""
    needed = _tied(symbol, _said(conditions, ranges))
    for each in reversed(needed):  # what was asked first explains more
        rest = [other for other in needed if other is not each]
        if symbol in _solution(rest):
            needed = rest
    return sorted({n for each in needed for n in each.of})


def _said(conditions: Sequence[Any], ranges: Ranges) -> list[_Equation]:
    return [*_equations(conditions), *_remaining(conditions, ranges)]


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


def _remaining(conditions: Sequence[Any], ranges: Ranges) -> Iterator[_Equation]:
    """Of symbols whose remainders are asked for, what is left where all that is asked of one alone holds."""
    for symbol, (least, most) in ranges.items():
        own = [n for n, each in enumerate(conditions) if each.free_symbols == {symbol}]
        if not any(conditions[n].has(Mod) for n in own):
            continue
        value = _only(symbol, [conditions[n] for n in own], least, most)
        for each in reversed(own) if value is not None else ():  # what was asked first explains more
            rest = [n for n in own if n != each]
            if _only(symbol, [conditions[n] for n in rest], least, most) is not None:
                own = rest
        if value is not None and own:
            yield _Equation(symbol - value, tuple(own))


def _only(symbol: sympy.Symbol, conditions: Sequence[Any], least: int, most: int | None) -> int | None:
    """The one number within bounds that all of these hold for."""
    for condition in conditions:
        said = sympy.expand(_AT_LEAST[condition.func](*condition.args)) if condition.func in _AT_LEAST else None
        if said is not None and (_is_linear(said) and said.coeff(symbol).is_negative):
            bound = int(sympy.floor(said.subs(symbol, 0) / -said.coeff(symbol)))
            most = bound if most is None else min(bound, most)
    if most is None or most - least > _MANY:
        return None
    holding = (n for n in range(least, most + 1) if all(each.subs(symbol, n) is sympy.true for each in conditions))
    found = list(itertools.islice(holding, 2))
    return found[0] if len(found) == 1 else None


def _is_linear(equation: Any) -> bool:
    try:
        sympy.linear_eq_to_matrix([equation], sorted(equation.free_symbols, key=str))
    except NonlinearError:
        return False
    return bool(equation.free_symbols)
