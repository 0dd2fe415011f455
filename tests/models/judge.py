"""One model, eagerly and compiled: how many graphs it is, why it breaks, and whether anything that can be seen differs.

Models ask `torch.compiler.is_compiling()` and compute in another way if so: masks are made that eager code does without
where no token is masked. They are compared with eager code that is told the same; tokens are those of plain eager code.

A way to run a model is a function `(call, module, inputs) -> result`; `judge` calls it several times in both worlds, each
with a module of its own, and compares result, parameters, gradients, buffers and random state.
"""
from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.utils import _pytree as pytree

from jit import backends
from jit.api import door_for
from jit.compiler import Compiler
from jit.config import config
from symbolic import polyfills
from tests.models.families import Inputs, Model
from tests.snapshot import Fields, Snapshot, difference

#: (rtol, atol) of what kernels of our own compute: a whole model's gradients are sums of many terms. The second is of
#: the largest gradient, if that is large.
TOLERANCE = (1e-4, 1e-5)
Way = Callable[[Any, nn.Module, Inputs], Any]


@dataclass(frozen=True)
class Verdict:
    """`graphs`: those of the first call that compute something. `breaks`: (line, reason) of each graph break, and of
    each frame that runs eagerly. `again`: graphs that later calls compiled. `wrong`: the first difference from eager,
    "" for none."""

    graphs: int
    breaks: tuple[tuple[str, str], ...]
    again: int
    wrong: str

    @property
    def is_whole(self) -> bool:
        return self.graphs == 1 and not self.breaks


# --- ways -------------------------------------------------------------------------------------------------------------
def infer(call: Any, module: nn.Module, inputs: Inputs) -> Any:
    module.eval()
    with torch.no_grad():
        return call(**inputs)


def train(call: Any, module: nn.Module, inputs: Inputs) -> Any:
    module.train()
    module.zero_grad()
    outputs = call(**inputs)
    loss_of(outputs).backward()
    return outputs


def loss_of(outputs: Any) -> torch.Tensor:
    """The model's own, else one that needs all of its results."""
    loss = getattr(outputs, "loss", None)
    if loss is not None:
        return loss
    leaves = [t for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
    return torch.stack([t.square().mean() for t in leaves]).sum()


def generate(call: Any, module: nn.Module, inputs: Inputs) -> Any:
    """The tokens that follow: `call` is the module to its own `generate`, which calls it for each of them."""
    module.eval()
    inputs = {name: value for name, value in inputs.items() if name not in ("labels", "attention_mask")}
    return call.generate(**inputs, max_new_tokens=4, do_sample=False)


WAYS: dict[str, Way] = {"forward": infer, "training": train, "generation": generate}


# --- the judge --------------------------------------------------------------------------------------------------------
def judge(model: Model, way: Way, backend: backends.Backend = backends.eager, seeds: tuple[int, ...] = (0, 0, 1)) -> Verdict:
    """Runs `model` once for each seed, whose number is that of its inputs, too."""
    made = Compiler(backend, config, False, None)
    eager, compiled = model.make(), model.make()
    call, seen, counts = door_for(made, compiled), (Snapshot(), Snapshot()), []
    if model.sets_up:
        for module in (eager, compiled):
            infer(module, module, model.inputs(module))
    wrong = ""
    for seed in seeds:
        inputs = model.inputs(eager, seed)
        pictures = []
        worlds: Any = zip((eager, call), (eager, compiled), seen, (told(way), nullcontext()), strict=True)
        for run, module, snapshot, context in worlds:
            with context:
                pictures.append(picture(run, module, way, copy.deepcopy(inputs), seed, snapshot))
        counts.append(graphs(made))
        rtol, atol = TOLERANCE
        tolerance = None if backend is backends.eager else (rtol, atol * max(1.0, largest(eager)))
        wrong = wrong or difference(pictures[0], pictures[1], tolerance=tolerance) or ""
    return Verdict(counts[0], breaks(made), counts[-1] - counts[0], wrong)


def told(way: Way) -> AbstractContextManager[Any]:
    """Eager code is told that it is being compiled, as the captured code is."""
    return nullcontext() if way is generate else mock.patch.object(torch.compiler, "is_compiling", return_value=True)


def picture(call: Any, module: nn.Module, way: Way, inputs: Inputs, seed: int, snapshot: Snapshot) -> Any:
    torch.manual_seed(seed)
    result = way(call, module, inputs)
    parts = Fields([*module.named_parameters(), *module.named_buffers()])
    return snapshot.walk(Fields({"result": result, "module": parts, "random": torch.get_rng_state()}))


def largest(module: nn.Module) -> float:
    """Of all gradients."""
    return max((p.grad.abs().max().item() for p in module.parameters() if p.grad is not None), default=0.0)


def graphs(made: Compiler) -> int:
    modules = [record.module for record in made.records if record.module is not None]
    return sum(any(node.op.startswith("call") for node in module.graph.nodes) for module in modules)


def breaks(made: Compiler) -> tuple[tuple[str, str], ...]:
    found = []
    for record in made.records:
        for each in record.breaks:
            file, line, _ = next(place for place in reversed(each.stack) if place[0] != polyfills.__file__)
            found.append((f"{short(file)}:{line}", each.reason + (f" ({each.detail})" if each.detail else "")))
        if record.skipped:
            found.append((f"{short(record.code.co_filename)}:{record.code.co_firstlineno}", f"runs eagerly: {record.skipped}"))
    return tuple(dict.fromkeys(found))


def short(file: str) -> str:
    """A file of a package by its path there."""
    return re.split("/(?:site-packages|site)/", file)[-1]
