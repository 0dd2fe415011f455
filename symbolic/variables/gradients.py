"""Derivatives inside a frame: `autograd.grad` and `.backward()` are operations of the graph, `.grad` is an effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.autograd.graph import get_gradient_edge

from symbolic import transforms
from symbolic.branches import chosen_of
from symbolic.errors import GraphBreak
from symbolic.gradients import accumulate, differentiate, differentiate_with, obeys_layout, own_gradient
from symbolic.inner import InnerGraph
from symbolic.variables.base import Variable
from symbolic.variables.checkpoints import reachable
from symbolic.variables.constants import ConstantVariable
from symbolic.variables.either import memory
from symbolic.variables.either_way import check_all_ways
from symbolic.variables.hooks import Hook, place_of
from symbolic.variables.tensors import METHODS, NumberOutput, TensorVariable
from symbolic.variables.torch_functions import HANDLERS

if TYPE_CHECKING:
    from symbolic.translator import Translator

NONE = ConstantVariable(None)
FALSE = ConstantVariable(False)
#: Kinds of hooks that are called with one gradient, in the order in which autograd calls those of one tensor: its own,
#: and its node's, before and after what this does; that is nothing, so they are as good as its own.
_TRACED = ("register_hook", "node.register_prehook", "node.register_hook")
#: The kind of hooks that are called when a leaf has its gradient.
_LATER = "register_post_accumulate_grad_hook"
#: Where a tensor has hooks of a kind.
_DICTS = {"register_hook": "_backward_hooks", _LATER: "_post_accumulate_grad_hooks"}
#: Kinds of hooks that are not traced into.
_UNTRACED = ("nodes.register_hook", "nodes.register_prehook", "register_multi_grad_hook")


def _tensors(tx: Translator, variable: Variable, what: str) -> list[Variable]:
    found = _optional_tensors(tx, variable)
    if not all(isinstance(item, TensorVariable) for item in found):
        raise GraphBreak(f"{what} of a derivative that are no tensors", variable.describe())
    return found


def _history(tx: Translator, fakes: list[torch.Tensor], branched: bool = False) -> Iterator[Any]:
    """The frame's own autograd nodes behind tensors, and the nodes that stand for what came before; `branched`: on the
    way through branches that is chosen."""
    seen: set[Any] = set()
    with torch.enable_grad():  # a leaf's node is found through a view of it
        waiting: list[Any] = [get_gradient_edge(fake).node for fake in fakes if fake.requires_grad]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            if node not in tx.graph.foreign:
                waiting.extend(following for following, _ in (chosen_of(node) if branched else node.next_functions))


def _check_history(tx: Translator, nodes: list[Any], wanted: set[Any]) -> None:
    """The history of a tensor that came in is the caller's: a capture can't follow it. It need not, if the gradient of
    that tensor is all that is wanted."""
    for node in nodes:
        if node in tx.graph.foreign and wanted != {node}:
            raise GraphBreak(
                "derivative through a tensor from outside", "a result of operations that ran before the frame",
                "compile the function that computes it, too",
            )


def _of_before(tx: Translator, tensor: TensorVariable) -> list[Hook]:
    """The hooks that came with a tensor, but for those that the frame took away."""
    if tensor.source is None:
        return []
    if tx.options.unhooked(tensor.value, False):
        tx.know(tensor.source, "unhooked", False)
        return []
    if not tensor.value.is_leaf or not tx.options.unhooked(tensor.value, True):
        raise GraphBreak("derivative for a tensor with hooks", tensor.describe())
    tx.know(tensor.source, "unhooked", True)
    found = []
    for kind, name in _DICTS.items():
        hooks = tx.wrap(getattr(tensor.value, name), tensor.source.attr(name))
        functions = [] if _is_none(hooks) else tx.unpack(hooks.method(tx, "values", [], {}))
        found += [Hook(kind, tensor, function, None, place_of(tensor), tx.anchor()) for function in functions]
    return found


def _grad(
    tx: Translator, outputs: Variable, inputs: Variable, grad_outputs: Variable = NONE, retain_graph: Variable = NONE,
    create_graph: Variable = FALSE, allow_unused: Variable = NONE, is_grads_batched: Variable = FALSE,
    materialize_grads: Variable = FALSE, **deprecated: Variable,
) -> Variable:
    if any(name != "only_inputs" or not tx.truth(value) for name, value in deprecated.items()):
        raise GraphBreak("operation that warns", ", ".join(deprecated))
    if is_grads_batched.constant():
        raise GraphBreak("batched derivatives", "is_grads_batched=True")
    tx.repeats.tell(None)
    results, wanted = _tensors(tx, outputs, "results"), _tensors(tx, inputs, "inputs")
    fakes = [item.fake for item in results if isinstance(item, TensorVariable)]
    nodes = list(_history(tx, fakes))
    _check_history(tx, nodes, {item.fake.grad_fn or item.fake for item in wanted if isinstance(item, TensorVariable)})
    asked = dict.fromkeys(item for item in (*wanted, *results) if isinstance(item, TensorVariable))
    before = [hook for item in asked for hook in _of_before(tx, item)]
    unused = allow_unused
    if allow_unused.constant() is None and materialize_grads.constant():
        unused = ConstantVariable(True)
    tangents = NONE if _is_none(grad_outputs) else tx.new_tuple(_optional_tensors(tx, grad_outputs))
    _refuse_hooks(tx, nodes, "retain_grad", *_UNTRACED)
    return _differentiate(
        tx, nodes, [hook for hook in before if hook.kind != _LATER],
        [tx.new_tuple(results), tx.new_tuple(wanted), tangents, retain_graph, create_graph, unused, materialize_grads],
    ).found


def _is_none(variable: Variable) -> bool:
    return variable.is_constant() and variable.constant() is None


def _optional_tensors(tx: Translator, variable: Variable) -> list[Variable]:
    return [variable] if isinstance(variable, TensorVariable) else tx.unpack(variable)


def _backward_of_one(
    tx: Translator, result: Variable, gradient: Variable = NONE, retain_graph: Variable = NONE,
    create_graph: Variable = FALSE, inputs: Variable = NONE,
) -> Variable:
    return _backward(tx, result, gradient, retain_graph, create_graph, NONE, inputs)


def _backward(
    tx: Translator, tensors: Variable, grad_tensors: Variable = NONE, retain_graph: Variable = NONE,
    create_graph: Variable = FALSE, grad_variables: Variable = NONE, inputs: Variable = NONE,
) -> Variable:
    """Gradients of all leaves behind tensors (or of `inputs`), each added to what its leaf has."""
    results = [item for item in _tensors(tx, tensors, "results") if isinstance(item, TensorVariable)]
    if not results or not all(result.fake.requires_grad for result in results) or not _is_none(grad_variables):
        raise GraphBreak("operation raises", f"backward of {tensors.describe()}")
    if any(inner.operation in transforms.ALL for inner in tx.graph.inner):
        raise GraphBreak("operation raises", "backward() inside a function transform")
    tx.repeats.tell(None)
    nodes = list(_history(tx, [result.fake for result in results]))
    _check_history(tx, nodes, set())
    if _is_none(inputs):
        leaves = [_leaf(tx, node.variable) for node in nodes if hasattr(node, "variable")]
    else:
        wanted = dict.fromkeys(_tensors(tx, inputs, "inputs"))  # one that is named twice gets its gradient once
        leaves = [item for item in wanted if isinstance(item, TensorVariable)]
        if not leaves or not all(leaf.fake.is_leaf and leaf.fake.requires_grad for leaf in leaves):
            raise GraphBreak("backward to tensors that are no leaves", inputs.describe())
    before = [hook for leaf in leaves for hook in _of_before(tx, leaf)]
    tangents = grad_tensors if _is_none(grad_tensors) else tx.new_tuple(_optional_tensors(tx, grad_tensors))
    _refuse_hooks(tx, nodes, *_UNTRACED)
    yes = ConstantVariable(True)
    known = {*tx.graph.by_fake}
    retained = [hook.tensor for hook in _registered(tx, nodes, "retain_grad")]
    answer = _differentiate(
        tx, nodes, before,
        [
            tx.new_tuple([*results]), tx.new_tuple([*leaves, *retained]),
            tangents, retain_graph, create_graph, yes, FALSE,
        ],
    )
    found = tx.unpack(answer.found)
    gradients = dict(zip([*leaves, *retained], found, strict=True))
    holders = _Holders(tx, [each for each in found if isinstance(each, TensorVariable)], known)
    for tensor in retained:
        _retain(tx, tensor, answer.replaced.get(tensor, gradients[tensor]))
    for leaf in sorted(leaves, key=lambda leaf: answer.order.index(leaf) if leaf in answer.order else 0):
        new = gradients[leaf]
        if isinstance(new, TensorVariable):
            _accumulate(tx, leaf, new, holders.lets_go(new), bool(create_graph.constant()))
            own = _registered(tx, [get_gradient_edge(leaf.fake).node], _LATER)
            for hook in (*(each for each in before if each.tensor is leaf and each.kind == _LATER), *own):
                assert hook.function is not None
                if not _is_none(tx.call(hook.function, [leaf], {})):
                    raise GraphBreak("derivative for a tensor with hooks", "after accumulation, that answer")
    return NONE


class _Holders:
    """Whether anyone else has a gradient when it is accumulated, as AccumulateGrad asks: the very tensor, be it only as
    that which another is a view of. `known`: the fakes that were there before; a tangent may be handed through."""

    def __init__(self, tx: Translator, found: list[TensorVariable], known: set[int]) -> None:
        self.left = Counter(id(each.fake) for each in found)
        self.known = known
        at_hand = {**tx.graph.by_fake, **{id(each.fake): each for each in found}}
        self.memories = Counter(memory(each.fake) for each in at_hand.values())
        hooks_have = (each for key, each in at_hand.items() if key not in known and key not in self.left)
        self.kept = {_place(each) for each in hooks_have}

    def lets_go(self, new: TensorVariable) -> bool:
        """One of those to whom this gradient goes takes it: nobody else has it now."""
        self.left[id(new.fake)] -= 1
        if self.left[id(new.fake)] > 0 or id(new.fake) in self.known or _place(new) in self.kept:
            return False
        return new.fake._is_view() or self.memories[memory(new.fake)] == 1


def _place(variable: TensorVariable) -> tuple[int, str]:
    """What a hook keeps is another fake: it is the very tensor if it shows the same. (In words: sizes may vary.)"""
    fake = variable.fake
    return memory(fake), f"{fake.shape} {fake.stride()} {fake.storage_offset()}"


def _retain(tx: Translator, tensor: TensorVariable, new: Variable) -> None:
    """What `retain_grad` leaves on a tensor."""
    if isinstance(new, TensorVariable):
        old = tensor.getattr(tx, "grad")
        if isinstance(old, TensorVariable):
            kept = tx.graph.call(torch.add, [old, new])
        else:
            kept = new.method(tx, "clone", [], {"memory_format": ConstantVariable(torch.contiguous_format)})
        tx.ledger.store(tensor, "grad", kept)


# --- hooks of the frame's own -----------------------------------------------------------------------------------------
def _registered(tx: Translator, nodes: list[Any], *kinds: str) -> list[Hook]:
    """The hooks of these kinds that the frame put on tensors with these nodes, and did not take away."""
    alive = [hook for hook in tx.hooks if hook.kind in kinds and not hook.removed]
    return [hook for hook in alive if get_gradient_edge(hook.tensor.fake).node in nodes]


def _refuse_hooks(tx: Translator, nodes: list[Any], *kinds: str) -> None:
    for hook in _registered(tx, nodes, *kinds):
        raise GraphBreak("derivative for a tensor with hooks", hook.kind)


@dataclass(frozen=True, eq=False)
class _Answer:
    """What `differentiate` found; leaves in the order in which they are reached, as far as hooks are called after they
    were; and the gradients that hooks have put in the place of those of tensors that are no leaves."""

    found: Variable
    order: list[TensorVariable]
    replaced: dict[TensorVariable, Variable]


def _differentiate(tx: Translator, nodes: list[Any], before: list[Hook], args: list[Variable]) -> _Answer:
    """`differentiate(*args)`, where `nodes` are run, with hooks that came with the leaves.

    A hook is traced into a graph inside the graph; what it does to the world beside is done in the order in which
    autograd calls the hooks."""
    results = [item.fake for item in tx.unpack(args[0]) if isinstance(item, TensorVariable)]
    met = [tx.graph.by_fake.get(id(node.variable)) for node in nodes if hasattr(node, "variable")]
    apart = (*tx.unpack(args[1]), *met, *(hook.tensor for hook in tx.hooks))
    tx.apart(*(item for item in apart if isinstance(item, TensorVariable)))
    is_hooked = bool(before or tx.hooks)
    check_all_ways(tx, nodes, lambda: _history(tx, results, branched=True), args, is_hooked)
    theirs = [hook for hook in before if hook.kind in _TRACED]
    hooks = sorted([*theirs, *_registered(tx, nodes, *_TRACED)], key=lambda hook: _TRACED.index(hook.kind))
    _check_of_nodes(tx, hooks, args[1])
    later = [*(hook for hook in before if hook.kind == _LATER), *_registered(tx, nodes, _LATER)]
    calls = _calls(tx, [*hooks, *later], args) if hooks or len(later) > 1 else []
    order = [hook.tensor for hook, _ in calls if hook in later]
    first = [(hook, gradient) for hook, gradient in calls if hook in hooks]
    if not first:
        return _Answer(tx.graph.call(differentiate, args), order, {})
    if any(hook in later for hook, _ in calls[: len(first)]):
        raise GraphBreak("derivative for a tensor with hooks", "between hooks after accumulation")
    known, traced = len(tx.hooks), []
    replaced: dict[TensorVariable, Variable] = {}
    earlier: dict[fx.Node, Any] = {}
    for at, (hook, gradient) in enumerate(first):
        inner, answer, kept = _traced(tx, hook, gradient, bool(args[4].constant()), dict(earlier))
        earlier.update((each.node, (at, number)) for number, each in enumerate(kept))
        traced.append((tx.new_tuple([hook.tensor, tx.graph.add_inner(inner)]), kept))
        replaced[hook.tensor] = answer
    if len(tx.hooks) != known:
        raise GraphBreak("hook that registers hooks")
    pairs = tx.new_tuple([pair for pair, _ in traced])
    found, beside = tx.unpack(tx.graph.call(differentiate_with, [pairs, *args]))
    for (_, kept), given in zip(traced, tx.unpack(beside), strict=True):
        for variable, new in zip(kept, tx.unpack(given), strict=True):
            assert isinstance(new, TensorVariable)
            tx.graph.go_on(variable, new)
    return _Answer(found, order, replaced)


def _calls(tx: Translator, hooks: list[Hook], args: list[Variable]) -> list[tuple[Hook, torch.Tensor]]:
    """Which hooks autograd calls, in its order, with which gradients."""
    calls: list[tuple[Hook, torch.Tensor]] = []
    watched = [(hook.tensor.fake, lambda gradient, hook=hook: calls.append((hook, gradient))) for hook in hooks]

    def run(*args: Any) -> Any:
        differentiate(*args, hooks=watched)
        return [torch.empty_strided(g.shape, g.stride(), dtype=g.dtype, device=g.device) for _, g in calls]

    keep = [*args[:3], ConstantVariable(True), *args[4:]]
    gradients = tx.graph.fake_run(differentiate, run, tx.graph.fakes(keep), {})
    return [(hook, gradient) for (hook, _), gradient in zip(calls, gradients, strict=True)]


def _check_of_nodes(tx: Translator, hooks: list[Hook], wanted: Variable) -> None:
    """What is wanted of a tensor itself is its gradient before its node's hooks; and of several hooks of a node after
    what it does, each is told of what was there before them all."""
    after = [hook.tensor for hook in hooks if hook.kind == "node.register_hook"]
    of_nodes = {hook.tensor for hook in hooks if hook.kind.startswith("node.")}
    if len(set(after)) < len(after) or not of_nodes.isdisjoint(tx.unpack(wanted)):
        raise GraphBreak("derivative for a tensor with hooks", "hooks of its node")


def _traced(
    tx: Translator, hook: Hook, gradient: torch.Tensor, create: bool, earlier: dict[fx.Node, Any]
) -> tuple[InnerGraph, TensorVariable, list[TensorVariable]]:
    """A hook as a graph of the gradient; the gradient that goes on; and the tensors born in the graph that something
    holds when it is over, that one among them."""
    assert hook.function is not None
    of_node = hook.kind != "register_hook"
    with tx.graph.inside(differentiate_with, earlier) as inner, torch.set_grad_enabled(create):
        given = tx.graph.add_inner_input(inner, "gradient", gradient.requires_grad_(create))
        told = tx.new_tuple([given]) if of_node else given
        answer = tx.call(hook.function, [told, told] if hook.kind == "node.register_hook" else [told], {})
        if of_node and not _is_none(answer):
            answer, *others = [*tx.unpack(answer), NONE] if answer.python_type() is tuple else [answer]
            if len(others) != 1 or not isinstance(answer, TensorVariable):
                raise GraphBreak("hook that answers with no gradient", answer.describe())
        if not (isinstance(answer, TensorVariable) or (answer.is_constant() and answer.constant() is None)):
            raise GraphBreak("hook that answers with no gradient", answer.describe())
        after = answer if isinstance(answer, TensorVariable) else given
        held = reachable(tx, [after, *(each.function for each in tx.hooks if each.function is not None)])
        kept = [v for v in held if isinstance(v, TensorVariable) and v.node.graph is inner.graph]
        if any(isinstance(each, NumberOutput) for each in kept):
            raise GraphBreak("derivative for a tensor with hooks", "one leaves behind a number that varies")
        tx.graph.end_inner(inner, tx.new_tuple([answer, tx.new_tuple([*kept])]))
    return inner, after, kept


def _leaf(tx: Translator, fake: torch.Tensor) -> TensorVariable:
    found = tx.graph.by_fake.get(id(fake))
    if found is None:
        raise GraphBreak("derivative for a tensor that the frame does not know")
    return found


def _accumulate(tx: Translator, leaf: TensorVariable, new: TensorVariable, is_free: bool, create: bool) -> None:
    """What AccumulateGrad does: the first gradient is taken over, further ones are added in place."""
    old = leaf.getattr(tx, "grad")
    if isinstance(old, TensorVariable):
        if create:
            tx.ledger.store(leaf, "grad", tx.graph.call(torch.add, [old, new]))
        else:
            tx.graph.call(accumulate, [old, new])
        return
    is_taken = is_free and not create and obeys_layout(leaf.fake, new.fake)
    kept = new.method(tx, "detach", [], {}) if is_taken else tx.graph.call(own_gradient, [leaf, new])
    tx.ledger.store(leaf, "grad", kept)


HANDLERS[torch.autograd.grad] = _grad
HANDLERS[torch.autograd.backward] = _backward
METHODS["backward"] = _backward_of_one
