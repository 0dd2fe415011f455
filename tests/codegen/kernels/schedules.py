"""A graph through lowering and scheduling, its kernels run by the slow evaluator: what tests compare with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import attrgetter, getitem
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from codegen.kernels import index as ix
from codegen.kernels.evaluate import run
from codegen.kernels.groups import Call
from codegen.kernels.lowering.lower import lower
from codegen.kernels.schedule import Schedule, schedule


def scheduled(
    function: Callable[..., Any], *args: torch.Tensor, dynamic: bool = False, in_stretches: bool = False
) -> Schedule:
    return schedule(lower(traced(function, *args, dynamic=dynamic)), in_stretches)


def traced(function: Callable[..., Any], *args: torch.Tensor, dynamic: bool = False) -> fx.GraphModule:
    def flat(*args: torch.Tensor) -> tuple[Any, ...]:
        result = function(*args)
        return result if isinstance(result, tuple) else (result,)

    return make_fx(flat, tracing_mode="symbolic" if dynamic else "fake")(*args)


def evaluated(what: Schedule, args: Sequence[Any], run: Callable[..., None] = run) -> list[Any]:
    """The results, and the inputs as they are written. `run`: does what a kernel does, as the evaluator."""
    program = what.program
    given = [name for name, tensor in program.tensors.items() if type(tensor).__name__ == "Given"]
    memory = dict(zip(given, (each for each in args if isinstance(each, torch.Tensor)), strict=True))
    numbers = dict(zip(program.scalars, (each for each in args if not isinstance(each, torch.Tensor)), strict=True))
    sizes = {symbol: memory[name].shape[dim] for symbol, (name, dim) in program.sizes.items()}

    def number(at: ix.Index) -> int:
        return ix.evaluate(at, sizes.__getitem__)

    def tensor(name: str) -> torch.Tensor:
        name = what.written.get(name, name)
        if name not in memory:
            alias = what.aliases.get(name)
            if alias is not None:
                base = tensor(alias.base)
                offset = base.storage_offset() + number(alias.offset)
                memory[name] = base.as_strided(list(map(number, alias.shape)), list(map(number, alias.strides)), offset)
            else:
                made = what.stored[name]
                memory[name] = torch.empty_strided(
                    list(map(number, made.shape)), list(map(number, made.strides)), dtype=made.dtype
                )
                filler = float("nan") if made.dtype.is_floating_point else True if made.dtype == torch.bool else 77
                memory[name].fill_(filler)
        return memory[name]

    def value_of(operand: Any) -> Any:
        return tensor(operand) if isinstance(operand, str) else number(operand)

    for step in what.steps:
        if isinstance(step, Call) and step.made[0].node.op == "get_attr":  # a tensor of the graph itself
            node = step.made[0].node
            memory[step.made[0].name] = attrgetter(str(node.target))(node.graph.owning_module)
            continue
        if isinstance(step, Call):
            operands = dict(zip(step.made[0].node.all_input_nodes, step.made[0].operands, strict=True))
            real = fx.map_arg((step.made[0].node.args, step.made[0].node.kwargs), lambda n: value_of(operands[n]))
            found = step.made[0].node.target(*real[0], **real[1])
            for made in step.made:
                memory[made.name] = reduce(getitem, made.item, found)
            continue
        buffers = {b.name: flat(tensor(name)) for b, name in zip(step.kernel.buffers, step.tensors, strict=True)}
        scalars = [numbers[name] for name in step.scalars]
        run(step.kernel, buffers, [sizes[size] for size in step.sizes], scalars)
    return [tensor(value) if isinstance(value, str) else value for value in program.results]


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """All the elements that it spans."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    return tensor.as_strided((span,), (1,))
