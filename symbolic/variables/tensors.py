"""Tensors: a node of the graph and a fake tensor that knows shape, dtype, device and requires_grad."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._pytree import tree_leaves

from sideeffects.effects import DELETED
from symbolic import input_memory
from symbolic.branches import choice_of
from symbolic.errors import ASKS_NODE, UNSURE, GraphBreak
from symbolic.gradients import differentiate_with
from symbolic.signatures import takes
from symbolic.sources import Source
from symbolic.variables.base import MISSING, UNARY, Variable, lookup
from symbolic.variables.constants import ConstantVariable, is_constant_value
from symbolic.variables.foreseen import count, foresee, item, truth
from symbolic.variables.methods import NativeMethod
from symbolic.variables.positions import as_index, has_own, index_method
from symbolic.variables.tensor_methods import replacement

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: Methods and attributes whose answer needs the tensor's data, the storage's address, or the autograd graph.
DATA_METHODS = frozenset(
    """item tolist numpy data_ptr const_data_ptr storage untyped_storage storage_offset_ptr __array__ __bool__ __int__
    __float__ __index__ __complex__ __len_data__ share_memory_ is_pinned is_shared is_set_to _is_view __dlpack__
    __cuda_array_interface__ __reduce_ex__ _reduce_ex_internal __getstate__ __deepcopy__ pin_memory storage_type
    _typed_storage""".split()
)
#: name -> handler(tx, tensor, *args, **kwargs) of methods that are more than an operation
METHODS: dict[str, Callable[..., Variable]] = {}
#: name -> handler(tx, tensor) of attributes that are more than a property of a stand-in
ATTRIBUTES: dict[str, Callable[[Any, Any], Variable]] = {}
#: Attributes that tell where a tensor comes from: no property that a tensor guard compares.
HISTORY = frozenset({"is_leaf", "output_nr", "retains_grad"})
#: What makes the tensor itself one of other sizes.
RESHAPING = frozenset(
    "resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split()
)
GRAPH_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})


#: What stands for a number that is none of Python's -> (tx, variable) -> the number that torch takes it for
AS_NUMBERS: dict[type, Callable[[Any, Variable], Variable]] = {}


#: What stands for a position that is none of Python's -> (tx, variable, where the tensor is) -> what torch takes it for
AS_POSITIONS: dict[type, Callable[[Any, Variable, torch.device], Variable]] = {}


#: They want the kinds of numbers that their schemas say.
_OF_SCHEMAS = (OpOverload, OpOverloadPacket)
#: Names of functions written in Python that want an `int` where the others take any whole number.
_OF_INTEGERS = frozenset(("split", "norm", "tensordot"))


def as_number(tx: Translator, variable: Variable) -> Variable:
    convert = AS_NUMBERS.get(type(variable))
    return variable if convert is None else convert(tx, variable)


def as_numbers(
    tx: Translator, function: Any, args: list[Variable], kwargs: dict[str, Variable]
) -> tuple[list[Variable], dict[str, Variable]]:
    """The arguments as `function`, or the method of that name, takes them."""
    others = [each for each in (*args, *kwargs.values()) if type(each) in AS_NUMBERS]
    if others and (isinstance(function, _OF_SCHEMAS) or getattr(function, "__name__", function) in _OF_INTEGERS):
        raise GraphBreak("array beside a tensor", others[0].describe())
    return [as_number(tx, arg) for arg in args], {name: as_number(tx, arg) for name, arg in kwargs.items()}


def _asking(ask: Callable[..., Variable | None], convert: Callable[[Any, Variable], Any] | None = None) -> Any:
    """Of a method: where the frame has entered a mode of torch's functions, `ask(tx, self, ...)` comes first."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(self: Any, tx: Translator, *args: Any) -> Any:
            answer = ask(tx, self, *args) if tx.overrides.has_modes else None
            if answer is None:
                return method(self, tx, *args)
            return answer if convert is None else convert(tx, answer)

        return run

    return decorate


def _ask_method(
    tx: Translator, tensor: Variable, name: str, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable | None:
    return tx.overrides.ask(tx, operator.methodcaller, [tensor, *args], kwargs, name)


def _ask_attribute(tx: Translator, tensor: Variable, name: str, *value: Variable) -> Variable | None:
    if not isinstance(getattr(torch._C.TensorBase, name, None), GetSetDescriptorType):
        return None
    return tx.overrides.ask(tx, setattr if value else getattr, [tensor, ConstantVariable(name), *value])


class TensorVariable(Variable):
    """A tensor: `node` in the graph, `fake` for its properties, `cls` its exact type, `value` it if it exists."""

    #: Whether it may be another one, too, which is known when the graph runs.
    is_unsure = False
    #: The object of the program's class that it is the tensor of, if it is.
    owner: Any = None

    def __init__(
        self,
        node: fx.Node,
        fake: torch.Tensor,
        cls: type = torch.Tensor,
        value: Any = MISSING,
        source: Source | None = None,
    ) -> None:
        self.node = node
        self.fake = fake
        self.cls = cls
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def real(self) -> Any:
        return self.value

    def is_one(self) -> bool:
        """Whether it is known to have a single element."""
        return all(type(size) is int and size == 1 for size in self.fake.shape)

    def describe(self) -> str:
        return f"tensor {self.source.text}" if self.source else f"tensor %{self.node.name}"

    def __str__(self) -> str:
        return self.source.text if self.source is not None else self.node.name

    # --- attributes -------------------------------------------------------------------------------------------------
    @_asking(_ask_attribute)
    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "grad":
            self._check_settled(tx)
        if (theirs := replacement(tx, self, name)) is not None:
            return theirs
        pending = tx.ledger.pending(self, name)
        if pending is not None and pending is not DELETED:
            return pending
        if name in GRAPH_ATTRIBUTES:
            return tx.graph.call(getattr, [self, ConstantVariable(name)])
        if name == "grad":
            return self._grad(tx)
        if name == "grad_fn":
            return self._node(tx)
        if name == "__class__":
            return tx.class_variable(self.cls)
        if (attribute := ATTRIBUTES.get(name)) is not None:
            return attribute(tx, self)
        if name in DATA_METHODS or name in ("__dict__", "_cdata", "_python_dispatch"):
            if name in DATA_METHODS and hasattr(torch.Tensor, name):
                return NativeMethod(self, name)
            raise GraphBreak("tensor attribute not known while tracing", name)
        if pending is None and self.value is not MISSING and name in (getattr(self.value, "__dict__", None) or ()):
            assert self.source is not None
            return tx.wrap(self.value.__dict__[name], self.source.step("dict").step("item", name))
        raw = getattr(torch.Tensor, name, MISSING)
        if raw is MISSING:
            if pending is None and self.value is not MISSING:
                assert self.source is not None
                tx.know(self.source, "no_attr", name)
            return tx.raise_(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        if callable(raw):
            return NativeMethod(self, name)
        if is_constant_value(raw):  # of the class: what stands in for the tensor is of another one
            return tx.from_constant(getattr(self.cls, name))
        if name in HISTORY and self.value is not MISSING:
            self._check_plain(name)
            assert self.source is not None
            before = tx.wrap(getattr(self.value, name), self.source.attr(name))
            if name == "retains_grad" and not self.fake.retains_grad:
                return before
        if name == "shape" and tx.graph.shapes is not None:
            return tx.new_tuple(tx.graph.sizes(self), torch.Size)
        if name == "nbytes" and tx.graph.shapes is not None:
            return tx.binary(operator.mul, self.method(tx, "numel", [], {}), ConstantVariable(self.fake.itemsize))
        if name in ("output_nr", "_version"):
            self._check_decided(tx, name)
        value = tx.attempt(getattr, self.fake, name)
        if isinstance(value, torch.Size) or is_constant_value(value):
            return tx.from_constant(value)
        raise GraphBreak("tensor attribute not supported", name)

    def _node(self, tx: Translator) -> Variable:
        if not self.fake.requires_grad:
            return ConstantVariable(None)
        tx.repeats.tell(None)
        node = tx.attempt(getattr, self.fake, "grad_fn")
        if node is None or node in tx.graph.foreign:
            if self.value is MISSING:
                return ConstantVariable(None)
            self._check_plain("grad_fn")
            assert self.source is not None
            return tx.wrap(self.value.grad_fn, self.source.attr("grad_fn"))
        self._check_decided(tx, "grad_fn")
        return tx.graph.autograd_node(node, self)

    def _check_decided(self, tx: Translator, name: str) -> None:
        """What a branch gives has the node of one of its sides, and was written as often as there."""
        node = self.fake.grad_fn
        is_written = name == "_version" and self.fake.untyped_storage()._cdata in tx.graph.chosen
        if is_written or node in tx.graph.undivided or choice_of(node) is not None:
            raise GraphBreak(UNSURE, name)

    def _check_plain(self, name: str) -> None:
        """Guards and residual code ask an object by its class."""
        if self.owner is not None and self.value is not MISSING:
            raise GraphBreak("tensor subclass", f"{self.describe()}.{name}")

    def _check_settled(self, tx: Translator) -> None:
        """In a hook some gradients are accumulated already, and some are not yet."""
        self._check_plain("grad")
        if any(inner.operation is differentiate_with for inner in tx.graph.inner):
            raise GraphBreak("accumulated gradient in a hook", self.describe())

    def _check_stored(self, tx: Translator, name: str) -> None:
        """A gradient can't be stored any more in what has become another kind of tensor."""
        if isinstance(tx.ledger.pending(self, "grad"), TensorVariable):
            raise GraphBreak("store to a tensor attribute", f"{name}, of a tensor with a new gradient")

    def _grad(self, tx: Translator) -> Variable:
        if self.value is MISSING:
            if self.fake.requires_grad and not self.fake.is_leaf and not self.fake.retains_grad:
                raise GraphBreak("grad of an intermediate tensor", self.describe())
            return ConstantVariable(None)
        assert self.source is not None
        return tx.wrap(tx.attempt(getattr, self.value, "grad"), self.source.step("grad", "grad"))

    @_asking(_ask_attribute, lambda tx, answer: None)
    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        if name == "grad":
            self._check_settled(tx)
        if name == "grad" and self.fake.is_leaf and self._can_be_gradient(value):
            tx.ledger.store(self, name, value)
            return
        if name == "data" and isinstance(value, TensorVariable):
            if not self._can_be_gradient(value):
                self._check_stored(tx, name)
                self._check_unused()
            tx.graph.call(take_data, [self, value])
            return
        if name == "requires_grad" and value.is_constant() and type(value.constant()) is bool:
            if not self.fake.is_leaf:
                tx.attempt(setattr, self.fake, name, value.constant())  # which the method takes if it is True
            self.method(tx, "requires_grad_", [value], {})
            return
        if name in ("real", "imag") and (part := self._as_part(tx, value)) is not None:
            self.getattr(tx, name).method(tx, "copy_", [part], {})
            return
        if name.startswith("_") or hasattr(type(lookup(self.python_type(), name)), "__set__"):
            raise GraphBreak("store to a tensor attribute", name)
        tx.ledger.store(self, name, value)

    def _as_part(self, tx: Translator, value: Variable) -> Variable | None:
        """What is copied to the real or imaginary part that the value is stored as."""
        if value.is_constant() and type(value.constant()) in (bool, int, float):
            options = {"dtype": self.fake.dtype.to_real(), "device": self.fake.device}
            return tx.graph.call(torch.scalar_tensor, [value], {k: ConstantVariable(v) for k, v in options.items()})
        return value if isinstance(value, TensorVariable) else None

    def delattr(self, tx: Translator, name: str) -> None:
        if name == "grad":
            self.setattr(tx, name, ConstantVariable(None))
        elif isinstance(tx.ledger.pending(self, name), Variable):
            tx.ledger.store(self, name, DELETED)
        else:
            super().delattr(tx, name)

    def _check_unused(self) -> None:
        """Where a leaf takes data of another kind, gradients of what was computed before go another way to it."""
        users = [user for user in self.node.users if user.target not in (getattr, take_data)]
        found = (each for user in users for each in tree_leaves(user.meta.get("example_value")))
        is_used = any(isinstance(each, torch.Tensor) and each.requires_grad and each is not self.fake for each in found)
        if users and not is_used:  # what was computed of it may have lost a history that others keep
            is_used = any(node.target in ("detach_", torch.detach_) for node in self.node.graph.nodes)
        if is_used and self.fake.is_leaf:
            raise GraphBreak("store to a tensor attribute", "data of another kind, of a leaf that has been used")

    def _can_be_gradient(self, value: Variable) -> bool:
        if isinstance(value, TensorVariable):
            properties = operator.attrgetter("shape", "dtype", "device", "layout")
            return bool(properties(value.fake) == properties(self.fake))
        return value.is_constant() and value.constant() is None

    # --- operations -------------------------------------------------------------------------------------------------
    @_asking(_ask_method)
    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if (theirs := replacement(tx, self, name)) is not None:
            return tx.call(theirs, args, kwargs)
        if (body := METHODS.get(name)) is not None:
            if not takes(body, tx, self, *args, **kwargs):
                raise GraphBreak("arguments do not fit the function", f"torch.Tensor.{name}")
            return body(tx, self, *args, **kwargs)
        if name in ("__index__", "__iter__", "__len__") and (args or kwargs):
            raise GraphBreak("arguments do not fit the function", f"torch.Tensor.{name}")
        if name == "__index__":
            if self.fake.is_floating_point() or self.fake.is_complex():
                tx.raise_(TypeError, "only integer tensors of a single element can be converted to an index")
            if (answer := foresee(tx, self.node, item)) is not MISSING:
                return ConstantVariable(answer)
        if name in RESHAPING:
            self._check_stored(tx, name)
        if name in DATA_METHODS:
            raise GraphBreak("tensor value needed" if name == "tolist" else "tensor method not captured", name)
        if not hasattr(torch.Tensor, name):
            return super().method(tx, name, args, kwargs)
        if name == "__iter__":
            return self.iterator(tx)
        if name == "__len__":
            return self.rows(tx)
        if name == "requires_grad_":
            wanted = [arg.constant() for arg in (*args, *kwargs.values())] or [True]
            if wanted == [self.fake.requires_grad] and not (wanted[0] and input_memory.only_claims(tx, self)):
                return self
        if name == "storage_offset":
            input_memory.guard_offset(tx.graph, self)
        if name == "size" and tx.graph.shapes is not None and not args and not kwargs:
            return tx.new_tuple(tx.graph.sizes(self), torch.Size)
        args, kwargs = as_numbers(tx, name, args, kwargs)
        return tx.graph.call_method(name, [self, *args], kwargs)

    @_asking(lambda tx, self, index: tx.overrides.ask(tx, operator.getitem, [self, index]))
    def getitem(self, tx: Translator, index: Variable) -> Variable:
        part, rest = _selected(tx, self, tx.graph.placed(self, _position(tx, index, self.fake.device)))
        return part if rest is None else tx.graph.call(operator.getitem, [part, _counted(tx, part, rest)])

    @_asking(lambda tx, self, *args: tx.overrides.ask(tx, operator.setitem, [self, *args]), lambda tx, answer: None)
    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        tx.graph.call(operator.setitem, [self, _position(tx, index, self.fake.device), value])

    @_asking(lambda tx, self, op, other: tx.overrides.ask(tx, op, [self, other]))
    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        _check_unasked(other)
        if not _operand(other):
            return tx.overrides.ask(tx, op, [self, other])
        return tx.graph.call(op, [self, as_number(tx, other)])

    @_asking(lambda tx, self, op, other: tx.overrides.ask(tx, op, [other, self]))
    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        _check_unasked(other)
        if not _operand(other):
            return None
        # comparisons come here already reflected by tx.binary
        return tx.graph.call(op, [as_number(tx, other), self])

    @_asking(lambda tx, self, op, other: tx.overrides.ask(tx, op, [self, other]))
    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        _check_unasked(other)
        if not _operand(other):
            return tx.overrides.ask(tx, op, [self, other])
        return tx.graph.call(op, [self, as_number(tx, other)])

    @_asking(lambda tx, self, op: tx.overrides.ask(tx, op, [self]))
    def unary(self, tx: Translator, op: Any) -> Variable:
        assert op in UNARY
        return tx.graph.call(op, [self])

    @_asking(lambda tx, self: tx.overrides.ask(tx, bool, [self]), lambda tx, answer: tx.truth(answer))
    def truth(self, tx: Translator) -> bool:
        answer = foresee(tx, self.node, truth)
        if answer is not MISSING:
            return answer
        hint = "use torch.where, or keep the branch: both sides are compiled"
        raise GraphBreak("branch on a tensor", self.describe(), hint)

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if self is not other and isinstance(other, TensorVariable) and (self.is_unsure or other.is_unsure):
            raise GraphBreak(UNSURE, self.describe())
        return super().is_same(tx, other)

    @_asking(lambda tx, self: tx.overrides.ask(tx, len, [self]))
    def rows(self, tx: Translator) -> Variable:
        """What `len` gives: a number of the graph where it varies."""
        sizes = tx.graph.sizes(self) if tx.graph.shapes is not None else []
        return sizes[0] if sizes else ConstantVariable(self.length(tx))

    @_asking(lambda tx, self: tx.overrides.ask(tx, len, [self]), lambda tx, answer: answer.constant())
    def length(self, tx: Translator) -> int:
        if (theirs := replacement(tx, self, "__len__")) is not None:
            return as_index(tx, tx.call(theirs, [], {}))
        if self.fake.dim() == 0:
            self.refuse(tx, torch.Tensor.__len__)
        return tx.attempt(len, self.fake)

    @_asking(lambda tx, self, item: tx.overrides.ask(tx, operator.contains, [self, item]), lambda tx, it: tx.truth(it))
    def contains(self, tx: Translator, item: Variable) -> bool:
        raise GraphBreak("membership test in a tensor", self.describe())

    @_asking(lambda tx, self: tx.inline(torch.Tensor.__iter__, [self], {}), lambda tx, answer: answer.iterator(tx))
    def iterator(self, tx: Translator) -> Variable:
        if (theirs := replacement(tx, self, "__iter__")) is not None:
            return tx.call(theirs, [], {})
        if self.fake.dim() == 0:
            self.refuse(tx, torch.Tensor.__iter__)
        return tx.graph.call_method("unbind", [self, ConstantVariable(0)]).iterator(tx)

    def refuse(self, tx: Translator, method: Any, *args: Variable) -> NoReturn:
        """Raises what torch's own Python code raises, from where it does."""
        tx.inline(method, [self, *args], {})
        raise GraphBreak("tensor method not captured", method.__qualname__)


def take_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """tensor.data = data"""
    tensor.data = data


#: Targets of operations after which a tensor lies elsewhere, which may be where it lay before.
MOVES = (take_data, torch.Tensor.set_, "set_")
#: Those that change a tensor without writing into its memory: no dispatch mode sees it.
CHANGES = (take_data, "requires_grad_", "detach_")


def _check_unasked(other: Variable) -> None:
    """Torch looks for a `__torch_function__` in what it is given, and into sequences: what answers that itself is
    asked."""
    kind = other.python_type()
    of_elements = ("__len__", "__getitem__", "__iter__") if issubclass(kind, (list, tuple)) else ()
    if not issubclass(kind, torch.Tensor) and has_own(other, ("__getattr__", "__getattribute__", *of_elements)):
        raise GraphBreak("operation not supported by the object", f"{other.describe()} beside a tensor")


def _operand(variable: Variable) -> bool:
    kinds = (int, float, tuple, list)
    is_known = isinstance(variable, (TensorVariable, ConstantVariable)) or type(variable) in AS_NUMBERS
    return is_known or issubclass(variable.python_type(), kinds)


class NumberOutput(TensorVariable):
    """What stands for a number among the results of the graph."""


class DrawnTensor(TensorVariable):
    """A tensor that the residual code has before it calls the graph, where it is an input; `example` is such a one."""

    example: torch.Tensor


class GraphValue(Variable):
    """What the frame can't look into, but the graph can hand on."""

    def __init__(self, node: fx.Node, value: Any) -> None:
        self.node = node
        self.value = value


class GraphFunction(GraphValue):
    """A Python function that an operation made. It can't leave the graph: then a break moves to where it was made."""

    def __init__(self, node: fx.Node, value: FunctionType, born_at: int) -> None:
        super().__init__(node, value)
        self.born_at = born_at

    def python_type(self) -> type:
        return FunctionType

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name not in (*functools.WRAPPER_ASSIGNMENTS, *functools.WRAPPER_UPDATES):
            return super().getattr(tx, name)
        value = tx.attempt(getattr, self.value, name)
        if isinstance(value, dict):
            return tx.new_dict([(tx.from_constant(key), tx.from_constant(item)) for key, item in value.items()])
        return tx.from_constant(value)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return tx.graph.call(operator.call, [self, *args], kwargs)


class NodeVariable(Variable):
    """A node of autograd's graph that the frame made, the `grad_fn` of those of `tensors` that require a gradient.
    `hands_on` says that its gradients are what is handed to it; then `tensors` are all that it gave, by `operation`.

    Where it leaves the frame, the graph runs as captured: a compiled one gives nodes of its own. `born_at` is the step
    to break at where its tensor has another node by then."""

    #: name -> (tx, node) -> the attribute
    ATTRIBUTES: ClassVar[dict[str, Callable[[Any, NodeVariable], Variable]]] = {}
    #: The types of nodes that hand on what they get.
    HANDS_ON: ClassVar[set[type]] = set()

    def __init__(
        self, node: Any, tensors: list[TensorVariable], born_at: int, operation: fx.Node | None = None
    ) -> None:
        self.node = node
        self.tensors = tensors
        self.born_at = born_at
        self.operation = operation
        self.first = next(tensor for tensor in tensors if tensor.fake.requires_grad)
        self.hands_on = type(node) in self.HANDS_ON

    def python_type(self) -> type:
        return type(self.node)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name not in self.ATTRIBUTES:
            raise GraphBreak(ASKS_NODE, f"{self.describe()}.{name}")
        return self.ATTRIBUTES[name](tx, self)

    def reachable(self) -> list[Variable]:
        return [tensor for tensor in self.tensors if tensor.fake.requires_grad]

    def describe(self) -> str:
        return f"{self.first.describe()}.grad_fn"




def _selected(tx: Translator, tensor: TensorVariable, index: Variable) -> tuple[TensorVariable, Variable | None]:
    """What is left of the tensor once ints that vary have been selected, and what is left to be asked of that: torch's
    indexing takes plain numbers, and `select` any."""
    parts = tx.unpack(index) if index.python_type() is tuple else [index]
    varying = [_varies(part) for part in parts]
    taken = [_dims(part) for part in parts]
    if not any(varying) or None in taken:
        return tensor, index
    rest = tensor.fake.dim() - sum(filter(None, taken))
    places = [rest if _is_ellipsis(part) else dims or 0 for part, dims in zip(parts, taken, strict=True)]
    if rest < 0 or sum(map(_is_ellipsis, parts)) > 1:
        return tensor, index  # an error, which is torch's to tell
    dim, left, found = 0, list[Variable](), tensor
    for at, part in enumerate(parts):
        if varying[at]:
            tx.graph.check_place(part, found, dim)
            found = tx.graph.call_method("select", [found, ConstantVariable(dim), part])  # type: ignore[assignment]
        elif any(varying[at:]) and isinstance(part, ConstantVariable) and part.value is None:
            # The stride of a new dimension goes by what follows it.
            found = tx.graph.call_method("unsqueeze", [found, ConstantVariable(dim)])  # type: ignore[assignment]
            left.append(ConstantVariable(slice(None)))
            dim += 1
        else:
            left.append(part)
            dim += places[at]
    return found, tx.new_tuple(left) if left else None


def _varies(part: Variable) -> bool:
    return type(getattr(part, "value", None)) is torch.SymInt


def _is_ellipsis(part: Variable) -> bool:
    return isinstance(part, ConstantVariable) and part.value is ...


def _dims(part: Variable) -> int | None:
    """How many dimensions a part of an index is about, an ellipsis aside; None where that is not plain."""
    if isinstance(part, TensorVariable):
        return 1 if part.fake.dtype in (torch.int64, torch.int32) else None
    if isinstance(part, ConstantVariable) and (part.value is None or part.value is ...):
        return 0
    return 1 if part.python_type() in (int, slice) else None


def _counted(tx: Translator, tensor: TensorVariable, index: Variable) -> Variable:
    """An index whose masks are the places that they let through, where it is foreseen how many these are."""
    parts = tx.unpack(index) if index.python_type() is tuple else [index]
    masks = [_mask_dims(part) for part in parts]
    if not any(masks):
        return index
    widths = [mask or _dims(part) for part, mask in zip(parts, masks, strict=True)]
    found: list[Variable] = []
    for at, (part, dims) in enumerate(zip(parts, masks, strict=True)):
        fits = dims and _lies_over(tensor, part, _start(tensor, parts, widths, at))
        size = foresee(tx, part.node, count) if fits else MISSING  # type: ignore[attr-defined]
        if size is MISSING:
            found.append(part)
            continue
        places = tx.graph.call(torch.nonzero_static, [part], {"size": ConstantVariable(size)})
        found += tx.unpack(tx.graph.call_method("unbind", [places, ConstantVariable(1)]))
    return tx.new_tuple(found)


def _mask_dims(part: Variable) -> int:
    return part.fake.dim() if isinstance(part, TensorVariable) and part.fake.dtype is torch.bool else 0


def _start(tensor: TensorVariable, parts: list[Variable], widths: list[int | None], at: int) -> int | None:
    """The dimension that a part of an index begins with, None where that is not plain."""
    from_end = any(map(_is_ellipsis, parts[:at]))
    counted = [width for width in (widths[at:] if from_end else widths[:at]) if width is not None]
    if len(counted) < (len(parts) - at if from_end else at):
        return None
    return tensor.fake.dim() - sum(counted) if from_end else sum(counted)


def _lies_over(tensor: TensorVariable, mask: Any, start: int | None) -> bool:
    """Whether a mask has the sizes of the dimensions that it is about, which nobody asks of the places in it."""
    if start is None or start < 0:
        return False
    shape = mask.fake.shape
    return tuple(tensor.fake.shape[start : start + len(shape)]) == tuple(shape)


def _position(tx: Translator, index: Variable, device: torch.device) -> Variable:
    """An object that says by `__index__` which number it stands for (one with elements is taken as a tuple)."""
    parts = tx.unpack(index) if index.python_type() is tuple else []
    if any(type(part) in AS_POSITIONS for part in parts):
        return tx.new_tuple([_position(tx, part, device) for part in parts])
    if (convert := AS_POSITIONS.get(type(index))) is not None:
        return convert(tx, index, device)
    own = None if hasattr(index.python_type(), "__getitem__") else index_method(tx, index)
    return tx.call(own, [], {}) if own is not None else index
