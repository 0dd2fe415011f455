"""Nodes of autograd's graph that the frame made: `tensor.grad_fn`, and hooks on them.

A hook of a node is registered by the residual code, as one of a tensor is: the results of the graph that the node gave
have a node of their own then. It is called with the gradients of what the node gave, so that is the same; those of what
the node was made of are the same only for a node that hands them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.autograd.graph import register_multi_grad_hook
from torch.nn.modules._functions import BackwardHookFunction

from symbolic.errors import ASKS_NODE, GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.hooks import NONE, HandleVariable, Hook, place_of, remove
from symbolic.variables.methods import NativeMethod
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.tables import handles, library
from symbolic.variables.tensors import NodeVariable, TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

ALL = ConstantVariable("all")
_MultiHandle: Any = type(register_multi_grad_hook((), lambda gradients: None))


class NodeMethod(NativeMethod):
    """`node.name`, of what can be answered."""

    owner: NodeVariable

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if self.name == "name" and not args:
            return ConstantVariable(self.owner.node.name())
        if self.name == "name" or len(args) != 1 or kwargs:
            raise GraphBreak(ASKS_NODE, self.describe())
        return _hook(tx, self.owner, self.name, args[0])


class Registration(NodeMethod):
    """The same as it is called after the graph, where the node of a compiled one will do: nobody gets hold of it."""

    def reachable(self) -> list[Variable]:
        return self.owner.reachable()


def _hook(tx: Translator, node: NodeVariable, kind: str, function: Variable) -> Variable:
    if not node.hands_on and (kind == "register_hook" or len(node.node._input_metadata) != 1):
        raise GraphBreak(ASKS_NODE, f"{kind} of {node.describe()}")
    handle = HandleVariable(None)
    tx.ledger.bear(handle, Registration(node, kind), function)
    tensor = node.first
    kind = f"node.{kind}" if len(node.node._input_metadata) == 1 else f"nodes.{kind}"
    tx.hooks.append(Hook(kind, tensor, function, handle, place_of(tensor), tx.anchor()))
    return handle


def _method(name: str) -> Any:
    return lambda tx, node: NodeMethod(node, name)


NodeVariable.ATTRIBUTES.update({name: _method(name) for name in ("name", "register_hook", "register_prehook")})
NodeVariable.HANDS_ON.add(BackwardHookFunction._backward_cls)


# --- hooks of several tensors -----------------------------------------------------------------------------------------
class MultiHandle(HandleVariable):
    """A handle born in the frame that stands for several, and has no number."""

    def find(self, tx: Translator, name: str) -> Variable | None:
        if name == "handles":
            raise GraphBreak("attribute of a hook's handle", name)
        return ObjectVariable.find(self, tx, name)

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name == "handles":
            raise GraphBreak("attribute of a hook's handle", name)
        ObjectVariable.plain_setattr(self, tx, name, value)


@handles(register_multi_grad_hook)
def _register_multi_grad_hook(
    tx: Translator, tensors: Variable, fn: Variable, *, mode: Variable = ALL
) -> Variable:
    """Called when the last gradient, or the first one, of these tensors is there."""
    found = tx.unpack(tensors)
    if mode.constant() == "any":
        found = [each for each in found if not isinstance(each, TensorVariable) or each.fake.requires_grad]
    elif mode.constant() != "all":
        raise GraphBreak("arguments do not fit the function", "mode of register_multi_grad_hook")
    if not all(isinstance(each, TensorVariable) and each.fake.requires_grad for each in found):
        raise GraphBreak("hook of tensors without a gradient", tensors.describe())
    handle = MultiHandle(None, _MultiHandle)
    tx.ledger.bear(handle, library(tx, register_multi_grad_hook), tx.new_tuple(found), fn, mode=mode)
    for tensor in found:
        assert isinstance(tensor, TensorVariable)
        tx.hooks.append(Hook("register_multi_grad_hook", tensor, fn, handle, place_of(tensor), tx.anchor()))
    return handle


@handles(_MultiHandle.remove)
def _remove(tx: Translator, self: Variable) -> Variable:
    if isinstance(self, HandleVariable):
        return remove(tx, self)
    for handle in tx.unpack(self.getattr(tx, "handles")):
        remove(tx, handle)
    return NONE
