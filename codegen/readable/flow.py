"""The control flow of a code object: blocks of instructions, where each leads, and what handles its exceptions."""

from __future__ import annotations

import bisect
import inspect
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from symbolic.code import Handler, Inst, decode
from symbolic.versions import END_OF_FOR, FOR_ITER_KEEPS_ITERATOR, INTRINSICS_1, LOAD_CLOSURE, NO_FALLTHROUGH


class Unreadable(Exception):
    """There is no text for this code; the message says why, in one line."""


@dataclass(eq=False)
class Block:
    """Instructions that run one after the other. `after` are the blocks that may follow (of a branch: where it jumps,
    then the next one), `handler` the one that an exception leads to, the stack cut to `depth`, with the offset if
    `lasti`. `first` is the number of its first instruction in the code."""

    insts: list[Inst]
    first: int = 0
    after: list[Block] = field(default_factory=list)
    handler: Block | None = None
    depth: int = 0
    lasti: bool = False

    @property
    def last(self) -> Inst | None:
        return self.insts[-1] if self.insts else None

    def branches(self) -> bool:
        return len(self.after) == 2

    def handlers(self) -> Iterator[Block]:
        """The blocks that an exception leads to which is raised here, and there, and so on."""
        block = self.handler
        while block is not None:
            yield block
            block = block.handler


_ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
#: What `yield from` does with the iterator that it has.
_DELEGATES = "LOAD_CONST SEND YIELD_VALUE JUMP_BACKWARD_NO_INTERRUPT".split()
_MANY = 1000
_NEVER_RAISES = frozenset(
    """LOAD_FAST STORE_FAST LOAD_CONST POP_TOP COPY SWAP JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT
    RETURN_VALUE RETURN_CONST PUSH_NULL POP_EXCEPT PUSH_EXC_INFO DELETE_FAST LOAD_FAST_CHECK NOP""".split()
)
#: What ends an `except` clause that an exception leaves: in the text there is nothing to do for it.
_CLEANUP = [("COPY", 3), ("POP_EXCEPT", 0), ("RERAISE", 1)]


def blocks(code: CodeType, nested: bool) -> Block:
    """The first block of a code object; `nested`: for statements in each other. Raises `Unreadable`."""
    if code.co_flags & _ASYNCHRONOUS:
        raise Unreadable("it is asynchronous")
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise Unreadable("it is a module or class body: its locals are a dict")
    decoded = decode(code)
    insts = _without_generator([_plain(inst, code) for inst in decoded.insts])
    start = _split(insts, decoded.handlers, decoded.offsets)
    _drop_cleanups(start)
    if not nested:
        return start
    if len(every(start)) > _MANY:
        raise Unreadable(f"it is too long: {len(every(start))} blocks")
    return _enter_loops_at_their_heads(start)


def _without_generator(insts: list[Inst]) -> list[Inst]:
    """What makes a function a generator follows from `yield` in its text; a loop that delegates is one instruction."""
    out = list(insts)

    def gone(at: int) -> None:
        out[at] = replace(out[at], op="NOP", target=-1)

    for at, inst in enumerate(insts):
        if inst.op == "RETURN_GENERATOR":
            gone(at)
            gone(at + 1)  # POP_TOP
        elif inst.op == "GET_YIELD_FROM_ITER" and [each.op for each in insts[at + 1 : at + 5]] == _DELEGATES:
            end = insts[at + 2].target
            for each in (at + 1, at + 2, at + 3, *([end] if insts[end].op == "END_SEND" else [])):
                gone(each)
            out[at] = replace(inst, op="YIELD_FROM")
            out[at + 4] = replace(insts[at + 4], op="JUMP_FORWARD", target=end)
    return out


def _plain(inst: Inst, code: CodeType) -> Inst:
    """One way to say it on all versions."""
    if inst.op == "KW_NAMES":  # 3.11's `dis` knows no constant of it
        return replace(inst, argval=code.co_consts[inst.arg])
    if inst.argval in (*code.co_cellvars, *code.co_freevars):
        if inst.op == "LOAD_FAST" and LOAD_CLOSURE == "LOAD_FAST":
            return replace(inst, op="LOAD_CLOSURE")
        if inst.op in ("LOAD_FAST", "LOAD_FAST_CHECK", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
            raise Unreadable(f"{inst.argval} is now a value, now a cell")
    return inst


def _split(insts: list[Inst], rows: list[Handler], offsets: list[int]) -> Block:
    covered = [next((row for row in rows if row.start <= inst.offset < row.end), None) for inst in insts]
    starts = {0} | {bisect.bisect_left(offsets, row.target) for row in rows}
    for index, inst in enumerate(insts):
        if inst.target >= 0:
            starts |= {index + 1, inst.target}
        if inst.op in NO_FALLTHROUGH or inst.op == "POP_EXCEPT":
            starts.add(index + 1)
        if inst.op == "FOR_ITER":
            starts |= {index, _after_loop(insts, inst)}
        if index and covered[index] is not covered[index - 1]:
            starts.add(index)
    order = sorted(index for index in starts if index < len(insts))
    made = {}
    for begin, end in zip(order, [*order[1:], len(insts)], strict=True):
        made[begin] = Block(insts[begin:end], begin)
    for begin, block in made.items():
        last, end = block.insts[-1], begin + len(block.insts)
        if last.target >= 0:
            block.after.append(made[_after_loop(insts, last) if last.op == "FOR_ITER" else last.target])
        if last.op not in NO_FALLTHROUGH and end in made:
            block.after.append(made[end])
        row = covered[begin]
        if row is not None:
            block.handler = made[bisect.bisect_left(offsets, row.target)]
            block.depth, block.lasti = row.depth, row.lasti
    return made[0]


def _after_loop(insts: list[Inst], loop: Inst) -> int:
    """Where control goes on when the iterator is exhausted, and gone from the stack."""
    if not FOR_ITER_KEEPS_ITERATOR:
        return loop.target
    # The jump may lead past END_FOR already.
    return loop.target + sum(
        inst.op == name for inst, name in zip(insts[loop.target :], END_OF_FOR, strict=False)
    ) if insts[loop.target].op == "END_FOR" else loop.target


def every(start: Block) -> list[Block]:
    """All blocks that control can reach, in reverse postorder: each before those that follow, loops aside."""
    seen: set[Block] = {start}
    done: list[Block] = []
    work = [(start, iter(_edges(start)))]
    while work:
        block, rest = work[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                work.append((following, iter(_edges(following))))
                break
        else:
            done.append(block)
            work.pop()
    return done[::-1]


def _edges(block: Block) -> list[Block]:
    return [*block.after, *([block.handler] if block.handler is not None else [])]


def reached(start: Iterable[Block], barrier: Set[Block] = frozenset(), exceptions: bool = False) -> list[Block]:
    """The blocks that control can get to from `start` without going through `barrier`."""
    found: dict[Block, None] = {}
    work = [block for block in start if block not in barrier]
    while work:
        block = work.pop()
        if block not in found:
            found[block] = None
            work += [after for after in (_edges(block) if exceptions else block.after) if after not in barrier]
    return list(found)


def predecessors(order: Iterable[Block]) -> dict[Block, list[Block]]:
    """By edges of control and of exceptions."""
    found: dict[Block, list[Block]] = {}
    for block in order:
        found.setdefault(block, [])
        for following in _edges(block):
            found.setdefault(following, []).append(block)
    return found


def dominators(start: Block) -> dict[Block, set[Block]]:
    """For each block those that control has gone through when it gets there."""
    order = every(start)
    before = predecessors(order)
    found = {start: {start}}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [found[each] for each in before[block] if each in found]
            now = set.intersection(*known) | {block} if known else {block}
            if found.get(block) != now:
                found[block] = now
                changed = True
    return found


def loops(start: Block) -> dict[Block, set[Block]]:
    """The head of each loop, with its blocks."""
    order, above = every(start), dominators(start)
    before = predecessors(order)
    found: dict[Block, set[Block]] = {}
    for block in order:
        for head in _edges(block):
            if head in above[block]:
                body = found.setdefault(head, {head})
                work = [block]
                while work:
                    each = work.pop()
                    if each not in body:
                        body.add(each)
                        work += before[each]
    return found


def is_silent(block: Block) -> bool:
    """Whether it raises nothing."""
    return all(inst.op in _NEVER_RAISES for inst in block.insts)


def _drop_cleanups(start: Block) -> None:
    order = every(start)
    gone = {block for block in order if [(inst.op, inst.arg) for inst in block.insts] == _CLEANUP}
    gone |= {  # POP_EXCEPT ends a block
        block for block in order
        if [(inst.op, inst.arg) for inst in block.insts] == _CLEANUP[:2] and len(block.after) == 1
        and [(inst.op, inst.arg) for inst in block.after[0].insts] == _CLEANUP[2:]
    }
    cleared = {inst.argval for block in order for inst in block.insts if inst.op == "LOAD_FAST_AND_CLEAR"}
    gone |= {block for block in order if _only_restores(block, cleared) or _is_of_generator(block)}
    for block in order:
        while block.handler in gone:
            above = block.handler
            assert above is not None
            block.handler, block.depth, block.lasti = above.handler, above.depth, above.lasti


def _only_restores(block: Block, cleared: set[Any]) -> bool:
    """Whether it gives variables back that a comprehension has put aside: in the text that has others."""
    *insts, last = block.insts
    return bool(insts) and last.op == "RERAISE" and all(
        inst.op in ("SWAP", "POP_TOP") or (inst.op == "STORE_FAST" and inst.argval in cleared) for inst in insts
    )


def _is_of_generator(block: Block) -> bool:
    """Whether it makes an error of StopIteration, as every generator does, or ends one that `yield from` asks."""
    first = block.insts[0]
    return first.op == "CLEANUP_THROW" or (
        first.op == "CALL_INTRINSIC_1" and INTRINSICS_1[first.arg] == "INTRINSIC_STOPITERATION_ERROR"
    )


def _enter_loops_at_their_heads(start: Block) -> Block:
    """A continuation begins in the midst of a loop: what is left of that round gets blocks of its own, so that the loop
    is entered where its rounds begin."""
    heads = [block for block in every(start) if block.last is not None and block.last.op == "FOR_ITER"]
    for head in sorted(heads, key=lambda block: block.first):
        inside = set(reached(head.after, exceptions=True))
        if head not in inside or head in loops(start):
            continue
        without = set(reached([start], {head}, exceptions=True))
        first_round = [block for block in every(start) if block in inside and block in without]
        # A clause must not be in both, half of it here and half of it there.
        if not any(block.insts[0].op == "PUSH_EXC_INFO" for block in first_round):
            first_round = [block for block in first_round if head in reached([block], exceptions=True)]
        copies = {block: replace(block, after=list(block.after)) for block in first_round}
        outside = [block for block in reached([start], {*copies, head}, exceptions=True)]
        for block in (*copies.values(), *outside):
            block.after = [copies.get(after, after) for after in block.after]
            block.handler = copies.get(block.handler, block.handler) if block.handler is not None else None
        start = copies.get(start, start)
    return start
