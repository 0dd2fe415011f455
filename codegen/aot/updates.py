"""What a program has done to its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from codegen.aot.ends import Before, Ends, version_of
from codegen.aot.facts import Base, Input, Recipe, Resized, Update, Value, View
from codegen.aot.inputs import RELATED, FragileInputs, answers
from codegen.aot.levels import edge_of, node_of
from codegen.aot.memory import Alias, Memory, SharedInputs, Untraceable
from codegen.aot.reach import bottom_up


@dataclass(frozen=True)
class Changes:
    """`updates` and `resized` as in `Traced`; `last_writes`: inputs with the values that the graph itself writes into
    them at its end."""

    updates: tuple[Update, ...]
    resized: tuple[Resized, ...]
    last_writes: tuple[tuple[fx.Node, fx.Node], ...]


def changes_of(ends: Ends, flat: list[Any], inside: bool) -> Changes:
    """What happened to the arguments `flat`. `inside`: the graph writes where it can. Raises Untraceable and
    SharedInputs."""
    changes = _Changes(ends, inside)
    updates = changes.updates(flat)
    return Changes(updates, tuple(changes.resized), tuple(changes.last_writes))


class _Changes:
    def __init__(self, ends: Ends, inside: bool) -> None:
        self.ends = ends
        self.inside = inside
        self.last_writes: list[tuple[fx.Node, fx.Node]] = []  # an input, its new value
        self.resized: list[Resized] = []

    def updates(self, flat: list[Any]) -> tuple[Update, ...]:
        found: list[Update] = []
        members = {id(before.fake) for before in self.ends.members}
        known = [b for b in self.ends.placeholders if b is not None and id(b.fake) not in members] + self.ends.members
        fragile: set[int] = set()
        if torch.is_grad_enabled():
            views = (flat[i] for i in self.ends.call.fragile)
            fragile = {id(self.ends.recorder.alias(fake).first.memory) for fake in views if fake.requires_grad}
        inside = self.inside and not self.ends.carriers and not any(map(_tracked, known))
        for before in known:
            fake = before.fake
            target = self.ends.known[id(fake)]
            alias = self.ends.recorder.alias(fake)
            steps = alias.steps[alias.made :]
            at = self.ends.call.counters.get(target.index) if isinstance(target, Input) else None
            counter = None if at is None else Input(at)
            versions = version_of(fake) - before.version - self._counted_by_members(target, flat)
            ends = alias.by_set and type(node_of(fake)).__name__ == "NotImplemented"
            tracked = _tracked(before) and not ends
            detached = before.requires_grad and not fake.requires_grad
            later = target in self.ends.leaves
            part = any(step.func is torch.ops.aten.as_strided.default for step in steps)
            memory = alias.first.memory
            if part and tracked and alias.memory.writes:
                raise Untraceable("as_strided_() of a written input that gets a gradient")
            if part and tracked and len(alias.memory.inputs) > 1:
                raise SharedInputs(alias.memory.inputs)
            inputs = self.ends.inputs_of(target)
            is_fragile = tracked and not self.ends.call.fragile.isdisjoint(inputs) or versions and id(memory) in fragile
            if not self.ends.call.as_made and (is_fragile or detached and self.ends.call.fragile):
                raise FragileInputs
            if (detached and self.ends.call.as_made or is_fragile and versions) and len(memory.inputs) > 1:
                raise SharedInputs(memory.inputs)  # it holds of all of them
            is_member = id(fake) in members
            if is_member and tracked and self._is_related(target.index):
                raise Untraceable(RELATED)
            if not is_member:
                self._resize(target, memory)
            data, left = None, None
            if alias.former is not None:
                if torch.is_inference_mode_enabled() and not alias.by_set:
                    raise Untraceable("`.data = ` in inference mode")
                # Of a view autograd asks where its gradient goes by its new geometry.
                asks = torch.is_grad_enabled() or self.ends.carriers
                if versions and before.grad_fn is not None and asks and not ends:
                    raise Untraceable("a tensor with a gradient that is written where it came to lie")
                if self.ends.carriers and _accumulates_anew(before):
                    raise Untraceable("a leaf whose gradient comes to be of another dtype or device")
                data = self._lies_at(alias)
                if memory.writes and not is_member:
                    left = self.ends.result(self._whole(memory))
            written = alias.memory.writes > 0 and (tracked or not (is_member or data))  # of a flat group the base is
            if written or steps or tracked or detached or versions or data or later:
                value = None
                kept = inside and written and isinstance(target, Input) and not steps and memory.born == memory.size
                if kept:
                    self.last_writes.append((alias.memory.inputs[0], self.ends.recorder.read(fake)))
                elif written:
                    # What a geometry in the end doesn't show is written, too.
                    node = self.ends.recorder.read(fake) if tracked else self._whole(alias.memory)
                    value = self.ends.result(node, fake if tracked else None, target)
                where = (data, left, alias.by_set, ends)
                flags, steps = (tracked, detached, later), self.ends.plain(steps)
                unseen = before.requires_grad and not (tracked or detached)
                keeps = bool(versions and not tracked and isinstance(target, Input)) and self._leads_to(before, memory)
                found.append(Update(target, *where, steps, value, *flags, versions, counter, kept, unseen, keeps))
        for group in self.ends.call.groups:
            for i in group.members:
                alias = self.ends.recorder.alias(flat[i])
                steps = alias.steps[alias.made :]
                if i != group.base and not group.flat and alias.former is not None:
                    raise SharedInputs(alias.first.memory.inputs, flat=True)
                if i == group.base or group.flat:
                    continue
                later = Input(i) in self.ends.leaves
                if steps or later:
                    steps = self.ends.plain(steps)
                    unseen = flat[i].requires_grad and answers(flat[i]) and flat[i].is_leaf and not later
                    found.append(Update(Input(i), steps=steps, requires_grad=later, versions=len(steps), unseen=unseen))
        return tuple(found)

    def _leads_to(self, before: Before, memory: Memory) -> bool:
        """Whether results lead to an input that has a history, from operations that came after the last write to it,
        and from these alone. Eager autograd gives a view another node after a write that it does not see, where those
        before do not lead."""
        if before.edge is None or before.grad_fn is None:
            return False
        starts = [node for carrier in self.ends.carriers if (node := node_of(carrier.tensor)) is not None]
        users = [node for node in bottom_up(starts, ()) if tuple(before.edge)[:2] in node.next_functions]
        return bool(users) and all(node._sequence_nr() >= memory.written_at for node in users)

    def _whole(self, memory: Memory) -> fx.Node:
        """The value of a memory, as much of it as there was before or is at the end."""
        root, final = self.ends.recorder.root(memory), memory.storage.nbytes()
        if not isinstance(memory.size, int) or memory.size == max(memory.born, final):
            return root
        length = max(memory.born, final) // root.meta["val"].element_size()
        return self.ends.recorder.emit(torch.ops.aten.slice.Tensor, root, 0, 0, length)

    def _resize(self, target: Input | Base, memory: Memory) -> None:
        """What became of the size of an input's storage."""
        size = memory.storage.nbytes()
        if isinstance(size, int) and size != memory.born:
            if size > memory.born and isinstance(target, Input):
                raise SharedInputs(memory.inputs, flat=True)
            self.resized.append(Resized(target, size, size > memory.born))

    def _lies_at(self, alias: Alias) -> Recipe:
        """Where a tensor has come to lie."""
        memory, steps = alias.memory, self.ends.plain(alias.steps[: alias.made])
        if memory.outside:
            raise Untraceable("a tensor whose data became that of a tensor from elsewhere")
        if id(memory) in self.ends.turned:
            raise Untraceable("a tensor whose data became that of a result with changed metadata")
        if memory.inputs:
            return View(self.ends.targets[memory.inputs[0]], steps, False)
        if id(memory) not in self.ends.bases:
            self.ends.bases[id(memory)] = Value(self.ends.result(self.ends.recorder.root(memory)))
        return View(self.ends.bases[id(memory)], steps, False)

    def _is_related(self, member: int) -> bool:
        return any(group.related for group in self.ends.call.groups if member in group.members)

    def _counted_by_members(self, target: Input | Base, flat: list[Any]) -> int:
        """The changes of metadata by other members of a group: these count for its base, too."""
        if isinstance(target, Input) or self.ends.call.groups[target.index].flat:
            return 0
        group = self.ends.call.groups[target.index]
        aliases = [self.ends.recorder.alias(flat[i]) for i in group.members if i != group.base]
        return sum(len(alias.steps) - alias.made for alias in aliases)


def _accumulates_anew(before: Before) -> bool:
    """Whether the gradient of a leaf goes elsewhere than it did."""
    now = edge_of(before.fake) if before.edge is not None and before.grad_fn is None else None
    return now is not None and before.edge is not None and now.node is not before.edge.node


def _tracked(before: Before) -> bool:
    """Whether autograd saw a write to the input."""
    grad_fn = node_of(before.fake)
    return grad_fn is not None and grad_fn is not before.grad_fn
