"""`tools/fuzz`: what it writes, judges and makes small."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from symbolic.opcodes import HANDLERS
from symbolic.variables.constants import ConstantVariable
from tests.differential import COUNTING
from tools import fuzz
from tools.fuzz import examine, examined, number_of, pool
from tools.fuzz_author import FAMILIES, write
from tools.fuzz_judge import Verdict, by_chance, judge, load, tried
from tools.fuzz_shrink import shrink

PROGRAM = """
def program(x, n):
    seen = []
    for i in range(3):
        longer = [i, n, *seen]
        if n > 1:
            print(len(longer))
        seen.append(i)
    y = x * 2
    return {'a': y, **{'n': n}}

def arguments(way):
    import torch
    return (torch.ones(2), 3 + way)
"""


def test_the_same_text_for_the_same_seed() -> None:
    assert write(3) == write(3) != write(4)


def test_a_family_is_written_more_often() -> None:
    assert write(3, "async") == write(3, "async") != write(3)
    assert sum(write(seed, "async").count("async def") for seed in range(9)) > sum(
        write(seed).count("async def") for seed in range(9)
    )


def test_programs_are_valid_and_most_return() -> None:
    raised = Counter("no program" if (each := tried(write(seed))) is None else each[0] for seed in range(100, 200))
    assert raised["no program"] < 5 and 60 < raised[""] < 99


def test_a_planted_fault_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine("right", PROGRAM).verdict.kind == ""
    right = HANDLERS["LIST_EXTEND"]

    def wrong(tx: Any, frame: Any, inst: Any) -> None:
        right(tx, frame, inst)
        frame.stack[-inst.arg].method(tx, "append", [ConstantVariable(7)], {})

    monkeypatch.setitem(HANDLERS, "LIST_EXTEND", wrong)
    found = examine("wrong", PROGRAM, 60)
    assert found.verdict.kind == "NotTheSame"
    assert len(found.text.splitlines()) <= 7 and "[" in found.text
    assert "seen" not in found.text and "x * 2" not in found.text and "**" not in found.text


def test_a_program_that_is_a_generator_stays_as_it_is() -> None:
    assert judge(PROGRAM.replace("return", "yield", 1)) == Verdict()


OUT = """
import os

def program(size, ends):
    return os._exit(1) if ends else len(bytearray(size))

def arguments(way):
    return {}
"""


def test_a_program_that_takes_all_memory_or_ends_its_process_is_none() -> None:
    workers = pool()
    for arguments, judged in [((5 << 30, False), False), ((1, True), False), ((1, False), True)]:
        found, workers = examined(workers, "", OUT.format(arguments), 0)
        assert found.verdict.judged == judged and not found.verdict.kind
    workers.shutdown()


def test_a_program_that_cannot_be_judged_is_a_finding() -> None:
    """Its process goes on with the next one."""
    workers = pool()
    for text, kind in [(lambda: "no text", "no verdict"), (PROGRAM, "")]:
        found, workers = examined(workers, "", text, 0)  # type: ignore[arg-type]
        assert found.verdict.kind == kind
    workers.shutdown()


CHANCE = """
import time, weakref, torch
KNOWN = weakref.WeakValueDictionary()
class Thing: ...

def program(x, way):
    thing = Thing()
    if way == "collected":
        thing.itself = KNOWN[0] = thing
    return x + 1, time.time_ns() if way == "timed" else 0

def arguments(way):
    return torch.ones(2), "{way}"
"""


@pytest.mark.parametrize(
    "way, excuse", [("", ""), ("timed", "no two runs are the same"), ("collected", "what is left to the collector is seen")]
)
def test_differences_that_no_compiler_makes(way: str, excuse: str) -> None:
    assert by_chance(load(CHANCE.replace("{way}", way))) == excuse


def test_small_programs_still_have_what_is_wrong() -> None:
    def is_wrong(text: str) -> bool:
        return "def program" in text and "seen.append" in text

    assert shrink(PROGRAM, is_wrong, 20) == "def program(x, n):\n    seen.append"


def test_formats_go_as_a_whole() -> None:
    text = "def program(x):\n    return (f'{x:>{3}} {x!r}', seen)"
    assert shrink(text, lambda smaller: "seen" in smaller, 20) == "def program(x):\n    return seen"
    assert shrink(text, lambda smaller: all(each in smaller for each in ("seen", "{x:>{3}}", "{x!r}")), 20) == text


def test_what_the_judge_cannot_judge_is_not_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(text: str) -> Verdict:
        if "needed" not in text:
            raise AttributeError("needed")
        return Verdict("wrong", "", frozenset())

    monkeypatch.setattr(fuzz, "judge", judged)
    found = examine("1.1", "def program(x):\n    needed\n    return x + 1", 5)
    assert found.verdict.kind == "wrong" and found.text == "def program(x):\n    needed"


def test_programs_run_compiled_as_they_do_eagerly() -> None:
    few = 6 if COUNTING else 4  # where the graph breaks everywhere, there is much to compile
    assert wrong_ones(range(few)) == []


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_programs_of_a_family_run_compiled_as_they_do_eagerly(family: str) -> None:
    assert wrong_ones(range(6), family) == []


def wrong_ones(numbers: range, family: str = "") -> list[int]:
    return [number for number in numbers if judge(write(number_of(f"0.{number}"), family)).kind]


@pytest.mark.parametrize("call", ["again(0)", "again"])
def test_a_program_whose_recursion_does_not_end_is_not_judged(call: str) -> None:
    """Nor where it handles the error."""
    body = f"""
def again(number):
    return again(number + 1)

def program(x, n):
    try:
        {call}
    except Exception:
        return x
    return x
"""
    assert (tried(body + PROGRAM[PROGRAM.index("def arguments") :]) is None) == ("(" in call)
