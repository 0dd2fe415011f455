"""Which nodes of eager autograd save something, and what of that a backward without `retain_graph` leaves.

In eager code a node looks at all that it saved whenever a backward runs through it, lets go of it after the last one,
and raises when another comes. Here all nodes of a level are one, so they are told apart by the outputs that lead to
them and the gradients that they lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import fx

from codegen.aot.facts import Saver
from codegen.aot.reach import Key, reach


def bits(flags: Iterable[Any]) -> int:
    return sum(1 << at for at, flag in enumerate(flags) if flag)


# --- what is found out ------------------------------------------------------------------------------------------------
def find_savers(
    outputs: Sequence[Key], ends: Sequence[Key], recorded: Mapping[fx.Node, Any]
) -> tuple[tuple[int, ...], tuple[Saver, ...], bool]:
    """Of a level, which outputs lead to each end, where its gradients go, the savers between them, and whether other
    nodes keep something in their own way. `recorded`: the nodes of its backward with the autograd nodes that were
    applied."""
    gradients, above = reach(outputs, {key: 1 << at for at, key in enumerate(ends)}, frozenset(ends))
    leads = dict.fromkeys(ends, 0)
    for node in above:
        for key in node.next_functions:
            if key in leads:
                leads[key] |= above[node]
    reading = {recorded[node] for node in recorded if any(map(_is_saved, node.all_input_nodes))}
    found: dict[tuple[int, int], frozenset[int]] = {}
    keeps = False
    for node, below in gradients.items():
        memories = _saved_by(node, node in reading) if below else None
        if memories is not None:
            known = found.get((above[node], below), frozenset())
            found[above[node], below] = known | memories
        keeps = keeps or (memories is None and bool(below) and node in reading)
    return tuple(leads.values()), tuple(Saver(*key, memories) for key, memories in found.items()), keeps


def _is_saved(node: fx.Node) -> bool:
    return node.meta["phase"] == "forward" and isinstance(node.meta["val"], torch.Tensor)


def _saved_by(node: Any, reads: bool) -> frozenset[int] | None:
    """The memories of what it saved; None if that is nothing. A node that does not say saved something if it `reads`
    what was there before; what the hooks of a checkpoint have packed is no tensor."""
    kind: Any = type(node)
    names = _saving(kind)
    saved = [each.data for name in names for each in _several(getattr(node, name)) if each.data is not None]
    if not saved and (names or not reads):
        return None
    return frozenset(each.untyped_storage()._cdata for each in saved if isinstance(each, torch.Tensor))


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


@cache
def _saving(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))


# --- what is left -----------------------------------------------------------------------------------------------------
def passed(savers: Sequence[Saver], outputs: int, gradients: int) -> int:
    """Through which of them a backward of these outputs for these gradients runs, as bits."""
    return bits(each.outputs & outputs and each.gradients & gradients for each in savers)


def left(savers: Sequence[Saver], leads: Sequence[int], released: int) -> int:
    """The gradients that can still be had of some output when these savers were released, as bits. `leads`: the outputs
    that lead to each."""
    gone = [0] * len(leads)
    for saver in (each for at, each in enumerate(savers) if released >> at & 1):
        for at in range(saver.gradients.bit_length()):
            gone[at] |= saver.outputs if saver.gradients >> at & 1 else 0
    return bits(outputs & ~none for outputs, none in zip(leads, gone, strict=True))
