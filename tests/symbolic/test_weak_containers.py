"""Functions that choose by the type of their argument, and what leads to objects without holding them, made in the frame:
the library's own code for them is traced."""

import collections.abc
import functools
import weakref

import pytest
import torch

import jit
from tests.differential import check, same_as_eager, tensors


@same_as_eager(graphs=1)
def test_an_implementation_is_chosen(x):
    @functools.singledispatch
    def f(v): return "o"
    @f.register
    def _(v: int): return "i"
    @f.register(list)
    def _(v): return "l"
    return x + 1, f(1), f([]), f("s"), f.dispatch(bool)(1), list(f.registry), f.__name__


@same_as_eager(graphs=1)
def test_implementations_for_tensors(x):
    @functools.singledispatch
    def f(v, k=2): return v
    @f.register(torch.Tensor)
    def _(v, k=2): return v * k
    return f(x), f(x, k=3), f(2)


@same_as_eager(graphs=1)
def test_an_implementation_for_a_union(x):
    @functools.singledispatch
    def f(v): return "o"
    @f.register
    def _(v: int | str): return "is"
    return x + 1, f(1), f("s"), f(2.0)


@same_as_eager(graphs=1)
def test_an_implementation_for_an_abstract_class(x):
    @functools.singledispatch
    def f(v): return "o"
    @f.register(collections.abc.Mapping)
    def _(v): return "m"
    @f.register(type(None))
    def _(v): return "n"
    return x + 1, f({}), f(None), f(2.0)


@same_as_eager(graphs=1)
def test_implementations_for_classes_of_the_frame(x):
    class A: pass
    class B(A): pass
    @functools.singledispatch
    def f(v): return "o"
    @f.register(A)
    def _(v): return "A"
    return x + 1, f(A()), f(B()), f(1)


@same_as_eager(graphs=1)
def test_a_method_that_chooses(x):
    class N:
        @functools.singledispatchmethod
        def neg(self, a): raise NotImplementedError
        @neg.register
        def _(self, a: int): return -a
        @neg.register(torch.Tensor)
        def _(self, a): return a.neg()
    n = N()
    try: n.neg("q")
    except NotImplementedError: k = 1
    return n.neg(x), n.neg(3), k


class N:
    @functools.singledispatchmethod
    def neg(self, a): return None
    @neg.register
    def _(self, a: int): return -a
    @neg.register(torch.Tensor)
    def _(self, a): return a.neg()


@same_as_eager(graphs=None if hasattr(vars(N)["neg"], "_method_cache") else 1)  # from Python 3.13 on it remembers
def test_a_method_of_a_module_that_chooses(x): return N().neg(x), N().neg(2), N().neg("s")


@same_as_eager(graphs=1)
def test_what_chooses_is_returned(x):
    @functools.singledispatch
    def f(v): return "o"
    f.register(int, lambda v: v + 1)
    return x + 1, f


class A:
    pass


class O:
    def f(self, v):
        return v * 2


@same_as_eager(graphs=1)
def test_a_dict_of_weak_values(x):
    a = A(); d = weakref.WeakValueDictionary(); d["k"] = a
    return x + 1, len(d), d["k"] is a, "k" in d, list(d), list(d.items())[0][0], d.get("q"), bool(d), list(d.values())[0] is a


@same_as_eager(graphs=1)
def test_a_dict_of_weak_keys(x):
    a = A(); d = weakref.WeakKeyDictionary(); d[a] = x
    return d[a] + 1, len(d), a in d, A() in d, list(d)[0] is a, d.get(A(), 3), d.pop(a) is x, len(d)


@same_as_eager(graphs=1)
def test_weak_values_that_live_on(x):
    a = A(); a.v = x + 1; d = weakref.WeakValueDictionary(); d["k"] = a
    return a, d


@same_as_eager(graphs=1)
def test_weak_values_that_end_with_the_frame(x):
    a = A(); a.v = x + 1; d = weakref.WeakValueDictionary(); d["k"] = a
    return x + 1, d


@same_as_eager(graphs=1)
def test_weak_keys_that_live_on(x):
    a = A(); d = weakref.WeakKeyDictionary(); d[a] = x + 1
    return a, d


@same_as_eager(graphs=1)
def test_a_weak_set_that_lives_on(x):
    a, b = A(), A(); d = weakref.WeakSet([a, b])
    return x + 1, a, d


@same_as_eager(graphs=1)
def test_observers_in_a_weak_set(x):
    class Subject:
        def __init__(self): self.obs = weakref.WeakSet()
        def add(self, o): self.obs.add(o)
        def fire(self, v): return [o(v) for o in self.obs]
    class O:
        def __call__(self, v): return v * 2
    s = Subject(); o = O(); s.add(o)
    return s.fire(x)


@same_as_eager(graphs=1)
def test_a_weak_method(x):
    class O:
        def f(self, v): return v * 2
    o = O(); m = weakref.WeakMethod(o.f)
    return m()(x)


@same_as_eager(graphs=1)
def test_a_weak_method_of_a_class_of_the_module(x):
    o = O(); m = weakref.WeakMethod(o.f)
    return m()(x), o


@same_as_eager(graphs=1)
def test_a_weak_method_is_returned(x):
    o = O(); m = weakref.WeakMethod(o.f)
    return x + 1, o, m


@same_as_eager(graphs=1)
def test_a_weak_method_that_ends_with_the_frame(x):
    o = O(); m = weakref.WeakMethod(o.f)
    return x + 1, m


@same_as_eager(graphs=1)
def test_a_cache_of_weak_values(x):
    class Cache:
        def __init__(self): self.d = weakref.WeakValueDictionary()
        def get(self, k):
            v = self.d.get(k)
            if v is None: v = A(); v.k = k; self.d[k] = v
            return v
    c = Cache(); a = c.get(1); b = c.get(1)
    return x + 1, a is b, len(c.d)


@same_as_eager(graphs=1)
def test_a_weak_set_whose_element_ends(x):
    d = weakref.WeakSet(); d.add(A())
    return x + 1, d


@same_as_eager
def test_a_weak_value_ends(x):
    a = A(); d = weakref.WeakValueDictionary(); d["k"] = a
    del a
    return x + 1, len(d)


@same_as_eager
def test_a_weak_value_that_nobody_else_holds(x):
    d = weakref.WeakValueDictionary(); d["k"] = A()
    return x + 1, "k" in d


@same_as_eager
def test_a_weak_key_that_nobody_else_holds(x):
    d = weakref.WeakKeyDictionary(); d[A()] = 1
    return x + 1, len(d)


@same_as_eager
def test_an_element_that_nobody_else_holds(x):
    d = weakref.WeakSet(); d.add(A())
    return x + 1, list(d)


@same_as_eager
def test_what_a_weak_key_led_to_ends(x):
    class H:
        def __del__(self): print("gone")
    d = weakref.WeakKeyDictionary(); k = A(); d[k] = H(); del k
    print("after")
    return x + 1


@same_as_eager(graphs=1)
def test_the_class_of_none(x):
    return x + 1, None.__class__, None.__class__.__name__, None.__eq__(None), None.__bool__()


@functools.singledispatch
def chosen(value):
    return "other"


@chosen.register
def _(value: int):
    return "int"


def test_an_implementation_that_comes_later():
    def program(x, value):
        return x + 1, chosen(value)

    check(program, *tensors(2), "text", graphs=1)
    compiled = jit.compile(program)
    assert compiled(torch.ones(2), "text")[1] == "other"
    chosen.register(str, lambda value: "str")
    try:
        assert compiled(torch.ones(2), "text")[1] == "str"
    finally:
        chosen.register(str, chosen.dispatch(object))


def test_registration_with_a_function_that_exists():
    def program(x):
        @chosen.register
        def _(value: list):
            return "list"

        return x + 1, chosen([]), chosen(1)

    check(program, *tensors(2))


@pytest.mark.parametrize("others", [(), (1, 2)])
def test_a_cache_by_the_object_that_it_is_of(others):
    cache = weakref.WeakKeyDictionary()

    def of(x, module):
        if module not in cache:
            cache[module] = x + 1
        return cache[module] * 2

    compiled, modules = jit.compile(of), [torch.nn.Linear(2, 2) for _ in range(3)]
    x = torch.ones(2)
    for module in (*modules, modules[0], *(modules[at] for at in others)):
        assert torch.equal(compiled(x, module), (x + 1) * 2)
        x = x * 1
    assert len(cache) == 3
    del modules[1:], module
    assert len(cache) == 1


def test_weak_containers_that_exist():
    keys, values = weakref.WeakKeyDictionary(), weakref.WeakValueDictionary()

    def program(x, asked):
        return x * keys.get(asked, 3), asked in keys, values.get("b") is asked, len(keys), len(values), "c" in values

    compiled = jit.compile(program, fullgraph=True)
    first, second, third = A(), A(), A()
    keys[first], keys[second], values["a"], values["b"] = 5, 6, first, second
    for asked in (first, second, third, first):
        assert str(compiled(torch.ones(2), asked)) == str(program(torch.ones(2), asked))
    del second, asked
    for asked in (first, third):
        assert str(compiled(torch.ones(2), asked)) == str(program(torch.ones(2), asked))
    assert len(keys) == len(values) == 1


@pytest.mark.parametrize("ask", [
    lambda found, kept: found <= kept,
    lambda found, kept: found < kept,
    lambda found, kept: found > kept,
    lambda found, kept: found == kept,
    lambda found, kept: found.issubset(kept),
    lambda found, kept: found.isdisjoint(kept),
    lambda found, kept: len(found | kept),
    lambda found, kept: len(found - kept),
    lambda found, kept: len(found & kept),
    lambda found, kept: found.issuperset(kept),
    lambda found, kept: bool(found),
    lambda found, kept: repr(found.copy())[:8],
    lambda found, kept: found.clear(),
])
def test_elements_that_ended_are_counted_by_nobody(ask):
    def program(x):
        key = A()
        kept = weakref.WeakSet([key])
        found = weakref.WeakSet([key])
        found.add(A())
        return x + 1, ask(found, kept)

    check(program, *tensors(2))


@pytest.mark.parametrize("ask", [
    lambda found: len(found.keyrefs()),
    lambda found: len(list(found.items())),
    lambda found: bool(found),
    lambda found: len(found.copy()),
    lambda found: found.clear(),
    lambda found: list(found.values()),
    lambda found: found.popitem() if found else None,
])
def test_keys_that_ended_are_counted_by_nobody(ask):
    def program(x):
        found = weakref.WeakKeyDictionary()
        found[A()] = 1
        return x + 1, ask(found)

    check(program, *tensors(2))


@pytest.mark.parametrize("ask", [
    lambda found: len(found.valuerefs()),
    lambda found: len(list(found.items())),
    lambda found: list(found),
    lambda found: found.get("a"),
    lambda found: found.setdefault("a", A) is A,
    lambda found: found.pop("a", 3),
    lambda found: [found.update(b=A), list(found)],
])
def test_values_that_ended_are_counted_by_nobody(ask):
    def program(x):
        found = weakref.WeakValueDictionary()
        found["a"] = A()
        return x + 1, ask(found)

    check(program, *tensors(2))


def test_function_of_c_that_came_in_and_was_let_go():
    _testcapi = pytest.importorskip("_testcapi")

    def program(x):
        made = _testcapi.create_cfunction()
        reference = weakref.ref(made)
        found = reference() is made
        del made
        return x + 1, found, reference() is None

    check(program, torch.ones(3))
