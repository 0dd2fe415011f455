"""`torch.utils.checkpoint` in a graph: what is computed again in the backward is a graph inside the graph."""

from __future__ import annotations

from typing import Any

import torch.utils.checkpoint
from torch import fx

from symbolic.torch_state import restoring


def checkpoint(
    inner: tuple[fx.GraphModule, tuple[Any, ...]], given: tuple[int, ...], options: dict[str, Any]
) -> Any:
    """Stands in graphs. `inner` is a graph and what it takes; of that, what is `given` to the function are arguments
    of the checkpoint, whose writes autograd notices. `options` are torch's."""
    module, held = inner

    def function(*args: torch.Tensor) -> Any:
        values = list(held)
        for at, arg in zip(given, args, strict=True):
            values[at] = arg
        return restoring(module)(*values)  # the second run may end early

    return torch.utils.checkpoint.checkpoint(
        function, *(held[at] for at in given), use_reentrant=False, **options
    )
