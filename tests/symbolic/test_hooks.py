"""What users attach to derivatives, in captured code: functions of their own, checkpoints, hooks, anomaly mode."""
import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

import jit
from tests.differential import COUNTING, Counting

BACKENDS = ["eager", "aot_eager"]
LOG = []
FACTOR = 3.0
OPTIONS = {"factor": 2.0}


def make():
    torch.manual_seed(3)
    return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)


def differentiated(results, inputs):
    """Results, first and second derivatives, with the random numbers that follow."""
    results = [r for r in results if r is not None]
    first = results[0]
    gradients = torch.autograd.grad(first, inputs, create_graph=True, allow_unused=True)
    seen = [r.detach().clone() for r in results] + [g if g is None else g.detach() for g in gradients]
    seen.append(torch.rand(1))
    total = sum((g * g).sum() for g in gradients if g is not None)
    try:
        seen.extend(torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True))
    except RuntimeError:
        seen.append(None)
    first.backward()
    return seen + [i.grad for i in inputs]


def compare(program, backend, graphs=None, look=differentiated, calls=2):
    """`program(x, w)` gives tensors, the first of them one number. Compiled and eager look the same."""
    counter = Counting(None if backend == "eager" else jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    for seed in range(calls):
        found = []
        for run in (program, compiled):
            inputs = make()
            torch.manual_seed(seed)
            found.append(look(run(*inputs), inputs))
        theirs, ours = found
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    if graphs is not None and COUNTING:
        assert counter.count == graphs, [gm.code for gm in counter.graphs]
    return counter


# --- functions of the user's own --------------------------------------------------------------------------------------
def doubled(x):
    return x * 2


class Scaled(torch.autograd.Function):
    """Not the derivative, so that it shows who computed it."""

    @staticmethod
    def forward(ctx, x, factor, name=None):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return F.relu(doubled(x)) * factor * math.sqrt(2)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradients = [g * ctx.factor * x.cos() for g in (grad,)]
        return gradients[0], None, None


class InTwoParts(torch.autograd.Function):
    @staticmethod
    def forward(x, w, scale=1.0):
        return x * w * scale, (x * 2).long()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.scale = inputs
        ctx.save_for_backward(x, w)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, nothing):
        x, w = ctx.saved_tensors
        if nothing is not None:
            raise ValueError("a gradient of whole numbers")
        return grad * w * 2 if ctx.needs_input_grad[0] else None, grad * x * 3, None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos() * 2


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(FACTOR)

    @staticmethod
    def backward(ctx, grad):
        return grad * FACTOR * 2


class AsItIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return x, w * 2

    @staticmethod
    def backward(ctx, first, second):
        return first * 2, Scaled.apply(second, 2.0)


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.noise = torch.rand_like(x)
        return x * ctx.noise

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.noise


class Logs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        LOG.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        LOG.append("backward")
        return grad * 2


class Prints(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        print("backward")
        return grad * 2


class Counts(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counts.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * Counts.calls


class Looks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * OPTIONS["factor"]

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def scaled(x, w):
    return [(Scaled.apply(x @ w, FACTOR, "name") * x).sum()]


apply_scaled = Scaled.apply


def by_another_name(x, w):
    return [(apply_scaled(x @ w, 2.0) * x).sum()]


def in_two_parts(x, w):
    y, number = InTwoParts.apply(x @ w, w)
    z, _ = InTwoParts.apply(x, w, 2.0)
    return [(y * z).sum(), number]


def once(x, w):
    return [(Once.apply(x @ w) * w).sum()]


def dirty(x, w):
    y = x @ w
    z = Dirty.apply(y)
    return [(z * y).sum(), z]


def as_it_is(x, w):
    first, second = AsItIs.apply(x @ w, w)
    return [(first * second).sum()]


def noisy(x, w):
    return [(Noisy.apply(x) @ w).sum() + torch.rand(())]


def without_grad(x, w):
    with torch.no_grad():
        y = Scaled.apply(x, 2.0)
    return [(y * w).sum()]


FUNCTIONS = [scaled, by_another_name, in_two_parts, once, dirty, as_it_is, noisy, without_grad]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", FUNCTIONS, ids=lambda program: program.__name__)
def test_functions_are_in_the_graph(program, backend):
    compare(program, backend, graphs=1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [Logs, Prints, Counts, Looks])
def test_functions_that_look_around_break_the_graph(function, backend, capsys):
    def program(x, w):
        return [(function.apply(x @ w) * x).sum()]

    Counts.calls = 0
    found = []
    for call in (program, jit.compile(program, backend=backend)):
        LOG.clear()
        Counts.calls = 0
        x, w = make()
        for _ in range(2):
            (result,) = call(x, w)
            result.backward()
        found.append((list(LOG), Counts.calls, capsys.readouterr().out, x.grad, w.grad))
    assert found[0][:3] == found[1][:3]
    torch.testing.assert_close(found[0][3:], found[1][3:])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_functions_read_is_guarded(backend):
    global FACTOR
    closed = 2.0

    class Closed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * closed

        @staticmethod
        def backward(ctx, grad):
            return grad * closed * 5

    def program(x, w):
        return [(Closed.apply(Dirty.apply(x @ w)) * x).sum()]

    compiled = jit.compile(program, backend=backend)
    before, backward = FACTOR, Closed.backward

    def same():
        results = []
        for call in (program, compiled):
            inputs = make()
            results.append(differentiated(call(*inputs), inputs))
        torch.testing.assert_close(*results)

    try:
        same()
        FACTOR = 7.0
        same()
        closed = 11.0
        same()
        Closed.backward = staticmethod(lambda ctx, grad: grad * 13)
        same()
    finally:
        FACTOR, Closed.backward = before, backward


def test_what_the_frame_has_changed_is_seen():
    def program(x, w):
        global FACTOR
        FACTOR = 5.0
        y = Dirty.apply(x @ w)
        FACTOR = 3.0
        return [y.sum()]

    compare(program, "eager")
    assert FACTOR == 3.0
