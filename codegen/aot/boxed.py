"""Graphs as functions of one list, which they empty: what they were given dies where it is read last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from torch import fx
from torch.fx.graph import CodeGen
from torch.fx.graph_module import _forward_from_src


class _Boxed(CodeGen):
    """Python holds the arguments of a call until it ends; the items of a list that was emptied nobody holds."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names = [text.split(":")[0].split("#")[0].strip() for text in free_vars if text != "self"]
        taken = [f"    {', '.join(names)}, = given", "    given.clear()"] if names else []
        return "\n".join([f"def {self._func_name}(self, given){maybe_return_annotation}:", *taken])


def boxed(graph: fx.GraphModule, example_inputs: Sequence[Any] = ()) -> Callable[[list[Any]], Any]:
    """A graph compiler that leaves the graph to ATen. What else calls or prints the graph finds it as it was."""
    before = graph.graph._codegen
    graph.graph.set_codegen(_Boxed())
    try:
        code = graph.graph.python_code("self")
    finally:
        graph.graph.set_codegen(before)
    return MethodType(_forward_from_src(code.src, code.globals), graph)
