"""Values of built-in types and of classes derived from them, for programs that do something with two of them.

What comes of a program is told as text: the result and both values, with their types, or the class of the error.
"""

import re
import types
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from datetime import timedelta
from enum import Enum, Flag, IntEnum, IntFlag
from fractions import Fraction


def derived(*bases, **methods):
    name = "".join(base.__name__.title() for base in bases) + "".join(methods).replace("__", "").title()
    return type(name, bases, {"__module__": __name__, **methods})


class Mapped:
    def keys(self):
        return ["a", "m"]

    def __getitem__(self, key):
        if isinstance(key, int) and key > 2:
            raise IndexError(key)
        return key * 2

    def __repr__(self):
        return "Mapped"


class Reflected:
    def __repr__(self):
        return "Reflected"


for _name in "radd rsub rmul ror rand rxor eq gt".split():
    setattr(Reflected, f"__{_name}__", lambda self, other, name=_name: f"Reflected.{name}")


class Index:
    def __index__(self):
        return 1

    def __repr__(self):
        return "Index"


Point = namedtuple("Point", "x y")
L, T, S, F, D, I, N, C, St, By, Ba, Q = (
    derived(base) for base in (list, tuple, set, frozenset, dict, int, float, complex, str, bytes, bytearray, deque)
)
O, K, DD, CM, U = (derived(base) for base in (OrderedDict, Counter, defaultdict, ChainMap, UserDict))
Answers = derived(
    list, __add__=lambda s, o: "added", __eq__=lambda s, o: "equal", __iter__=lambda s: iter("xy"), __contains__=lambda s, o: "x",
    __len__=lambda s: 5, __hash__=None,
)
Rolled = derived(tuple, __iter__=lambda s: iter("xy"), __getitem__=lambda s, at: ("got", at))
Spread = derived(set, __contains__=lambda s, o: True, __iter__=lambda s: iter("xy"), __len__=lambda s: 9)
Text = derived(str, __eq__=lambda s, o: "equal", __hash__=lambda s: 5, __len__=lambda s: 9)
Number = derived(int, __radd__=lambda s, o: "added", __index__=lambda s: 2, __lt__=lambda s, o: "less")
Missing = derived(dict, __missing__=lambda s, key: ("missing", key))
Joined = derived(dict, __or__=lambda s, o: "or", __ror__=lambda s, o: "ror", __eq__=lambda s, o: "equal", __hash__=None)
Keyed = derived(OrderedDict, keys=lambda s: ["k"])
Counted = derived(Counter, __add__=lambda s, o: "added", __missing__=lambda s, key: 7)
Ints, Flags, IntFlags, Members = (kind(kind.__name__, "a b") for kind in (IntEnum, Flag, IntFlag, Enum))

#: By name what is made anew for each program.
MADE = {
    "list": lambda: [1, 2, 3], "L": lambda: L([1, 2]), "Answers": lambda: Answers([3, 4]), "tuple": lambda: (1, 2), "T": lambda: T([1, 2]),
    "Rolled": lambda: Rolled([5, 6]), "Point": lambda: Point(1, 2), "set": lambda: {1, 2}, "S": lambda: S([1, 3]), "Spread": lambda: Spread([1, 3]),
    "frozenset": lambda: frozenset([1, 2]), "F": lambda: F([1, 4]), "deque": lambda: deque([1, 2], 3), "Q": lambda: Q([1, 2, 3]),
    "str": lambda: "ab", "St": lambda: St("ab"), "Text": lambda: Text("a"), "bytes": lambda: b"ab", "By": lambda: By(b"ab"),
    "bytearray": lambda: bytearray(b"ab"), "Ba": lambda: Ba(b"a"), "int": lambda: 2, "I": lambda: I(2), "Number": lambda: Number(3),
    "float": lambda: 1.5, "N": lambda: N(1.5), "C": lambda: C(1j), "bool": lambda: True, "Ints": lambda: Ints.a, "Flags": lambda: Flags.a,
    "IntFlags": lambda: IntFlags.b, "Members": lambda: Members.a, "range": lambda: range(3), "array": lambda: array("i", [1, 2]),
    "Fraction": lambda: Fraction(1, 2), "None": lambda: None, "slice": lambda: slice(1, 2), "timedelta": lambda: timedelta(1),
    "NotImplemented": lambda: NotImplemented, "...": lambda: ..., "type": lambda: int, "Index": Index,
    "dict": lambda: {"a": 1, "b": 2}, "{}": dict, "D": lambda: D(a=1, b=2), "Missing": lambda: Missing(a=1), "Joined": lambda: Joined(a=1),
    "OrderedDict": lambda: OrderedDict(b=2, a=1), "O": lambda: O(a=1, b=2), "Keyed": lambda: Keyed(a=1, k=5),
    "Counter": lambda: Counter(a=1, b=-2, c=3), "K": lambda: K(a=1, b=2), "Counted": lambda: Counted("abca"),
    "defaultdict": lambda: defaultdict(list, a=[1]), "DD": lambda: DD(int, a=1), "ChainMap": lambda: ChainMap({"a": 1}, {"b": 2}),
    "CM": lambda: CM({"a": 1}, {"a": 3, "b": 2}), "UserDict": lambda: UserDict(a=1, b=2), "U": lambda: U(a=1, b=2),
    "proxy": lambda: types.MappingProxyType({"a": 1, "b": 2}),
}  # fmt: skip
#: The same of what is the second value alone.
OTHERS = MADE | {
    "Mapped": Mapped, "Reflected": Reflected, "numbers": lambda: {1: 2}, "-1": lambda: -1, "0": lambda: 0, "1000": lambda: 1000,
    "nan": lambda: float("nan"), "iterator": lambda: iter([1, 2]), "keys": lambda: {1: 2}.keys(), "items": lambda: {"a": 1}.items(),
    "ordered keys": lambda: OrderedDict(a=1).keys(), "pairs": lambda: [("a", 5), ("z", 6)], "no pairs": lambda: [("a",)],
    "no keys": lambda: [([], 1)], "one pair": lambda: iter([("a", 9)]),
}  # fmt: skip


def shown(value, depth=0):
    """As text that tells types and elements, and no addresses."""
    name, again = type(value).__name__, lambda items: [shown(item, depth + 1) for item in items]
    if depth > 4:
        return "..."
    if isinstance(value, (list, tuple)):
        return name, again(tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value))
    if isinstance(value, (set, frozenset)):
        return name, sorted(map(repr, (set if isinstance(value, set) else frozenset).__iter__(value)))
    if isinstance(value, ChainMap):
        return name, again(value.maps)
    if isinstance(value, UserDict):
        return name, shown(value.data, depth)
    if isinstance(value, dict):
        pairs = [(bare(key), shown(item, depth + 1)) for key, item in dict.items(value)]
        return name, pairs, bare(getattr(value, "default_factory", None))
    if name.endswith("iterator") or name == "generator":
        return "iterator"
    return name, bare(value) if not isinstance(value, (types.MethodType, types.BuiltinFunctionType)) else ""


def bare(value):
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def outcome(program, a, b):
    """The result, or the class of the error, and both values after it."""
    try:
        told = shown(program(a, b))
    except Exception as error:
        told = type(error).__name__
    return told, shown(a), shown(b)
