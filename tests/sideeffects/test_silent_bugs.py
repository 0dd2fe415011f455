"""What others got wrong without a word: hooks that come later, `retain_grad`, calls of autograd inside."""
import pytest
import torch
from torch import nn

import jit
from tests.differential import Counting, check

CLOSE = (1e-5, 1e-5)
BACKENDS = ["eager", "aot_eager", "default"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x):
        return self.inner(x).sum()


# --- pytorch 117758: hooks that are registered after the first call ---------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_come_later_are_called(backend):
    """On the module that was compiled and on one inside, before and after the forward, between any two calls."""
    found = []
    for compile_ in (lambda net: net, lambda net: jit.compile(net, backend=backend)):
        torch.manual_seed(0)
        net, x, log = Net(), torch.randn(2, 4), []
        run, handles, rows = compile_(net), [], []
        kinds = [
            lambda: net.register_forward_hook(lambda module, args, y: log.append("after all")),  # noqa: B023
            lambda: net.inner[0].register_forward_hook(lambda module, args, y: y * 2),  # noqa: B023
            lambda: net.inner[1].register_forward_pre_hook(lambda module, args: log.append("before")),  # noqa: B023
            lambda: net.inner[0].weight.register_hook(lambda g: log.append("gradient")),  # noqa: B023
        ]
        for kind in (None, *kinds, *reversed(kinds)):
            if kind is not None:
                handles.append(kind())
            net.zero_grad()
            result = run(x)
            result.backward()
            rows.append((result.detach(), net.inner[0].weight.grad.clone(), list(log)))
        for handle in handles:
            handle.remove()
            rows.append((run(x).detach(), torch.zeros(()), list(log)))
        found.append(rows)
    for (result, gradient, log), (expected, expected_gradient, expected_log) in zip(found[1], found[0], strict=True):
        torch.testing.assert_close((result, gradient), (expected, expected_gradient), rtol=1e-5, atol=1e-5)
        assert log == expected_log


def test_a_compiled_method_sees_them_too():
    net, log = Net(), []
    forward = jit.compile(net.forward, backend="eager")
    forward(torch.ones(2, 4))
    net.inner.register_forward_hook(lambda module, args, y: log.append("called"))
    forward(torch.ones(2, 4))
    assert log == ["called"]


# --- pytorch 138901: retain_grad of what the frame makes --------------------------------------------------------------
def make():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)


def retained_and_returned(x, w):
    y = (x * w).exp()
    y.retain_grad()
    return y, (y * y).sum()


def retained_in_the_middle(x, w):
    y = x * w
    y.retain_grad()
    z = y.sin()
    z.retain_grad()
    z.sum().backward()
    return y.grad, z.grad, w.grad, y.retains_grad


def retained_after_its_use(x, w):
    y = x * w
    z = y.sin().sum()
    y.retain_grad()
    return z, y


def retained_then_viewed(x, w):
    y = x * w
    y.retain_grad()
    v = y[0]
    v.retain_grad()
    return (v * v).sum() + y.sum(), y, v


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program", [retained_and_returned, retained_in_the_middle, retained_after_its_use, retained_then_viewed],
    ids=lambda program: program.__name__)
def test_retained_gradients(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


# --- pytorch 91468: autograd called inside ----------------------------------------------------------------------------
def gradient_penalty(x, w):
    y = (x.detach().requires_grad_() * w).sin().sum()
    return y


def derivative(x, w):
    y = (x * w).sin().sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    return (g * g).sum()


def derivative_of_a_derivative(x, w):
    y = (x * w).sin().sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), w)
    return h


def step(x, w):
    w.grad = None
    (x * w).exp().sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return w * 2


def two_passes(x, w):
    y = x * w
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return w.grad


def of_a_leaf_of_its_own(x, w):
    z = x.detach().clone().requires_grad_()
    (z * z * w.detach()).sum().backward()
    return z.grad, w * 2


def switched(x, w):
    with torch.no_grad():
        y = x * w
        with torch.enable_grad():
            z = x * w
    return y.requires_grad, z.sum()


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [gradient_penalty, derivative, derivative_of_a_derivative, step, two_passes, of_a_leaf_of_its_own, switched],
    ids=lambda program: program.__name__)
def test_autograd_inside(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


def test_gradients_add_up_from_call_to_call():
    def program(x, w):
        (x * w).sum().backward()

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    rows = []
    for call in (program, compiled):
        x, w = make()
        for _ in range(4):
            call(x, w)
        rows.append(w.grad)
    torch.testing.assert_close(*rows)
