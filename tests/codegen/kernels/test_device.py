"""Graphs compiled for a CUDA device, launched through a driver without one: it does each kernel's work in C."""

import ctypes
import struct

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from codegen.artifacts.store import Store
from codegen.kernels import compile as compiling
from codegen.kernels import device as dv
from codegen.kernels import index as ix
from codegen.kernels.c import print_c
from codegen.kernels.compile import Kernels
from codegen.kernels.device import device_code
from codegen.kernels.horizontal import together
from codegen.kernels.ir import Kernel
from codegen.kernels.lowering.lower import lower
from codegen.kernels.measure import Trials
from codegen.kernels.planning import plan
from codegen.kernels.schedule import schedule
from codegen.kernels.toolchain import compile_c
from codegen.kernels.triton_launch import FORMATS
from codegen.kernels.triton_shape import reports_errors, size_of
from codegen.kernels.triton_tune import Device
from codegen.plan.build import build
from codegen.plan.steps import Allocate, Call, DeviceLaunch, Reserve
from tests.codegen.kernels.schedules import traced
from tests.codegen.plan import driver as fake

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the real driver is loaded")
H100 = Device("H100", 90)
WORK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


class Number(ctypes.Union):
    _fields_ = [("f", ctypes.c_double), ("i", ctypes.c_int64)]


class Host:
    """Kernels in C, called with the arguments of a launch on a device."""

    def __init__(self, kernels, functions, store):
        self.kernels = {kernel.name: kernel for kernel in kernels}
        self.functions = functions
        self.library = ctypes.CDLL(str(compile_c(print_c(kernels), store=store)))
        self.seen = []
        self.callback = WORK(self.work)  # held as long as it may be called

    def work(self, name, arguments):
        plain, _, copies = name.decode().partition("_x")
        kernel: Kernel = self.kernels[plain]
        types = self.functions[name.decode()].function.arguments
        layout = "@" + "".join(FORMATS[kind] for kind in types)
        values = struct.unpack(layout, ctypes.string_at(arguments, struct.calcsize(layout)))
        self.seen.append(name.decode())
        count = len(kernel.buffers) * int(copies or 1)
        buffers, values = values[:count], list(values[count:])
        if reports_errors(kernel):
            assert values.pop(0) == 0  # null
        sizes, scalars = values[: len(kernel.sizes)], values[len(kernel.sizes) : -2]
        assert values[-2:] == [0, 0] and len(scalars) == len(kernel.scalars)
        union = [Number(f=v) if isinstance(v, float) else Number(i=v) for v in scalars]
        total = ix.evaluate(size_of(kernel.axes), dict(zip(kernel.sizes, sizes)).__getitem__)
        for start in range(0, count, len(kernel.buffers)):
            own = buffers[start : start + len(kernel.buffers)]
            answer = getattr(self.library, kernel.name)(
                (ctypes.c_void_p * len(own))(*own), (ctypes.c_int64 * max(1, len(sizes)))(*sizes),
                (Number * max(1, len(union)))(*union), ctypes.c_int64(0), ctypes.c_int64(total),
            )  # fmt: skip
            assert answer == 0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"), 1 << 28)


def made(function, args, store, dynamic=False):
    """The graph of `function` as a plan for a device, and who does its kernels' work."""
    graph = traced(function, *args, dynamic=dynamic)
    what = together(schedule(lower(graph)))
    placeholders = graph.graph.find_nodes(op="placeholder")
    code = device_code(what, placeholders, H100, store)
    planned = plan(what, [node.name for node in placeholders], code.functions, "graph", aligned=code.aligned)
    return planned, Host(what.kernels, code.functions, store), lambda *args: tuple(graph(*args))


def softmax(x):
    return torch.softmax(x, 1), x.sum(0)


def gather(x, at):
    return torch.nn.functional.embedding(at, x).sin() * 2


def norm(x, w):
    return torch.nn.functional.layer_norm(x, (x.shape[1],), w) @ x.t()


def several(x, y):
    return (x * 2 + y).relu(), (x @ y.t()).exp().sum(1), (x - y)[:, 1:]


X = torch.linspace(-2, 2, 24).reshape(4, 6)
CASES = {
    "pointwise": (lambda x: (x * 2 + 1).sin(), lambda: (X,)),
    "softmax and sums": (softmax, lambda: (X,)),
    "gather": (gather, lambda: (X, torch.tensor([3, 0, 0, 1]))),
    "norm": (norm, lambda: (X, torch.linspace(0, 1, 6))),
    "several": (several, lambda: (X, X.flip(0).contiguous())),
    "several of one": (lambda x, y: (x.cumsum(0), y.cumsum(0), x.exp() @ y.t()), lambda: (X, X.flip(0).contiguous())),
    "half": (lambda x: (x.half() * 3).sum(1), lambda: (X,)),
    "double": (lambda x: x.double().exp(), lambda: (X,)),
    "integers": (lambda x: (x * 10).to(torch.int64) // 3, lambda: (X,)),
}


def run(planned, host, *args, fallback=None):
    driver = fake.load()
    driver.launches()
    with driver.working(host.callback):
        return build(planned, fallback)(*args)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_as_eager(name, dynamic, store):
    function, make = CASES[name]
    args = make()
    planned, host, eager = made(function, args, store, dynamic)
    for _ in range(2):
        found = run(planned, host, *args, fallback=eager)
        torch.testing.assert_close(found, eager(*args))
        assert [t.stride() for t in found] == [t.stride() for t in eager(*args)]
    launched = [step.function.name for step in planned.steps if isinstance(step, DeviceLaunch)]
    assert host.seen == 2 * launched and launched
    assert all(launch.image[:4] == b"\x7fELF" and launch.name in launched for launch in fake.load().launches())


def test_parameters_that_are_written(store):
    """Two of a shape in one launch, each into its own memory."""

    def step(p, q, g, h):
        return p.copy_(p - g * 0.5), q.copy_(q - h * 0.5)

    def given():
        return [X.clone(), X + 3, X.sin(), X.cos()]

    planned, host, eager = made(step, given(), store)
    ours, theirs = given(), given()
    torch.testing.assert_close(run(planned, host, *ours, fallback=eager), eager(*theirs))
    torch.testing.assert_close(ours, theirs)
    assert any(name.endswith("_x2") for name in host.seen)


def test_sizes_that_vary(store):
    planned, host, eager = made(softmax, (X,), store, dynamic=True)
    for shape in ((4, 6), (7, 3), (2, 40)):
        x = torch.randn(shape)
        torch.testing.assert_close(run(planned, host, x, fallback=eager), eager(x))


def test_inputs_that_are_not_aligned_run_by_the_graph(store):
    planned, host, eager = made(lambda x: (x * 2 + 1).sin(), (X,), store)
    assert planned.aligned == (0,)
    memory = torch.randn(64)
    for offset in (0, 1, 4):
        x = memory[offset : offset + 24].view(4, 6)
        torch.testing.assert_close(run(planned, host, x, fallback=eager), eager(x))
    assert len(host.seen) == (2 if memory.data_ptr() % 16 == 0 else 1)


def test_inputs_that_were_not_aligned_need_not_be(store):
    planned, host, eager = made(lambda x: (x * 2 + 1).sin(), (torch.randn(25)[1:].view(4, 6),), store)
    x = torch.randn(26)[1:25].view(4, 6)
    assert planned.aligned == ()
    torch.testing.assert_close(run(planned, host, x), eager(x))
    assert host.seen


def test_without_triton(store, monkeypatch):
    def tune(*args, **kwargs):
        raise ImportError("no module named triton")
    monkeypatch.setattr(dv, "made", tune)
    with pytest.raises(dv.Unsupported, match="need Triton: no module"):
        made(lambda x: x + 1, (X,), store)


def test_a_graph_of_cuda_tensors(store, monkeypatch):
    """What is compiled for a device that is not there; nobody runs it."""
    monkeypatch.setattr(compiling, "_described", lambda device, may_round=False: H100)
    with FakeTensorMode():
        x = torch.empty(4, 6, device="cuda:0")
        graph = make_fx(lambda x: softmax(x * 2), tracing_mode="fake")(x)
    built = Kernels(store)(graph, [])
    steps = built.source.steps
    cuda = torch.device("cuda:0")
    assert built.source.aligned == (0,) and graph.meta["plan"] is built.source
    assert {step.device for step in steps if isinstance(step, (Allocate, DeviceLaunch, Reserve))} == {cuda}
    assert sum(isinstance(step, DeviceLaunch) for step in steps) >= 2 and "on cuda:0" in str(built)
    assert "@triton.jit" in graph.meta["texts"]()["kernels.py"]


def test_tensors_on_several_devices_are_aten_s(store):
    with FakeTensorMode():
        graph = make_fx(lambda x, y: x + y, tracing_mode="fake")(torch.empty(4, device="cuda:0"), torch.empty(()))
    Kernels(store)(graph, [])
    assert "plan" not in graph.meta


def test_products_that_win_are_launched(store, monkeypatch):
    """Where times decide; with what is computed of them in one."""
    monkeypatch.setattr(compiling, "_described", lambda device, may_round=False: H100)
    monkeypatch.setattr(Trials, "wins", lambda trials, node: True)
    monkeypatch.setattr(Trials, "of", lambda trials, kernel, sizes: lambda printed, compiled: -float(printed.config.warps))
    with FakeTensorMode():
        x, w = torch.empty(64, 32, device="cuda:0"), torch.empty(32, 48, device="cuda:0")
        graph = make_fx(lambda x, w: (torch.relu(x @ w),), tracing_mode="fake")(x, w)
    for measures, calls in ((False, 1), (True, 0)):
        steps = Kernels(store, measures=measures)(graph, []).source.steps
        assert [sum(isinstance(step, kind) for step in steps) for kind in (Call, DeviceLaunch)] == [calls, 1]
    assert "tl.dot" in graph.meta["texts"]()["kernels.py"]
