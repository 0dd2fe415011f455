"""What a compilation is about, stage by stage: for who waits for it, and for who wants to know what took long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A stage that is over. `start`: in seconds of `time.perf_counter`; `depth`: in how many others it is."""

    name: str
    start: float
    seconds: float
    depth: int


#: Called with a few words at the beginning of each stage.
listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_timed: ContextVar[tuple[list[Span], int] | None] = ContextVar("timed", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What is done inside is called this."""
    listening, timed = listener.get(), _timed.get()
    if listening is not None:
        listening(name)
    if timed is None:
        yield
        return
    spans, depth = timed
    start = time.perf_counter()
    with timing(spans, depth + 1):
        yield
    spans.append(Span(name, start, time.perf_counter() - start, depth))


@contextmanager
def timing(spans: list[Span], depth: int) -> Iterator[None]:
    """Stages inside are added to these when they end, as such that are in so many others."""
    before = _timed.set((spans, depth))
    try:
        yield
    finally:
        _timed.reset(before)
