"""What operations write, and their functional forms: by schema for all of ATen, by value for a broad table."""
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from codegen.aot.mutations import apply, counterpart, metadata_step, turns, writes, written
from codegen.aot.views import Step, Unwritable, is_view, put_back_chain, settle

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


def operations():
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if space in ("aten", "prims"):
            yield getattr(getattr(getattr(torch.ops, space), name), overload or "default")


WRITING = [func for func in operations() if written(func)]
METADATA = {func for func in WRITING if torch.Tag.inplace_view in func.tags}


# --- schemas ------------------------------------------------------------------------------------------------------------


WRITTEN = [
    (aten.add.Tensor, ()), (aten.add_.Tensor, (0,)), (aten.add.out, ("out",)), (aten.t.default, ()), (aten.copy_.default, (0,)),
    (aten.index_put_.default, (0,)), (aten.topk.values, ("values", "indices")), (aten._foreach_add_.List, (0,)), (aten._foreach_add.List, ()),
    (aten._foreach_add.List_out, ("out",)), (aten._fused_adam_.default, (0, 1, 2, 3, 4)), (aten._native_batch_norm_legit.default, (3, 4)),
    (aten._native_batch_norm_legit.no_stats, ()), (aten._native_batch_norm_legit_functional.default, ()), (aten.native_batch_norm.default, (3, 4)),
    (aten.native_batch_norm.out, (3, 4, "out", "save_mean", "save_invstd")), (aten.cudnn_batch_norm.default, (3, 4)), (aten.miopen_batch_norm.default, (3, 4)),
    (aten.batch_norm_update_stats.default, (1, 2)), (aten._native_batch_norm_legit_no_training.default, ()), (aten.native_batch_norm_backward.default, ()),
    (aten.rrelu_with_noise_.default, (0, 1)), (aten._amp_foreach_non_finite_check_and_unscale_.default, (0, 1)), (aten.set_.source_Tensor, (0,)),
]


@pytest.mark.parametrize("func, places", WRITTEN)
def test_written(func, places):
    assert written(func) == places


TARGETS = [
    (aten.add_.Tensor, aten.add.Tensor), (aten.add_.Scalar, aten.add.Scalar), (aten.add.out, aten.add.Tensor), (aten.div_.Tensor_mode, aten.div.Tensor_mode),
    (aten._foreach_add_.List, aten._foreach_add.List), (aten._foreach_add.List_out, aten._foreach_add.List), (aten.__ilshift__.Tensor, aten.__lshift__.Tensor),
    (aten.__iand__.Scalar, getattr(aten.__and__, "Scalar")), (aten._native_batch_norm_legit.default, aten._native_batch_norm_legit_functional.default),
    (aten.native_batch_norm.default, aten._native_batch_norm_legit_functional.default), (aten.index_put_.default, aten.index_put.default),
    (aten._index_put_impl_.default, aten._index_put_impl.default), (aten._fused_adam_.default, aten._fused_adam.default),
    (aten._fused_adam_.tensor_lr, aten._fused_adam.tensor_lr), (aten.copy_.default, aten.copy.default), (aten.fill_.Scalar, aten.fill.Scalar),
    (aten.fill_.Tensor, aten.fill.Tensor), (aten.zero_.default, aten.zero.default), (aten.bernoulli_.float, aten.bernoulli.p),
    (aten.bernoulli_.Tensor, aten.bernoulli.Tensor), (aten.normal_.default, aten.normal_functional.default), (aten.uniform_.default, aten.uniform.default),
    (aten.sum.IntList_out, aten.sum.dim_IntList), (aten.arange.start_out, aten.arange.start_step), (aten._to_copy.out, aten._to_copy.default),
    (aten.topk.values, aten.topk.default), (aten.max.dim_max, aten.max.dim), (aten.rrelu_with_noise_.default, aten.rrelu_with_noise_functional.default),
    (aten._amp_update_scale_.default, aten._amp_update_scale.default), (aten.scatter_.value_reduce, aten.scatter.value_reduce),
    (aten._fused_moving_avg_obs_fq_helper.default, aten._fused_moving_avg_obs_fq_helper_functional.default),
    (aten.cudnn_batch_norm.default, None), (aten.batch_norm_update_stats.default, None), (aten.polygamma_.default, None), (aten.t_.default, None),
    (aten.resize_.default, None), (aten.set_.source_Tensor, None), (aten.add.Tensor, None),
]


@pytest.mark.parametrize("func, target", TARGETS)
def test_counterpart(func, target):
    form = counterpart(func)
    assert (form and form.target) == target


@pytest.mark.parametrize("func, dropped, made_like, new, returns", [
    (aten.add_.Tensor, (), False, (0,), (0,)),
    (aten.topk.values, ("values", "indices"), False, (0, 1), (0, 1)),
    (aten.arange.out, ("out",), True, (0,), (0,)),
    (aten._foreach_add_.List, (), False, (0,), ()),
    (aten._native_batch_norm_legit.default, (), False, (3, 4), (0, 1, 2)),
    (aten._native_batch_norm_legit.out, ("out", "save_mean", "save_invstd"), False, (3, 4, 0, 1, 2), (0, 1, 2)),
    (aten._fused_adam_.default, (), False, (0, 1, 2, 3, 4), ()),
])
def test_what_a_counterpart_says(func, dropped, made_like, new, returns):
    form = counterpart(func)
    assert (form.dropped, form.made_like, form.new, form.returns) == (dropped, made_like, new, returns)


ONE, OTHER = torch.zeros(2), torch.ones(2)


@pytest.mark.parametrize("func, args, expected", [
    (aten._foreach_mul_.ScalarList, ([ONE, OTHER], [2, 3]), [[[ONE], [2]], [[OTHER], [3]]]),
    (aten._foreach_add_.Scalar, ((ONE, OTHER), 1), [[[ONE], 1], [[OTHER], 1]]),
    (aten._foreach_add_.Scalar, ([ONE], 1), []),
    (aten._foreach_add_.Scalar, ([ONE, torch.zeros(2, device="meta")], 1), []),
    (aten._foreach_addcmul_.Tensor, ([ONE, ONE], [ONE, ONE], [ONE, ONE], torch.ones(2)), []),
    (aten._foreach_add.Scalar, ([ONE, OTHER], 1), []),
    (aten.copy_.default, (ONE, OTHER), []),
])
def test_turns(func, args, expected):
    """The order in which a CPU goes through lists is known."""
    assert str(turns(func, args, {})) == str([(each, {}) for each in expected])


def kind(argument):
    """An optional statistic that is written is a tensor."""
    return str(argument.real_type).removeprefix("Optional[").removesuffix("]")


def test_counterparts_keep_to_their_schemas():
    """For all of ATen: nothing is written, nothing aliased, each written argument has a result of its own type."""
    count = 0
    for func in WRITING:
        form = counterpart(func)
        if form is None:
            continue
        count += 1
        target = form.target._schema
        assert not written(form.target) and not is_view(form.target) and not target.is_mutable, func
        arguments = {place: argument for place, argument in enumerate(func._schema.arguments) if not argument.kwarg_only}
        arguments |= {argument.name: argument for argument in func._schema.arguments if argument.kwarg_only}
        assert len(form.new) == len(set(form.new)) == len(written(func)), func
        for place, number in zip(written(func), form.new, strict=True):
            assert kind(arguments[place]) == kind(target.returns[number]), func
        assert [kind(r) for r in func._schema.returns] == [kind(target.returns[n]) for n in form.returns], func
        kept = [argument.name for argument in func._schema.arguments if argument.name not in form.dropped]
        assert len(kept) + 4 * form.made_like >= len(target.arguments) >= len(kept), func
    assert count > 1350


#: Nothing functional says the same; they are run on clones.
WITHOUT = {
    "_cummax_helper", "_cummin_helper", "_fill_mem_eff_dropout_mask_", "_flash_attention_forward_no_dropout_inplace", "_slow_conv2d_backward.grad_input",
    "_unsafe_view.out", "adaptive_avg_pool3d_backward.grad_input", "unsafe_split.Tensor_out", "unsafe_split_with_sizes.out",
    "batch_norm_update_stats", "batch_norm_update_stats.out", "cudnn_batch_norm", "cudnn_batch_norm.out", "miopen_batch_norm", "miopen_batch_norm.out",
    "polygamma_",  # polygamma takes its arguments the other way round
    "record_stream", "as_strided", "copy_to", "resize",  # the last three are prims
}


def test_all_others_have_one():
    without = {func for func in WRITING if counterpart(func) is None} - METADATA
    composite = {func for func in without if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")}
    assert {func.name().partition("::")[2] for func in without - composite} <= WITHOUT


# --- values -------------------------------------------------------------------------------------------------------------


def twin(value):
    if isinstance(value, torch.Tensor):
        return torch.empty(0, dtype=value.dtype).set_(value.untyped_storage().clone(), value.storage_offset(), value.size(), value.stride())
    return [twin(each) for each in value] if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value) else value


def f32(*size):
    return torch.linspace(-2, 2, torch.Size(size).numel()).view(size)


def i64(*size):
    return torch.arange(torch.Size(size).numel()).view(size) - 3


def out(*size, dtype=torch.float32):
    return {"out": torch.full(size, 7, dtype=dtype)}


def turned(value):
    return {"out": value["out"].t().contiguous().t()}


def gaps(value):
    return torch.stack([value, value + 1], -1)[..., 0]


BOOL = torch.tensor([True, False, True, False])
CALLS = [
    (aten.add_.Tensor, [f32(3, 4), f32(4)], {"alpha": 3}), (aten.add_.Tensor, [f32(3, 4).t(), f32(4, 3)], {}), (aten.add_.Tensor, [gaps(f32(3, 4)), f32(1, 4)], {}),
    (aten.add_.Scalar, [i64(5), 1], {}), (aten.add_.Tensor, [f32(4).half(), f32(4) / 3], {}), (aten.add_.Tensor, [f32(4).bfloat16(), f32(4).double() / 3], {}),
    (aten.mul_.Tensor, [f32(3, 4), i64(3, 4)], {}), (aten.mul_.Tensor, [f32(4), torch.tensor(3)], {}), (aten.sub_.Tensor, [i64(4).to(torch.int8), i64(4) * 100], {}),
    (aten.div_.Tensor_mode, [i64(5), torch.tensor(2)], {"rounding_mode": "floor"}), (aten.div_.Tensor, [f32(4).half(), i64(4) + 8], {}),
    (aten.pow_.Scalar, [f32(4), 2], {}), (aten.eq_.Tensor, [i64(4), i64(4) % 2], {}), (aten.lt_.Scalar, [f32(4), 0], {}), (aten.logical_not_.default, [f32(4).round()], {}),
    (aten.relu_.default, [f32(3, 4)], {}), (aten.clamp_.default, [f32(4), -1, 1], {}), (aten.addcmul_.default, [f32(4), f32(4), f32(4)], {"value": 2}),
    (aten.masked_fill_.Scalar, [f32(3, 4), BOOL, 9], {}), (aten.masked_scatter_.default, [f32(3, 4), BOOL, f32(20)], {}),
    (aten.index_put_.default, [f32(3, 4), [None, torch.tensor([0, 0, 3])], f32(3, 3)], {}), (aten.index_put_.default, [f32(4), [torch.tensor([1, 1])], f32(2), True], {}),
    (aten.index_add_.default, [f32(3, 4), 1, torch.tensor([0, 2]), f32(3, 2)], {"alpha": 2}), (aten.index_fill_.int_Scalar, [f32(4, 3).t(), 0, torch.tensor([1]), 5], {}),
    (aten.scatter_.src, [f32(3, 4), 1, torch.tensor([[0, 3], [1, 2]]), f32(2, 2)], {}), (aten.scatter_add_.default, [f32(3, 4), 0, torch.tensor([[0, 0, 2, 2]]), f32(1, 4)], {}),
    (aten.copy_.default, [f32(3, 4), i64(4)], {}), (aten.copy_.default, [i64(3, 4).t(), f32(4, 3)], {}), (aten.copy_.default, [f32(4), f32(4) * 2], {}),
    (aten.fill_.Scalar, [gaps(f32(3, 4)), 2], {}), (aten.fill_.Tensor, [f32(4), torch.tensor(3)], {}), (aten.zero_.default, [f32(4, 3).t()], {}),
    (aten.cumsum_.default, [i64(4).int(), 0], {}), (aten.cumprod_.default, [f32(3, 4).half(), 1], {}), (aten.tril_.default, [f32(3, 3)], {}), (aten.exp_.default, [f32(1)[0]], {}),
    (aten.baddbmm_.default, [f32(2, 3, 3), f32(2, 3, 4), f32(2, 4, 3)], {}), (aten.addmm_.default, [f32(3, 3).t().round(), f32(3, 2).round(), f32(2, 3).round()], {"beta": 2}),
    (aten.lerp_.Scalar, [f32(0, 3), f32(0, 3), 0.5], {}), (aten.polygamma_.default, [f32(4) + 5, 2], {}), (aten.add_.Tensor, [torch.complex(f32(4), f32(4)), f32(4)], {}),
    (aten.add.out, [f32(3, 4), f32(4)], out(3, 4)), (aten.add.out, [f32(3, 4), f32(4)], turned(out(3, 4))), (aten.add.out, [f32(4), i64(4)], out(4, dtype=torch.float64)),
    (aten.add.out, [f32(4), f32(4)], out(4, dtype=torch.float16)), (aten.mm.out, [f32(3, 2), f32(2, 4)], turned(out(3, 4))), (aten.eq.Tensor_out, [f32(4), f32(4)], out(4)),
    (aten.sum.IntList_out, [f32(3, 400) * 1e6 + 1, [1]], out(3, dtype=torch.float64)), (aten.sum.IntList_out, [i64(3, 4), [0]], out(4)), (aten.mean.out, [f32(3, 4).half(), [1]], out(3)),
    (aten.cumsum.out, [f32(400) / 3, 0], out(400, dtype=torch.float64)), (aten.prod.int_out, [f32(3, 4), 1], out(3, dtype=torch.float64)), (aten.cumsum.out, [f32(4), 0], out(4) | {"dtype": torch.float32}),
    (aten.topk.values, [f32(3, 4), 2], {"values": torch.zeros(3, 2), "indices": torch.zeros(3, 2, dtype=torch.int64)}),
    (aten.max.dim_max, [f32(3, 4), 1], {"max": torch.zeros(3), "max_values": torch.zeros(3, dtype=torch.int64)}),
    (aten.arange.start_out, [1, 9, 2], out(4)), (aten.arange.start_out, [1, 9, 2], out(4, dtype=torch.int32)), (aten.full.out, [[2, 3], 4], turned(out(2, 3, dtype=torch.int64))),
    (aten.cat.out, [[f32(2, 3), i64(1, 3)]], out(3, 3)), (aten._foreach_add_.List, [[f32(3), f32(2, 2).t()], [f32(3), i64(2, 2)]], {"alpha": 2}),
    (aten._foreach_mul_.Scalar, [[f32(3), i64(2)], 2], {}), (aten._foreach_add.List_out, [[f32(3)], [f32(3)]], {"out": [torch.zeros(3)]}), (aten._foreach_copy_.default, [[f32(3), f32(2)], [i64(3), f32(2) * 2]], {}),
    (aten._native_batch_norm_legit.default, [f32(5, 4), f32(4), f32(4), f32(4), f32(4) + 3, True, 0.1, 1e-5], {}),
    (aten._native_batch_norm_legit.default, [f32(5, 4), f32(4), f32(4), f32(4), f32(4) + 3, False, 0.1, 1e-5], {}),
    (aten.native_batch_norm.default, [f32(5, 4), f32(4), f32(4), f32(4), f32(4) + 3, True, 0.1, 1e-5], {}),
    (aten.native_batch_norm.default, [f32(5, 4), f32(4), f32(4), f32(4), f32(4) + 3, False, 0.1, 1e-5], {}),
    (aten.native_batch_norm.default, [f32(5, 4), None, None, None, None, True, 0.1, 1e-5], {}),
    (aten.batch_norm_update_stats.default, [f32(5, 4), f32(4), f32(4), 0.1], {}),
    (aten._fused_adam_.default, [[f32(4)], [f32(4)], [f32(4)], [f32(4).abs()], [], [torch.tensor(3.0)]],
     {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-6, "amsgrad": False, "maximize": False}),
    (aten._cummax_helper.default, [f32(4), torch.zeros(4), torch.zeros(4, dtype=torch.int64), 0], {}), (aten.fill_diagonal_.default, [f32(3, 4).t(), 5], {}),
    (aten._amp_update_scale_.default, [torch.tensor(2.0), torch.tensor(1, dtype=torch.int32), torch.tensor(0.0), 2.0, 0.5, 2], {}),
]


def ident(case):
    return case.name() if isinstance(case, torch._ops.OpOverload) else ""


def flat(value):
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, (list, tuple)) else [value]


def same(got, wanted):
    for one, other in zip(flat(got), flat(wanted), strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def against_eager(func, args, kwargs):
    """What the call returns, leaves and keeps: as the operation itself does it to copies of the same geometry."""
    before, named = [twin(a) for a in args], {name: twin(value) for name, value in kwargs.items()}
    real, real_named = [twin(a) for a in args], {name: twin(value) for name, value in kwargs.items()}
    state, writer = torch.get_rng_state(), Eager()
    outcome = apply(writer, func, args, kwargs)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    wanted = func(*real, **real_named)
    assert torch.equal(after, torch.get_rng_state())
    same(outcome.result, wanted)
    changed = writes(func, real, real_named)
    assert outcome.new.keys() == changed.keys()
    for place, new in outcome.new.items():
        same(new, changed[place])
        for old, one, other in zip(flat([writes(func, args, kwargs)[place]]), flat([new]), flat([changed[place]]), strict=True):
            root = put_back_chain(Eager(), old, (), one)
            assert root.stride() == other.stride()
    same([args, *kwargs.values()], [before, *named.values()])
    return writer, outcome


@pytest.mark.parametrize("func, args, kwargs", CALLS, ids=ident)
def test_a_call_without_its_writes(func, args, kwargs):
    writer, _ = against_eager(func, args, kwargs)
    form = counterpart(func)
    if form is not None and form.target in writer.calls:
        assert not any(isinstance(each, torch._ops.OpOverload) and each._schema.is_mutable for each in writer.calls)


def test_statistics_are_written_in_training_only():
    assert [writes(aten.native_batch_norm.default, [f32(5, 4), None, None, f32(4), f32(4), training, 0.1, 1e-5], {}).keys() for training in (True, False)] == [{3, 4}, set()]
    assert not writes(aten.native_batch_norm.default, [f32(5, 4), None, None, None, None, True, 0.1, 1e-5], {})


RANDOM = [
    (aten.bernoulli_.float, (0.4,)), (aten.uniform_.default, (0.0, 2.0)), (aten.normal_.default, (1.0, 2.0)), (aten.exponential_.default, ()),
    (aten.random_.default, ()), (aten.random_.to, (10,)), (aten.log_normal_.default, ()), (aten.geometric_.default, (0.5,)), (aten.cauchy_.default, ()),
]
FILLED = [lambda: torch.ones(6, 40), lambda: torch.ones(40, 6).t(), lambda: torch.ones(6, 80)[:, ::2], lambda: torch.ones(80, 6)[::2].t(),
          lambda: torch.ones(2, 3, 8, 5).to(memory_format=torch.channels_last), lambda: torch.ones(241)[1:].view(6, 40)]


@pytest.mark.parametrize("func, args", RANDOM, ids=ident)
@pytest.mark.parametrize("filled", FILLED)
def test_random_numbers_are_drawn_in_the_order_of_memory(func, args, filled):
    against_eager(func, [filled(), *args], {})


@pytest.mark.parametrize("func, args", [
    (aten.randn.out, ([6, 40],)), (aten.rand.out, ([6, 40],)), (aten.bernoulli.out, (torch.full((6, 40), 0.5),)), (aten.randint.out, (10, [6, 40])),
    (aten.normal.Tensor_float_out, (torch.ones(6, 40), 1.0)), (aten.rand_like.out, (torch.ones(6, 40),)),
], ids=ident)
@pytest.mark.parametrize("filled", [FILLED[i] for i in (0, 1, 2, 3, 5)])
def test_random_numbers_are_drawn_into_what_is_given(func, args, filled):
    against_eager(func, list(args), {"out": filled()})


def test_a_noise_that_is_written_too():
    against_eager(aten.rrelu_with_noise_.default, [f32(3, 4), torch.zeros(3, 4), 0.1, 0.3, True], {})


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_of_another_size_is_refused():
    with pytest.raises(Unwritable, match=r"sizes \[3, 4\] become \[4\]"):
        apply(Eager(), aten.add.out, [f32(4), f32(4)], {"out": torch.zeros(3, 4)})


def settled(func, args, kwargs):
    new, old = apply(Eager(), func, args, kwargs).new, writes(func, args, kwargs)
    return [settle(Eager(), *pair) for place in new for pair in zip(flat([old[place]]), flat([new[place]]), strict=True)]


@pytest.mark.parametrize("func, args, kwargs", CALLS, ids=ident)
def test_fake_tensors_tell_the_same_geometry(func, args, kwargs):
    """A recorder runs on fakes what a graph runs for real. (Up to torch 2.12 a fake `zero` is contiguous until settled.)"""
    real = settled(func, args, kwargs)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    faked = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
    with mode:
        got = settled(func, *faked)
    assert [(t.dtype, t.shape, t.stride()) for t in got] == [(t.dtype, t.shape, t.stride()) for t in real]


# --- changes of geometry alone ------------------------------------------------------------------------------------------


STEPS = [
    (aten.t_.default, (), Step(aten.t.default)), (aten.transpose_.default, (0, 1), Step(aten.transpose.int, (0, 1))), (aten.unsqueeze_.default, (0,), Step(aten.unsqueeze.default, (0,))),
    (aten.squeeze_.default, (), Step(aten.squeeze.default)), (aten.squeeze_.dim, (0,), Step(aten.squeeze.dim, (0,))), (aten.squeeze_.dims, ([0, 1],), Step(aten.squeeze.dims, ((0, 1),))),
    (aten.detach_.default, (), Step(aten.detach.default)), (aten.as_strided_.default, ([2], [3], 5), Step(aten.as_strided.default, ((2,), (3,), 4))),
    (aten.swapaxes_.default, (0, 1), Step(aten.swapaxes.default, (0, 1))), (aten.resize_.default, ([2],), None), (aten.set_.source_Tensor, (f32(3),), None),
    (aten.set_.default, (), None), (aten.resize_as_.default, (f32(3),), None), (aten.add_.Tensor, (f32(4),), None),
]


@pytest.mark.parametrize("func, args, step", STEPS, ids=ident)
def test_metadata_step(func, args, step):
    assert metadata_step(func, (f32(13)[1:].view(3, 4), *args)) == step


def test_every_change_of_geometry_was_tried():
    tried = {func for func, _, _ in STEPS}
    assert {func for func in METADATA if func._schema.name.partition("::")[2] not in ("set_", "swapdims_", "rename_") and func._overloadname != "dimname"} <= tried
