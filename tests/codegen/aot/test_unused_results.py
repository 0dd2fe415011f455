"""A backward of some results visits the inputs that these come of, and no others: hooks of the others are not called."""
import threading
from itertools import combinations

import pytest
import torch
from torch.utils._pytree import tree_flatten

from codegen.aot.function import Settings, compile_program
from codegen.aot.partition import min_cut_partition
from tests.codegen.aot.test_levels import PROGRAMS as LEVELS
from tests.differential import check


def apart(x, w, b):
    return [x.sin(), w.cos(), b * 2]


def pairs(x, w, b):
    return [x * w, w * b, b * x]


def heads(x, w, b):
    trunk = (x * x).sin()
    return [trunk * w, (trunk @ b).exp()]


def heads_of_two_streams(x, w, b):
    trunk = (x @ x).tanh()
    one, other = trunk.sin(), trunk.cos()
    return [one * w * other, one @ b, other @ b]


def deeper_and_deeper(x, w, b):
    first = x.exp()
    second = (first * w).sin()
    third = second @ b
    return [first.sin(), second * second, third + first]


def alike(x, w, b):
    """All of the same inputs."""
    hidden = x * w * b
    return [hidden.sin(), (x + w).exp() @ b]


def alike_and_one(x, w, b):
    return [x * w, x + w, x.sin(), b.exp()]


def made_of_one_another(x, w, b):
    y = x * w
    return [y, y * b, x.sin() * b]


def above_a_cut(x, w, b):
    """The last needs what is hidden below the first, and not the first's other input."""
    hidden, y = x.sin(), b * 2
    return [hidden * w, y, y.exp() + hidden]


def of_one_operation(x, w, b):
    q, r = torch.linalg.qr(x)
    return [q * w, r @ b, r.sin()]


def views(x, w, b):
    base = x.sin()
    return [base[0], base[1] * w, (b * b).t()]


class Two(torch.autograd.Function):
    """The gradient of the second is none."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, x + w

    @staticmethod
    def backward(ctx, one, other):
        x, w = ctx.saved_tensors
        return one * w + other, None


def custom(x, w, b):
    y, z = Two.apply(x.sin(), w)
    return [y * b, z.exp(), w * 2]


def random(x, w, b):
    trunk = torch.nn.functional.dropout(x * 2, 0.5)
    return [torch.nn.functional.dropout(trunk * w, 0.5), trunk * torch.rand_like(b) * b]


def with_hooks(x, w, b):
    trunk = x.exp()
    trunk.register_hook(lambda g: g * 3)
    return [trunk * w, trunk * b]


def of_inputs_alone(x, w, b):
    return [x, x * w, b.detach() * w]


PROGRAMS = [apart, pairs, heads, heads_of_two_streams, deeper_and_deeper, alike, alike_and_one, made_of_one_another,
            above_a_cut, of_one_operation, views, custom, random, with_hooks, of_inputs_alone]


def leaves():
    torch.manual_seed(3)
    return [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def results_of(run, inputs):
    torch.manual_seed(1)
    found = {id(r): r for r in run(*inputs) if r.requires_grad}
    return list(found.values())


def total(results):
    return sum((r * n).sum() for n, r in enumerate(results, 2))


def some_of(results):
    return [each for count in range(1, len(results) + 1) for each in combinations(results, count)]


def watch(inputs, seen):
    """Hooks of all ranks."""
    for n, x in enumerate(inputs):
        def note(grad, n=n):
            seen.append((n, None if grad is None else grad.detach().clone()))

        x.register_hook(note)
        node = torch.autograd.graph.get_gradient_edge(x).node
        node.register_prehook(lambda grads, n=n: seen.append((n, "before", [g is not None for g in grads])))
        node.register_hook(lambda after, before, n=n: seen.append((n, "after", [g is not None for g in before])))
        if x.is_leaf:
            x.register_post_accumulate_grad_hook(lambda x, n=n: seen.append((n, "accumulated", None if x.grad is None else x.grad.clone())))


# --- what a user may do. Each gives what it sees.
def backward(run, inputs):
    seen = []
    watch(inputs, seen)
    total(results_of(run, inputs)[-1:]).backward()
    return sorted_between_numbers(seen)


def retained(run, inputs):
    seen = []
    watch(inputs, seen)
    for some in some_of(results_of(run, inputs)):
        total(some).backward(retain_graph=True)
        seen.append(len(some))
    return sorted_between_numbers(seen)


def one_after_the_other(run, inputs):
    """Up to the first that eager autograd may refuse."""
    seen = []
    watch(inputs, seen)
    for result in results_of(run, inputs):
        try:
            result.sum().backward()
        except RuntimeError as error:
            seen.append(str(error)[:60])
            break
        seen.append("next")
    return sorted_between_numbers(seen)


def with_a_history(run, inputs):
    seen = []
    watch(inputs, seen)
    for some in some_of(results_of(run, inputs)):
        gradients = torch.autograd.grad(total(some), inputs, create_graph=True, allow_unused=True)
        seen.append("again")
        squares = [(g * g).sum() for g in gradients if g is not None and g.requires_grad]
        if squares:
            sum(squares).backward(retain_graph=True)
    return sorted_between_numbers(seen)


def backward_with_a_history(run, inputs):
    seen = []
    watch(inputs, seen)
    for some in some_of(results_of(run, inputs)):
        for x in inputs:
            x.grad = None
        total(some).backward(create_graph=True)
        seen.append("again")
        squares = [(x.grad * x.grad).sum() for x in inputs if x.grad is not None and x.grad.requires_grad]
        if squares:
            sum(squares).backward(retain_graph=True)
        seen.append([None if x.grad is None else x.grad.detach().clone() for x in inputs])
    for x in inputs:
        x.grad = None
    return sorted_between_numbers(seen)


def for_some_inputs(run, inputs):
    seen, found = [], []
    watch(inputs, seen)
    for some in some_of(results_of(run, inputs)):
        for wanted in some_of(inputs):
            found.append(torch.autograd.grad(total(some), wanted, allow_unused=True, retain_graph=True))
            try:
                torch.autograd.grad(total(some), wanted, retain_graph=True)
            except RuntimeError as error:
                found.append(str(error)[:60])
            torch.autograd.backward(total(some), inputs=list(wanted), retain_graph=True)
            seen.append("next")
    return found, sorted_between_numbers(seen)


def zeros_or_none(run, inputs):
    results = results_of(run, inputs)
    return [
        torch.autograd.grad(r, inputs, torch.ones_like(r), retain_graph=True, **options)
        for r in results for options in ({"allow_unused": True}, {"materialize_grads": True})
    ]


def in_threads(run, inputs):
    results = results_of(run, inputs)
    found = [None] * len(results)

    def work(n):
        for _ in range(5):
            found[n] = torch.autograd.grad(total(results[n : n + 1]), inputs, allow_unused=True, retain_graph=True)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def sorted_between_numbers(seen):
    """Of what is seen between two notes of a test's own the order does not matter, as far as it is of several inputs."""
    found, part = [], []
    for each in [*seen, None]:
        if isinstance(each, tuple) and len(each) > 1 and isinstance(each[0], int) and not isinstance(each[1], int):
            part.append(each)
        else:
            found += [*sorted(part, key=lambda each: each[0]), each]
            part = []
    return found


LOOKS = [backward, retained, one_after_the_other, with_a_history, backward_with_a_history, for_some_inputs, zeros_or_none,
         in_threads]


def check_same(ours, theirs):
    """Up to rounding."""
    (ours, our_spec), (theirs, their_spec) = tree_flatten(ours), tree_flatten(theirs)
    assert our_spec == their_spec
    for our, their in zip(ours, theirs):
        if isinstance(our, torch.Tensor) and isinstance(their, torch.Tensor):
            torch.testing.assert_close(our, their)
        else:
            assert our is their or our == their


def made_of(leaves):
    return [leaf * 1 for leaf in leaves]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("inner", [False, True], ids=["leaves", "made of something"])
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_as_eager(program, look, inner):
    def make():
        return made_of(leaves()) if inner else leaves()

    compiled = compile_program(program, make(), Settings())
    check_same(look(compiled, make()), look(program, make()))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("look", [backward, retained, with_a_history, for_some_inputs], ids=lambda look: look.__name__)
@pytest.mark.parametrize("program", LEVELS, ids=lambda program: program.__name__)
def test_results_of_one_another(program, look):
    compiled = compile_program(program, leaves()[:2], Settings(partition=min_cut_partition))
    check_same(look(compiled, leaves()[:2]), look(program, leaves()[:2]))


@pytest.mark.parametrize("program, leads_to", [
    (alike, ["xwb"]), (apart, ["x", "w", "b"]), (heads, ["x", "w", "b"]), (deeper_and_deeper, ["x", "w", "b"]),
    (alike_and_one, ["xw", "x", "b"]), (heads_of_two_streams, ["x", "w", "b"]), (pairs, ["xw", "wb", "xb"]),
], ids=lambda each: getattr(each, "__name__", ""))
def test_no_more_nodes_than_are_needed(program, leads_to):
    """Those that give gradients to inputs, the oldest first."""
    levels = compile_program(program, leaves(), Settings()).stages.traced.levels
    assert ["".join("xwb"[at] for at in sorted(level.inputs)) for level in levels] == leads_to


def test_as_many_nodes_as_operations_at_most():
    """Also where each result comes of inputs of its own and of a trunk."""
    def program(*inputs):
        trunk = inputs[0].exp()
        return [trunk * x for x in inputs[1:]]

    inputs = [torch.ones(2, requires_grad=True) for _ in range(41)]
    compiled = compile_program(program, inputs, Settings())
    assert len(compiled.stages.traced.levels) == 41
    gradients = torch.autograd.grad(compiled(*inputs)[7].sum(), inputs, allow_unused=True)
    assert [at for at, gradient in enumerate(gradients) if gradient is not None] == [0, 8]


READS = {
    "indexed": lambda x, i: x[i],
    "indexed twice": lambda x, i: x[i, i],
    "selected": lambda x, i: x.index_select(0, i),
    "gathered": lambda x, i: x.gather(0, i[None]),
    "taken": lambda x, i: x.take(i * 5),
    "embedded": lambda x, i: torch.nn.functional.embedding(i, x),
    "in a bag": lambda x, i: torch.nn.functional.embedding_bag(i[None], x),
    "computed with": lambda x, i: (x[i] * 2).sum(),
    "stored": lambda x, i: x.index_copy(0, i, x[:2]),
    "divided": lambda x, i: i // (i - 7),
    "factored": lambda x, i: torch.linalg.cholesky(torch.eye(3)[:, :3] * (x[0, 0] + 5 - i[1])),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_index_out_of_range_is_told_though_nobody_reads_the_result(read, backend, grows):
    def program(x, i, seen):
        y = x * 2
        try:
            read(y, i)
        except (IndexError, RuntimeError):
            seen.append(1)
        return y + 1

    x = torch.arange(12.0).reshape(3, 4).requires_grad_(grows)
    check(program, x, torch.tensor([0, 7]), [], changed=(x, torch.tensor([0, 2]), []), backend=backend, nodes=False)
    check(program, x, torch.tensor([0, 2]), [], changed=(x, torch.tensor([0, 7]), []), backend=backend, nodes=False)
