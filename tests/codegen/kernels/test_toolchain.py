"""Sources become libraries once, with C's own numbers and torch's own threads."""
import ctypes
import math
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from codegen.artifacts.store import Store
from codegen.kernels import toolchain
from codegen.kernels.toolchain import CompileError, Compiler, NoCompiler, compile_c, compile_many, cpu, find, runtime

ROOT = Path(__file__).parents[3]
ANSWER = "int answer(void) { return 42; }\n"
compiles = pytest.mark.skipif(find() is None, reason="needs a C compiler")

PARALLEL = """
#ifdef _OPENMP
int omp_get_num_threads(void);
int threads(int n)
{
    int count = 0;
    #pragma omp parallel num_threads(n)
    #pragma omp single
    count = omp_get_num_threads();
    return count;
}
int threads_unnamed(void)
{
    int count = 0;
    #pragma omp parallel
    #pragma omp single
    count = omp_get_num_threads();
    return count;
}
int parallel(void) { return 1; }
#else
int parallel(void) { return 0; }
#endif
"""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache", 1 << 28)


@pytest.fixture
def only(tmp_path, monkeypatch):
    """`only(name, script)` makes that script the one program on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)

    def make(name, script):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program
    return make


def load(path, function, *types, result=ctypes.c_int):
    found = getattr(ctypes.CDLL(str(path)), function)
    found.argtypes, found.restype = types, result
    return found


def fresh(code, **settings):
    """What a script prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, **settings}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# --- the compiler ----------------------------------------------------------------------------------------------------

GOOD, BAD = 'echo "$(basename $0) 1.0"', "exit 1"


@pytest.mark.parametrize("programs, wanted", [
    ({"cc": GOOD}, "cc"),
    ({"gcc": GOOD}, "gcc"),
    ({"clang": GOOD}, "clang"),
    ({"cc": GOOD, "gcc": GOOD, "clang": GOOD}, "cc"),
    ({"gcc": GOOD, "clang": GOOD}, "gcc"),
    ({"cc": BAD, "gcc": GOOD}, "gcc"),
    ({"icc": GOOD}, None),
    ({"cc": BAD}, None),
    ({}, None),
])
def test_the_first_that_runs_is_found(only, monkeypatch, programs, wanted):
    for name, script in programs.items():
        # Programs that the scripts call are looked for where they lie by default.
        only(name, f"PATH=/usr/bin:/bin; {script}")
    found = find()
    assert (found and Path(found.command[0]).name) == wanted
    assert found is find(), "looked for once"
    assert found is None or found.family == ("clang" if wanted == "clang" else "gcc")


@pytest.mark.parametrize("cc, command", [("mine", ["mine"]), ("mine -m64 -g", ["mine", "-m64", "-g"]), ("not-there", ["gcc"]), ("", ["gcc"]), ("  ", ["gcc"])])
def test_cc_comes_first_with_its_arguments(only, monkeypatch, cc, command):
    for name in ("mine", "gcc"):
        only(name, 'echo "gcc 1.0"')
    monkeypatch.setenv("CC", cc)
    found = find()
    assert [Path(found.command[0]).name, *found.command[1:]] == command


def test_the_identity_tells_path_version_and_time(only):
    first = only("gcc", 'echo "gcc 1.0"')
    seen = [find().identity]
    only("gcc", 'echo "gcc 1.1"')
    os.utime(first, ns=(0, 1))
    toolchain._find.cache_clear()
    seen.append(find().identity)
    os.utime(first, ns=(0, 2))
    toolchain._find.cache_clear()
    seen.append(find().identity)
    only("cc", 'echo "gcc 1.1"')
    toolchain._find.cache_clear()
    seen.append(find().identity)
    assert len(set(seen)) == 4


@pytest.mark.parametrize("family, wanted", [("gcc", True), ("clang", False)])
def test_torchs_runtime_is_found(family, wanted):
    """torch's wheels are built by gcc; a library of clang's could not call their runtime."""
    found = runtime(family)
    assert (found is not None and found.exists() and str(found.resolve()) in Path("/proc/self/maps").read_text()) == wanted


def test_the_cpu_is_told_by_what_it_can_do():
    assert cpu() == cpu() and "flags" in cpu() or "Features" in cpu()
    assert "MHz" not in cpu() and cpu().count("model\t") <= 1


def test_without_a_compiler(only, store):
    assert find() is None
    with pytest.raises(NoCompiler, match="CC, cc, gcc and clang"):
        compile_c(ANSWER, store=store)
    with pytest.raises(NoCompiler):
        compile_many([ANSWER], store=store)
    assert compile_many([], store=store) == []
    assert store.info().entries == 0


# --- compiling -------------------------------------------------------------------------------------------------------

@compiles
@pytest.mark.parametrize("openmp", [False, True])
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_a_source_becomes_a_library_in_the_store(store, openmp, level):
    path = compile_c(ANSWER, store=store, openmp=openmp, level=level)
    assert path.parent == store.info().path
    assert load(path, "answer")() == 42
    assert compile_c(ANSWER, store=store, openmp=openmp, level=level) == path
    assert (store.info().entries, store.info().hits, store.info().misses) == (1, 1, 1)


@compiles
def test_what_the_code_depends_on_is_in_the_key(store, monkeypatch):
    changes = [
        lambda: compile_c(ANSWER, store=store),
        lambda: compile_c(ANSWER + "\n", store=store),
        lambda: compile_c(ANSWER, store=store, openmp=False),
        lambda: compile_c(ANSWER, store=store, level="-O1"),
    ]
    paths = {change() for change in changes}
    monkeypatch.setattr(toolchain, "cpu", lambda: "another")
    paths.add(changes[0]())
    compiler = find()
    monkeypatch.setattr(toolchain, "find", lambda: Compiler(compiler.command, compiler.family, compiler.identity + " upgraded"))
    paths.add(changes[0]())
    monkeypatch.setattr(toolchain.platform, "libc_ver", lambda: ("glibc", "1.0"))
    paths.add(changes[0]())
    assert len(paths) == 7 == store.info().entries


@compiles
def test_a_second_process_compiles_nothing(store, tmp_path, only):
    folder = tmp_path / "cache"
    program = only("gcc", f'PATH=/usr/bin:/bin; echo "$@" >> {tmp_path}/calls; exec {shutil.which("gcc", path="/usr/bin:/bin")} "$@"')
    code = f"""
import ctypes
from codegen.artifacts.store import Store
from codegen.kernels.toolchain import compile_c, compile_many
store = Store({str(folder)!r}, 1 << 28)
print(ctypes.CDLL(str(compile_c({ANSWER!r}, store=store))).answer())
print(len(compile_many([{ANSWER!r}, "int other;"], store=store)))
"""
    for wanted in (2, 0):
        (tmp_path / "calls").write_text("")
        assert fresh(code, PATH=str(program.parent), CC="") == ["42", "2"]
        calls = (tmp_path / "calls").read_text().splitlines()
        assert sum("-x c" in call for call in calls) == wanted, calls


@compiles
def test_a_damaged_library_is_compiled_again(store):
    path = compile_c(ANSWER, store=store)
    content = path.read_bytes()
    path.write_bytes(content[:2000])
    again = compile_c(ANSWER, store=store)
    assert again == path and load(again, "answer")() == 42
    assert store.info().misses == 2


@compiles
@pytest.mark.parametrize("folder", [None, "/proc/nowhere"])
@pytest.mark.filterwarnings("ignore:framejit's cache")
def test_without_a_store_that_keeps_it_the_library_lasts_as_long_as_the_process(folder):
    path = compile_c(ANSWER, store=Store(folder, 1 << 28))
    assert load(path, "answer")() == 42
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    code = f"""
import os
from codegen.artifacts.store import Store
from codegen.kernels.toolchain import compile_c
path = compile_c({ANSWER!r}, store=Store(None, 0))
child = os.fork()
if child == 0:
    import sys
    sys.exit(0)  # takes nothing away from its parent
os.waitpid(child, 0)
print(path.exists(), path.parent, len(list(path.parent.iterdir())))
"""
    exists, parent, count = fresh(code)
    assert (exists, count) == ("True", "1") and not Path(parent).exists()


@compiles
def test_many_are_compiled_at_a_time_and_equal_ones_once(store, tmp_path, only):
    """The compiler of this test notes when it begins and ends, and takes its time."""
    real = shutil.which("gcc", path="/usr/bin:/bin")
    only("gcc", f'PATH=/usr/bin:/bin; case "$*" in *-x*) echo begin >> {tmp_path}/calls; sleep 0.3; {real} "$@"; echo end >> {tmp_path}/calls;; *) exec {real} "$@";; esac')
    sources = [f"int answer(void) {{ return {n}; }}" for n in (1, 2, 1, 3)]
    paths = compile_many(sources, store=store, jobs=3)
    assert [load(path, "answer")() for path in paths] == [1, 2, 1, 3] and paths[0] == paths[2]
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("begin") == 3 and calls[:2] == ["begin", "begin"]
    (tmp_path / "calls").write_text("")
    compile_many([source + "\n" for source in sources], store=store, jobs=1)
    assert (tmp_path / "calls").read_text().split() == ["begin", "end"] * 3


# --- failures --------------------------------------------------------------------------------------------------------

@compiles
@pytest.mark.parametrize("source, said", [
    ("int f( {", "error:"),
    ("#error é not today\n", "not today"),
    ('#include "no/such/file.h"', "no/such/file.h"),
    ("int main(void) { int f(void); return f(); }\n#pragma GCC error \"stop\"", "stop"),
])
def test_a_bad_source(store, source, said):
    with pytest.raises(CompileError) as caught:
        compile_c(source, store=store)
    error = caught.value
    assert said in error.output and error.source == source
    assert error.command[0] == find().command[0] and "-O2" in error.command
    assert str(error) == " ".join(error.command) + "\n" + error.output
    assert store.info().entries == 0
    with pytest.raises(CompileError):
        compile_many([ANSWER, source], store=store)
    assert store.info().entries == 1, "the good one is kept"


def test_a_compiler_that_dies(only, store):
    only("cc", 'case "$*" in *-x*) echo "out of memory" >&2; kill -9 $$;; *) echo "cc 1.0";; esac')
    with pytest.raises(CompileError, match="out of memory"):
        compile_c(ANSWER, store=store)


def test_a_compiler_that_goes_away(only, store):
    program = only("cc", 'echo "cc 1.0"')
    assert find() is not None
    program.unlink()
    with pytest.raises(CompileError, match="No such file"):
        compile_c(ANSWER, store=store)


def test_a_compiler_that_writes_nothing(only, store):
    only("cc", 'echo "cc 1.0"')
    with pytest.raises(CompileError, match="cc 1.0"):
        compile_c(ANSWER, store=store)


# --- numbers ---------------------------------------------------------------------------------------------------------

NUMBERS = """
#include <math.h>
#include <stdint.h>
int is_nan(float x) { return x != x; }
float plus_zero(float x) { return x + 0.0f; }
float back(float x, float y) { return (x + y) - y; }
float fused(float x, float y, float z) { return x * y + z; }
float quotient(float x, float y) { return x / y; }
int above(int x) { return x + 1 > x; }
int32_t shifted(float x) { *(float*)&x = x; return *(int32_t*)&x; }
"""


@compiles
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_numbers_are_cs_own(store, level):
    path = compile_c(NUMBERS, store=store, level=level)
    real = ctypes.c_float

    def of(name, *values, result=real):
        return load(path, name, *[real] * len(values), result=result)(*values)
    assert of("is_nan", math.nan, result=ctypes.c_int) == 1
    assert math.copysign(1, of("plus_zero", -0.0)) == 1
    assert of("back", 1.0, 1e10) == 0.0
    assert of("quotient", 1.0, 3.0) == (torch.tensor(1.0) / 3.0).item()
    x = 1 + 2**-12  # its square needs one bit more than there is
    assert of("fused", x, x, -1.0) == (torch.tensor(x) * x - 1).item() == 2**-11 != x * x - 1
    assert load(path, "above", ctypes.c_int)(2**31 - 1) == 0, "it wraps"
    assert of("shifted", 1.0, result=ctypes.c_int32) == 0x3F800000


# --- threads ---------------------------------------------------------------------------------------------------------

torchs_threads = pytest.mark.skipif(find() is None or runtime(find().family) is None, reason="this compiler's code can't run torch's threads")


@torchs_threads
def test_one_runtime_in_the_process_and_as_many_threads_as_asked_for(store):
    path = compile_c(PARALLEL, store=store)
    assert load(path, "parallel")() == 1
    threads = load(path, "threads", ctypes.c_int)
    assert [threads(n) for n in (1, 2, 1, 2)] == [1, 2, 1, 2]
    runtimes = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libgomp" in line or "omp5" in line}
    assert len(runtimes) == 1, runtimes


@pytest.mark.sampled(3)
@torchs_threads
@pytest.mark.parametrize("variable, number, wanted", [("1", None, 1), ("2", None, 2), ("1", 3, 3), ("3", 2, 2)])
def test_threads_are_as_many_as_torchs(tmp_path, variable, number, wanted):
    """A loop that names no number follows torch, and the pool is torch's: no thread is started beside it."""
    code = f"""
import ctypes, os, torch
from codegen.artifacts.store import Store
from codegen.kernels.toolchain import compile_c
if {number}: torch.set_num_threads({number})
torch.rand(1 << 20).add_(1)
before = len(os.listdir("/proc/self/task"))
library = ctypes.CDLL(str(compile_c({PARALLEL!r}, store=Store({str(tmp_path / "cache")!r}, 1 << 28))))
print(library.threads_unnamed(), library.threads(torch.get_num_threads()), len(os.listdir("/proc/self/task")) - before)
"""
    assert fresh(code, OMP_NUM_THREADS=variable) == [str(wanted), str(wanted), "0"]


@compiles
def test_without_openmp_pragmas_for_threads_mean_nothing(store):
    path = compile_c(PARALLEL, store=store, openmp=False)
    assert load(path, "parallel")() == 0


@compiles
def test_where_torchs_runtime_cannot_be_called_it_is_one_thread(store, monkeypatch):
    monkeypatch.setattr(toolchain, "runtime", lambda family: None)
    assert load(compile_c(PARALLEL, store=store), "parallel")() == 0


@torchs_threads
def test_a_runtime_of_another_name_is_the_only_one_linked(store, tmp_path, monkeypatch):
    """As in builds of torch that bring a file with a name of its own."""
    other = tmp_path / "libgomp-a34b3233.so.1"
    subprocess.run([find().command[0], "-shared", "-fPIC", f"-Wl,-soname,{other.name}", "-x", "c", "-", "-o", other], check=True,
                   input=b"void GOMP_parallel(void) {} int GOMP_single_start(void) { return 0; } int omp_get_num_threads(void) { return 0; }")
    monkeypatch.setattr(toolchain, "runtime", lambda family: other)
    content = compile_c(PARALLEL, store=store).read_bytes()
    assert other.name.encode() in content and b"libgomp.so.1" not in content
