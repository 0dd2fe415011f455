"""Functions that trace or profile what they call: its events are those of eager code.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import sys

import pytest

from tests.differential import check, tensors

X, = tensors(3, 4)


def adds(x):
    y = x + 1
    return y * 2


def traces_by_itself(x):
    seen = []
    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: seen.append((frame.f_code.co_name, event)))
    y = adds(x)
    sys.settrace(before)
    return y, seen


def profiles_by_itself(x):
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.append((frame.f_code.co_name, event)))
    y = adds(x)
    sys.setprofile(before)
    return y, seen


@pytest.mark.parametrize("program", (traces_by_itself, profiles_by_itself))
def test_a_function_that_sees_what_it_calls(program):
    check(program, X)


def test_a_callee_that_sees_what_it_calls():
    def calls(x):
        y, seen = traces_by_itself(x * 2)
        return y + 1, seen

    check(calls, X)
