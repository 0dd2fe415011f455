"""Results lie in memory as eager's, also where torch's fakes say otherwise, and what is made of them goes by that."""
import pytest
import torch
import torch.nn.functional as F

from codegen.aot.function import Settings, compile_program

#: (normalised or so, permuted input)
PROGRAMS = {
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm, statistics": lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1]), training=True),
    "batch_norm, no training": lambda x: F.batch_norm(x, x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "log_softmax": lambda x: x.log_softmax(1),
    "softmax": lambda x: x.softmax(1),
}
INPUTS = {
    "reversed": lambda: torch.arange(120.0).sin().view(2, 3, 4, 5).permute(3, 2, 1, 0),
    "channels last": lambda: torch.arange(120.0).sin().view(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "three": lambda: torch.arange(60.0).sin().view(3, 4, 5).permute(2, 1, 0),
}


@pytest.mark.parametrize("shape", INPUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients_in_another_order(name, shape):
    def program(x):
        made = PROGRAMS[name](x)
        (gradient,) = torch.autograd.grad((made * made.cos()).sum(), x)
        parts = (made, gradient)
        return [*parts, *(each.permute(*reversed(range(each.dim()))).reshape(-1) for each in parts)]

    x = INPUTS[shape]().requires_grad_()
    for one, other in zip(compile_program(program, (x,), Settings())(x), program(x), strict=True):
        assert one.stride() == other.stride() and torch.equal(one, other)
