"""Text that is known only when the graph has run: of tensors, of numbers that the graph gives, of objects by address.

While tracing it is a function of the standard library and its arguments; residual code calls it. Inside the text of a
container a marker stands for it, so that Python's own `repr` writes what is around it.
"""

from __future__ import annotations

import operator
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.tensor_text import TensorText, TextUnder, history_of
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: A marker: no text of a program has it in it.
_SIGN = secrets.token_hex(8)
_MARKER = re.compile(rf"\x00{_SIGN}:(\d+)\x00")
_EXAMPLES = {int: 1, float: 0.5, bool: True, str: ""}
#: Methods of text that give text.
_METHODS = frozenset(
    """capitalize casefold center expandtabs ljust lower lstrip removeprefix removesuffix replace rjust rstrip strip
    swapcase title upper zfill""".split()
)


#: How often text is repeated after the graph has run; there may be no memory for more, which is known at once.
_OFTEN = 1000


class TextVariable(Variable):
    """`function(*args)`, a str."""

    def __init__(self, function: Callable[..., str], args: list[Variable]) -> None:
        self.function = function
        self.args = args

    def python_type(self) -> type:
        return str

    def constant(self) -> Any:
        raise GraphBreak("text of a value not known", self.describe())

    def key(self) -> Any:
        return self.constant()

    def truth(self, tx: Translator) -> bool:
        return bool(self.constant())

    def length(self, tx: Translator) -> int:
        return len(self.constant())

    def contains(self, tx: Translator, item: Variable) -> bool:
        return bool(self.constant())

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        return ConstantVariable(self.constant())

    def iterator(self, tx: Translator) -> Variable:
        return ConstantVariable(self.constant())

    def reachable(self) -> list[Variable]:
        return list(self.args)

    def describe(self) -> str:
        return f"text of {', '.join(arg.describe() for arg in self.args)}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        return NativeMethod(self, name) if hasattr(str, name) else ConstantVariable("").getattr(tx, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name not in _METHODS or kwargs or not all(arg.is_constant() for arg in args):
            self.constant()
        tx.attempt(operator.methodcaller(name, *(arg.constant() for arg in args)), "")
        return TextVariable(getattr(str, name), [self, *args])

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._joined(tx, op, self, other)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return self._joined(tx, op, other, self)

    def _joined(self, tx: Translator, op: Any, left: Variable, right: Variable) -> Variable | None:
        if op is operator.mul:
            return self._repeated(right if left is self else left)
        if op is operator.mod and left is self:
            self.constant()
        if not all(issubclass(side.python_type(), str) for side in (left, right)):
            return None
        return joined(tx, [left, right]) if op is operator.add else self.constant()

    def _repeated(self, times: Variable) -> Variable:
        if times.python_type() is not int or not times.is_constant() or times.constant() > _OFTEN:
            self.constant()
        return TextVariable(operator.mul, [self, times])

    def as_sequence(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return ConstantVariable(self.constant()) if op is operator.add else None  # raises, with words of its own

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if self is not other and other.python_type() is str:
            raise GraphBreak("identity of equal constants", self.describe())
        return self is other




#: What has no value while tracing, but a text when the graph has run.
LATE = (TextVariable, NumberVariable, SymbolVariable)


# --- markers ----------------------------------------------------------------------------------------------------------
def marked(tx: Translator, text: Variable) -> str:
    """A str that stands for `text`, a variable of type str, among others."""
    if text.is_constant() and isinstance(text.constant(), str):
        return str(text.constant())
    if not isinstance(text, TextVariable):
        raise GraphBreak("text of an object", f"{text.describe()} is none, or of a class of its own")
    tx.late_texts.append(text)
    return f"\x00{_SIGN}:{len(tx.late_texts) - 1}\x00"


def is_late(text: str) -> bool:
    """Whether there are markers in it."""
    return _SIGN in text


def unmarked(tx: Translator, text: str) -> Variable:
    """The variable for a text that may have markers in it."""
    if not is_late(text):
        return ConstantVariable(text)
    pieces: list[Variable] = []
    for at, piece in enumerate(_MARKER.split(text)):
        if at % 2:
            pieces.append(tx.late_texts[int(piece)])
        elif _SIGN in piece:
            raise GraphBreak("text of a value not known", "cut in pieces")
        elif piece:
            pieces.append(ConstantVariable(piece))
    return joined(tx, pieces)


def joined(tx: Translator, pieces: list[Variable]) -> Variable:
    """`"".join(pieces)`, each of them a str."""
    if all(piece.is_constant() for piece in pieces):
        return ConstantVariable("".join(piece.constant() for piece in pieces))
    return pieces[0] if len(pieces) == 1 else TextVariable("".join, [tx.new_tuple(pieces)])


# --- what has late text -----------------------------------------------------------------------------------------------
def late(tx: Translator, variable: Variable, function: Callable[[Any], str]) -> str | None:
    """`function(variable)` (str, repr, ascii) as a marker; None if the text of such a value is known now."""
    if isinstance(variable, TensorVariable):
        if (text := _asked(tx, function, variable)) is not None:
            return text
        shown, function = _shown(tx, variable)
        return marked(tx, TextVariable(function, [shown]))
    if isinstance(variable, TextVariable) and function is str:
        return marked(tx, variable)
    if isinstance(variable, LATE):
        return marked(tx, TextVariable(function, [variable]))
    return None


def late_format(tx: Translator, variable: Variable, spec: str) -> str | None:
    """`format(variable, spec)` as a marker; None if it is known now."""
    if isinstance(variable, TensorVariable):
        if (text := _asked(tx, format, variable, ConstantVariable(spec))) is not None:
            return text
        if variable.fake.dim() or _class_of(variable) is not torch.Tensor:
            if spec:
                variable.refuse(tx, torch.Tensor.__format__, ConstantVariable(spec))
            return late(tx, variable, str)
        example: Any = torch.ones((), dtype=variable.fake.dtype, device="cpu").item()
        variable = snapshot(tx, variable)
    elif isinstance(variable, LATE):
        example = _EXAMPLES[variable.python_type()]
    else:
        return None
    tx.attempt(format, example, spec)
    return marked(tx, TextVariable(operator.methodcaller("__format__", spec), [variable]))


def late_template(tx: Translator, template: str, right: Variable) -> Variable | None:
    """`template % right` where that is a number, a text or a tensor, or a tuple of these and of constants; None where
    it is something else."""
    items = tx.unpack(right) if right.python_type() is tuple else [right]
    late_ones = [isinstance(item, (TensorVariable, *LATE)) for item in items]
    if not any(late_ones) or not all(late or item.is_constant() for item, late in zip(items, late_ones, strict=True)):
        return None
    if tx.overrides.has_modes and any(isinstance(item, TensorVariable) for item in items):
        return None
    if any(isinstance(item, TensorVariable) and item.fake.requires_grad for item in items):
        raise GraphBreak("tensor value needed", f"{template!r} % {right.describe()}")
    examples = tuple(_example(item) if late else item.constant() for item, late in zip(items, late_ones, strict=True))
    tx.attempt(template.__mod__, examples)
    shown = [snapshot(tx, item) if isinstance(item, TensorVariable) else item for item in items]
    return TextVariable(TextUnder(template.__mod__, torch.get_default_dtype()), [tx.new_tuple(shown)])


def _asked(tx: Translator, function: Callable[..., str], tensor: TensorVariable, *spec: Variable) -> str | None:
    """The text that a mode of torch's functions says; None where there is none."""
    answer = tx.overrides.ask(tx, function, [tensor, *spec]) if tx.overrides.has_modes else None
    if answer is None:
        return None
    if function is ascii or answer.python_type() is not str:
        tx.overrides.refuse(f"{function.__name__} of a tensor")
    return marked(tx, answer)


def _example(variable: Variable) -> Any:
    if isinstance(variable, TensorVariable):
        few = [min(size, 2) if isinstance(size, int) else 2 for size in variable.fake.shape]
        return torch.ones(few, dtype=variable.fake.dtype, device="cpu")
    return _EXAMPLES[variable.python_type()]


def _class_of(tensor: TensorVariable) -> type:
    """Its text begins with the name of the program's class that it is of."""
    return tensor.cls if tensor.owner is None else tensor.owner.python_type()


def _shown(tx: Translator, tensor: TensorVariable) -> tuple[Variable, Callable[[Any], str]]:
    """The tensor as it is now, and what gives its text."""
    came = tensor.value is not MISSING and not tensor.fake.is_leaf
    history = None if came or tensor.fake.grad_fn in tx.graph.foreign else history_of(tensor.fake)
    if history is None:
        raise GraphBreak("text that tells of an autograd graph not known", tensor.describe())
    return snapshot(tx, tensor), TextUnder(TensorText(_class_of(tensor), history), torch.get_default_dtype())


def snapshot(tx: Translator, tensor: TensorVariable) -> Variable:
    """A copy: what is written later is not seen in it."""
    if tx.graph.inner:
        raise GraphBreak("tensor value needed", f"text of {tensor.describe()} inside a function that is transformed")
    return tx.graph.call_method("clone", [tx.graph.call_method("detach", [tensor])])
