"""`tools/bench auto`: what `JIT_AUTO=1` does to whole scripts that know nothing of it, those of tests/scripts.

Each runs as it is and under `JIT_AUTO=1`, in turn. What it prints and its exit status must be the same. A script works
in rounds and says how long each took: the later ones are warm. Times are of the processor, which a busy machine
disturbs less, and the least of all: whatever is more was somebody else's.
"""
import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.environment import ROOT
from tools.report import duration, machine, show

SCRIPTS = ROOT / "tests" / "scripts"
#: What each has to do, and whether it is about tensors.
KINDS = {
    "mnist": "convolutional net, trained and tested",
    "char_rnn": "LSTM over letters, trained, sampled",
    "vae": "variational autoencoder, trained",
    "gan": "two nets against each other",
    "generate": "`generate` of transformers' Llama",
    "server": "web server and clients in threads",
    "table": "table of sales, plain Python and numpy",
    "pool": "pools of processes, forked and spawned",
    "chat": "asyncio: queues, timeouts, cancelling",
    "objects": "objects, numbers and text, beside torch",
    "unittests": "unittest run, tensors in some tests",
    "pytests": "the same with pytest",
}


@dataclass(frozen=True)
class Ran:
    """What a script came to; times in seconds of the processor."""

    status: int
    printed: str
    said: str
    rounds: list[float]

    @property
    def warm(self) -> float:
        return min(self.rounds[len(self.rounds) // 2 :])


def run(script: str, environment: Mapping[str, str], timeout: float | None = None) -> Ran:
    """Runs a script of tests/scripts in a process with one thread, with these variables and no others of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JIT_")}
    done = subprocess.run(
        [sys.executable, SCRIPTS / f"{script}.py"], capture_output=True, text=True, timeout=timeout,
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
    )  # fmt: skip
    # Tests say how long they took; pytest does in a line that it fills up to the same length.
    printed = re.sub(r"\b\d+\.\d+s\b", "(time)", done.stdout)
    printed = re.sub(r"^=+ (.*\(time\)).*$", r"\1", printed, flags=re.MULTILINE)
    rounds = re.findall(r"^round \d+: \S+ (\S+)\n", done.stderr, re.MULTILINE)
    said = re.sub(r"^round .*\n", "", done.stderr, flags=re.MULTILINE)
    return Ran(done.returncode, printed, said, [float(seconds) for seconds in rounds])


def row(script: str, turns: int) -> list[str]:
    plain, auto = zip(*((run(script, {}), run(script, {"JIT_AUTO": "1"})) for _ in range(turns)), strict=True)
    same = {(one.status, one.printed) for one in (*plain, *auto)}
    if len(same) > 1 or any(one.said != plain[0].said for one in auto):
        print(f"{script}: runs differ, see {keep(script, [*plain, *auto])}", file=sys.stderr)
    before, after = (min(one.warm for one in side) for side in (plain, auto))
    first, second = (min(sum(one.rounds) for one in side) for side in (plain, auto))
    name = f"{KINDS[script]}: `{script}.py`"
    return [name, duration(before), duration(after), f"{after / before:.2f}x", duration(first), duration(second)]


def keep(script: str, runs: list[Ran]) -> Path:
    """The folder with what each run printed."""
    folder = ROOT / "build" / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(runs):
        (folder / f"{script}.{number}").write_text(f"{one.printed}\nstatus {one.status}\n{one.said}")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/bench auto", description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="how many processes of each kind (default 3)")
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=list(KINDS), metavar="SCRIPT")
    parser.add_argument("--markdown", action="store_true", help="print Markdown on a terminal too")
    options = parser.parse_args()

    for script in options.only:
        run(script, {"JIT_AUTO": "1"})  # what the disk keeps for the next process
    rows = [row(script, options.turns) for script in options.only]
    columns = ["script", "a warm round", "`JIT_AUTO=1`", "ratio", "all rounds", "`JIT_AUTO=1`"]
    show("Whole scripts that know nothing of it", columns, rows, options.markdown)
    print(f"\nProcessor time of one thread, the least of {options.turns} processes by turns; kernels were on disk.")
    print(f"{machine()}.")


if __name__ == "__main__":
    main()
