"""Effects: plain data that the residual code replays. Each prints as the Python it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Deleted:
    """Marks a pending attribute or name that the frame deleted."""

    def __repr__(self) -> str:
        return "<deleted>"


DELETED = Deleted()


@dataclass(frozen=True, slots=True, eq=False)
class SetAttr:
    """target.name = value"""

    target: Any
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.target}.{self.name} = {self.value}"


@dataclass(frozen=True, slots=True, eq=False)
class DelAttr:
    """del target.name"""

    target: Any
    name: str

    def __str__(self) -> str:
        return f"del {self.target}.{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class SetContents:
    """target[:] = contents (lists), target.clear(); target.update(contents) (dicts, sets), ...: the state that it comes
    to knows how it is taken by the target, which is as it was, or as an effect before left it"""

    target: Any
    state: Any
    before: Any = None

    def __str__(self) -> str:
        return self.state.takes(self.before)


class Place(NamedTuple):
    """Where in the user's program something was called, with the globals of the function."""

    file: str
    function: str
    line: int
    namespace: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Risk:
    """Of a call that may raise, or run code that nobody can see: `trace` is where the program makes it, entries of a
    traceback, the innermost first; `handled` the exception that it is handling then, if any."""

    trace: tuple[Any, ...]
    handled: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """result = function(*args, **kwargs), for its effect on the world outside

    `place` is that of the user's call, for a function that looks at who calls it. `result` is the
    target that is born by it, None if nobody reads what it answers. An `early` one comes before the
    graph; `risk` is None for one that can't raise."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Place | None = None
    result: Any = None
    early: bool = False
    risk: Risk | None = None

    def __str__(self) -> str:
        named = (f"{name}={value}" for name, value in self.kwargs.items())
        called = f"{self.function}({', '.join([*map(str, self.args), *named])})"
        return called if self.result is None else f"{called}  # {self.result}"


@dataclass(slots=True, eq=False)
class Advance:
    """next(target, None), `steps` times

    `reached`: the target, and all that a step may move or look at besides."""

    target: Any
    steps: int
    reached: frozenset[Any]

    def __str__(self) -> str:
        often = "" if self.steps == 1 else f"for _ in range({self.steps}): "
        return f"{often}next({self.target}, None)"


Effect = SetAttr | DelAttr | SetContents | Call | Advance
