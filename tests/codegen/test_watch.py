"""What watchers of plans are told, and the ranges that plans and their steps have in traces."""

import time

import pytest
import torch

from codegen._C import watch
from codegen.plan.build import build
from codegen.plan.steps import Call, Plan, Python, Size
from tests.codegen.plan.plans import N, T, call

aten = torch.ops.aten
SLEEP = 0.02


@pytest.fixture
def told():
    found = []
    before = watch(lambda *each: found.append(each))
    yield found
    watch(before)


def test_a_watcher_learns_what_each_step_moved_and_took(told):
    steps = (
        Size(N(0), T(0), 0), call(aten.mul.Tensor, T(0), T(0), to=T(1)), call(aten.view.default, T(1), (2, 3), to=T(2)),
        Call(aten.split.Tensor, (T(1), 2), (), ((T(3), T(4), T(5)),)),
        call(aten.cat.default, [T(3), T(4)], to=T(6)),
    )  # fmt: skip

    def about():
        return ()

    run = build(Plan("plan", (T(0),), steps, (T(6),)), about=about)
    assert torch.equal(run(torch.ones(6))[0], torch.ones(4))
    ((who, times, moved, numbers),) = told
    assert who is about and len(times) == 5 and all(0 < each < 1e9 for each in times) and numbers == (6,)
    assert moved == (0, 3 * 24, 0, 0, 2 * 16)  # views move nothing


def test_what_an_inner_plan_takes_is_not_its_callers(told):
    def slow(x):
        time.sleep(SLEEP)
        return (x,)

    inner = build(Plan("inner", (T(0),), (Python(slow, (T(0),), (T(1),)),), (T(1),)))
    outer = build(Plan("outer", (T(0),), (Python(inner, (T(0),), (T(1),)), Python(slow, (T(1),), (T(2),))), (T(2),)))
    outer(torch.ones(2))
    (_, (within,), *_), (_, (around, after), *_) = told
    assert min(within, after) >= SLEEP * 1e9 > 2 * around


def test_what_a_watcher_raises_comes_out_and_a_failing_plan_tells_nothing(told):
    run = build(Plan("plan", (T(0),), (call(aten.view.default, T(0), (5, 5), to=T(1)),), (T(1),)))
    with pytest.raises(RuntimeError, match="invalid for input"):
        run(torch.ones(6))
    assert told == []
    watch(lambda *each: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run(torch.ones(25))


def ranges(function):
    with torch.profiler.profile() as recorded:
        function()
    return [event.name for event in recorded.events()]


def test_steps_have_ranges_where_somebody_records():
    asked = []

    def about():
        asked.append(1)
        return "the plan", None, "the second step", "the third step, which there is not"

    steps = (call(aten.sin.default, T(0), to=T(1)), call(aten.neg.default, T(1), to=T(2)))
    run = build(Plan("plan", (T(0),), steps, (T(2),)), about=about)
    run(torch.ones(2))
    assert not asked
    for _ in range(2):
        assert ranges(lambda: run(torch.ones(2))) == ["aten::ones", "aten::empty", "aten::fill_", "the plan", "aten::sin", "the second step", "aten::neg"]
    assert asked == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("about", [lambda: 1 // 0, lambda: "no tuple"], ids=["raises", "no tuple"])
def test_without_names_a_plan_runs_all_the_same(about):
    run = build(Plan("plan", (T(0),), (call(aten.sin.default, T(0), to=T(1)),), (T(1),)), about=about)
    x = torch.ones(2)
    assert ranges(lambda: run(x)) == ["aten::sin"]
