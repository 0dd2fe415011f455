"""Runs a script as Python itself would, compiled: `python -m jit run script.py`."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from types import CodeType, ModuleType, TracebackType

from jit import autowrap


class NotFound(Exception):
    """There is no such script or module."""


def run(arguments: Sequence[str], is_module: bool) -> int:
    """Runs `arguments[0]`, a file or (`is_module`) a module, with the others as its own; answers with its exit status.

    Functions are compiled as under `JIT_AUTO=1`, and so are those of Python processes that the program starts, where
    framejit is installed. Raises NotFound."""
    name, *_ = arguments
    code, path, package = _of_module(name) if is_module else (_code(name), name, None)
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=sys.modules["builtins"], __package__=package)
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments[1:]]
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(path))
    os.environ.setdefault("JIT_AUTO", "1")
    autowrap.install()
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = _within(error.__traceback__, code)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _within(found: TracebackType | None, code: CodeType) -> TracebackType | None:
    """The part of a traceback that begins in the script."""
    while found is not None and found.tb_frame.f_code is not code:
        found = found.tb_next
    return found


def _code(path: str) -> CodeType:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise NotFound(f"can't open {path!r}: {error.strerror}") from None
    return _compiled(text, path)


def _compiled(text: bytes, path: str) -> CodeType:
    """Raises SystemExit after the message that Python gives for text that is no program."""
    try:
        return compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        sys.stderr.write("".join(traceback.format_exception_only(error)))
        raise SystemExit(1) from None


def _of_module(name: str) -> tuple[CodeType, str, str | None]:
    sys.path[0] = os.getcwd()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ImportError as error:
        raise NotFound(f"no module {name!r}: {error}") from None
    if spec is None or spec.origin is None or not spec.has_location:
        raise NotFound(f"no module {name!r} that is a program")
    with open(spec.origin, "rb") as file:
        return _compiled(file.read(), spec.origin), spec.origin, spec.parent
