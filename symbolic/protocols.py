"""Python's data model over variables: operators with reflection, truth, iteration, membership, `isinstance`, births.

The variables answer for their own kind; here stand the rules that involve two values or fall back between methods.
"""

from __future__ import annotations

import abc
import inspect
import operator
import re
import sys
import types
import typing
import weakref
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from symbolic import loops
from symbolic.errors import DEEPEST, MEMORY, RECURSION, SEES_END, GraphBreak, Observed
from symbolic.passing import home_of, namespace_of
from symbolic.variables import arrays, born, subclasses, torch_functions
from symbolic.variables.base import BINARY, INPLACE, MISSING, NUMBERS, Variable, lookup
from symbolic.variables.buffers import BufferVariable
from symbolic.variables.class_making import know_registered, new_class
from symbolic.variables.classes import ClassVariable, inherits, of_the_program, payload_for
from symbolic.variables.constants import ConstantVariable, is_a, is_constant_value, is_library_value, is_none
from symbolic.variables.containers import DequeVariable, ListVariable, TupleVariable, WeekDate, is_named
from symbolic.variables.exceptions import (
    AnyException,
    ExceptionVariable,
    as_raised,
    new_exception,
    passed_library,
    raised,
)
from symbolic.variables.iterators import ConstantIterator, GetitemIterator
from symbolic.variables.mappings import DictVariable, SetVariable
from symbolic.variables.methods import NativeMethod
from symbolic.variables.numbers import NumberVariable
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.positions import NO_INSTANCES, has, type_name
from symbolic.variables.properties import PropertyVariable
from symbolic.variables.symbols import SymbolVariable
from symbolic.variables.tables import BuiltinVariable
from symbolic.variables.tensors import TensorVariable
from symbolic.warned import Hearing

_REFLECTED = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}
_SYMBOLS = dict(zip(BINARY, "+ - * / // % ** @ << >> & | ^ divmod() < <= > >= == !=".split(), strict=True))
_SYMBOLS[operator.pow] = "** or pow()"
_INPLACE_SYMBOLS = dict(zip(INPLACE, "+= -= *= /= //= %= **= @= <<= >>= &= |= ^=".split(), strict=True))


#: Those whose instances have attributes only.
_BARE = (object.__new__, types.SimpleNamespace.__new__)


def _tell_attribute(tx: Any, raised: Observed, owner: Variable, name: str) -> None:
    """Tells an AttributeError whose attribute is meant, if nobody has."""
    error, told = raised.variable, {"name": ConstantVariable(name), "obj": owner}
    if not issubclass(error.python_type(), AttributeError):
        return
    if isinstance(error, ExceptionVariable):
        if error.tells_nothing:
            error.tell(**told)
    elif all(is_none(error.getattr(tx, each).realize(tx)) for each in told):
        for each, value in told.items():
            error.setattr(tx, each, value)


def _native_new(cls: type) -> Any:
    """The nearest `__new__` along the MRO that is not Python code."""
    for base in cls.__mro__:
        found = namespace_of(base).get("__new__")
        if isinstance(found, types.BuiltinFunctionType):
            return found
    return object.__new__


_VARYING = (NumberVariable, SymbolVariable)
#: What a number repeats.
_REPEATED = (str, bytes, bytearray, list, tuple, deque, array)
#: What an object is asked that is given as a class and is none.
_OF_CLASSES = ("__bases__", "__class__", "__getattr__", "__getattribute__")
#: What Python adds where nobody answers to `print >> file`, as Python 2 had it.
_OF_PRINT = '. Did you mean "print(<message>, file=<output_stream>)"?'
_HEAP_TYPE = 1 << 9  # a class made by a statement: all of these know of sequences


def _is_not_repeated(op: Any, a: Variable, b: Variable) -> bool:
    """Whether `a *= b` leaves b alone where `a * b` asks it to repeat itself: `a` is of a class that knows of
    sequences."""
    kind = b.python_type()
    native = next((base for base in _REPEATED if issubclass(kind, base)), None) if op is operator.imul else None
    if native is None or not (a.python_type().__flags__ & _HEAP_TYPE or has(a.python_type(), "__len__")):
        return False
    return lookup(kind, "__rmul__") is lookup(native, "__rmul__")


def _is_print(variable: Variable) -> bool:
    found = variable.real()
    return isinstance(found, types.BuiltinFunctionType) and found.__name__ == "print"


def _is_refused(op: Any, a: Variable, b: Variable) -> bool:
    """Whether `op(a, b)`, in place, of a number that varies and what is known to be none, is an error."""
    other = b if isinstance(a, _VARYING) else a if isinstance(b, _VARYING) else None
    if other is None or isinstance(other, _VARYING):
        return False
    kind = other.python_type()
    if issubclass(kind, NUMBERS):
        return False
    if not (other.is_constant() or home_of(kind) == "builtins"):
        forward, reflected = BINARY[INPLACE[op][0]]
        answering = (reflected,) if other is b else (INPLACE[op][1], forward)
        return all(lookup(kind, name) is MISSING for name in answering)
    is_template = op is operator.imod and other is a and issubclass(kind, (str, bytes, bytearray))
    return not is_template and not (op is operator.imul and issubclass(kind, _REPEATED))


class Protocols:
    """The part of the translator that knows Python's data model."""

    # --- births -----------------------------------------------------------------------------------------------------
    def model(self: Any, variable: Variable) -> Any:
        """The value as Python's own code may look at it: what stands for it, if it is not known."""
        return born.model(self, variable)

    def of_classes(self: Any, function: Callable[..., Any], *args: Variable) -> Variable:
        """`function(*args)`, which gives a class, an alias or a union of classes (or NotImplemented)."""
        value = self.attempt(function, *(born.model(self, arg) for arg in args))
        if value is not NotImplemented and (born.holds_model(self, value) or any(map(born.varies, args))):
            return born.make(self, function, list(args), {})
        return self.from_constant(value)

    def from_constant(self: Any, value: Any) -> Variable:
        """A variable for a value that tracing computed: constants, containers of them, classes, functions."""
        if is_constant_value(value) or is_library_value(value):
            return ConstantVariable(value)
        kind = type(value)
        if isinstance(value, tuple):
            if not is_named(kind) and kind not in (tuple, WeekDate):  # it is not known what makes another
                raise GraphBreak("construction by a native __new__", kind.__qualname__)
            return TupleVariable([self.from_constant(item) for item in value], None, kind)
        if kind is list:
            return ListVariable([self.from_constant(item) for item in value])
        if kind is dict:
            return self.new_dict([(self.from_constant(k), self.from_constant(v)) for k, v in value.items()])
        if kind in (set, frozenset):
            return self.new_set([self.from_constant(item) for item in value], kind)
        return self.wrap(value, self.sources.const(value, getattr(value, "__qualname__", None) or kind.__name__))

    def from_fixed(self: Any, value: Any) -> Variable:
        """The same for what stays, as constants of code do: a tuple is one object, however often it is loaded."""
        if type(value) is not tuple:
            return self.from_constant(value)
        return self.wrap(value, self.sources.const(value, "constant"))

    def new_tuple(self: Any, items: list[Variable], cls: type = tuple) -> Variable:
        return TupleVariable(items, None, cls)

    def new_list(self: Any, items: list[Variable]) -> Variable:
        return ListVariable(items)

    def new_dict(self: Any, pairs: list[tuple[Variable, Variable]], cls: type = dict) -> Any:
        made = DictVariable({}, None, cls)
        for key, value in pairs:
            made.store(self, key, value)
        return made

    def new_set(self: Any, items: list[Variable], cls: type = set) -> Variable:
        made = SetVariable({}, None, cls)
        for item in items:
            made.add(self, item)
        return made

    def constant_iterator(self: Any, value: range | str | bytes) -> Variable:
        return ConstantIterator(value)

    def getitem_iterator(self: Any, owner: Variable) -> Variable:
        return GetitemIterator(owner, 0)

    def new_instance(self: Any, cls: type, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        """`cls.__new__(cls, *args, **kwargs)` where `__new__` is native."""
        if cls.__flags__ & NO_INSTANCES:
            self.attempt(cls)
        if lookup(cls, "__del__") is not MISSING or cls is weakref.finalize:
            raise GraphBreak(SEES_END, cls.__qualname__)
        if issubclass(cls, type):
            return new_class(self, cls, args, kwargs)
        if (args or kwargs) and lookup(cls, "__new__") is object.__new__:
            if "__new__" in self.stored_on_classes:
                raise GraphBreak("class attribute that the frame stored", f"{cls.__qualname__}.__new__")
            if not self.makes_as_object(cls):
                self.attempt(object.__new__, cls, None)  # which takes no other argument, then
        if issubclass(cls, BaseException):
            return new_exception(self, cls, args, kwargs)
        is_abstract = cls.__flags__ & inspect.TPFLAGS_IS_ABSTRACT
        if is_abstract and _native_new(cls) is object.__new__:
            self.attempt(object.__new__, cls)
        if issubclass(cls, torch.Tensor):
            return subclasses.new(self, cls, args, kwargs)
        if is_abstract:
            raise GraphBreak("construction not supported", cls.__qualname__)
        if issubclass(cls, tuple) and lookup(cls, "_fields") is not MISSING:
            return TupleVariable(self.unpack(args[0]) if args else [], None, cls)
        if issubclass(cls, tuple) and lookup(cls, "n_sequence_fields") is not MISSING:
            items = self.unpack(args[0]) if len(args) == 1 else []
            fields: Any = cls
            if not len(items) == fields.n_fields == fields.n_sequence_fields:  # some have fields beside their elements
                raise GraphBreak("construction by a native __new__", cls.__qualname__)
            return TupleVariable(items, None, cls)
        if issubclass(cls, property):
            return PropertyVariable(cls)
        payload = payload_for(self, cls, args)
        if payload is None and _native_new(cls) not in _BARE:
            raise GraphBreak("construction by a native __new__", cls.__qualname__)
        filled = (BufferVariable, DequeVariable, DictVariable, ListVariable, SetVariable)
        from_args = payload is not None and not isinstance(payload, filled)
        new_args = tuple(args) if from_args else ()
        if issubclass(cls, (tuple, frozenset)) and payload is not None:  # an argument may have been used up
            new_args = (self.new_tuple(payload.reachable()),)
        return ObjectVariable(cls, payload=payload, new_args=new_args)

    # --- exceptions -------------------------------------------------------------------------------------------------
    def attempt(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs plain Python now; its exception becomes the program's. What warns has to run in the program."""
        failure: Exception | None = None
        trace: types.TracebackType | None = None
        handled = sys.exception()
        with Hearing() as warned:
            try:
                answer = function(*args, **kwargs)
            except (GraphBreak, Observed, GuardOnDataDependentSymNode):
                raise
            except Exception as error:
                trace = error.__traceback__
                failure = error.with_traceback(None)  # which holds this very frame
        if warned:
            re.purge()  # a pattern that it knows is not warned of again
            raise GraphBreak("operation that warns", str(warned[0].message))
        if failure is None:
            return answer
        if failure.__context__ is not handled:
            raise GraphBreak("context of an exception that is not looked into", repr(failure))
        made = as_raised(self, failure)
        if trace is not None and trace.tb_next is not None and isinstance(made, AnyException):
            passed_library(self, made, trace.tb_next)
        trace = None
        raise Observed(self.with_context(made)) from failure

    def new_exception(self: Any, cls: type[BaseException], *args: Any) -> Variable:
        return raised(self, cls, [self.from_constant(arg) for arg in args])

    def raise_(self: Any, cls: type[BaseException], *args: Any) -> NoReturn:
        """The program raises `cls(*args)` here."""
        raise Observed(self.with_context(self.new_exception(cls, *args)))

    def no_name(self: Any, name: str, said: str = "name {!r} is not defined") -> NoReturn:
        """NameError, with what its text proposes other names by: the name, and the variables of the frame."""
        error = self.new_exception(NameError, said.format(name))
        error.tell(name=ConstantVariable(name))
        raise Observed(self.with_context(error))

    def raise_from(self: Any, cls: type[BaseException], *args: Any, cause: Variable) -> NoReturn:
        error = self.new_exception(cls, *args)
        assert isinstance(error, ExceptionVariable)
        error.set_own(self, "__context__", cause)
        error.plain_setattr(self, "__cause__", cause)
        raise Observed(error)

    def stop_iteration(self: Any, value: Variable) -> NoReturn:
        nothing = isinstance(value, ConstantVariable) and value.value is None
        raise Observed(self.with_context(raised(self, StopIteration, [] if nothing else [value])))

    def exception_from(self: Any, args: list[Variable]) -> Variable:
        """The exception that `raise args[0]` or `throw(*args)` means."""
        first = args[0]
        if isinstance(first, ClassVariable) or (isinstance(first, BuiltinVariable) and isinstance(first.real(), type)):
            if len(args) > 1 and issubclass(args[1].python_type(), BaseException):
                return args[1]
            return self.call(first, [a for a in args[1:2] if not (a.is_constant() and a.constant() is None)], {})
        return first

    def handling(self: Any) -> Variable | None:
        """The exception being handled, by the frames or by who called them."""
        if self.handled is not None:
            return self.handled
        outer = self.outer.realize(self)
        return None if is_none(outer) else outer

    def with_context(self: Any, error: Variable) -> Variable:
        """What `raise` does: the exception being handled becomes the context."""
        if self.handled is error:
            return error
        if self.handled is None and isinstance(error, ExceptionVariable) and is_none(error.own(self, "__context__")):
            error.set_own(self, "__context__", self.outer)  # that there is one is no fact until somebody asks
            return error
        handled = self.handling()
        if handled is not None and handled is not error:
            if not isinstance(error, AnyException) or not isinstance(handled, AnyException):
                raise GraphBreak("context of an exception that is not looked into", error.describe())
            error.take_context(self, handled)
        return error

    # --- operators --------------------------------------------------------------------------------------------------
    def binary(self: Any, op: Any, a: Variable, b: Variable) -> Variable:
        """`op(a, b)`"""
        result = self._attempts(op, a, b)
        return result if result is not None else self._unsupported(op, _SYMBOLS[op], a, b)

    def _attempts(self: Any, op: Any, a: Variable, b: Variable) -> Variable | None:
        """Python's order: a subclass's own reflected method first, then left, then right. None: nobody answers."""
        if type(a) is type(b) is ConstantVariable and (result := a.binary(self, op, b)) is not None:
            return result
        a, b = arrays.numbers(self, a, b)
        left, right = a.python_type(), b.python_type()
        if isinstance(a, TensorVariable) and isinstance(b, TensorVariable) and op in _REFLECTED:
            if left is not right and left in right.__mro__:  # asked first, whether it has a method of its own or not
                a, b, op = b, a, _REFLECTED[op]
        objects = isinstance(a, ObjectVariable) and isinstance(b, ObjectVariable)
        if left is right and objects and op not in _REFLECTED:
            return a.binary(self, op, b)
        recorded = (TensorVariable, NumberVariable)
        first = isinstance(b, recorded) and not isinstance(a, (*recorded, ObjectVariable)) and left not in (str, bytes)
        if isinstance(a, arrays.NumpyVariable) and isinstance(b, NumberVariable):
            first = False
        if isinstance(b, arrays.NumpyVariable) and isinstance(a, NumberVariable):  # which asks it in any case
            first = op in arrays.OPERATORS
        if isinstance(b, (ObjectVariable, DictVariable)) and left is not right and left in right.__mro__:
            reflected = BINARY[op][1]
            first = op in _REFLECTED or lookup(left, reflected) is not lookup(right, reflected)
        if first and (result := b.rbinary(self, op, a)) is not None:
            return result
        result = a.binary(self, op, b)
        if result is None and not first:
            result = b.rbinary(self, op, a)
        if result is None and op in _REFLECTED:
            result = self._of_builtin(op, a, b)
        return result if result is not None else a.as_sequence(self, op, b)

    def _of_builtin(self: Any, op: Any, a: Variable, b: Variable) -> Variable | None:
        """What a builtin value says of a derived class's that does not want to compare itself with it."""
        derived, builtin, asked = (b, a, op) if isinstance(b, ObjectVariable) else (a, b, _REFLECTED[op])
        if not isinstance(derived, ObjectVariable) or derived.payload is None or isinstance(builtin, ObjectVariable):
            return None
        name = BINARY[op if derived is a else _REFLECTED[op]][0]
        if derived.special(self, name) is None and lookup(derived.cls, name) is not object.__ne__:
            return None
        if builtin.is_constant():
            raise GraphBreak("operation not supported by the object", f"{a.describe()} {_SYMBOLS[op]} {b.describe()}")
        return builtin.binary(self, asked, derived)

    def _unsupported(self: Any, op: Any, symbol: str, a: Variable, b: Variable) -> Variable:
        """What Python does when neither operand answers."""
        if op in (operator.eq, operator.ne) and all(issubclass(each.python_type(), NUMBERS) for each in (a, b)):
            raise GraphBreak("operation not supported by the object", f"{a.describe()} {symbol} {b.describe()}")
        if op is operator.eq:
            return ConstantVariable(a.is_same(self, b))
        if op is operator.ne:
            return ConstantVariable(not a.is_same(self, b))
        if symbol == "*" and issubclass(b.python_type(), _REPEATED):
            return self.raise_(TypeError, f"can't multiply sequence by non-int of type {type_name(a.python_type())!r}")
        names = f"{type_name(a.python_type())!r} and {type_name(b.python_type())!r}"
        if op in _REFLECTED:
            return self.raise_(TypeError, f"{symbol!r} not supported between instances of {names}")
        hint = _OF_PRINT if symbol == ">>" and _is_print(a) else ""
        return self.raise_(TypeError, f"unsupported operand type(s) for {symbol}: {names}{hint}")

    def inplace(self: Any, op: Any, a: Variable, b: Variable) -> Variable:
        if _is_refused(op, a, b):  # errors name the operator as it was written: the numbers themselves are asked
            a, b = (each.plain() if isinstance(each, _VARYING) else each for each in (a, b))
        result = a.inplace(self, op, b)
        if result is None and isinstance(a, TensorVariable) and isinstance(b, subclasses.SubclassVariable):
            result = b.rinplace(self, op, a)
        if result is None:
            attempts = self._attempts if not _is_not_repeated(op, a, b) else lambda op, a, b: a.binary(self, op, b)
            result = attempts(INPLACE[op][0], a, b)
        return result if result is not None else self._unsupported(op, _INPLACE_SYMBOLS[op], a, b)

    def unary(self: Any, op: Any, a: Variable) -> Variable:
        return a.unary(self, op)

    def equal(self: Any, a: Variable, b: Variable) -> bool:
        """Equality as containers see it: identity first."""
        if a is b or (type(a) is type(b) is ClassVariable and a.real() is b.real()):
            return True
        self.go_deeper()
        try:
            return self.truth(self.binary(operator.eq, a, b))
        finally:
            self.depth -= 1

    def go_deeper(self: Any) -> None:
        """A step into data that lies in other data, till `depth` is one less again."""
        if self.depth >= DEEPEST:
            raise GraphBreak(RECURSION, "data deep in one another")
        self.depth += 1

    def truth(self: Any, value: Variable) -> bool:
        return value.truth(self)

    def iter(self: Any, value: Variable) -> Variable:
        return value.iterator(self)

    def next(self: Any, iterator: Variable) -> Variable | None:
        """What a loop gets: StopIteration, whoever raised it, says that there is no more."""
        loops.drawn(self, iterator)
        try:
            return iterator.next(self)
        except Observed as raised:
            if not issubclass(raised.variable.python_type(), StopIteration):
                raise
            return None

    def unpack(self: Any, value: Variable) -> list[Variable]:
        return value.unpack(self)

    def len(self: Any, value: Variable) -> int:
        return value.length(self)

    def contains(self: Any, container: Variable, item: Variable) -> bool:
        return container.contains(self, item)

    # --- attributes and types ---------------------------------------------------------------------------------------
    def getattr(self: Any, value: Variable, name: str) -> Variable:
        try:
            return value.getattr(self, name)
        except Observed as raised:
            _tell_attribute(self, raised, value, name)
            raise

    def method_of(self: Any, value: Variable, name: str) -> Variable:
        """What is called next: of a plain object's descriptor that raises, nobody tells whose attribute it was."""
        try:
            found = value.getattr(self, name)
        except Observed as raised:
            kind = value.python_type()
            is_plain = self.lookup(kind, "__getattribute__") is object.__getattribute__ and not has(kind, "__getattr__")
            if not is_plain or self.lookup(kind, name) is MISSING:
                _tell_attribute(self, raised, value, name)
            raise
        if isinstance(found, NativeMethod):
            found.is_called = True
        return found

    def optional(self: Any, value: Variable, name: str) -> Variable | None:
        """The attribute, None where there is none."""
        try:
            found: Variable = value.getattr(self, name)
        except Observed as raised:
            if issubclass(raised.variable.python_type(), AttributeError):
                return None
            raise
        return found

    def hasattr(self: Any, value: Variable, name: str) -> bool:
        return self.optional(value, name) is not None

    def isinstance(self: Any, value: Variable, cls: Variable) -> bool:
        return any(self._isinstance(value, one) for one in self.classes(cls))

    def classes(self: Any, cls: Variable, depth: int = 0) -> list[Any]:
        """The classes that the second argument of `isinstance` or `issubclass` names."""
        if depth > DEEPEST:
            raise GraphBreak(RECURSION, "data deep in one another")
        if isinstance(cls, TupleVariable):
            return [one for item in cls.items for one in self.classes(item, depth + 1)]
        real = cls.real()
        if real is MISSING and cls.is_constant():
            real = cls.constant()
        is_union = home_of(type(real)) == "typing" and typing.get_origin(real) is typing.Union
        if type(real) is types.UnionType or is_union:
            return [type(None) if one is None else one for one in real.__args__]
        if real is MISSING or (not is_a(real, type) and answers_as_class(real)):
            raise GraphBreak("class not known", cls.describe())
        return [real]

    def _isinstance(self: Any, value: Variable, cls: Any) -> bool:
        special = torch_functions.is_instance(self, value, cls) if isinstance(cls, type) else None
        if special is not None:
            return special
        kind = value.python_type()
        self.mro(kind)
        if kind is cls:  # and nobody is asked
            return True
        if kind in weakref.ProxyTypes:  # which claims to be of the class of what it stands for
            raise GraphBreak(MEMORY, value.describe())
        check = lookup(type(cls), "__instancecheck__")
        if check is type.__instancecheck__:
            return self.is_native_instance(value, cls)
        if says_its_class(value):
            raise GraphBreak("class not known", f"what {value.describe()} says that it is")
        if check is abc.ABCMeta.__instancecheck__:
            return self.issubclass(self.class_variable(kind), cls)
        if isinstance(check, types.FunctionType):
            asked = self.class_attribute(type(cls), "__instancecheck__")
            return bool(self.truth(self.call(asked, [self.from_constant(cls), value], {})))
        if lookup(type(cls), "__bases__") is not MISSING and not isinstance(cls, type) and value.real() is MISSING:
            raise GraphBreak("class not known", f"{type(cls).__qualname__} as a class")
        real = value.real()
        if real is MISSING and value.is_constant():
            real = value.constant()
        if real is MISSING:
            return self.attempt(issubclass, kind, cls)
        return self.attempt(isinstance, real, cls)

    def is_native_instance(self: Any, value: Variable, cls: type) -> bool:
        """`type.__instancecheck__(cls, value)`: by the value's class, and by the one that it says that it is of."""
        if inherits(self.mro(value.python_type()), cls):
            return True
        if not says_its_class(value):
            return False
        said = self.getattr(value, "__class__")
        claimed = said.constant() if said.is_constant() else said.real()
        if claimed is MISSING:
            raise GraphBreak("class not known", f"what {value.describe()} says that it is")
        return is_a(claimed, type) and inherits(self.mro(claimed), cls)

    def issubclass(self: Any, child: Variable, cls: Any) -> bool:
        check = lookup(type(cls), "__subclasscheck__")
        if of_the_program(check):
            if not isinstance(check, types.FunctionType):
                raise GraphBreak("subclass check by a metaclass", cls.__qualname__)
            asked = self.class_attribute(type(cls), "__subclasscheck__")
            return bool(self.truth(self.call(asked, [self.from_constant(cls), child], {})))
        kind = child.constant() if child.is_constant() else child.real()
        if not is_a(kind, type):
            if isinstance(child, ObjectVariable) and (kind is MISSING or answers_as_class(kind)):
                raise GraphBreak("class not known", child.describe())
            return bool(self.attempt(issubclass, kind, cls))
        self.mro(kind)
        answer: bool = self.attempt(issubclass, kind, cls)
        know_registered(self, kind, cls, answer)
        return answer


def answers_as_class(value: Any) -> bool:
    """Whether a method or a property of the program's says what this has of a class, which it is not."""
    return any(of_the_program(lookup(type(value), name)) for name in _OF_CLASSES)


def says_its_class(value: Variable) -> bool:
    """Whether a method or a property of the program's says what `value.__class__` is."""
    kind = value.python_type()
    return isinstance(value, ObjectVariable) and (
        lookup(kind, "__class__") is not object.__dict__["__class__"]
        or isinstance(lookup(kind, "__getattribute__"), types.FunctionType)
    )
