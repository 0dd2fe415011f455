"""A graph that raises when it runs: the program is run again as written, unless the graph has changed something.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import fx

import jit
from codegen.residual.failures import changes_the_world
from symbolic.torch_state import enter_inference
from tests.differential import COUNTING, check, tensors, user_lines

X, = tensors(3, 4)
TABLE, = tensors(5, 4)
GOOD, BAD = torch.tensor([0, 1, 4]), torch.tensor([0, 9, 1])


def _embed(i, table):
    y = F.embedding(i, table)
    return y * 2


FAILING = {
    "plain": lambda i, t: _embed(i, t),
    "no_grad": lambda i, t: _no_grad(i, t),
    "positional and star": lambda i, *rest, **kw: F.embedding(i, *rest, **kw) + 1,
    "keyword only": lambda i, t=None, *, k=2: F.embedding(i, t) * k,
    "in place on an intermediate": lambda i, t: F.embedding(i, t.clone().add_(1)),
    "effects before and after": lambda i, t: _noted(i, t),
}
log = []


def _no_grad(i, t):
    with torch.no_grad():
        return F.embedding(i, t)


def _noted(i, t):
    log.append("before")
    y = F.embedding(i, t)
    log.append("after")
    return y


@pytest.mark.parametrize("what", FAILING)
def test_the_error_is_that_of_eager(what):
    check(FAILING[what], GOOD, TABLE, changed=[(BAD, TABLE)], graphs=1, traceback="full")


def test_floats_among_the_inputs():
    """The inputs after one were taken for each other when it was looked up what the graph had changed."""
    graph = fx.Graph()
    scale, x = graph.placeholder("scale"), graph.placeholder("x")
    scale.meta["example_value"], x.meta["example_value"] = 0.5, torch.ones(3, 3)
    graph.output(graph.call_function(F.linear, (x, x)))
    assert not changes_the_world(fx.GraphModule(torch.nn.Module(), graph))


def test_it_is_looked_up_inside_inference_mode():
    """Where that failed in turn, the thread was left under a dispatch mode that was no longer there."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = torch.ones(3)
    graph.call_function(enter_inference, (True,))
    graph.output(graph.call_function(torch.cat, (x,)))
    keys = str(torch._C._dispatch_tls_local_include_set())
    assert changes_the_world(fx.GraphModule(torch.nn.Module(), graph))
    assert str(torch._C._dispatch_tls_local_include_set()) == keys and not torch.is_inference_mode_enabled()


def test_the_error_is_handled_by_the_program():
    def program(i, t):
        try:
            return F.embedding(i, t)
        except IndexError as e:
            return str(e), t + 1
    check(program, GOOD, TABLE, changed=[(BAD, TABLE)])


def test_what_the_frame_tells_its_caller_when_it_runs_again():
    def program(i, t):
        try:
            return F.embedding(i, t) + 1
        except IndexError:
            warnings.warn("out of range", stacklevel=2)
            return t

    check(program, GOOD, TABLE, changed=[(BAD, TABLE)], graphs=1)


def test_closures_of_the_failing_call():
    def make(k):
        def program(i, t):
            return F.embedding(i, t) * k, seen.append(k)
        return program
    seen = []
    check(lambda i, t: [f(i, t) for f in (make(2), make(3))], GOOD, TABLE, changed=[(BAD, TABLE)])


def test_after_a_break():
    def program(i, t):
        y = t + 1
        jit.graph_break()
        return F.embedding(i, y) * 2
    check(program, GOOD, TABLE, changed=[(BAD, TABLE)], traceback="full")


def test_a_module():
    check(torch.nn.Embedding(5, 4), GOOD, changed=[(BAD,)])


CHANGES = {
    "input": lambda t: t.add_(1),
    "view of an input": lambda t: t[0].mul_(2),
    "random numbers": lambda t: torch.rand(5),
    "batch norm": lambda t: NORM(t),
}
NORM = torch.nn.BatchNorm1d(4)


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_made_once(what):
    """The graph has done it already: the error passes as it is."""
    change = CHANGES[what]

    def program(i, t):
        change(t)
        return F.embedding(i, t) * 2
    seen = []
    for f in (program, jit.compile(program, backend="eager")):
        NORM.reset_running_stats()
        for i in (GOOD, BAD):
            torch.manual_seed(1)
            t = TABLE.clone()
            try:
                f(i, t)
            except IndexError as e:
                seen.append(str(e))
            seen.append((t.tolist(), torch.get_rng_state().tolist(), NORM.running_mean.tolist(), NORM.num_batches_tracked.item()))
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


def _scaled(x, y, alpha):
    z = x * 2
    return y.add_(
        z, alpha=alpha)


def _drawn(x, i):
    y = torch.dropout(x, 0.5, True)
    return F.embedding(i, TABLE) * 2 + y.sum()


def _divided(x, i):
    x.add_(1)
    y = x.long() // i.sum()
    return y * 2


def _of_a_kernel(x, i):
    y = torch.rand(3) + x[0, :3]
    return torch.div(i, i.sum(), rounding_mode="trunc") + y.sum().long()


LASTING = {
    "a factor": (lambda x, i: _scaled(x, x, torch.tensor(True)), BAD),
    "after random numbers": (_drawn, BAD),
    "an operation of ATen": (_divided, BAD * 0),
    "an operation of a kernel": (_of_a_kernel, BAD * 0),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("what", LASTING)
def test_what_passes_has_the_lines_of_the_program(what, backend):
    program, bad = LASTING[what]
    seen = []
    for f in (program, jit.compile(program, backend=backend)):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            f(X.clone(), bad)
        seen.append((type(caught.value), str(caught.value), user_lines(caught.value)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_a_graph_that_has_changed_nothing_yet(backend):
    def program(i, t):
        y = t.neg().gather(0, i[:, None]) * 2
        t.add_(1)
        return y
    check(program, GOOD, TABLE, changed=[(BAD, TABLE)], backend=backend, traceback="full")


@pytest.mark.skipif(not COUNTING, reason="the number of warnings is that of the frames")
def test_a_fault_of_the_backend_is_told_once():
    def backend(gm, inputs):
        def run(*args):
            raise ZeroDivisionError("kernel")
        return run
    f = jit.compile(lambda x: x * 2, backend=backend)
    with pytest.raises(ZeroDivisionError):
        f(X)
    jit.config.on_error = "fallback"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(f(X), X * 2) and torch.equal(f(X), X * 2)
    assert ["test_graph_failures" in str(w.message) and "kernel" in str(w.message) for w in caught] == [True]


def test_an_interrupt_is_no_failure():
    def backend(gm, inputs):
        def run(*args):
            raise KeyboardInterrupt
        return run
    log = []

    def program(x):
        log.append(1)
        return x * 2
    with pytest.raises(KeyboardInterrupt):
        jit.compile(program, backend=backend)(X)
    assert log == [] or not COUNTING


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_an_error_after_a_backward_pass_is_its_own(backend):
    """The operators were asked without gradients, where the pass itself fails."""
    def program(i, t, w, total):
        y = (w * 2).sum()
        w.register_hook(lambda gradient: seen.append(gradient))
        y.backward()
        total.add_(1)
        return F.embedding(i, t) * 2

    seen = []
    compiled = jit.compile(program, backend=backend)
    for i in (GOOD, BAD):
        w = torch.ones(3, requires_grad=True)
        try:
            compiled(i, TABLE, w, torch.zeros(2))
            assert i is GOOD and len(seen) == 1
        except IndexError as error:
            assert str(error) == "index out of range in self"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_item_that_nobody_reads_raises_where_it_is_out_of_range(backend):
    def program(i, table, seen):
        try:
            table[i]
        except IndexError:
            seen.append(1)
        return table + 1

    check(program, BAD, TABLE, [], changed=(GOOD, TABLE, []), backend=backend, nodes=False)
    check(program, GOOD, TABLE, [], changed=(BAD, TABLE, []), backend=backend, nodes=False)


TOLD = []


class Telling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        TOLD.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_class_of_tensors_is_not_told_of_what_is_only_tried():
    """The graph failed (numpy warns of a division) and is asked whether the program itself meets the error."""

    def program(x, y):
        found = (x * 3.0 + y).as_subclass(torch.Tensor).argmax(1)
        return (np.ones(4) / np.arange(4.0))[1:].sum(), found

    given, told = X.clone().as_subclass(Telling), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in (program, jit.compile(program, backend="eager")):
            for _ in range(2):
                TOLD.clear()
                function(given, X)
                told.append(list(TOLD))
    assert told == [["mul", "add"]] * 4
