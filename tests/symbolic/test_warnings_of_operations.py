"""What torch's operations warn of: the compiled program does, as eager code, and the compiler does not."""

import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

import jit

from ..differential import check, same_as_eager


def helper(x):
    return torch.tensor(x)


@same_as_eager(graphs=1)
def test_copy_of_a_tensor(x):
    y = torch.tensor(x) + x.new_tensor(x * 2)
    for _ in range(2):
        y = helper(y) + 1
    return y


@same_as_eager(graphs=1)
def test_sizes_that_are_broadcast(x):
    return F.mse_loss(x, x[:1]) + F.l1_loss(x, x[:1])


@same_as_eager(graphs=1)
def test_line_of_a_caller_further_out(x):
    return torch.nn.Softmax()(x) + F.softmax(x, _stacklevel=2)


@same_as_eager(graphs=1)
def test_nothing_left_to_divide_by(x):
    first = x[:1]
    return first.std(0) + torch.var(first, 0) + torch.std_mean(first, 0)[1] + x.std(0, correction=9)


@same_as_eager(graphs=1)
def test_no_warning_where_something_is_left(x):
    return x.std(0) + torch.var(x, 0) + x[:1].std(0, unbiased=False) + x[:1].var(0, False)


@same_as_eager(graphs=1)
def test_of_a_function_that_is_mapped(x):
    return torch.vmap(lambda row: row[:1].std() + F.mse_loss(row, row[:1]))(x)


def test_as_errors():
    def program(x):
        try:
            return torch.tensor(x)
        except UserWarning as error:
            return str(error)[:20]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.ones(2)
        compiled = jit.compile(program, backend="eager")
        assert [compiled(x), compiled(x)] == [program(x)] * 2


def test_sizes_that_vary_are_in_the_text():
    def program(x):
        return F.mse_loss(x, x[:1])

    check(program, torch.ones(3, 2), changed=[lambda size=size: (torch.ones(size, 2),) for size in (4, 5, 6)])


def test_gradient_that_no_leaf_has():
    def program(x):
        assert x.grad is None
        return x + 1

    check(program, make=lambda: (torch.ones(3, requires_grad=True) * 2,), breaks=1)


def test_into_a_tensor_whose_elements_are_one():
    def program(x):
        x[torch.tensor([1])] = 2.0
        return x + 1

    check(program, make=lambda: (torch.zeros(3, 1).expand(3, 4),), breaks=1)


def told(program, x, calls=3):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(calls):
            program(x)
    return [(str(each.message), each.category, each.filename, each.lineno) for each in caught]


def sizes_of_a_mean(x):
    return F.mse_loss(x, x + 1, size_average=True)


def deviation_of_one(x):
    return x[:1].std(dim=0) + torch.var_mean(x[:1], 0)[0]


def reversed_sizes(x):
    return x.T + torch.meshgrid(x[0, 0], x[0, 0])[0].sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
@pytest.mark.parametrize("program", [sizes_of_a_mean, helper, deviation_of_one])
def test_at_each_call_at_its_line(program, backend):
    x = torch.ones(2, 3)
    assert told(jit.compile(program, backend=backend), x) == told(program, x) != []


@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("backend", ["eager", "default"])
def test_what_torch_tells_once_in_a_process(always, backend):
    x = torch.ones(1, 2, 3)
    told(reversed_sizes, x)
    torch.set_warn_always(always)
    try:
        seen = told(reversed_sizes, x)
        assert bool(seen) is always
        assert told(jit.compile(reversed_sizes, backend=backend), x) == seen
        assert torch.is_warn_always_enabled() is always
    finally:
        torch.set_warn_always(False)


def test_what_torch_has_not_told_yet():
    text = """
import warnings, torch, jit

@jit.compile(backend="default")
def f(x):
    return x.T + torch.meshgrid(x[0, 0], x[0, 0])[0].sum()

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    f(torch.ones(1, 2, 3)); f(torch.ones(1, 2, 3))
print([(each.filename.rsplit("/", 1)[-1], str(each.message)[:14]) for each in caught])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('<string>', 'The use of `x.'), ('functional.py', 'torch.meshgrid')]"
