"""Derivatives after branches: autograd follows what ran, which is known when the graph runs.

Stand-ins for what a branch gives have the history of both its sides (`symbolic.branches.joined`). So a derivative is
tried for each way through the branches behind it. Where all come to the same, but for values, it is an operation of the
graph; where a tensor has a gradient only one way, or another layout, or memory that it shares, the graph breaks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from symbolic.branches import Choice, choice_of
from symbolic.errors import GraphBreak
from symbolic.gradients import differentiate
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.either import memory

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: How many branches a derivative may go through: there are twice as many ways for each.
_MOST = 3
#: The type of the nodes whose Python is called on the way that ran, and on no other: it may give a gradient for none.
_PythonNode: Any = torch.autograd.function.BackwardCFunction


def check_all_ways(
    tx: Translator, nodes: list[Any], history: Callable[[], Iterator[Any]], args: list[Variable], is_hooked: bool
) -> None:
    """Raises GraphBreak unless `differentiate(*args)`, behind which there are these `nodes`, comes to the same
    whichever sides of branches ran. `history` answers with the nodes of the way that is chosen."""
    if not tx.graph.branches:
        return
    choices = list(dict.fromkeys(choice for node in nodes if (choice := choice_of(node)) is not None))
    is_plain = not (tx.graph.inner or is_hooked or args[4].constant() or tx.graph.shapes is not None)
    if not is_plain or len(choices) > _MOST or not tx.graph.undivided.isdisjoint(nodes):
        raise _break("what ran is not known")
    found = [_result(tx, nodes, history, args) for _ in _ways(choices)] if choices else []
    if any(each != found[0] for each in found):
        raise _break("gradients differ by more than values")


def _break(why: str) -> GraphBreak:
    return GraphBreak("derivative after a branch on a tensor", why, "differentiate in another function")


def _ways(choices: list[Choice]) -> Iterator[None]:
    """Each way through branches, chosen while it is looked at."""
    try:
        for way in itertools.product((True, False), repeat=len(choices)):
            for choice, first in zip(choices, way, strict=True):
                choice.first = first
            yield
    finally:
        for choice in choices:
            choice.first = True


def _result(
    tx: Translator, nodes: list[Any], history: Callable[[], Iterator[Any]], args: list[Variable]
) -> list[Any]:
    """All but the values of the gradients on the way that is chosen."""
    for node in set(nodes) - set(history()):
        if isinstance(node, _PythonNode) and choice_of(node) is None:
            raise _break("a function of Python on one side")
    keep = [*args[:3], ConstantVariable(True), *args[4:]]
    known = {memory(variable.fake) for variable in tx.graph.by_fake.values()}
    places: dict[int, int] = {}
    gradients = tx.graph.fake_run(differentiate, differentiate, tx.graph.fakes(keep), {})
    seen: list[Any] = []
    for each in gradients:
        if each is None:
            seen.append(None)
            continue
        at = memory(each)
        place = at if at in known else places.setdefault(at, -1 - len(places))
        looks = each.shape, each.stride(), each.dtype, each.device, each.layout, each.storage_offset(), each._is_view()
        seen.append((looks, each.requires_grad, place, [each is other for other in gradients]))
    return seen
