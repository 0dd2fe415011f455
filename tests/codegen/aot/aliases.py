"""Judges generated programs of mutations and aliases beside eager. `python -m tests.codegen.aot.aliases --report FILE`
goes through every pair (`programs.covering`) and writes down how many are equal, raise, are refused and why."""
from __future__ import annotations

import argparse
import logging
import multiprocessing
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from codegen.aot.function import Settings, compile_program
from codegen.aot.memory import Untraceable
from tests.codegen.aot.observe import look, observations, same
from tests.codegen.aot.programs import Cell, covering

#: What may be refused. No other reason may come up: the list can only shrink.
REFUSED = (
    "written inputs that share memory, of which autograd knows for some only",
    "a write to an input that autograd lets nobody write",
    "a view made without grad: it says that it requires a gradient, and gets none",
    "a result that needs gradients for itself",
    r"requires_grad_\(.*\) of an input",
    r"as_strided_\(\) of a written or shared input that gets a gradient",
    "one of several views of a base comes to lie elsewhere",
    "inputs that share memory in two ways",
    "`.data = ` in inference mode",
    r"aten\.set_\.\w+ of a tensor that gets a gradient",
    "a storage that the program made grows",
    "a result that came to lie elsewhere",
    "an operation writes what overlaps with its other tensors",
    "an operation writes a tensor twice",
    "a view that a custom autograd function returns",
    "a view that gets its gradient elsewhere than its base",
    "a view of a tensor that changes its geometry later",
    "a backward that raises",
    "torch fails to take a view again",
    "an input that is a lazy conjugate",
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


def judge(cell: Cell) -> Verdict:
    """Is refused only for a known reason."""
    eager = dict(observations(cell, cell.program))
    inputs = cell.inputs()
    tensors = [*inputs.leaves, *inputs.values]
    before = look(tensors)
    refused = raised = None
    try:
        with cell.under():
            compiled = compile_program(cell.program, inputs.values, Settings())
    except Untraceable as error:
        refused = str(error)
    except Exception as error:
        raised = error

    def verdict(outcome: str, why: str = "") -> Verdict:
        return Verdict(outcome, why, "error" not in eager)

    if look(tensors) != before:
        return verdict("wrong", "inputs changed while it was compiled")
    if refused is not None:
        reason = next((reason for reason in REFUSED if re.match(reason, refused)), None)
        return verdict("wrong", f"refused: {refused}") if reason is None else verdict("refused", reason)
    if raised is not None:
        as_eager = eager.get("error") == type(raised).__name__
        return verdict("raises") if as_eager else verdict("wrong", f"raises {raised!r}, eager {eager.get('error')}")
    actual = dict(observations(cell, compiled))
    wrong = [name for name in eager | actual if not same(cell, name, eager.get(name), actual.get(name))]
    if wrong:
        return verdict("wrong", f"{wrong[0]}:\n{eager.get(wrong[0])}\n{actual.get(wrong[0])}")
    return verdict("raises" if "error" in eager else "equal")


def differences(cells: Iterable[Cell]) -> list[str]:
    """What is wrong, in words."""
    verdicts = ((cell, judge(cell)) for cell in cells)
    return [f"{cell}: {found.why}" for cell, found in verdicts if found.outcome == "wrong"]


# --- figures ----------------------------------------------------------------------------------------------------------
def _judged(part: tuple[int, int]) -> list[Verdict]:
    logging.disable(logging.ERROR)  # torch logs an error of a fake before it raises it
    torch.set_num_threads(1)
    return [judge(cell) for cell in list(covering())[part[0] :: part[1]]]


def report(verdicts: list[Verdict]) -> str:
    """Markdown."""
    outcomes = Counter(found.outcome for found in verdicts)
    refused = Counter(found.why for found in verdicts if found.outcome == "refused")
    able = Counter(found.why for found in verdicts if found.outcome == "refused" and found.eager_runs)
    lines = [
        "# Mutations and aliases through the AOT stage",
        "",
        f"`python -m tests.codegen.aot.aliases --report FILE`, torch {torch.__version__.split('+')[0]}, CPU: every pair of a "
        "way to write inputs, a way to share memory and a kind of gradients or of results (`tests/codegen/aot/programs.py`). "
        "Each program is compared with eager in all that can be seen of it: results, strides, versions, views, gradients of "
        "first and second order, and what later writes do. Refused programs run as they are; nothing was touched.",
        "",
        "| programs | equal | raise as eager does | refused | of these eager can | wrong |",
        "|---|---|---|---|---|---|",
        f"| {len(verdicts)} | {outcomes['equal']} | {outcomes['raises']} | {outcomes['refused']} | {able.total()} | "
        f"{outcomes['wrong']} |",
        "",
        "| refused | programs | of these eager can |",
        "|---|---|---|",
        *(f"| `{why}` | {count} | {able[why]} |" for why, count in sorted(refused.items(), key=lambda each: -able[each[0]])),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="the file to write")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    parts = [(part, 4 * options.processes) for part in range(4 * options.processes)]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        text = report([found for part in pool.map(_judged, parts, chunksize=1) for found in part])
    print(text)
    if options.report is not None:
        options.report.write_text(text)


if __name__ == "__main__":
    main()
