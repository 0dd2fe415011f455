"""`torch.compile(..., backend="framejit")`: graphs that torch's own front end captured, through the default backend.

An entry point of the group `torch_dynamo_backends` (see pyproject.toml) makes the name known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jit.backends import BACKENDS


def framejit(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """`gm`, of tensors (parameters among them) and symbolic numbers, differentiated ahead of time.

    What the AOT stage can't say runs as it was captured. Whoever captured guards the inputs; conditions on symbols are
    noted in their own shape environment.
    """
    if any(isinstance(value, torch.SymInt) for value in example_inputs):
        # Numbers and fakes of one mode: a real tensor has no symbols.
        stand_ins = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
        example_inputs = [
            real if fake is None else fake for real, fake in zip(example_inputs, stand_ins, strict=True)
        ]
    return BACKENDS["default"](gm, list(example_inputs))
