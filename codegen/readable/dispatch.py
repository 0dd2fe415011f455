"""Blocks as a table of steps: for code whose jumps fit into no statements of Python, this always works.

A variable `at` says which step comes next, and a loop runs it. What an `except` clause does are steps of a loop of
their own, inside a clause: so that the exception is handled there, to whoever asks. What that loop raises may be for a
handler outside of the clause: then it is raised once more, where that one is.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from codegen.readable import helpers
from codegen.readable.flow import Block, every
from codegen.readable.names import Names
from codegen.readable.stack import Read, assign

#: The handlers whose clauses a block is in, the outermost first.
Clauses = tuple[Block, ...]


class Dispatch:
    """`reads` has the text of each block, `raised` names the exception of a handler, `fresh` makes new variables."""

    def __init__(
        self,
        start: Block,
        reads: Mapping[Block, Read],
        raised: Callable[[Block], str],
        fresh: Callable[[str], str],
        names: Names,
    ) -> None:
        self.reads, self.raised, self.fresh, self.names = reads, raised, fresh, names
        self.numbers = {block: number for number, block in enumerate(every(start))}
        self.start = start
        self.at = fresh("at")
        self.inside: dict[Clauses, list[Block]] = defaultdict(list)
        #: By where it is met: what a block raises, with its handler.
        self.caught: dict[Clauses, dict[Block, list[Block]]] = defaultdict(lambda: defaultdict(list))
        for block in self.numbers:
            self.inside[reads[block].clauses].append(block)
            if block.handler is not None:
                self.caught[self._outside(block.handler)][block.handler].append(block)

    def _outside(self, handler: Block) -> Clauses:
        """The clauses around the `try` that a handler is of."""
        clauses = self.reads[handler].clauses
        return clauses[:-1] if clauses[-1:] == (handler,) else clauses

    def run(self) -> list[ast.stmt]:
        return [self._goes_to(self.start), *self._loop(())]

    def _loop(self, clauses: Clauses) -> list[ast.stmt]:
        """What runs the steps inside of these clauses until one leads out of them."""
        body = [self._if_at([block], self._step(block, clauses)) for block in self.inside[clauses]]
        caught = self.caught.get(clauses)
        if not caught:
            return [ast.While(ast.Constant(True), body, [])]
        error = self.fresh("error")
        handled: list[ast.stmt] = [ast.Raise()]
        for handler, blocks in caught.items():
            noted = [assign(self.raised(handler), ast.Name(error)), self._goes_to(handler)]
            handled = [_if(self._is_at(blocks), noted, handled)]
        for handler in caught:
            if (*clauses, handler) in self.inside:
                inner = [*self._loop((*clauses, handler)), assign(self.raised(handler), ast.Constant(None))]
                handled.append(self._if_at([handler], inner))
        far = [each for blocks in caught.values() for each in blocks if self.reads[each].clauses != clauses]
        before: list[ast.stmt] = []
        if far:
            again, now = self.fresh("raised_again"), self.fresh("raised_now")
            before.append(assign(again, ast.Constant(None)))
            raised = ast.Expr(ast.Call(self.names.constant(helpers.raise_again), [ast.Name(now)], []))
            body.insert(0, _if(_is_something(again), [
                assign(now, ast.Name(again)), assign(again, ast.Constant(None)), raised,
            ]))
        body = [_try(body, error, handled)]
        if far:
            outer = self.fresh("error")
            body = [_try(body, outer, [_if(self._is_at(far), [assign(again, ast.Name(outer))], [ast.Raise()])])]
        return [*before, ast.While(ast.Constant(True), body, [])]

    def _step(self, block: Block, clauses: Clauses) -> list[ast.stmt]:
        read = self.reads[block]
        body = [*read.body]
        if len(block.after) == 1:
            body.append(self._goes_to(block.after[0]))
            if self.reads[block.after[0]].clauses != clauses:
                body.append(ast.Break())
        elif read.item:
            assert isinstance(read.test, ast.Name)
            done, item = map(self._goes_to, block.after)
            rest = ast.Call(self.names.constant(helpers.rest_of), [read.test], [])
            body.append(ast.For(ast.Name(read.item, ast.Store()), rest, [item, ast.Break()], [done]))
        elif block.after:
            assert read.test is not None
            jump, next_ = map(self._goes_to, block.after)
            body.append(_if(read.test, [jump], [next_]))
        return body or [ast.Pass()]

    def _goes_to(self, block: Block) -> ast.stmt:
        return assign(self.at, ast.Constant(self.numbers[block]))

    def _if_at(self, blocks: Iterable[Block], body: list[ast.stmt]) -> ast.stmt:
        return _if(self._is_at(blocks), body)

    def _is_at(self, blocks: Iterable[Block]) -> ast.expr:
        numbers: list[ast.expr] = [ast.Constant(number) for number in sorted({self.numbers[block] for block in blocks})]
        if len(numbers) == 1:
            return ast.Compare(ast.Name(self.at), [ast.Eq()], numbers)
        return ast.Compare(ast.Name(self.at), [ast.In()], [ast.Tuple(numbers)])


def _if(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt] | None = None) -> ast.stmt:
    return ast.If(test, body, orelse or [])


def _is_something(name: str) -> ast.expr:
    return ast.Compare(ast.Name(name), [ast.IsNot()], [ast.Constant(None)])


def _try(body: list[ast.stmt], error: str, handled: list[ast.stmt]) -> ast.stmt:
    return ast.Try(body, [ast.ExceptHandler(ast.Name("BaseException"), error, handled)], [], [])
