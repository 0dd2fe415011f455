"""What a compiled program was made of, for people: its graphs as Python, its facts as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from codegen.aot.facts import (
    Base,
    BaseOf,
    Carrier,
    Changed,
    Constant,
    Data,
    Input,
    Level,
    LinkOf,
    OutputOf,
    Place,
    Traced,
    Update,
    Value,
    View,
)
from codegen.aot.partition import Partition, report
from codegen.aot.views import Step


@dataclass(frozen=True)
class Stages:
    """The attribute `stages` of a compiled program. `forward` is the joint graph itself where there is no backward."""

    traced: Traced
    forward: fx.GraphModule
    backward: fx.GraphModule | None
    wrapper: str
    captured: fx.GraphModule | None = None  # what passes made of it


def stages_of(module: fx.GraphModule | None) -> dict[str, Stages]:
    """Those that a captured graph went through, by the names of its parts if it was compiled in such."""
    if module is None:
        return {}
    whole = module.meta.get("stages")
    found = {"": whole} if whole is not None else module.meta.get("parts", {})
    return {name: each for name, each in found.items() if isinstance(each, Stages)}


def all_texts(module: fx.GraphModule | None) -> dict[str, str]:
    """The texts of all these stages."""
    each = ((f"{name}_" if name else "", texts(stages)) for name, stages in stages_of(module).items())
    return {prefix + file: text for prefix, found in each for file, text in found.items()}


def texts(stages: Stages) -> dict[str, str]:
    """File name -> text: the graphs with dtypes and sizes, what passes did to them (`passes.txt`) and what their
    compilers say they made of these (`graph.meta["texts"]`: a function that gives a dict like this one), the wrapper,
    and the facts (`aot.txt`)."""
    graphs = {
        "captured": stages.captured, "joint": stages.traced.joint, "forward": stages.forward,
        "backward": stages.backward,
    }
    found = {f"{name}.py": _graph(graph) for name, graph in graphs.items() if graph is not None}
    for name, graph in (("forward", stages.forward), ("backward", stages.backward)):
        made = graph.meta.get("texts") if graph is not None else None
        found |= {f"{name}_{file}": text for file, text in made().items()} if made is not None else {}
    return {**found, **_passes(graphs), "wrapper.py": stages.wrapper, "aot.txt": facts(stages)}


def _passes(graphs: dict[str, fx.GraphModule | None]) -> dict[str, str]:
    seen: dict[int, str] = {}
    for name, graph in graphs.items():
        if graph is not None and graph.meta.get("passes") and id(graph) not in seen:
            seen[id(graph)] = "\n".join([f"{name}:", *map(str, graph.meta["passes"]), ""])
    return {"passes.txt": "\n".join(seen.values())} if seen else {}


def _graph(graph: fx.GraphModule) -> str:
    return graph.print_readable(print_output=False) + "\n"


def facts(stages: Stages) -> str:
    """Where each result comes from, what happens to inputs, what carries gradients, and what is saved for these."""
    traced = stages.traced
    rows = {
        "inputs that share memory": [
            (f"base {at}", _listed(f"input {i}" for i in group.members))
            for at, group in enumerate(traced.groups)
        ],
        "outputs": [(str(at), _recipe(recipe)) for at, recipe in enumerate(traced.outputs)],
        "written before they are returned": [
            (_place(bump.of), f"{bump.versions} times") for bump in traced.bumps
        ],
        "updates": [(_place(update.target), _update(update)) for update in traced.updates],
        "carriers of gradients": [
            (f"result {carrier.index}", _carrier(carrier, level, traced))
            for level in traced.levels for carrier in level.carriers
        ],
        "links between levels": [
            (_link(LinkOf(number, at)), f"{list(link.shape)} {link.dtype}; tangent strides {list(link.strides)}")
            for number, level in enumerate(traced.levels) for at, link in enumerate(level.links)
        ],
    }
    lines: list[str] = []
    for title, found in rows.items():
        if found:
            lines += [f"{title}:", *_table(found), ""]
    partition = stages.forward.meta.get("partition")
    if isinstance(partition, Partition):
        lines += ["saved for the backward:", report(partition), ""]
    return "\n".join(lines)


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(left) for left, _ in rows)
    return [f"  {left:<{width}}  {right}" for left, right in rows]


def _place(place: Value | Input | Base | Changed | Data) -> str:
    if isinstance(place, Data):
        return f"{'detached' if place.detached else 'data of'} {_recipe(place.of)}"
    if isinstance(place, Changed):
        return f"changed {_place(place.target)}"
    return f"{type(place).__name__.lower().replace('value', 'result')} {place.index}"


def _chain(steps: Iterable[Step]) -> str:
    return " -> ".join(map(str, steps))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"


def _recipe(recipe: Any) -> str:
    if isinstance(recipe, Constant):
        return f"constant {recipe.value!r}"
    if isinstance(recipe, View):
        return f"view of {_place(recipe.base)}: {_chain(recipe.steps)}{', tracked' if recipe.tracked else ''}"
    return _place(recipe)


def _update(update: Update) -> str:
    said = {
        "is detached": update.detached,
        "comes to require a gradient": update.requires_grad,
        f"changes its shape: {_chain(update.steps)}": bool(update.steps),
        f"gets result {update.value}": update.value is not None,
        "is written by the graph": update.inside,
        "autograd sees it": update.tracked,
        f"counts {update.versions}": update.versions > 0,
    }
    return _listed(words for words, holds in said.items() if holds)


def _carrier(carrier: Carrier, level: Level, traced: Traced) -> str:
    placeholders = traced.joint.graph.find_nodes(op="placeholder")
    inputs = [placeholders[at].name for at in level.inputs]
    sources = _listed([*inputs, *map(_where, level.cuts), *map(_link, level.foreign)])
    return f"{_where(carrier.of)}; tangent strides {list(carrier.strides)}; gradients for {sources}"


def _link(of: LinkOf) -> str:
    return f"link {of.number} of level {of.level}"


def _where(place: Place) -> str:
    if isinstance(place, (OutputOf, BaseOf)):
        return f"{'the base of ' if isinstance(place, BaseOf) else ''}output {place.output}"
    return f"{_place(place)} as it ends"
