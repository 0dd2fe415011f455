"""What users are told once in a process, however often it is so."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from symbolic.warned import OURS, TORCHS

_NOT_THE_USERS = (*OURS, TORCHS, "<")

#: What was warned of, by file. Python would note it among the module's names: the program may be going over them.
_SEEN: dict[str, dict[Any, Any]] = {}


@functools.cache
def notify(text: str) -> None:
    """A warning of the compiler's."""
    warn(f"framejit: {text}")


def warn(text: str) -> None:
    """A UserWarning at the line of the user's that led here: the innermost one outside of this project and of torch.

    Where the program makes errors of warnings it is only shown: the program did nothing that it is a warning of."""
    found = here = sys._getframe(1)
    while found.f_code.co_filename.startswith(_NOT_THE_USERS):
        if found.f_back is None:
            found = here
            break
        found = found.f_back
    file = found.f_code.co_filename
    try:
        warnings.warn_explicit(text, UserWarning, file, found.f_lineno, registry=_SEEN.setdefault(file, {}))
    except UserWarning:
        if sys.stderr is not None:
            sys.stderr.write(warnings.formatwarning(text, UserWarning, file, found.f_lineno))
