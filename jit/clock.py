"""Where the time of a compilation goes."""

from __future__ import annotations

import time


class Clock:
    """Seconds by stage, from when it was made; each lap goes to the stage that it ends."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.times[stage] = self.times.get(stage, 0.0) + now - self._last
        self._last = now
