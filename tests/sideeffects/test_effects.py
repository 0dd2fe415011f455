"""Every effect prints as the line of Python that it replays, and the dump of a frame lists its ledger in these lines."""
import ast
import collections
import io
from typing import get_args

import pytest
import torch

import jit
from sideeffects.effects import Advance, Call, DelAttr, Effect, SetAttr, SetContents
from tests.differential import COUNTING

TOTAL = 0


class Thing:
    def __init__(self):
        self.old = 1


def stored(x, thing):
    thing.value = x + 1
    thing.count = 2
    del thing.old


def filled(x, items):
    items[0] = x
    items.append(7)


def appended(x, items):
    items.append(7)


def entered(x, table):
    table["a"] = 1
    del table["old"]


def added(x, bag):
    bag.add(5)
    bag.discard(1)


def queued(x, ring):
    ring.appendleft(9)


def bounded(x, ring):
    ring.__init__([1, 2], 1)


def counted(x, out):
    global TOTAL
    TOTAL = 4
    print("so", 1, file=out)


def written(x, w):
    w.grad = None
    x.label = "a"



def hooked(x, w):
    w.register_hook(lambda g: g * 2)


LINES = [
    (stored, Thing, ["thing.value = add", "thing.count = 2", "del thing.old"]),
    (filled, lambda: [1, 2], ["items[:] = [x, 2, 7]"]),
    (appended, lambda: [1, 2], ["items.extend([7])"]),
    (entered, lambda: {"old": 1}, ["del table['old']; table['a'] = 1"]),
    (added, lambda: {1, 2}, ["bag.difference_update([1]); bag.update([5])"]),
    (queued, lambda: collections.deque([1]), ["ring.clear(); ring.extend([9, 1])"]),
    (bounded, lambda: collections.deque([1]), ["ring.__init__([2], 1)"]),
    (counted, io.StringIO, [f"{__name__}.TOTAL = 4", "print('so', '1', file=out)"]),
    (hooked, lambda: torch.ones(3, requires_grad=True), ["w.register_hook(lambda: ...)  # RemovableHandle(...)"]),
    (written, lambda: torch.ones(3, requires_grad=True), ["w.grad = None", "x.label = 'a'"]),
]


@pytest.mark.skipif(not COUNTING, reason="a break after every call makes a ledger of each piece")
@pytest.mark.parametrize("program, make, lines", LINES, ids=[program.__name__ for program, _, _ in LINES])
def test_the_dump_lists_the_ledger_in_lines_of_python(program, make, lines, tmp_path):
    jit.compile(program, backend="eager", fullgraph=True, options={"dump": str(tmp_path)})(torch.ones(3), make())
    (file,) = tmp_path.glob("*/effects.txt")
    assert file.read_text().splitlines() == lines
    for line in lines:
        ast.parse(line)


PRINTED = [
    (SetAttr("box", "value", "x"), "box.value = x"),
    (DelAttr("box", "value"), "del box.value"),
    (Advance("it", 1, frozenset()), "next(it, None)"),
    (Advance("it", 3, frozenset()), "for _ in range(3): next(it, None)"),
    (Call("print", ("x", "1"), {"end": "''"}), "print(x, 1, end='')"),
    (Call("w.register_hook", ("hook",), {}, result="handle"), "w.register_hook(hook)  # handle"),
]


def test_there_are_no_other_effects():
    """Besides stores of contents, which the dump shows."""
    assert {type(effect) for effect, _ in PRINTED} == {*get_args(Effect)} - {SetContents}


@pytest.mark.parametrize("effect, line", PRINTED, ids=str)
def test_effects_print_whatever_they_are_about(effect, line):
    assert str(effect) == line
    ast.parse(line)
