"""Functions that have nothing to do with tensors, and are captured again and again all the same."""
import pytest
import torch

import jit
from jit import compiler
from tests.differential import COUNTING, Counting, tensors

X, = tensors(3)
#: Enough for each piece of a function to be compiled up to the limit.
NAMES = [f"name {number}" for number in range(40)]

pytestmark = pytest.mark.skipif(not COUNTING, reason="where the graph breaks everywhere nothing is counted")


def spelled(name, x=None):
    first = name.upper()
    jit.graph_break()
    second = name.title()
    jit.graph_break()
    third = name + "!"
    jit.graph_break()
    return first, second, third, name if x is None else x + len(name)


def compilations(call):
    before = compiler.stats.captures - compiler.stats.restarts
    call()
    return compiler.stats.captures - compiler.stats.restarts - before


def test_a_function_without_tensors_is_compiled_as_often_as_one_code_object(caplog):
    counting = Counting()
    compiled = jit.compile(spelled, backend=counting, options={"logs": "recompiles"})
    made = compilations(lambda: [compiled(name) for name in NAMES])
    assert made <= 4 + jit.config.recompile_limit, made
    assert "met no tensor: it runs eagerly where it is handed none" in caplog.text
    assert [compiled(name) for name in NAMES] == [spelled(name) for name in NAMES]
    assert compilations(lambda: compiled("another")) == 0
    counting.expect(0)
    assert torch.equal(compiled("with a tensor", X)[-1], X + 13)
    counting.expect(1, "it was handed a tensor")
    assert compilations(lambda: compiled("another")) > 0  # from then on as any other
    jit.reset()


def test_a_tensor_in_a_list_or_a_closure_speaks_for_tensors():
    counting = Counting()

    def closing(x):
        def inner(name, given):
            upper = name.upper()
            jit.graph_break()
            return x + len(upper) if given == "x" else given[0] * len(upper) if given else name
        return inner

    plain, holding = jit.compile(closing(None), backend=counting), jit.compile(closing(X), backend=counting)
    limit = jit.config.recompile_limit
    assert compilations(lambda: [plain(name, []) for name in NAMES]) <= 2 + limit
    assert compilations(lambda: [holding(name, []) for name in NAMES]) == 2 * limit
    counting.expect(0)
    assert torch.equal(plain("ab", [X]), X * 2)
    counting.expect(1)


class Holder:
    def __init__(self, x):
        self.x = x


def held(holder, name):
    first = name.upper()
    jit.graph_break()
    second = name.title()
    jit.graph_break()
    return holder.x + len(first) + len(second)


def test_a_function_that_meets_a_tensor_late_loses_no_graph():
    counting = Counting()
    compiled = jit.compile(held, backend=counting)
    for name in NAMES[:12]:  # 24 captures meet no tensor
        assert torch.equal(compiled(Holder(X), name), held(Holder(X), name))
    counting.expect(12)


def test_what_goes_on_from_break_to_break_comes_to_its_tensors():
    lines = ["def program(holder):", *["    print(end='')"] * 30, "    return holder.x + 1"]
    namespace = {}
    exec("\n".join(lines), namespace)
    counting = Counting()
    compiled = jit.compile(namespace["program"], backend=counting, options={"recompile_limit": 2})
    assert torch.equal(compiled(Holder(X)), X + 1)
    counting.expect(1)
