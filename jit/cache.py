"""What compilation keeps on disk for the next process: `jit.cache.info()`, `jit.cache.clear()`.

The knobs are `jit.config.disk_cache`, `cache_dir` (`JIT_CACHE_DIR`) and `cache_size_limit`.
"""

from __future__ import annotations

import functools
import os

from codegen.artifacts.store import Entry, Info, Store
from jit.config import Config, config


def info() -> Info:
    """The folder, how many entries it holds and how large they are; hits and misses of this process."""
    return store().info()


def clear() -> None:
    """Removes everything kept on disk; what this process has compiled goes on working."""
    store().clear()


def entries() -> list[Entry]:
    """What is kept: key, bytes, and when it was used last (seconds since the epoch), the newest first."""
    return store().entries()


def folder(settings: Config = config) -> str | None:
    """Where it is kept; None where nothing is."""
    return (settings.cache_dir or _default_folder()) if settings.disk_cache else None


def store(settings: Config = config) -> Store:
    """The store that `settings` ask for: the same one each time they ask for the same."""
    if not settings.disk_cache:
        return _store(None, 0)
    return _store(folder(settings), settings.cache_size_limit)


@functools.cache
def _store(folder: str | None, limit: int) -> Store:
    return Store(folder, limit)


def _default_folder() -> str | None:
    """None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification asks to ignore others
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "framejit") if os.path.isabs(base) else None
