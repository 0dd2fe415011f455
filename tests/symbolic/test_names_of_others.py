"""Globals and builtins that are no plain dicts, or are not those that a function was made with.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import builtins
import sys
from types import FunctionType

import jit
from tests.differential import check, same_as_eager, tensors

X, = tensors(3, 4)


class Answering(dict):
    """Globals, or builtins, that have every name."""

    def __missing__(self, key):
        return int(key.removeprefix("number_"))


class Hiding(dict):
    def __getitem__(self, key):
        return 7 if key == "three" else super().__getitem__(key)


def test_globals_that_answer_for_names_which_they_do_not_have():
    added = eval("lambda x: x + number_1 + number_2", Answering())
    check(added, X)
    check(lambda x: added(x) * 2, X)


def test_globals_that_answer_in_another_way_than_dicts():
    added = eval("lambda x: x + three", Hiding(three=3))
    check(added, X)
    check(lambda x: added(x) * 2, X)


def test_a_generator_among_such_globals():
    scope = Answering()
    exec("def numbers(x):\n    yield x + number_1\n    yield x + number_2", scope)
    numbers = scope["numbers"]
    check(lambda x: [*numbers(x)], X)

    def goes_on(x):
        running = numbers(x)
        return next(running), running

    begun = goes_on(X)[1]
    compiled = jit.compile(lambda running: next(running) * 2, backend="eager")
    assert compiled(begun).equal((X + 2) * 2)


def test_such_globals_made_in_the_frame():
    def program(x):
        added = eval("lambda x: x + number_1 + number_2", Answering())
        return [added(x) for _ in range(3)]

    check(program, X)


def test_builtins_that_answer_for_names_which_they_do_not_have():
    added = eval("lambda x: x + number_1", {"__builtins__": Answering()})
    check(added, X)
    check(lambda x: added(x) * 2, X)


def test_a_function_keeps_the_builtins_that_it_was_made_with():
    scope = {"__builtins__": {"len": lambda x: 7}}
    made = eval("lambda x: x + len([])", scope)
    scope["__builtins__"] = builtins
    check(made, X)
    check(lambda x: made(x) * 2, X)
    other = {}
    plain = eval("lambda x: x + len([])", other)
    other["__builtins__"] = {"len": lambda x: 7}
    check(plain, X)
    check(lambda x: plain(x) * 2, X)
    check(FunctionType(plain.__code__, other), X)


@same_as_eager(graphs=1)
def test_what_print_proposes_where_a_stream_is_shifted_to(x):
    said = []
    for left, right in ((print, sys.stderr), (print, 42), (max, sys.stderr), (x.add, 1)):
        try:
            left >> right
        except TypeError as error:
            said.append(str(error))
        try:
            left >>= right
        except TypeError as error:
            said.append(str(error))
    try:
        print << sys.stderr
    except TypeError as error:
        said.append(str(error))
    return x + 1, said


@same_as_eager(graphs=1)
def test_reflected_methods_that_are_asked_by_name(x):
    filled = bytearray(b"abc")
    said = [filled.__rmod__(left) for left in ("%r", b"%s", 3, bytearray(b"%s!"))]
    return x + 1, said, b"abc".__rmod__("%r"), "abc".__rmod__(b"%r"), filled.__rmul__(2)
