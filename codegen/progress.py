"""What a compilation is about, for somebody who waits for it: stages tell, whoever shows it listens."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

#: Called with a few words at the beginning of each stage.
listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


def tell(stage: str) -> None:
    """Says what comes now."""
    listening = listener.get()
    if listening is not None:
        listening(stage)
