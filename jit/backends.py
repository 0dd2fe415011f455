"""Backends: `(gm, example_inputs) -> callable`, by name or as given."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from codegen.aot.backend import ATEN, compile_graph
from codegen.aot.draws import AS_BOOLS
from codegen.aot.function import GraphCompiler
from codegen.aot.partition import min_cut_partition
from codegen.direct import as_captured
from codegen.kernels.compile import Kernels
from codegen.kernels.pieces import pieced
from codegen.notices import notify
from codegen.passes import Passes
from codegen.plan.replay import replayed
from jit import _C, cache, repro
from jit.config import config, in_force
from jit.errors import BackendCompilerFailed

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


AOT = replace(ATEN, suspended=_C.call_suspended)
FUSED = replace(AOT, partition=min_cut_partition, decompositions=AS_BOOLS)


def eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs the graph as captured."""
    return gm.forward


def aot_eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Forward and backward as functional ATen graphs, ahead of time; ATen runs them as they are."""
    return compile_graph(gm, example_inputs, AOT)


@dataclass(frozen=True)
class Mode:
    """What a compilation for CUDA takes pains for (for a CPU all modes are one). `graphs`: launches are recorded and
    replayed, see `codegen.plan.replay`; `measures`: kernels are chosen by their times, see `Kernels`."""

    graphs: bool = False
    measures: bool = False


#: What `mode` may be -> what it means; all but "default" are of the backend "default" alone.
MODES = {
    "default": Mode(),
    "reduce-overhead": Mode(graphs=True),
    "max-autotune": Mode(graphs=True, measures=True),
    "max-autotune-no-cudagraphs": Mode(measures=True),
}


def kernels(gm: fx.GraphModule, example_inputs: list[Any], mode: Mode = MODES["default"]) -> Callable[..., Any]:
    """Forward and backward as kernels of our own, and ATen's where it has the better ones, or they can't be made."""
    settings = in_force()
    compiler = Kernels(cache.store(settings), _failed, mode.measures, settings.fast_math, settings.round_halves)
    forward: GraphCompiler = compiler
    backward: GraphCompiler = compiler.of_list
    if mode.graphs:
        limit = settings.cuda_graph_limit
        forward, backward = replayed(forward, limit), replayed(backward, limit, takes_list=True)
    forward, backward = pieced(forward, forward, ATEN.forward), pieced(backward, forward, ATEN.backward)
    passes = Passes(frozenset(name.strip() for name in settings.passes_off.split(",") if name.strip()))
    stage = replace(FUSED, forward=forward, backward=backward, inference=forward, passes=passes)
    return compile_graph(gm, example_inputs, stage)


def _failed(error: Exception) -> None:
    """Raises it if that is asked for; else ATen does the kernels' work."""
    if config.on_error == "raise":
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1]
    lines = str(error).splitlines() or [""]  # a compiler's output is long
    text = next((line for line in lines[1:] if "error" in line.lower()), lines[-1])
    notify(
        f"could not compile the kernels of a graph, which ATen runs operation by operation. Cause: "
        f"{type(error).__name__}: {text} at {os.path.basename(place.filename)}:{place.lineno}. "
        'Please report it with the traceback that jit.config.on_error = "raise" gives. `python -m jit doctor` looks at '
        "the machine, if it is the compiler's fault, or the disk's."
    )


@dataclass(frozen=True)
class InMode:
    """A backend that knows modes, in one."""

    backend: Callable[..., Callable[..., Any]]
    mode: Mode

    @property
    def __name__(self) -> str:
        return self.backend.__name__

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return self.backend(gm, example_inputs, self.mode)


#: name -> backend
BACKENDS: dict[str, Backend] = {"eager": eager, "aot_eager": aot_eager, "default": kernels}


def resolve(backend: str | Backend, mode: str | None = None) -> Backend:
    """The backend of that name, or the callable itself, in that mode if it knows modes.

    Raises ValueError / TypeError for anything else."""
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; there are {', '.join(MODES)}")
    if isinstance(backend, str):
        found = BACKENDS.get(backend)
        if found is None:
            names = ", ".join(sorted(BACKENDS))
            raise ValueError(f"unknown backend {backend!r}; there are {names}, or give a callable")
        chosen = MODES[mode or "default"]
        return InMode(found, chosen) if found is kernels and chosen != Mode() else found
    if not callable(backend):
        raise TypeError(f"backend must be a name or a callable (gm, example_inputs) -> callable, not {backend!r}")
    return backend


def _repro(backend: Backend, gm: fx.GraphModule, example_inputs: list[Any], error: Exception) -> str:
    """The path of a script that shows what our own backends fail with, "" where none can be written."""
    if backend not in BACKENDS.values() and not isinstance(backend, InMode):
        return ""
    try:
        name = getattr(backend, "__name__", "backend")
        return repro.write(gm, example_inputs, f"{name}: {type(error).__name__}: {error}", config.dump)
    except (repro.NoScript, OSError):
        return ""


def run(backend: Backend, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Calls a backend; what goes wrong in it becomes `BackendCompilerFailed`.

    `gm.meta["stages"]`, for the dump: what the compiled program was made of, if it tells."""
    try:
        if backend not in (kernels, aot_eager) and not isinstance(backend, InMode):
            as_captured(gm)  # the others may call it
        compiled = backend(gm, example_inputs)
    except Exception as error:
        raise BackendCompilerFailed(backend, error, _repro(backend, gm, example_inputs, error)) from error
    if not callable(compiled):
        raise BackendCompilerFailed(backend, f"it returned {compiled!r}, which is not callable")
    gm.meta["stages"] = getattr(compiled, "stages", None)
    return compiled
