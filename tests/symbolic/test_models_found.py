"""What whole models of other libraries were found to do, in small."""
import inspect

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

from tests.differential import check, same_as_eager, tensors


def taking(a, b, *args, c=1, **kwargs):
    pass


@same_as_eager(graphs=1)
def test_names_of_parameters_in_order(x):
    parameters = inspect.signature(taking).parameters
    return x + len(set(parameters.keys())), list(parameters), {name: p.kind.name for name, p in parameters.items()}


@same_as_eager(graphs=1)
def test_arguments_bound_to_a_signature(x):
    bound = inspect.signature(taking).bind(x, 2, 3, d=x + 1)
    bound.apply_defaults()
    arguments = bound.arguments
    return arguments["a"] + arguments["c"], list(arguments), bound.args[1:], bound.kwargs["d"]


@pytest.mark.parametrize("length", [1, 2, 7, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(length, reverse):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    def states(a, b):
        return associative_scan(combine, (a, b), dim=1, reverse=reverse, combine_mode="generic")[1].sum(1)

    check(states, *tensors(3, length, 2, count=2, requires_grad=True), graphs=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "default"])
def test_check_of_a_tensor(backend):
    def checked(x, y):
        torch._check_tensor_all(x > 0)
        torch._check(x.shape[0] == 3)
        return x * y

    x, y = tensors(3, 4, count=2, requires_grad=True)
    check(checked, x.abs().detach(), y, graphs=1, changed=(x.detach(), y), backend=backend)
