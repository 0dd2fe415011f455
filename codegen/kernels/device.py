"""A schedule's kernels as machine code of a CUDA device, through Triton.

A kernel reads whole vectors of the tensors that begin at a multiple of 16 bytes in all its launches: those that a plan
allocates, and inputs that did so when the graph was compiled (the plan sees to it that they do at each call).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import fx

from codegen.artifacts.store import Store
from codegen.kernels.definitions import Definition, Given, Made
from codegen.kernels.ir import Kernel
from codegen.kernels.lowering.context import Unsupported
from codegen.kernels.measure import Trials, device_function
from codegen.kernels.planning import OnDevice
from codegen.kernels.schedule import Launch, Schedule
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_launch import ALIGNED
from codegen.kernels.triton_shape import TYPICAL, candidates, programs, reports_errors
from codegen.kernels.triton_tune import Device, Printed, Tuned, made, tune


@dataclass(frozen=True)
class DeviceCode:
    """`functions`: by the names of the kernels; `source`: their text; `aligned`: inputs that have to be."""

    functions: dict[str, OnDevice]
    source: str
    aligned: frozenset[str]


def device_code(
    schedule: Schedule, placeholders: Iterable[fx.Node], device: Device, store: Store, trials: Trials | None = None
) -> DeviceCode:
    """`trials`: what measures candidates, where their times are to decide.

    Raises Unsupported without Triton, NotImplementedError for a kernel that Triton has no types for."""
    starts = frozenset(node.name for node in placeholders if _starts_aligned(node.meta["val"]))
    functions, texts = {}, []
    for kernel in schedule.kernels:
        launches = [step for step in schedule.steps if isinstance(step, Launch) and step.kernel == kernel]
        aligned = [
            at for at in range(len(kernel.buffers))
            if all(_home(schedule, launch.tensors[at]) in starts | {None} for launch in launches)
        ]  # fmt: skip
        try:
            tuned = _tuned(kernel, device, store, aligned, trials)
        except ImportError as error:
            raise Unsupported(f"kernels for CUDA need Triton: {error}") from error
        texts.append(tuned.printed.source)
        function = device_function(tuned.compiled)
        functions[kernel.name] = OnDevice(function, tuned.printed.programs, reports_errors(kernel))
    return DeviceCode(functions, "\n\n".join(texts), frozenset(_read(schedule)) & starts)


def _tuned(kernel: Kernel, device: Device, store: Store, aligned: list[int], trials: Trials | None) -> Tuned:
    """Where sizes vary, places are counted in 64 bits: nobody looks at each launch whether 32 are enough."""
    if not kernel.sizes:
        measure = None if trials is None else trials.of(kernel, {})
        return tune(kernel, device, {}, store=store, measure=measure, most=None, aligned=aligned)
    config = replace(candidates(kernel, dict.fromkeys(kernel.sizes, TYPICAL))[0], wide=True)
    printed = Printed(config, print_triton(kernel, config), programs(kernel, config))
    return Tuned(printed, made(kernel, printed, device.capability, store=store, aligned=aligned))


def _starts_aligned(value: object) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    offset = value.storage_offset()
    return isinstance(offset, int) and offset * value.itemsize % ALIGNED == 0


def _home(schedule: Schedule, name: str) -> str | None:
    """The input whose first element is the tensor's; None if it begins where an allocation does; "" for all others."""
    name = schedule.written.get(name, name)
    match schedule.program.tensors[name]:
        case Given():
            return name
        case Made(is_fresh=True):
            return None
        case Definition() if name in schedule.stored:
            return None
    return ""


def _read(schedule: Schedule) -> Iterator[str]:
    """The inputs that kernels are given."""
    for step in schedule.steps:
        if isinstance(step, Launch):
            yield from filter(None, (_home(schedule, name) for name in step.tensors))
