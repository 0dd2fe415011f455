"""`obj.__dict__`: what is made of it shows the attributes as they are."""
import types

import torch

from tests.differential import check


class Thing:
    def __init__(self, number):
        self.number = number


def born():
    return torch.ones(2), Thing


def existing():
    thing = Thing(1)
    return torch.ones(2), lambda number: thing


def both(program, **said):
    for make in (born, existing):
        check(program, make=make, **said)


def test_views_are_live():
    def program(x, make):
        thing = make(1)
        names, values, items = vars(thing).keys(), vars(thing).values(), vars(thing).items()
        thing.more = x + 1
        return len(names), list(names), list(values), names, values, items, thing

    both(program, graphs=1)


def test_methods_that_change_it():
    def program(x, make):
        thing = make(1)
        names = vars(thing)
        found = names.setdefault("number", 5), names.setdefault("more", x), names.setdefault("none")
        names |= {"last": x + 1}
        last = names.popitem()
        seen = dict(names)
        names.clear()
        thing.again = x
        return found, last, seen, hasattr(thing, "number"), names, thing

    both(program, graphs=1)


def test_attributes_that_come_during_iteration():
    def program(x, make):
        thing = make(1)
        try:
            for name in vars(thing):
                thing.more = x
        except RuntimeError as error:
            return x + 1, str(error)
        return x

    both(program, graphs=1)


def test_attributes_that_change_during_iteration():
    def program(x, make):
        thing = make(1)
        thing.more = x
        for name, value in vars(thing).items():
            setattr(thing, name, value + 1)
        return thing.number + thing.more

    both(program, graphs=1)


def test_an_iterator_goes_on_elsewhere():
    def program(x, make):
        thing = make(1)
        thing.more = x + 1
        found = iter(thing.__dict__.items())
        next(found)
        return found

    both(program, graphs=1)


def test_views_as_sets():
    def program(x, make):
        thing = make(1)
        names = vars(thing).keys()
        thing.more = x + 1
        return sorted(names & {"more", "other"}), "more" in names, sorted(names | {"a"}), names.isdisjoint({"number"}), thing.more

    both(program, graphs=1)


class Space(types.SimpleNamespace):
    def __init__(self, **names):
        super().__init__(more=3, **names)

    def __setattr__(self, name, value):
        super().__setattr__(name, (value, name))


def test_simple_namespaces():
    def program(x):
        plain, own = types.SimpleNamespace(a=x + 1, made=2, tx=3), Space(a=x)
        plain.c, own.b = x, 4
        del plain.tx
        plain.__init__(d=own.more)
        return plain, own, plain.a * plain.made, vars(own), repr(types.SimpleNamespace(a=1, b="b", c=Space()))

    check(program, torch.ones(2), graphs=1)


def test_globals_are_updated():
    def program(x):
        globals().update(found_here=x + 1, Thing=Thing)
        globals().update({"found_here": found_here + 1}, found_there="a")  # noqa: F821
        return x * 2, found_here, found_there  # noqa: F821

    check(program, torch.ones(2), graphs=1)


def test_what_an_update_asks_sees_what_it_stored():
    def program(x, make):
        thing = make(1)

        def pairs():
            yield "number", x + 1
            yield "more", thing.number
            raise ValueError(thing.more is thing.number)

        try:
            vars(thing).update(pairs())
        except ValueError as error:
            return thing, str(error)

    both(program, graphs=1)
