"""torch.func inside a frame: the function is traced into a graph of its own, its transform is an operation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import apis, eager_transforms
from torch._functorch.vmap import _process_batched_inputs, vmap_impl
from torch.autograd import forward_ad
from torch.utils._pytree import SUPPORTED_NODES, tree_flatten, tree_map, tree_unflatten

from symbolic import transforms
from symbolic.errors import GraphBreak
from symbolic.graph import OPERATION_RAISES
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tables import handles, known, library
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import CLASSLESS, HANDLERS, REFUSED

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
FALSE = ConstantVariable(False)


# --- arguments --------------------------------------------------------------------------------------------------------
def contents(tx: Translator, variable: Variable) -> Any:
    """Tuples, lists and dicts of variables. Other containers that transforms look into break the graph."""
    kind = variable.python_type()
    if kind is tuple:
        return tuple(contents(tx, item) for item in tx.unpack(variable))
    if kind is list:
        return [contents(tx, item) for item in tx.unpack(variable)]
    if kind is dict:
        return {key.constant(): contents(tx, variable.getitem(tx, key)) for key in tx.unpack(variable)}
    if kind in SUPPORTED_NODES or issubclass(kind, (tuple, list, dict)):
        raise GraphBreak("container in a function transform", kind.__qualname__)
    return variable


def as_variable(tx: Translator, nested: Any) -> Variable:
    """The opposite of `contents`."""
    if isinstance(nested, tuple):
        return tx.new_tuple([as_variable(tx, item) for item in nested])
    if isinstance(nested, list):
        return tx.new_list([as_variable(tx, item) for item in nested])
    if isinstance(nested, dict):
        return tx.new_dict([(tx.from_constant(key), as_variable(tx, item)) for key, item in nested.items()])
    return nested


def _fake(leaf: Any) -> Any:
    return leaf.fake if isinstance(leaf, TensorVariable) else leaf


def _shown(leaf: Variable) -> Variable:
    """What the node gets: objects that are no values of the graph are the traced function's affair."""
    return leaf if isinstance(leaf, TensorVariable) or leaf.is_constant() else NONE


def _python(tx: Translator, variable: Variable) -> Any:
    value = known(tx, variable)
    if value is MISSING:
        raise GraphBreak("option of a function transform not known", variable.describe())
    return value


# --- the function -----------------------------------------------------------------------------------------------------
def _traced(
    tx: Translator, operation: Callable[..., Any], function: Variable, args: list[Any], kwargs: dict[str, Variable],
    stand_in: Callable[..., Any],
) -> Variable:
    """`function` as a graph of the tensors in `args`; for flat ones `stand_in` answers with what the function sees."""
    if torch.is_inference_mode_enabled():
        raise GraphBreak("function transform in inference mode")
    leaves, spec = tree_flatten(args)
    with torch.enable_grad():
        seen = tx.graph.fake_run("function transform", stand_in, [[_fake(leaf) for leaf in leaves]], {})
    with tx.graph.inside(operation) as inner:
        own = [
            tx.graph.add_inner_input(inner, leaf.node.name, new) if isinstance(leaf, TensorVariable) else leaf
            for leaf, new in zip(leaves, seen, strict=True)
        ]
        result = tx.call(function, [as_variable(tx, item) for item in tree_unflatten(own, spec)], kwargs)
        tx.graph.end_inner(inner, as_variable(tx, contents(tx, result)))
    return tx.graph.add_inner(inner)


def _node(
    tx: Translator, operation: Callable[..., Any], inner: Variable, options: list[Variable], *args: Any
) -> Variable:
    shown = [as_variable(tx, tree_map(_shown, each)) for each in args]
    return tx.graph.call(operation, [inner, *options, *shown])


def _like(value: Any) -> Any:
    """A tensor of the same geometry, no view, with a history where `value` needs gradients."""
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.copy_(value) if value.requires_grad else made


def _leaf(value: Any, is_chosen: bool) -> Any:
    """What a function that is differentiated by some of its arguments sees of one."""
    if not isinstance(value, torch.Tensor):
        return value
    return _like(value.detach()).requires_grad_(is_chosen and (value.is_floating_point() or value.is_complex()))


def _chosen(argnums: Any, args: list[Any]) -> list[bool]:
    """For each flat argument, whether it is differentiated."""
    numbers = range(len(args)) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
    positions = {number % len(args) for number in numbers}
    return [at in positions for at, arg in enumerate(args) for _ in tree_flatten(arg)[0]]


# --- transforms -------------------------------------------------------------------------------------------------------
def _differentiated(
    tx: Translator, operation: Callable[..., Any], func: Variable, argnums: Variable, args: list[Any],
    kwargs: dict[str, Variable],
) -> Variable:
    chosen = _chosen(_python(tx, argnums), args)
    with torch.enable_grad():
        return _traced(tx, operation, func, args, kwargs, lambda flat: list(map(_leaf, flat, chosen)))


def _gradient(operation: Callable[..., Any]) -> Callable[..., Variable]:
    def handler(
        tx: Translator, func: Variable, argnums: Variable, has_aux: Variable, args: Variable, kwargs: Variable
    ) -> Variable:
        nested = list(contents(tx, args))
        named = {key.constant(): kwargs.getitem(tx, key) for key in tx.unpack(kwargs)}
        inner = _differentiated(tx, operation, func, argnums, nested, named)
        return _node(tx, operation, inner, [argnums, has_aux], tuple(nested))

    return handler


def _vjp(
    tx: Translator, func: Variable, *primals: Variable, argnums: Variable = NONE, has_aux: Variable = FALSE
) -> Variable:
    nested = [contents(tx, primal) for primal in primals]
    inner = _differentiated(tx, transforms.vjp, func, argnums, nested, {})
    return _node(tx, transforms.vjp, inner, [argnums, has_aux], tuple(nested))


def _jvp(
    tx: Translator, func: Variable, primals: Variable, tangents: Variable, argnums: Variable, *,
    strict: Variable = FALSE, has_aux: Variable = FALSE,
) -> Variable:
    if any(around.operation is transforms.jvp for around in tx.graph.inner):
        raise GraphBreak("forward mode inside of forward mode", func.describe(), "take the inner derivative by jacrev")
    nested, directions = contents(tx, primals), contents(tx, tangents)
    if not isinstance(nested, tuple):
        raise GraphBreak(OPERATION_RAISES, "primals of jvp that are no tuple")
    if any(_has_symbols(leaf) for leaf in tree_flatten(nested)[0]):
        raise GraphBreak(OPERATION_RAISES, "forward-mode differentiation of tensors of any size")
    try:
        forward_ad._maybe_load_decompositions()  # the first time warns: here, where it is shown as the program says
    except Warning as error:
        raise GraphBreak(OPERATION_RAISES, str(error)) from error
    inner = _traced(tx, transforms.jvp, func, list(nested), {}, lambda flat: list(map(_like, flat)))
    return _node(tx, transforms.jvp, inner, [argnums, strict, has_aux], nested, directions)


def _has_symbols(leaf: Any) -> bool:
    return isinstance(leaf, TensorVariable) and any(isinstance(size, torch.SymInt) for size in leaf.fake.shape)


def _row(batch: torch.Tensor, dim: int) -> torch.Tensor:
    """One of a batch; of none, too."""
    return batch.select(dim, 0) if batch.shape[dim] else batch.sum(dim).to(batch.dtype)


def _vmap(
    tx: Translator, func: Variable, in_dims: Variable, out_dims: Variable, randomness: Variable, chunk_size: Variable,
    *args: Variable, **kwargs: Variable,
) -> Variable:
    if chunk_size.constant() is not None:
        raise GraphBreak("function transform in chunks", "vmap(..., chunk_size=...)")
    nested = [contents(tx, arg) for arg in args]
    spec, dims = tree_flatten(nested)[1], _python(tx, in_dims)

    def rows(flat: list[Any]) -> list[Any]:
        _, places, leaves, _ = _process_batched_inputs(dims, tuple(tree_unflatten(flat, spec)), func)  # type: ignore[arg-type]
        pairs = zip(leaves, places, strict=True)
        return [_like(leaf if dim is None else _row(leaf, dim)) for leaf, dim in pairs]

    inner = _traced(tx, transforms.vmap, func, nested, kwargs, rows)
    return _node(tx, transforms.vmap, inner, [in_dims, out_dims, randomness], tuple(nested))


HANDLERS[eager_transforms.grad_impl] = _gradient(transforms.grad)
HANDLERS[eager_transforms.grad_and_value_impl] = _gradient(transforms.grad_and_value)
HANDLERS[eager_transforms._vjp_with_argnums] = _vjp
HANDLERS[eager_transforms._jvp_with_argnums] = _jvp
HANDLERS[vmap_impl] = _vmap
# What of a class comes out of these is of that class only where nothing was done to it.
CLASSLESS.update((eager_transforms._jvp_with_argnums, vmap_impl))
REFUSED.update({eager_transforms.linearize: "function transform", eager_transforms.functionalize: "function transform"})
if hasattr(apis, "_wraps_without_dynamo_attrs"):
    handles(apis._wraps_without_dynamo_attrs)(lambda tx, func: tx.call(library(tx, functools.wraps), [func], {}))
