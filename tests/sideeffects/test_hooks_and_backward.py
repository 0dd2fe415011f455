"""Hooks of the frame's own, and derivatives in the same frame: one graph, the hooks are traced into it."""
import functools

import pytest
import torch

import jit
from tests.differential import COUNTING, check

BACKENDS = ["eager", "aot_eager", "default"]


def by_with(x, w, log):
    with w.register_hook(lambda g: g * 5):
        (w * x).sum().backward()
    (w * x).sum().backward()


def around_two_passes(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: (log.append(g), g * 2)[1])
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    return w.grad, y


def that_stays(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: g * 2)
    y.sum().backward(retain_graph=True)
    return y, handle


def with_what_it_computes(x, w, log):
    y = w * x
    seen = {}

    def hook(g):
        seen["norm"] = g.norm()
        log.append(g * 2)
        return g / seen["norm"]
    handle = y.register_hook(hook)
    y.sin().sum().backward()
    handle.remove()
    return seen["norm"] * 3, log[-1] + 1


def with_tensors_of_the_frame(x, w, log):
    z = x.exp()
    y = w * x
    handle = y.register_hook(lambda g: g * z + w.detach())
    y.sin().sum().backward()
    handle.remove()


def with_python_state(x, w, log):
    calls = 0

    def hook(g):
        nonlocal calls
        calls += 1
        return g * calls
    y = w * x
    for _ in range(3):
        y.register_hook(hook)
    y.sum().backward(retain_graph=True)
    return calls, y


def in_autograds_order(x, w, log):
    y = w * x
    z = (y * 2).sin()
    handles = [t.register_hook(lambda g, n=n: log.append(n)) for n, t in enumerate((y, z, w, y))]
    (z * y).sum().backward()
    for handle in handles:
        handle.remove()


def of_branches(x, w, log):
    ys = [w * n for n in range(3)]
    handles = [y.register_hook(lambda g, n=n: log.append(n)) for n, y in enumerate(ys)]
    sum((y * x).sum() for y in ys).backward()
    for handle in handles:
        handle.remove()


def not_reached(x, w, log):
    y, z = w * x, w + x
    handles = [y.register_hook(lambda g: log.append("y")), z.register_hook(lambda g: log.append("z"))]
    z.sum().backward()
    for handle in handles:
        handle.remove()


def takes_itself_away(x, w, log):
    y = w * x

    def once(g):
        log.append("once")
        handle.remove()
        return g * 2
    handle = y.register_hook(once)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return y


def of_autograd_grad(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: g * 3)
    found = torch.autograd.grad((y * y).sum(), [y, w])
    handle.remove()
    return found


def create_graph(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: g * g)
    (g,) = torch.autograd.grad((y * y).sum(), w, create_graph=True)
    handle.remove()
    return (g * g).sum()


def second_order(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: (log.append("hook"), g * g)[1])
    (g,) = torch.autograd.grad((y * y).sum(), w, create_graph=True)
    (gg,) = torch.autograd.grad((g * g).sum(), w)
    handle.remove()
    return gg


def of_partial(x, w, log):
    y = w * x
    handle = y.register_hook(functools.partial(torch.mul, other=x))
    y.sum().backward()
    handle.remove()


def writes_a_buffer(x, w, log):
    total = torch.zeros(3, 3)
    y = w * x
    handle = y.register_hook(lambda g: (total.add_(g), None)[1])
    y.sum().backward(retain_graph=True)
    y.sin().sum().backward()
    handle.remove()
    return total


def prints(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: log.append(tuple(g.shape)))
    log.append("before")
    y.sum().backward()
    log.append("after")
    handle.remove()


def retained(x, w, log):
    y = w * x
    y.retain_grad()
    z = y.sin()
    z.retain_grad()
    z.sum().backward()
    return y.grad, z.grad * 2, y


def retained_twice(x, w, log):
    y = w * x
    y.retain_grad()
    y.sin().sum().backward(retain_graph=True)
    first = y.grad
    y.sum().backward()
    return first, y.grad


def retained_after_a_hook(x, w, log):
    y = w * x
    y.retain_grad()
    handle = y.register_hook(lambda g: g * 7)
    y.sin().sum().backward()
    handle.remove()
    return y.grad


def after_accumulation(x, w, log):
    handle = w.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad * 2))
    (w * x).sum().backward()
    handle.remove()


def optimizer_in_the_backward(x, w, log):
    def step(leaf):
        with torch.no_grad():
            leaf.sub_(leaf.grad, alpha=0.1)
        leaf.grad = None
    handle = w.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        (w * x).sin().sum().backward()
    handle.remove()
    return w.detach() * 1


def both_kinds(x, w, log):
    y = w * x
    handles = [y.register_hook(lambda g: log.append("y")), w.register_post_accumulate_grad_hook(lambda leaf: log.append("w")),
               w.register_hook(lambda g: (log.append("before"), g * 2)[1])]
    y.sum().backward()
    for handle in handles:
        handle.remove()


def clipped_before_the_step(x, w, log):
    def step(leaf):
        log.append(leaf.grad.norm())
        with torch.no_grad():
            leaf.sub_(leaf.grad, alpha=0.1)
        leaf.grad = None
    with w.register_hook(lambda g: g.clamp(-0.5, 0.5)), w.register_post_accumulate_grad_hook(step):
        for _ in range(2):
            (w * x).sin().sum().backward()


PROGRAMS = [
    both_kinds, clipped_before_the_step, by_with, around_two_passes, that_stays, with_what_it_computes, with_tensors_of_the_frame, with_python_state,
    in_autograds_order, of_branches, not_reached, takes_itself_away, of_autograd_grad, create_graph, second_order,
    of_partial, writes_a_buffer, prints, retained, retained_twice, retained_after_a_hook, after_accumulation,
    optimizer_in_the_backward,
]  # fmt: skip


#: Programs whose hooks keep gradients that eager code makes as views, of which compiled backwards give none: where
#: breaks come between a graph and its backward, that shows.
KEEPS_A_VIEW = {around_two_passes}


def make():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), []


@pytest.mark.sampled(6)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    if program in KEEPS_A_VIEW and not COUNTING:
        pytest.skip("a gradient of a compiled backward is a view of nothing")
    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


# --- what breaks the graph --------------------------------------------------------------------------------------------
def registers_another(x, w, log):
    y = w * x
    z = y.sin()
    z.register_hook(lambda g: (y.register_hook(lambda h: log.append("inner")), g)[1])
    z.sum().backward(retain_graph=True)
    return y


def needs_a_value(x, w, log):
    y = w * x
    y.register_hook(lambda g: g * 2 if g.sum() > 0 else g)
    y.sum().backward(retain_graph=True)
    return y


def both_kinds_of_two(x, w, log):
    """The second leaf's hook is called when the first one has its gradient."""
    v = x.clone().requires_grad_()
    for name, leaf in (("v", v), ("w", w)):
        leaf.register_hook(lambda g, name=name: log.append((name, len(log))))
        leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: log.append((name, "after")))
    ((w * x).sin().sum() + (v * 2).sum()).backward()


def raises(x, w, log):
    y = w * x

    def hook(g):
        log.append("hook")
        raise ValueError("in a hook")
    handle = y.register_hook(hook)
    try:
        y.sum().backward()
    except ValueError as error:
        log.append(str(error))
    handle.remove()


def of_a_wrong_shape(x, w, log):
    y = w * x
    handle = y.register_hook(lambda g: g[0])
    try:
        y.sum().backward()
    except RuntimeError as error:
        log.append(type(error).__name__)
    handle.remove()


def reads_what_is_accumulated(x, w, log):
    """The hook of what was made first is called last."""
    y = w * x
    z = w.sin()
    handle = y.register_hook(lambda g: log.append(w.grad))
    (y.sum() + (w * 2).sum() + z.sum()).backward()
    handle.remove()


def waits_for_both(x, w, log):
    (w * x).sum().backward()
    return w.grad


def make_with_both_kinds():
    x, w, log = make()
    w.register_hook(lambda g: (log.append("before"), g * 2)[1])
    w.register_post_accumulate_grad_hook(lambda leaf: log.append("after"))
    return x, w, log


def make_with_a_hook_of_its_node():
    x, w, log = make()
    node = torch.autograd.graph.get_gradient_edge(w).node
    node.register_prehook(lambda gs: log.append("node"))
    return x, w, [*log, node]


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program, make", [
    (registers_another, make), (needs_a_value, make), (both_kinds_of_two, make), (raises, make), (of_a_wrong_shape, make),
    (reads_what_is_accumulated, make),
    (waits_for_both, make_with_a_hook_of_its_node),
], ids=lambda given: given.__name__)  # fmt: skip
def test_several_graphs(program, make, backend):
    check(program, make=make, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_came_with_both_kinds(backend):
    check(waits_for_both, make=make_with_both_kinds, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


# --- hooks that a leaf came with ------------------------------------------------------------------------------------------
def one_pass(x, w, log, handle):
    (w * x).sum().backward()
    return w.grad


def one_goes(x, w, log, handle):
    handle.remove()
    (w * x).sum().backward()


def one_comes(x, w, log, handle):
    mine = w.register_hook(lambda g: (log.append("comes"), g + 1)[1])
    (w * x).sum().backward()
    mine.remove()
    (w * x).sin().sum().backward()


def grad_of_it(x, w, log, handle):
    return torch.autograd.grad((w * w * x).sum(), [w])


def twice_and_outside(x, w, log, handle):
    (w * x).sum().backward()
    return (w * x).sin().sum()


def make_clipped():
    x, w, log = make()
    w.register_hook(lambda g: (log.append("first"), g.clamp(-0.5, 0.5))[1])
    return x, w, log, w.register_hook(lambda g: log.append("second"))


def make_stepping():
    """An optimizer in the backward pass."""
    x, w, log = make()

    def step(leaf):
        log.append("step")
        with torch.no_grad():
            leaf.sub_(leaf.grad, alpha=0.1)
        leaf.grad = None
    return x, w, log, w.register_post_accumulate_grad_hook(step)


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [make_clipped, make_stepping], ids=lambda given: given.__name__)
@pytest.mark.parametrize("program", [one_pass, one_goes, grad_of_it, twice_and_outside], ids=lambda given: given.__name__)
def test_came_with_the_leaf(program, make, backend):
    def then(result, x, w, log, handle):
        for each in result if isinstance(result, (tuple, list)) else [result]:
            if each is not None and each.requires_grad:
                each.sum().backward()
        (w * x).sum().backward()
    check(program, make=make, then=then, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.break_everywhere
def test_some_come_and_some_were_there():
    check(one_comes, make=make_clipped, graphs=1, tolerance=(1e-5, 1e-5))


def test_other_hooks_of_the_same_kind_and_none():
    """A hook of other code compiles anew; a tensor without hooks, too."""
    program = jit.compile(lambda x, w: (w * x).sum().backward(), backend="eager")
    for scale in (2, 3):
        x, w, _ = make()
        w.register_hook(lambda g, scale=scale: g * scale)
        program(x, w)
        assert torch.equal(w.grad, x * scale)
    x, w, _ = make()
    program(x, w)
    assert torch.equal(w.grad, x)
    w.register_hook(lambda g: g + 1)
    program(x, w)
    assert torch.equal(w.grad, x + (x + 1))


class Counts:
    n = 0

    def __call__(self, g):
        self.n += 1
        return g * self.n


def test_a_hook_that_counts_over_several_calls():
    """From the second call on the count varies."""
    found = {}
    for compiler in (lambda f: f, jit.compile):
        x, w, _ = make()
        counts = Counts()
        w.register_hook(counts)
        program = compiler(lambda x, w: (w * x).sum().backward())
        for _ in range(3):
            program(x, w)
        found[compiler] = w.grad, counts.n
    (expected, times), (got, seen) = found.values()
    assert torch.equal(got, expected) and times == seen == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("hooked", [False, True])
def test_hooks_of_a_backward_inside_leave_no_dict(hooked, backend):
    """The result of a layer with a full backward hook has no hooks of its own afterwards."""
    def make():
        torch.manual_seed(0)
        layer, w = torch.nn.Linear(3, 3), torch.ones(3, requires_grad=True)
        if hooked:
            w.register_hook(lambda g: None)
        return layer, w

    def program(layer, w):
        y = layer(w)
        layer.register_full_backward_hook(lambda module, into, out: None)
        y.sum().backward(retain_graph=True)
        return y

    layer, w = make()
    compiled = jit.compile(program, backend=backend)
    for _ in range(3):
        assert compiled(layer, w)._backward_hooks is None
