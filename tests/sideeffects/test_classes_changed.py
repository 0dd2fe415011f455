"""`obj.__class__ = C`"""
import pytest
import torch

from tests.differential import check


class Idle:
    def __init__(self, count=0):
        self.count = count

    def go(self):
        self.__class__ = Busy
        return self.go()

    def __eq__(self, other):
        return "idle"


class Busy(Idle):
    """Stores in its own way."""
    level = 4

    def go(self):
        self.count += 1
        return self.count

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)

    def __eq__(self, other):
        return "busy"


class Doubling:
    @property
    def count(self):
        return self.kept

    @count.setter
    def count(self, value):
        self.kept = value * 2


class Slotted:
    __slots__ = ("count",)


class Quiet(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


def asked(x, box):
    return box.go(), type(box), box.__class__, isinstance(box, Busy), box.level, box == 1, vars(box), x + 1


def stored(x, box):
    box.count = 3
    box.__class__ = Busy
    box.count = 4
    box.other = 5
    return x + box.count


def stored_by_a_property(x, box):
    box.early = 3
    box.__class__ = Doubling
    box.count = 4
    return x + box.count, box


def to_another_layout(x, box):
    try:
        box.__class__ = Slotted
    except TypeError as error:
        return str(error), x + 1


def there_and_back(x, box):
    box.__class__ = Doubling
    box.count = 3
    box.__class__ = Busy
    box.count = 3
    return x + box.count


def of_a_module(x, box):
    box.layer.__class__ = Quiet
    return box.layer(x)


def then_raises(x, box):
    box.count = 1
    box.__class__ = Busy
    box.count = 2
    raise ValueError(box.count)


ONE = [asked, stored, stored_by_a_property, of_a_module]


def existing():
    box = Idle()
    box.layer = torch.nn.Linear(2, 2)
    return box


@pytest.mark.parametrize("program", [*ONE, to_another_layout, there_and_back, then_raises], ids=lambda p: p.__name__)
def test_of_an_argument(program):
    check(program, make=lambda: (torch.ones(2), existing()), graphs=1 if program in ONE else None)


@pytest.mark.parametrize("program", [asked, stored, stored_by_a_property, there_and_back, then_raises], ids=lambda p: p.__name__)
def test_of_an_object_of_the_frame(program):
    def made_inside(x):
        box = Idle()
        return program(x, box), box

    check(made_inside, torch.ones(2), graphs=1 if program is asked else None)


def test_under_two_names():
    def program(x, box, same):
        box.__class__ = Busy
        return x + same.go(), same is box, type(same)

    def make():
        box = Idle()
        return torch.ones(2), box, box

    check(program, make=make, graphs=1)


@pytest.mark.parametrize("which", [0, 1, 3, 5])
def test_of_one_of_equal_layers(which):
    def program(x, layers):
        layers[which].__class__ = Quiet
        for layer in layers:
            x = layer(x)
        return x

    check(program, make=lambda: (torch.ones(2), torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(6))), graphs=1)


class Ends(Idle):
    def __del__(self):
        print("ended", self.count)


def test_a_class_whose_objects_say_that_they_end():
    def program(x):
        box = Idle(3)
        box.__class__ = Ends
        return x + 1

    check(program, torch.ones(2))
