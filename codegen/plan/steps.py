"""A plan: what runs in place of a graph. Data, printed as text; its meaning is `run.py`, `build.py` makes it native.

    Plan ::= parameters, steps, results
    Step ::= Size(number, tensor, dim)          a size of a tensor
           | Compute(number, program)           integer arithmetic on numbers
           | Reserve(blocks)                    raw memory, until the plan ends
           | Allocate(tensor, ...)              a new tensor, whose elements are anything
           | Constant(tensor, value)            a tensor that the plan has
           | View(tensor, base, ...)            another tensor of the same memory, or a tensor of a block
           | Launch(function, ...)              a compiled kernel
           | LaunchGroup(launches)              several that do not touch what another one writes, in any order
           | DeviceLaunch(function, ...)        a kernel on a device
           | Call(op, args, kwargs, results)    an ATen operation, below autograd
           | Expect(tensor, dtype, sizes)       what an operation gave is what it was foreseen to be
           | Python(function, args, results)    anything else
           | Free(tensor)                       the plan is done with it

Tensors, numbers and blocks lie in numbered slots. A slot may be set again; what it held is let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload


# --- slots ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TensorSlot:
    number: int

    def __str__(self) -> str:
        return f"t{self.number}"


@dataclass(frozen=True)
class NumberSlot:
    """`kind`: int, float or bool."""

    number: int
    kind: type = int

    def __str__(self) -> str:
        return f"n{self.number}"


@dataclass(frozen=True)
class BlockSlot:
    number: int

    def __str__(self) -> str:
        return f"b{self.number}"


Slot = TensorSlot | NumberSlot | BlockSlot
Count = int | NumberSlot  # a size, stride, offset or number of bytes
Counts = tuple[Count, ...]

CPU = torch.device("cpu")

#: Postfix: ints and slots are pushed, an operator takes two and pushes one. `//` and `%` floor, as in Python.
Token = int | NumberSlot | str
OPERATORS: tuple[str, ...] = ("+", "-", "*", "//", "%", "min", "max")


# --- steps ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Size:
    number: NumberSlot
    tensor: TensorSlot
    dim: int

    def __str__(self) -> str:
        return f"{self.number} = {self.tensor}.size({self.dim})"


@dataclass(frozen=True)
class Compute:
    number: NumberSlot
    program: tuple[Token, ...]

    def __str__(self) -> str:
        return f"{self.number} = {' '.join(map(str, self.program))}"


@dataclass(frozen=True)
class Reserve:
    """(block, bytes) of each. Aligned to 64 bytes, what is in it is anything."""

    blocks: tuple[tuple[BlockSlot, Count], ...]
    device: torch.device = CPU

    def __str__(self) -> str:
        return f"reserve {', '.join(f'{block}[{size}]' for block, size in self.blocks)}{_on(self.device)}"


@dataclass(frozen=True)
class Allocate:
    tensor: TensorSlot
    sizes: Counts
    strides: Counts
    dtype: torch.dtype
    device: torch.device = CPU

    def __str__(self) -> str:
        geometry = f"{_written(self.sizes)}, {_written(self.strides)}, {_written(self.dtype)}"
        return f"{self.tensor} = empty({geometry}){_on(self.device)}"


@dataclass(frozen=True, eq=False)
class Constant:
    """That tensor itself, at every call."""

    tensor: TensorSlot
    value: torch.Tensor

    def __str__(self) -> str:
        return f"{self.tensor} = {_written(self.value)}"


@dataclass(frozen=True)
class View:
    """The tensor at `offset` elements after the base's first. With a `dtype`, elements of that dtype, whatever the
    bytes were; a block has none of its own, and is on `device`. A tensor of a block must not outlive the plan."""

    tensor: TensorSlot
    base: TensorSlot | BlockSlot
    sizes: Counts
    strides: Counts
    offset: Count = 0
    dtype: torch.dtype | None = None
    device: torch.device = CPU

    def __str__(self) -> str:
        dtype = "" if self.dtype is None else f", {_written(self.dtype)}"
        geometry = f"{_written(self.sizes)}, {_written(self.strides)}, {self.offset}"
        return f"{self.tensor} = view({self.base}, {geometry}{dtype})"


@dataclass(frozen=True)
class Function:
    """Machine code: `int name(void *const *buffers, const int64_t *sizes, const union {double f; int64_t i;} *scalars,
    int64_t begin, int64_t end)`. `owner` keeps it loaded."""

    name: str
    address: int
    owner: object = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Floating:
    """A scalar that the kernel takes as a double; the others are int64."""

    value: float | NumberSlot

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Launch:
    """Calls `function` for the positions 0..`total`, in ranges of at least `grain` of them on several threads.

    Raises, after the plan has been cleaned up, IndexError if the function answers with an odd number, and RuntimeError,
    as torch does of a division by zero, for another but 0.

    For people, as in other steps: `origin`, the positions in the graph of what it computes; `traffic`, a program for
    the bytes that it moves."""

    function: Function
    buffers: tuple[TensorSlot | BlockSlot, ...]
    total: Count
    sizes: Counts = ()
    scalars: tuple[Count | Floating, ...] = ()
    grain: int = 1 << 15
    origin: tuple[int, ...] = ()
    traffic: tuple[Token, ...] = ()

    def __str__(self) -> str:
        groups = [self.buffers, self.sizes, self.scalars]
        while groups and not groups[-1]:
            groups.pop()
        given = "; ".join(", ".join(map(str, group)) for group in groups)
        return f"{self.function}({given}) for {self.total}, grain {self.grain}"


@dataclass(frozen=True)
class LaunchGroup:
    launches: tuple[Launch, ...]

    def __str__(self) -> str:
        return "\n".join(["together:", *(f"    {launch}" for launch in self.launches)])


@dataclass(frozen=True)
class DeviceFunction:
    """A kernel in a device's machine code: `image` is a CUDA module (a cubin). `arguments`: the types of what it takes,
    "*" for a pointer, else "i32", "i64", "fp32" or "fp64"; `shared`: bytes of shared memory."""

    name: str
    image: bytes = field(repr=False)
    arguments: tuple[str, ...]
    threads: int
    shared: int = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class DeviceLaunch:
    """Starts `programs` programs of `function`, on the device's current stream. `arguments`: what the function takes;
    None is a null pointer.

    Raises OverflowError for a number that does not fit into its type, RuntimeError for what the driver refuses. What
    goes wrong in the kernel is an error of a later operation on the device, as with ATen's own kernels."""

    function: DeviceFunction
    programs: Count
    arguments: tuple[TensorSlot | BlockSlot | Count | float | None, ...]
    device: torch.device
    origin: tuple[int, ...] = ()
    traffic: tuple[Token, ...] = ()

    def __str__(self) -> str:
        given = ", ".join("null" if argument is None else str(argument) for argument in self.arguments)
        return f"{self.function}({given}) for {self.programs} programs{_on(self.device)}"


Result = TensorSlot | NumberSlot | tuple[TensorSlot | None, ...] | None


@dataclass(frozen=True)
class Call:
    """`op(*args, **kwargs)` with slots in the arguments, also as items of lists. `results`: where each goes (a list of
    tensors to a tuple of slots), None for what is dropped."""

    op: OpOverload[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    results: tuple[Result, ...] = ()
    origin: tuple[int, ...] = ()

    def __str__(self) -> str:
        given = [*map(_written, self.args), *(f"{name}={_written(value)}" for name, value in self.kwargs)]
        return f"{_targets(self.results)}{self.op}({', '.join(given)})"


@dataclass(frozen=True)
class Expect:
    """Raises TypeError unless the tensor has this dtype and these sizes: kernels go by what torch's fakes say of the
    results of operations. `by`: the operation's name, for the error."""

    tensor: TensorSlot
    dtype: torch.dtype
    sizes: Counts
    by: str = "an operation"

    def __str__(self) -> str:
        return f"expect {self.tensor}: {_written(self.dtype)}, {_written(self.sizes)}"


@dataclass(frozen=True)
class Python:
    """`function(*args)`, which gives a tuple of as many tensors and numbers as there are `results`."""

    function: Callable[..., tuple[Any, ...]]
    args: tuple[Any, ...]
    results: tuple[TensorSlot | NumberSlot | None, ...] = ()
    origin: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"{_targets(self.results)}{name}({', '.join(map(_written, self.args))})"


@dataclass(frozen=True)
class Free:
    tensor: TensorSlot

    def __str__(self) -> str:
        return f"free {self.tensor}"


Step = (
    Size | Compute | Reserve | Allocate | Constant | View | Launch | LaunchGroup | DeviceLaunch | Call | Expect
    | Python | Free
)


@dataclass(frozen=True)
class Plan:
    """`parameters`: the slot of each argument, None for one that is not looked at. `results`: slots and constants.
    `takes_list`: it is called with one list of the arguments, which it empties: those that nobody else holds die when
    they are freed. `aligned`: positions of parameters that have to begin at a multiple of 16 bytes."""

    name: str
    parameters: tuple[TensorSlot | NumberSlot | None, ...]
    steps: tuple[Step, ...]
    results: tuple[Any, ...]
    takes_list: bool = False
    aligned: tuple[int, ...] = ()

    def __str__(self) -> str:
        parameters = ", ".join(map(_parameter, self.parameters))
        head = f"{self.name}({f'[{parameters}]' if self.takes_list else parameters})"
        lines = [line for step in self.steps for line in str(step).splitlines()]
        return "\n    ".join([f"{head}:", *lines, f"return {_written(self.results)}"])


# --- walks and text ---------------------------------------------------------------------------------------------------
def slots_in(value: Any) -> Iterator[Slot]:
    """Slots among arguments, also as items of lists and tuples."""
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from slots_in(item)


def _parameter(slot: TensorSlot | NumberSlot | None) -> str:
    if slot is None:
        return "_"
    return f"{slot}: {slot.kind.__name__}" if isinstance(slot, NumberSlot) else str(slot)


def _on(device: torch.device) -> str:
    return "" if device == CPU else f" on {device}"


def _targets(results: tuple[Result, ...]) -> str:
    return f"{', '.join('_' if r is None else _written(r) for r in results)} = " if results else ""


def _written(value: Any) -> str:
    match value:
        case TensorSlot() | NumberSlot() | BlockSlot() | torch.device():
            return str(value)
        case torch.dtype():
            return str(value).removeprefix("torch.")
        case torch.Tensor():
            return f"<tensor {tuple(value.shape)}>"
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case tuple():
            return f"({', '.join(map(_written, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
