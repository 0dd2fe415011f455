"""What `attrs` keeps for each thread of the objects whose text is being made: it is the frame's own while that runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import ExistingVariable, Variable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_NAME = "already_repring"


def is_context(value: Any) -> bool:
    """Whether a thread's state is that one."""
    return value is getattr(sys.modules.get("attr._compat"), "repr_context", None)


def _shows_nothing(context: Any) -> bool:
    """no text of an object is being made"""
    return not getattr(context, _NAME, None)


class ShownObjects(ExistingVariable):
    """Its set of numbers is empty before a text is made, and afterwards: nobody sees that it is another one."""

    def __init__(self, tx: Translator, value: Any, source: Source) -> None:
        super().__init__(value, source)
        if not _shows_nothing(value):
            raise GraphBreak("state of a thread", source.text)
        tx.know(tx.sources.const(value, source.text), "predicate", _shows_nothing)
        self.numbers = tx.new_set([])

    def getattr(self, tx: Translator, name: str) -> Variable:
        return self.numbers if name == _NAME else super().getattr(tx, name)
