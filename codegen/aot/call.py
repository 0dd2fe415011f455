"""How a program is called: stand-ins for its arguments, and its arguments from what comes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from codegen.aot.inputs import (
    Shared,
    base_of,
    claims,
    counters,
    is_fragile,
    joined,
    made_like,
    may_claim,
    member,
    placed,
    stand_in,
    stand_in_again,
)
from codegen.aot.numbers import Varying
from codegen.aot.recorder import NUMBERS
from symbolic.fakes import FakeMode
from symbolic.shapes import Environment


@dataclass(frozen=True)
class Call:
    """How a program is called: stand-ins or constants by position, and the groups of inputs that share written memory
    with a stand-in for each group's base, all as they are before the program runs. `again` says which positions have
    the tensor of an earlier position, and `counters` which members of flat groups count their writes together with an
    earlier one; `differentiated` are those of them that get gradients of their own, `fragile` inputs that autograd lets
    nobody write, `claimants` those that say they require a gradient and get none; `as_made`: stand-ins of these
    are such views, too."""

    fake_mode: FakeTensorMode
    args: tuple[Any, ...]
    groups: tuple[Shared, ...] = ()
    bases: tuple[torch.Tensor, ...] = ()
    fragile: frozenset[int] = frozenset()
    viewed: frozenset[int] = frozenset()
    claimants: frozenset[int] = frozenset()
    as_made: bool = False
    again: Mapping[int, int] = field(default_factory=dict)
    counters: Mapping[int, int] = field(default_factory=dict)
    differentiated: frozenset[int] = frozenset()

    @property
    def parameters(self) -> tuple[int, ...]:
        members = {*self.again, *(i for group in self.groups for i in group.members)} - self.differentiated
        varying = (torch.Tensor, *NUMBERS, Varying)
        return tuple(i for i, a in enumerate(self.args) if isinstance(a, varying) and i not in members)


def describe(
    args: Sequence[Any], groups: tuple[Shared, ...] = (), as_made: bool = False, sizes: Environment | None = None
) -> Call:
    """Stand-ins for real arguments (or for fakes, all of one mode): in a mode that knows such `sizes`. Raises
    Untraceable for unusual tensors."""
    mode = next((a.fake_mode for a in args if isinstance(a, FakeTensor)), None)
    mode = mode or FakeMode(allow_non_fake_inputs=True, shape_env=sizes)
    fakes = [stand_in(mode, a, fragile=as_made) if isinstance(a, torch.Tensor) else a for a in args]
    counted = counters(groups, list(args))
    for i, at in counted.items():
        fakes[i] = stand_in(mode, args[i], fakes[at], as_made)
    bases = tuple(stand_in(mode, base_of(group, list(args))) for group in groups)
    fragile = frozenset(i for i, a in enumerate(args) if is_fragile(a))
    bases_of_others = {id(a._base) for a in args if isinstance(a, torch.Tensor) and not a.is_inference()}
    viewed = frozenset(i for i, a in enumerate(args) if id(a) in bases_of_others - {id(None)})
    claimants = frozenset(i for i, a in enumerate(args) if (claims if as_made else may_claim)(a))
    first: dict[int, int] = {}
    tensors = ((i, a) for i, a in enumerate(args) if isinstance(a, torch.Tensor))
    again = {i: at for i, a in tensors if (at := first.setdefault(id(a), i)) != i}
    differentiated = frozenset(i for g in groups if g.flat for i in g.members if args[i].requires_grad)
    return Call(mode, tuple(fakes), groups, bases, fragile, viewed, claimants, as_made, again, counted, differentiated)


def fresh(call: Call) -> Call:
    """The call with stand-ins that a program may change."""
    args = tuple(
        stand_in_again(call.fake_mode, a, call.as_made) if isinstance(a, torch.Tensor) else a for a in call.args
    )
    return replace(call, args=args, bases=tuple(stand_in_again(call.fake_mode, base) for base in call.bases))


def flat_arguments(
    call: Call, parameters: Sequence[Any], bases: Sequence[torch.Tensor], members: Sequence[Any] | None = None
) -> list[Any]:
    """The program's arguments from what comes in: members of groups become views of their base, those of flat groups
    only where they are not given as `members` (by position)."""
    flat = list(call.args)
    for i, value in zip(call.parameters, parameters, strict=True):
        flat[i] = value
    for group, base, known in zip(call.groups, bases, call.bases, strict=True):
        for i in group.members:
            like = call.args[i]
            if i == group.base:
                flat[i] = base
            elif not group.flat:
                with torch.set_grad_enabled(not (call.as_made and i in call.claimants)):
                    flat[i] = member(base, known, like)
                flat[i] = made_like(flat[i], like) if call.as_made else flat[i]
            elif members is not None:
                flat[i] = members[i]
            else:
                made = placed(flat[call.counters[i]] if i in call.counters else base.data, like)
                with torch.enable_grad():
                    flat[i] = joined(flat[i], made) if i in call.differentiated else made
    for i, at in call.again.items():
        flat[i] = flat[at]
    return flat


