"""Operations that write into lists of tensors change their inputs as those on single tensors do."""
import pytest
import torch

import jit


def foreach(x, y):
    torch._foreach_add_([x], 1)
    return y * 2


def foreach_of_two(x, y):
    torch._foreach_mul_([y, x], [2.0, 3.0])
    return x + y


def fused(x, y):
    torch._fused_sgd_(
        [x], [torch.ones_like(x)], [], weight_decay=0.0, momentum=0.0, lr=0.5, dampening=0.0, nesterov=False,
        maximize=False, is_first_step=False,
    )
    return y * 2


def foreach_without_outputs(x, y):
    torch._foreach_copy_([x], [y])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [foreach, foreach_of_two, fused, foreach_without_outputs], ids=lambda p: p.__name__)
def test_an_input_given_twice(program, backend):
    """It is told from two inputs, whichever came first."""

    def inputs(is_one):
        x = torch.arange(3.0)
        return (x, x) if is_one else (x, torch.ones(3))

    for order in ((False, True), (True, False)):
        compiled = jit.compile(program, backend=backend)
        for is_one in order * 2:
            ours, theirs = inputs(is_one), inputs(is_one)
            results = compiled(*ours), program(*theirs)
            torch.testing.assert_close((results[0], *ours), (results[1], *theirs), rtol=0, atol=0)


def test_writes_are_counted():
    def program(x):
        torch._foreach_mul_([x], 2)
        return x._version

    compiled = jit.compile(program, backend="eager")
    for _ in range(2):
        x, y = torch.ones(3), torch.ones(3)
        assert compiled(x) == program(y) and torch.equal(x, y)
