"""`jit.set_stance`: what compiled functions do from now on where there is nothing compiled for a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, get_args

from jit import _C

Stance = Literal["default", "force_eager", "eager_on_recompile", "fail_on_recompile"]

current: Stance = "default"


class set_stance:  # noqa: N801  (a function to its users)
    """Sets what compiled functions do, at once and for the whole process; as context manager or decorator for a while.

    "default": they compile what is not compiled yet. "eager_on_recompile": calls that compiled code serves run it,
    others run as written. "fail_on_recompile": these raise `jit.RecompileError`, which says what differs.
    "force_eager": everything runs as written. Raises ValueError for another name.
    """

    def __init__(self, stance: Stance) -> None:
        if stance not in get_args(Stance):
            raise ValueError(f"no stance {stance!r}; there are {', '.join(get_args(Stance))}")
        self.stance: Stance = stance
        self.before: Stance = _take(stance)

    def __enter__(self) -> None:
        _take(self.stance)

    def __exit__(self, *error: object) -> None:
        _take(self.before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _take(self.before)

        @wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            before = _take(self.stance)
            try:
                return fn(*args, **kwargs)
            finally:
                _take(before)

        return within


def _take(stance: Stance) -> Stance:
    """Answers with the one that was in force."""
    global current
    before, current = current, stance
    _C.stand_aside(stance == "force_eager")
    return before
