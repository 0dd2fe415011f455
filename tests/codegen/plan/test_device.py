"""Launches through the CUDA driver: what it is asked for, and what comes of it."""

import ctypes
import struct
import threading
from dataclasses import replace

import pytest
import torch

from codegen._C import watch
from codegen.plan.build import build
from codegen.plan.replay import Replayed
from codegen.plan.run import run
from codegen.plan.steps import (
    Allocate,
    Compute,
    DeviceFunction,
    DeviceLaunch,
    Plan,
    Reserve,
    Size,
    View,
)
from tests.codegen.plan import driver as fake
from tests.codegen.plan.plans import B, N, T, call, vector

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the real driver is loaded")
CPU, F = torch.device("cpu"), torch.float32
ADD_ONE = DeviceFunction("add_one", b"image", ("*", "*", "*", "i32", "fp32", "i64", "fp64", "*", "*"), threads=128, shared=512)


@pytest.fixture
def driver():
    found = fake.load()
    found.launches()
    return found


def add_one(x, y, n, by=1.0, start=0, factor=1.0, programs=2, function=ADD_ONE):
    return DeviceLaunch(function, programs, (x, y, None, n, by, start, factor, None, None), CPU)


def plan(*steps, results=(), parameters=(T(0),)):
    return Plan("plan", parameters, steps, results)


def runs(made):
    """The native plan, and what it means."""
    return build(made), lambda *args: run(made, *args)


ONE = plan(Allocate(T(1), (6,), (1,), F), add_one(T(0), T(1), 6), results=(T(1),))


@pytest.mark.parametrize("at", [0, 1])
def test_a_launch(driver, at):
    x = vector()
    (y,) = runs(ONE)[at](x)
    assert torch.equal(y, x + 1)
    (launch,) = driver.launches()
    assert (launch.name, launch.image, launch.grid, launch.threads, launch.shared) == ("add_one", b"image", (2, 1, 1), (128, 1, 1), 512)
    assert launch.stream is None and driver.number("inits").value >= 1
    assert launch.arguments == struct.pack("@QQQifqdQQ", x.data_ptr(), y.data_ptr(), 0, 6, 1.0, 0, 1.0, 0, 0)


@pytest.mark.parametrize("at", [0, 1])
def test_numbers_of_a_run(driver, at):
    made = plan(
        Size(N(0), T(0), 0), Compute(N(1), (N(0), 3, "+", 4, "//")), Compute(N(4), (N(0), 2, "-")),
        Allocate(T(1), (N(4),), (1,), F),
        add_one(T(0), T(1), N(4), by=N(2), start=2, factor=N(3, float), programs=N(1)),
        results=(T(1),), parameters=(T(0), N(2), N(3, float)),
    )  # fmt: skip
    for n in (6, 9, 3):
        assert torch.equal(runs(made)[at](vector(n), 5, 0.5)[0], (vector(n)[2:] + 5) / 2)
    assert [launch.grid[0] for launch in driver.launches()] == [2, 3, 1]


@pytest.mark.parametrize("at", [0, 1])
def test_blocks_and_views(driver, at):
    made = plan(
        Reserve(((B(0), 24), (B(1), 24)), CPU), add_one(T(0), B(0), 6), add_one(B(0), B(1), 6),
        View(T(2), B(1), (4,), (1,), 2, F), Allocate(T(1), (4,), (1,), F), add_one(T(2), T(1), 4, programs=1), results=(T(1),),
    )  # fmt: skip
    x = vector()
    assert torch.equal(runs(made)[at](x)[0], x[2:] + 3) and len(driver.launches()) == 3


def test_no_programs_no_launch(driver):
    made = plan(Size(N(0), T(0), 0), add_one(T(0), T(0), 0, programs=N(0)))
    build(made)(torch.ones(0))
    assert driver.launches() == []


class Recorder:
    """A graph of launches: each, with the addresses that it had, is done again by the driver's own kernel."""

    def __init__(self, driver):
        self.driver, self.sizes, self.replays = driver, [], 0

    def stream(self):
        return 0

    def record(self, function):
        self.driver.launches()
        with self.driver.working(WORK(lambda name, arguments: None)):  # while a stream is captured, nothing runs
            results = function()
        launches = self.driver.launches()
        self.sizes.append(len(results[0]))

        def replay():
            self.replays += 1
            for launch in launches:
                x, y, _, n, by, start, factor, *_ = struct.unpack("@QQQifqdQQ", launch.arguments)
                source, target = ((ctypes.c_float * (n + start)).from_address(at) for at in (x, y))
                target[:n] = [(each + by) * factor for each in source[start:]]
        return replay, results


WORK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)


@pytest.mark.parametrize("limit", [0, 2, 9])
def test_sizes_are_recorded_up_to_a_bound_and_launched_beyond(driver, limit):
    made = build(plan(
        Size(N(0), T(0), 0), Compute(N(1), (N(0), 3, "+", 4, "//")), Allocate(T(1), (N(0),), (1,), F),
        add_one(T(0), T(1), N(0), by=3.0, factor=2.0, programs=N(1)), results=(T(1),),
    ))  # fmt: skip
    recorder, sizes = Recorder(driver), (5, 7, 2, 9)
    run = Replayed(made, recorder, varies=True, limit=limit)
    launched = []
    for _ in range(4):
        driver.launches()
        for n in sizes:
            x = vector(n)
            assert torch.equal(run(x)[0], (x + 3) * 2)
        launched.append(len(driver.launches()))
    assert recorder.sizes[: len(run.kinds)] == list(sizes[:limit]) and len(run.kinds) == min(limit, len(sizes))
    assert recorder.replays == 3 * len(run.kinds)
    assert launched[0] == len(sizes) and launched[-1] == len(sizes) - len(run.kinds)


def test_an_image_is_loaded_once(driver):
    function = replace(ADD_ONE, image=b"loaded once")
    before = driver.number("loads").value
    for _ in range(3):
        made = build(plan(add_one(T(0), T(0), 6, function=function), add_one(T(0), T(0), 6, function=function)))
        made(vector())
    assert driver.number("loads").value - before <= 1


def test_memory_shared_by_many_threads_is_asked_for(driver):
    value = driver.number("attribute_value")
    for shared, wanted in ((48 << 10, 0), (100 << 10, 100 << 10)):
        value.value = 0
        build(plan(add_one(T(0), T(0), 6, function=replace(ADD_ONE, shared=shared))))(vector())
        assert value.value == wanted and driver.launches()[0].shared == shared
    assert driver.number("attribute").value == 8


def test_several_threads(driver):
    built, wrong = build(ONE), []

    def work(seed):
        for n in range(5):
            x = vector() * seed + n
            if not torch.equal(built(x)[0], x + 1):
                wrong.append((seed, n))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_refusals(driver):
    driver.launches()
    x = vector()
    cases = [
        (add_one(T(0), T(0), 6, function=replace(ADD_ONE, image=b"no cubin")), RuntimeError,
         "CUDA error in cuModuleLoadData: CUDA_ERROR_INVALID_VALUE, invalid argument"),
        (add_one(T(0), T(0), 6, function=replace(ADD_ONE, name="not_there")), RuntimeError, "CUDA error in cuModuleGetFunction: 500"),
        (add_one(T(0), T(0), 6, programs=1 << 31), RuntimeError, "2147483648 programs"),
    ]
    for step, kind, text in cases:
        for function in runs(plan(step)):
            with pytest.raises(kind, match=text):
                function(x)
    assert torch.equal(x, vector()) and driver.launches() == []
    failure = driver.number("failure")
    failure.value = 1
    try:
        with pytest.raises(RuntimeError, match="CUDA error in cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"):
            build(ONE)(x)
    finally:
        failure.value = 0
    assert torch.equal(build(ONE)(x)[0], x + 1)


def test_a_number_that_does_not_fit(driver):
    with pytest.raises(OverflowError, match="4294967296 does not fit into 32 bits"):
        build(plan(add_one(T(0), T(0), N(0)), parameters=(T(0), N(0))))(vector(), 1 << 32)
    with pytest.raises(OverflowError):
        build(plan(add_one(T(0), T(0), 1 << 32)))
    assert driver.launches() == []


@pytest.mark.parametrize("arguments, text", [
    ((T(0),) * 9, "no argument of type i32"), ((T(0), None, None, None, 1.0, 0, 1.0, None, None), "only a pointer may be null"),
    ((N(0), None, None, 0, 1.0, 0, 1.0, None, None), "no argument of type"), ((T(0),), "takes 9 arguments, got 1"),
    ((T(0), 5, None, 0, 1.0, 0, 1.0, None, None), "no argument of type"), ((T(0), None, None, N(1, float), 1.0, 0, 1.0, None, None), "type i32"),
    ((T(0), None, None, 1.5, 1.0, 0, 1.0, None, None), "float"),
])  # fmt: skip
def test_arguments_are_checked(arguments, text):
    with pytest.raises(TypeError, match=text):
        build(plan(DeviceLaunch(ADD_ONE, 1, arguments, CPU), parameters=(T(0), N(0), N(1, float))))


def test_types_are_checked():
    with pytest.raises(TypeError, match="i128"):
        build(plan(DeviceLaunch(DeviceFunction("f", b"", ("i128",), 32), 1, (0,), CPU)))
    with pytest.raises(ValueError, match="threads"):
        build(plan(DeviceLaunch(DeviceFunction("f", b"", (), 0), 1, (), CPU)))


@pytest.mark.parametrize("capturing", [0, 1])
def test_watched_launches_are_timed_by_the_device(driver, capturing):
    made = plan(
        Allocate(T(1), (6,), (1,), F), add_one(T(0), T(1), 6), call(torch.ops.aten.neg.default, T(1), to=T(2)),
        add_one(T(2), T(1), 6), results=(T(1),),
    )  # fmt: skip
    seen = []
    driver.number("capturing").value = capturing
    before = watch(lambda *told: seen.append(told))
    try:
        (y,) = build(made, about=lambda: ())(vector())
    finally:
        driver.number("capturing").value = 0
        assert watch(before) is not None
    assert torch.equal(y, -(vector() + 1) + 1)
    ((_, times, moved, numbers),) = seen
    assert times == (() if capturing else (0, 1_000_000, 0, 1_000_000))
    assert moved == (0, 0, 48, 0) and numbers == () and driver.number("events_alive").value == 0


def test_text():
    assert str(ONE).splitlines()[2] == "    add_one(t0, t1, null, 6, 1.0, 0, 1.0, null, null) for 2 programs"
    assert "image" not in str(ONE) and "image" not in repr(ONE)
    assert str(DeviceLaunch(ADD_ONE, 1, (), torch.device("cuda", 1))).endswith("1 programs on cuda:1")
    assert str(Reserve(((B(0), 8),), torch.device("cuda"))) == "reserve b0[8] on cuda"


def test_blocks_on_another_device():
    """On one that has no memory: what lies in a block there is a tensor of that device."""
    meta = torch.device("meta")
    made = plan(
        Reserve(((B(0), 24), (B(1), 100)), meta), View(T(1), B(1), (5, 5), (5, 1), 0, F, meta),
        call(torch.ops.aten.add.Tensor, T(1), T(0), to=T(2)), results=(T(2),),
    )  # fmt: skip
    for function in runs(made):
        (y,) = function(torch.ones(5, device=meta))
        assert y.is_meta and y.shape == (5, 5)
