"""Where the axes of nodes lie over the rows of a group and the inner axes of its members (`groups.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Shape
from codegen.kernels.index import Index, Symbol
from codegen.kernels.nodes import Node, physical
from codegen.kernels.split import FEW_ROWS, LONG

Members = Mapping[str, "Member"]


def row(number: int, size: Index) -> Symbol:
    return ix.axis("p", number, size)


def inner(number: int, size: Index) -> Symbol:
    return ix.axis("q", number, size)


@dataclass(frozen=True)
class Member:
    """`place`: each axis of the node over the rows of the group and the inner axes `q0..` of these sizes. `since`: its
    element is a sum over rows that follow each other, from the one where that is 0 (`columns.py`)."""

    node: Node
    place: Mapping[Symbol, Index]
    inner: Shape
    since: Index | None = None

    def element(self) -> tuple[Index, ...]:
        """Which element of the node's tensor it computes in a row, at an inner place."""
        return tuple(self.place[axis] for axis in self.node.definition.axes)


def sizes_of(axes: tuple[Symbol, ...]) -> Shape:
    return tuple(axis.size for axis in axes if axis.size is not None)


def alone(node: Node) -> tuple[Shape, Member]:
    """A group of one: the rows are the axes that are not reduced."""
    over = node.definition.over
    kept = _long(axis for axis in node.axes if axis not in over)
    rows, within = sizes_of(kept), sizes_of(_long(over))
    place = {axis: ix.index(0) for axis in node.axes}
    place |= {axis: ix.index(row(number, size)) for number, (axis, size) in enumerate(zip(kept, rows, strict=True))}
    inside = enumerate(zip(_long(over), within, strict=True))
    place |= {axis: ix.index(inner(number, size)) for number, (axis, size) in inside}
    return rows, Member(node, place, within)


def _long(axes: Iterable[Symbol]) -> tuple[Symbol, ...]:
    return tuple(axis for axis in axes if axis.size != 1)


def join(rows: Shape, members: Members, node: Node) -> tuple[Shape, dict[str, Member]] | None:
    """These rows and members of a group with that node among them; None where it has no place there."""
    for over, others in _splits(rows, members, node):
        axes = tuple(row(number, size) for number, size in enumerate(over))
        for place, within in _places(axes, others, node):
            member = Member(node, place, within)
            if _covers(axes, member) and agrees(others, member):
                return over, {**others, node.name: member}
    return None


def _splits(rows: Shape, members: Members, node: Node) -> Iterator[tuple[Shape, Members]]:
    """The group as it is; and one without inner axes with its last rows as such, for a reduction over these."""
    yield rows, members
    over = sizes_of(node.definition.over)
    if over:
        cut = cut_rows(rows, members, math.prod(over, start=ix.index(1)))
        if cut is not None:
            yield cut


def cut_rows(rows: Shape, members: Members, count: Index) -> tuple[Shape, dict[str, Member]] | None:
    """A group that has no inner axes yet with its last rows as such, which are so many places."""
    if any(member.inner or member.node.definition.over for member in members.values()):
        return None
    for cut in range(len(rows)):
        if math.prod(rows[cut:], start=ix.index(1)) == count:
            break
    else:
        return None
    within = rows[cut:]
    moved = {row(cut + at, size): ix.index(inner(at, size)) for at, size in enumerate(within)}
    return rows[:cut], {
        name: Member(m.node, {axis: ix.substitute(i, moved) for axis, i in m.place.items()}, within)
        for name, m in members.items()
    }


def _places(
    rows: tuple[Symbol, ...], members: Members, node: Node
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
    within = list(sizes_of(tuple(taken)))
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
    rows: tuple[Symbol, ...], members: Members, node: Node
) -> Iterator[tuple[dict[Symbol, Index], Shape]]:
    """Row-major: the first axes are the rows, however these are cut, the others are inner."""
    sizes = sizes_of(node.axes)
    total = math.prod(sizes_of(rows), start=ix.index(1))
    position = ix.linear_position(tuple(map(ix.index, rows)), sizes_of(rows))
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
        sizes = sizes_of(definition.over)
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
    if math.prod(sizes, start=ix.index(1)) != math.prod(sizes_of(axes), start=ix.index(1)):
        return False
    return ix.linear_position(indices, sizes) == ix.linear_position(tuple(map(ix.index, axes)), sizes_of(axes))


def is_serial(member: Member, rows: Shape) -> bool:
    """Whether much is computed in few rows that could be computed in many."""
    if member.node.definition.over or not member.inner:
        return False
    count = math.prod(rows, start=ix.index(1)).constant
    size = math.prod(member.inner, start=ix.index(1)).constant
    return count is not None and count <= FEW_ROWS and (size is None or size * count >= LONG)


def leaps(member: Member) -> bool:
    """Whether it is written with leaps through memory, though a kernel of its own could go from one to the next."""
    definition = member.node.definition
    if definition.over or not member.inner or not any(step == 1 for step in definition.strides):
        return False
    last = inner(len(member.inner) - 1, member.inner[-1])
    step = ix.stride_of(physical(member.element(), definition.strides), last)
    return step is not None and step.constant is not None and step.constant > 1


def meets(members: Members, node: Node) -> bool:
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


def agrees(members: Members, member: Member) -> bool:
    """Whether all that it reads of the group is computed in its row, and where it has inner places, in the same one."""
    for read in member.node.reads:
        other = members.get(read.tensor)
        if other is None:
            continue
        at = tuple(ix.substitute(i, member.place) for i in read.indices)
        if at != other.element() or other.since is not None:
            return False
        is_row = bool(other.node.definition.over) or not other.inner
        if not is_row and other.inner != member.inner:
            return False
    return True
