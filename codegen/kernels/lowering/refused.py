"""What eager code refuses to compute: `hypot` of integers, `relu` of bools. Torch's stand-ins know little of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

#: What operations on tensors of one dtype all take.
_TAKEN = frozenset({torch.float32, torch.float64})
#: Whether eager code refuses an operation, by it and the dtypes and numbers it is called with.
_known: dict[tuple[Any, str], bool] = {}


def is_refused(node: fx.Node) -> bool:
    """Asked of the operation itself, with ones, or zeros where these may be positions. Other devices than CPUs are not
    asked."""
    fakes = [fake for given in node.all_input_nodes if isinstance(fake := given.meta["val"], torch.Tensor)]
    if not fakes or any(fake.device.type != "cpu" for fake in fakes):
        return False
    is_pointwise = torch.Tag.pointwise in node.target.tags  # type: ignore[union-attr]
    dtypes = {fake.dtype for fake in fakes}
    if not is_pointwise and len(dtypes) == 1 and dtypes <= _TAKEN:
        return False
    key = node.target, str(fx.map_arg((node.args, node.kwargs), _look))
    if key not in _known:
        # others may refuse the sizes of ones: what they take as floats, they refuse for the dtypes
        _known[key] = _refuses(node, int(is_pointwise)) and (is_pointwise or not _refuses(node, 0, torch.float32))
    return _known[key]


def _look(given: fx.Node) -> Any:
    fake = given.meta["val"]
    return (fake.dtype, fake.dim()) if isinstance(fake, torch.Tensor) else type(fake)


def _refuses(node: fx.Node, value: int, dtype: torch.dtype | None = None) -> bool:
    """With tensors of that value, which are all of that dtype, if one is said."""

    def one(given: fx.Node) -> Any:
        fake = given.meta["val"]
        if isinstance(fake, torch.Tensor):
            return torch.full([1] * fake.dim(), value, dtype=dtype or fake.dtype)
        return 1 if isinstance(fake, torch.SymInt) else 1.0

    with _disable_current_modes(), torch.no_grad():
        args, kwargs = fx.map_arg((node.args, node.kwargs), one)
        try:
            node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # IndexError: of an item that ones of this size have not
            return True
    return False
