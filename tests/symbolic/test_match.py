"""match statements."""
import collections
import collections.abc
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


class Twice:
    __match_args__ = ("a", "a")
    a = 1


class Listed:
    __match_args__ = ["a"]
    a = 1


class Without:
    __match_args__ = ("a", "b")
    a = 1


class Counted:
    __match_args__ = ("a",)

    def __init__(self):
        self.reads = 0

    @property
    def a(self):
        self.reads += 1
        return self.reads


class Keys:
    KEY = "a"


def refused(x, v):
    try:
        match v:
            case Twice(p, q):
                return x
            case Listed(p):
                return x
            case Without(p, q):
                return x
            case Counted(p):
                return x + p, v.reads
            case {Keys.KEY: p, "a": q}:
                return x
    except (TypeError, ValueError) as error:
        return x + 1, type(error), str(error)
    return x + 2


@pytest.mark.parametrize("v", [Twice(), Listed(), Without(), Counted(), {"a": 1}, {"b": 1}, Keys()],
                         ids=["twice", "listed", "without", "counted", "key", "no key", "none"])
def test_what_patterns_refuse(v):
    check(refused, X, v)


class Both(collections.UserDict, collections.abc.Sequence):
    pass


class Also(list, collections.abc.Mapping):
    __getitem__ = list.__getitem__
    __iter__ = list.__iter__
    __len__ = list.__len__


@pytest.mark.parametrize("v", [Both(), Also(), collections.UserDict(k=3), collections.UserList([1, 2])],
                         ids=["mapping", "sequence", "dict", "list"])
def test_classes_that_are_both(v):
    def program(x, v):
        match v:
            case {"k": k}:
                return x + k
            case [a, b]:
                return x + a - b
            case {}:
                return x + 1
            case [*_]:
                return x + 2
    check(program, X, v)


@same_as_eager
def test_classes_made_in_the_frame(x):
    class A:
        __match_args__ = ("p", "q")
        def __init__(self, p, q): self.p, self.q = p, q
    class B(A): pass
    class D(dict): pass
    class I(int): pass
    found = []
    for v in (A(1, 2), B(3, 4), D(k=5), I(6)):
        match v:
            case B(p, q=r):
                found.append(("B", p, r))
            case A(p, q):
                found.append(("A", p, q))
            case D({"k": k}) | {"k": k}:
                found.append(("D", k))
            case I(n):
                found.append(("I", n))
    return x + 1, found
