"""Torch's operators on fakes of symbolic sizes.

Operators that are made of others run in C++, as in eager code. The forms that torch has of some in Python end in a view
or a copy, where that in C++ gives the tensor itself, or the reverse. Below autograd operators run in Python: there all
of them know what to do with symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

from symbolic.reworded import IN_OTHER_WORDS
from symbolic.shapes import PlainSizesAsked, ask_contiguous, usually

#: Functions made of operators that are made of others and take plain numbers alone in C++.
_IN_PYTHON = frozenset({"interpolate", "upsample", "istft"})
#: Operators made of others that give new memory and ask of sizes how to go about it: of one they need not know.
_NEW = frozenset({
    "linear", "matmul", "bilinear", "scaled_dot_product_attention", "conv1d", "conv2d", "conv3d", "layer_norm",
    "group_norm", "rms_norm", "softmax", "log_softmax", "cross_entropy_loss", "embedding", "dropout",
})  # fmt: skip
#: Those that give a view where they can: if they can for larger sizes, then for one.
_VIEWS_IF_POSSIBLE = frozenset({"contiguous", "reshape", "reshape_as", "flatten", "ravel"})


#: What the two tables speak of: names of methods, and functions that are not written in Python.
_NATIVE = (str, BuiltinFunctionType, MethodDescriptorType)

#: What an operator in C++ says that asks symbols for plain numbers.
_PLAIN_NUMBERS_ALONE = "on tensor with symbolic sizes/strides"


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


def run_with_symbols(
    name: str, target: Any, env: ShapeEnv, run: Callable[..., Any], args: Sequence[Any], kwargs: Any
) -> Any:
    """Runs `target`, a function or the name of a method, on such fakes, `with_symbols`."""
    try:
        return _run(name, target, env, run, args, kwargs)
    except RuntimeError as error:
        if not isinstance(error, PlainSizesAsked) and _PLAIN_NUMBERS_ALONE not in str(error):
            raise
    with enable_python_dispatcher():  # `matmul`, and what is made of it, before torch 2.13
        made = _run(name, target, env, run, args, kwargs)
    is_unlike = name in _NEW and isinstance(made, torch.Tensor) and made._is_view()
    return torch.ops.aten._unsafe_view(made, made.shape) if is_unlike else made


def _run(name: str, target: Any, env: ShapeEnv, run: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    if isinstance(target, BuiltinFunctionType) and target in IN_OTHER_WORDS:
        return IN_OTHER_WORDS[target](*args, **kwargs)
    if not isinstance(target, _NATIVE) or not args or not isinstance(args[0], torch.Tensor):
        return run(*args, **kwargs)
    # Of a size that turns out to be one the stride is not known: the stand-in has that of others.
    if name == "stride" and any([size == 1 and isinstance(size, torch.SymInt) for size in args[0].shape]):
        raise RuntimeError("a stride that leads nowhere: eager code may have another one")
    with usually(env) if name in _NEW or name in _VIEWS_IF_POSSIBLE else nullcontext():
        made = run(*args, **kwargs)
    if name not in _VIEWS_IF_POSSIBLE or made.untyped_storage()._cdata == args[0].untyped_storage()._cdata:
        return made
    if name == "contiguous" and len(args) == 1 and not kwargs:
        ask_contiguous(env, args[0])  # nothing else decides
        return made
    return run(*args, **kwargs)  # what is asked now, the copy depends on

