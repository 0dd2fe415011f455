"""Random programs of side effects, as text: rows of `vocabulary`, their holes filled.

The rows of a program come from a few themes, so that its statements have to do with each other.
"""
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sideeffects.vocabulary import ARGUMENTS, BLOCKS, ENDINGS, EXPRESSIONS, KINDS, OUTER, STATEMENTS

Choose = Callable[[Sequence[Any]], Any]

HOLE = re.compile(r"<(\+?)([a-z]+|\d)>")
ASSIGNED = re.compile(r"(?:^ *|: )(\w+) [-+|*^&]?= |^ *for (\w+) in |^ *del (\w+)$", re.MULTILINE)
ROWS = {**STATEMENTS, "blocks": BLOCKS, "endings": ENDINGS}
#: starts of rows that may leave what they bind unbound
PERHAPS = ("for ", "match ", "try:", "if ")
#: how deep blocks stand in blocks, and expressions in expressions
DEEPEST = 2


@dataclass
class Scope:
    """What the names stand for at one place of the program."""
    names: dict[str, str]

    def of(self, kind: str) -> list[str]:
        found = [name for name, its in self.names.items() if its == kind]
        return found + [name for other in KINDS.get(kind, ()) for name in self.of(other)]

    def within(self, bound: dict[str, str]) -> "Scope":
        return Scope({**self.names, **bound})


@dataclass(frozen=True)
class Program:
    """`text` defines `build()`, which makes the program; `steps` statements of the tables went into it.
    `takes`: those of the `ARGUMENTS` that it has."""
    text: str
    takes: tuple[str, ...]
    steps: int

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis shows it."""
        printer.text(f"\n{self.text}")


class Author:
    """Writes a program by the choices of somebody else."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.steps = 0
        self.names = 0
        themes = list(STATEMENTS)
        self.themes = [*dict.fromkeys(choose(themes) for _ in range(3)), "blocks"]

    def program(self, most: int) -> Program:
        scope = Scope({**ARGUMENTS, **OUTER})
        lines = self.block(scope, self.choose(range(1, most + 1)), 0)
        if self.choose((False, True)):
            lines += self.statement(scope, self.choose(ROWS["endings"]), 0)
        own = [name for name, kind in scope.names.items() if kind != "dead" and name not in OUTER]
        results = [name for name in own[len(ARGUMENTS):] if self.choose((True, True, False))]
        lines += [f"return [{', '.join(results)}]"]
        words = set(re.findall(r"\w+", "\n".join(lines)))
        takes = tuple(name for name in ARGUMENTS if name in words)
        head = ["def build():", "    total, kept, spare = 0, [1], None", f"    def program({', '.join(takes)}):",
                "        nonlocal total, kept, spare", "        global TOTAL, LOG, SHARED, EXTRA"]
        text = "\n".join([*head, *(f"        {line}" for line in lines), "    return program"])
        return Program(text + "\n", takes, self.steps)

    def block(self, scope: Scope, count: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            themes = self.themes if depth < DEEPEST else self.themes[:-1]
            rows = [row for row in ROWS[self.choose(themes)] if self.possible(row, scope) and (depth < DEEPEST or "..." not in row)]
            lines += self.statement(scope, self.choose(rows), depth)
        return lines

    def possible(self, row: str, scope: Scope) -> bool:
        return all(binds or kind.isdigit() or kind in EXPRESSIONS or scope.of(kind) for binds, kind in HOLE.findall(row))

    def statement(self, scope: Scope, row: str, depth: int) -> list[str]:
        self.steps += 1
        taken: list[str] = []
        bound: dict[str, str] = {}
        lines: list[str] = []
        defines = row.startswith("def ")
        for line in row.split(";"):
            if line.strip() == "...":
                inside = scope.within({} if defines else bound)
                lines += [line[:-3] + text for text in self.block(inside, self.choose((1, 1, 2, 3)), depth + 1)]
            else:
                lines.append(self.filled(line, scope, taken, {} if line.startswith(" ") else bound))
        if defines and "..." in row:
            lines[1:1] = self.declared(lines[1:], scope)
        if defines or "..." not in row and not row.startswith(PERHAPS):
            scope.names.update(bound)
        return lines

    def declared(self, body: list[str], scope: Scope) -> list[str]:
        """What a function says of names that it rebinds but does not own."""
        rebound = ["".join(found) for found in ASSIGNED.findall("\n".join(body))]
        ours = dict.fromkeys(name for name in rebound if name in scope.names)
        words = {name: "global" if name.isupper() else "nonlocal" for name in ours}
        return [f"    {word} {name}" for name, word in words.items()]

    def filled(self, text: str, scope: Scope, taken: list[str], bound: dict[str, str], depth: int = 0) -> str:
        def fill(hole: re.Match[str]) -> str:
            binds, kind = hole.groups()
            if kind.isdigit():
                return taken[int(kind) - 1]
            taken.append(self.bind(kind, bound) if binds else self.expression(kind, scope, depth))
            return taken[-1]
        return HOLE.sub(fill, text)

    def bind(self, kind: str, bound: dict[str, str]) -> str:
        self.names += 1
        name = f"{kind}_{self.names}"
        bound[name] = kind
        return name

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        forms = EXPRESSIONS.get(kind, [])
        options = scope.of(kind) + [form for form in forms if depth < DEEPEST or not HOLE.search(form)]
        return self.filled(self.choose(options), scope, [], {}, depth + 1)
