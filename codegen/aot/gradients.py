"""A backward as a program of what the forward started from, for derivatives of derivatives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge
from torch.utils._python_dispatch import TorchDispatchMode

from codegen import _C
from codegen.aot.call import Call, flat_arguments
from codegen.aot.draws import Draws
from codegen.aot.facts import Base, BaseOf, Input, Level, OutputOf, Place, Traced
from codegen.aot.inputs import claimant, copied
from codegen.aot.levels import Seen, edge_of, survey
from codegen.aot.mutations import RENAMED, count_drawn, refill
from codegen.aot.quiet import unsaved
from codegen.aot.trace import Decompositions, Program
from symbolic.torch_state import TorchState


def _alias(value: Any) -> Any:
    tracked = isinstance(value, torch.Tensor) and value.requires_grad
    return torch.ops.aten.alias.default(value) if tracked else value


@dataclass(frozen=True)
class Gradients:
    """(primals, random numbers, cuts, outputs, defined tangents) -> a level's needed gradients, None for the others.

    Derivatives of these end at the cuts and the outputs themselves where eager autograd's do. Of the outputs only
    histories are looked at."""

    program: Program
    call: Call
    traced: Traced
    number: int  # of the level
    state: TorchState
    defined: tuple[bool, ...]
    needed: tuple[bool, ...]
    decompositions: Decompositions

    def __call__(self, *args: Any) -> list[Any]:
        call, traced = self.call, self.traced
        level = traced.levels[self.number]
        given = iter(args)

        def aliases(count: int) -> tuple[Any, ...]:
            """Gradients end at these: one of them may have been made of another."""
            with torch.enable_grad():
                return tuple(_alias(next(given)) for _ in range(count))

        primals = aliases(traced.num_primals)
        replay = _Replay([next(given) for _ in range(traced.num_randoms)], self.decompositions)
        cuts, beyond, foreign = map(aliases, (len(level.cuts), len(level.beyond), len(level.foreign)))
        outputs = aliases(len(level.outputs))
        with under(self.state), torch.enable_grad(), replay.draws.counting(), replay:
            parameters, bases = self._copies(primals)
            flat = flat_arguments(call, parameters, bases)
            starts = [*(flat[i] for i in call.parameters), *bases]
            edges = list(map(_edge, starts))
            with unsaved() if traced.redrawn else nullcontext():  # else they would run again when `replay` is over
                results = list(self.program(*flat))
            seen = [
                Seen(place, _at(place, flat, bases, results), at if is_carrier else None)
                for at, (place, is_carrier) in enumerate(traced.seen)
            ]
        inputs = {at: edge for at, edge in enumerate(edges) if edge is not None}
        with replay.draws.counting(), replay:  # parts of the program may run again
            gradients = self._taken(level, primals, inputs, (*cuts, *beyond, *foreign), outputs, seen, tuple(given))
        leaves = {at: starts[at] for at in inputs if starts[at].is_leaf and starts[at].requires_grad}
        _C.graft((*leaves.values(),), tuple(primals[at] for at in leaves), (), ())  # what was saved of them is unpacked
        return gradients

    def _copies(self, primals: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """The parameters and the bases, as copies where the program writes; leaves where it says that these shall
        require no gradient."""
        call, switched = self.call, self.traced.switched
        written = {update.target for update in self.traced.updates}

        def copy(place: Input | Base, value: Any, known: Any) -> Any:
            made = value if isinstance(place, Input) and place not in written else copied(value, self.traced.by_place)
            if call.as_made and isinstance(place, Input) and place.index in call.claimants:
                return claimant(made)
            is_own = place in switched and known.is_leaf and known.requires_grad
            return made.detach().requires_grad_() if is_own else made

        parameters = zip(call.parameters, primals, strict=False)
        bases = zip(call.bases, primals[len(call.parameters) :], strict=True)
        return (
            [copy(Input(i), value, call.args[i]) for i, value in parameters],
            [copy(Base(number), value, known) for number, (known, value) in enumerate(bases)],
        )

    def _taken(
        self, level: Level, primals: tuple[Any, ...], inputs: dict[int, GradientEdge], below: tuple[torch.Tensor, ...],
        outputs: tuple[torch.Tensor, ...], seen: list[Seen], tangents: tuple[torch.Tensor, ...],
    ) -> list[Any]:
        part = survey(seen, inputs).parts[self.number]
        tensors = [each.tensor for each in (*part.cuts.values(), *part.beyond.values())]
        made, ends = (*part.carriers, *part.links), tuple(inputs.values())
        _C.graft((*tensors, *part.foreign), below, (*made, *part.foreign), ends)
        sources: list[Any] = [*(inputs[at] for at in level.inputs), *below[: len(level.cuts)], *below[len(tensors) :]]
        gradients = torch.autograd.grad(
            [GradientEdge(*edge) for edge, is_defined in zip(made, self.defined, strict=True) if is_defined],
            [source for source, is_needed in zip(sources, self.needed, strict=True) if is_needed],
            tangents, create_graph=True, allow_unused=True,
        )
        # What of them was made of the level's own results is made of those that the caller holds; so of the inputs.
        edges, others = (*made, *ends), (*outputs, *(primals[at] for at in inputs))
        _C.graft(edges, others, tuple(g for g in gradients if g is not None), below)
        found = iter(gradients)
        return [next(found) if is_needed else None for is_needed in self.needed]


def _edge(value: Any) -> GradientEdge | None:
    return edge_of(value) if isinstance(value, torch.Tensor) else None


def _at(place: Place, flat: Sequence[Any], bases: Sequence[Any], results: Sequence[Any]) -> torch.Tensor:
    match place:
        case Input(index):
            return flat[index]
        case Base(index):
            return bases[index]
        case OutputOf(output):
            return results[output]
        case BaseOf(output):
            base = results[output]._base
            return results[output] if base is None else base
    raise TypeError(place)


class _Replay(TorchDispatchMode):
    """While `counting`, random operations give these numbers instead of new ones, as often as they are asked for."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in the recorder

    def __init__(self, numbers: Sequence[torch.Tensor], decompositions: Decompositions) -> None:
        super().__init__()
        self.numbers = deque(numbers)
        self.decompositions = {**RENAMED, **decompositions}
        self.draws = Draws()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        if func in self.decompositions:  # the numbers are those of its parts
            with self:
                result = self.decompositions[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        numbers = self.draws.again(func, args, kwargs)
        if numbers is None:
            if not self.numbers:  # a backward draws some of its own
                with self.draws.drawing():
                    return func(*args, **kwargs)
            numbers = [self.numbers.popleft() for _ in range(count_drawn(func, args, kwargs))]
            self.draws.keep(func, numbers)
        return refill(func, args, kwargs, iter(numbers))


@contextmanager
def under(state: TorchState) -> Iterator[None]:
    """Torch's state of this thread as it was when `state` was taken."""
    now = TorchState()
    state.restore()
    try:
        yield
    finally:
        now.restore()
