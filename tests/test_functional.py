"""torch.func, torch.vmap, torch.autograd.functional and forward-mode differentiation over compiled functions."""
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad, functional
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
from torch.utils._pytree import tree_leaves

import jit
from codegen.aot import aot_function
from codegen.aot.compilers import nop
from tests.differential import Counting


def numbers(*shape):
    return torch.randn(shape, dtype=torch.double)


torch.manual_seed(0)
X, W, ROWS = numbers(4), numbers(4), numbers(3, 4)
HELD = numbers(4).requires_grad_()


# --- programs of one row ----------------------------------------------------------------------------------------------
def scalar(x):
    return (x.sin() * x).sum()


def scalar_with_break(x):
    y = x.sin()
    jit.graph_break()
    return (y * y).sum()


def vector(x):
    return x.sin() * x.cos() + x[0]


def in_place(x):
    y = x.clone()
    y.mul_(2)
    y[0] = y[1]
    return y * x


def closure(x):
    return x * HELD.detach() + (HELD * 2).detach()


def views(x):
    return x.view(2, 2).t() * 2, x[1:]


def nested(x):
    return grad(scalar)(x) * x


# --- what is done with them -------------------------------------------------------------------------------------------
def dual(fn):
    with forward_ad.dual_level():
        return [forward_ad.unpack_dual(out).tangent for out in tree_leaves(fn(forward_ad.make_dual(X, W)))]


def dual_view(fn):
    with forward_ad.dual_level():
        return [forward_ad.unpack_dual(out).tangent for out in tree_leaves(fn(forward_ad.make_dual(ROWS, ROWS)[1]))]


def dual_written_through_a_view(fn):
    with forward_ad.dual_level():
        base = torch.zeros(8, dtype=torch.double)
        view = base[2:6]
        base.copy_(forward_ad.make_dual(torch.cat([X, X]), torch.cat([W, W])))
        return [forward_ad.unpack_dual(out).tangent for out in tree_leaves(fn(view))]


def batched_gradients(fn):
    x = X.clone().requires_grad_()
    y = fn(x)
    return torch.autograd.grad(y, x, torch.eye(4, dtype=torch.double), is_grads_batched=True)


def batched_gradients_with_history(fn):
    x = X.clone().requires_grad_()
    basis = torch.eye(4, dtype=torch.double)
    (g,) = torch.autograd.grad(fn(x), x, basis, is_grads_batched=True, create_graph=True)
    return torch.autograd.grad(g.pow(2).sum(), x)


def dual_tangent(fn):
    """Forward over reverse: the backward of a compiled function gets a dual tensor."""
    x = X.clone().requires_grad_()
    y = fn(x)
    with forward_ad.dual_level():
        (g,) = torch.autograd.grad(y, x, forward_ad.make_dual(W, X), create_graph=True)
        return forward_ad.unpack_dual(g).tangent


OF_SCALARS = {
    "grad": lambda fn: grad(fn)(X),
    "grad_and_value": lambda fn: grad_and_value(fn)(X),
    "grad of grad": lambda fn: grad(lambda x: grad(fn)(x).sum())(X),
    "hessian": lambda fn: hessian(fn)(X),
    "vmap of grad": lambda fn: vmap(grad(fn))(ROWS),
    "functional.hessian": lambda fn: functional.hessian(fn, X),
    "functional.hessian, vectorized": lambda fn: functional.hessian(fn, X, vectorize=True),
    "functional.hessian, forward over reverse": lambda fn: functional.hessian(
        fn, X, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "functional.hvp": lambda fn: functional.hvp(fn, X, W),
    "functional.vhp": lambda fn: functional.vhp(fn, X, W),
}
OF_VECTORS = {
    "vjp": lambda fn: vjp(fn, X)[1](tuple(torch.ones_like(o) for o in o) if isinstance(o := fn(X), tuple) else W),
    "jvp": lambda fn: jvp(fn, (X,), (W,)),
    "jacrev": lambda fn: jacrev(fn)(X),
    "jacfwd": lambda fn: jacfwd(fn)(X),
    "vmap": lambda fn: vmap(fn)(ROWS),
    "vmap over columns": lambda fn: vmap(fn, in_dims=1)(ROWS.t()),
    "vmap in chunks": lambda fn: vmap(fn, chunk_size=2)(ROWS),
    "functionalize": lambda fn: functionalize(fn)(X),
    "functional.jacobian": lambda fn: functional.jacobian(fn, X),
    "functional.jacobian, vectorized": lambda fn: functional.jacobian(fn, X, vectorize=True),
    "functional.jacobian, forward": lambda fn: functional.jacobian(fn, X, vectorize=True, strategy="forward-mode"),
    "dual": dual,
    "dual view": dual_view,
    "dual written through a view": dual_written_through_a_view,
}
OF_ONE_VECTOR = {
    "linearize": lambda fn: linearize(fn, X)[1](W),
    "functional.vjp": lambda fn: functional.vjp(fn, X, W),
    "functional.jvp": lambda fn: functional.jvp(fn, X, W),
    "batched gradients": batched_gradients,
    "batched gradients with a history": batched_gradients_with_history,
    "dual tangent": dual_tangent,
}
CASES = {
    f"{name} of {fn.__name__}": (fn, use)
    for uses, fns in (
        (OF_SCALARS, (scalar, scalar_with_break)),
        (OF_VECTORS, (vector, in_place, closure, views, nested)),
        (OF_ONE_VECTOR, (vector, in_place)),
    )
    for name, use in uses.items()
    for fn in fns
    if (name, fn) != ("dual written through a view", views)  # its base is no view in eager code either
}
#: What was called before, and whether for all sizes.
WARM = {
    "cold": (lambda: (), None),
    "after a plain call": (lambda: (X,), None),
    "after one with gradients": (lambda: (X.clone().requires_grad_(),), None),
    "after one of any size": (lambda: (X, W[:3]), True),
}


def assert_same(found, expected):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.sampled(36)
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr")  # of `linearize` itself
@pytest.mark.parametrize("warm", WARM)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("case", CASES)
def test_over_a_compiled_function(case, backend, warm):
    fn, use = CASES[case]
    before, dynamic = WARM[warm]
    expected = use(fn)
    compiled = jit.compile(fn, backend=backend, dynamic=dynamic)
    for arg in before():
        if fn not in (closure, views) or len(arg) == 4:
            compiled(arg)
    assert_same(use(compiled), expected)
    assert_same(use(compiled), expected)
    assert_same(compiled(X), fn(X))
    assert_same(use(compiled), expected)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("warm", WARM)
@pytest.mark.parametrize("case", [name for name, (fn, _) in CASES.items() if fn in (scalar, vector)])
def test_over_a_function_of_the_library(case, warm):
    fn, use = CASES[case]
    if use is OF_VECTORS["functionalize"]:
        pytest.skip("a dispatch mode of torch's own, under which no function of it is compiled")
    before, dynamic = WARM[warm]
    compiled = aot_function(fn, fw_compiler=nop, dynamic=bool(dynamic))
    for arg in before():
        compiled(arg)
    assert_same(use(compiled), use(fn))
    assert_same(compiled(X), fn(X))
    assert_same(use(compiled), use(fn))


def test_nothing_is_compiled_under_a_transform():
    counter = Counting()
    compiled = jit.compile(vector, backend=counter)
    vmap(compiled)(ROWS), dual(compiled)
    assert counter.count == 0
    compiled(X), compiled(X)
    assert counter.count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_random_numbers_obey_the_transform(backend):
    compiled = jit.compile(lambda x: x + torch.rand(4, dtype=torch.double), backend=backend)
    compiled(X)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(compiled)(ROWS)
    for randomness in ("different", "same"):
        torch.manual_seed(0)
        expected = vmap(compiled.__wrapped__, randomness=randomness)(ROWS)
        torch.manual_seed(0)
        assert torch.equal(vmap(compiled, randomness=randomness)(ROWS), expected)


# --- modules ----------------------------------------------------------------------------------------------------------
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5, dtype=torch.double)
        self.norm = nn.LayerNorm(5, dtype=torch.double)
        self.last = nn.Linear(5, 2, dtype=torch.double)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


def loss_of(net):
    def loss(params, x, y):
        return (functional_call(net, params, (x,)) - y).pow(2).mean()

    return loss


def params_of(net):
    return {name: p.detach() for name, p in net.named_parameters()}


def per_sample_gradients(net):
    return vmap(grad(loss_of(net)), in_dims=(None, 0, 0))(params_of(net), ROWS, ROWS[:, :2])


def ensemble(net):
    params, buffers = stack_module_state([Net(), Net()])
    return vmap(lambda p, b: functional_call(net, (p, b), (ROWS,)))(params, buffers)


def neural_tangents(net):
    def jacobian(x):
        return jacrev(lambda params, x: functional_call(net, params, (x,)))(params_of(net), x)

    return vmap(jacobian)(ROWS)


def called_with_other_parameters(net):
    params = {name: p + 1 for name, p in net.named_parameters()}
    out = functional_call(net, params, (ROWS,))
    return out, torch.autograd.grad(out.sum(), list(params.values()))


@pytest.mark.parametrize("use", [per_sample_gradients, ensemble, neural_tangents, called_with_other_parameters])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_over_a_compiled_module(use, backend):
    torch.manual_seed(0)
    net = Net()
    compiled = jit.compile(net, backend=backend)
    assert_same(compiled(ROWS), net(ROWS))
    for _ in range(2):
        state = torch.get_rng_state()
        expected = use(net)
        torch.set_rng_state(state)
        assert_same(use(compiled), expected)
    assert_same(compiled(ROWS), net(ROWS))
