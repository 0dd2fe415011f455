"""Small programs by tables: how an input is written x which inputs share memory x who requires gradients x what comes
back x the mode of torch. Numbers are small integers, so that equal means equal: in float64, which autocast leaves alone,
and in float32 where it is on."""
from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from tests.codegen.aot.results import CAST, OUTPUTS
from tests.codegen.aot.sharing import ALIASES, GRADS, Inputs, Kind
from tests.codegen.aot.writes import MUTATIONS

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@dataclass(frozen=True)
class Cell:
    mutation: str
    alias: str
    grad: str
    output: str
    mode: str = "grad"
    inference_inputs: bool = False
    sizes: tuple[int, int] = (2, 3)

    def __str__(self) -> str:
        parts = [self.mutation, self.alias, self.grad, self.output, self.mode]
        return "-".join(parts + ["inference_inputs"] * self.inference_inputs)

    def inputs(self) -> Inputs:
        with torch.inference_mode(self.inference_inputs):
            dtype = torch.float32 if self.mode == "autocast" else torch.float64
            return GRADS[self.grad](Kind(self.alias, dtype, self.sizes))

    def larger(self) -> Cell:
        return replace(self, sizes=(4, 5))

    def under(self) -> AbstractContextManager[Any]:
        return MODES[self.mode]()

    def program(self, x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        more = MUTATIONS[self.mutation](x, y)
        return [*OUTPUTS[self.output](x, y), *(more if isinstance(more, tuple) else () if more is None else (more,))]


def drawn(count: int, seed: int) -> list[Cell]:
    """Programs drawn from the whole product; grad mode as often as all others together."""
    rng = random.Random(seed)
    tables = (MUTATIONS, ALIASES, GRADS, OUTPUTS)
    cells = []
    for _ in range(count):
        mode = "grad" if rng.random() < 0.5 else rng.choice(list(MODES))
        names = [rng.choice(list(table)) for table in tables]
        cells.append(Cell(*names, mode, mode == "inference" and rng.random() < 0.5))
    return cells


def covering() -> Iterator[Cell]:
    """Every pair of a mutation with an alias under every kind of gradients, and every pair of an output with an alias
    and with a mutation: the tables that are no part of the pair are gone through in turn. So also what autocast casts
    with an alias under every kind of gradients."""
    outputs, mutations, grads = itertools.cycle(OUTPUTS), itertools.cycle(MUTATIONS), itertools.cycle(GRADS)
    aliases = itertools.cycle(ALIASES)
    modes = itertools.cycle(("grad", "no_grad", "grad", "autocast", "grad", "inference", "autocast"))
    for mutation, alias, grad in itertools.product(MUTATIONS, ALIASES, GRADS):
        yield Cell(mutation, alias, grad, next(outputs))
    for output, alias in itertools.product(OUTPUTS, ALIASES):
        yield Cell(next(mutations), alias, next(grads), output, next(modes))
    for output, mutation in itertools.product(OUTPUTS, MUTATIONS):
        mode = next(modes)
        yield Cell(mutation, next(aliases), next(grads), output, mode, mode == "inference")
    for output, alias, grad in itertools.product(CAST, ALIASES, GRADS):
        yield Cell(next(mutations), alias, grad, output, "autocast")
