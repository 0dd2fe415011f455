"""What a plan means: its steps one after the other in Python. The native plan does the same, quicker."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import torch

from codegen import _C
from codegen.plan import steps as s
from codegen.plan.build import build

_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__,
    "min": min, "max": max,
}  # fmt: skip


def computed(program: Sequence[s.Token], value: Callable[[int | s.NumberSlot], int]) -> int:
    """What a program comes to, `value` being that of an operand."""
    stack: list[int] = []
    for token in program:
        if isinstance(token, str):
            b, a = stack.pop(), stack.pop()
            stack.append(_OPERATORS[token](a, b))
        else:
            stack.append(value(token))
    (result,) = stack
    return result


class _Scalar(ctypes.Union):
    _fields_ = [("f", ctypes.c_double), ("i", ctypes.c_int64)]


_KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(_Scalar),
    ctypes.c_int64, ctypes.c_int64,
)  # fmt: skip


def run(plan: s.Plan, *args: Any) -> tuple[Any, ...]:
    """The results of `plan` for these arguments (for one list, which is emptied, if it takes that).

    Kernels on devices are launched by a native plan each.
    Raises TypeError for more, fewer or other arguments than it has parameters, and what its steps raise."""
    return _C.below(_Frame(plan).run, args)


class _Frame:
    """The slots of one call."""

    def __init__(self, plan: s.Plan) -> None:
        self.plan = plan
        self.slots: dict[s.Slot, Any] = {}

    def run(self, args: Sequence[Any]) -> tuple[Any, ...]:
        if self.plan.takes_list:
            (given,) = args
            args = list(given)
            given.clear()
        if len(args) != len(self.plan.parameters):
            raise TypeError(f"{self.plan.name} takes {len(self.plan.parameters)} arguments, got {len(args)}")
        for at, (slot, value) in enumerate(zip(self.plan.parameters, args, strict=True)):
            if slot is not None:
                wanted = torch.Tensor if isinstance(slot, s.TensorSlot) else slot.kind
                if not isinstance(value, wanted):
                    name = wanted.__name__.lower()
                    raise TypeError(f"{self.plan.name}: argument {at} is a {type(value).__name__}, no {name}")
                self.slots[slot] = value
        for step in self.plan.steps:
            _do(step, self)
        return tuple(self.value(result) if isinstance(result, s.Slot) else result for result in self.plan.results)

    def value(self, given: Any) -> Any:
        """An argument with what lies in its slots."""
        if isinstance(given, s.Slot):
            return self.slots[given]
        if isinstance(given, list | tuple) and any(s.slots_in(given)):
            return [self.value(item) for item in given]
        return given

    def counts(self, given: s.Counts) -> list[int]:
        return [self.value(count) for count in given]

    def keep(self, results: Sequence[s.Result], values: Sequence[Any]) -> None:
        for slot, value in zip(results, values, strict=True):
            if isinstance(slot, tuple):
                self.keep(slot, value)
            elif slot is not None:
                self.slots[slot] = value


# --- what each step does ----------------------------------------------------------------------------------------------
@singledispatch
def _do(step: s.Step, frame: _Frame) -> None:
    raise TypeError(step)


@_do.register
def _(step: s.Size, frame: _Frame) -> None:
    frame.slots[step.number] = frame.slots[step.tensor].size(step.dim)


@_do.register
def _(step: s.Compute, frame: _Frame) -> None:
    frame.slots[step.number] = computed(step.program, frame.value)


@_do.register
def _(step: s.Reserve, frame: _Frame) -> None:
    for block, size in step.blocks:
        frame.slots[block] = torch.empty(frame.value(size), dtype=torch.uint8, device=step.device)


@_do.register
def _(step: s.Allocate, frame: _Frame) -> None:
    frame.slots[step.tensor] = torch.empty_strided(
        frame.counts(step.sizes), frame.counts(step.strides), dtype=step.dtype, device=step.device
    )


@_do.register
def _(step: s.Constant, frame: _Frame) -> None:
    frame.slots[step.tensor] = step.value


@_do.register
def _(step: s.Expect, frame: _Frame) -> None:
    tensor, sizes = frame.slots[step.tensor], frame.counts(step.sizes)
    if tensor.dtype != step.dtype or list(tensor.shape) != sizes:
        found, foreseen = f"{tensor.dtype} of {list(tensor.shape)}", f"{step.dtype} of {sizes}"
        raise TypeError(f"{step.by} gave {found}, its fake (what register_fake was given) says {foreseen}")


@_do.register
def _(step: s.View, frame: _Frame) -> None:
    base = frame.slots[step.base]
    dtype = step.dtype or base.dtype
    memory = torch.empty(0, dtype=dtype, device=base.device).set_(base.untyped_storage())
    first = base.storage_offset() * base.itemsize // dtype.itemsize
    sizes, strides = frame.counts(step.sizes), frame.counts(step.strides)
    frame.slots[step.tensor] = memory.as_strided(sizes, strides, first + frame.value(step.offset))


@_do.register
def _(step: s.Launch, frame: _Frame) -> None:
    total = frame.value(step.total)
    if total <= 0:
        return
    buffers = [frame.slots[buffer].data_ptr() for buffer in step.buffers]
    sizes = frame.counts(step.sizes)
    scalars = [
        _Scalar(f=frame.value(scalar.value)) if isinstance(scalar, s.Floating) else _Scalar(i=frame.value(scalar))
        for scalar in step.scalars
    ]
    function = _KERNEL(step.function.address)
    answer = function(
        (ctypes.c_void_p * len(buffers))(*buffers), (ctypes.c_int64 * len(sizes))(*sizes),
        (_Scalar * len(scalars))(*scalars), 0, total,
    )  # fmt: skip
    if answer & 1:
        raise IndexError("index out of range in self")
    if answer:
        raise RuntimeError("ZeroDivisionError")


@_do.register
def _(step: s.LaunchGroup, frame: _Frame) -> None:
    for launch in step.launches:
        _do(launch, frame)


@_do.register
def _(step: s.DeviceLaunch, frame: _Frame) -> None:
    """Blocks are tensors here."""
    slots = list(dict.fromkeys(s.slots_in((step.programs, step.arguments))))
    renamed: dict[Any, Any] = {
        slot: s.TensorSlot(at) if isinstance(slot, s.BlockSlot) else replace(slot, number=at)
        for at, slot in enumerate(slots)
    }
    arguments = tuple(renamed.get(argument, argument) for argument in step.arguments)
    launch = replace(step, programs=renamed.get(step.programs, step.programs), arguments=arguments)
    build(s.Plan(step.function.name, tuple(renamed.values()), (launch,), ()))(*map(frame.value, slots))


@_do.register
def _(step: s.Call, frame: _Frame) -> None:
    args = [frame.value(arg) for arg in step.args]
    found = step.op(*args, **{name: frame.value(value) for name, value in step.kwargs})
    match len(step.op._schema.returns):
        case 0:
            found = ()
        case 1:
            found = (found,)
    if step.results:
        frame.keep(step.results, found)


@_do.register
def _(step: s.Python, frame: _Frame) -> None:
    frame.keep(step.results, step.function(*[frame.value(arg) for arg in step.args]))


@_do.register
def _(step: s.Free, frame: _Frame) -> None:
    del frame.slots[step.tensor]
