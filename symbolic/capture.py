"""What a capture hands to the floors above: the graph, the guards, the ledger and how the frame goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from symbolic.code import Inst
from symbolic.errors import GraphBreak
from symbolic.frames import Frame
from symbolic.guards import Guard
from symbolic.variables.base import Variable

if TYPE_CHECKING:
    from sideeffects.ledger import Ledger
    from symbolic.graph import GraphBuilder
    from symbolic.translator import Translator


@dataclass(frozen=True, eq=False)
class Return:
    """The frame returns `value`."""

    value: Variable


@dataclass(frozen=True, eq=False)
class Break:
    """The frames (root first) stop before `inst` of the innermost one, which runs eagerly; then they are continued.

    `inst` is None for a split: nothing runs eagerly, the frames are only continued in a new capture."""

    frames: list[Frame]
    inst: Inst | None
    cause: GraphBreak


@dataclass(frozen=True, eq=False)
class Capture:
    """One captured frame."""

    tx: Translator
    graph: GraphBuilder
    ledger: Ledger
    exit: Return | Break
    breaks: list[BreakReason] = field(default_factory=list)

    def guards(self) -> list[Guard]:
        """All that must hold for the capture to be good for a call. To be asked last: a backend, too, may want to know
        something of symbolic sizes. Raises `SkipFrame` for a condition on what no input has."""
        self.graph.guard_shapes()
        return list(self.tx.guards)

    def close(self) -> None:
        """Lets go of all that was only needed to come here."""
        self.tx.close()


@dataclass(frozen=True)
class BreakReason:
    """Why and where a capture ended: `stack` is [(file, line, function)], root first; `columns`, where the code at
    fault begins and ends in the innermost line (in bytes of UTF-8, as code objects count), both 0 if nobody knows."""

    reason: str
    detail: str
    hint: str
    stack: tuple[tuple[str, int, str], ...]
    columns: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        file, line, function = self.stack[-1]
        text = f"{file}:{line} in {function}: {self.reason}" + (f" ({self.detail})" if self.detail else "")
        return text + (f"\n  hint: {self.hint}" if self.hint else "")


def break_reason(frames: list[Frame], cause: GraphBreak) -> BreakReason:
    stack = tuple((f.filename, f.line, f.name) for f in frames) or (("<unknown>", 0, "<unknown>"),)
    return BreakReason(cause.reason, cause.detail, cause.hint, stack)
