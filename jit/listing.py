"""Bytecode as a table: each instruction with its line, what it takes, where it jumps, and what it is for."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from codegen.readable.names import describe
from codegen.residual.notes import Notes
from symbolic.code import decode
from symbolic.versions import is_jump, line_of

NONE = Notes()
_LONG = 60


@dataclass(frozen=True)
class Row:
    """An instruction. `line`: of the program, 0 for none; `target`: the offset that it may jump to, -1 for none;
    `is_target`: some instruction jumps here, or an exception leads here; `note`: what it is for, "" if nobody says."""

    offset: int
    line: int
    op: str
    argument: str
    target: int
    is_target: bool
    note: str


def rows(code: CodeType, notes: Notes = NONE) -> Iterator[Row]:
    handlers = {row.target for row in decode(code).handlers}
    said = iter(notes.instructions)
    for inst in dis.get_instructions(code):
        note = "" if inst.opname == "EXTENDED_ARG" else next(said, "")
        target = inst.argval if is_jump(inst.opname) else -1
        shown = notes.labels.get(str(inst.argval), inst.argrepr)
        if inst.opname == "LOAD_CONST" and (len(shown) > _LONG or "\n" in shown):
            shown = describe(inst.argval)
        argument = "" if inst.arg is None else f"{inst.arg} ({shown})" if shown else str(inst.arg)
        is_target = inst.is_jump_target or inst.offset in handlers
        yield Row(inst.offset, line_of(inst) or 0, inst.opname, argument, target, is_target, note)


def handlers(code: CodeType) -> list[str]:
    """The exception table in words."""
    return [
        f"{row.start} to {row.end}: exceptions lead to {row.target}, with {row.depth} values on the stack"
        f"{' and the offset' if row.lasti else ''}"
        for row in decode(code).handlers
    ]


def text(code: CodeType, notes: Notes = NONE) -> str:
    """All of it, headed by the place of the code."""
    lines = [f"# {code.co_qualname}, {code.co_filename}:{code.co_firstlineno}"]
    line, note = 0, ""
    for row in rows(code, notes):
        if row.note and row.note != note:
            lines += [f"      # {each}" for each in row.note.splitlines()]
        note = row.note or note
        shown = str(row.line) if row.line and row.line != line else ""
        line = row.line or line
        mark = ">>" if row.is_target else ""
        lines.append(f"{shown:>5} {mark:>2} {row.offset:>5} {row.op:<28} {row.argument}".rstrip())
    return "\n".join([*lines, *handlers(code)]) + "\n"
