"""Random operations of a program, told apart by the states of the generators that they draw from.

Nothing advances a generator while a program is traced. Here every random operation does: it leaves a state that stands
for so many operations. A program that puts an earlier state back, as `torch.utils.checkpoint` does before it runs a
function again, says by this which numbers it wants once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
#: The seed that stands for no operation; nobody else's.
_FIRST = 0x2F0C_6A51_93D4_0000


class Reseeded(Exception):
    """A generator has a state that no random operation left."""

    def __init__(self) -> None:
        super().__init__("the state of random numbers is set")


class Draws:
    """What each random operation of a program drew, while `counting`."""

    def __init__(self) -> None:
        self._known: dict[tuple[torch.Generator, int], tuple[Any, list[Any]]] = {}
        self._counts: dict[torch.Generator, int] = {}
        self._last: tuple[torch.Generator, int] | None = None
        self._states: dict[torch.Generator, torch.Tensor] = {}  # while counting: those that are put back

    @contextmanager
    def counting(self) -> Iterator[None]:
        """The default generators count operations inside; afterwards their states are as before."""
        self._states = {generator: generator.get_state() for generator in _generators()}
        for generator in self._states:
            self._counts.setdefault(generator, 0)
            generator.manual_seed(_FIRST + self._counts[generator])
        try:
            yield
        finally:
            for generator, state in self._states.items():
                generator.set_state(state)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """While counting: numbers are drawn inside that nobody counts."""
        counted = {generator: generator.get_state() for generator in self._states}
        for generator, state in self._states.items():
            generator.set_state(state)
        try:
            yield
        finally:
            self._states = {generator: generator.get_state() for generator in counted}
            for generator, state in counted.items():
                generator.set_state(state)

    def again(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """What the operation under way has drawn before. None for a new one, of which `keep` is to be told.

        Raises Reseeded.
        """
        generator = _generator(args, kwargs)
        self._last = None
        if generator not in self._counts:
            return None
        at = generator.initial_seed() - _FIRST
        if not 0 <= at <= self._counts[generator]:
            raise Reseeded
        self._last = generator, at
        self._counts[generator] = max(self._counts[generator], at + 1)
        generator.manual_seed(_FIRST + at + 1)
        known, numbers = self._known.get(self._last, (func, None))
        if known is not func:
            raise Reseeded
        return numbers

    def keep(self, func: Any, numbers: list[Any]) -> None:
        """What the operation drew that was asked for last."""
        if self._last is not None:
            self._known[self._last] = func, numbers

    def check(self) -> None:
        """Raises Reseeded if a state is not that which the last operation left."""
        if any(generator.initial_seed() != _FIRST + count for generator, count in self._counts.items()):
            raise Reseeded


def _generators() -> list[torch.Generator]:
    """The default generators that are there."""
    cuda = torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing()
    return [torch.default_generator, *(torch.cuda.default_generators if cuda else ())]


def _generator(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The generator that an operation draws from."""
    leaves = tree_leaves((args, kwargs))
    given = next((leaf for leaf in leaves if isinstance(leaf, torch.Generator)), None)
    if given is not None:
        return given
    devices = (leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor))
    device = next(devices, torch.device(kwargs.get("device") or "cpu"))
    if device.type != "cuda":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


def _chosen(tensor: torch.Tensor, p: Any = 0.5, *, generator: torch.Generator | None = None) -> Any:
    """A quarter of float32's memory is drawn, and kept for the backward. The numbers of a CPU are the same for all
    dtypes, in the order of memory."""
    is_float = tensor.device.type == "cpu" and tensor.is_floating_point()
    if not is_float or not is_non_overlapping_and_dense_or_false(tensor):
        return NotImplemented
    drawn = torch.empty_like(tensor, dtype=torch.bool).bernoulli_(p, generator=generator)
    return aten._to_copy.out(drawn, out=tensor)  # a copy into it would seem to depend on what it was


#: For compilers that fuse the conversion with what reads it: zeros and ones are drawn as bools.
AS_BOOLS = {aten.bernoulli_.float: _chosen}
