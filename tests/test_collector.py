"""Python's garbage collector rests while something is compiled, and only then."""
import contextlib
import gc
import warnings
import weakref

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


@pytest.fixture
def collects_rarely():
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_nobody_has_to_search_for_what_a_capture_was_told(backend, breaks):
    """Reference counts free it: a search takes several times as long for as much."""

    def scaled(boxes, x):
        y = x * boxes[0].scale + boxes[1].scale
        return y.sum() * (2 if not breaks or y.sum() > 0 else 3)

    class Box:
        def __init__(self):
            self.scale = torch.ones(3)

    was_on = gc.isenabled()
    gc.disable()
    try:
        boxes, deaths = [Box(), Box()], []
        weakref.finalize(boxes[0], deaths.append, "gone")
        f = jit.compile(scaled, backend=backend)
        f(boxes, torch.ones(3, requires_grad=True))
        boxes.clear()
        assert deaths == ["gone"]
    finally:
        (gc.enable if was_on else gc.disable)()


def test_what_the_program_lets_go_of_dies_in_the_first_call_too(collects_rarely):
    def clear(held, counts):
        counts.append(len(held))
        for tensor in held:
            counts.append(tensor.dim())
        held.clear()

    f, deaths = jit.compile(clear, backend="eager"), []
    for _ in range(2):
        held = [torch.ones(3)]
        weakref.finalize(held[0], deaths.append, "gone")
        f(held, [])
        assert deaths.pop() == "gone"


def test_what_a_call_that_broke_the_graph_raised_is_freed_by_counts(collects_rarely):
    """The frames in its traceback came from compiled code, whose locals held the error and all that was there."""

    @jit.disable
    def raising(held):
        raise KeyError(len(held))

    def program(held):
        try:
            raising(held)
        except KeyError:
            return torch.ones(2) + 1

    f, deaths = jit.compile(program, backend="eager"), []
    for _ in range(2):
        held = [torch.ones(3)]
        weakref.finalize(held[0], deaths.append, "gone")
        f(held)
        assert deaths == []
        held = None
        assert deaths.pop() == "gone"


def warned(held):
    kept = weakref.ref(held[0])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        warnings.warn("careful", stacklevel=2)  # the block is why it breaks the graph
    return kept


def raised(held):
    kept = weakref.ref(held[0])
    try:
        raise KeyError(len(held))
    except KeyError as error:
        error.__traceback__  # noqa: B018
        jit.graph_break()
        return kept


@pytest.mark.parametrize("program", [warned, raised])
def test_what_a_frame_was_handed_goes_with_it_in_the_first_call(program):
    gc.disable()
    try:
        kept = jit.compile(program, backend="eager")([torch.ones(3)])
        assert kept() is None
    finally:
        gc.enable()


def raises(held, x):
    raise KeyError(len(held))


def raises_after_a_break(held, x):
    jit.graph_break()
    raise KeyError(len(held))


def fails_a_check(held, x):
    if x.sum() > 100:
        return x + 1
    raise KeyError(len(held))


def fits_nowhere(held, x):
    return x @ torch.ones(7, len(held))


@pytest.mark.parametrize("program", [raises, raises_after_a_break, fails_a_check, fits_nowhere])
def test_what_a_call_was_handed_that_raised_is_freed_by_counts(program):
    f = jit.compile(program, backend="eager")
    gc.disable()
    try:
        for _ in range(3):
            held = [torch.ones(3)]
            kept = weakref.ref(held[0])
            with contextlib.suppress(KeyError, RuntimeError):
                f(held, torch.ones(2))
            held = None
            assert kept() is None
    finally:
        gc.enable()
