"""CUDA graphs: what a function launches is recorded once for each kind of arguments, and replayed from then on.

A recording reads and writes fixed places in memory. Arguments that lie at the same place each time (parameters, what
another recording gave) are read where they are; others are copied into places of their own first. Results lie in the
recording's memory: before a replay, nobody may hold one of an earlier call. A result that somebody does hold is a copy
from the next recording on, so nothing that was handed out is ever overwritten.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tag, fx
from torch.utils._pytree import tree_leaves

from codegen import _C
from codegen.aot.function import GraphCompiler
from codegen.plan.about import is_profiled
from symbolic.torch_state import is_watched

log = logging.getLogger(__name__)

#: A function is recorded so often for each kind of arguments.
MOST_RECORDINGS = 6


class Recorder(Protocol):
    """What makes graphs of launches."""

    def stream(self) -> Hashable:
        """The stream that launches go to; None if nothing may be recorded or replayed there now."""

    def record(self, function: Callable[[], tuple[Any, ...]]) -> tuple[Callable[[], Any], tuple[Any, ...]]:
        """What `function` launches, none of it done: a function that does all of it, and what `function` gave, whose
        memory stays the recording's."""


@dataclass(frozen=True)
class CudaRecorder:
    """torch.cuda.CUDAGraph's."""

    device: torch.device

    def stream(self) -> Hashable:
        if torch.cuda.is_current_stream_capturing():  # somebody else's graph gets the launches themselves
            return None
        return torch.cuda.current_stream(self.device).cuda_stream

    def record(self, function: Callable[[], tuple[Any, ...]]) -> tuple[Callable[[], Any], tuple[Any, ...]]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            results = function()
        return graph.replay, results


# --- one recording ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Copied:
    """An argument's place in the recording."""

    at: int
    place: torch.Tensor


@dataclass(frozen=True)
class _Own:
    """A result in the recording's memory. `count`: how often that is referred to if nobody else holds it."""

    tensor: torch.Tensor
    memory: int
    count: int
    is_copied: bool

    def hand_out(self) -> torch.Tensor:
        if not self.is_copied:
            return self.tensor.detach()  # below autograd, a tensor of the same memory and no more
        return _empty_like(self.tensor).copy_(self.tensor)


@dataclass(frozen=True)
class _OfArgument:
    """A result that is an argument, or lies in its memory: `offset` elements after the argument's first."""

    at: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int | None  # None: the argument itself


@dataclass(frozen=True)
class _Same:
    """A result that is an earlier one."""

    number: int


@dataclass(frozen=True)
class _Recording:
    copied: tuple[_Copied, ...]
    replay: Callable[[], Any]
    results: tuple[Any, ...]

    def held(self) -> list[int]:
        """The numbers of results that somebody holds."""
        count = torch._C._storage_Use_Count
        return [n for n, each in enumerate(self.results) if type(each) is _Own and count(each.memory) > each.count]

    def run(self, args: Sequence[Any]) -> tuple[Any, ...]:
        for each in self.copied:
            each.place.copy_(args[each.at])
        self.replay()
        found: list[Any] = []
        for result in self.results:
            found.append(found[result.number] if isinstance(result, _Same) else _given(result, args))
        return tuple(found)


def _given(result: Any, args: Sequence[Any]) -> Any:
    match result:
        case _Own():
            return result.hand_out()
        case _OfArgument(at, sizes, strides, offset):
            arg = args[at]
            return arg if offset is None else arg.as_strided(sizes, strides, arg.storage_offset() + offset)
    return result


def _empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """With the same strides, whatever they are."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


#: Where results of recordings lie: what is there now, as the backward's arguments are, will be there again.
_settled: set[int] = set()


# --- a function -------------------------------------------------------------------------------------------------------
@dataclass
class _Kind:
    """What is known of calls of one kind. `moving`: numbers of the arguments that were seen at several places; `kept`:
    of the results that callers were seen to hold."""

    addresses: list[int]
    moving: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    recording: _Recording | None = None
    recordings: int = 0
    is_hopeless: bool = False


@dataclass(eq=False)
class Replayed:
    """`run`, which takes tensors of one device and numbers one by one, or in a list that it empties; gives a tuple.

    `writes`: numbers of the arguments that it writes into. `varies`: whether the sizes of its arguments do. It is
    recorded for `limit` kinds of arguments (sizes, numbers, streams). The first call of each kind runs as it is, and so
    do those of further kinds and what can't be recorded. Safe in several threads at a time."""

    run: Callable[..., tuple[Any, ...]]
    recorder: Recorder
    takes_list: bool = False
    writes: frozenset[int] = frozenset()
    varies: bool = False
    limit: int = 16
    kinds: dict[Hashable, _Kind] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        given: Any = args[0] if self.takes_list else args
        if is_watched() or is_profiled() or (stream := self.recorder.stream()) is None:
            return self.run(*args)
        with self.lock:
            results = _C.below(self._replayed, stream, given)
        if results is None:
            return self.run(*args)
        if self.takes_list:
            given.clear()
        return results

    def _replayed(self, stream: Hashable, given: Sequence[Any]) -> tuple[Any, ...] | None:
        """The results of a recording; None if there is none for this call."""
        tensors = [arg for arg in given if isinstance(arg, torch.Tensor)]
        addresses = [tensor.data_ptr() for tensor in tensors]
        key = self._key(stream, given, tensors)
        kind = self.kinds.get(key)
        if kind is None:
            if len(self.kinds) < self.limit:
                self.kinds[key] = _Kind(addresses)
            return None
        recording = kind.recording
        if addresses != kind.addresses:
            places = (n for n, arg in enumerate(given) if isinstance(arg, torch.Tensor))
            seen = zip(places, addresses, kind.addresses, strict=True)
            moved = {n: address for n, address, before in seen if address != before}
            if not moved.keys() <= kind.moving:
                kind.moving.update(n for n, address in moved.items() if address not in _settled)
                recording = None
            kind.addresses = addresses
        if recording is not None:
            held = recording.held()
            if not held:
                return recording.run(given)
            kind.kept.update(held)
        kind.recording = None
        if kind.is_hopeless or kind.recordings == MOST_RECORDINGS or kind.moving & self.writes:
            return None
        kind.recordings += 1
        try:
            kind.recording = self._recorded(kind, given)
        except (RuntimeError, NotImplementedError) as error:
            log.info("a function runs without a CUDA graph: %s", error)
            kind.is_hopeless = True
            return None
        return kind.recording.run(given)

    def _key(self, stream: Hashable, given: Sequence[Any], tensors: list[torch.Tensor]) -> Hashable:
        numbers: tuple[Any, ...] = ()
        if len(tensors) < len(given):  # tensors and numbers have their places in all calls
            numbers = tuple((type(arg), arg) for arg in given if not isinstance(arg, torch.Tensor))
        geometry = tuple((tensor.shape, tensor.stride()) for tensor in tensors) if self.varies else ()
        return stream, numbers, geometry

    def _recorded(self, kind: _Kind, given: Sequence[Any]) -> _Recording:
        copied = tuple(_Copied(n, _empty_like(given[n])) for n in sorted(kind.moving))
        args = list(given)
        for each in copied:
            args[each.at] = each.place
        replay, results = self.recorder.record(lambda: self.run(list(args)) if self.takes_list else self.run(*args))
        first = {id(result): n for n, result in reversed(list(enumerate(results)))}
        known = tuple(
            _classified(result, args, n in kind.kept) if first[id(result)] == n else _Same(first[id(result)])
            for n, result in enumerate(results)
        )
        own = Counter(each.memory for each in known if isinstance(each, _Own))
        if any(isinstance(each, _Own) and each.is_copied and own[each.memory] > 1 for each in known):
            raise NotImplementedError("results that share memory, and that somebody holds")
        del results
        made = _Recording(copied, replay, tuple(map(_counted, known)))
        places = {each.tensor.data_ptr() for each in known if isinstance(each, _Own) and not each.is_copied}
        _settled.update(places)
        weakref.finalize(made, _settled.difference_update, places).atexit = False
        return made


def _classified(result: Any, args: Sequence[Any], is_copied: bool) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    memory = _memory(result)
    for at, arg in enumerate(args):
        if result is arg:
            return _OfArgument(at, (), (), None)
        if isinstance(arg, torch.Tensor) and memory == _memory(arg):
            if result.dtype != arg.dtype:
                raise NotImplementedError("a result that is an argument's memory with another dtype")
            offset = int(result.storage_offset() - arg.storage_offset())
            return _OfArgument(at, tuple(result.shape), result.stride(), offset)
    return _Own(result, memory, 0, is_copied)


def _counted(result: Any) -> Any:
    if not isinstance(result, _Own):
        return result
    return _Own(result.tensor, result.memory, torch._C._storage_Use_Count(result.memory), result.is_copied)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


# --- as a compiler ----------------------------------------------------------------------------------------------------
def replayed(compiler: GraphCompiler, limit: int, takes_list: bool = False) -> GraphCompiler:
    """`compiler`, whose functions are replayed where all that they take, give and draw is on one CUDA device."""

    def compiled(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        run = compiler(graph, example_inputs)
        placeholders = graph.graph.find_nodes(op="placeholder")
        fakes = [node.meta["val"] for node in placeholders]
        tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
        devices = {fake.device for fake in tensors}
        if len(devices) != 1 or (device := devices.pop()).type != "cuda" or _does_more(graph, device):
            return run
        varies = any(isinstance(size, torch.SymInt) for fake in tensors for size in (*fake.shape, *fake.stride()))
        return Replayed(run, CudaRecorder(device), takes_list, written(graph), varies, limit)

    return compiled


def _does_more(graph: fx.GraphModule, device: torch.device) -> bool:
    """Whether it gives tensors that are elsewhere, or draws there, or sets the state that others draw from: a recording
    would not do that again."""
    drawing = [node for node in graph.graph.nodes if Tag.nondeterministic_seeded in getattr(node.target, "tags", ())]
    if any(node.meta.get("val") is None for node in drawing):
        return True
    outputs = graph.graph.output_node().all_input_nodes
    values = tree_leaves([node.meta.get("val") for node in (*outputs, *drawing)])
    return any(isinstance(value, torch.Tensor) and value.device != device for value in values)


def written(graph: fx.GraphModule) -> frozenset[int]:
    """The numbers of the inputs whose memory operations of the graph write into."""
    memories = {
        _memory(arg.meta["val"])
        for node in graph.graph.nodes if isinstance(node.target, torch._ops.OpOverload)
        for arg in _written_by(node)
    }  # fmt: skip
    placeholders = graph.graph.find_nodes(op="placeholder")
    values = [node.meta["val"] for node in placeholders]
    return frozenset(n for n, v in enumerate(values) if isinstance(v, torch.Tensor) and _memory(v) in memories)


def _written_by(node: fx.Node) -> list[fx.Node]:
    schema = node.target._schema  # type: ignore[union-attr]
    found: list[fx.Node] = []
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[at] if at < len(node.args) else node.kwargs.get(argument.name)
            fx.map_arg(value, found.append)
    return found
