"""Judges generated programs of mutations and aliases beside eager. `python -m tests.codegen.aot.aliases --report FILE`
goes through every pair (`programs.covering`) and writes down how many are equal, raise, are refused and why."""
from __future__ import annotations

import argparse
import logging
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import jit
from codegen.aot.api import aot_function
from codegen.aot.compilers import nop
from codegen.aot.function import Settings, compile_program
from codegen.aot.memory import Fails, Untraceable
from tests.codegen.aot.observe import look, observations, same
from tests.codegen.aot.programs import MODES, Cell, covering, drawn
from tests.codegen.passes.checking import Checked

#: What may be refused. No other reason may come up: the list can only shrink.
REFUSED = (
    "written inputs that share memory, of which autograd knows for some only",
    "a write to an input that autograd lets nobody write",
    "a result that needs gradients for itself",
    r"requires_grad_\(.*\) of an input",
    "a view of an input that changes its geometry and comes to require a gradient",
    r"as_strided_\(\) of a written input that gets a gradient",
    "`.data = ` in inference mode",
    r"aten\.set_\.\w+ of a tensor that gets a gradient",
    "a storage that the program made grows",
    "a result that came to lie elsewhere",
    "an operation writes what overlaps with its other tensors",
    "an operation writes a tensor twice",
    "results and writes that need one another",  # of overlapping views written by one operation autograd knows one write
    "an operation reads in one turn what it writes in another",
    "a view that gets its gradient elsewhere than its base",
    "a view of a tensor that changes its geometry later",
    "a backward that raises",  # of a gradient of another shape, say: other gradients may be fine
    "torch fails to take a view again",
    "an input that is a lazy conjugate",
    "a tensor with a gradient that is written where it came to lie",
    "autocast takes a cast again of what was written since",
    # Of functional forms:
    "(a view of a tensor whose )?elements .*share memory",
    ".* reads the elements as others",
    ".* can't be cast to .*",
    ".* gave a copy",
    ".* repeats elements",
    ".* may reach outside of its base",
)


@dataclass(frozen=True)
class Verdict:
    """`outcome`: equal (to eager in all that can be seen), raises (as eager does), refused or wrong; `why`, in words.
    `eager_runs`: eager code has no error."""

    outcome: str
    why: str
    eager_runs: bool


# --- ways to compile --------------------------------------------------------------------------------------------------
Call = Callable[..., Sequence[object]]


@dataclass(frozen=True)
class Way:
    """`make(cell)` answers with (cell) -> what is called in place of its program; both may refuse, or raise what the
    program raises, before anything was touched. `all_sizes`: that is called with inputs of other sizes, too."""

    make: Callable[[Cell], Callable[[Cell], Call]]
    all_sizes: bool = False


def _for_these_sizes(cell: Cell) -> Callable[[Cell], Call]:
    return lambda cell: _untouched(cell, lambda values: compile_program(cell.program, values, Settings()))


def _with_passes(cell: Cell) -> Callable[[Cell], Call]:
    settings = Settings(passes=Checked())
    return lambda cell: _untouched(cell, lambda values: compile_program(cell.program, values, settings))


def _for_all_sizes(cell: Cell) -> Callable[[Cell], Call]:
    compiled = aot_function(cell.program, nop, dynamic=True)

    def called(cell: Cell) -> Call:
        with cell.under():
            compiled(*cell.inputs().values)
        return compiled

    return called


def _captured(dynamic: bool, backend: str = "aot_eager") -> Callable[[Cell], Callable[[Cell], Call]]:
    def make(cell: Cell) -> Callable[[Cell], Call]:
        compiled: Call = jit.compile(cell.program, backend=backend, dynamic=dynamic)
        return lambda cell: compiled

    return make


WAYS = {
    "sizes as they come": Way(_for_these_sizes),
    "with passes": Way(_with_passes),
    "symbolic sizes": Way(_for_all_sizes, all_sizes=True),
    "captured": Way(_captured(False)),
    "captured, symbolic sizes": Way(_captured(True), all_sizes=True),
    "kernels": Way(_captured(False, "default")),
    "kernels, symbolic sizes": Way(_captured(True, "default"), all_sizes=True),
}


class Touched(Exception):
    """Inputs changed while a program was compiled for them."""


def _untouched(cell: Cell, compiler: Callable[[Sequence[torch.Tensor]], Call]) -> Call:
    inputs = cell.inputs()
    tensors = [*inputs.leaves, *inputs.values]
    before = look(tensors)
    try:
        with cell.under():
            return compiler(inputs.values)
    finally:
        if look(tensors) != before:
            raise Touched


def judge(cell: Cell, way: Way = WAYS["sizes as they come"]) -> Verdict:
    """Is refused only for a known reason."""
    make = way.make(cell)
    verdict = _judged_beside(cell, make)
    if way.all_sizes and verdict.outcome != "wrong":
        larger = _judged_beside(cell.larger(), make)
        return larger if larger.outcome == "wrong" else verdict
    return verdict


def _judged_beside(cell: Cell, make: Callable[[Cell], Call]) -> Verdict:
    eager = dict(observations(cell, cell.program))

    def verdict(outcome: str, why: str = "") -> Verdict:
        return Verdict(outcome, why, "error" not in eager)

    try:
        compiled = make(cell)
    except Untraceable as error:
        if isinstance(error, Fails) and "error" in eager:  # then the program runs as it is
            return verdict("raises")
        reason = next((reason for reason in REFUSED if re.match(reason, str(error))), None)
        return verdict("wrong", f"refused: {error}") if reason is None else verdict("refused", reason)
    except Exception as error:
        as_eager = eager.get("error") == type(error).__name__
        return verdict("raises") if as_eager else verdict("wrong", f"raises {error!r}, eager {eager.get('error')}")
    actual = dict(observations(cell, compiled))
    wrong = [name for name in eager | actual if not same(cell, name, eager.get(name), actual.get(name))]
    if wrong:
        return verdict("wrong", f"{wrong[0]}:\n{eager.get(wrong[0])}\n{actual.get(wrong[0])}")
    return verdict("raises" if "error" in eager else "equal")


def differences(cells: Iterable[Cell], way: str = "sizes as they come") -> list[str]:
    """What is wrong, in words."""
    verdicts = ((cell, judge(cell, WAYS[way])) for cell in cells)
    return [f"{cell}: {found.why}" for cell, found in verdicts if found.outcome == "wrong"]


# --- figures ----------------------------------------------------------------------------------------------------------
#: How many programs are drawn for a way; all pairs where nothing is said.
_SAMPLES = {"symbolic sizes": 1200, "captured": 400, "captured, symbolic sizes": 400, "kernels": 400,
            "kernels, symbolic sizes": 400}


@dataclass(frozen=True)
class Part:
    """Every `of`-th program of a way."""

    way: str
    number: int
    of: int


@dataclass(frozen=True)
class Judged:
    """A program with its verdict; `name`: under which it is counted."""

    name: str
    cell: Cell
    verdict: Verdict


def _judged(part: Part) -> list[Judged]:
    logging.disable(logging.ERROR)  # torch logs an error of a fake before it raises it
    torch.set_num_threads(1)
    cells = drawn(_SAMPLES[part.way], 0) if part.way in _SAMPLES else list(covering())
    by_mode = part.way == "sizes as they come"
    found = ((cell, judge(cell, WAYS[part.way])) for cell in cells[part.number :: part.of])
    return [Judged(f"{part.way}, {cell.mode}" if by_mode else part.way, cell, verdict) for cell, verdict in found]


def _row(name: str, verdicts: list[Verdict]) -> str:
    outcomes = Counter(found.outcome for found in verdicts)
    able = sum(found.outcome == "refused" and found.eager_runs for found in verdicts)
    counts = (len(verdicts), outcomes["equal"], outcomes["raises"], outcomes["refused"], able, outcomes["wrong"])
    return f"| {name} | {' | '.join(map(str, counts))} |"


def report(judged: list[Judged]) -> str:
    """Markdown."""
    named = [(each.name, each.verdict) for each in judged]
    wrong = [each for each in judged if each.verdict.outcome == "wrong"]
    names = [*(f"sizes as they come, {mode}" for mode in MODES), *list(WAYS)[1:]]
    refused = Counter(found.why for name, found in named if found.outcome == "refused")
    able = Counter(found.why for name, found in named if found.outcome == "refused" and found.eager_runs)
    lines = [
        "# Mutations and aliases through the AOT stage",
        "",
        f"`python -m tests.codegen.aot.aliases --report FILE`, torch {torch.__version__.split('+')[0]}, CPU: every pair of a "
        "way to write inputs, a way to share memory and a kind of gradients or of results (`tests/codegen/aot/programs.py`), "
        "under each mode; drawn ones for symbolic sizes (of inputs that share no memory), called with two sizes each; and "
        "drawn ones through `jit.compile`, where what is refused runs as it was captured, and with kernels. "
        "Each program is compared with eager in all that can be seen of it: results, strides, versions, views, gradients of "
        "first and second order, and what later writes do. Refused programs run as they are; nothing was touched.",
        "",
        "| | programs | equal | raise as eager does | refused | of these eager can | wrong |",
        "|---|---|---|---|---|---|---|",
        *(_row(name, [found for of, found in named if of == name]) for name in names),
        "",
        "| refused | programs | of these eager can |",
        "|---|---|---|",
        *(f"| `{why}` | {count} | {able[why]} |" for why, count in sorted(refused.items(), key=lambda each: -able[each[0]])),
        *(["", "Wrong:", ""] if wrong else []),
        *(f"- {each.name}: `{each.cell}`: {each.verdict.why.splitlines()[0]}" for each in wrong),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="the file to write")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    count = 4 * options.processes
    parts = [Part(way, number, count) for way in WAYS for number in range(count)]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        text = report([each for part in pool.map(_judged, parts, chunksize=1) for each in part])
    print(text)
    if options.report is not None:
        options.report.write_text(text)


if __name__ == "__main__":
    main()
