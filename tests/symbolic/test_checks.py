"""`assert` and `if ...: raise` on tensors: the graph checks, and where a check fails eager code raises its own error.

PYTEST_DONT_REWRITE: the programs are what is tested.
"""
import pytest
import torch
import torch.nn.functional as F

import jit
from tests.differential import check, differentiated_ahead

GOOD, ALSO, BAD, ZERO = torch.ones(3), torch.full((3,), 2.0), -torch.ones(3), torch.zeros(3)
NAN = torch.tensor([1.0, float("nan"), 2.0])
CHANGED = [(ALSO,), (BAD,), (ZERO,), (NAN,)]
log = []


def asserted(x):
    assert (x > 0).all(), f"not positive: {x.sum()}"
    return x * 2


def asserted_alone(x):
    assert torch.all(x > 0)
    return x * 2


def two_reasons(x):
    if (x < 0).any() or torch.isnan(x).any():
        raise ValueError("negative", x.min().item())
    return x.exp()


def raises_at_the_end(x):
    if x.mean():
        return x + 1
    raise ValueError


def caught(x):
    try:
        if not (x > 0).all():
            raise KeyError("k")
        return x * 2
    except KeyError as error:
        return x * 3, str(error)


def by_a_function(x):
    def positive(y):
        if (y > 0).all():
            return y
        raise ValueError(f"{y}")

    return positive(x) + positive(x + 1)


def in_a_loop(x):
    for i in range(3):
        assert x.sum() > -100 * i
        x = x - x.abs() * i
    return x


def after_a_draw(x):
    y = torch.rand(3)
    if x.sum() < 0:
        raise ValueError(str(y))
    return x + y, torch.rand(1)


def between_effects(x):
    log.append("before")
    if x.sum() < 0:
        raise ValueError(str(len(log)))
    log.append("after")
    return x * 2, len(log)


def told_by_a_number(x):
    if x.sum() == 0:
        raise ZeroDivisionError("of nothing")
    return x / x.sum()


def likelihood(x):
    return F.softmax(x, 0), torch.distributions.Normal(x, x.abs() + 0.1).log_prob(x)


PROGRAMS = [
    asserted, asserted_alone, two_reasons, raises_at_the_end, caught, by_a_function, in_a_loop, after_a_draw,
    between_effects, told_by_a_number, likelihood,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", differentiated_ahead, "default"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program, backend):
    check(program, GOOD, changed=CHANGED, backend=backend, graphs=1)


def test_with_gradients():
    check(two_reasons, GOOD.clone().requires_grad_(), changed=[(BAD.clone().requires_grad_(),)], backend="default", graphs=1)


def written(x):
    x.add_(1)
    if x.sum() < 0:
        raise ValueError(str(x))
    return x * 2


def backward_inside(x, w):
    (x * w).sum().backward()
    assert w.grad.sum() > 0, "no gradient"
    return w.grad * 2


def test_what_the_graph_does_for_good_is_not_done_twice():
    """Then the graph ends at the branch."""
    check(written, GOOD, changed=[(BAD * 3,), (ZERO,)], graphs=2)
    make = lambda: torch.ones(3, requires_grad=True)
    check(backward_inside, GOOD, make(), changed=[(BAD, make())])


def test_a_branch_whose_sides_differ_breaks():
    def program(x):
        return (x + 1, "more") if x.sum() > 0 else (x - 1, "less")

    check(program, GOOD, changed=[(BAD,)], graphs=2)


def test_more_than_one_number_has_no_truth():
    def program(x):
        if x > 0:
            raise ValueError
        return x

    check(program, GOOD, changed=[(ZERO,)])


def test_in_transformed_functions():
    def program(x):
        def inner(y):
            assert y.sum() > 0
            return y.sin().sum()

        return torch.func.grad(inner)(x)

    check(program, GOOD, changed=[(BAD,)])


def test_whole():
    compiled = jit.compile(two_reasons, fullgraph=True)
    assert torch.equal(compiled(GOOD), GOOD.exp())
    with pytest.raises(ValueError, match="negative"):
        compiled(BAD)
