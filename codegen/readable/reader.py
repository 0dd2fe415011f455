"""A code object as Python statements: its blocks read one after the other, then put into each other."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from types import CodeType

from codegen.readable import helpers, rules
from codegen.readable.dispatch import Dispatch
from codegen.readable.flow import Block, Unreadable, blocks, every, predecessors
from codegen.readable.names import Names
from codegen.readable.stack import LASTI, Item, Mark, Read, Stack, assign, same
from codegen.readable.structure import Structure, negated
from symbolic.code import argument_slots

assert rules  # they are in the table
_ROUNDS = 100
_STORES = frozenset({"STORE_FAST", "STORE_DEREF", "DELETE_FAST", "DELETE_DEREF", "STORE_FAST_MAYBE_NULL"})


class Reader:
    """Reads one code object, as statements in each other (`nested`) or as steps. `globals` takes the names of those
    that it stores."""

    def __init__(self, code: CodeType, names: Names, nested: bool) -> None:
        self.code, self.names, self.nested = code, names, nested
        self.start = blocks(code, nested)
        self.globals: set[str] = set()
        names.own([*code.co_varnames, *code.co_cellvars, *code.co_freevars])
        if set(code.co_varnames) & set(code.co_freevars):
            raise Unreadable("a local is called what a variable of an outer function is called")
        insts = [inst for block in every(self.start) for inst in block.insts]
        stores = Counter(names.variables[inst.argval] for inst in insts if inst.op in _STORES)
        params = {names.variables[name] for name in code.co_varnames[: argument_slots(code)]}
        shared = {names.variables[name] for name in (*code.co_cellvars, *code.co_freevars)}
        self.locals = {names.variables[name] for name in code.co_varnames} - shared
        self.fixed = {name for name in self.locals if stores[name] <= (name not in params)}
        # `take` lets go of a local whose value waits.
        taken = {name for name in code.co_varnames if not name.isidentifier()}
        for name in taken:
            text = names.variables[name]
            if all(inst.op != "STORE_FAST" for inst in insts if inst.op in _STORES and inst.argval == name):
                self.fixed.add(text)
        self._raised: dict[Block, str] = {}
        self._joined: dict[tuple[Block, int], str] = {}

    def run(self) -> list[ast.stmt]:
        """Raises `Unreadable`."""
        reads = self._read()
        if not self.nested:
            return Dispatch(self.start, reads, self._name_of, self._fresh, self.names).run()
        _skip_empty(self.start, reads)
        _merge_conditions(self.start, reads)
        rest_of = self.names.bind(helpers.rest_of)
        return Structure(self.start, reads, self._name_of, self._fresh, rest_of).run()

    def _name_of(self, handler: Block) -> str:
        """What the exception is called that a handler handles."""
        if handler not in self._raised:
            first = handler.insts[0]
            is_kept = first.op == "STORE_FAST" and self.names.variables[first.argval] in self.fixed
            self._raised[handler] = self.names.variables[first.argval] if is_kept else self._fresh("error")
        return self._raised[handler]

    def _fresh(self, wish: str) -> str:
        name = self.names.new(wish)
        self.fixed.add(name)
        return name

    def _read(self) -> dict[Block, Read]:
        """All blocks. Where ways come together with different stacks, a variable holds what differs: then once more."""
        taken = set(self.names.taken)
        for _ in range(_ROUNDS):
            reads = self._read_once()
            if reads is not None:
                return reads
            names = self.names
            held = (self._joined.values(), self._raised.values(), names.variables.values(), names.bound)
            names.taken = taken.union(*held)
        raise Unreadable("too many ways come together with different stacks")

    def _read_once(self) -> dict[Block, Read] | None:
        stacks: dict[Block, list[Item]] = {self.start: []}
        reads: dict[Block, Read] = {}
        order = every(self.start)
        again = False
        for block in order:
            if block not in stacks:
                raise Unreadable("a block is reached in no order")
            reads[block] = read = Stack(
                self.names, self.fixed, self.locals, self.globals, block, stacks[block], self._name_of
            ).run()
            read.clauses = tuple(_clauses(block, stacks[block]))
            for after, stack in zip(block.after, read.stacks, strict=True):
                again |= self._join(stacks, after, stack)
            if block.handler is not None:
                again |= self._catch(stacks, block, order)
        if again:
            return None
        for block in order:
            self._settle(block, reads[block], stacks)
        return reads

    def _join(self, stacks: dict[Block, list[Item]], after: Block, stack: Sequence[Item]) -> bool:
        """Whether a variable more is needed for what the ways to a block leave on the stack."""
        known = stacks.setdefault(after, [
            ast.Name(self._joined[after, at]) if (after, at) in self._joined else item for at, item in enumerate(stack)
        ])
        if len(known) != len(stack):
            raise Unreadable("a block is reached with stacks of different heights")
        again = False
        places = {name: place for (_, place), name in self._joined.items()}
        for at, (item, other) in enumerate(zip(known, stack, strict=True)):
            if isinstance(other, ast.Name) and places.get(other.id, at) != at:
                raise Unreadable("what ways come together with changes its place on the stack")
            if (after, at) not in self._joined and not same(item, other):
                if isinstance(item, Mark) or isinstance(other, Mark):
                    raise Unreadable("a block is reached in two states")
                self._joined[after, at] = self._fresh("value")
                again = True
        return again

    def _catch(self, stacks: dict[Block, list[Item]], block: Block, order: Sequence[Block]) -> bool:
        """The stack of a handler. Whether its blocks are to have a variable more in common."""
        handler = block.handler
        assert handler is not None
        rest: list[Item] = [*([LASTI] if block.lasti else []), ast.Name(self._name_of(handler))]
        found = [*stacks[block][: block.depth], *rest]
        known = stacks.setdefault(handler, found)
        if len(known) != len(found):
            raise Unreadable("an exception is caught with stacks of different heights")
        again = False
        for at, (item, other) in enumerate(zip(known, found, strict=True)):
            if same(item, other):
                continue
            if isinstance(item, Mark) or isinstance(other, Mark):
                raise Unreadable("an exception is caught in two states")
            name = self._joined.get((handler, at)) or self._fresh("value")
            for each in (handler, *(each for each in order if each.handler is handler)):
                again |= self._joined.get((each, at)) != name
                self._joined[each, at] = name
        return again

    def _settle(self, block: Block, read: Read, stacks: dict[Block, list[Item]]) -> None:
        """What follows finds the variables for its stack set."""
        found: list[ast.stmt] = []
        for after, stack in zip(block.after, read.stacks, strict=True):
            for at, item in enumerate(stack):
                name = self._joined.get((after, at))
                held = item.id if isinstance(item, ast.Name) else None
                if name is None or isinstance(item, Mark) or held == name:
                    continue
                if held is not None and held == read.item:
                    raise Unreadable("an item of a loop is on the stack where ways come together")
                found.append(assign(name, item))
        if found and read.test is not None and not isinstance(read.test, (ast.Name, ast.Constant)):
            name = self._fresh("test")
            found.insert(0, assign(name, read.test))
            read.test = ast.Name(name)
        read.body += found


def _clauses(block: Block, stack: Sequence[Item]) -> Iterator[Block]:
    """The handlers whose clauses a block is in, by the stack that it begins with."""
    for item in stack:
        if isinstance(item, Mark) and item.block is not None:
            yield item.block
    if block.insts[0].op == "PUSH_EXC_INFO":
        yield block


def _skip_empty(start: Block, reads: dict[Block, Read]) -> None:
    """Edges to blocks that do nothing lead to what follows these."""

    def target(block: Block) -> Block:
        seen = {block}
        while not reads[block].body and len(block.after) == 1 and reads[block].exits is None:
            block = block.after[0]
            if block in seen:
                break
            seen.add(block)
        return block

    for block in every(start):
        block.after = [target(after) for after in block.after]


def _merge_conditions(start: Block, reads: dict[Block, Read]) -> None:
    """`and` and `or` of branches that lead to the same places."""
    changed = True
    while changed:
        changed = False
        order = every(start)
        before = predecessors(order)
        for block in reversed(order):
            for way in (1, 0) if _is_branch(block) else ():
                inner = block.after[way]
                if not _is_branch(inner) or reads[inner].body or len(before[inner]) != 1 or inner is block:
                    continue
                if inner.handler is not block.handler or block.after[1 - way] not in inner.after:
                    continue
                if inner.after[0] is inner.after[1]:
                    continue
                other = block.after[1 - way]
                test, more = reads[block].test, reads[inner].test
                assert test is not None and more is not None
                goes_on = test if way == 0 else negated(test)  # to the inner one
                if inner.after[1] is other:
                    reads[block].test = _both(ast.And(), goes_on, more)
                else:
                    reads[block].test = _both(ast.Or(), negated(goes_on), more)
                block.after = list(inner.after)
                reads[block].stacks = list(reads[inner].stacks)
                changed = True
                break


def _is_branch(block: Block) -> bool:
    return block.branches() and block.insts[-1].op != "FOR_ITER"


def _both(op: ast.boolop, left: ast.expr, right: ast.expr) -> ast.expr:
    values = [*(left.values if isinstance(left, ast.BoolOp) and type(left.op) is type(op) else [left]), right]
    return ast.BoolOp(op, values)
