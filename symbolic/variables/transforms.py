"""torch.func inside a frame: the function is traced into a graph of its own, its transform is an operation."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import apis, eager_transforms
from torch._functorch.vmap import _process_batched_inputs, vmap_impl
from torch.autograd import forward_ad
from torch.utils._pytree import SUPPORTED_NODES, tree_flatten, tree_map, tree_unflatten

from symbolic import polyfills, transforms
from symbolic.errors import GraphBreak
from symbolic.graph import OPERATION_RAISES
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.containers import TupleVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.tables import handles, known, library
from symbolic.variables.tensors import TensorVariable
from symbolic.variables.torch_functions import CLASSLESS, HANDLERS, REFUSED

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
FALSE = ConstantVariable(False)


# --- arguments --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Named:
    """A tuple or dict of another class: operations get, and give, the plain one."""

    kind: type
    plain: Any


def contents(tx: Translator, variable: Variable) -> Any:
    """Tuples, lists and dicts of variables. Other containers that transforms look into break the graph."""
    kind = variable.python_type()
    if kind is tuple:
        return tuple(contents(tx, item) for item in tx.unpack(variable))
    if kind is list:
        return [contents(tx, item) for item in tx.unpack(variable)]
    if kind is dict:
        return {key.constant(): contents(tx, variable.getitem(tx, key)) for key in tx.unpack(variable)}
    if isinstance(variable, TupleVariable) and (hasattr(kind, "_fields") or kind in SUPPORTED_NODES):
        return Named(kind, tuple(contents(tx, item) for item in variable.items))
    if kind is OrderedDict and isinstance(variable, DictVariable):
        return Named(kind, {key.constant(): contents(tx, value) for key, value in variable.pairs(tx)})
    if kind in SUPPORTED_NODES or issubclass(kind, (tuple, list, dict)):
        raise GraphBreak("container in a function transform", kind.__qualname__)
    return variable


def as_variable(tx: Translator, nested: Any) -> Variable:
    """The opposite of `contents`."""
    if isinstance(nested, Named) and isinstance(nested.plain, tuple):
        return TupleVariable([as_variable(tx, item) for item in nested.plain], cls=nested.kind)
    kind = nested.kind if isinstance(nested, Named) else dict
    nested = nested.plain if isinstance(nested, Named) else nested
    if isinstance(nested, tuple):
        return tx.new_tuple([as_variable(tx, item) for item in nested])
    if isinstance(nested, list):
        return tx.new_list([as_variable(tx, item) for item in nested])
    if isinstance(nested, dict):
        return tx.new_dict([(tx.from_constant(key), as_variable(tx, item)) for key, item in nested.items()], kind)
    return nested


def _rows_of(nested: Any) -> Iterator[tuple[Any, Any]]:
    """What a plain container has, with the places."""
    return iter(nested.items() if isinstance(nested, dict) else enumerate(nested))


def _made(nested: Any, parts: Iterable[Any]) -> Any:
    return dict(zip(nested, parts, strict=True)) if isinstance(nested, dict) else type(nested)(parts)


def _plain(nested: Any) -> Any:
    """The same without the classes of tuples and dicts."""
    if isinstance(nested, Named):
        return _plain(nested.plain)
    if isinstance(nested, (tuple, list, dict)):
        return _made(nested, [_plain(part) for _, part in _rows_of(nested)])
    return nested


def _again(nested: Any, leaves: Iterator[Any]) -> Any:
    """The same with other leaves."""
    if isinstance(nested, Named):
        return Named(nested.kind, _again(nested.plain, leaves))
    if isinstance(nested, (tuple, list, dict)):
        return _made(nested, [_again(part, leaves) for _, part in _rows_of(nested)])
    return next(leaves)


def _has_named(nested: Any) -> bool:
    if isinstance(nested, (tuple, list, dict)):
        return any(_has_named(part) for _, part in _rows_of(nested))
    return isinstance(nested, Named)


def _classed(tx: Translator, like: Any, found: Variable) -> Variable:
    """What an operation gave, of the classes that are in a nested value `like` it."""
    if not _has_named(like):
        return found
    plain = like.plain if isinstance(like, Named) else like
    keys = [tx.from_constant(at) for at, _ in _rows_of(plain)]
    parts = [_classed(tx, part, found.getitem(tx, key)) for (_, part), key in zip(_rows_of(plain), keys, strict=True)]
    made = _made(plain, parts)
    return as_variable(tx, Named(like.kind, made) if isinstance(like, Named) else made)


def _check_dims(dims: Any, nested: Any) -> None:
    """Dims that are said one by one within a named tuple would have to be in one."""
    if not _has_named(nested) or isinstance(dims, (int, type(None))):
        return
    if isinstance(nested, Named) or type(dims) is not type(nested) or len(dims) != len(nested):
        raise GraphBreak("container in a function transform", "with dims of its own")
    for at, part in _rows_of(nested):
        _check_dims(dims[at], part)


def _check_plain(nested: Any) -> None:
    if _has_named(nested):
        raise GraphBreak("container in a function transform", "where results are pulled back or pushed forward")


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
) -> tuple[Variable, Any]:
    """`function` as a graph of the tensors in `args`, and what it gives, nested; for flat ones `stand_in` answers with
    what the function sees."""
    if torch.is_inference_mode_enabled() and operation is not transforms.vmap:
        raise GraphBreak("function transform in inference mode")
    leaves = tree_flatten(_plain(args))[0]
    with torch.enable_grad():
        seen = tx.graph.fake_run("function transform", stand_in, [[_fake(leaf) for leaf in leaves]], {})
    with tx.graph.inside(operation) as inner:
        own = [
            tx.graph.add_inner_input(inner, leaf.node.name, new) if isinstance(leaf, TensorVariable) else leaf
            for leaf, new in zip(leaves, seen, strict=True)
        ]
        result = contents(tx, tx.call(function, [as_variable(tx, item) for item in _again(args, iter(own))], kwargs))
        tx.graph.end_inner(inner, as_variable(tx, _plain(result)))
    return tx.graph.add_inner(inner), result


def _node(
    tx: Translator, operation: Callable[..., Any], inner: Variable, options: list[Variable], *args: Any
) -> Variable:
    shown = [as_variable(tx, tree_map(_shown, _plain(each))) for each in args]
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
    return [at in positions for at, arg in enumerate(args) for _ in tree_flatten(_plain(arg))[0]]


# --- transforms -------------------------------------------------------------------------------------------------------
def _differentiated(
    tx: Translator, operation: Callable[..., Any], func: Variable, argnums: Variable, args: list[Any],
    kwargs: dict[str, Variable],
) -> tuple[Variable, Any]:
    chosen = _chosen(_python(tx, argnums), args)
    with torch.enable_grad():
        return _traced(tx, operation, func, args, kwargs, lambda flat: list(map(_leaf, flat, chosen)))


def _gradient(operation: Callable[..., Any]) -> Callable[..., Variable]:
    def handler(
        tx: Translator, func: Variable, argnums: Variable, has_aux: Variable, args: Variable, kwargs: Variable
    ) -> Variable:
        nested = list(contents(tx, args))
        named = {key.constant(): kwargs.getitem(tx, key) for key in tx.unpack(kwargs)}
        inner, result = _differentiated(tx, operation, func, argnums, nested, named)
        found = _node(tx, operation, inner, [argnums, has_aux], tuple(nested))
        numbers = _python(tx, argnums)
        like = nested[numbers] if isinstance(numbers, int) else tuple(nested[number] for number in numbers)
        if tx.truth(has_aux) and isinstance(result, Named):  # the pair itself is taken apart
            result = result.plain
        if operation is transforms.grad_and_value:
            like = (like, result)
        elif tx.truth(has_aux):
            like = (like, result[1])
        return _classed(tx, like, found)

    return handler


def _vjp(
    tx: Translator, func: Variable, *primals: Variable, argnums: Variable = NONE, has_aux: Variable = FALSE
) -> Variable:
    nested = [contents(tx, primal) for primal in primals]
    inner, result = _differentiated(tx, transforms.vjp, func, argnums, nested, {})
    _check_plain([nested, result])
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
    inner, result = _traced(tx, transforms.jvp, func, list(nested), {}, lambda flat: list(map(_like, flat)))
    _check_plain([nested, directions, result])
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
        if randomness.constant() == "same":  # as often as there are chunks
            raise GraphBreak("function transform in chunks", "vmap(..., randomness='same', chunk_size=...)")
        given = [func, in_dims, out_dims, randomness, chunk_size, tx.new_tuple(list(args))]
        named = tx.new_dict([(ConstantVariable(name), value) for name, value in kwargs.items()])
        return tx.inline(polyfills.vmap_in_chunks, [*given, named], {})
    nested = [contents(tx, arg) for arg in args]
    spec, dims = tree_flatten(_plain(nested))[1], _python(tx, in_dims)
    _check_dims(dims, tuple(nested))

    def rows(flat: list[Any]) -> list[Any]:
        _, places, leaves, _ = _process_batched_inputs(dims, tuple(tree_unflatten(flat, spec)), func)  # type: ignore[arg-type]
        pairs = zip(leaves, places, strict=True)
        return [_like(leaf if dim is None else _row(leaf, dim)) for leaf, dim in pairs]

    inner, result = _traced(tx, transforms.vmap, func, nested, kwargs, rows)
    _check_dims(_python(tx, out_dims), result)
    return _classed(tx, result, _node(tx, transforms.vmap, inner, [in_dims, out_dims, randomness], tuple(nested)))


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
