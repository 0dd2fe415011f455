"""Sizes that depend on values: what `nonzero`, masks, `unique` and `repeat_interleave` give, carried through the graph.

A graph is made for all sizes from 2 on. With others, with one or none, the program runs as it was written."""

import pytest
import sympy
import torch
from sympy.core.cache import clear_cache

import jit
from symbolic.by_values import is_symbol
from tests.differential import COUNTING, check

COUNTS = (4, 3, 1, 0, 8, 2)
BACKENDS = {"eager": None, "aot_eager": None, "default": (1e-5, 1e-6)}


def _world(count, requires_grad):
    values = (torch.arange(24.0).reshape(8, 3) / 7 - 1).requires_grad_(requires_grad)
    return values, (torch.arange(8) < count).float()


def _kept(x, m):
    kept = x[m > 0.5]
    return kept * 2 + 1


def _places(x, m):
    (at,) = torch.nonzero(m > 0.5, as_tuple=True)
    rows = x[at].sin()
    return rows.sum(0), at, rows.shape[0] * 3, len(at), rows.size()


def _added(x, m):
    at = torch.where(m > 0.5)[0]
    out = torch.zeros_like(x)
    out.index_add_(0, at, x[at] * 2)
    return out


def _unique(x, m):
    values, places, counts = torch.unique(m * x.detach()[:, 0], return_inverse=True, return_counts=True)
    return values + 1, places, counts, values.numel()


def _repeated(x, m):
    rows = x.repeat_interleave((m > 0.5).long() + 1, dim=0)
    return rows.relu(), rows.size(0)


def _selected(x, m):
    chosen = torch.masked_select(x, (m > 0.5)[:, None])
    return chosen.sum(), chosen * chosen


def _made(x, m):
    at = (m > 0.5).nonzero()
    return torch.zeros(len(at), 4) + 1, torch.arange(at.shape[0]), x.new_ones(at.shape[0])


def _copied(x, m):
    turned = x.detach()[m > 0.5].t()
    copy = turned.contiguous()  # of one column it is the tensor itself
    copy.add_(1)
    return turned, copy


def _written(x, m):
    out, mask = x.clone(), m > 0.5
    out[mask] = x[mask] * 3
    return out


def _paired(x, m):
    return x[m > 0.5] + x[m > 0.25]


def _spread(x, m):
    return x[m > 0.5] + x[1 - m < 0.5][:, :1]


def _layers(x, m):
    rows = x[m > 0.5]
    weight = torch.linspace(-1, 2, 15).view(3, 5)
    hidden = torch.nn.functional.layer_norm(rows @ weight, (5,)).softmax(-1)
    return torch.cat([rows, hidden], 1).view(-1), hidden.mean(), hidden[:, 1:3].sum(1)


PROGRAMS = [
    _kept, _places, _added, _unique, _repeated, _selected, _made, _copied, _written, _paired, _spread, _layers,
]  # fmt: skip


@pytest.mark.sampled(18)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_is_one_graph(program, requires_grad, backend):
    worlds = [_world(count, requires_grad) for count in COUNTS]
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": BACKENDS[backend]}
    check(program, *worlds[0], changed=worlds[1:], graphs=1, **chosen)


def _chosen(x, m):
    rows = x[m > 0.5]
    if len(rows) > 3:
        return rows * 2
    return rows - 1


def _each(x, m):
    total = x.sum(0)
    for row in x[m > 0.5]:
        total = total + row
    return total


def _known_size(x, m):
    rows = x[m > 0.5]
    return torch.zeros(5).expand(rows.shape[0], 5)[:, : rows.shape[0]], bool(rows.shape[0] == 4), f"{rows.shape[0]}"


@pytest.mark.parametrize("program", [_chosen, _each, _known_size])
def test_what_is_decided_by_a_size_breaks(program):
    worlds = [_world(count, True) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


def test_sizes_that_do_not_fit_raise():
    def program(x, m):
        return x[m > 0.5] + x[m > 1.5 - m]

    worlds = [(torch.arange(8.0), torch.tensor([0.4, 0.6, 0.8, 0.7] * 2) + shift) for shift in (0.0, 0.06, 0.3, -0.15)]
    check(program, *worlds[0], changed=worlds[1:], fullgraph=False)


def _checked(x, m):
    rows = x[m > 0.5]
    torch._check(rows.shape[0] > 2, lambda: f"{rows.shape[0]} rows are too few")
    return rows * 2


def _asserted(x, m):
    rows = x[m > 0.5]
    assert rows.shape[0] % 4 == 0, f"no multiple of four: {len(rows)}"
    return rows.view(-1, 4, 3) * 2


def _refused(x, m):
    rows = x[m > 0.5]
    if rows.shape[0] < 3:
        raise ValueError("only", rows.shape[0], "rows")
    return rows + 1


def _promised(x, m):
    count = int(m.sum())
    torch._check(count <= 6, lambda: "more than six")
    return x[:count] * 2


@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("program", [_checked, _asserted, _refused, _promised])
def test_what_the_program_says_of_such_sizes_is_said_in_its_own_words(program, backend):
    """The error's type, text and lines are eager code's, and calls before and after it are served."""
    worlds = [_world(count, True) for count in (4, 1, 5)]
    check(program, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=BACKENDS[backend])


def test_what_is_written_before_is_written_once():
    def program(x, m):
        x.add_(1)
        return x[m > 0.5] * 2

    worlds = [_world(count, False) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


def test_numbers_are_drawn_once():
    def program(x, m):
        noise = torch.rand(3)
        rows = x[m > 0.5] * noise
        return rows + torch.rand_like(rows), torch.rand(2)

    worlds = [_world(count, True) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], graphs=1)


def test_with_sizes_of_arguments_open():
    def program(x, m):
        rows = x[m > 0.5] * x.shape[0]
        return rows + 1, rows.shape[0] + x.shape[0], torch.nonzero(x)

    worlds = [_world(count, True) for count in COUNTS] + [(torch.randn(5, 4), torch.tensor([0.0, 1, 1, 0, 1]))]
    check(program, *worlds[0], changed=worlds[1:], dynamic=True, graphs=1)


def test_what_the_frame_did_before_is_done_once():
    def program(x, m, log):
        log.append(len(log))
        rows = x[m > 0.5]
        log.append(rows.shape[0])
        return rows.cos()

    worlds = [(*_world(count, False), []) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], graphs=1)


class _Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.inner.register_full_backward_hook(lambda module, given, got: (2 * given[0],))

    def forward(self, x, m):
        rows = x[m > 0.5]
        return self.inner(rows), rows


def test_hooks_of_modules_on_such_tensors():
    worlds = [_world(count, True) for count in COUNTS]
    check(_Hooked(), *worlds[0], changed=worlds[1:], nodes=False)


class _Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / 2, x * x

    @staticmethod
    def backward(ctx, half, square):
        (x,) = ctx.saved_tensors
        return half / 2 + 2 * x * square


def test_autograd_functions_on_such_tensors():
    def program(x, m):
        half, square = _Halves.apply(x[m > 0.5])
        return half, square.sum()

    worlds = [_world(count, True) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


def test_gradients_taken_inside():
    def program(x, m):
        rows = x[m > 0.5].sin()
        (gradient,) = torch.autograd.grad(rows.sum(), x)
        return gradient, rows.detach()

    worlds = [_world(count, True) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


def test_a_checkpoint_around_such_tensors():
    def inner(x, m):
        return (x[m > 0.5] * 2).exp()

    def program(x, m):
        return torch.utils.checkpoint.checkpoint(inner, x, m, use_reentrant=False)

    worlds = [_world(count, True) for count in COUNTS]
    check(program, *worlds[0], changed=worlds[1:], nodes=False)


def test_an_equal_layer_again():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))

        def forward(self, x, m):
            out = x.clone()
            out[m] = x[m] * self.scale
            return out.sin()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Layer() for _ in range(5))

        def forward(self, x, m):
            for layer in self.layers:
                x = layer(x, m > 0.5) + x
            return x

    worlds = [_world(count, True) for count in COUNTS]
    check(Model(), *worlds[0], changed=worlds[1:], graphs=1)


def test_kernels_do_what_lies_between():
    compiled = jit.compile(_layers)
    compiled(*_world(4, True))
    with_kernels = [", grain " in str(plan) for plan in compiled.debug_state().plans]
    assert not COUNTING or with_kernels == [True] * 3  # two pieces of the forward; the backward


# --- what is foreseen -------------------------------------------------------------------------------------------------
def _masks(*counts):
    return [(torch.linspace(-1, 1, 8).requires_grad_(), torch.arange(8) < count) for count in counts]


def _each_place(x, mask):
    total = x.sum()
    for place in mask.nonzero()[:, 0]:
        total = total + x[place] * 2
    return total


def _each_value(x, mask):
    return torch.stack([x.sum() * value for value in (mask.long() * 3).unique()])


def _rows(x, mask):
    places = mask.nonzero()
    return len(places), places[:, 0] + 1, x[torch.where(mask)[0]], x[mask.nonzero(as_tuple=True)], f"{places.shape}", places.stride()


def _of_the_frames_own(x, mask):
    other = torch.zeros(8, dtype=torch.bool)
    other[2:5] = True
    other[3].logical_not_()
    kept = torch.ones(2, 3)
    kept.masked_fill_(torch.tensor([[True, False, True]]), -1)
    if other.any() and (kept < 0).flatten().any().item():
        x = x * other.sum().item()
    return x[: int(kept.sum().long()) + 3], torch.zeros(int(other.sum()))


def _written_into(x, mask):
    spread = torch.where(mask[:, None], torch.zeros(()), -1.0)
    column = spread[:, 0]
    column[mask.cumsum(0) == 4] = 3e38
    return x * 2 if (column > 0).flatten().any().item() else x


def _padded(x, mask):
    (count,) = (mask.long().sum(),)
    return torch.nn.functional.pad(x, (0, 8 - count)), torch.zeros(count + 1), x.narrow(0, 0, mask.sum()), range(count)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_each_place, _each_value, _rows, _of_the_frames_own, _written_into, _padded])
def test_what_masks_say_is_foreseen(program, backend):
    worlds = _masks(4, 1, 0, 8)
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": BACKENDS[backend]}
    check(program, *worlds[0], changed=worlds[1:], graphs=1, **chosen)


class _Strided(torch.nn.Module):
    """Its sizes are tensors, of which a size of the result comes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.tensor(7))
        self.register_buffer("stride", torch.tensor(2))

    def forward(self, x):
        frames = torch.ceil((x.shape[-1] - self.kernel) / self.stride + 1).long() - 1
        extra = frames * self.stride + self.kernel - x.shape[-1]
        if extra <= max(self.kernel, self.stride):
            x = torch.nn.functional.pad(x, (self.kernel - self.stride, extra + 4))
        return x * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_of_small_buffers(backend):
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": BACKENDS[backend]}
    module = _Strided()
    check(module, torch.randn(2, 30, requires_grad=True), changed=[(torch.randn(2, 31),)], graphs=1, **chosen)


def test_small_buffers_that_change():
    module = _Strided()
    compiled = jit.compile(module, backend="eager")
    x = torch.randn(2, 30)
    for kernel in (7, 8, 3, 3, 9):
        module.kernel.fill_(kernel)
        assert torch.equal(compiled(x), module(x))


def test_what_is_written_or_drawn_is_not_foreseen():
    def program(x, mask):
        drawn = (torch.rand(8) < 0.5) & mask
        if drawn.sum() > 2:
            x = x * 2
        other = mask.clone()
        mask.logical_not_()
        if mask.any():
            x = x + 1
        return x[: int(other.sum())]

    worlds = _masks(4, 1, 0, 8)
    check(program, *worlds[0], changed=worlds[1:])


def test_a_mask_made_where_the_default_type_is_another_one():
    def program(x, mask):
        torch.set_default_dtype(torch.float64)
        total = torch.zeros(()) + mask.float() + 2**-30
        torch.set_default_dtype(torch.float32)
        return x * 2 if (total > 1).any() else x

    worlds = _masks(4, 1, 0, 8)
    check(program, *worlds[0], changed=worlds[1:])


def test_a_size_is_known_again_when_sympy_has_forgotten_its_symbol():
    found = []

    def backend(graph, inputs):
        found.extend(node.meta["example_value"].size(0) for node in graph.graph.nodes if node.name == "nonzero")
        return graph

    jit.compile(lambda x: x.nonzero() + 1, backend=backend)(torch.ones(3))
    (size,) = found
    clear_cache()
    again = sympy.Symbol(size.node.expr.name, **size.node.expr._assumptions_orig)
    assert again is not size.node.expr and is_symbol(size, again)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("program", [
    lambda z: list(range(z[z.sum(1) > 0.5].repeat(2, 1).shape[0] % 5)),
    lambda z: [0] * (z[z.sum(1) > 0.5].reshape(-1).shape[0] % 5),
    lambda z: [0] * int(z[z.sum(1) > 0.5].repeat(2, 1).shape[0] / 2),
    lambda z: {z[z.sum(1) > 0.5].repeat(3, 1).shape[0] / 4: 1},
    lambda z: "x" * round(len(z[z.sum(1) > 0.5]) ** 2.0),
], ids=["range", "times", "quotient", "float", "power"])  # fmt: skip
def test_sizes_without_a_choice(program, backend):
    """Of a mask of two no more than two are taken: what is computed of that, with no size from 2 on left to choose."""
    check(program, torch.ones(2, 4), changed=[(torch.ones(3, 4),), (torch.ones(2, 4) - 2,), (torch.eye(2, 4),)], backend=backend)


MASKED = {
    "too long": lambda x, m: x[m],
    "made inside": lambda x, m: x[torch.zeros(6, 4).sum(1) > 0.5],
    "after a slice": lambda x, m: x[:, m],
    "after an ellipsis": lambda x, m: x[..., m],
    "before a number": lambda x, m: x[..., m, 0],
    "of more dimensions": lambda x, m: x[:, :, m],
    "that fits": lambda x, m: x[..., m[:3], :],
    "that fits, and a number": lambda x, m: x[1, m[:3], None],
    "two that fit": lambda x, m: x[m[:2], m[:3]],
}


@pytest.mark.parametrize("take", MASKED.values(), ids=MASKED)
def test_masks_that_let_nothing_through_have_sizes(take):
    """Which eager code compares before it looks where they are true."""

    def program(x, m):
        take(x, m)
        return take(x + 1, m)

    check(program, torch.ones(2, 3, 4), torch.zeros(6, dtype=torch.bool), changed=[(torch.ones(2, 3, 4), torch.ones(6) > 0)])


#: What is done to a tensor, not to its memory, and can't be done a second time.
CHANGED = {
    "data": lambda x: setattr(x, "data", x * 3),
    "requires_grad_": lambda x: x.requires_grad_(),
    "requires_grad": lambda x: setattr(x, "requires_grad", True),
    "transposed": lambda x: x.t_(),
    "set_": lambda x: x.set_(x * 3),
    "resize_": lambda x: x.resize_(2, 2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_frame_that_runs_again_changes_no_tensor_twice(change, backend):
    def program(x, m):
        before = x.requires_grad, tuple(x.shape)
        change(x)
        return m[m > 0.5].sum(), *before

    check(program, torch.ones(3, 4), torch.zeros(3, 4), changed=[(torch.ones(3, 4), torch.ones(3, 4))], backend=backend)


# --- sequences of different lengths -----------------------------------------------------------------------------------
def _sequences(*lengths):
    x = (torch.arange(72.0).reshape(3, 6, 4) / 36 - 1).requires_grad_()
    return x, torch.tensor(lengths, dtype=torch.float32)


def _packed(x, lengths):
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.long(), batch_first=True)
    return packed.data * 2, packed.batch_sizes + 1, packed.batch_sizes.dtype, packed.batch_sizes / 2


def _packed_unsorted(x, lengths):
    packed = torch.nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1), lengths.long(), enforce_sorted=False)
    return packed.data.sin(), packed.batch_sizes * 2, packed.sorted_indices + 1, packed.data.sum(1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_packed, _packed_unsorted])
def test_packed_sequences(program, backend):
    worlds = [_sequences(6, 4, 2), _sequences(5, 5, 3), _sequences(1, 1, 1), _sequences(6, 6, 6), _sequences(7, 4, 2)]
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": BACKENDS[backend]}
    check(program, *worlds[0], changed=worlds[1:], graphs=1, traceback="other", **chosen)


_LSTM = torch.nn.LSTM(4, 5, batch_first=True)


def _through_a_network(x, lengths):
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_padded_sequence(x * 2, lengths.long(), batch_first=True, enforce_sorted=False)
    out, (hidden, _) = _LSTM(packed)
    return rnn.pad_packed_sequence(out, batch_first=True), hidden + 1


def _of_known_lengths(x, lengths):
    rnn = torch.nn.utils.rnn
    out, hidden = _LSTM(rnn.pack_sequence([x[0], x[1, :4], x[2, :2]]))
    return out.data * 2, hidden, rnn.unpack_sequence(out), rnn.pad_sequence([x[0], x[1, :4]]) + 1, rnn.unpad_sequence(x, lengths.long(), batch_first=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_through_a_network, _of_known_lengths])
def test_networks_of_packed_sequences(program, backend):
    worlds = [_sequences(6, 4, 2), _sequences(5, 5, 3), _sequences(1, 1, 1)]
    check(program, *worlds[0], changed=worlds[1:], nodes=False, backend=backend, tolerance=(1e-5, 1e-6))


def _aligned(x, lengths):
    scores = x.transpose(0, 1).log_softmax(-1)
    targets = torch.tensor([[1, 2], [3, 1], [2, 2]])
    short = torch.nn.functional.ctc_loss(scores, targets, lengths.long(), lengths.long() // 3, zero_infinity=True)
    return short, torch.nn.functional.ctc_loss(scores, torch.tensor([1, 2, 3, 2]), lengths.long(), torch.tensor([2, 1, 1]), reduction="none") * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_connectionist_temporal_classification(backend):
    """Of targets with no element at all, too; lengths that are too large raise."""
    worlds = [_sequences(6, 4, 2), _sequences(5, 5, 3), _sequences(2, 1, 1), _sequences(6, 6, 6), _sequences(7, 4, 2)]
    chosen = {} if backend == "eager" else {"backend": backend, "tolerance": (1e-5, 1e-6)}
    check(_aligned, *worlds[0], changed=worlds[1:], graphs=1, **chosen)


def _of_a_tensor(x, y, n):
    m = 3 - x.shape[0]
    return x * m, y[y > 0] * 2, torch.arange(8) * m, y + m


def _of_a_number(x, y, n):
    m = round(n * 0.7)
    return x[:-n, :m], x[x[:, 0] > 0][:m], torch.cat([x[i : i + 1] for i in (-n, -n)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [_of_a_tensor, _of_a_number])
def test_sizes_in_pieces_that_are_only_given_what_is_computed_of_them(program, backend):
    worlds = [(torch.randn(rows, 3), torch.randn(6), n) for rows, n in ((4, 3), (5, 2), (3, 3), (7, 5))]
    check(program, *worlds[0], changed=worlds[1:], backend=backend, tolerance=BACKENDS[backend], nodes=False)
