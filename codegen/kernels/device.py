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
from codegen.kernels.definitions import Definition, Given, Made, Stored
from codegen.kernels.ir import Kernel
from codegen.kernels.lowering.context import Unsupported
from codegen.kernels.measure import Trials, device_function
from codegen.kernels.planning import OnDevice
from codegen.kernels.schedule import Launch, Schedule
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_launch import ALIGNED
from codegen.kernels.triton_shape import TYPICAL, candidates, programs, reports_errors
from codegen.kernels.triton_tune import Device, Printed, forms, made, repeated, tune


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
        aligned = [at for at in range(len(kernel.buffers)) if _is_aligned(schedule, launches, at, starts)]
        try:
            printed = _printed(kernel, device, store, aligned, trials)
            for copies in sorted({launch.copies for launch in launches}):
                each = printed if copies == 1 else repeated(kernel, printed, copies)
                all_aligned = [copy * len(kernel.buffers) + at for copy in range(copies) for at in aligned]
                compiled = made(kernel, each, device.capability, store=store, aligned=all_aligned)
                texts.append(each.source)
                function = device_function(compiled)
                functions[kernel.named(copies)] = OnDevice(function, each.programs, reports_errors(kernel))
        except ImportError as error:
            raise Unsupported(f"kernels for CUDA need Triton: {error}") from error
    return DeviceCode(functions, "\n\n".join(texts), frozenset(_read(schedule)) & starts)


def _is_aligned(schedule: Schedule, launches: Iterable[Launch], at: int, starts: frozenset[str]) -> bool:
    """Whether that buffer of the kernel begins at a multiple of ALIGNED bytes in all of its launches and copies."""
    return all(
        _home(schedule, name) in starts | {None}
        for launch in launches for name in launch.tensors[at :: len(launch.kernel.buffers)]
    )  # fmt: skip


def _printed(kernel: Kernel, device: Device, store: Store, aligned: list[int], trials: Trials | None) -> Printed:
    """Where sizes vary, places are counted in 64 bits: nobody looks at each launch whether 32 are enough."""
    if kernel.sizes:
        config = replace(candidates(kernel, dict.fromkeys(kernel.sizes, TYPICAL))[0], wide=True)
        return Printed(config, print_triton(kernel, config), programs(kernel, config))
    if trials is None:
        return forms(kernel, {}, 1)[0]
    measure = trials.of(kernel, {})
    return tune(kernel, device, {}, store=store, measure=measure, most=None, aligned=aligned).printed


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
        case Definition() | Stored() if name in schedule.stored:
            return None
    return ""


def _read(schedule: Schedule) -> Iterator[str]:
    """The inputs that kernels are given."""
    for step in schedule.steps:
        if isinstance(step, Launch):
            yield from filter(None, (_home(schedule, name) for name in step.tensors))
