"""`JIT_LOGS=channel,channel`: what the compiler tells while it works, through the standard `logging`.

Each channel is the logger `jit.<channel>`; without a handler of the program's own the text goes to stderr. That a
function is compiled no more is said in any case, once. (As a warning it would be among those that a program records.)
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

#: Channel -> the language that its texts are in, "" for words.
CHANNELS = {
    "recompiles": "", "breaks": "", "skips": "", "dynamic": "", "graph": "python", "guards": "", "bytecode": "",
    "aot": "python", "fusion": "", "kernels": "c", "cache": "", "time": "",
}  # fmt: skip


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
        say(channel, text())


def say(channel: str, text: str) -> None:
    """Logs a text, wanted or not: in colour where that comes to a terminal."""
    logger = logging.getLogger(f"jit.{channel}")
    if logger.hasHandlers() or sys.stderr is None or not sys.stderr.isatty():
        logger.warning("%s", text)
    else:
        _show(channel, text)


def _show(channel: str, text: str) -> None:
    from rich.console import Console  # most programs print nothing
    from rich.syntax import Syntax

    console = Console(file=sys.stderr, highlight=False)
    first, line, rest = text.partition("\n")
    console.print(f"[bold cyan]{channel}[/] ", end="")
    console.print(first, markup=False, soft_wrap=True)
    if line and CHANNELS[channel]:
        console.print(Syntax(rest, CHANNELS[channel], background_color="default", word_wrap=True))
    elif line:
        console.print(rest, markup=False, soft_wrap=True)
