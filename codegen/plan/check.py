"""What is a well-formed plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from codegen.plan import steps as s
from codegen.plan.steps import slots_in


class Malformed(ValueError):
    """The text names the step."""


def check(plan: s.Plan) -> s.Plan:
    """The plan itself. Raises Malformed for a slot that is read and was not set or was freed, and for a result that
    lies in a block."""
    known: set[s.Slot] = {slot for slot in plan.parameters if slot is not None}
    in_blocks: set[s.Slot] = set()
    for step in plan.steps:
        for slot in reads(step):
            if slot not in known:
                raise Malformed(f"{plan.name}: nothing is in {slot}: {step}")
        if isinstance(step, s.Free):
            known.discard(step.tensor)
            continue
        made = set(writes(step))
        known |= made
        in_blocks -= made
        if isinstance(step, s.View) and (isinstance(step.base, s.BlockSlot) or step.base in in_blocks):
            in_blocks.add(step.tensor)
    for slot in slots_in(plan.results):
        if slot not in known or isinstance(slot, s.BlockSlot):
            raise Malformed(f"{plan.name}: nothing is in its result {slot}")
        if slot in in_blocks:
            raise Malformed(f"{plan.name}: its result {slot} lies in a block, which ends with the plan")
    return plan


def reads(step: s.Step) -> Iterator[s.Slot]:
    return slots_in(_read(step))


def writes(step: s.Step) -> Iterator[s.Slot]:
    match step:
        case s.Size() | s.Compute():
            yield step.number
        case s.Reserve():
            yield from (block for block, _ in step.blocks)
        case s.Allocate() | s.Constant() | s.View():
            yield step.tensor
        case s.Call() | s.Python():
            yield from slots_in(step.results)


def _read(step: s.Step) -> tuple[Any, ...]:
    match step:
        case s.Size() | s.Free():
            return (step.tensor,)
        case s.Compute():
            return step.program
        case s.Reserve():
            return tuple(size for _, size in step.blocks)
        case s.Allocate():
            return (step.sizes, step.strides)
        case s.Constant():
            return ()
        case s.Expect():
            return (step.tensor, step.sizes)
        case s.View():
            return (step.base, step.sizes, step.strides, step.offset)
        case s.Launch():
            scalars = tuple(x.value if isinstance(x, s.Floating) else x for x in step.scalars)
            return (step.buffers, step.total, step.sizes, scalars)
        case s.LaunchGroup():
            return tuple(map(_read, step.launches))
        case s.DeviceLaunch():
            return (step.programs, step.arguments)
        case s.Call():
            return (step.args, tuple(value for _, value in step.kwargs))
        case s.Python():
            return (step.args,)
