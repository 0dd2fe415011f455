"""Which nodes share a kernel.

A group has rows: axes over which its kernel runs in parallel. Each member covers every row once, either with one
element (a reduction, what is computed of reductions) or with all elements of inner axes of its own. A member may read
what another one gives in the same row: a reduction's result, or an element of the same inner place. So a group is
computed row by row, and softmax, normalisations, their backwards, a loss are one kernel each. Axes of size 1 lie
nowhere: their index is 0.

Nodes come in an order in which each is defined before it is read. Each joins the group of a node that it reads, else
one that reads an element that it reads in the same place, else it is a group of its own: greedy, the newest first.
In the end sums that are groups of their own may be added up by a group whose rows they go over (`columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from codegen.kernels import index as ix
from codegen.kernels.columns import added_up, is_of_columns, stretch_of
from codegen.kernels.definitions import Made, Program, Shape
from codegen.kernels.index import Symbol
from codegen.kernels.nodes import LONG, MANY, SOON, Node, Nodes
from codegen.kernels.places import Member, agrees, alone, inner, is_serial, join, leaps, meets, row


@dataclass(eq=False)
class Group:
    rows: Shape
    members: dict[str, Member] = field(default_factory=dict)
    first: int = 0  # when its first member could have been computed
    last: int = 0
    calls: int = 0  # so many of ATen's come before its last member

    @property
    def axes(self) -> tuple[Symbol, ...]:
        return tuple(row(number, size) for number, size in enumerate(self.rows))

    @property
    def stretch(self) -> int:
        """So many rows are done in order."""
        return stretch_of(self.rows) if any(m.since is not None for m in self.members.values()) else 1


@dataclass(eq=False)
class Call:
    """A call of ATen, which gives these tensors."""

    made: list[Made]
    first: int
    calls: int = 0  # so many come before it


Unit = Group | Call


def group(program: Program, nodes: Nodes, in_stretches: bool = False) -> list[Unit]:
    """All that is to be done, in an order in which it can be. `in_stretches`: a thread may do rows in order."""
    return _Grouping(program, nodes).run(in_stretches)


class _Grouping:
    def __init__(self, program: Program, nodes: Nodes) -> None:
        self.program = program
        self.nodes = nodes
        self.units: list[Unit] = []
        self.home: dict[str, Unit] = {}  # of each node, each tensor that ATen makes
        self.needs: dict[Unit, set[Unit]] = {}
        self.readers: dict[str, list[Unit]] = {}  # of each real tensor
        self.calls: dict[object, Call] = {}

    def run(self, in_stretches: bool) -> list[Unit]:
        previous: Call | None = None
        for time, name in enumerate(self._order()):
            tensor = self.program.tensors.get(name)
            if name in self.nodes.nodes:
                self._place(self.nodes.nodes[name], time)
            elif isinstance(tensor, Made) and name in self.nodes.needed:
                previous = self._call(tensor, previous, time)
        for unit in self.units if in_stretches else ():
            if isinstance(unit, Group):
                self._add_up_elsewhere(unit)
        return self._ordered()

    def _order(self) -> list[str]:
        """The program's, the copy of a base before what is combined with it, and what is written into inputs last."""
        found: dict[str, None] = {}
        for name in self.program.tensors:
            node = self.nodes.nodes.get(name)
            if node is not None and node.target in self.nodes.nodes:
                found.setdefault(node.target)
            found.setdefault(name)
        return list(found | dict.fromkeys(self.nodes.nodes))

    def _call(self, made: Made, previous: Call | None, time: int) -> Call:
        call = self.calls.get(made.node)
        if call is None:
            call = self.calls[made.node] = Call([], time, len(self.calls))
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
                found.rows, found.members, found.last, found.calls = rows, members, time, len(self.calls)
                self._enter(found, node)
                return
        rows, member = alone(node)
        made = Group(rows, {node.name: member}, time, time, len(self.calls))
        self.units.append(made)
        self.needs[made] = set()
        self._enter(made, node)

    def _enter(self, found: Group, node: Node) -> None:
        self.home[node.name] = found
        self.needs[found] |= self._dependencies(node) - {found}
        for read in node.needs:
            for name in self._memory(read):
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
        found = set(self._homes(node.needs))
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
        if _is_apart(node):
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
        if any(_is_apart(member.node) for member in found.members.values()):
            return None
        needed = self._dependencies(node) - {found}
        if any(unit.calls - found.calls > SOON for unit in needed):  # what it reads would have to be kept until then
            return None
        if self._reaches(found, needed):
            return None
        nodes = [*(member.node for member in found.members.values()), node]
        if _touched(nodes) > MANY or sum(each.cost for each in nodes) > 2 * LONG:
            return None
        joined = join(found.rows, found.members, node)
        if joined is None:
            return None
        rows, members = joined
        member = members[node.name]
        goes = self._in_step(members) and meets(members, node) and not (is_serial(member, rows) or leaps(member))
        return joined if goes else None

    # --- sums over the rows of another group --------------------------------------------------------------------------
    def _add_up_elsewhere(self, found: Group) -> None:
        """Leaves the sums that a group consists of to one that reads the same, if there is one."""
        sums = [member.node for member in found.members.values() if is_of_columns(member.node)]
        if not sums or any(member.inner and member.node not in sums for member in found.members.values()):
            return
        dependencies = set[Unit]().union(*map(self._dependencies, sums))
        for other in self._candidates(sums[0]):
            if found in self._needed({other, *dependencies}) or other in self._needed(dependencies - {other}):
                continue
            shared = self._with_sums(other, sums)
            if shared is not None:
                other.rows, other.members, rests = shared
                for rest in rests:
                    self._replace(found, rest, other)
                self.needs[other] |= dependencies - {other}
                return

    def _with_sums(self, found: Group, sums: list[Node]) -> tuple[Shape, dict[str, Member], list[Node]] | None:
        """The group with what its stretches give of these sums, and what adds that up."""
        if any(_is_apart(member.node) for member in found.members.values()):
            return None
        rows, members, rests = found.rows, found.members, []
        for node in sums:
            added = added_up(rows, members, node)
            if added is None:
                return None
            rows, members, rest = added
            part = members[f"{node.name}.part"]
            if not (agrees(members, part) and meets(members, part.node) and self._in_step(members)):
                return None
            rests.append(rest)
        return (rows, members, rests) if _touched([member.node for member in members.values()]) <= MANY else None

    def _replace(self, found: Group, rest: Node, other: Group) -> None:
        """A sum by what adds up the sums of that group's stretches."""
        (part,) = (read.tensor for read in rest.reads)
        self.nodes.nodes |= {rest.name: rest, part: other.members[part].node}
        self.home[part] = other
        self.needs[found].add(other)
        self.readers.setdefault(part, []).append(found)
        (over,) = rest.definition.over
        assert over.size is not None
        place = {axis: found.members[rest.name].place[axis] for axis in rest.definition.axes}
        within = inner(0, over.size)
        found.members[rest.name] = Member(rest, {**place, over: ix.index(within)}, (over.size,))

    def _needed(self, units: set[Unit]) -> set[Unit]:
        """These, and all that they need."""
        found = set(units)
        stack = list(units)
        while stack:
            new = self.needs[stack.pop()] - found
            found |= new
            stack.extend(new)
        return found

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


def _is_apart(node: Node) -> bool:
    """Whether its kernel does nothing else."""
    return node.definition.is_scan or node.definition.is_put


def _touched(nodes: list[Node]) -> int:
    """How many tensors a kernel of these may touch."""
    return len({read.tensor for node in nodes for read in node.reads}) + len(nodes)
