"""Functions: closures, defaults, decorators, recursion, partial."""
import functools
import inspect

import pytest
import torch

import jit
from tests.differential import Counting, check, execute, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def scaled(k=2):
    def decorator(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * k
        return wrapper
    return decorator


def logged(f):
    @functools.wraps(f)
    def wrapper(*args):
        wrapper.calls += 1
        return f(*args)
    wrapper.calls = 0
    return wrapper


@scaled(3)
def decorated(t):
    """Doc."""
    return t + 1


@logged
@scaled()
def twice_decorated(t):
    return t - 1


@same_as_eager(graphs=1)
def test_decorated_functions(x):
    return decorated(x), decorated.__name__, decorated.__doc__


@same_as_eager(graphs=1)
def test_decorator_with_state(x):
    return twice_decorated(x) + twice_decorated(x), twice_decorated.calls


@same_as_eager(graphs=1)
def test_decorators_inside(x):
    @scaled(5)
    def f(t, n=1):
        return t + n
    return f(x), f(x, n=2), f.__name__


@same_as_eager(graphs=1)
def test_lambdas(x):
    add = lambda a, b=2, *c, **d: a + b + len(c) + len(d)  # noqa: E731
    return add(x), add(x, 3), add(x, 1, 2, 3, k=4), (lambda: x * 2)()


@same_as_eager(graphs=1)
def test_defaults_are_evaluated_once(x):
    n = 1

    def f(t, k=n, fresh=[]):  # noqa: B006
        fresh.append(k)
        return t + k + len(fresh)
    n = 100
    return f(x), f(x), f.__defaults__


@same_as_eager(graphs=1)
def test_keyword_only_defaults(x):
    def f(t, *, k=3, m):
        return t * k + m
    return f(x, m=1), f(x, m=1, k=2), f.__kwdefaults__


@same_as_eager(graphs=1)
def test_recursion(x):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)
    return x + fib(8)


@same_as_eager(graphs=1)
def test_mutual_recursion(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)
    return x + 1, even(10), odd(7)


def test_a_recursion_with_breaks_is_captured_for_a_few_levels():
    """The others are calls of the same code."""
    def chain(length):
        below = None
        for _ in range(length):
            below = [below]
        return below

    def count(link, x):
        if link is None:
            return x
        jit.graph_break()
        x = x + 1
        jit.graph_break()
        below = count(link[0], x * 2)
        jit.graph_break()
        return below + x

    before = jit.stats()["captures"]
    check(count, make=lambda: (chain(30), torch.ones(2, dtype=torch.float64)), backend="eager")
    assert jit.stats()["captures"] - before < 90


@same_as_eager(graphs=1)
def test_function_factory(x):
    def make(k):
        return lambda t: t * k
    fs = {k: make(k) for k in range(3)}
    return [fs[k](x) for k in (2, 1)], fs[0] is fs[0]


@same_as_eager(graphs=1)
def test_compose(x):
    def compose(*fs):
        return functools.reduce(lambda f, g: lambda t: g(f(t)), fs)
    return compose(torch.sin, lambda t: t + 1, torch.cos)(x)


@same_as_eager(graphs=1)
def test_function_is_returned(x):
    def f(t, k=x + 1, *, m=2):
        """Doc."""
        return t + k * m + y
    y = x * 2
    return f


@same_as_eager(graphs=1)
def test_partial_is_returned(x):
    return functools.partial(torch.add, x + 1, alpha=2), functools.partial(decorated, x)


@same_as_eager(graphs=1)
def test_partial_of_partial_of_method(x):
    p = functools.partial(functools.partial(x.add, alpha=2), 1)
    return p(), p.args, p.keywords


@same_as_eager(graphs=1)
def test_partialmethod_like(x):
    clamp = functools.partial(torch.clamp, min=0)
    return clamp(x), clamp(x, max=0.5), clamp.func is torch.clamp


@same_as_eager(graphs=1)
def test_function_introspection(x):
    def f(a, b=1, *args, c, **kw):
        return a
    return x + 1, f.__name__, f.__qualname__.endswith("f"), callable(f), f.__module__ == __name__


@same_as_eager
def test_signature_inside(x):
    return x + len(inspect.signature(decorated).parameters)


def test_lru_cache_inside():
    @functools.lru_cache(maxsize=None)
    def expensive(n):
        return n * 2
    check(lambda x: x + expensive(3) + expensive(3), X)


def test_varied_closures_of_one_code_object():
    def make(k):
        return lambda x: x * k
    for k in (2, 3.5, True, X[0]):
        check(make(k), X, graphs=1)


def test_closure_over_function_and_module():
    act, lin = torch.nn.functional.relu, torch.nn.Linear(4, 2)
    check(lambda x: act(lin(x)), X, graphs=1)


@pytest.mark.parametrize("depth", [1, 5, 30])
def test_nested_calls(depth):
    def call(n, t):
        return t.sin() if n == 0 else call(n - 1, t + n) * 0.5
    check(lambda x: call(depth, x), X, graphs=1)


@same_as_eager(graphs=1)
def test_function_attributes_of_inner(x):
    def f(t):
        f.calls += 1
        return t
    f.calls = 0
    f(x), f(x)
    return x + f.calls


@same_as_eager(graphs=1)
def test_map_filter_sorted_with_functions(x):
    return list(map(lambda a, b: a * b + x, [1, 2], [3, 4])), list(filter(lambda n: n % 2, range(5))), sorted("bca", key=lambda c: -ord(c))


@same_as_eager(graphs=1)
def test_star_through_layers(x):
    def outer(*args, **kwargs):
        return middle(*args, extra=1, **kwargs)

    def middle(*args, **kwargs):
        return inner(*args[::-1], **{k: v for k, v in kwargs.items() if k != "extra"})

    def inner(a, b, *, c):
        return a - b * c
    return outer(x, 2, c=3)


@same_as_eager(graphs=1)
def test_unused_results_do_not_matter(x):
    torch.sin(x)
    [x + 1, x + 2]
    return x * 2


@same_as_eager(graphs=1)
def test_docstring_and_pass(x):
    """Doc."""
    pass
    return x + 1


def test_a_method_of_a_local_instance():
    class Model:
        def __init__(self):
            self.k = 2

        def forward(self, x):
            return self.helper(x) * self.k

        def helper(self, x):
            return x + 1
    m = Model()
    check(lambda x: m.forward(x), X, graphs=1)
    check(m.forward, X, graphs=1)


def added(a=1, *, k=2):
    return a + k


@same_as_eager(graphs=1)
def test_the_dict_of_keyword_defaults_is_written_to(x):
    added.__kwdefaults__["k"] = 7
    with_it = added()
    added.__kwdefaults__["k"] = 2
    return x + with_it, added()


@same_as_eager(graphs=1)
def test_defaults_given_later(x):
    def inner(a=1, *, k=2):
        return a, k

    inner.__kwdefaults__ = {"k": 9}
    seen = [inner()]
    inner.__kwdefaults__["k"] = 10
    seen.append(inner())
    inner.__defaults__ = (5,)
    seen.append(inner())
    inner.__defaults__ = None
    try:
        inner()
    except TypeError as error:
        seen.append(str(error))
    return x + 1, seen, inner.__defaults__, inner.__kwdefaults__


@same_as_eager
def test_the_code_of_a_function_is_replaced(x):
    def one():
        return 1

    def two():
        return 2

    one.__code__ = two.__code__
    return x + one()


@same_as_eager(graphs=1)
def test_what_a_function_does_not_let_be_set(x):
    def inner():
        pass

    said = []
    for name, value in (("__name__", 5), ("__qualname__", None), ("__defaults__", [1]), ("__kwdefaults__", (1,)), ("__globals__", {})):
        try:
            setattr(inner, name, value)
        except (TypeError, AttributeError) as error:
            said.append(repr(error))
    return x + 1, said, inner.__name__


def _plus(n):
    return lambda v: v + n


def _plus_one():
    return lambda v: v + 1


_PROGRAMS_OF_FUNCTIONS = {
    "is": lambda x, g, known: x * (2 if g is known else 1),
    "equals": lambda x, g, known: x * (2 if g == known else 1),
    "in a list": lambda x, g, known: x * (2 if g in [known] else 1),
    "counted": lambda x, g, known: x * [known, len].count(g),
    "in a set": lambda x, g, known: x * (2 if g in {known} else 1),
    "a key": lambda x, g, known: x * {known: 3, len: 2}.get(g, 7),
    "in a key": lambda x, g, known: x * {(known, 1): 3}.get((g, 1), 7),
    "lists": lambda x, g, known: x * (5 if [g] == [known] else 2),
    "id": lambda x, g, known: x * (5 if id(g) == id(known) else 2),
    "hash": lambda x, g, known: x * (5 if hash(g) == hash(known) else 2),
    "attribute": lambda x, g, known: x * getattr(g, "tag", 2),
}


@pytest.mark.parametrize("make", [_plus_one, lambda: _plus(2)], ids=["plain", "closure"])
@pytest.mark.parametrize("program", _PROGRAMS_OF_FUNCTIONS.values(), ids=_PROGRAMS_OF_FUNCTIONS)
def test_which_function_it_is_where_that_is_asked(program, make):
    for order in ("kn", "nk"):
        known = make()
        known.tag = 3
        compiled = jit.compile(program, backend="eager")
        for each in order * 2:
            given = known if each == "k" else make()
            assert torch.equal(compiled(torch.ones(2), given, known), program(torch.ones(2), given, known))


@pytest.mark.parametrize("make", [_plus_one, lambda: _plus(2)], ids=["plain", "closure"])
def test_a_function_made_for_each_call_compiles_nothing_anew(make):
    counter = Counting()
    compiled = jit.compile(lambda x, g: g(x) * 2, backend=counter)
    for _ in range(4):
        compiled(torch.ones(2), make())
    counter.expect(1)


def test_one_known_by_the_program_is_told_from_others():
    known = _plus_one()
    for order in ("kn", "nk"):
        program = lambda x, g: x * (2 if g is known else 1)  # noqa: E731
        compiled = jit.compile(program, backend="eager")
        for each in order * 2:
            given = known if each == "k" else _plus_one()
            assert torch.equal(compiled(torch.ones(2), given), program(torch.ones(2), given))


def test_a_loop_over_a_list_of_values_compiles_once_for_each():
    counter = Counting()
    compiled = jit.compile(lambda x, lengths: (x * 2, [v * 2 for v in lengths.tolist()]), backend=counter)
    for n in (3, 4, 3, 4, 3, 4):
        assert compiled(torch.ones(2), torch.tensor([n, 1]))[1] == [2 * n, 2]
    count = counter.count
    compiled(torch.ones(2), torch.tensor([3, 1]))
    assert counter.count == count <= 3


@pytest.mark.parametrize("text", [
    "p.keywords['alpha'] = 5; return p(x, x), p.keywords, p",
    "p.keywords.update(alpha=p.keywords['alpha'] + 1); return p(x, x), functools.partial(p, x)(x)",
    "k = p.keywords; y = p(x, x); k.clear(); return y, p(x, x), p.keywords is k",
    "q = functools.partial(p, x); k = q.keywords; k['alpha'] = 7; return q(x), p(x, x), q",
    "return p.keywords, p.args, p.func is torch.add, {**p.keywords, 'n': 1}",
])  # fmt: skip
def test_keywords_of_a_partial_are_those_that_it_calls_with(text):
    scope = {"torch": torch, "functools": functools}
    execute(f"def program(x, p):\n    {text}\n", scope)
    check(scope["program"], make=lambda: (torch.ones(2), functools.partial(torch.add, alpha=2)))


@same_as_eager(graphs=1)
def test_the_arguments_of_a_partial_are_one_tuple(x):
    p = functools.partial(torch.add, x, alpha=2)
    return p(x), p.args is p.args, p.args[0] is x


def test_the_arguments_of_a_partial_that_was_there():
    p = functools.partial(torch.add, torch.ones(3), 2)
    found = jit.compile(lambda x, p: (x + 1, p.args, p.args is p.args), backend="eager")(torch.ones(3), p)
    assert found[1] is p.args and found[2] is True
