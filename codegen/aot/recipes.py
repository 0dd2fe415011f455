"""Where the results of a program come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import BackwardCFunction

from codegen.aot import leaves
from codegen.aot.ends import Ends, version_of
from codegen.aot.facts import Base, BaseOf, Bump, Changed, Constant, Custom, Data, Input, OutputOf, Recipe, Value, View
from codegen.aot.inputs import count_together, may_claim
from codegen.aot.levels import node_of
from codegen.aot.memory import TRANSPARENT, Alias, Memory, Untraceable
from codegen.aot.recorder import NUMBERS
from codegen.aot.views import Step


def outputs_of(ends: Ends, results: list[Any]) -> tuple[Recipe, ...]:
    """How each result is made of inputs and of results of the forward graph, which come to be more. Raises Untraceable
    and SharedInputs."""
    return _Recipes(ends).outputs(results)


class _Recipes:
    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.data: dict[int, Data] = {}  # by id of the fake

    def outputs(self, results: list[Any]) -> tuple[Recipe, ...]:
        aliases = {
            id(r): self.ends.recorder.alias(r)
            for r in results if isinstance(r, FakeTensor) and id(r) not in self.ends.known
        }
        users: dict[int, int] = {}
        for alias in aliases.values():
            users[id(alias.memory)] = users.get(id(alias.memory), 0) + 1
        made: dict[int, Recipe] = {}  # by id of the result
        bases = self.ends.bases

        def recipe(at: int, result: Any) -> Recipe:
            if isinstance(result, NUMBERS):
                number = self.ends.recorder.number(result)
                return Value(self.ends.result(number)) if isinstance(number, fx.Node) else Constant(number)
            if not isinstance(result, FakeTensor):
                return Constant(result)
            if id(result) in self.ends.known:
                return self.ends.known[id(result)]
            alias = aliases[id(result)]
            base = self.ends.known.get(id(alias.origin))
            if base is not None:
                return self._view(base, alias, result, at)
            memory = alias.memory
            origin = self.ends.recorder.alias(alias.origin)
            if origin.former is not None:
                raise Untraceable("a result that came to lie elsewhere")
            if origin.steps:
                self.ends.turned.add(id(memory))
            if users[id(memory)] == 1 and not result._is_view():
                bases[id(memory)] = Value(self.ends.result(self.ends.recorder.read(result), result, OutputOf(at)))
                return bases[id(memory)]
            if id(memory) not in bases:
                of = self._carrying(results, alias.origin)
                if of is None and any(a.memory is memory and a.tensor.requires_grad for a in aliases.values()):
                    raise Untraceable("a view that gets its gradient elsewhere than its base")
                carrier = None if of is None else alias.origin
                bases[id(memory)] = Value(self.ends.result(self.ends.recorder.read(alias.origin), carrier, of))
            return bases[id(memory)] if result is alias.origin else self._view(bases[id(memory)], alias, result, at)

        for at, result in enumerate(results):
            if id(result) not in made or not isinstance(result, torch.Tensor):
                made[id(result)] = recipe(at, result)
        return tuple(made[id(result)] for result in results)

    @staticmethod
    def _carrying(results: list[Any], base: torch.Tensor) -> OutputOf | BaseOf | None:
        """By which result a gradient of this base can come back."""
        for at, result in enumerate(results):
            if result is base:
                return OutputOf(at)
        for at, result in enumerate(results):
            if isinstance(result, torch.Tensor) and not result.is_inference() and result._base is base:
                return BaseOf(at)
        return None

    def _view(self, base: Value | Input | Base, alias: Alias, result: torch.Tensor, at: int) -> View | Data:
        start, first = self._start(base, alias, alias.steps, alias.memory)
        cut = any(step.func in TRANSPARENT for step in alias.steps)
        if result.grad_fn is not None and (cut or not alias.origin.requires_grad):
            raise Untraceable("a view that gets its gradient elsewhere than its base")
        tracked = result.grad_fn is not None or cut or not alias.origin.requires_grad
        steps = alias.steps[first:]
        if any(map(self._turned_apart, self._way(alias))):
            raise Untraceable("a tensor that is no view changes its geometry in memory that others show")
        if not cut and not isinstance(start, (Data, Value)) and _target(start) in self.ends.leaves:
            start = self._before_or_after(start, result)
            tracked = isinstance(start, (Input, Base)) or result.grad_fn is not None
        if _has_own_history(result, alias.origin):
            history = Value(self.ends.result(self.ends.recorder.read(result), result, OutputOf(at)))
            made = Custom(history, torch._C._autograd._get_creation_meta(result))
            return View(start, self.ends.plain(steps), False, made)
        return start if isinstance(start, Data) and not steps else View(start, self.ends.plain(steps), tracked)

    def _way(self, alias: Alias) -> Iterator[Alias]:
        """A tensor and those that it was taken from, down to an input or an origin."""
        while alias.taken is not None and id(alias.tensor) not in self.ends.known:
            yield alias
            alias = self.ends.recorder.alias(alias.taken)

    @staticmethod
    def _turned_apart(alias: Alias) -> bool:
        """Whether its geometry changed and it is no view, as `.detach().t_()`: what replays that makes a view."""
        known = alias.tensor
        return len(alias.steps) > alias.made and not (known.is_inference() or known._is_view())

    def _before_or_after(self, start: Input | Base | Changed, result: torch.Tensor) -> Input | Base | Changed:
        """Whether a view of an input was taken before this came to require a gradient, or after it."""
        is_early = leaves.is_taken_before(result)
        known = _target(start)
        alias = next(self.ends.recorder.aliases[key] for key, place in self.ends.known.items() if place == known)
        is_other = alias.former is not None or len(alias.steps) > alias.made
        if is_other and is_early is isinstance(start, Changed):
            raise Untraceable("a view of an input that changes its geometry and comes to require a gradient")
        return known if is_early else Changed(known)

    def _start(
        self, base: Value | Input | Base, alias: Alias, then: tuple[Step, ...], memory: Memory
    ) -> tuple[Value | Input | Base | Changed | Data, int]:
        """From where a view in a memory is taken that was taken of `alias` when this had the steps `then`, and how many
        of its steps lead there: an input (where it was taken after the metadata of this changed, the changed one),
        another origin, or the last `.data` or `detach()` on the way.
        """
        known = self.ends.known.get(id(alias.tensor))
        if known is not None:
            return self._which(known, alias, then, memory)
        before = alias.steps[: alias.made - 1]
        if alias.taken is None:
            if isinstance(base, Value):  # has its last geometry
                if then[alias.made :] != alias.steps[alias.made :]:
                    raise Untraceable("a view of a tensor that changes its geometry later")
                return base, len(alias.steps)
            return base, alias.made
        is_detached = alias.steps[alias.made - 1].func in TRANSPARENT and not alias.tensor._is_view()
        counts = self._counts_with_a_base(alias)
        if alias.steps[alias.made - 1].func not in TRANSPARENT or counts and not is_detached:
            return self._start(base, self.ends.recorder.alias(alias.taken), before, memory)
        if id(alias.tensor) not in self.data:
            taken = self.ends.recorder.alias(alias.taken)
            start, first = self._start(base, taken, before, alias.memory)
            of = View(start, self.ends.plain(before[first:]), False)
            self.data[id(alias.tensor)] = Data(of if of.steps else start, len(self.data), counts)
        return self.data[id(alias.tensor)], alias.made

    @staticmethod
    def _which(
        known: Input | Base, alias: Alias, then: tuple[Step, ...], memory: Memory
    ) -> tuple[Input | Base | Changed, int]:
        """Whether a view was taken from an input as it came or as it is in the end."""
        is_other = alias.former is not None or len(alias.steps) > alias.made
        if is_other and alias.memory is memory and then == alias.steps:
            return Changed(known), len(alias.steps)
        if alias.first.memory is not memory:
            raise Untraceable("a view of a tensor in a place where it was for a while")
        return known, alias.first.made

    def _counts_with_a_base(self, alias: Alias) -> bool:
        """Whether a tensor has the version counter of one of those that it was taken from."""
        before = alias.taken
        while before is not None:
            if before.is_inference() or count_together(before, alias.tensor):
                return True
            before = self.ends.recorder.alias(before).taken
        return False


def bumps_of(results: list[Any], outputs: tuple[Recipe, ...]) -> Iterator[Bump]:
    seen: set[Any] = set()
    for result, output in zip(results, outputs, strict=True):
        counter = output.base if isinstance(output, View) else output
        while isinstance(counter, Data) and counter.detached:
            counter = counter.of.base if isinstance(counter.of, View) else counter.of
        if isinstance(counter, (Value, Data)) and isinstance(result, torch.Tensor) and counter not in seen:
            seen.add(counter)
            if version_of(result):
                yield Bump(counter, version_of(result))


def _has_own_history(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether the gradient of a view goes another way than to its base: through a custom autograd function, or to a
    view made without grad, where it ends."""
    end = node_of(base)
    node = view.grad_fn
    while node is not None and node is not end:
        if isinstance(node, BackwardCFunction):
            return True
        if not node.next_functions:
            return False
        node = node.next_functions[0][0]
        if node is None:
            return not may_claim(base)
    return False


def _target(start: Input | Base | Changed) -> Input | Base:
    return start.target if isinstance(start, Changed) else start
