"""Files in memory that the frame makes: `io.StringIO()`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.classes import NATIVE_CONSTRUCTORS
from symbolic.variables.objects import NATIVE_METHODS, ObjectVariable
from symbolic.variables.tables import library

if TYPE_CHECKING:
    from symbolic.translator import Translator


class BornFile(ObjectVariable):
    """One that residual code makes, and writes to as the program does. `model` does the same while tracing; None where
    it would have to be told what only the graph knows."""

    def __init__(self, model: io.StringIO) -> None:
        super().__init__(io.StringIO)
        self.model: io.StringIO | None = model
        self.is_open = True

    @property
    def text(self) -> str | None:
        return None if self.model is None else self.model.getvalue()

    def take(self, piece: str | None) -> None:
        if piece is None:
            self.model = None
        elif self.model is not None:
            self.model.write(piece)


def _made(tx: Translator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    if not all(arg.is_constant() for arg in (*args, *kwargs.values())):
        raise GraphBreak("construction by a native __new__", "StringIO of a text that is not known")
    named = {name: arg.constant() for name, arg in kwargs.items()}
    made = BornFile(tx.attempt(io.StringIO, *(arg.constant() for arg in args), **named))
    tx.ledger.bear(made, tx.class_variable(io.StringIO), *args, **kwargs)
    return made


def _moved(name: str) -> Callable[..., Variable]:
    """A method that says what is in the file, and moves in it."""
    raw = getattr(io.StringIO, name)

    def handler(tx: Translator, file: Variable, *args: Variable) -> Variable:
        known = isinstance(file, BornFile) and file.is_open and all(arg.is_constant() for arg in args)
        if not known or file.model is None:  # type: ignore[attr-defined]
            raise GraphBreak("native method of an object", f"{file.describe()}.{name}")
        answer = tx.attempt(raw, file.model, *(arg.constant() for arg in args))  # type: ignore[attr-defined]
        if name != "tell":
            tx.ledger.call(library(tx, raw), file, *args)
        return tx.from_constant(answer)

    return handler


NATIVE_CONSTRUCTORS[io.StringIO] = _made
for _name in ("read", "readline", "readlines", "seek", "tell", "truncate"):
    NATIVE_METHODS[getattr(io.StringIO, _name)] = _moved(_name)
