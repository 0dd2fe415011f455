"""Stand-ins lie in memory as what eager code makes."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_map_only

import jit
from symbolic.fakes import FakeMode
from tests.differential import Counting

aten = torch.ops.aten
OF_ONE = [
    torch.relu, torch.exp, torch.sqrt, torch.isnan, torch.logical_not, torch.empty_like, torch.zeros_like, torch.clone,
    *(lambda x: x + 1, lambda x: x * 0.5, lambda x: 2 - x, lambda x: x / 3, lambda x: x > 0, lambda x: x**2),
    *(lambda x: x.clamp(0, 1), lambda x: x.to(torch.float64), lambda x: torch.where(x > 0, x, 1.0)),
    lambda x: torch.full_like(x, 2, memory_format=torch.contiguous_format),
    *(lambda x: 2**x, torch.nan_to_num, torch.deg2rad, lambda x: x.flip(0), lambda x: x.flip(-1) * 1),
    *(lambda x: x.tril() if x.dim() > 1 else x + 1, lambda x: x.index_fill(-1, torch.tensor([], dtype=torch.long), 1)),
    *(lambda x: x.roll(1, 0), lambda x: x.roll((1, -1), (0, -1))),
]  # fmt: skip
OF_TWO = [
    torch.add, torch.mul, torch.div, torch.atan2, torch.maximum, torch.eq, torch.logical_and, torch.logical_xor,
    *(torch.xlogy, torch.copysign, torch.logaddexp, torch.logaddexp2, torch.hypot, torch.remainder, torch.fmod),
    *(lambda x, y: torch.lerp(x.double(), y.double(), 0.5), lambda x, y: torch.clamp(x, y), torch.special.zeta),
]  # fmt: skip
OF_THREE = [torch.addcmul, lambda x, y, z: torch.where(x > 0, y, z), lambda x, y, z: torch.lerp(x, y, z)]
#: Of what is looked up in dims `i`.
LOOKUPS = [
    *(lambda x, i, j: x[i], lambda x, i, j: x[:, i], lambda x, i, j: x[i, :, j], lambda x, i, j: x[:, i, j]),
    *(lambda x, i, j: x.transpose(0, 2)[i], lambda x, i, j: x.permute(1, 2, 0)[..., j], lambda x, i, j: x[None, i]),
]


def drawn(rng, shape, dtype):
    """A tensor of that shape: by rows or turned, stepped or expanded, with any strides where there is nothing to step over."""
    dims = rng.sample(range(len(shape)), len(shape))
    made = torch.ones([shape[dim] for dim in dims]).to(dtype).permute([dims.index(dim) for dim in range(len(shape))])
    geometry, dim = rng.choice(["rows", "turned", "stepped", "expanded"]), rng.randrange(len(shape))
    if geometry == "rows":
        return made.contiguous()
    if geometry == "stepped" and shape[dim]:
        made = torch.cat([made, made], dim)[(*[slice(None)] * dim, slice(None, None, 2))]
    if geometry == "expanded" and shape[dim]:
        made = made.narrow(dim, 0, 1).expand(shape)
    strides = [rng.choice([step, 0, 7]) if size == 1 else step for size, step in zip(shape, made.stride(), strict=True)]
    return made.as_strided(shape, strides)


def draws(count, seed, lengths=(0, 1, 2, 3, 4, 4)):
    """Tensors that go together."""
    rng = random.Random(seed)
    shape = [rng.choice(lengths) for _ in range(rng.choice([1, 2, 3, 3, 4]))]
    for at in range(count):
        own = [1 if rng.random() < 0.2 else size for size in shape][rng.choice([0, 0, rng.randrange(len(shape))]) :]
        dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.int64])
        yield drawn(rng, shape if at == 0 else own, dtype)


def looks(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype


def stand_in(operation, given, shape_env=None, static=True):
    mode = FakeMode(shape_env=shape_env)
    with mode:
        return operation(*tree_map_only(torch.Tensor, lambda t: mode.from_tensor(t, static_shapes=static), given))


@pytest.mark.sampled(36)
@pytest.mark.parametrize(("operation", "count"), [
    *((each, 1) for each in OF_ONE), *((each, 2) for each in OF_TWO), *((each, 3) for each in OF_THREE),
])  # fmt: skip
def test_operations_on_elements(operation, count):
    compared = 0
    for seed in range(60):
        given = list(draws(count, seed))
        try:
            real = operation(*given)
        except (RuntimeError, IndexError):
            continue
        compared += 1
        for shape_env in (None, ShapeEnv()):
            fake = stand_in(operation, given, shape_env)
            assert looks(fake) == looks(real), [looks(each) for each in given]
    assert compared > 5


def test_gradients_of_dropout():
    rng = random.Random(0)
    for _ in range(60):
        shape = [rng.choice([1, 2, 3, 4]) for _ in range(rng.choice([1, 2, 3, 4]))]
        given = [drawn(rng, shape, rng.choice([torch.float32, torch.float64])), drawn(rng, shape, torch.bool), 2.0]
        fake = stand_in(aten.native_dropout_backward, given)
        assert looks(fake) == looks(aten.native_dropout_backward(*given)), [looks(each) for each in given[:2]]


def test_unpooled_images():
    rng = random.Random(0)
    for _ in range(60):
        sizes = [rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3]), rng.choice([2, 2, 4]), rng.choice([2, 4])]
        layout = rng.choice([torch.channels_last, torch.contiguous_format])
        x, at = torch.nn.functional.max_pool2d(torch.randn(sizes).to(memory_format=layout), 2, return_indices=True)
        fake = stand_in(aten.max_unpool2d, [x, at, sizes[2:]])
        assert looks(fake) == looks(aten.max_unpool2d(x, at, sizes[2:])), looks(x)


def test_what_is_made_of_unpooled_images():
    x, at = torch.nn.functional.max_pool2d(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), 2, return_indices=True)

    def program(x, at):
        return torch.nn.functional.max_unpool2d(x, at, 2).relu() * 2

    found, expected = jit.compile(program, backend="default")(x, at), program(x, at)
    assert looks(found) == looks(expected) and torch.equal(found, expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("operation", LOOKUPS)
def test_lookups(operation):
    rng = random.Random(0)
    for _ in range(40):
        source = drawn(rng, [rng.choice([1, 2, 3, 4]) for _ in range(3)], torch.float32)
        shape = [rng.choice([0, 1, 2, 3, 4]) for _ in range(rng.choice([1, 2, 2, 3]))]
        indices = [drawn(rng, sizes, torch.int64) * 0 for sizes in (shape, [*shape[:-1], 1])]
        real = operation(source, *indices)
        for shape_env in (None, ShapeEnv()):
            fake = stand_in(operation, [source, *indices], shape_env)
            assert looks(fake) == looks(real), [looks(each) for each in (source, *indices)]


@pytest.mark.parametrize("operation", [torch.logaddexp, torch.xlogy, torch.mul])
@pytest.mark.parametrize("turned", [(0, 1), (1, 0), (1, 1)])
def test_of_sizes_that_vary(operation, turned):
    given = [torch.ones(5, 3, 4) for _ in range(2)]
    given = [each.permute(2, 1, 0).contiguous().permute(2, 1, 0) if turn else each for each, turn in zip(given, turned, strict=True)]
    real = operation(*given)
    fake = stand_in(operation, given, ShapeEnv(), static=False)
    assert tuple(int(step) for step in fake.stride()) == real.stride()


@pytest.mark.parametrize("dynamic", [False, True])
def test_lookups_with_turned_indices(dynamic):
    for more in (0, 2) if dynamic else (0,):
        x, i = torch.arange(60.0 + 15 * more).view(3, 4 + more, 5), torch.zeros(4 + more, 6, dtype=torch.int64).t() + 1

        @jit.compile(backend="default", dynamic=dynamic)
        def program(x, i):
            return x.transpose(0, 2)[i], x[:, i], x[i, :, i]

        for found, expected in zip(program(x, i), (x.transpose(0, 2)[i], x[:, i], x[i, :, i]), strict=True):
            assert looks(found) == looks(expected) and torch.equal(found, expected)


@pytest.mark.parametrize("shape", [((4, 1), (1, 4)), ((1, 4, 1), (7, 1, 9)), ((0, 5), (1, 0)), ((5, 3, 0), (1, 0, 5))], ids=str)
def test_results_of_compiled_functions(shape):
    x = torch.zeros(64).as_strided(*shape)

    @jit.compile(backend="default")
    def program(x):
        return x + 1, x.relu(), x > 0, torch.empty_like(x).fill_(2), x * x.double()

    for found, expected in zip(program(x), (x + 1, x.relu(), x > 0, torch.empty_like(x).fill_(2), x * x.double()), strict=True):
        assert looks(found) == looks(expected) and torch.equal(found, expected)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_padded_by_nothing_lies_as_it_did(sign, dynamic):
    compiled = jit.compile(lambda x, n: F.pad(x, (sign * (n % 3), 0)) * 2, backend="default", dynamic=dynamic)
    for n in (4, 3, 5, 6):
        x = torch.rand(n + 2, n).t()
        made, expected = compiled(x, n), F.pad(x, (sign * (n % 3), 0)) * 2
        assert torch.equal(made, expected) and made.stride() == expected.stride()


def test_rows_that_are_padded_are_compiled_once():
    counter = Counting()
    compiled = jit.compile(lambda x, n: F.pad(x, (0, n - x.shape[1])), backend=counter, dynamic=True)
    for length in (5, 8, 3, 7):
        x = torch.rand(2 + length, length)
        assert torch.equal(compiled(x, 8), F.pad(x, (0, 8 - length)))
    counter.expect(1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [
    torch.nn.MaxPool1d(2), lambda x: torch.max_pool1d(x[0], 2, 1), lambda x: torch.nn.functional.max_pool1d(x, 2, return_indices=True)[0],
    torch.vmap(lambda x: torch.max_pool1d(x, 2)),
])  # fmt: skip
def test_the_greatest_of_each_window_of_turned_rows(program, backend):
    """Without a gradient eager code finds them in another way."""
    f = jit.compile(program, backend=backend)
    for wants in (False, True):
        x = torch.randn(2, 8, 3).transpose(1, 2).requires_grad_(wants)
        found, expected = f(x), program(x)
        assert looks(found) == looks(expected) and torch.equal(found, expected)
