"""The AOT stage as a library: functions of pytrees and modules beside eager, and when a graph is good for another call."""
import contextlib
import copy
import threading
from collections import namedtuple

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_flatten, tree_leaves

from codegen import aot

Pair = namedtuple("Pair", "first second")


class Counting:
    """A compiler that keeps the graphs it gets."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, example_inputs):
        assert len(graph.graph.find_nodes(op="placeholder")) == len(example_inputs)
        self.graphs.append(graph)
        return graph


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def look(tensor):
    return (
        tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad, tensor.is_leaf, tensor._is_view(),
        None if tensor.is_inference() else tensor._version,
    )


def observe(call, make):
    """All that a user can see of a call, with gradients of what requires them."""
    torch.manual_seed(0)
    args, kwargs = make()
    results = call(*args, **kwargs)
    leaves, spec = tree_flatten(results)
    given = tensors((args, kwargs))
    same = [[at for at, value in enumerate(given) if value is leaf] for leaf in leaves]
    wanted = [value for value in given if value.requires_grad and value.is_leaf]
    total = sum((leaf * leaf).sum() for leaf in tensors(results) if leaf.requires_grad)
    gradients = []
    if isinstance(total, torch.Tensor) and total.requires_grad and wanted:
        gradients = torch.autograd.grad(total, wanted, allow_unused=True)
    values = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in [*leaves, *given, *gradients]]
    return spec, same, [look(t) for t in [*tensors(results), *given]], values


def assert_alike(got, expected):
    assert got[:3] == expected[:3]
    for one, other in zip(got[3], expected[3], strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


# --- functions of pytrees ---------------------------------------------------------------------------------------------
def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def nested(tree, scale=2, *, weight):
    return {"sum": [tree["x"] * weight * scale, None], "pair": Pair(tree["y"][0].t(), scale)}


def writes(x, w):
    x.mul_(2)
    x[0].add_(1)
    return x * w, x[1:]


def writes_both(x, y):
    x.copy_(y.t())
    y.add_(1)
    return {"x": x}


def aliases(x, w):
    y = x * w
    return y, y.view(-1), w, w.detach(), "text"


PROGRAMS = {
    "nested": (nested, lambda: (({"x": leaf(3, 4), "y": (torch.randn(2, 5), "a")},), {"weight": leaf(3, 4)})),
    "writes": (writes, lambda: ((torch.randn(3, 4), leaf(3, 4)), {})),
    "writes to two": (writes_both, lambda: ((torch.randn(3, 3), torch.randn(3, 3)), {})),
    "aliases": (aliases, lambda: ((torch.randn(3, 4), leaf(3, 4)), {})),
    "random": (lambda x: torch.nn.functional.dropout(x * x), lambda: ((leaf(4, 5),), {})),
    "product": (lambda x, w: (x @ w).relu().sum(0), lambda: ((torch.randn(5, 3), leaf(3, 4)), {})),
    "no tensor": (lambda x: ((), {}, 3, None), lambda: ((torch.randn(3),), {})),
}
MODES = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}
MODE = pytest.mark.parametrize("mode", MODES)
DYNAMIC = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("keep", [False, True], ids=["outside", "inside"])
@DYNAMIC
@MODE
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_of_pytrees_is_as_eager(name, mode, dynamic, keep):
    fn, make = PROGRAMS[name]
    compiler = Counting()
    compiled = aot.aot_function(fn, compiler, dynamic=dynamic, keep_inference_input_mutations=keep)
    with MODES[mode]():
        expected = observe(fn, make)
        assert_alike(observe(compiled, make), expected)
        count = len(compiler.graphs)
        assert_alike(observe(compiled, make), expected)
    assert len(compiler.graphs) == count


# --- when it compiles again -------------------------------------------------------------------------------------------
def base():
    return torch.arange(12.0)


def shared(x, y):
    x.add_(1)
    return x * y


def windows(x):
    return x.as_strided((2,), (1,), 3) * 2


SAME, AGAIN = 0, 1
#: program, arguments of the first call, arguments of the second, whether that is compiled again
CALLS = {
    "values": (torch.sin, lambda: (base(),), lambda: (base() * 2,), SAME),
    "sizes": (torch.sin, lambda: (base(),), lambda: (base()[:3],), AGAIN),
    "strides": (torch.sin, lambda: (torch.ones(3, 3),), lambda: (torch.ones(3, 4)[:, :3],), AGAIN),
    "offset": (torch.sin, lambda: (base()[:3],), lambda: (base()[3:6],), SAME),
    "offset that is asked for": (windows, lambda: (base()[:3],), lambda: (base()[1:4],), AGAIN),
    "dtype": (torch.sin, lambda: (base(),), lambda: (base().double(),), AGAIN),
    "gradient": (torch.sin, lambda: (base(),), lambda: (base().requires_grad_(),), AGAIN),
    "leaf": (torch.sin, lambda: (base().requires_grad_(),), lambda: (base().requires_grad_().view(12),), AGAIN),
    "parameter": (torch.sin, lambda: (base().requires_grad_(),), lambda: (torch.nn.Parameter(base()),), AGAIN),
    "number": (torch.mul, lambda: (base(), 2), lambda: (base(), 3), AGAIN),
    "equal numbers": (torch.mul, lambda: (base(), 2), lambda: (base(), 2), SAME),
    "kind of number": (torch.mul, lambda: (base(), 1), lambda: (base(), True), AGAIN),
    "sign of zero": (lambda x, y: x / y, lambda: (base() + 1, 0.0), lambda: (base() + 1, -0.0), AGAIN),
    "nan": (torch.mul, lambda: (base(), float("nan")), lambda: (base(), float("nan")), SAME),
    "dtype argument": (torch.Tensor.to, lambda: (base(), torch.int32), lambda: (base(), torch.int64), AGAIN),
    "structure": (lambda t: sum(t), lambda: ([base(), base()],), lambda: ((base(), base()),), AGAIN),
    "number of leaves": (lambda t: sum(t), lambda: ([base(), base()],), lambda: ([base()],), AGAIN),
    "shared memory": (shared, lambda: (base(), base()), lambda: (x := base(), x), AGAIN),
    "shared in another way": (shared, lambda: (x := base(), x), lambda: ((x := base())[:], x), AGAIN),
    "other windows": (shared, lambda: ((x := base())[:3], x[1:4]), lambda: ((x := base())[:3], x[2:5]), AGAIN),
    "a view that is written": (shared, lambda: (base(), base()), lambda: (base()[:], base()), AGAIN),
    "a view that is read": (torch.mul, lambda: (base(), base()), lambda: (base()[:], base()), SAME),
    "memory that is read": (torch.mul, lambda: (base(), base()), lambda: ((x := base())[:], x), SAME),
    "twice the same": (torch.mul, lambda: (base(), base()), lambda: (x := base(), x), AGAIN),
    "windows of another base": (
        shared, lambda: ((x := base())[:3], x[1:4]), lambda: ((x := torch.ones(4, 3))[0], x.view(12)[1:4]), AGAIN,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_compiles_again(name):
    fn, first, second, again = CALLS[name]
    compiler = Counting()
    compiled = aot.aot_function(fn, compiler)
    calls = [(lambda: (first(), {})), (lambda: (second(), {})), (lambda: (first(), {}))]
    counts = []
    for make in calls:
        args = make()[0], make()[0]
        with torch.no_grad():
            assert_equal(compiled(*args[0]), fn(*args[1]))
        counts.append(len(compiler.graphs))
        assert_equal(list(args[0]), list(args[1]))
    assert counts == [1, 1 + again, 1 + again]


def assert_equal(got, expected):
    for one, other in zip(tree_leaves(got), tree_leaves(expected), strict=True):
        assert torch.equal(one, other) or one.isnan().all() if isinstance(one, torch.Tensor) else one is other or one == other or one != one


STATES = {
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "dtype of autocast": lambda: torch.autocast("cpu", dtype=torch.float16),
    "device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("state", STATES)
def test_torch_state_of_the_thread_compiles_again(state):
    compiler = Counting()
    compiled = aot.aot_function(lambda x, y: (x @ y, torch.ones(2)), compiler)
    x, y = leaf(3, 3), leaf(3, 3)
    counts = []
    for around in (contextlib.nullcontext, STATES[state], contextlib.nullcontext, STATES[state]):
        with around():
            got, expected = compiled(x, y), (x @ y, torch.ones(2))
        assert [(t.dtype, t.device, t.requires_grad, t.is_inference()) for t in got] == [
            (t.dtype, t.device, t.requires_grad, t.is_inference()) for t in expected
        ]
        counts.append(len(compiler.graphs))
    assert counts[0] < counts[1] == counts[2] == counts[3]


def test_an_object_is_told_by_identity_and_kept():
    class Scale:
        def __init__(self, by):
            self.by = by

    compiler = Counting()
    compiled = aot.aot_function(lambda x, scale: x * scale.by, compiler)
    one = Scale(2)
    for scale in (one, one, *map(Scale, range(20))):
        assert torch.equal(compiled(base(), scale), base() * scale.by)
    assert len(compiler.graphs) == 21


def test_threads_compile_once():
    compiler = Counting()
    compiled = aot.aot_function(torch.sin, compiler)
    found = []
    threads = [threading.Thread(target=lambda: found.append(compiled(base()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiler.graphs) == 1 and all(torch.equal(one, base().sin()) for one in found) and len(found) == 8


# --- all sizes --------------------------------------------------------------------------------------------------------
def depends(x):
    return x * 2 if x.shape[0] > 5 else x * 3


#: program, rows of the calls, how many compilations each has seen
SIZES = {
    "any": (lambda x: x.sin().sum(0), [2, 3, 17], [1, 1, 1]),
    "one and none": (lambda x: x.sin(), [3, 1, 0, 1, 4], [1, 1, 2, 2, 2]),
    "a condition": (depends, [3, 4, 6, 7, 5, 2], [1, 1, 2, 2, 2, 2]),
    "even": (lambda x: x.view(2, -1) if x.shape[0] % 2 == 0 else x, [4, 6, 3, 8, 5], [1, 1, 2, 2, 2]),
    "a size that is a number": (lambda x: x * x.shape[0] + torch.ones(x.shape), [3, 4, 9], [1, 1, 1]),
    "a result that is a size": (lambda x: (x * 2, x.shape[0] * 2), [3, 4, 9], [1, 1, 1]),
    "writes": (lambda x: x.mul_(x.shape[0]).t(), [3, 4, 9], [1, 1, 1]),
}


@pytest.mark.parametrize("name", SIZES)
def test_one_graph_for_all_sizes_as_far_as_it_goes(name):
    fn, rows, expected = SIZES[name]
    compiler = Counting()
    compiled = aot.aot_function(fn, compiler, dynamic=True)
    counts = []
    for count in rows:
        x, y = torch.randn(count, 4), None
        y = x.clone()
        assert_equal((compiled(x), x), (fn(y), y))
        counts.append(len(compiler.graphs))
    assert counts == expected


#: Torch has other forms of these in Python, which give views, or copies.
COMPOSITE = {
    "matmul": lambda x: x @ x.mT,
    "matmul by a vector": lambda x: x[0, 0] @ x.mT,
    "linear": lambda x: torch.nn.functional.linear(x, x[0]),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
    "power": lambda x: torch.linalg.matrix_power(x @ x.mT, 3),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5, False),
    "interpolate": lambda x: torch.nn.functional.interpolate(x, scale_factor=2),
}


@pytest.mark.parametrize("name", COMPOSITE)
def test_who_is_a_view_of_whom_for_all_sizes(name):
    program = COMPOSITE[name]
    compiled = aot.aot_function(program, aot.nop, dynamic=True)
    for rows in (2, 5):
        x = torch.randn(2, rows, 3, requires_grad=True)
        got, expected = compiled(x), program(x)
        assert torch.equal(got, expected)
        seen = [(y is x, y._is_view(), y.is_leaf, y.stride()) for y in (got, expected)]
        assert seen[0] == seen[1]


def test_gradients_for_all_sizes_and_parameters_as_they_are():
    compiler = Counting()
    compiled = aot.aot_function(lambda w, x: (x @ w).tanh(), compiler, num_params_buffers=1, dynamic=True)
    for columns in (4, 5):
        w = leaf(3, columns)
        for rows in (2, 5, 9):
            x = torch.randn(rows, 3)
            for call in (compiled, lambda w, x: (x @ w).tanh()):
                (first,) = torch.autograd.grad(call(w, x).pow(2).sum(), w, create_graph=True)
                (second,) = torch.autograd.grad(first.sin().sum(), w)
                if call is compiled:
                    expected = first, second
            torch.testing.assert_close((first, second), expected)
            w.grad = torch.ones_like(w)  # a gradient that it has already is no matter
    forwards = [graph for graph in compiler.graphs if "tanh" in graph.code and "tangents" not in graph.code]
    firsts = {tuple(graph.graph.find_nodes(op="placeholder")[0].meta["val"].shape) for graph in forwards}
    assert firsts >= {(3, 4), (3, 5)}, "the sizes of parameters are numbers"


class Crossed(torch.autograd.Function):
    """The gradient of each result is as large as both inputs: what is missing becomes zeros."""

    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second.sum(), second * 3 + first.sum()


def joined_and_split(x, y):
    """That both have as many columns is found out on the way."""
    both = torch.cat([x, y]).split([x.shape[0], y.shape[0]])
    return both[0].exp(), both[1].exp()


#: (x, y) -> two results
SEVERAL = {
    "chunk": lambda x, y: tuple(part.exp() for part in (x * 2).chunk(2, 1)),
    "split": lambda x, y: tuple(part.exp() for part in (y * 2).split([1, y.shape[0] - 1])),
    "joined and split": joined_and_split,
    "custom": Crossed.apply,
}


@pytest.mark.parametrize("name", SEVERAL)
def test_gradients_of_one_of_several_results_for_all_sizes(name):
    program, compiled = SEVERAL[name], aot.aot_function(lambda x, y: SEVERAL[name](x, y), aot.nop, dynamic=True)
    for rows in (3, 5):
        for at in (0, 1):
            inputs = leaf(rows, 4), leaf(rows + 2, 4)
            got, expected = (
                torch.autograd.grad(call(*inputs)[at].sum(), inputs, allow_unused=True) for call in (compiled, program)
            )
            assert_equal(got, expected)


def test_varying_tensors_that_share_memory():
    compiled = aot.aot_function(shared, aot.nop, dynamic=True)
    for size in (4, 6, 4):
        for make in (lambda: ((x := base())[:size], x[1 : size + 1]), lambda: (x := base()[:size], x)):
            got, expected = make(), make()
            assert_equal((compiled(*got), got), (shared(*expected), expected))


# --- compilers --------------------------------------------------------------------------------------------------------
def test_which_compiler_gets_which_graph():
    forward, backward, inference = Counting(), Counting(), Counting()
    compiled = aot.aot_function(torch.sin, forward, backward, inference_compiler=inference)
    compiled(leaf(3)).sum().backward()
    compiled(base())
    codes = [[graph.code for graph in compiler.graphs] for compiler in (forward, backward, inference)]
    assert [len(code) for code in codes] == [1, 1, 1]
    assert "sin" in codes[0][0] and "cos" in codes[1][0] and "sin" in codes[2][0]


@pytest.mark.parametrize("compiler", [
    aot.nop,
    aot.make_boxed_compiler(aot.nop),
    lambda graph, inputs: lambda *args: list(graph(*args)),
    lambda graph, inputs: aot.make_boxed_func(lambda *args: list(graph(*args))),
], ids=["plain", "boxed", "list", "boxed list"])
def test_what_compilers_answer_with(compiler):
    x = leaf(3)
    y = aot.aot_function(lambda x: (x * x).sin(), compiler)(x)
    (got,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(y, (x * x).sin())
    assert torch.equal(got, torch.autograd.grad((x * x).sin().sum(), x)[0])


def test_print_compile_prints_the_graph(capsys):
    aot.aot_function(torch.sin, aot.print_compile)(base())
    assert "torch.ops.aten.sin.default(primals_1)" in capsys.readouterr().out


@pytest.mark.parametrize("partition", [aot.default_partition, aot.min_cut_partition])
def test_partitioners_are_called_as_functorch_does(partition):
    seen = []

    def mine(joint_module, joint_inputs, *, num_fwd_outputs):
        primals, tangents = joint_inputs
        seen.append((len(primals), len(tangents), num_fwd_outputs))
        return partition(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs)

    x, w = torch.randn(3), leaf(3)
    fn = lambda x, w: (x * w).sin().exp()
    y = aot.aot_function(fn, aot.nop, partition_fn=mine)(x, w)
    assert seen == [(2, 1, 1)]
    torch.testing.assert_close(torch.autograd.grad(y.sum(), w), torch.autograd.grad(fn(x, w).sum(), w))


def test_decompositions():
    compiler = Counting()
    table = {torch.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    got = aot.aot_function(torch.nn.functional.silu, compiler, decompositions=table)(base())
    assert torch.equal(got, base() * base().sigmoid())
    assert "sigmoid" in compiler.graphs[0].code and "silu" not in compiler.graphs[0].code


# --- writes inside the graph ------------------------------------------------------------------------------------------
def writes_data(x, y):
    x.data.mul_(2)
    return x + y


#: program, gradients, inputs that the graph writes
INSIDE = {
    "one": (shared, False, [0]),
    "two": (writes_both, False, [0, 1]),
    "with gradients": (shared, True, []),
    "out of autograd's sight": (writes_data, False, [0]),
    "with a change of shape": (lambda x, y: x.t_().add_(y), False, []),
    "views of one base": (lambda x, y: (x[0].add_(1), y.mul_(2)), False, [0, 1]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_the_graph_ends_with_its_writes(name):
    fn, gradients, expected = INSIDE[name]
    compiler = Counting()
    compiled = aot.aot_function(fn, compiler, keep_inference_input_mutations=True)
    make = lambda: ((torch.randn(3, 3), torch.randn(3, 3).requires_grad_(gradients)), {})
    assert_alike(observe(compiled, make), observe(fn, make))
    nodes = list(compiler.graphs[0].graph.nodes)
    written = [node.args[0].name for node in nodes if node.target is torch.ops.aten.copy_.default]
    assert written == [f"primals_{at + 1}" for at in expected]
    assert all(node.target is torch.ops.aten.copy_.default for node in nodes[len(nodes) - 1 - len(written) : -1])


def test_a_frozen_parameter_is_written_inside():
    compiler = Counting()
    compiled = aot.aot_function(lambda w: w.mul_(2), compiler, keep_inference_input_mutations=True)
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert compiled(w) is w
    assert "copy_" in compiler.graphs[0].code
    assert w.is_leaf and w.requires_grad and w._version == 1 and torch.equal(w.detach(), torch.full((3,), 2.0))


# --- modules ----------------------------------------------------------------------------------------------------------
class Rebinding(torch.nn.Module):
    """Puts new tensors in the place of its buffers."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.inner.register_buffer("count", torch.zeros(()))

    def forward(self, x, *, scale=1.0):
        y = self.inner(x) * scale
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        self.inner.count = self.inner.count + 1
        return {"y": y - self.mean}


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 3)
        self.out = torch.nn.Linear(3, 5, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x):
        return self.out(self.embedding(x))


MODULES = {
    "norm": (lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)), lambda: torch.randn(5, 3)),
    "dropout": (lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout()), lambda: torch.randn(5, 3)),
    "rebinding": (Rebinding, lambda: torch.randn(5, 3)),
    "tied": (Tied, lambda: torch.arange(4)),
}


def train(mod, call, make):
    """Two steps of training, one of evaluation; all that comes of it."""
    torch.manual_seed(1)
    found = []
    optimizer = torch.optim.SGD(mod.parameters(), lr=0.1)
    for training in (True, True, False):
        mod.train(training)
        results = tree_leaves(call(make()))
        found += [result.detach().clone() for result in results]
        optimizer.zero_grad()
        sum(result.square().sum() for result in results).backward()
        optimizer.step()
    return found, [value.clone() for value in mod.state_dict().values()]


@DYNAMIC
@pytest.mark.parametrize("name", MODULES)
def test_a_module_trains_as_eager(name, dynamic):
    build, make = MODULES[name]
    torch.manual_seed(0)
    eager = build()
    mod = copy.deepcopy(eager)
    compiled = aot.aot_module(mod, fw_compiler=aot.nop, dynamic=dynamic)
    torch.testing.assert_close(train(compiled, compiled, make), train(eager, eager, make), rtol=0, atol=0)
    assert list(compiled.state_dict()) == [f"orig_module.{name}" for name in eager.state_dict()]


def test_a_module_takes_keywords():
    mod = Rebinding()
    got = aot.aot_module(copy.deepcopy(mod), aot.nop)(torch.ones(2, 3), scale=3.0)
    assert torch.equal(got["y"], mod(torch.ones(2, 3), scale=3.0)["y"])


@pytest.mark.parametrize("name", MODULES)
def test_a_module_compiled_for_its_arguments(name):
    build, make = MODULES[name]
    torch.manual_seed(0)
    eager = build()
    mod = copy.deepcopy(eager)
    compiler = Counting()
    compiled = aot.aot_module_simplified(mod, [make()], compiler)
    assert len(compiler.graphs) == 2, "it compiles at once"
    assert dict(compiled.named_parameters()) == dict(mod.named_parameters())
    torch.manual_seed(1)
    x = make()
    torch.manual_seed(2)
    got = tree_leaves(compiled(x))
    torch.manual_seed(2)
    expected = tree_leaves(eager(x))
    for results in (got, expected):
        sum(result.square().sum() for result in results).backward()
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    for one, other in zip(mod.parameters(), eager.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    torch.testing.assert_close(list(mod.buffers()), list(eager.buffers()), rtol=0, atol=0)
    assert len(compiler.graphs) == 2


def test_a_module_compiled_for_fakes_of_any_size():
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    mod = torch.nn.Linear(3, 4)
    compiled = aot.aot_module_simplified(mod, [mode.from_tensor(torch.randn(5, 3))], aot.nop)
    for rows in (5, 7):
        x = torch.randn(rows, 3)
        got, expected = compiled(x), mod(x)
        assert torch.equal(got, expected)
        gradients = [torch.autograd.grad(y.sum(), mod.weight) for y in (got, expected)]
        assert torch.equal(*(gradient for (gradient,) in gradients))


# --- limits -----------------------------------------------------------------------------------------------------------
def test_what_cannot_be_compiled_is_refused_before_anything_is_touched():
    def counts(x, y):
        y.add_(1)
        return x.nonzero()

    x, y = base(), base()
    with pytest.raises(aot.Untraceable, match="depends on values"):
        aot.aot_function(counts, aot.nop)(x, y)
    assert torch.equal(x, base()) and torch.equal(y, base()) and x._version == y._version == 0


def test_what_the_function_raises_is_raised():
    with pytest.raises(KeyError, match="y"):
        aot.aot_function(lambda d: d["y"], aot.nop)({"x": base()})


def changed_behind_autograds_back(x):
    x.unsqueeze_(1)
    return (x * 2).split(1, dim=1)[1]


def test_an_error_is_the_one_that_eager_code_raises():
    """Stand-ins may raise another one, or one where eager code goes through."""
    def inputs():
        return torch.ones(2, 2, 3, requires_grad=True).unbind(0)

    errors = []
    for call in (changed_behind_autograds_back, aot.aot_function(changed_behind_autograds_back, aot.nop)):
        with pytest.raises(Exception) as caught:  # noqa: B017
            call(inputs()[0])
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]


def test_a_parameter_that_is_no_argument_is_refused():
    mod = torch.nn.Linear(3, 3)
    with pytest.raises(aot.Untraceable, match="no input needs gradients"):
        aot.aot_function(mod, aot.nop)(torch.ones(3))


def cube(x):
    return x * x * x


TRANSFORMED = {
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(base()),
    "vmap": lambda f: torch.func.vmap(f)(base().view(3, 4)),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum())(base()),
    "jvp": lambda f: torch.func.jvp(f, (base(),), (base(),)),
    "nested": lambda f: aot.aot_function(lambda x: f(x) + 1, aot.nop)(base()),
    "nested, with gradients": lambda f: torch.autograd.grad(
        aot.aot_function(lambda x: f(x).sum(), aot.nop)(x := leaf(3).detach().fill_(2).requires_grad_()), x
    ),
}


class Seen(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(func)
        return func(*args, **(kwargs or {}))


seen = []


def test_a_mode_sees_what_is_called():
    compiled = aot.aot_function(cube, aot.nop)
    compiled(base())
    seen.clear()
    with Seen():
        compiled(base())
    assert seen.count(torch.Tensor.mul) == 2


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_and_modes_see_the_function_itself(name):
    assert_equal(TRANSFORMED[name](aot.aot_function(cube, aot.nop)), TRANSFORMED[name](cube))


#: Tensors of n rows and where they lie in memory
PLACES = [
    lambda n: torch.ones(n, 3),
    lambda n: torch.ones(3, n).t(),
    lambda n: torch.ones(n + 2, 3)[1:-1],
    lambda n: torch.ones(2 * n, 3)[n:],
    lambda n: torch.ones(9 - n, 3)[: 9 - n][-n:],
]


@pytest.mark.parametrize("dynamic", [False, True])
def test_how_tensors_lie_in_their_memory_is_asked(dynamic):
    def program(x):
        return x * 2, x.untyped_storage().nbytes(), x.storage_offset()

    compiled = aot.aot_function(program, aot.nop, dynamic=dynamic)
    for n in (3, 4):
        for place in PLACES:
            x = place(n)
            assert compiled(x)[1:] == program(x)[1:]
