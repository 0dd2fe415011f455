"""Calls that see by whom they are called, made for an activation further out."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def warn_above(level: int, message: Any, category: type[Warning] | None, source: Any) -> None:
    """`warnings.warn` of the frame that is `level` above the caller's."""
    warnings.warn(message, category, level + 2, source)


def warn_in(module: str, file: str, line: int, message: str, category: type[Warning]) -> None:
    """`warnings.warn` at a line of a module."""
    warn_at(vars(sys.modules[module]), file, line, message, category)


def warn_at(namespace: dict[str, Any], file: str, line: int, message: str, category: type[Warning]) -> None:
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, namespace.get("__name__"), registry)
