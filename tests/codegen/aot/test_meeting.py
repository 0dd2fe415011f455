"""Operations that write what they read elsewhere: the order in which eager code goes through memory counts."""

from __future__ import annotations

import random

import pytest
import torch

from codegen.aot.meeting import meet
from tests.differential import CLOSE, check

AT = torch.tensor([2, 3, 1])


def columns_moved_on(x):
    x[:, 1:] = x[:, :-1]
    return x * 2


def running_total(x):
    x[:, 1:].add_(x[:, :-1])


def first_column_taken_off(x):
    x.sub_(x[:, :1])
    return x.sum(0)


def put_over_what_is_read(x):
    x[:, AT] = x[:, 1:4]


def added_to_what_is_read(x):
    x.index_add_(1, AT, x[:, 1:4])


def of_an_intermediate(x):
    y = x * 2
    y[:, 1:] = y[:, :-1]
    return y


def into_what_is_read(x):
    torch.add(x[:, :1], x, out=x)


def places_that_overlap(x):
    windows = x.as_strided((3, 6), (1, 1))
    windows.copy_(windows.flip(0).clone())
    return windows.sum()


PROGRAMS = [columns_moved_on, running_total, first_column_taken_off, put_over_what_is_read, added_to_what_is_read,
            of_an_intermediate, into_what_is_read, places_that_overlap]  # fmt: skip


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program, backend):
    check(program, torch.arange(1.0, 65.0).view(8, 8), backend=backend, tolerance=CLOSE)


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_an_input_that_overlaps_itself(backend):
    def turned(x):
        x.copy_(x.flip(0).clone())
        return x.sum()

    check(turned, make=lambda: (torch.arange(20.0).as_strided((5, 16), (1, 1)),), backend=backend, tolerance=CLOSE)


def test_meeting():
    """Beside the sets of all bytes."""
    draw = random.Random(0)
    memory = torch.zeros(400)
    found = []
    for _ in range(1500):
        shown, drawn = [], []
        for _ in range(2):
            dims = range(draw.randint(0, 3))
            size, step = [draw.randint(0, 4) for _ in dims], [draw.choice([0, 1, 2, 3, 5, 7, 8, 12]) for _ in dims]
            typed = memory.view(draw.choice([torch.float32, torch.float32, torch.int16, torch.float64]))
            shown.append(typed.as_strided(size, step, draw.randint(0, 9)))
            width = typed.element_size()
            first = torch.arange(typed.numel()).as_strided(size, step, shown[-1].storage_offset()).flatten() * width
            drawn.append([byte for start in first.tolist() for byte in range(start, start + width)])
        if drawn[0] != drawn[1]:
            found.append(bool(set(drawn[0]) & set(drawn[1])))
            assert meet(*shown) == found[-1], shown
    assert 200 < sum(found) < len(found) - 200
