"""What all operators and methods of dicts, their derived classes and views gave beside each other."""

import itertools
from collections import Counter, OrderedDict, defaultdict

import pytest

from tests.differential import check, same_as_eager, tensors

(X,) = tensors(3, 4)


class Plain(dict):
    pass


class Ordered(OrderedDict):
    pass


class Counted(Counter):
    pass


class Filled(defaultdict):
    pass


class OtherKeys(OrderedDict):
    def keys(self):
        return ["k"]


def unions(x, one, other):
    return x + 1, one | other, other | one, [
        (each.__or__(two), each.__ror__(two)) for each, two in ((one, other), (other, one))
    ]


DICTS = {
    "dict": {"a": 1}, "derived": Plain(a=1), "OrderedDict": OrderedDict(b=2, a=1), "ordered": Ordered(a=1, b=2),
    "Counter": Counter(a=1, c=3), "counted": Counted(a=1), "defaultdict": defaultdict(list, a=[1]), "filled": Filled(int, b=3),
    "other keys": OtherKeys(a=1, k=5),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("one, other", [*itertools.combinations_with_replacement(DICTS, 2)])
def test_whose_class_a_union_has(one, other):
    check(unions, X, DICTS[one], DICTS[other])


@same_as_eager
def test_dicts_of_classes_that_the_frame_fills(x):
    ordered, counted = Ordered(a=1), Counted(b=2)
    filled = defaultdict(list, a=[1])
    return x + 1, counted | ordered, counted | Filled(int, c=1), ordered | counted, filled.fromkeys("ab"), Filled(int).fromkeys("ab")


@same_as_eager
def test_an_empty_dict_pops_what_has_no_hash(x):
    found = [{}.pop([], 3), Plain().pop({}, 4)]
    for empty in ({}, Plain(), OrderedDict(), {1: 2}):
        try:
            empty.pop([])
        except (KeyError, TypeError) as error:
            found.append((type(error), str(error)))
    return x + 1, found


@same_as_eager
def test_items_that_differ(x):
    one, other = {"a": [1], "k": 5}, {"a": [1], "b": 3}
    keys = OtherKeys(a=1, k=5)
    return x + 1, sorted(one.items() ^ other.items()), sorted(keys.items() ^ {"a": 1}.items()), list(
        dict.fromkeys(range(20), 1).items() ^ dict.fromkeys(range(9, 30), 1).items()
    )


@same_as_eager
def test_items_that_have_no_hash_are_compared(x):
    one, other, ordered = {"a": [1], "k": 5}, {"k": 5, "a": [1]}, OrderedDict(a=[1])
    found = [one.items() == other.items(), one.items() >= ordered.items(), ordered.items() < one.items(), ordered.items() != {1}]
    for call in (lambda: one.items() == {1, 2}, lambda: one.items() >= {"k"}, lambda: {("k", 5)} <= one.items(), lambda: one.items() > other.keys(),
                 lambda: ordered.items() <= {"a"}, lambda: one.items() & other.items(), lambda: ordered.items() == [("a", [1])]):
        try:
            found.append(call())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


class Views:
    items, keys, values, others = {"a": 1}.items(), {"a": 1}.keys(), {"a": 1}.values(), OrderedDict(a=1).keys()


def compared(x, name):
    view = getattr(Views, name)
    return x + 1, {"a": 1}.items().__eq__(view), {"a": 1}.keys().__le__(view)


def test_views_that_were_there_before_are_compared():
    check(compared, X, "items", changed=[(X, name) for name in ("keys", "values", "others")])


@same_as_eager
def test_a_default_factory_that_cannot_be_called(x):
    made = defaultdict(int, a=1)
    made.default_factory = 3
    return x + 1, made
