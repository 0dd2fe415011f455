"""Objects of classes derived from `int`, `str`, `list`, ...: their methods are theirs, and what is said of them names
their class; how calls fail that take arguments from no iterable, or names that are none."""

import contextlib
import io

import pytest
import torch

import jit
from tests.differential import check, execute

WORLD = """
import collections
from collections import Counter, OrderedDict, deque
class N(int): pass
class S(str): pass
class T(tuple): pass
class F(float): pass
class L(list): pass
class D(dict): pass
class A(set): pass
class B(bytearray): pass
class Q(deque): pass
class O: pass
class V(int):
    def __add__(self, other): return 1
class Bad:
    def __index__(self): return 'x'
    def __iter__(self): return 5
class M:
    def __init__(self, keys): self.made = keys
    def keys(self):
        print('keys')
        return self.made()
    def __getitem__(self, key):
        print('got', key)
        return key
def drawn():
    for key in 'ab':
        print('key', key)
        yield key
def nothing(): pass
def method(obj, name):
    m = getattr(obj, name)
    return m.__self__ is obj, type(m.__self__), m.__qualname__, m == getattr(obj, name)
"""

FAIL = (
    "N(1)[0]", "V(1)[0]", "iter(N(1))", "[*N(1)]", "1 in N(1)", "list(V(1))", "dict(N(1))", "zip(N(1))", "max(N(1))",
    "reversed(N(1))", "~S('a')", "-S('a')", "abs(S('a'))", "~F(1)", "F(1)[0:1]", "int(T())", "float(T())", "T() + N(2)",
    "S('a') + T()", "'a' + N(2)", "b'a' + S('a')", "T((1,)) * F(2)", "[1] * F(2)", "f'{N(1):s}'", "f'{S(1):d}'",
    "S('a').upper(O())", "S('a').center(key=1)", "S('a').format_map()", "N(1).conjugate(2)", "F(1).hex(2)",
    "L().append()", "L().clear(key=3)", "T().count()", "D().get()", "A().add()", "L().__getitem__()", "Q().append()",
    "bytearray().pop(S('a'))", "bytearray(b'a').find(T())", "OrderedDict().pop(T((1,)))",
    "__import__('array').array('i').fromlist({})", "'a'.join(Bad())", "[].__setitem__(slice(0), Bad())",
    "nothing(*1)", "nothing(*N(1))", "nothing(*O())", "nothing(**1)", "print(*1)", "(lambda: 0)(*None)", "O(*int)",
    "nothing(**{1: 2})", "'{a}'.format(**{1: 2})", "max(**{1: 2})", "O(**{None: 2})", "Exception(**{1: 2})",
    "{**M(lambda: 5)}", "nothing(**M(Bad))", "dict(M(lambda: 5))", "OrderedDict(M(lambda: 5))",
)  # fmt: skip

GIVE = (
    "'{a}'.format(**{'a': 1, 2: 3})", "OrderedDict(**{1: 2})", "{**M(drawn)}", "dict(M(drawn))", "OrderedDict(M(drawn))",
    "dict().update(M(lambda: ['a', 'b']))", "int(S('3'))", "int(V(3))",
    "type(S('a').format_map({}))", "f'{N(1):d}'", "f'{F(1):5.2f}'", "type(S('a') + 'b')", "T((1,)) + T((2,))",
    *(f"(lambda m: (m is m.{name}({given}), type(m)))({made})" for made, name, given in (
        ("L([1])", "__iadd__", "[2]"), ("L([1])", "__imul__", "2"), ("D(a=1)", "__ior__", "{1: 2}"),
        ("A([1])", "__ior__", "{2}"), ("A([1])", "__iand__", "{1}"), ("A([1])", "__isub__", "{1}"),
        ("A([1])", "__ixor__", "{1}"), ("Q([1])", "__iadd__", "[2]"), ("B(b'a')", "__iadd__", "b'b'"),
        ("L([1])", "__add__", "[]"), ("A([1])", "__or__", "{1}"), ("D(a=1)", "__or__", "{}"),
    )),
    *(f"method({made}, {name!r})" for made, name in (
        ("N(5)", "conjugate"), ("S('a')", "upper"), ("T((1,))", "count"), ("F(1)", "hex"), ("L()", "append"),
        ("D()", "get"), ("A()", "add"), ("B()", "find"), ("Q()", "append"), ("V(5)", "__sub__"), ("[]", "append"),
    )),
)  # fmt: skip


def program(body, last):
    scope = {"__name__": "given"}
    execute(WORLD + "def f(x):\n" + "".join(f"    {line}\n" for line in body) + f"    return {last}, x + 1\n", scope)
    return scope["f"]


@pytest.mark.parametrize("call", FAIL)
def test_what_is_said(call):
    check(program(["try:", f"    r = {call}", "except Exception as e:", "    r = type(e), str(e)"], "r"), torch.ones(2))
    check(program([], call), torch.ones(2))


@pytest.mark.parametrize("called", ["L().append", "T().count", "S('a').upper", "N(1).conjugate", "D().get", "Q().append"])
@pytest.mark.parametrize("given", ["", "1, 2, 3", "key=1", "O()"])
def test_what_is_said_of_a_method_that_was_read_before(called, given):
    body = [f"m = {called}", "try:", f"    r = m({given})", "except Exception as e:", "    r = type(e), str(e)"]
    check(program(body, "r"), torch.ones(2))


@pytest.mark.parametrize("call", GIVE)
def test_what_is_given(call):
    check(program([], call), torch.ones(2))


@pytest.mark.parametrize("made,name", [("N(5)", "conjugate"), ("S('a')", "upper"), ("T()", "count"), ("L()", "append")])
def test_whose_a_method_is(made, name):
    check(program([f"v = {made}"], f"v, v.{name}, v.{name}.__self__ is v"), torch.ones(2))
    check(program([f"v = {made}", f"m = v.{name}", "print(m.__self__ is v)"], "m"), torch.ones(2))


@pytest.mark.parametrize("call", ["'{a}'.format(**given)", "OrderedDict(**given)", "nothing(**given)", "print(a=1, **given)"])
def test_keys_that_are_no_names_where_the_mapping_is_read_by_the_interpreter(call):
    body = ["given = M(lambda: [1, 'a'])", "try:", f"    r = {call}", "except Exception as e:", "    r = type(e), str(e)"]
    found = []
    for made in (lambda f: f, lambda f: jit.compile(f, backend="eager")):
        with contextlib.redirect_stdout(io.StringIO()) as printed:  # where prints break the graph
            found.append((made(program(body, "r"))(torch.ones(2))[0], printed.getvalue()))
    assert found[0] == found[1]
