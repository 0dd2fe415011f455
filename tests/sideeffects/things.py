"""What random programs work on: classes with manners of their own, functions, and the arguments of a call."""
import collections
import contextlib
import copy
import functools
import io
import itertools
import logging
import random
import sys
import types
import warnings
import weakref
from dataclasses import dataclass, field

import numpy
import torch
from torch.utils.hooks import RemovableHandle

LOGGER = logging.getLogger("tests.sideeffects.things")
MODULE = types.ModuleType("tests.sideeffects.settings")
ITERATORS = (collections.abc.Iterator, types.GeneratorType)


class Shown(logging.Handler):
    """Prints messages, so that one text has everything in order."""

    def emit(self, record):
        print(record.levelname, record.getMessage())


LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False
LOGGER.addHandler(Shown())


class Node:
    """Attributes, cycles, a method."""
    made = 0

    def __init__(self, name, count=0):
        self.name = name
        self.count = count
        self.value = None
        self.next = self

    def __repr__(self):
        return f"<{self.name}>"

    def bump(self, by=1):
        self.count += by
        return self

    def hook(self, g):
        self.count += 1
        print("hook of", self.name)
        return g * 2


class Slotted:
    __slots__ = ("name", "count", "value", "next")

    def __init__(self, name, count=0):
        self.name, self.count, self.value, self.next = name, count, None, self

    __repr__ = Node.__repr__
    bump = Node.bump
    hook = Node.hook


class Held:
    """A descriptor that says when it is written."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, kind=None):
        return self if owner is None else getattr(owner, self.name, None)

    def __set__(self, owner, value):
        print("set", self.name)
        setattr(owner, self.name, value)


class Careful(Node):
    """Every way of stepping in between a store and the object."""
    held = Held()

    @property
    def size(self):
        return self.count

    @size.setter
    def size(self, size):
        print("size of", self.name, "is", size)
        self.count = size

    @size.deleter
    def size(self):
        print("size of", self.name, "is gone")
        self.count = 0

    def __setattr__(self, name, value):
        if name == "value":
            MODULE.stores += 1
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        MODULE.stores -= 1
        object.__delattr__(self, name)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"no {name}"


@dataclass
class Pair:
    left: object
    right: list = field(default_factory=list)


class Stack(list):
    pushed = 0

    def append(self, value):
        self.pushed += 1
        super().append(value)


class Table(dict):
    def __setitem__(self, key, value):
        self.last = key
        super().__setitem__(key, value)

    def __missing__(self, key):
        return f"no {key}"


class Managed:
    """Says when it is entered and left; lets no KeyError pass."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        print("enter", self.name)
        return self.name

    def __exit__(self, kind, error, traceback):
        print("leave", self.name, None if kind is None else kind.__name__)
        return kind is KeyError


def doubled(g):
    print("doubled")
    return g * 2


def seen(g):
    print("seen", tuple(g.shape))


def scaled(g, by):
    return g * by


def kind_of(value):
    return type(value).__name__


def numbered(limit, log):
    """A generator that says how far it is, and when it is closed."""
    try:
        for i in range(limit):
            log.append(i)
            yield i
    finally:
        log.append("closed")


@dataclass(frozen=True)
class Shape:
    """How the arguments of a call differ from those of another one: sizes, and who is whom."""
    length: int = 3
    aliased_lists: bool = False
    aliased_tensors: str = "no"  # or "same", or "view"
    aliased_objects: bool = False
    grad: bool = False


def arguments(shape):
    """A new argument under each name that `programs.ARGUMENTS` has."""
    n = shape.length
    vars(MODULE).update(stores=0, level=1)
    Node.made = 0
    x = torch.arange(n, dtype=torch.float32)
    v = {"no": torch.ones(n), "same": x, "view": x[:]}[shape.aliased_tensors]
    w = (torch.arange(n, dtype=torch.float32) - 1).requires_grad_()
    w.grad = torch.ones(n) if shape.grad else None
    handle = w.register_hook(seen)
    box, slots, careful = Node("box", n), Slotted("slots", 1), Careful("careful", 2)
    other_box = box if shape.aliased_objects else Node("other")
    box.next, other_box.next, slots.next = other_box, box, careful
    box.value = x
    items = [1, x, box]
    other = items if shape.aliased_lists else [w, "end"]
    numbers = list(range(n, 0, -1))
    table = {"a": 1, "b": items, "c": x}
    order = collections.OrderedDict((("a", 1), ("b", 2), ("c", 3)))
    groups = collections.defaultdict(list, a=[1])
    tally = collections.Counter("aab")
    bag = {1, 2, "a"}
    ring = collections.deque([1, x, 3], 4)
    return {"x": x, "v": v, "w": w, "handle": handle, "box": box, "slots": slots, "careful": careful, "other_box": other_box,
            "items": items, "other": other, "numbers": numbers, "table": table, "order": order, "groups": groups,
            "tally": tally, "bag": bag, "ring": ring, "stack": Stack([1, 2]), "special": Table(a=1), "it": iter(numbers),
            "gen": numbered(4, other), "out": io.StringIO()}


def afterwards(result, *args):
    """What a caller does with what the program left: half of the handles are removed, what waits runs, and gradients
    are asked for once more. Answers with what it saw."""
    said = [vars(MODULE), Node.made]
    found = [*(result if type(result) is list else [result]), *args]
    handles = [thing for thing in found if isinstance(thing, RemovableHandle)]
    for handle in handles[::2]:
        handle.remove()
    for thing in found:
        try:
            if isinstance(thing, types.FunctionType):
                said.append(thing())
            elif isinstance(thing, ITERATORS):
                said.append(list(itertools.islice(thing, 3)))
        except Exception as error:
            said.append((type(error).__name__, str(error)))
    tensors = [t for t in found if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_leaf]
    try:
        for t in tensors:
            t.sum().backward(retain_graph=True)
    except RuntimeError as error:
        said.append(str(error))
    said.append([t.grad for t in found if isinstance(t, torch.Tensor) and (t.is_leaf or t.retains_grad)])
    return said


MODULES = (collections, contextlib, copy, functools, itertools, numpy, random, sys, torch, warnings, weakref)
CLASSES = (Node, Slotted, Careful, Pair, Stack, Table, Managed)
FUNCTIONS = (doubled, seen, scaled, kind_of, numbered)
#: Names that a program can use.
NAMES = {"LOGGER": LOGGER, "MODULE": MODULE, **{named.__name__: named for named in (*MODULES, *CLASSES, *FUNCTIONS)}}


def world():
    """New globals for a program."""
    return {**NAMES, "__name__": __name__, "TOTAL": 0, "LOG": [], "FUEL": [0] * 40, "SHARED": Node("shared")}
