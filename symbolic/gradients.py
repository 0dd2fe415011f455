"""What becomes of the gradients that a graph computes for leaves: the rules of torch's AccumulateGrad.

These functions stand in graphs and run with them. Rules: torch/csrc/autograd/functions/accumulate_grad.h.
"""

from __future__ import annotations

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false


def obeys_layout(leaf: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Whether a gradient is laid out as its leaf's `.grad` must be."""
    if not is_non_overlapping_and_dense_or_false(leaf):
        return gradient.is_contiguous()
    pairs = zip(leaf.shape, leaf.stride(), gradient.stride(), strict=True)
    return all(length == 1 or ours == theirs for length, ours, theirs in pairs)


def own_gradient(leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in memory of its own, laid out for the leaf."""
    if is_non_overlapping_and_dense_or_false(leaf):
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=gradient.dtype, device=gradient.device)
        return made.copy_(gradient)
    return gradient.clone(memory_format=torch.contiguous_format)


def accumulate(gradient: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    """Adds to the gradient that a leaf has, in place."""
    with torch.no_grad():
        return gradient.add_(more)
