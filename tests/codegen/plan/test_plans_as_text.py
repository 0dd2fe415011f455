"""Plans written as text and read again are the same plans."""

import json
import math
from dataclasses import fields, is_dataclass

import pytest
import torch

from codegen.plan import text
from codegen.plan.build import build
from codegen.plan.run import run
from codegen.plan.steps import Allocate, Call, Constant, Plan, Python, TensorSlot
from tests.codegen.plan.kernels import kernel
from tests.codegen.plan.plans import CASES, T
from tests.codegen.plan.test_plans import outcome

UNWRITABLE = {"all kinds of results", *(name for name, case in CASES.items() if Python in map(type, case.plan.steps))}
aten = torch.ops.aten


def tensors_in(value):
    """The tensors of a plan, in any part of it."""
    if isinstance(value, torch.Tensor):
        return [value]
    if is_dataclass(value):
        return [found for field in fields(value) for found in tensors_in(getattr(value, field.name))]
    return [found for item in value for found in tensors_in(item)] if isinstance(value, list | tuple) else []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(CASES.keys() - UNWRITABLE))
def test_what_is_read_is_what_was_written(name):
    plan = CASES[name].plan
    tensors = tensors_in(plan)
    written = text.write(plan, tensors)
    found = text.read(written, kernel, tensors)
    assert str(found) == str(plan) and text.write(found, tensors) == written
    assert list(map(id, tensors_in(found))) == list(map(id, tensors))
    if not tensors:
        assert found == plan
    case = CASES[name]
    assert repr(outcome(build(found), case)) == repr(outcome(lambda *args: run(plan, *args), case))


def of_constant(value):
    return Plan("p", (T(0),), (Call(aten.add.Tensor, (T(0), value), (), (T(1),)),), (T(1),))


@pytest.mark.parametrize(
    "value",
    [True, 1, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e-300, 1 << 62, 1 + 2j, None, "sum", (1, (2,)), [1, [T(0)]],
     torch.float16, torch.strided, torch.channels_last, torch.device("cpu"), torch.device("cuda", 1)],
    ids=repr,
)
def test_constants_keep_type_and_value(value):
    found = text.read(text.write(of_constant(value)), kernel).steps[0].args[1]
    assert type(found) is type(value) and repr(found) == repr(value)


@pytest.mark.parametrize(
    "plan",
    [
        Plan("p", (), (Python(lambda: (), (), ()),), ()),
        Plan("p", (), (Constant(T(0), torch.ones(2)),), (T(0),)),
        of_constant(torch.Generator()),
        *(CASES[name].plan for name in sorted(UNWRITABLE)),
        of_constant(str),
        of_constant(object()),
    ],
)
def test_what_means_nothing_elsewhere_is_not_written(plan):
    with pytest.raises(text.Unwritable):
        text.write(plan, [torch.ones(2)])


GOOD = json.loads(text.write(Plan("p", (), (Allocate(TensorSlot(0), (2,), (1,), torch.float32),), (T(0),))))


@pytest.mark.parametrize(
    "written",
    ["", "{", "[]", "null", json.dumps({"Plan": []}), json.dumps({"Plan": ["p"], "Call": []}), json.dumps({"Pickle": ""}),
     json.dumps(GOOD).replace("float32", "load"), json.dumps(GOOD).replace("float32", "none"),
     json.dumps(GOOD).replace('"dtype"', '"op"'), json.dumps(GOOD).replace('"dtype"', '"Function"'),
     '{"Plan": ["p", [], [{"Constant": [{"TensorSlot": [0]}, {"tensor": 3}]}], []]}'],
)
def test_what_is_no_plan_is_refused(written):
    with pytest.raises(text.Unreadable):
        text.read(written, {}.__getitem__)
