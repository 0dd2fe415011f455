"""A captured graph with branches and loops in it: what lies between them is compiled piece by piece, and so are their
sides. What goes from one piece to the next are tensors as eager code has them, with their history.

A piece is compiled for tensors that look like those that it will get, and tell nothing of each other: where one writes
to what comes from another piece, or hands on anything but tensors, the whole graph runs as it was captured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx
from torch.fx.node import map_arg

from codegen.direct import as_captured
from codegen.rows import ends, row_graph
from symbolic.branches import DECIDE
from symbolic.gradients import differentiate, differentiate_with
from symbolic.torch_state import TorchState

#: (graph, example inputs, what it is called) -> callable
Compile = Callable[[fx.GraphModule, Sequence[Any], str], Callable[..., Any]]
Run = Callable[[dict[fx.Node, Any]], None]


def has_branches(graph: fx.GraphModule) -> bool:
    return any(node.target in DECIDE for node in graph.graph.nodes)


def in_pieces(
    graph: fx.GraphModule, example_inputs: Sequence[Any],
    compile_graph: Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]],
) -> Callable[..., Any]:
    """The graph as a callable, its pieces compiled by `compile_graph`. `graph.meta["parts"]`: the stages of each."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    steps, writers = list(_steps(graph)), graph.meta.get("writers", {})
    if graph.meta.get("together") or not all(step.fits(writers) for step in steps):
        return as_captured(graph)
    examples = dict(zip(placeholders, example_inputs, strict=True))
    parts: dict[str, Any] = {}

    def compile_part(part: fx.GraphModule, given: Sequence[Any], name: str) -> Callable[..., Any]:
        made = compile_graph(part, given)
        found = {"": getattr(made, "stages", None), **part.meta.get("parts", {})}
        parts.update({f"{name}_{inner}".strip("_"): each for inner, each in found.items() if each is not None})
        return made

    graph.meta["parts"] = parts
    before = TorchState()
    try:
        run = [step.compiled(graph, examples, compile_part) for step in steps]
    finally:
        before.restore()
    results = graph.graph.output_node().args[0]
    assert isinstance(results, tuple)

    def run_pieces(*args: Any) -> Any:
        values = dict(zip(placeholders, args, strict=True))
        for each in run:
            each(values)
        return tuple(values[node] for node in results)

    return run_pieces


@dataclass(frozen=True)
class _Piece:
    """Operations in a row: what they take from before, and what others take of them."""

    nodes: list[fx.Node]
    takes: list[fx.Node]
    gives: list[fx.Node]

    def fits(self, writers: Mapping[fx.Node, frozenset[int]]) -> bool:
        """Whether it can be compiled by itself, where `writers` write into these memories."""
        inside = {node.meta["example_value"].untyped_storage()._cdata for node in self.takes if _is_made(node)}
        writes = [writers[node] for node in self.nodes if node in writers]
        if any(not each or not each.isdisjoint(inside) for each in writes):
            return False
        made = [node for node in (*self.takes, *self.gives) if node.op != "placeholder"]
        return all(map(_is_plain, made)) and not any(map(_varies, (*self.takes, *self.nodes)))

    def compiled(self, root: fx.GraphModule, examples: dict[fx.Node, Any], compile_graph: Compile) -> Run:
        given = [examples[node] if node in examples else _like(node.meta["example_value"]) for node in self.takes]
        part = row_graph(root, self.takes, self.nodes, self.gives)
        function = compile_graph(part, given, f"to_{self.nodes[-1].name}")

        def run(values: dict[fx.Node, Any]) -> None:
            found = function(*(values[node] for node in self.takes))
            values.update(zip(self.gives, found, strict=True))

        return run


@dataclass(frozen=True)
class _Decision:
    """A branch or a loop."""

    node: fx.Node

    def fits(self, writers: Mapping[fx.Node, frozenset[int]]) -> bool:
        return True

    def compiled(self, root: fx.GraphModule, examples: dict[fx.Node, Any], compile_graph: Compile) -> Run:
        target: Any = self.node.target
        inside = [each for each in self.node.all_input_nodes if each.op == "get_attr"]
        graphs: dict[fx.Node, Any] = {each: _inner(root, str(each.target), compile_graph) for each in inside}
        parts: list[tuple[fx.Node, Any]] = [(user, user.args[1]) for user in self.node.users]

        def run(values: dict[fx.Node, Any]) -> None:
            values.update(graphs)
            found = target(*map_arg(self.node.args, values.__getitem__))
            values.update((part, found[at]) for part, at in parts)

        return run


@dataclass(frozen=True)
class _AsItIs:
    """An operation that gives a number, or switches torch's state: for what is compiled after it, too."""

    node: fx.Node

    def fits(self, writers: Mapping[fx.Node, frozenset[int]]) -> bool:
        return True

    def compiled(self, root: fx.GraphModule, examples: dict[fx.Node, Any], compile_graph: Compile) -> Run:
        node, target = self.node, cast(Any, self.node.target)

        def run(values: dict[fx.Node, Any]) -> None:
            args: Any = map_arg(node.args, values.__getitem__)
            kwargs: Any = map_arg(node.kwargs, values.__getitem__)
            if isinstance(target, str):
                values[node] = getattr(args[0], target)(*args[1:], **kwargs)
            else:
                values[node] = target(*args, **kwargs)

        if _is_switch(node):
            run({})
        return run


@dataclass(frozen=True)
class _Derivative:
    """A derivative of what earlier pieces gave: autograd follows these, and finds leaves of the whole graph only."""

    node: fx.Node

    def fits(self, writers: Mapping[fx.Node, frozenset[int]]) -> bool:
        wanted: Any = self.node.args[1]
        return self.node.target is differentiate and all(getattr(each, "op", "") == "placeholder" for each in wanted)

    def compiled(self, root: fx.GraphModule, examples: dict[fx.Node, Any], compile_graph: Compile) -> Run:
        args, target = self.node.args, cast(Any, self.node.target)
        parts: list[tuple[fx.Node, Any]] = [(user, user.args[1]) for user in self.node.users]

        def run(values: dict[fx.Node, Any]) -> None:
            found = target(*map_arg(args, values.__getitem__))
            values.update((part, _laid_out(found[at], part.meta["example_value"])) for part, at in parts)

        return run


def _laid_out(gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A gradient as eager code's lies: compiled ones do not repeat one element, as an expanded one does."""
    if gradient.stride() == like.stride():
        return gradient
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in like.stride())
    sizes = [1 if step == 0 else size for size, step in zip(like.shape, like.stride(), strict=True)]
    made = torch.empty_strided(sizes, like.stride(), dtype=gradient.dtype, device=gradient.device)
    return made.copy_(gradient[once]).expand(like.shape)


def _is_switch(node: fx.Node) -> bool:
    return node.op == "call_function" and "example_value" not in node.meta


def _steps(graph: fx.GraphModule) -> Iterator[_Piece | _Decision | _AsItIs | _Derivative]:
    """The pieces, and what is done between them."""
    row: list[fx.Node] = []
    apart: set[fx.Node] = set()
    for node in graph.graph.nodes:
        kind = _apart(node, bool(apart))
        if kind is not None:
            yield from _piece(row)
            yield kind(node)
            row = []
            apart.add(node)
        elif node.op not in ("placeholder", "output") and not _belongs(node, apart):
            row.append(node)
    yield from _piece(row)


def _apart(node: fx.Node, is_later: bool) -> type[_Decision | _AsItIs | _Derivative] | None:
    """What an operation is that is in no piece. A derivative is in one where nothing before it is apart."""
    if node.target in DECIDE:
        return _Decision
    if is_later and node.target in (differentiate, differentiate_with):
        return _Derivative
    is_number = node.op.startswith("call") and isinstance(node.meta.get("example_value", 0), (int, float))
    return _AsItIs if is_number else None


def _piece(row: list[fx.Node]) -> Iterator[_Piece]:
    if row:
        yield _Piece(row, *ends(row))


def _belongs(node: fx.Node, apart: set[fx.Node]) -> bool:
    """Whether it is a graph that a branch is made of, or a result of what is `apart`."""
    if node.op == "get_attr":
        return any(user.target in DECIDE for user in node.users)
    return node.target is operator.getitem and node.args[0] in apart


def _inner(root: fx.GraphModule, name: str, compile_graph: Compile) -> Callable[..., Any]:
    graph = getattr(root, name)
    nodes = graph.graph.find_nodes(op="placeholder")
    if not all(map(_is_plain, nodes)) or any(map(_varies, graph.graph.nodes)):
        return as_captured(graph)
    return compile_graph(graph, [_like(node.meta["example_value"]) for node in nodes], name)


def _is_made(node: fx.Node) -> bool:
    return node.op != "placeholder" and _is_plain(node)


def _is_plain(node: fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


def _varies(node: fx.Node) -> bool:
    """Whether there are sizes that differ from call to call."""
    value = node.meta.get("example_value")
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return any(isinstance(size, (torch.SymInt, torch.SymFloat)) for size in sizes)


def _like(fake: torch.Tensor) -> torch.Tensor:
    """A tensor that looks like it."""
    made = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
    return made.requires_grad_(fake.requires_grad)
