"""Attention written by hand, as torch's own: `softmax(q @ k.T * scale + mask) @ v` in captured graphs.

Torch's takes the scores block by block, so that they are never whole in memory, neither forward nor backward. It says
that a query which may look nowhere finds 0; eager code finds NaN there. So a mask that is added is NaN for such a
query, as are all gradients then; where scores were filled, no gradient goes through these, only the values have NaN.
What remains of the difference is rounding, and scores that are all -inf without a mask: products that are too large.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from codegen.passes.graphs import is_contiguous
from codegen.passes.registry import register

#: Where torch's is quicker. Elsewhere the scores stay in a cache, and the kernels in between are few.
SHORTEST = 256  # keys
_SOFTMAXES = (F.softmax, torch.softmax, "softmax")


@register("attention", "before_autograd", of=_SOFTMAXES)
def use_attention(graph: fx.GraphModule) -> bool:
    """softmax(q @ k.T * scale + mask) @ v becomes scaled_dot_product_attention, on CPUs, in float32 and float64."""
    if not torch.backends.cuda.flash_sdp_enabled():  # asked on CPUs as well
        return False
    changed = False
    for node in list(graph.graph.nodes):
        found = _match(node) if _is(node, _PRODUCTS) else None
        if found is not None:
            _rewrite(node, found)
            changed = True
    return changed


@dataclass
class _Attention:
    query: fx.Node
    turned_key: fx.Node
    value: fx.Node
    softmax: fx.Node
    steps: set[fx.Node]  # all that is no more
    scale: float = 1.0
    mask: fx.Node | None = None
    is_hidden: bool = False  # the mask says where not to look


_PRODUCTS = (operator.matmul, torch.matmul, "matmul", "__matmul__")
_TIMES = (operator.mul, torch.mul, torch.multiply, "mul", "multiply")
_BY = (operator.truediv, torch.div, torch.true_divide, "div", "true_divide")
_PLUS = (operator.add, torch.add, "add")
_FILLED = (torch.masked_fill, "masked_fill")
#: Views, and operations that may give what they are given.
_PASSING = (
    *(torch.transpose, torch.permute, F.dropout, torch.dropout, operator.getitem, torch.unsqueeze),
    *("transpose", "permute", "view", "reshape", "unflatten", "to", "float", "contiguous", "type_as", "chunk", "split"),
    *("unsqueeze", "expand", "narrow", "swapaxes", "movedim"),
)
_WRITES = frozenset({
    *(operator.setitem, operator.delitem, operator.iadd, operator.isub, operator.imul, operator.itruediv),
    *(operator.ifloordiv, operator.imod, operator.ipow, operator.imatmul, operator.iand, operator.ior, operator.ixor),
    *(operator.ilshift, operator.irshift),
})


def _is(node: Any, targets: tuple[Any, ...]) -> bool:
    if not isinstance(node, fx.Node) or node.op not in ("call_function", "call_method"):
        return False
    return any(node.target is target or isinstance(target, str) and node.target == target for target in targets)


def _plain(node: Any) -> torch.Tensor | None:
    """A tensor of this program whose geometry does not vary."""
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    if type(value) is not FakeTensor or value.layout is not torch.strided:
        return None
    return value if all(type(n) is int for n in (*value.shape, *value.stride())) else None


def _match(node: fx.Node) -> _Attention | None:
    if len(node.args) != 2 or node.kwargs:
        return None
    softmax, value = node.args
    if not _is(softmax, _SOFTMAXES) or not isinstance(value, fx.Node):
        return None
    assert isinstance(softmax, fx.Node)
    scores, dim = _argument(softmax, 0, "input"), _argument(softmax, 1, "dim")
    dtype = _argument(softmax, None, "dtype")
    made = _plain(softmax)
    if made is None or made.dim() != 4 or dim not in (-1, 3) or dtype not in (None, made.dtype):
        return None
    found = _Attention(node, node, value, softmax, {softmax})
    reader = softmax
    while True:
        if not isinstance(scores, fx.Node) or not _is_only_for(scores, reader):
            return None
        found.steps.add(scores)
        if _is(scores, _PRODUCTS):
            break
        if not _takes(found, scores):
            return None
        reader, scores = scores, scores.args[0]
    query, turned_key = scores.args
    if scores.kwargs or not isinstance(query, fx.Node) or not isinstance(turned_key, fx.Node):
        return None
    found.query, found.turned_key = query, turned_key
    return found if _is_served(node, scores, found) and _is_undisturbed(node, scores, found) else None


def _argument(node: fx.Node, at: int | None, name: str) -> Any:
    if at is not None and at < len(node.args):
        return node.args[at]
    return node.kwargs.get(name)


def _takes(found: _Attention, node: fx.Node) -> bool:
    """Notes a step between the product and the softmax, the last ones first."""
    other = node.args[1] if len(node.args) > 1 else None
    if node.kwargs:
        return False
    if _is(node, _FILLED):
        value = node.args[2] if len(node.args) == 3 else None
        if found.mask is not None or found.scale != 1.0 or value != -math.inf or not isinstance(other, fx.Node):
            return False
        found.mask, found.is_hidden = other, True
        return True
    if _is(node, _PLUS):
        if found.mask is not None or found.scale != 1.0 or not isinstance(other, fx.Node):
            return False
        found.mask = other
        return True
    if not isinstance(other, int | float) or isinstance(other, bool) or not other or found.scale != 1.0:
        return False
    if _is(node, _TIMES):
        found.scale = float(other)
    elif _is(node, _BY):
        found.scale = 1.0 / other
    else:
        return False
    return math.isfinite(found.scale)


def _is_only_for(node: fx.Node, reader: fx.Node) -> bool:
    """Whether nobody else reads it; what gives the same tensor to nobody does not count."""
    value = node.meta.get("example_value")
    return all(
        user is reader or not user.users and _is(user, _PASSING) and user.meta.get("example_value") is value
        for user in node.users
    )


def _is_served(node: fx.Node, scores: fx.Node, found: _Attention) -> bool:
    """Whether torch has the quick way for these, and gives what looks as in eager code."""
    tensors = [_plain(each) for each in (found.query, found.turned_key, found.value, scores, node)]
    if any(t is None or t.dim() != 4 or t.device.type != "cpu" for t in tensors) or not found.softmax.users:
        return False
    query, key, value, product, made = (t for t in tensors if t is not None)
    dtypes = {t.dtype for t in (query, key, value, product, made)}
    if dtypes not in ({torch.float32}, {torch.float64}):
        return False
    batch, (length, width) = query.shape[:2], key.shape[2:][::-1]
    return (
        length >= SHORTEST and width > 0 and key.shape[:2] == batch and value.shape == (*batch, length, width)
        and query.stride(3) == key.stride(2) == value.stride(3) == 1 and is_contiguous(made) and made.numel() > 0
        and _is_only_for(found.softmax, node) and _is_mask(found, product)
        and not any(_is_leaf(each) for each in (found.query, found.turned_key, found.value))
    )  # fmt: skip


def _is_mask(found: _Attention, scores: torch.Tensor) -> bool:
    """A mask that is much smaller than the scores: it is gone through once more."""
    if found.mask is None:
        return True
    mask = _plain(found.mask)
    if mask is None or mask.requires_grad or mask.device != scores.device or not 2 <= mask.dim() <= 4:
        return False
    fits = all(one in (1, other) for one, other in zip(mask.shape[::-1], scores.shape[::-1], strict=False))
    dtype = torch.bool if found.is_hidden else scores.dtype
    return fits and mask.dtype is dtype and mask.numel() * 2 <= scores.numel()


def _is_leaf(node: fx.Node) -> bool:
    """Whether it shows an input that gets a gradient: that has the strides of eager code's."""
    while _is(node, _PASSING) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    value = _plain(node)
    return node.op != "call_function" and node.op != "call_method" and (value is None or value.requires_grad)


def _is_undisturbed(node: fx.Node, scores: fx.Node, found: _Attention) -> bool:
    """Whether nothing is written, and torch's state does not change, between the first step and the last."""
    between = scores.next
    while between is not node:
        if between not in found.steps and (_writes(between) or between.meta.get("example_value") is None):
            return False
        between = between.next
    return True


def _writes(node: fx.Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "_")
    is_named_so = name.endswith("_") and not name.endswith("__")
    return is_named_so or node.target in _WRITES or "out" in node.kwargs or bool(node.kwargs.get("inplace"))


def _rewrite(node: fx.Node, found: _Attention) -> None:
    graph = node.graph

    def call(target: str | Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        kind = "call_method" if isinstance(target, str) else "call_function"
        made = graph.create_node(kind, target, args, kwargs)
        made.meta.update({name: node.meta[name] for name in ("stack_trace",) if name in node.meta})
        return made

    value = _plain(node)
    assert value is not None
    with graph.inserting_before(node):
        mask = found.mask
        if mask is not None and found.is_hidden:
            mask = call("masked_fill", call(torch.zeros_like, mask, dtype=value.dtype), mask, -math.inf)
        lost = None if mask is None else call("all", call(operator.eq, mask, -math.inf), dim=-1, keepdim=True)
        if not found.is_hidden and mask is not None:
            mask = call("masked_fill", mask, lost, math.nan)
        key = call("transpose", found.turned_key, 2, 3)
        made = call(
            F.scaled_dot_product_attention, found.query, key, found.value, attn_mask=mask, dropout_p=0.0,
            is_causal=False, scale=found.scale,
        )
        if found.is_hidden:
            some = call("any", lost, -2, keepdim=True)
            factor = call("masked_fill", call(torch.zeros_like, some, dtype=value.dtype), some, math.nan)
            made = call(torch.where, lost, call(operator.mul, call("sum", found.value, -2, True), factor), made)
        made = call("clone", made, memory_format=torch.contiguous_format)  # its strides are others
    made.meta["example_value"] = node.meta["example_value"]
    node.replace_all_uses_with(made)
    graph.erase_node(node)
    for step in sorted(found.steps, reverse=True):
        for user in list(step.users):
            graph.erase_node(user)
        graph.erase_node(step)
