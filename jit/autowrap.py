"""`JIT_AUTO=1 python script.py`: compiles the functions of an unmodified script.

Where the variable is set, a start-up line in site-packages has `install` called as soon as the program imports torch
(`framejit_start`). The frame hook then looks at the program's own functions (library code runs as it is, and what it
calls of the program is looked at); those that are called with tensors or modules are compiled. Where it finds nothing
for a while it is taken out, up to the thread's next operation on a tensor: Python without tensors is as quick as ever.
"""

from __future__ import annotations

import atexit
import fnmatch
import functools
import linecache
import os
import sys
from types import CodeType, FunctionType
from typing import Any

from jit import _C, backends, report
from jit.barren import worth_it
from jit.compiler import Compiler, is_library, refuse
from jit.config import Config, config

#: Calls of a function that run as written, to be timed, before it is compiled.
WRITTEN = 2
#: What folders are called that libraries are installed in: there may be several, of a user, of the system.
_INSTALLED = {"site-packages", "dist-packages"}


class AutoCompiler(Compiler):
    """A compiler that chooses its functions itself."""

    rests = True
    #: Whether calls are timed, as written and compiled: for the report.
    is_timed = False

    def __init__(self, settings: Config = config) -> None:
        super().__init__(backends.resolve("default"), settings, False, None)

    def classify(self, code: CodeType) -> Any:
        if refuse(code, None) is not None or code.co_name == "__init__" or not self._is_chosen(code):
            return None
        cache = self._new_cache(code)
        cache.timed = self.is_timed
        return cache

    def _is_chosen(self, code: CodeType) -> bool:
        path = os.path.realpath(code.co_filename)
        if self.config.auto_include or self.config.auto_exclude:
            module = _module_at(code.co_filename)
            if _fits(module, self.config.auto_exclude):
                return False
            if _fits(module, self.config.auto_include):
                return True
        if is_library(code) or not _INSTALLED.isdisjoint(path.split(os.sep)):
            return False
        return _is_written(code.co_filename)

    def miss(self, door: Any, slots: tuple[Any, ...], function: FunctionType) -> Any:
        # A continuation is worth it because its function was.
        if isinstance(door, _C.Cache) and not door.entries and not any(map(worth_it, slots)):
            door.frozen = True
            return None
        if isinstance(door, _C.Cache) and door.timed and door.times[0] < WRITTEN:
            return None
        return super().miss(door, slots, function)


def _is_written(file: str) -> bool:
    """Whether there is such a file, or its text is where tracebacks look for it, as that of a notebook's cells is."""
    return file in linecache.cache or os.path.exists(file)


@functools.cache
def _module_at(file: str) -> str:
    """The name of the module of that file, the empty one if there is none (yet)."""
    loaded = list(sys.modules.items())
    return next((name for name, module in loaded if getattr(module, "__file__", None) == file), "")


def _fits(module: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(module, pattern.strip()) for pattern in patterns.split(",") if pattern.strip())


_compiler: AutoCompiler | None = None


def install() -> None:
    """Begins to watch this thread's calls, under `JIT_AUTO=report` with a table at exit. Nothing the second time."""
    global _compiler
    if _compiler is None:
        _compiler = AutoCompiler()
        if os.environ.get("JIT_AUTO", "").lower() == "report":
            _compiler.is_timed = True
            atexit.register(show_report)
        _compiler.region.enter()
        # Finalizers that run while the interpreter ends find half of it gone; they run as they are.
        atexit.register(_compiler.region.exit)


def show_report() -> None:
    """Writes to stderr what was compiled, and what to mend first."""
    if _compiler is not None and sys.stderr is not None:
        report.show(_compiler.debug_state(), sys.stderr)
