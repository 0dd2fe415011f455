"""Guards on the memory of a graph's inputs: which are one tensor, which share memory, and where in it they begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak, Restart, SkipFrame
from symbolic.sources import Source
from symbolic.torch_state import hushed

if TYPE_CHECKING:
    from symbolic.graph import GraphBuilder
    from symbolic.translator import Translator
    from symbolic.variables.tensors import TensorVariable


def guard_aliases(graph: GraphBuilder) -> None:
    """Guards which inputs are one tensor, and which share memory, if the graph changes any of them; where in that they
    begin, if it is changed.

    A graph that only reads gives the same for two inputs as for one that comes in twice, and reads of what is written
    nowhere are the same wherever they overlap.
    """
    tensors = [each for each in graph.tensors() if each.source is not None and not each.source.is_made]
    _guard_buffers(graph)
    if len(tensors) < 2 or not graph.mutates_inputs():
        return
    graph.tx.apart(*tensors)
    memory: dict[int, list[TensorVariable]] = {}
    for variable in tensors:
        memory.setdefault(variable.value.untyped_storage()._cdata, []).append(variable)
    graph.tx.know(None, "storage", [[each.source for each in group] for group in memory.values()])
    for group in memory.values():
        if len(group) > 1 and graph.mutates_inputs(group):
            _guard_places(graph.tx, group)


def _guard_buffers(graph: GraphBuilder) -> None:
    """Guards that no input lies in the memory of a buffer that the frame read or changed."""
    for step, buffer in graph.tx.buffers[:1]:
        for variable in graph.tensors():
            source = variable.source
            if source is None:
                continue
            if source.is_made or not _owns_memory(variable.value):
                raise Restart(step, GraphBreak("buffer beside a tensor in memory of others", buffer.describe()))
            graph.tx.know(source, "predicate", _of(variable, _owns_memory))


def _guard_places(tx: Translator, group: list[TensorVariable]) -> None:
    """Guards where in the memory that they share these inputs lie, and which are views of one another."""
    if any(each.owner is not None for each in group):
        raise SkipFrame("a tensor of a class of the program shares memory with another")
    known: dict[int, Source] = {id(each.value): each.source for each in group if each.source is not None}
    for variable in group:
        value, source = variable.value, variable.source
        assert source is not None
        tx.know(source, "predicate", BeginsAt(value.storage_offset()))
        base = None if value.is_inference() else value._base
        tx.know(source, "predicate", _is_no_view if base is None else _is_view)
        if base is not None:
            of = source.attr("_base")
            if known.setdefault(id(base), of) is not of:
                tx.know(of, "same", known[id(base)])
    if len(known) > len(group):
        tx.know(None, "distinct", list(known.values()))


def guard_copied(tx: Translator, tensors: Sequence[TensorVariable]) -> None:
    """Guards that the memory which was copied for each of these lies apart, as it did: that of the tensor, if it came
    in, else that of the inputs which it is a view of; memory of the frame's own lies apart always."""
    if len(tensors) < 2:
        return
    inputs: dict[int, list[Source]] = {}
    for each in tx.graph.tensors():
        inputs.setdefault(each.fake.untyped_storage()._cdata, []).extend(_given(each))
    groups = [found for each in tensors if (found := _given(each) or inputs.get(each.fake.untyped_storage()._cdata))]
    if len(groups) > 1:
        tx.know(None, "storage", groups)


def _given(variable: TensorVariable) -> list[Source]:
    """Where the tensor came in, if it did."""
    return [] if variable.source is None or variable.source.is_made else [variable.source]


def guard_offset(graph: GraphBuilder, variable: TensorVariable) -> None:
    """Guards where in their memory the inputs begin that `variable` may be a view of. Breaks for a tensor of an array,
    which begins elsewhere than the graph's says."""
    graph.tx.repeats.tell(None)
    memory = variable.fake.untyped_storage()._cdata
    if any(part.fake.untyped_storage()._cdata == memory for _, part in graph.tx.lent_parts):
        raise GraphBreak("tensor of a part of an array, or of an array in a tensor's memory", "where it begins")
    for known in graph.tensors():
        if known.source is not None and known.fake.untyped_storage()._cdata == memory:
            graph.tx.know(known.source, "predicate", _of(known, BeginsAt(known.value.storage_offset())))


def only_claims(tx: Translator, variable: TensorVariable) -> bool:
    """Whether it may be a view made without grad that says it requires a gradient, as its base does, and gets none.
    For an input that is guarded."""
    if variable.source is not None:
        known = _only_claims if _only_claims(variable.value) else _keeps_its_word
        tx.know(variable.source, "predicate", _of(variable, known))
    return _only_claims(variable.fake)


def _of(variable: TensorVariable, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The predicate for a guard, which asks no class of the program's."""
    return holds if variable.owner is None else hushed(holds)


class BeginsAt:
    """storage offset as it was"""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def __call__(self, value: Any) -> bool:
        return value.storage_offset() == self.offset


def _owns_memory(value: torch.Tensor) -> bool:
    """memory of its own"""
    return value.untyped_storage().resizable()


def _is_view(value: torch.Tensor) -> bool:
    """a view"""
    return not value.is_inference() and value._is_view()


def _is_no_view(value: torch.Tensor) -> bool:
    """no view"""
    return not _is_view(value)


def _only_claims(value: torch.Tensor) -> bool:
    """a view made without grad, which may get no gradient though it says so"""
    if not _is_view(value) or not value._base.requires_grad:  # type: ignore[union-attr]
        return False
    # Of its history it may not be asked: autograd would take it again where it was written, and may fail to.
    return bool(torch._C._autograd._get_creation_meta(value) != torch._C._autograd.CreationMeta.DEFAULT)


def _keeps_its_word(value: torch.Tensor) -> bool:
    """no view made without grad"""
    return not _only_claims(value)
