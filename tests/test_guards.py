"""Guards: compiled again when it must, and not when nothing relevant changed.

Each case calls a compiled function on inputs in turn; every result is compared with eager, and the compilations counted.
"""
import collections
import contextlib
import enum
import types

import numpy
import pytest
import torch
from torch import nn

import jit
from jit.compiler import told
from tests.differential import COUNTING, Counting, tensors

X, Y = tensors(3, 4, count=2)
GLOBAL = 2
GLOBAL_LIST = [1, 2]
GLOBAL_TENSOR = torch.ones(4)


class Watch:
    """A compiled function beside the original: compares each call and counts compilations."""

    def __init__(self, fn, **options):
        self.fn, self.counter = fn, Counting()
        self.compiled = jit.compile(fn, backend=self.counter, **options)

    def __call__(self, *args, **kwargs):
        torch.manual_seed(0)
        wanted = self.fn(*args, **kwargs)
        torch.manual_seed(0)
        got = self.compiled(*args, **kwargs)
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True, check_stride=True)
        flat = [t for t in torch.utils._pytree.tree_leaves((wanted, got)) if isinstance(t, torch.Tensor)]
        for a, b in zip(flat[:len(flat) // 2], flat[len(flat) // 2:]):
            assert (a.requires_grad, a.is_inference()) == (b.requires_grad, b.is_inference())
        return self

    def expect(self, count, why=""):
        self.counter.expect(count, why)
        return self


def add(x):
    return x * 2 + 1


def two(x, y):
    return x * 2 + y


# --- tensors ------------------------------------------------------------------------------------------------------

CHANGED_TENSORS = {
    "dtype": (lambda: X, lambda: X.double()), "integer dtype": (lambda: torch.arange(4), lambda: torch.arange(4, dtype=torch.int32)),
    "rank": (lambda: X, lambda: X[None]), "shape": (lambda: X, lambda: tensors(7, 4)[0]), "size one": (lambda: X, lambda: tensors(1, 4)[0]),
    "size zero": (lambda: X, lambda: torch.empty(0, 4)), "stride": (lambda: tensors(4, 4)[0], lambda: tensors(4, 4)[0].t()),
    "expanded": (lambda: X, lambda: torch.ones(4).expand(3, 4)), "requires_grad": (lambda: X, lambda: X.clone().requires_grad_()),
    "leaf": (lambda: X.clone().requires_grad_(), lambda: X.clone().requires_grad_() * 1),
    "device": (lambda: X, lambda: X.to("meta")), "parameter": (lambda: X.clone().requires_grad_(), lambda: nn.Parameter(X.clone())),
    "complex": (lambda: X, lambda: X.to(torch.complex64)), "conjugate": (lambda: X.to(torch.complex64), lambda: X.to(torch.complex64).conj()),
    "inference": (lambda: X, lambda: _inference_tensor()), "subclass": (lambda: X, lambda: X.as_subclass(_Sub)),
    "number": (lambda: X, lambda: 3.0), "none": (lambda: X, lambda: X.to(torch.bool)), "sparse": (lambda: X, lambda: torch.eye(3).to_sparse()),
}


class _Sub(torch.Tensor):
    pass


def _inference_tensor():
    with torch.inference_mode():
        return torch.ones(3, 4)


def reads_type(x):
    if not isinstance(x, torch.Tensor):
        return x * 3
    kind = 10 if isinstance(x, nn.Parameter) else 5
    return x * kind


@pytest.mark.parametrize("what", CHANGED_TENSORS)
def test_a_changed_tensor(what):
    first, second = CHANGED_TENSORS[what]
    watch = Watch(reads_type)
    for make in (first, second, first, second):
        a, b = make(), make()
        wanted, got = reads_type(a), watch.compiled(b)
        assert type(got) is type(wanted)
        if isinstance(wanted, torch.Tensor):
            assert (got.dtype, got.shape, got.device, got.requires_grad, got.layout, got.is_inference(), got.is_conj()) == (
                wanted.dtype, wanted.shape, wanted.device, wanted.requires_grad, wanted.layout, wanted.is_inference(), wanted.is_conj())
            if not wanted.is_meta:
                assert torch.equal(got.to_dense(), wanted.to_dense())
            if wanted.layout is torch.strided:
                assert got.stride() == wanted.stride()


@pytest.mark.parametrize("what", ["dtype", "rank", "requires_grad", "stride", "parameter"])
def test_a_changed_tensor_compiles_once_more_and_no_more(what):
    first, second = CHANGED_TENSORS[what]
    watch = Watch(reads_type)
    watch(first()).expect(1)
    watch(second()).expect(2, f"after another {what}")
    for _ in range(3):
        watch(first())(second())
    watch.expect(2, "after both are known")


SAME = {
    "the same tensor": lambda: (X, X), "other values": lambda: (X, Y), "another tensor": lambda: (X, X.clone()),
    "another offset": lambda: (X, tensors(5, 4)[0][2:]), "a gradient": lambda: (X.clone().requires_grad_(), _with_grad()),
    "a version": lambda: (X, X.clone().add_(1)),
    "python attributes": lambda: (X, _with_attribute()), "a view": lambda: (X, tensors(12)[0].view(3, 4)),
}


def _with_grad():
    x = X.clone().requires_grad_()
    x.grad = torch.ones_like(x)
    return x


def _with_attribute():
    x = X.clone()
    x.tag = "t"
    return x


@pytest.mark.parametrize("what", SAME)
def test_irrelevant_changes_do_not_compile(what):
    watch = Watch(add)
    for x in SAME[what]():
        watch(x)
    watch.expect(1)


def test_many_shapes_stay_right_and_stop_compiling():
    watch = Watch(lambda x: x * x.shape[0] + x.sum(0), options={"recompile_limit": 4})
    for n in (2, 3, 5, 8, 13, 21, 1, 0, 2):
        watch(torch.randn(n, 4))
    if COUNTING:
        assert watch.counter.count <= 4, "sizes that vary stop compiling"


class Silent:
    """Asked for nothing by anybody."""

    def __init__(self, asked):
        object.__setattr__(self, "asked", asked)

    def __getattribute__(self, name):
        object.__getattribute__(self, "asked").append(name)
        return object.__getattribute__(self, name)

    def __repr__(self):
        object.__getattribute__(self, "asked").append("repr")
        return "Silent"


def test_values_are_told_in_words_of_our_own(caplog):
    asked = []
    compiled = jit.compile(lambda x, value: (x + 1, value is None), options={"recompile_limit": 2}, backend="eager")
    for value in (None, "a", Silent(asked)):
        compiled(torch.ones(2), value)
    assert "saw <tests.test_guards.Silent object at" in caplog.text
    assert told([Silent(asked), 1]).startswith("<list object at")
    assert told({1: [2, "a"]}) == "{1: [2, 'a']}"
    assert asked == []


@pytest.mark.filterwarnings("error")
def test_that_a_function_is_compiled_no_more_is_told_once(caplog):
    def program(x, name):
        return x + len(name), name
    compiled = jit.compile(program, options={"recompile_limit": 3}, backend="eager")
    assert [compiled(torch.ones(1), "a" * n)[0].item() for n in range(6)] == [1, 2, 3, 4, 5, 6]
    assert caplog.text.count("was compiled 3 times") == 1


def test_dynamic_true_and_false():
    watch = Watch(add, dynamic=False)
    watch(torch.randn(3, 4))(torch.randn(5, 4))(torch.randn(3, 4)).expect(2)
    watch = Watch(add, dynamic=True)
    for n in (4, 5, 6, 7):
        watch(torch.randn(n, 4))


def test_size_that_decides_a_branch():
    watch = Watch(lambda x: x + 1 if x.shape[0] > 4 else x - 1)
    for n in (2, 3, 5, 4, 9, 2):
        watch(torch.randn(n, 4))


# --- which inputs are the same, or overlap -----------------------------------------------------------------------

def mutates_first(a, b):
    a.add_(1)
    return a + b, b * 2


def _overlap():
    base = torch.arange(10.0)
    return base[:6], base[4:]


PAIRS = {
    "apart": lambda: (torch.zeros(6), torch.ones(6)), "the same": lambda: (lambda t: (t, t))(torch.ones(6)), "overlapping": _overlap,
    "a view": lambda: (lambda t: (t, t.view(6)))(torch.ones(6)), "same storage apart": lambda: (lambda t: (t[:6], t[6:]))(torch.arange(12.0)),
    "base and part": lambda: (lambda t: (t, t.view(2, 3)[0].expand(6, 3)[:, 0]))(torch.ones(6)),
    "detached": lambda: (lambda t: (t, t.detach()))(torch.ones(6)),
    "one memory": lambda: (lambda t: (t, torch.from_numpy(t.numpy())))(torch.ones(6)),
    "numpy's memory apart": lambda: (lambda t: (t[:6], torch.from_numpy(t.numpy()[6:])))(torch.ones(12)),
    "numpy's memory twice": lambda: (lambda a: (torch.from_numpy(a[:6]), torch.from_numpy(a[2:])))(numpy.ones(8)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", PAIRS)
@pytest.mark.parametrize("second", PAIRS)
def test_aliases_among_inputs_in_both_directions(first, second):
    f = jit.compile(mutates_first, backend="eager")
    for name in (first, second, first, second):
        a, b = PAIRS[name](), PAIRS[name]()
        wanted, got = mutates_first(*a), f(*b)
        for w, g in zip((*wanted, *a), (*got, *b)):
            assert torch.equal(w, g), f"{name} after {first} and {second}"


def returns_identity(a, b):
    c = a + 1
    return c, a is b, [a, b]


@pytest.mark.parametrize("order", [("apart", "the same"), ("the same", "apart"), ("the same", "a view")])
def test_identity_of_inputs(order):
    f = jit.compile(returns_identity, backend="eager")
    for name in order * 2:
        a, b = PAIRS[name]()
        _, same, kept = f(a, b)
        assert same is (a is b) and kept[0] is a and kept[1] is b


class Thing:
    pass


def told_apart_by_is(a, b):
    return a is b, a is not b


def told_apart_by_id(a, b):
    return id(a) == id(b)


def told_apart_by_equality(a, b):
    return a in [b], [a].count(b), a == b


def told_apart_as_keys(a, b):
    return len({a, b}), len({a: 1, b: 2}), {a: 1, b: 2}[a]


def told_apart_by_an_in_place_detach(a, b):
    a.detach_()
    return b.requires_grad


def _pairs(make):
    return lambda: (make(), make()), lambda: (make(),) * 2


OBJECTS = (Thing, list, dict, set, lambda: (Thing(),), lambda: torch.ones(2))
TOLD_APART = [
    *((program, make) for program in (told_apart_by_is, told_apart_by_id) for make in OBJECTS if make is not OBJECTS[4]),
    (told_apart_by_is, OBJECTS[4]),
    (told_apart_by_equality, Thing),
    *((told_apart_as_keys, make) for make in (Thing, OBJECTS[5])),
    (told_apart_by_an_in_place_detach, lambda: torch.ones(2, requires_grad=True) * 2),
]


@pytest.mark.parametrize("one_first", [False, True])
@pytest.mark.parametrize("program, make", TOLD_APART, ids=lambda part: getattr(part, "__name__", "object"))
def test_two_objects_that_come_in_as_one(program, make, one_first):
    f = jit.compile(program, backend="eager")
    pairs = _pairs(make)[:: -1 if one_first else 1]
    for pair in (*pairs, *pairs):
        first, second = pair(), pair()
        assert f(*first) == program(*second)


def test_argument_that_is_a_closure_or_global_tensor():
    held = torch.ones(4)

    def program(x):
        x.add_(1)
        return x + held + GLOBAL_TENSOR
    f = jit.compile(program, backend="eager")
    for x in (torch.zeros(4), held, GLOBAL_TENSOR, torch.zeros(4)):
        before = x.clone()
        got = f(x)
        after = x.clone()
        x.copy_(before)
        wanted = program(x)
        assert torch.equal(got, wanted) and torch.equal(after, x)
        x.copy_(before)


def test_argument_that_is_a_parameter_of_the_module():
    m = nn.Linear(4, 4)

    def program(m, x):
        with torch.no_grad():
            x.mul_(2)
            return m.bias + x
    f = jit.compile(program, backend="eager")
    for _ in range(2):
        for x in (torch.ones(4), m.bias):
            before = x.detach().clone()
            got = f(m, x).clone()
            with torch.no_grad():
                x.copy_(before)
            assert torch.equal(got, program(m, x))
            with torch.no_grad():
                x.copy_(before)


@pytest.mark.parametrize("order", ["same first", "apart first"])
def test_lists_that_are_the_same(order):
    def program(a, b, x):
        a.append(x * 2)
        return len(b)
    f = jit.compile(program, backend="eager")
    for same in ((True, False) if order == "same first" else (False, True)) * 2:
        a = [1]
        b = a if same else [1]
        assert f(a, b, X) == (2 if same else 1) and len(a) == 2


# --- python values -----------------------------------------------------------------------------------------------

class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Plain:
    def __init__(self, **kw):
        self.__dict__.update(kw)


def f_one(x):
    return x + 1


def f_two(x):
    return x + 2


Point = collections.namedtuple("Point", "x y")

# what -> (program over (x, v), values in turn, each unlike all others)
VALUES = {
    "int": (lambda x, v: x[:v], [1, 2]), "float": (lambda x, v: x * v, [1.5, 2.5, float("inf"), -0.0]), "bool": (lambda x, v: x + 1 if v else x - 1, [True, False]),
    "bool and int": (lambda x, v: x + (1 if v is True else 2), [True, 1, 1.0]), "str": (lambda x, v: x + len(v), ["a", "bb"]),
    "none": (lambda x, v: x + 1 if v is None else x - v, [None, 1]), "dtype": (lambda x, v: x.to(v), [torch.float64, torch.float16]),
    "type": (lambda x, v: x + (1 if isinstance(v, list) else 2), [[1], (1,), {1: 1}]), "enum": (lambda x, v: x + v.value, [Color.RED, Color.BLUE]),
    "tuple": (lambda x, v: x + v[0], [(1, 2), (2, 2), (1,)]), "length": (lambda x, v: x + len(v), [[1], [1, 2], []]), "list item": (lambda x, v: x + v[0], [[1], [2]]),
    "dict value": (lambda x, v: x + v["k"], [{"k": 1}, {"k": 2}]), "dict keys": (lambda x, v: x + len(v), [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}]),
    "dict order": (lambda x, v: [x + n for n in v.values()], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]), "missing key": (lambda x, v: x + v.get("k", 5), [{}, {"k": 1}]),
    "attribute value": (lambda x, v: x + v.n, [Plain(n=1), Plain(n=2)]), "attribute presence": (lambda x, v: x + getattr(v, "n", 9), [Plain(), Plain(n=1)]),
    "has attribute": (lambda x, v: x + 1 if hasattr(v, "n") else x, [Plain(), Plain(n=1)]), "attribute order": (lambda x, v: [x + n for n in vars(v).values()], [Plain(a=1, b=2), Plain(b=2, a=1)]),
    "function": (lambda x, v: v(x), [f_one, f_two]), "torch function": (lambda x, v: v(x), [torch.sin, torch.cos]), "class": (lambda x, v: x + (v is int), [int, str]),
    "set": (lambda x, v: x + len(v) if 1 in v else x, [{1}, {2}, {1, 2}]), "namedtuple": (lambda x, v: x + v.x, [Point(1, 2), Point(2, 2)]), "range": (lambda x, v: x + sum(v), [range(2), range(3)]),
    "nested": (lambda x, v: x + v["a"][0].n, [{"a": [Plain(n=1)]}, {"a": [Plain(n=2)]}]), "device": (lambda x, v: x.to(v), [torch.device("cpu"), "cpu"]),
    "module": (lambda x, v: v(x), [nn.ReLU(), nn.Tanh(), nn.Softmax(-1)]), "tensor or number": (lambda x, v: x + v, [1, X, 1.0]), "slice": (lambda x, v: x[v], [slice(0, 1), slice(1, 3)]),
    "float and int": (lambda x, v: (x.long() + v), [1, 1.0]), "zero signs": (lambda x, v: x * 0 + v, [0.0, -0.0]), "nan": (lambda x, v: x + 1 if v != v else x, [float("nan"), 0.0]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", VALUES)
def test_a_changed_value(what):
    program, values = VALUES[what]
    watch = Watch(program)
    for v in [*values, *values, *reversed(values)]:
        watch(X, v)
    before = watch.counter.count
    watch(X, values[-1])(X, values[0])
    assert watch.counter.count == before, "values that are known do not compile"


@pytest.mark.parametrize("what", VALUES)
def test_unused_values_do_not_compile(what):
    watch = Watch(lambda x, v: x * 2)
    for v in VALUES[what][1]:
        watch(X, v)
    kinds = len({type(v) for v in VALUES[what][1]})
    if kinds == 1 and not isinstance(VALUES[what][1][0], nn.Module):
        watch.expect(1, "for an argument that is not read")


# what -> (make an object, program over (object, x), change the object, whether that compiles again; None: either is right)
CHANGES = {
    "attribute of an object": (lambda: Plain(n=1, m=2), lambda o, x: x + o.n, lambda o: setattr(o, "n", 5), True),
    "attribute that is not read": (lambda: Plain(n=1, m=2), lambda o, x: x + o.n, lambda o: setattr(o, "m", 5), False),
    "attribute that is new": (lambda: Plain(n=1), lambda o, x: x + getattr(o, "z", 0) + o.n, lambda o: setattr(o, "z", 5), True),
    "attribute that is deleted": (lambda: Plain(n=1, z=2), lambda o, x: x + getattr(o, "z", 0), lambda o: delattr(o, "z"), True),
    "list grows": (lambda: [1, 2], lambda o, x: x + sum(o), lambda o: o.append(3), True),
    "list item": (lambda: [1, 2], lambda o, x: x + o[1], lambda o: o.__setitem__(1, 7), True),
    "dict key": (lambda: {"a": 1}, lambda o, x: x + sum(o.values()), lambda o: o.__setitem__("b", 7), True),
    "dict order": (lambda: {"a": 1, "b": 3}, lambda o, x: [x + v for v in o.values()], lambda o: o.__setitem__("a", o.pop("a")), True),
    "ordered dict moved": (lambda: collections.OrderedDict(a=1, b=3), lambda o, x: [x + v for v in o.values()], lambda o: o.move_to_end("a"), True),
    "train flag": (lambda: nn.Dropout(0.5), lambda o, x: o(x), lambda o: o.eval(), True),
    "train flag of a child": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), lambda o, x: o(x), lambda o: o[1].eval(), True),
    "module attribute": (lambda: nn.LeakyReLU(0.1), lambda o, x: o(x), lambda o: setattr(o, "negative_slope", 0.5), True),
    "parameter in place": (lambda: nn.Linear(4, 4), lambda o, x: o(x), lambda o: o.weight.data.mul_(2), False),
    "parameter through data": (lambda: nn.Linear(4, 4), lambda o, x: o(x), lambda o: setattr(o.weight, "data", torch.ones(4, 4)), False),
    "parameter shape through data": (lambda: nn.Linear(4, 4), lambda o, x: o(x) if o.weight.shape[0] == 4 else x @ o.weight.t(), lambda o: setattr(o.weight, "data", torch.ones(2, 4)), True),
    "parameter replaced": (lambda: nn.Linear(4, 4), lambda o, x: o(x), lambda o: setattr(o, "weight", nn.Parameter(torch.ones(4, 4))), None),
    "parameter frozen": (lambda: nn.Linear(4, 4), lambda o, x: o(x), lambda o: o.weight.requires_grad_(False), True),
    "parameter dtype": (lambda: nn.Linear(4, 4, bias=False), lambda o, x: x.to(o.weight.dtype) @ o.weight, lambda o: o.double(), True),
    "parameter deleted": (lambda: nn.Linear(4, 4), lambda o, x: o(x), lambda o: setattr(o, "bias", None), True),
    "buffer replaced": (lambda: nn.BatchNorm1d(4).eval(), lambda o, x: o(x), lambda o: setattr(o, "running_mean", torch.ones(4)), None),
    "state dict loaded": (lambda: nn.Linear(4, 4), lambda o, x: o(x), lambda o: o.load_state_dict({"weight": torch.ones(4, 4), "bias": torch.ones(4)}), False),
    "child replaced": (lambda: nn.Sequential(nn.ReLU(), nn.Tanh()), lambda o, x: o(x), lambda o: o.__setitem__(0, nn.Sigmoid()), True),
    "child added": (lambda: nn.Sequential(nn.ReLU()), lambda o, x: o(x), lambda o: o.append(nn.Tanh()), True),
    "forward hook": (lambda: nn.ReLU(), lambda o, x: o(x), lambda o: o.register_forward_hook(lambda m, a, r: r * 2), True),
    "forward pre hook": (lambda: nn.ReLU(), lambda o, x: o(x), lambda o: o.register_forward_pre_hook(lambda m, a: (a[0] + 1,)), True),
    "hook of a child": (lambda: nn.Sequential(nn.Sequential(nn.ReLU())), lambda o, x: o(x), lambda o: o[0][0].register_forward_hook(lambda m, a, r: r * 2), True),
    "forward replaced": (lambda: nn.ReLU(), lambda o, x: o(x), lambda o: setattr(o, "forward", lambda x: x * 7), True),
    "instance method replaced": (lambda: Plain(f=f_one), lambda o, x: o.f(x), lambda o: setattr(o, "f", f_two), True),
    "class of the object": (lambda: _Child(), lambda o, x: o.run(x), lambda o: setattr(o, "__class__", _Other), True),
    "dict of the module": (lambda: nn.LeakyReLU(0.1), lambda o, x: o(x), lambda o: o.__dict__.update(negative_slope=0.9), True),
    "inner list of the module": (lambda: _holder(), lambda o, x: x + sum(o.items_), lambda o: o.items_.append(5), True),
}


class _Child:
    def run(self, x):
        return x + 1


class _Other:
    def run(self, x):
        return x + 2


def _holder():
    m = nn.ReLU()
    m.items_ = [1]
    return m


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", CHANGES)
def test_an_object_that_changes_between_calls(what):
    make, program, change, compiles = CHANGES[what]
    o = make()
    watch = Watch(program)
    watch(o, X)(o, X).expect(1)
    change(o)
    watch(o, X)
    if compiles is not None:
        watch.expect(2 if compiles else 1)
    count = watch.counter.count
    watch(o, X)(o, Y)
    assert watch.counter.count == count


def test_class_attribute_and_method_that_change():
    class Model:
        k = 1

        def run(self, x):
            return x + self.k
    m = Model()
    watch = Watch(lambda m, x: m.run(x))
    watch(m, X).expect(1)
    Model.k = 5
    watch(m, X).expect(2)
    m.k = 7
    watch(m, X).expect(3)
    Model.run = lambda self, x: x * 10
    watch(m, X).expect(4)


def test_method_of_the_class_of_a_module_changes():
    class Layer(nn.Module):
        def forward(self, x):
            return x + 1
    m = Layer()
    watch = Watch(lambda m, x: m(x))
    watch(m, X)
    Layer.forward = lambda self, x: x * 3
    watch(m, X)


def test_global_value():
    global GLOBAL
    watch = Watch(lambda x: x * GLOBAL)
    try:
        watch(X)(X).expect(1)
        GLOBAL = 3
        watch(X).expect(2)
        GLOBAL = 2
        watch(X).expect(2, "the first value is known")
        GLOBAL = X
        watch(X).expect(3)
    finally:
        GLOBAL = 2


def test_global_list_and_function():
    global f_one
    watch = Watch(lambda x: f_one(x) + sum(GLOBAL_LIST))
    kept = f_one
    try:
        watch(X).expect(1)
        GLOBAL_LIST.append(3)
        watch(X).expect(2)
        f_one = f_two
        watch(X).expect(3)
    finally:
        f_one = kept
        del GLOBAL_LIST[2:]


def test_global_that_hides_a_builtin():
    watch = Watch(lambda x: x + len([1, 2]))
    watch(X)
    try:
        globals()["len"] = lambda v: 100
        watch(X)
    finally:
        del globals()["len"]
    watch(X)


def test_unrelated_globals_do_not_compile():
    watch = Watch(lambda x: x * GLOBAL)
    watch(X)
    try:
        globals()["unrelated_name"] = 1
        watch(X).expect(1)
    finally:
        globals().pop("unrelated_name", None)
    watch(X).expect(1)


def test_closure_value():
    k = 2
    watch = Watch(lambda x: x * k)
    watch(X).expect(1)
    k = 3
    watch(X).expect(2)
    k = 2
    watch(X).expect(2)


def test_closures_of_one_function_do_not_mix():
    def make(k):
        return lambda x: x * k
    for k in (2, 3, X):
        f = make(k)
        assert torch.equal(jit.compile(f, backend="eager")(X), f(X))


def test_attribute_of_a_torch_module_that_is_patched():
    watch = Watch(lambda x: torch.nn.functional.relu(x))
    watch(X)
    kept = torch.nn.functional.relu
    try:
        torch.nn.functional.relu = lambda x: x * 5
        watch(X)
    finally:
        torch.nn.functional.relu = kept
    watch(X)


def test_code_of_a_callee_that_changes():
    def callee(x):
        return x + 1
    watch = Watch(lambda x: callee(x) * 2)
    watch(X)
    callee.__code__ = (lambda x: x + 50).__code__
    watch(X)


def test_defaults_of_the_function_and_of_a_callee_that_change():
    def callee(x, k=1):
        return x + k

    def program(x, n=2):
        return callee(x) * n
    watch = Watch(program)
    watch(X)
    callee.__defaults__ = (10,)
    watch(X)
    program.__defaults__ = (3,)
    watch(X)


# --- the state of torch -------------------------------------------------------------------------------------------

@contextlib.contextmanager
def setting(set_, get, value):
    before = get()
    set_(value)
    try:
        yield
    finally:
        set_(before)


ATTENTION = [torch.nn.attention.SDPBackend.FLASH_ATTENTION, torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION, torch.nn.attention.SDPBackend.CUDNN_ATTENTION, torch.nn.attention.SDPBackend.OVERRIDEABLE]
STATES = {
    "no_grad": torch.no_grad, "inference mode": torch.inference_mode, "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast of another dtype": lambda: torch.autocast("cpu", dtype=torch.float16), "default dtype": lambda: setting(torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "default device": lambda: torch.device("meta"), "deterministic": lambda: setting(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True),
    "threads": lambda: setting(torch.set_num_threads, torch.get_num_threads, 2), "anomaly": torch.autograd.detect_anomaly,
    "attention kernels": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "order of attention kernels": lambda: torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH, *ATTENTION], set_priority=True),
    "saved tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
}


def reads_state(x):
    y = (x @ x.t()) * 2
    return y, torch.zeros(2).dtype, torch.empty(1).device, torch.is_grad_enabled(), y.requires_grad, y.dtype


@pytest.mark.parametrize("state", STATES)
@pytest.mark.filterwarnings("ignore")
def test_a_state_of_torch(state):
    x = X.clone().requires_grad_()
    counter = Counting()
    f = jit.compile(reads_state, backend=counter)

    def same():
        wanted, got = reads_state(x), f(x)
        assert torch.equal(wanted[0], got[0]) and wanted[1:] == got[1:]
        assert (wanted[0].grad_fn is None, wanted[0].is_inference()) == (got[0].grad_fn is None, got[0].is_inference())
    same()
    count = counter.count
    same()
    assert counter.count == count
    with STATES[state]():
        same()
        if state not in ("anomaly", "saved tensor hooks"):
            counter.expect(2 * count, f"under another {state}")
        seen = counter.count
        same()
        assert counter.count == seen
    same()
    assert counter.count == seen, "the first state is known"


@pytest.mark.parametrize("state", ["function mode", "dispatch mode"])
def test_a_mode_of_the_user(state):
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Function(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))
    f = jit.compile(add, backend="eager")
    f(X)
    names = {}
    for fn in (add, f, f):
        seen.clear()
        with (Function() if state == "function mode" else Dispatch()):
            got = fn(X)
        names.setdefault("eager", list(seen))
        assert seen == names["eager"] and torch.equal(got, add(X)), "a mode sees compiled operations as it sees eager ones"
    assert torch.equal(f(X), add(X))


def test_vmap_and_grad_over_a_compiled_function():
    f = jit.compile(lambda x: (x * x).sum(), backend="eager")
    assert torch.equal(torch.func.grad(f)(X), 2 * X)
    assert torch.equal(torch.vmap(f)(X), (X * X).sum(1))
    assert torch.equal(f(X), (X * X).sum())


def test_fake_tensors_and_tracing_over_a_compiled_function():
    from torch.fx.experimental.proxy_tensor import make_fx
    f = jit.compile(add, backend="eager")
    f(X)
    gm = make_fx(f)(X)
    assert torch.equal(gm(Y), add(Y))
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode() as mode:
        assert f(mode.from_tensor(X)).shape == X.shape
    assert torch.equal(f(X), add(X))


# --- bounds and words ---------------------------------------------------------------------------------------------

def test_recompiles_are_bounded(caplog):
    watch = Watch(lambda x, s: x + len(s))
    for i in range(60):
        watch(X, "s" * i)
    assert watch.counter.count <= jit.config.recompile_limit
    if watch.counter.count:
        told = [text for text in caplog.messages if "recompil" in text]
        assert len(told) <= 1, "one line says why"


def test_newest_hit_among_many():
    watch = Watch(lambda x, n: x + n)
    for n in (1.5, 2.5, True, 3):
        watch(X, n)
    count = watch.counter.count
    for n in (1.5, 2.5, True, 3) * 3:
        watch(X, n)
    assert watch.counter.count == count


def test_guards_have_a_printed_form():
    report = jit.explain(two)(X, Y)
    text = str(report.guards)
    assert "x" in text and len(text) > 10


def test_keyword_and_positional_calls_share_an_entry():
    watch = Watch(two)
    watch(X, Y)(x=X, y=Y)(X, y=Y)(y=Y, x=X).expect(1)


def test_different_number_of_star_arguments():
    watch = Watch(lambda *xs, **kw: sum(xs) + sum(kw.values()))
    watch(X).expect(1)
    watch(X, Y).expect(2)
    watch(X, k=Y).expect(3)
    watch(X, j=Y).expect(4)
    watch(X)(X, Y)(X, k=Y).expect(4)


def test_objects_whose_comparison_lies():
    class Always:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        k = 1
    a, b = Always(), Always()
    b.k = 5
    watch = Watch(lambda x, o: x + o.k)
    watch(X, a)(X, b)(X, a)


def test_simple_namespace():
    ns = types.SimpleNamespace(k=1)
    watch = Watch(lambda x: x + ns.k)
    watch(X)
    ns.k = 2
    watch(X).expect(2)


@pytest.mark.parametrize("one, other", [
    ({1}, {True}), ({1.0}, {1}), ({0.0}, {-0.0}), (frozenset({1}), frozenset({True})), ({(1,)}, {(True,)}), ({frozenset({1})}, {frozenset({1.0})}),
], ids=str)  # fmt: skip
def test_sets_that_are_equal_but_not_the_same(one, other):
    def program(x, elements):
        return x + 1, list(elements), 1 in elements

    compiled = jit.compile(program, backend="eager")
    for elements in (one, other, one):
        assert repr(compiled(torch.ones(1), elements)) == repr(program(torch.ones(1), elements))


def test_that_a_dict_is_empty_is_one_fact_for_all_keys():
    def f(x, known):
        return x + sum(name in known for name in "abc") + known.get("d", 10)

    said = [guard for guard in map(str, jit.explain(f)(X, {}).guards) if "known" in guard]
    assert len(said) == 2 and said[1].startswith("len(known) == 0"), said
    compiled = jit.compile(f)
    for known in ({}, {}, {"a": 1}, {"d": 2}, {"b": 1, "c": 2}, {}):
        assert torch.equal(compiled(X, known), f(X, known))
