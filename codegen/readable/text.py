"""The text of a code object: Python that does what its bytecode does, and how to run it."""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any

from bytecode import ConcreteBytecode, FreeVar, Instr

from codegen.readable import helpers
from codegen.readable.flow import Unreadable
from codegen.readable.names import Names, describe
from codegen.readable.reader import Reader
from codegen.readable.tidy import Tidy, is_stored
from codegen.residual.emitter import Constant, assemble
from codegen.residual.notes import Notes
from symbolic.code import argument_slots, decode

_WIDTH = 116


@dataclass(frozen=True)
class Readable:
    """`text` defines a function that takes what has no literal (`bound`, by name, and the code's free variables in
    `free`) and gives the function; where there is no text, it is a comment that says why."""

    text: str
    original: CodeType
    bound: dict[str, Any] = field(default_factory=dict)
    free: dict[str, str] = field(default_factory=dict)  # free variable of the code -> its name in the text

    @property
    def runs(self) -> bool:
        """Whether there is a text."""
        return self.text.startswith("def ")

    def function(
        self, namespace: dict[str, Any], closure: tuple[CellType, ...] | None = None, file: str = "<readable>"
    ) -> FunctionType:
        """The text executed: the function with these globals and cells. Raises ValueError where there is no text."""
        if not self.runs:
            raise ValueError(self.text)
        outer = _inner_code(compile(self.text, file, "exec", dont_inherit=True))
        code = _inner_code(outer).replace(co_name=self.original.co_name, co_qualname=self.original.co_qualname)
        bound = {name: namespace if value is helpers.NAMESPACE else value for name, value in self.bound.items()}
        code = _with_locals(code, bound)
        given = dict(zip(self.original.co_freevars, closure or (), strict=True))
        cells = {name: given[variable] for variable, name in self.free.items()}
        found = tuple(cells[name] for name in code.co_freevars)
        return FunctionType(code, namespace, self.original.co_name, None, found or None)


def _with_locals(code: CodeType, values: Mapping[str, Any]) -> CodeType:
    """The code with locals that it sets first in place of free variables: what runs for a frame of the program has no
    closure, and a debugger shows locals."""
    concrete = ConcreteBytecode.from_code(code)
    concrete.consts = [Constant(value) for value in code.co_consts]
    made = concrete.to_bytecode(conserve_exception_block_stackdepth=True)
    made.freevars = [name for name in code.co_freevars if name not in values]
    items: list[Any] = []
    for item in made:
        if isinstance(item, Instr):
            if item.name == "COPY_FREE_VARS":
                if not made.freevars:
                    continue
                item.arg = len(made.freevars)
            elif isinstance(item.arg, FreeVar) and item.arg.name in values:
                item = Instr("LOAD_FAST", item.arg.name, location=item.location)
            elif item.name == "LOAD_GLOBAL" and item.arg == (False, "BaseException"):  # whatever the program calls so
                item = Instr("LOAD_CONST", Constant(BaseException), location=item.location)  # type: ignore[arg-type]
        items.append(item)
        if isinstance(item, Instr) and item.name == "RESUME":
            for name in code.co_freevars:
                if name in values:
                    value: Any = Constant(values[name])
                    items.append(Instr("LOAD_CONST", value, location=item.location))
                    items.append(Instr("STORE_FAST", name, location=item.location))
    made[:] = items
    return assemble(made, code.co_stacksize + 1, {})


def _inner_code(code: CodeType) -> CodeType:
    return next(value for value in code.co_consts if isinstance(value, CodeType))


def readable(code: CodeType, notes: Notes | None = None, nested: bool = True) -> Readable:
    """`notes`: what is known of it; `nested`: with statements in each other if there are any for its jumps, and not as
    steps in a loop."""
    for form in (True, False) if nested else (False,):
        try:
            return _Text(code, notes or Notes(), form).run()
        except Unreadable as error:
            why = str(error)
        except (RecursionError, SyntaxError):  # of what has too many blocks in each other, Python's compiler says so
            why = "it is nested too deep"
    return Readable(f"# {code.co_qualname} has no text: {why}\n", code)


class _Text:
    def __init__(self, code: CodeType, notes: Notes, nested: bool) -> None:
        self.code, self.nested = code, nested
        offsets = [inst.offset for inst in dis.get_instructions(code) if inst.opname != "EXTENDED_ARG"]
        self.notes = dict(zip(offsets, notes.instructions, strict=False))
        taken = {"BaseException", *(inst.argval for inst in decode(code).insts if inst.op.endswith("_GLOBAL"))}
        self.names = Names(taken, notes.titles, notes.labels)
        self.noted = ""

    def run(self) -> Readable:
        code, names = self.code, self.names
        reader = Reader(code, names, self.nested)
        statements = reader.run()
        own = {names.variables[name] for name in names.variables if name.isidentifier()}
        body = Tidy(names, own, reader.locals | reader.fixed).run(statements)
        used = {node.id for node in ast.walk(ast.Module(body, [])) if isinstance(node, ast.Name)}
        names.bound = {each: value for each, value in names.bound.items() if each in used}
        name = names.new(code.co_name)
        outer = names.new("handed_in")
        parameters = {each: names.variables[each] for each in code.co_varnames[: argument_slots(code)]}
        free = {each: names.variables[each] for each in code.co_freevars}
        stored = {n.id for n in ast.walk(ast.Module(body, [])) if isinstance(n, ast.Name) and is_stored(n)}
        lines = [f"def {outer}("]
        lines += [f"    {each},  # {self._said(value)}" for each, value in names.bound.items()]
        lines += [f"    {each},  # a variable of the function around it" for each in free.values()]
        if len(lines) == 1:
            lines = [f"def {outer}():"]
        else:
            lines.append("):")
        lines += [f"    def {name}("]
        labels = {text: names.labels.get(each, text) for each, text in parameters.items()}
        written = [(each, labels.get(each, each)) for each in _parameters(code, list(parameters.values()))]
        if all(each == label for each, label in written):
            lines[-1] += f"{', '.join(each for each, _ in written)}):"
        else:
            lines += [f"        {each}," + (f"  # {label}" if label != each else "") for each, label in written]
            lines.append("    ):")
        declared = [("nonlocal", sorted(stored & set(free.values()))), ("global", sorted(reader.globals))]
        lines += [f"        {word} {', '.join(each)}" for word, each in declared if each]
        lines += self._lines(body or [ast.Pass()], "        ")
        lines += [f"    return {name}"]
        text = "\n".join(lines) + "\n"
        compile(text, "<readable>", "exec", dont_inherit=True)
        return Readable(text, code, dict(names.bound), free)

    def _said(self, value: Any) -> str:
        return "the globals" if value is helpers.NAMESPACE else describe(value)

    # --- statements ---
    def _lines(self, body: list[ast.stmt], indent: str) -> Iterator[str]:
        inner = indent + "    "
        for statement in body:
            note = self.notes.get(getattr(statement, "offset", -1), "")
            if note and note != self.noted:
                yield from (f"{indent}# {line}" for line in note.splitlines())
                self.noted = note
            match statement:
                case ast.If(test, then, orelse):
                    yield f"{indent}if {_text(test)}:"
                    yield from self._lines(then, inner)
                    while len(orelse) == 1 and isinstance(orelse[0], ast.If):
                        yield f"{indent}elif {_text(orelse[0].test)}:"
                        yield from self._lines(orelse[0].body, inner)
                        orelse = orelse[0].orelse
                    yield from self._else(orelse, indent)
                case ast.While(test, loop, orelse):
                    yield f"{indent}while {_text(test)}:"
                    yield from self._lines(loop, inner)
                    yield from self._else(orelse, indent)
                case ast.For(target, iterable, loop, orelse):
                    yield f"{indent}for {_text(target).strip('()')} in {_text(iterable)}:"
                    yield from self._lines(loop, inner)
                    yield from self._else(orelse, indent)
                case ast.With(items, inside):
                    yield f"{indent}with {', '.join(map(_text, items))}:"
                    yield from self._lines(inside, inner)
                case ast.Try(tried, handlers, orelse, finally_):
                    yield f"{indent}try:"
                    yield from self._lines(tried, inner)
                    for handler in handlers:
                        assert handler.type is not None
                        named = f" as {handler.name}" if handler.name else ""
                        yield f"{indent}except {_text(handler.type)}{named}:"
                        yield from self._lines(handler.body, inner)
                    yield from self._else(orelse, indent)
                    if finally_:
                        yield f"{indent}finally:"
                        yield from self._lines(finally_, inner)
                case _:
                    yield from _wrapped(statement, indent)

    def _else(self, orelse: list[ast.stmt], indent: str) -> Iterator[str]:
        if orelse:
            yield f"{indent}else:"
            yield from self._lines(orelse, indent + "    ")


def _parameters(code: CodeType, names: list[str]) -> Iterator[str]:
    """They are in the order of `co_varnames`, where what takes the rest comes last."""
    plain, by_name = code.co_argcount, code.co_kwonlyargcount
    rest = names[plain + by_name :]
    for at, name in enumerate(names[:plain]):
        yield name
        if at + 1 == code.co_posonlyargcount:
            yield "/"
    if code.co_flags & inspect.CO_VARARGS:
        yield f"*{rest.pop(0)}"
    elif by_name:
        yield "*"
    yield from names[plain : plain + by_name]
    yield from (f"**{name}" for name in rest)


def _text(node: ast.AST) -> str:
    try:
        return ast.unparse(ast.fix_missing_locations(node))
    except ValueError as error:  # an f-string that this Python has no text for
        raise Unreadable(str(error)) from error


def _wrapped(statement: ast.stmt, indent: str) -> Iterator[str]:
    """On one line, or with the arguments of its outermost call on lines of their own."""
    text = _text(statement)
    call = getattr(statement, "value", None)
    if len(indent) + len(text) <= _WIDTH or not isinstance(call, ast.Call) or not (call.args or call.keywords):
        yield from (indent + line for line in text.splitlines())
        return
    yield indent + text[: len(text) - len(_text(call))] + _text(call.func) + "("
    yield from (f"{indent}    {_text(argument)}," for argument in (*call.args, *call.keywords))
    yield indent + ")"
