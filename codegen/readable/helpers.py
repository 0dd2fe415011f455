"""What the text calls where Python has no syntax for an instruction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

from codegen.residual.emitter import Emitter
from codegen.residual.resume import raise_again as raise_again

#: Stands for the globals of the function, which are known when the text is executed.
NAMESPACE = object()


def cell_of(function: Callable[[], Any]) -> CellType:
    """The cell of the variable that a lambda reads."""
    found: CellType = function.__closure__[0]  # type: ignore[index]
    return found


class rest_of:  # noqa: N801 (the text calls it)
    """What `for` goes on with: an iterator, which need not be its own iterator."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self.iterator


def function(
    code: CodeType,
    namespace: dict[str, Any],
    defaults: tuple[Any, ...] | None = None,
    keyword_defaults: dict[str, Any] | None = None,
    annotations: Any = None,
    closure: tuple[CellType, ...] | None = None,
) -> FunctionType:
    """What `def` and `lambda` make of code."""
    made = FunctionType(code, namespace, code.co_name, defaults, closure)
    made.__kwdefaults__ = keyword_defaults
    if annotations is not None:
        flat = isinstance(annotations, tuple)
        made.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True)) if flat else annotations
    return made


@functools.cache
def opcode(name: str, argument: Any, takes: int, leaves: int) -> FunctionType:
    """A function that runs one instruction: its values in, what it leaves out."""
    parameters = [f"value_{at}" for at in range(takes)]
    emit = Emitter(name.lower(), name.lower(), __file__, 1, parameters)
    for parameter in parameters:
        emit.load(parameter)
    if name in _WITH_ARGUMENT:
        emit.op(name, argument)
    else:
        emit.op(name)
    if name == "CHECK_EXC_MATCH":
        emit.swap(2)
        emit.pop()
    elif leaves > 1:
        emit.build("tuple", leaves)
    emit.return_value()
    return FunctionType(emit.code(), {"__name__": __name__}, name.lower())


_WITH_ARGUMENT = frozenset({"MATCH_CLASS", "CALL_INTRINSIC_2", "IMPORT_FROM"})
