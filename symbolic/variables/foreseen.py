"""What the values of an integer or bool tensor that came in say before the frame runs: asked now, and guarded.

`if mask.any():` and `edges[:, kept]` depend on values; where these come by few operations from one input, as they do
from masks, labels and the edges of graphs, the guard computes them from it in each call, and what was captured is good
for calls in which they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from symbolic.variables.base import MISSING, Variable

if TYPE_CHECKING:
    from symbolic.translator import Translator
    from symbolic.variables.tensors import TensorVariable

#: Operations that a guard repeats, at most, and elements that the input may have.
MOST_OPERATIONS, MOST_ELEMENTS = 16, 1 << 20
Ask = Callable[[torch.Tensor], Any]


@dataclass(frozen=True, eq=False)
class Foreseen:
    """The predicate of a guard: what `operations` make of a tensor still gives this answer."""

    operations: fx.GraphModule
    ask: Ask
    answer: Any

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"{self.ask.__name__} of what {len(self.operations.graph.nodes) - 2} operations make is {self.answer!r}:"

    @property
    def may_vary(self) -> bool:
        """Whether there may be an answer for each call."""
        return type(self.answer) is int

    def __call__(self, tensor: torch.Tensor) -> bool:
        answer = answer_of(self.operations, self.ask, tensor)
        return type(answer) is type(self.answer) and answer == self.answer


def answer_of(operations: fx.GraphModule, ask: Ask, tensor: torch.Tensor) -> Any:
    """MISSING where the operations raise."""
    try:
        with torch.no_grad():
            return ask(operations.forward(tensor))
    except Exception:
        return MISSING


def foresee(tx: Translator, variable: TensorVariable, ask: Ask) -> Any:
    """`ask` of the tensor, guarded; MISSING where only the graph can tell."""
    graph = tx.graph
    if graph.inner or tx.options.dynamic:
        return MISSING
    nodes = _operations(variable.node)
    given = next((each for each in graph.inputs if nodes and each.node is nodes[0]), None)
    if given is None or not _is_known(given) or not graph.is_untouched(given):  # type: ignore[arg-type]
        return MISSING
    assert given.source is not None
    if given.source.pattern in tx.options.varying:
        return MISSING
    operations = _copy(nodes)
    before = torch.get_rng_state()
    answer = answer_of(operations, ask, given.real())
    if not torch.equal(torch.get_rng_state(), before):
        torch.set_rng_state(before)
        return MISSING
    if answer is not MISSING:
        tx.repeats.tell(None)  # of the same operations on another input another answer may be foreseen
        tx.know(given.source, "predicate", Foreseen(operations, ask, answer))
    return answer


def _is_known(given: Variable) -> bool:
    """Whether its values can be looked at in each call: on a device they would be waited for."""
    value = given.real()
    is_there = type(value) is torch.Tensor and given.source is not None and not given.source.is_made
    is_plain = is_there and value.device.type == "cpu" and value.layout is torch.strided
    return is_plain and not (value.is_floating_point() or value.is_complex()) and value.numel() <= MOST_ELEMENTS


def _operations(node: fx.Node) -> list[fx.Node]:
    """The nodes that lead from the one input that `node` is made of to it, that one first; none if there are others,
    or too many, or something was written into any of them."""
    found: dict[fx.Node, None] = {}
    todo = [node]
    while todo:
        each = todo.pop()
        if each in found:
            continue
        if len(found) > MOST_OPERATIONS or each.op not in ("placeholder", "call_function", "call_method"):
            return []
        if not all(map(_is_as_made, tree_leaves(each.meta.get("example_value")))):
            return []
        found[each] = None
        todo += each.all_input_nodes
    inputs = [each for each in found if each.op == "placeholder"]
    return sorted(found) if len(inputs) == 1 else []


def _is_as_made(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_inference() and value._version == 0


def _copy(nodes: list[fx.Node]) -> fx.GraphModule:
    copied: dict[fx.Node, fx.Node] = {}
    graph = fx.Graph()
    for node in nodes:
        copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output(copied[nodes[-1]])
    return fx.GraphModule(torch.nn.Module(), graph)


# --- what is asked ----------------------------------------------------------------------------------------------------
def truth(tensor: torch.Tensor) -> bool:
    return bool(tensor)


def count(mask: torch.Tensor) -> int:
    return int(mask.count_nonzero())
