"""Plans made native."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from codegen import _C
from codegen.plan import steps as s
from codegen.plan.check import check

Native = tuple[Any, ...]  # the name of a kind, and what it is made of


def build(
    plan: s.Plan, fallback: Callable[..., Any] | None = None, about: Callable[[], tuple[str | None, ...]] | None = None
) -> _C.Plan:
    """`plan` as a callable, `built(*args) -> tuple`, or `built(list) -> tuple` if it takes a list.

    `fallback` is called in the same way where the plan can't run: under somebody who follows each operation (a dispatch
    mode, a tracer, a transform of torch.func), on tensors that stand for others, and on memory that is not `aligned`.
    `about`: gives the names of the plan's range and of those of its steps, where somebody records a trace, and is what
    watchers get to see (`about.About`).
    Raises Malformed, TypeError or ValueError for what is no plan: slots that no step sets before they are read,
    operations that do not take these arguments, programs that do not end with one number."""
    check(plan)
    return _C.Plan(
        plan, plan.name, tuple(map(_parameter, plan.parameters)), tuple(map(_step, plan.steps)),
        tuple(map(_operand, plan.results)), plan.takes_list, fallback, plan.aligned, about,
    )  # fmt: skip


def _parameter(slot: s.TensorSlot | s.NumberSlot | None) -> Native | None:
    return None if slot is None else _operand(slot)


def _operand(value: Any) -> Native:
    """A slot, a constant, or a list with slots in it."""
    match value:
        case s.TensorSlot():
            return ("tensor", value.number)
        case s.NumberSlot():
            return (value.kind.__name__, value.number)
        case s.BlockSlot():
            return ("block", value.number)
        case list() | tuple() if any(True for _ in s.slots_in(value)):
            return ("list", tuple(map(_operand, value)))
    return ("constant", value)


def _counts(counts: s.Counts) -> tuple[Native, ...]:
    return tuple(map(_operand, counts))


def _scalar(scalar: s.Count | s.Floating) -> tuple[bool, Native]:
    return (True, _operand(scalar.value)) if isinstance(scalar, s.Floating) else (False, _operand(scalar))


def _launch(step: s.Launch) -> Native:
    buffers, scalars = tuple(map(_operand, step.buffers)), tuple(map(_scalar, step.scalars))
    return (step.function.address, buffers, _operand(step.total), _counts(step.sizes), scalars, step.grain)


def _token(token: s.Token) -> Native:
    return ("operator", s.OPERATORS.index(token)) if isinstance(token, str) else _operand(token)


def _result(result: s.Result) -> Native | None:
    match result:
        case None:
            return None
        case tuple():
            return ("list", tuple(map(_result, result)))
    return _operand(result)


def _call(step: s.Call) -> Native:
    """The arguments as the schema has them; what is left out is None, and is the schema's default."""
    schema, named = step.op._schema, dict(step.kwargs)
    if len(step.args) > len(schema.arguments):
        raise TypeError(f"{step.op} takes {len(schema.arguments)} arguments, got {len(step.args)}")
    given: list[Native | None] = [_operand(arg) for arg in step.args]
    given += [_operand(named.pop(a.name)) if a.name in named else None for a in schema.arguments[len(given) :]]
    if named:
        raise TypeError(f"{step.op} does not take {', '.join(named)}")
    return (schema.name, schema.overload_name, tuple(given), tuple(map(_result, step.results)))


def _view(step: s.View) -> Native:
    geometry = (_counts(step.sizes), _counts(step.strides), _operand(step.offset))
    return (step.tensor.number, _operand(step.base), *geometry, step.dtype, step.device)


def _device_launch(step: s.DeviceLaunch) -> Native:
    function = step.function
    if len(step.arguments) != len(function.arguments):
        raise TypeError(f"{function} takes {len(function.arguments)} arguments, got {len(step.arguments)}")
    given = (None if argument is None else _operand(argument) for argument in step.arguments)
    arguments = tuple(zip(function.arguments, given, strict=True))
    form = (function.name, function.image, function.threads, function.shared)
    return (*form, step.device, _operand(step.programs), arguments)


_MADE_OF: dict[type, Callable[[Any], Native]] = {
    s.Size: lambda step: (step.number.number, step.tensor.number, step.dim),
    s.Compute: lambda step: (step.number.number, tuple(map(_token, step.program))),
    s.Reserve: lambda step: (tuple((block.number, _operand(size)) for block, size in step.blocks), step.device),
    s.Allocate: lambda step: (
        step.tensor.number, _counts(step.sizes), _counts(step.strides), step.dtype, torch.device(step.device)
    ),
    s.Constant: lambda step: (step.tensor.number, step.value),
    s.Expect: lambda step: (step.tensor.number, step.dtype, _counts(step.sizes), step.by),
    s.View: _view,
    s.Launch: lambda step: ((_launch(step),),),
    s.LaunchGroup: lambda step: (tuple(map(_launch, step.launches)),),
    s.DeviceLaunch: _device_launch,
    s.Call: _call,
    s.Python: lambda step: (step.function, tuple(map(_operand, step.args)), tuple(map(_result, step.results))),
    s.Free: lambda step: (step.tensor.number,),
}  # fmt: skip


def _step(step: s.Step) -> Native:
    kind = s.Launch if isinstance(step, s.LaunchGroup) else type(step)
    return (kind.__name__, *_MADE_OF[type(step)](step))
