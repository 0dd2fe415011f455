"""Hooks of autograd's nodes, and what is made of them: full backward hooks of modules, hooks of several tensors."""
import warnings

import pytest
import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge, register_multi_grad_hook
from torch.nn.modules import module as modules

import jit
from tests.differential import COUNTING, Counting, check, differentiated_ahead

CLOSE = (1e-5, 1e-5)
#: With forced breaks in CI all run through kernels, so one of these will do.
EAGER = pytest.param("eager", marks=pytest.mark.break_everywhere)
BACKENDS = [EAGER, differentiated_ahead, "default"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


class Pair(nn.Module):
    """Several inputs and several results, some without a gradient."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x, y, scale, mask):
        return self.inner(x) * y * scale, (x + y).argmax(), y.exp() * mask


def make():
    torch.manual_seed(5)
    return Net(), torch.randn(3, 4), []


def make_with_gradient():
    net, x, log = make()
    return net, x.requires_grad_(), log


def make_pair():
    torch.manual_seed(5)
    return Pair(), torch.randn(3, 4, requires_grad=True), []


def note(log, result=None):
    """A hook that writes down what it sees, and answers with `result(what it sees last)`."""
    def hook(module, *gradients):
        log.append([[None if g is None else g.detach().clone() for g in each] for each in gradients])
        return None if result is None else result(gradients[0])
    return hook


def doubled(gradients):
    return tuple(None if g is None else g * 2 for g in gradients)


# --- full backward hooks of modules: (net, x, log) --------------------------------------------------------------------
def of_the_whole(net, x, log):
    net.register_full_backward_hook(note(log))
    return net(x).sum()


def of_parts(net, x, log):
    net.first.register_full_backward_hook(note(log, doubled))
    net.second.register_full_backward_hook(note(log, doubled))
    return net(x).sin().sum()


def before_the_backward(net, x, log):
    net.register_full_backward_pre_hook(lambda module, gradients: (log.append(gradients[0].sum()), doubled(gradients))[1])
    return net(x).sum()


def both_kinds(net, x, log):
    net.second.register_full_backward_pre_hook(note(log, doubled))
    net.second.register_full_backward_hook(note(log))
    net.second.register_full_backward_pre_hook(note(log), prepend=True)
    return net(x).sum()


def in_order(net, x, log):
    for number in range(3):
        net.first.register_full_backward_hook(lambda module, i, o, number=number: log.append(number))
    net.first.register_full_backward_hook(lambda module, i, o: log.append("first"), prepend=True)
    return net(x).sum()


def taken_away(net, x, log):
    handle = net.first.register_full_backward_hook(note(log, doubled))
    a = net(x).sum()
    handle.remove()
    return a + net(x).sum(), handle


def two_calls(net, x, log):
    net.first.register_full_backward_hook(note(log))
    return (net(x) * net(x + 1)).sum()


def of_all_modules(net, x, log):
    before = modules.register_module_full_backward_pre_hook(lambda module, o: log.append(type(module).__name__))
    after = modules.register_module_full_backward_hook(lambda module, i, o: log.append(type(module).__name__))
    result = net(x).sum()
    before.remove()
    after.remove()
    return result


def beside_hooks_of_tensors(net, x, log):
    net.first.register_full_backward_hook(note(log))
    net.first.register_forward_hook(lambda module, args, y: (y.register_hook(lambda g: log.append(g.sum())), None)[1])
    net.first.weight.register_hook(lambda g: log.append(g.sum()))
    y = net(x)
    y.register_hook(doubled_one)
    return y.sum(), y


def doubled_one(g):
    return g * 2


def of_several(net, x, log):
    net.register_full_backward_hook(note(log, doubled))
    net.register_full_backward_pre_hook(note(log, doubled))
    a, at, b = net(x, x * 2, 3.0, torch.ones(3, 4))
    return a.sum() + b.sin().sum(), at


def of_several_of_which_the_last_is_used(net, x, log):
    net.register_full_backward_hook(note(log))
    _, at, b = net(x, x * 2, 3.0, torch.ones(3, 4))
    return b.sin().sum()


def of_several_of_which_the_first_is_used(net, x, log):
    net.register_full_backward_pre_hook(note(log))
    a, at, _ = net(x, x * 2, 3.0, torch.ones(3, 4))
    return a.sin().sum()


def of_several_whose_gradients_are_taken_away(net, x, log):
    net.register_full_backward_pre_hook(lambda module, gradients: (None, *gradients[1:]))
    a, at, b = net(x, x * 2, 3.0, torch.ones(3, 4))
    return a.sin().sum() + b.sin().sum()


def of_several_that_are_put_in_the_place_of_missing_ones(net, x, log):
    net.register_full_backward_hook(note(log, lambda gradients: (gradients[1], None, None, None)))
    net.register_full_backward_pre_hook(lambda module, gradients: (gradients[2] * 2, None, gradients[2]))
    _, at, b = net(x, x * 2, 3.0, torch.ones(3, 4))
    return b.sin().sum()


# --- the same with a backward pass in the frame -----------------------------------------------------------------------
def run_inside(net, x, log):
    handle = net.first.register_full_backward_hook(note(log, doubled))
    net(x).sum().backward()
    handle.remove()
    return x.grad * 2, log[0][0][0] + 1


def run_inside_several_times(net, x, log):
    net.register_full_backward_hook(note(log))
    net.second.register_full_backward_pre_hook(note(log, doubled))
    net.second.register_full_backward_hook(note(log))
    y = net(x)
    y.register_hook(lambda g: log.append(g.clone()))
    y.sin().sum().backward(retain_graph=True)
    y.sum().backward()
    return x.grad


def derived_inside(net, x, log):
    net.first.register_full_backward_hook(note(log, doubled))
    (g,) = torch.autograd.grad(net(x).sin().sum(), x, create_graph=True)
    return (g * g).sum()


def told_of_by_the_hook_after(net, x, log):
    """A hook takes what another one left."""
    net.second.register_full_backward_hook(lambda module, i, o: log.append(i[0] * 2))
    net.first.register_full_backward_hook(lambda module, i, o: (log[-1].sum() * i[0],))
    net(x).sum().backward()
    return x.grad, log[0] + 1


def of_a_node_run_inside(net, x, log):
    y = net(x)
    y.grad_fn.register_prehook(doubled)
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    return x.grad


INSIDE = [
    run_inside, run_inside_several_times, derived_inside, told_of_by_the_hook_after, of_a_node_run_inside,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", [EAGER, "aot_eager", "default"])
@pytest.mark.parametrize("program", INSIDE, ids=lambda program: program.__name__)
def test_run_inside(program, backend):
    check(program, make=make_with_gradient, graphs=1, backend=backend, tolerance=CLOSE)


MODULES = [
    of_the_whole, of_parts, before_the_backward, both_kinds, in_order, taken_away, two_calls, of_all_modules,
    beside_hooks_of_tensors,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [make, make_with_gradient])
@pytest.mark.parametrize("program", MODULES, ids=lambda program: program.__name__)
def test_of_modules(program, make, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_modules_with_several_inputs(backend):
    check(of_several, make=make_pair, graphs=1, backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [of_several_of_which_the_last_is_used, of_several_of_which_the_first_is_used,
     of_several_whose_gradients_are_taken_away, of_several_that_are_put_in_the_place_of_missing_ones],
    ids=lambda program: program.__name__)
def test_of_modules_with_a_result_that_gets_no_gradient(program, backend):
    """The node that all results share gives zeros for those, unless a hook says otherwise."""
    check(program, make=make_pair, graphs=1, backend=backend, tolerance=CLOSE)


def written_result(net, x, log):
    net.first.register_full_backward_hook(note(log))
    return net.first(x).mul_(2)


def warned_of_by_a_hook(net, x, log):
    net.first.register_full_backward_hook(lambda module, *gradients: warnings.warn("here", stacklevel=5))
    net(x).sum().backward()
    return x + 1


@pytest.mark.parametrize("backend", [EAGER, "aot_eager", "default"])
@pytest.mark.parametrize("program", [written_result, warned_of_by_a_hook], ids=lambda program: program.__name__)
def test_breaks_where_it_must(program, backend):
    """What such a module gives can't be written; and who calls a hook is not who runs the backward."""
    check(program, make=make_with_gradient, backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_over_several_backward_passes(backend):
    """A module's hook, registered before the call: it sees each pass, also a derivative's derivative."""
    found = []
    for compile_ in (lambda net: net, lambda net: jit.compile(net, backend=backend)):
        net, x, log = make_with_gradient()
        handle = net.first.register_full_backward_hook(note(log))
        run, rows = compile_(net), []
        for _ in range(2):
            y = run(x)
            y.sum().backward(retain_graph=True)
            (y * y).sum().backward()
            (g,) = torch.autograd.grad(run(x).sin().sum(), x, create_graph=True)
            rows += [x.grad.clone(), g.detach(), *torch.autograd.grad((g * g).sum(), x)]
        handle.remove()
        run(x).sum().backward()
        found.append([rows, log, x.grad])
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
    assert len(found[0][1]) > 4


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_registered_before_the_call_is_one_graph(register):
    net, x, log = make_with_gradient()
    getattr(net.first, register)(note(log))
    counter = Counting()
    compiled = jit.compile(net, backend=counter)
    for _ in range(3):
        compiled(x).sum().backward()
    assert len(log) == 3
    counter.expect(1)


# --- of nodes: (x, w, log) with w a leaf ------------------------------------------------------------------------------
def make_tensors():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), []


def prehook(x, w, log):
    y = (x * w).exp()
    handle = y.grad_fn.register_prehook(lambda gradients: (log.append(len(gradients)), doubled(gradients))[1])
    return y.sin().sum(), handle, handle.id


def prehook_taken_away(x, w, log):
    y = x * w
    y.grad_fn.register_prehook(doubled)
    y.grad_fn.register_prehook(lambda gradients: log.append("never")).remove()
    return y.sin().sum()


def after_hooks_of_the_tensor(x, w, log):
    y = x * w
    y.grad_fn.register_prehook(lambda gradients: log.append(("node", gradients[0].sum())))
    y.register_hook(lambda g: (log.append(("tensor", g.sum())), g * 2)[1])
    return y.sin().sum(), y


def what_made_it(x, w, log):
    y = x * w
    log += [x.grad_fn is None, w.grad_fn is None, y.grad_fn is None, y.grad_fn is y.grad_fn, y.grad_fn.name()]
    a, b = y.unbind()[:2]
    log.append(a.grad_fn is b.grad_fn)
    return y.sin().sum()


def of_many_tensors(x, w, log):
    y, z = x * w, x + w
    register_multi_grad_hook([y, z, w], lambda gradients: log.append([g is not None and g.sum() for g in gradients]))
    return (y * z).sin().sum()


def of_the_first_of_many(x, w, log):
    y, z = x * w, x + w
    handle = register_multi_grad_hook((x, y, z), lambda g: log.append(g.sum()), mode="any")
    return (y * z).sin().sum(), handle


def of_many_taken_away(x, w, log):
    y, z = x * w, x + w
    handle = register_multi_grad_hook([y, z], lambda gradients: log.append(1))
    other = y.register_hook(doubled_one)
    handle.remove()
    return (y * z).sum(), handle, other.id


def of_many_by_with(x, w, log):
    y, z = x * w, x + w
    with register_multi_grad_hook([y, z], lambda gradients: log.append(1)):
        result = (y * z).sum()
    return result


NODES = [
    prehook, prehook_taken_away, after_hooks_of_the_tensor, what_made_it, of_many_tensors, of_the_first_of_many,
    of_many_taken_away, of_many_by_with,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", NODES, ids=lambda program: program.__name__)
def test_of_nodes(program, backend):
    check(program, make=make_tensors, graphs=1, backend=backend, tolerance=CLOSE)


# --- what only eager code's nodes have: the graph before it runs as captured ------------------------------------------
def look(log, answer=None):
    """A hook that writes down what the node gives and what it was given."""
    def hook(made_of, given):
        log.append([[None if g is None else g.detach().clone() for g in each] for each in (made_of, given)])
        return None if answer is None else answer(made_of)
    return hook


def gradients_of_what_it_was_made_of(x, w, log):
    y = x.exp() * w
    y.grad_fn.register_hook(look(log))
    return y.sin().sum()


def that_are_changed(x, w, log):
    y = x * w
    handle = y.sin().grad_fn.register_hook(look(log))
    y.grad_fn.register_hook(look(log, doubled))
    return (y * y).sum(), y, handle.id


def taken_away_again(x, w, log):
    y = x * w
    with y.grad_fn.register_hook(look(log)):
        a = y.cos() * 2
    return (a + y).sum()


def beside_other_hooks(x, w, log):
    y = x * w
    y.grad_fn.register_prehook(doubled)
    y.register_hook(doubled_one)
    y.grad_fn.register_hook(look(log))
    return y.sin().sum()


def by_a_function(x, w, log):
    def watch(tensor):
        tensor.grad_fn.register_hook(look(log))
        return tensor
    return watch(watch(x * w).sin() + x).sum()


def several_by_map(x, w, log):
    y, z = x * w, x + w
    count = len(list(map(lambda each: each.grad_fn.register_hook(look(log)), (y, z))))
    return (y * z).sum(), count


def method_kept(x, w, log):
    y = x * w
    add = y.grad_fn.register_hook
    jit.graph_break()
    add(look(log))
    return y.sin().sum()


def node_kept(x, w, log):
    y = x * w
    node = y.grad_fn
    jit.graph_break()
    node.register_hook(look(log))
    return y.sin().sum()


def after_another_break(x, w, log):
    y = x * w
    jit.graph_break()
    y.grad_fn.register_hook(look(log))
    return y.sin().sum()


def by_an_edge(x, w, log):
    y = (x * w).exp()
    get_gradient_edge(y).node.register_hook(look(log))
    return y.sin().sum()


def node_left_outside(x, w, log):
    y = x * w
    log.append(y.grad_fn)
    z = y.sin()
    log.pop().register_hook(look(log))
    return z.sum()


def what_came_before(x, w, log):
    y = (x * w).exp().sum()
    node = y.grad_fn
    while node is not None:
        log.append(node.name())
        node.register_hook(look(log))
        node = next((found for found, _ in node.next_functions if found is not None), None)
    return y


def of_a_node_before_a_write(x, w, log):
    y = x * w
    node = y.grad_fn
    y.mul_(3)
    node.register_hook(look(log))
    return y.sin().sum()


def before_and_after_a_write(x, w, log):
    y = x * w
    nodes = [y.grad_fn]
    y.mul_(3)
    nodes.append(y.grad_fn)
    z = y.sin().sum()
    for node in nodes:
        node.register_hook(look(log))
        node.register_prehook(doubled)
    return z


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", [EAGER, "aot_eager", "default"])
@pytest.mark.parametrize(
    "program",
    [gradients_of_what_it_was_made_of, that_are_changed, taken_away_again, beside_other_hooks, by_a_function,
     several_by_map, method_kept, node_kept, after_another_break, by_an_edge, node_left_outside, what_came_before, of_a_node_before_a_write,
     before_and_after_a_write],
    ids=lambda program: program.__name__)
def test_what_only_the_nodes_of_eager_code_have(program, backend):
    check(program, make=make_tensors, backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("backend", [EAGER, "aot_eager", "default"])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_node_that_is_returned(is_written, backend):
    def program(x, w):
        y = x * w
        node = y.grad_fn
        if is_written:
            y.mul_(3)
        return y.sin().sum(), node

    found = []
    for call in (program, jit.compile(program, backend=backend)):
        for _ in range(2):
            x, w, log = make_tensors()
            result, node = call(x, w)
            node.register_hook(look(log))
            result.backward()
            assert node.name() == "MulBackward0" and len(log) == 1
            found.append(log)
    torch.testing.assert_close(found[2:], found[:2], rtol=1e-5, atol=1e-5)


def of_a_node_with_several_results(x, w, log):
    a, b, c = (x * w).unbind()
    a.grad_fn.register_prehook(lambda gradients: log.append(len(gradients)))
    return (a * b * c).sum()


def of_a_node_that_is_gone(x, w, log):
    y = x * w
    node = y.grad_fn
    y.mul_(2)
    node.register_prehook(doubled)
    return y.sum()


def of_a_node_with_its_own_gradient(x, w, log):
    y = x * w
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    y.grad_fn.register_prehook(doubled)
    y.sum().backward()
    return w.grad, y.grad


def of_many_with_a_backward_inside(x, w, log):
    y = x * w
    register_multi_grad_hook([y, w], lambda gradients: log.append(len(gradients)))
    y.sum().backward()
    return w.grad


@pytest.mark.parametrize("backend", [EAGER, "aot_eager", "default"])
@pytest.mark.parametrize(
    "program",
    [of_a_node_with_several_results, of_a_node_that_is_gone, of_a_node_with_its_own_gradient,
     of_many_with_a_backward_inside],
    ids=lambda program: program.__name__)
def test_breaks_at_what_only_the_real_node_knows(program, backend):
    check(program, make=make_tensors, backend=backend, tolerance=CLOSE)


@pytest.mark.skipif(not COUNTING, reason="counts graphs")
def test_other_hooks_compile_nothing_again():
    def program(x, w, by):
        y = x * w
        y.grad_fn.register_prehook(lambda gradients: (gradients[0] * by[0],))
        return y.sum()

    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for number in range(4):
        grads = []
        for call in (program, compiled):
            x, w, _ = make_tensors()
            call(x, w, [torch.tensor(float(number))]).backward()
            grads.append(w.grad)
        torch.testing.assert_close(*grads)
    counter.expect(1)


# --- nodes that are looked at after a break ---------------------------------------------------------------------------
def names_of(y):
    return y.grad_fn.name(), y.grad_fn.next_functions[0][0].name()


def by_another(y):
    return names_of(y)


class Looks:
    def at(self, y):
        return self.there(y)

    def there(self, y):
        return y.grad_fn.name()


def in_a_function(x, looks):
    y = x * 2 + 1
    jit.graph_break()
    return y, names_of(y)


def in_what_it_calls(x, looks):
    y = x * 2 + 1
    jit.graph_break()
    return y, by_another(y)


def in_a_local_function(x, looks):
    y = x * 2 + 1
    look = by_another
    jit.graph_break()
    return y, look(y)


def in_a_closure(x, looks):
    def look(y):
        return y.grad_fn.name()

    y = x * 2 + 1
    jit.graph_break()
    return y, look(y)


def in_a_method(x, looks):
    y = x * 2 + 1
    jit.graph_break()
    return y, looks.at(y)


@pytest.mark.parametrize("program", [in_a_function, in_what_it_calls, in_a_local_function, in_a_closure, in_a_method], ids=lambda p: p.__name__)
def test_nodes_looked_at_after_a_break_are_those_of_eager_code(program):
    def call(function):
        return function(torch.ones(3, requires_grad=True), Looks())[1]

    compiled = jit.compile(program, backend="aot_eager")
    for _ in range(2):
        assert call(compiled) == call(program)
