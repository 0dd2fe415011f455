"""Buffers: bytearrays and arrays of numbers.

What they hold is plain data, so a buffer is modelled by one of the same type, and its methods and operators are
Python's own, run now on the model; only iterables feed it through `tx`.
"""

from __future__ import annotations

import copy
import functools
import operator
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, GetSetDescriptorType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

import torch

from symbolic.errors import GraphBreak, Observed
from symbolic.sources import Source
from symbolic.variables.base import BINARY, COMPARISONS, INPLACE, MISSING, Variable, lookup
from symbolic.variables.containers import ReversedIterator, SequenceIterator
from symbolic.variables.native import Method, NativeVariable, each, each_of_some, is_iterable
from symbolic.variables.positions import answers, as_index, has, has_own, native_part, stand_in, type_name

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: A longer buffer is left to the running program: a guard compares what it holds at each call.
MAX_BYTES = 1 << 16
#: Methods that tell of memory, or have to do with files.
_REFUSED = frozenset("buffer_info tofile fromfile __alloc__ __sizeof__ __buffer__ __release_buffer__".split())
_OF_SEQUENCES = (operator.add, operator.mul)
#: Operations that make a buffer as long as a number says.
_GROWING = frozenset({"__init__", "mul", "imul"})
#: Those that a buffer which nobody has read yet takes without being read.
_ADDING = frozenset({"append", "extend", "frombytes", "fromlist", "fromunicode"})


class Holds:
    """contents as they were: the predicate of a guard"""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.__doc__ = f"contents {data[:20]!r}"

    def __call__(self, value: Any) -> bool:
        return data_of(value) == self.data


def has_no_views(value: Any) -> bool:
    """length that may change (nobody has a view)"""
    base: Any = array if isinstance(value, array) else bytearray
    try:
        base.__delitem__(value, slice(0, 0, 2))  # of nothing: all that it does is to ask
    except BufferError:
        return False
    return True


def plain(value: Any) -> Any:
    """A copy, of the built-in type."""
    return array.__copy__(value) if isinstance(value, array) else bytearray.copy(value)


def data_of(value: Any) -> bytes:
    return array.tobytes(value) if isinstance(value, array) else bytes(bytearray.copy(value))


def is_readable(value: Any) -> bool:
    """Whether there is an item at each place: an array of characters may have been given bytes that are none."""
    try:
        if isinstance(value, array) and value.typecode in _OF_CHARACTERS:
            array.tolist(value)
    except ValueError:
        return False
    return True


_OF_CHARACTERS = frozenset("uw")


def empty_like(value: Any) -> Any:
    """One of the built-in type (`array(typecode)` may warn)."""
    return plain(value)[:0]


class BufferVariable(NativeVariable):
    """A bytearray or array.

    Reconstruction reads `added`, what it holds now. An existing one is read when its contents are asked for: appended
    to only, it may come in with any; then it `is_unread`, and `added` has what was appended."""

    HOLDS = ("added",)

    def __init__(self, contents: Any, source: Source | None = None, value: Any = MISSING) -> None:
        self.source = source
        self.value = value
        self.cls = type(contents)
        self.is_unread = source is not None
        self.is_apart = False  # from the tensors of the graph
        self.added = contents
        self.owner: Any = None  # the ObjectVariable whose native part this is

    def contents(self, tx: Translator) -> Any:
        """The model."""
        if self.is_unread:
            self._use(tx)
            assert self.source is not None
            data = data_of(self.value)
            if len(data) > MAX_BYTES:
                raise GraphBreak("large buffer", f"{self.describe()}, {len(data)} bytes")
            if not is_readable(self.value):
                raise GraphBreak("value of a buffer not known", f"{self.describe()}, which has what is no character")
            tx.know(self.source, "predicate", Holds(data))
            self.added, self.is_unread = plain(self.value) + self.added, False
        return self.added

    def _use(self, tx: Translator) -> None:
        """Says that tensors of the graph must not lie in this memory."""
        if self.source is not None and not self.is_apart:
            self.is_apart = True
            tx.buffers.append((tx.anchor(), self))

    def native(self) -> type:
        return bytearray if issubclass(self.cls, bytearray) else array

    def blank(self) -> Any:
        return empty_like(self.added)

    def known(self, tx: Translator) -> Any:
        """A copy of what it holds."""
        return self.contents(tx)[:]

    def appended(self, before: BufferVariable | None) -> Any | None:
        """What was appended to it as it was `before` (None: before the frame); None if that is not all."""
        return self.added[len(before.added) if before is not None else 0 :] if self.is_unread else None

    def takes(self, before: BufferVariable | None = None) -> str:
        appended = self.appended(before)
        return f"{self}.extend({appended!r})" if appended is not None else f"{self}[:] = {self.added!r}"

    # --- running Python's own code ----------------------------------------------------------------------------------
    def run(self, tx: Translator, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`function(model, *args, **kwargs)`, which may change the model. If that needs a length that may change, it is
        guarded that the length may."""
        if getattr(function, "__name__", "") in _GROWING and any(type(a) is int and a > MAX_BYTES for a in args):
            raise GraphBreak("large buffer", self.describe())
        tx.ledger.keep(self)
        before = self.added[:]
        try:
            return self._run(tx, before, function, args, kwargs)
        finally:  # what raises may have changed it, too: `extend` has appended what came before the wrong element
            if data_of(self.added) != data_of(before):
                self._changed(tx, before)

    def _run(self, tx: Translator, before: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        model = self.added
        result = _RESIZED
        if self.source is not None:
            with memoryview(model):
                result = tx.attempt(_at_its_length, function, model, args, kwargs)
        if result is _RESIZED:
            if self.source is not None:
                model[:] = before
                self._check_length(tx)
            result = tx.attempt(function, model, *args, **kwargs)
        return result

    def _changed(self, tx: Translator, before: Any) -> None:
        if not is_readable(self.added):
            self.added[:] = before
            raise GraphBreak("value of a buffer not known", "an array with what is no character")
        self._use(tx)
        tx.ledger.touch(self)

    def _check_length(self, tx: Translator) -> None:
        assert self.source is not None
        if not has_no_views(self.value):
            raise GraphBreak("buffer that somebody has a view of", self.describe())
        tx.know(self.source, "predicate", has_no_views)

    def answer(self, tx: Translator, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Variable:
        result = self.run(tx, function, *args, **kwargs)
        return self if result is self.added else from_python(tx, result)

    def find(self, name: str) -> Method | None:
        known = super().find(name)
        if known is not None or name in _REFUSED:
            return known
        raw = lookup(self.cls, name)
        return Method(functools.partial(_run_method, name)) if isinstance(raw, MethodDescriptorType) else None

    def getattr(self, tx: Translator, name: str) -> Variable:
        raw = vars(self.cls).get(name)
        if isinstance(raw, GetSetDescriptorType) or name == "itemsize":
            return tx.from_constant(getattr(self.added, name))
        return super().getattr(tx, name)

    def do___init__(self, tx: Translator, /, *args: Variable, **kwargs: Variable) -> None:
        if self.cls is bytearray:
            given = [_fed(tx, arg) for arg in args]
            named = {name: _argument(tx, arg) for name, arg in kwargs.items()}
            self.contents(tx)
            try:
                self.run(tx, bytearray.__init__, *given, **named)
            except Observed:
                _say_again(tx, bytearray, args, kwargs)
                raise

    # --- protocol ---------------------------------------------------------------------------------------------------
    def length(self, tx: Translator) -> int:
        return len(self.contents(tx))

    def truth(self, tx: Translator) -> bool:
        return bool(self.contents(tx))

    def item(self, tx: Translator, index: int) -> Variable:
        """The element at `index`, which there is."""
        return tx.from_constant(self.contents(tx)[index])

    def contains(self, tx: Translator, item: Variable) -> bool:
        self.contents(tx)
        return self.run(tx, operator.contains, _operand(tx, operator.contains, item))

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        self.contents(tx)
        return self.answer(tx, operator.getitem, as_index(tx, index))

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        self.contents(tx)
        self.run(tx, operator.setitem, as_index(tx, index), _argument(tx, value))

    def delitem(self, tx: Translator, index: Variable) -> None:
        self.contents(tx)
        self.run(tx, operator.delitem, as_index(tx, index))

    def iterator(self, tx: Translator) -> Variable:
        return SequenceIterator(self, 0)

    def reversed(self, tx: Translator) -> Variable:
        return ReversedIterator(self, self.length(tx) - 1)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        name, reflected = BINARY[op]
        if not has(self.cls, name) or answers(other, reflected):
            return None
        if op in _OF_SEQUENCES:
            return self.as_sequence(tx, op, other)
        self.contents(tx)
        result = self._operated(tx, getattr(self.cls, name), _operand(tx, op, other))
        return None if result is NotImplemented else from_python(tx, result)

    def as_sequence(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if op not in _OF_SEQUENCES:
            return None
        self.contents(tx)
        return from_python(tx, self._operated(tx, op, _operand(tx, op, other)))

    def _operated(self, tx: Translator, op: Any, operand: Any) -> Any:
        try:
            return self.run(tx, op, operand)
        except Observed:
            if self.whole is not self:
                tx.attempt(op, self._namesake(tx), operand)
            raise

    def _namesake(self, tx: Translator) -> Any:
        """The value for errors, which name its class: one of a class of that name, where that is derived."""
        value = self.contents(tx)
        if self.whole is self:
            return value
        base: Any = type(value)
        named = type(type_name(self.whole.python_type()), (base,), {})
        return named(value.typecode, value) if base is array else named(value)

    def rbinary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """With a number or bytes on the left."""
        kind = other.python_type()
        if op is operator.mul:  # a sequence takes the buffer for how often
            return None if has(kind, "__mul__") and has(kind, "__getitem__") else self.as_sequence(tx, op, other)
        if issubclass(kind, int):
            return self.binary(tx, op, other) if op in (operator.eq, operator.ne) else None
        part = native_part(other)
        if isinstance(part, BufferVariable) and op in COMPARISONS.values():  # an array, which has not answered
            return from_python(tx, tx.attempt(op, part._namesake(tx), self._namesake(tx)))
        if not part.is_constant() or not issubclass(kind, bytes) or not has(bytes, BINARY[op][0]):
            return None
        return from_python(tx, tx.attempt(op, stand_in(other), self._namesake(tx)))

    def reflected(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        """`__rmod__` fills in no text but one of its own type."""
        if op is operator.mod and not issubclass(other.python_type(), bytearray):
            return None
        return other.binary(tx, op, self) if op is operator.mod else self.rbinary(tx, op, other)

    def inplace(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        plain, name = INPLACE[op]
        if not has(self.cls, name) or self.asks_first(op, other):
            return None
        self.contents(tx)
        self._operated(tx, op, _operand(tx, plain, other))
        return self


class _Resized:
    """Answer of an operation that needs a length that may change."""


_RESIZED: Any = _Resized()


def _at_its_length(function: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
    try:
        return function(model, *args, **kwargs)
    except BufferError:
        return _RESIZED


def _run_method(name: str, self: BufferVariable, tx: Translator, /, *args: Variable, **kwargs: Variable) -> Variable:
    if self.whole is not self and name in ("__reduce__", "__reduce_ex__"):
        raise GraphBreak("operation not supported by the object", f"{name} of {self.whole.describe()}")
    if name not in _ADDING or any(native_part(arg) is self for arg in args):
        self.contents(tx)
    if name in _COMPARING and any(has_own(arg, ["__eq__"]) for arg in args):
        raise GraphBreak("value of a buffer not known", f"{name} of what compares itself")
    if name == "extend" and len(args) == 1 and self.cls is array and _feeds(args[0]):
        for item in each(tx, args[0]):  # which may look at it meanwhile
            self.run(tx, array.append, _argument(tx, item))
        return tx.from_constant(None)
    if name == "fromlist" and args and not issubclass(args[0].python_type(), list):
        self.misuse(tx, self.contents(tx).fromlist, None)
    taken = functools.partial(_fed, elements=each_of_some) if name == "extend" else _argument
    given = [taken(tx, arg) for arg in args]
    named = {key: _argument(tx, arg) for key, arg in kwargs.items()}
    try:
        return self.answer(tx, getattr(self.cls, name), *given, **named)
    except Observed:
        _say_again(tx, functools.partial(getattr(self.cls, name), copy.copy(self.contents(tx))), args, kwargs)
        raise


def _say_again(tx: Translator, function: Any, args: Sequence[Variable], kwargs: Mapping[str, Variable]) -> None:
    """Raises what a call raises that names the classes of its arguments, which their values do not show."""
    if all(native_part(arg).is_constant() for arg in (*args, *kwargs.values())):
        tx.attempt(function, *map(stand_in, args), **{key: stand_in(arg) for key, arg in kwargs.items()})


_COMPARING = ("count", "index", "remove")


def _feeds(variable: Variable) -> bool:
    """Whether it is an iterable whose elements come one by one."""
    at_once = variable.is_constant() or isinstance(native_part(variable), BufferVariable)
    return not at_once and is_iterable(variable)


def _argument(tx: Translator, variable: Variable) -> Any:
    """The Python value of an operand; an iterable as a list."""
    part = native_part(variable)
    if isinstance(part, BufferVariable):
        return part.contents(tx)
    if part.is_constant():
        return part.constant()
    kind = variable.python_type()
    if issubclass(kind, torch.Tensor):
        raise GraphBreak("tensor value needed", "buffer")
    if issubclass(kind, (int, float)):
        return variable.constant()
    if kind in (list, tuple):
        return kind([_argument(tx, item) for item in tx.unpack(variable)])
    raise GraphBreak("value of a buffer not known", variable.describe())


def _operand(tx: Translator, op: Any, variable: Variable) -> Any:
    """The Python value of the right operand."""
    if op is operator.mul:
        return as_index(tx, variable)
    return stand_in(variable) if native_part(variable).is_constant() else _argument(tx, variable)


def _fed(
    tx: Translator, variable: Variable, elements: Callable[[Translator, Variable], Iterable[Variable]] = each
) -> Any:
    """The same of what a buffer is made of or extended by: any iterable. (The bytes of another are taken as bytes.)"""
    kind = variable.python_type()
    is_buffer = isinstance(native_part(variable), BufferVariable)
    asks = isinstance(lookup(kind, "__iter__"), FunctionType)
    if is_buffer and asks:  # some ask it, some don't
        raise GraphBreak("subclass of a builtin container", f"elements of {variable.describe()}")
    is_known = is_buffer or (native_part(variable).is_constant() and not (asks and issubclass(kind, tuple)))
    if is_known or not is_iterable(variable) or any(has(variable.python_type(), name) for name in _NO_ITERABLES):
        return _argument(tx, variable)
    return [_argument(tx, item) for item in elements(tx, variable)]


#: Special methods of what is asked for bytes or a number, not for elements.
_NO_ITERABLES = ("__index__", "__bytes__", "__buffer__", "typecode")


def bytes_of(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
    """`bytes(source, encoding, errors)` of what has no `__bytes__`"""
    given = [_fed(tx, arg, each_of_some) for arg in args]
    named = {name: _argument(tx, arg) for name, arg in kwargs.items()}
    try:
        return from_python(tx, tx.attempt(bytes, *given, **named))
    except Observed:
        _say_again(tx, bytes, args, kwargs)
        raise


def array_of(tx: Translator, *args: Variable) -> Variable:
    """`array(typecode, initializer)`"""
    if any(issubclass(arg.python_type(), (list, tuple)) and has_own(arg, ["__len__", "__getitem__"]) for arg in args):
        raise GraphBreak("value of a buffer not known", "an array of what answers itself")
    given = [_fed(tx, arg) for arg in args]
    if given[:1] == ["u"]:
        raise GraphBreak("operation that warns", "array('u')")
    try:
        made = tx.attempt(array, *given)
    except Observed:
        if args and not issubclass(args[0].python_type(), str):
            tx.attempt(array, stand_in(args[0]))
        raise
    if not is_readable(made):
        raise GraphBreak("value of a buffer not known", "an array with what is no character")
    return BufferVariable(made)


def from_python(tx: Translator, value: Any) -> Variable:
    """The variable for a fresh value made of constants."""
    kind = type(value)
    if kind in (bytearray, array):
        return BufferVariable(value)
    if kind is list:
        return tx.new_list([from_python(tx, item) for item in value])
    if kind is dict:
        return tx.new_dict([(from_python(tx, key), from_python(tx, item)) for key, item in value.items()])
    if kind is tuple:
        return tx.new_tuple([from_python(tx, item) for item in value])
    return tx.from_constant(value)
