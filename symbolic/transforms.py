"""torch.func in a graph: a transform is one node, and the function that it transforms is a graph that is its argument.

These functions stand in graphs and run with them. Each is the transform of torch.func of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._functorch import eager_transforms
from torch._functorch.vmap import vmap_impl
from torch.utils._pytree import tree_leaves

#: A graph (or what stands for one) of the tensors in its arguments, one by one, then of what it holds; and this.
Inner = tuple[Callable[..., Any], tuple[Any, ...]]


def grad(inner: Inner, argnums: Any, has_aux: bool, args: tuple[Any, ...]) -> Any:
    return eager_transforms.grad_impl(_function(inner), argnums, has_aux, args, {})


def grad_and_value(inner: Inner, argnums: Any, has_aux: bool, args: tuple[Any, ...]) -> Any:
    return eager_transforms.grad_and_value_impl(_function(inner), argnums, has_aux, args, {})


def vmap(inner: Inner, in_dims: Any, out_dims: Any, randomness: str, args: tuple[Any, ...]) -> Any:
    return vmap_impl(_function(inner), in_dims, out_dims, randomness, None, *args)


def vjp(inner: Inner, argnums: Any, has_aux: bool, primals: tuple[Any, ...]) -> Any:
    return eager_transforms._vjp_with_argnums(_function(inner), *primals, argnums=argnums, has_aux=has_aux)


def jvp(
    inner: Inner, argnums: Any, strict: bool, has_aux: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> Any:
    function = _function(inner)
    return eager_transforms._jvp_with_argnums(function, primals, tangents, argnums, strict=strict, has_aux=has_aux)


ALL = (grad, grad_and_value, vmap, vjp, jvp)


def _function(inner: Inner) -> Callable[..., Any]:
    graph, held = inner
    # Called itself, a module of fx prints where it raises.
    run = graph.forward if isinstance(graph, fx.GraphModule) else graph

    def function(*args: Any) -> Any:
        return run(*(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)), *held)

    return function
