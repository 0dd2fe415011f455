"""Tensors of the program's own classes and modes of torch's functions, captured whole: `__torch_function__` is asked
while tracing what it is asked when the program runs, and the graph holds what it did."""
import contextlib
import copy
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jit
from tests.differential import CLOSE, COUNTING, check, same_as_eager, tensors

BACKENDS = ("eager", "aot_eager", "default")
SAID: list = []


class Copied(torch.Tensor):
    """Torch itself copies no objects of such classes."""

    def __deepcopy__(self, memo):
        with torch._C.DisableTorchFunctionSubclass():
            plain = copy.deepcopy(self.detach().as_subclass(torch.Tensor), memo)
            memo[id(self)] = made = torch.Tensor._make_subclass(type(self), plain, self.requires_grad)
            return made


class Logged(Copied):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        names = [each.__name__ for each in types]
        SAID.append((getattr(func, "__name__", "?"), names, len(args), kwargs is None or sorted(kwargs)))
        return super().__torch_function__(func, types, args, kwargs)


class Unit(torch.Tensor):
    """Which has attributes of its own, and calls what it is asked about itself."""

    @staticmethod
    def __new__(cls, data, unit="m"):
        return torch.as_tensor(data).as_subclass(cls)

    def __init__(self, data, unit="m"):
        self.unit = unit

    def double(self):
        return self * 2

    @property
    def told(self):
        return f"{tuple(self.shape)} {self.unit}"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        units = {each.unit for each in args if isinstance(each, Unit)}
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and not isinstance(out, Unit):
            out = out.as_subclass(cls)
            out.unit = "/".join(sorted(units))
        return out


class Plain(Copied):
    """What `torch.Tensor` itself makes of its classes."""


class Unasked(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    def twice(self):
        return self * 2


class OfItsOwn(torch.Tensor):
    def __add__(self, other):
        return ("add", torch.Tensor.__add__(self, other))

    def __radd__(self, other):
        return ("radd", other)

    def __getitem__(self, place):
        return ("item", place, super().__getitem__(place))

    def __len__(self):
        return 7

    def __bool__(self):
        return False

    def sum(self, *args):
        return super().sum(*args) + 1

    @property
    def T(self):  # noqa: N802
        return "T"


class Subtracts(torch.overrides.TorchFunctionMode):
    """Sees all, and takes additions for subtractions."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        if func is torch.add:
            return torch.sub(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


KEPT = Plain([1.0, 2.0, 3.0])
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def results_are_of_the_class(x):
    a = x.as_subclass(Logged)
    b = (a + 1).sum() * torch.sin(a)
    plain = b.as_subclass(torch.Tensor)
    return type(b) is Logged, plain, type(plain).__name__, isinstance(a.T, Logged), a.shape, b


@program
def operators(x):
    a = x.as_subclass(Logged)
    return [1 - a, a**2, 2**a, x**a, x + a, a + x, a // 2, a @ a.T, x @ a.T, -a, abs(a), a < 1, 1 > a, a == a, x != a, a / 3]


@program
def parts_and_sizes(x):
    a = x.as_subclass(Logged)
    return [a[0], a[:, 1], len(a), a.size(0), a.dim(), a.dtype, a.device, a.requires_grad, a.is_leaf, a.view(-1), [row.sum() for row in a]]


@program
def functions(x):
    a = x.as_subclass(Logged)
    return [
        F.relu(a), torch.cat([x, a]), a.split(1), torch.stack([a, a]), a.max(dim=1), F.dropout(a, 0.0), F.linear(a, x),
        torch.einsum("ij,ij->i", a, a), torch.where(a > 0, a, x), F.linear(x, a, bias=None), a.norm(), torch.norm(a, dim=0),
    ]  # fmt: skip


@program
def writes(x):
    a = x.as_subclass(Logged)
    a += 1
    a[0] = 5
    b = a.mul_(2)
    c = a.clone().add_(1)
    return a, b is a, c, x


@program
def writes_with_what_is_of_a_class(x):
    given, a, y, logged = x, x.detach().clone().as_subclass(Plain), x.detach().clone(), x.as_subclass(Logged)
    x += a
    y *= logged
    y //= logged
    z = y
    z -= 1
    return x, x is given, type(x).__name__, given, y, z is y


@program
def attributes_of_objects(x):
    u, v = Unit(x, "s"), Unit(x * 2, unit="m")
    w = u * v + 1
    return w, w.unit, u.double(), u.double().unit, w.told, hasattr(w, "zip"), isinstance(w, torch.Tensor), type(w).__name__


@program
def classes_that_leave_it_to_torch(x):
    p, q = x.as_subclass(Plain), x.as_subclass(Unasked)
    p.note = [1]
    kept = KEPT + 1, KEPT.shape, type(KEPT.exp())
    copied = torch.tensor(p), torch.as_tensor(p) is p, torch.zeros_like(p), p.as_subclass(torch.Tensor), torch.stack([x, p])
    return [type(each) for each in copied], copied, p + 1, q + 1, q.twice(), (p * 2).T, p.note, kept, type(p[0]), torch.is_tensor(p), type(torch.tensor(1) + p), p.max(dim=0)


@program
def methods_of_its_own(x):
    o = x.as_subclass(OfItsOwn)
    return o + 1, 1 + o, x + o, o[0], len(o), bool(o), o.sum(), o.T, o - 1, not o


@program
def layers(x):
    net = nn.Sequential(nn.Linear(x.shape[1], 3), nn.ReLU(), nn.LayerNorm(3))
    with torch.no_grad():
        for each in net.parameters():
            each.fill_(0.5)
    y = net(x.as_subclass(Logged))
    return y, type(y).__name__


@program
def gradients(x):
    w = x.detach().requires_grad_()
    a = w.as_subclass(Logged)
    loss = (a.exp() * a).mean()
    found = torch.autograd.grad(loss, w)
    return found, type(found[0]).__name__, loss


@program
def gradients_and_hooks(x):
    leaf = x.detach().requires_grad_()
    a = leaf.as_subclass(Logged)
    seen = []
    a.register_hook(lambda gradient: seen.append(type(gradient).__name__))
    (a * 2).sum().backward()
    return leaf.grad, seen


@program
def as_keys(x):
    a, b = x.as_subclass(Plain), x.as_subclass(Plain)
    found = {a: 1, b: 2}
    return found[a], found[b], a in found, a is b


@program
def made_of_data(x):
    a = torch.Tensor._make_subclass(Plain, x)
    return a * 2, type(a + x).__name__, Plain(x) + 1


@program
def the_same_tensors(x):
    a = x.as_subclass(Plain)
    b = a.view(-1)
    b.add_(1)
    c = a.T
    c.zero_()
    a.extra = b
    return a, b, c, x, a.extra is b


@program
def asked_of_a_tensor_of_one(x):
    a = x.as_subclass(Plain)
    return torch.where(a.sum() > 0, a, -a), bool(a.shape), a.numel()


@program
def a_mode(x):
    with Subtracts() as mode:
        y = torch.add(x, 1)
        z = x.mul(2) + x.T.sum() - F.relu(x).shape[0]
        made = torch.ones(2)
        z[0] = 1
        parts = x.split(1)
        rows = [row + 1 for row in x]
    return y, z, mode.seen, torch.add(x, 1), made, parts, rows


@program
def modes_in_modes(x):
    with Subtracts() as outer:
        with Subtracts() as inner:
            y = torch.add(x, 1)
        z = torch.add(x, 1)
    with torch.no_grad(), Subtracts() as other:
        v = x.exp()
    return y, z, outer.seen, inner.seen, other.seen, v


@program
def a_mode_and_a_class(x):
    a = x.as_subclass(Logged)
    with Subtracts() as mode:
        b = a + 1
        with torch._C.DisableTorchFunctionSubclass():
            c = a * 2
        d = torch.relu(c).sum(dim=0)
    return b, c, d, type(c).__name__, mode.seen


@program
def a_mode_that_is_left_by_an_error(x):
    mode = Subtracts()
    with contextlib.suppress(KeyError), mode:
        y = x + 1
        {}["missing"]
    return torch.add(x, 1), y, mode.seen, torch.overrides._get_current_function_mode_stack()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_programs(function, backend):
    def observed(x):
        SAID.clear()
        result = function(x)
        return result, list(SAID)

    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    tolerance = None if backend == "eager" else CLOSE
    changed = [(torch.linspace(0, 2, 8).reshape(2, 4),)] if function is not classes_that_leave_it_to_torch else []
    check(observed, x, backend=backend, graphs=None, changed=changed, tolerance=tolerance)
    if COUNTING and backend == "eager":
        assert jit.explain(observed)(x.clone()).graph_break_count == 0


# --- those that come in -----------------------------------------------------------------------------------------------
def logged(*shape):
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape).as_subclass(Logged)


@pytest.mark.parametrize("backend", BACKENDS)
def test_as_an_argument(backend):
    def program(a, b):
        SAID.clear()
        c = a * b + 1
        a.add_(1)
        return c, a, list(SAID)

    check(program, logged(2, 3), torch.ones(2, 3), backend=backend, graphs=1, changed=[(logged(3, 3), torch.ones(3, 3))])


def test_each_class_is_an_entry_of_its_own():
    f = jit.compile(lambda a: (type(a * 2).__name__, a * 2), backend="eager")
    x = torch.arange(3.0)
    for _ in range(2):
        for cls in (torch.Tensor, Plain, Unasked, Logged):
            a = x.as_subclass(cls)
            expected = type(a * 2).__name__
            name, result = f(a)
            assert name == expected and type(result).__name__ == expected and torch.equal(result.as_subclass(torch.Tensor), x * 2)


def test_a_cached_call_asks_no_class():
    """What the class did was read when the call was compiled; looking at the tensor asks it nothing either."""
    f = jit.compile(lambda a, b: (a @ b.T).relu(), backend="eager")
    a, b = logged(2, 3), torch.ones(2, 3)
    f(a, b)
    SAID.clear()
    f(a, b)
    said = [name for name, *_ in SAID]
    assert said == ["matmul", "relu"] or not COUNTING, "as eager code would: the ledger says it again"


def test_a_parameter_of_a_class():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(0, 1, 6).reshape(2, 3).as_subclass(Plain))

        def forward(self, x):
            return F.linear(x, self.weight).relu()

    net = Net()
    f = jit.compile(net, backend="eager")
    x = torch.ones(4, 3)
    for _ in range(2):
        expected, found = net(x), f(x)
        assert type(found) is type(expected) is Plain and torch.equal(found.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
        found.sum().backward()
    assert torch.equal(net.weight.grad.as_subclass(torch.Tensor), torch.full((2, 3), 8.0))


def test_one_that_requires_gradients():
    def program(a):
        return (a.exp() * 2).sum()

    check(program, torch.linspace(0, 1, 6).as_subclass(Plain).requires_grad_(), graphs=1)


@same_as_eager
def test_a_value_is_needed_in_between(x):
    a = x.as_subclass(Logged)
    SAID.clear()
    b = a * 2
    if b.sum().item() > 100:
        b = b + 1
    c = b - 1
    return c, list(SAID)


@same_as_eager
def test_a_mode_with_a_break_inside(x):
    with Subtracts() as mode:
        y = torch.add(x, 1)
        print(y.sum().item() > 0)
        y = torch.add(y, 2)
    return y, mode.seen


class GivesPlain(Copied):
    """Whose own methods give plain tensors."""

    def __getitem__(self, place):
        return self.as_subclass(torch.Tensor)[place]

    def __neg__(self):
        return self.as_subclass(torch.Tensor) * -1


@same_as_eager(graphs=1)
def test_what_methods_of_its_own_give_stays(x):
    a = x.as_subclass(GivesPlain)
    return type(a[0]).__name__, a[0], type(-a).__name__, -a, type(+a).__name__


class Told(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((func.__name__, str((kwargs or {}).get("device"))))
        return func(*args, **(kwargs or {}))


@same_as_eager
def test_a_default_device_is_asked_in_its_turn(x):
    with Told() as inner_device, torch.device("cpu"):
        y = torch.ones(2)
    with torch.device("cpu"), Told() as outer_device:
        z = torch.ones(2)
    return x + 1, y, z, inner_device.seen, outer_device.seen


def test_several_classes_together():
    """Which is asked first depends on more than each of them."""
    def program(x):
        a, b = x.as_subclass(Plain), x.as_subclass(Logged)
        SAID.clear()
        try:
            return a + b, list(SAID)
        except TypeError as error:
            return str(error), list(SAID)

    check(program, *tensors(3), graphs=None)


def test_a_subclass_with_a_dispatch_of_its_own():
    class Dispatched(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            SAID.append(func.__name__)
            with torch._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    f = jit.compile(lambda a: a + 1, backend="eager")
    a = torch.arange(3.0).as_subclass(Dispatched)
    for _ in range(2):
        SAID.clear()
        assert torch.equal(f(a).as_subclass(torch.Tensor), torch.arange(3.0) + 1)
        assert SAID[:1] == ["add.Tensor"]


@same_as_eager(graphs=1)
def test_no_tangents_said_in_so_many_words(x):
    w = x.detach().requires_grad_()
    return torch.autograd.grad((w * w).sum(), w, None), torch.autograd.grad((w * w).sum(), w, grad_outputs=None, only_inputs=True)


@same_as_eager
def test_methods_of_the_class_that_ask_for_data(x):
    return torch.Tensor.data_ptr(x) == x.data_ptr(), torch.Tensor.item(x.sum()), torch.Tensor.tolist(x)


def test_the_state_is_as_it_was():
    before = torch._C._get_torch_function_state()
    jit.compile(lambda a: a + 1, backend="eager")(logged(2))
    assert torch._C._get_torch_function_state() == before
    with torch._C.DisableTorchFunctionSubclass():
        result = jit.compile(lambda a: a + 1, backend="eager")(logged(2))
        assert type(result) is torch.Tensor
    assert type(jit.compile(lambda a: a + 1, backend="eager")(logged(2))) is Logged


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x).relu() + x


@pytest.mark.parametrize("cls", [Logged, Plain, None])
def test_equal_layers_are_asked_alike(cls):
    torch.manual_seed(0)
    layers = [Layer(4) for _ in range(6)]

    def program(x):
        SAID.clear()
        with Subtracts() if cls is None else contextlib.nullcontext() as mode:
            x = x if cls is None else x.as_subclass(cls)
            for layer in layers:
                x = layer(x)
        return x, list(SAID), mode and mode.seen

    check(program, *tensors(3, 4), graphs=1)


def test_classes_as_places_and_as_what_is_written():
    def program(x, places):
        p = places.as_subclass(Plain)
        y = x[p]
        x[0] = (x[1] * 2).as_subclass(Plain)
        return y, x, type(y).__name__, x[p.clone()] + p

    check(program, torch.arange(6.0).reshape(3, 2), torch.tensor([0, 2]), graphs=None)


def test_text_tells_the_class():
    def program(x):
        mine = x.as_subclass(Plain) * 2
        with torch.no_grad():
            scalar = mine.sum()
        print(mine, repr(mine), str(mine * 1.5), f"{scalar}", x.double().as_subclass(Unasked))
        print((mine * torch.ones(2, 400)[:, :3]).expand(4, 2, 3).sum(0), mine.as_subclass(torch.Tensor))

    check(program, torch.ones(2, 3), breaks=0)
    check(program, torch.ones(2, 3, requires_grad=True))
    check(lambda x: print(x.detach().as_subclass(Plain).requires_grad_()), torch.ones(2, 3))


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_mode_sees_the_operations_of_an_autograd_function():
    def program(x):
        with Subtracts() as mode:
            out = Doubling.apply(x + 1)
        return out, mode.seen

    check(program, torch.ones(2))
    check(program, torch.ones(2, requires_grad=True))


def test_what_is_asked_of_torch_keeps_nothing_of_the_callers():
    """The arguments of a call that is compiled end with it."""
    def program(x, held):
        with Subtracts():
            return x * 2

    compiled, gone = jit.compile(program, backend="eager"), []
    compiled(torch.ones(2), nn.Linear(1, 1))  # what is remembered for good, the first call brings
    gc.collect()
    gc.disable()
    try:
        held = nn.Linear(1, 1)
        weakref.finalize(held, gone.append, 1)
        compiled(torch.ones(2, dtype=torch.float64), held)
        del held
        assert gone == [1]
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["mode", "class"])
def test_sizes_and_numbers_that_vary_are_handed_on(kind):
    """Found by the fuzzer: a size that varies was no number to what asks torch."""
    def program(x, by, times):
        with Subtracts() if kind == "mode" else contextlib.nullcontext() as mode:
            a = x if kind == "mode" else x.as_subclass(Logged)
            made = torch.zeros(x.size()) + torch.ones(x.shape[0], 3) * by + a.new_zeros(x.shape) + a * times
            view = (a + by).view(x.size(0) * 3)[: x.shape[0]].expand(x.size(1), x.size(0))
        return made.as_subclass(torch.Tensor), view.as_subclass(torch.Tensor), mode and mode.seen

    SAID.clear()
    given = [(torch.ones(rows, 3), 0.5 + rows, rows * 2) for rows in (2, 3, 5, 7)]
    check(program, *given[0], graphs=1, changed=given[1:])
