"""Backends: `(gm, example_inputs) -> callable`, by name or as given."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import fx

from codegen.aot.backend import ATEN, compile_graph
from codegen.aot.partition import min_cut_partition
from codegen.kernels.compile import Kernels
from codegen.notices import notify
from codegen.passes import Passes
from jit import _C, cache
from jit.config import config
from jit.errors import BackendCompilerFailed

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


AOT = replace(ATEN, suspended=_C.call_suspended)
FUSED = replace(AOT, partition=min_cut_partition)


def eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs the graph as captured."""
    return gm.forward


def aot_eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Forward and backward as functional ATen graphs, ahead of time; ATen runs them as they are."""
    return compile_graph(gm, example_inputs, AOT)


def kernels(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Forward and backward as kernels of our own, and ATen's where it has the better ones, or they can't be made."""
    compiler = Kernels(cache.store(), _failed)
    passes = Passes(frozenset(name.strip() for name in config.passes_off.split(",") if name.strip()))
    settings = replace(FUSED, forward=compiler, backward=compiler.of_list, inference=compiler, passes=passes)
    return compile_graph(gm, example_inputs, settings)


def _failed(error: Exception) -> None:
    """Raises it if that is asked for; else ATen does the kernels' work."""
    if config.on_error == "raise":
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).splitlines() or [""])[-1]  # a compiler's output is long
    notify(
        f"could not compile the kernels of a graph, which ATen runs operation by operation. Cause: "
        f"{type(error).__name__}: {text} at {os.path.basename(place.filename)}:{place.lineno}. "
        'Please report it with the traceback that jit.config.on_error = "raise" gives.'
    )


#: name -> backend
BACKENDS: dict[str, Backend] = {"eager": eager, "aot_eager": aot_eager, "default": kernels, "kernels": kernels}


def resolve(backend: str | Backend) -> Backend:
    """The backend of that name, or the callable itself. Raises ValueError / TypeError for anything else."""
    if isinstance(backend, str):
        found = BACKENDS.get(backend)
        if found is None:
            names = ", ".join(sorted(BACKENDS))
            raise ValueError(f"unknown backend {backend!r}; there are {names}, or give a callable")
        return found
    if not callable(backend):
        raise TypeError(f"backend must be a name or a callable (gm, example_inputs) -> callable, not {backend!r}")
    return backend


def run(backend: Backend, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Calls a backend; what goes wrong in it becomes `BackendCompilerFailed`.

    `gm.meta["stages"]`, for the dump: what the compiled program was made of, if it tells."""
    try:
        compiled = backend(gm, example_inputs)
    except Exception as error:
        raise BackendCompilerFailed(backend, error) from error
    if not callable(compiled):
        raise BackendCompilerFailed(backend, f"it returned {compiled!r}, which is not callable")
    gm.meta["stages"] = getattr(compiled, "stages", None)
    return compiled
