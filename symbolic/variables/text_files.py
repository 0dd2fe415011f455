"""Files in memory that the frame makes: `io.StringIO()`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.objects import ObjectVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator


class BornFile(ObjectVariable):
    """One that residual code makes, and writes to as the program does. `text` is what it holds; None where that is not
    known while tracing."""

    def __init__(self) -> None:
        super().__init__(io.StringIO)
        self.text: str | None = ""
        self.is_open = True

    def take(self, piece: str | None) -> None:
        self.text = None if self.text is None or piece is None else self.text + piece


def _made(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    if args or kwargs:  # it would begin at the start of a text, or have other ends of lines
        raise GraphBreak("construction by a native __new__", "StringIO with arguments")
    made = BornFile()
    tx.ledger.bear(made, tx.class_variable(io.StringIO))
    return made


NATIVE_CONSTRUCTORS[io.StringIO] = _made
