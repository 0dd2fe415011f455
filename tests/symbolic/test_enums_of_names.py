"""Enums that are made by a call: `enum.Enum("Color", "RED GREEN")`."""

import enum

import torch

from tests.differential import check, same_as_eager

X = torch.ones(3)


@same_as_eager(graphs=1)
def test_of_text(x):
    Color = enum.Enum("Color", "RED GREEN, BLUE")
    found = [list(Color.__members__), Color(2) is Color.GREEN, Color["BLUE"].name, repr(Color.RED), Color.__module__]
    return x * Color.GREEN.value, found, len(Color), [each.value for each in Color]


@same_as_eager(graphs=1)
def test_of_lists_and_dicts(x):
    names = ["relu", "gelu"]
    names.append("tanh")
    Act = enum.Enum("Act", names, start=0)
    Level = enum.IntEnum("Level", [("LOW", 5), ("HIGH", 7)])
    Kind = enum.Enum("Kind", {"A": "a", "B": 2.5}, module="elsewhere", qualname="Outer.Kind")
    Bits = enum.Flag("Bits", ["R", "W"])
    found = [Act.tanh.value, Level(5).name, Level.LOW < Level.HIGH, Kind("a").name, Kind.__module__, Kind.__qualname__]
    return x * Level.HIGH, found, (Bits.R | Bits.W).value, {Act.relu: 1}[Act(0)]


@same_as_eager(graphs=1)
def test_what_is_wrong(x):
    said = []
    for call in (lambda: enum.Enum("Color", "RED RED"), lambda: enum.Enum("Color", "mro"), lambda: enum.Enum("C", "A")(9)):
        try:
            said.append(call())
        except (TypeError, ValueError) as error:
            said.append((type(error).__name__, str(error)))
    return x + 1, said


def _made(x, names):
    made = enum.Enum("Made", names)
    return x + len(made), made


def test_it_leaves_the_frame_and_is_another_each_time():
    def then(result, *args):
        made = result[1]
        return [(each.name, each.value) for each in made], made.__module__, made.__name__

    check(lambda x, names: (_made(x, names)[0], None), X, ["A", "B"], graphs=1, changed=[(X, ["B", "A", "C"])])
    check(_made, X, ["A", "B"], graphs=1, then=then)


class Named(enum.Enum):
    def _generate_next_value_(name, start, count, last_values):  # noqa: N805
        return name.lower()


@same_as_eager
def test_of_one_that_says_its_values(x):
    Made = Named("Made", "A B")
    return x + 1, [each.value for each in Made]
