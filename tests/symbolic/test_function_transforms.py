"""torch.func inside a frame: the transform and the function are part of the one graph, or the graph breaks there."""
import functools
import os
import subprocess
import sys
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn
from torch.autograd import functional
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

import jit
from tests.differential import COUNTING, check

BACKENDS = ["eager", "aot_eager"]
CLOSE = (1e-10, 1e-10)


def numbers(*shape, requires_grad=False):
    return torch.randn(shape, dtype=torch.double, requires_grad=requires_grad)


def scalar(x):
    return (x.sin() * x).sum()


def vector(x):
    return x.sin() * x.cos() + x[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5, dtype=torch.double)
        self.norm = nn.LayerNorm(5, dtype=torch.double)
        self.last = nn.Linear(5, 4, dtype=torch.double)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


torch.manual_seed(0)
net = Net()
Pair = namedtuple("Pair", "a b")
made_before = grad(scalar)
batched_before = vmap(vector, in_dims=1, out_dims=1)
hessian_before = hessian(scalar)


# --- one graph: programs of x[4], w[4] and rows[3, 4] -------------------------------------------------------------------
def gradient(x, w, rows):
    return grad(scalar)(x * w) + 1


def gradient_and_value(x, w, rows):
    g, value = grad_and_value(scalar)(x * w)
    return g * value


def of_several_arguments(x, w, rows):
    def f(a, b, c):
        return (a * b * c).sum() + b.sum()

    return grad(f, argnums=(0, 2))(x, w, x), grad(f, argnums=-1)(x, w, w)


def of_a_dict(x, w, rows):
    found = grad(lambda p, scale: (p["a"] * p["b"][0] * scale).sum())({"a": x, "b": [w, (x,)]}, 2.5)
    return found["a"] + found["b"][0]


def by_keyword(x, w, rows):
    return grad(lambda a, *, b, factor=2: (a * b * factor).sum())(x, b=w, factor=3)


def with_aux(x, w, rows):
    g, (y, values) = grad(lambda a: (scalar(a), (a * 2, {"w": w})), has_aux=True)(x)
    return g, y, values["w"] is w


def of_a_closure(x, w, rows):
    doubled = x * 2
    return grad(lambda a: (a * doubled * w).sum() + a.pow(3).sum())(x)


def nested_gradients(x, w, rows):
    def inner(a):
        return grad(lambda b: (b.pow(4) * a.sum() * w).sum())(a * 2).sum()

    return grad(inner)(x)


def pull_back(x, w, rows):
    y, back = vjp(vector, x * 2)
    return y, back(w)[0], back(y)[0]


def pull_back_with_aux(x, w, rows):
    y, back, aux = vjp(lambda a, b: ((a * b, a.sum()), b), x, w, has_aux=True)
    return y, back((w, torch.ones_like(y[1]))), aux


def push_forward(x, w, rows):
    y, t = jvp(lambda a, b: (a * b, b.sin()), (x, w), (w, x))
    return *y, *t


def push_forward_with_aux(x, w, rows):
    return jvp(lambda a: (vector(a), a * 2), (x,), (w,), has_aux=True)


def jacobians(x, w, rows):
    return jacrev(vector)(x), jacfwd(vector)(x * w)


def jacobians_of_several(x, w, rows):
    def f(a, b):
        return {"product": a * b, "sum": a.sum()}

    return jacrev(f, argnums=(0, 1))(x, w), jacfwd(f, argnums=1)(x, w)


def jacobian_with_aux(x, w, rows):
    return jacrev(lambda a: (vector(a), a.sum()), has_aux=True)(x)


def second_derivatives(x, w, rows):
    return hessian(scalar)(x), jacrev(jacrev(scalar))(w), jacfwd(grad(scalar))(x)


def hessian_vector_products(x, w, rows):
    forward_over_reverse = jvp(grad(scalar), (x,), (w,))[1]
    reverse_over_reverse = vjp(grad(scalar), x)[1](w)[0]
    return forward_over_reverse, reverse_over_reverse


def batches(x, w, rows):
    return vmap(vector)(rows), vmap(torch.mul, in_dims=(0, None), out_dims=1)(rows, w)


def batches_of_containers(x, w, rows):
    out = vmap(lambda d, n: {"y": d["a"] * d["b"] * n, "z": (d["a"].sum(),)}, in_dims=({"a": 0, "b": None}, None))(
        {"a": rows, "b": w}, 2
    )
    return out["y"], out["z"][0]


def nested_batches(x, w, rows):
    return vmap(lambda a: vmap(lambda b: (a * b).sum())(rows))(rows)


def per_row_gradients(x, w, rows):
    return vmap(grad(lambda a, b: (a * b).sin().sum()), in_dims=(0, None))(rows, w)


def written_argument(x, w, rows):
    copy = rows.clone()
    vmap(lambda a: a.mul_(2))(copy)
    return copy


def written_inside(x, w, rows):
    def f(a):
        made = a * 1
        made[0] = a[1]
        made.add_(w)
        return made.pow(2).sum()

    return grad(f)(x)


def random_numbers(x, w, rows):
    different = vmap(lambda a: a + torch.rand(4, dtype=torch.double), randomness="different")(rows)
    same = vmap(lambda a: nn.functional.dropout(a, 0.5), randomness="same")(rows)
    return different, same


def without_grad(x, w, rows):
    with torch.no_grad():
        first = grad(scalar)(x)

    def f(a):
        with torch.no_grad():
            scale = a.sum()
        return (a * scale).sum() + (1.0 if torch.is_grad_enabled() else 2.0)

    return first, grad(f)(x)


def functional_module(x, w, rows):
    params = {name: p * 2 for name, p in net.named_parameters()}
    return functional_call(net, params, (rows,)), net(rows)


def per_sample_gradients(x, w, rows):
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(params, a, b):
        return (functional_call(net, params, (a,)) - b).pow(2).mean()

    return vmap(grad(loss), in_dims=(None, 0, 0))(params, rows, rows)["first.weight"]


def ensemble(x, w, rows):
    params, buffers = stack_module_state([net, net])
    return vmap(lambda p, b: functional_call(net, (p, b), (rows,)))(params, buffers)


def gradient_of_a_module(x, w, rows):
    return grad(lambda a: net(a).sum())(x)


def made_elsewhere(x, w, rows):
    return made_before(x), batched_before(rows), hessian_before(w)


def called_through_partial(x, w, rows):
    return functools.partial(grad(lambda a, b: (a * b).sum()), x)(w)


def recorded(x, w, rows):
    calls = []

    def f(a):
        calls.append(len(calls))
        return scalar(a)

    return grad(f)(x), calls


def raised(x, w, rows):
    def f(a):
        if a.shape[0] == 4:
            raise ValueError("four")
        return a.sum()

    try:
        return grad(f)(x)
    except ValueError as error:
        return str(error), x * 2


def torchs_own_derivatives(x, w, rows):
    return functional.hessian(scalar, x), functional.jacobian(vector, x), functional.hvp(scalar, x, w)


def shape_of_a_row(x, w, rows):
    return vmap(lambda a: a * a.shape[0] + a.dim() + a.numel())(rows)


def twice_the_same(x, w, rows):
    return grad(lambda a, b: (a * b).sum())(x, x), vmap(lambda a, b: a + b)(rows, rows)


def row_itself(x, w, rows):
    out = vmap(lambda a: a)(rows * 2)
    return out + 1


def named_tuples(x, w, rows):
    found = grad(lambda p, k: (p.a * p.b["w"]).sum() * k.a.sum(), argnums=(0, 1))(Pair(x, {"w": w}), Pair(x, (w,)))
    return found, vmap(lambda p, a: Pair(p.b * a, [p.a]), in_dims=(0, None), out_dims=0)(Pair(rows, rows), x)


def named_results(x, w, rows):
    made = vmap(lambda a: Pair(a * 2, a.max(dim=0)))(rows)
    ends = vmap(lambda a: (a.sort(), a.sum()), out_dims=(0, 0))(rows)
    valued = grad_and_value(lambda p: ((p.a * p.b).sum(), Pair(p.a, w)), has_aux=True)(Pair(x, w))
    return made, ends, ends[0].values + 1, valued, grad(lambda a: (a.sum(), Pair(a, w)), has_aux=True)(x)[1]


def pairs_with_aux(x, w, rows):
    f = lambda a: Pair(scalar(a), Pair(a * 2, w))  # noqa: E731
    return grad(f, has_aux=True)(x), grad_and_value(f, has_aux=True)(x)


def ordered_dicts(x, w, rows):
    found = grad(lambda p: (p["a"] * p["b"]).sum())(OrderedDict(a=x, b=w))
    found.move_to_end("a")
    return found["a"] * 2, vmap(lambda p: OrderedDict(z=p["a"] + 1, y=[p["a"]]))(OrderedDict(a=rows)), found


def in_chunks(x, w, rows):
    several = vmap(lambda a, b: (a @ b, {"sum": a.sum()}), in_dims=(1, None), out_dims=(0, {"sum": 0}), chunk_size=3)
    return vmap(vector, chunk_size=2)(rows) + 1, several(rows, rows[:, 0]), jacrev(vector, chunk_size=3)(x)


WHOLE = [
    named_tuples, named_results, pairs_with_aux, ordered_dicts, in_chunks,
    gradient, gradient_and_value, of_several_arguments, of_a_dict, by_keyword, with_aux, of_a_closure, nested_gradients,
    pull_back, pull_back_with_aux, push_forward, push_forward_with_aux, jacobians, jacobians_of_several,
    jacobian_with_aux, second_derivatives, hessian_vector_products, batches, batches_of_containers, nested_batches,
    per_row_gradients, written_argument, written_inside, random_numbers, without_grad, functional_module,
    per_sample_gradients, ensemble, gradient_of_a_module, made_elsewhere, called_through_partial, recorded, raised,
    torchs_own_derivatives, shape_of_a_row, twice_the_same, row_itself,
]  # fmt: skip


def inputs(requires_grad):
    torch.manual_seed(1)
    return tuple(numbers(*shape, requires_grad=requires_grad) for shape in ((4,), (4,), (3, 4)))


@pytest.mark.sampled(9)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True], ids=["numbers", "leaves"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_one_graph(program, requires_grad, backend):
    # Before 2.13 torch's own jacrev of several arguments reads an index from a tensor.
    breaks = program is jacobians_of_several and torch.__version__ < "2.13"
    graphs = None if backend == "aot_eager" or breaks else 1
    check(program, make=lambda: inputs(requires_grad), graphs=graphs, breaks=None if breaks else 0, backend=backend,
          tolerance=CLOSE)


def batches_inside(x, w, rows):
    with torch.inference_mode():
        made = vmap(lambda a, b: (a * b, a.max(dim=0), b), in_dims=(0, None), out_dims=(1, 0, None))(rows, w)
        twice = vmap(vmap(lambda a: a.sin() + a.is_inference()))(rows)
    return made, twice + 1, twice.is_inference()


def written_there(x, w, rows):
    with torch.inference_mode():
        return vmap(lambda a: a.mul_(2))(rows.clone()), vmap(lambda a: a + torch.rand(4), randomness="different")(rows)


def made_there(x, w, rows):
    with torch.inference_mode():
        made = rows * 2
    return vmap(lambda a: a * 3 + a.is_inference())(made), vmap(net)(rows)


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", [*BACKENDS, "default"])
@pytest.mark.parametrize("program", [batches_inside, written_there, made_there], ids=lambda program: program.__name__)
def test_inference_mode(program, backend):
    check(program, make=lambda: inputs(False), graphs=1 if backend == "eager" else None, backend=backend, tolerance=CLOSE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_one_graph_for_all_sizes(program):
    check(program, make=lambda: inputs(True), backend="aot_eager", dynamic=True, tolerance=CLOSE)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_flow_through(program, backend):
    def gradients(fn):
        given = inputs(True)
        torch.manual_seed(2)
        out = [t for t in torch.utils._pytree.tree_leaves(fn(*given)) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not out:
            return []
        return torch.autograd.grad(sum(t.pow(2).sum() for t in out), given, allow_unused=True)

    compiled = jit.compile(program, backend=backend)
    for _ in range(2):
        for a, b in zip(gradients(compiled), gradients(program), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


# --- breaks, or is eager ----------------------------------------------------------------------------------------------
class Recorder:
    seen = None


def printed(x, w, rows):
    def f(a):
        print("called", a.shape)
        jit.graph_break()
        return scalar(a)

    return grad(f)(x * 2) + 1


def branch_on_values(x, w, rows):
    def f(a):
        return a.sum() if bool(a.sum().detach() > 0) else -a.sum()

    return grad(f)(x) * w


def kept_in_a_list(x, w, rows):
    kept = []

    def f(a):
        kept.append(a.detach() * 0 + 1)
        return (a * w).sum()

    g = grad(f)(x * 2)
    return g + 1, len(kept)


def kept_outside(x, w, rows):
    def f(a):
        nonlocal held
        held = w * 2
        return (a * w).sum()

    held = None
    g = grad(f)(x * 2)
    return g + held


def kept_after_its_transform(x, w, rows):
    kept = []
    return vmap(lambda a: [kept.append(a), a * w][1])(rows), grad(lambda a: [kept.append(a), a.sum()][1])(x), kept


def pull_back_over_a_break(x, w, rows):
    y, back = vjp(vector, x * 2)
    jit.graph_break()
    return y + back(w)[0]


def in_same_chunks(x, w, rows):
    return vmap(lambda a: a * torch.rand_like(a), chunk_size=2, randomness="same")(rows) + 1


def dims_in_named_tuples(x, w, rows):
    return vmap(lambda p: p.a * p.b, in_dims=(Pair(0, None),))(Pair(rows, w)) + 1


def pulled_back_to_named_tuples(x, w, rows):
    return vjp(lambda p: p.a * p.b, Pair(x, w))[1](w)[0].a + 1


def linearized(x, w, rows):
    return linearize(vector, x)[1](w) + 1


def functionalized(x, w, rows):
    return functionalize(lambda a: a.clone().mul_(2))(x) + 1


def batched_derivatives(x, w, rows):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(vector(x), x, torch.eye(4, dtype=torch.double), is_grads_batched=True)[0] + 1


def forward_mode(x, w, rows):
    with torch.autograd.forward_ad.dual_level():
        y = vector(torch.autograd.forward_ad.make_dual(x * 2, w))
        return torch.autograd.forward_ad.unpack_dual(y).tangent + 1


def returned_transform(x, w, rows):
    return grad(scalar), vmap(scalar).__name__, x * 2


def gradient_in_inference_mode(x, w, rows):
    with torch.inference_mode():
        return grad(scalar)(x) + 1


class Doubled(torch.autograd.Function):
    """A backward that is not the derivative, so that one sees whether it ran."""

    @staticmethod
    def forward(x):
        return x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return x * 1, in_dims[0]


def custom_function(x, w, rows):
    return grad(lambda a: (Doubled.apply(a) * w).sum())(x), vmap(Doubled.apply)(rows)


BROKEN = [
    printed, branch_on_values, kept_in_a_list, kept_outside, kept_after_its_transform, pull_back_over_a_break,
    in_same_chunks, dims_in_named_tuples, pulled_back_to_named_tuples, functionalized, batched_derivatives, forward_mode, gradient_in_inference_mode, custom_function, linearized,
]


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr")  # of `linearize` itself
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_what_is_no_graph_is_eager(program, backend):
    check(program, make=lambda: inputs(False), backend=backend, tolerance=CLOSE)


def test_a_value_of_the_function_breaks_before_the_transform():
    report = jit.explain(kept_in_a_list)(*inputs(False))
    assert [reason.reason for reason in report.break_reasons][:1] == []
    report = jit.explain(lambda x: [kept := [], grad(lambda a: [kept.append(a * 2), a.sum()][1])(x), kept[0] + 1])(
        numbers(4)
    )
    assert report.break_reasons[0].reason == "value of a transformed function outside of it"


RAISING = {
    "captured tensor written": lambda x, w, rows: vmap(lambda a: w.add_(a))(rows),
    "leaf written": lambda x, w, rows: grad(lambda a: a.mul_(2).sum())(x),
    "no scalar": lambda x, w, rows: grad(vector)(x),
    "sizes differ": lambda x, w, rows: vmap(torch.add)(rows, w),
    "randomness": lambda x, w, rows: vmap(lambda a: a + torch.rand(4))(rows),
    "no tensor": lambda x, w, rows: vmap(lambda a: 3)(rows),
    "no such argument": lambda x, w, rows: grad(scalar, argnums=2)(x),
    "integers": lambda x, w, rows: grad(lambda a: a.sum())(torch.arange(3)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", RAISING)
def test_raises_like_eager(case, backend, capsys):
    def message(fn):
        given = inputs(False)
        with pytest.raises(Exception) as caught:
            fn(*given)
        return type(caught.value), str(caught.value), [t._version for t in given]

    compiled = jit.compile(RAISING[case], backend=backend)
    assert message(compiled) == message(compiled) == message(RAISING[case])
    assert capsys.readouterr() == ("", "")


# --- transforms compiled as they are ----------------------------------------------------------------------------------
TRANSFORMED = {
    "grad": lambda: (grad(scalar), lambda: (numbers(4),)),
    "vmap": lambda: (vmap(vector), lambda: (numbers(3, 4),)),
    "vmap of grad": lambda: (vmap(grad(scalar)), lambda: (numbers(3, 4),)),
    "jacrev": lambda: (jacrev(vector), lambda: (numbers(4),)),
    "hessian": lambda: (hessian(scalar), lambda: (numbers(4),)),
    "hessian of hessian": lambda: (hessian(hessian(lambda x: x.pow(5).sum())), lambda: (numbers(3),)),
    "vmap of jacfwd": lambda: (vmap(jacfwd(vector)), lambda: (numbers(3, 4),)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", TRANSFORMED)
def test_a_transformed_function_is_compiled(case, dynamic, backend):
    fn, make = TRANSFORMED[case]()
    # Fake tensors know no forward mode inside of forward mode: that one breaks.
    compiled = jit.compile(fn, backend=backend, dynamic=dynamic, fullgraph=COUNTING and case != "hessian of hessian")
    for _ in range(3):
        args = make()
        torch.testing.assert_close(compiled(*args), fn(*args), rtol=1e-9, atol=1e-9)


def test_a_compiled_function_is_transformed_inside():
    inner = jit.compile(scalar, backend="aot_eager")
    check(lambda x: grad(inner)(x * 2) + inner(x), make=lambda: (numbers(4),), backend="aot_eager", tolerance=CLOSE)


@pytest.mark.parametrize("transform", [vmap, grad], ids=["vmap", "grad"])
def test_backward_inside_a_transform_raises_where_there_is_a_gradient_already(transform):
    def program(w, x):
        (w * 3).sum().backward()

        def inner(value):
            (w * 2).sum().backward()
            return value.sum()

        return transform(inner)(x)

    check(program, torch.ones(3, requires_grad=True), torch.ones(3))


def test_forward_mode_before_anybody_has_used_it():
    """Torch loads rules for it then, and warns of how they are made."""
    script = (
        "import torch, jit\n"
        "f = jit.compile(lambda x: torch.func.jacfwd(torch.sin)(x), backend='eager', fullgraph=True)\n"
        "print(torch.equal(f(torch.zeros(2)), torch.eye(2)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "JIT_BREAK_EVERYWHERE": ""})
    assert ran.stdout == "True\n", ran.stderr


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [
    lambda t: t.reshape(3), lambda t: t.unsqueeze(0), lambda t: nn.functional.linear(t, torch.ones(2, 3)), lambda t: t.view(3, 1).sin(),
    lambda t: t[None].expand(2, 3) * t,
])  # fmt: skip
@pytest.mark.parametrize("transform", [jacfwd, lambda function: hessian(lambda t: function(t).tanh().sum())])
def test_forward_mode_of_a_part_of_a_tensor(transform, function, backend):
    """A direction is laid out in as much memory as the part's whole has."""

    def program(x):
        return [transform(function)(x[row]) for row in (0, 1, 0)]

    check(program, torch.arange(6.0).reshape(2, 3), backend=backend, breaks=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transformed", [
    lambda x: vmap(lambda t: t * 2)(x), lambda x: vmap(lambda t: t)(x), lambda x: vmap(lambda t, s: t * s, (None, 0))(x, x),
    lambda x: jvp(lambda t: t * 2, (x,), (x,)), lambda x: jvp(lambda t: t, (x,), (x,)), lambda x: grad(lambda t: t.sum())(x),
])  # fmt: skip
def test_what_comes_out_is_of_the_class_only_if_nothing_was_done_to_it(transformed, backend):
    class Named(torch.Tensor):
        pass

    def program(x):
        result = transformed(x.as_subclass(Named))
        return result, [type(each).__name__ for each in (result if isinstance(result, tuple) else (result,))]

    check(program, torch.ones(3, 3), backend=backend)
