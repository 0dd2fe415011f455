"""The table of opcode handlers: name -> function(tx, frame, inst). Checked at import against this Python's opcodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from symbolic import code, versions
from symbolic.code import Inst
from symbolic.frames import Frame

if TYPE_CHECKING:
    from symbolic.translator import Translator

    Handler = Callable[[Translator, Frame, Inst], None]

HANDLERS: dict[str, Handler] = {}
#: opcode -> why it is not traced
REFUSED: dict[str, str] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Registers one handler for opcodes; those this Python lacks are passed over."""

    def register(function: Handler) -> Handler:
        for name in names:
            if name not in versions.OPCODES:
                continue
            assert name not in HANDLERS, f"{name} has two handlers"
            HANDLERS[name] = function
        return function

    return register


def refuse(reason: str, *names: str) -> None:
    """Names opcodes that break the graph, with the reason."""
    for name in names:
        if name in versions.OPCODES:
            assert name not in HANDLERS, f"{name} is handled and refused"
            REFUSED[name] = reason


def check() -> None:
    """Every opcode of this Python is handled, refused with a reason, or dropped or split by the decoder."""
    unknown = versions.OPCODES - HANDLERS.keys() - REFUSED.keys() - code.DROPPED - code.SPLIT.keys()
    if unknown:
        raise ImportError(f"framejit does not know these opcodes of CPython: {', '.join(sorted(unknown))}")
