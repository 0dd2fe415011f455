"""`backend="aot_eager"`: a captured graph through the AOT stage, then ATen as it is."""

from __future__ import annotations

import itertools
import logging
import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from codegen.aot.copies import Copies, Repeating, copies_of, repeating
from codegen.aot.function import Settings, compile_program
from codegen.aot.numbers import Varying
from codegen.aot.partition import min_cut_partition
from codegen.aot.pieces import has_branches, in_pieces
from codegen.aot.recorder import Untraceable
from codegen.direct import as_captured
from symbolic.late import compute
from symbolic.quick_graph import Graph
from symbolic.shapes import CHECKS, Environment, environment, must_be_so, usually
from symbolic.torch_state import TorchState, enter_inference, leave_inference

log = logging.getLogger(__name__)

#: What is recorded as one operation of Python's, by its result: torch would take `sum` apart, and has an algebra for
#: floats that come of sizes.
_NUMBERS = {int: int, float: float, bool: bool, torch.SymFloat: float}


#: ATen runs the graphs operation by operation.
ATEN = Settings(partition=partial(min_cut_partition, fused=False), mutations_inside=True)


class CapturedProgram(fx.Interpreter):
    """A captured graph as a program that knows at each operation which of the user's lines it stands for. A graph in
    it is part of the program `around` it."""

    def __init__(self, graph: fx.GraphModule, around: CapturedProgram | None = None) -> None:
        super().__init__(graph)
        self.around = around
        self.current: fx.Node | None = None
        self.left_out: tuple[fx.Node, ...] = ()  # nodes that somebody else sees to
        by_values = any(node.target in CHECKS or "sizes" in node.meta for node in graph.graph.nodes)
        self.sizes = Environment(by_values) if by_values else None
        self.copies: Copies | None = None  # in the trace under way

    @cached_property
    def runs(self) -> Repeating:
        return repeating(self.graph)

    @property
    def whole(self) -> CapturedProgram:
        return self if self.around is None else self.around.whole

    def run_node(self, n: fx.Node) -> Any:
        """As fx does it, which for each node tells the others who might record one what it is."""
        self.whole.current = n
        return self._traced(n) if self.copies is None else self.copies.value(n, self._traced)

    def _traced(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        result = getattr(self, n.op)(n.target, args, kwargs)
        if "sizes" in n.meta:
            _settle(result, n.meta["sizes"])
        return result

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = super().get_attr(target, args, kwargs)
        if not isinstance(found, fx.GraphModule):
            return found
        return partial(CapturedProgram(found, self).run, enable_io_processing=False)

    def stack_trace(self) -> str | None:
        """Where in the user's code the operation under way comes from."""
        return self.current.meta.get("stack_trace") if self.current is not None else None

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if self.whole.current in self.whole.left_out:
            return None
        if target is torch.clear_autocast_cache and not self._ends_autocast():
            raise Untraceable("the casts that autocast keeps from before are dropped")
        node = self.whole.current
        kind = _NUMBERS.get(type(node.meta.get("example_value"))) if node is not None else None
        if kind is not None and not kwargs and target is not operator.getitem:
            made = compute(target, args, kind)
            if target in CHECKS and target is not must_be_so:
                target(*args)  # symbols are told once it is recorded: from there on they may be plain numbers
            return made
        if node is not None and node.meta.get("together"):
            # Around the compiled program these get the node that they share, which gives zeros for missing gradients.
            return tuple(target(arg)[0] for arg in args)
        return super().call_function(target, args, kwargs)

    def _ends_autocast(self) -> bool:
        """Whether the program has begun the outermost autocast that it is at the end of: nothing was kept before."""
        done = itertools.takewhile(lambda node: node is not self.whole.current, self.whole.graph.nodes)
        begun = any(node.target is torch.autocast_increment_nesting for node in done)
        outermost = torch.autocast_increment_nesting() == 1
        torch.autocast_decrement_nesting()
        return begun and outermost

    def __call__(self, *args: Any) -> Sequence[Any]:
        before = TorchState()
        env: dict[fx.Node, Any] = {}
        try:
            self.copies = copies_of(_get_current_dispatch_mode(), args, lambda: self.runs, env)
            results = self.run(*args, initial_env=env, enable_io_processing=False)
            if vars(TorchState()) != vars(before):
                raise Untraceable("torch's state of this thread is another one at the end of the graph")
            return results
        finally:  # here, and not under other dispatch modes than those that the graph switched it under
            before.restore()
            self.copies = None


def compile_graph(
    graph: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings | None = None
) -> Callable[..., Any]:
    """A captured graph (its results are a flat tuple), compiled. What this stage can't say runs as it was captured."""
    if graph.meta.get("as_captured"):
        log.info("a graph runs as it was captured: the program has nodes of its history")
        return as_captured(graph)
    settings = settings or ATEN
    if has_branches(graph):
        return in_pieces(graph, example_inputs, partial(compile_graph, settings=settings))
    original = _program(graph)
    mode = bool(original.left_out[0].args[0]) if original.left_out else None
    rewritten = _rewritten(graph, settings)
    programs = [original] if rewritten is None else [_program(rewritten), original]
    examples = _examples(graph.graph.find_nodes(op="placeholder"), example_inputs)
    for program in programs:
        try:
            # What the capture asked of sizes is known, and what is asked beyond that is how to go about it.
            with torch.inference_mode(mode) if mode is not None else nullcontext(), usually(environment(examples)):
                compiled: Any = compile_program(program, examples, settings, original, graph.meta.get("together", ()))
        except Untraceable as reason:
            log.info("a graph runs as it was captured: %s", reason)
            continue
        compiled.stages = replace(compiled.stages, captured=rewritten if program is not original else None)
        return compiled if mode is None else _under(mode, compiled)
    return as_captured(graph)


def _settle(result: Any, foreseen: Sequence[int]) -> None:
    """Sizes that came up as others than plain numbers are those that were foreseen."""
    tensors = (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
    for size, number in zip((size for tensor in tensors for size in tensor.shape), foreseen, strict=True):
        if isinstance(size, torch.SymInt) and not size.node.shape_env.settle(size, number):
            raise Untraceable(f"a size that depends on values is {number}")


def _rewritten(graph: fx.GraphModule, settings: Settings) -> fx.GraphModule | None:
    """What passes make of a captured graph, which stays as it is; None if that is nothing else."""
    if not settings.passes.concern("before_autograd", graph):
        return None
    made = Graph()
    made.output(made.graph_copy(graph.graph, {}))
    module = _LazyGraphModule(graph, made)
    return module if settings.passes("before_autograd", module) else None


def _program(graph: fx.GraphModule) -> CapturedProgram:
    program = CapturedProgram(graph)
    program.left_out = _around(graph)
    return program


def _around(graph: fx.GraphModule) -> tuple[fx.Node, ...]:
    """The first and the last operation of a graph that all happens in an inference mode of its own."""
    nodes = [node for node in graph.graph.nodes if node.op not in ("placeholder", "output")]
    switches = [node for node in nodes if node.target in (enter_inference, leave_inference)]
    return (nodes[0], nodes[-1]) if switches and switches == [nodes[0], nodes[-1]] else ()


def _under(mode: bool, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, which is called in this inference mode."""

    def run(*args: Any) -> Any:
        enter_inference(mode)
        try:
            return compiled(*args)
        finally:
            leave_inference()

    run.stages = compiled.stages  # type: ignore[attr-defined]
    return run


def _examples(placeholders: Sequence[fx.Node], real: Sequence[Any]) -> list[Any]:
    """What the program is compiled for: where sizes vary, the fakes of its inputs as they came; a number that comes in
    as such is another one at every call."""
    symbols = [node.meta.get("example_value") for node in placeholders]
    fakes = [node.meta.get("came", symbol) for node, symbol in zip(placeholders, symbols, strict=True)]
    varies = any(isinstance(size, torch.SymInt) for fake in fakes for size in (*getattr(fake, "shape", ()), fake))
    tensors = fakes if varies else real
    return [
        Varying(type(value)) if type(value) in (int, float, bool) and not isinstance(symbol, torch.SymInt) else tensor
        for value, symbol, tensor in zip(real, symbols, tensors, strict=True)
    ]
