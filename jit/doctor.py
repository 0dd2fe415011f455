"""What works on this machine, what doesn't, and how to mend it: `python -m jit doctor`."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

from codegen.artifacts.store import key
from codegen.kernels import toolchain
from jit import api, cache

#: The versions of torch that the tests run with.
OLDEST, NEWEST = (2, 11), (2, 13)


@dataclass(frozen=True)
class Finding:
    """`state`: "works"; "missing", where the compiler does without; "broken", where programs would not be compiled."""

    what: str
    state: Literal["works", "missing", "broken"]
    detail: str
    mend: str = ""


def _python() -> Finding:
    return Finding("Python", "works", f"{platform.python_version()} ({sys.executable})")


def _torch() -> Finding:
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if OLDEST <= version <= NEWEST:
        return Finding("torch", "works", torch.__version__)
    said = f"{torch.__version__}; tested are {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    return Finding("torch", "missing", said, f"pip install 'torch=={NEWEST[0]}.{NEWEST[1]}.*'")


def _capture() -> Finding:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    x = torch.arange(4.0)
    try:
        fits = torch.equal(api.compile(program, backend="eager", fullgraph=True)(x), program(x))
    except Exception as error:
        return Finding("capture", "broken", f"{type(error).__name__}: {error}", "JIT_ON_ERROR=raise shows where")
    detail = "a small function is one graph" if fits else "a small function gives a wrong result"
    return Finding("capture", "works" if fits else "broken", detail)


def _c() -> Finding:
    found = toolchain.find()
    if found is None:
        mend = "install gcc or clang, or set CC to one; until then ATen runs the graphs"
        return Finding("C compiler", "missing", "none of $CC, cc, gcc and clang on PATH runs", mend)
    try:
        toolchain.compile_c("int framejit_doctor(void) { return 0; }\n", store=cache.store())
    except (toolchain.CompileError, OSError) as error:
        return Finding("C compiler", "broken", str(error).strip(), f"does {' '.join(found.command)} compile anything?")
    return Finding("C compiler", "works", f"{found.family}: {' '.join(found.command)}")


def _triton() -> Finding:
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return Finding("Triton", "missing", "not installed", "needed on CUDA only: pip install 'framejit[cuda]'")
    return Finding("Triton", "works", version)


def _gpu() -> Finding:
    if torch.version.cuda is None:
        return Finding("GPU", "missing", "this torch is built without CUDA", "needed on CUDA only: another torch")
    if not torch.cuda.is_available():
        return Finding("GPU", "missing", "torch finds no CUDA device", "is one in nvidia-smi? CUDA_VISIBLE_DEVICES?")
    major, minor = torch.cuda.get_device_capability()
    return Finding("GPU", "works", f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}")


def _disk() -> Finding:
    store = cache.store()
    probe = key(doctor=str(os.getpid()))
    path = store.put(probe, b"a word")
    if path is None or store.get(probe) != b"a word":
        where = cache.folder() or "there is no folder for it"
        mend = "JIT_CACHE_DIR=some/folder that only you may write to; until then each process compiles again"
        return Finding("cache on disk", "missing", f"nothing can be kept: {where}", mend)
    path.unlink(missing_ok=True)
    info = store.info()
    return Finding("cache on disk", "works", f"{info.path}: {info.entries} entries, {info.bytes / 1e6:.1f} MB")


def _start_up() -> Finding:
    names = {"purelib", "platlib"}
    folders = {Path(sysconfig.get_paths()[name]) for name in names}
    if any(path.exists() for folder in folders for path in folder.glob("*framejit_start_up.pth")):
        return Finding("JIT_AUTO", "works", "the start-up line is installed")
    mend = "pip install framejit into this environment, or use `python -m jit run script.py`"
    return Finding("JIT_AUTO", "missing", "the start-up line is not installed: the variable does nothing", mend)


#: In the order in which they are told.
CHECKS: tuple[Callable[[], Finding], ...] = (_python, _torch, _capture, _c, _triton, _gpu, _disk, _start_up)


def findings() -> Iterator[Finding]:
    for check in CHECKS:
        yield check()
