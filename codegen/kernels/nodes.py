"""Definitions -> nodes: what is computed by itself. All other definitions are put in the place of their Reads.

A node is a reduction, a scan, a tensor that has to lie in memory, or a value that several others read and that costs
something. Nodes read each other and real tensors only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.definitions import Definition, Made, Program, Shape, Tensor, contiguous
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr
from codegen.kernels.ops import OPS

#: A value of at most this cost is computed again wherever it is read, unless that would read more than writing it once.
CHEAP = 4


@dataclass(frozen=True)
class Alias:
    """A tensor that is the memory of another one, which lies in memory."""

    name: str
    base: str
    shape: Shape
    strides: Shape
    offset: Index


@dataclass(frozen=True)
class Node:
    """`value`: over the definition's axes and those it reduces over. `target`: the input that it is written into."""

    name: str
    definition: Definition
    value: Expr
    target: str | None = None

    @property
    def axes(self) -> tuple[Symbol, ...]:
        over = self.definition.over
        return self.definition.axes if self.definition.is_scan else (*self.definition.axes, *over)

    @cached_property
    def reads(self) -> tuple[ir.Read, ...]:
        return tuple(expr for expr in ir.walk(self.value) if isinstance(expr, ir.Read))


@dataclass
class Nodes:
    """`nodes` in an order in which each comes after those it reads; `aliases` of real tensors and nodes; `stored`:
    names of nodes that lie in memory whoever reads them; `needed`: names of tensors without which it does not go;
    `views`: whose memory what ATen gives may be, where that is not its own."""

    nodes: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    views: dict[str, set[str]] = field(default_factory=dict)


def find_nodes(program: Program) -> Nodes:
    return _Finder(program).run()


class _Finder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.found = Nodes()
        self.values: dict[str, Expr] = {}  # of definitions, reading nodes and real tensors
        self.views: dict[str, Expr] = {}  # of views, reading what is none

    def run(self) -> Nodes:
        tensors = self.program.tensors
        needed = self.found.needed = self._needed()
        for name in self._wanted():
            if not self._alias(name):
                self.found.stored.add(name)
        self.found.stored |= {alias.base for alias in self.found.aliases.values()}
        self._note_views()
        readers = self._readers(needed)
        for name, tensor in tensors.items():
            if name not in needed or not isinstance(tensor, Definition) or name in self.found.aliases:
                continue
            value = self._inlined(tensor)
            is_shared = readers.get(name, 0) > 1 and not _is_cheap(value, readers[name])
            if tensor.kind is not None or name in self.found.stored or is_shared:
                self.found.nodes[name] = Node(name, tensor, value)
        self.found.stored &= set(self.found.nodes)
        self._write_all()
        return self.found

    def _note_views(self) -> None:
        for name, tensor in self.program.tensors.items():
            if isinstance(tensor, Made) and not tensor.is_fresh and name in self.found.needed:
                homes = {self._home(read) for read in tensor.reads}
                self.found.views[name] = homes.union(*(self.found.views.get(home, ()) for home in homes))

    def _home(self, name: str) -> str:
        alias = self.found.aliases.get(name)
        return name if alias is None else alias.base

    # --- inputs that are written --------------------------------------------------------------------------------------
    def _write_all(self) -> None:
        """Each write comes after those that read what it writes over. A value that would have to be read before and
        after that lies in memory of its own: where two write what the other one reads, or one its own input elsewhere.
        """
        writes = dict(self._write(value, target) for target, value in self.program.writes)
        for target, node in writes.items():
            if any(read.tensor == target and not _is_place(read, node) for read in node.reads):
                writes[target] = self._apart(node)
        reads = {target: {read.tensor for read in node.reads} & set(writes) for target, node in writes.items()}
        for target, is_apart in readers_first(reads):
            node = writes[target]
            if is_apart:
                writes[target] = self._apart(node)
            else:
                self.found.nodes[node.name] = node

    def _write(self, value: str, target: str) -> tuple[str, Node]:
        """The element of `value`, into the same place of an input."""
        given = self.program.tensors[target]
        axes = tuple(Symbol(f"i{number}", size) for number, size in enumerate(given.shape))
        source = ir.read(value, tuple(map(ix.index, axes)), given.dtype)
        name = f"{target}.written"
        definition = Definition(name, given.shape, given.dtype, given.strides, axes, source)
        self.found.stored.add(name)
        return target, Node(name, definition, self._inlined(definition), target)

    def _apart(self, node: Node) -> Node:
        """The same write of a value that is computed before, into memory of its own."""
        name = f"{node.target}.new"
        definition = replace(node.definition, name=name, strides=contiguous(node.definition.shape))
        self.found.nodes[name] = Node(name, definition, node.value)
        self.found.stored.add(name)
        element = ir.read(name, tuple(map(ix.index, node.axes)), definition.dtype)
        return replace(node, value=element)

    # --- which tensors lie in memory ----------------------------------------------------------------------------------
    def _wanted(self) -> Iterator[str]:
        """Results, what ATen reads, and what a lowering wants there."""
        yield from self.program.given_back
        for tensor in self.program.tensors.values():
            if isinstance(tensor, Made) and tensor.name in self.found.needed:
                yield from tensor.reads
            elif isinstance(tensor, Definition) and tensor.is_kept and tensor.name in self.found.needed:
                yield tensor.name

    def _alias(self, name: str) -> bool:
        """Notes a tensor that needs no memory of its own."""
        tensor = self.program.tensors[name]
        if not isinstance(tensor, Definition):
            return True
        if name in self.found.aliases:
            return True
        if not tensor.is_view:
            return False
        source = self._through_views(tensor.value)
        if not isinstance(source, ir.Read) or source.mask is not None:
            return False
        base = self.program.tensors[source.tensor]
        # of dims of size 1 torch has strides, too
        ones = {axis: ix.index(0) for axis in tensor.axes if axis.size == 1}
        place = ix.substitute(physical(source.indices, base.strides), ones)
        strides = tuple(
            own if axis in ones else ix.stride_of(place, axis) or ix.index(0)
            for axis, own in zip(tensor.axes, tensor.strides, strict=True)
        )
        rest = place - physical(tuple(ones.get(axis, ix.index(axis)) for axis in tensor.axes), strides)
        if ix.symbols(rest) & set(tensor.axes) or ix.has_values(rest):
            return False
        # along an axis of size 1 any stride leads to the same place
        seen = zip(tensor.shape, strides, tensor.strides, strict=True)
        strides = tuple(told if size == 1 else found for size, found, told in seen)
        self.found.aliases[name] = Alias(name, base.name, tensor.shape, strides, rest)
        return True

    # --- inlining -----------------------------------------------------------------------------------------------------
    def _through_views(self, value: Expr) -> Expr:
        """A Read of a view as one of what it is a view of."""

        def rule(expr: Expr) -> Expr | None:
            if not isinstance(expr, ir.Read):
                return None
            tensor = self.program.tensors[expr.tensor]
            if not isinstance(tensor, Definition) or not tensor.is_view:
                return None
            if tensor.name not in self.views:
                self.views[tensor.name] = self._through_views(tensor.value)
            return at(self.views[tensor.name], tensor.axes, expr)

        return ir.rewrite(value, rule)

    def _inlined(self, definition: Definition) -> Expr:
        if definition.name in self.values:
            return self.values[definition.name]

        def rule(expr: Expr) -> Expr | None:
            if not isinstance(expr, ir.Read) or expr.tensor in self.found.nodes:
                return None
            tensor = self.program.tensors[expr.tensor]
            if not isinstance(tensor, Definition):
                return None
            return at(self._inlined(tensor), tensor.axes, expr)

        self.values[definition.name] = found = simplify(ir.rewrite(definition.value, rule))
        return found

    # --- who reads what -----------------------------------------------------------------------------------------------
    def _reads(self, tensor: Tensor) -> set[str]:
        if isinstance(tensor, Made):
            return set(tensor.reads)
        if not isinstance(tensor, Definition):
            return set()
        return {expr.tensor for expr in ir.walk(tensor.value) if isinstance(expr, ir.Read)}

    def _needed(self) -> set[str]:
        found: set[str] = set()
        stack = self.program.given_back
        stack += [value for _, value in self.program.writes]
        stack += [t.name for t in self.program.tensors.values() if isinstance(t, Made) and t.has_effects]
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack.extend(self._reads(self.program.tensors[name]))
        return found

    def _readers(self, needed: set[str]) -> dict[str, int]:
        """By how many definitions each tensor is read."""
        readers: dict[str, set[str]] = {}
        for name in needed:
            tensor = self.program.tensors[name]
            if not isinstance(tensor, Definition) or tensor.is_view:
                continue
            for expr in ir.walk(self._through_views(tensor.value)):
                if isinstance(expr, ir.Read):
                    readers.setdefault(expr.tensor, set()).add(name)
        for target, value in self.program.writes:
            readers.setdefault(value, set()).add(f"{target}.written")
        return {name: len(by) for name, by in readers.items()}


def readers_first(reads: Mapping[str, Set[str]]) -> Iterator[tuple[str, bool]]:
    """(name, False) for each name, after all those that read it. (name, True), where no other order goes: from then on
    it reads none of the others."""
    left = {name: others - {name} for name, others in reads.items()}
    readers = Counter(itertools.chain.from_iterable(left.values()))
    free = [name for name in left if not readers[name]]
    stuck = iter(reads)
    while left:
        name = free.pop() if free else next(name for name in stuck if left.get(name))
        is_apart = bool(readers[name])
        others = left.pop(name)
        if is_apart:
            left[name] = set()
        yield name, is_apart
        readers.subtract(others)
        free.extend(other for other in others if not readers[other])


def _is_cheap(value: Expr, readers: int) -> bool:
    """Whether all its readers may compute it again: what they read then is no more than what computing it once reads,
    itself written and read by each."""
    reads = sum(isinstance(expr, ir.Read) for expr in ir.walk(value))
    return cost(value) <= CHEAP and reads * readers <= reads + 1 + readers


def _is_place(read: ir.Read, node: Node) -> bool:
    """Whether that is the element that the node itself is."""
    axes = zip(read.indices, node.axes, strict=True)
    return read.mask is None and all(at == ix.index(axis) or axis.size == 1 for at, axis in axes)


def cost(value: Expr) -> int:
    """In additions: what computing it takes, each shared part once."""
    return sum(OPS[expr.name].cost for expr in ir.walk(value) if isinstance(expr, ir.Op))


@lru_cache(1 << 14)
def physical(indices: tuple[Index, ...], strides: Shape) -> Index:
    """How many elements from the first one an element lies."""
    place = ix.index(0)
    for at, stride in zip(indices, strides, strict=True):
        place = place + at * stride
    return place


def at(value: Expr, axes: tuple[Symbol, ...], where: ir.Read) -> Expr:
    """A definition's value in the place of a Read of it."""
    if where.mask is None:
        return ir.rewrite(value, lambda expr: None, dict(zip(axes, where.indices, strict=True)))
    mask = where.mask

    def masked(expr: Expr) -> Expr | None:
        if not isinstance(expr, ir.Read):
            return None
        both = mask if expr.mask is None else ir.op("and", torch.bool, mask, expr.mask)
        return ir.read(expr.tensor, expr.indices, expr.dtype, both)

    found = ir.rewrite(value, masked, dict(zip(axes, where.indices, strict=True)))
    if isinstance(found, ir.Read):  # 0 where the mask is false, as it should be
        return found
    return ir.op("where", found.dtype, mask, found, ir.literal(0, found.dtype))


def simplify(value: Expr) -> Expr:
    """where(c, where(c, a, b), d) -> where(c, a, d)"""
    made: dict[Expr, Expr] = {}
    for expr in ir.walk(value):
        again = expr
        if isinstance(expr, ir.Op):
            operands = [made[operand] for operand in expr.operands]
            if expr.name == "where":
                condition, chosen, other = operands
                if isinstance(chosen, ir.Op) and chosen.name == "where" and chosen.operands[0] is condition:
                    operands = [condition, chosen.operands[1], other]
            again = ir.op(expr.name, expr.dtype, *operands)
        made[expr] = again
    return made[value]
