"""Results of CPU kernels that do not lie in memory as torch's fakes say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten

#: Whose first result lies as the memory format of this argument suggests: by rows, or with the channels last.
_SUGGESTED: dict[Callable[..., Any], int] = {
    aten.native_batch_norm.default: 0,
    aten._native_batch_norm_legit.default: 0,
    aten._native_batch_norm_legit.no_stats: 0,
    aten._native_batch_norm_legit_functional.default: 0,
    aten._batch_norm_with_update.default: 0,
    aten._batch_norm_with_update_functional.default: 0,
    aten.native_batch_norm_backward.default: 1,
    aten.batch_norm_backward.default: 1,
}
#: Whose first result lies by rows.
_BY_ROWS = frozenset({aten.native_layer_norm_backward.default, aten._log_softmax_backward_data.default})


def as_kernels_give(func: Callable[..., Any], args: Sequence[Any], result: Any) -> Any:
    """The `result` of an operation on fakes, lying in memory as that on a CPU does."""
    at = _SUGGESTED.get(func)
    if at is None and func not in _BY_ROWS:
        return result
    first = result[0] if isinstance(result, (tuple, list)) else result
    if first is None or first.device.type != "cpu":
        return result
    layout = torch.contiguous_format if at is None else suggest_memory_format(args[at])
    first = torch.empty_like(first, memory_format=layout)
    return (first, *result[1:]) if isinstance(result, (tuple, list)) else first
