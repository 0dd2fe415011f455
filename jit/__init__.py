"""framejit: a just-in-time compiler for PyTorch programs that works at CPython's frame evaluation."""

from __future__ import annotations

from jit import native as native  # checks the extension before anything else imports it

# isort: split
from jit import cache as cache
from jit.api import (
    allow_in_graph,
    assume_constant_result,
    compile,
    debug,
    disable,
    disallow_in_graph,
    explain,
    export_guards,
    graph_break,
    is_compiling,
    profile,
    reset,
    stats,
    warmup,
)
from jit.config import config
from jit.dumping import dump
from jit.errors import BackendCompilerFailed, InternalError, JitError, MarkedSize, RecompileError, Unsupported
from jit.stance import set_stance
from symbolic.marks import mark_dynamic, mark_static, maybe_mark_dynamic

__all__ = [
    "BackendCompilerFailed",
    "InternalError",
    "JitError",
    "MarkedSize",
    "RecompileError",
    "Unsupported",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "debug",
    "disable",
    "disallow_in_graph",
    "dump",
    "explain",
    "export_guards",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "profile",
    "reset",
    "set_stance",
    "stats",
    "warmup",
]
__version__ = "0.1.0"
