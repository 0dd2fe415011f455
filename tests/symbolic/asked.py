"""Objects that say each time what they are asked by Python's own code: special methods, in order, and their arguments."""
import collections  # noqa: F401 (ITERATORS are written with it)
import enum
import itertools  # noqa: F401 (the same)
import operator
import pathlib
import textwrap

import torch

from tests.differential import execute

HERE = pathlib.Path(__file__).parent
#: What they were asked, since it was emptied.
LOG = []


def log(what):
    """For programs, whose own globals are copied."""
    LOG.append(what)


def lines(name):
    """The programs of a file."""
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]


IMPORTS = """
import array, bisect, cmath, collections, collections.abc, contextlib, copy, dataclasses, decimal, enum, fractions, functools, heapq, io
import itertools, json, logging, math, operator, pickle, random, re, statistics, string, struct, textwrap, types, warnings
import jit, numpy, torch
"""


def program(line, parameters, head="", indent=1):
    """A function whose statements, or whose result, are a line's."""
    body = line[1:].split(";;") if line.startswith("!") else [f"r = {line}"]
    text = f"{IMPORTS}\ndef program({parameters}):\n    r = 0\n{head}"
    text += textwrap.indent("\n".join(body), "    " * indent) + "\n    return r\n"
    scope = dict(globals())
    execute(text, scope)
    return scope["program"]


def said(name, answer):
    def run(self, *args, **kwargs):
        LOG.append((type(self).__name__, name, *[arg for arg in args if type(arg) in (int, str, slice)]))
        return answer(self, *args, **kwargs)

    return run


def says(cls, answers):
    for name, answer in answers.items():
        setattr(cls, f"__{name}__", said(name, answer))


def saying(base, names, methods=""):
    """A class derived from a built-in one whose methods say that they were called."""
    made = type(f"Sub{base.__name__.title()}", (base,), {"__module__": __name__})
    says(made, {name: getattr(base, f"__{name}__") for name in names.split()})
    for name in methods.split():
        setattr(made, name, said(name, getattr(base, name)))
    return made


class Num:
    def __init__(self, v=3):
        self.v = v


def value(other):
    return other.v if isinstance(other, Num) else other


for _name in "add sub mul floordiv mod pow lshift rshift and_ or_ xor".split():
    _op, _name = getattr(operator, _name), _name.removesuffix("_")
    says(Num, {
        _name: lambda s, o, *m, op=_op: Num(op(s.v, value(o))),
        f"r{_name}": lambda s, o, *m, op=_op: Num(op(value(o), s.v)),
    })
for _name in "lt le gt ge eq ne".split():
    says(Num, {_name: lambda s, o, op=getattr(operator, _name): op(s.v, value(o))})
says(Num, {
    "hash": lambda s: hash(s.v), "bool": lambda s: s.v != 0, "int": lambda s: s.v, "float": lambda s: float(s.v),
    "index": lambda s: s.v, "complex": lambda s: complex(s.v), "neg": lambda s: Num(-s.v), "pos": lambda s: s,
    "abs": lambda s: Num(abs(s.v)), "invert": lambda s: Num(~s.v), "round": lambda s, *n: s.v, "trunc": lambda s: s.v,
    "floor": lambda s: s.v, "ceil": lambda s: s.v, "str": lambda s: f"n{s.v}", "repr": lambda s: f"N{s.v}",
    "format": lambda s, spec: f"<{s.v}{spec}>", "bytes": lambda s: b"n", "truediv": lambda s, o: Num(s.v),
    "rtruediv": lambda s, o: Num(s.v), "divmod": lambda s, o: (s.v // value(o), s.v % value(o)), "rdivmod": lambda s, o: (1, 1),
})


class Seq:
    def __init__(self, items=(1, 2, 3)):
        self.items = list(items)


says(Seq, {
    "len": lambda s: len(s.items), "getitem": lambda s, i: s.items[i], "iter": lambda s: iter(s.items),
    "contains": lambda s, x: x in s.items, "reversed": lambda s: iter(s.items[::-1]), "length_hint": lambda s: 7,
    "setitem": lambda s, i, v: s.items.__setitem__(i, v), "delitem": lambda s, i: s.items.__delitem__(i),
    "eq": lambda s, o: s.items == getattr(o, "items", o), "hash": lambda s: 5, "bool": lambda s: bool(s.items),
    "add": lambda s, o: Seq(s.items + list(o)), "iadd": lambda s, o: s, "mul": lambda s, n: Seq(s.items * n),
    "call": lambda s, *args: args,
})


class Old:
    """A sequence with no more than this."""

    def __len__(self):
        LOG.append("old len")
        return 3

    def __getitem__(self, index):
        LOG.append(("old getitem", repr(index)))
        if index >= 3:
            raise IndexError(index)
        return index * 10


class It:
    def __init__(self):
        self.count = 0

    def __iter__(self):
        LOG.append("it iter")
        return self

    def __next__(self):
        LOG.append("it next")
        self.count += 1
        if self.count > 4:
            raise StopIteration
        return self.count

    def __length_hint__(self):
        LOG.append("it hint")
        return 4


class Map:
    def __init__(self):
        self.held = {"a": 1, "b": 2}


says(Map, {
    "getitem": lambda s, k: s.held[k], "iter": lambda s: iter(s.held), "len": lambda s: len(s.held),
    "contains": lambda s, k: k in s.held,
})
Map.keys = said("keys", lambda s: s.held.keys())
Map.items = said("items", lambda s: s.held.items())
Map.values = said("values", lambda s: s.held.values())
Map.get = said("get", lambda s, k, d=None: s.held.get(k, d))


class Att:
    x = 1

    def __getattr__(self, name):
        LOG.append(("getattr", name))
        raise AttributeError(name)

    def __setattr__(self, name, value):
        LOG.append(("setattr", name))
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        LOG.append(("delattr", name))
        object.__delattr__(self, name)

    def __dir__(self):
        LOG.append("dir")
        return ["x"]


class Ctx:
    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        LOG.append(("exit", kind))
        return True


class Pure(enum.Enum):
    A = 1

    @property
    def pp(self):
        log("p")
        return 1

    def m(self):
        log("m")
        return 2

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        log(name)
        return 3


says(Pure, {
    "str": lambda s: "own", "eq": lambda s, o: True, "hash": lambda s: 5, "bool": lambda s: True, "len": lambda s: 4,
    "getitem": lambda s, k: 4, "contains": lambda s, k: True, "call": lambda s, k: k, "format": lambda s, spec: "F",
    "repr": lambda s: "R", "neg": lambda s: 1, "iter": lambda s: iter("ab"), "lt": lambda s, o: True, "index": lambda s: 1,
    "enter": lambda s: 1, "exit": lambda s, *args: None,
})


class Whole(int, enum.Enum):
    A = 3


says(Whole, {
    "add": lambda s, o: 7, "radd": lambda s, o: 7, "eq": lambda s, o: True, "bool": lambda s: True, "index": lambda s: 1,
    "int": lambda s: 1, "float": lambda s: 1.0, "neg": lambda s: 1, "lt": lambda s, o: True,
})
Whole.__hash__ = int.__hash__


class Text(str, enum.Enum):
    A = "x"


says(Text, {
    "str": lambda s: "own", "len": lambda s: 4, "add": lambda s, o: "z", "contains": lambda s, k: True,
    "getitem": lambda s, k: "q", "iter": lambda s: iter("ab"),
})
Text.upper = said("upper", lambda s: "U")


SubInt = saying(int, "add radd mul lt eq hash index int bool str repr float format")
SubList = saying(list, "len getitem iter contains setitem eq add reversed", "append extend")
SubDict = saying(dict, "len getitem iter contains setitem eq or reversed", "keys items get update pop")
SubStr = saying(str, "len getitem iter contains eq hash add str repr format mod")

NAMES = "n m z s t o i d a c si sl sd ss pure whole text"


def objects():
    """Those of NAMES, in order; nothing has been asked of them."""
    made = (Num(3), Num(2), Num(0), Seq(), Seq((3, 1)), Old(), It(), Map(), Att(), Ctx(), SubInt(2), SubList([3, 1, 2]),
            SubDict(a=1, b=2), SubStr("ab c"), Pure.A, Whole.A, Text.A)  # fmt: skip
    LOG.clear()
    return made


class Watch(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        LOG.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Marked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


def noted(v):
    LOG.append(("noted", v))
    return v


def gen():
    LOG.append("begin")
    for v in (3, 1, 2, 1):
        LOG.append(("gen", v))
        yield v
    LOG.append("end")


#: Iterators by name, as they are written.
ITERATORS = {
    "li": 'iter([3, 1, 2, 1])',
    "ti": 'iter((3, 1, 2, 1))',
    "ri": 'reversed([3, 1, 2, 1])',
    "rg": 'iter(range(4))',
    "si": "iter('abca')",
    "di": "iter({1: 'a', 2: 'b', 0: 'c'})",
    "dv": "iter({1: 'a', 2: 'b'}.items())",
    "dl": 'iter({1: 4, 2: 5}.values())',
    "mi": 'map(noted, [3, 1, 2, 1])',
    "fi": 'filter(noted, [3, 0, 2, 1])',
    "zi": "zip([1, 2, 3], 'abcd')",
    "ei": "enumerate('abcd', 1)",
    "ca": 'iter([0, 5, 0, 2, 1].pop, 0)',
    "ge": '(noted(v) for v in [3, 1, 2, 1])',
    "gf": 'gen()',
    "it": 'It()',
    "co": 'itertools.islice(itertools.count(2), 5)',
    "cy": 'itertools.islice(itertools.cycle([1, 2]), 5)',
    "ch": 'itertools.chain([1, 2], gen())',
    "isl": 'itertools.islice(gen(), 1, 3)',
    "rp": 'itertools.repeat(7, 3)',
    "te": 'itertools.tee(gen())[0]',
    "sm": 'itertools.starmap(noted, [(1,), (2,), (0,)])',
    "tw": 'itertools.takewhile(noted, [3, 1, 0, 1])',
    "dw": 'itertools.dropwhile(noted, [3, 0, 1, 2])',
    "ff": 'itertools.filterfalse(noted, [0, 1, 0, 2])',
    "gb": 'itertools.groupby([1, 1, 2, 3, 3])',
    "ac": 'itertools.accumulate([1, 2, 3])',
    "cp": "itertools.compress('abcd', gen())",
    "pr": "itertools.product([1, 2], 'ab')",
    "pm": 'itertools.permutations([1, 2, 3], 2)',
    "cb": "itertools.combinations('abc', 2)",
    "zl": 'itertools.zip_longest([1, 2], gen())',
    "pw": 'itertools.pairwise(gen())',
    "fz": 'iter(frozenset({5}))',
    "dq": 'iter(collections.deque([1, 2, 3]))',
    "by": "iter(b'abc')",
    "rd": 'reversed({1: 2, 3: 4})',
    "od": 'iter(collections.OrderedDict(a=1, b=2))',
    "sq": 'iter(Old())',
    "fs": 'iter(Seq())',
}


def iterator(name):
    found = eval(ITERATORS[name])
    LOG.clear()
    return found
