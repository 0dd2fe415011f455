"""An ATen graph as a plan of kernels."""

from __future__ import annotations

import ctypes
import functools
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from codegen.aot.boxed import boxed
from codegen.artifacts.store import Store
from codegen.direct import direct
from codegen.kernels import kept, unrolled
from codegen.kernels.c import print_c
from codegen.kernels.device import device_code
from codegen.kernels.horizontal import together
from codegen.kernels.likeness import Likeness, likeness
from codegen.kernels.lowering.context import Unsupported
from codegen.kernels.lowering.lower import lower
from codegen.kernels.measure import Trials
from codegen.kernels.planning import plan
from codegen.kernels.products import may_round, scheduled
from codegen.kernels.schedule import Schedule, schedule
from codegen.kernels.toolchain import NoCompiler, compile_c
from codegen.kernels.triton_tune import Device
from codegen.kernels.unrounded import unrounded
from codegen.notices import notify
from codegen.plan.about import About
from codegen.plan.build import build
from codegen.plan.check import check
from codegen.plan.steps import CPU, Function, Plan
from codegen.progress import stage
from symbolic.shapes import Environment, environment

log = logging.getLogger(__name__)

_COMMENT = re.compile(r"^//.*\n", re.MULTILINE)


def raise_it(error: Exception) -> None:
    raise error


@dataclass(frozen=True)
class Compiled:
    """What runs in the place of `graph`, and what it was made of, for the dump."""

    run: Callable[..., Any]
    plan: Plan
    texts: Callable[[], dict[str, str]]
    graph: fx.GraphModule


@dataclass(frozen=True)
class Kernels:
    """Compiles graphs for one device type. What kernels can't do, nobody can compile or goes wrong, ATen does.

    `store`: where compiled code is kept from process to process. `failed`: is told of errors of the compiler's own.
    `measures`: on a GPU, tiles are chosen by their times, and products of matrices that beat the library's are kernels.
    `is_fast`: on a CPU, C's rules of arithmetic are loosened (`toolchain.FAST`). `rounds_halves`: what each operation
    gives of halves is rounded, as eager code does it.
    """

    store: Store
    failed: Callable[[Exception], None] = raise_it
    measures: bool = False
    is_fast: bool = False
    rounds_halves: bool = True
    made: dict[Any, Compiled] = field(default_factory=dict)  # by `likeness`

    def __call__(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return self._compiled(graph, False) or direct(graph)

    def of_list(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The same for functions of one list of arguments, which they empty."""
        return self._compiled(graph, True) or boxed(graph)

    def _compiled(self, graph: fx.GraphModule, takes_list: bool) -> Callable[..., Any] | None:
        try:
            device = _device(graph)
            like = likeness(graph)
            compiled = self.made.get((like, takes_list))
            if compiled is None:
                make = self._on_device if device.type == "cuda" else self._on_processor
                before = answers(graph)
                compiled = make(graph, like, takes_list, device)
                if answers(graph) == before:
                    self.made[like, takes_list] = compiled
            graph.meta.update(plan=compiled.plan, texts=compiled.texts)
            return compiled.run
        except (Unsupported, NotImplementedError) as reason:
            log.info("ATen runs a graph, operation by operation: %s", reason)
        except (NoCompiler, OSError) as reason:
            notify(f"ATen runs graphs operation by operation, without kernels: {reason}")
        except Exception as error:
            self.failed(error)
        return None

    def _on_device(
        self, graph: fx.GraphModule, like: Likeness, takes_list: bool, device: torch.device
    ) -> Compiled:
        with stage("choosing kernels"):
            made = unrolled.scheduled(graph, like)
            trials = None
            if self.measures:
                trials = Trials(device, _described(device, may_round(made)), self.store)
                made = scheduled(graph, trials.wins)
            described = _described(device) if trials is None else trials.described
            made = together(self._rounded(made))
        with stage(f"compiling {len(made.kernels)} kernels"):
            code = device_code(made, graph.graph.find_nodes(op="placeholder"), described, self.store, trials)
        places = _places(graph)
        with stage("plan"):
            planned = plan(made, _parameters(graph), code.functions, "graph", takes_list, device, code.aligned, places)

        def texts() -> dict[str, str]:
            return {"kernels.txt": f"{made}\n", "kernels.py": code.source, "plan.txt": f"{planned}\n"}

        return Compiled(_built(planned, graph), planned, texts, graph)

    def _on_processor(
        self, graph: fx.GraphModule, like: Likeness, takes_list: bool, device: torch.device
    ) -> Compiled:
        place, before = kept.place(like, takes_list, self.rounds_halves), answers(graph)
        with stage("looking on disk"):
            planned = place and self._kept(graph, place)
        if not planned:
            with stage("choosing kernels"):
                made = self._rounded(unrolled.scheduled(graph, like, in_stretches=True))
            with stage(f"compiling {len(made.kernels)} kernels"):
                source = print_c(made.kernels) if made.kernels else ""
                source = _COMMENT.sub("", source)  # equal kernels were made of different lines
                function = self._load(source)
                functions = {kernel.name: function(kernel.name) for kernel in made.kernels}
            with stage("plan"):
                planned = plan(made, _parameters(graph), functions, "graph", takes_list, nodes=_places(graph))
            if place and answers(graph) == before:
                kept.keep(self.store, place, graph, planned, source)

        def texts() -> dict[str, str]:
            made = self._rounded(schedule(lower(graph), in_stretches=True))
            return {"kernels.txt": f"{made}\n", "kernels.c": print_c(made.kernels), "plan.txt": f"{planned}\n"}

        return Compiled(_built(planned, graph), planned, texts, graph)

    def _rounded(self, made: Schedule) -> Schedule:
        return made if self.rounds_halves else unrounded(made)

    def _kept(self, graph: fx.GraphModule, place: str) -> Plan | None:
        """The plan that an earlier process made of such a graph."""
        found = kept.find(self.store, place)
        if found is None:
            return None
        planned, source = found
        try:
            return check(kept.read(planned, graph, self._load(source)))
        except ValueError as error:
            log.warning("a plan on disk is none: %s", error)
            return None

    def _load(self, source: str) -> Callable[[str], Function]:
        """The kernels of this source by their names."""
        if not source:
            return dict[str, Function]().__getitem__
        library = ctypes.CDLL(str(compile_c(source, store=self.store, openmp=False, fast=self.is_fast)))

        @functools.cache
        def function(name: str) -> Function:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            assert address is not None
            return Function(name, address, library)

        return function


def answers(graph: fx.GraphModule) -> int:
    """How many there were of questions about the sizes of a graph. Where kernels come of such an answer, they are that
    graph's alone: others that are alike might get another, and must be guarded for it."""
    env = environment(node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder"))
    return env.answers if isinstance(env, Environment) else 0


def _parameters(graph: fx.GraphModule) -> list[str]:
    return [node.name for node in graph.graph.find_nodes(op="placeholder")]


def _places(graph: fx.GraphModule) -> dict[str, int]:
    return {node.name: at for at, node in enumerate(graph.graph.nodes)}


def _built(planned: Plan, graph: fx.GraphModule) -> Callable[..., Any]:
    graph.meta["about"] = about = About(planned, graph)
    return build(planned, _fallback(graph, planned.takes_list), about)


def _fallback(graph: fx.GraphModule, takes_list: bool) -> Callable[..., Any]:
    """The graph as ATen runs it, made when it is called first."""
    made = functools.cache(boxed if takes_list else direct)

    def inlined(*args: Any) -> Any:
        return made(graph)(*args)

    return inlined


def _device(graph: fx.GraphModule) -> torch.device:
    """Where all tensors are. Raises Unsupported where they are not on one device that there are kernels for."""
    values = [value for node in graph.graph.nodes for value in _flat(node.meta.get("val"))]
    if any(value.is_sparse for value in values):
        raise Unsupported("sparse tensors")
    devices = {value.device for value in values} or {CPU}
    if len(devices) > 1 or not {device.type for device in devices} <= {"cpu", "cuda"}:
        raise Unsupported(f"tensors on {', '.join(map(str, devices))}")
    return devices.pop()


def _described(device: torch.device, may_round: bool = False) -> Device:
    major, minor = torch.cuda.get_device_capability(device)
    tf32 = may_round and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return Device(torch.cuda.get_device_name(device), 10 * major + minor, tf32)


def _flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, tuple | list):
        return [found for item in value for found in _flat(item)]
    return [value] if isinstance(value, torch.Tensor) else []
