"""Stand-ins say of views what eager tensors say."""
import pytest
import torch
from sympy import Eq
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from symbolic.fakes import FakeMode
from symbolic.matching import look
from symbolic.shapes import Shapes

VIEWS = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "flat": lambda x: x.view(-1),
    "in two": lambda x: x.view(2, -1),
    "as it is": lambda x: x.view_as(x),
    "other dtype": lambda x: x.view(torch.int32),
    "unsafe": lambda x: torch.ops.aten._unsafe_view(x, [-1]),
    "squeeze": lambda x: x.squeeze(1),
    "squeeze several": lambda x: x.squeeze([0, 1]),
    "unsqueeze": lambda x: x.unsqueeze(0).unsqueeze(-1),
    "transpose": lambda x: x.transpose(0, -1),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute([*reversed(range(x.dim()))]),
    "expand": lambda x: x.expand(3, *x.shape),
    "alias": torch.ops.aten.alias,
    "slice": lambda x: x[1:],
    "past the end": lambda x: x[9:],
    "steps": lambda x: x[..., ::2],
    "select": lambda x: x[-1],
    "one number": lambda x: x[..., 0],
    "part": lambda x: x.split(3)[1],
    "part of a size": lambda x: x.split([1, 3])[1],
    "part of a half": lambda x: x.chunk(2, -1)[-1],
    "row": lambda x: x.unbind()[-1],
    "view of a view": lambda x: x[1].t().unsqueeze(1),
}
TENSORS = {
    "matrix": lambda: torch.randn(4, 6),
    "transposed": lambda: torch.randn(4, 6).t(),
    "leaf": lambda: torch.randn(4, 6, requires_grad=True),
    "result": lambda: torch.randn(4, 6, requires_grad=True) * 2,
    "number": lambda: torch.randn(()),
    "nothing": lambda: torch.randn(2, 0, 4)[:, :, 1:],
    "sizes of 1": lambda: torch.randn(4, 1, 6)[:, :, ::2],
    "expanded": lambda: torch.ones(4, 6).expand(2, 4, 6),
    "conjugate": lambda: torch.randn(4, 6, dtype=torch.complex64).conj(),
    "parameter": lambda: torch.nn.Parameter(torch.randn(4, 4)),
}


def looks(view, of):
    return (
        view.shape, view.stride(), view.storage_offset(), view.dtype, view.device, view.requires_grad, view.is_leaf,
        view._is_view(), view.is_conj(), view.is_inference(), view is of, view._is_view() and view._base is of,
        view.untyped_storage()._cdata == of.untyped_storage()._cdata,
        None if view.is_inference() else view._version,
    )


def said(view, x):
    try:
        return looks(view(x), x)
    except (RuntimeError, IndexError) as error:
        return type(error), str(error)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("view", VIEWS)
def test_views(view, tensor, inference):
    with torch.inference_mode(inference):
        x = TENSORS[tensor]()
        mode = FakeMode(allow_non_fake_inputs=True)
        fake = mode.from_tensor(x, static_shapes=True)
        with mode:
            found = said(VIEWS[view], fake)
        assert found == said(VIEWS[view], x)


def test_they_count_writes_together():
    mode = FakeMode()
    with mode:
        x = torch.zeros(3, 4)
        view, apart = x.view(-1).unsqueeze(0), x.data
        view.add_(1)
    assert (x._version, view._version, apart._version) == (1, 1, 0)


def test_the_device_inside_of_operations():
    mode = FakeMode()
    with mode:
        x = torch.zeros(3)
        assert x.device == x.view(3, 1).device == torch.device("cpu")
        mode.in_kernel_invocation = True
        assert x.device == torch.device("meta")
        mode.in_kernel_invocation = False


def test_what_is_known_of_elements_is_kept():
    mode = FakeMode()
    with mode:
        number = torch.tensor(3)
        assert number.detach().item() == 3
        assert number.view(1).item() == 3


def computed(x):
    """Operations that give new tensors, or an argument, or what depends on more than the looks of these."""
    generator = torch.Generator()
    return {
        "a number": x + 1,
        "a float": x + 1.5,
        "another": x * x.t().mT,
        "reduced": x.sum(0),
        "in another dtype": x.double(),
        "in the same": x.float(),
        "several": torch.nn.functional.layer_norm(x, x.shape[-1:]),
        "a list": torch.cat([x, x]),
        "of a list": torch.stack([x[0], x[1]]),
        "the input itself": torch.ops.aten.native_dropout(x, 0.5, False)[0],
        "contiguous": x.contiguous(),
        "of no tensor": torch.full((2, 3), 1, device=x.device),
        "of no tensor, true": torch.full((2, 3), True),
        "of no tensor, float": torch.full((2, 3), 1.0),
        "like it": torch.empty_like(x),
        "strided": torch.empty_permuted((2, 3), (1, 0)),
        "drawn": torch.randn(3, generator=generator),
        "written": x.clone().mul_(2),
        "of a number": torch.tensor(3) + 1,
        "compared": x > 0,
        "arg": x.argmax(0),
        "looked up": x[torch.tensor([0, 1])],
        "product": x @ x.mT,
    }


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("tensor", [name for name, make in TENSORS.items() if make().dim() == 2 and not make().is_complex()])
def test_what_is_computed_again_looks_alike(tensor, inference):
    """Thrice, by two modes: the first time nothing is known of the results, then they are made by their looks."""
    with torch.inference_mode(inference):
        x = TENSORS[tensor]()
        theirs = FakeTensorMode(allow_non_fake_inputs=True)
        theirs.cache_enabled = False
        fake = theirs.from_tensor(x, static_shapes=True)
        with theirs:
            wanted = {name: looks(value, fake) for name, value in computed(fake).items()}
        modes = [FakeMode(allow_non_fake_inputs=True) for _ in range(2)]
        for mode in (modes[0], *modes):
            fake = mode.from_tensor(x, static_shapes=True)
            with mode:
                found = computed(fake)
                assert {name: looks(value, fake) for name, value in found.items()} == wanted
            assert all(value.fake_mode is mode for value in found.values())


def test_results_are_tensors_of_their_own():
    mode = FakeMode()
    with mode:
        x = torch.zeros(3)
        first, second = x + 1, x + 1
        first.resize_(7)
        assert (first.shape, second.shape, (x + 1).shape) == ((7,), (3,), (3,))
        assert first.untyped_storage()._cdata != second.untyped_storage()._cdata


def test_settings_count():
    mode = FakeMode()
    with mode:
        found = [torch.ones(2).dtype, torch.full((2,), 1.0).dtype]
        torch.set_default_dtype(torch.float64)
        try:
            found += [torch.ones(2).dtype, torch.full((2,), 1.0).dtype]
        finally:
            torch.set_default_dtype(torch.float32)
        with torch.device("meta"):
            found += [torch.ones(2).device]
        found += [torch.ones(2).device]
    assert found == [torch.float32] * 2 + [torch.float64] * 2 + [torch.device("meta"), torch.device("cpu")]


def test_what_depends_on_values_is_refused_each_time():
    mode = FakeMode()
    with mode:
        x = torch.zeros(3)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                x.nonzero()
            with pytest.raises(RuntimeError):
                torch.mm(x, x)


def with_gradient():
    x = torch.randn(3, requires_grad=True)
    x.grad = torch.ones(3)
    return [x]


def shared():
    x = torch.randn(4, 3)
    return [x, x.detach(), x, x[1:], x.t(), torch.nn.Parameter(x), x.view(-1)]


def emptied():
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    return [x]


ARGUMENTS = {
    **{name: lambda make=make: [make()] for name, make in TENSORS.items()},
    "with a gradient": with_gradient,
    "who share memory": shared,
    "the view first": lambda: shared()[::-1],
    "a part of its memory": lambda: [torch.randn(8)[:3].detach(), torch.randn(8)[2:].detach()],
    "in inference mode": lambda: [torch.inference_mode()(torch.ones)(3)],
    "a buffer": lambda: [torch.nn.Buffer(torch.ones(3))],
    "no elements": lambda: [torch.ones(0, 3), torch.nn.Parameter(torch.ones(0))],
    "a negative": lambda: [torch.randn(3, dtype=torch.complex64).conj().imag],
    "without memory": emptied,
}


def all_of(fakes):
    own = [(looks(f, f), type(f), getattr(f, "_is_param", False), f.grad is None, f.untyped_storage().nbytes()) for f in fakes]
    memory = [[a.untyped_storage()._cdata == b.untyped_storage()._cdata for b in fakes] for a in fakes]
    return own, memory, [[a is b for b in fakes] for a in fakes]


@pytest.mark.parametrize("settings", [{}, {"static_shapes": True}], ids=str)
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_stands_for_tensors(name, inference, settings):
    """Torch's own mode makes the same of them, when they come again, too."""
    with torch.inference_mode(inference):
        tensors = ARGUMENTS[name]()
        modes = FakeTensorMode(allow_non_fake_inputs=True), FakeMode(allow_non_fake_inputs=True)
        theirs, ours = ([mode.from_tensor(x, **settings) for x in (*tensors, *tensors)] for mode in modes)
        assert all_of(ours) == all_of(theirs)
        assert all(fake.fake_mode is modes[1] for fake in ours)


@pytest.mark.parametrize("operation", [torch.cat, torch.stack, lambda pair: pair[0] + pair[1]])
def test_elements_that_are_known_of_some(operation):
    """A result's are known if those of all that it is made of are; its looks go by looks alone."""
    mode = FakeMode()
    fake = mode.from_tensor(torch.randn(1, 3), static_shapes=True)
    with mode:
        for _ in range(2):
            given = torch.tensor([]) if operation is torch.cat else torch.zeros(1, 3)
            mixed, known = operation([given, fake]), operation([torch.tensor([2.0]), torch.tensor([3.0])])
            expected = operation([torch.zeros(given.shape), torch.zeros(1, 3)])
            assert looks(mixed, fake)[:6] == looks(expected, fake)[:6] and mixed.constant is None
            assert known.numel() > 1 or known.item() == 5


@pytest.mark.parametrize("operation", [
    torch.xlogy, torch.copysign, torch.special.xlog1py, torch.ops.aten.logit_backward.default, torch.atan2, torch.mul,
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True)], ids=str)
def test_operations_on_two_lie_as_the_first(operation, dtype, turned):
    if operation is torch.ops.aten.logit_backward.default and not dtype.is_floating_point:
        pytest.skip("it is of floats alone")
    given = [torch.ones(3, 4, 4).to(dtype) for _ in range(2)]
    given = [each.transpose(1, 2) if turn else each for each, turn in zip(given, turned, strict=True)]
    real = operation(*given)
    for shape_env in (None, ShapeEnv()):
        mode = FakeMode(shape_env=shape_env)
        with mode:
            fake = operation(*(mode.from_tensor(each, static_shapes=True) for each in given))
        assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


def test_what_an_operation_gave_for_such_sizes_is_known(monkeypatch):
    """In one environment: the second of equal layers asks torch nothing."""
    shapes = Shapes(lambda: ("", 0))
    mode, ran = FakeMode(shape_env=shapes.env, allow_non_fake_inputs=True), []
    dispatch = FakeTensorMode.dispatch
    monkeypatch.setattr(FakeTensorMode, "dispatch", lambda self, func, *rest: (ran.append(func), dispatch(self, func, *rest))[1])
    x = shapes.fake(mode, torch.randn(5, 6), [0])
    w = mode.from_tensor(torch.randn(6, 6), static_shapes=True)
    made, counts = [], []
    with mode:
        for _ in range(3):
            layer = (x @ w + x.shape[0]).relu()
            made += [layer, (layer.t() * 2).contiguous().view(-1, 2, 3)]
            counts.append(len(ran))
    assert counts[0] == counts[1] == counts[2] > 0, ran
    for one, other in zip(made[:2], made[2:4], strict=True):
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
    assert len({each.untyped_storage()._cdata for each in made}) == 6
    assert made[1].shape == (x.shape[0], 2, 3)
    assert not [guard for guard in shapes.env.guards if guard.expr.func is Eq]


TURNED = {
    "permute": lambda x: x.permute(2, 0, -2), "transpose": lambda x: x.transpose(0, -1), "t": lambda x: x[0].t(),
    "t of a row": lambda x: x[0, 0].t(), "detach": lambda x: x.detach(), "alias": torch.ops.aten.alias.default,
    "all at once": lambda x: x.transpose(1, 2).permute(1, 2, 0).detach().transpose(-3, 1),
    "slice": lambda x: x[..., 2:5], "half": lambda x: x[..., 7 // 2 :], "steps": lambda x: x[..., 1::3],
    "from behind": lambda x: x[..., -9:-2], "nothing": lambda x: x[..., 5:3], "past the end": lambda x: x[..., 9:],
    "all": lambda x: x[:, :, :], "all of one that varies": lambda x: torch.ops.aten.slice(x, 1, None, None), "slice of a slice": lambda x: x[..., 1:6].transpose(0, 2)[1:4:2],
    "select": lambda x: x[..., 3], "last": lambda x: x.transpose(0, -1)[-1], "of a slice": lambda x: x[..., 2:][..., 1],
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1), "not squeezed": lambda x: x.squeeze(2), "both": lambda x: x.unsqueeze(-1).squeeze((2, 3)),
    "split": lambda x: x.split(3, -1)[-1], "second": lambda x: x.split(3, 2)[1], "split by sizes": lambda x: x.split([2, 0, 5], 2)[2],
    "empty part": lambda x: x.split([2, 0, 5], 2)[1], "chunk": lambda x: x.chunk(2, -1)[1], "unbind": lambda x: x.unbind(-1)[5],
    "narrow": lambda x: x.narrow(2, 3, 2),
}  # fmt: skip
NOT_TURNED = [
    lambda x: x.permute(0, 1), lambda x: x.permute(0, 0, 1), lambda x: x.transpose(0, 3), lambda x: x.t(),
    lambda x: x.select(2, 7), lambda x: x.select(3, 0), lambda x: x.squeeze(4), lambda x: x.split([1, 2], 2),
    lambda x: x.split(-1, 2), lambda x: x[..., ::-1],
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("needs", [False, True], ids=["plain", "with a gradient"])
@pytest.mark.parametrize("turn", TURNED.values(), ids=TURNED)
def test_what_is_turned_asks_nothing_of_sizes(turn, needs):
    shapes, real = Shapes(lambda: ("", 0)), torch.randn(5, 6, 7)
    mode = FakeMode(shape_env=shapes.env, allow_non_fake_inputs=True)
    x = shapes.fake(mode, real, [0, 1]).requires_grad_(needs)
    made, wanted = turn(x), turn(real)
    assert not shapes.env.guards
    assert (made.dim(), made.is_contiguous()) == (wanted.dim(), wanted.is_contiguous())
    numbers = [*made.shape, *made.stride(), made.storage_offset()]
    assert [int(size) for size in numbers] == [*wanted.shape, *wanted.stride(), wanted.storage_offset()]
    assert made.untyped_storage()._cdata == x.untyped_storage()._cdata


@pytest.mark.parametrize("turn", NOT_TURNED)
def test_what_cannot_be_turned_is_left_to_torch(turn):
    """Which raises other errors than of real tensors, but raises."""
    shapes, real = Shapes(lambda: ("", 0)), torch.randn(5, 6, 7)
    for x in (real, shapes.fake(FakeMode(shape_env=shapes.env), real, [0, 1])):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            turn(x)


def test_sizes_of_another_environment_are_others():
    """Symbols are called the same in all of them."""
    for environment in (ShapeEnv, lambda: Shapes(lambda: ("", 0)).env):
        for length in (5, 7):
            mode = FakeMode(shape_env=environment(), allow_non_fake_inputs=True)
            x = mode.from_tensor(torch.randn(length, 6), symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC] * 2))
            with mode:
                assert (x + 1).shape[0].node.hint == length


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_is_detached_quickly_is_detached(name, requires_grad):
    mode = FakeMode(allow_non_fake_inputs=True)
    made = TENSORS[name]()
    fake = mode.from_tensor(made.requires_grad_() if requires_grad else made, static_shapes=True)
    mode.from_tensor(torch.ones(2), static_shapes=True)  # the first one of a device is made by torch
    quick, whole = mode.detached(fake), fake.detach()
    assert look(quick) == look(whole) and vars(quick).keys() == vars(whole).keys()
    assert quick.untyped_storage()._cdata == fake.untyped_storage()._cdata
    with torch.no_grad(), mode:
        quick.unsqueeze_(0)
    assert fake._version == quick._version == whole._version == 1


@pytest.mark.parametrize("literal", [[], 1.5, True, [[1, 2], [3, 4]], float("nan")], ids=repr)
def test_literals_are_those_that_torch_makes(literal):
    def made(mode):
        with mode:
            first, second = torch.tensor(literal), torch.tensor(literal)
            return first, second, first + 1, second.zero_()

    ours, theirs = made(FakeMode()), made(FakeTensorMode())
    assert list(map(look, ours)) == list(map(look, theirs))
    for one, other in zip(ours, theirs, strict=True):
        assert (one.constant is None) is (other.constant is None)
        assert one.constant is None or torch.equal(one.constant.nan_to_num(7), other.constant.nan_to_num(7))
    assert ours[0].untyped_storage()._cdata != ours[1].untyped_storage()._cdata


def test_attention_is_looked_up_and_counts_as_drawn():
    mode = FakeMode()
    with mode:
        q = torch.empty(2, 3, 4, 8)
        given = [torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q) for _ in range(2)]
    assert mode.draws == 2 and [*map(look, given[0])] == [*map(look, given[1])]
    assert given[0][0].untyped_storage()._cdata != given[1][0].untyped_storage()._cdata
