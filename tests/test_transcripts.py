"""What users read first when something is wrong: for each program in transcripts.txt, its output and how it ends.

`JIT_REFRESH=1 tools/test tests/test_transcripts.py` writes the file anew; look at the difference before it is committed.
A message is good if it alone is enough to mend the program.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.environment import ROOT

GOLDEN = Path(__file__).with_name("transcripts.txt")
RULE = "=" * 100 + "\n"

PROGRAMS = {
    "a graph break in a loop": """
@jit.compile(fullgraph=True)
def total(rows):
    found = 0.0
    for row in rows:
        if row.sum() > 0:
            found = found + row
    return found

total([torch.ones(2), torch.ones(2)])
""",
    "a call of what can't be read": """
import binascii

@jit.compile(fullgraph=True)
def f(x):
    return x * (binascii.crc_hqx(b"words", 0) % 3)

f(torch.ones(2))
""",
    "another string at each call": """
@jit.compile
def f(x, name):
    return x * len(name)

for number in range(20):
    f(torch.ones(2), f"name {number}")
""",
    "a custom operator without a fake": """
@torch.library.custom_op("demo::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@jit.compile(fullgraph=True)
def f(x):
    return twice(x) + 1

f(torch.ones(2))
""",
    "a custom operator whose fake lies": """
@torch.library.custom_op("demo::pad", mutates_args=())
def pad(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x])

@pad.register_fake
def _(x):
    return torch.empty_like(x)

@jit.compile
def f(x):
    return pad(x) + 1

print(f(torch.ones(2)))
""",
    "a C compiler that fails": r"""
import os, tempfile
compiler = os.path.join(tempfile.mkdtemp(), "cc")
with open(compiler, "w") as file:
    file.write('#!/bin/sh\n[ "$1" = --version ] && echo cc 1.0 && exit 0\necho "fatal error: no target" >&2\nexit 1\n')
os.chmod(compiler, 0o755)
os.environ["CC"] = compiler

@jit.compile
def f(x):
    return (x * 2 + 1).relu()

print(f(torch.ones(2)))
""",
    "no C compiler": """
import os
os.environ["CC"], os.environ["PATH"] = "", "/nowhere"

@jit.compile
def f(x):
    return (x * 2 + 1).relu()

print(f(torch.ones(2)))
""",
    "a cache folder that nobody can write to": """
jit.config.cache_dir = "/proc/framejit"

@jit.compile
def f(x):
    return (x * 2 + 1).relu()

print(f(torch.ones(2)))
""",
    "a full disk": """
import resource, signal, tempfile
jit.config.cache_dir = tempfile.mkdtemp()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

@jit.compile
def f(x):
    return (x * 2 + 1).relu()

print(f(torch.ones(2)))
""",
    "Ctrl-C while it compiles": """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it

def backend(graph, inputs):
    signal.raise_signal(signal.SIGINT)
    return graph.forward

@jit.compile(backend=backend)
def f(x):
    return x + 1

try:
    f(torch.ones(2))
except KeyboardInterrupt:
    print("interrupted")
signal.raise_signal = print
print(f(torch.ones(2)))
""",
    "a backend that returns nothing": """
def backend(graph, inputs):
    print("compiling")

@jit.compile(backend=backend)
def f(x):
    return x + 1

print(f(torch.ones(2)))
""",
    "a size that is marked, and that the program depends on": """
@jit.compile
def f(x):
    return x * 2 if x.shape[0] == 8 else x

x = torch.ones(8, 2)
jit.mark_dynamic(x, 0)
f(x)
""",
    "a setting that is none": """
jit.compile(lambda x: x, options={"recompile_limits": 3})
""",
    "a channel that is none": """
jit.compile(lambda x: x, options={"logs": "breakz"})
""",
    "a backend that is none": """
jit.compile(lambda x: x, backend="inductor")
""",
    "nothing may be compiled any more": """
@jit.compile(dynamic=False)
def f(x):
    return x * 2

f(torch.ones(2))
jit.set_stance("fail_on_recompile")
f(torch.ones(3))
""",
    "a program that raises by itself": """
@jit.compile
def f(x):
    y = x + 1
    return y @ torch.ones(3, 3)

f(torch.ones(2))
""",
}


def transcript(name, folder):
    path = folder / "program.py"
    path.write_text("import torch\nimport jit\n" + PROGRAMS[name])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JIT_")}
    settings = {**kept, "PYTHONPATH": str(ROOT), "JIT_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder), "COLUMNS": "100"}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=settings, timeout=300)
    return f"{RULE}{name}\n{RULE}{PROGRAMS[name].strip()}\n\n--> exit status {done.returncode}\n" + told(done.stdout + done.stderr, folder)


def told(text, folder):
    """The same on every machine: paths, and lines of ours and of torch's in tracebacks, which move when these change."""
    text = re.sub(r'  File "[^"]*/(?:jit|codegen|symbolic|torch)/[^"]*", line .*\n(?:    .*\n)*', "", text)
    text = text.replace(str(folder), "").replace(str(ROOT), "")
    text = re.sub(r" at [\w<> ]+(?:\.py)?:\d+\.", " at PLACE.", text)
    text = re.sub(r"store\.py:\d+", "store.py", text)
    text = re.sub(r"CompileError: (?!fatal error: no target).* at PLACE", "CompileError: WHAT GCC SAYS at PLACE", text)
    text = re.sub(r"^ *[~^]*~[~^]*\n", "", text, flags=re.MULTILINE)  # 3.13 points at calls, too
    return text.strip() + "\n\n"


@pytest.fixture(scope="module")
def golden():
    if os.environ.get("JIT_REFRESH"):
        return None
    parts = re.split(f"{RULE}(.*)\n{RULE}", GOLDEN.read_text())
    return {name: f"{RULE}{name}\n{RULE}{text}" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


#: What other tests look at, too: each process takes seconds.
LONG = {"a call of what can't be read", "a setting that is none", "a channel that is none", "a backend that is none",
        "a program that raises by itself"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in PROGRAMS])
def test_the_first_message_is_this_one(name, golden, tmp_path):
    found = transcript(name, tmp_path)
    if golden is not None:
        assert found == golden[name]


def test_the_file_has_these_programs(golden, tmp_path_factory):
    if golden is None:
        texts = [transcript(name, tmp_path_factory.mktemp("program")) for name in PROGRAMS]
        GOLDEN.write_text("".join(texts))
    else:
        assert list(golden) == list(PROGRAMS)
