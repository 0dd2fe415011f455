"""Errors that users meet."""

from __future__ import annotations

import linecache

from symbolic.capture import BreakReason
from symbolic.shapes import Specialization


class JitError(Exception):
    """Base of the compiler's own errors."""


class Unsupported(JitError):
    """Raised under `fullgraph=True` where the graph would break: the user's line, the reason, a hint."""

    def __init__(self, reason: BreakReason) -> None:
        self.reason = reason
        lines = [f"can't be captured as one graph: {reason.reason}" + (f" ({reason.detail})" if reason.detail else "")]
        for file, line, function in reason.stack:
            lines.append(f'  File "{file}", line {line}, in {function}')
            source = linecache.getline(file, line).strip()
            if source:
                lines.append(f"    {source}")
        if reason.hint:
            lines.append(f"  hint: {reason.hint}")
        super().__init__("\n".join(lines))


class MarkedSize(JitError):
    """A size that `jit.mark_dynamic` said varies is one that the program depends on."""

    def __init__(self, specialization: Specialization) -> None:
        super().__init__(
            f"jit.mark_dynamic: {specialization}. Say jit.maybe_mark_dynamic of sizes that may be compiled as they come"
        )
        self.specialization = specialization


class BackendCompilerFailed(JitError):
    """A backend raised, or returned something that is not callable."""

    def __init__(self, backend: object, error: object) -> None:
        name = getattr(backend, "__name__", None) or str(backend)
        kind = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
        super().__init__(f"backend {name!r} failed: {kind}{error}")
        self.backend = backend


class InternalError(JitError):
    """A fault of the compiler itself (raised with `config.on_error = "raise"`)."""
