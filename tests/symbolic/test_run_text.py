"""`compile`, `eval` and `exec` of known text are traced like calls."""

import __future__

import warnings

import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)
SCALE = 3


@same_as_eager(graphs=1)
def test_a_new_namespace(x):
    names = {"x": x}
    exec("def add(a, b=2):\n    return a + b * SCALE\nSCALE = 4\ny = add(x)\nz = [i * SCALE for i in range(3)]", names)
    del names["__builtins__"]
    return names["y"], names["z"], list(names), names["add"](x, b=1)


@same_as_eager(graphs=1)
def test_functions_that_leave_with_their_globals(x):
    names = {}
    exec("count = 0\ndef step(x):\n    global count\n    count += 1\n    return x + count", names)
    first = names["step"](x)
    del names["__builtins__"]
    return first, names, names["step"].__globals__ is names, names["step"].__module__


@same_as_eager(graphs=1)
def test_a_function_that_leaves_alone(x):
    names = {"__name__": "here"}
    exec("k = 2\ndef f(x):\n    return x * k", names)
    return names["f"](x), names["f"].__module__


def test_the_function_works_afterwards():
    def program(x):
        names = {}
        exec("k = 2\ndef f(x):\n    return x * k, later", names)
        names["later"] = 5
        return names["f"]

    got = jit.compile(program, backend="eager")(X)
    assert got(2) == (4, 5)
    got.__globals__["k"] = 3
    assert got(2) == (6, 5)


@same_as_eager(graphs=1)
def test_separate_locals(x):
    outer, inner = {"a": 1}, {"b": 2}
    exec("global c\nc = a + b\nd = c + 1\ndel b", outer, inner)
    return x + outer["c"], inner, eval("a + c", outer), eval("d", {}, inner)


@same_as_eager(graphs=1)
def test_classes_in_text(x):
    names = {"x": x}
    exec("class C:\n    size = 2\n    def grow(self):\n        return x * self.size\nmade = C()", names)
    return names["made"].grow(), names["C"].__module__, names["C"].__qualname__


@same_as_eager(graphs=1)
def test_names_of_the_caller_are_read(x):
    n = 5
    doubled = [eval("x * n"), eval("SCALE + n"), eval(" [n, SCALE]"), eval(compile("n - 1", "here", "eval"))]

    def inner(a):
        return eval("a + n", globals(), {"a": a, "n": 1})

    return doubled, inner(x), n


@same_as_eager
def test_text_that_changes_the_locals_of_the_caller(x):
    n = 1
    exec("n = 2")
    return x + n, eval("n"), sorted(locals())


@same_as_eager
def test_breaks_in_text_see_the_names_that_it_sees(x):
    n = 2

    def noted(value):
        jit.graph_break()
        return value

    names = {"noted": noted, "x": x}
    exec("y = noted(x) + 1", names)
    return eval("noted(x) * n"), names["y"]


def test_errors_in_text():
    def program(text, x):
        n = 1
        try:
            return eval(text)
        except (NameError, SyntaxError, ZeroDivisionError) as error:
            place = getattr(error, "lineno", None), getattr(error, "offset", None)
            return x + n, type(error), str(error), place if isinstance(error, SyntaxError) else None

    for text in ("unknown", "1 +", "n / 0", "x ==", "  n", "'\\"):
        check(program, text, X)

    def lets_pass(x):
        n = 0
        return x + 1, eval("1 / n")

    check(lets_pass, X)


@same_as_eager(graphs=1)
def test_what_code_inherits(x):
    names = {}
    exec(compile("def f(a: undefined) -> None: pass", "here", "exec", __future__.annotations.compiler_flag), names)
    return x + 1, names["f"].__annotations__, names["f"].__code__.co_filename


def test_other_globals_each_time():
    def program(names, x):
        exec("x = x + 1", names)
        return names["x"], x

    check(program, {"x": X}, Y)


@same_as_eager
def test_locals_of_text(x):
    names = {"x": x}
    exec("a = sorted(locals())\nb = [sorted(locals().keys() - {'__builtins__'}) for i in range(2)]", names)
    del names["__builtins__"]
    return x + 1, names["b"], "x" in names["a"]


@same_as_eager(graphs=1)
def test_errors_that_text_raises_are_caught_outside(x):
    names = {"x": x}
    try:
        exec("def f():\n    return x / 0 if isinstance(x, int) else {}['key']\nf()", names)
    except KeyError as error:
        return x + 1, error.args


@same_as_eager(graphs=1)
def test_errors_that_the_symbol_table_finds_have_a_place(x):
    seen = []
    for text in ("def f():\n    global a\n    a: int", "def g(): [(yield x) for x in ()]", "  x\n y", "return"):
        try:
            compile(text, "<test>", "exec")
        except SyntaxError as error:
            seen.append((error, str(error), error.lineno, error.offset, error.text, error.end_lineno, error.args))
    return x + 1, seen, [vars(error) for error, *_ in seen], [error.msg for error, *_ in seen]


def breaks_and_adds(number):
    jit.graph_break()
    return number + 1


@same_as_eager
def test_text_that_breaks_sees_locals_that_nothing_else_reads(x):
    number, seen = 3, []
    for text in ("breaks_and_adds(number)", "breaks_and_adds(number) + 1", "number"):
        seen.append(eval(text))
    return x + 1, seen


def told(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


@same_as_eager
def test_namespaces_by_name(x):
    """Which Python 3.13 takes, and those before it refuse."""
    made, more = {}, {}
    seen = [told(eval, "a", globals={"a": 1}), told(eval, "a", {}, locals={"a": 2}), told(eval, "a", other={"a": 3})]
    seen += [told(exec, "b = 1", globals=made), told(exec, "b = 2", {}, locals=more), told(exec, "b = 2", other=more)]
    return x + 1, seen, list(made), more


@same_as_eager
def test_levels_that_are_not_known(x):
    levels = [told(compile, "1", "<test>", "eval", optimize=level) for level in (None, "1", 1.0)]
    codes = [compile("assert False", "<test>", "exec", optimize=level).co_code for level in (-1, 0, 1, 2)]
    return x + 1, levels, codes, told(compile, "1", "<test>", "eval", dont_inherit="no") == 1


@pytest.mark.parametrize("text", ["x is 1", "(1)(2)", "x is 1\n("], ids="warns calls fails".split())
def test_text_warns_each_time_that_it_is_compiled(text):
    def judged(text, action):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter(action, SyntaxWarning)
            try:
                compile(text, "<text>", "exec")
            except SyntaxError as error:
                return str(error), len(seen)
        return len(seen)

    def program(x):
        return judged(text, "always"), judged(text, "error"), judged(text, "always"), x + 1

    check(program, torch.ones(2))
