"""Calls that see by whom they are called, made for an activation further out."""

from __future__ import annotations

import warnings
from typing import Any


def warn_above(level: int, message: Any, category: type[Warning] | None, source: Any) -> None:
    """`warnings.warn` of the frame that is `level` above the caller's."""
    warnings.warn(message, category, level + 2, source)
