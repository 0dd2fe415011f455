"""The native core, checked: an extension built for another torch or Python says so in one line."""

from __future__ import annotations

import sys

import torch

REBUILD = (
    "rebuild it: python setup.py build_ext --inplace --force (in the checkout), "
    "or pip install --no-build-isolation --force-reinstall ."
)

try:
    from jit import _C
except ImportError as error:
    python = ".".join(map(str, sys.version_info[:2]))
    raise ImportError(
        f"framejit's extension does not load with Python {python} and torch {torch.__version__} ({error}); {REBUILD}"
    ) from None

if _C.torch_version.split("+")[0] != torch.__version__.split("+")[0]:
    raise ImportError(
        f"framejit's extension was built for torch {_C.torch_version}, this is torch {torch.__version__}; {REBUILD}"
    )
