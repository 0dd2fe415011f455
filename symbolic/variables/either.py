"""Tensors that may be others: what a branch gives is new on one of its sides, and came from before it on another.

Whether two such are one is known when the graph runs. Operations that only read them are right all the same; what
changes one of them, or asks which it is, breaks the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch

from symbolic.errors import UNSURE, GraphBreak
from symbolic.refusals import tensors_in
from symbolic.variables.base import Variable
from symbolic.variables.tensors import TensorVariable

if TYPE_CHECKING:
    from symbolic.translator import Translator

#: What tells one tensor from another that looks the same, or is about it alone.
_ITS_OWN = frozenset("""_version _base grad grad_fn output_nr retains_grad names register_hook retain_grad
    requires_grad_ register_post_accumulate_grad_hook __dict__ __hash__""".split())


def memory(fake: torch.Tensor) -> int:
    """What tells where a stand-in lies."""
    return int(fake.untyped_storage()._cdata)


def check_sure(unsure: set[int], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raises GraphBreak where an operation that changes something is given what may be another tensor, too."""
    if any(memory(tensor) in unsure for tensor in tensors_in((args, kwargs))):
        raise GraphBreak(UNSURE, "written to")


class EitherTensor(TensorVariable):
    """One that may be a tensor from before the branch."""

    is_unsure = True

    def getattr(self, tx: Translator, name: str) -> Variable:
        if name in _ITS_OWN or not hasattr(torch.Tensor, name):
            raise GraphBreak(UNSURE, name)
        return super().getattr(tx, name)

    def method(self, tx: Translator, name: str, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
        if name in _ITS_OWN:
            raise GraphBreak(UNSURE, name)
        return super().method(tx, name, args, kwargs)

    def _refuse(self, *args: Any) -> NoReturn:
        raise GraphBreak(UNSURE, self.describe())

    setattr = delattr = key = _refuse  # type: ignore[assignment]
