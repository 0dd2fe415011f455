"""Sizes and places that are numbers read from tensors: `torch.zeros(int(t))`, `x[:n]`, `x.split(lengths.tolist())`.

A graph is made for sizes from 2 on and places from 0 on. With other numbers the program runs as it was written, and raises
what it raises."""

import random

import numpy
import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import COUNTING, check, tensors

BACKENDS = {"eager": None, "aot_eager": (1e-6, 1e-6), "default": (1e-5, 1e-6)}
NUMBERS = (3, 4, 2, 1, 0, 7, 9, -2)


def _world(number, requires_grad=False):
    x = (torch.arange(21.0).reshape(7, 3) / 7 - 1).requires_grad_(requires_grad)
    return x, torch.tensor(float(number))


def _made(x, t):
    n = int(t)
    return torch.zeros(n) + 1, torch.ones(n, 3), torch.arange(n), torch.full((n,), 2.5), torch.eye(n), x.new_zeros(n, 2)


def _more_made(x, t):
    n = int(t)
    return torch.arange(2, n + 2), torch.linspace(0, 1, n), torch.zeros(max(n, 2)), torch.empty(n).fill_(n), torch.zeros(n).shape, n


def _random(x, t):
    n = int(t)
    return torch.randn(n), torch.rand(n, 2) * x[0, :2], torch.randperm(n), torch.randint(0, n, (2,))


def _from_the_start(x, t):
    n = t.long().item()
    return x[:n] * 2, x[:n, 1], x[:n].sum(0), x[: n + 1].exp(), x[:, : n // 2]


def _to_the_end(x, t):
    n = int(t)
    return x[n:] * 2, x[-n:].sin(), x[:-n] + 1, x[1:n], torch.cat([x[:n], x[n:]])


def _a_row(x, t):
    n = int(t)
    return x[n] * 2, x[n, 1:], x.select(0, n), x[n // 2, n % 3], x[:, n % 3].sum()


def _views(x, t):
    n = int(t)
    return x.narrow(0, 0, n) * 2, x.narrow(0, n, 3), x[:1].expand(n, -1) + x[0], x[0].expand(n, 3), x[:1].repeat(n, 1) + 1


def _viewed(x, t):
    n = int(t)
    return torch.zeros(n * 3).view(n, -1) + x[0], x[:4].reshape(-1).view(n, -1).sum(1)


def _parts(x, t):
    lengths = torch.stack([t, 7 - t]).long().tolist()
    first, second = torch.split(x, lengths)
    again = x.split([int(t), 7 - int(t)])
    return first.sum(0), second * 2, again[0] + 1, lengths


def _repeated(x, t):
    counts = (t + torch.arange(7)).long().abs()
    return torch.repeat_interleave(x, counts, dim=0) * 2, x[:1].repeat_interleave(int(t), dim=0), torch.bincount(counts), torch.bincount(counts, minlength=20)


def _layers(x, t):
    rows = x[: int(t)]
    hidden = F.layer_norm(rows @ torch.linspace(-1, 2, 15).view(3, 5), (5,)).softmax(-1)
    return torch.cat([rows, hidden], 1), hidden.mean(), rows.t() @ rows, F.embedding(torch.arange(int(t)), x.detach())


def _masked(x, t):
    n = int(t)
    return x * (torch.arange(7)[:, None] < n), x.masked_fill(torch.arange(7)[:, None] >= n, 0.0), torch.arange(n)[None] < torch.tensor([2, 3])[:, None]


def _written(x, t):
    n = int(t)
    out = x.clone()
    out[:n] = 1.0
    out[n:] *= 2
    return out.roll(n, 0), x.tril(n), F.pad(x, (0, n)), x.topk(n, 0).values


def _classes(x, t):
    labels = (t + torch.arange(3)).long()
    return F.one_hot(labels) * x[0].sum(), F.one_hot(torch.arange(2), int(t))


def _windows_of_known_size(x, t):
    n = int(t)
    y = x[n : n + 3]
    return y * 2, y.shape, torch.ones(3, 3) + x[n : n + 3], x[1:6, n % 2 : n % 2 + 2].sum(0), x[n : n + 1] + 1


def _tensors_as_sizes(x, t):
    n = t.long()
    return torch.zeros(n) + 1, torch.ones(2, n, 3), x[:n] * 2, x[:1].expand(n, 3) * 2, x.repeat(1, n) + 1, x.new_zeros(3, n), x.narrow(0, 0, n) + 1


def _tensors_as_places(x, t):
    n = t.long()
    return x[n] * 2, x[n, 1] + 1, x[n, :2].exp(), x.roll(n, 0), x[torch.arange(3), n % 3] * 2, F.pad(x, (0, n)), torch.full((n, 2), 3.0)


def _lists_as_places(x, t):
    n = int(t)
    order = x.detach()[:, 0].argsort().tolist()
    y = x.clone()
    y[[0, n]] = 1.0
    y[:, [order[0] % 3]] += 1
    return x[order] * 2, x[[n, -1, n]] + 1, x[None, [n, 0]], x[[n, 1], order[:2] and [0, n % 3]], y, x[[n > 2, True] + [False] * 5].sum()


def _no_classes(x, t):
    return F.one_hot(torch.arange(2), num_classes=int(x.shape[0] - 7)), x + t


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_classes_raise(backend):
    check(_no_classes, *_world(3), nodes=False, backend=backend)


def _checked(x, t):
    n = int(t)
    if n > 6:
        raise ValueError(f"{n} are too many")
    assert n >= 0, "negative"
    assert n
    return x[:n] * 2


PROGRAMS = [
    _made, _more_made, _random, _from_the_start, _to_the_end, _a_row, _views, _viewed, _parts, _repeated, _layers, _masked,
    _written, _classes, _checked, _tensors_as_sizes, _tensors_as_places, _lists_as_places, _windows_of_known_size,
]  # fmt: skip


@pytest.mark.sampled(15)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_is_one_graph(program, requires_grad, backend):
    worlds = [_world(number, requires_grad) for number in NUMBERS]
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": BACKENDS[backend]}
    check(program, *worlds[0], changed=worlds[1:], graphs=1, **chosen)


@pytest.mark.parametrize("program", [_from_the_start, _to_the_end, _parts, _made, _a_row])
def test_with_sizes_of_arguments_open(program):
    worlds = [_world(number, True) for number in NUMBERS] + [(torch.randn(7, 5), torch.tensor(3.0))]
    check(program, *worlds[0], changed=worlds[1:], dynamic=True, graphs=1)


def _of_an_input(x, counts):
    first, second = x.split(counts.tolist())
    return first * 2, second.sum(0), torch.zeros(int(counts[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_ints_that_come_in_are_facts_at_first_and_then_vary(backend):
    compiled = jit.compile(_of_an_input, backend=backend)
    for count in (3, 4, 2, 5, 1, 6):
        x, counts = torch.randn(7, 3), torch.tensor([count, 7 - count])
        for one, other in zip(compiled(x, counts), _of_an_input(x, counts), strict=True):
            assert torch.allclose(one, other)


def _two_of_four(x, t):
    n = int(t)
    return x[:4].split([n, 4 - n])


def _size_and_column(x, t):
    n = int(t)
    return torch.zeros(n), x[:, n]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_two_of_four, _size_and_column])
@pytest.mark.parametrize("numbers", [(2, 3, 1, 4, 0, 2), (3, 2, 4)])
def test_where_only_one_number_is_a_usual_size(numbers, program, backend):
    """That it is this number is checked before it stands for it."""
    first, *rest = (_world(number) for number in numbers)
    check(program, *first, changed=rest, nodes=False, backend=backend, tolerance=BACKENDS[backend])


def _rows_left(x, t):
    n = (x[:, 0] > t).nonzero().shape[0] * 2
    return x.split([n, x.shape[0] - n])


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary_contradict_what_depends_on_values(backend):
    worlds = [(torch.arange(3.0 * rows).view(rows, 3), torch.tensor(most)) for rows, most in ((4, 6.0), (5, 6.0), (7, 12.0), (6, 9.0), (5, 9.0))]
    check(_rows_left, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [2, 0, 3, 7])
def test_views_by_numbers_that_were_places(number, backend):
    def program(x, t):
        n = int(t)
        return x[:n] * 2, x[:6].view(n, -1)

    check(program, *_world(2), changed=[_world(number)], backend=backend, tolerance=BACKENDS[backend])


def test_it_compiles_once():
    compiled = jit.compile(_from_the_start, backend="eager")
    for number in (3, 4, 2, 5, 6, 7):
        compiled(*_world(number))
    assert not COUNTING or len(compiled.debug_state().entries) == 1


def _written_before(x, t):
    x.add_(1)
    return x[: int(t)] * 2


def _drawn_before(x, t):
    noise = torch.rand(3)
    return x[: int(t)] * noise, torch.rand(2)


def _in_a_list(x, t, log):
    log.append(len(log))
    rows = x[: int(t)]
    log.append(rows.shape[0])
    return rows + 1


@pytest.mark.parametrize("program", [_written_before, _drawn_before])
def test_what_was_done_before_is_done_once(program):
    worlds = [_world(number) for number in NUMBERS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


def test_lists_are_written_once():
    worlds = [(*_world(number), []) for number in NUMBERS]
    check(_in_a_list, *worlds[0], changed=worlds[1:], graphs=1)


def _cropped(x):
    i, j = random.randint(0, 4), random.randint(0, 1)
    y = x[i : i + 3, j : j + 2]
    return y * 2, y.shape, random.random()


def _padded(x):
    i, j = random.randint(0, 1), random.randint(0, 2)
    y = F.pad(x, (i, j))
    return y[:, i : i + 2] * 2, y.shape, F.pad(x, (0, 0, j, 0), value=3.0)


def _cropped_by_torch(x):
    i, j = torch.randint(0, 5, (1,)).item(), torch.randint(0, 2, size=(1,)).item()
    return x[i : i + 3, j : j + 2] * 2, torch.rand(2)


def _cropped_by_numpy(x):
    i = numpy.random.randint(0, 5)
    return x[i : i + 3].exp(), numpy.random.rand()


def _cut(x):
    n = random.randrange(0, 6)
    return x[:n] + 1, torch.zeros(n), random.random(), x[n] * 2, x[random.choice([0, 1])] + 1, x.roll(n, 0)


def _shuffled(x):
    order = list(range(7))
    random.shuffle(order)
    batch = x[order[:3]]
    return batch * 2, x[random.choices(range(7), k=2)], x[random.sample(order, 2), [0, random.randint(0, 2)]], order


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_cropped, _padded, _cropped_by_torch, _cropped_by_numpy, _cut, _shuffled])
def test_random_places(program, backend):
    """What was drawn before a check fails is drawn again."""
    compiled = jit.compile(program, backend=backend, fullgraph=COUNTING)
    for seed in range(9):
        x, results = torch.randn(7, 3), []
        for function in (program, compiled):
            torch.manual_seed(seed)
            random.seed(seed)
            numpy.random.seed(seed)
            results.append(str(function(x)))
        assert results[0] == results[1]


def _many(x, t):
    return [each * 2 for each in x.chunk(int(t))] if int(t) > 0 else x


def _loop(x, t):
    for _ in range(int(t)):
        x = x + 1
    return x


def _windows(x, t):
    n = max(int(t), 1)
    return x.unfold(0, n, 1) + 1, F.adaptive_avg_pool1d(x[None], n), F.interpolate(x[None], size=n), x.diagonal(n - 1)


def _stored_at(x, t):
    out = x.clone()
    out[int(t)] = 5.0
    return out


def _lists_of_lists_as_places(x, t):
    n = int(t)
    return x[[[n, 0], [1, 2]],] * 2, x[[[n, 0], [1, 2]]] + 1


def _a_size_and_a_place(x, t):
    """What is no such size fits as a place, and the other way round."""
    n = int(t)
    return torch.zeros(n), x[:, n : n + 2]


def _a_size_of_at_most_one(x, t):
    n = int(t)
    y = torch.zeros(n)
    if n > 1:
        raise ValueError(n)
    return y + 1


def _inside_a_checkpoint(x, t):
    return torch.utils.checkpoint.checkpoint(lambda x: (x[: int(t)] * 2).exp(), x, use_reentrant=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("program", [_many, _loop, _windows, _stored_at, _lists_of_lists_as_places, _a_size_and_a_place, _a_size_of_at_most_one, _inside_a_checkpoint])
def test_other_uses_break(program, backend):
    worlds = [_world(number, True) for number in NUMBERS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=BACKENDS[backend])


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_part_of_what_a_mask_lets_through(rows):
    """Of two rows at most one is every second."""
    def program(z):
        return z[z.sum(1) > 0][::2] + 1, z[z.sum(1) > 0][1:] * 2

    (z,) = tensors(rows, 4)
    check(program, z, changed=[(z.abs() + 1,), (-z.abs(),)])
