"""Graph breaks: the program goes on after the instruction that is not captured, wherever that stands.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import collections
import contextlib
import dataclasses
import importlib
import sys
import textwrap

import pytest
import sympy
import torch

import jit
from tests.differential import COUNTING, Counting, check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


@jit.disable
def unsupported(*args):
    """Opaque to the compiler: it counts its calls, which must be those of eager."""
    ran.append(len(args))
    return len(ran)


ran = []


class Guarded:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, *rest):
        self.log.append(("out", kind and kind.__name__))
        return self.swallow


@contextlib.contextmanager
def yielding(log):
    log.append("in")
    try:
        yield 2
    finally:
        log.append("out")


BREAKS = {"graph_break": "jit.graph_break()", "unsupported": "unsupported(1)", "sys call": "sys.getswitchinterval()"}

# name -> (program with BREAK in it, graphs captured in one call where the break is jit.graph_break())
PLACES = {
    "in the middle": ("y = x + 1\nBREAK\nreturn y * 2", 2),
    "at the start": ("BREAK\nreturn x * 2", 1),
    "at the end": ("y = x * 2\nBREAK\nreturn y", 1),
    "twice": ("y = x + 1\nBREAK\ny = y * 2\nBREAK\nreturn y - 3", 3),
    "without tensors": ("n = 1\nBREAK\nreturn n + 1", 0),
    "for loop": ("for i in range(3):\n    x = x + i\n    BREAK\nreturn x * 2", None),
    "for loop over a list": ("ys = [x, x + 1]\nout = []\nfor y in ys:\n    BREAK\n    out.append(y * 2)\nreturn out", None),
    "for loop over enumerate and zip": ("out = []\nfor i, (a, b) in enumerate(zip([x, x * 2], [1, 2])):\n    out.append(a * b + i)\n    BREAK\nreturn out", None),
    "for loop with else": ("for i in range(2):\n    x = x + 1\n    BREAK\nelse:\n    x = x * 3\nreturn x", None),
    "while loop": ("n = 0\nwhile n < 3:\n    n += 1\n    x = x + n\n    BREAK\nreturn x, n", None),
    "nested loops": ("for i in range(2):\n    for j in range(2):\n        x = x + i * j\n        BREAK\n    x = x * 2\nreturn x", None),
    "loop with continue and break": ("for i in range(5):\n    if i == 1:\n        continue\n    if i == 3:\n        break\n    BREAK\n    x = x + i\nreturn x, i", None),
    "if": ("if x.dim() == 2:\n    y = x + 1\n    BREAK\n    y = y * 2\nelse:\n    y = x\nreturn y", 2),
    "no_grad": ("with torch.no_grad():\n    y = x + 1\n    BREAK\n    z = y * 2, torch.is_grad_enabled()\nreturn z, torch.is_grad_enabled(), x * 3", 2),
    "autocast": ("with torch.autocast('cpu', dtype=torch.bfloat16):\n    y = x @ x.t()\n    BREAK\n    z = y @ y\nreturn z, x @ x.t()", 2),
    "inference mode": ("with torch.inference_mode():\n    y = x + 1\n    BREAK\n    z = y * 2, torch.is_inference_mode_enabled()\nreturn z", None),
    "two withs": ("with torch.no_grad(), torch.autocast('cpu', dtype=torch.bfloat16):\n    y = x @ x.t()\n    BREAK\n    z = y @ y\nreturn z, torch.is_grad_enabled()", 2),
    "own with": ("log = []\nwith Guarded(log) as g:\n    y = x + 1\n    BREAK\n    g.log.append('body')\n    y = y * 2\nreturn y, log", 2),
    "with a generator": ("log = []\nwith yielding(log) as k:\n    y = x + k\n    BREAK\n    y = y * 2\nreturn y, log", None),
    "with that returns": ("log = []\nwith Guarded(log):\n    y = x + 1\n    BREAK\n    return y * 2, log", 2),
    "with that swallows": ("log = []\nwith Guarded(log, True):\n    y = x + 1\n    BREAK\n    raise ValueError\nreturn x * 2, y, log", 2),
    "with in a loop": ("log = []\nfor i in range(2):\n    with Guarded(log):\n        x = x + 1\n        BREAK\n        x = x * 2\nreturn x, log", None),
    "try": ("try:\n    y = x + 1\n    BREAK\n    y = y * 2\nexcept ValueError:\n    y = x\nreturn y", 2),
    "try that raises": ("try:\n    y = x + 1\n    BREAK\n    raise ValueError('v')\nexcept ValueError as e:\n    return y * 2, str(e)", 2),
    "except handler": ("try:\n    raise ValueError('v')\nexcept ValueError as e:\n    y = x + 1\n    BREAK\n    y = y * 2, str(e)\nreturn y", 2),
    "except handler that raises again": ("try:\n    try:\n        raise KeyError('k')\n    except KeyError:\n        x = x + 1\n        BREAK\n        raise\nexcept KeyError as e:\n    return x * 2, e.args", 2),
    "except handler with context": ("try:\n    try:\n        raise KeyError('k')\n    except KeyError:\n        BREAK\n        raise ValueError('v')\nexcept ValueError as e:\n    return x * 2, repr(e.__context__)", 1),
    "handled exception is current": ("try:\n    raise KeyError('k')\nexcept KeyError:\n    BREAK\n    x = x + 1, sys.exc_info()[0]\nreturn x, sys.exc_info()[0]", None),
    "finally": ("try:\n    y = x + 1\nfinally:\n    BREAK\n    z = x * 2\nreturn y, z", 2),
    "finally after a return": ("log = []\ntry:\n    return x + 1, log\nfinally:\n    BREAK\n    log.append('f')", None),
    "finally while it raises": ("log = []\ntry:\n    try:\n        y = x + 1\n        raise ValueError\n    finally:\n        BREAK\n        log.append(y * 2)\nexcept ValueError:\n    pass\nreturn log", 2),
    "else of try": ("try:\n    y = x + 1\nexcept ValueError:\n    pass\nelse:\n    BREAK\n    y = y * 2\nreturn y", 2),
    "in an expression": ("return (x + 1) * (BREAK or 2) + x", 2),
    "among arguments": ("f = lambda *a: a\nreturn f(x + 1, BREAK, x * 2, k) if False else f(x + 1, [BREAK], x * 2)", 2),
    "in a list display": ("return [x + 1, BREAK, x * 2]", 2),
    "in a dict display": ("return {'a': x + 1, 'b': BREAK, 'c': x * 2}", 2),
    "in an f-string": ("y = x + 1\ns = f'{1}{BREAK}{2}'\nreturn y * 2, s", 2),
    "in a condition": ("y = x + 1\nif BREAK is None or True:\n    y = y * 2\nreturn y", 2),
    "in a comprehension": ("return [(x + i, BREAK) for i in range(2)]", None),
    "in a generator expression": ("return list((x + i, BREAK) for i in range(2))", None),
    "in a lambda": ("f = lambda t: (t + 1, BREAK)\nreturn f(x), x * 2", 2),
    "in a closure": ("n = 1\ndef f(t):\n    nonlocal n\n    n += 1\n    BREAK\n    return t * n\ny = f(x + 1)\nreturn y, n, f", 2),
    "in a callee": ("def f(t):\n    t = t + 1\n    BREAK\n    return t * 2\nreturn f(x + 3) - 1", 2),
    "in a callee with keywords": ("def f(t, *args, k=2, **kw):\n    t = t + k\n    BREAK\n    return t * len(args), kw\nreturn f(x + 3, 1, 2, k=5, z=x)", 2),
    "in a callee in a loop": ("def f(t, i):\n    t = t + i\n    BREAK\n    return t\nfor i in range(3):\n    x = f(x, i) * 2\nreturn x", None),
    "in a callee in a try": ("def f(t):\n    BREAK\n    raise KeyError('k')\ntry:\n    f(x + 1)\nexcept KeyError as e:\n    return x * 2, e.args", None),
    "in a callee in a with": ("log = []\ndef f(t):\n    t = t + 1\n    BREAK\n    return t * 2\nwith Guarded(log), torch.no_grad():\n    y = f(x)\nreturn y, log, torch.is_grad_enabled()", 2),
    "in a callee with a try": ("def f(t):\n    try:\n        t = t + 1\n        BREAK\n        raise KeyError\n    except KeyError:\n        return t * 2\n    finally:\n        t = t - 1\nreturn f(x + 3) - 1", 2),
    "in a generator's consumer": ("def g(t):\n    for i in range(3):\n        yield t + i\nout = []\nfor y in g(x):\n    BREAK\n    out.append(y * 2)\nreturn out", None),
    "in a generator": ("def g(t):\n    for i in range(3):\n        t = t + i\n        BREAK\n        yield t\nreturn [y * 2 for y in g(x)]", None),
    "in a method": ("class A:\n    def __init__(self, t):\n        self.t = t + 1\n        BREAK\n        self.u = t * 2\na = A(x)\nreturn a.t, a.u", None),
    "with things on the stack": ("d = {'k': [1, 2]}\nd['k'][0 if BREAK is None else 0] = x + 1\nreturn d", None),
    "in an augmented assignment": ("xs = [x]\nxs[0] += (BREAK is None) + 1\nreturn xs", None),
    "in an unpacking": ("a, (b, *c) = x + 1, (x * 2, BREAK, 3)\nreturn a, b, c", 1),
    "in a with header": ("log = []\nwith Guarded(log if BREAK is None or True else None):\n    y = x + 1\nreturn y, log", None),
    "in a match": ("match x.dim():\n    case 2:\n        y = x + 1\n        BREAK\n        y = y * 2\n    case _:\n        y = x\nreturn y", 2),
    "with a mutated list": ("xs = [x]\nxs.append(x + 1)\nBREAK\nxs.append(xs[1] * 2)\nreturn xs", 2),
    "with a mutated input": ("x.add_(1)\nBREAK\nx.mul_(2)\nreturn x + 1", 2),
    "with a view across": ("v = x.view(-1)\nBREAK\nv.add_(1)\nreturn x * 2, v", None),
    "with an iterator across": ("it = iter([1, 2, 3])\nx = x + next(it)\nBREAK\nreturn x * next(it), list(it)", 2),
    "with a born object across": ("g = Guarded([x + 1])\ng.self = g\nBREAK\ng.log.append(g.log[0] * 2)\nreturn g", 2),
    "with a closure across": ("k = x + 1\nf = lambda t: t * k\nBREAK\nk = k + 1\nreturn f(x), f", 2),
    "with random numbers": ("y = torch.rand(4) + x\nBREAK\nreturn y + torch.rand(4)", 2),
    "with deleted locals": ("y = x + 1\ndel x\nBREAK\nx = y * 2\nreturn x", 2),
    "with an unbound local": ("if x.dim() == 9:\n    z = 1\ny = x + 1\nBREAK\nreturn y * 2", 2),
    "before an error": ("y = x + 1\nBREAK\nraise ValueError(y.shape)", None),
    "before an error of torch": ("y = x + 1\nBREAK\nreturn y @ torch.ones(9)", None),
    "star arguments": ("def f(*a, **k):\n    return a, k\nreturn f(*[x + 1, BREAK], **{'z': x * 2})", 2),
    "global write": ("global written\nwritten = x + 1\nBREAK\nwritten = written * 2\nreturn written", 2),
    "import across": ("import math\ny = x * math.pi\nBREAK\nfrom math import e\nreturn y * e", 2),
}

written = None


def _program(body, break_):
    scope = {"torch": torch, "jit": jit, "sys": sys, "unsupported": unsupported, "ran": ran, "Guarded": Guarded, "yielding": yielding,
             "__name__": __name__, "written": None}
    text = "def program(x):\n" + textwrap.indent(body.replace("BREAK", break_), "    ") + "\n"
    execute(text, scope)
    return scope["program"]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("break_", BREAKS)
@pytest.mark.parametrize("place", PLACES)
def test_break(place, break_):
    body, graphs = PLACES[place]
    expected = graphs if break_ in ("graph_break", "unsupported") else None
    check(_program(body, BREAKS[break_]), X, graphs=expected, fullgraph=False,
          changed=[tensors(3, 4, seed=4)], recompiles=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", list(PLACES)[::2])
def test_break_with_gradients(place):
    if place in ("with a mutated input", "with a view across"):
        pytest.skip("a leaf that requires grad is not changed in place")
    check(_program(PLACES[place][0], "jit.graph_break()"), tensors(3, 4, requires_grad=True)[0])


# --- one break for a whole stack of frames ---------------------------------------------------------------------

def innermost(x):
    for _ in range(3):
        x = x.cos()
    sys.getswitchinterval()
    for _ in range(3):
        x = x.cos()
    return x


def middle(x):
    return innermost(x)


def outermost(x):
    return middle(x)


def test_three_nested_functions_are_two_graphs():
    check(outermost, X, graphs=2, breaks=1)
    counter = Counting()
    f = jit.compile(outermost, backend=counter)
    f(X)
    counter.expect(2)
    if COUNTING:
        assert [sum(node.op.startswith("call") for node in gm.graph.nodes) for gm in counter.graphs] == [3, 3]
    for _ in range(3):
        f(X)
    counter.expect(2)


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_break_in_a_callee_this_deep(depth):
    log = []

    def down(x, n):
        log.append(n)
        x = x + n
        if n == 0:
            jit.graph_break()
            return x.sin()
        y = down(x * 2, n - 1)
        log.append(-n)
        return y.cos() + n
    check(lambda x: down(x, depth), X, graphs=2)


def test_two_breaks_five_deep_are_three_graphs():
    def leaf(x):
        x = x + 1
        jit.graph_break()
        x = x * 2
        jit.graph_break()
        return x - 3

    def a(x):
        return leaf(x) + 1

    def b(x):
        with torch.no_grad():
            return a(x) * 2

    def c(x):
        try:
            return b(x)
        finally:
            log.append("c")

    def d(x):
        x = c(x)
        return x.sum()
    log = []
    check(d, X, graphs=3)


def test_breaks_inside_a_loop_of_the_caller():
    """After a break the loop's iterator is an object of the running program: each round asks it by a break of its own."""
    def leaf(x):
        x = x + 1
        jit.graph_break()
        return x * 2

    def loop(x):
        for _ in range(3):
            x = leaf(x)
        return x.sum()
    check(loop, X)


def test_exception_after_a_break_five_deep_passes_all_frames():
    log = []

    def down(x, n):
        try:
            if n == 0:
                x = x + 1
                jit.graph_break()
                raise KeyError(x.shape)
            return down(x, n - 1)
        finally:
            log.append(n)
    check(lambda x: down(x, 5), X, traceback="full")


def test_exception_after_a_break_is_handled_in_an_outer_frame():
    def fails(x):
        x = x + 1
        jit.graph_break()
        raise KeyError("inner")

    def outer(x):
        try:
            return fails(x)
        except KeyError as e:
            return x * 2, e.args
    check(outer, X, graphs=2)


# --- never twice -----------------------------------------------------------------------------------------------

def test_each_part_runs_once():
    calls = []

    def note(name):
        calls.append(name)
        return len(calls)

    def program(x):
        y = x + note("before")
        unsupported()
        note("between")
        for i in range(2):
            y = y * note(i)
            unsupported()
        return y + note("after")
    check(program, X)


def test_opaque_function_runs_as_often_as_in_eager():
    counts = {"opaque": 0}

    @jit.disable
    def opaque(t):
        counts["opaque"] += 1
        return t.sum().item()

    def program(x):
        total = opaque(x + 1)
        total += opaque(x * 2)
        return x * total
    check(program, X)


def test_disabled_function_gets_real_tensors():
    @jit.disable
    def opaque(t):
        return type(t).__name__, t.tolist(), jit.is_compiling()
    check(lambda x: (opaque(x + 1), x * 2), X)


# --- tensors that decide -----------------------------------------------------------------------------------------

DECISIONS = {
    "if": "if x.sum() > 0:\n    return x + 1\nreturn x - 1",
    "if else": "y = x * 2\nif (y > 0).all():\n    z = y + 1\nelse:\n    z = y - 1\nreturn z * 3",
    "if not": "if not x.sum() > 0:\n    return x * 2\nreturn x * 3",
    "and or": "return x + 1 if (x.sum() > 0 and x[0, 0] > 0) or x[1, 1] > 0 else x - 1",
    "while": "n = 0\nwhile x.abs().sum() > 1:\n    x = x / 2\n    n += 1\nreturn x, n",
    "ternary in arguments": "return torch.add(x, 1 if x.sum() > 0 else 2)",
    "comparison of items": "return x + (1 if x[0, 0].item() > x[1, 1].item() else 2)",
    "int of a tensor": "n = int(x.abs().sum()) % 5\nreturn x[:, :n] if n else x",
    "float of a tensor": "return x * float(x.max())",
    "loop bound": "for i in range(int(x.abs().max()) + 1):\n    x = x + i\nreturn x",
    "bool of a tensor": "flag = bool((x > 0).any())\nreturn x + flag, flag",
    "assert": "assert (x * x).sum() >= 0, 'negative'\nreturn x + 1",
    "index by a tensor": "i = x.argmax().item() % 3\nreturn [x, x + 1, x + 2][i]",
    "in": "return x + 1, 1.0 in x",
    "numpy": "return x + 1, x.numpy().shape, x.detach().numpy().sum()",
    "tolist": "return x + len(x.flatten().tolist())",
    "nested ifs": "if x.sum() > 0:\n    if x.max() > 1:\n        x = x + 1\n    else:\n        x = x + 2\nelif x.min() < -1:\n    x = x + 3\nreturn x * 2",
    "in a callee": "def f(t):\n    if t.sum() > 0:\n        return t + 1\n    return t - 1\nreturn f(x) + f(-x)",
    "in a with": "with torch.no_grad():\n    if x.sum() > 0:\n        x = x + 1\n    y = x * 2\nreturn y, torch.is_grad_enabled()",
    "in a try": "try:\n    if x.sum() > 0:\n        raise ValueError('positive')\n    return x + 1\nexcept ValueError as e:\n    return x - 1, str(e)",
    "nonzero": "return x.nonzero(), x[x > 0].sum() + 1",
    "more than one value": "if x > 0:\n    return x\nreturn -x",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", DECISIONS)
def test_tensor_decides(what):
    check(_program(DECISIONS[what], ""), X, changed=[(-X,), (X * 0,), (X * 10,)])


def test_tensor_valued_if_continues_on_the_taken_side():
    counter = Counting()

    def program(x):
        y = x.sin()
        if y.sum() > 0:
            return y.cos() + 1, "positive"
        return y.exp() - 1, "negative"

    def same(one, other):
        return torch.equal(one[0], other[0]) and one[1] == other[1]

    f = jit.compile(program, backend=counter)
    positive, negative = torch.ones(3), -torch.ones(3)
    assert same(f(positive), program(positive))
    counter.expect(2)
    assert same(f(negative), program(negative))
    counter.expect(3, "(the other side, once)")
    assert same(f(positive), program(positive)) and same(f(negative), program(negative))
    counter.expect(3)


# --- what the user reads ---------------------------------------------------------------------------------------

def test_fullgraph_refuses():
    if not COUNTING:
        pytest.skip("with a break forced after every call nothing is one graph")

    def program(x):
        y = x + 1
        jit.graph_break()
        return y * 2
    with pytest.raises(jit.Unsupported) as error:
        jit.compile(program, fullgraph=True, backend="eager")(X)
    text = str(error.value)
    assert "test_graph_breaks.py" in text and str(program.__code__.co_firstlineno + 2) in text


def test_fullgraph_refusal_leaves_the_world_alone():
    if not COUNTING:
        pytest.skip("with a break forced after every call nothing is one graph")
    log = []

    def program(x):
        log.append(1)
        x.add_(1)
        jit.graph_break()
        return x
    x = torch.zeros(3)
    with pytest.raises(jit.Unsupported):
        jit.compile(program, fullgraph=True, backend="eager")(x)
    assert log == [] and torch.equal(x, torch.zeros(3))


def test_explain_names_the_lines():
    if not COUNTING:
        pytest.skip("breaks are forced after every call")
    report = jit.explain(outermost)(X)
    line = innermost.__code__.co_firstlineno + 3
    assert report.graph_count == 2 and report.graph_break_count == 1 and report.op_count == 6
    assert len(report.graphs) == 2 and len(report.break_reasons) == 1 and report.guards
    assert f"test_graph_breaks.py:{line}" in str(report.break_reasons[0]) or str(line) in str(report.break_reasons[0])


@same_as_eager(graphs=2)
def test_stack_of_frames_is_as_in_eager(x):
    y = x + 1
    jit.graph_break()
    return y * 2


LATE = """
def helper(x):
    return x + 1

VALUES = [helper(i) for i in range(3)]
"""
IMPORTS_LATE = """
import jit, torch

@jit.disable(recursive=False)
def opaque(fn, *args):
    return fn(*args)

def after(x):
    return x * 2

@jit.compile(backend="eager")
def program(x):
    import made_late
    return opaque(after, x) + made_late.VALUES[2]

assert program(torch.ones(2)).tolist() == [5, 5]
compiled = {frame.name for frame in program.debug_state().frames}
"""


@pytest.mark.parametrize("by_an_import", [False, True])
def test_what_an_import_runs_is_not_compiled(tmp_path, monkeypatch, by_an_import):
    """It runs once. What a program calls is compiled, though: a program may be run by an import as a whole."""
    (tmp_path / "made_late.py").write_text(LATE)
    (tmp_path / "imports_late.py").write_text(IMPORTS_LATE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("made_late", "imports_late"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {}
    if by_an_import:
        found = vars(importlib.import_module("imports_late"))
    else:
        exec(compile(IMPORTS_LATE, str(tmp_path / "imports_late.py"), "exec"), found)
    assert "after" in found["compiled"]
    assert "helper" not in found["compiled"]


def test_disabled_alone_what_it_calls_is_compiled():
    def called(x):
        return x * 2

    @jit.disable(recursive=False)
    def alone(fn, x, *, times=3):
        return fn(x) * times

    @jit.compile(backend="eager")
    def program(x):
        return alone(called, x) + 1

    assert torch.equal(program(X), X * 6 + 1)
    names = {frame.name.rpartition(".")[2] for frame in program.debug_state().frames}
    assert names == {"program", "called"}


def test_what_torch_is_built_on_is_not_compiled():
    @dataclasses.dataclass
    class Pair:
        first: int
        second: int = 2

        def __post_init__(self):
            self.both = self.first + self.second

    Named = collections.namedtuple("Named", "first second")

    @jit.disable(recursive=False)
    def opaque():
        return int(sympy.expand((sympy.Symbol("n") + 1) ** 2).subs("n", 2)) + Named(Pair(1).both, 0).first

    @jit.compile(backend="eager")
    def program(x):
        return x * opaque()

    assert torch.equal(program(X), X * 12)
    names = {frame.name.rpartition(".")[2] for frame in program.debug_state().frames}
    assert names == {"program", "__post_init__"}


def test_what_a_call_that_raised_left_in_a_continuation_is_no_variable():
    class Failing:
        def __init__(self, x):
            self.broken = x.sum().item() > 2
            raise ValueError(self.broken)

    class Made:
        def __init__(self, x):
            self.broken = x.sum().item() > 3

    def program(x):
        seen = []
        try:
            seen.append(Failing(x))
        except ValueError as error:
            seen.append(str(error))
        made = Made(x)
        return made.broken, Made(x).broken, seen, x + 1

    check(program, torch.ones(3), changed=(torch.zeros(3),))


class Row(tuple):
    """With nothing of its own."""


ROW = Row((1, 2, 3))


def over_a_global(x):
    rows = []
    for each in ROW:
        jit.graph_break()
        rows.append(each)
    return x + 1, rows


def over_an_argument(x, row=ROW):
    rows = []
    for each in reversed(row):
        jit.graph_break()
        rows.append(each)
    for each in enumerate(row):
        jit.graph_break()
        rows.append(each)
    return x + 1, rows, row


def begun_before(x):
    iterator = iter(ROW)
    next(iterator)
    jit.graph_break()
    return x + 1, list(iterator), ROW


def returned(x):
    iterator = iter(ROW)
    next(iterator)
    return x + 1, iterator


@pytest.mark.parametrize("program", [over_a_global, over_an_argument, begun_before, returned])
def test_tuples_of_derived_classes_that_exist(program):
    """Across a break the iterator is one of the existing tuple, not of an empty one."""
    check(program, torch.ones(2))
