"""Deep copies of parameters and leaves that the frame has made or changed, and of modules of them."""

from copy import deepcopy

import pytest
import torch

from tests.differential import check


def made_in_the_frame(x):
    layer = torch.nn.Linear(4, 4)
    m = deepcopy(layer)
    return m(x), layer, m


def trained(x):
    layer = torch.nn.Linear(4, 4)
    m = deepcopy(layer)
    m(x).sum().backward()
    layer(x * 2).sum().backward()
    return m.weight.grad, layer.weight.grad, layer.weight is m.weight, m.weight.is_leaf


def encoder(x):
    one = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    enc = torch.nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
    return enc(x[None])


def changed_before(layer, x):
    with torch.no_grad():
        layer.weight.mul_(2)
    m = deepcopy(layer)
    return m(x), layer(x), m


def changed_between(layer, x):
    m = deepcopy(layer)
    with torch.no_grad():
        layer.weight.mul_(2)
    k = deepcopy(layer)
    return m(x), layer(x), k(x), m, k


def frozen(x):
    p = torch.nn.Parameter(x.clone(), requires_grad=False)
    q = deepcopy(p)
    q.add_(1)
    return p, q, type(q), deepcopy([p, p])


def stepped_before(layer, x):
    opt = torch.optim.SGD(layer.parameters(), 0.1)
    layer(x).sum().backward()
    opt.step()
    e = deepcopy(layer)
    return e(x), e


def leaf(x):
    w = torch.ones(4, requires_grad=True)
    v = deepcopy(w)
    (v * x).sum().backward()
    return w, v, v.grad, w.grad


def leaf_changed_before(w, x):
    with torch.no_grad():
        w.mul_(2)
    v = deepcopy(w)
    (v * x).sum().backward()
    return w, v, v.grad, w.grad, v.is_leaf


def copies_of_copies(w, x):
    v = deepcopy([w, w])
    v[0].requires_grad_()
    u = deepcopy(v)
    (u[0] * x).sum().backward()
    return u, v, u[0].grad, u[0] is u[1]


def _layer():
    return torch.nn.Linear(4, 4)


def _weights(needs_gradient):
    return torch.randn(4, requires_grad=needs_gradient)


GIVEN = {
    made_in_the_frame: lambda: [], trained: lambda: [], encoder: lambda: [], frozen: lambda: [], leaf: lambda: [],
    changed_before: lambda: [_layer()], changed_between: lambda: [_layer()], stepped_before: lambda: [_layer()],
    leaf_changed_before: lambda: [_weights(True)], copies_of_copies: lambda: [_weights(False)],
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", GIVEN, ids=lambda program: program.__name__)
def test_copies(program, backend):
    check(program, *GIVEN[program](), torch.randn(4, 4), graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


def shared_with_a_view(x):
    made = torch.zeros(4)
    first, second = deepcopy([made, made.view(2, 2)])
    first.add_(x[0])
    return first, second, made


def shared_with_what_is_detached(x):
    made = x * 2
    parts = deepcopy({"a": made.detach(), "b": made.detach()})
    parts["a"].add_(1)
    return parts, made


@pytest.mark.parametrize("program", [shared_with_a_view, shared_with_what_is_detached])
def test_memory_that_made_tensors_share_copies_share_too(program):
    check(program, torch.randn(4, 4))


def views_of_two(a, b):
    first, second = deepcopy([a.view(-1), b.view(-1)])
    first.add_(1)
    return first, second


def a_view_of_the_other(a, b):
    first, second = deepcopy([a, b.view(-1)])
    first.add_(1)
    return first, second


def two(a, b):
    first, second = deepcopy((a, b))
    first.add_(1)
    return first, second


def _apart():
    return torch.ones(2, 2), torch.ones(2, 2)


def _shared():
    memory = torch.ones(2, 2)
    return memory, memory.view(2, 2)


@pytest.mark.parametrize("worlds", [(_apart, _shared), (_shared, _apart)], ids=["shared_later", "apart_later"])
@pytest.mark.parametrize("program", [views_of_two, a_view_of_the_other, two])
def test_memory_that_inputs_may_share(program, worlds):
    check(program, make=worlds[0], changed=worlds[1:])
