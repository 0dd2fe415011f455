"""All passes over graphs in one table, which users add to; and what runs those of a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import fx

Rewrite = Callable[[fx.GraphModule], bool]

#: Which graph a pass is given: the captured one, of torch's functions as the program calls them (values in
#: `meta["example_value"]`); then functional graphs of ATen's operations (`meta["val"]`): forward and backward in one,
#: each of them by itself, or that of a program without gradients. The results of a forward from `meta["num_outputs"]`
#: on are what is saved for the backward.
STAGES = ("before_autograd", "joint", "forward", "backward", "inference")


@dataclass(frozen=True)
class Pass:
    name: str
    when: tuple[str, ...]
    run: Rewrite
    optional: bool
    about: str
    of: tuple[Any, ...] = ()

    def concerns(self, graph: fx.GraphModule) -> bool:
        """Whether there is anything in a graph for it to look at."""
        found = (graph.graph.find_nodes(op=_kind(target), target=target) for target in self.of)
        return not self.of or any(found)


@dataclass(frozen=True)
class Change:
    """What a pass did to a graph. `gone`, `new`: nodes as text, in their order; where both are empty, it changed
    arguments only."""

    name: str
    gone: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        """A line, then what went (-) and what came (+)."""
        lines = [f"{self.name}: {len(self.gone)} nodes gone, {len(self.new)} new"]
        lines += [f"  - {text}" for text in self.gone]
        lines += [f"  + {text}" for text in self.new]
        return "\n".join(lines)


_table: dict[str, Pass] = {}


def _kind(target: Any) -> str:
    return "call_method" if isinstance(target, str) else "call_function"


def register(
    name: str, when: str | Iterable[str], *, optional: bool = True, before: str | None = None, of: Iterable[Any] = ()
) -> Callable[[Rewrite], Rewrite]:
    """Adds `function(graph) -> whether it changed something` to the table, for one stage or several.

    Passes run in the order of the table: this one comes last, or `before` another. `optional` ones can be switched off.
    `of`: functions, and names of methods; a graph that calls none of them is none of this one's business.

    A pass gives each node that it makes a value in `meta["val"]`, and neither drops nor repeats an operation that draws
    random numbers. Results of the graph stay apart from each other and from its inputs if they were, and keep their
    strides. What takes the place of a node in a joint graph takes its name (`graphs.replace` sees to both): backwards
    that are asked for less come from another joint graph, in which they look for what was saved by its name.

    ValueError: that name is taken, or there is no such stage or pass.
    """
    stages = (when,) if isinstance(when, str) else tuple(when)
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        raise ValueError(f"there is no stage {unknown[0]!r}; there are {', '.join(STAGES)}")
    if name in _table:
        raise ValueError(f"there already is a pass {name!r}")
    if before is not None:
        _known(before)

    def add(run: Rewrite) -> Rewrite:
        about = (run.__doc__ or "").strip().split("\n")[0]
        rows = list(_table.values())
        at = len(rows) if before is None else rows.index(_table[before])
        rows.insert(at, Pass(name, stages, run, optional, about, tuple(of)))
        _table.clear()
        _table.update((each.name, each) for each in rows)
        return run

    return add


def unregister(name: str) -> None:
    """Takes a pass out of the table. ValueError: there is none of that name."""
    del _table[_known(name).name]


def table() -> tuple[Pass, ...]:
    """All passes, in their order."""
    return tuple(_table.values())


def _known(name: str) -> Pass:
    if name not in _table:
        raise ValueError(f"there is no pass {name!r}; there are {', '.join(_table)}")
    return _table[name]


@dataclass(frozen=True)
class Passes:
    """The passes of the table but those switched `off`. ValueError: these are unknown, or required."""

    off: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "off", frozenset(self.off))
        required = sorted(name for name in self.off if not _known(name).optional)
        if required:
            raise ValueError(f"the pass {required[0]!r} is required")

    def of(self, stage: str) -> list[Pass]:
        return [each for each in table() if stage in each.when and each.name not in self.off]

    def concern(self, stage: str, graph: fx.GraphModule) -> bool:
        """Whether any of a stage may change the graph."""
        return any(each.concerns(graph) for each in self.of(stage))

    def __call__(self, stage: str, graph: fx.GraphModule) -> bool:
        """Runs those of a stage; answers whether they changed the graph. What they did is in `graph.meta["passes"]`."""
        concerned = (each for each in self.of(stage) if each.concerns(graph))
        changes = [change for each in concerned if (change := self.run(each, graph)) is not None]
        if changes:
            graph.meta["passes"] = (*graph.meta.get("passes", ()), *changes)
            _forget_written(graph)
            graph.recompile()
        return bool(changes)

    def run(self, each: Pass, graph: fx.GraphModule) -> Change | None:
        """Runs one of them."""
        before = dict.fromkeys(graph.graph.nodes)
        if not each.run(graph):
            return None
        after = dict.fromkeys(graph.graph.nodes)
        gone = [f"{node.name} = {node._pretty_print_target(node.target)}" for node in before if node not in after]
        new = [str(node.format_node()) for node in after if node not in before]
        return Change(each.name, tuple(gone), tuple(new))


def _forget_written(graph: fx.GraphModule) -> None:
    """Drops the notes of what operations stood for where they name nodes that are no more."""
    for node in graph.graph.nodes:
        note = node.meta.get("written")
        if note is not None and any(each._erased for pair in note.values for each in pair):
            del node.meta["written"]

