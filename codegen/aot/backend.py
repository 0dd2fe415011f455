"""`backend="aot_eager"`: a captured graph through the AOT stage, then ATen as it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from codegen.aot.function import Settings, compile_program
from codegen.aot.recorder import Untraceable
from symbolic.torch_state import TorchState

log = logging.getLogger(__name__)


class CapturedProgram(fx.Interpreter):
    """A captured graph as a program that knows at each operation which of the user's lines it stands for."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.current: fx.Node | None = None

    def run_node(self, n: fx.Node) -> Any:
        self.current = n
        return super().run_node(n)

    def stack_trace(self) -> str | None:
        """Where in the user's code the operation under way comes from."""
        return self.current.meta.get("stack_trace") if self.current is not None else None

    def __call__(self, *args: Any) -> Sequence[Any]:
        return self.run(*args, enable_io_processing=False)


def compile_graph(
    graph: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings | None = None
) -> Callable[..., Any]:
    """A captured graph (its results are a flat tuple), compiled. What this stage can't say runs as it was captured."""
    examples = [
        fake if _is_symbolic(fake := node.meta.get("example_value")) else real
        for node, real in zip(graph.graph.find_nodes(op="placeholder"), example_inputs, strict=True)
    ]
    before = TorchState()
    try:
        if any(isinstance(example, float) for example in examples):
            raise Untraceable("a float that varies from call to call")
        compiled = compile_program(CapturedProgram(graph), examples, settings or Settings(mutations_inside=True))
        if vars(TorchState()) != vars(before):
            raise Untraceable("torch's state of this thread is another one at the end of the graph")
    except Untraceable as reason:
        log.info("a graph runs as it was captured: %s", reason)
        return graph.forward
    finally:
        before.restore()
    return compiled


def _is_symbolic(fake: Any) -> bool:
    return isinstance(fake, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in fake.shape)
