"""`torch.utils.checkpoint.checkpoint` inside a frame: the function is traced into a graph of its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch.utils.checkpoint

from sideeffects.effects import DELETED, Call
from symbolic.checkpoints import checkpoint
from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.tables import handles
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
#: Options that the graph hands on.
_OPTIONS = ("determinism_check", "early_stop", "preserve_rng_state")


@handles(inspect.unwrap(torch.utils.checkpoint.checkpoint))
def _checkpoint(
    tx: Translator, function: Variable, *args: Variable, use_reentrant: Variable = NONE, **kwargs: Variable
) -> Variable:
    if use_reentrant.constant() is not False:
        raise GraphBreak("reentrant checkpoint", hint="use_reentrant=False can be captured")
    if "context_fn" in kwargs or "debug" in kwargs:
        raise GraphBreak("checkpoint with contexts", "context_fn or debug")
    options = [(tx.from_constant(name), kwargs.pop(name)) for name in _OPTIONS if name in kwargs]
    before = reachable(tx, [function, *args, *kwargs.values()])
    written = len(tx.ledger.written)
    with tx.graph.inside(checkpoint) as inner:
        result = tx.call(function, list(args), kwargs)
        made = [v for v in reachable(tx, [result]) if isinstance(v, TensorVariable) and v.node.graph is inner.graph]
        tx.graph.end_inner(inner, tx.new_tuple(list(made)))
    for target in tx.ledger.written[written:]:
        if target is None or target.source is not None or target in before:
            raise GraphBreak("side effect in a checkpoint", "it happens again in the backward")
    held = list(inner.held)
    given = [held.index(arg.node) for arg in args if isinstance(arg, TensorVariable) and arg.node in inner.held]
    described = [tx.graph.add_inner(inner), tx.from_constant(tuple(given)), tx.new_dict(options)]
    tx.graph.add_region(checkpoint, described, made)
    return result


def reachable(tx: Translator, start: list[Variable]) -> dict[Variable, None]:
    """What the frames can get at, what has been done to the world, and these."""
    waiting: list[Any] = list(start)
    found: dict[Variable, None] = {}
    for effect in tx.ledger.effects():
        if isinstance(effect, Call):
            waiting += [effect.function, *effect.args, *effect.kwargs.values()]
        else:
            waiting.append(effect.target)
    for frame in tx.frames:
        waiting += [*frame.locals.values(), *frame.cells.values(), *frame.stack]
    while waiting:
        variable = waiting.pop()
        if variable is not DELETED and variable not in found:
            found[variable] = None
            waiting += [*variable.reachable(), *tx.ledger.stores(variable).values()]
    return found
