"""Small programs by tables: how an input is written x which inputs share memory x who requires gradients x what comes
back x the mode of torch. Numbers are small integers, so that equal means equal: in float64, which autocast leaves alone,
and in float32 where it is on."""
from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch


# --- how inputs are written -------------------------------------------------------------------------------------------
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


#: (x, y) -> an additional result, or None
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
    "used_then_requires_no_grad": lambda x, y: ((x * x).sin(), drop(x.requires_grad_(False))),
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


# --- which inputs share memory ----------------------------------------------------------------------------------------
Make = Callable[..., torch.Tensor]
Alias = Callable[[Make, int, int], Any]  # (make, rows, columns) -> x, y


def siblings(make: Make, rows: int, columns: int) -> Any:
    base = make(rows + 1, columns)
    return base[:rows], base[1:]


def halves(make: Make, rows: int, columns: int) -> Any:
    base = make(2 * rows, columns)
    return base[:rows], base[rows:]


def base_first(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, columns)
    return base, base[1:]


def view_first(make: Make, rows: int, columns: int) -> Any:
    return tuple(reversed(base_first(make, rows, columns)))


def transposed(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, columns)
    return base, base.t()


def overlapping(make: Make, rows: int, columns: int) -> Any:
    base = make(2 * rows * columns)
    return tuple(base.as_strided((rows, columns), (columns, 1), at) for at in (0, 2))


def one_storage(make: Make, rows: int, columns: int) -> Any:
    """Memory that is shared behind autograd's back."""
    base = make(2 * rows * columns)
    storage = base.detach().untyped_storage()
    places = (0, rows * columns)
    parts = [torch.empty(0, dtype=base.dtype).set_(storage, at, (rows, columns), (columns, 1)) for at in places]
    return tuple(part.requires_grad_(base.requires_grad) for part in parts)


def same(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, columns)
    return base, base


def detached(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, columns)
    return base, base.detach()


def its_data(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, columns)
    return base.data, base


def other_dtype(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, columns)
    return base, as_whole_numbers(base)


def as_whole_numbers(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def other_width(make: Make, rows: int, columns: int) -> Any:
    base = make(rows, 4)
    return base, torch.view_as_complex(base.view(rows, 2, 2))


ALIASES: dict[str, Alias] = {
    "none": lambda make, rows, columns: (make(rows, columns), make(rows, columns)),
    "same": same,
    "siblings": siblings,
    "halves": halves,
    "base_first": base_first,
    "view_first": view_first,
    "transposed": transposed,
    "overlapping": overlapping,
    "one_storage": one_storage,
    "detached": detached,
    "its_data": its_data,
    "other_dtype": other_dtype,
    "other_width": other_width,
    "unbound": lambda make, rows, columns: make(2, rows, columns).unbind(0),
    "view_alone": lambda make, rows, columns: (make(rows + 2, columns)[1:-1], make(rows, columns)),
    "view_of_view": lambda make, rows, columns: (make(rows + 2, columns)[1:].t()[:, :rows], make(rows, columns)),
    "strided": lambda make, rows, columns: (make(columns, rows).t(), make(rows, 2 * columns)[:, ::2]),
    "expanded": lambda make, rows, columns: (make(1, columns).expand(rows, columns), make(rows, columns)),
}


# --- who requires gradients -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Kind:
    """The tensors to make: of two sizes, from which those of all inputs come."""

    alias: str
    dtype: torch.dtype = torch.float64
    sizes: tuple[int, int] = (2, 3)

    def numbers(self, *shape: int) -> torch.Tensor:
        return (torch.arange(math.prod(shape), dtype=self.dtype) % 5 + 1).reshape(shape).clone()

    def inputs(self, make: Make) -> tuple[torch.Tensor, ...]:
        return tuple(ALIASES[self.alias](make, *self.sizes))


@dataclass(frozen=True)
class Inputs:
    """Leaves to differentiate by, and the program's arguments."""

    leaves: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]


def made(kind: Kind, leaf: bool, middle: bool) -> Inputs:
    leaves: list[torch.Tensor] = []

    def make(*shape: int) -> torch.Tensor:
        value = kind.numbers(*shape)
        if leaf:
            leaves.append(value.requires_grad_())
        return value * 2 if middle else value

    values = kind.inputs(make)
    return Inputs(tuple(leaves), values)


def without(position: int) -> Callable[[Kind], Inputs]:
    def make(kind: Kind) -> Inputs:
        inputs = made(kind, True, True)
        values = [v.detach() if at == position else v for at, v in enumerate(inputs.values)]
        return Inputs(inputs.leaves, tuple(values))

    return make


def leaf_mixed(kind: Kind) -> Inputs:
    inputs = made(kind, True, False)
    return Inputs(inputs.leaves, (inputs.values[0], inputs.values[1].detach()))


def views_without_grad(kind: Kind) -> Inputs:
    leaves: list[torch.Tensor] = []

    def make(*shape: int) -> torch.Tensor:
        leaves.append(kind.numbers(*shape).requires_grad_())
        return leaves[-1]

    with torch.no_grad():
        values = kind.inputs(make)
    return Inputs(tuple(leaves), values)


GRADS: dict[str, Callable[[Kind], Inputs]] = {
    "plain": lambda kind: made(kind, False, False),
    "leaf": lambda kind: made(kind, True, False),
    "middle": lambda kind: made(kind, True, True),
    "first_alone": without(1),
    "second_alone": without(0),
    "leaf_first": leaf_mixed,
    "views_without_grad": views_without_grad,
}


# --- what comes back --------------------------------------------------------------------------------------------------
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

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


# --- programs ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Cell:
    mutation: str
    alias: str
    grad: str
    output: str
    mode: str = "grad"
    inference_inputs: bool = False
    sizes: tuple[int, int] = (2, 3)

    def __str__(self) -> str:
        parts = [self.mutation, self.alias, self.grad, self.output, self.mode]
        return "-".join(parts + ["inference_inputs"] * self.inference_inputs)

    def inputs(self) -> Inputs:
        with torch.inference_mode(self.inference_inputs):
            dtype = torch.float32 if self.mode == "autocast" else torch.float64
            return GRADS[self.grad](Kind(self.alias, dtype, self.sizes))

    def larger(self) -> Cell:
        return replace(self, sizes=(4, 5))

    def under(self) -> AbstractContextManager[Any]:
        return MODES[self.mode]()

    def program(self, x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        more = MUTATIONS[self.mutation](x, y)
        return [*OUTPUTS[self.output](x, y), *(more if isinstance(more, tuple) else () if more is None else (more,))]


def drawn(count: int, seed: int) -> list[Cell]:
    """Programs drawn from the whole product; grad mode as often as all others together."""
    rng = random.Random(seed)
    tables = (MUTATIONS, ALIASES, GRADS, OUTPUTS)
    cells = []
    for _ in range(count):
        mode = "grad" if rng.random() < 0.5 else rng.choice(list(MODES))
        names = [rng.choice(list(table)) for table in tables]
        cells.append(Cell(*names, mode, mode == "inference" and rng.random() < 0.5))
    return cells


def covering() -> Iterator[Cell]:
    """Every pair of a mutation with an alias under every kind of gradients, and every pair of an output with an alias
    and with a mutation: the tables that are no part of the pair are gone through in turn. So also what autocast casts
    with an alias under every kind of gradients."""
    outputs, mutations, grads = itertools.cycle(OUTPUTS), itertools.cycle(MUTATIONS), itertools.cycle(GRADS)
    aliases = itertools.cycle(ALIASES)
    modes = itertools.cycle(("grad", "no_grad", "grad", "autocast", "grad", "inference", "autocast"))
    for mutation, alias, grad in itertools.product(MUTATIONS, ALIASES, GRADS):
        yield Cell(mutation, alias, grad, next(outputs))
    for output, alias in itertools.product(OUTPUTS, ALIASES):
        yield Cell(next(mutations), alias, next(grads), output, next(modes))
    for output, mutation in itertools.product(OUTPUTS, MUTATIONS):
        mode = next(modes)
        yield Cell(mutation, next(aliases), next(grads), output, mode, mode == "inference")
    for output, alias, grad in itertools.product(CAST, ALIASES, GRADS):
        yield Cell(next(mutations), alias, grad, output, "autocast")
