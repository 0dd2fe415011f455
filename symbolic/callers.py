"""Which frames a frame was called by, where compiled code stands for some of them.

One activation of a user's function may be several frames: the code of its first part, and a continuation after each
graph break, each called by the one before it. Code says by a mark among its constants what it is.
"""

from __future__ import annotations

import sys
import warnings
from types import CodeType, FrameType
from typing import Any


class Mark:
    """A constant that says what a code object is."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"<{self.what}>"


#: Goes on with an activation: the frame that called it is the same one's earlier part, or calls an inner one.
CONTINUES = Mark("goes on with a frame")
#: Its frame calls the continuation of the frame that it had called.
CALLS_INNER = Mark("goes on with a frame by calling the next inner one's continuation")


def marked(code: CodeType, *marks: Mark) -> CodeType:
    return code.replace(co_consts=(*code.co_consts, *marks))


def has(code: CodeType, mark: Mark) -> bool:
    return any(const is mark for const in code.co_consts[-2:])


def parts(frame: FrameType | None) -> int:
    """How many frames the activation has so far of which `frame` is the last part."""
    count = 1
    while frame is not None and has(frame.f_code, CONTINUES):
        frame = frame.f_back
        if frame is None or has(frame.f_code, CALLS_INNER):
            break
        count += 1
    return count


def warn_above(level: int, message: Any, category: type[Warning] | None, source: Any) -> None:
    """`warnings.warn` of the frame that is `level` activations above the caller's."""
    frame: FrameType | None = sys._getframe(1)
    depth = 1
    for _ in range(level):
        count = parts(frame)
        depth += count
        for _ in range(count):
            frame = frame.f_back if frame is not None else None
    warnings.warn(message, category, depth + 1, source)
