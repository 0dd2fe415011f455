"""Graphs without gradients write where the program did: what they do is what eager code does, and what they hold."""
import copy

import pytest
import torch

from codegen.aot.backend import ATEN
from codegen.aot.function import Settings, as_it_is, compile_program
from codegen.aot.stages import texts
from tests.codegen.aot.observe import look

aten = torch.ops.aten


def t(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)


def adds(x):
    x.mul_(2)
    x.add_(1)


def read_between(x, y):
    x.mul_(2)
    y.add_(x)
    x.add_(y)


def read_later(x):
    before = x * 3
    x.mul_(2)
    return (before, x + before)


def old_value_returned(x):
    old = x + 0
    x.add_(old)
    return (old,)


def copies(x, y):
    x.copy_(y)
    x.add_(1)


def swaps(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def own(x):
    made = x * 2
    made.add_(1)
    made.mul_(x)
    return (made,)


def own_seen_by_views(x):
    made = x * 2
    part = made[0]
    read = part + 1
    made.add_(1)
    return (part + read, made)


def view_written(x):
    x[0].mul_(2)


def turned(x):
    x.t().mul_(2)
    return (x + 1,)


def square(x):
    x.mul_(x)


def other_dtype(x, y):
    x.mul_(y)


def lists(x, y):
    torch._foreach_mul_([x, y], 2)
    torch._foreach_add_([x, y], [y.clone(), x.clone()])


def list_of_own(x, y):
    roots = torch._foreach_sqrt([x, y])
    torch._foreach_add_(roots, 1)
    torch._foreach_addcdiv_([x, y], [y + 0, x + 0], roots, 0.5)
    return (roots[1],)


def view_in_a_list(x, y):
    torch._foreach_mul_([x[0], y], 2)


def statistics(x, mean, var):
    return torch.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)[:2]


def fused(p, g, m, v, step):
    torch._fused_adam_([p], [g], [m], [v], [], [step], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8,
                       amsgrad=False, maximize=False)


def random(x, y):
    x.uniform_()
    y.normal_()
    x.bernoulli_(0.5)


def filled(x):
    x.zero_()
    x.fill_(3)


def returned(x):
    x.add_(1)
    return (x, x[0], x.view(-1))


def written_as_a_whole(x):
    x.t_()
    x.add_(1)


def indexed(x, at):
    x.index_add_(0, at, x[:2] * 2)
    x.masked_fill_(x > 3, 0)


def last_by_a_view(x):
    x.add_(1)
    x[0].mul_(2)


def constant_counted(x):
    number = torch.tensor(1.0)
    number.add_(1)
    x.mul_(number)


def own_viewed_anew(x):
    made = x * 2
    made.add_(1)
    part = made[0]
    made.mul_(part.sum())
    return (made, part)


def old_view_returned(x):
    made = x * 2
    made.add_(1)
    part = made[0] + 0
    made.mul_(2)
    part.add_(made[0])
    return (part,)


def split(x):
    made = x * 2
    one, two = made.split(1)
    one.add_(two)
    made.mul_(2)
    return (one, two)


def of_strides(x):
    x.mul_(2)
    x.add_(x.sum())


#: program, inputs, the operations on tensors that write in the graph
PROGRAMS = [
    (adds, [t(3)], ["mul_", "add_"]),
    (read_between, [t(3), t(3)], ["mul_", "add_", "add_"]),
    (read_later, [t(3)], ["mul_"]),
    (old_value_returned, [t(3)], ["add_"]),
    (copies, [t(3), t(3)], ["copy_", "add_"]),
    (copies, [t(3), t(1)], ["copy_", "add_"]),
    (swaps, [t(3), t(3) * 2], ["copy_", "copy_"]),
    (own, [t(3)], ["add_", "mul_"]),
    (own_seen_by_views, [t(2, 2)], ["add_"]),
    (view_written, [t(2, 2)], ["copy_"]),
    (turned, [t(2, 3)], ["copy_"]),
    (square, [t(3)], ["mul_"]),
    (other_dtype, [t(3).half(), torch.tensor(2.0)], ["mul_"]),
    (other_dtype, [t(3).half(), t(3)], ["copy_"]),
    (lists, [t(3), t(3) + 1], ["_foreach_mul_", "_foreach_add_"]),
    (list_of_own, [t(3), t(3) + 1], ["_foreach_add_", "_foreach_addcdiv_"]),
    (view_in_a_list, [t(2, 2), t(2)], ["copy_", "copy_"]),
    (statistics, [t(4, 2), t(2), t(2)], ["native_batch_norm"]),
    (fused, [t(3), t(3), t(3), t(3), torch.tensor(1.0)], ["_fused_adam_"]),
    (random, [t(3), t(2)], ["uniform_", "normal_", "bernoulli_"]),
    (filled, [t(3)], ["zero_", "fill_"]),
    (returned, [t(3)], ["add_"]),
    (written_as_a_whole, [t(2, 3)], []),
    (indexed, [t(3), torch.tensor([0, 2])], ["index_add_", "masked_fill_"]),
    (last_by_a_view, [t(2, 2)], ["add_", "copy_"]),
    (constant_counted, [t(3)], ["add_", "mul_"]),
    (own_viewed_anew, [t(2, 2)], ["add_", "mul_"]),
    (old_view_returned, [t(2, 2)], ["add_", "mul_", "add_"]),
    (split, [t(2, 2)], ["mul_"]),
    (of_strides, [t(2, 3).t()], ["mul_", "add_"]),
    (of_strides, [t(2, 3)[:, :2]], ["copy_"]),
]  # fmt: skip
IDS = [f"{at}-{program.__name__}" for at, (program, *_) in enumerate(PROGRAMS)]


def flat(program):
    return lambda *args: tuple(program(*args) or ())


def writers(graph):
    """The operations that write into what they are given, in order."""
    targets = [node.target for node in graph.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    writing = (each for each in targets if each._schema.is_mutable or each is aten.native_batch_norm.default)
    return [each._schema.name.partition("::")[2] for each in writing]


def beside_eager(program, args, settings):
    """What is seen of inputs and results, eager and compiled, of two calls; and the compiled program."""
    with torch.no_grad():
        compiled = compile_program(flat(program), args, settings)
        seen = []
        for run in (flat(program), compiled):
            mine = copy.deepcopy(args)
            torch.manual_seed(1)
            results = [*run(*mine), *run(*mine)]
            seen.append(look([*mine, *results]))
    return *seen, compiled


@pytest.mark.parametrize(("program", "args", "expected"), PROGRAMS, ids=IDS)
def test_writes_as_the_program_does(program, args, expected):
    eager, mine, compiled = beside_eager(program, args, ATEN)
    assert mine == eager
    assert writers(compiled.stages.forward) == expected


@pytest.mark.parametrize("settings", [
    Settings(), Settings(inference=as_it_is), Settings(inference=as_it_is, mutations_inside=True),
], ids=["outside", "functional", "functional but for the end"])
@pytest.mark.parametrize(("program", "args", "expected"), PROGRAMS, ids=IDS)
def test_other_ways_to_write_say_the_same(program, args, expected, settings):
    eager, mine, _ = beside_eager(program, args, settings)
    assert mine == eager


@pytest.mark.parametrize("program", [adds, own, statistics, lists], ids=lambda program: program.__name__)
def test_compilers_get_functional_graphs(program):
    args = next(args for known, args, _ in PROGRAMS if known is program)
    graphs = []
    for inside in (False, True):
        settings = Settings(inference=lambda g, _: graphs.append(g) or as_it_is(g, _), mutations_inside=inside)
        beside_eager(program, args, settings)
    assert writers(graphs[0]) == []
    assert set(writers(graphs[1])) <= {"copy_"}


def test_a_graph_with_gradients_stays_functional():
    x, w = t(3), t(3).requires_grad_()

    def program(x, w):
        x.add_(1)
        return (x * w,)

    compiled = compile_program(program, [x, w], ATEN)
    assert writers(compiled.stages.forward) == []


def test_what_raises_halfway_has_written_what_eager_code_has():
    def program(x, at):
        x.add_(1)
        x.mul_(x.index_select(0, at))

    with torch.no_grad():
        compiled = compile_program(flat(program), [t(3), torch.tensor([0])], ATEN)
        for run in (flat(program), compiled):
            x = t(3)
            with pytest.raises(IndexError, match="out of range"):
                run(x, torch.tensor([7]))
            assert x.tolist() == [2, 3, 4]


def test_the_dump_shows_what_runs():
    with torch.no_grad():
        compiled = compile_program(flat(adds), [t(3)], ATEN)
    text = texts(compiled.stages)
    assert "torch.ops.aten.mul_.Tensor(primals_1, 2)" in text["forward.py"]
    assert "copy_" not in text["forward.py"]


def test_all_writes_are_counted_at_once():
    def program(*args):
        torch._foreach_add_(list(args), 1)
        return ()

    with torch.no_grad():
        compiled = compile_program(program, [t(2) for _ in range(5)], ATEN)
    assert compiled.source.count("count") == 1


def test_inference_tensors_count_nothing():
    with torch.inference_mode():
        args = [t(3), t(3)]
    normal = t(3)
    with torch.inference_mode():
        compiled = compile_program(flat(lists), [args[0], normal], ATEN)
        compiled(args[0], normal)
    assert normal._version == 2
    assert args[0].is_inference()
