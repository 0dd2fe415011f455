"""Statements as a person would write them: what stands for one value once is written where it is used, and exceptions,
`with` and loops get their syntax. Each rule leaves a program that does the same."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from codegen.readable import helpers
from codegen.readable.names import Names
from codegen.readable.structure import ends, negated

#: Looks at some statements one after the other; answers with how many of them become which.
Rule = Callable[[list[ast.stmt]], tuple[int, list[ast.stmt]] | None]
_SEEN = 4


@dataclass
class Tidy:
    """`own` are the variables of the program, `locals` those that only this code can change."""

    names: Names
    own: set[str]
    locals: set[str]

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.inlined, self.unpacked, self.managed, self.always

    def run(self, body: list[ast.stmt]) -> list[ast.stmt]:
        module = ast.Module(body, [])
        for _ in range(50):
            before = ast.dump(module)
            self.count(module)
            module.body = self.block(module.body)
            if ast.dump(module) == before:
                break
        return module.body

    def count(self, module: ast.Module) -> None:
        self.loads: Counter[str] = Counter()
        self.stores: Counter[str] = Counter()
        for node in ast.walk(module):
            if isinstance(node, ast.Name):
                (self.stores if is_stored(node) else self.loads)[node.id] += 1

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            for name, inner in list(_blocks(statement)):
                setattr(statement, name, self.block(inner))
            if isinstance(statement, ast.Try):
                for handler in statement.handlers:
                    handler.body = self.block(handler.body)
            out.append(statement)
        at = 0
        while at < len(out):
            new = next(filter(None, (rule(out[at : at + _SEEN]) for rule in self.rules)), None)
            if new is None:
                at += 1
            else:
                count, statements = new
                out[at : at + count] = statements
                at = max(at - _SEEN + 1, 0)
        return [self.one(statement) for statement in out]

    # --- statements one after the other: how many of them become which ---
    def inlined(self, body: list[ast.stmt]) -> tuple[int, list[ast.stmt]] | None:
        match body:
            case [ast.Assign([ast.Name(name)], value), following, *_]:
                pass
            case _:
                return None
        if name in self.own or self.loads[name] != 1 or self.stores[name] != 1:
            return None
        place = _Place(name, self.locals | self.names.bound.keys())
        if place.look(following) is not True:
            return None
        assert place.put is not None
        place.put(value)
        if isinstance(following, ast.Return) or not hasattr(following, "offset"):
            _copy_place(body[0], following)
        return 2, [following]

    def unpacked(self, body: list[ast.stmt]) -> tuple[int, list[ast.stmt]] | None:
        """a, b = value, which went through variables"""
        match body:
            case [ast.Assign([ast.Tuple([ast.Name(name)])], value), ast.Assign([target], ast.Name(read)), *_]:
                if read == name and name not in self.own and self.loads[name] == 1 and self.stores[name] == 1:
                    made = ast.Assign([ast.Tuple([target], ast.Store())], value)
                    _copy_place(body[0], made)
                    return 2, [made]
        return None

    def managed(self, body: list[ast.stmt]) -> tuple[int, list[ast.stmt]] | None:
        """with manager as value: ..."""
        enter = self._bound(helpers.opcode("BEFORE_WITH", 0, 1, 2))
        match body:
            case [
                ast.Assign([ast.Tuple([ast.Name(leave), ast.Name(value)])], ast.Call(ast.Name(function), [manager])),
                *rest,
            ] if function == enter:
                pass
            case _:
                return None
        if self.loads[leave] != 2 or self.stores[leave] != 1:
            return None
        target: ast.expr | None = None
        count = 1
        match rest:
            case [ast.Assign([stored], ast.Name(read)), *_] if read == value and self.loads[value] == 1:
                target, count = stored, 2
                rest = rest[1:]
        if target is None and self.loads[value]:
            target = ast.Name(value, ast.Store())
        match rest:
            case [ast.Try(inner, [caught], [], []), left, *_]:
                count += 2
            case [ast.Try(inner, [caught], [left], []), *_]:
                count += 1
            case _:
                return None
        nothing = [ast.Constant(None)] * 3
        if ast.dump(left) != ast.dump(ast.Expr(ast.Call(ast.Name(leave), list(nothing), []))):
            return None
        if leaves(inner):  # without a word to the manager
            return None
        match caught.body:
            case [ast.If(ast.UnaryOp(_, ast.Call(ast.Name(called))), [ast.Raise(None, None)], [])] if called == leave:
                made = ast.With([ast.withitem(manager, target)], inner)
                _copy_place(body[0], made)
                return count, [made]
        return None

    def always(self, body: list[ast.stmt]) -> tuple[int, list[ast.stmt]] | None:
        """try: ... finally: ..."""
        match body:
            case [ast.Try(inner, [ast.ExceptHandler(ast.Name("BaseException"), _, caught)], [], []) as tried, *after]:
                *last, raised = caught
            case _:
                return None
        is_same = [ast.dump(each) for each in last] == [ast.dump(each) for each in after[: len(last)]]
        if not last or not is_same or leaves(inner) or not (isinstance(raised, ast.Raise) and raised.exc is None):
            return None
        tried.handlers, tried.finalbody = [], last
        return 1 + len(last), [tried]

    # --- one statement ---
    def one(self, statement: ast.stmt) -> ast.stmt:
        match statement:
            case ast.While(ast.Constant(True), [ast.If(test, [ast.Break()], []), *rest], []) if rest:
                statement.test, statement.body = negated(test), rest
            case ast.For(_, ast.Call(_, [ast.Call(ast.Name(function), [iterable], [])], [])) if (
                function == self._bound(iter)
            ):
                statement.iter = iterable
        match statement:
            case ast.For(ast.Name(item), _, [ast.Assign([target], ast.Name(read)), *rest]) if (
                item == read and self.loads[item] == 1
            ):
                statement.target, statement.body = target, rest or [ast.Pass()]
            case ast.Try(_, [ast.ExceptHandler(ast.Name("BaseException"))]):
                statement.handlers = list(self.clauses(statement.handlers[0]))
        return statement

    def clauses(self, handler: ast.ExceptHandler) -> Iterator[ast.ExceptHandler]:
        """`except` clauses for what the handler asks of the exception."""
        name = handler.name
        match handler.body:
            case [ast.If(ast.UnaryOp(_, test), body, orelse), *rest] if self._matched(test, name) and ends(body):
                yes, no = [*orelse, *rest], body
            case [ast.If(test, body, orelse), *rest] if self._matched(test, name) and (ends(body) or not rest):
                yes, no = body, [*orelse, *rest]
            case _:
                if name is not None and not self.loads[name]:
                    handler.name = None
                yield handler
                return
        assert isinstance(test, ast.Call)
        yield self._named(ast.ExceptHandler(test.args[1], name, yes or [ast.Pass()]))
        match no:
            case [ast.Raise(None, None)]:
                return
        yield from self.clauses(ast.ExceptHandler(ast.Name("BaseException"), name, no or [ast.Pass()]))

    def _matched(self, test: ast.expr, name: str | None) -> bool:
        match test:
            case ast.Call(ast.Name(function), [ast.Name(error), _]):
                return error == name and function == self._bound(helpers.opcode("CHECK_EXC_MATCH", 0, 2, 2))
        return False

    def _named(self, clause: ast.ExceptHandler) -> ast.ExceptHandler:
        """except ... as name: the text of a clause that sets and deletes a variable of the program by itself"""
        error = clause.name
        used = sum(isinstance(node, ast.Name) and node.id == error for node in ast.walk(ast.Module(clause.body, [])))
        match clause.body:
            case [ast.Assign([ast.Name(target)], ast.Name(read)), *rest] if read == error and used == 1:
                inner = _without_cleanup(rest, target)
                if inner != rest:
                    clause.name, clause.body = target, inner or [ast.Pass()]
            case _ if not used:
                clause.name = None
        return clause

    def _bound(self, value: Any) -> str | None:
        return next((name for name, each in self.names.bound.items() if each is value), None)


def leaves(body: list[ast.stmt]) -> bool:
    """Whether statements may be left by another way than their end and exceptions."""
    return any(isinstance(each, (ast.Return, ast.Break, ast.Continue)) for part in body for each in ast.walk(part))


def is_stored(node: ast.Name) -> bool:
    """Whether it is the target of a statement; what only reads has no context before Python 3.13."""
    return isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))


def _without_cleanup(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    """Python's own `name = None; del name` comes after the clause anyway."""
    match body:
        case [ast.Try(inner, [], [], last), *rest] if _is_cleanup(last, name):
            return [*inner, *rest]
        case [ast.Try(inner, [ast.ExceptHandler(_, _, caught)], [], []), *rest] if (
            _is_cleanup(caught[:-1], name) and isinstance(caught[-1], ast.Raise) and caught[-1].exc is None
        ):
            return _without_cleanup([*inner, *rest], name)
    return body[:-2] if len(body) > 1 and _is_cleanup(body[-2:], name) else body


def _is_cleanup(body: list[ast.stmt], name: str) -> bool:
    match body:
        case [ast.Assign([ast.Name(stored)], ast.Constant(None)), ast.Delete([ast.Name(deleted)])]:
            return stored == deleted == name
    return False


def _blocks(statement: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list) and inner:
            yield name, inner


def _copy_place(of: ast.stmt, to: ast.stmt) -> None:
    if hasattr(of, "offset"):
        to.offset = of.offset  # type: ignore[attr-defined]


class _Place:
    """Where a statement reads a variable, if nothing is evaluated before it that may have an effect or see one."""

    def __init__(self, name: str, plain: set[str]) -> None:
        self.name, self.plain = name, plain
        self.put: Any = None

    def look(self, statement: ast.stmt) -> bool | None:
        """True: it is read first. False: something comes before. None: it is not read."""
        fields: tuple[str, ...]
        match statement:
            case ast.Expr() | ast.Return():
                fields = ("value",)
            case ast.Assign([ast.Name() | ast.Tuple()]):
                fields = ("value",)
            case ast.Assign([ast.Attribute() | ast.Subscript()]):
                fields = ("value", "targets")
            case ast.AugAssign(ast.Name()):
                fields = ("value",)
            case ast.If():
                fields = ("test",)
            case ast.For():
                fields = ("iter",)
            case ast.Raise():
                fields = ("exc", "cause")
            case _:
                return False
        return self._fields(statement, fields)

    def _fields(self, node: ast.AST, fields: tuple[str, ...]) -> bool | None:
        for name in fields:
            value = getattr(node, name)
            each = value if isinstance(value, list) else [value]
            for at, inner in enumerate(each):
                if inner is None:
                    continue
                if isinstance(inner, ast.Name) and inner.id == self.name:
                    self.put = (lambda new, v=value, at=at: v.__setitem__(at, new)) if isinstance(value, list) else (
                        lambda new, n=name: setattr(node, n, new))
                    return True
                found = self._expression(inner)
                if found is not None:
                    return found
        return None

    def _expression(self, node: ast.AST) -> bool | None:
        match node:
            case ast.Constant():
                return None
            case ast.Name(name):
                return None if name in self.plain else False
            case ast.Tuple() | ast.List():
                return self._fields(node, ("elts",))
            case ast.Starred() | ast.keyword():
                return self._fields(node, ("value",))
            case ast.Attribute():
                return False if self._fields(node, ("value",)) is not True else True
            case ast.Subscript():
                return self._fields(node, ("value", "slice")) or False
            case ast.Slice():
                return self._fields(node, ("lower", "upper", "step"))
            case ast.Call():
                return self._fields(node, ("func", "args", "keywords")) or False
            case ast.BinOp():
                return self._fields(node, ("left", "right")) or False
            case ast.Compare(_, [_], [_]):
                return self._fields(node, ("left", "comparators")) or False
            case ast.UnaryOp():
                return self._fields(node, ("operand",)) or False
            case ast.BoolOp(_, [first, *_]):
                if isinstance(first, ast.Name) and first.id == self.name:
                    self.put = lambda new: node.values.__setitem__(0, new)
                    return True
                return self._expression(first) or False
            case ast.Dict() if all(isinstance(key, ast.Constant) for key in node.keys):
                return self._fields(node, ("values",))
            case ast.Set():
                return self._fields(node, ("elts",)) or False
        return False
