"""What `tools/fuzz` found: programs that did something else compiled."""

import copy
import itertools
import time

import pytest
import torch

from tests.differential import check

PROGRAMS = []


def program(*calls):
    """Called with a tensor and each of `calls`, one after the other."""

    def note(fn):
        PROGRAMS.append(pytest.param(fn, calls, id=fn.__name__))
        return fn

    return note


@program((3,), (-2,), (8,))
def text_that_is_repeated(x, n):
    text, said = f"{n}-", []
    for ask in (
        lambda: text * 2, lambda: 2 * text, lambda: text * -1, lambda: text * True, lambda: text * n, lambda: text * 1.5,
        lambda: 1.5 * text, lambda: text + 3, lambda: 3 + text, lambda: text - 1, lambda: text < 3, lambda: text == 3,
    ):  # fmt: skip
        try:
            said.append(ask())
        except TypeError as error:
            said.append(str(error))
    return said, x + 1


@program((3,), (-2,))
def reversed_view_in_a_try_block(x, n):
    table = {}
    try:
        table |= dict(reversed({"a": n + 1, "k": time.time() > n}.items()))
        view = {"a": n, "b": 2}.items()
        time.time()
        table |= dict(reversed(view))
    finally:
        x = x + 1
    return table, x


class Row:
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


@program((3,), (-2,))
def iterators_that_leave(x, n):
    first, second = itertools.tee([n, 2, n])
    step = next(first)
    return first, second, x + step, reversed(Row(1, n))


@program((3,), (-2,))
def iterators_that_stay(x, n):
    first, second = itertools.tee([n, 2, n])
    next(second)
    for one, other in zip(first, second):
        x = x * one + other
    return x, [*reversed(Row(1, n))], copy.copy(first)


@pytest.mark.parametrize("fn, calls", PROGRAMS)
def test_program(fn, calls):
    first, *changed = [lambda rest=rest: (torch.ones(2, 3), *rest) for rest in calls]
    check(fn, make=first, changed=changed)
