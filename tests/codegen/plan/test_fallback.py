"""Where a plan can't run, what it was given as its fallback does."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from codegen import _C
from codegen.plan.build import build
from codegen.plan.check import Malformed
from codegen.plan.steps import Free, Plan
from tests.codegen.plan.plans import ONE, T, launch, new, vector


def add_one(x):
    return (torch.ops.aten.add.Tensor(x, 1),)


def add_one_of_list(given):
    (x,) = given
    given.clear()
    return add_one(x)


PLAN = Plan("one", (T(0),), tuple(ONE), (T(1),))
OF_LIST = Plan("one", (T(0),), (*ONE, Free(T(0))), (T(1),), takes_list=True)


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [a.plain if isinstance(a, Subclass) else a for a in args]
        return func(*args, **(kwargs or {}))


def subclass(x):
    made = torch.Tensor._make_wrapper_subclass(Subclass, x.shape)
    made.plain = x
    return made


def dispatch_mode(run, x):
    with Watching():
        return run(x)


WAYS = {
    "vmap": lambda run, x: torch.vmap(run)(torch.stack([x, x]))[1],
    "functionalize": lambda run, x: torch.func.functionalize(run)(x),
    "grad": lambda run, x: torch.func.grad(lambda x: (run(x) * x.detach()).sum())(x) + 1,
    "a dispatch mode": dispatch_mode,
    "a subclass": lambda run, x: run(subclass(x)),
    "a negated view": lambda run, x: run(torch._neg_view(-x)),
    "batched gradients": lambda run, x: torch._vmap_internals._vmap(run)(x[None])[0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("takes_list", [False, True])
def test_what_others_follow_is_inlined(way, takes_list):
    plan, fallback = (OF_LIST, add_one_of_list) if takes_list else (PLAN, add_one)
    built = build(plan, fallback)
    x = vector()
    before = _C.plan_counts()
    found = WAYS[way](lambda x: (built([x]) if takes_list else built(x))[0], x)
    after = _C.plan_counts()
    assert torch.equal(found, x + 1)
    assert after["fallbacks"] - before["fallbacks"] == after["invocations"] - before["invocations"] == 1


def test_below_autograd():
    x = vector().requires_grad_()
    with Watching():
        assert not build(PLAN, add_one)(x)[0].requires_grad


def test_fakes_stay_fakes():
    built = build(PLAN, add_one)
    with FakeTensorMode() as mode:
        x = torch.empty(6)
    assert built(x)[0].fake_mode is mode  # without the mode being active, too


def test_meta_tensors_have_nothing_to_read():
    assert build(PLAN, add_one)(torch.empty(6, device="meta"))[0].is_meta


def test_a_thread_that_nobody_follows_runs_the_plan():
    built = build(PLAN, add_one)
    before = _C.plan_counts()
    for grad in (True, False):
        with torch.set_grad_enabled(grad), torch.autocast("cpu"):
            assert torch.equal(built(vector())[0], vector() + 1)
    with torch.inference_mode():
        assert torch.equal(built(vector())[0], vector() + 1)
    after = _C.plan_counts()
    assert after["fallbacks"] == before["fallbacks"] and after["invocations"] == before["invocations"] + 3


def test_errors_of_the_fallback_are_errors_of_the_plan():
    def raises(x):
        raise KeyError("mine")
    built = build(PLAN, raises)
    with pytest.raises(KeyError, match="mine"), Watching():
        built(vector())
    assert torch.equal(built(vector())[0], vector() + 1)


def test_memory_that_is_not_aligned():
    plan = Plan("aligned", (T(0),), (new(T(1), [4]), launch("add_one", T(0), T(1), total=4)), (T(1),), aligned=(0,))
    built = build(plan, lambda x: (x - 1,))
    memory = torch.zeros(16)
    start = next(at for at in range(4) if memory[at:].data_ptr() % 16 == 0)
    for at in range(8):
        wanted = 1.0 if (at - start) % 4 == 0 else -1.0
        assert built(memory[at : at + 4])[0].tolist() == [wanted] * 4


@pytest.mark.parametrize("parameters, aligned, fallback", [
    ((T(0),), (1,), add_one), ((T(0),), (-1,), add_one), ((T(0),), (0,), None), ((T(0), None), (1,), add_one)])
def test_what_can_be_aligned(parameters, aligned, fallback):
    with pytest.raises((ValueError, OverflowError)):
        build(Plan("plan", parameters, (), (), aligned=aligned), fallback)


def test_a_plan_is_checked_with_a_fallback_too():
    with pytest.raises(Malformed):
        build(Plan("plan", (), (), (T(0),)), add_one)
