"""The debug dump and JIT_AUTO, as a user meets them: by environment variable, in a fresh process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import jit

ROOT = Path(__file__).parent.parent
#: For tests of what a folder has of a known number of graphs.
WHOLE = {"break_everywhere": False}
SCRIPT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        print("half way", tuple(y.shape), y.data_ptr() > 0)
        return y.relu().sum()

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.ones(2, 4))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.detach().numpy())
print(fib(12))
"""


def run(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JIT_BREAK_EVERYWHERE": "", **settings}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300, cwd=ROOT
    )


def frames(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def test_a_script_under_auto_prints_what_it_printed(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    plain = run(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", JIT_AUTO="")
    auto = run(
        "import jit.autowrap; jit.autowrap.install()\n"
        f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')\n"
        "import jit, sys; print(jit.stats()['graphs'], file=sys.stderr)",
        JIT_ON_ERROR="raise",
        JIT_AUTO="",
    )
    assert auto.returncode == plain.returncode == 0, auto.stderr
    assert auto.stdout == plain.stdout
    assert int(auto.stderr.split()[-1]) >= 2, "the script's forward has a graph before and one after its question"


def test_dump_shows_bytecode_graph_guards_breaks_and_effects(tmp_path: Path) -> None:
    code = """
import sys, torch, jit

log = []

@jit.compile
def f(x):
    log.append(1)
    y = x.sin()
    sys.getswitchinterval()
    print("after")
    return y + 1

f(torch.ones(3))
"""
    done = run(code, JIT_DUMP=str(tmp_path), JIT_ON_ERROR="raise")
    assert done.returncode == 0, done.stderr
    folders = frames(tmp_path)
    assert len(folders) == 2, "one for the frame, one for its continuation"
    first, second = sorted(folders, key=lambda folder: "add" in (folder / "graph.py").read_text())
    assert "sin" in (first / "graph.py").read_text() and "add" in (second / "graph.py").read_text()
    assert "l_x_: torch.float32 [3]" in (first / "graph.py").read_text()
    assert "x: Tensor float32[3]" in (first / "guards.txt").read_text()
    assert "getswitchinterval" in (first / "breaks.txt").read_text() and not (second / "breaks.txt").read_text()
    assert "__main__.__dict__['log'].extend([1])" in (first / "effects.txt").read_text()
    assert "print('after', file=" in (second / "effects.txt").read_text()
    for name in ("original.txt", "generated.txt"):
        assert "RETURN_VALUE" in (first / name).read_text()
    text = (first / "generated.py").read_text()
    assert "# effect: __main__.__dict__['log'].extend([1])\n        list.extend(log, (1,))" in text
    assert "graph(x)" in text and "return resume_door(" in text


def test_dump_shows_what_the_aot_stage_made(tmp_path: Path) -> None:
    code = """
import torch, jit

@jit.compile(backend="aot_eager")
def f(x, w):
    x.mul_(2)
    return (x * w).sin()

x, w = torch.ones(3), torch.ones(3, requires_grad=True)
f(x, w).sum().backward()
with torch.no_grad():
    f(x, w)
"""
    done = run(code, JIT_DUMP=str(tmp_path), JIT_ON_ERROR="raise")
    assert done.returncode == 0, done.stderr
    trained, inferred = [{f.name: f.read_text() for f in folder.iterdir()} for folder in frames(tmp_path)]
    assert "sin" in trained["joint.py"] and "cos" in trained["joint.py"]
    assert "sin" in trained["forward.py"] and "cos" not in trained["forward.py"]
    assert "cos" in trained["backward.py"] and "tangents_1" in trained["backward.py"]
    assert "def compiled(a0, a1):" in trained["wrapper.py"]
    for text in ("input 0", "gets result", "gradients for primals_2", "tensors and 0 numbers saved", "read by cos"):
        assert text in trained["aot.txt"], text
    assert "backward.py" not in inferred and "mul_.Tensor(primals_1, 2)" in inferred["forward.py"]
    assert "input 0  is written by the graph, counts 1" in inferred["aot.txt"]


def test_log_channels_print_what_they_name() -> None:
    code = """
import torch, jit

@jit.compile
def f(x):
    return x.sin() + 1

f(torch.ones(3)); f(torch.ones(4))
"""
    done = run(code, JIT_LOGS="recompiles,graph,guards,bytecode", JIT_ON_ERROR="raise")
    assert done.returncode == 0, done.stderr
    for text in ("in f is compiled again", "float32[3]", "l_x_.sin()", "RESUME"):
        assert text in done.stderr, text
    wrong = run("import torch, jit; jit.compile(lambda x: x)", JIT_LOGS="recompile")
    assert "no channel 'recompile'" in wrong.stderr


def test_graphs_inside_the_graph_are_shown(tmp_path):
    def per_row(rows, w):
        return torch.vmap(torch.func.grad(lambda row: (row.sin() * w).sum()))(rows)

    settings = {"dump": str(tmp_path), **WHOLE}
    jit.compile(per_row, backend="aot_eager", options=settings)(torch.randn(3, 4), torch.randn(4))
    text = next(tmp_path.glob("*/graph.py")).read_text()
    assert text.index("transforms_vmap") < text.index("# inner_0\n") < text.index("transforms_grad")
    assert text.index("# inner_0.inner_0\n") < text.index("l_rows_.sin()")


def test_the_dump_shows_kernels_and_plans(tmp_path: Path) -> None:
    with jit.dump(tmp_path):
        weight = torch.ones(4, requires_grad=True)
        f = jit.compile(lambda x: (x * weight).softmax(-1).sum(), backend="default", options=WHOLE)
        f(torch.ones(3, 4)).backward()
    (folder,) = frames(tmp_path)
    files = {path.name: path.read_text() for path in folder.iterdir()}
    for name in ("forward", "backward"):
        assert "parallel for" in files[f"{name}_kernels.txt"]
        assert "int64_t begin, int64_t end)" in files[f"{name}_kernels.c"]
        assert "= empty(" in files[f"{name}_plan.txt"] and "return (" in files[f"{name}_plan.txt"]
    assert "test_dump.py:" in files["forward_kernels.c"]  # the user's lines


PAGE = """
import sys, torch, jit

log = []

def helper(x):
    return x.sin() * "</script><!--<script>".count("s")

@jit.compile
def f(x, scale=1.0):
    log.append(scale)
    y = helper(x)
    sys.getswitchinterval()
    return y * scale

f(torch.ones(3)); f(torch.ones(3, 4)); f(torch.ones(3), 2.0)
jit.profile(f, calls=1)(torch.ones(3))
"""


def page(tmp_path: Path) -> tuple[Path, list[dict]]:
    """Where it is, and the data in it: frames, then a profile."""
    script = tmp_path / "script.py"
    script.write_text(PAGE)
    done = run(f"import runpy; runpy.run_path({str(script)!r})", JIT_DUMP=str(tmp_path / "dump"), JIT_ON_ERROR="raise")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "dump" / "index.html"
    reader = Scripts()
    reader.feed(path.read_text())
    return path, [json.loads(each) for each in reader.found]


class Scripts(HTMLParser):
    """The data in a page, and what it would ask others for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.holds = False

    def handle_starttag(self, tag, attributes) -> None:
        named = dict(attributes)
        assert not {"src", "href"} & named.keys() or tag == "a", (tag, named)
        self.holds = tag == "script" and named.get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        if self.holds:
            self.found.append(data)
            self.holds = False


def test_the_page_has_each_line_with_its_fate(tmp_path: Path) -> None:
    _, (first, *rest, profile) = page(tmp_path)
    (own, other) = first["sources"]
    fates = {text.strip(): fate for _, text, fate, _ in own["lines"]}
    assert fates["log.append(scale)"] == "residual" and fates["sys.getswitchinterval()"] == "break"
    assert [fate for _, text, fate, _ in other["lines"] if "x.sin()" in text] == ["graph"]
    assert "getswitchinterval" in first["breaks"][0]["text"] and first["breaks"][0]["line"] == own["lines"][-2][0]
    assert "list.extend(" in first["python"] and first["effects"]
    stages = {span["name"]: span for span in first["spans"]}
    assert stages.keys() >= {"capture", "the graph", "bytecode", "differentiating", "inference", "guards"}
    outer, inner = stages["the graph"], stages["differentiating"]
    assert outer["depth"] < inner["depth"] and outer["start"] <= inner["start"]
    assert inner["start"] + inner["length"] <= outer["start"] + outer["length"]
    notes = {row["note"] for row in first["generated"]["rows"]}
    assert "the graph" in notes and any("list.extend" in note or "log" in note for note in notes), notes
    sine = next(node for node in first["nodes"] if node["name"].startswith("sin"))
    assert [first["nodes"][at]["op"] for at in sine["inputs"]] == ["placeholder"] and len(sine["stack"]) == 2
    assert any(node["name"].startswith("sin") for node in first["became"]["forward"])
    kernels = {row["name"] for row in profile["rows"] if row["kind"] == "kernel"}
    assert any(kernel in dict(first["files"])["forward_kernels.c"] for kernel in kernels)
    assert {place["line"] for row in profile["rows"] for place in row["places"]} >= {sine["line"]}
    assert any(frame["code"] in first["continues"] for frame in rest)
    again = [frame["why"] for frame in [first, *rest] if frame["code"] == first["code"]]
    assert again[0] == "first call" and any("float32[3]" in why for why in again[1:]), again
    assert any("scale" in guard["text"] and guard["line"] for guard in first["guards"])


@pytest.mark.skipif(not shutil.which("chromium"), reason="needs the browser of Debian's package chromium")
def test_a_browser_shows_the_page_and_follows_its_links(tmp_path: Path) -> None:
    path, data = page(tmp_path)

    def shown(where: str) -> str:
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}",
             "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", f"{path.as_uri()}#{where}"],
            capture_output=True, text=True, timeout=90,
        )
        assert "CONSOLE" not in done.stderr, done.stderr
        return done.stdout

    first = shown("frame-0")
    for text in ("What runs in its place, as Python", "Guards: when it may run", "Effects that are replayed", "breaks it",
                 "<rect", ">sin", "the profile of f", "differentiating", "Bytecode: as written"):
        assert text in first, text
    known = set(re.findall(r'id="([^"]+)"', first))
    links = set(re.findall(r'href="#([^"]+)"', first))
    assert links and {each for each in links if "/" in each} <= known
    number = next(at for at, frame in enumerate(data) if frame["code"] in data[0]["continues"])
    assert {f"frame-{number}", "profile-0"} <= links
    kernels = {each for each in links if each.endswith("kernels.c")}
    assert kernels and f'href="#{kernels.pop()}"' in shown("profile-0")
    assert "goes on what began in" in shown(f"frame-{number}")
    line = next(each for each in sorted(links) if "/line-" in each)
    assert re.search(rf'<div class="\w+ here" id="{line}"', shown(line))


def test_a_continuation_that_runs_eagerly_has_text_too(tmp_path: Path) -> None:
    def steps(x):
        try:
            yield x
        finally:
            pass

    def program(x):
        y = x.sin()
        sys.getswitchinterval()
        first = steps(y)
        next(first)
        sys.getswitchinterval()
        return next(first, y)

    with jit.dump(tmp_path):
        jit.compile(program, backend="eager", options=WHOLE)(torch.ones(2))
    first, second = [(folder / "generated.py").read_text() for folder in frames(tmp_path)]
    assert "resume_door(" in first
    assert "next(first)" in second and "def program(" in second, second
