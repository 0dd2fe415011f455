"""What of the inputs differs from call to call, by what the user says and by what earlier captures were made for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from symbolic.marks import Mark, marks
from symbolic.sources import Source

if TYPE_CHECKING:
    from symbolic.translator import Translator

_VARIES = Mark(True)
_OWN_TENSORS = ("_parameters", "_buffers")


def varying_dims(tx: Translator, value: torch.Tensor, source: Source) -> dict[int, Mark]:
    """The dimensions of a tensor whose sizes are not of this call alone."""
    options, dims = tx.options, range(value.dim())
    found: dict[int, Mark] = {}
    if _may_vary(value, source):
        said = options.said.get(_parameter(tx, source), options.dynamic) if options.said else options.dynamic
        if said is True:
            found = dict.fromkeys(dims, _VARIES)
        elif options.seen:
            seen = [sizes for sizes in options.seen.get(source.text, ()) if isinstance(sizes, tuple)]
            alike = [sizes for sizes in seen if len(sizes) == value.dim()]
            found = {dim: _VARIES for dim in dims for sizes in alike if sizes[dim] != value.shape[dim]}
        if isinstance(said, Mapping):
            found |= {dim % len(dims): mark for dim, mark in said.items() if -len(dims) <= dim < len(dims)}
    found |= {dim: mark for dim, mark in marks(value).items() if dim in dims}
    return {dim: mark for dim, mark in found.items() if mark.varies and mark.holds(value.shape[dim])}


def varies(tx: Translator, value: int | float, source: Source) -> bool:
    """Whether a number is not of this call alone, and not one of so many that they are taken as they are."""
    seen = tx.options.seen.get(source.text, ()) if tx.options.seen else ()
    differs = any(before is type(value) or (type(before) is type(value) and before != value) for before in seen)
    is_said = bool(tx.options.said) and tx.options.said.get(_parameter(tx, source)) is True
    is_told = bool(tx.options.varying) and source.pattern in tx.options.varying
    return is_said or ((differs or is_told or _is_scheduled(source)) and not (tx.data and _is_data(tx, source)))


def some_vary(tx: Translator, value: Any, source: Source) -> bool:
    """Whether a number, or numbers in a tuple or slice, however deep, are not of this call alone."""
    if not (tx.options.seen or tx.options.varying or tx.options.said):
        return False
    return any(type(each) in (int, float) and varies(tx, each, at) for at, each in leaves(source, value))


def leaves(source: Source, value: Any) -> Iterator[tuple[Source, Any]]:
    """What a tuple or slice holds that is neither, and where; anything else is what it holds."""
    if type(value) is tuple:
        for i, item in enumerate(value):
            yield from leaves(source.step("index", i), item)
    elif type(value) is slice:
        for name in ("start", "stop", "step"):
            yield source.attr(name), getattr(value, name)
    else:
        yield source, value


def _is_data(tx: Translator, source: Source) -> bool:
    here: Source | None = source
    while here is not None and here not in tx.data:
        here = here.base
    return here is not None


def _parameter(tx: Translator, source: Source) -> str:
    """The parameter of the function, or of the module's `forward`, that came from there; empty if none did."""
    name = tx.graph.names.get(source)
    if name is not None:
        return name.removeprefix("l_").removesuffix("_")
    if source.kind == "arg":
        return source.name
    is_named = source.kind in ("item", "getitem") and source.base is not None and source.base.kind == "arg"
    return source.arg if is_named and isinstance(source.arg, str) else ""


def _is_scheduled(source: Source) -> bool:
    """Whether it is the learning rate of an optimizer's group or of an object: schedulers change it after a step, so
    it is an input of the first graph already."""
    return source.kind == "item" and source.arg == "lr"


def _may_vary(value: torch.Tensor, source: Source) -> bool:
    """Whether the sizes are the caller's affair: of arguments and what they hold, not of a module's own tensors."""
    here = source
    while here.base is not None:
        if here.kind == "made" or (here.kind == "item" and here.arg in _OWN_TENSORS):
            return False
        here = here.base
    return here.kind == "arg" and type(value) is torch.Tensor
