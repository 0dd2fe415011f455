"""The tables that say what calling a builtin or a library function means, and the variable for such a callable.

Keyed by the callable itself (by identity):

    PURE        folds now when every argument is wholly known
    HANDLERS    handler(tx, args, kwargs) -> Variable
    POLYFILLS   plain Python (symbolic/polyfills.py), traced like user code, so that a break inside can resume
    REFUSED     the reason of the graph break
    LATE        handler(tx, args, kwargs) for numbers that only the graph knows when it runs, asked first; None if there
                are none

and for whole families of callables, handler(tx, fn, args, kwargs) -> Variable:

    KINDS       by the callable's type: unbound native methods, bound ones, getters, cached functions
    CODES       by the code object of a Python function: the wrappers that library decorators make
    WRAPPERS    the same, for those around one function: their variable for it, and a polyfill that gets it as its first
                argument (None: a call of the wrapper is a call of the function)

`builtins` and `stdlib` hold the rows.
"""

from __future__ import annotations

import enum
import inspect
import operator
from collections.abc import Callable, Iterable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from symbolic.errors import DEEPEST, MEMORY, GraphBreak
from symbolic.passing import home_of
from symbolic.signatures import refuses, takes
from symbolic.variables.base import BINARY, MISSING, FixedVariable, Variable, raw_attributes
from symbolic.variables.base import lookup as type_lookup
from symbolic.variables.buffers import BufferVariable, from_python
from symbolic.variables.constants import is_constant_value
from symbolic.variables.methods import CallMethod
from symbolic.variables.objects import ObjectVariable

if TYPE_CHECKING:
    from symbolic.frames import Frame
    from symbolic.translator import Translator

Args = list[Variable]
Kwargs = dict[str, Variable]
Handler = Callable[["Translator", Args, Kwargs], Variable]
Family = Callable[["Translator", Any, Args, Kwargs], Variable]
T = TypeVar("T")


# --- the tables -------------------------------------------------------------------------------------------------------


class CallableTable(Generic[T]):
    """A table whose keys are callables, found by identity: nothing of a user's callable (`__eq__`, `__hash__`) runs."""

    def __init__(self, rows: dict[Any, T] | None = None) -> None:
        self._rows: dict[int, tuple[Any, T]] = {}
        self.update(rows or {})

    def __setitem__(self, fn: Any, value: T) -> None:
        self._rows[id(fn)] = (fn, value)

    def __contains__(self, fn: Any) -> bool:
        return id(fn) in self._rows

    def get(self, fn: Any) -> T | None:
        row = self._rows.get(id(fn))
        return row[1] if row is not None else None

    def update(self, rows: dict[Any, T]) -> None:
        for fn, value in rows.items():
            self[fn] = value

    def items(self) -> list[tuple[Any, T]]:
        return list(self._rows.values())


HANDLERS: CallableTable[Handler] = CallableTable()
POLYFILLS: CallableTable[Any] = CallableTable()
SUITED: CallableTable[Callable[[type], bool]] = CallableTable()  # the first arguments that a polyfill is for
PURE: CallableTable[bool] = CallableTable()
REFUSED: CallableTable[str] = CallableTable()
LATE: CallableTable[Callable[[Translator, Args, Kwargs], Variable | None]] = CallableTable()
KINDS: dict[type, Family] = {}
CODES: CallableTable[Family] = CallableTable()  # by code object
WRAPPERS: CallableTable[tuple[str, Any]] = CallableTable()  # by code object
#: Wrappers that torch puts in place when somebody uses torch.compile, by the module and the name of their code: nothing
#: of it is imported here. Beside what they wrap they count modules for torch.compile, or keep it from tracing.
PEER_WRAPPERS: dict[tuple[str, str], tuple[str, Any]] = {
    ("torch._dynamo.mutation_guard", "install_generation_tagging_init.<locals>.patched_init"): ("init", None),
    ("torch._dynamo.mutation_guard", "install_generation_tagging_init.<locals>.patched_setstate"): ("setstate", None),
    ("torch._dynamo.eval_frame", "DisableContext.__call__.<locals>._fn"): ("fn", None),
}


#: (class, name) of native class methods -> handler(tx, bound method, *args, **kwargs)
CLASS_METHODS: dict[tuple[type, str], Callable[..., Variable]] = {}

#: Modules of the standard library whose functions are never traced -> why a call of them breaks the graph.
SKIPPED_MODULES: dict[str, str] = {
    name: reason
    for reason, names in {
        "clock or calendar": "time timeit datetime sched",
        "random numbers of Python": "random secrets",
        "warning or log message": "warnings _warnings logging",
        "files and processes": """os io pathlib posixpath genericpath shutil glob fnmatch tempfile subprocess
            multiprocessing socket ssl select selectors signal sqlite3 urllib http zipfile tarfile gzip pickle json csv
            mmap fcntl""",
        "threads and tasks": "threading _thread concurrent asyncio queue contextvars _contextvars",
        MEMORY: "gc weakref _weakref _weakrefset ctypes tracemalloc",
        "inspection of the running program": """inspect linecache pdb bdb cmd code dis faulthandler ast
            tokenize importlib _frozen_importlib imp pkgutil platform sysconfig unittest.mock doctest profile
            cProfile""",
        "text processing": "re _sre sre_compile string textwrap pprint reprlib difflib",
        "function transform": "torch.autograd.forward_ad",
        "saved tensors": "torch.utils.checkpoint torch.autograd.graph",
        "control flow operator": "torch._higher_order_ops",
        "other form of a program": "torch.jit torch.fx torch.export torch.onnx torch._dynamo torch.package",
        "work of several processes": "torch.distributed torch.multiprocessing torch.utils.data",
    }.items()
    for name in names.split()
}


def skipped_module(module: Any) -> str | None:
    """Why functions of this module are not traced; None if they are."""
    name = module if isinstance(module, str) else ""
    while name:
        if name in SKIPPED_MODULES:
            return SKIPPED_MODULES[name]
        name = name.rpartition(".")[0]
    return None


def class_method(cls: type, name: str) -> Callable[[Callable[..., Variable]], Callable[..., Variable]]:
    """Registers `body(tx, bound method, *args, **kwargs)` for a native class method."""

    def register(body: Callable[..., Variable]) -> Callable[..., Variable]:
        CLASS_METHODS[cls, name] = body
        return body

    return register


def reason_of(fn: Any) -> str:
    """Why a call of a native function without a row breaks the graph."""
    module = getattr(fn, "__module__", None) or getattr(getattr(fn, "__self__", None), "__module__", None) or ""
    return SKIPPED_MODULES.get(str(module).split(".")[0], "builtin not supported")


def handles(*functions: Any) -> Callable[[Callable[..., Variable]], Callable[..., Variable]]:
    """Registers `body(tx, *args, **kwargs)` for these callables; its signature is the one that callers see."""

    def register(body: Callable[..., Variable]) -> Callable[..., Variable]:
        for fn in functions:
            HANDLERS[fn] = _bound_handler(fn, body)
        return body

    return register


def _bound_handler(fn: Any, body: Callable[..., Variable]) -> Handler:
    def handler(tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        if not takes(body, tx, *args, **kwargs):
            return misused(tx, fn, args, kwargs)
        return body(tx, *args, **kwargs)

    return handler


def misused(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A call with arguments that do not fit: a native function checks these first, so anything will do as arguments."""
    if isinstance(fn, (BuiltinFunctionType, type)) and refuses(fn, len(args), kwargs):
        tx.attempt(fn, *(None for _ in args), **{name: None for name in kwargs})
    raise GraphBreak("arguments do not fit the function", name_of(fn))


def has_row(fn: Any) -> bool:
    return fn in HANDLERS or fn in POLYFILLS or fn in PURE or fn in REFUSED


def lookup(fn: Any) -> bool:
    """Whether the tables know this callable, so that a BuiltinVariable is the variable for it."""
    if has_row(fn):
        return True
    kind = type(fn)
    if kind is BuiltinFunctionType:
        owner = fn.__self__
        return owner is not None and not isinstance(owner, ModuleType) and not _of_torch(type(owner), owner)
    if kind in (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType):
        return not _of_torch(fn.__objclass__)
    if kind is MethodWrapperType:
        return not _of_torch(type(fn.__self__))
    return kind in KINDS or (kind is FunctionType and (fn.__code__ in CODES or wrapper_row(fn) is not None))


def wrapper_row(fn: Any) -> tuple[str, Any] | None:
    """A function's row in WRAPPERS, or in PEER_WRAPPERS if it is torch's own: a user's is called as it is."""
    if type(fn) is not FunctionType:
        return None
    row = WRAPPERS.get(fn.__code__)
    if row is None and str(fn.__module__).startswith("torch."):
        row = PEER_WRAPPERS.get((fn.__globals__.get("__name__", ""), fn.__code__.co_qualname))
    return row


def _of_torch(*owners: Any) -> bool:
    return any(isinstance(owner, type) and home_of(owner).split(".")[0] == "torch" for owner in owners)


def name_of(fn: Any) -> str:
    """The callable in words: `math.sqrt`, `list.append`, `itemgetter`."""
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    module = getattr(fn, "__module__", None)
    return name if module in (None, "builtins") else f"{module}.{name}"


# --- the variable -----------------------------------------------------------------------------------------------------


class BuiltinVariable(FixedVariable):
    """A native function, a builtin class, or a library callable that the tables know."""

    def is_constant(self) -> bool:
        return isinstance(self.value, type)

    def constant(self) -> Any:
        return self.value if self.is_constant() else super().constant()

    def describe(self) -> str:
        return name_of(self.value)

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name == "__call__" and not isinstance(self.value, type):
            return CallMethod(self)
        value = tx.attempt(getattr, self.value, name)
        return tx.wrap(value, tx.sources.const(value, f"{name_of(self.value)}.{name}"))

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        return tx.of_classes(operator.getitem, self, index)

    def binary(self, tx: Translator, op: Any, other: Variable) -> Variable | None:
        if other.real() is MISSING and not other.is_constant():
            return None
        dunder = type_lookup(type(self.value), BINARY[op][0])
        if not isinstance(dunder, WrapperDescriptorType):
            return None
        result = tx.of_classes(dunder, self, other)
        return None if result.is_constant() and result.constant() is NotImplemented else result

    def enter(self, tx: Translator, args: Args, kwargs: Kwargs) -> Frame | None:
        if (wrapped := self._wrapped(tx, args)) is not None:
            return wrapped[0].enter(tx, wrapped[1], kwargs)
        polyfill = self._polyfill(args)
        if polyfill is None or (self.value in LATE and any(arg.varies() for arg in args)):
            return None
        if self.value in PURE and fold(tx, self.value, args, kwargs) is not None:
            return None
        return tx.function(polyfill).enter(tx, args, kwargs)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> Variable:
        fn = self.value
        if (late := LATE.get(fn)) is not None and (answer := late(tx, args, kwargs)) is not None:
            return answer
        # What is traced compares what varies, and does not need to know it.
        is_traced = fn in POLYFILLS and any(arg.varies() for arg in args)
        if fn in PURE and not is_traced and (folded := fold(tx, fn, args, kwargs)) is not None:
            return folded
        if (handler := HANDLERS.get(fn)) is not None:
            return handler(tx, args, kwargs)
        if (polyfill := self._polyfill(args)) is not None:
            return tx.inline(polyfill, args, kwargs)
        if (reason := REFUSED.get(fn)) is not None:
            raise GraphBreak(reason, name_of(fn))
        if (wrapped := self._wrapped(tx, args)) is not None:
            return tx.call(*wrapped, kwargs)
        family = KINDS.get(type(fn)) or CODES.get(getattr(fn, "__code__", None))
        if family is not None and fn not in PURE:
            return family(tx, fn, args, kwargs)
        if any(is_tensor(arg) for arg in args):
            raise GraphBreak("tensor value needed", name_of(fn))
        raise GraphBreak(reason_of(fn), name_of(fn))

    def _polyfill(self, args: Args) -> Any:
        suits = SUITED.get(self.value)
        return POLYFILLS.get(self.value) if suits is None or not args or suits(args[0].python_type()) else None

    def _wrapped(self, tx: Translator, args: Args) -> tuple[Variable, Args] | None:
        """Of a wrapper in WRAPPERS: what to call, and the positional arguments."""
        row = wrapper_row(self.value)
        if row is None:
            return None
        name, polyfill = row
        code = self.value.__code__
        inner = library(tx, self.value.__closure__[code.co_freevars.index(name)].cell_contents)
        return (inner, args) if polyfill is None else (tx.function(polyfill), [inner, *args])


def library(tx: Translator, fn: Any) -> Variable:
    """The variable for a library callable."""
    return tx.wrap(fn, tx.sources.const(fn, name_of(fn)))


# --- what is known ----------------------------------------------------------------------------------------------------

_CONTAINERS: dict[type, Callable[[Any], Any]] = {list: list, tuple: tuple, set: set, frozenset: frozenset}


def known(tx: Translator, variable: Variable) -> Any:
    """The value as a Python object of its own, MISSING if part of it is not known: constants and containers of them."""
    return _known(tx, variable, {}, 0)


def _known(tx: Translator, variable: Variable, found: dict[Variable, Any], depth: int) -> Any:
    """`found` has what was met so far: in containers that hold one another each is looked at once."""
    if variable.is_constant():
        return variable.constant()
    if isinstance(variable, BufferVariable):
        return variable.known(tx)
    if variable in found:
        return found[variable]
    kind = variable.python_type()
    if depth > DEEPEST or isinstance(variable, ObjectVariable) or kind is not dict and kind not in _CONTAINERS:
        return MISSING
    found[variable] = MISSING  # it may hold itself
    items = [_known(tx, item, found, depth + 1) for item in tx.unpack(variable)]
    if kind is dict:
        items += [_known(tx, variable.getitem(tx, key), found, depth + 1) for key in tx.unpack(variable)]
    if not any(item is MISSING for item in items):
        half = len(items) // 2
        make = _CONTAINERS.get(kind, lambda both: dict(zip(both[:half], both[half:], strict=True)))
        found[variable] = tx.attempt(make, items)
    return found[variable]


def fold(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable | None:
    """The result of a pure function now, None if an argument is not known."""
    values = [known(tx, arg) for arg in args]
    named = {name: known(tx, arg) for name, arg in kwargs.items()}
    if any(value is MISSING or not plain(value) for value in (*values, *named.values())):
        return None
    if any(type(value) is int and abs(value) > LARGE for value in values) and fn in GROWING:
        raise GraphBreak("very large integer", name_of(fn))
    result = tx.attempt(fn, *values, **named)
    # The values are copies: what may answer with one of its arguments, the object itself, can't be asked.
    return from_python(tx, result) if is_constant_value(result) or fn not in CHOOSING else None


#: What enum classes may define in Python without changing how their members compute.
_HARMLESS = frozenset("__init__ __new__ __str__ __repr__ __format__ __reduce_ex__ __set_name__".split())


def plain(value: Any) -> bool:
    """Whether native functions of a constant run none of the user's code (an enum member may have methods)."""
    if type(value) in _CONTAINERS:
        return all(map(plain, value))
    if type(value) is dict:
        return all(map(plain, value)) and all(map(plain, value.values()))
    if not isinstance(value, enum.Enum):
        return True
    own = [base for base in type(value).__mro__ if home_of(base) not in ("enum", "builtins")]
    methods = [name for name, raw in raw_attributes(own) if _is_written_for(raw)]
    return all(name in _HARMLESS for name in methods if name.startswith("__"))


def _is_written_for(raw: Any) -> bool:
    """Whether what an enum class holds is a function, and none that `enum` itself put there."""
    return inspect.isfunction(raw) and raw.__module__ != "enum"


#: (class, name) of native class methods that fold like the functions of PURE.
FOLDING_CLASS_METHODS: set[tuple[type, str]] = set()
#: Functions that may answer with (an element of) an argument.
CHOOSING: CallableTable[bool] = CallableTable()
#: Functions whose result may be far longer than their arguments, and what is a large argument.
GROWING: CallableTable[bool] = CallableTable()
LARGE = 4096


def is_tensor(variable: Variable) -> bool:
    return issubclass(variable.python_type(), torch.Tensor)


def pure(functions: Iterable[Any]) -> None:
    for fn in functions:
        PURE[fn] = True


def of_class(tx: Translator, variable: Variable, name: str, args: Args) -> Variable:
    """`type(variable).name(variable, *args)`: what an instance has under that name nobody asks for."""
    if isinstance(variable, ObjectVariable):
        if (function := variable.special(tx, name)) is not None:
            return tx.call(function, args, {})
        if variable.payload is not None and variable.is_of_payload(tx.lookup(variable.cls, name)):
            variable = variable.payload
    return variable.method(tx, name, args, {})


def special(tx: Translator, variable: Variable, *names: str) -> Variable | None:
    """Calls the first of these special methods that the value's class defines in Python; None if there is none."""
    if isinstance(variable, ObjectVariable):
        for name in names:
            if (function := variable.special(tx, name)) is not None:
                return tx.call(function, [], {})
    return None
