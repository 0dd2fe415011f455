"""Derivatives inside a frame: `autograd.grad` and `.backward()` are operations of the graph, `.grad` is an effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import get_gradient_edge

from symbolic.errors import GraphBreak
from symbolic.gradients import accumulate, obeys_layout, own_gradient
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tensors import METHODS, TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
FALSE = ConstantVariable(False)


def differentiate(outputs: Any, inputs: Any, tangents: Any, keep: Any, create: Any, unused: Any, zeros: Any) -> Any:
    """`torch.autograd.grad` in this thread."""
    with torch.autograd.set_multithreading_enabled(False):
        return torch.autograd.grad(
            outputs, inputs, tangents, keep, create, allow_unused=unused, materialize_grads=zeros
        )


def _tensors(tx: Translator, variable: Variable, what: str) -> list[Variable]:
    found = _optional_tensors(tx, variable)
    if not all(isinstance(item, TensorVariable) for item in found):
        raise GraphBreak(f"{what} of a derivative that are no tensors", variable.describe())
    return found


def _history(fakes: list[torch.Tensor]) -> Iterator[Any]:
    """The autograd nodes behind tensors."""
    seen: set[Any] = set()
    with torch.enable_grad():  # a leaf's node is found through a view of it
        waiting: list[Any] = [get_gradient_edge(fake).node for fake in fakes if fake.requires_grad]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions)


def _check_history(tx: Translator, nodes: list[Any], allowed: set[Any]) -> None:
    """The history of a tensor that came in is the caller's: a capture can't follow it."""
    for node in nodes:
        if node in tx.graph.foreign and node not in allowed:
            raise GraphBreak(
                "derivative through a tensor from outside", "a result of operations that ran before the frame",
                "compile the function that computes it, too",
            )


def _check_registered(tx: Translator, nodes: list[Any]) -> None:
    """Hooks of the frame's own are run by the gradients of tensors that exist."""
    for hook in tx.hooks:
        if not hook.removed and get_gradient_edge(hook.tensor.fake).node in nodes:
            raise GraphBreak("derivative for a tensor with hooks", hook.tensor.describe())


def _check_hooks(tx: Translator, variable: TensorVariable) -> None:
    if variable.source is None:
        return
    if not tx.options.unhooked(variable.value):
        raise GraphBreak("derivative for a tensor with hooks", variable.describe())
    tx.know(variable.source, "unhooked", None)


def _grad(
    tx: Translator, outputs: Variable, inputs: Variable, grad_outputs: Variable = NONE, retain_graph: Variable = NONE,
    create_graph: Variable = FALSE, allow_unused: Variable = NONE, is_grads_batched: Variable = FALSE,
    materialize_grads: Variable = FALSE,
) -> Variable:
    if is_grads_batched.constant():
        raise GraphBreak("batched derivatives", "is_grads_batched=True")
    results, wanted = _tensors(tx, outputs, "results"), _tensors(tx, inputs, "inputs")
    fakes = [item.fake for item in results if isinstance(item, TensorVariable)]
    allowed = {item.fake.grad_fn for item in wanted if isinstance(item, TensorVariable)}
    nodes = list(_history(fakes))
    _check_history(tx, nodes, allowed)
    _check_registered(tx, nodes)
    for item in wanted:
        assert isinstance(item, TensorVariable)
        _check_hooks(tx, item)
    unused = allow_unused
    if allow_unused.constant() is None and materialize_grads.constant():
        unused = ConstantVariable(True)
    tangents = grad_outputs if grad_outputs is NONE else tx.new_tuple(_optional_tensors(tx, grad_outputs))
    return tx.graph.call(
        differentiate,
        [tx.new_tuple(results), tx.new_tuple(wanted), tangents, retain_graph, create_graph, unused, materialize_grads],
    )


def _optional_tensors(tx: Translator, variable: Variable) -> list[Variable]:
    return [variable] if isinstance(variable, TensorVariable) else tx.unpack(variable)


def _backward(
    tx: Translator, result: Variable, gradient: Variable = NONE, retain_graph: Variable = NONE,
    create_graph: Variable = FALSE, inputs: Variable = NONE,
) -> Variable:
    """Gradients of all leaves behind a tensor (or of `inputs`), each added to what its leaf has."""
    assert isinstance(result, TensorVariable)
    if not result.fake.requires_grad:
        return _raise_like_eager(result)
    nodes = list(_history([result.fake]))
    _check_history(tx, nodes, set())
    _check_registered(tx, nodes)
    if inputs.is_constant() and inputs.constant() is None:
        leaves = [_leaf(tx, node.variable) for node in nodes if hasattr(node, "variable")]
    else:
        leaves = [item for item in _tensors(tx, inputs, "inputs") if isinstance(item, TensorVariable)]
        if not all(leaf.fake.is_leaf for leaf in leaves):
            raise GraphBreak("backward to tensors that are no leaves", result.describe())
    for leaf in leaves:
        _check_hooks(tx, leaf)
    tangents = gradient if gradient.is_constant() else tx.new_tuple([gradient])
    yes = ConstantVariable(True)
    found = tx.graph.call(
        differentiate,
        [tx.new_tuple([result]), tx.new_tuple(list(leaves)), tangents, retain_graph, create_graph, yes, FALSE],
    )
    taken = [v.fake.untyped_storage()._cdata for v in tx.graph.by_fake.values()]
    for leaf, new in zip(leaves, tx.unpack(found), strict=True):
        if isinstance(new, TensorVariable):
            shared = taken.count(new.fake.untyped_storage()._cdata) > 1
            _accumulate(tx, leaf, new, shared, bool(create_graph.constant()))
    return NONE


def _raise_like_eager(result: TensorVariable) -> Variable:
    raise GraphBreak("operation raises", f"backward of {result.describe()}, which does not require grad")


def _leaf(tx: Translator, fake: torch.Tensor) -> TensorVariable:
    found = tx.graph.by_fake.get(id(fake))
    if found is None:
        raise GraphBreak("derivative for a tensor that the frame does not know")
    return found


def _accumulate(tx: Translator, leaf: TensorVariable, new: TensorVariable, is_shared: bool, create: bool) -> None:
    """What AccumulateGrad does: the first gradient is taken over, further ones are added in place."""
    old = leaf.getattr(tx, "grad")
    if isinstance(old, TensorVariable):
        if create:
            tx.ledger.store(leaf, "grad", tx.graph.call(torch.add, [old, new]))
        else:
            tx.graph.call(accumulate, [old, new])
        return
    is_taken = not (is_shared or create) and obeys_layout(leaf.fake, new.fake)
    kept = new.method(tx, "detach", [], {}) if is_taken else tx.graph.call(own_gradient, [leaf, new])
    tx.ledger.store(leaf, "grad", kept)


HANDLERS[torch.autograd.grad] = _grad
METHODS["backward"] = _backward
