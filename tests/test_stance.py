"""`jit.set_stance`: what compiled functions do where nothing compiled serves a call."""

import pytest
import torch

import jit


@pytest.fixture(autouse=True)
def restored():
    yield
    jit.set_stance("default")


def compiled():
    calls = []

    @jit.compile(backend="eager", dynamic=False)
    def f(x):
        calls.append(len(x))
        return x * 2

    return f, calls


def graphs():
    return jit.stats()["graphs"]


def test_eager_on_recompile_runs_what_is_compiled_and_else_what_is_written():
    f, calls = compiled()
    with jit.set_stance("eager_on_recompile"):
        before = graphs()
        assert f(torch.ones(2)).tolist() == [2, 2] and graphs() == before
    f(torch.ones(2))
    with jit.set_stance("eager_on_recompile"):
        before, hits = graphs(), jit.stats()["hits"]
        f(torch.ones(2)), f(torch.ones(3))
        assert (graphs(), jit.stats()["hits"]) == (before, hits + 1)
    f(torch.ones(3))
    assert graphs() == before + 1 and calls == [2, 2, 2, 3, 3]


def test_fail_on_recompile_says_what_differs():
    f, calls = compiled()
    with jit.set_stance("fail_on_recompile"), pytest.raises(jit.RecompileError, match="test_stance.py:.*first call"):
        f(torch.ones(2))
    f(torch.ones(2))
    with jit.set_stance("fail_on_recompile"):
        f(torch.ones(2))
        with pytest.raises(jit.RecompileError, match=r"expected x: Tensor float32\[2\].*saw Tensor float32\[3\]"):
            f(torch.ones(3))
    assert f(torch.ones(3)).tolist() == [2, 2, 2] and calls == [2, 2, 3]


def test_force_eager_runs_what_is_written():
    f, calls = compiled()
    f(torch.ones(2))
    hits = jit.stats()["hits"]
    jit.set_stance("force_eager")
    f(torch.ones(2)), f(torch.ones(5))
    assert jit.stats()["hits"] == hits
    jit.set_stance("default")
    f(torch.ones(2))
    assert jit.stats()["hits"] == hits + 1 and calls == [2, 2, 5, 2]


def test_force_eager_within_a_call_is_for_what_follows():
    @jit.compile(backend="eager")
    def f(x, inner):
        y = x + 1
        jit.graph_break()
        return inner(y) * 2

    def switches(y):
        jit.set_stance("force_eager")
        return y

    f(torch.ones(2), lambda y: y)
    assert f(torch.ones(2), switches).tolist() == [4, 4]
    assert f(torch.ones(2), lambda y: y + 1).tolist() == [6, 6]


def test_stances_nest_and_decorate():
    f, calls = compiled()

    @jit.set_stance("fail_on_recompile")
    def strict(x):
        return f(x)

    assert f(torch.ones(4)).tolist() == [2] * 4, "it is in force within the function only"
    strict(torch.ones(4))
    with pytest.raises(jit.RecompileError):
        strict(torch.ones(3))
    with jit.set_stance("fail_on_recompile"):
        with jit.set_stance("default"):
            f(torch.ones(3))
        with pytest.raises(jit.RecompileError):
            f(torch.ones(5))
    f(torch.ones(5))


def test_names_that_are_none():
    with pytest.raises(ValueError, match="no stance 'lazy'; there are default, force_eager"):
        jit.set_stance("lazy")
