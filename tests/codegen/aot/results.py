"""What comes back of a program."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.codegen.aot.sharing import as_whole_numbers


class Viewed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.t()

    @staticmethod
    def backward(ctx, grad):
        return grad.t() * 3


class TwiceViewed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.t(), x[1:]

    @staticmethod
    def backward(ctx, first, second):
        return torch.cat([first.t()[:1], first.t()[1:] + second * 2])


def complexes(z):
    return z if z.is_complex() else torch.complex(z, z * 2)


def complex_parts(z):
    both = complexes(z)
    return both, both.real, both.imag


def with_middle(results: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    return lambda x, y: results(x * y.sum())


def no_grad_views(x, y):
    middle = x * 3
    with torch.no_grad():
        return middle[0], x[0]


def written_views(z):
    first, rest = z[0], z[1:]
    first.mul_(2)
    z.add_(1)
    return rest, first


def saved_and_returned(x, y):
    out = (x * 2).exp2()
    return out, out * x


def product_with_itself(x, y):
    product = x @ x.mT
    return product, product[0], x


def product_written(x, y):
    product = torch.nn.functional.linear(x, x)
    used = product * 2
    product.mul_(3)
    return used, product.mT


def products_of_two_values(x, y):
    """Casts of leaves are kept by autocast as long as it is on."""
    before = x @ x.mT
    with torch.no_grad():
        x.add_(1)
    return before, x @ x.mT


def product_without_autocast(x, y):
    with torch.autocast("cpu", enabled=False):
        exact = x @ x.mT
    return exact, exact + x @ x.mT


#: (x, y) -> results, of other dtypes under autocast
CAST: dict[str, Callable[..., Any]] = {
    "product": product_with_itself,
    "product_written": product_written,
    "products_of_two_values": products_of_two_values,
    "product_without_autocast": product_without_autocast,
    "product_of_middle": with_middle(lambda z: (z @ z.mT, z)),
}

#: (x, y) -> results
OUTPUTS: dict[str, Callable[..., Any]] = {
    "nothing": lambda x, y: (),
    "fresh": lambda x, y: (x * x + y.sum(),),
    "other_fresh": lambda x, y: (y * 3, x.shape[0], None),
    "input": lambda x, y: (x,),
    "inputs": lambda x, y: (y, x, x),
    "view_of_input": lambda x, y: (x[0],),
    "views_of_inputs": lambda x, y: (x.t(), y[:1], x[1:].unsqueeze(0)),
    "equal_views": lambda x, y: (x[0], x[0], x.detach(), x.detach()),
    "view_and_input": lambda x, y: (x.t(), x),
    "unbind_input": lambda x, y: x.unbind(0),
    "detach_input": lambda x, y: (x.detach(), x),
    "data_of_input": lambda x, y: (x.data, x * 2),
    "alias_of_input": lambda x, y: (x.view_as(x), x.contiguous()),
    "contiguous_twice": lambda x, y: (x.contiguous(), x.t().contiguous()),
    "view_of_middle": with_middle(lambda z: (z[0],)),
    "views_of_middle": with_middle(lambda z: (z[0], z[:, 1:], z.t())),
    "unbind_middle": with_middle(lambda z: z.unbind(0)),
    "split_middle": with_middle(lambda z: z.split(2, dim=1)),
    "one_of_split": with_middle(lambda z: (z.split(1, dim=1)[1],)),
    "middle_and_view": with_middle(lambda z: (z, z[0])),
    "view_and_middle": with_middle(lambda z: (z.t(), z)),
    "middle_twice": with_middle(lambda z: (z, z)),
    "view_twice": with_middle(lambda z: (z[0],) * 2),
    "middle_and_detached": with_middle(lambda z: (z, z.detach())),
    "detached_and_middle": with_middle(lambda z: (z.detach()[0], z)),
    "reshaped": with_middle(lambda z: (z.reshape(-1), z.t().reshape(-1))),
    "unsafe_view": with_middle(lambda z: (torch.ops.aten._unsafe_view(z.contiguous(), (-1,)),)),
    "batched_matmul": lambda x, y: (torch.matmul(torch.ones(2, 2, x.shape[0], dtype=x.dtype), x),),
    "real_view": with_middle(lambda z: (torch.view_as_real(complexes(z)),)),
    "complex_parts": with_middle(complex_parts),
    "conjugate": with_middle(lambda z: (complexes(z).conj(),)),
    "complex_of_input": lambda x, y: (torch.view_as_complex(x[:, :2]),),
    "other_dtype": with_middle(lambda z: (as_whole_numbers(z), z)),
    "view_of_view": with_middle(lambda z: (z[1:].t()[0], z[:1])),
    "expanded": with_middle(lambda z: (z[:1].expand(4, -1),)),
    "strided": with_middle(lambda z: (z.as_strided((2, 2), (1, 1), 1), z)),
    "no_grad_views": no_grad_views,
    "written_views": with_middle(written_views),
    "written_middle": lambda x, y: ((x * 2).mul_(3).t_(),),
    "custom_view": lambda x, y: (Viewed.apply(x * 2),),
    "custom_view_of_input": lambda x, y: (Viewed.apply(x),),
    "custom_view_and_views": with_middle(lambda z: (v := Viewed.apply(z), v[0], v * 3, z)),
    "view_of_custom_view": lambda x, y: (Viewed.apply(x)[1:],),
    "custom_views_of_input": lambda x, y: TwiceViewed.apply(x),
    "saved_and_returned": saved_and_returned,
    **CAST,
}
