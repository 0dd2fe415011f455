"""A schedule as a plan: what lies where, what is made when, and when it dies."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Given, Made, Number, Stored, Tensor, contiguous, dense_order
from codegen.kernels.groups import Call
from codegen.kernels.index import Index
from codegen.kernels.ir import Kernel, Store
from codegen.kernels.lowering.context import Unsupported
from codegen.kernels.nodes import physical
from codegen.kernels.schedule import Launch, Schedule
from codegen.kernels.traffic import traffic
from codegen.plan import steps as s
from codegen.plan.memory import Intermediate, lay_out
from codegen.plan.numbers import Numbers

#: As many elements a thread gets at least, as ATen's own kernels have it.
GRAIN = 32768
#: What an axis of unknown size counts for in that.
USUAL = 512
#: As what the inputs come that are no tensors.
KINDS = {torch.bool: bool, torch.int64: int, torch.float64: float}


aten = torch.ops.aten
#: Their results have the strides that torch's fakes say.
FORESEEN = frozenset({aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default})
#: Operations that copy their first operand and write into the copy, and those that write into it at once.
INSIDE: dict[Any, Any] = {
    aten.index_add.default: aten.index_add_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.index_put.default: aten.index_put_.default,
    aten._unsafe_index_put.default: aten.index_put_.default,
    aten.index_reduce.default: aten.index_reduce_.default,
    aten.masked_scatter.default: aten.masked_scatter_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter_reduce.two: aten.scatter_reduce_.two,
}


@dataclass(frozen=True)
class OnDevice:
    """A kernel's machine code for a device: it takes the kernel's buffers, null for its error if it `reports_errors`
    (an index out of range is an error of the device then, as with ATen's kernels), sizes, scalars, and two more nulls.
    `programs`: how many there are, over the kernel's sizes."""

    function: s.DeviceFunction
    programs: Index
    reports_errors: bool = False


Functions = Mapping[str, s.Function] | Mapping[str, OnDevice]


def plan(
    schedule: Schedule, parameters: list[str], functions: Functions, name: str, takes_list: bool = False,
    device: torch.device = s.CPU, aligned: Set[str] = frozenset(), nodes: Mapping[str, int] | None = None,
) -> s.Plan:
    """`parameters`: names of the inputs in their order; `functions`: by the names of the kernels; `device`: where all
    tensors are; `aligned`: inputs whose memory is to be; `nodes`: the places of the graph's, by name."""
    made = _Planner(schedule, parameters, functions, name, takes_list, device, nodes or {}).plan()
    return replace(made, aligned=tuple(at for at, parameter in enumerate(parameters) if parameter in aligned))


class _Planner:
    def __init__(
        self, schedule: Schedule, parameters: list[str], functions: Functions, name: str, takes_list: bool,
        device: torch.device, nodes: Mapping[str, int],
    ) -> None:
        #: What each step of kernels is given, whatever memory that lies in.
        self.named = [step.tensors if isinstance(step, Launch) else () for step in schedule.steps]
        self.schedule = schedule = replace(schedule, steps=tuple(_at_home(step, schedule) for step in schedule.steps))
        self.program = schedule.program
        self.functions = functions
        self.name = name
        self.takes_list = takes_list
        self.device = device
        self.nodes = nodes
        self.traffic: dict[str, Index] = {}  # by kernel
        self.slots: dict[str, s.TensorSlot | s.BlockSlot] = {}
        self.parameters: list[s.TensorSlot | s.NumberSlot | None] = []
        scalars = 0
        for parameter in parameters:
            if parameter in self.program.tensors:
                self.parameters.append(self._tensor(parameter))
            else:
                scalar = self.program.scalars.get(parameter)
                kind = int if scalar is None else KINDS[scalar.dtype]
                self.parameters.append(s.NumberSlot(scalars, kind))
                scalars += 1
        self.given = dict(zip(parameters, self.parameters, strict=True))
        places = {symbol: self._place(*place) for symbol, place in self.program.sizes.items()}
        strides = [symbol for symbol in self.program.steps if symbol not in places]
        self.strides = {symbol: s.NumberSlot(scalars + at) for at, symbol in enumerate(strides)}
        self.numbers = Numbers(scalars + len(strides), {**self.strides, **places})
        self.steps: list[s.Step] = []
        self.taken_over: set[str] = set()  # tensors whose memory another one has now
        self.viewed: set[str] = set()  # of these, the ones whose slot is still their own
        self.last = self._last_uses()
        self.dying: dict[int, list[str]] = {}
        for name, time in self.last.items():
            self.dying.setdefault(time, []).append(name)
        given = set(self.program.given_back)
        self.results = set(map(self._home, given))
        bases = {alias.base for alias in schedule.aliases.values()}
        launched = {name for step in schedule.steps if isinstance(step, Launch) for name in step.tensors}
        self.read = launched | bases  # by kernels, or by what is said of their strides
        self.shared = bases.union(*schedule.views.values())  # their memory is known under other names, too
        self.kept = self.results | given

    def _place(self, source: str, dim: int | None) -> tuple[s.TensorSlot, int] | s.NumberSlot:
        """Where a size is read: of a tensor, or it is an input itself."""
        if dim is not None:
            return self._tensor(source), dim
        number = self.given[source]
        assert isinstance(number, s.NumberSlot)
        return number

    def plan(self) -> s.Plan:
        blocks = self._blocks()
        for time, step in enumerate(self.schedule.steps):
            if isinstance(step, Call):
                self._call(step, time)
            else:
                self._launch(step, time)
            self._free(time)
        results = tuple(map(self._result, self.program.results))
        kernels = self.schedule.kernels
        writes = {kernel.name: tuple(buffer.role != "in" for buffer in kernel.buffers) for kernel in kernels}
        seen = set().union(*self.schedule.views.values())  # two launches may meet there without being seen to
        alone = {self.slots[name] for name in seen & set(self.schedule.written.values())}
        steps = (*self._read_strides(), *self.numbers.steps, *blocks, *_together(self.steps, writes, alone))
        return s.Plan(self.name, tuple(self.parameters), steps, results, self.takes_list)

    def _read_strides(self) -> Iterator[s.Step]:
        for symbol, slot in self.strides.items():
            if ix.index(symbol) in self.numbers.known:
                source, dim = self.program.steps[symbol]
                yield s.Call(aten.stride.int, (self._tensor(source), dim), (), (slot,))

    def _result(self, value: Any) -> Any:
        match value:
            case str():
                return self._operand(value)
            case Number():
                dtype = self.program.tensors[value.tensor].dtype
                slot = self.numbers.new(KINDS[dtype])
                read = aten._local_scalar_dense.default
                self.steps.append(s.Call(read, (self._operand(value.tensor),), (), (slot,)))
                return slot
            case Index():
                return self.numbers.of(value)
        return value

    # --- where tensors lie --------------------------------------------------------------------------------------------
    def _home(self, name: str) -> str:
        """The tensor whose memory that is."""
        alias = self.schedule.aliases.get(name)
        return self.schedule.written.get(name, name) if alias is None else alias.base

    def _tensor(self, name: str) -> s.TensorSlot:
        name = self.schedule.written.get(name, name)
        slot = self.slots.get(name)
        if slot is None:
            slot = self.slots[name] = s.TensorSlot(len(self.slots))
        assert isinstance(slot, s.TensorSlot)
        return slot

    def _last_uses(self) -> dict[str, int]:
        """When each tensor's memory is used last."""
        last: dict[str, int] = {}
        for time, step in enumerate(self.schedule.steps):
            calls = [n for made in step.made for n in (made.name, *made.reads)] if isinstance(step, Call) else []
            for name in step.tensors if isinstance(step, Launch) else calls:
                last[self._home(name)] = time
                if name in self.schedule.aliases:
                    last[name] = time
        return last

    def _blocks(self) -> list[s.Step]:
        """Places for the tensors that only kernels see."""
        calls = [step for step in self.schedule.steps if isinstance(step, Call)]
        seen = {self._home(name) for call in calls for name in call.made[0].reads}
        hidden = [name for name in self.schedule.stored if name not in seen | self.results]
        makers: dict[str, tuple[int, Launch]] = {}
        for time, step in enumerate(self.schedule.steps):
            if isinstance(step, Launch):
                for name in step.tensors:
                    makers.setdefault(name, (time, step))
        intermediates = []
        for name in hidden:
            first, maker = makers[name]
            over = tuple(other for other in maker.tensors if other in hidden and _may_take(maker, name, other))
            node = self.schedule.stored[name]
            size = _span(node) * node.dtype.itemsize
            intermediates.append(Intermediate(name, size, first, self.last[name], over))
        layout = lay_out(intermediates)
        for name in hidden:
            self.slots[name] = s.BlockSlot(layout.block_of[name])
        if not layout.sizes:
            return []
        blocks = tuple((s.BlockSlot(n), self.numbers.of(size)) for n, size in enumerate(layout.sizes))
        return [s.Reserve(blocks, self.device)]

    def _made(self, name: str, time: int, launch: Launch) -> None:
        """Memory for a tensor that a kernel is about to fill."""
        node = self.schedule.stored[name]
        sizes, strides = tuple(map(self.numbers.of, node.shape)), tuple(map(self.numbers.of, node.strides))
        for other in launch.tensors:
            if self._dies_free(other, time) and _may_take(launch, name, other) and self._is_as_large(node, other):
                base = self.slots[other]
                self.taken_over.add(other)
                if self._alike(node, other):
                    self.slots[name] = base
                else:
                    self.steps.append(s.View(self._tensor(name), base, sizes, strides))
                    self.viewed.add(other)
                return
        self.steps.append(s.Allocate(self._tensor(name), sizes, strides, node.dtype, self.device))

    def _dies_free(self, name: str, time: int) -> bool:
        """Whether that is the last use of a tensor that the plan has made, whose memory nobody else knows."""
        tensor = self.program.tensors.get(name)
        is_over = self.last.get(name) == time and name not in self.taken_over
        if name in self.results or not is_over or isinstance(tensor, Given):
            return False
        if name in self.shared or isinstance(tensor, Made) and not tensor.is_fresh:
            return False
        return isinstance(self.slots.get(name), s.TensorSlot)

    def _is_as_large(self, node: Stored, other: str) -> bool:
        """Whether the two are the same memory, element for element, whatever shape each has."""
        tensor = self._known(other)
        dense = tensor.strides == contiguous(tensor.shape) and node.strides == contiguous(node.shape)
        count = math.prod(tensor.shape, start=ix.index(1)) == math.prod(node.shape, start=ix.index(1))
        return self._alike(node, other) or (dense and count and tensor.dtype == node.dtype)

    def _known(self, name: str) -> Tensor:
        return self.schedule.stored.get(name) or self.program.tensors[name]

    def _alike(self, node: Stored, other: str) -> bool:
        tensor = self._known(other)
        return (tensor.shape, tensor.strides, tensor.dtype) == (node.shape, node.strides, node.dtype)

    def _operand(self, name: str) -> s.TensorSlot:
        """The tensor itself, for ATen or as a result."""
        alias = self.schedule.aliases.get(name)
        if alias is not None and name not in self.slots:
            base = self._operand(alias.base)
            sizes, strides = map(self.numbers.of, alias.shape), map(self.numbers.of, alias.strides)
            view = s.View(self._tensor(name), base, tuple(sizes), tuple(strides), self.numbers.of(alias.offset))
            self.steps.append(view)
        return self._tensor(name)

    def _free(self, time: int) -> None:
        for name in self.dying.get(time, ()):
            slot = self.slots.get(name)
            is_kept = name in self.kept or name in self.taken_over - self.viewed
            if is_kept or not isinstance(slot, s.TensorSlot):
                continue
            if self.takes_list or not isinstance(self.program.tensors.get(name), Given):
                self.steps.append(s.Free(slot))

    # --- steps --------------------------------------------------------------------------------------------------------
    def _launch(self, launch: Launch, time: int) -> None:
        kernel = launch.kernel
        for name, buffer in zip(launch.tensors, kernel.buffers * launch.copies, strict=True):
            if buffer.role != "in" and name not in self.slots:
                self._made(name, time, launch)
        known = dict(zip(kernel.sizes, map(ix.index, launch.sizes), strict=True))
        function = self.functions[launch.name]
        buffers = tuple(self.slots[name] for name in launch.tensors)
        sizes = tuple(self.numbers.of(ix.index(size)) for size in launch.sizes)
        scalars = tuple(map(self._scalar, launch.scalars))
        made = [at for at, buffer in enumerate(kernel.buffers * launch.copies) if buffer.role != "in"]
        origin = self._origin(*(names[at] for names in (launch.tensors, self.named[time]) for at in made))
        if kernel.name not in self.traffic:
            self.traffic[kernel.name] = traffic(kernel)
        moved = self.numbers.program(ix.substitute(self.traffic[kernel.name] * launch.copies, known))
        if isinstance(function, OnDevice):
            plain = tuple(scalar.value if isinstance(scalar, s.Floating) else scalar for scalar in scalars)
            error = (None,) if function.reports_errors else ()
            programs = self.numbers.of(ix.substitute(function.programs, known))
            arguments = (*buffers, *error, *sizes, *plain, None, None)
            self.steps.append(
                s.DeviceLaunch(function.function, programs, arguments, self.device, origin, moved)
            )
            return
        total = math.prod((ix.substitute(axis.size or ix.index(1), known) for axis in kernel.axes), start=ix.index(1))
        total = ix.floor_divide(total, ix.index(kernel.stretch))
        grain = max(1, GRAIN // (_work(kernel) * kernel.stretch))
        self.steps.append(s.Launch(function, buffers, self.numbers.of(total), sizes, scalars, grain, origin, moved))

    def _origin(self, *names: str) -> tuple[int, ...]:
        """Where the graph computes these tensors."""
        nodes = {name.partition(".")[0] for name in names}
        return tuple(sorted(self.nodes[node] for node in nodes if node in self.nodes))

    def _scalar(self, name: str) -> s.Count | s.Floating:
        slot = self.given[name]
        assert isinstance(slot, s.NumberSlot)
        return s.Floating(slot) if slot.kind is float else slot

    def _call(self, call: Call, time: int) -> None:
        made = call.made[0]
        node = made.node
        if node.op == "get_attr":  # a tensor of the graph itself
            constant = operator.attrgetter(str(node.target))(node.graph.owning_module)
            self.steps.append(s.Constant(self._tensor(made.name), constant))
            return
        operands: dict[fx.Node, Any] = {
            given: self._operand(value) if isinstance(value, str) else self.numbers.of(value)
            for given, value in zip(node.all_input_nodes, made.operands, strict=True)
        }
        args = fx.map_arg(node.args, operands.__getitem__)
        kwargs = fx.map_arg(node.kwargs, operands.__getitem__)
        if not isinstance(node.target, OpOverload):
            assert callable(node.target)
            results = tuple(self._tensor(each.name) for each in call.made)
            self.steps.append(s.Python(node.target, args, results, self._origin(node.name)))
            return
        op: Any = INSIDE[node.target] if self._may_write_inside(made, time) else node.target
        kept = self._call_results(call)
        self.steps.append(s.Call(op, args, tuple(kwargs.items()), kept, self._origin(node.name)))
        for each in call.made:
            if each.name in self.read and each.is_fresh and node.target not in FORESEEN:
                sizes = tuple(map(self.numbers.of, each.shape))
                self.steps.append(s.Expect(self._tensor(each.name), each.dtype, sizes, node.target.name()))
                self._lay_out(each)

    def _lay_out(self, made: Made) -> None:
        """Results do not always have the strides that torch's fakes say, by which kernels go: these become copies."""
        if any(size.constant == 0 for size in made.shape):
            return
        slot, dims = self._tensor(made.name), range(len(made.shape))
        order = dense_order(made.shape, made.strides)
        if order is None:
            raise Unsupported(f"the strides of what {made.node.target} gives")
        is_turned = order != list(dims)
        if is_turned:
            self.steps.append(s.Call(aten.permute.default, (slot, order), (), (slot,)))
        self.steps.append(s.Call(aten.contiguous.default, (slot,), (), (slot,)))
        if is_turned:
            back = [order.index(dim) for dim in dims]
            self.steps.append(s.Call(aten.permute.default, (slot, back), (), (slot,)))

    def _may_write_inside(self, made: Made, time: int) -> bool:
        """Whether the operation may write into its first operand, which nobody needs any more."""
        if made.node.target not in INSIDE:
            return False
        given: list[fx.Node] = []
        fx.map_arg((made.node.args, made.node.kwargs), given.append)
        if given.count(given[0]) > 1:
            return False
        first, *others = made.reads
        tensor = self.program.tensors[first]
        is_alike = (tensor.shape, tensor.strides, tensor.dtype) == (made.shape, made.strides, made.dtype)
        is_alone = first == self._home(first) and first not in map(self._home, others)
        return is_alike and is_alone and self._dies_free(first, time)

    def _call_results(self, call: Call) -> tuple[s.Result, ...]:
        node = call.made[0].node
        returns = node.target._schema.returns  # type: ignore[union-attr]
        if not returns:
            return ()
        by_item = {made.item: self._tensor(made.name) for made in call.made}

        def result(fake: Any, item: tuple[int, ...]) -> Any:
            if isinstance(fake, tuple | list):
                return tuple(result(each, (*item, at)) for at, each in enumerate(fake))
            return by_item.get(item)

        items = result(node.meta["val"], ())
        if not isinstance(items, tuple):
            return (items,)
        is_list = len(returns) == 1
        return (items,) if is_list else items


def _at_home(step: Launch | Call, schedule: Schedule) -> Launch | Call:
    """With the tensors whose memory its own lie in."""
    if isinstance(step, Call):
        return step
    return replace(step, tensors=tuple(schedule.written.get(name, name) for name in step.tensors))


def _span(node: Stored) -> Index:
    return physical(tuple(size - 1 for size in node.shape), node.strides) + 1


def _work(kernel: Kernel) -> int:
    """Elements that a kernel goes through in one row."""
    most = 1
    for loop in kernel.loops:
        count = math.prod((axis.size or ix.index(1) for axis in loop.axes), start=ix.index(1))
        most = max(most, USUAL if count.constant is None else count.constant)
    return most


def _may_take(launch: Launch, name: str, other: str) -> bool:
    """Whether `name`, which the kernel writes, may lie where `other` does: each element is read where it is written, in
    the same round, and in no later loop."""
    if name == other:
        return False
    count = len(launch.kernel.buffers)
    start = launch.tensors.index(name) // count * count
    copy = launch.tensors[start : start + count]
    if other not in copy or other in launch.tensors[:start] + launch.tensors[start + count :]:
        return False
    named = dict(zip(copy, launch.kernel.buffers, strict=True))
    mine, theirs = named[name], named[other]
    if theirs.role != "in" or mine.role != "out" or mine.dtype.itemsize != theirs.dtype.itemsize:
        return False
    stores = [
        (number, statement) for number, loop in enumerate(launch.kernel.loops) for statement in loop.body
        if isinstance(statement, Store) and statement.buffer == mine.name
    ]  # fmt: skip
    read = [
        (number, expr.index) for number, loop in enumerate(launch.kernel.loops) for statement in loop.body
        for expr in ir.walk(*ir.reads(statement)) if isinstance(expr, ir.Load) and expr.buffer == theirs.name
    ]  # fmt: skip
    ((at, store),) = stores
    if store.since is not None:  # rounds to come read there what it was
        return False
    return not any(index != store.index or number > at for number, index in read)


def _together(
    steps: list[s.Step], writes_to: Mapping[str, tuple[bool, ...]], alone: Set[s.TensorSlot | s.BlockSlot]
) -> list[s.Step]:
    """Launches side by side that do not meet in memory as one step. What they need is made before the first of them.
    `alone`: they are written by none of these."""
    found: list[s.Step] = []
    run: list[s.Launch] = []
    before: list[s.Step] = []
    after: list[s.Step] = []
    written: set[Any] = set()
    touched: set[Any] = set()

    def close() -> None:
        found.extend(before)
        if run:
            found.append(run[0] if len(run) == 1 else s.LaunchGroup(tuple(run)))
        found.extend(after)
        for each in (run, before, after):
            each.clear()
        written.clear()
        touched.clear()

    for step in steps:
        if isinstance(step, s.Launch):
            writes = set(itertools.compress(step.buffers, writes_to[step.function.name]))
            if writes & alone:
                close()
                found.append(step)
                continue
            if writes & touched or set(step.buffers) & written:
                close()
            run.append(step)
            written |= writes
            touched |= set(step.buffers)
        elif isinstance(step, s.Allocate) and run:
            if step.tensor in touched:
                close()
            before.append(step)
        elif isinstance(step, s.Free) and run:
            after.append(step)
        else:
            close()
            found.append(step)
    close()
    return found
