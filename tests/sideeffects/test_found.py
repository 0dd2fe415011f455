"""What random programs found, each fault as a small program of its own."""
import copy
import gc
import itertools
import weakref
from collections import OrderedDict

import pytest
import torch

import jit
from tests.differential import check, same_as_eager


class Held:
    """Something whose end can be seen."""


def test_an_exception_caught_inside_holds_nothing_when_it_is_gone():
    def program(held, log):
        try:
            raise ValueError(held)
        except ValueError as error:
            log.append(error)
        return len(log)

    def call(compiled):
        held, log = Held(), []
        compiled(held, log)
        log.clear()
        return weakref.ref(held)

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        held = call(compiled)
        gc.collect()
        assert held() is None


@same_as_eager(graphs=1)
def test_chains_returned_new_half_done_and_exhausted(x):
    new, begun, done = (itertools.chain([x, 1], [2]) for _ in range(3))
    return x + next(begun), new, begun, done, list(done)


SEQUENCES = [[1], (1,), range(1), {"a": 1}, OrderedDict(a=1)]


@pytest.mark.parametrize("make, items", [*itertools.product((iter, reversed), SEQUENCES), (iter, "a"), (iter, b"a")], ids=str)
def test_iterators_returned_exhausted(make, items):
    def program(x, items):
        iterator = make(items)
        return x + 1, iterator, [*iterator]

    check(program, torch.ones(3), items, graphs=1)


@pytest.mark.parametrize("again", [0, 1, 2, 3])
@pytest.mark.parametrize("make", [iter, reversed])
def test_iterators_over_a_list_that_became_shorter(make, again):
    """Past its end they wait for it to become long enough."""
    def program(x, items):
        iterator = make(items)
        next(iterator)
        begun = make(items), iterator
        del items[1:]
        items.extend(range(again))
        return x + 1, begun

    def left(result, x, items):
        items.append("late")
        return [list(iterator) for iterator in result[1]]

    check(program, make=lambda: (torch.ones(3), [1, 2, 3, 4]), graphs=1, then=left)


@pytest.mark.parametrize("method, others", [("add", (9,)), ("update", ([9, 2, 32],)), ("discard", (8,)),
                                            ("__ior__", ({9, 40},)), ("__ixor__", ({9, 8},)), ("difference_update", ([8, 0],)), ("clear", ())])
@pytest.mark.parametrize("elements", [(8, 0, 16, 24, 1), (24, 16, 8, 1), (1, 24, 0), ()], ids=str)
def test_an_existing_set_is_iterated_as_if_it_had_been_changed_here(elements, method, others):
    def program(x, held):
        getattr(held, method)(*others)
        return x + 1

    compiled = jit.compile(program, backend="eager", fullgraph=True)
    ours, theirs = set(), set()
    for element in elements:  # copies are in another order
        ours.add(element)
        theirs.add(element)
    program(torch.ones(3), theirs)
    compiled(torch.ones(3), ours)
    assert list(ours) == list(theirs)


def test_copies_of_results_are_refused_without_gradients_too():
    def program(x, w):
        y = x * w
        with torch.no_grad():
            return copy.deepcopy(y)

    check(program, torch.ones(3), torch.ones(3, requires_grad=True))
