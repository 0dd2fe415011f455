"""Hooks of tensors, and the handles that take hooks away: `RemovableHandle`.

A hook that the frame registers is registered by the residual code, after the graph, on the tensor that came of it:
what autograd does with it is the same, as long as the tensor's place in the history is the same. The handle is what
that call answers; so handles get their numbers in eager's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from symbolic.errors import GraphBreak, Restart
from symbolic.torch_state import hushed
from symbolic.variables.base import Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.hook_dicts import HookNumber, HooksVariable, number_of
from symbolic.variables.identity import IdVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.tables import handles, is_tensor
from symbolic.variables.tensors import METHODS, TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
#: Attributes of a handle that only the running program knows, by a weak reference.
_WEAK = ("hooks_dict_ref", "extra_dict_ref")


# --- handles ----------------------------------------------------------------------------------------------------------
class HandleVariable(ObjectVariable):
    """A RemovableHandle born in the frame. `dicts` are those of the hook, the first one and further ones; None for a
    hook of a tensor, whose dict is not looked into."""

    def __init__(self, dicts: list[DictVariable] | None, cls: type = RemovableHandle) -> None:
        super().__init__(cls)
        self.dicts = dicts
        self.number = HandleNumber(self)

    def find(self, tx: Translator, name: str) -> Variable | None:
        if name in _WEAK or name == "next_id":
            raise GraphBreak("attribute of a hook's handle", name)
        return self.number if name == "id" else super().find(tx, name)

    def reachable(self) -> list[Variable]:
        return [*(self.dicts or ())]

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name in _WEAK or name == "id":
            raise GraphBreak("attribute of a hook's handle", name)
        super().plain_setattr(tx, name, value)


class KnownHandle(ObjectVariable):
    """A RemovableHandle that was there before the frame."""

    def find(self, tx: Translator, name: str) -> Variable | None:
        if name in _WEAK or name == "next_id":
            raise GraphBreak("attribute of a hook's handle", name)
        return self.number(tx) if name == "id" else super().find(tx, name)

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name in _WEAK or name == "id":
            raise GraphBreak("attribute of a hook's handle", name)
        super().plain_setattr(tx, name, value)

    def number(self, tx: Translator) -> HookNumber:
        assert self.source is not None
        return number_of(tx, self.value.id, self.source.step("dict").step("item", "id"))

    def dicts(self, tx: Translator) -> list[HooksVariable]:
        """Those of the hook that are alive."""
        assert self.source is not None
        attributes = self.source.step("dict")
        first, further = attributes.step("item", "hooks_dict_ref"), attributes.step("item", "extra_dict_ref")
        tx.know(further, "len", len(self.value.extra_dict_ref))
        refs = [(self.value.hooks_dict_ref, first)]
        refs += [(ref, further.step("index", at)) for at, ref in enumerate(self.value.extra_dict_ref)]
        found = []
        for ref, source in refs:
            target = ref()
            if target is None:
                tx.know(source, "predicate", _is_dead)
                continue
            known = tx.wrap(target, source.step("referent"))
            if not isinstance(known, HooksVariable):
                raise GraphBreak("handle of something else than dicts", known.describe())
            found.append(known)
        return found


def _is_dead(ref: Any) -> bool:
    """a dict that is gone"""
    return ref() is None


class HandleNumber(IdVariable):
    """`handle.id`: later than all that there were before the frame."""

    family = HookNumber.family

    def __init__(self, owner: HandleVariable) -> None:
        super().__init__(owner)
        self.owner = owner
        self.name = "id"

    def key(self) -> Any:
        return self

    @staticmethod
    def absent_if(keys: Any) -> bool:
        """no number of a handle to come"""
        return all(key < RemovableHandle.next_id for key in keys if isinstance(key, int))

    def describe(self) -> str:
        return "id of a handle born in the frame"


def _made(tx: Translator, hooks_dict: Variable, *, extra_dict: Variable = NONE) -> Variable:
    """`RemovableHandle(hooks_dict, extra_dict=extra_dict)`"""
    extra: list[Variable] = [] if extra_dict is NONE else [extra_dict]
    if not isinstance(extra_dict, (ConstantVariable, DictVariable)):
        extra = tx.unpack(extra_dict)
    dicts = [each for each in (hooks_dict, *extra) if isinstance(each, DictVariable)]
    if len(dicts) != 1 + len(extra):
        raise GraphBreak("handle of something else than dicts", hooks_dict.describe())
    handle = HandleVariable(dicts)
    kwargs = {} if extra_dict is NONE else {"extra_dict": extra_dict}
    tx.ledger.bear(handle, tx.class_variable(RemovableHandle), hooks_dict, **kwargs)
    return handle


NATIVE_CONSTRUCTORS[RemovableHandle] = lambda tx, args, kwargs: _made(tx, *args, **kwargs)


@handles(RemovableHandle.remove)
def remove(tx: Translator, self: Variable) -> Variable:
    if isinstance(self, KnownHandle):
        for known in self.dicts(tx):
            known.discard(tx, self.number(tx))
        return NONE
    if not isinstance(self, HandleVariable):
        raise GraphBreak("handle of a hook registered before", self.describe())
    if self.dicts is None:
        tx.ledger.call(tx.class_attribute(self.cls, "remove"), self)
        for hook in tx.hooks:
            hook.removed = hook.removed or hook.handle is self
    for each in self.dicts or ():
        each.remove(tx, self.number)
    return NONE


handles(RemovableHandle.__enter__)(lambda tx, self: self)
handles(RemovableHandle.__exit__)(lambda tx, self, type, value, tb: self.method(tx, "remove", [], {}))


# --- hooks of tensors -------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Hook:
    """What the frame asked autograd to do with the gradient of `tensor`, by the method `kind`, be it one of its node.
    `place` is where in the history the tensor stood, `born_at` the step to break at if it moves on."""

    kind: str
    tensor: TensorVariable
    function: Variable | None
    handle: HandleVariable | None
    place: Any
    born_at: int
    removed: bool = False


def place_of(tensor: TensorVariable) -> Any:
    """Where its gradient goes. That of a leaf goes elsewhere when its data comes to be of another dtype or device."""
    fake = tensor.fake
    try:
        return fake.grad_fn, fake.requires_grad, fake.dtype, fake.device
    except RuntimeError:  # a view that autograd would have to take again, and can't
        return None


def _hook(tx: Translator, kind: str, tensor: TensorVariable, function: Variable | None) -> HandleVariable | None:
    handle = HandleVariable(None) if function is not None else None
    args = [function] if function is not None else []
    if tensor.owner is None:
        tx.ledger.bear(handle, NativeMethod(tensor, kind), *args)
    else:
        tx.ledger.bear(handle, tx.from_constant(_QUIETLY[kind]), tensor, *args)
    tx.hooks.append(Hook(kind, tensor, function, handle, place_of(tensor), tx.anchor()))
    return handle


#: The methods, of tensors whose class is not to be asked.
_QUIETLY = {
    kind: hushed(getattr(torch.Tensor, kind))
    for kind in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")
}


def settle(tx: Translator) -> None:
    """At the end of the capture. Raises `Restart` for a hook of a tensor that was written after: it is of the gradient
    of what was there before."""
    for hook in tx.hooks:
        if place_of(hook.tensor) != hook.place:
            raise Restart(hook.born_at, GraphBreak("tensor with hooks is written", hook.tensor.describe()))


def _register_hook(tx: Translator, self: TensorVariable, hook: Variable) -> Variable:
    if not self.fake.requires_grad:
        _refuse(tx, self, "register_hook")
    return _hook(tx, "register_hook", self, hook) or NONE


def _register_post_accumulate_grad_hook(tx: Translator, self: TensorVariable, hook: Variable) -> Variable:
    if not self.fake.requires_grad or not tx.truth(self.getattr(tx, "is_leaf")):
        _refuse(tx, self, "register_post_accumulate_grad_hook")
    return _hook(tx, "register_post_accumulate_grad_hook", self, hook) or NONE


def _retain_grad(tx: Translator, self: TensorVariable) -> Variable:
    if not self.fake.requires_grad:
        _refuse(tx, self, "retain_grad")
    if not tx.truth(self.getattr(tx, "is_leaf")) and not tx.truth(self.getattr(tx, "retains_grad")):
        self.fake.retain_grad()
        _hook(tx, "retain_grad", self, None)
    return NONE


def _refuse(tx: Translator, tensor: TensorVariable, kind: str) -> None:
    """Raises what eager code raises."""
    tx.attempt(getattr(torch.Tensor, kind), tensor.fake, *(() if kind == "retain_grad" else (None,)))


def _unbound(name: str) -> Callable[..., Variable]:
    """The method as the class has it."""

    def call(tx: Translator, tensor: Variable, *args: Variable, **kwargs: Variable) -> Variable:
        if not is_tensor(tensor):
            raise GraphBreak("arguments do not fit the function", f"torch.Tensor.{name}")
        return tensor.method(tx, name, list(args), kwargs)

    return call


METHODS.update(
    register_hook=_register_hook,
    register_post_accumulate_grad_hook=_register_post_accumulate_grad_hook,
    retain_grad=_retain_grad,
)
handles(torch.Tensor.register_hook)(_unbound("register_hook"))
handles(torch.Tensor.register_post_accumulate_grad_hook)(_unbound("register_post_accumulate_grad_hook"))
HANDLERS[torch.Tensor.retain_grad] = _unbound("retain_grad")
