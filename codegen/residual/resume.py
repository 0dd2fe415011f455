"""Continuation functions: a frame of the user's program goes on, in a new function, from the middle of its code.

The new function starts with a prologue that puts the value stack back as it was (slots), hides or raises what the entry
asks for, and jumps into the old instructions. Of these it has the ones that can still be reached, with their lines and
their rows of the exception table, so that handlers, tracebacks and bare `raise` work as they stand in the source.

Variables. The old frame has one numbered slot per variable, and so has the new one: while a continuation is put
together, variables are called by their old slot ("0", "1", …), and get their names back at the end. (Names alone are
ambiguous: from 3.12 on a comprehension's variable may share a slot, or only a name, with a cell of its function.)
Parameters in their slots stay what they are. Cells and free variables become free variables. A slot that holds now a
cell, now a plain value, stays a slot, and gets its cell in the prologue; then the free variable is called `name.cell`.
"""

from __future__ import annotations

import bisect
import dis
import enum
import inspect
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from bytecode import CellVar, CompilerFlags, ConcreteBytecode, ConcreteInstr, FreeVar, Instr, Label, TryBegin, TryEnd
from bytecode.instr import DUAL_ARG_OPCODES_SINGLE_OPS

from codegen.residual.emitter import Constant, Emitter
from symbolic import versions
from symbolic.code import once_per_code


class Entry(enum.Enum):
    """How a continuation begins."""

    AFTER = "goes on at an offset"
    RAISE = "raises an exception at an offset"
    CALL = "calls the next inner frame's continuation at an offset, then goes on"
    YIELD = "is a generator that has yielded: it yields once more, then goes on at an offset"


class Slot(enum.Enum):
    """What a continuation puts on its stack."""

    VALUE = "a parameter"
    NULL = "a null pointer"
    EXC = "two values, as PUSH_EXC_INFO leaves them: the outer exc_info, an exception being handled (the parameter)"
    HANDLING = "the first of these two only: the block has its exception out of the way, but it is still handled"


class Unresumable(ValueError):
    """No continuation can be made; the message says why."""


# --- the original code, decoded once ---


class Kind(enum.Enum):
    """What a value on the stack is, as far as it matters."""

    PLAIN = "a value of the program, or null"
    CELL = "a cell that an inlined comprehension put aside"
    LASTI = "where in the code an exception was raised"
    OUTER = "the outer exc_info, kept by PUSH_EXC_INFO"


#: How many values each kind of slot puts on the stack, and what the first of them may stand for.
_MAKES = {
    Slot.VALUE: (1, {Kind.PLAIN, Kind.CELL, Kind.LASTI}),
    Slot.NULL: (1, {Kind.PLAIN}),
    Slot.EXC: (2, {Kind.OUTER}),
    Slot.HANDLING: (1, {Kind.OUTER}),
}


#: A continuation's parameters for the stack are called so, with a number (and a dot, which no user's name has).
_PARAMETER = {Kind.PLAIN: "stack", Kind.CELL: "stack cell", Kind.LASTI: "stack lasti", Kind.OUTER: "stack exception"}
_KIND_OF_PARAMETER = {_PARAMETER[kind]: kind for kind in (Kind.CELL, Kind.LASTI)}


@dataclass(frozen=True, slots=True)
class State:
    """What is known before an instruction: the stack, and the shared slots that hold a cell at the moment."""

    stack: tuple[Kind, ...]
    cells: frozenset[str]


#: A free variable `x.cell` brings the cell of a slot that stays a slot; after the prologue it has done its work.
_CELL = ".cell"


@dataclass(frozen=True, slots=True)
class Slots:
    """The variables of a frame, called by the numbers of their slots: parameters and locals, the cells among and after
    them, the free variables. `names` gives the source's names."""

    own: tuple[str, ...]
    cells: tuple[str, ...]
    free: tuple[str, ...]
    names: dict[str, str]

    @property
    def kept_free(self) -> list[str]:
        """The free variables that a continuation has too."""
        return [slot for slot in self.free if not self.names[slot].endswith(_CELL)]

    @classmethod
    def of(cls, code: CodeType) -> Slots:
        order = [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames)]
        cells = tuple(str(order.index(name)) for name in code.co_cellvars)
        order += code.co_freevars
        slots = tuple(map(str, range(len(order))))
        free = len(order) - len(code.co_freevars)
        return cls(slots[: len(code.co_varnames)], cells, slots[free:], dict(zip(slots, order, strict=True)))


@dataclass
class Original:
    """A code object as the library's instructions.

    `shared` are the cells whose slots stay slots, `rows[i]` is the row of the exception table that covers instruction
    i, `places` gives the index that a label stands before."""

    code: CodeType
    slots: Slots
    shared: frozenset[str]
    insts: list[Instr] = field(default_factory=list)
    rows: list[TryBegin | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    places: dict[Label, int] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """The index after the prologue of CPython's own (cells, free variables, RESUME)."""
        return next(i for i, inst in enumerate(self.insts) if inst.name == "RESUME") + 1

    def index(self, offset: int) -> int:
        index = max(bisect.bisect_left(self.offsets, offset), self.start)
        if index not in self.states:
            raise Unresumable(f"{self.code.co_qualname}: control never gets to offset {offset}")
        return index

    def place(self, label: object) -> int:
        """The index that a label stands before."""
        assert isinstance(label, Label), f"unexpected {label!r}"
        return self.places[label]

    def landing(self, index: int) -> int:
        """Where jumps that stand at an index lead. (The continuation of a continuation has none of its jump: rounds of
        a loop that breaks have equal code.)"""
        while self.insts[index].name == "JUMP_FORWARD":
            index = self.place(self.insts[index].arg)
        return index

    def successors(self, index: int) -> Iterator[int]:
        """Where control goes from an instruction, exceptions left out."""
        inst = self.insts[index]
        if inst.has_jump():
            yield self.place(inst.arg)
        if not inst.is_final():
            yield index + 1

    def reachable(self, roots: Sequence[int], ends: Set[int] = frozenset()) -> list[int]:
        """Indices of the instructions that may run from `roots`, in order; none of `ends`, nor what these lead to."""
        seen: set[int] = set(ends)
        work = list(roots)
        while work:
            index = work.pop()
            if index in seen:
                continue
            seen.add(index)
            work.extend(self.successors(index))
            row = self.rows[index]
            if row is not None:
                work.append(self.place(row.target))
        return sorted(seen - ends)


def needed_closure(code: CodeType) -> tuple[str, ...]:
    """The variables whose cells a continuation of `code` wants as its closure, in this order. The cell of a variable is
    the one in its slot at the moment (inside a comprehension that captures its own variable: the comprehension's)."""
    return (*code.co_cellvars, *(name for name in code.co_freevars if not name.endswith(_CELL)))


def implicit_local(code: CodeType) -> str | None:
    """The first parameter, if a zero-argument `super()` may read it from its slot without naming it: such a local is
    alive although no instruction says so."""
    if "__class__" in code.co_freevars and code.co_argcount:
        return code.co_varnames[0]
    return None


_NOT_FUNCTIONS = {
    inspect.CO_COROUTINE: "a coroutine",
    inspect.CO_ASYNC_GENERATOR: "an asynchronous generator",
    inspect.CO_ITERABLE_COROUTINE: "a coroutine",
}


#: On the slot of a cell these are signs of an inlined comprehension. (LOAD_FAST is none, 3.13 pushes cells by it.)
_CHANGES_SLOT = frozenset({"LOAD_FAST_AND_CLEAR", "STORE_FAST", "DELETE_FAST"})


def _decode(code: CodeType) -> Original:
    for flag, what in _NOT_FUNCTIONS.items():
        if code.co_flags & flag:
            raise Unresumable(f"{code.co_qualname} is {what}: its frame outlives the call")
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise Unresumable(f"{code.co_qualname} is a module or class body: its locals are a dict")

    slots = Slots.of(code)
    concrete = ConcreteBytecode.from_code(code)
    concrete.varnames, concrete.cellvars, concrete.freevars = list(slots.own), list(slots.cells), list(slots.free)
    concrete.consts = [Constant(value) for value in code.co_consts]
    items = concrete.to_bytecode(conserve_exception_block_stackdepth=True)
    moved = {_slot(item) for item in items if isinstance(item, Instr) and item.name in _CHANGES_SLOT}
    if implicit_local(code):
        moved.add("0")  # super() accepts a cell in the first slot, but there it must be
    result = Original(code, slots, frozenset())
    offsets = _offsets(concrete)
    row: TryBegin | None = None
    for item in items:
        if isinstance(item, Label):
            result.places[item] = len(result.insts)
        elif isinstance(item, (TryBegin, TryEnd)):
            row = item if isinstance(item, TryBegin) else None
        else:
            assert isinstance(item, Instr), f"unexpected {item!r}"
            offset = next(offsets)
            for inst in _split(item):
                result.insts.append(inst)
                result.rows.append(row)
                result.offsets.append(offset)
    result.shared = frozenset(slot for slot in slots.cells if slot in moved or _may_be_empty(result, slot))
    for inst in result.insts:
        _rename(inst, {*slots.cells, *slots.free} - result.shared)
    result.states = _states(result)
    return result


def _may_be_empty(source: Original, slot: str) -> bool:
    """Whether the frame may look for a value in a cell of its own where there is none: what it is told then is not what
    is said of free variables."""

    def does(index: int, *names: str) -> bool:
        inst = source.insts[index]
        return inst.name in names and _slot(inst) == slot

    indices = range(len(source.insts))
    starts = [index + 1 for index in indices if does(index, "DELETE_DEREF") or _empties(source.insts[index])]
    code, stars = source.code, (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    if int(slot) >= code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & star) for star in stars):
        starts.append(0)
    ends = {index for index in indices if does(index, "STORE_DEREF")}
    return any(does(index, "LOAD_DEREF", "DELETE_DEREF") for index in source.reachable(starts, ends))


def _empties(inst: Instr) -> bool:
    """Whether it deletes what is in a cell, which may be one of the frame's."""
    return inst.name == "DELETE_ATTR" and inst.arg == "cell_contents"


def _offsets(concrete: ConcreteBytecode) -> Iterator[int]:
    """The offset of every instruction, behind its EXTENDED_ARGs."""
    end = 0
    for inst in concrete:
        assert isinstance(inst, ConcreteInstr), f"unexpected {inst!r}"
        end += inst.size
        if inst.name != "CACHE":
            yield end - 2


def _split(inst: Instr) -> Iterator[Instr]:
    """Super-instructions apart: with slots renumbered their two numbers may need more than 4 bits."""
    pair = DUAL_ARG_OPCODES_SINGLE_OPS.get(inst.opcode)
    if pair is None:
        yield inst
    else:
        variables: Any = inst.arg
        for opname, variable in zip(pair, variables, strict=True):
            yield Instr(opname, variable, location=inst.location)


def _slot(inst: Instr) -> str:
    arg: Any = inst.arg
    return arg if isinstance(arg, str) else arg.name


def _rename(inst: Instr, free: Set[str]) -> None:
    """Slots in `free` become free variables, whatever they are accessed by (3.13 pushes a cell by LOAD_FAST)."""
    takes_cell = inst.opcode in dis.hasfree
    if takes_cell or inst.opcode in dis.haslocal:
        slot = _slot(inst)
        inst.arg = FreeVar(slot) if slot in free else CellVar(slot) if takes_cell else slot


#: A code object decoded; the result is shared between its continuations. (It is large.)
original = once_per_code(_decode, 256)


# --- the stack and the cells at every instruction ---

#: Instructions that never raise. Some rows begin or end a little early, in the midst of a change of what lies where.
_SILENT = frozenset(
    """SWAP COPY STORE_FAST LOAD_FAST_AND_CLEAR MAKE_CELL PUSH_EXC_INFO POP_EXCEPT POP_TOP PUSH_NULL LOAD_CONST NOP
    JUMP_FORWARD""".split()
)


def _states(source: Original) -> dict[int, State]:
    """State before every instruction that control can reach, by abstract execution from the start."""
    states = {0: State((), frozenset())}
    work = [0]

    def reach(index: int, state: State) -> None:
        known = states.setdefault(index, state)
        if known is state:
            work.append(index)
        elif known != state:
            raise Unresumable(f"{source.code.co_qualname}: offset {source.offsets[index]} is reached in two states")

    while work:
        index = work.pop()
        inst, row, state = source.insts[index], source.rows[index], states[index]
        if inst.has_jump():
            reach(source.place(inst.arg), _after(source, inst, state, jump=True))
        if not inst.is_final():
            reach(index + 1, _after(source, inst, state, jump=False))
        if row is not None and inst.name not in _SILENT:
            reach(source.place(row.target), _caught(row, state))
    return states


def _caught(row: TryBegin, state: State) -> State:
    """What the handler of `row` finds when an instruction raises that `state` stands before."""
    raised = (Kind.LASTI, Kind.PLAIN) if row.push_lasti else (Kind.PLAIN,)
    return State(state.stack[: row.stack_depth] + raised, state.cells)


def _after(source: Original, inst: Instr, state: State, jump: bool) -> State:
    stack, cells = state.stack, state.cells
    arg: Any = inst.arg
    match inst.name:
        case "SWAP":
            order = list(stack)
            order[-1], order[-arg] = order[-arg], order[-1]
            return State(tuple(order), cells)
        case "COPY":
            return State((*stack, stack[-arg]), cells)
        case "PUSH_EXC_INFO":
            return State((*stack[:-1], Kind.OUTER, Kind.PLAIN), cells)
        case "LOAD_FAST_AND_CLEAR":
            return State((*stack, _loaded(source, arg, cells)), cells - {arg})
        case "LOAD_FAST" | "LOAD_FAST_CHECK" | "LOAD_CLOSURE":
            return State((*stack, _loaded(source, arg, cells)), cells)
        case "STORE_FAST" if arg in source.shared:
            return State(stack[:-1], cells | {arg} if stack[-1] is Kind.CELL else cells - {arg})
        case "MAKE_CELL" if isinstance(arg, CellVar):
            return State(stack, cells | {arg.name})
        case "WITH_EXCEPT_START":  # looks at what lies below, and leaves it
            return State((*stack, Kind.PLAIN), cells)
    pop, push = inst.pre_and_post_stack_effect(jump)  # MAP_ADD "pushes" less than nothing
    depth = len(stack) + pop + push
    kept = stack[: min(len(stack) + pop, depth)]
    return State(kept + (Kind.PLAIN,) * (depth - len(kept)), cells)


def _loaded(source: Original, arg: str | CellVar | FreeVar, cells: frozenset[str]) -> Kind:
    """The kind of what a slot holds. A continuation's parameters say in their names what they are."""
    if not isinstance(arg, str) or arg in cells:
        return Kind.CELL
    return _KIND_OF_PARAMETER.get(source.slots.names[arg].partition(".")[0], Kind.PLAIN)


# --- continuations ---


_CLEARED_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | getattr(inspect, "CO_HAS_DOCSTRING", 0)


def _cell_of(slot: str) -> str:
    """What the free variable is called that brings the cell of a slot which stays a slot."""
    return slot + _CELL


def _raise_again() -> FunctionType:
    """A function that raises its argument. It leaves no trace of itself in the traceback, and the context as it is."""
    e = Emitter("raise_again", "raise_again", __file__, 1, ["exception"])
    e.load("exception")
    e.reraise()
    return FunctionType(e.code(), {})


raise_again = _raise_again()


class _Continuation(Emitter):
    """The emitter of one continuation: `variables` are the parameters' unique names in the order of the call."""

    #: As after a yield: pending signals wait for the next call or loop, where the user's handlers see what they raise.
    RESUME = 2

    def __init__(self, source: Original, state: State, variables: Sequence[str], name: str | None) -> None:
        code, shared = source.code, source.shared
        self.source, self.state = source, state
        self.variables = tuple(variables)
        order = list(variables)
        if implicit_local(code) and order[:1] != ["0"]:  # super() looks into the first slot
            order = ["0", *(variable for variable in order if variable != "0")][: len(order)]
        cells = [_cell_of(slot) if slot in shared else slot for slot in source.slots.cells]
        self.names = source.slots.names | {_cell_of(slot): _cell_of(source.slots.names[slot]) for slot in shared}
        qualname = code.co_qualname if name is None else code.co_qualname.removesuffix(code.co_name) + name
        place = code.co_filename, code.co_firstlineno
        super().__init__(name or code.co_name, qualname, *place, order, [*cells, *source.slots.kept_free])
        self.first_traceable = len(self._code)  # index of the next instruction
        self._code.flags = CompilerFlags(code.co_flags & ~_CLEARED_FLAGS)
        if code.co_flags & inspect.CO_GENERATOR:
            self._code[-1:-1] = [Instr(name, location=self._location) for name in ("RETURN_GENERATOR", "POP_TOP")]

    def locate(self, inst: Instr) -> None:
        """What follows is attributed to the place of an original instruction."""
        assert inst.location is not None, f"{inst} has no place"
        self._location, self.line = inst.location, inst.location.lineno

    def variables_in_place(self, kept: Sequence[int]) -> None:
        """Arguments to their slots, cells to the slots that hold cells at the moment."""
        if self.params != self.variables:
            for variable in self.params:
                self.load(variable)
            for variable in reversed(self.variables):
                self.store(variable)
            if "0" not in self.variables:
                self.delete("0")
        used = {_slot(inst) for index in kept if isinstance((inst := self.source.insts[index]).arg, (str, CellVar))}
        if implicit_local(self.source.code):
            used.add("0")
        self._code.cellvars = [slot for slot in self.source.slots.cells if slot in used & self.source.shared]
        for slot in self._code.cellvars:  # MAKE_CELL also tells CPython's `locals()` what the slot may hold
            if slot in self.state.cells:
                self.op("MAKE_CELL", CellVar(slot))
                self.load_cell(_cell_of(slot))
            else:
                self.op("LOAD_FAST_AND_CLEAR", slot)
                self.op("MAKE_CELL", CellVar(slot))
            self.store(slot)
            # The free variable has done its work: a new, empty cell in its place keeps it out of `locals()`.
            self.op("MAKE_CELL", FreeVar(_cell_of(slot)))
            self.op("DELETE_DEREF", FreeVar(_cell_of(slot)))

    def push(self, slot: Slot, value: str) -> None:
        """Rebuilds one slot of the stack, from the parameter `value`."""
        if slot is Slot.NULL:
            self.op("PUSH_NULL")
        elif slot is Slot.VALUE:
            if value.startswith(_PARAMETER[Kind.LASTI]):  # of the old code, where nobody but a tracer would look it up
                self.const(self.first_traceable)
                self.store(value)
            self.take(value)
        else:
            self.handle(value)
            if slot is Slot.HANDLING:
                self.pop()

    def handle(self, value: str) -> None:
        """Makes an exception the one being handled."""
        self.take(value)
        self.begin_handling()

    @contextmanager
    def covered(self, index: int) -> Iterator[None]:
        """What is written meanwhile stands under the handler of instruction `index`."""
        row = self.source.rows[index]
        if row is not None:
            assert isinstance(row.target, Label)
            self.begin_try(row.target, row.stack_depth, row.push_lasti)
        yield
        if row is not None:
            self.end_try()

    def call_with(self, callee: object, values: Sequence[str]) -> None:
        self.begin_call()
        self.const(callee)
        self.end_callable()
        for value in values:
            self.take(value)
        self.call(len(values))

    def yield_again(self, index: int) -> None:
        """Yields None as instruction `index` would, under its handler, and takes what is sent."""
        self.const(None)
        for at in (index, index + 1):  # with the RESUME behind, which says to whom `throw` is handed on
            with self.covered(at):
                self.op(self.source.insts[at].name, self.source.insts[at].arg)

    def body(self, kept: Sequence[int], entry: int | None, label: Label) -> None:
        """The original instructions that can still be reached; `label` stands at `entry`."""
        labels: dict[int, list[Label]] = {index: [] for index in kept}
        if entry is not None:
            labels[entry].append(label)
        for place, index in self.source.places.items():
            if index in labels:
                labels[index].append(place)
        row: TryBegin | None = None
        begin: TryBegin | None = None
        here = set(kept)
        for index in kept:
            if self.source.rows[index] is not row:
                if begin is not None:
                    self._code.append(TryEnd(begin))
                row = self.source.rows[index]
                begin = None if row is None else row.copy()
                if begin is not None:
                    self._code.append(begin)
            if begin is not None and index - 1 not in here and versions.RAISED_BEFORE_CALL:
                self._code.append(Instr("NOP", location=self.source.insts[index].location))
            self._code.extend(labels[index])
            self._code.append(self.source.insts[index].copy())
        if begin is not None:
            self._code.append(TryEnd(begin))

    def code(self) -> CodeType:
        """The stack of the old instructions was checked by the compiler, and is as high as it was."""
        return self._assemble(max(self._highest, self.source.code.co_stacksize), self.names)


def resume_code(
    code: CodeType,
    *,
    entry: Entry,
    locals: Sequence[str],
    stack: Sequence[Slot],
    offset: int,
    resume_at: int | None = None,
    nested: object = None,
    nested_args: int = 0,
    replace_result: bool = False,
    drop_result: bool = False,
    name: str | None = None,
) -> CodeType:
    """The code of a function that goes on with a frame of `code`; its closure is `needed_closure(code)`.

    Its parameters, all positional: one per name in `locals` (every other local is unbound), one per slot in `stack`
    (bottom first, without NULL), for `Entry.RAISE` the exception, with `replace_result` the value that takes the place
    of the inner frame's result, `nested_args` values handed on to `nested`.

    Locals that may still be read must be handed in: those alive where the frame goes on, those alive in the handler of
    the instruction at `offset` (RAISE, CALL), `implicit_local(code)`, and all of them for `locals()` and its like.

    AFTER: goes on at `offset` with `stack`. RAISE: the instruction at `offset` has raised. CALL: the instruction at
    `offset` is done by calling what `nested` answers; `stack` is what lies below its operands, its result is pushed (or
    dropped) and the function goes on at `resume_at`, if not given at the next instruction. A cell that an inlined
    comprehension put aside on the stack is an ordinary VALUE: the cell itself. YIELD: the instruction before `offset`
    yielded and left `stack`; what the function makes is the generator, to be moved to that point by one `next`."""
    source = original(code)
    if bool(code.co_flags & inspect.CO_GENERATOR) is not (entry is Entry.YIELD):
        raise Unresumable(f"{code.co_qualname} is a generator: its frame outlives the call")
    at = source.index(offset)
    state = source.states[at]
    kinds, depth = _kinds(source, state, stack)
    pushed = [f"{_PARAMETER[kind]}.{i}" for i, kind in enumerate(kinds)]
    values = [value for slot, value in zip(stack, pushed, strict=True) if slot is not Slot.NULL]
    raised = ["raised.0"] if entry is Entry.RAISE else []
    replacement = ["result.0"] if replace_result else []
    handed_on = _handed_on(nested, nested_args)
    row = None if entry is Entry.AFTER else source.rows[at]
    if entry is Entry.YIELD:
        row = None
        around = [source.rows[at - 1], source.rows[at]]
        handlers = [source.place(each.target) for each in around if each is not None]
    else:
        handlers = [] if row is None else [source.place(row.target)]
    if row is not None and _caught(row, state) != source.states.get(*handlers):
        raise Unresumable(f"{code.co_qualname}: the instruction at offset {offset} can't raise")

    if entry is Entry.RAISE:
        start, wanted = None, max(depth, 0 if row is None else row.stack_depth)
    elif entry is Entry.AFTER:
        start, wanted = at, len(state.stack)
    elif entry is Entry.YIELD:
        start, wanted = at + 1, len(state.stack) - 1
    else:
        start = at + 1 if resume_at is None else source.index(resume_at)
        wanted = len(source.states[start].stack) - (not drop_result)
    if depth != wanted:
        raise Unresumable(f"{code.co_qualname} at offset {offset}: a stack of {depth} values instead of {wanted}")

    if start is not None and entry is not Entry.YIELD:
        start = source.landing(start)
    kept = source.reachable(handlers if start is None else [*handlers, start])
    variables = [*(_local(source, state, local) for local in locals), *values, *raised, *replacement, *handed_on]
    if len(set(variables)) < len(variables):
        raise Unresumable(f"{code.co_qualname} at offset {offset}: two arguments of one name")
    e = _Continuation(source, state, variables, name)
    _check_super(e, kept)
    e.locate(source.insts[at - 1 if entry is Entry.YIELD else at])
    e.variables_in_place(kept)
    for slot, value in zip(stack, pushed, strict=True):
        e.push(slot, value)
    label = e.label()
    if entry is Entry.RAISE:
        with e.covered(at):
            e.call_with(raise_again, raised)
        e.return_value()  # never: the call raises
    else:
        if entry is Entry.CALL:
            with e.covered(at):
                e.begin_call()
                e.call_with(nested, handed_on)  # which has the values alone then
                e.end_callable()
                e.call(0)
            if replace_result or drop_result:
                e.pop()
            if replace_result:
                e.take(*replacement)
        elif entry is Entry.YIELD:
            e.yield_again(at - 1)
        e.jump(label)
    e.body(kept, start, label)
    return e.code()


def _handed_on(nested: object, count: int) -> list[str]:
    """What the parameters for `nested` are called: those of another continuation end in the names that it has for
    them, behind the one for its closure."""
    code = getattr(nested, "code", None)
    names = ["", *(f".{name}" for name in code.co_varnames)] if isinstance(code, CodeType) else [""] * count
    return [f"nested.{i}{names[i]}" for i in range(count)]


def _kinds(source: Original, state: State, stack: Sequence[Slot]) -> tuple[list[Kind], int]:
    """The kind of each slot, and how many values they make. What the interpreter takes for granted must be there."""
    kinds: list[Kind] = []
    depth = 0
    for slot in stack:
        kind = state.stack[depth] if depth < len(state.stack) else Kind.PLAIN
        makes, allowed = _MAKES[slot]
        if kind not in allowed:
            raise Unresumable(f"{source.code.co_qualname}: {slot} at depth {depth} of the stack, where {kind} belongs")
        kinds.append(kind)
        depth += makes
    return kinds, depth


def _local(source: Original, state: State, name: str) -> str:
    """The slot of a local that is a parameter of the continuation."""
    code = source.code
    if name in code.co_varnames:
        slot = str(code.co_varnames.index(name))
        if slot not in source.slots.cells or (slot in source.shared and slot not in state.cells):
            return slot
    what = "a cell" if name in needed_closure(code) else "unknown"
    raise Unresumable(f"{code.co_qualname}: {name} is not a local here but {what}")


def _check_super(e: _Continuation, kept: Sequence[int]) -> None:
    """Zero-argument `super()` reads the first parameter without a word: it must be there."""
    code, shared = e.source.code, e.source.shared
    args = [(inst.name, inst.arg) for inst in (e.source.insts[index] for index in kept)]
    loads = sum(name == "LOAD_GLOBAL" and arg in ((False, "super"), (True, "super")) for name, arg in args)
    explicit = sum(name == "LOAD_SUPER_ATTR" for name, _ in args)
    if "__class__" in code.co_freevars and loads > explicit:
        first = implicit_local(code)
        if first is None or not e.params or not ("0" in shared or "0" in e.variables):
            raise Unresumable(f"{code.co_qualname}: super() needs the first parameter, {first} is not handed in")
