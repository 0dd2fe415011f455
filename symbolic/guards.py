"""Guards as data: what must hold of the inputs for a compiled frame to be valid, and how each fact reads in words.

A fact is recorded where it is read (`Translator.know`), once. `program` lays the recorded guards out as the node and
check lists that the native guard tree takes (`jit/csrc/guards.cpp`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from symbolic import terms
from symbolic.passing import Stand, is_passing
from symbolic.sources import Source


@dataclass(slots=True, eq=False)  # frozen ones take three times as long to make, and there are thousands
class Guard:
    """`kind` of fact about the object at `source` (None: about the whole process), the user line that needed it.
    Never written to."""

    source: Source | None
    kind: str
    payload: Any
    filename: str
    line: int

    @property
    def place(self) -> tuple[str, int]:
        return self.filename, self.line

    def __str__(self) -> str:
        asked = f"  # needed at {self.filename}:{self.line}" if self.line else ""  # 0: every capture asks
        return f"{TEXT[self.kind](self)}{asked}"


def _path(guard: Guard) -> str:
    return guard.source.said if guard.source is not None else ""


def _tensor_text(guard: Guard) -> str:
    info = guard.payload
    sizes, strides = (", ".join("*" if n is None else str(n) for n in info[key]) for key in ("sizes", "strides"))
    grad = (", requires_grad" if info["is_leaf"] else ", requires_grad, no leaf") if info["requires_grad"] else ""
    return (
        f"{_path(guard)}: {info['cls'].__name__} {str(info['dtype'])[6:]}[{sizes}] strides ({strides}) "
        f"on {info['device']}{grad}"
    )


def _predicate_text(guard: Guard) -> str:
    written = getattr(guard.payload, "written", None)
    if written is not None:
        assert guard.source is not None
        return str(written(*(part.said for part in guard.source.parts or (guard.source,))))
    return f"{getattr(guard.payload, '__doc__', None) or short(guard.payload)} of {_path(guard)}"


def short(value: Any) -> str:
    """The object in words."""
    if isinstance(value, type):
        return value.__qualname__
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _and_defaults(guard: Guard) -> str:
    return "" if ... in guard.payload[2:] else "and defaults "


#: kind -> the guard in words. The kinds are those of the native tree.
TEXT: dict[str, Callable[[Guard], str]] = {
    "type": lambda g: f"type({_path(g)}) is {short(g.payload)}",
    "is": lambda g: f"{_path(g)} is {short(g.payload)}",
    "is_weak": lambda g: f"{_path(g)} is {short(g.payload)}",
    "eq": lambda g: f"{_path(g)} == {short(g.payload)}",
    "tensor": _tensor_text,
    "unhooked": lambda g: f"nobody{' but its own hooks' if g.payload else ''} is told of the gradient of {_path(g)}",
    "len": lambda g: f"len({_path(g)}) == {g.payload}",
    "keys": lambda g: f"list({_path(g)}) == {short(list(g.payload))}",
    "absent": lambda g: f"{g.payload!r} not in {_path(g)}",
    "absent_weak": lambda g: f"{g.payload!r} not in {_path(g)}",
    "no_attr": lambda g: f"not hasattr({_path(g)}, {g.payload!r})",
    "no_typeattr": lambda g: f"{_path(g)} has no attribute {g.payload!r}",
    "own": lambda g: f"{g.payload[0]!r} {'in' if g.payload[1] else 'not in'} vars({_path(g)})",
    "inherits": lambda g: f"{_path(g)}.__mro__ == ({', '.join(cls.__qualname__ for cls in g.payload)})",
    "makes": lambda g: f"{_path(g)} makes its instances {'' if g.payload else 'not '}as object does",
    "function": lambda g: f"{_path(g)} is a function with the code {_and_defaults(g)}of {short(g.payload[1])}",
    "same": lambda g: f"{_path(g)} is {g.payload.said}",
    "distinct": lambda g: f"different objects: {', '.join(s.said for s in g.payload)}",
    "storage": lambda g: "memory is shared exactly within "
    + ", ".join("(" + ", ".join(s.said for s in group) + ")" for group in g.payload),
    "shape": lambda g: terms.text(g.payload),
    "predicate": _predicate_text,
    "state": lambda g: "grad mode, inference mode, autocast, defaults, modes and determinism as they were",
}


#: kind -> the kind of the guard that holds its payload weakly, as one does that is a class that is to go.
_WEAK = {"is": "is_weak", "absent": "absent_weak"}


class Guards:
    """The guards of one capture, each fact once."""

    def __init__(self) -> None:
        self._facts: dict[tuple[Any, ...], Guard] = {}

    def add(self, guard: Guard) -> None:
        payload = guard.payload
        which = None if guard.kind == "keys" else payload if type(payload) in (str, int) else id(payload)
        self._facts.setdefault((guard.source, guard.kind, which), guard)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._facts.values())

    def __len__(self) -> int:
        return len(self._facts)


@dataclass(frozen=True, slots=True)
class Program:
    """Arguments of the native tree; `guards[i]` is what check i stands for."""

    nodes: list[tuple[int, str, Any]]
    checks: list[tuple[int, str, Any]]
    values: list[int]
    guards: list[Guard]


def program(guards: Iterable[Guard], values: Sequence[Source]) -> Program:
    """Lays out guards and the paths whose values the compiled code wants as (nodes, checks, value nodes)."""
    places = _Places()
    node = places.__getitem__

    def kind(guard: Guard) -> str:
        return _WEAK[guard.kind] if guard.kind in _WEAK and is_passing(guard.payload) else guard.kind

    kept = [_of_the_class(guard) for guard in guards]
    checks = [
        (node(g.source) if g.source is not None else 0, kind(g),
         _placed(g, node, lambda term: terms.code(term, node), weakref.ref))
        for g in kept
    ]
    wanted = [node(source) for source in values]
    return Program(places.nodes, checks, wanted, _for_people(kept))


def _placed(
    guard: Guard, place: Callable[[Source], Any], said: Callable[[terms.Term], Any], passing: Callable[[type], Any]
) -> Any:
    """The payload with what `place` gives for each path in it, what `said` gives for a condition on sizes, and what
    `passing` gives for a class among others that is to go."""
    if guard.kind == "same":
        return place(guard.payload)
    if guard.kind == "distinct":
        return [place(source) for source in guard.payload]
    if guard.kind == "storage":
        return [[place(source) for source in group] for group in guard.payload]
    if guard.kind == "inherits" and any(map(is_passing, guard.payload)):
        return tuple(passing(cls) if is_passing(cls) else cls for cls in guard.payload)
    return said(guard.payload) if guard.kind == "shape" else guard.payload


def _of_the_class(guard: Guard) -> Guard:
    """What is asked of an instance of a class that is to go is asked of the class: it can be held weakly."""
    if guard.kind != "type" or guard.source is None or not is_passing(guard.payload):
        return guard
    return Guard(guard.source.step("type"), "is", guard.payload, guard.filename, guard.line)


def _for_people(guards: list[Guard]) -> list[Guard]:
    """The guards as they are told of, which keep no class that is to go."""
    stands: dict[Source, Source] = {}

    def lasting(source: Source) -> Source:
        """The same path, from what stands for the class."""
        if source not in stands:
            if source.base is not None:
                base = lasting(source.base)
                stands[source] = source if base is source.base else base.step(source.kind, source.arg)
            else:
                passes = source.kind == "const" and is_passing(source.arg)
                stands[source] = Source(None, "const", Stand(source.arg), source.name) if passes else source
        return stands[source]

    def told(guard: Guard) -> Guard:
        source = lasting(guard.source) if guard.source is not None else None
        payload = _placed(guard, lasting, lambda term: terms.placed(term, lasting), Stand)
        if guard.kind in _WEAK and is_passing(payload):
            payload = Stand(payload)
        if source is guard.source and payload is guard.payload:
            return guard
        return Guard(source, guard.kind, payload, guard.filename, guard.line)

    return [told(guard) for guard in guards]


class _Places(dict[Source, int]):
    """Where paths lie among the `nodes`, which get those that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[tuple[int, str, Any]] = []

    def __missing__(self, source: Source) -> int:
        parent = self[source.base] if source.base is not None else -1
        arg = [self[part] for part in source.parts] if source.parts else source.arg
        if source.kind == "const" and is_passing(arg):
            self.nodes.append((parent, "const", weakref.ref(arg)))
            self.nodes.append((len(self.nodes) - 1, "referent", None))
        else:
            self.nodes.append((parent, source.kind, arg))
        return self.setdefault(source, len(self.nodes) - 1)
