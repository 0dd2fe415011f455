"""The instructions of one block as statements: what they push and pop becomes expressions.

Expressions wait on a symbolic stack until an instruction takes them. What is evaluated in between would run before them
in the text, so before each statement those that wait go to variables, unless nothing can change what they give.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from codegen.readable.flow import Block, Unreadable
from codegen.readable.names import Names
from symbolic.code import Inst


@dataclass(frozen=True)
class Mark:
    """What no expression stands for: a null pointer, or what an `except` clause put on the stack."""

    kind: str
    block: Block | None = None


NULL, LASTI = Mark("null"), Mark("lasti")
Item = ast.expr | Mark


@dataclass(eq=False)
class Read:
    """One block in the text: its statements, the condition of its branch or the iterator of its loop, and the stack for
    each of the blocks that follow."""

    body: list[ast.stmt] = field(default_factory=list)
    test: ast.expr | None = None
    item: str = ""
    stacks: list[list[Item]] = field(default_factory=list)
    exits: Block | None = None  # the handler whose clause ends with this block
    clauses: tuple[Block, ...] = ()  # the handlers whose clauses it is in, the outermost first


def store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([store(name)], value)


def same(one: Item, other: Item) -> bool:
    if isinstance(one, Mark) or isinstance(other, Mark):
        return one == other
    return ast.dump(one) == ast.dump(other)


class Stack:
    """The state while a block is read. `fixed` are the variables that are given a value once at most, `locals` those
    that no other function can change, `globals_` takes those that the block stores; `raised` names a handler's
    exception."""

    def __init__(
        self,
        names: Names,
        fixed: set[str],
        locals: set[str],
        globals_: set[str],
        block: Block,
        stack: Sequence[Item],
        raised: Callable[[Block], str],
    ) -> None:
        self.names, self.fixed, self.locals, self.globals, self.block = names, fixed, locals, globals_, block
        self.items = list(stack)
        self.read = Read()
        self.raised = raised
        self.kw_names: tuple[str, ...] = ()
        self.rest = list(block.insts)
        self.inst = self.rest[0]

    def run(self) -> Read:
        while self.rest:
            inst = self.inst = self.rest.pop(0)
            rule = RULES.get(inst.op)
            if rule is None:
                raise Unreadable(f"{inst.op} has no Python")
            rule(self, inst)
        if len(self.read.stacks) != len(self.block.after):
            self.settle("*")
            self.read.stacks = [list(self.items) for _ in self.block.after]
        return self.read

    # --- the stack ---
    def push(self, item: Item) -> None:
        self.items.append(item)

    def pop(self) -> ast.expr:
        item = self.items.pop()
        if isinstance(item, Mark):
            raise Unreadable(f"{item.kind} is taken for a value")
        return item

    def popped(self, count: int) -> list[ast.expr]:
        return [self.pop() for _ in range(count)][::-1]

    def is_stable(self, item: Item) -> bool:
        """Whether it gives the same later on."""
        if isinstance(item, ast.Name):
            return item.id in self.fixed or item.id in self.names.bound
        return isinstance(item, (Mark, ast.Constant))

    def settle(self, changed: str = "") -> None:
        """What waits goes to variables: what may have an effect or give another value later on, and the variable that
        is about to change ("*": all that may)."""
        for at, item in enumerate(self.items):
            if isinstance(item, ast.Name) and item.id in self.locals and changed not in ("*", item.id):
                continue
            if not self.is_stable(item):
                assert isinstance(item, ast.expr)
                name = self.fresh(_hint(item))
                self._append(assign(name, item))
                self.items[at] = ast.Name(name)

    def fresh(self, hint: str) -> str:
        name = self.names.new(hint)
        self.fixed.add(name)
        return name

    def emit(self, statement: ast.stmt, changed: str = "") -> None:
        self.settle(changed)
        self._append(statement)

    def _append(self, statement: ast.stmt) -> None:
        statement.offset = self.inst.offset  # type: ignore[attr-defined]
        self.read.body.append(statement)

    def helper(self, function: Callable[..., Any], *arguments: ast.expr) -> ast.expr:
        return ast.Call(self.names.constant(function), list(arguments), [])

    def variable(self, name: str) -> str:
        """What a variable of the code is called. In a comprehension that is part of the code, it has its own."""
        inside = sum(isinstance(item, Mark) and item.kind == f"saved {name}" for item in self.items)
        if not inside:
            return self.names.variables[name]
        inner = f"{name}.{inside}"
        if inner not in self.names.variables:
            self.names.variables[inner] = self.names.new(name)
            self.locals.add(self.names.variables[inner])
        return self.names.variables[inner]

    def finish(self, *stacks: list[Item]) -> None:
        self.read.stacks = list(stacks)


def _hint(value: ast.expr) -> str:
    """What a value that waits is called."""
    if isinstance(value, ast.Call):
        name = getattr(value.func, "id", getattr(value.func, "attr", ""))
        return name if name[:1] == "_" or not name else f"{name}_result"
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else "value"


RULES: dict[str, Callable[[Stack, Inst], None]] = {}


def rule(names: str) -> Callable[[Callable[[Stack, Inst], None]], Callable[[Stack, Inst], None]]:
    def register(run: Callable[[Stack, Inst], None]) -> Callable[[Stack, Inst], None]:
        for name in names.split():
            assert name not in RULES, name
            RULES[name] = run
        return run

    return register
