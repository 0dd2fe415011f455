"""What whole models of other libraries were found to do, in small."""
import functools
import inspect

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

import jit
from tests.differential import check, same_as_eager, tensors


def taking(a, b, *args, c=1, **kwargs):
    pass


@same_as_eager(graphs=1)
def test_names_of_parameters_in_order(x):
    parameters = inspect.signature(taking).parameters
    return x + len(set(parameters.keys())), list(parameters), {name: p.kind.name for name, p in parameters.items()}


@same_as_eager(graphs=1)
def test_arguments_bound_to_a_signature(x):
    bound = inspect.signature(taking).bind(x, 2, 3, d=x + 1)
    bound.apply_defaults()
    arguments = bound.arguments
    return arguments["a"] + arguments["c"], list(arguments), bound.args[1:], bound.kwargs["d"]


@pytest.mark.parametrize("length", [2, 3, 7, 8])  # of one alone eager code gives gradients of one stride or another
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(length, reverse):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    def states(a, b):
        return associative_scan(combine, (a, b), dim=1, reverse=reverse, combine_mode="generic")[1].sum(1)

    check(states, *tensors(3, length, 2, count=2, requires_grad=True), graphs=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_check_of_a_tensor(backend):
    def checked(x, y):
        torch._check_tensor_all(x > 0)
        torch._check(x.shape[0] == 3)
        return x * y

    x, y = tensors(3, 4, count=2, requires_grad=True)
    check(checked, x.abs().detach(), y, graphs=1, changed=(x.detach(), y), backend=backend)


@same_as_eager(graphs=1)
def test_what_functions_born_in_the_frame_are(x):
    def plain():
        pass

    def generating():
        yield

    async def waiting():
        pass

    async def both():
        yield

    class Has:
        def method(self):
            yield

    functions = plain, generating, waiting, both, Has().method, functools.partial(generating), Has.method, len
    asked = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
    return x + 1, [[ask(each) for each in functions] for ask in asked]


@same_as_eager(graphs=1)
def test_functions_decorated_in_the_frame_run_without_gradients(x):
    @torch.no_grad()
    def double(y):
        return y * 2

    return double(x), torch.enable_grad()(lambda y: y * 3)(x)


# --- values of masks and edges that came in -----------------------------------------------------------------------------
MASK = torch.tensor([True, False, True])
EDGES = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2]])


def test_a_branch_on_a_mask_is_guarded():
    def branching(x, mask):
        if (mask > 0).flatten().any().item() and not mask.all():
            x = x * 2
        return x + 1

    (x,) = tensors(3, 4)
    check(branching, x, MASK.long(), graphs=1, changed=[(x, torch.zeros(3).long()), (x, torch.ones(3).long())])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_edges_chosen_by_a_mask(backend):
    def chosen(x, edges):
        kept = edges[:, edges[0] != edges[1]]
        return x[kept[0]].cumsum(0) * kept.shape[1], kept

    (x,) = tensors(3, 4, requires_grad=True)
    other = EDGES.flip(0)
    fewer = torch.tensor([[0, 1, 2, 0], [1, 1, 2, 0]])
    check(chosen, x, EDGES, graphs=1, changed=[(x, other), (x, fewer)], backend=backend)


@same_as_eager(graphs=1, make=lambda: (torch.randn(3, 2, 4, requires_grad=True), MASK, torch.eye(3, 2).bool()))
def test_masks_among_other_indices(x, mask, two):
    return x[mask, 1], x[mask], x[..., None][two], x[None, mask, ..., :2], x[mask, torch.tensor([0, 1])]


def test_a_mask_that_the_frame_wrote_into_breaks():
    def writing(x, mask):
        mask[0] = False
        other = ~mask
        other[1] = False
        return (x + 1 if mask.any() else x), (x + 2 if other.any() else x)

    (x,) = tensors(3, 4)
    check(writing, x, MASK, changed=[(x, torch.tensor([True, False, False]))])


def test_how_many_are_chosen_is_foreseen_once():
    compiled = jit.compile(lambda x, mask: x[mask] * 2, backend="eager")
    (x,) = tensors(8, 4)
    for number in range(40):
        mask = torch.arange(8) < number % 7
        assert torch.equal(compiled(x, mask), x[mask] * 2)


def test_random_numbers_are_not_foreseen():
    def drawing(x, weights):
        return x * 2 if torch.bernoulli(torch.ones_like(weights) * 0.5).any() and (weights > 0).all() else x

    (x,) = tensors(3, 4)
    check(drawing, x, MASK.long())
