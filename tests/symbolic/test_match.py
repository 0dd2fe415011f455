"""match statements."""
import dataclasses
import enum

import pytest
import torch

from tests.differential import check, same_as_eager, tensors

X, = tensors(3, 4)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Named:
    __match_args__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second


def literal(x, v):
    match v:
        case 1:
            return x + 1
        case "a" | "b":
            return x + 2
        case None:
            return x + 3
        case True:
            return x + 4
        case -1.5:
            return x + 5
        case _:
            return x


def sequence(x, v):
    match v:
        case []:
            return x
        case [a]:
            return x + a
        case [1, b]:
            return x * b
        case (a, b) if a > b:
            return x - a
        case [a, *rest, z]:
            return x + a * z + len(rest)
        case _:
            return x * 100


def mapping(x, v):
    match v:
        case {"k": 1}:
            return x + 1
        case {"k": [a, b], **rest}:
            return x + a + b + len(rest)
        case {"x": int() as n}:
            return x * n
        case {}:
            return x - 1
        case _:
            return x


def classes(x, v):
    match v:
        case Point(0, 0):
            return x
        case Point(x=0, y=n):
            return x + n
        case Point(m, n):
            return x * m + n
        case Named(first=1, second=s):
            return x + s
        case Named(a, b):
            return x + a + b
        case Color.RED:
            return x + 10
        case Color():
            return x + 20
        case int(n) | float(n):
            return x + n
        case str():
            return x - len(v)
        case torch.Tensor():
            return x * v
        case _:
            return x


@pytest.mark.parametrize("v", [1, "b", None, True, -1.5, 7, "zz", 1.0], ids=repr)
def test_literals(v):
    check(literal, X, v, graphs=0 if v in (7, "zz") else 1, changed=[(X, 1), (X, "b"), (X, 99)])


@pytest.mark.parametrize("v", [[5], (1, 4), [3, 2], [1, 2, 3, 4], (2, 3), range(3), "ab"], ids=repr)
def test_sequences(v):
    check(sequence, X, v, graphs=1)


@pytest.mark.parametrize("v", [{"k": 1}, {"k": [2, 3], "z": 1, "y": 2}, {"x": 4}, {"x": "no"}], ids=repr)
def test_mappings(v):
    check(mapping, X, v, graphs=1)


@pytest.mark.parametrize("v", [Point(0, 3), Point(2, 3), Named(1, 5), Named(2, 5), Color.RED, Color.BLUE, 3, 2.5, "abc"],
                         ids=["point", "point 2", "named", "named 2", "red", "blue", "int", "float", "str"])
def test_classes(v):
    check(classes, X, v, graphs=1)


def test_tensor_subject():
    check(classes, X, X + 1, graphs=1)


@same_as_eager(graphs=1)
def test_match_on_shape(x):
    match x.shape:
        case (3, n):
            return x * n
        case (m, n):
            return x + m * n


@same_as_eager(graphs=1)
def test_captured_names_stay(x):
    match (1, [2, {"a": 3}]):
        case (p, [q, {"a": r}]):
            pass
    return x + p * q * r


@same_as_eager
def test_match_that_fails(x):
    y = x + 1
    match y.dim():
        case Point(1):
            pass
        case int(1, 2):
            pass
    return y
