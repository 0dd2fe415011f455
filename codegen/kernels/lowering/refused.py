"""What eager code refuses to compute: `hypot` of integers, `relu` of bools. Torch's stand-ins know little of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

#: Whether eager code refuses an operation, by it and the dtypes and numbers it is called with.
_known: dict[tuple[Any, str], bool] = {}


def is_refused(node: fx.Node) -> bool:
    """Asked of the operation itself, with ones. Other devices than CPUs are not asked."""
    fakes = [given.meta["val"] for given in node.all_input_nodes]
    if torch.Tag.pointwise not in node.target.tags:  # type: ignore[union-attr]
        return False
    if any(fake.device.type != "cpu" for fake in fakes if isinstance(fake, torch.Tensor)):
        return False
    key = node.target, str(fx.map_arg((node.args, node.kwargs), _look))
    if key not in _known:
        _known[key] = _refuses(node)
    return _known[key]


def _look(given: fx.Node) -> Any:
    fake = given.meta["val"]
    return (fake.dtype, fake.dim()) if isinstance(fake, torch.Tensor) else type(fake)


def _refuses(node: fx.Node) -> bool:
    with _disable_current_modes(), torch.no_grad():
        args, kwargs = fx.map_arg((node.args, node.kwargs), _one)
        try:
            node.target(*args, **kwargs)  # type: ignore[operator]
        except RuntimeError:
            return True
    return False


def _one(given: fx.Node) -> Any:
    fake = given.meta["val"]
    if isinstance(fake, torch.Tensor):
        return torch.ones([1] * fake.dim(), dtype=fake.dtype)
    return 1 if isinstance(fake, torch.SymInt) else 1.0
