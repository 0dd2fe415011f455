"""A program that has run on stand-ins, and the results that its forward graph is to have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import GradientEdge
from torch.utils._pytree import tree_map

from codegen.aot.call import Call
from codegen.aot.facts import Base, Input, Value
from codegen.aot.levels import Seen, edge_of
from codegen.aot.recorder import NUMBERS, Recorder
from codegen.aot.views import Step


@dataclass(eq=False)
class Before:
    """A stand-in with what it was before the program ran."""

    fake: torch.Tensor
    version: int
    requires_grad: bool
    grad_fn: Any
    edge: GradientEdge | None

    @classmethod
    def of(cls, fake: torch.Tensor) -> Before:
        return cls(fake, version_of(fake), fake.requires_grad, fake.grad_fn, edge_of(fake))

    def edge_now(self) -> GradientEdge | None:
        """Where its gradient goes after the program: a leaf's is not looked for again."""
        fake = self.fake
        is_leaf = self.edge is not None and self.grad_fn is None and fake.requires_grad and not fake._is_view()
        return self.edge if is_leaf and fake.grad_fn is None else edge_of(fake)


def version_of(fake: torch.Tensor) -> int:
    """How often it counted a write."""
    return 0 if fake.is_inference() else fake._version


class Ends:
    """What is known of the inputs of a program, and what its end comes to need of them."""

    def __init__(self, call: Call, recorder: Recorder) -> None:
        self.call = call
        self.recorder = recorder
        self.known: dict[int, Input | Base] = {}  # id of a stand-in -> what it stands for
        self.targets: dict[fx.Node, Input | Base] = {}  # what the placeholders stand for
        self.placeholders: list[Before | None] = []
        self.members: list[Before] = []  # of flat groups
        self.leaves: set[Input | Base] = set()  # inputs that come to require a gradient
        self.results: list[fx.Node] = []
        self.carriers: list[Seen] = []
        self.bases: dict[int, Value] = {}  # the results that are whole memories, by id of these
        self.turned: set[int] = set()  # memories that these show in another geometry

    def inputs_of(self, target: Input | Base) -> tuple[int, ...]:
        return (target.index,) if isinstance(target, Input) else self.call.groups[target.index].members

    def result(self, node: fx.Node, fake: Any = None, of: Any = None) -> int:
        """A result of the forward graph; it carries gradients if `fake` does."""
        index = len(self.results)
        self.results.append(node)
        if isinstance(fake, torch.Tensor) and fake.requires_grad:
            self.carriers.append(Seen(of, fake, index))
        return index

    def plain(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Numbers that vary become results of the graph."""
        number = self.number
        return tuple(replace(s, args=tree_map(number, s.args), kwargs=tree_map(number, s.kwargs)) for s in steps)

    def number(self, value: Any) -> Any:
        number = self.recorder.number(value) if isinstance(value, NUMBERS) else value
        return Value(self.result(number)) if isinstance(number, fx.Node) else number
