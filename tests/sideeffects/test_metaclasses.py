"""What classes answer by their metaclasses, and objects by `__getattribute__` and `__getattr__` together."""
import pytest
import torch

from tests.differential import check

VALUES = [5]


class Answers(type):
    def __getattr__(cls, name):
        VALUES.append(name)
        if name == "first":
            return VALUES[0]
        raise AttributeError(name)


class Asked(metaclass=Answers):
    there = 1


class Sized(type):
    def __len__(cls): return VALUES[0] - 5
    def __iter__(cls): return iter([1, VALUES[0]])
    def __contains__(cls, item): return item == VALUES[0]
    def __lt__(cls, other): return ("lt", other, VALUES[0])
    def __or__(cls, other): return NotImplemented if other == 3 else ("or", VALUES[0])
    def __ror__(cls, other): return ("ror", other)
    def __iadd__(cls, other): return ("iadd", other)
    def __neg__(cls): return -VALUES[0]
    def __index__(cls): return VALUES[0] - 4


class Empty(metaclass=Sized):
    pass


class Judged(type):
    def __bool__(cls): return VALUES[0] > 5


class False_(metaclass=Judged):
    pass


class Catches:
    def __getattribute__(self, name):
        try:
            return super().__getattribute__(name)
        except AttributeError:
            return "caught"

    def __getattr__(self, name):
        return "asked"


class Refuses:
    def __getattribute__(self, name):
        if name == "refused":
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        return "asked for " + name


class Property:
    @property
    def missing(self):
        raise AttributeError("of a property")

    def __getattr__(self, name):
        return "asked for " + name


class Same(type):
    def __eq__(cls, other): return True
    def __hash__(cls): return 3
    def __instancecheck__(cls, value): return value == 3


class Equal(metaclass=Same):
    pass


def in_place(cls):
    cls += 4
    return cls


def caught(function):
    try:
        return function()
    except AttributeError:
        return "caught"


def changed(function):
    VALUES[0] = 7
    return function()


def stored(cls):
    items = [1, 2, 3, 4]
    items[cls] = 9
    del items[cls]
    return items


QUESTIONS = {
    "index": lambda: (
        [1, 2, 3][Empty], range(5)[Empty], "abc"[:Empty], stored(Empty), torch.ones(3)[Empty] + VALUES[0], [0] * Empty,
    ),
    "getattr": lambda: (Asked.first, Asked.there, getattr(Asked, "other", 4), hasattr(Asked, "third")),
    "changed": lambda: changed(lambda: Asked.first),
    "truth": lambda: (bool(Empty), not Empty, 1 if False_ else 2, changed(lambda: (bool(Empty), bool(False_)))),
    "container": lambda: (list(Empty), 5 in Empty, 6 in Empty, changed(lambda: len(Empty))),
    "operators": lambda: (Empty < 3, Empty | 4, 2 | Empty, in_place(Empty), -Empty),
    "equal": lambda: (Equal == 5, Equal in [1], isinstance(3, Equal), isinstance(4, Equal)),
    "catches": lambda: (Catches().other, caught(lambda: Catches().other)),
    "refuses": lambda: caught(lambda: (Refuses().refused, Refuses().other)),
    "property": lambda: caught(lambda: (Property().missing, Property().other)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_graph(name):
    def program(x, values):
        values[0] = 5
        return QUESTIONS[name](), x + 1

    check(program, make=lambda: (torch.ones(2), VALUES), graphs=1)


def test_a_class_of_the_frame_whose_metaclass_answers_for_all_names():
    class Meta(type):
        def __getattribute__(cls, name):
            return 7 if name == "seven" else super().__getattribute__(name)

    def program(x):
        class Made(metaclass=Meta):
            seven = 1
        return x + Made.seven

    check(program, torch.ones(2))
