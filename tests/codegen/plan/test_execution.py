"""A native plan among threads, under modes, when it fails, and what it holds and until when."""

import gc
import os
import re
import threading
import traceback
import warnings
import weakref
from dataclasses import replace

import pytest
import torch

from codegen import _C
from codegen.plan.build import build
from codegen.plan.run import run
from codegen.plan.steps import Allocate, Compute, Expect, Free, LaunchGroup, Plan, Python, Reserve, Size, View
from tests.codegen.plan.plans import CASES, B, N, T, aten, call, launch, new, vector

F = torch.float32


def without_addresses(value):
    """The same in each process that collects tests."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


def plan(steps, results=(), parameters=(T(0),), takes_list=False):
    return Plan("plan", tuple(parameters), tuple(steps), tuple(results), takes_list)


# --- errors -----------------------------------------------------------------------------------------------------------
def raises(*_):
    raise KeyError("mine")


def wrong_tuple(*_):
    return (1, 2)


BEFORE = [Reserve(((B(0), 64),)), new(T(5), [6]), launch("add_one", T(0), B(0), total=6)]
FAILING = [
    ("an operation", [call(aten.mm.default, T(0), T(0), to=T(1))]),
    ("an index", [call(aten.index_select.default, T(0), 0, torch.tensor([9]), to=T(1))]),
    ("not implemented", [call(aten.bitwise_and.Tensor, T(0), T(0), to=T(1))]),
    ("another dtype", [Expect(T(0), torch.float16, (6,))]),
    ("another size", [Size(N(0), T(0), 0), Compute(N(1), (N(0), 2, "*")), Expect(T(0), F, (N(1),))]),
    ("another rank", [Expect(T(0), F, (2, 3))]),
    ("Python", [Python(raises, (T(0),))]),
    ("division", [Compute(N(0), (4, 0, "//"))]),
    ("remainder", [Compute(N(0), (4, 0, "%"))]),
    ("a dimension", [Size(N(0), T(0), 3)]),
    ("a kernel", [Allocate(T(1), (1,), (1,), torch.int64), call(aten.fill_.Scalar, T(1), 7),
                  launch("gather", T(0), T(1), T(5), total=1, sizes=(6,))]),
    ("a kernel of several", [Allocate(T(1), (1,), (1,), torch.int64), call(aten.fill_.Scalar, T(1), 7), LaunchGroup((
        launch("gather", T(0), T(1), T(5), total=1, sizes=(6,)), launch("add_one", T(0), T(5), total=6)))]),
]  # fmt: skip


def error(function, *args):
    try:
        function(*args)
    except Exception as caught:
        return type(caught), str(caught)
    pytest.fail("nothing was raised")


@pytest.mark.parametrize("what, steps", FAILING, ids=[row[0] for row in FAILING])
def test_errors_are_eager_s(what, steps):
    failing = plan([*BEFORE, *steps], [T(5)])
    built, x = build(failing), vector()
    expected = error(run, failing, x)
    kept = weakref.ref(x)
    for _ in range(2):
        assert error(built, x) == expected
    assert build(CASES["blocks"].plan)(x)[0].tolist() == [2 * i + 3 + i for i in x.tolist()]  # nothing is left locked
    del x
    assert kept() is None


OVERFLOWS = [
    [Compute(N(0), (1 << 62, 2, "*"))], [Compute(N(0), (1 << 62, 1 << 62, "+"))], [Compute(N(0), (-(1 << 63), 1, "-"))],
    [Compute(N(0), (-(1 << 63), -1, "//"))], [Reserve(((B(0), (1 << 63) - 1),))],
]


@pytest.mark.parametrize("steps", OVERFLOWS, ids=str)
def test_numbers_that_are_too_large(steps):
    with pytest.raises(OverflowError, match="more than 64 bits"):
        build(plan(steps))(vector())


@pytest.mark.parametrize("steps, expected", [
    ([Python(wrong_tuple, (), (N(0),))], TypeError),
    ([Python(list, (), ())], TypeError),
    ([Python(lambda: (1.5,), (), (N(0),))], TypeError),
    ([Python(lambda: (None,), (), (T(1),))], TypeError),
    ([call(aten._local_scalar_dense.default, T(0), to=N(0))], TypeError),
    ([Reserve(((B(0), -8),))], RuntimeError),
    ([Reserve(((B(0), 1 << 60),))], MemoryError),
    ([Allocate(T(1), (1 << 60,), (1,), F)], RuntimeError),
    ([Allocate(T(1), (-1,), (1,), F)], RuntimeError),
    ([View(T(1), T(0), (1,), (1,), 0, torch.float64)], RuntimeError),
], ids=without_addresses)  # fmt: skip
def test_other_errors(steps, expected):
    x = torch.arange(2.0)[1:]
    for _ in range(2):
        with pytest.raises(expected):
            build(plan(steps))(x)
    assert x.tolist() == [1]


def test_memory_does_not_grow_with_errors():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    failing = [new(T(1), [1 << 18]), call(aten.zero_.default, T(1)), call(aten.mul.Tensor, T(1), 2, to=T(2)), Python(raises, ())]
    good = failing[:-1]
    both = build(plan(failing)), build(plan(good, [T(2), T(2)]))
    for rounds in (10, 100):
        before = resident()
        for _ in range(rounds):
            error(both[0], torch.ones(1))
            both[1](torch.ones(1))
    assert resident() - before < 60 << 20  # each run makes 2 MB


@pytest.mark.parametrize("name, args, text", [
    ("one launch", (), "takes 1 arguments, got 0"),
    ("one launch", (vector(), 1), "takes 1 arguments, got 2"),
    ("one launch", (3,), "argument 0 is a int, no tensor"),
    ("one launch", ([vector()],), "argument 0 is a list, no tensor"),
    ("scalars", (vector(), 1, 2, True), "argument 1 is a int, no float"),
    ("scalars", (vector(), 1.0, 2.0, True), "argument 2 is a float, no int"),
    ("scalars", (vector(), 1.0, 2, 1), "argument 3 is a int, no bool"),
    ("a list", ([vector()],), "takes 3 arguments, got 1"),
    ("a list", ([vector(), vector(), None],), "argument 2 is a NoneType, no int"),
])
def test_wrong_arguments(name, args, text):
    case = CASES[name]
    for function in (build(case.plan), lambda *args: run(case.plan, *args)):
        with pytest.raises(TypeError, match=text):
            function(*([list(args[0])] if case.plan.takes_list else args))


def test_how_it_is_called():
    built, takes_list = build(CASES["one launch"].plan), build(CASES["a list"].plan)
    for wrong in (lambda: built(x=1), lambda: takes_list(vector()), lambda: takes_list([], []), lambda: takes_list(())):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(OverflowError):
        build(CASES["scalars"].plan)(vector(), 1.0, 1 << 70, True)
    for native in [("tensor",), ("unknown", 1), ("tensor", -1), ("tensor", 1 << 40), ("list", ()), 5]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            _C.Plan(None, "p", (), (), (native,), False)
        with pytest.raises((TypeError, ValueError, OverflowError)):
            _C.Plan(None, "p", (), (native,), (), False)


# --- lifetimes --------------------------------------------------------------------------------------------------------
def test_arguments_of_a_list_die_when_they_are_freed():
    alive = []
    refs = []

    def look():
        alive.append([ref() is not None for ref in refs])
        return ()

    built = build(plan([Python(look, ()), Free(T(0)), Python(look, ()), Free(T(1)), Python(look, ())],
                            parameters=[T(0), T(1)], takes_list=True))
    given = [vector(), vector()]
    refs = [weakref.ref(x) for x in given]
    built(given)
    assert alive == [[True, True], [False, True], [False, False]] and given == []
    x, y = vector(), vector()
    refs[:] = [weakref.ref(x), weakref.ref(y)]
    alive.clear()
    built([x, y])
    assert alive == [[True, True]] * 3


def test_results_and_arguments_die():
    built = build(CASES["two tensors"].plan)
    x = vector()
    result, = built(x, x)
    refs = weakref.ref(x), weakref.ref(result)
    del x, result
    assert [ref() for ref in refs] == [None, None]


def test_cycles_are_collected():
    class Mark:
        def __call__(self, *_):
            return ()

    for make in (lambda mark: Python(mark, ()), lambda mark: Python(len, (mark,)), lambda mark: Python(len, ([T(0), mark],))):
        mark = Mark()
        mark.built = build(plan([make(mark)]))
        ref = weakref.ref(mark)
        del mark
        gc.collect()
        assert ref() is None
    mark = Mark()
    mark.built = build(plan([], [mark]))
    ref = weakref.ref(mark)
    del mark
    gc.collect()
    assert ref() is None


# --- memory that is kept ----------------------------------------------------------------------------------------------
def blocks_of(size):
    return build(plan([Reserve(((B(0), size),)), launch("add_one", T(0), B(0), total=6)]))


def test_the_workspace_is_kept_from_run_to_run():
    x = vector()
    blocks_of(1 << 20)(x)
    kept = _C.workspace_bytes()
    assert 1 << 20 <= kept <= 256 << 20
    blocks_of(1 << 10)(x)
    assert _C.workspace_bytes() == kept
    blocks_of(300 << 20)(x)
    assert _C.workspace_bytes() == 0
    found = []
    thread = threading.Thread(target=lambda: found.append(_C.workspace_bytes()) or blocks_of(100)(x) or found.append(_C.workspace_bytes()))
    thread.start()
    thread.join()
    assert found[0] == 0 and found[1] >= 100 and _C.workspace_bytes() == 0


def test_blocks_are_aligned():
    seen = []
    built = build(plan([
        Reserve(tuple((B(at), 65 * at) for at in range(5))),
        *(View(T(at), B(at), (65 * at,), (1,), 0, torch.uint8) for at in range(5)),
        Python(lambda *tensors: seen.extend(t.data_ptr() for t in tensors[1:]) or (), tuple(T(at) for at in range(5))),
    ]))  # fmt: skip
    built(vector())
    assert all(pointer % 64 == 0 for pointer in seen)
    assert [b - a for a, b in zip(seen, seen[1:])] == [128, 192, 256]


# --- threads ----------------------------------------------------------------------------------------------------------
def test_a_run_within_a_run():
    depth = 0

    def again(x):
        nonlocal depth
        depth += 1
        return (built(x * 2)[0] if depth < 4 else x,)

    built = build(plan([
        Reserve(((B(0), 24),)), launch("add_one", T(0), B(0), total=6), Python(again, (T(0),), (T(1),)), new(T(2), [6]),
        launch("add", B(0), T(1), T(2), total=6),
    ], [T(2)]))  # fmt: skip
    x = vector()
    result, = built(x)
    expected = x * 8
    for factor in (8, 4, 2, 1):
        expected = expected + (x * factor + 1)
    assert torch.equal(result, expected)


def test_many_threads_at_a_time():
    big = plan([
        Reserve(((B(0), 4 * 5000), (B(1), 4 * 5000))), launch("add_one", T(0), B(0), total=5000, grain=1000),
        call(aten.mul.Tensor, T(0), 2, to=T(1)), launch("add", B(0), T(1), B(1), total=5000, grain=1000), new(T(2), [5000]),
        launch("add_one", B(1), T(2), total=5000, grain=1000), call(aten.add.Tensor, T(2), 1, to=T(3)),
    ], [T(3)])  # fmt: skip
    built, wrong = build(big), []

    def work(number):
        x = torch.full((5000,), float(number))
        for _ in range(50):
            if not torch.equal(built(x)[0], x * 3 + 3):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("group", [False, True])
def test_others_run_during_large_launches(group):
    flag = torch.zeros(1, dtype=torch.int64)
    waiting = launch("wait", T(0), total=2, grain=1)
    thread = threading.Timer(0.02, lambda: flag.fill_(1))
    thread.start()
    build(plan([LaunchGroup((waiting, waiting)) if group else waiting]))(flag)
    thread.join()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


@pytest.mark.parametrize("total, grain", [(1000, 1000), (1001, 1000), (20_000, 1000), (10_001, 64), (7, 1), (2, 1), (1000, 999)])
def test_ranges_of_threads(threads, total, grain):
    built = build(plan([launch("ranges", T(0), T(1), total=total, grain=grain)], parameters=[T(0), T(1)]))
    begins, count = torch.empty(total, dtype=torch.int64), torch.zeros(total, dtype=torch.int64)
    built(begins, count)
    assert torch.equal(count, torch.ones_like(count))
    starts = begins.unique().tolist()
    assert len(starts) <= min(threads, -(-total // grain)) and starts[0] == 0
    assert total <= 2 * grain or len(starts) > 1
    assert grain < 64 or all(start % 64 == 0 for start in starts)


@pytest.mark.parametrize("totals, grain", [((5, 3, 0, 9), 100), ((1000, 0, 10, 5000, 1), 100), ((300,) * 50, 100), ((0, 0), 1)])
def test_ranges_of_several_launches(threads, totals, grain):
    pairs = [(T(2 * at), T(2 * at + 1)) for at in range(len(totals))]
    group = LaunchGroup(tuple(launch("ranges", *pair, total=n, grain=grain) for pair, n in zip(pairs, totals)))
    built = build(plan([group], parameters=[slot for pair in pairs for slot in pair]))
    counts = [torch.zeros(n, dtype=torch.int64) for n in totals]
    built(*(x for count in counts for x in (torch.empty_like(count), count)))
    assert all(torch.equal(count, torch.ones_like(count)) for count in counts)


def test_an_error_of_one_range(threads):
    at = torch.zeros(10_000, dtype=torch.int64)
    at[7777] = 5
    built = build(plan([new(T(2), [10_000]), launch("gather", T(0), T(1), T(2), total=10_000, sizes=(1,), grain=100)],
                            parameters=[T(0), T(1)]))
    with pytest.raises(IndexError, match="index out of range in self"):
        built(torch.ones(1), at)


def test_answers_of_kernels():
    """A native plan leads to the error by the number of its step."""
    divides = plan([new(T(2), [1]), launch("divide", T(0), T(1), T(2), total=1)], parameters=[T(0), T(1)])
    given = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
        run(divides, *given)
    with pytest.raises(RuntimeError, match="^ZeroDivisionError$") as caught:
        build(divides, None, tuple)(*given)
    *_, (frame, line) = traceback.walk_tb(caught.value.__traceback__)
    assert (frame.f_code.co_filename, line, frame.f_globals["about"]) == ("<plan>", 1, tuple)


# --- modes ------------------------------------------------------------------------------------------------------------
MATMUL = replace(CASES["two tensors"].plan, steps=(call(aten.mm.default, T(0), T(1), to=T(9)),))


def test_below_autograd_and_autocast():
    built = build(MATMUL)
    x = torch.ones(3, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result, = built(x, x)
    assert result.dtype == F and not result.requires_grad and torch.is_grad_enabled()
    detached, = build(CASES["view"].plan)(torch.arange(24.0, requires_grad=True))[:1]
    assert not detached.requires_grad and not detached._is_view()


def test_inference_mode():
    built = build(CASES["blocks"].plan)
    with torch.inference_mode():
        result, = built(vector())
    assert result.is_inference() and not built(vector())[0].is_inference()


def test_warnings_are_python_s():
    built = build(plan([call(aten.add.out, T(0), T(0), out=T(1))], parameters=[T(0), T(1)]))
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        built(vector(), torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            built(vector(), torch.ones(2))


@pytest.fixture(scope="module")
def failing_operation():
    with torch.library._scoped_library("plan_tests", "FRAGMENT") as library:
        library.define("fails(Tensor x) -> Tensor")
        library.impl("fails", raises, "CPU")
        yield torch.ops.plan_tests.fails.default


def test_errors_of_operations_in_python(failing_operation):
    built = build(plan([call(failing_operation, T(0), to=T(1))]))
    with pytest.raises(KeyError, match="mine"):
        built(vector())


def test_meta_tensors_and_devices():
    built = build(plan([Allocate(T(1), (2, 3), (1, 2), F, torch.device("meta")), call(aten.relu.default, T(1), to=T(2))], [T(1), T(2)]))
    for result in built(vector()):
        assert result.device.type == "meta" and result.shape == (2, 3) and result.stride() == (1, 2)
