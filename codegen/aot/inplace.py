"""Where a graph is left to ATen: operations that came of in-place ones become in-place ones again.

A record is functional; run as it is, every write makes a new tensor, and those that take the place of an input's value
are copied into it at the end. Where nobody reads the old value any more, the new one may take its memory.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch import fx
from torch._ops import OpOverload

from codegen.aot.facts import memory_of
from codegen.aot.mutations import Written, counterpart
from codegen.aot.views import is_view


def write_in_place(joint: fx.GraphModule) -> None:
    """Changes a graph that has no gradients, as it was recorded: each operation that is noted to stand for one that
    writes (`Written`) becomes that one, if its old values are tensors that the graph made, or inputs that it writes at
    its end, and neither they nor views of them are read later. An input that has its last value then is written no
    more. Operations stay in their order."""
    graph = joint.graph
    memories = _Memories(graph)
    for node in list(graph.nodes):
        note = node.meta.get("written")
        if note is not None and all(memories.takes(old, new, node) for old, new in note.values):
            for old, new in note.values:
                memories.move(old, new)
            _undo(node, note)
    for last in memories.last_writes.values():
        if last.args[0] is last.args[1]:
            graph.erase_node(last)
    joint.recompile()


class _Memories:
    """Which node made a memory, and who reads it, in the graph as it was recorded. Views of a value are in its memory,
    whatever that of the stand-in that they were recorded with."""

    def __init__(self, graph: fx.Graph) -> None:
        nodes = list(graph.nodes)
        self.position = {node: at for at, node in enumerate(nodes)}
        self.last_writes = {node.args[0]: node for node in nodes if _is_last_write(node)}  # by input
        self.end = {*self.last_writes.values(), graph.output_node()}
        self.memory: dict[fx.Node, int] = {}
        self.maker: dict[int, fx.Node] = {}
        self.readers: dict[int, list[fx.Node]] = {}
        self.shared: set[int] = set()  # by inputs, or by what is no view as it seems
        self.owner: dict[fx.Node, fx.Node] = {}  # a value that was moved -> the maker of the memory it lies in
        for node in nodes:
            if isinstance(node.meta.get("val"), torch.Tensor) and node not in self.end:
                self._add(node)

    def _add(self, node: fx.Node) -> None:
        viewed = _viewed(node)
        memory = memory_of(node) if viewed is None else self.memory[viewed]
        if self.maker.setdefault(memory, node) is not node and viewed is None:
            self.shared |= {memory, *(self.memory[each] for each in node.all_input_nodes if each in self.memory)}
        self.memory[node] = memory
        own = self.last_writes.get(node)
        self.readers.setdefault(memory, []).extend(user for user in node.users if user is not own)

    def takes(self, old: fx.Node, new: fx.Node, writer: fx.Node) -> bool:
        """Whether the new value may lie where the old one does."""
        memory = self.memory[old]
        if self.maker[memory] is not old or memory in self.shared or self.memory[new] in self.shared:
            return False
        if any(self.position[reader] > self.position[writer] for reader in self.readers[memory]):
            return False
        owner = self.owner.get(old, old)
        if owner.op != "placeholder":
            return owner.op == "call_function"
        last = self.last_writes.get(owner)
        return last is not None and not any(r in self.end and r is not last for r in self.readers[self.memory[new]])

    def move(self, old: fx.Node, new: fx.Node) -> None:
        self.owner[new] = owner = self.owner.get(old, old)
        new.replace_all_uses_with(owner)


def _viewed(node: fx.Node) -> fx.Node | None:
    """What it is a view of."""
    view = node.args[0] if node.target is operator.getitem else node
    if isinstance(view, fx.Node) and isinstance(view.target, OpOverload) and is_view(view.target):
        return view.args[0]  # type: ignore[return-value]
    return None


def _is_last_write(node: fx.Node) -> bool:
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"  # type: ignore[union-attr]


def _undo(node: fx.Node, note: Written) -> None:
    """Puts the operation that writes in the place of its functional form. Nobody uses the new values."""
    form = counterpart(note.func)
    assert form is not None
    with node.graph.inserting_before(node):
        made = node.graph.call_function(note.func, node.args, node.kwargs)
    made.meta = {name: value for name, value in node.meta.items() if name not in ("val", "written")}
    several = len(form.target._schema.returns) > 1
    for part in [user for user in node.users if several and user.args[1] not in form.new]:
        if len(form.returns) == 1:
            part.replace_all_uses_with(made)
        else:
            part.args = (made, form.returns.index(part.args[1]))
    for part in [*_parts(node)][::-1]:
        node.graph.erase_node(part)


def _parts(node: fx.Node) -> Iterator[fx.Node]:
    """The node, and all that is taken out of its results."""
    yield node
    for user in node.users:
        if user.target is operator.getitem:
            yield from _parts(user)
