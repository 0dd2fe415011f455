"""What the floors above hand down to a capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from symbolic.errors import Place
from symbolic.marks import Said


@dataclass(frozen=True)
class Options:
    """`unwrap` maps a type of the door (`Door`, ...) to the function that gives the variable behind it;
    `refuse(code, module name)` says why a
    code object must not be inlined (None: it may); `unhooked(tensor, payload)` says whether a guard of that kind holds;
    `break_everywhere` splits after every call; `dynamic` captures with
    symbols for the sizes of inputs; numbers at the paths in `varying` (`Source.pattern`) are inputs of the graph.
    `seen`: what earlier captures were made for, by path: numbers (their type: any), and sizes of tensors (None: any).
    What differs from that now is taken to differ from call to call. `said`: what the user says of parameters.
    `loop_limit`: operations that equal turns of one loop may add to the graph (0: any number); those in `long_loops`
    are not unrolled. `apart`: functions (file and first line) that are not inlined."""

    unroll_limit: int = 100_000
    inline_limit: int = 400
    loop_limit: int = 0
    long_loops: frozenset[Place] = frozenset()
    apart: frozenset[Place] = frozenset()
    step_limit: int = 1_000_000
    break_everywhere: bool = False
    repeat_operations: bool = True
    dynamic: bool = False
    varying: frozenset[str] = frozenset()
    seen: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    said: Mapping[str, Said] = field(default_factory=dict)
    unwrap: Mapping[type, Callable[..., Any]] = field(default_factory=dict)
    refuse: Callable[[CodeType, str | None], str | None] = lambda code, module: None
    unhooked: Callable[[torch.Tensor, bool], bool] = lambda tensor, but_for_its_own: True
