"""What derivatives of derivatives would start from is kept where a gradient depends on it, and nowhere else."""
import pytest
import torch
from torch import nn

import jit
from codegen.aot import wrapper
from tests.differential import check


@pytest.fixture
def copies(monkeypatch):
    made = []
    copied = wrapper.copied
    monkeypatch.setattr(wrapper, "copied", lambda *args, **settings: made.append(args) or copied(*args, **settings))
    return made


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def loss_of(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def all_of(model, optimizer, x):
    optimizer.zero_grad()
    y = model(x)
    loss = y.square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach(), y


@pytest.mark.parametrize("step", [loss_of, all_of])
@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_weights_that_a_step_writes_are_not_copied(step, backend, copies):
    """What it returns has a history, of which nothing can be differentiated any more."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    compiled = jit.compile(step, backend=backend)
    for _ in range(3):
        result = compiled(model, optimizer, torch.ones(3, 4))
    assert not copies
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        (result if isinstance(result, torch.Tensor) else result[1].sum()).backward()


def scaled(x, w):
    y = x * w.exp() + w
    with torch.no_grad():
        w.mul_(2)
    return y * x


def twice(result, x, w):
    (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)


@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_an_input_that_gradients_depend_on_is_kept_as_it_came(backend, copies):
    """`w.exp()` keeps its result, not `w`, which may be written."""
    def make():
        return torch.arange(3.0).requires_grad_(), torch.ones(3)

    check(scaled, make=make, then=twice, backend=backend, tolerance=(1e-6, 1e-6))
    assert copies


def test_what_is_the_tensor_itself_in_aten_is_a_copy():
    """`conj_physical` of real numbers: the compiled backward said that its result had a history already."""
    leaf = torch.ones(3, requires_grad=True)
    x = leaf * 2
    y = jit.compile(lambda x: x.conj_physical_() * 3)(x)
    y.sum().backward()
    assert x._version == 1 and leaf.grad.tolist() == [6, 6, 6]
