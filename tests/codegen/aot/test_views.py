"""Every view, written through functionally, against the write itself through the view itself."""
import itertools
import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from codegen.aot import views
from codegen.aot.views import (
    ROWS,
    Step,
    Unwritable,
    is_view,
    put_back,
    put_back_chain,
    replay,
    replay_chain,
    settle,
    step_of,
)

aten, prims = torch.ops.aten, torch.ops.prims


class Eager:
    """Runs what is emitted, and keeps a list of it."""
    def __init__(self):
        self.calls = []

    def emit(self, func, *args, **kwargs):
        self.calls.append(func)
        return func(*args, **kwargs)

    def meta(self, value):
        return value


def twin(tensor):
    """The same elements with the same geometry in memory of their own."""
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage().clone(), tensor.storage_offset(), tensor.size(), tensor.stride())


def numbers(*size, dtype=torch.float32):
    count = torch.Size(size).numel()
    return torch.arange(count, dtype=torch.float32).view(size).to(dtype)


def fresh(view):
    """New elements for a view, in strides of their own."""
    values = numbers(*view.shape).add_(1000).to(view.dtype)
    if view.dtype.is_complex:
        values = values + 1j * (values + 500)
    return values


BASES = {
    "contiguous": lambda: numbers(4, 6),
    "transposed": lambda: numbers(6, 4).t(),
    "gaps": lambda: numbers(4, 12)[:, ::2],
    "rows apart": lambda: numbers(8, 6)[::2],
    "offset": lambda: numbers(5, 6)[1:],
    "length 1": lambda: numbers(1, 6),
    "length 1, odd stride": lambda: numbers(40)[::1].as_strided((1, 6), (17, 1)),
    "one column": lambda: numbers(4, 6)[:, 2:3],
    "empty": lambda: numbers(0, 6),
    "1d": lambda: numbers(12),
    "1d steps": lambda: numbers(25)[1::2],
    "0d": lambda: numbers(),
    "3d": lambda: numbers(2, 4, 6),
    "3d permuted": lambda: numbers(4, 6, 2).permute(2, 0, 1),
    "3d ones": lambda: numbers(1, 4, 1),
    "channels last": lambda: numbers(2, 4, 3, 6).to(memory_format=torch.channels_last),
    "complex": lambda: torch.complex(numbers(4, 6), numbers(4, 6) - 7),
    "complex transposed": lambda: torch.complex(numbers(6, 4), numbers(6, 4) - 7).t(),
    "pairs": lambda: numbers(4, 3, 2),
    "pairs with gaps": lambda: numbers(4, 6, 2)[:, ::2],
    "int64": lambda: numbers(4, 6, dtype=torch.int64),
    "int16": lambda: numbers(4, 8, dtype=torch.int16),
}
#: func, arguments after the viewed tensor, result
CASES = [
    (aten.alias.default, (), None), (aten.detach.default, (), None), (aten.lift_fresh.default, (), None), (prims.view_of.default, (), None),
    (aten.t.default, (), None),
    (aten.transpose.int, (0, 1), None), (aten.transpose.int, (-1, 0), None), (aten.transpose.int, (-2, -1), None),
    (aten.permute.default, ((1, 0),), None), (aten.permute.default, ((-1, 0, 1),), None), (aten.permute.default, ((2, 0, -2),), None),
    (aten.permute.default, ((0, 2, 3, 1),), None), (aten.permute.default, ((),), None),
    (aten.view.default, ((24,),), None), (aten.view.default, ((2, 2, 6),), None), (aten.view.default, ((4, -1, 2),), None),
    (aten.view.default, ((8, 6),), None), (aten.view.default, ((1, 4),), None), (aten.view.default, ((),), None), (aten.view.default, ((1, 1),), None),
    (aten.view.default, ((2, 4, 18),), None), (aten.view.default, ((0, 2, 3),), None), (aten.view.default, ((3, 4),), None), (aten.view.default, ((2, 3, 2),), None),
    (aten._unsafe_view.default, ((24,),), None), (aten._reshape_alias.default, ((2, 12), (12, 1)), None),
    (aten.squeeze.default, (), None), (aten.squeeze.dim, (0,), None), (aten.squeeze.dim, (-1,), None), (aten.squeeze.dims, ((0, -1),), None),
    (aten.unsqueeze.default, (0,), None), (aten.unsqueeze.default, (-1,), None), (aten.unsqueeze.default, (1,), None),
    (aten.expand.default, ((4, 6),), None), (aten.expand.default, ((1, 4, 6),), None), (aten.expand.default, ((-1, 6),), None),
    (aten.expand.default, ((1, 1, 12),), None), (aten.expand.default, ((0, 6),), None), (aten.expand.default, ((1, 1),), None),
    (aten.select.int, (0, 0), None), (aten.select.int, (1, -1), None), (aten.select.int, (-1, 2), None), (aten.select.int, (2, 1), None),
    (aten.slice.Tensor, (), None), (aten.slice.Tensor, (0, 1), None), (aten.slice.Tensor, (1, 1, 5, 2), None), (aten.slice.Tensor, (-1, -4, -1), None),
    (aten.slice.Tensor, (0, 3, 1), None), (aten.slice.Tensor, (0, None, 2), None), (aten.slice.Tensor, (0, -3, 9223372036854775807, 3), None),
    (aten.diagonal.default, (), None), (aten.diagonal.default, (1,), None), (aten.diagonal.default, (-2, 1, 0), None), (aten.diagonal.default, (0, 0, -1), None),
    (aten.as_strided.default, ((2, 3), (6, 2)), None), (aten.as_strided.default, ((3,), (7,), 2), None), (aten.as_strided.default, ((), (), 0), None),
    (aten.as_strided.default, ((0, 3), (1, 1)), None), (aten.as_strided.default, ((6, 4), (1, 6)), None),
    *[(aten.split.Tensor, (4, 1), i) for i in (0, 1)], *[(aten.split.Tensor, (2,), i) for i in (0, 1)], (aten.split.Tensor, (3, -1), 1),
    (aten.unsafe_split.Tensor, (4, 1), 1), *[(aten.split_with_sizes.default, ((1, 0, 3),), i) for i in (0, 1, 2)],
    (aten.split_with_sizes.default, ((1, 3, 2), -1), 2), (aten.unsafe_split_with_sizes.default, ((1, 5), 1), 1),
    (aten.unbind.int, (), 0), (aten.unbind.int, (1,), 3), (aten.unbind.int, (-1,), 1),
    (aten._conj.default, (), None), (aten._neg_view.default, (), None), (aten.view_as_real.default, (), None), (aten.view_as_complex.default, (), None),
    (aten.view.dtype, (torch.int32,), None), (aten.view.dtype, (torch.int64,), None), (aten.view.dtype, (torch.uint8,), None), (aten.view.dtype, (torch.float16,), None),
    (aten.unfold.default, (0, 2, 2), None), (aten.unfold.default, (1, 2, 3), None), (aten.unfold.default, (-1, 1, 1), None),
    (aten.narrow.default, (1, 1, 3), None), (aten.movedim.int, (0, 1), None), (aten.chunk.default, (3, 1), 2), (aten.tensor_split.sections, (4,), 1),
    (aten.unflatten.int, (0, (2, 2)), None), (aten.flatten.using_ints, (1,), None), (aten.mT.default, (), None),
    (prims.broadcast_in_dim.default, ((1, 4, 6), (1, 2)), None), (prims.transpose.default, ((1, 0),), None), (prims.squeeze.default, ((0,),), None),
    (prims.split_dim.default, (0, 2), None), (prims.collapse_view.default, (0, 1), None),
]
#: Called by torch itself only, unchecked, where this holds.
SAFE = {aten._reshape_alias.default: lambda t: t.is_contiguous() and t.numel() == 24, aten._conj.default: torch.is_complex}


def call(tensor, func, args, index):
    result = func(tensor, *args)
    return result if index is None else result[index]


def same(got, wanted):
    assert (got.dtype, got.size(), got.stride()) == (wanted.dtype, wanted.size(), wanted.stride())
    assert not got.is_conj() and not got.is_neg()
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


def legal(base, func, args, index):
    """Whether the base has this view, and eager code can write through it."""
    if not SAFE.get(func, torch.is_tensor)(base):
        return False
    try:
        view = call(base, func, args, index)
        call(twin(base), func, args, index).copy_(fresh(view))
    except (RuntimeError, IndexError, AssertionError, ValueError):
        return False
    return view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


COMBINATIONS = [(name, case) for name in BASES for case in CASES if legal(BASES[name](), *case)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", BASES)
def test_a_write_through_a_view(name):
    """Also on fake tensors: they must tell the geometry that real ones have."""
    done = [case for base, case in COMBINATIONS if base == name]
    assert done
    for func, args, index in done:
        base, eager = BASES[name](), twin(BASES[name]())
        before, view = twin(base), call(base, func, args, index)
        if views._overlaps(base.size(), base.stride()) or (func is aten.as_strided.default and not inside(base, view)):
            with pytest.raises(Unwritable):
                put_back(Eager(), base, step_of(func, (base, *args), {}, index), fresh(view))
            continue
        call(eager, func, args, index).copy_(fresh(view))
        step = step_of(func, (base, *args), {}, index)
        for value in values(view):
            got = put_back(Eager(), base, step, value)
            same(got, eager)
            torch.testing.assert_close(replay(Eager(), got, step), value, rtol=0, atol=0, equal_nan=True)
            same(base, before)
        mode = FakeTensorMode()
        with mode:
            fake, new = mode.from_tensor(base), mode.from_tensor(fresh(view))
            got = put_back(Eager(), fake, step, new)
        assert (got.dtype, got.size(), got.stride()) == (base.dtype, base.size(), base.stride())


def values(view):
    """The new elements in several strides: contiguous, the other way round, with gaps."""
    value = fresh(view)
    turned = tuple(reversed(range(value.dim())))
    return value, value.permute(turned).contiguous().permute(turned), torch.stack([value, value], -1)[..., 0]


def inside(base, view):
    order = sorted(range(base.dim()), key=lambda d: (base.stride(d), base.size(d)), reverse=True)
    dense = base.permute(order).is_contiguous()
    start = view.storage_offset() - base.storage_offset()
    last = start + sum((n - 1) * s for n, s in zip(view.size(), view.stride(), strict=True))
    return view.numel() == 0 or (dense and 0 <= start and last < base.numel())


def test_each_case_met_a_base_that_has_it():
    assert {case for _, case in COMBINATIONS} == set(CASES)


def all_views():
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if space in ("aten", "prims"):
            func = getattr(getattr(getattr(torch.ops, space), name), overload or "default")
            if is_view(func) and not torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"):
                yield func


#: By their geometry, tried above or below; and what no strided tensor has.
GENERIC = {aten.unfold.default, prims.broadcast_in_dim.default, prims.transpose.default, prims.squeeze.default, prims.split_dim.default, prims.collapse_view.default}
REFUSED = {
    aten._indices.default, aten._values.default, aten.indices.default, aten.values.default, aten.ccol_indices.default, aten.col_indices.default,
    aten.crow_indices.default, aten.row_indices.default, aten._sparse_broadcast_to.default, aten._nested_get_values.default,
    aten._nested_view_from_buffer.default, aten._nested_view_from_jagged.default, aten._fw_primal.default, aten._make_dual.default,
    aten._test_autograd_multiple_dispatch_view.default, aten.slice_inverse.default, prims.conj.default, prims.imag.default, prims.real.default,
    prims.view_of_dtype.default,
}


def test_every_view_below_autograd_is_accounted_for():
    found = set(all_views())
    assert found - set(ROWS) - GENERIC - REFUSED == set()
    assert not set(ROWS) & (GENERIC | REFUSED)
    assert all(map(is_view, ROWS))
    tried = {func for func, _, _ in CASES}
    assert set(ROWS) | GENERIC <= tried


@pytest.mark.parametrize("func", [aten.add.Tensor, aten.add_.Tensor, aten.t_.default, aten.add.out, aten.clone.default, aten.view_copy.default, aten.split_copy.Tensor])
def test_what_is_no_view(func):
    assert not is_view(func)


# --- refusals -----------------------------------------------------------------------------------------------------------


REFUSALS = [
    ("repeats elements", lambda: numbers(1, 6), [(aten.expand.default, ((4, 6),), None)]),
    ("repeats elements", lambda: numbers(6), [(aten.expand.default, ((4, 6),), None)]),
    ("share memory", lambda: numbers(6), [(aten.unfold.default, (0, 3, 1), None)]),
    ("share memory", lambda: numbers(6), [(aten.as_strided.default, ((3, 3), (1, 1)), None)]),
    ("share memory", lambda: numbers(4, 1).expand(4, 6), [(aten.select.int, (1, 0), None)]),
    ("outside of its base", lambda: numbers(12)[:6], [(aten.as_strided.default, ((6,), (2,)), None)]),
    ("outside of its base", lambda: numbers(12)[6:], [(aten.as_strided.default, ((6,), (1,), 0), None)]),
    ("outside of its base", lambda: numbers(4, 12)[:, ::2], [(aten.as_strided.default, ((3,), (12,)), None)]),
    ("reads the elements as others", lambda: torch.complex(numbers(4), numbers(4)), [(aten.real.default, (), None)]),
    ("reads the elements as others", lambda: torch.complex(numbers(4), numbers(4)), [(prims.conj.default, (), None)]),
    ("reads the elements as others", lambda: numbers(6), [(aten.view.dtype, (torch.int32,), None), (aten.slice.Tensor, (0, 0, 2), None), (aten.as_strided.default, ((4,), (1,)), None)]),
    ("gave a copy", lambda: numbers(6, 4).t(), [(aten.reshape.default, ((24,),), None)]),
    ("isn't strided", lambda: numbers(3, 3).to_sparse(), [(aten._values.default, (), None)]),
]


@pytest.mark.parametrize("text, base, chain", REFUSALS)
def test_refusals_say_why(text, base, chain):
    root = base()
    steps, view = follow(root, chain)
    with pytest.raises(Unwritable, match=text):
        put_back_chain(Eager(), root, steps, fresh(view))


def test_a_value_of_other_sizes_is_refused():
    with pytest.raises(Unwritable, match=r"sizes \[3\] for a tensor of sizes \[4\]"):
        settle(Eager(), numbers(4), numbers(3))
    with pytest.raises(Unwritable):
        settle(Eager(), numbers(4), numbers(1, 4))


# --- chains -------------------------------------------------------------------------------------------------------------


def follow(root, chain):
    steps, view = [], root
    for func, args, index in chain:
        steps.append(step_of(func, (view, *args), {}, index))
        view = call(view, func, args, index)
    return steps, view


CHAINS = [
    # what a repeating view shows twice changes twice
    (lambda: numbers(1, 4), [(aten.expand.default, ((3, 4),), None), (aten.select.int, (0, 1), None)]),
    (lambda: numbers(8), [(aten.unfold.default, (0, 3, 1), None), (aten.select.int, (0, 2), None)]),
    (lambda: numbers(8), [(aten.slice.Tensor, (0, 2), None), (aten.unfold.default, (0, 3, 1), None), (aten.select.int, (1, 1), None), (aten.slice.Tensor, (0, 1, 3), None)]),
    (lambda: numbers(8), [(aten.as_strided.default, ((3, 3), (1, 1)), None), (aten.diagonal.default, (), None)]),
    # reaches what only the root holds
    (lambda: numbers(4, 6), [(aten.select.int, (0, 1), None), (aten.as_strided.default, ((3,), (7,), 2), None)]),
    (lambda: numbers(4, 6), [(aten.slice.Tensor, (0, 2), None), (aten.as_strided.default, ((6,), (1,), 0), None), (aten.slice.Tensor, (0, 1, None, 2), None)]),
    # other dtypes on the way
    (lambda: numbers(6), [(aten.view.dtype, (torch.int16,), None), (aten.as_strided.default, ((2, 3), (3, 1), 4), None)]),
    (lambda: torch.complex(numbers(4, 6), numbers(4, 6)), [(aten.view_as_real.default, (), None), (aten.select.int, (-1, 1), None), (aten.slice.Tensor, (1, 1), None)]),
    (lambda: torch.complex(numbers(6, 4), numbers(6, 4)).t(), [(aten._conj.default, (), None), (aten.view_as_real.default, (), None)][:1] + [(aten.select.int, (0, 1), None)]),
    (lambda: numbers(4, 6), [(aten.view.dtype, (torch.int16,), None), (aten.slice.Tensor, (1, 3, 9, 2), None)]),
    (lambda: numbers(2, 4, 3, 6).to(memory_format=torch.channels_last), [(aten.view.default, ((2, 4, 18),), None), (aten.transpose.int, (1, 2), None), (aten.select.int, (1, 5), None)]),
    (lambda: numbers(4, 6), []),
    (lambda: numbers(6, 4).t(), []),
]


@pytest.mark.parametrize("base, chain", CHAINS)
def test_a_write_through_a_chain(base, chain):
    root, eager = base(), twin(base())
    steps, view = follow(root, chain)
    follow(eager, chain)[1].copy_(fresh(view))
    got = put_back_chain(Eager(), root, steps, fresh(view))
    same(got, eager)
    assert torch.equal(replay_chain(Eager(), got, steps), fresh(view))


def random_step(rng, view):
    """Some view that this tensor has, as func, args, index."""
    dims, dim = view.dim(), rng.randrange(view.dim()) if view.dim() else 0
    length = view.size(dim) if dims else 0
    choices = [(aten.unsqueeze.default, (rng.randint(-dims - 1, dims),), None), (aten.alias.default, (), None), (aten.squeeze.default, (), None)]
    if dims:
        start = rng.randint(-length - 1, length)
        choices += [
            (aten.slice.Tensor, (dim, start, rng.choice([None, start + 2, length, -1]), rng.choice([1, 1, 2, 3])), None),
            (aten.permute.default, (tuple(rng.sample(range(dims), dims)),), None),
            (aten.transpose.int, (dim, rng.randrange(dims) - dims), None),
            (aten.view.default, ((-1,),), None),
            (aten.view.default, ((*view.shape[:-1], 1, view.shape[-1]),), None),
            (aten.expand.default, ((rng.choice([1, 1, 2]), *view.shape),), None),
            (aten.squeeze.dim, (dim,), None),
            (aten.unfold.default, (dim, min(2, length), rng.choice([1, 2])), None),
        ]
    if dims and length:
        size = rng.randint(1, length)
        pieces = rng.randrange(-(-length // size))
        choices += [
            (aten.select.int, (dim, rng.randint(-length, length - 1)), None),
            (aten.split.Tensor, (size, dim), pieces),
            (aten.split_with_sizes.default, ((size, length - size), dim), rng.randrange(2)),
            (aten.unbind.int, (dim,), rng.randrange(length)),
        ]
    if dims > 1:
        choices.append((aten.diagonal.default, (rng.randint(-1, 1), *rng.sample(range(dims), 2)), None))
    return rng.choice(choices)


def shares_places(view):
    """Brute force: whether two elements are one place in memory."""
    places = [sum(i * s for i, s in zip(at, view.stride(), strict=True)) for at in itertools.product(*map(range, view.size()))]
    return len(set(places)) != len(places)


@pytest.mark.parametrize("seed", range(8))
def test_random_chains(seed):
    rng, written = random.Random(seed), 0
    for _ in range(120):
        root = BASES[rng.choice([name for name in BASES if "odd" not in name])]()
        chain, view = [], root
        for _ in range(rng.randint(2, 4)):
            step = random_step(rng, view)
            try:
                view = call(view, *step)
            except RuntimeError:  # a view that this geometry doesn't have
                continue
            chain.append(step)
        steps, view = follow(root, chain)
        if views._overlaps(view.size(), view.stride()):
            with pytest.raises(Unwritable):
                put_back_chain(Eager(), root, steps, fresh(view))
            continue
        assert not shares_places(view)
        eager, before = twin(root), twin(root)
        follow(eager, chain)[1].copy_(fresh(view))
        value = rng.choice(values(view))
        got = put_back_chain(Eager(), root, steps, value)
        same(got, eager)
        same(root, before)
        assert torch.equal(replay_chain(Eager(), got, steps), value), steps
        written += 1
    assert written > 60


# --- the parts ----------------------------------------------------------------------------------------------------------


def geometries():
    rng = random.Random(0)
    for _ in range(400):
        size = [rng.choice([0, 1, 2, 3, 4, 6]) if rng.random() < 0.9 else 1 for _ in range(rng.randint(0, 4))]
        tensor = torch.empty(rng.sample(size, len(size)), device="meta").permute(rng.sample(range(len(size)), len(size)))
        yield tensor[..., :: rng.choice([1, 1, 2])] if size else tensor


def test_what_can_be_viewed():
    rng, yes, no = random.Random(1), 0, 0
    for tensor in geometries():
        count = tensor.numel()
        for wanted in ([count], [1, count], [rng.choice([d for d in range(1, count + 1) if count % d == 0] or [1]), -1], list(tensor.shape), [*tensor.shape[:-1], 1, *tensor.shape[-1:]]):
            if -1 in wanted:
                wanted[1] = count // wanted[0]
            try:
                tensor.view(wanted)
                able = True
            except RuntimeError:
                able = False
            assert views._viewable(tensor.size(), tensor.stride(), wanted) == able, (tensor.size(), tensor.stride(), wanted)
            yes, no = yes + able, no + (not able)
    assert yes > 200 and no > 50


def test_no_overlap_is_missed():
    rng, apart = random.Random(2), 0
    for _ in range(2000):
        dims = rng.randint(0, 3)
        view = torch.empty(200, device="meta").as_strided([rng.randint(0, 4) for _ in range(dims)], [rng.randint(0, 13) for _ in range(dims)])
        if not views._overlaps(view.size(), view.stride()):
            assert not shares_places(view)
            apart += 1
    assert apart > 200


SETTLED = [
    (torch.float32, (3, 4), (4, 1)), (torch.float64, (3, 4), (1, 3)), (torch.float16, (3, 4), (8, 2)), (torch.int32, (2, 3, 4, 5), (60, 1, 15, 3)),
    (torch.float32, (1, 4), (9, 1)), (torch.float32, (4, 1), (1, 1)), (torch.float32, (0, 3), (3, 1)), (torch.float32, (0, 3), (1, 1)), (torch.bool, (), ()),
    (torch.complex64, (3, 4), (1, 3)), (torch.float32, (2, 1, 3), (3, 50, 1)), (torch.float32, (2, 1, 5, 1), (5, 1, 1, 1)),
]


@pytest.mark.parametrize("dtype, size, stride", SETTLED)
@pytest.mark.parametrize("given", [torch.float32, torch.int64])
def test_settle_is_what_a_copy_leaves(dtype, size, stride, given):
    old = torch.empty_strided(size, stride, dtype=dtype).zero_()
    for value in [*values(torch.empty(size, dtype=given)), numbers(*[1] * len(size), dtype=given) + 3, numbers(dtype=given) + 5]:
        same(settle(Eager(), old, value), twin(old).copy_(value))
        assert old.eq(0).all()


def test_settle_leaves_alone_what_is_settled():
    writer, value = Eager(), numbers(3, 4)
    assert settle(writer, numbers(3, 4), value) is value and not writer.calls
    settle(writer, numbers(4, 3).t(), value)
    assert writer.calls == [aten.permute.default, aten.clone.default, aten.permute.default]


def test_several_results_come_of_one_operation():
    writer, base, seen = Eager(), numbers(4, 6), {}
    parts = [replay(writer, base, step_of(aten.split.Tensor, (base, 2), {}, index), seen) for index in (0, 1)]
    assert [torch.equal(p, w) for p, w in zip(parts, base.split(2), strict=True)] == [True, True]
    assert writer.calls.count(aten.split.Tensor) == 1
    replay(writer, numbers(4, 6), step_of(aten.split.Tensor, (base, 2), {}, 0), seen)
    assert writer.calls.count(aten.split.Tensor) == 2


def test_as_strided_moves_with_its_base():
    base = numbers(12)[2:]
    step = step_of(aten.as_strided.default, (base, [2, 2], [4, 1], 3), {})
    assert torch.equal(replay(Eager(), numbers(10) + 2, step), base.as_strided([2, 2], [4, 1], 3))


TEXTS = [
    (step_of(aten.select.int, (numbers(4), 0, 1), {}), "select(dim=0, index=1)"),
    (step_of(aten.t.default, (numbers(4),), {}), "t()"),
    (step_of(aten.split.Tensor, (numbers(4), 2), {"dim": 0}, 1), "split(split_size=2, dim=0)[1]"),
    (step_of(aten.view.dtype, (numbers(4), torch.int32), {}), "view(dtype=torch.int32)"),
    (step_of(aten.expand.default, (numbers(4), [2, 4]), {"implicit": False}), "expand(size=(2, 4), implicit=False)"),
    (step_of(aten.as_strided.default, (numbers(4)[1:], [2], [1], 2), {}), "as_strided(size=(2,), stride=(1,), storage_offset=1)"),
]


@pytest.mark.parametrize("step, text", TEXTS)
def test_text(step, text):
    assert str(step) == text
    assert step == Step(step.func, step.args, step.kwargs, step.index) and hash(step) == hash(Step(step.func, step.args, step.kwargs, step.index))


def test_steps_of_different_operations_differ():
    steps = [Step(aten.squeeze.default), Step(aten.alias.default), Step(aten.detach.default), Step(aten.select.int, (0, 1)), Step(aten.select.int, (1, 0)),
             Step(aten.unbind.int, (0,), (), 0), Step(aten.unbind.int, (0,), (), 1)]
    assert len(set(steps)) == len(steps)


SYMBOLIC = [
    lambda b, n: (aten.slice.Tensor, (b, 0, 0, n - 1), None),
    lambda b, n: (aten.view.default, (b, [n * 6]), None),
    lambda b, n: (aten.view.default, (b, [n, 2, 3]), None),
    lambda b, n: (aten.select.int, (b, 0, n - 1), None),
    lambda b, n: (aten.split_with_sizes.default, (b, [2, n - 2]), 1),
    lambda b, n: (aten.transpose.int, (b, 0, 1), None),
    lambda b, n: (aten.as_strided.default, (b, [n], [6], n - n + 1), None),
    lambda b, n: (aten.unsqueeze.default, (b, 0), None),
    lambda b, n: (aten.diagonal.default, (b,), None),
]


@pytest.mark.parametrize("make", SYMBOLIC)
def test_sizes_stay_symbolic(make):
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    base = mode.from_tensor(numbers(5, 6), symbolic_context=context)
    func, args, index = make(base, base.shape[0])
    with mode:
        step = step_of(func, args, {}, index)
        view = replay(Eager(), base, step)
        hash(step)
        got = put_back(Eager(), base, step, torch.ones(view.shape))
    assert got.shape[0].node.expr == base.shape[0].node.expr and got.stride() == base.stride()
    assert not env.replacements  # no size became a number
