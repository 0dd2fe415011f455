"""Derivatives taken inside a frame: one graph, and `.grad` as eager code leaves it."""
import copy

import pytest
import torch
from torch import nn

import jit
from tests.differential import COUNTING, Counting, check, execute

BACKENDS = ["eager", "aot_eager"]


def leaves(*shapes):
    return tuple(torch.randn(shape, requires_grad=True) for shape in shapes)


def grad_of_one(x, w):
    (g,) = torch.autograd.grad((x @ w).tanh().sum(), w)
    return g * 2


def grads_of_two(x, w):
    return torch.autograd.grad(((x @ w) ** 2).sum(), (x, w))


def grad_with_tangent(x, w):
    y = (x @ w).sin()
    return torch.autograd.grad([y, y * 2], [w], [torch.ones_like(y), y.detach()])


def grad_of_intermediate(x, w):
    y = x @ w
    z = (y.exp() * x.sum()).sum()
    return torch.autograd.grad(z, [y, x])


def unused_input(x, w):
    return torch.autograd.grad((x * x).sum(), [x, w], allow_unused=True)


def unused_as_zeros(x, w):
    return torch.autograd.grad((x * x).sum(), [x, w], materialize_grads=True)


def penalty(x, w):
    y = (x @ w).tanh().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return y + (g.norm() - 1) ** 2


def second_order_inside(x, w):
    (g,) = torch.autograd.grad((x @ w).sin().sum(), w, create_graph=True)
    return torch.autograd.grad((g * g).sum(), [x, w])


def plain_backward(x, w):
    loss = (x @ w).tanh().sum()
    loss.backward()
    return loss.detach(), w.grad * 2


def backward_of_a_vector(x, w):
    y = x @ w
    y.backward(torch.full_like(y, 0.5))


def backward_twice(x, w):
    y = (x @ w).tanh().sum()
    y.backward(retain_graph=True)
    y.backward()


def backward_to_some(x, w):
    (x @ w).sum().backward(inputs=[w])


def backward_to_one_that_is_named_twice(x, w):
    (x @ w).sum().backward(inputs=[w, w])


def backward_by_the_function(x, w):
    torch.autograd.backward((x @ w).tanh().sum())


def backward_of_several(x, w):
    y = x @ w
    torch.autograd.backward([y, (x * 2).sum()], [torch.ones_like(y), None], retain_graph=True)
    torch.autograd.backward(y, torch.ones_like(y))


def backward_of_several_to_some(x, w):
    torch.autograd.backward(tensors=((x @ w).sum(), (x * w).sum()), inputs=w)


def shared_gradient(x, w):
    (x + w).sum().backward()
    x.grad.add_(1)


def step_by_hand(x, w):
    w.grad = None
    (x @ w).pow(2).sum().backward()
    with torch.no_grad():
        w.sub_(w.grad, alpha=0.1)
    x.grad = None
    return w.grad.norm()


def transposed_gradient(x, w):
    (x.t() @ w.t()).pow(3).sum().backward()


PROGRAMS = [
    grad_of_one, grads_of_two, grad_with_tangent, grad_of_intermediate, unused_input, unused_as_zeros, penalty,
    second_order_inside, plain_backward, backward_of_a_vector, backward_twice, backward_to_some,
    backward_to_one_that_is_named_twice, backward_by_the_function, backward_of_several, backward_of_several_to_some,
    shared_gradient, step_by_hand, transposed_gradient,
]


@pytest.mark.sampled(9)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("has_gradients", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program, has_gradients, backend):
    def make():
        torch.manual_seed(1)
        made = leaves((3, 3), (3, 3))
        for leaf in made if has_gradients else ():
            leaf.grad = torch.randn_like(leaf)
        return made

    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-6, 1e-6))
    ours, theirs = make(), make()
    compiled = jit.compile(program, backend=backend)
    for _ in range(3):
        compiled(*ours), program(*theirs)
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b)
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, check_stride=True)
    if all(leaf.grad is not None for leaf in theirs):
        assert ours[0].grad.untyped_storage().data_ptr() != ours[1].grad.untyped_storage().data_ptr()


def test_the_gradient_is_added_in_place():
    (w,) = leaves((3,))
    w.grad = held = torch.ones(3)
    jit.compile(lambda w: (w * w).sum().backward(), backend="eager")(w)
    assert w.grad is held and torch.equal(held, 1 + 2 * w.detach())


def test_history_from_outside_breaks_the_graph():
    def program(y, w):
        (g,) = torch.autograd.grad((y * w).sum(), w)
        y.sum().backward()
        return g

    def make():
        torch.manual_seed(0)
        x, w = leaves((3,), (3,))
        return x * w, w

    check(program, make=make, graphs=None)
    (x, w) = leaves((3,), (3,))
    compiled = jit.compile(lambda y, w: torch.autograd.grad(y.sum(), w), backend="eager")
    assert torch.equal(compiled(x * w, w)[0], x.detach())


def written_and_by_a_leaf(x, w):
    x += w
    return torch.autograd.grad((x * w).sum(), w)


def written_and_all_leaves(x, w):
    x += w
    (x * w).sum().backward()
    return w.grad


def by_both(x, w):
    return torch.autograd.grad((x * w).sum(), (x, w))


def by_itself(x, w):
    return torch.autograd.grad((x * w).sum(), x)


def written_and_by_itself(x, w):
    x += w
    return torch.autograd.grad((x * w).sum(), x)


def a_result_written_and_by_it(x, w):
    y = x * 2
    y += w
    return torch.autograd.grad((y * w).sum(), (x, x))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", [*BACKENDS, "default"])
@pytest.mark.parametrize("part", [torch.add, lambda *both: torch.cat(both, 1)[:, :2]], ids=["whole", "view"])
@pytest.mark.parametrize("program, graphs", [
    (written_and_by_a_leaf, None), (written_and_all_leaves, None), (by_both, None),
    (by_itself, 1), (written_and_by_itself, None), (a_result_written_and_by_it, 1),
], ids=lambda value: getattr(value, "__name__", ""))
def test_history_from_outside_leads_to_what_is_wanted(program, graphs, part, backend):
    """The first argument is computed of the second."""
    def make():
        torch.manual_seed(0)
        (w,) = leaves((3, 2))
        return part(w * 2, w * 3), w

    check(program, make=make, graphs=graphs, backend=backend)


def all_gradients(x, w):
    (x * w).sum().backward()
    return x.is_leaf, x.grad if x.is_leaf else None


def of_the_other(x, w):
    return torch.autograd.grad((x * w).sum(), w)


def without_gradient(x, w):
    return x.requires_grad_(False) * 2


def with_gradient(x, w):
    x.requires_grad = True
    return x * w


#: Of the first argument: leaf, results, one of them of the second argument.
FORMS = [
    lambda w: leaves((3, 2))[0], lambda w: leaves((3, 2))[0] * 2, lambda w: (leaves((6,))[0] * 2).view(3, 2), lambda w: w * 2
]  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("first", range(len(FORMS)))
@pytest.mark.parametrize("program", [all_gradients, of_the_other, without_gradient, with_gradient])
def test_leaves_and_results_by_turns(program, first, backend):
    def made(form):
        def make():
            torch.manual_seed(0)
            (w,) = leaves((3, 2))
            return form(w), w
        return make

    check(program, make=made(FORMS[first]), changed=[made(form) for form in FORMS], graphs=None, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_of_what_the_derivative_is_of_runs_even_if_nothing_comes_of_it(backend):
    def program(x, w):
        seen = []
        x.register_hook(lambda g: seen.append(g.sum().item()))
        jit.graph_break()
        found = torch.autograd.grad(x, w, torch.ones_like(x), allow_unused=True)
        return seen, found, x * 2

    check(program, make=lambda: (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)), graphs=None, backend=backend)


def of_one(x, w):
    return torch.autograd.grad((x * w).pow(2).sum(), x)


def of_both(x, w):
    return torch.autograd.grad((x * w).pow(2).sum(), (x, w))


def hooked_first(x, w):
    x.register_hook(lambda g: g * 2)
    return torch.autograd.grad((w * 3).pow(2).sum(), w)


@pytest.mark.parametrize("backend", [*BACKENDS, "default"])
@pytest.mark.parametrize("program", [of_one, of_both, hooked_first, all_gradients])
def test_two_arguments_that_become_one(program, backend):
    def made(is_one):
        def make():
            torch.manual_seed(0)
            x, w = leaves((3,), (3,))
            return x, x if is_one else w
        return make

    for first in (False, True):
        check(program, make=made(first), changed=[made(not first), made(first)], graphs=None, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_of_what_is_wanted_twice_runs_once(backend):
    def program(x, w):
        x.register_hook(lambda g: g * 2)
        jit.graph_break()
        return torch.autograd.grad((x * w).sum(), (x, w, x))

    check(program, make=lambda: (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)), graphs=None, backend=backend)


def test_derivatives_in_inference_mode_are_the_program_s_error():
    def program(x, w):
        with torch.inference_mode():
            try:
                return torch.autograd.grad("", w)
            except RuntimeError as e:
                return str(e)[:20], x * 2

    check(program, make=lambda: leaves((3,), (3,)), graphs=None)


def test_hooks_of_leaves_run():
    def program(w):
        (w * w).sum().backward()

    (w,) = leaves((3,))
    compiled = jit.compile(program, backend="eager")
    compiled(w)
    seen = []
    w.register_hook(lambda g: seen.append("gradient"))
    w.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    w.grad = None
    compiled(w)
    assert seen == ["gradient", "accumulated"]
    assert torch.equal(w.grad, 2 * w.detach())


@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
@pytest.mark.parametrize("is_warm", [False, True])
def test_hooks_of_the_node_that_accumulates_run(register, is_warm):
    (w,) = leaves((3,))
    compiled = jit.compile(lambda w: (w * w).sum().backward(), backend="eager")
    if is_warm:
        compiled(w)
    seen = []
    node = torch.autograd.graph.get_gradient_edge(w).node
    getattr(node, register)(lambda *gradients: seen.append("accumulated"))
    compiled(w)
    assert seen == ["accumulated"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_warm", [False, True])
def test_retained_gradients_are_kept(is_warm, backend):
    def program(y):
        return torch.autograd.grad((y * y).sum(), y)

    (w,) = leaves((3,))
    compiled = jit.compile(program, backend=backend)
    if is_warm:
        compiled(w * 2)
    y = w * 2
    y.retain_grad()
    (gradient,) = compiled(y)
    assert torch.equal(y.grad, gradient)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_step_by_hand(backend):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    other = copy.deepcopy(model)
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def step(model, x, y):
        for p in model.parameters():
            p.grad = None
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.1)
        return loss.detach()

    counter = Counting() if backend == "eager" else backend
    compiled = jit.compile(step, backend=counter)
    for _ in range(4):
        assert torch.allclose(compiled(model, x, y), step(other, x, y), rtol=1e-6, atol=1e-6)
    for a, b in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(a, b)
    if backend == "eager" and COUNTING:
        assert len(counter.graphs) <= 2  # without gradients, and with those of the last step


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", ["x.data = torch.ones(2, 2)", "x.data = x.data.double()", "x.set_(torch.ones(2, 2))",
                                    "x.t_()", "x.unsqueeze_(0)", "x.resize_(2, 2)", "x.data.resize_(2, 2)"])
def test_what_becomes_another_kind_of_tensor_keeps_its_gradient(change, backend):
    scope = {"torch": torch}
    execute(f"def program(x):\n    (x * x).sum().backward()\n    with torch.no_grad():\n        {change}\n    return x.grad.shape, x.grad.dtype\n", scope)
    check(scope["program"], *leaves((3, 4)), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_that_becomes_double_keeps_its_gradients(backend):
    def program(model, x):
        model(x).sum().backward()
        model.double()
        return [p.grad for p in model.parameters()]

    check(program, nn.Linear(4, 3), *leaves((2, 4)), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [lambda: leaves((3, 4)), lambda: [leaves((3, 4))[0] * 2]], ids=["leaf", "result"])
def test_what_is_turned_unseen_by_autograd(make, backend):
    def program(x):
        with torch.no_grad():
            x.transpose_(0, 1).unsqueeze_(0)
            x.mul_(2)
        return x * 2 if x.is_leaf else x.shape

    check(program, make=make, graphs=1, backend=backend)
