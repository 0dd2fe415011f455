"""Text that runs as code: `compile`, `eval` and `exec` of what is known, traced like a call.

The code runs in a namespace that the frame made, in a module's globals, or among the names of its caller, which it only
reads. A break in it is one at the call that runs it; where that would see other locals, the whole frame runs as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING

from symbolic.code import decode, looks_at_frames, names
from symbolic.errors import READS_FRAME, GraphBreak, Observed, Restart
from symbolic.frames import Frame
from symbolic.variables.base import Variable
from symbolic.variables.builtins import local_names
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.functions import GENERATOR_FLAGS
from symbolic.variables.mappings import DictVariable
from symbolic.variables.namespaces import BornNames, NamespaceVariable
from symbolic.variables.tables import handles, known
from symbolic.versions import FUTURE, NAMESPACES_BY_NAME
from symbolic.warned import Hearing

if TYPE_CHECKING:
    from symbolic.translator import Translator

REASON = "text that runs as code"
NONE, NO = ConstantVariable(None), ConstantVariable(False)
NO_FLAGS, AS_IT_IS = ConstantVariable(0), ConstantVariable(-1)
#: What may show that each run has locals of its own.
_ASKS = frozenset("locals vars dir eval exec".split())
_STORES = frozenset(("STORE_NAME", "DELETE_NAME", "IMPORT_STAR"))


@functools.lru_cache(1 << 10)
def _compiled(source: str | bytes, filename: str, mode: str, flags: int, optimize: int) -> CodeType:
    """Code is compiled once: what is captured again is the same code. Raises GraphBreak for what warns, each time."""
    with Hearing() as warned:
        try:
            found = compile(source, filename, mode, flags, True, optimize)
        except SyntaxError:
            if not warned:
                raise
    if warned:
        raise GraphBreak("operation that warns", str(warned[0].message))
    assert isinstance(found, CodeType), flags
    return found


def _flags(tx: Translator) -> int:
    return tx.frames[-1].code.raw.co_flags & FUTURE


#: Types of source, file, mode, flags, whether nothing is inherited, level.
_GIVEN = {(text, str, str, int, alone, int) for text in (str, bytes) for alone in (bool, int)}


@handles(compile)
def _compile(
    tx: Translator, source: Variable, filename: Variable, mode: Variable, flags: Variable = NO_FLAGS,
    dont_inherit: Variable = NO, optimize: Variable = AS_IT_IS, **named: Variable,
) -> Variable:  # fmt: skip
    given = [known(tx, value) for value in (source, filename, mode, flags, dont_inherit, optimize)]
    if named or tuple(map(type, given)) not in _GIVEN:
        raise GraphBreak(REASON, source.describe())
    text, place, kind, asked, alone, level = given
    if asked & ~FUTURE:
        raise GraphBreak(REASON, "as another form of a program")
    code = tx.attempt(_compiled, text, place, kind, asked | (0 if alone else _flags(tx)), level)
    return tx.wrap(code, tx.sources.const(code, f"code of {place}"))


def _eval(tx: Translator, source: Variable, globals: Variable = NONE, locals: Variable = NONE, /) -> Variable:  # noqa: A002
    if source.is_constant() and isinstance(source.constant(), str):
        source = ConstantVariable(source.constant().lstrip(" \t"))
    return _run(tx, _code_of(tx, source, "eval"), globals, locals)


def _exec(
    tx: Translator, source: Variable, globals: Variable = NONE, locals: Variable = NONE, /,  # noqa: A002
    *, closure: Variable = NONE,
) -> Variable:  # fmt: skip
    if closure is not NONE:
        raise GraphBreak(REASON, "with a closure")
    _run(tx, _code_of(tx, source, "exec"), globals, locals)
    return NONE


def _eval_by_name(
    tx: Translator, source: Variable, /, globals: Variable = NONE, locals: Variable = NONE,  # noqa: A002
) -> Variable:  # fmt: skip
    return _eval(tx, source, globals, locals)


def _exec_by_name(
    tx: Translator, source: Variable, /, globals: Variable = NONE, locals: Variable = NONE,  # noqa: A002
    *, closure: Variable = NONE,
) -> Variable:  # fmt: skip
    return _exec(tx, source, globals, locals, closure=closure)


handles(eval)(_eval_by_name if NAMESPACES_BY_NAME else _eval)
handles(exec)(_exec_by_name if NAMESPACES_BY_NAME else _exec)


def _code_of(tx: Translator, source: Variable, mode: str) -> CodeType:
    real = source.real()
    if isinstance(real, CodeType):
        code = real
    else:
        text = known(tx, source)
        if type(text) not in (str, bytes):
            raise GraphBreak(REASON, source.describe())
        code = tx.attempt(_compiled, text, "<string>", mode, _flags(tx), -1)
        tx.from_text.update(map(id, _all_of(code)))
    if code.co_flags & GENERATOR_FLAGS or code.co_freevars or looks_at_frames(code):
        raise GraphBreak(REASON, f"{code.co_name} of {code.co_filename}")
    return code


def _all_of(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of functions and classes in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _all_of(const)


def _run(tx: Translator, code: CodeType, globals: Variable, locals: Variable) -> Variable:  # noqa: A002
    if _is_none(globals):
        return _among_names_of_caller(tx, code, locals)
    frame = _frame(tx, code, globals)
    frame.space = globals if _is_none(locals) else _mapping(locals)
    return tx.run(frame)


def _frame(tx: Translator, code: CodeType, globals: Variable) -> Frame:  # noqa: A002
    if isinstance(globals, NamespaceVariable):
        return Frame(decode(code), code.co_qualname, globals)
    if not isinstance(globals, DictVariable) or globals.cls is not dict or globals.source is not None:
        raise GraphBreak(REASON, f"in {globals.describe()}")
    space = BornNames(globals)
    if space.find(tx, "__builtins__") is None:
        own = tx.namespace(tx.frames[-1].namespace.builtins(tx))  # type: ignore[attr-defined]
        globals.store(tx, ConstantVariable("__builtins__"), own)
    return Frame(decode(code), code.co_qualname, space)


def _mapping(space: Variable) -> Variable:
    if space.python_type() is MappingProxyType:
        raise GraphBreak(REASON, "in a proxy")
    return space


def _among_names_of_caller(tx: Translator, code: CodeType, locals: Variable) -> Variable:  # noqa: A002
    """Where the globals are the caller's, and the locals, too, if none are given: as they are now. In a function what
    the code stores there is seen by nobody but such code."""
    caller = tx.frames[-1]
    stores = any(inst.op in _STORES for inst in decode(code).insts)
    frame = Frame(decode(code), code.co_qualname, caller.namespace)
    if not _is_none(locals):
        frame.space = _mapping(locals)
        return tx.run(frame)
    is_function = bool(caller.code.raw.co_flags & inspect.CO_OPTIMIZED)
    if (stores and is_function) or names(code, _ASKS) or caller.shared_names is not None:  # which is brought up to date
        raise GraphBreak(READS_FRAME, REASON)
    try:
        frame.space = local_names(tx, caller)
        return tx.run(frame)
    except (GraphBreak, Restart) as left:
        cause = left.cause if isinstance(left, Restart) else left
        del tx.frames[tx.frames.index(caller) + 1 :]
        raise GraphBreak(READS_FRAME, f"{REASON}: {cause.reason}") from left
    except Observed as raised:
        tx.stays_in_frame(raised.variable)
        raise


def _is_none(variable: Variable) -> bool:
    return variable.is_constant() and variable.constant() is None


