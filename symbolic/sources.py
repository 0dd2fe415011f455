"""Where a value came from: a path from a root of the call to the value, shared by guards and residual code.

A path is a chain of interned `Source` steps, each one row of `STEPS` (how it reads in words). Equal paths are the same
object, so sources compare and hash by identity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

#: kind -> how the step prints; `{base}` is the path before it, `{arg}` its argument. Roots print as their names.
STEPS = {
    "attr": "{base}.{arg}",
    "dict": "{base}.__dict__",
    "item": "{base}[{arg!r}]",
    "index": "{base}[{arg}]",
    "cell": "{base}.cell_contents",
    "type": "type({base})",
    "typeattr": "{base}.{arg}",
    "getitem": "{base}[{arg!r}]",
    "key": "list({base})[{arg}]",
    "value": "list({base}.values())[{arg}]",
    "referent": "{base}()",
    "grad": "{base}.{arg}",
    "call": "{arg.__name__}({base})",
    "made": "{arg[0].__name__}({base})",
}


class Source:
    """One step of a path. `kind` and `arg` name the step, `base` the path before it (None for a root)."""

    __slots__ = ("base", "kind", "arg", "name", "parts", "is_made", "_steps", "_text")

    def __init__(self, base: Source | None, kind: str, arg: Any, name: str = "") -> None:
        self.base = base
        self.kind = kind
        self.arg = arg
        self.name = name
        #: What it is a tuple of, if it is one of several.
        self.parts: tuple[Source, ...] = arg if kind == "several" else ()
        #: Whether the compiled code makes it: of `base`, or by the recipe of a variable.
        self.is_made: bool = kind in ("made", "born") or (base is not None and base.is_made)
        self._steps: dict[Any, Source] | None = None  # most paths lead no further
        self._text = ""

    def step(self, kind: str, arg: Any = None) -> Source:
        """The path one step further."""
        if self._steps is None:
            self._steps = {}
        key = (kind, type(arg), arg)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = Source(self, kind, arg)
        return found

    @property
    def is_end(self) -> bool:
        """Whether no path leads through here so far."""
        return not self._steps

    def attr(self, name: str) -> Source:
        return self.step("attr", name)

    @property
    def text(self) -> str:
        """The path as the Python expression that a person would write. Many paths begin alike."""
        if not self._text:
            self._text = _name(self) if self.base is None else self._written(_text)
        return self._text

    def written(self, root: Callable[[Source], str]) -> str:
        """The same, with `root` saying how roots are written."""
        if self.parts:
            return f"({', '.join(part.written(root) for part in self.parts)})"
        return root(self) if self.base is None else self._written(lambda before: before.written(root))

    def _written(self, text: Callable[[Source], str]) -> str:
        """The same of what is no root, with `text` saying how the paths before it are written."""
        assert self.base is not None
        if self.kind == "item" and self.base.kind == "dict" and self.base.base is not None:
            if isinstance(self.arg, str) and self.arg.isidentifier():
                return f"{text(self.base.base)}.{self.arg}"
        if self.kind == "cell" and self.base.kind == "closure":
            return self.base.name
        if self.kind == "call" and hasattr(self.arg, "written"):
            return str(self.arg.written(*map(text, self.base.parts or (self.base,))))
        return STEPS[self.kind].format(base=text(self.base), arg=self.arg)

    @property
    def said(self) -> str:
        """The same for messages: what continuations are handed is called as the program calls it, if it does."""
        return self.written(_said)

    @property
    def pattern(self) -> str:
        """The path in words, the same for all elements of a list."""
        return re.sub(r"\[\d+\]", "[*]", self.text)

    @property
    def root(self) -> Source:
        here = self
        while here.base is not None:
            here = here.base
        return here

    def __repr__(self) -> str:
        return f"<{self.text}>"


def _name(root: Source) -> str:
    return root.name


def _text(source: Source) -> str:
    return source.text


#: What parameters of continuations hold that no variable of the program does, by how they are called.
_UNNAMED = {"result": "the result of a call", "raised": "the exception"}


def _said(root: Source) -> str:
    first, dot, rest = root.name.partition(".")
    if root.kind != "arg" or not dot:
        return root.name
    if first == "nested":
        return _said(Source(None, "arg", 0, rest.partition(".")[2] or "closure"))
    return _UNNAMED.get(first, "a value of the expression")


class Sources:
    """The roots of one capture."""

    def __init__(self) -> None:
        self._args: dict[int, Source] = {}
        self._closures: dict[int, Source] = {}
        self._constants: dict[int, Source] = {}
        self._born: dict[Any, Source] = {}
        self._several: dict[tuple[Source, ...], Source] = {}

    def arg(self, slot: int, name: str) -> Source:
        return self._args.setdefault(slot, Source(None, "arg", slot, name))

    def closure(self, index: int, name: str) -> Source:
        return self._closures.setdefault(index, Source(None, "closure", index, name))

    def several(self, parts: Sequence[Source]) -> Source:
        """A root that is a tuple of what lies at these paths."""
        name = f"({', '.join(part.text for part in parts)})"
        return self._several.setdefault(tuple(parts), Source(None, "several", tuple(parts), name))

    def const(self, value: Any, name: str) -> Source:
        """A root that is the very object: a function's globals, a class, a library function."""
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = Source(None, "const", value, name)
        return found

    def born(self, variable: Any, name: str) -> Source:
        """A root that is what the compiled code makes for a variable: only its parts have sources."""
        return self._born.setdefault(variable, Source(None, "born", variable, name))
