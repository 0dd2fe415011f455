"""The table of opcode handlers: name -> function(tx, frame, inst). Checked at import against this Python's opcodes."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import TYPE_CHECKING

from symbolic.code import Inst
from symbolic.frames import Frame

if TYPE_CHECKING:
    from symbolic.translator import Translator

    Handler = Callable[[Translator, Frame, Inst], None]

HANDLERS: dict[str, Handler] = {}
#: opcode -> why it is not traced
REFUSED: dict[str, str] = {}
#: opcodes that some of CPython 3.11 to 3.13 has and this one may not
_KNOWN_ELSEWHERE: set[str] = set()


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Registers one handler for opcodes; those this Python lacks are passed over."""

    def register(function: Handler) -> Handler:
        for name in names:
            if name not in dis.opmap:
                _KNOWN_ELSEWHERE.add(name)
                continue
            assert name not in HANDLERS, f"{name} has two handlers"
            HANDLERS[name] = function
        return function

    return register


def refuse(reason: str, *names: str) -> None:
    """Names opcodes that break the graph, with the reason."""
    for name in names:
        if name in dis.opmap:
            assert name not in HANDLERS, f"{name} is handled and refused"
            REFUSED[name] = reason
