"""Writes into arrays that came in, beside checks of numbers, and numbers beside arrays as indices."""
import warnings

import numpy as np
import pytest

from tests.differential import check


def rows(seed=0, shape=(3, 4)):
    return np.random.RandomState(seed).randn(*shape).round(2).astype("float32")


def whole(a, b):
    a *= 2
    return a


def part(a, b):
    a[1:] *= b[1:]
    return a


def assigned(a, b):
    a[0] = b[1] * 3 + 1
    return a, b


def one_after_the_other(a, b):
    a *= 2
    a += b
    a[1] = a[0] / 3
    return a.sum()


def at_places(a, b):
    a[[0, 2]] = b[1:]
    a[[0, 1], [2, 3]] = b[0, :2]
    a[:, [0, 3]] -= 1
    a[-1, [0, 1]] *= 2
    return a


def at_places_that_are_computed(a, b):
    places = np.argsort(b[0], kind="stable")
    c = np.zeros(4, np.float32)
    c[places] = b[1]
    return c, a[:, places]


def one_number_at_places(a, b):
    a[[0, 2], [0, 1]] = 1
    a[[0, 2], 1] = 2
    a[np.array([0, 0])] = 3
    return a


def in_a_view(a, b):
    c = a.T
    c[1:] += b.T[1:]
    return c, a


PROGRAMS = [
    whole, part, assigned, one_after_the_other, at_places, at_places_that_are_computed, one_number_at_places, in_a_view
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes(program, backend):
    large, infinite = rows(), rows()
    large[1, 2], infinite[1, 2] = 3e38, np.inf
    changed = [(rows(3), rows(4)), (large, rows(5)), (infinite, rows(6)), (rows(3), infinite)]
    check(program, rows(), rows(1), graphs=1, changed=changed, backend=backend, tolerance=(1e-6, 1e-6))


def test_warnings_after_a_write():
    """What was written before a check that fails is written once."""

    def program(a):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            a += 1
            a *= 2
            b = a * 3
        return a, b, [str(each.message) for each in heard]

    large = rows()
    large[0, 0] = 1e38
    check(program, rows(), changed=[(large,)])


def test_places_that_are_there_twice():
    def program(a, places):
        a[places] = np.arange(8, dtype=np.float32).reshape(2, 4)
        return a

    changed = [(rows(), np.array(each)) for each in ([1, 1], [-1, 2], [2, 0])]
    check(program, rows(), np.array([0, 2]), graphs=1, changed=changed)


def test_places_known_to_be_there_twice():
    def program(a):
        a[[1, 1]] = np.arange(8, dtype=np.float32).reshape(2, 4)
        a[[2, -1]] = np.arange(8, dtype=np.float32).reshape(2, 4)
        return a

    check(program, rows())


def test_a_number_beside_an_array_is_one():
    """To numpy a number is an array of it, and moves dimensions as one; to torch it is none."""

    def program(a):
        b = a[0, :, [0, 1]], a[[0, 1], :, 1], a[0, [1, 0], :], a[:, 0, [1, 0]], a[None, [0, 1], :, 0]
        a[0, :, [0, 1]] = np.array([[1.0, 2], [3, 4]], np.float32)
        return a, b

    check(program, rows(shape=(2, 2, 2)), graphs=1)
