"""Modules and leaves cast to another dtype, before they are used and after."""

import pytest
import torch

from tests.differential import check


def double(x):
    layer = torch.nn.Linear(4, 4).double()
    return layer(x.double()), layer


def frozen(x):
    layer = torch.nn.Linear(4, 4).to(torch.float64).requires_grad_(False)
    layer.apply(lambda m: m.weight.fill_(1.0))
    return layer(x.double())


def half(x):
    layer = torch.nn.Linear(4, 4).bfloat16()
    layer(x.bfloat16()).sum().backward()
    return layer.weight.grad, layer


def used_before(x):
    layer = torch.nn.Linear(4, 4)
    y = layer(x)
    layer.double()
    z = layer(x.double()).sum() + y.sum()
    z.backward()
    return layer.weight.grad


def given(layer, x):
    layer.double()
    layer(x.double()).sum().backward()
    return layer.weight.grad, layer


def given_and_used_before(layer, x):
    y = layer(x).sum()
    layer.double()
    (y + layer(x.double()).sum()).backward()
    return layer.weight.grad, layer


def detached_between(layer, x):
    y = layer.weight * 2
    z = (y * 3).sum()
    y.detach_()
    layer.double()
    z.backward()
    return y, layer.weight.grad


def detached_by_function(layer, x):
    y = layer.weight * 2
    z = (y * 3).sum()
    torch.detach_(y)
    layer.double()
    z.backward()
    return y, layer.weight.grad


def written_before(layer, x):
    with torch.no_grad():
        layer.weight.mul_(2)
        u = layer.weight * 2
    layer.double()
    layer(x.double()).sum().backward()
    return layer.weight.grad, layer, u


def views_are_kept(layer, x):
    v = layer.weight.detach()
    w = layer.weight.data
    layer.double()
    layer.weight.data.add_(1)
    v.add_(5)
    return layer(x.double()), v, w


def leaf(x):
    w = torch.ones(4, requires_grad=True)
    w.data = torch.ones(3, dtype=torch.float64)
    (w * 2).sum().backward()
    return w, w.grad


def trained(x):
    m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).double()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for _ in range(2):
        o.zero_grad()
        m(x.double()).sum().backward()
        o.step()
    return m, m(x.double())


MADE = [double, frozen, half, leaf, trained]
GIVEN = [given, written_before, views_are_kept]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", [*MADE, *GIVEN])
def test_casts(program, backend):
    layers = [torch.nn.Linear(4, 4)] if program in GIVEN else []
    check(program, *layers, torch.randn(4, 4), graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_casts_of_what_has_been_used(backend):
    """They break: what was computed before has its gradient go another way."""
    check(used_before, torch.randn(4, 4), backend=backend, tolerance=(1e-5, 1e-5))
    for program in (given_and_used_before, detached_between, detached_by_function):
        check(program, torch.nn.Linear(4, 4), torch.randn(4, 4), backend=backend, tolerance=(1e-5, 1e-5))
