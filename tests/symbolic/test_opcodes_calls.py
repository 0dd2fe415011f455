"""Calls in all their forms."""
import functools

import pytest
import torch

from tests.differential import Call, check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def everything(a, b=2, *args, c, d=4, **kwargs):
    return a * b + c - d + len(args) + len(kwargs), args, kwargs


def positional_only(a, b=2, /, c=3, *, d=4):
    return a + b * c - d


CALLS = ["everything(x, c=1)", "everything(x, 3, c=1)", "everything(x, 3, 4, 5, c=1, e=2)", "everything(*[x, 3], c=1)",
         "everything(x, *(), **{'c': 1})", "everything(x, **{'c': 1, 'z': 3}, y=2)", "everything(*[x], *[1, 2], c=1, **{}, **{'q': x})",
         "everything(c=1, a=x)", "positional_only(x)", "positional_only(x, 1, c=2, d=0)", "positional_only(x, *[5], d=1)",
         "torch.add(x, 1, alpha=2)", "torch.sum(x, dim=1, keepdim=True)", "torch.sum(input=x, dim=(0, 1))", "x.sum(-1)",
         "torch.cat([x, x], dim=0)", "torch.clamp(x, min=-1, max=1)", "(lambda t, *a, k=2: t * k + len(a))(x, 1, k=3)"]
BAD_CALLS = ["everything(x)", "everything(c=1)", "everything(x, c=1, a=2)", "positional_only(x, b=3)", "positional_only()",
             "positional_only(x, 1, 2, 3)", "(lambda: 0)(x)", "x()", "None(x)", "'abc'(x)", "torch.add(x)", "everything(x, **3)",
             "everything(x, *3, c=1)", "everything(x, **{1: 2}, c=1)", "everything(x, c=1, **{'c': 2})"]


def _program(expression):
    scope = dict(globals())
    execute(f"def program(x):\n    y = x + 1\n    return {expression}, y\n", scope)
    return scope["program"]


@pytest.mark.parametrize("expression", CALLS)
def test_call(expression):
    check(_program(expression), X, graphs=1, changed=[(Y,)])


@pytest.mark.parametrize("expression", BAD_CALLS)
def test_call_that_fails_to_bind(expression):
    check(_program(expression), X)


def test_program_with_every_kind_of_parameter():
    def program(a, b=2, /, c=3, *args, d, e=5, **kwargs):
        return a + b + c + sum(args) + d + e + sum(kwargs.values()), args, kwargs
    check(program, X, make=lambda: Call(X, d=1), graphs=1,
          changed=[lambda: Call(X, 7, 8, 9, 10, d=1, e=2, z=3), lambda: Call(X, d=Y, z=Y), lambda: Call(X, 1, d=2, k=1, j=2)])


@pytest.mark.parametrize("args, kwargs", [((), {}), ((X, X, X), {}), ((X,), {"nope": 1}), ((X,), {"x": X})])
def test_program_called_wrongly(args, kwargs):
    def program(x, y=1):
        return x + y
    check(program, make=lambda: Call(*args, **kwargs))


@same_as_eager(graphs=1)
def test_calls_in_calls(x):
    def twice(f, t):
        return f(f(t))
    return twice(lambda t: twice(torch.sin, t) + 1, x)


@same_as_eager(graphs=1)
def test_callee_returns_many(x):
    def pair(t):
        return t + 1, t - 1
    a, b = pair(x)
    return pair(a)[1] * pair(b)[0]


@same_as_eager(graphs=1)
def test_callee_without_return(x):
    def nothing(t):
        t + 1
    return nothing(x), x + 1


@same_as_eager(graphs=1)
def test_callee_with_mutable_default(x):
    def collect(t, acc=[]):
        acc.append(t)
        return acc
    collect(x)
    return collect(x + 1)


@same_as_eager(graphs=1)
def test_order_of_evaluation(x):
    order = []

    def note(k):
        order.append(k)
        return k

    def f(*args, **kwargs):
        return sum(args) + sum(kwargs.values())
    y = x * f(note(1), *[note(2)], note(3), a=note(4), **{"b": note(5)}) + note(6)
    d = {note("k1"): note("v1"), note("k2"): note("v2")}
    d[note("k3")] = note("v3")
    return y, order, d


@same_as_eager(graphs=0)
def test_arguments_are_bound_by_reference(x):
    def grow(xs, **kw):
        xs.append(1)
        kw["new"] = 1
        return kw
    xs, kw = [x], {"a": 1}
    got = grow(xs, **kw)
    return xs, kw, got


@same_as_eager(graphs=0)
def test_star_args_are_a_new_tuple(x):
    def f(*args, **kwargs):
        return args, kwargs
    t, d = (x, 1), {"a": x}
    args, kwargs = f(*t, **d)
    return args == t, kwargs is d, kwargs


@same_as_eager(graphs=1)
def test_functions_in_containers(x):
    table = {"sin": torch.sin, "mine": lambda t: t * 2, "method": torch.Tensor.cos}
    return [f(x) for f in table.values()] + [table["mine"](x)]


@same_as_eager(graphs=1)
def test_bound_methods_of_tensors(x):
    add, size = x.add, x.size
    return add(1), size(0), x.new_zeros(2), list(map(x.sum, [0, 1]))


@same_as_eager(graphs=1)
def test_methods_through_the_class(x):
    return torch.Tensor.add(x, 1), str.upper("a"), list.append([], 1), dict.get({"a": 1}, "a"), int.__add__(1, 2)


@same_as_eager(graphs=1)
def test_partial(x):
    f = functools.partial(everything, c=1, d=2)
    g = functools.partial(f, b=5)
    return f(x), g(x), functools.partial(torch.add, alpha=2)(x, 1), g.keywords


def test_function_as_argument():
    check(lambda f, x: f(x) + 1, torch.sin, X, graphs=1, changed=[(torch.cos, X), (abs, X)])


def test_python_function_as_argument():
    check(lambda f, x: f(x) + 1, lambda t: t * 2, X, graphs=1, changed=[(lambda t: t * 3, X)])


@same_as_eager(graphs=1)
def test_class_called_as_constructor(x):
    return int("3"), float(2), str(5), bool([]), list((1, 2)), tuple([x]), dict([("a", x)]), set([1]), complex(1, 2), x + 1


@same_as_eager(graphs=1)
def test_type_of(x):
    return type(x), type(x) is torch.Tensor, type(3), type(x.shape), isinstance(3, (int, str)), issubclass(bool, int), x + 1


@same_as_eager(graphs=1)
def test_many_arguments(x):
    def f(*args):
        return args[0] + len(args)
    return f(x, *range(300))


@same_as_eager(graphs=1)
def test_twenty_calls_deep(x):
    def down(t, n):
        if n == 0:
            return t.cos()
        return down(t + 1, n - 1) * 2
    return down(x, 20)


class Adder:
    def __init__(self, k):
        self.k = k

    def __call__(self, t, more=0):
        return t + self.k + more


@same_as_eager(graphs=1)
def test_callable_object(x):
    add = Adder(3)
    return add(x), add(x, more=1)


@same_as_eager(graphs=1)
def test_super_long_keyword_call(x):
    def f(**kw):
        return sum(kw.values()), list(kw)
    return f(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8), x + 1
