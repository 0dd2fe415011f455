"""What random programs work on: classes with manners of their own, functions, and the arguments of a call."""
import array
import collections
import contextlib
import contextvars
import copy
import dataclasses
import functools
import io
import itertools
import logging
import os
import random
import sys
import threading
import types
import warnings
import weakref
from dataclasses import dataclass, field

import numpy
import torch
from torch.utils.hooks import RemovableHandle

import jit
from tests.snapshot import is_leaf

LOGGER = logging.getLogger("tests.sideeffects.things")
MODULE = types.ModuleType("tests.sideeffects.settings")
ITERATORS = (collections.abc.Iterator, types.GeneratorType)


class Ambient:
    """State of the context and of the thread."""
    context = contextvars.ContextVar("tests.sideeffects.context")
    thread = threading.local()


class Printed(io.BufferedIOBase):
    """Below a file: prints what comes, so that one text has everything in order."""

    def writable(self):
        return True

    def write(self, data):
        sys.stdout.write(bytes(data).decode())
        return len(data)


SHOWN = logging.StreamHandler(io.TextIOWrapper(Printed(), "utf-8", write_through=True))
SHOWN.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False
LOGGER.addHandler(SHOWN)


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

    @functools.cached_property
    def cached(self):
        print("cached of", self.name)
        return [self.count]

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


class Registry(type):
    """A class whose instances are counted."""
    born = 0

    def __call__(cls, *args):
        made = super().__call__(*args)
        Registry.born += 1
        made.number = cls.born
        return made


class Registered(Node, metaclass=Registry):
    def __new__(cls, name="copied", count=0):
        self = super().__new__(cls)
        self.early = name
        return self


@dataclass(frozen=True)
class Point:
    x: int
    y: object


@dataclass
class Pair:
    left: object
    right: list = field(default_factory=list)


class Stack(list):
    pushed = 0

    def append(self, value):
        self.pushed += 1
        super().append(value)


class Echo(list):
    """Says what is done with it."""

    def __getitem__(self, index):
        print("get", index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        print("set", index)
        super().__setitem__(index, value)

    def __iter__(self):
        print("iter")
        return super().__iter__()

    def __len__(self):
        print("len")
        return super().__len__()

    def extend(self, values):
        for value in values:
            self.append(value)

    def sort(self, **how):
        self.is_sorted = True
        super().sort(**how)


class Trail(collections.OrderedDict):
    """What was written last comes last."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)

    def popitem(self, last=True):
        print("popitem", last)
        return super().popitem(last)


class Fallback(collections.defaultdict):
    def __missing__(self, key):
        print("missing", key)
        value = self[key] = [key]
        return value


class Votes(collections.Counter):
    def update(self, iterable=None, /, **more):
        self.updated = True
        super().update(iterable, **more)

    def __missing__(self, key):
        return 1


class Window(collections.deque):
    def append(self, value):
        print("append", len(self), self.maxlen)
        super().append(value)

    def popleft(self):
        self.left = super().popleft()
        return self.left


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


class Gate(Managed):
    """Lets nothing pass but TypeErrors; raises another error instead of a KeyError."""

    def __exit__(self, kind, error, traceback):
        super().__exit__(kind, error, traceback)
        if kind is KeyError:
            raise Trouble(self.name, error.args)
        return kind is not TypeError


class Trouble(Exception):
    def __init__(self, text, held):
        super().__init__(text)
        self.held = held


class Warned(UserWarning):
    pass


class Countdown:
    """An iterator written in Python."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return self

    def __next__(self):
        if self.count <= 0:
            raise StopIteration
        self.count -= 1
        return self.count


class Layer(torch.nn.Module):
    level = 1

    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(n, dtype=torch.float32))
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.seen += 1
        return x * self.weight * self.level


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        ctx.by = by
        return x * by

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * ctx.by + x * 0, None


@contextlib.contextmanager
def noted(text, log):
    """Says when it is entered and left; lets no ValueError pass."""
    log.append(text)
    try:
        yield log
    except ValueError as error:
        print("caught", error)
    finally:
        log.append("left")


def relayed(iterable, log):
    """A generator that hands on what another one yields."""
    answer = yield from iterable
    log.append(answer)
    return "relayed"


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
    dtype: torch.dtype = torch.float32
    strided: bool = False
    more: int = 0  # elements of the containers
    hooked: bool = False


def restore():
    """What programs can reach without an argument, as it was before the first one."""
    vars(MODULE).pop("gone", None)
    vars(MODULE).update(stores=0, level=1)
    for cls in (Node, *Node.__subclasses__()):
        for name in {"made", "shared"} & vars(cls).keys():
            delattr(cls, name)
    Node.made = Registry.born = 0
    Ambient.context.set(0)
    vars(Ambient.thread).clear()
    os.environ.pop("TESTS_WORD", None)
    LOGGER.setLevel(logging.INFO)


def outside():
    """What programs can change there."""
    classes = [(cls.__name__, cls.made, getattr(cls, "shared", None)) for cls in (Node, Careful, Registered)]
    return [vars(MODULE), classes, Registry.born, Ambient.context.get(), vars(Ambient.thread), os.environ.get("TESTS_WORD"), LOGGER.level]


def arguments(shape):
    """A new argument under each name that `programs.ARGUMENTS` has."""
    n = shape.length
    restore()
    x = torch.arange(2 * n, dtype=shape.dtype)[::2] if shape.strided else torch.arange(n, dtype=shape.dtype)
    v = {"no": torch.ones(n), "same": x, "view": x[:]}[shape.aliased_tensors]
    w = (torch.arange(n, dtype=torch.float32) - 1).requires_grad_()
    w.grad = torch.ones(n) if shape.grad else None
    handle = w.register_hook(seen)
    box, slots, careful = Node("box", n), Slotted("slots", 1), Careful("careful", 2)
    other_box = box if shape.aliased_objects else Node("other")
    box.next, other_box.next, slots.next = other_box, box, careful
    box.value = x
    items = [1, x, box, *range(shape.more)]
    other = items if shape.aliased_lists else [w, "end"]
    numbers = list(range(n, 0, -1))
    table = {"a": 1, "b": items, "c": x, **dict.fromkeys("xyz"[:shape.more])}
    layer = Layer(n)
    if shape.hooked:
        layer.register_forward_hook(lambda module, inputs, output: print("hook of layer"))
        layer.register_full_backward_hook(lambda module, inputs, outputs: print("gradient of layer"))
    order = collections.OrderedDict((("a", 1), ("b", 2), ("c", 3)))
    groups = collections.defaultdict(list, a=[1])
    tally = collections.Counter("aab")
    bag = {1, 2, "a"}
    ring = collections.deque([1, x, 3], 4)
    return {"x": x, "v": v, "w": w, "handle": handle, "box": box, "slots": slots, "careful": careful, "other_box": other_box,
            "items": items, "other": other, "numbers": numbers, "table": table, "order": order, "groups": groups,
            "tally": tally, "bag": bag, "ring": ring, "stack": Stack([1, 2]), "special": Table(a=1), "it": iter(numbers),
            "gen": numbered(4, other), "out": io.StringIO(), "echo": Echo([1, x]), "trail": Trail(a=1, b=x),
            "fallback": Fallback(list, a=[x]), "votes": Votes("abb"), "window": Window([1, x], 3),
            "layers": collections.ChainMap({"a": 1}, table), "codes": array.array("l", [3, 1, 2]), "raw": bytearray(b"abc"),
            "layer": layer, "registered": Registered("registered", 3)}


def afterwards(result, *args):
    """What a caller does with what the program left: half of the handles are removed, what waits runs, and gradients
    are asked for once more. Answers with what it saw."""
    said = outside()
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
    tensors = [t for t in found if isinstance(t, torch.Tensor) and t.requires_grad and not is_leaf(t)]
    try:
        for t in tensors:
            t.sum().backward(retain_graph=True)
    except Exception as error:  # of autograd, or of a hook
        said.append(str(error))
    said.append([t.grad for t in found if isinstance(t, torch.Tensor) and (is_leaf(t) or t.retains_grad)])
    return said


MODULES = (array, collections, contextlib, copy, dataclasses, functools, itertools, jit, numpy, os, random, sys, torch, warnings,
           weakref)
CLASSES = (Ambient, Node, Slotted, Careful, Registry, Registered, Point, Pair, Stack, Echo, Table, Trail, Fallback, Votes, Window, Managed,
           Gate, Trouble, Warned, Countdown, Layer, Scaled)
FUNCTIONS = (doubled, seen, scaled, kind_of, numbered, noted, relayed)
#: Names that a program can use.
NAMES = {"LOGGER": LOGGER, "MODULE": MODULE, **{named.__name__: named for named in (*MODULES, *CLASSES, *FUNCTIONS)}}


def world():
    """New globals for a program."""
    return {**NAMES, "__name__": __name__, "TOTAL": 0, "EXTRA": 0, "LOG": [], "FUEL": [0] * 40, "SHARED": Node("shared")}
