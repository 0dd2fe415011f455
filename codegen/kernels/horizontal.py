"""Launches of one kernel on tensors that have nothing to do with each other become one launch: an optimizer's step on
all parameters of a shape. A device starts it once, and its programs run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from codegen.kernels.groups import Call
from codegen.kernels.ir import Kernel
from codegen.kernels.schedule import Launch, Schedule
from codegen.kernels.triton_dot import product_of

#: Pointers that a launch takes: arguments have 4 KiB.
POINTERS = 400


@dataclass
class _Open:
    """A launch that others may join: where it stands, and what launches after it read and write."""

    at: int
    launch: Launch
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


def together(schedule: Schedule) -> Schedule:
    """The same with fewer launches. A launch joins an earlier one of its kernel, if it may be done as early."""
    steps: list[Launch | Call] = []
    groups: dict[tuple[Kernel, tuple[str, ...]], _Open] = {}
    for step in schedule.steps:
        if isinstance(step, Call):
            groups.clear()
            steps.append(step)
            continue
        reads, writes = _memory(schedule, step)
        key = step.kernel, step.scalars
        group = groups.get(key)
        if group is not None and _may_join(schedule, group, step, reads, writes):
            first = group.launch
            group.launch = replace(first, tensors=first.tensors + step.tensors, copies=first.copies + 1)
            steps[group.at] = group.launch
        else:
            if not step.kernel.sizes and product_of(step.kernel) is None:
                groups[key] = _Open(len(steps), step)
            steps.append(step)
        for other, each in groups.items():
            if other != key:
                each.reads |= reads
                each.writes |= writes
    return replace(schedule, steps=tuple(steps))


def _may_join(schedule: Schedule, group: _Open, step: Launch, reads: set[str], writes: set[str]) -> bool:
    own_reads, own_writes = _memory(schedule, group.launch)
    meets = writes & (group.reads | group.writes | own_reads | own_writes) or reads & (group.writes | own_writes)
    return not meets and len(group.launch.tensors) + len(step.tensors) <= POINTERS


def _memory(schedule: Schedule, launch: Launch) -> tuple[set[str], set[str]]:
    """Names of all memory that it reads, and writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for name, buffer in zip(launch.tensors, launch.kernel.buffers * launch.copies, strict=True):
        found = _homes(schedule, name)
        reads |= found if buffer.role != "out" else set()
        writes |= found if buffer.role != "in" else set()
    return reads, writes


def _homes(schedule: Schedule, name: str) -> set[str]:
    alias = schedule.aliases.get(name)
    home = schedule.written.get(name, name) if alias is None else alias.base
    return {home, *schedule.views.get(home, ())}
