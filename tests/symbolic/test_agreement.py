"""torch.equal and torch.allclose: what they say is a number that the graph gives."""
import pytest
import torch

from tests.differential import check, tensors

A, B = tensors(3, 4, count=2)
NAN = A.clone()
NAN[0, 0] = float("nan")
CHANGED = [(A, A + 1e-7), (A, A.clone()), (NAN, NAN), (B, A)]
BACKENDS = ("eager", "aot_eager", "default")


def equal(x, y):
    return x * 2 if torch.equal(x, y) else x + y


def equal_by_method(x, y):
    z = x + 1
    if not z.equal(y + 1):
        z = z - y
    return z


def close(x, y):
    return x * 2 if torch.allclose(x, y) else x + y


def close_by_method(x, y):
    return x * 2 if x.allclose(y, rtol=0.1, atol=1e-3, equal_nan=True) else x + y


def close_broadcast(x, y):
    return x * 2 if torch.allclose(x, y[0], 1e-3, 1e-3) else x + y


def itself(x, y):
    return (x * 2 if torch.equal(x, x) else x + 1), y


def of_ints(x, y):
    a, b = (x * 3).long(), (y * 3).long()
    return (x if torch.equal(a, b) else x * a), torch.equal(a > 0, b > 0), torch.allclose(a, b)


def both_said(x, y):
    return torch.equal(x, y), torch.allclose(x, y), x + 1


def converges(x, y):
    y = x * 2
    while not torch.allclose(x, y, atol=1e-2, equal_nan=True):
        x, y = (x + y) / 2, y * 1
    return x


def asserted(x, y):
    z = (x + y) - y
    assert torch.allclose(z, x, atol=1e-3, equal_nan=True)
    return z


def other_shapes(x, y):
    return torch.equal(x, y[0]), x + 1


ONE_GRAPH = [equal, equal_by_method, close, close_by_method, close_broadcast, itself, of_ints, both_said, asserted, other_shapes]


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, A, B, changed=CHANGED, graphs=1 if backend == "eager" else None, backend=backend, tolerance=(1e-5, 1e-5))


def other_dtypes(x, y):
    return torch.equal(x, x.double()), torch.equal(x, y.long()), x + 1


def close_of_other_dtypes(x, y):
    return torch.allclose(x, x.double()), x + 1


def close_of_other_shapes(x, y):
    return torch.allclose(x, y[:2]), x + 1


def below_zero(x, y):
    return torch.allclose(x, y, rtol=-1.0), x + 1


def no_tensor(x, y):
    return torch.equal(x, 1)


def too_many(x, y):
    return torch.equal(x, y, x)


def none_at_all(x, y):
    return torch.allclose()


def named(x, y):
    return torch.equal(input=x, other=y), x.equal(other=y), torch.allclose(input=x, other=y), x + 1



OTHERS = [converges, other_dtypes, close_of_other_dtypes, close_of_other_shapes, below_zero, no_tensor, too_many, none_at_all,
          named]


@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_the_same(program):
    check(program, A, B, changed=CHANGED)


def with_gradients(x, y):
    z = x * y
    return (z.sin() if torch.allclose(z, y) else z.cos()), torch.equal(x, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_with_gradients(backend):
    one, other = (each.clone().requires_grad_() for each in (A, B))
    ones = torch.ones(3, 4, requires_grad=True)
    check(with_gradients, one, other, changed=[(ones, ones), (ones, other)], backend=backend,
          graphs=1 if backend == "eager" else None, tolerance=(1e-5, 1e-5))


def sizes_that_vary(x, y):
    return x * 2 if torch.allclose(x, y) or torch.equal(x, y) else x + y


def test_sizes_that_vary():
    check(sizes_that_vary, A, B, changed=[(A[:2], A[:2]), (A[:1], B[:1])], dynamic=True)
    check(sizes_that_vary, A, B, changed=[(A[:2], A[:2]), (A[:1], B[:1])])
