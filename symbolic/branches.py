"""Branches and loops in a graph, which are decided when it runs: their sides are graphs inside the graph.

Autograd sees the operations that are done, as in eager code; nothing of the other side is computed.
"""

from __future__ import annotations

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


#: Operations that decide, when the graph runs, what is done.
DECIDE = (branch, loop)


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
