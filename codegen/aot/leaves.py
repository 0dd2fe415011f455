"""Inputs that come to require a gradient while a program runs, or to require none, and their views."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from codegen.aot.inputs import FragileInputs, answers
from codegen.aot.levels import edge_of, node_of
from codegen.aot.memory import Untraceable
from symbolic.reworded import IN_OTHER_WORDS

_CreationMeta = torch._C._autograd.CreationMeta
_WITHOUT_GRAD = (_CreationMeta.NO_GRAD_MODE, _CreationMeta.INFERENCE_MODE)
_REQUIRES_GRAD = frozenset({torch.Tensor.requires_grad_, vars(torch._C.TensorBase)["requires_grad"].__set__})
_SWITCHES = _REQUIRES_GRAD | {torch.Tensor.detach_, torch.detach_}
_OF_MEMORY = frozenset({torch.Tensor.untyped_storage, torch.Tensor.storage, torch.Tensor.storage_offset})


class Switches(TorchFunctionMode):
    """Notes of which tensors the program says that they require a gradient or none, be it for a while; `seen` are their
    ids; and whether it has `asked` how tensors lie in their memory. Raises FragileInputs for the stand-ins (by id) of
    `claimants`: these get a gradient from then on, and leaves that always do can't tell."""

    def __init__(self, claimants: Container[int]) -> None:
        super().__init__()
        self.claimants = claimants
        self.seen: set[int] = set()
        self.asked = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _SWITCHES:
            if func in _REQUIRES_GRAD and id(args[0]) in self.claimants:
                raise FragileInputs
            self.seen.add(id(args[0]))
        self.asked = self.asked or func in _OF_MEMORY
        return IN_OTHER_WORDS.get(func, func)(*args, **(kwargs or {}))


def is_leaf(fake: torch.Tensor) -> bool:
    """Whether an input needs a gradient for itself. Raises Untraceable where autograd knows it by other sizes."""
    if not fake.requires_grad or node_of(fake) is not None:
        return False
    if torch.is_inference_mode_enabled():
        if not fake.is_inference():
            raise Untraceable("requires_grad_() of an input in inference mode")
        return True
    edge = edge_of(fake)
    if edge is not None and tuple(edge.node._input_metadata[0].shape) != tuple(fake.shape):
        raise Untraceable("requires_grad_() of an input that changes its sizes later")
    return edge is not None


def is_taken_before(view: torch.Tensor) -> bool:
    """Whether a view of such an input was taken before this came to require a gradient; it has none then."""
    meta = torch._C._autograd._get_creation_meta(view) if view._is_view() else None
    return view.grad_fn is None and meta not in _WITHOUT_GRAD


def check_views(values: Sequence[Any]) -> None:
    """Refuses views that autograd would have to take again from their base, and can't."""
    for value in values:
        if isinstance(value, FakeTensor) and not answers(value):
            raise Untraceable("torch fails to take a view again")
