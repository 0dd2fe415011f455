"""Whether code that runs while tracing warns: the program itself has to, each time."""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FrameType
from typing import Any, NamedTuple

import torch

_module: Any = warnings  # its stubs do not have what shows a warning
_EVERY: list[Any] = [("always", None, Warning, None, 0)]
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Where the compiler's files are (what else is in this folder may be torch's, or the user's), and where torch's are.
OURS = tuple(os.path.join(_ROOT, floor) + os.sep for floor in ("jit", "codegen", "symbolic", "sideeffects"))
TORCHS = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
#: What torch's C++ adds to a text: the place that it comes from.
_TRIGGERED = re.compile(r"\(Triggered internally at .*\)")


class Said(NamedTuple):
    """A warning. `level`: of which of the frames around the block it speaks, 1 being the innermost; 0: of torch's own
    code, at this line; None: of code that runs for stand-ins alone."""

    message: Any
    category: type[Warning]
    level: int | None
    file: str
    line: int
    module: str

    @property
    def spot(self) -> str:
        """Where in torch's C++ it comes from, which may warn once in a process; empty for all others."""
        found = _TRIGGERED.search(str(self.message))
        return found.group() if found is not None else ""


class Hearing:
    """Around a block: the warnings of it, which are not shown. `always`: also those that torch gives once in a process;
    these stay to be given. (`catch_warnings` would make the program forget which ones it has shown before.)"""

    def __init__(self, always: bool = True) -> None:
        self.always = always
        self.found: list[Said] = []

    def __enter__(self) -> list[Said]:
        self.around: Any = sys._getframe(1)
        self.thread = threading.get_ident()
        with _lock:
            if not _listening:
                _saved[:] = (_module.filters, _module._showwarnmsg, torch._C._get_warnAlways())
                _module.filters, _module._showwarnmsg = _EVERY, _hear
            _listening.append(self)
            torch._C._set_warnAlways(self.always or _saved[2])
        return self.found

    def __exit__(self, *error: object) -> None:
        self.around = None
        with _lock:
            _listening.remove(self)
            always = any(each.always for each in _listening)
            torch._C._set_warnAlways(always or _saved[2])
            if not _listening:
                _module.filters, _module._showwarnmsg, _ = _saved
                _saved.clear()


_lock = threading.RLock()
_listening: list[Hearing] = []
_saved: list[Any] = []


def _hear(shown: Any) -> None:
    thread = threading.get_ident()
    for each in reversed(_listening):
        if each.thread == thread:
            each.found.append(_said(each.around, shown))
            return


def _said(around: FrameType, shown: Any) -> Said:
    frames: list[FrameType] = []
    at: FrameType | None = sys._getframe(2)
    while at is not None:
        frames.append(at)
        at = at.f_back
    inside = frames[: frames.index(around)][::-1]
    ours = [around, *itertools.takewhile(lambda frame: _file(frame).startswith(OURS), inside)]
    rest = inside[len(ours) - 1 :]
    eager = list(itertools.takewhile(lambda frame: frame.f_code.co_name != "__torch_dispatch__", rest))
    if len(eager) < len(rest):  # below are frames that eager code has not
        teller: FrameType | None = (eager or ours)[-1]
    else:
        teller = next((frame for frame in frames if _is_at(frame, shown)), None)
    if teller is None or not all(_file(frame).startswith(TORCHS) for frame in eager):
        return Said(shown.message, shown.category, None, shown.filename, shown.lineno, "")
    level = 0 if teller in eager else 1 + frames.index(teller) - frames.index(ours[-1])
    module = teller.f_globals.get("__name__", "")
    return Said(shown.message, shown.category, level, _file(teller), teller.f_lineno, module)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _is_at(frame: FrameType, shown: Any) -> bool:
    return frame.f_lineno == shown.lineno and _file(frame) == shown.filename


@functools.cache
def quietly(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """The function, or method of that name, without warnings: the program gives them in its place."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with Hearing():
            return function(*args, **kwargs)  # type: ignore[operator]

    def method(owner: Any, *rest: Any, **kwargs: Any) -> Any:
        with Hearing():
            return getattr(owner, name)(*rest, **kwargs)

    made = method if isinstance(function, str) else run
    name: str = function if isinstance(function, str) else function.__name__
    made.__name__ = made.__qualname__ = name
    made.__wrapped__ = function  # type: ignore[attr-defined]
    return made


#: What is known of places in torch's C++: whether they warn once in a process.
_once: dict[str, bool] = {}


def is_due(said: Said, again: Callable[[], list[Said]]) -> bool | None:
    """Whether torch gives this warning once in a process, and has not done so yet. None: it gives it each time. From
    here on it has given it. `again`: what the operation warns of when it is run again, as torch has it."""
    if not said.spot or torch.is_warn_always_enabled():
        return None
    is_first = False
    if said.spot not in _once:
        is_first = said.spot in [each.spot for each in again()]
        _once[said.spot] = not (is_first and said.spot in [each.spot for each in again()])
    return is_first if _once[said.spot] else None


#: Operations whose stand-ins leave out what these warn of: that nothing is left to divide by.
_DEGREES_OF_FREEDOM = frozenset({"std", "var", "std_mean", "var_mean"})


def unheard(
    target: Callable[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> list[Said]:
    """What an operation warns of that gave `result` for stand-ins, which say nothing of it."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if name not in _DEGREES_OF_FREEDOM or not isinstance(target, (str, BuiltinFunctionType)):
        return []
    flags = [each for each in (*args[1:3], kwargs.get("unbiased")) if isinstance(each, bool)]
    correction = int(flags[0]) if flags else kwargs.get("correction", 1)
    (before, varying), (after, also) = _count(args[0]), _count(result[0] if isinstance(result, tuple) else result)
    if varying != also or before > after * (1 if correction is None else correction):  # sizes that vary are above one
        return []
    with Hearing() as heard:
        getattr(torch, name)(torch.zeros(1))
    return [each._replace(level=1) for each in heard]


def _count(tensor: torch.Tensor) -> tuple[int, int]:
    """The product of its sizes that are plain numbers, and how many others there are."""
    plain = [size for size in tensor.shape if isinstance(size, int)]
    return math.prod(plain), tensor.dim() - len(plain)
