"""Where the names of modules are: the globals of functions that exist, and of code that the frame runs from text."""

from __future__ import annotations

import builtins
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from sideeffects.effects import DELETED
from symbolic.errors import GraphBreak
from symbolic.sources import Source
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.mappings import DictVariable
from symbolic.variables.methods import native_method

if TYPE_CHECKING:
    from symbolic.translator import Translator


class Names(Variable):
    """The globals of a frame. `exists`: continuations of the frame can have them."""

    exists: bool

    def python_type(self) -> type:
        return dict

    def find(self, tx: Translator, name: str) -> Variable | None:
        """The variable under `name` as the frame sees it, None if there is none."""
        raise NotImplementedError

    def store(self, tx: Translator, name: str, value: Variable) -> None:
        raise NotImplementedError

    def remove(self, tx: Translator, name: str) -> None:
        """Of a name that there is."""
        raise NotImplementedError

    def builtins(self, tx: Translator) -> dict[str, Any]:
        """Where names are looked for that are not here."""
        raise NotImplementedError

    def module(self) -> Any:
        """`__name__`, so far as it is known."""
        raise NotImplementedError

    def is_plain(self, tx: Translator, function: Any) -> bool:
        """Whether the function, if it exists, reads names as dicts have them (those of other kinds answer as they
        like), and among the builtins that are found here now: a function keeps those that there were when it was made.
        """
        return True

    def itself(self) -> Variable:
        """What `globals()` answers."""
        return self

    def of_traces(self) -> dict[str, Any]:
        """The globals that an entry of a traceback shows."""
        return {"__name__": self.module()}


class NamespaceVariable(Names):
    """A module's globals: the target of STORE_GLOBAL, read name by name."""

    exists = True

    def __init__(self, value: dict[str, Any], source: Source) -> None:
        self.value = value
        self.source = source

    def real(self) -> Any:
        return self.value

    def find(self, tx: Translator, name: str) -> Variable | None:
        self._check_dict(tx)
        pending = tx.ledger.pending(self, name)
        if pending is not None:
            return None if pending is DELETED else pending
        assert self.source is not None
        if name in self.value:
            return tx.wrap(self.value[name], self.source.step("item", name))
        tx.know(self.source, "absent", name)
        return None

    def store(self, tx: Translator, name: str, value: Variable) -> None:
        self._check_dict(tx)
        tx.ledger.store(self, name, value)

    def remove(self, tx: Translator, name: str) -> None:
        self._check_dict(tx)
        tx.ledger.store(self, name, DELETED)

    def _check_dict(self, tx: Translator) -> None:
        """What the program did with the dict by itself is not looked for here."""
        found = tx.known.get(id(self.value))
        if isinstance(found, DictVariable):
            if tx.ledger.touched(found):
                raise GraphBreak("method of a namespace", f"store in {found.describe()}, by itself")
            found.shown = self  # from here on it is read as it came

    def builtins(self, tx: Translator) -> dict[str, Any]:
        own = self.value.get("__builtins__", builtins)
        return own if isinstance(own, dict) else vars(own)

    def is_plain(self, tx: Translator, function: Any) -> bool:
        own = self.builtins(tx)
        has_own = isinstance(function, FunctionType) and getattr(function, "__builtins__") is not own  # noqa: B009
        return type(self.value) is dict and type(own) is dict and not has_own

    def module(self) -> Any:
        return self.value.get("__name__")

    def of_traces(self) -> dict[str, Any]:
        return self.value

    def getitem(self, tx: Translator, index: Variable) -> Variable:
        found = self.find(tx, index.constant())
        return found if found is not None else tx.raise_(KeyError, index.constant())

    def setitem(self, tx: Translator, index: Variable, value: Variable) -> None:
        self.store(tx, index.constant(), value)

    def delitem(self, tx: Translator, index: Variable) -> None:
        if self.find(tx, index.constant()) is None:
            tx.raise_(KeyError, index.constant())
        self.remove(tx, index.constant())

    def contains(self, tx: Translator, item: Variable) -> bool:
        return self.find(tx, item.constant()) is not None

    def truth(self, tx: Translator) -> NoReturn:
        raise GraphBreak("method of a namespace", "bool")

    def binary(self, tx: Translator, op: Any, other: Variable) -> NoReturn:
        raise GraphBreak("method of a namespace", op.__name__)

    rbinary = inplace = binary

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name == "get" and not kwargs:
            found = self.find(tx, args[0].constant())
            return found if found is not None else args[1] if len(args) > 1 else ConstantVariable(None)
        if name == "update" and all(arg.python_type() is dict for arg in args):  # others run code in between
            new = list(tx.new_dict([]).incoming(tx, args, kwargs))
            if all(key.python_type() is str for key, _ in new):
                for key, value in new:
                    self.setitem(tx, key, value)
                return ConstantVariable(None)
        raise GraphBreak("method of a namespace", name)

    def getattr(self, tx: Translator, name: str) -> Variable:
        return native_method(tx, self, name)

    def describe(self) -> str:
        return f"globals of {self.value.get('__name__', '?')}"

    def __str__(self) -> str:
        return self.value.get("__name__", "globals()")


class BornNames(Names):
    """A dict that the frame made, as the globals of code that it runs from text. A break in this code is one at the
    call that runs it."""

    exists = False

    def __init__(self, table: DictVariable) -> None:
        self.table = table

    def real(self) -> NoReturn:
        raise GraphBreak("globals that the frame made", self.describe())

    def find(self, tx: Translator, name: str) -> Variable | None:
        return self.table.lookup(tx, ConstantVariable(name))

    def store(self, tx: Translator, name: str, value: Variable) -> None:
        self.table.setitem(tx, ConstantVariable(name), value)

    def remove(self, tx: Translator, name: str) -> None:
        self.table.delitem(tx, ConstantVariable(name))

    def builtins(self, tx: Translator) -> dict[str, Any]:
        own = self.find(tx, "__builtins__")
        if own is None or own.real() in (builtins, vars(builtins)):
            return vars(builtins)
        raise GraphBreak("text that runs as code", "with builtins of its own")

    def module(self) -> Any:
        found = self.table.entries.get("__name__")
        return found[1].constant() if found is not None and found[1].is_constant() else None

    def itself(self) -> Variable:
        return self.table

    def reachable(self) -> list[Variable]:
        return [self.table]

    def describe(self) -> str:
        return "globals that the frame made"
