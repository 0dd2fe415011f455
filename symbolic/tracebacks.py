"""Tracebacks of exceptions that passed only symbolic frames: entries as the frames themselves would have left them."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

#: Where an exception passed: the code object of the frame, the offset of the instruction, its line, its globals.
Entry = tuple[CodeType, int, int, dict[str, Any]]


def passed(error: BaseException, entries: tuple[Entry, ...]) -> None:
    """`error` has passed these frames, the innermost first."""
    for entry in entries:
        error.__traceback__ = longer(entry, error.__traceback__)


def longer(entry: Entry, rest: TracebackType | None) -> TracebackType:
    """An entry around those of `rest`."""
    code, offset, line, namespace = entry
    return TracebackType(rest, frame_of(code, namespace), offset, line)


_stand_ins: dict[int, tuple[CodeType, CodeType]] = {}


def frame_of(code: CodeType, namespace: dict[str, Any]) -> FrameType:
    """A finished frame that says of itself what a frame of `code` says: file, function, positions of instructions,
    globals.

    A new one each time: it holds those that called it, and goes with the exception as the user's own would."""
    found = _stand_ins.get(id(code))
    if found is None:
        found = _stand_ins[id(code)] = code, _stand_in(code)
    made: FrameType = FunctionType(found[1], namespace)(sys._getframe)
    return made


def _answer(this: Callable[[], FrameType]) -> FrameType:
    try:
        return this()
    finally:
        del this


def _stand_in(code: CodeType) -> CodeType:
    """`code` with instructions that only answer with their own frame, as long as the table of positions."""
    model = _answer.__code__
    padding = bytes((dis.opmap["NOP"], 0)) * max(0, (len(code.co_code) - len(model.co_code)) // 2)
    return model.replace(
        co_code=model.co_code + padding,
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_linetable=code.co_linetable,
    )
