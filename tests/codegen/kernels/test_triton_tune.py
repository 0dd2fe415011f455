"""Tiles are chosen by measuring, once: the choice is kept for other processes, and for sizes that are about the same."""

from __future__ import annotations

import pytest

from codegen.artifacts.store import Store
from codegen.kernels.triton_launch import Compiled
from codegen.kernels.triton_shape import Config, candidates
from codegen.kernels.triton_tune import FEW, Device, Printed, tune
from tests.codegen.kernels.test_c_shapes import KERNELS, layernorm

H100 = Device("NVIDIA H100", 90)


class Clock:
    """The candidate of that number is the quickest; those of `broken` are refused."""

    def __init__(self, configs: tuple[Config, ...], best: int, broken: tuple[int, ...] = ()) -> None:
        self.configs, self.best, self.broken, self.asked = configs, best, broken, 0

    def __call__(self, printed: Printed, compiled: Compiled) -> float:
        self.asked += 1
        number = self.configs.index(printed.config)
        if number in self.broken:
            raise RuntimeError("out of shared memory")
        assert compiled.warps == printed.config.warps
        return 1.0 + abs(number - self.best)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store", 1 << 30)


def test_the_quickest_is_taken_and_kept(store: Store) -> None:
    kernel = layernorm(8192, 768)
    clock = Clock(candidates(kernel), 2)
    assert tune(kernel, H100, {}, store=store, measure=clock).printed.config == candidates(kernel)[2]
    assert clock.asked == FEW
    again = tune(kernel, H100, {}, store=store, measure=clock)
    assert again.printed.config == candidates(kernel)[2] and again.compiled.warps == again.printed.config.warps and clock.asked == FEW


def test_all_candidates_where_they_are_wanted(store: Store) -> None:
    kernel = layernorm(8192, 768)
    last = len(candidates(kernel)) - 1
    assert last >= FEW
    clock = Clock(candidates(kernel), last)
    assert tune(kernel, H100, {}, store=store, measure=clock, most=None).printed.config == candidates(kernel)[last]


def test_another_device_measures_for_itself(store: Store) -> None:
    kernel = layernorm(8192, 768)
    clock = Clock(candidates(kernel), 1)
    for device in (H100, Device("NVIDIA A100", 80)):
        tune(kernel, device, {}, store=store, measure=clock)
    assert clock.asked == 2 * FEW


def test_sizes_that_are_about_the_same_share_a_choice(store: Store) -> None:
    kernel, _ = KERNELS["softmax"]
    rows, columns = kernel.sizes
    asked = []
    for count in (1000, 1020, 300):
        sizes = {rows: count, columns: 1000}
        clock = Clock(candidates(kernel, sizes), 0)
        tune(kernel, H100, sizes, store=store, measure=clock)
        asked.append(clock.asked > 0)
    assert asked == [True, False, True]


def test_what_can_not_be_launched_is_passed_over(store: Store) -> None:
    kernel = layernorm(8192, 768)
    clock = Clock(candidates(kernel), 0, broken=(0,))
    assert tune(kernel, H100, {}, store=store, measure=clock).printed.config == candidates(kernel)[1]
    with pytest.raises(RuntimeError, match="shared memory"):
        tune(kernel, Device("tiny", 90), {}, store=store, measure=Clock(candidates(kernel), 0, broken=tuple(range(9))))


def test_with_nothing_to_measure_the_likely_best(store: Store) -> None:
    kernel = layernorm(8192, 768)
    assert tune(kernel, H100, {}, store=store).printed.config == candidates(kernel)[0]
