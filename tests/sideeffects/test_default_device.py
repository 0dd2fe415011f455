"""`torch.set_default_device` inside of the frame: tensors are made there, and after the frame it is what eager code left."""
import pytest
import torch

from tests.differential import check


def there_and_back(x):
    torch.set_default_device("meta")
    y = torch.ones(3)
    torch.set_default_device(None)
    return x + torch.ones(3), y


def left_changed(x):
    torch.set_default_device("meta")
    return x + 1, torch.zeros(2)


def inside_a_context(x):
    with torch.device("meta"):
        torch.set_default_device("cpu")
        y = torch.ones(2)
    return x + torch.ones(3), y, torch.get_default_device()


def to_what_it_is(x):
    torch.set_default_device("cpu")
    return x + torch.ones(3)


@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("fn", [there_and_back, left_changed, inside_a_context, to_what_it_is], ids=lambda fn: fn.__name__)
def test_set_default_device(fn, backend):
    def device_and_back(result, x):
        device = str(torch.get_default_device())
        torch.set_default_device(None)
        return device

    check(fn, make=lambda: (torch.ones(2, 3),), graphs=1, backend=backend, then=device_and_back)
    assert torch.get_default_device() == torch.device("cpu")
