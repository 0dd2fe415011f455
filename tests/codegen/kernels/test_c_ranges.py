"""Loops in C that fall into ranges: places asked for in each way, what may be read in some of them only, all lengths."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn import functional as F

from codegen.kernels import index as ix
from codegen.kernels.c import print_c
from codegen.kernels.c_ranges import ranges
from codegen.kernels.index import Index, Symbol, index
from codegen.kernels.ir import Buffer, Expr, Kernel, Loop, Store, literal, load, op, position
from tests.codegen.kernels.c_runs import compare
from tests.differential import check

F32, B = torch.float32, torch.bool
COMPARISONS = ["lt", "le", "gt", "ge"]


def asks(name: str, left: ix.Integer, right: ix.Integer) -> Expr:
    return op(name, B, position(left), position(right))


def both(*conditions: Expr) -> Expr:
    found = conditions[0]
    for condition in conditions[1:]:
        found = op("and", B, found, condition)
    return found


def kernel_of(value: Expr, axes: tuple[Symbol, ...], sizes: dict[str, int], symbols: tuple[Symbol, ...] = ()) -> Kernel:
    """One that stores a value for each place of its axes."""
    row, lane = axes
    given = [Buffer(name, F32, index(size), "in") for name, size in sizes.items()]
    out = Buffer("out", F32, row.size * lane.size, "out")
    at = index(row) * lane.size + index(lane)
    return Kernel("ranged", axes, (Loop((), (Store("out", at, value),)),), (*given, out), symbols)


def run(kernel: Kernel, sizes: tuple[int, ...] = ()) -> None:
    numbers = dict(zip(kernel.sizes, sizes, strict=True))
    given = {b.name: torch.randn(ix.evaluate(b.size, numbers.__getitem__)) for b in kernel.buffers}
    compare(kernel, given, sizes, exact=True)


def rows_and_lanes(rows: ix.Integer, lanes: ix.Integer) -> tuple[Symbol, Symbol, Index, Index]:
    row, lane = Symbol("p", index(rows)), Symbol("q", index(lanes))
    return row, lane, index(row), index(lane)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("slope", [1, -1])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("place", [-40, -1, 0, 1, 6, 12, 13, 14, 40])
def test_each_comparison_changes_its_answer_at_its_own_place(name, slope, swapped, place):
    row, lane, p, q = rows_and_lanes(3, 13)
    left, right = (q * slope, index(place)) if not swapped else (index(place), q * slope)
    value = op("where", F32, asks(name, left, right), load("a", q, F32), load("b", p, F32))
    kernel = kernel_of(value, (row, lane), {"a": 13, "b": 3})
    assert len(ranges(kernel.loops[0].body, lane)) == 2
    run(kernel)


@pytest.mark.parametrize("lanes", [1, 2, 7, 8, 33])
@pytest.mark.parametrize("shift", [-3, 0, 2])
def test_what_may_be_read_in_one_range_only_is_not_read_before_it(lanes, shift):
    """The element of the row exists only where the range has rounds: `a` has none before its first."""
    row, lane, p, q = rows_and_lanes(9, lanes)
    inside = asks("lt", q, p + shift)  # some rows have no such place: there p + shift - 1 is no place of `a`
    value = op("where", F32, inside, load("a", p + shift - 1, F32, inside), literal(7.0, F32))
    run(kernel_of(value, (row, lane), {"a": 9 + max(shift, 0)}))


@pytest.mark.parametrize("name", ["lt", "ge"])
def test_a_row_that_is_asked_for_is_not_read_elsewhere(name):
    row, lane, p, q = rows_and_lanes(6, 11)
    of_row = asks(name, p, 3)
    first = 0 if name == "lt" else 3
    inside = both(of_row, asks("ge", q, 2))
    value = op("where", F32, inside, load("a", p - first, F32, inside), load("b", q, F32))
    run(kernel_of(value, (row, lane), {"a": 3, "b": 11}))


@pytest.mark.parametrize("seed", range(40))
def test_drawn_conditions(seed):
    """Elements of other tensors where several comparisons hold, one in another."""
    draw = random.Random(seed)
    rows, lanes = draw.choice([1, 2, 5, 17]), draw.choice([1, 3, 8, 16, 31, 64, 100])
    row, lane, p, q = rows_and_lanes(rows, lanes)

    def condition() -> Expr:
        place = index(draw.randint(-2, lanes + 2)) + (p * draw.choice([-1, 1]) if draw.random() < 0.2 else 0)
        of_row = asks(draw.choice(COMPARISONS), p, draw.randint(-1, rows))
        of_lane = asks(draw.choice(COMPARISONS), q * draw.choice([1, 1, -1]), place)
        found = draw.choice([of_lane, of_lane, both(of_lane, of_row), op("or", B, of_lane, of_row)])
        return op("not", B, found) if draw.random() < 0.2 else found

    def value(depth: int) -> Expr:
        if depth == 0:
            return draw.choice([load("a", p * lanes + q, F32), load("b", q, F32), literal(draw.random(), F32)])
        chosen = condition()
        first = load("a", p * lanes + q, F32, chosen) if draw.random() < 0.4 else value(depth - 1)
        return op("add", F32, op("where", F32, chosen, first, value(depth - 1)), value(0))

    run(kernel_of(value(draw.randint(1, 3)), (row, lane), {"a": rows * lanes, "b": lanes}))


@pytest.mark.parametrize("sizes", [(1, 1), (5, 7), (0, 9), (9, 0), (64, 3)])
def test_sizes_that_each_call_gives(sizes):
    """`cat` of two tensors of any lengths."""
    n, m = Symbol("n"), Symbol("m")
    row, lane, p, q = rows_and_lanes(4, index(n) + index(m))
    first, second = asks("lt", q, index(n)), asks("ge", q, index(n))
    b = load("b", p * index(m) + q - index(n), F32, second)
    value = op("where", F32, first, load("a", p * index(n) + q, F32, first), b)
    kernel = kernel_of(value, (row, lane), {"a": index(n) * 4, "b": index(m) * 4}, (n, m))
    assert len(ranges(kernel.loops[0].body, lane)) == 2
    run(kernel, sizes)


def test_places_whose_order_is_not_known_are_left_as_they_are():
    n = Symbol("n")
    row, lane, p, q = rows_and_lanes(4, 20)
    value = op("where", F32, asks("lt", q, 5), literal(1.0, F32), literal(2.0, F32))
    value = op("where", F32, asks("lt", q, index(n)), value, literal(3.0, F32))
    kernel = kernel_of(value, (row, lane), {}, (n,))
    assert len(ranges(kernel.loops[0].body, lane)) == 1
    for size in (0, 3, 5, 9, 30):
        run(kernel, (size,))


def test_a_concatenation_has_a_loop_for_each_part_and_no_masks():
    row, lane, p, q = rows_and_lanes(4, 64)
    first = asks("lt", q, 16)
    value = op("where", F32, first, load("a", p * 16 + q, F32, first), load("b", p * 48 + q - 16, F32, op("not", B, first)))
    text = print_c([kernel_of(value, (row, lane), {"a": 64, "b": 192})])
    assert text.count("#pragma omp simd") == 2
    assert " ? " not in text.partition("int ranged")[2].replace("left < 64 - q_first ? q_first + left : 64", "")


@pytest.mark.parametrize("apart", [2, 15, 16, 961, 1024])
def test_far_lanes_are_so_far_apart_as_nobody_knows(apart):
    """gcc took one element of a thousand out of all of them by shuffles, for a batch norm whose gradient lies across."""
    row, lane, p, q = rows_and_lanes(3, 20)
    kernel = kernel_of(load("a", p * 20 * apart + q * apart, F32), (row, lane), {"a": 60 * apart})
    text = print_c([kernel])
    assert (f"unknown({apart})" in text) is (apart >= 16) is (f"q * {apart}" not in text)
    run(kernel)


PROGRAMS = {
    "two": lambda x: torch.cat([x * 2, x.relu()], -1) + 1,
    "four": lambda x: torch.cat([x, x * 2, x[:, :1], x.exp()], 1),
    "five": lambda x: torch.cat([x, x * 2, x[:, :1], x.exp(), x[:, 1:2]], 1),
    "rows": lambda x: torch.cat([x * 2, x + 1], 0) * 3,
    "stacked": lambda x: torch.stack([x * 2, x + 1], -1) * 3,
    "padded": lambda x: F.pad(x.relu(), (1, 2, 3, 1)) * 2,
    "padded by a number": lambda x: F.pad(x, (2, 0), value=4.0).exp(),
    "cut and padded": lambda x: F.pad(x, (-1, 3, 2, -1)) + 1,
    "rolled": lambda x: torch.roll(x, (1, 2), (0, 1)) + x,
    "triangles": lambda x: x.tril() + 2 * x.triu(1),
    "written slice": lambda x: x.slice_scatter(x[:, :2] * 5, 1, 1, 3) + 1,
    "written row": lambda x: x.select_scatter(x[0] * 5, 0, 1) + 1,
    "places": lambda x: torch.where(torch.arange(x.shape[1]) < 3, x, -x),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", [(4, 8), (3, 5), (6, 70)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs(program, shape):
    check(program, torch.randn(shape, requires_grad=True), backend="default", tolerance=(1e-5, 1e-6))
