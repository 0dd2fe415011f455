"""How a program writes its inputs: (x, y) -> an additional result, or None."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def used_then_written(x, y):
    used = x * x
    x.add_(1)
    return used


def no_grad_write(x, y):
    with torch.no_grad():
        x.mul_(2)


def swapped(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def view_then_base(x, y):
    view = x[0]
    view.mul_(3)
    x.add_(1)
    view.add_(view * 2)


def reads_across(x, y):
    x.mul_(2)
    seen = y * 3
    x.add_(1)
    return seen


def new_data(x, y):
    x.data = x * 2


def views_before_and_after(x, y):
    """It comes to require a gradient, and is written before and after that."""
    before = x[0]
    used = x.mul_(2) * 3
    x.requires_grad_()
    between = x[0]
    with torch.no_grad():
        x.add_(1)
    return before, used, between, x[0]


def storage_resized(x, y):
    storage = x.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    storage.fill_(0)


def in_a_function(x, y):
    Doubled.apply(x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


MUTATIONS: dict[str, Callable[..., Any]] = {
    "none": lambda x, y: None,
    "add_": lambda x, y: drop(x.add_(1)),
    "mul_": lambda x, y: drop(x.mul_(y.sum())),
    "copy_": lambda x, y: drop(x.copy_(torch.ones_like(x) * 3)),
    "copy_other_dtype": lambda x, y: drop(x.copy_(y.to(torch.int32))),
    "zero_": lambda x, y: drop(x.zero_()),
    "index_put_": lambda x, y: drop(x.index_put_((torch.arange(1),), x[:1] * 2)),
    "masked_fill_": lambda x, y: drop(x.masked_fill_(x > 2, 7)),
    "slice": lambda x, y: x.__setitem__(slice(1, None), 5),
    "slice_of_itself": lambda x, y: x.__setitem__((slice(None), 0), x[:, 1] * 2),
    "through_view": lambda x, y: drop(x.t()[0].mul_(3)),
    "through_views": lambda x, y: drop(x.unsqueeze(0)[0].diagonal().mul_(3)),
    "through_unbind": lambda x, y: drop(x.unbind(1)[1].mul_(3)),
    "through_data": lambda x, y: drop(x.data.mul_(2)),
    "through_detach": lambda x, y: drop(x.detach()[0].mul_(2)),
    "out": lambda x, y: drop(torch.mul(x.detach(), 2, out=x.detach())),
    "foreach": lambda x, y: drop(torch._foreach_add_([x, y], 1)),
    "no_grad": no_grad_write,
    "twice": lambda x, y: drop(x.add_(1).mul_(2)),
    "both": lambda x, y: drop((x.mul_(2), y.add_(x.sum()))),
    "other": lambda x, y: drop(y.mul_(2)),
    "used_then_written": used_then_written,
    "reads_across": reads_across,
    "view_then_base": view_then_base,
    "copy_between": lambda x, y: drop(x[:1].copy_(y[:1])),
    "copy_all_between": lambda x, y: drop(x.copy_(y)),
    "swap": swapped,
    "in_a_function": in_a_function,
    "t_": lambda x, y: drop(x.t_()),
    "transpose_": lambda x, y: drop(x.transpose_(0, 1)),
    "unsqueeze_": lambda x, y: drop(x.unsqueeze_(1)),
    "squeeze_": lambda x, y: drop(x.unsqueeze_(0).squeeze_(0)),
    "as_strided_": lambda x, y: drop(x.as_strided_((2, 2), (1, 1))),
    "mul_then_as_strided_": lambda x, y: drop(x.mul_(2).as_strided_((2, 2), (1, 1))),
    "t_both": lambda x, y: drop((x.t_(), y.t_())),
    "t_then_mul_": lambda x, y: drop(x.t_().mul_(2)),
    "mul_then_t_": lambda x, y: drop(x.mul_(2).t_()),
    "slice_then_t_": lambda x, y: drop((x[0].mul_(2), x.t_())),
    "detach_": lambda x, y: drop(x.detach_()),
    "detach_then_mul_": lambda x, y: drop(x.detach_().mul_(2)),
    "mul_then_detach_": lambda x, y: drop(x.mul_(2).detach_()),
    "requires_grad_": lambda x, y: drop(x.requires_grad_()),
    "requires_no_grad_": lambda x, y: drop(x.requires_grad_(False)),
    "used_then_requires_no_grad": lambda x, y: ((x * x).relu(), drop(x.requires_grad_(False))),
    "used_and_for_a_while_without": lambda x, y: (x * x * x, drop(x.requires_grad_(False).requires_grad_())),
    "mul_then_requires_grad_": lambda x, y: x.mul_(2).requires_grad_(),
    "t_then_requires_grad_": lambda x, y: (x.t_(), x.requires_grad_()),
    "viewed_then_requires_grad_": lambda x, y: (x[0], x.requires_grad_()),
    "requires_grad_then_no_grad": lambda x, y: drop((x.requires_grad_(), no_grad_write(x, y))),
    "views_before_and_after": views_before_and_after,
    "set_": lambda x, y: drop(x.set_(y)),
    "set_fresh": lambda x, y: drop(x.set_(x.detach() * 2)),
    "set_data": new_data,
    "resize_smaller": lambda x, y: drop(x.resize_(1, 2)),
    "resize_same": lambda x, y: drop(x.resize_(x.shape)),
    "resize_larger": lambda x, y: drop(x.resize_(5, 5).fill_(1)),
    "storage_resize": storage_resized,
}


def drop(value: Any) -> None:
    """A statement as an expression."""
