"""Functions behind `functools.lru_cache` and `functools.cache`."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import logging
import math
from types import FunctionType
from typing import TYPE_CHECKING, Any

from symbolic.errors import GraphBreak
from symbolic.told_to import INSTALLED
from symbolic.variables import born
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import is_constant_value
from symbolic.variables.containers import TupleVariable
from symbolic.variables.objects import ObjectVariable
from symbolic.variables.outside import logged
from symbolic.variables.tables import KINDS, PURE, REFUSED, Args, Kwargs, library, name_of

if TYPE_CHECKING:
    from symbolic.translator import Translator

REFUSED.update({fn: "cache made while running" for fn in (functools.lru_cache, functools.cache)})

_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME"))


def _cached(tx: Translator, fn: Any, args: Args, kwargs: Kwargs) -> Variable:
    """A cached function of constants. One of an installed library is called now. One of the program is called now
    without its cache, if it is a function of its arguments alone, and by the residual code, which fills the cache."""
    if args and issubclass(args[0].python_type(), logging.Logger):
        return logged(tx, fn, args, kwargs)  # `warning_once` and its like
    if fn.__module__ == "typing" and not kwargs:
        for arg in args:
            _same_again(tx, arg)
        return tx.of_classes(fn, *args)
    if not all(arg.is_constant() for arg in (*args, *kwargs.values())):
        raise GraphBreak("cached function of values not known", name_of(fn))
    own = fn.__wrapped__
    installed = not inspect.isfunction(own) or own.__code__.co_filename.startswith(INSTALLED)
    if not installed and not _of_its_arguments(own):
        raise GraphBreak("cached function of more than its arguments", name_of(fn))
    function = fn if installed else own
    known = {name: arg.constant() for name, arg in kwargs.items()}
    result = tx.attempt(function, *(arg.constant() for arg in args), **known)
    parts = result if installed and type(result) is tuple else (result,)
    if not all(is_constant_value(item) for item in parts):
        raise GraphBreak("cached function that makes an object", name_of(fn))
    if not installed:
        tx.ledger.call(library(tx, fn), *args, **kwargs)
    return tx.from_constant(result)


def _same_again(tx: Translator, variable: Variable) -> None:
    """What is asked for its hash has it in the next call, too: it may be an alias whose hash raises, or be equal to
    something else."""
    variable = variable.realize(tx)
    if isinstance(variable, ObjectVariable) and variable.value is MISSING:  # what stands for it has no attributes
        raise GraphBreak("cached function of values not known", variable.describe())
    if isinstance(variable, TupleVariable):
        parts = variable.items
    else:
        parts = variable.recipe.parts() if isinstance(variable, born.MadeVariable) else []
    for part in parts:
        _same_again(tx, part)
    if not parts and born.varies(variable) and variable.real() is not MISSING:
        assert variable.source is not None
        tx.know(variable.source, "is", variable.real())


def _of_its_arguments(own: FunctionType) -> bool:
    """Whether a function reads pure built-in functions and `math` alone, and writes nothing but its own variables. One
    that calls itself asks its cache."""
    cells = dict(zip(own.__code__.co_freevars, own.__closure__ or (), strict=True))
    for step in dis.get_instructions(own):
        if step.opname in _WRITES or inspect.iscode(step.argval):
            return False
        if step.opname == "LOAD_GLOBAL":
            value = own.__globals__.get(step.argval, getattr(builtins, step.argval, MISSING))
        elif step.argval in cells:
            value = _contents(cells[step.argval])
        else:
            continue
        if value is not math and value not in PURE:
            return False
    return True


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return MISSING


KINDS[type(functools.lru_cache(len))] = _cached
