"""Random programs of side effects, compiled and eager: `programs.py` writes them, hypothesis chooses, and makes small
what fails. Each is called with several worlds, and again with what a call has left: see `differential.check`.

    pytest -m long tests/sideeffects/test_random_programs.py -s     20,000 steps; says how many programs were one graph
"""
import collections
import itertools

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from symbolic.translator import ESCAPES
from tests.anew import begin_anew
from tests.differential import check, compile_with_jit, execute
from tests.sideeffects.programs import Author
from tests.sideeffects.things import Shape, afterwards, arguments, world

SHAPES = [Shape(), Shape(4, aliased_lists=True), Shape(3, aliased_tensors="view", aliased_objects=True),
          Shape(2, aliased_tensors="same", grad=True), Shape(3, dtype=torch.float64, more=2), Shape(3, strided=True, hooked=True)]
LONGEST = 14
STEPS, PARTS = 20_000, 10
#: programs at a time: those that fail are made small among these
BATCH = 50


@st.composite
def programs(draw):
    return Author(lambda options: draw(st.sampled_from(options))).program(LONGEST)


class Count:
    """What became of the programs."""

    def __init__(self):
        self.programs = self.steps = self.whole = 0
        self.reasons = collections.Counter()

    def add(self, program, breaks):
        self.programs += 1
        self.steps += program.steps
        self.whole += not breaks
        self.reasons.update(breaks)

    def __str__(self):
        reasons = "".join(f"\n  {count:4} {reason}" for reason, count in self.reasons.most_common(12))
        return f"{self.steps} steps, {self.programs} programs, {self.whole} of them without a graph break; breaks:{reasons}"


def compare(program, shapes):
    """Raises where eager and compiled differ; answers with the reasons of the graph breaks, once each."""
    begin_anew()
    scope, doors = world(), []
    execute(program.text, scope)

    def compiler(fn, **options):
        doors.append(compile_with_jit(fn, **options))
        return doors[-1]

    def maker(shape):
        def make():
            found = arguments(shape)
            return tuple(found[name] for name in program.takes)
        return make
    first, *changed = map(maker, shapes)
    check(scope["build"](), make=first, changed=changed, then=afterwards, compiler=compiler, nodes=False)
    records = [record for door in doors for record in door.compiler.records]
    found = {reason.reason for record in records for reason in record.breaks} | {record.skipped for record in records}
    return found - {ESCAPES, None, ""}


def search(number, steps, count):
    """Programs drawn from `number` until there are as many steps."""
    for batch in itertools.count():
        if count.steps >= steps:
            return

        @seed(number * 10_000 + batch)
        @settings(max_examples=BATCH, deadline=None, database=None, print_blob=False, suppress_health_check=list(HealthCheck),
                  phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False)
        @given(programs(), st.lists(st.sampled_from(SHAPES), min_size=2, max_size=3))
        def agree(program, shapes):
            count.add(program, compare(program, shapes))
        agree()


@pytest.mark.break_everywhere
def test_programs_do_what_they_do_eagerly():
    search(0, STEPS // 40, Count())


@pytest.mark.long
@pytest.mark.break_everywhere
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_all_programs_do_what_they_do_eagerly(part):
    count = Count()
    search(part, STEPS // PARTS, count)
    print(f"\n{count}")
