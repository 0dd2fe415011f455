"""The mode that stand-ins of tensors live in."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

aten = torch.ops.aten
_DEVICE = torch.ops.prim.device.default
#: Half of the operations that a compilation runs. They say no more of their result than its geometry.
_VIEWS = frozenset({
    aten.alias.default, aten.detach.default, aten.expand.default, aten.permute.default, aten.t.default,
    aten.slice.Tensor, aten.select.int, aten.transpose.int, aten.unsqueeze.default, aten.view.default,
})  # fmt: skip
#: Namespaces whose operations say if they draw random numbers.
_KNOWN = frozenset({"aten", "prim", "prims"})


class FakeMode(FakeTensorMode):
    """torch's, with less done around operations that need little. Counts operations that draw random numbers."""

    draws = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the handler below to keep its own compiler off."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE:
            (fake,) = args
            return torch.device("meta") if fake.fake_mode.in_kernel_invocation else fake.fake_device
        if func in _VIEWS and self.shape_env is None and not kwargs and self._is_plain(args[0]):
            with in_kernel_invocation_manager(self):
                view = func(*args)
            return FakeTensor(self, view, args[0].fake_device)
        if torch.Tag.nondeterministic_seeded in func.tags or func.namespace not in _KNOWN:
            self.draws += 1
        return self.dispatch(func, types, args, kwargs or {})

    def _is_plain(self, value: Any) -> bool:
        """Whether it is a stand-in of this mode, of which no elements are known."""
        is_own = type(value) is FakeTensor and value.fake_mode is self
        return is_own and value.constant is None and value.real_tensor is None and value.layout is torch.strided
