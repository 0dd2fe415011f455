"""`pop()` of sets: which element comes depends on how the set lies in memory, and on where the last pop left off."""

import itertools
import random

import pytest
import torch

import jit
from symbolic.variables import sets
from tests.differential import COUNTING, check, same_as_eager

X = torch.ones(3)


@same_as_eager(graphs=1)
def test_what_is_added_after_a_pop_comes_later(x):
    todo = {1, 2, 3}
    first = todo.pop()
    todo.add(0)
    return x * first + todo.pop(), todo


@same_as_eager(graphs=1)
def test_a_work_list_of_the_frame(x):
    todo, order = {12, 5, 9}, []
    while todo:
        number = todo.pop()
        order.append(number)
        if number > 2:
            todo.add(number // 2)
            todo |= {number - 3}
    return x + len(order), order


@pytest.mark.parametrize("seed", range(6))
def test_steps_at_random(seed):
    """A set of the frame, its steps in any order."""
    chance = random.Random(seed)
    steps = [(chance.choice(("add", "add", "discard", "pop", "update")), chance.randrange(40)) for _ in range(80)]

    def program(x):
        found, order = {3, 30, 11}, []
        for name, number in steps:
            if name == "add":
                found.add(number)
            elif name == "discard":
                found.discard(number)
            elif name == "update":
                found |= {number, number + 1}
            elif found:
                order.append(found.pop())
        return x + len(order), order, found

    check(program, X, graphs=1)


def test_first_is_read_of_sets():
    """The place that is read is the one of what comes."""
    chance = random.Random(0)
    for _ in range(300):
        found = {chance.randrange(60) for _ in range(chance.randrange(1, 20))}
        for _ in range(chance.randrange(60)):
            if len(found) > 1 and chance.random() < 0.6:
                order, at = [*found], sets.popped_first(found)
                assert found.pop() == order[at]
            else:
                found.add(chance.randrange(60))


def _one(x, s):
    return x * s.pop(), len(s)


def _all(x, s):
    order = []
    while s:
        order.append(s.pop())
    return x * len(order), order


def _some(x, s):
    first = s.pop()
    s.discard(first + 1)
    rest = list(s)
    return x * first, s.pop(), rest, [*s]


def _fill_again(x, s):
    first = s.pop()
    s.add(first + 100)
    return x * first, len(s)


def _popped_before(*numbers, pops):
    def make():
        found = set(numbers)
        taken = [found.pop() for _ in range(pops)]
        found.update(taken)
        return X.clone(), found

    return make


@pytest.mark.parametrize("program", [_one, _all, _some, _fill_again])
@pytest.mark.parametrize("pops", [0, 1, 2, 3])
def test_of_numbers_that_came_in(program, pops):
    makes = [_popped_before(*numbers, pops=pops) for numbers in ((3, 1, 2), (30, 4, 17, 8, 1))]
    check(program, make=makes[0], changed=makes[1], recompiles=True, fullgraph=True)


def test_where_it_looks_first_is_asked():
    makes = [_popped_before(3, 1, 2, pops=pops) for pops in (0, 1, 2)]
    check(_all, make=makes[0], changed=makes[1:], recompiles=True, fullgraph=True)


def _words(x, s):
    seen = []
    while len(s) > 1:
        seen.append(s.pop())
    return x * len(seen), seen


def test_of_words():
    check(_words, make=lambda: (X.clone(), {"relu", "gelu", "tanh", "silu"}), recompiles=True, fullgraph=True)


def _layers(x, todo):
    while todo:
        x = todo.pop()(x)
    return x


def _layers_some(x, todo):
    layer = todo.pop()
    other = todo.pop()
    return layer(x) + other(x), [each(x) for each in todo], todo


def _modules():
    made = [torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.Sigmoid(), torch.nn.Softplus()]
    return X.clone(), set(made)


def _one_layer(x, todo):
    layer = todo.pop()
    return layer(x), len(todo), layer in todo


def test_of_modules():
    """Their order is by address: what was popped is what is gone, and all of them come in the end."""
    for program in (_one_layer, _layers_some, _layers):
        compiled = jit.compile(program, backend="eager", fullgraph=COUNTING)
        for _ in range(3):
            x, layers = _modules()
            twin = layers.copy()
            expected = program(x, layers)
            got = compiled(x, twin)
            first = expected if isinstance(expected, torch.Tensor) else expected[0]
            assert torch.equal(first, got if isinstance(got, torch.Tensor) else got[0])
            assert list(layers) == list(twin) and sets.popped_first(layers) == sets.popped_first(twin)


def _swap(x, s):
    tensor = s.pop()
    y = tensor + x
    s.add(y)
    return y


def test_one_tensor_out_and_another_in():
    check(_swap, make=lambda: (X.clone(), {torch.ones(3)}), recompiles=True)


def test_orders_of_few():
    for numbers in itertools.permutations((0, 8, 16)):
        check(_all, make=lambda numbers=numbers: (X.clone(), set(numbers)), recompiles=True, fullgraph=True)
