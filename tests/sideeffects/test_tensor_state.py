"""What else there is of a tensor beside its values: its memory, its gradient, whether it requires one."""
import pytest
import torch

from tests.differential import check

BACKENDS = ["eager", "aot_eager", "default"]


# --- (x, w, y) with w a leaf, y a plain tensor of the same shape ------------------------------------------------------
def attributes(x, w, y):
    x.note, w.note, z = "a", "b", x * 2
    del x.note
    z.note = "c"
    del z.note
    return hasattr(x, "note"), w.note, hasattr(z, "note"), z


def data_of_a_leaf(x, w, y):
    w.data = x * 2
    return (w * w).sum()


def data_of_a_plain_tensor(x, w, y):
    y.data = x * 2
    return y + 1


def data_of_another_shape(x, w, y):
    y.data = x[0]
    return y + 1


def data_of_an_intermediate(x, w, y):
    z = x * 2
    z.data = y + 1
    return z, z * w


def data_of_one_another(x, w, y):
    x.data, y.data = y, x
    return x - y


def data_taken_and_written(x, w, y):
    y.data = x
    y.add_(1)
    return x + y


def data_twice(x, w, y):
    w.data = w.data * 2
    a = (w * x).sum()
    w.data = w.data + 1
    return a + (w * x).sum()


def set_of_a_plain_tensor(x, w, y):
    y.set_(x.clone())
    return y + 1


def set_of_an_intermediate(x, w, y):
    z = x * 2
    z.set_(y + 1)
    return z


def resized(x, w, y):
    y.resize_(2, 3)
    y.zero_()
    return y + 1


def gradient_read_and_set(x, w, y):
    w.grad = x * 2
    g = w.grad
    w.grad = None
    w.grad = g + 1
    return w.grad


def gradient_dropped(x, w, y):
    w.grad = x
    w.grad = None
    return w.grad is None, x + 1


def gradient_deleted(x, w, y):
    w.grad = x
    del w.grad
    return w.grad is None, x + 1


def comes_to_require_one(x, w, y):
    y.requires_grad_()
    return (y * x).sum(), y.requires_grad


def attribute_requires_grad(x, w, y):
    w.requires_grad = False
    return w * 2, w.requires_grad


def detached(x, w, y):
    z = w * x
    z.detach_()
    return z + 1, z.requires_grad


PROGRAMS = [
    data_of_a_leaf, data_of_a_plain_tensor, data_of_another_shape, data_of_an_intermediate, data_taken_and_written,
    data_twice, set_of_a_plain_tensor, set_of_an_intermediate, resized, gradient_read_and_set, gradient_dropped,
    gradient_deleted, comes_to_require_one, attribute_requires_grad, detached, data_of_one_another, attributes,
]  # fmt: skip


def make():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))
