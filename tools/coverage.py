"""`tools/coverage`: how much of Python is captured whole, by CPython's own tests of the language and its library.

They come with the interpreter (package `test`). Each test method that passes twice plain is run twice compiled, it and
what it calls, in processes of their own; what goes wrong is run again alone, plain and compiled. A method

    passes whole   no graph break in its frame or in what it calls
    has breaks     passes, with graph breaks
    falls back     passes, and its frame runs as it is
    is wrong       fails, hangs, crashes the process, or met an error of the compiler
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test import support

from tools import coverage_auto
from tools.coverage_child import FALLS_BACK, RUNS, Outcome, Task
from tools.environment import ROOT
from tools.report import machine, show

MODULES = """
    test_generators test_generator_stop test_genexps test_yield_from test_coroutines test_asyncgen
    test_exceptions test_except_star test_exception_group test_exception_variations test_baseexception test_raise
    test_with test_contextlib
    test_class test_descr test_super test_subclassinit test_genericclass test_property test_dynamicclassattribute
    test_isinstance test_typechecks test_abc test_abstract_numbers test_metaclass test_decorators
    test_scope test_global test_named_expressions test_grammar test_patma test_listcomps test_setcomps test_dictcomps
    test_compare test_richcmp test_augassign test_unpack test_unpack_ex test_binop test_unary test_contains test_index
    test_extcall test_call test_keywordonlyarg test_positional_only_arg test_funcattrs test_builtin
    test_iter test_iterlen test_itertools test_functools test_operator test_enumerate test_sort test_heapq test_bisect
    test_collections test_ordered_dict test_defaultdict test_deque test_dict test_dictviews test_list test_tuple
    test_set test_userdict test_userlist test_userstring test_range test_slice test_structseq
    test_bool test_int test_long test_float test_complex test_pow test_hash test_math test_math_property test_cmath
    test_fractions test_numeric_tower test_statistics test_random
    test_string test_fstring test_format test_re test_textwrap test_reprlib test_pprint
    test_enum test_dataclasses test_copy test_calendar test_types test_typing test_genericalias test_type_params
    test_weakref test_inspect test_context
""".split()
#: Methods captured whole, of all there are, that other compilers of bytecode publish for these modules.
PEERS = {
    "test_copy": (37, 81), "test_listcomps": (0, 57), "test_dictviews": (10, 16), "test_compare": (10, 16),
    "test_grammar": (46, 79), "test_calendar": (15, 78),
}  # fmt: skip
VERDICTS = ("whole", "breaks", "falls back", "wrong")
ALL = ROOT / "build" / "coverage.json"


@dataclass(frozen=True)
class Found:
    """What became of one test method: `verdict` is one of VERDICTS."""

    module: str
    name: str
    verdict: str
    trouble: str
    reasons: list[tuple[str, str]]


@dataclass(frozen=True)
class Runner:
    """`limit`: seconds of processor time that a plain method may take; compiled ones get more."""

    links: str
    limit: float
    break_everywhere: bool

    def module(self, module: str) -> list[Found]:
        """All methods of a module that pass plain, compiled."""
        plain = self.outcomes(Task(module, self.links, "", self.limit))
        judged = {name: self.allowed(outcome) for name, outcome in plain.items() if outcome.verdict == "passes"}
        if not judged:
            return []
        task = Task(module, self.links, "", self.limit, True, judged)
        found = []
        for name, outcome in self.outcomes(task).items():
            final: Outcome | None = outcome
            if outcome.verdict != "passes":
                final = self.again(dataclasses.replace(task, methods={name: judged[name]}), name, outcome)
            if final is not None:
                found.append(verdict_on(module, name, final))
        return found

    def allowed(self, plain: Outcome) -> float:
        """The seconds that the compiled method may take: each run of it may be captured instruction by instruction, up
        to a limit."""
        return RUNS * self.limit + min(100 * plain.seconds, 5 * self.limit)

    def again(self, task: Task, name: str, before: Outcome) -> Outcome | None:
        """The outcome of a method alone; None if it is not to be judged, since so it does not pass plain either."""
        if self.outcomes(dataclasses.replace(task, is_compiled=False))[name].verdict != "passes":
            return None
        alone = self.outcomes(task)[name]
        if alone.verdict == "passes":
            return dataclasses.replace(before, trouble=f"after other tests only: {before.trouble}")
        return alone

    def outcomes(self, task: Task) -> dict[str, Outcome]:
        """Runs child processes until every method has an outcome: where one does not survive, the next goes on."""
        found: dict[str, Outcome] = {}
        while task.methods is None or task.methods:
            lines, said, status = self.child(task)
            if not lines:
                raise SystemExit(f"{task.module} can't be loaded:\n{said}")
            begun, methods = None, task.methods or dict.fromkeys(lines[0]["has"], self.limit)
            for line in lines[1:]:
                if "begins" in line:
                    begun = line["begins"]
                else:
                    name, begun = line.pop("ends"), None
                    found[name] = Outcome(**line)
            if begun is not None:
                how = "hangs" if "Timeout (" in said or status == -signal.SIGPROF else "crashes"
                found[begun] = Outcome("fails", 0.0, f"{how}:\n{said[-3000:]}")
            left = {name: limit for name, limit in methods.items() if name not in found}
            task = dataclasses.replace(task, methods=left)
        return found

    def child(self, task: Task) -> tuple[list[dict[str, Any]], str, int]:
        """Runs one process to its end: the lines of its results, what it said on stderr, and its status."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        environment["JIT_BREAK_EVERYWHERE"] = str(int(self.break_everywhere))
        with tempfile.TemporaryDirectory(prefix="framejit-coverage-") as folder:
            results = Path(folder, "results")
            results.touch()
            task = dataclasses.replace(task, results=str(results))
            told = Path(folder, "task")  # names of many methods are too long for a command
            told.write_text(json.dumps(dataclasses.asdict(task)))
            command = [sys.executable, "-m", "tools.coverage_child", str(told)]
            done = subprocess.run(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
            return [json.loads(line) for line in results.read_text().splitlines()], done.stderr, done.returncode


def module_of(name: str) -> str | None:
    """The module of this name, which may be in a package of that name; None where this Python has none."""
    spec = importlib.util.find_spec(f"test.{name}")
    if spec is None:
        return None
    inside = f"{name}.{name}"
    is_inside = spec.submodule_search_locations is not None and importlib.util.find_spec(f"test.{inside}") is not None
    return inside if is_inside else name


def verdict_on(module: str, name: str, outcome: Outcome) -> Found:
    reasons = [(reason, detail) for reason, detail in outcome.reasons]
    if outcome.verdict != "passes":
        verdict = "wrong"
    elif not outcome.is_compiled:
        verdict = "falls back"
    else:
        verdict = "breaks" if reasons else "whole"
    return Found(module, name.removeprefix(f"test.{module}."), verdict, outcome.trouble, reasons)


# --- the report -------------------------------------------------------------------------------------------------------
def counts(found: Iterable[Found]) -> Counter[str]:
    return Counter(each.verdict for each in found)


def row(title: str, found: Sequence[Found], peers: str = "") -> list[str]:
    per = counts(found)
    share = f"{100 * per['whole'] / len(found):.0f} %" if found else "-"
    return [title, str(len(found)), *(str(per[verdict]) for verdict in VERDICTS), share, peers]


def per_module(found: Sequence[Found]) -> list[list[str]]:
    rows = []
    for module in dict.fromkeys(each.module for each in found):
        peers = "{} of {}".format(*PEERS[module]) if module in PEERS else ""
        rows.append(row(module, [each for each in found if each.module == module], peers))
    return [*rows, row("all", found)]


def per_reason(found: Sequence[Found], with_detail: bool) -> list[list[str]]:
    """How many methods each reason keeps from being whole, and of how many it is the only one."""
    those: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for each in found:
        wanted = {(why, detail if with_detail or why == FALLS_BACK else "") for why, detail in each.reasons}
        named = {f"{why}: {detail}" if detail else why for why, detail in wanted}
        those.update(named)
        alone.update(named if len(named) == 1 else ())
    return [[reason, str(count), str(alone[reason])] for reason, count in those.most_common(40)]


def report(found: Sequence[Found], markdown: bool, details: bool) -> None:
    columns = ["", "methods", *VERDICTS, "whole", "peers, whole"]
    show("Test methods", columns, per_module(found), markdown)
    print()
    show("Reasons of breaks", ["", "methods", "alone"], per_reason(found, details), markdown)
    wrong = [each for each in found if each.verdict == "wrong"]
    if wrong:
        print()
        troubles = [[f"{each.module}.{each.name}", in_short(each.trouble)] for each in wrong]
        show("Wrong", ["", "trouble"], troubles, markdown)


def in_short(trouble: str) -> str:
    lines = [line for line in trouble.splitlines() if line.strip()] or [""]
    line = lines[0] if trouble.startswith(("hangs", "crashes")) else lines[-1]
    return line.replace("|", "\\|")[:160]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/coverage", description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as test_generators (default: a hundred)")
    parser.add_argument("--break-everywhere", action="store_true", help="break the graph wherever it can be broken")
    parser.add_argument("--auto", action="store_true", help="run the modules as scripts under JIT_AUTO=1 instead")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="processes at a time")
    parser.add_argument("--limit", type=float, default=20, help="processor seconds of a plain method (default 20)")
    parser.add_argument("--details", action="store_true", help="count reasons with their details")
    parser.add_argument("--markdown", action="store_true", help="print tables as Markdown")
    parser.add_argument("--json", type=Path, default=ALL, help="all that was found (default build/coverage.json)")
    options = parser.parse_args(arguments)

    options.json.parent.mkdir(parents=True, exist_ok=True)
    there = Path(support.__file__).parent.parent
    with tempfile.TemporaryDirectory(prefix="framejit-coverage-") as folder:
        for path in there.iterdir():
            if path.name != "__pycache__":
                Path(folder, path.name).symlink_to(path)
        chosen = options.modules or [module for module in map(module_of, MODULES) if module is not None]
        if options.auto:
            return coverage_auto.report(chosen, folder, 30 * options.limit, options.markdown)
        runner = Runner(folder, options.limit, options.break_everywhere)
        found: list[Found] = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for module, those in zip(chosen, pool.map(runner.module, chosen), strict=True):
                found += those
                options.json.write_text(json.dumps([dataclasses.asdict(each) for each in found], indent=1))
                print(module, *(f"{count} {verdict}" for verdict, count in counts(those).items()), file=sys.stderr)
    print(machine())
    report(found, options.markdown, options.details)
    return int(any(each.verdict == "wrong" for each in found))


if __name__ == "__main__":
    sys.exit(main())
