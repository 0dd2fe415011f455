"""What residual bytecode calls: small functions that put things into the world."""

from __future__ import annotations

import os
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, NoReturn

import torch

from symbolic import tracebacks
from symbolic.passing import namespace_of
from symbolic.variables.drawn import numpy


def make_cell() -> types.CellType:
    return types.CellType()


def become_parameter(tensor: torch.Tensor) -> None:
    """A leaf that the graph made becomes the parameter that the frame made."""
    tensor.__class__ = torch.nn.Parameter


def new_array(tensor: torch.Tensor, owns: bool, like: Any) -> Any:
    """An array with the elements of a result of the graph, as numpy would have made it."""
    array = tensor.numpy()
    return copy_of_array(array, owns, array if like is None else like)


def copy_of_array(array: Any, owns: bool, like: Any) -> Any:
    copied = numpy.empty_like(like, order="K")
    copied[...] = array
    return copied if owns else copied.view()


def new_number(tensor: torch.Tensor) -> Any:
    return tensor.numpy()[()]


def copy_of_number(number: Any) -> Any:
    return type(number)(number)


def make_function(
    code: types.CodeType,
    namespace: dict[str, Any],
    qualname: str,
    defaults: tuple[Any, ...] | None,
    keyword_defaults: dict[str, Any] | None,
    closure: tuple[types.CellType, ...],
    annotations: Any,
) -> types.FunctionType:
    """A function as MAKE_FUNCTION makes it."""
    function = types.FunctionType(code, namespace, code.co_name, defaults, closure or None)
    function.__qualname__ = qualname
    function.__kwdefaults__ = keyword_defaults
    if annotations is not None:
        # CPython hands over a flat tuple (name, value, ...) and makes the dict when it is asked for.
        if not isinstance(annotations, dict):
            annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
        function.__annotations__ = annotations
    return function


def suspended(
    code: types.CodeType, namespace: dict[str, Any], closure: tuple[types.CellType, ...] | None, *values: Any
) -> types.GeneratorType[Any, Any, Any]:
    """A generator that has yielded: `code` is that of one which yields where the other stood."""
    made = types.FunctionType(code, namespace, code.co_name, None, closure)(*values)
    next(made)
    return made


def closed(generator: Any) -> Any:
    """A generator that has come to its end."""
    generator.close()
    return generator


def new_object(cls: type, *args: Any) -> Any:
    """A bare instance: `cls.__new__` of the nearest native base, user code does not run."""
    for base in cls.__mro__:
        new = namespace_of(base).get("__new__")
        if isinstance(new, types.BuiltinFunctionType):
            return new(cls, *args)
    raise TypeError(f"{cls.__qualname__} has no native __new__")


def of_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """The tensor itself, which nobody else has, as an object of a class derived from `torch.Tensor`."""
    tensor.__class__ = cls
    return tensor


def new_exception(cls: type[BaseException], made_of: tuple[Any, ...], args: tuple[Any, ...]) -> BaseException:
    """An exception by its native `__new__` and `__init__`; methods written in Python do not run."""
    error: BaseException = new_object(cls, *made_of)
    native = (namespace_of(base).get("__init__") for base in cls.__mro__)
    next(init for init in native if isinstance(init, types.WrapperDescriptorType))(error, *args)
    return error


_HERE = os.path.dirname(__file__)


def unseen(error: BaseException) -> None:
    """Takes the caller's own frame off the traceback, and our functions that it called: they stand in for frames that
    have entries of their own."""
    trace = error.__traceback__
    if trace is not None and trace.tb_frame is sys._getframe(1):
        trace = trace.tb_next
        while trace is not None and _is_ours(trace.tb_frame.f_code):
            trace = trace.tb_next
        error.__traceback__ = trace


def _is_ours(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_HERE) or tracebacks.is_stand_in(code)


def raised_at(error: BaseException, own: int, trace: tuple[tracebacks.Entry, ...]) -> None:
    """A call made for the user's frames has raised: of `own` entries the residual code's takes the place `trace`."""
    inside = error.__traceback__
    for _ in range(own):
        inside = inside.tb_next if inside is not None else None
    error.__traceback__ = inside
    tracebacks.passed(error, trace)


def set_context(error: BaseException, cause: Any, context: Any, suppress: bool) -> None:
    error.__cause__ = cause
    error.__context__ = context
    error.__suppress_context__ = suppress


def set_list(target: list[Any], items: list[Any]) -> None:
    list.__setitem__(target, slice(None), items)


def set_dict(target: dict[Any, Any], base: Any, items: dict[Any, Any]) -> None:
    """`target` takes exactly the entries of `items`, in their order; overridden methods are not run."""
    base.clear(target)
    store = base.__setitem__
    for key, value in items.items():
        store(target, key, value)


def update_dict(target: dict[Any, Any], base: Any, deleted: tuple[Any, ...], stored: dict[Any, Any]) -> None:
    """`target` loses some entries and is given others; overridden methods are not run."""
    for key in deleted:
        base.__delitem__(target, key)
    for key, value in stored.items():
        base.__setitem__(target, key, value)


def arrange_dict(target: OrderedDict[Any, Any], keys: tuple[Any, ...]) -> None:
    """Its own order only: that of the dict under it stays what the stores made it."""
    for key in keys:
        OrderedDict.move_to_end(target, key)


def discard_attribute(target: Any, name: str) -> None:
    try:
        object.__delattr__(target, name)
    except AttributeError:
        pass


def store_beside(target: Any, name: str, value: Any) -> None:
    """`target.__dict__[name] = value`, past a descriptor of that name that the class has, or had then."""
    object.__getattribute__(target, "__dict__")[name] = value


def discard_beside(target: Any, name: str) -> None:
    object.__getattribute__(target, "__dict__").pop(name, None)


def discard_class_attribute(target: type, name: str) -> None:
    if name in namespace_of(target):
        type.__delattr__(target, name)


def update_set(target: set[Any], gone: Iterable[Any], new: Iterable[Any]) -> None:
    set.difference_update(target, gone)
    set.update(target, new)


def change_set(target: set[Any], steps: Iterable[str], elements: Iterable[Any]) -> None:
    """Takes these steps, of which all but "pop" have an element."""
    given = iter(elements)
    for name in steps:
        if name == "pop":
            set.pop(target)
        else:
            getattr(set, name)(target, next(given))


def set_deque(target: deque[Any], items: Iterable[Any]) -> None:
    deque.clear(target)
    deque.extend(target, items)


def replace_items(target: deque[Any], items: Iterable[Any]) -> None:
    """As many as it has: iterators over it go on."""
    for at, item in enumerate(items):
        deque.__setitem__(target, at, item)


def advance(iterator: Any, steps: int) -> None:
    """Moves an iterator on; it may come to its end."""
    for _ in range(steps):
        next(iterator, None)


def load_name(namespace: dict[str, Any], name: str) -> Any:
    """LOAD_GLOBAL of an inlined frame."""
    if name in namespace:
        return namespace[name]
    builtins = namespace["__builtins__"]
    space = builtins if isinstance(builtins, dict) else builtins.__dict__
    if name in space:
        return space[name]
    raise NameError(f"name {name!r} is not defined", name=name)


def delete_name(namespace: dict[str, Any], name: str) -> None:
    if name not in namespace:
        raise NameError(f"name {name!r} is not defined", name=name)
    del namespace[name]


def raise_error(cls: type[BaseException], *args: Any) -> NoReturn:
    raise cls(*args)
