"""Tensors of the program's own classes: a plain tensor in the graph, and around it an object of that class."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import BINARY, INPLACE, MISSING, UNARY, Variable, lookup
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.objects import NATIVE_DESCRIPTORS, ObjectVariable
from symbolic.variables.positions import is_python_class
from symbolic.variables.tensors import METHODS, TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: What classes have that torch asks nothing.
_ASKS_NOBODY = torch._C._disabled_torch_function_impl
_ITERATES = torch.Tensor.__iter__  # over itself, by what it hands on
NOT_WRAPPED = torch.overrides.get_default_nowrap_functions()
_alias = torch.ops.aten.alias.default


class SubclassVariable(ObjectVariable):
    """An object of a class derived from `torch.Tensor`; the `payload` is the tensor, as torch's own code sees it.

    What the class inherits from torch goes to its `__torch_function__`, and to the tensor where nobody asks for that.
    """

    payload: TensorVariable

    def __init__(self, cls: type, payload: TensorVariable, value: Any = MISSING, source: Source | None = None) -> None:
        super().__init__(cls, value, source, payload)
        asked = lookup(cls, "__torch_function__")
        self.overrides = asked is not _ASKS_NOBODY
        self.is_usual = asked is torch.Tensor.__dict__["__torch_function__"]

    def key(self) -> Any:
        if lookup(self.cls, "__hash__") is not torch.Tensor.__hash__:
            raise GraphBreak("hash of an object with its own __hash__", self.describe())
        return Variable.key(self)

    def _is_torchs(self, tx: Translator, name: str) -> bool:
        return tx.lookup(self.cls, name) is lookup(torch.Tensor, name)

    # --- attributes -------------------------------------------------------------------------------------------------
    def _describe(self, tx: Translator, name: str, raw: Any) -> Variable:
        is_torchs = type(raw) is FunctionType and raw is torch.Tensor.__dict__.get(name) and raw is not _ITERATES
        return TorchMethod(self, name) if is_torchs else super()._describe(tx, name, raw)

    def _native(self, tx: Translator, name: str, raw: Any) -> Variable:
        is_torchs = getattr(raw, "__objclass__", None) is torch._C.TensorBase
        return TorchMethod(self, name) if is_torchs else super()._native(tx, name, raw)

    def _getset(self, tx: Translator, name: str, raw: Any) -> Variable:
        if getattr(raw, "__objclass__", None) is not torch._C.TensorBase:
            return super()._getset(tx, name, raw)
        answer = tx.overrides.ask(tx, getattr, [self, ConstantVariable(name)])
        if answer is not None:
            return answer
        found = self.payload.getattr(tx, name)
        return found if raw.__get__ in NOT_WRAPPED else self._given(tx, found)

    def plain_setattr(self, tx: Translator, name: str, value: Variable) -> None:
        raw = tx.descriptor(self.cls, name)
        if not isinstance(raw, GetSetDescriptorType) or raw.__objclass__ is not torch._C.TensorBase:
            super().plain_setattr(tx, name, value)
        elif tx.overrides.ask(tx, setattr, [self, ConstantVariable(name), value]) is None:
            self.payload.setattr(tx, name, plain(value))

    # --- operations -------------------------------------------------------------------------------------------------
    def _given(self, tx: Translator, result: Any) -> Any:
        """What the class makes of the result of an operation on its tensor."""
        if not isinstance(result, Variable):
            return result
        result = whole(result)
        return converted(tx, result, self.cls) if tx.overrides.converts(self) else result

    def torch_method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """The method that `torch.Tensor` has by that name, whatever the class has."""
        answer = tx.overrides.ask(tx, operator.methodcaller, [self, *args], kwargs, name)
        if answer is not None:
            return answer
        named = {key: plain(each) for key, each in kwargs.items()}
        found = whole(self.payload.method(tx, name, [plain(each) for each in args], named))
        is_asked = tx.overrides.converts(self) and tx.overrides.hands_on(tx, name, [self, *args], kwargs)
        return converted(tx, found, self.cls) if is_asked else found

    def _ask(self, tx: Translator, name: str, args: list[Variable], native: Any, convert: Any) -> Any:
        if not isinstance(tx.lookup(self.cls, name), NATIVE_DESCRIPTORS):  # a method of its own says what it gives
            return super()._ask(tx, name, args, native, convert)
        answer = tx.overrides.ask(tx, operator.methodcaller, [self, *args], {}, name)
        if answer is not None:
            return convert(answer)
        return self._given(tx, super()._ask(tx, name, args, native, convert))

    def unary(self, tx: Translator, op: Any) -> Variable:
        answer = tx.overrides.ask(tx, op, [self]) if self._is_torchs(tx, UNARY[op]) else None
        return super().unary(tx, op) if answer is None else answer

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if not self._is_torchs(tx, BINARY[op][0]):
            return super().binary(tx, op, other)
        answer = tx.overrides.ask(tx, op, [self, other])
        return self._given(tx, self.payload.binary(tx, op, plain(other))) if answer is None else answer

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if not self._is_torchs(tx, BINARY[op][1]):
            return super().rbinary(tx, op, other)
        answer = tx.overrides.ask(tx, op, [other, self])
        return self._given(tx, self.payload.rbinary(tx, op, plain(other))) if answer is None else answer

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if not self._is_torchs(tx, INPLACE[op][1]):
            return super().inplace(tx, op, other)
        answer = tx.overrides.ask(tx, op, [self, other])
        return self._given(tx, self.payload.inplace(tx, op, plain(other))) if answer is None else answer

    def rinplace(self, tx: Translator, op: Any, other: TensorVariable) -> Variable:
        """`op(other, self)` of a tensor that is of no class of the program's, and is written."""
        return self._given(tx, other.inplace(tx, op, self.payload))

    def iterator(self, tx: Translator) -> Variable:
        function = self.special(tx, "__iter__")
        return super().iterator(tx) if function is None else tx.call(function, [], {}).iterator(tx)

    def reachable(self) -> list[Variable]:
        return [self.payload]


class TorchMethod(NativeMethod):
    """A method of torch's, bound."""

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        owner: Any = self.owner
        return owner.torch_method(tx, self.name, args, kwargs)


def through(variable: Variable, change: Callable[[Variable], Variable]) -> Variable:
    """What `change` makes of a value, and of those in tuples and lists: these stay where nothing in them changes."""
    if not isinstance(variable, (TupleVariable, ListVariable)) or variable.python_type() is torch.Size:
        return change(variable)
    items = [through(each, change) for each in variable.items]
    if all(item is each for item, each in zip(items, variable.items, strict=True)):
        return variable
    is_list = isinstance(variable, ListVariable)
    return ListVariable(items) if is_list else TupleVariable(items, None, variable.python_type())


def plain(variable: Variable) -> Variable:
    """What torch's code gets where no `__torch_function__` is asked."""
    return through(variable, lambda each: each.payload if isinstance(each, SubclassVariable) else each)


def whole(variable: Variable) -> Variable:
    """The object whose tensor an operation gave, as those in place do; any other result as it is."""
    return through(variable, _owner)


def _owner(variable: Variable) -> Variable:
    owner = getattr(variable, "owner", None) if isinstance(variable, TensorVariable) else None
    return owner if isinstance(owner, SubclassVariable) else variable


def converted(tx: Translator, result: Variable, cls: type) -> Variable:
    """What `torch.Tensor.__torch_function__` makes of a result: an object of the class."""

    def convert(variable: Variable) -> Variable:
        if not isinstance(variable, TensorVariable):
            return variable
        if type(variable) is not TensorVariable:
            raise GraphBreak("tensor subclass", variable.describe())
        return _made(tx, cls, tx.graph.call(_alias, [variable]))

    return through(result, convert)


def _check_usual(cls: type) -> None:
    """Breaks where torch has more to say of objects of the class than what `__torch_function__` tells."""
    is_usual = (
        lookup(cls, "__torch_dispatch__") is torch.Tensor.__torch_dispatch__
        and type(cls) is type(torch.Tensor)
        and is_python_class(cls)
        and not any("__slots__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(torch.Tensor)])
        and not issubclass(cls, torch.nn.Parameter)
    )
    if not is_usual:
        raise GraphBreak("tensor subclass", cls.__qualname__)


def existing(tx: Translator, value: torch.Tensor, source: Source) -> Variable:
    """One that the frame found."""
    _check_usual(type(value))
    if is_traceable_wrapper_subclass(value) or source.kind == "const" or source.root.kind == "born":
        raise GraphBreak("tensor subclass", type(value).__qualname__)
    tensor = tx.graph.add_input(value, source)
    tx.graph.hushed = True
    return SubclassVariable(type(value), tensor, value, source)


def _made(tx: Translator, cls: Any, tensor: Variable) -> Variable:
    """A tensor that nobody else has, as an object of the class."""
    if cls is torch.Tensor:
        return tensor
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor) or type(tensor) is not TensorVariable:
        raise GraphBreak("tensor subclass", tensor.describe())
    _check_usual(cls)
    return SubclassVariable(cls, tensor)


def new(tx: Translator, cls: type, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`torch.Tensor.__new__(cls, ...)`"""
    _check_usual(cls)
    given = [plain(each) for each in args]
    return _made(tx, cls, NATIVE_CONSTRUCTORS[torch.Tensor](tx, given, kwargs))


def _as_subclass(tx: Translator, tensor: TensorVariable, cls: Variable) -> Variable:
    return _made(tx, cls.real(), tx.graph.call(_alias, [tensor]))


def _make_subclass(
    tx: Translator, cls: Variable, data: Variable, require_grad: Variable | None = None, **others: Variable
) -> Variable:
    if others or (require_grad is not None and require_grad.constant()):
        raise GraphBreak("tensor subclass", "one that requires gradients, made in the frame")
    return _made(tx, cls.real(), tx.graph.call_method("detach", [plain(data)]))


METHODS["as_subclass"] = _as_subclass
HANDLERS[torch.Tensor._make_subclass] = _make_subclass

