"""A content-addressed store on disk that processes share: values under keys that say all they depend on.

An entry is one file, named by its key: the value, then a trailer with a checksum over key and value. What loads the
file by its path (the dynamic loader, for a shared library) does not look behind the end that the value itself states,
so value and checksum are one file, and one rename makes both visible. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

TRAILER = struct.Struct("<8sQ32s")  # mark, size of the value, sha256 of key and value
MARK = b"framejit"
ENTRY = re.compile(r"[0-9a-f]{64}")
UNFINISHED = ".unfinished-"
GROWTH = ".growth"  # one byte for each block written since the last sweep, by whichever process
BLOCK = 4096
SHARES = 8  # of the limit: one may be written between two sweeps, one is the most that a value may take
SETTLED = 60.0  # seconds: who looked up a path has loaded it by then
ABANDONED = 3600.0  # seconds: who began to write an entry is gone by then
FOREIGN_WRITE = stat.S_IWGRP | stat.S_IWOTH


class _Refused(Exception):
    """Somebody else could have written here."""


@dataclass(frozen=True)
class Info:
    """What a store holds (`path` is None where it keeps nothing), and how this process fared with it."""

    path: Path | None
    entries: int
    bytes: int
    hits: int
    misses: int


@dataclass(frozen=True)
class Entry:
    """Something kept: `used` is when, last, in seconds since the epoch."""

    key: str
    bytes: int
    used: float


def key(**parts: bytes | str) -> str:
    """The key of a value that depends on `parts`. Names, order of bytes, and bytes against text all count."""
    total = hashlib.sha256()
    for name, part in sorted(parts.items()):
        data, kind = (part.encode(), "text") if isinstance(part, str) else (part, "bytes")
        total.update(f"{len(name)} {name} {kind} {len(data)} ".encode())
        total.update(data)
    return total.hexdigest()


class Store:
    """Values on disk below `folder`, at most `limit` bytes of them; those used longest ago go first.

    Made for processes that know nothing of one another: entries appear whole or not at all, each read is verified, and
    an entry that fails is removed and counts as a miss. One used within the last minute is never evicted, so that a
    path can be loaded after it was looked up; until then a burst of writes may exceed the limit.

    A folder or an entry that belongs to another user, or that group or others may write to, turns the store off. No
    method raises for what it finds on disk: where something can't be read or written the program goes on without,
    after one warning. With `folder=None` nothing is kept.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int) -> None:
        # The real path, since a link on the way could lead elsewhere the next time.
        self._folder = None if folder is None else Path(os.path.realpath(os.path.expanduser(folder)))
        self._limit = limit
        self._writes = limit > 0
        self._hits = self._misses = 0
        self._warned = False
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """The value under `key`."""
        found = self._look_up(key)
        return found and found[1]

    def path(self, key: str) -> Path | None:
        """The file that begins with the value under `key`, verified just now. It is to be loaded within a minute."""
        found = self._look_up(key)
        return found and found[0]

    def put(self, key: str, value: bytes) -> Path | None:
        """Keeps `value` under `key`; answers with its file, or with None where nothing was kept."""
        folder = self._ready(create=True) if self._writes else None
        size = len(value) + TRAILER.size
        if folder is None or size > self._limit // SHARES:
            return None
        try:
            handle, unfinished = tempfile.mkstemp(prefix=UNFINISHED, dir=folder)  # mode 0600
            try:
                # Not flushed to the disk: what a power cut leaves of it will not match its checksum.
                with open(handle, "wb") as file:
                    file.write(value)
                    file.write(TRAILER.pack(MARK, len(value), _checksum(key, value)))
                os.replace(unfinished, folder / _valid(key))
            except BaseException:
                _remove(Path(unfinished))
                raise
            self._grow(folder, size)
        except FileNotFoundError:
            return None  # another process cleared the folder meanwhile
        except OSError as error:
            self._writes = False
            self._warn(f"cannot write to {folder} ({error}); nothing more is added to it")
            return None
        return folder / key

    def clear(self) -> None:
        """Removes all entries, and nothing else that may lie in the folder."""
        folder = self._ready()
        if folder is not None:
            for entry in [*_files(folder, ENTRY.fullmatch), *_files(folder, _unfinished)]:
                _remove(folder / entry.name)
            _remove(folder / GROWTH)

    def info(self) -> Info:
        """Counts the entries: takes a moment with thousands of them."""
        folder = self._ready()
        sizes = [] if folder is None else [state.st_size for _, state in _states(folder, ENTRY.fullmatch)]
        return Info(self._folder, len(sizes), sum(sizes), self._hits, self._misses)

    @property
    def fared(self) -> tuple[int, int]:
        """How often this process found what it looked for, and how often not."""
        return self._hits, self._misses

    def entries(self) -> list[Entry]:
        """What the store holds, used last first."""
        folder = self._ready()
        states = [] if folder is None else list(_states(folder, ENTRY.fullmatch))
        found = [Entry(entry.name, state.st_size, state.st_mtime) for entry, state in states]
        return sorted(found, key=lambda entry: -entry.used)

    def _look_up(self, key: str) -> tuple[Path, bytes] | None:
        found = None
        folder = self._ready()
        if folder is not None:
            entry = folder / _valid(key)
            try:
                found = entry, _read(entry)
            except ValueError:
                _remove(entry)
            except _Refused as refused:
                self._turn_off(str(refused))
            except OSError:  # not there; or too many open files, and the like, which say nothing about the entry
                pass
        with self._lock:
            self._hits += found is not None
            self._misses += found is None
        return found

    def _ready(self, create: bool = False) -> Path | None:
        """The folder if it is there and can be trusted. Looked at each time: folders change."""
        folder = self._folder
        if folder is None:
            return None
        try:
            if create and not folder.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(0o700, exist_ok=True)
            _check_folder(folder)
            return folder
        except _Refused as refused:
            self._turn_off(str(refused))
        except OSError as error:
            if create or not isinstance(error, FileNotFoundError):  # else nothing was put yet
                self._turn_off(f"{folder} cannot be used ({error})")
        return None

    def _grow(self, folder: Path, size: int) -> None:
        """Notes that an entry of `size` bytes came, and sweeps when a share of the limit was written since the last.

        The note is the length of a file that all processes append to, so that no put has to look at the whole folder.
        """
        with open(folder / GROWTH, "ab") as growth:
            growth.write(bytes(-(-size // BLOCK)))
            growth.flush()
            grown = growth.tell() * BLOCK
            if grown < self._limit // SHARES:
                return
            growth.truncate(0)
        self._sweep(folder)

    def _sweep(self, folder: Path) -> None:
        """Removes entries until another share of the limit has room, and what crashed processes left unfinished."""
        now = time.time()
        entries = sorted(_states(folder, ENTRY.fullmatch), key=lambda entry: entry[1].st_mtime)
        excess = sum(state.st_size for _, state in entries) - (self._limit - self._limit // SHARES)
        for entry, state in entries:
            if excess <= 0:
                break
            if abs(now - state.st_mtime) >= SETTLED:  # a clock that was set back does not keep entries for ever
                _remove(folder / entry.name)
                excess -= state.st_size
        for entry, state in _states(folder, _unfinished):
            if abs(now - state.st_mtime) >= ABANDONED:
                _remove(folder / entry.name)

    def _turn_off(self, reason: str) -> None:
        self._folder = None
        self._warn(f"{reason}; it is not used")

    def _warn(self, text: str) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            after = "The next process compiles again; JIT_CACHE_DIR names another folder."
            warnings.warn(f"framejit's cache on disk: {text}. {after}", stacklevel=2)


def _valid(key: str) -> str:
    if ENTRY.fullmatch(key) is None:
        raise TypeError(f"not a key: {key!r}")
    return key


def _checksum(key: str, value: bytes) -> bytes:
    total = hashlib.sha256(key.encode())
    total.update(value)
    return total.digest()


def _read(entry: Path) -> bytes:
    """The value of an entry, which now counts as used.

    Raises ValueError for one that is not what was put there, _Refused for one that others can write, OSError.
    """
    with open(entry, "rb", opener=_open) as file:
        _check_owner(os.fstat(file.fileno()), entry)
        content = file.read()
        with contextlib.suppress(OSError):
            os.utime(file.fileno())
    value, trailer = content[: -TRAILER.size], content[-TRAILER.size :]
    if len(trailer) != TRAILER.size or TRAILER.unpack(trailer) != (MARK, len(value), _checksum(entry.name, value)):
        raise ValueError(f"{entry} is damaged")
    return value


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a link is no entry, and a pipe must not be waited for


def _check_folder(folder: Path) -> None:
    """Raises _Refused where another user could put entries, or a folder in the place of this one; OSError."""
    state = os.stat(folder)
    if not stat.S_ISDIR(state.st_mode):
        raise _Refused(f"{folder} is not a folder")
    _check_owner(state, folder)
    for parent in folder.parents:
        mode = os.stat(parent).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise _Refused(f"{folder} lies in {parent}, where every user may rename it")


def _check_owner(state: os.stat_result, path: Path) -> None:
    if state.st_uid != os.geteuid():
        raise _Refused(f"{path} belongs to another user")
    if state.st_mode & FOREIGN_WRITE:
        raise _Refused(f"{path} can be written by other users (chmod go-w would help)")


def _unfinished(name: str) -> bool:
    return name.startswith(UNFINISHED)


def _files(folder: Path, wanted: Callable[[str], object]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if wanted(entry.name)]
    except OSError:
        return []


def _states(folder: Path, wanted: Callable[[str], object]) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    for entry in _files(folder, wanted):
        with contextlib.suppress(OSError):  # another process removed it just now
            yield entry, entry.stat(follow_symlinks=False)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
