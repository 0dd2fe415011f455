"""Python's garbage collector, while something is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No search for garbage inside: a compilation makes little of it, and each search goes through torch's modules and
    the user's, again and again, which is a quarter of a large compilation's time. What it does make may hold the user's
    objects: it goes before their program runs on, so that they die when they would."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
            gc.collect(0)
