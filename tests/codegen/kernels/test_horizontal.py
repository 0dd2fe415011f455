"""Launches of one kernel become one, where none of them has to wait for what lies between; its programs do what they all did."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from codegen.kernels import evaluate
from codegen.kernels import horizontal as hz
from codegen.kernels.horizontal import together
from codegen.kernels.schedule import Launch, Schedule
from codegen.kernels.triton_launch import arguments, compile_source
from codegen.kernels.triton_tune import forms, repeated
from tests.codegen.kernels.schedules import scheduled
from tests.codegen.kernels.test_triton_compile import NO_STORE
from tests.codegen.kernels.triton_runs import run_triton


def copies(schedule: Schedule) -> list[int]:
    return [step.copies if isinstance(step, Launch) else 0 for step in schedule.steps]


def steps_of_adam(*args):
    """Of parameters, gradients and averages, a third each."""
    third = len(args) // 3
    found = []
    for p, g, m in zip(args[:third], args[third : 2 * third], args[2 * third :]):
        new = m * 0.9 + g * 0.1
        found += [p - new / (new.abs().sqrt() + 1e-3), new]
    return tuple(found)


SHAPES = [(30, 20), (20,), (30, 20), (20,), (30, 20), (7,)]


def of_adam() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape) for _ in range(3) for shape in SHAPES]


def test_an_optimizer_is_a_launch_for_each_shape() -> None:
    plain = scheduled(steps_of_adam, *of_adam())
    found = together(plain)
    assert copies(plain) == [1] * 6 and copies(found) == [3, 2, 1]
    assert [step.name for step in found.steps] == [step.kernel.named(step.copies) for step in found.steps]


def test_copies_do_what_each_launch_does() -> None:
    schedule = together(scheduled(steps_of_adam, *of_adam()))
    for step in schedule.steps:
        kernel, count = step.kernel, len(step.kernel.buffers)
        each = [{b.name: torch.randn(b.size.constant) for b in kernel.buffers} for _ in range(step.copies)]
        flat = [given[buffer.name] for given in each for buffer in kernel.buffers]
        for number in range(2):
            form = forms(kernel, {}, 2)[-1] if number else forms(kernel, {}, 2)[0]
            found = run_copies(kernel, form, step.copies, flat)
            for copy, given in enumerate(each):
                expected = {name: tensor.clone() for name, tensor in given.items()}
                evaluate.run(kernel, expected)
                for at, buffer in enumerate(kernel.buffers):
                    torch.testing.assert_close(found[copy * count + at], expected[buffer.name], rtol=1e-5, atol=1e-5)


def run_copies(kernel, form, count: int, flat: list[torch.Tensor]) -> list[torch.Tensor]:
    """In the interpreter, through a kernel that has all buffers of all copies."""
    names = [f"c{copy}_{buffer.name}" for copy in range(count) for buffer in kernel.buffers]
    given = tuple(replace(buffer, name=name) for name, buffer in zip(names, kernel.buffers * count))
    whole = replace(kernel, name=kernel.named(count), buffers=given)
    text = form if count == 1 else repeated(kernel, form, count)
    bad, found = run_triton(whole, form, dict(zip(names, flat)), printer=lambda *_: (text.source, text.programs))
    assert not bad
    return [found[name] for name in names]


def alone(x, y):
    return x.cumsum(0), y.cumsum(0)


def waiting(x):
    """The second needs the first."""
    first = x.cumsum(0)
    return first, first.cumsum(0)


def called(x, y, w):
    return x.exp() * 2, x @ w, y.exp() * 2


def test_who_reads_another_one_waits() -> None:
    x = torch.randn(30, 20)
    for program, args, expected in ((waiting, [x], [1, 1]), (alone, [x, x + 1], [2])):
        found = scheduled(program, *args)
        assert len(found.kernels) == 1 and copies(together(found)) == expected


def test_a_call_of_atens_is_passed_by_none() -> None:
    args = torch.randn(30, 20), torch.randn(30, 20), torch.randn(20, 30)
    found = together(scheduled(called, *args))
    assert copies(found) in ([1, 0, 1], [2, 0], [0, 2])


def test_sizes_that_vary_are_launched_one_by_one() -> None:
    found = together(scheduled(steps_of_adam, *of_adam(), dynamic=True))
    assert set(copies(found)) == {1}


def test_pointers_have_room(monkeypatch) -> None:
    monkeypatch.setattr(hz, "POINTERS", 12)
    assert copies(together(scheduled(steps_of_adam, *of_adam()))) == [2, 2, 1, 1]


@pytest.mark.parametrize("count", [2, 40])
def test_compiled(count: int) -> None:
    """Vectors are as wide as one copy's."""
    kernel = scheduled(lambda x, y: (x + y * 2).relu(), torch.randn(256, 256), torch.randn(256, 256)).kernels[0]
    form = repeated(kernel, forms(kernel, {}, 1)[0], count)
    types = arguments(kernel, False, count)
    found = compile_source(kernel.named(count), form.source, types, form.config, 90, store=NO_STORE, aligned=range(3 * count))
    assert found.name == f"{kernel.name}_x{count}" and len(found.arguments) == 3 * count + 2
