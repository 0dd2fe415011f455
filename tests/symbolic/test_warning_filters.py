"""Filters of warnings that a frame sets: `catch_warnings` and what is warned of in it, in one graph."""
import re
import warnings

import pytest
import torch

import jit
from tests.differential import check

X = torch.ones(3)


def told(x, category=UserWarning, text="of this"):
    warnings.warn(text, category)
    return x * 2


def test_ignored():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = told(x)
        return y + 1

    check(program, X, graphs=1)


def test_ignored_by_a_keyword_of_the_manager():
    def program(x):
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            y = told(x, RuntimeWarning)
        return y + 1

    check(program, X, graphs=1)


@pytest.mark.parametrize("pattern", ["of", ".*this", "other", "OF"])
def test_ignored_by_its_text(pattern):
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=pattern, category=UserWarning)
            try:
                y = told(x)
            except UserWarning as error:
                return x + 3, error.args
        return y + 1

    check(program, X, graphs=1)


@pytest.mark.parametrize("pattern", [__name__, "elsewhere"])
def test_ignored_by_its_module(pattern):
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module=re.escape(pattern))
            try:
                return told(x), "ignored"
            except UserWarning as error:
                return x + 3, error.args

    check(program, X, graphs=1)


@pytest.mark.parametrize("category", [UserWarning, DeprecationWarning, RuntimeWarning])
def test_as_an_error(category):
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error", category)
            warnings.simplefilter("ignore", DeprecationWarning, append=True)
            try:
                told(x, category)
            except Warning as error:
                x = x + len(str(error))
                return x, type(error), error.args, error.__traceback__.tb_next.tb_lineno

    check(program, X, graphs=1)


def test_as_an_error_that_leaves_the_frame():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return told(x)

    check(program, X)
    assert ("error", None, Warning, None, 0) not in warnings.filters


def test_an_instance_as_an_error():
    class Own(UserWarning):
        pass

    def program(x):
        made = Own("a", 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                warnings.warn(made)
            except Own as error:
                return x + 1, error is made, error.args

    check(program, X, graphs=1)


def test_recorded():
    def program(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            x = told(x)
            x = told(x, RuntimeWarning, "again")
            told(x)
        return x + len(found), [(str(each.message), each.category, each.lineno, each.filename) for each in found]

    check(program, X, graphs=1)


def test_recorded_at_another_level():
    def warned():
        warnings.warn("of the caller", stacklevel=2)

    def program(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warned()
        return x + 1, found[0].lineno, isinstance(found[0].message, UserWarning), found[0].source

    check(program, X, graphs=1)


def test_shown_by_a_function_of_the_frame():
    def program(x):
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, category, *rest: found.append((str(message), category))
            told(x)
        return x, found

    check(program, X)


def test_shown_where_the_frame_has_set_no_filter_for_it():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            x = told(x)
        return told(x, RuntimeWarning)

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        check(program, X)


def test_filters_that_stay():
    def program(x):
        warnings.filterwarnings("ignore", message="of this")
        return told(x), warnings.filters[0][0]

    check(program, X, graphs=1)


def test_filters_are_other_ones_later():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                return told(x)
            except UserWarning:
                return x - 1

    compiled = jit.compile(program, backend="eager")
    for action, wanted in (("ignore", 2.0), ("error", 0.0), ("ignore", 2.0)):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert compiled(X).tolist() == [wanted] * 3 == program(X).tolist()


def test_a_break_inside():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jit.graph_break()
            try:
                told(x)
            except UserWarning:
                x = x + 5
        return x, ("error", None, Warning, None, 0) in warnings.filters

    check(program, X)


def test_what_an_operation_warns_of():
    def program(x, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            z = torch.nn.functional.mse_loss(x, y)  # of sizes that are not the same
        return z * 2

    check(program, torch.ones(3, 1), torch.ones(3), graphs=1)


def test_what_an_operation_warns_of_as_an_error():
    def program(x, y):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return torch.nn.functional.mse_loss(x, y)
            except UserWarning as error:
                return x * 3, str(error)[:40]

    check(program, torch.ones(3, 1), torch.ones(3))


def test_modules_forget_what_they_have_shown():
    namespace = {"warnings": warnings}
    exec("def once():\n    warnings.warn('of this')\n", namespace)
    once = namespace["once"]

    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            once()
        return x + 1

    found = []
    for function in (program, jit.compile(program, backend="eager", fullgraph=True)):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            for _ in range(2):
                once()
            function(X)
            once()
        found.append((len(shown), sorted(map(str, namespace["__warningregistry__"]))[:1]))
        del namespace["__warningregistry__"]
    assert found[0] == found[1]
