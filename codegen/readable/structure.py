"""Blocks as nested statements: `if`, `while`, `for`, `try`.

A walk along the blocks. What two ways lead to, where a loop or a `try` goes on, is written once, after the statement
that leads there. Where a `try` is left to several places, a variable `way` says which it is; where ways come together
in the midst of statements, what follows is written for each of them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.readable.flow import Block, Unreadable, every, is_silent, loops, reached
from codegen.readable.stack import Read, assign
from codegen.residual.runtime import unseen
from symbolic.code import Inst

_AGAIN = 60
_DEEP = 60


@dataclass(frozen=True)
class Context:
    """What surrounds a statement list: the block that comes after it, the loop (its head, what comes after it), the
    handlers of the `try` statements it is in, and what says where an `end` goes on that leads to several places."""

    fall: Block | None = None
    loop: tuple[Block, Block | None] | None = None
    open: tuple[Block, ...] = ()
    end: Block | None = None
    ways: Mapping[Block, ast.stmt] = field(default_factory=dict)
    depth: int = 0

    def barrier(self) -> set[Block]:
        return {each for each in (self.fall, *(self.loop or ()), *self.ways) if each is not None}


class Structure:
    """`reads` has the text of each block, `raised` names the exception of a handler, `fresh` makes new variables,
    `rest_of` is what the helper of this name is called."""

    def __init__(
        self,
        start: Block,
        reads: Mapping[Block, Read],
        raised: Callable[[Block], str],
        fresh: Callable[[str], str],
        rest_of: str,
    ) -> None:
        self.start, self.reads, self.raised, self.fresh, self.rest_of = start, reads, raised, fresh, rest_of
        self.order = {block: at for at, block in enumerate(every(start))}
        self.loops = loops(start)
        self.written: set[Block] = set()
        self.again = max(_AGAIN, len(self.order))  # how many blocks may be written once more

    def run(self) -> list[ast.stmt]:
        return self.walk(self.start, Context())

    def walk(self, at: Block | None, context: Context, inside: bool = False) -> list[ast.stmt]:
        """The statements from a block on. `inside`: it is the head of the loop that is being written."""
        if context.depth > _DEEP:
            raise Unreadable("statements are nested too deep")
        context = replace(context, depth=context.depth + 1)
        out: list[ast.stmt] = []
        while at is not None:
            if not inside:
                if at is context.fall:
                    break
                jump = self._jump(at, context)
                if jump is not None:
                    out += jump
                    break
            new = [handler for handler in list(at.handlers())[::-1] if handler not in context.open]
            if (at in self.loops or _is_for(at)) and not inside and not (new and self._is_around(new[0], at)):
                at = self._loop(at, context, out)
            elif new:
                at = self._try(at, new[0], context, out, inside)
            else:
                at = self._block(at, context, out, inside)
            inside = False
        return out

    def _jump(self, at: Block, context: Context) -> list[ast.stmt] | None:
        """What leads to a block that is written elsewhere; None for one to be written here."""
        if at in context.ways:
            if context.fall is not context.end:
                raise Unreadable("a statement in the midst of others is left to several places")
            return [context.ways[at]]
        if context.loop is not None:
            head, after = context.loop
            if at is head:
                return [ast.Continue()]
            if at is after:
                return [ast.Break()]
        return None

    def _is_around(self, handler: Block, head: Block) -> bool:
        """Whether the `try` is around the loop, and not in it."""
        return all(handler in set(block.handlers()) or is_silent(block) for block in self.loops.get(head, {head}))

    # --- one block ----------------------------------------------------------------------------------------------------
    def _block(self, at: Block, context: Context, out: list[ast.stmt], inside: bool) -> Block | None:
        read = self._written(at)
        self._check_covered(at, context)
        out += read.body
        if not at.after:
            return None
        if not at.branches():
            return at.after[0]
        assert read.test is not None
        return self._branch([(read.test, at.after[0])], at.after[1], context, out)

    def _written(self, at: Block) -> Read:
        """What a block is in the text."""
        read = self.reads[at]
        if at not in self.written:
            self.written.add(at)
            return read
        self.again -= 1
        if self.again < 0:
            raise Unreadable("ways come together in too many places where no statement ends")
        return replace(read, body=copy.deepcopy(read.body), test=copy.deepcopy(read.test))

    def _check_covered(self, at: Block, context: Context) -> None:
        """A block that no handler covers may stand in a `try` only if it raises nothing."""
        covering = set(at.handlers())
        for handler in context.open:
            if handler not in covering and not is_silent(at):
                raise Unreadable("what a `try` does not cover stands in it")

    def _branch(
        self, cases: list[tuple[ast.expr, Block]], otherwise: Block, context: Context, out: list[ast.stmt]
    ) -> Block | None:
        """`if` statements for the cases, in order; answers where it goes on."""
        targets = [*(target for _, target in cases), otherwise]
        join = self._join(targets, context)
        inner = context if join is None else replace(context, fall=join)
        orelse = self.walk(otherwise, inner)
        for test, target in reversed(cases):
            body = self.walk(target, inner)
            if not orelse or (ends(body) and body):
                orelse = [ast.If(test, body or [ast.Pass()], []), *orelse]
            elif not body:
                orelse = [ast.If(negated(test), orelse, [])]
            elif ends(orelse):
                orelse = [ast.If(negated(test), orelse, []), *body]
            else:
                orelse = [ast.If(test, body, orelse)]
        out += orelse
        return join

    def _join(self, targets: Iterable[Block], context: Context) -> Block | None:
        """The first block that all ways lead to; None if it is that of the context, or there is none."""
        targets = list(targets)
        barrier = context.barrier()
        sets = [set(reached([target], barrier)) for target in targets]
        common = set.intersection(*sets)
        if not common:
            # Some ways end: what comes together of the others.
            some = [each for each in set.union(*sets) if sum(each in found for found in sets) > 1]
            return min(some, key=self.order.__getitem__, default=None)
        return min(common, key=self.order.__getitem__)

    # --- loops --------------------------------------------------------------------------------------------------------
    def _loop(self, head: Block, context: Context, out: list[ast.stmt]) -> Block | None:
        if head not in self.loops:
            return self._for(head, self._after_round(head, context), context, out)
        body = self.loops[head]
        leaving = dict.fromkeys(
            after for block in sorted(body, key=self.order.__getitem__) for after in block.after if after not in body
        )
        is_for = _is_for(head)
        barrier = context.barrier()
        waiting = [each for each in leaving if each not in barrier or each is context.fall]
        done = head.after[0] if is_for else None
        after = self._after_loop(waiting, done, context)
        if is_for:
            return self._for(head, after, context, out)
        inner = replace(context, loop=(head, after), fall=head)
        out.append(ast.While(ast.Constant(True), self.walk(head, inner, inside=True) or [ast.Pass()], []))
        return after

    def _for(self, head: Block, after: Block | None, context: Context, out: list[ast.stmt]) -> Block | None:
        read = self._written(head)
        self._check_covered(head, context)
        assert isinstance(read.test, ast.Name)
        done, item = head.after
        statements = self.walk(item, replace(context, loop=(head, after), fall=head)) or [ast.Pass()]
        orelse = [] if done is after else self.walk(done, replace(context, fall=after))
        rest = ast.Call(ast.Name(self.rest_of), [read.test], [])
        out.append(ast.For(ast.Name(read.item, ast.Store()), rest, statements, orelse))
        return after

    def _after_round(self, head: Block, context: Context) -> Block:
        """Where control goes on behind a `for` that has one round at most."""
        barrier = context.barrier() - {context.fall}
        done, item = (set(reached([each], barrier)) for each in head.after)
        return min(done & item, key=self.order.__getitem__, default=head.after[0])

    def _after_loop(self, leaving: list[Block], done: Block | None, context: Context) -> Block | None:
        """Where control goes on behind a loop: what its exits come to, those aside that end."""
        if len(leaving) <= 1:
            return leaving[0] if leaving else None
        barrier = context.barrier() - set(leaving)
        sets = {each: set(reached([each], barrier)) for each in leaving}
        if context.fall in leaving:
            return context.fall
        common = set.intersection(*sets.values())
        if common:
            return min(common, key=self.order.__getitem__)
        return done if done is not None else max(leaving, key=lambda each: len(sets[each]))

    # --- exceptions ---------------------------------------------------------------------------------------------------
    def _try(self, at: Block, handler: Block, context: Context, out: list[ast.stmt], inside: bool) -> Block | None:
        body_exits = self._exits(self._covered(at, handler), context)
        name = self.raised(handler)
        if self._only_raises_again(handler):
            clause: list[ast.stmt] = [*self._written(handler).body[:-1], ast.Raise()]
            return self._left(at, handler, name, body_exits, clause, context, out, inside)
        if handler.insts[0].op == "PUSH_EXC_INFO":
            exits = list(dict.fromkeys([*body_exits, *self._clause_exits(handler, context)]))
            return self._left(at, handler, name, exits, None, context, out, inside, len(body_exits))
        # It goes on when the exception is not handled any more, or not yet: behind the statement.
        failed = self.fresh("failure")
        out.append(assign(name, ast.Constant(None)))
        test = ast.Compare(ast.Name(name), [ast.IsNot()], [ast.Constant(None)])
        clause = [assign(name, ast.Name(failed))]
        return self._left(at, handler, failed, body_exits, clause, context, out, inside, cases=[(test, handler)])

    def _left(
        self,
        at: Block,
        handler: Block,
        name: str,
        exits: list[Block],
        clause: list[ast.stmt] | None,
        context: Context,
        out: list[ast.stmt],
        inside: bool,
        of_body: int = 0,
        cases: Sequence[tuple[ast.expr, Block]] = (),
    ) -> Block | None:
        """Writes a `try` that is left to `exits`, of which the first `of_body` are those of its body, and to `cases`;
        `clause` None: it is that of the handler."""
        after = exits[0] if exits else None
        orelse: list[ast.stmt] = []
        inner = replace(context, fall=after)
        of_clause = inner
        if len(exits) == 2 and of_body == 1 and exits[1] in reached([exits[0]], context.barrier() - {exits[1]}):
            after = exits[1]
            of_clause = replace(context, fall=after)
            orelse = self.walk(exits[0], of_clause)
        elif len(exits) > 1:
            way, end = self.fresh("way"), Block([])
            ways = {each: assign(way, ast.Constant(number)) for number, each in enumerate(exits)}
            inner = of_clause = replace(context, fall=end, end=end, ways=ways)
            equal = [ast.Compare(ast.Name(way), [ast.Eq()], [ast.Constant(number)]) for number in range(len(exits))]
            cases = [*cases, *zip(equal[:-1], exits[:-1], strict=True)]
            after = exits[-1]
        body = self.walk(at, replace(inner, open=(*context.open, handler)), inside)
        if clause is None:
            clause = self.walk(handler, of_clause, inside=True)
        caught = ast.ExceptHandler(ast.Name("BaseException"), name, clause or [ast.Pass()])
        out.append(ast.Try(body or [ast.Pass()], [caught], orelse, []))
        if not cases:
            return after
        if after is None:
            if len(cases) > 1:
                raise Unreadable("a `try` is left to several places")
            return cases[0][1]
        return self._branch(list(cases), after, context, out)

    def _covered(self, at: Block, handler: Block) -> set[Block]:
        """The blocks of a `try`, from its first one on."""
        found: set[Block] = set()
        work = [at]
        while work:
            block = work.pop()
            if block in found or handler not in set(block.handlers()):
                continue
            found.add(block)
            work += block.after
            work += [inner for inner in block.handlers() if inner is not handler and handler in set(inner.handlers())]
        return found

    def _exits(self, inside: set[Block], context: Context) -> list[Block]:
        """Where control goes on that leaves blocks: past what raises nothing and leads to one place."""
        found: dict[Block, None] = {}
        for block in sorted(inside, key=self.order.__getitem__):
            for after in block.after:
                if after not in inside:
                    self._exit(after, context, found)
        return list(found)

    def _exit(self, after: Block, context: Context, found: dict[Block, None]) -> None:
        if context.loop is not None and after in context.loop and after is not context.fall:
            return
        if not after.after and is_silent(after):
            return  # `return` of a variable
        found[after] = None

    def _clause_exits(self, handler: Block, context: Context) -> list[Block]:
        """Where control goes on behind an `except` clause."""
        found: dict[Block, None] = {}
        seen: set[Block] = set()
        outer = set(handler.handlers())
        work = [handler]
        while work:
            block = work.pop(0)
            if block in seen:
                continue
            seen.add(block)
            if self.reads[block].exits is handler:
                for after in block.after:
                    if _only_sets(after.insts) and len(after.after) == 1:  # the end of `except ... as`
                        after = after.after[0]
                    self._exit(after, context, found)
            else:
                work += block.after
                work += [inner for inner in block.handlers() if inner not in outer]
        return list(found)

    def _only_raises_again(self, handler: Block) -> bool:
        """Whether it only sets variables and goes on with raising, as the end of `except ... as` does."""
        *setting, last = handler.insts
        return bool(setting) and last.op == "RERAISE" and (_only_sets(setting) or _is_unseen(setting))


_SETS = frozenset("LOAD_CONST STORE_FAST DELETE_FAST STORE_DEREF DELETE_DEREF JUMP_FORWARD JUMP_BACKWARD".split())
_CALLS = frozenset("LOAD_CONST PUSH_NULL COPY PRECALL CALL POP_TOP".split())


def _only_sets(insts: list[Inst]) -> bool:
    return all(inst.op in _SETS for inst in insts)


def _is_unseen(insts: list[Inst]) -> bool:
    """Whether all it does is to take its frame off the traceback."""
    constants = [inst.argval for inst in insts if inst.op == "LOAD_CONST"]
    return constants == [unseen] and all(inst.op in _CALLS for inst in insts)


def _is_for(block: Block) -> bool:
    return block.last is not None and block.last.op == "FOR_ITER"


def ends(statements: list[ast.stmt]) -> bool:
    """Whether control never comes to what follows these."""
    if not statements:
        return False
    match statements[-1]:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return True
        case ast.If(_, body, orelse):
            return ends(body) and ends(orelse)
        case ast.Try(body, handlers, orelse, _):
            return (ends(body) or ends(orelse)) and all(ends(handler.body) for handler in handlers)
    return hasattr(statements[-1], "is_final")


def negated(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(ast.Not(), value):
            return value
        case ast.Compare(left, [op], [right]) if type(op) in _NOT:
            return ast.Compare(left, [_NOT[type(op)]()], [right])
    return ast.UnaryOp(ast.Not(), test)


#: Of comparisons that give a bool.
_NOT: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}
