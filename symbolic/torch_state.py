"""Torch's state of a thread: who watches its operations; put back after a capture, and after a graph that fails between
two switches."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

_C: Any = torch._C
_default_device: Any = torch._GLOBAL_DEVICE_CONTEXT  # of the thread
#: Dispatch keys that every thread adds to its operations. Dispatch modes, function transforms and tracers add others.
_USUAL_KEYS = 0
for _key in ("BackendSelect", "ADInplaceOrView", "Dense"):  # the last is left behind by what ran on the meta device
    _USUAL_KEYS |= torch._C.DispatchKeySet(torch._C._dispatch_key_parse(_key)).raw_repr()


def is_watched() -> bool:
    """Whether a mode, a function transform or forward-mode differentiation follows every operation of this thread: then
    all of them happen as written."""
    return (
        bool(torch._C._dispatch_tls_local_include_set().raw_repr() & ~_USUAL_KEYS)
        or forward_ad._current_level >= 0
        or any(type(mode) is not DeviceContext for mode in _get_current_function_mode_stack())
    )


def state_of_operations() -> tuple[Any, ...]:
    """What the values that operations give depend on."""
    return torch.is_autocast_enabled("cpu"), torch.get_default_dtype(), _C._get_default_device(), attention_kernels()


def attention_kernels() -> tuple[Any, ...]:
    """Which of them may be chosen, and in which order."""
    return (*[is_enabled() for is_enabled in _ENABLED], *_C._get_sdp_priority_order())


_DEVICES = ("cpu", "cuda")
#: Those that `scaled_dot_product_attention` chooses among.
ATTENTION_KERNELS = ("cudnn", "flash", "math", "mem_efficient", "overrideable")
_ENABLED = [getattr(_C, f"_get_{kernel}_sdp_enabled") for kernel in ATTENTION_KERNELS]


class TorchState:
    """What it is when this is made."""

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.cache = torch.is_autocast_cache_enabled()
        self.autocast = {d: (torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES}
        self.dtype = torch.get_default_dtype()
        self.nesting = torch.autocast_increment_nesting()
        torch.autocast_decrement_nesting()
        self.inference = len(_thread.guards)
        self.attention = attention_kernels()
        self.modes = _get_current_function_mode_stack()
        self.device = getattr(_default_device, "device_context", None)

    def restore(self) -> None:
        self._restore_modes()
        while len(_thread.guards) > self.inference:
            leave_inference()
        torch._C._set_grad_enabled(self.grad)
        torch.set_autocast_cache_enabled(self.cache)
        for device, (enabled, dtype) in self.autocast.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_default_dtype(self.dtype)
        self._restore_attention()
        while torch.autocast_increment_nesting() < self.nesting:
            pass
        while torch.autocast_decrement_nesting() >= self.nesting:
            pass


    def _restore_attention(self) -> None:
        if attention_kernels() != self.attention:
            for kernel, enabled in zip(ATTENTION_KERNELS, self.attention, strict=False):
                getattr(_C, f"_set_sdp_use_{kernel}")(enabled)
            _C._set_sdp_priority_order(list(self.attention[len(ATTENTION_KERNELS) :]))

    def _restore_modes(self) -> None:
        now = _get_current_function_mode_stack()
        kept = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(now, self.modes, strict=False)))
        for _ in now[kept:]:
            torch._C._pop_torch_function_stack()
        for mode in self.modes[kept:]:
            torch._C._push_on_torch_function_stack(mode)
        _default_device.device_context = self.device


class TracingState(TorchState):
    """Also the random numbers and the hooks of saved tensors, which tracing leaves alone. Until it is restored, no
    class of tensors is asked what operations do: see `variables/overrides.py`."""

    def __init__(self) -> None:
        super().__init__()
        self.functions = hush()
        self.rng = torch.get_rng_state()
        self.tracing = torch._C._autograd._saved_tensors_hooks_set_tracing(True)

    def restore(self) -> None:
        super().restore()
        _C._set_torch_function_state(self.functions)
        torch.set_rng_state(self.rng)
        torch._C._autograd._saved_tensors_hooks_set_tracing(self.tracing)


def hush() -> Any:
    """Asks no class of tensors for its `__torch_function__` any more; answers with the state before."""
    before = _C._get_torch_function_state()
    if before == _C._TorchFunctionState.ENABLED:
        _C._set_torch_function_state(_C._TorchFunctionState.SUBCLASSES_DISABLED)
    return before


def hushed(graph: Callable[..., Any]) -> Callable[..., Any]:
    """A graph, or what else looks at tensors of the program's classes, that takes them for plain ones."""

    @functools.wraps(graph)
    def run(*args: Any) -> Any:
        before = hush()
        try:
            return graph(*args)
        finally:
            _C._set_torch_function_state(before)

    return run


class _Thread(threading.local):
    def __init__(self) -> None:
        self.guards: list[Any] = []


_thread = _Thread()


def enter_inference(mode: bool) -> None:
    """Switches inference mode until the matching `leave_inference`."""
    _thread.guards.append(_enter_inference_mode(mode))


def leave_inference() -> None:
    _exit_inference_mode(_thread.guards.pop())


def enter_device(device: torch.device) -> None:
    """Makes it the default device until `leave_device`."""
    device.__enter__()


def leave_device() -> None:
    torch.device("cpu").__exit__(None, None, None)  # of whichever was entered last


def restoring(graph: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that switches state: if it fails in between, the state is as the user's `with` would leave it."""

    def run(*args: Any) -> Any:
        state = TorchState()
        try:
            return graph(*args)
        except BaseException:
            state.restore()
            raise

    return run
