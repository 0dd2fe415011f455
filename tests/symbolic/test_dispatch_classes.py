"""Tensors of classes with a `__torch_dispatch__`: what it does to the tensors inside is in the graph, and the objects are
made, changed and handed on as the program does it."""
import contextlib
import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

import jit
from tests.differential import CLOSE, COUNTING, check, same_as_eager

BACKENDS = ("eager", "aot_eager", "default")
SAID: list = []


class Two(torch.Tensor):
    """Two tensors that every operation is done to, as torch's own examples have it."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.size(), strides=a.stride(), storage_offset=a.storage_offset(), dtype=a.dtype, layout=a.layout,
            device=a.device, requires_grad=a.requires_grad)

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Two(inner["a"], inner["b"])

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        SAID.append((str(func), [each.__name__ for each in types], len(args), sorted(kwargs or {})))
        kwargs = kwargs or {}
        first = func(*pytree.tree_map_only(Two, lambda t: t.a, args), **pytree.tree_map_only(Two, lambda t: t.a, kwargs))
        second = func(*pytree.tree_map_only(Two, lambda t: t.b, args), **pytree.tree_map_only(Two, lambda t: t.b, kwargs))
        leaves, spec = pytree.tree_flatten(first)
        pairs = zip(leaves, pytree.tree_leaves(second), strict=True)
        made = [cls(one, other) if isinstance(one, torch.Tensor) else one for one, other in pairs]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(made, spec))


OPERATORS = {}


def implements(*operators):
    def note(function):
        OPERATORS.update(dict.fromkeys(operators, function))
        return function

    return note


class Scaled(torch.Tensor):
    """Eight bits and a scale for each row: weights as quantisers keep them."""

    __slots__ = ["scale", "whole"]

    @staticmethod
    def __new__(cls, whole, scale, dtype=torch.float32):
        made = torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=dtype, device=whole.device)
        made.whole, made.scale = whole, scale
        return made

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls(torch.round(weight / scale).to(torch.int8), scale, weight.dtype)

    def dequantize(self):
        return self.whole.to(self.dtype) * self.scale

    def __repr__(self):
        return f"Scaled({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func not in OPERATORS:
            raise NotImplementedError(f"{cls.__name__} has no {func.overloadpacket.__name__}")
        return OPERATORS[func](func, *args, **(kwargs or {}))


@implements(torch.ops.aten.detach.default)
def _same(func, weight):
    return type(weight)(func(weight.whole), weight.scale, weight.dtype)


@implements(torch.ops.aten.t.default, torch.ops.aten.permute.default)
def _turned(func, weight, *rest):
    return Turned(weight)


@implements(torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
def _dense(func, *args):
    return func(*[each.dequantize() if isinstance(each, Scaled) else each for each in args])


class Turned(torch.Tensor):
    @staticmethod
    def __new__(cls, of):
        return torch.Tensor._make_wrapper_subclass(cls, of.shape[::-1], dtype=of.dtype, device=of.device)

    def __init__(self, of):
        self.of = of

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.mm.default:
            return torch.mm(args[0], args[1].of.whole.to(args[0].dtype).t()) * args[1].of.scale.t()
        if func == torch.ops.aten.addmm.default:
            bias, left, right = args
            return torch.mm(left, right.of.whole.to(left.dtype).t()) * right.of.scale.t() + bias
        raise NotImplementedError(str(func))


class Asked(Scaled):
    """The same by way of `__torch_function__`, as torchao's classes have it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            x, weight, bias = (*args, None)[:3]
            return F.linear(x, weight.dequantize(), bias)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Usual(Two):
    """What torch makes of the results comes after."""

    __torch_function__ = classmethod(torch.Tensor.__torch_function__.__func__)


PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def seen(value):
    """What there is to see of it."""
    if isinstance(value, Two):
        looks = tuple(value.shape), value.stride(), value.dtype, value.requires_grad
        return type(value).__name__, looks, value.a, value.b, sorted(vars(value))
    return type(value)(map(seen, value)) if type(value) in (tuple, list) else value


@program
def arithmetic(x):
    w = Two(x, x + 1)
    return seen([w + 1, 2 * w, w - w, x * w, w / x, -w, w**2, w @ w.T, w > 0, abs(w), 1 - w])


@program
def functions(x):
    w = Two(x, x * 2)
    return seen([F.relu(w), torch.softmax(w, -1), w.mean(), w.sum(1, keepdim=True), torch.where(w > 0, w, x), F.gelu(w).exp(),
                 F.layer_norm(w, w.shape[-1:]), torch.cat([w, w], 1), torch.stack([w, w]), w.to(torch.float64), w.float() is w])


@program
def composites(x):
    w = Two(x, x * 2)
    weight = torch.ones(4, x.shape[1])
    return seen([F.linear(w, weight), F.linear(w[None], weight, torch.ones(4)), F.linear(x, Two(weight, weight * 2)),
                 F.scaled_dot_product_attention(w[None], w[None], w[None]), torch.einsum("ij,kj->ik", w, weight)])


@program
def views(x):
    w = Two(x, x * 2)
    return seen([w.view(-1), w.reshape(-1), w.T, w.t(), w[0], w[:, 1:], w[..., None], w.unsqueeze(0), w.expand(2, *w.shape),
                 w.transpose(0, 1).contiguous(), w.flatten(), w.split(1), w.chunk(2, 1), w.unbind(0), list(w), w.max(0)])


@program
def changes(x):
    a = x.clone()
    w = Two(a, x + 1)
    same = w.add_(1), w.mul_(x)
    w += 1
    w[0] = 5.0
    w[:, 1:] *= 2
    w.view(-1)[0] = 7.0
    torch.add(w, 1, out=w)
    return [each is w for each in same], a, seen(w)


@program
def looks(x):
    w = Two(x, x)
    asked = w.shape, w.size(), w.size(0), w.dim(), w.ndim, w.numel(), w.stride(), w.is_contiguous(), len(w), w.dtype
    return *asked, w.device, w.layout, w.is_floating_point(), w.requires_grad, type(w) is Two, isinstance(w, torch.Tensor)


@program
def attributes(x):
    w = Two(x, x + 1)
    w.title = "w"
    w.a, w.b = w.b, w.a
    return w.title, seen(w), hasattr(w, "c"), sorted(w.__dict__), w.__tensor_flatten__()


@program
def several_layers(x):
    w = Two(x, x + 1)
    for _ in range(5):
        w = F.relu(w * 1.5) - 0.25
    return seen(w)


@program
def weights(x):
    weight = Scaled.of(torch.linspace(-1, 1, 4 * x.shape[1]).view(4, -1))
    return F.linear(x, weight), F.linear(x, weight, torch.ones(4)), x @ weight.t(), weight.whole, repr(weight), weight * 2


@program
def what_the_class_refuses(x):
    try:
        return Scaled.of(x) - 1
    except NotImplementedError as error:
        return str(error)


@program
def asked_before(x):
    weight = Asked.of(torch.linspace(-1, 1, 4 * x.shape[1]).view(4, -1))
    return F.linear(x, weight), F.linear(x, weight, torch.ones(4)), weight + 1


@program
def results_as_torch_makes_them(x):
    w = Usual(x, x + 1)
    return seen([w + 1, w.sum(), torch.sin(w), w.T, w.split(1)])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_programs(function, backend):
    def observed(x):
        SAID.clear()
        return function(x), list(SAID)

    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    tolerance = None if backend == "eager" else CLOSE
    check(observed, x, backend=backend, graphs=None, changed=[(torch.linspace(0, 2, 8).reshape(2, 4),)], tolerance=tolerance)
    if COUNTING and backend == "eager":
        assert jit.explain(observed)(x.clone()).graph_break_count == 0


def of(x):
    return Two(x.clone(), x + 1)


def inner(w):
    return w.a, w.b, sorted(vars(w))


class Model(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x):
        return F.relu(F.linear(x, self.weight, self.bias))


@pytest.mark.parametrize("cls", [Scaled, Asked])
def test_a_parameter_of_such_a_class(cls):
    def run(x, weight):
        return f(x), isinstance(model.weight, nn.Parameter), model.weight is weight

    model = Model(cls.of(torch.linspace(-1, 1, 12).view(4, 3)))
    f = jit.compile(model, backend="eager", fullgraph=True)
    for rows in (2, 2, 3):
        x = torch.randn(rows, 3)
        assert torch.equal(f(x), model(x))
    is_one = jit.compile(lambda module: isinstance(module.weight, nn.Parameter), backend="eager", fullgraph=True)
    assert is_one(model) is True
    if COUNTING:
        assert jit.explain(model)(torch.randn(2, 3)).graph_count == 1


def test_one_that_the_frame_is_given():
    def f(w, x):
        made = w * 2 + x
        w.add_(1)
        w.told = "yes"
        return w, made, w.a.sum()

    compiled = jit.compile(f, backend="eager", fullgraph=True)
    for shape in ((2, 3), (2, 3), (4, 2)):
        x = torch.arange(float(shape[0] * shape[1])).view(shape)
        one, other = of(x), of(x)
        got, want = compiled(one, x), f(other, x)
        assert got[0] is one and want[0] is other
        assert all(torch.equal(a, b) for a, b in zip(inner(one)[:2], inner(other)[:2]))
        assert all(torch.equal(a, b) for a, b in zip(inner(got[1])[:2], inner(want[1])[:2]))
        assert torch.equal(got[2], want[2]) and one.told == "yes" and type(got[1]) is Two
        assert got[1].shape == want[1].shape and got[1].stride() == want[1].stride()


def test_what_is_guarded():
    compiles = []

    def backend(gm, inputs):
        compiles.append(gm)
        return gm

    f = jit.compile(lambda w: (w * 2).a, backend=backend, fullgraph=True)
    for w in (of(torch.ones(2, 3)), of(torch.zeros(2, 3))):
        assert torch.equal(f(w), w.a * 2)
    assert len(compiles) == 1
    for w in (of(torch.ones(3, 3)), of(torch.ones(2, 3).double()), of(torch.ones(3, 2).T), Usual(torch.ones(2, 3), torch.ones(2, 3))):
        assert torch.equal(f(w), w.a * 2) and f(w).dtype == w.dtype
    assert len(compiles) > 1
    assert torch.equal(f(of(torch.ones(2, 3))), torch.full((2, 3), 2.0))


@pytest.mark.parametrize("name", ["gradients", "parameter", "autocast", "classes", "inference", "mode"])
def test_what_runs_as_written(name):
    """Right, with a break: what lies above or beside the class's answer."""
    x = torch.linspace(-1, 1, 6).view(2, 3)

    def gradients(x):
        w = Two(x.clone().requires_grad_(), x + 1)
        out = (w * 2).sum()
        out.backward()
        return out.a, w.requires_grad, None if w.grad is None else w.grad.a

    def parameter(x):
        weight = nn.Parameter(torch.ones(4, 3))
        return F.linear(Two(x, x), weight).a.detach()

    def autocast(x):
        with torch.autocast("cpu", torch.bfloat16):
            return (Two(x, x) @ torch.ones(3, 2)).a

    def classes(x):
        try:
            return (Two(x, x) + Scaled.of(x)).a
        except Exception as error:
            return type(error).__name__

    def inference(x):
        with torch.inference_mode():
            return (Two(x, x) + 1).a.clone()

    def mode(x):
        with Counts() as counts:
            made = Two(x, x) + 1
        return made.a, counts.calls

    check(locals()[name], x, graphs=None)


class Counts(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


@same_as_eager
def test_without_gradients(x):
    weight = torch.ones(4, x.shape[-1], requires_grad=True)
    with torch.no_grad():
        return inner(F.linear(Two(x, x * 2), weight))


@same_as_eager
def test_an_error_of_the_operator(x):
    w = Two(x, x)
    with contextlib.suppress(RuntimeError):
        w.view(7, 7)
    return inner(w)


@same_as_eager
def test_what_is_asked_of_the_memory(x):
    w = Two(x, x)
    return w._version, w.is_leaf, w.grad_fn, w._base, w.grad, w._is_view()


@same_as_eager
def test_values_are_the_class_s_affair(x):
    w = Two(x, x)
    try:
        return bool(w.sum() > 0)
    except Exception as error:
        return type(error).__name__, str(error)[:20]


def test_numbers_from_outside():
    f = jit.compile(lambda w, by: (w * by).a, backend="eager", fullgraph=True)
    w = of(torch.arange(6.0).view(2, 3))
    for by in (2.5, 3.5, 4, 5, True):
        assert torch.equal(f(w, by), w.a * by)


@same_as_eager
def test_operators_with_out(x):
    a, b = x.clone(), torch.empty(0)
    return torch.ops.aten.add.out(a, 1, out=a) is a, a, torch.ops.aten.mul.out(a, a, out=b), b


def test_inner_tensors_that_require_gradients():
    """Below autograd they want none."""
    def f(w):
        return (w * 2).a

    leaf = torch.ones(2, 3, requires_grad=True)
    w = Two(leaf.detach(), leaf.detach())
    w.a = leaf
    assert not f(w).requires_grad and not jit.compile(f, backend="eager", fullgraph=True)(w).requires_grad


def test_the_kinds_of_arguments_that_are_asked():
    """What the class is told: operators, its class alone, only the arguments that were given."""
    def f(x):
        SAID.clear()
        w = Two(x, x)
        torch.sum(w, dim=[0], keepdim=True)
        w.to(dtype=torch.float64)
        torch.add(w, w, alpha=2)
        return list(SAID)

    said = jit.compile(f, backend="eager", fullgraph=True)(torch.ones(2, 3))
    assert said == f(torch.ones(2, 3)) == [
        ("aten.sum.dim_IntList", ["Two"], 3, []), ("aten._to_copy.default", ["Two"], 1, ["dtype"]),
        ("aten.add.Tensor", ["Two"], 2, ["alpha"])]


def test_a_function_that_fails_in_the_graph_leaves_nothing_behind():
    f = jit.compile(lambda w: (w.view(2, 3) * 2).a, backend="eager")
    with pytest.raises(RuntimeError, match="shape"):
        f(of(torch.ones(5)))
    assert torch.equal(f(of(torch.ones(6))), torch.full((2, 3), 2.0))


def shared(x):
    v, w = Two(x, x), Two(x, x + 1)
    v.add_(1)
    return [v.a is w.a, *inner(w)]


def another_inside(x):
    w = of(x)
    w.a = w.b * 3
    return inner(w + 1)


def random_numbers(x):
    w = of(x)
    return [inner(each) for each in (torch.rand_like(w), F.dropout(w, 0.5), w.new_zeros(2), torch.empty_like(w).fill_(2))]


def of_such_tensors(x):
    w = Two(of(x), of(x + 2))
    return [inner((w * 2).a), inner(w.sum().b), type(w.T.a).__name__]


def places(x):
    w = of(x)
    found = w[torch.tensor([0, 1])], w[[0, 1], [1, 2]], w.index_select(0, torch.tensor([1])), w.topk(2)[1], w.sort()[0]
    return [inner(each) for each in found]


def layouts(x):
    w, image = of(x), of(torch.arange(24.0).view(1, 2, 3, 4))
    found = w + x[:1].expand(2, 3), image.contiguous(memory_format=torch.channels_last), F.conv2d(image, torch.ones(2, 2, 1, 1))
    return [(each.stride(), inner(each)) for each in found]


def conversions(x):
    w = of(x)
    return [inner(each) for each in (w.cpu(), w.double(), w.to(torch.int32), w.data, w.detach(), w.half().float())]


def losses(x):
    w = of(x)
    return inner(F.cross_entropy(w, torch.tensor([0, 1]))), inner(F.batch_norm(w, torch.zeros(3), torch.ones(3), training=True))


@pytest.mark.parametrize("program", [shared, another_inside, random_numbers, of_such_tensors, places, layouts, conversions, losses])
def test_in_one_graph(program):
    check(program, torch.linspace(-1, 1, 6).view(2, 3), graphs=1)


class Counted(Two):
    """Writes to what is inside as it likes."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        first = args[0]
        first.a.add_(1)
        first.b[0] = 2.0
        first.b += 1
        torch.mul(first.a, 2, out=first.b)
        return first.a.view(-1), func(first.a.view(-1)[:2])


def test_writes_inside():
    def program(x):
        a, b = x.clone(), x + 1
        found = torch.max(Counted(a, b), 0)
        return a, b, found, a._version, b._version, [each._is_view() for each in found]

    check(program, torch.linspace(-1, 1, 6).view(2, 3), graphs=None)


def test_what_warns_runs_as_written():
    """Torch says it once in a process, so that eager code can't say it beside compiled code."""
    found = jit.explain(lambda x: inner(of(x).T))(torch.ones(2, 3, 4))
    assert any(each.detail.endswith(" warns") for each in found.break_reasons), found


def test_what_breaks_and_is_right():
    """In place to another size, values that are asked for, sizes that depend on them, copies."""
    def sizes(x):
        w = of(x)
        return w.unsqueeze_(0).shape, w.squeeze_().shape

    def values(x):
        w = of(x)
        return w.sum().item(), inner(w[w.a > 0]), inner(w.nonzero()), inner(copy.deepcopy(w))

    for program in (sizes, values):
        check(program, torch.linspace(-1, 1, 6).view(2, 3), graphs=None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("write", [
    lambda x, w: x.add_(w), lambda x, w: torch.add(x, w, out=x), lambda x, w: x.__imul__(w), lambda x, w: w.add_(x),
])  # fmt: skip
def test_writes_to_plain_tensors_are_counted(write, backend):
    def program(x):
        y, w = x + 1, Two(x * 2, x * 3)
        before = x._version, y._version
        write(x, w)
        write(y, w)
        y += w
        return before, x._version, y._version, x, y, w.a, w.b

    check(program, torch.ones(2, 2), backend=backend)
