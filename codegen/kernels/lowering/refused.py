"""What eager code refuses to compute: `hypot` of integers, `relu` of bools. Torch's stand-ins know little of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

#: What operations on one tensor all take.
_TAKEN = frozenset({torch.float32, torch.float64})
#: Whether eager code refuses an operation, by it and the dtypes and numbers it is called with.
_known: dict[tuple[Any, str], bool] = {}


def is_refused(node: fx.Node) -> bool:
    """Asked of the operation itself, with ones. Other devices than CPUs are not asked."""
    fakes = [fake for given in node.all_input_nodes if isinstance(fake := given.meta["val"], torch.Tensor)]
    if not fakes or any(fake.device.type != "cpu" for fake in fakes):
        return False
    is_pointwise = torch.Tag.pointwise in node.target.tags  # type: ignore[union-attr]
    if not is_pointwise and fakes[0].dtype in _TAKEN:
        return False
    key = node.target, str(fx.map_arg((node.args, node.kwargs), _look))
    if key not in _known:
        # others may refuse the sizes of ones: what they take as floats, they refuse for the dtype
        _known[key] = _refuses(node, None) and (is_pointwise or not _refuses(node, fakes[0].dtype))
    return _known[key]


def _look(given: fx.Node) -> Any:
    fake = given.meta["val"]
    return (fake.dtype, fake.dim()) if isinstance(fake, torch.Tensor) else type(fake)


def _refuses(node: fx.Node, as_floats: torch.dtype | None) -> bool:
    """With float32 in the place of one dtype, if that is said."""

    def one(given: fx.Node) -> Any:
        fake = given.meta["val"]
        if isinstance(fake, torch.Tensor):
            return torch.ones([1] * fake.dim(), dtype=torch.float32 if fake.dtype is as_floats else fake.dtype)
        return 1 if isinstance(fake, torch.SymInt) else 1.0

    with _disable_current_modes(), torch.no_grad():
        args, kwargs = fx.map_arg((node.args, node.kwargs), one)
        try:
            node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # IndexError: of an item that ones of this size have not
            return True
    return False
