"""Torch's operators on fakes of symbolic sizes.

Operators that are made of others run in C++, as in eager code. The forms that torch has of some in Python end in a view
or a copy, where that in C++ gives the tensor itself, or the reverse. Below autograd operators run in Python: there all
of them know what to do with symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._dispatch.python import enable_python_dispatcher
from torch.utils._python_dispatch import TorchDispatchMode

#: Functions made of operators that are made of others and take plain numbers alone in C++.
_IN_PYTHON = frozenset({"interpolate", "upsample", "istft"})


class _BelowAutograd(TorchDispatchMode):
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the handler below to keep its own compiler off, and load that compiler for it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with enable_python_dispatcher():
            return func(*args, **(kwargs or {}))


@contextmanager
def with_symbols(name: str = "") -> Iterator[None]:
    """Inside, fakes with symbolic sizes may be given to the function of that name."""
    with enable_python_dispatcher() if name in _IN_PYTHON else _BelowAutograd():
        yield
