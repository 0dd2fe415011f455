"""What sympy and torch compute of sizes."""

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, PythonMod

from symbolic.shapes import Shapes
from symbolic.sources import Source

A, B = sympy.symbols("a b", integer=True, positive=True)


@pytest.mark.parametrize("product", [(2 * A + 2) ** 2, (2 * A + 2) * (2 * B + 2), (4 * A + 4 * B + 4) ** 2, 6 * A * B])
@pytest.mark.parametrize("by", [2, 3, 4, 6, 8, 12, 50])
def test_remainders_and_quotients(product, by):
    remainder, quotient = PythonMod(product, sympy.Integer(by)), FloorDiv(product, sympy.Integer(by))
    for a in range(1, 7):
        for b in range(1, 7):
            values = {A: sympy.Integer(a), B: sympy.Integer(b)}
            value = int(product.xreplace(values))
            assert (value % by, value // by) == (remainder.xreplace(values), quotient.xreplace(values))


def test_what_is_known_stays_known():
    assert ((2 * A + 2) ** 2 / 4).is_integer
    assert ((2 * A + 2) ** 2 / 2).is_integer
    assert (6 * A * B).is_integer
    assert ((2 * A + 2) ** 2 / 6).is_integer is None


def test_sums_of_what_is_known_since():
    shapes = Shapes(lambda: ("file", 1))
    a, b, c = [shapes.number(number, Source(None, "arg", at, "n")) for at, number in enumerate((5, 5, 7))]
    total = a + b
    assert a == b
    assert ((total + c).node.expr - 2 * a.node.expr - c.node.expr) == 0
    fixed = a + c
    assert fixed == 12
    assert (fixed + b).node.expr - b.node.expr == 12
