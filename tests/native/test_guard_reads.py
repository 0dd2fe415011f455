"""What guards read from objects without running Python code is what Python would read."""

import abc
import collections
import functools
import weakref

import pytest
import torch

import jit._C as C
from tests.native.guarding import holds, plain


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def closure_over(value):
    return lambda: value


@pytest.mark.parametrize(
    "make, name",
    [
        (closure_over, "__closure__"),
        (closure_over, "__globals__"),
        (closure_over, "__code__"),
        (closure_over, "__defaults__"),
        (closure_over, "__name__"),
        (closure_over, "missing"),
        (classmethod, "__func__"),
        (staticmethod, "__func__"),
        (property, "fget"),
        (property, "fset"),
        (lambda value: [].append, "__self__"),
        (lambda value: closure_over(value).__get__(value), "__self__"),
        (lambda value: closure_over(value).__get__(value), "__func__"),
        (lambda value: closure_over(value).__get__(value), "__name__"),
        (functools.partial, "func"),
        (functools.partial, "keywords"),
        (collections.defaultdict, "default_factory"),
        (lambda value: collections.defaultdict(), "default_factory"),
        (lambda value: collections.deque([value], 3), "maxlen"),
        (Slotted, "value"),
        (Slotted, "missing"),
        (lambda value: Slotted, "__name__"),
        (lambda value: Slotted, "__qualname__"),
        (lambda value: Slotted, "value"),
        (lambda value: Slotted, "__mro__"),
        (lambda value: int, "__name__"),
        (lambda value: abc.ABC, "__name__"),
        (lambda value: type("Named", (), {"__name__": "mine"}), "__name__"),
        (lambda value: type("Named", (), {"__name__": "mine"})(), "__name__"),
        (lambda value: Meta("Named", (), {}), "__name__"),
        (lambda value: torch.ones(2), "shape"),
    ],
)
def test_attributes_are_those_of_python(make, name):
    thing = make(len)
    guards = C.Guards([(-1, "arg", 0), (0, "attr", name)], [], [1])
    for _ in range(2):
        seen = guards.check(plain, (thing,))
        assert seen == ((getattr(thing, name),) if hasattr(thing, name) else None)
        assert seen is None or type(seen[0]) is type(getattr(thing, name))


class Meta(type):
    @property
    def __name__(cls):
        return "of the metaclass"


def test_attributes_in_slots_change():
    class Loud(Slotted):
        def __getattribute__(self, name):
            return "loud"

    thing = Slotted(1)
    guards = C.Guards([(-1, "arg", 0), (0, "attr", "value")], [(1, "eq", 1)], [])
    assert holds(guards, thing)
    thing.value = 2
    assert not holds(guards, thing)
    del thing.value
    assert guards.explain(plain, (thing,)) == (-2, thing)
    thing.value = 1
    assert holds(guards, thing) and not holds(guards, Loud(1))
    named = C.Guards([(-1, "arg", 0), (0, "attr", "__name__")], [(1, "eq", "Loud")], [])
    assert holds(named, Loud) and not holds(named, Slotted)
    Loud.__name__ = "Quiet"
    assert not holds(named, Loud)


def test_cells_are_written_to():
    class Owner:
        pass

    def make(value):
        def f():
            return value

        def write(other):
            nonlocal value
            value = other

        return f, write

    owner = Owner()
    owner.items = {"a": 1, "b": 2}
    nodes = [(-1, "closure", 0), (0, "cell", None), (1, "dict", None), (2, "item", "items"), (3, "item", "a"), (3, "item", "b")]
    guards = C.Guards(nodes, [(1, "type", Owner), (4, "eq", 1), (5, "eq", 2)], [])
    f, write = make(owner)
    for _ in range(3):
        assert holds(guards, function=f)
    other = Owner()
    other.items = {"a": 1, "b": 3}
    write(other)
    assert not holds(guards, function=f)
    write(owner)
    assert holds(guards, function=f)
    owner.items["b"] = 3
    assert not holds(guards, function=f)
    owner.items["b"] = 2
    assert holds(guards, function=f)
    g, _ = make(other)
    assert not holds(guards, function=g) and holds(guards, function=f)


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_entries_by_position(kind):
    made = kind(a=[1], b=[2])
    if kind is collections.OrderedDict:
        made.move_to_end("a")
    guards = C.Guards([(-1, "arg", 0), (0, "key", 1), (0, "value", 1), (0, "value", 0)], [], [1, 2, 3])
    for _ in range(3):
        assert guards.check(plain, (made,)) == (list(made)[1], list(made.values())[1], list(made.values())[0])
        made[list(made)[1]] = made[list(made)[1]] + [3]
    del made["b"]
    assert guards.check(plain, (made,)) is None


def test_what_a_weak_reference_leads_to():
    guards = C.Guards([(-1, "arg", 0), (0, "referent", None)], [], [1])
    thing = closure_over(1)
    reference = weakref.ref(thing)
    for _ in range(2):
        (seen,) = guards.check(plain, (reference,))
        assert seen is thing
    del seen, thing
    assert guards.check(plain, (reference,)) is None
    assert guards.check(plain, (len,)) is None
