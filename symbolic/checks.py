"""Branches on tensors one side of which raises, as `assert` has them: the graph checks the tensor, and the frame is
read on along the other side.

Where the check fails, the frame runs again as it was written and raises what it raises. That is right as long as the
graph does nothing that lasts, which is looked up when it is done (`codegen/residual/failures.py`).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

from symbolic.code import Code
from symbolic.frames import Frame
from symbolic.sides import may_join
from symbolic.variables.arrays import ScalarVariable
from symbolic.variables.base import MISSING, Variable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.foreseen import foresee, truth
from symbolic.variables.numbers import NumberVariable, is_read, truth_of
from symbolic.variables.subclasses import SubclassVariable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

_RAISES = frozenset({"RAISE_VARARGS", "RERAISE"})
_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "SEND", "RETURN_GENERATOR"})
_ALWAYS_JUMPS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
#: A side with more instructions than this is not looked through.
_LONGEST = 200


def asked(tx: Translator, value: Variable) -> Variable:
    """Whose truth it is: a number of numpy's is a tensor, and one of the program's classes may be as a plain one."""
    if isinstance(value, SubclassVariable) and (not value.overrides or value.is_usual) and not tx.overrides.modes:
        return value.payload
    return value.tensor if isinstance(value, ScalarVariable) and not value.is_constant() else value


def jumps(tx: Translator, frame: Frame, value: Variable, target: int, when: bool) -> bool | None:
    """Whether a jump to an instruction that is done `when` a value is true, or is not, is done; None where that is
    known when the graph runs, and both ways may be read."""
    if isinstance(value, TensorVariable) and not tx.graph.inner and _is_one_on_cpu(value.fake):
        there, here = (_always_raises(frame.code, index) for index in (target, frame.index))
        if there != here:
            _check(tx, value, when is here)
            return here
    if isinstance(value, NumberVariable) and is_read(value) and not tx.graph.inner:
        there, here = (_always_raises(frame.code, index) for index in (target, frame.index))
        if there != here:
            tx.graph.check_number(value, when is here)
            return here
    if may_join(tx, frame, value) and not _is_foreseen(tx, value):
        return None
    return tx.truth(value) is when


def _is_foreseen(tx: Translator, value: Variable) -> bool:
    if isinstance(value, TensorVariable):
        return foresee(tx, value.node, truth) is not MISSING
    return not isinstance(truth_of(tx, value), NumberVariable)


def _check(tx: Translator, value: TensorVariable, wanted: bool) -> None:
    if tx.first_check is None:
        tx.first_check = tx.anchor(), value.describe()
    same_truth = tx.graph.call(operator.ne, [value, ConstantVariable(0)])
    holds = same_truth if wanted else tx.graph.call(torch.logical_not, [same_truth])
    tx.graph.call(torch._assert_async, [holds, ConstantVariable("a check of the program's fails")])


def _always_raises(code: Code, start: int) -> bool:
    """Whether all that can follow from an instruction on ends by raising."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        inst = code.insts[index]
        if inst.op in _LEAVES or len(seen) > _LONGEST:
            return False
        if inst.target >= 0:
            waiting.append(inst.target)
        if inst.op not in _RAISES and inst.op not in _ALWAYS_JUMPS:
            waiting.append(index + 1)
    return True


def _is_one_on_cpu(fake: torch.Tensor) -> bool:
    """On other devices a failed check is found late, and nothing runs after it."""
    return fake.device.type == "cpu" and all(isinstance(size, int) and size == 1 for size in fake.shape)
