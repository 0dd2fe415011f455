"""Where the time of a compilation goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from codegen.progress import Span, timing


class Clock:
    """The stages of a compilation, those in others with them, from when it was made."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """What was done since the last lap is called this."""
        now = time.perf_counter()
        self.spans.append(Span(stage, self._last, now - self._last, 0))
        self._last = now

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Stages told of here are in the one that the next lap ends."""
        with timing(self.spans, 1):
            yield


def by_stage(spans: list[Span]) -> dict[str, float]:
    """Seconds of the outermost stages."""
    found: dict[str, float] = {}
    for span in spans:
        if not span.depth:
            found[span.name] = found.get(span.name, 0.0) + span.seconds
    return found
