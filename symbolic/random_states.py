"""The state of torch's default generator, read and set by operations that stand in graphs among those that draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import has_side_effect

#: Where they are defined; it must live as long as they do.
_LIBRARY = torch.library.Library("framejit", "FRAGMENT")


def _operation(schema: str, run: Callable[..., Any], stand_in: Callable[..., Any]) -> Any:
    """An operation that counts as a random one: it keeps its place among those, and runs as often as it is written."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.nondeterministic_seeded,))
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"framejit::{name}", stand_in, lib=_LIBRARY)
    return has_side_effect(getattr(torch.ops.framejit, name).default)


def _state() -> torch.Tensor:
    return torch.empty(torch.default_generator.get_state().shape, dtype=torch.uint8, device="cpu")


def _set_state(state: torch.Tensor) -> None:
    torch.default_generator.set_state(state)


def _seed_one(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


def _seed_all(seed: int) -> None:
    torch.manual_seed(seed)


#: `torch.get_rng_state()`
get_state = _operation("get_rng_state() -> Tensor", torch.default_generator.get_state, _state)
#: `torch.set_rng_state(state)`
set_state = _operation("set_rng_state(Tensor state) -> ()", _set_state, lambda state: None)
#: `torch.default_generator.manual_seed(seed)`
seed_one = _operation("default_manual_seed(int seed) -> ()", _seed_one, lambda seed: None)
#: `torch.manual_seed(seed)`
seed_all = _operation("manual_seed(int seed) -> ()", _seed_all, lambda seed: None)
