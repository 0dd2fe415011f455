"""Guards: what holds, what fails, and that what is remembered never hides a change."""

import collections
import gc
import math
import sys
import weakref

import pytest
import torch

import jit._C as C
from tests.native.guarding import holds, on_argument, plain


def function_with_globals(values):
    space = dict(values)
    exec("def f(*slots): pass", space)
    return space["f"]


# --- constants


@pytest.mark.parametrize(
    "expected, same, other",
    [
        (1, 1, True),
        (1.0, 1.0, 1),
        (0.0, 0.0, -0.0),
        (math.nan, float("nan"), 0.0),
        (complex(0.0, -0.0), complex(0.0, -0.0), complex(0.0, 0.0)),
        ("abc", "".join(["a", "bc"]), "abd"),
        ((1, (2.0, "x")), (1, (2.0, "x")), (1, (2, "x"))),
        ((1, 2), (1, 2), torch.Size((1, 2))),
        (torch.Size((1, 2)), torch.Size((1, 2)), torch.Size((1, 3))),
        (frozenset({1, 2}), frozenset({2, 1}), frozenset({True, 2})),
        (slice(1, 2), slice(1, 2), slice(True, 2)),
        (torch.float32, torch.float32, torch.float64),
        (torch.device("cpu"), torch.device("cpu"), torch.device("meta")),
        (10**30, 10**30, 10**30 + 1),
        (None, None, False),
    ],
)
def test_eq_means_the_same_constant(expected, same, other):
    guards = on_argument("eq", expected)
    assert holds(guards, same)
    assert not holds(guards, other)
    assert guards.explain(plain, (other,)) == (0, other)


def test_identity_and_type():
    class Thing:
        pass

    one, other = Thing(), Thing()
    assert holds(on_argument("is", one), one) and not holds(on_argument("is", one), other)
    assert holds(on_argument("type", Thing), one) and not holds(on_argument("type", object), one)


def test_is_weak_keeps_nothing_alive():
    class Thing:
        pass

    thing = Thing()
    guards = on_argument("is_weak", thing)
    gone = weakref.ref(thing)
    assert holds(guards, thing) and not holds(guards, Thing())
    del thing
    assert gone() is None
    assert not holds(guards, Thing())


# --- tensors


def tensor_guards(tensor, **changes):
    return on_argument("tensor", {**C.tensor_info(tensor), **changes})


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.double(),
        lambda t: t.t(),
        lambda t: t[:2],
        lambda t: t[None],
        lambda t: t.clone().requires_grad_(),
        lambda t: torch.nn.Parameter(t, requires_grad=False),
        lambda t: t.to("meta"),
        lambda t: t.to_sparse(),
        lambda t: t.to(torch.complex64).conj(),
        lambda t: torch.empty(3, 8)[:, ::2],
    ],
)
def test_tensor_properties_are_told_apart(change):
    tensor = torch.ones(3, 4)
    guards = tensor_guards(tensor)
    assert holds(guards, torch.zeros(3, 4))
    assert not holds(guards, change(tensor))


def test_leaves_are_told_from_results():
    leaf = torch.ones(3, 4, requires_grad=True)
    view = torch.ones(12).view(3, 4).requires_grad_()  # of a base without gradient
    results = [leaf * 2, (leaf * 2).view(4, 3).t().contiguous(), (leaf * 2)[:], (leaf * 2).requires_grad_()]
    written = torch.ones(7, 3, 4)[3]  # of which nobody has asked since whether it is one
    written[:, 1:].mul_(leaf[:, 1:])
    guards = tensor_guards(leaf)
    assert not holds(guards, written)
    assert holds(guards, leaf) and holds(guards, view) and holds(guards, torch.zeros(3, 4, requires_grad=True))
    assert not any(holds(guards, result) for result in results)
    for result in results:
        guards = tensor_guards(result)
        assert all(holds(guards, other) for other in results) and not holds(guards, leaf) and not holds(guards, view)
    guards = tensor_guards(torch.ones(3, 4))
    assert holds(guards, torch.ones(3, 4)) and holds(guards, leaf.detach())



def test_tensor_in_place_changes_are_seen():
    for change in (
        lambda t: t.resize_(2, 6),
        lambda t: t.t_(),
        lambda t: t.requires_grad_(),
        lambda t: setattr(t, "data", torch.ones(2)),
        lambda t: setattr(t, "data", torch.ones(3, 4).double()),
    ):
        tensor = torch.ones(3, 4)
        guards = tensor_guards(tensor)
        assert holds(guards, tensor)
        change(tensor)
        assert not holds(guards, tensor)


def test_views_require_grad_through_their_base():
    base = torch.ones(4)
    view = base[:2]
    guards = tensor_guards(view)
    assert holds(guards, view)
    with torch.no_grad():
        other = torch.ones(4, requires_grad=True)[:2]
    for tensor in (other, torch.ones(4, requires_grad=True)[:2]):
        assert holds(guards, tensor) == (not tensor.requires_grad)
    base.mul_(torch.ones(4, requires_grad=True))
    assert view.requires_grad and not holds(guards, view)


def test_tensor_keys_follow_the_mode_of_the_thread():
    tensor = torch.ones(2)
    guards = tensor_guards(tensor)
    with torch.inference_mode():
        assert not holds(guards, tensor)
        assert not holds(guards, torch.ones(2))
    with torch.autocast("cpu"):
        assert not holds(guards, tensor)
    seen = []
    torch.vmap(lambda x: seen.append(guards.check(plain, (x,))) or x)(torch.ones(3, 2))
    assert seen == [None]


def test_tensor_dimensions_may_be_any():
    guards = tensor_guards(torch.ones(3, 4), sizes=(None, 4), strides=(4, 1))
    assert holds(guards, torch.ones(7, 4)) and not holds(guards, torch.ones(3, 5))
    guards = tensor_guards(torch.ones(3, 4), strides=None)
    assert holds(guards, torch.ones(4, 3).t()) and not holds(guards, torch.ones(4, 3))
    big = torch.ones(1, 2, 1, 2, 1, 2)
    assert holds(tensor_guards(big), big.clone()) and not holds(tensor_guards(big), big[..., :1])


def test_tensor_without_plain_sizes():
    sparse = torch.ones(3).to_sparse()
    assert holds(tensor_guards(sparse), sparse) and not holds(tensor_guards(sparse), torch.ones(3))
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert C.tensor_info(nested)["sizes"] is None and C.tensor_info(nested)["strides"] is None
    assert holds(tensor_guards(nested), nested)


def test_tensor_payload_is_checked():
    with pytest.raises(KeyError, match="dtype"):
        on_argument("tensor", {"cls": torch.Tensor})
    with pytest.raises(TypeError, match="expected a tensor"):
        C.tensor_info(3)


def test_storage_and_distinct():
    base = torch.ones(4)
    view, other = base[:2], torch.ones(4)
    nodes = [(-1, "arg", i) for i in range(3)]
    shares = C.Guards(nodes, [(0, "storage", [[0, 1], [2]])], [])
    assert holds(shares, base, view, other)
    assert not holds(shares, base, other, view)
    assert not holds(shares, base, view, view)
    assert not holds(shares, base, view, 3)
    assert holds(shares, base[:2], view, torch.from_numpy(other.numpy()))
    assert holds(shares, base[:2], base[1:3], torch.from_numpy(base.numpy()[3:]))
    assert not holds(shares, base[:2], base[1:3], torch.from_numpy(base.numpy()[2:]))
    assert holds(shares, base[:2], view, torch.from_numpy(base.numpy()[:0]))
    distinct = C.Guards(nodes, [(0, "distinct", [0, 1, 2])], [])
    assert holds(distinct, 1, 2, 3) and not holds(distinct, 1, 2, 1)
    same = C.Guards(nodes, [(0, "same", 2)], [])
    assert holds(same, base, view, base) and not holds(same, base, view, other)


def test_storage_of_many():
    tensors = [torch.ones(1) for _ in range(40)]
    guards = C.Guards([(-1, "arg", i) for i in range(40)], [(0, "storage", [[i] for i in range(40)])], [])
    assert holds(guards, *tensors)
    tensors[39] = tensors[3].view(1)
    assert not holds(guards, *tensors)


# --- conditions on sizes


def number(value):
    return ("const", value, 0)


def size(node, dim):
    return ("size", node, dim)


def said(*words):
    """Postfix: names of operations, numbers, and instructions as they are."""
    return [number(w) if isinstance(w, int) else (w, 0, 0) if isinstance(w, str) else w for w in words]


def on_tensors(*conditions, count=2):
    return C.Guards([(-1, "arg", i) for i in range(count)], [(0, "shape", condition) for condition in conditions], [])


ROWS, COLUMNS = size(0, 0), size(0, 1)
SHAPES = [(2, 3), (4, 4), (7, 2), (8, 12), (1, 5), (0, 6)]


@pytest.mark.parametrize(
    "instructions, python",
    [
        (said(ROWS, 2, ">="), lambda a, b: a >= 2),
        (said(ROWS, 4, ">"), lambda a, b: a > 4),
        (said(ROWS, COLUMNS, "<"), lambda a, b: a < b),
        (said(ROWS, COLUMNS, "<="), lambda a, b: a <= b),
        (said(ROWS, COLUMNS, "=="), lambda a, b: a == b),
        (said(ROWS, COLUMNS, "!="), lambda a, b: a != b),
        (said(ROWS, 2, "%", 0, "=="), lambda a, b: a % 2 == 0),
        (said(ROWS, 3, "+", COLUMNS, 2, "*", "-", 0, ">"), lambda a, b: a + 3 - b * 2 > 0),
        (said(ROWS, 5, "-", 3, "//", -1, "=="), lambda a, b: (a - 5) // 3 == -1),
        (said(ROWS, 5, "-", 3, "%", 1, "=="), lambda a, b: (a - 5) % 3 == 1),
        (said(ROWS, 5, "-", -3, "//", 0, "<="), lambda a, b: (a - 5) // -3 <= 0),
        (said(ROWS, 5, "-", -3, "%", 0, "=="), lambda a, b: (a - 5) % -3 == 0),
        (said(ROWS, -1, "//", -4, "<="), lambda a, b: a // -1 <= -4),
        (said(ROWS, -1, "%", 0, "=="), lambda a, b: a % -1 == 0),
        (said(ROWS, COLUMNS, "min", 4, "=="), lambda a, b: min(a, b) == 4),
        (said(ROWS, COLUMNS, "max", 7, "<"), lambda a, b: max(a, b) < 7),
        (said(ROWS, 4, "==", COLUMNS, 3, "==", "or"), lambda a, b: a == 4 or b == 3),
        (said(ROWS, 2, ">", COLUMNS, 3, ">", "and", "not"), lambda a, b: not (a > 2 and b > 3)),
        (said(("stride", 0, 0), COLUMNS, "=="), lambda a, b: True),
        (said(("stride", 0, 1), 1, "=="), lambda a, b: True),
        (said(("offset", 0, 0), 0, "=="), lambda a, b: True),
        (said(ROWS, 4, "<", 1, "==", COLUMNS, "*", 6, "=="), lambda a, b: (a < 4) * b == 6),
    ],
)
def test_conditions_on_sizes(instructions, python):
    guards = on_tensors(instructions, count=1)
    answers = {shape: holds(guards, torch.zeros(shape)) for shape in SHAPES}
    assert answers == {shape: python(*shape) for shape in SHAPES}


def test_conditions_between_tensors():
    guards = on_tensors(said(ROWS, size(1, 0), "=="), said(COLUMNS, size(1, 0), 2, "*", "=="))
    assert holds(guards, torch.zeros(3, 6), torch.zeros(3))
    assert guards.explain(plain, (torch.zeros(3, 6), torch.zeros(4))) == (0, (3, 4))
    assert guards.explain(plain, (torch.zeros(3, 5), torch.zeros(3))) == (1, (5, 3))


def test_conditions_see_strides_offsets_and_changes_in_place():
    x = torch.zeros(4, 6)
    guards = on_tensors(said(("stride", 0, 0), ROWS, COLUMNS, "min", ">="), said(("offset", 0, 0), 3, "<"), count=1)
    assert holds(guards, x) and holds(guards, x[:, 2:]) and not holds(guards, x.t()) and not holds(guards, x[:, 3:])
    guards = on_tensors(said(ROWS, 4, "=="), count=1)
    assert holds(guards, x)
    x.resize_(3, 6)
    assert not holds(guards, x)


def test_conditions_reach_tensors_inside_objects():
    class Box:
        pass

    box = Box()
    box.x = torch.zeros(4, 6)
    nodes = [(-1, "arg", 0), (0, "dict", None), (1, "item", "x")]
    guards = C.Guards(nodes, [(0, "type", Box), (0, "shape", said(size(2, 0), 2, "%", 0, "=="))], [])
    assert holds(guards, box)
    box.x = torch.zeros(5, 6)
    assert not holds(guards, box)
    box.x.resize_(6, 6)
    assert holds(guards, box)


@pytest.mark.parametrize(
    "instructions",
    [
        said(ROWS, 1 << 62, "*", 0, "!="),
        said(ROWS, (1 << 63) - 1, "+", 0, "!="),
        said(-(1 << 63), ROWS, "-", 0, "!="),
        said(ROWS, COLUMNS, COLUMNS, "-", "//", 0, "=="),
        said(ROWS, COLUMNS, COLUMNS, "-", "%", 0, "=="),
        said(-(1 << 63), -1, "//", 0, "!="),
        said(size(0, 2), 0, ">="),
    ],
)
def test_conditions_without_an_answer_do_not_hold(instructions):
    assert not holds(on_tensors(instructions, count=1), torch.zeros(4, 6))


@pytest.mark.parametrize("value", [3, None, torch.Size([4, 6])])
def test_conditions_hold_of_tensors_only(value):
    assert not holds(on_tensors(said(ROWS, 2, ">="), count=1), value)


@pytest.mark.parametrize(
    "instructions, error",
    [
        (3, TypeError),
        ([3], TypeError),
        ([("size", 0)], TypeError),
        ([("size", 0, "x")], TypeError),
        ([], ValueError),
        (said(ROWS, COLUMNS), ValueError),
        (said(ROWS, "+"), ValueError),
        (said("not"), ValueError),
        (said(ROWS, 1, "**"), ValueError),
        (said(size(1, 0), 2, ">="), IndexError),
        (said(size(0, -1), 2, ">="), ValueError),
        (said(size(0, 256), 2, ">="), ValueError),
        (said(ROWS, 1 << 63, ">="), OverflowError),
    ],
)
def test_wrong_conditions(instructions, error):
    with pytest.raises(error):
        on_tensors(instructions, count=1)


# --- steps


def test_steps_reach_what_they_name():
    class Thing:
        __slots__ = ("slot", "__dict__")
        on_type = 5

        @property
        def computed(self):
            return 7

    thing = Thing()
    thing.slot, thing.plain, thing.items = 1, 2, ["a", ("b", "c")]
    nodes = [
        (-1, "arg", 0),
        (0, "attr", "slot"),
        (0, "attr", "computed"),
        (0, "dict", None),
        (3, "item", "plain"),
        (3, "item", "items"),
        (5, "index", 1),
        (6, "index", 0),
        (0, "type", None),
        (8, "typeattr", "on_type"),
        (5, "getitem", -1),
        (3, "key", 0),
        (-1, "const", thing),
        (-1, "function", None),
        (5, "call", tuple),
        (14, "index", 0),
    ]
    guards = C.Guards(nodes, [], [1, 2, 4, 7, 9, 10, 11, 12, 13, 14, 15])
    for _ in range(3):
        found = (1, 7, 2, "b", 5, ("b", "c"), "plain", thing, plain, ("a", ("b", "c")), "a")
        assert guards.check(plain, (thing,)) == found
    assert guards.node_count == 16 and guards.check_count == 0
    assert guards.explain(plain, (3,)) == (-2, 3)  # no attribute `slot`


def test_globals_and_cells():
    def outer():
        cell = 1

        def inner():
            return cell

        def change(value):
            nonlocal cell
            cell = value

        def empty():
            nonlocal cell
            del cell

        return inner, change, empty

    inner, change, empty = outer()
    guards = C.Guards([(-1, "closure", 0), (0, "cell", None)], [(1, "eq", 1)], [1])
    assert guards.check(inner, ()) == (1,)
    change(2)
    assert guards.explain(inner, ()) == (0, 2)
    change(1)
    assert holds(guards, function=inner)
    empty()
    assert guards.explain(inner, ())[0] == -2

    f = function_with_globals({"G": 1})
    guards = C.Guards([(-1, "globals", None), (0, "item", "G")], [(1, "eq", 1)], [])
    assert holds(guards, function=f)
    f.__globals__["G"] = 2
    assert not holds(guards, function=f)
    del f.__globals__["G"]
    assert guards.explain(f, ())[0] == -2


def test_absence():
    class Thing:
        pass

    class Bare:
        __slots__ = ()

    thing = Thing()
    guards = C.Guards([(-1, "arg", 0), (0, "dict", None)], [(1, "absent", "x")], [])
    assert holds(guards, thing) and holds(guards, Bare())
    thing.x = 1
    assert not holds(guards, thing)
    del thing.x
    assert holds(guards, thing)
    step = C.Guards([(-1, "arg", 0), (0, "item", "x")], [(1, "absent", "x")], [])
    assert holds(step, {}) and not holds(step, {"x": {"x": 1}})
    assert holds(on_argument("no_attr", "x"), thing)
    thing.x = 1
    assert not holds(on_argument("no_attr", "x"), thing)
    no_typeattr = C.Guards([(-1, "arg", 0), (0, "type", None)], [(1, "no_typeattr", "method")], [])
    assert holds(no_typeattr, thing)
    Thing.method = lambda self: 1
    assert not holds(no_typeattr, thing)
    del Thing.method
    assert holds(no_typeattr, thing)


@pytest.mark.parametrize("make", [dict, collections.OrderedDict])
def test_keys_and_their_order(make):
    guards = on_argument("keys", ("a", "b"))
    mapping = make(a=1, b=2)
    assert holds(guards, mapping) and not holds(guards, make(b=1, a=2)) and not holds(guards, make(a=1))
    mapping["a"] = mapping.pop("a")
    assert not holds(guards, mapping)
    if make is collections.OrderedDict:
        mapping.move_to_end("b")
        assert holds(guards, mapping)
        mapping.move_to_end("a")
        assert not holds(guards, mapping)
    for keys in ((), ("a",)):
        guards = on_argument("keys", keys)
        assert holds(guards, make.fromkeys(keys)) and not holds(guards, make(b=1)) and not holds(guards, make(a=1, b=2))


@pytest.mark.parametrize(
    "make", [list, tuple, set, frozenset, collections.deque, str, dict.fromkeys, collections.OrderedDict.fromkeys]
)
def test_len(make):
    guards = on_argument("len", 2)
    assert holds(guards, make("ab")) and not holds(guards, make("abc"))


def test_len_asks_no_class_of_a_users():
    class Odd(list):
        def __len__(self):
            raise AssertionError("nobody asked")

    assert holds(on_argument("len", 3), Odd("abc")) and not holds(on_argument("len", 2), Odd("abc"))
    assert not holds(on_argument("len", 2), 3)


def test_functions_are_known_by_what_they_run():
    def f(a=1, *, b=2):
        return a + b

    payload = (f, f.__code__, f.__defaults__, f.__kwdefaults__)
    guards = on_argument("function", payload)
    assert holds(guards, f) and not holds(guards, plain)
    f.__defaults__ = (3,)
    assert not holds(guards, f)
    f.__defaults__ = payload[2]
    assert holds(guards, f)
    code, f.__code__ = f.__code__, (lambda a=1, *, b=2: 0).__code__
    assert not holds(guards, f)
    f.__code__ = code
    assert holds(on_argument("function", (None, plain.__code__, None, None)), plain)


def test_predicate_and_its_errors():
    assert holds(on_argument("predicate", lambda x: x > 1), 2)
    assert not holds(on_argument("predicate", lambda x: x > 1), 0)
    assert not holds(on_argument("predicate", lambda x: 1 / 0), 0)


# --- global state


@pytest.mark.parametrize(
    "change",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu"),
        lambda: torch.autocast("cpu", enabled=True, dtype=torch.float16),
        lambda: torch.device("meta"),
        torch._C.DisableTorchFunctionSubclass,
        lambda: torch.utils._python_dispatch.TorchDispatchMode(),
        lambda: torch.overrides.BaseTorchFunctionMode(),
        lambda: Changed(torch.set_default_dtype, torch.float64, torch.float32),
        lambda: Changed(torch.use_deterministic_algorithms, True, False),
        lambda: Changed(torch.set_float32_matmul_precision, "high", "highest"),
        lambda: Changed(torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    ],
)
def test_state(change):
    torch.set_float32_matmul_precision("highest")  # setting it leaves more traces than never having set it
    guards = C.Guards([], [(0, "state", None)], [])
    assert holds(guards)
    with change():
        assert not holds(guards)
        place, told = guards.explain(plain, ())
        assert place == 0 and "was" in told
    assert holds(guards)


class Changed:
    def __init__(self, setter, value, before):
        self.setter, self.value, self.before = setter, value, before

    def __enter__(self):
        self.setter(self.value)

    def __exit__(self, *_):
        self.setter(self.before)


def test_state_under_equal_devices():
    with torch.device("meta"):
        guards = C.Guards([], [(0, "state", None)], [])
    with torch.device("meta"):
        assert holds(guards)
    with torch.device("cpu"):
        assert not holds(guards)
    assert not holds(guards)


# --- what is remembered


def module_guards(module):
    """As the compiler guards a module: structure by containers, parameters by tensor checks."""
    nodes, checks, values = [(-1, "arg", 0)], [], []

    def node(parent, kind, argument):
        nodes.append((parent, kind, argument))
        return len(nodes) - 1

    def visit(here, module):
        checks.append((here, "type", type(module)))
        attributes = node(here, "dict", None)
        checks.append((node(attributes, "item", "training"), "is", module.training))
        method = node(node(here, "type", None), "typeattr", "forward")
        checks.append((method, "function", (None, type(module).forward.__code__, None, None)))
        hooks = node(attributes, "item", "_forward_hooks")
        checks.extend([(hooks, "type", type(module._forward_hooks)), (hooks, "len", 0)])
        for name in ("_parameters", "_buffers"):
            container = node(attributes, "item", name)
            tensors = getattr(module, name)
            checks.extend([(container, "type", dict), (container, "keys", tuple(tensors))])
            for key, tensor in tensors.items():
                if tensor is not None:
                    leaf = node(container, "item", key)
                    checks.append((leaf, "tensor", C.tensor_info(tensor)))
                    values.append(leaf)
        children = node(attributes, "item", "_modules")
        checks.extend([(children, "type", dict), (children, "len", len(module._modules))])
        for key, child in module._modules.items():
            visit(node(children, "item", key), child)

    visit(0, module)
    return C.Guards(nodes, checks, values)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))

    def forward(self, x):
        return self.second(self.first(x))


def replace_parameter(net):
    net.second[0].weight = torch.nn.Parameter(torch.ones(3, 2))


def replace_method(net):
    net.second[1].__class__ = type("Other", (torch.nn.BatchNorm1d,), {})


CHANGES = {
    "eval": lambda net: net.eval(),
    "eval of one leaf": lambda net: net.second[1].eval(),
    "other parameter": replace_parameter,
    "parameter data": lambda net: setattr(net.first.weight, "data", torch.ones(2, 3)),
    "half": lambda net: net.half(),
    "requires_grad": lambda net: net.first.weight.requires_grad_(False),
    "hook": lambda net: net.second[0].register_forward_hook(lambda *_: None),
    "other child": lambda net: setattr(net, "first", torch.nn.Linear(3, 2)),
    "one more child": lambda net: net.second.append(torch.nn.ReLU()),
    "one more parameter": lambda net: net.first.register_parameter("extra", torch.nn.Parameter(torch.ones(1))),
    "one less": lambda net: delattr(net.first, "bias"),
    "type": replace_method,
    "dict": lambda net: setattr(net.first, "__dict__", {**net.first.__dict__, "_parameters": {}}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_module_changes_are_seen(change):
    net = Net()
    guards = module_guards(net)
    for _ in range(3):
        values = guards.check(plain, (net,))
        assert [id(v) for v in values] == [id(t) for t in wanted_tensors(net)]
    change(net)
    assert not holds(guards, net)
    assert not holds(guards, net)


def wanted_tensors(net):
    """In the order of `module_guards`: own tensors, then those of the children."""
    own = [t for kind in (net._parameters, net._buffers) for t in kind.values() if t is not None]
    return own + [t for child in net._modules.values() for t in wanted_tensors(child)]


def test_module_changes_that_do_not_matter():
    net = Net()
    guards = module_guards(net)
    assert holds(guards, net)
    for step in range(5):
        net.steps = net.second[0].steps = step
        net.first.weight.grad = torch.ones(2, 2)
        with torch.no_grad():
            net.first.weight.add_(1)
        net.second[1].num_batches_tracked.add_(1)
        assert holds(guards, net)
    net.first.weight = torch.nn.Parameter(torch.zeros(2, 2))
    assert guards.check(plain, (net,))[0] is net.first.weight
    net.second[0] = torch.nn.Linear(2, 2)
    assert [id(v) for v in guards.check(plain, (net,))] == [id(t) for t in wanted_tensors(net)]
    net.eval()
    assert not holds(guards, net)
    net.train()
    assert holds(guards, net)


def test_method_replaced_on_the_class():
    class Own(torch.nn.Linear):
        def forward(self, x):
            return x

    net = Own(2, 2)
    guards = module_guards(net)
    assert holds(guards, net)
    Own.forward = lambda self, x: x + 1
    assert not holds(guards, net)


def test_modules_that_take_turns():
    nets = [Net() for _ in range(3)]
    guards = module_guards(nets[0])
    for _ in range(30):
        for net in nets:
            values = guards.check(plain, (net,))
            assert [id(v) for v in values] == [id(t) for t in wanted_tensors(net)]
    nets[1].second[0].eval()
    for _ in range(3):
        assert [holds(guards, net) for net in nets] == [True, False, True]


def test_addresses_used_again_fool_nobody():
    """Values that die leave their address to others: what is remembered must not be taken for them."""
    f = function_with_globals({"A": 1.5, "B": (1.5, "x")})
    guards = C.Guards(
        [(-1, "globals", None), (0, "item", "A"), (0, "item", "B"), (2, "index", 0)],
        [(1, "eq", 1.5), (2, "type", tuple), (3, "eq", 1.5)],
        [],
    )
    for value in (1.5, 2.5) * 50:
        f.__globals__["A"] = value * 1.0
        f.__globals__["B"] = (1.5, "x")
        f.__globals__["noise"] = [0.5 * i for i in range(3)]
        assert (guards.check(f, ()) is not None) == (value == 1.5)
        f.__globals__["A"] = 0.5 + 1.0
        f.__globals__["B"] = (value * 1.0, "x")
        assert (guards.check(f, ()) is not None) == (value == 1.5)


def test_instance_dict_by_value():
    class Thing:
        pass

    thing = Thing()
    thing.a, thing.b = 1, 2
    guards = C.Guards(
        [(-1, "arg", 0), (0, "dict", None), (1, "item", "a"), (1, "item", "b")], [(2, "eq", 1), (3, "eq", 2)], []
    )

    def write(value):
        thing.a = value

    for value in (1, 1, 5, 1, 1, 6) * 20:  # often enough for the interpreter to specialise the store
        write(value)
        assert (guards.check(plain, (thing,)) is not None) == (value == 1)
    del thing.a
    assert guards.explain(plain, (thing,))[0] == -3


# --- Python code that runs inside a guard


def test_guards_that_come_back_to_themselves():
    state = {"x": 1}
    guards = None

    class Sly:
        def __eq__(self, other):
            state["x"] = object()
            gc.collect()
            inner.append(guards.check(f, (2,)))
            state["x"] = 1
            return True

        __hash__ = object.__hash__

    inner = []
    f = function_with_globals({"state": state})
    guards = C.Guards(
        [(-1, "globals", None), (0, "item", "state"), (1, "item", "x"), (-1, "arg", 0)],
        [(2, "eq", 1), (3, "eq", 1)],
        [2],
    )
    sly = C.Guards(
        [(-1, "globals", None), (0, "item", "state"), (1, "item", "x"), (-1, "arg", 0)],
        [(3, "eq", Sly()), (2, "eq", 1)],
        [2],
    )
    for _ in range(3):
        assert guards.check(f, (1,)) == (1,)
        assert sly.check(f, (Sly(),)) in ((1,), None)
    assert set(inner) == {None}


def test_predicate_that_drops_what_was_read():
    holder = [object()]
    mapping = {"x": [object()], "y": 1}

    def drop(_):
        mapping["x"] = [object()]
        mapping.clear()
        mapping.update(x=[object()], y=1)
        return True

    guards = C.Guards(
        [(-1, "arg", 0), (0, "item", "x"), (1, "index", 0), (0, "item", "y"), (-1, "arg", 1)],
        [(4, "predicate", drop), (2, "predicate", drop), (3, "eq", 1)],
        [1, 2],
    )
    for _ in range(5):
        values = guards.check(plain, (mapping, holder))
        assert values is None or isinstance(values[0], list)


# --- construction


@pytest.mark.parametrize(
    "nodes, checks, values, error",
    [
        ([(0, "item", "x")], [], [], ValueError),
        ([(-1, "item", "x")], [], [], ValueError),
        ([(-1, "nonsense", None)], [], [], ValueError),
        ([(-1, "arg", -1)], [], [], ValueError),
        ([(-1, "arg", "0")], [], [], TypeError),
        ([(-1, "arg", 0), (0, "attr", 3)], [], [], TypeError),
        ([(-1, "arg", 0)], [(1, "is", None)], [], IndexError),
        ([(-1, "arg", 0)], [(0, "nonsense", None)], [], ValueError),
        ([(-1, "arg", 0)], [(0, "is")], [], TypeError),
        ([(-1, "arg", 0)], [], [1], IndexError),
        ([(-1, "arg", 0)], [(0, "type", 3)], [], TypeError),
        ([(-1, "arg", 0)], [(0, "same", 3)], [], IndexError),
        (3, [], [], TypeError),
    ],
)
def test_wrong_descriptions(nodes, checks, values, error):
    with pytest.raises(error):
        C.Guards(nodes, checks, values)


def test_guards_are_collected_with_their_cycles():
    class Thing:
        pass

    thing = Thing()
    thing.guards = on_argument("is", thing)
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_reference_counts():
    payload, slot = object(), [object()]
    before = sys.getrefcount(payload), sys.getrefcount(slot)
    guards = C.Guards([(-1, "arg", 0), (-1, "const", payload)], [(0, "len", 1)], [0, 1])
    for _ in range(100):
        assert guards.check(plain, (slot,)) == (slot, payload)
        assert guards.check(plain, (3,)) is None
    del guards
    assert (sys.getrefcount(payload), sys.getrefcount(slot)) == before


def test_several_values_are_looked_at_together():
    """They come after all that they are made of, constants too."""
    limits = {"low": 2}
    nodes = [(-1, "arg", 0), (-1, "const", limits), (1, "item", "low"), (-1, "arg", 1), (-1, "several", [0, 2, 3])]
    nodes.append((4, "call", sum))
    guards = C.Guards(nodes, [(4, "predicate", lambda three: three[0] > three[1]), (5, "eq", 9)], [4, 5])
    assert guards.check(plain, (3, 4)) == ((3, 2, 4), 9)
    assert not holds(guards, 2, 5) and not holds(guards, 3, 5)
    limits["low"] = 1
    assert guards.check(plain, (3, 5)) == ((3, 1, 5), 9)
    del limits["low"]
    assert not holds(guards, 3, 5)
    with pytest.raises(ValueError, match="node 1 can't be made of node 1"):
        C.Guards([(-1, "arg", 0), (-1, "several", [0, 1])], [], [])


def test_several_values_may_be_made_of_what_others_are_made_of():
    nodes = [(-1, "arg", 0), (-1, "arg", 1), (-1, "several", [0, 1]), (2, "call", sum), (-1, "several", [3, 0])]
    guards = C.Guards(nodes, [(4, "predicate", lambda two: two == (7, 3))], [3])
    assert guards.check(plain, (3, 4)) == (7,)
    assert not holds(guards, 4, 3)
