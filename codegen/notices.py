"""What users are told once in a process, however often it is so."""

from __future__ import annotations

import functools
import warnings


@functools.cache
def notify(text: str) -> None:
    """A warning of the compiler's."""
    warnings.warn(f"framejit: {text}", stacklevel=2)
