"""Second half of `tools/setup`: runs in the virtual environment, fills it, and then becomes the program asked for.

Each step leaves a stamp that says what it was done for, and is skipped while the stamp still holds. With nothing to do
this costs about 50 ms.
"""
import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_TORCH = "2.13.0"


def digest(parts: Iterable[bytes]) -> str:
    """One hash for all the parts, each with its length so that no two lists run together."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d:" % len(part) + part)
    return whole.hexdigest()


def run(command: list[str], log: Path) -> None:
    """Runs a command with its output in `log`; ends this program with the log's tail if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        status = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT).returncode
    if status != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise SystemExit(f"{tail}\n\nThis command failed with status {status}:\n  {' '.join(command)}\nIts log: {log}")


def install_requirements(torch: str) -> None:
    """Installs torch and everything that pyproject.toml names, and makes the checkout importable."""
    pyproject = (ROOT / "pyproject.toml").read_bytes()
    stamp = Path(sys.prefix, "framejit-stamp")
    wanted = digest([pyproject, (ROOT / "tools" / "build_backend.py").read_bytes(), torch.encode(), bytes(ROOT)])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"Installing torch {torch} and the requirements into {Path(sys.prefix).name}", file=sys.stderr, flush=True)
    project = tomllib.loads(pyproject.decode())["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    # Most of torch is never imported: what is, Python compiles then.
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    run([*pip, f"torch=={torch}", *project["dependencies"], *extras], ROOT / "build" / "requirements.log")
    # What an editable install would do, without a build: the checkout's path and the start-up line.
    start_up = "from tools.build_backend import START_UP_LINE as line, START_UP_NAME as name; print(name); print(line)"
    name, line = subprocess.check_output([sys.executable, "-c", start_up], cwd=ROOT, text=True).split("\n")[:2]
    Path(sysconfig.get_path("purelib"), name).write_text(f"{ROOT}\n{line}\n")
    stamp.write_text(wanted)


def build_extensions() -> None:
    """Compiles each package's `_C` in place if the sources, torch or Python are not those they were last built from."""
    sources = sorted(path for path in ROOT.glob("*/csrc/**/*") if path.is_file())
    wanted = digest([
        (ROOT / "setup.py").read_bytes(),
        *(part for path in sources for part in (bytes(path.relative_to(ROOT)), path.read_bytes())),
        metadata.version("torch").encode(),
        sys.version.encode(),
    ])
    built = [path.parent / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}" for path in ROOT.glob("*/csrc")]
    stamp = ROOT / "build" / f"extension-{sys.implementation.cache_tag}.stamp"
    if all(path.exists() for path in built) and stamp.exists() and stamp.read_text() == wanted:
        return
    print("Building the C++ extensions (a minute or two)", file=sys.stderr, flush=True)
    # --force because setuptools looks at the sources only; ninja then compiles what headers or torch's headers changed.
    log = ROOT / "build" / f"extension-{sys.implementation.cache_tag}.log"
    run([sys.executable, "setup.py", "build_ext", "--inplace", "--force"], log)
    stamp.write_text(wanted)


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--python")
    parser.add_argument("--torch", default=os.environ.get("FRAMEJIT_TORCH") or DEFAULT_TORCH)
    options, arguments = parser.parse_known_args()

    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with open(Path(sys.prefix, "framejit-lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two tools started at once would install and build over each other
        install_requirements(options.torch)
        build_extensions()
    if options.program:
        os.execv(sys.executable, [sys.executable, "-m", f"tools.{options.program}", *arguments])


if __name__ == "__main__":
    main()
