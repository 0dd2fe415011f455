"""Classes that `attrs` makes: slots are set by what the class binds, validators and converters are the program's."""

import attr
import attrs
import pytest
import torch
from attrs import define, field, frozen

from tests.differential import check, same_as_eager


@define
class D:
    a: object
    b: int = field(default=3, validator=attrs.validators.instance_of(int), converter=int)
    c: list = attrs.Factory(list)

    @b.validator
    def _c(self, attribute, value):
        if value < 0: raise ValueError("neg")


@frozen
class Fz:
    a: object
    b: int = 2


@attr.s(auto_attribs=True)
class Dd:
    a: object
    b: int = 1
    def __attrs_post_init__(self): self.a = self.a * 2


@define(slots=False, kw_only=True, order=True)
class K:
    a: int
    b: int = field(default=1, repr=False, eq=False)


@define
class Sub(D):
    z: int = 5


@define
class Cv:
    a: object = field(converter=lambda v: v * 2, on_setattr=attrs.setters.convert)
    b: int = field(default=0, on_setattr=attrs.setters.frozen)
    c: object = field(init=False)
    @c.default
    def _(self): return self.a + 1


@same_as_eager(graphs=1)
def test_a_converter_and_two_validators(x):
    a = D(x, "7"); b = attrs.evolve(a, b=2)
    try: D(x, -1)
    except ValueError as e: m = str(e)
    return a.a * a.b, b.b, m


@same_as_eager(graphs=1)
def test_what_an_object_holds(x): return x + 1, attrs.asdict(D(1)), [f.name for f in attrs.fields(D)], repr(D(1)), D(1) == D(1), attrs.astuple(D(1))


@same_as_eager(graphs=1)
def test_frozen_objects(x):
    a = Fz(x)
    try: a.a = 3
    except attrs.exceptions.FrozenInstanceError as e: m = str(e)
    return a.a * a.b, m, hash(Fz(1)) == hash(Fz(1)), attrs.evolve(a, b=5)


@same_as_eager(graphs=1)
def test_what_is_done_after_the_init(x): return Dd(x).a, Dd(x, b=4).b


@same_as_eager(graphs=1)
def test_keywords_and_order(x): return x + 1, K(a=1), K(a=1) < K(a=2), K(a=1) == K(a=1, b=3)


@same_as_eager(graphs=1)
def test_a_derived_class(x):
    s = Sub(x, z=3)
    return s.a * s.z, s


@same_as_eager(graphs=1)
def test_what_is_done_when_an_attribute_is_set(x):
    c = Cv(x)
    c.a = x + 1
    try: c.b = 3
    except attrs.exceptions.FrozenAttributeError as e: m = 1
    return c.a, c.c, m


@same_as_eager(graphs=1)
def test_values_that_are_not_valid(x):
    try: D(x, "q")
    except ValueError as e: m = str(e)
    try: a = D(x); a.b = -3
    except ValueError as e: m2 = str(e)
    return x + 1, m, m2


@same_as_eager(graphs=1)
def test_an_argument_that_is_missing(x):
    try: D()
    except TypeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_fields_of_a_class(x): return x + 1, attrs.has(D), attrs.fields_dict(D)["a"].name, attrs.has(int), attrs.fields(D).b.default


def of_an_argument(d):
    return d.a * d.b, attrs.evolve(d, b=9), d, repr(d)


def set_on_an_argument(d):
    d.b = 8
    d.c.append(1)
    return d.a * d.b


@pytest.mark.parametrize("program", [of_an_argument, set_on_an_argument])
def test_an_argument(program):
    check(program, make=lambda: (D(torch.ones(2), 3),), changed=lambda: (D(torch.zeros(2), 4),), graphs=1)


def test_a_class_of_the_frame():
    def program(x):
        @define
        class Point:
            a: object
            b: int = 3

        return Point(x).a * Point(x).b

    check(program, torch.ones(2))


@same_as_eager(graphs=1)
def test_methods_of_a_class_that_are_bound_by_themselves(x):
    class Point:
        pass

    point = Point()
    object.__setattr__.__get__(point)("x", x)
    object.__setattr__.__get__(point, Point)("y", 2)
    return point.x * point.y, object.__getattribute__.__get__(point)("y")


def test_a_method_that_nothing_binds():
    def program(x):
        return x + 1, len.__call__.__call__([1, 2]), str.upper.__get__("a")()

    check(program, torch.ones(2))
