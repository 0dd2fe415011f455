"""The standard library of constants: text that is known when tracing is computed then, and none of the program's code."""

import abc
import base64
import binascii
import copy
import dataclasses
import enum
import fnmatch
import json
import os
import pprint
import typing
import unicodedata
import urllib.parse
import zlib

import jit
from tests.differential import same_as_eager

UserId = typing.NewType("UserId", int)


class Col(enum.IntEnum):
    A = 1

    def __repr__(self):
        print("asked")
        return "A"


class Cs(str, enum.Enum):
    A = "a"


class P:
    def __repr__(self):
        print("asked")
        return "P!"


@same_as_eager(graphs=1)
def test_a_new_type_of_a_module(x): return x * UserId(3), UserId.__name__, UserId(x) is x


@same_as_eager(graphs=1)
def test_a_new_type(x):
    U = typing.NewType("U", int)
    return x * U(3), U.__supertype__, U.__name__, U.__module__


@same_as_eager
def test_a_variable_of_types(x):
    V = typing.TypeVar("V", bound=int)
    class G(typing.Generic[V]): pass
    return x + 1, V.__name__, V.__bound__, V.__module__, G[int].__args__


@same_as_eager(graphs=1)
def test_a_class_is_registered(x):
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self): ...
    class B: pass
    class C(B): pass
    r = A.register(B)
    return x + 1, r is B, isinstance(B(), A), issubclass(C, A), isinstance(3, A), A


@same_as_eager(graphs=1)
def test_registration_as_a_decorator(x):
    class A(abc.ABC): pass
    @A.register
    class B: pass
    A.register(int)
    return x + 1, isinstance(B(), A), isinstance(3, A), issubclass(str, A), B


@same_as_eager(graphs=1)
def test_registration_in_a_circle(x):
    class A(abc.ABC): pass
    class B(A): pass
    A.register(B)
    try: B.register(A)
    except RuntimeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_json_of_constants(x): return x + 1, json.dumps({"a": [1, 2.5, None, True], "b": {"c": "d"}}), json.loads('{"a": [1, 2, {"b": null}]}'), json.dumps([1, 2], indent=2, sort_keys=True)


@same_as_eager(graphs=1)
def test_json_that_is_none(x):
    d = json.loads('{"w": 2, "l": [1]}'); d["l"].append(3)
    try: json.loads("{")
    except json.JSONDecodeError as e: m = str(e)
    try: json.dumps({1, 2})
    except TypeError as e: m2 = str(e)
    return x * d["w"], d, m, m2


@same_as_eager
def test_a_list_that_holds_itself(x):
    l = []; l.append(l)
    try: return x + 1, json.dumps(l)
    except ValueError as e: return x - 1, str(e)


@same_as_eager
def test_a_list_that_holds_itself_thrice(x):
    l = [1]; l += [l, l, l]
    try: return x + 1, json.dumps(l)
    except ValueError as e: return x - len(str(l)), str(e), list(map(str, l)), copy.deepcopy(l)[-1][-1][0]


@same_as_eager(graphs=1)
def test_lists_that_hold_one_another_twice(x):
    l = [1]
    for _ in range(40): l = [l, l]
    return x + len(l), l[0] is l[1], tuple(l)[0] is l[1], isinstance(l, list)


@same_as_eager
def test_members_whose_text_is_the_program_s(x): return x + 1, json.dumps([Col.A, Cs.A]), pprint.pformat([Cs.A]), json.dumps({"k": Col.A})


@same_as_eager
def test_a_member_in_a_list(x): return x + 1, json.dumps([Col.A])


@same_as_eager(graphs=1)
def test_a_member_of_text(x): return x + 1, json.dumps({"k": Cs.A})


@same_as_eager(graphs=1)
def test_pretty_text(x): return x + 1, pprint.pformat({"a": [1, 2], "b": (3,)}), pprint.pformat([1] * 50, width=20)


@same_as_eager
def test_pretty_text_of_an_object(x): return x + 1, pprint.pformat([P()])


@same_as_eager(graphs=1)
def test_names_and_bytes(x):
    return x + 1, fnmatch.filter(["a.py", "b.c"], "*.py"), unicodedata.normalize("NFKD", "é"), base64.b64encode(b"abc"), base64.b64decode("YWJj"), urllib.parse.quote("a b"), os.path.commonprefix(["ab", "ac"]), b"ab".hex()


@same_as_eager(graphs=1)
def test_sums_over_bytes(x):
    packed = zlib.compress(b"words" * 9)
    return x + zlib.crc32(b"words") % 3, zlib.adler32(b"words", 7), zlib.decompress(packed), binascii.crc32(b"w", zlib.crc32(b"v"))


@same_as_eager(graphs=1)
def test_a_dataclass_is_made(x):
    C = dataclasses.make_dataclass("C", [("a", int), "b", ("c", int, dataclasses.field(default=5))], namespace={"s": lambda self: self.a + self.c})
    c = C(1, x)
    return c.b * c.s(), repr(C(1, 2)), C.__module__, C.__qualname__


@same_as_eager(graphs=1)
def test_a_dataclass_is_made_of_a_base(x):
    class B:
        def f(self): return self.x
    C = dataclasses.make_dataclass("C", ["x", "y"], bases=(B,), frozen=True)
    return C(x, 1).f() + 1, C


def test_pretty_text_of_keys_that_have_no_order():
    """They are sorted by their addresses."""
    keys, others = [(1,), (None,)], [(None,), (1,)]
    compiled = jit.compile(lambda keys: pprint.pformat([dict.fromkeys(keys, 0)]), backend="eager")
    for each in (keys, others, keys[::-1], others[::-1]):
        one, other = sorted(each, key=id)
        assert compiled(each) == f"[{{{one}: 0, {other}: 0}}]"
