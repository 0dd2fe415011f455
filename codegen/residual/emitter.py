"""A writer of bytecode that reads the same on every CPython: the caller says what, the emitter knows which opcodes.

The emitter follows the depth of the value stack as it writes. A jump to a label from two different depths, a pop from
an empty stack or a body that runs off its end fail here, with the place, and not later in the interpreter.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal

from bytecode import (
    UNSET,
    BinaryOp,
    Bytecode,
    Compare,
    CompilerFlags,
    ConcreteBytecode,
    ConcreteInstr,
    FreeVar,
    Instr,
    Label,
    TryBegin,
    TryEnd,
)
from bytecode.instr import InstrLocation, Intrinsic1Op

from symbolic import versions

Kind = Literal["tuple", "list", "set", "map", "slice", "string"]

_COMPARE = {"<": Compare.LT, "<=": Compare.LE, "==": Compare.EQ, "!=": Compare.NE, ">": Compare.GT, ">=": Compare.GE}
_OPPOSITE = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}


@dataclass(eq=False, slots=True)
class Constant:
    """Stands for a constant inside the library, which would merge constants of equal marshal text (two empty lists,
    two arrays of equal bytes) and would ask objects for their `__class__`. `assemble` puts the real one back."""

    value: Any


@dataclass(frozen=True, slots=True)
class Region:
    """An open try region: where its handler is, how deep the stack is cut for it, whether the offset is pushed."""

    handler: Label
    depth: int
    lasti: bool


def assemble(bytecode: Bytecode, stacksize: int, names: Mapping[str, str]) -> CodeType:
    """The finished code object: explicit exception depths are kept, and so is the identity of every constant.

    `names` gives the final names of variables that were called something unique while the code was put together."""
    concrete = bytecode.to_concrete_bytecode(compute_exception_stack_depths=False)
    concrete.consts = [item.value if type(item) is Constant else item for item in concrete.consts]
    _cover_extended_args(concrete)
    concrete.__class__ = _FarColumns
    for variables in (concrete.varnames, concrete.cellvars, concrete.freevars):
        variables[:] = [names.get(name, name) for name in variables]
    return concrete.to_code(stacksize=stacksize, compute_exception_stack_depths=False)


class _FarColumns(ConcreteBytecode):
    """The library writes columns from 128 on as they are where a line follows the one before: to the interpreter such
    a byte begins another entry, and lines are wrong from there on."""

    def _pack_location(self, buf: bytearray, size: int, lineno: int, location: Any) -> None:
        begin = len(buf)
        super()._pack_location(buf, size, lineno, location)
        if max(buf[begin + 1 :], default=0) >= 128:
            first, last = (self._encode_location_varint(n + 1) for n in (location.col_offset, location.end_col_offset))
            lines = self._encode_location_svarint(location.lineno - lineno)
            buf[begin:] = bytes((self._pack_location_header(14, size), *lines, 0, *first, *last))


def _cover_extended_args(concrete: ConcreteBytecode) -> None:
    """The library lets a row of the exception table begin behind an instruction's EXTENDED_ARGs, and then doesn't find
    the row's beginning when it reads such code."""
    begins: dict[int, int] = {}
    end = 0
    for inst in concrete:
        assert isinstance(inst, ConcreteInstr), f"unexpected {inst!r}"
        begin, end = end, end + inst.size // 2
        begins[end - 1] = begin
    for row in concrete.exception_table:
        row.start_offset = begins[row.start_offset]


def _survives(value: Any) -> bool:
    """Whether `value` is still the same object in `co_consts`. The code constructor interns strings that look like
    names, inside tuples (in place!) and frozensets too: an equal string which is not the interned one is replaced."""
    kind = type(value)
    if kind is str:
        looks_like_name = value.isascii() and value.replace("_", "a").isalnum()
        return not looks_like_name or sys.intern(value) is value
    if kind is tuple or kind is frozenset:
        return all(map(_survives, value))
    return True


class Emitter:
    """Builds one code object with plain positional parameters.

    `line` is the user's line that the next instructions are attributed to; `depth` is the number of values on the
    stack, None where control can't arrive (after a jump, a return or a raise, until the next `mark`)."""

    #: RESUME's argument: a function's start.
    RESUME = 0

    def __init__(
        self,
        name: str,
        qualname: str,
        filename: str,
        firstlineno: int,
        params: Sequence[str],
        freevars: Sequence[str] = (),
    ) -> None:
        self.params = tuple(params)
        self.line: int | None = firstlineno
        self.depth: int | None = 0
        self._highest = 0
        self._code = Bytecode()
        self._code.name, self._code.qualname, self._code.filename = name, qualname, filename
        self._code.first_lineno = firstlineno
        self._code.flags = CompilerFlags(inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS)
        self._code.argcount = len(self.params)
        self._code.argnames = list(self.params)
        self._code.docstring = None  # co_consts[0], or a string constant would become the function's `__doc__`
        self._constants: dict[int, Constant] = {}
        self._names = set(self.params)
        self._next: dict[str, int] = {}  # prefix of fresh names -> the number to try first
        self._depths: dict[Label, int] = {}
        self._marked: set[Label] = set()
        self._regions: list[Region] = []
        self.note: object = ""  # what the next instructions are for: text, or an effect
        self.notes: list[object] = []
        self._location = InstrLocation(firstlineno, None, None, None)
        self._code.freevars = list(freevars)
        if freevars:
            self.op("COPY_FREE_VARS", len(freevars))
        self.op("RESUME", self.RESUME)

    # --- the two ways in: an instruction, a label ---

    def place(self, positions: tuple[int | None, ...]) -> None:
        """The next instructions on `line` stand there: (line, last line, column, column after the end)."""
        line, last, column, end = positions
        if None in positions or line != self.line or (line, column) > (last, end):
            return  # which trees made by hand may say
        self._location = InstrLocation(line, last, column, end)

    def op(self, opname: str, arg: Any = UNSET) -> None:
        """Appends one instruction, under the library's convention for its argument."""
        assert self.depth is not None, f"{opname} on line {self.line} can't be reached"
        if self._location.lineno != self.line:
            self._location = InstrLocation(self.line, None, None, None)
        inst = Instr(opname, arg, location=self._location)
        needed = -inst.pre_and_post_stack_effect(jump=False)[0]
        assert needed <= self.depth, f"{opname} on line {self.line} needs {needed} values, the stack holds {self.depth}"
        if inst.has_jump():
            self._reach(arg, self.depth + inst.stack_effect(jump=True))
        self._code.append(inst)
        self.notes.append(self.note)
        self._set_depth(None if inst.is_final() else self.depth + inst.stack_effect(jump=False))

    def label(self) -> Label:
        return Label()

    def mark(self, label: Label) -> None:
        """The place that jumps to `label` arrive at. A label nobody jumped to yet takes the depth of this place."""
        assert label not in self._marked, f"label marked twice on line {self.line}"
        if self.depth is not None:
            self._reach(label, self.depth)
        assert label in self._depths, f"a label on line {self.line} is reached from nowhere"
        self._set_depth(self._depths[label])
        self._marked.add(label)
        self._code.append(label)

    def _reach(self, label: Label, depth: int) -> None:
        known = self._depths.setdefault(label, depth)
        assert known == depth, f"line {self.line}: a label is reached with {depth} values and with {known}"
        self._highest = max(self._highest, depth)

    def _set_depth(self, depth: int | None) -> None:
        self.depth = depth
        self._highest = max(self._highest, depth or 0)

    # --- constants and names ---

    def const(self, value: Any) -> None:
        """Pushes `value`, exactly this object, whatever it is. (Code objects are invisible to the garbage collector:
        a constant that refers back to the code is never freed.)"""
        if _survives(value):
            self.op("LOAD_CONST", self._constant(value))
        else:
            self.op("LOAD_CONST", Constant([value]))
            self.unpack(1)

    def _constant(self, value: Any) -> Constant:
        return self._constants.setdefault(id(value), Constant(value))

    def fresh(self, prefix: str) -> str:
        """A new local name; its dot keeps it apart from every name a user can write."""
        number = self._next.get(prefix, 0)
        while (name := f"{prefix}.{number}") in self._names:
            number += 1
        self._next[prefix] = number + 1
        self._names.add(name)
        return name

    def own_names(self) -> set[str]:
        """Of locals that are no parameters."""
        return self._names.difference(self.params)

    def load(self, name: str) -> None:
        self.op("LOAD_FAST", name)

    def store(self, name: str) -> None:
        self._names.add(name)
        self.op("STORE_FAST", name)

    def delete(self, name: str) -> None:
        self.op("DELETE_FAST", name)

    def take(self, name: str) -> None:
        """Moves a local to the stack: the frame does not keep the value alive."""
        self.load(name)
        self.delete(name)

    def load_deref(self, name: str) -> None:
        """The content of a free variable's cell."""
        self.op("LOAD_DEREF", FreeVar(name))

    def load_cell(self, name: str) -> None:
        """The cell of a free variable."""
        self.op(versions.LOAD_CLOSURE, FreeVar(name))

    def load_global(self, name: str) -> None:
        self.op("LOAD_GLOBAL", (False, name))

    def store_global(self, name: str) -> None:
        self.op("STORE_GLOBAL", name)

    def delete_global(self, name: str) -> None:
        self.op("DELETE_GLOBAL", name)

    def attr(self, name: str) -> None:
        self.op("LOAD_ATTR", (False, name) if versions.PY312 else name)

    def store_attr(self, name: str) -> None:
        """value, object -> nothing"""
        self.op("STORE_ATTR", name)

    def delete_attr(self, name: str) -> None:
        self.op("DELETE_ATTR", name)

    def subscr(self) -> None:
        """container, key -> item"""
        self.op("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """value, container, key -> nothing"""
        self.op("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        """container, key -> nothing"""
        self.op("DELETE_SUBSCR")

    # --- calls: begin_call, push the callable, end_callable, push the arguments, call ---

    def begin_call(self) -> None:
        if not versions.CALLABLE_FIRST:
            self.op("PUSH_NULL")

    def end_callable(self) -> None:
        if versions.CALLABLE_FIRST:
            self.op("PUSH_NULL")

    def method(self, name: str) -> None:
        """object -> the pair that begin_call … end_callable would leave for `object.name`, without a bound method."""
        if versions.PY312:
            self.op("LOAD_ATTR", (True, name))
        else:
            self.op("LOAD_METHOD", name)

    def call(self, nargs: int, kwnames: Sequence[str] = ()) -> None:
        """Calls with the `nargs` topmost values, of which the last ones are named by `kwnames`."""
        if kwnames and versions.PY313:
            self.const(tuple(map(sys.intern, kwnames)))
            self.op("CALL_KW", nargs)
            return
        if kwnames:
            self.op("KW_NAMES", Constant(tuple(kwnames)))
        if not versions.PY312:
            self.op("PRECALL", nargs)
        self.op("CALL", nargs)

    def call_ex(self, has_kwargs: bool = False) -> None:
        """Calls with a tuple, or with a tuple and a dict."""
        self.op("CALL_FUNCTION_EX", int(has_kwargs))

    # --- the stack ---

    def pop(self) -> None:
        self.op("POP_TOP")

    def dup(self) -> None:
        self.copy(1)

    def copy(self, i: int) -> None:
        """Pushes the i-th value from the top again (1 is the top)."""
        self.op("COPY", i)

    def swap(self, i: int) -> None:
        """Exchanges the top with the i-th value from the top (2 is the next)."""
        self.op("SWAP", i)

    def rot_two(self) -> None:
        self.swap(2)

    def build(self, kind: Kind, n: int) -> None:
        """A new container of the n topmost values (n pairs for a map, 2 or 3 bounds for a slice, str for a string)."""
        self.op(f"BUILD_{kind.upper()}", n)

    def unpack(self, n: int) -> None:
        """Replaces a sequence by its n items, the first on top."""
        self.op("UNPACK_SEQUENCE", n)

    # --- operators ---

    def binary(self, arg: int) -> None:
        """`arg` is BINARY_OP's own number; in-place operators have numbers of their own."""
        self.op("BINARY_OP", BinaryOp(arg))

    def unary(self, opname: str) -> None:
        """UNARY_NOT, UNARY_NEGATIVE, UNARY_INVERT or UNARY_POSITIVE, whatever this version calls it."""
        if opname == "UNARY_NOT" and versions.PY313:
            self.to_bool()  # 3.13's UNARY_NOT takes nothing but a bool, unchecked
        if opname == "UNARY_POSITIVE" and versions.PY312:
            self.op("CALL_INTRINSIC_1", Intrinsic1Op.INTRINSIC_UNARY_POSITIVE)
        else:
            self.op(opname)

    def to_bool(self) -> None:
        """The truth of the top: True or False."""
        if versions.PY313:
            if not self._is_bool():
                self.op("TO_BOOL")
        else:
            self.op("UNARY_NOT")
            self.op("UNARY_NOT")

    def compare(self, op_text: str, to_bool: bool = False) -> None:
        """`op_text` as in the source. `to_bool`: the truth of the result instead of the result."""
        if to_bool and versions.PY313:
            self.op("COMPARE_OP", Compare[_COMPARE[op_text].name + "_CAST"])
            return
        self.op("COMPARE_OP", _COMPARE[op_text])
        if to_bool:
            self.to_bool()

    def is_op(self, invert: bool = False) -> None:
        self.op("IS_OP", int(invert))

    def contains_op(self, invert: bool = False) -> None:
        """item, container -> bool"""
        self.op("CONTAINS_OP", int(invert))

    def _is_bool(self) -> bool:
        """Whether the instruction just written left a bool. (A label in between: unknown.)"""
        last = self._code[-1]
        if not isinstance(last, Instr):
            return False
        casts = isinstance(last.arg, Compare) and last.arg >= len(_COMPARE)
        return last.name in versions.GIVES_BOOL or casts

    # --- control ---

    def return_value(self) -> None:
        self.op("RETURN_VALUE")

    def raise_(self, n: int) -> None:
        """0: the exception being handled again; 1: the top; 2: exception and cause."""
        self.op("RAISE_VARARGS", n)

    def reraise(self, keep: int = 0) -> None:
        """Goes on with raising the top as if it had not been caught; 1: the offset to blame lies below it."""
        self.op("RERAISE", keep)

    def jump(self, label: Label) -> None:
        self.op("JUMP_BACKWARD" if label in self._marked else "JUMP_FORWARD", label)

    def jump_if_true(self, label: Label) -> None:
        self._jump_if("TRUE", label)

    def jump_if_false(self, label: Label) -> None:
        self._jump_if("FALSE", label)

    def jump_if_none(self, label: Label) -> None:
        self._jump_if("NONE", label)

    def jump_if_not_none(self, label: Label) -> None:
        self._jump_if("NOT_NONE", label)

    def _jump_if(self, condition: str, label: Label) -> None:
        if label in self._marked:  # conditional jumps lead forward only (from 3.12 on)
            over = self.label()
            self._jump_if(_OPPOSITE[condition], over)
            self.jump(label)
            self.mark(over)
            return
        if versions.PY313 and condition in ("TRUE", "FALSE"):
            self.to_bool()
        self.op(versions.JUMP_IF + condition, label)

    def get_iter(self) -> None:
        self.op("GET_ITER")

    def for_iter(self, label: Label) -> None:
        """Pushes the next item; an exhausted iterator leads to `label`, which must be placed by `end_for`."""
        self.op("FOR_ITER", label)

    def end_for(self, label: Label) -> None:
        """The place where a loop's iterator is exhausted, and gone from the stack."""
        self.mark(label)
        for opname in versions.END_OF_FOR:
            self.op(opname)

    # --- exceptions ---

    def begin_try(self, handler: Label, depth: int | None = None, lasti: bool = False) -> None:
        """Up to the matching `end_try` exceptions lead to `handler`, the stack cut to `depth` values (None: as many as
        there are now), then the offset if `lasti`, then the exception. Regions nest."""
        if depth is None:
            assert self.depth is not None, f"a try region on line {self.line} can't be reached"
            depth = self.depth
        self._reach(handler, depth + lasti + 1)
        self._close_row()
        self._regions.append(Region(handler, depth, lasti))
        self._open_row()

    def end_try(self) -> None:
        self._close_row()
        self._regions.pop()
        self._open_row()

    def _open_row(self) -> None:
        if self._regions:
            region = self._regions[-1]
            self._code.append(TryBegin(region.handler, region.lasti, region.depth))

    def _close_row(self) -> None:
        """Ends the innermost region's row of the exception table, which must not be empty."""
        if not self._regions:
            return
        for index in range(len(self._code) - 1, -1, -1):
            item = self._code[index]
            if isinstance(item, TryBegin):
                del self._code[index]
                return
            if isinstance(item, Instr):
                break
        begin = next(item for item in reversed(self._code) if isinstance(item, TryBegin))
        self._code.append(TryEnd(begin))

    def begin_handling(self) -> None:
        """exception -> two values for POP_EXCEPT: the exception is being handled. Its traceback and context stay."""
        assert self.depth, f"nothing to handle on line {self.line}"
        handler = self.label()
        self.begin_try(handler, self.depth - 1)
        self.reraise()
        self.end_try()
        self.mark(handler)
        self.op("PUSH_EXC_INFO")

    def end_handling(self) -> None:
        """Drops what `begin_handling` left."""
        self.pop()
        self.op("POP_EXCEPT")

    @contextmanager
    def catch(self, handler: Label) -> Iterator[None]:
        """An except block at `handler`: the body written inside the `with` finds the exception on top of the stack and
        leaves it there; it ends it by running out, or leaves it by `reraise`, `raise_`, or its own POP_EXCEPT and
        return. An exception in the body restores `sys.exc_info()` on its way out."""
        cleanup, after = self.label(), self.label()
        assert self.depth is None, f"control runs into the handler on line {self.line}"
        self.mark(handler)
        self.op("PUSH_EXC_INFO")
        depth = self.depth
        assert depth is not None
        self.begin_try(cleanup, depth - 1, lasti=True)
        yield
        self.end_try()
        falls_out = self.depth is not None
        if falls_out:
            assert self.depth == depth, f"the except body on line {self.line} leaves {self.depth} values, not {depth}"
            self.pop()
            self.op("POP_EXCEPT")
            self.jump(after)
        self.mark(cleanup)
        self.copy(3)
        self.op("POP_EXCEPT")
        self.reraise(1)
        if falls_out:
            self.mark(after)

    # --- the result ---

    def add_parameter(self, name: str) -> None:
        """One more parameter behind the others."""
        self.params += (name,)
        self._names.add(name)
        self._code.argcount += 1
        self._code.argnames.append(name)

    def code(self) -> CodeType:
        """The finished code object. Locals that a load may find unbound are loaded with a check."""
        assert self.depth is None, f"control runs off the end after line {self.line}"
        assert not self._regions, "a try region was not ended"
        missing = self._depths.keys() - self._marked
        assert not missing, f"{len(missing)} labels are jumped to but not marked"
        return self._assemble(self._highest, {})

    def _assemble(self, stacksize: int, names: Mapping[str, str]) -> CodeType:
        insts = [item for item in self._code if isinstance(item, Instr)]
        safe = set(self.params) - {inst.arg for inst in insts if inst.name in versions.UNBINDS_LOCAL}
        for inst in insts:
            if inst.name == "LOAD_FAST" and isinstance(inst.arg, str) and inst.arg not in safe:
                inst.name = versions.LOAD_FAST_CHECK
        return assemble(self._code, stacksize, names)
