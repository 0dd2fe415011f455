"""What CPython's own tests found (`tools/coverage`), each as a small program."""

import re
import traceback
import warnings

import pytest

import jit
from tests.differential import check, same_as_eager, tensors

X, Y = tensors(3, 4, count=2)


def test_a_native_method_that_knows_its_class_outlives_a_break():
    def program(pattern, x):
        search = pattern.search
        jit.graph_break()
        return search("a text") is None, x + 1

    check(program, re.compile("ext"), X)


@same_as_eager(graphs=1)
def test_frames_of_a_traceback_are_cleared(x):
    class_names = []
    for number in ("1", "x"):
        try:
            x = x + int(number)
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            class_names.append(type(error.with_traceback(None)).__name__)
    return x, class_names


@same_as_eager(graphs=1)
def test_defaults_of_a_new_function_are_changed(x):
    def add(a, b=0, *, c, d=0):
        return a + b + c + d

    seen = [add(x, c=1)]
    add.__kwdefaults__ = None
    try:
        add(x, c=1)
    except TypeError as error:
        seen.append(str(error))
    add.__kwdefaults__ = {"c": 1, "d": 2}
    add.__defaults__ = (3, 4)
    seen.append(add())
    add.__kwdefaults__["d"] = 5
    add.__defaults__ = None
    try:
        add(x)
    except TypeError as error:
        seen.append(str(error))
    return add(x, 1), seen, add


def test_code_of_a_new_function_is_changed():
    def program(x):
        def one():
            return x + 1

        def two():
            return x + 2

        one.__code__ = two.__code__
        return one()

    check(program, X)


class Three:
    def __index__(self):
        return 3


class Whole(int):
    def __index__(self):
        raise AssertionError("an int is asked for no index")


@same_as_eager(graphs=1)
def test_objects_as_indices(x):
    three, seen = Three(), []
    for value in ("a text", b"bytes", (1, 2, 3, 4), [1, 2, 3, 4], range(5, 20), bytearray(b"buffer")):
        seen += [value[three], value[:three], value[three:], value[Whole(1) : three], value.__getitem__(three)]
        if not isinstance(value, range):
            seen += [value * three, three * value, value * Whole(2), value.__mul__(three), value.__rmul__(three)]
    return x + x[three - 3 if isinstance(three, int) else 0].sum(), seen


@pytest.mark.parametrize("value", ["text", b"bytes", (1, 2), [1, 2], bytearray(b"buffer"), range(3)])
@pytest.mark.parametrize("index", ["1", 1.0, None])
def test_what_is_no_index(value, index):
    class Wrong:
        def __index__(self):
            return index

    def program(x, wrong):
        seen = []
        for operation in (lambda: value[wrong], lambda: value[wrong:], lambda: value[index:], lambda: value * wrong):
            try:
                seen.append(operation())
            except TypeError as error:
                seen.append(str(error))
        return seen, x + 1

    check(program, X, Wrong())


class Modest:
    """Has its say in sums and products, and says nothing."""

    def __radd__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        return NotImplemented

    def __index__(self):
        return 2


@same_as_eager(graphs=1)
def test_a_sequence_is_asked_when_no_number_answers(x):
    seen, modest = [], Modest()
    for value in ("text", b"bytes", (1, 2), [1, 2], bytearray(b"buffer")):
        for operation in (lambda: value * Whole(2), lambda: Whole(2) * value, lambda: value * modest,
                          lambda: value + Whole(1), lambda: value * object()):
            try:
                seen.append(operation())
            except TypeError as error:
                seen.append(str(error))
    for value in ("text", b"bytes", (1, 2), [1, 2]):
        try:
            value + modest
        except TypeError as error:
            seen.append(str(error))
    items = seen[0:2]
    same = items
    items *= Whole(2)
    return x + 1, seen, items, items is same


def test_breaks_in_a_long_loop_do_not_nest():
    def program(x, count):
        for _ in range(count):
            jit.graph_break()
            x = x + 1
        return x

    check(program, X, 3000)


def test_who_is_warned_of_after_a_break():
    def inner(x, level):
        jit.graph_break()
        warnings.warn("of whom", UserWarning, level)
        return x + 1

    def program(x):
        y = inner(x, 1)
        jit.graph_break()
        y = inner(y, 2)
        return inner(y, 3)

    check(program, X)


def test_an_exception_after_breaks_in_a_loop():
    def program(x):
        for number in range(10):
            jit.graph_break()
            x = x + 1
            if number == 7:
                raise ValueError(number)
        return x

    check(program, X, traceback="full")
