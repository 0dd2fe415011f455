"""Faults that others published: wrong without a word elsewhere, eager here."""
import copy
from collections import OrderedDict

import pytest
import torch

from tests.differential import check


def moved_to_the_end(x, table, key, last):
    table.move_to_end(key, last=last)
    return x + 1


def moved_and_read(x, table, key, last):
    """The new order is what the rest of the frame goes by."""
    table.move_to_end(key, last=last)
    for factor in table.values():
        x = x * factor + 1
    return x, list(table), next(iter(table)), next(reversed(table))


def moved_and_taken(x, table, key, last):
    table.move_to_end(key, last=last)
    name, factor = table.popitem(last=last)
    return x * factor, name, table


def moved_after_a_store(x, table, key, last):
    table["d"] = 4
    table.move_to_end(key, last=last)
    table["e"] = x * 2
    return x + len(table)


def moved_copy(x, table, key, last):
    mine = table.copy()
    mine.move_to_end(key, last=last)
    return x + 1, mine, table == mine, dict(table) == dict(mine)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("key", ["a", "b", "c"])
@pytest.mark.parametrize("program", [moved_to_the_end, moved_and_read, moved_and_taken, moved_after_a_store, moved_copy],
                         ids=lambda program: program.__name__)
def test_move_to_end(program, key, last):
    """pytorch issue 198189"""
    check(program, make=lambda: (torch.ones(3), OrderedDict(a=2, b=3, c=5), key, last), graphs=1)


def test_move_to_end_of_what_is_not_there():
    def program(x, table):
        try:
            table.move_to_end("z")
        except KeyError as error:
            return x + 1, error.args
    check(program, torch.ones(3), OrderedDict(a=1), graphs=1)


# --- generators see tensors as they are when they are asked, not as they were when they were made --------------------
def written_before_the_first(x):
    parts = (x[i] + 1 for i in range(3))
    x.mul_(10)
    return list(parts)


def written_in_between(x):
    parts = (x[i] + 1 for i in range(3))
    first = next(parts)
    x.mul_(10)
    return first, *parts


def written_by_the_generator(x):
    def steps():
        for i in range(3):
            x[i] += 10
            yield x.clone()
    found = []
    for part in steps():
        x.add_(1)
        found.append(part)
    return found, x


def written_and_handed_out(x):
    """All that it hands out is one tensor."""
    def running():
        total = torch.zeros(3)
        for i in range(3):
            total += x[i]
            yield total
    return list(running())


def rebound_before_the_first(x):
    factor = x + 1
    parts = (factor * i for i in range(3))
    factor = x * 100
    return list(parts)


def written_to_its_list(x):
    items = [x + 1, x + 2]
    parts = (item * 2 for item in items)
    items[0].mul_(3)
    items.append(x)
    x.add_(5)
    return list(parts)


GENERATING = [written_before_the_first, written_in_between, written_by_the_generator, written_and_handed_out,
              rebound_before_the_first, written_to_its_list]


@pytest.mark.parametrize("program", GENERATING, ids=lambda program: program.__name__)
def test_generators_over_tensors_that_are_written(program):
    """pytorch issue 146628"""
    check(program, torch.arange(3.0), changed=(torch.arange(3.0) * 2,), graphs=1)


# --- copies ----------------------------------------------------------------------------------------------------------
class Plain:
    def __init__(self, value):
        self.value, self.parts = value, [value]


class Slotted:
    __slots__ = ("value", "parts")
    __init__ = Plain.__init__


class Own(Plain):
    def __copy__(self):
        return Own(self.value + 1)

    def __deepcopy__(self, memo):
        return Own(self.value + 2)


@pytest.mark.parametrize("kind", [Plain, Slotted, Own])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_is_another_object(way, kind):
    """pytorch issue 196456: what is done to a copy is not done to what it was made from, nor the other way round."""
    def program(x, given):
        made = way(given)
        made.parts.append(x + 1)
        given.value = x * 2
        made.value = x * 3
        return made, made is given, made.parts is given.parts
    check(program, make=lambda: (torch.ones(3), kind(torch.ones(3))), graphs=1)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("given", [[1, [2]], {"a": [1]}, {1, 2}, (1, [2]), OrderedDict(a=[1])], ids=str)
def test_a_copy_of_a_container(way, given):
    def program(x, given):
        made = way(given)
        inner = made[1] if type(made) in (list, tuple) else made.get("a", []) if isinstance(made, dict) else []
        inner.append(5)
        return x + 1, made, made is given, given
    check(program, torch.ones(3), given, graphs=1)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_tensor(way):
    """A shallow copy shares its memory, a deep one does not."""
    def program(x):
        made = way(x)
        made.mul_(2)
        x.add_(1)
        return made, made is x
    check(program, torch.ones(3))
