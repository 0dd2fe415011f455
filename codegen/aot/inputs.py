"""Inputs of a trace: fake tensors that stand in for the real ones, and bases for inputs that share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from codegen import _C
from codegen.aot.memory import Untraceable
from symbolic.fakes import FakeMode


@dataclass(frozen=True)
class Shared:
    """Inputs (by position) that share written memory: in the graph they are views of one base, which comes in instead.

    `base` is the position of an input that is the base of all others; None: it is their common `_base`, or, where
    autograd does not know that they share (`flat`), one flat tensor over the whole storage, of the first member's
    dtype. Each member of a flat group has a history of its own; `related`: but some are views of one another.
    """

    members: tuple[int, ...]
    base: int | None = None
    flat: bool = False
    related: bool = False


#: Why a write is refused.
FRAGILE = "a write to an input that autograd lets nobody write"
RELATED = "written inputs that share memory, of which autograd knows for some only"


def is_fragile(value: Any) -> bool:
    """A view that came with others of one operation, or was made without grad or by a custom function."""
    if not isinstance(value, torch.Tensor) or value.is_inference() or not value._is_view():
        return False
    return bool(torch._C._autograd._get_creation_meta(value) != torch._C._autograd.CreationMeta.DEFAULT)


class FragileInputs(Exception):
    """Something is done to views that autograd lets nobody write, or to what they share memory with, or a claimant
    comes to require a gradient: their stand-ins must be such views, too."""


def answers(tensor: torch.Tensor) -> bool:
    """Whether autograd says where its gradient goes: not of a view that it would have to take again, for its base was
    written, and can't."""
    try:
        _ = tensor.grad_fn
    except RuntimeError:
        return False
    except Untraceable as error:
        raise Untraceable("torch fails to take a view again") from error
    return True


def may_claim(value: Any) -> bool:
    """Whether it is a view made without grad that says it requires a gradient, as its base does, and may get none."""
    if not isinstance(value, torch.Tensor) or value.is_inference() or not value._is_view():
        return False
    return value.is_leaf and value._base.requires_grad  # type: ignore[union-attr]


def claims(value: Any) -> bool:
    """Whether it gets none. Of a fake that torch made like another tensor this is not known."""
    if not may_claim(value):
        return False
    with torch.inference_mode(False), torch.enable_grad():  # a node where it was told to require one for itself
        return value.view_as(value).grad_fn.next_functions[0][0] is None


def claimant(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the tensor that claims a gradient, and gets none."""
    root = tensor.detach().requires_grad_()
    with torch.no_grad():
        return root.view_as(root)


def made_like(view: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`view`, which autograd lets nobody write if that holds of `like`."""
    if is_fragile(like):
        torch._C._autograd._set_creation_meta(view, torch._C._autograd._get_creation_meta(like))
    return view


class _Born(torch.autograd.Function):
    """Makes a tensor the result of something: no leaf, and no view either."""

    @staticmethod
    def forward(ctx: Any, seed: torch.Tensor, held: list[torch.Tensor]) -> torch.Tensor:
        return held[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise AssertionError("a trace differentiates no further than its inputs")


def born(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with a history, of which nobody needs to know more."""
    return _Born.apply(torch.zeros((), requires_grad=True, device="cpu"), [tensor])


def stand_in(
    fake_mode: FakeTensorMode, value: torch.Tensor, counter: torch.Tensor | None = None, fragile: bool = False
) -> torch.Tensor:
    """A fake tensor of the same geometry: leaf or not, and with or without gradient, as `value` is. With a gradient it
    is no view, but for one that autograd lets nobody write where all these are to be `fragile`.

    Stand-ins of tensors that share memory share it, too. It counts its writes together with the fake `counter`, or on
    its own.
    """
    if type(value) not in (torch.Tensor, torch.nn.Parameter, FakeTensor):
        raise Untraceable(f"an input of class {type(value).__name__}")
    if value.layout is not torch.strided or value.is_conj() or value.is_neg() or value.is_quantized:
        raise Untraceable(f"an input that is {_exotic(value)}")
    if not isinstance(value, FakeTensor) and value.numel() and value.untyped_storage().nbytes() == 0:
        raise Untraceable("an input whose storage is empty")  # that of a fake has room for what it shows
    known = value if isinstance(value, FakeTensor) else fake_mode.from_tensor(value.detach(), static_shapes=True)
    if counter is None and known is not value and _is_alone(known):
        return _as_it_came(fake_mode, known, value, fragile)
    with torch.inference_mode(value.is_inference()):
        fake = known.data if counter is None else placed(counter, known)
    return _as_it_came(fake_mode, fake, value, fragile)


def _is_alone(fake: torch.Tensor) -> bool:
    """Whether the stand-in of a tensor that is detached can be changed: it has no history and counts its own writes."""
    if fake.is_inference() or torch.is_inference_mode_enabled() or fake._version:
        return False
    return not (fake.requires_grad or fake._is_view())


def stand_in_again(fake_mode: FakeTensorMode, fake: torch.Tensor, fragile: bool = False) -> torch.Tensor:
    """A stand-in once more. It counts its writes together with the first."""
    with torch.inference_mode(fake.is_inference()):  # views made in that mode would not
        again = fake_mode.detached(fake) if isinstance(fake_mode, FakeMode) else fake.detach()
    return _as_it_came(fake_mode, again, fake, fragile)


def _as_it_came(fake_mode: FakeTensorMode, fake: torch.Tensor, value: torch.Tensor, fragile: bool) -> torch.Tensor:
    """`fake` as a leaf or not, and with or without gradient, as `value` is."""
    if fragile and is_fragile(value):
        return made_like(_as_view(fake_mode, fake, value), value)
    if not value.requires_grad:
        if value.is_inference() or not value._is_view():
            return fake
        with torch.enable_grad(), fake_mode:  # what eager code refuses of views is refused of this one
            return fake.as_strided(fake.shape, fake.stride(), fake.storage_offset())
    if value.is_leaf:
        return fake.requires_grad_()
    with torch.enable_grad(), fake_mode:
        return born(fake)


def _as_view(fake_mode: FakeTensorMode, fake: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """The same as a view."""
    is_leaf, claimed = value.is_leaf, claims(value)
    with fake_mode, torch.set_grad_enabled(not claimed):
        if claimed:
            fake.requires_grad_()
        elif not is_leaf:
            fake = born(fake)
        view = fake.as_strided(fake.shape, fake.stride(), fake.storage_offset())
    return view.requires_grad_() if is_leaf and value.requires_grad and not claimed else view


def _exotic(value: torch.Tensor) -> str:
    if value.layout is not torch.strided:
        return str(value.layout).removeprefix("torch.")
    return "quantized" if value.is_quantized else "a lazy conjugate or negation"


def shared(members: list[int], values: list[Any], flat: bool = False) -> Shared:
    """How these inputs come in as views of one base, which is to be `flat`. Raises Untraceable if there is none."""
    tensors = [values[i] for i in members]
    related = _related(tensors)
    base = next((t._base for t in tensors if t._base is not None), None)
    at = next((i for i in members if values[i] is base), None)
    if any(isinstance(number, torch.SymInt) for t in tensors for number in (*t.shape, *t.stride())):
        raise Untraceable("inputs of sizes that vary, in memory of which more is looked at than they show")
    if base is not None and not base.requires_grad and any(t.requires_grad and t is not base for t in tensors):
        raise Untraceable(RELATED)  # a leaf, until its base is written
    if not flat and base is not None and lies_with(base, tensors[0]) and all(_is_of(base, t) for t in tensors):
        return Shared(tuple(members), at)
    if any(map(claims, tensors)):
        raise Untraceable(FRAGILE)
    if related and any(t.requires_grad for t in tensors):
        raise Untraceable(RELATED)
    if tensors[0].untyped_storage().nbytes() % max(t.element_size() for t in tensors):
        raise Untraceable("written inputs that share memory which some of them can't show as a whole")
    return Shared(tuple(sorted(members, key=lambda i: values[i].element_size())), flat=True, related=related)


def _is_of(base: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a tensor is that base, or a view of it that can be taken from it at once (`member`)."""
    return tensor is base or (tensor._base is base and _real(tensor.dtype) is _real(base.dtype))


def lies_with(base: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether they share memory: `.data = ` takes a view away from its base, and autograd does not look."""
    return base.untyped_storage()._cdata == view.untyped_storage()._cdata


def _real(dtype: torch.dtype) -> torch.dtype:
    """That of the parts of complex numbers."""
    return dtype.to_real() if dtype.is_complex else dtype


def member(base: torch.Tensor, known: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The view of `base` that `like` is of `known`, in one of real numbers or one of complex numbers."""
    size, stride, start = tuple(like.shape), like.stride(), like.storage_offset()
    before = known.storage_offset()
    if base.is_complex() and not like.is_complex():
        base, before = torch.view_as_real(base), before * 2
    paired = like.is_complex() and not base.is_complex()
    if paired:
        size, stride, start = (*size, 2), (*(step * 2 for step in stride), 1), start * 2
    view = base.as_strided(size, stride, start - before + base.storage_offset())
    return torch.view_as_complex(view) if paired else view


def _related(tensors: list[torch.Tensor]) -> bool:
    """Whether some of them are views of one another, or of one base."""
    bases = [t if t.is_inference() or t._base is None else t._base for t in tensors]
    return len(set(map(id, bases))) < len(bases)


def ways(values: Sequence[Any]) -> list[Any]:
    """How autograd says that views among them were made, and which of them get no gradient."""
    made = torch._C._autograd._get_creation_meta
    return [(made(v), answers(v) and claims(v)) if is_fragile(v) else None for v in values]


def count_together(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have one version counter; inference tensors have none."""
    if one.is_inference() or other.is_inference() or other._version != one._version:
        return False
    before = one._version
    torch._C._autograd._unsafe_set_version_counter((one,), (before + 1,))
    together = other._version != before
    torch._C._autograd._unsafe_set_version_counter((one,), (before,))
    return together


def places(groups: tuple[Shared, ...], values: Sequence[Any]) -> list[Any]:
    """Of each group what its base looks like, and where its members begin. None for what varies."""
    found: list[Any] = []
    for group in groups:
        tensors = [values[i] for i in group.members]
        above = next(t if t.is_inference() or t._base is None else t._base for t in tensors)
        size = tensors[0].untyped_storage().nbytes()
        found.append((size,) if group.flat else (*_looks(above), lies_with(above, tensors[0])))
        found += [(tensor.storage_offset(),) for tensor in tensors]
    return [None if any(isinstance(number, torch.SymInt) for number in facts) else facts for facts in found]


def _looks(base: torch.Tensor) -> tuple[Any, ...]:
    return base.dtype, base.requires_grad, base.dim(), *base.shape, *base.stride(), base.storage_offset()


def counters(groups: tuple[Shared, ...], values: list[Any]) -> dict[int, int]:
    """Which members of flat groups count their writes together with an earlier one."""
    found: dict[int, int] = {}
    for group in groups:
        first: list[int] = []
        for i in group.members if group.flat else ():
            at = next((at for at in first if count_together(values[at], values[i])), i)
            found.update({i: at} if at != i else {})
            first.append(at)
    return found


def placed(source: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A tensor at the place of `like` in the memory of `source`, that counts its writes together with this; autograd
    knows of no relation. The memory is that of a tensor without gaps."""
    with torch.inference_mode(source.is_inference()), torch.no_grad():
        whole = source.detach().as_strided((source.untyped_storage().nbytes() // source.element_size(),), (1,), 0)
        whole = whole if source.dtype == like.dtype else whole.view(like.dtype)
        return whole.as_strided(like.shape, like.stride(), like.storage_offset()).detach()


def joined(source: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """`data`, whose gradient goes where that of `source` goes."""
    _C.graft((data,), (source,), (), ())
    return data


def copied(tensor: torch.Tensor, whole: bool) -> torch.Tensor:
    """A copy that has the same views, also by places in memory if it is `whole`; its gradient goes where that of
    `tensor` goes."""
    if not whole and is_non_overlapping_and_dense_or_false(tensor):
        return tensor.clone()
    with torch.no_grad():
        made = placed(over_storage(tensor).clone(), tensor)
    return joined(tensor, made)


def base_of(group: Shared, values: list[Any]) -> torch.Tensor:
    """The real base of a group."""
    if group.base is not None:
        return values[group.base]
    if group.flat:
        return over_storage(values[group.members[0]])
    return next(values[i]._base for i in group.members if values[i]._base is not None)


def over_storage(tensor: torch.Tensor) -> torch.Tensor:
    """A flat tensor over the whole storage of `tensor`, with a version counter of its own."""
    storage = tensor.untyped_storage()
    length = storage.nbytes() // tensor.element_size()
    return tensor.data.as_strided((length,), (1,), 0)
