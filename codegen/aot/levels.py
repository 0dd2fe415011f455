"""Gradients of results that were made of one another, or of different inputs, one level of results after the other.

Where a program answers with y and with z made of y, eager autograd leads z's gradient through the y that the caller
holds: y's hooks see it, `retain_grad` shows it, `autograd.grad(z, y)` finds it. So each tensor that the caller can see
afterwards cuts the graph of derivatives: a level's results are made of the inputs, and of tensors that the levels below
gave. And a backward visits what its results lead to, with None where no gradient comes, and nothing else. So all
results of a level lead to the same; it has one autograd node.

Each operation is differentiated in one level, that of what all results above it lead to. Where a level above needs it,
too, a link leads there: an output of the lower node that nobody sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import compress, groupby, product
from operator import and_, or_
from typing import Any

import torch
from torch import fx
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._python_dispatch import _pop_mode_temporarily

from codegen import _C
from codegen.aot.facts import Carrier, Level, Link, LinkOf, Place, Raises
from codegen.aot.inputs import answers, born
from codegen.aot.order import arranged, arrivals
from codegen.aot.reach import Key, bottom_up, reach
from codegen.aot.recorder import Recorder, Untraceable, refusal
from codegen.aot.savers import find_savers

Pair = tuple[Key, torch.Tensor]  # an output with its tangent
Gradients = list[torch.Tensor | None]


@dataclass(frozen=True, eq=False)
class Seen:
    """A tensor with a gradient that the caller can see afterwards. `index` among the forward's results if its gradient
    comes back to the graph by that one; else autograd leads it on. `edge`: where the gradient goes, if that was known.
    """

    of: Place
    tensor: torch.Tensor
    index: int | None = None
    edge: GradientEdge | None = None


@dataclass(eq=False)
class Part:
    """A level of autograd's graph, by edges: what it gives, and where it ends. `beyond`: what is seen there that leads
    to it by links only, or by gradients of gradients."""

    carriers: list[Key]
    links: dict[Key, None] = field(default_factory=dict)  # what higher levels lead to
    inputs: dict[Key, int] = field(default_factory=dict)
    cuts: dict[Key, Seen] = field(default_factory=dict)
    foreign: dict[Key, int] = field(default_factory=dict)  # links of lower levels -> which level
    beyond: dict[Key, Seen] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """Autograd's graph of a program that ran, in levels. What is `seen` has the order in which it was made."""

    seen: Mapping[Key, Seen]
    parts: tuple[Part, ...]
    held: tuple[GradientEdge, ...]  # keeps its nodes alive


# --- what is there ----------------------------------------------------------------------------------------------------
def node_of(tensor: torch.Tensor) -> Any:
    """Its `grad_fn`, if autograd says so."""
    return tensor.grad_fn if answers(tensor) else None


def edge_of(tensor: torch.Tensor) -> GradientEdge | None:
    """Where its gradient goes; None for a tensor without one."""
    if not tensor.requires_grad or torch.is_inference_mode_enabled() or not answers(tensor):
        return None
    with torch.enable_grad():  # a leaf's node is found through a view of it
        if tensor.grad_fn is not None:
            return get_gradient_edge(tensor)
        with torch._C._DisableTorchDispatch() if _is_laid_out(tensor) else nullcontext():
            node = tensor.view_as(tensor).grad_fn
        leaf = None if node is None else node.next_functions[0][0]
    # None for a view made without grad: it says that it requires a gradient, and gets none.
    return None if leaf is None else GradientEdge(leaf, tensor.output_nr)


def _is_laid_out(tensor: torch.Tensor) -> bool:
    """Whether it takes no stand-in to tell how views of a stand-in lie in memory."""
    return tensor.device.type == "cpu" and not tensor._has_symbolic_sizes_strides and tensor.layout is torch.strided


def _key(edge: GradientEdge) -> Key:
    return edge.node, edge.output_nr


def survey(seen: Sequence[Seen], inputs: Mapping[int, GradientEdge]) -> Graph:
    """The graph between `inputs` (edges by position) and what is seen, in levels. It is the same one for a program
    that ran again."""
    ends = {_key(edge): at for at, edge in inputs.items()}
    found: dict[Key, Seen] = {}
    held = list(inputs.values())
    for each in seen:
        edge = each.edge or edge_of(each.tensor)
        if edge is not None and _key(edge) not in ends:
            found.setdefault(_key(edge), each)
            held.append(edge)
    found = dict(sorted(found.items(), key=lambda item: (item[0][0]._sequence_nr(), item[0][1])))
    carriers = [key for key, each in found.items() if each.index is not None]
    owners = _owners(carriers, found, ends)
    levels = range(1 + max(owners.values(), default=-1))
    parts = tuple(Part([key for key in carriers if owners[key[0]] == number]) for number in levels)
    for node, number in owners.items():
        part = parts[number]
        for key in node.next_functions:
            if key in ends:
                part.inputs[key] = ends[key]
            elif key in found:
                part.cuts[key] = found[key]
            elif key[0] is not None and owners[key[0]] != number:
                part.foreign[key] = owners[key[0]]
                parts[owners[key[0]]].links.setdefault(key)
    first = _first([node for part in parts for node, _ in part.foreign], ends, found)
    for part in parts:
        part.beyond.update(_beyond(part, first, found))
        # What was saved of an input before it came to require a gradient does so now, too.
        leaves = ((key, each) for key, each in found.items() if each.tensor.is_leaf and key not in part.cuts)
        part.beyond.update(leaves)
    return Graph(found, parts, tuple(held))


def _owners(carriers: Sequence[Key], seen: Mapping[Key, Seen], ends: Mapping[Key, int]) -> dict[Any, int]:
    """Of each node down to what is seen: its level, which is that of what all carriers above it lead to. Below a level
    are those that it leads to, and else older ones."""
    below, above = reach(carriers, {key: 1 << at for at, key in enumerate([*ends, *seen])}, ends)
    led = [below[node] for node, _ in carriers]
    common = {
        leading: reduce(and_, (goals for at, goals in enumerate(led) if leading >> at & 1))
        for leading in set(above.values())
    }
    goals = {node: common[leading] for node, leading in above.items()}
    ages: dict[int, int] = {}
    for node in sorted(goals, key=lambda node: goals[node].bit_count()):  # what it leads to leads to less
        lower = [ages[goals[key[0]]] for key in node.next_functions if key not in ends and key[0] in goals]
        ages[goals[node]] = max(ages.get(goals[node], 0), node._sequence_nr(), *lower)
    nodes = bottom_up([node for node, _ in carriers], {**ends, **seen})
    levels = sorted({goals[node] for node in nodes}, key=lambda goals: (ages[goals], goals.bit_count(), goals))
    numbers = {goals: number for number, goals in enumerate(levels)}
    return {node: numbers[goals[node]] for node in reversed(nodes)}


def _first(nodes: Iterable[Any], ends: Container[Key], seen: Mapping[Key, Seen]) -> dict[Any, int]:
    """Of these nodes, and those below, what is seen first below each, as bits."""
    bits = {key: 1 << at for at, key in enumerate(seen)}
    first: dict[Any, int] = {}
    for node in bottom_up(nodes, ends):
        keys = [key for key in node.next_functions if key[0] is not None and key not in ends]
        first[node] = reduce(or_, (bits[key] if key in bits else first[key[0]] for key in keys), 0)
    return first


def _beyond(part: Part, first: Mapping[Any, int], seen: Mapping[Key, Seen]) -> dict[Key, Seen]:
    found = reduce(or_, (first[node] for node, _ in part.foreign), 0)
    keys = compress(seen.items(), map(int, reversed(f"{found:b}")))
    return {key: each for key, each in keys if key not in part.cuts}


# --- what is recorded -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Again:
    """Which gradients are recorded a second time: the `needed` ones of one level, where only the `defined` ones of its
    outputs have tangents."""

    level: Level
    number: int
    defined: tuple[bool, ...]
    needed: tuple[bool, ...]


def differentiate(
    recorder: Recorder, graph: Graph, inputs: Mapping[int, GradientEdge], links: Sequence[Sequence[Link]],
    again: Again | None = None,
) -> tuple[tuple[Level, ...], list[fx.Node | None]]:
    """Records the gradients of all levels, the last one first: for each those of its inputs, of its cuts, and of the
    links it uses. `links`: what is known of those of each level. Raises Untraceable.
    """
    stops: dict[Key, torch.Tensor] = {}
    strides: dict[Key, tuple[Any, ...]] = {}  # of the gradients of links
    levels: list[Level] = []
    gradients: list[fx.Node | None] = []
    count = 0
    for number in reversed(range(len(graph.parts)) if again is None else [again.number]):
        part = graph.parts[number]
        below = [*part.cuts, *part.foreign]
        outputs = [*part.carriers, *part.links]
        with _pop_mode_temporarily():
            for key in part.links:
                if key not in strides:
                    strides[key] = plain_strides(_like(key))
            level = again.level if again else _level(graph, part, links[number], strides)
            for key in below:
                if key not in stops:
                    stops[key] = _stop(key)
            ends = [get_gradient_edge(stops[key]) for key in below]
            tangents = [_like(key, each.strides) for key, each in zip(outputs, level.outputs, strict=True)]
        _C.graft(tuple(below), tuple(ends), tuple(outputs), ())
        for tangent in tangents:
            count += 1
            recorder.add_input(f"tangents_{count}", tangent)
        later = {at for lower in graph.parts[:number] for at in lower.inputs.values()}
        edges = [*(inputs[at] for at in level.inputs), *ends]
        pairs = list(zip(outputs, tangents, strict=True))
        recorder.applied.clear()
        with arrivals({at: inputs[at] for at in level.inputs}) as arrived:
            try:
                found = _gradients(pairs, edges, again)
                level, found = (level, found) if again else _in_order(level, found, arrived, later)
            except Lost:
                if again:
                    raise
                level = replace(level, raises=_raises(pairs, edges))
                found = _gradients_apart(pairs, edges, level.raises)
        goals = [_key(edge) for edge in [*(inputs[at] for at in level.inputs), *ends]]
        if not again:
            leads, savers, keeps = find_savers(outputs, goals, recorder.applied)
            level = replace(level, leads=leads, savers=savers, keeps=keeps)
        levels.append(level)
        for key, gradient in zip(part.foreign, found[len(found) - len(part.foreign) :], strict=True):
            if gradient is not None:
                strides.setdefault(key, plain_strides(gradient))
        gradients += [None if each is None else recorder.read(each) for each in _apart(found, edges)]
    return tuple(reversed(levels)), gradients


def _apart(found: Gradients, edges: Sequence[GradientEdge]) -> Gradients:
    """The same, copied where AccumulateGrad copies: it takes over what nobody else has. A view of a gradient, for
    another tensor, has that one; in the compiled program it may be no view of it, but show the same memory."""
    shown = Counter(memory for memory, _ in {(_memory(each), id(each)) for each in found if each is not None})
    return [
        each if each is None or each._is_view() or shown[_memory(each)] == 1 or not _is_leafs(edge) else each.clone()
        for each, edge in zip(found, edges, strict=True)
    ]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_leafs(edge: GradientEdge) -> bool:
    return hasattr(edge.node, "variable")


def _level(graph: Graph, part: Part, links: Sequence[Link], strides: Mapping[Key, tuple[Any, ...]]) -> Level:
    seen = [graph.seen[key] for key in part.carriers]
    nodes = tuple(len(list(keys)) for _, keys in groupby(node for node, _ in part.carriers))
    are_several = len({node for node, _ in (*part.carriers, *part.links)}) > 1
    return Level(
        tuple(Carrier(each.index, each.of, plain_strides(each.tensor)) for each in seen if each.index is not None),
        tuple(replace(link, strides=strides[key]) for key, link in zip(part.links, links, strict=True)),
        tuple(sorted(part.inputs.values())),
        tuple(each.of for each in part.cuts.values()),
        tuple(LinkOf(level, list(graph.parts[level].links).index(key)) for key, level in part.foreign.items()),
        tuple(each.of for each in part.beyond.values()),
        nodes if are_several else (),
    )


def _in_order(
    level: Level, found: Gradients, arrived: Sequence[int], later: Container[int]
) -> tuple[Level, Gradients]:
    """The level with the edges of its leaves in the order in which they are to be reached, those last that wait for
    `later` levels, where these are run; with its gradients."""
    first, waiting = ([at for at in arrived if (at in later) is is_later] for is_later in (False, True))
    rest = [at for at in level.inputs if at not in arrived]
    others = sum(at not in later for at in rest) + bool(level.cuts or level.foreign)
    order = [*arranged(first, others), *rest, *arranged(waiting, 0)]
    gradients = dict(zip(level.inputs, found, strict=False))
    return replace(level, inputs=tuple(order)), [*map(gradients.__getitem__, order), *found[len(order) :]]


def _gradients(pairs: Sequence[Pair], edges: Sequence[GradientEdge], again: Again | None = None) -> Gradients:
    """Raises Lost and Untraceable."""
    defined = again.defined if again else (True,) * len(pairs)
    needed = again.needed if again else (True,) * len(edges)
    chosen, ends = list(compress(pairs, defined)), list(compress(edges, needed))
    if not chosen or not ends:
        return [None] * len(edges)
    try:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            found = torch.autograd.grad(
                [GradientEdge(*key) for key, _ in chosen], ends, [tangent for _, tangent in chosen],
                allow_unused=True, retain_graph=True,
            )
    except Exception as error:
        if str(error).startswith(_LOST):
            raise Lost(str(error)) from error
        raise refusal(error) or Untraceable(f"a backward that raises: {error}") from error
    gradients = iter(found)
    return [next(gradients) if is_needed else None for is_needed in needed]


# --- what some gradients need and is not there any more ---------------------------------------------------------------
#: How autograd begins to say that a saved value was written, or freed.
_LOST = (
    "one of the variables needed for gradient computation has been modified by an inplace operation",
    "Trying to backward through the graph a second time",
)


class Lost(Untraceable):
    """A gradient that raises in eager code, too. Others of its level may be fine."""


def _raises(pairs: Sequence[Pair], edges: Sequence[GradientEdge]) -> tuple[Raises, ...]:
    found = []
    with _pop_mode_temporarily():
        for (at, pair), (number, edge) in product(enumerate(pairs), enumerate(edges)):
            try:
                _gradients([pair], [edge])
            except Lost as error:
                found.append(Raises(at, number, str(error)))
    return tuple(found)


def _gradients_apart(
    pairs: Sequence[Pair], edges: Sequence[GradientEdge], raises: Sequence[Raises]
) -> Gradients:
    """Each gradient for those tangents for which it does not raise."""
    lost = {(each.output, each.gradient) for each in raises}
    fine = [tuple((at, number) not in lost for at in range(len(pairs))) for number in range(len(edges))]
    found: Gradients = [None] * len(edges)
    for defined in dict.fromkeys(fine):
        alike = [number for number, each in enumerate(fine) if each == defined]
        gradients = _gradients(list(compress(pairs, defined)), [edges[number] for number in alike])
        for number, gradient in zip(alike, gradients, strict=True):
            found[number] = gradient
    return found


def _like(key: Key, strides: tuple[Any, ...] | None = None) -> torch.Tensor:
    """A tensor as one that has this edge."""
    metadata = key[0]._input_metadata[key[1]]
    if strides is None:
        return torch.empty(tuple(metadata.shape), dtype=metadata.dtype, device=metadata.device)
    return torch.empty_strided(tuple(metadata.shape), strides, dtype=metadata.dtype, device=metadata.device)


def _stop(key: Key) -> torch.Tensor:
    with torch.enable_grad():
        return born(_like(key))


def plain_strides(fake: torch.Tensor) -> tuple[Any, ...]:
    """Strides that a tangent is brought to: those of the tensor itself where they are known and leave no gaps."""
    strides = tuple(fake.stride())
    static = all(isinstance(n, int) for n in (*fake.shape, *strides))
    if static and is_non_overlapping_and_dense_or_false(fake):
        return strides
    made = [1]
    for size in reversed(fake.shape[1:]):
        made.append(made[-1] * (size if not isinstance(size, int) else max(size, 1)))
    return tuple(reversed(made)) if fake.dim() else ()
