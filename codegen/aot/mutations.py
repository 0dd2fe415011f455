"""Operations that write into their arguments: what they write, and the functional operations that say the same.

All is read off the schemas; a table holds only what schemas leave out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._C import Argument
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._pytree import tree_leaves

from codegen.aot.functional import functional
from codegen.aot.views import Step, Unwritable, Writer, fit, is_view, settle, step_of
from symbolic.schemas import bind

aten = torch.ops.aten

#: An argument of an operation: its position, or its name where it can only be given by name.
Place = int | str

#: Batch norms update running statistics that their schemas don't mark.
_STATISTICS = frozenset({"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm_update_stats"})
_RUNNING = ("running_mean", "running_var")
#: The functional operation is called so; most others bear the name itself, or the name without its last underscore.
_SUFFIX = "_functional"
#: A functional operation that makes a new tensor takes these where the other is given one to write into.
_OPTIONS = ("dtype", "layout", "device", "pin_memory")


@dataclass(frozen=True)
class Counterpart:
    """The functional form of an operation that writes.

    `target` takes the operation's arguments without `dropped` (what is only written into, `out=`). `made_like` says
    that it also takes the dtype and the device that the dropped argument has. Its result number `new[i]` is the new
    value of argument `written(func)[i]`, and its results number `returns` are what the operation returns.
    """

    target: OpOverload
    dropped: tuple[str, ...]
    made_like: bool
    new: tuple[int, ...]
    returns: tuple[int, ...]


@dataclass(frozen=True)
class Written:
    """What the node of a functional form stands for: `func`, which writes the new of these `values` (old, new) over the
    old, in tensors of the same sizes and strides."""

    func: OpOverload
    values: tuple[tuple[fx.Node, fx.Node], ...]


# --- what is written --------------------------------------------------------------------------------------------------


def _writes(func: OpOverload, argument: Argument) -> bool:
    if argument.alias_info is not None and argument.alias_info.is_write:
        return True
    name = func._schema.name.partition("::")[2]
    return name in _STATISTICS and func.namespace == "aten" and argument.name in _RUNNING


@cache
def written(func: OpOverload) -> tuple[Place, ...]:
    """The arguments that `func` may write into, in the order of its schema."""
    return tuple(
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(func._schema.arguments)
        if _writes(func, argument)
    )


def _at(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[Place, Any]:
    bound, names = bind(func, args, kwargs), [argument.name for argument in func._schema.arguments]
    return {place: bound.get(names[place] if isinstance(place, int) else place) for place in written(func)}


def writes(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[Place, Any]:
    """The arguments that this call writes into: without those left out, and no running statistics outside of training.
    """
    idle = not bind(func, args, kwargs).get("training", True)
    declared = func._schema.arguments
    return {
        place: value
        for place, value in _at(func, args, kwargs).items()
        if value is not None and not (idle and isinstance(place, int) and declared[place].name in _RUNNING)
    }


def is_on_lists(func: OpOverload) -> bool:
    return func._schema.name.startswith("aten::_foreach_")


def turns(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[list[Any], dict[str, Any]]]:
    """The calls (args, kwargs) of one tensor each that a call on several does one after the other: on a CPU. None of
    them for other operations."""
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    alone = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.dim()]
    in_place = is_on_lists(func) and func._schema.name.endswith("_") and len(args[0]) > 1
    if not in_place or alone or any(tensor.device.type != "cpu" for tensor in tensors):
        return []

    def taken(value: Any, at: int) -> Any:
        return [value[at]] if isinstance(value, (list, tuple)) else value

    return [
        ([taken(value, at) for value in args], {name: taken(value, at) for name, value in kwargs.items()})
        for at in range(len(args[0]))
    ]


def drawn(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> list[torch.Tensor]:
    """The tensors that this call filled by random numbers: new results first, then what it has written into."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return []
    filled = [*writes(func, args, kwargs).values()]
    written = set(map(id, filled))
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [*(each for each in results if isinstance(each, torch.Tensor) and id(each) not in written), *filled]


def count_drawn(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """How many tensors a random call fills."""
    return sum(each.alias_info is None for each in func._schema.returns) + len(writes(func, args, kwargs))


def refill(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Iterator[torch.Tensor]) -> Any:
    """A random call with what it has `drawn` before in the place of new numbers."""
    # Copies, for the program may write into what it was given.
    fresh = [aten.clone.default(next(numbers)) for each in func._schema.returns if each.alias_info is None]
    filled = [target.copy_(next(numbers)) for target in writes(func, args, kwargs).values()]
    new, old = iter(fresh), iter(filled)
    return _one([next(new) if each.alias_info is None else next(old) for each in func._schema.returns])


def _random_between(tensor: torch.Tensor, low: int, high: int | None, *, generator: Any = None) -> Any:
    """Numbers in memory order, as `random_` draws them too. NotImplemented for other calls than `random_(low, high)` of
    a contiguous tensor."""
    if high is None or generator is not None or not tensor.is_contiguous():
        return NotImplemented
    return tensor.copy_(aten.randint_like.low_dtype(tensor, low, high))


#: What is recorded by other operations, for its name is a keyword: no graph could be printed.
RENAMED: dict[OpOverload, Callable[..., Any]] = {getattr(aten.random_, "from"): _random_between}


# --- the functional form ----------------------------------------------------------------------------------------------


def _names(func: OpOverload) -> Iterator[str]:
    """What a functional form of `func` may be called."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("__i") and name.endswith("__"):
        yield f"__{name[3:]}"
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    yield plain
    yield plain + _SUFFIX
    if name in _STATISTICS:
        yield f"_{name}_legit{_SUFFIX}"


def _overloads(func: OpOverload) -> Iterator[OpOverload]:
    """Candidates for a functional form, the one named like the overload itself first."""
    for name in _names(func):
        packet = getattr(getattr(torch.ops, func.namespace), name, None)
        if isinstance(packet, OpOverloadPacket):
            for overload in sorted(packet.overloads(), key=lambda name: name != func._overloadname):
                yield getattr(packet, overload)


def _type(argument: Argument) -> str:
    """The type as text; what is written into is there, so an optional statistic is a tensor."""
    text = str(argument.real_type)
    return text.removeprefix("Optional[").removesuffix("]") if argument.name in _RUNNING else text


def _same_arguments(kept: Sequence[Argument], takes: Sequence[Argument]) -> bool:
    """By position whatever their names, and by name whatever their order."""
    lists = [[_type(each) for each in side if not each.kwarg_only] for side in (kept, takes)]
    named = [{each.name: _type(each) for each in side if each.kwarg_only} for side in (kept, takes)]
    return lists[0] == lists[1] and named[0] == named[1]


def _alias_set(argument: Argument) -> frozenset[str]:
    return frozenset(argument.alias_info.before_set if argument.alias_info is not None else ())


@cache
def counterpart(func: OpOverload) -> Counterpart | None:
    """The functional form of an operation that writes.

    None where torch has none (see `functional`).
    """
    if not written(func) or func.namespace not in ("aten", "prims") or torch.Tag.inplace_view in func.tags:
        return None
    declared, returned = func._schema.arguments, func._schema.returns
    dropped = [argument for argument in declared if argument.is_out]
    kept = [argument for argument in declared if not argument.is_out]
    fresh = [result for result in returned if result.alias_info is None]
    changed = [*dropped, *(argument for argument in kept if _writes(func, argument))]
    results = [*map(_type, fresh), *map(_type, changed)]
    options = {*_OPTIONS} - {argument.name for argument in kept} if dropped else set()
    for target in _overloads(func):
        takes = [argument for argument in target._schema.arguments if argument.name not in options]
        gives = [_type(result) for result in target._schema.returns]
        if written(target) or is_view(target) or gives != results or not _same_arguments(kept, takes):
            continue
        order = {argument.name: len(fresh) + number for number, argument in enumerate(changed)}
        sets = {_alias_set(argument): order[argument.name] for argument in changed}
        number = iter(range(len(fresh)))
        return Counterpart(
            target=target,
            dropped=tuple(argument.name for argument in dropped),
            made_like=len(takes) < len(target._schema.arguments),
            new=tuple(order[argument.name] for argument in declared if _writes(func, argument)),
            returns=tuple(
                next(number) if result.alias_info is None else sets[_alias_set(result)]
                for result in returned
            ),
        )
    return None


# --- a call without its writes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a call returns (None, a value, a tuple of them) and the new value, or list of them, of all it writes into.

    New values have the dtype and the sizes of the old ones; strides are settled when they are put back into a root.
    """

    result: Any
    new: dict[Place, Any]


def apply(writer: Writer, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Outcome:
    """The call by its functional form, or by one made for it. Arguments as a dispatch mode gets them.

    Raises `Unwritable` where it resizes what it writes into.
    """
    changed = writes(func, args, kwargs)
    if not changed and not func._schema.is_mutable:
        return Outcome(_one(_parts(writer, func, writer.emit(func, *args, **kwargs))), {})
    form = _form(writer, func, args, kwargs)
    if form is None:
        return _on_copies(writer, func, args, kwargs, changed)
    given = {name: value for name, value in kwargs.items() if name not in form.dropped}
    if form.dropped:
        given |= _options(writer, form, bind(func, args, kwargs))
    args = (*args, *_defaults(func, args, kwargs))
    results = _parts(writer, form.target, writer.emit(form.target, *args, **given))
    new = {}
    for place, number in zip(written(func), form.new, strict=True):
        if place in changed:
            new[place] = results[number] = _kept(writer, changed[place], results[number])
    return Outcome(_one([results[number] for number in form.returns]), new)


def _defaults(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Arguments left out at the end of the list: the functional form may have no default for them."""
    left = [a for a in func._schema.arguments[len(args) :] if not a.kwarg_only]
    return [a.default_value for a in left if a.has_default_value() and a.name not in kwargs]


def _form(writer: Writer, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Counterpart | None:
    """The functional form, where it does what this very call does.

    It needs all that can be written into. And random numbers are drawn in an order that depends on the strides: a
    functional form draws them for a contiguous tensor, or one that it makes in an order of its own.
    """
    values = _at(func, args, kwargs).values()
    if any(value is None for value in values):
        return None
    random = torch.Tag.nondeterministic_seeded in func.tags
    return None if random and not all(writer.meta(value).is_contiguous() for value in values) else counterpart(func)


def _options(writer: Writer, form: Counterpart, bound: Mapping[str, Any]) -> dict[str, Any]:
    """What the tensor given to write into decides: the dtype of a reduction's sums, the kind of a new tensor."""
    if not form.made_like and bound.get("dtype", form) is not None:
        return {}
    like = writer.meta(bound[form.dropped[0]])
    return {"dtype": like.dtype, "device": like.device} if form.made_like else {"dtype": like.dtype}


def _parts(writer: Writer, func: OpOverload, value: Any) -> list[Any]:
    count = len(func._schema.returns)
    return [value][:count] if count < 2 else [writer.emit(operator.getitem, value, index) for index in range(count)]


def _kept(writer: Writer, old: Any, new: Any) -> Any:
    """A new value, or list of values, with the dtype of the old one; the sizes it has."""
    if isinstance(old, (list, tuple)):
        return [_kept(writer, each, writer.emit(operator.getitem, new, index)) for index, each in enumerate(old)]
    before, after = writer.meta(old), writer.meta(new)
    if before.shape != after.shape:
        raise Unwritable(f"sizes {list(before.shape)} become {list(after.shape)}")
    if before.untyped_storage()._cdata == after.untyped_storage()._cdata:  # `conj_physical` of real numbers is no copy
        new = writer.emit(aten.clone.default, new)
    if not torch.can_cast(after.dtype, before.dtype):
        raise Unwritable(f"{after.dtype} can't be cast to {before.dtype}")
    return fit(writer, old, new)


def _one(values: Sequence[Any]) -> Any:
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _on_copies(
    writer: Writer, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], changed: Mapping[Place, Any]
) -> Outcome:
    declared = func._schema.arguments
    names = {place: place if isinstance(place, str) else declared[place].name for place in changed}
    target = functional(func, tuple(names.values()))
    parts = iter(_parts(writer, target, writer.emit(target, *args, **kwargs)))
    fresh = [next(parts) for result in func._schema.returns if result.alias_info is None]
    new = {place: _settled(writer, old, next(parts)) for place, old in changed.items()}
    sets = {_alias_set(each): new[place] for place, name in names.items() for each in declared if each.name == name}
    left = iter(fresh)
    returns = [next(left) if each.alias_info is None else sets.get(_alias_set(each)) for each in func._schema.returns]
    return Outcome(_one(returns), new)


def _settled(writer: Writer, old: Any, new: Any) -> Any:
    """A new value, or list of values, as what is left in the old one."""
    if isinstance(old, (list, tuple)):
        return [_settled(writer, each, writer.emit(operator.getitem, new, index)) for index, each in enumerate(old)]
    return settle(writer, old, new)


def note(func: OpOverload, values: Sequence[tuple[fx.Node, fx.Node]]) -> None:
    """Leaves a note (`Written`) with the functional form that made the new of these `values` (old, new), unless they
    were made some other way: by a form made for it, or cast and laid out like the old ones afterwards."""
    form = counterpart(func)
    made = {_maker(new) for _, new in values}
    node = made.pop() if len(made) == 1 else None
    if node is not None and form is not None and not form.dropped and node.target is form.target:
        node.meta["written"] = Written(func, tuple(values))


def _maker(value: fx.Node) -> fx.Node:
    return _maker(value.args[0]) if value.target is operator.getitem else value  # type: ignore[arg-type]


# --- changes of geometry alone ----------------------------------------------------------------------------------------


def metadata_step(func: OpOverload, args: Sequence[Any]) -> Step | None:
    """The view of itself that an operation such as `t_` makes of its first argument, called before it runs.

    None where it can't be said as a view (`resize_`, `set_`), and for operations that write elements.
    """
    if torch.Tag.inplace_view not in func.tags:
        return None
    declared = func._schema.arguments
    for view in _overloads(func):
        if is_view(view) and _same_arguments(declared, view._schema.arguments):
            return step_of(view, args, {})
    return None


@cache
def in_place(view: OpOverload) -> OpOverload:
    """The operation that makes of its argument what `view` makes of it: `t_` for `t`. Undoes `metadata_step`."""
    packet = getattr(getattr(torch.ops, view.namespace), view._schema.name.partition("::")[2] + "_")
    overloads = (getattr(packet, name) for name in packet.overloads())
    return next(each for each in overloads if _same_arguments(each._schema.arguments, view._schema.arguments))
