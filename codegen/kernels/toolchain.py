"""The system's C compiler: source text becomes a shared library, once for all processes.

**Numbers** are C's own: no flag lets the compiler reorder, contract or assume away NaN, infinities and -0.0. Only
reductions that a loop marks with `#pragma omp simd reduction` are reordered. Signed integers wrap, and storage may be
read as another type than it was written.

**Optimisation.** gcc 12, a file of 17 kernels in 280 lines, AMD Zen 4: -O1 0.24 s, -O2 0.34 s, -O3 0.48 s; 0.03 s of it
are there for an empty file. What `omp simd` marks is vectorised at each of them. Loops over 512 or more elements run
alike; -O1 loses 15 to 25 % on rows of 13 elements and 40 % on a transposed copy; -O3 loses to -O2 on short rows.

**Threads.** A process must have one OpenMP runtime, or two pools fight for the cores. torch's wheels (2.11 to 2.13)
bring their own libgomp, other builds a file of another name, or another runtime that has libgomp's entry points too. So
a library is linked to the file that torch's own calls lead to: `runtime()`. Where that pool has n threads, a loop on
another number of them, other than 1, makes it end threads or start new ones: a torch operation on 4 threads and a
kernel by turns take 14 us with the kernel on 4, 52 us on 3, 118 us on 2, and lose nothing on 1. So a kernel takes the
number as an argument, for `num_threads(n)`, and who calls it hands in `at::get_num_threads()`, or 1 for little work and
inside of a parallel region. That follows `OMP_NUM_THREADS` and `torch.set_num_threads` on every thread; a loop that
names no number follows them only on threads on which torch has run before.

**Vector math** needs no fast math: a function is vectorised inside `omp simd` when the source itself declares it, with
`#pragma omp declare simd notinbranch` and `__attribute__((const, nothrow, leaf))`; glibc's header does so only under
-ffast-math. glibc 2.36's libmvec has 4, 8 and 16 lanes of float (2, 4, 8 of double) of sin, cos, tan, their inverses
and hyperbolics, exp, exp2, exp10, expm1, log, log2, log10, log1p, pow, atan2, hypot, cbrt, erf and erfc. Largest errors
on a million random floats: exp 2.8 ulp, log 3.8, tanh 1.4, erf 4.0, sin 2.0, tan 3.4. libtorch_cpu.so exports SLEEF's
functions of 8 and 16 lanes (4 and 8): on the same floats 1.12 ulp at most, and 1 ulp away from eager's at most.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from codegen.artifacts.store import Store, key

FLAGS = (
    *("-std=gnu11", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"),
)
#: What `fast` adds. Not -ffast-math itself: gcc then links a start-up file that turns small numbers into zeros in the
#: whole process, and takes it for granted that there are no NaNs.
FAST = ("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-ffp-contract=fast")
NATIVE = {"x86_64": ("-march=native",), "aarch64": ("-mcpu=native",)}
ENTRY_POINTS = {"gcc": "GOMP_parallel", "clang": "__kmpc_fork_call"}  # what a parallel loop calls
CPU_FACTS = {
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU variant", "CPU part", "Features"),
    "isa",
}  # in /proc/cpuinfo of x86, Arm and RISC-V


class NoCompiler(Exception):
    """There is no C compiler on this machine."""


class CompileError(Exception):
    """The compiler refused a source, or could not be run."""

    def __init__(self, command: Sequence[str], source: str, output: str) -> None:
        super().__init__(f"{' '.join(command)}\n{output}")
        self.command = tuple(command)
        self.source = source
        self.output = output


@dataclass(frozen=True)
class Compiler:
    """command: its path and the arguments that come first. identity: what differs where its code may differ."""

    command: tuple[str, ...]
    family: str
    identity: str


def find() -> Compiler | None:
    """The first of $CC, cc, gcc and clang on PATH that runs. Looked for once, as long as the two variables stay."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", os.defpath))


@functools.cache
def _find(wanted: str, path: str) -> Compiler | None:
    for words in (wanted.split(), ["cc"], ["gcc"], ["clang"]):
        program = shutil.which(words[0], path=path) if words else None
        if program is not None:
            command = (program, *words[1:])
            version = _version(command)
            if version:
                changed = os.stat(program).st_mtime_ns
                family = "clang" if "clang" in version else "gcc"
                return Compiler(command, family, f"{' '.join(command)} {changed} {version}")
    return None


def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.partition("\n")[0]


@functools.cache
def cpu() -> str:
    """What "native" stands for on this machine."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            first = itertools.takewhile(str.strip, file)  # up to an empty line: one core of many
            lines = [line for line in first if line.partition(":")[0].strip() in CPU_FACTS]
    except OSError:
        lines = []
    return platform.machine() + "\n" + "".join(lines)


class _Place(ctypes.Structure):
    """`Dl_info` of dlfcn.h"""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("symbol_base", ctypes.c_void_p),
    ]


@functools.cache
def runtime(family: str) -> Path | None:
    """The loaded library that runs torch's parallel loops, if code of this family of compilers can call it."""
    torch_cpu = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        entry = getattr(ctypes.CDLL(str(torch_cpu), mode=os.RTLD_NOLOAD | os.RTLD_NOW), ENTRY_POINTS[family])
    except (OSError, AttributeError):
        return None
    place = _Place()
    found = ctypes.CDLL(None).dladdr(entry, ctypes.byref(place))
    return Path(os.fsdecode(place.file)) if found and place.file else None


def compile_c(source: str, *, store: Store, openmp: bool = True, level: str = "-O2", fast: bool = False) -> Path:
    """A shared library made of `source`, to be loaded within a minute; later the store may evict it.

    With `openmp`, `#pragma omp parallel` starts threads where torch's runtime can run them (then the source sees the
    macro `_OPENMP`); `#pragma omp simd` always counts. The numbers are those of C, whatever `level` is, unless `fast`.
    Raises NoCompiler, CompileError, and OSError where temporary files can't be made.
    """
    compiler = find()
    if compiler is None:
        raise NoCompiler("no C compiler: none of $CC, cc, gcc and clang is on PATH (install one, or set CC)")
    library = runtime(compiler.family) if openmp else None
    rules, threads = FAST if fast else (), "-fopenmp" if library else "-fopenmp-simd"
    flags = (*FLAGS, *rules, level, *NATIVE.get(platform.machine(), ()), threads)
    made = key(
        source=source,
        flags=" ".join(flags),
        compiler=compiler.identity,
        cpu=cpu(),
        runtime=library.name if library else "",
        libc=" ".join(platform.libc_ver()),
    )
    return store.path(made) or _compile(compiler, source, flags, library, store, made)


def compile_many(
    sources: Sequence[str], *, store: Store, openmp: bool = True, level: str = "-O2", jobs: int | None = None
) -> list[Path]:
    """A library for each of the sources, compiled `jobs` at a time (as many as there are cores); equal ones once.

    Raises NoCompiler, and the CompileError of the first that failed.
    """
    different = list(dict.fromkeys(sources))
    jobs = jobs or len(os.sched_getaffinity(0))

    def one(source: str) -> Path:
        return compile_c(source, store=store, openmp=openmp, level=level)

    with ThreadPoolExecutor(max(1, min(jobs, len(different)))) as pool:
        paths = dict(zip(different, pool.map(one, different), strict=True))
    return [paths[source] for source in sources]


def _compile(
    compiler: Compiler, source: str, flags: tuple[str, ...], library: Path | None, store: Store, made: str
) -> Path:
    # As needed: else the compiler adds the system's own libgomp to the one that is named here.
    threads = ("-Wl,--as-needed", str(library)) if library else ()
    with tempfile.TemporaryDirectory(prefix="framejit-") as folder:
        output = os.path.join(folder, "library.so")
        command = [*compiler.command, *flags, "-x", "c", "-", "-x", "none", *threads, "-lm", "-o", output]
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(command, input=source.encode(), env=environment, capture_output=True)
        except OSError as error:
            raise CompileError(command, source, str(error)) from error
        if done.returncode != 0 or not os.path.exists(output):
            raise CompileError(command, source, (done.stdout + done.stderr).decode(errors="replace"))
        content = Path(output).read_bytes()
    kept = store.put(made, content)
    if kept is None:
        kept = _folder_of(os.getpid()) / made
        unfinished = kept.with_suffix(f".{threading.get_ident()}")
        unfinished.write_bytes(content)
        unfinished.replace(kept)
    return kept


@functools.cache
def _folder_of(process: int) -> Path:
    """A folder for libraries that no store keeps, until `process` ends (not a child that it forked)."""
    folder = tempfile.mkdtemp(prefix="framejit-")

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
