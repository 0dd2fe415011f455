"""Modules that were imported before, found as Python finds them: in `sys.modules`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from symbolic.errors import GraphBreak
from symbolic.variables.base import Variable
from symbolic.variables.constants import ConstantVariable, is_a
from symbolic.variables.tables import handles

if TYPE_CHECKING:
    from symbolic.translator import Translator

FIRST = "first import of a module"


def imported(tx: Translator, name: str) -> Variable | None:
    """The module of that name, None before its first import."""
    modules = tx.getattr(tx.wrap(sys, tx.sources.const(sys, "sys")), "modules")
    if modules.python_type() is not dict:
        raise GraphBreak(FIRST, f"{name}, among modules of another kind")
    found = modules.method(tx, "get", [ConstantVariable(name)], {})
    if found.is_constant() and found.constant() is None:
        return None
    return tx.wrap(found.real(), tx.sources.const(found.real(), name)) if is_a(found.real(), ModuleType) else found


@handles(importlib.import_module)
def _import_module(tx: Translator, name: Variable, package: Variable | None = None) -> Variable:
    full = name.constant()
    if type(full) is not str:
        raise GraphBreak(FIRST, name.describe())
    if full.startswith("."):
        if package is None or not package.constant():
            raise GraphBreak("relative import without a package", full)
        full = tx.attempt(importlib.util.resolve_name, full, package.constant())
    found = imported(tx, full)
    if found is None:
        raise GraphBreak(FIRST, full)
    return found
