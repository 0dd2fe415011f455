"""Gradients that a graph computes, with hooks on them, and what becomes of those of leaves.

These functions stand in graphs and run with them. Rules of torch's AccumulateGrad:
torch/csrc/autograd/functions/accumulate_grad.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.utils.hooks import RemovableHandle

#: (tensor, (graph, what it holds)): the graph is called with the gradient and with these. What is held may be given by
#: the graph of an earlier hook: (which hook, which of the things that are wanted of it).
Hook = tuple[torch.Tensor, tuple[Callable[..., Any], tuple[Any, ...]]]
#: Handles that no user sees have numbers from here on.
_OWN_IDS = 1 << 60


class Blank(NamedTuple):
    """A tensor without a gradient beside others that have one: all that autograd knows of it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, fake: torch.Tensor) -> Blank:
        return cls(tuple(map(int, fake.shape)), fake.dtype, fake.device)

    def made(self) -> torch.Tensor:
        return torch.empty((), dtype=self.dtype, device=self.device).expand(self.shape)


#: All that an autograd node gives that does nothing but hand on gradients, for hooks to come on: results of the graph,
#: by position, and what has no gradient.
Together = tuple[int | Blank, ...]


def parameter(data: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """`torch.nn.Parameter(data, requires_grad)`, but for its class: tracing would lose that."""
    return data.detach().requires_grad_(requires_grad)


def differentiate(
    outputs: Any, inputs: Any, tangents: Any, keep: Any, create: Any, unused: Any, zeros: Any, *,
    hooks: Sequence[tuple[torch.Tensor, Callable[[torch.Tensor], Any]]] = (),
) -> Any:  # fmt: skip
    """`torch.autograd.grad` in this thread, with these hooks and none that the inputs came with."""
    with _unhooked((*outputs, *inputs)), _hooked(hooks), torch.autograd.set_multithreading_enabled(False):
        return torch.autograd.grad(
            outputs, inputs, tangents, keep, create, allow_unused=unused, materialize_grads=zeros
        )


def differentiate_with(hooks: Sequence[Hook], *args: Any) -> tuple[Any, tuple[Any, ...]]:
    """`differentiate(*args)` with these hooks. A hook's graph answers with another gradient, or None, and with what
    else is wanted of it: that is given beside the gradients, for each hook."""
    kept: list[Any] = [None] * len(hooks)

    def hook(at: int, graph: Callable[..., Any], held: tuple[Any, ...]) -> Callable[[torch.Tensor], Any]:
        def run(gradient: torch.Tensor) -> Any:
            given = (kept[each[0]][each[1]] if isinstance(each, tuple) else each for each in held)
            answer, kept[at] = graph(gradient, *given)
            return answer

        return run

    gradients = differentiate(*args, hooks=[(tensor, hook(at, *inner)) for at, (tensor, inner) in enumerate(hooks)])
    return gradients, tuple(kept)


@contextmanager
def _unhooked(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Leaves without their hooks for a while: where the graph runs as it is, they are the caller's."""
    dicts = [(tensor, tensor._backward_hooks) for tensor in tensors if tensor.is_leaf and tensor._backward_hooks]
    try:
        for tensor, _ in dicts:
            tensor._backward_hooks = None
        yield
    finally:
        for tensor, hooks in dicts:
            tensor._backward_hooks = hooks


@contextmanager
def _hooked(hooks: Sequence[tuple[torch.Tensor, Callable[[torch.Tensor], Any]]]) -> Iterator[None]:
    """Hooks for a while. The user's handles count on as if these had never been, and a tensor has no dict of hooks that
    it did not have."""
    handles, next_id = [], RemovableHandle.next_id
    bare = [tensor for tensor, _ in hooks if tensor._backward_hooks is None]
    try:
        RemovableHandle.next_id = _OWN_IDS
        handles += [tensor.register_hook(function) for tensor, function in hooks]
    finally:
        RemovableHandle.next_id = next_id
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for tensor in bare:
            tensor._backward_hooks = None


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
