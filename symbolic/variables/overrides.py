"""`__torch_function__`: what classes of tensors, and modes, make of torch's operations.

Torch itself says what it hands on of an operation: it is asked with stand-ins, before anything is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType, MethodWrapperType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from symbolic.errors import GraphBreak, Restart
from symbolic.torch_state import TorchState
from symbolic.variables.base import FixedVariable, Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.constants import ConstantVariable, is_a
from symbolic.variables.containers import ListVariable, TupleVariable
from symbolic.variables.functions import FunctionVariable
from symbolic.variables.numbers import EXAMPLES
from symbolic.variables.subclasses import NOT_WRAPPED, SubclassVariable, converted, plain, whole
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import (
    ASKING,
    CLASSLESS,
    HANDLERS,
    QUERIES,
    SETTERS,
    StateGuard,
    TorchFunction,
    is_operator,
)
from symbolic.warned import Hearing

if TYPE_CHECKING:
    from symbolic.translator import Translator

_C: Any = torch._C
_State = _C._TorchFunctionState
_KNOWN = (int, float, complex, bool, str, bytes, type(None), type(...), slice, torch.dtype, torch.device, torch.layout,
          torch.memory_format, torch.Size)  # fmt: skip


class _HandedOn(Exception):
    """What torch calls `__torch_function__` with."""

    def __init__(self, function: Any, types: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self.function = function
        self.types = types
        self.args = args
        self.kwargs = kwargs


class _StandIn(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _HandedOn(func, types, args, kwargs)


class _Int(int):
    """Of an int that varies, which another one with its value is not."""


class _Float(float):
    """The same of a float."""


_NUMBERS: dict[type, Callable[[Any], Any]] = {int: _Int, float: _Float}


class _Asking(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _HandedOn(func, types, args, kwargs)


@dataclass
class _Mode:
    variable: Variable
    pushed_at: int


class Overrides:
    """Who is asked now: the modes that the frame has entered, and whether classes are."""

    def __init__(self) -> None:
        self.state = _C._get_torch_function_state()
        self.modes: list[_Mode] = []

    @property
    def has_modes(self) -> bool:
        return bool(self.modes) and self.state != _State.ALL_DISABLED

    def refuse(self, what: str) -> None:
        """Where modes would be told what is done to a tensor, step by step."""
        if self.has_modes:
            raise GraphBreak("torch function mode", f"{what} inside of it")

    def asked(self, variables: Iterable[Variable]) -> list[SubclassVariable]:
        """Those among these values, and in tuples and lists of them, whose classes are asked."""
        return [] if self.state != _State.ENABLED else [each for each in _within(variables) if each.overrides]

    def ask(
        self,
        tx: Translator,
        function: Callable[..., Any],
        args: list[Variable],
        kwargs: dict[str, Variable] | None = None,
        method: str = "",
    ) -> Variable | None:
        """What a mode or a class answers to `function(*args, **kwargs)`, a function of torch's C++ or one of its Python
        that hands on itself, or to that method of the first argument; None: nobody is asked."""
        named = kwargs or {}
        if not self.has_modes and all(each.is_usual for each in self.asked((*args, *named.values()))):
            return None
        question = _Question(tx)
        handed = question.put(method or function, args, named, self.has_modes)
        if handed is None:
            return None
        written = getattr(torch.Tensor, method, None) if method else function
        if type(written) is FunctionType and handed.function is not written:  # it hands on what it calls
            return _inlined(tx, written, args, named)
        return self.answer(
            tx,
            question.back(handed.function),
            self.asked(question.given.values()),
            question.types(handed.types),
            [question.back(each) for each in handed.args],
            None if handed.kwargs is None else {name: question.back(each) for name, each in handed.kwargs.items()},
        )

    def converts(self, variable: SubclassVariable) -> bool:
        """Whether results of operations on it become objects of its class, and there is no more to it."""
        return variable.is_usual and self.state == _State.ENABLED and not self.modes

    def concerns(self, args: list[Variable], kwargs: dict[str, Variable]) -> bool:
        """Whether a call of torch is more than an operation on plain tensors."""
        return self.has_modes or any(True for _ in _within((*args, *kwargs.values())))

    def called(
        self, tx: Translator, function: TorchFunction, args: list[Variable], kwargs: dict[str, Variable]
    ) -> Variable:
        """Such a call."""
        value = function.value
        if not (is_operator(value) or value in QUERIES or value in SETTERS or value in HANDLERS):
            return function.plain_call(tx, args, kwargs)
        if value in CLASSLESS and any(True for _ in _within((*args, *kwargs.values()))):
            raise GraphBreak("tensor subclass", f"{function.describe()} of a tensor of such a class")
        answer = self.ask(tx, value, args, kwargs)
        if answer is not None:
            return answer
        named = {name: plain(each) for name, each in kwargs.items()}
        result = whole(function.plain_call(tx, [plain(each) for each in args], named))
        asked = self.asked((*args, *kwargs.values()))
        if not asked or not self.converts(asked[0]) or not self.hands_on(tx, value, args, kwargs):
            return result
        if len({each.cls for each in asked}) > 1:
            raise GraphBreak("tensor subclass", f"several classes are asked by {function.describe()}")
        return converted(tx, result, asked[0].cls)

    def hands_on(self, tx: Translator, what: Any, args: list[Variable], kwargs: dict[str, Variable]) -> bool:
        """Whether torch asks anybody about a function, or a method by its name."""
        return _Question(tx).put(what, args, kwargs, self.has_modes) is not None

    def answer(
        self,
        tx: Translator,
        function: Variable,
        asked: list[SubclassVariable],
        types: list[Variable],
        args: list[Variable],
        kwargs: dict[str, Variable] | None,
    ) -> Variable:
        """`__torch_function__` of the innermost mode, or of the class."""
        if len({each.cls for each in asked}) > 1:
            raise GraphBreak("tensor subclass", f"several classes are asked by {function.describe()}")
        given = [function, tx.new_tuple(types), tx.new_tuple(args)]
        if kwargs is not None:
            given.append(tx.new_dict([(ConstantVariable(name), each) for name, each in kwargs.items()]))
        if self.has_modes:
            if _get_current_function_mode_stack():  # a default device, which is asked in its turn
                raise GraphBreak("torch function mode", "one inside of another that torch knows of")
            mode = self.modes.pop()
            try:
                result = tx.call(tx.getattr(mode.variable, "__torch_function__"), given, {})
            finally:
                self.modes.append(mode)
        else:
            result = tx.call(tx.getattr(asked[0], "__torch_function__"), given, {})
        if result.is_constant() and result.constant() is NotImplemented:
            raise GraphBreak("tensor subclass", f"nobody answers {function.describe()}")
        return result

    def check_left(self) -> None:
        """Torch itself knows nothing of the modes that the frame has entered: a break in one is a break before it."""
        if self.modes:
            raise Restart(self.modes[0].pushed_at, GraphBreak("torch function mode", "the graph ends inside of it"))


def _within(variables: Iterable[Variable]) -> Iterable[SubclassVariable]:
    for each in variables:
        if isinstance(each, SubclassVariable):
            yield each
        elif isinstance(each, (TupleVariable, ListVariable)):
            yield from _within(each.items)


def _inlined(tx: Translator, function: FunctionType, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    written = tx.from_constant(function)
    if not isinstance(written, FunctionVariable):
        written = FunctionVariable(function, tx.sources.const(function, function.__qualname__))
    return tx.call(written, args, kwargs)


def _is_parameter(variable: Variable) -> bool:
    return isinstance(variable, TensorVariable) and issubclass(variable.cls, torch.nn.Parameter)


class _Question:
    """Stand-ins for values, and what they stand for."""

    def __init__(self, tx: Translator) -> None:
        self.tx = tx
        self.given: dict[int, Variable] = {}
        self.held: list[Any] = []

    def put(
        self, what: Any, args: list[Variable], kwargs: dict[str, Variable], of_modes: bool
    ) -> _HandedOn | None:
        """What torch hands on of this call; None if it asks nobody."""
        real = [self.stand_in(each) for each in args]
        named = {name: self.stand_in(each) for name, each in kwargs.items()}
        state, before = TorchState(), _C._get_torch_function_state()
        _C._set_torch_function_state(self.tx.overrides.state)
        mode = _Asking() if of_modes else None
        try:
            if mode is not None:
                mode.__enter__()
            call, given = (getattr(real[0], what), real[1:]) if isinstance(what, str) else (what, real)
            with Hearing():  # the operation itself warns
                call(*given, **named) if named else call(*given)  # an empty dict would be handed on, too
        except _HandedOn as handed:
            return handed.with_traceback(None)  # whose frames would hold it, and what their callers hold
        except Exception as error:
            raise GraphBreak("tensor subclass", f"{type(error).__name__}: {error}") from error
        finally:
            if mode is not None:
                mode.__exit__(None, None, None)
            _C._set_torch_function_state(before)
            state.restore()
        return None

    def overloaded(self, relevant: Variable) -> list[Any]:
        """Those among these arguments whose types are told, in the order in which they are asked."""
        before = _C._get_torch_function_state()
        _C._set_torch_function_state(self.tx.overrides.state)
        try:
            return torch.overrides._get_overloaded_args(self.stand_in(relevant))
        finally:
            _C._set_torch_function_state(before)

    def types(self, found: Iterable[type]) -> list[Variable]:
        asked = self.tx.overrides.asked(self.given.values())
        return [self.tx.class_of(asked[0]) if each is _StandIn else self.tx.class_variable(each) for each in found]

    def stand_in(self, variable: Variable) -> Any:
        real: Any
        if isinstance(variable, SubclassVariable) and variable.overrides:
            real = torch.empty(0).as_subclass(_StandIn)
        elif isinstance(variable, SubclassVariable) or _is_parameter(variable):  # whose classes are not asked
            real = torch.nn.Parameter(torch.empty(0), requires_grad=False)
        elif isinstance(variable, TensorVariable):
            real = torch.empty(0)
        elif isinstance(variable, ListVariable):
            real = [self.stand_in(each) for each in variable.unpack(self.tx)]
        elif isinstance(variable, TupleVariable):
            items = [self.stand_in(each) for each in variable.items]
            real = torch.Size(items) if variable.python_type() is torch.Size else tuple(items)
        elif variable.varies() and variable.python_type() in _NUMBERS:
            real = _NUMBERS[variable.python_type()](EXAMPLES[variable.python_type()])
        elif variable.is_constant() and isinstance(variable.constant(), _KNOWN):
            return variable.constant()
        else:
            real = variable.real() if is_a(variable.real(), type) else object()
        self.given[id(real)] = variable
        self.held.append(real)
        return real

    def back(self, value: Any) -> Variable:
        known = self.given.get(id(value))
        if known is not None:
            return known
        if type(value) is tuple:
            return self.tx.new_tuple([self.back(each) for each in value])
        if type(value) is list:
            return self.tx.new_list([self.back(each) for each in value])
        if isinstance(value, MethodWrapperType) and value.__name__ in _ACCESS:
            return AttributeAccess(value, self.tx.sources.const(value, "attribute of torch.Tensor"))
        return self.tx.from_constant(value)


class AttributeAccess(FixedVariable):
    """`torch.Tensor.shape.__get__` and the like."""

    def describe(self) -> str:
        return f"torch.Tensor.{self.value.__self__.__name__}.{self.value.__name__}"

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in ("__name__", "__qualname__"):
            return tx.from_constant(getattr(self.value, name))
        return super().getattr(tx, name)

    def call(self, tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return _ACCESS[self.value.__name__](tx, self.value.__self__.__name__, *args)


def _get(tx: Translator, name: str, tensor: Variable, cls: Variable | None = None) -> Variable:
    return tx.getattr(tensor, name)


def _set(tx: Translator, name: str, tensor: Variable, value: Variable) -> Variable:
    tensor.setattr(tx, name, value)
    return ConstantVariable(None)


_ACCESS: dict[str, Callable[..., Variable]] = {"__get__": _get, "__set__": _set}


# --- torch's own functions of this ------------------------------------------------------------------------------------
def _has(tx: Translator, *values: Variable) -> Variable:
    return ConstantVariable(tx.overrides.has_modes or bool(tx.overrides.asked(values)))


def _handle(
    tx: Translator, public_api: Variable, relevant_args: Variable, *args: Variable, **kwargs: Variable
) -> Variable:
    asked = tx.overrides.asked([relevant_args])
    if not asked and not tx.overrides.has_modes:
        raise GraphBreak("tensor subclass", "handle_torch_function, and nobody is asked")
    question = _Question(tx)
    types = question.types(map(type, question.overloaded(relevant_args)))
    return tx.overrides.answer(tx, public_api, asked, types, list(args), kwargs)


def _push(tx: Translator, mode: Variable) -> Variable:
    tx.repeats.tell(None)
    tx.overrides.modes.append(_Mode(mode, tx.anchor()))
    return ConstantVariable(None)


def _pop(tx: Translator) -> Variable:
    if not tx.overrides.modes:
        raise GraphBreak("torch function mode", "left, and was entered before")
    return tx.overrides.modes.pop().variable


def _at(tx: Translator, level: Variable) -> Variable:
    if _get_current_function_mode_stack():
        raise GraphBreak("torch function mode", "one that torch knows of")
    return tx.overrides.modes[level.constant()].variable


ASKING.update(
    {
        torch.overrides.has_torch_function: _has,
        torch.overrides.has_torch_function_unary: _has,
        torch.overrides.has_torch_function_variadic: _has,
        torch.overrides.handle_torch_function: _handle,
        torch._C._push_on_torch_function_stack: _push,
        torch._C._pop_torch_function_stack: _pop,
        torch._C._get_function_stack_at: _at,
        torch._C._len_torch_function_stack: lambda tx: ConstantVariable(
            torch._C._len_torch_function_stack() + len(tx.overrides.modes)
        ),
        torch._C._is_torch_function_enabled: lambda tx: ConstantVariable(tx.overrides.state == _State.ENABLED),
        torch._C._is_torch_function_all_disabled: lambda tx: ConstantVariable(
            tx.overrides.state == _State.ALL_DISABLED
        ),
        torch._C._is_torch_function_mode_enabled: lambda tx: ConstantVariable(
            tx.overrides.has_modes or torch._C._is_torch_function_mode_enabled()
        ),
        torch.overrides.get_default_nowrap_functions: lambda tx: _NotWrapped(
            NOT_WRAPPED, tx.sources.const(NOT_WRAPPED, "functions whose results stay as they are")
        ),
    }
)


class _NotWrapped(FixedVariable):
    """A set of functions."""

    def contains(self, tx: Translator, item: Variable) -> bool:
        return item.real() in self.value


class FunctionsOff(StateGuard):
    """`torch._C.DisableTorchFunctionSubclass()` and `DisableTorchFunction()`: a break in between is one before it."""

    def __init__(self, cls: type, state: Any, born_at: int) -> None:
        self.cls = cls
        self.state = state
        self.born_at = born_at
        self.before: list[Any] = []

    def python_type(self) -> type:
        return self.cls

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name == "__enter__":
            self.before.append(tx.overrides.state)
            if tx.overrides.state != _State.ALL_DISABLED:
                tx.overrides.state = self.state
        elif name == "__exit__" and self.before:
            tx.overrides.state = self.before.pop()
        else:
            return super().method(tx, name, args, kwargs)
        return ConstantVariable(None)


def _off(cls: type, state: Any) -> Callable[..., Variable]:
    return lambda tx, args, kwargs: FunctionsOff(cls, state, tx.anchor())


NATIVE_CONSTRUCTORS.update(
    {
        _C.DisableTorchFunctionSubclass: _off(_C.DisableTorchFunctionSubclass, _State.SUBCLASSES_DISABLED),
        _C.DisableTorchFunction: _off(_C.DisableTorchFunction, _State.ALL_DISABLED),
    }
)
