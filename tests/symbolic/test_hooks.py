"""What users attach to derivatives, in captured code: functions of their own, checkpoints, hooks, anomaly mode."""
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import jit
from tests.checkpoints import again, checkpointed, checkpointed_dropout, in_one_another
from tests.differential import COUNTING, Counting

BACKENDS = ["eager", "aot_eager"]
LOG = []
FACTOR = 3.0
OPTIONS = {"factor": 2.0}


def make():
    torch.manual_seed(3)
    return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)


def differentiated(results, inputs):
    """Results, first and second derivatives, with the random numbers that follow."""
    results = [r for r in results if r is not None]
    first = results[0]
    gradients = torch.autograd.grad(first, inputs, create_graph=True, allow_unused=True)
    seen = [r.detach().clone() for r in results] + [g if g is None else g.detach() for g in gradients]
    seen.append(torch.rand(1))
    total = sum((g * g).sum() for g in gradients if g is not None)
    try:
        seen.extend(torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True))
    except RuntimeError:
        seen.append(None)
    first.backward()
    return seen + [i.grad for i in inputs]


def compare(program, backend, graphs=None, look=differentiated, calls=2):
    """`program(x, w)` gives tensors, the first of them one number. Compiled and eager look the same."""
    counter = Counting(None if backend == "eager" else jit.backends.BACKENDS[backend])
    compiled = jit.compile(program, backend=counter)
    for seed in range(calls):
        found = []
        for run in (program, compiled):
            inputs = make()
            torch.manual_seed(seed)
            found.append(look(run(*inputs), inputs))
        theirs, ours = found
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    if graphs is not None and COUNTING:
        assert counter.count == graphs, [gm.code for gm in counter.graphs]
    return counter


# --- functions of the user's own --------------------------------------------------------------------------------------
def doubled(x):
    return x * 2


class Scaled(torch.autograd.Function):
    """Not the derivative, so that it shows who computed it."""

    @staticmethod
    def forward(ctx, x, factor, name=None):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return F.relu(doubled(x)) * factor * math.sqrt(2)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gradients = [g * ctx.factor * x.cos() for g in (grad,)]
        return gradients[0], None, None


class InTwoParts(torch.autograd.Function):
    @staticmethod
    def forward(x, w, scale=1.0):
        return x * w * scale, (x * 2).long()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.scale = inputs
        ctx.save_for_backward(x, w)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, nothing):
        x, w = ctx.saved_tensors
        if nothing is not None:
            raise ValueError("a gradient of whole numbers")
        return grad * w * 2 if ctx.needs_input_grad[0] else None, grad * x * 3, None


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
        return x.mul_(FACTOR)

    @staticmethod
    def backward(ctx, grad):
        return grad * FACTOR * 2


class AsItIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return x, w * 2

    @staticmethod
    def backward(ctx, first, second):
        return first * 2, Scaled.apply(second, 2.0)


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.noise = torch.rand_like(x)
        return x * ctx.noise

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.noise


class Logs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        LOG.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        LOG.append("backward")
        return grad * 2


class Prints(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        print("backward")
        return grad * 2


class Counts(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counts.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * Counts.calls


class Looks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * OPTIONS["factor"]

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def scaled(x, w):
    return [(Scaled.apply(x @ w, FACTOR, "name") * x).sum()]


apply_scaled = Scaled.apply


def by_another_name(x, w):
    return [(apply_scaled(x @ w, 2.0) * x).sum()]


def in_two_parts(x, w):
    y, number = InTwoParts.apply(x @ w, w)
    z, _ = InTwoParts.apply(x, w, 2.0)
    return [(y * z).sum(), number]


def once(x, w):
    return [(Once.apply(x @ w) * w).sum()]


def dirty(x, w):
    y = x @ w
    z = Dirty.apply(y)
    return [(z * y).sum(), z]


def as_it_is(x, w):
    first, second = AsItIs.apply(x @ w, w)
    return [(first * second).sum()]


def noisy(x, w):
    return [(Noisy.apply(x) @ w).sum() + torch.rand(())]


def without_grad(x, w):
    with torch.no_grad():
        y = Scaled.apply(x, 2.0)
    return [(y * w).sum()]


FUNCTIONS = [scaled, by_another_name, in_two_parts, once, dirty, as_it_is, noisy, without_grad]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", FUNCTIONS, ids=lambda program: program.__name__)
def test_functions_are_in_the_graph(program, backend):
    compare(program, backend, graphs=1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [Logs, Prints, Counts, Looks])
def test_functions_that_look_around_break_the_graph(function, backend, capsys):
    def program(x, w):
        return [(function.apply(x @ w) * x).sum()]

    Counts.calls = 0
    found = []
    for call in (program, jit.compile(program, backend=backend)):
        LOG.clear()
        Counts.calls = 0
        x, w = make()
        for _ in range(2):
            (result,) = call(x, w)
            result.backward()
        found.append((list(LOG), Counts.calls, capsys.readouterr().out, x.grad, w.grad))
    assert found[0][:3] == found[1][:3]
    torch.testing.assert_close(found[0][3:], found[1][3:])


class WritesGiven(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2)


class WritesInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, other):
        ctx.other = other
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            ctx.other.mul_(2)
        return grad * ctx.other, None


class WritesSaved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.exp()
        ctx.save_for_backward(ctx.kept)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        kept.mul_(2)
        return grad * kept


def writes_given(x, w):
    return [(WritesGiven.apply(x @ w) * x).sum()]


def writes_given_last(x, w):
    return [WritesGiven.apply((x @ w).sum())]


def writes_an_input(x, w):
    return [(WritesInput.apply(x @ w, w.detach()) * x).sum()]


def writes_a_result(x, w):
    y = (x * w).detach()
    return [(WritesInput.apply(x @ w, y) * x).sum(), y]


def writes_saved(x, w):
    return [(WritesSaved.apply(x @ w) * x).sum()]


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [
    writes_given, writes_given_last, writes_an_input, writes_a_result, writes_saved,
], ids=lambda program: program.__name__)  # fmt: skip
def test_writes_in_the_backward(program, backend, create):
    """Inputs, results, what is saved and the incoming gradient are changed, or it is an error, as in eager code."""
    found = []
    for call in (program, jit.compile(program, backend=backend)):
        inputs = make()
        results = call(*inputs)
        tangent = torch.tensor(1.5)
        seen = []
        for _ in range(2):
            try:
                gradients = torch.autograd.grad(results[0], inputs, tangent, create_graph=create, retain_graph=True)
                seen += [g.detach().clone() for g in gradients]
                if create:
                    total = sum((g * g).sum() for g in gradients)
                    seen += torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
            except RuntimeError as error:
                assert "inplace operation" in str(error) or "does not require grad" in str(error)
                seen.append(None)
            seen += [tangent.clone(), *(t.detach().clone() for t in (*results, *inputs))]
        found.append(seen)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_functions_read_is_guarded(backend):
    global FACTOR
    closed = 2.0

    class Closed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * closed

        @staticmethod
        def backward(ctx, grad):
            return grad * closed * 5

    def program(x, w):
        return [(Closed.apply(Dirty.apply(x @ w)) * x).sum()]

    compiled = jit.compile(program, backend=backend)
    before, backward = FACTOR, Closed.backward

    def same():
        results = []
        for call in (program, compiled):
            inputs = make()
            results.append(differentiated(call(*inputs), inputs))
        torch.testing.assert_close(*results)

    try:
        same()
        FACTOR = 7.0
        same()
        closed = 11.0
        same()
        Closed.backward = staticmethod(lambda ctx, grad: grad * 13)
        same()
    finally:
        FACTOR, Closed.backward = before, backward


def test_what_the_frame_has_changed_is_seen():
    def program(x, w):
        global FACTOR
        FACTOR = 5.0
        y = Dirty.apply(x @ w)
        FACTOR = 3.0
        return [y.sum()]

    compare(program, "eager")
    assert FACTOR == 3.0


# --- checkpoints ------------------------------------------------------------------------------------------------------
def structures(x, w):
    def block(pair, scale=2, *, name):
        y = pair["x"] @ pair["w"]
        parts = {"y": y * scale, "x": pair["x"], name: [y.sin(), y.shape]}
        parts["z"] = parts["y"] * 2
        return parts

    found = again(block, {"x": x, "w": w}, name="sin")
    return [(found["z"] * found["sin"][0] * found["x"]).sum() * found["sin"][1][0]]


def under_other_modes(x, w):
    def block(y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = y @ w
        with torch.no_grad():
            factor = z.float().sigmoid()
        return z.float() * factor * (z.exp() * y).sum()

    return [again(block, x).sum()]


def writes_inside(x, w):
    def block(y):
        z = y @ w
        z.mul_(2)
        z[0] = 1
        return z.sin(), z

    y, z = again(block, x)
    return [(y * z).sum()]


def of_functions(x, w):
    return [(again(Scaled.apply, x @ w, 2.0) * again(torch.sin, w)).sum()]


def without_random_state(x, w):
    return [again(lambda y: (y @ w).sin(), x, preserve_rng_state=False, determinism_check="none").sum()]


def without_grad_mode(x, w):
    with torch.no_grad():
        y = again(lambda y: y.sin(), x)
    return [(y * w).sum(), (w * 2).sum()]


def derivative_inside(x, w):
    y = again(lambda y: F.dropout((y @ w).sin(), 0.5), x)
    (g,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    return [(g * g * x).sum()]


def in_a_row(x, w):
    return [checkpoint_sequential([lambda x: x.sin(), lambda x: x @ x, lambda x: x.exp()], 2, x @ w, use_reentrant=False).sum()]


CHECKPOINTS = [checkpointed, checkpointed_dropout, in_one_another, structures, under_other_modes, writes_inside,
               of_functions, without_random_state, without_grad_mode, derivative_inside, in_a_row]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", CHECKPOINTS, ids=lambda program: program.__name__)
def test_checkpoints_are_in_the_graph(program, backend):
    compare(program, backend, graphs=1)


def bytes_saved(call):
    """What the hooks of saved tensors get to see, inputs not counted."""
    inputs = tuple(torch.randn(64, 64, requires_grad=True) for _ in range(2))
    outside = {t.untyped_storage().data_ptr() for t in inputs}
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in outside:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        (result,) = call(*inputs)
    result.backward()
    return sum(found.values())


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_checkpoints_are_not_saved(backend):
    def four_times(x, w):
        for _ in range(4):
            x = again(lambda y: (y @ w).sin().exp().cos(), x)
        return [x.sum()]

    def plain(x, w):
        for _ in range(4):
            x = (x @ w).sin().exp().cos()
        return [x.sum()]

    size = 64 * 64 * 4
    compiled, other = (jit.compile(program, backend=backend) for program in (four_times, plain))
    for _ in range(2):
        assert bytes_saved(compiled) == 3 * size  # what comes in between blocks
        assert bytes_saved(other) >= 10 * size


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.calls = 0

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


class Counted(Block):
    def forward(self, x):
        self.calls += 1
        return self.linear(x).sin()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Block, Counted])
def test_what_a_block_changes_changes_again(kind, backend):
    """Running statistics and attributes: the second run, in the backward, does it once more, as in eager code."""
    found = []
    for compile_ in (lambda step: step, lambda step: jit.compile(step, backend=backend)):
        torch.manual_seed(0)
        block = kind()

        def step(block, x):
            return again(block, x * 2).sum()

        run = compile_(step)
        for _ in range(3):
            run(block, torch.ones(3, 4, requires_grad=True)).backward()
        state = block.state_dict()
        found.append((block.calls, [state[name] for name in sorted(state)], [p.grad for p in block.parameters()]))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(found[1][1:], found[0][1:])


def appends(x, w):
    kept = []

    def block(y):
        kept.append((y @ w).sin())
        return kept[-1].exp()

    result = again(block, x).sum()
    return [result, *kept]


def prints(x, w):
    def block(y):
        print("block")
        return (y @ w).sin()

    return [again(block, x).sum()]


def reentrant(x, w):
    return [checkpoint(lambda x, w: F.dropout(x @ w).sin(), x, w, use_reentrant=True).sum()]


def first_only(results, inputs):
    results[0].backward()
    return [r.detach().clone() for r in results] + [i.grad for i in inputs]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [appends, prints, reentrant], ids=lambda program: program.__name__)
def test_checkpoints_that_break_the_graph(program, backend, capsys):
    compare(program, backend, look=first_only)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (8 if program is prints else 0)


# --- hooks on what the program computes -------------------------------------------------------------------------------
def hook(x, w):
    y = x @ w
    y.register_hook(lambda g: g.clamp(-1, 1) * 3)
    return [(y * y).sum()]


def hook_that_logs(x, w):
    y = x @ w
    y.register_hook(lambda g: LOG.append(g.sum().item()))
    return [(y * y).sum(), y]


def hooks_in_order(x, w):
    y = (x @ w).sin()
    y.register_hook(lambda g: g + 1)
    handle = y.register_hook(lambda g: g * 100)
    y.register_hook(lambda g: g * 2)
    handle.remove()
    return [(y * y).sum(), y * 2]


def hook_of_an_input(x, w):
    x.register_hook(lambda g: g * 2)
    y = x @ w
    return [(y * y).sum()]


def retained(x, w):
    y = x @ w
    y.retain_grad()
    z = y.exp()
    z.sum().backward(retain_graph=True)
    return [(z * y.grad).sum()]


def retained_result(x, w):
    y = x @ w
    y.retain_grad()
    return [(y * y).sum(), y]


def after_accumulation(x, w):
    w.register_post_accumulate_grad_hook(lambda leaf: LOG.append(leaf.grad.sum().item()))
    y = (x @ w).sin()
    return [(y * w).sum()]


def several(x, w):
    y, z = x @ w, x * w
    register_multi_grad_hook([y, z], lambda gradients: LOG.append([g.sum().item() for g in gradients]))
    return [(y * z).sin().sum()]


def hook_of_a_node(x, w):
    y = (x @ w).sin()
    y.grad_fn.register_prehook(lambda outputs: tuple(g + 1 for g in outputs))
    return [(y * y).sum()]


def packed(x, w):
    y = x @ w
    with saved_tensors_hooks(lambda t: t.double() * 2, lambda t: (t / 2).float()):
        z = (y.exp() * x).sin()
    return [(z * w).sum()]


def packed_with_a_log(x, w):
    with saved_tensors_hooks(lambda t: t, lambda t: (LOG.append("unpacked"), t * 0)[1]):
        y = (x @ w).exp()
    return [y.sum()]


def saved_on_cpu(x, w):
    with save_on_cpu():
        y = (x @ w).exp()
    return [(y * x).sum()]


def with_anomalies(x, w):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            y = (x @ w).exp()
            z = y * x
    return [z.sum()]


def backward_and_gradients(results, inputs):
    results[0].backward()
    grads = [r.grad for r in results if isinstance(r, torch.Tensor) and not r.is_leaf and r.retains_grad]
    return [r.detach().clone() for r in results] + grads + [i.grad for i in inputs]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [
    hook, hook_that_logs, hooks_in_order, hook_of_an_input, retained, retained_result, after_accumulation, several,
    hook_of_a_node, packed, packed_with_a_log, saved_on_cpu, with_anomalies,
], ids=lambda program: program.__name__)  # fmt: skip
def test_hooks_on_both_sides_of_a_break(program, backend):
    """The call that registers them breaks the graph, and both parts answer for their gradients."""
    found = []
    for call in (program, jit.compile(program, backend=backend)):
        LOG.clear()
        inputs = make()
        found.append([backward_and_gradients(call(*inputs), inputs) for _ in range(2)])
        found[-1].append(list(LOG))
    theirs, ours = found
    if program is packed_with_a_log:  # how much is saved is the compiler's affair
        assert "unpacked" in ours[-1]
        ours[-1] = theirs[-1] = []
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_hooks_of_modules_and_parameters(backend):
    found = []
    for compile_ in (lambda model: model, lambda model: jit.compile(model, backend=backend)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        sums, counts = [], []
        model[0].weight.register_hook(lambda g: g * 2)
        model[0].bias.register_post_accumulate_grad_hook(lambda p: sums.append(p.grad.sum().item()))  # noqa: B023
        register_multi_grad_hook(list(model.parameters()), lambda gs: counts.append(len(gs)))  # noqa: B023
        run = compile_(model)
        for _ in range(2):
            run(torch.ones(3, 4)).sum().backward()
        handle = model[2].weight.register_hook(lambda g: g * 3)
        run(torch.ones(3, 4)).sum().backward()
        handle.remove()
        run(torch.ones(3, 4)).sum().backward()
        found.append([sums, counts, [p.grad for p in model.parameters()]])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_anomaly_mode(backend):
    def root(x):
        return (x * 2).sqrt().sum()

    compiled = jit.compile(root, backend=backend)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly():
            warnings.simplefilter("always")
            result = compiled(torch.full((3,), -1.0, requires_grad=True))
            with pytest.raises(RuntimeError, match="returned nan values"):
                result.backward()
        assert any("Traceback of forward call" in str(w.message) for w in caught)
    x = torch.ones(3, requires_grad=True)
    compiled(x).backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 2**-0.5))
