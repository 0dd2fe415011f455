"""A joint graph cut in two gives what it gave whole, saves what it should, and draws each random number once."""
import functools
import itertools
import operator
import random
from collections import Counter

import networkx
import pytest
import torch
import torch.nn.functional as F
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils.checkpoint import checkpoint

from codegen.aot import cost, partition
from codegen.aot.mincut import UNLIMITED, Network

aten = torch.ops.aten
RULES = {
    "default": partition.default_partition,
    "min-cut": partition.min_cut_partition,
    "not fused": functools.partial(partition.min_cut_partition, fused=False),
    "half": lambda *args, **named: partition.min_cut_partition(*args, **named, budget=0.5),
    "nothing": lambda *args, **named: partition.min_cut_partition(*args, **named, budget=0.0),
}


@pytest.fixture(autouse=True)
def every_graph_is_large(monkeypatch):
    monkeypatch.setattr(cost, "SMALL", 0)


# --- programs ---------------------------------------------------------------------------------------------------------
def rand(*sizes):
    return torch.randn(*sizes, requires_grad=True)


def ints(high, *sizes):
    return torch.randint(0, high, sizes)


def mlp(x, w, b, v):
    return F.gelu(F.linear(x, w, b)) @ v


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b).tanh()


def layer_norm_by_hand(x, w):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5) * w


def softmax(x):
    return x.exp().softmax(-1) * x.log_softmax(0)


def attention(x, w, o):
    q, k, v = (x @ w).chunk(3, -1)
    q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in (q, k, v))
    scores = q @ k.transpose(-1, -2) * 0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return (scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2) @ o


def dropout(x, w):
    return torch.native_dropout(x @ w, 0.5, True)[0].sin() * torch.native_dropout(x, 0.3, True)[0]


def random_unread(x):
    torch.rand(3)
    y = x * torch.rand_like(x)
    torch.rand(3)
    return y.sin(), torch.rand(2)


def embedding(i, w):
    return F.embedding(i, w).relu()


def cross_entropy(x, w, t):
    return F.cross_entropy(x @ w, t)


def conv(x, w, b):
    return F.max_pool2d(F.conv2d(x, w, b, padding=1).relu(), 2)


def views(x, w):
    y = x @ w
    return y.t().sin() + y.view(-1, 2, 6)[:, 1].sum() + y.unsqueeze(0).expand(2, -1, -1).exp().sum(0).t()


def several_views_no_base(x, w):
    y = x @ w
    a, b = y.split(y.shape[0] // 2)
    return a.sin() * b.cos()


def view_out(x, w):
    y = (x @ w).sin()
    return y.view(-1), y.exp()


def view_of_input(x):
    return x.t().sin() * x.t()[0].cos()


def multi_output(x):
    values, places = x.sin().max(0)
    var, mean = torch.var_mean(x, 1)
    top = x.topk(2).values
    return values * 2, places, var.sqrt() + mean, top.exp()


def unused(x, y, z):
    return x.sin()


def many_outputs(x):
    y = x.sin()
    return y, y.exp(), y, x


def ints_in(x, i, m):
    return torch.where(m, x.index_select(0, i), 0.0).pow(3)


def casts(x, w):
    return (x.to(torch.bfloat16) @ w.to(torch.bfloat16)).float().sigmoid()


def linear(x, w):
    return x @ w


def checkpointed(x, w):
    def inner(y):
        return torch.tanh(torch.sin(y) @ w)
    return checkpoint(inner, checkpoint(inner, x, use_reentrant=False, preserve_rng_state=False), use_reentrant=False, preserve_rng_state=False)


def chain(x, w):
    y = x @ w
    for _ in range(40):
        y = y.sin() * 1.1
    return y


def residual(x, *weights):
    for w in weights:
        x = x + F.silu(F.layer_norm(x, x.shape[-1:]) @ w)
    return x


def conditional_sizes(x, w):
    y = (x @ w).sin()
    return y.reshape(y.shape[0] * 2, -1).exp() / y.shape[0] + y.new_ones(y.numel() // 2, 2).sum()


def scaled_by_size(x):
    return x.cos().sum(0) * x.shape[0] + torch.cat([x, x.sin()]).square().mean(0)


class Saves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.exp())
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] + torch.rand(4)


def own_function(x):
    return Saves.apply(x.cos()) * 2


def constant(x):
    return x * torch.tensor([1.0, 2.0, 3.0]) + x.sin()


PROGRAMS = {
    mlp: (rand(8, 4), rand(16, 4), rand(16), rand(16, 3)),
    layer_norm: (rand(8, 16), rand(16), rand(16)),
    layer_norm_by_hand: (rand(8, 16), rand(16)),
    softmax: (rand(4, 6),),
    attention: (rand(2, 5, 8), rand(8, 24), rand(8, 8)),
    dropout: (rand(8, 8), rand(8, 8)),
    random_unread: (rand(3, 3),),
    embedding: (ints(10, 3, 4), rand(10, 6)),
    cross_entropy: (rand(6, 5), rand(5, 7), ints(7, 6)),
    conv: (rand(2, 3, 8, 8), rand(4, 3, 3, 3), rand(4)),
    views: (rand(12, 8), rand(8, 12)),
    several_views_no_base: (rand(4, 3), rand(3, 5)),
    view_out: (rand(4, 3), rand(3, 5)),
    view_of_input: (rand(4, 3),),
    multi_output: (rand(6, 5),),
    unused: (rand(3), rand(4), torch.ones(2)),
    many_outputs: (rand(3, 4),),
    ints_in: (rand(5, 4), ints(5, 7), ints(2, 7, 4).bool()),
    casts: (rand(8, 4), rand(4, 8)),
    linear: (rand(3, 4), rand(4, 5)),
    checkpointed: (rand(6, 5), rand(5, 5)),
    chain: (rand(6, 5), rand(5, 5)),
    residual: (rand(6, 8), *(rand(8, 8) for _ in range(5))),
    conditional_sizes: (rand(6, 5), rand(5, 4)),
    scaled_by_size: (rand(6, 5),),
    own_function: (rand(4),),
    constant: (rand(3),),
}
SYMBOLIC = [mlp, layer_norm, layer_norm_by_hand, softmax, attention, views, several_views_no_base, view_of_input,
            multi_output, residual, conditional_sizes, scaled_by_size, chain, linear]


def outputs_of(fn, primals):
    out = fn(*primals)
    return out if isinstance(out, tuple) else (out,)


def gradients_of(outs, primals, tangents):
    """One gradient, or None, per primal, of all outputs that have a tangent."""
    tied = [(out, tangent) for out, tangent in zip(outs, tangents) if out.requires_grad]
    needing = [primal for primal in primals if primal.requires_grad]
    found = iter(torch.autograd.grad([out for out, _ in tied], needing, [tangent for _, tangent in tied], allow_unused=True))
    return tuple(next(found) if primal.requires_grad else None for primal in primals)


def trace(fn, primals, tangents, mode="fake", phased=False):
    """The joint graph of `fn`."""
    last = []

    def joint(*args):
        given, tangents = args[:len(primals)], args[len(primals):]
        given = [new.requires_grad_(old.requires_grad) for new, old in zip(given, primals)]
        outs = outputs_of(fn, given)
        last.append(list(get_proxy_mode().tracer.graph.nodes)[-1])
        return *outs, *gradients_of(outs, given, tangents)

    detached = [value.detach() for value in (*primals, *tangents)]
    with torch.random.fork_rng():
        graph = make_fx(joint, tracing_mode=mode)(*detached)
    if phased:
        phase = "forward"
        for node in graph.graph.nodes:
            node.meta["phase"] = phase
            phase = "backward" if node is last[0] else phase
    return graph


@functools.cache
def made(fn, mode="fake", phased=False):
    """Joint graph, primals, tangents. All tests cut the same graph: cutting leaves it as it is."""
    torch.manual_seed(0)
    primals = PROGRAMS[fn]
    tangents = [torch.randn_like(out) if out.is_floating_point() else torch.zeros(()) for out in outputs_of(fn, primals)]
    return trace(fn, primals, tangents, mode, phased), primals, tangents


def cut(rule, graph, outs, primals):
    halves = RULES[rule](graph, None, num_fwd_outputs=outs, num_primals=primals)
    for half in halves:
        half.graph.lint()
    return halves


def run(forward, backward, primals, tangents, outs):
    with torch.no_grad():
        results = forward(*(value.detach() for value in primals))
        saved = results[outs:]
        assert all(isinstance(value, torch.Tensor) for value in saved[:len(forward.meta["partition"].tensors)])
        return tuple(results[:outs]), tuple(backward(*saved, *tangents))


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        if other is None:
            assert one is None
        else:
            assert torch.equal(one, other) and one.dtype == other.dtype and one.stride() == other.stride(), (one, other)


CASES = [(fn, mode, phased) for fn in PROGRAMS for mode, phased in (("fake", False), ("fake", True), ("symbolic", True))
         if mode == "fake" or fn in SYMBOLIC]


@pytest.mark.sampled(36)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fn, mode, phased", CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_halves_do_what_eager_does(fn, mode, phased, rule):
    graph, primals, tangents = made(fn, mode, phased)
    forward, backward = cut(rule, graph, len(tangents), len(primals))
    torch.manual_seed(1)
    outs, grads = run(forward, backward, primals, tangents, len(tangents))
    after = torch.random.get_rng_state()
    torch.manual_seed(1)
    expected = outputs_of(fn, primals)
    wanted = gradients_of(expected, primals, tangents)
    assert torch.equal(after, torch.random.get_rng_state())
    same(outs, [out.detach() for out in expected])
    same(grads, wanted)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fn", SYMBOLIC, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("rule", RULES)
def test_other_sizes(fn, rule):
    graph, primals, tangents = made(fn, "symbolic", True)
    forward, backward = cut(rule, graph, len(tangents), len(primals))
    torch.manual_seed(2)
    batch = primals[0].shape[0]
    longer = [torch.cat([value, value.sin()]).detach().requires_grad_() if at == 0 else value for at, value in enumerate(primals)]
    expected = outputs_of(fn, longer)
    tangents = [torch.randn_like(out) if out.is_floating_point() else torch.zeros(()) for out in expected]
    outs, grads = run(forward, backward, longer, tangents, len(tangents))
    same(outs, [out.detach() for out in expected])
    same(grads, gradients_of(expected, longer, tangents))


# --- what is saved ----------------------------------------------------------------------------------------------------
def storages(values):
    return [value.untyped_storage()._cdata for value in values if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_is_saved(fn, rule):
    graph, primals, tangents = made(fn, "fake", True)
    forward, backward = cut(rule, graph, len(tangents), len(primals))
    found = forward.meta["partition"]
    assert found is backward.meta["partition"]
    placeholders = [node.name for node in backward.graph.nodes if node.op == "placeholder"]
    assert placeholders[:len(found.tensors) + len(found.ints)] == [saved.name for saved in found.tensors] + list(found.ints)
    unread = [node.name for node in backward.graph.nodes if node.op == "placeholder" and not node.users][:-len(tangents) or None]
    assert not set(unread) & {saved.name for saved in found.tensors}
    with torch.no_grad():
        saved = forward(*(value.detach() for value in primals))[len(tangents):]
    assert len(set(storages(saved))) == len(storages(saved))  # no tensor beside its view
    assert found.bytes <= found.default_bytes
    held = {value.untyped_storage()._cdata: value.untyped_storage().nbytes() for value, about in zip(saved, found.tensors)
            if about.origin != "an input" and not about.origin.startswith("drawn")}
    assert sum(held.values()) == found.bytes
    text = partition.report(found)
    assert all(saved.name in text and saved.reason in text for saved in found.tensors)


def names(fn, rule="default", **how):
    graph, primals, tangents = made(fn, **how)
    found = cut(rule, graph, len(tangents), len(primals))[0].meta["partition"]
    return found, [saved.name for saved in found.tensors]


@pytest.mark.parametrize("fn, saved", [
    (linear, {"an input": 2}),
    (view_of_input, {"an input": 1, "made by the forward": 2}),  # factors of a product; the input itself for its views
    (views, {"an input": 2, "made by the forward": 2}),  # the product and the exponential
    (view_out, {"an input": 2, "made by the forward": 1, "an output": 1}),
    (many_outputs, {"an input": 1, "an output": 1}),
    (unused, {"an input": 1}),
    (constant, {"an input": 1, "made by the forward": 1}),
], ids=lambda value: getattr(value, "__name__", ""))
def test_default_saves_what_is_read(fn, saved):
    found, _ = names(fn, phased=True)
    origins = [tensor.origin for tensor in found.tensors]
    assert {origin: origins.count(origin) for origin in origins} == saved
    assert not found.recomputed


def test_one_view_stands_for_all_below_it():
    def fn(x, w):
        y = (x @ w).t()
        return y.sin() + y[0].cos()
    graph = trace(fn, (rand(4, 4), rand(4, 4)), [torch.ones(4, 4)], phased=True)
    forward, _ = cut("default", graph, 1, 2)
    saved = [about.name for about in forward.meta["partition"].tensors if about.origin != "an input"]
    kinds = {node.name: node.target for node in graph.graph.nodes}
    assert [kinds[name] for name in saved] == [aten.t.default]


def test_a_view_stands_for_what_is_computed_again_too():
    def fn(x, w):
        y = x @ w
        return y[0].sin() + (y.t() * 2).tanh()
    primals, tangents = (rand(4, 4), rand(4, 4)), [torch.ones(4, 4)]
    graph = trace(fn, primals, tangents, phased=True)
    forward, backward = cut("min-cut", graph, 1, 2)
    saved = [about.name for about in forward.meta["partition"].tensors if about.origin != "an input"]
    kinds = {node.name: node.target for node in graph.graph.nodes}
    assert [kinds[name] for name in saved] == [aten.mm.default]
    assert {kinds[name] for name in forward.meta["partition"].recomputed} == {aten.mul.Tensor, aten.tanh.default}
    same(run(forward, backward, primals, tangents, 1)[1], gradients_of(outputs_of(fn, primals), primals, tangents))


def test_an_output_is_saved_in_the_place_of_its_view():
    def fn(x, w):
        y = x @ w
        return y, y.t().sin()
    forward, _ = cut("default", trace(fn, (rand(3, 4), rand(4, 3)), [torch.ones(3, 3)] * 2, phased=True), 2, 2)
    assert [about.origin for about in forward.meta["partition"].tensors] == ["an input", "an input", "an output"]


@pytest.mark.parametrize("fn, again", [
    (lambda x: x.softmax(-1), set()), (lambda x: x.softmax(-1) * 2, {aten._softmax.default}),
], ids=["output", "not"])  # fmt: skip
def test_an_output_is_kept_where_what_is_none_is_computed_again(fn, again):
    graph = trace(fn, (rand(8, 8),), [torch.ones(8, 8)], phased=True)
    forward, _ = cut("min-cut", graph, 1, 1)
    kinds = {node.name: node.target for node in graph.graph.nodes}
    assert {kinds[name] for name in forward.meta["partition"].recomputed} == again


def test_memory_shared_with_an_output_is_told():
    def fn(x, w):
        y = x @ w
        return y[0], y.sin()
    forward, _ = cut("default", trace(fn, (rand(3, 4), rand(4, 3)), [torch.ones(3), torch.ones(3, 3)], phased=True), 2, 2)
    assert forward.meta["partition"].tensors[-1].origin == "shares an output's memory"


def test_sizes_are_saved_as_numbers():
    found, _ = names(conditional_sizes, mode="symbolic", phased=True)
    assert found.ints and not set(found.ints) & {saved.name for saved in found.tensors}


def targets(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("phased", [False, True])
def test_random_operations_run_once_and_in_order(phased, rule):
    for fn in (dropout, random_unread):
        graph, primals, tangents = made(fn, "fake", phased)
        forward, backward = cut(rule, graph, len(tangents), len(primals))

        def draws(module):
            return [node.name for node in module.graph.nodes if node.op == "call_function" and cost.kind(node) is cost.RANDOM]
        assert draws(forward) == draws(graph) and not draws(backward)


def test_what_was_drawn_is_held_once():
    """It is a result, for derivatives of derivatives: to save what was made of it, too, would be a second mask."""
    def fn(x, w):
        mask = torch.bernoulli(x.detach().sigmoid())
        return (x @ w) * mask.div(0.9), mask
    graph = trace(fn, (rand(64, 64), rand(64, 64)), [torch.ones(64, 64)], phased=True)
    found = cut("min-cut", graph, 2, 2)[0].meta["partition"]
    assert [saved.name for saved in found.tensors if saved.origin.startswith("drawn")] == ["bernoulli"]
    assert found.bytes == 0 and "div" in found.recomputed


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("phased", [False, True])
def test_random_operations_of_the_backward_stay_there(phased, rule):
    graph, primals, tangents = made(own_function, "fake", phased)
    forward, backward = cut(rule, graph, 1, 1)
    assert aten.rand.default in targets(backward) and aten.rand.default not in targets(forward)


@pytest.mark.parametrize("fn, never", [
    (mlp, {aten.mm.default, aten.addmm.default}), (attention, {aten.bmm.default}), (conv, {aten.convolution.default}),
])
def test_dear_operations_run_once(fn, never):
    graph, primals, tangents = made(fn, "fake", True)
    forward, _ = cut("min-cut", graph, len(tangents), len(primals))
    kinds = {node.name: node.target for node in graph.graph.nodes}
    assert not never & {kinds[name] for name in forward.meta["partition"].recomputed}


def test_checkpointed_operations_are_the_backwards():
    graph, primals, tangents = made(checkpointed, "fake", True)
    forward, backward = cut("default", graph, 1, 2)
    assert targets(forward).count(aten.sin.default) == 2 and targets(backward).count(aten.sin.default) == 2
    assert [about.origin for about in forward.meta["partition"].tensors] == ["an input", "an input", "made by the forward"]


@pytest.mark.parametrize("fn", [mlp, layer_norm_by_hand, residual, attention], ids=lambda fn: fn.__name__)
def test_min_cut_saves_less(fn):
    found, _ = names(fn, "min-cut", phased=True)
    assert found.bytes < found.default_bytes and found.recomputed


@pytest.mark.parametrize("links, saved", [(2, 1), (10, 1), (30, 2)])
def test_long_chains_are_not_run_for_their_end(links, saved):
    def fn(x, w):
        start = end = x @ w
        for _ in range(links):
            end = end * 1.1
        return start.sin() + end.sin()
    graph = trace(fn, (rand(16, 16), rand(16, 16)), [torch.ones(16, 16)], phased=True)
    found = cut("min-cut", graph, 1, 2)[0].meta["partition"]
    assert [about.origin for about in found.tensors].count("made by the forward") == saved


def test_a_chain_that_is_read_all_along_is_run_once():
    found, _ = names(chain, "min-cut", phased=True)
    assert found.bytes < found.default_bytes / 30 and len(found.recomputed) == len(set(found.recomputed)) == 78


def test_budgets_are_kept_where_they_can_be():
    graph, primals, tangents = made(residual, "fake", True)
    held = [partition.min_cut_partition(graph, None, num_fwd_outputs=1, num_primals=len(primals), budget=budget)[0]
            .meta["partition"] for budget in (1.0, 0.5, 0.2, 0.0)]
    assert all(found.bytes <= budget * found.default_bytes for found, budget in zip(held, (1.0, 0.5, 0.2, 0.0)))
    assert sorted(held, key=lambda found: -found.bytes) == held


def layers(count, width):
    """GELUs between linear layers: as wide as the layers are, their products take the longer."""
    def fn(x, *weights):
        for w in weights:
            x = F.gelu(x @ w)
        return x
    graph = trace(fn, (rand(512, width), *(rand(width, width) for _ in range(count))), [torch.ones(512, width)], phased=True)
    return graph, cut("not fused", graph, 1, 1 + count)[0].meta["partition"]


@pytest.mark.parametrize("width, part", [(16, (0, 0.2)), (128, (0.1, 0.9)), (1024, (1, 1))])
def test_alone_operations_are_run_again_where_that_takes_no_time(width, part):
    graph, found = layers(12, width)
    time = {node.name: cost.alone(node) for node in graph.graph.nodes}
    assert sum(time[name] for name in found.recomputed) <= cost.SPARE * sum(time.values())
    assert part[0] <= len(found.recomputed) / 11 <= part[1]  # nobody reads the last one's result in the backward
    size = 512 * width * 4
    assert found.default_bytes - found.bytes == len(found.recomputed) * size


def test_what_wins_most_for_its_time_is_run_again_first():
    def fn(x, *weights):
        for w in weights:
            x = x @ w
            x = x.sin() * (x * 2)
        return x
    graph = trace(fn, (rand(512, 256), *(rand(256, 256) for _ in range(12))), [torch.ones(512, 256)], phased=True)
    found = cut("not fused", graph, 1, 13)[0].meta["partition"]
    names = {node.name: str(node.target) for node in graph.graph.nodes}
    kinds = Counter(names[name] for name in found.recomputed)
    assert kinds["aten.mul.Tensor"] >= 12 and 0 < kinds["aten.sin.default"] < 12


def test_small_graphs_get_the_default(monkeypatch):
    monkeypatch.setattr(cost, "SMALL", 1 << 18)
    assert names(residual, "min-cut", phased=True)[0].rule == "default"


def test_what_runs_again_runs_just_before_its_reader():
    graph, primals, tangents = made(residual, "fake", True)
    _, backward = cut("min-cut", graph, 1, len(primals))
    again = set(backward.meta["partition"].recomputed)
    nodes = [node for node in backward.graph.nodes if node.op == "call_function"]
    old = [node.name for node in graph.graph.nodes]
    own = [node for node in nodes if node.meta["phase"] == "backward"]
    assert [node.name for node in own] == [name for name in old if name in {node.name for node in own}]
    first = nodes.index(next(node for node in nodes if node.name in again))
    for at, node in enumerate(nodes):
        if node.name in again:  # up to the next node of the backward's own, all are there for that one
            rest = itertools.takewhile(lambda other: other.meta["phase"] != "backward", nodes[at + 1:])
            reader = nodes[at + 1 + len(list(rest))]
            assert reader in reached(node)


def reached(node):
    found, stack = set(), [node]
    while stack:
        for user in stack.pop().users:
            if user not in found:
                found.add(user)
                stack.append(user)
    return found


def test_functorch_names_and_tangents_by_name():
    assert partition.min_cut_rematerialization_partition is partition.min_cut_partition

    def joint(primals, tangents):
        return [primals[0].sin()], [tangents[0] * primals[0].cos()]
    graph = make_fx(joint, tracing_mode="fake")([torch.ones(3)], [torch.ones(3)])
    graph = fx.GraphModule(graph, plain(graph))
    forward, backward = partition.default_partition(graph, None, num_fwd_outputs=1)
    out, saved = forward(torch.ones(3))
    assert torch.equal(backward(saved, torch.ones(3))[0], torch.ones(3).cos())


def plain(graph):
    new = fx.Graph()
    new.output(new.graph_copy(graph.graph, {}))
    new._codegen = fx.graph.CodeGen()
    return new


def test_what_a_forward_may_not_read():
    graph = built(lambda g, x, t: ((g.call_function(aten.mul.Tensor, (x, t)),), ()))
    with pytest.raises(ValueError, match="outputs of the forward depend on tangents: \\['mul_tensor'\\]"):
        partition.default_partition(graph, None, num_fwd_outputs=1)


def test_tuples_are_not_saved():
    def write(g, x, t):
        pair = g.call_function(aten.var_mean.correction, (x,))
        pair.meta["val"] = (torch.ones(()), torch.ones(()))
        out = g.call_function(operator.getitem, (pair, 0))
        return (out,), (g.call_function(aten.stack.default, (pair,)), g.call_function(aten.mul.Tensor, (t, x)))
    with pytest.raises(ValueError, match="reads tuples whole.*'var_mean_correction'"):
        partition.default_partition(built(write), None, num_fwd_outputs=1)


# --- writes into inputs -----------------------------------------------------------------------------------------------
def built(write, phases=()):
    """A joint graph written by hand: `write(graph, x, tangent) -> (outputs, gradients)`."""
    graph = fx.Graph()
    x, t = graph.placeholder("x"), graph.placeholder("tangents_1")
    x.meta["val"] = t.meta["val"] = torch.ones(4)
    outs, grads = write(graph, x, t)
    for node in graph.nodes:
        node.meta.setdefault("val", torch.ones(4))
        if phases:
            node.meta["phase"] = phases.get(node.name, "forward")
    graph.output((*outs, *grads))
    return fx.GraphModule({}, graph)


def both(graph, rule, x, t):
    forward, backward = cut(rule, graph, 1, 1)
    out, *saved = forward(x)
    between = x.clone()
    return forward, backward, out, backward(*saved, t), between


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("phased", [False, True])
def test_forward_writes_what_the_backward_reads(rule, phased):
    def write(g, x, t):
        y = g.call_function(aten.sin.default, (x,))
        shown = g.call_function(aten.view.default, (x, [2, 2]))
        twice = g.call_function(aten.mul.Tensor, (t, g.call_function(aten.cos.default, (x,))))
        grad = g.call_function(aten.mul.Tensor, (twice, g.call_function(aten.view.default, (shown, [4]))))
        g.call_function(aten.copy_.default, (x, y))
        return (y,), (grad, x)
    backward_nodes = dict.fromkeys(("mul_tensor", "cos_default", "view_default_1", "mul_tensor_1"), "backward")
    graph = built(write, backward_nodes if phased else ())
    x, t = torch.randn(4), torch.randn(4)
    old = x.clone()
    forward, backward, out, (grad, itself), between = both(graph, rule, x, t)
    assert aten.copy_.default in targets(forward) and aten.copy_.default not in targets(backward)
    assert torch.equal(out, old.sin()) and torch.equal(between, old.sin()) and torch.equal(x, old.sin())
    assert torch.equal(grad, t * old.cos() * old) and torch.equal(itself, old)
    assert aten.clone.default not in targets(graph)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("reads", [False, True])
def test_both_halves_write_one_input(reads, rule):
    def write(g, x, t):
        y = g.call_function(aten.sin.default, (x,))
        grad = g.call_function(aten.mul.Tensor, (t, x if reads else t))
        g.call_function(aten.copy_.default, (x, y))
        g.call_function(aten.copy_.default, (x, grad))
        return (y,), (grad,)
    x, t = torch.randn(4), torch.randn(4)
    old = x.clone()
    graph = built(write, {"mul_tensor": "backward", "copy__default_1": "backward"})
    forward, backward, out, (grad,), between = both(graph, rule, x, t)
    assert torch.equal(between, old.sin()) and torch.equal(grad, t * (old if reads else t)) and torch.equal(x, grad)
    assert (aten.clone.default in targets(forward)) == reads


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("phased", [False, True])
def test_backward_writes_an_input(rule, phased):
    def write(g, x, t):
        y = g.call_function(aten.sin.default, (x,))
        grad = g.call_function(aten.mul.Tensor, (t, g.call_function(aten.cos.default, (x,))))
        g.call_function(aten.copy_.default, (x, grad))
        return (y,), (grad, g.call_function(aten.add.Tensor, (y, grad)), x)
    graph = built(write, dict.fromkeys(("mul_tensor", "cos_default", "copy__default", "add_tensor"), "backward") if phased else ())
    x, t = torch.randn(4), torch.randn(4)
    old = x.clone()
    forward, backward, out, (grad, total, shown), between = both(graph, rule, x, t)
    assert aten.copy_.default in targets(backward) and aten.copy_.default not in targets(forward)
    assert torch.equal(between, old) and torch.equal(x, grad) and torch.equal(grad, t * old.cos())
    assert torch.equal(total, old.sin() + grad) and shown is x


# --- the cut ----------------------------------------------------------------------------------------------------------
CHOICE = [aten.sin.default, aten.add.Tensor, aten.sum.dim_IntList, aten._softmax.default, aten.mm.default, aten.t.default,
          aten.repeat.default, aten.mul.Tensor]


def random_joint(seed):
    """A random forward of a few operations, half of which the backward reads."""
    draw = random.Random(seed)
    graph, mode = fx.Graph(), FakeTensorMode()
    with mode:
        x, t = graph.placeholder("x"), graph.placeholder("tangents_1")
        x.meta["val"], t.meta["val"] = torch.empty(8, 8), torch.empty(8, 8)
        values = [x]
        for _ in range(draw.randint(3, 9)):
            op = draw.choice(CHOICE)
            a, b = draw.choice(values[-4:]), draw.choice(values)
            args = {aten.add.Tensor: (a, b), aten.mul.Tensor: (a, b), aten.mm.default: (a, b), aten._softmax.default: (a, -1, False),
                    aten.sum.dim_IntList: (a, [0], True), aten.repeat.default: (a, [draw.choice((1, 2)), 1])}.get(op, (a,))
            try:
                value = op(*fx.map_arg(args, lambda node: node.meta["val"]))
            except RuntimeError:
                continue
            values.append(graph.call_function(op, args))
            values[-1].meta.update(val=value, phase="forward")
        grad = t
        for value in values:
            if draw.random() < 0.4 or value is values[-1]:
                grad = graph.call_function(torch.add, (grad, graph.call_function(aten.sum.default, (value,))))
                for node in (grad, *grad.all_input_nodes):
                    if node.op == "call_function" and "phase" not in node.meta:
                        node.meta.update(val=torch.empty(8, 8) if node is grad else torch.empty(()), phase="backward")
        graph.output((values[-1], grad))
    return fx.GraphModule({}, graph)


def price(joint, saved):
    """What saving these roots costs with all that must run again; None where that is not possible."""
    given = joint.given
    needed, stack = set(), list(joint.reads)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [] if node in given or node in saved else node.all_input_nodes
    total, shown = 0, joint.roots(joint.outputs)
    for node in needed - given:
        if node in saved:
            total += cost.keeping(node, node in shown)
        elif cost.again(node) is None:
            return None
        else:
            total += cost.again(node)
    return total


@pytest.mark.parametrize("seed", range(120))
def test_no_choice_is_cheaper(seed):
    joint = partition._read(random_joint(seed), 1, 1)
    roots = sorted({joint.root.get(node, node) for node in joint.ahead} - joint.given, key=joint.place.get)
    choices = [price(joint, set(chosen)) for count in range(len(roots) + 1) for chosen in itertools.combinations(roots, count)]
    ours = price(joint, partition._cheapest(joint))
    assert ours is not None and ours == min(choice for choice in choices if choice is not None)
    assert joint.held(partition._cheapest(joint)) <= joint.held(joint.everything())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_run(seed, rule):
    graph = random_joint(seed)
    forward, backward = cut(rule, graph, 1, 1)
    x, t = torch.randn(8, 8), torch.randn(8, 8)
    out, *saved = forward(x)
    same((out, backward(*saved, t)[0]), graph(x, t))


@pytest.mark.parametrize("seed", range(60))
def test_network_agrees_with_networkx(seed):
    draw = random.Random(seed)
    count = draw.randint(2, 14)
    ours, theirs = Network(), networkx.DiGraph()
    theirs.add_nodes_from(range(count))
    for _ in range(count - 2):
        ours.vertex()
    for _ in range(draw.randint(0, count * 3)):
        tail, head = draw.randrange(count), draw.randrange(count)
        capacity = draw.choice([0, 1, 2, 5, 9, draw.randrange(1 << 40)])
        if tail != head:
            ours.edge(tail, head, capacity)
            before = theirs.get_edge_data(tail, head, {"capacity": 0})["capacity"]
            theirs.add_edge(tail, head, capacity=before + capacity)
    value, near = ours.cut()
    assert value == networkx.maximum_flow_value(theirs, 0, 1)
    assert near[1] and not near[0]
    assert value == sum(data["capacity"] for tail, head, data in theirs.edges(data=True) if not near[tail] and near[head])


def test_of_equal_cuts_the_one_nearest_to_the_sink():
    network = Network()
    first, second = network.vertex(), network.vertex()
    for tail, head in ((0, first), (first, second), (second, 1)):
        network.edge(tail, head, 5)
    assert network.cut() == (5, [False, True, False, False])


def test_no_finite_cut():
    network = Network()
    network.edge(0, 1, UNLIMITED)
    assert network.cut()[0] >= UNLIMITED


# --- prices -----------------------------------------------------------------------------------------------------------
def calls(fn, *args):
    """Of each operation that `fn` calls, a node."""
    return {node.target: node for node in make_fx(fn, tracing_mode="fake")(*args).graph.nodes if node.op == "call_function"}


@pytest.mark.parametrize("op, args, kind", [
    (aten.sin.default, (torch.ones(2),), cost.MATH),
    (aten.mul.Tensor, (torch.ones(2), torch.ones(2)), cost.POINTWISE),
    (aten._to_copy.default, (torch.ones(2),), cost.POINTWISE),
    (aten.clone.default, (torch.ones(2),), cost.POINTWISE),
    (aten.view.default, (torch.ones(2), [2, 1]), cost.VIEW),
    (aten._unsafe_view.default, (torch.ones(2), [2, 1]), cost.VIEW),
    (aten.split.Tensor, (torch.ones(2), 1), cost.VIEW),
    (aten.sum.default, (torch.ones(2),), cost.REDUCTION),
    (aten._softmax.default, (torch.ones(2), 0, False), cost.NORMAL),
    (aten.mm.default, (torch.ones(2, 2), torch.ones(2, 2)), cost.COMPUTE),
    (aten.sort.default, (torch.ones(2),), cost.COMPUTE),
    (aten.bernoulli.default, (torch.ones(2),), cost.RANDOM),
    (aten.native_dropout.default, (torch.ones(2), 0.5, True), cost.RANDOM),
    (aten.copy_.default, (torch.ones(2), torch.ones(2)), cost.EFFECT),
    (aten._assert_async.msg, (torch.ones(()), "no"), cost.EFFECT),
    (aten.scatter_add.default, (torch.ones(2), 0, torch.zeros(2, dtype=torch.long), torch.ones(2)), cost.OPAQUE),
    (aten.empty_like.default, (torch.ones(2),), cost.OPAQUE),
])
def test_kinds(op, args, kind):
    assert cost.kind(calls(lambda *given: op(*given), *args)[op]) is kind


def test_prices():
    nodes = calls(lambda x: (x.sin(), x.sum(), x.softmax(0), x @ x), torch.ones(32, 32))
    size = 32 * 32 * 4
    assert [cost.again(nodes[op]) for op in (aten.sin.default, aten.sum.default, aten._softmax.default, aten.mm.default)] == [
        size // 16, (size + 4) // 4, size // 2, None]
    assert cost.again(nodes[aten.mm.default], compute=True) == 2 * 32**3 // 128
    assert cost.again(nodes[aten.sum.default]) > cost.kept(nodes[aten.sum.default])  # small results are kept


def test_prices_of_operations_alone():
    nodes = calls(lambda x: (x * 2, x.sin(), x.softmax(0), x @ x, x.t()), torch.ones(256, 256))
    moved = 2 * 256 * 256 * 4
    ops = [aten.mul.Tensor, aten.sin.default, aten._softmax.default, aten.mm.default, aten.t.default]
    assert [cost.alone(nodes[op]) for op in ops] == [moved, 3 * moved, 2 * moved, 2 * 256**3 // 4, 0]
    small = calls(torch.sin, torch.ones(2))[aten.sin.default]
    assert cost.alone(small) == 1 << 15  # to call it


def test_sizes_nobody_knows_have_a_price():
    graph = make_fx(lambda x: x.nonzero().sin(), tracing_mode="symbolic")(torch.ones(3))
    last = [node for node in graph.graph.nodes if node.op == "call_function"][-1]
    assert cost.kept(last) > 0 and not last.meta["val"].fake_mode.shape_env.guards
