"""What CPython's tests of `decimal` found: attributes that a class written in C answers itself, and `object.__ne__`."""

import decimal
import threading
import types
from decimal import Context, Decimal, InvalidOperation

from symbolic.variables.slots import is_generic
from tests.differential import check, same_as_eager, tensors

(X,) = tensors(3, 4)
GIVEN = Context(prec=7)


class Derived(Context):
    pass


DERIVED = Derived(prec=9)


@same_as_eager
def test_attributes_that_a_class_of_c_answers_itself(x):
    has = [hasattr(GIVEN, name) for name in ("traps", "flags", "prec", "nope")]
    return x + GIVEN.prec, has, GIVEN.traps[InvalidOperation], getattr(GIVEN, "flags", None) is None, DERIVED.traps == GIVEN.traps


@same_as_eager
def test_attributes_that_a_class_of_c_takes_itself(x):
    made = Context(prec=5)
    made.traps = {InvalidOperation: True}
    DERIVED.flags = made.flags
    DERIVED.mine = 3
    try:
        made.other = 1
    except AttributeError as error:
        said = str(error)
    try:
        del made.traps
    except (AttributeError, TypeError, ValueError) as error:
        said += str(error)
    return x + DERIVED.mine, said, made.traps[InvalidOperation], DERIVED.flags == made.flags


@same_as_eager
def test_a_local_context(x):
    with decimal.localcontext() as context:
        context.traps[InvalidOperation] = False
        less = Decimal("NaN") < Decimal(1)
    return x, less


class Module(types.ModuleType):
    y = 3


MODULE, UNION = Module("m"), int | str
MODULE.z = 4


@same_as_eager
def test_attributes_of_modules_and_unions(x):
    seen = [MODULE.y, MODULE.z, UNION.__args__, hasattr(UNION, "nope"), UNION.__module__, hasattr(MODULE, "nope")]
    try:
        MODULE.nope  # noqa: B018
    except AttributeError as error:
        seen.append(str(error))
    return x + 1, seen


def test_what_is_generic():
    assert all(is_generic(cls.__getattribute__) for cls in (object, dict, threading.local, ValueError, Decimal))
    assert all(is_generic(cls.__setattr__) and is_generic(cls.__delattr__) for cls in (object, list, threading.local))
    assert not any(is_generic(hook) for hook in (Context.__getattribute__, Context.__setattr__, type.__setattr__, dict.get))
    assert not is_generic(Context.__delattr__) and not is_generic(lambda self, name: None)


class Number:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        if isinstance(other, Number):
            return self.number == other.number
        return [] if other == "nothing" else self.number == other if isinstance(other, float) else NotImplemented


class Shouts(Number):
    def __ne__(self, other):
        return super().__ne__(other), "!"


class Fails:
    def __eq__(self, other):
        raise KeyError(other)


class Table(dict):
    __ne__ = object.__ne__


ONE = Number(1)


@same_as_eager(graphs=1)
def test_object_s_ne_asks_eq(x):
    seen = []
    for number in (Number(1), ONE, Shouts(1)):
        for other in (1.0, 2.0, ONE, number, "s", "nothing", None):
            seen += [number.__ne__(other), object.__ne__(number, other), number.__eq__(other)]
    try:
        Fails().__ne__(1)
    except KeyError as error:
        seen.append(error.args)
    plain = object()
    return x + 1, seen, plain.__ne__(plain), plain.__ne__(x)


def test_object_s_ne_of_a_table():
    def asked(x):
        return x + 1, Table(a=1).__ne__(Table(a=1)), Table(a=1).__ne__({"a": 2}), Table() != {}, Table().__ne__(1)

    check(asked, X)
