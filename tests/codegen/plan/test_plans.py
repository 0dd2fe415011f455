"""The native plan does what run.py does."""

import pytest
import torch

from codegen.plan.build import build
from codegen.plan.run import run
from tests.codegen.plan.plans import CASES, PROGRAMS


def look(value):
    """All that there is to see of a value."""
    if not isinstance(value, torch.Tensor):
        return type(value), value
    return value.dtype, value.shape, value.stride(), value.storage_offset(), value.requires_grad, value.tolist()


def outcome(function, case):
    args = case.make()
    given = list(args)
    torch.manual_seed(0)
    results = function(given) if case.plan.takes_list else function(*given)
    assert isinstance(results, tuple) and (given == [] or not case.plan.takes_list)
    tensors = [value for value in (*args, *results) if isinstance(value, torch.Tensor)]
    shared = [[a is b for b in tensors] for a in tensors]
    memory = [[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for b in tensors] for a in tensors]
    return [*map(look, args)], [*map(look, results)], shared, memory


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_as_the_interpreter(name):
    case = CASES[name]
    built = build(case.plan)
    for _ in range(2):
        assert repr(outcome(built, case)) == repr(outcome(lambda *args: run(case.plan, *args), case))


@pytest.mark.parametrize("at", range(len(PROGRAMS)))
def test_programs_mean_what_python_means(at):
    assert build(CASES[f"program {at}"].plan)() == (PROGRAMS[at][1],)


@pytest.mark.parametrize("name", CASES)
def test_printed(name):
    plan = CASES[name].plan
    built = build(plan)
    assert repr(built) == str(plan) and built.source is plan and built.__name__ == name
    assert len(str(plan).splitlines()) >= 2 + len(plan.steps)


def test_text():
    assert str(CASES["blocks of symbolic sizes"].plan) == """\
blocks of symbolic sizes(t0):
    n0 = t0.size(0)
    n1 = 4 n0 *
    reserve b0[n1]
    t1 = empty((n0,), (1,), float32)
    add_one(t0, b0) for n0, grain 32768
    add_one(b0, t1) for n0, grain 32768
    return (t1,)"""
    assert str(CASES["scalars"].plan).splitlines()[5] == "    affine(t1, t2; ; n0, n1) for 6, grain 32768"
    assert str(CASES["list of optionals"].plan).splitlines()[1] == "    t9 = aten.index.Tensor(t0, [None, t1])"
    assert str(CASES["a list of results"].plan).splitlines()[1] == "    (t1, None, t3) = aten.split.Tensor(t0, 2)"
    assert str(CASES["launches together"].plan).splitlines()[1:3] == [
        "    together:", "        add_one(t0, t0) for 6, grain 32768"]
