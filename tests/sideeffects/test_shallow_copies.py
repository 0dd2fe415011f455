"""`copy.copy` of tensors: another tensor, a leaf, over the same memory."""
import copy

import pytest
import torch
from torch import nn

from tests.differential import check, differentiated_ahead

BACKENDS = ["eager", differentiated_ahead, "default"]


def make():
    return torch.arange(6.0).reshape(2, 3), nn.Parameter(torch.ones(3)), torch.full((3,), 2.0, requires_grad=True)


def of_an_argument(x, w, r):
    y = copy.copy(x)
    return y + 1, y, y is x


def of_a_parameter(x, w, r):
    v = copy.copy(w)
    return (x * v).sum(), v, type(v) is nn.Parameter


def of_a_leaf(x, w, r):
    s = copy.copy(r)
    return (x * s * r).sum(), s


def written_through_the_copy(x, w, r):
    y = copy.copy(x)
    y.add_(1)
    return x.sum(), y


def written_through_the_original(x, w, r):
    y = copy.copy(x)
    x.mul_(2)
    return x + y, y


def written_without_grad(x, w, r):
    v = copy.copy(w)
    with torch.no_grad():
        v.mul_(3)
    return (x * w).sum(), v


def two_copies(x, w, r):
    a, b = copy.copy(x), copy.copy(x)
    a[0] = 7
    return a, b + 1, a is b


def of_a_view(x, w, r):
    y = copy.copy(x[0])
    y.add_(1)
    return x * 2, y


def of_an_intermediate(x, w, r):
    y = copy.copy(x + 1)
    return y * 2, y


def after_a_write(x, w, r):
    x.add_(1)
    y = copy.copy(x)
    return y * 2, y


@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot", "default"])
@pytest.mark.parametrize("fn", [of_an_argument, of_a_parameter, of_a_leaf, two_copies, written_through_the_copy,
                                written_through_the_original, written_without_grad], ids=lambda fn: fn.__name__)
def test_one_graph(fn, backend):
    check(fn, make=make, graphs=None if backend == "default" else 1, backend=backend,
          tolerance=None if backend == "eager" else (1e-5, 1e-5))


@pytest.mark.parametrize("fn", [of_a_view, of_an_intermediate, after_a_write], ids=lambda fn: fn.__name__)
def test_as_it_is(fn):
    check(fn, make=make)
