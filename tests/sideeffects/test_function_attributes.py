"""What the frame stores to existing functions: defaults, names, attributes."""

import pytest
import torch

from tests.differential import check


def add(a=1, *, b=2):
    return a + b


def scale(a, b=3):
    return a * b


def _defaults(x):
    add.__defaults__ = (2,)
    add.__kwdefaults__ = {"b": 7}
    return x + add(), add.__defaults__, add.__kwdefaults__


def _of_tensors(x):
    scale.__defaults__ = (x, x + 1)
    return scale()


def _none(x):
    del add.__defaults__
    add.__kwdefaults__ = None
    try:
        add(1)
    except TypeError as error:
        return x + 1, str(error), add.__defaults__


def _for_a_while(x):
    old, scale.__defaults__ = scale.__defaults__, (10,)
    try:
        y = x * scale(1)
    finally:
        scale.__defaults__ = old
    return y, scale(1)


def _refused(x):
    try:
        scale.__defaults__ = [1]
    except TypeError as error:
        return x + 1, str(error)


def _attributes(x):
    scale.tag, add.tag = 1, 2
    del scale.tag
    try:
        del scale.tag
    except AttributeError as error:
        return x + add.tag, hasattr(scale, "tag"), str(error)


def _named(x):
    scale.__name__, scale.__qualname__, scale.__doc__ = "other", "Other.name", "doc"
    try:
        scale()
    except TypeError as error:
        return x + 1, str(error), scale.__name__, scale.__doc__


PROGRAMS = [_defaults, _of_tensors, _none, _for_a_while, _refused, _attributes, _named]


def fresh():
    """The functions as they were."""
    add.__defaults__, add.__kwdefaults__, scale.__defaults__ = (1,), {"b": 2}, (3,)
    for name, function in (("add", add), ("scale", scale)):
        function.__name__ = function.__qualname__ = name
        function.__doc__, function.__annotations__ = None, {}
    return (torch.ones(3),)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program):
    try:
        check(program, make=fresh, graphs=1)
    finally:
        fresh()
