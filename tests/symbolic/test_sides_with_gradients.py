"""What branches give where autograd follows: nodes, gradients and derivatives inside the frame."""
import pytest
import torch

from tests.differential import check, tensors

(X,) = tensors(3, 4)
(G,) = tensors(3, 4, requires_grad=True)
CHANGED = [(-X,), (X * 10,), (X.abs() + 1,)]
BACKENDS = ("eager", "aot_eager", "default")


def of_gradients(*tensors):
    return [tuple(each.detach().clone().requires_grad_() for each in given) for given in tensors]


# --- the node of a result is that of the side that ran ----------------------------------------------------------------
def node_of_two(x):
    y = x * 2 if x.sum() > 0 else x.sin()
    return y.grad_fn.name(), y + 1


def node_of_a_view(x):
    y = (x * 2).t() if x.sum() > 0 else x.sin().t()
    return y.grad_fn.name(), y + 1


def node_of_one_from_before(x):
    y = x.exp()
    z = y.sin() if x.sum() > 0 else y
    return (z + 1).grad_fn.name(), z.grad_fn.name()


def number_of_a_result(x):
    y = x.topk(2)[0] if x.sum() > 0 else torch.std_mean(x, 1, keepdim=True)[1] * x[:, :2]
    return y.output_nr, y + 1


def versions(x):
    if x.sum() > 0:
        y = x * 2
        y.add_(1)
    else:
        y = x + 1
    return y._version, y.detach()._version, y * 2


@pytest.mark.parametrize("program", [node_of_two, node_of_a_view, node_of_one_from_before, number_of_a_result, versions],
                         ids=lambda program: program.__name__)
def test_what_tells_the_side_that_ran(program):
    check(program, G, changed=of_gradients(*CHANGED))
    check(program, X, changed=CHANGED)
