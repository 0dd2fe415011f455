"""What the tensors of a program show of which memory, as its functional record knows it.

For each storage there is a current root node, for each tensor the views that lead from the root to it. A write makes a
new value of the tensor and puts it back into a new root; whoever else looks at that storage replays its views on the
new root when it is read next.

A tensor may come to lie elsewhere (`.data =`, `set_`, `resize_`), and a storage may get another size behind the back of
everybody. Both are noticed when a tensor is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true

from codegen.aot import views
from codegen.aot.views import Step, place, shows_whole
from symbolic.schemas import bind

aten = torch.ops.aten

#: Views that show everything as it is: no node stands for them.
TRANSPARENT = frozenset({aten.detach.default, aten.alias.default})


class Untraceable(Exception):
    """The program does something that the AOT stage has no functional form for; nothing was touched."""


class Fails(Untraceable):
    """The program raised `__cause__` on stand-ins, or writes as most operations refuse to: run as it is, it raises what
    eager code does."""


class SharedInputs(Exception):
    """Inputs must become views of one base: a storage that they share is written; or (`flat`) somebody looks at more of
    it than they show. `.inputs` are their nodes."""

    def __init__(self, inputs: list[fx.Node], flat: bool = False) -> None:
        super().__init__("inputs that share memory are written")
        self.inputs = inputs
        self.flat = flat


#: dtype, sizes, strides, storage offset
Looks = tuple[torch.dtype, tuple[Any, ...]]


def looks(tensor: torch.Tensor) -> Looks:
    return tensor.dtype, (tensor.dim(), *tensor.shape, *tensor.stride(), tensor.storage_offset())


def _alike(one: Looks, other: Looks) -> bool:
    """Asks nothing of numbers that vary."""
    if one[0] is not other[0] or len(one[1]) != len(other[1]):
        return False
    return all(
        a == b if type(a) is type(b) is int else a is b or statically_known_true(a == b)
        for a, b in zip(one[1], other[1], strict=True)
    )


@dataclass(eq=False)
class Memory:
    """A storage: the node of its root tensor as it is now, and the inputs that came with it.

    It has `born` bytes at first; the root is that of a storage of `size` bytes.
    """

    root: fx.Node
    storage: torch.UntypedStorage
    inputs: list[fx.Node] = field(default_factory=list)
    writes: int = 0
    written_at: int = 0  # the age that autograd gave to the next node when it was written last
    reached: bool = False  # somebody looked there by place, maybe at more than its input shows
    outside: bool = False  # it is of a tensor that exists outside of the program and is no input
    replayed: dict[tuple[Step, ...], fx.Node] = field(default_factory=dict)  # since the last write
    start: Any = 0  # where the root began
    born: Any = 0
    size: Any = 0

    def __post_init__(self) -> None:
        self.start = self.root.meta["val"].storage_offset()
        self.born = self.size = self.storage.nbytes()

    def count_write(self) -> None:
        self.writes += 1
        self.written_at = torch.autograd._get_sequence_nr()
        self.replayed.clear()

    @property
    def is_own(self) -> bool:
        """Whether the program made it."""
        return not self.inputs and not self.outside


@dataclass(eq=False)
class Alias:
    """A tensor: the views that lead to it from its memory's root, and the tensor that it was `taken` from.

    `origin` is the root, or an input that shares the memory with the root; `made` counts the steps of the tensor when
    it was new, before any change of its metadata. `node` was its value after so many `writes` to the memory. A tensor
    that came to lie elsewhere knows what it was in its `former` place.
    """

    tensor: torch.Tensor
    origin: torch.Tensor
    memory: Memory
    steps: tuple[Step, ...]
    node: fx.Node
    writes: int = 0
    made: int = 0
    taken: torch.Tensor | None = None
    former: Alias | None = None
    by_set: bool = False  # `set_` or `resize_` let it lie there
    looks: Looks = field(init=False)

    def __post_init__(self) -> None:
        self.looks = looks(self.tensor)

    @property
    def first(self) -> Alias:
        """As it was first."""
        return self if self.former is None else self.former.first

    @property
    def states(self) -> Iterator[Alias]:
        """As it is now, and as it was before."""
        yield self
        if self.former is not None:
            yield from self.former.states


class Memories:
    """All memories, and all tensors with what they show of them."""

    def __init__(self) -> None:
        super().__init__()
        self.aliases: dict[int, Alias] = {}
        self.memories: dict[int, Memory] = {}
        self._untouched: dict[int, torch.Tensor] = {}  # inputs as they came, by id

    def emit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """Records an operation."""
        raise NotImplementedError

    def kept(self, tensor: torch.Tensor) -> torch.Tensor:
        """Another tensor in the same place, of which nobody else knows."""
        raise NotImplementedError

    def forget(self, tensor: torch.Tensor, instead: torch.Tensor) -> None:
        """Nodes that knew their value by this tensor, which is about to change, know it by another `instead`."""
        raise NotImplementedError

    # --- tensors ------------------------------------------------------------------------------------------------------
    def memory(self, tensor: torch.Tensor, root: fx.Node) -> Memory:
        """That of a tensor; where it is new, this is its root."""
        storage = storage_of(tensor)
        return self.memories.setdefault(storage._cdata, Memory(root, storage))

    def came(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """An input."""
        memory = self.memory(tensor, node)
        memory.inputs.append(node)
        self.aliases[id(tensor)] = Alias(tensor, tensor, memory, (), node)
        self._untouched[id(tensor)] = self.kept(tensor)

    def share(self, root: torch.Tensor, tensor: torch.Tensor, steps: tuple[Step, ...]) -> None:
        """`tensor` is an input, too, in the memory of the input `root`; autograd does not know that."""
        known = self.alias(root)
        # It has no node yet: it is replayed when it is first read.
        self.aliases[id(tensor)] = Alias(tensor, tensor, known.memory, steps, known.node, -1, len(steps))
        self._untouched[id(tensor)] = self.kept(tensor)

    def alias(self, tensor: torch.Tensor) -> Alias:
        """What is known of a tensor. Raises Untraceable, and SharedInputs, where it lies in a place that is not."""
        found = self.aliases[id(tensor)]
        if self.is_there(found):
            return found
        if id(tensor) not in self._untouched:
            raise Untraceable("a tensor whose data became another's (`.data = `)")
        self.forget(tensor, self._untouched[id(tensor)])
        return self.moved(found)

    def is_there(self, alias: Alias) -> bool:
        """Whether a tensor is still where it was last seen."""
        memory = self.memories.get(storage_of(alias.tensor)._cdata)
        if memory is not None:
            self._fit(memory)
        return memory is alias.memory and _alike(alias.looks, looks(alias.tensor))

    def moved(self, former: Alias, by_set: bool = False) -> Alias:
        """Notes that a tensor has come to lie where it lies now."""
        tensor = former.tensor
        memory = self.memories.get(storage_of(tensor)._cdata)
        if memory is None:
            raise Untraceable("a tensor whose data became that of a tensor from elsewhere")
        if len(memory.inputs) > 1:
            raise SharedInputs(memory.inputs)
        steps = self._place(tensor, memory)
        found = Alias(tensor, tensor, memory, steps, former.node, -1, len(steps), None, former, by_set)
        self.aliases[id(tensor)] = found
        return found

    def _place(self, tensor: torch.Tensor, memory: Memory) -> tuple[Step, ...]:
        """Views that lead to a tensor from the root of the memory that it came to lie in."""
        for other in self.aliases.values():
            if other.memory is memory and other.tensor is not tensor and _alike(other.looks, looks(tensor)):
                return tuple(step for step in other.steps if step.func not in TRANSPARENT)
        root = memory.root.meta["val"]
        steps = place(tensor, root, memory.start)  # what was written is a new tensor
        if shows_whole(root, memory.size) or (len(steps) == 1 and views.stays_within(steps[0], root)):
            return steps
        if memory.inputs:
            raise SharedInputs(memory.inputs, flat=True)
        raise Untraceable("a tensor that looks at more of another's memory than this shows")

    def _fit(self, memory: Memory) -> None:
        """A storage that has grown has a larger root."""
        size = memory.storage.nbytes()
        if not (isinstance(size, int) and isinstance(memory.size, int)) or size == memory.size:
            return
        if size < memory.size:  # nobody knows what is there when it grows again
            return
        root = memory.root.meta["val"]
        is_flat = root.dim() == 1 and shows_whole(root, memory.size)
        if not is_flat and memory.inputs:
            raise SharedInputs(memory.inputs, flat=True)
        widths = {alias.tensor.element_size() for alias in self.aliases.values() if alias.memory is memory}
        if not is_flat or any(size % width for width in widths):
            raise Untraceable("a storage that the program made grows")
        larger = self.emit(aten.new_empty.default, memory.root, (size // root.element_size(),))
        memory.root = self.emit(aten.slice_scatter.default, larger, memory.root, 0, 0, root.numel())
        memory.size = size
        memory.count_write()

    # --- values -------------------------------------------------------------------------------------------------------
    def read(self, tensor: torch.Tensor) -> fx.Node:
        """The node of the tensor's value as it is now."""
        alias = self.alias(tensor)
        memory = alias.memory
        _check_data(alias)
        if alias.writes != memory.writes:
            if len(memory.inputs) > 1:
                raise SharedInputs(memory.inputs)
            alias.node, alias.writes = self._replay(memory, alias.steps), memory.writes
        return alias.node

    def by_place(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call of one of `views.BY_PLACE`, for the record: its tensor as the node of one that begins
        at a place that is known. Kernels hand over their results at places of their own."""
        tensor, bound = args[0], bind(func, args, kwargs)
        size, stride, start = bound["size"], bound["stride"], bound["storage_offset"]
        base, first = self.read(tensor), tensor.storage_offset()
        start = first if start is None else start
        memory = self.alias(tensor).memory
        if views.exceeds(size, stride, start, tensor):  # the storages of stand-ins would grow
            raise SharedInputs(memory.inputs, flat=True) if memory.inputs else Fails(f"{func} of more than there is")
        if memory.inputs:
            shown = self.meta(memory.inputs[0])
            is_known = views.is_known(size, stride, start, tensor.element_size(), shown)
            memory.reached = memory.reached or not is_known
        if memory.reached and memory.writes:
            raise SharedInputs(memory.inputs, flat=True)
        is_look = func is not aten.as_strided_scatter.default
        if memory.writes and is_look and views.read_alike(self.meta(base), self.meta(memory.root)):
            base, first = memory.root, memory.start
        elif memory.writes and not is_non_overlapping_and_dense_or_false(tensor):
            raise Untraceable("places in memory that was written through gaps")
        return base, *list(bound.values())[1:-1], views.absolute(self, base, start - first)

    def root(self, memory: Memory) -> fx.Node:
        """The node of the whole of a memory as it is now."""
        return memory.root

    def _replay(self, memory: Memory, steps: tuple[Step, ...]) -> fx.Node:
        if not steps:
            return memory.root
        found = memory.replayed.get(steps)
        if found is None:
            base = self._replay(memory, steps[:-1])
            found = base if steps[-1].func in TRANSPARENT else views.replay(self, base, steps[-1])
            memory.replayed[steps] = found
        return found

    def write(self, tensor: torch.Tensor, value: fx.Node) -> None:
        """`value`, with the tensor's very dtype, sizes and strides, becomes what the tensor holds."""
        alias = self.alias(tensor)
        memory = alias.memory
        if len(memory.inputs) > 1:
            raise SharedInputs(memory.inputs)
        if memory.outside:
            raise Untraceable("a tensor that is no input is written")
        if memory.reached:
            raise SharedInputs(memory.inputs, flat=True)
        _check_data(alias)
        chain = tuple(step for step in alias.steps if step.func not in TRANSPARENT)
        if chain and memory.inputs and views.overlaps(memory.root.meta["val"]):
            raise SharedInputs(memory.inputs)  # an input that shows an element several times: its base shows each once
        root = views.put_back_chain(self, memory.root, chain, value) if chain else value
        memory.root = root
        memory.count_write()
        alias.node, alias.writes = value, memory.writes

    def meta(self, node: fx.Node) -> Any:
        """The fake tensor of a node."""
        return node.meta["val"]

    def change(self, alias: Alias, node: fx.Node, step: Step) -> None:
        """The tensor has become a view of itself."""
        alias.node, alias.steps, alias.looks = node, (*alias.steps, step), looks(alias.tensor)


def _check_data(alias: Alias) -> None:
    size = alias.memory.storage.nbytes()
    if isinstance(size, int) and size < alias.memory.size and size < views.end_of(alias.tensor):
        raise Untraceable("an operation reads values where there are none")


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    if tensor.layout is not torch.strided:
        raise Untraceable(f"a tensor that is {str(tensor.layout).removeprefix('torch.')}")
    return tensor.untyped_storage()
