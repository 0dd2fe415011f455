"""`python3 -m tools.run_cuda`: everything that wants a GPU, in one command of less than nine minutes.

For a machine with a GPU that may have nothing but a Python with torch, Triton, pytest and bytecode: it builds the
extensions if they are not there, runs the tests that need a device, times the benchmark's programs on it, and writes
`tools/results/cuda.md`. Each part has its share of the time; what does not fit is left out.
"""
import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "tools" / "results" / "cuda.md"
NEEDED = ("triton", "bytecode", "pytest", "rich")


def refusal() -> str:
    """Why there is nothing to run here; "" if there is."""
    if not torch.cuda.is_available():
        return f"tools.run_cuda needs a CUDA device, and torch {torch.__version__} sees none."
    missing = [name for name in NEEDED if subprocess.run([sys.executable, "-c", f"import {name}"]).returncode]
    return f"tools.run_cuda needs {', '.join(missing)} in {sys.executable}." if missing else ""


def run(title: str, command: Sequence[str], seconds: float) -> tuple[bool, str]:
    """Whether it ended well within that time, and the end of what it said, which is shown as it comes."""
    print(f"\n== {title}", flush=True)
    started = time.monotonic()
    environment = {**os.environ, "MAX_JOBS": str(os.cpu_count()), "PYTHONUNBUFFERED": "1", "JIT_ON_ERROR": "raise"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines: list[str] = []
    try:
        output, _ = process.communicate(timeout=max(1.0, seconds))
        lines = output.splitlines()
    except subprocess.TimeoutExpired:
        process.kill()
        lines = [*process.communicate()[0].splitlines(), f"stopped after {time.monotonic() - started:.0f} s"]
    print("\n".join(lines), flush=True)
    return process.returncode == 0, "\n".join(lines[-12:])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.run_cuda", allow_abbrev=False,
        epilog="Every other argument goes to `python3 -m tools.bench_cuda`, such as --only NAME.",
    )
    parser.add_argument("--seconds", type=float, default=520, help="for all of it (default 520)")
    parser.add_argument("--output", type=Path, default=REPORT, help="the report (default tools/results/cuda.md)")
    parser.add_argument("--no-tests", action="store_true")
    options, of_bench = parser.parse_known_args(arguments)
    reason = refusal()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    end = time.monotonic() + options.seconds

    def left() -> float:
        return end - time.monotonic()

    if not list(ROOT.glob(f"codegen/_C.{sys.implementation.cache_tag}*")):
        built, said = run("extensions", [sys.executable, "setup.py", "build_ext", "--inplace"], left())
        if not built:
            print(said, file=sys.stderr)
            return 1
    passed, said = True, "not run"
    if not options.no_tests:
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-m", "", "tests/cuda"]
        passed, said = run("tests", tests, left() * 0.4)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(f"# On a GPU\n\n## Tests\n\n```\n{said}\n```\n\n")
    bench = [sys.executable, "-m", "tools.bench_cuda", "--seconds", f"{left() - 20:.0f}"]
    measured, _ = run("benchmark", [*bench, "--append", str(options.output), *of_bench], left())
    return 0 if passed and measured else 1


if __name__ == "__main__":
    sys.exit(main())
