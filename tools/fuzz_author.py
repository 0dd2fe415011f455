"""Writes programs by the tables of `fuzz_grammar*.txt`: the same text for the same seed (and family)."""

from __future__ import annotations

import functools
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
    ("z", "rows"),
)
#: What programs are compiled with, one as often as another: captured graphs run as they are, or through the AOT stage.
BACKENDS = ("eager", "eager", "aot_eager")
HOLE = re.compile(r"\{(?:@(?P<again>\w+)|(?P<hat>\^?)(?P<what>[a-z]+)(?::(?P<kind>[a-z]+))?(?:=(?P<name>\w+))?)\}")
_PLAIN = {"digit": "01234", "bit": "01", "word": ("'a'", "'b'", "'k'", "'zebra'", "'count'", "''")}
#: How deep expressions and blocks lie in one another, how many statements a block has, how often a production is tried.
DEEPEST, BLOCKS, LONGEST, TRIES = 3, 3, 3, 20
#: How many times as often a family's productions are taken where it is asked for.
MORE = 8


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


FAMILIES = tuple(sorted(path.stem[13:] for path in _HERE.glob("fuzz_grammar_*.txt")))


@functools.cache
def _tables(family: str) -> tuple[dict[str, Table], dict[str, Table]]:
    """The tables of all files, and what is in them that has no other expressions in it."""
    tables: dict[str, Table] = {}
    for name in ("", *FAMILIES):
        times = MORE if name and name == family else 1
        for line in (_HERE / f"fuzz_grammar{name and '_'}{name}.txt").read_text().splitlines():
            if line.startswith("== "):
                table = tables.setdefault(line[3:], [])
            elif line[:4].strip().isdigit():
                table.append((times * int(line[:4]), line[4:]))
            elif line and line[0] != "#":
                weight, start = table.pop()
                table.append((weight, f"{start}\n{line[4:]}"))
    flat = {kind: [each for each in table if _is_flat(each[1], tables)] or table for kind, table in tables.items()}
    return tables, flat


def _is_flat(text: str, tables: dict[str, Table]) -> bool:
    return not any(match["what"] in tables for match in HOLE.finditer(text))


class Author:
    def __init__(self, seed: int, family: str = "") -> None:
        self.random = random.Random(seed)
        self.tables, self.flat = _tables(family)
        self.count = 0

    def program(self) -> str:
        place = Place(tuple(Name(name, kind, 1) for name, kind in _PARAMETERS))
        lines, place = self.statements(place, self.random.randint(5, 12))
        lines.append(f"return {self.expression('result', place)}")
        parameters = ", ".join(name for name, _ in _PARAMETERS)
        body = textwrap.indent("\n".join(lines), "    ")
        backend = self.random.choice(BACKENDS)
        return f"{_PRELUDE}\nBACKEND = {backend!r}\n\n\ndef program({parameters}):\n{body}\n"

    # --- statements ---------------------------------------------------------------------------------------------------
    def statements(self, place: Place, count: int) -> tuple[list[str], Place]:
        """Lines, and the place after them."""
        lines: list[str] = []
        for _ in range(count):
            compound = place.blocks < BLOCKS and self.random.random() < 0.45 / (1 + place.blocks)
            simple = self.tables["STATEMENTS"] + 4 * self.tables["LEAVES"] * place.in_loop
            text, bound = self.fitting(self.tables["COMPOUNDS"] if compound else simple, place)
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
        table = self.tables if place.depth < DEEPEST else self.flat
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
        if what in self.tables:
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


def write(seed: int, family: str = "") -> str:
    """The program of a seed, with much of a family in it."""
    return Author(seed, family).program()
