"""Continuations met while tracing: an outer frame's continuation calls the inner one's, which is inlined."""

from __future__ import annotations

from typing import Any

from codegen.residual.writer import BUILD, Writer
from jit import _C
from symbolic.sources import Source
from symbolic.variables.base import Variable
from symbolic.variables.functions import ClosureFunction


class ResumeVariable(Variable):
    """The door of a continuation."""

    def __init__(self, tx: Any, value: Any, source: Source) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return _C.ResumeDoor

    def real(self) -> Any:
        return self.value

    def call(self, tx: Any, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        return HandOverVariable(self, args)


class HandOverVariable(Variable):
    """A call of a continuation that is still to be made."""

    is_shown = False

    def __init__(self, door: ResumeVariable, args: list[Variable]) -> None:
        self.door = door
        self.args = args

    def python_type(self) -> type:
        return _C.HandOver

    def reachable(self) -> list[Variable]:
        return [self.door, *self.args]

    def enter(self, tx: Any, args: list[Variable], kwargs: dict[str, Variable]) -> Any:
        door = self.door.value
        closure, *rest = self.args
        function = ResumedFunction(door.code, tx.namespace(door.globals), door.code.co_qualname)
        function.closure = [] if closure.is_constant() else tx.unpack(closure)
        return function.frame(tx, rest, {})


class ResumedFunction(ClosureFunction):
    """The function of an inlined continuation."""


def _build(writer: Writer, call: HandOverVariable) -> None:
    writer.call_with(call.door, call.args, {})


BUILD[HandOverVariable] = _build
