"""What eager code refuses, and torch's stand-ins take, is refused compiled, too: it wrote beside memory, or gave nonsense."""
import warnings

import pytest
import torch
import torch.nn.functional as F

import jit
from symbolic import refusals
from symbolic.fakes import FakeMode
from tests.differential import check

I = torch.tensor([0])
I2, I3 = torch.tensor([0, 1]), torch.tensor([0, 1, 2])
#: Programs of x, 4 by 3, and y, that fit together for y of 1 by 3.
FITTING = {
    "rows added": lambda x, y: x.index_add(0, I, y),
    "rows added in place": lambda x, y: x.clone().index_add_(0, I, y),
    "rows copied": lambda x, y: x.index_copy(0, I, y),
    "rows reduced": lambda x, y: x.index_reduce(0, I, y, "mean"),
    "put": lambda x, y: x.index_put((I,), y),
    "put in place": lambda x, y: x.clone().index_put_((I,), y),
    "put, added": lambda x, y: x.index_put((I,), y, accumulate=True),
    "a row": lambda x, y: x.select_scatter(y[0], 0, 2),
    "a slice": lambda x, y: x.slice_scatter(y, 0, 1, 2),
    "a diagonal": lambda x, y: x.diagonal_scatter(y[0]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", FITTING.values(), ids=FITTING)
def test_what_does_not_fit(program):
    def careful(x, y):
        try:
            return program(x, y)
        except (RuntimeError, IndexError) as error:
            return str(error), x * 2

    x = torch.rand(4, 3)
    others = [(x, torch.rand(size)) for size in ((1, 5), (3, 5), (2, 3))]
    check(careful, x, torch.rand(1, 3), changed=others, backend="default", nodes=False)
    check(careful, x, torch.rand(1, 3), changed=others, backend="default", nodes=False, dynamic=True)
    for given in others:
        check(careful, *given, backend="default", nodes=False)


def test_numbers_of_positions_that_do_not_fit():
    def put(x):
        y = x.clone()
        try:
            y[I2, I3] = 1.0
        except IndexError as error:
            return str(error)

    check(put, torch.rand(4, 3), backend="default")


MASKS = [
    lambda x, y: x[y > 0], lambda x, y: x.index_put((y > 0,), x[0, 0]), lambda x, y: x[:, y[:, 0] > 0],
    lambda x, y: x.clone().__setitem__(y > 0, 2.0), lambda x, y: x.clone().__setitem__((None, y > 0), 2.0),
    lambda x, y: x.clone().__setitem__((slice(None), y[0] > 0), 2.0), lambda x, y: x[0].__setitem__(y > 0, 2.0),
    lambda x, y: x.clone().__setitem__((y > 0).to(torch.uint8), 2.0), lambda x, y: x.__setitem__((y[0] > 0, 0), x[0, 0]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.sampled(4)
@pytest.mark.parametrize("program", MASKS, ids=map(str, range(len(MASKS))))
def test_masks_of_other_sizes(program):
    def careful(x, y):
        x.add_(1)
        try:
            return program(x, y)
        except IndexError:
            return "caught", x * 2

    others = [(torch.rand(4, 3), torch.rand(size)) for size in ((4, 2), (3, 3), (1, 3), (5, 5))]
    check(careful, torch.rand(4, 3), torch.rand(4, 3), changed=others, nodes=False)
    check(careful, torch.rand(4, 3), torch.rand(4, 3), changed=others, nodes=False, dynamic=True)
    for given in others:
        check(careful, *given, nodes=False)


@pytest.mark.parametrize("program", [
    lambda x: F.binary_cross_entropy(x, x.abs().clamp(max=1)),
    lambda x: F.binary_cross_entropy(x.sigmoid(), x),
    lambda x: F.binary_cross_entropy(x, x, reduction="none"),
    lambda x: F.one_hot(x.round().long(), 4),
], ids=["input", "target", "each", "one_hot"])  # fmt: skip
@pytest.mark.parametrize("backend", ["aot_eager", "default"])
def test_values(program, backend):
    """Eager code looks at each of them."""
    compiled = jit.compile(program, backend=backend)
    for x in (torch.rand(5, 3), torch.rand(5, 3) + 4, torch.rand(5, 3) - 4, torch.ones(5, 3), torch.zeros(5, 3)):
        try:
            wanted = program(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), wanted)


def test_a_number_that_is_no_number_is_no_probability():
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        jit.compile(F.binary_cross_entropy)(torch.tensor([0.5, float("nan")]), torch.ones(2))


def test_negative_beta():
    check(lambda x: F.smooth_l1_loss(x, x * 2, beta=-1.0), torch.rand(3), backend="default")


@pytest.mark.parametrize("at", [7, -8])
def test_a_place_beside_a_size_that_does_not_vary(at):
    """Torch up to 2.12 does not look, where another size of the tensor varies."""
    def program(x):
        return x.select(2, at) * 2

    x = torch.rand(5, 6, 7)
    compiled = jit.compile(program, backend="default", dynamic={"x": {0: "some", 1: "others"}})
    for run in (program, compiled):
        with pytest.raises(IndexError, match="out of range for tensor of size"):
            run(x)


#: Programs of x, floats of 3 by 3, and whole numbers of the same size.
KINDS = {
    "product": lambda x, n: n @ x,
    "product and sum": lambda x, n: torch.addmm(n, x, x),
    "linear": lambda x, n: F.linear(n, x, x[0]),
    "norm": lambda x, n: F.layer_norm(x, (3,), n[0], n[0]),
    "groups": lambda x, n: F.group_norm(x[None], 3, n[0], n[0]),
    "silu": lambda x, n: F.silu(n),
    "softmax": lambda x, n: n.softmax(0),
    "complex": lambda x, n: torch.maximum(x.cfloat(), x.cfloat()),
    "bool": lambda x, n: (n > 1).abs(),
    "rows": lambda x, n: x.index_add(0, n[0, :1], n[:1]),
    "in place": lambda x, n: torch.empty(3, dtype=torch.int64).uniform_(),
    "bits": lambda x, n: ~x,
}
SAID = []


@pytest.mark.parametrize("program", KINDS.values(), ids=KINDS)
def test_kinds_of_elements(program):
    """What the function had done before was lost where the graph was the first to find out."""
    def noting(x, n, seen):
        x.mul_(2)
        SAID.append(1)
        seen.append(torch.rand(2))
        return program(x, n)

    check(noting, torch.rand(3, 3), torch.zeros(3, 3, dtype=torch.int64), [])
    check(noting, torch.rand(70, 70)[:3, :3], torch.zeros(3, 3, dtype=torch.int64), [], backend="default", nodes=False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_kinds_of_elements_of_large_tensors(dynamic):
    def noting(x, half, seen):
        x.mul_(2)
        seen.append(1)
        return F.silu(F.linear(x, half).long())

    for given in (torch.rand(90, 70), torch.rand(90, 70).half()):
        check(noting, torch.rand(80, 70), given, [], dynamic=dynamic)


def test_who_is_asked_draws_no_numbers_and_warns_of_nothing():
    def program(x):
        torch.manual_seed(3)
        return x.new_zeros(7, dtype=torch.float16).bernoulli_(0.25).sum() + torch.rand(2), x.var()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        jit.compile(program, backend="eager")(torch.ones(1))
        assert len(said) <= 1  # the program's own
    check(program, torch.ones(1))


@pytest.mark.parametrize("sizes, is_asked", [((2, 2), True), ((1 << 13, 1 << 12), False)])
def test_nothing_large_is_made_to_ask(sizes, is_asked):
    given = FakeMode().from_tensor(torch.ones(1, dtype=torch.int16))
    refusals._taken.clear()
    refusals.refuse_kinds(torch.ops.aten.new_zeros.default, (given, list(sizes)), {})
    assert bool(refusals._taken) == is_asked


#: Of x, floats, and i, integers.
NOTHING_TO_DRAW = """x.uniform_(2, 1) | x.bernoulli_(2) | x.normal_(0, -1) | x.exponential_(-1) | x.geometric_(2) | x.cauchy_(0, -1) |
    x.log_normal_(0, -1) | x.random_(5, 1) | x.random_(0) | i.to(torch.uint8).random_(0, 300) | torch.rand(2, dtype=torch.int64) |
    torch.randint(0, 300, (2,), dtype=torch.uint8) | torch.randint_like(x, 5, 5) | torch.randperm(3, dtype=torch.bool) |
    torch.randperm(300, dtype=torch.uint8) | torch.nn.init.uniform_(x, 2, 1) | torch.normal(0., -1., (2,)) | torch.rand_like(i)"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("drawn", [each.strip() for each in NOTHING_TO_DRAW.split("|")])
def test_what_nothing_can_be_drawn_from(drawn):
    """The graph would find out when it has drawn other numbers: no handler of the frame would see it."""
    scope = {"torch": torch}
    exec(f"""def program(x, i):
        y = torch.rand(2)
        try:
            return {drawn}
        except (RuntimeError, NotImplementedError) as error:
            return str(error), y, torch.rand(2), x * 2""", scope)
    check(scope["program"], torch.rand(4), I3)


@pytest.mark.parametrize("call", ["torch.get_rng_state(1)", "torch.numel(None)", "torch.manual_seed()", "torch.is_grad_enabled(1)",
                                  "torch.nn.Parameter(x, 'a')", "torch.nn.Parameter(x, True, 3)", "setattr(x, 'is_leaf', 3)", "setattr(x, 'T', 3)",
                                  "setattr(x, 'dtype', 3)", "torch.nn.ConvTranspose1d(3, 2, 1, output_padding=9)(torch.ones(2, 3, 1))"])
def test_arguments_that_do_not_fit(call):
    scope = {"torch": torch}
    exec(f"def program(x):\n    try:\n        return {call}\n    except Exception as error:\n        return repr(error), x * 2", scope)
    check(scope["program"], torch.rand(4))
