"""`tools/test`: ruff, mypy and pytest, in the environment that tools/setup has made.

All of them run even when one fails, so that one run tells everything; the exit status is that of the first failure.
pytest on the whole suite comes last: its closing line is the last line of the output.
"""
import argparse
import os
import subprocess
import sys
import tempfile

from tools.environment import ROOT

# Types do not depend on the Python that runs them, so one version of three checks them.
MYPY_PYTHON = (3, 11)


def step(title: str, *command: str, environment: dict[str, str] | None = None) -> int:
    """Runs one command of the suite and returns its exit status."""
    print(f"\n== {title}", flush=True)
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=environment).returncode


def beside(*command: str) -> subprocess.Popen[str]:
    """Begins a command that takes one core while others run; `told` waits for it."""
    module = [sys.executable, "-m", *command]
    return subprocess.Popen(module, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def told(title: str, begun: subprocess.Popen[str]) -> int:
    """What such a command says, and its exit status."""
    said, _ = begun.communicate()
    print(f"\n== {title}\n{said}", end="", flush=True)
    return begun.returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/test", allow_abbrev=False, epilog="Every other argument goes to pytest, such as a file or -k NAME."
    )
    parser.add_argument("--python", metavar="X.Y", help="the Python to run on (default 3.11)")
    parser.add_argument("--torch", metavar="VERSION", help="the torch to run with (default: $FRAMEJIT_TORCH, or ours)")
    parser.add_argument("--long", action="store_true", help="run the tests marked long as well")
    parser.add_argument("--break-everywhere", action="store_true", help="break the graph wherever it can be broken")
    ci = "two workers, one in eight cases of each test, and a marked part with breaks everywhere"
    parser.add_argument("--ci", action="store_true", help=ci)
    options, arguments = parser.parse_known_args()

    with tempfile.TemporaryDirectory(prefix="framejit-tests-") as cache:  # kernels that all processes share
        return run(options, arguments, cache)


def run(options: argparse.Namespace, arguments: list[str], cache: str) -> int:
    """The steps, one after the other; the exit status. `arguments`: for pytest."""
    workers = "2" if options.ci else str(min(4, os.cpu_count() or 1))
    thin = ["--thin", "8"] if options.ci else []
    pytest = ["pytest", "-n", workers, "--dist", "worksteal", *thin]  # slow tests come in rows
    # The workers share the cores: threads of their own would only get into each other's way.
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "JIT_ON_ERROR": "raise", "JIT_TEST_CACHE": cache}
    broken = {**environment, "JIT_BREAK_EVERYWHERE": "1"}

    results = {"ruff": step("ruff", "ruff", "check", ".")}
    types = beside("mypy") if sys.version_info[:2] == MYPY_PYTHON else None
    if options.ci:
        part = "the marked part of the suite, through kernels and with a graph break everywhere"
        ahead = {**broken, "JIT_TEST_BACKEND": "default"}
        results[part] = step(part, *pytest, "-m", "break_everywhere and not long", *arguments, environment=ahead)
    if types is not None:
        results["mypy"] = told("mypy", types)
    failed = [title for title, status in results.items() if status != 0]
    if failed:
        print(f"\n** Failed so far: {'; '.join(failed)}.")
    chosen = ["-m", ""] if options.long else []
    suite = "the suite"
    results[suite] = step(
        suite, *pytest, *chosen, *arguments, environment=broken if options.break_everywhere else environment
    )
    return next((status for status in results.values() if status != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
