"""What users are told once in a process, however often it is so."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from typing import Any

import torch

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_THE_USERS = (
    *(os.path.join(_HERE, floor) + os.sep for floor in ("jit", "codegen", "symbolic", "sideeffects")),
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
    "<",
)

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
