"""Views as data: taken again from another base, and written through without writing.

A recorder keeps, for every storage, one root tensor and, for every alias of it, the chain of `Step`s that leads from
the root to the alias. Reading an alias takes the steps again (`replay_chain`); writing to it makes a new root
(`put_back_chain`). All that is emitted is functional.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true

from symbolic.schemas import bind

aten = torch.ops.aten
prims = torch.ops.prims


class Writer(Protocol):
    """Where operations are recorded. A value is whatever `emit` answers with."""

    def emit(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """One operation. Several results come as one value, to be taken apart by emitting `operator.getitem`."""

    def meta(self, value: Any) -> torch.Tensor:
        """A tensor (fake or real) with the dtype and the geometry of `value`."""


class Unwritable(Exception):
    """This write has no functional form."""


#: Their results share storage with their argument, though their schemas don't say so, and autograd doesn't know it:
#: whoever calls them gives the argument away.
UNDECLARED = frozenset({
    aten._unsafe_view.default,
    aten.unsafe_chunk.default,
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
})

#: Where a tensor begins in its memory matters to these alone.
BY_PLACE = frozenset({aten.as_strided.default, aten.as_strided_scatter.default, aten.as_strided_copy.default})


def is_view(func: OpOverload) -> bool:
    """Whether a result of `func` shares storage with an argument that `func` leaves unwritten."""
    return func in UNDECLARED or any(
        result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns
    )


@dataclass(frozen=True, eq=False)
class Step:
    """One view: `func` with its arguments after the viewed tensor; `index` says which of several results.

    The storage offset of an `as_strided` is relative to the viewed tensor's own, so that it holds for every base.
    Steps are equal where their texts are: symbolic sizes have no hash, and comparing them would make guards.
    """

    func: OpOverload
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    index: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self.func is other.func and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((self.func, str(self)))

    @property
    def arguments(self) -> dict[str, Any]:
        """By name, defaults included, the viewed tensor left out."""
        bound = bind(self.func, (None, *self.args), dict(self.kwargs))
        return dict(list(bound.items())[1:])

    @cached_property
    def call(self) -> str:
        """The text without the index: equal for the results of one call."""
        names = [argument.name for argument in self.func._schema.arguments[1:]]
        given = [*zip(names, self.args, strict=False), *self.kwargs]
        name = self.func._schema.name.partition("::")[2]
        return f"{name}({', '.join(f'{key}={value}' for key, value in given)})"

    def __str__(self) -> str:
        return self.call if self.index is None else f"{self.call}[{self.index}]"


def step_of(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], index: int | None = None) -> Step:
    """The step that a call takes. The first of `args` is the viewed tensor itself, as it was before the call."""
    if func in (aten.as_strided.default, aten.as_strided_.default):
        bound = bind(func, args, kwargs)
        start = 0 if bound["storage_offset"] is None else bound["storage_offset"] - args[0].storage_offset()
        return Step(aten.as_strided.default, (tuple(bound["size"]), tuple(bound["stride"]), start))
    rest = (tuple(arg) if isinstance(arg, list) else arg for arg in args[1:])
    return Step(func, tuple(rest), tuple(kwargs.items()), index)


# --- geometry ---------------------------------------------------------------------------------------------------------


def _contiguous(size: Sequence[Any]) -> tuple[Any, ...]:
    """The strides of a contiguous tensor; like torch's, they count an empty dimension as one of length 1."""
    strides: list[Any] = [1] * len(size)
    for dim in reversed(range(len(size) - 1)):
        strides[dim] = strides[dim + 1] * (1 if size[dim + 1] == 0 else size[dim + 1])
    return tuple(strides)


def _order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The dimensions as they lie in memory, the slowest first."""
    return tuple(sorted(range(tensor.dim()), key=lambda dim: (tensor.stride(dim), tensor.size(dim)), reverse=True))


def _packed(size: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of a tensor whose dimensions lie in memory in this order, without gaps."""
    strides: list[Any] = [1] * len(size)
    for dim, stride in zip(order, _contiguous([size[dim] for dim in order]), strict=True):
        strides[dim] = stride
    return tuple(strides)


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(dim) for dim in range(len(order)))


def _overlaps(size: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether two elements may be one place in memory: true wherever the strides alone don't exclude it."""
    if any(length == 0 for length in size):
        return False
    reach: Any = 0
    for length, step in sorted(zip(size, stride, strict=True), key=operator.itemgetter(1)):
        if length != 1:
            if step <= reach:
                return True
            reach += (length - 1) * step
    return False


def _shared(size: Sequence[Any], stride: Sequence[Any]) -> str:
    return f"elements of sizes {list(size)}, strides {list(stride)} share memory"


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether two of its elements may be one place in memory."""
    return tensor.layout is torch.strided and _overlaps(tensor.size(), tensor.stride())


def within(size: Sequence[Any], stride: Sequence[Any], start: Any, base: torch.Tensor) -> bool:
    """Whether all places of this geometry surely belong to elements of `base`."""
    if any(length == 0 for length in size):
        return True
    if tuple(size) == base.size() and tuple(stride) == base.stride() and start == 0:
        return True
    last = start + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    strides = zip(base.size(), base.stride(), _packed(base.size(), _order(base)), strict=True)
    dense = all(length == 1 or have == packed for length, have, packed in strides)
    return dense and start >= 0 and last < base.numel()


def place(tensor: torch.Tensor, base: torch.Tensor, first: Any) -> tuple[Step, ...]:
    """Views that lead to a tensor from one that begins at element `first` of the same memory; one of another dtype
    shows all of that."""
    start = tensor.storage_offset()
    if tensor.dtype == base.dtype:
        start -= first
    step = Step(aten.as_strided.default, (tuple(tensor.shape), tensor.stride(), start))
    return (step,) if tensor.dtype == base.dtype else (Step(aten.view.dtype, (tensor.dtype,)), step)


def shows_whole(tensor: torch.Tensor, size: int) -> bool:
    """Whether it shows all of a storage of so many bytes, each once and row by row."""
    if tensor.dim() == 0 or tensor.storage_offset() != 0 or tensor.stride() != _contiguous(tensor.size()):
        return False
    return tensor.numel() * tensor.element_size() == size


def end_of(tensor: torch.Tensor) -> Any:
    """How many bytes a storage must have for this tensor."""
    return _end(tensor.shape, tensor.stride(), tensor.storage_offset()) * tensor.element_size()


def exceeds(size: Sequence[Any], stride: Sequence[Any], start: Any, tensor: torch.Tensor) -> bool:
    """Whether such a view needs more than the storage of the tensor has, as far as that is known."""
    needed = _end(size, stride, start) * tensor.element_size()
    return guard_or_false(needed > tensor.untyped_storage().nbytes())


def _end(size: Sequence[Any], stride: Sequence[Any], start: Any) -> Any:
    last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    return 0 if any(length == 0 for length in size) else start + last + 1


def is_known(size: Sequence[Any], stride: Sequence[Any], start: Any, width: int, shown: torch.Tensor) -> bool:
    """Whether elements of so many bytes at these places of a storage surely belong to `shown`, wherever that lies."""
    if shown.storage_offset() != 0:
        return False
    if width == shown.element_size():
        return within(size, stride, start, shown)
    flat = (shown.numel(),), (1,), 0
    return within(*flat, shown) and _end(size, stride, start) * width <= end_of(shown)


def stays_within(step: Step, base: torch.Tensor) -> bool:
    """Whether all that an `as_strided` shows surely belongs to `base`."""
    size, stride, start = step.args
    return within(size, stride, start, base)


def _viewable(size: Sequence[Any], stride: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether a tensor of this geometry can be viewed with the sizes `wanted`, of as many elements.

    Dimensions that lie end to end in memory are one run; a view can cut a run anew but never reach over its end.
    """
    if any(length == 0 for length in size):
        return True
    runs: list[Any] = []
    after: Any = None  # the stride that continues the run, seen from its left end
    for length, step in reversed([pair for pair in zip(size, stride, strict=True) if pair[0] != 1]):
        if after is not None and step == after:
            runs[-1] *= length
        else:
            runs.append(length)
        after = length * step
    lengths = reversed(wanted)
    for run in runs:
        count: Any = 1
        while count < run:
            count *= next(lengths)
        if count != run:
            return False
    return True


# --- settling a new value ---------------------------------------------------------------------------------------------


def fit(writer: Writer, old: Any, new: Any) -> Any:
    """`new` with the dtype and the sizes of `old`. Raises `Unwritable` where its sizes don't broadcast to `old`'s."""
    wanted, given = writer.meta(old), writer.meta(new)
    if given.dtype != wanted.dtype:
        new = writer.emit(aten._to_copy.default, new, dtype=wanted.dtype)
    if given.shape == wanted.shape:
        return new
    lengths = zip(reversed(given.shape), reversed(wanted.shape), strict=False)
    if given.dim() > wanted.dim() or any(have != want and have != 1 for have, want in lengths):
        raise Unwritable(f"a value of sizes {list(given.shape)} for a tensor of sizes {list(wanted.shape)}")
    return writer.emit(aten.expand.default, new, tuple(wanted.shape))


#: Bits that make a tensor read its memory otherwise: asked for, computed, and set (or, once more, taken back).
_BITS: tuple[tuple[Callable[[torch.Tensor], bool], OpOverload, OpOverload], ...] = (
    (torch.Tensor.is_conj, aten._conj_physical.default, aten._conj.default),
    (torch.Tensor.is_neg, aten.neg.default, aten._neg_view.default),
)


def settle(writer: Writer, old: Any, new: Any) -> Any:
    """`new` as what an in-place operation leaves in `old`: with the dtype, the sizes, the strides and the conjugate and
    negative bits of `old`.

    Raises `Unwritable` where elements of `old` share memory.
    """
    old, new, bits = _bare(writer, old, fit(writer, old, new))
    return _set(writer, _laid_out(writer, old, new), bits)


def _bare(writer: Writer, old: Any, new: Any) -> tuple[Any, Any, list[OpOverload]]:
    """Both without their bits, the new one as what would lie in the memory of the old; and the bits to `_set` again."""
    bits = []
    for has, computed, view in _BITS:
        is_set = has(writer.meta(new))
        if has(writer.meta(old)):
            old, new = writer.emit(view, old), writer.emit(view if is_set else computed, new)
            bits.append(view)
        elif is_set:
            new = writer.emit(computed, writer.emit(view, new))
    return old, new, bits


def _set(writer: Writer, value: Any, bits: Iterable[OpOverload]) -> Any:
    for view in bits:
        value = writer.emit(view, value)
    return value


def _laid_out(writer: Writer, old: Any, new: Any) -> Any:
    """`new` with the strides of `old`, whose dtype and sizes it has.

    Where `old` has no gaps, its strides come from a contiguous copy of the permuted value: this reads nothing but
    `new`, so that no later stage keeps `old` alive for its shape. All else (gaps, odd strides of dimensions of length
    1) is scattered into `old`'s own memory, the one functional operation that can make any strides.
    """
    wanted = writer.meta(old)
    if writer.meta(new).stride() == wanted.stride():
        if not is_non_overlapping_and_dense_or_false(wanted) and overlaps(wanted):  # the last one written counts
            raise Unwritable(_shared(wanted.size(), wanted.stride()))
        return new
    order = _order(wanted)
    if _packed(wanted.size(), order) != wanted.stride():
        return _scatter(writer, old, new, wanted.size(), wanted.stride(), 0)
    straight = order == tuple(range(len(order)))
    value = new if straight else writer.emit(aten.permute.default, new, order)
    value = writer.emit(aten.clone.default, value, memory_format=torch.contiguous_format)
    return value if straight else writer.emit(aten.permute.default, value, _inverse(order))


# --- reading ----------------------------------------------------------------------------------------------------------


def replay(writer: Writer, base: Any, step: Step, seen: dict[tuple[Any, Step], Any] | None = None) -> Any:
    """The view again, of another base. `seen` keeps what operations with several results gave, for the next of them."""
    if step.func is aten.as_strided.default:
        size, stride, start = step.args
        return writer.emit(step.func, base, size, stride, absolute(writer, base, start))
    if step.index is None:
        return writer.emit(step.func, base, *step.args, **dict(step.kwargs))
    seen = {} if seen is None else seen
    key = base, replace(step, index=None)
    if key not in seen:
        seen[key] = writer.emit(step.func, base, *step.args, **dict(step.kwargs))
    return writer.emit(operator.getitem, seen[key], step.index)


def replay_chain(
    writer: Writer, root: Any, chain: Iterable[Step], seen: dict[tuple[Any, Step], Any] | None = None
) -> Any:
    """What the whole chain shows of `root`."""
    for step in chain:
        root = replay(writer, root, step, seen)
    return root


def absolute(writer: Writer, base: Any, start: Any) -> Any:
    """None where possible: a kernel may hand over its result at another storage offset than the fake tensor had."""
    return None if statically_known_true(start == 0) else writer.meta(base).storage_offset() + start


# --- writing: one row per view ----------------------------------------------------------------------------------------

#: (writer, base, step, value): the base with what the step shows replaced by value, in any strides
Row = Callable[[Writer, Any, Step, Any], Any]


def _scatter(writer: Writer, base: Any, value: Any, size: Sequence[Any], stride: Sequence[Any], start: Any) -> Any:
    if _overlaps(size, stride):
        raise Unwritable(_shared(size, stride))
    start = absolute(writer, base, start)
    base, value, bits = _bare(writer, base, value)  # with a bit the kernel would take a copy, with strides of its own
    if not writer.meta(base).is_contiguous():  # the kernel takes no such tensor that requires gradients
        base = writer.emit(aten.detach.default, base)
    made = writer.emit(aten.as_strided_scatter.default, base, value, tuple(size), tuple(stride), start)
    return _set(writer, made, bits)


#: What makes two tensors read other numbers off the same memory.
_READINGS: tuple[Callable[[torch.Tensor], Any], ...] = (lambda t: t.dtype, *(has for has, *_ in _BITS))


def read_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return all(read(one) == read(other) for read in _READINGS)


def _by_geometry(writer: Writer, base: Any, chain: Sequence[Step], value: Any) -> Any:
    """The way of all strided views of the same elements: by the view's place in the base's memory."""
    old, view = writer.meta(base), writer.meta(replay_chain(writer, base, chain))
    name = " -> ".join(map(str, chain))
    if old.layout is not torch.strided or view.layout is not torch.strided:
        raise Unwritable(f"{name} of a tensor that isn't strided")
    if not read_alike(old, view):
        raise Unwritable(f"{name} reads the elements as others")
    if old.untyped_storage()._cdata != view.untyped_storage()._cdata:
        raise Unwritable(f"{name} gave a copy")
    start = view.storage_offset() - old.storage_offset()
    if not within(view.size(), view.stride(), start, old) and any(s.func is aten.as_strided.default for s in chain):
        raise Unwritable(f"{name} may reach outside of its base")
    return _scatter(writer, base, value, view.size(), view.stride(), start)


def _generic(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    return _by_geometry(writer, base, (step,), value)


def _itself(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    return value


def _undone_by(inverse: OpOverload) -> Row:
    return lambda writer, base, step, value: writer.emit(inverse, value)


def _scattered_by(scatter: OpOverload) -> Row:
    return lambda writer, base, step, value: writer.emit(scatter, base, value, *step.args, **dict(step.kwargs))


def _swapped_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    return writer.emit(step.func, value, *step.args)


def _permuted_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    (dims,) = step.args
    return writer.emit(step.func, value, _inverse([dim % len(dims) for dim in dims]))


def _viewed_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    size, given = writer.meta(base).shape, writer.meta(value)
    if size == given.shape:
        return value
    if not _viewable(given.size(), given.stride(), size):
        value = writer.emit(aten.clone.default, value, memory_format=torch.contiguous_format)
    return writer.emit(aten.view.default, value, tuple(size))


def _shrunk_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    """A write through `expand` is legal where nothing is repeated."""
    elements = writer.meta(value).numel()
    if elements == 0:
        return base
    if elements != writer.meta(base).numel():
        raise Unwritable(f"{step} repeats elements")
    return _viewed_back(writer, base, step, value)


def _packed_value(writer: Writer, value: Any) -> Any:
    """Reading elements as others asks for strides that are multiples of one another."""
    given = writer.meta(value)
    if given.stride() == _contiguous(given.size()):
        return value
    return writer.emit(aten.clone.default, value, memory_format=torch.contiguous_format)


def _complex_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    return writer.emit(aten.view_as_complex.default, _packed_value(writer, value))


def _dtype_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    old, given = writer.meta(base), writer.meta(value)
    if old.element_size() != given.element_size():
        value = _packed_value(writer, value)
    return writer.emit(aten.view.dtype, value, old.dtype)


def _strided_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    size, stride, start = step.args
    if not within(size, stride, start, writer.meta(base)):
        raise Unwritable(f"{step} may reach outside of its base")
    return _scatter(writer, base, value, size, stride, start)


def _piece_back(writer: Writer, base: Any, value: Any, dim: int, start: Any) -> Any:
    end = start + writer.meta(value).shape[dim]
    return writer.emit(aten.slice_scatter.default, base, value, dim, start, end)


def _split_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    bound = step.arguments
    return _piece_back(writer, base, value, bound["dim"], step.index * bound["split_size"])


def _split_with_sizes_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    bound = step.arguments
    return _piece_back(writer, base, value, bound["dim"], sum(bound["split_sizes"][: step.index]))


def _unbound_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    return writer.emit(aten.select_scatter.default, base, value, step.arguments["dim"], step.index)


#: All others go by their geometry (`_generic`), which refuses what it can't do.
ROWS: dict[OpOverload, Row] = {
    **dict.fromkeys((aten.alias.default, aten.detach.default, aten.lift_fresh.default, prims.view_of.default), _itself),
    **dict.fromkeys((aten.t.default, aten.transpose.int), _swapped_back),
    aten.permute.default: _permuted_back,
    **dict.fromkeys((aten.view.default, aten._unsafe_view.default, aten._reshape_alias.default), _viewed_back),
    **dict.fromkeys((aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims), _viewed_back),
    aten.unsqueeze.default: _viewed_back,
    aten.expand.default: _shrunk_back,
    aten.select.int: _scattered_by(aten.select_scatter.default),
    aten.slice.Tensor: _scattered_by(aten.slice_scatter.default),
    aten.diagonal.default: _scattered_by(aten.diagonal_scatter.default),
    aten.as_strided.default: _strided_back,
    **dict.fromkeys((aten.split.Tensor, aten.unsafe_split.Tensor), _split_back),
    **dict.fromkeys((aten.split_with_sizes.default, aten.unsafe_split_with_sizes.default), _split_with_sizes_back),
    aten.unbind.int: _unbound_back,
    aten._conj.default: _undone_by(aten._conj_physical.default),  # computed, for a base has no conjugate bit
    aten._neg_view.default: _undone_by(aten.neg.default),
    aten.view_as_complex.default: _undone_by(aten.view_as_real.default),
    aten.view_as_real.default: _complex_back,
    aten.view.dtype: _dtype_back,
}
#: They can show one element several times; a chain that goes on from there is put back by its geometry.
_REPEATING = frozenset({
    aten.expand.default, aten.unfold.default, aten.as_strided.default, prims.broadcast_in_dim.default,
})


def put_back(writer: Writer, base: Any, step: Step, value: Any) -> Any:
    """`base`, in its own dtype, sizes and strides, with what `step` shows of it replaced by `value`.

    Raises `Unwritable` where that has no functional form.
    """
    return put_back_chain(writer, base, (step,), value)


def put_back_chain(writer: Writer, root: Any, chain: Sequence[Step], value: Any) -> Any:
    """`root`, in its own dtype, sizes and strides, with what the chain shows of it replaced by `value`.

    Raises `Unwritable` where that has no functional form.
    """
    old = writer.meta(root)
    if chain and overlaps(old):
        raise Unwritable(f"a view of a tensor whose elements share memory: {chain[0]}")
    bases = [root]
    for step in chain[:-1]:
        bases.append(replay(writer, bases[-1], step))
    if _leaves_its_base(writer, bases, chain):
        value = _by_geometry(writer, root, chain, value)
    else:
        for base, step in reversed(list(zip(bases, chain, strict=False))):
            value = ROWS.get(step.func, _generic)(writer, base, step, value)
    return settle(writer, root, value)


def _leaves_its_base(writer: Writer, bases: Sequence[Any], chain: Sequence[Step]) -> bool:
    """Whether a write changes more of a base than the next step shows of it, so that step by step would lose it.

    An `as_strided` of a view reaches what only the root holds; what a repeating view shows twice changes twice.
    """
    for step, base in zip(chain[1:], bases[1:], strict=True):
        if step.func is aten.as_strided.default and not stays_within(step, writer.meta(base)):
            return True
    shown = zip(chain, bases[1:], strict=False)
    return any(
        step.func in _REPEATING and overlaps(writer.meta(base))
        for step, base in shown
    )
