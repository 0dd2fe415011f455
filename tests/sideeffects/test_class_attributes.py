"""Attributes of existing classes: stored and deleted, and what instances, derived classes and metaclasses see of it."""

from typing import NamedTuple

import pytest
import torch

from tests.differential import check


class Base:
    u = 1
    v = 2


class Derived(Base):
    u = 5

    def method(self):
        return "method"

    @classmethod
    def of_class(cls):
        return cls.__name__

    @property
    def prop(self):
        return 3


class Last(Derived):
    pass


class Told(type):
    def __setattr__(cls, name, value):
        cls.told.append(name)
        super().__setattr__(name, value)

    def __delattr__(cls, name):
        cls.told.append(f"del {name}")
        type.__delattr__(cls, name)


class Telling(metaclass=Told):
    told = []
    a = 1


class Dict(dict):
    def get(self, key, default=None):
        return "mine"


class Pair(NamedTuple):
    a: int

    def method(self):
        return self.a + 1


class Guard:
    active = None

    def __enter__(self):
        Guard.active = self
        Guard.depth = 1
        return self

    def __exit__(self, *raised):
        del Guard.active, Guard.depth
        Guard.active = None


def _the_next_one_is_found(x, held):
    del Derived.u
    return x + Last.u + held.u + Derived().u, Base.u


def _none_is_left(x, held):
    del Derived.u, Base.u
    return x + 1, hasattr(Last, "u"), hasattr(held, "u"), getattr(Derived, "u", None)


def _its_own_alone(x, held):
    try:
        del Last.u
    except AttributeError as error:
        return x + held.u, str(error)


def _stored_and_deleted(x, held):
    Last.u = x.shape[0]
    before = held.u
    del Last.u
    del Base.v
    Base.v, Base.w = 3, 4
    del Base.w
    return x + held.u + before + Base.v, hasattr(held, "w")


def _deleted_by_name(x, held):
    for name in ("u", "v"):
        setattr(Derived, name, 9)
        delattr(Derived, name)
    return x + held.u, [hasattr(Derived, name) for name in ("u", "v", "w")]


def _methods(x, held):
    method = Derived.method
    del Derived.method, Derived.of_class, Derived.prop
    Derived.again = method
    held.prop = 4
    return x + held.prop, held.again(), hasattr(Last, "of_class")


def _error(x, held):
    del Derived.method
    try:
        held.method()
    except AttributeError as error:
        return x + 1, str(error)


def _beside_the_instance(x, held):
    Base.v = 7
    held.v = 8
    Base.w, held.w = 1, 2
    del held.w
    return x + held.v + held.w, Base.v


def _metaclass(x, held):
    Telling.b = 3
    del Telling.a
    return x + Telling.b, hasattr(Telling, "a")


def _by_the_type(x, held):
    type.__setattr__(Last, "k", 5)
    type.__delattr__(Derived, "u")
    return x + held.k + type.__getattribute__(Last, "u")


def _native_again(x, held):
    del Dict.get, Pair.method
    return x + Dict(a=1).get("a"), hasattr(Pair(2), "method")


def _context(x, held):
    with Guard() as guard:
        inside = x + (Guard.active is guard)
    return inside, Guard.active, hasattr(Guard, "depth")


PROGRAMS = [
    _the_next_one_is_found, _none_is_left, _its_own_alone, _stored_and_deleted, _deleted_by_name, _methods, _error,
    _beside_the_instance, _metaclass, _by_the_type, _native_again, _context,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program):
    check(program, make=lambda: (torch.ones(3), Last()), graphs=1)


def test_every_call_deletes_again():
    """What the type's own methods do is done at each call, not once while the frame is looked at."""

    def program(x):
        type.__delattr__(Last, "gone")
        return x + 1

    def make():
        Last.gone = 1
        return (torch.ones(3),)

    check(program, make=make)
    assert "gone" not in vars(Last)
