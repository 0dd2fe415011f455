"""Images that lie channels last between convolutions, and where they do not."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jit
from tests.codegen.passes.test_functional import graphs_of, only, targets
from tests.differential import check

LAST = torch.channels_last


def made(channels=8, size=8, dtype=torch.float32):
    torch.manual_seed(0)
    x, weight = torch.randn(2, channels, size, size, dtype=dtype), torch.randn(channels, channels, 3, 3, dtype=dtype)
    return x, weight / 9, torch.rand(channels, dtype=dtype) + 0.5


def chain(x, weight, scale):
    for _ in range(3):
        x = F.conv2d(x, weight, scale, padding=1).relu()
    return [x]


def with_norms(x, weight, scale):
    y = F.conv2d(x, weight, padding=1)
    y = F.batch_norm(y, None, None, scale, scale, training=True).relu()
    y = F.group_norm(F.conv2d(y, weight, padding=1), 2, scale, scale)
    return [(F.conv2d(y, weight, padding=1) + x).sigmoid()]


def with_pools(x, weight, scale):
    y = F.max_pool2d(F.conv2d(x, weight, padding=1), 3, 2, 1)
    y = F.interpolate(F.conv2d(y, weight, padding=1), scale_factor=2)
    y = F.avg_pool2d(F.conv2d(torch.cat([y, x], 1)[:, ::2], weight, padding=1), 2)
    return [F.adaptive_avg_pool2d(F.conv2d(y, weight), 1).flatten(1)]


def with_views(x, weight, scale):
    y = F.conv2d(F.conv2d(x, weight, padding=1), weight, padding=1)
    z = F.conv2d(F.conv2d(y, weight, padding=1), weight, padding=1)
    return [y.flatten(1), z.transpose(1, 2), z.mean((2, 3))]


def with_strides(x, weight, scale):
    """What eager code says of them."""
    y = F.conv2d(F.conv2d(x, weight, padding=1), weight, padding=1)
    return [F.conv2d(y.as_strided(y.shape, y.stride()), weight) * y.stride(1)]


PROGRAMS = [chain, with_norms, with_pools, with_views]


def turned_in(program, given):
    with torch.no_grad():
        call, (graph,) = graphs_of(program, given, only("layouts"))
        found = call(*given)
    for ours, eager in zip(found, program(*given), strict=True):
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()
    return sum(node.meta["val"].is_contiguous(memory_format=LAST) and not node.meta["val"].is_contiguous()
               for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default))


@pytest.mark.parametrize("program", PROGRAMS)
def test_fires(program):
    assert turned_in(program, made()) >= 3


@pytest.mark.parametrize("program, given, why", [
    (lambda x, weight, scale: [F.conv2d(x, weight)], made(), "it is turned and turned back"),
    (lambda x, weight, scale: [F.conv2d(F.conv2d(x, weight, padding=1) * x, weight, padding=1)], made(), "an image is read across"),
    (chain, made(dtype=torch.float64), "none of oneDNN's"), (chain, made(channels=1), "one channel lies anyhow"),
    (chain, [made()[0].to(memory_format=LAST), *made()[1:]], "they lie so already"),
    (lambda x, weight, scale: [F.conv2d(F.dropout(F.conv2d(x, weight, padding=1), 0.5), weight)], made(), "random numbers"),
])  # fmt: skip
def test_left_alone(program, given, why):
    """Programs that give images that lie channels last themselves are no finding."""
    with torch.no_grad():
        _, (graph,) = graphs_of(program, given, only("layouts"))
        _, (plain,) = graphs_of(program, given, only())
    assert targets(graph) == targets(plain), why


def test_sizes_that_vary_are_left_alone():
    compiled = jit.compile(lambda *args: chain(*args)[0], backend="default", dynamic=True)
    x, weight, scale = made()
    for size in (8, 6, 5):
        given = x[..., :size, :size].contiguous()
        torch.testing.assert_close(compiled(given, weight, scale), chain(given, weight, scale)[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("program", [*PROGRAMS, with_strides])
def test_gradients(program, wanted):
    """Of all or some inputs: backwards that give less are made from other graphs."""
    compiled = jit.compile(program, backend="default")
    found = []
    for function in (program, compiled):
        args = [x.requires_grad_(at in wanted) for at, x in enumerate(made())]
        out = function(*args)
        total = sum((each * each.detach().cos()).sum() for each in out)
        leaves = [args[at] for at in wanted if program is with_norms or at != 2 or program is chain]
        found.append([*out, *torch.autograd.grad(total, leaves)])
    for eager, ours in zip(*found, strict=True):
        assert eager.stride() == ours.stride()
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


class Drawing(nn.Module):
    """Random numbers between convolutions: they are drawn in the order of eager code's memory."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        x = F.dropout(self.norm(self.first(x)), 0.5)
        x = self.second(self.first(x[:, :3]) + torch.randn_like(x)) + self.second(x)
        return F.dropout2d(self.second(x), 0.5)


def test_random_numbers_are_eager_s():
    torch.manual_seed(0)
    model, x = Drawing(), torch.randn(2, 3, 8, 8, requires_grad=True)
    found = []
    for call in (model, jit.compile(model, backend="default")):
        torch.manual_seed(1)
        out = call(x)
        found.append([out, torch.rand(1), *torch.autograd.grad(out.square().sum(), [x, *model.parameters()])])
    for eager, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


def test_an_image_that_is_written():
    def program(x, weight):
        y = F.conv2d(F.conv2d(x, weight, padding=1), weight, padding=1)
        x.copy_(F.conv2d(y, weight, padding=1))
        y.add_(1)
        return F.conv2d(y, weight)

    x, weight, _ = made()
    check(program, x, weight, backend="default")
