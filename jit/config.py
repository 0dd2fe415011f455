"""Every knob, once: `jit.config.x`, per compile `options={"x": ...}`, by environment `JIT_X`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Literal


@dataclass
class Config:
    """Settings of the compiler.

    on_error: what an internal error does: "fallback" runs the frame eagerly with one warning, "raise" raises.
    recompile_limit: compiled entries per code object; past it new inputs run eagerly. Of a function and all that goes
        on after its breaks, as often may captures that met no tensor end where others ended; past it, it runs eagerly
        where it is handed neither tensors nor modules.
    unroll_limit: iterations of one loop, or elements of one iterator, that a capture runs through.
    loop_limit: operations that one loop may add to a graph in turns that bring no parameters of their own (as layers
        do). A loop that adds more is not unrolled: the graph breaks before each turn, and its body is compiled once for
        all of them. 0, and `fullgraph=True`: no such limit.
    inline_limit: depth of inlined calls.
    break_everywhere: a graph break after every call (tests: results must not change).
    dump: a folder for readable files of everything generated, "" for none.
    logs: comma-separated channels to print (`jit.logs.CHANNELS`).
    auto_include, auto_exclude: comma-separated patterns of modules (`mylib.*`) whose functions `JIT_AUTO` compiles
        though they are a library's, or leaves alone; the second one decides where both fit.
    passes_off: comma-separated passes over graphs to leave out (`codegen.passes.table()` names them).
    fast_math: kernels for a CPU may add in another order, multiply by reciprocals and forget the sign of zero: the last
        digits differ from eager code's.
    round_halves: float16 and bfloat16 are rounded after each operation, as eager code does it; off, kernels round only
        what they store or compare: faster, and nearer to what float32 gives than eager code is.
    cuda_graph_limit: sizes (or numbers, or streams) that a graph is recorded for under `mode="reduce-overhead"`; calls
        with further ones launch its kernels one by one.
    disk_cache: keep compiled kernels on disk, for the next process.
    cache_dir: their folder, "" for $XDG_CACHE_HOME/framejit, else ~/.cache/framejit. Nobody else may write to it.
    cache_size_limit: bytes that they may take; those used longest ago go first.
    """

    on_error: Literal["fallback", "raise"] = "fallback"
    recompile_limit: int = 16
    unroll_limit: int = 100_000
    loop_limit: int = 1000
    inline_limit: int = 200
    break_everywhere: bool = False
    dump: str = ""
    logs: str = ""
    auto_include: str = ""
    auto_exclude: str = ""
    passes_off: str = ""
    fast_math: bool = False
    round_halves: bool = True
    cuda_graph_limit: int = 16
    disk_cache: bool = True
    cache_dir: str = ""
    cache_size_limit: int = 1 << 30

    def with_options(self, options: dict[str, Any] | None) -> Config:
        """A copy with some knobs set; unknown names raise ValueError."""
        if not options:
            return self
        known = {field.name for field in fields(self)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(f"unknown option {unknown[0]!r}; the options are {', '.join(sorted(known))}")
        return replace(self, **options)


_in_force: ContextVar[Config | None] = ContextVar("in_force", default=None)


def in_force() -> Config:
    """The settings of the compilation under way, else `config`."""
    return _in_force.get() or config


@contextmanager
def using(settings: Config) -> Iterator[None]:
    """These are in force meanwhile."""
    token = _in_force.set(settings)
    try:
        yield
    finally:
        _in_force.reset(token)


_FALSE = {"", "0", "false", "no", "off"}


def from_environment(environ: Any = os.environ) -> Config:
    """The settings that `JIT_<NAME>` variables ask for. Raises ValueError for a value of the wrong kind."""
    settings: dict[str, Any] = {}
    for field in fields(Config):
        text = environ.get(f"JIT_{field.name.upper()}")
        if text is None:
            continue
        default = field.default
        if isinstance(default, bool):
            settings[field.name] = text.lower() not in _FALSE
        elif isinstance(default, int):
            try:
                settings[field.name] = int(text)
            except ValueError:
                raise ValueError(f"JIT_{field.name.upper()}={text!r}: a whole number is needed") from None
        else:
            settings[field.name] = text
    return Config(**settings)


config = from_environment()
