"""The head of a printed Triton kernel: what it imports, and those functions of `triton_math.py` that it calls."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

MATH = Path(__file__).with_name("triton_math.py")
IMPORTS = ("import triton", "import triton.language as tl", "from triton.language.extra.cuda import libdevice")

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@cache
def _functions() -> dict[str, str]:
    """The text of each function by its name, in their order."""
    text = MATH.read_text()
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            start = node.decorator_list[0].lineno - 1
            found[node.name] = "\n".join(lines[start : node.end_lineno])
    return found


def preamble(text: str) -> str:
    """The imports, the functions that `text` names, and those that they name."""
    functions = _functions()
    wanted: set[str] = set()
    open_texts = [text]
    while open_texts:
        for name in set(_NAME.findall(open_texts.pop())):
            if name in functions and name not in wanted:
                wanted.add(name)
                open_texts.append(functions[name])
    needed = "\n\n\n".join(functions[name] for name in functions if name in wanted)
    return "\n".join(IMPORTS) + "\n\n\n" + (f"{needed}\n\n\n" if needed else "")


def reserved() -> frozenset[str]:
    """Names that the functions take."""
    return frozenset(_functions())
