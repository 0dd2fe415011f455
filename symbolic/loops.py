"""Loops that are too long to be unrolled: they stay the program's, and their bodies are captured once.

A turn of a loop adds its operations to the graph. Turns that are each other's equals (steps of training, of sampling,
of time) are worth compiling once, however many there are; turns that bring parameters of their own, as layers do, are
different every time, and are all unrolled. So what counts is how much a loop adds in turns that bring none. Where that
is too much the capture is given up, and others know the loop by its place: they break before each turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from symbolic.code import Code
from symbolic.errors import GraphBreak, LongLoop, Place
from symbolic.frames import Frame

if TYPE_CHECKING:
    from symbolic.translator import Translator
    from symbolic.variables.base import Variable

#: The reason of the break.
LONG = "loop too long to unroll"


@dataclass(slots=True)
class Turns:
    """What a loop has come to: operations in the graph and parameters that came in, up to now; of the former those
    that are its equal turns'."""

    operations: int
    parameters: int
    equal: int = 0

    def next(self, operations: int, parameters: int) -> None:
        if self.parameters == parameters:
            self.equal += operations - self.operations
        self.operations, self.parameters = operations, parameters


def place_of(code: Code, index: int) -> Place:
    """Where an instruction stands in its file, which is the same in continuations of its function."""
    return (code.raw.co_filename, code.raw.co_firstlineno, *code.positions[code.insts[index].offset // 2])


def turn(tx: Translator, frame: Frame, head: int) -> None:
    """The frame jumps back to the head of a loop."""
    if tx.anchors or frame.is_generator or not tx.options.loop_limit:
        return
    if is_long(tx, frame, head):
        tx.split_next = GraphBreak(LONG)
        return
    loops = frame.loops
    now = tx.graph.calls, tx.graph.parameters
    known = loops.setdefault(head, Turns(*now))
    known.next(*now)
    if known.equal > tx.options.loop_limit:
        raise LongLoop(place_of(frame.code, head))
    for inner in [each for each in loops if each > head]:
        del loops[inner]  # they begin again


def drawn(tx: Translator, iterator: Variable) -> None:
    """The next element of an iterator is asked for, maybe in a loop in C (`list`, `sum`). That has no place of its own,
    so the call with it is the program's. (Where a loop of the program's asks, that is given up before.)"""
    if tx.anchors or not tx.options.loop_limit:
        return
    now = tx.graph.calls, tx.graph.parameters
    known = tx.drawn.setdefault(iterator, Turns(*now))
    known.next(*now)
    if known.equal > 2 * tx.options.loop_limit:
        raise GraphBreak(LONG, iterator.describe())


def is_long(tx: Translator, frame: Frame, head: int) -> bool:
    """Whether an earlier capture found the loop with this head too long."""
    return bool(tx.options.long_loops) and place_of(frame.code, head) in tx.options.long_loops
