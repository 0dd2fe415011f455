"""What passes over functional ATen graphs ask of nodes, and how they put one in the place of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from codegen.aot import cost
from codegen.aot.numbers import may_raise
from codegen.aot.views import BY_PLACE
from symbolic.late import number_of

Size = Any  # an int, or the expression of a symbol


def size(value: int | torch.SymInt) -> Size:
    """As what can be compared without a guard."""
    return value.node.expr if isinstance(value, torch.SymInt) else value


def sizes(value: torch.Tensor) -> tuple[Size, ...]:
    return tuple(map(size, value.shape))


def strides(value: torch.Tensor) -> tuple[Size, ...]:
    return tuple(map(size, value.stride()))


def tensor(node: Any) -> torch.Tensor | None:
    """The strided tensor that a node gives, as a fake."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) and value.layout is torch.strided else None


def static(node: Any) -> torch.Tensor | None:
    """The same if nothing about its geometry varies."""
    value = tensor(node)
    if value is None or not all(isinstance(n, int) for n in (*value.shape, *value.stride(), value.storage_offset())):
        return None
    return value


def looks(value: torch.Tensor) -> tuple[Any, ...]:
    """Equal for tensors that nobody can tell apart but by their values and where they lie."""
    return value.dtype, value.device, sizes(value), strides(value), value.is_conj(), value.is_neg()


def is_contiguous(value: torch.Tensor) -> bool:
    """Of one whose geometry is static."""
    step = 1
    for length, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if length != 1:
            if stride != step:
                return False
            step *= length
    return True


#: What they give may be what they are given: the conjugates of real numbers are.
_SAME = frozenset({torch.ops.aten.conj_physical.default})


def shows(node: fx.Node) -> bool:
    """Whether its memory is that of its first operand."""
    return node.op == "call_function" and (cost.kind(node) in (cost.VIEW, cost.ITEM) or node.target in _SAME)


def root(node: fx.Node) -> fx.Node:
    """The node whose memory it shows; of what comes out of a tuple, that of the tuple."""
    while shows(node):
        node = node.all_input_nodes[0]
    return node


def is_given(node: fx.Node) -> bool:
    """Whether a root's memory is there before the graph runs."""
    return node.op != "call_function"


def is_pure(node: fx.Node) -> bool:
    """Whether nobody can tell if an operation runs once, twice or not at all, but by its value."""
    if node.op != "call_function" or may_raise(node) or cost.kind(node) in (cost.EFFECT, cost.RANDOM):
        return False
    target = node.target
    return not isinstance(target, torch._ops.OpOverload) or target.namespace in ("aten", "prims")


def is_late(node: fx.Node) -> bool:
    """Whether an operand is a number that is known when the graph runs: its fake shows any one."""
    return any(number_of(operand.meta.get("val")) is not None for operand in node.all_input_nodes)


class Results:
    """What the caller of a graph gets: `out`, the nodes, and `held`, the roots of the memory that they show, where it
    may write. `saved`: roots of what is for the backward only, and nobody writes."""

    def __init__(self, graph: fx.GraphModule) -> None:
        results: Any = graph.graph.output_node().args[0]
        seen = [node for node in results[: graph.meta.get("num_outputs")] if isinstance(node, fx.Node)]
        self.out = set(graph.graph.output_node().all_input_nodes)
        self.held = set(map(root, self.out))
        self.saved = self.held - set(map(root, seen))

    def are_apart(self, one: fx.Node, other: fx.Node) -> bool:
        """Whether two values, or those that they are shown of, must not become one."""
        roots = {root(one), root(other)}
        if roots <= self.saved:
            return False
        return {one, other} <= self.out or len(roots) == 2 and roots <= self.held

    def note(self, node: fx.Node, into: fx.Node) -> None:
        """From now on a value is that of another."""
        if node in self.out:
            self.out.add(into)
        if node in self.saved and into not in self.held:
            self.saved.add(into)
        if node in self.held:
            self.held.add(into)

    def put(self, by: fx.Node, node: fx.Node) -> bool:
        """Puts what has the same values in the place of a node, which is no view, if nobody can tell."""
        old, new = tensor(node), tensor(by)
        if old is None or new is None or looks(old) != looks(new) or not may_read(node, by):
            return False
        if is_looked_at_by_place(node):
            return False
        if node in self.held and (self.are_apart(node, by) or root(by) is not by or is_given(by)):
            return False
        self.note(node, by)
        replace(node, by)
        return True


def is_looked_at_by_place(node: fx.Node) -> bool:
    """Whether somebody asks where elements lie in a node's memory, by its offset: others have other offsets, and those
    of inputs are not known."""
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if user.target in BY_PLACE:
                return True
            if shows(user):
                waiting.append(user)
    return False


#: Operations that ask whether what they are given requires a gradient, though nobody records one.
_ASKING = frozenset({torch.ops.aten.as_strided_scatter.default})


def may_read(node: fx.Node, by: fx.Node) -> bool:
    """Whether those who read a node may read `by`: of all values only inputs may require gradients."""
    value = by.meta.get("val")
    requires = by.op == "placeholder" and isinstance(value, torch.Tensor) and value.requires_grad
    return not requires or not any(user.target in _ASKING for user in node.users)


def replace(node: fx.Node, by: fx.Node) -> None:
    """Puts `by` in the place of a node, which goes. If it was made for this (see `make`), it takes the name as well."""
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)
    if by.meta.pop("made", False):
        by.name = node.name


def make(node: fx.Node, func: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
    """A new node ahead of another, whose place in the program's text it shares."""
    with node.graph.inserting_before(node):
        made = node.graph.call_function(func, args, kwargs)
    made.meta = {name: node.meta[name] for name in ("phase", "stack_trace") if name in node.meta}
    made.meta.update(val=value(func, args, kwargs), made=True)
    return made


def value(func: Callable[..., Any], args: Sequence[Any], kwargs: Any = None) -> Any:
    """What an operation on nodes gives, as a fake. One of them at least gives a fake."""

    def plain(node: fx.Node) -> Any:
        """Without its history: some kernels look at that."""
        given = node.meta["val"]
        return given.detach() if isinstance(given, torch.Tensor) and given.requires_grad else given

    args, kwargs = fx.map_arg((tuple(args), kwargs or {}), plain)
    fakes = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, FakeTensor)]
    with fakes[0].fake_mode, torch.no_grad():
        return func(*args, **kwargs)
