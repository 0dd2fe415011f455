"""The mode that stand-ins of tensors live in."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cache, cached_property
from types import FrameType
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorConfig,
    FakeTensorMode,
)

from symbolic import lines, viewed
from symbolic.looks import LOOKS
from symbolic.refusals import refuse, refuse_kinds, refuse_overlaps, tensors_in
from symbolic.schemas import written_by
from symbolic.shapes import Environment, PlainSizesAsked, expression, expressions, usually
from symbolic.strides import strides_of

aten = torch.ops.aten
_DEVICE = torch.ops.prim.device.default
#: Zeros in as much memory as another tensor has. Directions are laid out by it, and to lie otherwise is an error.
_AS_ROOMY = aten._new_zeros_with_same_feature_meta.default
#: Half of the operations that a compilation runs. They say no more of their result than its geometry.
_VIEWS = frozenset({
    aten.alias.default, aten.detach.default, aten.expand.default, aten.permute.default, aten.t.default,
    aten.slice.Tensor, aten.select.int, aten.squeeze.dim, aten.squeeze.dims, aten.transpose.int, aten.unsqueeze.default,
    aten.view.default, aten._unsafe_view.default,
})  # fmt: skip
#: How those lie where sizes vary.
_LIES: dict[Any, Callable[..., Any]] = {
    aten.view.default: viewed.view, aten._unsafe_view.default: viewed.view, aten.expand.default: viewed.expand,
    aten.unsqueeze.default: viewed.unsqueeze, aten.permute.default: viewed.permute, aten.t.default: viewed.turn,
    aten.transpose.int: viewed.transpose, aten.detach.default: viewed.same, aten.alias.default: viewed.same,
    aten.squeeze.dim: viewed.squeeze, aten.squeeze.dims: viewed.squeeze, aten.slice.Tensor: viewed.part,
    aten.select.int: viewed.select,
}  # fmt: skip
#: The same, of several.
_SPLITS: dict[Any, Callable[..., Any]] = {
    aten.split.Tensor: viewed.split, aten.split_with_sizes.default: viewed.split, aten.unbind.int: viewed.unbind,
}  # fmt: skip
#: Namespaces whose operations say if they draw random numbers.
_KNOWN = frozenset({"aten", "prim", "prims"})
#: Of a tensor that is nothing out of the ordinary.
_PLAIN = torch._C._dispatch_keys(torch.empty(0, device="cpu"))
#: Said of stand-ins whose elements are known, and of others.
_KNOWN_ELEMENTS, _LOOKS_ONLY = "known elements", "looks only"
_LISTS = frozenset({list, tuple, torch.Size})
_CONSTANTS = frozenset({
    type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format,
})  # fmt: skip
#: Of operations whose results have looks that go by values, or that change those of their arguments.
_FORBIDDEN = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view})
#: (sizes, strides, dtype and device, whether it is a view)
Recipe = tuple[Any, bool]
#: What an operation gave for such arguments: dtype, sizes, strides and device of each result, and whether these are a
#: tuple; None for what is computed each time. Forgotten when they are many.
_known: dict[Any, tuple[tuple[Any, ...], bool] | None] = {}
MANY = 1 << 14


class FakeMode(FakeTensorMode):
    """torch's, with less done around operations that need little. Counts operations that draw random numbers.

    Operations that only give new tensors are looked up by the looks of their arguments, as torch itself would, which
    allows for more and takes several times as long."""

    draws = 0

    def __init__(self, **settings: Any) -> None:
        with lines.lent():  # of the files in the stack, which it remembers with their text
            super().__init__(**settings)
        #: For each operation that may change its arguments, the memories that it writes.
        self.written: list[frozenset[int]] = []
        self.attributes: dict[torch.device, dict[str, Any]] = {}  # of a new stand-in

    @property
    def writes(self) -> int:
        """How many operations there were that may change their arguments."""
        return len(self.written)

    @cached_property
    def avoid_device_init(self) -> bool:
        """Whether there is no device to begin with, which torch asks each time that the mode is entered."""
        known: Any = FakeTensorMode.avoid_device_init
        return bool(known.fget(self))

    def _in_kernel(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """What an operation gives for the meta tensors that the stand-ins are: see torch's
        `in_kernel_invocation_manager`, which takes several times as long."""
        before = self.in_kernel_invocation
        with torch._C._DisableTorchDispatch(), torch._C._PreserveDispatchKeyGuard():
            self.in_kernel_invocation = True
            torch._C._set_meta_in_tls_dispatch_include(True)
            try:
                return func(*args, **kwargs)
            finally:
                self.in_kernel_invocation = before

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would wrap the handler below to keep its own compiler off."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE:
            (fake,) = args
            return torch.device("meta") if fake.fake_mode.in_kernel_invocation else fake.fake_device
        if func is aten.size.default:
            raise PlainSizesAsked(f"plain sizes asked of {args[0].shape}")
        if func is aten.squeeze_.dim and self.shape_env is not None:  # torch's own crashes where sizes vary
            func, args = aten.squeeze_.dims, (args[0], [args[1]])
        refuse(func, args, kwargs or {})
        if func is aten.constant_pad_nd.default and not viewed.is_by_rows(args[0].shape, args[0].stride()):
            any(added > 0 for added in args[1])  # which is asked: what is only copied lies as it did, and not by rows
        if func in LOOKS and args[0].fake_device.type == "cpu":
            with self:
                return LOOKS[func](self.shape_env, *args, **(kwargs or {}))
        if func is _AS_ROOMY and type(args[0]) is FakeTensor:  # which torch looks up by sizes and strides alone
            return self._standing_in(self._in_kernel(func, *args, **(kwargs or {})), args[0].fake_device)
        if self.shape_env is None:
            if (func in _VIEWS or func in _SPLITS) and not kwargs and self._is_plain(args[0]):
                views = self._in_kernel(func, *args)
                if func in _VIEWS:
                    return self._standing_in(views, args[0].fake_device)
                return [self._standing_in(view, args[0].fake_device) for view in views]
            if func in FakeTensorMode.lift_fns and not kwargs and (made := self._literal(*args)) is not None:
                return made
            if _gives_new(func):
                self.draws += torch.Tag.nondeterministic_seeded in func.tags
                return self._looked_up(func, types, args, kwargs or {})
        elif (func in _LIES or func in _SPLITS) and not kwargs and self._is_plain(args[0]):
            made = self._viewed(func, *args)
            if made is not None:
                return made
        elif _gives_new(func):  # what broadcasts is the same for one as for others, and so is what is new
            with usually(self.shape_env, looks=True):
                if _is_pure(func) and isinstance(self.shape_env, Environment):
                    return self._looked_up(func, types, args, kwargs or {})
                self.draws += torch.Tag.nondeterministic_seeded in func.tags
                return self._laid_out(func, types, args, kwargs or {})
        written = written_by(func)
        if written:
            refuse_overlaps(func, written, args, kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags or func.namespace not in _KNOWN:
            self.draws += 1
        if func._schema.is_mutable:
            given = [args[at] if at < len(args) else (kwargs or {}).get(name) for at, name in written]
            self.written.append(memories(given))
        try:
            return self._laid_out(func, types, args, kwargs or {})
        except DataDependentOutputException as error:
            error.asked = args[0]  # type: ignore[attr-defined]
            raise

    def _viewed(self, func: Any, value: FakeTensor, *asked: Any) -> Any:
        """A view or several, of a tensor whose sizes vary, where expressions say how they lie."""
        if value.is_conj() or value.is_neg():
            return None
        if func in _LIES:
            lies = [_LIES[func](value.shape, value.stride(), *asked)]
        else:
            lies = _SPLITS[func](value.shape, value.stride(), *asked)
        if not lies or None in lies:
            return None
        start = value.storage_offset()
        made = [self._in_kernel(aten.as_strided.default, value, *each[:2], sum(each[2:], start)) for each in lies]
        views = [self._standing_in(each, value.fake_device) for each in made]
        return views[0] if func in _LIES else views

    def _laid_out(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The result, lying in memory as in eager code, of which torch's stand-ins know half."""
        refuse_kinds(func, args, kwargs)
        made: Any = self.dispatch(func, types, args, kwargs)
        strides = strides_of(func, args, kwargs, made)
        if strides is None or strides == made.stride():
            return made
        laid = {"dtype": made.dtype, "device": made.device}
        return self.dispatch(aten.empty_strided.default, types, (made.shape, strides), laid)

    def from_tensor(self, tensor: torch.Tensor, **settings: Any) -> FakeTensor:
        is_static = self.shape_env is None or settings.get("static_shapes")
        if is_static and settings.keys() <= {"static_shapes"} and _is_simple(tensor):
            found = self._of_simple(tensor)
            if found is not None:
                return found
        return super().from_tensor(tensor, **settings)

    def let_go(self) -> None:
        """Knows the tensors that it has stand-ins of no more: `torch.utils.swap_tensors` takes none that is referred
        to weakly."""
        self.fake_tensor_converter.meta_converter.describer.lookup_tensor.clear()

    def from_known(self, tensor: torch.Tensor, fake: torch.Tensor, other: FakeMode) -> FakeTensor:
        """The same of a tensor, which is also that of its stand-in in another mode: what shares memory there does here.
        """
        mine = self.from_tensor(tensor, static_shapes=True)
        known, theirs = self.fake_tensor_converter, other.fake_tensor_converter.meta_converter
        known.set_tensor_memo(fake, mine)
        memory = theirs.get_storage_memo(theirs.describer.describe_storage(tensor.untyped_storage()))
        if memory is not None:
            meta = known.meta_converter
            meta.set_storage_memo(meta.describer.describe_storage(memory), mine.untyped_storage())
        return mine

    def _of_simple(self, tensor: torch.Tensor) -> FakeTensor | None:
        """The stand-in, which torch will find for this tensor; None where another one has it share its memory."""
        known, meta = self.fake_tensor_converter, self.fake_tensor_converter.meta_converter
        fake = known._get_memo(tensor)
        if fake is not None:
            return fake
        storage = meta.describer.describe_storage(tensor.untyped_storage())
        with torch._C._DisableTorchDispatch():
            made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        if meta.get_storage_memo(storage) is not None or made.untyped_storage().nbytes() != storage.size:
            return None
        fake = self._standing_in(made.requires_grad_(tensor.requires_grad), tensor.device)
        if type(tensor) is torch.nn.Parameter:
            fake._is_param = True
        known.set_tensor_memo(tensor, fake)
        meta.set_storage_memo(storage, fake.untyped_storage())
        return fake

    def _literal(self, value: torch.Tensor) -> FakeTensor | None:
        """The stand-in of a literal, whose elements it knows; None where it is left to torch to make it."""
        if type(value) is not torch.Tensor or not _is_simple(value) or not self.may_turn_const(value):
            return None
        with torch._C._DisableTorchDispatch():
            known = value.clone()
        fake = self._of_simple(known)
        if fake is not None:
            fake.constant = known
            self.fake_tensor_converter.add_constant_storage_mapping(fake)
        return fake

    def _looked_up(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        default = torch.get_default_dtype(), torch._C._get_default_device(), torch.is_inference_mode_enabled()
        looks: list[Any] = [func, *default]
        if not self._look(args, looks) or not self._look(tuple(kwargs.items()), looks):
            return self._laid_out(func, types, args, kwargs)
        if _KNOWN_ELEMENTS in looks and _LOOKS_ONLY not in looks:  # those of the result are known, too
            run = self.dispatch if _is_pure(func) else self._laid_out
            return run(func, types, args, kwargs)
        key = tuple(looks)
        every = self.shape_env.looks if isinstance(self.shape_env, Environment) else _known
        known = every.get(key)
        if known is None:
            results = self._laid_out(func, types, args, kwargs)
            if key not in every:
                if len(every) >= MANY:
                    every.clear()
                every[key] = self._looks_of(results, args, kwargs)
            return results
        of_each, is_tuple = known
        results = tuple(map(self._new, of_each))
        return results if is_tuple else results[0]

    def recipe(self, results: list[torch.Tensor], given: list[torch.Tensor]) -> list[Recipe] | None:
        """How such stand-ins are made anew, without the operations that gave them of those `given`. None where there is
        more to them than their looks: gradients, memory that they share with each other or with what is given."""
        known = self._looks_of(tuple(results), tuple(given), {})
        if known is None or self.shape_env is not None:
            return None
        return [(looks, result._is_view()) for looks, result in zip(known[0], results, strict=True)]

    def made(self, recipe: Recipe) -> FakeTensor:
        looks, is_view = recipe
        made = self._new(looks)
        if not is_view:
            return made
        with self:
            return aten.alias.default(made)

    def view(self, of: FakeTensor, sizes: tuple[int, ...], strides: tuple[int, ...], start: int) -> FakeTensor:
        """A stand-in in the memory of another one, of which autograd does not know."""
        with torch._C._DisableTorchDispatch():  # `as_strided` would ask Python for the device
            made = torch.empty((), dtype=of.dtype, device="meta").set_(of.untyped_storage(), start, sizes, strides)
        return self._standing_in(made.requires_grad_(of.requires_grad), of.fake_device)

    def _new(self, looks: Any) -> FakeTensor:
        sizes, strides, dtype, device = looks
        with torch._C._DisableTorchDispatch():
            made = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
        return self._standing_in(made, device)

    def new(self, like: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> FakeTensor:
        """A new stand-in."""
        return self._new((sizes, strides, like.dtype, like.device))

    def detached(self, fake: torch.Tensor) -> torch.Tensor:
        """`fake.detach()`, which takes a quarter of the time for a leaf that is nothing out of the ordinary."""
        is_usual = type(fake) is FakeTensor and self.shape_env is None and self._is_plain(fake) and _is_usual(fake)
        known = self.attributes.get(fake.fake_device) if is_usual else None  # type: ignore[attr-defined]
        if known is None or FakeTensorConfig.debug:
            return fake.detach()
        with torch._C._DisableTorchDispatch():
            return _as_fake(fake, fake.fake_device, False, known)  # type: ignore[attr-defined]

    def _standing_in(self, meta: torch.Tensor, device: torch.device) -> FakeTensor:
        """`meta` as a stand-in on that device: as torch makes one, whose attributes it takes over."""
        known = self.attributes.get(device)
        if known is None or FakeTensorConfig.debug:
            fake = FakeTensor(self, meta, device)
            self.attributes[device] = dict(vars(fake))
            return fake
        return _as_fake(meta, device, meta.requires_grad, known)

    def _look(self, values: Any, looks: list[Any]) -> bool:
        """Notes all that a result's looks may depend on; answers whether that is all there is to know."""
        looks.append(len(values))
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                if not self._is_own(value) or value.is_neg() or value.is_conj():
                    return False
                known = _LOOKS_ONLY if value.constant is None else _KNOWN_ELEMENTS
                lies: tuple[Any, ...] = value.shape, value.stride(), value.storage_offset()
                if self.shape_env is not None:
                    lies = expressions(lies[0]), expressions(lies[1]), expression(lies[2])
                looks += (known, value.dtype, *lies, value.fake_device)
            elif kind in _LISTS:
                looks.append(kind)
                if not self._look(value, looks):
                    return False
            elif kind in _CONSTANTS:
                looks += (kind, value)
            elif kind is torch.SymInt and hasattr(value.node, "expr"):
                looks += (kind, expression(value))
            else:
                return False
        return True

    def _looks_of(self, results: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], bool] | None:
        """Where they are new tensors that are made again by their looks alone."""
        is_tuple = isinstance(results, tuple)
        found, memory = [], {value.untyped_storage()._cdata for value in tensors_in((args, kwargs))}
        for result in results if is_tuple else (results,):
            if type(result) is not FakeTensor or not self._is_plain(result):
                return None
            looks = result.shape, result.stride(), result.dtype, result.fake_device
            again, lies = self._new(looks), result.untyped_storage()
            if _rest(result) != _rest(again):
                return None
            if expression(lies.nbytes()) != expression(again.untyped_storage().nbytes()):
                return None
            if lies._cdata in memory:
                return None
            memory.add(lies._cdata)
            found.append(looks)
        return tuple(found), is_tuple

    def _is_plain(self, value: Any) -> bool:
        """Whether it is a stand-in of this mode, of which no elements are known."""
        return self._is_own(value) and value.constant is None

    def _is_own(self, value: Any) -> bool:
        is_own = type(value) is FakeTensor and value.fake_mode is self
        return is_own and value.real_tensor is None and value.layout is torch.strided


def _as_fake(meta: torch.Tensor, device: torch.device, requires_grad: bool, attributes: dict[str, Any]) -> FakeTensor:
    fake = torch.Tensor._make_subclass(
        FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device
    )
    torch._C._set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(attributes)
    return fake


def _is_usual(fake: torch.Tensor) -> bool:
    """Whether it is a leaf that is no view, of elements as they lie in memory, and counts writes."""
    if fake.is_inference() or torch.is_inference_mode_enabled() or fake.is_neg() or fake.is_conj():
        return False
    return fake.grad_fn is None and not fake._is_view()


def _is_simple(tensor: torch.Tensor) -> bool:
    """Whether it is a leaf of a CPU without a gradient yet that is no view, and shows its memory from its beginning."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or torch._C._dispatch_keys(tensor) != _PLAIN:
        return False
    is_alone = not tensor._is_view() and tensor.grad_fn is None and tensor.grad is None
    return is_alone and tensor.storage_offset() == 0 and not torch.is_inference_mode_enabled()


@cache
def _is_pure(func: Any) -> bool:
    """Whether all that it does is to give new tensors, whose looks are known by those of its arguments."""
    return _gives_new(func) and torch.Tag.nondeterministic_seeded not in func.tags  # these are counted


@cache
def _gives_new(func: Any) -> bool:
    """The same, and it may draw random numbers."""
    if not isinstance(func, OpOverload) or func.namespace not in ("aten", "prims") or func._schema.is_mutable:
        return False
    if func is aten.lift_fresh_copy.default:  # of a stand-in: of a real tensor nothing is known here
        return True
    if func.is_view or func in FakeTensorMode.lift_fns or not _FORBIDDEN.isdisjoint(func.tags):
        return False
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return not is_composite and func is not aten._unsafe_view.default


def memories(values: list[Any]) -> frozenset[int]:
    """The storages of tensors among values and lists of them, by their addresses; sparse ones have none."""
    strided = (each for each in tensors_in(values) if each.layout is torch.strided)
    return frozenset(each.untyped_storage()._cdata for each in strided)


def _rest(value: torch.Tensor) -> Any:
    return torch._C._dispatch_keys(value), value.requires_grad, expression(value.storage_offset()), value.is_inference()


def _is_foreign(record: logging.LogRecord) -> bool:
    """Whether an operation failed in another mode than ours: of what fails here eager code tells the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), FakeTensorMode):
        frame = frame.f_back
    return frame is None or not isinstance(frame.f_locals["self"], FakeMode)


logging.getLogger(FakeTensorMode.__module__).addFilter(_is_foreign)
