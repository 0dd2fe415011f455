"""Runs kernels as C, in memory that ends where the machine does, next to the evaluator."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from codegen.artifacts.store import Store
from codegen.kernels import evaluate
from codegen.kernels import index as ix
from codegen.kernels.c import print_c
from codegen.kernels.check import check
from codegen.kernels.ir import Kernel
from codegen.kernels.toolchain import compile_c

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
Number = type("Number", (ctypes.Union,), {"_fields_": [("f", ctypes.c_double), ("i", ctypes.c_int64)]})


def compile_unit(kernels: Sequence[Kernel]) -> ctypes.CDLL:
    """The shared library of these kernels, each checked."""
    return ctypes.CDLL(str(compile_c(print_c([check(kernel) for kernel in kernels]), store=Store(None, 0), openmp=False)))


class Guarded:
    """A copy of a tensor whose last byte is the last one before memory that nobody may touch (`first`: whose first one
    is the first one after that)."""

    def __init__(self, tensor: torch.Tensor, first: bool = False) -> None:
        size, page = tensor.numel() * tensor.element_size(), mmap.PAGESIZE
        room = -(-max(size, 1) // page) * page
        self.memory = mmap.mmap(-1, room + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        assert _libc.mprotect(start if first else start + room, page, 0) == 0
        self.address, self.size, self.like = start + (page if first else room - size), size, tensor
        ctypes.memmove(self.address, tensor.data_ptr(), size)

    def tensor(self) -> torch.Tensor:
        out = torch.empty_like(self.like)
        ctypes.memmove(out.data_ptr(), self.address, self.size)
        return out


def run_c(
    library: ctypes.CDLL, kernel: Kernel, buffers: Mapping[str, torch.Tensor], sizes: Sequence[int] = (),
    scalars: Sequence[Any] = (), cuts: Sequence[float] = (), guard_first: bool = False,
) -> tuple[int, dict[str, torch.Tensor]]:
    """The answer (of all calls together) and the buffers afterwards. `cuts`: where, in 0..1, the work is cut in pieces."""
    numbers = dict(zip(kernel.sizes, sizes, strict=True))
    work = 1
    for axis in kernel.axes:
        assert axis.size is not None
        work *= ix.evaluate(axis.size, numbers.__getitem__)
    work //= kernel.stretch
    guarded = {buffer.name: Guarded(buffers[buffer.name], guard_first) for buffer in kernel.buffers}
    pointers = (ctypes.c_void_p * (len(guarded) + 1))(*(g.address for g in guarded.values()))
    given = (Number * (len(scalars) + 1))()
    for n, (scalar, value) in enumerate(zip(kernel.scalars, scalars, strict=True)):
        if scalar.dtype.is_floating_point:
            given[n].f = value
        else:
            given[n].i = value
    function = library[kernel.name]
    places = [0, *sorted(round(cut * work) for cut in cuts), work]
    bad = 0
    for begin, end in reversed(list(zip(places, places[1:], strict=False))):
        bad |= function(
            pointers, (ctypes.c_int64 * (len(sizes) + 1))(*sizes), given, ctypes.c_int64(begin), ctypes.c_int64(end)
        )
    return bad, {name: g.tensor() for name, g in guarded.items()}


#: Of results that are rounded: relative and absolute.
CLOSE = {
    torch.float64: (1e-12, 1e-14), torch.float32: (3e-6, 3e-6), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2)
}  # fmt: skip
CUTS = [(), (0.5,), (0.01, 0.31, 0.32, 0.77)]


def compare(
    kernel: Kernel, buffers: Mapping[str, torch.Tensor], sizes: Sequence[int] = (), scalars: Sequence[Any] = (),
    library: ctypes.CDLL | None = None, exact: bool = False, close: tuple[float, float] | None = None,
) -> None:
    """C does to the buffers what the evaluator does, however the work is cut, and touches nothing around them."""
    expected = {name: tensor.clone() for name, tensor in buffers.items()}
    try:
        evaluate.run(kernel, expected, sizes, scalars)
        answer = 0
    except IndexError as error:
        assert str(error) == "index out of range in self"
        answer = 1
    library = library or compile_unit([kernel])
    for number, cuts in enumerate(CUTS):
        bad, found = run_c(library, kernel, buffers, sizes, scalars, cuts, guard_first=number % 2 == 1)
        assert bad == answer, f"{kernel}\nanswers {bad}"
        if bad:
            continue
        for name, tensor in expected.items():
            rtol, atol = (0, 0) if exact else close or CLOSE.get(tensor.dtype, (0, 0))
            torch.testing.assert_close(
                found[name], tensor, rtol=rtol, atol=atol, equal_nan=True,
                msg=lambda text: f"{text}\n{name} of\n{kernel}\ncut at {cuts}\n{print_c([kernel])}",
            )
