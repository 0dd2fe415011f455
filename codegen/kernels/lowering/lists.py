"""Operations on lists of tensors, which optimizers are made of: each element is what the operation on one gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from codegen.kernels.lowering.context import Lowering, Ref, Unsupported
from codegen.kernels.lowering.table import LOWERINGS, Row, lowers

aten = torch.ops.aten


def _each(row: Row, last_is: str = "") -> Callable[..., list[Ref]]:
    """`row` for the elements of lists among the arguments, and for what is no list as it is. `last_is`: what the row
    calls an argument beyond the lists."""

    def rows(low: Lowering, *args: Any, **options: Any) -> list[Ref]:
        made, fakes = [], low.out
        lists = sum(isinstance(a, list | tuple) and all(isinstance(e, Ref) for e in a) for a in args)
        for number, fake in enumerate(fakes):
            low.out = fake
            given = [a[number] if isinstance(a, list | tuple) else a for a in args]
            if last_is:
                options |= dict(zip([last_is], given[lists:], strict=False))
                given = given[:lists]
            made.append(row(low, *given, **options))
        low.out = fakes
        return made

    return rows


_UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
    round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"""
for _name in _UNARY.split():
    lowers(getattr(aten, f"_foreach_{_name}").default)(_each(LOWERINGS[getattr(aten, _name).default]))

#: of lists -> of tensors, of which an argument may be a number
_BINARY = {
    "add": aten.add.Tensor, "sub": aten.sub.Tensor, "mul": aten.mul.Tensor, "div": aten.div.Tensor,
    "clamp_min": aten.clamp_min.Tensor, "clamp_max": aten.clamp_max.Tensor, "maximum": aten.clamp_min.Tensor,
    "minimum": aten.clamp_max.Tensor,
}  # fmt: skip
for _name, _one in _BINARY.items():
    _lists = getattr(aten, f"_foreach_{_name}")
    for _form in ("Scalar", "List", "ScalarList", "Tensor"):
        if _form in _lists.overloads():
            lowers(getattr(_lists, _form))(_each(LOWERINGS[_one]))


def _power(low: Lowering, x: Any, exponent: Any) -> Ref:
    form = aten.pow.Tensor_Tensor if isinstance(exponent, Ref) else aten.pow.Tensor_Scalar
    return LOWERINGS[form](low, x, exponent)


lowers(aten._foreach_pow.Scalar, aten._foreach_pow.List, aten._foreach_pow.ScalarList)(_each(_power))
for _name in ("addcmul", "addcdiv"):
    _lists = getattr(aten, f"_foreach_{_name}")
    lowers(_lists.Scalar, _lists.ScalarList)(_each(LOWERINGS[getattr(aten, _name).default], "value"))
lowers(aten._foreach_lerp.List, aten._foreach_lerp.Scalar, aten._foreach_lerp.ScalarList)(
    _each(LOWERINGS[aten.lerp.Tensor])
)


@lowers(aten._foreach_norm.Scalar)
def _norms(low: Lowering, tensors: Any, order: Any = 2, dtype: Any = None) -> list[Ref]:
    if dtype is not None:
        raise Unsupported("norms of another dtype")
    return _each(LOWERINGS[aten.linalg_vector_norm.default])(low, tensors, order)
