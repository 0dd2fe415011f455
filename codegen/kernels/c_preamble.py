"""What a unit of printed C begins with: the helpers that its text calls, each after those that it calls itself."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HEADERS = [Path(__file__).with_name(name) for name in ("c_support.h", "c_math.h")]
#: Functions of libm where we have none of our own: of one argument, of two.
LIBM1 = ("exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
         "lgamma").split()  # fmt: skip
LIBM2 = "pow atan2 hypot".split()
#: The largest error of our own functions of floats, in units of the last place; eager's have up to 1. Those of sin and
#: cos from 2^40 on are 2^-23 off at most, next to their zeros.
ERRORS = {
    "exp": 0.9, "exp2": 1.0, "expm1": 1.5, "log": 0.8, "log2": 0.9, "log10": 0.9, "log1p": 0.9, "tanh": 1.4, "erf": 0.9,
    "sigmoid": 2.0, "sin": 1.5, "cos": 1.5, "pow": 0.51,
}  # fmt: skip

#: Loops become vectors where they call nothing; left to itself, gcc makes calls of helpers that two kernels name.
HEAD = "#include <stdint.h>\n#define inline inline __attribute__((always_inline))"

_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"^(?:static (?:inline|const) [\w ]*?(?=\w+[\[(])|#define )(\w+)", re.MULTILINE)


@cache
def _paragraphs() -> tuple[dict[str, int], list[str]]:
    """The names that the header defines, by the number of their paragraph; the paragraphs."""
    paragraphs = "\n".join(header.read_text() for header in HEADERS).split("\n\n")
    names: dict[str, int] = {"number": 1}
    for number, paragraph in enumerate(paragraphs):
        for name in _DEFINED.findall(paragraph):
            names.setdefault(name, number)
    library: list[str] = []
    for held, short, suffix in (("float", "f32", "f"), ("double", "f64", "")):
        for function in LIBM1:
            declared = f"static inline {held} {function}_{short}({held} x)"
            library.append(f"{declared} {{ return __builtin_{function}{suffix}(x); }}")
        for function in LIBM2:
            declared = f"static inline {held} {function}_{short}({held} x, {held} y)"
            library.append(f"{declared} {{ return __builtin_{function}{suffix}(x, y); }}")
    missing = [text for text in library if _DEFINED.findall(text)[0] not in names]
    names = {name: number + len(missing) for name, number in names.items()}
    names |= {_DEFINED.findall(text)[0]: number for number, text in enumerate(missing)}
    return names, missing + paragraphs


def preamble(text: str) -> str:
    """The helpers that `text` names, and those that they name."""
    names, paragraphs = _paragraphs()
    wanted: set[int] = set()
    open_texts = [text]
    while open_texts:
        for name in set(_NAME.findall(open_texts.pop())):
            number = names.get(name)
            if number is not None and number not in wanted:
                wanted.add(number)
                open_texts.append(paragraphs[number])
    return "\n\n".join([HEAD, *(paragraphs[number] for number in sorted(wanted))]) + "\n"


def reserved() -> frozenset[str]:
    """Names that the helpers take."""
    return frozenset(_paragraphs()[0])
