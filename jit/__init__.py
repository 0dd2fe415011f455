"""framejit: a just-in-time compiler for PyTorch programs that works at CPython's frame evaluation."""

from __future__ import annotations

from jit import native as native  # checks the extension before anything else imports it

# isort: split
from jit import cache as cache
from jit.api import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    disallow_in_graph,
    explain,
    graph_break,
    is_compiling,
    reset,
    stats,
)
from jit.config import config
from jit.errors import BackendCompilerFailed, InternalError, JitError, Unsupported

__all__ = [
    "BackendCompilerFailed",
    "InternalError",
    "JitError",
    "Unsupported",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "disable",
    "disallow_in_graph",
    "explain",
    "graph_break",
    "is_compiling",
    "reset",
    "stats",
]
__version__ = "0.1.0"
