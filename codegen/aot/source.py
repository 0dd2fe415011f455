"""The text of the function around a compiled forward graph, and what tensors are called in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from codegen import _C
from codegen.aot import versions
from codegen.aot.facts import Base, Changed, Constant, Custom, Data, Input, Recipe, Value, View
from codegen.aot.views import Step


def name_of(target: Value | Input | Base) -> str:
    if isinstance(target, Value):
        return f"results[{target.index}]"
    return f"{'a' if isinstance(target, Input) else 'b'}{target.index}"


def row(items: Sequence[str]) -> str:
    """A tuple."""
    return f"({''.join(item + ', ' for item in items)})"


@dataclass
class Source:
    """What is written so far."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    views: dict[Any, str] = field(default_factory=dict)  # what was taken from what -> its name
    count: int = 0
    counted: dict[Data, int] = field(default_factory=dict)  # how many writes a `.data` has counted
    returned: set[str] = field(default_factory=set)  # names of views that are results
    taken: set[str] = field(default_factory=set)  # of the views that one call gave, those that have a name

    def add(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def name(self, stem: str, value: Any) -> str:
        """A global of the generated function that holds `value`."""
        found = next((name for name, known in self.names.items() if known is value), None)
        if found is None:
            found = f"{stem}_{len(self.names)}"
            self.names[found] = value
        return found

    def output(self, recipe: Recipe) -> str:
        if isinstance(recipe, Constant):
            return self.name("constant", recipe.value)
        if isinstance(recipe, View):
            made = self.view(recipe.base, recipe.steps, recipe.tracked, is_result=True)
            if recipe.history is not None:
                self._give(made, recipe.history)
            return made
        return self.base(recipe)

    def view(
        self, base: Value | Input | Base | Changed | Data, steps: tuple[Step, ...], tracked: bool,
        is_result: bool = False,
    ) -> str:
        """The text of the view; views on the way are taken once, and are no results."""
        if not steps:
            return self.base(base)
        key = (base, steps, tracked)
        if is_result or self.views.get(key) in (None, *self.returned):
            before = self.view(base, steps[:-1], tracked)
            step = steps[-1]
            called = f"{self.name('view', step.func)}({before}{self.arguments(before, step)})"
            if step.index is not None:
                called = self._one_of(called, (base, steps[:-1], step.call, tracked), step.index)
            self.views[key] = self._assigned(called, tracked or step.index is not None)
        return self.views[key]

    def _one_of(self, called: str, many: tuple[Any, ...], index: int) -> str:
        """One of the several views that a call gives, which nobody has yet: of that of before, or of another call."""
        if f"{self.views.get(many)}[{index}]" in self.taken:
            del self.views[many]
        if many not in self.views:
            self.views[many] = self._assigned(called, many[-1])
        one = f"{self.views[many]}[{index}]"
        self.taken.add(one)
        return one

    def base(self, base: Value | Input | Base | Changed | Data) -> str:
        """What views are taken from."""
        if not isinstance(base, Data):
            return name_of(base.target if isinstance(base, Changed) else base)
        if base not in self.views:
            taken = "detach()" if base.detached else "data"
            self.views[base] = name = self._assigned(f"{self.output(base.of)}.{taken}", True)
            if base in self.counted:
                self.count_each([(name, self.counted[base])])
        return self.views[base]

    def text(self, value: Any) -> str:
        """An argument of a view: numbers that vary are results of the graph."""
        if isinstance(value, Value):
            return name_of(value)
        if isinstance(value, (tuple, list)):
            return f"({''.join(self.text(item) + ', ' for item in value)})"
        return repr(value) if value is None or type(value) in (int, float, bool) else self.name("argument", value)

    def arguments(self, before: str, step: Step) -> str:
        given = [self.text(value) for value in step.args]
        if step.func is torch.ops.aten.as_strided.default:
            given[-1] = f"{before}.storage_offset() + {given[-1]}"
        return "".join(f", {text}" for text in [*given, *(f"{k}={self.text(v)}" for k, v in step.kwargs)])

    def count_each(self, written: Sequence[tuple[str, int]]) -> None:
        """Lets tensors count so many writes more."""
        for times in sorted({times for _, times in written if times}):
            places = row([place for place, number in written if number == times])
            self.add(f"{self.name('count', versions.count)}({places}, {times})")

    def _assigned(self, called: str, tracked: bool) -> str:
        name = f"t{self.count}"
        self.count += 1
        if tracked:
            self.add(f"{name} = {called}")
        else:
            self.add(f"with {self.name('no_grad', torch.no_grad)}():")
            self.add(f"{name} = {called}", 2)
        return name

    def _give(self, view: str, history: Custom) -> None:
        self.add(f"{self.name('graft', _C.graft)}(({view},), ({name_of(history.of)},), (), ())")
        mark, made = torch._C._autograd._set_creation_meta, history.made
        self.add(f"{self.name('mark', mark)}({view}, {self.name('made', made)})")
