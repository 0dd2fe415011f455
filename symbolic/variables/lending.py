"""Tensors in the memory of arrays, and arrays in the memory of tensors.

A tensor that is made of an array has a storage of its own, which begins where the array does. In the graph it is an
alias of what the array stands for, as writes are seen through both. Where the two can be told apart (one that leaves
the frame, or is asked where it begins), the graph breaks instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import fx

from symbolic.errors import GraphBreak, Restart, SkipFrame
from symbolic.variables.arrays import (
    OF_TORCH,
    ArrayVariable,
    Backwards,
    ExistingArray,
    Look,
    about_to_write,
    check_modes,
    check_sizes,
    memory_of,
    record,
)
from symbolic.variables.base import Variable
from symbolic.variables.checkpoints import reachable
from symbolic.variables.either import memory
from symbolic.variables.tensors import NumberOutput, TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_BEGINS = ("as_strided", torch.as_strided)


def lend(tx: Translator, array: ArrayVariable) -> TensorVariable:
    """`torch.from_numpy(array)`"""
    check_modes(tx)
    if isinstance(array, Backwards):
        raise GraphBreak("operation raises", "tensor of an array with negative strides")
    about_to_write(tx, array)
    tensor = record(tx, getattr, array.tensor, "data")
    if array.memory.lent_at is not None or not _is_all(tensor.fake):
        tx.lent_parts.append((tx.anchor(), tensor))
    if array.memory.lent_at is None:
        array.memory.lent_at = tx.anchor()
    return tensor


def _is_all(fake: torch.Tensor) -> bool:
    """Whether it is all that lies in its memory."""
    reach = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True))
    return not fake.storage_offset() and fake.untyped_storage().nbytes() == (reach + 1) * fake.itemsize


def in_memory_of(tx: Translator, tensor: TensorVariable) -> Variable:
    """`tensor.numpy()`"""
    check_modes(tx)
    fake = tensor.fake
    if fake.requires_grad or fake.device.type != "cpu" or fake.is_conj() or fake.is_neg() or fake.dtype not in OF_TORCH:
        raise GraphBreak("tensor method not captured", "numpy")
    check_sizes(tensor)
    if tx.graph.moves or tensor.cls is not torch.Tensor:
        raise GraphBreak("tensor method not captured", "numpy")
    tx.lent_tensors.append((tx.anchor(), tensor, _place(tensor)))
    alias = record(tx, getattr, tensor, "data")
    dtype = OF_TORCH[fake.dtype]
    look = Look(dtype, tuple(fake.shape), tuple(stride * dtype.itemsize for stride in fake.stride()))
    array = ArrayVariable(tx, look, alias, recipe=(shown, [tensor]))
    array.memory.is_written, array.memory.lent_at = True, tx.anchor()
    return array


def shown(tensor: torch.Tensor) -> Any:
    """`tensor.numpy()`, of one that may require a gradient by now, too."""
    return tensor.detach().numpy()


def _place(tensor: TensorVariable) -> Any:
    """Where it lies, and how."""
    return tensor.fake.shape, tensor.fake.stride(), tensor.fake.storage_offset()


def close(tx: Translator) -> None:
    """At the end of the frame. Raises `Restart`."""
    for step, tensor, lay in tx.lent_tensors:
        if tx.graph.moves or _place(tensor) != lay:
            raise Restart(step, GraphBreak("array in the memory of a tensor that comes to lie elsewhere"))
    if not tx.lent_parts:
        return
    left = [each for each in reachable(tx, [tx.result]) if _is_tensor(each)]
    asked = [node.args[0] for node in tx.graph.root.nodes if node.target in _BEGINS]
    for step, tensor in tx.lent_parts:
        nodes = {each.node for each in left if memory_of(each) == memory_of(tensor)}
        told = any(isinstance(node, fx.Node) and tensor.node in _same_memory(node) for node in (*nodes, *asked))
        if told:
            raise Restart(step, GraphBreak("tensor of a part of an array, or of an array in a tensor's memory"))


def _is_tensor(variable: Variable) -> TypeGuard[TensorVariable]:
    return isinstance(variable, TensorVariable) and not isinstance(variable, NumberOutput)


def _same_memory(node: fx.Node) -> Iterator[fx.Node]:
    """It, and what it was made of in the same memory."""
    value, waiting = node.meta.get("example_value"), [node]
    while waiting and isinstance(value, torch.Tensor):
        at = waiting.pop()
        yield at
        values = ((each, each.meta.get("example_value")) for each in at.all_input_nodes)
        waiting += [each for each, of in values if isinstance(of, torch.Tensor) and memory(of) == memory(value)]


def _are_disjoint(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether none of them lies in the memory of another storage. The guard on memory looks in the same way."""
    spans = [(*_span(tensor), tensor.untyped_storage()._cdata) for tensor in tensors]
    reached: dict[int, int] = {}  # by storage
    for begin, end, storage in sorted(span for span in spans if span[1] > span[0]):
        if any(begin < other_end for other, other_end in reached.items() if other != storage):
            return False
        reached = {storage: max(end, reached.get(storage, 0))}
    return True


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The memory that it lies in."""
    if not tensor.numel():
        return 0, 0
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.itemsize


def guard_memory(tx: Translator) -> None:
    """Refuses inputs that share memory which is not torch's, if any of them is written."""
    inputs = [each.value for each in tx.graph.tensors() if each.source is not None and not each.source.is_made]
    if len(inputs) < 2 or not tx.graph.mutates_inputs() or not any(map(_is_foreign, inputs)) or _are_disjoint(inputs):
        return
    steps = [each.asked_at for each in tx.known.values() if isinstance(each, ExistingArray) and each.asked_at >= 0]
    if not steps:
        raise SkipFrame("tensors that share memory which is not torch's")
    raise Restart(min(steps), GraphBreak("array that shares memory with a tensor"))


def _is_foreign(value: torch.Tensor) -> bool:
    return not value.untyped_storage().resizable()
