"""Ways in which symbolic execution leaves its straight path."""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import Any

#: The reason of a break at a call that may see when objects end.
MEMORY = "memory management"
#: The reason of a break at a call that goes on recursively for too long: what it calls runs eagerly.
RECURSION = "recursion"
#: How deep data may lie in one another where it is looked into: what is deeper may end eager code's recursion.
DEEPEST = 100
#: The reason of a break at a call that looks at the frame it is called from: only the frame itself will do.
READS_FRAME = "the frame looks at itself"
#: The same of the frames around it.
READS_STACK = "the frame looks at the stack"
#: The reason of a break at what tells the program when an object ends: only the frame itself ends its objects in time.
SEES_END = "the end of an object is seen"
#: The reason of a break at what tells how much memory a value takes: what is made again has other room to grow.
SEES_SIZE = "the size of an object in memory is seen"
#: The reason of a break at what changes a tensor that a branch may have given, or asks which one it is.
UNSURE = "tensor that may be another one"
#: Reasons of breaks where only the frame itself will do: the whole frame runs as it is.
RUNS_ITSELF = frozenset({READS_FRAME, READS_STACK, SEES_END})
#: The reason of a break at a warning or log message.
TOLD = "warning or log message"
#: The reason of a break at a call of what may look into the frames it is called from.
LOOKS_UP = "function that looks at frames"
#: Reasons of breaks where the frames further up have to be there, too: none of them is inlined.
SEES_STACK = frozenset({READS_STACK, LOOKS_UP})
#: The reason of a break at what asks one of autograd's nodes for more than a compiled graph's results can answer.
ASKS_NODE = "autograd node is asked for what only eager code's has"


class GraphBreak(Exception):
    """The instruction at hand can't be captured. `reason` is fixed text (statistics group by it), `detail` the case.
    `guards`: of what is so for now; where it is otherwise, the instruction may be captured."""

    def __init__(self, reason: str, detail: str = "", hint: str = "", guards: tuple[Any, ...] = ()) -> None:
        super().__init__(reason, detail, hint)
        self.reason = reason
        self.detail = detail
        self.hint = hint
        self.guards = guards

    def __str__(self) -> str:
        return self.reason + (f": {self.detail}" if self.detail else "")


class Observed(Exception):
    """The user's program raised: `variable` is the exception, to be unwound through the user's own handlers."""

    def __init__(self, variable: Any) -> None:
        super().__init__(variable)
        self.variable = variable


class Restart(Exception):
    """Capture the frame again and break at instruction number `step`: what follows it can't be captured as it is."""

    def __init__(self, step: int, cause: GraphBreak) -> None:
        super().__init__(step, cause)
        self.step = step
        self.cause = cause


#: File and first line of a function, lines and columns of an instruction in it.
Place = tuple[Any, ...]


class LongLoop(Exception):
    """Capture the frame again, with a break before each turn of the loop at `place`."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


class Unlike(Exception):
    """Capture the frame again, and read each call that is handed what the frame made: one that was repeated came to
    something else."""


class SkipFrame(Exception):
    """This frame is not for capture at all; it runs eagerly."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def bare(error: GraphBreak) -> GraphBreak:
    """Without the tracebacks of it and of breaks that led to it: their frames hold all that their callers hold. What
    led to these may be the program's own, which stays as it is."""
    led: BaseException | None = error
    while led is not None and issubclass(type(led), GraphBreak):
        led.__traceback__, before = None, led.__cause__ or led.__context__
        led.__cause__ = led.__context__ = None
        led = before
    return error


class LettingGo:
    """An error that passes lets go of what lives in the frames that it went through, the innermost first.

    Guards of torch's state may be among it, which act when they die: with a stored error they would do so at any time.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception):
            _clear_frames(error)


def _clear_frames(error: BaseException | None) -> None:
    while error is not None:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        for frame in reversed(frames):
            with suppress(RuntimeError):  # it still runs
                frame.clear()
        error = error.__cause__ or error.__context__
