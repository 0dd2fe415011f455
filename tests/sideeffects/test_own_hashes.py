"""Keys whose own hash changes while containers hold them: each is where it was put."""
import collections

import torch

import jit
from tests.differential import check


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return isinstance(other, Key) and self.number == other.number


@jit.disable
def found(container, *keys):
    """As the container itself has it."""
    return len(container), [key in container for key in keys]


def make():
    return torch.ones(2), {}, set(), Key(1)


def test_a_key_of_an_existing_dict():
    def program(x, entries, elements, key):
        entries[key] = x
        key.number = 5
        entries[key] = x + 1
        return found(entries, Key(1), Key(5))

    check(program, make=make)


def test_a_key_that_is_stored_under_its_next_hash():
    def program(x, entries, elements, key):
        entries[Key(3)] = x
        key.number = 5
        entries[key] = x + 1
        key.number = 6
        return found(entries, Key(1), Key(5), key)

    check(program, make=make)


def test_a_key_of_a_new_dict():
    def program(x, entries, elements, key):
        made = {key: x + 1}
        key.number = 5
        return found(made, key, Key(1))

    check(program, make=make)


def test_a_new_key_of_a_new_set():
    def program(x, entries, elements, key):
        new = Key(3)
        made = [{new}]
        new.number = 4
        made.append(x + 1)
        return found(made[0], new, Key(3)), made[1]

    check(program, make=make)


def test_an_element_of_an_existing_set():
    def program(x, entries, elements, key):
        elements.add(key)
        key.number = 5
        elements.add(key)
        return x + 1, found(elements, Key(1), Key(5))

    check(program, make=make)


def test_a_key_in_a_tuple():
    def program(x, entries, elements, key):
        made = {(key, 1): x + 1}
        key.number = 5
        return found(made, (key, 1))

    check(program, make=make)


def test_an_ordered_dict_that_moves_keys():
    def program(x, entries, elements, key):
        made = collections.OrderedDict([(key, x), (Key(2), x + 1)])
        made.move_to_end(key)
        key.number = 5
        return found(made, key, Key(2))

    check(program, make=make)


def test_what_is_made_of_a_dict_has_its_keys_where_they_were():
    def program(x, entries, elements, key):
        made = {key: x + 1}
        key.number = 5
        return found(made | {}, key), found(dict(made), key)

    check(program, make=make)


def test_a_hash_of_what_a_key_holds():
    class Holder:
        def __init__(self, key):
            self.key = key

        def __hash__(self):
            return self.key.number

        def __eq__(self, other):
            return isinstance(other, Holder) and self.key is other.key

    def program(x, entries, elements, key):
        holder = Holder(key)
        entries[holder] = x + 1
        key.number = 5
        return found(entries, holder)

    check(program, make=make)


def test_a_dict_that_is_gone_does_not_ask_where_its_key_is():
    def program(x, entries, elements, key):
        seen = {key: 3}
        key.number = 5
        return x + seen.get(Key(2), 4)

    check(program, make=make, graphs=1)


def test_a_key_that_keeps_its_hash_may_change():
    def program(x, entries, elements, key):
        entries[key] = x
        key.other = x + 1
        return entries[key] + key.other

    check(program, make=make, graphs=1)


def test_a_key_that_changed_before_it_came_in():
    def program(x, entries, elements, key):
        key.number = 5
        made = {Key(2): x, key: x + 1}
        key.other = 6
        return made, {key}, made[key] * 2

    check(program, make=make, graphs=1)


def test_moving_a_key_compares_no_others():
    class Asked(Key):
        def __eq__(self, other):
            asked.append(1)
            return super().__eq__(other)

        __hash__ = Key.__hash__

    asked = []

    def program(x, first, second):
        made = collections.OrderedDict([(first, x), (second, x + 1)])
        made.move_to_end(first)
        return list(made.values()), len(asked)

    check(program, make=lambda: (torch.ones(2), Asked(1), Asked(2)), graphs=1)
