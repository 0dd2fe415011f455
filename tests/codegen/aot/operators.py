"""Operators of a program, which write into what they are given: `torch.ops.framejit_tests`."""
import torch


@torch.library.custom_op("framejit_tests::add_to", mutates_args=("into",))
def add_to(into: torch.Tensor, x: torch.Tensor) -> None:
    into.add_(x)


@torch.library.custom_op("framejit_tests::add_and_double", mutates_args=("into",))
def add_and_double(into: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    into.add_(x)
    return into * 2


@add_and_double.register_fake
def _(into, x):
    return torch.empty_like(into)


@torch.library.custom_op("framejit_tests::add_to_all", mutates_args=("into", "also"))
def add_to_all(into: list[torch.Tensor], x: torch.Tensor, also: torch.Tensor | None = None) -> None:
    for each in (*into, *([] if also is None else [also])):
        each.add_(x)
