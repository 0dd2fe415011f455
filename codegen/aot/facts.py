"""What a trace found out, as plain data: where each result comes from and what happened to each input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from codegen.aot.inputs import Shared
from codegen.aot.views import BY_PLACE, Step


@dataclass(frozen=True)
class Value:
    """Result number `index` of the forward graph."""

    index: int


@dataclass(frozen=True)
class Input:
    """The input itself."""

    index: int


@dataclass(frozen=True)
class Base:
    """The base of a group of inputs that share memory."""

    index: int


@dataclass(frozen=True)
class Changed:
    """An input after the change of its metadata."""

    target: Input | Base


@dataclass(frozen=True)
class Data:
    """The `.data` of a tensor: it shares the memory and nothing else; or, `detached`, the writes that are counted, too.
    Several are told apart by their `number`."""

    of: Value | Input | Base | Changed | Data | View
    number: int
    detached: bool = False


@dataclass(frozen=True)
class Custom:
    """The history that a custom autograd function gave a view: that of a result. `made`: what autograd knows of how."""

    of: Value
    made: torch._C._autograd.CreationMeta


@dataclass(frozen=True)
class View:
    """`steps` replayed on `base`, which autograd sees where it is `tracked`; it may have another history than that."""

    base: Value | Input | Base | Changed | Data
    steps: tuple[Step, ...]
    tracked: bool
    history: Custom | None = None


@dataclass(frozen=True)
class Constant:
    """The same Python object at every call."""

    value: Any


Recipe = Value | Input | Base | Changed | View | Data | Constant


@dataclass(frozen=True)
class Update:
    """What happened to an input in place. `value` is copied into it (where autograd sees that, into what `steps` show
    of it); when the outputs are made its metadata change by `steps`.

    `data`: when the outputs are made, and before all else happens to it, it comes to lie where that tensor lies; where
    it lay, `left` is written.
    """

    target: Input | Base
    data: Recipe | None = None
    left: int | None = None
    by_set: bool = False  # `set_` lets it lie there, which counts as a write, not an assignment of `.data`
    ends: bool = False  # autograd sees that `set_`, and no gradient passes it
    steps: tuple[Step, ...] = ()
    value: int | None = None
    tracked: bool = False  # autograd sees the write
    detached: bool = False  # it ends as a leaf without gradient
    requires_grad: bool = False  # it ends as a leaf that requires one, which it did not
    versions: int = 0  # how often it counted a write
    counter: Input | None = None  # the earlier input that counts its writes together with it
    inside: bool = False  # the graph itself writes the value
    unseen: bool = False  # autograd, which would, does not see the `steps`
    keeps: bool = False  # a view whose gradient goes where results lead to, by the node that it had before the write

    @property
    def is_plain(self) -> bool:
        """Whether nothing has changed but what its memory holds."""
        moved = self.data is not None or self.by_set or self.steps
        return not (moved or self.tracked or self.detached or self.requires_grad)


@dataclass(frozen=True)
class Resized:
    """The storage of an input has another `size` at the end, in bytes."""

    target: Input | Base
    size: int
    grows: bool


@dataclass(frozen=True)
class Bump:
    """A new tensor that counted writes before it, or a view of it, was returned."""

    of: Value | Data
    versions: int


@dataclass(frozen=True)
class OutputOf:
    output: int


@dataclass(frozen=True)
class BaseOf:
    output: int

Place = Input | Base | OutputOf | BaseOf  # where a tensor of the program is when it ends


@dataclass(frozen=True)
class Carrier:
    """A result of the forward graph that gradients come back for.

    `index` is its number among the results; `of` says which of the program's tensors carries it when the program
    ends: an input, a base of inputs, an output (by position), or the base of a view that is an output.
    """

    index: int
    of: Place
    strides: tuple[Any, ...]  # of its tangent


@dataclass(frozen=True)
class Link:
    """An output of a level's node that nobody sees: results of other levels were made of it, too."""

    shape: tuple[Any, ...]  # of ints, and `Value`s where they vary
    dtype: torch.dtype
    device: torch.device
    strides: tuple[Any, ...] = ()  # of its tangent


@dataclass(frozen=True)
class LinkOf:
    level: int
    number: int


@dataclass(frozen=True)
class Raises:
    """A gradient (by number among a level's) that is a RuntimeError for the tangent of that output: something that was
    saved for it is not there any more."""

    output: int
    gradient: int
    message: str


@dataclass(frozen=True)
class Saver:
    """Nodes of eager autograd's graph that save something, by bits: the outputs of a level that lead to them, and its
    gradients that they lead to. `memories`: where what they saved lies (see `memory_of`)."""

    outputs: int
    gradients: int
    memories: frozenset[int]


@dataclass(frozen=True)
class Level:
    """Carriers that get their gradients from one autograd node, in the order in which eager autograd made theirs.

    Its gradients go to `inputs` (positions of placeholders) as they came, to `cuts`, which are tensors that the caller
    sees and the carriers were made of, and to `foreign` links. What these were made of that is seen is `beyond`; so is
    what only gradients of gradients go to. `nodes`: how many carriers, one after the other, each of eager autograd's
    nodes gave; () where it was one. `keeps`: some of those read what they keep in their own way, be it a second time.
    """

    carriers: tuple[Carrier, ...]
    links: tuple[Link, ...]
    inputs: tuple[int, ...]
    cuts: tuple[Place, ...]
    foreign: tuple[LinkOf, ...]
    beyond: tuple[Place, ...]
    nodes: tuple[int, ...]
    raises: tuple[Raises, ...] = ()
    leads: tuple[int, ...] = ()  # of each gradient: the outputs that lead to it, as bits
    savers: tuple[Saver, ...] = ()
    keeps: bool = False

    @property
    def outputs(self) -> tuple[Carrier | Link, ...]:
        """Of its node."""
        return (*self.carriers, *self.links)

    @property
    def held(self) -> tuple[Place, ...]:
        """Tensors that the caller sees, which derivatives of derivatives start from."""
        return (*self.cuts, *self.beyond)

    @property
    def num_gradients(self) -> int:
        return len(self.inputs) + len(self.cuts) + len(self.foreign)


@dataclass(frozen=True)
class Traced:
    """The joint graph with how it is called and what its results are for.

    Placeholders: inputs that are in no group and are numbers or tensors (`parameters`, by position), one base for each
    group, then for each level, the last one first, the tangents of its carriers and its links. Members of flat groups
    that get gradients are parameters as well, for the sake of these alone. Results: `num_forward` of the forward (at
    its end `num_sizes` sizes that vary and `num_randoms` random numbers), then the gradients of each level, the last
    one first. `seen`: all tensors with a gradient that the caller sees, and whether they are carriers. `made`: those of
    them that autograd has made nodes for, the oldest first. `switched`: the inputs of which the program says that they
    require no gradient, or one, be it for a while. `asked`: it has asked how tensors lie in their memory.
    """

    joint: fx.GraphModule
    parameters: tuple[int, ...]
    groups: tuple[Shared, ...]
    num_forward: int
    num_sizes: int
    num_randoms: int
    outputs: tuple[Recipe, ...]
    updates: tuple[Update, ...]
    resized: tuple[Resized, ...]
    bumps: tuple[Bump, ...]
    levels: tuple[Level, ...]
    seen: tuple[tuple[Place, bool], ...]
    made: tuple[Place, ...]
    redrawn: bool
    switched: frozenset[Input | Base]
    asked: bool

    @property
    def num_primals(self) -> int:
        return len(self.parameters) + len(self.groups)

    @property
    def by_place(self) -> bool:
        """Whether the program looks at the memory itself."""
        return any(node.target in BY_PLACE for node in self.joint.graph.nodes)

    @property
    def carriers(self) -> tuple[Carrier, ...]:
        return tuple(carrier for level in self.levels for carrier in level.carriers)


def results_of(graph: fx.GraphModule) -> tuple[Any, ...]:
    """What a graph gives: nodes, and None."""
    return tuple(graph.graph.output_node().args[0])  # type: ignore[arg-type]


def made_of(graph: fx.GraphModule, count: int) -> tuple[int, ...]:
    """Of each of the first placeholders: the results that are computed from it, as bits."""
    results: dict[fx.Node, int] = {}
    for at, node in enumerate(results_of(graph)):
        if node is not None:
            results[node] = results.get(node, 0) | 1 << at
    for node in reversed(graph.graph.nodes):
        if node in results and node.op != "output":
            for arg in node.all_input_nodes:
                results[arg] = results.get(arg, 0) | results[node]
    return tuple(results.get(node, 0) for node in graph.graph.find_nodes(op="placeholder")[:count])


def memory_of(node: fx.Node) -> int:
    """Equal for nodes whose tensors share memory."""
    return node.meta["val"].untyped_storage()._cdata


def overwritten(traced: Traced, plainly: bool = True) -> frozenset[int]:
    """The memories of inputs that are written, counted as written or detached when the forward graph has run; of those
    where more has changed than what they hold, if not `plainly`."""
    nodes = {node.name: node for node in traced.joint.graph.find_nodes(op="placeholder")}
    updates = (u for u in traced.updates if u.value is not None or u.steps or u.detached or u.data is not None)
    updates = (update for update in updates if plainly or not update.is_plain)
    changed = [*(update.target for update in updates), *(resized.target for resized in traced.resized)]
    groups = {i: Base(number) for number, group in enumerate(traced.groups) for i in group.members}
    places = [groups.get(each.index, each) if isinstance(each, Input) else each for each in changed]
    names = (f"primals_{'base_' if isinstance(each, Base) else ''}{each.index + 1}" for each in places)
    return frozenset(memory_of(nodes[name]) for name in names if name in nodes)
