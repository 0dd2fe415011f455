"""Classes that change: between calls (what was looked up, and found or not, is guarded) and inside of the frame."""

import pytest
import torch

import jit
from tests.differential import check, execute, same_as_eager

X = torch.arange(3.0)


def _classes():
    class Base:
        step = 1

        def take(self):
            return self.step

        def __len__(self):
            return 2

    class Child(Base):
        pass

    class Items(list):
        pass

    one, items = Child(), Items([1, 2])
    one.own = 3

    def program(x):
        size = (len(one), 1 if one else 0, len(items), 1 if items else 0, items[0], 5 in items, list(items))
        return x * one.step + one.take() + one.own, size, hasattr(one, "absent"), callable(one), one == 1, str(items)

    return Base, Child, Items, program


def _own_is_four(self, name):
    return 4 if name == "own" else object.__getattribute__(self, name)


CHANGES = {
    "a method of the base": lambda b, c, i: setattr(b, "take", lambda self: 50),
    "a method in between": lambda b, c, i: setattr(c, "take", lambda self: 60),
    "a value in between": lambda b, c, i: setattr(c, "step", 9),
    "a property over a value of the instance": lambda b, c, i: setattr(c, "own", property(lambda self: 70)),
    "a property over a value of the class": lambda b, c, i: setattr(c, "step", property(lambda self: 80)),
    "truth": lambda b, c, i: setattr(b, "__bool__", lambda self: False),
    "length": lambda b, c, i: setattr(c, "__len__", lambda self: 0),
    "how attributes are looked up": lambda b, c, i: setattr(b, "__getattribute__", _own_is_four),
    "what is not there": lambda b, c, i: setattr(b, "__getattr__", lambda self, name: 5),
    "an attribute that was not there": lambda b, c, i: setattr(b, "absent", None),
    "calls": lambda b, c, i: setattr(b, "__call__", lambda self: None),
    "equality": lambda b, c, i: setattr(b, "__eq__", lambda self, other: True),
    "items of a list": lambda b, c, i: setattr(i, "__getitem__", lambda self, at: 77),
    "length of a list": lambda b, c, i: setattr(i, "__len__", lambda self: 0),
    "truth of a list": lambda b, c, i: setattr(i, "__bool__", lambda self: False),
    "what a list holds": lambda b, c, i: setattr(i, "__contains__", lambda self, item: True),
    "iteration of a list": lambda b, c, i: setattr(i, "__iter__", lambda self: iter((8, 9))),
    "text of a list": lambda b, c, i: setattr(i, "__str__", lambda self: "items"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_between_calls(change):
    *theirs, eager = _classes()
    *ours, program = _classes()
    compiled = jit.compile(program)
    for alter in (lambda *classes: None, CHANGES[change]):
        alter(*theirs)
        alter(*ours)
        for _ in range(2):
            expected, found = eager(X), compiled(X)
            assert torch.equal(expected[0], found[0]) and expected[1:] == found[1:]


def test_a_class_that_counts_is_compiled_once():
    class Counts:
        made = 0
        step = 2

    one = Counts()

    @jit.compile
    def program(x):
        return x * one.step

    before = jit.stats()["captures"]
    for _ in range(4):
        Counts.made += 1
        program(X)
    assert jit.stats()["captures"] == before + 1


class Base:
    step = 1

    def take(self):
        return self.step


class Child(Base):
    pass


ONE = Child()


@same_as_eager(graphs=1)
def test_a_store_is_seen_through_instances_and_children(x):
    Base.step = 5
    seen = [ONE.step, Child.step, Child().step, ONE.take(), hasattr(ONE, "step")]
    Base.step = 1
    return x + ONE.step, seen


@same_as_eager
def test_a_store_hides_that_of_the_base(x):
    Base.step = 5
    Child.step = 6
    seen = [ONE.step, Base.step, Child().take()]
    Base.step = 1
    del Child.step
    return x + ONE.step, seen


@same_as_eager(graphs=1)
def test_a_method_is_stored(x):
    old = Base.take
    Base.take = lambda self: self.step + 70
    seen = [ONE.take(), Child().take()]
    Base.take = old
    return x + ONE.take(), seen


@same_as_eager(graphs=1)
def test_an_attribute_of_the_instance_comes_first(x):
    one = Child()
    one.step = 40
    Base.step = 5
    seen = [one.step, ONE.step]
    Base.step = 1
    return x + 1, seen


@same_as_eager
def test_special_methods_and_descriptors_stored(x):
    Base.__len__ = lambda self: 4
    Base.twice = property(lambda self: self.step * 2)
    seen = [len(ONE), ONE.twice]
    del Base.__len__, Base.twice
    return x + 1, seen, hasattr(ONE, "twice"), bool(ONE)


class Above(Base):
    def take(self):
        return super().take() + 100


@same_as_eager
def test_super_sees_what_was_stored(x):
    old = Base.take
    Base.take = lambda self: 7
    seen = Above().take()
    Base.take = old
    return x + seen


def test_a_store_to_the_base_of_a_class_that_comes_to_have_its_own():
    class Base:
        made = 0

    class Child(Base):
        pass

    def program(x):
        Base.made = 5
        Child.made += 1
        return x + Child.made, Base.made

    check(program, X, graphs=1)


def test_a_class_that_no_longer_has_its_own():
    class Base:
        made = 3

    class Child(Base):
        made = 3

    def program(x):
        Base.made = 5
        return x + Child.made

    compiled = jit.compile(program, backend="eager")
    assert compiled(X)[0] == 3
    Base.made = 3
    del Child.made
    assert compiled(X)[0] == 5


INHERITED = {
    "super().take()": "Between.take = lambda self: 'between'",
    "super().made": "Between.made = 'between'",
    "getattr(super(), 'absent', 'none')": "Between.absent = 'between'",
    "super().step": "Between.__bases__ = (Other, First)",
    "super(Between, self).step": "Between.__bases__ = (Other, First)",
    "isinstance(self, Other)": "Between.__bases__ = (First, Other)",
    "issubclass(Child, Other)": "Between.__bases__ = (First, Other)",
    "caught(Failure, Wrong)": "Failure.__bases__ = (Wrong,)",
    "made_here(Child, Other)": "Between.__bases__ = (First, Other)",
}


@pytest.mark.parametrize("asked", INHERITED)
def test_classes_between_and_what_they_inherit(asked):
    scope = {}
    execute(
        f"""
class First:
    step = made = 1
    def take(self): return 'first'
class Other:
    step = 'other'
class Between(First): pass
class Child(Between):
    def asked(self): return {asked}
class Wrong(ValueError): pass
class Bad(ValueError): pass
class Failure(Bad): pass
def caught(error, kind):
    try:
        raise error
    except kind:
        return 'caught'
    except ValueError:
        return 'not caught'
def made_here(base, kind):
    class Here(base): pass
    return isinstance(Here(), kind)
def program(x): return x + 1, Child().asked()
""",
        scope,
    )
    compiled = jit.compile(scope["program"], backend="eager")
    before = scope["program"](X)[1]
    assert compiled(X)[1] == compiled(X)[1] == before
    exec(INHERITED[asked], scope)
    after = scope["program"](X)[1]
    assert compiled(X)[1] == after != before


def test_a_new_that_was_stored():
    """A class statement makes a static method of `__new__`, a store leaves the function as it is."""

    class Made:
        def __init__(self, size=5):
            self.size = size

    Made.__new__ = lambda cls, *args: object.__new__(cls)
    check(lambda x: (Made(4).size, Made().size, x + 1), torch.ones(2), graphs=1)


def test_another_name():
    """Errors tell the name that the class has then."""

    class Config:
        pass

    def told(x, config):
        try:
            return config.absent
        except AttributeError as error:
            return x + 1, str(error)

    compiled = jit.compile(told, backend="eager")
    for name in ("Config", "Renamed", "Config"):
        Config.__name__ = name
        assert compiled(X, Config())[1] == f"'{name}' object has no attribute 'absent'"
