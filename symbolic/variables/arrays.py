"""Arrays and numbers of numpy: the memory of a tensor of the graph, as numpy shows it.

What numpy gives (dtype, shape, strides, a view or a copy, an array or a number) is asked of numpy itself, which runs
each operation once on an example; the graph has what torch calls the operation. An array that leaves the frame is made
of its tensor then, or, if it is a view, by the very call of numpy's that gave it, so that `base` and flags are eager
code's.

Where eager code would warn of numbers (a division by zero, an overflow), results are not finite: the graph checks that
they are, and where they are not the frame runs again as it was written.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import INPLACE, MISSING, UNARY, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.drawn import DrawnArray, numpy
from symbolic.variables.either import memory
from symbolic.variables.methods import NativeMethod
from symbolic.variables.numbers import EXAMPLES, GivenNumber, NumberVariable
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tables import known, name_of
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import HANDLERS as TORCH_HANDLERS
from symbolic.warned import Hearing

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: dtype of numpy -> of torch, for those that torch computes with
DTYPES: dict[Any, torch.dtype] = {}
#: Before that numbers were taken for what they are worth, not for what they are.
IS_KNOWN = numpy is not None and int(numpy.__version__.split(".")[0]) >= 2
if IS_KNOWN:
    _NAMES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
    DTYPES.update({numpy.dtype(name): getattr(torch, name) for name in _NAMES})
#: The same, the other way.
OF_TORCH = {theirs: ours for ours, theirs in DTYPES.items()}
#: Numbers that are Python's, too.
FLOATS: tuple[type, ...] = () if not IS_KNOWN else (numpy.float64, numpy.complex128)
DOUBLE: Any = None if numpy is None else numpy.dtype("float64")
INT64: Any = None if numpy is None else numpy.dtype("int64")
#: Functions that take any number beside an array.
LOOSE: frozenset[Any] = frozenset()
if IS_KNOWN:
    LOOSE = frozenset((
        numpy.add, numpy.subtract, numpy.multiply, numpy.divide, numpy.maximum, numpy.minimum, numpy.less,
        numpy.less_equal, numpy.greater, numpy.greater_equal, numpy.equal, numpy.not_equal,
    ))  # fmt: skip
#: Elements of an array whose contents are known, at most: more are computed by the graph.
MOST_KNOWN = 4096
CPU = ConstantVariable("cpu")


@dataclass(frozen=True)
class Look:
    """How an array lies in memory, in bytes."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(array: Any) -> Look:
        return Look(array.dtype, array.shape, array.strides)

    def example(self) -> Any:
        """An array that lies like it, of zeros."""
        if 0 in self.shape:
            return numpy.ndarray(self.shape, self.dtype, numpy.zeros(1, self.dtype), 0, self.strides)
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        before = -sum(each for each in reach if each < 0)
        memory = numpy.zeros((before + sum(each for each in reach if each > 0)) // self.dtype.itemsize + 1, self.dtype)
        return numpy.ndarray(self.shape, self.dtype, memory, before, self.strides)


class Memory:
    """What arrays that are views of one another have in common."""

    def __init__(self) -> None:
        self.is_written = False  # or may be: a tensor lies there
        self.lent_at: int | None = None  # the step at which a tensor was made of it, or it of a tensor


class NumpyVariable(Variable):
    """An array or a number of numpy's."""

    tx: Translator
    _known: Any = MISSING
    _tensor: TensorVariable | None = None
    _make: Callable[[], TensorVariable] | None = None  # where there is none so far

    def _given(self, made: TensorVariable | Callable[[], TensorVariable] | None) -> None:
        if isinstance(made, TensorVariable):
            self._tensor = made
        else:
            self._make = made

    @property
    def look(self) -> Look:
        raise NotImplementedError

    @property
    def known(self) -> Any:
        """The value, where tracing has computed it."""
        return self._known

    @property
    def tensor(self) -> TensorVariable:
        """In the graph; recorded when it is first asked for."""
        if self._tensor is None:
            assert self._make is not None
            check_modes(self.tx)
            self._tensor = self._make()
        return self._tensor

    @property
    def is_recorded(self) -> bool:
        return self._tensor is not None

    def example(self) -> Any:
        raise NotImplementedError

    def key(self) -> Any:
        raise GraphBreak("array or number of numpy as a key", self.describe())

    def getattr(self, tx: Translator, name: str) -> Variable:
        look = self.look
        if name in ("shape", "ndim", "size", "itemsize", "nbytes", "strides", "dtype"):
            return tx.from_constant(getattr(self.example(), name))
        if name == "__class__":
            return tx.class_variable(self.python_type())
        if (body := ATTRIBUTES.get(name)) is not None:
            return body(tx, self)
        if callable(getattr(self.python_type(), name, None)):
            return NativeMethod(self, name)
        if not hasattr(self.python_type(), name):
            kind = self.python_type()
            return tx.raise_(AttributeError, f"'{kind.__module__}.{kind.__name__}' object has no attribute {name!r}")
        raise GraphBreak("attribute of an array", f"{name} of {look.dtype}")

    def setattr(self, tx: Translator, name: str, value: Variable) -> None:
        raise GraphBreak("attribute of an array", f"{name} = ...")

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        body = METHODS.get(name)
        if body is None:
            raise GraphBreak("method of an array", name)
        return body(tx, getattr(self.python_type(), name), [self, *args], kwargs)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return OPERATORS[op](tx, [self, other]) if op in OPERATORS else _no_operator(op)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        return OPERATORS[op](tx, [other, self]) if op in OPERATORS else _no_operator(op)

    def unary(self, tx: Translator, op: Any) -> Variable:
        assert op in UNARY
        return OPERATORS[op](tx, [self])

    def truth(self, tx: Translator) -> bool:
        if self.known is not MISSING:
            return bool(tx.attempt(bool, self.known))
        if self.look.example().size != 1:
            raise GraphBreak("array value needed", "truth of an array")
        return self.tensor.truth(tx)

    def item(self, tx: Translator) -> Variable:
        """The number that it is, as Python's."""
        if self.known is not MISSING:
            return tx.from_constant(tx.attempt(self.known.item))
        if self.look.example().size != 1 or self.look.dtype.kind in "cb":
            raise GraphBreak("array value needed", "item")
        return tx.graph.item(self.tensor, float if self.look.dtype.kind == "f" else int)

    def describe(self) -> str:
        where = f" {self.source.text}" if self.source is not None else ""
        return f"{self.python_type().__name__} of numpy{where}"


def _no_operator(op: Any) -> Variable:
    raise GraphBreak("numpy function not captured", op.__name__)


#: name -> body(tx, numpy's own method, [self, *args], kwargs)
METHODS: dict[str, Callable[..., Variable]] = {}
#: name -> body(tx, self)
ATTRIBUTES: dict[str, Callable[[Any, Any], Variable]] = {}
#: operator -> body(tx, operands)
OPERATORS: dict[Any, Callable[[Any, list[Variable]], Variable]] = {}


class ArrayVariable(NumpyVariable):
    """An array. `recipe` is the call that gives it, if it lies in memory of others: function and arguments."""

    def __init__(
        self, tx: Translator, look: Look | None, made: TensorVariable | Callable[[], TensorVariable] | None,
        memory: Memory | None = None, recipe: tuple[Any, list[Variable]] | None = None, value: Any = MISSING,
    ) -> None:
        self.tx = tx
        self._look = look
        self._given(made)
        self.memory = memory or Memory()
        self.recipe = recipe
        self._known = value
        self.born_at = tx.anchor()
        self.owns = True  # its memory, if it is new: else it is a view of what nobody has
        self.is_fixed = False  # nothing may be written there through it

    @property
    def look(self) -> Look:
        assert self._look is not None
        return self._look

    @property
    def known(self) -> Any:
        return MISSING if self.memory.is_written else self._known

    def python_type(self) -> type:
        kind: type = numpy.ndarray
        return kind

    def example(self) -> Any:
        return self.look.example() if self.known is MISSING else self.known

    def length(self, tx: Translator) -> int:
        return int(tx.attempt(len, self.example()))

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        return METHODS["__getitem__"](tx, operator.getitem, [self, index], {})

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        METHODS["__setitem__"](tx, operator.setitem, [self, index, value], {})

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        plain = INPLACE[op][0]
        return OPERATORS[op](tx, [self, other]) if op in OPERATORS else _no_operator(plain)

    def iterator(self, tx: Translator) -> Variable:
        if not self.look.shape:
            raise GraphBreak("operation raises", "iteration over a 0-d array")
        if self.look.shape[0] > tx.options.unroll_limit:
            raise GraphBreak("loop too long to unroll", self.describe())
        items = [self.getitem(tx, ConstantVariable(at)) for at in range(self.look.shape[0])]
        return tx.new_tuple(items).iterator(tx)

    def contains(self, tx: Translator, item: Variable) -> bool:
        raise GraphBreak("array value needed", "membership test")

    def reachable(self) -> list[Variable]:
        if self.recipe is not None:
            return self.recipe[1]
        return [] if self.known is not MISSING else [self.tensor]


class ExistingArray(ArrayVariable):
    """An array that came in: an input of the graph as soon as something is asked of it."""

    def __init__(self, tx: Translator, value: Any, source: Source) -> None:
        super().__init__(tx, None, None)
        self.value = value
        self.source = source
        self.asked_at = -1

    def real(self) -> Any:
        return self.value

    @property
    def tensor(self) -> TensorVariable:
        if self._tensor is None:
            assert self.source is not None
            check_modes(self.tx)
            tensor = tensor_of(self.value)
            assert tensor is not None
            self.asked_at = self.tx.anchor()
            self.tx.keepalive.append(tensor)
            self._tensor = self.tx.graph.add_input(tensor, self.source.step("call", tensor_of))
            check_sizes(self._tensor)
        return self._tensor

    @property
    def look(self) -> Look:
        if self._look is None:
            assert self.tensor is not None  # whose guard says how it lies
            self._look = Look.of(self.value)
        return self._look

    def reachable(self) -> list[Variable]:
        return []


class ScalarVariable(NumpyVariable):
    """A number of numpy's own types."""

    def __init__(
        self, tx: Translator, dtype: Any, made: TensorVariable | Callable[[], TensorVariable], value: Any = MISSING,
        source: Source | None = None,
    ) -> None:
        self.tx = tx
        self.dtype = dtype
        self._given(made)
        self._known = value
        self.source = source

    @property
    def look(self) -> Look:
        return Look(self.dtype, (), ())

    def python_type(self) -> type:
        kind: type = self.dtype.type
        return kind

    def example(self) -> Any:
        return self.dtype.type(1) if self.known is MISSING else self.known

    def is_constant(self) -> bool:
        return self.known is not MISSING

    def constant(self) -> Any:
        return self.known if self.known is not MISSING else super().constant()

    def key(self) -> Any:
        return self.known if self.known is not MISSING else super().key()

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        values = [value_of(tx, arg) for arg in (self, *args)] if name not in METHODS and not kwargs else [MISSING]
        if any(value is MISSING for value in values):
            return super().method(tx, name, args, kwargs)
        return tx.from_constant(tx.attempt(getattr(self.python_type(), name), *values))

    def is_same(self, tx: Translator, other: Variable) -> bool:
        if self is not other and isinstance(other, ScalarVariable) and other.dtype == self.dtype:
            raise GraphBreak("identity of numbers", f"{self.describe()} is {other.describe()}")
        return self is other

    def reachable(self) -> list[Variable]:
        is_there = self.known is not MISSING or (self.source is not None and not self.is_recorded)
        return [] if is_there else [self.tensor]


def tensor_of(array: Any) -> torch.Tensor | None:
    """The tensor in the memory of an array; None where torch has none, or warns."""
    if type(array) is not numpy.ndarray or not array.flags.writeable or not array.flags.aligned:
        return None
    size = array.dtype.itemsize
    is_plain = array.dtype in DTYPES and array.dtype.isnative and all(s >= 0 and s % size == 0 for s in array.strides)
    return torch.from_numpy(array) if is_plain else None


def existing(tx: Translator, value: Any, source: Source) -> Variable:
    """An array that came in."""
    if source.kind == "const" or source.is_made:
        raise GraphBreak("tensor constant", source.text)
    if tensor_of(value) is None:
        raise GraphBreak("numpy array", f"{source.text}, which torch has no tensor for")
    tx.know(source, "type", numpy.ndarray)
    return ExistingArray(tx, value, source)


def existing_number(tx: Translator, value: Any, source: Source) -> Variable:
    """A number that came in: an integer is what it is, a float is an input of the graph."""
    if source.kind == "const":
        return constant(tx, value)
    tx.know(source, "type", type(value))
    if value.dtype.kind in "iub":
        tx.know(source.step("call", value_in), "eq", value.item())
        return ScalarVariable(tx, value.dtype, constant(tx, value)._make, value, source)  # type: ignore[attr-defined]

    def make() -> TensorVariable:
        check_modes(tx)
        tensor = tensor_in(value)
        tx.keepalive.append(tensor)
        return tx.graph.add_input(tensor, source.step("call", tensor_in))

    if source.is_made:
        raise GraphBreak("tensor constant", source.text)
    return ScalarVariable(tx, value.dtype, make, MISSING, source)


def value_in(number: Any) -> Any:
    return number.item()


def tensor_in(number: Any) -> torch.Tensor:
    """A number of numpy's as a tensor."""
    return torch.from_numpy(numpy.array(number))


#: exact type -> wrapper
WRAP: dict[type, Callable[[Any, Any, Source], Variable]] = {}
if IS_KNOWN:
    WRAP[numpy.ndarray] = existing
    WRAP.update({dtype.type: existing_number for dtype in DTYPES if dtype.name not in ("float64", "complex128")})


# --- what runs on examples --------------------------------------------------------------------------------------------
def check_modes(tx: Translator) -> None:
    """Numpy knows nothing of transforms and autocast. (Tensors made in inference mode stay what they are.)"""
    is_switched = torch.is_inference_mode_enabled() != tx.is_inference
    if is_switched or tx.graph.inner or torch.is_autocast_enabled("cpu") or torch._C._len_torch_dispatch_stack():
        raise GraphBreak("numpy array", "inside of a graph, under autocast or in another inference mode")


def check_sizes(tensor: TensorVariable) -> None:
    if any(not isinstance(size, int) for size in (*tensor.fake.shape, *tensor.fake.stride())):
        raise GraphBreak("array whose sizes vary", tensor.describe())


def rehearse(tx: Translator, function: Any, args: Iterable[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """What numpy gives for examples. What it refuses, or warns of, eager code meets at this line."""
    check_modes(tx)
    with Hearing() as warned, numpy.errstate(all="ignore"):
        try:
            result = function(*args, **(kwargs or {}))
        except Exception as error:
            raise GraphBreak("operation raises", f"{name_of(function)}: {type(error).__name__}: {error}") from error
    if warned:
        raise GraphBreak("operation that warns", str(warned[0].message))
    return result


def check_dtype(example: Any) -> None:
    if getattr(example, "dtype", None) not in DTYPES:
        raise GraphBreak("dtype that torch does not compute with", f"{getattr(example, 'dtype', type(example))}")


def computed(tx: Translator, function: Any, args: Iterable[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """What numpy gives for what is known; MISSING where that is much, or numpy warns of the numbers."""
    try:
        with Hearing() as warned, numpy.errstate(all="raise"):
            result = function(*args, **(kwargs or {}))
    except Exception:
        return MISSING
    is_small = isinstance(result, numpy.generic) or (type(result) is numpy.ndarray and result.size <= MOST_KNOWN)
    return result if is_small and not warned and result.dtype in DTYPES else MISSING


def operand(tx: Translator, variable: Variable) -> Variable:
    """The same, with what was drawn, or came in as a number of Python's, as numpy's."""
    if isinstance(variable, DrawnArray):
        return _joined(tx, variable)
    if isinstance(variable, ObjectVariable) and variable.cls in FLOATS:
        if isinstance(variable.payload, GivenNumber):
            return ScalarVariable(tx, DOUBLE, functools.partial(as_tensor, tx, variable.payload, DOUBLE))
        if variable.payload is not None and variable.payload.is_constant():
            return constant(tx, variable.cls(variable.payload.constant()))
    return variable


class LooseNumber(Variable):
    """One of Python's numbers that vary, as an operand of which nothing needs to be known."""

    def __init__(self, number: Variable) -> None:
        self.number = number

    def python_type(self) -> type:
        return self.number.python_type()


def loose(function: Any, operands: list[Variable]) -> list[Variable]:
    """The operands of a function that takes any numbers. Numpy makes these what the arrays beside them are of: an int
    is exact in the widest alone."""
    arrays = [each for each in operands if isinstance(each, NumpyVariable)]
    if function not in LOOSE or not arrays or any(each.look.dtype.itemsize == 2 for each in arrays):  # rounded twice
        return operands
    kinds: tuple[type, ...] = (float, int) if all(each.look.dtype in (DOUBLE, INT64) for each in arrays) else (float,)
    return [
        LooseNumber(each) if isinstance(each, (GivenNumber, SymbolVariable)) and each.python_type() in kinds else each
        for each in operands
    ]


def as_tensor(tx: Translator, number: Variable, dtype: Any) -> TensorVariable:
    return record(tx, torch.full, (), number, dtype=DTYPES[dtype], device=CPU)


def numbers(tx: Translator, *operands: Variable) -> Iterable[Variable]:
    """The operands of an operator, with numpy's floats, which are Python's too, as numpy's."""
    floats = [type(each) is ObjectVariable and each.cls in FLOATS for each in operands]
    if not any(floats) or any(isinstance(each, TensorVariable) for each in operands):
        return operands
    return [operand(tx, each) for each in operands]


def _joined(tx: Translator, drawn: DrawnArray) -> Variable:
    """What a call before the graph gave goes on in the graph."""
    is_array = type(drawn.example) is numpy.ndarray
    if drawn.example.dtype not in DTYPES or (is_array and tensor_of(drawn.example) is None):
        raise GraphBreak("numpy array", drawn.describe())
    if drawn.joined is None:
        source = drawn if is_array else drawn._compute(tx, numpy.array, [drawn], {})
        tensor = _FROM_DRAWN(tx, source)
        assert isinstance(tensor, TensorVariable)
        if is_array:
            drawn.joined = ArrayVariable(tx, Look.of(drawn.example), tensor, recipe=(_itself, [drawn]))
            drawn.joined.memory.is_written = True
        else:
            drawn.joined = ScalarVariable(tx, drawn.example.dtype, tensor)
    return drawn.joined


#: `torch.from_numpy` of what was drawn.
_FROM_DRAWN = TORCH_HANDLERS[torch.from_numpy]


def _itself(array: Any) -> Any:
    return array


def example_of(tx: Translator, variable: Variable) -> Any:
    """What numpy is given on the example."""
    if isinstance(variable, NumpyVariable):
        return variable.example()
    if isinstance(variable, LooseNumber) or isinstance(variable, NumberVariable) and not variable.is_constant():
        return EXAMPLES[variable.python_type()]
    if type(variable) in (ListVariable, TupleVariable):
        items = [example_of(tx, operand(tx, item)) for item in tx.unpack(variable)]
        return tuple(items) if type(variable) is TupleVariable else items
    value = value_of(tx, variable)
    if value is MISSING:
        raise GraphBreak("array beside what is no array", variable.describe())
    return value


def value_of(tx: Translator, variable: Variable) -> Any:
    """The value where it is known, else MISSING."""
    if isinstance(variable, NumpyVariable):
        return variable.known
    if isinstance(variable, LooseNumber):
        return MISSING
    if type(variable) in (ListVariable, TupleVariable):
        items = [value_of(tx, operand(tx, item)) for item in tx.unpack(variable)]
        if any(item is MISSING for item in items):
            return MISSING
        return tuple(items) if type(variable) is TupleVariable else items
    if isinstance(variable, SymbolVariable):
        return variable.constant()
    if isinstance(variable, (TensorVariable, NumberVariable)) and not variable.is_constant():
        return MISSING
    return known(tx, variable)


# --- what the graph has -----------------------------------------------------------------------------------------------
def record(tx: Translator, function: Any, *args: Any, **kwargs: Any) -> TensorVariable:
    """Records `function(*args, **kwargs)`; what is no variable is a constant."""
    named = {name: _as_variable(tx, value) for name, value in kwargs.items()}
    made = tx.graph.call(function, [_as_variable(tx, value) for value in args], named)
    assert isinstance(made, TensorVariable), made.describe()
    return made


def _as_variable(tx: Translator, value: Any) -> Variable:
    if isinstance(value, Variable):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(item, Variable) for item in value):
        items = [_as_variable(tx, item) for item in value]
        return tx.new_list(items) if isinstance(value, list) else tx.new_tuple(items)
    return ConstantVariable(value) if isinstance(value, torch.dtype) else tx.from_constant(value)


def cast(tx: Translator, tensor: TensorVariable, dtype: Any) -> TensorVariable:
    wanted = DTYPES.get(dtype)
    if wanted is None:
        raise GraphBreak("dtype that torch does not compute with", str(dtype))
    if tensor.fake.is_complex() and not wanted.is_complex and wanted is not torch.bool:
        raise GraphBreak("numpy function not captured", "real numbers of complex ones")
    return tensor if tensor.fake.dtype is wanted else record(tx, torch.Tensor.to, tensor, wanted)


def full(tx: Translator, shape: tuple[int, ...], value: Any, dtype: Any) -> TensorVariable:
    if isinstance(value, numpy.generic):
        value = value.item()
    return record(tx, torch.full, tuple(shape), value, dtype=DTYPES[dtype], device=CPU)


def constant(tx: Translator, value: Any) -> Variable:
    """An array or number that tracing has computed; the program makes its own."""
    if isinstance(value, numpy.generic):
        dtype = value.dtype
        return ScalarVariable(tx, dtype, lambda: full(tx, (), value, dtype), value)
    look = Look.of(value)

    def make() -> TensorVariable:
        made = record(tx, torch.tensor, value.tolist(), dtype=DTYPES[look.dtype], device=CPU)
        if 0 in look.shape:
            made = record(tx, torch.Tensor.reshape, made, look.shape)
        return laid_out(tx, made, look)

    array = ArrayVariable(tx, look, make, value=value)
    array.owns = value.base is None
    return array


def laid_out(tx: Translator, tensor: TensorVariable, look: Look) -> TensorVariable:
    """The same elements, where numpy has them in memory."""
    if tuple(tensor.fake.shape) != look.shape:
        raise GraphBreak("numpy function not captured", f"torch gives {tuple(tensor.fake.shape)} for {look.shape}")
    if _lies(tensor.fake, look):
        return tensor
    order = sorted(range(len(look.shape)), key=lambda dim: -look.strides[dim])
    inverse = sorted(range(len(order)), key=order.__getitem__)
    moved = record(tx, torch.permute, tensor, tuple(order))
    made = record(tx, torch.clone, moved, memory_format=torch.contiguous_format)
    made = record(tx, torch.permute, made, tuple(inverse))
    if not _lies(made.fake, look):
        raise GraphBreak("numpy function not captured", f"strides {look.strides}")
    return made


def _lies(fake: torch.Tensor, look: Look) -> bool:
    if 0 in look.shape:
        return True
    strides = [stride * fake.itemsize for stride in fake.stride()]
    return all(ours == theirs for size, ours, theirs in zip(look.shape, strides, look.strides, strict=True) if size > 1)


def template(array: ArrayVariable) -> Any:
    """What a new array is made like, where it would not lie as numpy's does otherwise: dimensions of one have strides,
    too. None where it would."""
    look = array.look
    strides = [stride * look.dtype.itemsize for stride in array.tensor.fake.stride()]
    if numpy.empty_like(_strided(look, strides), order="K").strides == look.strides:
        return None
    inside = sorted(range(len(strides)), key=lambda dim: (look.strides[dim], look.shape[dim] > 1))
    return _strided(look, [look.dtype.itemsize * 3 ** (inside.index(dim) + 1) for dim in range(len(strides))])


def _strided(look: Look, strides: Iterable[int]) -> Any:
    """An array of which nothing may be read."""
    return numpy.lib.stride_tricks.as_strided(numpy.zeros(1, look.dtype), look.shape, tuple(strides))


def memory_of(tensor: TensorVariable) -> int:
    return memory(tensor.fake)


def made(tx: Translator, tensor: TensorVariable, example: Any, operands: Iterable[Variable]) -> Variable:
    """The new array, or number, that `example` is one of, with the elements of a tensor."""
    if not isinstance(example, (numpy.ndarray, numpy.generic)) or type(example) is not numpy.ndarray and example.shape:
        raise GraphBreak("numpy function not captured", f"gives a {type(example).__name__}")
    tensor = cast(tx, tensor, example.dtype)
    tensor = laid_out(tx, tensor, Look.of(example))
    lent = {memory_of(each.tensor) for each in operands if isinstance(each, NumpyVariable) and each.is_recorded}
    if memory_of(tensor) in lent:
        tensor = record(tx, torch.clone, tensor)
    if isinstance(example, numpy.generic):
        return ScalarVariable(tx, example.dtype, tensor)
    array = ArrayVariable(tx, Look.of(example), tensor)
    array.owns = example.base is None
    return array


def viewed(
    tx: Translator, array: ArrayVariable, function: Any, args: list[Any],
    view: Callable[[TensorVariable], TensorVariable],
) -> Variable:
    """What `function(array, *args)` of numpy's gives: the array, a view of it or a copy, as `view` is of its tensor."""
    source = array.example()
    example = rehearse(tx, function, [source, *args])
    if example is source:
        return array
    if isinstance(example, numpy.generic) or not _is_view(example, source):
        if array.known is not MISSING:
            return constant(tx, example)
        copied = record(tx, torch.clone, view(array.tensor))
        return made(tx, copied, example, [array])
    look = Look.of(example)
    seen = -1
    backwards = any(stride < 0 for stride in look.strides)

    def make() -> TensorVariable:
        found = view(array.tensor)
        if backwards and tx.graph.fake_mode.writes != seen:
            raise GraphBreak("array that lies backwards in memory that is written")
        lies = backwards or (memory_of(found) == memory_of(array.tensor) and _lies(found.fake, look))
        if not lies or tuple(found.fake.shape) != look.shape:
            raise GraphBreak("numpy function not captured", f"a view with strides {look.strides}")
        return found

    if backwards:
        seen = tx.graph.fake_mode.writes
    recipe = (function, [array, *map(tx.from_constant, args)])
    value = example if array.known is not MISSING else MISSING
    made_ = (Backwards if backwards else ArrayVariable)(tx, look, make, array.memory, recipe, value)
    made_.is_fixed = array.is_fixed or not example.flags.writeable
    if not backwards and array.is_recorded:
        assert made_.tensor is not None  # where torch lets it lie is known now
    return made_


def _is_view(example: Any, source: Any) -> bool:
    return bool(numpy.may_share_memory(example, source) if example.size else example.base is not None)


class Backwards(ArrayVariable):
    """A view that torch has none of: a copy stands for it, as long as nothing is written."""

    @property
    def tensor(self) -> TensorVariable:
        assert self._make is not None
        return self._make()


# --- numbers that are not finite --------------------------------------------------------------------------------------
def flagged(tx: Translator, tensor: TensorVariable, spread: Iterable[Variable] = ()) -> None:
    """What is computed here may be what eager code warns of. Of the operands `spread` each element that is not finite
    makes one of the result not finite."""
    if not (tensor.fake.is_floating_point() or tensor.fake.is_complex()):
        return
    if tx.first_check is None:
        tx.first_check = tx.anchor(), tensor.describe()
    if not errors_are_usual(numpy):
        raise GraphBreak("numpy's errors are not as usual")
    tx.know(tx.sources.const(numpy, "numpy"), "predicate", errors_are_usual)
    for each in spread:
        if isinstance(each, NumpyVariable) and each.is_recorded and tensor.fake.numel():
            tx.unchecked.pop(each.tensor, None)
    tx.unchecked[tensor] = None


def errors_are_usual(module: Any) -> bool:
    """errors as usual: others than of numbers too small for their type leave numbers behind that are not finite"""
    return bool(module.geterr()["under"] == "ignore")


def must_hold(tx: Translator, condition: TensorVariable) -> None:
    """Where it does not, the frame runs again as it was written."""
    if tx.first_check is None:
        tx.first_check = tx.anchor(), condition.describe()
    every = record(tx, torch.all, condition)
    tx.graph.call(torch._assert_async, [every, ConstantVariable("numbers that numpy warns of")])


def settle(tx: Translator) -> None:
    """Records the checks that are due: before something is written, and at the end."""
    due = list(tx.unchecked)
    tx.unchecked.clear()
    for tensor in due:
        must_hold(tx, record(tx, torch.isfinite, tensor))


def close(tx: Translator) -> None:
    """At the end of the frame."""
    settle(tx)


# --- writes -----------------------------------------------------------------------------------------------------------
def write(tx: Translator, array: ArrayVariable, place: TensorVariable, value: TensorVariable) -> None:
    """Writes into the memory of an array, at a place in it."""
    about_to_write(tx, array)
    if memory_of(place) == memory_of(value):
        value = record(tx, torch.clone, value)
    tx.graph.call_method("copy_", [place, value])


def about_to_write(tx: Translator, array: ArrayVariable) -> None:
    if isinstance(array, Backwards):
        raise GraphBreak("array that lies backwards in memory that is written")
    if array.is_fixed:
        raise GraphBreak("operation raises", "a write to an array that is read-only")
    assert array.tensor is not None  # with what was known
    settle(tx)
    array.memory.is_written = True


def is_array_input(variable: Any) -> bool:
    source = variable.source
    return source is not None and source.kind == "call" and source.arg is tensor_of
