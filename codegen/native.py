"""Native parts, checked: an extension built for another torch or Python says so in one line."""

from __future__ import annotations

import importlib
import sys

import torch

REBUILD = (
    "rebuild it: python setup.py build_ext --inplace --force (in the checkout), "
    "or pip install --no-build-isolation --force-reinstall ."
)


def check(name: str) -> None:
    """Loads an extension module. Raises ImportError, in one line, unless it was built for this Python and torch."""
    try:
        extension = importlib.import_module(name)
    except ImportError as error:
        python = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(
            f"framejit's extension {name} does not load with Python {python} and torch {torch.__version__} ({error}); "
            f"{REBUILD}"
        ) from None
    if extension.torch_version.split("+")[0] != torch.__version__.split("+")[0]:
        raise ImportError(
            f"framejit's extension {name} was built for torch {extension.torch_version}, this is torch "
            f"{torch.__version__}; {REBUILD}"
        )


check("codegen._C")
