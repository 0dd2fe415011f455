"""Compiled kernels at the edges: many threads, errors in the middle, memory that lies anywhere, numbers at their ends."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import CLOSE, check


def rows(x):
    return (x * 2).softmax(-1), x.sum(-1), x.cumsum(-1), x.argmax(-1), x.flip(0) + 1


def columns(x):
    return x.sum(0), x.amax(0), x.cumsum(0), x.t() * 2, x.softmax(0)


def everything(x):
    return x.sum(), x.amax(), x.argmin(), x.std(), (x > 0).any()


def neighbours(x):
    return x[1:] - x[:-1], x[:, 1:] * x[:, :-1]


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("program", [rows, columns, everything, neighbours], ids=lambda f: f.__name__)
def test_threads_of_torch(program, count, threads):
    torch.manual_seed(0)
    threads(count)
    for shape in ((1025, 333), (3, 200_003), (200_003, 3)):
        x = torch.randn(shape, dtype=torch.float64)
        for ours, eager in zip(jit.compile(program, backend="default")(x), program(x), strict=True):
            torch.testing.assert_close(ours, eager)


def test_threads_of_python_each_with_torch_s(threads):
    threads(2)
    compiled = jit.compile(lambda x, at: (x[at] * 2).softmax(-1).sum(0), backend="default", dynamic=True)
    wrong = []

    def work(size):
        generator = torch.Generator().manual_seed(size)
        x = torch.randn(size, 300, generator=generator)
        for turn in range(20):
            at = torch.randint(0, size, (400,), generator=generator)
            if turn % 5 == 4:
                with pytest.raises(IndexError):
                    compiled(x, at + size)
            elif not torch.allclose(compiled(x, at), (x[at] * 2).softmax(-1).sum(0), atol=1e-4):
                wrong.append(size)

    workers = [threading.Thread(target=work, args=(size,)) for size in (5, 50, 500, 5000)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_an_error_in_the_middle_leaves_the_plan_as_it_was():
    def program(x, at):
        y = (x @ x.t()).relu()
        z = F.embedding(at, y * 2)
        return (z @ y).softmax(-1)

    compiled = jit.compile(program, backend="default")
    x = torch.randn(20, 20)
    for bad in (20, -1, 10**12, -(2**63)):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([1, bad]))
        torch.testing.assert_close(compiled(x, torch.tensor([1, 3])), program(x, torch.tensor([1, 3])))


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_an_operation_that_only_raises_is_a_step_of_the_plan(name):
    def program(x):
        return (getattr(torch.linalg, name)(x * 2) + 1).sin()

    compiled = jit.compile(program, fullgraph=True)
    good, bad = torch.eye(4).requires_grad_(), torch.zeros(4, 4)
    for x in (good, bad, good, bad.requires_grad_()):
        check(program, x, backend="default", tolerance=CLOSE)
    compiled(good.detach())
    assert "aten._linalg_check_errors.default(" in str(compiled.debug_state())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int16, torch.uint8, torch.bool], ids=str)
def test_memory_that_begins_anywhere(dtype):
    def program(x):
        return x + x, x.amax(), x.flip(0), x.float().sum()

    base = (torch.randn(1200) * 3).to(dtype)
    compiled = jit.compile(program, backend="default", dynamic=True)
    for start in range(1, 18):
        for length in (2, 7, 64, 1001):
            x = base[start : start + length]
            for ours, eager in zip(compiled(x), program(x), strict=True):
                torch.testing.assert_close(ours, eager)


def test_memory_that_no_element_would_begin_at():
    memory = bytearray(range(256)) * 16
    compiled = jit.compile(lambda x: (x * 2, x.amax(), x.sum()), backend="default")
    for offset in (1, 2, 3, 5, 7):
        x = torch.frombuffer(memory, dtype=torch.int32, offset=offset, count=900)
        for ours, eager in zip(compiled(x), (x * 2, x.amax(), x.sum()), strict=True):
            assert torch.equal(ours, eager)


ENDS = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-40, 1.1754942e-38, 3.4e38, -3.4e38, 65504.0, 1e-8, 0.1, -1.0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_numbers_at_their_ends(dtype):
    """In every bit."""

    def program(x, y):
        return (
            x + y, x - y, x * y, x / y, -x, x.abs(), x.sign(), x.floor(), x.round(), x == y, x < y, x >= y, x.isnan(), x.signbit(),
            torch.where(x > y, x, y), x.double(), x.float(), x.bfloat16(), x.half(), torch.copysign(x, y), x.nan_to_num(), x * 0.1,
            x.bool(), x.isinf(), x.isfinite(), x.trunc(), x.frac(), x.masked_fill(y > 0, 2.5),
        )  # fmt: skip

    values = torch.tensor(ENDS, dtype=torch.float64).to(dtype)
    x, y = values.repeat_interleave(len(ENDS)), values.repeat(len(ENDS))
    check(program, x, y, backend="default", traceback="full")


def test_integers_wrap_round():
    def program(x):
        return x + 1, x * 3, -x, x.abs(), x - 100, x << 3, x.sum(), x.prod(), x.cumsum(0), x.to(torch.int8), x.to(torch.uint8)

    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        ends = torch.iinfo(dtype)
        check(program, torch.tensor([ends.min, ends.max, 0, 1, ends.max - 1] * 7, dtype=dtype), backend="default")


@pytest.mark.long
def test_more_elements_than_an_int32_counts():
    size = 2**31 + 5
    x = torch.zeros(size, dtype=torch.uint8)
    x[-1], x[-3], x[2**31] = 7, 3, 1
    compiled = jit.compile(lambda x: (x + 1, x.amax(), x.argmax(), x.sum(), x[-4:] * 2), backend="default")
    more, top, at, total, last = compiled(x)
    assert (top.item(), at.item(), total.item()) == (7, size - 1, 11)
    assert more[-6:].tolist() == [1, 2, 1, 4, 1, 8]
    assert last.tolist() == [0, 6, 0, 14]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_operations_of_torch_whose_strides_are_not_as_foretold(dynamic):
    """Of inputs that lie turned round: torch's fakes say that so do the results."""

    def program(x):
        return F.batch_norm(x, None, None, training=True) * 2, torch.normal(x, x.abs() * 0) + x, x.sort(0).values + 1

    x = torch.randn(7, 6, 5).permute(2, 1, 0)
    for ours, eager in zip(jit.compile(program, backend="default", dynamic=dynamic)(x), program(x), strict=True):
        torch.testing.assert_close(ours, eager)


INDICES = {
    "compared": lambda w, x, b: w[(x > 0).long()],
    "compared and scaled": lambda w, x, b: w[(x * x > 0.5).long() * 7] + x,
    "of a bool": lambda w, x, b: w[b.long()],
    "from the end": lambda w, x, b: w[(x > 0).int() - 3],
    "chosen": lambda w, x, b: w[torch.where((x > 0) & b, 1, 0)],
    "by a float": lambda w, x, b: w.take((x < 0).float().long()),
    "gathered": lambda w, x, b: w.gather(0, (x > 0).long()) * 2,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("program", INDICES.values(), ids=INDICES)
def test_indices_that_were_bools(program, dtype):
    """gcc took the masks of its lanes for the indices."""
    w, x = torch.arange(1, 10).to(dtype), torch.randn(37, generator=torch.Generator().manual_seed(0))
    check(program, w, x, x < 0.3, backend="default")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [
    lambda x: x.std(1), lambda x: x.t().contiguous().std(0), lambda x: (x * 2).std(1, correction=0, keepdim=True),
    lambda x: torch.std_mean(x, 1)[0], lambda x: x.var(1),
])  # fmt: skip
def test_equal_values_do_not_deviate(program, dynamic):
    """What is lost when their mean is rounded would be a deviation, and have a gradient."""
    for size in (2, 6, 7, 8, 33):
        x = torch.randn(7, 1, generator=torch.Generator().manual_seed(size)).repeat(1, size).requires_grad_()
        found = jit.compile(program, backend="default", dynamic=dynamic)(x)
        assert found.count_nonzero() == program(x).count_nonzero() == 0
        (gradient,) = torch.autograd.grad(found.sum(), x)
        assert gradient.abs().max() < 1e-6
