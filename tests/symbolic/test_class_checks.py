"""`isinstance` and `issubclass`: by a metaclass of the program's, by what it does not override, by what a value says."""

import abc

import pytest
import torch

import jit
from tests.differential import check

LOG = []


class OfSubclasses(type):
    """What it says of classes is no matter to their instances."""

    def __subclasscheck__(cls, other):
        LOG.append("class")
        return other is not list


class OfSubclass(metaclass=OfSubclasses):
    pass


class OfBoth(type):
    def __instancecheck__(cls, value):
        LOG.append("value")
        return getattr(value, "passes", False) or super().__instancecheck__(value)

    def __subclasscheck__(cls, other):
        return 1 if other is str else super().__subclasscheck__(other)


class Base(metaclass=OfBoth):
    passes = False


class Derived(Base):
    pass


class Abstract(abc.ABCMeta):
    def __subclasscheck__(cls, other):
        return other is float or super().__subclasscheck__(other)


class OfAbstract(metaclass=Abstract):
    pass


OfAbstract.register(complex)


class Plainly(type):
    def __instancecheck__(cls, value):
        return type.__instancecheck__(cls, value)


class Plain(metaclass=Plainly):
    pass


class Equal(type):
    def __eq__(cls, other):
        return True

    __hash__ = type.__hash__


class AnyClass(metaclass=Equal):
    pass


class Says:
    def __init__(self, what):
        self.what = what

    @property
    def __class__(self):
        return self.what


class Asked:
    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        jit.graph_break()
        super().__setattr__(name, value)
        object.__setattr__(self, "other", value)


class Raises(type):
    def __instancecheck__(cls, value):
        raise KeyError(value)

    def __subclasscheck__(cls, other):
        raise LookupError(other)


class OfRaises(metaclass=Raises):
    pass


QUESTIONS = {
    "a subclass check is not asked of instances": lambda: (isinstance(3, OfSubclass), isinstance(OfSubclass(), OfSubclass)),
    "a subclass check": lambda: (issubclass(int, OfSubclass), issubclass(list, OfSubclass), issubclass(OfSubclass, OfSubclass)),
    "one of several": lambda: (issubclass(list, (int, OfSubclass, object)), issubclass(list, (object, OfSubclass))),
    "what is no class": lambda: (issubclass(3, OfSubclass), issubclass(3, (OfSubclass, int))),
    "super of an instance check": lambda: (isinstance(3, Base), isinstance(Derived(), Base), isinstance(Base(), Derived)),
    "super of a subclass check": lambda: [issubclass(each, Base) for each in (str, int, Derived, Base)],
    "type's own": lambda: (isinstance(3, Plain), isinstance(Plain(), Plain), isinstance(type("Z", (Plain,), {})(), Plain)),
    "by name": lambda: (type.__instancecheck__(Base, Derived()), type.__subclasscheck__(OfSubclass, int)),
    "bound": lambda: (int.__instancecheck__(True), Derived.__subclasscheck__(Base), Plain.__instancecheck__(3), bool.mro()),
    "what it says that it is": lambda: (isinstance(Says(int), int), isinstance(Says(bool), int), isinstance(Says(3), int),
                                        isinstance(Says(Derived), Says), type.__instancecheck__(int, Says(int))),
    "classes that are equal": lambda: (isinstance(3, AnyClass), issubclass(int, AnyClass), isinstance(Says(int), AnyClass)),
    "its own class asks nobody": lambda: (isinstance(OfRaises(), OfRaises), isinstance(OfAbstract(), OfAbstract)),
    "parameters": lambda: (isinstance(torch.ones(2), torch.nn.UninitializedParameter), isinstance(3, torch.nn.UninitializedParameter)),
}  # fmt: skip
#: Which run hooks of classes that may be anything.
BREAKING = {
    "an abstract class with a check": lambda: [isinstance(each, OfAbstract) for each in (3, 1.5, 2j, OfAbstract())],
    "subclasses of an abstract class with a check": lambda: [issubclass(each, OfAbstract) for each in (int, float, complex)],
}  # fmt: skip


@pytest.mark.parametrize("question", [*QUESTIONS, *BREAKING])
def test_questions(question):
    asked = {**QUESTIONS, **BREAKING}[question]

    def program(x):
        LOG.clear()
        try:
            answer = asked()
        except TypeError as error:
            answer = str(error)
        return x + 1, answer, list(LOG)

    check(program, torch.ones(2), graphs=None if question in BREAKING else 1)


@pytest.mark.parametrize("question", [lambda: isinstance(3, OfRaises), lambda: issubclass(3, OfRaises)])
def test_errors(question):
    check(lambda x: (x + 1, question()), torch.ones(2))


@pytest.mark.parametrize("ask", [
    lambda value: setattr(value, "one", 3), lambda value: isinstance(value, (int, Asked)), lambda value: isinstance(value, int),
    lambda value: issubclass(value, int), lambda value: issubclass(value, OfSubclass), lambda value: isinstance(value, Base),
])  # fmt: skip
def test_nobody_asks_an_object_but_the_program(ask):
    def program(x, value):
        LOG.clear()
        try:
            answer = ask(value)
        except TypeError as error:
            answer = str(error)
        return x + 1, answer, list(LOG)

    check(program, make=lambda: (torch.ones(2), Asked()))
    check(lambda x: program(x, Asked()), torch.ones(2))


def test_in_the_frame():
    def program(x):
        class Meta(type):
            asked = 0

            def __subclasscheck__(cls, other):
                Meta.asked += 1
                return True

        class Local(metaclass=Meta):
            pass

        return x + 1, isinstance(3, Local), Meta.asked, issubclass(int, Local), Meta.asked

    check(program, torch.ones(2))


def test_a_check_that_changes(monkeypatch):
    compiled = jit.compile(lambda x: x + (1 if issubclass(int, OfSubclass) else 2), backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    monkeypatch.setattr(OfSubclasses, "__subclasscheck__", lambda cls, other: False)
    assert compiled(torch.ones(2)).tolist() == [3, 3]
