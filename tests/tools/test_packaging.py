"""What an installation must give: four packages, the native part, and a start-up line that does nothing until asked."""
import base64
import csv
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.build_backend import START_UP_LINE, START_UP_NAME, add_start_up
from tools.environment import ROOT

PACKAGES = ("jit", "codegen", "symbolic", "sideeffects")


def run(*command, cwd, **environment):
    """Runs a command with nothing of ours in its environment but what is given; returns what it prints."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JIT_", "PYTHON"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**clean, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# The start-up line


@pytest.fixture
def site(tmp_path):
    """A site folder with the start-up file, and a `torch` and a `jit` that only say that they were called."""
    (tmp_path / START_UP_NAME).write_text(START_UP_LINE)
    shutil.copy(ROOT / "framejit_start.py", tmp_path)
    (tmp_path / "torch.py").write_text("print('torch')\n")
    (tmp_path / "jit").mkdir()
    (tmp_path / "jit" / "__init__.py").touch()
    (tmp_path / "jit" / "autowrap.py").write_text("def install():\n    print('installed')\n")
    return tmp_path


@pytest.mark.parametrize("flags, environment, installs", [
    ([], {}, False),
    ([], {"JIT_AUTO": ""}, False),
    ([], {"JIT_AUTO": "0"}, False),
    ([], {"JIT_AUTO": "False"}, False),
    ([], {"JIT_AUTO": "1"}, True),
    (["-E"], {"JIT_AUTO": "1"}, False),
    (["-I"], {"JIT_AUTO": "1"}, False),
    (["-s"], {"JIT_AUTO": "1"}, True),
])
def test_the_start_up_line_acts_only_when_asked_and_when_torch_is_imported(site, flags, environment, installs):
    # -S keeps away the start-up file of the environment that the tests run in.
    script = """
import site, sys
site.addsitedir(sys.argv[1])
site.addsitedir(sys.argv[1] + "/.")
assert "jit" not in sys.modules and "torch" not in sys.modules
import json, torch
assert torch.__loader__.exec_module.__self__ is torch.__loader__
print([type(finder).__name__ for finder in sys.meta_path].count("_WithTorch"))
"""
    expected = "torch\n" + "installed\n" * installs + "0\n"
    assert run(sys.executable, "-S", *flags, "-c", script, site, cwd=site, **environment) == expected


def test_the_start_up_line_is_one_line_that_python_runs():
    assert START_UP_LINE.startswith("import ") and START_UP_LINE.count("\n") == 1 and START_UP_LINE.endswith("\n")


def test_the_start_up_file_is_read_after_those_that_extend_the_path():
    assert max(START_UP_NAME, "__editable__.framejit-1.pth", "ours.pth", "virtualenv.pth") == START_UP_NAME


def test_adding_the_start_up_file_keeps_the_wheel(tmp_path):
    wheel = tmp_path / "some-1-py3-none-any.whl"
    files = {"some.py": "x = 1\n", "some-1.dist-info/METADATA": "Name: some\n", "some-1.dist-info/RECORD": "some.py,,\n"}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    add_start_up(wheel)

    assert list(tmp_path.iterdir()) == [wheel]
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name).decode() for name in archive.namelist()}
    record = content.pop("some-1.dist-info/RECORD")
    assert content == {name: text for name, text in files.items() if "RECORD" not in name} | {START_UP_NAME: START_UP_LINE}
    assert record.endswith(files["some-1.dist-info/RECORD"])
    check_record(record, START_UP_NAME, START_UP_LINE.encode())


def check_record(record, name, content):
    """The wheel's list of files names this one, with its hash and size."""
    rows = {row[0]: row[1:] for row in csv.reader(record.splitlines())}
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert rows[name] == [f"sha256={digest}", str(len(content))]


# Whole installations: each compiles the native part


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the checkout without anything built."""
    copy = tmp_path_factory.mktemp("source") / "framejit"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "*.so", "__pycache__", "*.egg-info"))
    return copy


@pytest.fixture
def venv(tmp_path):
    """A virtual environment that also sees what is installed in ours (torch, pip), but not our start-up file."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    site_packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (site_packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def sources(root, pattern):
    return {str(path.relative_to(root)) for package in PACKAGES for path in (root / package).rglob(pattern)}


@pytest.mark.long
def test_the_source_distribution_has_all_it_takes_to_build(source, tmp_path):
    script = "import sys; sys.path.insert(0, 'tools'); import build_backend; print(build_backend.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", script, tmp_path, cwd=source).splitlines()[-1]
    with tarfile.open(tmp_path / name) as archive:
        files = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = {"framejit_start.py"} | sources(source, "*.py") | sources(source, "csrc/*") | {f"{package}/py.typed" for package in PACKAGES}
    assert needed | {"setup.py", "pyproject.toml", "README.md", "tools/build_backend.py"} <= files
    assert not {file for file in files if file.startswith("tests/")}


USE = """
import torch, jit
def f(x): return x * 2 + 1
x = torch.arange(4.0)
assert torch.equal(jit.compile(f, backend="eager")(x), f(x))
print(jit.__file__)
"""
NAME = "from importlib.metadata import entry_points as all; print(*all(group='torch_dynamo_backends', name='framejit'))"
ASK = "import sys; print('jit.autowrap' in sys.modules)"
ASK_WITH_TORCH = "import torch, sys; print('jit.autowrap' in sys.modules)"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("editable", [False, True], ids=["install", "editable"])
def test_an_installation_works_and_goes_away(source, venv, tmp_path, editable):
    pip = [venv, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "install", "--no-build-isolation", "--no-index", *(["-e"] if editable else []), source, cwd=tmp_path)

    home = Path(run(venv, "-c", USE, cwd=tmp_path).splitlines()[-1])
    assert home.is_relative_to(source if editable else venv.parent.parent)
    assert "jit.dynamo_backend:framejit" in run(venv, "-c", NAME, cwd=tmp_path)
    assert run(venv, "-c", ASK, cwd=tmp_path) == "False\n"
    assert run(venv, "-c", ASK, cwd=tmp_path, JIT_AUTO="1") == run(venv, "-c", ASK_WITH_TORCH, cwd=tmp_path) == "False\n"
    assert run(venv, "-c", ASK_WITH_TORCH, cwd=tmp_path, JIT_AUTO="1") == "True\n"
    assert run(venv, "-I", "-c", ASK_WITH_TORCH, cwd=tmp_path, JIT_AUTO="1") == "False\n"
    why = run(venv.with_name("framejit"), "why", "tensor-value", cwd=tmp_path)
    assert why == run(venv, "-m", "jit", "why", "tensor-value", cwd=tmp_path) and "torch.where" in why

    listed = run(*pip, "show", "--files", "framejit", cwd=tmp_path).split()
    assert START_UP_NAME in listed
    if not editable:
        assert sources(source, "*.py") | {f"{package}/py.typed" for package in PACKAGES} <= set(listed)
        assert {"framejit_start.py", "jit/breaks.md", "jit/page.html"} <= set(listed)
        assert not [file for file in listed if "csrc" in file]

    run(*pip, "uninstall", "--yes", "framejit", cwd=tmp_path)
    site_packages = next((venv.parent.parent / "lib").glob("python*/site-packages"))
    assert [path.name for path in site_packages.iterdir()] == ["ours.pth"]
