"""Losses, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import (
    Lowering,
    Ref,
    Unsupported,
    broadcast,
    computed_in,
    fn,
    number,
    rounded,
    shape_of,
    to,
    where,
)
from codegen.kernels.lowering.elementwise import Formula
from codegen.kernels.lowering.reductions import converted, sized
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten
NONE, MEAN, SUM = range(3)  # how torch numbers what becomes of the elements
Elements = Callable[..., Expr]


def _broadcast_shape(*refs: Ref | None) -> tuple[Index, ...]:
    found: list[Index] = []
    for ref in refs:
        shape = list(ref.shape) if ref is not None else []
        found = [ix.index(1)] * (len(shape) - len(found)) + found
        for dim, size in enumerate(shape, len(found) - len(shape)):
            found[dim] = size if found[dim] == 1 else found[dim]
    return tuple(found)


def _size(shape: Sequence[Index]) -> Index:
    total = ix.index(1)
    for size in shape:
        total = total * size
    return total


def _reduced(low: Lowering, shape: Sequence[Index], value: Elements, reduction: int, dtype: torch.dtype) -> Ref:
    """The elements, their mean or their sum."""
    if reduction == NONE:
        return low.define(shape, dtype, lambda *at: to(value(*at), dtype))
    total = low.reduce("sum", shape, range(len(shape)), value, hint="sum")
    n = sized(_size(shape), total.dtype)
    return converted(low, total, dtype, (lambda e: e / n) if reduction == MEAN else None)


def _elements(refs: Sequence[Ref | None], wide: torch.dtype, formula: Formula) -> Elements:
    """formula(elements), broadcast; None for what is not given."""
    return lambda *at: formula(*(None if ref is None else to(broadcast(ref, at), wide) for ref in refs))


def _loss(low: Lowering, refs: Sequence[Ref | None], formula: Formula, reduction: int) -> Ref:
    wide = computed_in(low.out.dtype)
    return _reduced(low, _broadcast_shape(*refs), _elements(refs, wide, formula), reduction, low.out.dtype)


def _gradient(low: Lowering, grad: Ref, refs: Sequence[Ref | None], formula: Formula, reduction: int) -> Ref:
    """formula(grad, elements), of the mean's share."""
    wide, shape = computed_in(low.out.dtype), shape_of(low.out)
    n = sized(_size(shape), wide)

    def element(*at: Index) -> Expr:
        g = to(broadcast(grad, at), wide)
        values = (None if ref is None else to(broadcast(ref, at), wide) for ref in refs)
        found = formula(g, *values)
        return to(found / n if reduction == MEAN else found, low.out.dtype)

    return low.define(shape, low.out.dtype, element)


# --- distances --------------------------------------------------------------------------------------------------------
@lowers(aten.mse_loss.default)
def _mse(low: Lowering, x: Ref, y: Ref, reduction: int = MEAN) -> Ref:
    def distance(x: Expr, y: Expr) -> Expr:
        d = rounded(x - y, low.out.dtype)
        return d * d

    return _loss(low, [x, y], distance, reduction)


@lowers(aten.mse_loss_backward.default)
def _mse_backward(low: Lowering, grad: Ref, x: Ref, y: Ref, reduction: int) -> Ref:
    return _gradient(low, grad, [x, y], lambda g, x, y: 2 * (x - y) * g, reduction)


@lowers(aten.smooth_l1_loss.default)
def _smooth_l1(low: Lowering, x: Ref, y: Ref, reduction: int = MEAN, beta: float = 1.0) -> Ref:
    def distance(x: Expr, y: Expr) -> Expr:
        z = fn("abs", x - y)
        return where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)

    return _loss(low, [x, y], distance, reduction)


@lowers(aten.smooth_l1_loss_backward.default)
def _smooth_l1_backward(low: Lowering, grad: Ref, x: Ref, y: Ref, reduction: int, beta: float) -> Ref:
    def gradient(g: Expr, x: Expr, y: Expr) -> Expr:
        d = x - y
        return where(d <= -beta, -g, where(d >= beta, g, g * d / beta))

    return _gradient(low, grad, [x, y], gradient, reduction)


@lowers(aten.huber_loss.default)
def _huber(low: Lowering, x: Ref, y: Ref, reduction: int = MEAN, delta: float = 1.0) -> Ref:
    def distance(x: Expr, y: Expr) -> Expr:
        z = fn("abs", x - y)
        return where(z < delta, 0.5 * z * z, delta * (z - 0.5 * delta))

    return _loss(low, [x, y], distance, reduction)


@lowers(aten.huber_loss_backward.default)
def _huber_backward(low: Lowering, grad: Ref, x: Ref, y: Ref, reduction: int, delta: float) -> Ref:
    def gradient(g: Expr, x: Expr, y: Expr) -> Expr:
        d = x - y
        return where(d <= -delta, -g * delta, where(d >= delta, g * delta, g * d))

    return _gradient(low, grad, [x, y], gradient, reduction)


@lowers(aten.soft_margin_loss.default)
def _soft_margin(low: Lowering, x: Ref, y: Ref, reduction: int = MEAN) -> Ref:
    def margin(x: Expr, y: Expr) -> Expr:
        # torch makes it of operations, each of which rounds: of halves the power may be infinite
        power = fn("exp", to(-x * y, dtype))
        return to(fn("log1p", power), x.dtype)

    dtype = x.dtype
    return _loss(low, [x, y], margin, reduction)


@lowers(aten.soft_margin_loss_backward.default)
def _soft_margin_backward(low: Lowering, grad: Ref, x: Ref, y: Ref, reduction: int) -> Ref:
    def gradient(g: Expr, x: Expr, y: Expr) -> Expr:
        z = to(fn("exp", to(-x * y, dtype)), x.dtype)
        return -y * z / (1 + z) * g

    dtype = x.dtype
    return _gradient(low, grad, [x, y], gradient, reduction)


# --- cross entropy of two classes -------------------------------------------------------------------------------------
@lowers(aten.binary_cross_entropy.default)
def _bce(low: Lowering, x: Ref, y: Ref, weight: Ref | None = None, reduction: int = MEAN) -> Ref:
    def entropy(x: Expr, y: Expr, w: Expr | None) -> Expr:
        found = (y - 1) * fn("maximum", fn("log1p", -x), -100) - y * fn("maximum", fn("log", x), -100)
        are = fn("and", _is_probability(x), _is_probability(y))  # eager code raises where they are none
        found = where(ir.op("check", torch.bool, are), found, 0)
        return found if w is None else found * w

    return _loss(low, [x, y, weight], entropy, reduction)


def _is_probability(x: Expr) -> Expr:
    return fn("and", fn("ge", x, 0), fn("le", x, 1))


@lowers(aten.binary_cross_entropy_backward.default)
def _bce_backward(
    low: Lowering, grad: Ref, x: Ref, y: Ref, weight: Ref | None = None, reduction: int = MEAN
) -> Ref:
    def gradient(g: Expr, x: Expr, y: Expr, w: Expr | None) -> Expr:
        found = g * (x - y) / fn("maximum", (1 - x) * x, 1e-12)
        return found if w is None else found * w

    return _gradient(low, grad, [x, y, weight], gradient, reduction)


@lowers(aten.binary_cross_entropy_with_logits.default)
def _bce_with_logits(
    low: Lowering, x: Ref, y: Ref, weight: Ref | None = None, pos_weight: Ref | None = None, reduction: int = MEAN
) -> Ref:
    def entropy(x: Expr, y: Expr, w: Expr | None, p: Expr | None) -> Expr:
        # torch makes it of operations, each of which rounds
        log = halved(fn("minimum", x, 0) - fn("log1p", fn("exp", -fn("abs", x))))
        weighed = log if p is None else halved(halved(halved(halved(p - 1) * y) + 1) * log)
        found = halved(halved(halved(1 - y) * x) - weighed)
        return found if w is None else found * w

    def halved(value: Expr) -> Expr:
        return rounded(value, low.out.dtype)

    return _loss(low, [x, y, weight, pos_weight], entropy, reduction)


# --- of many classes --------------------------------------------------------------------------------------------------
def _class_of(
    target: Ref, at: Sequence[Index], classes: Index, ignored: Any
) -> tuple[Expr, Index, Expr]:
    """(whether the element counts, its class, the class as a number)"""
    label = to(target.at(at), torch.int64)
    counts = fn("ne", label, number(ignored, torch.int64))
    checked = ir.op("check_index", torch.int64, where(counts, label, 0), ir.position(classes))
    return counts, ix.index(ix.Value(checked, classes)), label


def _nll(
    low: Lowering, x: Ref, target: Ref, weight: Ref | None, reduction: int, ignored: Any
) -> tuple[Ref, Ref]:
    """x[batch, class, ...], target[batch, ...]; or one of each."""
    wide, classes = computed_in(x.dtype), x.shape[1 if x.dim > 1 else 0]
    if target.dtype != torch.int64 or any(size == 0 for size in target.shape):
        raise Unsupported("targets of another dtype, or none")

    def weighed(at: Sequence[Index]) -> Expr:
        counts, label, _ = _class_of(target, at, classes, ignored)
        one = ir.literal(1, wide) if weight is None else to(weight[label], wide)
        return where(counts, one, 0)

    def loss(*at: Index) -> Expr:
        counts, label, _ = _class_of(target, at, classes, ignored)
        element = x[label] if x.dim == 1 else x.at([at[0], label, *at[1:]])
        value = -to(element, wide)
        return where(counts, value if weight is None else value * to(weight[label], wide), 0)

    out, fake = low.out
    if reduction == NONE:
        nothing = low.define((), fake.dtype, lambda: ir.literal(0, fake.dtype), "total_weight")
        return low.define(target.shape, out.dtype, lambda *at: to(loss(*at), out.dtype)), nothing
    dims = range(target.dim)
    weights = low.reduce("sum", target.shape, dims, lambda *at: weighed(at), hint="weights")
    losses = low.reduce("sum", target.shape, dims, loss, hint="losses")
    by = (lambda e: e / weights[()]) if reduction == MEAN else None
    return converted(low, losses, out.dtype, by), converted(low, weights, fake.dtype)


lowers(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)(_nll)


@lowers(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def _nll_backward(
    low: Lowering, grad: Ref, x: Ref, target: Ref, weight: Ref | None, reduction: int, ignored: Any, weights: Ref
) -> Ref:
    wide, axis = computed_in(x.dtype), 1 if x.dim > 1 else 0
    if target.dtype != torch.int64:
        raise Unsupported("targets of another dtype")

    def element(*at: Index) -> Expr:
        own = [i for dim, i in enumerate(at) if dim != axis][: target.dim] if target.dim else []
        counts, _, label = _class_of(target, own, x.shape[axis], ignored)
        mine = counts & fn("eq", label, ir.position(at[axis]))
        g = -to(grad.at(own if grad.dim else []), wide)
        g = g / to(weights[()], wide) if reduction == MEAN else g
        g = g if weight is None else g * to(weight[at[axis]], wide)
        return to(where(mine, g, 0), low.out.dtype)

    return low.define(x.shape, low.out.dtype, element)
