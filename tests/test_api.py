"""The door: every way to write jit.compile, and the functions beside it."""
import copy
import functools
import inspect
import io
import pickle
import sys
import time
import types

import pytest
import torch
from torch import nn

import jit
from tests.differential import COUNTING, Counting, execute, tensors

X, Y = tensors(3, 4, count=2)


def plain(x, k: int = 2, *, shift=0.0):
    """Doubles."""
    return x * k + shift


@jit.compile(backend="eager")
def decorated(x, k=3):
    """Triples."""
    return x * k


class Net(nn.Module):
    """A module."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.k = 3

    def forward(self, x, scale=1):
        return self.linear(x) * scale

    def extra(self, x):
        return self.linear(x) + self.k


class Model:
    k = 2

    def __init__(self):
        self.offset = 1

    @jit.compile(backend="eager")
    def method(self, x):
        """Scaled."""
        return x * self.k + self.offset

    @classmethod
    @jit.compile(backend="eager")
    def of_class(cls, x):
        return x * cls.k

    @staticmethod
    @jit.compile(backend="eager")
    def static(x):
        return x - 1

    @property
    @jit.compile(backend="eager")
    def prop(self):
        return X * self.k


# --- how it is written -------------------------------------------------------------------------------------------

def test_as_a_function():
    assert torch.equal(jit.compile(plain, backend="eager")(X), plain(X))


def test_as_a_bare_decorator():
    @jit.compile
    def f(x):
        return x + 1
    assert torch.equal(f(X), X + 1)


def test_as_a_decorator_with_options():
    @jit.compile(fullgraph=COUNTING, backend="eager", dynamic=False)
    def f(x):
        return x + 1
    assert torch.equal(f(X), X + 1)


def test_as_a_decorator_with_nothing():
    @jit.compile()
    def f(x):
        return x + 1
    assert torch.equal(f(X), X + 1)


def test_on_a_module_a_method_a_lambda_a_partial_and_a_callable_object():
    class Callable:
        def __call__(self, x):
            return x * 5
    net = Net()
    for f, wanted in ((net, net(X)), (net.extra, net.extra(X)), (lambda x: x + 1, X + 1), (functools.partial(plain, k=4), X * 4 + 0.0),
                      (Callable(), X * 5), (Model().method, X * 2 + 1), (nn.ReLU(), X.relu())):
        assert torch.equal(jit.compile(f, backend="eager")(X), wanted)


def test_on_a_builtin_or_torch_function():
    assert torch.equal(jit.compile(torch.sin, backend="eager")(X), X.sin())
    assert jit.compile(len, backend="eager")([1, 2]) == 2


def test_on_what_is_compiled_already():
    f = jit.compile(plain, backend="eager")
    g = jit.compile(f, backend="eager")
    assert torch.equal(g(X), plain(X))


def test_options_by_name():
    counter = Counting()
    f = jit.compile(plain, fullgraph=False, dynamic=None, backend=counter, mode=None, options=None, disable=False)
    assert torch.equal(f(X, 3, shift=1.0), plain(X, 3, shift=1.0))
    counter.expect(1)


def test_signature_is_torch_compiles():
    assert str(inspect.signature(jit.compile)).replace("'", "").split(") ->")[0].count("=") >= 7
    names = list(inspect.signature(jit.compile).parameters)
    assert names == ["model", "fullgraph", "dynamic", "backend", "mode", "options", "disable"]
    with pytest.raises(TypeError):
        jit.compile(plain, True)


def test_disable_option_gives_the_original_behaviour():
    counter = Counting()
    f = jit.compile(plain, backend=counter, disable=True)
    assert torch.equal(f(X), plain(X))
    counter.expect(0)


@pytest.mark.parametrize("backend", ["eager", "default"])
def test_named_backends(backend):
    assert torch.equal(jit.compile(plain, backend=backend)(X), plain(X))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_of_torch_compile_are_accepted(mode):
    assert torch.equal(jit.compile(plain, mode=mode)(X), plain(X))


def test_options_are_checked():
    jit.compile(plain, options={"recompile_limit": 3}, backend="eager")(X)
    with pytest.raises(Exception, match="no_such_option"):
        jit.compile(plain, options={"no_such_option": 3}, backend="eager")(X)


# --- as a function, a method, a module --------------------------------------------------------------------------

def test_metadata():
    f = jit.compile(plain, backend="eager")
    assert (f.__name__, f.__qualname__, f.__doc__, f.__module__) == (plain.__name__, plain.__qualname__, "Doubles.", __name__)
    assert f.__wrapped__ is plain and inspect.signature(f) == inspect.signature(plain)
    assert inspect.unwrap(f) is plain and callable(f) and f.__annotations__ == plain.__annotations__
    assert f.__defaults__ == plain.__defaults__ and f.__kwdefaults__ == plain.__kwdefaults__ and f.__code__ is plain.__code__


def test_attributes_can_be_set():
    f = jit.compile(lambda x: x, backend="eager")
    f.tag = 5
    assert f.tag == 5
    assert "lambda" in repr(f) or "function" in repr(f).lower() or "compiled" in repr(f).lower()


def test_functools_wraps_and_update_wrapper():
    @functools.wraps(decorated)
    def outer(x):
        return decorated(x)
    assert outer.__name__ == "decorated" and torch.equal(outer(X), X * 3)


def test_calls_bind_as_the_function_does():
    f = jit.compile(plain, backend="eager")
    for args, kwargs in (((X,), {}), ((X, 3), {}), ((), {"x": X}), ((X,), {"k": 4}), ((X,), {"shift": 2.0}), ((X, 5), {"shift": 1})):
        assert torch.equal(f(*args, **kwargs), plain(*args, **kwargs))
    for args, kwargs in (((), {}), ((X, 1, 2), {}), ((X,), {"x": X}), ((X,), {"zzz": 1}), ((), {"k": 1})):
        with pytest.raises(TypeError) as wanted:
            plain(*args, **kwargs)
        with pytest.raises(TypeError) as got:
            f(*args, **kwargs)
        assert str(got.value) == str(wanted.value)


def test_methods():
    m, other = Model(), Model()
    other.offset = 10
    for _ in range(2):
        assert torch.equal(m.method(X), X * 2 + 1) and torch.equal(other.method(X), X * 2 + 10)
        assert torch.equal(Model.method(m, X), X * 2 + 1)
        assert torch.equal(Model.of_class(X), X * 2) and torch.equal(m.of_class(X), X * 2)
        assert torch.equal(Model.static(X), X - 1) and torch.equal(m.static(X), X - 1)
        assert torch.equal(m.prop, X * 2)
    bound = m.method
    assert bound.__self__ is m and bound.__name__ == "method" and bound.__doc__ == "Scaled." and torch.equal(bound(X), X * 2 + 1)


def test_method_of_a_subclass_and_super():
    class Sub(Model):
        k = 5

        def method(self, x):
            return super().method(x) + 100
    assert torch.equal(Sub().method(X), X * 5 + 1 + 100)


def test_method_assigned_to_an_instance_and_a_class():
    class Empty:
        pass
    e = Empty()
    e.f = jit.compile(lambda x: x + 1, backend="eager")
    Empty.g = jit.compile(lambda self, x: (self is e, x + 2), backend="eager")
    assert torch.equal(e.f(X), X + 1) and e.g(X)[0] is True


def test_a_compiled_module_is_the_module():
    net = Net()
    f = jit.compile(net, backend="eager")
    assert torch.equal(f(X), net(X)) and torch.equal(f(X, scale=2), net(X, scale=2)) and torch.equal(f.forward(X), net(X))
    assert isinstance(f, Net) and isinstance(f, nn.Module) and f.k == 3 and f.linear is net.linear
    assert list(f.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(f.parameters(), net.parameters())) and dict(f.named_parameters()).keys() == dict(net.named_parameters()).keys()
    assert torch.equal(f.extra(X), net.extra(X)) and len(list(f.modules())) == len(list(net.modules()))
    f.k = 7
    assert net.k == 7
    f.eval()
    assert not net.training and not f.training
    f.train()
    assert net.training and net.linear.training
    f.load_state_dict({name: torch.ones_like(t) for name, t in net.state_dict().items()})
    assert torch.equal(net.linear.weight, torch.ones(2, 4)) and torch.equal(f(X), net(X))
    assert f.double() is not None and net.linear.weight.dtype is torch.float64
    assert "linear" in repr(f)


def test_a_compiled_module_inside_another():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jit.compile(Net(), backend="eager")
    outer = Outer()
    assert len(list(outer.parameters())) == 2 and torch.equal(outer.inner(X), outer.inner.linear(X))
    assert sorted(name.split(".", 1)[0] for name in outer.state_dict()) == ["inner", "inner"]


def test_state_dict_of_a_compiled_module_has_the_names_of_the_module():
    f = jit.compile(Net(), backend="eager")
    Net().load_state_dict(f.state_dict())


def test_hooks_on_a_compiled_module():
    net = Net()
    f = jit.compile(net, backend="eager")
    handle = f.register_forward_hook(lambda m, a, out: out * 0)
    assert torch.equal(f(X), torch.zeros(3, 2))
    handle.remove()
    assert torch.equal(f(X), net(X))


def test_training_a_compiled_module():
    torch.manual_seed(0)
    a = Net()
    b = copy.deepcopy(a)
    f = jit.compile(b, backend="eager")
    for m, call in ((a, a), (b, f)):
        opt = torch.optim.SGD(call.parameters(), lr=0.1)
        for _ in range(3):
            opt.zero_grad()
            call(X).square().sum().backward()
            opt.step()
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))


def test_module_compile_in_place_of_forward():
    net = Net()
    wanted = net(X)
    net.forward = jit.compile(net.forward, backend="eager")
    assert torch.equal(net(X), wanted)


# --- copies -------------------------------------------------------------------------------------------------------

def test_pickle_of_a_function():
    again = pickle.loads(pickle.dumps(decorated))
    assert again is decorated or torch.equal(again(X), decorated(X))


def test_deepcopy_of_a_function():
    f = jit.compile(plain, backend="eager")
    assert torch.equal(copy.deepcopy(f)(X), plain(X)) and torch.equal(copy.copy(f)(X), plain(X))


def test_deepcopy_of_a_module():
    f = jit.compile(Net(), backend="eager")
    wanted = f(X)
    g = copy.deepcopy(f)
    assert torch.equal(g(X), wanted)
    with torch.no_grad():
        g.linear.weight.zero_()
        g.linear.bias.zero_()
    assert torch.equal(f(X), wanted) and torch.equal(g(X), torch.zeros(3, 2))


def test_pickle_of_a_module():
    f = jit.compile(Net(), backend="eager")
    wanted = f(X)
    again = pickle.loads(pickle.dumps(f))
    assert torch.equal(again(X), wanted) and isinstance(again, Net)


def test_save_of_a_state_dict():
    f = jit.compile(Net(), backend="eager")
    buffer = io.BytesIO()
    torch.save(f.state_dict(), buffer)
    buffer.seek(0)
    Net().load_state_dict(torch.load(buffer))


def test_object_that_holds_a_compiled_function_is_copied():
    holder = types.SimpleNamespace(f=jit.compile(plain, backend="eager"), t=X)
    assert torch.equal(copy.deepcopy(holder).f(X), plain(X))


def test_deepcopy_of_a_model_with_a_compiled_method():
    m = copy.deepcopy(Model())
    assert torch.equal(m.method(X), X * 2 + 1)


# --- beside compile -----------------------------------------------------------------------------------------------

def test_disable():
    counter = Counting()

    @jit.disable
    def opaque(x):
        return x.sin()

    @jit.disable()
    def opaque_too(x):
        return x.cos()
    f = jit.compile(lambda x: opaque(x + 1) + opaque_too(x), backend=counter)
    assert torch.equal(f(X), (X + 1).sin() + X.cos()) and opaque.__name__ == "opaque"
    if COUNTING:
        assert not any("sin" in gm.code or "cos" in gm.code for gm in counter.graphs)


def test_disable_of_a_compiled_function_and_of_a_module():
    f = jit.disable(jit.compile(plain, backend="eager"))
    assert torch.equal(f(X), plain(X))
    assert torch.equal(jit.disable(Net().eval())(X).detach() * 0, torch.zeros(3, 2))


def test_is_compiling():
    assert jit.is_compiling() is False

    def program(x):
        return x + 1 if jit.is_compiling() else x + 2
    assert torch.equal(program(X), X + 2)
    f = jit.compile(program, backend="eager", fullgraph=COUNTING)
    if COUNTING:
        assert torch.equal(f(X), X + 1)


def test_torch_compiler_is_compiling_reads_the_same():
    def program(x):
        return x + 1 if torch.compiler.is_compiling() else x + 2
    f = jit.compile(program, backend="eager")
    if COUNTING:
        assert torch.equal(f(X), X + 1)
    assert torch.equal(program(X), X + 2)


def test_graph_break():
    counter = Counting()

    def program(x):
        x = x + 1
        jit.graph_break()
        return x * 2
    assert torch.equal(jit.compile(program, backend=counter)(X), (X + 1) * 2)
    counter.expect(2)
    assert torch.equal(program(X), (X + 1) * 2)


def test_allow_in_graph():
    def helper(x):
        return x.sin() if time.perf_counter() < 0 else x.cos()  # traced, a clock breaks the graph
    jit.allow_in_graph(helper)
    counter = Counting()
    f = jit.compile(lambda x: helper(x) + 1, backend=counter)
    assert torch.equal(f(X), X.cos() + 1)
    counter.expect(1)
    if COUNTING:
        assert any(node.target is helper for node in counter.graphs[0].graph.nodes)


def test_disallow_in_graph():
    counter = Counting()
    jit.disallow_in_graph(torch.sinc)
    f = jit.compile(lambda x: torch.sinc(x + 1) * 2, backend=counter)
    assert torch.equal(f(X), torch.sinc(X + 1) * 2)
    counter.expect(2)


def test_assume_constant_result():
    calls = []

    @jit.assume_constant_result
    def expensive():
        calls.append(1)
        return 5
    f = jit.compile(lambda x: x + expensive(), backend="eager")
    assert torch.equal(f(X), X + 5) and torch.equal(f(X), X + 5)
    if COUNTING:
        assert len(calls) == 1


def test_reset():
    counter = Counting()
    f = jit.compile(plain, backend=counter)
    f(X)
    f(X)
    counter.expect(1)
    jit.reset()
    assert torch.equal(f(X), plain(X))
    counter.expect(2)


def test_explain_of_a_whole_graph():
    report = jit.explain(plain)(X)
    if COUNTING:
        assert (report.graph_count, report.graph_break_count) == (1, 0) and report.op_count == 2
        assert len(report.graphs) == 1 and list(report.break_reasons) == [] and report.guards
        assert isinstance(report.graphs[0], torch.fx.GraphModule)
    assert str(report)


def test_explain_of_breaks():
    def program(x):
        x = x + 1
        jit.graph_break()
        return x * 2
    report = jit.explain(program)(X)
    if COUNTING:
        assert (report.graph_count, report.graph_break_count) == (2, 1)
        assert str(program.__code__.co_firstlineno + 2) in str(report.break_reasons[0])


def test_explain_of_what_runs_as_written():
    def program(x):
        return x + len(sys._getframe().f_locals)
    report = jit.explain(program)(X)
    line = program.__code__.co_firstlineno
    assert f"runs as written: {__file__}:{line} in " in str(report) and "frame" in str(report)


def test_explain_of_a_module_and_of_what_is_compiled():
    for f in (Net(), jit.compile(Net(), backend="eager"), jit.compile(plain, backend="eager")):
        report = jit.explain(f)(X)
        assert not COUNTING or report.graph_count == 1


# --- the graph that a backend gets -------------------------------------------------------------------------------

def test_the_graph():
    if not COUNTING:
        pytest.skip("with a break after every call the graph is in pieces")
    seen = {}

    def backend(gm, example_inputs):
        seen.update(gm=gm, inputs=example_inputs)
        return gm.forward

    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x):
            return torch.relu(self.blocks[0](x)) + 1
    m = Blocks()
    jit.compile(m, backend=backend)(X)
    gm, names = seen["gm"], [node.name for node in seen["gm"].graph.nodes if node.op == "placeholder"]
    assert isinstance(gm, torch.fx.GraphModule) and len(seen["inputs"]) == len(names)
    assert "l_x_" in names and any(name.startswith("l_self_") and "blocks" in name and name.endswith("weight") or "weight" in name for name in names)
    calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
    targets = [getattr(node.target, "__name__", str(node.target)) for node in calls]
    assert targets == ["linear", "relu", "add"]
    for node in calls:
        value = node.meta.get("example_value", node.meta.get("val"))
        assert tuple(value.shape) == (3, 4)
        assert "test_api.py" in str(node.meta["stack_trace"])
    assert "return torch.relu(self.blocks[0](x)) + 1" in calls[1].meta["stack_trace"]


def test_a_backend_may_return_any_callable():
    calls = []

    def backend(gm, example_inputs):
        def run(*args):
            calls.append(len(args))
            return gm(*args)
        return run
    f = jit.compile(plain, backend=backend)
    f(X), f(X)
    if COUNTING:
        assert calls == [1, 1]


def test_a_backend_may_rewrite_the_graph():
    def backend(gm, example_inputs):
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is torch.sin:
                node.target = torch.cos
        gm.recompile()
        return gm
    assert torch.equal(jit.compile(lambda x: torch.sin(x) + 1, backend=backend)(X), X.cos() + 1)


# --- errors name the user's line ----------------------------------------------------------------------------------

def test_fullgraph_errors_name_the_line_the_reason_and_a_hint():
    if not COUNTING:
        pytest.skip("breaks are forced")

    def inner(x):
        return x.sum().data_ptr()

    def program(x):
        return x * inner(x)
    with pytest.raises(jit.Unsupported) as error:
        jit.compile(program, fullgraph=True, backend="eager")(X)
    text = str(error.value)
    assert f"test_api.py:{inner.__code__.co_firstlineno + 1}" in text or f"line {inner.__code__.co_firstlineno + 1}" in text
    assert "return x.sum().data_ptr()" in text and len(text.splitlines()) >= 2


@pytest.mark.parametrize("body", ["input('')", "x.data_ptr()", "jit.graph_break()", "open('/dev/null').close()"])
def test_fullgraph_refuses_what_it_cannot_hold(body):
    if not COUNTING:
        pytest.skip("breaks are forced")
    scope = {"jit": jit, "torch": torch}
    execute(f"def program(x):\n    y = x + 1\n    {body}\n    return y * 2\n", scope)
    with pytest.raises(jit.Unsupported):
        jit.compile(scope["program"], fullgraph=True, backend="eager")(X)


def test_an_exception_of_the_user_passes_through_fullgraph():
    def program(x):
        raise ValueError("mine")
    with pytest.raises(ValueError, match="mine"):
        jit.compile(program, fullgraph=COUNTING, backend="eager")(X)


def test_errors_are_classes():
    assert issubclass(jit.Unsupported, Exception) and issubclass(jit.BackendCompilerFailed, Exception)
