"""What the values of integer or bool tensors that came in say before the frame runs: asked now, and guarded.

`if mask.any():` and `edges[:, kept]` depend on values; where these come by few operations from one input, as they do
from masks, labels and the edges of graphs, the guard computes them from it in each call, and what was captured is good
for calls in which they are the same. Inputs of few elements may be there besides: those are guarded themselves. What
comes from no input at all, as masks do that the frame makes, is the same in each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from symbolic.variables.base import MISSING

if TYPE_CHECKING:
    from symbolic.graph import GraphBuilder
    from symbolic.translator import Translator
    from symbolic.variables.tensors import TensorVariable

#: Operations that a guard repeats, at most, and elements that each tensor may have.
MOST_OPERATIONS, MOST_ELEMENTS = 32, 1 << 20
#: Elements of an input that are guarded themselves, at most.
FEW = 16
Ask = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Foreseen:
    """The predicate of a guard: what `operations` make of a tensor still gives this answer."""

    operations: fx.GraphModule
    ask: Ask
    answer: Any

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        made = f"what {len(self.operations.graph.nodes) - 2} operations make"
        return f"{self.ask.__name__} of {made} is {self.answer!r}:"

    @property
    def may_vary(self) -> bool:
        """Whether there may be an answer for each call."""
        return type(self.answer) is not bool

    def __call__(self, tensor: torch.Tensor) -> bool:
        answer = answer_of(self.operations, self.ask, tensor)
        return type(answer) is type(self.answer) and answer == self.answer


def answer_of(operations: fx.GraphModule, ask: Ask, *inputs: torch.Tensor) -> Any:
    """MISSING where the operations raise."""
    try:
        with torch.no_grad():
            return ask(operations.forward(*inputs))
    except Exception:
        return MISSING


def foresee(tx: Translator, node: fx.Node, ask: Ask) -> Any:
    """`ask` of what the node gives, guarded; MISSING where only the graph can tell."""
    graph = tx.graph
    if graph.inner or node.graph is not graph.root or tx.options.dynamic or graph.is_elsewhere():
        return MISSING
    nodes = _operations(graph, node)
    wanted = {each for each in nodes if each.op == "placeholder"}
    given: list[Any] = [each for each in graph.inputs if each.node in wanted]
    if not nodes or len(given) < len(wanted) or not all(_is_known(tx, each) for each in given):
        return MISSING
    few = [each for each in given if each.source in graph.foreseen or (len(given) > 1 and each.value.numel() <= FEW)]
    many = [each for each in given if each not in few]
    if len(many) > 1:
        return MISSING
    operations = _copy(nodes, node, {each.node: each.value.clone() for each in few})
    answer = answer_of(operations, ask, *(each.value for each in many))
    if answer is MISSING or (type(answer) is float and math.isnan(answer)):
        return MISSING
    tx.repeats.tell(None)  # of the same operations on another input another answer may be foreseen
    for each in few:
        if each.source not in graph.foreseen:
            graph.foreseen[each.source] = Foreseen(_copy([each.node], each.node, {}), elements, each.value.tolist())
        tx.know(each.source, "predicate", graph.foreseen[each.source])
    for each in many:
        tx.know(each.source, "predicate", Foreseen(operations, ask, answer))
    return answer


def _is_known(tx: Translator, given: TensorVariable) -> bool:
    """Whether its values can be looked at in each call (on a device they would be waited for), and are those that it
    came with."""
    value, source = given.real(), given.source
    if type(value) is not torch.Tensor or source is None or source.is_made or source.pattern in tx.options.varying:
        return False
    is_plain = value.layout is torch.strided and not (value.is_floating_point() or value.is_complex())
    return is_plain and value.device.type == "cpu" and tx.graph.is_untouched(given)


def _operations(graph: GraphBuilder, last: fx.Node) -> list[fx.Node]:
    """The nodes that give what `last` gave as it is now, in order: what it was made of, and what wrote into that. None
    if they are too many, or may give something else."""
    found: dict[fx.Node, None] = {}
    inputs: set[int] = set()
    memory: set[int] = set()
    written: set[int] = set()
    todo = [last]
    while todo:
        each = todo.pop()
        if each not in found:
            if len(found) > MOST_OPERATIONS or not _can_be_repeated(graph, each):
                return []
            found[each] = None
            todo += each.all_input_nodes
            (inputs if each.op == "placeholder" else memory).update(_memory_of(each))
        if not todo:
            writers = [node for node in graph.writers if node not in found]
            todo = [node for node in writers if not _memory_of(*node.all_input_nodes).isdisjoint(memory - inputs)]
            written.update(*(_memory_of(*node.all_input_nodes) for node in todo))
    fresh = (value for node in found for value in _tensors(node) if value.untyped_storage()._cdata not in written)
    return sorted(found) if all(not value.is_inference() and value._version == 0 for value in fresh) else []


def _can_be_repeated(graph: GraphBuilder, node: fx.Node) -> bool:
    if node.op not in ("placeholder", "call_function", "call_method") or node in graph.once:
        return False
    return node.graph is graph.root and all(map(_is_small, _tensors(node)))


def _is_small(value: torch.Tensor) -> bool:
    is_plain = value.device.type == "cpu" and value.layout is torch.strided
    return is_plain and math.prod(size for size in value.shape if isinstance(size, int)) <= MOST_ELEMENTS


def _tensors(node: fx.Node) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(node.meta.get("example_value")) if isinstance(leaf, torch.Tensor))


def _memory_of(*nodes: fx.Node) -> set[int]:
    return {value.untyped_storage()._cdata for node in nodes for value in _tensors(node)}


def _copy(nodes: list[fx.Node], last: fx.Node, constants: dict[fx.Node, torch.Tensor]) -> fx.GraphModule:
    """A function of the inputs among the nodes that are no `constants`."""
    copied: dict[fx.Node, fx.Node] = {}
    graph, root = fx.Graph(), torch.nn.Module()
    for at, node in enumerate(nodes):
        if node in constants:
            root.register_buffer(f"constant_{at}", constants[node])
            copied[node] = graph.get_attr(f"constant_{at}")
        else:
            copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output(copied[last])
    return fx.GraphModule(root, graph)


# --- what is asked ----------------------------------------------------------------------------------------------------
def truth(tensor: torch.Tensor) -> bool:
    return bool(tensor)


def count(mask: torch.Tensor) -> int:
    return int(mask.count_nonzero())


def item(tensor: torch.Tensor) -> Any:
    return tensor.item()


def elements(tensor: torch.Tensor) -> Any:
    return tensor.tolist()


def number(value: Any) -> Any:
    return value


def geometry(results: Any) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    leaves = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    return tuple((tuple(leaf.shape), leaf.stride()) for leaf in leaves)
