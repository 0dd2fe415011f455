"""What a frame made goes when its callers let go of it: neither guards nor frames that go on elsewhere keep it."""
import collections
import copy
import dataclasses
import gc
import sys
import weakref

import pytest
import torch

import jit
from tests.differential import COUNTING

X = torch.ones(2)


class Level:
    def __init__(self, level):
        self.level = level


def lambdas_with_defaults(x):
    held = Level(5)
    function = lambda x, level=held, *, more=held: x + level.level + more.level  # noqa: E731
    jit.graph_break()
    return function(x), held, function


def functions_whose_defaults_stay(x):
    held = Level(5)

    def function(x, unused=held, number=3, *, other=held, times=2):
        return (x + number) * times

    jit.graph_break()
    return function(x, number=4) + function(x, 0, times=3), held, function


def fields_with_defaults(x):
    held = Level(5)

    @dataclasses.dataclass
    class Record:
        number: int
        level: object = held

    jit.graph_break()
    made = Record(1)
    return x + made.level.level + (dataclasses.replace(made, number=2) == made), held, Record


def classes_that_no_table_has(x):
    held = Level(5)

    class Thing:
        level = held

    thing = Thing()
    jit.graph_break()
    return x + copy.copy(thing).level.level, held, Thing


PROGRAMS = [lambdas_with_defaults, functions_whose_defaults_stay, fields_with_defaults, classes_that_no_table_has]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_the_frame_made_goes(program):
    expected = program(X)[0]
    compiled = jit.compile(program, backend="eager")
    for _ in range(3):
        result, *made = compiled(X)
        torch.testing.assert_close(result, expected)
        ends = [weakref.ref(each) for each in made]
        made.clear()
        gc.collect()
        assert not any(end() for end in ends)


def test_a_function_made_in_each_call_is_compiled_once():
    """Its defaults are other objects each time, too."""
    def program(x):
        held = Level(5)

        def function(x, level=held, *, more=2):
            return x + level.level * more

        jit.graph_break()
        return function(x)

    compiled = jit.compile(program, backend="eager")
    for _ in range(6):
        torch.testing.assert_close(compiled(X), X + 10)
    if COUNTING:
        assert len(compiled.compiler.records) == 2


def test_defaults_that_differ_from_one_call_to_the_next():
    def program(x, value, names):
        def function(x, level=value, *more, **rest):
            return x + level

        function.__kwdefaults__ = dict.fromkeys(names, 3)
        function.__defaults__ += tuple(names)[2:]
        jit.graph_break()
        try:
            return called(function, x)
        except TypeError as error:
            return str(error)

    def called(function, x):
        return function(x)

    def makes(x, value, names):
        if len(names) == 1:
            def function(x, level=value, *, a=value):
                return x + level + a
        elif len(names) == 2:
            def function(x, level, *, a=value):
                return x + a
        else:
            def function(x, level=value, *, a):
                return x + level
        jit.graph_break()
        try:
            return called(function, x)
        except TypeError as error:
            return str(error)

    for each in (program, makes):
        compiled = jit.compile(each, backend="eager")
        for value in (1, 1, 2, 2.5, True, torch.tensor(3.0), torch.tensor(4.0), [1], "ab"):
            for names in ("a", "ab", "abc"):
                expected, result = each(X, value, names), compiled(X, value, names)
                assert expected == result if isinstance(expected, str) else torch.equal(expected, result)


class Told:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


def whose_argument_goes(log):
    made = Told(log)
    jit.graph_break()
    log.append(made is not None)
    del made
    jit.graph_break()
    log.append("after")
    return log


@jit.disable
def begun(log):
    return Told(log)


def whose_result_goes(log):
    made = begun(log)
    log.append(made is not None)
    del made
    jit.graph_break()
    log.append("after")
    return log


@pytest.mark.parametrize("called", [whose_argument_goes, whose_result_goes])
def test_a_frame_that_goes_on_in_a_continuation_holds_nothing(called):
    """As C called it, which clears it later."""
    def program(x, log):
        return x + 1, list(map(called, [log]))[0]

    compiled = jit.compile(program, backend="eager")
    for _ in range(3):
        assert compiled(X, [])[1] == [True, "gone", "after"]


def test_a_frame_that_somebody_has_keeps_its_values():
    def called(value):
        made = value + 1
        held.append(sys._getframe())
        jit.graph_break()
        return made

    def program(x):
        return x + list(map(called, [x]))[0]

    held = []
    compiled = jit.compile(program, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(X), X + 2)
    assert [type(frame.f_locals["value"]) for frame in held] == [torch.Tensor] * 3


def test_defaults_by_name_in_a_dict_of_a_derived_class():
    """Which names there are is guarded of it, too."""
    def program(x, names):
        def function(x, *, a, b=1):
            return x + b

        function.__kwdefaults__ = collections.OrderedDict.fromkeys(names, 3)
        jit.graph_break()
        try:
            return function(x)
        except TypeError as error:
            return str(error)

    compiled = jit.compile(program, backend="eager")
    for names in ("ab", "ac", "cb", "ab", "ba"):
        expected, result = program(X, names), compiled(X, names)
        assert expected == result if isinstance(expected, str) else torch.equal(expected, result)
