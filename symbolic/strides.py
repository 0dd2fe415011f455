"""How the results of operations on elements lie in memory in eager code.

Torch runs most of them in one loop over all operands, whose dims it sorts by the strides of the first operand, where
these are equal or 0 by those of the next. Torch's stand-ins know this by halves: what they say differs where dims have
one element or none, where operands are of several dtypes or expanded, and where indices are turned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import torch

aten = torch.ops.aten

#: Operations on elements that are not one such loop, and those whose loop has other operands than they have arguments.
_OTHERWISE = frozenset({
    aten.clone.default, aten.deg2rad.default, aten.rad2deg.default, aten.hardtanh.default, aten.isinf.default,
    aten.ldexp.Tensor, aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.mvlgamma.default, aten.nan_to_num.default,
    aten.native_dropout_backward.default, aten.pow.Scalar, aten.threshold_backward.default,
})  # fmt: skip
#: Their numbers are no operands.
_OF_NUMBERS = frozenset({aten.lerp.Scalar, aten.pow.Tensor_Scalar})


class Look(NamedTuple):
    """Of a tensor, or of a number that the loop takes for one."""

    shape: Sequence[Any]
    strides: Sequence[Any]
    dtype: torch.dtype | None = None
    is_on_cpu: bool = True


Looks = list[Any]  # of arguments: a Look, a list of such, or what isn't a tensor
Rule = Callable[[Any, Looks, Look], Sequence[Any] | None]
NUMBER = Look((), ())


class _Unbacked(Exception):
    """A size depends on values."""


def strides_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], made: Any
) -> tuple[Any, ...] | None:
    """The strides of what the operation gives, which is `made` but for these; None where `made` has them.

    Sizes that vary are looked at where torch is wrong for those of now, and only there."""
    rule = _RULES.get(func, _of_elements if _is_loop(func) else None)
    if rule is None or not isinstance(made, torch.Tensor) or not made.dim() or made.layout is not torch.strided:
        return None
    if made.device.type == "meta":
        return None
    given = (*args, *kwargs.values())
    try:
        now = _look(made, _hint)
        found = rule(func, [_look(each, _hint) for each in given], now)
    except _Unbacked:
        return None
    if found is None or tuple(found) == now.strides:
        return None
    found = rule(func, [_look(each, _itself) for each in given], _look(made, _itself))
    return None if found is None else tuple(found)


def _look(value: Any, number: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        shape, strides = (tuple(map(number, each)) for each in (value.shape, value.stride()))
        return Look(shape, strides, value.dtype, value.device.type == "cpu")
    if isinstance(value, (list, tuple)):
        return [number(each) if isinstance(each, torch.SymInt) else _look(each, number) for each in value]
    return value


def _itself(number: Any) -> Any:
    return number


def _hint(number: Any) -> Any:
    if not isinstance(number, torch.SymInt):
        return number
    if number.node.hint is None:
        raise _Unbacked
    return number.node.hint


# --- operations -------------------------------------------------------------------------------------------------------
@cache
def _is_loop(func: Any) -> bool:
    if not isinstance(func, torch._ops.OpOverload) or torch.Tag.pointwise not in func.tags or func in _OTHERWISE:
        return False
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    is_new = not func._schema.is_mutable and torch.Tag.nondeterministic_seeded not in func.tags
    return is_new and not is_composite and func.namespace == "aten"


@cache
def _takes_numbers(func: Any) -> bool:
    return "scalar" in func._overloadname.lower() and func not in _OF_NUMBERS


@cache
def _operands(func: Any) -> tuple[bool, ...]:
    """Which arguments are tensors, or numbers in the place of some."""
    return tuple("Tensor" in str(each.type) for each in func._schema.arguments)


def _of_elements(func: Any, given: Looks, made: Look) -> Sequence[Any]:
    found = [value for value in given if isinstance(value, Look)]
    condition = found[:1] if func is aten.where.self else []
    common = made.dtype
    if common is torch.bool:
        common = reduce(torch.promote_types, (each.dtype for each in found if each.dtype is not None))
    operands = condition + [_of_dtype(each, common) for each in found[len(condition) :]]
    numbers = (value for value, is_one in zip(given, _operands(func), strict=False) if is_one and value is not None)
    if _takes_numbers(func) or not all(isinstance(value, Look) for value in numbers):
        operands.append(NUMBER)
    return of_loop(operands)


def _of_dtype(look: Look, dtype: torch.dtype | None) -> Look:
    """On a CPU it is converted before the loop where it has another."""
    return look if look.dtype == dtype or not look.is_on_cpu else look._replace(strides=preserved(look))


def _of_like(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    is_preserving = not any(isinstance(each, torch.memory_format) for each in given[1:])
    return preserved(given[0]) if is_preserving else None


def _of_rows(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    return _packed(made.shape, range(len(made.shape))[::-1], 1)


def _of_index(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    source, indices = given
    found = [each for each in indices if each is not None]
    if any(each.dtype not in (torch.int64, torch.int32) for each in found):
        return None  # masks
    if len(found) > 1 and not source.is_on_cpu:
        return None  # of indices that lie differently CUDA makes copies
    return of_lookup(source, indices)


def _of_dropout_backward(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    """The gradient by the mask, which was scaled before."""
    grad, mask = (_of_dtype(each, made.dtype) for each in given[:2])
    return of_loop([grad, mask._replace(strides=preserved(mask))])


def _by_channels(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    """If what comes in is."""
    return _packed(made.shape, _CHANNELS_LAST, 0) if _is_by_channels(given[0]) else None


def _of_roll(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    """Two parts are joined, of which the second may be empty; without dims, it is taken as one row."""
    source, shifts, dims = (*given, ())[:3]
    is_by_channels = len(dims) > 0 and _is_by_channels(source)
    is_parted = is_by_channels and all(by % source.shape[dim] != 0 for by, dim in zip(shifts, dims, strict=True))
    return _packed(made.shape, _CHANNELS_LAST, 0) if is_parted else None


def _of_pad(func: Any, given: Looks, made: Look) -> Sequence[Any] | None:
    """Where nothing is added it is a copy of what is left."""
    return None if any(added > 0 for added in given[1]) else preserved(given[0]._replace(shape=made.shape))


#: The dims of images from the innermost out.
_CHANNELS_LAST = (1, 3, 2, 0)


def _is_by_channels(look: Look) -> bool:
    """What `Tensor.suggest_memory_format` goes by."""
    if len(look.shape) != 4 or look.strides[1] == 0:
        return False
    least: Any = 0
    for dim in _CHANNELS_LAST:
        size, stride = look.shape[dim], look.strides[dim]
        if size == 0 or stride < least or (dim == 0 and least == look.strides[1]):
            return False
        least = stride * size if size > 1 else stride
    return True


_RULES: dict[Any, Rule] = {
    aten.native_dropout_backward.default: _of_dropout_backward,
    aten.max_unpool2d.default: _by_channels,
    aten.roll.default: _of_roll,
    aten.constant_pad_nd.default: _of_pad,
    **dict.fromkeys((aten.index.Tensor, aten._unsafe_index.Tensor), _of_index),
    **dict.fromkeys((aten.empty_like.default, aten.full_like.default), _of_like),
    **dict.fromkeys((aten.ones_like.default, aten.zeros_like.default), _of_like),
    **dict.fromkeys((aten.rand_like.default, aten.randn_like.default), _of_like),
    **dict.fromkeys((aten.flip.default, aten.nan_to_num.default), _of_like),
    **dict.fromkeys((aten.deg2rad.default, aten.rad2deg.default, aten.hardtanh.default), _of_like),
    **dict.fromkeys((aten.index_fill.int_Scalar, aten.index_fill.int_Tensor), _of_like),
    **dict.fromkeys((aten.pow.Scalar, aten.tril.default, aten.triu.default), _of_rows),
}


# --- loops ------------------------------------------------------------------------------------------------------------
def of_loop(operands: Sequence[Look]) -> tuple[Any, ...]:
    """The strides of what a loop over such operands gives."""
    shape, *rest = (each.shape for each in operands)
    if all(tuple(sizes) == tuple(shape) for sizes in rest):
        rows = range(len(shape))[::-1]
        if all(_is_packed(each, rows) for each in operands):
            return _packed(shape, rows, 1)
        if len(shape) == 4 and all(_is_packed(each, (1, 3, 2, 0)) for each in operands):
            return _packed(shape, (1, 3, 2, 0), 0)
        first = tuple(operands[0].strides)
        if is_dense(operands[0]) and all(tuple(each.strides) == first for each in operands):
            return first
    shape = _broadcast([each.shape for each in operands])
    order = _order(shape, [_expanded(each, shape) for each in operands])
    return _packed(shape, order, int(order == sorted(order, reverse=True)))


def preserved(look: Look) -> tuple[Any, ...]:
    """The strides of a copy that lies as the original does."""
    shape, strides, *_ = look
    return tuple(strides) if is_dense(look) else _packed(shape, _order(shape, [strides]), 1)


def of_lookup(source: Look, indices: Sequence[Look | None]) -> tuple[Any, ...]:
    """The strides of `source[indices]`; None: all of that dim."""
    (sizes, strides, *_), shape = source, _broadcast([each.shape for each in indices if each is not None])
    indices = [*indices, *[None] * (len(sizes) - len(indices))]
    places = [dim for dim, each in enumerate(indices) if each is not None]
    rest = [dim for dim, each in enumerate(indices) if each is None]
    is_together = places[-1] - places[0] < len(places)
    before = [dim for dim in rest if dim < places[0]] if is_together else []
    after = [dim for dim in rest if dim not in before]
    laid = [*(strides[dim] for dim in before), *[0] * len(shape), *(strides[dim] for dim in after)]
    whole = [*(sizes[dim] for dim in before), *shape, *(sizes[dim] for dim in after)]
    found = [_of_dtype(_expand(each, shape), torch.int64) for each in indices if each is not None]
    return of_loop([Look(whole, laid), *(_among_ones(each, len(before), len(after)) for each in found)])


def is_dense(look: Look) -> bool:
    """Whether its elements lie side by side, whatever their order."""
    shape, strides, *_ = look
    if _is_packed(look, range(len(shape))[::-1]):
        return True
    step: Any = 1
    long = [(stride, size) for size, stride in zip(shape, strides, strict=True) if not size < 2]
    for stride, size in sorted(long):
        if stride != step:
            return False
        step = step * size
    return True


def _is_packed(look: Look, order: Sequence[int]) -> bool:
    """Whether its dims lie in that order, the innermost first. Of one element or none any stride will do."""
    shape, strides, *_ = look
    if order == range(len(shape))[::-1] and any(size == 0 for size in shape):
        return True
    step: Any = 1
    for dim in order:
        if shape[dim] != 1:
            if strides[dim] != step:
                return False
            step = step * shape[dim]
    return True


def _packed(shape: Sequence[Any], order: Sequence[int], least: int) -> tuple[Any, ...]:
    """Strides without gaps. `least`: what sizes count for at least."""
    strides: list[Any] = [1] * len(shape)
    step: Any = 1
    for dim in order:
        strides[dim] = step
        step = step * (shape[dim] if shape[dim] != 0 else least)
    return tuple(strides)


def _order(shape: Sequence[Any], operands: Sequence[Sequence[Any]]) -> list[int]:
    """The dims, that of the nearest elements first. What can't be compared keeps its place: strides of 0."""
    order = list(range(len(shape)))[::-1]
    for last in range(1, len(order)):
        place = last
        for at in reversed(range(last)):
            first = _is_farther(shape, operands, order[at], order[place])
            if first:
                order[at], order[place] = order[place], order[at]
                place = at
            elif first is not None:
                break
    return order


def _is_farther(shape: Sequence[Any], operands: Sequence[Sequence[Any]], a: int, b: int) -> bool | None:
    for strides in operands:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return bool(strides[a] > strides[b])
        if shape[a] > shape[b]:
            return True
    return None


def _expanded(look: Look, shape: Sequence[Any]) -> list[Any]:
    """Its strides where the loop is over that shape."""
    sizes, strides, *_ = look
    before = len(shape) - len(sizes)
    found = zip(sizes, strides, shape[before:], strict=True)
    return [*[0] * before, *(0 if size == 1 and whole != 1 else step for size, step, whole in found)]


def _expand(look: Look, shape: Sequence[Any]) -> Look:
    """As `Tensor.expand` gives it: dims of one element that come before have the stride of what they have in them."""
    if list(look.shape) == list(shape):
        return look
    strides = _expanded(look, shape)
    for dim in reversed(range(len(shape) - len(look.shape))):
        inner = shape[dim + 1] * strides[dim + 1] if dim + 1 < len(shape) else 1
        strides[dim] = inner if shape[dim] == 1 else 0
    return look._replace(shape=shape, strides=strides)


def _among_ones(look: Look, before: int, after: int) -> Look:
    """As `Tensor.reshape` gives it with so many more dims of one element."""
    shape = [*[1] * before, *look.shape, *[1] * after]
    if not before and not after:
        return look
    if any(size == 0 for size in shape):
        return look._replace(shape=shape, strides=_packed(shape, range(len(shape))[::-1], 1))
    base: Any = look.strides[-1] if look.shape else 1
    count: Any = 1
    strides = [base] * after
    for dim in reversed(range(len(look.shape))):
        if look.shape[dim] != 1 and look.strides[dim] != count * base:
            base, count = look.strides[dim], 1
        strides.insert(0, count * base)
        count = count * look.shape[dim]
    return look._replace(shape=shape, strides=[*[count * base] * before, *strides])


def _broadcast(shapes: Sequence[Sequence[Any]]) -> list[Any]:
    dims = max(map(len, shapes))
    whole = [[1] * (dims - len(sizes)) + list(sizes) for sizes in shapes]
    return [next((size for size in column if size != 1), 1) for column in zip(*whole, strict=True)]
