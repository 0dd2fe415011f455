"""Symbolic frames: the interpreter runs over an explicit stack of these, a call pushes one, a return pops it."""

from __future__ import annotations

from typing import Any

from symbolic.code import Code
from symbolic.variables.base import NULL, Variable

#: What asks a frame for its locals.
_ASKS = ("locals", "vars", "dir", "eval", "exec")


class Frame:
    """One activation of a Python function.

    `on_return` replaces the returned value (a class call pushes `__init__`'s frame and wants the object). A `boundary`
    frame was started from inside an instruction handler, which waits for its result: a break inside it can't resume.
    `entered` is the step of the instruction that called it.
    """

    __slots__ = (
        "code",
        "name",
        "namespace",
        "locals",
        "cells",
        "closure_names",
        "stack",
        "index",
        "current",
        "kw_names",
        "on_return",
        "boundary",
        "entered",
        "is_generator",
        "handled",
        "function",
        "space",
        "reading",
        "again",
        "shared_names",
        "loops",
        "above",
    )

    def __init__(self, code: Code, name: str, namespace: Variable, function: Variable | None = None) -> None:
        self.code = code
        self.name = name
        self.namespace = namespace
        self.function = function
        self.locals: dict[str, Variable] = {}
        self.space: Variable | None = None  # of a class body: the mapping that has its names
        self.cells: dict[str, Variable] = {}
        self.stack: list[Variable] = []
        self.index = 0
        self.current = 0  # index of the instruction being executed
        self.kw_names: tuple[str, ...] = ()
        self.on_return: Variable | None = None
        self.shared_names: Variable | None = None  # what `locals()` gave
        self.boundary = False
        self.entered = 0
        self.reading: Any = None  # the call of a module that it is, if that may be repeated
        self.is_generator = False
        self.above: str | None = None  # the entries of tracebacks for its callers, which stand still meanwhile
        self.loops: dict[int, Any] = {}  # by their heads: what their turns have come to
        self.again: tuple[int, int] | None = None  # index of the last RERAISE, and where that came from
        self.handled: Variable | None = None  # of a generator set aside: the exception that it is handling

    def asks_again(self) -> bool:
        """Whether it may ask for its locals twice: in a loop, or at another place."""
        insts = self.code.insts
        places = [i for i, inst in enumerate(insts) if inst.op == "LOAD_GLOBAL" and inst.argval in _ASKS]
        return len(places) != 1 or any(0 <= inst.target <= places[0] < i for i, inst in enumerate(insts))

    def held(self) -> list[Variable]:
        """What the frame holds."""
        held = [*self.stack, *self.locals.values(), *self.cells.values()]
        return [each for each in (*held, self.on_return) if each is not None and each is not NULL]

    def in_order(self) -> list[Variable]:
        """The same, as the frame lets go of it at its end."""
        raw = self.code.raw
        names = dict.fromkeys((*raw.co_varnames, *raw.co_cellvars, *raw.co_freevars))
        slots = {name: self.locals.get(name, self.cells.get(name)) for name in (*names, *self.locals, *self.cells)}
        held = [*slots.values(), *self.stack, self.on_return]
        return [each for each in held if each is not None and each is not NULL]

    def push(self, value: Variable) -> None:
        self.stack.append(value)

    def pop(self) -> Variable:
        return self.stack.pop()

    def popn(self, count: int) -> list[Variable]:
        if not count:
            return []
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    @property
    def offset(self) -> int:
        """Of the instruction being executed, or of the one that raised first what it raises again."""
        if self.again is not None and self.again[0] == self.current:
            return self.again[1]
        return self.code.insts[self.current].offset

    @property
    def line(self) -> int:
        return self.code.insts[self.current].line

    @property
    def columns(self) -> tuple[int, int]:
        """Where the expression of the instruction at hand begins and ends in that line (-1: further down); both 0 if it
        has no place there."""
        inst = self.code.insts[self.current]
        line, last_line, first, last = self.code.positions[inst.offset // 2]
        if line != inst.line or first is None or last is None:
            return 0, 0
        return first, last if last_line == line else -1

    @property
    def filename(self) -> str:
        return self.code.raw.co_filename
