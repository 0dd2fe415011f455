"""How results look that depend on values, where torch's stand-ins know nothing of it, or look otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from symbolic.shapes import Environment

aten = torch.ops.aten


def _open(env: ShapeEnv | None, func: Any) -> Environment:
    """The environment, if it has sizes that depend on values."""
    if not isinstance(env, Environment) or not env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(func)
    return env


def _packed(
    env: ShapeEnv | None, value: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, ...]:
    """Rows of sequences, and how many are there at each step."""
    env = _open(env, aten._pack_padded_sequence.default)
    rows, steps = env.create_unbacked_symint(), env.create_unbacked_symint()
    sizes = lengths.new_empty((steps,), dtype=torch.int64, device="cpu")
    return value.new_empty((rows, *value.shape[2:])), sizes


def _ctc_loss(env: ShapeEnv | None, scores: torch.Tensor, *rest: Any, **named: Any) -> tuple[torch.Tensor, ...]:
    """The second result is there for the derivative: nobody else sees how long the longest target is."""
    steps, batch, _ = scores.shape
    longest = _open(env, aten._ctc_loss.Tensor).number(1)
    return scores.new_empty((batch,)), scores.new_empty((batch, steps, longest))


def _ctc_loss_backward(
    env: ShapeEnv | None, grad: torch.Tensor, scores: torch.Tensor, *rest: Any, **named: Any
) -> torch.Tensor:
    return scores.new_empty(scores.shape)


#: operation -> how its results look, in an environment, on a CPU
LOOKS: dict[Any, Callable[..., torch.Tensor | Sequence[torch.Tensor]]] = {
    aten._pack_padded_sequence.default: _packed,
    aten._ctc_loss.Tensor: _ctc_loss,
    aten._ctc_loss_backward.Tensor: _ctc_loss_backward,
}
