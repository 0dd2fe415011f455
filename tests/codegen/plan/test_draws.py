"""Random numbers in native plans: those of eager code, bit for bit, and its generator's state afterwards."""

import threading

import pytest
import torch

from codegen.aot.functional import functional
from codegen.plan.build import build
from codegen.plan.run import run
from codegen.plan.steps import Plan, TensorSlot
from tests.codegen.plan.plans import aten, call

F, D, B, H = torch.float32, torch.float64, torch.bfloat16, torch.float16
T = TensorSlot
bernoulli_ = functional(aten.bernoulli_.float, ("self",))
uniform_ = functional(aten.uniform_.default, ("self",))


def plan(*calls):
    steps = [call(op, *args, to=T(at), **kwargs) for at, (op, args, kwargs) in enumerate(calls, 1)]
    return Plan("draws", (T(0),), tuple(steps), tuple(step.results[0] for step in steps))


def drawn(function, like, seed=3):
    """The bits of what is drawn, how they lie, and the state afterwards."""
    torch.manual_seed(seed)
    made = function(like)
    bits = [each.flatten().contiguous().view(torch.uint8).tolist() for each in made]
    return bits, [(each.dtype, each.shape, each.stride()) for each in made], torch.get_rng_state().tolist()


def same(steps, like):
    assert drawn(build(steps), like) == drawn(lambda x: run(steps, x), like)


def of(op, *args, **kwargs):
    return op, args, kwargs


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 311, 312, 313, 623, 625, 1023, 1024, 1025, 3001])
def test_sizes(size):
    """One word here and two there: pairs begin at the last word of a state, too."""
    same(plan(of(aten.rand.default, [size]), of(aten.bernoulli.p, T(0), 0.3), of(aten.rand.default, [3], dtype=D), of(aten.uniform.default, T(0)),
              of(aten.bernoulli.p, T(1), 0.9)), torch.empty(size))  # fmt: skip


@pytest.mark.parametrize("probability", [0.0, 1.0, 0.5, 0.1, 1e-17, 2**-53, 1 - 2**-53, 0.9, 1 / 3])
def test_probabilities(probability):
    same(plan(of(aten.bernoulli.p, T(0), probability)), torch.empty(700))


@pytest.mark.parametrize("dtype", [F, D, B, H, torch.bool, torch.uint8, torch.int64])
def test_dtypes(dtype):
    calls = [of(aten.bernoulli.p, T(0), 0.4), of(bernoulli_, T(0), 0.4)]
    if dtype.is_floating_point:
        calls += [of(aten.uniform.default, T(0)), of(uniform_, T(0), 0.0, 1.0), of(aten.rand.default, [5], dtype=dtype), of(aten.rand_like.default, T(0))]
    same(plan(*calls), torch.zeros(5, 130, dtype=dtype))


LAYOUTS = {
    "transposed": torch.zeros(9, 70).T,
    "channels_last": torch.zeros(2, 3, 8, 8).to(memory_format=torch.channels_last),
    "with gaps": torch.zeros(9, 70)[:, ::2],
    "expanded": torch.zeros(1, 70).expand(9, 70),
    "a number": torch.zeros(()),
}


@pytest.mark.parametrize("like", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(like):
    same(plan(of(aten.bernoulli.p, T(0), 0.4), of(aten.rand_like.default, T(0), memory_format=torch.preserve_format),
              of(aten.rand_like.default, T(0), dtype=D, memory_format=torch.contiguous_format)), like)  # fmt: skip
    if 0 not in like.stride():
        same(plan(of(bernoulli_, T(0), 0.4), of(uniform_, T(0), 0.0, 1.0)), like)


def test_between_other_draws():
    """A normal number is kept for the next one to ask; other bounds than 0 and 1 are ATen's."""
    same(plan(of(aten.randn.default, [3]), of(aten.bernoulli.p, T(0), 0.4), of(aten.randn.default, [1]), of(aten.rand.default, [7]),
              of(aten.uniform.default, T(0), -1.0, 3.0), of(aten.randn.default, [40]), of(aten.randint.low, 0, 9, [5])), torch.zeros(77))  # fmt: skip


def test_generators():
    source = torch.Generator().manual_seed(5)
    steps = plan(of(aten.bernoulli.p, T(0), 0.4, generator=source), of(aten.rand.generator, [700], generator=source),
                 of(aten.rand_like.generator, T(0), generator=source), of(aten.rand.default, [3]))  # fmt: skip
    expected = drawn(lambda x: run(steps, x), torch.zeros(77)), source.get_state().tolist()
    source.manual_seed(5)
    assert (drawn(build(steps), torch.zeros(77)), source.get_state().tolist()) == expected


@pytest.mark.parametrize("probability", [-0.1, 1.5, float("nan")])
def test_no_probability(probability):
    steps = plan(of(aten.bernoulli.p, T(0), probability))
    outcomes = []
    for function in (build(steps), lambda x: run(steps, x)):
        torch.manual_seed(0)
        with pytest.raises(RuntimeError) as caught:
            function(torch.zeros(40))
        outcomes.append((str(caught.value).splitlines()[0], torch.get_rng_state().tolist()))
    assert outcomes[0] == outcomes[1]


def test_the_operations_are_not_asked():
    """bernoulli is left out: MKL's numbers, on processors of Intel, are asked for."""
    function = build(plan(of(aten.rand.default, [9]), of(aten.rand_like.default, T(0)), of(aten.uniform.default, T(0)), of(uniform_, T(0), 0.0, 1.0)))
    function(torch.zeros(3))
    with torch.autograd.profiler.profile() as profile:
        function(torch.zeros(3))
    assert not [event.name for event in profile.function_events if "uniform" in event.name or "rand" in event.name]


def test_threads_share_a_generator():
    """Who comes when is open, but each takes words of its own: together they take all of them."""
    function, found = build(plan(of(aten.rand.default, [5_000]))), []
    torch.manual_seed(0)
    expected = torch.rand(40_000)
    torch.manual_seed(0)
    threads = [threading.Thread(target=lambda: found.append(function(torch.zeros(1))[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(torch.cat(found).sort().values, expected.sort().values)
