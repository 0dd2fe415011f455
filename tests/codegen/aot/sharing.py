"""Which inputs share memory, and who requires gradients."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Make = Callable[..., torch.Tensor]
Alias = Callable[[Make, int, int], Any]  # (make, rows, columns) -> x, y


# --- which inputs share memory ----------------------------------------------------------------------------------------

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
