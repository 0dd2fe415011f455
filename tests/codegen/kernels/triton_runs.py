"""Runs kernels as Triton in its interpreter, on CPU tensors, next to the evaluator.

The interpreter runs as it is but for six things: it has no libdevice (here: torch's functions), it rounds to bfloat16
wrongly, it multiplies the bits of matrices of them, it calls a reduction's function for one element after the other (here: for all pairs of neighbours at once, as a
tree, which is what a GPU does), it has no numbers as arguments but integers, and that of Triton 3.6 makes no index of a
number as numpy 2.4 has it.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from codegen.kernels import evaluate
from codegen.kernels import index as ix
from codegen.kernels.check import check
from codegen.kernels.ir import Kernel
from codegen.kernels.triton import print_triton
from codegen.kernels.triton_launch import functions_of, pointer_type
from codegen.kernels.triton_shape import Config, candidates, programs, reports_errors
from tests.codegen.kernels.c_runs import CLOSE, Guarded


# --- what the interpreter lacks ---------------------------------------------------------------------------------------
def _elementwise(function: Callable[..., torch.Tensor]) -> Callable[..., tl.tensor]:
    def called(*operands: tl.tensor) -> tl.tensor:
        arrays = np.broadcast_arrays(*(operand.handle.data for operand in operands))
        found = function(*(torch.from_numpy(np.array(array)) for array in arrays)).numpy()
        first = max(operands, key=lambda operand: len(operand.shape))
        return tl.tensor(interpreter.TensorHandle(found, first.dtype), _type_of(first, found))

    return called


def _type_of(like: tl.tensor, found: np.ndarray) -> Any:
    return tl.block_type(like.dtype, list(found.shape)) if like.type.is_block() else like.type


_ONE = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv
lgamma rsqrt trunc""".split()
_TWO = "pow atan2 hypot fmod copysign nextafter".split()
LIBDEVICE = types.SimpleNamespace(
    **{name: _elementwise(getattr(torch, name)) for name in (*_ONE, *_TWO)}, rint=_elementwise(torch.round)
)
_DTYPES = {tl.float32: torch.float32, tl.bfloat16: torch.bfloat16, tl.float16: torch.float16, tl.float64: torch.float64}


def _convert_float(data: np.ndarray, old: tl.dtype, new: tl.dtype, rounding: Any) -> np.ndarray:
    """As `interpreter._convert_float`, rounded to the nearest: the bits."""
    given = torch.from_numpy(np.array(data).view(f"int{old.primitive_bitwidth}")).view(_DTYPES[old])
    return given.to(_DTYPES[new]).view(getattr(torch, f"int{new.primitive_bitwidth}")).numpy()


_OWN_DOT = interpreter.InterpreterBuilder.create_dot


def _dot(self: Any, a: Any, b: Any, total: Any, *options: Any) -> Any:
    def factor(given: Any) -> Any:
        if given.dtype != tl.bfloat16:
            return given
        bits = torch.from_numpy(np.array(given.data).view("int16"))
        return interpreter.TensorHandle(bits.view(torch.bfloat16).float().numpy(), tl.float32)

    return _OWN_DOT(self, factor(a), factor(b), total, *options)


_OWN_PATCH = interpreter._patch_lang_tensor


def _patch_tensor(tensor: Any, *scope: Any) -> None:
    _OWN_PATCH(tensor, *scope)
    tensor.__index__ = lambda self: int(self.handle.data.item())


def _combined(operation: Any, left: list[np.ndarray], right: list[np.ndarray], like: Sequence[tl.tensor]) -> list[np.ndarray]:
    operands = [
        tl.tensor(interpreter.TensorHandle(array, tensor.dtype), tl.block_type(tensor.dtype, list(array.shape)))
        for arrays in (left, right)
        for array, tensor in zip(arrays, like)
    ]
    found = operation.combine_fn.fn(*operands)
    return [np.asarray(tensor.handle.data) for tensor in (found if isinstance(found, tuple) else (found,))]


def _reduce(self: Any, tensors: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    axis = self.axis
    parts = [np.moveaxis(tensor.handle.data, axis, 0) for tensor in tensors]
    while len(parts[0]) > 1:
        parts = _combined(self, [part[::2] for part in parts], [part[1::2] for part in parts], tensors)
    parts = [np.moveaxis(part, 0, axis) for part in parts]
    assert self.keep_dims
    return [self.to_tensor(part, tensor.dtype) for part, tensor in zip(parts, tensors)]


def _scan(self: Any, tensors: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    parts = [np.moveaxis(tensor.handle.data, self.axis, 0).copy() for tensor in tensors]
    step = 1
    while step < len(parts[0]):
        new = _combined(self, [np.roll(part, step, 0) for part in parts], parts, tensors)
        for part, later in zip(parts, new):
            part[step:] = later[step:]
        step *= 2
    return [self.to_tensor(np.moveaxis(part, 0, self.axis), tensor.dtype) for part, tensor in zip(parts, tensors)]


@contextlib.contextmanager
def interpreting() -> Iterator[None]:
    replaced = {
        (interpreter, "_convert_float"): _convert_float,
        (interpreter.ReduceOps, "apply_impl"): _reduce,
        (interpreter.ScanOps, "apply_impl"): _scan,
        (interpreter, "_patch_lang_tensor"): _patch_tensor,
        (interpreter.InterpreterBuilder, "create_dot"): _dot,
    }
    before = {(owner, name): getattr(owner, name) for owner, name in replaced}
    with triton.knobs.runtime.scope(), np.errstate(all="ignore"):
        triton.knobs.runtime.interpret = True
        for (owner, name), value in replaced.items():
            setattr(owner, name, value)
        try:
            yield
        finally:
            for (owner, name), value in before.items():
                setattr(owner, name, value)


# --- runs -------------------------------------------------------------------------------------------------------------
def _number(value: Any, dtype: torch.dtype) -> Any:
    if not dtype.is_floating_point:
        return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=np.int64), tl.int64), tl.int64)
    held, array = (tl.float64, np.float64) if dtype is torch.float64 else (tl.float32, np.float32)
    return tl.tensor(interpreter.TensorHandle(np.array([value], dtype=array), held), held)


#: Of a kernel in tiles of that size: its source, and how many programs of it do it.
Printer = Callable[[Kernel, Any], tuple[str, ix.Index]]


def printed(kernel: Kernel, config: Config) -> tuple[str, ix.Index]:
    return print_triton(kernel, config), programs(kernel, config)


def run_triton(
    kernel: Kernel, config: Any, buffers: Mapping[str, torch.Tensor], sizes: Sequence[int] = (), scalars: Sequence[Any] = (),
    printer: Printer = printed,
) -> tuple[int, dict[str, torch.Tensor]]:
    """The error flag and the buffers afterwards."""
    numbers = dict(zip(kernel.sizes, sizes, strict=True))
    guarded = {buffer.name: Guarded(buffers[buffer.name]) for buffer in kernel.buffers}
    error = torch.zeros(1, dtype=torch.int32)
    source, count = printer(kernel, config)
    with interpreting():
        function = functions_of(source)[kernel.name]
        function.fn.__globals__["libdevice"] = LIBDEVICE
        grid = ix.evaluate(count, numbers.__getitem__)
        given = [_pointer(guarded[buffer.name], buffer.dtype) for buffer in kernel.buffers]
        given += [error] if reports_errors(kernel) else []
        given += [*sizes, *(_number(value, scalar.dtype) for value, scalar in zip(scalars, kernel.scalars, strict=True))]
        if grid:
            function[(grid,)](*given)
    return int(error), {name: memory.tensor() for name, memory in guarded.items()}


def _pointer(memory: Guarded, dtype: torch.dtype) -> Any:
    """Memory as a pointer of the interpreter's, which is not copied."""
    pointer = tl.str_to_ty(pointer_type(dtype), None)
    return tl.tensor(interpreter.TensorHandle(np.array([memory.address], dtype=np.uint64), pointer), pointer)


def roomy(kernel: Kernel, config: Config, sizes: Sequence[int], most: int = 64) -> Config:
    """In larger tiles, if they are so many that the interpreter would be busy for long."""
    numbers = dict(zip(kernel.sizes, sizes, strict=True))
    while ix.evaluate(programs(kernel, config), numbers.__getitem__) > most and config.x * config.y * config.r < 1 << 16:
        config = replace(config, x=config.x * 2)
    return config


def compare(
    kernel: Kernel, buffers: Mapping[str, torch.Tensor], sizes: Sequence[int] = (), scalars: Sequence[Any] = (),
    exact: bool = False, close: tuple[float, float] | None = None, configs: Sequence[Any] | None = None,
    bits: bool = False, printer: Printer = printed,
) -> None:
    """Triton does to the buffers what the evaluator does, in tiles of these sizes."""
    check(kernel)
    expected = {name: tensor.clone() for name, tensor in buffers.items()}
    try:
        evaluate.run(kernel, expected, sizes, scalars)
        answer = 0
    except IndexError as error:
        assert str(error) == "index out of range in self"
        answer = 1
    for wanted in configs or candidates(kernel, dict(zip(kernel.sizes, sizes, strict=True)))[:1]:
        config = roomy(kernel, wanted, sizes) if isinstance(wanted, Config) else wanted
        bad, found = run_triton(kernel, config, buffers, sizes, scalars, printer)
        assert bad == answer, f"{kernel}\nanswers {bad}"
        if bad:
            continue
        for name, tensor in expected.items():
            if bits:  # also the sign of zero
                assert found[name].numpy().tobytes() == tensor.numpy().tobytes(), printer(kernel, config)[0]
            rtol, atol = (0, 0) if exact else close or CLOSE.get(tensor.dtype, (0, 0))
            torch.testing.assert_close(
                found[name], tensor, rtol=rtol, atol=atol, equal_nan=True,
                msg=lambda text: f"{text}\n{name} of\n{kernel}\n{printer(kernel, config)[0]}",
            )
