"""Definitions -> nodes: what is computed by itself. All other definitions are put in the place of their Reads.

A node is a reduction, a scan, what is combined with elements of its base, a tensor that has to lie in memory, or a
value that several others read and that costs something. Nodes read each other and real tensors only.
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
from codegen.kernels.definitions import (
    Definition,
    Given,
    Made,
    Program,
    Shape,
    Tensor,
    axes_of,
    contiguous,
    dense_order,
)
from codegen.kernels.index import Index, Symbol
from codegen.kernels.ir import Expr
from codegen.kernels.ops import OPS

#: A value of at most this cost is computed again wherever it is read, unless that would read more than writing it once.
CHEAP = 4
#: A value of a higher cost is computed by itself, as is one of more tensors; what is made of it begins anew. So kernels
#: of long chains, and the time that it takes to make them, grow no further, and most of them are equal.
LONG, MANY = 256, 48
#: What is made of two of its own size or more is computed before so many calls of ATen have run: these are not kept on.
SOON = 8


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
    """`value`: over the definition's axes and those it reduces over. `target`: the tensor that it is written into: an
    input, or of what is combined with elements of its base the memory that this lies in."""

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

    @cached_property
    def cost(self) -> int:
        return cost(self.value)

    @property
    def needs(self) -> tuple[str, ...]:
        """The tensors that have to be there before."""
        into = {self.definition.base: None, self.target: None} if self.definition.is_put else {}
        return (*(name for name in into if name), *(read.tensor for read in self.reads))


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

    def home(self, name: str) -> str:
        """The tensor whose memory a node is written into, or itself."""
        node = self.nodes.get(name)
        return name if node is None or node.target is None else node.target


def find_nodes(program: Program) -> Nodes:
    return _Finder(program).run()


class _Finder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.found = Nodes()
        self.values: dict[str, Expr] = {}  # of definitions, reading nodes and real tensors
        self.views: dict[str, Expr] = {}  # of views, reading what is none
        self.targets: dict[str, str] = {}  # of what is combined with elements of its base: where that lies

    def run(self) -> Nodes:
        tensors = self.program.tensors
        needed = self.found.needed = self._needed()
        for name in self._wanted():
            if not self._alias(name):
                self.found.stored.add(name)
        self.found.stored |= {alias.base for alias in self.found.aliases.values()}
        self._place_puts()
        self._note_views()
        readers = self._readers(needed)
        for name, tensor in tensors.items():
            if name not in needed or not isinstance(tensor, Definition) or name in self.found.aliases:
                continue
            value = self._inlined(tensor)
            by = readers.get(name, set())
            is_shared = len(by) > 1 and not _is_cheap(value, len(by))
            is_early = len(by) == 1 and self._is_early(tensor, value, *by)
            if tensor.is_put and self.targets[name] == f"{name}.base":
                self._copy_base(tensor)
            if tensor.kind is not None or name in self.found.stored or is_shared or is_early or _is_long(value):
                self.found.nodes[name] = Node(name, tensor, value, self.targets.get(name))
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
        name = name if alias is None else alias.base
        return self.targets.get(name, name)

    # --- what is combined with elements of its base -------------------------------------------------------------------
    def _place_puts(self) -> None:
        """It lies where its base does, if nobody needs that as it was before, else in a copy."""
        puts = [
            tensor for name, tensor in self.program.tensors.items()
            if name in self.found.needed and isinstance(tensor, Definition) and tensor.is_put
        ]  # fmt: skip
        readers: dict[str, list[str]] = {}
        for name in self.found.needed if puts else ():
            for read in self._reads(self.program.tensors[name]):
                readers.setdefault(read, []).append(name)
        for put in puts:
            base = self.program.tensors[put.base]
            reads = {expr.tensor for expr in ir.walk(put.value) if isinstance(expr, ir.Read)}
            is_alone = readers[put.base] == [put.name] and put.base not in reads and base.strides == put.strides
            chain = [put]
            while len(following := readers.get(chain[-1].name, [])) == 1:
                after = self.program.tensors[following[0]]
                if not isinstance(after, Definition) or after.base != chain[-1].name:
                    break
                chain.append(after)
            if is_alone and self._is_over(base, [each.name for each in chain]):
                self.targets[put.name] = self.targets.get(put.base, put.base)
                self.found.stored |= {put.base} if isinstance(base, Definition) else set()
            else:
                self.targets[put.name] = f"{put.name}.base"
            self.found.stored.add(put.name)

    def _is_over(self, base: Tensor, puts: list[str]) -> bool:
        """Whether the memory of a base that nobody else reads is free for what becomes of it, one after the other."""
        given_back = set(self.program.given_back)
        written = [(target, value) for target, value in self.program.writes if base.name in (target, value)]
        if isinstance(base, Definition):
            return not (base.is_view or written or base.name in given_back)
        is_shown = any(not self._memory_of(name).isdisjoint(puts) for name in given_back)
        is_input = isinstance(base, Given) and dense_order(base.shape, base.strides) is not None
        return is_input and written == [(base.name, puts[-1])] and base.name not in given_back and not is_shown

    def _memory_of(self, name: str) -> set[str]:
        """The tensors that it may be a view of, itself among them."""
        found = {name}
        stack = [name]
        while stack:
            name = stack.pop()
            tensor = self.program.tensors[name]
            is_view = isinstance(tensor, Definition) and tensor.is_view
            is_view |= isinstance(tensor, Made) and not tensor.is_fresh
            new = self._reads(tensor) - found if is_view else set()
            found |= new
            stack.extend(new)
        return found

    def _copy_base(self, put: Definition) -> None:
        axes = axes_of(put.shape)
        source = ir.read(put.base, tuple(map(ix.index, axes)), put.dtype)
        name = f"{put.name}.base"
        copy = Definition(name, put.shape, put.dtype, put.strides, axes, source, source=put.source)
        self.found.nodes[name] = Node(name, copy, self._inlined(copy))
        self.found.stored.add(name)

    # --- inputs that are written --------------------------------------------------------------------------------------
    def _write_all(self) -> None:
        """Each write comes after those that read what it writes over. A value that would have to be read before and
        after that lies in memory of its own: where two write what the other one reads, or one its own input elsewhere.
        """
        new = ((target, value) for target, value in self.program.writes if self.targets.get(value) != target)
        writes = dict(self._write(value, target) for target, value in new)
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
        return tensor.read

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

    def _is_early(self, definition: Definition, value: Expr, reader: str) -> bool:
        """Whether more would have to be kept until it is read than itself, and long."""
        if self.times.get(reader, 0) - self.times[definition.name] <= SOON:
            return False
        read = {expr.tensor for expr in ir.walk(value) if isinstance(expr, ir.Read)}
        made = (self.program.tensors[name] for name in read)
        return sum(not isinstance(each, Given) and each.shape == definition.shape for each in made) > 1

    @cached_property
    def times(self) -> dict[str, int]:
        """How many calls of ATen have run when each tensor is there."""
        tensors = self.program.tensors
        calls = itertools.accumulate(isinstance(tensor, Made) for tensor in tensors.values())
        return dict(zip(tensors, calls, strict=True))

    def _readers(self, needed: set[str]) -> dict[str, set[str]]:
        """The definitions that read each tensor."""
        readers: dict[str, set[str]] = {}
        for name in needed:
            tensor = self.program.tensors[name]
            if not isinstance(tensor, Definition) or tensor.is_view:
                continue
            for expr in ir.walk(self._through_views(tensor.value)):
                if isinstance(expr, ir.Read):
                    readers.setdefault(expr.tensor, set()).add(name)
            if tensor.is_put:
                readers.setdefault(tensor.base, set()).add(name)
        for target, value in self.program.writes:
            readers.setdefault(value, set()).add(f"{target}.written")
        return readers


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


def _is_long(value: Expr) -> bool:
    return cost(value) > LONG or len({expr.tensor for expr in ir.walk(value) if isinstance(expr, ir.Read)}) > MANY


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
        elif isinstance(expr, ir.Placed):
            again = ir.placed(made[expr.value], expr.indices)
        made[expr] = again
    return made[value]
