"""What descriptors keep in an instance's `__dict__` under their own name, as fields that check or convert what they are
given do."""

import copy

import pytest
import torch

from tests.differential import check, same_as_eager


class Field:
    """Keeps in the instance's `__dict__`, under its own name, what it was given."""

    def __init__(self, least=0):
        self.least = least

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__.get(self.name, "nothing")

    def __set__(self, instance, value):
        if isinstance(value, int) and value < self.least:
            raise ValueError(f"{self.name} is {value}")
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        del instance.__dict__[self.name]


class Unread:
    """Is asked when something is stored, and not when it is read."""

    def __set_name__(self, owner, name):
        self.name = name

    def __set__(self, instance, value):
        vars(instance)[self.name] = value * 2


class Sized:
    size, weight, twice = Field(1), Field(), Unread()

    def __init__(self, size, weight):
        self.size, self.weight = size, weight

    @property
    def shown(self):
        return self.__dict__.get("shown", self.size)

    @shown.setter
    def shown(self, value):
        self.__dict__["shown"] = value


class Other(Sized):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        self.__dict__.setdefault("order", []).append(name)


@same_as_eager(graphs=1)
def test_made_in_the_frame(x):
    made = Sized(3, x)
    made.size += 1
    made.twice = 4
    try:
        made.size = 0
    except ValueError as error:
        told = str(error)
    return made.weight * made.size, made.twice, told, made, made.shown


@pytest.mark.parametrize("cls", [Sized, Other])
def test_existing(cls):
    def change(it, x):
        it.size = it.size + 1
        before = it.weight
        it.weight = x * it.size
        it.twice = 5
        it.shown = "a"
        vars(it)["shown"] += "b"
        return before * 2, it.weight + 1, it.twice, it.shown, list(it.__dict__)

    check(change, cls(2, torch.ones(2)), torch.arange(2.0), graphs=1)


def test_deleted():
    def change(it, x):
        del it.size
        it.weight = it.size
        del it.__dict__["weight"]
        it.weight = x
        vars(it).pop("shown", None)
        it.__dict__.pop("twice")
        return it.size, x + 1, list(vars(it)), hasattr(it, "twice")

    def made():
        it = Sized(2, "x")
        it.twice, it.shown = 1, 3
        return it

    check(change, made(), torch.ones(2), graphs=1)


def test_what_is_there_no_more():
    def change(it, x):
        it.size = 7
        del it.size
        y = x * 2
        try:
            del it.size
        except KeyError as error:
            return y, repr(error)

    check(change, Sized(2, 3), torch.ones(2), graphs=1)


@same_as_eager(graphs=1)
def test_copies(x):
    made = Sized(3, x)
    made.shown = [x]
    one, other = copy.copy(made), copy.deepcopy(made)
    one.size = 9
    other.shown.append(4)
    return made, one, other, one.shown is made.shown, other.weight + 1


@same_as_eager(graphs=1)
def test_class_in_the_frame(x):
    class Positive:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner):
            return self if instance is None else instance.__dict__[self.name]

        def __set__(self, instance, value):
            instance.__dict__[self.name] = abs(value)

    class Model:
        rate = Positive()

        def __init__(self, rate):
            self.rate = rate

    made = Model(-3)
    return x * made.rate, made.__dict__, made


def test_another_class():
    """The names that an object has stored so keep it from becoming one of another class."""
    class Plain:
        def __init__(self):
            self.size = 1

    class Guarded:
        size = Field()

    def change(it, x):
        it.__dict__["size"] = 4
        it.__class__ = Plain
        it.size += 1
        return x * it.size

    it = Guarded()
    it.size = 2
    check(change, it, torch.ones(2))


@same_as_eager(graphs=1)
def test_the_descriptor_is_replaced_later(x):
    class Kept:
        @property
        def size(self):
            return 1

        @size.setter
        def size(self, value):
            self.__dict__["other"] = value

    made, other = Kept(), Kept()
    made.__dict__["size"] = 5
    other.size = 6
    Kept.size = 7
    return made.__dict__, other.__dict__, made.size, other.size, x + 1


def test_the_descriptor_of_an_existing_class_is_replaced_later():
    class Kept:
        size = Field()

    def change(it, x):
        it.size = 5
        Kept.size = 4
        it.__dict__["size"] += 1
        return it.size, x + 1

    check(change, Kept(), torch.ones(2))


def test_around_a_break():
    def change(it, x):
        it.size = 5
        made = Sized(6, x)
        print(it.size, made.size)
        made.size += it.size
        it.weight = made.weight + 1
        return made, it.weight

    check(change, Sized(1, 2), torch.ones(2))
