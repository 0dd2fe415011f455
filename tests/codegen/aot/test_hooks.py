"""What users attach to derivatives: hooks, functions of their own, checkpoints, saved-tensor hooks, anomaly mode."""
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable
from torch.autograd.graph import disable_saved_tensors_hooks, register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from codegen.aot.api import aot_function
from codegen.aot.compilers import nop
from codegen.aot.function import Settings, compile_program
from codegen.aot.memory import Fails
from codegen.aot.partition import default_partition, min_cut_partition
from codegen.aot.recorder import Untraceable
from tests.checkpoints import again, checkpointed, checkpointed_dropout, in_one_another


def make():
    torch.manual_seed(3)
    return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)


# --- what the backward does beside the derivative ---------------------------------------------------------------------
def hook(x, w):
    y = x @ w
    y.register_hook(lambda g: g.clamp(-1, 1) * 3)
    return [(y * y).sum()]


TABLE = {"factor": 2.0}


def hook_with_a_table(x, w):
    y = x @ w

    def scale(g):
        parts = [g, TABLE["factor"]]
        parts.append(3)
        return parts[0] * parts[1] * parts[2]

    y.register_hook(scale)
    return [(y * y).sum()]


def hook_that_only_looks(x, w):
    y = x @ w
    y.register_hook(lambda g: None)
    return [(y * y).sum()]


def hooks_in_order(x, w):
    y = x @ w
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 2)
    return [(y * y).sum(), x * 2]


def hook_removed(x, w):
    y = x @ w
    first = y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: g * 2)
    first.remove()
    return [(y * y).sum()]


def hook_of_a_node(x, w):
    y = (x @ w).sin()
    y.grad_fn.register_hook(lambda gradients, outputs: tuple(g * 2 for g in gradients))
    y.grad_fn.register_prehook(lambda outputs: tuple(g + 1 for g in outputs))
    return [(y * y).sum()]


def gradient_inside(x, w):
    y = (x.detach() @ w.detach()).requires_grad_()
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward()
    return [(x * y.grad).sum() + (y.detach() * w).sum()]


def retained_inside(x, w):
    start = (x.detach() * 1).requires_grad_()
    y = start * 2
    y.retain_grad()
    (y * y).sum().backward()
    return [(y.grad * w * start.grad).sum() + x.sum()]


def packs(x, w):
    with saved_tensors_hooks(lambda t: t.to(torch.float64) * 2, lambda t: (t / 2).to(torch.float32)):
        return [((x @ w).exp() * x).sum()]


def packs_away(x, w):
    kept = []

    def pack(tensor):
        kept.append(tensor)
        return len(kept) - 1

    with saved_tensors_hooks(pack, kept.__getitem__):
        y = (x @ w).exp()
    return [(y * x).sum()]


def packs_twice(x, w):
    with saved_tensors_hooks(lambda t: t, lambda t: t * 2), saved_tensors_hooks(lambda t: t + 1, lambda t: t - 1):
        return [(x @ w).exp().sum()]


def on_cpu(x, w):
    with save_on_cpu():
        return [((x @ w).exp() * x).sum()]


# --- functions of the user's own --------------------------------------------------------------------------------------
class Scaled(torch.autograd.Function):
    """Not the derivative, so that it shows who computed it."""

    @staticmethod
    def forward(ctx, x, factor, name=None):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor * x.cos(), None, None


class InTwoParts(torch.autograd.Function):
    @staticmethod
    def forward(x, w):
        return x * w, (x * 2).long()

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(outputs[1])
        ctx.needed = ctx.needs_input_grad

    @staticmethod
    def backward(ctx, grad, nothing):
        x, w = ctx.saved_tensors
        assert nothing.dtype is torch.long
        return grad * w * 2 if ctx.needed[0] else None, grad * x * 3 if ctx.needs_input_grad[1] else None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos() * 2


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Loose(torch.autograd.Function):
    """Gradients that nobody has are None."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        return (x if first is None else first * 2) + (x * x if second is None else second * 3)


class AsItIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return x, w * 2

    @staticmethod
    def backward(ctx, first, second):
        return first * 2, second * 7


class Keeps(torch.autograd.Function):
    """Saves what is neither an input nor a result."""

    @staticmethod
    def forward(ctx, x):
        ctx.between = x.exp()
        return ctx.between * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.between * 3


class WritesGiven(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2)


def scaled(x, w):
    return [(Scaled.apply(x @ w, 3.0, "name") * x).sum()]


def in_two_parts(x, w):
    y, number = InTwoParts.apply(x @ w, w)
    return [(y * x).sum(), number]


def needs_one(x, w):
    return [InTwoParts.apply(x.detach(), w)[0].sum() + InTwoParts.apply(x, w.detach())[0].sum()]


def once(x, w):
    return [(Once.apply(x @ w) * w).sum()]


def dirty(x, w):
    y = x @ w
    z = Dirty.apply(y)
    return [(z * z).sum()]


def loose(x, w):
    first, second = Loose.apply(x @ w)
    third, fourth = Loose.apply(w)
    return [first.sum() + fourth.sum()]


def as_it_is(x, w):
    first, second = AsItIs.apply(x @ w, w)
    return [(first * second).sum()]


def keeps(x, w):
    return [Keeps.apply(x @ w).sum()]


def writes_an_incoming_gradient(x, w):
    return [(WritesGiven.apply(x @ w) * x).sum()]


# --- checkpoints ------------------------------------------------------------------------------------------------------
def checkpoint_twice(x, w):
    def block(y, scale=2):
        return torch.rand_like(y) * (y @ w).tanh() * scale

    return [again(block, again(block, x), scale=3).sum()]


def checkpoint_of_a_hook(x, w):
    def block(y):
        z = y @ w
        z.register_hook(lambda g: g * 2)
        return z.sin()

    return [again(block, x).sum()]


def checkpoint_without_random_state(x, w):
    return [again(lambda y: (y @ w).sin(), x, preserve_rng_state=False).sum()]


SIMPLE = [hook, hook_with_a_table, hook_that_only_looks, hooks_in_order, hook_removed, hook_of_a_node, gradient_inside,
          retained_inside, packs, packs_away, packs_twice, on_cpu]
FUNCTIONS = [scaled, in_two_parts, needs_one, once, dirty, loose, as_it_is, keeps, writes_an_incoming_gradient]
CHECKPOINTS = [checkpointed, checkpointed_dropout, in_one_another, checkpoint_twice, checkpoint_of_a_hook,
               checkpoint_without_random_state]


def said(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error).split("\n")[0]


def first(results, inputs):
    results[0].backward(torch.tensor(1.5))
    return [i.grad for i in inputs]


def twice(results, inputs):
    for _ in range(2):
        results[0].backward(retain_graph=True)
    return [i.grad for i in inputs]


def by_one(results, inputs):
    return [torch.autograd.grad(results[0], i, retain_graph=True, allow_unused=True) for i in inputs]


def second(results, inputs):
    gradients = torch.autograd.grad(results[0], inputs, create_graph=True)
    total = sum((g * g).sum() for g in gradients)
    return [g.detach() for g in gradients] + [said(lambda: torch.autograd.grad(total, inputs, allow_unused=True))]


def assert_same(ours, theirs):
    """Where theirs is an error, so is ours."""
    torch.testing.assert_close(*(tree_map_only(str, lambda text: None, each) for each in (ours, theirs)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("partition", [default_partition, min_cut_partition], ids=["default", "min cut"])
@pytest.mark.parametrize("look", [first, twice, by_one, second])
@pytest.mark.parametrize("program", SIMPLE + FUNCTIONS + CHECKPOINTS, ids=lambda program: program.__name__)
def test_same_as_eager(program, look, partition):
    compiled = compile_program(program, make(), Settings(partition=partition))
    for seed in range(2):
        found = []
        for run in (program, compiled):
            inputs = make()
            torch.manual_seed(seed)
            results = run(*inputs)
            found.append(([r.detach() for r in results], torch.rand(2), look(results, inputs), torch.rand(2)))
        theirs, ours = found
        assert_same(ours, theirs)


# --- what can't be said in a graph is refused, and nothing was touched ------------------------------------------------
class Accumulates(torch.autograd.Function):
    """Each backward finds what the one before it has left."""

    @staticmethod
    def forward(ctx, x):
        ctx.between = x.exp()
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.between.add_(1)
        return grad * ctx.between


class WritesSaved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.held = x
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            ctx.held.mul_(2)
        return grad * ctx.held


def hook_of_an_input(x, w):
    x.register_hook(lambda g: g * 2)
    return [(x @ w).sum()]


def hook_after_accumulation(x, w):
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    return [(x @ w).sum()]


def hook_of_a_result(x, w):
    y = x @ w
    y.register_hook(lambda g: g * 2)
    return [y, y.sum()]


SEEN = []


def hooks_of_several(x, w):
    y, z = x @ w, x * w
    register_multi_grad_hook([y, z], lambda gradients: None)
    return [(y * z).sum()]


def hook_that_appends(x, w):
    y = x @ w
    y.register_hook(lambda g: SEEN.append(g))
    return [y.sum()]


def hook_that_is_append(x, w):
    y = x @ w
    y.register_hook(SEEN.append)
    return [y.sum()]


def hook_that_prints(x, w):
    y = x @ w
    y.register_hook(lambda g: print("backward"))
    return [y.sum()]


def hook_that_stores(x, w):
    table = {}
    y = x @ w

    def hook(g):
        table["gradient"] = g

    y.register_hook(hook)
    return [y.sum()]


def hook_that_counts(x, w):
    count = 0
    y = x @ w

    def hook(g):
        nonlocal count
        count += 1

    y.register_hook(hook)
    return [y.sum()]


def handle_returned(x, w):
    y = x @ w
    return [y.sum(), y.register_hook(lambda g: g * 2)]


def retained_result(x, w):
    y = x @ w
    y.retain_grad()
    return [y]


def several_inputs(x, w):
    register_multi_grad_hook([x, w], lambda gradients: None)
    return [(x @ w).sum()]


def gradient_of_an_input(x, w):
    loss = (x @ w).sum()
    loss.backward()
    return [loss.detach()]


def backward_writes_an_input(x, w):
    return [(WritesSaved.apply(x) * w).sum()]


def backward_writes_a_result(x, w):
    y = x * w
    return [WritesSaved.apply(y), y]


def backward_writes_its_tangent(x, w):
    return [WritesGiven.apply(x @ w)]


def backward_writes_what_it_keeps(x, w):
    return [(Accumulates.apply(x @ w) * x).sum()]


def seeded(x, w):
    torch.manual_seed(1)
    return [(F.dropout(x) * w).sum()]


def seeded_in_between(x, w):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        noise = torch.rand(4, 4)
    return [(x * noise @ w).sum()]


def checkpoint_in_the_old_way(x, w):
    return [checkpoint(lambda x: (x @ w).sin(), x, use_reentrant=True).sum()]


def checkpoint_that_writes(x, w):
    buffer = torch.zeros(4)

    def block(y):
        buffer.add_(y.detach().sum(0))
        return y.sin()

    return [again(block, x @ w).sum(), buffer]


@pytest.mark.parametrize(("program", "why"), [
    (hook_of_an_input, "a hook"), (hook_after_accumulation, "a hook"), (hook_of_a_result, "a hook"),
    (hook_that_appends, "does more"), (hook_that_is_append, "does more"), (hook_that_prints, "does more"),
    (hook_that_stores, "does more"), (hooks_of_several, "does more"), (hook_that_counts, "does more"),
    (handle_returned, "handle"), (retained_result, "gradient kept"), (several_inputs, "a hook"),
    (gradient_of_an_input, "gradient kept"), (backward_writes_an_input, "backward that writes"),
    (backward_writes_a_result, "backward that writes"), (backward_writes_its_tangent, "backward that writes"),
    (backward_writes_what_it_keeps, "backward that writes"),
    (seeded, "state of random numbers"), (seeded_in_between, "state of random numbers"),
    (checkpoint_in_the_old_way, "use_reentrant"), (checkpoint_that_writes, "backward that writes"),
], ids=lambda each: getattr(each, "__name__", ""))  # fmt: skip
def test_refused(program, why):
    inputs = make()
    before = torch.get_rng_state()
    with pytest.raises(Untraceable, match=why):
        compile_program(program, inputs, Settings())
    assert torch.equal(torch.get_rng_state(), before)
    for given, fresh in zip(inputs, make()):
        assert torch.equal(given, fresh) and given.grad is None and not given._backward_hooks
    assert not SEEN


# --- checkpoints save less --------------------------------------------------------------------------------------------
def deep(block, x, w):
    for _ in range(4):
        x = block(lambda y: F.dropout((y @ w).sin().exp(), 0.5), x)
    return [x.sum()]


@pytest.mark.parametrize("partition", [default_partition, min_cut_partition], ids=["default", "min cut"])
def test_checkpoints_are_not_saved(partition):
    """Of four blocks their inputs and the numbers that they drew are saved: what is in between is computed again."""
    def bytes_saved(block):
        inputs = tuple(torch.randn(128, 128, requires_grad=True) for _ in range(2))
        compiled = compile_program(lambda x, w: deep(block, x, w), inputs, Settings(partition=partition))
        return compiled.stages.forward.meta["partition"].bytes

    size = 128 * 128 * 4
    assert bytes_saved(again) <= 3 * size + 4 * size
    assert bytes_saved(again) < bytes_saved(lambda block, x: block(x))


def test_a_checkpoint_around():
    """The compiled function runs again in the backward, with the same random numbers."""
    compiled = aot_function(lambda x, w: F.dropout((x @ w).sin(), 0.5).exp(), nop)
    found = []
    for run in (lambda x, w: F.dropout((x @ w).sin(), 0.5).exp(), compiled, compiled):
        x, w = make()
        torch.manual_seed(1)
        again(run, x * 2, w).sum().backward()
        found.append((x.grad, w.grad))
    torch.testing.assert_close(found[1:], found[:1] * 2)


# --- around a compiled function ---------------------------------------------------------------------------------------
def exponential(x, w):
    return [((x @ w).exp() * x).sum()]


@pytest.mark.parametrize("around", [
    lambda: saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2), save_on_cpu,
    torch.autograd.detect_anomaly,
], ids=["pack", "save_on_cpu", "anomaly"])
@pytest.mark.parametrize("at", ["all", "compile", "call", "backward"])
@pytest.mark.parametrize("program", [exponential, checkpointed_dropout], ids=lambda program: program.__name__)
def test_surroundings(program, around, at):
    def run(call):
        inputs = make()
        torch.manual_seed(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with around() if at in ("all", "call") else torch.enable_grad():
                results = call(*inputs)
            with around() if at in ("all", "backward") else torch.enable_grad():
                results[0].backward()
        return [r.detach() for r in results], [i.grad for i in inputs]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with around() if at in ("all", "compile") else torch.enable_grad():
            compiled = compile_program(program, make(), Settings())
    torch.testing.assert_close(run(compiled), run(program))


def test_no_checkpoint_where_hooks_are_disabled():
    with disable_saved_tensors_hooks("not here"), pytest.raises(Fails, match="not here"):
        compile_program(checkpointed, make(), Settings())


def test_hooks_get_real_tensors():
    """The trace shows the caller's hooks nothing, and the call shows them what is saved."""
    seen = []

    def pack(tensor):
        seen.append(type(tensor))
        return tensor.clone()

    def unpack(tensor):
        seen.append("unpacked")
        return tensor * 0

    with saved_tensors_hooks(pack, unpack):
        compiled = compile_program(exponential, make(), Settings())
        assert not seen
        x, w = make()
        results = compiled(x, w)
    assert seen and set(seen) == {torch.Tensor}
    packed = len(seen)
    results[0].backward()
    assert seen[packed:] == ["unpacked"] * packed
    assert not x.grad.any() and not w.grad.any()


def test_anomalies_are_told():
    """The error says which function's backward it was, and the warning where that was called."""
    def root(x):
        return [x.sqrt().sum()]

    compiled = compile_program(root, (torch.zeros(3, requires_grad=True),), Settings())
    for run in (root, compiled):
        x = torch.full((3,), 0.0, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly():
            warnings.simplefilter("always")
            (result,) = run(x - 1)
            with pytest.raises(RuntimeError, match="returned nan values in its 0th output"):
                result.backward()
        assert any("in test_anomalies_are_told" in str(w.message) for w in caught)


@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
def test_hooks_of_the_node(register):
    """A hook of the results' own node changes the gradients, whatever the node is."""
    def run(call):
        x, w = make()
        (result,) = call(x, w)

        def double(gradients, *_):
            return tuple(g * 2 for g in gradients)

        handle = getattr(result.grad_fn, register)(double)
        result.backward(retain_graph=True)
        handle.remove()
        result.backward()
        return x.grad, w.grad

    compiled = compile_program(exponential, make(), Settings())
    torch.testing.assert_close(run(compiled), run(exponential))


def test_hooks_of_leaves_and_results():
    def run(call):
        x, w = make()
        seen = []
        w.register_hook(lambda g: g * 3)
        w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
        register_multi_grad_hook([x, w], lambda gradients: seen.append([g.clone() for g in gradients]))
        y, z = call(x, w)
        y.register_hook(lambda g: g + 1)
        y.retain_grad()
        z.backward()
        return x.grad, w.grad, y.grad, seen

    def program(x, w):
        y = x @ w
        return [y, (y * y).sum()]

    compiled = compile_program(program, make(), Settings())
    torch.testing.assert_close(run(compiled), run(program))


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("what", ["an input", "a result", "the given gradient"])
def test_writes_during_the_backward(what, create):
    """By hooks of what the caller holds. Autograd refuses to go on with what was saved before; so does the compiled."""
    def program(x, w):
        y = x.exp()
        return [y, (y * w * w.detach()).sum()]

    def run(call):
        x, w = make()
        leaf = x
        x = x * 1
        y, z = call(x, w)

        def write(gradient):
            with torch.no_grad():
                {"an input": w, "a result": y, "the given gradient": gradient}[what].mul_(2)

        y.register_hook(write)
        return said(lambda: [g.detach() for g in torch.autograd.grad(z, (leaf, w), create_graph=create)])

    expected, found = run(program), run(compile_program(program, make(), Settings()))
    if isinstance(expected, str):
        assert isinstance(found, str) and "modified by an inplace operation" in found
    else:
        torch.testing.assert_close(found, expected)
