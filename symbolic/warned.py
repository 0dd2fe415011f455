"""Whether Python's own code, run while tracing, warns: the program itself has to, each time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_module: Any = warnings  # its stubs do not have what shows a warning
_EVERY: list[Any] = [("always", None, Warning, None, 0)]


@contextmanager
def heard() -> Iterator[list[Any]]:
    """A list of the warnings of the block, which are not shown. (`catch_warnings` would make the program forget which
    ones it has shown before.)"""
    found: list[Any] = []
    saved = _module.filters, _module._showwarnmsg
    _module.filters, _module._showwarnmsg = _EVERY, found.append
    try:
        yield found
    finally:
        _module.filters, _module._showwarnmsg = saved
