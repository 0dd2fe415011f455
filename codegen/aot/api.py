"""The AOT stage as a library: functions and modules, differentiated ahead of time, with the names of functorch.compile.

What is compiled runs for arguments with the properties that it was compiled for; for others it is compiled again.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from codegen.aot import compilers, properties
from codegen.aot.function import GraphCompiler, Settings, compile_program
from codegen.aot.memory import Fails
from codegen.aot.partition import default_partition
from codegen.aot.recorder import NUMBERS, Untraceable
from codegen.aot.stages import Stages
from symbolic import terms
from symbolic.fakes import FakeMode
from symbolic.shapes import Shapes
from symbolic.sources import Sources
from symbolic.torch_state import is_watched

log = logging.getLogger(__name__)

Partitioner = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: GraphCompiler,
    bw_compiler: GraphCompiler | None = None,
    partition_fn: Partitioner = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: GraphCompiler | None = None,
    *,
    dynamic: bool = False,
) -> Callable[..., Any]:
    """`fn`, of pytrees of tensors and constants, with the same results, effects and gradients.

    Compilers take (graph, example inputs) and answer with a function of the same inputs, or a boxed one: `fw_compiler`
    for the forward graph, `bw_compiler` for the backward one, `inference_compiler` where there are no gradients; the
    last two are `fw_compiler` by default. `partition_fn` cuts the joint graph (see `default_partition`).
    `decompositions`: OpOverload -> function. The first `num_params_buffers` leaves are parameters and buffers.
    `keep_inference_input_mutations`: without gradients, graphs end by writing into inputs where that is safe.
    `dynamic`: one graph for all sizes from 1 on, of all but parameters, buffers and tensors that share memory, as far
    as `fn` does not depend on them.

    `fn` runs on stand-ins, maybe several times, once for all calls that are alike: in the structure of the arguments,
    the properties of tensors, which of them share memory, torch's state of the thread, and constants (numbers, text
    and the like by value, other objects by identity). Its other effects happen then. Tensors that it closes over are
    constants. Hooks on intermediates, custom functions of autograd and checkpoints become part of the backward graph:
    their Python runs when they are traced, so hooks that are seen to do more than change the gradient are refused, and
    to remove one later changes nothing. Under a dispatch mode, a transform of torch.func or forward-mode
    differentiation it runs as it is, and so it does where it raises on stand-ins.
    Raises Untraceable, before anything was touched, for what can't be compiled.
    """
    settings = _settings(
        fw_compiler, bw_compiler, partition_fn, decompositions, keep_inference_input_mutations, inference_compiler
    )
    compiled = _Compiled(fn, settings, num_params_buffers, dynamic)

    def run(*args: Any, **kwargs: Any) -> Any:
        return compiled(args, kwargs)

    return functools.update_wrapper(run, fn) if hasattr(fn, "__name__") else run


def aot_module(mod: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """A module that calls `mod` through `aot_function(..., *args, **kwargs)`, its parameters and buffers as inputs."""
    return _AOTModule(mod, *args, **kwargs)


class _AOTModule(torch.nn.Module):
    def __init__(self, mod: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.orig_module = mod
        kwargs.setdefault("num_params_buffers", len(_state(mod)))
        self._compiled = aot_function(_functional(mod), *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        mod = self.orig_module
        # A module does one thing in training and another in evaluation.
        modes = bytes(module.training for module in mod.modules())
        result, rebound = self._compiled(_state(mod), modes, args, kwargs)
        _rebind(mod, rebound)
        return result


def aot_module_simplified(
    mod: torch.nn.Module,
    args: Sequence[Any],
    fw_compiler: GraphCompiler,
    bw_compiler: GraphCompiler | None = None,
    partition_fn: Partitioner = default_partition,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: GraphCompiler | None = None,
) -> Callable[..., Any]:
    """`mod`, compiled now, for `args` (tensors and numbers, no pytrees): for front ends that guard their arguments.

    `args` may be fakes and symbolic numbers. The answer checks nothing: it is good for arguments with the properties
    of `args`, under torch's state of now, and takes the parameters and buffers that `mod` has now.
    Raises Untraceable for what can't be compiled.
    """
    settings = _settings(
        fw_compiler, bw_compiler, partition_fn, decompositions, keep_inference_input_mutations, inference_compiler
    )
    state = _state(mod)
    _, spec = tree_flatten(((state, b"", tuple(args), {}), {}))
    program = _Flat(_functional(mod), spec)
    flat = [*state.values(), b"", *args]
    compiled = compile_program(program, _in_one_mode(flat), settings)
    structure, held = program.results, flat[: len(state) + 1]
    assert structure is not None

    def run(*args: Any) -> Any:
        result, rebound = tree_unflatten(compiled(*held, *args), structure)
        _rebind(mod, rebound)
        return result

    run.zero_grad = mod.zero_grad  # type: ignore[attr-defined]
    run.named_parameters = mod.named_parameters  # type: ignore[attr-defined]
    run.named_buffers = mod.named_buffers  # type: ignore[attr-defined]
    run.stages = compiled.stages  # type: ignore[attr-defined]
    return run


def _settings(
    forward: GraphCompiler,
    backward: GraphCompiler | None,
    partition_fn: Partitioner,
    decompositions: dict[Any, Callable[..., Any]] | None,
    mutations_inside: bool,
    inference: GraphCompiler | None,
) -> Settings:
    def partition(
        joint: fx.GraphModule, inputs: Sequence[Any], *, num_fwd_outputs: int, num_primals: int
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        """As partitioners are called by functorch.compile."""
        primals, tangents = list(inputs[:num_primals]), list(inputs[num_primals:])
        return partition_fn(joint, (primals, tangents), num_fwd_outputs=num_fwd_outputs)

    return Settings(
        forward=compilers.plain(forward),
        backward=compilers.of_lists(backward or forward),
        inference=compilers.plain(inference or forward),
        partition=partition,
        decompositions=decompositions or {},
        mutations_inside=mutations_inside,
    )


# --- modules ----------------------------------------------------------------------------------------------------------
def _state(mod: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(mod.named_parameters()), **dict(mod.named_buffers())}


def _functional(mod: torch.nn.Module) -> Callable[..., Any]:
    """`mod` as a function that also gives what it put in the place of its parameters and buffers, by name."""

    def program(state: dict[str, torch.Tensor], modes: bytes, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        now = dict(state)  # holds what the module has when the call is over
        result = functional_call(mod, now, tuple(args), kwargs)
        return result, {name: now[name] for name in state if now[name] is not state[name]}

    return program


def _rebind(mod: torch.nn.Module, rebound: dict[str, Any]) -> None:
    for name, value in rebound.items():
        owner, _, attribute = name.rpartition(".")
        setattr(mod.get_submodule(owner), attribute, value)


# --- compiled for each kind of call -----------------------------------------------------------------------------------
@dataclass(eq=False)
class _Flat:
    """`fn` of the leaves of its arguments, `results` the structure of what it gave."""

    fn: Callable[..., Any]
    spec: TreeSpec
    results: TreeSpec | None = None

    def __call__(self, *flat: Any) -> list[Any]:
        args, kwargs = tree_unflatten(flat, self.spec)
        leaves, self.results = tree_flatten(self.fn(*args, **kwargs))
        return leaves


@dataclass(frozen=True)
class _Entry:
    """`holds(leaves)`: whether what the key leaves out is as it must be. `memory`: what else a program that writes
    depends on; None for one that only reads."""

    run: Callable[..., Any]
    results: TreeSpec
    holds: Callable[[Sequence[Any]], bool]
    memory: Any
    constants: tuple[Any, ...]  # kept alive: the key has their ids


@dataclass(eq=False)
class _Compiled:
    fn: Callable[..., Any]
    settings: Settings
    num_static: int
    dynamic: bool
    entries: dict[Any, list[_Entry]] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_watched():
            return self.fn(*args, **kwargs)
        flat, spec = tree_flatten((args, kwargs))
        varying = self._varying(flat)
        key = (
            spec, properties.of_thread(), properties.same(flat),
            *(properties.of_value(value, at in varying) for at, value in enumerate(flat)),
        )  # fmt: skip
        entry = self._find(key, flat)
        if entry is None:
            try:
                entry = self._made(key, flat, spec, varying)
            except Fails as reason:
                log.info("a program runs as it is: %s", reason)
                return self.fn(*args, **kwargs)
        return tree_unflatten(entry.run(*flat), entry.results)

    def _made(self, key: Any, flat: list[Any], spec: TreeSpec, varying: frozenset[int]) -> _Entry:
        """A new entry, if no other thread was faster."""
        with self.lock:
            entry = self._find(key, flat)
            if entry is None:
                entry = self._compile(flat, spec, varying)
                self.entries.setdefault(key, []).insert(0, entry)
            return entry

    def _find(self, key: Any, flat: Sequence[Any]) -> _Entry | None:
        for entry in self.entries.get(key, ()):
            if entry.holds(flat) and (entry.memory is None or entry.memory == properties.of_memory(flat)):
                return entry
        return None

    def _varying(self, flat: Sequence[Any]) -> frozenset[int]:
        """The leaves whose sizes are symbols."""
        if not self.dynamic:
            return frozenset()
        fixed = {at for group in properties.sharers(flat) for at in group}
        tensors = [(at, value) for at, value in enumerate(flat) if isinstance(value, torch.Tensor) and at not in fixed]
        return frozenset(
            at for at, value in tensors
            if at >= self.num_static and not (_is_differentiable_leaf(value) and value._is_view())
        )

    def _compile(self, flat: list[Any], spec: TreeSpec, varying: frozenset[int]) -> _Entry:
        program = _Flat(self.fn, spec)
        made = _for_all_sizes(program, flat, varying, self.settings) if varying else None
        if made is None:
            made = compile_program(program, flat, self.settings), _these_sizes(flat, varying)
        run, conditions = made
        stages: Stages = run.stages  # type: ignore[attr-defined]
        conditions += _places(stages, flat)
        memory = properties.of_memory(flat) if stages.traced.updates else None
        holds = eval(f"lambda leaves: {' and '.join(conditions) or 'True'}")
        assert program.results is not None
        return _Entry(run, program.results, holds, memory, tuple(v for v in flat if not isinstance(v, torch.Tensor)))


def _for_all_sizes(
    program: _Flat, flat: Sequence[Any], varying: frozenset[int], settings: Settings
) -> tuple[Callable[..., Any], list[str]] | None:
    """The compiled program, and what must hold of `leaves`, as Python. None if it can't be compiled for all sizes."""
    sources = Sources()
    shapes = Shapes(lambda: ("", 0))
    mode = FakeMode(shape_env=shapes.env, allow_non_fake_inputs=True)
    facts: dict[int, dict[str, Any]] = {}
    stand_ins = list(flat)
    for at, value in enumerate(flat):
        if at in varying:
            stand_ins[at] = shapes.fake(mode, _without_grad(value), range(value.dim()))
            facts[at] = {"sizes": tuple(value.shape), "strides": value.stride()}
            shapes.add_input(value, stand_ins[at], sources.arg(at, f"leaves[{at}]"), facts[at], {})
        elif isinstance(value, torch.Tensor):
            stand_ins[at] = mode.from_tensor(value, static_shapes=True)
    try:
        run = compile_program(program, stand_ins, settings)
    except Untraceable as reason:
        log.info("a program is compiled for each size: %s", reason)
        return None
    conditions = [f"({terms.text(condition.term)})" for condition in shapes.conditions()]
    for at, known in facts.items():
        for numbers, method in (("sizes", "size"), ("strides", "stride")):
            fixed = ((dim, number) for dim, number in enumerate(known[numbers]) if number is not None)
            conditions += [f"leaves[{at}].{method}({dim}) == {number}" for dim, number in fixed]
    return run, conditions


def _these_sizes(flat: Sequence[Any], varying: frozenset[int]) -> list[str]:
    """That the sizes and strides which the key leaves out are those of now."""
    found = ((at, flat[at]) for at in sorted(varying))
    return [f"(leaves[{at}].shape, leaves[{at}].stride()) == ({tuple(v.shape)}, {v.stride()})" for at, v in found]


def _without_grad(value: torch.Tensor) -> torch.Tensor:
    """A leaf's `.grad` would get symbols of its own."""
    return value.detach().requires_grad_() if _is_differentiable_leaf(value) else value


def _is_differentiable_leaf(value: torch.Tensor) -> bool:
    return value.is_leaf and value.requires_grad


def _places(stages: Stages, flat: Sequence[Any]) -> list[str]:
    """Where tensors begin in their memory, and of how many bytes that is, if the program looks at the memory itself."""
    traced = stages.traced
    asked = {"storage_offset()": traced.by_place or traced.asked, "untyped_storage().nbytes()": traced.asked}
    facts = [fact for fact, is_asked in asked.items() if is_asked]
    texts = [f"leaves[{at}].{fact}" for at, value in enumerate(flat) if _has_memory(value) for fact in facts]
    return [f"{text} == {eval(text, {'leaves': flat})}" for text in texts]


def _has_memory(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _in_one_mode(flat: Sequence[Any]) -> list[Any]:
    """All tensors as fakes of the mode that some of them, or the symbolic numbers among them, are of."""
    modes = [value.fake_mode for value in flat if isinstance(value, FakeTensor)]
    shape_env = next((value.node.shape_env for value in flat if isinstance(value, NUMBERS)), None)
    if not modes and shape_env is None:
        return list(flat)
    mode = modes[0] if modes else FakeMode(shape_env=shape_env, allow_non_fake_inputs=True)
    real = (torch.Tensor, torch.nn.Parameter)
    return [mode.from_tensor(value, static_shapes=True) if type(value) in real else value for value in flat]
