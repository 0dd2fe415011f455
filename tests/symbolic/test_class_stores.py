"""What is stored to instances when the frame has taken away, or replaced, the descriptor that took it."""

import copy

import pytest
import torch

import jit
from tests.differential import check

LOG = []


def watched():
    class Watched:
        @property
        def x(self):
            LOG.append("get")
            return self.__dict__.get("_x", 3)

        @x.setter
        def x(self, value):
            LOG.append("set")
            self.__dict__["_x"] = value

        def __init__(self):
            self.y = 1

    return Watched


def deleted(x, cls):
    one = cls()
    one.x = 2
    del cls.x
    one.x = 4
    return one.__dict__.get("x"), vars(one), x + 1


def replaced(x, cls):
    one, two = cls(), cls()
    two.x = 1
    cls.x = 11
    object.__setattr__(one, "x", 9)
    return vars(one), vars(two), two.x, x + 1


def of_an_object_that_comes_in(x, cls, one):
    del cls.x
    one.x = 4
    return vars(one), x + 1


def made_in_the_frame(x):
    cls = watched()
    return deleted(x, cls)[:2], replaced(x, watched())[:3]


@pytest.mark.parametrize("program", [deleted, replaced])
def test_a_class_that_is_there(program):
    for each in (program, jit.compile(program, backend="eager")):
        LOG.clear()
        found = each(torch.ones(2), watched())
        assert (found[:-1], LOG) == (EXPECTED[program.__name__], ["set"])


EXPECTED = {"deleted": (4, {"y": 1, "_x": 2, "x": 4}), "replaced": ({"y": 1, "x": 9}, {"y": 1, "_x": 1}, 11)}


def test_an_object_that_comes_in():
    for each in (of_an_object_that_comes_in, jit.compile(of_an_object_that_comes_in, backend="eager")):
        LOG.clear()
        cls = watched()
        assert each(torch.ones(2), cls, cls())[0] == {"y": 1, "x": 4} and LOG == []


def test_a_class_made_in_the_frame():
    check(made_in_the_frame, torch.ones(2))


def test_copies_of_a_class_that_was_looked_at():
    def program(x, cls):
        names = [name for name in cls.__dict__ if name == "x"]
        return names, vars(copy.copy(cls())), x + 1

    for each in (program, jit.compile(program, backend="eager")):
        cls = watched()
        assert each(torch.ones(2), cls)[:2] == (["x"], {"y": 1})
        assert "__slotnames__" in vars(cls)


def test_functions_without_a_module():
    scope = {}
    exec("class Told:\n    def __set_name__(self, owner, name): owner.told = name\n", scope)

    def program(x):
        class Holder:
            part = scope["Told"]()

        return Holder.told, x + 1

    scope["Told"].__set_name__.__module__ = None
    check(program, torch.ones(2))
