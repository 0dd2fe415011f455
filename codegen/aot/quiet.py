"""What of the caller's surroundings a trace must not meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def quiet() -> Iterator[None]:
    """The autograd engine works in this thread, looks for no anomalies, and hands no tensor to the caller's hooks of
    saved tensors: these get the real ones."""
    multithreaded = torch._C._is_multithreading_enabled()
    anomalies = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    hooks = []
    while (top := torch._C._autograd._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        torch._C._autograd._pop_saved_tensors_default_hooks()
    torch._C._set_multithreading_enabled(False)
    torch.set_anomaly_enabled(False)
    try:
        yield
    finally:
        torch.set_anomaly_enabled(*anomalies)
        torch._C._set_multithreading_enabled(multithreaded)
        for pack, unpack in reversed(hooks):
            torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)


@contextmanager
def unsaved() -> Iterator[None]:
    """What is saved for derivatives goes through no hooks: checkpoints keep it."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)
