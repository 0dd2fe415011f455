"""Which nodes share a kernel.

A group has rows: axes over which its kernel runs in parallel. Each member covers every row once, either with one
element (a reduction, what is computed of reductions) or with all elements of inner axes of its own. A member may read
what another one gives in the same row: a reduction's result, or an element of the same inner place. So a group is
computed row by row, and softmax, normalisations, their backwards, a loss are one kernel each. Axes of size 1 lie
nowhere: their index is 0.

Nodes come in an order in which each is defined before it is read. Each joins the group of a node that it reads, else
one that reads an element that it reads in the same place, else it is a group of its own: greedy, the newest first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Made, Program, Shape
from codegen.kernels.index import Index, Symbol
from codegen.kernels.nodes import Node, Nodes, physical
from codegen.kernels.split import FEW_ROWS, LONG

#: More tensors than that a kernel does not touch.
MANY = 48


def row(number: int, size: Index) -> Symbol:
    return ix.axis("p", number, size)


def inner(number: int, size: Index) -> Symbol:
    return ix.axis("q", number, size)


@dataclass(frozen=True)
class Member:
    """`place`: each axis of the node over the rows of the group and the inner axes `q0..` of these sizes."""

    node: Node
    place: Mapping[Symbol, Index]
    inner: Shape

    def element(self) -> tuple[Index, ...]:
        """Which element of the node's tensor it computes in a row, at an inner place."""
        return tuple(self.place[axis] for axis in self.node.definition.axes)


@dataclass(eq=False)
class Group:
    rows: Shape
    members: dict[str, Member] = field(default_factory=dict)
    first: int = 0  # when its first member could have been computed
    last: int = 0

    @property
    def axes(self) -> tuple[Symbol, ...]:
        return tuple(row(number, size) for number, size in enumerate(self.rows))

    @property
    def has_inner(self) -> bool:
        return any(member.inner for member in self.members.values())


@dataclass(eq=False)
class Call:
    """A call of ATen, which gives these tensors."""

    made: list[Made]
    first: int


Unit = Group | Call


def group(program: Program, nodes: Nodes) -> list[Unit]:
    """All that is to be done, in an order in which it can be."""
    return _Grouping(program, nodes).run()


class _Grouping:
    def __init__(self, program: Program, nodes: Nodes) -> None:
        self.program = program
        self.nodes = nodes
        self.units: list[Unit] = []
        self.home: dict[str, Unit] = {}  # of each node, each tensor that ATen makes
        self.needs: dict[Unit, set[Unit]] = {}
        self.readers: dict[str, list[Unit]] = {}  # of each real tensor
        self.calls: dict[object, Call] = {}

    def run(self) -> list[Unit]:
        order = [*self.program.tensors, *(name for name in self.nodes.nodes if name not in self.program.tensors)]
        previous: Call | None = None
        for time, name in enumerate(order):
            tensor = self.program.tensors.get(name)
            if name in self.nodes.nodes:
                self._place(self.nodes.nodes[name], time)
            elif isinstance(tensor, Made) and name in self.nodes.needed:
                previous = self._call(tensor, previous, time)
        return self._ordered()

    def _call(self, made: Made, previous: Call | None, time: int) -> Call:
        call = self.calls.get(made.node)
        if call is None:
            call = self.calls[made.node] = Call([], time)
            self.units.append(call)
            self.needs[call] = set(self._homes(made.reads))
            if previous is not None:  # calls stay in their order: some draw random numbers
                self.needs[call].add(previous)
            for name in (known for read in made.reads for known in self._memory(read)):
                self.readers.setdefault(name, []).append(call)
        call.made.append(made)
        self.home[made.name] = call
        return call

    def _place(self, node: Node, time: int) -> None:
        for found in self._candidates(node):
            joined = self._joined(found, node)
            if joined is not None:
                rows, members = joined
                found.rows, found.members, found.last = rows, members, time
                self._enter(found, node)
                return
        rows, member = _alone(node)
        made = Group(rows, {node.name: member}, time, time)
        self.units.append(made)
        self.needs[made] = set()
        self._enter(made, node)

    def _enter(self, found: Group, node: Node) -> None:
        self.home[node.name] = found
        self.needs[found] |= self._dependencies(node) - {found}
        for read in node.reads:
            for name in self._memory(read.tensor):
                self.readers.setdefault(name, []).append(found)

    # --- what depends on what -----------------------------------------------------------------------------------------
    def _real(self, name: str) -> str:
        alias = self.nodes.aliases.get(name)
        return name if alias is None else alias.base

    def _memory(self, name: str) -> set[str]:
        """The tensors whose memory that may be, itself among them."""
        name = self._real(name)
        return {name, *self.nodes.views.get(name, ())}

    def _homes(self, names: tuple[str, ...]) -> Iterator[Unit]:
        for name in names:
            unit = self.home.get(self._real(name))
            if unit is not None:
                yield unit

    def _dependencies(self, node: Node) -> set[Unit]:
        found = set(self._homes(tuple(read.tensor for read in node.reads)))
        if node.target is not None:
            found |= set(self.readers.get(node.target, ()))
        return found

    def _reaches(self, goal: Group, starts: set[Unit]) -> bool:
        """Whether one of these needs `goal`."""
        seen: set[Unit] = set()
        stack = list(starts)
        while stack:
            unit = stack.pop()
            if unit is goal:
                return True
            last = unit.last if isinstance(unit, Group) else unit.first
            if unit not in seen and last > goal.first:
                seen.add(unit)
                stack.extend(self.needs[unit])
        return False

    # --- joining ------------------------------------------------------------------------------------------------------
    def _candidates(self, node: Node) -> list[Group]:
        if node.definition.is_scan:
            return []
        found: dict[Group, None] = {}
        for read in node.reads:
            home = self.home.get(read.tensor)
            if isinstance(home, Group):
                found[home] = None
        own = sorted(found, key=lambda g: g.last, reverse=True)
        siblings: dict[Group, None] = {}
        for read in node.reads:
            for unit in self.readers.get(read.tensor, ()):
                if isinstance(unit, Group) and unit not in found:
                    siblings[unit] = None
        return own + sorted(siblings, key=lambda g: g.last, reverse=True)[:8]

    def _joined(self, found: Group, node: Node) -> tuple[Shape, dict[str, Member]] | None:
        """The group with that node: None where they don't go together."""
        if any(member.node.definition.is_scan for member in found.members.values()):
            return None
        if self._reaches(found, self._dependencies(node) - {found}):
            return None
        touched = {read.tensor for member in found.members.values() for read in member.node.reads}
        if len(touched | {read.tensor for read in node.reads}) + len(found.members) > MANY:
            return None
        joined = join(found, node)
        if joined is None:
            return None
        rows, members = joined
        member = members[node.name]
        goes = self._in_step(members) and _meets(members, node) and not (_is_serial(member, rows) or _leaps(member))
        return joined if goes else None

    def _in_step(self, members: Mapping[str, Member]) -> bool:
        """Whether what is written into an input is read by the group in the same place only, or not at all; and all
        inputs in one loop."""
        writers = {member.node.target: member for member in members.values() if member.node.target is not None}
        if len({writer.inner for writer in writers.values()}) > 1:
            return False
        for member in members.values() if writers else ():
            for read in member.node.reads:
                if any(name in writers for name in self._memory(read.tensor) if name != read.tensor):
                    return False
                writer = writers.get(read.tensor)
                if writer is None:
                    continue
                at = tuple(ix.substitute(i, member.place) for i in read.indices)
                if at != writer.element() or member.inner != writer.inner:
                    return False
        return True

    def _ordered(self) -> list[Unit]:
        """Each after those it needs, otherwise as the program has them."""
        done: set[Unit] = set()
        order: list[Unit] = []
        for start in sorted(self.units, key=lambda unit: unit.first):
            stack = [start]
            while stack:
                unit = stack[-1]
                waits = [need for need in self.needs[unit] if need not in done and need is not unit]
                if unit in done:
                    stack.pop()
                elif waits:
                    stack.extend(sorted(waits, key=lambda need: -need.first))
                else:
                    done.add(unit)
                    order.append(stack.pop())
        return order


# --- places -----------------------------------------------------------------------------------------------------------
def _sizes(axes: tuple[Symbol, ...]) -> Shape:
    return tuple(axis.size for axis in axes if axis.size is not None)


def _alone(node: Node) -> tuple[Shape, Member]:
    """A group of one: the rows are the axes that are not reduced."""
    over = node.definition.over
    kept = _long(axis for axis in node.axes if axis not in over)
    rows, within = _sizes(kept), _sizes(_long(over))
    place = {axis: ix.index(0) for axis in node.axes}
    place |= {axis: ix.index(row(number, size)) for number, (axis, size) in enumerate(zip(kept, rows, strict=True))}
    inside = enumerate(zip(_long(over), within, strict=True))
    place |= {axis: ix.index(inner(number, size)) for number, (axis, size) in inside}
    return rows, Member(node, place, within)


def _long(axes: Iterable[Symbol]) -> tuple[Symbol, ...]:
    return tuple(axis for axis in axes if axis.size != 1)


def join(group: Group, node: Node) -> tuple[Shape, dict[str, Member]] | None:
    """Rows and members of the group with that node among them; None where it has no place there."""
    for rows, members in _splits(group, node):
        axes = tuple(row(number, size) for number, size in enumerate(rows))
        for place, within in _places(axes, members, node):
            member = Member(node, place, within)
            if _covers(axes, member) and _agrees(members, member):
                return rows, {**members, node.name: member}
    return None


def _splits(group: Group, node: Node) -> Iterator[tuple[Shape, dict[str, Member]]]:
    """The group as it is; and one without inner axes with its last rows as such, for a reduction over these."""
    yield group.rows, dict(group.members)
    over = _sizes(node.definition.over)
    if not over or group.has_inner or any(m.node.definition.over for m in group.members.values()):
        return
    count = math.prod(over, start=ix.index(1))
    for cut in range(len(group.rows)):
        if math.prod(group.rows[cut:], start=ix.index(1)) == count:
            break
    else:
        return
    within = group.rows[cut:]
    moved = {row(cut + at, size): ix.index(inner(at, size)) for at, size in enumerate(within)}
    members = {
        name: Member(m.node, {axis: ix.substitute(i, moved) for axis, i in m.place.items()}, within)
        for name, m in group.members.items()
    }
    yield group.rows[:cut], members


def _places(
    rows: tuple[Symbol, ...], members: Mapping[str, Member], node: Node
) -> Iterator[tuple[dict[Symbol, Index], Shape]]:
    """Where the node's axes may lie, as what it reads and the order of its axes suggest."""
    for read in node.reads:
        member = members.get(read.tensor)
        if member is None:
            continue
        found = _bound(read, member, node)
        if found is not None:
            yield _completed(found, node)
    yield from _in_order(rows, members, node)


def _bound(read: ir.Read, member: Member, node: Node) -> dict[Symbol, Index] | None:
    """Axis for axis: an index that is one axis of the node lies where that axis of the member does."""
    found: dict[Symbol, Index] = {}
    for index, where in zip(read.indices, member.element(), strict=True):
        axis = _as_axis(index)
        if axis is not None and axis in node.axes:
            if found.setdefault(axis, where) != where:
                return None
        elif index != where:  # one constant in a place of one constant
            return None
    return found


def _as_axis(index: Index) -> Symbol | None:
    if len(index.terms) == 1 and index.terms[0][1] == 1 and len(index.terms[0][0]) == 1:
        (atom,) = index.terms[0][0]
        return atom if isinstance(atom, Symbol) else None
    return None


def _completed(found: dict[Symbol, Index], node: Node) -> tuple[dict[Symbol, Index], Shape]:
    """With inner axes for those that have no place yet, or the member's own ones where they lie there."""
    taken = sorted(
        {s for where in found.values() for s in ix.symbols(where) if s.name.startswith("q")}, key=lambda s: s.name
    )
    within = list(_sizes(tuple(taken)))
    place = dict(found)
    for axis in node.axes:
        if axis not in place:
            assert axis.size is not None
            if axis.size == 1:
                place[axis] = ix.index(0)
                continue
            place[axis] = ix.index(inner(len(within), axis.size))
            within.append(axis.size)
    return place, tuple(within)


def _in_order(
    rows: tuple[Symbol, ...], members: Mapping[str, Member], node: Node
) -> Iterator[tuple[dict[Symbol, Index], Shape]]:
    """Row-major: the first axes are the rows, however these are cut, the others are inner."""
    sizes = _sizes(node.axes)
    total = math.prod(_sizes(rows), start=ix.index(1))
    position = ix.linear_position(tuple(map(ix.index, rows)), _sizes(rows))
    shapes = {member.inner for member in members.values()}
    for first, last in _cuts(sizes, total):
        start = ix.indices_at(position, first)
        rest = tuple(size for size in last if size != 1)
        count = math.prod(rest, start=ix.index(1))
        for shape in (rest, *(s for s in shapes if s != rest)):
            if math.prod(shape, start=ix.index(1)) == count:
                axes = tuple(inner(number, size) for number, size in enumerate(shape))
                at = ix.indices_at(ix.linear_position(tuple(map(ix.index, axes)), shape), last)
                if len(first) + len(last) > len(sizes):
                    between = start[-1] * last[0] + at[0]
                    yield dict(zip(node.axes, (*start[:-1], between, *at[1:]), strict=True)), shape
                else:
                    yield dict(zip(node.axes, (*start, *at), strict=True)), shape


def _cuts(sizes: Shape, count: Index) -> Iterator[tuple[Shape, Shape]]:
    """The sizes in two, the first ones being so many places: between two of them, or within one."""
    for cut in range(len(sizes), -1, -1):
        before = math.prod(sizes[:cut], start=ix.index(1))
        if before == count:
            yield sizes[:cut], sizes[cut:]
            continue
        parts = ix.floor_divide(count, before).constant
        size = sizes[cut].constant if cut < len(sizes) else None
        if parts and size and size % parts == 0 and before * parts == count:
            yield (*sizes[:cut], ix.index(parts)), (ix.index(size // parts), *sizes[cut + 1 :])


def _covers(rows: tuple[Symbol, ...], member: Member) -> bool:
    """Whether each row and inner place is one element of the node, and each element of it is there."""
    definition = member.node.definition
    inner_axes = tuple(inner(number, size) for number, size in enumerate(member.inner))
    if definition.over:
        kept = tuple(member.place[axis] for axis in definition.axes)
        over = tuple(member.place[axis] for axis in definition.over)
        sizes = _sizes(definition.over)
        return _is_one_to_one(kept, definition.shape, rows) and _is_one_to_one(over, sizes, inner_axes)
    return _is_one_to_one(member.element(), definition.shape, rows + inner_axes)


def _is_one_to_one(indices: tuple[Index, ...], sizes: Shape, axes: tuple[Symbol, ...]) -> bool:
    """Whether the axes run over all of these indices, once each: as a permutation of axes, or in row-major order."""
    long = [(i, size) for i, size in zip(indices, sizes, strict=True) if size != 1]
    wanted = [axis for axis in axes if axis.size != 1]
    single = [_as_axis(i) for i, _ in long]
    if None not in single and len(set(single)) == len(single):
        return set(single) == set(wanted) and all(
            axis is not None and axis.size == size for axis, (_, size) in zip(single, long, strict=True)
        )
    if math.prod(sizes, start=ix.index(1)) != math.prod(_sizes(axes), start=ix.index(1)):
        return False
    return ix.linear_position(indices, sizes) == ix.linear_position(tuple(map(ix.index, axes)), _sizes(axes))


def _is_serial(member: Member, rows: Shape) -> bool:
    """Whether much is computed in few rows that could be computed in many."""
    if member.node.definition.over or not member.inner:
        return False
    count = math.prod(rows, start=ix.index(1)).constant
    size = math.prod(member.inner, start=ix.index(1)).constant
    return count is not None and count <= FEW_ROWS and (size is None or size * count >= LONG)


def _leaps(member: Member) -> bool:
    """Whether it is written with leaps through memory, though a kernel of its own could go from one to the next."""
    definition = member.node.definition
    if definition.over or not member.inner or not any(step == 1 for step in definition.strides):
        return False
    last = inner(len(member.inner) - 1, member.inner[-1])
    step = ix.stride_of(physical(member.element(), definition.strides), last)
    return step is not None and step.constant is not None and step.constant > 1


def _meets(members: Mapping[str, Member], node: Node) -> bool:
    """Whether it reads another member, or an element that another member reads in the same place."""
    if any(read.tensor in members for read in node.reads):
        return True
    mine = _elements(members[node.name])
    return any(member.node is not node and mine & _elements(member) for member in members.values())


def _elements(member: Member) -> set[tuple[object, ...]]:
    placed = (
        (read.tensor, *(ix.substitute(i, member.place) for i in read.indices)) for read in member.node.reads
    )
    return {(member.inner, *element) for element in placed}


def _agrees(members: Mapping[str, Member], member: Member) -> bool:
    """Whether all that it reads of the group is computed in its row, and where it has inner places, in the same one."""
    for read in member.node.reads:
        other = members.get(read.tensor)
        if other is None:
            continue
        at = tuple(ix.substitute(i, member.place) for i in read.indices)
        if at != other.element():
            return False
        is_row = bool(other.node.definition.over) or not other.inner
        if not is_row and other.inner != member.inner:
            return False
    return True
