"""What branches give where autograd follows: nodes, gradients and derivatives inside the frame."""
import pytest
import torch

from tests.differential import INNER, check, tensors

(X,) = tensors(3, 4)
(G,) = tensors(3, 4, requires_grad=True)
CHANGED = [(-X,), (X * 10,), (X.abs() + 1,)]
BACKENDS = ("eager", "aot_eager", "default")


def of_gradients(*tensors):
    return [tuple(each.detach().clone().requires_grad_() for each in given) for given in tensors]


# --- the node of a result is that of the side that ran ----------------------------------------------------------------
def node_of_two(x):
    y = x * 2 if x.sum() > 0 else x.sin()
    return y.grad_fn.name(), y + 1


def node_of_a_view(x):
    y = (x * 2).t() if x.sum() > 0 else x.sin().t()
    return y.grad_fn.name(), y + 1


def node_of_one_from_before(x):
    y = x.exp()
    z = y.sin() if x.sum() > 0 else y
    return (z + 1).grad_fn.name(), z.grad_fn.name()


def number_of_a_result(x):
    y = x.topk(2)[0] if x.sum() > 0 else torch.std_mean(x, 1, keepdim=True)[1] * x[:, :2]
    return y.output_nr, y + 1


def versions(x):
    if x.sum() > 0:
        y = x * 2
        y.add_(1)
    else:
        y = x + 1
    return y._version, y.detach()._version, y * 2


@pytest.mark.parametrize("program", [node_of_two, node_of_a_view, node_of_one_from_before, number_of_a_result, versions],
                         ids=lambda program: program.__name__)
def test_what_tells_the_side_that_ran(program):
    check(program, G, changed=of_gradients(*CHANGED))
    check(program, X, changed=CHANGED)


# --- derivatives inside the frame -------------------------------------------------------------------------------------
W, V = (each.detach().requires_grad_() for each in tensors(4, 4, count=2, seed=5))


def step(x, w, v):
    loss = (x @ w).square().mean()
    if loss > 0.5:
        loss = loss * 0.5
    loss.backward()
    with torch.no_grad():
        w.sub_(0.1 * w.grad)
    return loss, v


def of_two_sides(x, w, v):
    h = x @ w
    h = (h * 2).relu() if h.sum() > 0 else h.sin()
    return torch.autograd.grad((h @ v).square().sum(), [w, v])


def of_branches_in_branches(x, w, v):
    h = x @ w
    if h.sum() > 0:
        if h.max() > 1:
            h = h * 2
        else:
            h = h.exp()
    else:
        h = h - v[0]
    if h.mean() > 1:
        h = h * 0.5
    return torch.autograd.grad((h @ v).sum(), [w, v]), h


def beside_a_branch(x, w, v):
    y = x * 2 if x.sum() > 0 else x + 1
    (g,) = torch.autograd.grad((x @ w).square().sum(), w)
    return g, y, v


def twice(x, w, v):
    h = x @ w
    h = h * 2 if h.sum() > 0 else h.sin()
    loss = h.square().sum()
    (g,) = torch.autograd.grad(loss, w, retain_graph=True)
    loss.backward()
    return g, w.grad, v


def after_a_number(x, w, v):
    loss = (x @ w).square().sum()
    n = loss.item()
    (g,) = torch.autograd.grad(loss, w)
    y = g * 2 if g.sum() > 0 else g + 1
    return y, n, v


def by_an_optimizer(x, w, v):
    opt = torch.optim.SGD([w, v], lr=0.1, momentum=0.9)
    for _ in range(2):
        loss = (x @ w @ v).square().mean()
        if loss > 0.5:
            loss = loss * 0.5
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.detach()


ONE_GRAPH = [step, of_two_sides, of_branches_in_branches, beside_a_branch, twice, after_a_number]
CALLS = [(x, W, V) for (x,) in CHANGED]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_derivatives_after_branches(program, backend):
    graphs = 1 if backend == "eager" else None
    check(program, X, W, V, changed=CALLS, graphs=graphs, backend=backend, tolerance=(1e-4, 1e-4), recompiles=True)


def on_one_side(x, w, v):
    loss = (x @ w).sum() if x.sum() > 0 else (x @ v).sum()
    loss.backward()
    return w.grad, v.grad


def not_used_on_one_side(x, w, v):
    h = x @ w
    h = h @ v if h.sum() > 0 else h * 1
    return torch.autograd.grad(h.sum(), [w, v], allow_unused=True)


def error_on_one_side(x, w, v):
    h = x @ w
    h = h @ v if h.sum() > 0 else h * 1
    return torch.autograd.grad(h.sum(), [w, v])


def of_other_layouts(x, w, v):
    h = w.t() * x[:, :1].sum() if x.sum() > 0 else w.t() + 1
    return torch.autograd.grad(h.sum(), w)[0].stride(), v


def shared_on_one_side(x, w, v):
    h = w + v if x.sum() > 0 else w * 2 + v * 3
    one, other = torch.autograd.grad(h, [w, v], torch.ones(4, 4))
    one.add_(1)
    return one, other


def in_a_loop(x, w, v):
    x = x + v[:3]
    h = (x @ w).abs() + 1
    while h.sum() < 200:
        h = h * 1.5
    return torch.autograd.grad(h.sum(), w)


def of_second_order(x, w, v):
    x = x + v[:3]
    h = x @ w
    h = h.square() if h.sum() > 0 else h.exp()
    (g,) = torch.autograd.grad(h.sum(), w, create_graph=True)
    return torch.autograd.grad(g.square().sum(), w)


def hooked(x, w, v):
    x = x + v[:3]
    found = []
    h = x @ w
    z = h.square() if h.sum() > 0 else h.exp()
    z.register_hook(lambda gradient: found.append(gradient.sum().item()))
    return torch.autograd.grad(z.sum(), w), found


def of_the_middle(x, w, v):
    x = x + v[:3]
    h = x @ w
    z = h * 2 if h.sum() > 0 else h.sin()
    u = z.exp()
    return torch.autograd.grad(u.square().sum(), [h, z, u, w])


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 + 1


def by_python(x, w, v):
    h = x @ w
    z = Doubled.apply(v) + h.sum() if h.sum() > 0 else v * h.sum()
    return torch.autograd.grad(z.sum(), [w, v])


def by_python_before(x, w, v):
    x = x + v[:3]
    h = Doubled.apply(x @ w)
    h = h * 2 if h.sum() > 0 else h.sin()
    return torch.autograd.grad(h.sum(), [w])


def of_views(x, w, v):
    x = x + v[:3]
    h = x @ w
    z = (h * 2).t() if h.sum() > 0 else h.sin().t()
    return torch.autograd.grad(z.sum(), w)


def with_cond(x, w, v):
    h = torch.cond(x.sum() > 0, lambda a: a @ w, lambda a: a @ v, (x,))
    return torch.autograd.grad(h.sum(), [w, v])


def clipped(x, w, v):
    loss = (x @ w @ v).square().mean()
    if loss > 0.5:
        loss = loss * 0.5
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_([w, v], 0.1)
    return norm, w.grad, v.grad


def not_ours(x, w, v):
    x = x + v[:3]
    loss = torch.where(x > 0, x, 0).sum() * w.sum()
    if loss > 1e9:
        return loss
    for each in (w, v):
        if each.grad is not None and each.grad.norm() > 3:
            each.grad = each.grad * 0.1
    loss.backward()
    return w.grad


OTHERS = [
    by_an_optimizer, on_one_side, not_used_on_one_side, error_on_one_side, shared_on_one_side, in_a_loop,
    of_second_order, hooked, of_the_middle, by_python, by_python_before, of_views, with_cond, clipped, not_ours,
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_derivatives_the_same(program, backend):
    check(program, X, W, V, changed=CALLS, backend=backend, tolerance=(1e-4, 1e-4))


@pytest.mark.skipif(INNER is not None, reason="through kernels what autograd.grad answers with lies dense, a known difference")
def test_layouts_of_gradients():
    check(of_other_layouts, X, W, V, changed=CALLS)
