"""`JIT_AUTO=1 python script.py`: compiles the functions of an unmodified script.

A start-up line in site-packages calls `install` when the variable is set. The frame hook then looks at the script's
own functions (library code runs as it is, and what it calls of the script is looked at); those that are called with
tensors or modules are compiled.
"""

from __future__ import annotations

import atexit
import os
import sysconfig
from types import CodeType, FunctionType
from typing import Any

import torch

from jit import _C, backends
from jit.compiler import Compiler, is_library, refuse
from jit.config import config

_INSTALLED = tuple(
    {os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("purelib", "platlib", "stdlib")}
)


class AutoCompiler(Compiler):
    """A compiler that chooses its functions itself."""

    def __init__(self) -> None:
        super().__init__(backends.resolve("default"), config, False, None)

    def classify(self, code: CodeType) -> Any:
        if refuse(code, None) is not None or is_library(code) or code.co_name == "__init__":
            return None
        path = os.path.realpath(code.co_filename)
        if path.startswith(_INSTALLED) or not os.path.exists(path):
            return None
        return self._new_cache(code)

    def miss(self, door: Any, slots: tuple[Any, ...], function: FunctionType) -> Any:
        # A continuation is worth it because its function was.
        if isinstance(door, _C.Cache) and not door.entries and not any(map(_worth_it, slots)):
            door.frozen = True
            return None
        return super().miss(door, slots, function)


def _worth_it(value: Any) -> bool:
    """Whether an argument speaks for tensor work: a tensor, a module, or a container of such."""
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return True
    if type(value) in (list, tuple):
        return any(map(_worth_it, value[:8]))
    if type(value) is dict:
        return any(map(_worth_it, list(value.values())[:8]))
    return False


_compiler: AutoCompiler | None = None


def install() -> None:
    """Begins to watch this thread's calls. Does nothing the second time."""
    global _compiler
    if _compiler is None:
        _compiler = AutoCompiler()
        _compiler.region.enter()
        # Finalizers that run while the interpreter ends find half of it gone; they run as they are.
        atexit.register(_compiler.region.exit)
