"""CUDA graphs' bookkeeping, with a recorder that needs no device: it does what was recorded again, in the same memory."""

import ctypes
import inspect
import threading
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import jit
from codegen.aot.backend import ATEN, compile_graph
from codegen.aot.boxed import boxed
from codegen.aot.function import as_it_is, in_place
from codegen.plan.replay import MOST_RECORDINGS, Replayed, replayed, written
from jit import backends
from symbolic import random_states
from tests.codegen.kernels.schedules import traced

GARBAGE = -77.0


def unowned(tensor):
    """Its memory, which nothing keeps alive: a graph of launches has nothing but addresses."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
        return tensor
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    memory = (ctypes.c_char * (span * tensor.itemsize)).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())


class Recorder:
    """`kept`: tensors that a function writes into; recording must not do that."""

    def __init__(self, *kept):
        self.kept = kept
        self.here = "stream"
        self.recordings = 0
        self.replays = 0

    def stream(self):
        return self.here

    def record(self, function):
        self.recordings += 1
        args = inspect.getclosurevars(function).nonlocals["args"]
        args[:] = map(unowned, args)
        before = [tensor.clone() for tensor in self.kept]
        results = function()
        for tensor, old in zip(self.kept, before):
            tensor.copy_(old)

        def replay():
            self.replays += 1
            for result, new in zip(results, function()):
                if isinstance(result, torch.Tensor) and result.data_ptr() != new.data_ptr():
                    result.copy_(new)
        return replay, results


class Counted:
    """A function, how often it ran, and with which arguments' addresses."""

    def __init__(self, function):
        self.function = function
        self.runs = 0

    def __call__(self, *args):
        self.runs += 1
        return self.function(*args)


def of(function, **settings):
    counted, recorder = Counted(function), Recorder(*settings.pop("kept", ()))
    return Replayed(counted, recorder, **settings), counted, recorder


def two(x, w):
    return x * w, (x + w).sum()


W = torch.arange(4.0)


def test_the_first_call_is_not_recorded_later_ones_are_replayed():
    run, counted, recorder = of(two)
    for n in range(5):
        x = torch.full((3, 4), float(n))
        assert all(map(torch.equal, run(x, W), two(x, W)))
        assert (recorder.recordings, recorder.replays) == (int(n > 0), n)


def test_what_is_at_one_place_is_not_copied():
    run, _, recorder = of(two)
    x = torch.zeros(3, 4)
    for n in range(4):
        x.fill_(n)
        assert torch.equal(run(x, W)[0], x * W)
    (kind,) = run.kinds.values()
    assert kind.recording.copied == () and recorder.recordings == 1


def test_what_moves_is_copied_from_then_on():
    run, _, recorder = of(two)
    held = [torch.full((3, 4), float(n)) for n in range(6)]
    for n in (0, 0, 0, 1, 2, 3, 1):
        assert torch.equal(run(held[n], W)[0], held[n] * W)
    (kind,) = run.kinds.values()
    assert [each.at for each in kind.recording.copied] == [0] and recorder.recordings == 2


def test_results_that_are_held_stay_as_they_are():
    run, _, recorder = of(two)
    found = []
    for n in range(8):
        x = torch.full((3, 4), float(n))
        found.append((run(x, W), two(x, W)))
        for got, wanted in found:
            assert all(map(torch.equal, got, wanted))
    assert recorder.replays >= 6 and recorder.recordings == 2


def test_one_result_that_is_held_is_copied_the_other_is_not():
    run, _, recorder = of(two)
    kept = []
    for n in range(6):
        kept.append(run(torch.full((3, 4), float(n)), W)[1])
    assert [float(total) for total in kept] == [float((n + W).sum() * 3) for n in range(6)]
    (kind,) = run.kinds.values()
    assert kind.kept == {1} and [result.is_copied for result in kind.recording.results] == [False, True]


def test_views_of_results_hold_them():
    run, _, _ = of(two)
    views = []
    for n in range(5):
        views.append(run(torch.full((3, 4), float(n)), W)[0][1:, 2])
        assert [view.tolist() for view in views] == [[2.0 * k] * 2 for k in range(n + 1)]


def test_writing_into_a_result_harms_nobody():
    run, _, _ = of(two)
    for n in range(5):
        x = torch.full((3, 4), float(n))
        result = run(x, W)[0]
        assert torch.equal(result, x * W)
        result.fill_(GARBAGE)
        del result


def test_kinds():
    run, _, recorder = of(lambda x, n: (x * n,), varies=True)
    all_of_them = []  # stay, so that each lies elsewhere
    for _ in range(3):
        for shape in ((2,), (3, 4), (4, 3)):
            for n in (2, 3.5, True):
                x = torch.randn(shape)
                all_of_them.append(x)
                assert torch.equal(run(x, n)[0], x * n)
    assert len(run.kinds) == recorder.recordings == 9 and recorder.replays == 18
    x = torch.randn(3, 4).t()
    for _ in range(3):
        assert run(x, 2)[0].stride() == (1, 4)
    recorder.here = "another"
    run(x, 2)
    assert len(run.kinds) == 11
    recorder.here = None
    replays = recorder.replays
    assert torch.equal(run(x, 2)[0], x * 2) and recorder.replays == replays


def test_too_many_kinds_run_as_they_are():
    run, counted, recorder = of(lambda x, n: (x * n,), limit=3)
    x = torch.ones(2)
    for _ in range(3):
        for n in range(6):
            assert run(x, n)[0].tolist() == [n, n]
    assert len(run.kinds) == recorder.recordings == 3 and recorder.replays == 6
    assert counted.runs == 6 + 2 * 3 + recorder.recordings + recorder.replays


def test_results_that_are_arguments():
    run, _, recorder = of(lambda x, w: (x, w.t(), x[1:], 5, None, w * 2))
    w = torch.randn(2, 3)
    for n in range(5):
        x = torch.randn(3)
        same, turned, part, five, none, _ = run(x, w)
        assert same is x and (five, none) == (5, None)
        assert torch.equal(turned, w.t()) and turned.data_ptr() == w.data_ptr()
        assert torch.equal(part, x[1:]) and part.data_ptr() == x[1:].data_ptr()
    assert recorder.replays == 4


def test_written_arguments_are_written_where_they_are():
    x, y = torch.zeros(3), torch.zeros(3)

    def add(x, by):
        x.add_(by)
        return (x * 2,)
    run, _, recorder = of(add, writes=frozenset({0}), kept=(x, y))
    by = torch.ones(3)
    for n in range(4):
        assert run(x, by)[0].tolist() == [2.0 * (n + 1)] * 3 and x.tolist() == [n + 1.0] * 3
    assert recorder.replays == 3
    for n in range(4):  # at another place: it is not copied, so it can't be replayed
        assert run(y, by)[0].tolist() == [2.0 * (n + 1)] * 3 and y.tolist() == [n + 1.0] * 3
    assert recorder.replays == 3 and x.tolist() == [4.0] * 3


def test_a_list_is_emptied_and_its_items_die():
    run, _, recorder = of(lambda given: (given.pop() + given.pop(),), takes_list=True)
    for n in range(4):
        given = [torch.full((2,), float(n)), torch.ones(2)]
        assert run(given)[0].tolist() == [n + 1.0] * 2 and given == []
    assert recorder.replays == 3


def test_what_cannot_be_recorded_runs_as_it_is():
    def raising(x):
        if recording:
            raise RuntimeError("not while a stream is captured")
        return (x + 1,)
    recording = False
    run, counted, recorder = of(raising)
    record = recorder.record

    def watched(function):
        nonlocal recording
        recording = True
        try:
            return record(function)
        finally:
            recording = False
    recorder.record = watched
    for n in range(4):
        assert run(torch.full((2,), float(n)))[0].tolist() == [n + 1.0] * 2
    assert recorder.recordings == 1 and recorder.replays == 0


def test_results_of_another_dtype_than_the_argument_they_lie_in():
    run, _, recorder = of(lambda x: (x.view(torch.int32), x + 1))
    for _ in range(4):
        x = torch.randn(4)
        assert all(map(torch.equal, run(x), (x.view(torch.int32), x + 1)))
    assert recorder.replays == 0 and recorder.recordings == 1


@pytest.mark.parametrize("keep", [False, True])
def test_results_that_are_one_or_of_one_memory(keep):
    def function(x):
        y = x + 1
        return y, y[1:], y
    run, _, recorder = of(function)
    kept = []
    for n in range(5):
        x = torch.full((4,), float(n))
        found = run(x)
        assert all(map(torch.equal, found, function(x))) and found[0] is found[2]
        assert found[1].data_ptr() == found[0][1:].data_ptr()
        found[0].fill_(-n)
        assert found[1].tolist() == [-n] * 3
        if keep:
            kept.append(found)
        assert all(one.tolist() == [-at] * 4 for at, (one, _, _) in enumerate(kept))
        del found
    assert recorder.replays == (1 if keep else 4)


@pytest.mark.parametrize("keep", [False, True])
def test_a_result_that_is_given_twice(keep):
    run, _, recorder = of(lambda x: (x + 1,) * 2)
    kept = []
    for n in range(6):
        found = run(torch.full((4,), float(n)))
        assert found[0] is found[1]
        if keep:
            kept.append(found[0])
        assert found[0].tolist() == [n + 1] * 4 and all(one.tolist() == [at + 1] * 4 for at, one in enumerate(kept))
        del found
    assert recorder.replays == 5


def test_it_is_not_recorded_for_ever():
    run, _, recorder = of(lambda *args: tuple(arg + 1 for arg in args))
    args = [torch.randn(2) for _ in range(2 * MOST_RECORDINGS)]
    other = [torch.randn(2) for _ in args]
    for n in range(len(args)):
        given = other[:n] + args[n:]
        assert all(map(torch.equal, run(*given), [arg + 1 for arg in given]))
    assert recorder.recordings <= MOST_RECORDINGS


def test_under_transforms_nothing_is_replayed():
    run, _, recorder = of(two)
    x = torch.randn(3, 4)
    run(x, W), run(x, W)
    before = recorder.replays
    assert torch.equal(torch.vmap(lambda x: run(x, W)[0])(x), x * W) and recorder.replays == before


def test_several_threads():
    run, _, _ = of(two)
    wrong = []

    def work(seed):
        for n in range(20):
            x = torch.full((3, 4), float(seed * 100 + n))
            got = run(x, W)
            if not all(map(torch.equal, got, two(x, W))):
                wrong.append((seed, n))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_which_inputs_a_graph_writes():
    aten = torch.ops.aten

    def function(x, y, z, w):
        aten.copy_.default(aten.view.default(y, [4]), x)
        aten._foreach_add_.Scalar([w], 1)
        return x + z
    graph = traced(function, torch.ones(4), torch.ones(2, 2), torch.ones(4), torch.ones(3))
    assert written(graph) == {1, 3}


def test_graphs_on_a_cpu_are_left_alone():
    graph = traced(lambda x: x + 1, torch.ones(3))
    for takes_list, compiler in ((False, as_it_is), (True, boxed)):
        assert not isinstance(replayed(compiler, 4, takes_list)(graph, []), Replayed)


def test_the_bound_is_a_setting(monkeypatch):
    with FakeTensorMode():
        graph = make_fx(lambda x: x + 1)(torch.empty(3, device="cuda"))
    made = replayed(as_it_is, 5)(graph, [])
    assert isinstance(made, Replayed) and made.limit == 5

    seen = []
    monkeypatch.setattr(backends, "replayed", lambda compiler, limit, takes_list=False: seen.append(limit) or compiler)
    x = torch.randn(3)
    assert torch.equal(jit.compile(lambda x: x + 1, mode="reduce-overhead", options={"cuda_graph_limit": 7})(x), x + 1)
    assert seen == [7, 7]


# --- whole programs ---------------------------------------------------------------------------------------------------
class Everywhere:
    """A backend whose graphs are all recorded."""

    def __init__(self):
        self.made = []

    def compiler(self, inner, takes_list=False):
        def compiled(graph, examples):
            run = inner(graph, examples)
            values = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
            varies = any(isinstance(n, torch.SymInt) for v in values if isinstance(v, torch.Tensor) for n in v.shape)
            self.made.append(Replayed(run, Undoing(), takes_list, written(graph), varies))
            return self.made[-1]
        return compiled

    def __call__(self, gm, examples):
        settings = replace(ATEN, forward=self.compiler(as_it_is), backward=self.compiler(boxed, True),
                           inference=self.compiler(in_place))
        return compile_graph(gm, examples, settings)

    @property
    def replays(self):
        return sum(each.recorder.replays for each in self.made)


class Undoing(Recorder):
    """Recording writes into nothing: what operations write is put back."""

    def record(self, function):
        with Writes() as writes:
            recorded = super().record(function)
        for tensor, old in reversed(writes.before):
            tensor.copy_(old)
        return recorded


class Writes(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.before = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for argument, value in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.before += [(t, t.clone()) for t in (value if isinstance(value, (list, tuple)) else [value])]
        return func(*args, **(kwargs or {}))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))


def trained(model, call, steps=6, keep=False, set_to_none=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(steps):
        torch.manual_seed(step)
        result = call(torch.randn(5, 4))
        loss = result.pow(2).mean()
        loss.backward()
        optimizer.step()
        if step % 2:
            optimizer.zero_grad(set_to_none=set_to_none)
        seen.append(result if keep else result.tolist())
    return [r.tolist() for r in seen] if keep else seen, [p.tolist() for p in [*model.parameters(), *model.buffers()]]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("set_to_none", [False, True])
def test_training(keep, set_to_none):
    backend = Everywhere()
    model = net()
    wanted = trained(net_ := net(), net_, keep=keep, set_to_none=set_to_none)
    found = trained(model, jit.compile(model, backend=backend), keep=keep, set_to_none=set_to_none)
    assert found == wanted and backend.replays >= 4


def test_what_a_forward_saved_is_read_where_it_is():
    """It lies elsewhere from the call on that records the forward, and then stays there."""
    backend = Everywhere()
    w, x = torch.randn(4, requires_grad=True), torch.randn(3, 4)
    f = jit.compile(lambda x, w: (x * w).sin().exp(), backend=backend, options={"break_everywhere": False})
    for _ in range(5):
        (found,) = torch.autograd.grad(f(x, w), w, x)
        torch.testing.assert_close(found, torch.autograd.grad((x * w).sin().exp(), w, x)[0])
        del found
    forward, backward = sorted(backend.made, key=lambda each: each.takes_list)
    for each in (forward, backward):
        (kind,) = each.kinds.values()
        assert kind.recording.copied == () and kind.recordings == 1 and each.recorder.replays == 4


def test_two_forwards_before_their_backwards():
    backend = Everywhere()
    w = torch.randn(4, requires_grad=True)
    f = jit.compile(lambda x, w: (x * w).sin().exp(), backend=backend)
    for _ in range(4):
        xs = [torch.randn(3, 4) for _ in range(3)]
        ys = [f(x, w) for x in xs]
        found = torch.autograd.grad(sum(y.sum() for y in ys), w)[0]
        wanted = torch.autograd.grad(sum((x * w).sin().exp().sum() for x in xs), w)[0]
        torch.testing.assert_close(found, wanted)
    assert backend.replays >= 4


def test_retained_graphs_and_later_forwards():
    backend = Everywhere()
    w = torch.randn(4, requires_grad=True)
    f = jit.compile(lambda x, w: (x * w).sin().exp(), backend=backend)
    kept = []
    for n in range(5):
        x = torch.full((3, 4), float(n))
        kept.append((f(x, w), (x * w).sin().exp()))
        for y, z in kept:
            grads = [torch.autograd.grad(r.sum(), w, retain_graph=True)[0] for r in (y, z)]
            torch.testing.assert_close(*grads)
    assert backend.replays >= 4


def test_sizes_that_vary():
    backend = Everywhere()
    f = jit.compile(lambda x: (x * 2).sum(0), backend=backend, dynamic=True)
    for _ in range(3):
        for n in (3, 5, 8):
            x = torch.randn(n, 4)
            assert torch.equal(f(x), (x * 2).sum(0))
    assert backend.replays == 6


# --- mode= ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_on_a_cpu_each_mode_is_the_default(mode):
    f = jit.compile(lambda x: x.abs() + 1, mode=mode, options={"break_everywhere": False})
    x = torch.randn(3)
    for _ in range(3):
        assert torch.equal(f(x), x.abs() + 1)
    assert len(f.debug_state().plans) == 1


def test_unknown_modes():
    with pytest.raises(ValueError, match="unknown mode 'fastest'; there are default, reduce-overhead, max-autotune"):
        jit.compile(lambda x: x, mode="fastest")


@pytest.mark.parametrize("function, is_replayed", [
    (lambda x: (x * 2, torch.rand_like(x)), True),
    (lambda x: (x * 2, torch.ones(3)), False),  # a recording would give the one that it was made with
    (lambda x: (x * torch.rand(()),), False),
    (lambda x: (random_states.seed_all(3), x * 2)[1:], False),
], ids=["all on the device", "given elsewhere", "drawn elsewhere", "seeded"])
def test_what_is_not_on_the_device_is_not_recorded(function, is_replayed):
    with FakeTensorMode():
        graph = make_fx(function)(torch.empty(3, device="cuda"))
    assert isinstance(replayed(lambda graph, _: graph, 4)(graph, ()), Replayed) is is_replayed
