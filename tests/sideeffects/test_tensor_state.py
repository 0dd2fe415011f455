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


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


# --- what tells of a tensor's life --------------------------------------------------------------------------------------
def written_so_often(tensor):
    return tensor._version


def counts_of_writes(x, w, y):
    before = x._version
    x.add_(1)
    z = x * 2
    z.mul_(2)
    z[0].add_(1)
    first = written_so_often(z)
    z.add_(w.detach())
    return x._version - before, first, written_so_often(z), (x + 1)._version, w._version, z, y._version, x


def counts_of_views(x, w, y):
    part, apart, taken = x[0], (y * 2).detach(), y.data
    part.add_(1)
    apart.add_(1)
    taken.add_(1)
    return part._version, x._version, apart._version, y._version


def views_and_bases(x, w, y):
    z = w * 2
    return z._base is None, z[0]._base is z, z[0][1]._base is z, x.view(-1)._base is x, w._base, z.detach()._base, z


def hooks_of_tensors(x, w, y):
    return w._backward_hooks is None, (w * 2)._backward_hooks, x + 1


def hashes_of_handles(x, w, y):
    one, other = w.register_hook(lambda g: g * 2), w.register_hook(lambda g: None)
    known = {one: 1, other: 2}
    return hash(one) == hash(one), hash(one) == hash(other), {hash(other): 3}[hash(other)], known[other], w * 2


LIVES = [counts_of_writes, counts_of_views, views_and_bases, hooks_of_tensors, hashes_of_handles]


@pytest.mark.parametrize("program", LIVES, ids=lambda program: program.__name__)
def test_lives_in_one_graph(program):
    check(program, make=make, graphs=1, recompiles=True)


def count_of_one_that_comes_late(x, w, y):
    x[0].add_(1)
    return y._version, x._version


def counts_of_data(x, w, y):
    taken, apart = y.data, y.detach()
    taken.add_(1)
    apart.add_(1)
    return y._version, taken._version, apart._version


def counts_of_gradients(x, w, y):
    (w * x).sum().backward()
    (w * y).sum().backward()
    return w.grad._version, w.grad


def make_views():
    x, w, y = make()
    x.add_(1)
    return x, w, x[0]


def make_with_the_same_data():
    x, w, y = make()
    return x, w, x.data


def make_detached():
    x, w, y = make()
    return x, w, x.detach()


def make_hooked():
    x, w, y = make()
    w.register_hook(lambda g: g * 2)
    return x[0], w, y.view(-1)


@pytest.mark.parametrize("program", [*LIVES, count_of_one_that_comes_late, counts_of_data, counts_of_gradients], ids=lambda program: program.__name__)
@pytest.mark.parametrize("make", [make_views, make_with_the_same_data, make_detached, make_hooked])
def test_lives_of_tensors_that_have_lived(program, make):
    if program is counts_of_writes and make is make_hooked:
        make = make_views
    check(program, make=make)
