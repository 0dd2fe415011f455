"""Branches and loops in a graph, which are decided when it runs: their sides are graphs inside the graph.

Autograd sees the operations that are done, as in eager code; nothing of the other side is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

#: A graph, and what it takes of the graphs around it.
Inner = tuple[fx.GraphModule, tuple[Any, ...]]


def branch(condition: torch.Tensor, true: Inner, false: Inner) -> tuple[Any, ...]:
    """Stands in graphs: what one of two graphs gives. Of a stand-in nobody knows which, so both are run."""
    if isinstance(condition, FakeTensor):
        run(false)
        return run(true)
    return run(true if condition else false)


def run(inner: Inner) -> tuple[Any, ...]:
    module, held = inner
    found: tuple[Any, ...] = _plainly(module)(*held)
    return found


def _plainly(module: Any) -> Any:
    """Without what modules do around a call: they print where it raises."""
    return getattr(module, "forward", module)


def loop(condition: torch.Tensor, body: Inner, carried: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
    """Stands in graphs: what is `carried` when the condition, which the body gives first, is no more true. The body
    takes what is carried, then what it holds. Of a stand-in nobody knows how often, so it is run once."""
    turn, held = _plainly(body[0]), body[1]
    if isinstance(condition, FakeTensor):
        return tuple(turn(*carried, *held)[1:])
    while condition:
        condition, *carried = turn(*carried, *held)
    return tuple(carried)


class CondAutogradOp(torch.autograd.Function):
    """What one of the functions given to `torch.cond` computes. Its name is torch's, as is what autograd sees of it:
    one operation on all that either function reads, of which only that is kept. It is computed again for the
    derivative, which has none itself, is a new tensor for each operand, and zero for what the function does not read.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., tuple[torch.Tensor, ...]], *operands: torch.Tensor) -> Any:
        ctx.function = function
        ctx.save_for_backward(*operands)
        return function(*operands)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        operands = ctx.saved_tensors
        given = [operand.detach().requires_grad_(operand.requires_grad) for operand in operands]
        with torch.enable_grad():
            results = ctx.function(*given)
        pairs = [pair for pair in zip(results, gradients, strict=True) if pair[0].requires_grad]
        wanted = [each for each in given if each.requires_grad]
        found = iter(_gradients(pairs, wanted))
        taken = {_memory(each) for each in (*operands, *gradients)}
        answers = [_apart(next(found), taken) if each.requires_grad else None for each in given]
        return None, *answers


def _gradients(pairs: list[tuple[torch.Tensor, torch.Tensor]], wanted: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    if not pairs:
        return [torch.zeros_like(each) for each in wanted]
    outputs, tangents = zip(*pairs, strict=True)
    return torch.autograd.grad(outputs, wanted, tangents, materialize_grads=True)


def _apart(gradient: torch.Tensor, taken: set[int]) -> torch.Tensor:
    """A gradient that lies in no memory that is `taken`, as then its own is."""
    found = gradient.clone() if _memory(gradient) in taken else gradient
    taken.add(_memory(found))
    return found


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def chosen(condition: torch.Tensor, true: Inner, false: Inner) -> tuple[Any, ...]:
    """Stands in graphs: `torch.cond`, where something that the functions read requires a gradient."""
    operands = {each: at for at, each in enumerate(dict.fromkeys((*true[1], *false[1])))}
    module, held = true if isinstance(condition, FakeTensor) or condition else false
    function, places = _plainly(module), [operands[each] for each in held]
    found: tuple[Any, ...] = CondAutogradOp.apply(lambda *args: function(*(args[at] for at in places)), *operands)
    return found


#: Operations that decide, when the graph runs, what is done.
DECIDE = (branch, loop, chosen)


# --- what is known of the derivatives of what a branch gives ----------------------------------------------------------
class Choice:
    """Of a stand-in's branch: which side is taken to be the one that ran."""

    first = True


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, choice: Choice, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        ctx.choice = choice
        ctx.set_materialize_grads(False)
        return one.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, gradient if ctx.choice.first else None, None if ctx.choice.first else gradient


def joined(choice: Choice, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A stand-in for what a branch gives, whose gradient goes to the side that is chosen: its history is that of both.
    Nobody knows the node that the tensor itself has."""
    return cast(torch.Tensor, _Joined.apply(choice, one, other))


def choice_of(node: Any) -> Choice | None:
    """Of the node of a stand-in for what a branch gives."""
    return node.choice if isinstance(node, _Joined._backward_cls) else None  # type: ignore[attr-defined]


def chosen_of(node: Any) -> Sequence[tuple[Any, int]]:
    """The nodes that are next to one on the way through branches that is chosen."""
    choice, following = choice_of(node), node.next_functions
    if choice is None:
        return cast(Sequence[tuple[Any, int]], following)
    return [following[-2 if choice.first else -1]]
