"""What it costs to keep a tensor from forward to backward, and what it costs to compute it again.

The unit is a byte kept. It is written once, read once, and in the way of everything allocated in between; an output is
written anyway, and in its owner's way alone. The price of running an operation again is a part of the bytes that this
moves (`Kind.rate`, in sixteenths):

- A pointwise operation is fused with what reads it. Its operands are there anyway, and its result never reaches memory:
  what is left is arithmetic, of which a machine does ten or more per byte that it moves.
- Gathers and copies are fused as well, but their addresses scatter.
- A reduction or a normalisation goes over its operands once more before its readers can begin: those bytes count too.
  That is why a small result (a mean, a maximum) is kept and a large one (a softmax) may be computed again.

Two rules follow and need no words of their own. Distance: a chain costs the sum of its links, so one of more than about
sixteen pointwise operations as large as the result is not run again. And a value is never computed again where
keeping it costs less.

Where no compiler fuses operations, each that runs again takes time of its own (`alone`), and what a byte of memory is
worth in time nobody can say. There the rule is that memory is won where it costs next to no time: what runs again
takes at most `SPARE` of the time of all.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from codegen import raising
from codegen.aot.numbers import may_raise

SMALL = 1 << 18  # bytes; less fits into any cache, and to launch one more operation costs more than to move it
UNHINTED = 4096  # the length taken for a size that nobody knows before the program runs
FLOPS_PER_BYTE = 128  # arithmetic that fits into the time of moving a byte: ~20 on a CPU, ~300 on an H100 in bfloat16
SPARE = 1 / 24  # nobody notices that: timings of whole steps differ by as much from run to run


@dataclass(frozen=True)
class Kind:
    """A class of operations, and what it costs to run one again."""

    name: str
    rate: int | None  # sixteenths of a kept byte for each byte moved; None: never run again
    reads: bool = False  # whether what it reads counts among the bytes moved
    why: str = "keeping it costs less than computing it again"  # said of a result that is kept
    slowness: int = 1  # how many bytes a plain operation moves in the time in which this one, alone, moves one


VIEW = Kind("view", 0)
ITEM = Kind("item", 0)
CONSTANT = Kind("constant", 0)
SIZE = Kind("size", None, why="it is a number")
POINTWISE = Kind("pointwise", 1)
MATH = Kind("math", 1, slowness=3)
GATHER = Kind("gather", 2, slowness=2)
REDUCTION = Kind("reduction", 4, reads=True)
NORMAL = Kind("normalisation", 4, reads=True, slowness=2)
COMPUTE = Kind("compute", None, why="computing it again takes long")
RANDOM = Kind("random", None, why="drawn again, it would be another")
EFFECT = Kind("effect", None, why="its operation does more than compute it")
OPAQUE = Kind("opaque", None, why="nothing is known about the cost of its operation")

_NAMES = {
    VIEW: "_unsafe_view",  # shares memory, though its schema does not say so
    SIZE: "sym_size sym_stride sym_numel sym_storage_offset",
    POINTWISE: """clone _to_copy copy fill where masked_fill tril triu lift_fresh_copy full full_like zeros zeros_like
        ones ones_like scalar_tensor arange eye linspace new_full new_zeros new_ones iota""",
    GATHER: """cat stack index index_select embedding gather take constant_pad_nd repeat flip roll expand_copy
        select_scatter slice_scatter diagonal_scatter as_strided_scatter select_backward slice_backward unfold_copy
        pixel_shuffle pixel_unshuffle _unsafe_index _unsafe_masked_index""",
    MATH: """acos acosh asin asinh atan atan2 atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 gelu i0 lgamma log
        log10 log1p log2 logit mish polygamma sigmoid silu sin sinc sinh softplus tan tanh xlogy""",
    REDUCTION: "linalg_vector_norm norm xor_sum",
    NORMAL: """_softmax _log_softmax softmax log_softmax logsumexp native_layer_norm native_group_norm
        _fused_rms_norm""",
    COMPUTE: """mm addmm bmm baddbmm mv addmv dot vdot addr convolution _convolution cdist _cdist_forward sort topk
        _scaled_mm _grouped_mm _int_mm _embedding_bag cumsum cumprod logcumsumexp kthvalue median mode
        _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _fft_r2c _fft_c2r _fft_c2c
        _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable
        _scaled_dot_product_flash_attention_for_cpu linalg_qr linalg_cholesky_ex linalg_inv_ex _linalg_svd
        _linalg_eigh linalg_lu_factor_ex _linalg_solve_ex linalg_solve_triangular triangular_solve""",
}
_BY_NAME = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_NAMESPACES = frozenset({"aten", "prims"})
_BY_TAG = {torch.Tag.pointwise: POINTWISE, torch.Tag.reduction: REDUCTION}

# Of which argument, from which dimension on, the sizes are summed over.
_CONTRACTED = {"mm": (0, 1), "addmm": (1, 1), "bmm": (0, 2), "baddbmm": (1, 2), "convolution": (1, 1)}

#: What a machine does in the time of moving a byte (CPU: one core), and the bytes it moves in that of a launch.
_MACHINES = {"cpu": (4, 1 << 15)}
_ACCELERATOR = (FLOPS_PER_BYTE, 1 << 22)

_NUMBER = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)  # bool is an int
_kinds: dict[Any, Kind] = {operator.getitem: ITEM, "get_attr": CONSTANT}


def kind(node: fx.Node) -> Kind:
    """The class of a node's operation. What is not known is taken for an effect, or is at least not run again."""
    target = node.target if node.op == "call_function" else node.op
    found = _kinds.get(target)
    if found is None:
        found = _kinds[target] = _kind(node)
    return found


def _kind(node: fx.Node) -> Kind:
    op = node.target
    if not isinstance(op, torch._ops.OpOverload):
        return EFFECT if isinstance(op, torch._ops.HigherOrderOperator) or not is_number(node) else SIZE
    if torch.Tag.nondeterministic_seeded in op.tags:
        return RANDOM
    if op._schema.is_mutable or not op._schema.returns or node.is_impure():
        return EFFECT
    space, _, name = op._schema.name.partition("::")
    if space in _NAMESPACES and name in _BY_NAME:
        return _BY_NAME[name]
    if op._schema.arguments and op._schema.arguments[0].alias_info is not None:
        return VIEW
    return next((kind for tag, kind in _BY_TAG.items() if tag in op.tags), OPAQUE)


def lasting(node: fx.Node, dead: frozenset[fx.Node] | set[fx.Node] = frozenset()) -> bool:
    """Whether a node must run though nobody reads it, or but those that are `dead`: it advances a generator, does
    something to the world, or may raise."""
    if kind(node) in (RANDOM, EFFECT) or may_raise(node):
        return True
    return dead.issuperset(node.users) and raising.may_raise(node)


def dead_nodes(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """Those of a graph's that need not run, as nobody reads them."""
    found: set[fx.Node] = set()
    for node in reversed(nodes):
        if found.issuperset(node.users) and not lasting(node, found):
            found.add(node)
    return found


def writes(node: fx.Node) -> bool:
    """Whether a node changes its first argument."""
    if kind(node) is not EFFECT or not isinstance(node.target, torch._ops.OpOverload):
        return False
    arguments = node.target._schema.arguments
    first = arguments[0].alias_info if arguments else None
    return first is not None and first.is_write and isinstance(node.args[0], fx.Node)


def target(node: fx.Node) -> fx.Node:
    """What a node that writes changes."""
    into = node.args[0]
    assert isinstance(into, fx.Node), node.format_node()
    return into


def is_number(node: fx.Node) -> bool:
    """Whether a node's value is a size or another plain number."""
    return isinstance(node.meta.get("val"), _NUMBER)


def is_several(node: fx.Node) -> bool:
    """Whether a node's value is a tuple or list, which only its items can stand for."""
    return isinstance(node.meta.get("val"), tuple | list)


def length(size: int | torch.SymInt) -> int:
    """A size as a number: of a symbol, the one it had when the graph was made. Guards nothing."""
    if isinstance(size, int):
        return size
    hint = size.node.hint if size.node.has_hint() else None
    return UNHINTED if hint is None else int(hint)


def elements(sizes: Iterable[int | torch.SymInt]) -> int:
    return math.prod(map(length, sizes))


def bytes_of(value: Any) -> int:
    """The bytes of a tensor, or of all tensors in a tuple; 0 of anything else."""
    if isinstance(value, torch.Tensor):
        return elements(value.shape) * value.dtype.itemsize
    return sum(map(bytes_of, value)) if isinstance(value, tuple | list) else 0


def kept(node: fx.Node) -> int:
    """The bytes of a node's value."""
    return bytes_of(node.meta.get("val"))


def keeping(node: fx.Node, is_output: bool) -> int:
    """The price of keeping a node's value: that of an output is to read it, the least of three parts."""
    return kept(node) // 3 if is_output else kept(node)


def alone(node: fx.Node) -> int:
    """The time that a node's operation takes as a kernel of its own: the bytes that are moved in it."""
    what = kind(node)
    if what in (VIEW, ITEM, CONSTANT, SIZE) or node.op != "call_function":
        return 0
    flops, launch = _MACHINES.get(_device(node.meta.get("val")), _ACCELERATOR)
    moved = (kept(node) + sum(map(kept, node.all_input_nodes))) * what.slowness
    arithmetic = _arithmetic(node) if what is COMPUTE else None
    return max(launch, moved, (arithmetic or 0) // flops)


def _device(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return value.device.type
    return next(map(_device, value), "cpu") if isinstance(value, tuple | list) else "cpu"


def again(node: fx.Node, compute: bool = False) -> int | None:
    """The price of running a node again when its operands are there; None if it must not run twice.

    With `compute`, matrix products and convolutions have a price too, by their arithmetic.
    """
    what = kind(node)
    if what.rate is None:
        arithmetic = _arithmetic(node) if compute and what is COMPUTE else None
        return None if arithmetic is None else arithmetic // FLOPS_PER_BYTE
    moved = kept(node) + (sum(map(kept, node.all_input_nodes)) if what.reads else 0)
    return moved * what.rate // 16


def _arithmetic(node: fx.Node) -> int | None:
    """How many multiplications and additions a product takes; None of other operations."""
    assert isinstance(node.target, torch._ops.OpOverload)
    where = _CONTRACTED.get(node.target._schema.name.removeprefix("aten::"))
    if where is None:
        return None
    argument, dim = where
    operand = node.args[argument]
    assert isinstance(operand, fx.Node)
    summed = elements(operand.meta["val"].shape[dim:])
    return 2 * elements(node.meta["val"].shape) * summed
