"""Random numbers from beside the graph, and the states of generators: those of eager code, after each call."""
import random

import numpy
import pytest
import torch
from torch import nn

import jit
from tests.differential import COUNTING, Counting, check, differentiated_ahead

CLOSE = (1e-5, 1e-5)
BACKENDS = ["eager", differentiated_ahead, "default"]


def make():
    return torch.arange(6.0).reshape(2, 3), random.Random(3), []


# --- Python's: (x, generator, log) ------------------------------------------------------------------------------------
def one_number(x, generator, log):
    return x * random.random()


def several_kinds(x, generator, log):
    return x * random.uniform(1, 2) + random.randint(1, 9), random.gauss(0, 1), random.getrandbits(70)


def of_an_object(x, generator, log):
    a, b = generator.random(), random.random()
    return x * a - b, generator.randrange(10), generator.normalvariate(1.0, 2.0)


def seeded(x, generator, log):
    random.seed(4)
    generator.seed("text")
    return x * random.random() + generator.random()


def seeded_in_between(x, generator, log):
    before = random.random()
    random.seed(7)
    return x * before + random.random(), random.expovariate(2.0)


def state_put_back(x, generator, log):
    state = random.getstate()
    a = random.random()
    random.setstate(state)
    return x * a, random.random(), a


def drawn_and_dropped(x, generator, log):
    random.random()
    generator.random()
    return x + 1


def computed_with(x, generator, log):
    number = random.random() * 2 - 1
    log.append(number)
    return x * number, number + 1, -number


def in_a_loop(x, generator, log):
    for _ in range(4):
        x = x * random.random() + generator.uniform(-1, 1)
    return x


def beside_torchs(x, generator, log):
    return x * random.random() + torch.rand(3), random.random()


def printed(x, generator, log):
    print("drawn", random.random() < 2)
    return x + 1


def without_a_graph(x, generator, log):
    log += [random.random(), generator.randint(1, 6)]


def as_a_size(x, generator, log):
    return torch.full((2,), random.random()), x.mul(random.randint(1, 3)).add(1, alpha=random.randint(1, 3))


# --- torch's ----------------------------------------------------------------------------------------------------------
def seed_first(x, generator, log):
    torch.manual_seed(5)
    return x + torch.randn(3), torch.rand(2)


def seed_after_work(x, generator, log):
    y = (x * 2).sin()
    torch.manual_seed(5)
    return y + torch.randn(3)


def seed_twice(x, generator, log):
    torch.manual_seed(5)
    torch.manual_seed(-6)
    return x + torch.randn(3)


def seed_last(x, generator, log):
    y = x + torch.randn(3)
    torch.manual_seed(5)
    return y * 2


def seed_in_a_callee(x, generator, log):
    def start(seed):
        torch.manual_seed(seed)
        random.seed(seed)

    start(3)
    return nn.functional.dropout(x, 0.5) * random.random()


def state_read(x, generator, log):
    return torch.get_rng_state(), x + 1


def state_read_then_drawn(x, generator, log):
    state = torch.random.get_rng_state()
    return x + torch.randn(3), state


def drawn_then_put_back(x, generator, log):
    state = torch.get_rng_state()
    y = x + torch.randn(3)
    torch.set_rng_state(state)
    return y * 2


def forked(x, generator, log):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        y = x + torch.randn(3)
    return y * 2


def forked_with_nothing_drawn(x, generator, log):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
    return x + torch.randn(3)


WHOLE = [
    one_number, several_kinds, of_an_object, seeded, seeded_in_between, state_put_back, drawn_and_dropped, computed_with,
    in_a_loop, beside_torchs, as_a_size, seed_first, seed_after_work, seed_twice, seed_last, seed_in_a_callee,
    state_read, state_read_then_drawn, drawn_then_put_back, forked, forked_with_nothing_drawn,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


@pytest.mark.break_everywhere
def test_no_graph():
    check(without_a_graph, make=make, graphs=0)


# --- what breaks ------------------------------------------------------------------------------------------------------
def decided_by(x, generator, log):
    return x + 1 if random.random() < 0.5 else x - 1


def chosen(x, generator, log):
    return x * random.choice([1.0, 2.0, 3.0]), random.sample(range(10), 3)


def shuffled(x, generator, log):
    log += [1, 2, 3, 4]
    random.shuffle(log)
    return x * log[0]


def refused(x, generator, log):
    try:
        random.randint(5, 1)
    except ValueError as error:
        log.append(type(error).__name__)
    return x * random.random()


def made_inside(x, generator, log):
    own = random.Random(3)
    return x * own.random(), own.randint(1, 9)


def seeded_by_the_clock(x, generator, log):
    random.seed()
    random.seed(3)
    return x * random.random()


def drawn_seeded_drawn(x, generator, log):
    a = torch.randn(3)
    torch.manual_seed(5)
    return x + torch.randn(3), a


def put_back_and_drawn(x, generator, log):
    state = torch.get_rng_state()
    a = torch.randn(3)
    torch.set_rng_state(state)
    return x + a, torch.randn(3)


def forked_and_drawn(x, generator, log):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        y = x + torch.randn(3)
    return y, torch.randn(3)


def state_looked_at(x, generator, log):
    return torch.get_rng_state().float().sum() + x


def generator_of_torch(x, generator, log):
    own = torch.Generator().manual_seed(3)
    state = own.get_state()
    a = torch.randn(3, generator=own)
    own.set_state(state)
    log += [own.initial_seed(), torch.initial_seed()]
    return x + a, torch.rand(2, generator=own), torch.empty(3).normal_(generator=own)


def generator_that_came_in(x, generator, log):
    return x + torch.randn(3, generator=log[0]), torch.randperm(4, generator=log[0])


def make_with_generator():
    return torch.arange(3.0), random.Random(3), [torch.Generator().manual_seed(7)]


def numpys(x, generator, log):
    numpy.random.seed(3)
    a = x * float(numpy.random.rand()) + int(numpy.random.randint(5))
    return a, x + torch.from_numpy(numpy.random.randn(3)), list(numpy.random.permutation(3))


def numpys_generators(x, generator, log):
    own = numpy.random.default_rng(3)
    return x * own.random() + int(own.integers(5)), x * numpy.random.RandomState(2).uniform()


class Doubled(random.Random):
    def random(self):
        return super().random() * 2


def of_a_subclass(x, generator, log):
    return x * log[0].random() + log[0].uniform(0, 1)


def make_with_subclass():
    return torch.arange(3.0), random.Random(3), [Doubled(2)]


@pytest.mark.break_everywhere
@pytest.mark.parametrize(
    "program, make",
    [(each, make) for each in (
        decided_by, chosen, shuffled, refused, made_inside, seeded_by_the_clock, drawn_seeded_drawn, put_back_and_drawn,
        forked_and_drawn, state_looked_at, generator_of_torch, numpys, numpys_generators, printed)]
    + [(generator_that_came_in, make_with_generator), (of_a_subclass, make_with_subclass)],
    ids=lambda value: value.__name__)
def test_breaks_where_the_value_is_needed(program, make):
    check(program, make=make)


# --- more than one call -----------------------------------------------------------------------------------------------
@pytest.mark.skipif(not COUNTING, reason="counts graphs")
def test_other_numbers_at_each_call():
    counter = Counting()
    compiled = jit.compile(lambda x: (x * random.random() + random.randint(1, 100), torch.rand(2)), backend=counter)
    x, found = torch.ones(2), []
    for call in (lambda x: (x * random.random() + random.randint(1, 100), torch.rand(2)), compiled):
        random.seed(1)
        torch.manual_seed(1)
        found.append([call(x) for _ in range(5)])
    torch.testing.assert_close(found[1], found[0])
    counter.expect(1)


def fails(x, generator, log):
    log.append(random.random())
    torch.manual_seed(11)
    y = torch.linalg.cholesky(x) * generator.random()
    return y, random.random()


def fails_and_goes_on(x, generator, log):
    try:
        y = torch.linalg.cholesky(x) * generator.random()
    except RuntimeError:
        y = x * random.random()
    return y, torch.initial_seed()


@pytest.mark.parametrize("program", [fails, fails_and_goes_on], ids=lambda program: program.__name__)
def test_an_operation_that_raises_leaves_the_states_of_eager_code(program):
    """The graph raises, and the frame runs once more: from the states that there were before."""
    def good():
        return torch.eye(3), random.Random(3), []

    def bad():
        return -torch.eye(3), random.Random(3), []

    check(program, make=good, changed=bad)


def a_dead_number(x, generator, log):
    torch.rand(2)


def dead_numbers_beside_an_input(x, generator, log):
    torch.nn.functional.dropout(torch.randn_like(x), 0.5)
    return x


def dead_numbers_beside_a_write(x, generator, log):
    x.add_(1)
    torch.randperm(5)


def dead_numbers_before_live_ones(x, generator, log):
    torch.rand(2)
    return torch.rand(3)


def a_check_alone(x, generator, log):
    torch.linalg.cholesky(x[:, :2] - 5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [a_dead_number, dead_numbers_beside_an_input, dead_numbers_beside_a_write, dead_numbers_before_live_ones, a_check_alone],
    ids=lambda program: program.__name__,
)
def test_what_nobody_uses_still_happens(program, backend):
    check(program, make=make, backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("seed", range(3))
def test_how_many_are_drawn_is_drawn(seed):
    def program(x):
        random.seed(seed)
        count = random.randrange(1, 6)
        letters = random.choices("abcde", k=count)
        some = random.sample(range(20), random.randrange(1, 6))
        return x + count, letters, some, random.choices("abc", weights=[count, 1, 1], k=3)

    check(program, torch.ones(3))


def test_arrays_whose_size_is_drawn():
    def program(x):
        generator = numpy.random.RandomState(0)
        count = generator.randint(1, 6)
        return x + torch.from_numpy(generator.rand(count)).sum(), generator.uniform(0, count, size=3).tolist()

    check(program, torch.ones(3))


def test_letters_drawn_are_compared():
    def program(x):
        random.seed(1)
        letters = random.choices("abcd", [1, 0, 0, 0])
        seen = [letters == ["a"], letters[0] == "a", "a" == letters[0], letters[0] in {"a": 1}]
        return x + 1, seen, random.randbytes(0) == b"", 1 if random.randbytes(0) else 2, letters[0] is None

    check(program, torch.ones(3))


def test_a_generator_that_draws_otherwise(monkeypatch):
    def program(x):
        numbers, generator = [0.25, 0.5, 0.75], random.Random(0)
        generator.random = numbers.pop
        first = generator.uniform(0, 1)
        jit.graph_break()
        return x + generator.uniform(0, 1), first, generator.triangular(), numbers

    check(program, torch.ones(3))

    def other(x):
        return x + random.gauss(0, 1), random.uniform(0, 1), len(drawn)

    drawn = []
    original = random.Random.random
    monkeypatch.setattr(random.Random, "random", lambda self: drawn.append(1) or original(self))
    found = []
    for function in (other, jit.compile(other, backend="eager")):
        drawn.clear()
        random.seed(0)
        found.append([(x.tolist(), *more) for x, *more in (function(torch.ones(1)), function(torch.ones(1)))])
    assert found[0] == found[1]
