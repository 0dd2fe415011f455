"""Handles of hooks that were registered before the frame, which takes them away; and what their numbers decide."""
import pickle

import pytest
import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook

import jit
from tests.differential import COUNTING, Counting, check

CLOSE = (1e-5, 1e-5)
BACKENDS = ["eager", "aot_eager", "default"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.handle = None

    def forward(self, x, scale=1.0):
        return self.second(self.first(x).relu()) * scale


def doubled(*args):
    return args[-1] * 2


# --- of tensors: (x, w, log, handle) with w a leaf --------------------------------------------------------------------
def tensors():
    torch.manual_seed(3)
    return torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), []


def of_a_leaf():
    x, w, log = tensors()
    w.register_hook(lambda g: log.append("stays"))
    return x, w, log, w.register_hook(lambda g: log.append("goes"))


def after_accumulation():
    x, w, log = tensors()
    return x, w, log, w.register_post_accumulate_grad_hook(lambda leaf: log.append("goes"))


def of_what_is_gone():
    x, w, log = tensors()
    handle = (w * 2).register_hook(lambda g: log.append("goes"))
    assert handle.hooks_dict_ref() is None
    return x, w, log, handle


def taken_away(x, w, log, handle):
    handle.remove()
    return (w * x).sum()


def taken_away_twice(x, w, log, handle):
    other = handle
    other.remove()
    handle.remove()
    log.append(other is handle)
    return (w * x).sum(), other


def by_with(x, w, log, handle):
    with handle as entered:
        y = w * x
    log.append(entered is handle)
    return y.sum()


def one_goes_and_one_comes(x, w, log, handle):
    handle.remove()
    w.register_hook(lambda g: log.append("came"))
    return (w * x).sum(), handle


def before_an_exception(x, w, log, handle):
    try:
        handle.remove()
        raise ValueError(handle.id)
    except ValueError as error:
        log.append(error.args[0] == handle.id)
    return (w * x).sum()


def by_number(x, w, log, handle):
    by_id = {handle.id: handle}
    new = w.register_hook(lambda g: log.append("came"))
    by_id[handle.id].remove()
    log.append(new.id > handle.id)
    return (w * x).sum(), by_id


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [of_a_leaf, after_accumulation, of_what_is_gone], ids=lambda make: make.__name__)
@pytest.mark.parametrize("program", [taken_away, taken_away_twice, by_with, one_goes_and_one_comes, before_an_exception],
                         ids=lambda program: program.__name__)
def test_of_tensors(program, make, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


@pytest.mark.break_everywhere
def test_numbers_are_compared():
    check(by_number, make=of_a_leaf)


def of_several():
    x, w, log = tensors()
    log.append(w * 1)
    return x, w, log, register_multi_grad_hook([w, log[0]], lambda gradients: log.append("goes"))


@pytest.mark.break_everywhere
@pytest.mark.parametrize("program", [taken_away, by_with], ids=lambda program: program.__name__)
def test_of_several_tensors(program):
    check(program, make=of_several, graphs=1)


def in_a_list():
    x, w, log = tensors()
    return x, w, log, [w.register_hook(lambda g, n=n: log.append(n)) for n in range(3)]


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_a_list(backend):
    def program(x, w, log, handles):
        for handle in handles[:2]:
            handle.remove()
        log.append(handles.pop())
        del handles[0]
        return (w * x).sum()

    check(program, make=in_a_list, graphs=1, backend=backend, tolerance=CLOSE)


@pytest.mark.break_everywhere
def test_a_backward_after_it():
    """The graph would run it before the hook is gone."""
    def program(x, w, log, handle):
        handle.remove()
        (w * x).sum().backward()
        return w.grad

    check(program, make=of_a_leaf)


# --- of modules: (net, x, log) ----------------------------------------------------------------------------------------
def registered(**hooks):
    def make():
        torch.manual_seed(5)
        net, log = Net(), []
        net.first.register_forward_hook(lambda module, args, result: result + 1)
        for name, hook in hooks.items():
            net.handle = getattr(net.first, f"register_{name}")(hook)
        log.append(net.handle)
        return net, torch.randn(3, 4), log
    return make


MODULES = {
    "forward": registered(forward_hook=doubled),
    "forward pre": registered(forward_pre_hook=lambda module, args: (args[0] * 3,)),
    "full backward": registered(full_backward_hook=lambda module, i, o: (None if i[0] is None else i[0] * 2,)),
    "full backward pre": registered(full_backward_pre_hook=lambda module, o: (o[0] * 2,)),
}


def goes_between(net, x, log):
    a = net(x)
    net.handle.remove()
    return a + net(x), log[0] is net.handle


def goes_before_anybody_looks(net, x, log):
    net.handle.remove()
    net.handle = None
    return net(x)


def goes_after_with(net, x, log):
    with net.handle:
        a = net(x)
    return a * net(x)


def goes_and_another_comes(net, x, log):
    a = net(x)
    log.pop().remove()
    net.handle = net.first.register_forward_hook(lambda module, args, result: result * 5)
    return a * net(x), net.handle.id


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("program", [goes_between, goes_before_anybody_looks, goes_after_with, goes_and_another_comes],
                         ids=lambda program: program.__name__)
def test_of_modules(program, kind, backend):
    check(program, make=MODULES[kind], graphs=1, backend=backend, tolerance=CLOSE)


def with_keywords_taken_away(net, x, log):
    a = net(x, scale=2.0)
    net.handle.remove()
    return a + net(x, scale=2.0)


def make_with_keywords():
    net, x, log = registered()()
    net.register_forward_hook(lambda module, args, result: result + 1)
    net.handle = net.register_forward_hook(lambda module, args, kwargs, result: result * kwargs["scale"], with_kwargs=True)
    net.register_forward_hook(lambda module, args, result: result - 1, prepend=True)
    return net, x, log


@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_with_keywords_and_without(backend):
    check(with_keywords_taken_away, make=make_with_keywords, graphs=1, backend=backend, tolerance=CLOSE)


# --- what is compiled anew --------------------------------------------------------------------------------------------
REGISTER = {
    "forward": lambda net, by: net.first.register_forward_hook(lambda module, args, result: result * by),
    "forward without a closure": lambda net, by: net.first.register_forward_hook(lambda module, args, result: result * 2),
    "forward pre": lambda net, by: net.register_forward_pre_hook(lambda module, args: (args[0] * by,)),
    "with keywords": lambda net, by: net.second.register_forward_hook(
        lambda module, args, kwargs, result: result * by, with_kwargs=True),
    "full backward": lambda net, by: net.first.register_full_backward_hook(
        lambda module, i, o: None if i[0] is None else (i[0] * by,)),
    "of all modules": lambda net, by: torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, result: result * by),
}


@pytest.mark.skipif(not COUNTING, reason="counts graphs")
@pytest.mark.parametrize("kind", REGISTER)
def test_a_hook_registered_anew_for_each_call_compiles_once(kind):
    net, x, _ = registered()()
    x.requires_grad_()
    counter = Counting()
    compiled = jit.compile(net, backend=counter)
    for _ in range(4):
        found = []
        for call in (net, compiled):
            handle = REGISTER[kind](net, 3.0)
            result = call(x)
            (gradient,) = torch.autograd.grad(result.sum(), x)
            found.append((result, gradient))
            handle.remove()
        torch.testing.assert_close(found[1], found[0])
    counter.expect(1)


@pytest.mark.skipif(not COUNTING, reason="counts graphs")
def test_taken_away_inside_anew_for_each_call_compiles_once():
    def program(net, x, handle):
        a = net(x)
        handle.remove()
        return a * net(x)

    net, x, _ = registered()()
    counter = Counting()
    compiled = jit.compile(program, backend=counter)
    for _ in range(4):
        found = [call(net, x, net.first.register_forward_hook(doubled)) for call in (program, compiled)]
        torch.testing.assert_close(found[1], found[0])
        assert len(net.first._forward_hooks) == 1
    counter.expect(1)


def test_which_hook_takes_keywords_may_change():
    """Two hooks, of which the first or the second takes keywords: the same code, other numbers."""
    def noted(module, args, *rest):
        return rest[-1] * len(rest)

    net, x, _ = registered()()
    compiled = jit.compile(net, backend="eager")
    for chosen in (0, 1, 0, 1, 1, 0):
        handles = [net.second.register_forward_hook(noted, with_kwargs=n == chosen) for n in range(2)]
        torch.testing.assert_close(compiled(x), net(x))
        handles[chosen].remove()
        torch.testing.assert_close(compiled(x), net(x))
        handles[1 - chosen].remove()


def test_a_handle_of_another_module():
    """Which of the dicts the handle is of is no matter of its own: the same frame, another module's hook."""
    def program(net, x, handle):
        handle.remove()
        return net(x)

    compiled = jit.compile(program, backend="eager")
    for name in ("first", "second", "first", "second"):
        found = []
        for call in (program, compiled):
            net, x, _ = registered()()
            handles = {"first": net.first.register_forward_hook(doubled), "second": net.second.register_forward_hook(doubled)}
            found.append([call(net, x, handles[name]), len(net.first._forward_hooks), len(net.second._forward_hooks)])
        torch.testing.assert_close(found[1], found[0])


def test_copied_by_pickle():
    """Numbers are equal there, and other objects."""
    net, x, _ = pickle.loads(pickle.dumps((Net(), torch.randn(3, 4), None)))
    handle = net.first.register_forward_hook(doubled, with_kwargs=False)
    net, handle = pickle.loads(pickle.dumps((net, handle)))

    def program(net, x, handle):
        a = net(x)
        handle.remove()
        return a * net(x), len(net.first._forward_hooks)

    expected, actual = [call(*pickle.loads(pickle.dumps((net, x, handle)))) for call in (program, jit.compile(program))]
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    assert actual[1] == 0


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("always")


def always_called():
    net, log = Fails(), []
    net.register_forward_hook(lambda module, args, result: log.append("before"), always_call=True)
    net.register_forward_hook(lambda module, args, result: log.append("never"))
    return net, torch.ones(3), log


@pytest.mark.break_everywhere
def test_always_called_beside_one_of_the_frames_own():
    def program(net, x, log):
        handle = net.register_forward_hook(lambda module, args, result: log.append("inside"), always_call=True)
        try:
            net(x)
        except ValueError as error:
            log.append(str(error))
        handle.remove()
        return x + 1, len(net._forward_hooks)

    check(program, make=always_called, graphs=1)
