"""What compilation keeps of a graph on disk, and what it takes from there."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

from codegen.artifacts.store import Store
from codegen.kernels import compile, kept, unrolled
from codegen.kernels.likeness import likeness
from codegen.kernels.toolchain import find
from symbolic.fakes import FakeMode
from symbolic.shapes import Environment

pytestmark = pytest.mark.skipif(find() is None, reason="needs a C compiler")


def program(x, y):
    return ((x.exp() + y) * 0.5).softmax(-1), x @ y.t()


def traced(function, *args, mode="fake"):
    return make_fx(function, tracing_mode=mode)(*args)


def inputs(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(4, 8, dtype=dtype), torch.randn(4, 8, dtype=dtype)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache", 1 << 28)


@pytest.fixture
def lowered(monkeypatch):
    """Of how many operations the graphs are that have been lowered."""
    seen, lower = [], unrolled.lower
    monkeypatch.setattr(unrolled, "lower", lambda graph, *rest: seen.append(len(graph.graph.nodes)) or lower(graph, *rest))
    return seen


def results(store, function=program, args=None, boxed=False):
    """As a new process gives them."""
    args = inputs() if args is None else args
    kernels, graph = compile.Kernels(store), traced(function, *args)
    return kernels.of_list(graph, args)(list(args)) if boxed else kernels(graph, args)(*args)


def same(found, wanted):
    return all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(found, wanted, strict=True))


def constant(x, y):
    return x + torch.arange(8.0) * y, torch.tensor([1.0, 2.0])


def large_constant(x, y):
    return (x + torch.tensor([[float(at)] * 8 for at in range(600)])[596:],)


def random(x, y):
    torch.manual_seed(3)
    return (x.bernoulli(0.5) * y,)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("function", [program, constant, large_constant, random], ids=lambda f: f.__name__)
def test_the_next_process_lowers_nothing(store, lowered, function, boxed):
    torch.manual_seed(1)
    first = results(store, function, boxed=boxed)
    assert len(lowered) == 1
    torch.manual_seed(1)
    assert same(results(store, function, boxed=boxed), first) and len(lowered) == 1
    results(store, function, boxed=not boxed)
    assert len(lowered) == 2


def flipped(content):
    return content[:50] + bytes([content[50] ^ 1]) + content[51:]


@pytest.mark.parametrize(
    "damage", [flipped, lambda content: content[:-9], lambda content: b"", lambda content: content[40:]],
    ids=["a bit", "the end", "all", "the beginning"],
)
def test_a_damaged_file_is_made_again(store, lowered, damage):
    first = results(store)
    for entry in (path for path in store.info().path.iterdir() if len(path.name) == 64):
        content = damage(entry.read_bytes())
        entry.unlink()  # it may be loaded
        entry.touch(0o600)
        entry.write_bytes(content)
    assert same(results(store), first) and len(lowered) == 2
    assert same(results(store), first) and len(lowered) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda plan, source: ("", source),
        lambda plan, source: (plan.replace("TensorSlot", "Slot"), source),
        lambda plan, source: (plan.replace('"Function":"', '"Function":"no_'), source),
        lambda plan, source: (plan, ""),
        lambda plan, source: (plan.replace('{"TensorSlot":[0]}', '{"TensorSlot":[90]}', 1), source),
    ],
    ids=["no plan", "no such kind", "no such kernel", "no kernels", "a slot that nothing is in"],
)
def test_what_is_no_plan_is_made_again(store, lowered, change):
    first = results(store)
    graph = traced(program, *inputs())
    place = kept.place(likeness(graph), False)
    plan, source = kept.find(store, place)
    assert change(plan, source) != (plan, source)
    store.put(place, "\n".join(change(plan, source)).encode())
    assert same(results(store), first) and len(lowered) == 2


def test_kernels_without_their_library_are_compiled_again(store, lowered):
    first = results(store)
    for entry in (path for path in store.info().path.iterdir() if path.read_bytes()[:4] == b"\x7fELF"):
        entry.unlink()
    assert same(results(store), first) and len(lowered) == 1


def place(function, *args, takes_list=False, mode="fake"):
    graph = traced(function, *args, mode=mode)
    return kept.place(likeness(graph), takes_list)


def of(x):
    return x * 2.0 + torch.tensor([1.0, 2.0])


X = torch.ones(3, 2)
LARGE = torch.ones((1 << 22) + 1)
OTHERS = {
    "an argument": lambda: place(lambda x: x * 3.0 + torch.tensor([1.0, 2.0]), X),
    "a sign": lambda: place(lambda x: x * -2.0 + torch.tensor([1.0, 2.0]), X),
    "a sign of nothing": lambda: place(lambda x: x * 2.0 + torch.tensor([1.0, 2.0]) + -0.0, X),
    "nothing": lambda: place(lambda x: x * 2.0 + torch.tensor([1.0, 2.0]) + 0.0, X),
    "a constant": lambda: place(lambda x: x * 2.0 + torch.tensor([1.0, 3.0]), X),
    "an operation": lambda: place(lambda x: x / 2.0 + torch.tensor([1.0, 2.0]), X),
    "a dtype": lambda: place(of, X.double()),
    "a size": lambda: place(of, torch.ones(4, 2)),
    "strides": lambda: place(of, torch.ones(2, 3).t()),
    "a place in memory": lambda: place(of, torch.ones(4, 2)[1:]),
    "how it is called": lambda: place(of, X, takes_list=True),
}


def test_graphs_that_differ_lie_in_places_of_their_own():
    places = {name: make() for name, make in {**OTHERS, "none": lambda: place(of, X)}.items()}
    assert None not in places.values() and len(set(places.values())) == len(places)
    assert place(of, X) == places["none"]


def test_the_default_dtype_counts():
    before = place(of, X)
    graph = traced(of, X)
    torch.set_default_dtype(torch.float64)
    try:
        assert kept.place(likeness(graph), False) != before
    finally:
        torch.set_default_dtype(torch.float32)


def test_what_it_is_made_by_counts(monkeypatch):
    before = place(of, X)
    monkeypatch.setattr(kept, "_made_by", lambda: "others")
    assert place(of, X) != before


def test_what_no_key_tells_has_no_place():
    assert place(lambda x: x + LARGE, LARGE + 1, mode="real") is None


# --- sizes that vary --------------------------------------------------------------------------------------------------
def varying(function, *sizes, before=0):
    """The graph of a function of tensors that share an environment. Sizes that are text vary: equal texts are one size.
    `before`: there are so many symbols already."""
    env = Environment(False)
    mode = FakeMode(shape_env=env, allow_non_fake_inputs=True)
    every = StatelessSymbolicContext([DimDynamic.DYNAMIC])
    for _ in range(before):
        mode.from_tensor(torch.empty(5), symbolic_context=every)
    names = dict.fromkeys(size for each in sizes for size in each if isinstance(size, str))
    known = {name: mode.from_tensor(torch.empty(3 + n), symbolic_context=every).shape[0] for n, name in enumerate(names)}
    with mode:
        given = [torch.empty([known.get(size, size) for size in each]) for each in sizes]
    return make_fx(function)(*given), given


def scores(x, y):
    return ((x + y).softmax(-1) * x.shape[0], x.reshape(-1), x.shape[0] * x.shape[1])


SIZES = ("a", "b"), ("a", "b")


def test_the_next_process_lowers_nothing_for_sizes_that_vary(store, lowered):
    def run(before, boxed):
        graph, given = varying(scores, *SIZES, before=before)
        compiled = (compile.Kernels(store).of_list if boxed else compile.Kernels(store))(graph, given)
        for size in ((4, 6), (1, 3), (7, 1)):
            x, y = torch.randn(size), torch.randn(size)
            for found, wanted in zip(compiled([x, y]) if boxed else compiled(x, y), scores(x, y), strict=True):
                torch.testing.assert_close(found, wanted)

    for boxed in (False, True):
        run(0, boxed)
        assert len(lowered) == 1 + boxed
        run(0, boxed)
        run(3, boxed)  # where sizes have other names
        assert len(lowered) == 1 + boxed


def sized(function, *sizes, before=0):
    return kept.place(likeness(varying(function, *sizes, before=before)[0]), False)


def test_sizes_go_by_what_ties_them_and_not_by_their_names():
    every = {
        "apart": sized(scores, *SIZES),
        "one": sized(scores, ("a", "a"), ("a", "a")),
        "a number": sized(scores, ("a", 4), ("a", 4)),
        "another": sized(scores, ("a", 5), ("a", 5)),
        "the other": sized(scores, (4, "a"), (4, "a")),
        "broadcast": sized(scores, ("a", "b"), ("b",)),
        "a sum": sized(lambda x, y: (x.new_zeros(x.shape[0] + 2),), *SIZES),
        "another sum": sized(lambda x, y: (x.new_zeros(x.shape[0] + 3),), *SIZES),
        "of the other": sized(lambda x, y: (x.new_zeros(x.shape[1] + 2),), *SIZES),
    }
    assert None not in every.values() and len(set(every.values())) == len(every)
    assert sized(scores, *SIZES, before=4) == sized(scores, ("b", "a"), ("b", "a")) == every["apart"]


def test_what_is_known_of_sizes_counts_where_kernels_go_by_it():
    """A formula that is known to be 1 is broadcast."""
    graph, (x, _) = varying(scores, *SIZES)
    length = x.shape[0]
    next(iter(graph.graph.nodes)).meta["val"] = (length + 7) // 8
    before = likeness(graph)
    torch._check(length <= 16)
    assert likeness(graph) == before
    torch._check(length <= 8)
    assert likeness(graph) != before


def test_kernels_that_come_of_an_answer_are_their_graphs_alone(store, lowered, monkeypatch):
    """Whoever asks is guarded for the answer, so each asks for itself."""
    lower = unrolled.lower
    monkeypatch.setattr(unrolled, "lower", lambda graph, *rest: bool(size > 2) and lower(graph, *rest))
    kernels = compile.Kernels(store)
    for count in (1, 2):
        graph, given = varying(scores, *SIZES)
        size = given[0].shape[0]
        kernels(graph, given)
        assert len(lowered) == count and store.info().entries == 1  # the library


def test_what_cannot_be_written_is_compiled_each_time(store, lowered):
    graph = traced(lambda x: (x + 1,), X)
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    node.target, node.args = torch.ops.aten.bernoulli.p, (node.args[0], 0.5)
    node.kwargs = {"generator": torch.Generator()}
    for _ in range(2):
        compile.Kernels(store)(graph, [X])
    assert len(lowered) == 2 and store.info().entries == 0
