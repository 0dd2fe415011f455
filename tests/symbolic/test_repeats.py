"""Calls of modules that are equal to one before are not read again, and nobody can tell."""

import collections
import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import jit
from symbolic.repeats import TRIES, Repeats
from tests.differential import COUNTING
from tests.symbolic.test_equal_layers import CHANGES, KINDS, Layer, Looking, assert_same, called, changed, pair
from tests.with_and_without import compared

WIDTH = 8
DEPTH = 6


@pytest.fixture
def counts(monkeypatch):
    with compared(monkeypatch) as found:
        yield found


class Block(nn.Module):
    """With what a test gives it besides."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Tuples(Block):
    def forward(self, x):
        made = super().forward(x)
        return made, (x, None), 2


class Lists(Block):
    def forward(self, x):
        return [super().forward(x)]


class Dicts(Block):
    def forward(self, x):
        return {"made": super().forward(x)}


FUNCTIONS = type(lambda: None)
Pair = collections.namedtuple("Pair", "left right")


class Named(Block):
    def forward(self, x):
        return Pair(super().forward(x), x)


@dataclasses.dataclass
class Output:
    made: torch.Tensor


class Objects(Block):
    def forward(self, x):
        return Output(super().forward(x))


class Closures(Block):
    def forward(self, x):
        scale = self.norm.eps
        return lambda y: super(Closures, self).forward(x) + y * scale


class Views(Block):
    def forward(self, x):
        return super().forward(x).view(-1, WIDTH).t().t().view(x.shape)


class Splits(Block):
    def forward(self, x):
        left, right = super().forward(x).split(WIDTH // 2, -1)
        return left, right


class Same(Block):
    def forward(self, x):
        return x


class InPlace(Block):
    def forward(self, x):
        x += 1
        return super().forward(x)


class InPlaceInside(Block):
    def forward(self, x):
        return super().forward(x).mul_(2).relu_()


class OwnWritten(Block):
    """Writes what it made, and gives something else."""

    def forward(self, x):
        y, z = super().forward(x), torch.empty(2, *x.shape)
        y /= 2.0
        z[0] = y
        z[1] = y.t()[:1].sum()
        z[0, 1:] -= 1.0
        return z.sum(0)


class OwnGiven(OwnWritten):
    """Gives what it wrote."""

    def forward(self, x):
        y = super().forward(x)
        y[1:] = x[:-1]
        return y, y[0]


class OthersWritten(OwnWritten):
    """Writes what it is given."""

    def forward(self, x):
        y = super().forward(x)
        x[0] = y[1]
        return y + x


class Switching(Block):
    def forward(self, x):
        with torch.no_grad():
            scale = self.norm(x).sigmoid()
        return super().forward(x) * scale


class Batch(Block):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)


class Drop(Block):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5) + torch.rand(WIDTH)


class Written(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(WIDTH))

    def forward(self, x):
        self.seen.add_(x.detach().sum(0))
        return super().forward(x) + self.seen


class Replaced(Written):
    def forward(self, x):
        self.seen = self.seen + 1
        return Block.forward(self, x) + self.seen


class History(Block):
    def forward(self, x):
        return super().forward(x) * (2 if x.requires_grad and x.grad_fn is None else 1)


class Differentiating(Block):
    def forward(self, x):
        y = super().forward(x)
        return torch.autograd.grad(y.sum(), self.up.weight, create_graph=True)[0].sum() + y


class Generators(Block):
    def forward(self, x):
        return super().forward(x) if any(p.dim() == 2 for p in (self.up.bias, self.up.weight)) else x


class Born(Block):
    """Makes objects, and writes to them."""

    def forward(self, x, **options):
        options["made"] = super().forward(x)
        options.setdefault("parts", []).append(x)
        return options["made"] * len(options)


class Chain(nn.Module):
    """Calls its layers in turn, each with the first of what the one before gave."""

    def __init__(self, kind, depth=DEPTH):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(kind() for _ in range(depth))

    def forward(self, x):
        found = []
        for layer in self.layers:
            made = layer(x)
            made = made["made"] if isinstance(made, dict) else made.made if isinstance(made, Output) else made
            made = made(x) if callable(made) else made
            x = made[0] if isinstance(made, (tuple, list)) else made
            x = torch.cat([x, x], -1) if x.shape[-1] < WIDTH else x
            found.append(made)
        return found


#: kind -> how many calls of DEPTH equal ones are repeated. The first of all is handed a tensor of another history.
PROGRAMS = {
    Block: DEPTH - 3, Tuples: DEPTH - 3, Lists: 0, Dicts: 0, Named: DEPTH - 3, Objects: 0, Closures: 0,
    Views: DEPTH - 3, Splits: DEPTH - 3, Same: DEPTH - 2, InPlace: DEPTH - 3, InPlaceInside: DEPTH - 3, Switching: 0,
    Batch: DEPTH - 3, Drop: DEPTH - 3, Written: DEPTH - 3, Replaced: 0, History: 0, Differentiating: 0,
    Generators: DEPTH - 3, Born: DEPTH - 3,
}  # fmt: skip


def leaves(value):
    found = torch.utils._pytree.tree_leaves(value)
    return [item.made if isinstance(item, Output) else item for item in found if not isinstance(item, FUNCTIONS)]


def trained(model, call, x):
    """What the call gives and leaves behind."""
    torch.manual_seed(1)
    leaf = x.clone().requires_grad_()
    found = leaves(call(leaf * 1))
    sum(t.sum() for t in found if isinstance(t, torch.Tensor) and t.requires_grad).backward()
    left = [leaf.grad, *(p.grad for p in model.parameters()), *model.buffers(), torch.rand(2)]
    model.zero_grad()
    return found, [None if t is None else t.clone() for t in left]


def assert_equal(model, plain, *args, backend="aot_eager"):
    compiled = jit.compile(model, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(trained(model, compiled, *args), trained(plain, plain, *args), rtol=1e-5, atol=1e-5)


def repeated(counts, kind):
    return max(found[kind] for found in counts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_kinds(kind, backend, counts):
    model = Chain(kind)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH), backend=backend)
    assert not COUNTING or repeated(counts, kind) == PROGRAMS[kind]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("change", CHANGES)
def test_one_that_differs(change, counts):
    """From the beginning, and later."""
    for before in (True, False):
        model, plain = pair(Layer)
        compiled, x = jit.compile(model, backend="aot_eager"), torch.randn(3, WIDTH)
        if before:
            changed(change, model, plain)
        assert_same(called(model, compiled, x), called(plain, plain, x))
        changed(change, model, plain)
        assert_same(called(model, compiled, x), called(plain, plain, x))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_layers_that_do_more(kind, counts):
    model, plain = pair(kind)
    compiled, x = jit.compile(model, backend="aot_eager"), torch.randn(3, WIDTH)
    for _ in range(2):
        assert_same(called(model, compiled, x), called(plain, plain, x))
    assert not COUNTING or ((repeated(counts, kind) > 0) is (kind in (Layer, Looking)))


class Held(nn.Module):
    """Its blocks in `hold` of a list of them."""

    def __init__(self, hold, call):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = hold([Block() for _ in range(DEPTH)])
        self.call = call

    def forward(self, x):
        return self.call(self.blocks, x)


def in_turn(blocks, x):
    for block in blocks:
        x = block(x)
    return x


def by_index(blocks, x):
    for at in range(len(blocks)):
        x = blocks[at](x)
    return x


def by_name(blocks, x):
    for name in blocks:
        x = blocks[name](x)
    return x


def helped(block, x, scale=1.0):
    return block(x) * scale


def by_function(blocks, x):
    for block in blocks:
        x = helped(block, x, scale=0.5)
    return x


def kept_beside(blocks, x):
    found, states = {}, []
    for at, block in enumerate(blocks):
        states.append(x)
        found[at] = x = block(x)
    return found, tuple(states)


def twice_around(blocks, x):
    return in_turn(blocks, in_turn(blocks, x))


def of_names(blocks):
    return {str(at): block for at, block in enumerate(blocks)}


#: (what holds the blocks, how they are called, how many calls are repeated)
HELD = [
    (nn.ModuleList, in_turn, DEPTH - 3),
    (nn.ModuleList, by_index, DEPTH - 3),
    (lambda blocks: nn.ModuleDict(of_names(blocks)), by_name, DEPTH - 3),
    (lambda blocks: nn.Sequential(*blocks), lambda blocks, x: blocks(x), DEPTH - 3),
    (list, in_turn, DEPTH - 3),
    (tuple, by_index, DEPTH - 3),
    (of_names, by_name, DEPTH - 3),
    (nn.ModuleList, by_function, DEPTH - 3),
    (nn.ModuleList, kept_beside, DEPTH - 3),
    (nn.ModuleList, twice_around, DEPTH - 3),
]


@pytest.mark.parametrize(("hold", "call", "count"), HELD)
def test_held(hold, call, count, counts):
    model = Held(hold, call)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))
    assert not COUNTING or repeated(counts, Block) == count


class Numbered(Block):
    def __init__(self):
        super().__init__()
        self.at = 0

    def forward(self, x):
        return super().forward(x) * (2 if self.at == 4 else 1)


def test_numbers_that_are_read(counts):
    """A layer that goes by its number is another one."""
    model = Chain(Numbered)
    for at, layer in enumerate(model.layers):
        layer.at = at
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))
    assert not COUNTING or (not repeated(counts, Numbered) and repeated(counts, nn.Linear))


def test_those_that_are_never_alike(counts, monkeypatch):
    """They are soon read as others are."""
    model, recorded, end = Chain(Numbered, 3 * DEPTH), [], Repeats.end
    for at, layer in enumerate(model.layers):
        layer.at = at

    def counting(self, call, result):
        recorded.append(getattr(call, "module", None))
        return end(self, call, result)

    monkeypatch.setattr(Repeats, "end", counting)
    plain = copy.deepcopy(model)
    torch.testing.assert_close(jit.compile(model, backend="aot_eager")(torch.ones(3, WIDTH)), plain(torch.ones(3, WIDTH)))
    blocks = [each for each in recorded if each is not None and each.cls is Numbered]
    assert not COUNTING or len(blocks) == 2 + TRIES and repeated(counts, nn.Linear)  # the first is another kind


class Told(Block):
    """Goes by what the frame has written to one object that they all have."""

    notes: list

    def forward(self, x):
        return super().forward(x) + len(self.notes) + getattr(self.owner, "level", 0)


class Telling(Chain):
    def __init__(self, what):
        super().__init__(Told)
        self.what, self.__dict__["notes"] = what, []
        for layer in self.layers:
            layer.notes = self.notes
            layer.__dict__["owner"] = self

    def forward(self, x):
        for at, layer in enumerate(self.layers):
            if self.what == "list" and at >= 4:
                self.notes.append(at)
            if self.what == "attribute" and at >= 4:
                self.level = at
            x = layer(x)
        self.level = 0
        self.notes.clear()
        return x


@pytest.mark.parametrize("what", ["nothing", "list", "attribute"])
def test_what_is_written_between(what, counts):
    model = Telling(what)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))
    assert not COUNTING or repeated(counts, Told) == (3 if what == "nothing" else 1)


class Asking(Block):
    """Goes by whether what it is handed is what the model keeps."""

    def forward(self, x):
        return super().forward(x) * (3 if x is self.kept.get("first") else 1)


class Keeping(Chain):
    def __init__(self, kind):
        super().__init__(kind)
        self.__dict__["kept"] = {}
        for layer in self.layers:
            layer.__dict__["kept"] = self.kept

    def forward(self, x):
        first = self.kept["first"] = x * 2
        for at, layer in enumerate(self.layers):
            x = layer(first if at in (0, 4) else x)
        self.kept.clear()
        return x


def test_the_very_tensor_that_is_kept(counts):
    model = Keeping(Asking)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))


class Marked(Block):
    def forward(self, x):
        return super().forward(x) * getattr(x, "mark", 1)


class Marking(Chain):
    def forward(self, x):
        for at, layer in enumerate(self.layers):
            x = x * 1
            if at == 4:
                x.mark = 3
            x = layer(x)
        return x


def test_attributes_of_tensors(counts):
    model = Marking(Marked)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))


def last_looks_itself(model):
    model.layers[-1].__dict__["special"] = model.layers[-1]


class Special(Block):
    special = None

    def forward(self, x):
        return super().forward(x) * (2 if self.special is self else 1)


def test_which_knows_itself(counts):
    model = Chain(Special)
    for layer in model.layers:
        layer.__dict__["special"] = model.layers[4]
    plain = Chain(Special)
    for layer in plain.layers:
        layer.__dict__["special"] = plain.layers[4]
    assert_equal(model, plain, torch.randn(3, WIDTH))


def test_breaks_inside_of_one(counts):
    """Repeated calls count as many steps as those that are read, so that a break is found again."""

    class Breaking(Block):
        def forward(self, x):
            made = super().forward(x)
            return made * 2 if self.breaks and made.sum().item() > 1e9 else made

    model = Chain(Breaking)
    for at, layer in enumerate(model.layers):
        layer.breaks = at == 4
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))


def test_modes_between(counts):
    class Switched(Chain):
        def forward(self, x):
            for at, layer in enumerate(self.layers):
                with torch.set_grad_enabled(at != 4):
                    x = layer(x)
            return x

    model = Switched(Block)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))
    assert not COUNTING or repeated(counts, Block) == 1


def test_different_arguments(counts):
    class Scaled(Block):
        def forward(self, x, scale, parts=(), flag=False):
            return super().forward(x) * scale + (parts[0] if flag else 0)

    class Caller(Chain):
        def forward(self, x):
            for at, layer in enumerate(self.layers):
                x = layer(x, 2.0 if at == 4 else 1.0, parts=(x, at // 5), flag=True)
            return x

    model = Caller(Scaled)
    assert_equal(model, copy.deepcopy(model), torch.randn(3, WIDTH))
    assert not COUNTING or repeated(counts, Scaled) == 1


def test_sizes_that_vary(counts):
    model = Chain(Block)
    plain, compiled = copy.deepcopy(model), jit.compile(model, backend="aot_eager", dynamic=True)
    for rows in (3, 5, 7):
        x = torch.randn(rows, WIDTH)
        torch.testing.assert_close(compiled(x), plain(x))
    assert not COUNTING or (not repeated(counts, Block))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [
    Block, Tuples, Named, Views, Splits, Same, InPlace, InPlaceInside, OwnWritten, OwnGiven, OthersWritten, Batch, Drop,
    Written,
])  # fmt: skip
def test_without_gradients(kind, counts):
    """Then operations need not run again on stand-ins."""
    model = Chain(kind)
    plain, compiled, x = copy.deepcopy(model), jit.compile(model, backend="aot_eager"), torch.randn(3, WIDTH)
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(1)
            found = [*leaves(compiled(x.clone())), *model.buffers(), torch.rand(2)]
            torch.manual_seed(1)
            torch.testing.assert_close(found, [*leaves(plain(x.clone())), *plain.buffers(), torch.rand(2)])
    assert not COUNTING or repeated(counts, kind) >= DEPTH - 3


class Writing(Block):
    """Writes into one of two, which may lie in one memory."""

    is_first = True

    def forward(self, x, y):
        (x if self.is_first else y).mul_(self.up.bias[:WIDTH])
        return x + (y if self.is_first else x).requires_grad


@pytest.mark.parametrize("is_first", [True, False], ids=["the whole", "the part"])
@pytest.mark.parametrize("is_apart", [True, False], ids=["a part", "of another"])
def test_which_memory_is_written(is_first, is_apart, counts):
    layers = nn.ModuleList(Writing() for _ in range(DEPTH))
    for layer in layers:
        layer.is_first = is_first

    def run(x):
        for at, layer in enumerate(layers):
            x, other = x.detach() * 2, x.detach() * 3
            x = layer(x, (x if (at == 4) is is_apart else other)[:1])
        return x

    x = torch.ones(2, WIDTH)
    torch.testing.assert_close(jit.compile(run, backend="eager")(x), run(x), rtol=0, atol=0)
