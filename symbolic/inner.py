"""Graphs inside the graph: a function that is handed to a transform becomes a graph of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from symbolic.quick_graph import Graph


class InnerGraph:
    """A graph that grows inside another. What it takes from the graphs around it comes in as further inputs, `held`.

    `operation` is what it is made for. `born_at` is the step to break at where a value of it is asked for outside.
    `earlier` are values of graphs that the operation has run before this one, and what it knows them by; `frames` how
    many frames there are outside.
    """

    def __init__(
        self, operation: Callable[..., Any], born_at: int, frames: int, earlier: dict[fx.Node, Any]
    ) -> None:
        self.operation = operation
        self.frames = frames
        self.earlier = earlier
        self.graph = Graph()
        self.modules = torch.nn.Module()  # the graphs inside this one
        self.born_at = born_at
        self.held: dict[fx.Node, fx.Node] = {}  # of the graph around -> here
        self._last: fx.Node | None = None

    def add_input(self, name: str, example: Any) -> fx.Node:
        last = self._last
        with self.graph.inserting_after(last) if last is not None else self.graph.inserting_before():
            node = self._last = self.graph.placeholder(name)
        node.target = node.name  # no two are called the same
        node.meta["example_value"] = example
        return node

    def take(self, node: fx.Node) -> fx.Node:
        """The input for a node of the graph around."""
        if node not in self.held:
            self.held[node] = self.add_input(node.name, node.meta["example_value"])
        return self.held[node]
