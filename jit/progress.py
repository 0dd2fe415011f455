"""A line on the terminal while a compilation takes long: what it is about, and for how long already."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from codegen import progress

#: Seconds that nobody needs an explanation for.
PATIENCE = 2.0


class _Line:
    """Shown from `PATIENCE` on. Its methods are called by the thread that compiles and by the timer's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stage = ""
        self.lock = threading.Lock()
        self.shown: Any = None  # rich's Progress
        self.over = False
        self.timer = threading.Timer(PATIENCE, self.show)
        self.timer.daemon = True
        self.timer.start()

    def tell(self, stage: str) -> None:
        with self.lock:
            self.stage = stage
            if self.shown is not None:
                self.shown.update(self.shown.task_ids[0], description=self.text())

    def text(self) -> str:
        return f"compiling {self.name}: {self.stage}" if self.stage else f"compiling {self.name}"

    def show(self) -> None:
        with self.lock:
            if self.over:
                return
            # Most compilations are over before rich were imported.
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
            self.shown = Progress(*columns, console=Console(file=sys.stderr), transient=True, redirect_stdout=False)
            self.shown.add_task(self.text(), total=None)
            self.shown.start()

    def close(self) -> None:
        self.timer.cancel()
        with self.lock:
            self.over = True
            if self.shown is not None:
                self.shown.stop()


@contextmanager
def shown(name: str) -> Iterator[None]:
    """Shows what is compiled meanwhile, if it takes long and stderr is a terminal."""
    if progress.listener.get() is not None or not _is_terminal():
        yield
        return
    line = _Line(name)
    before = progress.listener.set(line.tell)
    try:
        yield
    finally:
        progress.listener.reset(before)
        line.close()


def _is_terminal() -> bool:
    own = sys.__stderr__  # None in a process without one
    return own is not None and sys.stderr is own and not own.closed and own.isatty()
