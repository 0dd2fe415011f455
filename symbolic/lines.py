"""The lines of files that Python's `linecache` keeps: those that are read while something is compiled are no matter of
the program's, which may ask what is there, or have emptied it."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: What was read for the compiler before.
_read: dict[str, Any] = {}


@contextmanager
def kept() -> Iterator[None]:
    """What is read inside is forgotten then: the cache is as it was. Texts without a file, which are generated inside,
    stay: tracebacks are to show them."""
    cache: dict[str, Any] = linecache.cache
    before = dict(cache)
    try:
        yield
    finally:
        for name, entry in [*cache.items()]:
            if name not in before and _is_of_a_file(entry):
                _read[name] = cache.pop(name)
        for name, entry in before.items():
            if cache.get(name) is not entry and _is_of_a_file(entry):
                cache[name] = entry


@contextmanager
def lent() -> Iterator[None]:
    """The same where files are read that were read before, most of them: nothing of the program's runs inside."""
    with kept():
        for name, entry in _read.items():
            linecache.cache.setdefault(name, entry)
        yield


def line(file: str, number: int) -> str:
    """The text of a line, empty where there is none."""
    with lent():
        return linecache.getline(file, number).strip()


def _is_of_a_file(entry: Any) -> bool:
    """Whether the lines are a file's, which says when it was written, or are read only when somebody asks for them."""
    return len(entry) == 1 or entry[1] is not None
