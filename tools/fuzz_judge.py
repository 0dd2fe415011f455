"""Whether a program does compiled what it does eagerly: called with three worlds of arguments, each of them again as
the first call left it, and everything compared that a caller can see (`tests.differential`)."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import gc
import io
import itertools
import os
import sys
import traceback
import types
import warnings
from dataclasses import dataclass, field
from typing import Any

import jit
from codegen.residual.failures import LEFT_OUT
from symbolic.translator import ESCAPES
from tests import differential
from tests.anew import begin_anew

WAYS = 3
#: Lines that a program runs eagerly, at most: some never end.
LONGEST = 20_000
#: The module that programs are, which lies where the differential tests look for what a program can reach.
MODULE = "tests.fuzzed"


#: Files of what a graph is run by.
_GRAPHS = ("<eval_with_key>", "<aot wrapper")


@dataclass(frozen=True)
class Verdict:
    """`kind`: of the trouble, "" if there is none. `reasons`: of graph breaks, and of frames that ran as they are.
    `judged`: False if it is no program, or does not end."""

    kind: str = ""
    trouble: str = ""
    reasons: frozenset[str] = field(default_factory=frozenset)
    judged: bool = True


class _Endless(BaseException):
    """A program ran longer than it may, or deeper: how many levels are left depends on who calls it, and on how many of
    the interpreter's own calls lie between."""


def load(text: str) -> Any:
    """The module that the program is."""
    module = types.ModuleType(MODULE)
    module.__file__ = os.path.join(differential.HERE, "fuzzed.py")
    sys.modules[MODULE] = module
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the parser, about what makes no sense
        differential.execute(text, module.__dict__)
    return module


def tried(text: str) -> list[str] | None:
    """What the program raises eagerly, "" where it returns; None if it is no program, or one that does not end but for
    a RecursionError."""
    left, raised = LONGEST, []

    def count(frame: types.FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != differential.WRITTEN[-1]:
            return None
        left -= 1
        if left < 0 or (event == "exception" and issubclass(arg[0], RecursionError)):
            raise _Endless
        return count

    before, written = sys.gettrace(), len(differential.WRITTEN)
    try:
        for way in range(WAYS):
            module = load(text)  # each in a world of its own, as the judge has it
            arguments = module.arguments(way)
            raised.append(_raised(module.program, arguments, count))
            _raised(module.program, arguments, count)
    except (_Endless, Exception):
        return None
    finally:
        sys.settrace(before)
        del differential.WRITTEN[written:]
    return raised


def _raised(program: Any, arguments: Any, trace: Any) -> str:
    sys.settrace(trace)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            afterwards(program(*arguments), *arguments)
        except MemoryError:
            raise
        except Exception as error:
            raised = type(error).__name__
        else:
            raised = ""
    if sys.gettrace() is not trace:  # nor could `trace` be called there
        raise _Endless
    return raised


def judge(text: str) -> Verdict:
    if tried(text) is None:
        return Verdict(judged=False)
    begin_anew()
    written, module = len(differential.WRITTEN), load(text)
    doors: list[Any] = []

    def compiler(function: Any, **options: Any) -> Any:
        compiled = differential.compile_with_jit(function, **options)
        doors.extend([compiled] if hasattr(compiled, "compiler") else [])  # a generator stays as it is
        return compiled

    try:
        differential.check(module.program, compiler=compiler, **_calls(module))
    except Exception as error:
        if excuse := _excuse(error) or by_chance(load(text)):
            return Verdict(reasons=frozenset({excuse}))
        return Verdict(_kind(error), f"{type(error).__name__}: {error}")
    finally:
        del differential.WRITTEN[written:]
    records = [record for door in doors for record in door.compiler.records]
    reasons = {each.reason for record in records for each in record.breaks} | {record.skipped for record in records}
    return Verdict(reasons=frozenset(reasons - {ESCAPES, ""}))


def _calls(module: Any) -> dict[str, Any]:
    first, *changed = [lambda way=way: module.arguments(way) for way in range(WAYS)]
    backend = getattr(module, "BACKEND", "eager")
    compiled = {"backend": backend, "tolerance": None if backend == "eager" else differential.CLOSE}
    return {"make": first, "changed": changed, "then": afterwards, "nodes": False, **compiled}


def by_chance(module: Any) -> str:
    """Why a difference is none of the program, which was loaded anew: it differs from itself, as where it counts the
    letters of an address, or the calls that fit on the stack (of which there are more when Python has quickened it), or
    it sees what is left to the collector, and there is no difference where that runs at the end of each call."""
    program, rest = module.program, _calls(module)
    try:
        differential.check(program, compiler=lambda function, **options: function, **rest)
    except differential.NotTheSame:
        return "no two runs are the same"
    try:
        differential.check(program, compiler=lambda function, **options: _collecting(function), **rest)
    except differential.NotTheSame:
        jit.reset()
        with contextlib.suppress(Exception):
            differential.check(_collecting(program), compiler=_compiled_and_collecting, **rest)
            return "what is left to the collector is seen"
    return ""


def _compiled_and_collecting(function: Any, **options: Any) -> Any:
    return _collecting(differential.compile_with_jit(function.__wrapped__, **options))


def _collecting(function: Any) -> Any:
    @functools.wraps(function)
    def run(*args: Any) -> Any:
        try:
            return function(*args)
        finally:
            gc.collect()

    return run


def _excuse(error: BaseException) -> str:
    """Why both may raise, and yet leave other traces."""
    said, raised = str(error), error.__cause__
    if not isinstance(error, differential.NotTheSame) or raised is None or "call: eager " in said:
        return ""
    if differential.OF_CPP in str(raised):
        return "warning of C++, which is given once in a process"
    if isinstance(raised, UnboundLocalError) and "traceback has" in said:
        return "instruction of two lines"  # where Python 3.11 joins a store and a load, it is as if both were the store
    if LEFT_OUT in getattr(raised, "__notes__", ()):
        return "graph that writes raises"
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(raised.__traceback__)]
    return "graph that writes raises" if any(name.startswith(_GRAPHS) for name in frames) else ""


def _kind(error: BaseException) -> str:
    """What stays the same while a program is made smaller: which exception, and which side raised."""
    inner = error.__cause__ if isinstance(error, differential.NotTheSame) else None
    return f"{type(error).__name__} {type(inner).__name__ if inner is not None else ''}".strip()


def afterwards(result: Any, *arguments: Any) -> list[Any]:
    """What a caller does with what it got: steps through iterators, calls functions."""
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else [result]
    return [_used(part) for part in parts]


def _used(value: Any) -> Any:
    try:
        if isinstance(value, collections.abc.Iterator):
            return list(itertools.islice(value, 5))
        return value(2) if isinstance(value, types.FunctionType) else None
    except Exception as error:
        return repr(error)
