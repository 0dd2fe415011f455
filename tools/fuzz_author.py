"""Writes programs by the tables of `fuzz_grammar.txt`: the same text for the same seed."""

from __future__ import annotations

import random
import re
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

#: Productions: (weight, text).
Table = list[tuple[int, str]]

_HERE = Path(__file__).parent
#: What stands at the top of every program.
_PRELUDE = (_HERE / "fuzz_prelude.txt").read_text()
#: Parameters of every program: (name, kind).
_PARAMETERS = (
    ("x", "buffer"),
    ("w", "weight"),
    ("n", "int"),
    ("k", "str"),
    ("items", "list"),
    ("table", "dict"),
    ("box", "box"),
    ("dial", "dial"),
    ("net", "net"),
)
HOLE = re.compile(r"\{(?:@(?P<again>\w+)|(?P<hat>\^?)(?P<what>[a-z]+)(?::(?P<kind>[a-z]+))?(?:=(?P<name>\w+))?)\}")
_PLAIN = {"digit": "01234", "bit": "01", "word": ("'a'", "'b'", "'k'", "'zebra'", "'count'", "''")}
#: How deep expressions and blocks lie in one another, how many statements a block has, how often a production is tried.
DEEPEST, BLOCKS, LONGEST, TRIES = 3, 3, 3, 20


class NoWay(Exception):
    """A production does not fit here."""


@dataclass(frozen=True)
class Name:
    """A variable; `level`: of the function that it belongs to, counted from the program's."""

    text: str
    kind: str
    level: int


@dataclass(frozen=True)
class Place:
    """Where a production stands: what is seen there, and what is around it."""

    names: tuple[Name, ...]
    level: int = 1
    depth: int = 0  # of expressions
    blocks: int = 0
    in_loop: bool = False
    returns: str | None = "result"  # the kind that the function around returns


def _tables(text: str) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for line in text.splitlines():
        if line.startswith("== "):
            table = tables[line[3:]] = []
        elif line[:4].strip().isdigit():
            table.append((int(line[:4]), line[4:]))
        elif line and line[0] != "#":
            weight, start = table.pop()
            table.append((weight, f"{start}\n{line[4:]}"))
    return tables


_TABLES = _tables((_HERE / "fuzz_grammar.txt").read_text())
_STATEMENTS, _COMPOUNDS, _LEAVES = (_TABLES.pop(name) for name in ("STATEMENTS", "COMPOUNDS", "LEAVES"))


def _is_flat(text: str) -> bool:
    """Whether a production has no other expressions in it."""
    return not any(match["what"] in _TABLES for match in HOLE.finditer(text))


_FLAT: dict[str, Table] = {
    kind: [each for each in table if _is_flat(each[1])] or table for kind, table in _TABLES.items()
}


class Author:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def program(self) -> str:
        place = Place(tuple(Name(name, kind, 1) for name, kind in _PARAMETERS))
        lines, place = self.statements(place, self.random.randint(5, 12))
        lines.append(f"return {self.expression('result', place)}")
        parameters = ", ".join(name for name, _ in _PARAMETERS)
        body = textwrap.indent("\n".join(lines), "    ")
        return f"{_PRELUDE}\n\ndef program({parameters}):\n{body}\n"

    # --- statements ---------------------------------------------------------------------------------------------------
    def statements(self, place: Place, count: int) -> tuple[list[str], Place]:
        """Lines, and the place after them."""
        lines: list[str] = []
        for _ in range(count):
            compound = place.blocks < BLOCKS and self.random.random() < 0.45 / (1 + place.blocks)
            table = _COMPOUNDS if compound else _STATEMENTS + 4 * _LEAVES * place.in_loop
            text, bound = self.fitting(table, place)
            lines += text.split("\n")
            place = replace(place, names=place.names + bound)
        return lines, place

    def block(self, what: str, kind: str | None, place: Place) -> list[str]:
        place = replace(place, blocks=place.blocks + 1, in_loop=place.in_loop or what == "loop")
        if what == "body":
            place = replace(place, level=place.level + 1, in_loop=False, returns=kind)
        lines, place = self.statements(place, self.random.randint(1, LONGEST))
        return lines if what != "body" or kind is None else [*lines, f"return {self.expression(kind, place)}"]

    # --- productions --------------------------------------------------------------------------------------------------
    def expression(self, kind: str, place: Place) -> str:
        table = _TABLES if place.depth < DEEPEST else _FLAT
        text, _ = self.fitting(table[kind], replace(place, depth=place.depth + 1))
        return text

    def fitting(self, table: Table, place: Place) -> tuple[str, tuple[Name, ...]]:
        """A production that fits, with its holes filled, and what later statements see of it."""
        weights, texts = zip(*table, strict=True)
        for _ in range(TRIES):
            try:
                return self.fill(self.random.choices(texts, weights)[0], place)
            except NoWay:
                pass
        raise NoWay

    def fill(self, text: str, outer: Place) -> tuple[str, tuple[Name, ...]]:
        known: dict[str, str] = {}
        bound: dict[str, list[Name]] = {"bind": [], "new": []}
        names: list[str] = []  # of the variables that it makes, in order
        has_body = "{body" in text or " yield " in text
        for match in HOLE.finditer(text):
            if match["what"] in bound:
                self.count += 1
                names.append(f"v{self.count}")
                known[match["name"] or ""] = names[-1]
                level = outer.level + (has_body and match["what"] == "bind")
                bound[match["what"]].append(Name(names[-1], match["kind"], level))
        inner = replace(outer, names=outer.names + tuple(bound["bind"]))
        made = iter(names)

        def filled(match: re.Match[str]) -> str:
            if match["again"]:
                return known[match["again"]]
            if match["what"] in bound:
                return next(made)
            place = outer if match["hat"] or match["what"] == "outer" else inner
            name = self.hole(match["what"], match["kind"], place)
            return known.setdefault(match["name"], name) if match["name"] else name

        lines: list[str] = []
        for line in text.split("\n"):
            alone = HOLE.fullmatch(line.strip())
            if alone is not None and alone["what"] in ("block", "loop", "body"):
                inside = "\n".join(self.block(alone["what"], alone["kind"], outer if alone["hat"] else inner))
                lines.append(textwrap.indent(inside, line[: len(line) - len(line.lstrip())]))
            else:
                lines.append(HOLE.sub(filled, line))
        return "\n".join(lines), tuple(bound["new"])

    def hole(self, what: str, kind: str | None, place: Place) -> str:
        if what in _TABLES:
            return self.expression(what, place)
        if what == "early":
            if place.returns is None:
                raise NoWay
            return f"return {self.expression(place.returns, place)}"
        if what in ("var", "own", "outer"):
            found = [n for n in place.names if n.kind == kind and (what != "own" or n.level == place.level)]
            if not found:
                raise NoWay
            return self.random.choice(found).text
        return self.random.choice(_PLAIN[what])


def write(seed: int) -> str:
    """The program of a seed."""
    return Author(seed).program()
