"""Functions that have nothing to do with tensors, and are captured again and again all the same.

A function of plain Python that breaks the graph has a capture for each piece, and each piece has continuations, which
differ in what they are handed and in the callers that were inlined around them: the limit of entries bounds each of
them, and all together they have no bound. So captures that meet no tensor are counted for the function, with all of its
continuations: those that end where one of its captures ended before, for a program that goes on from break to break
comes to its tensors in the end. A function with too many of them runs as it is written wherever it is handed nothing
that speaks for tensors; a single capture that meets one, and it is compiled from then on as any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import CellType, FunctionType
from typing import Any

import torch

from symbolic.capture import Break, Capture
from symbolic.errors import Place
from symbolic.loops import place_of
from symbolic.variables.constants import is_a


class Barren:
    """What captures have come to, by function. `limit`: of captures in vain that end where others ended."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._ends: set[tuple[Place, Place]] = set()
        self._again: Counter[Place] = Counter()
        self._those: set[Place] = set()
        self._fruitful: set[Place] = set()

    def serves(self, function: FunctionType, slots: Iterable[Any]) -> bool:
        """Whether a call of the function is not worth a capture."""
        return bool(self._those) and _place(function) in self._those and not _speaks_for_tensors(function, slots)

    def learn(self, function: FunctionType, slots: Iterable[Any], captured: Capture) -> bool:
        """Takes in what a capture came to; whether it was the one too many."""
        place = _place(function)
        if captured.graph.by_fake:
            self._fruitful.add(place)
            self._those.discard(place)
        elif place not in self._fruitful and not _speaks_for_tensors(function, slots):
            end = (place, _end(captured))
            self._again[place] += end in self._ends
            self._ends.add(end)
            if self._again[place] == self.limit:
                self._those.add(place)
                return True
        return False

    def clear(self) -> None:
        for each in (self._ends, self._again, self._those, self._fruitful):
            each.clear()


def worth_it(value: Any) -> bool:
    """Whether an argument speaks for tensor work: a tensor, a module, or a container of such."""
    if is_a(value, (torch.Tensor, torch.nn.Module)):
        return True
    if type(value) in (list, tuple):
        return any(map(worth_it, value[:8]))
    if type(value) is dict:
        return any(map(worth_it, list(value.values())[:8]))
    return False


def _speaks_for_tensors(function: FunctionType, slots: Iterable[Any]) -> bool:
    """Whether the function is handed something worth it, or holds it in its closure."""
    return any(map(worth_it, slots)) or any(worth_it(_content(cell)) for cell in function.__closure__ or ())


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _place(function: FunctionType) -> Place:
    """The same for a function and for its continuations."""
    code = function.__code__
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _end(captured: Capture) -> Place:
    if not isinstance(captured.exit, Break):
        return ()
    frame = captured.exit.frames[-1]
    return place_of(frame.code, frame.current)
