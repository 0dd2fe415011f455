"""What operations refuse, and torch's fakes take: compiled code would read beside memory, or give nonsense."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from symbolic.errors import GraphBreak
from symbolic.warned import Hearing

aten = torch.ops.aten
#: In what an operation says that writes to a place twice.
_OVERLAP = "to a single memory location"
#: How many bytes are filled to find out.
FEW = 1 << 24
#: The same where an operation is run on them, and what sizes are cut to where there are more and they fit so, too.
FEW_TO_RUN, CUT = 1 << 14, 4


def refuse(func: Any, args: Any, kwargs: Any) -> None:
    """Raises what the operation raises, or the like, by the looks of its arguments."""
    if func in _OF_SOMETHING and any([size == 0 for size in _OF_SOMETHING[func](*args)]):
        with _disable_current_modes(), torch.no_grad():
            func(*tree_map(_zeros, args), **tree_map(_zeros, kwargs))
    if func in _FITTING:
        _FITTING[func](*args, **kwargs)
    if func.overloadpacket in _DRAWS:
        _draw(func, args, kwargs)


# --- kinds of elements ------------------------------------------------------------------------------------------------
def refuse_kinds(func: Any, args: Any, kwargs: Any) -> None:
    """Raises what the operation raises for elements of such dtypes, for which stand-ins have an answer.

    Where the graph finds out, it may have written what can't be taken back. So the operation is asked before, on a CPU:
    it runs on few zeros, once for all that look alike."""
    if func.namespace != "aten" or _TRUSTING.search(func.overloadpacket.__name__):
        return
    leaves = [leaf for each in (*args, *kwargs.values()) for leaf in (each if isinstance(each, list) else (each,))]
    kinds = (func, *map(_kind, leaves))
    if kinds in _taken or _UNKNOWN in kinds:
        return
    given = [each for each in leaves if isinstance(each, torch.Tensor)]
    if not given:
        return
    counts = [math.prod(map(_hint, value.shape)) for value in given]
    bytes_ = sum(count * value.element_size() for count, value in zip(counts, given, strict=True))
    most = None if bytes_ <= FEW_TO_RUN else CUT
    if torch.Tag.pointwise not in func.tags and func.overloadpacket not in _PRODUCTS:
        numbers = [abs(_hint(each)) for each in leaves if isinstance(each, int | torch.SymInt)]
        if most is not None or math.prod(each for each in numbers if each) > FEW:
            return  # it may read where nothing is, or make what is large

    def zeros(value: Any) -> Any:
        if not isinstance(value, FakeTensor):
            return _hint(value)
        return torch.zeros([min(_hint(size), most or _hint(size)) for size in value.shape], dtype=value.dtype)

    def run(_: float) -> float:
        func(*tree_map(zeros, args), **tree_map(zeros, kwargs))
        return 0.0

    random = torch.get_rng_state()
    try:
        with _disable_current_modes(), torch.no_grad(), Hearing():
            torch.zeros(1).apply_(run)  # torch's warnings wait for the end of a function of its own, which this one is
    except Exception as error:
        if _OF_KINDS.search(str(error)):
            raise
    else:
        if all(counts):  # with no elements some are not looked at
            _taken.add(kinds)
    finally:
        torch.set_rng_state(random)


_UNKNOWN = "not of a CPU, or no stand-in"
#: Operations and the looks of what they take.
_taken: set[tuple[Any, ...]] = set()
#: Operations that take their callers' word for what they are given: those inside of others.
_TRUSTING = re.compile(r"^_(?!softmax$|log_softmax$)|backward|dnn|miopen|quantized|fbgemm")
#: Operations whose arguments fit one another if their sizes are cut alike.
_PRODUCTS = frozenset({aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.addmv, aten.mv, aten.dot, aten.convolution})
#: In what an operation says of dtypes.
_OF_KINDS = re.compile(
    r"not implemented for|not supported|does not support|\bd?types?\b|"
    r"\b(Half|BFloat16|Float|Double|Int|Long|Bool|Byte)\b"
)


def _kind(value: Any) -> Any:
    """What of an argument may be refused."""
    if type(value) is FakeTensor:
        is_known = value.layout is torch.strided and value.fake_device.type == "cpu"
        return (value.dtype, value.dim()) if is_known else _UNKNOWN
    if isinstance(value, torch.Tensor):
        return _UNKNOWN
    return value if isinstance(value, bool | str | torch.dtype) else type(value)


# --- no elements ------------------------------------------------------------------------------------------------------
def _all(value: torch.Tensor, *rest: Any) -> Sequence[Any]:
    return value.shape


def _first(value: torch.Tensor, *rest: Any) -> Sequence[Any]:
    return value.shape[:1]


def _one(value: torch.Tensor, dim: int = -1, *rest: Any) -> Sequence[Any]:
    return value.shape[dim : dim + 1 or None]


def _indexed(value: torch.Tensor, indices: Sequence[torch.Tensor | None], *rest: Any) -> Sequence[Any]:
    if any(map(_is_mask, indices)):
        return ()  # masks are of what is there
    return [size for size, each in zip(value.shape, indices, strict=False) if each is not None]


#: What raises if one of these sizes is 0, which torch's fakes do not know and kernels do not look for.
_OF_SOMETHING: dict[Any, Callable[..., Sequence[Any]]] = {
    **dict.fromkeys((aten.max.default, aten.min.default, aten.take.default), _all),
    aten.embedding.default: _first,
    **dict.fromkeys((
        aten.max.dim, aten.min.dim, aten.median.dim, aten.nanmedian.dim, aten.mode.default, aten.gather.default,
        aten.index_select.default, aten.index_add.default, aten.index_add_.default, aten.index_copy.default,
        aten.index_copy_.default, aten.index_fill.int_Scalar, aten.index_fill_.int_Scalar,
        aten.scatter.src, aten.scatter.value, aten.scatter_.src, aten.scatter_.value, aten.scatter_add.default,
        aten.scatter_add_.default, aten.scatter_reduce.two, aten.scatter_reduce_.two,
    ), _one),
    **dict.fromkeys((aten.index.Tensor, aten.index_put.default, aten.index_put_.default), _indexed),
}  # fmt: skip


def _zeros(value: Any) -> Any:
    if not isinstance(value, FakeTensor):
        return value
    device = "meta" if value.device.type == "meta" else "cpu"  # where nothing is looked for
    return torch.zeros(_geometry(value)[1], dtype=value.dtype, device=device)


# --- what nothing can be drawn from -----------------------------------------------------------------------------------
#: Operations that draw by the numbers that they are given, whatever the tensor had that they fill.
_DRAWS = frozenset({
    aten.uniform_, aten.random_, aten.bernoulli_, aten.geometric_, aten.exponential_, aten.cauchy_, aten.log_normal_,
    aten.normal_, aten.normal, aten.rand, aten.randn, aten.randint, aten.randperm, aten.rand_like, aten.randn_like,
    aten.randint_like,
})  # fmt: skip
#: What these are given where they draw a few.
_FEW_DRAWN = {"size": [1], "device": "cpu", "generator": None, "pin_memory": None, "layout": None}


def _draw(func: Any, args: Any, kwargs: Any) -> None:
    """Has it draw a few numbers, which nobody sees."""
    given = {**{each.name: arg for each, arg in zip(func._schema.arguments, args, strict=False)}, **kwargs}
    few = {name: _FEW_DRAWN.get(name, arg) for name, arg in given.items()}
    tensors = [name for name, arg in few.items() if isinstance(arg, torch.Tensor)]
    known = all(not isinstance(arg, torch.SymInt | torch.SymFloat) for arg in few.values())
    if len(tensors) > 1 or not known or few.get("n", 0) > FEW_TO_RUN:
        return
    few.update({name: torch.zeros(1, dtype=few[name].dtype) for name in tensors})
    random = torch.get_rng_state()
    try:
        with _disable_current_modes(), torch.no_grad():
            func(**few)
    finally:
        torch.set_rng_state(random)


# --- what does not fit ------------------------------------------------------------------------------------------------
def _inside(value: torch.Tensor, dim: int, at: Any) -> None:
    """Torch asks that where sizes vary from 2.13 on."""
    size = value.shape[dim]
    if not -size <= at < size:
        raise IndexError(f"select(): index {at} out of range for tensor of size {[*value.shape]} at dimension {dim}")


def _rows(value: torch.Tensor, dim: int, at: torch.Tensor, rows: torch.Tensor, *rest: Any, **more: Any) -> None:
    sizes = list(value.shape)
    sizes[dim : dim + 1 or None] = [at.numel()] if sizes else []
    if rows.dim() == len(sizes):
        _same(rows, sizes)


def _placed(value: torch.Tensor, at: Sequence[torch.Tensor | None], given: torch.Tensor, *rest: Any) -> None:
    if not any(map(_is_mask, at)):
        given.expand(aten.index.Tensor(value, at).shape)
        return
    dim = 0
    for each in at:
        taken = each.dim() if each is not None and _is_mask(each) else 1
        sizes = value.shape[dim : dim + taken]
        if each is not None and _is_mask(each) and (*each.shape,) != (*sizes,):
            raise IndexError(f"The shape of the mask {[*each.shape]} does not match the indexed sizes {[*sizes]}")
        dim += taken


def _is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _part(view: Callable[..., torch.Tensor]) -> Callable[..., None]:
    def fits(value: torch.Tensor, given: torch.Tensor, *where: Any, **named: Any) -> None:
        _same(given, view(value, *where, **named).shape)

    return fits


def _same(given: torch.Tensor, sizes: Sequence[Any]) -> None:
    if given.dim() != len(sizes) or any(size != other for size, other in zip(given.shape, sizes, strict=True)):
        raise RuntimeError(f"shape mismatch: {tuple(sizes)} expected, got {tuple(given.shape)}")


def _not_negative(x: torch.Tensor, y: torch.Tensor, reduction: int = 1, beta: float = 1.0) -> None:
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")


def _sorted(value: torch.Tensor, *rest: Any, values: torch.Tensor, indices: torch.Tensor, **more: Any) -> None:
    if not (values.is_contiguous() and indices.is_contiguous()):
        raise RuntimeError("sort() into tensors that do not lie by rows, which are taken for others")


def _padded(*args: Any) -> None:
    _, _, _, stride, _, dilation, is_transposed, added, _ = args
    if is_transposed and any(more >= max(each) for more, *each in zip(added, stride, dilation, strict=False)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")


_FITTING: dict[Any, Callable[..., None]] = {
    aten.select.int: _inside,
    aten.convolution.default: _padded,
    **dict.fromkeys((
        aten.index_add.default, aten.index_add_.default, aten.index_copy.default, aten.index_copy_.default,
        aten.index_reduce.default, aten.index_reduce_.default,
    ), _rows),
    **dict.fromkeys((aten.index_put.default, aten.index_put_.default), _placed),
    aten.select_scatter.default: _part(aten.select.int),
    aten.slice_scatter.default: _part(aten.slice.Tensor),
    aten.diagonal_scatter.default: _part(aten.diagonal.default),
    aten.smooth_l1_loss.default: _not_negative,
    aten.sort.values: _sorted,
    aten.sort.values_stable: _sorted,
}  # fmt: skip


# --- overlaps ---------------------------------------------------------------------------------------------------------
def refuse_overlaps(func: Any, written: tuple[tuple[int, str], ...], args: Any, kwargs: Any) -> None:
    """Raises what the operation raises where it writes to one place twice, or to what it reads elsewhere.

    Stand-ins have no memory that could be compared, so that is asked of zeros which lie alike, if these are few."""
    places = [args[at] if at < len(args) else kwargs.get(name) for at, name in written]
    given = [value for value in tensors_in((args, kwargs)) if value.layout is torch.strided]
    targets = [value for value in places if isinstance(value, FakeTensor) and value.layout is torch.strided]
    if not any(_may_overlap(target, given) for target in targets):
        return
    sizes = {value.untyped_storage()._cdata: _hint(value.untyped_storage().nbytes()) for value in given}
    if sum(sizes.values()) > FEW:
        return
    memory = {key: torch.zeros(size, dtype=torch.uint8).untyped_storage() for key, size in sizes.items()}

    def zeros(value: Any) -> Any:
        if not isinstance(value, FakeTensor) or value.layout is not torch.strided:
            return value
        start, size, stride = _geometry(value)
        return torch.empty(0, dtype=value.dtype).set_(memory[value.untyped_storage()._cdata], start, size, stride)

    with _disable_current_modes(), torch.no_grad():
        try:
            func(*tree_map(zeros, args), **tree_map(zeros, kwargs))
        except RuntimeError as error:
            if _OVERLAP in str(error):
                raise


def _may_overlap(target: torch.Tensor, given: list[torch.Tensor]) -> bool:
    _, size, stride = _geometry(target)
    if any(step == 0 and length > 1 for length, step in zip(size, stride, strict=True)):
        return True
    looks, lies = (_geometry(target), target.dtype), target.untyped_storage()._cdata
    beside = [each for each in given if each is not target and each.untyped_storage()._cdata == lies]
    first, last = _bounds(target)
    bounds = [_bounds(each) for each in beside if (_geometry(each), each.dtype) != looks]
    return any(start < last and first < end for start, end in bounds)


def _bounds(value: torch.Tensor) -> tuple[int, int]:
    """The bytes that it lies between."""
    start, size, stride = _geometry(value)
    length = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True)) if all(size) else 0
    return start * value.element_size(), (start + length) * value.element_size()


def _geometry(value: torch.Tensor) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return _hint(value.storage_offset()), tuple(map(_hint, value.shape)), tuple(map(_hint, value.stride()))


def _hint(size: Any) -> Any:
    """What a size is at this call, or was made of: 0 where it depends on values."""
    return (size.node.hint or 0) if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) else size


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


#: What a stand-in may tell of the tensor that it stands for: anything else is its own.
_TOLD = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


def told(target: Any, result: Any) -> Any:
    """What an operation on stand-ins says that is no tensor.

    Raises: GraphBreak -- it may be of the stand-in: its storage, its class."""
    items = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    if not isinstance(result, (*_TOLD, tuple, list, dict)):
        raise GraphBreak("tensor method not captured", str(target))
    for item in items:
        told(target, item)
    return result


def holds(value: Any, kinds: Any) -> bool:
    """Whether a value is of these types, or has such in it."""
    if isinstance(value, kinds):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return any(holds(item, kinds) for item in items)
