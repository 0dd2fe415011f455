"""Gradients of results that were made of one another, one level of results after the other.

Where a program answers with y and with z made of y, eager autograd leads z's gradient through the y that the caller
holds: y's hooks see it, `retain_grad` shows it, `autograd.grad(z, y)` finds it. So each tensor that the caller can see
afterwards cuts the graph of derivatives, and results with cuts between them get autograd nodes of their own: a level's
results are made of the inputs, and of tensors that the levels below gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import torch
from torch import fx
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._python_dispatch import _pop_mode_temporarily

from codegen import _C
from codegen.aot.facts import Carrier, Level, Place
from codegen.aot.inputs import born
from codegen.aot.recorder import Recorder, Untraceable, refusal

Key = tuple[Any, int]  # of an edge: its node, and the number there


@dataclass(frozen=True, eq=False)
class Seen:
    """A stand-in with a gradient whose tensor the caller can see afterwards. `index` among the forward's results if its
    gradient comes back to the graph by that one; else autograd leads it on."""

    of: Place
    fake: torch.Tensor
    index: int | None = None


@dataclass(frozen=True, eq=False)
class _Cut:
    seen: Seen
    edge: GradientEdge  # to what it was made of
    end: GradientEdge  # to it, where it was used
    reached: frozenset[Key]  # the nearest inputs and ends


def differentiate(
    recorder: Recorder, seen: Sequence[Seen], inputs: Mapping[int, GradientEdge],
    only: tuple[int, tuple[bool, ...]] | None = None,
) -> tuple[tuple[Level, ...], list[fx.Node | None]]:
    """Records the gradients of all levels, one after the other: for each first those of its inputs, then of its cuts.

    `inputs`: the edges of placeholders, by position. `only`: a level, and which of its carriers have a gradient; there
    are no others then. Stand-ins have another history afterwards. Raises Untraceable.
    """
    cuts = _cuts(seen, inputs)
    members = _levels(cuts)
    tangents = _tangents(recorder, [cut.seen.fake for level in members for cut in level])
    places = {_key(edge): at for at, edge in inputs.items()}
    levels: list[Level] = []
    gradients: list[fx.Node | None] = []
    for number, level in enumerate(members):
        reached = frozenset[Key]().union(*(cut.reached for cut in level))
        used = tuple(sorted(places[key] for key in reached if key in places))
        below = [cut for cut in cuts.values() if _key(cut.end) in reached]
        given = [next(tangents) for _ in level]
        carriers = tuple(
            Carrier(cut.seen.index, cut.seen.of, tuple(tangent.stride()))
            for cut, tangent in zip(level, given, strict=True) if cut.seen.index is not None
        )
        levels.append(Level(carriers, used, tuple(cut.seen.of for cut in below)))
        if only is None or only[0] == number:
            defined = (True,) * len(level) if only is None else only[1]
            chosen = [(cut.edge, tangent) for cut, tangent, wanted in zip(level, given, defined, strict=True) if wanted]
            gradients += _gradients(recorder, chosen, [*(inputs[at] for at in used), *(cut.end for cut in below)])
    return tuple(levels), gradients


def _gradients(
    recorder: Recorder, chosen: Sequence[tuple[GradientEdge, torch.Tensor]], edges: Sequence[GradientEdge]
) -> list[fx.Node | None]:
    if not edges:
        return []
    try:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            found = torch.autograd.grad(
                [edge for edge, _ in chosen], edges, [tangent for _, tangent in chosen],
                allow_unused=True, retain_graph=True,
            )
    except Exception as error:  # parts of it may still be fine: autograd finds out which gradients are asked for
        raise refusal(error) or Untraceable(f"a backward that raises: {error}") from error
    return [None if gradient is None else recorder.read(gradient) for gradient in found]


def _tangents(recorder: Recorder, fakes: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    made = []
    for number, fake in enumerate(fakes):
        with _pop_mode_temporarily():
            tangent = torch.empty_strided(fake.shape, tangent_strides(fake), dtype=fake.dtype, device=fake.device)
        recorder.add_input(f"tangents_{number + 1}", tangent)
        made.append(tangent)
    return iter(made)


def tangent_strides(fake: torch.Tensor) -> tuple[Any, ...]:
    """Strides that a tangent is brought to: those of the result itself where they are known and leave no gaps."""
    strides = tuple(fake.stride())
    static = all(isinstance(n, int) for n in (*fake.shape, *strides))
    if static and is_non_overlapping_and_dense_or_false(fake):
        return strides
    made = [1]
    for size in reversed(fake.shape[1:]):
        made.append(made[-1] * (size if not isinstance(size, int) else max(size, 1)))
    return tuple(reversed(made)) if fake.dim() else ()


# --- cuts -------------------------------------------------------------------------------------------------------------
def edge_of(fake: torch.Tensor) -> GradientEdge | None:
    """Where its gradient goes; None for a tensor without one."""
    if not fake.requires_grad or torch.is_inference_mode_enabled():
        return None
    with torch.enable_grad():  # a leaf's node is found through a view of it
        node = fake.grad_fn or fake.view_as(fake).grad_fn
        if node is None or fake.grad_fn is None and node.next_functions[0][0] is None:
            return None  # a view made without grad: it says that it requires a gradient, and gets none
        return get_gradient_edge(fake)


def _key(edge: GradientEdge) -> Key:
    return edge.node, edge.output_nr


def _cuts(seen: Sequence[Seen], inputs: Mapping[int, GradientEdge]) -> dict[Key, _Cut]:
    """By the edges of what is seen, inputs as they came left out; whatever was made of a cut now ends there."""
    untouched = {_key(edge) for edge in inputs.values()}
    found: dict[Key, tuple[Seen, GradientEdge]] = {}
    for each in seen:
        edge = edge_of(each.fake)
        if edge is not None and _key(edge) not in untouched:
            found.setdefault(_key(edge), (each, edge))
    fakes = tuple(each.fake for each, _ in found.values())
    with _pop_mode_temporarily():
        stops = tuple(map(_stop, fakes))
        ends = list(map(get_gradient_edge, stops))
    _C.graft(fakes, stops, fakes, ())
    targets = untouched.union(map(_key, ends))
    return {
        key: _Cut(each, edge, end, _reached(edge, targets))
        for (key, (each, edge)), end in zip(found.items(), ends, strict=True)
    }


def _stop(fake: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return born(torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device))


def _levels(cuts: Mapping[Key, _Cut]) -> list[list[_Cut]]:
    """The cuts that are carriers, by level."""
    keys = {_key(cut.end): key for key, cut in cuts.items()}
    below = {key: [keys[end] for end in cut.reached if end in keys] for key, cut in cuts.items()}
    there: dict[Key, int] = {}  # after which level a cut is there; inputs are there before all
    for key in TopologicalSorter(below).static_order():
        there[key] = max((there[each] for each in below[key]), default=-1) + (cuts[key].seen.index is not None)
    levels: list[list[_Cut]] = [[] for _ in range(1 + max(there.values()))]
    for key, cut in cuts.items():
        if cut.seen.index is not None:
            levels[there[key]].append(cut)
    return levels


def _reached(start: GradientEdge, targets: set[Key]) -> frozenset[Key]:
    """The targets that a backward from this edge comes to."""
    found: set[Key] = set()
    expanded: set[Any] = set()
    waiting: list[Key] = [_key(start)]
    while waiting:
        place = waiting.pop()
        if place in targets:
            found.add(place)
        if place[0] not in expanded:
            expanded.add(place[0])
            waiting.extend((node, number) for node, number in place[0].next_functions if node is not None)
    return frozenset(found)
