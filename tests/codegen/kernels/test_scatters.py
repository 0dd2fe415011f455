"""Elements put where other elements say: the same bits as eager code's, in its order, errors and what they leave too."""

from __future__ import annotations

import pytest
import torch

import jit
from codegen.kernels import evaluate, ir
from codegen.kernels import index as ix
from codegen.kernels.check import Malformed, check
from codegen.kernels.evaluate_program import run_program
from codegen.kernels.ir import Buffer, Kernel, Loop, Store
from codegen.kernels.schedule import schedule
from codegen.kernels.triton import print_triton
from tests.codegen.kernels import c_runs, triton_runs
from tests.codegen.kernels.lowered import lowered
from tests.codegen.kernels.test_triton_compile import compiles

ROWS, COLUMNS = 300, 24


def data(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(len(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randint(-50, 50, shape, generator=generator, dtype=dtype)


def places(*shape, below=9):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(1))


PROGRAMS = {
    "index_put": lambda x, v, at: x.index_put((at,), v * 3, accumulate=True),
    "index_put that replaces": lambda x, v, at: x.index_put((torch.arange(8, 2, -1),), v[:6] - 1),
    "index_put of two": lambda x, v, at: x.index_put((at, at % 4), v[:, 0], accumulate=True),
    "index_put of columns": lambda x, v, at: torch.ops.aten.index_put(x.t(), [None, at], v.t(), True),
    "index_put from behind": lambda x, v, at: x.index_put((at - 9,), v, accumulate=True),
    "index_put of one row": lambda x, v, at: x.index_put((at,), v[0], accumulate=True),
    "index_put in a corner": lambda x, v, at: x.index_put((at[:, None], at[None, :7] % 8), v[:, :7], accumulate=True),
    "index_put apart": lambda x, v, at: torch.ops.aten.index_put(v[:36].reshape(9, 12, 8), [at, None, at % 8], v[:, :12], True),
    "index_add": lambda x, v, at: x.index_add(0, at, v),
    "index_add of halves": lambda x, v, at: x.half().index_add(0, at, v.half()),
    "index_add of columns": lambda x, v, at: x.t().index_add(1, at, v.t() * 2),
    "index_add of doubles": lambda x, v, at: x.double().index_add(0, at.int(), v.double()),
    "index_copy": lambda x, v, at: x.index_copy(0, torch.arange(8, -1, -1), v[:9] + 1),
    "scatter": lambda x, v, at: x.scatter(1, at[:9, None] % 4, v[:9, :1] * 2),
    "scatter of a number": lambda x, v, at: x.scatter(0, at[:, None], 0.5),
    "one of each line": lambda x, v, at: torch.zeros(9, 24).scatter(1, at[:9, None], v[:9, :1]) + x,
    "one of each column": lambda x, v, at: torch.full((9, 24), 2.0).scatter(0, at[None, :24], 0.5) * x,
    "one of fewer lines": lambda x, v, at: torch.zeros(9, 24).scatter(1, at[:5, None], v[:9, :1]) + x,
    "none of nothing": lambda x, v, at: torch.zeros(9, 0).scatter(1, at[:0, None], v[:9, :1]).sum() + x,
    "scatter_add": lambda x, v, at: x.scatter_add(0, at[:, None].expand_as(v), v),
    "scatter_add of all places": lambda x, v, at: x.scatter_add(0, (v * 4).long().abs() % 9, v),
    "scatter_add along rows": lambda x, v, at: v.scatter_add(1, (v * 4).long().abs() % 24, v),
    "scatter_add of fewer": lambda x, v, at: x.scatter_add(0, (v * 4).long().abs()[:5, :7] % 9, v),
    "scatter_reduce": lambda x, v, at: x.scatter_reduce(0, at[:, None].expand_as(v), v, "amax"),
    "the least": lambda x, v, at: x.scatter_reduce(0, at[:, None].expand_as(v), v, "amin"),
    "a product": lambda x, v, at: x.scatter_reduce(0, at[:, None].expand_as(v), v.sign(), "prod"),
    "integers": lambda x, v, at: at.clone().index_put((at,), at * 5, accumulate=True),
    "bools": lambda x, v, at: (x > 0).index_put((at,), v[0] > 0),
    "one after the other": lambda x, v, at: x.index_add(0, at, v).index_add(0, at.flip(0), v * 2) + 1,
    "what was there is read, too": lambda x, v, at: (y := x * 2, y.index_add(0, at, v), y + 1)[1:],
    "nothing": lambda x, v, at: x.index_add(0, at[:0], v[:0]),
}  # fmt: skip


def same(a, b):
    assert a.dtype == b.dtype and a.stride() == b.stride()
    assert torch.equal(a.nan_to_num(nan=7.5), b.nan_to_num(nan=7.5)), (a, b)


def compiled(function, **options):
    jit.reset()
    return jit.compile(function, backend="default", **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_of_eager_code(name):
    x, v, at = data(9, COLUMNS), data(ROWS, COLUMNS), places(ROWS)
    program = PROGRAMS[name]
    expected = program(x, v, at)
    found = compiled(program)(x, v, at)
    for a, b in zip(*([each] if isinstance(each, torch.Tensor) else each for each in (expected, found)), strict=True):
        same(a, b)


@pytest.mark.parametrize("name", ["index_put", "index_put of columns", "scatter_add along rows", "scatter_reduce"])
def test_programs_mean_what_eager_code_does(name):
    x, v, at = data(9, COLUMNS), data(20, COLUMNS), places(20)
    found = lowered(PROGRAMS[name], [x, v, at])
    assert not [each for each in found.called if "scatter" in each or "index" in each]
    given = {f"primals_{n}": value for n, value in enumerate((x, v, at), 1)}
    (result,) = run_program(found.program, given)[:1]
    same(PROGRAMS[name](x, v, at), result)


@pytest.mark.parametrize("dynamic", [False, True])
def test_derivatives(dynamic):
    def program(x, at, w):
        return (x[at] * w).sum(-1), x.gather(0, at[:, None].expand(-1, 3)), torch.nn.functional.embedding(at, x, padding_idx=2)

    run = compiled(program, dynamic=dynamic)
    for rows in (40, 41):
        x, at, w = data(9, 16).requires_grad_(), places(rows), data(rows, 16)
        theirs, mine = (torch.autograd.grad([r.sum() * 0.5 for r in f(x, at, w)], x) for f in (program, run))
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("program", [
    lambda x, at: (y := x * 2).scatter_reduce(0, at, y, "mean"),
    lambda x, at: (y := x > 0).scatter_reduce(0, at, y, "sum"),
    lambda x, at: (y := x * 2).masked_scatter(x > 0, y),
    lambda x, at: (y := x * 2).scatter_reduce(0, at, y.flip(0).flip(0), "mean"),
])  # fmt: skip
def test_what_is_put_into_itself(program):
    """By ATen, which writes into the old tensor only where that is not read, too."""
    x, at = data(9, 24), places(9, 24)
    same(program(x, at), compiled(program)(x, at))


# --- what lies where --------------------------------------------------------------------------------------------------
def copies(function, *args):
    """How many stores kernels have besides those into elements that others name."""
    found = lowered(function, args)
    made = schedule(found.program)
    body = [each for kernel in made.kernels for loop in kernel.loops for each in loop.body if isinstance(each, Store)]
    return sum(each.into is None for each in body)


def cached(known, new, at):
    known[:, at] = new
    return known.sum(0)


def cached_twice(known, new, at):
    known.index_copy_(1, at, new)
    known.index_add_(1, at + 1, new)


def cached_and_read_before(known, new, at):
    before = known * 2
    known.index_copy_(1, at, new)
    return before + known


def cached_and_given(known, new, at):
    known.index_copy_(1, at, new)
    return known.t(), known.clone()


def cached_and_changed(known, new, at):
    known.index_copy_(1, at, new)
    known.mul_(2)
    return known + 1


def cached_of_itself(known, new, at):
    known.copy_(known.index_add(0, torch.tensor([1, 0, 3, 2]), known))


def cached_of_its_part(known, new, at):
    known.copy_(known.index_copy(1, at, known[:, 2:4]))
    return known * 2


def cached_by_itself(known, new, at):
    known.index_put_((torch.arange(4), known.argmax(1)), new[:, 0], accumulate=True)


CACHES = [
    cached, cached_twice, cached_and_read_before, cached_and_given, cached_and_changed, cached_of_itself, cached_of_its_part,
    cached_by_itself,
]  # fmt: skip


@pytest.mark.parametrize("program", CACHES)
def test_inputs_are_written_in_place(program):
    given = data(4, 9), data(4, 2), torch.tensor([3, 6])
    mine, theirs = ([each.clone() for each in given] for _ in range(2))
    expected, found = program(*theirs), compiled(program)(*mine)
    for a, b in zip(theirs, mine, strict=True):
        same(a, b)
    if expected is not None:
        for a, b in zip(*([each] if isinstance(each, torch.Tensor) else each for each in (expected, found)), strict=True):
            same(a, b)


def test_nothing_but_the_new_elements_is_written():
    assert copies(cached, data(4, 9), data(4, 2), torch.tensor([3, 6])) == 1  # the sum
    assert copies(cached_twice, data(4, 9), data(4, 2), torch.tensor([3, 6])) == 0
    assert copies(cached_and_read_before, data(4, 9), data(4, 2), torch.tensor([3, 6])) == 3
    assert copies(lambda x, v, at: x.index_add(0, at, v), data(9, 24), data(30, 24), places(30)) == 1  # of the base
    assert copies(lambda v, at: torch.zeros(9, 24).index_add(0, at, v), data(30, 24), places(30)) == 1  # the zeros
    assert copies(lambda v, at: torch.zeros(9, 24).index_add(0, at, v).index_add(0, at, v), data(30, 24), places(30)) == 1


OUTSIDE = {
    "index_put_": lambda x, v, at: x.index_put_((at,), v, accumulate=True),
    "scatter_add": lambda x, v, at: x.scatter_add(0, at[:, None].expand_as(v), v),
    "index_copy_": lambda x, v, at: x.index_copy_(0, at, v),
    "scatter": lambda x, v, at: x.scatter(0, at[:, None].expand_as(v), v),
    "index_add": lambda x, v, at: x.index_add(0, at, v) * 2,
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_places_outside(name):
    """The error is eager code's, and what it had written by then is written."""
    outcomes = []
    for run in (OUTSIDE[name], compiled(OUTSIDE[name])):
        x, v, at = torch.zeros(6, 16), data(4, 16), torch.tensor([1, 3, 7, 2])
        with pytest.raises((IndexError, RuntimeError)) as caught:
            run(x, v, at)
        outcomes.append((caught.type, str(caught.value), x.tolist()))
    assert outcomes[0] == outcomes[1]


# --- kernels ----------------------------------------------------------------------------------------------------------
def kernel(kind, columns, rounds, dtype=torch.float32, turned=False):
    """b2[at[i], j], combined with the value of round i."""
    column, step = ix.axis("p", 0, ix.index(columns)), ix.axis("q", 0, ix.index(rounds))
    at = ir.op("check_index", torch.int64, ir.load("b1", ix.index(step), torch.int64), ir.literal(7, torch.int64))
    place = ix.index(column) * 7 + ix.index(ix.Value(at, ix.index(7))) if turned else ix.index(ix.Value(at, ix.index(7))) * columns + column
    value = ir.load("b0", ix.index(step) * columns + column, dtype)
    buffers = (
        Buffer("b0", dtype, ix.index(rounds * columns), "in"), Buffer("b1", torch.int64, ix.index(rounds), "in"),
        Buffer("b2", dtype, ix.index(7 * columns), "inout"),
    )  # fmt: skip
    body = (Store("b2", place, value, into=kind),)
    return Kernel(f"put_{kind}", (column,), (Loop((step,), body),), buffers)


def memory(columns, rounds, dtype=torch.float32):
    return {"b0": data(rounds * columns, dtype=dtype), "b1": places(rounds, below=7), "b2": data(7 * columns, dtype=dtype)}


KINDS = [("sum", torch.float32), ("last", torch.bfloat16), ("max", torch.float32), ("min", torch.float64), ("prod", torch.int32)]


@pytest.mark.parametrize("kind, dtype", KINDS)
@pytest.mark.parametrize("columns, turned", [(1, False), (33, False), (20, True)])
def test_c_does_what_the_evaluator_does(kind, dtype, columns, turned):
    made = kernel(kind, columns, 12, dtype, turned)
    c_runs.compare(made, memory(columns, 12, dtype), exact=True)
    outside = memory(columns, 12, dtype)
    outside["b1"][3] = 7
    c_runs.compare(made, outside)


@pytest.mark.parametrize("kind, dtype", [("sum", torch.float32), ("sum", torch.int64), ("max", torch.int32), ("min", torch.int64)])
@pytest.mark.parametrize("columns, turned", [(1, False), (33, False), (20, True)])
def test_triton_does_what_the_evaluator_does(kind, dtype, columns, turned):
    made = kernel(kind, columns, 12, dtype, turned)
    triton_runs.compare(made, memory(columns, 12, dtype))
    outside = memory(columns, 12, dtype)
    outside["b1"][3] = 7
    triton_runs.compare(made, outside)


@pytest.mark.parametrize("kind, dtype", [("sum", torch.float32), ("sum", torch.float64), ("max", torch.int32)])
def test_triton_compiles(kind, dtype):
    compiles(kernel(kind, 33, 12, dtype), 90)


@pytest.mark.parametrize("kind, dtype", [("last", torch.float32), ("sum", torch.float16), ("max", torch.float32)])
def test_what_devices_do_in_no_order(kind, dtype):
    with pytest.raises(NotImplementedError, match=f"combines by {kind}"):
        print_triton(kernel(kind, 33, 12, dtype))


def test_the_evaluator_adds_in_order():
    made, buffers = kernel("sum", 3, 4), memory(3, 4)
    buffers["b1"] = torch.tensor([2, 2, 5, 2])
    expected = buffers["b2"].view(7, 3).clone()
    for at, value in zip([2, 2, 5, 2], buffers["b0"].view(4, 3), strict=True):
        expected[at] += value
    evaluate.run(check(made), buffers)
    assert torch.equal(buffers["b2"].view(7, 3), expected)


def test_rows_of_a_kernel_do_not_meet():
    made, buffers = kernel("sum", 3, 4), memory(3, 4)
    (loop,) = made.loops
    (store,) = loop.body
    place = ix.index(made.axes[0]) * 0 + 1
    with pytest.raises(IndexError, match="in two rows"):
        evaluate.run(Kernel(made.name, made.axes, (Loop(loop.axes, (Store("b2", place, store.value, into="sum"),)),), made.buffers), buffers)


@pytest.mark.parametrize(
    "change", [{"into": "mean"}, {"into": "sum", "value": ir.load("b2", 0, torch.float32)}, {"into": "sum", "buffer": "b0"}]
)
def test_what_is_malformed(change):
    made = kernel("sum", 3, 4)
    (loop,) = made.loops
    (store,) = loop.body
    fields = {"buffer": store.buffer, "index": store.index, "value": store.value, "into": store.into} | change
    with pytest.raises(Malformed):
        check(Kernel(made.name, made.axes, (Loop(loop.axes, (Store(**fields),)),), made.buffers))
