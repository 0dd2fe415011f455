"""Hooks of tensors: registered in the frame, the same handles, the same gradients, in one graph."""
import copy
import functools
import pickle

import pytest
import torch
from torch.autograd.graph import register_multi_grad_hook
from torch.utils.hooks import RemovableHandle

import jit
from tests.differential import COUNTING, Counting, check

BACKENDS = ["eager", "aot_eager", "default"]
LOG = []


class Holder:
    """Something that a program may put things on."""


def doubled(g):
    return g * 2


def seen(g):
    LOG.append(g.shape)


def powers(g, by):
    return g * by


class Counts:
    def __init__(self):
        self.calls = 0

    def __call__(self, g):
        self.calls += 1
        return g * self.calls

    def method(self, g):
        self.calls += 10


def around(hook):
    def wrapped(g):
        result = hook(g)
        return (g if result is None else result) + 1
    return wrapped


# --- what is a hook, and of what: (x, w, log) with x and w of shape (3, 3), w a leaf -----------------------------------
def global_function(x, w, log):
    y = x * w
    y.register_hook(doubled)
    return y.sum()


def global_function_that_logs(x, w, log):
    y = x * w
    y.register_hook(seen)
    return y.sum()


def a_lambda(x, w, log):
    y = x * w
    y.register_hook(lambda g: g * 3)
    return (y * y).sum()


def closure_over_python(x, w, log):
    factor = 2

    def hook(g):
        nonlocal factor
        factor += 1
        log.append(factor)
        return g * factor
    y = x * w
    y.register_hook(hook)
    return y.sin().sum(), hook


def closure_over_tensors(x, w, log):
    z = x.exp()
    y = x * w
    y.register_hook(lambda g: g * z + w.detach())
    return y.sin().sum()


def of_partial(x, w, log):
    y = x * w
    y.register_hook(functools.partial(powers, by=4))
    return y.sum()


def of_objects(x, w, counts):
    y = x * w
    y.register_hook(counts)
    y.register_hook(counts.method)
    return y.sum(), counts


def born_object(x, w, log):
    counts = Counts()
    y = x * w
    y.register_hook(counts)
    return y.sum(), counts


def wrapped_hook(x, w, log):
    y = x * w
    y.register_hook(around(lambda g: log.append(1)))
    y.register_hook(around(doubled))
    return y.sum()


def of_a_leaf(x, w, log):
    w.register_hook(lambda g: g * 2)
    w.register_hook(lambda g: log.append(g))
    return (w * x).sum()


def of_an_input(x, w, log):
    x.register_hook(lambda g: log.append(g))
    return (w * x).sum()


def of_a_result(x, w, log):
    y = (x * w).exp()
    y.register_hook(lambda g: g.clamp(-1, 1))
    return y, (y * y).sum()


def of_a_view(x, w, log):
    y = x * w
    z = y[0]
    z.register_hook(lambda g: g * 5)
    y.register_hook(lambda g: g + 1)
    return (y * y).sum() + z.sum(), z


def of_a_view_of_an_input(x, w, log):
    z = w.t()
    z.register_hook(lambda g: g * 5)
    return (z * x).sum(), z


def of_a_leaf_born_inside(x, w, log):
    y = torch.ones(3, 3, requires_grad=True)
    y.register_hook(lambda g: g * 5)
    return (y * x).sum(), y


def of_many(x, w, log):
    ys = [x * w * i for i in range(3)]
    for i, y in enumerate(ys):
        y.register_hook(lambda g, i=i: log.append(i))
    return sum(y.sum() for y in ys)


def in_order(x, w, log):
    y = x * w
    for number in range(3):
        y.register_hook(lambda g, number=number: (log.append(number), g * 2 + number)[1])
    return y.sum()


def by_the_class(x, w, log):
    y = x * w
    torch.Tensor.register_hook(y, doubled)
    torch.Tensor.retain_grad(y)
    return y.sum(), y


# --- handles ----------------------------------------------------------------------------------------------------------
def returned(x, w, log):
    y = x * w
    handle = y.register_hook(doubled)
    return y.sum(), handle, handle.id


def returned_in_order(x, w, log):
    y = x * w
    first, second = y.register_hook(doubled), y.register_hook(lambda g: g + 1)
    third = w.register_hook(lambda g: g * 3)
    return y.sum(), third, (second, first)


def stored(x, w, log):
    y = x * w
    held = Holder()
    held.handle = y.register_hook(doubled)
    log.append(held)
    log.append(held.handle)
    held.handle.note = "n"
    log.append(y)  # a handle knows its tensor's hooks as long as there is the tensor
    return y.sum()


def stored_over_an_older_value(x, w, log):
    log.append(None)
    y = x * w
    first = y.register_hook(doubled)
    log[-1] = y.register_hook(lambda g: g + 1)
    log.append(y)
    return y.sum(), first


def by_number(x, w, log):
    y = x * w
    first, second = y.register_hook(doubled), y.register_hook(doubled)
    handles = {first.id: first, second.id: second}
    log.append(first.id == second.id)
    handles[first.id].remove()
    return y.sum(), handles


def aliased(x, w, log):
    y = x * w
    first = y.register_hook(doubled)
    second = first
    second.remove()
    log.append(first is second)
    return y.sum(), first


def removed(x, w, log):
    y = x * w
    y.register_hook(lambda g: g + 1)
    handle = y.register_hook(lambda g: g * 100)
    y.register_hook(lambda g: g * 2)
    handle.remove()
    handle.remove()
    return (y * y).sum()


def by_with(x, w, log):
    y = x * w
    with y.register_hook(lambda g: g * 100) as handle:
        z = (y * y).sum()
    return z, handle


def takes_itself_away(x, w, log):
    y = x * w

    def once(g):
        log.append("once")
        handle.remove()
        return g * 2
    handle = y.register_hook(once)
    return y.sum()


def checked(x, w, log):
    y = x * w
    handle = y.register_hook(doubled)
    log.append(isinstance(handle, RemovableHandle) and type(handle) is RemovableHandle and handle is not None)
    return y.sum()


# --- further kinds ----------------------------------------------------------------------------------------------------
def after_accumulation(x, w, log):
    handle = w.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad.clone()))
    return (w * x).sum(), handle


def retained(x, w, log):
    y = x * w
    y.retain_grad()
    y.retain_grad()
    w.retain_grad()
    return y, y.sin().sum(), y.retains_grad, w.retains_grad


def retained_and_hooked(x, w, log):
    y = x * w
    y.retain_grad()
    y.register_hook(doubled)
    return y, y.sin().sum()


def retained_and_written(x, w, log):
    y = x * w
    y.retain_grad()
    y.mul_(2)
    return y, y.sin().sum()


WHOLE = [
    global_function, global_function_that_logs, a_lambda, closure_over_python, closure_over_tensors, of_partial,
    born_object, wrapped_hook, of_a_leaf, of_a_result, of_a_view, of_a_view_of_an_input, of_a_leaf_born_inside,
    in_order, by_the_class,
    returned, returned_in_order, stored, stored_over_an_older_value, by_number, aliased, removed, by_with,
    takes_itself_away, checked,
    after_accumulation, retained, retained_and_hooked,
]  # fmt: skip


def make():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), []


def make_counts():
    x, w, _ = make()
    return x, w, Counts()


def make_history():
    x, w, log = make()
    return w * 2, w, log


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.skipif(not COUNTING, reason="of tensors that one graph gives, one part of the program registers the hooks")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_last_operation_comes_first(backend):
    check(of_many, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program, make", [(of_objects, make_counts), (of_an_input, make_history)],
                         ids=["of_objects", "of_an_input"])
def test_one_graph_for_others(program, make, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


# --- over several backward passes -------------------------------------------------------------------------------------
def both(program, backend, look, calls=2):
    """`look(result of program(...), inputs)` of eager code and of compiled, call by call; and the graphs."""
    counter = Counting(jit.backends.BACKENDS[backend])
    found = []
    for call in (program, jit.compile(program, backend=counter)):
        rows = []
        for _ in range(calls):
            inputs = make()
            rows.append(look(call(*inputs), inputs))
        found.append(rows)
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
    return counter


@pytest.mark.parametrize("backend", BACKENDS)
def test_removed_between_backward_passes(backend):
    def program(x, w, log):
        y = x * w
        return (y * y).sum(), y.register_hook(doubled), w.register_hook(lambda g: g + 1)

    def look(result, inputs):
        loss, of_y, of_w = result
        w = inputs[1]
        rows = []
        for take_away in (None, of_y, of_w):
            if take_away is not None:
                take_away.remove()
            w.grad = None
            loss.backward(retain_graph=True)
            rows.append(w.grad)
        return rows

    both(program, backend, look).expect(1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [closure_over_tensors, of_a_leaf, in_order, of_a_result, a_lambda],
                         ids=lambda program: program.__name__)
def test_double_backward(program, backend):
    def look(result, inputs):
        loss = result[-1] if isinstance(result, tuple) else result
        (g,) = torch.autograd.grad(loss, inputs[1], create_graph=True)
        rows = [g.detach()]
        if g.requires_grad:
            rows += torch.autograd.grad((g * g).sum(), inputs[1])
        return [*rows, list(inputs[2])]

    both(program, backend, look).expect(1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chosen", [(0,), (1,), (2,), (0, 2), (1, 0)], ids=str)
def test_hooks_of_what_gets_no_gradient_are_not_called(chosen, backend):
    def program(x, w, log):
        y, z = w * x, w + x
        u = (y * z).sin()
        for number, t in enumerate((y, z, u)):
            t.register_hook(lambda g, number=number: log.append((number, g.sum().item())))
        return y, z, u

    def look(result, inputs):
        sum(result[at].sum() for at in chosen).backward()
        return inputs[1].grad, inputs[2]

    both(program, backend, look).expect(1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_beside_hooks_of_before_and_after(backend):
    """Hooks run in the order of their registration, wherever that was."""
    def program(x, w, log):
        w.register_hook(lambda g: log.append("inside"))
        y = x * w
        y.register_hook(lambda g: log.append("y inside"))
        return y

    found = []
    for call in (program, jit.compile(program, backend=backend)):
        x, w, log = make()
        w.register_hook(lambda g: log.append("before"))  # noqa: B023
        y = call(x, w, log)
        y.register_hook(lambda g: log.append("y after"))  # noqa: B023
        w.register_hook(lambda g: log.append("after"))  # noqa: B023
        y.sum().backward()
        found.append(log)
    assert found[1] == found[0] == ["y inside", "y after", "before", "inside", "after"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_hooks_of_the_same_kind_compile_nothing_again(backend):
    """What a closure holds, and which object is called, is the hook's affair."""
    def program(x, w, hook):
        y = x * w
        y.register_hook(hook)
        y.register_hook(lambda g: hook(g) * 2)
        return y.sum()

    def closure(by):
        return lambda g: g * by

    counter = Counting(jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    for number in range(5):
        grads = []
        for call in (program, compiled):
            x, w, _ = make()
            call(x, w, closure(float(number))).backward()
            grads.append(w.grad)
        torch.testing.assert_close(*grads)
    counter.expect(1)


@pytest.mark.parametrize("program", [returned, after_accumulation], ids=lambda program: program.__name__)
def test_the_handle_is_pickled_and_copied_as_eager_code_does_it(program):
    found = []
    for call in (program, jit.compile(program, backend="eager")):
        result = call(*make())
        handle = result[1]
        row = [type(handle), sorted(vars(handle))]
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            try:
                row.append(type(copied(handle)))
            except Exception as error:
                row.append((type(error), str(error).partition(" at 0x")[0]))
        found.append(row)
    assert found[0] == found[1]


# --- what can't be one graph ------------------------------------------------------------------------------------------
def written_later(x, w, log):
    y = x * w
    y.register_hook(lambda g: log.append(g.sum()))
    y.mul_(3)
    return y.sum()


def base_written_later(x, w, log):
    y = x * w
    z = y[0]
    z.register_hook(lambda g: log.append(g.sum()))
    y.mul_(3)
    return y.sum(), z


def let_go_later(x, w, log):
    y = x * w
    y.register_hook(lambda g: log.append(g.sum()))
    z = y + 1
    y.detach_()
    return z.sum(), y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [written_later, base_written_later, let_go_later],
                         ids=lambda program: program.__name__)
def test_hooks_see_what_the_tensor_was(program, backend):
    """The gradient of what it was when the hook was registered: the graph breaks there."""
    check(program, make=make, graphs=2, breaks=1, backend=backend, tolerance=(1e-5, 1e-5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_retained_gradient_follows_the_tensor(backend):
    check(retained_and_written, make=make, backend=backend, tolerance=(1e-5, 1e-5))


def of_no_gradient(x, w, log):
    return x.register_hook(doubled)


def accumulated_in_no_leaf(x, w, log):
    return (x * w).register_post_accumulate_grad_hook(doubled)


def retains_nothing(x, w, log):
    (x + 1).retain_grad()


def without_grad(x, w, log):
    with torch.no_grad():
        y = x * w
    try:
        y.register_hook(doubled)
    except RuntimeError as error:
        log.append(str(error))
    return y


@pytest.mark.parametrize("program", [of_no_gradient, accumulated_in_no_leaf, retains_nothing, without_grad],
                         ids=lambda program: program.__name__)
def test_refused_as_eager_code_refuses(program):
    check(program, make=make)


def test_handles_live_across_breaks():
    def program(x, w, log):
        y = x * w
        first, second = y.register_hook(doubled), y.register_hook(lambda g: g + 1)
        x.sum().item()
        log.append(first.id)
        first.remove()
        z = y.sin()
        x.sum().item()
        second.remove()
        return z.sum(), first

    check(program, make=make)


def test_more_than_one_tensor():
    def program(x, w, log):
        y, z = x * w, x + w
        register_multi_grad_hook([y, z], lambda gradients: log.append([g.sum() for g in gradients]))
        return (y * z).sin().sum()

    check(program, make=make)
