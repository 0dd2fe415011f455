"""The reasons of graph breaks by families: `breaks.md` beside this file is the table, and the page that users read."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).with_name("breaks.md")


@dataclass(frozen=True)
class Family:
    """A section of the page. `name` stays what it is: messages and other people's notes refer to it. `breaks` and
    `mended`: the section's two programs."""

    name: str
    title: str
    text: str
    breaks: str
    mended: str
    reasons: frozenset[str]


@functools.cache
def families() -> dict[str, Family]:
    """All sections by name, as they stand on the page."""
    _, *sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {family.name: family for family in map(_family, sections)}


def family_of(text: str) -> Family | None:
    """The family of the longest reason that the text begins with."""
    known = {reason: family for family in families().values() for reason in family.reasons}
    fitting = [reason for reason in known if text.startswith(reason)]
    return known[max(fitting, key=len)] if fitting else None


def _family(section: str) -> Family:
    heading, _, body = section.partition("\n")
    name, _, title = heading.partition(": ")
    text, breaks, _, mended, rest = re.split(r"```(?:python)?\n", body)
    reasons = frozenset(line[2:] for line in rest.splitlines() if line.startswith("- "))
    return Family(name, title, text.strip(), breaks, mended, reasons)
