"""Objects that tell of each attribute they are asked for: the compiler asks for none, and the program as often as Python."""

from collections import OrderedDict

import pytest
import torch

from tests.differential import check

LOG = []


class Tells:
    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)


class Hashed(Tells):
    def __hash__(self):
        return 3


class Mapping(Tells):
    def keys(self):
        return ["a", "b"]

    def __getitem__(self, key):
        LOG.append(key)
        return key * 2


class OwnKeys:
    def __init__(self):
        self.keys = lambda: ["a"]

    def __getitem__(self, key):
        return 5


class Answers:
    def __init__(self, has_keys):
        self.has_keys = has_keys

    def __getattr__(self, name):
        LOG.append(name)
        if name == "keys" and self.has_keys:
            return lambda: ["z"]
        raise AttributeError(name)

    def __getitem__(self, key):
        if not self.has_keys:
            raise IndexError
        return 7


A, H, M, K, Z, N = Tells(), Hashed(), Mapping(), OwnKeys(), Answers(True), Answers(False)


def names(**named):
    return named


def in_place(mapping):
    made = {"q": 1}
    made |= mapping
    return made


def updated(kind, *args, **kwargs):
    made = kind()
    made.update(*args, **kwargs)
    return made


def set_of():
    made = {A}
    made.add(H)
    made.discard(A)
    return A in made, H in made, len(made)


def keyed():
    made = {A: 1, H: 2}
    made[A] = 3
    made.pop(H)
    return made.get(H), made[A], dict.fromkeys([A])[A]


QUESTIONS = {
    "sets": set_of,
    "dicts": keyed,
    "comparing": lambda: (A == H, A != H, A is H, [A] == [A], (A,) == (H,), {A: 1} == {A: 1}, A in [H, A], [H, A].index(A)),
    "truth": lambda: (bool(A), not A, 1 if A else 2, any([A]), [A] and 3),
    "its class": lambda: (type(A) is Tells, A.__class__ is Tells, callable(A), hasattr(A, "z"), getattr(A, "y", 5)),
    "its names": lambda: (vars(A), list(vars(A))),
    "names of what has none": lambda: vars(N),
    "as a class": lambda: isinstance(3, A),
    "less": lambda: A < H,
    "plus": lambda: A + 1,
    "index": lambda: [1, 2][A],
    "called": lambda: A(),
    "with": lambda: exec("with A: pass", {"A": A}),
    "of a tensor": lambda: torch.ones(2)[A],
    "display of a mapping": lambda: {**M},
    "display of an object with keys of its own": lambda: ({**K}, {**Z}),
    "display of no mapping": lambda: {**N},
    "display of a number": lambda: {**3},
    "keywords of a mapping": lambda: (names(**M), names(z=1, **M)),
    "keywords of an object with keys of its own": lambda: (names(**K), names(**Z)),
    "keywords of no mapping": lambda: names(**N),
    "dict of a mapping": lambda: (dict(M), dict(M, a=1), updated(dict, M), in_place(M)),
    "dict of an object with keys of its own": lambda: (dict(K), dict(Z), updated(dict, Z)),
    "dict of an empty sequence": lambda: (dict(N), updated(dict, N)),
    "ordered": lambda: (OrderedDict(M), updated(OrderedDict, M, c=3), updated(OrderedDict, Z)),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_asked_as_often(question):
    asked = QUESTIONS[question]

    def program(x):
        LOG.clear()
        try:
            answer = asked()
        except Exception as error:
            answer = type(error).__name__
        return x + 1, answer, list(LOG)

    check(program, torch.ones(2))
