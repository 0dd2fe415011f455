"""What a compiled function says of itself: `debug_state()`, `jit.stats()`."""

import concurrent.futures

import pytest
import torch

import jit
from codegen.plan.steps import Plan
from tests.differential import tensors

X, = tensors(3, 4)


def net():
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh())


def difference(call):
    before = jit.stats()
    call()
    return {name: count - before[name] for name, count in jit.stats().items() if count != before[name]}


def test_counters():
    f = jit.compile(lambda x, w: (x * w).sin(), backend="default")
    w = torch.ones(4, requires_grad=True)
    assert difference(lambda: f(X, w).sum().backward()) == {
        "captures": 1, "graphs": 1, "misses": 1, "plans": 2, "invocations": 2}
    assert difference(lambda: f(X, w).sum().backward()) == {"hits": 1, "invocations": 2}
    assert difference(lambda: f(X, w.detach())) == {"captures": 1, "graphs": 1, "misses": 1, "plans": 1, "invocations": 1}
    assert difference(lambda: [f(X, w), f(X, w.detach()), f(X, w)]) == {"hits": 3, "invocations": 3}


def test_what_no_plan_can_run_is_counted():
    f = jit.compile(lambda x, w: (x * w).sin(), backend="default")
    w = torch.ones(4, requires_grad=True)
    y = f(X, w)
    batched = torch.stack([torch.ones(3, 4), torch.zeros(3, 4)])
    assert difference(lambda: torch.autograd.grad(y, w, batched, is_grads_batched=True)) == {"invocations": 1, "fallbacks": 1}




def test_graph_plan_and_fallback():
    f = jit.compile(lambda x, w: (x * w).sin(), backend="default")
    w = torch.ones(4, requires_grad=True)
    for _ in range(3):
        f(X, w).sum().backward()
    state = f.debug_state()
    (frame,) = state.frames
    (entry,) = frame.entries
    assert frame.misses == 1 and entry.hits == 3 and not frame.is_frozen  # the first call is one, too
    assert any("float32[3, 4]" in str(guard) for guard in entry.guards)
    assert "sin" in entry.graph.code
    forward, backward = entry.graphs
    assert (forward.name, backward.name) == ("forward", "backward")
    assert isinstance(forward.plan, Plan) and not forward.plan.takes_list and backward.plan.takes_list
    assert state.plans == (forward.plan, backward.plan)
    assert "aten.sin" in forward.fallback.code and "aten.cos" in backward.fallback.code
    torch.testing.assert_close(forward.fallback(X, w)[0], (X * w).sin())
    text = str(state)
    for wanted in ("test_state.py", "1 misses", "3 hits", "float32[3, 4]", "l_x_ * l_w_", "forward, as a plan:", str(forward.plan.steps[-1]),
                   "backward, as a plan:", "its fallback:", "torch.ops.aten.cos.default"):
        assert wanted in text, wanted


def test_without_a_plan():
    f = jit.compile(lambda x: x.sin(), backend="aot_eager")
    f(X)
    (graph,) = f.debug_state().frames[0].entries[0].graphs
    assert graph.plan is None and graph.name == "inference" and "run by ATen" in str(graph)
    eager = jit.compile(lambda x: x.sin(), backend="eager")
    eager(X)
    assert eager.debug_state().frames[0].entries[0].graphs == ()


def test_one_entry_for_each_kind_of_input_the_last_hit_first():
    f = jit.compile(lambda x: x.sin(), backend="default")
    shapes = [(3,), (4, 2), (5,)]
    for shape in (*shapes, shapes[1]):
        f(torch.ones(shape))
    (frame,) = f.debug_state().frames
    assert frame.misses == 3 and [entry.hits for entry in frame.entries] == [2, 1, 1]
    assert [tuple(entry.graph.meta["stages"].forward.graph.find_nodes(op="placeholder")[0].meta["val"].shape)
            for entry in frame.entries] == [(4, 2), (5,), (3,)]


def test_what_is_left_of_a_frame_after_a_break_is_a_frame():
    def program(x):
        y = x.sin()
        jit.graph_break()
        return y.cos()
    f = jit.compile(program, backend="eager")
    f(X)
    frames = f.debug_state().frames
    assert len(frames) == 2 and "sin" in frames[0].entries[0].graph.code and "cos" in frames[1].entries[0].graph.code


@pytest.mark.parametrize("make", [
    lambda: jit.compile(net(), backend="default"),
    lambda: jit.compile(net().forward, backend="default"),
], ids=["module", "method"])
def test_of_modules_and_methods(make):
    f = make()
    assert str(f.debug_state()) == ""  # nothing yet
    f(X)
    assert len(f.debug_state().plans) == 2
    assert "addmm" in str(f.debug_state())


def test_of_a_function_that_is_never_called_and_after_reset():
    f = jit.compile(lambda x: x.sin(), backend="eager")
    assert f.debug_state().frames == () and "debug_state" in dir(f)
    f(X)
    jit.reset()
    assert f.debug_state().frames[0].entries == ()


def test_what_torch_leaves_of_a_device_for_which_nothing_is_done():
    """As after `return_and_correct_aliasing` of an operator in place that changes sizes."""
    def run():
        torch._C._set_meta_in_tls_dispatch_include(True)
        torch._C._set_meta_in_tls_dispatch_include(False)
        compiled = jit.compile(lambda x: torch.tanh(x @ x.T) + 1, fullgraph=True)
        done = difference(lambda: [compiled(X) for _ in range(3)])
        return done["graphs"], "fallbacks" in done

    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # the state is a thread's
        assert thread.submit(run).result() == (1, False)
