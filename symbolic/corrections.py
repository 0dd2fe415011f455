"""What libraries compute wrongly of sizes, put right, for torch's own code has to have it right, too. Each mistake is
looked for first: where there is none, everything stays as it is."""

from __future__ import annotations

from typing import Any

import sympy
from torch.fx.experimental import sym_node

_A, _B = (sympy.Dummy(integer=True, positive=True) for _ in range(2))


def correct() -> None:
    if ((2 * _A + 2) ** 2 / 6).is_integer:
        sympy.Mul._eval_is_integer = sympy.Mul._prop_handler["integer"] = _is_integer
    if _add is not None and _add(2 * _A, _B, True, False)[1] != 2 * _A + _B:
        sym_node._optimized_add = _added


_sympys = sympy.Mul._eval_is_integer


def _is_integer(product: sympy.Mul) -> bool | None:
    """sympy 1.14 takes `(2*a + 2)**2 / 6` for an integer: it counts the twos in the denominator, and forgets what else
    is in it. Remainders would be 0 that are not."""
    found: bool | None = _sympys(product)
    rest = product.as_coeff_Mul()[0].as_numer_denom()[1]
    # It says True where there is no denominator, and where twos in the numerator are as many as those in it.
    return None if found and rest & (rest - 1) else found


_add: Any = getattr(sym_node, "_optimized_add", None)


def _added(
    lhs: Any, rhs: Any, lhs_is_optimized_summation: bool = False, rhs_is_optimized_summation: bool = False
) -> tuple[bool, Any]:
    """torch 2.13 keeps with a number that it was a sum of symbols when it was made, and adds to its parts, whatever has
    been put for symbols since: once a == b, `a + b` is `2*a`, and `a + b + c` was `2 + a + c`."""
    found: tuple[bool, Any] = _add(lhs, rhs)  # which looks itself whether they are sums
    return found
