"""Plain numbers that a program knows only when its graph runs: read from tensors, given anew at every call, or computed
from such.

To torch each of them is a symbolic number around a `Number`. Torch's own symbols are algebra, which brings sums and
products into an order of its own and so rounds otherwise than Python; here each operation is a node of the graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves, tree_map

from symbolic.schemas import bind

_SYMBOLS = {int: torch.SymInt, float: torch.SymFloat, bool: torch.SymBool}
NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
#: What an operation's fake gets in the place of such a number: no dtype, size or stride depends on it.
_STAND_INS: dict[type, Any] = {int: 1, float: 0.5, bool: True}
#: The types of arguments whose values are the kernel's affair alone. A plain number can be given as a tensor, too.
_OPAQUE = frozenset({"Tensor", "number", "Optional[number]", "List[number]"})
#: Operations with such an argument that a size depends on.
_SIZED = frozenset({"aten::arange", "aten::range"})


class Unknown(Exception):
    """The program depends on a number in a way that a graph can't; `asked`: what stands for it."""

    def __init__(self, said: str, asked: Any = None) -> None:
        super().__init__(said)
        self.asked = asked


@runtime_checkable
class Writer(Protocol):
    """Where operations on numbers are recorded."""

    def compute(self, function: Callable[..., Any], args: Sequence[Any], kind: type) -> Any:
        """`function(*args)`, a number of that type, as a node; answers with its symbolic number."""

    def size(self, function: Callable[..., Any], number: Any, least: int) -> Any:
        """`function(number)`, as a node; answers with a new symbol of torch's own, which is not less than `least`."""


@dataclass(frozen=True, eq=False)
class Number:
    """What torch calls a SymNode, as far as a number can answer that is a node of a graph (or a plain one, `value`
    then, which torch wraps to compute with it). Raises `Unknown` if it is asked what it is."""

    value: Any
    type: type

    def symbol(self) -> Any:
        return _SYMBOLS[self.type](self)

    def is_int(self) -> bool:
        return self.type is int

    def is_float(self) -> bool:
        return self.type is float

    def is_bool(self) -> bool:
        return self.type is bool

    def is_nested_int(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def maybe_as_int(self) -> int | None:
        return self.value if type(self.value) is int else None

    def wrap_int(self, value: int) -> Number:
        return Number(value, int)

    def wrap_float(self, value: float) -> Number:
        return Number(value, float)

    def wrap_bool(self, value: bool) -> Number:
        return Number(value, bool)

    def clone(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __str__(self) -> str:
        return str(self.value)

    def _graph_repr(self) -> str:
        """For whoever prints the graph. To the program it would be the text of no number."""
        if _writer() is not None:
            raise Unknown(f"something depends on values: on the text of {_said(self)}", self.value)
        return str(self)

    str = _graph_repr


def _operation(function: Callable[..., Any], kind: type | None) -> Callable[..., Number]:
    def method(self: Number, *others: Any) -> Number:
        args = [self.value]
        args += [other.value if isinstance(other, Number) else _SYMBOLS[_type(other)](other) for other in others]
        if kind is bool and any(isinstance(arg, fx.Node) and arg.target is float for arg in args):
            raise Unknown(f"a float is compared with an int that is known when the graph runs: {_said(self)}")
        return _record(function, args, kind or self.type).node

    return method


def _type(node: Any) -> type:
    """The type of one of torch's own symbols."""
    return int if node.is_int() else float if node.is_float() else bool


def _question(name: str) -> Callable[..., Any]:
    def method(self: Number, *place: Any) -> Any:
        raise Unknown(f"something depends on values: on {_said(self)}", self.value)

    return method


def _said(number: Number) -> str:
    """A number in words, with the user's line that it comes from."""
    trace = number.value.meta.get("stack_trace") if isinstance(number.value, fx.Node) else None
    said = f"{number}, a number that is known when the graph runs"
    return f"{said}, from\n{trace}" if trace else said


#: A SymNode's method, what it is recorded as, and the type of its result (None: that of the operand). Python's floor
#: division and power of floats are none of these: torch has them as something else, with other results.
_OPERATIONS: dict[str, tuple[Callable[..., Any], type | None]] = {
    **{name: (getattr(operator, name), None) for name in ("add", "sub", "mul", "mod", "neg", "pos", "abs")},
    **{name: (getattr(operator, name), bool) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **dict.fromkeys(("truediv", "int_truediv", "float_truediv"), (operator.truediv, float)),
    "int_floordiv": (operator.floordiv, int),
    "pow_by_natural": (operator.pow, int),
    "sym_float": (float, float),
    **{f"sym_{name}": (getattr(math, name), float) for name in (
        "sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2",
    )},
    "sym_and": (operator.and_, bool),
    "sym_or": (operator.or_, bool),
    "sym_not": (operator.not_, bool),
}  # fmt: skip
_QUESTIONS = (
    *("bool_", "int_", "guard_bool", "guard_int", "guard_float", "guard_size_oblivious", "guard_or_true"),
    *("guard_or_false", "expect_true", "statically_known_true", "floor", "ceil", "trunc", "sym_int", "round"),
    "is_integer",
)
for _name, _row in _OPERATIONS.items():
    setattr(Number, _name, _operation(*_row))
for _name in _QUESTIONS:
    setattr(Number, _name, _question(_name))


def number_of(value: Any) -> Number | None:
    """The `Number` of a symbolic number, if it is one of these."""
    known = value.node if isinstance(value, NUMBERS) else None
    return known if isinstance(known, Number) else None


def compute(function: Callable[..., Any], args: Sequence[Any], kind: type) -> Any:
    """`function(*args)` of numbers, recorded as one operation if one of them is symbolic."""
    if not any(isinstance(leaf, NUMBERS) for leaf in tree_leaves(args)):
        return function(*args)
    return _record(function, args, kind)


def sized(function: Callable[..., Any], number: Any, least: int) -> Any:
    """`function(number)`, recorded as a size."""
    writer = _writer()
    if writer is None:
        raise Unknown("a number becomes a size after the trace")
    return writer.size(function, number, least)


def elements(tensor: torch.Tensor) -> list[Any]:
    """All numbers in a tensor, in order: a step of graphs, which reads the memory once."""
    if _writer() is None:
        numbers: list[Any] = tensor.reshape(-1).tolist()
        return numbers
    here = tensor if tensor.device.type == "cpu" else tensor.cpu()
    return [each.item() for each in here.reshape(-1).unbind()]


def _record(function: Callable[..., Any], args: Sequence[Any], kind: type) -> Any:
    writer = _writer()
    if writer is None:
        raise Unknown("something is computed of a number that is known when the graph runs, after the trace")
    return writer.compute(function, args, kind)


def _writer() -> Writer | None:
    return next((mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, Writer)), None)


def stand_ins(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The arguments with plain numbers for a fake run. Raises `Unknown` where the fake would depend on them."""
    if all(number_of(leaf) is None for leaf in tree_leaves((args, kwargs))):
        return args, kwargs
    if isinstance(func, OpOverload):
        types = {argument.name: str(argument.type) for argument in func._schema.arguments}
        for name, value in bind(func, args, kwargs).items():
            known = next((found for leaf in tree_leaves(value) if (found := number_of(leaf)) is not None), None)
            if known is not None and (types[name] not in _OPAQUE or func._schema.name in _SIZED):
                raise Unknown(f"{func} depends on values: on {_said(known)}", known.value)
    plain: tuple[Any, Any] = tree_map(_stand_in, (tuple(args), dict(kwargs)))
    return plain


def _stand_in(value: Any) -> Any:
    known = number_of(value)
    return value if known is None else _STAND_INS[known.type]


class Standing(TorchDispatchMode):
    """Operations on fakes inside get stand-ins for such numbers; `Unknown` where they would depend on one."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the handler below to keep its own compiler off, and load that compiler for it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = stand_ins(func, args, kwargs or {})
        return func(*args, **kwargs)


def real_power(base: float, exponent: float) -> float:
    """`base ** exponent` where that is a float. Raises ValueError where it is complex."""
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError(f"{base} ** {exponent} is complex")
    return result
