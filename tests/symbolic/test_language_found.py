"""What CPython's own tests found (`tools/coverage`), each as a small program."""

import re
import traceback

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
