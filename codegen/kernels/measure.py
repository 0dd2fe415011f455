"""What is measured on a device before kernels are chosen: tiles, and products of matrices beside ATen's."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from codegen.artifacts.store import Store, key
from codegen.kernels import index as ix
from codegen.kernels.index import Symbol
from codegen.kernels.ir import Kernel
from codegen.kernels.lowering.lower import lower
from codegen.kernels.products import is_quick, passes_after
from codegen.kernels.schedule import Schedule, schedule
from codegen.kernels.triton_launch import Compiled
from codegen.kernels.triton_shape import reports_errors
from codegen.kernels.triton_tune import Device, Measure, Printed, tune
from codegen.plan import steps as s
from codegen.plan.build import build

#: Seconds that the device takes for a call.
Clock = Callable[[Callable[[], Any]], float]
WARP = 32  # threads


def events(call: Callable[[], Any], rounds: int = 7, calls: int = 4) -> float:
    """The median of several rounds of calls in a row, by the device's own clock."""
    call()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / calls / 1e3)
    return statistics.median(times)


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """Real tensors and plain operations, whatever the compilation is in the middle of."""
    with _disable_current_modes(), torch.no_grad(), torch.autocast(device.type, enabled=False):
        yield


def device_function(compiled: Compiled) -> s.DeviceFunction:
    types = tuple("*" if kind.startswith("*") else kind for kind in compiled.arguments)
    return s.DeviceFunction(compiled.name, compiled.cubin, types, compiled.warps * WARP, compiled.shared)


def launch(
    kernel: Kernel, printed: Printed, compiled: Compiled, sizes: Mapping[Symbol, int], scalars: Sequence[int | float],
    device: torch.device,
) -> s.Plan:
    """A plan of one launch, which takes the kernel's buffers."""
    slots = tuple(s.TensorSlot(number) for number in range(len(kernel.buffers) * printed.copies))
    error = (None,) if reports_errors(kernel) else ()
    programs = ix.evaluate(printed.programs, sizes.__getitem__)
    arguments = (*slots, *error, *(sizes[size] for size in kernel.sizes), *scalars, None, None)
    step = s.DeviceLaunch(device_function(compiled), programs, arguments, device)
    return s.Plan(kernel.name, slots, (step,), ())


@dataclass(frozen=True)
class Trials:
    """Measures on `device`, which `described` tells others of."""

    device: torch.device
    described: Device
    store: Store
    clock: Clock = events

    def of(self, kernel: Kernel, sizes: Mapping[Symbol, int]) -> Measure:
        """Launches of a kernel, on memory of its own. Indices are 0: they are within all sizes."""

        def measure(printed: Printed, compiled: Compiled) -> float:
            with aside(self.device):
                tensors = [self._filled(ix.evaluate(b.size, sizes.__getitem__), b.dtype) for b in kernel.buffers]
                run = build(launch(kernel, printed, compiled, sizes, [1] * len(kernel.scalars), self.device))
                return self.clock(lambda: run(*tensors))

        return measure

    def wins(self, node: fx.Node) -> bool:
        """Whether a product of matrices is quicker as a kernel, with what is fused to it, than as ATen's call."""
        chosen = key(product=_described(node), device=str(self.described), follows=str(passes_after(node)))
        kept = self.store.get(chosen)
        if kept is None:
            with aside(self.device):
                kept = b"kernel" if self._is_quicker(node) else b"library"
            self.store.put(chosen, kept)
        return kept == b"kernel"

    def _is_quicker(self, node: fx.Node) -> bool:
        kernels = alone(node).kernels
        if len(kernels) != 1 or not is_quick(kernels[0]):
            return False
        operands = {each: self._like(each.meta["val"]) for each in node.all_input_nodes}
        args, kwargs = fx.map_arg((node.args, node.kwargs), operands.__getitem__)
        target: Any = node.target
        library = self.clock(lambda: target(*args, **kwargs))
        if passes_after(node):
            made = self._like(node.meta["val"])
            library += self.clock(lambda: made.neg())
        measure = self.of(kernels[0], {})
        aligned = range(len(kernels[0].buffers))
        try:
            found = tune(kernels[0], self.described, {}, store=self.store, measure=measure, most=None, aligned=aligned)
            return measure(found.printed, found.compiled) < library
        except RuntimeError:  # the device launches none of them
            return False

    def _filled(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        if dtype.is_floating_point:
            return self._random((count,)).to(dtype)
        return torch.zeros(count, dtype=dtype, device=self.device)

    def _like(self, fake: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(tuple(fake.shape), fake.stride(), dtype=fake.dtype, device=self.device)
        return made.copy_(self._random(tuple(fake.shape)))

    def _random(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Drawn from numbers of its own: the program's stay as they are."""
        return torch.randn(shape, device=self.device, generator=torch.Generator(self.device).manual_seed(0))


def alone(node: fx.Node) -> Schedule:
    """The product as a graph of its own."""
    graph = fx.Graph()
    operands = {}
    for each in node.all_input_nodes:
        operands[each] = graph.placeholder(each.name)
        operands[each].meta = {"val": each.meta["val"]}
    copied = graph.node_copy(node, operands.__getitem__)
    graph.output((copied,))
    return schedule(lower(fx.GraphModule({}, graph), frozenset([copied])))


def _described(node: fx.Node) -> str:
    def tensor(fake: torch.Tensor) -> str:
        return f"{fake.dtype}{tuple(fake.shape)}{fake.stride()}"

    tensors = {each: tensor(each.meta["val"]) for each in node.all_input_nodes}
    return f"{node.target}{fx.map_arg((node.args, node.kwargs), tensors.__getitem__)}"
