"""Generators of random numbers that the frame is given or makes, and what is drawn from them: as in eager code."""
import random

import numpy
import pytest
import torch

from tests.differential import COUNTING, check, differentiated_ahead

BACKENDS = ["eager", differentiated_ahead, "default"]


def make():
    return (torch.arange(6.0).reshape(2, 3), random.Random(3), torch.Generator().manual_seed(4), numpy.random.default_rng(5),
            numpy.random.RandomState(6))


ONE_GRAPH = []


def one_graph(fn):
    ONE_GRAPH.append(fn)
    return fn


# --- Python's ---------------------------------------------------------------------------------------------------------
@one_graph
def choice_of_numbers(x, g, *more):
    return x * random.choice([1.0, 2.0, 3.0]) + g.choice((4, 5, 6))


@one_graph
def choice_of_words(x, g, *more):
    return x + 1, g.choice(["a", "b", "c"]), random.choice("xyz")


@one_graph
def shuffle(x, g, *more):
    order = list(range(6))
    alias = order
    random.shuffle(order)
    g.shuffle(order)
    return x * order[0] + order[1], alias, order is alias


@one_graph
def sample_and_choices(x, g, *more):
    a = random.sample(range(100), 3)
    b = g.choices([0.5, 1.5, 2.5], weights=[1, 2, 3], k=2)
    return x * a[0] - b[1], a, b


@one_graph
def distributions(x, g, *more):
    return x + g.triangular(0, 1, 0.5) * random.gammavariate(2.0, 1.0), g.betavariate(1, 2), g.randbytes(3)


@one_graph
def list_changed_after_the_choice(x, g, *more):
    items = [1, 2, 3]
    a = g.choice(items)
    items.append(4)
    return x * a, items, g.choice(items)


@one_graph
def born_and_dropped(x, g, *more):
    r = random.Random(7)
    return x * r.random() + r.randint(1, 9)


@one_graph
def born_and_returned(x, g, *more):
    r = random.Random("seed")
    a = r.gauss(0, 1)
    return x * a, r, a


@one_graph
def bounds_that_are_drawn(x, g, *more):
    return x * random.uniform(0, g.random())


# --- torch's ----------------------------------------------------------------------------------------------------------
@one_graph
def drawn_with_a_generator(x, _, g, *more):
    return x + torch.rand(2, 3, generator=g), torch.randperm(4, generator=g), torch.randint(0, 9, (2,), generator=g)


@one_graph
def made_and_seeded(x, _, g, *more):
    h = torch.Generator().manual_seed(11)
    noise = torch.randn(3, generator=h)
    return x * noise, h, g


@one_graph
def state_of_a_generator(x, _, g, *more):
    state = g.get_state()
    a = torch.rand(3, generator=g)
    g.set_state(state)
    return x + a - torch.rand(3, generator=g), state


@one_graph
def beside_the_default_one(x, _, g, *more):
    return x + torch.rand(3) + torch.rand(3, generator=g) + torch.rand(3)


@one_graph
def drawn_tensor_written_to(x, _, g, *more):
    t = torch.zeros(3) + torch.rand(3, generator=g)
    u = torch.rand(3, generator=g)
    u.mul_(2)
    return x + t + u, u


@one_graph
def drawn_tensor_returned_as_it_is(x, _, g, *more):
    u = torch.rand(3, generator=g)
    return u, [u], x + u


@one_graph
def drawn_leaf(x, _, g, *more):
    w = torch.randn(3, generator=g, requires_grad=True)
    return (x * w).sum(), w


@one_graph
def seed_of_a_generator(x, _, g, *more):
    return x + 1, g.initial_seed()


# --- torch's default one, before what the graph draws, in the midst of it and after -------------------------------------
@one_graph
def seeded_in_the_midst(x, *more):
    a = torch.rand(3)
    torch.manual_seed(5)
    b = torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(2**64 - 1)
    return x + a, b, torch.rand(2)


@one_graph
def state_put_back(x, *more):
    first = torch.get_rng_state()
    a = torch.rand(3)
    state = torch.get_rng_state()
    b = torch.rand(3)
    torch.set_rng_state(state)
    c = torch.rand(3)
    torch.set_rng_state(first)
    return x + a - torch.rand(3), b - c, state, first


@one_graph
def state_written_to(x, *more):
    state = torch.get_rng_state()
    state.copy_(state.clone())
    a = torch.rand(3)
    torch.set_rng_state(state)
    return x + a - torch.rand(3), state


@one_graph
def forked(x, *more):
    a = torch.rand(3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        b = torch.rand(3)
    return x + a, b, torch.rand(3)


@one_graph
def methods_of_the_default_one(x, *more):
    g = torch.default_generator.manual_seed(4)
    a = torch.rand(3, generator=g)
    state = g.get_state()
    b = torch.rand(3)
    same = g.set_state(state)
    return x + a, b - torch.rand(3, generator=torch.default_generator), same is g, g


@one_graph
def seed_of_the_default_one(x, *more):
    torch.manual_seed(5)
    return x * torch.initial_seed(), torch.default_generator.initial_seed()


@one_graph
def state_under_no_grad(x, *more):
    with torch.no_grad():
        state = torch.get_rng_state()
        a = torch.rand(3)
        torch.set_rng_state(state)
    return x * a * torch.rand(3)


# --- numpy's ----------------------------------------------------------------------------------------------------------
@one_graph
def numbers_of_numpy(x, _, __, g, r):
    return x * numpy.random.rand() + g.random() * r.uniform(1, 2), numpy.random.randint(9), g.normal(), r.choice(4)


@one_graph
def seeded_numpy(x, *more):
    numpy.random.seed(3)
    state = numpy.random.get_state()
    a = numpy.random.rand()
    numpy.random.set_state(state)
    return x * a - numpy.random.rand()


@one_graph
def arrays_to_tensors(x, _, __, g, r):
    a = g.standard_normal((2, 3))
    b = torch.from_numpy(r.rand(3).astype("float32"))
    return x + torch.tensor(a) * 2 + b, torch.as_tensor(numpy.random.permutation(4)), a


@one_graph
def computed_arrays(x, _, __, g, r):
    a = (g.random(4) * 2 - 1).reshape(2, 2)
    return x * a.sum().item() + len(a), a[0], a.shape, r.permutation(3).tolist()


@one_graph
def born_of_numpy(x, *more):
    g = numpy.random.default_rng(3)
    return x * g.random(), g.integers(0, 5, size=2).tolist()


@one_graph
def born_of_numpy_shuffles(x, *more):
    g, items = numpy.random.default_rng(3), [1, 2, 3, 4]
    g.shuffle(items)
    return x * items[0], items, g.random()


@one_graph
def born_of_python_shuffles(x, *more):
    g, items = random.Random(3), list(range(5))
    g.shuffle(items)
    g.shuffle(items)
    return x * items[0], items, g.choice(items), g.random()


@one_graph
def array_shared_with_a_tensor(x, _, __, g, r):
    a = g.random(3)
    t = torch.from_numpy(a)
    t.add_(1)
    return x + t, a


@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot", "default"])
@pytest.mark.parametrize("fn", ONE_GRAPH, ids=lambda fn: fn.__name__)
def test_one_graph(fn, backend):
    tolerance = None if backend == "eager" else (1e-5, 1e-5)
    check(fn, make=make, graphs=None if backend == "default" else 1, backend=backend, tolerance=tolerance,
          fullgraph=COUNTING or None)


# --- as they are, with a break ----------------------------------------------------------------------------------------
def choice_of_tensors(x, g, *more):
    return x + g.choice([x, x * 2, x * 3])


def choice_of_several_types(x, g, *more):
    return x * g.choice([1, 2.5]), g.choice(["a", 1]), g.choices([1, 2.0], k=3)


def choice_of_several_lengths(x, g, *more):
    return x + 1, g.choice([(1, 2), (3, 4, 5), ()]), random.choice([[0.5], []]), g.choices(((1, (2,)), (1, (2, 3))), k=4)


def state_that_is_none(x, *more):
    a = torch.rand(3)
    state = torch.get_rng_state() * 0 + 77
    try:
        torch.set_rng_state(state)
    except RuntimeError as error:
        return x + a, str(error)


def initial_seed_in_the_midst(x, *more):
    a = torch.rand(3)
    torch.manual_seed(5)
    return x + a, torch.initial_seed()


def read_after_it_is_shared(x, _, __, g, r):
    a = g.random(3)
    t = torch.from_numpy(a)
    t.add_(x.sum())
    return t, a.sum().item()


def written_in_place(x, _, g, *more):
    return x + torch.empty(3).normal_(generator=g)


def of_other_dtype_by_default(x, _, g, *more):
    torch.set_default_dtype(torch.float64)
    y = torch.rand(3, generator=g)
    torch.set_default_dtype(torch.float32)
    return x + y, y


def wrong_arguments(x, g, *more):
    try:
        return g.choice([])
    except IndexError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("fn", [choice_of_tensors, choice_of_several_types, choice_of_several_lengths, state_that_is_none, initial_seed_in_the_midst, read_after_it_is_shared, written_in_place,
                                of_other_dtype_by_default, wrong_arguments], ids=lambda fn: fn.__name__)
def test_as_it_is(fn):
    check(fn, make=make)


def test_a_generator_that_becomes_the_default_one():
    check(lambda x, g: x + torch.rand(3) + torch.rand(3, generator=g), make=lambda: (torch.ones(3), torch.Generator()),
          changed=lambda: (torch.ones(3), torch.default_generator))


@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot", "default"])
def test_a_state_that_is_given_and_a_derivative_s_derivative(backend):
    def program(x, state):
        y = torch.nn.functional.dropout(x.sin(), 0.5)
        torch.set_rng_state(state)
        state.copy_(torch.get_rng_state())
        z = y * torch.rand(3)
        return (z * z.cos()).sum()

    def then(result, x, state):
        (g,) = torch.autograd.grad(result, x, create_graph=True)
        return g.detach(), torch.autograd.grad(g.sum(), x), torch.rand(2)

    check(program, make=lambda: (torch.arange(1.0, 4.0).requires_grad_(), torch.Generator().manual_seed(3).get_state()),
          then=then, graphs=None if backend == "default" else 1, backend=backend, fullgraph=COUNTING or None,
          tolerance=None if backend == "eager" else (1e-5, 1e-5))
