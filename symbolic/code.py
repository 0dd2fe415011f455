"""Code objects as the interpreter reads them: one list of instructions, version noise removed.

Caches, `EXTENDED_ARG`, `NOP`, `PRECALL` and `RESUME` are dropped and super-instructions are split, so a handler sees
one idea at a time. Offsets stay those of `co_code`: a continuation is named by (code, offset).
"""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, TypeVar

from symbolic import versions
from symbolic.passing import namespace_of

T = TypeVar("T")


@dataclass(slots=True)
class Inst:
    """One instruction: name, raw argument, resolved argument, `co_code` offset, user line, index of its jump target.

    `next_offset` is the offset of the first instruction after it (caches skipped)."""

    op: str
    arg: int
    argval: Any
    offset: int
    line: int
    target: int = -1
    next_offset: int = -1

    def __str__(self) -> str:
        return f"{self.op} {self.argval!r}" if self.argval is not None else self.op


@dataclass(frozen=True, slots=True)
class Handler:
    """A row of the exception table: from [start, end) to `target` (all offsets) with `depth` stack items."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass
class Code:
    """A decoded code object; `index` maps an offset to the position of the first instruction at or after it."""

    raw: CodeType
    insts: list[Inst]
    handlers: list[Handler]
    offsets: list[int] = field(repr=False)
    slots: int = 0  # number of argument slots, *args and **kwargs included
    part_of: Code | None = field(default=None, repr=False)  # the whole code, of one that ends earlier

    @property
    def whole(self) -> Code:
        return self.part_of or self

    @functools.cached_property
    def live(self) -> list[frozenset[str]]:
        """Before each instruction: the fast locals that may be read before they are written."""
        return _liveness(self.whole)

    @functools.cached_property
    def positions(self) -> list[tuple[int | None, ...]]:
        """Where the code of each two bytes stands: first and last line, first and last column."""
        return list(self.raw.co_positions())

    def index(self, offset: int) -> int:
        return bisect.bisect_left(self.offsets, offset)

    def handler(self, offset: int) -> Handler | None:
        """The innermost handler that covers `offset` (CPython's table is sorted, ranges do not overlap)."""
        for row in self.handlers:
            if row.start <= offset < row.end:
                return row
        return None


#: super-instruction -> the instructions it is split into
SPLIT = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
#: instructions that say nothing to the interpreter of variables
DROPPED = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME", "COPY_FREE_VARS"})


def once_per_code(make: Callable[[CodeType], T], kept: int) -> Callable[[CodeType], T]:
    """`make`, which answers again what it has answered, for the `kept` code objects that came last. (Those that are
    equal are not the same: their files and lines may differ.)"""
    known: dict[int, tuple[CodeType, T]] = {}  # the code is kept, too: the number stays its own

    def answer(code: CodeType) -> T:
        found = known.get(id(code))
        if found is None:
            found = known[id(code)] = (code, make(code))
            if len(known) > kept:
                del known[next(iter(known))]
        return found[1]

    return answer


def _exception_table(code: CodeType) -> Iterator[Handler]:
    """Rows of `co_exceptiontable` (format: CPython `Objects/exception_handling_notes.txt`)."""
    data = iter(code.co_exceptiontable)

    def varint() -> int:
        byte = next(data)
        value = byte & 63
        while byte & 64:
            byte = next(data)
            value = (value << 6) | (byte & 63)
        return value

    while True:
        try:
            start = varint()
        except StopIteration:
            return
        length, target, depth_lasti = varint(), varint(), varint()
        yield Handler(start * 2, (start + length) * 2, target * 2, depth_lasti >> 1, bool(depth_lasti & 1))


def argument_slots(code: CodeType) -> int:
    """Number of `localsplus` slots that the caller fills: parameters, then `*args`, then `**kwargs`."""
    flags = code.co_flags
    return (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(flags & inspect.CO_VARARGS)
        + bool(flags & inspect.CO_VARKEYWORDS)
    )


def slot_names(code: CodeType) -> tuple[str, ...]:
    """Names of the `localsplus` slots: locals, cells that are no locals, free variables."""
    local = set(code.co_varnames)
    return (*code.co_varnames, *(name for name in code.co_cellvars if name not in local), *code.co_freevars)


def _decode(code: CodeType) -> Code:
    insts: list[Inst] = []
    line = code.co_firstlineno
    for raw in dis.get_instructions(code):
        number = versions.line_of(raw)
        line = number if number is not None else line
        if insts and insts[-1].next_offset < 0:
            for previous in reversed(insts):
                if previous.next_offset >= 0:
                    break
                previous.next_offset = raw.offset
        if raw.opname in DROPPED:
            continue
        if raw.opname in SPLIT:
            first, second = SPLIT[raw.opname]
            assert raw.arg is not None
            names = slot_names(code)
            insts.append(Inst(first, raw.arg >> 4, names[raw.arg >> 4], raw.offset, line))
            insts.append(Inst(second, raw.arg & 15, names[raw.arg & 15], raw.offset, line))
            continue
        insts.append(Inst(raw.opname, raw.arg or 0, raw.argval, raw.offset, line))
    offsets = [inst.offset for inst in insts]
    end = len(code.co_code)
    for inst in insts:
        if inst.next_offset < 0:
            inst.next_offset = end
        if versions.is_jump(inst.op):
            inst.target = bisect.bisect_left(offsets, inst.argval)
    return Code(code, insts, list(_exception_table(code)), offsets, argument_slots(code))


#: Decodes a code object; the result is shared and must not be changed.
decode = once_per_code(_decode, 4096)


#: Names of functions that see the stack of frames, on which compiled code and its continuations stand, or say how high
#: it may be, so that there may be none for the compiler.
_FRAMES = frozenset(
    """_getframe _current_frames currentframe print_stack format_stack extract_stack getouterframes setrecursionlimit
    set_coroutine_origin_tracking_depth settrace setprofile settrace_to_record settrace_to_error set_events
    set_local_events""".split()
)
#: Names of functions that show the instructions of a traceback's frames.
_SHOW_FRAMES = frozenset({"distb", "from_traceback"})
#: Names by which autograd's nodes are found.
_NODES = frozenset({"grad_fn", "get_gradient_edge"})
#: Top-level packages that know nothing of the program: nobody in them looks for the nodes of its tensors.
_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "jit"}


def _looks_at_frames(code: CodeType) -> bool:
    """Whether the code, or a function in it, may look at the stack of frames."""
    return names(code, _FRAMES)


looks_at_frames = once_per_code(_looks_at_frames, 4096)


def _asks_for_frames(code: CodeType) -> bool:
    """Whether the code has a word by which functions of `traceback` and `dis` are asked for frames: where the graph
    breaks before that, tracebacks are handed on without them."""
    words = [each for const in code.co_consts for each in (const if type(const) is tuple else (const,))]
    return "capture_locals" in words or not _SHOW_FRAMES.isdisjoint(code.co_names)


asks_for_frames = once_per_code(_asks_for_frames, 4096)


def looks_at_nodes(code: CodeType, namespace: dict[str, Any], classes: Collection[type] = ()) -> bool:
    """Whether the code, a function in it, or one that it finds by a name, of a global or of a method of `classes`, may
    look at autograd's nodes. (Functions of libraries are not looked into.)"""
    waiting = [(code, namespace)]
    seen: set[CodeType] = set()
    while waiting:
        code, namespace = waiting.pop()
        if code in seen:
            continue
        seen.add(code)
        if names(code, _NODES):
            return True
        waiting += [(inner, namespace) for inner in code.co_consts if isinstance(inner, CodeType)]
        for name in code.co_names:
            held = (namespace_of(base).get(name) for cls in classes for base in cls.__mro__)
            for found in (namespace.get(name), *held):
                if type(found) is FunctionType and not is_library_s(found):
                    waiting.append((found.__code__, found.__globals__))
    return False


def is_library_s(part: FunctionType | type) -> bool:
    """Whether a function or class is Python's, torch's, numpy's or ours, by the module that it names as its own."""
    return str(part.__module__ or "").partition(".")[0] in _LIBRARIES


def names(code: CodeType, wanted: frozenset[str]) -> bool:
    """Whether the code, or a function in it, has one of these names of globals or attributes."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return not wanted.isdisjoint(code.co_names) or any(names(const, wanted) for const in inner)


def successors(code: Code, index: int) -> Iterator[int]:
    """Indices of the instructions that may run after `index`, exception edges left out."""
    inst = code.insts[index]
    if inst.target >= 0:
        yield inst.target
    if inst.op not in versions.NO_FALLTHROUGH and index + 1 < len(code.insts):
        yield index + 1


def written_later(code: Code, index: int) -> frozenset[str]:
    """Names of variables that may be written, or deleted, after the instruction at `index`, in handlers, too."""
    waiting, seen = [index], set()
    while waiting:
        index = waiting.pop()
        handler = code.handler(code.insts[index].offset)
        following = [*successors(code, index), *([] if handler is None else [code.index(handler.target)])]
        waiting += [each for each in following if each not in seen]
        seen.update(following)
    return frozenset(code.insts[index].argval for index in seen if code.insts[index].op in _WRITES)


_WRITES = frozenset({*versions.WRITES_LOCAL, "STORE_DEREF", "DELETE_DEREF"})
#: Builtins that read the locals of the frame that calls them.
_FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec"})


def live_locals(code: Code, offset: int) -> frozenset[str]:
    """Names of fast locals that may be read at or after `offset` before they are written (exception edges included)."""
    index = code.index(offset)
    return code.live[index] if index < len(code.live) else frozenset()


def _liveness(code: Code) -> list[frozenset[str]]:
    """Backward data flow to a fixed point: live_in = uses + (live_out - kills)."""
    count = len(code.insts)
    live: list[frozenset[str]] = [frozenset()] * count
    after = [list(successors(code, i)) for i in range(count)]
    caught = [
        code.index(handler.target) if (handler := code.handler(inst.offset)) else -1 for inst in code.insts
    ]
    everything = frozenset(code.raw.co_varnames)
    changed = True
    while changed:
        changed = False
        for i in range(count - 1, -1, -1):
            inst = code.insts[i]
            out = frozenset(itertools.chain.from_iterable(live[j] for j in after[i]))
            if inst.op in versions.WRITES_LOCAL:
                out = out - {inst.argval}
            if caught[i] >= 0:
                out = out | live[caught[i]]
            if inst.op in versions.READS_LOCAL:
                out = out | {inst.argval}
            elif inst.op == "LOAD_GLOBAL" and inst.argval in _FRAME_READERS:
                out = out | everything
            if out != live[i]:
                live[i] = out
                changed = True
    return live
