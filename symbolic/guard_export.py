"""Guards as a page of Python: which calls an entry serves, as a function that says so.

What no expression can name (a class of a function's own, a code object) stands there as `known("...")`, what the native
tree compares as a whole as a call: `is_tensor`, `state_is_as_it_was` and so on, explained at the top of the page."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import torch

from symbolic import terms
from symbolic.guards import TEXT, Guard, short
from symbolic.sources import Source

#: What the page calls and does not define.
LEGEND = '''
"""Which calls each entry of a compiled function serves. Entries are tried in this order.

known(text): an object that has no name in its module. holds(text): a guard that no expression can say.
state_is_as_it_was(): grad mode, inference mode, autocast, defaults, modes and determinism.
is_tensor(x, class, dtype, sizes, strides, device, layout, requires_grad, is_leaf, dispatch keys): None is any number.
makes_as_object(cls): calls of cls make instances as object.__new__ does, which refuses arguments otherwise.
is_function_of(f, code): f has this code, and the defaults that it had.
is_unhooked(x): nobody is told of the gradient of x; with True, nobody but the hooks that x has in its own dicts.
are_different(...): no two are one object. memory_is_shared_within(...): exactly these share memory.
"""
'''.strip()
_LITERALS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_REPRS = frozenset({torch.dtype, torch.layout, torch.memory_format})  # these are Python as they are


class Page:
    """Collects the functions, and what they have to import."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.functions: list[str] = []

    def __str__(self) -> str:
        imports = "".join(f"import {name}\n" for name in sorted(self.modules))
        return "\n\n".join(filter(None, [LEGEND, imports.strip(), *self.functions])) + "\n"

    def add(self, name: str, about: str, guards: Sequence[Guard]) -> None:
        """A function for an entry. `about`: a line on it."""
        roots = {root for guard in guards for source in _sources(guard) if (root := source.root).name.isidentifier()}
        slots = sorted((root.arg, root.name) for root in roots if root.kind == "arg")
        cells = sorted((root.arg, root.name) for root in roots if root.kind == "closure")
        parameters = ", ".join([name for _, name in slots] + ["*"] * bool(cells) + [name for _, name in cells])
        lines = [f"# {about}", f"def {name}({parameters}):", "    return ("]
        for position, guard in enumerate(guards):
            joined = "and " if position else ""
            place = f"  # {guard.filename}:{guard.line}" if guard.line else ""
            lines.append(f"        {joined}{self.expression(guard)}{place}")
        self.functions.append("\n".join([*lines, "    )"] if guards else [*lines[:-1], "    return True"]))

    def expression(self, guard: Guard) -> str:
        said = _PYTHON[guard.kind](self, guard.source, guard.payload)
        try:
            ast.parse(said, mode="eval")
        except SyntaxError:  # a key of a dict may be any object
            return f"holds({TEXT[guard.kind](guard)!r})"
        return said

    def path(self, source: Source | None) -> str:
        return source.written(self._root) if source is not None else ""

    def paths(self, sources: Iterable[Source]) -> str:
        return ", ".join(map(self.path, sources))

    def _root(self, root: Source) -> str:
        return self.object(root.arg) if root.kind == "const" else root.name

    def object(self, value: Any) -> str:
        """An expression that is this object."""
        kind = type(value)
        if kind in _LITERALS and value == value and abs(value if kind is float else 0) != float("inf"):
            return repr(value)
        if kind is tuple:
            return f"({', '.join(map(self.object, value))}{',' * (len(value) == 1)})"
        if kind in _REPRS:
            return self._imported("torch", repr(value))
        if isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
            return self._imported(value.__name__, value.__name__)
        if kind is dict and isinstance(module := value.get("__name__"), str):
            if vars(sys.modules.get(module, object)) is value:
                return self._imported(module, f"{module}.__dict__")
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(module, str) and isinstance(name, str) and _found(module, name) is value:
            return name if module == "builtins" else self._imported(module, f"{module}.{name}")
        owner = getattr(value, "__objclass__", None)  # of a method or attribute written in C
        own = getattr(value, "__name__", "")
        if isinstance(owner, type) and vars(owner).get(own) is value:
            return f"{self.object(owner)}.{own}"
        return f"known({short(value)!r})"

    def _imported(self, module: str, text: str) -> str:
        self.modules.add(module)
        return text


def _found(module: str, name: str) -> Any:
    here: Any = sys.modules.get(module)
    for part in name.split("."):
        here = getattr(here, part, None)
    return here


def _sources(guard: Guard) -> list[Source]:
    """The paths that it reads."""
    found = [guard.source] if guard.source is not None else []
    if guard.kind == "same":
        found.append(guard.payload)
    elif guard.kind == "distinct":
        found += guard.payload
    elif guard.kind == "storage":
        found += [source for group in guard.payload for source in group]
    elif guard.kind == "shape":
        found += [extent.source for extent in terms.extents(guard.payload)]
    return [part for source in found for part in source.root.parts or (source,)]


def _tensor(page: Page, source: Source | None, facts: dict[str, Any]) -> str:
    said = [page.object(facts[key]) for key in ("cls", "dtype", "sizes", "strides")]
    said += [repr(str(facts["device"])), page.object(facts["layout"])]
    said += [repr(facts["requires_grad"]), repr(facts["is_leaf"]), hex(facts["keys"])]
    return f"is_tensor({page.path(source)}, {', '.join(said)})"


def _predicate(page: Page, source: Source | None, payload: Any) -> str:
    written = getattr(payload, "written", None)
    if written is None or source is None:
        return f"{page.object(payload)}({page.path(source)})"
    return str(written(*map(page.path, source.parts or (source,))))


def _no_attribute_of_class(page: Page, source: Source | None, name: str) -> str:
    return f"not any({name!r} in vars(cls) for cls in {page.path(source)}.__mro__)"


def _is(page: Page, source: Source | None, payload: Any) -> str:
    return f"{page.path(source)} is {page.object(payload)}"


def _absent(page: Page, source: Source | None, key: Any) -> str:
    return f"{page.object(key)} not in {page.path(source)}"


def _storage(page: Page, source: Source | None, groups: list[list[Source]]) -> str:
    return f"memory_is_shared_within({', '.join(f'[{page.paths(group)}]' for group in groups)})"


#: kind -> the guard as a Python expression. The kinds are those of `guards.TEXT`.
_PYTHON: dict[str, Callable[[Page, Source | None, Any], str]] = {
    "type": lambda page, source, payload: f"type({page.path(source)}) is {page.object(payload)}",
    "is": _is,
    "is_weak": _is,
    "eq": lambda page, source, payload: f"{page.path(source)} == {page.object(payload)}",
    "tensor": _tensor,
    "unhooked": lambda page, source, payload: f"is_unhooked({page.path(source)}{', True' if payload else ''})",
    "len": lambda page, source, payload: f"len({page.path(source)}) == {payload}",
    "keys": lambda page, source, payload: f"list({page.path(source)}) == [{', '.join(map(page.object, payload))}]",
    "absent": _absent,
    "absent_weak": _absent,
    "no_attr": lambda page, source, payload: f"not hasattr({page.path(source)}, {payload!r})",
    "no_typeattr": _no_attribute_of_class,
    "own": lambda page, source, payload: f"{payload[0]!r} {'in' if payload[1] else 'not in'} vars({page.path(source)})",
    "inherits": lambda page, source, mro: f"{page.path(source)}.__mro__ == ({', '.join(map(page.object, mro))})",
    "makes": lambda page, source, answer: f"{'' if answer else 'not '}makes_as_object({page.path(source)})",
    "function": lambda page, source, payload: f"is_function_of({page.path(source)}, {page.object(payload[1])})",
    "same": lambda page, source, payload: f"{page.path(source)} is {page.path(payload)}",
    "distinct": lambda page, source, payload: f"are_different({page.paths(payload)})",
    "storage": _storage,
    "shape": lambda page, source, payload: terms.text(payload, page.path),
    "predicate": _predicate,
    "state": lambda page, source, payload: "state_is_as_it_was()",
}
