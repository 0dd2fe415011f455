"""What a program has left on tensors for autograd, and what of it a graph can't hold."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.hooks import RemovableHandle

from codegen.aot.inputs import answers
from codegen.aot.recorder import Untraceable
from symbolic.code import Inst, decode

_CONTAINERS = (list, dict, set, deque, bytearray)
#: Methods that change a container.
_CHANGES = frozenset("""append appendleft extend insert add update setdefault pop popleft popitem remove discard clear
    sort reverse __setitem__""".split())
_SPEAKS = (print, open, input, exec, eval)


def check(seen: Iterable[Any], others: Iterable[torch.Tensor]) -> None:
    """Refuses programs that leave a note on what the caller sees, as it would be on a stand-in, and hooks on `others`
    that do more than change the gradient, as far as their code tells: they run once, when they are traced."""
    for value in seen:
        if isinstance(value, RemovableHandle):
            raise Untraceable("the handle of a hook is returned")
        if isinstance(value, FakeTensor) and value.requires_grad and not torch.is_inference_mode_enabled():
            if value._backward_hooks or value._post_accumulate_grad_hooks:
                raise Untraceable("a hook on an input or a result")
            if value.retains_grad or (answers(value) and value.is_leaf and value.grad is not None):
                raise Untraceable("a gradient kept by an input or a result")
    for tensor in others:
        hooks: dict[int, Callable[..., Any]] = tensor._backward_hooks or {}
        if any(map(_does_more, hooks.values())):
            raise Untraceable("a hook that does more than change the gradient")


def _does_more(hook: Any) -> bool:
    """Whether it writes to what it did not make, or to the world."""
    if not isinstance(hook, FunctionType):  # a bound method
        function = getattr(hook, "__func__", None)
        return isinstance(getattr(hook, "__self__", None), _CONTAINERS) or (
            isinstance(function, FunctionType) and _does_more(function)
        )
    cells = dict(zip(hook.__code__.co_freevars, hook.__closure__ or (), strict=True))
    return any(_writes(hook, insts, at, cells) for insts in _codes(hook.__code__) for at in range(len(insts)))


def _codes(code: CodeType) -> Iterator[list[Inst]]:
    yield decode(code).insts
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _writes(hook: FunctionType, insts: list[Inst], at: int, cells: dict[str, Any]) -> bool:
    inst = insts[at]
    if inst.op in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"):
        return True
    if inst.op in ("STORE_DEREF", "DELETE_DEREF"):
        return inst.argval in cells
    value: Any = None
    if inst.op == "LOAD_GLOBAL":
        value = hook.__globals__.get(inst.argval, getattr(builtins, inst.argval, None))
    elif inst.op == "LOAD_DEREF" and inst.argval in cells:
        value = cells[inst.argval].cell_contents
    if not isinstance(value, _CONTAINERS):
        return value in _SPEAKS if callable(value) else False
    after = insts[at + 1] if at + 1 < len(insts) else None
    is_changed = after is not None and after.op in ("LOAD_ATTR", "LOAD_METHOD") and after.argval in _CHANGES
    return is_changed or any(later.op in ("STORE_SUBSCR", "DELETE_SUBSCR") for later in insts[at + 1 : at + 4])
