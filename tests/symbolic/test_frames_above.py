"""Breaks in inlined frames: what runs there finds the frames around it, by name, file and line."""

import contextlib
import logging
import traceback
import warnings

import pytest
import torch

import jit
from tests.differential import check


class Caution(UserWarning):
    pass


def breaks(x):
    return x.sum().item() > 2


def warned(program, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = program(*args)
    return result, [(each.filename, each.lineno, str(each.message)) for each in caught]


def told(x, k, level):
    warnings.warn(f"{k} {breaks(x)}", Caution, stacklevel=level)
    return k


def in_next(x, k, level):
    def once():
        yield told(x, k, level)

    def helper(made):
        return next(made)

    return helper(once()), x + 1


def in_next_later(x, k, level):
    def twice():
        yield breaks(x)
        yield told(x, k, level)

    def helper(made):
        return next(made)

    made = twice()
    return helper(made), helper(made), x + 1


def in_for(x, k, level):
    def several():
        for _ in range(3):
            breaks(x)
            yield told(x, k, level)

    def helper(made):
        return [each for each in made] + [x + 1]  # noqa: C416

    return helper(several())


def in_for_of_its_own(x, k, level):
    def several():
        for _ in range(3):
            breaks(x)
            yield told(x, k, level)

    out = []
    for each in several():
        out.append(each)
    return out, x + 1


def in_display(x, k, level):
    def several():
        for _ in range(3):
            breaks(x)
            yield told(x, k, level)

    return [*several()], x + 1


def in_key(x, k, level):
    def key(each):
        breaks(x)
        told(x, k, level)
        return -each

    def helper(items):
        return sorted(items, key=key)

    return helper([1, 2]), x + 1


def in_keyword_call(x, k, level):
    def helper(**given):
        return told(**given)

    return helper(x=x, k=k, level=level), x + 1


def in_manager(x, k, level):
    @contextlib.contextmanager
    def manager():
        breaks(x)
        yield told(x, k, level)

    def helper():
        with manager() as got:
            return got, x + 1

    return helper()


PROGRAMS = [in_next, in_next_later, in_for, in_for_of_its_own, in_display, in_key, in_keyword_call, in_manager]


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_warning_after_a_break_tells_of_the_frame_it_is_about(program, level):
    compiled = jit.compile(program, backend="eager")
    for x, k in ((torch.ones(4), "a"), (torch.ones(4), "b"), (torch.zeros(4), "a")):
        expected, found = warned(program, x, k, level), warned(compiled, x, k, level)
        assert found[1] == expected[1]
        assert str(found[0]) == str(expected[0])


def test_a_stack_looked_at_from_a_key_after_a_break():
    def program(x):
        seen = []

        def key(each):
            breaks(x)
            seen.append([(f.name, f.lineno, f.filename) for f in traceback.extract_stack()[-4:]])
            return each

        def helper(items):
            return sorted(items, key=key)

        helper([2, 1])
        return seen, x + 1

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        (expected, _), (found, _) = program(torch.ones(3)), compiled(torch.ones(3))
        assert [each[1:] for each in found] == [each[1:] for each in expected]


def test_a_traceback_has_no_entries_of_what_stands_in():
    def program(x):
        def several():
            for i in range(3):
                if i == 2 and x.sum().item() > 2:
                    raise ValueError(i)
                yield i

        def helper(made):
            return [next(made), next(made), next(made)]

        try:
            return helper(several()), x + 1
        except ValueError as error:
            return [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)], x

    check(program, torch.ones(3), changed=(torch.zeros(3),))


class Places(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append((record.funcName, record.lineno, record.getMessage()))


def test_a_message_logged_after_a_break_tells_of_its_own_frame():
    log = logging.getLogger("frames above")
    log.propagate = False
    places = Places()
    log.addHandler(places)

    def program(x):
        def key(each):
            breaks(x)
            log.warning("seen %s", each, stacklevel=2)
            return each

        def helper(items):
            return sorted(items, key=key)

        return helper([2, 1]), x + 1

    compiled = jit.compile(program, backend="eager")
    program(torch.ones(3))
    expected = list(places.seen)
    assert {name for name, _, _ in expected} == {"helper"}
    for _ in range(2):
        places.seen.clear()
        compiled(torch.ones(3))
        assert places.seen == expected


def test_text_that_runs_in_an_inlined_function_inherits_what_is_from_the_future_there():
    """And nothing of the compiler's: annotations are text if the program says so."""
    text = "def made(a: int): pass\nimport gc\ngc.collect()\n"  # which breaks the graph

    def runs(text):
        names = {}
        exec(text, names)
        return names["made"].__annotations__

    names = {}
    future = "from __future__ import annotations\ndef runs(text):\n    names = {}\n    exec(text, names)\n    return names['made'].__annotations__"
    exec(compile(future, "<future>", "exec", dont_inherit=True), names)
    runs_in_the_future = names["runs"]

    def program(x, text):
        return runs(text), runs_in_the_future(text), x + 1

    check(program, torch.ones(3), text)
    assert program(torch.ones(3), text)[:2] == ({"a": int}, {"a": "int"})
