"""Writes the Python function around a compiled forward graph: for exactly what the program at hand does, no more."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import fx
from torch.nn.modules._functions import BackwardHookFunction

from codegen import _C
from codegen.aot import versions
from codegen.aot.facts import (
    Base,
    BaseOf,
    Changed,
    Data,
    Input,
    Link,
    OutputOf,
    Place,
    Recipe,
    Resized,
    Traced,
    Update,
    Value,
    View,
    made_of,
    memory_of,
    overwritten,
)
from codegen.aot.inputs import copied, over_storage
from codegen.aot.mutations import in_place
from codegen.aot.recorder import Untraceable
from codegen.aot.source import Source, name_of, row
from codegen.aot.versions import Counters
from symbolic.gradients import Blank, Together

_numbers = count()


@dataclass(frozen=True)
class Tie:
    """How the results of a level are tied into autograd, and where among all results the saved values are."""

    backward: Any
    saved: tuple[int, ...]
    extra: tuple[int, ...]


def write(
    traced: Traced, forward: Callable[..., Any], arity: int, ties: Sequence[Tie], together: Sequence[Together] = ()
) -> Callable[..., Any]:
    """The function of the program's flat arguments. Its text is in `linecache` and in its attribute `source`.

    One of `ties` for each level. Results in `together` get one autograd node for each of these.
    Raises Untraceable where results need one another."""
    source = Source()
    placeholders = _placeholders(traced, source)
    counters = versions.by_counter(traced)
    _versions_before(counters, source)
    _storages_before(traced, source)
    # Operations that nothing comes of are those that draw random numbers, write or raise.
    if traced.num_forward or ties or any(n.op == "call_function" for n in traced.joint.graph.nodes):
        called = ", ".join([source.name("forward", forward), *placeholders])
        source.add(f"results = {source.name('below', _C.below)}({called})")
    # Writes are counted before anything saves the tensors or takes views of them, which would be out of date.
    source.counted = {bump.of: bump.versions for bump in traced.bumps if isinstance(bump.of, Data)}
    written = [(name_of(bump.of), bump.versions) for bump in traced.bumps if isinstance(bump.of, Value)]
    written += [(name_of(update.target), update.versions) for update in traced.updates if update.inside]
    source.count_each(written)
    order = _Order(traced, counters, ties, together, placeholders, source)
    order.everything()
    source.add(f"return ({''.join(order.texts[id(recipe)] + ', ' for recipe in traced.outputs)})")
    arguments = ", ".join(f"a{i}" for i in range(arity))
    text = "\n".join([f"def compiled({arguments}):", *source.lines, ""])
    filename = f"<aot wrapper {next(_numbers)}>"
    exec(compile(text, filename, "exec"), source.names)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    compiled: Callable[..., Any] = source.names["compiled"]
    compiled.source = text  # type: ignore[attr-defined]
    return compiled


class _Order:
    """Writes what happens after the forward graph, each thing after those that it needs."""

    def __init__(
        self, traced: Traced, counters: Counters, ties: Sequence[Tie], together: Sequence[Together],
        placeholders: list[str], source: Source,
    ) -> None:
        self.traced = traced
        self.counters = counters
        self.ties = ties
        nodes = [tuple(at if isinstance(at, Blank) else traced.outputs[at] for at in each) for each in together]
        self.together = {id(recipe): node for node in nodes for recipe in node}
        self.source = source
        self.texts: dict[int, str] = {}  # by id: one recipe is one tensor, equal recipes are several
        self.number_of = {id(recipe): at for at, recipe in reversed(list(enumerate(traced.outputs)))}
        self.begun: set[Any] = set()
        self.finished: set[Any] = set()
        self.made_at: dict[Place, tuple[int, int]] = {}  # grows with the age of autograd's nodes
        self.level_of = {c.index: number for number, level in enumerate(traced.levels) for c in level.carriers}
        self.changed = {u.target for u in traced.updates if u.steps or u.data is not None or u.requires_grad}
        self.group_of = {i: Base(number) for number, group in enumerate(traced.groups) for i in group.members}
        self.inputs = self._inputs(placeholders)
        self.history = self._history(placeholders)

    def everything(self) -> None:
        for number, resized in enumerate(self.traced.resized):
            if resized.grows:
                _grow(resized, number, self.source)
        for number in range(len(self.ties)):
            self.tie(number)
        for update in self.traced.updates:
            self.write(update)
        for recipe in self.traced.outputs:
            if _early(recipe, self.changed):
                self.output(recipe)
        for update in self.traced.updates:
            self.change(update)
        for recipe in self.traced.outputs:
            self.output(recipe)
        for update in self.traced.updates:
            if update.keeps:
                self.source.add(f"{self.source.name('keep_node', _C.keep_node)}({name_of(update.target)})")
        for number, resized in enumerate(self.traced.resized):
            if not resized.grows:
                self.source.add(f"s{number}.resize_({resized.size})")
        self.arrange()

    def _begins(self, thing: Any) -> bool:
        if thing in self.begun and thing not in self.finished:
            raise Untraceable("results and writes that need one another")
        is_new = thing not in self.begun
        self.begun.add(thing)
        return is_new

    # --- what there is to write ---------------------------------------------------------------------------------------
    def tie(self, number: int) -> None:
        if self._begins(number):
            level, tie, name = self.traced.levels[number], self.ties[number], self.source.name
            if level.held:  # they are held with their versions: what else counts writes comes before
                for update in self.traced.updates:
                    if update.value is None or self.level_of.get(update.value, -1) < number:
                        self.change(update)
            for lower in level.foreign:
                self.tie(lower.level)
            cuts = [self.cut(place) for place in level.cuts]
            foreign = [_link(of.level, of.number) for of in level.foreign]
            inputs = row([*(self.inputs[at] for at in level.inputs), *cuts, *foreign])
            carriers = [f"results[{carrier.index}]" for carrier in level.carriers]
            links = [self.link(number, at, link) for at, link in enumerate(level.links)]
            seen = [*cuts, *map(self.cut, level.beyond), *foreign]
            rows = [inputs, row([*carriers, *links]), _picked(tie.saved), _picked(tie.extra)]
            values = ", ".join([*rows, row([*self.history, *seen])])
            self.source.add(f"{name('tie', _C.tie)}({name('backward', tie.backward)}, {values})")
            for at, carrier in enumerate(level.carriers):
                self.made_at[carrier.of] = (len(self.source.lines), at)
            self.finished.add(number)

    def arrange(self) -> None:
        """Hooks are to run in the order that autograd would have given them."""
        made = [place for place in self.traced.made if place in self.made_at]
        if made != sorted(made, key=self.made_at.__getitem__):
            self.source.add(f"{self.source.name('arrange', _C.arrange)}({row(list(map(self.cut, made)))})")

    def link(self, level: int, number: int, link: Link) -> str:
        """Makes a tensor of which only the history is of use."""
        made, shape = self.source.name("empty_strided", torch.empty_strided), self.source.text(link.shape)
        kind = f"dtype={link.dtype}, device={self.source.name('device', link.device)}"
        self.source.names["torch"] = torch
        self.source.add(f"{_link(level, number)} = {made}({shape}, {(0,) * len(link.shape)}, {kind})")
        return _link(level, number)

    def cut(self, place: Place) -> str:
        """The text of a tensor that the caller sees, as it ends."""
        match place:
            case OutputOf(at) | BaseOf(at):
                recipe = self.traced.outputs[at]
                if isinstance(place, BaseOf) and isinstance(recipe, View):
                    self.made(recipe.base)
                    return self.source.base(recipe.base)
                self.output(recipe)
                return self.texts[id(recipe)]
            case _:
                for update in self.updates_of(place):
                    self.change(update)
                return name_of(place)

    def updates_of(self, place: Input | Base) -> list[Update]:
        places = (place, self.group_of.get(place.index)) if isinstance(place, Input) else (place,)
        return [update for update in self.traced.updates if update.target in places]

    def write(self, update: Update) -> None:
        if self._begins(("write", update)):
            if update.value in self.level_of and update.data is None:
                self.tie(self.level_of[update.value])
            _write(update, self.source)
            self.made_at[update.target] = (len(self.source.lines), 0)
            self.finished.add(("write", update))
            together = self.counters[versions.counter(update)]
            later = sum(versions.counts_later(each) for each in together if ("change", each) not in self.finished)
            if not update.inside and (update is together[0] or versions.counts_anew(together)):
                _count_writes(together, later, self.source)

    def change(self, update: Update) -> None:
        if self._begins(("change", update)):
            self.write(update)
            if update.target in self.changed:
                self.before(update)
            if update.data is not None:
                _move(update, self.traced.updates.index(update), self.source)
                if update.value in self.level_of:
                    self.tie(self.level_of[update.value])
                _copy(update, self.source)
            _change(update, self.source)
            self.made_at[update.target] = (len(self.source.lines), 0)
            self.finished.add(("change", update))

    def before(self, update: Update) -> None:
        """What is taken from an input as it came."""
        for recipe in self.traced.outputs:
            if _early(recipe, {update.target}):
                self.output(recipe)
        for other in self.traced.updates:
            if other is update or (other.data is not None and _early(other.data, {update.target})):
                self.lie(other)

    def lie(self, update: Update) -> None:
        """Something that lies where an input is to come to lie."""
        if update.data is not None and self._begins(("lie", update)):
            self.made(update.data)
            text = self.source.output(update.data)
            self.source.add(f"w{self.traced.updates.index(update)} = {text}.data")
            self.finished.add(("lie", update))

    def output(self, recipe: Recipe) -> None:
        if id(recipe) not in self.texts and self._begins(id(recipe)):
            self.made(recipe)
            self.texts[id(recipe)] = self.source.output(recipe)
            if isinstance(recipe, View):
                self.made_at[OutputOf(self.number_of[id(recipe)])] = (len(self.source.lines), 0)
            self.source.returned.add(self.texts[id(recipe)])
            self.finished.add(id(recipe))
            if id(recipe) in self.together:
                self.give_together(self.together[id(recipe)])

    def give_together(self, node: tuple[Recipe | Blank, ...]) -> None:
        """The results of a node that hands gradients on get that node once all of them are there."""
        recipes = [each for each in node if not isinstance(each, Blank)]
        for recipe in recipes:
            self.output(recipe)
        if self._begins(id(node)):
            blank = partial(self.source.name, "blank")
            texts = row([blank(each) if isinstance(each, Blank) else self.texts[id(each)] for each in node])
            self.source.add(f"{self.source.name('together', _together)}({texts})")
            for recipe in recipes:
                self.made_at[OutputOf(self.number_of[id(recipe)])] = (len(self.source.lines), 0)
            self.finished.add(id(node))

    def made(self, recipe: Recipe) -> None:
        """What a result is taken from is there."""
        match recipe:
            case View(base=before, history=history):
                self.made(before)
                if history is not None:
                    self.made(history.of)
            case Data(of=before):
                self.made(before)
            case Value(index):
                if index in self.level_of:
                    self.tie(self.level_of[index])
            case Changed(target):
                for update in self.updates_of(target):
                    self.change(update)
            case Input() | Base():
                for update in self.updates_of(recipe):
                    self.write(update)

    # --- what derivatives start from ----------------------------------------------------------------------------------
    def _inputs(self, placeholders: list[str]) -> list[str]:
        """The inputs as they came, for levels that wait until something was written."""
        touched = {name_of(u.target) for u in self.traced.updates if u.tracked or u.steps or u.detached}
        late = {at for level in self.traced.levels if level.held for at in level.inputs}
        texts = list(placeholders)
        for at in sorted(late):
            if placeholders[at] in touched:
                texts[at] = f"e{at}"
                self.source.add(f"e{at} = {self.source.name('before', _before)}({placeholders[at]})")
        return texts

    def _history(self, placeholders: list[str]) -> list[str]:
        """Derivatives of derivatives start from the inputs as they came, and from the same random numbers. Inputs that
        no gradient depends on may hold something else by then."""
        traced = self.traced
        if not self.ties:
            return []
        later = {name_of(update.target) for update in traced.updates if update.requires_grad}
        nodes = traced.joint.graph.find_nodes(op="placeholder")[: len(placeholders)]
        lost = overwritten(traced)
        if lost:
            lost = lost & self._read_by_gradients(nodes) | overwritten(traced, plainly=False)
        copy = self.source.name("copied", partial(copied, whole=traced.by_place))
        texts = [
            f"{copy}({p})" if _is_tensor(n) and memory_of(n) in lost else p
            for p, n in zip(placeholders, nodes, strict=True)
        ]
        texts = [f"{text}.detach()" if text in later else text for text in texts]
        texts += [f"results[{at}]" for at in range(traced.num_forward - traced.num_randoms, traced.num_forward)]
        if len(self.ties) == 1 and not traced.levels[0].held:
            return texts
        self.source.add(f"history = {row(texts)}")
        return ["*history"]

    def _read_by_gradients(self, nodes: list[fx.Node]) -> set[int]:
        """The memories of those of the first placeholders that gradients are computed from."""
        made = zip(nodes, made_of(self.traced.joint, len(nodes)), strict=True)
        return {memory_of(node) for node, results in made if results >> self.traced.num_forward and _is_tensor(node)}


def _placeholders(traced: Traced, source: Source) -> list[str]:
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


# --- gradients --------------------------------------------------------------------------------------------------------
def _link(level: int, number: int) -> str:
    return f"link{level}_{number}"


def _picked(indices: Sequence[int]) -> str:
    """These results, as a tuple."""
    if not indices:
        return "()"
    if list(indices) == list(range(indices[0], indices[-1] + 1)):
        return f"results[{indices[0]}:{indices[-1] + 1}]"
    return row([f"results[{index}]" for index in indices])


def _before(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose gradient goes where that of this one goes now."""
    made = torch.empty(0)
    _C.graft((made,), (tensor,), (), ())
    return made


def _together(tensors: Sequence[torch.Tensor | Blank]) -> None:
    """Gives tensors one autograd node that hands their gradients on, to where they went before."""
    with torch.enable_grad():
        made = BackwardHookFunction.apply(*(each.made() if isinstance(each, Blank) else each for each in tensors))
    pairs = [(each, new) for each, new in zip(tensors, made, strict=True) if not isinstance(each, Blank)]
    _C.graft(tuple(each for each, _ in pairs), tuple(new for _, new in pairs), (), ())


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta["val"], torch.Tensor)


# --- mutations --------------------------------------------------------------------------------------------------------
def _versions_before(counters: Counters, source: Source) -> None:
    for together in counters.values():
        if versions.counts_anew(together):
            place = name_of(together[0].target)
            source.add(f"v{place} = {source.name('version', versions.version)}({place})")


def _storages_before(traced: Traced, source: Source) -> None:
    for number, resized in enumerate(traced.resized):
        source.add(f"s{number} = {name_of(resized.target)}.untyped_storage()")


def _grow(resized: Resized, number: int, source: Source) -> None:
    """A larger storage has a larger base."""
    place = name_of(resized.target)
    source.add(f"s{number}.resize_({resized.size})")
    source.add(f"{place} = {source.name('over_storage', over_storage)}({place})")


def _write(update: Update, source: Source) -> None:
    place = name_of(update.target)
    if update.detached:
        source.add(f"{place}.requires_grad_(False) if {place}.is_leaf else {place}.detach_()")
    if update.left is not None:
        source.add(f"{place}.data.copy_(results[{update.left}])")
    if update.data is None:
        _copy(update, source)


def _move(update: Update, number: int, source: Source) -> None:
    place = name_of(update.target)
    if update.ends:
        source.add(f"{place}.set_(w{number})")
    elif update.by_set:
        source.add(f"with {source.name('no_grad', torch.no_grad)}():")
        source.add(f"{place}.set_(w{number})", 2)
    else:
        source.add(f"{place}.data = w{number}")


def _copy(update: Update, source: Source) -> None:
    place = name_of(update.target)
    if update.value is None:
        pass
    elif update.tracked:
        source.add(f"{source.view(update.target, update.steps, True)}.copy_(results[{update.value}])")
    elif not update.versions:
        source.add(f"{place}.data.copy_(results[{update.value}])")
    elif not torch.is_grad_enabled():
        source.add(f"{place}.copy_(results[{update.value}])")
    else:
        source.add(f"with {source.name('no_grad', torch.no_grad)}():")
        source.add(f"{place}.copy_(results[{update.value}])", 2)


def _count_writes(together: list[Update], later: int, source: Source) -> None:
    """`later`: how many are counted by what will be changed."""
    place, missing = name_of(together[0].target), versions.missing(together)
    if versions.counts_anew(together):
        final = together[0].versions - later
        source.add(f"{source.name('count_to', versions.count_to)}({place}, v{place} + {final})")
    elif missing:
        source.count_each([(place, missing)])


def _change(update: Update, source: Source) -> None:
    place = name_of(update.target)
    is_hidden = bool(update.steps) and update.unseen and torch.is_grad_enabled()
    if is_hidden:
        source.add(f"with {source.name('no_grad', torch.no_grad)}():")
    for step in update.steps:
        changed = f"{source.name('change', in_place(step.func))}({place}{source.arguments(place, step)})"
        source.add(changed, 1 + is_hidden)
    if update.requires_grad:
        source.add(f"{place}.requires_grad_()")


def _early(recipe: Any, changed: set[Input | Base]) -> bool:
    """Whether it is taken from an input whose metadata then changes."""
    match recipe:
        case View(base=before) | Data(of=before):
            return _early(before, changed)
        case Input() | Base():
            return recipe in changed
    return False
