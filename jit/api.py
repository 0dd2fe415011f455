"""The public functions."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, TextIO

import torch
from torch import fx
from torch.utils._pytree import tree_flatten_with_path

from codegen._C import plan_counts
from jit import _C, backends, compiler, page, profiling
from jit.compiler import Compiler, Record
from jit.config import config
from jit.state import DebugState
from symbolic.capture import BreakReason
from symbolic.guard_export import Page
from symbolic.marks import Mark, marks, maybe_mark_dynamic, put_marks, said
from symbolic.shapes import Specialization
from symbolic.variables import torch_functions
from symbolic.variables.base import Variable
from symbolic.variables.positions import is_python_class

_compilers: weakref.WeakSet[Compiler] = weakref.WeakSet()
_lock = threading.Lock()


def compile(  # noqa: A001
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | Mapping[str, Any] | None = None,
    backend: str | backends.Backend = "default",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compiles a function, method or `nn.Module`; without `model` gives a decorator. A drop-in for `torch.compile`.

    fullgraph: a graph break raises `Unsupported` instead. dynamic: None compiles sizes, ints and floats as they come,
        and those that differ in a later call for all values (sizes from 1 and ints from 2 on), as far as the program
        does not depend on them; True does so from the first call on for all sizes of tensors in the arguments, False
        never. A dict says what varies, by parameter: `{"x": {0: "batch", 1: (8, 4096)}, "n": True}`, dimensions with
        names (sizes of one name are one where they are equal) or ranges; True is all of it.
    backend: "default" (kernels of our own), "aot_eager" (the same graphs, run by ATen), "eager" (as captured), or a
        callable `(gm, example_inputs) -> callable`.
    mode: "default"; "reduce-overhead": launches on CUDA are recorded once and replayed as CUDA graphs, what was handed
        out is never overwritten; "max-autotune-no-cudagraphs": on CUDA, kernels are chosen by their times;
        "max-autotune": both. On a CPU all of them are the default.
    options: settings of `jit.config` for this call. disable: gives `model` back as it is.
    Raises TypeError for what can't be called, ValueError for unknown backends, modes and options.
    """
    chosen = backends.resolve(backend, mode)
    settings = config.with_options(options)
    if model is None:
        return functools.partial(_compile, chosen, settings, fullgraph, dynamic, disable)
    return _compile(chosen, settings, fullgraph, dynamic, disable, model)


def _compile(
    backend: backends.Backend,
    settings: Any,
    fullgraph: bool,
    dynamic: bool | Mapping[str, Any] | None,
    disable: bool,
    model: Any,
) -> Any:
    if not callable(model):
        raise TypeError(f"jit.compile needs a function, a method or a module, not {type(model).__name__}: {model!r}")
    if disable:
        return model
    function = model.forward if isinstance(model, torch.nn.Module) else model
    hints = said(dynamic, function) if isinstance(dynamic, Mapping) else None
    made = Compiler(backend, settings, fullgraph, dynamic, hints)
    with _lock:
        _compilers.add(made)
    return door_for(made, model)


def debug(model: Any, *, backend: str | backends.Backend = "eager", **settings: Any) -> Any:
    """Compiles for a debugger: what runs in place of the bytecode is the dump's generated.py of each frame, a file
    whose lines can be stepped through, stopped at and seen in tracebacks. Frames without such a text run as bytecode.

    The files lie in `dump=` (a folder), else in a temporary one. Raises as `jit.compile` does."""
    if not callable(model):
        raise TypeError(f"jit.debug needs a function, a method or a module, not {type(model).__name__}: {model!r}")
    target = model.__wrapped__ if isinstance(model, _C.Door) else getattr(model, "_orig_mod", model)
    made = Compiler(backends.resolve(backend, None), config.with_options(settings), False, None, as_text=True)
    with _lock:
        _compilers.add(made)
    return door_for(made, target)


def door_for(made: Compiler, model: Any) -> Any:
    """The compiled form of a callable."""
    if isinstance(model, torch.nn.Module):
        return compiled_module(made, model)
    if isinstance(model, type):
        raise TypeError(f"jit.compile needs a function, a method or a module, not the class {model.__qualname__}")
    if isinstance(model, MethodType):
        return _C.BoundDoor(door_for(made, model.__func__), model.__self__)
    if isinstance(model, _C.Door):
        return door_for(made, model.__wrapped__)
    if isinstance(model, FunctionType):
        if model.__code__.co_flags & compiler.GENERATOR_FLAGS:
            return model  # generators and coroutines run as they are; what they call may be compiled
        door = _C.Door(model, made.cache(model.__code__), made.miss)
        door.compiler = made
        return door
    call = type(model).__call__
    if isinstance(call, FunctionType):
        return _C.BoundDoor(door_for(made, call), model)
    return model  # a native callable has no bytecode


# --- modules ----------------------------------------------------------------------------------------------------------


def compiled_module(made: Compiler, module: torch.nn.Module) -> torch.nn.Module:
    """An object that is the module to its user (same class, same `__dict__`), whose call is compiled."""
    cls = type(module)
    door = door_for(made, torch.nn.Module.__call__)
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__call__": _C.BoundDoor(door, module),
        "__reduce_ex__": _reduce_module,
        "__deepcopy__": _deepcopy_module,
        "__copy__": _copy_module,
        "_orig_mod": property(lambda self: module),
        "debug_state": lambda self: made.debug_state(),
    }
    metaclass: Any = type(cls)
    twin = metaclass(cls.__name__, (cls,), body)
    # What makes an object of a class need not make one of those derived from it: FSDP's modules make none.
    native: Any = next(base for base in cls.__mro__ if not is_python_class(base))
    compiled = native.__new__(twin)
    object.__setattr__(compiled, "__dict__", module.__dict__)
    _recipes[twin] = made
    return compiled


_recipes: weakref.WeakKeyDictionary[type, Compiler] = weakref.WeakKeyDictionary()


def _rebuild(module: torch.nn.Module, settings: dict[str, Any]) -> torch.nn.Module:
    return compile(module, **settings)


def _recipe(compiled: torch.nn.Module) -> dict[str, Any]:
    made = _recipes[type(compiled)]
    named = next((name for name, backend in backends.BACKENDS.items() if backend is made.backend), made.backend)
    return {"fullgraph": made.fullgraph, "dynamic": made.dynamic, "backend": named}


def _reduce_module(self: torch.nn.Module, protocol: int) -> Any:
    return _rebuild, (self._orig_mod, _recipe(self))


def _deepcopy_module(self: torch.nn.Module, memo: dict[int, Any]) -> Any:
    return compile(copy.deepcopy(self._orig_mod, memo), **_recipe(self))


def _copy_module(self: torch.nn.Module) -> Any:
    return compile(copy.copy(self._orig_mod), **_recipe(self))


# --- switches for users' code -----------------------------------------------------------------------------------------
def disable(fn: Any = None, recursive: bool = True) -> Any:
    """A function that is never compiled, nor anything it calls (with `recursive=False` only the function itself)."""
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    if not callable(fn):
        raise TypeError(f"jit.disable needs a callable, not {fn!r}")

    original = _refused(fn) if isinstance(fn, FunctionType) and not recursive else fn

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return _C.call_suspended(fn, *args, **kwargs) if recursive else original(*args, **kwargs)

    return disabled


def _refused(fn: FunctionType) -> FunctionType:
    """`fn` with code of its own (that of a decorator is the code of many functions), which is not compiled."""
    code = fn.__code__.replace()
    compiler.ONLY_THIS[id(code)] = code
    made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def is_compiling() -> bool:
    """Whether the caller is being captured: False in eager code."""
    return False


def graph_break() -> None:
    """Ends the graph here when captured; does nothing in eager code."""


def allow_in_graph(fn: Any) -> Any:
    """Puts calls of `fn` into the graph as they are, without tracing into it."""
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(one):
            raise TypeError(f"jit.allow_in_graph needs a callable, not {one!r}")
        torch_functions.ALLOWED.add(one)
        torch_functions.REFUSED.pop(one, None)
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """Calls of `fn` break the graph."""
    for one in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(one):
            raise TypeError(f"jit.disallow_in_graph needs a callable, not {one!r}")
        torch_functions.ALLOWED.discard(one)
        torch_functions.REFUSED[one] = "disallowed by jit.disallow_in_graph"
    return fn


def assume_constant_result(fn: Any) -> Any:
    """`fn` is called once while tracing and its result taken as a constant."""
    if not callable(fn):
        raise TypeError(f"jit.assume_constant_result needs a callable, not {fn!r}")
    torch_functions.CONSTANT_RESULT.add(fn)
    return fn


def _traced_is_compiling(tx: Any) -> Variable:
    return tx.from_constant(True)


def _traced_graph_break(tx: Any) -> Variable:
    return torch_functions.refused("jit.graph_break()", "")


torch_functions.HANDLERS[is_compiling] = _traced_is_compiling
torch_functions.HANDLERS[graph_break] = _traced_graph_break


def reset() -> None:
    """Forgets everything compiled so far."""
    with _lock:
        for made in list(_compilers):
            made.reset()


def stats() -> dict[str, int]:
    """Counters since the process began.

    captures, graphs, breaks, restarts, skipped, errors: of the compiler's work. hits: calls that found compiled code;
    misses: calls that asked the compiler for some. plans: those built, for forward and backward graphs; invocations:
    runs of them; fallbacks: of these, how many the ATen graph served, since somebody traced or batched the tensors.
    """
    return {**dataclasses.asdict(compiler.stats), **_C.counts(), **plan_counts()}


def export_guards(fn: Any) -> str:
    """Which calls the entries of a compiled function serve, as a page of Python: a function for each entry of each
    frame, True for those. Raises TypeError for what is not compiled."""
    page = Page()
    for number, frame in enumerate(_state_of(fn, "jit.export_guards").frames):
        name = re.sub(r"\W+", "_", frame.name).strip("_")
        for place, entry in enumerate(frame.entries):
            about = f"{frame.name} ({frame.place}), entry {place} of {len(frame.entries)}, {entry.hits} hits"
            page.add(f"{name}_{number}_{place}", about, entry.guards)
    return str(page)


def warmup(fn: Any, inputs: Iterable[Any]) -> int:
    """Compiles what calls with these inputs need: `fn` is called with each of them in turn, and does all that it does
    when it is called (what must not change, as counters and random numbers, the caller puts back). Answers how many
    entries it has more than before.

    inputs: of each call a tuple of arguments, a dict of them by name, or else the one argument. Sizes of tensors that
        differ between the inputs are compiled for all sizes at once.
    Raises TypeError for what is not compiled, and what `fn` raises.
    """
    before = len(_state_of(fn, "jit.warmup").entries)
    calls = [_call_of(each) for each in inputs]
    with _marked_where_they_differ(calls):
        for args, kwargs in calls:
            fn(*args, **kwargs)
    return len(fn.debug_state().entries) - before


def _state_of(fn: Any, who: str) -> DebugState:
    known = getattr(fn, "debug_state", None)
    if known is None:
        raise TypeError(f"{who} needs what jit.compile gave, not {fn!r}")
    state: DebugState = known()
    return state


def _call_of(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, dict):
        return (), given
    return (given if isinstance(given, tuple) else (given,)), {}


@contextmanager
def _marked_where_they_differ(calls: list[Any]) -> Iterator[None]:
    """Inside, sizes in which tensors differ that come in the same place are marked to vary."""
    marked: dict[int, tuple[torch.Tensor, Mapping[int, Mark]]] = {}
    for alike in _alike(calls):
        dims = [dim for dim in range(alike[0].dim()) if len({tensor.shape[dim] for tensor in alike}) > 1]
        for tensor in alike:
            marked.setdefault(id(tensor), (tensor, marks(tensor)))
            maybe_mark_dynamic(tensor, [dim for dim in dims if dim not in marks(tensor)])
    try:
        yield
    finally:
        for tensor, before in marked.values():
            put_marks(tensor, before)


def _alike(calls: list[Any]) -> Iterator[list[torch.Tensor]]:
    """The tensors of the calls that come in the same place, where these are of one rank."""
    places: dict[Any, list[torch.Tensor]] = {}
    for call in calls:
        for path, leaf in tree_flatten_with_path(call)[0]:
            if isinstance(leaf, torch.Tensor):
                places.setdefault((path, leaf.dim()), []).append(leaf)
    return (tensors for tensors in places.values() if len(tensors) > 1)


# --- explain ----------------------------------------------------------------------------------------------------------
@dataclass
class Explanation:
    """What compiling one call came to."""

    graphs: list[fx.GraphModule] = field(default_factory=list)
    break_reasons: list[BreakReason] = field(default_factory=list)
    guards: list[Any] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    specializations: list[Specialization] = field(default_factory=list)
    result: Any = None

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(node.op.startswith("call") for graph in self.graphs for node in graph.graph.nodes)

    def __str__(self) -> str:
        lines = [f"{self.graph_count} graphs, {self.graph_break_count} breaks, {self.op_count} operations"]
        lines += [f"break {i + 1}: {reason}" for i, reason in enumerate(self.break_reasons)]
        lines += [f"runs as written: {each.where}: {each.skipped}" for each in self.records if each.skipped]
        lines += [f"specialized: {each}" for each in self.specializations]
        lines += ["guards:", *(f"  {guard}" for guard in self.guards)]
        return "\n".join(lines)


def explain(
    fn: Any, *, dynamic: bool | Mapping[str, Any] | None = None, **settings: Any
) -> Callable[..., Explanation]:
    """`explain(f)(*args)` compiles `f` afresh, calls it once, and says what came of it."""

    def run(*args: Any, **kwargs: Any) -> Explanation:
        target = fn.__wrapped__ if isinstance(fn, _C.Door) else getattr(fn, "_orig_mod", fn)
        hints = said(dynamic, getattr(target, "forward", target)) if isinstance(dynamic, Mapping) else None
        made = Compiler(backends.eager, config.with_options(settings), False, dynamic, hints)
        found = Explanation(result=door_for(made, target)(*args, **kwargs))
        for record in made.records:
            found.records.append(record)
            found.guards += record.guards
            found.break_reasons += record.breaks
            found.specializations += record.specializations
            if record.module is not None:
                found.graphs.append(record.module)
        return found

    return run


# --- profile ----------------------------------------------------------------------------------------------------------
def profile(
    fn: Any, *, calls: int = 10, backward: bool = True, file: TextIO | None = None
) -> Callable[..., profiling.Profile]:
    """`profile(f)(*args)` calls `f`, which is compiled unless it is already, once and then `calls` times, and writes a
    table to `file` (stdout): of each kernel and each operation of ATen how often it ran in a call, how long (in
    all, in seconds), how many bytes it moved, and the lines of the program that it comes from. Answers with all of
    that as data.

    backward: where the result can be differentiated, that is done after each call and measured, too; the gradients go
        nowhere. Bytes of a kernel are those that it reads and writes if each element comes once; of ATen's operation,
        all of its operands. On a CUDA device times are the device's own, and graphs are not replayed meanwhile. Where
        a dump is written, the table is in its page, too.
    Raises ValueError for less than one call, and what `f` raises.
    """
    if calls < 1:
        raise ValueError(f"jit.profile needs at least one call, not {calls}")
    known = hasattr(fn, "debug_state")
    compiled = fn if known else compile(fn)

    def run(*args: Any, **kwargs: Any) -> profiling.Profile:
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        found = profiling.measure(lambda: compiled(*args, **kwargs), name, calls, backward)
        found.show(file or sys.stdout)
        if config.dump:
            page.add_profile(config.dump, found)
        return found

    return run
