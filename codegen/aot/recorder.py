"""Writes a functional graph of ATen operations while fake tensors live through the program as it is.

The fakes are mutated, viewed and differentiated for real (by torch's own autograd, below which the recorder listens),
so who is a view of whom, which versions count and what autograd saves is what eager code would see. Only the record is
functional: what tensors show of which memory is kept apart from the operations on them (`memory`).
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from keyword import iskeyword
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily
from torch.utils._pytree import tree_leaves

from codegen.aot import mutations, views
from codegen.aot.draws import Draws, Reseeded
from codegen.aot.meeting import meet
from codegen.aot.memory import TRANSPARENT, Alias, Fails, Memories, SharedInputs, Untraceable, storage_of
from codegen.aot.numbers import Varying
from codegen.aot.strides import as_kernels_give
from codegen.aot.symbols import Symbols
from codegen.aot.views import Step, Unwritable, step_of
from symbolic.fakes import FakeMode
from symbolic.late import NUMBERS, Number, Unknown, number_of, stand_ins
from symbolic.quick_graph import Graph
from symbolic.shapes import Environment

aten = torch.ops.aten

_DEVICE = torch.ops.prim.device.default
#: Questions that leave no trace.
QUERIES = frozenset({
    _DEVICE,
    *(aten.sym_size.int, aten.sym_size.default, aten.sym_stride.int, aten.sym_stride.default),
    *(aten.sym_numel.default, aten.sym_storage_offset.default),
    *(aten.is_contiguous.default, aten.is_contiguous.memory_format),
    *(aten.is_strides_like_format.default, aten.is_non_overlapping_and_dense.default),
})
#: The vectors they give, where complex, are known up to a phase. Of a derivative by them only the whole is defined, but
#: a derivative of derivatives comes in parts here: by the results, and by what the backward computes again.
UP_TO_A_PHASE = frozenset({aten.linalg_eig.default, aten._linalg_eigh.default, aten._linalg_svd.default})

#: The dtypes of numbers in the places of tensors.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
_DEPENDS_ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
_NO_DATA = "its data is not allocated yet"


def refusal(error: Exception) -> Untraceable | None:
    """What to raise in the place of an error that only a trace meets; None if the program itself raised it."""
    if isinstance(error, Unwritable):
        return Fails(str(error))
    if isinstance(error, (Unknown, Reseeded)):
        return Untraceable(str(error))
    if isinstance(error, _DEPENDS_ON_VALUES):
        return Untraceable(f"something depends on values: {error}")
    if isinstance(error, UnsupportedOperatorException):
        return Untraceable(f"an operation without a fake: {error}")
    if isinstance(error, RuntimeError) and _NO_DATA in str(error):
        return Untraceable("an operation reads values where there are none")
    if isinstance(error, RuntimeError) and "INTERNAL ASSERT FAILED" in str(error):
        return Untraceable("torch fails to take a view again")
    return None


def _ambient() -> tuple[Any, ...]:
    """What every operation depends on, and no graph can say."""
    return torch.is_inference_mode_enabled(), torch.get_default_dtype()


def _is_kept_by_autocast(tensor: torch.Tensor) -> bool:
    if not (tensor.is_leaf and tensor.requires_grad and torch.is_autocast_cache_enabled()):
        return False
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return nesting > 0


class Recorder(Memories, TorchDispatchMode):
    """Enter it over a FakeTensorMode. `decompositions`: OpOverload -> function of the same arguments."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the handler below to keep its own compiler off, and load that compiler for it."""
        return False

    def __init__(self, fake_mode: FakeTensorMode, decompositions: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.fake_mode = fake_mode
        self.ambient = _ambient()
        self.decompositions = {**mutations.RENAMED, **decompositions}
        self.graph = Graph()
        self.attributes = torch.nn.Module()  # constants of the program
        self.phase = "forward"
        self.stack_trace: Callable[[], str | None] = lambda: None
        self.randoms: list[fx.Node] = []
        self.draws = Draws()
        self.redrawn = False  # a random operation ran again in the backward
        self.traced: tuple[list[int], list[str]] = [], []  # autograd's next number after each node, and its trace
        self.applied: dict[fx.Node, Any] = {}  # in the backward: the autograd node that each node is of
        self.has_numbers = False  # that are known only when the graph runs
        # By id of a cast that autocast may keep: the cast, the leaf, and what was in this.
        self.casts: dict[int, tuple[torch.Tensor, torch.Tensor, Any]] = {}
        self.symbols = Symbols(self.graph, self._mark)
        self._constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._last_input: fx.Node | None = None

    def close(self) -> None:
        """Lets go of everything but the graph, which others have: it is all tied together, so that nothing of it would
        be freed before a search for garbage."""
        vars(self).clear()

    # --- inputs -------------------------------------------------------------------------------------------------------
    def add_placeholder(self, name: str, value: Any) -> fx.Node:
        """A placeholder that stands for nothing yet."""
        last = self._last_input
        with self.graph.inserting_after(last) if last is not None else self.graph.inserting_before():
            node = self._last_input = self.graph.placeholder(name)
        node.meta.update(val=value, phase=self.phase)
        return node

    def add_input(self, name: str, value: Any) -> fx.Node:
        """A placeholder for a fake tensor, a symbolic number, or a number that varies."""
        node = self.add_placeholder(name, value)
        if isinstance(value, Varying):
            self._bear(node, value.type)
        elif isinstance(value, torch.Tensor):
            self.came(value, node)
            self.symbols.add_sizes(value, node)
        elif isinstance(value, NUMBERS):
            self.symbols.add(value, node)
        return node

    def kept(self, tensor: torch.Tensor) -> torch.Tensor:
        with self._apart():
            return self.fake_mode.detached(tensor) if isinstance(self.fake_mode, FakeMode) else tensor.detach()

    def forget(self, tensor: torch.Tensor, instead: torch.Tensor) -> None:
        for known in self.graph.nodes:
            if known.meta.get("val") is tensor:
                known.meta["val"] = instead

    # --- recording ----------------------------------------------------------------------------------------------------
    def emit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """Records `func` on nodes and runs it on their fakes, out of autograd's sight."""
        with self._apart():
            value = self._run(func, fx.map_arg(args, _plain), fx.map_arg(kwargs, _plain))
        return self._node(func, self._symbolic(args), self._symbolic(kwargs), value)

    def again(self, node: fx.Node, image: Mapping[fx.Node, fx.Node], value: Any) -> fx.Node:
        """Records the operation of a node once more, on the images of its arguments: it gives `value` now."""
        if node.op == "get_attr":
            return self._attribute(getattr(self.attributes, str(node.target)), value)
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda given: image.get(given, given))
        return self._mark(self.graph.create_node(node.op, node.target, args, kwargs), value)

    def bear(self, node: fx.Node) -> None:
        """The value of a node is a tensor of the program, with memory of its own."""
        self._adopt(None, self.meta(node), None, node)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Nothing inside is recorded: between operations the recorder listens, in the middle of one it does not."""
        with _pop_mode_temporarily() if _get_current_dispatch_mode() is self else nullcontext():
            yield

    def _node(self, func: Callable[..., Any], args: Any, kwargs: Any, value: Any) -> fx.Node:
        if iskeyword(getattr(func, "_overloadname", "")):
            raise Untraceable(f"{func} has a name that Python's grammar does not allow")
        return self._mark(self.graph.call_function(func, args, kwargs), value)

    def _mark(self, node: fx.Node, value: Any) -> fx.Node:
        node.meta.update(val=value, phase=self.phase)
        if self.phase == "backward":
            self.applied[node] = torch._C._current_autograd_node()
        trace = self._trace(self.applied.get(node))
        if trace:
            node.meta["stack_trace"] = trace
        return node

    def _trace(self, applied: Any) -> str | None:
        """Where in the user's code the operation under way comes from, or what an autograd node differentiates."""
        numbers, traces = self.traced
        if self.phase == "backward":
            at = len(numbers) if applied is None else bisect_right(numbers, applied._sequence_nr())
            return traces[at] if at < len(traces) else None
        trace = self.stack_trace()
        if trace:
            numbers.append(torch.autograd._get_sequence_nr())
            traces.append(trace)
        return trace

    def _symbolic(self, args: Any) -> Any:
        return map_aggregate(args, lambda a: self.number(a) if isinstance(a, NUMBERS) else a)

    def _nodes(self, args: Any) -> Any:
        """Arguments of an operation as the graph sees them."""

        def node(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return self.read(value)
            return self.number(value) if isinstance(value, NUMBERS) else value

        return map_aggregate(args, node)

    def number(self, value: Any) -> Any:
        """The node of a symbolic number: computed from the sizes of inputs, or known when the graph runs."""
        late = number_of(value)
        return self.symbols.node(value) if late is None else late.value

    def compute(self, function: Callable[..., Any], args: Sequence[Any], kind: type) -> Any:
        """`function(*args)`, a number of that type, as a node; answers with its symbolic number."""
        return self._bear(self._node(function, tuple(self._symbolic(args)), {}, None), kind)

    def size(self, function: Callable[..., Any], number: Any, least: int) -> Any:
        """`function(number)`, as a node; answers with a new symbol for what it gives."""
        env = self.fake_mode.shape_env
        if not isinstance(env, Environment):
            raise Untraceable("a number is a size where sizes do not vary")
        made = env.number(least)
        self.symbols.add(made, self._node(function, (self.number(number),), {}, made))
        return made

    def _bear(self, node: fx.Node, kind: type) -> Any:
        """The symbolic number of a node that gives a number of that type."""
        self.has_numbers = True
        node.meta["val"] = made = Number(node, kind).symbol()
        return made

    def _item(self, tensor: torch.Tensor) -> Any:
        """The number in a tensor."""
        if tensor.is_complex():
            raise Untraceable("a complex number is read from a tensor")
        kind = float if tensor.is_floating_point() else bool if tensor.dtype is torch.bool else int
        return self._bear(self._node(aten._local_scalar_dense.default, (self.read(tensor),), {}, None), kind)

    def _run(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The operation on fakes."""
        if self.has_numbers:
            args, kwargs = stand_ins(func, args, kwargs)
        return as_kernels_give(func, args, func(*args, **kwargs))

    # --- operations ---------------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _ambient() != self.ambient:
            raise Untraceable("inference mode or the default dtype changes inside")
        if func is _DEVICE:  # asked more often than anything else
            return args[0].device
        if func in QUERIES:
            return func(*args, **kwargs)
        if func in self.decompositions:
            with self:
                result = self.decompositions[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        if _is_composite(func, args):
            with self:
                return func.decompose(*args, **kwargs)
        if args and type(args[0]) in _DTYPES and views.is_view(func):
            args = (self._literal(args[0]), *args[1:])
        args, kwargs = map_aggregate((args, kwargs), self._constant)
        if func is aten.lift_fresh.default:  # of a literal: every call gets a tensor of its own
            return self._fresh(args[0])
        if func is aten._local_scalar_dense.default and args[0].constant is None:
            return self._item(args[0])
        if torch.Tag.inplace_view in func.tags:
            return self._change_metadata(func, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            known = self.draws.again(func, args, kwargs)
            if known is not None:
                self.redrawn = self.redrawn or self.phase == "backward"
                with self:
                    return mutations.refill(func, args, kwargs, map(self._bearing, known))
        if func._schema.is_mutable or mutations.written(func):
            return self._mutate(func, args, kwargs)
        if self.casts and self.phase == "forward":
            self._check_casts(args)
        if func in views.BY_PLACE:
            nodes, named = self._nodes(self.by_place(func, args, kwargs)), {}
        else:
            nodes, named = self._nodes(args), self._nodes(kwargs)
        result = self._run(func, args, kwargs)
        if func is aten._to_copy.default and _is_kept_by_autocast(args[0]):
            self.casts[id(result)] = (result, args[0], self._contents(args[0]))
        if func in UP_TO_A_PHASE and args[0].requires_grad and result[-1].is_complex():
            raise Untraceable(f"{func} of a tensor that needs gradients: its results are known up to a phase")
        if func in TRANSPARENT:
            self._adopt(args[0], result, Step(func), nodes[0])
            return result
        node = self._node(func, nodes, named, result)
        self._bind(func, args, kwargs, node, result)
        self._drew(func, mutations.drawn(func, args, kwargs, result))
        return result

    def _contents(self, tensor: torch.Tensor) -> Any:
        """Another one whenever the tensor is written or comes to lie elsewhere."""
        memory = self.alias(tensor).memory
        return id(memory), memory.writes

    def _check_casts(self, args: Any) -> None:
        """Autocast takes the cast of a leaf again whatever was written since; where a gradient is differentiated again,
        the program has no leaves."""
        for arg in args:
            _, source, contents = self.casts.get(id(arg), (None, None, None))
            if source is not None and self._contents(source) != contents:
                raise Untraceable("autocast takes a cast again of what was written since")

    def _drew(self, func: Any, numbers: list[torch.Tensor]) -> None:
        if numbers:
            nodes = [self.read(tensor) for tensor in numbers]
            self.randoms += nodes
            self.draws.keep(func, nodes)

    def _bearing(self, node: fx.Node) -> torch.Tensor:
        """A tensor of its own with the value of a node."""
        with self._apart():
            fake = torch.empty_like(_plain(node))
        self._adopt(None, fake, None, node)
        return fake

    def _constant(self, value: Any) -> Any:
        """A tensor of the program that is no input becomes an attribute of the graph's module."""
        if not isinstance(value, torch.Tensor) or id(value) in self.aliases:
            return value
        if isinstance(value, FakeTensor):
            raise Untraceable("a tensor that the recorder never saw")
        if value.requires_grad and torch.is_grad_enabled():
            raise Untraceable("a tensor that is no input needs gradients")
        found = self._constants.get(id(value))
        if found is None:
            fake = self.fake_mode.from_tensor(value, static_shapes=True)
            node = self._attribute(value, fake)
            memory = self.memory(fake, node)
            memory.outside = True
            self.aliases[id(fake)] = Alias(fake, fake, memory, (), node)
            found = self._constants[id(value)] = (value, fake)
        return found[1]

    def _attribute(self, value: torch.Tensor, fake: torch.Tensor) -> fx.Node:
        """The node of a constant."""
        name = f"constant_{len(self.attributes._buffers)}"
        self.attributes.register_buffer(name, value, persistent=False)
        node = self.graph.get_attr(name)
        node.meta.update(val=fake, phase=self.phase)
        return node

    def _literal(self, number: complex) -> torch.Tensor:
        """A tensor for a number that is viewed as if it were one (`conj` of it, where `z * 1j` is differentiated)."""
        return self._bearing(self.emit(aten.scalar_tensor.default, number, dtype=_DTYPES[type(number)]))

    def _fresh(self, literal: torch.Tensor) -> torch.Tensor:
        node = self.emit(aten.lift_fresh_copy.default, self.read(literal))
        self._adopt(None, self.meta(node), None, node)
        return self.meta(node)

    def _bind(self, func: Any, args: Any, kwargs: Any, node: fx.Node, result: Any) -> None:
        """Ties the tensors among an operation's results to their nodes."""
        if isinstance(result, torch.Tensor):
            self._adopt(self._viewed(func, args, result), result, None, node, func, args, kwargs)
        elif isinstance(result, (tuple, list)):
            for index, item in enumerate(result):
                if isinstance(item, torch.Tensor):
                    part = self._node(operator.getitem, (node, index), {}, item)
                    self._adopt(self._viewed(func, args, item), item, None, part, func, args, kwargs, index)
                elif isinstance(item, NUMBERS):
                    self.symbols.add(item, self._node(operator.getitem, (node, index), {}, item))

    def _viewed(self, func: Any, args: Any, result: torch.Tensor) -> torch.Tensor | None:
        """The argument whose memory the result shares; where nobody looks at the argument any more, it has its own."""
        base = args[0] if args else None
        if not isinstance(base, torch.Tensor) or storage_of(base)._cdata != storage_of(result)._cdata:
            return None
        return None if func in views.UNDECLARED and self.alias(base).memory.is_own else base

    def _adopt(
        self, base: torch.Tensor | None, result: torch.Tensor, step: Step | None, node: fx.Node,
        func: Any = None, args: Any = (), kwargs: Any = None, index: int | None = None,
    ) -> None:
        if id(result) in self.aliases:
            return
        if base is None:
            if func in views.UNDECLARED:
                self.memories.pop(storage_of(result)._cdata, None)
            memory = self.memory(result, node)
            if memory.root is not node:
                raise Untraceable(f"{func} gives a view that its schema does not tell of")
            if self.fake_mode.shape_env is not None:
                self.symbols.add_sizes(result, node)
            self.aliases[id(result)] = Alias(result, result, memory, (), node, memory.writes)
            return
        step = step or step_of(func, args, kwargs or {}, index)
        known = self.alias(base)
        memory, steps = known.memory, (*known.steps, step)
        self.aliases[id(result)] = Alias(result, known.origin, memory, steps, node, memory.writes, len(steps), base)

    def _change_metadata(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        if func is aten.detach_.default:  # autograd's affair; it only comes here where there is no autograd
            return func(*args, **kwargs)
        step = mutations.metadata_step(func, args)
        alias = self.alias(tensor)
        if step is None and torch.is_grad_enabled() and any(_needs_gradient(each) for each in args[1:]):
            raise Untraceable(f"{func} of a tensor that gets a gradient")
        node: fx.Node | None = None
        if func is aten.as_strided_.default:
            node = self.emit(aten.as_strided.default, *self.by_place(func, args, kwargs))
        elif step is not None:
            node = views.replay(self, self.read(tensor), step)
        self.forget(tensor, tensor.detach())
        result = func(*args, **kwargs)
        if step is not None and node is not None:
            self.change(alias, node, step)
        elif func._schema.name == "aten::set_" or not self.is_there(alias):  # a leaf's gradient accumulates anew
            self.moved(alias, by_set=True)
            if torch.is_grad_enabled() and tensor.requires_grad and len(alias.memory.inputs) > 1:
                raise SharedInputs(alias.memory.inputs)  # its views get their gradients elsewhere
        return result

    def _mutate(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        places = mutations.writes(func, args, kwargs)
        meeting = self._meeting(places, (args, kwargs))
        if meeting is not None:
            turns = mutations.turns(func, args, kwargs)
            if not turns:
                raise Fails(meeting)
            for turn in turns:
                self._mutate(func, *turn)
            return None
        outcome = mutations.apply(self, func, self._nodes(args), self._nodes(kwargs))
        result = self._run(func, args, kwargs)
        _count_parts(func, places)
        values = []
        for place, target in places.items():
            new = outcome.new[place]
            for tensor, node in zip(target, new, strict=True) if isinstance(target, (tuple, list)) else [(target, new)]:
                old = self.alias(tensor).node
                values.append((old, views.settle(self, old, node)))
                self.write(tensor, values[-1][1])
        mutations.note(func, values)
        self._bind_new(result, outcome.result)
        self._drew(func, mutations.drawn(func, args, kwargs, result))
        return result

    def _meeting(self, places: Mapping[Any, Any], given: Any) -> str | None:
        """In words, where what is written shows a part of what else is read or written: the order counts, and eager
        code may raise."""
        leaves = tree_leaves(list(places.values()))
        writes = {id(tensor) for tensor in leaves}
        if len(writes) < len(leaves):
            return "an operation writes a tensor twice"
        lists = (target for target in places.values() if isinstance(target, (tuple, list)))
        turn = {id(tensor): at for target in lists for at, tensor in enumerate(target)}
        for value in (*given[0], *given[1].values()) if turn else ():
            for at, tensor in enumerate(value) if isinstance(value, (tuple, list)) else [(None, value)]:
                if turn.get(id(tensor), at) != at:  # a device may go through the lists one by one
                    return "an operation reads in one turn what it writes in another"
        together: dict[int, list[torch.Tensor]] = {}
        for tensor in tree_leaves(given):
            if isinstance(tensor, torch.Tensor):
                together.setdefault(id(self.alias(tensor).memory), []).append(tensor)
        for tensors in together.values():
            for one in (t for t in tensors if id(t) in writes):
                if any(self._meet(one, other, id(other) in writes) for other in tensors if other is not one):
                    return "an operation writes what overlaps with its other tensors"
        return None

    @staticmethod
    def _meet(one: torch.Tensor, other: torch.Tensor, both: bool) -> bool:
        if both:
            return True
        if not (is_non_overlapping_and_dense_or_false(one) and is_non_overlapping_and_dense_or_false(other)):
            return meet(one, other)
        size = one.element_size(), other.element_size()
        start = one.storage_offset() * size[0], other.storage_offset() * size[1]
        end = start[0] + one.numel() * size[0], start[1] + other.numel() * size[1]
        same = start[0] == start[1] and end[0] == end[1] and one.stride() == other.stride()
        return bool(not same and start[0] < end[1] and start[1] < end[0])

    def _bind_new(self, result: Any, nodes: Any) -> None:
        """Ties results that are no written arguments."""
        if isinstance(result, (tuple, list)):
            for item, node in zip(result, nodes, strict=True):
                self._bind_new(item, node)
        elif isinstance(result, torch.Tensor):
            self._adopt(None, result, None, nodes)

    # --- sections -----------------------------------------------------------------------------------------------------
    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Nodes recorded inside belong to that phase."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before


def _count_parts(func: OpOverload, places: Mapping[Any, Any]) -> None:
    """On a CPU an operation on lists writes tensor by tensor, each of which counts it; its fake does not."""
    if mutations.is_on_lists(func):
        for tensor in tree_leaves(list(places.values())):
            if tensor.device.type == "cpu" and not tensor.is_inference():
                torch._C._autograd._unsafe_set_version_counter((tensor,), (tensor._version + 1,))


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _plain(node: fx.Node) -> Any:
    """The fake without its history: some kernels look at that."""
    value = node.meta["val"]
    return value.detach() if isinstance(value, torch.Tensor) and value.requires_grad else value


def _is_composite(func: OpOverload, args: Any) -> bool:
    """Whether it is made of other operations; not where the device has a kernel of its own for it."""
    return _has_kernel(func, "CompositeImplicitAutograd") and not any(
        _has_kernel(func, torch._C._dispatch_key_for_device(tensor.device.type))
        for tensor in tree_leaves(args)
        if isinstance(tensor, torch.Tensor)
    )


@cache
def _has_kernel(func: OpOverload, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
