"""Every fact of `symbolic` and `codegen` that depends on the CPython version. An unknown version is an error."""

from __future__ import annotations
import __future__

import dis
import functools
import operator
import sys

if not (3, 11) <= sys.version_info < (3, 14):
    raise ImportError(f"framejit knows CPython 3.11 to 3.13, this is {sys.version.split()[0]}")

PY312 = sys.version_info >= (3, 12)
PY313 = sys.version_info >= (3, 13)

#: Flags of code that a compilation inside of it inherits.
FUTURE = functools.reduce(operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
#: COMPARE_OP's operator index starts at this bit; below it stand the specialiser's hints (and "to bool" on 3.13).
COMPARE_SHIFT = 5 if PY313 else 4 if PY312 else 0
#: CALL finds (callable, self or NULL) on 3.13, (NULL, callable) or (method, self) before.
CALLABLE_FIRST = PY313
#: FOR_ITER leaves the exhausted iterator for END_FOR to pop (3.12), or END_FOR; POP_TOP (3.13).
FOR_ITER_KEEPS_ITERATOR = PY312

#: The `reverse` of a sort is converted to an int, not to a bool.
REVERSE_IS_AN_INT = not PY312
#: `eval` and `exec` take their namespaces by name, too.
NAMESPACES_BY_NAME = PY313
#: `generator.close()` gives what the generator returns.
CLOSE_RETURNS = PY313
#: A classmethod binds what it is around by that one's own `__get__`; later it makes a method of it, whatever it is.
CLASSMETHOD_ASKS = not PY313

#: Opcodes that code objects may have: no instrumented, specialised or pseudo ones (the compiler's own, from 256 on).
OPCODES = frozenset(name for name, op in dis.opmap.items() if op < 256 and not name.startswith("INSTRUMENTED_"))

INTRINSICS_1: list[str] = list(getattr(dis, "_intrinsic_1_descs", []))
INTRINSICS_2: list[str] = list(getattr(dis, "_intrinsic_2_descs", []))
_JUMPS = frozenset(dis.opname[op] for op in (*dis.hasjrel, *dis.hasjabs))
NO_FALLTHROUGH = frozenset(
    "RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT".split()
)
READS_LOCAL = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
WRITES_LOCAL = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})

#: Pushes a local that may be unbound; LOAD_FAST itself checks on 3.11 only, and pushes a null pointer later on.
LOAD_FAST_CHECK = "LOAD_FAST_CHECK" if PY312 else "LOAD_FAST"
#: Pushes the cell of a free or cell variable.
LOAD_CLOSURE = "LOAD_FAST" if PY313 else "LOAD_CLOSURE"
#: Instructions that leave a local unbound.
UNBINDS_LOCAL = frozenset({"DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
#: Forward conditional jumps are called this, followed by TRUE, FALSE, NONE or NOT_NONE.
JUMP_IF = "POP_JUMP_IF_" if PY312 else "POP_JUMP_FORWARD_IF_"
#: What stands at the place an exhausted FOR_ITER jumps to.
END_OF_FOR = ("END_FOR", "POP_TOP") if PY313 else ("END_FOR",) if PY312 else ()
#: Instructions that leave True or False and nothing else (COMPARE_OP with a cast is another).
GIVES_BOOL = frozenset({"IS_OP", "CONTAINS_OP", "UNARY_NOT", "TO_BOOL"})


def is_jump(opname: str) -> bool:
    return opname in _JUMPS


def line_of(inst: dis.Instruction) -> int | None:
    """The source line of a `dis` instruction, None if it has none."""
    return inst.positions.lineno if inst.positions is not None else None


def compare_to_bool(arg: int) -> bool:
    """Whether COMPARE_OP also converts its result to bool (3.13)."""
    return PY313 and bool(arg & 16)
#: How far behind the instruction at `f_lasti` a generator that is set aside goes on: since 3.13 `f_lasti` is that one.
GOES_ON_AFTER = 0 if PY313 else 2
#: Since 3.13 an exception that leaves a Python function is looked up for the instruction before its call: a call that
#: is the first instruction under a handler is under none.
RAISED_BEFORE_CALL = PY313
