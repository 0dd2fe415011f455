"""Hooks of modules: registered before the compiled call, inside of it and after it; and those of all modules."""
import pytest
import torch
from torch import nn
from torch.nn.modules import module as modules

import jit
from tests.differential import COUNTING, Counting, check

BACKENDS = ["eager", "aot_eager", "default"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, scale=1.0):
        return self.second(self.first(x).relu()) * scale


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("always")


def make():
    torch.manual_seed(5)
    return Net(), torch.randn(3, 4), []


def make_failing():
    made = Fails()
    made.register_forward_hook(lambda module, args, result: print("before"), always_call=True)
    return made, torch.ones(3), []


# --- registered inside: (net, x, log) ---------------------------------------------------------------------------------
def forward_hook(net, x, log):
    net.first.register_forward_hook(lambda module, args, result: result * 2)
    return net(x)


def forward_hook_that_stays(net, x, log):
    handle = net.register_forward_hook(lambda module, args, result: log.append(len(args)))
    return net(x), handle, handle.id


def forward_pre_hook(net, x, log):
    net.first.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return net(x)


def with_keywords(net, x, log):
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs, "scale": 3.0}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, kwargs, result: result + kwargs["scale"], with_kwargs=True)
    return net(x, scale=2.0)


def prepended(net, x, log):
    net.register_forward_hook(lambda module, args, result: log.append("second"))
    net.register_forward_hook(lambda module, args, result: log.append("first"), prepend=True)
    net.register_forward_pre_hook(lambda module, args: log.append("pre second"))
    net.register_forward_pre_hook(lambda module, args: log.append("pre first"), prepend=True)
    return net(x)


def removed(net, x, log):
    handle = net.first.register_forward_hook(lambda module, args, result: result * 2)
    a = net(x)
    handle.remove()
    handle.remove()
    return a, net(x), handle


def removed_with_keywords(net, x, log):
    handle = net.first.register_forward_hook(lambda module, args, kwargs, result: result * 2, with_kwargs=True)
    other = net.first.register_forward_hook(lambda module, args, result: result + 1)
    a = net(x)
    handle.remove()
    return a, net(x), other.id


def by_with(net, x, log):
    with net.second.register_forward_hook(lambda module, args, result: (log.append("hook"), result * 2)[1]):
        a = net(x)
    return a, net(x)


def takes_itself_away(net, x, log):
    def once(module, args, result):
        log.append("once")
        handle.remove()
    handle = net.first.register_forward_hook(once)
    return net(x) + net(x)


def one_of_several(net, x, log):
    handles = [net.register_forward_hook(lambda module, args, result, n=n: result + n) for n in range(3)]
    handles[1].remove()
    net.handles = handles
    return net(x)


def on_a_module_born_inside(net, x, log):
    made = nn.ReLU()
    made.register_forward_hook(lambda module, args, result: result * 2)
    return made(x)


def of_intermediates(net, x, log):
    """A hook of the module that hooks the tensor it sees."""
    def watch(module, args, result):
        result.register_hook(lambda g: log.append(g.sum()))
    net.first.register_forward_hook(watch)
    return net(x).sum()


def state_dict_hooks(net, x, log):
    net.register_state_dict_pre_hook(lambda module, prefix, keep_vars: log.append(prefix))
    net.register_state_dict_post_hook(lambda module, found, prefix, metadata: found.update(extra=1))
    return list(net.state_dict()), x + 1


def load_hooks(net, x, log):
    handle = net.register_load_state_dict_post_hook(lambda module, keys: log.append(list(keys.missing_keys)))
    net.load_state_dict({key: value * 2 for key, value in net.state_dict().items()})
    handle.remove()
    return net(x)


def load_pre_hook(net, x, log):
    net.register_load_state_dict_pre_hook(lambda module, state, *rest: log.append(sorted(state)))
    net.load_state_dict({key: value * 2 for key, value in net.state_dict().items()})
    return net(x)


def of_all_modules(net, x, log):
    before = modules.register_module_forward_pre_hook(lambda module, args: log.append(type(module).__name__))
    after = modules.register_module_forward_hook(lambda module, args, result: result + 1)
    a = net(x)
    before.remove()
    after.remove()
    return a, net(x)


INSIDE = [
    forward_hook, forward_hook_that_stays, forward_pre_hook, with_keywords, prepended, removed, removed_with_keywords,
    by_with, takes_itself_away, one_of_several, on_a_module_born_inside, of_intermediates, state_dict_hooks, load_hooks,
    of_all_modules,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", INSIDE, ids=lambda program: program.__name__)
def test_registered_inside(program, backend):
    """One graph; what is registered stays, is seen by the next call, and may be taken away."""
    check(program, make=make, graphs=1, backend=backend, tolerance=(1e-5, 1e-5))


def always_called(net, x, log):
    net.register_forward_hook(lambda module, args, result: log.append("always"), always_call=True)
    net.register_forward_hook(lambda module, args, result: log.append("never"))
    return net(x)


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_that_are_called_when_the_module_raises(backend):
    check(always_called, make=make_failing, backend=backend)


@pytest.mark.break_everywhere
def test_before_loading():
    """torch keeps a weak reference to the module in such a hook, which breaks the graph."""
    check(load_pre_hook, make=make)


# --- backward hooks ---------------------------------------------------------------------------------------------------
def full_backward(net, x, log):
    net.first.register_full_backward_hook(lambda module, inputs, results: log.append(results[0].sum()))
    return net(x).sum()


def full_backward_pre(net, x, log):
    net.register_full_backward_pre_hook(lambda module, results: (results[0] * 2,))
    return net(x).sum()


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [full_backward, full_backward_pre], ids=lambda program: program.__name__)
def test_backward_hooks_of_modules(program, backend):
    check(program, make=make, backend=backend, tolerance=(1e-5, 1e-5))


# --- registered before and after --------------------------------------------------------------------------------------
REGISTER = {
    "forward": lambda net, log: net.first.register_forward_hook(lambda module, args, result: result * 2),
    "forward pre": lambda net, log: net.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
    "forward with keywords": lambda net, log: net.second.register_forward_hook(
        lambda module, args, kwargs, result: log.append(len(kwargs)), with_kwargs=True),
    "full backward": lambda net, log: net.first.register_full_backward_hook(
        lambda module, inputs, results: log.append(results[0].sum().item())),
    "full backward pre": lambda net, log: net.register_full_backward_pre_hook(
        lambda module, results: (results[0] * 2,)),
    "of all modules": lambda net, log: modules.register_module_forward_hook(
        lambda module, args, result: log.append(type(module).__name__)),
    "pre of all modules": lambda net, log: modules.register_module_forward_pre_hook(
        lambda module, args: (args[0] + 1,)),
    "backward of all modules": lambda net, log: modules.register_module_full_backward_hook(
        lambda module, inputs, results: log.append(type(module).__name__)),
    "of a parameter": lambda net, log: net.first.weight.register_hook(lambda g: g * 2),
    "after accumulation": lambda net, log: net.first.weight.register_post_accumulate_grad_hook(
        lambda leaf: log.append(leaf.grad.sum().item())),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", REGISTER)
def test_a_hook_is_seen_from_the_next_call_on(kind, backend):
    """Registered between two calls, and taken away between two calls: each call does what eager code does then."""
    found = []
    for compile_ in (lambda net: net, lambda net: jit.compile(net, backend=backend)):
        net, x, log = make()
        run, rows = compile_(net), []

        def step():
            net.zero_grad()  # noqa: B023
            y = run(x)  # noqa: B023
            y.sum().backward()
            rows.append(([y.detach(), *(p.grad for p in net.parameters())], list(log)))  # noqa: B023

        step()
        handle = REGISTER[kind](net, log)
        try:
            step()
            step()
        finally:
            handle.remove()
        step()
        found.append(rows)
    for (theirs, logged), (ours, log) in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        assert log == pytest.approx(logged)


def test_hooks_are_called_in_one_graph():
    net, x, log = make()
    net.first.register_forward_hook(lambda module, args, result: result * 2)
    counter = Counting()
    compiled = jit.compile(net, backend=counter)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), net(x))
    assert not COUNTING or counter.count == 1
