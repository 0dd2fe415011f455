"""Scheduling: programs keep their meaning, and kernels are as few as they should be."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from codegen.kernels.nodes import LONG, MANY, cost
from codegen.kernels.schedule import Launch, Schedule
from codegen.kernels.split import PARTS
from tests.codegen.kernels.schedules import evaluated, scheduled


def softmax(x):
    return x.softmax(-1)


def softmax_of_a_sum(x):
    return ((x * 2).exp() + x).softmax(-1)


def two_softmaxes_of_one(x):
    return x.softmax(-1), (x * 2).softmax(-1)


def rows_and_columns(x):
    return x.sum(-1), x.sum(0)


def normalised(x):
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    centred = x - mean
    return centred * ((centred * centred).sum(-1, keepdim=True) / x.shape[-1] + 1e-5).rsqrt()


def normalised_and_its_statistics(x):
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    return (x - mean).exp(), mean


def through_views(x):
    y = x.reshape(-1, x.shape[-1])
    y = (y - y.amax(-1, keepdim=True)).exp()
    return y.view(x.shape) * 2 + x


def transposed(x):
    return x.transpose(0, 1) + 1 if x.dim() > 1 else x + 1


def result_is_a_view(x):
    return x.exp().view(-1), x.view(-1)


def base_and_view(x):
    y = x.exp()
    return y, y.permute(*range(y.dim())[::-1])


def siblings(x):
    return x + 1, x * 2, x.exp()


def everything(x):
    return x.sum(), x.amax()


def reduced_twice(x):
    return (x.sum(-1) * 2).exp().sum(-1)


def expanded(x):
    return x.amax(-1, keepdim=True).expand(x.shape), x.sum(-1, keepdim=True) + x


def residual(x, w):
    a = x + x @ w
    b = a + a.tanh() @ w
    return b + b.tanh() @ w


def attention(x):
    q = x.reshape(*x.shape[:-1], 2, -1).transpose(-3, -2)
    scores = (q @ q.transpose(-1, -2) * 0.5).softmax(-1)
    return (scores @ q).transpose(-3, -2).reshape(x.shape)


#: program -> (kernels, shape)
PROGRAMS = {
    softmax: 1, softmax_of_a_sum: 1, two_softmaxes_of_one: 1, rows_and_columns: 2, normalised: 1,
    normalised_and_its_statistics: 1, through_views: 1, transposed: 1, result_is_a_view: 1, base_and_view: 1,
    siblings: 1, everything: None, reduced_twice: None, expanded: 1, residual: 3, attention: None,
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8), (1, 4)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program: Any, shape: tuple[int, ...], dynamic: bool) -> None:
    torch.manual_seed(0)
    args = [torch.randn(shape), *([torch.randn(shape[-1], shape[-1])] if program is residual else [])]
    found = scheduled(program, *args, dynamic=dynamic)
    compare(found, program, args)
    if PROGRAMS[program] is not None and shape != (1, 4):
        launches = [step for step in found.steps if isinstance(step, Launch)]
        assert len(launches) == PROGRAMS[program], str(found)
    if dynamic and shape[0] != 1:
        others = [torch.randn([size + 1 if at == 0 else size for at, size in enumerate(a.shape)]) for a in args[:1]]
        compare(found, program, [*others, *args[1:]])


def compare(found: Any, program: Any, args: list[torch.Tensor]) -> None:
    expected = program(*[a.clone() for a in args])
    expected = expected if isinstance(expected, tuple) else (expected,)
    results = evaluated(found, args)
    for ours, eager in zip(results, expected, strict=True):
        # torch's fakes know no better of dims of size 1
        long = [dim for dim, size in enumerate(eager.shape) if size != 1]
        assert [ours.stride(dim) for dim in long] == [eager.stride(dim) for dim in long]
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (0, 3, 1, 2)], ids=str)
def test_kernels_go_through_memory_as_it_lies(order: tuple[int, ...], dynamic: bool) -> None:
    def program(x, y):
        return x.permute(order) * 2 + y

    x = torch.randn(3, 4, 5, 6)[(0,) * (4 - len(order))]
    y = torch.randn_like(x.permute(order), memory_format=torch.contiguous_format)
    found = scheduled(program, x, y, dynamic=dynamic)
    compare(found, program, [x, y])
    assert [axis.name for axis in found.kernels[0].axes] == [f"p{order.index(dim)}" for dim in range(x.dim())]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape", [(1 << 17,), (257, 300), (2, 61, 700)], ids=str)
def test_long_reductions_run_in_parts(shape: tuple[int, ...], dynamic: bool) -> None:
    def program(x):
        return x.sum(), x.amax() * 2, (x * x).amax() + x

    x = torch.randn(shape, dtype=torch.float64)
    found = scheduled(program, x, dynamic=dynamic)
    compare(found, program, [x])
    parts = [kernel.axes[-1].size.constant for kernel in found.kernels if kernel.axes]
    assert any(PARTS // 2 < (count or 0) <= PARTS for count in parts), str(found)


def test_parts_of_a_length_that_nothing_divides_read_nothing_beyond_its_end() -> None:
    x = torch.randn(100_003)
    found = scheduled(lambda x: (x + 1).exp().sum(0), x)
    compare(found, lambda x: (x + 1).exp().sum(0), [x])
    assert " if lt(" in str(found)


# --- programs as they come --------------------------------------------------------------------------------------------
class Drawn:
    """A random program: a dozen operations on what there is."""

    UNARY = [torch.exp, torch.neg, torch.sigmoid, lambda x: x * 0.5, lambda x: x + 1, torch.tanh]
    BINARY = [torch.add, torch.mul, torch.maximum, torch.sub]
    REDUCE = [lambda x, d, k: x.sum(d, keepdim=k), lambda x, d, k: x.amax(d, keepdim=k)]

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rng = random.Random(self.seed)
        there = list(args)
        for _ in range(rng.randrange(4, 14)):
            there.append(self.step(rng, there))
        return tuple(rng.sample(there[len(args) :], k=min(3, len(there) - len(args))))

    def step(self, rng: random.Random, there: list[torch.Tensor]) -> torch.Tensor:
        x = rng.choice(there[-6:])
        match rng.randrange(7):
            case 0 | 1:
                return rng.choice(self.UNARY)(x)
            case 2 | 3:
                others = [y for y in there if fits(x, y)]
                return rng.choice(self.BINARY)(x, rng.choice(others)) * 0.5
            case 4 if x.dim():
                return rng.choice(self.REDUCE)(x, rng.randrange(x.dim()), rng.random() < 0.5) * 0.25
            case 5 if x.dim() > 1:
                a, b = rng.sample(range(x.dim()), 2)
                return x.transpose(a, b)
            case 6 if x.dim() > 1:
                return rng.choice([lambda: x.reshape(-1, x.shape[-1]), lambda: x.reshape(x.shape[0], -1), lambda: x.unsqueeze(0)])()
        return x.sigmoid()


def fits(x: torch.Tensor, y: torch.Tensor) -> bool:
    return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(x.shape), reversed(y.shape)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("seed", range(150))
def test_drawn_programs(seed: int, dynamic: bool) -> None:
    torch.manual_seed(seed)
    args = [torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)]
    program = Drawn(seed)
    compare(scheduled(program, *args, dynamic=dynamic), program, args)


@pytest.mark.parametrize("readers, is_stored", [(1, False), (3, False), (5, True)])
def test_a_cheap_value_is_stored_where_computing_it_again_would_read_more(readers: int, is_stored: bool) -> None:
    def program(x, y):
        z = x + y
        return z.exp().sum(1), *(z.pow(power).sum(0) for power in range(2, readers + 1))

    found = scheduled(program, torch.randn(300, 70), torch.randn(300, 70))
    assert ("add" in found.stored) == is_stored, str(found)


@pytest.mark.parametrize("reads_late, launches", [(False, 1), (True, 2)])
def test_a_kernel_does_not_wait_long_for_what_could_join_it(reads_late: bool, launches: int) -> None:
    def program(x, w):
        y, total = x, x.sum(-1)
        for _ in range(10):
            y = y @ w
        return y, total + 1, (total + y.sum(-1) if reads_late else total.exp())

    found = scheduled(program, torch.ones(8, 8), torch.ones(8, 8))
    assert sum(isinstance(step, Launch) for step in found.steps) == launches


@pytest.mark.parametrize("program, is_left", [
    (torch.nn.functional.gelu, True), (lambda x: torch.nn.functional.gelu(x @ x), True),
    (lambda x: torch.nn.functional.gelu(x + 1), False), (lambda x: torch.nn.functional.gelu(x) * 2, False),
    (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), False),
    (lambda x: torch.nn.functional.gelu(x[:100]), False), (lambda x: torch.nn.functional.gelu(x.double()), False),
])  # fmt: skip
def test_a_gelu_of_many_floats_alone_is_left_to_aten(program: Any, is_left: bool) -> None:
    found = scheduled(program, torch.randn(300, 300))
    assert (torch.ops.aten.gelu.default in called(found)) == is_left, str(found)


@pytest.mark.parametrize("program, is_left", [
    (torch.sum, True), (lambda x: (x * 2).sum(), False), (lambda x: x.sum() * 2, False), (lambda x: x[:9].sum(), False),
    (lambda x: x.sum(1), False),
])  # fmt: skip
def test_a_sum_of_very_many_floats_alone_is_left_to_aten(program: Any, is_left: bool) -> None:
    found = scheduled(program, torch.randn(2048, 2048))
    assert (torch.ops.aten.sum.default in called(found)) == is_left, str(found)


def repeated(step, times):
    def program(x):
        for _ in range(times):
            x = step(x)
        return x

    return program


@pytest.mark.parametrize("program, inputs", [
    (repeated(lambda x: x + 1, 700), 1), (repeated(lambda x: (x * 2).sin(), 90), 1), (lambda *xs: sum(xs), 300),
])  # fmt: skip
def test_long_chains_are_a_few_kernels_again_and_again(program: Any, inputs: int) -> None:
    args = [torch.randn(2) for _ in range(inputs)]
    found = scheduled(program, *args)
    torch.testing.assert_close(evaluated(found, args)[0], program(*args))
    statements = [statement for kernel in found.kernels for loop in kernel.loops for statement in loop.body]
    assert sum(cost(statement.value) for statement in statements) <= 3 * LONG
    assert all(len(kernel.buffers) <= MANY + 2 for kernel in found.kernels)


def called(found: Schedule) -> list[Any]:
    return [step.made[0].node.target for step in found.steps if not isinstance(step, Launch)]
