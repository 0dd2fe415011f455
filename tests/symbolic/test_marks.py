"""What users say of sizes: `jit.mark_dynamic` and its like, `jit.compile(dynamic={...})`, and what they are told."""
import copy

import pytest
import torch
from torch import nn

import jit
from tests.differential import COUNTING, Counting
from tests.symbolic.test_dynamic_sizes import X


def counted(program, *calls, mark=None, **settings):
    """How many graphs there are after each call, all the same as eager's."""
    counter = Counting()
    compiled = jit.compile(program, backend=counter, **settings)
    found = []
    for call in calls:
        expected = program(*copy.deepcopy(call))
        if mark is not None:
            mark(*call)
        torch.testing.assert_close(compiled(*call), expected)
        found.append(len(counter.graphs))
    return found if COUNTING else None


def double(x):
    return x * 2 + x.shape[0]


def expect(found, *numbers):
    assert found is None or found == list(numbers)


def test_a_marked_dimension_varies_from_the_first_call():
    expect(counted(double, (X(3, 4),), (X(5, 4),), (X(9, 4),), mark=lambda x: jit.mark_dynamic(x, 0)), 1, 1, 1)
    expect(counted(double, (X(3, 4),), (X(5, 7),), (X(9, 8),), mark=lambda x: jit.mark_dynamic(x, (0, -1))), 1, 1, 1)
    expect(counted(double, (X(3, 4),), (X(3, 5),), (X(9, 6),), mark=lambda x: jit.mark_dynamic(x, 0)), 1, 2, 2)


def test_a_range_holds_where_it_holds():
    def program(x):
        return x * 2 if x.shape[0] < 100 else x - 1

    def mark(x):
        jit.mark_dynamic(x, 0, min=4, max=50)

    calls = [(X(n, 3),) for n in (5, 4, 50, 7)]
    expect(counted(program, *calls, mark=mark), 1, 1, 1, 1)
    expect(counted(program, (X(5, 3),), (X(3, 3),), (X(60, 3),), mark=mark, dynamic=False), 1, 2, 3)
    found = jit.explain(program)
    x = X(5, 3)
    mark(x)
    assert not any("100" in str(guard) for guard in found(x).guards)  # the range says it


def test_static_dimensions_never_vary():
    calls = [(X(n, 3),) for n in (3, 4, 5, 6)]
    expect(counted(double, *calls, mark=lambda x: jit.mark_static(x)), 1, 2, 3, 4)
    expect(counted(double, *calls, mark=lambda x: jit.mark_static(x, 0), dynamic=True), 1, 2, 3, 4)


def test_depending_on_a_marked_size_is_an_error():
    def program(x):
        return x * [1, 2, 3, 4, 5, 6][x.shape[0]]

    x = X(3, 4)
    jit.mark_dynamic(x, 0)
    with pytest.raises(jit.MarkedSize, match=r"x\.size\(\)\[0\] is 3.*test_marks\.py:\d+: return x \* \[1"):
        jit.compile(program)(x)
    expect(counted(program, (X(3, 4),), (X(4, 4),), (X(3, 5),), mark=lambda x: jit.maybe_mark_dynamic(x, (0, 1))), 1, 2, 2)


def _between(x):
    if x.shape[0] > 5:
        return x.cos()
    if x.shape[0] < 5:
        return x * 2
    return x.sin()


def _square(x):
    a, b = x.shape
    if a > b:
        return x + 1
    if a < b:
        return x - 1
    return x + 2 if a + b != 10 else x + 3


def _rest(x):
    a, b = x.shape
    return x + 1 if a * 2 - b != 5 or b >= 6 or 5 > b else x - 1


def _multiple(x):
    if x.shape[0] % 5 == 0 and x.shape[0] < 9:
        return x + 1
    return x - 1


def _remainders(x):
    n = x.shape[0]
    return x + 1 if n % 4 != 1 or n > 12 or n < 3 or n % 3 != 2 else x - 1


@pytest.mark.parametrize("program, line, reason", [
    (_between, 3, r"x.size\(\)\[0\] <= 5 and x.size\(\)\[0\] >= 5"),
    (_square, 6, r"\[0\] <= x.size\(\)\[1\] and x.size\(\)\[0\] >= x.size\(\)\[1\] and x.size\(\)\[0\] \+ x.size\(\)\[1\] == 10"),
    (_rest, 2, r"x.size\(\)\[0\] - 5 < 6 and 2 \* x.size\(\)\[0\] - 5 >= 5"),
    (_multiple, 1, r"x.size\(\)\[0\] % 5 == 0 and x.size\(\)\[0\] < 9"),
    (_remainders, 2, r"% 4 == 1 and x.size\(\)\[0\] <= 12 and x.size\(\)\[0\] % 3 == 2"),
], ids=["pytorch 122307", "pytorch 191833", "another", "remainder", "remainders"])  # fmt: skip
def test_a_marked_size_that_several_questions_leave_no_choice(program, line, reason):
    x = X(5, 5)
    jit.mark_dynamic(x, (0, 1) if program is not _between else 0)
    place = f"test_marks.py:{program.__code__.co_firstlineno + line}"
    with pytest.raises(jit.MarkedSize, match=rf"x.size\(\)\[0\] is 5: .*{reason}.*{place}"):
        jit.compile(program)(x)


def test_a_remainder_leaves_no_choice_in_the_range_that_was_said():
    """Compiled for that size alone, before, and quietly."""

    def program(x):
        return x * 2 if x.shape[0] % 5 == 0 else x + 1

    x = X(5, 3)
    jit.mark_dynamic(x, 0, min=4, max=9)
    with pytest.raises(jit.MarkedSize, match=r"x.size\(\)\[0\] is 5: x.size\(\)\[0\] % 5 == 0, needed at"):
        jit.compile(program)(x)
    expect(counted(program, (X(5, 3),), (X(10, 3),), (X(15, 3),), mark=lambda x: jit.mark_dynamic(x, 0, min=4)), 1, 1, 1)
    expect(counted(program, (X(5, 3),), (X(10, 3),), (X(6, 3),), mark=lambda x: jit.maybe_mark_dynamic(x, 0)), 1, 1, 2)


def test_a_marked_size_that_has_a_choice_left():
    def program(x):
        a, b = x.shape
        if a > b or a < b or a % 5 != 0 or a >= 20:
            return x + 1
        return x + 3

    expect(counted(program, (X(5, 5),), (X(15, 15),), (X(6, 6),), mark=lambda x: jit.mark_dynamic(x, (0, 1))), 1, 1, 2)


@pytest.mark.parametrize("wrong", [lambda x: jit.mark_dynamic(x, 2), lambda x: jit.mark_static(x, -3), lambda x: jit.maybe_mark_dynamic(x, [0, 5])])
def test_marks_of_dimensions_that_do_not_exist(wrong):
    with pytest.raises(IndexError, match="of a tensor that has 2"):
        wrong(X(3, 4))


def test_empty_range():
    with pytest.raises(ValueError, match="at least 9 and at most 3"):
        jit.mark_dynamic(X(4), 0, min=9, max=3)


def test_hints_by_parameter():
    def program(x, y, n):
        return x.sum(0) + y.sum(0) * n

    calls = [(X(3, 4), X(5, 4), 3), (X(4, 4), X(6, 4), 7), (X(9, 4), X(2, 4), 4)]
    expect(counted(program, *calls, dynamic={"x": {0: "batch"}, "y": [0], "n": True}), 1, 1, 1)
    expect(counted(program, *calls, dynamic={"x": {0: (2, 64)}, "y": True, "n": True}), 1, 1, 1)
    expect(counted(program, *calls, dynamic={"x": {0: False}, "n": True}), 1, 2, 3)


def test_sizes_of_one_name_are_one():
    def program(x, y):
        return x + 1, y + 1

    calls = [(X(3, 4), X(3, 5)), (X(6, 4), X(6, 5)), (X(6, 4), X(7, 5)), (X(8, 4), X(8, 5))]
    expect(counted(program, *calls, dynamic={"x": {0: "batch"}, "y": {0: "batch"}}), 1, 1, 2, 2)
    found = jit.explain(program, dynamic={"x": {0: "batch"}, "y": {0: "batch"}})(*calls[0])
    assert any("x.size()[0] == y.size()[0]" in str(guard) or "y.size()[0] == x.size()[0]" in str(guard) for guard in found.guards)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, scale=None):
        y = self.linear(x)
        return y if scale is None else y * scale


@pytest.mark.parametrize("by_name", [False, True])
def test_hints_of_a_module(by_name):
    counter, layer = Counting(), Layer()
    compiled = jit.compile(layer, backend=counter, dynamic={"x": {0: "batch"}, "scale": {0: "batch"}})
    for model in (compiled, copy.deepcopy(compiled)):
        for n in (3, 5, 8):
            given = {"x": X(n, 4), "scale": X(n, 1)}
            got = model(**given) if by_name else model(*given.values())
            assert torch.equal(got, layer(**given))
    counter.expect(2, "one of the copy")


@pytest.mark.parametrize("dynamic, error, text", [
    ({"z": {0: "n"}}, ValueError, "no parameter 'z'; there are x"),
    ({"x": "batch"}, TypeError, "'x' is 'batch'"),
    ({"x": {0: 3.5}}, TypeError, "'x' has 3.5"),
    ({"x": {"batch": 0}}, TypeError, "'x' is {'batch': 0}"),
])  # fmt: skip
def test_wrong_hints(dynamic, error, text):
    with pytest.raises(error, match=text.replace("{", "\\{")):
        jit.compile(double, dynamic=dynamic)


# --- what the user is told --------------------------------------------------------------------------------------------
def test_specializations_say_who_did_it():
    def program(x, y):
        picked = [1, 2, 3, 4, 5][x.shape[0]]
        return x * picked + y.shape[1]

    found = jit.explain(program, dynamic=True)(X(3, 4), X(2, 6)).specializations
    assert [(each.symbol, each.value) for each in found] == [("x.size()[0]", 3)]
    file, line = found[0].place
    assert file == __file__ and line == program.__code__.co_firstlineno + 1
    assert "picked = [1, 2" in str(found[0]) and "x.size()[0] == 3" in found[0].reason


@pytest.mark.parametrize("pick", ["x", "y"])
def test_who_did_it_is_not_who_asked_first(pick):
    def program(x, y):
        if x.shape[0] < 100:
            x = x + 1
        x = x + y
        return x * [1, 2, 3, 4][y.shape[0] if pick == "y" else x.shape[0]]

    found = jit.explain(program, dynamic=True)(X(3, 4), X(3, 4)).specializations
    first = program.__code__.co_firstlineno
    assert {each.symbol: each.place[1] - first for each in found} == {"x.size()[0]": 4, "y.size()[0]": 4}
    assert [each.reason for each in found if each.symbol == "y.size()[0]"] == ["x.size()[0] == y.size()[0] and x.size()[0] == 3"]


def test_the_log_says_who_did_it(monkeypatch, caplog):
    monkeypatch.setattr(jit.config, "logs", "dynamic")

    def program(x):
        return {x.shape[0]: x}

    jit.compile(program, dynamic=True)(X(3, 4))
    assert "program: x.size()[0] is 3" in caplog.text


def limit(caplog, program, *calls, **settings):
    caplog.clear()
    compiled = jit.compile(program, options={"recompile_limit": 3}, **settings)
    for call in calls:
        compiled(*call)
    (told,) = [text for text in caplog.messages if "runs eagerly" in text]
    return told


def test_the_limit_suggests_what_would_help(caplog):
    calls = [(X(n, 3),) for n in (3, 4, 5, 6)]
    assert "jit.mark_dynamic(x, 0) compiles for all sizes" in limit(caplog, double, *calls, dynamic=False)

    def depends(x):
        return x * [1, 2, 3, 4, 5, 6, 7][x.shape[0]]

    told = limit(caplog, depends, *calls)
    assert "x.size()[0] is" in told and "return x * [1, 2" in told


def test_the_limit_blames_what_changes(caplog):
    """And nothing else that the program depends on."""
    def program(x, y):
        x = x * [1, 2, 3, 4, 5, 6, 7][x.shape[1]]
        return x * [1, 2, 3, 4, 5, 6, 7][y.shape[0]]

    calls = [(X(4, m), X(n, 1)) for m, n in ((2, 3), (3, 4), (3, 5), (3, 6), (3, 2))]
    told = limit(caplog, program, *calls).split("; ")[-1]
    assert told.startswith("y.size()[0] is") and "y.shape[0]]" in told and "x.shape" not in told


WIDTH = 3


def test_messages_name_globals_as_ever():
    found = [str(guard) for guard in jit.explain(lambda x: x * WIDTH)(X(2)).guards]
    assert any(each.startswith("tests.symbolic.test_marks.__dict__['WIDTH'] == 3") for each in found)


def test_messages_name_what_the_program_names(caplog):
    """Where a call was broken within a function that it calls, and the rest is handed to one that goes on."""
    def inner(x, rate, part):
        y = x * 2
        jit.graph_break()
        return y * len(part) + len(rate)

    def program(x, table):
        return inner(x, table["rate"], table["part"]) + 1

    told = limit(caplog, program, *((X(2), {"rate": "a" * n, "part": "b"}) for n in range(5)))
    assert "table['rate'] ==" in told and "nested." not in told and "each table['rate'] is compiled for itself" in told
    guards = [str(guard) for guard in jit.explain(program)(X(2), {"rate": "a", "part": "b"}).guards]
    assert any("rate == 'a'" in each for each in guards) and not any("nested." in each for each in guards)
