"""Tracebacks of exceptions that passed only symbolic frames: entries as the frames themselves would have left them."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from symbolic.versions import FUTURE

#: Where an exception passed: the code object of the frame, the offset of the instruction, its line, its globals.
Entry = tuple[CodeType, int, int, dict[str, Any]]


def passed(error: BaseException, entries: tuple[Entry, ...]) -> None:
    """`error` has passed these frames, the innermost first."""
    for code, offset, line, namespace in entries:
        error.__traceback__ = TracebackType(error.__traceback__, frame_of(code, namespace, offset), offset, line)


def entry_at(file: str, line: int, name: str) -> Entry:
    """Of a frame that nothing else is known of."""
    return _code_at(file, line, name), 0, line, {}


@functools.cache
def _code_at(file: str, line: int, name: str) -> CodeType:
    model = _answer.__code__
    return model.replace(
        co_filename=file,
        co_name=name,
        co_qualname=name,
        co_firstlineno=line,
        co_linetable=_places(len(model.co_code) // 2, line, line),
        co_exceptiontable=b"",
    )


_stand_ins: dict[tuple[int, int | None, tuple[str, ...]], tuple[CodeType, CodeType]] = {}


def frame_of(
    code: CodeType, namespace: dict[str, Any], offset: int, names: tuple[str, ...] = (), *variables: Any
) -> FrameType:
    """A finished frame that says of itself what a frame of `code` says that ended at `offset`: file, function, line,
    positions of instructions, globals, and of its variables these.

    A new one each time: it holds those that called it, and goes with the exception as the user's own would."""
    line = line_at(code, offset)
    found = _stand_ins.get((id(code), line, names))
    if found is None:
        found = _stand_ins[id(code), line, names] = code, _stand_in(code, line, names)
    finished: Callable[..., FrameType] = FunctionType(found[1], namespace)
    return finished(sys._getframe, *variables)  # in no variable: it holds this frame, too


def stand_in(code: CodeType, namespace: dict[str, Any], offset: int) -> FunctionType:
    """A function that hands on to its first argument what else it is called with, in a frame that says of itself what
    a frame of `code` says that is at `offset`: file, function, line, globals. Text that it runs inherits what is from
    the future in `code`."""
    model = _hand_on.__code__
    handing_on = model.replace(
        co_flags=model.co_flags & ~FUTURE | code.co_flags & FUTURE,
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_linetable=_places(len(model.co_code) // 2, line_at(code, offset), code.co_firstlineno),
        co_varnames=(_HANDED_ON, *model.co_varnames[1:]),
    )
    return FunctionType(handing_on, namespace)


def is_stand_in(code: CodeType) -> bool:
    """Whether a function of `stand_in` has it."""
    return code.co_varnames[:1] == (_HANDED_ON,)


#: a variable that no program could have
_HANDED_ON = "(what runs)"


def _hand_on(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def line_at(code: CodeType, offset: int) -> int | None:
    """The line of the instruction at `offset`, None if it has none."""
    return next((line for start, end, line in code.co_lines() if start <= offset < end), None)


def _answer(this: Callable[[], FrameType]) -> FrameType:
    try:
        return this()
    finally:
        del this


def _stand_in(code: CodeType, line: int | None, names: tuple[str, ...]) -> CodeType:
    """`code` with other instructions, as long as the table of positions, and behind them, on that line, some that only
    answer with their own frame."""
    model = _answer.__code__
    between = (len(code.co_code) - len(_jump(0)) - 2) // 2
    start = model.co_code[:2] + _jump(max(0, between)) + bytes((dis.opmap["NOP"], 0)) * max(0, between)
    last = [each for _, _, each in code.co_lines() if each is not None]
    missing = (len(start) - len(code.co_code)) // 2
    table = code.co_linetable + _places(missing, None, 0)
    table += _places(len(model.co_code) // 2, line, last[-1] if last else code.co_firstlineno)
    return model.replace(
        co_code=start + model.co_code,
        co_exceptiontable=b"",
        co_argcount=1 + len(names),
        co_nlocals=1 + len(names),
        co_varnames=(*model.co_varnames, *names),
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_linetable=table,
    )


def _jump(distance: int) -> bytes:
    """Over so many instructions."""
    jump, more = dis.opmap["JUMP_FORWARD"], dis.opmap["EXTENDED_ARG"]
    return bytes((more, distance >> 16, more, distance >> 8 & 255, jump, distance & 255))


def _places(count: int, line: int | None, before: int) -> bytes:
    """Rows of a table of positions (format: CPython `Objects/locations.md`): so many instructions on a line, where the
    rows before end with line `before`; None: on none."""
    rows = b""
    while count > 0:
        size = min(count, 8)
        count -= size
        if line is None:
            rows += bytes((0x80 | 15 << 3 | size - 1,))
        else:
            rows += bytes((0x80 | 13 << 3 | size - 1, *_signed(line - before)))
            before = line
    return rows


def _signed(number: int) -> Iterator[int]:
    """Six bits at a time, the lowest first."""
    rest = -number << 1 | 1 if number < 0 else number << 1
    while rest > 63:
        yield rest & 63 | 64
        rest >>= 6
    yield rest
