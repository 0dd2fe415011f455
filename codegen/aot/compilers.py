"""Graph compilers as users write them: with boxed results, or for looking at graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from codegen.aot.boxed import boxed
from codegen.aot.function import GraphCompiler, as_it_is


def nop(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> fx.GraphModule:
    """Leaves the graph to ATen."""
    return graph


def print_compile(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> fx.GraphModule:
    """Prints the graph and leaves it to ATen."""
    print(graph.code)
    return graph


def make_boxed_func(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """`function` as one of a single list of arguments, marked as such."""

    def boxed(args: list[Any]) -> Any:
        return function(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: GraphCompiler) -> GraphCompiler:
    """A compiler that answers with boxed functions."""

    def compiled(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(compiler(graph, example_inputs))

    return compiled


def plain(compiler: GraphCompiler) -> GraphCompiler:
    """A compiler whose functions take their arguments one by one and give tuples, whatever `compiler`'s do."""

    def compiled(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
        run = compiler(graph, example_inputs)
        if run is graph:
            return as_it_is(graph, example_inputs)
        if getattr(run, "_boxed_call", False):
            return lambda *args: tuple(run(list(args)))
        return lambda *args: tuple(run(*args))

    return compiled


def of_lists(compiler: GraphCompiler) -> GraphCompiler:
    """A compiler whose functions take one list of their arguments, which they may empty, and give tuples."""

    def compiled(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
        run = compiler(graph, example_inputs)
        if run is graph:
            return boxed(graph)
        if getattr(run, "_boxed_call", False):
            return lambda given: tuple(run(given))
        return lambda given: tuple(run(*given))

    return compiled
