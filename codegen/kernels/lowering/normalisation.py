"""Softmax and normalisations, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from codegen.kernels import index as ix
from codegen.kernels import ir
from codegen.kernels.index import Index
from codegen.kernels.ir import Expr
from codegen.kernels.lowering.context import Lowering, Ref, Unsupported, computed_in, fn, shape_of, to, where, wrap
from codegen.kernels.lowering.reductions import converted, count, deviations, kept, sized, total
from codegen.kernels.lowering.table import lowers

aten = torch.ops.aten


# --- softmax ----------------------------------------------------------------------------------------------------------
def _powers(low: Lowering, x: Ref, dim: int, wide: torch.dtype) -> tuple[Ref, Ref, Ref]:
    """(the row's largest element, distances to it, sums of their exponentials), first and last with the dim kept."""
    top = total(low, x, [dim], True, lambda e: e, "max", "max")
    below = low.define(x.shape, wide, lambda *at: to(x[at], wide) - to(top.at(kept(at, [dim])), wide), "below")
    return top, below, total(low, below, [dim], True, lambda e: fn("exp", e), hint="sum")


@lowers(aten._softmax.default)
def _softmax(low: Lowering, x: Ref, dim: int, half_to_float: bool = False) -> Ref:
    wide, dim = computed_in(low.out.dtype), wrap(dim, x.dim)
    if not x.dim:
        raise Unsupported("softmax of a number")
    _, below, sums = _powers(low, x, dim, wide)

    def element(*at: Index) -> Expr:
        return to(fn("exp", below[at]) / sums.at(kept(at, [dim])), low.out.dtype)

    return low.define(x.shape, low.out.dtype, element)


@lowers(aten._safe_softmax.default)
def _safe_softmax(low: Lowering, x: Ref, dim: int, dtype: Any = None) -> Ref:
    """Rows of nothing but -inf give zeros."""
    wide, dim = computed_in(low.out.dtype), wrap(dim, x.dim)
    if not x.dim or not x.dtype.is_floating_point:
        raise Unsupported("softmax of a number, or of integers")
    top, below, sums = _powers(low, x, dim, wide)

    def element(*at: Index) -> Expr:
        row = kept(at, [dim])
        found = to(fn("exp", below[at]) / sums.at(row), low.out.dtype)
        return where(fn("eq", top.at(row), -math.inf), 0, found)

    return low.define(x.shape, low.out.dtype, element)


@lowers(aten._log_softmax.default)
def _log_softmax(low: Lowering, x: Ref, dim: int, half_to_float: bool = False) -> Ref:
    wide, dim = computed_in(low.out.dtype), wrap(dim, x.dim)
    if not x.dim:
        raise Unsupported("softmax of a number")
    _, below, sums = _powers(low, x, dim, wide)

    def element(*at: Index) -> Expr:
        return to(below[at] - fn("log", sums.at(kept(at, [dim]))), low.out.dtype)

    return low.define(x.shape, low.out.dtype, element)


@lowers(aten._softmax_backward_data.default)
def _softmax_backward(low: Lowering, grad: Ref, y: Ref, dim: int, dtype: torch.dtype) -> Ref:
    wide, dim = computed_in(grad.dtype), wrap(dim, y.dim)
    over = [dim] if y.dim else []
    sums = low.reduce("sum", y.shape, over, lambda *at: to(grad[at], wide) * to(y[at], wide), True, "sum")

    def element(*at: Index) -> Expr:
        return to((to(grad[at], wide) - sums.at(kept(at, [dim]))) * to(y[at], wide), low.out.dtype)

    return low.define(y.shape, low.out.dtype, element)


@lowers(aten._log_softmax_backward_data.default)
def _log_softmax_backward(low: Lowering, grad: Ref, y: Ref, dim: int, dtype: torch.dtype) -> Ref:
    wide, dim = computed_in(grad.dtype), wrap(dim, y.dim)
    sums = total(low, grad, [dim] if y.dim else [], True, lambda e: to(e, wide), hint="sum")

    def element(*at: Index) -> Expr:
        return to(to(grad[at], wide) - fn("exp", to(y[at], wide)) * sums.at(kept(at, [dim])), low.out.dtype)

    return low.define(y.shape, low.out.dtype, element)


# --- what all normalisations share ------------------------------------------------------------------------------------
Place = Callable[[Sequence[Index]], Sequence[Index]]


def _scaled(value: Expr, weight: Ref | None, bias: Ref | None, at: Sequence[Index]) -> Expr:
    """value * weight[at] + bias[at]"""
    if weight is not None:
        value = value * to(weight.at(at), value.dtype)
    return value if bias is None else value + to(bias.at(at), value.dtype)


def _inverse_root(low: Lowering, squares: Ref, n: Index, eps: Any, wide: torch.dtype) -> Ref:
    """1 / sqrt(squares / n + eps)"""
    return converted(
        low, squares, wide, lambda e: fn("rsqrt", e / sized(n, wide) + eps)
    )


def _rounded(low: Lowering, ref: Ref, fake: torch.Tensor, hint: str) -> Ref:
    """The same values in the shape and dtype of a result."""
    shape = shape_of(fake)
    if ref.dtype == fake.dtype and ref.shape == shape:
        return ref

    def element(*at: Index) -> Expr:
        return to(ref.at(ix.indices_at(ix.linear_position(at, shape), ref.shape)), fake.dtype)

    return low.define(shape, fake.dtype, element, hint)


# --- layer norm -------------------------------------------------------------------------------------------------------
def _inner(x: Ref, normalized: Sequence[Any]) -> list[int]:
    return list(range(x.dim - len(normalized), x.dim))


@lowers(aten.native_layer_norm.default)
def _layer_norm(
    low: Lowering, x: Ref, normalized: Sequence[Any], weight: Ref | None, bias: Ref | None, eps: Any
) -> tuple[Ref, Ref, Ref]:
    wide, dims = computed_in(x.dtype), _inner(x, normalized)
    mean, squares = deviations(low, x, dims, wide)
    scale = _inverse_root(low, squares, count(x, dims), eps, wide)

    def element(*at: Index) -> Expr:
        row = kept(at, dims)
        value = (to(x[at], wide) - mean.at(row)) * scale.at(row)
        return to(_scaled(value, weight, bias, at[dims[0] :]), x.dtype)

    _, fake_mean, fake_scale = low.out
    return (
        low.define(x.shape, x.dtype, element),
        _rounded(low, mean, fake_mean, "mean"), _rounded(low, scale, fake_scale, "rstd"),
    )  # fmt: skip


@lowers(aten.native_layer_norm_backward.default)
def _layer_norm_backward(
    low: Lowering, grad: Ref, x: Ref, normalized: Sequence[Any], mean: Ref, scale: Ref, weight: Ref | None,
    bias: Ref | None, wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    wide, dims = computed_in(x.dtype), _inner(x, normalized)
    outer = [dim for dim in range(x.dim) if dim not in dims]

    def distance(at: Sequence[Index]) -> Expr:
        row = kept(at, dims)
        return (to(x.at(at), wide) - to(mean.at(row), wide)) * to(scale.at(row), wide)

    def slope(at: Sequence[Index]) -> Expr:
        return _scaled(to(grad.at(at), wide), weight, None, at[dims[0] :])

    def of_x() -> Ref:
        inverse = lambda at: to(scale.at(kept(at, dims)), wide)  # noqa: E731
        sums = _sums(low, x, dims, slope, distance)
        return _centred(low, x, count(x, dims), slope, distance, inverse, x.dtype, sums)

    return (
        of_x() if wanted[0] else None,
        _summed(low, 1, x.shape, outer, wanted, lambda *at: to(grad.at(at), wide) * distance(at)),
        _summed(low, 2, x.shape, outer, wanted, lambda *at: to(grad.at(at), wide)),
    )  # fmt: skip


def _sums(
    low: Lowering, x: Ref, dims: Sequence[int], slope: Callable[[Sequence[Index]], Expr],
    distance: Callable[[Sequence[Index]], Expr],
) -> Callable[[Sequence[Index]], tuple[Expr, Expr]]:
    """Over dims, of slope and slope * distance: in the row of an element."""
    sums = low.reduce("sum", x.shape, dims, lambda *at: slope(at), True, "sum")
    products = low.reduce("sum", x.shape, dims, lambda *at: slope(at) * distance(at), True, "products")
    return lambda at: (sums.at(kept(at, dims)), products.at(kept(at, dims)))


def _centred(
    low: Lowering, x: Ref, size: Index, slope: Callable[[Sequence[Index]], Expr],
    distance: Callable[[Sequence[Index]], Expr], scale: Callable[[Sequence[Index]], Expr], dtype: torch.dtype,
    sums: Callable[[Sequence[Index]], tuple[Expr, Expr]],
) -> Ref:
    """The gradient by x, which was normalised over rows of that size: scale * (slope - mean(slope) - distance *
    mean(slope * distance)), where `distance` is the normalised value. `sums`: in the row of an element, of slope and of
    slope * distance."""

    def element(*at: Index) -> Expr:
        of_slope, of_product = sums(at)
        n = sized(size, of_slope.dtype)
        return to(scale(at) * (slope(at) - (of_slope / n + distance(at) * (of_product / n))), dtype)

    return low.define(x.shape, dtype, element)


# --- RMS norm ---------------------------------------------------------------------------------------------------------
@lowers(aten._fused_rms_norm.default)
def _rms_norm(
    low: Lowering, x: Ref, normalized: Sequence[Any], weight: Ref | None, eps: Any
) -> tuple[Ref, Ref]:
    wide, dims = computed_in(x.dtype), _inner(x, normalized)
    if eps is None:
        eps = torch.finfo(wide).eps

    def square(e: Expr) -> Expr:
        return to(e, wide) * to(e, wide)

    scale = _inverse_root(low, total(low, x, dims, True, square, hint="squares"), count(x, dims), eps, wide)

    def element(*at: Index) -> Expr:
        return to(_scaled(to(x[at], wide) * scale.at(kept(at, dims)), weight, None, at[dims[0] :]), low.out[0].dtype)

    return low.define(x.shape, low.out[0].dtype, element), _rounded(low, scale, low.out[1], "rstd")


@lowers(aten._fused_rms_norm_backward.default)
def _rms_norm_backward(
    low: Lowering, grad: Ref, x: Ref, normalized: Sequence[Any], scale: Ref, weight: Ref | None,
    wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    wide, dims = computed_in(x.dtype), _inner(x, normalized)
    outer = [dim for dim in range(x.dim) if dim not in dims]

    def distance(at: Sequence[Index]) -> Expr:
        return to(x.at(at), wide) * to(scale.at(kept(at, dims)), wide)

    def slope(at: Sequence[Index]) -> Expr:
        return _scaled(to(grad.at(at), wide), weight, None, at[dims[0] :])

    def of_x() -> Ref:
        products = low.reduce("sum", x.shape, dims, lambda *at: slope(at) * distance(at), True, "products")
        n = sized(count(x, dims), wide)

        def element(*at: Index) -> Expr:
            row = kept(at, dims)
            change = slope(at) - distance(at) * (products.at(row) / n)
            return to(to(scale.at(row), wide) * change, x.dtype)

        return low.define(x.shape, x.dtype, element)

    return (
        of_x() if wanted[0] else None,
        _summed(low, 1, x.shape, outer, wanted, lambda *at: to(grad.at(at), wide) * distance(at)),
    )


# --- batch norm -------------------------------------------------------------------------------------------------------
def _channels(x: Ref) -> list[int]:
    """All dims but that of the channels."""
    return [dim for dim in range(x.dim) if dim != 1]


def _normalised(
    low: Lowering, x: Ref, fake: torch.Tensor, mean: Callable[[Index], Expr], scale: Callable[[Index], Expr],
    weight: Ref | None, bias: Ref | None,
) -> Ref:
    """(x - mean) * scale, scaled, by channel."""

    def element(*at: Index) -> Expr:
        m = mean(at[1])
        return to(_scaled((to(x[at], m.dtype) - m) * scale(at[1]), weight, bias, [at[1]]), fake.dtype)

    return low.define(x.shape, fake.dtype, element)


def _statistics(low: Lowering, x: Ref, eps: Any, wide: torch.dtype) -> tuple[Ref, Ref, Ref]:
    """(mean, sum of squared distances, 1 / standard deviation) by channel, one-dimensional."""
    over = _channels(x)
    sums = total(low, x, over, False, lambda e: to(e, wide), hint="sum")
    mean = converted(low, sums, wide, lambda e: e / sized(count(x, over), wide))

    def squared(*at: Index) -> Expr:
        distance = to(x[at], wide) - mean[at[1]]
        return distance * distance

    squares = low.reduce("sum", x.shape, over, squared, hint="squares")
    return mean, squares, _inverse_root(low, squares, count(x, over), eps, wide)


def _batch_norm(
    low: Lowering, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    training: bool, momentum: Any, eps: Any,
) -> list[Ref]:
    """[result, mean, 1 / standard deviation], as the fakes say (these may have no elements without training)."""
    wide = computed_in(x.dtype)
    fakes = low.out[:3]
    if training:
        mean, _, scale = _statistics(low, x, eps, wide)
        found = _normalised(low, x, fakes[0], lambda c: mean[c], lambda c: scale[c], weight, bias)
        return [found, *_saved(low, [mean, scale])]
    if running_mean is None or running_var is None or any(fake.numel() for fake in fakes[1:]):
        raise Unsupported("a batch norm without statistics of its own, which gives some")
    found = _normalised(
        low, x, fakes[0], lambda c: to(running_mean[c], wide), lambda c: _inverse(running_var, c, eps, wide),
        weight, bias,
    )
    nothing = [low.define(shape_of(f), f.dtype, lambda c, f=f: ir.literal(0, f.dtype), "saved") for f in fakes[1:]]
    return [found, *nothing]


def _inverse(var: Ref, channel: Index, eps: Any, wide: torch.dtype) -> Expr:
    return 1 / fn("sqrt", to(var[channel], wide) + eps)


def _saved(low: Lowering, refs: Sequence[Ref]) -> list[Ref]:
    named = zip(refs, low.out[1:3], ("mean", "rstd"), strict=True)
    return [_rounded(low, ref, fake, hint) for ref, fake, hint in named]


def _later(
    low: Lowering, running: Ref, fake: torch.Tensor, momentum: Any, new: Callable[[Index], Expr], hint: str
) -> Ref:
    """A running statistic after this batch."""

    def element(c: Index) -> Expr:
        value = new(c)
        return to(to(running[c], value.dtype) * (1 - momentum) + value * momentum, fake.dtype)

    return low.define(running.shape, fake.dtype, element, hint)


@lowers(aten.native_batch_norm.default)
def _native_batch_norm(
    low: Lowering, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    training: bool, momentum: Any, eps: Any,
) -> tuple[Ref, ...]:
    if training and (running_mean is not None or running_var is not None):
        raise Unsupported("statistics that are written")
    return tuple(_batch_norm(low, x, weight, bias, running_mean, running_var, training, momentum, eps))


@lowers(aten._native_batch_norm_legit.no_stats)
def _batch_norm_no_stats(
    low: Lowering, x: Ref, weight: Ref | None, bias: Ref | None, training: bool, momentum: Any, eps: Any
) -> tuple[Ref, ...]:
    return tuple(_batch_norm(low, x, weight, bias, None, None, training, momentum, eps))


@lowers(aten._native_batch_norm_legit_no_training.default)
def _batch_norm_no_training(
    low: Lowering, x: Ref, weight: Ref | None, bias: Ref | None, mean: Ref, var: Ref, momentum: Any, eps: Any
) -> tuple[Ref, ...]:
    return tuple(_batch_norm(low, x, weight, bias, mean, var, False, momentum, eps))


@lowers(aten._native_batch_norm_legit_functional.default)
def _batch_norm_functional(
    low: Lowering, x: Ref, weight: Ref | None, bias: Ref | None, running_mean: Ref, running_var: Ref, training: bool,
    momentum: Any, eps: Any,
) -> tuple[Ref, ...]:
    if not training:
        found = _batch_norm(low, x, weight, bias, running_mean, running_var, training, momentum, eps)
        fakes = zip((running_mean, running_var), low.out[3:], strict=True)
        return (*found, *(converted(low, running, fake.dtype) for running, fake in fakes))
    wide = computed_in(x.dtype)
    mean, squares, scale = _statistics(low, x, eps, wide)
    freedom = sized(count(x, _channels(x)) - 1, wide)
    return (
        _normalised(low, x, low.out[0], lambda c: mean[c], lambda c: scale[c], weight, bias),
        *_saved(low, [mean, scale]),
        _later(low, running_mean, low.out[3], momentum, lambda c: mean[c], "running_mean"),
        _later(low, running_var, low.out[4], momentum, lambda c: squares[c] / freedom, "running_var"),
    )


@lowers(aten.native_batch_norm_backward.default)
def _batch_norm_backward(
    low: Lowering, grad: Ref, x: Ref, weight: Ref | None, running_mean: Ref | None, running_var: Ref | None,
    mean: Ref | None, scale: Ref | None, training: bool, eps: Any, wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    wide, over = computed_in(x.dtype), _channels(x)

    def of_channel(c: Index) -> tuple[Expr, Expr]:
        if training:
            assert mean is not None and scale is not None
            return to(mean[c], wide), to(scale[c], wide)
        if running_mean is None or running_var is None:
            raise Unsupported("a batch norm of no statistics")
        return to(running_mean[c], wide), _inverse(running_var, c, eps, wide)

    def distance(at: Sequence[Index]) -> Expr:
        m, s = of_channel(at[1])
        return (to(x.at(at), wide) - m) * s

    def slope(at: Sequence[Index]) -> Expr:
        return _scaled(to(grad.at(at), wide), weight, None, [at[1]])

    def scaled(*at: Index) -> Expr:
        return to(slope(at) * of_channel(at[1])[1], low.out[0].dtype)

    sums = low.reduce("sum", x.shape, over, lambda *at: to(grad.at(at), wide), hint="sums")
    products = low.reduce("sum", x.shape, over, lambda *at: to(grad.at(at), wide) * distance(at), hint="products")

    def of_channel_sums(at: Sequence[Index]) -> tuple[Expr, Expr]:
        return _scaled(sums[at[1]], weight, None, [at[1]]), _scaled(products[at[1]], weight, None, [at[1]])

    def of_x() -> Ref:
        if not training:
            return low.define(x.shape, low.out[0].dtype, scaled)
        inverse = lambda at: of_channel(at[1])[1]  # noqa: E731
        return _centred(low, x, count(x, over), slope, distance, inverse, low.out[0].dtype, of_channel_sums)

    return (
        of_x() if wanted[0] else None,
        _rounded(low, products, low.out[1], "weight") if wanted[1] else None,
        _rounded(low, sums, low.out[2], "bias") if wanted[2] else None,
    )


def _summed(
    low: Lowering, result: int, shape: Sequence[Index], over: Sequence[int], wanted: Sequence[bool],
    value: Callable[..., Expr],
) -> Ref | None:
    """The gradient of a weight or bias, if it is wanted."""
    if not wanted[result] or low.out[result] is None:
        return None
    return converted(low, low.reduce("sum", shape, over, value, hint=f"sum_{result}"), low.out[result].dtype)


# --- group norm -------------------------------------------------------------------------------------------------------
class _Groups:
    """Groups of channels: which of them what belongs to, and sums over them. Rows are [batch, group, 1, 1]."""

    def __init__(self, low: Lowering, x: torch.Tensor, batch: Any, channels: Any, inner: Any, groups: int) -> None:
        self.low, self.size = low, ix.index(channels) // groups
        self.channels = tuple(map(ix.index, (batch, channels, inner)))
        self.shape = (self.channels[0], ix.index(groups), self.size, self.channels[2])
        #: Whether the channels of a place lie next to each other.
        self.lie_together = x.dim() > 2 and isinstance(x.stride(1), int) and x.stride(1) == 1

    def row(self, at: Sequence[Index]) -> list[Index]:
        """Of an element [batch, channel, ...]."""
        return [at[0], at[1] // self.size, ix.index(0), ix.index(0)]

    def flat(self, x: Ref) -> Ref:
        """x as [batch, channel, place]."""
        return self.low.define(
            self.channels, x.dtype, lambda n, c, place: x.at([n, c, *ix.indices_at(place, x.shape[2:])]), "flat", True
        )

    def of_channels(self, value: Callable[..., Expr], hint: str) -> Ref:
        """Sums of value(batch, channel, place), [batch, channel]."""
        return self.low.reduce("sum", self.channels, [2], value, hint=hint)

    def of(self, value: Callable[..., Expr], hint: str) -> Ref:
        """Sums of value(batch, channel)."""

        def element(n: Index, g: Index, c: Index, _: Index) -> Expr:
            return value(n, g * self.size + c)

        return self.low.reduce("sum", (*self.shape[:3], ix.index(1)), [2], element, True, hint)

    def summed(self, value: Callable[..., Expr], hint: str) -> Ref:
        """Sums of value(batch, channel, place): in the order of memory."""
        if self.lie_together:
            sums = self.of_channels(value, hint)
            return self.of(lambda *at: sums[at], hint)

        def element(n: Index, g: Index, c: Index, place: Index) -> Expr:
            return value(n, g * self.size + c, place)

        return self.low.reduce("sum", self.shape, [2, 3], element, True, hint)

    def at(self, ref: Ref, hint: str) -> Callable[[Sequence[Index]], Expr]:
        """What a group has, of an element [batch, channel, ...]: said of each channel if channels are gone through."""
        if not self.lie_together:
            return lambda at: ref.at(self.row(at)[: ref.dim])
        shape = self.channels[:2]
        each = self.low.define(shape, ref.dtype, lambda *at: ref.at(self.row(at)[: ref.dim]), hint, is_kept=True)
        return lambda at: each.at(at[:2])


@lowers(aten.native_group_norm.default)
def _group_norm(
    low: Lowering, x: Ref, weight: Ref | None, bias: Ref | None, batch: Any, channels: Any, inner: Any, groups: int,
    eps: Any,
) -> tuple[Ref, ...]:
    wide, grouped = computed_in(x.dtype), _Groups(low, low.fake(0), batch, channels, inner, groups)
    flat, size = grouped.flat(x), grouped.size * grouped.shape[3]
    mean = converted(
        low, grouped.summed(lambda *at: to(flat[at], wide), "sum"), wide, lambda e: e / sized(size, wide)
    )
    mean_of = grouped.at(mean, "mean_of")

    def squared(*at: Index) -> Expr:
        distance = to(flat[at], wide) - mean_of(at)
        return distance * distance

    scale = _inverse_root(low, grouped.summed(squared, "squares"), size, eps, wide)
    scale_of = grouped.at(scale, "rstd_of")

    def element(*at: Index) -> Expr:
        return to(_scaled((to(x[at], wide) - mean_of(at)) * scale_of(at), weight, bias, [at[1]]), x.dtype)

    return low.define(x.shape, x.dtype, element), *_saved(low, [mean, scale])


@lowers(aten.native_group_norm_backward.default)
def _group_norm_backward(
    low: Lowering, grad: Ref, x: Ref, mean: Ref, scale: Ref, weight: Ref | None, batch: Any, channels: Any, inner: Any,
    groups: int, wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    """Sums of each channel first, once through the memory: all three gradients need them."""
    wide, grouped = computed_in(x.dtype), _Groups(low, low.fake(1), batch, channels, inner, groups)
    flat, changes = grouped.flat(x), grouped.flat(grad)
    mean_of, scale_of = grouped.at(mean, "mean_of"), grouped.at(scale, "rstd_of")

    def distance(x: Ref, at: Sequence[Index]) -> Expr:
        return to(x.at(at), wide) - to(mean_of(at), wide)

    def slope(at: Sequence[Index]) -> Expr:
        return _scaled(to(grad.at(at), wide), weight, None, [at[1]])

    def scaled(value: Expr, at: Sequence[Index]) -> Expr:
        return value * to(scale_of(at), wide)

    products = grouped.of_channels(lambda *at: to(changes[at], wide) * distance(flat, at), "products")
    sums = grouped.of_channels(lambda *at: to(changes[at], wide), "sums")

    def of_group(value: Callable[..., Expr], hint: str) -> Callable[[Sequence[Index]], Expr]:
        return grouped.at(grouped.of(lambda *at: _scaled(value(*at), weight, None, [at[1]]), hint), f"{hint}_of")

    def of_x() -> Ref:
        of_slope = of_group(lambda *at: sums[at], "sum")
        of_product = of_group(lambda *at: scaled(products[at], at), "product")
        return _centred(
            low, x, grouped.size * grouped.shape[3], slope, lambda at: scaled(distance(x, at), at),
            lambda at: to(scale_of(at), wide), low.out[0].dtype, lambda at: (of_slope(at), of_product(at)),
        )  # fmt: skip

    return (
        of_x() if wanted[0] else None,
        _summed(low, 1, grouped.channels[:2], [0], wanted, lambda *at: scaled(products[at], at)),
        _summed(low, 2, grouped.channels[:2], [0], wanted, lambda *at: sums[at]),
    )
