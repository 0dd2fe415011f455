"""Errors that users meet."""

from __future__ import annotations

import linecache

from jit import reasons
from symbolic.capture import BreakReason
from symbolic.shapes import Specialization

#: The reason where a frame is not for capture at all; the detail is why.
SKIPPED = "the frame can't be captured"


class JitError(Exception):
    """Base of the compiler's own errors."""


class Unsupported(JitError):
    """Raised under `fullgraph=True` where the graph would break: the user's line, the reason, what to do.

    `family`: the section of `jit/breaks.md` that the reason belongs to, "" if none does."""

    def __init__(self, reason: BreakReason) -> None:
        self.reason = reason
        family = reasons.family_of(reason.detail if reason.reason == SKIPPED else reason.reason)
        self.family = family.name if family is not None else ""
        detail = f" ({reason.detail})" if reason.detail else ""
        known = f" [{self.family}]" if self.family else ""
        lines = [f"can't be captured as one graph: {reason.reason}{detail}{known}"]
        for depth, (file, line, function) in enumerate(reason.stack, 1):
            lines.append(f'  File "{file}", line {line}, in {function}')
            text = linecache.getline(file, line).rstrip()
            if text.strip():
                lines.append(f"    {text.strip()}")
                if depth == len(reason.stack):
                    lines += _carets(text, *reason.columns)
        if reason.hint:
            lines.append(f"  hint: {reason.hint}")
        if family is not None:
            lines.append(f"  more: python -m jit why {family.name} ({family.title[0].lower()}{family.title[1:]})")
        super().__init__("\n".join(lines))


def _carets(text: str, first: int, last: int) -> list[str]:
    """The line below `text`, which stands four columns to the right and without its indentation."""
    data = text.encode()
    start, stop = (len(data[:place].decode(errors="replace")) for place in (first, last if last >= 0 else None))
    indent = len(text) - len(text.lstrip())
    if stop <= start or start < indent or (start == indent and stop == len(text)):
        return []
    return [" " * (4 + start - indent) + "^" * (stop - start)]


class MarkedSize(JitError):
    """A size that `jit.mark_dynamic` said varies is one that the program depends on."""

    def __init__(self, specialization: Specialization) -> None:
        super().__init__(
            f"jit.mark_dynamic: {specialization}. Say jit.maybe_mark_dynamic of sizes that may be compiled as they come"
        )
        self.specialization = specialization


class RecompileError(JitError):
    """Under `jit.set_stance("fail_on_recompile")`: nothing compiled serves this call."""


class BackendCompilerFailed(JitError):
    """A backend raised, or returned something that is not callable. `repro`: a script that shows it, or ""."""

    def __init__(self, backend: object, error: object, repro: str = "") -> None:
        name = getattr(backend, "__name__", None) or str(backend)
        kind = f"{type(error).__name__}: " if isinstance(error, BaseException) else ""
        script = f"\n  {repro} shows it by itself; `python -m jit minify {repro}` makes it small" if repro else ""
        super().__init__(f"backend {name!r} failed: {kind}{error}{script}")
        self.backend = backend
        self.repro = repro


class InternalError(JitError):
    """A fault of the compiler itself (raised with `config.on_error = "raise"`)."""
