"""Attributes of tensors that tell of their life: how often they were written, what they are views of, their hooks."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from torch import fx

from symbolic.errors import GraphBreak
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tensors import ATTRIBUTES, TensorVariable
from symbolic.variables.torch_functions import is_operator

if TYPE_CHECKING:
    from symbolic.translator import Translator


def _refuse(name: str) -> GraphBreak:
    return GraphBreak("tensor attribute not known while tracing", name)


def _is_written_by_the_program(node: fx.Node) -> bool:
    """Whether eager code runs the same operation, which leaves of a tensor what it leaves of a stand-in."""
    while node.target is operator.getitem and not hasattr(node.args[0].meta["example_value"], "shape"):  # type: ignore[union-attr]
        node = node.args[0]  # type: ignore[assignment]
    target = node.target
    if node.op != "call_function":
        return node.op == "call_method"
    return is_operator(target) or target is getattr or getattr(target, "__module__", "") == "_operator"


def _version(tx: Translator, tensor: TensorVariable) -> Variable:
    """Of an input it is what it came with, and what the frame did since."""
    tx.repeats.tell(None)
    count = tx.attempt(getattr, tensor.fake, "_version")
    memory = tensor.fake.untyped_storage()._cdata
    alike = [each for each in tx.graph.by_fake.values() if each.fake.untyped_storage()._cdata == memory]
    inputs = [each for each in alike if each.node.op == "placeholder"]
    if tx.graph.inner or not all(_is_written_by_the_program(each.node) for each in alike if each not in inputs):
        raise _refuse("_version")
    if not inputs:
        return ConstantVariable(count)
    owner = tensor if tensor in inputs else next((each for each in inputs if each.fake is tensor.fake._base), None)
    if owner is None or owner.value is MISSING or owner.source is None or tx.graph.version_it_came_with(owner) != 0:
        raise _refuse("_version")
    if len(inputs) > 1 and not tx.graph.is_untouched(owner):  # some may count together, others by themselves
        raise _refuse("_version")
    before = tx.wrap(owner.value._version, owner.source.attr("_version"))
    return tx.binary(operator.add, before, ConstantVariable(count))


def _base(tx: Translator, tensor: TensorVariable) -> Variable:
    tx.repeats.tell(None)
    if tx.graph.inner or tx.graph.moves:
        raise _refuse("_base")
    if tensor.value is not MISSING and tensor.source is not None:
        return tx.wrap(tensor.value._base, tensor.source.attr("_base"))
    base = tx.attempt(getattr, tensor.fake, "_base")
    if base is None:
        if not _is_written_by_the_program(tensor.node):
            raise _refuse("_base")
        return ConstantVariable(None)
    if (known := tx.graph.by_fake.get(id(base))) is not None:
        return known
    for each in tx.graph.tensors():
        if each.fake._base is base and each.value is not MISSING and each.source is not None:
            return tx.wrap(each.value._base, each.source.attr("_base"))
    raise _refuse("_base")


def _backward_hooks(tx: Translator, tensor: TensorVariable) -> Variable:
    if any(hook.tensor is tensor for hook in tx.hooks):  # registered after the graph
        raise _refuse("_backward_hooks")
    if tensor.value is MISSING or tensor.source is None:
        return ConstantVariable(None)
    return tx.wrap(tensor.value._backward_hooks, tensor.source.attr("_backward_hooks"))


ATTRIBUTES.update(_version=_version, _base=_base, _backward_hooks=_backward_hooks)
