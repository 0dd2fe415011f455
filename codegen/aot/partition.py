"""Cuts a joint graph in two: a forward graph, and a backward graph that reads what the forward saved for it.

Two rules say what is saved. `default_partition` saves what the backward reads, as eager autograd does.
`min_cut_partition` may run cheap operations again in the backward to save less: it is a minimum cut of the network of
forward values, as functorch showed (Horace He, "Min-cut optimal recomputation with AOTAutograd", 2022); the idea of
trading computation for memory is Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016. `cost` has prices.

Views cost nothing and hold their base's memory: of a base and its views one is saved, the others are made again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._pytree import tree_leaves

from codegen.aot import cost
from codegen.aot.mincut import UNLIMITED, Network
from symbolic.quick_graph import Graph

HALVINGS = 16  # how often the price of running again may be halved to meet a budget; then it is as good as nothing


@dataclass(frozen=True)
class Saved:
    """A tensor that the forward hands to the backward."""

    name: str
    bytes: int  # of the memory it holds on to
    origin: str  # "an input", "an output", "shares an output's memory", "made by the forward", or drawn by it
    reason: str


@dataclass(frozen=True)
class Partition:
    """How a joint graph was cut. In `meta["partition"]` of both halves."""

    rule: str
    tensors: tuple[Saved, ...]  # the order of these and of `ints` is that of the forward's last outputs
    ints: tuple[str, ...]
    default_bytes: int  # held by the tensors, inputs not counted, that the default rule saves
    bytes: int  # held by these ones, likewise
    recomputed: tuple[str, ...]  # forward nodes that the backward runs again; views and items are not counted


def default_partition(
    joint_module: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, num_primals: int | None = None
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward: (primals) -> (outputs, saved tensors, saved numbers). The backward: (saved tensors, saved numbers,
    tangents) -> gradients.

    Nothing is computed twice but views. Without `num_primals`, tangents are the placeholders whose names begin so.
    `joint_inputs` are not looked at. ValueError: a forward output depends on a tangent.
    """
    joint = _read(joint_module, num_fwd_outputs, num_primals)
    return _write(joint, "default", joint.everything())


def min_cut_partition(
    joint_module: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, num_primals: int | None = None,
    budget: float | None = None, fused: bool = True,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """As `default_partition`, but saves less where operations that are cheap to run again make up for it.

    `budget`: save at most that part of the bytes that the default rule would, if that is possible at all; for this
    dearer operations, matrix products and convolutions too, are run again. `fused`: whether the graphs' compiler fuses
    operations. Where it does not, only so much is run again as takes next to no time.
    """
    joint = _read(joint_module, num_fwd_outputs, num_primals)
    if budget is not None:
        return _write(joint, f"min-cut, budget {budget:g}", _within(joint, budget))
    everything = joint.everything()
    if joint.held(everything) < cost.SMALL:
        return _write(joint, "default", everything)
    saved = _cheapest(joint)
    return _write(joint, "min-cut", saved) if fused else _write(joint, "min-cut, not fused", _spared(joint, saved))


min_cut_rematerialization_partition = min_cut_partition  # as functorch.compile names it


def report(partition: Partition) -> str:
    """A partition as text: what is saved and why, and what is computed again."""
    lines = [
        f"{partition.rule}: {len(partition.tensors)} tensors and {len(partition.ints)} numbers saved, "
        f"{partition.bytes:,} bytes (default rule: {partition.default_bytes:,})"
    ]
    width = max((len(saved.name) for saved in partition.tensors), default=0)
    lines += [f"  {s.name:<{width}}  {s.bytes:>14,}  {s.origin}; {s.reason}" for s in partition.tensors]
    if partition.ints:
        lines.append(f"  numbers: {', '.join(partition.ints)}")
    if partition.recomputed:
        lines.append(f"  computed again: {', '.join(partition.recomputed)}")
    return "\n".join(lines)


# --- reading ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Joint:
    """A joint graph, read."""

    module: fx.GraphModule
    primals: tuple[fx.Node, ...]
    tangents: tuple[fx.Node, ...]
    outputs: tuple[Any, ...]
    gradients: tuple[Any, ...]
    place: dict[fx.Node, int]  # in the joint graph
    ahead: frozenset[fx.Node]  # primals and what the forward may compute
    given: frozenset[fx.Node]  # those of them that are there at no cost: primals, numbers, and draws that are outputs
    lasting: tuple[fx.Node, ...]  # those of them that must run though nobody reads them
    backward: tuple[fx.Node, ...]  # what the backward computes that is read or must run
    reads: frozenset[fx.Node]  # what of `ahead` these and the gradients read
    base: dict[fx.Node, fx.Node]  # of each view in `ahead`, what it shows
    root: dict[fx.Node, fx.Node]  # of each view in `ahead`, what that shows in the end: no view

    @cached_property
    def returned(self) -> set[fx.Node]:
        """The outputs that are nodes."""
        return {value for value in self.outputs if isinstance(value, fx.Node)}

    def roots(self, nodes: Iterable[fx.Node]) -> set[fx.Node]:
        """The nodes with what they show in the place of views."""
        return {self.root.get(node, node) for node in nodes}

    def everything(self) -> set[fx.Node]:
        """What the default rule saves, beside what is given."""
        return {root for root in self.roots(self.reads) if root not in self.given and root.op != "get_attr"}

    def overwritten(self) -> set[fx.Node]:
        """The primals that the forward writes into."""
        return self.roots(cost.target(node) for node in self.lasting if cost.writes(node)).intersection(self.primals)

    def held(self, saved: Iterable[fx.Node]) -> int:
        """The bytes that saved tensors hold on to; the memory of inputs is not theirs."""
        return sum(cost.kept(root) for root in self.roots(saved) if root not in self.given)


def _read(module: fx.GraphModule, num_fwd_outputs: int, num_primals: int | None) -> Joint:
    nodes = list(module.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    if num_primals is None:
        tangent = (at for at, node in enumerate(placeholders) if str(node.target).startswith("tangents"))
        num_primals = next(tangent, len(placeholders))
    primals, tangents = placeholders[:num_primals], placeholders[num_primals:]
    results = tree_leaves(nodes[-1].args[0])
    outputs, gradients = results[:num_fwd_outputs], results[num_fwd_outputs:]
    calls = [node for node in nodes if node.op not in ("placeholder", "output")]
    dead = cost.dead_nodes(calls)
    lasting = [node for node in calls if cost.lasting(node, dead)]
    ahead = _ahead(primals, tangents, outputs, calls, set(lasting))
    live = _reach([*gradients, *(node for node in lasting if node not in ahead)], ahead)
    backward = [node for node in calls if node in live and node not in ahead]
    reads = live & ahead
    base, root = _views(node for node in calls if node in ahead)
    drawn = {value for value in outputs if isinstance(value, fx.Node) and cost.kind(value) is cost.RANDOM}
    joint = Joint(
        module, tuple(primals), tuple(tangents), tuple(outputs), tuple(gradients),
        {node: at for at, node in enumerate(nodes)}, frozenset(ahead),
        frozenset(node for node in ahead if node.op == "placeholder" or cost.is_number(node) or node in drawn),
        tuple(node for node in lasting if node in ahead), tuple(backward), frozenset(reads), base, root,
    )
    whole = sorted(root.name for root in joint.everything() if cost.is_several(root))
    if whole:
        raise ValueError(f"the backward reads tuples whole, of which only the items can be saved: {whole}")
    lost = joint.overwritten() & _looked_at(joint)
    return _read(_shielded(joint, lost), num_fwd_outputs, num_primals) if lost else joint


def _ahead(
    primals: Sequence[fx.Node],
    tangents: Sequence[fx.Node],
    outputs: Sequence[Any],
    calls: Sequence[fx.Node],
    lasting: Set[fx.Node],
) -> set[fx.Node]:
    """The forward half: by the nodes' phases where they have any, otherwise what the outputs need.

    Without phases, what must run though nobody reads it is forward if it comes before the first node that reads a
    tangent; a write comes last in either half, and is forward if it depends on no tangent.
    """
    behind = set(tangents)
    for node in calls:
        if not behind.isdisjoint(node.all_input_nodes):
            behind.add(node)
    phased = any(node.meta.get("phase") == "backward" for node in calls)
    started = False
    ahead = {value for value in outputs if isinstance(value, fx.Node)}
    for node in calls:
        started = started or node in behind
        phase = node.meta.get("phase", "forward" if phased else None)
        stays = not phased and node in lasting and (not started or cost.writes(node))
        if node not in behind and (phase == "forward" or stays):
            ahead.add(node)
    ahead = _reach(ahead)
    wrong = [node.name for node in calls if node in behind and node in ahead]
    if wrong:
        raise ValueError(f"outputs of the forward depend on tangents: {wrong}")
    ahead.update(primals)
    for node in calls:  # items are saved in the place of a tuple: the forward takes them out, whoever asks for them
        if cost.kind(node) is cost.ITEM and node.args[0] in ahead:
            ahead.add(node)
    return ahead


def _reach(values: Iterable[Any], stop: Container[fx.Node] = ()) -> set[fx.Node]:
    """The nodes among `values`, and what they are computed from as far as the first in `stop`, that one included."""
    found: set[fx.Node] = set()
    stack = [value for value in values if isinstance(value, fx.Node)]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if node not in stop:
                stack.extend(node.all_input_nodes)
    return found


def _views(nodes: Iterable[fx.Node]) -> tuple[dict[fx.Node, fx.Node], dict[fx.Node, fx.Node]]:
    """Of each view what it is a view of, and what it shows in the end. An item of several views is a view of them."""
    base: dict[fx.Node, fx.Node] = {}
    root: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        what = cost.kind(node)
        if what is cost.VIEW or (what is cost.ITEM and node.args[0] in base):
            shown = base[node] = node.all_input_nodes[0]
            root[node] = root.get(shown, shown)
    return base, root


def _looked_at(joint: Joint) -> set[fx.Node]:
    """The roots of what the backward reads, which what it writes into is not part of."""
    read = [value for value in joint.gradients if isinstance(value, fx.Node)]
    for node in joint.backward:
        into = cost.target(node) if cost.writes(node) else None
        read += [value for value in node.all_input_nodes if value is not into]
    return joint.roots(read)


def _shielded(joint: Joint, lost: Iterable[fx.Node]) -> fx.GraphModule:
    """The joint graph with a copy of those primals made first, and read in their place.

    The backward runs after the forward has written into them, but is to see what they held before.
    """
    graph = Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(joint.module.graph, copies)
    kept = {}
    before = next(node for node in graph.nodes if node.op != "placeholder")
    for primal in lost:
        with graph.inserting_before(before):
            kept[copies[primal]] = clone = graph.call_function(torch.ops.aten.clone.default, (copies[primal],))
        clone.meta.update(val=primal.meta.get("val"), phase="forward")
    clones = set(kept.values())
    for node in [node for node in graph.nodes if node not in clones]:
        into = cost.target(node) if cost.writes(node) else None
        for primal, clone in kept.items():
            if primal is not into:
                node.replace_input_with(primal, clone)
    outputs = fx.map_arg(joint.outputs, copies.__getitem__)
    gradients = fx.map_arg(fx.map_arg(joint.gradients, copies.__getitem__), lambda node: kept.get(node, node))
    graph.output((*outputs, *gradients))
    return fx.GraphModule(joint.module, graph)


# --- choosing ---------------------------------------------------------------------------------------------------------
def _cheapest(joint: Joint, halvings: int = 0, compute: bool = False) -> set[fx.Node]:
    """What to save so that the price of all that is saved and all that is run again is least, where running again costs
    half as much so many times.

    A value has two vertices: its operation runs again, its value is there. Saving it cuts the edge from the first to
    the second; running it again cuts the edge from the source to the first, and its operands must be there.
    """
    network = Network()
    there: dict[fx.Node, int] = {}
    runs: dict[fx.Node, int] = {}
    todo: list[fx.Node] = []
    overwritten = joint.overwritten()
    shown = joint.roots(joint.returned)

    def need(value: fx.Node, reader: int) -> None:
        value = joint.root.get(value, value)
        if value in joint.given or value.op == "get_attr":
            return
        if value not in there:
            there[value] = network.vertex()
            todo.append(value)
        network.edge(there[value], reader, UNLIMITED)

    for value in sorted(joint.reads, key=joint.place.__getitem__):
        need(value, network.SINK)
    while todo:
        value = todo.pop()
        keep = UNLIMITED if cost.is_several(value) else cost.keeping(value, value in shown) << halvings
        again = _again(joint, value, overwritten, compute)
        if again is None or again >= keep:
            network.edge(network.SOURCE, there[value], keep)
            continue
        runs[value] = network.vertex()
        network.edge(network.SOURCE, runs[value], again)
        network.edge(runs[value], there[value], keep)
        for operand in value.all_input_nodes:
            need(operand, runs[value])
    _, needed = network.cut()
    return {value for value in there if needed[there[value]] and not (value in runs and needed[runs[value]])}


def _again(joint: Joint, node: fx.Node, overwritten: set[fx.Node], compute: bool) -> int | None:
    """The price of running a forward node in the backward; None if it cannot be."""
    return cost.again(node, compute) if overwritten.isdisjoint(joint.roots(node.all_input_nodes)) else None


def _within(joint: Joint, budget: float) -> set[fx.Node]:
    """What to save so that it is at most that part of what the default rule saves, at the least price."""
    limit = budget * joint.held(joint.everything())
    saved = _cheapest(joint)
    if joint.held(saved) <= limit:
        return saved
    enough, most = 0, HALVINGS
    while enough < most:
        middle = (enough + most) // 2
        if joint.held(_cheapest(joint, middle, compute=True)) <= limit:
            most = middle
        else:
            enough = middle + 1
    return _cheapest(joint, enough, compute=True)


def _spared(joint: Joint, saved: set[fx.Node]) -> set[fx.Node]:
    """What to save of the values that would be run again, too, so that running the others takes `cost.SPARE` of the
    time of all at most: first those that win the least memory for their time."""
    there = saved | joint.given
    again = joint.everything() & _reach(joint.reads, there) - there
    stops = again | there
    ways = {node: _reach(node.all_input_nodes, stops) - stops | {node} for node in again}
    took = {node: sum(map(cost.alone, way)) for node, way in ways.items()}
    spent = sum(took.values())
    limit = cost.SPARE * sum(map(cost.alone, joint.place))
    found = set(saved)
    for node in sorted(again, key=lambda node: (cost.kept(node) / max(1, took[node]), joint.place[node])):
        if spent > limit:
            found.add(node)
            spent -= took[node]
    return found


def _settled(joint: Joint, saved: set[fx.Node]) -> set[fx.Node]:
    """For each root among `saved`, the view of it, if any, that can stand for it: all that is read are views of that.

    An output is preferred: as eager does, the runtime notices when somebody writes into a saved output.
    """
    run = _reach(joint.reads, saved | joint.given) - saved - joint.given - joint.base.keys()
    read = joint.reads.union(*(node.all_input_nodes for node in run))
    common: dict[fx.Node, fx.Node] = {}
    for node in read:
        root = joint.root.get(node, node)
        if root in saved:
            other = common.get(root, node)
            while node is not other:  # a view comes after what it shows
                if joint.place[node] < joint.place[other]:
                    node, other = other, node
                node = joint.base[node]
            common[root] = node
    return {_output_below(joint, node) for node in common.values()}


def _output_below(joint: Joint, node: fx.Node) -> fx.Node:
    """The nearest output among a view and what it shows; where there is none, the nearest that is no tuple of views."""
    chain = [node]
    while chain[-1] in joint.base:
        chain.append(joint.base[chain[-1]])
    nearest = chain[1] if cost.is_several(node) else node
    return next((shown for shown in chain if shown in joint.returned), nearest)


# --- writing ----------------------------------------------------------------------------------------------------------
def _write(joint: Joint, rule: str, roots: set[fx.Node]) -> tuple[fx.GraphModule, fx.GraphModule]:
    there = _settled(joint, roots) | {node for node in joint.given if not _is_expression(node)}
    needed = _reach(joint.reads, there)
    handed = sorted(needed & there, key=joint.place.__getitem__)
    again = sorted(needed.difference(handed), key=joint.place.__getitem__)
    tensors = [node for node in handed if not cost.is_number(node)]
    ints = [node for node in handed if cost.is_number(node)]
    partition = Partition(
        rule, _explained(joint, tensors, rule != "default"), tuple(node.name for node in ints),
        joint.held(joint.everything()), joint.held(tensors),
        tuple(node.name for node in again if cost.kind(node) not in (cost.VIEW, cost.ITEM, cost.CONSTANT)),
    )
    forward = _module(joint, _forward(joint, [*tensors, *ints]), "Forward", partition)
    return forward, _module(joint, _backward(joint, [*tensors, *ints], again), "Backward", partition)


def _is_expression(node: fx.Node) -> bool:
    """Whether a node computes a size from others: of these each is a symbol, which kernels know it by."""
    value, read = node.meta.get("val"), node.all_input_nodes
    is_size = isinstance(value, torch.SymInt) and hasattr(value.node, "expr")
    return is_size and bool(read) and all(map(cost.is_number, read))


def _module(joint: Joint, graph: fx.Graph, name: str, partition: Partition) -> fx.GraphModule:
    """Its Python code, which takes longer to write than the graph, is written when somebody first asks for it."""
    module = _LazyGraphModule(joint.module, graph, name)
    module.meta = {**module.meta, "partition": partition}
    return module


def _forward(joint: Joint, handed: list[fx.Node]) -> fx.Graph:
    graph = Graph()
    made = {primal: graph.node_copy(primal) for primal in joint.primals}
    live = _reach([*joint.outputs, *handed, *joint.lasting]).difference(joint.primals)
    for node in sorted(live, key=joint.place.__getitem__):
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(fx.map_arg((*joint.outputs, *handed), made.__getitem__))
    return graph


def _backward(joint: Joint, handed: list[fx.Node], again: list[fx.Node]) -> fx.Graph:
    """What the forward must run again runs just before it is first read, so that it lives no longer than need be."""
    graph = Graph()
    made: dict[fx.Node, fx.Node] = {}
    for node in handed:
        made[node] = graph.create_node("placeholder", node.name, name=node.name)
        made[node].meta = dict(node.meta)
    for node in joint.tangents:
        made[node] = graph.node_copy(node)

    def make(values: Iterable[Any]) -> None:
        missing = [node for node in _reach(values, made) if node not in made]
        for node in sorted(missing, key=joint.place.__getitem__):
            made[node] = graph.node_copy(node, made.__getitem__)

    for node in joint.backward:
        if cost.writes(node):
            make(again)  # they may read what this writes over
        make([node])
    make(joint.gradients)
    graph.output(fx.map_arg(joint.gradients, made.__getitem__))
    return graph


def _explained(joint: Joint, tensors: list[fx.Node], chosen: bool) -> tuple[Saved, ...]:
    """`chosen`: whether by prices, else because they are read."""
    reader: dict[fx.Node, str] = {}
    for node in joint.backward:
        for value in node.all_input_nodes:
            while value not in reader:  # what it shows has one if it does
                reader[value] = node.name
                value = joint.base.get(value, value)
    inputs, shared = set(joint.primals), joint.roots(joint.returned)
    found = []
    for node in tensors:
        root = joint.root.get(node, node)
        reason = f"read by {reader[node]}" if node in reader else "returned as a gradient, or computed from again"
        if chosen and node not in joint.given:
            maker = root.all_input_nodes[0] if cost.kind(root) is cost.ITEM else root
            reason += f"; {cost.kind(maker).why}"
        origin = (
            "an input" if node in inputs
            else "drawn for derivatives of derivatives, too" if node in joint.given
            else "an output" if node in joint.returned
            else "shares an output's memory" if root in shared
            else "made by the forward"
        )
        found.append(Saved(node.name, cost.kept(root), origin, reason))
    return tuple(found)
