"""`JIT_LOGS=channel,channel`: what the compiler tells while it works, through the standard `logging`.

Each channel is the logger `jit.<channel>`; without a handler of the program's own the text goes to stderr.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

CHANNELS = ("recompiles", "breaks", "graph", "guards", "bytecode", "skips", "dynamic")


def parse(names: str) -> frozenset[str]:
    """The channels that `JIT_LOGS` names. Raises ValueError for one that does not exist."""
    wanted = frozenset(name.strip() for name in names.split(",") if name.strip())
    unknown = sorted(wanted - set(CHANNELS))
    if unknown:
        raise ValueError(f"JIT_LOGS: no channel {unknown[0]!r}; there are {', '.join(CHANNELS)}")
    return wanted


def tell(wanted: frozenset[str], channel: str, text: Callable[[], str]) -> None:
    """Logs `text()` if the channel is wanted."""
    if channel in wanted:
        logging.getLogger(f"jit.{channel}").warning("%s", text())
