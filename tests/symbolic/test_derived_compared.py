"""Values of derived classes that leave a comparison to the builtin one beside them."""

import operator

import pytest

from tests.differential import check, tensors

(X,) = tensors(3, 4)


def declining(base):
    methods = dict.fromkeys(("__eq__", "__ne__", "__lt__", "__ge__"), lambda self, other: NotImplemented)
    return type(f"Declining{base.__name__}", (base,), {**methods, "__hash__": None})


class List(list):
    __ne__ = object.__ne__
    __hash__ = None

    def __eq__(self, other):
        return NotImplemented


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cls, same, other", (
    (declining(list), [1], [2]), (List, [1], [2]), (declining(tuple), (1,), (2,)), (declining(str), "b", "c"),
    (declining(set), {1}, {1, 2}), (declining(dict), {1: 2}, {}), (declining(int), 3, 4), (declining(bytes), b"b", b"c"),
))  # fmt: skip
def test_what_declines_to_compare_is_compared_by_the_builtin(cls, same, other):
    given = cls(same)

    def compares(x):
        seen = []
        for one in (cls(same), given):
            for value in (same, other):
                for op in (operator.eq, operator.ne, operator.lt, operator.ge):
                    for pair in ((one, value), (value, one)):
                        try:
                            seen.append(op(*pair))
                        except TypeError as error:
                            seen.append(str(error))
        return x + 1, seen

    check(compares, X)
