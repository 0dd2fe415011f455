"""Writes the Python function around a compiled forward graph: for exactly what the program at hand does, no more."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from codegen import _C
from codegen.aot.facts import Base, Constant, Input, Recipe, Traced, Value, View
from codegen.aot.inputs import over_storage
from codegen.aot.mutations import in_place
from codegen.aot.views import Step

_numbers = count()


@dataclass(frozen=True)
class Tie:
    """How a forward's results are tied into autograd: the plan, and where among the results the saved values are."""

    plan: Any
    saved: slice
    extra: slice


@dataclass
class _Source:
    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)

    def add(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def name(self, stem: str, value: Any) -> str:
        """A global of the generated function that holds `value`."""
        found = next((name for name, known in self.names.items() if known is value), None)
        if found is None:
            found = f"{stem}_{len(self.names)}"
            self.names[found] = value
        return found


def write(traced: Traced, forward: Callable[..., Any], arity: int, tie: Tie | None) -> Callable[..., Any]:
    """The function of the program's flat arguments. Its text is in `linecache` and in its attribute `source`."""
    source = _Source()
    placeholders = _placeholders(traced, source)
    _versions_before(traced, source)
    if traced.num_forward or tie is not None:
        called = ", ".join([source.name("forward", forward), *placeholders])
        source.add(f"results = {source.name('below', _C.below)}({called})")
    if tie is not None:
        _tie(traced, tie, placeholders, source)
    for number, update in enumerate(traced.updates):
        _update(update, source)
        if _counted(update):
            source.add(f"{source.name('count_to', _count_to)}({_place(update.target)}, v{number} + {update.versions})")
    views: dict[tuple[Any, ...], str] = {}
    texts = [_output(recipe, views, source) for recipe in traced.outputs]
    for bump in traced.bumps:
        source.add(f"{source.name('count', _count)}({texts[bump.output]}, {bump.versions})")
    source.add(f"return ({''.join(text + ', ' for text in texts)})")
    arguments = ", ".join(f"a{i}" for i in range(arity))
    text = "\n".join([f"def compiled({arguments}):", *source.lines, ""])
    filename = f"<aot wrapper {next(_numbers)}>"
    exec(compile(text, filename, "exec"), source.names)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    compiled: Callable[..., Any] = source.names["compiled"]
    compiled.source = text  # type: ignore[attr-defined]
    return compiled


def _placeholders(traced: Traced, source: _Source) -> list[str]:
    """The texts of what the forward graph takes; bases are made first."""
    for number, group in enumerate(traced.groups):
        first = f"a{group.members[0]}"
        if group.base is not None:
            source.add(f"b{number} = a{group.base}")
        elif group.flat:
            source.add(f"b{number} = {source.name('over_storage', over_storage)}({first})")
        else:
            source.add(f"b{number} = {first}._base")
    return [f"a{i}" for i in traced.parameters] + [f"b{number}" for number in range(len(traced.groups))]


def _place(target: Value | Input | Base) -> str:
    if isinstance(target, Value):
        return f"results[{target.index}]"
    return f"{'a' if isinstance(target, Input) else 'b'}{target.index}"


# --- gradients --------------------------------------------------------------------------------------------------------
def _tie(traced: Traced, tie: Tie, placeholders: list[str], source: _Source) -> None:
    def row(items: Sequence[str]) -> str:
        return f"({''.join(item + ', ' for item in items)})"

    written = {_place(update.target) for update in traced.updates if update.value is not None}
    inputs = row([placeholders[at] for at in traced.differentiable])
    outputs = row([f"results[{carrier.index}]" for carrier in traced.carriers])
    saved = f"results[{tie.saved.start}:{tie.saved.stop}]"
    extra = f"results[{tie.extra.start}:{tie.extra.stop}]" if tie.extra.stop > tie.extra.start else "()"
    # Derivatives of derivatives start from the inputs as they came, and from the same random numbers.
    history = [f"{name}.clone()" if name in written else name for name in placeholders]
    randoms = [f"results[{at}]" for at in range(traced.num_forward - traced.num_randoms, traced.num_forward)]
    called = f"{source.name('tie', _C.tie)}({source.name('plan', tie.plan)}, {inputs}, {outputs}"
    source.add(f"{called}, {saved}, {extra}, {row([*history, *randoms])})")


# --- mutations --------------------------------------------------------------------------------------------------------
def _counted(update: Any) -> bool:
    """Whether what the wrapper does to the input counts otherwise than what the program did."""
    writes = update.value is not None and (update.tracked or update.versions > 0)
    return bool(update.versions != len(update.steps) + writes + update.detached)


def _versions_before(traced: Traced, source: _Source) -> None:
    for number, update in enumerate(traced.updates):
        if _counted(update):
            source.add(f"v{number} = {_place(update.target)}._version")


def _update(update: Any, source: _Source) -> None:
    place = _place(update.target)
    if update.detached:
        source.add(f"{place}.detach_()")
    for step in update.steps:
        source.add(f"{source.name('change', in_place(step.func))}({place}{_arguments(place, step, source)})")
    if update.value is None:
        pass
    elif update.tracked or not torch.is_grad_enabled():
        source.add(f"{place}.copy_(results[{update.value}])")
    elif update.versions:
        source.add(f"with {source.name('no_grad', torch.no_grad)}():")
        source.add(f"{place}.copy_(results[{update.value}])", 2)
    else:
        source.add(f"{place}.data.copy_(results[{update.value}])")


def _count(tensor: torch.Tensor, versions: int) -> None:
    """Lets a tensor count so many writes more."""
    if not tensor.is_inference():
        _count_to(tensor, tensor._version + versions)


def _count_to(tensor: torch.Tensor, version: int) -> None:
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


# --- outputs ----------------------------------------------------------------------------------------------------------
def _text(value: Any, source: _Source) -> str:
    """An argument of a view: numbers that vary are results of the graph."""
    if isinstance(value, Value):
        return _place(value)
    if isinstance(value, (tuple, list)):
        return f"({''.join(_text(item, source) + ', ' for item in value)})"
    return repr(value) if value is None or type(value) in (int, float, bool) else source.name("argument", value)


def _arguments(before: str, step: Step, source: _Source) -> str:
    given = [_text(value, source) for value in step.args]
    if step.func is torch.ops.aten.as_strided.default:
        given[-1] = f"{before}.storage_offset() + {given[-1]}"
    return "".join(f", {text}" for text in [*given, *(f"{k}={_text(v, source)}" for k, v in step.kwargs)])


def _output(recipe: Recipe, views: dict[tuple[Any, ...], str], source: _Source) -> str:
    if isinstance(recipe, Constant):
        return source.name("constant", recipe.value)
    if not isinstance(recipe, View):
        return _place(recipe)
    return _view(recipe.base, recipe.steps, recipe.tracked, views, source)


def _view(base: Any, steps: tuple[Step, ...], tracked: bool, views: dict[tuple[Any, ...], str], source: _Source) -> str:
    """The text of the view; views on the way are taken once."""
    if not steps:
        return _place(base)
    key = (base, steps, tracked)
    if key not in views:
        before = _view(base, steps[:-1], tracked, views, source)
        step = steps[-1]
        name = f"t{len(views)}"
        called = f"{source.name('view', step.func)}({before}{_arguments(before, step, source)})"
        if step.index is not None:
            many = (base, steps[:-1], step.call, tracked)
            if many not in views:
                views[many] = f"t{len(views)}"
                _assign(views[many], called, tracked, source)
            name = f"t{len(views)}"
            called = f"{views[many]}[{step.index}]"
            source.add(f"{name} = {called}")
        else:
            _assign(name, called, tracked, source)
        views[key] = name
    return views[key]


def _assign(name: str, called: str, tracked: bool, source: _Source) -> None:
    if tracked:
        source.add(f"{name} = {called}")
    else:
        source.add(f"with {source.name('no_grad', torch.no_grad)}():")
        source.add(f"{name} = {called}", 2)
