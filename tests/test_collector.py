"""Python's garbage collector rests while something is compiled, and only then."""
import gc

import pytest
import torch

import jit


@pytest.fixture(params=[True, False], ids=["on", "off"])
def is_on(request):
    """The collector as the user has it."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_it_rests_while_compiling(is_on):
    seen = []

    def backend(graph, example_inputs):
        seen.append(gc.isenabled())
        return graph.forward

    f = jit.compile(lambda x: x + 1, backend=backend)
    f(torch.ones(3))
    f(torch.ones(3))
    assert seen == [False] and gc.isenabled() == is_on


def test_it_goes_on_after_an_error(is_on):
    def backend(graph, example_inputs):
        raise ValueError("no")

    with pytest.raises(jit.BackendCompilerFailed):
        jit.compile(lambda x: x + 1, backend=backend, options={"on_error": "raise"})(torch.ones(3))
    assert gc.isenabled() == is_on


def test_one_compilation_inside_another(is_on):
    def backend(graph, example_inputs):
        jit.compile(lambda x: x * 2, backend="eager")(torch.ones(2))
        assert not gc.isenabled()
        return graph.forward

    jit.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    assert gc.isenabled() == is_on
