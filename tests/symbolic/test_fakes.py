"""Stand-ins say of views what eager tensors say."""
import pytest
import torch

from symbolic.fakes import FakeMode

VIEWS = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "flat": lambda x: x.view(-1),
    "in two": lambda x: x.view(2, -1),
    "as it is": lambda x: x.view_as(x),
    "other dtype": lambda x: x.view(torch.int32),
    "unsqueeze": lambda x: x.unsqueeze(0).unsqueeze(-1),
    "transpose": lambda x: x.transpose(0, -1),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute([*reversed(range(x.dim()))]),
    "expand": lambda x: x.expand(3, *x.shape),
    "alias": torch.ops.aten.alias,
    "slice": lambda x: x[1:],
    "past the end": lambda x: x[9:],
    "steps": lambda x: x[..., ::2],
    "select": lambda x: x[-1],
    "one number": lambda x: x[..., 0],
    "view of a view": lambda x: x[1].t().unsqueeze(1),
}
TENSORS = {
    "matrix": lambda: torch.randn(4, 6),
    "transposed": lambda: torch.randn(4, 6).t(),
    "leaf": lambda: torch.randn(4, 6, requires_grad=True),
    "result": lambda: torch.randn(4, 6, requires_grad=True) * 2,
    "number": lambda: torch.randn(()),
    "nothing": lambda: torch.randn(2, 0, 4)[:, :, 1:],
    "sizes of 1": lambda: torch.randn(4, 1, 6)[:, :, ::2],
    "expanded": lambda: torch.ones(4, 6).expand(2, 4, 6),
    "conjugate": lambda: torch.randn(4, 6, dtype=torch.complex64).conj(),
    "parameter": lambda: torch.nn.Parameter(torch.randn(4, 4)),
}


def looks(view, of):
    return (
        view.shape, view.stride(), view.storage_offset(), view.dtype, view.device, view.requires_grad, view.is_leaf,
        view._is_view(), view.is_conj(), view.is_inference(), view is of, view._is_view() and view._base is of,
        view.untyped_storage()._cdata == of.untyped_storage()._cdata,
        None if view.is_inference() else view._version,
    )


def said(view, x):
    try:
        return looks(view(x), x)
    except (RuntimeError, IndexError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("view", VIEWS)
def test_views(view, tensor, inference):
    with torch.inference_mode(inference):
        x = TENSORS[tensor]()
        mode = FakeMode(allow_non_fake_inputs=True)
        fake = mode.from_tensor(x, static_shapes=True)
        with mode:
            found = said(VIEWS[view], fake)
        assert found == said(VIEWS[view], x)


def test_they_count_writes_together():
    mode = FakeMode()
    with mode:
        x = torch.zeros(3, 4)
        view, apart = x.view(-1).unsqueeze(0), x.data
        view.add_(1)
    assert (x._version, view._version, apart._version) == (1, 1, 0)


def test_the_device_inside_of_operations():
    mode = FakeMode()
    with mode:
        x = torch.zeros(3)
        assert x.device == x.view(3, 1).device == torch.device("cpu")
        mode.in_kernel_invocation = True
        assert x.device == torch.device("meta")
        mode.in_kernel_invocation = False


def test_what_is_known_of_elements_is_kept():
    mode = FakeMode()
    with mode:
        number = torch.tensor(3)
        assert number.detach().item() == 3
        assert number.view(1).item() == 3
