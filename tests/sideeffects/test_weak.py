"""Weak references made in the frame, and those that were there."""
import gc
import weakref

import pytest
import torch

import jit
from tests.differential import check

pytestmark = pytest.mark.break_everywhere


class Node:
    def __init__(self, parent=None):
        self.parent = parent
        self.children = []


class Slots:
    __slots__ = ("a",)


def of_an_argument(x, o):
    r = weakref.ref(o)
    r().seen = x + 1
    return r() is o, r, r is weakref.ref(o), r == r


def of_what_the_frame_made(x, o):
    mine = Node()
    r = weakref.ref(mine)
    r().t = x + 1
    return mine, r, r() is mine


def parents(x, o):
    child = Node(weakref.ref(o))
    o.children.append(child)
    child.parent().t = x * 2
    return child, child.parent() is o


def of_a_tensor(x, o):
    y = x + 1
    r = weakref.ref(y)
    return r() * 2, y, r


def in_a_callee(x, o):
    def seen(r):
        return r() is o, r() is None

    return seen(weakref.ref(o)), x + 1


def not_possible(x, o):
    said = []
    for value in (1, "a", (1,), [1], Slots()):
        try:
            weakref.ref(value)
        except TypeError as error:
            said.append(str(error))
    return said, x + 1


ONE_GRAPH = [of_an_argument, of_what_the_frame_made, parents, of_a_tensor, in_a_callee, not_possible]


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda p: p.__name__)
def test_one_graph(program):
    check(program, make=lambda: (torch.ones(2), Node()), graphs=1)


def with_a_callback(x, o):
    return weakref.ref(o, print), x + 1


def compared(x, o):
    return weakref.ref(o) == weakref.ref(Node()), x + 1


@pytest.mark.parametrize("program", [with_a_callback, compared], ids=lambda p: p.__name__)
def test_others(program):
    check(program, make=lambda: (torch.ones(2), Node()))


def deref(x, r):
    o = r()
    if o is None:
        return "gone", x
    o.t = x + 1
    return o, x + 1


def test_existing():
    compiled, x = jit.compile(deref, backend="eager"), torch.ones(2)
    for _ in range(4):
        o = Node()
        r = weakref.ref(o)
        assert compiled(x, r)[0] is o and torch.equal(o.t, x + 1)
        del o
        gc.collect()
        assert r() is None and compiled(x, r)[0] == "gone"


def test_returned_to_what_nobody_has():
    def program(x):
        o = Node()
        o.t = x + 1
        return weakref.ref(o)

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        r = compiled(torch.ones(2))
        gc.collect()
        assert r() is None


def dropped(x, o):
    mine = Node()
    r = weakref.ref(mine)
    mine = None
    return r() is None, x + 1


@pytest.mark.skipif(jit.config.break_everywhere, reason="what stands in the frame at a break lives until the frame ends")
def test_dropped_in_the_frame():
    check(dropped, make=lambda: (torch.ones(2), None))


# --- proxies ----------------------------------------------------------------------------------------------------------
class Target:
    v = 1

    def __call__(self, y):
        return y * 2


def _claims(x, target, proxy):
    return x + isinstance(proxy, Target), isinstance(proxy, (int, Target)), proxy(x), proxy.v, type(proxy).__name__


def _is_written_to(x, target, proxy):
    proxy.w = x + 1
    return target.w * 2, hasattr(proxy, "none"), proxy == target


def _has_ended(x, target, proxy):
    other = Target()
    gone = weakref.proxy(other)
    del other
    try:
        return gone.v
    except ReferenceError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("program", [_claims, _is_written_to, _has_ended], ids=lambda program: program.__name__)
def test_a_proxy_stands_for_what_it_leads_to(program):
    def make():
        target = Target()
        return torch.ones(3), target, weakref.proxy(target)

    check(program, make=make)
