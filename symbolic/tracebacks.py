"""Tracebacks of exceptions that passed only symbolic frames: entries as the frames themselves would have left them."""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType, FunctionType, TracebackType

#: Where an exception passed: the code object of the frame, the offset of the instruction, its line.
Entry = tuple[CodeType, int, int]


def passed(error: BaseException, entries: tuple[Entry, ...]) -> None:
    """`error` has passed these frames, the innermost first."""
    error.__traceback__ = made_of(entries, error.__traceback__)


def made_of(entries: tuple[Entry, ...], trace: TracebackType | None = None) -> TracebackType | None:
    """These entries, the innermost first, around those of `trace`."""
    for code, offset, line in entries:
        trace = TracebackType(trace, frame_of(code), offset, line)
    return trace


def traceback_of(error: BaseException, later: int = 0) -> TracebackType | None:
    """As it was before the `later` entries that it was given last."""
    trace = error.__traceback__
    for _ in range(later):
        trace = trace.tb_next if trace is not None else None
    return trace


_stand_ins: dict[int, tuple[CodeType, FunctionType]] = {}


def frame_of(code: CodeType) -> FrameType:
    """A finished frame that says of itself what a frame of `code` says: file, function, positions of instructions.

    A new one each time: it holds those that called it, and goes with the exception as the user's own would."""
    found = _stand_ins.get(id(code))
    if found is None:
        found = _stand_ins[id(code)] = code, FunctionType(_stand_in(code), {"this": sys._getframe})
    return found[1]()


def _answer() -> FrameType:
    return this()  # type: ignore[name-defined]  # noqa: F821


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
