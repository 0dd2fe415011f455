"""Graphs differentiated ahead of time: functional forward and backward graphs of ATen operations.

The names of functorch.compile, for functions and modules that somebody has at hand; the rest of the package is for
graphs that were captured.
"""

from __future__ import annotations

from codegen.aot.api import aot_function, aot_module, aot_module_simplified
from codegen.aot.compilers import make_boxed_compiler, make_boxed_func, nop, print_compile
from codegen.aot.partition import (
    default_partition,
    min_cut_partition,
    min_cut_rematerialization_partition,
)
from codegen.aot.recorder import Untraceable

__all__ = [
    "Untraceable",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "default_partition",
    "make_boxed_compiler",
    "make_boxed_func",
    "min_cut_partition",
    "min_cut_rematerialization_partition",
    "nop",
    "print_compile",
]
