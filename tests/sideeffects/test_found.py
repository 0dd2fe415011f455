"""What random programs found, each fault as a small program of its own."""
import gc
import itertools
import weakref

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


@pytest.mark.parametrize("items", [[1], (1,), range(1), {"a": 1}, "a"], ids=str)
def test_iterators_returned_exhausted(items):
    def program(x, items):
        iterator = iter(items)
        return x + 1, iterator, [*iterator]

    check(program, torch.ones(3), items, graphs=1)
