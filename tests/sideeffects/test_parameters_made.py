"""Parameters, and modules with parameters, that are made in the frame."""
import pytest
import torch
from torch import nn

from tests.differential import check

CLOSE = (1e-5, 1e-5)
BACKENDS = ["eager", "aot_eager", "default"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = None

    def forward(self, x):
        y = self.first(x)
        return y if self.scale is None else y * self.scale


class Born(nn.Module):
    def __init__(self, x):
        super().__init__()
        self.weight = nn.Parameter(x * 2)
        self.fixed = nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("mean", x.mean(0))

    def forward(self, x):
        return (x * self.weight + self.fixed) * self.mean


def make():
    torch.manual_seed(5)
    return Net(), torch.randn(3, 4), []


# --- (net, x, log) ----------------------------------------------------------------------------------------------------
def returned(net, x, log):
    made = nn.Parameter(x * 2)
    return (made * x).sum(), made


def of_a_tensor_that_came_in(net, x, log):
    made = nn.Parameter(x)
    return (made * x).sum(), made


def of_a_parameter(net, x, log):
    made = nn.Parameter(net.first.weight)
    return (made * 2).sum() + net.first.weight.sum(), made


def without_a_gradient(net, x, log):
    made = nn.Parameter(data=x + 1, requires_grad=False)
    log.append(made.requires_grad)
    return made * x, made


def looked_at(net, x, log):
    made = nn.Parameter(x.exp())
    log += [isinstance(made, nn.Parameter), isinstance(made, torch.Tensor), type(made) is nn.Parameter, made.is_leaf,
            made.requires_grad, made.grad is None, made.grad_fn is None, tuple(made.shape)]
    return (made * x).sum()


def without_grad_mode(net, x, log):
    with torch.no_grad():
        made = nn.Parameter(x.exp())
    return (made * x).sum(), made


def put_on_a_module(net, x, log):
    net.first.weight = nn.Parameter(net.first.weight.detach() * 2)
    net.scale = nn.Parameter(torch.full((4,), 3.0))
    log.append([name for name, _ in net.named_parameters()])
    return net(x)


def registered(net, x, log):
    net.register_parameter("more", nn.Parameter(x[0].clone()))
    net.register_parameter("none", None)
    return net(x) * net.more


def taken_off(net, x, log):
    net.scale = nn.Parameter(torch.full((4,), 3.0))
    a = net(x)
    del net.scale
    net.scale = None
    return a + net(x)


def a_module(net, x, log):
    made = nn.Linear(4, 2)
    return made(x), made


def a_module_of_the_users(net, x, log):
    made = Born(x)
    net.inner = made
    return made(x).sum(), [name for name, _ in net.named_parameters()]


def thrown_away(net, x, log):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))(x)


def in_a_list(net, x, log):
    made = nn.ParameterList([nn.Parameter(x[i]) for i in range(2)])
    return sum(each.sum() for each in made), made


def hooked(net, x, log):
    made = nn.Parameter(x * 2)
    made.register_hook(lambda g: g * 3)
    return (made * x).sum(), made


def with_a_backward(net, x, log):
    made = nn.Parameter(x * 2)
    (made * x).sum().backward()
    return made, made.grad


WHOLE = [
    returned, of_a_tensor_that_came_in, of_a_parameter, without_a_gradient, looked_at, without_grad_mode,
    put_on_a_module, registered, taken_off, a_module, a_module_of_the_users, thrown_away, in_a_list, hooked,
    with_a_backward,
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.break_everywhere
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_one_graph(program, backend):
    check(program, make=make, graphs=1, backend=backend, tolerance=CLOSE)


def written_then_used(net, x, log):
    made = nn.Parameter(x * 2)
    with torch.no_grad():
        made.mul_(3)
        made.data.add_(1)
    return (made * x).sum(), made


def printed(net, x, log):
    made = nn.Parameter(torch.ones(2))
    print(made, [made])
    return x + 1, str(made)


def attributes(net, x, log):
    made = nn.Parameter(x * 2)
    made.note = "n"
    made.grad = x + 1
    return made, made.note


def of_nothing(net, x, log):
    return nn.Parameter(), nn.Parameter(torch.arange(3), requires_grad=False), x + 1


def refused(net, x, log):
    try:
        nn.Parameter(torch.arange(3))
    except RuntimeError as error:
        log.append(str(error))
    return x + 1


def across_a_break(net, x, log):
    made = nn.Parameter(x * 2)
    log.append(x.sum().item() > 0)
    log.append(id(made) != 0)
    net.scale = nn.Parameter(made.detach()[0])
    return net(x), made


@pytest.mark.break_everywhere
@pytest.mark.parametrize("program", [written_then_used, printed, attributes, of_nothing, refused, across_a_break],
                         ids=lambda program: program.__name__)
def test_as_eager(program):
    check(program, make=make, tolerance=CLOSE)
