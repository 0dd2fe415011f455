"""Lists and dicts that the program's special methods change, or leave by an exception, while C goes over them."""

import itertools

import pytest
import torch

from tests.differential import check, execute

#: The keys do something once, in the middle of the call.
WORLD = """
import bisect, heapq
from collections import OrderedDict, defaultdict, deque
class K:
    def __init__(self, v, box=None, do=None): self.v, self.box, self.do = v, box, do
    def act(self):
        do, self.do = self.do, None
        if do: do(self.box)
    def __eq__(self, other): self.act(); return self.v == getattr(other, 'v', None)
    def __lt__(self, other): self.act(); return self.v < other.v
    def __hash__(self): return self.v
    def __repr__(self): self.act(); return f'K{self.v}'
class D:
    def __init__(self, error): self.error = error
    def __get__(self, owner, kind=None): raise self.error
def shown(run, box):
    try:
        got = run()
    except Exception as e:
        got = type(e), str(e), len(list(trace(e.__traceback__)))
    return got, [x.v if isinstance(x, K) else x for x in box]
def trace(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next
"""

DONE = (
    "b.clear()", "b.append(K(9))", "b.pop()", "b.insert(0, K(0))", "b.reverse()", "b.__setitem__(0, K(5))", "b[9]",
)  # fmt: skip

CALLS = (
    "repr(b)", "str((b, b))", "f'{b}'", "str(deque(b))", "repr({1: b})", "heapq.heapify(b)", "heapq.heappush(b, K(0))",
    "heapq.heappop(b)", "heapq.heapreplace(b, K(4))", "heapq.heappushpop(b, K(4))", "heapq.nsmallest(2, b)",
    "heapq._heapify_max(b)", "heapq._heappop_max(b)", "heapq._heapreplace_max(b, K(2))", "bisect.bisect(b, K(3))",
    "bisect.bisect_left(b, K(3), key=lambda k: k)", "bisect.insort(b, K(2))", "bisect.insort_left(b, K(6), 1, -1)",
)  # fmt: skip


def program(body):
    scope = {}
    execute(WORLD + "def f(x):\n" + "".join(f"    {line}\n" for line in body) + "    return r, x + 1\n", scope)
    return scope["f"]


@pytest.mark.sampled(14)
@pytest.mark.parametrize("call,done,at", itertools.product(CALLS, DONE, range(4)))
def test_a_list_that_changes_meanwhile(call, done, at):
    body = ["b = [K(1), K(3), K(5), K(7)]", f"b[{at}].box, b[{at}].do = b, lambda b: {done}"]
    check(program([*body, f"r = shown(lambda: {call}, b)"]), torch.ones(2))


@pytest.mark.parametrize("done", ["d.pop(1)", "d.update({9: 9})", "d.update({2: 9})", "d.update({1: d[1]})", "d[7]"])
@pytest.mark.parametrize("d", ["dict", "OrderedDict", "lambda d: defaultdict(int, d)", "type('D', (dict,), {})"])
@pytest.mark.parametrize("call", ["repr(d)", "str(d.values())", "f'{d.items()}'"])
def test_a_dict_that_changes_meanwhile(call, d, done):
    body = ["k = K(1)", f"d = ({d})({{1: k, 2: K(2)}})", f"k.box, k.do = d, lambda d: {done}"]
    check(program([*body, f"r = shown(lambda: {call}, list(d.items()))"]), torch.ones(2))


@pytest.mark.parametrize("call", ["heappop([])", "heapreplace([], 1)", "heappushpop([], 1)", "heappush(1, 2)"])
def test_what_the_native_heaps_say(call):
    check(program([f"r = shown(lambda: heapq.{call}, [])"]), torch.ones(2))


@pytest.mark.parametrize("call", ["bisect([1, 3], 2, -1)", "bisect([1, 3], 2, 0, 5)", "insort((), 2)", "bisect([1], 'a')"])
def test_what_the_native_bisections_say(call):
    check(program([f"r = shown(lambda: bisect.{call}, [])"]), torch.ones(2))


@pytest.mark.parametrize("error", ["AttributeError('a')", "AttributeError()", "KeyError('k')"])
@pytest.mark.parametrize("use", ["C().x()", "C().x", "C.x()", "getattr(C(), 'x')()", "C().x(1, k=2)", "super(C, E()).x()"])
def test_whose_attribute_an_error_of_a_descriptor_is_about(use, error):
    told = "r = type(e), e.args, getattr(e, 'name', 0), type(getattr(e, 'obj', 0)).__name__"
    body = [f"C = type('C', (), {{'x': D({error})}})", "class E(C): pass", "try:", f"    r = {use}"]
    check(program([*body, "except Exception as e:", f"    {told}"]), torch.ones(2))


@pytest.mark.parametrize("use", ["C().x", "C().x()", "getattr(C(), 'x', 0)", "hasattr(C(), 'x')", "C.x"])
@pytest.mark.parametrize("error", [lambda: AttributeError("a"), lambda: AttributeError("a", name="b"), lambda: KeyError(1)])
def test_an_error_that_existed_is_told_too(use, error):
    body = ["C = type('C', (), {'x': D(g)})", "try:", f"    r = {use}", "except Exception as e:"]
    body += ["    r = e is g, getattr(e, 'name', 0), type(getattr(e, 'obj', 0)).__name__"]
    text = "def f(x, g):\n" + "".join(f"    {line}\n" for line in body) + "    return r, x + 1, getattr(g, 'name', 0)\n"
    scope = {"__name__": "given"}
    execute(WORLD + text, scope)
    check(scope["f"], torch.ones(2), error())
