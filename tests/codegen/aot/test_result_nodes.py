"""Each result has an autograd node of its own where eager code's has: hooks that are registered after the call are called
as often, in the same order, and with None where eager's are.
"""

import gc
import weakref
from itertools import combinations, product

import pytest
import torch
from torch.autograd.graph import register_multi_grad_hook

from codegen.aot.function import Settings, compile_program
from tests.codegen.aot.test_levels import PROGRAMS as LEVELS


def make():
    torch.manual_seed(3)
    return [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]


def plain(x, w):
    return [x * w, x + w, x.sin()]


def one(x, w):
    return [(x * w).sin()]


def one_and_other_things(x, w):
    return [(x * w).sin(), x.detach() * 2, 5, x > 0]


def in_another_order(x, w):
    a, b, c = x * w, x + w, x.sin()
    return [b, c, a]


def of_one_node(x, w):
    q, r = torch.linalg.qr(x @ w)
    return [q, r]


def of_two_nodes(x, w):
    q, r = torch.linalg.qr(x)
    return [r, x * w, q]


def lower_made_later(x, w):
    """The last needs no other, and is differentiated below the second."""
    y = x * w
    return [y, y.exp(), x + w]


def lower_made_later_through_views(x, w):
    y = x * w
    view = y.t()
    return [(x - w).exp(), view, y.exp(), x + w]


def saves_results(x, w):
    return [x.exp(), w.tanh(), (x * w).sigmoid()]


def link_beside(x, w):
    hidden = x * 2
    return [hidden.sin(), hidden.sin().sum() * hidden, (x * w).sum()]


PROGRAMS = [plain, one, one_and_other_things, in_another_order, of_one_node, of_two_nodes, lower_made_later,
            lower_made_later_through_views, saves_results, link_beside, *LEVELS]


def differentiable(results):
    """Each once."""
    found = {id(r): r for r in results if isinstance(r, torch.Tensor) and r.requires_grad}
    return list(found.values())


def total(results):
    return sum((r * n).sum() for n, r in enumerate(results, 2))


def register(results, order, seen, scale=1):
    for n in order:
        def hook(grad, n=n):
            seen.append((n, None if grad is None else grad.clone()))
            return None if grad is None else grad * scale
        results[n].register_hook(hook)


def plainly(found):
    """With texts of rounded numbers for tensors."""
    if isinstance(found, torch.Tensor):
        return [f"{value:.6g}" for value in found.flatten().tolist()]
    return [plainly(item) for item in found] if isinstance(found, (list, tuple)) else found


# --- what a user may do with the results. Each gives what it sees.
def identities(results, inputs):
    return [a.grad_fn is b.grad_fn for a, b in product(results, results)]


def names(results, inputs):
    return [r.grad_fn.name() == r.grad_fn.name() and len(r.grad_fn.next_functions) > 0 for r in results]


def hooks_of_all(results, inputs):
    seen = []
    register(results, range(len(results)), seen, scale=2)
    total(results).backward()
    return seen, [i.grad for i in inputs]


def hooks_registered_backwards(results, inputs):
    seen = []
    register(results, reversed(range(len(results))), seen)
    register(results, range(len(results)), seen, scale=3)
    total(results).backward()
    return seen, [i.grad for i in inputs]


def hooks_of_all_but_some_get_nothing(results, inputs):
    seen = []
    register(results, range(len(results)), seen)
    for n in range(len(results)):
        seen.append(n)
        total(results[n : n + 1]).backward(retain_graph=True)
    return seen, [i.grad for i in inputs]


def several_roots(results, inputs):
    seen = []
    register(results, range(len(results)), seen)
    torch.autograd.backward(results, [torch.ones_like(r) for r in results])
    return seen


def multi_grad_hooks(results, inputs):
    seen = []
    for mode in ("all", "any"):
        for pair in combinations(results, 2):
            def hook(found, mode=mode):
                found = found if isinstance(found, (list, tuple)) else [found]
                seen.append((mode, [None if g is None else g.clone() for g in found]))
            register_multi_grad_hook(pair, hook, mode=mode)
    for n in range(len(results)):
        seen.append(n)
        total(results[n : n + 1]).backward(retain_graph=True)
    total(results).backward()
    return seen


def removed(results, inputs):
    seen = []
    handles = [r.register_hook(lambda grad, n=n: seen.append(n)) for n, r in enumerate(results)]
    for handle in handles[::2]:
        handle.remove()
    total(results).backward()
    return seen


def retained(results, inputs):
    for r in results[::2]:
        r.retain_grad()
    seen = []
    register(results, range(len(results)), seen, scale=2)
    total(results).backward()
    return seen, [r.grad for r in results[::2]]


def hooks_of_nodes(results, inputs):
    seen = []
    for n, r in enumerate(results):
        r.grad_fn.register_prehook(lambda grads, n=n: seen.append((n, [g is not None for g in grads])))
    total(results[:1]).backward(retain_graph=True)
    total(results).backward()
    return seen


def twice_differentiated(results, inputs):
    """Hooks see the gradients of gradients, too."""
    seen = []
    register(results, range(len(results)), seen, scale=2)
    gradients = torch.autograd.grad(total(results), inputs, create_graph=True, allow_unused=True)
    seen.append("again")
    sum((g * g).sum() for g in gradients if g is not None).backward()
    return seen, [i.grad for i in inputs]


def none_there(results, inputs):
    class NoGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    seen = []
    register(results, range(len(results)), seen)
    sum([NoGradient.apply(results[0]).sum(), *(r.sum() for r in results[1:])]).backward()
    return seen, [i.grad for i in inputs]


def written_later(results, inputs):
    seen = []
    copies = [r * 1 if r._is_view() or n % 2 else r for n, r in enumerate(results)]
    register(copies, range(len(copies)), seen)
    try:
        copies[0].mul_(2)
        total(copies).backward()
    except RuntimeError as error:
        return str(error).split("\n")[0][:60]
    return seen, [i.grad for i in inputs]


LOOKS = [identities, names, hooks_of_all, hooks_registered_backwards, hooks_of_all_but_some_get_nothing, several_roots,
         multi_grad_hooks, removed, retained, hooks_of_nodes, twice_differentiated, none_there, written_later]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_as_eager(program, look):
    compiled = compile_program(program, make(), Settings())
    found = []
    for run in (program, compiled):
        inputs = make()
        torch.manual_seed(1)
        found.append(look(differentiable(run(*inputs)), inputs))
    assert plainly(found[1]) == plainly(found[0])


# --- nothing lives longer than its results ----------------------------------------------------------------------------
class Mark:
    """Something that a hook holds."""


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("program", [plain, one, of_one_node, of_two_nodes, lower_made_later, saves_results, link_beside],
                         ids=lambda program: program.__name__)
def test_results_die_with_their_last_name(program, uncollected):
    compiled = compile_program(program, make(), Settings())
    for used in (False, True):
        results = compiled(*make())
        mark = Mark()
        for result in results:
            result.register_hook(lambda grad, mark=mark: None)
            result.grad_fn.register_prehook(lambda grads, mark=mark: None)
        if used:
            total(results).backward(retain_graph=True)
        alive = [*map(weakref.ref, results), weakref.ref(mark), weakref.ref(results[0].untyped_storage())]
        del results, result, mark
        assert [each() for each in alive] == [None] * len(alive)


def test_what_a_hook_holds_dies_with_its_result(uncollected):
    """Though another result lives on, and the node of both; also where the hook holds that other result."""
    compiled = compile_program(saves_results, make(), Settings())
    first, second, third = compiled(*make())
    mark = Mark()
    mark.other = second
    first.register_hook(lambda grad, mark=mark: None)
    alive = weakref.ref(first), weakref.ref(mark)
    del first, mark
    assert [each() for each in alive] == [None, None]
    inputs = make()
    gradients = torch.autograd.grad((second * third).sum(), inputs, allow_unused=True)
    assert gradients == (None, None)  # other inputs
    alive = weakref.ref(second), weakref.ref(third)
    del second, third
    assert [each() for each in alive] == [None, None]


def test_gradients_of_gradients_where_a_result_is_gone():
    found = []
    for run in (saves_results, compile_program(saves_results, make(), Settings())):
        inputs = make()
        _, second, third = run(*inputs)
        del _
        gradients = torch.autograd.grad((second * third).sum(), inputs, create_graph=True)
        found.append([*gradients, *torch.autograd.grad(sum((g * g).sum() for g in gradients), inputs)])
    assert plainly(found[1]) == plainly(found[0])


def test_gradients_of_gradients_for_one_tangent_of_two_results_and_then_for_two():
    def program(x, w):
        return [x * w, (x @ w).sin()]

    compiled = compile_program(program, make(), Settings())
    one, other = (torch.full((2, 2), number, dtype=torch.float64) for number in (1.0, 3.0))
    for tangents in ((one, one), (one, other), (other, one)):
        found = []
        for run in (program, compiled):
            inputs = make()
            gradients = torch.autograd.grad(run(*inputs), inputs, tangents, create_graph=True)
            found.append([*gradients, *torch.autograd.grad(sum((g * g).sum() for g in gradients), inputs)])
        assert plainly(found[1]) == plainly(found[0])


def test_a_long_chain_of_calls_dies_without_recursion():
    compiled = compile_program(plain, make(), Settings())
    x, w = make()
    for _ in range(20_000):
        _, x, _ = compiled(x, w)
    del x


def test_one_result_is_the_node_itself():
    for program in (one, one_and_other_things, of_one_node):
        compiled = compile_program(program, make(), Settings())
        x, w = make()
        node = compiled(x, w)[0].grad_fn
        assert [level.nodes for level in compiled.stages.traced.levels] == [()]
        assert {each.variable for each, _ in node.next_functions} == {x, w}
