"""`torch.cond`, `while_loop`, `map` and `scan`: the functions that they are given only compute, so the first two are
branches and loops of the graph, and what the others do for each slice is done slice by slice.

Gradients they have rules of their own for. `torch.cond`'s are known; where others give some, or any of them refuses
what it is given (results that are arguments, writes, effects), the graph breaks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from symbolic.branches import chosen, loop
from symbolic.errors import GraphBreak, Observed, Restart, SkipFrame
from symbolic.sides import Pairs, Side, Unlike, World, alike, check_apart, may_decide, new_graph, such
from symbolic.torch_state import TorchState
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.either import memory
from symbolic.variables.tables import handles
from symbolic.variables.tensors import NumberOutput, TensorVariable
from symbolic.variables.transforms import as_variable, contents

if TYPE_CHECKING:
    from symbolic.inner import InnerGraph
    from symbolic.translator import Translator

#: The reason of the breaks.
BREAKS = "control flow operator"
Handler = Callable[..., Variable]


def _operator(function: Any) -> Callable[[Handler], Handler]:
    """Registers a handler, which may find that its operands are unlike what it can do."""

    def register(handler: Handler) -> Handler:
        def handle(tx: Translator, *args: Variable, **kwargs: Variable) -> Variable:
            if not may_decide(tx, tx.frames[-1]):
                raise GraphBreak(BREAKS, function.__name__)
            frames = list(tx.frames)
            try:
                return handler(tx, *args, **kwargs)
            except (Unlike, GraphBreak, Observed, SkipFrame) as cause:
                tx.frames[:] = frames
                raise GraphBreak(BREAKS, function.__name__) from cause
            except Restart as restart:
                if restart.step < tx.anchor():
                    raise
                tx.frames[:] = frames
                raise GraphBreak(BREAKS, function.__name__) from restart

        return handles(function)(handle)

    return register


def _run(tx: Translator, inner: InnerGraph, function: Variable, args: list[Any]) -> tuple[Side, Any]:
    """A call in a graph of its own, whose results are new tensors."""
    before = World(tx)
    with tx.graph.into(inner):
        result = contents(tx, tx.call(function, [as_variable(tx, each) for each in args], {}))
    before.check(tx)
    side = Side(inner, -1, {}, before.memories)
    given = _tensors(result)
    check_apart(given, side)
    if not all(map(side.has, given)):
        raise Unlike
    taken = [memory(node.meta["example_value"]) for node in inner.graph.find_nodes(op="placeholder")]
    if len(set(taken)) < len(taken):
        raise Unlike
    return side, result


def _run_apart(tx: Translator, inner: InnerGraph, function: Variable, args: list[Any]) -> Any:
    """What a call gives in a graph of its own, where nothing that it reads needs a gradient."""
    side, result = _run(tx, inner, function, args)
    if _needs_gradient([side]) or any(each.fake.requires_grad for each in _tensors(result)):
        raise Unlike
    return result


def _needs_gradient(sides: Sequence[Side]) -> bool:
    held = [node.meta["example_value"] for side in sides for node in side.inner.held]
    return torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in held)


class _Results(Pairs):
    """What `torch.cond` gives where autograd follows: all of it requires a gradient, whichever side it is of."""

    operation = chosen

    def check(self, one: TensorVariable, other: TensorVariable) -> None:
        if _looks_new(one) != _looks_new(other):
            raise Unlike

    def made(self, tx: Translator, pair: tuple[TensorVariable, TensorVariable]) -> TensorVariable:
        with tx.graph.fake_mode, torch.enable_grad():
            fake = pair[0].fake.detach().requires_grad_().clone()
        tx.graph.undivided.add(fake.grad_fn)
        new = TensorVariable(pair[0].node, fake, pair[0].cls)
        if _looks_new(new) != _looks_new(pair[0]):
            raise Unlike
        tx.graph.go_on(pair[0], new)
        return pair[0]


def _looks_new(variable: TensorVariable) -> tuple[Any, ...]:
    """What a program sees of a new tensor with a gradient. What torch makes of others, nobody knows."""
    fake = variable.fake
    is_usual = fake.is_floating_point() and variable.cls is torch.Tensor and fake.layout is torch.strided
    if not is_usual or fake._is_view() or fake.is_inference() or isinstance(variable, NumberOutput):
        raise Unlike
    return fake.shape, fake.stride(), fake.dtype, fake.device, fake.storage_offset()


def _check_derivative(sides: Sequence[Side], draws: bool) -> None:
    """The derivative computes them again, in which there must be nothing but tensors: not torch's state, nor draws."""
    nodes = [node for side in sides for node in side.inner.graph.nodes if node.op not in ("get_attr", "output")]
    held = [node for side in sides for node in side.inner.held]
    is_plain = all("example_value" in node.meta for node in nodes)
    if draws or not is_plain or any(enabled for enabled, _ in TorchState().autocast.values()):
        raise Unlike
    if not all(isinstance(node.meta["example_value"], torch.Tensor) for node in held):
        raise Unlike


def _tensors(value: Any) -> list[TensorVariable]:
    found = tree_flatten(value)[0]
    if not all(isinstance(each, TensorVariable) for each in found):
        raise Unlike
    return found


def _truth(condition: Any) -> TensorVariable:
    if not isinstance(condition, TensorVariable) or condition.fake.shape or condition.fake.dtype is not torch.bool:
        raise Unlike
    return condition


@_operator(torch.cond)
def _cond(
    tx: Translator, pred: Variable, true_fn: Variable, false_fn: Variable, operands: Variable | None = None
) -> Variable:
    args = list(contents(tx, operands)) if operands is not None else []
    if isinstance(pred, ConstantVariable) and type(pred.value) in (bool, int, float):
        return tx.call(true_fn if pred.value else false_fn, [as_variable(tx, each) for each in args], {})
    condition = _truth(pred)
    _tensors(args)
    draws = tx.graph.draws
    sides, results = zip(*(_run(tx, new_graph(tx, chosen), each, args) for each in (true_fn, false_fn)), strict=True)
    (first, spec), (second, other) = map(tree_flatten, results)
    if spec != other:
        raise Unlike
    if _needs_gradient(sides):
        _check_derivative(sides, tx.graph.draws != draws)
        pairs: Pairs = _Results(list(sides))
    else:
        pairs = Pairs(list(sides))
        if any(each.fake.requires_grad for each in (*first, *second)):
            raise Unlike
    merged = [pairs.merge(tx, *both) for both in zip(first, second, strict=True)]
    pairs.record(tx, condition)
    return as_variable(tx, tree_unflatten([pairs.settled(tx, each) for each in merged], spec))


@_operator(while_loop)
def _while_loop(tx: Translator, cond_fn: Variable, body_fn: Variable, carried_inputs: Variable) -> Variable:
    carried = contents(tx, carried_inputs)
    # Where there is no turn, copies come back.
    first = tree_map(lambda each: each.method(tx, "clone", [], {}), carried)
    leaves, spec = _tensors(first), tree_flatten(first)[1]
    condition = _truth(_run_apart(tx, new_graph(tx, chosen), cond_fn, list(first)))
    condition = _truth(tx.call(cond_fn, [as_variable(tx, each) for each in first], {}))
    inner = new_graph(tx, chosen)
    given = [tx.graph.add_inner_input(inner, each.node.name, such(tx, each)) for each in leaves]
    result = _run_apart(tx, inner, body_fn, list(tree_unflatten(given, spec)))
    left = _tensors(result)
    if tree_flatten(result)[1] != spec or not all(map(alike, leaves, left)):
        raise Unlike
    with tx.graph.into(inner):
        goes_on = _truth(tx.call(cond_fn, [as_variable(tx, each) for each in result], {}))
        tx.graph.end_inner(inner, tx.new_tuple([goes_on, *left]))
    made = [TensorVariable(each.node, such(tx, each)) for each in leaves]
    tx.graph.by_fake.update((id(each.fake), each) for each in made)
    tx.graph.add_region(loop, [condition, tx.graph.add_inner(inner), tx.new_tuple([*leaves])], made)
    return as_variable(tx, tree_unflatten(made, spec))


@_operator(map_)
def _map(tx: Translator, f: Variable, xs: Variable, *args: Variable) -> Variable:
    leaves, spec = tree_flatten(contents(tx, xs))
    rows = _rows(tx, leaves)
    further = [contents(tx, each) for each in args]
    _run_apart(tx, new_graph(tx, chosen), f, [tree_unflatten(rows[0], spec), *further])
    found = [contents(tx, tx.call(f, [as_variable(tx, tree_unflatten(row, spec)), *args], {})) for row in rows]
    return as_variable(tx, _stacked(tx, found, _joined))


@_operator(scan)
def _scan(
    tx: Translator, combine_fn: Variable, init: Variable, xs: Variable, *, dim: Variable | None = None,
    reverse: Variable | None = None,
) -> Variable:
    at = dim.constant() if dim is not None else 0
    backwards = reverse is not None and reverse.constant() is True
    leaves, spec = tree_flatten(contents(tx, xs))
    carry = contents(tx, init)
    if type(at) is not int or not 0 <= at < min(each.fake.dim() for each in _tensors(leaves)):
        raise Unlike
    moved = [_moved(tx, each, at, 0) for each in leaves]
    rows = _rows(tx, [_flipped(tx, each) if backwards else each for each in moved])
    _run_apart(tx, new_graph(tx, chosen), combine_fn, [carry, tree_unflatten(rows[0], spec)])
    found, first = [], carry
    for row in rows:
        given = [as_variable(tx, each) for each in (carry, tree_unflatten(row, spec))]
        carry, out = contents(tx, tx.call(combine_fn, given, {}))
        if tree_flatten(carry)[1] != tree_flatten(first)[1] or not all(map(alike, _tensors(carry), _tensors(first))):
            raise Unlike
        found.append(out)
    stacked = _stacked(tx, found, torch.stack)
    if backwards:
        stacked = tree_map(lambda each: _flipped(tx, each), stacked)
    stacked = tree_map(lambda each: _moved(tx, each, 0, at) if at < each.fake.dim() else each, stacked)
    return as_variable(tx, (carry, stacked))


def _moved(tx: Translator, tensor: Variable, source: int, target: int) -> Variable:
    if source == target:
        return tensor
    return tx.graph.call(torch.movedim, [tensor, ConstantVariable(source), ConstantVariable(target)])


def _flipped(tx: Translator, tensor: Variable) -> Variable:
    return tx.graph.call(torch.flip, [tensor, tx.new_list([ConstantVariable(0)])])


def _rows(tx: Translator, leaves: list[Any]) -> list[list[Variable]]:
    """The slices of all tensors, which are equally many."""
    lengths = {each.fake.shape[0] if each.fake.dim() else 0 for each in _tensors(leaves)}
    length = lengths.pop() if len(lengths) == 1 else 0
    if not 0 < length <= tx.options.unroll_limit:
        raise Unlike
    return [[tx.graph.call(operator.getitem, [each, ConstantVariable(at)]) for each in leaves] for at in range(length)]


def _stacked(tx: Translator, found: list[Any], stack: Callable[..., Any]) -> Any:
    columns = zip(*map(_tensors, found), strict=True)
    stacked = [tx.graph.call(stack, [tx.new_list([*column])]) for column in columns]
    return tree_unflatten(stacked, tree_flatten(found[0])[1])


def _joined(rows: list[torch.Tensor]) -> torch.Tensor:
    """`torch.stack(rows)` as it is below autograd, where it shows that it is a view."""
    if not rows[0].dim():
        return torch.stack(rows)
    return torch.cat(rows).view(len(rows), *rows[0].shape)
