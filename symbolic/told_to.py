"""Who is told of a message: what the program's own handlers may read and write when the message is shown, after the
frame has been traced."""

from __future__ import annotations

import functools
import gc
import logging
import os
import sys
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from symbolic.code import decode
from symbolic.passing import namespace_of
from symbolic.variables.base import raw_attributes
from symbolic.variables.constants import LITERALS, is_a
from symbolic.variables.objects import instance_dict

#: Where libraries lie: their code knows nothing of the program's objects.
INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib", "stdlib")})
#: What handlers keep messages in.
_WRITTEN = (list, dict, set, deque)
#: More objects than this are as good as all.
_ENOUGH = 1000


def handlers_of(logger: Any) -> Iterator[Any]:
    """Of a logger: what its messages go through, its own methods among it."""
    yield from (logging.getLogRecordFactory(), *_own(logger).values())
    yield from (each for _, each in raw_attributes(type(logger).__mro__))
    handlers: list[Any] = []
    while logger is not None:
        yield from logger.filters
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    if not handlers:
        yield from (logging.lastResort, sys.stderr)
    seen = set[int]()
    for handler in handlers:  # which may hand on to others
        own = _own(handler) if id(handler) not in seen else {}
        seen.add(id(handler))
        yield from (handler, *own.values(), *own.get("filters", ()))
        handlers += [each for each in own.values() if isinstance(each, logging.Handler)]


def asked_of(logger: Any) -> Iterator[Any]:
    """What says who is shown a message: where the frame has written to any of it, it is not known before it runs."""
    yield from (logging, vars(logging), logging.Logger.manager, logging.Logger.manager.loggerDict, logging.root)
    for each in _line_of(logger):
        yield from (each, each.manager, each.handlers, each.filters, *type(each).__mro__[:-1])
        for handler in (*each.handlers, logging.lastResort):
            yield from (handler, *type(handler).__mro__[:-1], *_own(handler).values())


def written_by(logger: Any) -> Iterator[Any]:
    """What the library itself writes to while it shows a message."""
    for each in _line_of(logger):
        yield _own(each).get("_cache")
        for handler in each.handlers:
            yield from (own for own in _own(handler).values() if isinstance(own, _WRITTEN))


def _line_of(logger: Any) -> Iterator[Any]:
    while logger is not None:
        yield logger
        logger = logger.parent


def shown_by() -> Iterator[Any]:
    """What warnings go to."""
    yield from (warnings.showwarning, warnings._showwarnmsg_impl)  # type: ignore[attr-defined]


def reached(parts: Iterable[Any]) -> list[Any] | None:
    """The objects that the program's code in these may read and write; None if that may be any."""
    found: dict[int, Any] = {}
    waiting = [part for part in parts if _is_programs(part)]
    while waiting:
        value = waiting.pop()
        if id(value) in found or _is_apart(value):
            continue
        found[id(value)] = value
        if len(found) > _ENOUGH or is_a(value, ModuleType):
            return None
        if type(value) is FunctionType:
            if _binds_globals(value.__code__):
                return None
            held = [*(value.__closure__ or ()), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            waiting += held + [value.__globals__[each] for each in _names(value.__code__) if each in value.__globals__]
        else:
            waiting += gc.get_referents(value)
    return [value for value in found.values() if type(value) is not FunctionType]


def _is_programs(part: Any) -> bool:
    """Whether a handler or the like has code of the program's, or is a container's method."""
    if type(part) is FunctionType:
        return not _is_apart(part)
    if type(part) is BuiltinFunctionType:
        return type(part.__self__) is list
    own = [each for _, each in raw_attributes(type(part).__mro__)] + [*_own(part).values()]
    return any(type(each) is FunctionType and not _is_apart(each) for each in own)


def _own(value: Any) -> Mapping[str, Any]:
    """Its own attributes, without asking the program's code for them."""
    return instance_dict(value) or {}


def _is_apart(value: Any) -> bool:
    kind = type(value)
    if kind in LITERALS or issubclass(kind, (logging.Logger, CodeType)):
        return True
    if kind is FunctionType:
        return value.__code__.co_filename.startswith((*INSTALLED, "<frozen"))
    if issubclass(kind, ModuleType):
        file = _own(value).get("__file__")
        return file is None or file.startswith(INSTALLED)
    return issubclass(kind, type) and not any(
        type(each) is FunctionType and not _is_apart(each) for each in namespace_of(value).values()
    )


@functools.lru_cache(maxsize=1000)
def _names(code: CodeType) -> tuple[str, ...]:
    inner = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return (*code.co_names, *(name for names in inner for name in names))


@functools.lru_cache(maxsize=1000)
def _binds_globals(code: CodeType) -> bool:
    if any(inst.op in ("STORE_GLOBAL", "DELETE_GLOBAL") for inst in decode(code).insts):
        return True
    return any(_binds_globals(each) for each in code.co_consts if isinstance(each, CodeType))
