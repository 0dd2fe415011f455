"""Questions about functions and classes that the frame makes: what is asked is traced as it is written."""

import copy
import dataclasses
import functools
import inspect

import torch

from tests.differential import check, same_as_eager, tensors


@same_as_eager(graphs=1)
def test_the_signature_of_a_lambda(x):
    s = inspect.signature(lambda a, b=2: a)
    return x + len(s.parameters), str(s), repr(s)


@same_as_eager(graphs=1)
def test_arguments_are_bound_and_defaults_applied(x):
    def f(a, /, b: int = 3, *c, d, e=4, **g) -> int: ...
    s = inspect.signature(f); b = s.bind(1, d=x); b.apply_defaults()
    return x+1, b.arguments, b.args, b.kwargs, str(s), list(s.parameters), s.parameters["b"].default


@same_as_eager(graphs=1)
def test_a_default_that_is_a_tensor(x):
    y = x + 1
    def f(a, b=y): return a * b
    s = inspect.signature(f)
    b = s.bind(x); b.apply_defaults()
    return f(*b.args, **b.kwargs), s.parameters["b"].default is y


@same_as_eager(graphs=1)
def test_all_of_a_specification(x):
    def f(a, /, b: int = 3, *c, d, e=4, **g) -> int: ...
    s = inspect.getfullargspec(f)
    return x + 1, s.args, s.kwonlyargs, s.varargs, s.varkw, s.defaults, s.kwonlydefaults, s.annotations


@same_as_eager(graphs=1)
def test_a_specification_is_a_named_tuple(x):
    def f(a, b=1): ...
    return x + 1, repr(inspect.getfullargspec(f)), inspect.getfullargspec(f)


@same_as_eager(graphs=1)
def test_methods_of_a_class_of_the_frame(x):
    class A:
        def m(self, q, r=3): return q * r
        @classmethod
        def c(cls, a): ...
        @staticmethod
        def s(a, b): ...
    return x + 1, str(inspect.signature(A().m)), str(inspect.signature(A.m)), str(inspect.signature(A.c)), str(inspect.signature(A.s))


@same_as_eager(graphs=1)
def test_classes_of_the_frame(x):
    class A:
        def __init__(self, q, r=3): self.q = q
        def __call__(self, z): ...
    class B(A): pass
    class C: pass
    class D:
        def __new__(cls, *args, k): ...
    return x + 1, str(inspect.signature(A)), str(inspect.signature(B)), str(inspect.signature(C)), str(inspect.signature(A(1))), str(inspect.signature(D))


@same_as_eager(graphs=1)
def test_signatures_of_partials(x):
    def f(a, b, c=3, *, d=1): return a
    return x + 1, str(inspect.signature(functools.partial(f, 1))), str(inspect.signature(functools.partial(f, b=1))), str(inspect.signature(functools.partial(f, d=2)))


@same_as_eager(graphs=1)
def test_arguments_that_do_not_fit(x):
    s = inspect.signature(lambda a: a)
    try: s.bind(1, 2)
    except TypeError as e: return x + 1, str(e)


@same_as_eager(graphs=1)
def test_a_part_of_the_arguments(x):
    s = inspect.signature(lambda a, b, *c: a)
    b = s.bind_partial(x)
    b.arguments["b"] = 3
    return b.arguments, s.replace(parameters=list(s.parameters.values())[:1]), repr(b)


@same_as_eager(graphs=1)
def test_what_is_wrapped_is_asked(x):
    def deco(f):
        @functools.wraps(f)
        def w(*a, **k): return f(*a, **k)
        return w
    @deco
    def g(a, b=1): return a * b
    return g(x), str(inspect.signature(g)), str(inspect.signature(g, follow_wrapped=False)), inspect.unwrap(g) is g.__wrapped__


@same_as_eager(graphs=1)
def test_a_decorator_that_checks_types(x):
    def typed(f):
        s = inspect.signature(f)
        @functools.wraps(f)
        def w(*a, **k):
            b = s.bind(*a, **k)
            for n, v in b.arguments.items():
                ann = s.parameters[n].annotation
                if ann is not inspect.Parameter.empty and not isinstance(v, ann): raise TypeError(n)
            return f(*b.args, **b.kwargs)
        return w
    @typed
    def g(a: torch.Tensor, b: int = 1): return a * b
    try: g(x, "q")
    except TypeError as e: m = str(e)
    return g(x, 2), m


@same_as_eager(graphs=1)
def test_parameters_and_their_kinds(x):
    def f(a, /, b, *c, d, **e): ...
    return x + 1, [(p.name, p.kind, p.kind.name, p.default is p.empty) for p in inspect.signature(f).parameters.values()], [str(p) for p in inspect.signature(f).parameters.values()]


@same_as_eager(graphs=1)
def test_signatures_are_compared(x):
    f = lambda a, b=1: a
    g = lambda a, b=1: a
    return x + 1, inspect.signature(f) == inspect.signature(g), inspect.signature(f) == inspect.signature(lambda a: a)


@same_as_eager(graphs=1)
def test_a_signature_is_returned(x):
    return x + 1, inspect.signature(lambda a, b=1: a)


@same_as_eager(graphs=1)
def test_a_function_with_a_signature_of_its_own(x):
    def f(*a): return a
    f.__signature__ = inspect.Signature([inspect.Parameter("q", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    return x + 1, str(inspect.signature(f))


@same_as_eager(graphs=1)
def test_the_signature_of_a_dataclass(x):
    @dataclasses.dataclass
    class A:
        a: int
        b: float = 1.0
    return x + 1, str(inspect.signature(A))


@same_as_eager(graphs=1)
def test_a_partial_method_has_itself_as_an_attribute(x):
    class A:
        def f(self, a, b): return a * b
        g = functools.partialmethod(f, 2)
    return A().g(x), str(inspect.signature(A().g)), str(inspect.signature(A.g))


@same_as_eager(graphs=1)
def test_keywords_that_a_function_takes(x):
    def call(f, **kw):
        ok = {k: v for k, v in kw.items() if k in inspect.signature(f).parameters}
        return f(**ok)
    return call(lambda a, b: a * b, a=x, b=2, c=3)


@same_as_eager(graphs=1)
def test_what_things_say_of_themselves(x):
    def f():
        "hello"
    class A:
        "doc"
    return x + 1, inspect.getdoc(f), inspect.getdoc(A), inspect.isfunction(f), inspect.isroutine(f), inspect.isclass(A), inspect.isabstract(A), inspect.getmro(A) == A.__mro__


@same_as_eager(graphs=1)
def test_what_things_are(x):
    def f(): yield 1
    async def g(): ...
    return x + 1, inspect.isgeneratorfunction(f), inspect.iscoroutinefunction(g), inspect.ismethod(f), inspect.isawaitable(f), inspect.iscode(f.__code__)


@same_as_eager(graphs=1)
def test_variables_of_a_closure(x):
    y = 2
    def f(): return y
    return x + 1, inspect.getclosurevars(f).nonlocals


@same_as_eager(graphs=1)
def test_arguments_of_a_call(x):
    def f(a, b=2, *c): ...
    return inspect.getcallargs(f, x+1)


@same_as_eager(graphs=1)
def test_names_of_parameters(x):
    def f(a, b): return a
    return x + 1, f.__code__.co_varnames[:f.__code__.co_argcount], f.__code__.co_flags, f.__name__


class Scaled:
    def scale(self, a, b):
        return a * b

    double = functools.partialmethod(scale, 2)


@same_as_eager(graphs=1)
def test_a_partial_method_of_a_module(x):
    return Scaled().double(x)


@same_as_eager(graphs=1)
def test_a_partial_with_attributes_is_not_merged(x):
    first = functools.partial(torch.add, x)
    first.tag = 3
    second = functools.partial(first, alpha=2)
    return second(x), first.tag, second.func is first, hasattr(second, "tag"), first


MARKED = functools.partial(torch.add, 1)
MARKED.tag = [1]


def test_a_partial_with_attributes_is_copied_with_them():
    def program(x):
        return x + 1, copy.deepcopy(MARKED).tag

    check(program, *tensors(2))

    def born(x):
        first = functools.partial(torch.add, x)
        first.tag = [3]
        return x + 1, copy.deepcopy(first).tag

    check(born, *tensors(2))


def test_a_partial_that_gets_attributes_later():
    plain = functools.partial(torch.add, 1)

    def program(x, given):
        copied = copy.deepcopy(given)
        return x + 1, getattr(copied, "tag", None)

    def marked():
        made = functools.partial(torch.add, 1)
        made.tag = 2
        return tensors(2)[0], made

    check(program, tensors(2)[0], plain, changed=marked)


def test_functions_that_are_made_for_each_call():
    def program(x, f):
        return x + 1, str(inspect.signature(f)), inspect.unwrap(f) is f.__wrapped__, inspect.getdoc(f)

    def wrapped(a, b):
        """two"""

    def another():
        @functools.wraps(wrapped)
        def wrapper(*args):
            return wrapped(*args)

        return tensors(2)[0], wrapper

    def of_three():
        wrapper = another()[1]
        wrapper.__wrapped__ = lambda a, b, c: a
        return tensors(2)[0], wrapper

    check(program, make=another, changed=[of_three, another])


@same_as_eager(graphs=1)
def test_attributes_as_they_are(x):
    class Kind(type):
        def of_kind(cls):
            return 3

    class Base(metaclass=Kind):
        @property
        def half(self):
            return 0.5

        @staticmethod
        def two():
            return 2

    class Derived(Base):
        pass

    found = inspect.getattr_static(Derived, "two")
    try:
        inspect.getattr_static(Derived, "none")
    except AttributeError as error:
        said = str(error)
    kinds = type(found).__name__, type(inspect.getattr_static(Derived, "half")).__name__
    return x * found.__func__(), kinds, inspect.getattr_static(Derived, "none", 5), said, Derived.of_kind()
