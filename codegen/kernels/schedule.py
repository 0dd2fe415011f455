"""Definitions -> kernels, calls of ATen, and what lies where."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.check import check
from codegen.kernels.definitions import Definition, Program, Stored
from codegen.kernels.groups import Call, Group, group
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Buffer, Expr, Kernel, Loop, Reduce, Statement, Store
from codegen.kernels.nodes import CHEAP, Alias, Node, Nodes, cost, find_nodes, physical, simplify
from codegen.kernels.places import Member, inner
from codegen.kernels.split import split

#: Operations that the name of a kernel tells.
WORDS = 3


@dataclass(frozen=True)
class Launch:
    """A kernel with the tensors that its buffers are, in their order, the sizes and the numbers that it is given.
    `copies`: so many launches in one, of the same sizes and numbers, their tensors one after the other. `done`: the
    definitions that it computes, those that lie in no memory among them."""

    kernel: Kernel
    tensors: tuple[str, ...]
    sizes: tuple[Symbol, ...]
    scalars: tuple[str, ...]
    copies: int = 1
    done: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of what is launched."""
        return self.kernel.named(self.copies)


@dataclass(frozen=True)
class Schedule:
    """`steps`: in order. `stored`: what kernels fill but inputs; `written`: what lies in whose memory.
    `aliases`, `views`: as in `Nodes`, but for memory that has another name."""

    program: Program
    steps: tuple[Launch | Call, ...]
    kernels: tuple[Kernel, ...]
    stored: dict[str, Stored]
    written: dict[str, str]
    aliases: dict[str, Alias]
    views: dict[str, set[str]]

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            if isinstance(step, Launch):
                lines.append(f"{step.name}({', '.join((*step.tensors, *map(str, step.sizes), *step.scalars))})")
            else:
                lines.append(", ".join(made.name for made in step.made) + f" = {step.made[0].node.target}")
        return "\n\n".join([*map(str, self.kernels), "\n".join(lines)])


def schedule(program: Program, in_stretches: bool = False) -> Schedule:
    """`in_stretches`: kernels may be such that a thread does rows in order, `Kernel.stretch` of them."""
    program = split(program)
    nodes = find_nodes(program)
    units = group(program, nodes, in_stretches)
    _store_what_others_read(nodes, units)
    order = {name: at for at, name in enumerate(program.tensors)}
    made: dict[Kernel, Kernel] = {}
    steps: list[Launch | Call] = []
    for unit in units:
        if isinstance(unit, Call):
            steps.append(unit)
            continue
        kernel, tensors, sizes, scalars, done = _Kernel(program, nodes, unit, order).made()
        same = replace(kernel, name="", sources=())
        if same not in made:
            made[same] = check(replace(kernel, name=f"{kernel.name}_{len(made)}"))
        steps.append(Launch(made[same], tensors, sizes, scalars, done=done))
    written = {name: node.target for name, node in nodes.nodes.items() if node.target is not None}
    stored = {name: _stored(node) for name, node in nodes.nodes.items() if name in nodes.stored and name not in written}
    aliases = {name: replace(alias, base=written.get(alias.base, alias.base)) for name, alias in nodes.aliases.items()}
    return Schedule(program, tuple(steps), tuple(made.values()), stored, written, aliases, nodes.views)


def _stored(node: Node) -> Stored:
    definition = node.definition
    return Stored(node.name, definition.shape, definition.dtype, definition.strides)


def _store_what_others_read(nodes: Nodes, units: list[Group | Call]) -> None:
    home = {name: unit for unit in units if isinstance(unit, Group) for name in unit.members}
    for name, node in nodes.nodes.items():
        for read in node.needs:
            if home.get(read, home[name]) is not home[name]:
                nodes.stored.add(read)
        if node.definition.is_scan:
            nodes.stored.add(name)


class _Kernel:
    """The kernel of a group. Its names say nothing about the program, so kernels that do the same are the same."""

    def __init__(self, program: Program, nodes: Nodes, group: Group, order: Mapping[str, int]) -> None:
        self.program = program
        self.nodes = nodes
        self.group = group
        self.order = order  # the program's
        self.values: dict[tuple[str, int], Expr] = {}
        self.stages: dict[str, int] = {}
        for name in group.members:
            self._stage(name)
        self.results = {name: f"r{number}" for number, name in enumerate(group.members)}
        self.buffers: dict[str, str] = {}
        self.names: dict[str, str] = {}  # what they are called: what lies in another one's memory has a name of its own
        self.loaded: set[str] = set()
        self.stored: set[str] = set()

    def made(self) -> tuple[Kernel, tuple[str, ...], tuple[Symbol, ...], tuple[str, ...], tuple[str, ...]]:
        loops = tuple(self._loops())
        buffers = tuple(self._buffer(name) for name in self.buffers)
        sizes = sorted(self._sizes(loops, buffers), key=lambda size: size.name)
        exprs = [expr for loop in loops for s in loop.body for expr in ir.walk(*ir.reads(s))]
        scalars = {expr.name: expr for expr in exprs if isinstance(expr, ir.Scalar)}
        done = self._done()
        own = [name for name, each in done.items() if not each.is_view or name in self.group.members]
        sources = dict.fromkeys(done[name].source for name in own)
        stretch = self.group.stretch
        axes = _in_order_of_memory(self.group.axes, loops) if stretch == 1 else self.group.axes
        name = _name(own, self.group.members)
        kernel = Kernel(name, axes, loops, buffers, tuple(sizes), tuple(scalars.values()), tuple(sources), stretch)
        return kernel, tuple(map(self.names.__getitem__, self.buffers)), tuple(sizes), tuple(scalars), tuple(done)

    def _done(self) -> dict[str, Definition]:
        """All that it computes, in the program's order: its members, and what was put in the place of their Reads."""
        found: dict[str, Definition] = {}
        waiting = [member.node.definition for member in self.group.members.values()]
        while waiting:
            definition = waiting.pop()
            if definition.name not in found:
                found[definition.name] = definition
                for expr in ir.walk(definition.value):
                    read = self.program.tensors.get(expr.tensor) if isinstance(expr, ir.Read) else None
                    if isinstance(read, Definition) and read.name not in self.nodes.nodes:
                        waiting.append(read)
        last = len(self.order)
        return dict(sorted(found.items(), key=lambda item: self.order.get(item[0], last)))

    # --- loops --------------------------------------------------------------------------------------------------------
    def _stage(self, name: str) -> int:
        """How many loops have to be over before its values are known: those of the reductions that it reads."""
        if name not in self.stages:
            members = self.group.members
            read = [other.tensor for other in members[name].node.reads if other.tensor in members]
            over = [self._stage(other) + bool(members[other].node.definition.over) for other in read]
            self.stages[name] = max(over, default=0)
        return self.stages[name]

    def _loops(self) -> Iterator[Loop]:
        """Inputs are written in the last one: until then they are what they were."""
        bodies: dict[tuple[int, tuple[Index, ...]], list[Statement]] = {}
        last = max(self.stages.values())
        written = {(last, member.inner) for member in self.group.members.values() if member.node.target is not None}
        for name, member in self.group.members.items():
            stage = self.stages[name] if member.node.target is None else last
            body = bodies.setdefault((stage, member.inner), [])
            body.extend(self._statements(member, stage))
            if member.node.definition.is_reduction and name in self.nodes.stored:
                value = ir.result(self.results[name], member.node.definition.dtype)
                bodies.setdefault((stage + 1, ()), []).append(self._store(member, value))
        for (_, shape), body in sorted(bodies.items(), key=lambda item: (item[0][0], item[0] in written)):
            if body:
                yield Loop(tuple(inner(number, size) for number, size in enumerate(shape)), tuple(body))

    def _statements(self, member: Member, stage: int) -> Iterator[Statement]:
        definition = member.node.definition
        if definition.is_put:
            yield self._put(member, self._value(member, stage))
        elif definition.kind is not None:
            value = self._value(member, stage)
            yield Reduce(self.results[member.node.name], definition.kind, value)
            if definition.is_scan:
                yield self._store(member, ir.running(self.results[member.node.name], definition.dtype))
        elif member.node.name in self.nodes.stored:
            yield self._store(member, self._value(member, stage))

    def _store(self, member: Member, value: Expr) -> Store:
        name = member.node.target or member.node.name
        self.stored.add(name)
        strides = member.node.definition.strides
        return Store(self._named(name), physical(member.element(), strides), value, member.since)

    def _put(self, member: Member, placed: Expr) -> Store:
        target, definition = member.node.target, member.node.definition
        assert target is not None and isinstance(placed, ir.Placed)
        self.stored.add(target)
        self.loaded.add(target)
        place = physical(placed.indices, definition.strides)
        return Store(self._named(member.node.name), place, placed.value, into=definition.kind)

    # --- values -------------------------------------------------------------------------------------------------------
    def _value(self, member: Member, stage: int) -> Expr:
        key = member.node.name, stage
        if key not in self.values:
            self.values[key] = simplify(
                ir.rewrite(member.node.value, lambda expr: self._leaf(expr, stage), member.place)
            )
        return self.values[key]

    def _leaf(self, expr: Expr, stage: int) -> Expr | None:
        if not isinstance(expr, ir.Read):
            return None
        member = self.group.members.get(expr.tensor)
        if member is None:
            return self._load(expr)
        if member.node.definition.over:
            value: Expr = ir.result(self.results[expr.tensor], expr.dtype)
        elif expr.tensor in self.nodes.stored and stage > self.stages[expr.tensor] and cost(member.node.value) > CHEAP:
            return self._load(expr)  # an earlier loop has stored it
        else:
            value = self._value(member, stage)
        return value if expr.mask is None else ir.op("where", expr.dtype, expr.mask, value, ir.literal(0, expr.dtype))

    def _load(self, read: ir.Read) -> Expr:
        place = physical(read.indices, self._strides(read.tensor))
        self.loaded.add(self.nodes.home(read.tensor))
        return ir.load(self._named(read.tensor), place, read.dtype, read.mask)

    # --- buffers ------------------------------------------------------------------------------------------------------
    def _named(self, tensor: str) -> str:
        home = self.nodes.home(tensor)
        self.names.setdefault(home, tensor)
        tensor = home
        return self.buffers.setdefault(tensor, f"b{len(self.buffers)}")

    def _tensor(self, name: str) -> tuple[tuple[Index, ...], tuple[Index, ...], torch.dtype]:
        tensor = self.nodes.nodes[name].definition if name in self.nodes.nodes else self.program.tensors[name]
        return tensor.shape, tensor.strides, tensor.dtype

    def _strides(self, name: str) -> tuple[Index, ...]:
        return self._tensor(name)[1]

    def _buffer(self, name: str) -> Buffer:
        shape, strides, dtype = self._tensor(name)
        last = physical(tuple(size - 1 for size in shape), strides)
        role = "inout" if name in self.stored & self.loaded else "out" if name in self.stored else "in"
        return Buffer(self.buffers[name], dtype, last + 1, role)

    def _sizes(self, loops: tuple[Loop, ...], buffers: tuple[Buffer, ...]) -> set[Symbol]:
        found: set[Symbol] = set()

        def see(index: Index | None) -> None:
            for symbol in ix.symbols(index) if index is not None else ():
                if symbol.size is None:
                    found.add(symbol)
                else:
                    see(symbol.size)

        for axis in (*self.group.axes, *(axis for loop in loops for axis in loop.axes)):
            see(axis.size)
        for buffer in buffers:
            see(buffer.size)
        for loop in loops:
            for statement in loop.body:
                if isinstance(statement, Store):
                    see(statement.index)
                for expr in ir.walk(*ir.reads(statement)):
                    see(ir.indices_in(expr))
        return found


def _in_order_of_memory(axes: tuple[Symbol, ...], loops: tuple[Loop, ...]) -> tuple[Symbol, ...]:
    """The axes as stores go through memory, the longest steps first, where all of these are known."""
    stores = [statement.index for loop in loops for statement in loop.body if isinstance(statement, Store)]
    steps = {axis: [ix.stride_of(index, axis) for index in stores] for axis in axes}
    lengths = {axis: [_length(step) for step in of_axis if step is not None] for axis, of_axis in steps.items()}
    if any(len(of_axis) < len(stores) for of_axis in lengths.values()):
        return axes
    return tuple(sorted(axes, key=lengths.__getitem__, reverse=True))


def _length(step: Index) -> tuple[int, int]:
    """Orders steps: a product of more sizes is longer than one of fewer."""
    return max(((len(atoms), abs(factor)) for atoms, factor in step.terms), default=(0, 0))


def _name(done: list[str], members: Container[str]) -> str:
    """What a kernel is called that computes these: by three of its operations, the last of those that others read, or
    that reduce, and then of all."""
    words = {name: _word(name) for name in done}
    chosen: dict[str, None] = {}
    for name in sorted(reversed(done), key=lambda name: name not in members):
        if len(chosen) < WORDS:
            chosen.setdefault(words[name])
    in_order = [word for word in dict.fromkeys(words.values()) if word in chosen]
    return "_".join([*in_order, *(["fused"] if len(set(words.values())) > 1 else [])])


def _word(name: str) -> str:
    """What a node's name says of the operation."""
    node = name.partition(".")[0].strip("_").removeprefix("native_")
    return re.sub(r"(_default|_tensor|_scalar|_self|_dim|_int|_list|_correction)*(_\d+)?$", "", node)


